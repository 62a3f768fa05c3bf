/* form_impl.h - private to src/model: published forms of quantized weights.
 *
 * A form is the layout in which a library stores a quantized matrix in several tensors. form.c
 * checks the fields of config.json's quantization_config, and has helpers. Each other file converts
 * the tensors of one quant_method to codes and scales (backend/published.h). The tensors of a
 * matrix determine if the matrix is quantized. Exempt modules (modules_to_not_convert, ignore,
 * dynamic) therefore need no list: their matrices have other tensors or shapes. Only the loading
 * thread calls these functions. */
#ifndef QUOTH_MODEL_FORM_IMPL_H
#define QUOTH_MODEL_FORM_IMPL_H

#include "model/model_impl.h"

struct form {
    const char *method; /* quant_method in config.json, static */
    /* Read and check fields of quantization_config; NULL: nothing to read. b keeps the failure. */
    void (*read)(struct binder *b);
    /* Set the codes and scales of the matrix, and return its first tensor. NULL if the matrix is
     * not quantized, or after a failure. b keeps the failure. */
    const struct tensor_info *(*bind)(struct binder *b, const struct site *s, struct published *p);
    /* Return true if the file has the matrices s of all experts in this form. NULL: never. */
    bool (*has_experts)(const struct binder *b, const struct site *s);
    /* Set the codes and scales of rows `part` of each matrix, from [n_expert], and return the first
     * tensor. NULL after a failure. */
    const struct tensor_info *(*bind_experts)(struct binder *b, const struct site *s,
                                              struct published *from, int64_t n_expert,
                                              const struct row_part *part);
};
#define FORM(id) extern const struct form form_##id;
#include "form.def"

/* Flags of GPTQ's tensors. PLAIN_ZEROS: the file has the unchanged zeros (version 2). OWN_GROUPS:
 * the groups of inputs are not consecutive, so each matrix has a table of groups (desc_act). */
enum { FORM_PLAIN_ZEROS = 1, FORM_OWN_GROUPS = 2 };
/* Bind a matrix in AWQ's layout "gemm", as form.bind does. */
const struct tensor_info *form_awq_gemm(struct binder *b, const struct site *s,
                                        struct published *p);

/* Return a field of quantization_config; NULL if absent. */
const struct meta *form_meta(const struct binder *b, const char *field);
/* Return an integer field in [lo, hi]; `fallback` if the field is absent or null. Reject all other
 * values. */
int form_int(struct binder *b, const char *field, int lo, int hi, int fallback);
/* Reject a field of quantization_config with a reason. b keeps the failure. */
void form_refuse(struct binder *b, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Reject a tensor of the matrix with a reason. b keeps the failure. */
void form_fault(struct binder *b, const struct tensor_info *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Return a tensor of the matrix, and mark the tensor as bound; NULL if absent. */
const struct tensor_info *form_find(struct binder *b, const struct site *s, const char *suffix);
/* Return a required tensor of the matrix, with a type of the set `types` (1 << QT_*) and n_row rows
 * of n_col values. n_row or n_col -1: any number of at least 1. */
const struct tensor_info *form_need(struct binder *b, const struct site *s, const char *suffix,
                                    uint64_t types, int64_t n_row, int64_t n_col);
/* Mark tensors that affect no value as bound. `suffixes` ends with NULL. */
void form_skip(struct binder *b, const struct site *s, const char *const *suffixes);

enum { FORM_INT32 = 4 };
#define TYPE(id)    (UINT64_C(1) << QT_##id)
#define FLOAT_TYPES (TYPE(f32) | TYPE(f16) | TYPE(bf16))

/* Set the scales to the tensor t. t has one item per matrix, per output, per output and group, or
 * per block of block_out outputs and block_k inputs (0: no blocks). Reject all other shapes. */
void form_scales(struct binder *b, const struct site *s, struct published *p,
                 const struct tensor_info *t, int64_t block_out, int64_t block_k);
/* Set p->group to the groups in the tensor `suffix` (i32 [k]), unless the groups are
 * consecutive. */
void form_groups(struct binder *b, const struct site *s, struct published *p, const char *suffix,
                 int64_t n_group);
/* Return the number of inputs per group if n_group groups contain all k inputs; 0 if the config and
 * the tensors disagree. any: accept every size that divides k. */
int64_t form_group_size(const struct binder *b, int64_t n_group, int64_t k, bool any);
/* Return the value of a tensor with one value. */
float form_scalar(const struct tensor_info *t);
/* Return the levels of E4M3 codes, f32 [256]. */
const float *form_e4m3(struct binder *b);
extern const float form_e2m1[16];

/* Return the layout of 8-bit codes with n_col codes per row. */
struct codes form_bytes(const struct tensor_info *t, int64_t n_col);
/* Return the layout of 32-bit words with codes along the inputs. A row has n_word words. */
struct codes form_words(const struct tensor_info *t, int bits, int64_t n_word);
/* Return the layout of 32-bit words with codes along the outputs. Rows of the tensor are inputs or
 * groups. */
struct codes form_words_out(const struct tensor_info *t, int bits, int64_t n_word);

#endif
