/* The safetensors format: an 8-byte little-endian header length, a JSON header {name: {dtype, shape, data_offsets}},
 * data. */
#ifndef FL_SAFETENSORS_H
#define FL_SAFETENSORS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct fl_st_entry {
    const char *name;
    char dtype[8];                       /* F32 F64 F16 BF16; others are listed but cannot be read as numbers */
    int ndim;
    int64_t shape[8];
    const uint8_t *data;
    int64_t count, bytes;                /* elements; of data */
    bool used;                           /* for the caller */
};
struct fl_st_file {
    const char *name;
    int nentry;
    struct fl_st_entry *entry;
    void *map;
    int64_t map_bytes;
    void *header;                        /* json_t, owns the names */
};
/* NULL when fine, else an allocated complaint. */
char *fl_st_open(struct fl_st_file *f, const char *name);
void fl_st_close(struct fl_st_file *f);
struct fl_st_entry *fl_st_find(struct fl_st_file *f, const char *name);
bool fl_st_number(const struct fl_st_entry *e);      /* a dtype that fl_st_read knows */
float fl_st_read(const struct fl_st_entry *e, int64_t i);

/* What stands before the data: allocated, *bytes long. All entries are F32, their data in this order. */
char *fl_st_header(int n, const struct fl_st_entry *entries, int64_t *bytes);

/* Writing, on one rank: entries first, then data in any order, then the end, which renames NAME.part to NAME. */
struct fl_st_writer { FILE *to; char *name, *part; int64_t base; };
/* NULL when a file of this name can be written, else an allocated complaint: only plain files are replaced. */
char *fl_st_refuse(const char *name);
void fl_st_begin(struct fl_st_writer *w, const char *name, int n, const struct fl_st_entry *entries);    /* all F32 */
void fl_st_write(struct fl_st_writer *w, int64_t element, const float *data,
                 int64_t count); /* at this element of all data */
void fl_st_end(struct fl_st_writer *w);
#endif
