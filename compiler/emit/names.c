/* Names and strings from the source as C text. */
#include "emitter.h"
#include <ctype.h>
#include <string.h>

const char *c_name(const struct value *v)
{
    const char *path = v->path ? v->path : v->def ? v->def->op->name : "x";
    char *name = mem_alloc(strlen(path) + 24), *to = name;
    if (!isalpha((unsigned char)path[0]))
        *to++ = 't';
    for (const char *at = path; *at; at++) {
        if (isalnum((unsigned char)*at) && (unsigned char)*at < 128)
            *to++ = *at;
        else if (to != name && to[-1] != '_' && *at != ']')
            *to++ = '_';
    }
    while (to > name && to[-1] == '_')
        to--;
    snprintf(to, 24, "_%d", v->id);
    return name;
}

const char *c_string(const char *s)
{
    if (!s)
        return "NULL";
    char *text = mem_alloc(4 * strlen(s) + 3), *to = text;
    *to++ = '"';
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            *to++ = '\\';
            *to++ = (char)c;
        } else if (c < 32 || c >= 127 || c == '?') {
            to += sprintf(to, "\\%03o", c);
        } else {
            *to++ = (char)c;
        }
    }
    *to++ = '"';
    return text;
}

const char *c_comment(const char *s)
{
    char *text = mem_strdup(s ? s : "");
    for (char *at = text; *at; at++) {
        bool mark = *at == '/' && ((at > text && at[-1] == '*') || at[1] == '*');
        if ((unsigned char)*at < 32 || *at == '\\' || *at == '?' || mark)
            *at = ' ';
    }
    return text;
}
