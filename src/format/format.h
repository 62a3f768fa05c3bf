/* format.h - model files as they lie on disk, behind one view.
 *
 *   GGUF v2/v3 (also split)     names and metadata as they are
 *   Hugging Face directory      safetensors (one file or sharded) + config.json ...: tensor names
 *                               and config keys are presented under their GGUF names
 *   llama2.c .bin (v0, v1, v2)  presented as architecture "llama"
 *   no file at all              a model of random weights (checkpoint_open_dummy)
 *
 * so that the model folder reads one vocabulary of names. Values are never changed: of llama,
 * mistral and smollm3 the rows of attn_q and attn_k pair their rotary halves as (i, i + d/2) in a
 * Hugging Face directory, and as (2i, 2i + 1) in GGUF (its converter permutes them) and in
 * llama2.c; checkpoint_kind tells which.
 *
 * Files are mapped read-only; tensor data and text are borrowed from the checkpoint and live until
 * checkpoint_close. Everything is bounds-checked at open: after a successful open every tensor lies
 * inside its file and every metadata value can be read.
 * Open and close from one thread; reading from any. */
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
 * scalar has n_dim 1; of a safetensors tensor with more than four, dim[3] holds the product of the
 * slowest. A safetensors tensor may be empty (a dimension of 0, n_byte 0). */
struct tensor_info {
    const char *name;     /* canonical (GGUF) name, NUL-terminated      */
    const char *name_raw; /* as the file spells it                      */
    enum qtype type;
    int n_dim; /* 1 .. 4                                     */
    int64_t dim[4];
    const uint8_t *data; /* borrowed, n_byte bytes, at any alignment   */
    size_t n_byte;       /* exactly qtype_bytes of all rows            */
    int file;            /* index of the file it lies in               */
};

enum meta_kind { META_NONE, META_BOOL, META_INT, META_UINT, META_REAL, META_TEXT, META_LIST };

/* One metadata value, opaque. */
struct meta;

/* path: a .gguf file (any part of a split one), a directory, the model.safetensors, a shard or the
 * index in a directory with a config.json (that directory is taken), any other .safetensors file
 * (alone, without metadata), or a llama2.c .bin. Errors name file, field, found, expected. */
int checkpoint_open(struct checkpoint **out, const char *path, struct err *e);
void checkpoint_close(struct checkpoint *c); /* NULL is fine */

/* The same for looking only: a GGUF that ends before its data section opens too, and its tensors'
 * data is NULL. */
int checkpoint_open_header(struct checkpoint **out, const char *path, struct err *e);

/* A model of random weights, of any shape and number format, without a download: kind CKPT_GGUF,
 * the same bytes for the same options on every machine. Its metadata hold a tokenizer (a token for
 * each byte) unless the GGUF has one; activations stay finite. */
struct dummy_options {
    const char *shape; /* a name of dummy_shape.def, or NULL: */
    const char *model; /* a GGUF (its header is enough), or a folder with a config.json */
    /* A number format ("IQ2_XS") or a mixture ("Q4_K_M"); NULL: the GGUF's own types, else BF16.
     * pure: the head gets that format too, and so does what a mixture would give another. */
    const char *quant;
    bool pure;
    uint64_t seed;
    bool
        no_data; /* tensors' data stay NULL, for checkpoint_write_gguf, which makes it as it writes */
};
int checkpoint_open_dummy(struct checkpoint **out, const struct dummy_options *o, struct err *e);

/* Write any GGUF view (a file's, a dummy) as one GGUF v3: metadata in their order (those of a split
 * model's parts left out), tensors at the file's alignment. To a temporary name, then renamed.
 * `progress` may be NULL. */
int checkpoint_write_gguf(const struct checkpoint *c, const char *path, progress_fn *progress,
                          void *ctx, struct err *e);

/* What the tensors' bytes are known by, without reading them: device, inode, size and time of
 * writing of every file, and the bytes before its tensors (a GGUF's metadata and tensor list).
 * false: they come from no file (random weights). */
bool checkpoint_key(const struct checkpoint *c, uint64_t key[2]);
/* The bytes that were read will not be needed soon: those of files leave this process's memory, and
 * come back when they are read again. */
void checkpoint_forget(const struct checkpoint *c);

/* A GGUF behind an executable (see pack.c). checkpoint_open takes such a file like the GGUF
 * itself. */
bool checkpoint_packed(const char *path);
/* Write `out`: the executable at exe (without a model it may carry already), then the GGUF. Mode
 * 0755. */
int checkpoint_pack(const char *exe, const char *model, const char *out, struct err *e);

/* dir is the folder in which the other files (tokenizer ...) lie; file_bytes counts all parts. */
enum checkpoint_kind checkpoint_kind(const struct checkpoint *c);
const char *checkpoint_path(const struct checkpoint *c);
const char *checkpoint_dir(const struct checkpoint *c);
size_t checkpoint_file_bytes(const struct checkpoint *c);

/* Tensors by position in [0, n_tensor), or by canonical name (NULL: there is none). */
int checkpoint_n_tensor(const struct checkpoint *c);
const struct tensor_info *checkpoint_tensor_at(const struct checkpoint *c, int i);
const struct tensor_info *checkpoint_tensor(const struct checkpoint *c, const char *name);

/* Metadata by GGUF key, e.g. "general.architecture", "llama.block_count", "tokenizer.ggml.tokens".
 * Of a Hugging Face directory: config.json, generation_config.json (general.sampling.temp, .top_k,
 * .top_p, .min_p, .penalty_repeat; tokenizer.ggml.eos_token_ids as a list) and the chat template
 * (tokenizer.chat_template, and tokenizer.chat_template.NAME) under their GGUF names; the tokenizer
 * itself stays in its files. hf_keys.def is the table. */
int checkpoint_n_meta(const struct checkpoint *c);
const struct meta *checkpoint_meta_at(const struct checkpoint *c, int i, const char **key);
const struct meta *checkpoint_meta(const struct checkpoint *c, const char *key);

/* Getters accept NULL and a value of another kind, and then answer `otherwise`, NULL or 0.
 *   meta_int   BOOL, INT, UINT up to INT64_MAX, whole REAL
 *   meta_real  INT, UINT, REAL
 *   meta_text  NUL-terminated, but may hold NULs; n may be NULL */
enum meta_kind meta_kind(const struct meta *m);
bool meta_bool(const struct meta *m, bool otherwise);
int64_t meta_int(const struct meta *m, int64_t otherwise);
double meta_real(const struct meta *m, double otherwise);
const char *meta_text(const struct meta *m, size_t *n);

/* Of a list: how many items, of what kind, and each. An item's text is not NUL-terminated. */
size_t meta_count(const struct meta *m);
enum meta_kind meta_item_kind(const struct meta *m);
int64_t meta_item_int(const struct meta *m, size_t i, int64_t otherwise);
double meta_item_real(const struct meta *m, size_t i, double otherwise);
const char *meta_item_text(const struct meta *m, size_t i, size_t *n);
const struct meta *meta_item_list(const struct meta *m, size_t i); /* a list inside the list */

/* An architecture may add names to those that decoders share: raw Hugging Face names with one %d
 * for the layer, e.g. {"model.layers.%d.self_attn.q_norm.weight", "blk.%d.attn_q_norm.weight"}. */
struct name_pair {
    const char *raw, *name;
};

#endif
