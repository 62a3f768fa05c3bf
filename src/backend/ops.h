/* ops.h - tensors, and the table of ops that a device executes on tensors. This file is part of
 * backend.h.
 *
 * Pointers to values point to device memory, unless the comment has "on the host". Device memory is
 * memory from op->alloc, a weight, or an array of the batch that op->begin returned. Only ops
 * access device memory. One thread at a time calls ops: the loading thread, then the engine's
 * thread. */
#ifndef QUOTH_BACKEND_OPS_H
#define QUOTH_BACKEND_OPS_H

#include "batch.h"
#include "published.h"

#include "kern/bias.h"
#include "kern/curve.h"
#include "kern/scan.h"
#include "quant/quant.h"

#include "base/progress.h"

struct filecache;

/* ---- tensors ---- */

/* A weight: a matrix of n_out rows of k values of one type, or n_expert matrices of this shape in a
 * mixture. */
struct tensor {
    enum qtype type;
    int64_t n_out, k;
    int n_expert; /* number of matrices of a mixture; 0: one matrix */
    /* [n_expert or 1] published form of each matrix, borrowed. Only op->weights reads the published
     * form. NULL: all rows are contiguous at data. Otherwise data is part 0 of the first matrix. */
    const struct published *from;
    /* rows of the checkpoint, borrowed; op->weights replaces them by the device's form */
    const uint8_t *data;
    const char *name; /* name of the tensor, borrowed; NULL: no name */
    int number;       /* number of the matrix in its model; only the model uses it */
    bool is_table;    /* true: rows are looked up, not multiplied */
    bool routed;      /* true: a mixture's matrices, of which a row uses some */
    bool joined;      /* true: the op's bias contains a parameter that the layer adds later */
};

struct weights; /* memory of a model's tensors on a device; opaque */

/* Cache for the device's form of a model's weights. All zero: no cache. All pointers are borrowed
 * for the call of weights or weights_verify. */
struct weights_options {
    /* folder of cached files; NULL: no cache */
    const struct filecache *cache;
    uint64_t key[2]; /* key that identifies the tensors' published bytes */
    bool own; /* true: copy cached weights into this process's memory instead of mapping them */
    /* limit of the bytes of weights in memory; 0: none. Other weights stay in the cached file, and
     * ops read them (cpu/resident.c). Needs a cache. Embeddings are not included */
    int64_t memory;
    progress_fn *progress; /* receiver of progress reports; NULL: no reports */
    void *ctx;             /* argument of progress */
};

/* Source of the weights. PACKED: packed in memory. KEPT: packed into a cache file. MAPPED: mapped
 * from the cache. COPIED: copied from the cache into memory. */
enum weights_how { WEIGHTS_PACKED, WEIGHTS_KEPT, WEIGHTS_MAPPED, WEIGHTS_COPIED };
struct weights_info {
    enum weights_how how;
    int64_t n_byte; /* size of the device's form, or weights_options.memory if that is less */
    int64_t us;     /* duration in microseconds */
};

/* Figures of a limit of the weights in memory (weights_options.memory). The counts begin at the
 * opening of the weights. A use is that of one matrix by one op. */
struct weights_use {
    int64_t limit;         /* limit in bytes; 0: no limit, and all other figures are 0 */
    int64_t n_byte;        /* bytes of matrices in memory, and of those being read */
    uint64_t n_use, n_hit; /* uses, and uses of matrices that were in memory */
    uint64_t n_routed_use, n_routed_hit; /* those of experts, which n_use and n_hit include */
    uint64_t n_read, n_byte_read;        /* matrices read from the file, and their bytes */
    uint64_t n_drop;                     /* matrices dropped for others */
    uint64_t n_wait;                     /* uses that waited until their matrix was in memory */
    int64_t wait_us;                     /* time of these waits */
};

/* Result of the comparison of a tensor's cached form with a new packing. DAMAGED: the hash of the
 * cached form does not match. */
