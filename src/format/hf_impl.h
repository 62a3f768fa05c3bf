/* hf_impl.h - private to the readers of a Hugging Face directory's JSON files (hf_config.c,
 * hf_rope.c): fields -> metadata under GGUF keys.
 *
 * A key keeps its first value: hf_add_* have no effect if the key exists. Sources are therefore
 * read in the order of their priority. All functions return 0 or a negative ERR_*, which names the
 * folder, the file and the field. */
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
    /* text_config in config.json; NULL if none. In files of several parts, the object that
     * describes the text part, which may be `root` */
    const struct json *text;
    const struct parts *parts; /* kind of a model of several parts, static; NULL: one part */
    const char *arch;          /* name of the architecture, borrowed */
};

/* Rows of names that belong to one architecture (HF_KEY_OF, HF_ROPE_OF). All texts are static. */
struct own_name {
    const char *arch, *raw, *name;
};

/* Return true for a field that counts at the top level of a config of several parts. */
bool hf_is_outer(const char *name);
/* Return a field of text_config, or of the top level if text_config lacks it. NULL if both lack it.
 * In a config of several parts, only one of both counts. */
const struct json *hf_field(const struct config_reader *h, const char *name);
/* Add a field's value. Do nothing if the value is absent or null. */
int hf_add_json(struct config_reader *h, const char *key, const char *name, const struct json *v);
/* Add a key without a value, VT_NULL or VT_OBJECT. */
int hf_add_bare(struct config_reader *h, const char *key, enum value_type type);
/* Add a field under "ARCH.key". The value must be plain or null. */
int hf_add_arch(struct config_reader *h, const char *key, const char *name, const struct json *v);
/* Add a field without a GGUF name as "config.FIELD" or "config.PARENT.FIELD". */
int hf_add_other(struct config_reader *h, const char *parent, const char *name,
                 const struct json *v);
/* Add a field under its GGUF names, if key[0, n) has any. Sets *named if the field has a GGUF name.
 * A key is not added if the class has other names for it. */
int hf_add_named(struct config_reader *h, const struct name_pair *key, size_t n, const char *name,
                 const struct json *v, bool *named);

/* ---- hf_quanto.c ---- */

/* Read quanto_qmap.json as a quantization_config, before config.json. Reject quantized activations
 * and unknown types by the module. */
int hf_read_qmap(struct config_reader *h, const struct json *root);

/* ---- hf_rope.c ---- */

/* Return true for a field at the top level that hf_read_rope reads in this architecture. */
bool hf_is_rope_field(const struct config_reader *h, const char *name);
/* Add the rope parameters. Those of the caller (struct changes) replace the file's. */
int hf_read_rope(struct config_reader *h);

#endif
