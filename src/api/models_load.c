/* models_load.c - the thread that loads and unloads the models of a server (models_impl.h).
 *
 *   UNLOADED --load_next: measure, load--> READY --expire, load_next--> DRAINING
 *       ^                     |                                            |
 *       |                     '--fail_load--> FAILED                       |
 *       '------------------------ unload_drained --------------------------'
 *
 * The exact size of a model's buffers is known only after its files are bound. A load that fails
 * for lack of memory is therefore repeated with a larger plan, until the loader has no larger size.
 * Between two steps of a load the lock is released, so clients can read states during a load.
 *
 * Another thread cancels a load by m->cancel (served_refuse). The steps of a load check this flag,
 * the cancel_flag of this thread. A cancelled load is not a failure. */
#include "models_impl.h"

#include "base/cancel.h"
#include "base/check.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/os.h"

/* Unload a model whose requests have ended. Return false if there is no such model. */
static bool unload_drained(struct models *m)
{
    for (int i = 0; i < m->n; i++) {
        struct served *v = &m->v[i];
        if (v->state != SERVED_DRAINING || v->n_ref + v->n_peek > 0) continue;
        v->state = SERVED_UNLOADING;
        models_unlock(m);
        m->o.loader.unload(m->o.loader.ctx, i);
        os_trim_memory();
        log_info("%s: unloaded", v->spec->name[0]);
        models_lock(m);
        v->state = SERVED_UNLOADED;
        return true;
    }
    return false;
}

/* Drain the models whose idle time is over. Set *wait_us to the time until the next idle time is
 * over; unchanged if none. */
static bool expire(struct models *m, int64_t *wait_us)
{
    const int64_t now = time_us();
    bool any = false;
    for (int i = 0; i < m->n; i++) {
        struct served *v = &m->v[i];
        if (v->state != SERVED_READY || v->n_ref > 0 || v->spec->pinned || v->idle_us < 0) continue;
        const int64_t left = v->used_us + v->idle_us - now;
        if (left <= 0)
            v->state = SERVED_DRAINING, any = true;
        else if (*wait_us < 0 || left < *wait_us)
            *wait_us = left;
    }
    return any;
}

/* End the load of a model with an error that contains the model's name. */
static void fail_load(struct served *v, int rc, struct err *e)
{
    /* a failure of the server's files is an error of the server, for every code of the loader */
    err_prefix(e, rc, "model \"%.100s\"", v->spec->name[0]);
    if (rc != ERR_MEMORY) rc = ERR_IO;
    log_warn("%s", e->text);
    v->state = SERVED_FAILED;
    v->failed_us = time_us();
    v->turn = 0;
    v->attempt = 0;
    v->measured = false;
    v->rc = rc;
    v->wanted = false;
    v->why = *e;
    v->why.field[0] = 0; /* the client's request does not have the field of the loader's error */
    served_end_waits(v, rc, &v->why);
}

/* Release the lock for a step of a model's load, which served_refuse and models_stop may cancel. */
static void begin_step(struct served *v)
{
    struct models *m = v->models;
    m->busy = v;
    m->cancel = m->stops;
    cancel_flag = &m->cancel;
    models_unlock(m);
}

/* End the step. Return true if it was cancelled. m->cancel keeps the result until the next step. */
static bool end_step(struct models *m)
{
    cancel_flag = NULL;
    models_lock(m);
    m->busy = NULL;
    return m->cancel;
}

/* Measure the next attempt of a load. An error with m->cancel: the measurement was cancelled. */
static int measure(struct served *v, struct err *e)
{
    struct models *m = v->models;
    int64_t n_byte = 0;
    if (v->measured) return 0;
    begin_step(v);
    int rc = m->o.loader.measure(m->o.loader.ctx, v->index, v->attempt, &n_byte, e);
    if (end_step(m)) return err_cancelled(e);
    if (rc == 0 && n_byte > m->o.bytes_max)
        rc = err_set(e, ERR_LIMIT, "the model needs %lld MiB, more than --memory-limit, %lld MiB",
                     (long long)(n_byte >> 20), (long long)(m->o.bytes_max >> 20));
    v->n_byte = n_byte;
    v->measured = rc == 0;
    return rc;
}

