/* models_plan.c - the memory of all models: which plans fit, which model is unloaded for another
 * one, and the check of the invariants (models.c).
 *
 * The victim of a load is the least recently used model without requests. The least recently used
 * model drains if all models have requests. A load for patient requests only (served_waiter)
 * unloads no model that clients use, but drains a model of other patient requests, so that batches
 * take turns. */
#include "models_impl.h"

#include "base/os.h"
#include "base/share.h"

/* Return true if the plan of the model counts against the limits (2). */
static bool has_plan(const struct served *m)
{
    return served_in_memory(m) || m->state == SERVED_LOADING;
}

bool plan_fits(const struct models *m, int64_t n_byte)
{
    int64_t sum = n_byte;
    int n = 1;
    for (int i = 0; i < m->n; i++)
        if (has_plan(&m->v[i])) sum += m->v[i].n_byte, n++;
    return sum <= m->o.bytes_max && (m->o.n_loaded_max == 0 || n <= m->o.n_loaded_max);
}

/* Return true if a is to be unloaded before b, which may be NULL: a model without requests, then
 * the least recently used one. */
static bool goes_before(const struct served *a, const struct served *b)
{
    const bool idle = a->n_ref == 0, other = b && b->n_ref == 0;
    return !b || (idle != other ? idle : a->n_used < b->n_used);
}

struct served *plan_victim(struct models *m)
{
    struct served *best = NULL;
    for (int i = 0; i < m->n; i++) {
        struct served *v = &m->v[i];
        if (v->state == SERVED_READY && !v->spec->pinned && goes_before(v, best)) best = v;
    }
    return best;
}

/* Return the time in us until a model may be unloaded for a patient request: quiet_us after the
 * last client, and if patient requests use the model, the end of their turn. A turn is six times
 * quiet_us, or ten times the time of the load. */
static int64_t time_left(const struct served *v)
{
    const int64_t now = time_us(), quiet_us = v->models->o.quiet_us;
    const int64_t turn = 6 * quiet_us > 10 * v->load_us ? 6 * quiet_us : 10 * v->load_us,
                  left = v->client_us ? v->client_us + quiet_us - now : 0,
                  rest = v->n_patient > 0 ? v->loaded_us + turn - now : 0;
    return left > rest ? left : rest;
}

struct served *plan_quiet_victim(struct models *m, int64_t *wait_us)
{
    struct served *best = NULL;
    for (int i = 0; i < m->n; i++) {
        struct served *v = &m->v[i];
        if (v->state != SERVED_READY || v->spec->pinned || v->n_ref > v->n_patient) continue;
        const int64_t left = time_left(v);
        if (left > 0 && (*wait_us < 0 || left < *wait_us)) *wait_us = left;
        if (left <= 0 && goes_before(v, best)) best = v;
    }
    return best;
}

bool plan_drains(const struct models *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->v[i].state == SERVED_DRAINING) return true;
    return false;
}

/* Check invariants (1), (3) and (5) of a model. */
static const char *check_model(const struct served *m)
{
    int n = 0;
    for (const struct served_waiter *w = m->first; w; w = w->next, n++)
        if (w->model != m || !w->waits || w->granted) return "a waiter is in a wrong list";
    if (n != m->n_waiting) return "a model's waiters are miscounted";
    if (m->n_patient < 0 || m->n_patient > m->n_ref) return "patient references are miscounted";
    if (m->n_ref < 0 || m->n_peek < 0) return "a reference was dropped twice";
    if (m->n_ref + m->n_peek > 0 && !served_in_memory(m)) return "an unloaded model has references";
    if (n > 0 && m->state == SERVED_READY) return "a request waits for a loaded model";
    if (served_is_urgent(m) && !m->turn && !m->models->stops)
        return "a model with waiters has no turn";
    if (m->gone && (n > 0 || m->turn)) return "a removed model is to be loaded";
    return NULL;
}

const char *plan_check(const struct models *m)
{
    const char *wrong = NULL;
    int64_t sum = 0;
    int n = 0, n_waiting = 0;
    for (int i = 0; i < m->n && !wrong; i++) {
        wrong = check_model(&m->v[i]);
        n_waiting += m->v[i].n_waiting;
        if (!has_plan(&m->v[i])) continue;
        sum += m->v[i].n_byte;
        n++;
    }
    if (!wrong && m->place && n_waiting != share_total(m->place))
        wrong = "waiting requests are miscounted";
    if (!wrong && !m->o.only && sum > m->o.bytes_max) wrong = "the plans exceed the memory";
    if (!wrong && m->o.n_loaded_max && n > m->o.n_loaded_max) wrong = "too many models are loaded";
    return wrong;
}
