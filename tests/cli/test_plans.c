/* A defect of flowc met in one plan is that plan's line in --plans; those before and behind it have theirs. */
#include "base/diag.h"
#include "module.h"
#include "passes.h"
#include <string.h>

static struct plan plans[] = {{.name = "one"}, {.name = "two"}, {.name = "three"}};

static bool compile(struct module *m)
{
    for (int i = 0; i < 3; i++)
        if (!strcmp(plans[i].name, m->options->plan))
            m->plan = &plans[i];
    if (m->plan == &plans[1])
        BUG("met in %s", m->plan->name);
    diag_error(E_FILE, (struct span){0}, "rejected for a reason");
    return false;
}

int main(void)
{
    struct options o = {.target = "cpu"};
    struct module m = {.options = &o};
    char text[4096] = "";
    FILE *to = fmemopen(text, sizeof text - 1, "w");
    for (int i = 0; i < 3; i++)
        arrput(m.plans, &plans[i]);
    int fits = plans_table(to, &m, compile);
    fclose(to);
    fputs(text, stdout);
    const char *one = strstr(text, "\none "), *two = strstr(text, "\ntwo "), *three = strstr(text, "\nthree ");
    bool fine = !fits && one && two && three && strstr(two, "internal error at") && strstr(two, "met in two") < three &&
                strstr(one, "rejected for a reason") < two && strstr(three, "rejected for a reason");
    mem_release();
    return fine ? 0 : 1;
}
