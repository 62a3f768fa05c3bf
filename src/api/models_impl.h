/* models_impl.h - private to models.c and models_*.c: the registry of a server's models, and the
 * steps of its thread. The invariants are at the head of models.c. */
#ifndef QUOTH_API_MODELS_IMPL_H
#define QUOTH_API_MODELS_IMPL_H

#include "models.h"

#include "api.h"

#include <pthread.h>
#include <stdatomic.h>

struct share;

struct served {
    struct models *models; /* borrowed */
    const struct served_spec *spec;
    struct served_spec own; /* spec of a model of models_add */
    atomic_bool gone;       /* true after models_remove; changed under the lock */
    int index;
    struct api api;
    enum served_state state;
    /* n_patient: those of n_ref that are of patient requests. n_peek: references that only read
     * figures, and do not count as a use */
    int n_ref, n_patient, n_peek, n_waiting;
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
    int64_t client_us; /* time (time_us) of the last end of a client's request; 0: none */
    int64_t loaded_us; /* time (time_us) of the end of the last load */
    int rc;            /* error of the last load */
    struct err why;
    struct served_waiter *first, *last; /* waiters, borrowed */
};

struct models {
    struct models_options o;
    struct served *v; /* owned [o.n_max] */
    atomic_int n;     /* number of models; it grows after the new one is complete */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* condition: the thread has work */
    pthread_t thread;
    bool started, stops, sleeps, locked; /* locked: lock and changed are initialized */
    struct served *busy;                 /* model that the thread measures or loads; NULL: none */
    /* true: the measurement or load of `busy` must end. Set under the lock; the thread's
     * cancel_flag. */
    atomic_bool cancel;
    uint64_t last_turn, last_use, last_wait;
    struct share *place; /* places of waiting requests, owned; NULL: no request waits */
};

void models_lock(struct models *m);
void models_unlock(struct models *m);

/* ---- under the lock; any thread ---- */

/* Return true if the model's api is valid and its plan counts against the limits (1), (2). A model
 * in UNLOADING does not count, because the same thread frees the model before it loads another. */
bool served_in_memory(const struct served *m);
/* Give the model a turn if it has no turn. */
void served_want(struct served *m);
/* Return true if the model loads, and the load was not cancelled. */
bool served_loads(const struct served *m);
/* Remove the reasons for a load of the model: end its waits with the error, and cancel the load in
 * progress. The thread ends this load within about a second. */
void served_refuse(struct served *m, int rc, const struct err *why);

/* ---- models_wait.c: waiting requests; under the lock ---- */

/* Acquire a place for the waiter. Return false if its holder gets no place. */
bool waiter_acquire_place(struct models *m, const struct served_waiter *w);
/* Append a waiter that has a place to the model's list. */
void waiter_link(struct served *m, struct served_waiter *w);
/* Remove a waiter from its model's list and release its place. w->model stays set, because
 * served_taken and served_leave find the lock by the model. */
void waiter_unlink(struct served_waiter *w);
/* Return true if a request that is not patient waits for the model. */
bool served_is_urgent(const struct served *m);
/* End all waits for a model: with references if rc is 0, else with the error. The waiter may be
 * freed as soon as the lock is released. */
void served_end_waits(struct served *m, int rc, const struct err *why);

/* ---- models_plan.c: the memory of all models; under the lock ---- */

/* Return true if a further plan of n_byte keeps invariant (2). */
bool plan_fits(const struct models *m, int64_t n_byte);
/* Return the model to unload for the load of another model; NULL if no model may be unloaded. */
struct served *plan_victim(struct models *m);
/* Return the model to unload for a load that only patient requests need: one without requests of
 * clients that no client has used for quiet_us, if possible without requests. NULL if none; then
 * *wait_us is at most the time until there may be one. */
struct served *plan_quiet_victim(struct models *m, int64_t *wait_us);
/* Return true if memory will become free without another victim. A second victim could be unloaded
 * in vain, because the first victim may free enough. */
bool plan_drains(const struct models *m);
/* Check the invariants. Return NULL, or a description of the violation. */
const char *plan_check(const struct models *m);

/* ---- models_load.c ---- */

/* Run the registry's thread, which loads and unloads all models, until m->stops. Return NULL. */
void *models_run(void *models);

#endif
