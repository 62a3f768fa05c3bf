/* hub_jobs.h - private to src/api: changes of the hub's stores for clients (hub/hub.h): downloads,
 * removals, copies, new models. One thread makes them, one after the other. After each change the
 * registry gets the models of the stores.
 *
 *   hub_jobs_start --> in the list --run_job: `run` returns--> done --advance--> answered, freed
 *
 * A job whose client has disconnected, or whose server stops, ends by run_job with an error.
 * The thread owns a job until it is done, and then no longer uses its exchange. The exchange ends
 * in `advance` only. */
#ifndef QUOTH_API_HUB_JOBS_H
#define QUOTH_API_HUB_JOBS_H

#include "server_impl.h"

#include "hub/hub.h"

#include <stdatomic.h>

struct hub_jobs; /* opaque */

/* A change. The handler makes a zeroed job, and sets the first fields. */
struct hub_job {
    int (*run)(struct hub_job *j, struct err *e); /* function that makes the change */
    struct hub_name name, from; /* model to change; model to copy, or base of a new one */
    bool has_from;
    struct json *body; /* owned; NULL: not needed */
    bool stream;       /* true: the answer is lines of JSON */
    bool bare;         /* true: the answer of a change has no body */
    /* fields of the jobs */
    struct hub_jobs *jobs;
    struct exchange *x;
    atomic_bool cancel; /* true: the client has disconnected, or the server stops */
    bool done, begun;   /* begun: the head of a stream was sent */
    int rc;
    struct err why;
    struct buf lines; /* unsent lines of a stream */
    bool lost;        /* true: a line was lost for lack of memory, so the answer is an error */
    struct hub_job *next;
};

/* Start the thread. The caller owns *out, NULL after ERR_MEMORY. models: borrowed. */
int hub_jobs_open(struct hub_jobs **out, struct models *models, struct err *e);
/* Cancel all jobs, reject further ones, and wait for the job in progress. NULL is allowed. */
void hub_jobs_stop(struct hub_jobs *j);
void hub_jobs_close(struct hub_jobs *j); /* stop, then free j; no job exists. NULL is allowed */

/* Run a job for a request, and answer it. The job is owned by the jobs, and freed in any case. For
 * handlers, as their last action on the exchange. ERR_BUSY becomes the answer if too many jobs
 * wait. */
void hub_jobs_start(struct hub_jobs *j, struct exchange *x, struct hub_job *take_job);
/* Free a job that was not started. NULL is allowed. */
void hub_job_close(struct hub_job *j);

/* ---- for hub_job.run ---- */

/* Append a line, if the answer is a stream, and wake the client. The line is freed. `optional`: it
 * is dropped if many lines are unsent or memory is exhausted. The loss of another line makes the
 * answer an error. */
void hub_job_line(struct hub_job *j, struct buf *take_line, bool optional);
/* Take a model out of the registry before its files are removed. */
void hub_jobs_forget(struct hub_jobs *j, const struct hub_name *n);

/* ---- ollama_store.c: parts of Ollama's endpoints ---- */

/* Answer 501: the server has no store of models. */
void ollama_refuse(struct exchange *x, const char *what);
/* Validate the name of a model that the client sent in a field. ERR_ARG with the field. */
int ollama_read_name(struct hub_name *out, const char *name, const char *field, struct err *e);
/* Return a new job, owned by the caller; NULL after ERR_MEMORY. */
struct hub_job *ollama_job(int (*run)(struct hub_job *j, struct err *e), struct err *e);
/* Find a model of the stores (hub_find). ERR_MISSING has the sentence of Ollama's clients. */
int ollama_find(struct hub_model *out, const struct hub_name *n, struct err *e);
/* Append a line {"status":TEXT} to the answer of a job. */
void ollama_status(struct hub_job *j, const char *text);

#endif
