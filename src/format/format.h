/* format.h - model files on disk, presented as one view.
 *
 *   GGUF v2/v3 (also split)     names and metadata unchanged
 *   Hugging Face directory      safetensors (one file or sharded) and config.json: tensor names
 *                               and config keys are presented under their GGUF names
 *   llama2.c .bin (v0, v1, v2)  presented as architecture "llama"
 *   no file at all              a model of random weights (checkpoint_open_dummy)
 *
 * src/model therefore needs only one set of names. Values are never changed. The order of attn_q
 * and attn_k rows differs for llama, mistral and smollm3. A Hugging Face directory pairs their
 * rotary halves as (i, i + d/2). GGUF and llama2.c pair the rotary halves as (2i, 2i + 1), because
 * GGUF's converter permutes the rows. The result of checkpoint_kind distinguishes the two orders.
 *
 * Files are mapped read-only. Tensor data and text are borrowed from the checkpoint until
 * checkpoint_close. The bounds of tensors and metadata are checked at open. After a successful open
 * every tensor is inside its file, and every metadata value can be read. One thread opens and
 * closes a checkpoint. Any thread may read an open checkpoint. Rows and texts of the .def lists are
 * static. */
#ifndef QUOTH_FORMAT_H
#define QUOTH_FORMAT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/progress.h"
#include "quant/quant.h"

struct checkpoint; /* opaque */

enum checkpoint_kind { CKPT_GGUF, CKPT_HF, CKPT_LLAMA2C };

/* A tensor. dim[0] varies fastest: a linear weight is [k, n_out] with dim[0] = k. Unused dimensions
 * are 1. A scalar has n_dim 1. A safetensors tensor may have more than four dimensions. dim[3] is
 * then the product of the slowest dimensions. A safetensors tensor may be empty (a dimension of 0,
 * n_byte 0). */
struct tensor_info {
    const char *name;     /* canonical (GGUF) name, NUL-terminated, in the checkpoint's arena */
    const char *name_raw; /* name as spelled in the file, in the checkpoint's arena */
    enum qtype type;
    int n_dim; /* number of dimensions in [1, 4]; 0: a scalar in a view for safetensors */
    int64_t dim[4];
    const uint8_t *data; /* bytes of the tensor, borrowed [n_byte], at any alignment */
    size_t n_byte;       /* number of bytes of all rows (qtype_bytes) */
    int file;            /* index of the file that contains the tensor */
};

/* Kind of a metadata value. META_NONE: the key is absent, or its value in a config.json is null.
 * META_OBJECT: the value is a JSON object, or a list of values of different kinds. The content of a
 * META_OBJECT is not recorded. */
enum meta_kind {
    META_NONE,
    META_BOOL,
    META_INT,
    META_UINT,
    META_REAL,
    META_TEXT,
    META_LIST,
    META_OBJECT
};

/* One metadata value, opaque. */
struct meta;

/* Open a checkpoint. path: a .gguf file (any part of a split model), a directory, a llama2.c .bin
 * or a .safetensors file. The path of model.safetensors, of a shard or of the index opens the
 * directory, if the directory has a config.json. Any other .safetensors file is opened alone,
 * without metadata. The caller owns *out. Errors contain the file, the field, the found value and
 * the expected value. ERR_MISSING if a file or a part is absent. ERR_FORMAT for a file that
 * violates its format or is truncated. ERR_UNSUPPORTED for a version or dtype that is not
 * supported. ERR_ARG if the file is not a model file. ERR_LIMIT, ERR_IO, ERR_MEMORY. */
int checkpoint_open(struct checkpoint **out, const char *path, struct err *e);
/* Values that replace values of a checkpoint's files. Zeros: no values. Texts are borrowed for the
 * call. */
struct checkpoint_changes {
    /* JSON object with fields of config.json (--hf-overrides). As in vLLM, its text_config and the
     * objects of HF_OBJECT (hf_keys.def) are merged. All other values are replaced. */
    const char *config;
    /* JSON object in place of rope_scaling in config.json (--rope-scaling), for files of any kind.
     * For a GGUF the parameters also have their meaning in a config.json. */
    const char *rope;
    /* true: the file's parameters remain if the file's scaling has the type of the given scaling */
    bool rope_adds;
    double rope_theta; /* base of rope (--rope-theta); 0 if none */
};
/* Open a checkpoint with other values. The caller owns *out, which is NULL after an error. Errors
 * name the flag. ERR_FORMAT for a text that is not a JSON object. ERR_ARG for values that
 * contradict each other. ERR_UNSUPPORTED if the files cannot have the values; a GGUF, for example,
 * has no config.json. Also the errors of checkpoint_open. */