enum weights_verdict { WEIGHTS_SAME, WEIGHTS_DIFFERENT, WEIGHTS_DAMAGED };

struct linear { /* y = x W^T + b */
    struct tensor w;
    /* f32 [n_out], or f32 [n_expert, n_out] of a mixture, borrowed from the model; NULL: no bias */
    const float *bias;
    /* i32 [k], borrowed from the model: input of each column of w. NULL: input i has column i. A
     * mixture's matrices have no order. */
    const int32_t *order;
};

/* KV memory of one layer: n_page pages, each
 *   K [n_head_kv][page_rows / w][d_k][w]   w = min(16, page_rows): lanes are positions
 *   V [n_head_kv][page_rows][d_v]
 *   with KV_Q8, K and V each followed by their scales f32 [n_head_kv][page_rows] */
struct kv_layer {
    enum kv_type type;
    int page_rows, n_head_kv, d_k, d_v;
    /* true: the values of a position are the first d_v values of its key ("DeepSeek-V2", arXiv
     * 2405.04434). There are no pages of V, and v_page_bytes is 0 */
    bool latent;
    int64_t k_page_bytes, v_page_bytes;
    uint8_t *k, *v; /* pages of K and V, owned by the KV store */
};

struct rope_spec {
    /* even number of rotated values of a head. Values after d_rot are unchanged. */
    int d_rot;
    bool neox;              /* true: pairs (i, i + d_rot/2); false: (2i, 2i+1) */
    int pos_max;            /* number of rows of the tables                       */
    const float *cos, *sin; /* f32 [pos_max, d_rot / 2], borrowed from the model */
};

/* Positions that a row attends to, if batch.source divides its sequence. The positions are ALL
 * (encoders), the SOURCE, or the TARGET after the source. Only with SOURCE or n_later, a row
 * attends to positions after its own position. Without a source, all positions are the target. */
enum attn_part { ATTN_ALL, ATTN_SOURCE, ATTN_TARGET };

/* Form of a layer's attention. Pointers are borrowed from the model. */
struct attn_spec {
    enum attn_part part;
    int n_head, n_head_kv, d_k, d_v;
    float scale;
    /* number of visible positions, including the row's position; 0: all earlier positions */
    int window;
    /* chunk of positions: a row attends to positions of its own chunk, position / chunk; 0: no
     * chunks. Not together with a window */
    int chunk;
    /* number of visible later positions, up to the end of the sequence; 0 if none (causal) */
    int n_later;
    float softcap; /* scores become softcap * tanh(score / softcap); 0: unchanged */
    /* f32 [n_head] ALiBi, adds slope * (position - row's position); NULL if none */
    const float *slope;
    /* f32 [n_head] score of a key without a value in the softmax; NULL if none */
    const float *sink;
    /* f32 [n_head, bias_floats(bias_reach)] biases by distance (kern/bias.h), added to the scores;
     * NULL if none */
    const float *bias;
    int bias_reach;
};

/* ---- arguments of fused ops ---- */

/* Input x f32 [n_row, k], or rms_norm of x with g f32 [k] if g is not NULL. A norm that is computed
 * separately is written to h f32 [n_row, k]. h may be NULL if g is NULL. All pointers are borrowed
 * for the op. */
struct input {
    const float *x, *g;
    float eps;
    float *h;
};

/* Output y f32 [n_row, n_out] of a linear layer. Pointers are borrowed for the op. */
struct output {
    const struct linear *l;
    float *y;
};
enum { OUTPUTS_MAX = 4 };

/* A gated feed-forward block of x f32 [n_row, k]: down(curve(gate x) * up x). All pointers are
 * borrowed for the op. */
struct glu {
    const struct linear *gate, *up, *down;
    enum curve curve;
    bool add; /* true: add the result to y */
    /* scratch a, b f32 [n_row, gate->n_out], and with add also y f32 [n_row, down->n_out] */
    float *a, *b, *y;
};

