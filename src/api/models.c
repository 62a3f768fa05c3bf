/* models.c - the registry of a server's models (models.h).
 *
 * `lock` protects the fields of the registry and its models, except constants and `api` of a model
 * with a reference.
 *
 * (1) A model's api is valid in READY and DRAINING. Only these models have references.
 * (2) The plans of LOADING, READY and DRAINING models have at most bytes_max together. There are at
 *     most n_loaded_max of these models.
 * (3) A model with a waiter has a `turn`, its place in the order of loads. Only the model with the
 *     first turn is loaded, so requests for a busy model cannot delay other models endlessly.
 * (4) Only the registry's thread changes a state, except READY to DRAINING (served_unload,
 *     models_remove).
 * (5) A model is never moved or freed before models_close. A removed one has no waiter and no turn.
 *
 * The victim of a load is the least recently used model without requests. The least recently used
 * model drains if all models have requests.
 *
 * The life of a wait, with the function on each edge. The owner frees a waiter only after
 * served_leave, so no list contains a freed waiter:
 *
 *   (none) --served_take--> in m->first --end_waits--> ended, with a reference or an error
 *                                |                         | served_taken: the api or the error
 *                                '------ served_leave -----'--> (none)
 *
 * The exact size of a model's buffers is known only after its files are bound. A load that fails
 * for lack of memory is therefore repeated with a larger plan, until the loader has no larger size.
 * Between two steps of a load the lock is released, so clients can read states during a load. */
#include "models.h"

#include "api.h"

#include "base/check.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/os.h"
#include "base/share.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* N_WAITING_MAX: default limit, because each waiting request keeps its body in memory. RETRY_US:
 * time after a failed load in which requests get the error of the load, because each attempt may
 * unload other models. */
enum { N_WAITING_MAX = 1024, RETRY_US = 10 * 1000 * 1000 };

struct served {
    struct models *models; /* borrowed */
    const struct served_spec *spec;
    struct served_spec own; /* spec of a model of models_add */
    atomic_bool gone;       /* true after models_remove; changed under the lock */
    int index;
    struct api api;
    enum served_state state;
    /* n_peek: references that only read figures, and do not count as a use */
    int n_ref, n_peek, n_waiting;
    uint64_t n_used; /* place in the order of uses, because two uses may have equal times */
    uint64_t turn;   /* place in the order of loads; 0: no load is pending */
    bool slept;      /* true if models_sleep has unloaded the model */
    bool wanted;     /* true if the model must be loaded even if no request waits for it */
    /* attempt: number of loads that failed for lack of memory. measured: true if n_byte belongs to
     * the current attempt. */
    int attempt;
    bool measured;
    /* n_byte: memory of the plan. used_us, failed_us: times (time_us). idle_us, load_us:
     * durations */
    int64_t n_byte, used_us, idle_us, failed_us, n_load, load_us;
    int rc; /* error of the last load */
    struct err why;
    struct served_waiter *first, *last; /* borrowed */
};

struct models {
    struct models_options o;
    struct served *v; /* owned [o.n_max] */
    atomic_int n;     /* number of models; it grows after the new one is complete */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* condition: the thread has work */
    pthread_t thread;
    bool started, stops, sleeps, locked; /* locked: lock and changed are initialized */
    uint64_t last_turn, last_use, last_wait;
    struct share *place; /* places of waiting requests, owned; NULL: no request waits */
};

static void lock(struct models *m)
{
    pthread_mutex_lock(&m->lock);
}

static void unlock(struct models *m)
{
    pthread_mutex_unlock(&m->lock);
}

/* Return true if the model's api is valid and its plan counts against the limits (1), (2). A model
 * in UNLOADING does not count, because the same thread frees the model before it loads another. */
static bool in_memory(const struct served *m)
{
    return m->state == SERVED_READY || m->state == SERVED_DRAINING;
}

/* ---- waiters; under the lock ---- */

/* Remove a waiter from its model's list and release its place. w->model stays set, because
 * served_taken and served_leave find the lock by the model. */
