/* client_trace.c - figures of clients' requests; see client_trace.h.
 *
 *   ttft  submission to first token               itl   each token to the next token
 *   tpot  (last - first token) / (tokens - 1)     e2el  submission to last token
 *   e2el_per_token  e2el / tokens, the TPOT of surveys
 *   client_queue_time  arrival to submission, if a limit of requests in flight makes clients wait
 *   e2el_including_client_queue  arrival to last token
 *
 * The time from the first submission to the last token is the basis of all rates. Figures are
 * computed from completed requests, except the share of good requests. */
#include "client_trace.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct latency_kind latency_kind[N_LATENCY] = {
    {"ttft", "TTFT", "Time to First Token"},
    {"tpot", "TPOT", "Time per Output Token (excl. 1st token)"},
    {"itl", "ITL", "Inter-token Latency"},
    {"e2el", "E2EL", "End-to-end Latency"},
    {"e2el_per_token", "E2EL per token", "End-to-end Latency per Token"},
    {"client_queue_time", "Client Queue Time", "Client-side Queueing"},
    {"e2el_including_client_queue", "E2EL incl. Client Queue",
     "Queue-inclusive End-to-end Latency"},
};

/* ---- objectives ---- */

static bool is_objective(int k)
{
    return k == TTFT || k == TPOT || k == E2EL || k == PER_TOKEN;
}

/* Check one value of --goodput by parsing it as a list of one item. */
int objective_form(const char *text, struct err *e)
{
    struct slo unused = {0};
    return slo_read(&unused, &(struct text_list){&text, 1, 1}, e);
}

/* Parse an objective such as "ttft:500". As in vLLM, only four of the latencies may be
 * objectives. */
int slo_read(struct slo *s, const struct text_list *list, struct err *e)
{
    for (size_t i = 0; i < list->n; i++) {
        const char *colon = strchr(list->v[i], ':');
        size_t n = colon ? (size_t)(colon - list->v[i]) : 0;
        int k = 0;
        while (k < N_LATENCY && (!is_objective(k) || strlen(latency_kind[k].name) != n ||
                                 memcmp(latency_kind[k].name, list->v[i], n)))
            k++;
        char *end = NULL;
        double ms = colon ? strtod(colon + 1, &end) : 0;
        if (k == N_LATENCY || !end || end == colon + 1 || *end || !(ms > 0))
            return form_wrong(e, "ttft:MS, tpot:MS, e2el:MS or e2el_per_token:MS", list->v[i]);
        s->ms[k] = ms;
    }
    return 0;
}

bool slo_any(const struct slo *s)
{
    for (int k = 0; k < N_LATENCY; k++)
        if (s->ms[k] > 0) return true;
    return false;
}

/* ---- each request ---- */

/* The request that count_latencies processes. good: the request met all objectives. ok: memory was
 * not exhausted. Pointers are borrowed. */
struct counting {
    struct client_figures *f;
    const struct slo *slo;
    bool good, ok;
};

/* Add a latency of kind k, and compare the latency with its objective. 0: no objective. */
static void count(struct counting *c, int k, double us)
{
    double ms = us * 1e-3;
    if (c->slo->ms[k] > 0 && ms > c->slo->ms[k]) c->good = false;
    c->ok &= vec_push(&c->f->ms[k], ms);
}

/* Add the latencies of a request. A request without a token has no TTFT. A request with one token
 * has no TPOT, because the first token is not part of TPOT. */
static void count_latencies(struct counting *c, const struct client_trace *s)
{
    double all = (double)(s->done_us - s->submit_us);
    double waited = (double)(s->submit_us - s->arrive_us);
    /* n_time counts events and n_token tokens: an event of a server may contain several tokens */
    if (s->n_time) {
        count(c, TTFT, (double)(s->token_us[0] - s->submit_us));
        count(c, PER_TOKEN, all / s->n_token);
    }
    for (int i = 1; i < s->n_time; i++)
        count(c, ITL, (double)(s->token_us[i] - s->token_us[i - 1]));
    if (s->n_token > 1 && s->n_time)
        count(c, TPOT, (double)(s->done_us - s->token_us[0]) / (s->n_token - 1));
    count(c, E2EL, all);
    count(c, QUEUE, waited);
    count(c, E2EL_QUEUE, all + waited);
}

/* Add the times of a request. A failed request is only counted, because failures are often fast and
 * would lower the means. */
static bool count_request(struct client_figures *f, const struct client_trace *s,
                          const struct slo *slo)
{
    struct counting c = {.f = f, .slo = slo, .good = true, .ok = true};
    if (s->error) {
        f->n_failed++;
        return true;
    }
    count_latencies(&c, s);
    f->n_completed++;
    f->n_good += c.good;
    f->n_input += s->n_input;
    f->n_output += s->n_output;
    f->n_cached += s->n_cached;
    return c.ok;
}

/* ---- the whole run ---- */