/* Scores of experts, computed from the logits of a row. SOFTMAX, SIGMOID: a value of each expert.
 * CHOSEN: the experts are selected by their logits, and their scores are the softmax of the
 * selected logits. CHOSEN_SIGMOID: the experts are selected by their logits, and their scores are
 * the sigmoid of their logits, because two logits may have equal sigmoids in f32. SPARSEMIXER: the
 * experts are selected by their logits. The score of an expert is its share of the softmax over all
 * experts that are not yet selected and whose logits are near the largest ("GRIN", arXiv
 * 2409.12136). */
enum route_score {
    ROUTE_SOFTMAX,
    ROUTE_SIGMOID,
    ROUTE_CHOSEN,
    ROUTE_CHOSEN_SIGMOID,
    ROUTE_SPARSEMIXER
};

/* Rule that selects and weighs the experts of a row. Pointers are borrowed from the model.
 *   1. the scores s of all experts
 *   2. choice: the n_used largest s + bias. Experts of other groups than the n_group_used groups
 *      with the largest scores are not selected
 *   3. weight = s of each selected expert, without the bias
 *   4. weight / max(sum of the weights + sum_add, sum_least), if `normalize` is true
 *   5. weight * factor, then * scale[expert] */
enum { ROUTE_GROUPS_MAX = 64 };
struct route_spec {
    enum route_score score;
    const float *bias; /* f32 [n_expert] addends of the scores, only for the choice; NULL if none */
    /* number of groups of n_expert / n_group consecutive experts, and of groups with selected
     * experts; n_group 0: no groups. At most ROUTE_GROUPS_MAX groups. */
    int n_group, n_group_used;
    /* true: the score of a group is the sum of the two largest s + bias of its experts; false: the
     * largest */
    bool group_pairs;
    bool normalize; /* true: scale a row's weights to sum 1 */
    float sum_add, sum_least;
    float factor;       /* factor of all weights; 0: 1 */
    const float *scale; /* f32 [n_expert] factors of the weights; NULL if none */
    /* SPARSEMIXER: largest relative distance of a logit from the largest logit, in units of the
     * larger of both magnitudes */
    float near;
    /* true: the weights are factors of the experts' inputs (weigh), and combine adds the results
     * without weights */
    bool weighs_input;
};

/* Assignment of a batch's rows to a mixture's experts. An entry is a row with one of its experts.
 * Entries are sorted by expert, then by row. All arrays are on the device, and borrowed for the
 * op. */
struct route {
    int n_expert, n_used; /* n_used: experts per row */
    struct route_spec spec;
    int32_t *expert; /* [n_row, n_used] ascending within a row    */
    float *weight;   /* [n_row, n_used] weights of the experts    */
    int32_t *entry;  /* [n_row, n_used] entry number              */
    int32_t *row;    /* [n_row * n_used] row of each entry        */
    int32_t *first;  /* [n_expert + 1] first entry of each expert */
};

/* Normalize and rotate each head of q f32 [n_row, n_head, d_k] and k f32 [n_row, n_head_kv, d_k] in
 * place, then store k and v. There is no norm if q_norm and k_norm are NULL, and no rotation if
 * rope is NULL. All pointers are borrowed for the op. */
struct rope_put {
    float *q, *k;
    const float *v; /* f32 [n_row, n_head_kv, d_v] */
    int n_head;
    const float *q_norm, *k_norm; /* f32 [d_k] */
    float eps;
    const struct rope_spec *rope;
    const struct kv_layer *kv;
    const int32_t *pos, *slot; /* [n_row] row of the rope's tables, and slot of each row */
};

/* A copy of columns between arrays of different shapes: n values of each of n_part parts of a row.
 * The distances between rows and between parts are in values. */
struct columns {
    int n_part, n;
    int64_t y_row, y_part;
    int64_t x_row, x_part; /* x_part 0: all parts have the same source */
};

