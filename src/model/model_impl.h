/* model_impl.h - private to src/model: shared declarations of loading, binding, the forward pass,
 * blocks and architectures.
 *
 *   keys.c     accepted metadata keys: each key is read, known to be idle, or rejected
 *   config.c   metadata -> struct config
 *   bind.c     tensors -> weights; checks names and shapes with format/tensors.def
 *   form/      quantized weights as other libraries publish them
 *   quantize.c quantization of float weights while they are packed
 *   plan.c     memory: scratch, rope tables, KV pages
 *   load.c     open and close
 *   arch/      one file per architecture, with its config, binding and wiring
 *   block/     parts of layers and ends: blocks compute, architectures wire them
 *   linear.c   linear ops of layers, with the additions of adapters
 *   forward.c  one batch: copies, embedding, layers, results
 * One thread at a time calls these functions: first the loading thread, then the engine's
 * thread. */
#ifndef QUOTH_MODEL_IMPL_H
#define QUOTH_MODEL_IMPL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "model.h"

#include <math.h>

/* ---- metadata of an architecture ---- */

enum rope_scaling {
    ROPE_NONE,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONG,
    ROPE_PROPORTIONAL
};

/* A type of rope_parameters in config.json. All data are static. */
struct rope_type {
    const char *name; /* NULL: end of the list */
    enum rope_scaling scaling;
    /* key that must be above 0 for this meaning of the type's name; NULL if none */
    const char *with;
};
/* Types of most classes. "mrope" has one position per axis of an image; for text, all these
 * positions are equal. */
#define ROPE_TYPES                                                                                 \
    {"none", ROPE_NONE, NULL}, {"default", ROPE_NONE, NULL}, {"linear", ROPE_LINEAR, NULL},        \
        {"dynamic", ROPE_DYNAMIC, NULL}, {"llama3", ROPE_LLAMA3, NULL}, {"yarn", ROPE_YARN, NULL}, \
        {"longrope", ROPE_LONG, NULL}, {"su", ROPE_LONG, NULL},                                    \
    {                                                                                              \
        "mrope", ROPE_NONE, NULL                                                                   \
    }
#define ROPE_TYPES_END                                                                             \
    {                                                                                              \
        NULL, ROPE_NONE, NULL                                                                      \
    }

struct rope_config {
    double base;
    int d_rot;
    bool neox;
    enum rope_scaling scaling;
    double factor;               /* factor of the scaling, for all types except ROPE_NONE */
    double low_freq, high_freq;  /* llama3: bounds of the ramp */
    double beta_fast, beta_slow; /* yarn: bounds of the ramp, rotations */
    bool ramp_whole;             /* yarn: true if the ramp's bounds are rounded to whole lanes */
    bool ramp_forward; /* yarn: true if the ramp's end is clamped to its start (llama.cpp) */
    /* proportional: share of rotated lanes; the angles of all other lanes are 0 */
    double rotated_share;
    double magnitude; /* factor of cos and sin */
    /* beta of the factor 1 + beta ln(1 + floor((position + beta_add) / context_original)) of cos
     * and sin */
    double beta;
    int beta_add; /* addend of the position in the factor of beta: 0 or 1 */
    /* context length in training, before the scaling; for dynamic scaling, the largest context with
     * the original base */
    int context_original;
    /* divisors of frequencies in the file, f32 [d_rot / 2], borrowed; NULL if none */
    const float *freq_factor;
    /* divisors of frequencies for texts of up to context_original tokens, and for longer texts, f32
     * [d_rot / 2], in the model's arena; NULL if none */
    const float *short_factor, *long_factor;
};

/* Rope of a layer, as an index into the config's ropes. ROPE_OFF: no rope (NoPE). */
enum { ROPE_OFF = -1, ROPE_MAIN = 0, ROPE_LOCAL = 1, ROPES_MAX };

/* Sizes and mechanism of one layer. config.c sets the values common to all layers. The
 * architecture's config function changes the values of layers that differ. */
struct layer_config {
    int n_head, n_head_kv, d_head, d_ff;
    /* sizes of a mixture of experts; 0 if the layer has none */
    int n_expert, n_expert_used, d_expert;
    int d_latent; /* width of the experts' inputs and results; 0: the width of the model */
    /* width of a feed-forward block that all rows use in addition to their experts; 0 if none */
    int d_shared;
    int window;       /* sliding window in tokens; 0: the layer attends to all earlier positions */
    int chunk;        /* chunk in tokens, outside of which a row attends to nothing; 0: no chunks */
    int n_later;      /* number of later positions that a row attends to; encoders only */
    int rope;         /* index of the layer's rope; ROPE_OFF if none */
    float attn_scale; /* scale of attention scores       */
    /* number of the layer whose memory contains the keys and values. reuses_kv: the layer computes
     * no keys and values, and attends to the keys and values of an earlier layer of equal sizes */
    int kv_layer;
    bool reuses_kv;
    bool recurrent;  /* true: the layer has recurrent state instead of attention */
    bool v_is_k;     /* true: the values are the results of the matrix k */
    float softcap;   /* cap of cap * tanh(score / cap) of attention; 0: no cap */
    bool cuts_gates; /* true: gates below gate_cut standard deviations above their mean are 0 */
    float gate_cut;
};

/* Order of a layer's blocks (block/layer.c). 2_NORMS: parallel blocks, each with its own norm.
 * POST: serial blocks, with norms of the sums. */
enum block_order { BLOCKS_SERIAL, BLOCKS_PARALLEL, BLOCKS_2_NORMS, BLOCKS_POST };

/* Biases of linear layers. BIAS_HELD: a layer has a bias if the file contains one (GGUF). */
enum bias { BIAS_NONE, BIAS_HELD, BIAS_NEEDED };

/* Published form of quantized weights: values of quantization_config that the forms use. */
struct form;
enum { GROUP_SIZES_MAX = 8 };
struct quantization {
    const struct form *form; /* form of the weights, static; NULL: weights are not quantized */
    int bits, bits_set;      /* number of bits of a code, and set of possible numbers, 1 << bits */
    int group_size[GROUP_SIZES_MAX], n_group_size; /* inputs per scale; -1: all inputs */
    /* number of outputs and inputs of a block with one scale; 0: no blocks */
    int block_out, block_k;
    bool any_shape;  /* true: bits and group sizes may differ per module */
    bool per_output; /* true: matrices with a scale per output are possible */
    unsigned flags;  /* flags of the form; the file of the form defines them */
};

/* Sizes of latent attention. A head of q or k has d_nope values without rope, then d_rope values
 * with rope. A head of v has d_v values. */
struct latent {
    int q_rank;  /* width of compressed queries; 0: queries are not compressed */
    int kv_rank; /* width of compressed keys and values */
    int d_nope, d_rope, d_v;
    float row_eps; /* epsilon of the norms of compressed rows */
};

/* Ids of the vocabulary that belong to another part, such as images. The other part has its own
 * embedding for its ids. */
struct other_ids {
    const char *begin; /* prefix of the names of the part's tensors, static */
    int first, end;    /* range [first, end) of the ids */
    int n_row, d;      /* number and width of the rows of the part's embedding */
    float eps;         /* epsilon of the part's norms */
};

