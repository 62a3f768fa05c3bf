/* cand.c - the scratch of a pick: a row of logits, then candidates and their weights.
 *
 * The passes over all tokens determine the speed, because a cut usually leaves fewer than 100 of
 * 150 k tokens. The survey computes maxima of blocks of 64 logits, at memory speed. Only the few
 * blocks that reach a cut's floor are read if the floor is known in advance (greedy, top-k, min-p).
 * Other cuts need the total of the whole distribution: top-p, typical-p, mirostat, or no cut. These
 * cuts compute exp of all logits, which takes four times as long. Every cut copies only the
 * remaining tokens.
 *
 * row_exp (kern.h) defines the order of the sums over the tokens of the row or of the list. */
#include "sample_impl.h"

#include "base/check.h"

#include <limits.h>
#include <stdlib.h>

int64_t sample_work_bytes(int n_vocab)
{
    const struct sample_work *w = NULL;
    const int64_t token = sizeof *w->edited + sizeof *w->key + sizeof *w->index + sizeof *w->found +
                          sizeof *w->id + sizeof *w->logit + sizeof *w->weight,
                  block = sizeof *w->block_max + sizeof *w->block_sum;
    return sizeof *w + token * ((int64_t)n_vocab + ROW_BLOCK) + block * (n_vocab / ROW_BLOCK + 1);
}

int sample_work_open(struct sample_work **out, int n_vocab, const char *cpu_level, struct err *e)
{
    *out = NULL;
    if (n_vocab < 1)
        return err_field(e, ERR_ARG, "n_vocab", ": must be at least 1, got %d", n_vocab);
    struct sample_work *w = calloc(1, sizeof *w);
    if (!w) return err_memory(e, "sampling scratch", sizeof *w);
    int rc = kern_open(&w->kern, cpu_level, e);
    /* leave room for one additional vector */
    size_t n = (size_t)n_vocab + ROW_BLOCK, n_block = n / ROW_BLOCK;
    w->n_vocab = n_vocab;
    w->block_max = arena_push(&w->mem, n_block * sizeof *w->block_max, 64);
    w->block_sum = arena_push(&w->mem, n_block * sizeof *w->block_sum, 64);
    w->edited = arena_push(&w->mem, n * sizeof *w->edited, 64);
    w->key = arena_push(&w->mem, n * sizeof *w->key, 64);
    w->index = arena_push(&w->mem, n * sizeof *w->index, 64);
    w->found = arena_push(&w->mem, n * sizeof *w->found, 64);
    w->id = arena_push(&w->mem, n * sizeof *w->id, 64);
    w->logit = arena_push(&w->mem, n * sizeof *w->logit, 64);
    w->weight = arena_push(&w->mem, n * sizeof *w->weight, 64);
    bool have = w->block_max && w->block_sum && w->edited && w->key && w->index && w->found &&
                w->id && w->logit && w->weight;
    if (rc == 0 && !have)
        rc = err_memory(e, "sampling scratch", (unsigned long long)sample_work_bytes(n_vocab));
    if (rc != 0) sample_work_close(w);
    if (rc == 0) *out = w;
    return rc;
}

void sample_work_close(struct sample_work *w)
{
    if (w) arena_deinit(&w->mem);
    free(w);
}

/* ---- the row --------------------------------------------------------------------------------- */

bool cand_survey(struct sample_work *w, const float *row, int n)
{
    CHECK(n >= 1 && n <= w->n_vocab, "%d logits, room for %d", n, w->n_vocab);
    w->row = row;
    w->n = n;
    w->weighed = false;
    w->max = w->row_max = w->kern.row_max(w->block_max, row, n);
    return w->max >= -FLT_MAX;
}

void cand_raise(struct sample_work *w)
{
    if (w->row) return;
    const float max = w->kern.row_max(w->block_sum, w->logit, w->n);
    w->weighed = w->weighed && max == w->max;
    w->max = max;
}

int32_t cand_best(struct sample_work *w)
{
    CHECK(w->row, "the %d candidates are a list, not a row", w->n);
    w->kern.row_find(w->id, w->logit, w->row, w->block_max, w->n, w->max, INFINITY);
    return w->id[0];
}

