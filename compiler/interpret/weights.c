/* Parameters as logical tensors: their initial values and their lookup. */
#include "interpret.h"
#include "../../runtime/fl_random.h"
#include <string.h>

int64_t weights_block(const struct param *p)
{
    int64_t count = 1;
    for (int d = 0; d < p->ndim; d++)
        count *= p->dim[d]->size;
    return count;
}

static int64_t blocks_of(const struct param *p)
{
    int64_t blocks = 1;
    for (int i = 0; i < arrlen(p->stack); i++)
        blocks *= p->stack[i];
    return blocks;
}

int64_t weights_count(const struct param *p)
{
    return weights_block(p) * blocks_of(p);
}

/* A weight starts as a float: what a run in f32 starts from, so that golden runs start from the same numbers. */
static double initial(const struct param *p, uint64_t key, int64_t block, int64_t i)
{
    switch (p->init) {
    case INIT_ZEROS: return 0;
    case INIT_ONES: return 1;
    case INIT_CONSTANT: return (float)p->init_a;
    case INIT_NORMAL: return (float)(p->init_a * fl_normal(key, -1, (uint32_t)block, (uint64_t)i));
    case INIT_UNIFORM:
        return (float)(p->init_a + (p->init_b - p->init_a) * fl_uniform(key, -1, (uint32_t)block, (uint64_t)i));
    }
    BUG("parameter %s has no initial value", p->path);
}

int64_t weights_number(const struct param *p, int64_t b)
{
    int64_t number = 0, weight = 1;
    for (int i = (int)arrlen(p->stack) - 1; i >= 0; i--) {
        number += (p->first[i] + b % p->stack[i]) * weight;
        weight *= p->total[i];
        b /= p->stack[i];
    }
    return number;
}

struct weights *weights_new(const struct module *m, uint64_t seed)
{
    struct weights *w = NEW(struct weights);
    for (int k = 0; k < arrlen(m->params); k++) {
        struct param *p = m->params[k];
        int64_t block = weights_block(p), blocks = blocks_of(p);
        double *data = NEW_ARRAY(double, block * blocks);
        uint64_t key = fl_key(seed, fl_hash(p->path));
        for (int64_t b = 0; b < blocks; b++)
            for (int64_t i = 0; i < block; i++)
                data[b * block + i] = initial(p, key, weights_number(p, b), i);
        hmput(w->map, p, data);
    }
    return w;
}

double *weights_get(const struct weights *w, const struct param *p)
{
    struct weights *find = (struct weights *)w;      /* a lookup moves the map's scratch header only */
    return hmget(find->map, (struct param *)p);
}

struct weights *weights_copy(const struct weights *w)
{
    struct weights *to = NEW(struct weights);
    for (int i = 0; i < hmlen(w->map); i++) {
        struct param *p = w->map[i].key;
        size_t bytes = sizeof(double) * (size_t)weights_count(p);
        double *data = mem_alloc(bytes);
        memcpy(data, w->map[i].value, bytes);
        hmput(to->map, p, data);
    }
    return to;
}
