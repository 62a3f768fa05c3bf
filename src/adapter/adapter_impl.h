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

struct bind_state;
/* A kind of adapter (kinds.def). All data are static. */
struct adapter_kind {
    const char *type;  /* value of peft_type */
    const char *field; /* field that other kinds do not have; NULL if none */
    /* function that returns the addition to the matrix t of a module; NULL if the adapter has
     * none, or after an error, which is in the state */
    const struct addition *(*bind)(struct bind_state *b, const struct tensor *t,
                                   const char *module);
};
#define KIND(id) extern const struct adapter_kind adapter_kind_##id;
#include "kinds.def"
#undef KIND

/* Configuration of an adapter. */
struct peft {
    const struct adapter_kind *kind; /* static */
    const char *path;                /* path of the file, borrowed */
    struct json *root;               /* owned */
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
/* Set *found to true if `key`, a list of module names or one pattern, matches the module.
 * ERR_FORMAT for another value, ERR_MEMORY. */
int peft_has_module(const struct peft *p, const char *key, const char *module, bool *found,
                    struct err *e);
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
    /* vectors on the device; the list and its items are owned */
    VEC(struct device_vector {
        float *v;
        size_t n_byte;
    })
    vector;
    int64_t rank_max, out_max; /* largest rank and largest n_out of all additions */
    struct backend *backend;   /* borrowed; NULL before adapters_bind */
    struct weights *weights;   /* matrices on the device, owned */
    /* scratch on the device, owned: f32 [n_row, rank_max], f32 [n_row, out_max] */
    float *inner, *outer;
    size_t inner_bytes, outer_bytes;
};

enum { TENSOR_NAME_MAX = 200 }; /* buffer for a tensor's name */
/* State of adapter_bind. target and used are owned. All other pointers are borrowed for the
 * call. */
struct bind_state {
    struct adapters *a;
    const struct adapter_source *s;
    const struct model_info *info;
    const char *path; /* path of the file with tensors */
    int *target;      /* number of modules that each entry of target_modules names */
    uint8_t *used;    /* 1 for each bound tensor */
    struct err *e;    /* receives the first error */
    int rc;           /* 0, or the code of the first error */
};

/* Return a tensor of a module and mark it as used; NULL if the file has none. suffix: end of the
 * tensor's name, such as "lora_A.weight". */
const struct tensor_info *adapter_tensor(struct bind_state *b, const char *module,
                                         const char *suffix);
/* Require a float tensor [n_out, k]. No effect after an earlier error. */
void adapter_check(struct bind_state *b, const struct tensor_info *t, int64_t n_out, int64_t k);
/* Return the values of a tensor, f32 [n_out, k], until adapters_bind ends. NULL after an error. */
float *adapter_values(struct bind_state *b, const struct tensor_info *t);
/* Return the number of rows before t in the model's tensor that contains t. Set *n_all to the
 * number of rows of that tensor. */
int64_t adapter_first_row(const struct model_info *info, const struct tensor *t, int64_t *n_all);
/* Sort rows v f32 [n_row, k] of a module's outputs to the order of the model's tensor with t. No
 * effect after an earlier error. */
void adapter_sort(struct bind_state *b, const struct tensor *t, float *v, int64_t n_row, int64_t k);
/* Return a copy of v f32 [n] on the device, owned by the adapters. NULL after an error. */
const float *adapter_vector(struct bind_state *b, const float *v, int64_t n);

/* Bind the tensors of s to the model's matrices. Set the additions of `set`, in the arena of a.
 * Errors: those of adapters_bind. */
int adapter_bind(struct adapters *a, struct addition_set *set, struct adapter_source *s,
                 const struct model_info *info, struct err *e);

#endif
