/* The model: dims, layers, inputs, a body with calls and repeats, and a loss that closes. */
#include "write.h"
#include <stdlib.h>
#include <string.h>

static void write_dims(struct writer *w)
{
    static const int batch[] = {1, 2, 3, 4, 6, 8, 12}, heads[] = {1, 2, 2, 3, 4, 6};
    int h = heads[pick(w, 6)], k = 1 + (int)pick(w, 4), g = h, pad = (int)pick(w, 3) * 2;
    while (h % g || chance(w, 50))
        g = 1 + (int)pick(w, (unsigned)h);
    w->N = (struct size){'N', batch[pick(w, 7)], false};
    w->T = (struct size){'T', 1 + (int)pick(w, 6), false};
    w->H = (struct size){'H', h, false};
    w->K = (struct size){'K', k, false};
    w->D = (struct size){'D', h * k, false};
    w->G = (struct size){'G', g, false};
    w->F = (struct size){'F', 1 + (int)pick(w, 8), false};
    w->V = (struct size){'V', 4 + (int)pick(w, 7), pad > 0};
    char padding[16] = "";
    if (pad)
        snprintf(padding, sizeof padding, " pad %d", pad);
    write_line(w, "dim N = %d, T = %d, H = %d, K = %d, D = H*K, G = %d, F = %d, V = %d%s", w->N.n, w->T.n, h, k, g, w->F.n,
         w->V.n,
         padding);
}

/* ---- calls and repeats ---- */

static void add_call_targets(struct writer *w, const struct layer *l, const char *label)
{
    struct item stream = {.nd = 3, .d = {w->N, w->T, w->D}};
    add_target(w, label, stream.nd, stream.d, false, false);
    for (int i = 0; i < l->targets; i++) {
        char pattern[2 * LABEL];
        snprintf(pattern, sizeof pattern, "%s.%s", label, l->target[i].pattern);
        if (strlen(pattern) < LABEL)
            add_target(w, pattern, l->target[i].nd, l->target[i].d, l->target[i].param, false);
    }
}

void rebind(struct writer *w, const char *name)
{
    for (int i = 0; i < w->targets; i++)
        if (!w->target[i].input && !strcmp(w->target[i].pattern, name))
            snprintf(w->target[i].pattern, LABEL, "%s*", name);
}

static struct item *find_stream(struct writer *w)
{
    struct item *found = NULL;
    for (int i = 0; i < w->items; i++) {
        struct item *v = &w->item[i];
        bool fits = !v->param && v->kind == KIND_FLOAT && v->nd == 3 && v->d[0].name == 'N' && v->d[1].name == 'T' &&
                    v->d[2].name == 'D';
        if (fits && (!found || chance(w, 60)))
            found = v;
    }
    if (found)
        found->used = true;
    return found;
}

static const struct layer *any_layer(struct writer *w) { return &w->layer[pick(w, (unsigned)w->layers)]; }

static void write_call(struct writer *w)
{
    const struct item *x = w->layers ? find_stream(w) : NULL;
    if (!x)
        return;
    const struct layer *l = any_layer(w);
    char label[NAME];
    struct item v = *x;
    snprintf(label, sizeof label, "c%d", ++w->labels);
    struct item *y = add_item(w, KIND_FLOAT, 3, v.d);
    write_line(w, "%s = %s: L%c(%s)", y->name, label, l->name, v.name);
    add_call_targets(w, l, label);
}

static void write_repeat(struct writer *w, int depth)
{
    struct item *x = find_stream(w);
    if (!x)
        return;
    char name[NAME], label[NAME], pattern[LABEL], index = (char)('i' + depth);
    snprintf(name, sizeof name, "%s", x->name);
    int blocks = 1 + (int)pick(w, depth ? 2 : 5), items = w->items, targets;
    bool no_params = w->no_params;
    write_line(w, "repeat %d as %c {", blocks, index);
    w->indent++;
    w->no_params = chance(w, 70);
    targets = w->targets;
    for (int k = (int)pick(w, 3) + w->views; k > 0; k--)
        if (w->views ? depth < 2 && !w->in_layer && chance(w, 30) : w->layers && chance(w, 20) && depth < 1)
            write_repeat(w, depth + 1);
        else if (w->views && chance(w, 60))
            write_view(w, name, items);
        else if (w->views && chance(w, 10))
            write_swap(w, name, items);
        else
            write_operation(w);
    w->targets = targets;                             /* the names of a repeat's body have no sure path */
    if (w->layers) {
        const struct layer *l = any_layer(w);
        bool shared = depth || chance(w, 20);   /* an index of one repeat only does not name a block of two */
        snprintf(label, sizeof label, "h%d", ++w->labels);
        snprintf(pattern, sizeof pattern, shared ? "%s" : "%s[*]", label);
        if (shared)
            write_line(w, "%s = %s: L%c(%s)", name, label, l->name, name);
        else
            write_line(w, "%s = %s[%c]: L%c(%s)", name, label, index, l->name, name);
        if (!depth && !w->no_params)
            add_call_targets(w, l, pattern);
        if (!depth && !shared && !*w->cut && w->blocks >= 0) {
            snprintf(w->cut, sizeof w->cut, "%s", label);
            snprintf(w->cut_value, sizeof w->cut_value, "%s", name);
            w->blocks = blocks;
        }
    }
    for (int i = items; i < w->items; i++)            /* what the body made flows on into what it carries */
        if (same_shape(&w->item[i], &w->item[0]) && w->item[i].kind == KIND_FLOAT && chance(w, 50)) {
            write_line(w, "%s = %s + 0.3 * tanh(%s)", name, name, w->item[i].name);
            break;
        }
    if (!w->layers)
        write_line(w, "%s = 0.9 * tanh(%s)", name, name);
    for (int i = 0; i < items; i++) {                 /* and into another value that the body carries */
        struct item *v = &w->item[i];
        if (chance(w, 90) || v->param || v->kind != KIND_FLOAT || !strcmp(v->name, name) || !v->nd)
            continue;
        write_line(w, "%s = 0.8 * %s + 0.1", v->name, v->name);
        rebind(w, v->name);
        break;
    }
    if (w->views)
        write_unread(w, name, items);
    w->indent--;
    w->no_params = no_params;
    write_line(w, "}");
    w->items = items;
    rebind(w, name);
    for (int i = 0; i < items; i++)                   /* what the repeat made is to be read */
        if (!strcmp(w->item[i].name, name))
            w->item[i].used = false;
}