/* Failed requests do not extend the span. */
int64_t client_trace_span_us(const struct client_trace *v, size_t n, int64_t *begin_us)
{
    int64_t first = INT64_MAX, last = 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i].error) continue;
        if (v[i].submit_us < first) first = v[i].submit_us;
        if (v[i].done_us > last) last = v[i].done_us;
    }
    if (begin_us) *begin_us = first < INT64_MAX ? first : 0;
    return last > first ? last - first : 0;
}

/* Return the rate of arrivals per second. n arrivals have n - 1 intervals. INFINITY if all requests
 * arrived together. */
static double offered_rate(const struct client_trace *v, size_t n)
{
    int64_t early = INT64_MAX, late = 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i].arrive_us < early) early = v[i].arrive_us;
        if (v[i].arrive_us > late) late = v[i].arrive_us;
    }
    return late > early ? (double)(n - 1) * 1e6 / (double)(late - early) : INFINITY;
}

/* Find the maximum number of tokens within one second of the run, in whole seconds as in vLLM.
 * Tokens that arrived together are distributed evenly over their events. */
static bool busiest_second(struct client_figures *f, const struct client_trace *v, size_t n)
{
    /* one additional second for the part after the last whole second, and one for rounding */
    size_t n_second = (size_t)f->seconds + 2;
    double *tokens = calloc(n_second, sizeof *tokens);
    for (size_t i = 0; tokens && i < n; i++)
        for (int k = 0; k < v[i].n_time && !v[i].error; k++) {
            size_t at = (size_t)((v[i].token_us[k] - f->begin_us) / 1000000);
            if (at < n_second) tokens[at] += (double)v[i].n_token / v[i].n_time;
        }
    for (size_t i = 0; tokens && i < n_second; i++)
        f->token_rate_max = fmax(f->token_rate_max, tokens[i]);
    free(tokens);
    return tokens != NULL;
}

struct edge {
    int64_t us;
    int by; /* +1: a request begins, -1: a request ends */
};

/* Sort ends before beginnings at the same time, so that adjacent requests do not overlap. */
static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->us != y->us) return x->us < y->us ? -1 : 1;
    return x->by - y->by;
}

/* Find the maximum number of concurrent requests. A request is in flight in [submission, last
 * token). A request that ends does not overlap a request that begins at the same time. */
static bool busiest_moment(struct client_figures *f, const struct client_trace *v, size_t n)
{
    struct edge *edge = malloc((2 * n + 1) * sizeof *edge);
    size_t n_edge = 0;
    int now = 0;
    if (!edge) return false;
    for (size_t i = 0; i < n; i++) {
        if (v[i].error) continue;
        edge[n_edge++] = (struct edge){v[i].submit_us, 1};
        edge[n_edge++] = (struct edge){v[i].done_us, -1};
    }
    qsort(edge, n_edge, sizeof *edge, by_time);
    for (size_t i = 0; i < n_edge; i++) {
        now += edge[i].by;
        if (now > f->under_way_max) f->under_way_max = now;
    }
    free(edge);
    return true;
}

/* The figure is NAN if the run is shorter than a second, because its busiest second has fewer
 * tokens than the rate per second. */
double client_figures_peak_rate(const struct client_figures *f)
{
    return f->token_rate_max < f->output_rate ? NAN : f->token_rate_max;
}

/* Compute the rates, without failed requests. */
static void count_rates(struct client_figures *f)
{
    double s = f->seconds;
    if (s <= 0) return;
    f->request_rate = (double)f->n_completed / s;
    f->good_rate = (double)f->n_good / s;
    f->output_rate = (double)f->n_output / s;
    f->total_rate = (double)(f->n_input + f->n_output) / s;
}

int client_figures(struct client_figures *f, const struct client_trace *v, size_t n,
                   const struct slo *slo, struct err *e)
{
    bool ok = true;
    *f = (struct client_figures){.has_slo = slo_any(slo)};
    for (size_t i = 0; i < n; i++) ok &= count_request(f, &v[i], slo);
    for (int k = 0; k < N_LATENCY; k++) samples_sort(&f->ms[k]);
    f->seconds = (double)client_trace_span_us(v, n, &f->begin_us) * 1e-6;
    f->offered_rate = offered_rate(v, n);
    ok &= busiest_second(f, v, n);
    ok &= busiest_moment(f, v, n);
    count_rates(f);
    return ok ? 0 : err_memory(e, "latencies", n * sizeof(double));
}

void client_figures_close(struct client_figures *f)
{
    for (int k = 0; k < N_LATENCY; k++) vec_deinit(&f->ms[k]);
}

/* samples_sd divides by n - 1. vLLM uses numpy's std, which divides by n. */
double latency_sd(const struct samples *ms)
{
    double n = (double)ms->n;
    return n > 1 ? samples_sd(ms) * sqrt((n - 1) / n) : 0;
}

