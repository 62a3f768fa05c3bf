/* recurrent_impl.h - blocks with recurrent state, private to src/model. A block reserves its part
 * of a sequence's state at bind. The ops of the backend read and write the state
 * (backend/ops.h: conv, scan). One thread at a time calls these functions: first the loading
 * thread, then the engine's thread. */
#ifndef QUOTH_RECURRENT_IMPL_H
#define QUOTH_RECURRENT_IMPL_H

#include "model_impl.h"

/* A causal convolution of n columns with n_tap weights each (block/conv.c). State: the last n_tap -
 * 1 rows, f32 [n_tap - 1, n]. */
struct conv_block {
    const float *w;    /* f32 [n_tap, n], a vector of the model */
    const float *bias; /* f32 [n], a vector of the model; NULL if none */
    int n_tap;
    int64_t n, at_state;
    bool curved; /* true: `curve` is applied to the results */
    enum curve curve;
};
/* Bind the convolution of stem.weight, [n, n_tap] or [n, 1, n_tap]. biased: stem.bias is
 * required. */
void bind_conv(struct binder *b, struct conv_block *c, const char *stem, int il, int64_t n,
               int n_tap, bool biased);
/* Compute y f32 [n_row, n], the convolution of columns [first, first + n) of the block. x is the
 * address of the first of these columns, whose rows are x_row values apart. */
void fwd_conv(struct fwd *f, float *y, const float *x, int64_t x_row, int64_t first, int64_t n,
              const struct conv_block *c);

/* A gated convolution in place of attention ("LFM2", arXiv 2511.23404; block/conv.c): out(c *
 * convolution(b * x)) with the rows b, c, x of one matrix. Row scratch: b, c, x and the result [d].
 * State: the convolution's. */
struct short_conv_block {
    struct linear b, c, x; /* matrices [d, d], parts of [3 d, d] */
    struct linear out;     /* matrix [d, d] */
    struct conv_block conv;
    int at_b, at_c, at_x, at_y;
};
/* Bind the block of layer il. biased: all matrices and the convolution have biases. */
void bind_short_conv(struct binder *b, struct short_conv_block *s, int il, int n_tap, bool biased);
/* Add the block of `in` to x f32 [n_row, d]. */
void fwd_short_conv_add(struct fwd *f, float *x, struct input in, const struct short_conv_block *s);

/* Sizes of a layer with the gated delta rule: n_head_k heads of q and k with d_k values, n_head
 * heads of v with d_v values, n_tap weights of the convolution. n_head_k divides n_head. */
struct delta_sizes {
    int n_head_k, n_head, d_k, d_v, n_tap;
};
/* Return a size of tensors.def. CHECK: the size is one of this block. */
int64_t delta_size(const struct delta_sizes *s, enum tensor_size size);

/* A layer with the gated delta rule ("Gated Delta Networks", arXiv 2412.06464; block/delta.c).
 * State: the convolution's, and f32 [n_head, d_k, d_v]. Row scratch: qkv, convolved q, k and v, z,
 * beta, decay, result. */
struct delta_block {
    struct delta_sizes s;
    /* matrix [2 n_head_k d_k + n_head d_v, d] of q, k and v; n_out 0: q, k and v are apart */
    struct linear qkv, q, k, v;
    /* matrices z [n_head d_v, d], beta and decay [n_head, d], o [d, n_head d_v] */
    struct linear z, beta, decay, o;
    struct conv_block conv;
    const float *a;             /* f32 [n_head] -exp(A_log), a vector of the model */
    struct norm q_norm, k_norm; /* norms to the length of q and k, over d_k */
    struct norm norm;           /* norm of the result, over d_v */
    bool tiled;                 /* true: head h uses the keys of head h % n_head_k */
    int64_t at_state;
    int at_qkv, at_q, at_k, at_v, at_z, at_beta, at_decay, at_y;
};
/* Bind the block of layer il. tiled: GGUF's order of the heads of v. */
void bind_delta(struct binder *b, struct delta_block *d, int il, const struct delta_sizes *s,
                bool tiled);
