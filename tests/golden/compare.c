/* compare [--rounded] [--steps N] RUN.json METRICS.jsonl [FINAL.safetensors EXPORT.safetensors]: does a training run equal
 * the reference?
 * Tolerances (float64 reference, f32 run): |loss - ref| <= 5e-6, norm within 2e-5 relative, lr within 1e-6 relative at
 * every step, final weights within 5e-5 absolute. The key third of each qkv bias is left out: its true gradient is zero
 * (softmax does not see a shift of all scores), so Adam there amplifies rounding to steps of size lr.
 * With --steps N only the first N steps are compared (and no weights). With --rounded the run computes in bf16, which has 8
 * bits: loss within 0.1 %, norm within 1 %, weights within 5e-3, a few of the steps that Adam makes of noise. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
static bool rounded;

static void check(double got, double want, double tolerance, const char *what, int step)
{
    if (fabs(got - want) <= tolerance)
        return;
    printf("%s at step %d: %.9g, reference %.9g, difference %.3g over %.3g\n", what, step, got, want, fabs(got - want),
           tolerance);
    failures++;
}

static json_t *must(json_t *j, const char *what)
{
    if (!j) {
        printf("cannot read %s\n", what);
        exit(1);
    }
    return j;
}

struct weights {
    json_t *header;
    const char *data;
};

static struct weights open_weights(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint64_t n;
    if (!f || fread(&n, 8, 1, f) != 1) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    char *all = malloc((size_t)size);
    rewind(f);
    if (!all || fread(all, 1, (size_t)size, f) != (size_t)size)
        exit(1);
    fclose(f);
    json_error_t error;
    struct weights w = {must(json_loadb(all + 8, n, 0, &error), path), all + 8 + n};
    return w;
}

static double compare_weights(const char *want_path, const char *got_path)
{
    struct weights want = open_weights(want_path), got = open_weights(got_path);
    const char *name;
    json_t *entry;
    double worst = 0;
    json_object_foreach(want.header, name, entry) {
        if (!strcmp(name, "__metadata__"))
            continue;
        json_t *other = json_object_get(got.header, name);
        if (!other || !json_equal(json_object_get(entry, "shape"), json_object_get(other, "shape"))) {
            printf("%s is missing from %s, or has another shape\n", name, got_path);
            failures++;
            continue;
        }
        json_t *a = json_object_get(entry, "data_offsets"), *b = json_object_get(other, "data_offsets");
        int64_t from = json_integer_value(json_array_get(a, 0)), to = json_integer_value(json_array_get(a, 1));
        const float *x = (const float *)(want.data + from);
        const float *y = (const float *)(got.data + json_integer_value(json_array_get(b, 0)));
        int64_t count = (to - from) / 4, low = count, high = count;
        if (strstr(name, "attn.c_attn.bias") || strstr(name, "qkv_bias")) {
            low = count / 3;
            high = 2 * low;
        }
        for (int64_t i = 0; i < count; i++) {
            if (i >= low && i < high)
                continue;
            double d = fabs((double)x[i] - (double)y[i]);
            if (!(d <= (rounded ? 5e-3 : 5e-5))) {
                printf("%s[%lld]: %.9g, reference %.9g\n", name, (long long)i, y[i], x[i]);
                failures++;
                break;
            }
            worst = d > worst ? d : worst;
        }
    }
    return worst;
}

int main(int argc, char **argv)
{
    int limit = 0;
    if (argc > 1 && !strcmp(argv[1], "--rounded")) {
        rounded = true;
        argc--;
        argv++;
    }
    if (argc > 2 && !strcmp(argv[1], "--steps")) {
        limit = atoi(argv[2]);
        argc -= 2;
        argv += 2;
    }
    if (argc != 3 && argc != 5)
        return 2;
    json_error_t error;
    json_t *steps = json_object_get(must(json_load_file(argv[1], 0, &error), argv[1]), "steps");
    FILE *f = fopen(argv[2], "r");
    if (!f) {
        printf("cannot read %s\n", argv[2]);
        return 1;
    }
    char line[4096];
    int k = 0;
    double worst_loss = 0, worst_norm = 0;
    while (fgets(line, sizeof line, f)) {
        json_t *got = must(json_loads(line, 0, &error), argv[2]), *want = json_array_get(steps, (size_t)k);
        if (!json_object_get(got, "loss"))
            continue;
        if (!want || (limit && k >= limit))
            break;
        double loss = json_number_value(json_object_get(want, "loss"));
        double norm = json_number_value(json_object_get(want, "grad_norm"));
        double lr = json_number_value(json_object_get(want, "lr"));
        double got_loss = json_number_value(json_object_get(got, "loss"));
        double got_norm = json_number_value(json_object_get(got, "grad_norm"));
        k++;
        check(got_loss, loss, rounded ? 1e-3 * loss : 5e-6, "loss", k);
        check(got_norm, norm, (rounded ? 1e-2 : 2e-5) * norm, "grad_norm", k);
        check(json_number_value(json_object_get(got, "lr")), lr, 1e-6 * lr, "lr", k);
        worst_loss = fmax(worst_loss, fabs(got_loss - loss));
        worst_norm = fmax(worst_norm, fabs(got_norm - norm) / norm);
    }
    int want_steps = limit ? limit : (int)json_array_size(steps);
    if (k != want_steps) {
        printf("%d steps were compared, the reference has %d\n", k, want_steps);
        failures++;
    }
    double worst = argc == 5 ? compare_weights(argv[3], argv[4]) : 0;
    printf("%d steps: loss within %.2g, norm within %.2g, weights within %.2g; %d failures\n", k, worst_loss, worst_norm,
           worst, failures);
    return failures != 0;
}
