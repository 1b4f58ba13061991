/* The tables of a program: what is common to all ranks, and each class's parameters. */
#include "../../runtime/flow_rt.h"
#include "../cost/cluster.h"
#include "../cost/predict.h"
#include "../target.h"
#include "call.h"
#include "emitter.h"
#include <string.h>

/* What the tables hold at most is what the compiler takes at most. */
_Static_assert(MAX_DIM == (int)FL_MAX_DIM && MAX_AXIS == (int)FL_MAX_AXIS && MAX_STACK == (int)FL_MAX_STACK,
               "limits of the compiler and of the runtime");

/* "{.path = .., .type = FL_F32, .ndim = 2, .dim = {{size, phys, nsplit, {axes}}, ..}}", splits major to minor. */
const char *tensor_text(const struct mesh *mesh, const char *path, enum type type, int ndim, struct dim *const *dim,
                        const struct layout *lay)
{
    const char *s = mem_printf("{%s, %s, %d, {", c_string(path), type_word(type), ndim);
    for (int d = 0; d < ndim; d++) {
        const char *axes = "";
        int count = 0;
        for (int order = 0; order < MAX_AXIS; order++)
            for (int a = 0; a < mesh->naxis; a++)
                if (lay->ax[a].kind == SBP_S && lay->ax[a].dim == d && lay->ax[a].order == order &&
                    mesh->axis[a].size > 1)
                    axes = mem_printf("%s%s%d", axes, count++ ? ", " : "", a);
        s = mem_printf("%s%s{%lld, %lld, %d, {%s}}", s, d ? ", " : "", (long long)dim[d]->size, (long long)dim[d]->phys,
                       count, count ? axes : "0");
    }
    return mem_printf("%s}}", ndim ? s : mem_printf("%s{0}", s));
}

struct item { enum entry entry; const char *name; struct value *value; };

static void find(struct region *r, const struct op *op, enum entry entry, struct item **list)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->body)
            find(n->body, op, entry, list);
        if (n->op != op)
            continue;
        const char *name = node_str(n, "name");
        bool known = false;
        for (int k = 0; k < arrlen(*list); k++)
            known |= (*list)[k].entry == entry && !strcmp((*list)[k].name, name);
        if (!known)
            arrput(*list, ((struct item){entry, name, op == &op_input ? n->out[0] : n->in[0]}));
    }
}

/* Inputs or outputs of all entries, as the stage programs have them; a value on several stages is listed once. */
static struct item *items(const struct module *m, const struct op *op)
{
    const struct physical *p = m->physical;
    struct item *list = NULL;
    for (int e = 0; e < ENTRIES; e++)
        for (int s = 0; s < p->nstage; s++) {
            struct root *roots = stage_roots(&p->stages[s], (enum entry)e);
            for (int i = 0; i < arrlen(roots); i++)
                find(roots[i].region, op, (enum entry)e, &list);
        }
    return list;
}

static int index_in(const struct module *m, const struct op *op, enum entry entry, const char *name)
{
    struct item *list = items(m, op);
    for (int i = 0; i < arrlen(list); i++)
        if (list[i].entry == entry && !strcmp(list[i].name, name))
            return i;
    BUG("no table entry for '%s'", name);
}

int output_index(const struct module *m, enum entry entry, const char *name)
{
    return index_in(m, &op_output, entry, name);
}

int input_index(const struct module *m, enum entry entry, const char *name)
{
    return index_in(m, &op_input, entry, name);
}

static const char *entry_text(enum entry e)
{
    static const char *const name[ENTRIES] = {"FL_TRAIN", "FL_EVALUATE", "FL_SAMPLE"};
    return name[e];
}

/* Data bindings: those of train, then those of evaluate, which reads like train when it has none of its own. */
struct bound { enum entry entry; const struct data_binding *data; };
static struct bound *bindings(const struct module *m)
{
    struct bound *list = NULL;
    for (int i = 0; i < arrlen(m->train.data); i++)
        arrput(list, ((struct bound){ENTRY_TRAIN, &m->train.data[i]}));
    struct data_binding *own = arrlen(m->evaluate.data) ? m->evaluate.data : m->train.data;
    for (int i = 0; i < arrlen(own) && m->graph[ENTRY_EVALUATE]; i++)
        arrput(list, ((struct bound){ENTRY_EVALUATE, &own[i]}));
    return list;
}

