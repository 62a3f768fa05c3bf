/* responses_background.c - responses in the background (responses_background.h).
 *
 * (1) `first` lists the unfinished jobs. Handlers add jobs at its front, the thread removes them.
 *     Only the thread uses the call of a job in the list.
 * (2) `lock` protects the list. For each job, `lock` also protects log, response, input, listeners,
 *     n_ref, state and wish.
 * (3) The log of a job counts for its owner's size in the store (store_reserve), until the record
 *     of the response counts in its place. A job whose log does not fit fails.
 * (4) A job in the list has its call, and is not DONE between two steps. Its state only grows.
 * (5) The list has a reference to each of its jobs. A job without references is freed.
 *
 * The life of a job, with the function on each edge:
 *
 *   jobs_start --submit--> in the list --continue_job: all events have arrived--> finish
 *                               |
 *                               '--job_cancel, jobs_stop: the call ends early, then as above
 *
 * A response is stored before its job leaves the list. A client therefore finds each response in at
 * least one of the two places, and get_responses.c searches the list first. A crash loses
 * unfinished jobs, because their calls exist only in memory. */
#include "responses_background.h"

#include "responses.h"

#include "base/check.h"
#include "base/log.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

/* QUEUED: no token was generated. RUNS: a token was generated. DONE: the response is final, and
 * stored. */
enum job_state { JOB_QUEUED, JOB_RUNS, JOB_DONE };

/* What clients want of a job; a stronger wish replaces a weaker one. */
enum job_wish { JOB_CONTINUE, JOB_CANCEL, JOB_REMOVE };

struct job {
    struct jobs *jobs; /* borrowed */
    struct job *next;
    int n_ref;             /* references of the list and of users */
    struct api_call *call; /* owned until the job ends; then NULL */
    char id[RESPONSES_ID_MAX];
    uint64_t owner;
    struct buf log;      /* events so far */
    struct buf response; /* JSON of the response with its present status */
    int64_t n_reserved;  /* bytes of the store that the log may have */
    enum job_state state;
    enum job_wish wish;
    /* gap: events were lost, so no further event is added. cancelled: the call is cancelled */
    bool streams, gap, cancelled;
    struct job_listener *listener;
};

struct jobs {
    struct store *store; /* borrowed */
    struct queue *bell;  /* queue of one byte, owned: the thread has work */
    pthread_mutex_t lock;
    pthread_t thread;
    struct job *first; /* owned list */
    bool stops, started;
};

/* ---- references ---- */

/* Free a job without references, and return its reserved bytes to the owner's size. */
static void job_free(struct job *job)
{
    store_reserve(job->jobs->store, job->owner, -job->n_reserved);
    buf_deinit(&job->log);
    buf_deinit(&job->response);
    free(job);
}

void job_drop(struct job *job)
{
    if (!job) return;
    struct jobs *j = job->jobs;
    pthread_mutex_lock(&j->lock);
    const bool last = --job->n_ref == 0;
    pthread_mutex_unlock(&j->lock);
    if (last) job_free(job);
}

struct job *jobs_find(struct jobs *j, uint64_t owner, const char *id)
{
    pthread_mutex_lock(&j->lock);
    struct job *job = j->first;
    while (job && (job->owner != owner || job->wish == JOB_REMOVE || strcmp(job->id, id) != 0))
        job = job->next;
    if (job) job->n_ref++;
    pthread_mutex_unlock(&j->lock);
    return job;
}

/* ---- the state of a job, for users ---- */

bool job_response(struct job *job, struct buf *out)
{
    pthread_mutex_lock(&job->jobs->lock);
    buf_add(out, job->response.data, job->response.n);
    const bool done = job->state == JOB_DONE;
    pthread_mutex_unlock(&job->jobs->lock);
    return done;
}

void job_input(struct job *job, struct buf *out)
{
    pthread_mutex_lock(&job->jobs->lock);
    const struct responses *own = job->call ? job->call->own : NULL;
    if (own) buf_add(out, own->input.text, own->input.n);
    pthread_mutex_unlock(&job->jobs->lock);
}

