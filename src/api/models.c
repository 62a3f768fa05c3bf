/* models.c - the registry of a server's models (models.h).
 *
 * `lock` protects the fields of the registry and its models, except constants and `api` of a model
 * with a reference.
 *
 * (1) A model's api is valid in READY and DRAINING. Only these models have references.
 * (2) The plans of LOADING, READY and DRAINING models have at most bytes_max together. There are at
 *     most n_loaded_max of these models.
 * (3) A model with a waiter that is not patient has a `turn`, its place in the order of loads. Only
 *     the model with the first turn is loaded, so requests for a busy model cannot delay other
 *     models endlessly. A model with patient waiters only is loaded if no model has a turn.
 * (4) Only the registry's thread changes a state, except READY to DRAINING (served_unload,
 *     models_remove).
 * (5) A model is never moved or freed before models_close. A removed model has no waiter and no
 *     turn.
 * (6) A cancelled load (served_refuse) becomes UNLOADED, or DRAINING if it was complete. A request
 *     that arrives between the cancellation and this state gives the model a new turn. */
#include "models_impl.h"

#include "base/check.h"
#include "base/cond.h"
#include "base/os.h"
#include "base/share.h"

#include <stdlib.h>
#include <string.h>

/* N_WAITING_MAX, QUIET_US: defaults. Few requests may wait, because each waiting request keeps its
 * body in memory. RETRY_US: time after a failed load in which requests get the error of the load,
 * because each attempt may unload other models. */
enum { N_WAITING_MAX = 1024, RETRY_US = 10 * 1000 * 1000, QUIET_US = 5 * 1000 * 1000 };

void models_lock(struct models *m)
{
    pthread_mutex_lock(&m->lock);
}

void models_unlock(struct models *m)
{
    pthread_mutex_unlock(&m->lock);
}

bool served_in_memory(const struct served *m)
{
    return m->state == SERVED_READY || m->state == SERVED_DRAINING;
}

void served_want(struct served *m)
{
    if (!m->turn) m->turn = ++m->models->last_turn;
    pthread_cond_signal(&m->models->changed);
}

bool served_loads(const struct served *m)
{
    return m->state == SERVED_LOADING && !m->models->cancel;
}

void served_refuse(struct served *m, int rc, const struct err *why)
{
    served_end_waits(m, rc, why);
    m->turn = 0;
    m->wanted = false;
    if (m->models->busy == m) m->models->cancel = true;
}

/* ---- opening and closing ---- */

/* Set a model to its state at the start. */
static void served_begin(struct models *m, int i, const struct served_spec *spec)
{
    struct served *v = &m->v[i];
    v->models = m;
    v->spec = spec;
    v->index = i;
    v->idle_us = m->o.idle_us;
    if (m->o.only) {
        v->api = *m->o.only;
        v->api.model = v;
        v->state = SERVED_READY;
    } else if (v->spec->pinned || v->spec->loads) {
        v->turn = ++m->last_turn;
        v->wanted = true;
    }
}

int models_open(struct models **out, const struct models_options *o, struct err *e)
{
    struct models *m = *out = calloc(1, sizeof *m);
    if (!m) return err_memory(e, "models", sizeof *m);
    m->o = *o;
    if (m->o.n_waiting_max == 0) m->o.n_waiting_max = N_WAITING_MAX;
    if (m->o.quiet_us == 0) m->o.quiet_us = QUIET_US;
    if (m->o.n_max < o->n) m->o.n_max = o->n;
    m->v = calloc((size_t)m->o.n_max, sizeof *m->v);
    const struct share_options places = {.limit = m->o.n_waiting_max,
                                         .holder_max = m->o.n_waiting_max};
    m->locked = m->v && pthread_mutex_init(&m->lock, NULL) == 0;
    if (m->locked) cond_init(&m->changed);
    bool ok = m->locked && (o->only || share_open(&m->place, &places, e) == 0);
    for (int i = 0; ok && i < o->n; i++) served_begin(m, i, &o->spec[i]);
    if (ok) m->n = o->n;
    if (ok && !o->only) ok = m->started = os_thread_start(&m->thread, models_run, m);
    if (ok) return 0;
    models_close(m);
    *out = NULL;
    return err_memory(e, "models", (size_t)o->n * sizeof *m->v);
}

