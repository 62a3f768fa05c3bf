/* scan_test.c - goal: the ops of recurrent layers give equal bits however the rows of a sequence
 * are divided into steps and batches. The states after rows continue a sequence exactly. Method:
 * compute sequences alone in one step, then in random chunks, mixed, with other slots, levels and
 * numbers of threads. The convolution also equals its formula in double. */
#include "../../tests/unit.h"

#include "backend_impl.h"
#include "base/rng.h"
#include "kern/kern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_SEQ = 3, LEN = 23, N_SLOT = 40, N_TAP = 4, N_COLUMN = 300, N_HEAD = 4, N_HEAD_K = 2 };
enum { D_K = 6, D_V = 20, N_V = N_HEAD * D_V, N_K = N_HEAD_K * D_K };
enum { WIDE = 300, SLOT = N_HEAD * D_K * D_V + D_K * WIDE + (N_TAP - 1) * N_COLUMN };
enum { ROWS = N_SEQ * LEN, N_OP = 11 };

/* Inputs of a row, by the ops that read them, and their number of values. */
enum row_input { CONV, Q, K, V, BETA, DECAY, CHANNELS, Q_WIDE, K_WIDE, V_WIDE, BETA_WIDE, N_INPUT };
static const int width_of[N_INPUT] = {N_COLUMN,    N_K, N_K, N_V,  N_HEAD, N_HEAD,
                                      N_HEAD *D_K, D_K, D_K, WIDE, WIDE};
/* Inputs [N_SEQ, LEN, ...] of all sequences, and weights. */
struct texts {
    float in[N_INPUT][ROWS * WIDE], w[N_TAP * N_COLUMN], bias[N_COLUMN], a[D_K * WIDE], skip[WIDE];
};
struct results {
    float y[N_OP][ROWS][WIDE];
};

/* A batch, its inputs by row, and the states. */
struct steps {
    struct backend *b;
    struct batch batch;
    struct texts in;
    float state[N_OP][N_SLOT][SLOT], y[ROWS * WIDE];
    int32_t at[N_SEQ]; /* slot of each sequence's state; -1 at its start */
    int n_done[N_SEQ];
    uint64_t rng;
};

/* Append n rows of sequence s to the batch. Some of the rows also leave a state. */
static void add_rows(struct steps *t, const struct texts *all, int s, int n, bool free_slot[N_SLOT])
{
    struct batch *b = &t->batch;
    b->state_in[b->n_seq++] = t->at[s];
    for (int i = 0; i < n; i++, b->n_row++) {
        const int row = b->n_row, from = s * LEN + t->n_done[s] + i;
        for (int k = 0; k < N_INPUT; k++)
            memcpy(t->in.in[k] + row * width_of[k], all->in[k] + from * width_of[k],
                   (size_t)width_of[k] * sizeof(float));
        b->state_out[row] = -1;
        if (i + 1 < n && rng_below(&t->rng, 3)) continue;
        int slot = (int)rng_below(&t->rng, N_SLOT);
        while (!free_slot[slot]) slot = (slot + 1) % N_SLOT;
        if (i + 1 == n && t->at[s] >= 0 && rng_below(&t->rng, 2)) slot = t->at[s];
        free_slot[slot] = false;
        b->state_out[row] = slot;
    }
    b->row0[b->n_seq] = b->n_row;
}

static struct state_layer layer_of(struct steps *t, int op)
{
    return (struct state_layer){t->state[op][0] + op, SLOT};
}

/* Compute the rows of the batch with one op. Rows of results have the op's width. */
static int compute(struct steps *t, int op)
{
    static const enum scan_kind kind[N_OP] = {
        [2] = SCAN_DELTA,     [3] = SCAN_DELTA,     [4] = SCAN_HEADS,
        [5] = SCAN_HEADS,     [6] = SCAN_COLUMNS,   [7] = SCAN_WKV,
        [8] = SCAN_WKV_HEADS, [9] = SCAN_WKV_HEADS, [10] = SCAN_WKV_DELTA};
    if (op < 2) {
        const struct conv c = {.x = t->in.in[CONV] + 7 * op,
                               .x_row = N_COLUMN,
                               .w = t->in.w,
                               .bias = op ? t->in.bias : NULL,
                               .n_tap = N_TAP,
                               .n_all = N_COLUMN,
                               .first = 7 * op,
                               .n = N_COLUMN - 7 * op,
                               .curved = op,
                               .curve = CURVE_silu,
                               .state = layer_of(t, op)};
        t->b->op->conv(t->b, t->y, &c, &t->batch);
        return (int)c.n;
    }
    const bool wide = op == 6 || op == 7, channels = op == 3 || op == 4 || op >= 9;
    const struct scan s = {.kind = kind[op],
                           .n_head = wide ? 1 : N_HEAD,
                           .n_head_k = wide ? 1 : N_HEAD_K,
                           .d_k = op == 7 ? 3 : D_K,
                           .d_v = wide ? WIDE : D_V,
                           .tiled = op == 3,
                           .q = t->in.in[wide ? Q_WIDE : Q],
                           .k = t->in.in[op == 7 ? BETA_WIDE
                                         : wide  ? K_WIDE
                                                 : K],
                           .v = t->in.in[wide ? V_WIDE : V],
                           .decay = op == 7              ? t->in.a
                                    : op == 8 || op == 9 ? t->in.bias
                                                         : t->in.in[channels ? CHANNELS : DECAY],
                           .by_channel = channels,
                           .same_decay = op == 8 || op == 9,
                           .beta = op > 6 ? NULL : t->in.in[wide ? BETA_WIDE : BETA],
                           .a = op == 10 ? t->in.in[K] : t->in.a,
                           .b = op == 10 ? t->in.in[Q] : NULL,
                           .skip = op >= 5 && op <= 9 ? t->in.skip : NULL,
                           .state = layer_of(t, op)};
    t->b->op->scan(t->b, t->y, &s, &t->batch);
    return wide ? WIDE : N_V;
}