static const char *truth(bool b)
{
    return b ? "true" : "false";
}

static void emit_inputs(struct module *m, FILE *to)
{
    struct item *list = items(m, &op_input);
    struct bound *data = bindings(m);
    fputs("static const struct fl_input inputs[] = {\n", to);
    for (int i = 0; i < arrlen(list); i++) {
        int binding = -1, part = 0;
        for (int b = 0; b < arrlen(data) && list[i].entry != ENTRY_SAMPLE; b++)
            for (int k = 0; k < data[b].data->ninput; k++)
                if (data[b].entry == list[i].entry && !strcmp(data[b].data->inputs[k], list[i].name)) {
                    binding = b;
                    part = k;
                }
        const struct value *v = list[i].value;
        fprintf(to, "    {%s, %s, %s, %d, %d},\n", entry_text(list[i].entry), c_string(list[i].name),
                tensor_text(m->physical->mesh, list[i].name, v->type, v->ndim, v->dim, &v->lay), binding, part);
    }
    fputs("    {FL_TRAIN, NULL, {NULL, FL_F32, 0, {{0}}}, -1, 0},\n};\n", to);
    for (int b = 0; b < arrlen(data); b++) {
        const struct data_file *file = data[b].data->files;
        fprintf(to, "static const struct fl_data_file data_files_%d[] = {", b);
        for (int f = 0; f < arrlen(file); f++)
            fprintf(to, "%s{%s, %s, %.17g}", f ? ", " : "", c_string(file[f].name), c_string(file[f].mask), file[f].weight);
        fputs("};\n", to);
    }
#define READER(id, name, gives, after, elements) "FL_READER_" #id,
    static const char *const reader[] = {FL_READERS(READER)};
#undef READER
#define ELEMENT(id, name, bytes) "FL_ELEMENT_" #id,
    static const char *const element[] = {FL_ELEMENTS(ELEMENT)};
#undef ELEMENT
    fputs("static const struct fl_data data[] = {\n", to);
    for (int b = 0; b < arrlen(data); b++) {
        const struct data_binding *d = data[b].data;
        fprintf(to, "    {%s, %s, %s, %d, data_files_%d, %s, %s, %.17g, %.17g, %lld, %s,\n     %.17g, %.17g, %s, %lld, %s, "
                "%lld},\n", entry_text(data[b].entry), reader[d->reader], element[d->element], (int)arrlen(d->files), b,
                truth(d->weighted), truth(d->shuffle), d->low, d->high, (long long)d->limit, c_string(span_where(d->span)),
                d->scale, d->shift, truth(d->has_ignore), (long long)d->ignore, truth(d->has_blank), (long long)d->blank);
    }
    fputs("    {FL_TRAIN, FL_READER_RAW, FL_ELEMENT_U8, 0, NULL, false, false, 0, 1, 0, NULL, 1, 0, false, 0, false, 0},\n};\n",
          to);
    list = items(m, &op_output);
    fputs("static const struct fl_output_spec outputs[] = {\n", to);
    for (int i = 0; i < arrlen(list); i++) {
        const struct value *v = list[i].value;
        fprintf(to, "    {%s, %s, %s},\n", entry_text(list[i].entry), c_string(list[i].name),
                tensor_text(m->physical->mesh, list[i].name, v->type, v->ndim, v->dim, &v->lay));
    }
    fprintf(to, "    {FL_TRAIN, NULL, {NULL, FL_F32, 0, {{0}}}},\n};\n");
}

