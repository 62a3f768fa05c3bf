/* model.h - a loaded model: checkpoint -> weights bound to an architecture -> logits for a batch.
 *
 * A model has no requests. model_forward computes one struct batch. A batch may contain prefill
 * chunks and decodes of any number of sequences. One thread opens and closes a model. The engine's
 * thread calls model_forward. */
#ifndef QUOTH_MODEL_H
#define QUOTH_MODEL_H

#include "backend/backend.h"
#include "cache/cache.h"
#include "format/format.h"

#include <signal.h>

struct model; /* opaque */

/* Addition to a linear layer l: y = out * l(in * x) + scale * b(a(x)), in f32. */
struct addition {
    /* matrices a [rank, k] and b [n_out, rank], without biases; a.w.n_out 0: there are none */
    struct linear a, b;
    float scale;
    const float *in, *out; /* factors f32 [k] and f32 [n_out] on the device; NULL if none */
};

/* Named additions to matrices of a model: an adapter. Pointers are borrowed from the owner of
 * struct additions. */
struct addition_set {
    const char *name; /* name of the adapter for clients; NULL if none */
    const char *path; /* folder of the adapter's files */
    /* additions by number of the matrix [n_matrix], NULL for a matrix without an addition; NULL: no
     * additions */
    const struct addition *const *add;
};

/* Additions to a model's linear layers. batch.adapter selects the set of a sequence. Set 0 is for
 * sequences without an adapter. The owner sets the additions after model_open and before the first
 * model_forward. Zeros: no additions. All pointers are borrowed from `owner`. */
struct additions {
    const struct addition_set *set; /* sets [n_set] */
    int n_set;
    /* number of bytes that the sets need on the device, set before model_open */
    int64_t n_byte;
    float *inner; /* scratch on the device, f32 [n_row, largest rank or k of `in`] */
    float *outer; /* scratch on the device, f32 [n_row, largest n_out] */
    /* owner of the memory of all other fields, for adapters_close; NULL if none */
    struct adapters *owner;
};

/* Heads are layers after pooling. EMBED gives an embedding, CLASS the logits of a classifier. */
enum head { HEAD_EMBED, HEAD_CLASS, N_HEAD };
/* Function that is applied to a classifier's logits. AUTO: sigmoid for one label, softmax for
 * several labels. */
enum class_act { CLASS_AUTO, CLASS_IDENTITY, CLASS_SIGMOID, CLASS_SOFTMAX };

enum { CLASS_TOKENS_MAX = 16 };
struct model_options {
    struct backend *backend; /* device, borrowed as long as the model is open */
    enum kv_type kv_type;
    int page_rows;    /* number of rows of a KV page; 0: 32 */
    int n_page;       /* number of KV pages; 0: derived from kv_bytes */
    int64_t kv_bytes; /* number of bytes of all pages; 0: derived from memory_utilization */
    /* fraction of the machine's memory for the whole process. The pages get the rest after weights,
     * activations and swap space. 0: pages for n_longest sequences of context_max tokens (n_longest
     * 0: 1), but at most half of the free memory and at least one sequence */
    double memory_utilization;
    int n_longest;
    int64_t swap_bytes; /* host memory for pages of preempted sequences; 0 if none */
    /* maximum length of a sequence; 0: the model's context length, reduced to fit memory */
    int context_max;
    bool context_trained; /* true: context_max is reduced to the model's context length */
    /* number format or mix (quant_mix.def) for matrices that have F32, F16 or BF16 in the files,
     * borrowed; NULL: the files' formats */
    const char *quantization;
    /* store of packed weights; the model sets the key */
    struct weights_options weights;
    /* limits of batches. The caller sets n_row, n_seq, n_out and n_adapter. The model sets all
     * other fields */
    struct batch_limits batch;
    /* additions of adapters, borrowed as long as the model is open; NULL if none */
    const struct additions *additions;
    /* ids of tokens whose rows of the head are used as a classifier [n_class_token]; n_class_token
     * 0 if none */
    int32_t class_token[CLASS_TOKENS_MAX];
    int n_class_token;
    /* true: the classifier has one label, whose row is the second token's row minus the first
     * token's row */
    bool class_difference;
};

/* Read-only facts about a model, for the engine, the CLI and reports. Pointers are borrowed from
 * the model and its checkpoint. */
