/* rwkv_impl.h - blocks of RWKV ("RWKV: Reinventing RNNs for the Transformer Era", arXiv
 * 2305.13048; "Eagle and Finch", arXiv 2404.05892), private to src/model. A layer adds time mixing,
 * then channel mixing, to the residual stream. Both mix each row with the row before it (token
 * shift). One thread at a time calls these functions: first the loading thread, then the engine's
 * thread. */
#ifndef QUOTH_RWKV_IMPL_H
#define QUOTH_RWKV_IMPL_H

#include "recurrent_impl.h"

enum { RWKV_CONTEXT = 1 << 20 }; /* maximum length of a text, because the recurrence has none */
#define RWKV_HEAD_EPSILON 1e-5   /* epsilon of the norm of heads, a constant of RWKV-5 and 6 */
/* epsilon of the norm of heads in GGUF files, a constant of llama.cpp. quoth writes and reads the
 * key RWKV_HEAD_EPS_KEY for another epsilon. */
#define RWKV_HEAD_EPS     64e-5
#define RWKV_HEAD_EPS_KEY "wkv.norm_epsilon"

/* Read the width of heads and the epsilon of their norm from a GGUF. Set *n_head to their number,
 * and the other values. */
void rwkv_read_gguf_heads(const struct config *c, struct binder *b, int *n_head, int *d_head,
                          float *eps);

struct arch_convert;
struct key_writer;
extern const struct arch_convert rwkv6_convert, rwkv7_convert; /* arch/rwkv*_convert.c */
/* Write the width of heads to a GGUF, and the epsilon of their norm if it is not RWKV_HEAD_EPS. */
void rwkv_put_heads(struct key_writer *w, int d_head, float eps);

/* The difference of each row and the row before it (block/rwkv.c). State: the last row. Row
 * scratch: the difference [d], which all layers share. */
struct shift_block {
    struct conv_block conv;
    int at_x;
};
/* Bind the block, which has no tensors. */
void bind_shift(struct binder *b, struct shift_block *s);
/* Return the row before minus the row, f32 [n_row, d], for x f32 [n_row, d]. */
float *fwd_shift(struct fwd *f, const float *x, const struct shift_block *s);
/* Bind factors of the differences, f32 [d], at *by. The tensor is stem. rest: the tensor has the
 * factors of the rows, so 1 minus its values are the factors of the differences. */
void bind_lerp(struct binder *b, const float **by, const char *stem, int il, bool rest);
/* Bind factors i of n, from a GGUF's tensor of all factors [n, d] if the file has one. Otherwise as
 * bind_lerp. */
void bind_lerp_part(struct binder *b, const float **by, const char *stem, int il, int i, int n,
                    bool rest);
/* Compute y f32 [n_row, d] = x + by * xx. y is neither x nor xx. */
void fwd_lerp(struct fwd *f, float *y, const float *x, const float *xx, const float *by);

/* Channel mixing: sigmoid(r) * v(relu(k)^2), or without r. Row scratch: mixed row [d], k [d_ff], r
 * [d]. */
struct channel_block {
    struct shift_block shift;
    const float *k_by, *r_by; /* f32 [d] factors of the differences, vectors of the model */
    struct linear k, v, r;    /* matrices k [d_ff, d], v [d, d_ff], r [d, d]; r.w.n_out 0: no r */
    float factor;             /* number that v is divided by in the file, a power of 2; 0: 1 */
    int at_in, at_k, at_r;
};
/* Bind channel mixing of layer il. rest: as bind_lerp. */
void bind_channel(struct binder *b, struct channel_block *c, int il, bool rest);
/* Add channel mixing of h f32 [n_row, d] to x f32 [n_row, d]. */
void fwd_channel_add(struct fwd *f, float *x, const float *h, const struct channel_block *c);

/* Inputs of time mixing, in the order of RWKV-6's tensors. */
enum rwkv_mix { MIX_W, MIX_K, MIX_V, MIX_R, MIX_G, MIX_COUNT };

/* Sizes of time mixing: n_head heads of d_head values. n_head 0: RWKV-4, with d_att columns. */
struct rwkv_sizes {
    int d_att, n_head, d_head;
    int rank_mix, rank_decay; /* RWKV-6: ranks; rank_mix 0: constant factors and decays */
    int rescale;              /* number of layers after which the class halves the rows; 0: none */
    float head_eps;           /* epsilon of the norm of heads */
};
/* Return a size of tensors.def. CHECK: the size is one of RWKV-4 to 6. */
int64_t rwkv_size(const struct rwkv_sizes *s, enum tensor_size size);