/* LayerNorm ("Layer Normalization", arXiv 1607.06450) of each part of a row. All pointers are
 * borrowed for the op. */
struct layer_norm {
    const float *g, *bias; /* f32 [n_part, n]; bias is NULL if none */
    float eps;
    int n_part, n; /* parts of a row, such as heads; values of a part */
};

/* Parameters of a gated unit with limits: (clamp(up, -limit, limit) + 1) * g * sigmoid(alpha g)
 * with g = min(gate, limit). A NaN stays. */
struct clamped_glu {
    float alpha, limit;
};

/* Parameters of xIELU ("Deriving Activation Functions Using Integration", arXiv 2411.13010). */
struct xielu {
    float alpha_p, alpha_n, beta, eps; /* alpha: after softplus. alpha_n: with beta. */
};

/* Recurrent state of a layer: f32 values at at + slot * slot_floats, for the slots of the batch.
 * Borrowed from the model. */
struct state_layer {
    float *at;
    int64_t slot_floats;
};

enum { TAPS_MAX = 16 }; /* maximum number of taps of a convolution */

/* A causal convolution of columns [first, first + n). Each column has n_tap weights, for the row
 * and the n_tap - 1 rows of its sequence before it; rows before the start are 0. All pointers are
 * borrowed for the op. */
struct conv {
    const float *x;    /* f32 [n_row, x_row], the address of column `first` in row 0 */
    int64_t x_row;     /* distance of the rows of x, in values */
    const float *w;    /* f32 [n_tap, n_all], the oldest row's weights first */
    const float *bias; /* f32 [n_all]; NULL if none */
    int n_tap;         /* in [2, TAPS_MAX] */
    int64_t n_all, first, n;
    bool curved; /* true: `curve` is applied to the sums */
    enum curve curve;
    struct state_layer state; /* f32 [n_tap - 1, n_all] last rows of x */
};

/* A recurrence over the rows of each sequence (struct scan_row of kern.h has the arithmetic). Head
 * h has a state f32 [d_k, d_v], and uses the q and k of head h % n_head_k if `tiled`, otherwise of
 * head h / (n_head / n_head_k). All pointers are borrowed for the op. */
struct scan {
    enum scan_kind kind;
    int n_head, n_head_k, d_k, d_v;
    bool tiled;
    const float *q, *k; /* f32 [n_row, n_head_k, d_k]; WKV: k is f32 [n_row, d_v], q is NULL */
    const float *v;     /* f32 [n_row, n_head, d_v] */
    /* all kinds except COLUMNS: f32 [n_row, n_head], or [n_row, n_head, d_k] if by_channel. WKV:
     * f32 [d_v]. If same_decay, all rows have the decay of row 0 */
    const float *decay;
    bool by_channel, same_decay;
    const float *beta; /* f32 [n_row, n_head]; COLUMNS: f32 [n_row, d_v]; kinds of WKV: NULL */
    const float *a;    /* COLUMNS: f32 [d_k, d_v]; WKV_DELTA: f32 [n_row, n_head_k, d_k] */
    const float *b;    /* WKV_DELTA: f32 [n_row, n_head_k, d_k] */
    /* f32 [n_head]; COLUMNS and WKV: f32 [d_v]; WKV_HEADS: f32 [n_head, d_k]; NULL if none */
    const float *skip;
    struct state_layer state; /* f32 [n_head, d_k, d_v]; COLUMNS, WKV: one head; WKV: d_k 3 */
};

/* ---- ops ---- */

struct backend;

/* Largest sizes of the arguments of ops. */
struct op_sizes {
    int n_row; /* rows                                                 */
    int64_t k; /* columns of a linear layer                            */
    /* attention: numbers of values of a head and of query heads per KV head; 0 if there is none */
    int d_head, n_group;
    /* limits for begin, borrowed during the call; NULL: no batch follows */
    const struct batch_limits *batch;
};