struct model_info {
    const char *arch; /* name of the architecture, such as "llama" */
    const char *name; /* name of the model: general.name, or the file name */
    int n_layer, d_model, d_ff, n_head, n_head_kv, d_head, n_vocab;
    /* number of values of a hidden state; equal to d_model for most models */
    int d_hidden;
    int context_train; /* context length in training */
    int context_max;   /* context length in this process      */
    int window;        /* largest sliding window of all layers, in tokens; 0 if none */
    /* number of values of each head's result; 0: the model lacks the head */
    int head_out[N_HEAD];
    int pooling_type; /* pooling that the model's files give, as GGUF's number; 0 if none */
    /* names of sentence-transformers' poolings that GGUF has no number for, separated by '+',
     * borrowed; NULL if none */
    const char *pooling;
    bool include_prompt; /* false: the pooling leaves the tokens of a prompt out */
    int class_pooling;   /* pooling of a classifier, as GGUF's number */
    /* token of padding, at which a classifier does not take the last row; -1: none */
    int32_t class_pad;
    bool normalize;           /* true: embeddings have the length 1 */
    enum class_act class_act; /* function of a classifier's logits */
    enum class_act score_act; /* function of the logit of a pair's score */
    bool encoder;             /* true: a sequence is computed in one step, without logits */
    /* values of a model of encoder and decoder; zeros for all other models. n_encoder: number of
     * the encoder's layers. start: tokens that follow a source, borrowed [n_start]. side_max:
     * maximum length of a source and of a target; 0: no maximum. source_max: maximum length of a
     * source in this process */
    int n_encoder, n_start, side_max, source_max;
    const int32_t *start;
    bool headless;  /* true: the model has no logits */
    int window_all; /* largest sliding window if every layer has a window; otherwise 0 */
    int64_t n_param;
    int64_t weight_bytes; /* bytes in the checkpoint */
    /* layer_bytes, head_bytes: number of bytes that a step of one row reads in the matrices of the
     * layers and of the head. layer_macs, head_macs: number of multiply-adds per row and per logits
     * row. In a mixture, only the experts of one row are included. pair_macs: number of
     * multiply-adds of attention per row and visible position. */
    int64_t layer_bytes, head_bytes, layer_macs, head_macs, pair_macs;
    struct weights_info weights; /* number of bytes of the packed weights in the backend */
    int64_t kv_token_bytes;      /* KV bytes per token over all layers  */
    int64_t kv_bytes;            /* number of reserved bytes of all KV pages */
    int64_t scratch_bytes;       /* number of bytes of activations, rope tables and outputs */
    int page_rows, n_page;
    int64_t page_bytes; /* number of bytes of a page over all layers */
    int n_host_page;    /* number of pages in the swap space */
    /* recurrent state: number of bytes of a sequence's state of all layers, 0 if none; number of
     * slots, also in the swap space; number of reserved bytes of all slots */
    int64_t state_bytes;
    int n_state, n_host_state;
    int64_t states_bytes;
    /* matrices of the model by number, on the device, borrowed [n_matrix] */
    struct tensor *const *matrix;
    int n_matrix;
    /* true: the rows of q and k pair rotary lanes (2i, 2i + 1), in contrast to (i, i + d/2) in
     * Hugging Face checkpoints of the architecture */
    bool permuted;
    bool grouped;       /* true: in Hugging Face checkpoints, attn_qkv groups the rows by KV head */
    int64_t swap_bytes; /* number of reserved bytes of the swap space */

    enum kv_type kv_type;
};

/* Check that a checkpoint's architecture is known, as model_open does. ERR_UNSUPPORTED,
 * ERR_MISSING. */
int model_check_arch(const struct checkpoint *c, struct err *e);
/* Return the name of a checkpoint's model: the name in its metadata, or the file name. Borrowed
 * from c, never empty. */
const char *model_name(const struct checkpoint *c);
/* Open a model. The checkpoint must outlive the model, because names and vectors remain in the
 * checkpoint's map. The backend and the additions of *o must also outlive the model. The caller
 * owns *out, which is NULL after an error. Errors contain the tensor or key, the found value and
 * the expected value. ERR_UNSUPPORTED for an architecture, key or number format. ERR_MISSING for an
 * absent tensor or key. ERR_FORMAT for a wrong shape or value. ERR_LIMIT if activations or KV pages
 * do not fit. ERR_MEMORY. */