int checkpoint_open_with(struct checkpoint **out, const char *path,
                         const struct checkpoint_changes *changes, struct err *e);
void checkpoint_close(struct checkpoint *c); /* close c; NULL is allowed */

/* Open a checkpoint for inspection. A GGUF may end before its data section. The data of the tensors
 * is NULL if the data section is missing. The caller owns *out. Errors: those of
 * checkpoint_open. */
int checkpoint_open_header(struct checkpoint **out, const char *path, struct err *e);

struct quant_mix_site;
struct dummy_maker; /* model of random weights whose tensors are being listed; opaque */
/* Add each tensor of the model of c by dummy_request. ctx: argument of the caller. */
typedef int dummy_tensors_fn(void *ctx, struct dummy_maker *m, struct checkpoint *c, struct err *e);
enum { DUMMY_TENSORS_MAX = 1 << 18 }; /* maximum number of tensors of a listed model */

/* Options of a model of random weights, with any shape and number format. The model needs no
 * download, and its activations are finite. Equal options give equal bytes on every machine. The
 * metadata contain the GGUF's tokenizer, or a tokenizer with one token per byte. The kind of the
 * checkpoint is CKPT_GGUF, or CKPT_HF for a folder. All texts are borrowed for
 * checkpoint_open_dummy. */
struct dummy_options {
    const char *shape; /* name of a shape in dummy_shape.def; NULL: `model` has the shape */
    /* path of a GGUF (the header is sufficient) or of a folder with a config.json */
    const char *model;
    /* quant: number format ("IQ2_XS") or mix ("Q4_K_M"); NULL: the types of the GGUF, or BF16
     * without a GGUF. pure: true applies the format to every matrix, including the head and
     * matrices that a mix exempts. */
    const char *quant;
    bool pure;
    uint64_t seed;
    /* true: tensor data is NULL; checkpoint_write_gguf generates the data while writing */
    bool no_data;
    /* function, with its argument, that lists the tensors of a folder's model. NULL: `model` is not
     * a folder */
    dummy_tensors_fn *tensors;
    void *tensors_ctx; /* borrowed */
    /* GGUF view (checkpoint_build) with the keys and tensors of the model, borrowed until the model
     * is closed. The weights are random also in the file that is written. NULL: `model` has the
     * tensors */
    const struct checkpoint *view;
};
/* Add a tensor of random weights under its GGUF name `site->name`, while checkpoint_open_dummy
 * lists the tensors. dim [site->n_dim], of which the first is site->k. A tensor of type F32 keeps
 * this type; all other matrices get the type of the mix. Tensors of type F32 have zeros as data,
 * and all others have no readable data, until checkpoint_open_dummy returns. Tensors that were
 * added earlier keep their addresses. ERR_LIMIT, ERR_MEMORY, and ERR_UNSUPPORTED for a size below
 * 1. */
int dummy_request(struct dummy_maker *m, const struct quant_mix_site *site, const int64_t *dim);
/* Return true if the weights of c are random. Random matrices are not transposed in a folder. */
bool checkpoint_is_random(const struct checkpoint *c);
/* Return valid value i of the option `shape`, from 0. NULL after the last value. The text is
 * static. */
const char *dummy_shapes(int i);
/* Open a model of random weights. The caller owns *out. ERR_ARG for an unknown shape or quant, with
 * the list of valid values. ERR_UNSUPPORTED if the format does not fit the shape. Also the errors
 * of checkpoint_open for o->model. */
int checkpoint_open_dummy(struct checkpoint **out, const struct dummy_options *o, struct err *e);

/* Allocate memory for tensors of random weights without data (no_data). The model can then be
 * bound, but not computed. A vector has all its values. A tensor outside of layers has its first
 * bytes, because binding compares the first bytes of the embedding and the head. All other bytes
 * are 0, and occupy no memory. ERR_MEMORY. */
int checkpoint_outline(struct checkpoint *c, struct err *e);

