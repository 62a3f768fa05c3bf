/* ops.h - what a device computes: tensors, and the table of ops on them. Part of backend.h.
 *
 * Unless a comment has "on the host", a pointer to values points to the device's memory: from
 * op->alloc, of a weight, or an array of the batch that op->begin returned. Only ops access that
 * memory. */
#ifndef QUOTH_BACKEND_OPS_H
#define QUOTH_BACKEND_OPS_H

#include "batch.h"

#include "kern/curve.h"
#include "quant/quant.h"

#include "base/progress.h"

struct filecache;

/* ---- tensors ---- */

/* A matrix as a file stores it, in one tensor or several; all borrowed. Only packing reads it, and
 * converts it to rows of the weight's type:
 *   FORM_ROWS     rows one after another
 *   FORM_SCALED   codes of `code` [n_out, k] and
 *                 f32 scales [ceil(n_out / block_out), ceil(k / block_k)]: value = code * scale;
 *                 the weight's type is F32 */
enum published_form { FORM_ROWS, FORM_SCALED };
enum { PART_ROWS, PART_SCALES, PART_COUNT };
struct published {
    enum published_form form;
    const uint8_t *part[PART_COUNT];
    enum qtype code;
    int block_out, block_k;
};

/* A weight: n_out rows of k values of one type, or n_expert such matrices of a mixture. */
struct tensor {
    enum qtype type;
    int64_t n_out, k;
    int n_expert; /* 0: one matrix */
    /* published form of each matrix, [n_expert or 1], borrowed; read only by op->weights. NULL: all
     * rows are contiguous at data. Otherwise data is part 0 of the first matrix. */
    const struct published *from;
    /* rows of the checkpoint, borrowed; op->weights replaces it by the device's form */
    const uint8_t *data;
    const char *name; /* borrowed; NULL: no name */
};

struct weights; /* the memory of a model's tensors on a device; opaque */

/* Cache for the device's form of a model's weights. All zero: no cache. */
struct weights_options {
    const struct filecache *cache; /* NULL: no cache; borrowed during the call */
    uint64_t key[2];               /* identifies the tensors' published bytes */
    bool own;              /* copy cached weights into this process's memory, do not map them */
    progress_fn *progress; /* NULL: no progress reports */
    void *ctx;
};

/* PACKED: packed in memory. KEPT: packed into a cache file. MAPPED: mapped from the cache. COPIED:
 * copied from the cache into memory. */
enum weights_how { WEIGHTS_PACKED, WEIGHTS_KEPT, WEIGHTS_MAPPED, WEIGHTS_COPIED };
struct weights_info {
    enum weights_how how;
    int64_t n_byte; /* size of the device's form */
    int64_t us;     /* duration */
};

/* Cached form of a tensor compared with packing it again: same, or different; damaged: its hash
 * does not match. */
enum weights_verdict { WEIGHTS_SAME, WEIGHTS_DIFFERENT, WEIGHTS_DAMAGED };

struct linear { /* y = x W^T + b */
    struct tensor w;
    const float *bias; /* f32 [n_out] or NULL */
};

/* KV memory of one layer: n_page pages, each
 *   K [n_head_kv][page_rows / w][d_k][w]   w = min(16, page_rows): lanes are positions
 *   V [n_head_kv][page_rows][d_v]
 *   with KV_Q8, each followed by its scales f32 [n_head_kv][page_rows] */
struct kv_layer {
    enum kv_type type;
    int page_rows, n_head_kv, d_k, d_v;
    int64_t k_page_bytes, v_page_bytes;
    uint8_t *k, *v; /* owned by the kv store */
};

struct rope_spec {
    int d_rot;              /* even; lanes at and past it are unchanged */
    bool neox;              /* pairs (i, i + d_rot/2), else (2i, 2i+1)  */
    int pos_max;            /* rows of the tables                       */
    const float *cos, *sin; /* f32 [pos_max, d_rot / 2]                 */
};

struct attn_spec {
    int n_head, n_head_kv, d_k, d_v;
    float scale;
    int window;         /* visible positions, including its own; 0: all earlier ones */
    float softcap;      /* scores become softcap * tanh(score / softcap); 0: unchanged */
    const float *slope; /* f32 [n_head] ALiBi: adds slope * (position - own position); NULL: none */
    const float *sink;  /* f32 [n_head] score without a value that joins the softmax; NULL: none */
};

