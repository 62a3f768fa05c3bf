/* spans.c - the span of a call, for OpenTelemetry (telemetry/telemetry.h). The attributes have
 * vLLM's names (vllm/tracing). Some of these names are OpenTelemetry's conventions for generative
 * AI. Latencies are in seconds. A call of several prompts has one span, with sums of tokens and the
 * times of its first and last events. */
#include "api_impl.h"

#include <stdio.h>

/* Add the parameters of the first request, which all requests of a call share. */
static void put_request(struct span *s, const struct request *r)
{
    span_put_real(s, "gen_ai.request.temperature", (double)r->params.temperature);
    span_put_real(s, "gen_ai.request.top_p", (double)r->params.top_p);
    span_put_int(s, "gen_ai.request.n", r->n);
}

void call_take_span(struct api_call *c, struct span *take_span)
{
    c->span = take_span;
    if (!c->span) return;
    span_put_text(c->span, "gen_ai.request.id", c->id);
    span_put_text(c->span, "gen_ai.response.model", c->model ? c->model : c->api->name);
    const struct request *r = c->n_part > 0 ? c->part[0].request : NULL;
    if (r && c->part[0].n_pooled == 0) put_request(c->span, r);
}

/* Times of a call since its arrival, microseconds: first rows, first token, last token. */
struct call_times {
    int64_t rows_us, first_us, last_us;
};

/* Return the times of all parts that have ended. Set *any to false if none. */
static struct call_times times_of(const struct api_call *c, bool *any)
{
    struct call_times t = {.rows_us = INT64_MAX, .first_us = INT64_MAX};
    for (int i = 0; i < c->n_part; i++) {
        const struct part *p = &c->part[i];
        const struct usage *u = &p->usage;
        if (!p->done || u->n_prompt == 0) continue;
        const int64_t first = u->queue_us + u->prefill_us, last = first + u->decode_us;
        if (u->queue_us < t.rows_us) t.rows_us = u->queue_us;
        if (first < t.first_us) t.first_us = first;
        if (last > t.last_us) t.last_us = last;
    }
    *any = t.rows_us != INT64_MAX;
    return t;
}

static double seconds(int64_t us)
{
    return (double)us * 1e-6;
}

/* Append the durations. Those of prefill and decode add up to that of the inference. */
static void put_times(struct span *s, const struct call_times *t, bool has_token)
{
    span_put_real(s, "gen_ai.latency.time_in_queue", seconds(t->rows_us));
    span_put_real(s, "gen_ai.latency.time_in_model_prefill", seconds(t->first_us - t->rows_us));
    span_put_real(s, "gen_ai.latency.time_in_model_decode", seconds(t->last_us - t->first_us));
    span_put_real(s, "gen_ai.latency.time_in_model_inference", seconds(t->last_us - t->rows_us));
    if (has_token) span_put_real(s, "gen_ai.latency.time_to_first_token", seconds(t->first_us));
}

/* Return the number of generated tokens, in answers that are returned or not. */
static int64_t n_generated(const struct api_call *c)
{
    int64_t n = 0;
    for (int i = 0; i < c->n_part; i++) {
        const struct part *p = &c->part[i];
        for (int k = 0; !p->done && k < p->n; k++) n += choice_n_token(p, &p->choice[k]);
        if (p->done) n += p->usage.n_output;
    }
    return n;
}

/* Return the HTTP status of a choice. */
static int choice_status(const struct part *p, const struct choice *a)
{
    struct err e;
    return a->reply.finish == FINISH_ABORT ? CLIENT_CLOSED : api_status(check_choice(p, a, &e));
}

/* Return the HTTP status of the call: its own, or that of its first choice without an answer. */
static int status_of(const struct api_call *c)
{
    int status = c->status        ? c->status
                 : c->rc != 0     ? api_status(c->rc)
                 : c->n_open == 0 ? 200
                                  : CLIENT_CLOSED;
    for (int i = 0; status == 200 && !c->status && i < c->n_part; i++)
        for (int k = 0; status == 200 && k < c->part[i].n; k++)
            status = choice_status(&c->part[i], &c->part[i].choice[k]);
    return status;
}

void span_end_status(struct span *take_span, int status)
{
    char text[16];
    snprintf(text, sizeof text, "%d", status);
    span_put_int(take_span, "http.response.status_code", status);
    if (status >= 400) span_put_text(take_span, "error.type", text);
    span_end(take_span, status >= 500);
}

void call_end_span(struct api_call *c)
{
    struct span *s = c->span;
    int n_prompt;
    bool ran;
    if (!s) return;
    (void)api_call_n_token(c, &n_prompt);
    const int64_t n_token = n_generated(c);
    const struct call_times t = times_of(c, &ran);
    if (c->n_part > 0 && c->part[0].max_tokens > 0) /* 0: not submitted, or pooled */
        span_put_int(s, "gen_ai.request.max_tokens", c->part[0].max_tokens);
    span_put_int(s, "gen_ai.usage.prompt_tokens", n_prompt);
    span_put_int(s, "gen_ai.usage.completion_tokens", n_token);
    if (ran) put_times(s, &t, n_token > 0);
    span_put_real(s, "gen_ai.latency.e2e", span_seconds(s));
    c->span = NULL;
    span_end_status(s, status_of(c));
}
