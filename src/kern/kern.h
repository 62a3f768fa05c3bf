/* kern.h - the arithmetic of every op: single-threaded loops over plain pointers.
 *
 * struct kern is a table of these loops. kern_open fills it level by level, slowest first. Level
 * ref is complete and is the specification. Every other level gives the same bits (docs/design.md
 * 5). Kernels never allocate, lock, log or fail. Kernels use only the operations + - * / fma sqrt.
 * This comment defines the order of horizontal sums. Any thread in the canonical float mode
 * (cpu_float_canonical) may call a kernel.
 *
 * The canonical orders:
 *
 *   linear, quantized weights x int8 activations: C = 0; k in groups of 256; the last group may be
 *   shorter
 *       per group ascending:  T = qtype dot_group (quant.h);  C = fma(T, act_scale, C)
 *       NF4_64, FP4_64: isum with the integers of types.def, w_scale = scale * f32(1 / 8191)
 *   linear, float arithmetic (any weight type x f32 activations: weights decoded exactly)
 *       per group of 256:  T = 0; per k ascending: T = fma(w, x, T);   C = C + T
 *   linear, BF16 weights x bf16 activations
 *       C = 0; per block of 32, the last block padded with zeros:  E = O = 0; per pair ascending:
 *       E = fma(w, x, E) of its first, O = fma(w, x, O) of its second k;   C = C + (E + O)
 *       all subnormal operands and results are flushed to zero, as by the x86 instruction tdpbf16ps
 *       (verified on 20 million results) and by vfmadd with FTZ and DAZ
 *   linear, E4M3_128 weights x bf16 activations
 *       C = 0;  per block of 128:  T = 0; per 32 k: T = T + (E + O) of the codes' values, as above;
 *       C = fma(T, scale, C), subnormals flushed
 *   then the bias: C + bias
 *
 *   rms_norm   sum of squares in 16 lanes (i mod 16) by fma, lanes reduced by the tree +8 +4 +2 +1;
 *              r = 1 / sqrt(sum / n + eps);  y = (x * r) * g
 *   layer_norm sum of x in 16 lanes and the tree;  d = x - sum / n;  r as above from d;
 *              y = (d * r) * g, then + bias
 *   attention  see struct attn_rows and docs/design.md 5 */
#ifndef QUOTH_KERN_H
#define QUOTH_KERN_H

#include "base/err.h"
#include "base/pool.h"
#include "bias.h"
#include "curve.h"
#include "quant/quant.h"
#include "scan.h"

enum {
    PANEL = 16,      /* output rows of a panel                   */
    ACT_GROUP = 256, /* k values that share one activation scale */
};

/* Type of activations in a linear layer. */
enum act_type { ACT_F32, ACT_BF16, ACT_Q8, ACT_COUNT };

/* number of logits that share a block maximum and a partial sum */
enum { ROW_BLOCK = 64 };

/* ---- weights: panels of 16 output rows (panel.c draws the layouts) ---- */

/* A weight, packed. The data is borrowed from the packed weights. */
struct panels {
    enum qtype type;
    /* numbers of output rows and columns; rows of the last panel past n_out are zeros */
    int n_out, k;
    int64_t stride;      /* bytes of one panel */
    const uint8_t *data; /* [ceil(n_out / 16)] panels, 64-byte aligned */
};

/* Version of the panels' layouts. Raise the version with every change of panel_pack's output,
 * because packed weights are stored on disk. */
enum { PANEL_LAYOUT = 2 };

/* Return the number of bytes of one panel with k columns. */
int64_t panel_bytes(enum qtype t, int k);
/* Return the number of panels of a matrix of n_out rows. */
static inline int panel_count(int n_out)
{
    return (n_out + PANEL - 1) / PANEL;
}
/* Write panels [first, first + n) of `w` from its published rows, row_bytes apart. The data of `w`
 * begins at `to`. Packing is lossless. Any thread; panels are independent. */
void panel_pack(uint8_t *to, const struct panels *w, const uint8_t *rows, int64_t row_bytes,
                int first, int n);
/* Write the values of output row r to y f32 [k], equal to qtype_ops.decode. */
void panel_row(float *y, const struct panels *w, int r);

/* ---- activations of one linear layer, converted once for all its outputs ---- */

