/* block_impl.h - private to src/model: structs of bound norms, blocks, ends and heads. block/
 * and the architectures bind and compute them. */
#ifndef QUOTH_MODEL_BLOCK_IMPL_H
#define QUOTH_MODEL_BLOCK_IMPL_H

#include "config_impl.h"

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

#endif
