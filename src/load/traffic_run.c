/* traffic_run.c - the clients of a measurement. The clients send each job at its time, and read the
 * replies. One thread polls all replies every 2 ms (0.3 % of a core at 64 requests). The time of
 * polling does not affect the measured figures. */
#include "traffic.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* LOOK_US: interval of polling, in microseconds. SAMPLE_US: interval of samples, in
 * microseconds. */
enum { LOOK_US = 2000, SAMPLE_US = 1000000 };

static int64_t real_now(void *ctx)
{
    (void)ctx;
    return time_us();
}

/* Sleep until until_us, but at most LOOK_US, so that replies are read. */
static void real_pass(void *ctx, int64_t until_us)
{
    (void)ctx;
    int64_t us = until_us - time_us();
    if (us > LOOK_US) us = LOOK_US;
    if (us > 0) nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

const struct traffic_clock traffic_real_clock = {.now_us = real_now, .pass = real_pass};

/* A request in flight. */
struct traffic_live {
    size_t job;
    uint64_t id;
    struct queue *queue; /* events of the request, owned */
    struct reply reply;
    bool as_text;
};

/* The state of a run. Times are microseconds since begin_us. `next` is the index of the first job
 * that was not sent yet. Pointers are borrowed, except for `idle`. */
struct traffic_run {
    struct traffic_result *r;
    struct engine *en;
    const struct traffic *t;
    const struct traffic_options *o;
    VEC(struct traffic_live) live;
    /* unused queues, owned; the most recently used queue is the last one */
    VEC(struct queue *) idle;
    struct buf text;
    size_t next, n_done;
    int64_t begin_us, sample_us;
};

static int64_t now(const struct traffic_run *u)
{
    return u->o->clock->now_us(u->o->clock->ctx) - u->begin_us;
}

/* ---- sending ---- */

/* Return the request of job i; NULL if memory is exhausted. Each request has its own seed, so that
 * the results do not depend on the order of sending. */
static struct request *make_request(const struct traffic_run *u, size_t i, struct err *e)
{
    struct request *q = request_open(e);
    if (!q) return NULL;
    q->max_tokens = u->t->v[i].n_output;
    q->n = u->o->n_choice ? u->o->n_choice : 1;
    q->beam_width = u->o->beams ? q->n : 0;
    if (u->o->params) q->params = *u->o->params;
    q->params.ignore_eos = true;
    q->params.seed = u->t->seed + i;
    q->params.seeded = true;
    if (traffic_prompt(u->t, i, u->o->n_vocab, &q->prompt, e) == 0) return q;
    request_close(q);
    return NULL;
}

/* Open a request on the most recently used queue, which is still in the processor's cache. */
static int open_live(struct traffic_run *u, struct traffic_live *l, struct err *e)
{
    l->queue = u->idle.n ? u->idle.v[--u->idle.n] : engine_reply_queue();
    if (!l->queue) return err_memory(e, "a reply queue", sizeof(struct event));
    l->as_text = u->o->tokenizer != NULL;
    return 0;
}

static void close_live(struct traffic_run *u, struct traffic_live *l)
{
    if (l->as_text) reply_close(&l->reply);
    if (l->queue && !vec_push(&u->idle, l->queue)) queue_close(l->queue);
}

/* Send a job. A rejected request is recorded. The run fails only if an error affects all
 * requests. */
static int send_job(struct traffic_run *u, size_t i, struct err *e)
{
    struct client_trace *trace = &u->r->trace[i];
    struct traffic_live l = {.job = i};
    struct request *q = make_request(u, i, e);
    if (!q) return ERR_MEMORY;
    int rc = open_live(u, &l, e);
    struct reply_options ro = {.tokenizer = u->o->tokenizer};
    if (rc == 0 && l.as_text) rc = reply_open(&l.reply, u->en, q->id, &ro, e);
    q->reply = l.queue;
    l.id = q->id;
    if (rc == 0 && !vec_push(&u->live, l)) rc = err_memory(e, "requests in flight", sizeof l);
    trace->submit_us = now(u);
    if (rc == 0 && engine_submit(u->en, q, e) == 0) return 0;
    if (rc == 0) u->live.n--, u->n_done++; /* the request was rejected */
    request_close(q);
    close_live(u, &l);
    return rc;
}

/* Return true if the next job is due and --max-concurrency allows it. */
static bool may_send(const struct traffic_run *u)
{
    return u->next < u->t->n && u->t->v[u->next].arrival_us <= now(u) &&
           (!u->o->max_concurrency || u->live.n < (size_t)u->o->max_concurrency);
}

static int send_due(struct traffic_run *u, struct err *e)
{
    int rc = 0;
    while (rc == 0 && may_send(u)) rc = send_job(u, u->next++, e);
    return rc;
}

/* ---- reading ---- */

/* Record the event's time. The engine sets this time, so polling every 2 ms does not affect it. */
static void on_event(struct traffic_run *u, struct traffic_live *l, const struct event *ev)
{
    struct client_trace *trace = &u->r->trace[l->job];
    int64_t us = ev->time_us - u->begin_us;
    if (ev->kind == EVENT_TOKEN) {
        if (ev->choice == 0) trace->token_us[trace->n_time++] = us;
        trace->done_us = us;
        trace->n_output++;
    }
    if (ev->kind == EVENT_DONE) {
        bool whole = ev->finish == FINISH_LENGTH || ev->finish == FINISH_STOP;
        if (trace->n_time == 0) trace->done_us = us;
        trace->n_token = trace->n_time;
        trace->error = whole ? NULL : finish_name(ev->finish);
        trace->n_cached = ev->usage.n_cached;
    }
    /* like a server, convert tokens to text, because this work takes processor time from the
     * engine */
    if (!l->as_text) return;
    buf_clear(&u->text);
    reply_event(&l->reply, ev, &u->text);
}

/* Read a request's events. Return true if the request has ended. */
static bool read_live(struct traffic_run *u, struct traffic_live *l)
{
    struct event ev;
    while (queue_pop(l->queue, &ev, 0)) {
        on_event(u, l, &ev);
        if (ev.kind == EVENT_DONE) return true;
    }
    return false;
}

/* Replace a finished request by the last request, because the order of requests has no effect. */
static void read_all(struct traffic_run *u)
{
    for (size_t i = 0; i < u->live.n;) {
        struct traffic_live *l = &u->live.v[i];
        if (!read_live(u, l)) {
            i++;
            continue;
        }
        close_live(u, l);
        *l = u->live.v[--u->live.n];
        u->n_done++;
    }
}

/* ---- samples, once a second ---- */

/* Add a sample of the engine. The sample is omitted if the push fails. */
static void take_sample(struct traffic_run *u)
{
    struct stats_view v;
    stats_read(engine_stats(u->en), &v);
    struct load_sample s = {.us = now(u),
                            .n_running = (int)v.value[STAT_running],
                            .n_waiting = (int)v.value[STAT_waiting],
                            .kv_ppm = (int)v.value[STAT_kv_usage],
                            .memory = os_memory_own()};
    (void)!vec_push(&u->r->sample, s);
    u->sample_us = s.us + SAMPLE_US;
}

static void read_events(struct traffic_run *u)
{
    read_all(u);
    if (now(u) >= u->sample_us) take_sample(u);
    if (u->o->progress) progress_bar(u->o->progress, u->n_done, u->t->n);
}

/* Return the time of the next action if no event arrives earlier. */
static int64_t next_us(const struct traffic_run *u)
{
    int64_t at = u->sample_us;
    bool room = !u->o->max_concurrency || u->live.n < (size_t)u->o->max_concurrency;
    if (u->next < u->t->n && room && u->t->v[u->next].arrival_us < at)
        at = u->t->v[u->next].arrival_us;
    return at + u->begin_us;
}

static int loop(struct traffic_run *u, struct err *e)
{
    int rc = send_due(u, e);
    while (rc == 0 && u->n_done < u->t->n) {
        u->o->clock->pass(u->o->clock->ctx, next_us(u));
        read_events(u);
        rc = send_due(u, e);
    }
    return rc;
}

/* ---- the run ---- */

/* Cancel all requests after a failure, because the engine writes to a request's queue until its end
 * event. */
static void cancel_all(struct traffic_run *u)
{
    for (size_t i = 0; i < u->live.n; i++) engine_cancel(u->en, u->live.v[i].id);
    while (u->live.n) {
        u->o->clock->pass(u->o->clock->ctx, now(u) + u->begin_us + LOOK_US);
        read_all(u);
    }
}

/* Read the engine's statistics while the engine is idle. The engine emits the last answers before
 * it counts their step. */
static void read_stats(struct traffic_run *u, struct stats_view *v)
{
    for (;;) {
        stats_read(engine_stats(u->en), v);
        if (v->value[STAT_running] + v->value[STAT_waiting] == 0) return;
        u->o->clock->pass(u->o->clock->ctx, now(u) + u->begin_us + LOOK_US);
    }
}

static void close_run(struct traffic_run *u)
{
    while (u->idle.n) queue_close(u->idle.v[--u->idle.n]);
    vec_deinit(&u->live);
    vec_deinit(&u->idle);
    buf_deinit(&u->text);
}

/* Allocate and write the clients' records before the run, so that the records do not count as
 * growth of memory. */
static int open_result(struct traffic_result *r, const struct traffic *t, struct err *e)
{
    size_t n_token = 0, at = 0;
    for (size_t i = 0; i < t->n; i++) n_token += (size_t)t->v[i].n_output;
    *r = (struct traffic_result){.n = t->n,
                                 .trace = malloc((t->n + 1) * sizeof *r->trace),
                                 .token_us = malloc((n_token + 1) * sizeof *r->token_us)};
    if (!r->trace || !r->token_us)
        return err_memory(e, "what clients see", n_token * sizeof *r->token_us);
    memset(r->token_us, 0xFF, (n_token + 1) * sizeof *r->token_us);
    for (size_t i = 0; i < t->n; i++) {
        r->trace[i] = (struct client_trace){.arrive_us = t->v[i].arrival_us,
                                            .token_us = r->token_us + at,
                                            .n_input = t->v[i].n_prompt,
                                            .error = "refused"};
        at += (size_t)t->v[i].n_output;
    }
    return 0;
}

/* Open the queues for all requests in flight before the run, so that the queues do not count as
 * growth of memory. */
static int open_queues(struct traffic_run *u, struct err *e)
{
    enum { TOUCHED_MAX = 64 };
    const struct event nothing = {0};
    struct event event;
    for (int i = 0; i < u->o->max_concurrency && i < TOUCHED_MAX; i++) {
        struct queue *q = engine_reply_queue();
        if (!q || !vec_push(&u->idle, q)) {
            queue_close(q);
            return err_memory(e, "reply queues", sizeof event);
        }
        while (queue_push(q, &nothing)) continue;
        while (queue_pop(q, &event, 0)) continue;
    }
    return 0;
}

/* Statistics are differences of two readings, so earlier runs on the same engine do not count. */
int traffic_run(struct traffic_result *r, struct engine *en, const struct traffic *t,
                const struct traffic_options *o, struct err *e)
{
    int rc = open_result(r, t, e);
    if (rc != 0) return rc;
    struct traffic_run u = {.r = r, .en = en, .t = t, .o = o};
    struct stats_view before, after;
    rc = open_queues(&u, e);
    if (rc != 0) {
        close_run(&u);
        return rc;
    }
    stats_read(engine_stats(en), &before);
    int64_t cpu = os_cpu_us(), energy = os_energy_uj();
    u.begin_us = o->clock->now_us(o->clock->ctx);
    rc = loop(&u, e);
    if (rc != 0) cancel_all(&u);
    r->cpu_us = os_cpu_us() - cpu;
    r->energy_uj = energy < 0 ? -1 : os_energy_uj() - energy;
    read_stats(&u, &after);
    /* take one additional sample, so that even a short run has a sample */
    take_sample(&u);
    r->stats = stats_since(&before, &after);
    close_run(&u);
    return rc;
}

void traffic_result_close(struct traffic_result *r)
{
    free(r->trace);
    free(r->token_us);
    vec_deinit(&r->sample);
    *r = (struct traffic_result){0};
}