static void write_statements(struct writer *w, int count)
{
    while (count-- > 0) {
        unsigned what = pick(w, 100);
        if (what < (w->views ? 30 : 8))
            write_repeat(w, 0);
        else if (what < (w->views ? 38 : 16))
            write_call(w);
        else
            write_operation(w);
    }
}

static void product_text(char *to, const struct item *v)
{
    to += sprintf(to, "(1");
    for (int i = 0; i < v->nd; i++)
        to += v->d[i].name ? sprintf(to, " * %c", v->d[i].name) : sprintf(to, " * %d", v->d[i].n);
    sprintf(to, ")");
}

/* States in some programs: averages of weights and other values without the batch, statistics of those with it. A value that
 * reads the state as the step found it joins the others in scope. */
static void write_states(struct writer *w)
{
    for (int n = chance(w, 25) ? 1 + (int)pick(w, 2) : 0; n > 0 && w->items + 1 < MAX_VALUES; n--) {
        const struct item v = *any(w, KIND_FLOAT);
        char shape[LABEL], product[100], text[200];
        bool batch = find_dim(&v, 'N') >= 0 || !v.nd || !distinct(&v);
        shape_text(shape, &v);
        product_text(product, &v);
        int number = w->names;
        write_line(w, batch ? "state s%d: f32 = ones" : "state s%d: f32[%s] = zeros", number, shape);
        if (batch)
            write_line(w, "update s%d = 0.5 * s%d + sum(%s(%s)) / %s", number, number, chance(w, 50) ? "square" : "tanh", v.name,
                       product);
        else if (chance(w, 30) && w->item[0].d[0].name == 'N')
            write_line(w, "update s%d = 0.9 * s%d + %s * (sum(tanh(%s)) / N)", number, number, v.name, w->item[0].name);
        else
            write_line(w, "update s%d = 0.9 * s%d + 0.1 * %s", number, number, v.name);
        snprintf(text, sizeof text, "%s * (1 + 0.2 * s%d)", v.name, number);
        is(w, KIND_FLOAT, v.nd, v.d, text);
    }
}

/* A layer ends in a value of the shape it began with. */
static void write_layer(struct writer *w)
{
    struct size stream[] = {w->N, w->T, w->D};
    struct layer l = {.name = (char)('A' + w->layers), .targets = 0};
    w->items = w->targets = 0;
    w->in_layer = true;
    write_line(w, "layer L%c(x: f32[N, T, D]) {", l.name);
    w->indent++;
    int names = w->names;
    struct item *x = add_item(w, KIND_FLOAT, 3, stream);
    w->names = names;
    strcpy(x->name, "x");
    w->targets = 0;
    w->blocks = -1;
    write_statements(w, 1 + (int)pick(w, 5));
    write_states(w);
    struct item *y = NULL;
    for (int i = w->items - 1; i > 0 && !y; i--)
        if (!w->item[i].param && distinct(&w->item[i]) && w->item[i].nd && find_dim(&w->item[i], 'N') >= 0)
            y = &w->item[i];
    char result[LABEL] = "";
    if (y && (same_shape(y, w->item) || write_projection(w, y, 3, stream)))
        snprintf(result, sizeof result, " + 0.5 * tanh(%s)", w->item[w->items - 1].nd == 3 &&
                 same_shape(&w->item[w->items - 1], w->item)
                                                                   ? w->item[w->items - 1].name : y->name);
    if (y && !same_shape(y, w->item) && !same_shape(&w->item[w->items - 1], w->item))
        *result = 0;
    if (w->views && y) {
        y->used = true;
        write_line(w, "x = 0.9 * x%s", result);
        write_unread(w, "x", 0);
        write_line(w, "return x");
    } else {
        write_line(w, "return 0.9 * x%s", result);
    }
    w->indent--;
    write_line(w, "}");
    l.targets = w->targets;
    l.target = malloc(sizeof *l.target * (size_t)(w->targets + 1));
    memcpy(l.target, w->target, sizeof *l.target * (size_t)w->targets);
    w->layer[w->layers++] = l;
    w->in_layer = false;
    w->items = w->targets = w->blocks = 0;
    *w->cut = 0;
}

