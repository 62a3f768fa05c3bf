/* model_impl.h - private to src/model: shared declarations of loading, binding, the forward pass,
 * blocks and architectures.
 *
 *   keys.c     accepted metadata keys: each is read, known to be idle, or rejected
 *   config.c   metadata -> struct config
 *   bind.c     tensors -> weights, names and shapes checked with format/tensors.def
 *   plan.c     memory: scratch, rope tables, KV pages
 *   load.c     open and close
 *   arch/      one file per architecture: its config, binding and wiring
 *   block/     parts of layers and ends: blocks compute, architectures wire them
 *   linear.c   the only caller of linear ops; it has the batch
 *   forward.c  one batch: copies, embedding, layers, results */
#ifndef QUOTH_MODEL_IMPL_H
#define QUOTH_MODEL_IMPL_H

#include "base/arena.h"
#include "base/buf.h"
#include "model.h"

#include <math.h>

/* ---- metadata of an architecture ---- */

enum rope_scaling { ROPE_NONE, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

struct rope_config {
    double base;
    int d_rot;
    bool neox;
    enum rope_scaling scaling;
    double factor;               /* all but ROPE_NONE */
    double low_freq, high_freq;  /* llama3 */
    double beta_fast, beta_slow; /* yarn   */
    bool ramp_whole;             /* yarn: ramp bounds are rounded to whole lanes */
    bool ramp_forward;           /* yarn: the ramp's end is not before its start (llama.cpp) */
    double magnitude;            /* scales cos and sin */
    int context_original;        /* llama3, yarn */
    const float *freq_factor;    /* f32 [d_rot / 2] divisors stored in the file, or NULL */
};

/* Rope of a layer: index into the config's ropes, or none (NoPE). */
enum { ROPE_OFF = -1, ROPE_MAIN = 0, ROPE_LOCAL = 1, ROPES_MAX };

/* Sizes and mechanism of one layer. config.c fills in the values common to all layers; the
 * architecture's config function changes those that differ. */
struct layer_config {
    int n_head, n_head_kv, d_head, d_ff;
    int n_expert, n_expert_used, d_expert; /* 0: no mixture of experts       */
    int window;                            /* 0: attends to all earlier positions */
    int rope;                              /* ROPE_*                          */
    float attn_scale;                      /* scale of attention scores       */
};

/* Biases of linear layers. BIAS_HELD: present if the file has one (GGUF). */
enum bias { BIAS_NONE, BIAS_HELD, BIAS_NEEDED };

struct config {
    int n_layer, d, d_ff, n_head, n_head_kv, d_head, n_vocab, context_train;
    float rms_eps;
    float norm_add;    /* added to every g of a norm, because files store g - norm_add: 0 or 1 */
    bool norm_experts; /* normalize the weights of a row's experts to sum 1 */
    enum curve curve;  /* gated feed-forward blocks                       */
    enum bias qkv_bias, o_bias, ffn_bias, head_bias;
    bool tied;              /* the head may share the embedding's tensor */
    int scale_out, scale_k; /* 8-bit floats with scales: rows and columns per scale; 0: none */
    float logit_softcap;    /* logits become cap * tanh(logit / cap); 0: no cap */
    int n_rope;             /* length of rope, at least 1 */
    struct rope_config rope[ROPES_MAX]; /* ROPE_MAIN, ROPE_LOCAL */
    struct layer_config *layer;         /* [n_layer] */
};

/* ---- weights ---- */

struct norm {
    const float *g; /* f32 [n] */
    float eps;
    int n;
};

/* Grouped-query attention. Row scratch: q, attn [n_head * d_head]; k, v [n_head_kv * d_head]. */
struct attn_block {
    /* q [n_head * d_head, d]; k, v [n_head_kv * d_head, d]; o [d, n_head * d_head] */
    struct linear q, k, v, o;
    struct norm q_norm, k_norm; /* over d_head, before rope; g NULL: none */
    struct attn_spec spec;
    int il, rope; /* layer index in the KV store; ROPE_* */
    int at_q, at_k, at_v, at_attn;
};

/* A gated feed-forward block. Row scratch: gate, up [d_ff]. */
struct glu_block {
    struct linear gate, up, down; /* gate, up [d_ff, d]; down [d, d_ff] */
    enum curve curve;
    int at_gate, at_up;
};

/* A mixture of experts, each a gated feed-forward block. A row uses the n_used experts with the
 * largest router logits, weighted by their softmax. Row scratch: logits [n_expert], gate, up
 * [n_used * d_expert], out [n_used * d], and the arrays of struct route. */
struct moe_block {
    struct linear router;         /* [n_expert, d] */
    struct linear gate, up, down; /* per expert: gate, up [d_expert, d]; down [d, d_expert] */
    enum curve curve;
    int n_expert, n_used;
    bool normalize; /* normalize the weights of a row to sum 1 */
    int at_logits, at_gate, at_up, at_out;
    int at_expert, at_weight, at_entry, at_row, at_first;
};

/* The ends of a decoder: token embedding, output norm, head. Result scratch: logits [n_vocab]. */
struct decoder_ends {
    struct tensor embd; /* [n_vocab, d] */
    struct norm norm;
    struct linear head; /* [n_vocab, d]; the embedding's tensor if tied */
    int at_logits;
};

/* A vector read by ops: f32 [n], on the host when bound, on the device after plan_memory. */
struct vector {
    const float **at;
    int64_t n;
};

/* ---- scratch: activations on the device, one buffer per name, shared by all layers ---- */

struct scratch {
    const char *name;         /* static */
    int64_t per_row, per_out; /* f32 (or i32) values per row of a batch, per logits row */
    int64_t fixed;            /* values per batch */
    float *at;                /* set by plan.c, 64-byte aligned */
};

struct arch;
struct model {
    const struct arch *arch;
    const struct checkpoint *checkpoint; /* borrowed */
    struct backend *backend;             /* borrowed */
    struct arena arena;                  /* weight descriptions, converted vectors, rope tables */
    struct config config;
    struct model_info info;