bool job_streams(const struct job *job)
{
    return job->streams;
}

void job_cancel(struct job *job, bool remove)
{
    pthread_mutex_lock(&job->jobs->lock);
    const enum job_wish wish = remove ? JOB_REMOVE : JOB_CANCEL;
    if (job->wish < wish) job->wish = wish;
    pthread_mutex_unlock(&job->jobs->lock);
    queue_push(job->jobs->bell, "");
}

void events_read(const char *log, size_t n, struct event_cursor *c, size_t n_max, struct buf *out)
{
    while (c->at < n && (out->n < n_max || c->skip > 0)) {
        const char *end = memmem(log + c->at, n - c->at, "\n\n", 2);
        if (!end) return;
        const size_t n_event = (size_t)(end + 2 - (log + c->at));
        if (c->skip > 0)
            c->skip--;
        else
            buf_add(out, log + c->at, n_event);
        c->at += n_event;
    }
}

bool job_events(struct job *job, struct event_cursor *c, size_t n_max, struct buf *out)
{
    pthread_mutex_lock(&job->jobs->lock);
    events_read(job->log.data, job->log.n, c, n_max, out);
    const bool end = job->state == JOB_DONE && c->at == job->log.n;
    pthread_mutex_unlock(&job->jobs->lock);
    return end;
}

void job_listen(struct job *job, struct job_listener *l)
{
    pthread_mutex_lock(&job->jobs->lock);
    l->next = job->listener;
    job->listener = l;
    pthread_mutex_unlock(&job->jobs->lock);
}

void job_unlisten(struct job *job, struct job_listener *l)
{
    pthread_mutex_lock(&job->jobs->lock);
    for (struct job_listener **at = &job->listener; *at; at = &(*at)->next)
        if (*at == l) {
            *at = l->next;
            break;
        }
    pthread_mutex_unlock(&job->jobs->lock);
}

/* ---- the thread ---- */

/* Make a change visible: append events, replace the response unless the new response is empty, and
 * call the listeners. The buffers are freed. Return false if memory is exhausted. */
static bool publish(struct job *job, struct buf *events, struct buf *response, enum job_state state)
{
    pthread_mutex_lock(&job->jobs->lock);
    const bool ok = !events->failed && !response->failed && buf_room(&job->log, events->n);
    if (ok && events->n && !job->gap) buf_add(&job->log, events->data, events->n);
    job->gap |= !ok;
    if (response->n && !response->failed) {
        buf_deinit(&job->response);
        job->response = *response;
        *response = (struct buf){0};
    }
    job->state = state;
    for (struct job_listener *l = job->listener; l; l = l->next) l->changed(l->arg);
    pthread_mutex_unlock(&job->jobs->lock);
    buf_deinit(events);
    buf_deinit(response);
    return ok;
}

/* Reserve memory for n more bytes of the log. */
static bool reserve(struct job *job, size_t n)
{
    enum { RESERVE_BYTES = 64 << 10 };
    const int64_t more = (int64_t)(job->log.n + n) - job->n_reserved;
    if (more <= 0) return true;
    if (!store_reserve(job->jobs->store, job->owner, more + RESERVE_BYTES)) return false;
    job->n_reserved += more + RESERVE_BYTES;
    return true;
}

/* Cancel the call. why: cause of a failure; NULL: a client cancels the call. */
static void cancel(struct job *job, const char *why)
{
    if (job->cancelled) return;
    job->cancelled = true;
    responses_set_cancelled(job->call, why);
    api_call_cancel(job->call);
}

/* Store the response with its input and events. events NULL: the record has no events, so a client
 * cannot read it as a stream. */
static int put(struct job *job, struct buf *response, struct buf *events, struct err *e)
{
    const struct responses *own = job->call->own;
    struct buf input = {.data = (char *)own->input.text, .n = own->input.n};
    const struct store_texts t = {
        .head = response, .body = &input, .log = events, .previous = own->previous};
    if (response->failed || (events && events->failed)) return err_memory(e, "a response", 0);
    return store_put(job->jobs->store, job->owner, job->id, &t, e);
}

