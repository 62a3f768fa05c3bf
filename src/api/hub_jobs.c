/* hub_jobs.c - the thread that changes the hub's stores for clients.
 *
 * `lock` protects the list of jobs, `stops`, and done, rc, why, lines and lost of each job.
 *
 * The registry of models is compared with the stores after each job (sync_models), because a job
 * may change several names. */
#include "hub_jobs.h"

#include "base/cancel.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/os.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* N_JOB_MAX: maximum number of waiting jobs. LINES_MAX: unsent bytes above which optional lines are
 * dropped. */
enum { N_JOB_MAX = 32, LINES_MAX = 64 << 10 };

struct hub_jobs {
    struct models *models; /* borrowed */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the thread has work */
    pthread_t thread;
    bool started, stops;
    struct hub_job *first; /* waiting jobs in their order, and the job in progress */
};

/* ---- the registry ---- */

/* Return true if the served model has the files of a model of the hub. */
static bool is_same(const struct served_spec *s, const struct hub_model *m)
{
    return strcmp(s->path, m->path) == 0 && s->n_byte == (int64_t)m->n_byte &&
           s->modified_us == m->modified_us;
}

/* Return the model of the hub that the registry has under this name; NULL if none. */
static struct served *find_stored(const struct hub_jobs *j, const char *name)
{
    for (int i = 0; i < models_n(j->models); i++) {
        struct served *m = models_at(j->models, i);
        const struct served_spec *spec = served_spec(m);
        if (!served_gone(m) && spec->stored && strcmp(spec->name[0], name) == 0) return m;
    }
    return NULL;
}

void hub_jobs_forget(struct hub_jobs *j, const struct hub_name *n)
{
    char name[HUB_NAME_BYTES];
    hub_served_name(name, n);
    struct served *m = find_stored(j, name);
    if (m) models_remove(m);
}

/* Add a model of the hub, unless another model has its name. A changed model is replaced. */
static int add_model(struct hub_jobs *j, const struct hub_model *m, struct err *e)
{
    char text[HUB_NAME_BYTES];
    const char *name = text;
    struct served *made, *old;
    hub_served_name(text, &m->name);
    old = find_stored(j, text);
    if (old && is_same(served_spec(old), m)) return 0;
    if (old) models_remove(old);
    if (models_find(j->models, text)) return 0;
    return models_add(j->models,
                      &(struct served_spec){.name = &name,
                                            .n_name = 1,
                                            .path = m->path,
                                            .stored = true,
                                            .n_byte = (int64_t)m->n_byte,
                                            .modified_us = m->modified_us},
                      &made, e);
}

/* Return true if the list has a model of that name. */
static bool listed(const struct hub_models *all, const char *name)
{
    char text[HUB_NAME_BYTES];
    for (size_t i = 0; i < all->n; i++) {
        hub_served_name(text, &all->v[i].name);
        if (strcmp(text, name) == 0) return true;
    }
    return false;
}

/* Make the registry's models of the hub those of the stores. */
static int sync_models(struct hub_jobs *j, struct err *e)
{
    struct hub_models all = {0};
    int rc = hub_list(&all, e);
    for (int i = 0; rc == 0 && i < models_n(j->models); i++) {
        struct served *m = models_at(j->models, i);
        const struct served_spec *spec = served_spec(m);
        if (spec->stored && !served_gone(m) && !listed(&all, spec->name[0])) models_remove(m);
    }
    for (size_t i = 0; rc == 0 && i < all.n; i++) rc = add_model(j, &all.v[i], e);
    hub_models_deinit(&all);
    return rc;
}

/* ---- the thread ---- */

void hub_job_close(struct hub_job *j)
{
    if (!j) return;
    json_drop(j->body);
    buf_deinit(&j->lines);
    free(j);
}

void hub_job_line(struct hub_job *j, struct buf *take_line, bool optional)
{
    pthread_mutex_lock(&j->jobs->lock);
    if (j->stream && !(optional && j->lines.n > LINES_MAX)) {
        if (!take_line->failed && buf_room(&j->lines, take_line->n + 1)) {
            buf_add(&j->lines, take_line->n ? take_line->data : "", take_line->n);
            buf_add_char(&j->lines, '\n');
        } else {
            j->lines.failed = false; /* earlier lines are complete */
            j->lost |= !optional;
        }
        exchange_wake(j->x);
    }
    pthread_mutex_unlock(&j->jobs->lock);
    buf_deinit(take_line);
}

/* Mark a job as done, under the lock. The exchange is not used after this. */
static void end_job(struct hub_job *j, int rc, const struct err *e)
{
    j->rc = rc;
    if (rc != 0) j->why = *e;
    j->done = true;
    exchange_wake(j->x);
}

