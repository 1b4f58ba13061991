/* One file of numbers: raw little-endian elements, tokens behind a 1024-byte header, or a Megatron .bin with its .idx.
 * Read with pread, so that a file that shrinks or a disk that fails is an error with words and not a signal. */
#ifndef FL_DATA_FILE_H
#define FL_DATA_FILE_H
#include "fl_readers.h"

struct fl_file {
    const char *name;                    /* of what holds the elements: for megatron the .bin */
    int fd;
    enum fl_element element;             /* of what is stored: never MEGATRON */
    int64_t offset;                      /* bytes before the first element */
    int64_t length;                      /* elements */
};
const char *fl_element_name(enum fl_element e);
/* All give a complaint, or NULL. */
char *fl_file_open(struct fl_file *f, const char *name, enum fl_element element);
/* n elements from the `first` on, as whole numbers or (f32, or where fractions are wanted) as floats; to: n of them. */
char *fl_file_read(const struct fl_file *f, int64_t first, int64_t n, int64_t *whole, float *real);
void fl_file_close(struct fl_file *f);
/* The files that must be there for a name: 1 or 2. */
int fl_file_parts(const char *name, enum fl_element element, char *parts[2]);
#endif