/* Activations [n_row, k] in the layout of their type. The caller owns the three arrays, which are
 * borrowed. */
struct act {
    enum act_type type;
    int n_row, k;
    /*   ACT_F32   f32  [ceil(k / 256), n_row, 256]     past k: zeros
     *   ACT_BF16  bf16 [ceil(k / 256), n_row, 256]     past k: zeros
     *   ACT_Q8    int8 [ceil(k / 64), n_row, 64]       past k: zeros */
    void *x;
    float *scale; /* ACT_Q8: f32 [ceil(k / 256), n_row] */
    int16_t *sum; /* ACT_Q8: [ceil(k / 32), n_row, 2] sums of 16 values each */
};
/* Return the number of bytes of `x`. The caller allocates x, scale and sum 64-byte aligned. */
size_t act_x_bytes(enum act_type t, int n_row, int k);
/* Return the number of bytes of `scale`. */
size_t act_scale_bytes(int n_row, int k);
/* Return the number of bytes of `sum`. */
size_t act_sum_bytes(int n_row, int k);

/* Return the part of `a` that begins at row `row` and value k0 (a multiple of 256), with k values.
 * Row i of the part is row `row` + i of `a`. The n_row of the part is the n_row of `a`. */
struct act act_part(const struct act *a, int row, int k0, int k);

/* ---- results of a linear kernel ---- */

/* Place of the results. Pointers are borrowed for the call. */
struct linear_out {
    float *y; /* f32: output r of row i at y[i * stride + r] */
    int64_t stride;
    const float *bias; /* f32 [n_out], y = C + bias; NULL: no bias */
    bool add;          /* true: y = y_before + y */
};

/* Rows of x per call. Every kernel supports at least LINEAR_ROWS. No kernel supports more than
 * LINEAR_ROWS_MAX (struct kern, linear_rows). */
enum { LINEAR_ROWS = 64, LINEAR_ROWS_MAX = 128 };

/* Compute outputs of panels [panel, panel + n_panel) of w for rows [row, row + n_row) of x. n_row
 * <= linear_rows. No other output is written. */
typedef void linear_fn(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                       const struct act *x, int row, int n_row);

/* ---- attention ----
 *
 * Query rows that share a KV head are some rows of the batch, each with the heads of its group.
 * The rows use K and V of the head in blocks of four sub-tiles of 16 positions. Each row has its
 * own state, so the rows of a block do not affect each other. k and v are the stored values as f32
 * (KV_Q8: the integers without their scales). A row attends to the positions [from, to) of a block.
 * The state of a row is unchanged if the row attends to no position. Per row and block:
 *
 *   s[i] = fma chain over d ascending from 0 of q[d], k[d][i]
 *   KV_Q8:    s[i] = s[i] * k_scale[i]
 *   softcap:  s[i] = softcap * tanh(s[i] * (1 / softcap))
 *   slope:    s[i] = fma(slope, (float)(position - pos), s[i])
 *   bias:     s[i] = fma(bias[distance], ATTN_UNIT, s[i]), distance = position - pos, clamped to
 *             [-reach, reach]
 *   top = maximum of m and s[i];  if it is larger than m: l and o times 2^(m - top), m = top
 *   p[i] = 2^(s[i] - m);  l[i mod 16] += p[i], i ascending
 *   KV_Q8:    p[i] = p[i] * v_scale[i]
 *   o[d] = fma(p[i], v[i][d], o[d]), i ascending
 *
 * In these formulas 2^(x - m) is 2^x if m is -inf, and 2^x of x < -100 is 0 (exp2_weight of
 * kern_impl.h). Scores are in units of ln 2. q is multiplied in advance by f32(scale * ATTN_UNIT),
 * and softcap, slopes and sinks by ATTN_UNIT. Scores then need no multiplication. K and V of
 * positions to which a row does not attend never affect the row. A row with a NaN score has NaN
 * outputs. After 512 positions, the span's l and o are merged into the row's total (attn_merge). */
enum {
    ATTN_TILE = 16, /* positions of a sub-tile */
    ATTN_TILES = 4,
    ATTN_BLOCK = ATTN_TILES * ATTN_TILE, /* positions per kernel call */
    ATTN_SPAN = 512,                     /* positions after which partial sums are merged */
};
#define ATTN_UNIT 0x1.715476p0f /* log2 e: converts units of 1 to units of ln 2 */

