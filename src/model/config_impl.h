/* config_impl.h - private to src/model: the config of a model, which config.c and the architectures
 * read from the metadata. */
#ifndef QUOTH_MODEL_CONFIG_IMPL_H
#define QUOTH_MODEL_CONFIG_IMPL_H

#include "model.h"

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
    /* beta of the factor 1 + beta ln(1 + floor((position + beta_add) / beta_context)) of cos and
     * sin; 0: no factor */
    double beta;
    int beta_add;     /* addend of the position in the factor of beta: 0 or 1 */
    int beta_context; /* divisor of the position in the factor of beta, at least 1 */
    /* context length in training, before the scaling; for dynamic scaling, the largest context with
     * the original base */
    int context_original;
    /* divisors of frequencies in the file, f32 [d_rot / 2], borrowed; NULL if none */
    const float *freq_factor;
    /* divisors of frequencies for texts of up to context_original tokens, and for longer texts, f32
     * [d_rot / 2], in the model's arena; NULL if none */
    const float *short_factor, *long_factor;
};

/* Rope of a layer, as an index into the config's ropes. ROPE_OFF: no rope (NoPE). ROPE_QUERY:
 * factors of queries, in classes without ROPE_LOCAL. */
enum { ROPE_OFF = -1, ROPE_MAIN = 0, ROPE_LOCAL = 1, ROPE_QUERY = 1, ROPES_MAX };

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
    /* token of padding, at which a classifier of the last row takes no row; -1: none */
    int32_t class_pad;
    int64_t length_max;        /* maximum length of a text, in tokens */
    const struct meta *labels; /* names of the labels, borrowed; NULL if none */
    enum class_act class_act;  /* function of a classifier's logits */
    enum class_act score_act;  /* function of the logit of a score */
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
    int n_rope;          /* number of ropes; 0 if none    */
    bool shares_factors; /* true: ROPE_QUERY has the lists of divisors of ROPE_MAIN */
    struct rope_config rope[ROPES_MAX]; /* ropes by ROPE_MAIN, ROPE_LOCAL */
    struct layer_config *layer;         /* configs of the layers [n_layer], in the model's arena */
    const struct latent *latent; /* sizes of latent attention, in the model's arena; NULL if none */
    const void *own;  /* values of the architecture, in the model's arena; NULL if none */
    size_t own_bytes; /* size of `own` */
};

#endif