static void unlink_waiter(struct served_waiter *w)
{
    struct served *m = w->model;
    *(w->prev ? &w->prev->next : &m->first) = w->next;
    *(w->next ? &w->next->prev : &m->last) = w->prev;
    w->waits = false;
    m->n_waiting--;
    share_release(m->models->place, w->holder, 1);
}

/* Append a waiter to the model's list. The number orders waits of all models, so that refuse_newest
 * finds the newest wait of a holder. */
static void link_waiter(struct served *m, struct served_waiter *w)
{
    w->model = m;
    w->waits = true;
    w->granted = false;
    w->rc = 0;
    w->prev = m->last;
    w->next = NULL;
    *(m->last ? &m->last->next : &m->first) = w;
    m->last = w;
    m->n_waiting++;
    w->number = ++m->models->last_wait;
}

/* End all waits for a model: with references if rc is 0, else with the error. The waiter may be
 * freed as soon as the lock is released. */
static void end_waits(struct served *m, int rc, const struct err *why)
{
    while (m->first) {
        struct served_waiter *w = m->first;
        unlink_waiter(w);
        w->rc = rc;
        if (rc != 0) w->why = *why;
        w->granted = rc == 0;
        m->n_ref += rc == 0;
        w->wake(w->arg);
    }
}

/* End the wait of the holder's newest request with ERR_BUSY. A victim has a waiting request. */
static void refuse_newest(struct models *m, uint64_t holder)
{
    struct served_waiter *newest = NULL;
    for (int i = 0; i < m->n; i++)
        for (struct served_waiter *w = m->v[i].first; w; w = w->next)
            if (w->holder == holder && (!newest || w->number > newest->number)) newest = w;
    CHECK(newest, "a holder without a waiting request");
    unlink_waiter(newest);
    newest->rc = err_set(&newest->why, ERR_BUSY, "the queue is full; try again later");
    newest->wake(newest->arg);
}

/* Acquire a place for the waiter. Return false if its holder gets no place. */
static bool acquire_place(struct models *m, const struct served_waiter *w)
{
    for (;;) {
        uint64_t victim;
        const double weight = w->weight > 0 ? w->weight : 1;
        const enum share_answer a = share_acquire(m->place, w->holder, weight, 1, &victim);
        if (a != SHARE_EVICT) return a == SHARE_TAKEN;
        refuse_newest(m, victim);
    }
}

/* Give the model a turn if it has no turn. */
static void want(struct served *m)
{
    if (!m->turn) m->turn = ++m->models->last_turn;
    pthread_cond_signal(&m->models->changed);
}

/* ---- the thread; under the lock, which the loader's functions run without ---- */

/* Return true if a further plan of n_byte keeps invariant (2). */
static bool fits(const struct models *m, int64_t n_byte)
{
    int64_t sum = n_byte;
    int n = 1;
    for (int i = 0; i < m->n; i++)
        if (in_memory(&m->v[i])) sum += m->v[i].n_byte, n++;
    return sum <= m->o.bytes_max && (m->o.n_loaded_max == 0 || n <= m->o.n_loaded_max);
}

/* Return the model to unload for the load of another model; NULL if no model may be unloaded. */
static struct served *victim_of(struct models *m)
{
    struct served *best = NULL;
    for (int i = 0; i < m->n; i++) {
        struct served *v = &m->v[i];
        if (v->state != SERVED_READY || v->spec->pinned) continue;
        const bool idle = v->n_ref == 0, best_idle = best && best->n_ref == 0;
        if (!best || (idle != best_idle ? idle : v->n_used < best->n_used)) best = v;
    }
    return best;
}

/* Return true if memory will become free without another victim. A second victim could be unloaded
 * in vain, because the first victim may free enough. */
static bool any_drains(const struct models *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->v[i].state == SERVED_DRAINING) return true;
    return false;
}

