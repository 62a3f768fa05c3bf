/* adapter_impl.h - private to src/adapter: the configuration of an adapter, and binding.
 *
 *   peft.c     adapter_config.json -> struct peft
 *   bind.c     tensors -> additions to the matrices of a model
 *   adapter.c  open and close
 *
 * The thread that opens the adapters calls all functions. */
#ifndef QUOTH_ADAPTER_IMPL_H
#define QUOTH_ADAPTER_IMPL_H

#include "adapter.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"

/* ---- peft.c ---- */

/* Configuration of an adapter. */
struct peft {
    const char *path;  /* path of the file, borrowed */
    struct json *root; /* owned */
    int64_t rank;
    double alpha;
    bool rslora; /* true: scales are alpha / sqrt(rank); false: alpha / rank */
    /* values by patterns of module names, borrowed from root; NULL if none */
    const struct json *rank_pattern, *alpha_pattern;
    /* lists of module names, or one pattern, borrowed from root. targets is NULL for all modules.
     * excluded is NULL if none */
    const struct json *targets, *excluded;
    /* index or list of indices, borrowed from root; NULL: all layers. The field applies only to
     * lists of targets, and to targets without the full module name. */
    const struct json *layers;
};

/* Read the file adapter_config.json at `path`, which is borrowed. The caller closes p, which is
 * zeroed, also after a failure. Errors: those of json_read_file. ERR_FORMAT for a wrong value,
 * ERR_UNSUPPORTED for an unknown key or a method other than LoRA. ERR_MEMORY. */
int peft_open(struct peft *p, const char *path, struct err *e);
void peft_close(struct peft *p);
/* Set rank and scale of a module, such as "model.layers.0.self_attn.q_proj". ERR_FORMAT if a
 * pattern or its value is invalid, or the scale is infinite, ERR_MEMORY. */
int peft_module(const struct peft *p, const char *module, int64_t *rank, float *scale,
                struct err *e);
/* Return 0 if PEFT would load the tensors of the module: the module is a target, in a layer to
 * transform, and not excluded. Add 1 to target [n_target] of each list entry that names the module.
 * ERR_FORMAT with the key if PEFT would not load the tensors, or if a pattern is invalid.
 * ERR_MEMORY. */
int peft_is_target(const struct peft *p, const char *module, int *target, struct err *e);
/* Return the number of entries in the list of targets; 0 if the targets are one pattern. */
size_t peft_n_target(const struct peft *p);

/* ---- bind.c ---- */

/* An adapter during loading, before its additions are complete. */
struct adapter_source {
    struct peft peft;
    struct checkpoint *file; /* owned; NULL if the set is empty or already bound */
};

/* State of all adapters, owned by struct additions. */
struct adapters {
    struct arena arena;            /* arena of names, sets and additions */
    struct arena values;           /* arena of f32 values, freed after the copy to the device */
    struct addition_set *set;      /* [n_set], in the arena */
    struct adapter_source *source; /* [n_set], in the arena */
    int n_set;
    /* matrices for the device; the list is owned, its items are in the arena */
    VEC(struct tensor *) tensor;
    int64_t rank_max, out_max; /* largest rank and largest n_out of all additions */
    struct backend *backend;   /* borrowed; NULL before adapters_bind */
    struct weights *weights;   /* matrices on the device, owned */
    /* scratch on the device, owned: f32 [n_row, rank_max], f32 [n_row, out_max] */
    float *inner, *outer;
    size_t inner_bytes, outer_bytes;
};

/* Bind the tensors of s to the model's matrices. Set the additions of `set`, in the arena of a.
 * Errors: those of adapters_bind. */
int adapter_bind(struct adapters *a, struct addition_set *set, struct adapter_source *s,
                 const struct model_info *info, struct err *e);

#endif
