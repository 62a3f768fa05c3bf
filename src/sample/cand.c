/* cand.c - the scratch of a pick: logits, then candidates and their weights.
 *
 * Of 150 k tokens a cut usually leaves some dozens, so the passes over all of them decide the
 * speed. The first one takes maxima of blocks of 64 logits (memory speed): greedy is then a search
 * in one block, and a cut that can name a floor beforehand (top-k, min-p) gathers from the few
 * blocks that reach it. Only a cut that needs the whole distribution's total (top-p, typical-p,
 * mirostat, or none at all) pays for exp of everything, three quarters of its time.
 *
 * Written order of the sums: 8 lanes within a chunk of 64 candidates (lane = index mod 8), joined
 * as ((0+4)+(2+6)) + ((1+5)+(3+7)); then the chunks, ascending. */
#include "sample_impl.h"
#include "sample_math.h"

#include <stdlib.h>

enum { LANES = 8 };

int sample_work_open(struct sample_work **out, int n_vocab, struct err *e)
{
    if (n_vocab < 1) return err_set(e, ERR_ARG, "n_vocab is %d, must be at least 1", n_vocab);
    struct sample_work *w = calloc(1, sizeof *w);
    if (!w) return err_memory(e, "sampling scratch", sizeof *w);
    size_t n = (size_t)n_vocab, n_block = n / BLOCK_TOKENS + 1;
    w->n_vocab = n_vocab;
    w->block_max = arena_push(&w->mem, n_block * sizeof *w->block_max, 64);
    w->chunk_sum = arena_push(&w->mem, n_block * sizeof *w->chunk_sum, 64);
    w->bucket = arena_push(&w->mem, N_BUCKET * sizeof *w->bucket, 64);
    w->rank = arena_push(&w->mem, n * sizeof *w->rank, 64);
    w->id = arena_push(&w->mem, n * sizeof *w->id, 64);
    w->logit = arena_push(&w->mem, n * sizeof *w->logit, 64);
    w->weight = arena_push(&w->mem, n * sizeof *w->weight, 64);
    *out = w;
    if (w->block_max && w->chunk_sum && w->bucket && w->rank && w->id && w->logit && w->weight)
        return 0;
    sample_work_close(w);
    *out = NULL;
    return err_memory(e, "sampling scratch", 20ull * n);
}

void sample_work_close(struct sample_work *w)
{
    if (w) arena_deinit(&w->mem);
    free(w);
}

void logits_mask(float *logit, const uint32_t *mask, int n_vocab)
{
    for (int from = 0; from < n_vocab; from += 32) {
        uint32_t allowed = mask[from / 32];
        if (allowed == UINT32_MAX) continue;
        int n = n_vocab - from < 32 ? n_vocab - from : 32;
        for (int i = 0; i < n; i++)
            if (!(allowed >> i & 1)) logit[from + i] = -INFINITY;
    }
}

/* ---- the survey ------------------------------------------------------------------------------ */

static int block_len(int n_vocab, int from)
{
    return n_vocab - from < BLOCK_TOKENS ? n_vocab - from : BLOCK_TOKENS;
}

/* `x > m ? x : m` leaves a NaN x out, and is one instruction per four lanes. */
static float max_of_full_block(const float *x)
{
    float m[16];
    for (int j = 0; j < 16; j++) m[j] = -INFINITY;
    for (int i = 0; i < BLOCK_TOKENS; i += 16)
        for (int j = 0; j < 16; j++) m[j] = x[i + j] > m[j] ? x[i + j] : m[j];
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++) m[j] = m[j + half] > m[j] ? m[j + half] : m[j];
    return m[0];
}