struct backend_ops {
    const char *name; /* name in backends.def, static */
    void (*close)(struct backend *b);

    /* Allocate device memory, zeroed on first touch. The caller frees the memory by release. Return
     * NULL if memory is exhausted. */
    void *(*alloc)(struct backend *b, size_t n_byte);
    void (*release)(struct backend *b, void *p, size_t n_byte);
    /* Touch memory that is needed soon. The pointer is NULL if memory is present from the start. */
    void (*populate)(struct backend *b, void *p, size_t n_byte);

    /* Convert the tensors to the device's form. After the call, data points to device memory, and
     * ops may use the tensors. Tensors that share data still share the device's form. The op is
     * slow if the form is not cached. o and info may be NULL. The caller owns *out, also after
     * ERR_MEMORY, and calls weights_close after the last op on the tensors. w: NULL is allowed. A
     * cache that cannot be used is not an error. */
    int (*weights)(struct backend *b, struct weights **out, struct tensor *const *tensor, int n,
                   const struct weights_options *o, struct weights_info *info, struct err *e);
    /* Compare the cached form with a new packing. Fill verdict [n]. Remove the cache file if a
     * tensor is not WEIGHTS_SAME. Return ERR_MISSING if there is no cache file, ERR_FORMAT if its
     * head is damaged, ERR_IO if it cannot be mapped, or ERR_MEMORY. */
    int (*weights_verify)(struct backend *b, enum weights_verdict *verdict,
                          struct tensor *const *tensor, int n, const struct weights_options *o,
                          struct err *e);
    void (*weights_close)(struct backend *b, struct weights *w);
    /* Return the figures of the limit of the weights in memory. w: NULL is allowed. Any
     * thread. */
    struct weights_use (*weights_use)(struct backend *b, const struct weights *w);

    /* Allocate scratch for ops of these sizes. Call reserve once, before the first begin and the
     * first op on rows. Return 0 or ERR_MEMORY. */
    int (*reserve)(struct backend *b, const struct op_sizes *s, struct err *e);

    /* Copy n_byte >= 0 bytes between host and device memory, or within device memory. The caller
     * may reuse host memory after read and write return. */
    void (*read)(struct backend *b, void *to, const void *from,
                 size_t n_byte); /* to: on the host */
    void (*write)(struct backend *b, void *to, const void *from,
                  size_t n_byte); /* from: on the host */
    /* Copy memory without overlap. */
    void (*copy)(struct backend *b, void *to, const void *from, size_t n_byte);

    /* Transfer a batch. Return the batch with arrays for ops: pos, slot, token, out_row and attn's
     * batch. `batch` is on the host. The caller must not change `batch` before a read that follows
     * the step's last op. The result is valid until the next begin. */
    const struct batch *(*begin)(struct backend *b, const struct batch *batch);

