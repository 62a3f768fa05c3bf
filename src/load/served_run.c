/* served_run.c - the clients of a measured server. The clients send each prompt at its time, and
 * record the times of tokens; see served.h.
 *
 *   send_due -> live (fetch_start) --on_body--> answer (served_answer.c) --on_done--> trace[i] */
#include "served.h"

#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SAMPLE_US: microseconds between samples. LOOK_US: interval of the progress bar. */
enum { SAMPLE_US = 1000000, LOOK_US = 100000 };

/* The state of a run. Times are microseconds since begin_us. `next` is the index of the first
 * request that was not sent yet. n_event counts tokens for the progress bar. Pointers are
 * borrowed. */
struct served_run {
    struct served_result *r;
    struct served_target *t;
    const struct prompts *p;
    const struct served_options *o;
    size_t next, n_live, n_done, n_failed;
    int64_t begin_us, sample_us, n_event;
    bool sampling;
    int64_t polled_us;       /* time of the last request for a sample */
    struct buf url, metrics; /* URL and page of the sample in flight, owned */
};

/* A request in flight. */
struct served_live {
    struct served_run *u; /* borrowed */
    size_t i;             /* index in result.trace */
    struct buf body;      /* body to send, owned */
    struct served_answer answer;
};

static int64_t now(const struct served_run *u)
{
    return time_us() - u->begin_us;
}

/* Return the prompt of request i. Warm-ups send prompt 0 repeatedly. */
static size_t prompt_of(const struct served_run *u, size_t i)
{
    return u->o->n_first ? 0 : i;
}

/* ---- an answer ---- */

/* Receive a piece of the body. The time of all tokens in the piece is the time of the read. */
static bool on_body(void *ctx, int status, const char *data, size_t n)
{
    struct served_live *l = ctx;
    int before = l->answer.n_event;
    bool more = served_answer_feed(&l->answer, status, data, n, now(l->u));
    l->u->n_event += l->answer.n_event - before;
    return more;
}

/* End a request. fetch calls this function once for each started request, also after a failure. */
static void on_done(void *ctx, const struct fetch_result *f)
{
    struct served_live *l = ctx;
    struct served_run *u = l->u;
    struct client_trace *s = &u->r->trace[l->i];
    served_answer_end(&l->answer, f, now(u), s, &u->r->own[l->i]);
    buf_deinit(&l->body);
    free(l);
    u->n_failed += s->error != NULL;
    u->n_live--;
    u->n_done++;
}

/* ---- sending ---- */

/* Start a request. submit_us is set after the body is built, immediately before the request is
 * sent. Latencies therefore do not include the time for building a body. */
static int start(struct served_run *u, struct served_live *l, struct err *e)
{
    const char *header[HEADERS_MAX + 2];
    char id[160];
    size_t n = u->t->header.n;
    for (size_t i = 0; i < n; i++) header[i] = u->t->header.v[i];
    if (u->o->id_prefix) {
        snprintf(id, sizeof id, "X-Request-Id: %.100s%zu", u->o->id_prefix, l->i);
        header[n++] = id;
    }
    struct fetch_request r = {.url = u->t->url,
                              .header = header,
                              .n_header = n,
                              .body = l->body.data,
                              .n_body = l->body.n,
                              .ctx = l,
                              .on_body = on_body,
                              .on_done = on_done};
    u->r->trace[l->i].submit_us = now(u);
    return fetch_start(u->t->fetch, &r, e);
}

/* Build and send request i. The request is freed after a failure. */
static int send_one(struct served_run *u, size_t i, struct err *e)
{
    struct served_live *l = calloc(1, sizeof *l);
    if (!l) return err_memory(e, "a request", sizeof *l);
    *l = (struct served_live){.u = u, .i = i};
    served_answer_begin(&l->answer, u->t->chat, u->o->keep_text);
    int rc = served_body(&l->body, u->t, u->p, u->o, prompt_of(u, i), e);
    if (rc == 0) rc = start(u, l, e);
    if (rc != 0) {
        buf_deinit(&l->body);
        free(l);
        return rc;
    }
    u->n_live++;
    return 0;
}

/* Return true if a request remains and --max-concurrency allows it. */
static bool has_room(const struct served_run *u)
{
    return u->next < u->r->n &&
           (!u->o->max_concurrency || u->n_live < (size_t)u->o->max_concurrency);
}

/* Send the requests that are due. Each request is sent before the next request is built. */
static int send_due(struct served_run *u, struct err *e)
{
    int rc = 0;
    while (rc == 0 && has_room(u) && u->r->trace[u->next].arrive_us <= now(u)) {
        rc = send_one(u, u->next++, e);
        if (rc == 0) fetch_wait(u->t->fetch, 0);
    }
    return rc;
}

/* ---- the server's load, once a second ---- */

/* Collect the page of /metrics. Return false if the status is not 200, so that the client aborts
 * the request. */
static bool metrics_body(void *ctx, int status, const char *data, size_t n)
{
    struct served_run *u = ctx;
    buf_add(&u->metrics, data, n);
    return status == 200 && !u->metrics.failed;
}

/* Add a sample of the server's gauges. The sample is omitted if the page cannot be read or a push
 * fails. */
