/* format.h - model files on disk, presented as one view.
 *
 *   GGUF v2/v3 (also split)     names and metadata as they are
 *   Hugging Face directory      safetensors (one file or sharded) + config.json ...: tensor names
 *                               and config keys are presented under their GGUF names
 *   llama2.c .bin (v0, v1, v2)  presented as architecture "llama"
 *   no file at all              a model of random weights (checkpoint_open_dummy)
 *
 * so that the model folder reads one vocabulary of names. Values are never changed. For llama,
 * mistral and smollm3, rows of attn_q and attn_k pair their rotary halves as (i, i + d/2) in a
 * Hugging Face directory, and as (2i, 2i + 1) in GGUF (its converter permutes them) and in
 * llama2.c; checkpoint_kind distinguishes them.
 *
 * Files are mapped read-only; tensor data and text are borrowed from the checkpoint and live until
 * checkpoint_close. Everything is bounds-checked at open: after a successful open every tensor is
 * inside its file and every metadata value can be read. Open and close from one thread; reading
 * from any. */
#ifndef QUOTH_FORMAT_H
#define QUOTH_FORMAT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/progress.h"
#include "quant/quant.h"

struct checkpoint; /* opaque */

enum checkpoint_kind { CKPT_GGUF, CKPT_HF, CKPT_LLAMA2C };

/* dim[0] varies fastest: a linear weight is [k, n_out] with dim[0] = k. Unused dimensions are 1. A
 * scalar has n_dim 1. For a safetensors tensor with more than four dimensions, dim[3] is the
 * product of the slowest ones. A safetensors tensor may be empty (a dimension of 0, n_byte 0). */
struct tensor_info {
    const char *name;     /* canonical (GGUF) name, NUL-terminated      */
    const char *name_raw; /* as the file spells it                      */
    enum qtype type;
    int n_dim; /* 1 .. 4                                     */
    int64_t dim[4];
    const uint8_t *data; /* borrowed, n_byte bytes, at any alignment   */
    size_t n_byte;       /* exactly qtype_bytes of all rows            */
    int file;            /* index of the file that contains it         */
};

/* META_NONE: the key is absent, or (of a config.json) its value is null. META_OBJECT: a JSON
 * object, or a list of values of different kinds; only its presence is kept. */
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

/* Open a checkpoint. path: a .gguf file (any part of a split one), a directory, or a llama2.c .bin.
 * The model.safetensors, a shard or the index in a directory with a config.json opens that
 * directory. Any other .safetensors file opens alone, without metadata. Errors name the file, the
 * field, the found and the expected value. */
int checkpoint_open(struct checkpoint **out, const char *path, struct err *e);
void checkpoint_close(struct checkpoint *c); /* NULL is fine */

/* Open a checkpoint for inspection: a GGUF that ends before its data section also opens, with
 * tensor data NULL. */
int checkpoint_open_header(struct checkpoint **out, const char *path, struct err *e);

/* A model of random weights, of any shape and number format, without a download. Kind CKPT_GGUF;
 * equal options give equal bytes on every machine. Its metadata contain a tokenizer (one token per
 * byte) unless the GGUF has one. Activations stay finite. */
struct dummy_options {
    const char *shape; /* a name of dummy_shape.def; NULL: use model */
    const char *model; /* a GGUF (its header is enough), or a folder with a config.json */
    /* A number format ("IQ2_XS") or a mixture ("Q4_K_M"); NULL: the GGUF's own types, else BF16.
     * pure: apply the format to every matrix, including the head and those that a mixture
     * exempts. */
    const char *quant;
    bool pure;
    uint64_t seed;
    /* keep tensor data NULL; checkpoint_write_gguf generates it while writing */
    bool no_data;
};
/* Return the i-th legal value of `shape` or `quant`, i = 0, 1, ...; NULL after the last. */
const char *dummy_shapes(int i);
const char *dummy_quants(int i);
int checkpoint_open_dummy(struct checkpoint **out, const struct dummy_options *o, struct err *e);

/* Write a GGUF view (a file or a dummy) as one GGUF v3: metadata in their order (without those of a
 * split model's parts), tensors at the file's alignment. Writes to a temporary name, then renames
 * it. `progress` may be NULL. */
int checkpoint_write_gguf(const struct checkpoint *c, const char *path, progress_fn *progress,
                          void *ctx, struct err *e);

/* Compute a key of the tensors' bytes without reading them, from device, inode, size and
 * modification time of every file, and the bytes before its tensors (a GGUF's metadata and tensor
 * list). Returns false if the tensors come from no file (random weights). */
bool checkpoint_key(const struct checkpoint *c, uint64_t key[2]);
/* Release the memory of file pages read so far; the next read loads them again. */
void checkpoint_release_pages(const struct checkpoint *c);
/* Copy names, types and metadata to memory and release the files, which may then change or
 * disappear. Tensors of files then have no data. Random weights are kept. No other thread may read
 * c during the call. */