static void emit_comms(const struct physical *p, FILE *to)
{
    for (int i = 0; i < arrlen(p->comms); i++) {
        const int *stages = p->comms[i].stages;
        if (arrlen(stages))
            fprintf(to, "static const int comm_stages_%d[] = {", i);
        for (int s = 0; s < arrlen(stages); s++)
            fprintf(to, "%d%s", stages[s], s + 1 < arrlen(stages) ? ", " : "};\n");
    }
    fputs("static const struct fl_comm_spec comms[] = {\n", to);
    for (int i = 0; i < arrlen(p->comms); i++) {
        const struct comm *c = &p->comms[i];
        fprintf(to, "    {%s, %uu, %d, %s},\n", c_string(c->name), c->axes, (int)arrlen(c->stages),
                arrlen(c->stages) ? mem_printf("comm_stages_%d", i) : "NULL");
    }
    fputs("    {NULL, 0u, 0, NULL},\n};\nstatic const struct fl_link_spec links[] = {\n", to);
    for (int i = 0; i < arrlen(p->links); i++) {
        const struct link *l = &p->links[i];
        fprintf(to, "    {%s, %d, %d, %lld, %d, %d},\n", c_string(l->what), l->from, l->to,
                (long long)value_local_bytes(l->sent, p->mesh), l->slots_sent, l->slots_received);
    }
    fputs("    {NULL, 0, 0, 0, 1, 1},\n};\n", to);
}

static void strings(FILE *to, const char *name, const char **list)
{
    fprintf(to, "static const char *const %s[] = {", name);
    for (int i = 0; i < arrlen(list); i++)
        fprintf(to, "%s, ", c_string(list[i]));
    fputs("NULL};\n", to);
}

void emit_program(struct module *m, FILE *to)
{
    const struct physical *p = m->physical;
    const struct mesh *mesh = p->mesh;
    const struct train_spec *t = &m->train;
    const struct precision *x = &m->plan->precision;
    fprintf(to, "/* %s, plan %s: what is common to all ranks. Written by flowc. */\n#include \"flow_rt.h\"\n\n",
            c_comment(m->options->file), c_comment(m->plan->name));
    emit_inputs(m, to);
    emit_comms(p, to);
    strings(to, "ignored", m->files.ignore);
    strings(to, "prefixes", m->files.prefix);
    struct item *inputs = items(m, &op_input);
    int64_t tokens = 0;
    for (int i = 0; i < arrlen(inputs) && !tokens; i++)
        tokens = value_count(inputs[i].value);
    fprintf(to, "\nconst struct fl_program_spec fl_program = {\n    .name = %s, .plan = %s, .nranks = %d,\n"
            "    .naxis = %d,\n", c_string(m->options->file), c_string(m->plan->name), mesh->nranks, mesh->naxis);
    if (m->options->spoil)
        fprintf(to, "    .spoilt = %s,\n", c_string(m->options->spoil));
    const char *names = "", *sizes = "", *strides = "";
    for (int a = 0; a < mesh->naxis; a++) {
        const char *comma = a ? ", " : "";
        names = mem_printf("%s%s%s", names, comma, c_string(mesh->axis[a].name));
        sizes = mem_printf("%s%s%d", sizes, comma, mesh->axis[a].size);
        strides = mem_printf("%s%s%d", strides, comma, mesh->axis[a].time ? 0 : mesh->axis[a].stride);
    }
    fprintf(to, "    .axis_name = {%s},\n    .axis_size = {%s},\n    .axis_stride = {%s},\n    .pipe = %d, .mb = %d, "
            ".microbatches = %d,\n", names, sizes, strides, mesh->pipe, mesh->mb, mesh->axis[mesh->mb].size);
    fprintf(to, "    .ncomm = %d, .comm = comms, .comm_streams = %d,\n    .nlink = %d, .link = links,\n    .ninput = %d, .input = inputs,\n"
            "    .ndata = %d, .data = data,\n    .noutput = %d, .output = outputs,\n", (int)arrlen(p->comms),
            comm_streams(p), (int)arrlen(p->links), (int)arrlen(inputs), (int)arrlen(bindings(m)), (int)arrlen(items(m, &op_output)));
#define LR(id, name, rate) "FL_LR_" #id,
    static const char *const lr[] = {FL_LR_KINDS(LR)};
#undef LR
    fprintf(to, "    .train = %s, .steps = %lld, .tokens = %lld,\n    .lr = %s, .lr_peak = %.17g, .lr_floor = %.17g, "
            ".lr_warmup = %lld, .lr_decay = %lld, .skips = %s, .seed = %lluu,\n", m->graph[ENTRY_TRAIN] && t->present ? "true" : "false",
            (long long)t->steps, (long long)tokens, lr[t->lr_kind], t->lr_peak, t->lr_floor, (long long)t->lr_warmup,
            (long long)t->lr_decay, truth(train_skips(m)), (unsigned long long)t->seed);
    if (x->loss_scale > 0)
        fprintf(to, "    .loss_scale = %.17g, .growth_interval = %lld,\n", x->loss_scale, (long long)x->growth_interval);
    const struct cluster *c = mesh->cluster;               /* the text must not depend on this machine: no guess for `cpu` */
    bool known = !target_of(m)->here || (c && c != cluster_default());
    fprintf(to, "    .flops = %.17g, .peak_flops = %.17g,\n", step_flops(m), known ? peak_flops(m) : 0);
    const struct evaluate_spec *v = &m->evaluate;
    fprintf(to, "    .evaluate = %s, .evaluate_every = %lld, .evaluate_steps = %lld,\n",
            m->graph[ENTRY_EVALUATE] ? "true" : "false", (long long)v->every, (long long)v->steps);
    const struct sample_spec *s = &m->sample;
    fprintf(to, "    .sample = %s, .sample_prompt = %s, .sample_prompt_bytes = -1,\n    .sample_tokens = %lld, "
            ".sample_top_k = %lld, .sample_every = %lld,\n    .sample_temperature = %.17g, .sample_output = %s,\n",
            m->graph[ENTRY_SAMPLE] ? "true" : "false", c_string(s->prompt), (long long)s->tokens, (long long)s->top_k,
            (long long)s->every, s->temperature, c_string(s->output ? s->output : "logits"));
    fprintf(to, "    .nignore = %d, .ignore = ignored,\n    .nprefix = %d, .prefix = prefixes,\n};\n",
            (int)arrlen(m->files.ignore), (int)arrlen(m->files.prefix));
}