void models_stop(struct models *m)
{
    struct err e = {0};
    err_set(&e, ERR_UNAVAILABLE, "the server is shutting down");
    models_lock(m);
    m->stops = true;
    for (int i = 0; i < m->n; i++) served_refuse(&m->v[i], ERR_UNAVAILABLE, &e);
    pthread_cond_signal(&m->changed);
    models_unlock(m);
}

void models_close(struct models *m)
{
    if (!m) return;
    if (m->locked) models_stop(m);
    if (m->started) pthread_join(m->thread, NULL);
    for (int i = 0; m->v && i < m->n; i++) {
        CHECK(m->v[i].n_ref + m->v[i].n_peek == 0, "model %d has %d references", i, m->v[i].n_ref);
        if (!m->o.only && served_in_memory(&m->v[i])) m->o.loader.unload(m->o.loader.ctx, i);
    }
    if (m->locked) {
        pthread_mutex_destroy(&m->lock);
        pthread_cond_destroy(&m->changed);
    }
    share_close(m->place);
    free(m->v);
    free(m);
}

/* ---- names ---- */

int models_n(const struct models *m)
{
    return m->n;
}

struct served *models_at(const struct models *m, int i)
{
    CHECK(i >= 0 && i < m->n, "model %d of %d", i, m->n);
    return &m->v[i];
}

bool served_gone(const struct served *m)
{
    return m->gone;
}

/* Return the only model; NULL if there are none or several. */
static struct served *only_model(const struct models *m)
{
    struct served *only = NULL;
    int n = 0;
    for (int i = 0; i < m->n; i++)
        if (!m->v[i].gone && n++ == 0) only = &m->v[i];
    return n == 1 ? only : NULL;
}

struct served *models_find(const struct models *m, const char *name)
{
    if (!name) return only_model(m);
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->v[i].spec->n_name; k++)
            if (!m->v[i].gone && session_same_name(m->v[i].spec->name[k], name)) return &m->v[i];
    return NULL;
}

const struct api *models_only(const struct models *m)
{
    return m->o.only ? &m->v[0].api : NULL;
}

const struct served_spec *served_spec(const struct served *m)
{
    return m->spec;
}

/* ---- references ---- */

/* Return true if the last load failed a short time ago. ERR_MEMORY does not count, because it is
 * temporary. */
static bool failed_recently(const struct served *m)
{
    return m->state == SERVED_FAILED && m->rc != ERR_MEMORY && time_us() - m->failed_us < RETRY_US;
}

/* Set the error for a request whose model was removed after its name was found. */
static int removed(const struct served *m, struct err *e)
{
    return err_field(e, ERR_MISSING, "model", ": \"%.100s\" not found; it was removed",
                     m->spec->name[0]);
}

int served_take(struct served *m, struct served_waiter *w, const struct api **out, struct err *e)
{
    struct models *all = m->models;
    int rc = 0;
    *out = NULL;
    models_lock(all);
    if (m->gone) {
        rc = removed(m, e);
    } else if (m->state == SERVED_READY) {
        m->n_ref++;
        m->n_patient += w && w->patient;
        *out = &m->api;
    } else if (all->stops) {
        rc = err_set(e, ERR_UNAVAILABLE, "the server is shutting down");
    } else if (all->sleeps) {
        rc = err_set(e, ERR_UNAVAILABLE, "the models sleep; POST /wake_up wakes them");
    } else if (failed_recently(m)) {
        rc = m->rc;
        *e = m->why;
    } else if (all->o.only_by_load && !m->turn) {
        rc = err_field(e, ERR_UNSUPPORTED, "model",
                       ": \"%.100s\" is not loaded, and requests load no model", m->spec->name[0]);
    } else if (!w) {
        /* a call without a waiter only tries, because most requests find their model loaded */
        rc = 0;
    } else if (!waiter_acquire_place(all, w)) {
        rc = err_set(e, ERR_BUSY, "the queue is full; try again later");
    } else {
        waiter_link(m, w);
        if (!w->patient) served_want(m);
        pthread_cond_signal(&all->changed);
    }
    models_unlock(all);
    return rc;
}