/* Store the response of a complete job, before clients see its last events. A response that is too
 * large is stored without its events, or as a failure without output. */
static void store(struct job *job, const struct buf *events, struct buf *response)
{
    struct buf log = {0};
    struct err e = {0};
    /* the record counts in place of the log, and needs its bytes */
    store_reserve(job->jobs->store, job->owner, -job->n_reserved);
    job->n_reserved = 0;
    buf_add(&log, job->log.data, job->log.n);
    if (!job->gap) buf_add(&log, events->data, events->n);
    int rc = put(job, response, &log, &e);
    if (rc == ERR_LIMIT) rc = put(job, response, NULL, &e);
    if (rc == ERR_LIMIT) {
        buf_clear(response);
        responses_set_cancelled(job->call, "the response exceeds the memory for stored responses");
        responses_items_deinit(job->call->own);
        responses_put_final(job->call, response);
        rc = put(job, response, NULL, &e);
    }
    if (rc != 0) log_warn("%s is lost: %s", job->id, e.text);
    buf_deinit(&log);
}

/* Remove the job from the list, after its response was stored. */
static void finish(struct job *job)
{
    struct jobs *j = job->jobs;
    struct api_call *call = job->call;
    pthread_mutex_lock(&j->lock);
    struct job **at = &j->first;
    while (*at != job) at = &(*at)->next;
    *at = job->next;
    job->call = NULL;
    const bool remove = job->wish == JOB_REMOVE;
    pthread_mutex_unlock(&j->lock);
    if (remove) (void)store_delete(j->store, job->owner, job->id, NULL);
    api_call_close(call);
    job_drop(job);
}

/* Read new events of the call. Return true if the call is complete. */
static bool poll_response(struct job *job, struct buf *events)
{
    const bool done = api_call_poll(job->call);
    if (job->streams) api_call_stream(job->call, events);
    if (events->failed) cancel(job, "out of memory: events");
    if (!events->failed && !reserve(job, events->n)) {
        cancel(job, "the events exceed the memory for stored responses");
        events->failed = true;
    }
    return done;
}

/* End a log that lost events with the event of a failure. */
static void end_gap(struct job *job, struct buf *events)
{
    buf_deinit(events);
    responses_put_failed(job->call, events);
    job->gap = false;
}

/* Read and publish the new events of a job, or store and finish a complete one. Requests of clients
 * are read once per step, because the lock is not held during the work. */
static void continue_job(struct job *job)
{
    struct buf events = {0}, response = {0};
    pthread_mutex_lock(&job->jobs->lock);
    const bool cancelled = job->wish != JOB_CONTINUE;
    pthread_mutex_unlock(&job->jobs->lock);
    if (cancelled) cancel(job, NULL);
    const bool done = poll_response(job, &events);
    if (done) {
        if (job->streams && (job->gap || events.failed)) end_gap(job, &events);
        responses_put_final(job->call, &response);
        store(job, &events, &response);
        (void)publish(job, &events, &response, JOB_DONE);
        finish(job);
        return;
    }
    const bool begins = job->state == JOB_QUEUED && api_call_has_output(job->call);
    const enum job_state state = begins ? JOB_RUNS : job->state;
    if (begins) responses_put_now(job->call, &response);
    if ((events.n || events.failed || begins) && !publish(job, &events, &response, state))
        cancel(job, "out of memory: a response");
}

/* Return true after jobs_stop and the end of all jobs. Cancelled calls still need this thread,
 * which reads the events of their ends. */
static bool stopped(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    const bool stops = j->stops && !j->first;
    pthread_mutex_unlock(&j->lock);
    return stops;
}

/* Return NULL, or the violated invariant. The caller holds the lock. */
static const char *check(const struct jobs *j)
{
    for (const struct job *job = j->first; job; job = job->next) {
        if (!job->call || job->state == JOB_DONE) return "an unfinished job has ended (4)";
        if (job->n_ref < 1) return "an unfinished job has no reference (5)";
        if (job->streams && !job->gap && (int64_t)job->log.n > job->n_reserved)
            return "a log is larger than its reserved bytes (3)";
    }
    return NULL;
}

