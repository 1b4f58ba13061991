/* json_check PATH..: stdin is JSON values one after another, each an object that has all these members ("place.line");
 * prints how many. Exit status 1 when one is not. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const json_t *member(const json_t *value, const char *path)
{
    while (value && *path) {
        size_t n = strcspn(path, ".");
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        value = json_object_get(value, name);
        path += n + (path[n] == '.');
    }
    return value;
}

int main(int argc, char **argv)
{
    int count = 0, status = 0;
    for (;; count++) {
        int c;
        while ((c = getchar()) == '\n' || c == ' ')
            ;
        if (c == EOF)
            break;
        ungetc(c, stdin);
        json_error_t error;
        json_t *value = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, &error);
        if (!value) {
            fprintf(stderr, "json_check: value %d: %s\n", count + 1, error.text);
            return 1;
        }
        for (int i = 1; i < argc; i++)
            if (!member(value, argv[i])) {
                fprintf(stderr, "json_check: value %d has no %s\n", count + 1, argv[i]);
                status = 1;
            }
        json_decref(value);
    }
    printf("%d\n", count);
    return status;
}