/* Return n rounded up to whole sub-tiles: the distance in floats of rows of V and of o. */
static inline int attn_stride(int n)
{
    return (n + ATTN_TILE - 1) / ATTN_TILE * ATTN_TILE;
}

/* K and V of a block, in pages or widened to KV_F32. Any sub-tile of the same shape may replace a
 * sub-tile without a visible position. Kernels may read the replacement, but it never affects a
 * result. All pointers are borrowed for the call. */
struct attn_kv {
    enum kv_type type;
    /* of each sub-tile: [d_k, 16] and [16, attn_stride(d_v)] */
    const void *k[ATTN_TILES], *v[ATTN_TILES];
    /* [16], NULL if not KV_Q8 */
    const float *k_scale[ATTN_TILES], *v_scale[ATTN_TILES];
    /* Addresses of data to prefetch, as many bytes as k and v have. Any address is valid. NULL:
     * values are KV_F32 and already in the cache. */
    const void *k_ahead[ATTN_TILES], *v_ahead[ATTN_TILES];
};

/* Query rows with their state within a span. All arrays are 64-byte aligned. The arrays are
 * borrowed for the call. */
struct attn_rows {
    int n_row, d_k, d_v;
    float softcap;            /* softcap in units of ln 2; 0: no softcap */
    const float *q;           /* scaled; f32 [ceil(n_row / attn_tile_rows), d_k, attn_tile_rows] */
    const int32_t *from, *to; /* [n_row] the row attends to positions [from, to) */
    const int32_t *pos;       /* [n_row] position of the row; read only with slope or bias */
    const float *slope;       /* [n_row] ALiBi in units of ln 2; NULL if none */
    float *m;                 /* [n_row, rounded up to 16] running maximum, initially -inf */
    float *l;                 /* [n_row, 16] row sums, lane = position mod 16, initially 0 */
    float *o;                 /* [n_row, attn_stride(d_v)] weighted sums of V, initially 0 */
    const float *bias;        /* tables of the heads, [n, bias_floats(bias_reach)]; NULL if none */
    const int32_t *head;      /* [n_row] head of the row, read only with bias */
    int bias_reach;
};

/* ---- recurrent layers ---- */

/* One row of a recurrence over a state s f32 [d_k, d_v]. Each column of the state has its own order
 * of operations, in which i ascends over the rows of the state:
 *
 *   DELTA    m = 0; per i: s[i] = s[i] * decay[i], m = fma(s[i], k[i], m)
 *            u = (v - m) * beta;  y = 0; per i: s[i] = fma(k[i], u, s[i]), y = fma(s[i], q[i], y)
 *   HEADS    u = v * beta;  y = 0
 *            per i: s[i] = fma(k[i], u, s[i] * decay[i]), y = fma(s[i], q[i], y)
 *            then y = fma(skip, v, y)
 *   COLUMNS  as HEADS with the column's own beta, and exp(beta * a[i]) for decay[i]
 *   WKV      s[0], s[1] are the sums of weighted values and of weights, in units of exp(s[2]).
 *            s[1] is 0 before the first row, otherwise at least 1. With k, decay and skip of the
 *            column:
 *            t = s[1] > 0 ? s[2] : -1e38;  m = larger of t and k + skip
 *            y = fma(exp(t - m), s[0], exp(k + skip - m) * v)
 *                / fma(exp(t - m), s[1], exp(k + skip - m))
 *            m = larger of t + decay and k;  a = exp(t + decay - m), b = exp(k - m)
 *            s[0] = fma(a, s[0], b * v), s[1] = fma(a, s[1], b), s[2] = m
 *   WKV_HEADS  y = 0;  per i: u = k[i] * v, y = fma(fma(skip[i], u, s[i]), q[i], y),
 *            s[i] = fma(s[i], decay[i], u)
 *   WKV_DELTA  m = 0; per i: m = fma(s[i], a[i], m)
 *            y = 0; per i: s[i] = fma(k[i], v, fma(b[i], m, s[i] * decay[i])),
 *            y = fma(s[i], q[i], y)
 *
 * All pointers are borrowed for the call. No two arrays overlap. */