int model_open(struct model **out, const struct checkpoint *c, const struct model_options *o,
               struct err *e);
void model_close(struct model *m); /* close m; NULL is allowed */
/* Return facts about m, borrowed until model_close. Any thread. */
const struct model_info *model_info(const struct model *m);

typedef void model_matrix_fn(void *ctx, const char *tensor, enum qtype type, int64_t n_value,
                             bool converted);
/* Options and result of model_measure, which measures a model without packing it. */
struct model_sizes {
    /* Report one matrix, with its number of values and its number format in memory. converted: the
     * file has codes of a quantized form (model/form). NULL: no report */
    model_matrix_fn *matrix;
    void *ctx;            /* borrowed: argument of `matrix` */
    enum kv_type kv_type; /* type of K and V */
    /* results, as in model_info: KV bytes per token over all layers, bytes of a recurrent state */
    int64_t kv_token_bytes, state_bytes;
    bool headless; /* result, as in model_info: true if the model has no logits */
};
/* Bind a checkpoint without packing it, and report its sizes. quantization: as in model_options.
 * Return an error of model_open. */
int model_measure(const struct checkpoint *c, struct backend *b, const char *quantization,
                  struct model_sizes *s, struct err *e);
/* List the tensors of random weights for a folder, as a dummy_tensors_fn. backend: a backend of one
 * thread. Errors: those of model_open and dummy_request. */
int model_list_random(void *backend, struct dummy_maker *maker, struct checkpoint *c,
                      struct err *e);

/* Use of a key or a tensor of a file by loading. CHECKED: a key with its only accepted value.
 * UNKNOWN: a key that is ignored with a warning, or a tensor after a failure. */
enum fate { FATE_USED, FATE_CHECKED, FATE_IDLE, FATE_UNKNOWN, FATE_REFUSED };
/* Form of a tensor in memory. EXPERT: one matrix of a mixture. PART: a part of a matrix whose bytes
 * are counted with another tensor, such as the scales of a quantized form. COPY: a copy of another
 * tensor, which is used. */
enum tensor_form {
    TENSOR_MATRIX,
    TENSOR_EXPERT,
    TENSOR_TABLE,
    TENSOR_VECTOR,
    TENSOR_PART,
    TENSOR_COPY
};
/* Texts are borrowed for the call. */
struct explained_key {
    int i;            /* position in the checkpoint's metadata; -1: the file lacks the key */
    const char *name; /* field of config.json, key of a GGUF, or flag that gave the value */
    enum fate fate;
    const char *why; /* part of the model that uses the key, or the reason for not using the key */
};
struct explained_tensor {
    int i; /* position in the checkpoint */
    enum fate fate;
    /* reason if the tensor is not used; otherwise the name of its matrix, "" if none */
    const char *why;
    /* all further fields are valid if the tensor is used */
    enum tensor_form form;
    /* number of matrices made from the tensor; 2 for an embedding that is also the head */
    int n_matrix;
    enum qtype type; /* number format in memory */
    /* true: the values are encoded in a format that differs from the file's format
     * (quantization) */
    bool is_encoded;
    bool is_codes;  /* true: the matrix is made from codes and scales of a quantized form */
    int64_t n_byte; /* number of bytes in memory */
};
struct explain {
    void (*key)(void *ctx, const struct explained_key *k);
    void (*tensor)(void *ctx, const struct explained_tensor *t);
    void *ctx; /* borrowed */
};
/* Report each key and tensor of a checkpoint, without packing it. `quantization` is that of
 * model_options. Return an error of model_open. After an error, the keys are reported if the
 * architecture is known. No tensors are reported if a key is rejected. */
int model_explain(const struct checkpoint *c, struct backend *b, const char *quantization,
                  const struct explain *x, struct err *e);

/* A model whose checkpoint is converted: a view with the tensors of a GGUF or of a Hugging Face
 * directory, opaque. The bytes are computed while the view is written (convert.c). */