    VEC(struct tensor *) tensor; /* all tensors, for the backend to pack */
    struct weights *weights;     /* packed tensors; owned */
    VEC(struct vector) vector;   /* norms and biases, for plan.c to copy to the device */
    float *vectors;              /* all vectors on the device [n_vector_float]; owned */
    int64_t n_vector_float;
    void *ends, *layer;              /* the architecture's structs: one ends, layer [n_layer] */
    size_t layer_bytes;              /* size of one layer struct */
    struct kv_geometry *kv_geometry; /* [n_layer]; zeros for a layer without KV */
    int64_t k_max;                   /* columns of the widest linear layer         */
    int d_head_max, n_group_max;     /* maxima over all attention blocks           */
    int n_used_max;                  /* experts per row over all mixtures; 0: none   */

    struct rope_spec rope[ROPES_MAX]; /* [config.n_rope] */
    struct rope_rows {
        float *table;        /* on the device: cos, then sin, of `rope`; owned      */
        float *made;         /* staging for rows: cos, then sin, of ROPE_ROWS */
        double *freq, scale; /* [d_rot / 2]                                         */
    } rope_rows[ROPES_MAX];
    int n_rope_row; /* rows [0, n) of the tables are computed */
    struct kv_store kv;
    struct batch_limits limits;
    VEC(struct scratch) scratch;
    int at_x, at_h, at_y; /* scratch buffers of forward.c */
    float *memory;        /* all scratch, on the device [n_scratch]; owned */
    float *host;          /* host copy of scratch: owned [n_scratch], or memory itself (is_host) */
    int64_t n_scratch;
    trace_fn *trace;
    void *trace_ctx;
};

/* ---- architectures ---- */

struct binder;
struct fwd;

/* A metadata key and its use by the architecture. `key` follows "ARCH."; a config.json field
 * without a GGUF name is "config.FIELD". */
enum key_use {
    KEY_READ, /* read by config.c or the architecture's config; `value` if absent (NAN: none) */
    KEY_IDLE, /* has no effect on results; `why` gives the reason                            */
    KEY_ONLY, /* only `value` is accepted; `why` gives the reason                            */
};
struct config_key {
    const char *key;
    enum key_use use;
    double value;
    const char *why;
};
#define KEY(key, value)                                                                            \
    {                                                                                              \
        key, KEY_READ, value, NULL                                                                 \
    }
#define KEY_UNSET(key)                                                                             \
    {                                                                                              \
        key, KEY_READ, NAN, NULL                                                                   \
    }
#define IDLE(key, why)                                                                             \
    {                                                                                              \
        key, KEY_IDLE, NAN, why                                                                    \
    }
#define ONLY(key, value, why)                                                                      \
    {                                                                                              \
        key, KEY_ONLY, value, why                                                                  \
    }
#define KEYS_END                                                                                   \
    {                                                                                              \
        NULL, KEY_IDLE, NAN, NULL                                                                  \
    }

/* An architecture. Its tensor names and shapes are the rows of tensors.def under its name. */
struct arch {
    const char *name;
    /* Keys of config.json with the defaults of the reference class, and keys of a GGUF, in addition
     * to keys.def. Both end with KEYS_END; gguf_key may be NULL. */
    const struct config_key *hf_key, *gguf_key;
    /* rotary lane pairing in GGUF files; Hugging Face checkpoints are always neox */
    bool gguf_neox;
    enum curve curve; /* gated blocks, unless the metadata give another */
    size_t ends_bytes, layer_bytes;
    /* Adjust the config that config.c read from the common keys. NULL: no adjustment. Failures
     * stick in b. */
    void (*config)(struct config *c, struct binder *b);
    void (*bind_ends)(struct binder *b, void *ends);
    void (*bind)(struct binder *b, void *layer, int il);
    void (*embed)(struct fwd *f, const void *ends); /* f->x = the embedded tokens of the batch */
    void (*layer)(struct fwd *f, const void *layer, int il);
    /* Compute the results that the batch requests, from f->x. */
    struct model_out (*output)(struct fwd *f, const void *ends);
};

#define ARCH(id) extern const struct arch arch_##id;
#include "arch/arch.def"
#undef ARCH

/* ---- binding: names -> weights, shapes checked; the first failure sticks ---- */

struct binder {
    struct model *m;
    const struct checkpoint *checkpoint;
    const char *prefix;           /* prefix of metadata keys: "llama" */
    const struct tensor_row *row; /* rows of the architecture, [n_row] */
    int n_row;
    uint8_t *bound; /* [n_tensor] */
    uint8_t *read;  /* [n_meta] keys already read */
    struct err *e;
    int rc;
};

/* Return the value of a key that the architecture declares (KEY_READ) and mark it as read. NULL if
 * the key is absent or not declared. A value may be null (META_NONE). */
const struct meta *config_meta(struct binder *b, const char *key);
bool config_has(const struct binder *b, const char *key); /* true if declared, even if absent */
/* Reject with "PATH: config.json: FIELD: ..." or "PATH: metadata ARCH.KEY: ...". Keeps the first
 * failure. */
void config_refuse(struct binder *b, const char *key, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Return the value of a declared key. If the key is absent: the declared default. If there is no
 * default or the value is null: fallback. Integers are checked against [lo, hi]; fallback < lo
 * means required. Reals are finite; otherwise may be NAN. */
int config_int(struct binder *b, const char *key, int64_t lo, int64_t hi, int64_t fallback);
double config_real(struct binder *b, const char *key, double fallback);
bool config_bool(struct binder *b, const char *key, bool fallback);
/* Check that every key was read, is idle, or has its only accepted value. Rejects other keys, or
 * warns about them (keys.def). */
void config_check_keys(struct binder *b);
/* Read the keys common to all decoders, then the architecture's own, then check all keys. */
void config_read(struct binder *b);
bool config_is_hf(const struct binder *b);
/* config_window returns "attention.sliding_window", 0: none. config_layer_types applies it to the
 * layers listed in "layer_types"; false if there is no list. */
int config_window(struct binder *b);
bool config_layer_types(struct binder *b, struct config *c, int window);

/* Bind stem.weight, and stem.bias as `bias` defines. `stem` is a name of tensors.def with at most
 * one %d for the layer number. Sizes are the layer's; il is -1 outside layers. */
void bind_linear(struct binder *b, struct linear *l, const char *stem, int il, enum bias bias);
void bind_norm(struct binder *b, struct norm *n, const char *stem, int il);
/* Bind one matrix per expert: stem.weight with three dimensions, or stem.E.weight for each expert
 * E. */
void bind_experts(struct binder *b, struct linear *l, const char *stem, int il);
void bind_table(struct binder *b, struct tensor *t, const char *stem); /* an embedding */
/* l uses the bound tensor t */
void bind_tied(struct binder *b, struct linear *l, const struct tensor *t);
/* Return the f32 [n] values of a tensor that no table describes; NULL if the file has none. */
const float *bind_extra(struct binder *b, const char *name, int64_t n);
/* Return the number of scratch buffer `name`, grown to at least this size per row or per logits
 * row. */
int bind_rows(struct binder *b, const char *name, int64_t per_row);
int bind_outputs(struct binder *b, const char *name, int64_t per_out);
int bind_fixed(struct binder *b, const char *name, int64_t n); /* for a batch of any size */
/* Bind all parts of the architecture, then check that the file has no unused tensor. */
void bind_all(struct binder *b);

/* ---- a forward pass ---- */

struct fwd {
    struct model *m;
    const struct batch *batch, *on_device; /* counts in both; ops read arrays of on_device */
    int n_row, il;
    float *x;     /* f32 [n_row, d]: the residual stream */
    float *h, *y; /* f32 [n_row, d]: architectures' within a layer; h also holds norm results */
};

static inline float *fwd_at(const struct fwd *f, int scratch)
{
    return f->m->scratch.v[scratch].at;
}

/* linear.c: the only caller of linear ops. y f32 [n_row, n_out]; _add: y += . The row count is f's,
 * except in fwd_linear. */
void fwd_linear(struct fwd *f, float *y, const struct linear *l, const float *x, int n_row);
void fwd_linears(struct fwd *f, const struct output *out, int n, const struct input *in);
void fwd_linear_add(struct fwd *f, float *y, const struct linear *l, const float *x);
void fwd_experts(struct fwd *f, float *y, const struct linear *l, const float *x,
                 const struct route *r, bool by_entry);
void fwd_glu_linears(struct fwd *f, float *y, const struct glu *g, const struct input *in);

/* block/plain.c: operations between blocks. All f32 [n_row, n]. */
void fwd_norm(struct fwd *f, float *y, const float *x, const struct norm *n); /* y may be x   */
void fwd_add(struct fwd *f, float *x, const float *y);                        /* x += y, d wide */
void fwd_scale(struct fwd *f, float *x, float by);                            /* x *= by, d wide */
/* logits only; cap 0: no effect */
void fwd_softcap(struct fwd *f, struct model_out *out, float cap);
/* Return the norm of x as a block's input. The block computes it on use, fused if the backend
 * supports that. */
struct input fwd_normed(struct fwd *f, const float *x, const struct norm *n);
struct input fwd_plain(const float *x);
const float *fwd_made(struct fwd *f, struct input in,
                      int64_t n); /* materialize the input, f32 [n_row, n] */

/* block/attn.c: y = the block of `in`; _add: x += it, in fewer passes. An architecture that inserts
 * its own operations calls the steps below directly. */
void bind_attn(struct binder *b, struct attn_block *a, int il);
void fwd_attn(struct fwd *f, float *y, struct input in, const struct attn_block *a);
void fwd_attn_add(struct fwd *f, float *x, struct input in, const struct attn_block *a);
void fwd_qkv(struct fwd *f, struct input in, const struct attn_block *a); /* q, k, v of `in`     */
void fwd_attend(struct fwd *f, const struct attn_block *a); /* head norms, rope, KV, attention */
void fwd_attn_out(struct fwd *f, float *y, const struct attn_block *a); /* output projection    */

/* block/ffn.c: y = the block of `in`; _add: x += it, in fewer passes. */
void bind_glu(struct binder *b, struct glu_block *g, int il);
void fwd_glu(struct fwd *f, float *y, struct input in, const struct glu_block *g);
void fwd_glu_add(struct fwd *f, float *x, struct input in, const struct glu_block *g);

/* block/moe.c: y = the mixture of `in`; _add: x += it. The layer's config gives the expert
 * counts. */
void bind_moe(struct binder *b, struct moe_block *m, int il, bool normalize);
void fwd_moe(struct fwd *f, float *y, struct input in, const struct moe_block *m);
void fwd_moe_add(struct fwd *f, float *x, struct input in, const struct moe_block *m);

/* block/ends.c: the ends of most decoders, and their parts. */
void decoder_bind(struct binder *b, void *ends);
void decoder_embed(struct fwd *f, const void *ends);
struct model_out decoder_output(struct fwd *f, const void *ends);
void fwd_embed(struct fwd *f, float *x, const struct tensor *embd);
/* Gather the result rows of x into f->h. From then on f's rows are the result rows. */
float *fwd_wanted(struct fwd *f);
/* Compute results from the result rows h: logits rows pass through the head, hidden rows are
 * copied. Both stay on the device until model_forward fetches them. */
struct model_out fwd_head(struct fwd *f, const float *h, const struct decoder_ends *e);

/* Report an intermediate in scratch to the trace callback. Ops are not fused while tracing. */
void trace(struct fwd *f, const char *name, const float *x, int64_t n);

/* ---- plan.c, rope.c ---- */

/* Allocate vectors, scratch, rope tables, KV pages. */
int plan_memory(struct model *m, const struct model_options *o, struct err *e);
void plan_release(struct model *m);

/* Rope tables on the device: cos and sin, computed in f64. After rope_reach(pos) they cover
 * positions up to pos. */
int rope_open(struct model *m, int pos_max, struct err *e);
void rope_reach(struct model *m, int pos);
void rope_close(struct model *m);

#endif