double goodput_share(const struct client_figures *f)
{
    size_t n = f->n_completed + f->n_failed;
    return n ? (double)f->n_good / (double)n : 0;
}

/* ---- JSON ---- */

/* Append figures under vLLM's member names: mean_ttft_ms, p99_ttft_ms. */
static void put_latency(struct buf *b, const struct samples *ms, const char *name,
                        const struct samples *percent)
{
    char key[80];
    snprintf(key, sizeof key, "mean_%s_ms", name);
    json_member_real(b, key, samples_mean(ms));
    snprintf(key, sizeof key, "median_%s_ms", name);
    json_member_real(b, key, samples_percentile(ms, 50));
    snprintf(key, sizeof key, "std_%s_ms", name);
    json_member_real(b, key, latency_sd(ms));
    for (size_t i = 0; i < percent->n; i++) {
        snprintf(key, sizeof key, "p%g_%s_ms", percent->v[i], name);
        json_member_real(b, key, samples_percentile(ms, percent->v[i]));
    }
}

/* vLLM's members precede quoth's own members. */
void client_figures_json(const struct client_figures *f, const struct samples *percent,
                         struct buf *b)
{
    json_member_real(b, "duration", f->seconds);
    json_member_int(b, "completed", (int64_t)f->n_completed);
    json_member_int(b, "failed", (int64_t)f->n_failed);
    json_member_int(b, "total_input_tokens", f->n_input);
    json_member_int(b, "total_output_tokens", f->n_output);
    json_member_real(b, "request_throughput", f->request_rate);
    /* null if no objective is given */
    json_member_real(b, "request_goodput", f->has_slo ? f->good_rate : NAN);
    json_member_real(b, "output_throughput", f->output_rate);
    json_member_real(b, "total_token_throughput", f->total_rate);
    /* null if the run is too short */
    json_member_real(b, "max_output_tokens_per_s", client_figures_peak_rate(f));
    json_member_int(b, "max_concurrent_requests", f->under_way_max);
    json_member_real(b, "request_rate_offered", f->offered_rate); /* null if infinite */
    json_member_real(b, "requests_per_minute", 60 * f->request_rate);
    json_member_real(b, "goodput_share", goodput_share(f));
    for (int k = 0; k < N_LATENCY; k++) put_latency(b, &f->ms[k], latency_kind[k].name, percent);
}

/* ---- JSON of each request ---- */

/* Each function appends one value of a request. As in vLLM's detailed result, times are in
 * seconds. */
typedef void put_fn(struct buf *b, const struct client_trace *s);

static void put_s(struct buf *b, int64_t us)
{
    buf_addf(b, "%.6f", (double)us * 1e-6);
}

static void put_input(struct buf *b, const struct client_trace *s)
{
    buf_addf(b, "%d", s->n_input);
}

static void put_output(struct buf *b, const struct client_trace *s)
{
    buf_addf(b, "%d", s->error ? 0 : s->n_token);
}

/* Append the TTFT, or 0 without a token, so that all lists have one item per request. */
static void put_ttft(struct buf *b, const struct client_trace *s)
{
    put_s(b, s->n_time ? s->token_us[0] - s->submit_us : 0);
}

static void put_itls(struct buf *b, const struct client_trace *s)
{
    buf_add_char(b, '[');
    for (int k = 1; k < s->n_time; k++) {
        if (k > 1) buf_add_char(b, ',');
        put_s(b, s->token_us[k] - s->token_us[k - 1]);
    }
    buf_add_char(b, ']');
}

static void put_e2el(struct buf *b, const struct client_trace *s)
{
    put_s(b, s->error ? 0 : s->done_us - s->submit_us);
}

static void put_start(struct buf *b, const struct client_trace *s)
{
    put_s(b, s->submit_us);
}

static void put_queue(struct buf *b, const struct client_trace *s)
{
    put_s(b, s->submit_us - s->arrive_us);
}

static void put_error(struct buf *b, const struct client_trace *s)
{
    const char *text = s->error ? s->error : "";
    json_put_text(b, text, strlen(text));
}

/* Append one list per quantity, each with one item per request:
 *    ,"input_lens":[32,...],"ttfts":[0.012,...],"itls":[[0.003,...],...] */
void client_trace_json(const struct client_trace *v, size_t n, struct buf *b)
{
    static const struct {
        const char *key; /* static */
        put_fn *put;
    } list[] = {{"input_lens", put_input},  {"output_lens", put_output}, {"ttfts", put_ttft},
                {"itls", put_itls},         {"latencies", put_e2el},     {"start_times", put_start},
                {"queue_times", put_queue}, {"errors", put_error}};
    for (size_t k = 0; k < sizeof list / sizeof list[0]; k++) {
        buf_addf(b, ",\"%s\":[", list[k].key);
        for (size_t i = 0; i < n; i++) {
            if (i) buf_add_char(b, ',');
            list[k].put(b, &v[i]);
        }
        buf_add_char(b, ']');
    }
}