/* Write a GGUF view (a file or a dummy) as one GGUF v3. Metadata keep their order. Keys that
 * describe parts of a split model are omitted. Tensors have the alignment of the view. The function
 * writes a temporary file and then renames that file. progress: callback with ctx, called by this
 * thread; NULL if none. ERR_UNSUPPORTED if a tensor or value has no GGUF type, ERR_IO, ERR_ARG for
 * an invalid path, ERR_MEMORY. */
int checkpoint_write_gguf(const struct checkpoint *c, const char *path, progress_fn *progress,
                          void *ctx, struct err *e);

/* ---- a GGUF view that the caller fills (build.c), for checkpoint_write_gguf ---- */

/* Return the bytes of tensor i [n_byte], borrowed until the next call. NULL after a failure, with
 * the error in *e. */
typedef const uint8_t *tensor_make_fn(void *ctx, int i, int *rc, struct err *e);
/* Create a view without keys and tensors. `path` is for errors. make: function that returns the
 * bytes of a tensor; the writing thread calls make with ctx. The caller owns *out, which is NULL
 * after an error. ERR_MEMORY. */
int checkpoint_build(struct checkpoint **out, const char *path, tensor_make_fn *make, void *ctx,
                     struct err *e);
/* Write the tensors of a view as one safetensors file, as checkpoint_write_gguf does.
 * ERR_UNSUPPORTED if the type of a tensor is not F32, F16 or BF16. */
int checkpoint_write_safetensors(const struct checkpoint *c, const char *path,
                                 progress_fn *progress, void *ctx, struct err *e);
/* Add a value as u32, the type that readers of GGUF require for integers. ERR_FORMAT for a
 * duplicate key, ERR_LIMIT for too many keys, ERR_MEMORY. */
int checkpoint_add_u32(struct checkpoint *c, const char *key, uint32_t x, struct err *e);
/* Add a value as f32. Errors: those of checkpoint_add_u32. */
int checkpoint_add_f32(struct checkpoint *c, const char *key, float x, struct err *e);
/* Add a boolean. Errors: those of checkpoint_add_u32. */
int checkpoint_add_bool(struct checkpoint *c, const char *key, bool x, struct err *e);
/* Add the n bytes at `text`, copied with a NUL at the end. Errors: those of checkpoint_add_u32. */
int checkpoint_add_text(struct checkpoint *c, const char *key, const char *text, size_t n,
                        struct err *e);
/* Add a copy of a list of n i32 values. Errors: those of checkpoint_add_u32. */
int checkpoint_add_ints(struct checkpoint *c, const char *key, const int32_t *v, size_t n,
                        struct err *e);
/* Add a copy of a list of n f32 values. Errors: those of checkpoint_add_u32. */
int checkpoint_add_floats(struct checkpoint *c, const char *key, const float *v, size_t n,
                          struct err *e);
/* Add a copy of a list of n bytes. Errors: those of checkpoint_add_u32. */
int checkpoint_add_bytes(struct checkpoint *c, const char *key, const void *v, size_t n,
                         struct err *e);
/* Add a copy of a list of n booleans. Errors: those of checkpoint_add_u32. */
int checkpoint_add_bools(struct checkpoint *c, const char *key, const bool *v, size_t n,
                         struct err *e);
/* Add a list of n texts. Text i has len[i] bytes at text[i], which are copied. Errors: those of
 * checkpoint_add_u32. */
int checkpoint_add_texts(struct checkpoint *c, const char *key, const char *const *text,
                         const size_t *len, size_t n, struct err *e);
/* Add a tensor to the view. The function `make` returns its bytes. dim [n_dim]. ERR_FORMAT for a
 * duplicate name or sizes that overflow, ERR_UNSUPPORTED if the row length is not a multiple of the
 * type's block, ERR_MEMORY. */
int checkpoint_build_tensor(struct checkpoint *c, const char *name, enum qtype type, int n_dim,
                            const int64_t *dim, struct err *e);

/* Compute a key that identifies the bytes of the tensors, without reading the tensors. The key
 * depends on device, inode, size and modification time of every file, and on the bytes before the
 * tensors. In a GGUF the bytes before the tensors are the metadata and the tensor list. Return
 * false if the tensors are random weights, because random weights have no file. */