enum { STARTS_MAX = 4, PADDED_MAX = 3, OTHERS_MAX = 2 };
struct config {
    /* number of layers after the last layer, which predict further tokens. quoth leaves them out */
    int n_next;
    int n_layer, d, d_ff, n_head, n_head_kv, d_head, n_vocab, context_train;
    /* number of encoder layers, which are the first layers; 0: no encoder. All further layers
     * belong to a decoder that attends to the encoder's output */
    int n_encoder;
    int n_start; /* tokens with which the decoder's text begins */
    int32_t start[STARTS_MAX];
    /* width of the embedding and of hidden states; d if the model does not project them */
    int d_embd;
    /* number of rows of the tables of positions and of segments, first position, and number of
     * labels */
    int n_position, n_segment, position0, n_label;
    bool pads_apart;   /* true: tokens `pad` have the position before the first, and do not count */
    int pooling_type;  /* pooling of embeddings, as GGUF's number; 0 if none */
    int class_pooling; /* pooling of a classifier, as GGUF's number */
    int64_t length_max;        /* maximum length of a text, in tokens */
    const struct meta *labels; /* names of the labels, borrowed; NULL if none */
    enum class_act class_act;  /* function of a classifier's logits */
    float rms_eps;             /* epsilon of the norms */
    bool plain_norms;          /* true: no LayerNorm has weights */
    /* addend of the weights of norms, 0 or 1, because files contain g - norm_add */
    float norm_add;
    /* true: q and k heads are normalized; only some architectures read this field */
    bool head_norms;
    bool v_norms; /* true: heads of values are normalized, by RMSNorm without weights */
    enum block_order order;
    enum curve curve; /* activation of feed-forward blocks */
    /* rule that selects the experts of a row, in all mixtures; binding sets the vectors */
    struct route_spec route;
    /* true: a layer with a mixture also has a feed-forward block, and the architecture binds the
     * mixture */
    bool ffn_and_moe;
    struct clamped_glu clamped; /* gated unit of the experts; limit 0: `curve` */
    bool own_curve;             /* true: the activation is arch.own_curve */
    bool no_gate; /* true: feed-forward blocks have no gate, although the table has one */
    enum bias qkv_bias, o_bias, ffn_bias, head_bias;
    bool tied; /* true: the head may share the embedding's tensor */
    struct quantization quant;
    /* tokens of images, video and audio, which the model replaces by the token `pad` */
    int32_t padded[PADDED_MAX], pad;
    int n_padded;
    struct other_ids other[OTHERS_MAX]; /* ids with embeddings of other parts [n_other] */
    int n_other;
    float logit_softcap; /* cap of cap * tanh(logit / cap); 0: no cap */
    float qkv_limit;     /* limit of q, k and v; 0 if none */
    /* T5: number of buckets of distances, and the largest possible first distance of the last
     * bucket; 0: no biases by distance */
    int n_bucket, bucket_reach;
    /* exponent of ALiBi: the smallest slope of 2^n heads is 2^-alibi; 0: no slopes */
    double alibi;
    float alibi_scale; /* factor of the slopes */
    /* factors of embeddings, residuals and logits; 1: none */
    float embed_scale, residual_scale, logit_scale;
    int n_rope;                         /* number of ropes; 0 if none    */
    struct rope_config rope[ROPES_MAX]; /* ropes by ROPE_MAIN, ROPE_LOCAL */
    struct layer_config *layer;         /* configs of the layers [n_layer], in the model's arena */
    const struct latent *latent; /* sizes of latent attention, in the model's arena; NULL if none */
    const void *own;  /* values of the architecture, in the model's arena; NULL if none */
    size_t own_bytes; /* size of `own` */
};

/* ---- weights ---- */

/* A norm of rows, or of each part of a row (a LayerNorm of heads with weights per head). */
struct norm {
    const float *g; /* weights, f32 [n], borrowed from the model; NULL if none */
    const float *b; /* LayerNorm: bias, f32 [n], borrowed from the model; NULL if none */
    float eps;
    /* n: number of values of a row. n_part: 0 for RMSNorm, otherwise the number of parts of a
     * LayerNorm. */
    int n, n_part;
};

struct fwd;

/* Grouped-query attention. Row scratch: q [n_head * d_head], k [n_head_kv * d_head], v [n_head_kv *
 * d_v], attn [n_head * d_v]. d_v equals d_head, unless bind_attend received another size. */
struct attn_block {
    /* matrices q [n_head * d_head, d], k and v [n_head_kv * d_head, d], o [d, n_head * d_v] */
    struct linear q, k, v, o;
    /* true: the block has no k and v, and uses the keys and values of layer il */
    bool reuses_kv;
    /* true: the block has no matrix v; the values are the results of k */
    bool v_is_k;
    struct norm q_norm, k_norm; /* norms over d_head, before rope; g is NULL if none */
    /* norm of values over d_head, with weights of 1; g is NULL if none */
    struct norm v_norm;
    /* norms of rows, or of heads with weights per head, before rope; g is NULL if none */
    struct norm q_row, k_row;
    /* Rotate and normalize the heads of q and k, f32 [n_row, n_head * d_head] and [n_row, n_head_kv
     * * d_head], in place, and store k and the values (fwd_put). NULL: apply the norms, then one
     * rope. */
    void (*put)(struct fwd *f, float *q, float *k, const struct attn_block *a);
    float limit; /* limit of q, k and v, which are clamped to [-limit, limit]; 0 if none */
    struct attn_spec spec; /* spec.slope: slopes of ALiBi, a vector of the model */
    int il, rope;          /* layer index in the KV store; index of the rope, or ROPE_OFF */
    int at_q, at_k, at_v, at_attn;
};

/* Latent attention (block/latent.c). Row scratch: q_a [q_rank], kv_a [kv_rank + d_rope], latent
 * [kv_rank], k_rope [d_rope], q_heads [n_head * (d_nope + d_rope)], values [n_head * d_v], and the
 * scratch of attn_block for one KV head of kv_rank + d_rope values. */
struct latent_block {
    const struct latent *size; /* borrowed from the model's arena */
    /* norms of compressed rows; g of q_norm is NULL if queries are not compressed */
    struct norm q_norm, kv_norm;
    struct linear q_a, kv_a; /* matrices [q_rank, d] and [kv_rank + d_rope, d] */
    /* matrices of each head: k_b [kv_rank, d_nope], which is transposed, and v_b [d_v, kv_rank] */
    struct linear k_b, v_b;
    /* q is q_b [n_head * (d_nope + d_rope), q_rank], or [.., d]; o [d, n_head * d_v] */
    struct attn_block attn;
    int rope; /* index of the rope of the last d_rope values of a head; ROPE_OFF if none */
    int at_q_a, at_kv_a, at_latent, at_k_rope, at_head, at_value;
};

/* A feed-forward block. Row scratch: gate, up [d_ff]. */
struct ffn_block {
    bool gated; /* true: the block has a gate */
    /* Apply the activation to y f32 [n], for a block without a gate. NULL: apply `curve`. */
    void (*act)(struct fwd *f, float *y, int64_t n, const void *param);
    /* parameter of act, borrowed from the model's arena; NULL if none */
    const void *act_param;
    struct linear gate, up, down; /* matrices gate and up [d_ff, d], and down [d, d_ff] */
    enum curve curve;
    /* factor of the gate's results before the activation, in fwd_ffn_inner only; 0: none */
    float gate_scale;
    int at_gate, at_up;
};

/* A mixture of experts. Each expert is a feed-forward block, with a gate or without one. A row uses
 * n_used experts, which the router's logits select by the rule `route`. The experts may have
 * narrower inputs and results of d_in values, which are projections of the rows. A block `shared`
 * of all rows may be added to the result, with the factor sigmoid(shared_gate x). Row scratch:
 * logits [n_expert], gate, up [n_used * d_expert], out [n_used * d_in], narrow, mixed [d_in], share
 * [1], part [d], and the arrays of struct route. */
struct moe_block {
    struct linear router; /* matrix [n_expert, d] */
    bool gated;           /* true: the experts have a gate */
    /* matrices of each expert: gate and up [d_expert, d_in], down [d_in, d_expert] */
    struct linear gate, up, down;
    bool narrows; /* true: the experts' inputs and results are projections */
    /* matrices narrow [d_in, d] of inputs and widen [d, d_in] of results */
    struct linear narrow, widen;
    enum curve curve;
    struct clamped_glu clamped; /* limit 0: the gated unit is curve(gate) * up */
    int n_expert, n_used;
    struct route_spec route; /* `bias` and `scale` are vectors of the model */
    bool shares;             /* true: the mixture has a shared block */
    struct ffn_block shared;
    struct linear shared_gate; /* matrix [1, d]; n_out is 0 if there is no gate */
    int at_logits, at_gate, at_up, at_out, at_narrow, at_mixed, at_share, at_part;
    int at_expert, at_weight, at_entry, at_row, at_first;
};

/* The second block of a layer: a mixture of experts, or a feed-forward block if moe.n_expert is
 * 0. */
struct feed_block {
    struct moe_block moe;
    struct ffn_block ffn;
};

/* Attention of a decoder's rows to the source ("Attention Is All You Need", arXiv 1706.03762). k
 * and v of the source are computed once, from the encoder's output. They are stored in the pages of
 * the source's positions, which contain no other K and V of this layer. Row scratch: the scratch of
 * attn_block. */
struct cross_block {
    /* matrices q [n_head * d_head, d], k and v [n_head_kv * d_head, d], o [d, n_head * d_head] */
    struct linear q, k, v, o;
    struct attn_spec spec;
    int il; /* layer index in the KV store, equal to that of the layer's attn_block */
    int at_q, at_k, at_v, at_attn;
};

/* A layer of a decoder. g of a norm is NULL if the architecture has no such norm. */
struct decoder_layer {
    struct norm attn_norm, attn_post, ffn_norm, ffn_post; /* norms before and after the blocks */
    struct attn_block attn;
    bool crosses; /* true: the layer also attends to a source, after self-attention */
    struct norm cross_norm, cross_post;
    struct cross_block cross;
    struct feed_block feed;
};