int served_taken(struct served_waiter *w, const struct api **out, struct err *e)
{
    *out = NULL;
    if (!w->model) return 0;
    models_lock(w->model->models);
    const int rc = w->rc;
    if (rc != 0) *e = w->why;
    if (w->granted) *out = &w->model->api;
    w->granted = false;
    models_unlock(w->model->models);
    return rc;
}

bool served_waits(const struct served_waiter *w)
{
    if (!w->model) return false;
    models_lock(w->model->models);
    const bool waits = w->waits;
    models_unlock(w->model->models);
    return waits;
}

/* Drop a reference, under the lock. */
static void drop(struct served *m, bool patient)
{
    CHECK(m->n_ref > 0 && served_in_memory(m), "%d references in state %d", m->n_ref,
          (int)m->state);
    m->used_us = time_us();
    m->n_used = ++m->models->last_use;
    m->n_patient -= patient;
    if (!patient) m->client_us = m->used_us;
    if (--m->n_ref == 0) pthread_cond_signal(&m->models->changed);
}

/* Remove the turn of a model that no waiter needs any more. */
void served_leave(struct served_waiter *w)
{
    struct served *m = w->model;
    if (!m) return;
    models_lock(m->models);
    if (w->waits) {
        waiter_unlink(w);
        if (!served_is_urgent(m) && !m->wanted && !served_loads(m)) m->turn = 0;
        pthread_cond_signal(&m->models->changed);
    }
    if (w->granted) drop(m, w->patient);
    w->granted = false;
    w->model = NULL;
    models_unlock(m->models);
}

const struct api *served_peek(struct served *m)
{
    models_lock(m->models);
    const bool loaded = served_in_memory(m);
    m->n_peek += loaded;
    models_unlock(m->models);
    return loaded ? &m->api : NULL;
}

void served_drop(const struct api *a)
{
    if (!a || !a->model) return;
    models_lock(a->model->models);
    drop(a->model, a->patient);
    models_unlock(a->model->models);
}

void served_unpeek(const struct api *a)
{
    if (!a) return;
    struct served *m = a->model;
    models_lock(m->models);
    CHECK(m->n_peek > 0 && served_in_memory(m), "%d readers in state %d", m->n_peek, (int)m->state);
    if (--m->n_peek == 0) pthread_cond_signal(&m->models->changed);
    models_unlock(m->models);
}

/* ---- status and changes ---- */

struct served_status served_status(struct served *m)
{
    models_lock(m->models);
    struct served_status s = {.state = m->state,
                              .n_ref = m->n_ref,
                              .n_waiting = m->n_waiting,
                              .n_byte = served_in_memory(m) ? m->n_byte : 0,
                              .used_us = m->used_us,
                              .idle_us = m->spec->pinned || m->models->o.only ? -1 : m->idle_us,
                              .n_load = m->n_load,
                              .load_us = m->load_us,
                              .rc = m->state == SERVED_FAILED ? m->rc : 0};
    if (s.rc != 0) s.why = m->why;
    models_unlock(m->models);
    return s;
}

const char *served_state_name(enum served_state s)
{
    static const char *const name[] = {"unloaded", "loading",  "loaded",
                                       "loaded",   "unloaded", "unloaded"};
    return name[s];
}

int served_load(struct served *m, struct err *e)
{
    int rc = 0;
    models_lock(m->models);
    if (m->gone) {
        rc = removed(m, e);
    } else if (m->models->sleeps) {
        rc = err_set(e, ERR_UNAVAILABLE, "the models sleep; POST /wake_up wakes them");
    } else if (m->state != SERVED_READY && !served_loads(m) && !m->models->o.only) {
        m->wanted = true;
        served_want(m);
    }
    models_unlock(m->models);
    return rc;
}