bool checkpoint_key(const struct checkpoint *c, uint64_t key[2]);
/* Release the memory of the file pages that were read. The next read loads the pages again. */
void checkpoint_release_pages(const struct checkpoint *c);
/* Copy names, types and metadata to memory and release the files. Afterwards the files may change
 * or disappear. The tensors of the released files have no data. Random weights are kept. No other
 * thread may read c during the call. ERR_MEMORY; c is then unchanged. */
int checkpoint_detach(struct checkpoint *c, struct err *e);

/* Return true if the file is an executable with an appended GGUF (pack.c). checkpoint_open accepts
 * an executable with an appended GGUF like the GGUF. */
bool checkpoint_packed(const char *path);
/* Return true if the file is a program that runs its own model (argument `app` of
 * checkpoint_pack). */
bool checkpoint_is_app(const char *path);
/* Write the executable `exe`, followed by the GGUF `model`, to the file `out` with mode 0755. A
 * model that `exe` already contains is omitted. app: the program runs this model if it is started
 * without a command. ERR_ARG if `out` is one of the inputs, ERR_UNSUPPORTED if the model is not a
 * GGUF of one file, ERR_IO. Also the errors of checkpoint_open. */
int checkpoint_pack(const char *exe, const char *model, const char *out, bool app, struct err *e);

/* Return the kind of the checkpoint's files. */
enum checkpoint_kind checkpoint_kind(const struct checkpoint *c);
/* Return the path of the file or directory, borrowed from c. */
const char *checkpoint_path(const struct checkpoint *c);
/* Return the folder of companion files, such as the tokenizer, borrowed from c. */
const char *checkpoint_dir(const struct checkpoint *c);
/* Return the size of the files in bytes, summed over all parts. */
size_t checkpoint_file_bytes(const struct checkpoint *c);

/* Return the number of tensors. */
int checkpoint_n_tensor(const struct checkpoint *c);
/* Return the tensor at position i in [0, n_tensor), borrowed from c. */
const struct tensor_info *checkpoint_tensor_at(const struct checkpoint *c, int i);
/* Return the tensor of a canonical name, borrowed from c; NULL if not found. */
const struct tensor_info *checkpoint_tensor(const struct checkpoint *c, const char *name);

enum { CHECKPOINT_SPECIAL_MAX = 128 };
/* Return the number of metadata entries. The keys are those of GGUF files, such as
 * "general.architecture", "llama.block_count" or "tokenizer.ggml.tokens". A Hugging Face directory
 * provides the following fields under their GGUF names (hf_keys.def):
 *   config.json
 *   generation_config.json  general.sampling.temp, .top_k, .top_p, .min_p, .typical_p,
 *                           .penalty_repeat; generation.max_new_tokens, .min_new_tokens, and
 *                           others (generation.def);
 *                           tokenizer.ggml.eos_token_ids as a list
 *   the chat template       tokenizer.chat_template, and tokenizer.chat_template.NAME
 *   special tokens          tokenizer.special.NAME, at most CHECKPOINT_SPECIAL_MAX; tokenizer.class
 * The tokenizer of a directory remains in its files. No field of config.json is omitted. Fields
 * without a GGUF name have the key "config.FIELD". Fields of rope_parameters have the key
 * "config.rope_parameters.FIELD". The architecture defines the default and the meaning of each key
 * (src/model). */
int checkpoint_n_meta(const struct checkpoint *c);
/* Return the metadata value at position i in [0, n_meta), and set *key to its key. Value and key
 * are borrowed from c. */
const struct meta *checkpoint_meta_at(const struct checkpoint *c, int i, const char **key);
/* Return the metadata value of a key, borrowed from c; NULL if not found. */
const struct meta *checkpoint_meta(const struct checkpoint *c, const char *key);

/* Return the flag that gave the metadata value at position i, such as "--hf-overrides", static.
 * NULL if a file gave the value. */
const char *checkpoint_given(const struct checkpoint *c, int i);
/* Return the flag that replaced the scaling of rope, static; NULL if none. */
const char *checkpoint_rope_given(const struct checkpoint *c);

/* Return the kind of a value; META_NONE if m is NULL. */
enum meta_kind meta_kind(const struct meta *m);
/* Return true for an OBJECT without fields. */
bool meta_is_empty(const struct meta *m);
/* Return the value of a BOOL; `fallback` if m is NULL or of another kind. */
bool meta_bool(const struct meta *m, bool fallback);
/* Return the value of a BOOL, an INT, a UINT up to INT64_MAX or a whole REAL. Return `fallback` for
 * all other values, and if m is NULL. */