    /* Set row i of y f32 [n_row, w->k] to row token[i] of w; token i32 [n_row]. The row is zero if
     * the token is outside [0, w->n_out). */
    void (*embed)(struct backend *b, float *y, const struct tensor *w, const int32_t *token,
                  int n_row);
    /* Normalize the rows of x f32 [n_row, n] with g f32 [n], to y f32 [n_row, n]. y may be x. */
    void (*rms_norm)(struct backend *b, float *y, const float *x, const float *g, int n_row, int n,
                     float eps);
    /* Normalize parts of rows: y, x f32 [n_row, n_part, n]. y may be x. */
    void (*layer_norm)(struct backend *b, float *y, const float *x, const struct layer_norm *norm,
                       int n_row);
    /* Compute y f32 [n_row, n_out] = x f32 [n_row, k] W^T + bias. */
    void (*linear)(struct backend *b, float *y, const struct linear *l, const float *x, int n_row);
    /* Rotate x f32 [n_row, n_head, d_head] in place, by rows pos i32 [n_row] of the tables. x may
     * be the address of a later value of the first head. In this case each head is rotated from
     * this value on. */
    void (*rope)(struct backend *b, float *x, int n_head, int d_head, const int32_t *pos, int n_row,
                 const struct rope_spec *spec);
    /* Store k f32 [n_row, n_head_kv, d_k] and v f32 [n_row, n_head_kv, d_v] at slot i32 [n_row]. v
     * is not read if kv->latent. */
    void (*kv_put)(struct backend *b, const struct kv_layer *kv, const float *k, const float *v,
                   const int32_t *slot, int n_row);
    /* Compute y f32 [n_row, n_head, d_v], the attention of q f32 [n_row, n_head, d_k] over the
     * pages of batch. */
    void (*attn)(struct backend *b, float *y, const float *q, const struct kv_layer *kv,
                 const struct batch *batch, const struct attn_spec *spec);
    /* Compute y f32 [n] = curve(gate) * up; gate, up f32 [n]. y may be gate. */
    void (*curve_mul)(struct backend *b, float *y, const float *gate, const float *up, int64_t n,
                      enum curve curve);
    /* Replace y f32 [n] by curve(y). */
    void (*curve)(struct backend *b, float *y, int64_t n, enum curve curve);
    /* Replace y f32 [n] by alpha_p y^2 + beta y if y > 0, otherwise by (expm1(min(y, eps)) - y)
     * alpha_n + beta y. */
    void (*xielu)(struct backend *b, float *y, int64_t n, const struct xielu *p);
    /* Replace gate f32 [n] by the gated unit of gate and up f32 [n]. */
    void (*clamped_glu)(struct backend *b, float *gate, const float *up, int64_t n,
                        const struct clamped_glu *p);
    /* Multiply row i of y f32 [n_row, n] by by[i]; by f32 [n_row]. */
    void (*scale_rows)(struct backend *b, float *y, const float *by, int n_row, int64_t n);
    /* Add x f32 [n] to y f32 [n]. */
    void (*add)(struct backend *b, float *y, const float *x, int64_t n);
    /* Multiply y f32 [n] by x f32 [n]. */
    void (*mul)(struct backend *b, float *y, const float *x, int64_t n);
    /* Multiply x f32 [n] by a factor. */
    void (*scale)(struct backend *b, float *x, int64_t n, float by);
    /* Clamp x f32 [n] to [least, most]. A NaN stays. */
    void (*clamp)(struct backend *b, float *x, int64_t n, float least, float most);
    /* Replace x f32 [n] by cap * tanh(x / cap). */
    void (*softcap)(struct backend *b, float *x, int64_t n, float cap);

    /* Fill r's arrays from logits f32 [n_row, n_expert], which are overwritten, by the rule
     * r->spec. The lower expert, or the lower group, is selected from equal values. Sums of a row's
     * weights are in ascending order of experts. */
    void (*route)(struct backend *b, const struct route *r, float *logits, int n_row);
    /* Compute n <= OUTPUTS_MAX layers of one input, y f32 [n_row * n_used, n_out] each: for each
     * entry, the matrix of its expert times its row of x f32 [n_row, k]. With by_entry, the row is
     * row `entry` of x f32 [n_row * n_used, k]. */
    void (*experts)(struct backend *b, const struct output *out, int n, const float *x,
                    const struct route *r, bool by_entry, int n_row);
    /* Multiply the parts of rows, such as heads, by one matrix each. l has n_part matrices
     * [n_out, k], s->n_part of them, and no bias. For each part, k values of x become n_out values
     * of y, at the places of s (s->n is not read). */
    void (*parts)(struct backend *b, float *y, const struct linear *l, const float *x,
                  const struct columns *s, int n_row);
    /* Compute y f32 [n_row, n], the sum of weight * x f32 [n_row * n_used, n] over a row's entries.
     * The sum begins at 0 and adds experts by fma, ascending. The sum is added to y if `add` is
     * true. With r->spec.weighs_input, all weights are 1. */
    void (*combine)(struct backend *b, float *y, const float *x, const struct route *r, int n_row,
                    int64_t n, bool add);
    /* Multiply each entry's row of y f32 [n_row * n_used, n] by the entry's weight. */
    void (*weigh)(struct backend *b, float *y, const struct route *r, int n_row, int64_t n);
    /* Set row i of y f32 [n_out, d] to row row[i] of x f32 [n_row, d]; row i32 [n_out]. */
    void (*gather)(struct backend *b, float *y, const float *x, const int32_t *row, int n_out,
                   int d);
    /* Copy columns of x f32 to y f32. x and y are the addresses of the first values, and the arrays
     * do not overlap. */
    void (*columns)(struct backend *b, float *y, const float *x, const struct columns *c,
                    int n_row);

