/* plan_impl.h - private to src/model: a loaded model, its scratch on the device, memory and rope
 * tables. First the loading thread calls these functions, then the engine's thread. */
#ifndef QUOTH_MODEL_PLAN_IMPL_H
#define QUOTH_MODEL_PLAN_IMPL_H

#include "base/arena.h"
#include "block_impl.h"

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
    int at_head[2]; /* numbers of the scratch of heads */
    int at_pooled;  /* number of the scratch of the row that a head reads */
    int n_pooled;   /* number of values of the row that HEAD_EMBED reads */
    float *whole;   /* arena [n_whole]: an embedding before truncation; NULL if none */
    int n_whole;
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