int64_t meta_int(const struct meta *m, int64_t fallback);
/* Return the value of an INT, a UINT or a REAL; `fallback` if m is NULL or of another kind. */
double meta_real(const struct meta *m, double fallback);
/* Return the text of a TEXT, borrowed and NUL-terminated; NULL if m is NULL or of another kind. Set
 * *n, which may be NULL, to its length in bytes. The text may contain NULs. */
const char *meta_text(const struct meta *m, size_t *n);

/* Return the number of items of a list; 0 if m is not a list. */
size_t meta_count(const struct meta *m);
/* Return the kind of the items of a list; META_NONE if m is not a list. */
enum meta_kind meta_item_kind(const struct meta *m);
/* Return item i of a list, converted as by meta_int. */
int64_t meta_item_int(const struct meta *m, size_t i, int64_t fallback);
/* Return item i of a list, converted as by meta_real. */
double meta_item_real(const struct meta *m, size_t i, double fallback);
/* Return item i of a list of texts, borrowed and not NUL-terminated; NULL if the item is not a
 * text. Set *n to its length in bytes. */
const char *meta_item_text(const struct meta *m, size_t i, size_t *n);

/* ---- number formats of a quantized model (quant_mix.c) ---- */

/* A published mix of number formats, such as Q4_K_M, or one format. */
struct quant_mix {
    const char *name; /* static */
    enum qtype type;  /* type of all matrices without a rule */
    int file_type;    /* value of general.file_type; -1 if none */
    bool pure;        /* true: every matrix, including the head, has `type` */
};

struct quant_mix_site { /* A tensor, with the properties that the rules use. */
    const char *name;   /* borrowed for the call */
    enum qtype type;    /* original type of the tensor, which norms and similar tensors keep */
    int n_dim;
    int64_t k; /* number of values per row */
    int n_layer, n_group /* query heads per KV head */;
    bool tied; /* true if the embedding is also the head */
};

/* Select a mix or a number format by its name (quant_mix.def). ERR_ARG for an unknown name; the
 * error lists the available names. */
int quant_mix_find(struct quant_mix *m, const char *name, bool pure, struct err *e);
/* Return name i of the mixes, then of the number formats with compute support, from 0. NULL after
 * the last name. The text is static. */
const char *quant_mix_name_at(int i);
/* Return the name of the mix with this general.file_type, static; NULL if none. */
const char *quant_mix_name(int file_type);
/* Return the type of a tensor. The row length is a multiple of the type's block. */
enum qtype quant_mix_type(const struct quant_mix *m, const struct quant_mix_site *s);

enum { LABELS_MAX = 1 << 16 }; /* maximum number of labels of a classifier */
enum { POOLINGS_MAX = 6 };     /* maximum number of poolings whose results are concatenated */

/* ---- the tensors of each architecture (tensors.def) ---- */

