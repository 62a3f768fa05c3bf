/* models.h - the models of a server. A model is loaded if a request needs it. A model is unloaded
 * if another model needs its memory, or after an idle time. Part of the public header api.h.
 *
 *              served_take                loaded
 *   UNLOADED ---------------> LOADING ---------------> READY
 *      ^  ^                      |                       | memory for another model,
 *      |  '--- served_load <-- FAILED                    v idle time, served_unload
 *      '--------------------------------------------- DRAINING
 *                   last reference dropped
 *
 * A request has a reference to its model, so a model with a request in flight is not unloaded. A
 * draining model accepts no further requests. Further requests wait until the model is loaded
 * again. One thread loads and unloads all models, one at a time, in the order of the first request
 * for each. A waiting request uses no memory of an engine. A load is cancelled if the model is to
 * be unloaded or removed, or if the models sleep or the server stops. */
#ifndef QUOTH_API_MODELS_H
#define QUOTH_API_MODELS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct models; /* opaque */
struct served; /* opaque; valid until models_close */

/* A model that can be loaded. All pointers are borrowed until models_close. */
struct served_spec {
    const char *const *name; /* [n_name >= 1]; the first name is the model's own name */
    int n_name;
    const char *path; /* path of the model's files, for lists; NULL: unknown */
    bool loads;       /* true if the model is loaded at the start */
    /* true if the model is loaded at the start and never unloaded for another model */
    bool pinned;
    bool stored;         /* true for a model of the hub's stores, which clients may remove */
    int64_t n_byte;      /* size of the model's files in bytes, for lists */
    int64_t modified_us; /* time of the last change of the model's files, since 1970 */
};

/* Functions that load models. Model i is the i-th spec. Only the registry's thread calls them. */
struct served_loader {
    /* function that sets *n_byte to the memory for the model's plan. attempt: number of earlier
     * loads that failed because this memory was too small. The function returns ERR_LIMIT if there
     * is no larger size, or an error of the files. */
    int (*measure)(void *ctx, int i, int attempt, int64_t *n_byte, struct err *e);
    /* function that loads the model into a plan of n_byte. *out is complete, except `model`.
     * ERR_LIMIT: n_byte is too small. `measure` and `load` return an error soon after cancelled()
     * (base/cancel.h) has become true, and then leave nothing open. */
    int (*load)(void *ctx, int i, int64_t n_byte, struct api *out, struct err *e);
    void (*unload)(void *ctx, int i); /* function that frees what `load` has opened */
    /* function that prepares model i, the next number, for models_add. It sets *out to a copy of
     * the spec that exists until models_close. Any one thread. NULL: no further models */
    int (*add)(void *ctx, int i, const struct served_spec *spec, struct served_spec *out,
               struct err *e);
    void *ctx; /* borrowed */
};

struct models_options {
    const struct served_spec *spec; /* [n], borrowed until models_close */
    int n;
    int n_max; /* maximum number of specs, also of later and removed ones; 0: n */
    /* api of the only model, copied; it is loaded before the registry and never unloaded. NULL: the
     * loader's models */
    const struct api *only;
    struct served_loader loader;
    bool only_by_load; /* true: a request does not load a model; served_load does */
    int n_loaded_max;  /* maximum number of loaded models; 0: no limit */
    int64_t bytes_max; /* memory of all plans */
    int64_t idle_us;   /* a model without requests for this time is unloaded; < 0: never */
    int n_waiting_max; /* maximum number of requests that wait for a model; 0: 1024 */
    /* time after a client's request in which patient requests leave its model in memory; 0: 5 s */
    int64_t quiet_us;
};

/* Open the registry, and start its thread unless o->only. Pinned models begin to load. The caller
 * owns *out, NULL after ERR_MEMORY. */
int models_open(struct models **out, const struct models_options *o, struct err *e);
/* End all waits with ERR_UNAVAILABLE, cancel the load in progress, and load no further model.
 * References to loaded models remain valid. Any thread; does not wait for the registry's thread. */
void models_stop(struct models *m);
/* Stop, unload all models and free m; NULL is allowed. No reference to a model exists. Waits for
 * the registry's thread. */
void models_close(struct models *m);

/* ---- any thread ---- */

/* Return the number of models so far. It includes removed ones, and never decreases. */
int models_n(const struct models *m);
struct served *models_at(const struct models *m, int i); /* return model i, borrowed */
bool served_gone(const struct served *m);                /* return true after models_remove */
bool served_pinned(const struct served *m); /* return true if other models never displace it */
/* Return the model of that name or name:latest; NULL if none. name NULL: the only model. Removed
 * models are not found. */
struct served *models_find(const struct models *m, const char *name);
const struct served_spec *served_spec(const struct served *m); /* return its spec, borrowed */
/* Return the api of a model that is never unloaded, borrowed; NULL if models are loaded on
 * demand. */
