/* interference.c - quoth bench interference: the effect of a long prompt on the pace of decoding
 * sequences, and the time of that prompt.
 *
 *   alone     the prompt without other sequences
 *   idle      the streams generate, no prompt
 *   during    the streams generate while the prompt is computed (--itl-target-ms limits its share)
 *   idle      the second case again, so that `idle` includes a drift of the machine
 *
 * This file calls engine_step itself, without a prefix cache. A gap is the time between two tokens
 * of a stream at its client. */
#include "measure.h"

#include "base/os.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t n_prompt = 16384, n_stream = 8, n_context = 1024, n_idle = 100;
static bool as_json;

static const struct option options[] = {
    INT_OPTION("prompt", "N", &n_prompt, 1, 1 << 20,
               "tokens of the long prompt, at most the context (default 16384)", .letter = 'p'),
    INT_OPTION("streams", "N", &n_stream, 1, 256, "number of generating sequences (default 8)"),
    INT_OPTION(
        "depth", "N", &n_context, 1, 1 << 20,
        "tokens of each stream when the prompt arrives, at most half the context (default 1024)",
        .letter = 'd'),
    INT_OPTION("idle", "N", &n_idle, 1, 1 << 20,
               "steps without the prompt, before and after (default 100)"),
    FLAG_OPTION("json", &as_json, "one JSON object"),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

enum { ALONE, BEGIN, BEFORE, DURING, AFTER, N_CASE };

struct token_stream {
    struct queue *queue; /* events of the request, owned */
    uint64_t id;
    int64_t last_us; /* time of the last token; 0 before the first token */
    bool done;
};

/* State of a measurement. rng: state of the random tokens of prompts. */
struct interference {
    struct session s;
    struct token_stream *stream; /* owned [n_stream + 1]; the last stream is the prompt */
    uint64_t rng;
    struct samples *gaps; /* gaps of the streams, borrowed; NULL: discard */
};

/* Draw the progress bar. done, n: rows or steps of the current case. Each case has a fifth of the
 * bar. */
static void show(int which, double done, double n)
{
    enum { WIDTH = 1000 };
    double part = n > 0 && done < n ? done / n : 1;
    progress_bar("bench interference", (size_t)((which + part) * WIDTH), N_CASE * WIDTH);
}

/* Return the number of rows that the engine has computed. */
static double rows_now(const struct interference *c)
{
    struct stats_view v;
    stats_read(engine_stats(c->s.engine), &v);
    return (double)v.value[STAT_rows];
}

/* Submit a request of n random tokens on a stream. Use greedy sampling, which adds least to the
 * time. */
static int submit_random(struct interference *c, struct token_stream *st, int n, int max_tokens,
                         struct err *e)
{
    struct request *r = request_open(e);
    if (!r) return ERR_MEMORY;
    int n_vocab = model_info(c->s.model)->n_vocab, rc = 0;
    for (int i = 0; i < n && rc == 0; i++)
        if (!vec_push(&r->prompt, (int32_t)rng_below(&c->rng, (uint64_t)n_vocab)))
            rc = err_memory(e, "a prompt", (unsigned long long)n * 4);
    r->max_tokens = max_tokens;
    r->params.temperature = 0;
    r->params.ignore_eos = true;
    r->reply = st->queue;
    st->id = r->id;
    st->last_us = 0;
    st->done = false;
    if (rc == 0) rc = engine_submit(c->s.engine, r, e);
    if (rc != 0) request_close(r);
    return rc;
}

/* Read a stream's events. Add the gaps between the stream's tokens to c->gaps if `counts` is
 * true. */
static int read_events(struct interference *c, struct token_stream *st, bool counts, struct err *e)
{
    struct event ev;
    while (queue_pop(st->queue, &ev, 0)) {
        if (ev.kind == EVENT_DONE) st->done = true;
        if (ev.kind != EVENT_TOKEN) continue;
        int64_t now = time_us();
        if (counts && c->gaps && st->last_us &&
            !vec_push(c->gaps, (double)(now - st->last_us) * 1e-3))
            return err_memory(e, "samples", c->gaps->n * sizeof(double));
        st->last_us = now;
    }
    return 0;
}

/* Run one step of the engine and read all streams. The last stream is the prompt, which has no
 * gaps. */
static int step(struct interference *c, struct err *e)
{
    engine_step(c->s.engine);
    int rc = 0;
    for (int i = 0; i <= n_stream && rc == 0; i++)
        rc = read_events(c, &c->stream[i], i < n_stream, e);
    return rc;
}

/* Step until the prompt's first token. Set *us to the duration in microseconds. */
static int run_prompt(struct interference *c, int which, double *us, struct err *e)
{
    struct token_stream *st = &c->stream[n_stream];
    double row0 = rows_now(c);
    int64_t begin = time_us();
    int rc = submit_random(c, st, (int)n_prompt, 1, e);
    while (rc == 0 && !st->done) {
        rc = step(c, e);
        show(which, rows_now(c) - row0, (double)n_prompt);
    }
    *us = (double)(time_us() - begin);
    return rc;
}

/* Run steps of the streams only, for comparison. */
static int run_idle(struct interference *c, int which, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < n_idle && rc == 0; i++) {
        rc = step(c, e);
        show(which, i + 1, (double)n_idle);
    }
    return rc;
}

/* Return true if each stream has a token, which means that its prompt is computed. */
static bool all_generate(const struct interference *c)
{
    for (int i = 0; i < n_stream; i++)
        if (c->stream[i].last_us == 0) return false;
    return true;
}

/* Durations of the prompt alone and among the streams. */
struct durations {
    struct samples idle, during; /* owned; ms */
    double alone_us, among_us;
};

