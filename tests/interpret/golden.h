/* Golden runs on disk: init.safetensors, tokens.bin, run.json, final.safetensors. */
#ifndef FLOWC_TEST_GOLDEN_H
#define FLOWC_TEST_GOLDEN_H
#include "interpret/interpret.h"

/* Reads or writes the weights under their names in files; false after a message. States are not in files. */
bool golden_load(const char *path, struct weights *w);
bool golden_save(const char *path, const struct weights *w);
double *golden_tokens(const char *path, int64_t *count);          /* u16, little-endian */
bool golden_save_tokens(const char *path, const double *tokens, int64_t count);
#endif