const struct api *models_only(const struct models *m);

/* A request that waits for a model. The caller owns it, and sets the first five fields. The other
 * fields are the registry's. */
struct served_waiter {
    /* true: the wait unloads no model that clients use, or have used in the last quiet_us. Waits of
     * batches are patient, so a batch and clients do not take turns in loading their models. */
    bool patient;
    /* function that is called after the end of the wait, by another thread. The function must be
     * short, and must not call functions of this header. */
    void (*wake)(void *arg);
    void *arg;            /* borrowed */
    uint64_t holder;      /* client with a share of the places; 0 if none */
    double weight;        /* weight of the holder; 0: 1 */
    uint64_t number;      /* number of the wait, in the order of their begins */
    struct served *model; /* model of the wait; NULL if none is open */
    bool waits, granted;  /* granted: the waiter has a reference to the model */
    int rc;               /* error that ended the wait */
    struct err why;
    struct served_waiter *prev, *next;
};

/* Set *out to the model's api with a reference if the model is loaded. Otherwise begin a wait of w
 * (NULL if none), and set *out to NULL. ERR_MISSING if the model was removed. ERR_BUSY if too many
 * requests wait. Holders share the places: the newest request of the largest holder loses its place
 * to a request of another holder. ERR_UNSUPPORTED if only served_load loads models. ERR_UNAVAILABLE
 * if the server stops or the models sleep. Also the error of a load that has just failed. */
int served_take(struct served *m, struct served_waiter *w, const struct api **out, struct err *e);
/* Set *out to the api with the reference that the wait has acquired; NULL if w still waits. Return
 * the error that ended the wait. */
int served_taken(struct served_waiter *w, const struct api **out, struct err *e);
bool served_waits(const struct served_waiter *w); /* return true if the wait has not ended */
/* End the wait of w, and drop the reference that served_taken has not returned. */
void served_leave(struct served_waiter *w);
/* Return the api with a reference if the model is in memory, also while it drains; NULL if it is
 * not. The reference is for reading figures. This reference does not count as a use of the model,
 * and ends by served_unpeek. */
const struct api *served_peek(struct served *m);
void served_unpeek(const struct api *a); /* end served_peek; NULL is allowed */
/* Drop a reference; an api without a registry is allowed. a->patient: the reference was not a
 * client's. */
void served_drop(const struct api *a);

enum served_state {
    SERVED_UNLOADED,
    SERVED_LOADING,
    SERVED_READY,
    SERVED_DRAINING,
    SERVED_UNLOADING,
    SERVED_FAILED
};
struct served_status {
    enum served_state state;
    int n_ref, n_waiting;
    int64_t n_byte;  /* memory of the model's plan if the model is in memory */
    int64_t used_us; /* time (time_us) of the model's last use; 0: never */
    int64_t idle_us; /* idle time until the model is unloaded; < 0: no limit */
    int64_t n_load;  /* number of loads */
    int64_t load_us; /* duration of the last load */
    int rc;          /* FAILED: error of the load */
    struct err why;
};
struct served_status served_status(struct served *m); /* return a copy */
const char *served_state_name(enum served_state s);   /* return llama.cpp's word, static */

/* Load the model without a request. No effect if it is loaded. ERR_UNAVAILABLE if the models sleep,
 * ERR_MISSING if the model was removed. */
int served_load(struct served *m, struct err *e);
/* Unload the model after its requests in flight. If it is not loaded yet, cancel its load, and end
 * its waits with ERR_UNAVAILABLE. ERR_UNSUPPORTED for a registry of one loaded model. */
int served_unload(struct served *m, struct err *e);
/* sleep: unload all models after their requests in flight, cancel the load in progress, and reject
 * further requests with ERR_UNAVAILABLE. Otherwise accept requests again, and load the models that
 * were loaded. No effect if the models are already in the requested state. ERR_UNSUPPORTED for a
 * registry of one loaded model. */
int models_sleep(struct models *m, bool sleep, struct err *e);
bool models_asleep(struct models *m); /* return true after models_sleep, until the models wake */
/* Set the idle time of the model; < 0: never unload it for being idle. */
void served_keep(struct served *m, int64_t idle_us);

/* Add a model, which is loaded if a request needs it. The spec is borrowed for the call. *out: the
 * model, borrowed until models_close. ERR_LIMIT if the registry has had n_max models, and errors of
 * the loader. One thread at a time calls models_add and models_remove. */
int models_add(struct models *m, const struct served_spec *spec, struct served **out,
               struct err *e);
/* Remove a model: end its waits with ERR_MISSING, cancel its load, and unload it after its requests
 * in flight. */
void models_remove(struct served *m);

/* Check the invariants of models.c. Return NULL, or a description of the violation. */
const char *models_check(struct models *m);

#endif