float cand_floor_of_k(struct sample_work *w, int k)
{
    CHECK(w->row && k >= 1, "%d of %d candidates", k, w->n);
    int n_block = (w->n + ROW_BLOCK - 1) / ROW_BLOCK;
    return k < n_block ? rank_cut(w, w->block_max, NULL, n_block, k).floor : -FLT_MAX;
}

/* ---- the list -------------------------------------------------------------------------------- */

float cand_float_at_least(double x)
{
    if (!(x > -FLT_MAX)) return -FLT_MAX;
    if (x > FLT_MAX) return FLT_MAX;
    float f = (float)x;
    return f < x ? nextafterf(f, INFINITY) : f;
}

/* Keep the list entries with key > floor, and the first n_tie entries with key == floor. */
static void list_keep(struct sample_work *w, const float *key, float floor, int n_tie)
{
    CHECK(!w->row, "the %d candidates are a row, not a list", w->n);
    w->kern.row_max(w->block_sum, key, w->n);
    int n = w->kern.row_find(w->index, w->key, key, w->block_sum, w->n, floor, INFINITY);
    int32_t *id = w->id;
    float *logit = w->logit;
    int n_kept = 0;
    for (int i = 0; i < n; i++) {
        int from = w->index[i];
        bool tie = w->key[i] == floor;
        id[n_kept] = id[from];
        logit[n_kept] = logit[from];
        n_kept += !tie || n_tie > 0;
        n_tie -= tie;
    }
    w->n = n_kept;
    w->weighed = false;
}

void cand_gather(struct sample_work *w, double floor)
{
    float lo = cand_float_at_least(floor);
    if (!w->row) {
        list_keep(w, w->logit, lo, INT_MAX);
        return;
    }
    w->n = w->kern.row_find(w->id, w->logit, w->row, w->block_max, w->n, lo, INFINITY);
    w->row = NULL;
    w->weighed = false;
}

void cand_keep_cut(struct sample_work *w, const float *key, struct cut cut)
{
    list_keep(w, key, cut.floor, cut.n_tie);
}

/* The two cuts are prefixes of the candidates in the same order, so the longer prefix contains the
 * shorter one. */
struct cut cand_cut_at_least(struct sample_work *w, const float *key, struct cut cut, int n_min)
{
    if (n_min <= 1) return cut;
    struct cut least = rank_cut(w, key, NULL, w->n, n_min);
    bool longer = least.floor < cut.floor || (least.floor == cut.floor && least.n_tie > cut.n_tie);
    return longer ? least : cut;
}

void cand_keep_weight(struct sample_work *w, double floor)
{
    CHECK(w->weighed, "%d candidates have no weights", w->n);
    list_keep(w, w->weight, cand_float_at_least(floor), INT_MAX);
}

void cand_keep_one(struct sample_work *w, int at)
{
    CHECK(!w->row && at >= 0 && at < w->n, "candidate %d of %d", at, w->n);
    w->id[0] = w->id[at];
    w->logit[0] = w->logit[at];
    w->n = 1;
    w->weighed = false;
}

void cand_keep_top(struct sample_work *w, int k)
{
    CHECK(k >= 1, "%d of %d candidates", k, w->n);
    if (w->row) cand_gather(w, cand_floor_of_k(w, k));
    if (w->n > k) cand_keep_cut(w, w->logit, rank_cut(w, w->logit, NULL, w->n, k));
}

/* ---- weights --------------------------------------------------------------------------------- */

void cand_weigh(struct sample_work *w, double temperature_inverse)
{
    CHECK(w->n >= 1, "%d candidates", w->n);
    float scale = temperature_inverse < FLT_MAX ? (float)temperature_inverse : FLT_MAX;
    if (w->weighed && w->scale == scale) return;
    w->scale = scale;
    w->total = w->kern.row_exp(w->row ? NULL : w->weight, w->block_sum, w->row ? w->row : w->logit,
                               w->n, w->max, scale);
    w->weighed = true;
}