    /* Ops of models with several residual streams f32 [n_stream, n_row, n] (AltUp), and of sparse
     * activations. */
    /* Scale each row of y f32 [n_row, n] to the root mean square of its row of x f32 [n_row, n].
     * `least` is the minimum of y's mean square in the ratio. */
    void (*match)(struct backend *b, float *y, const float *x, int n_row, int64_t n, float least);
    /* Set stream i of y to the sum over ascending j of c[row, i, j] times stream j of x, per row. y
     * and x are f32 [n_stream, n_row, n]. c is f32 [n_row, n_stream, n_stream]. */
    void (*mix_streams)(struct backend *b, float *y, const float *x, const float *c, int n_stream,
                        int n_row, int64_t n);
    /* Add c[row, i] times x to stream i of y, per row. y is f32 [n_stream, n_row, n], x f32 [n_row,
     * n], c f32 [n_row, n_stream]. */
    void (*add_streams)(struct backend *b, float *y, const float *x, const float *c, int n_stream,
                        int n_row, int64_t n);
    /* Multiply the columns of x f32 [n_row, n] by g f32 [n], to y f32 [n_row, n]. */
    void (*scale_columns)(struct backend *b, float *y, const float *x, const float *g, int n_row,
                          int64_t n);
    /* Replace each row of y f32 [n_row, n] by max(y - cut, 0). cut is the row's mean plus `by`
     * times its standard deviation. A NaN stays. */
    void (*cut)(struct backend *b, float *y, int n_row, int64_t n, float by);

    /* Ops of recurrent layers. Each sequence of the batch begins with the state of its state_in, or
     * with zeros. The state after a row is written to the slot of the row's state_out, if any. The
     * bits of a row depend only on the rows of its sequence up to this row. */
    /* Compute y f32 [n_row, n], the convolution of c->x. y does not overlap x. */
    void (*conv)(struct backend *b, float *y, const struct conv *c, const struct batch *batch);
    /* Compute y f32 [n_row, n_head, d_v], the results of a recurrence. y overlaps no argument. */
    void (*scan)(struct backend *b, float *y, const struct scan *s, const struct batch *batch);

    /* Fused ops, called by the functions of fused.c, which respect `plain`. The shapes are the same
     * as in backend.h. NULL: fusion not supported. */
    void (*linears)(struct backend *b, const struct output *out, int n, const struct input *in,
                    int n_row);
    void (*linear_add)(struct backend *b, float *y, const struct linear *l, const float *x,
                       int n_row);
    void (*glu)(struct backend *b, float *y, const struct glu *g, const struct input *in,
                int n_row);
    void (*rope_put)(struct backend *b, const struct rope_put *r, int n_row);
};

/* Fusions. For example, norms are computed separately if `plain` has 1 << FUSE_norm. */
#define FUSION(id, what) FUSE_##id,
enum fusion {
#include "fusions.def"
    FUSION_COUNT
};
#undef FUSION
extern const char *const fusion_name[FUSION_COUNT], *const fusion_what[FUSION_COUNT];

#endif
