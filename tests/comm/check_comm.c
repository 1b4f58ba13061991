/* check_comm RULE.. <JSON: counts the communication of a training step in the output of --emit=comm,json.
 *
 *     block:forward:all_reduce:tp=2     in every block and micro-batch, forward: two all-reduces over tp ..
 *     step:update:all_reduce:dp=1       in a whole step, update phase: one call over dp; "*" stands for any kind or phase
 *     block:*:type=f32[N*T, D]          every communication in a block is of such a tensor: starts and ends so
 *
 * Prints each rule that does not hold, with the lines it counted. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *text(const json_t *record, const char *name)
{
    const char *s = json_string_value(json_object_get(record, name));
    return s ? s : "";
}

static long number(const json_t *record, const char *name)
{
    return (long)json_integer_value(json_object_get(record, name));
}

static bool matches(const char *word, const char *value)
{
    return !strcmp(word, "*") || !strcmp(word, value);
}

static void show(const json_t *record)
{
    printf("    %s %s %s over %s: %s %s, %ld times in %ld blocks\n", text(record, "where"), text(record, "phase"),
           text(record, "kind"), text(record, "axis"), text(record, "value"), text(record, "type"),
           number(record, "times"), number(record, "blocks"));
}

static bool type_fits(const char *pattern, const char *type)
{
    const char *star = strchr(pattern, '*');
    size_t before = (size_t)(star - pattern), after = strlen(star + 1), n = strcspn(type, "+");
    return n >= before + after && !strncmp(pattern, type, before) && !strncmp(type + n - after, star + 1, after);
}

static bool hold(const json_t *root, const char *rule)
{
    char place[16] = "", phase[16] = "", kind[32] = "", axis[32] = "", type[64] = "";
    int want = 0, n = 0;
    bool typed = sscanf(rule, "%15[^:]:%15[^:]:type=%63[^\n]%n", place, phase, type, &n) == 3 && !rule[n];
    if (!typed && sscanf(rule, "%15[^:]:%15[^:]:%31[^:]:%31[^=]=%d", place, phase, kind, axis, &want) != 5) {
        printf("cannot read the rule %s\n", rule);
        return false;
    }
    bool in_block = !strcmp(place, "block");
    double count = 0;
    for (int turn = 0; turn < 2; turn++) {           /* the second time to show what was counted */
        size_t i;
        json_t *record;
        json_array_foreach(json_object_get(root, "communication"), i, record) {
            if (strcmp(text(record, "entry"), "train") || !matches(phase, text(record, "phase")) ||
                (in_block && number(record, "blocks") < 2))
                continue;
            if (typed ? type_fits(type, text(record, "type"))
                      : !matches(kind, text(record, "kind")) || !matches(axis, text(record, "axis")))
                continue;
            count += typed ? 1 : (double)number(record, "times") /
                     (double)(in_block ? number(record, "blocks") * number(root, "microbatches") : 1);
            if (turn)
                show(record);
        }
        if (turn == 0 && count == want)
            return true;
        if (turn == 0)
            printf("%s does not hold: %g\n", rule, count);
    }
    return false;
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *root = json_loadf(stdin, 0, &error);
    if (!root) {
        printf("no JSON: %s\n", error.text);
        return 1;
    }
    int status = 0;
    for (int i = 1; i < argc; i++)
        if (!hold(root, argv[i]))
            status = 1;
    json_decref(root);
    return status;
}
