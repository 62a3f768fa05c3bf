/* policy.c - the table of policies, and the common part of all policies: defaults, and a starvation
 * bound.
 *
 * With any order except first come, first served, an entity can wait forever. Therefore an entity
 * that has waited for starvation_us is overdue: it ranks before all other entities, under every
 * policy. An overdue entity keeps this rank while it runs, because it would otherwise be displaced
 * immediately. A running prompt without a row for starvation_us is also overdue, because entities
 * of a better rank may take all rows. Overdue entities are ordered by waiting time, longest first.
 * Therefore, under overload, every policy is at worst equal to first come, first served. */
#include "policy_impl.h"

#include "base/check.h"

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
    return err_field(e, ERR_ARG, "scheduler", ": must be %s, got \"%.40s\"", list, name);
}

int policy_open(struct policy **out, const struct policy_options *o, struct err *e)
{
    *out = NULL;
    const struct policy_type *found = find(o->name);
    if (!found) return refuse(o->name, e);
    struct policy *p = calloc(1, sizeof *p);
    if (!p) return err_memory(e, "the scheduling policy", sizeof *p);
    p->type = found;
    p->options = *o;
    if (!p->options.window_us) p->options.window_us = 10 * 1000;
    if (!p->options.window_max) p->options.window_max = p->options.n_seq;
    if (!p->options.window_min) p->options.window_min = p->options.window_max;
    if (!p->options.slice_tokens) p->options.slice_tokens = 128;
    if (!p->options.starvation_us) p->options.starvation_us = 120 * 1000 * 1000;
    int rc = found->open ? found->open(p, e) : 0;
    if (rc != 0) {
        policy_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

void policy_close(struct policy *p)
{
    if (p && p->type->close) p->type->close(p);
    free(p);
}

/* ---- states of an entity ---- */

static bool is_overdue(const struct policy *p, const struct sched_entity *se, int64_t now_us)
{
    /* no later entity can overtake if the order is by arrival */
    if (se->running && (se->overdue || se->n_left <= 1 || !p->type->rank)) return se->overdue;
    return now_us - se->ready_us >= p->options.starvation_us &&
           (!p->type->promotes || p->type->promotes(se));
}

/* Restart the waiting time of an entity that was admitted or had a row. An entity that is overdue
 * at that time stays overdue. */
static void restart_wait(const struct policy *p, struct sched_entity *se, int64_t now_us)
{
    se->overdue = is_overdue(p, se, now_us);
    if (!se->overdue) se->ready_us = now_us;
}

void policy_arrive(struct policy *p, struct sched_entity *se, int64_t now_us)
{
    se->ready_us = now_us;
    se->overdue = se->running = false;
    if (p->type->arrive) p->type->arrive(p, se, now_us);
}

void policy_admitted(struct policy *p, struct sched_entity *se, int64_t now_us)
{
    CHECK(!se->running, "entity %llu runs already", (unsigned long long)se->arrival);
    restart_wait(p, se, now_us);
    se->running = true;
    if (p->type->admitted) p->type->admitted(p, se);
}

void policy_preempted(struct policy *p, struct sched_entity *se, int64_t now_us)
{
    CHECK(se->running, "entity %llu does not run", (unsigned long long)se->arrival);
    /* an overdue entity stays overdue, with its old rank */
    if (!se->overdue) se->ready_us = now_us;
    if (p->type->preempted) p->type->preempted(p, se);
    se->running = false;
}

void policy_served(struct policy *p, struct sched_entity *se, int n_row, int n_step, int64_t us,
                   int64_t now_us)
{
    CHECK(n_row >= 0 && n_row <= n_step, "%d rows of a step of %d", n_row, n_step);
    if (n_row == 0) return;
    if (se->running) restart_wait(p, se, now_us);
    if (p->type->served) p->type->served(p, se, n_row, n_step, us);
}

void policy_leave(struct policy *p, struct sched_entity *se)
{
    if (p->type->leave) p->type->leave(p, se);
}

/* ---- decisions ---- */

int64_t policy_rank(const struct policy *p, const struct sched_entity *se, int64_t now_us)
{
    if (is_overdue(p, se, now_us)) return INT64_MIN / 2 + se->ready_us;
    return p->type->rank ? p->type->rank(p, se) : 0;
}

bool policy_preempts(const struct policy *p)
{
    return p->type->preempts;
}

bool policy_yields(const struct policy *p, const struct sched_entity *running,
                   const struct sched_entity *waiting, int n_yielded)
{
    return p->type->yields && p->type->yields(running, waiting, n_yielded);
}

bool policy_divides(const struct policy *p)
{
    return p->type->divides;
}

bool policy_holds(const struct policy *p)
{
    return p->type->holds;
}

bool policy_admits(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us)
{
    return !p->type->admits || p->type->admits(p, n_running, n_waiting, oldest_us, now_us);
}
