/* hf_impl.h - private to the readers of a Hugging Face directory's JSON files (hf_config.c,
 * hf_rope.c): fields -> metadata under GGUF keys.
 *
 * A key keeps its first value: hf_add_* have no effect if the key exists. Sources are therefore
 * read in the order of their priority. All functions return 0 or a negative ERR_*. The error
 * contains the folder, the file and the field. */
#ifndef QUOTH_HF_IMPL_H
#define QUOTH_HF_IMPL_H

#include "format_impl.h"

enum { HF_KEY_BYTES_MAX = 256 };

/* Pointers are borrowed. */
struct config_reader {
    struct checkpoint *c;
    struct err *e;
    const char *dir, *file;  /* dir: the directory. file: name of the current file, for errors. */
    const struct json *root; /* object of config.json */
    /* object text_config of config.json; NULL if none. In a model of several parts, `text` is the
     * object that describes the text part, possibly `root` */
    const struct json *text;
    /* class of a model of several parts, static; NULL: the model has one part */
    const struct parts *parts;
    const char *arch; /* name of the architecture, borrowed */
    int n_special;    /* number of special tokens so far */
    bool map_read;    /* true: special_tokens_map.json is read, or has no effect */
};

/* A pair of names that belongs to one architecture (HF_KEY_OF, HF_ROPE_OF). All texts are
 * static. */
struct own_name {
    const char *arch, *raw, *name;
};

/* Return true for a field that is read at the top level of a config of several parts. */
bool hf_is_outer(const char *name);
/* Return a field of text_config, or of the top level if text_config lacks the field. NULL if both
 * lack the field. In a config of several parts, each field is read at one level only. */
const struct json *hf_field(const struct config_reader *h, const char *name);
/* Add a key without a value. The type is VT_NULL or VT_OBJECT. */
int hf_add_bare(struct config_reader *h, const char *key, enum value_type type);
/* Add a field under the key "ARCH.key". The value must be plain or null. */
int hf_add_arch(struct config_reader *h, const char *key, const char *name, const struct json *v);
/* Add a field without a GGUF name as "config.FIELD" or "config.PARENT.FIELD". */
int hf_add_other(struct config_reader *h, const char *parent, const char *name,
                 const struct json *v);
/* Add a field under its GGUF names, if key[0, n) has any. Set *named if the field has a GGUF name.
 * A key is not added if the class has its own fields for the key. */
int hf_add_named(struct config_reader *h, const struct name_pair *key, size_t n, const char *name,
                 const struct json *v, bool *named);

/* ---- hf_quanto.c ---- */

/* Read quanto_qmap.json as a quantization_config, before config.json. Reject quantized activations
 * and unknown types; the error contains the module. */
int hf_read_qmap(struct config_reader *h, const struct json *root);

/* ---- hf_special.c: the order of calls is the priority of the files ---- */

/* Read the tokens of one model, and the class, of tokenizer_config.json. ERR_LIMIT beyond
 * CHECKPOINT_SPECIAL_MAX tokens, as in the other functions. */
int hf_special_own(struct config_reader *h, const struct json *root);
/* Read special_tokens_map.json. */
int hf_special_map(struct config_reader *h, const struct json *root);
/* Read the standard tokens of tokenizer_config.json. */
int hf_special_standard(struct config_reader *h, const struct json *root);

/* ---- hf_rope.c ---- */

/* Return true for a field at the top level that hf_read_rope reads in this architecture. */
bool hf_is_rope_field(const struct config_reader *h, const char *name);
/* Add the rope parameters. Parameters of the caller (struct changes) replace parameters of the
 * file. */
int hf_read_rope(struct config_reader *h);

#endif