struct scan_row {
    float *y;           /* f32 [d_v] */
    float *s;           /* f32 [d_k, s_row], of which d_v columns are used; overwritten */
    const float *q, *k; /* f32 [d_k]; WKV: k is f32 [d_v], q is not read */
    const float *v;     /* f32 [d_v] */
    /* f32 [d_k], or [1] if decay_step is 0; not read by COLUMNS; WKV: f32 [d_v] */
    const float *decay;
    const float *beta; /* f32 [1]; COLUMNS: f32 [d_v]; not read by WKV, WKV_HEADS, WKV_DELTA */
    const float *a;    /* COLUMNS: f32 [d_k, s_row]; WKV_DELTA: f32 [d_k] */
    const float *b;    /* WKV_DELTA: f32 [d_k] */
    /* f32 [1]; COLUMNS: f32 [d_v]; NULL: no skip. WKV: f32 [d_v]; WKV_HEADS: f32 [d_k] */
    const float *skip;
    int decay_step; /* 1: decay has a value per row of the state; 0: one value */
    int d_k, d_v;
    int64_t s_row; /* distance of the rows of s and a, in values */
};

/* The table of loops. All pointers are static. The table is constant after kern_open, so any thread
 * may use it. */
struct kern {
    const char *name; /* name of the level: "ref", "avx2", ... */

    /* [act][weight type]; NULL if the pair does not exist: ACT_Q8 requires qtype_takes_int8,
     * ACT_BF16 requires qtype_takes_bf16 */
    linear_fn *linear[ACT_COUNT][QT_COUNT];
    int linear_rows[ACT_COUNT]; /* maximum rows per call */

    /* Convert x f32 [k] to row `row` of a:
     *   ACT_F32   copied
     *   ACT_BF16  rounded to nearest even, subnormals to zero (as vcvtneps2bf16)
     *   ACT_Q8    in groups of 256: scale = amax / 127, q = rint(x * (127 / amax)), to nearest
     *             even. A group whose amax is below 2^-120 has scale 0 and q 0. A group with a NaN
     *             or infinity has scale NaN and q 0. The outputs of a group with scale NaN are
     *             NaN. */
    void (*act[ACT_COUNT])(const struct act *a, int row, const float *x);

    /* ---- elementwise ops, norms, rope: any length, any alignment; y may be x ---- */

    /* Normalize x f32 [n_row, n] to y f32 [n_row, n], with g f32 [n]: y = (x * r) * g. r is 1 /
     * sqrt(mean of x^2 + eps). */
    void (*rms_norm)(float *y, const float *x, const float *g, int n_row, int n, float eps);
    /* Set y f32 [n_row, n] to (x - mean) / sqrt(variance + eps) * g + bias, per row. x is f32
     * [n_row, n]. g is f32 [n]. bias is f32 [n]; NULL if none. */
    void (*layer_norm)(float *y, const float *x, const float *g, const float *bias, int n_row,
                       int n, float eps);
    void (*add)(float *y, const float *x, int n); /* add x f32 [n] to y f32 [n] */
    /* Compute y f32 [n] = f(x) of x f32 [n], for each function f of curves.def. */
    void (*curve[CURVE_COUNT])(float *y, const float *x, int n);
    /* Compute y f32 [n] = f(gate) * up of gate and up f32 [n]. */
    void (*curve_mul[CURVE_COUNT])(float *y, const float *gate, const float *up, int n);

    /* ---- recurrent layers: each column is a lane, and has the order of struct scan_row ---- */

    /* Compute y f32 [n], one row of a causal convolution of each column. x has n_tap rows f32 [n],
     * the oldest row first. w is f32 [n_tap, w_row], bias f32 [n]; NULL: 0. y = bias; per tap i
     * ascending: y = fma(w[i], x[i], y). y overlaps no row of x. */
    void (*conv_row)(float *y, const float *const *x, const float *w, int64_t w_row,
                     const float *bias, int n_tap, int n);
    /* Compute a row of a recurrence, for each kind (struct scan_row). */
    void (*scan_row[SCAN_COUNT])(const struct scan_row *r);