/* Reject changes of a registry with one loaded model, which has no thread for them. */
static int check_many(const struct models *m, struct err *e)
{
    if (!m->o.only) return 0;
    return err_set(e, ERR_UNSUPPORTED,
                   "not supported by this server; --enable-sleep-mode, --models-dir, "
                   "--models-preset or --models-hub allow it");
}

bool served_pinned(const struct served *m)
{
    return m->spec->pinned;
}

int served_unload(struct served *m, struct err *e)
{
    int rc = check_many(m->models, e);
    struct err why = {0};
    if (rc != 0) return rc;
    err_set(&why, ERR_UNAVAILABLE, "model \"%.100s\" was unloaded before the end of its load",
            m->spec->name[0]);
    models_lock(m->models);
    if (m->state == SERVED_READY) m->state = SERVED_DRAINING;
    served_refuse(m, ERR_UNAVAILABLE, &why);
    pthread_cond_signal(&m->models->changed);
    models_unlock(m->models);
    return 0;
}

/* Unload a model for models_sleep, under the lock. Waiting requests get the same error as later
 * requests. */
static void sleep_one(struct served *v)
{
    struct err e = {0};
    const bool loads = v->wanted || v->turn;
    err_set(&e, ERR_UNAVAILABLE, "the models sleep; POST /wake_up wakes them");
    v->slept = !v->gone && (loads || v->state == SERVED_READY || v->state == SERVED_LOADING);
    served_refuse(v, ERR_UNAVAILABLE, &e);
    if (v->state == SERVED_READY) v->state = SERVED_DRAINING;
}

int models_sleep(struct models *m, bool sleep, struct err *e)
{
    int rc = check_many(m, e);
    if (rc != 0) return rc;
    models_lock(m);
    const bool changes = m->sleeps != sleep;
    m->sleeps = sleep;
    for (int i = 0; changes && i < m->n; i++) {
        struct served *v = &m->v[i];
        if (sleep) {
            sleep_one(v);
        } else if (v->slept) {
            v->slept = false;
            v->wanted = true;
            served_want(v);
        }
    }
    pthread_cond_signal(&m->changed);
    models_unlock(m);
    return 0;
}

bool models_asleep(struct models *m)
{
    models_lock(m);
    const bool sleeps = m->sleeps;
    models_unlock(m);
    return sleeps;
}

void served_keep(struct served *m, int64_t idle_us)
{
    models_lock(m->models);
    m->idle_us = idle_us;
    pthread_cond_signal(&m->models->changed);
    models_unlock(m->models);
}

/* ---- models that come and go ---- */

int models_add(struct models *m, const struct served_spec *spec, struct served **out, struct err *e)
{
    /* only one thread adds models, so the row after the last one is free without the lock */
    const int i = m->n;
    *out = NULL;
    if (!m->o.loader.add)
        return err_set(e, ERR_UNSUPPORTED, "the server's models cannot be changed");
    if (i >= m->o.n_max)
        return err_set(e, ERR_LIMIT,
                       "the server has had more than %d models; restart it to add more",
                       m->o.n_max);
    struct served *v = &m->v[i];
    int rc = m->o.loader.add(m->o.loader.ctx, i, spec, &v->own, e);
    if (rc != 0) return rc;
    models_lock(m);
    served_begin(m, i, &v->own);
    /* publish the row: models_n and models_find read n without the lock */
    m->n = i + 1;
    models_unlock(m);
    *out = v;
    return 0;
}

void models_remove(struct served *m)
{
    struct err e = {0};
    models_lock(m->models);
    if (!m->gone) {
        m->gone = true;
        served_refuse(m, removed(m, &e), &e);
        m->slept = false;
        if (m->state == SERVED_READY) m->state = SERVED_DRAINING;
        pthread_cond_signal(&m->models->changed);
    }
    models_unlock(m->models);
}

const char *models_check(struct models *m)
{
    models_lock(m);
    const char *wrong = plan_check(m);
    models_unlock(m);
    return wrong;
}