/* The range number k of the parameter on the stage, or NULL. Several are there when several chunks hold blocks of it. */
static struct buffer *buffer_of(const struct stage *s, const struct param *q, int k)
{
    for (int i = 0; i < arrlen(s->buffers); i++)
        if (s->buffers[i]->param == q && k-- == 0)
            return s->buffers[i];
    return NULL;
}

/* How many entries it has in the table of every class: the most ranges that any stage holds. */
static int ranges_of(const struct physical *p, const struct param *q)
{
    int most = 1;
    for (int s = 0; s < p->nstage; s++)
        while (buffer_of(&p->stages[s], q, most))
            most++;
    return most;
}

/* Which blocks of each repeat around it this stage has: "{0, 2}" and "{4, 1}". */
static void held_text(const struct param *q, const struct buffer *b, const char **first, const char **count)
{
    const struct region *chain[MAX_DIM] = {NULL};
    int depth = 0;
    for (const struct region *r = b ? b->values[0]->region : NULL; r && r->parent; r = r->parent)
        chain[depth++] = r;
    *first = *count = "";
    for (int k = 0; k < arrlen(q->stack); k++) {
        const struct region *r = b ? chain[depth - 1 - k] : NULL;
        *first = mem_printf("%s%s%lld", *first, k ? ", " : "", r ? (long long)r->first : 0LL);
        *count = mem_printf("%s%s%lld", *count, k ? ", " : "", r ? (long long)r->count : 0LL);
    }
    if (!arrlen(q->stack)) {
        *first = "0";
        *count = b ? "1" : "0";
    }
}

/* What it is called in weight files, for emit_param. */
static void emit_file_names(const struct param *q, FILE *to)
{
    for (int k = 0; k < arrlen(q->file_names); k++)
        fprintf(to, "%s%s", k ? ", " : mem_printf("static const char *const file_names_%d[] = {", q->index), c_string(q->file_names[k]));
    fputs(arrlen(q->file_names) ? "};\n" : "", to);
}