/* End a load that was cancelled before it was complete. */
static void end_cancelled(struct served *v)
{
    log_info("%s: the load was cancelled", v->spec->name[0]);
    v->state = SERVED_UNLOADED;
    v->attempt = 0;
    v->measured = false;
}

/* Load a measured model. ERR_LIMIT is not yet a failure: the model keeps its turn, and load_next
 * tries the plan of the next attempt. */
static void load(struct served *v)
{
    struct models *m = v->models;
    struct err e = {0}, larger = {0};
    const int64_t start = time_us();
    v->state = SERVED_LOADING;
    v->api = (struct api){0};
    begin_step(v);
    int rc = m->o.loader.load(m->o.loader.ctx, v->index, v->n_byte, &v->api, &e);
    const bool cancels = end_step(m);
    v->api.model = v;
    if (rc == 0) {
        /* a cancelled load may be complete, and a request may have arrived since then */
        v->state = cancels && !v->turn && !v->first ? SERVED_DRAINING : SERVED_READY;
        v->turn = 0;
        v->wanted = v->measured = false; /* the files may change before the next load */
        v->n_load++;
        v->used_us = time_us();
        v->n_used = ++m->last_use;
        v->loaded_us = v->used_us;
        v->load_us = v->used_us - start;
        v->idle_us = m->o.idle_us;
        log_info("%s: loaded in %.2f s", v->spec->name[0], (double)v->load_us * 1e-6);
        served_end_waits(v, 0, NULL);
        return;
    }
    if (cancels) {
        end_cancelled(v);
        return;
    }
    v->state = SERVED_UNLOADED;
    v->measured = false;
    v->attempt++;
    if (rc != ERR_LIMIT)
        fail_load(v, rc, &e);
    else if (measure(v, &larger) != 0 && m->cancel)
        end_cancelled(v);
    else if (!v->measured)
        fail_load(v, rc, &e);
}

/* Return the model to load next: the one with the first turn, else the one whose patient request
 * waits longest. NULL if none. */
static struct served *next_load(struct models *m)
{
    struct served *v = NULL, *patient = NULL;
    for (int i = 0; i < m->n; i++) {
        struct served *o = &m->v[i];
        if (o->turn && (!v || o->turn < v->turn)) v = o;
        if (o->first && (!patient || o->first->number < patient->first->number)) patient = o;
    }
    return v ? v : patient;
}

/* Load the next model, or unload models for it. Return false if the thread must wait, at most
 * *wait_us. After a measurement, return true: the lock was released, and a model that drains may
 * have lost its last reference meanwhile. */
static bool load_next(struct models *m, int64_t *wait_us)
{
    struct served *v = next_load(m);
    struct err e = {0};
    if (!v || v->state == SERVED_DRAINING) return false;
    if (!v->measured) {
        const int rc = measure(v, &e);
        if (rc != 0 && !m->cancel && (v->turn || v->first)) fail_load(v, rc, &e);
        return true;
    }
    if (plan_fits(m, v->n_byte)) {
        load(v);
    } else if (plan_drains(m)) {
        return false;
    } else {
        struct served *victim = v->turn ? plan_victim(m) : plan_quiet_victim(m, wait_us);
        if (victim)
            victim->state = SERVED_DRAINING;
        else if (!v->turn && plan_victim(m))
            return false;
        else
            fail_load(v,
                      err_set(&e, ERR_LIMIT, "pinned models leave less than the required %lld MiB",
                              (long long)(v->n_byte >> 20)),
                      &e);
    }
    return true;
}

/* Wait for work, at most wait_us microseconds; < 0: without a limit. */
static void wait_change(struct models *m, int64_t wait_us)
{
    cond_wait(&m->changed, &m->lock, wait_us < 0 ? INT64_MAX : time_us() + wait_us);
}

/* A round does one step and then examines all models again, because the
 * step has released the lock. Unloading is first, because it frees memory for loads. */
void *models_run(void *models)
{
    struct models *m = models;
    models_lock(m);
    while (!m->stops) {
        int64_t wait_us = -1;
        const char *wrong = check_steps ? plan_check(m) : NULL;
        CHECK(!wrong, "%s", wrong);
        if (!unload_drained(m) && !expire(m, &wait_us) && !load_next(m, &wait_us))
            wait_change(m, wait_us);
    }
    models_unlock(m);
    return NULL;
}