/* ---- the loss ---- */

static void write_term(struct writer *w, const struct item *v, int number)
{
    char product[100];
    product_text(product, v);
    if (!v->nd)
        write_line(w, "t%d = tanh(%s)", number, v->name);
    else if (chance(w, 60))
        write_line(w, "t%d = sum(square(tanh(%s))) / %s", number, v->name, product);
    else
        write_line(w, "t%d = sum(tanh(%s)) / %s", number, v->name, product);
}

static void write_loss(struct writer *w, bool targets, bool ignore)
{
    int terms = 0;
    struct item *stream = find_stream(w);
    if (targets && stream) {
        struct size logits[] = {w->N, w->T, w->V};
        write_projection(w, stream, 3, logits);
        struct item *l = &w->item[w->items - 1];
        l->used = true;
        const char *smoothing = chance(w, 20) ? ", smoothing = 0.1" : "";
        write_line(w, "t%d = sum(cross_entropy(%s, targets%s)) / %s", terms++, l->name, smoothing,
             ignore && chance(w, 85) ? "count(targets)" : "(N * T)");
        if (chance(w, 30))
            write_line(w, "metric right = count(argmax(%s, axis = V) == targets) / %s", l->name,
                 ignore ? "count(targets)" : "(N * T)");
        if (chance(w, 50))
            write_line(w, "output logits = %s", l->name);
    }
    for (int i = 0; i < w->items; i++)                    /* what a pipeline may cut is to be read */
        if (*w->cut && !strcmp(w->item[i].name, w->cut_value))
            write_term(w, &w->item[i], terms++);
    for (int i = w->items - 1; i >= 0 && terms < (w->views ? 9 : 4); i--)
        if (!w->item[i].used && w->item[i].kind == KIND_FLOAT && !w->item[i].param)
            write_term(w, &w->item[i], terms++);
    if (chance(w, 10) && w->items)
        write_term(w, any(w, KIND_FLOAT), terms++);
    write_line(w, "t%d = 0.01 * sum(square(w0))", terms++);     /* so that there always is a gradient */
    char text[200], *t = text + sprintf(text, "t0");
    for (int i = 1; i < terms; i++)
        t += sprintf(t, " + %st%d", chance(w, 30) ? "0.3 * " : "", i);
    write_line(w, "return %s", text);
}

/* ---- the whole ---- */

static void add_input(struct writer *w, const char *name, enum kind kind, int nd, const struct size *d)
{
    struct item *v = add_item(w, kind, nd, d);
    if (kind == KIND_FLOAT)
        w->targets--;
    snprintf(v->name, sizeof v->name, "%s", name);
    add_target(w, name, nd, d, false, true);
}

void write_model(struct writer *w)
{
    write_dims(w);
    for (int n = (int)pick(w, 3); n > 0; n--)
        write_layer(w);
    struct size stream[] = {w->N, w->T, w->D}, row[] = {w->N, w->F}, table[] = {w->T, w->D};
    bool targets = chance(w, 60), ignore = chance(w, 70);
    add_input(w, "x", KIND_FLOAT, 3, stream);
    add_input(w, "ids", KIND_INDEX, 2, stream);
    if (targets)
        add_input(w, "targets", KIND_INDEX, 2, stream);
    add_input(w, "keep", KIND_BOOL, 2, stream);
    if (chance(w, 30))
        add_input(w, "y", KIND_FLOAT, 2, row);
    if (chance(w, 15))
        add_input(w, "z", KIND_FLOAT, 2, table);
    char inputs[300], *t = inputs;
    static const char *const types[] = {"f32", "i32", "bool"};
    for (int i = 0; i < w->items; i++) {
        char shape[LABEL];
        shape_text(shape, &w->item[i]);
        t += sprintf(t, "%s%s: %s[%s]%s", i ? ", " : "", w->item[i].name, types[w->item[i].kind], shape,
                     !strcmp(w->item[i].name, "targets") && ignore ? " ignore 0" : "");
    }
    write_line(w, "model Random(%s) {", inputs);
    w->indent++;
    struct item *x = add_item(w, KIND_FLOAT, 3, stream);
    write_line(w, "param w0: f32[D] = uniform(0.5, 1)");
    write_line(w, "%s = x * w0", x->name);
    add_target(w, "w0", 1, &w->D, true, false);
    write_statements(w, 2 + (int)pick(w, 9));
    write_states(w);
    write_loss(w, targets, ignore);
    w->indent--;
    write_line(w, "}");
}
