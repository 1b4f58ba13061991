/* Graphs: the calls that a capture has recorded, each with those it comes after, and nothing else. A launch runs them in
 * any order that this allows, so an edge that a capture lacks shows as wrong numbers under some seed. Arguments are those
 * of the capture: what a program changes on the host afterwards, a replay does not see. */
#include "twin.h"
#include <memory>

struct call {
    const char *what;
    twin_maker make;
    twin_frontier after;
};
struct twin_graph { std::vector<call> calls; };
struct twin_graph_exec { std::shared_ptr<const twin_graph> graph; };

static twin_graph recording;

int twin_capture_add(const char *what, twin_maker make, const twin_frontier &after)
{
    recording.calls.push_back({what, std::move(make), after});
    return (int)recording.calls.size() - 1;
}

bool twin_capture_reaches(const twin_frontier &from, const twin_frontier &to)
{
    std::vector<bool> seen(recording.calls.size());
    for (int k : from)
        seen[(size_t)k] = true;
    for (size_t k = seen.size(); k-- > 0;)           /* a call comes after earlier ones only */
        for (int before : recording.calls[k].after)
            if (seen[k])
                seen[(size_t)before] = true;
    for (int k : to)
        if (!seen[(size_t)k])
            return false;
    return true;
}

cudaGraph_t twin_capture_end(void)
{
    twin_graph *g = new twin_graph(std::move(recording));
    recording = {};
    return g;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    *exec = new twin_graph_exec{std::make_shared<const twin_graph>(*graph)};
    return cudaSuccess;
}

/* One launch: how far it is. */
struct launch {
    std::shared_ptr<const twin_graph> graph;
    std::vector<twin_step> step;
    std::vector<int> ready;
    std::vector<int> missing;            /* of each call: calls before it that have not ended */
    std::vector<std::vector<int>> then;
    size_t left;
};

static std::shared_ptr<launch> launch_of(const twin_graph_exec *exec)
{
    auto l = std::make_shared<launch>();
    size_t n = exec->graph->calls.size();
    l->graph = exec->graph;
    l->left = n;
    l->missing.resize(n);
    l->then.resize(n);
    for (size_t k = 0; k < n; k++) {
        const call &c = exec->graph->calls[k];
        l->step.push_back(c.make());
        l->missing[k] = (int)c.after.size();
        for (int before : c.after)
            l->then[(size_t)before].push_back((int)k);
        if (c.after.empty())
            l->ready.push_back((int)k);
    }
    return l;
}

/* Every call that may run is tried, one drawn after the other, until none of them goes on. */
static bool advance(launch &l)
{
    for (size_t tried = 0; tried < l.ready.size();) {
        size_t i = tried + twin_random(l.ready.size() - tried);
        int k = l.ready[i];
        if (!l.step[(size_t)k]()) {
            std::swap(l.ready[i], l.ready[tried++]);
            continue;
        }
        l.ready.erase(l.ready.begin() + (long)i);
        for (int next : l.then[(size_t)k])
            if (--l.missing[(size_t)next] == 0)
                l.ready.push_back(next);
        l.left--;
        twin_progress();
    }
    return l.left == 0;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    twin_refuse_in_capture("cudaGraphLaunch");
    auto l = launch_of(exec);
    twin_enqueue(stream, "cudaGraphLaunch", [l] { return advance(*l); });
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    twin_drain();
    delete exec;
    return cudaSuccess;
}
