/* model_impl.h - private to src/model: what load, forward, blocks and architectures share.
 *
 *   load.c     metadata -> struct config; tensors -> weights (struct binder)
 *   arch/      one file per architecture: its config, binding and the wiring of a layer
 *   block/     attention, feed-forward: the parts layers are made of
 *   forward.c  embed, all layers, output norm, head */
#ifndef QUOTH_MODEL_IMPL_H
#define QUOTH_MODEL_IMPL_H

#include "base/arena.h"
#include "base/buf.h"
#include "model.h"

/* ---- what an architecture reads from the metadata ---- */

struct layer_config {
    int window; /* 0: attends to everything before */
    bool rope;  /* false: no position encoding (NoPE) */
};

enum rope_scaling { ROPE_NONE, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

struct rope_config {
    double base;
    int d_rot;
    bool neox;
    enum rope_scaling scaling;
    double factor;               /* of all but ROPE_NONE */
    double low_freq, high_freq;  /* llama3 */
    double beta_fast, beta_slow; /* yarn   */
    double attn_factor;          /* yarn: scales cos and sin; 0 = derived from factor */
    int context_original;        /* llama3, yarn */
    const float *freq_factor;    /* f32 [d_rot / 2] divisors stored in the file, or NULL */
};

struct config {
    int n_layer, d, d_ff, n_head, n_head_kv, d_head, n_vocab, context_train;
    float rms_eps;
    struct rope_config rope;
    struct layer_config *layer; /* [n_layer] */
};

/* ---- weights ---- */

struct norm {
    const float *g; /* f32 [n] */
    float eps;
    int n;
};

struct attn_block {
    /* [n_head * d_head, d], [n_head_kv * d_head, d] twice, [d, n_head * d_head] */
    struct linear q, k, v, o;
    /* over d_head, before rope; g NULL where the architecture has none */
    struct norm q_norm, k_norm;
};

struct glu_block {
    struct linear gate, up, down; /* [d_ff, d] twice, [d, d_ff] */
};

struct arch;
struct model {
    const struct arch *arch;
    const struct checkpoint *checkpoint; /* borrowed */
    struct backend *backend;             /* borrowed */
    struct arena arena;                  /* weights' descriptions, converted vectors, rope tables */
    struct config config;
    struct model_info info;

    struct tensor embd; /* [n_vocab, d] */
    struct norm out_norm;
    struct linear head;          /* [n_vocab, d]; the embedding's tensor where tied */
    VEC(struct tensor *) tensor; /* all of them, for the backend to bring into its form */
    struct weights *weights;     /* what became of them; owned */
    void *layer;                 /* the architecture's own array [n_layer] */
    size_t layer_bytes;          /* of one element */

    struct rope_spec rope;
    struct rope_rows {
        float *cos, *sin;    /* the tables of `rope` */
        int n;               /* rows [0, n) are made */
        double *freq, scale; /* [d_rot / 2]          */
    } rope_rows;
    struct kv_store kv;
    struct batch_limits limits;
    float *scratch; /* owned, on the device: see forward.c */
    trace_fn *trace;
    void *trace_ctx;
};

/* ---- architectures ---- */

struct binder;
struct fwd;

struct arch {
    const char *name;
    /* pairing of rotary lanes in GGUF files; Hugging Face checkpoints are always neox */
    bool gguf_neox;
    size_t layer_bytes;
    /* Adjust the config that load.c read from the common keys. NULL: nothing to adjust. */
    int (*config)(struct config *c, const struct binder *b);
    void (*bind)(struct binder *b, void *layer, int il);
    void (*layer)(struct fwd *f, const void *layer, int il);
};

#define ARCH(id) extern const struct arch arch_##id;
#include "arch/arch.def"
#undef ARCH

/* ---- binding: names -> weights, shapes checked; the first failure sticks ---- */

struct binder {
    struct model *m;
    const struct checkpoint *checkpoint;
    const char *prefix; /* of metadata keys: "llama" */
    uint8_t *bound;     /* [n_tensor] */
    struct err *e;
    int rc;
};

/* Metadata "<prefix>.<key>"; integers and reals are checked against [lo, hi]. */
const struct meta *config_meta(const struct binder *b, const char *key);
/* otherwise < lo: required */
int config_int(struct binder *b, const char *key, int64_t lo, int64_t hi, int64_t otherwise);
double config_real(const struct binder *b, const char *key, double otherwise);

/* `fmt` has at most one %d, for the layer. A bias named "<...>.bias" is bound where it exists. */
void bind_linear(struct binder *b, struct linear *l, const char *fmt, int il, int64_t n_out,
                 int64_t k);
void bind_norm(struct binder *b, struct norm *n, const char *fmt, int il, int64_t size);
void bind_attn(struct binder *b, struct attn_block *a, int il);
void bind_glu(struct binder *b, struct glu_block *g, int il);
bool bind_has(const struct binder *b, const char *fmt, int il);

/* ---- a forward pass ---- */

struct fwd {
    struct model *m;
    const struct batch *batch;
    int n_row, il;
    float *x;                /* f32 [n_row, d]: the residual stream */
    float *h, *y;            /* f32 [n_row, d]                      */
    float *q, *k, *v, *attn; /* f32 [n_row, n_head * d_head] ...    */
    float *gate, *up;        /* f32 [n_row, d_ff]                   */
};

/* x += the block of x's norm */
void fwd_attn(struct fwd *f, const struct norm *norm, const struct attn_block *a);
void fwd_glu(struct fwd *f, const struct norm *norm, const struct glu_block *g);
/* An intermediate; ops are not fused while somebody looks. */
void trace(struct fwd *f, const char *name, const float *x, int64_t n);

/* Floats of scratch that a forward of n_row rows and n_out results needs. */
int64_t forward_scratch_floats(const struct config *c, const struct batch_limits *l);

/* cos and sin tables in the model's arena, made in f64; of positions up to `pos` once rope_reach was
 * called with it. */
int rope_open(struct model *m, int pos_max, struct err *e);
void rope_reach(struct model *m, int pos);

#endif