    /* Rotate the first d_rot values of each head of x f32 [n_head, d_head] in place. cos and sin
     * are f32 [d_rot / 2]. Pairs (a, b) are (i, i + d_rot/2) if neox, otherwise (2i, 2i+1). a
     * becomes fma(-b, sin, a * cos), and b becomes fma(a, sin, b * cos). */
    void (*rope)(float *x, int n_head, int d_head, const float *cos, const float *sin, int d_rot,
                 bool neox);

    /* Compute the softmax y f32 [n] of x f32 [n]: y = p / (sum of p). p is exp(x - max x). The sum
     * has 16 lanes (i mod 16), then the tree. At least one x is finite, and no x is NaN. */
    void (*softmax)(float *y, const float *x, int n);

    /* Convert x [n] to y [n], like f16_of_f32 and similar functions of quant.h. */
    void (*to_f16)(uint16_t *y, const float *x, int n);  /* f32 to f16 */
    void (*to_bf16)(uint16_t *y, const float *x, int n); /* f32 to bf16 */
    void (*of_f16)(float *y, const uint16_t *x, int n);  /* f16 to f32 */
    void (*of_bf16)(float *y, const uint16_t *x, int n); /* bf16 to f32 */

    /* ---- rows of logits, for src/sample, in blocks of ROW_BLOCK values. The last block may be
     * shorter. A NaN is treated as -inf (forbidden), and +inf is treated as FLT_MAX. ---- */

    /* Write the maxima of the blocks of x f32 [n] to block_max f32 [ceil(n / 64)]. Return the
     * maximum of all x. */
    float (*row_max)(float *block_max, const float *x, int n);

    /* Write x f32 [n] to y f32 [n], with -inf for each x[i] whose bit i of mask u32 [ceil(n / 32)]
     * is 0. */
    void (*row_mask)(float *y, const float *x, const uint32_t *mask, int n);

    /* Compute w f32 [n] = exp((x - max) * scale) of x f32 [n]. scale is in (0, FLT_MAX]. max is at
     * least as large as every x, and FLT_MAX if an x is +inf. w of a forbidden x is 0. Write w to
     * weight f32 [n] if weight is not NULL. Write the blocks' sums to block_sum f32 [ceil(n / 64)].
     * A block is summed in 16 lanes (i mod 16), ascending, then by the tree. Return the sum of the
     * block sums, ascending, in double. */
    double (*row_exp)(float *weight, float *block_sum, const float *x, int n, float max,
                      float scale);

    /* Find all values in [lo, hi) of x f32 [n]. lo is at least -FLT_MAX. Write the indices to index
     * i32 and the values to value f32, by ascending index. Return the number of values.
     * index and value have room for n + 16 items, which may all be overwritten. value may be x.
     * Blocks with a maximum (block_max f32 [ceil(n / 64)]) below lo are not read. */
    int (*row_find)(int32_t *index, float *value, const float *x, const float *block_max, int n,
                    float lo, float hi);

    /* Set *n_above to the number of values >= floor of x f32 [n]. Return the sum of the weights of
     * these values, in the order of row_exp. w f32 [n] are the weights, each >= 0; NULL: weights of
     * 1. A lower floor never gives a lower sum. */
    double (*row_mass)(const float *w, const float *x, int n, float floor, int *n_above);

    /* Return the sum of (a - p) * (b - q) of a and b f32 [n], by fma in the lanes of row_exp.
     * Return the sum of a - p if b is NULL. The differences a - p and b - q are clamped to +-2^60
     * to prevent overflow. No difference is NaN. */
    double (*row_product)(const float *a, float p, const float *b, float q, int n);

    /* Compute one block: positions [pos0, pos0 + 64). pos0 is a multiple of 64. */
    void (*attn_block)(const struct attn_rows *a, const struct attn_kv *kv, int pos0);
    /* maximum number of rows that use K and V as stored. For more rows, widening K and V first is
     * faster. */
    int attn_rows_narrow;
    int attn_tile_rows; /* number of interleaved query rows, at most 8 */