static float max_of(const float *x, int n)
{
    if (n == BLOCK_TOKENS) return max_of_full_block(x);
    float m = -INFINITY;
    for (int i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

bool cand_survey(struct sample_work *w, const float *logits, int n_vocab)
{
    float max = -INFINITY;
    for (int from = 0, b = 0; from < n_vocab; from += BLOCK_TOKENS, b++) {
        w->block_max[b] = max_of(logits + from, block_len(n_vocab, from));
        if (w->block_max[b] > max) max = w->block_max[b];
    }
    w->max = max > FLT_MAX ? FLT_MAX : max;
    return max >= -FLT_MAX;
}

int32_t cand_best(const struct sample_work *w, const float *logits, int n_vocab)
{
    int best = 0;
    for (int b = 1; b * BLOCK_TOKENS < n_vocab; b++)
        if (w->block_max[b] > w->block_max[best]) best = b;
    int i = best * BLOCK_TOKENS;
    while (i < n_vocab - 1 && logits[i] != w->block_max[best]) i++;
    return i;
}

float cand_floor_of_k(struct sample_work *w, int n_vocab, int k)
{
    int n_block = (n_vocab + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    if (k >= n_block) return -FLT_MAX;
    for (int b = 0; b < n_block; b++) w->rank[b] = rank_of_logit(w->block_max[b]);
    float floor = logit_of_rank(rank_cut(w, NULL, n_block, k).rank);
    return floor >= -FLT_MAX ? floor : -FLT_MAX;
}

/* ---- candidates ------------------------------------------------------------------------------ */

static bool all_reach(const float *logit, float floor)
{
    int n = 0;
    for (int i = 0; i < BLOCK_TOKENS; i++) n += logit[i] >= floor;
    return n == BLOCK_TOKENS;
}

/* A full block of which every token stays: the usual case where no floor is known. */
static void gather_whole(struct sample_work *w, const float *logits, int from)
{
    int32_t *id = w->id + w->n;
    float *to = w->logit + w->n;
    memmove(to, logits + from, BLOCK_TOKENS * sizeof *to);
    for (int i = 0; i < BLOCK_TOKENS; i++) id[i] = from + i;
    for (int i = 0; i < BLOCK_TOKENS; i++) to[i] = to[i] > FLT_MAX ? FLT_MAX : to[i];
    w->n += BLOCK_TOKENS;
}

static void gather_some(struct sample_work *w, const float *logits, int from, int n, float floor)
{
    for (int i = from; i < from + n; i++) {
        float logit = logits[i];
        w->id[w->n] = i;
        w->logit[w->n] = logit > FLT_MAX ? FLT_MAX : logit;
        w->n += logit >= floor;
    }
}

void cand_gather(struct sample_work *w, const float *logits, int n_vocab, float floor)
{
    w->n = 0;
    w->weighed = false;
    for (int from = 0; from < n_vocab; from += BLOCK_TOKENS) {
        if (!(w->block_max[from / BLOCK_TOKENS] >= floor)) continue;
        int n = block_len(n_vocab, from);
        if (n == BLOCK_TOKENS && all_reach(logits + from, floor))
            gather_whole(w, logits, from);
        else
            gather_some(w, logits, from, n, floor);
    }
}

/* Loops of a constant count, for SIMD; what they compute beyond n is not looked at. */
static void weigh(struct sample_work *w, int from, int n, double temperature_inverse)
{
    float logit[CHUNK_CANDS] = {0};
    double x[CHUNK_CANDS], max = w->max;
    memcpy(logit, w->logit + from, (size_t)n * sizeof *logit);
    for (int i = 0; i < CHUNK_CANDS; i++) x[i] = (logit[i] - max) * temperature_inverse;
    for (int i = 0; i < CHUNK_CANDS; i++) x[i] = sample_exp_bound(x[i]);
    for (int i = 0; i < CHUNK_CANDS; i++) x[i] = sample_exp_bounded(x[i]);
    memcpy(w->weight + from, x, (size_t)n * sizeof *x);
}

double sum_lanes(const double *x, int n)
{
    double lane[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += x[i + j];
    for (; i < n; i++) lane[i % LANES] += x[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

static int chunk_len(const struct sample_work *w, int from)
{
    return w->n - from < CHUNK_CANDS ? w->n - from : CHUNK_CANDS;
}

void cand_weigh(struct sample_work *w, double temperature_inverse)
{
    w->total = 0;
    for (int from = 0, c = 0; from < w->n; from += CHUNK_CANDS, c++) {
        int n = chunk_len(w, from);
        if (!w->weighed) weigh(w, from, n, temperature_inverse);
        w->chunk_sum[c] = sum_lanes(w->weight + from, n);
        w->total += w->chunk_sum[c];
    }
    w->weighed = true;
}

/* The chunk in which the running sum passes the target; *before: the sum in front of it. */
static int draw_chunk(const struct sample_work *w, double target, double *before)
{
    int n_chunk = (w->n + CHUNK_CANDS - 1) / CHUNK_CANDS, last = 0;
    double sum = 0;
    for (int c = 0; c < n_chunk; c++) {
        if (!(w->chunk_sum[c] > 0)) continue;
        last = c;
        *before = sum;
        sum += w->chunk_sum[c];
        if (sum > target) break;
    }
    return last;
}

int cand_draw(const struct sample_work *w, double u)
{
    double target = u * w->total, sum = 0;
    int from = draw_chunk(w, target, &sum) * CHUNK_CANDS;
    int end = from + chunk_len(w, from), last = from;
    for (int i = from; i < end; i++) {
        if (!(w->weight[i] > 0)) continue;
        last = i;
        sum += w->weight[i];
        if (sum > target) break;
    }
    return last;
}

void cand_rank_by_logit(struct sample_work *w)
{
    for (int i = 0; i < w->n; i++) w->rank[i] = rank_of_logit(w->logit[i]);
}

/* ---- filters: each keeps the order ----------------------------------------------------------- */

/* Put candidate `from` behind the w->n that stay so far, and count it if it does. Without a branch:
 * which ones stay is hard to predict. */
static void cand_keep_if(struct sample_work *w, int from, bool stays)
{
    w->id[w->n] = w->id[from];
    w->logit[w->n] = w->logit[from];
    if (w->weighed) w->weight[w->n] = w->weight[from];
    w->n += stays;
}

void cand_keep_cut(struct sample_work *w, struct cut cut)
{
    int n = w->n;
    w->n = 0;
    for (int i = 0; i < n; i++) {
        bool tie = w->rank[i] == cut.rank;
        cand_keep_if(w, i, w->rank[i] < cut.rank || (tie && cut.n_tie > 0));
        cut.n_tie -= tie;
    }
}

void cand_keep_logit(struct sample_work *w, double floor)
{
    int n = w->n;
    w->n = 0;
    for (int i = 0; i < n; i++) cand_keep_if(w, i, w->logit[i] >= floor);
}

void cand_keep_weight(struct sample_work *w, double floor)
{
    int n = w->n;
    w->n = 0;
    for (int i = 0; i < n; i++) cand_keep_if(w, i, w->weight[i] >= floor);
}

void cand_keep_one(struct sample_work *w, int at)
{
    w->n = 0;
    cand_keep_if(w, at, true);
}
