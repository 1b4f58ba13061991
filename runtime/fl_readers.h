/* The readers of data blocks and the elements of their files, each in one list. Shared by the compiler, which checks the
 * words, and the runtime, which reads. */
#ifndef FL_READERS_H
#define FL_READERS_H
#include <stdbool.h>
#include <stdint.h>

/* READER(ID, as in the language, tensors it gives, elements after the row that it needs, elements of its files) */
#define FL_READERS(READER)                                               \
    READER(NEXT_TOKEN, next_token, 2, 1, "u8 u16 u32 megatron")          \
    READER(RAW, raw, 1, 0, "u8 u16 u32 i32 f32")

/* ELEMENT(ID, as in the language, bytes); megatron: what the .idx beside a .bin says */
#define FL_ELEMENTS(ELEMENT) \
    ELEMENT(U8, u8, 1)       \
    ELEMENT(U16, u16, 2)     \
    ELEMENT(U32, u32, 4)     \
    ELEMENT(I32, i32, 4)     \
    ELEMENT(F32, f32, 4)     \
    ELEMENT(I64, i64, 8)     \
    ELEMENT(MEGATRON, megatron, 0)

enum fl_reader {
#define READER(id, name, gives, after, elements) FL_READER_##id,
    FL_READERS(READER)
#undef READER
};
enum fl_element {
#define ELEMENT(id, name, bytes) FL_ELEMENT_##id,
    FL_ELEMENTS(ELEMENT)
#undef ELEMENT
};
#endif