/* Run all jobs. Each event of a job rings the bell. The thread then continues all jobs, because the
 * bell can contain only one byte. */
static void *run(void *jobs)
{
    struct jobs *j = jobs;
    char byte;
    while (!stopped(j)) {
        /* an event that arrives during the steps rings again, so no event waits for the next one */
        (void)queue_pop(j->bell, &byte, -1);
        pthread_mutex_lock(&j->lock);
        struct job *job = j->first;
        const char *wrong = check_steps ? check(j) : NULL;
        CHECK(!wrong, "%s", wrong);
        pthread_mutex_unlock(&j->lock);
        for (struct job *next; job; job = next) {
            next = job->next; /* only this thread removes jobs */
            continue_job(job);
        }
    }
    return NULL;
}

/* ---- jobs ---- */

int jobs_open(struct jobs **out, struct store *records, struct err *e)
{
    struct jobs *j = *out = calloc(1, sizeof *j);
    if (!j) return err_memory(e, "jobs", sizeof *j);
    j->store = records;
    pthread_mutex_init(&j->lock, NULL);
    j->bell = queue_open(1, 1);
    int rc = j->bell ? 0 : err_memory(e, "jobs", 0);
    if (rc == 0) j->started = os_thread_start(&j->thread, run, j);
    if (rc == 0 && !j->started) rc = os_thread_error("the thread of jobs", e);
    if (rc == 0) return 0;
    jobs_close(j);
    *out = NULL;
    return rc;
}

void jobs_stop(struct jobs *j)
{
    if (!j || !j->started) return;
    pthread_mutex_lock(&j->lock);
    j->stops = true;
    for (struct job *job = j->first; job; job = job->next)
        if (job->wish < JOB_CANCEL) job->wish = JOB_CANCEL;
    pthread_mutex_unlock(&j->lock);
    queue_push(j->bell, "");
    pthread_join(j->thread, NULL);
    j->started = false;
}

void jobs_close(struct jobs *j)
{
    if (!j) return;
    jobs_stop(j);
    CHECK(!j->first, "a job is not closed");
    queue_close(j->bell);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

/* Add the job to the list and submit its call. The thread cannot use the call before the lock is
 * released. */
static int submit(struct jobs *j, struct job *job, struct err *e)
{
    pthread_mutex_lock(&j->lock);
    int rc = j->stops ? err_set(e, ERR_UNAVAILABLE, "the server is shutting down") : 0;
    if (rc == 0) rc = api_call_submit(job->call, e);
    if (rc == 0) {
        /* one for the list and one for the caller */
        job->n_ref = 2;
        job->next = j->first;
        j->first = job;
    }
    pthread_mutex_unlock(&j->lock);
    if (rc == 0) queue_push(j->bell, "");
    return rc;
}

int jobs_start(struct jobs *j, struct api_call *take_call, struct job **out, struct err *e)
{
    struct job *job = *out = calloc(1, sizeof *job);
    int rc = job ? 0 : err_memory(e, "a response", sizeof *job);
    if (rc == 0) {
        job->jobs = j;
        job->call = take_call;
        job->owner = take_call->owner;
        job->streams = api_call_streams(take_call);
        memcpy(job->id, take_call->id, strnlen(take_call->id, sizeof job->id - 1));
        take_call->bell = j->bell;
        if (job->streams) responses_put_queued(take_call, &job->log);
        responses_put_now(take_call, &job->response);
        if (job->log.failed || job->response.failed)
            rc = err_memory(e, "a response", job->response.n);
        else if (!reserve(job, 0))
            rc = err_set(e, ERR_LIMIT,
                         "background: the memory for stored responses is full; try again later");
    }
    if (rc == 0) rc = submit(j, job, e);
    if (rc == 0) return 0;
    /* the call's span gets this status */
    take_call->status = api_status(rc);
    api_call_close(take_call);
    if (job) job_free(job);
    *out = NULL;
    return rc;
}
