/* bind_impl.h - private to src/model: state of a load, values of the metadata, and tensors of the
 * checkpoint -> weights. Shapes are checked, and the first failure is kept. The loading thread
 * calls these functions. */
#ifndef QUOTH_MODEL_BIND_IMPL_H
#define QUOTH_MODEL_BIND_IMPL_H

#include "arch_impl.h"
#include "plan_impl.h"

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
    /* list of random weights to which binding adds the tensors that it needs (random.c), borrowed;
     * NULL: tensors are found in the checkpoint */
    struct dummy_maker *maker;
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
    bool drops_pooler; /* true: a matrix "cls" is BERT's pooler, which embeddings do not use */
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
/* Return the integer "sentence_transformers.NAME", which is in [lo, hi]; fallback if there is none.
 * Set an error for another value. */
int64_t config_module_int(struct binder *b, const char *name, int64_t lo, int64_t hi,
                          int64_t fallback);
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
/* Return true for a classifier of the last row, the only one whose result depends on class_pad. */
bool config_uses_class_pad(const struct config *c);
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
/* Copy the lists of divisors of ROPE_MAIN to ROPE_QUERY, if the class rotates queries by the same
 * angles. */
void config_share_factors(struct config *c);
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
    bool flat; /* true: a GGUF may have the rows as one vector */
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
/* Add a tensor [dim2, n_out, k] to the list of random weights. dim2 is 1 for a matrix, and n_out is
 * 1 for a vector. values: true if the tensor is F32, because it is not a matrix of a linear layer.
 * NULL after an error, and if the checkpoint has files. ERR_LIMIT, ERR_MEMORY, and ERR_UNSUPPORTED
 * for a size below 1. */
const struct tensor_info *random_tensor(struct binder *b, const char *name, int64_t dim2,
                                        int64_t n_out, int64_t k, bool values);
/* Return true if random weights have the tensor stem.weight, which only some files have. */
bool random_has(const struct binder *b, const char *stem);
/* Return true if random weights have a head in place of the embedding. */
bool random_unties(const struct binder *b);
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
/* Return the values, f32 [n], of a required tensor that is not in tensors.def. NULL after an
 * error. */
const float *bind_required(struct binder *b, const char *name, int64_t n);
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

#endif