/* Run the four cases in the order of the file's head. */
static int measure(struct interference *c, struct durations *o, struct err *e)
{
    int room = model_info(c->s.model)->context_max - (int)n_context;
    int rc = run_prompt(c, ALONE, &o->alone_us, e);
    double row0 = rows_now(c);
    for (int i = 0; i < n_stream && rc == 0; i++)
        rc = submit_random(c, &c->stream[i], (int)n_context, room, e);
    while (rc == 0 && !all_generate(c)) {
        rc = step(c, e);
        show(BEGIN, rows_now(c) - row0, (double)(n_stream * n_context));
    }
    c->gaps = &o->idle;
    if (rc == 0) rc = run_idle(c, BEFORE, e);
    c->gaps = &o->during;
    if (rc == 0) rc = run_prompt(c, DURING, &o->among_us, e);
    c->gaps = NULL;
    if (rc == 0) rc = step(c, e); /* this gap began during the prompt */
    c->gaps = &o->idle;
    return rc ? rc : run_idle(c, AFTER, e);
}

/* Print the figures. The ratios compare the gaps with the idle gaps, and the prompt's rate with the
 * prompt's rate alone. */
static void report(struct durations *o)
{
    samples_sort(&o->idle);
    samples_sort(&o->during);
    double idle50 = samples_nearest(&o->idle, 50), idle99 = samples_nearest(&o->idle, 99),
           p50 = samples_nearest(&o->during, 50), p99 = samples_nearest(&o->during, 99),
           alone = (double)n_prompt / o->alone_us * 1e6,
           among = (double)n_prompt / o->among_us * 1e6;
    if (as_json) {
        printf("{\"idle_p50_itl_ms\":%.3f,\"idle_p99_itl_ms\":%.3f,\"p50_itl_ms\":%.3f,\"p99_itl_"
               "ms\":%.3f,"
               "\"alone_tokens_per_s\":%.2f,\"among_tokens_per_s\":%.2f}\n",
               idle50, idle99, p50, p99, alone, among);
        return;
    }
    printf("between tokens, ms    p50 %8.1f   p99 %8.1f   idle (%zu gaps)\n", idle50, idle99,
           o->idle.n);
    printf("                      p50 %8.1f   p99 %8.1f   during the prompt (%zu gaps)\n", p50, p99,
           o->during.n);
    printf("p99 during            %.2f x the idle p50, %.2f x the idle p99\n", p99 / idle50,
           p99 / idle99);
    printf("the prompt            %.1f tokens/s alone, %.1f among them: %.0f %%\n", alone, among,
           100 * among / alone);
}

/* Reduce the lengths to the model's context, or to --max-model-len. The prompt leaves room for one
 * token; each stream leaves room for as many tokens as it has. */
static void fit_lengths(const struct model_info *i)
{
    int64_t context = i->context_max < i->context_train || session_flags.max_model_len
                          ? i->context_max
                          : i->context_train;
    int64_t prompt = context > 1 ? context - 1 : 1, depth = context > 3 ? context / 2 : 1;
    if (n_prompt <= prompt && n_context <= depth) return;
    if (n_prompt > prompt) n_prompt = prompt;
    if (n_context > depth) n_context = depth;
    fprintf(stderr,
            "quoth bench interference: the lengths are cut to a context of %lld tokens: prompt "
            "%lld, depth %lld\n",
            (long long)context, (long long)n_prompt, (long long)n_context);
}

/* Open the model and the streams. The context has more room than both lengths need, so that streams
 * do not end during the measurement. */
static int open_scene(struct interference *c, const char *model, struct err *e)
{
    int longest = (int)(n_prompt > n_context ? n_prompt : n_context);
    struct session_size size = {.n_seq = (int)n_stream + 1,
                                .n_out = (int)n_stream + 1,
                                .context = 2 * longest + 4096,
                                .n_longest = 2};
    struct engine_options eo;
    int rc = session_open_sized(&c->s, model, &size, e);
    if (rc == 0) {
        fit_lengths(c->s.info);
        session_engine_options(&eo, &c->s, &session_flags);
        eo.no_prefix_cache = true;
        rc = engine_open(&c->s.engine, &eo, e);
    }
    c->stream = calloc((size_t)n_stream + 1, sizeof *c->stream);
    if (rc == 0 && !c->stream) rc = err_memory(e, "streams", (size_t)n_stream);
    for (int i = 0; i <= n_stream && rc == 0; i++)
        if (!(c->stream[i].queue = engine_reply_queue()))
            rc = err_memory(e, "a reply queue", 1 << 17);
    return rc;
}

static void close_scene(struct interference *c)
{
    session_close(&c->s);
    for (int i = 0; c->stream && i <= n_stream; i++) queue_close(c->stream[i].queue);
    free(c->stream);
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct interference c = {.rng = 1};
    struct durations o = {0};
    const char *model = n_arg == 1 ? arg[0] : session_bundled(NULL, &e);
    int rc = model ? open_scene(&c, model, &e) : ERR_MISSING;
    if (rc == 0) rc = measure(&c, &o, &e);
    if (rc == 0) report(&o);
    close_scene(&c);
    vec_deinit(&o.idle), vec_deinit(&o.during);
    return rc ? fail("bench interference", &e) : 0;
}

const struct command command_bench_interference = {
    .name = "bench interference",
    .summary = "effect of a long prompt and of running answers on each other",
    .usage = "[MODEL] [OPTIONS]",
    .detail = "Submit a long prompt while sequences generate. Report the time between tokens with "
              "and without the prompt, and the prompt's rate with and without the sequences. "
              "--itl-target-ms (2x, 4x) limits the prompt's share of each step.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
