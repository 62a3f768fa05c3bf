/* model.c - timing of model_forward.
 *
 *   prefix: computed for the first sequence. The other sequences get copies of its pages, because
 *   each sequence must read separate memory.
 *   case:   each repeat computes the same positions */
#include "measure.h"

#include "base/cpu.h"
#include "base/hash.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

struct bench_model {
    struct model *m;   /* model, borrowed */
    struct pool *pool; /* threads of the model, borrowed */
    struct pool_stats stats;
    struct bench_batch work;
    struct model_out out; /* output of the last step */
    int depth;            /* length of the prefix in the pages */
};

/* ---- running ---- */

/* Run rows [pos0, pos0 + n) of sequence 0, in as few batches as possible. Only the last row has
 * logits. */
static void run_prompt(struct bench_model *b, int pos0, int n)
{
    int n_row = b->work.batch.limits.n_row;
    for (int at = 0, rows; at < n; at += rows) {
        rows = n - at < n_row ? n - at : n_row;
        batch_clear(&b->work.batch);
        bench_batch_add(&b->work, 0, pos0 + at, rows, at + rows == n);
        b->out = model_forward(b->m, &b->work.batch);
    }
}

/* Run one token of each of n_seq sequences at the same position. */
static void run_step(struct bench_model *b, int pos, int n_seq)
{
    batch_clear(&b->work.batch);
    for (int s = 0; s < n_seq; s++) bench_batch_add(&b->work, s, pos, 1, true);
    b->out = model_forward(b->m, &b->work.batch);
}

static void run_case(struct bench_model *b, const struct bench_case *c)
{
    if (c->prompt)
        run_prompt(b, c->depth, c->n_token);
    else
        for (int i = 0; i < c->n_token; i++) run_step(b, c->depth + i, c->n_seq);
}

/* Open a separate prefix for every sequence. */
static void open_prefixes(struct bench_model *b, int depth)
{
    if (depth == b->depth) return;
    b->depth = depth;
    if (depth == 0) return;
    run_prompt(b, 0, depth);
    struct batch *t = &b->work.batch;
    batch_clear(t);
    bench_batch_add(&b->work, 0, depth, 1, true);
    for (int i = 0; i * b->work.page_rows < depth; i++)
        for (int s = 1; s < b->work.seq_max; s++)
            t->copy[t->n_copy++] = (struct batch_copy){bench_batch_page(&b->work, 0, i),
                                                       bench_batch_page(&b->work, s, i), COPY_KV};
    model_forward(b->m, t);
}

/* ---- open, run, close ---- */

/* The KV pages are allocated lazily, so their size is compared with the free memory before the
 * first step touches them. */
int bench_model_open(struct bench_model **out, struct session *s, int seq_max, struct err *e)
{
    struct bench_model *b = *out = calloc(1, sizeof *b);
    if (!b) return err_memory(e, "a measurement", sizeof *b);
    const struct model_info *info = model_info(s->model);
    b->m = s->model;
    b->pool = s->backend->pool;
    if (info->n_start > 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "a measurement of a model of encoder and decoder is not supported yet");
    if (info->kv_bytes > (int64_t)os_memory_free())
        return err_set(e, ERR_LIMIT,
                       "%lld MiB of KV pages do not fit into memory; give a smaller --depth or "
                       "--batch, or a smaller --kv-cache-dtype",
                       (long long)(info->kv_bytes >> 20));
    if (info->n_state > 0 && info->n_state < model_batch_limits(s->model)->n_seq)
        return err_set(e, ERR_LIMIT,
                       "--batch: must be at most %d, the recurrent states that fit into memory, "
                       "got %d",
                       info->n_state, model_batch_limits(s->model)->n_seq);
    int rc =
        bench_batch_open(&b->work, model_batch_limits(s->model), info->page_rows, info->n_vocab, e);
    b->work.seq_max = seq_max;
    return rc;
}

void bench_model_close(struct bench_model *b)
{
    if (!b) return;
    bench_batch_close(&b->work);
    free(b);
}

struct pool_stats bench_model_threads(const struct bench_model *b)
{
    return b->stats;
}

/* The prefix is computed before the clock starts. Later cases of the same depth reuse the
 * prefix. */
double bench_model_time(struct bench_model *b, const struct bench_case *c)
{
    unsigned former = cpu_float_canonical();
    open_prefixes(b, c->depth);
    int64_t start = time_us();
    run_case(b, c);
    double seconds = (double)(time_us() - start) * 1e-6;
    cpu_float_restore(former);
    return seconds;
}

/* Warm up with one step, or with the whole prompt, then measure n_repeat runs. */
int bench_model_run(struct bench_model *b, const struct bench_case *c, int n_repeat,
                    struct samples *seconds, struct err *e)
{
    bool ok = true;
    struct bench_case warm = *c;
    if (!c->prompt) warm.n_token = 1;
    bench_model_time(b, &warm);
    struct pool_stats before = pool_stats(b->pool);
    for (int i = 0; i < n_repeat && ok; i++) ok = vec_push(seconds, bench_model_time(b, c));
    b->stats = pool_stats_since(b->pool, &before);
    return ok ? 0 : err_memory(e, "samples", (unsigned long long)n_repeat * sizeof(double));
}

/* Return a hash of the last step's logits. */
uint64_t bench_model_bits(struct bench_model *b, const struct bench_case *c)
{
    const uint64_t rng = b->work.rng;
    struct bench_case one = *c;
    one.n_token = c->prompt ? c->n_token : 1;
    bench_model_time(b, &one);
    b->work.rng = rng; /* the next run uses the same tokens */
    return hash_bytes(b->out.logits,
                      (size_t)b->work.n_vocab * sizeof(float) * (size_t)b->work.batch.n_out, 0);
}