/* Unload a model whose requests have ended. Return false if there is no such model. */
static bool unload_drained(struct models *m)
{
    for (int i = 0; i < m->n; i++) {
        struct served *v = &m->v[i];
        if (v->state != SERVED_DRAINING || v->n_ref + v->n_peek > 0) continue;
        v->state = SERVED_UNLOADING;
        unlock(m);
        m->o.loader.unload(m->o.loader.ctx, i);
        os_trim_memory();
        log_info("%s: unloaded", v->spec->name[0]);
        lock(m);
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
    end_waits(v, rc, &v->why);
}

/* Measure the next attempt of a load. */
static int measure(struct served *v, struct err *e)
{
    struct models *m = v->models;
    int64_t n_byte = 0;
    if (v->measured) return 0;
    unlock(m);
    int rc = m->o.loader.measure(m->o.loader.ctx, v->index, v->attempt, &n_byte, e);
    lock(m);
    if (rc == 0 && n_byte > m->o.bytes_max)
        rc = err_set(e, ERR_LIMIT, "the model needs %lld MiB, more than --memory-limit, %lld MiB",
                     (long long)(n_byte >> 20), (long long)(m->o.bytes_max >> 20));
    v->n_byte = n_byte;
    v->measured = rc == 0;
    return rc;
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
    unlock(m);
    int rc = m->o.loader.load(m->o.loader.ctx, v->index, v->n_byte, &v->api, &e);
    lock(m);
    v->api.model = v;
    if (rc == 0) {
        v->state = SERVED_READY;
        v->turn = 0;
        v->wanted = v->measured = false; /* the files may change before the next load */
        v->n_load++;
        v->used_us = time_us();
        v->n_used = ++m->last_use;
        v->load_us = v->used_us - start;
        v->idle_us = m->o.idle_us;
        log_info("%s: loaded in %.2f s", v->spec->name[0], (double)v->load_us * 1e-6);
        end_waits(v, 0, NULL);
        /* nothing interrupts a load, so a sleep or removal during the load takes effect now */
        if (m->sleeps || v->gone) v->state = SERVED_DRAINING;
        return;
    }
    v->state = SERVED_UNLOADED;
    v->measured = false;
    v->attempt++;
    if (rc != ERR_LIMIT || measure(v, &larger) != 0) fail_load(v, rc, &e);
}

/* Load the model with the first turn, or unload models for it. Return false if the thread must
 * wait. After a measurement, return true: the lock was released, and a model that drains may have
 * lost its last reference meanwhile. */
static bool load_next(struct models *m)
{
    struct served *v = NULL;
    struct err e = {0};
    for (int i = 0; i < m->n; i++)
        if (m->v[i].turn && (!v || m->v[i].turn < v->turn)) v = &m->v[i];
    if (!v || v->state == SERVED_DRAINING) return false;
    if (!v->measured) {
        const int rc = measure(v, &e);
        if (rc != 0 && v->turn) fail_load(v, rc, &e);
        return true;
    }
    if (fits(m, v->n_byte)) {
        load(v);
    } else if (any_drains(m)) {
        return false;
    } else {
        struct served *victim = victim_of(m);
        if (victim)
            victim->state = SERVED_DRAINING;
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

/* Run the registry's thread. A round does one step and then examines all models again, because the
 * step has released the lock. Unloading is first, because it frees memory for loads. */
static void *run(void *models)
{
    struct models *m = models;
    lock(m);
    while (!m->stops) {
        int64_t wait_us = -1;
        if (!unload_drained(m) && !expire(m, &wait_us) && !load_next(m)) wait_change(m, wait_us);
    }
    unlock(m);
    return NULL;
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
    if (m->o.n_max < o->n) m->o.n_max = o->n;
    m->v = calloc((size_t)m->o.n_max, sizeof *m->v);
    const struct share_options places = {.limit = m->o.n_waiting_max,
                                         .holder_max = m->o.n_waiting_max};
    m->locked = m->v && pthread_mutex_init(&m->lock, NULL) == 0;
    if (m->locked) cond_init(&m->changed);
    bool ok = m->locked && (o->only || share_open(&m->place, &places, e) == 0);
    for (int i = 0; ok && i < o->n; i++) served_begin(m, i, &o->spec[i]);
    if (ok) m->n = o->n;
    if (ok && !o->only) ok = m->started = os_thread_start(&m->thread, run, m);
    if (ok) return 0;
    models_close(m);
    *out = NULL;
    return err_memory(e, "models", (size_t)o->n * sizeof *m->v);
}

void models_stop(struct models *m)
{
    struct err e = {0};
    lock(m);
    const bool first = !m->stops;
    m->stops = true;
    pthread_cond_signal(&m->changed);
    unlock(m);
    if (first && m->started) pthread_join(m->thread, NULL);
    err_set(&e, ERR_UNAVAILABLE, "the server is shutting down");
    lock(m);
    for (int i = 0; i < m->n; i++) end_waits(&m->v[i], ERR_UNAVAILABLE, &e);
    unlock(m);
}

void models_close(struct models *m)
{
    if (!m) return;
    if (m->locked) models_stop(m);
    for (int i = 0; m->v && i < m->n; i++) {
        CHECK(m->v[i].n_ref + m->v[i].n_peek == 0, "model %d has %d references", i, m->v[i].n_ref);
        if (!m->o.only && in_memory(&m->v[i])) m->o.loader.unload(m->o.loader.ctx, i);
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
    lock(all);
    if (m->gone) {
        rc = removed(m, e);
    } else if (m->state == SERVED_READY) {
        m->n_ref++;
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
    } else if (!acquire_place(all, w)) {
        rc = err_set(e, ERR_BUSY, "the queue is full; try again later");
    } else {
        link_waiter(m, w);
        want(m);
    }
    unlock(all);
    return rc;
}

int served_taken(struct served_waiter *w, const struct api **out, struct err *e)
{
    *out = NULL;
    if (!w->model) return 0;
    lock(w->model->models);
    const int rc = w->rc;
    if (rc != 0) *e = w->why;
    if (w->granted) *out = &w->model->api;
    w->granted = false;
    unlock(w->model->models);
    return rc;
}

bool served_waits(const struct served_waiter *w)
{
    if (!w->model) return false;
    lock(w->model->models);
    const bool waits = w->waits;
    unlock(w->model->models);
    return waits;
}

/* Drop a reference, under the lock. */
static void drop(struct served *m)
{
    CHECK(m->n_ref > 0 && in_memory(m), "%d references in state %d", m->n_ref, (int)m->state);
    m->used_us = time_us();
    m->n_used = ++m->models->last_use;
    if (--m->n_ref == 0) pthread_cond_signal(&m->models->changed);
}

/* Remove the turn of a model that no waiter needs any more. */
void served_leave(struct served_waiter *w)
{
    struct served *m = w->model;
    if (!m) return;
    lock(m->models);
    if (w->waits) {
        unlink_waiter(w);
        if (!m->first && !m->wanted && m->state != SERVED_LOADING) m->turn = 0;
        pthread_cond_signal(&m->models->changed);
    }
    if (w->granted) drop(m);
    w->granted = false;
    w->model = NULL;
    unlock(m->models);
}

const struct api *served_peek(struct served *m)
{
    lock(m->models);
    const bool loaded = in_memory(m);
    m->n_peek += loaded;
    unlock(m->models);
    return loaded ? &m->api : NULL;
}

void served_drop(const struct api *a)
{
    if (!a || !a->model) return;
    lock(a->model->models);
    drop(a->model);
    unlock(a->model->models);
}

void served_unpeek(const struct api *a)
{
    if (!a) return;
    struct served *m = a->model;
    lock(m->models);
    CHECK(m->n_peek > 0 && in_memory(m), "%d readers in state %d", m->n_peek, (int)m->state);
    if (--m->n_peek == 0) pthread_cond_signal(&m->models->changed);
    unlock(m->models);
}

/* ---- status and changes ---- */

struct served_status served_status(struct served *m)
{
    lock(m->models);
    struct served_status s = {.state = m->state,
                              .n_ref = m->n_ref,
                              .n_waiting = m->n_waiting,
                              .n_byte = in_memory(m) ? m->n_byte : 0,
                              .used_us = m->used_us,
                              .idle_us = m->spec->pinned ? -1 : m->idle_us,
                              .n_load = m->n_load,
                              .load_us = m->load_us,
                              .rc = m->state == SERVED_FAILED ? m->rc : 0};
    if (s.rc != 0) s.why = m->why;
    unlock(m->models);
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
    lock(m->models);
    if (m->gone) {
        rc = removed(m, e);
    } else if (m->models->sleeps) {
        rc = err_set(e, ERR_UNAVAILABLE, "the models sleep; POST /wake_up wakes them");
    } else if (m->state != SERVED_READY && m->state != SERVED_LOADING && !m->models->o.only) {
        m->wanted = true;
        want(m);
    }
    unlock(m->models);
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

int served_unload(struct served *m, struct err *e)
{
    int rc = check_many(m->models, e);
    if (rc != 0) return rc;
    lock(m->models);
    if (m->state == SERVED_READY) m->state = SERVED_DRAINING;
    if (!m->first && m->state != SERVED_LOADING) m->turn = 0, m->wanted = false;
    pthread_cond_signal(&m->models->changed);
    unlock(m->models);
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
    v->wanted = false;
    v->turn = 0;
    end_waits(v, ERR_UNAVAILABLE, &e);
    if (v->state == SERVED_READY) v->state = SERVED_DRAINING;
}

int models_sleep(struct models *m, bool sleep, struct err *e)
{
    int rc = check_many(m, e);
    if (rc != 0) return rc;
    lock(m);
    const bool changes = m->sleeps != sleep;
    m->sleeps = sleep;
    for (int i = 0; changes && i < m->n; i++) {
        struct served *v = &m->v[i];
        if (sleep) {
            sleep_one(v);
        } else if (v->slept) {
            v->slept = false;
            v->wanted = true;
            want(v);
        }
    }
    pthread_cond_signal(&m->changed);
    unlock(m);
    return 0;
}

bool models_asleep(struct models *m)
{
    lock(m);
    const bool sleeps = m->sleeps;
    unlock(m);
    return sleeps;
}

void served_keep(struct served *m, int64_t idle_us)
{
    lock(m->models);
    m->idle_us = idle_us;
    pthread_cond_signal(&m->models->changed);
    unlock(m->models);
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
    lock(m);
    served_begin(m, i, &v->own);
    /* publish the row: models_n and models_find read n without the lock */
    m->n = i + 1;
    unlock(m);
    *out = v;
    return 0;
}

void models_remove(struct served *m)
{
    struct err e = {0};
    lock(m->models);
    if (!m->gone) {
        m->gone = true;
        end_waits(m, removed(m, &e), &e);
        m->turn = 0;
        m->wanted = m->slept = false;
        if (m->state == SERVED_READY) m->state = SERVED_DRAINING;
        pthread_cond_signal(&m->models->changed);
    }
    unlock(m->models);
}

/* ---- invariants ---- */

/* Check invariants (1), (3) and (5) of a model. */
static const char *check_model(const struct served *m)
{
    int n = 0;
    for (const struct served_waiter *w = m->first; w; w = w->next, n++)
        if (w->model != m || !w->waits || w->granted) return "a waiter is in a wrong list";
    if (n != m->n_waiting) return "a model's waiters are miscounted";
    if (m->n_ref < 0 || m->n_peek < 0) return "a reference was dropped twice";
    if (m->n_ref + m->n_peek > 0 && !in_memory(m)) return "an unloaded model has references";
    if (n > 0 && m->state == SERVED_READY) return "a request waits for a loaded model";
    if (n > 0 && !m->turn && !m->models->stops) return "a model with waiters has no turn";
    if (m->gone && (n > 0 || m->turn)) return "a removed model is to be loaded";
    return NULL;
}

const char *models_check(struct models *m)
{
    const char *wrong = NULL;
    int64_t sum = 0;
    int n = 0, n_waiting = 0;
    lock(m);
    for (int i = 0; i < m->n && !wrong; i++) {
        wrong = check_model(&m->v[i]);
        n_waiting += m->v[i].n_waiting;
        if (!in_memory(&m->v[i])) continue;
        sum += m->v[i].n_byte;
        n++;
    }
    if (!wrong && m->place && n_waiting != share_total(m->place))
        wrong = "waiting requests are miscounted";
    if (!wrong && !m->o.only && sum > m->o.bytes_max) wrong = "the plans exceed the memory";
    if (!wrong && m->o.n_loaded_max && n > m->o.n_loaded_max) wrong = "too many models are loaded";
    unlock(m);
    return wrong;
}