    /* Merge a span (span_m, span_l f32 [16], span_o f32 [attn_stride(d_v)]) into the total (m, l,
     * out f32 [d_v]). The total begins as m = -inf, l = 0, out = 0. top is the larger of the two
     * maxima, a = 2^(total's m - top), b = 2^(span's m - top). Then l = fma(tree(span's l), b, l *
     * a), out[d] = fma(o[d], b, out[d] * a), m = top. Only spans with a visible position are
     * merged. An attention sink is merged last, as a span with m = the sink, l = 1 in lane 0, o =
     * 0. 2^(x - top) is 2^x if top is -inf. */
    void (*attn_merge)(float *m, float *l, float *out, const float *span_m, const float *span_l,
                       const float *span_o, int d_v);
    /* Write y f32 [d_v] = out * (1 / l) of out f32 [d_v]. y has zeros if l is 0 (no visible
     * position). */
    void (*attn_finish)(float *y, const float *out, float l, int d_v);

    /* Widen n rows x [n, d] of the type to y f32 [n, attn_stride(d)], with zeros after d. A panel
     * of K is d rows of 16. Also prefetch as many bytes at `ahead`, which may be any address. */
    void (*kv_get[KV_TYPE_COUNT])(float *y, const void *x, int n, int d, const void *ahead);
    /* Transpose x f32 [d, 16] to y f32 [16, attn_stride(d)], with zeros after d. */
    void (*kv_turn)(float *y, const float *x, int d);
    /* Convert x f32 [n] to y of the type, rounded as in quant.h. FP8 saturates. Return the scale,
     * which is 1 except for KV_Q8. The scale of KV_Q8 is amax / 127, and y is rint(x * (1 /
     * scale)). y and the scale are 0 if amax < 2^-120. y is 0 and the scale is NaN if x has a NaN
     * or infinity. */
    float (*kv_put[KV_TYPE_COUNT])(void *y, const float *x, int n);
};

/* Fill the table with the best level of this machine, or with `level` ("ref", "avx2", ...; NULL:
 * best). Return ERR_ARG, with a list of the available levels, if `level` is unknown or not
 * supported here. */
int kern_open(struct kern *k, const char *level, struct err *e);

/* Return the names of the levels that this machine supports, slowest first, NULL-terminated. The
 * array is borrowed until the next call of this thread. */
const char *const *kern_levels(void);

/* Return exp(x) as computed by every level: |error| < 1 ulp, exp(0) = 1, exp(-inf) = 0, exp(NaN) is
 * NaN. */
float kern_exp(float x);

/* ---- peak.c: limits of the machine, by measuring loops ---- */

/* Execute n rounds of one instruction on registers. Return the number of operations, 2 per
 * multiply-add. */
typedef double peak_fn(int n);

/* The measuring loops of a level. All pointers are static. */
struct peak {
    const char *name; /* name of the level */
    /* Read n_byte (a multiple of 4096) from data (aligned to 64). */
    void (*read)(const void *data, size_t n_byte);
    /* names of the level's instructions; NULL if the level lacks the instruction */
    const char *int8_name, *bf16_name, *f32_name;
    peak_fn *int8, *bf16, *f32;
};

/* Arithmetic of a linear layer's products. */
enum arith { ARITH_INT8, ARITH_BF16, ARITH_F32, N_ARITH };
extern const char *const arith_name[N_ARITH];
/* Return the loop; NULL if the level lacks the instruction. */
peak_fn *arith_peak(const struct peak *p, enum arith k);

/* Return the loop of the fastest level up to `level`; NULL if no level has the instructions. */
peak_fn *peak_fastest(const char *level, enum arith k);

/* List the peak loops that this machine supports, slowest first. Return the number of loops, at
 * most n_max. The structs are static. */
int peak_list(const struct peak **out, int n_max);

/* Return the number of operations per second of all threads of the pool together, measured for `us`
 * microseconds. */
double peak_rate(struct pool *p, peak_fn *fn, int us);
/* Commit data[n_byte], in pieces of 1 MiB by the threads of the pool. n_byte is a multiple of that
 * size. */
void peak_touch(struct pool *p, uint8_t *data, size_t n_byte);
/* Return the number of bytes per second that all threads read with the widest loads. The threads
 * read the data (aligned as in struct peak) repeatedly in chunks of about 64 kB, as in decoding.
 * The result is the memory's bandwidth if n_byte is much larger than the caches. */
double peak_bandwidth(struct pool *p, const void *data, size_t n_byte, int us);

#endif
