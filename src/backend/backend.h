/* backend.h - the only door to a device: tensors, the batch, and the ops over them.
 *
 * The model says what to compute by calling ops in order; a backend makes it so. Calls take
 * effect in call order: the CPU runs each at once, a GPU enqueues. A backend never sees a request
 * and never fails in an op: what can fail fails at open, reserve or alloc. All activations are
 * f32 [rows, columns], rows contiguous. One thread (the engine's) calls a backend; the CPU
 * spreads the work over its pool. */
#ifndef QUOTH_BACKEND_H
#define QUOTH_BACKEND_H

#include "base/cores.h"
#include "base/err.h"
#include "base/filecache.h"
#include "base/pool.h"
#include "base/progress.h"
#include "kern/kern.h"
#include "quant/quant.h"

/* ---- struct batch: what one step computes ----
 *
 *
 * Rows are tokens, ragged over sequences: sequence s owns rows row0[s] .. row0[s+1), at
 * consecutive positions, prefill chunks and decodes mixed. Linear and elementwise ops see only
 * rows; attention also sees sequences. One contiguous allocation (batch_open), so that other
 * ranks get it in one message. */
enum { OUT_LOGITS = 0, OUT_HIDDEN = 1 };
enum { COPY_KV = 0, COPY_STATE = 1, COPY_OUT = 2, COPY_IN = 3 }; /* dst or src is a host page */

struct batch_copy {
    int32_t src, dst, kind;
};
/* rows of seq in [pos0, pos1) attend to each other without the causal mask */
struct batch_span {
    int32_t seq, pos0, pos1;
};

struct batch_limits {
    int n_row, n_seq, page_stride, n_copy;
    int n_out;                                  /* OUT_LOGITS; as many OUT_HIDDEN as rows */
    int n_embd, d_embd, n_rope_section, n_span; /* 0 where nothing uses them */
};

struct batch {
    int n_row, n_seq, n_out, n_copy, n_embd, n_rope_section, n_tree, n_span;
    int page_stride, d_embd;

    int32_t *token;          /* [n_row] id, or -1: the row comes from embd                  */
    int32_t *pos;            /* [n_row] KV index within the sequence                        */
    int32_t *slot;           /* [n_row] page * page_rows + offset: where its K and V go     */
    int32_t *row0;           /* [n_seq + 1] first row of each sequence; row0[n_seq] = n_row */
    int32_t *kv_len;         /* [n_seq] positions held after this step                      */
    int32_t *page;           /* [n_seq, page_stride] page table; -1: a hole that no row sees */
    int32_t *state;          /* [n_seq] slot of its recurrent state, or -1                  */
    int32_t *adapter;        /* [n_seq] LoRA number, or -1                                  */
    int32_t *out_row;        /* [n_out <= n_row] rows whose result is wanted, each once     */
    int32_t *out_kind;       /* [n_out] OUT_LOGITS or OUT_HIDDEN                            */
    struct batch_copy *copy; /* [n_copy] page and state copies, done in order before the step */
    int32_t *embd_row;       /* [n_embd] rows that arrive as embeddings                     */
    float *embd;             /* [n_embd, d_embd]                                            */
    int32_t *rope_pos;       /* [n_rope_section, n_row] where it differs from pos           */
    int32_t *tree_parent;    /* [n_tree = 0 or n_row] its parent's row in a speculation tree, -1 */
    struct batch_span *span; /* [n_span] spans that attend without the causal mask          */

    struct batch_limits limits;
    void *memory; /* owned; the arrays above lie in it */
    size_t n_byte;
};

int batch_open(struct batch *b, const struct batch_limits *limits, struct err *e);
void batch_close(struct batch *b);
void batch_clear(struct batch *b); /* no rows, no sequences */

/* Every index inside its limits, positions consistent: an assertion of the engine, a check of
 * what another rank sent. Returns NULL, or what is wrong. */
const char *batch_check(const struct batch *b, int n_vocab, int n_page, int page_rows);

/* ---- tensors ---- */

/* A weight: n_out rows of k values of one type. */
struct tensor {
    enum qtype type;
    int64_t n_out, k;
    /* borrowed from the checkpoint, row after row, until op->weights makes it the device's form */
    const uint8_t *data;
    const char *name; /* borrowed; NULL: none */
};

struct weights; /* the memory of a model's tensors on a device; opaque */

/* Where the device's form of a model's weights may be kept for the next start. Zeros: nowhere. */
struct weights_options {
    const struct filecache *cache; /* NULL: nowhere; borrowed during the call            */
    uint64_t key[2];               /* what the tensors' published bytes are known by     */
    bool own; /* what is kept is copied into memory of this process, not mapped */
    progress_fn *progress;         /* NULL: nobody looks                                 */
    void *ctx;
};

/* packed: made now, in memory. kept: made now, in a file that the next start maps. mapped: found; copied: and copied into
 * memory. */