int checkpoint_detach(struct checkpoint *c, struct err *e);

/* Return whether the file is an executable with an appended GGUF (see pack.c). checkpoint_open
 * accepts it like the GGUF itself. */
bool checkpoint_packed(const char *path);
/* Return whether the file is a program that runs its own model (`app` below). */
bool checkpoint_is_app(const char *path);
/* Write `out`: the executable at exe (without a model it may already contain), then the GGUF. Mode
 * 0755. app: without a command, the program runs this model. */
int checkpoint_pack(const char *exe, const char *model, const char *out, bool app, struct err *e);

/* checkpoint_dir is the folder with the other files (tokenizer ...); checkpoint_file_bytes counts
 * all parts. */
enum checkpoint_kind checkpoint_kind(const struct checkpoint *c);
const char *checkpoint_path(const struct checkpoint *c);
const char *checkpoint_dir(const struct checkpoint *c);
size_t checkpoint_file_bytes(const struct checkpoint *c);

/* Tensors by position in [0, n_tensor), or by canonical name (NULL if not found). */
int checkpoint_n_tensor(const struct checkpoint *c);
const struct tensor_info *checkpoint_tensor_at(const struct checkpoint *c, int i);
const struct tensor_info *checkpoint_tensor(const struct checkpoint *c, const char *name);

/* Metadata by GGUF key, e.g. "general.architecture", "llama.block_count", "tokenizer.ggml.tokens".
 * A Hugging Face directory provides config.json, generation_config.json (general.sampling.temp,
 * .top_k, .top_p, .min_p, .penalty_repeat; tokenizer.ggml.eos_token_ids as a list) and the chat
 * template (tokenizer.chat_template, and tokenizer.chat_template.NAME) under their GGUF names; the
 * tokenizer itself stays in its files. hf_keys.def is the table. No field of config.json is
 * omitted: fields without a GGUF name are under "config.FIELD", those of rope_parameters under
 * "config.rope_parameters.FIELD". The architecture defines defaults and meanings (src/model). */
int checkpoint_n_meta(const struct checkpoint *c);
const struct meta *checkpoint_meta_at(const struct checkpoint *c, int i, const char **key);
const struct meta *checkpoint_meta(const struct checkpoint *c, const char *key);

/* Getters accept NULL and values of another kind; they then return `fallback`, NULL or 0.
 *   meta_int   BOOL, INT, UINT up to INT64_MAX, whole REAL
 *   meta_real  INT, UINT, REAL
 *   meta_text  NUL-terminated, but may hold NULs; n may be NULL */
enum meta_kind meta_kind(const struct meta *m);
bool meta_bool(const struct meta *m, bool fallback);
int64_t meta_int(const struct meta *m, int64_t fallback);
double meta_real(const struct meta *m, double fallback);
const char *meta_text(const struct meta *m, size_t *n);

/* Lists: number of items, their kind, and each item. The text of an item is not NUL-terminated. */
size_t meta_count(const struct meta *m);
enum meta_kind meta_item_kind(const struct meta *m);
int64_t meta_item_int(const struct meta *m, size_t i, int64_t fallback);
double meta_item_real(const struct meta *m, size_t i, double fallback);
const char *meta_item_text(const struct meta *m, size_t i, size_t *n);
const struct meta *meta_item_list(const struct meta *m, size_t i); /* a list inside the list */

/* ---- the tensors of each architecture (tensors.def) ---- */

enum tensor_size {
    SIZE_ONE,
    SIZE_D,        /* width of the residual stream        */
    SIZE_D_FF,     /* width of the feed-forward block     */
    SIZE_D_HEAD,   /* width of one head                   */
    SIZE_D_Q,      /* width of all query heads            */
    SIZE_D_KV,     /* width of all KV heads               */
    SIZE_N_VOCAB,  /* number of tokens                    */
    SIZE_N_EXPERT, /* number of experts                   */
    SIZE_D_EXPERT, /* width of one expert                 */
};

struct tensor_row {
    const char *arch, *name, *raw; /* without ".weight"; raw NULL: a bias                       */
    enum tensor_size n_out, k;     /* n_out SIZE_ONE: a vector                                  */
    enum tensor_size n_expert;     /* SIZE_ONE, or SIZE_N_EXPERT: one matrix per expert         */
    bool bias;                     /* the tensor is name.bias                                   */
    bool some;                     /* only in some layers; models of random weights omit it     */
};

/* Return the rows of an architecture, n of them; NULL if it has none. */
const struct tensor_row *tensor_rows(const char *arch, int *n);
/* Return the architecture of a config.json's model_type; the type itself if not in the table. */
const char *arch_of_model_type(const char *model_type);
/* Return the name of an architecture in GGUF files. */
const char *arch_gguf_name(const char *arch);
/* Return whether the window in a GGUF of this architecture takes effect. */
bool arch_gguf_window(const char *gguf);

/* A Hugging Face name and its GGUF name. */
struct name_pair {
    const char *raw, *name;
};

#endif