/* The ends of a decoder: embeddings of tokens and positions, their norm, output norm and head. g of
 * a norm is NULL if the model has no such norm. Result scratch: logits [n_vocab]. */
struct decoder_ends {
    struct tensor embd;     /* token embedding [n_vocab, d_embd] */
    struct tensor position; /* table [n_position, d]; data is NULL if positions are not learned */
    struct norm embd_norm, norm;
    /* matrix [n_vocab, d_embd] of the head; the embedding's tensor if the head is tied */
    struct linear head;
    int at_logits;
};

/* Inputs of single layers: an embedding of the token plus a projection of the residual stream
 * before the layers. Row scratch: all, projected [n_layer * d_input]. */
struct layer_inputs {
    int d_input, n_input;  /* width of a layer's input, and rows of the table */
    struct tensor table;   /* [n_input, n_layer * d_input] */
    struct linear project; /* matrix [n_layer * d_input, d] */
    struct norm norm;      /* norm of each layer's part of the projection, over d_input */
    int at_all, at_projected, at_id;
};

/* The embedding of ids of another part: norm(project(norm(table[id - first]))). The outer norm has
 * no weights. Row scratch: ids [1], embedding [d]. */
struct other_embedding {
    const struct other_ids *ids; /* ids of the part, borrowed from the config */
    struct tensor table;         /* [n_row, d] */
    struct norm norm, project_norm;
    struct linear project; /* matrix [width of the model, d] */
    int at_id, at_row;
};
struct other_embeddings {
    struct other_embedding part[OTHERS_MAX];
    int n;
};

/* The use of a layer's own input. Row scratch: gate, own [d_input]. */
struct input_block {
    struct linear gate, project; /* matrices gate [d_input, d], project [d, d_input] */
    struct norm norm;
    enum curve curve;
    int d_input, il, at_all, at_own, at_gate;
};

/* The ends of a model with several residual streams: the matrices [d, d] of streams [1, n_stream)
 * before and after the layers. Row scratch: streams, predictions [n_stream * d]. */
struct altup_ends {
    int n_stream;
    struct linear in[STREAMS_MAX], out[STREAMS_MAX];
    int at[2];
};

/* Prediction and correction of a layer's streams. Row scratch: router [n_stream], coefficients
 * [n_stream^2]. */
struct altup_block {
    struct norm router_norm;
    /* router [n_stream, d], predict [n_stream^2, n_stream], correct [n_stream, n_stream] */
    struct linear router, predict, correct;
    int n_stream, active; /* active: index of the stream that the layer computes */
    int at[2], at_modal, at_coef;
};

/* The ends of an encoder: embeddings of tokens, positions and segments, and norms. */
struct encoder_ends {
    struct tensor token, position,
        segment;  /* tables [n_vocab, d], [n_position, d], [n_segment, d] */
    int at_place; /* scratch: row of the table of positions, of each row; only with pads_apart */
    /* norms of the embedded rows, and after the layers; g is NULL if none */
    struct norm embd_norm, norm;
};

/* The ends of an encoder and of the decoder that attends to its output. */
struct cross_ends {
    /* first member, because functions of decoders receive this address */
    struct decoder_ends decoder;
    struct encoder_ends encoder;
};

/* A head, with n linear layers after pooling. n 0: the result is the pooled row. */
enum { HEAD_LAYERS_MAX = 8 };
struct head_layers {
    struct head_layer {
        struct linear l;
        bool curved; /* true: `curve` is applied to the result */
        enum curve curve;
        struct norm norm; /* LayerNorm of the result; g is NULL if none */
    } layer[HEAD_LAYERS_MAX];
    int n, n_out; /* n_out: values of the result; 0: the model lacks the head */
};

/* A vector that ops read, f32 [n]. Binding sets a host address. plan_open replaces the host address
 * by a device address. */
struct vector {
    /* address of the field with the vector, in a norm or a linear layer, borrowed */
    const float **at;
    int64_t n;
    bool index; /* true: the values are i32 [n] and not parameters; n_byte equals that of f32 */
};

/* ---- scratch: activations on the device; all layers share the buffer of one name ---- */

struct scratch {
    const char *name; /* name of the buffer, static text */
    /* number of f32 or i32 values per row of a batch, and per logits row */
    int64_t per_row, per_out;
    int64_t fixed; /* number of values per batch */
    /* f32 or i32 [n_row * per_row + n_out * per_out + fixed], borrowed from model.memory, 64-byte
     * aligned; set by plan.c */
    float *at;
};

struct arch;
struct model {
    const struct arch *arch;             /* static */
    const struct checkpoint *checkpoint; /* source of the model, borrowed */
    struct backend *backend;             /* device, borrowed */
    const struct additions *additions;   /* borrowed; NULL if none */
    struct arena arena;                  /* weight descriptions, converted vectors, rope tables */
    struct config config;
    struct model_info info;

    /* all tensors that the backend packs, borrowed from structs in `ends` and `layer` */
    VEC(struct tensor *) tensor;
    struct weights *weights;   /* packed tensors, owned */
    VEC(struct vector) vector; /* norms and biases, which plan.c copies to the device */
    float *vectors;            /* all vectors on the device, owned f32 [n_vector_float] */
    int64_t n_vector_float;
    /* structs of the architecture, in the arena: one for the ends, and layer [n_layer] */
    void *ends, *layer;
    size_t layer_bytes; /* size of one struct in `layer` */
    /* shape of KV per layer [n_layer], in the arena; zeros for a layer without KV */
    struct kv_geometry *kv_geometry;
    int64_t k_max;             /* columns of the widest linear layer         */
    int d_head_max, group_max; /* maxima over all attention blocks           */
    int used_max;              /* maximum experts per row over all mixtures; 0 if none */

    struct rope_spec rope[ROPES_MAX]; /* ropes [config.n_rope] */
    struct rope_rows {
        /* tables of `rope` on the device with cos, then sin: owned f32 [2, pos_max, d_rot / 2] */
        float *table;
        /* staging buffer on the host for cos, then sin: f32 [2, ROPE_ROWS, d_rot / 2], in the
         * arena */
        float *made;
        /* frequencies of the short list and the long list, f64 [2, d_rot / 2], in the arena */
        double *freq;
    } rope_rows[ROPES_MAX];
    int n_rope_row[2]; /* number of computed positions of the short list and of the long list */
    struct kv_store kv;
    int64_t state_floats; /* values of a sequence's recurrent state, of all layers; 0 if none */
    struct state_store states;
    struct batch_limits limits;
    VEC(struct scratch) scratch;
    struct head_layers head[N_HEAD]; /* heads by HEAD_EMBED, HEAD_CLASS */
    bool headless;                   /* true: a decoder without logits */
    /* true: packing encodes matrices in other formats (quantize.c) */
    bool quantized;
    int at_head[2];       /* numbers of the scratch of heads */
    int at_x, at_h, at_y; /* numbers of forward.c's scratch buffers */
    float *memory;        /* all scratch on the device, owned [n_scratch] */
    float *host;          /* host copy of scratch, owned [n_scratch]; equals `memory` if is_host is
                             true */
    int64_t n_scratch;
    /* tokens of a batch with padding tokens [limits.n_row], in the arena; NULL if none */
    int32_t *token;
    trace_fn *trace; /* NULL if none */
    void *trace_ctx; /* borrowed: argument of `trace` */
};

/* Bind a checkpoint without packing it (load.c). `x` receives an explanation; NULL if none. The
 * caller closes *out, also after an error. Errors: those of model_open. */
int model_bind(struct model **out, const struct checkpoint *c, struct backend *b,
               const struct explain *x, struct err *e);
/* Return the architecture with this name, static; NULL if none (load.c). */
const struct arch *model_arch_find(const char *name);
/* Return the angle per position of lane i, in radians (rope.c). is_long: use the long list of
 * divisors. */
double rope_freq(const struct rope_config *r, int i, bool is_long);

/* ---- architectures ---- */

struct binder;
struct fwd;

/* Use of a metadata key by an architecture. */
enum key_use {
    KEY_READ, /* key that config.c or the architecture reads; `value` is the default, NAN if none */
    KEY_IDLE, /* key without an effect on results; `why` gives the reason */
    KEY_ONLY, /* key that is accepted only with `value`; `why` gives the reason */
    KEY_MUST, /* key like KEY_ONLY that is also required in a GGUF */
};
/* A metadata key and its use by the architecture. `key` follows "ARCH.". The key of a config.json
 * field without a GGUF name is "config.FIELD". The texts are static. */
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
#define MUST(key, value, why)                                                                      \
    {                                                                                              \
        key, KEY_MUST, value, why                                                                  \
    }
