/* forward_impl.h - private to src/model: state of a forward pass, and the functions that bind
 * and compute blocks and ends. First the loading thread calls these functions, then the engine's
 * thread. */
#ifndef QUOTH_MODEL_FORWARD_IMPL_H
#define QUOTH_MODEL_FORWARD_IMPL_H

#include "base/check.h"
#include "bind_impl.h"

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
/* Return true if modules of sentence-transformers normalize embeddings, or if there are none. */
bool head_normalizes(const struct checkpoint *c);
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

#endif