/* Add the block of `in` to x f32 [n_row, d]. */
void fwd_delta_add(struct fwd *f, float *x, struct input in, const struct delta_block *d);
/* The end of a block with the delta rule: norm of the heads of the scan's results, matrix of the
 * output, activation of the gates. The pointers are borrowed for the call. */
struct delta_end {
    const struct norm *norm;
    const struct linear *o;
    enum curve curve;
};
/* Add o (norm(scan s) * curve(z)) to x f32 [n_row, d]. z f32 [n_row, n_head * d_v] is overwritten.
 * y is scratch of the same size. */
void fwd_delta_end_add(struct fwd *f, float *x, const struct scan *s, const struct delta_end *end,
                       float *y, float *z);

/* Kimi delta attention ("Kimi Linear", arXiv 2510.26692; block/kda.c): the gated delta rule with a
 * decay per value of a key. Heads of q, k and v have equal sizes, those of the layer's config.
 * State: those of the convolutions, and f32 [n_head, d_head, d_head]. Row scratch: projected q, k
 * and v, convolved q, k and v, compressed decay and gate, decay, gate, beta, result. */
struct kda_block {
    int n_head, d_head;
    struct linear q, k, v, o; /* matrices [n_head d_head, d]; o [d, n_head d_head] */
    struct conv_block q_conv, k_conv, v_conv;
    /* matrices decay_a and gate_a [d_head, d], decay_b and gate_b [n_head d_head, d_head], beta
     * [n_head, d] */
    struct linear decay_a, decay_b, gate_a, gate_b, beta;
    const float *a; /* f32 [n_head, d_head] -exp(A_log) of each head, a vector of the model */
    struct norm q_norm, k_norm; /* norms to the length of q and k, over d_head */
    struct norm norm;           /* norm of the result, over d_head */
    int64_t at_state;
    int at_in, at_q, at_k, at_v, at_decay_a, at_gate_a, at_decay, at_gate, at_beta, at_y;
};
/* Bind the block of layer il. n_tap: weights of the convolutions. */
void bind_kda(struct binder *b, struct kda_block *a, int il, int n_tap);
/* Add the block of `in` to x f32 [n_row, d]. */
void fwd_kda_add(struct fwd *f, float *x, struct input in, const struct kda_block *a);

/* Set n to the norm that scales a row of `size` values to the length `length`. The epsilon of the
 * squared length is 1e-6, a constant of the classes with the gated delta rule. */
void bind_length(struct binder *b, struct norm *n, int size, double length);

/* Sizes of a layer of Mamba: d_inner columns with d_state values each, time steps that are
 * compressed to rank values, n_tap weights of the convolution. */
struct mamba_sizes {
    int d_inner, d_state, rank, n_tap;
    int biased, conv_biased; /* 1: the first and the last matrix, or the convolution, have biases */
    int normed;              /* 1: compressed time steps, B and C are normalized */
    float norm_eps;          /* epsilon of these norms; 0 if there are none */
};
/* Return a size of tensors.def. CHECK: the size is one of this block. */
int64_t mamba_size(const struct mamba_sizes *s, enum tensor_size size);

/* A layer of Mamba (arXiv 2312.00752; block/mamba.c). State: the convolution's, and f32 [d_state,
 * d_inner]. Row scratch: z, x, convolved x, compressed dt, B, C, dt, result. */
struct mamba_block {
    struct mamba_sizes s;
    /* matrices x and z [d_inner, d], parts of one matrix; o [d, d_inner] */
    struct linear x, z, o;
    /* matrices low [rank, d_inner], b and c [d_state, d_inner], parts of one matrix; dt [d_inner,
     * rank] */
    struct linear low, b, c, dt;
    struct norm low_norm, b_norm, c_norm; /* g is NULL if none */
    struct conv_block conv;
    const float *a;    /* f32 [d_state, d_inner] -exp(A_log), a vector of the model */
    const float *skip; /* f32 [d_inner] D, a vector of the model */
    int64_t at_state;
    int at_z, at_x, at_v, at_low, at_b, at_c, at_dt, at_y;
};
/* Bind the block of layer il. */
void bind_mamba(struct binder *b, struct mamba_block *m, int il, const struct mamba_sizes *s);
/* Add the block of `in` to x f32 [n_row, d]. */
void fwd_mamba_add(struct fwd *f, float *x, struct input in, const struct mamba_block *m);

