/* select.c - selects the level of kernels: the best level of this machine, or the requested level.
 *
 * All levels up to the chosen one are initialized in the order of levels.def. Each level replaces
 * only the slots that it improves. A slot without a fast version keeps the best slower function. */
#include "kern_impl.h"

#include "base/cpu.h"

#include <stdio.h>

/* A row of levels.def. Pointers are static. */
struct level {
    const char *name; /* name of the option's value */
    unsigned flag;    /* required flags of cpu.h */
    void (*init)(struct kern *k);
};

static const struct level levels[] = {
#define LEVEL(name, flag) {#name, flag, kern_init_##name},
#include "levels.def"
#undef LEVEL
};
enum { N_LEVEL = sizeof levels / sizeof levels[0] };

const char *const *kern_levels(void)
{
    static _Thread_local const char *names[N_LEVEL + 1];
    int n = 0;
    for (int i = 0; i < N_LEVEL; i++)
        if ((levels[i].flag & ~cpu_flags()) == 0) names[n++] = levels[i].name;
    names[n] = NULL;
    return names;
}

int kern_open(struct kern *k, const char *level, struct err *e)
{
    *k = (struct kern){0};
    bool found = false;
    for (int i = 0; i < N_LEVEL && !found; i++) {
        if (levels[i].flag & ~cpu_flags()) continue;
        levels[i].init(k);
        k->name = levels[i].name;
        found = level && strcmp(level, levels[i].name) == 0;
    }
    if (found || !level) return 0;
    char list[128] = "";
    for (const char *const *n = kern_levels(); *n; n++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", *n);
    }
    return err_set(e, ERR_ARG, "cpu level \"%s\" not found; available: %s", level, list);
}

float kern_exp(float x)
{
    return exp_f32(x);
}