enum weights_how { WEIGHTS_PACKED, WEIGHTS_KEPT, WEIGHTS_MAPPED, WEIGHTS_COPIED };
struct weights_info {
    enum weights_how how;
    int64_t n_byte; /* of the device's form */
    int64_t us;     /* that it took         */
};

/* What is kept of a tensor, compared with what packing it gives: the same, or not; damaged: not even
 * what was written once. */
enum weights_verdict { WEIGHTS_SAME, WEIGHTS_DIFFERENT, WEIGHTS_DAMAGED };

struct linear { /* y = x W^T + b */
    struct tensor w;
    const float *bias; /* f32 [n_out] or NULL */
};

/* vLLM's names: float32 float16 bfloat16 int8 fp8 fp8_e4m3 fp8_e5m2; -1 */
int kv_type_of_name(const char *name);
const char *kv_type_name(enum kv_type t);

/* The KV memory of one layer: n_page pages, each
 *   K [n_head_kv][page_rows / w][d_k][w]   w = min(16, page_rows): lanes are positions
 *   V [n_head_kv][page_rows][d_v]
 *   with KV_Q8 followed by its scales f32 [n_head_kv][page_rows] */
struct kv_layer {
    enum kv_type type;
    int page_rows, n_head_kv, d_k, d_v;
    int64_t k_page_bytes, v_page_bytes;
    uint8_t *k, *v; /* owned by the kv store */
};
int64_t kv_page_bytes(enum kv_type t, int page_rows, int n_head_kv, int d); /* of K or of V */

struct rope_spec {
    int d_rot;              /* even; lanes at and past it are left alone */
    bool neox;              /* pairs (i, i + d_rot/2), else (2i, 2i+1)   */
    int pos_max;            /* rows of the tables                        */
    const float *cos, *sin; /* f32 [pos_max, d_rot / 2]                  */
};

struct attn_spec {
    int n_head, n_head_kv, d_k, d_v;
    float scale;
    int window;         /* positions visible, own one included; 0 = all before           */
    float softcap;      /* scores become softcap * tanh(score / softcap); 0: they do not */
    const float *slope; /* f32 [n_head] ALiBi: slope * (position - own one) is added, or NULL */
    const float *sink;  /* f32 [n_head] a score without a value that joins the softmax, or NULL */
};

/* ---- what fused ops take ---- */

/* x f32 [n_row, k], or where g is not NULL its rms_norm with g f32 [k]. h f32 [n_row, k]: where that
 * goes if it is made apart; may be NULL with g. */
struct input {
    const float *x, *g;
    float eps;
    float *h;
};

/* y f32 [n_row, n_out] = the linear layer */
struct output {
    const struct linear *l;
    float *y;
};
enum { OUTPUTS_MAX = 4 };

/* A gated feed-forward block: down(silu(gate x) * up x). */
struct glu {
    const struct linear *gate, *up, *down;
    float *a, *b, *y; /* scratch: f32 [n_row, gate->n_out] twice, [n_row, down->n_out] */
};

/* q f32 [n_row, n_head, d_k] and k f32 [n_row, n_head_kv, d_k]: each head normalized (norm NULL: not),
 * rotated (rope NULL: not), in place; then k and v are stored. */
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
struct backend_ops {
    const char *name;
    void (*close)(struct backend *b);

    /* Memory on the device; NULL when there is none left. Zeroed on first touch. */
    void *(*alloc)(struct backend *b, size_t n_byte);
    void (*release)(struct backend *b, void *p, size_t n_byte);
    /* Part of it is going to be used: touch it now. NULL: memory is there from the start. */
    void (*populate)(struct backend *b, void *p, size_t n_byte);

    /* Bring the tensors into the device's form: afterwards their data is the device's, and only
     * then may ops use them. Tensors that share data share it still. Slow, unless it was kept.
     * o, info: NULL is fine.
     * close: after the last op on them; NULL is fine. */
    int (*weights)(struct backend *b, struct weights **out, struct tensor *const *tensor, int n,
                   const struct weights_options *o, struct weights_info *info, struct err *e);
    /* verdict [n]. What is kept is removed unless all of it is the same. ERR_MISSING: nothing is
     * kept; ERR_FORMAT: what is kept cannot be read. */
    int (*weights_verify)(struct backend *b, enum weights_verdict *verdict,
                          struct tensor *const *tensor, int n, const struct weights_options *o,
                          struct err *e);
    void (*weights_close)(struct backend *b, struct weights *w);

    /* Scratch for ops on up to n_row rows of k columns, attention heads up to d_head wide, groups
     * of n_group query heads. Called once, before the first op. */
    int (*reserve)(struct backend *b, int n_row, int64_t k, int d_head, int n_group, struct err *e);