enum tensor_size {
    SIZE_ONE,
    SIZE_D,          /* width of the residual stream        */
    SIZE_D_EMBD,     /* width of the token embedding        */
    SIZE_D_FF,       /* width of the feed-forward block     */
    SIZE_D_FF_2,     /* width of gate and up in one matrix  */
    SIZE_D_HEAD,     /* width of one head                   */
    SIZE_D_Q,        /* width of all query heads            */
    SIZE_D_KV,       /* width of all KV heads               */
    SIZE_D_QKV,      /* width of q, k and v in one matrix   */
    SIZE_N_VOCAB,    /* number of tokens                    */
    SIZE_N_POSITION, /* number of learned positions       */
    SIZE_N_SEGMENT,  /* number of token types             */
    SIZE_N_LABEL,    /* number of a classifier's labels   */
    SIZE_N_EXPERT,   /* number of experts                   */
    SIZE_D_EXPERT,   /* width of one expert                 */
    SIZE_D_SHARED,   /* width of the block of all rows next to experts */
    SIZE_D_SHARED_2, /* width of that block's gate and up in one matrix */
    SIZE_D_EXPERT_2, /* width of an expert's gate and up in one matrix */
    SIZE_N_STREAM,   /* number of residual streams          */
    SIZE_N_STREAM_1, /* number of residual streams after the first */
    SIZE_N_STREAM_2, /* square of the number of residual streams */
    SIZE_D_LAUREL,   /* rank of the learned residual        */
    SIZE_N_INPUT,    /* rows of the table of layers' inputs */
    SIZE_D_INPUT,    /* width of a layer's own input        */
    SIZE_D_INPUTS,   /* width of the own inputs of all layers */
    /* sizes of latent attention */
    SIZE_Q_RANK,   /* width of the compressed queries */
    SIZE_KV_RANK,  /* width of the compressed keys and values */
    SIZE_KV_A,     /* width of the compressed keys and values, plus the rotated lanes of a key */
    SIZE_KV_B,     /* width of the keys without rotated lanes and the values of all heads */
    SIZE_D_V,      /* width of the values of all heads */
    SIZE_D_V_HEAD, /* width of the values of one head */
    SIZE_D_NOPE,   /* width of the keys of one head without rotated lanes */
    SIZE_D_LATENT, /* width of the experts' inputs and results */
    SIZE_N_HEAD,   /* number of query heads               */
    SIZE_D_Q_2,    /* width of all query heads with a gate each */
    /* recurrent layers */
    SIZE_D_CONV,         /* number of columns of the convolution */
    SIZE_N_TAP,          /* number of weights of a column of the convolution */
    SIZE_D_INNER,        /* width of the results of all heads */
    SIZE_D_INNER_IN,     /* width of all inputs in one matrix */
    SIZE_N_HEAD_STATE,   /* number of heads */
    SIZE_N_HEAD_STATE_2, /* twice the number of heads */
    SIZE_D_HEAD_STATE,   /* width of the result of one head */
    SIZE_D_STATE,        /* width of B and of C */
    SIZE_DT_RANK,        /* width of compressed time steps */
    SIZE_DT_B_C,         /* width of compressed time steps, B and C in one matrix */
    SIZE_N_BUCKET,       /* number of buckets of distances      */
    /* RWKV: number of mixed inputs, and widths of compressed vectors */
    SIZE_N_MIX,
    SIZE_RANK_MIX,   /* compressed factors of one mixed input */
    SIZE_RANK_MIXES, /* compressed factors of all mixed inputs */
    SIZE_RANK_DECAY, /* compressed decays */
    SIZE_RANK_A,     /* compressed rates of learning in context */
    SIZE_RANK_V,     /* compressed shares of the first layer's values */
    SIZE_RANK_GATE,  /* compressed gates */
    SIZE_COUNT
};

/* Limits of a model's sizes. A larger size is an error. With these limits, products of two sizes
 * fit into an int64_t, and tables per layer or per head are small. */
enum {
    LAYERS_MAX = 4096,
    HEADS_MAX = 65536,
    D_HEAD_MAX = 65536, /* limit of the width of a head, and of the ranks of latent attention */
    EXPERTS_MAX = 65536,
    STREAMS_MAX = 16,    /* limit of the number of residual streams */
    WIDTH_MAX = 1 << 20, /* limit of the width of the residual stream and of other vectors */
    D_FF_MAX = 1 << 22,
};

struct tensor_row { /* all texts are static */
    /* names without ".weight". raw: name in Hugging Face files; NULL: a bias */
    const char *arch, *name, *raw;
    enum tensor_size n_out, k; /* number of rows and of columns; n_out: SIZE_ONE for a vector */
    /* number of matrices: SIZE_ONE, or the number of parts, such as SIZE_N_EXPERT */
    enum tensor_size n_part;
    bool bias; /* true: the tensor is name.bias */
    /* true: only some layers have the tensor; models of random weights omit the tensor */
    bool some;
};

/* Return the rows of an architecture, static, and set *n to their number. NULL if none. */
const struct tensor_row *tensor_rows(const char *arch, int *n);
/* Return the Hugging Face name of alias i of an architecture's tensor `name`, both without
 * ".weight". Static; NULL after the last alias. */
const char *tensor_alias(const char *arch, const char *name, int i);
/* Return the prefix of the Hugging Face names of an architecture that a file may omit, static. */
const char *arch_base(const char *arch);
/* Return the architecture of a config.json's model_type, static; model_type itself if the table has
 * no row. */