#define KEYS_END                                                                                   \
    {                                                                                              \
        NULL, KEY_IDLE, NAN, NULL                                                                  \
    }

struct arch_convert;
/* An architecture. The rows of tensors.def under its name define its tensor names and shapes. All
 * data are static. */
struct arch {
    const char *name;
    /* Keys of config.json with the defaults of the reference class, and keys of a GGUF, in addition
     * to keys.def. Each list ends with KEYS_END. gguf_key is NULL if none. */
    const struct config_key *hf_key, *gguf_key;
    /* reason for rejecting GGUF files, static; NULL: GGUF files are accepted */
    const char *gguf_why;
    /* true: GGUF files pair rotary lanes as in neox. Hugging Face checkpoints without hf_adjacent
     * have the same pairs */
    bool gguf_neox;
    bool gguf_tiled;  /* true: GGUF files have another order of the heads of recurrent layers */
    bool gguf_curve;  /* true: the activation in the metadata of a GGUF file is used */
    bool hf_adjacent; /* true: pairs in Hugging Face checkpoints are adjacent lanes */
    /* true: in Hugging Face checkpoints, attn_qkv groups the rows by KV head: its q heads, k, v */
    bool hf_groups;
    /* true: in Hugging Face checkpoints, rows of gate and up alternate in the tensor of all
     * experts, and their biases */
    bool hf_pairs;
    /* true: GGUF files have gate and up of experts in separate tensors, in contrast to Hugging Face
     * checkpoints */
    bool gguf_halves;
    /* true: the widths of feed-forward blocks and the numbers of KV heads may be lists with a value
     * per layer */
    bool gguf_lists, hf_lists;
    /* true: in GGUF files, layers with 0 KV heads are recurrent. Their list needs gguf_lists */
    bool gguf_kinds;
    /* name of the output norm in tensors.def; NULL: output_norm */
    const char *output_norm;
    /* keys of a config.json whose list, or text, has an item or a character per layer. The first of
     * them in the file gives the number of layers. NULL ends the list. hf_layers NULL: no list */
    const char *const *hf_layers;
    /* true: all layers are recurrent. The config has neither heads of attention nor feed-forward
     * blocks */
    bool no_attention;
    /* true: the metadata have no rope, because no layer has a rope or the rope is fixed */
    bool no_rope;
    /* true: each row attends to all rows of its sequence, which is computed in one step. The model
     * returns hidden states, but no logits. */
    bool encoder;
    /* true: the first layers belong to an encoder, and all further layers to a decoder that attends
     * to its output. The ends are struct cross_ends, the layers struct decoder_layer */
    bool crosses;
    /* beginning of the names of the layers of an encoder without its decoder; NULL: no beginning */
    const char *part;
    bool partial_rope; /* true: rope may rotate only the first lanes of a head */
    /* types of rope_parameters of the class; NULL: ROPE_TYPES */
    const struct rope_type *rope_type;
    /* field of config.json with the epsilon of LayerNorm; NULL: the architecture has RMSNorm */
    const char *layer_norm_eps;
    bool norm_bias;   /* true: each LayerNorm has a bias; false: no LayerNorm has a bias */
    bool plain_norms; /* true: the table has no LayerNorm, because no LayerNorm has weights */
    /* parts of the conversion that only this architecture has (convert_impl.h); NULL if none */
    const struct arch_convert *convert;
    enum curve curve; /* activation of feed-forward blocks if the metadata have none */
    /* name of the default activation if the architecture computes it (ffn_block.act), static; NULL:
     * `curve` */
    const char *own_curve;
    int ffn_times; /* default width of feed-forward blocks as a multiple of d; 0 if none */
    /* sizes of the architecture's structs for ends and layers; 0: sizes of decoder_ends and
     * decoder_layer */
    size_t ends_bytes, layer_bytes;
    /* beginnings of raw names, or ends after a dot, of tensors without an effect on results. NULL
     * ends the list. left_out NULL: no list */
    const char *const *left_out;
    /* description of the tensors in left_out, static; NULL if left_out is NULL */
    const char *left_out_why;
    /* Set d_head, the rotated lanes of ROPE_MAIN, and `own` by keys of the architecture. c already
     * has the numbers of layers and heads, widths and epsilon. NULL: heads have their usual
     * sizes. */
    void (*heads)(struct config *c, struct binder *b);
    /* Return a size of tensors.def that no common key gives. NULL if no tensor has such a size. */
    int64_t (*size)(const struct config *c, enum tensor_size size);
    /* Adjust the config that config.c read from the common keys. NULL if no adjustment is needed. b
     * keeps the first failure. */
    void (*config)(struct config *c, struct binder *b);
    /* functions of the architecture; NULL: the function of most decoders (block/layer.c,
     * block/ends.c) */
    void (*bind_ends)(struct binder *b, void *ends);
    void (*bind)(struct binder *b, void *layer, int il);
    /* Set f->x to the embedded tokens of the batch. */
    void (*embed)(struct fwd *f, const void *ends);
    void (*layer)(struct fwd *f, const void *layer);
    /* Compute the results that the batch requires, from f->x. */
    struct model_out (*output)(struct fwd *f, const void *ends);
};

#define ARCH(id) extern const struct arch arch_##id;
#include "arch/arch.def"
#undef ARCH

/* ---- binding: names -> weights; checks shapes and keeps the first failure ---- */

enum { BOUND_VALUES = 2 };

enum { WHY_BYTES = 400 }; /* size of a reason */
/* State of a load. */
struct binder {
    struct model *m;                     /* model that is being loaded, borrowed */
    const struct checkpoint *checkpoint; /* borrowed */
    const char *prefix;                  /* prefix of metadata keys, borrowed: "llama" */
    const struct tensor_row *row; /* static: rows of the architecture in tensors.def [n_row] */
    int n_row;
    /* mark of each tensor [n_tensor], owned by the loader. 1: bound. BOUND_VALUES: bound, and not a
     * matrix of a linear layer */
    uint8_t *bound;
    uint8_t *read; /* mark of each key [n_meta], owned by the loader. 1: read */
    /* prefix of the table's names for the part that is bound, static: "enc.", "dec." or "" */
    const char *part;
    /* number of the part's first layer, which is layer 0 in names of tensors */
    int layer0;
    struct err *e;        /* borrowed: receives the first failure */
    const int32_t *order; /* last order of inputs, i32 [n_order] in the arena; NULL if none */
    int64_t n_order;
    /* values of E4M3 codes, f32 [256] in the arena; NULL before their first use */
    const float *e4m3;
    int rc;
    bool all_bound; /* true: all parts of the model are bound, so all unbound tensors are unused */
    bool any_codes; /* true: a matrix has the tensors of the checkpoint's form (form_bind) */
    /* options of the model, borrowed; NULL: the model is not computed */
    const struct model_options *options;
    struct refusal *refusal; /* borrowed; receives the first refused key; NULL if none */
    /* tensor that caused the error, or that has a name like a missing tensor; NULL if none */
    const struct tensor_info *refused;
    char refused_why[WHY_BYTES];
};

/* A refused key. */
struct refusal {
    char key[160], name[160]; /* whole key; name in the file, or flag that gave the key */
    char why[WHY_BYTES];
};

/* Return the value of a key that the architecture declares (KEY_READ), and mark the key as read.
 * NULL if the key is absent or not declared. The value may be null (META_NONE). */
const struct meta *config_meta(struct binder *b, const char *key);
/* Return the declared default of a key; NAN if none. */
double config_default(const struct binder *b, const char *key);
/* Return true if the key is declared, even if the file lacks the key. */
bool config_has(const struct binder *b, const char *key);
/* Reject a key with the error "PATH: config.json: FIELD: ..." or "PATH: metadata ARCH.KEY: ...".
 * The first failure is kept. */
