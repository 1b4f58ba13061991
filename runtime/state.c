/* What belongs to a run beside its tensors: where it reads, and numbers by name. It stands in the manifest. */
#include "state.h"
#include "check.h"
#include "checkpoint.h"
#include "reader.h"
#include "report.h"
#include <stdlib.h>
#include <string.h>

static struct scalar { const char *name; double *value; } *scalars;
static int nscalar;

void fl_checkpoint_scalar(const char *name, double *value)
{
    scalars = realloc(scalars, (size_t)(nscalar + 1) * sizeof *scalars);
    if (!scalars)
        FL_FAIL(NULL, "out of memory");
    scalars[nscalar++] = (struct scalar){ name, value };
}

json_t *fl_state_scalars(void)
{
    json_t *object = json_object();
    for (int i = 0; i < nscalar; i++)
        json_object_set_new(object, scalars[i].name, json_real(*scalars[i].value));
    return object;
}

/* A number that only other plans know, as the loss scale of f16, goes from one checkpoint to the next. */
static void carry_on(const char *name, double value)
{
    double *kept = fl_alloc((int64_t)sizeof *kept);
    *kept = value;
    fl_checkpoint_scalar(fl_printf("%s", name), kept);
}

static void take_scalars(json_t *object)
{
    const char *name;
    json_t *v;
    json_object_foreach(object, name, v) {
        int i = 0;
        while (i < nscalar && strcmp(scalars[i].name, name))
            i++;
        if (i < nscalar)
            *scalars[i].value = json_number_value(v);
        else
            carry_on(name, json_number_value(v));
    }
}

/* Where the data of a step begin, as the manifest has them: of each data of train its place, and its epoch. */
static struct { int64_t step; json_t *positions, *epochs, *held; } loaded = { .step = -1 };

/* At the step that was loaded they are as they were, whether the data have been opened since or not. */
json_t *fl_state_positions(int64_t done, bool epochs)
{
    if (done == loaded.step)
        return json_deep_copy(epochs ? loaded.epochs : loaded.positions);
    json_t *list = json_array();
    fl_reader_seek(FL_TRAIN, done);
    for (int i = 0; i < fl_program.ndata; i++) {
        struct fl_position p = fl_reader_position(i);
        if (fl_program.data[i].entry == FL_TRAIN)
            json_array_append_new(list, json_integer(epochs ? p.epoch : p.at));
    }
    return list;
}

json_t *fl_state_held(void)
{
    json_t *list = json_array();
    for (int i = 0, n = 0; i < fl_program.ndata; i++) {
        if (fl_program.data[i].entry != FL_TRAIN)
            continue;
        json_t *before = json_array_get(loaded.held, (size_t)n++);
        int64_t held = fl_reader_held(i);
        json_array_append_new(list, json_integer(held >= 0 || !before ? held : json_integer_value(before)));
    }
    return list;
}

/* A file that was made anew, or another one: a place in it means something else, and nothing would show it. */
void fl_state_compare(void)
{
    for (int i = 0, n = 0; i < fl_program.ndata; i++) {
        if (fl_program.data[i].entry != FL_TRAIN)
            continue;
        json_t *before = json_array_get(loaded.held, (size_t)n++);
        int64_t then = before ? json_integer_value(before) : -1, now = fl_reader_held(i);
        if (then >= 0 && now >= 0 && then != now)
            fl_report_note("the data of %s held %lld elements when the checkpoint was written and hold %lld now; reading goes on at "
                           "the same place", fl_program.data[i].where, (long long)then, (long long)now);
    }
}

static void take_positions(const struct fl_manifest *m)
{
    json_t *at = json_object_get(m->root, "positions"), *epochs = json_object_get(m->root, "epochs");
    size_t n = 0;
    loaded.step = m->step;
    loaded.positions = json_is_array(at) ? json_deep_copy(at) : json_array();
    loaded.epochs = json_array();
    loaded.held = json_incref(json_object_get(m->root, "held"));
    for (int i = 0; i < fl_program.ndata; i++) {
        if (fl_program.data[i].entry != FL_TRAIN || n >= json_array_size(at))
            continue;
        struct fl_position p = { json_integer_value(json_array_get(epochs, n)),
                                 json_integer_value(json_array_get(at, n)) };
        json_array_append_new(loaded.epochs, json_integer(p.epoch));
        fl_reader_resume(i, m->step, p);
        n++;
    }
}

void fl_state_take(const struct fl_manifest *m)
{
    take_scalars(json_object_get(m->root, "scalars"));
    take_positions(m);
}