static void emit_param(struct module *m, struct stage *s, const struct param *q, int range, FILE *to)
{
    static const char *const init[] = {"FL_ZEROS", "FL_ONES", "FL_CONSTANT", "FL_NORMAL", "FL_UNIFORM"};
    const struct buffer *b = buffer_of(s, q, range);
    bool owner = b;                                        /* of several stages that hold it whole: the first */
    for (int i = 0; i < s->index && !arrlen(q->stack); i++)
        owner = owner && !buffer_of(&m->physical->stages[i], q, 0);
    const char *stack = "", *shape = "", *order = "", *first, *count;
    held_text(q, b, &first, &count);
    for (int d = 0; d < arrlen(q->stack); d++)
        stack = mem_printf("%s%s%lld", stack, d ? ", " : "", (long long)q->total[d]);
    for (int d = 0; d < arrlen(q->file_shape); d++)
        shape = mem_printf("%s%s%lld", shape, d ? ", " : "", (long long)q->file_shape[d]);
    for (int d = 0; d < arrlen(q->file_order); d++)
        order = mem_printf("%s%s%d", order, d ? ", " : "", q->file_order[d]);
    fprintf(to, "    {%s,\n     %d, {%s}, {%s}, {%s}, %lld, ",
            tensor_text(m->physical->mesh, q->path, q->type, q->ndim, q->dim, &q->lay), (int)arrlen(q->stack),
            *stack ? stack : "0", first, count, b ? (long long)b->offset : 0LL);
    const char *flat = "";
    unsigned axes = layout_flat(&q->lay, m->physical->mesh);
    for (int a = 0; a < MAX_AXIS; a++)
        if (axes >> a & 1)
            flat = mem_printf("%s%s%d", flat, *flat ? ", " : "", a);
    fprintf(to, "%s, %lld, %d, {%s}, ", b && b->host ? "true" : "false", b && b->shares ? (long long)b->elements : 0LL, __builtin_popcount(axes),
            *flat ? flat : "0");
    fprintf(to, "%s, %.17g, %.17g, %s, %s, ", init[q->init], q->init_a, q->init_b, truth(q->is_state && q->of),
            owner ? "true" : "false");
    int names = (int)arrlen(q->file_names);
    fprintf(to, "%d, %s, %d, {%s}, %s, {%s}, %s},\n", names, names ? mem_printf("file_names_%d", q->index) : "NULL",
            (int)arrlen(q->file_shape), *shape ? shape : "0", truth(*order), *order ? order : "0",
            truth(q->of && q->of->average == q));
}

void emit_class_table(struct emitter *e, FILE *to)
{
    struct module *m = e->m;
    struct stage *s = e->s;
    fputs("/* ---- tables ---- */\n\n", to);
    for (int i = 0; i < arrlen(m->params); i++)
        emit_file_names(m->params[i], to);
    fputs("static const struct fl_param params[] = {\n", to);
    int entries = 0;
    for (int i = 0; i < arrlen(m->params); i++)
        for (int k = 0; k < ranges_of(m->physical, m->params[i]); k++, entries++)
            emit_param(m, s, m->params[i], k, to);
    fputs("    {{NULL, FL_F32, 0, {{0}}}, 0, {0}, {0}, {0}, 0, false, 0, 0, {0}, FL_ZEROS, 0, 0, false, false, 0, NULL, 0, {0}, false, {0}, "
          "false},\n};\n\n", to);
    fputs("static const struct fl_room rooms[] = {", to);
    for (int i = 0; i <= arrlen(m->physical->comms); i++)
        fprintf(to, "%s{%lldL, %lldL}", i ? ", " : "", (long long)s->rooms[i].first, (long long)s->rooms[i].second);
    fputs("};\n\n", to);
    fprintf(to, "FL_C_LINKAGE const struct fl_class fl_class_%d;\nconst struct fl_class fl_class_%d = {%d, %lldL, %lldL, "
            "%d, params, {", s->index, s->index, s->index, (long long)s->arena_bytes, (long long)s->host_bytes, entries);
    for (int k = 0; k < ENTRIES; k++)
        fprintf(to, "%s%s", k ? ", " : "", m->graph[k] ? mem_printf("%s_step", entry_name[k]) : "NULL");
    fprintf(to, "}, %d, nodes, gone, rooms};\n", (int)arrlen(e->seen));
}