static void metrics_done(void *ctx, const struct fetch_result *f)
{
    struct served_run *u = ctx;
    struct server_view v;
    server_view_read(&v, f->error || !u->metrics.data ? "" : u->metrics.data);
    u->sampling = false;
    served_result_marks(u->r, &v);
    if (!(v.running >= 0)) return; /* not reported */
    struct load_sample s = {.us = now(u),
                            .n_running = (int)v.running,
                            .n_waiting = v.waiting > 0 ? (int)v.waiting : 0,
                            .kv_ppm = v.kv_usage > 0 ? (int)(v.kv_usage * 1e6) : 0};
    (void)!vec_push(&u->r->sample, s);
}

/* Request a sample without waiting for its answer, so that no other answer is delayed. At most one
 * sample is in flight. The window is the time since the last request for a sample, so that all
 * windows together cover the run. */
static void take_sample(struct served_run *u)
{
    u->sample_us = now(u) + SAMPLE_US;
    if (u->o->no_samples || u->sampling) return;
    int64_t polled_us = now(u);
    buf_clear(&u->url);
    target_metrics_url(u->t, (double)(polled_us - u->polled_us) * 1e-6, &u->url);
    if (u->url.failed) return;
    u->polled_us = polled_us;
    struct fetch_request r = target_get(u->t, u->url.data);
    r.ctx = u;
    r.on_body = metrics_body;
    r.on_done = metrics_done;
    buf_clear(&u->metrics);
    u->sampling = fetch_start(u->t->fetch, &r, NULL) == 0;
}

/* ---- the run ---- */

/* Draw the progress bar with the current rates. */
static void show(struct served_run *u)
{
    char text[96];
    double s = (double)now(u) * 1e-6;
    if (!u->o->progress) return;
    int n = snprintf(text, sizeof text, "%zu open, %.1f req/s, %.0f tok/s", u->n_live,
                     (double)u->n_done / s, (double)u->n_event / s);
    if (u->n_failed) snprintf(text + n, sizeof text - (size_t)n, ", %zu FAILED", u->n_failed);
    progress_text(u->o->progress, u->n_done, u->r->n, text);
}

/* Return the time of the next action if no response arrives earlier. */
static int64_t next_us(const struct served_run *u)
{
    int64_t at = now(u) + LOOK_US;
    if (!u->o->no_samples && !u->sampling && u->sample_us < at) at = u->sample_us;
    if (has_room(u) && u->r->trace[u->next].arrive_us < at) at = u->r->trace[u->next].arrive_us;
    return at + u->begin_us;
}

/* Send requests, wait for responses and take samples until all requests are complete. */
static int loop(struct served_run *u, struct err *e)
{
    int rc = send_due(u, e);
    while (rc == 0 && u->n_done < u->r->n) {
        fetch_wait(u->t->fetch, next_us(u));
        if (now(u) >= u->sample_us) take_sample(u);
        show(u);
        rc = send_due(u, e);
    }
    return rc;
}

/* End the requests in flight, then the run, because the requests use its memory. */
static void close_run(struct served_run *u)
{
    while (fetch_n_in_flight(u->t->fetch)) fetch_wait(u->t->fetch, time_us() + LOOK_US);
    buf_deinit(&u->url);
    buf_deinit(&u->metrics);
}

/* Allocate the result: one additional item, because calloc(0) may return NULL. */
static int open_result(struct served_result *r, const struct prompts *p, size_t n_first,
                       struct err *e)
{
    size_t n = n_first ? n_first : p->t.n;
    *r = (struct served_result){.running_max = NAN,
                                .waiting_max = NAN,
                                .kv_max = NAN,
                                .n = n,
                                .trace = calloc(n + 1, sizeof *r->trace),
                                .own = calloc(n + 1, sizeof *r->own)};
    if (!r->trace || !r->own) return err_memory(e, "records of requests", n * sizeof *r->trace);
    for (size_t i = 0; i < n; i++) {
        const struct traffic_job *j = &p->t.v[n_first ? 0 : i];
        r->trace[i].arrive_us = n_first ? 0 : j->arrival_us;
        r->trace[i].n_input = j->n_prompt;
        r->trace[i].error = NULL;
    }
    return 0;
}

/* fmax keeps the maximum and ignores NAN. */
void served_result_marks(struct served_result *r, const struct server_view *v)
{
    r->running_max = fmax(r->running_max, v->running_max);
    r->waiting_max = fmax(r->waiting_max, v->waiting_max);
    r->kv_max = fmax(r->kv_max, v->kv_max);
}

/* Measure the energy only if the machine reports it; otherwise set it to -1. */
int served_run(struct served_result *r, struct served_target *t, const struct prompts *p,
               const struct served_options *o, struct err *e)
{
    int rc = open_result(r, p, o->n_first, e);
    if (rc != 0) return rc;
    struct served_run u = {.r = r, .t = t, .p = p, .o = o};
    int64_t cpu = os_cpu_us(), energy = os_energy_uj();
    r->begin_us = u.begin_us = time_us();
    rc = loop(&u, e);
    r->cpu_us = os_cpu_us() - cpu;
    r->energy_uj = energy < 0 ? -1 : os_energy_uj() - energy;
    close_run(&u);
    return rc;
}

void served_result_close(struct served_result *r)
{
    for (size_t i = 0; r->own && i < r->n; i++) {
        free(r->own[i].token_us);
        free(r->own[i].text);
        free(r->own[i].error);
    }
    free(r->own);
    free(r->trace);
    vec_deinit(&r->sample);
    *r = (struct served_result){0};
}
