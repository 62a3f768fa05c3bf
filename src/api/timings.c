/* timings.c - figures of an answer in the form of llama.cpp's server, and the interval of pings:
 *
 *   timings_per_token   counts and rates of the prompt and of the answer, in each piece
 *   return_progress     number of the prompt's tokens so far, in pieces before the first token
 *   sse_ping_interval   seconds of silence before a ping of the stream */
#include "dialect.h"

#include <stdio.h>

enum { PING_S_MAX = 24 * 3600 };

int read_figures(struct api_call *c, struct request *r, const struct json *body, struct err *e)
{
    int64_t ping_s = 0;
    int rc = body_flag(body, "timings_per_token", &c->timings, e);
    if (rc == 0) rc = body_flag(body, "return_progress", &c->progress, e);
    if (rc == 0) rc = body_int(body, "sse_ping_interval", -1, PING_S_MAX, &ping_s, e);
    if (rc == 0 && ping_s == 0 && body_field(body, "sse_ping_interval"))
        rc = err_field(e, ERR_ARG, "sse_ping_interval", ": must be -1 or in [1, %d], got 0",
                       (int)PING_S_MAX);
    c->progress &= c->stream && c->dialect->put_progress != NULL;
    c->ping_s = (int)ping_s;
    r->progress = c->progress;
    return rc;
}

/* Return the longer time, because the prompts of a call run at the same time. */
static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct usage call_usage(const struct api_call *c)
{
    struct usage u = {0};
    for (int i = 0; i < c->n_part; i++) {
        const struct part *p = &c->part[i];
        u.n_prompt += p->n_prompt;
        u.n_cached += p->usage.n_cached;
        u.queue_us = longer(u.queue_us, p->usage.queue_us);
        u.prefill_us = longer(u.prefill_us, p->usage.prefill_us);
        u.decode_us = longer(u.decode_us, p->usage.decode_us);
        for (int k = 0; k < p->n; k++) u.n_output += choice_n_token(p, &p->choice[k]);
    }
    return u;
}

/* Append the count of a phase, its time, and its rates; a rate is 0 if its divisor is 0. */
static void put_phase(struct json_out *o, const char *name, int n, int64_t us)
{
    const double ms = (double)us * 1e-3;
    const struct {
        const char *unit; /* static */
        double x;
    } row[] = {
        {"_ms", ms},
        {"_per_token_ms", n > 0 ? ms / n : 0},
        {"_per_second", us > 0 ? n * 1e3 / ms : 0},
    };
    char key[40];
    snprintf(key, sizeof key, "%s_n", name);
    out_int(o, key, n);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(key, sizeof key, "%s%s", name, row[i].unit);
        out_double(o, key, row[i].x);
    }
}

/* The time of the prompt ends with the first token, and that of the answer begins there. */
void put_timings(struct json_out *o, const struct usage *u)
{
    out_object(o, "timings");
    out_int(o, "cache_n", u->n_cached);
    put_phase(o, "prompt", u->n_prompt - u->n_cached, u->prefill_us);
    put_phase(o, "predicted", u->n_output, u->decode_us);
    out_end(o);
}

/* Return the number of the prompt's tokens so far. The first token of an answer completes it. */
static int n_done(const struct part *p)
{
    for (int k = 0; k < p->n; k++)
        if (p->choice[k].ids.n) return p->n_prompt;
    return p->n_done;
}

bool progress_is_due(const struct api_call *c, const struct part *p)
{
    return c->progress && n_done(p) > p->n_done_sent;
}

void put_progress(struct json_out *o, struct part *p)
{
    const struct reply *first = p->n ? &p->choice[0].reply : NULL;
    const struct usage *u = first && first->n_token ? &first->usage : &p->usage;
    p->n_done_sent = n_done(p);
    out_object(o, "prompt_progress");
    out_int(o, "total", p->n_prompt);
    out_int(o, "cache", u->n_cached);
    out_int(o, "processed", p->n_done_sent);
    out_int(o, "time_ms", u->prefill_us / 1000);
    out_end(o);
}