struct conversion;
struct conversion_options {
    struct backend *backend; /* device, borrowed; conversion does no computation on the device */
    /* type: number format or mix of the matrices, borrowed; NULL: the files' formats. pure: true
     * applies the format to every matrix of a GGUF, as in struct dummy_options */
    const char *type;
    bool pure;
    /* flag of the caller, borrowed; writing ends with ERR_BUSY if the flag is not 0 */
    const volatile sig_atomic_t *stop;
};
/* Create the view. The checkpoint must outlive the view. Main thread. The caller owns *out, which
 * is NULL after an error. ERR_UNSUPPORTED for an architecture or a form of weights without a
 * conversion, and the errors of model_open. */
int model_gguf_open(struct conversion **out, const struct checkpoint *c,
                    const struct conversion_options *o, struct err *e);
/* Create a view of a GGUF with the tensors of a Hugging Face directory, and append its config.json
 * to *config. The types of tensors are F32, F16 and BF16. Quantized matrices become BF16. Errors:
 * those of model_gguf_open. */
int model_hf_open(struct conversion **out, const struct checkpoint *c,
                  const struct conversion_options *o, struct buf *config, struct err *e);
/* Create a view of Dense module i of a GGUF of an embedding, dense_2 or dense_3. Errors: those of
 * model_gguf_open. */
int model_hf_dense(struct conversion **out, const struct checkpoint *c,
                   const struct conversion_options *o, int i, struct err *e);
/* Return the view, borrowed. The caller may add further keys to the view. */
struct checkpoint *conversion_view(const struct conversion *g);
/* return the number of tokens in the model's vocabulary */
int conversion_n_vocab(const struct conversion *g);
void conversion_close(struct conversion *g); /* close g; NULL is allowed */
/* Compare the configs of two checkpoints after reading: sizes, constants, windows, ropes.
 * ERR_UNSUPPORTED if a value of `got` differs from `want`; the error contains the first such value.
 * Also the errors of model_open. */
int model_same_config(const struct checkpoint *want, const struct checkpoint *got,
                      struct backend *b, struct err *e);

typedef void model_verdict_fn(void *ctx, const char *tensor, enum weights_verdict v);
/* Compare the stored packed weights with a fresh packing of the checkpoint. Call `report` once per
 * packed tensor. Remove the stored weights if a tensor differs. Return ERR_MISSING if nothing is
 * stored, ERR_FORMAT if the store cannot be read, or an error of model_open. */
int model_verify(const struct checkpoint *c, const struct model_options *o,
                 model_verdict_fn *report, void *ctx, struct err *e);

/* Return the thread pool of model_forward, borrowed. The pool is idle between two calls of
 * model_forward. */
struct pool *model_pool(const struct model *m);

/* Return the figures of the limit of the weights in memory; zeros without a limit. Any thread. */
struct weights_use model_weights_use(const struct model *m);

/* Return the limits for batch_open of batches for this model, borrowed until model_close. */
const struct batch_limits *model_batch_limits(const struct model *m);

/* Results of a forward pass, borrowed from the model until the next forward pass. The caller may
 * overwrite the logits. */
struct model_out {
    /* logits of the OUT_LOGITS rows in the order of out_row, f32 [n_logits, n_vocab] */
    float *logits;
    /* hidden states of the OUT_HIDDEN rows after the output norm, f32 [n_hidden, d_hidden] */
    const float *hidden;
    int n_logits, n_hidden; /* numbers of logits rows and of hidden rows */
};

/* Run the batch's copies, then compute all rows. A batch with 0 rows is valid. Cannot fail on a
 * batch that batch_check accepts. Does not allocate. */
struct model_out model_forward(struct model *m, const struct batch *b);

/* Compute y f32 [head_out[h]], the result of head h for a pooled row x f32 [d_hidden]. The model
 * must have the head (head_out[h] > 0). x and y are on the host and do not overlap. Call on the
 * thread of model_forward, between two steps. Does not allocate. */
void model_head(struct model *m, enum head h, const float *x, float *y);
/* Return the name of label i of a classifier, borrowed, and set its length. NULL if the label has
 * no name. */
const char *model_label(const struct model *m, int i, size_t *n);

/* Make all KV pages resident before their first use. Call model_touch_pages before the first
 * model_forward. */
void model_touch_pages(struct model *m);

/* Receive every named intermediate x f32 [n_row, n]. layer is -1 outside layers. For tests and
 * debugging. */
typedef void trace_fn(void *ctx, int layer, const char *name, const float *x, int n_row, int64_t n);
void model_trace(struct model *m, trace_fn *fn, void *ctx); /* set the callback; NULL if none */

#endif