/* Compute all texts in random steps. max: largest number of rows of a sequence in a step. */
static void run_texts(struct steps *t, const struct texts *all, struct results *out, int max)
{
    for (int s = 0; s < N_SEQ; s++) t->at[s] = -1, t->n_done[s] = 0;
    for (bool more = true; more;) {
        struct batch *b = &t->batch;
        bool free_slot[N_SLOT];
        int seq[N_SEQ], n[N_SEQ];
        more = false;
        batch_clear(b);
        for (int i = 0; i < N_SLOT; i++) free_slot[i] = true;
        for (int s = 0; s < N_SEQ; s++)
            if (t->at[s] >= 0) free_slot[t->at[s]] = false;
        for (int s = 0; s < N_SEQ; s++) {
            const int left = LEN - t->n_done[s];
            if (left == 0 || (max < LEN && rng_below(&t->rng, 4) == 0)) continue;
            seq[b->n_seq] = s;
            n[b->n_seq] = max < LEN ? 1 + (int)rng_below(&t->rng, (uint64_t)max) : max;
            if (n[b->n_seq] > left) n[b->n_seq] = left;
            add_rows(t, all, s, n[b->n_seq], free_slot);
        }
        for (int op = 0; op < N_OP; op++) {
            const int width = compute(t, op);
            for (int i = 0; i < b->n_seq; i++)
                for (int r = 0; r < n[i]; r++)
                    memcpy(out->y[op][seq[i] * LEN + t->n_done[seq[i]] + r],
                           t->y + (b->row0[i] + r) * width, (size_t)width * sizeof *t->y);
        }
        for (int i = 0; i < b->n_seq; i++) {
            t->n_done[seq[i]] += n[i];
            t->at[seq[i]] = b->state_out[b->row0[i + 1] - 1];
        }
        for (int s = 0; s < N_SEQ; s++) more |= t->n_done[s] < LEN;
    }
}

static void fill(float *x, int n, float low, float high, uint64_t *rng)
{
    for (int i = 0; i < n; i++) x[i] = low + (high - low) * rng_float(rng);
}

static void fill_texts(struct texts *t, uint64_t *rng)
{
    for (int k = 0; k < N_INPUT; k++) {
        const bool share = k == BETA || k == DECAY || k == CHANNELS || k == BETA_WIDE;
        fill(t->in[k], ROWS * width_of[k], share ? 0 : -1, 1, rng);
    }
    fill(t->w, N_TAP * N_COLUMN, -1, 1, rng), fill(t->bias, N_COLUMN, -1, 1, rng);
    fill(t->a, D_K * WIDE, -4, 0, rng), fill(t->skip, WIDE, -1, 1, rng);
}

static bool steps_open(struct steps *t, const struct texts *all, const char *level, int n_thread)
{
    struct err e;
    const struct batch_limits l = {.n_row = ROWS,
                                   .n_seq = N_SEQ,
                                   .page_stride = 1,
                                   .n_copy = 1,
                                   .n_out = 1,
                                   .n_state = N_SLOT};
    t->in = *all; /* weights; rows are replaced */
    for (size_t i = 0; i < sizeof t->state / sizeof(float); i++) (&t->state[0][0][0])[i] = NAN;
    return backend_open(&t->b, "cpu",
                        &(struct backend_options){.cpu_level = level, .n_thread = n_thread},
                        &e) == 0 &&
           batch_open(&t->batch, &l, &e) == 0;
}

TEST(recurrent_ops_do_not_depend_on_steps_and_batches)
{
    struct steps *t = calloc(1, sizeof *t);
    struct texts *all = calloc(1, sizeof *all);
    struct results *want = calloc(1, sizeof *want), *got = calloc(1, sizeof *got);
    uint64_t rng = 5;
    NEED(t && all && want && got);
    fill_texts(all, &rng);
    int n_level = 0;
    for (const char *const *level = kern_levels(); *level; level++, n_level++)
        for (int i = 0; i < 4; i++) {
            t->rng = (uint64_t)i + 1;
            NEED(steps_open(t, all, *level, 1 + i % 3));
            run_texts(t, all, n_level + i ? got : want, i ? 2 * i : LEN);
            if (n_level + i) EXPECT_BITS(want, got, sizeof *want);
            batch_close(&t->batch);
            backend_close(t->b);
        }
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < N_COLUMN; c++) {
            double sum = 0;
            for (int i = 0; i < N_TAP; i++)
                if (row % LEN + 1 - N_TAP + i >= 0)
                    sum += (double)all->w[i * N_COLUMN + c] *
                           (double)all->in[CONV][(row + 1 - N_TAP + i) * N_COLUMN + c];
            EXPECT(fabs((double)want->y[0][row][c] - sum) <= 1e-6);
            if (c < 7) continue;
            sum += (double)all->bias[c];
            EXPECT(fabs((double)want->y[1][row][c - 7] - sum / (1 + exp(-sum))) <= 2e-6);
        }
    free(t), free(all), free(want), free(got);
}