/* Make the change of a job without the lock. */
static void run_job(struct hub_jobs *jobs, struct hub_job *j)
{
    struct err e = {0}, more = {0};
    pthread_mutex_unlock(&jobs->lock);
    cancel_flag = &j->cancel;
    int rc = cancelled() ? err_cancelled(&e) : j->run(j, &e);
    cancel_flag = NULL;
    int rc_sync = sync_models(jobs, &more);
    if (rc_sync != 0) log_warn("the models of the stores cannot be listed: %s", more.text);
    if (rc == 0 && rc_sync != 0) rc = rc_sync, e = more;
    pthread_mutex_lock(&jobs->lock);
    if (rc == ERR_BUSY && jobs->stops)
        rc = err_set(&e, ERR_UNAVAILABLE, "the server is shutting down");
    jobs->first = j->next;
    end_job(j, rc, &e);
}

/* Run the jobs one after the other, because two changes of the same files could damage them. A stop
 * ends the thread only after all jobs have ended. */
static void *run(void *arg)
{
    struct hub_jobs *jobs = arg;
    pthread_mutex_lock(&jobs->lock);
    while (!jobs->stops || jobs->first) {
        if (jobs->first)
            run_job(jobs, jobs->first);
        else
            pthread_cond_wait(&jobs->changed, &jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

/* ---- the answer; stream thread ---- */

/* Append the last line of a stream, and end it. A client detects a stream without this line. */
static void end_stream(struct hub_job *j)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_word(&o, j->rc ? "error" : "status", j->rc ? j->why.text : "success");
    out_end(&o);
    buf_add_char(&b, '\n');
    if (j->rc != 0) exchange_set_status(j->x, api_status(j->rc));
    if (b.failed) {
        exchange_abort(j->x);
    } else {
        exchange_push_last(j->x, b.data, b.n);
        exchange_end(j->x);
    }
    buf_deinit(&b);
}

/* Answer a job that is done, and free it. A stream that lost a line ends with an error. */
static void finish(struct hub_job *j)
{
    static const char success[] = "{\"status\":\"success\"}\n";
    struct exchange *x = j->x;
    if (j->lost && j->rc == 0) j->rc = err_memory(&j->why, "the lines of the answer", 0);
    if (exchange_disconnected(x))
        exchange_end(x);
    else if (j->begun)
        end_stream(j);
    else if (j->rc != 0)
        server_fail(x, j->rc, &j->why);
    else if (j->bare)
        exchange_reply(x, 200, NULL, "", 0);
    else
        exchange_reply(x, 200, j->stream ? "application/x-ndjson" : "application/json", success,
                       sizeof success - 1 - !j->stream);
    hub_job_close(j);
}

/* Send the lines of a job (net_wake). */
static void advance(struct exchange *x, void *job)
{
    struct hub_job *j = job;
    struct buf lines = {0};
    const bool gone = exchange_disconnected(x);
    if (gone || exchange_cut(x)) j->cancel = true;
    if (j->begun && !gone && !exchange_room(x)) return;
    pthread_mutex_lock(&j->jobs->lock);
    const bool done = j->done;
    lines = j->lines;
    j->lines = (struct buf){0};
    pthread_mutex_unlock(&j->jobs->lock);
    if (!gone && lines.n && !j->begun) {
        exchange_begin(x, 200, "application/x-ndjson");
        j->begun = true;
    }
    if (!gone && lines.n) exchange_push(x, lines.data, lines.n);
    buf_deinit(&lines);
    if (done) finish(j);
}

void hub_jobs_start(struct hub_jobs *jobs, struct exchange *x, struct hub_job *take_job)
{
    struct err e = {0};
    int n = 0, rc = 0;
    struct hub_job **last = &jobs->first;
    take_job->jobs = jobs;
    take_job->x = x;
    pthread_mutex_lock(&jobs->lock);
    for (; *last; last = &(*last)->next) n++;
    if (jobs->stops)
        rc = err_set(&e, ERR_UNAVAILABLE, "the server is shutting down");
    else if (n >= N_JOB_MAX)
        rc = err_set(&e, ERR_BUSY, "the queue is full; try again later");
    if (rc == 0) {
        exchange_keep(x, advance, take_job);
        *last = take_job;
        pthread_cond_signal(&jobs->changed);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (rc == 0) return;
    server_fail(x, rc, &e);
    hub_job_close(take_job);
}

/* ---- life ---- */

int hub_jobs_open(struct hub_jobs **out, struct models *models, struct err *e)
{
    struct hub_jobs *j = *out = calloc(1, sizeof *j);
    if (!j) return err_memory(e, "jobs", sizeof *j);
    j->models = models;
    pthread_mutex_init(&j->lock, NULL);
    cond_init(&j->changed);
    j->started = os_thread_start(&j->thread, run, j);
    if (j->started) return 0;
    const int rc = os_thread_error("the thread of the hub's jobs", e);
    hub_jobs_close(j);
    *out = NULL;
    return rc;
}

void hub_jobs_stop(struct hub_jobs *j)
{
    if (!j || !j->started) return;
    pthread_mutex_lock(&j->lock);
    j->stops = true;
    for (struct hub_job *job = j->first; job; job = job->next) job->cancel = true;
    pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->lock);
    pthread_join(j->thread, NULL);
    j->started = false;
}

void hub_jobs_close(struct hub_jobs *j)
{
    if (!j) return;
    hub_jobs_stop(j);
    pthread_cond_destroy(&j->changed);
    pthread_mutex_destroy(&j->lock);
    free(j);
}