/* Time mixing of RWKV-4 to 6 (block/wkv.c). State: the shift's, and f32 [3, d_att] or f32 [n_head,
 * d_head, d_head]. Row scratch: mixed row [d], factors [MIX_COUNT, d] and their compressed form,
 * r, k, v, gate, decay, result [d_att]. */
struct time_block {
    struct rwkv_sizes s;
    struct shift_block shift;
    /* f32 [d] factors of the differences, vectors of the model. all: for the input of factors */
    const float *by[MIX_COUNT], *all;
    struct linear r, k, v, g, o; /* matrices [d_att, d], o [d, d_att]; RWKV-4 has no g */
    /* RWKV-6: matrices low [rank_mixes, d] and high [MIX_COUNT, d, rank_mix] of the factors, and
     * decay_low [rank_decay, d] and decay_high [d_att, rank_decay], each of one part */
    struct linear low, high, decay_low, decay_high;
    /* f32 [d_att], vectors of the model. decay: addends (RWKV-4), factors of the state (RWKV-5), or
     * factors of the exponentials (RWKV-6). first: factors of the own row */
    const float *decay, *first;
    struct norm norm; /* norm of heads */
    float factor;     /* number that o is divided by in the file, a power of 2; 0: 1 */
    int64_t at_state;
    int at_in, at_low, at_high, at_r, at_k, at_v, at_g, at_decay_low, at_decay, at_y;
};
/* Bind time mixing of layer il. */
void bind_time(struct binder *b, struct time_block *t, int il, const struct rwkv_sizes *s);
/* Add time mixing of h f32 [n_row, d] to x f32 [n_row, d]. */
void fwd_time_add(struct fwd *f, float *x, const float *h, const struct time_block *t);

/* Sizes of time mixing of RWKV-7: n_head heads of d_head values, and ranks of the compressed
 * vectors. rank_gate 0: no gate. */
struct rwkv7_sizes {
    int n_head, d_head, rank_decay, rank_a, rank_v, rank_gate;
    float head_eps; /* epsilon of the norm of heads */
};
/* Return a size of tensors.def. CHECK: the size is one of RWKV-7. */
int64_t rwkv7_size(const struct rwkv7_sizes *s, enum tensor_size size);

/* A vector of each row by a matrix in compressed form: high(curve(low x)). */
struct low_rank {
    struct linear low, high; /* matrices low [rank, d] and high [d, rank] */
};

enum rwkv7_mix { MIX7_R, MIX7_W, MIX7_K, MIX7_V, MIX7_A, MIX7_G, MIX7_COUNT };

/* Time mixing of RWKV-7 ("RWKV-7 Goose with Expressive Dynamic State Evolution", arXiv 2503.14456;
 * block/rwkv7.c). State: the shift's, and f32 [n_head, d_head, d_head]. Row scratch: mixed row,
 * compressed vector, r, k, v, decay, rates, gate, removed and added keys, results [d], and the
 * values of the first layer [d], which later layers read. */
struct goose_block {
    struct rwkv7_sizes s;
    bool first; /* true: the block has the values that later layers mix with their own */
    struct shift_block shift;
    const float *by[MIX7_COUNT]; /* f32 [d] factors of the differences, vectors of the model */
    struct linear r, k, v, o;    /* matrices [d, d] */
    struct linear bonus;         /* matrix r_k of each head [1, d_head] */
    struct low_rank decay, a, mix, gate;
    /* f32 [d] factors of keys, vectors of the model: k_k of the removed key; k_a, and 1 - k_a */
    const float *k_k, *k_a, *k_rest;
    /* norm of keys to the length 1, and norm of the results of heads; norm.g NULL: no norm */
    struct norm length, norm;
    int64_t at_state;
    int at_in, at_low, at_r, at_k, at_v, at_decay, at_a, at_gate, at_remove, at_add, at_t, at_y;
    int at_first, at_bonus;
};
/* Read the sizes from a GGUF. The rank of the gate may be gate_least. */
void rwkv7_read_gguf(const struct config *c, struct binder *b, struct rwkv7_sizes *s,
                     int gate_least);
/* Bind time mixing of layer il. */
void bind_goose(struct binder *b, struct goose_block *t, int il, const struct rwkv7_sizes *s);
/* Add time mixing of h f32 [n_row, d] to x f32 [n_row, d]. */
void fwd_goose_add(struct fwd *f, float *x, const float *h, const struct goose_block *t);

#endif