/* ---- arguments of fused ops ---- */

/* Input x f32 [n_row, k]; if g f32 [k] is not NULL, rms_norm of x with g. h f32 [n_row, k] receives
 * the norm if it is computed separately; may be NULL if g is. */
struct input {
    const float *x, *g;
    float eps;
    float *h;
};

/* Output y f32 [n_row, n_out] of a linear layer. */
struct output {
    const struct linear *l;
    float *y;
};
enum { OUTPUTS_MAX = 4 };

/* A gated feed-forward block: down(curve(gate x) * up x). */
struct glu {
    const struct linear *gate, *up, *down;
    enum curve curve;
    bool add; /* add the result to y */
    /* scratch: a, b f32 [n_row, gate->n_out]; with add, y f32 [n_row, down->n_out] */
    float *a, *b, *y;
};

/* Assignment of a batch's rows to a mixture's experts. An entry is a row and one of its experts.
 * Entries are sorted by expert, then by row. All arrays are on the device. */
struct route {
    int n_expert, n_used; /* n_used: experts of each row               */
    bool normalize;       /* scale a row's weights to sum 1            */
    int32_t *expert;      /* [n_row, n_used] ascending within a row    */
    float *weight;        /* [n_row, n_used] softmax over all experts  */
    int32_t *entry;       /* [n_row, n_used] entry number              */
    int32_t *row;         /* [n_row * n_used] row of each entry        */
    int32_t *first;       /* [n_expert + 1] first entry of each expert */
};

/* Normalize (unless the norm is NULL) and rotate (unless rope is NULL) each head of q f32 [n_row,
 * n_head, d_k] and k f32 [n_row, n_head_kv, d_k] in place, then store k and v. */
struct rope_put {
    float *q, *k;
    const float *v;
    int n_head;
    const float *q_norm, *k_norm; /* f32 [d_k] */
    float eps;
    const struct rope_spec *rope;
    const struct kv_layer *kv;
    const int32_t *pos, *slot; /* [n_row] */
};

/* ---- ops ---- */

struct backend;

/* Largest sizes that ops will receive. */
struct op_sizes {
    int n_row;           /* rows                                                 */
    int64_t k;           /* columns of a linear layer                            */
    int d_head, n_group; /* attention: values of a head, query heads per KV head */
    /* for begin; NULL: no batch will follow. Borrowed during the call */
    const struct batch_limits *batch;
};

struct backend_ops {
    const char *name;
    void (*close)(struct backend *b);

    /* Allocate device memory, zeroed on first touch. Returns NULL if none is left. */
    void *(*alloc)(struct backend *b, size_t n_byte);
    void (*release)(struct backend *b, void *p, size_t n_byte);
    /* Touch memory that will be used soon. NULL: memory is present from the start. */
    void (*populate)(struct backend *b, void *p, size_t n_byte);

    /* Convert the tensors to the device's form; data then points to device memory, and ops may use
     * them. Tensors that share data still share it. Slow unless cached. o and info may be NULL.
     * weights_close: call after the last op on the tensors; w may be NULL. */
    int (*weights)(struct backend *b, struct weights **out, struct tensor *const *tensor, int n,
                   const struct weights_options *o, struct weights_info *info, struct err *e);
    /* Compare the cached form with packing again; fill verdict [n]. The cache file is removed
     * unless all tensors are the same. Returns ERR_MISSING if there is no cache file, ERR_FORMAT if
     * it cannot be read. */
    int (*weights_verify)(struct backend *b, enum weights_verdict *verdict,
                          struct tensor *const *tensor, int n, const struct weights_options *o,
                          struct err *e);
    void (*weights_close)(struct backend *b, struct weights *w);

    /* Allocate scratch for ops of these sizes. Called once, before the first begin and the first op
     * on rows. */
    int (*reserve)(struct backend *b, const struct op_sizes *s, struct err *e);

    /* Copy n_byte >= 0 bytes between host and device memory, or within device memory. The caller
     * may reuse host memory after read and write return. */
    void (*read)(struct backend *b, void *to, const void *from,
                 size_t n_byte); /* to: on the host */
    void (*write)(struct backend *b, void *to, const void *from,
                  size_t n_byte); /* from: on the host */
    void (*copy)(struct backend *b, void *to, const void *from, size_t n_byte); /* no overlap */