/* Sizes of a layer of Mamba-2: n_head heads of d_head values, n_group groups of heads with one B
 * and C of d_state values each, n_tap weights of the convolution. n_group divides n_head. */
struct mamba2_sizes {
    int n_head, d_head, n_group, d_state, n_tap;
    int biased, o_biased; /* 1: the first, or the last matrix has a bias */
    int conv_biased;      /* 1: the convolution has biases */
    int no_norm;          /* 1: the result has no norm */
    int norm_first;       /* 1: the norm precedes the product with z */
    float step_least;     /* least time step */
    float step_max;       /* largest time step; 0: no limit */
    int scaled;           /* 1: the class has the following factors */
    float in_scale;       /* factor of the block's input, not 0 */
    float part_scale[5];  /* factors of z, x, B, C and dt; the last is not 0 */
};
/* Return a size of tensors.def. CHECK: the size is one of this block. */
int64_t mamba2_size(const struct mamba2_sizes *s, enum tensor_size size);

/* A layer of Mamba-2 ("Transformers are SSMs", arXiv 2405.21060; block/mamba2.c). State: the
 * convolution's, and f32 [n_head, d_state, d_head]. Row scratch: z, x B C, convolved x, B and C,
 * dt, decay, result. */
struct mamba2_block {
    struct mamba2_sizes s;
    /* matrices z [n_head d_head, d], xbc [n_head d_head + 2 n_group d_state, d], dt [n_head, d]:
     * parts of one matrix; o [d, n_head d_head] */
    struct linear z, xbc, dt, o;
    struct conv_block conv;
    const float *a, *skip;   /* f32 [n_head] -exp(A_log) and D, vectors of the model */
    float z_scale, dt_scale; /* factors of z and dt if s.scaled */
    const float *xbc_scale;  /* f32 [columns of xbc] factors, a vector of the model; NULL if none */
    struct norm group;       /* norm of each group without weights, over n_head d_head / n_group */
    const float *norm;       /* f32 [n_head d_head] weights after the norm, a vector of the model */
    int64_t at_state;
    int at_z, at_xbc, at_x, at_b, at_c, at_dt, at_decay, at_y;
};
/* Bind the block of layer il. */
void bind_mamba2(struct binder *b, struct mamba2_block *m, int il, const struct mamba2_sizes *s);
/* Add the block of `in` to x f32 [n_row, d]. */
void fwd_mamba2_add(struct fwd *f, float *x, struct input in, const struct mamba2_block *m);
/* Compute y f32 [n_row, d] = the block of `in`. */
void fwd_mamba2(struct fwd *f, float *y, struct input in, const struct mamba2_block *m);

/* Attention with a gate per value of its result (block/gated.c). Row scratch: gate [n_head *
 * d_head]. */
struct gated_attn {
    struct attn_block attn;
    struct linear gate; /* matrix [n_head * d_head, d] */
    int at_gate;
};
/* Bind the attention of layer il. */
void bind_gated_attn(struct binder *b, struct gated_attn *g, int il);
/* Add the attention of `in` to x f32 [n_row, d]. */
void fwd_gated_attn_add(struct fwd *f, float *x, struct input in, const struct gated_attn *g);

/* Return values of a parameter f32 [k, n] in the arena: the transposed tensor [n, k] or [n, 1, k].
 * The tensor is stem.weight, or in a GGUF stem.bias or stem. NULL after an error. */
float *bind_transposed(struct binder *b, const char *stem, int il, int64_t n, int64_t k);

#endif
