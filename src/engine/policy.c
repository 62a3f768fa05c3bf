/* policy.c - the table of policies, and what all of them share: defaults, waiting times. */
#include "policy_impl.h"

#include <stdlib.h>
#include <string.h>

#define POLICY(id) extern const struct policy_type policy_type_##id;
#include "policies.def"
#undef POLICY

static const struct policy_type *const type[] = {
#define POLICY(id) &policy_type_##id,
#include "policies.def"
#undef POLICY
};

enum { N_TYPE = sizeof type / sizeof type[0] };

const char *policy_name(int i)
{
    return i >= 0 && i < N_TYPE ? type[i]->name : NULL;
}

const char *policy_help(int i)
{
    return i >= 0 && i < N_TYPE ? type[i]->help : NULL;
}

static const struct policy_type *find(const char *name)
{
    if (!name) return type[0];
    for (int i = 0; i < N_TYPE; i++)
        if (strcmp(type[i]->name, name) == 0) return type[i];
    return NULL;
}

static int refuse(const char *name, struct err *e)
{
    char list[256] = "";
    for (int i = 0; i < N_TYPE; i++) {
        if (i) strncat(list, i == N_TYPE - 1 ? " or " : ", ", sizeof list - strlen(list) - 1);
        strncat(list, type[i]->name, sizeof list - strlen(list) - 1);
    }
    return err_set(e, ERR_ARG, "scheduler: \"%.40s\" is not %s", name, list);
}

int policy_open(struct policy **out, const struct policy_options *o, struct err *e)
{
    *out = NULL;
    const struct policy_type *t = find(o->name);
    if (!t) return refuse(o->name, e);
    struct policy *p = calloc(1, sizeof *p);
    if (!p) return err_memory(e, "the scheduling policy", sizeof *p);
    p->type = t;
    p->options = *o;
    if (!p->options.window_us) p->options.window_us = 10 * 1000;
    if (!p->options.starvation_us) p->options.starvation_us = 30 * 1000 * 1000;
    *out = p;
    return 0;
}

void policy_close(struct policy *p)
{
    free(p);
}

/* ---- the life of a turn ---- */

void policy_arrive(struct policy *p, struct turn *t, int64_t now_us)
{
    t->ready_us = now_us;
    if (p->type->arrive) p->type->arrive(p, t, now_us);
}

void policy_served(struct policy *p, struct turn *t, int n_row, int n_step, int64_t us,
                   int64_t now_us)
{
    t->service_us += us;
    if (p->type->served) p->type->served(p, t, n_row, n_step, us, now_us);
}

void policy_preempted(struct policy *p, struct turn *t, int64_t now_us)
{
    (void)p;
    t->ready_us = now_us;
}

void policy_leave(struct policy *p, struct turn *t)
{
    if (p->type->leave) p->type->leave(p, t);
}

/* ---- decisions ---- */

int64_t policy_rank(const struct policy *p, const struct turn *t, int64_t now_us)
{
    return p->type->rank ? p->type->rank(p, t, now_us) : 0;
}

bool policy_preempts(const struct policy *p)
{
    return p->type->preempts;
}

bool policy_admits(const struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us)
{
    return !p->type->admits || p->type->admits(p, n_running, n_waiting, oldest_us, now_us);
}