    /* y f32 [n_row, w->k] = rows token[i] of w; a token outside [0, w->n_out) gives zeros. */
    void (*embed)(struct backend *b, float *y, const struct tensor *w, const int32_t *token,
                  int n_row);
    /* y, x f32 [n_row, n]; g f32 [n]; y may be x. */
    void (*rms_norm)(struct backend *b, float *y, const float *x, const float *g, int n_row, int n,
                     float eps);
    /* y f32 [n_row, n_out] = x f32 [n_row, k] W^T + bias. */
    void (*linear)(struct backend *b, float *y, const struct linear *l, const float *x, int n_row);
    /* x f32 [n_row, n_head, d_head] rotated in place by pos i32 [n_row]. */
    void (*rope)(struct backend *b, float *x, int n_head, int d_head, const int32_t *pos, int n_row,
                 const struct rope_spec *spec);
    /* k f32 [n_row, n_head_kv, d_k], v f32 [n_row, n_head_kv, d_v] stored at slot i32 [n_row]. */
    void (*kv_put)(struct backend *b, const struct kv_layer *kv, const float *k, const float *v,
                   const int32_t *slot, int n_row);
    void (*kv_copy)(struct backend *b, const struct kv_layer *kv, int32_t page_src,
                    int32_t page_dst);
    /* A page of a layer to host memory and back, [k_page_bytes + v_page_bytes]. */
    void (*kv_read)(struct backend *b, const struct kv_layer *kv, int32_t page, uint8_t *to);
    void (*kv_write)(struct backend *b, const struct kv_layer *kv, int32_t page,
                     const uint8_t *from);
    /* y f32 [n_row, n_head, d_v] = attention of q f32 [n_row, n_head, d_k] over the pages of
     * batch. */
    void (*attn)(struct backend *b, float *y, const float *q, const struct kv_layer *kv,
                 const struct batch *batch, const struct attn_spec *spec);
    /* y f32 [n] = silu(gate) * up; y may be gate. */
    void (*silu_mul)(struct backend *b, float *y, const float *gate, const float *up, int64_t n);
    void (*add)(struct backend *b, float *y, const float *x, int64_t n); /* y += x */
    /* y f32 [n_out, d] = rows row[i] of x. */
    void (*gather)(struct backend *b, float *y, const float *x, const int32_t *row, int n_out,
                   int d);

    /* Fused forms, called through backend_linears and so on; they heed `plain`. */
    void (*linears)(struct backend *b, const struct output *out, int n, const struct input *in,
                    int n_row);
    void (*linear_add)(struct backend *b, float *y, const struct linear *l, const float *x,
                       int n_row);
    void (*glu)(struct backend *b, float *y, const struct glu *g, const struct input *in,
                int n_row);
    void (*rope_put)(struct backend *b, const struct rope_put *r, int n_row);
};

/* 1 << FUSE_norm: norms are made apart. */
#define FUSION(id, what) FUSE_##id,
enum fusion {
#include "fusions.def"
    FUSION_COUNT
};
#undef FUSION
extern const char *const fusion_name[FUSION_COUNT], *const fusion_what[FUSION_COUNT];

struct backend {
    const struct backend_ops *op;
    unsigned plain; /* a bit for each fusion that is not to be done; may change between ops */
};

/* ---- fused.c: ops that take one pass where the backend can, the plain ops else; same bits ---- */

/* Several linear layers of the same input, n <= OUTPUTS_MAX. */
void backend_linears(struct backend *b, const struct output *out, int n, const struct input *in,
                     int n_row);
/* y f32 [n_row, n_out] += x W^T + bias; scratch f32 [n_row, n_out] */
void backend_linear_add(struct backend *b, float *y, const struct linear *l, const float *x,
                        int n_row, float *scratch);
/* y f32 [n_row, d] += the block */
void backend_glu(struct backend *b, float *y, const struct glu *g, const struct input *in,
                 int n_row);
void backend_rope_put(struct backend *b, const struct rope_put *r, int n_row);

enum act_choice { ACT_CHOICE_AUTO, ACT_CHOICE_INT8, ACT_CHOICE_BF16, ACT_CHOICE_F32 };

struct backend_options {
    int n_thread;              /* 0: one for each core, or what suits weight_bytes */
    int64_t weight_bytes;      /* of the model to come, if it is known              */
    const struct cores *cores; /* NULL: the machine's; else as if it had these: for tests */
    const char *cpu_level;     /* NULL: the best; see kern_open                  */
    enum act_choice act;       /* auto: int8 for block formats, bf16 for BF16, f32 else */
};

/* name: "cpu". A backend that was not built in gives a readable ERR_UNSUPPORTED. */
int backend_open(struct backend **out, const char *name, const struct backend_options *o,
                 struct err *e);
void backend_close(struct backend *b);                 /* NULL is fine */
const char *backend_describe(const struct backend *b); /* "cpu avx2, 2 threads" */
struct pool *backend_pool(struct backend *b);          /* borrowed: the CPU's threads */

#endif