void config_refuse(struct binder *b, const char *key, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Return the declaration of a key whose use differs in the text part of a model of several parts,
 * static (parts.c). NULL for all other keys, and in models of one part. */
const struct config_key *parts_row(const struct binder *b, const char *key);
/* Return the declaration of a key that a class of several parts reads even if the class of its text
 * part lacks the key, static. NULL for all other keys. */
const struct config_key *parts_added_row(const struct binder *b, const char *key);
/* Read the tokens of other parts, and the padding token by which the class replaces them. */
void parts_tokens(struct binder *b, struct config *c);
/* Read the ids of other parts that have their own embeddings. Reject ids without a row. */
void parts_ids(struct binder *b, struct config *c);
/* Read the fields of the text part that the head of the whole model uses, for every kind of text
 * part. Reject ropes that the positions of the model do not permit. */
void parts_head(struct binder *b, struct config *c);
/* Return true if the config of a model of several parts permits a tied head. */
bool parts_tied(struct binder *b);
/* Return true if the value is this text. */
bool config_is_text(const struct meta *m, const char *text);
/* Return true if item i of the list is this text. */
bool config_item_is(const struct meta *m, size_t i, const char *text);
/* Return a value as text, for an error. `out` is used for some kinds. */
const char *config_value_text(const struct meta *m, char out[80]);
/* Return the value of a declared key, or the declared default if the key is absent. Return
 * `fallback` if no default is declared or the value is null. An integer outside [lo, hi] is
 * rejected. The key is required if fallback < lo. Reals are finite. Only `fallback` may be NAN. */
int config_int(struct binder *b, const char *key, int64_t lo, int64_t hi, int64_t fallback);
/* Return the values of a declared key for the layers, int [n_layer] in the arena. The key has a
 * list with an item per layer, or one value for all layers. The defaults and errors are the same as
 * those of config_int. NULL after a failure. */
const int *config_layer_ints(struct binder *b, const char *key, int64_t lo, int64_t hi,
                             int64_t fallback);
/* Replace values of v int [n_layer] by values of single layers, "config.per_layer_config.FIELD".
 * The key must be declared. */
void config_single_ints(struct binder *b, const char *key, int64_t lo, int64_t hi, int *v);
/* Return true if the value of a declared key is an object. Reject any other value. */
bool config_object(struct binder *b, const char *key);
/* Return a finite real, with the defaults and errors of config_int. */
double config_real(struct binder *b, const char *key, double fallback);
/* Return a boolean, with the defaults and errors of config_int. */
bool config_bool(struct binder *b, const char *key, bool fallback);
/* Reject a declared key whose value is not the text `value`. An absent key and null are
 * accepted. */
void config_only_text(struct binder *b, const char *key, const char *value);
/* Check that every key was read, is idle, or has its only accepted value. All other keys are
 * rejected or logged as warnings (keys.def). */
void config_check_keys(struct binder *b);
/* Return the fate of the key at position i of the checkpoint. Write the part of the model that uses
 * the key, or the reason for not using it, to `why`. Valid after config_read, also if it failed. */
enum fate config_judge(const struct binder *b, int i, char why[WHY_BYTES]);
/* Report the fates of all keys and tensors (explain.c), also after a failure. */
void explain_all(const struct binder *b, const struct explain *x);
/* Write the name that the file has for a key: the field of config.json, or the key of a GGUF. */
void config_key_name(const struct binder *b, const char *full, char name[160]);
/* Return the types of rope_parameters of the architecture's class. */
const struct rope_type *config_rope_types(const struct arch *a);
/* Read the keys common to all decoders, then the architecture's keys, then check all keys. */
void config_read(struct binder *b);
/* Return true if the metadata are a config.json. */
bool config_is_hf(const struct binder *b);
/* Return the value of "attention.sliding_window"; 0 if none. */
int config_window(struct binder *b);
/* Set the windows of the layers by "layer_types". Return false if there is no such list, or after a
 * failure. */
bool config_layer_types(struct binder *b, struct config *c, int window);
/* Return true for 0 and normal numbers of float32, which config_real accepts. */
bool config_fits(double v);
/* Return for each layer [n_layer] the index of its name of config.layer_types in `names`, which has
 * at least two names and ends with NULL. Any other name is rejected. NULL if the file has no list,
 * and after an error. The model owns the result. */
const int *config_layer_kinds(struct binder *b, const char *const *names);
/* Return the same for the list of another key. */
const int *config_layer_names(struct binder *b, const char *key, const char *const *names);
/* Return for each layer [n_layer] true if the list of layers contains its number. first: number of
 * the first layer. A number without a layer is rejected if `strict` is true, otherwise ignored.
 * NULL if the file has no list, and after an error. The model owns the result. */
const bool *config_listed_layers(struct binder *b, const char *key, int first, bool strict);
/* Set the last n layers to use the keys and values of an earlier layer. This is the last layer of
 * the same type (with or without a window) before these n layers. n is the value of `key`. The
 * sizes and windows of layers are already final. */
void config_share_kv(struct config *c, struct binder *b, const char *key, int n);
/* Set the rope of each layer by "no_rope_layers" (0: no rope) or "no_rope_layer_interval". empty:
 * true if an empty list is an absent list. */
void config_no_rope(struct config *c, struct binder *b, bool empty);
/* Set ROPE_LOCAL, the rope of layers with a window, to base `base` and no scaling. */
void config_local_rope(struct config *c, struct binder *b, const char *key, double base);
/* Return the base of rope_parameters.sliding_attention; `fallback` if none. The type of
 * rope_parameters.sliding_attention must be default. */
double config_sliding_base(struct binder *b, double fallback);
/* Return true if the caller, not a file, gave the value of "ARCH.key". */
bool config_given(const struct binder *b, const char *key);
/* Return true if a config.json has no rope_parameters and the default of its class has a
 * scaling. */
bool config_lacks_rope(struct binder *b);
/* Set *curve to the activation of a name of n bytes. Return false if it is unknown. */
bool config_curve(const char *name, size_t n, enum curve *curve);
/* Return the value of a soft cap's key. The value must be above 0. Return 0 if the value is
 * null. */
float config_cap(struct binder *b, const char *key);
/* Return the limit of q, k and v, hf_key of a config.json or "attention.clamp_kqv"; 0 if none.
 * zero: true if 0 in a config.json means no limit, as in the class; otherwise 0 is rejected. */
float config_qkv_limit(struct binder *b, const char *hf_key, bool zero);

/* Read and check quantization_config (form/form.c). */
void form_read(struct binder *b);
/* A matrix [n_out, k] to be bound. Its tensors are stem.EXPERT*. The texts are borrowed. */
struct site {
    const char *stem;
    int il;
    const char *expert; /* "", or "E." with the number E of an expert */
    int64_t n_out, k;
};
/* Set the codes and scales of the quantized matrix s, and *type to the format of its values. Return
 * its first tensor. NULL if the model is not quantized, or after a failure. */
const struct tensor_info *form_bind(struct binder *b, struct published *p, enum qtype *type,
                                    const struct site *s);
/* Return true if one tensor or several have the matrices s of all experts in the model's form. */
bool form_has_experts(const struct binder *b, const struct site *s);
/* Set rows `part` of each matrix, from [n_expert]. Return the first tensor. NULL after a
 * failure. */
const struct tensor_info *form_bind_experts(struct binder *b, const struct site *s,
                                            struct published *from, int64_t n_expert,
                                            const struct row_part *part);
/* Warn if the configuration names a quantized form, but no matrix has it. */
void form_check(const struct binder *b);
/* Return true if no matrix uses a tensor of this name, such as the scales of a quantized cache. */
bool form_left_out(const struct binder *b, const char *name);

/* Return true for a tensor that is known to be unused. Write the reason to `why`. */
bool bind_left_out(const struct binder *b, const struct tensor_info *t, char why[WHY_BYTES]);
/* Return the architecture's row for a matrix or norm in tensors.def; NULL if none. */
const struct tensor_row *bind_row(const struct binder *b, const char *stem);
/* Return the architecture's row for a bias in tensors.def; NULL if none. */
const struct tensor_row *bind_bias_row(const struct binder *b, const char *stem);
/* Return the values of the tensor stem.bias, f32 [n_row, n] in the arena. NULL after
 * an error. */
const float *bind_bias_values(struct binder *b, const char *stem, int il, int64_t n_row, int64_t n);
/* Return the tensor `name`, and mark it as bound; NULL if none. */
const struct tensor_info *bind_find(const struct binder *b, const char *name);
/* Return the value of a size in tensors.def for layer il; il -1: for a tensor outside of layers. */
int64_t bind_size(const struct binder *b, enum tensor_size size, int il);

/* bind_error.c: set the error of a tensor, with its name in the user's file, unless binding has
 * failed before. */
enum { LABEL_BYTES = 256 };
/* Write the name that the tensor `name` has in the user's file, even if the file lacks the tensor.
 * `name` is GGUF's name. Return out. */
const char *bind_label(const struct binder *b, char out[LABEL_BYTES], const char *name);
/* ERR_MISSING for the tensor `name`, which is GGUF's name. The error has the name of a similar
 * tensor of the file, if any. */
void bind_missing(struct binder *b, const char *name);
/* ERR_FORMAT for a tensor with another shape than [n_out, k], or [n_part, n_out, k] if n_part is
 * above 1. The error has the fields of the sizes. */
void bind_wrong_shape(struct binder *b, const struct tensor_info *t, int64_t n_part, int64_t n_out,
                      int64_t k);
/* Add a cause to the error of binding: quantized weights that config.json does not declare. */
void bind_add_cause(struct binder *b);
/* The error rc "tensor NAME" with a further text. */
void bind_refuse(struct binder *b, const struct tensor_info *t, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Write `stem` with the layer number il, then `suffix`, to out. */
void bind_name(const struct binder *b, char out[160], const char *stem, int il, const char *suffix);
/* Bind stem.weight, and stem.bias as `bias` defines. `stem` is a name of tensors.def with at most
 * one %d for the layer number. The layer's config defines the sizes. il: layer number; -1 outside
 * layers. */
void bind_linear(struct binder *b, struct linear *l, const char *stem, int il, enum bias bias);
/* Divide the bias of l, if it has one, by the factor of its input or of its result. The caller
 * multiplies the results of l by this factor. */
void bind_divide_bias(struct binder *b, struct linear *l, float by);
/* Bind a part of a matrix, as bind_linear does. */
void bind_part(struct binder *b, struct linear *l, const char *stem, int il, enum bias bias,
               const struct row_part *part);
/* Return true if the file has the matrix `fused` instead of matrices such as `part`. `fused` and
 * `part` are names of tensors.def. The file determines the form if the table has both matrices, and
 * `fused` as OTHER. */
bool bind_is_fused(const struct binder *b, const char *fused, const char *part, int il);
/* Bind the norm stem.weight: RMSNorm, or LayerNorm with stem.bias if arch has layer_norm_eps. A
 * LayerNorm without a row in the table has no weights. */
void bind_norm(struct binder *b, struct norm *n, const char *stem, int il);
/* Set n to a norm of `size` values with weights of 1, without a tensor. The norm is RMSNorm if
 * n_part is 0, otherwise LayerNorm of n_part parts. */
void bind_ones(struct binder *b, struct norm *n, int size, int n_part);
/* Bind the LayerNorm of n_part parts of a row, such as heads, without a bias. The weights
 * stem.weight are [n_part, n], or stem.P.weight are [n] for each part P. */
void bind_part_norm(struct binder *b, struct norm *n, const char *stem, int il, int n_part);
/* Return true if the file has the tensor stem.bias. */
bool bind_has_bias(const struct binder *b, const char *stem, int il);
/* Return true if the file has the tensor stem.weight. */
bool bind_has(const struct binder *b, const char *stem, int il);
/* Bind one matrix per expert: stem.weight with three dimensions, or stem.E.weight for each expert
 * E. */
void bind_experts(struct binder *b, struct linear *l, const char *stem, int il);
/* Bind one matrix per part, such as a head, as bind_experts does. Every row uses all of them. */
void bind_parts(struct binder *b, struct linear *l, const char *stem, int il);
/* Bind rows `part` of each expert's matrix, as bind_experts does. The file must have one tensor for
 * all experts, or the tensors of a form (form_has_experts). */
void bind_expert_part(struct binder *b, struct linear *l, const char *stem, int il,
                      const struct row_part *part);
/* Return true if the file has the matrices of all experts in one tensor, or in a form. */
bool bind_has_stack(const struct binder *b, const char *stem, int il);
/* Bind a matrix per head: rows [first, first + n) of each run of part->step rows of the matrix
 * `stem`, or the transpose of these rows. The matrix has no bias. */
void bind_heads(struct binder *b, struct linear *l, const char *stem, int il,
                const struct row_part *part, bool transposed);
/* Bind a matrix [n_out, k] outside of layers, as bind_linear does. The matrix has no row in
 * tensors.def. */
void bind_sized(struct binder *b, struct linear *l, const char *stem, int64_t n_out, int64_t k,
                enum bias bias);
/* Bind matrix i of n matrices [n_out, k] outside of layers. The file has one tensor stem.weight, or
 * a tensor stem.I.weight for each matrix. */
void bind_one_of(struct binder *b, struct linear *l, const char *stem, int i, int n, int64_t n_out,
                 int64_t k);
/* Return n_byte zeroed bytes of the model's arena for an architecture. `what` is their description
 * in an error. NULL after a failure. */
void *bind_memory(struct binder *b, const char *what, size_t n_byte);
/* Bind n values at *at, f32 in the arena, as a vector of the device.
 * The address `at` must remain valid. */
void bind_vector(struct binder *b, const float **at, int64_t n);
/* Return the values, f32 [n_row, n] in the arena, of the tensor stem.weight. NULL after an
 * error. */
const float *bind_floats(struct binder *b, const char *stem, int il, int64_t n_row, int64_t n);
/* Bind the n values of the tensor blk.IL.NAME, each multiplied by `by`. The tensor has no row in
 * tensors.def. */
void bind_scaled(struct binder *b, const float **at, const char *name, int il, int64_t n, float by);
/* Bind an embedding without its first rows. first: number of omitted rows. */
void bind_table(struct binder *b, struct tensor *t, const char *stem, int64_t first);
/* Bind an embedding [n_out, k] that tensors.def does not have. */
void bind_sized_table(struct binder *b, struct tensor *t, const char *stem, int64_t n_out,
                      int64_t k);
/* Set the matrix of l to the bound tensor t. */
void bind_tied(struct binder *b, struct linear *l, const struct tensor *t);
/* Return the values, f32 [n], of a tensor that is not in tensors.def. NULL if the file has no such
 * tensor. */
const float *bind_extra(struct binder *b, const char *name, int64_t n);
/* Return the number of scratch buffer `name`, with at least per_row values per row. */
int bind_rows(struct binder *b, const char *name, int64_t per_row);
/* Return the number of scratch buffer `name`, with at least per_out values per result row. */
int bind_outputs(struct binder *b, const char *name, int64_t per_out);
/* Return the number of scratch buffer `name`, with at least n values for a batch of any size. */
int bind_fixed(struct binder *b, const char *name, int64_t n);
/* Reserve n values of a sequence's recurrent state for a layer. Return their offset within the
 * state, a multiple of 16 (fwd_state). */
int64_t bind_state(struct binder *b, int64_t n);
/* Bind all parts of the architecture, then check that the file has no unused tensor. */
void bind_all(struct binder *b);
/* Select the formats of a mix for all matrices, which packing then encodes (quantize.c). */
void model_quantize(struct binder *b, const char *name);

/* ---- a forward pass ---- */

struct fwd {
    struct model *m; /* borrowed */
    /* borrowed: the batch on the host, and on the device. Both have counts. Ops read the arrays of
     * on_device. */
    const struct batch *batch, *on_device;
    const int32_t *angle; /* [n_row] rows of the rope tables, on the device */
    int n_row, il;
    float *x; /* residual stream, f32 [n_row, d], borrowed from the model's scratch */
    /* buffers for the architecture within a layer, borrowed f32 [n_row, d]; h also contains results
     * of norms */
    float *h, *y;
};

static inline float *fwd_at(const struct fwd *f, int scratch)
{
    CHECK(scratch >= 0 && (size_t)scratch < f->m->scratch.n, "scratch %d of %zu", scratch,
          f->m->scratch.n);
    return f->m->scratch.v[scratch].at;
}

/* Return the layer's state that bind_state reserved at the offset `at`. */
static inline struct state_layer fwd_state(const struct fwd *f, int64_t at)
{
    return (struct state_layer){f->m->states.at + at, f->m->state_floats};
}

/* Compute y f32 [n_row, n_out] = l x for x f32 [n_row, k] (linear.c). All other functions compute
 * the rows of f. */
void fwd_linear(struct fwd *f, float *y, const struct linear *l, const float *x, int n_row);
/* Compute out [n], the outputs of one input. One op computes all outputs if the backend fuses
 * them. */
void fwd_linears(struct fwd *f, const struct output *out, int n, const struct input *in);
/* Add l x to y f32 [n_row, n_out], for x f32 [n_row, k]. */
void fwd_linear_add(struct fwd *f, float *y, const struct linear *l, const float *x);
/* Compute out [n], f32 [n_row * n_used, n_out] each. For each entry of r, multiply the matrices of
 * its expert and its row of x f32 [n_row, k]. by_entry: the row is row `entry` of x f32 [n_row *
 * n_used, k]. */
void fwd_experts(struct fwd *f, const struct output *out, int n, const float *x,
                 const struct route *r, bool by_entry);
/* Multiply parts of rows, such as heads, by a matrix each, as in backend_ops.parts. */
void fwd_parts(struct fwd *f, float *y, const struct linear *l, const float *x,
               const struct columns *s);
/* Compute y f32 [n_row, d] = the gated unit g of one input. One op computes y if the backend fuses
 * the unit and no adapter adds to its matrices. */
void fwd_glu_linears(struct fwd *f, float *y, const struct glu *g, const struct input *in);

/* block/plain.c: operations between blocks. */
/* Normalize x f32 [n_row, d] to y f32 [n_row, d]. y may be x. */
void fwd_norm(struct fwd *f, float *y, const float *x, const struct norm *n);
/* Compute x += y, f32 [n_row, d]. */
void fwd_add(struct fwd *f, float *x, const float *y);
void fwd_scale(struct fwd *f, float *x, float by); /* compute x *= by, f32 [n_row, d] */
/* Clamp x f32 [n_row, n] to [-limit, limit]. */
void fwd_clamp(struct fwd *f, float *x, int64_t n, float limit);
/* Copy columns of x f32 [n_row, x_row] to y f32 [n_row, y_row]. */
void fwd_columns(struct fwd *f, float *y, const float *x, const struct columns *c);
/* Rotate the heads of x f32 [n_row, n_head, d_head] by the rope with the index `rope`. x may begin
 * at a later value of the first head. */
void fwd_rope(struct fwd *f, float *x, int n_head, int d_head, int rope);
/* Normalize heads of x f32 [n_row, n_head, d_head], in place. */
void fwd_head_norm(struct fwd *f, float *x, int n_head, const struct norm *n);
/* Compute y f32 [n_row, d] = x times a factor per column, f32 [d]. */
void fwd_scale_columns(struct fwd *f, float *y, const float *x, const float *by);
/* Apply xIELU to y f32 [n]. param: a struct xielu. ffn_block.act may point to fwd_xielu. */
void fwd_xielu(struct fwd *f, float *y, int64_t n, const void *param);
/* Cap the logits of the output; cap 0: no cap. */
void fwd_softcap(struct fwd *f, struct model_out *out, float cap);
/* Multiply the logits of the output by a factor. */
void fwd_scale_logits(struct fwd *f, struct model_out *out, float by);
/* Return the norm of x f32 [n_row, d] as a block's input. The block computes the norm at its first
 * use. The norm is fused if the backend supports this. */
struct input fwd_normed(struct fwd *f, const float *x, const struct norm *n);
/* Return x, f32 [n_row, d], as a block's input without a norm. */
struct input fwd_plain(const float *x);
/* Return the values of a block's input, computed if necessary, f32 [n_row, n]. */
const float *fwd_made(struct fwd *f, struct input in, int64_t n);

/* Bind the attention block of layer il (block/attn.c). An architecture with operations inside the
 * block calls fwd_qkv, fwd_attend and fwd_attn_out in place of fwd_attn. */
void bind_attn(struct binder *b, struct attn_block *a, int il);
/* Bind the block without matrices and norms, for an architecture that computes the scratch q, k and
 * v with its own code. g: heads in the pages. */
void bind_attend(struct binder *b, struct attn_block *a, int il, const struct kv_geometry *g);
/* Compute y f32 [n_row, d] = the attention of `in`. */
void fwd_attn(struct fwd *f, float *y, struct input in, const struct attn_block *a);
/* Add the attention of `in` to x f32 [n_row, d], in fewer passes than fwd_attn and an addition. */
void fwd_attn_add(struct fwd *f, float *x, struct input in, const struct attn_block *a);
/* Compute q, k, v of `in`. */
void fwd_qkv(struct fwd *f, struct input in, const struct attn_block *a);
/* Store k, f32 [n_row, n_head_kv * d_head], and the scratch v in the KV pages. */
void fwd_put(struct fwd *f, const float *k, const struct attn_block *a);
/* Apply head norms and rope, store k and v in the KV pages, and compute attention. */
void fwd_attend(struct fwd *f, const struct attn_block *a);
/* Set y f32 [n_row, d] to the output projection. */
void fwd_attn_out(struct fwd *f, float *y, const struct attn_block *a);
/* Add the output projection to x f32 [n_row, d]. */
void fwd_attn_out_add(struct fwd *f, float *x, const struct attn_block *a);

/* Read the sizes of latent attention (config_latent.c). The function is a struct arch.heads. */
void latent_heads(struct config *c, struct binder *b);
/* Return a size of latent attention. The function is a struct arch.size. */
int64_t latent_size(const struct config *c, enum tensor_size size);
/* Return the factor of the scores by mscale_all_dim: the square of YaRN's magnitude. */
double latent_factor(const struct rope_config *r, double all);
/* Return latent_factor of a config.json; 1 if it has no mscale_all_dim, or no scaling. */
double latent_scores(struct binder *b, const struct rope_config *r);
/* Bind latent attention of layer il (block/latent.c). An architecture that expands keys and values
 * calls bind_latent_rows and fwd_latent_rows. */
void bind_latent(struct binder *b, struct latent_block *l, int il, const struct latent *s);
/* Add the latent attention of `in` to x f32 [n_row, d]. */
void fwd_latent_add(struct fwd *f, float *x, struct input in, const struct latent_block *l);
/* Bind the matrices and norms before the expansion, and the scratch of compressed rows. */
void bind_latent_rows(struct binder *b, struct latent_block *l, int il, const struct latent *s);
/* Compute the heads of q f32 [n_row, n_head * (d_nope + d_rope)] with rope, and the scratch latent
 * (with its norm) and k_rope (with rope). */
void fwd_latent_rows(struct fwd *f, float *q, struct input in, const struct latent_block *l);

/* Bind the feed-forward block of layer il (block/ffn.c). The block has a gate if the table of
 * tensors has one. */
void bind_ffn(struct binder *b, struct ffn_block *g, int il);
/* Names of a gated block's matrices in tensors.def, static. both: rows of gate, then rows of up. */
struct glu_names {
    const char *gate, *up, *down, *both;
};
/* Bind a block of width d with these matrices. The block has a gate if the table has one. */
void bind_glu(struct binder *b, struct ffn_block *g, const struct glu_names *name, int il, int d);
/* Compute y f32 [n_row, d] = the feed-forward block of `in`. */
void fwd_ffn(struct fwd *f, float *y, struct input in, const struct ffn_block *g);
/* Add the feed-forward block of `in` to x f32 [n_row, d]. fwd_ffn_add needs fewer passes over
 * memory than fwd_ffn and an addition. */
void fwd_ffn_add(struct fwd *f, float *x, struct input in, const struct ffn_block *g);

/* Return curve(gate in) * (up in), f32 [n_row, d_ff], in the block's scratch. fwd_ffn_gated is the
 * first part of a block with a gate, for an architecture with operations between the two parts. */
float *fwd_ffn_inner(struct fwd *f, struct input in, const struct ffn_block *g);
/* Add the product of down and the block's scratch to x f32 [n_row, d]. */
void fwd_ffn_out_add(struct fwd *f, float *x, const struct ffn_block *g);

/* Compute y like fwd_ffn, for a block with a sparse gate. The cut is the mean of the gate's outputs
 * plus `by` standard deviations. Outputs below the cut become 0. The cut is subtracted from all
 * other outputs. */
void fwd_ffn_cut(struct fwd *f, float *y, struct input in, const struct ffn_block *g, float by);
/* Return the quantile of the normal distribution for the share `part`, in standard deviations. */
float ffn_cut_of(double part);

/* Bind layer il, the layer of most decoders (block/layer.c). */
void decoder_bind_layer(struct binder *b, void *layer, int il);
/* Add the blocks of a layer to the residual stream, f32 [n_row, d]. */
void decoder_layer(struct fwd *f, const void *layer);

/* Check that copies of the embedding under other names (ALIAS) equal the embedding. */
void bind_check_copies(struct binder *b);
/* Bind the ends, or the attention to the source, of a model of encoder and decoder
 * (block/cross.c). */
void cross_bind_ends(struct binder *b, void *ends);
/* Bind the attention of layer il to the source. */
void bind_cross(struct binder *b, struct cross_block *c, int il);
/* Compute the encoder's layers for the rows of f, which are whole sources. Store K and V of the
 * encoder's output for each layer of the decoder. */
void fwd_source(struct fwd *f);
/* Compute y f32 [n_row, d] = the attention of `in` to the source. */
void fwd_cross(struct fwd *f, float *y, struct input in, const struct cross_block *c);
/* Add the attention of `in` to the source to x f32 [n_row, d]. */
void fwd_cross_add(struct fwd *f, float *x, struct input in, const struct cross_block *c);

/* Read the sizes of the mixtures, and set them in all layers (block/moe.c). c->route is the rule
 * without vectors. d_expert: default of the experts' width; 0: the width of the feed-forward block
 * divided by the number of experts per row, as in llama.cpp. */
void config_moe(struct config *c, struct binder *b, int d_expert);
/* Remove the mixture of layer l. */
void config_no_moe(struct layer_config *l);
/* Bind the mixture of experts of layer il. The config defines the expert counts and the rule of
 * selection. */
void bind_moe(struct binder *b, struct moe_block *m, int il);
/* Compute y f32 [n_row, d] = the mixture of `in`. */
void fwd_moe(struct fwd *f, float *y, struct input in, const struct moe_block *m);
/* Add the mixture of `in` to x f32 [n_row, d]. */
void fwd_moe_add(struct fwd *f, float *x, struct input in, const struct moe_block *m);
/* Bind the second block of layer il (block/feed.c): a mixture if the config of the layer has
 * experts, otherwise a feed-forward block. */
void bind_feed(struct binder *b, struct feed_block *l, int il);
/* Compute y f32 [n_row, d] = the block of `in`. */
void fwd_feed(struct fwd *f, float *y, struct input in, const struct feed_block *l);
/* Add the block of `in` to x f32 [n_row, d]. */
void fwd_feed_add(struct fwd *f, float *x, struct input in, const struct feed_block *l);
/* Assign the rows to experts by x f32 [n_row, d]: the first part of a mixture whose router and
 * experts have different inputs. */
void fwd_route(struct fwd *f, const float *x, const struct moe_block *m);
/* Set y f32 [n_row, d] to the mixture of the experts' results for x f32 [n_row, d], by the last
 * fwd_route. add: add the mixture to y. */
void fwd_mix(struct fwd *f, float *y, const float *x, const struct moe_block *m, bool add);

/* Set the size of the vocabulary from the rows of the embedding (block/ends.c). */
void bind_vocab(struct binder *b);
/* Bind the embedding, output norm and head of most decoders. The config has the factors of
 * embedding and logits, and the cap of the logits. */
void decoder_bind(struct binder *b, void *ends);
/* Bind a part of decoder_bind: the embeddings and their norm, or the head. output_norm is bound
 * between these parts. The head is bound after the embedding, because converted_params requires
 * this order. */
void decoder_bind_inputs(struct binder *b, struct decoder_ends *e);
/* Bind the head, after the embedding. */
void decoder_bind_head(struct binder *b, struct decoder_ends *e);
/* Return true for a tensor of divisors of the rope that a scaling of the caller replaces. */
bool decoder_drops_divisors(const struct binder *b, const char *name);
/* Set the residual stream, f32 [n_row, d], to the scaled embeddings of the batch's tokens. */
void decoder_embed(struct fwd *f, const void *ends);
/* Return logits and hidden states of the batch's result rows, on the device. */
struct model_out decoder_output(struct fwd *f, const void *ends);
/* Set x f32 [n_row, d] to the rows of embd for the batch's tokens, without factors. */
void fwd_embed(struct fwd *f, float *x, const struct tensor *embd);
/* Add the learned positions of the batch's rows to f->x. position->data is NULL if the model has no
 * learned positions. */
void fwd_position(struct fwd *f, const struct tensor *position);
/* Gather the result rows of f->x into f->h, and return f->h, f32 [n_out, d]. Afterwards the rows of
 * f are the result rows. */
float *fwd_wanted(struct fwd *f);
/* Return scratch for an int per row on the host, for fwd_put_ids. */
int32_t *fwd_host_ids(struct fwd *f, int scratch);
/* Return the ints of fwd_host_ids on the device. */
const int32_t *fwd_put_ids(struct fwd *f, int scratch);
/* Apply the output norm to the result of fwd_wanted, and return the normalized rows. */
float *fwd_end_norm(struct fwd *f, const struct decoder_ends *e);
/* Compute results from the result rows h f32 [n_out, d_embd]. The head computes logits f32
 * [n_logits, n_vocab]. Hidden rows are copied. The logits and the hidden rows remain on the device
 * until model_forward copies them to the host. */
struct model_out fwd_head(struct fwd *f, const float *h, const struct decoder_ends *e);

/* Bind the embeddings of ids of other parts (block/other.c). */
void bind_others(struct binder *b, struct other_embeddings *e);
/* Replace the rows of f->x whose ids belong to other parts by the embeddings of these parts. */
void fwd_others(struct fwd *f, const struct other_embeddings *e);

/* Bind the inputs of single layers (block/input.c), before the head. */
void bind_inputs(struct binder *b, struct layer_inputs *s, int d_input, int n_input);
/* Compute the inputs of all layers from f->x, the embedded tokens. Tokens without a row in the
 * table have the input of row 0. */
void fwd_inputs(struct fwd *f, const struct layer_inputs *s);
/* Bind the matrices and the norm that add layer il's own input. */
void bind_input(struct binder *b, struct input_block *u, int il, int d_input);
/* Compute y f32 [n_row, d] = norm(project(curve(gate x) * the layer's input)), x f32 [n_row, d]. y
 * may be x. */
void fwd_input(struct fwd *f, float *y, const float *x, const struct input_block *u);

/* Bind the matrices that split and merge several residual streams (block/altup.c). */
void bind_altup_ends(struct binder *b, struct altup_ends *e, int n_stream);
/* Bind the residual streams of layer il. */
void bind_altup(struct binder *b, struct altup_block *a, int il, int n_stream, int active);
/* Make the residual streams from f->x. */
void fwd_split(struct fwd *f, const struct altup_ends *e);
/* Make the predictions of the layer. */
void fwd_predict(struct fwd *f, const struct altup_block *a);
/* Change the predictions to the streams after the layer, by the layer's result y f32 [n_row, d].
 * Overwrite f->h and f->y. */
void fwd_correct(struct fwd *f, const float *y, const struct altup_block *a);
/* Return the mean of the result rows of all streams, f32 [n_out, d]. Afterwards the rows of f are
 * the result rows. */
float *fwd_merge(struct fwd *f, const struct altup_ends *e);
/* Return prediction i of the layer, or stream i after the layer, f32 [n_row, d]. */
float *fwd_prediction(const struct fwd *f, const struct altup_block *a, int i);

/* Return the number of segments, which is type_vocab_size or the number of rows of a GGUF's table.
 * The encoder_ functions are the ends of encoders (block/encoder.c). */
int encoder_segments(struct binder *b);
/* Bind the embeddings of an encoder. */
void encoder_bind(struct binder *b, void *ends);
/* Set the residual stream, f32 [n_row, d], to the embeddings of the batch. */
void encoder_embed(struct fwd *f, const void *ends);
/* Return the hidden states of the result rows. */
struct model_out encoder_output(struct fwd *f, const void *ends);

/* Bind the layers of an embedding after pooling, for all architectures (head.c). */
void bind_embedding(struct binder *b);
/* Bind a classifier if the file has one. The classifier is cls with the function *curve and its
 * norm, then cls.output. The classifier is only cls.output if curve is NULL. `bias` is the bias of
 * cls. */
void bind_classifier(struct binder *b, const enum curve *curve, enum bias bias);
/* Bind the classifier of the options' tokens, if there are any. ERR_UNSUPPORTED if the model has no
 * head, or already has a classifier. */
void bind_class_tokens(struct binder *b);

/* Compute layers [from, to) for the rows of f (forward.c). */
void fwd_layers(struct fwd *f, int from, int to);
/* Report an intermediate x f32 [n_row, n] in scratch to the trace callback. Ops are not fused if a
 * callback is set. */
void trace(struct fwd *f, const char *name, const float *x, int64_t n);

/* ---- plan.c, rope.c ---- */

/* Allocate vectors, scratch, rope tables and KV pages. plan_close frees them, also after an
 * error. ERR_LIMIT if the KV pages exceed the memory or a step has too many rows of experts,
 * ERR_MEMORY. */
int plan_open(struct model *m, const struct model_options *o, struct err *e);
/* Return the KV bytes per token over all layers of a bound model, in pages of the default size. */
int64_t plan_token_bytes(const struct model *m, enum kv_type t);
/* Free the memory of plan_open; accepts a half-planned model. */
void plan_close(struct model *m);

/* Return the limit n_short of batches for texts of up to context_max tokens. */
int rope_n_short(const struct model *m, int context_max);
/* Allocate rope tables on the device, with cos and sin computed in f64. The caller has set
 * limits.n_short. After rope_reach, the tables contain the rows of a batch. rope_close frees them,
 * also after an error. ERR_LIMIT, ERR_MEMORY. */
int rope_open(struct model *m, int pos_max, struct err *e);
/* Extend the tables to the rows angle i32 [n], on the host. */
void rope_reach(struct model *m, const int32_t *angle, int n);
/* Free the tables; accepts a model without tables. */
void rope_close(struct model *m);

#endif
