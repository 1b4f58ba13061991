/* Runs the fuzz target once over each file, and over each file cut short in the middle. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    static uint8_t text[1 << 20];
    for (int i = 1; i < argc; i++) {
        FILE *in = fopen(argv[i], "rb");
        if (!in) {
            perror(argv[i]);
            return 1;
        }
        size_t n = fread(text, 1, sizeof text, in);
        fclose(in);
        printf("%s\n", argv[i]);
        fflush(stdout);
        LLVMFuzzerTestOneInput(text, n);
        LLVMFuzzerTestOneInput(text, n / 2);
    }
    return 0;
}