const char *arch_of_model_type(const char *model_type);
/* Return model_type i of the folders of an architecture, static; NULL after the last one. An
 * architecture that a field or a folder's kind selects has none of its own. */
const char *arch_model_type(const char *arch, int i);
/* A class of models of several parts. quoth reads only the text part (parts.def). All texts are
 * static. */
struct parts {
    /* model_type of the whole model, and default model_type of the text part */
    const char *model_type, *text;
    /* ANY: text_config.model_type selects the text part. ONE: the class has one kind of text part.
     * FLAT: the class has one kind of text part, and config.json may lack text_config. */
    enum { PARTS_ANY, PARTS_ONE, PARTS_FLAT } which;
    /* source of tie_word_embeddings. FALSE, TRUE: the top level, with the default false or true.
     * EITHER: true if the top level or text_config has true. INNER: text_config if the top level
     * lacks the field. */
    enum { TIED_FALSE, TIED_TRUE, TIED_EITHER, TIED_INNER, TIED_TEXT } tied;
    enum { HEAD_NONE, HEAD_CAP, HEAD_ALL } head; /* fields of the text part that change logits */
};

/* Return the row of a model_type, static; NULL if its models have one part. */
const struct parts *parts_of(const char *model_type);
/* Return true if the text part of a class of kind PARTS_ANY may have this model_type. */
bool parts_has_text(const char *model_type);
/* Return the description of a tensor that belongs to a part other than text, static. The beginning
 * of the raw name determines the description. NULL for all other tensors. */
const char *parts_other(const char *raw);
/* Return the class of the checkpoint's model of several parts, static; NULL if the model has one
 * part. */
const struct parts *checkpoint_parts(const struct checkpoint *c);
/* An architecture for files with this model_type in which this field of config.json is true. All
 * texts are static. */
struct arch_field {
    const char *arch, *model_type, *field;
};
/* Return row i of the list of architectures that a field selects, static. NULL after the last
 * row. */
const struct arch_field *arch_field_at(size_t i);
/* Return row i of the list of architectures that a class selects, which `field` names, static. NULL
 * after the last row. */
const struct arch_field *arch_class_at(size_t i);
/* Set `path` to the folder of the model, the tokenizer and their settings in the Hugging Face
 * directory `dir`: dir itself, or the folder of the first module of sentence-transformers. Set
 * *modules to true if dir has a modules.json. ERR_ARG if a path is too long. Other errors are those
 * of file_find and json_read_file. Any thread. */
int sentence_folder(char path[static 4096], bool *modules, const char *dir, struct err *e);
/* Return name i of the file of the Transformer's settings, static; NULL after the last. As in
 * sentence-transformers, the first file with fields is used. */
const char *sentence_file(size_t i);
/* Return the architecture of a folder of sentence-transformers with a model_type, static; NULL if
 * the folder's kind has no effect. */
const char *arch_of_modules(const char *model_type);
/* Return the name that an architecture has in GGUF files, static; `arch` itself if the table has no
 * row. */
const char *arch_gguf_name(const char *arch);
/* Return true if a window in a GGUF of this architecture has an effect. */
bool arch_gguf_window(const char *gguf);
/* Return true if the matrices of layers are transposed in Hugging Face directories. */
bool arch_hf_columns(const char *arch);
/* Return true if tensors of all experts of a layer are transposed in Hugging Face directories. Then
 * set *square to true if matrices of equal sizes are transposed, too. */
bool arch_hf_expert_columns(const char *arch, bool *square);

/* Write the Hugging Face name of a GGUF tensor name to out[n_out]. part: number of a part that is a
 * separate tensor in the directory, such as an expert; -1: the whole tensor. Return false if the
 * architecture has no such tensor. */
bool hf_raw_name(char *out, size_t n_out, const char *name, const char *arch, int part);
/* Return the number before the end of a GGUF tensor name, such as the 3 of
 * blk.0.ffn_up_exps.3.weight, and write the name without this number to whole[n_whole]. -1 if the
 * name has no such number. */
int hf_part_of(const char *name, char *whole, size_t n_whole);
/* Return the config.json field for a key after "ARCH.", static (hf_keys.def). NULL if none. */
const char *hf_field_name(const char *arch, const char *key);

/* A Hugging Face name and its GGUF name, both static. */
struct name_pair {
    const char *raw, *name;
};

#endif