    /* Transfer a batch and return it with arrays that ops can read; pos, slot, token, out_row and
     * attn's batch come from it. `batch` is on the host; the caller must not change it before a
     * read that follows the step's last op. The result is valid until the next begin. */
    const struct batch *(*begin)(struct backend *b, const struct batch *batch);

    /* y f32 [n_row, w->k] = rows token[i] of w; zeros if a token is outside [0, w->n_out). */
    void (*embed)(struct backend *b, float *y, const struct tensor *w, const int32_t *token,
                  int n_row);
    /* y, x f32 [n_row, n]; g f32 [n]; y may be x. */
    void (*rms_norm)(struct backend *b, float *y, const float *x, const float *g, int n_row, int n,
                     float eps);
    /* y f32 [n_row, n_out] = x f32 [n_row, k] W^T + bias. */
    void (*linear)(struct backend *b, float *y, const struct linear *l, const float *x, int n_row);
    /* Rotate x f32 [n_row, n_head, d_head] in place by pos i32 [n_row]. */
    void (*rope)(struct backend *b, float *x, int n_head, int d_head, const int32_t *pos, int n_row,
                 const struct rope_spec *spec);
    /* Store k f32 [n_row, n_head_kv, d_k] and v f32 [n_row, n_head_kv, d_v] at slot i32 [n_row]. */
    void (*kv_put)(struct backend *b, const struct kv_layer *kv, const float *k, const float *v,
                   const int32_t *slot, int n_row);
    /* y f32 [n_row, n_head, d_v] = attention of q f32 [n_row, n_head, d_k] over the pages of
     * batch. */
    void (*attn)(struct backend *b, float *y, const float *q, const struct kv_layer *kv,
                 const struct batch *batch, const struct attn_spec *spec);
    /* y f32 [n] = curve(gate) * up; y may be gate. */
    void (*curve_mul)(struct backend *b, float *y, const float *gate, const float *up, int64_t n,
                      enum curve curve);
    void (*add)(struct backend *b, float *y, const float *x, int64_t n); /* y += x */
    void (*scale)(struct backend *b, float *x, int64_t n, float by);     /* x *= by */
    void (*softcap)(struct backend *b, float *x, int64_t n,
                    float cap); /* x = cap * tanh(x / cap) */

    /* Fill r's arrays from logits f32 [n_row, n_expert], which are overwritten. Selects the n_used
     * largest of each row; ties select the lower expert. */
    void (*route)(struct backend *b, const struct route *r, float *logits, int n_row);
    /* y f32 [n_row * n_used, n_out]: for each entry, its expert's matrix times its row of x f32
     * [n_row, k] or, if by_entry, row `entry` of x f32 [n_row * n_used, k]. */
    void (*experts)(struct backend *b, float *y, const struct linear *l, const float *x,
                    const struct route *r, bool by_entry, int n_row);
    /* y f32 [n_row, n] = (add: y +) sum of weight * x f32 [n_row * n_used, n] over a row's entries,
     * by fma from 0, experts ascending. */
    void (*combine)(struct backend *b, float *y, const float *x, const struct route *r, int n_row,
                    int64_t n, bool add);
    /* y f32 [n_out, d] = rows row[i] of x. */
    void (*gather)(struct backend *b, float *y, const float *x, const int32_t *row, int n_out,
                   int d);

    /* Fused ops, called through backend_linears etc.; they respect `plain`. NULL: not supported. */
    void (*linears)(struct backend *b, const struct output *out, int n, const struct input *in,
                    int n_row);
    void (*linear_add)(struct backend *b, float *y, const struct linear *l, const float *x,
                       int n_row);
    void (*glu)(struct backend *b, float *y, const struct glu *g, const struct input *in,
                int n_row);
    void (*rope_put)(struct backend *b, const struct rope_put *r, int n_row);
};

/* Fusions; 1 << FUSE_norm in `plain`: norms are computed separately. */
#define FUSION(id, what) FUSE_##id,
enum fusion {
#include "fusions.def"
    FUSION_COUNT
};
#undef FUSION
extern const char *const fusion_name[FUSION_COUNT], *const fusion_what[FUSION_COUNT];

#endif
