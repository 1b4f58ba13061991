/* Weights in safetensors and tokens in u16, as the runtime reads and writes them. */
#include "golden.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "cannot read %s\n", path);
        return NULL;
    }
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *data = NEW_ARRAY(char, *size + 1);
    size_t got = fread(data, 1, *size, f);
    fclose(f);
    return got == *size ? data : NULL;
}

/* One tensor of the file makes a block here. "h.{i}.x" or the path with [*], with the numbers of block b put in, outermost first. */
static const char *file_name(const struct param *p, int64_t b)
{
    int64_t index[MAX_DIM];
    int depth = (int)arrlen(p->stack), at = 0;
    b = weights_number(p, b);
    for (int i = depth - 1; i >= 0; i--) {
        index[i] = b % p->total[i];
        b /= p->total[i];
    }
    char *text = "";
    for (const char *s = p->file_names ? p->file_names[0] : p->path; *s; s++) {
        if (*s == '{' && strchr(s, '}')) {
            bool numbered = s[1] >= '0' && s[1] <= '9';
            text = mem_printf("%s%lld", text, (long long)index[numbered ? s[1] - '0' : at++]);
            s = strchr(s, '}');
        } else if (!strncmp(s, "[*]", 3)) {
            text = mem_printf("%s[%lld]", text, (long long)index[at++]);
            s += 2;
        } else {
            text = mem_printf("%s%c", text, *s);
        }
    }
    return text;
}

static int64_t blocks(const struct param *p)
{
    return weights_count(p) / weights_block(p);
}

/* Where element i of the file lies in our block. */
static int64_t place(const struct param *p, int64_t i)
{
    if (!p->file_order)
        return i;
    int64_t rows = p->file_shape[0], columns = p->file_shape[1];       /* of a matrix, transposed */
    return i % columns * rows + i / columns;
}

bool golden_load(const char *path, struct weights *w)
{
    size_t size;
    const char *data = read_all(path, &size);
    uint64_t n;
    if (!data)
        return false;
    memcpy(&n, data, 8);
    json_error_t error;
    json_t *header = json_loadb(data + 8, n, 0, &error);
    for (int k = 0; k < hmlen(w->map); k++) {
        struct param *p = w->map[k].key;
        for (int64_t b = 0; b < blocks(p) && !p->is_state; b++) {
            const char *name = file_name(p, b);
            json_t *range = json_object_get(json_object_get(header, name), "data_offsets");
            if (!range) {
                fprintf(stderr, "%s has no %s\n", path, name);
                return false;
            }
            const float *from = (const float *)(data + 8 + n + json_integer_value(json_array_get(range, 0)));
            for (int64_t i = 0; i < weights_block(p); i++) {
                float x;
                memcpy(&x, from + i, sizeof x);
                w->map[k].value[b * weights_block(p) + place(p, i)] = x;
            }
        }
    }
    json_decref(header);
    return true;
}

bool golden_save(const char *path, const struct weights *w)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    char *header = "{";
    int64_t offset = 0;
    for (int k = 0; k < hmlen(w->map); k++) {
        struct param *p = w->map[k].key;
        for (int64_t b = 0; b < blocks(p) && !p->is_state; b++) {
            char *shape = "";
            int rank = p->file_shape ? (int)arrlen(p->file_shape) : p->ndim;
            for (int d = 0; d < rank; d++)
                shape = mem_printf("%s%s%lld", shape, d ? "," : "",
                                   (long long)(p->file_shape ? p->file_shape[d] : p->dim[d]->size));
            int64_t end = offset + 4 * weights_block(p);
            header = mem_printf("%s%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}", header,
                                offset ? "," : "", file_name(p, b), shape, (long long)offset, (long long)end);
            offset = end;
        }
    }
    uint64_t n = strlen(header) + 1;
    fwrite(&n, 8, 1, f);
    fprintf(f, "%s}", header);
    for (int k = 0; k < hmlen(w->map); k++) {
        struct param *p = w->map[k].key;
        for (int64_t b = 0; b < blocks(p) && !p->is_state; b++)
            for (int64_t i = 0; i < weights_block(p); i++) {
                float x = (float)w->map[k].value[b * weights_block(p) + place(p, i)];
                fwrite(&x, sizeof x, 1, f);
            }
    }
    return fclose(f) == 0;
}

double *golden_tokens(const char *path, int64_t *count)
{
    size_t size;
    const unsigned char *data = (const unsigned char *)read_all(path, &size);
    if (!data)
        return NULL;
    *count = (int64_t)size / 2;
    double *tokens = NEW_ARRAY(double, *count + 1);
    for (int64_t i = 0; i < *count; i++)
        tokens[i] = data[2 * i] | data[2 * i + 1] << 8;
    return tokens;
}

bool golden_save_tokens(const char *path, const double *tokens, int64_t count)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    for (int64_t i = 0; i < count; i++) {
        int x = (int)tokens[i];
        fputc(x & 255, f);
        fputc(x >> 8, f);
    }
    return fclose(f) == 0;
}
