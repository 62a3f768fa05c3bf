/* format_impl.h - private to src/format, for all readers: functions that build checkpoints, and the
 * form of metadata values.
 *
 *   checkpoint_open --kind of path--> gguf_load | hf_load | safetensors_load | llama2c_load
 *        each: checkpoint_add_file, then checkpoint_add_meta and checkpoint_add_tensor
 *
 * After a failure of a reader, checkpoint_open closes the half-built checkpoint. Only the thread
 * that opens a checkpoint adds values. Afterwards any thread may read the checkpoint. */
#ifndef QUOTH_FORMAT_IMPL_H
#define QUOTH_FORMAT_IMPL_H

#include "format.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/os.h"

/* Types of metadata values, with GGUF's numbers. The metadata of every file format have these
 * types. Two additional types represent JSON values that GGUF lacks: null, and an object or mixed
 * list. Only the presence of an object or mixed list is recorded. */
enum value_type {
    VT_U8,
    VT_I8,
    VT_U16,
    VT_I16,
    VT_U32,
    VT_I32,
    VT_F32,
    VT_BOOL,
    VT_TEXT,
    VT_LIST,
    VT_U64,
    VT_I64,
    VT_F64,
    VT_GGUF_COUNT,
    VT_NULL = VT_GGUF_COUNT,
    VT_OBJECT,
    VT_COUNT
};

struct text_slice {
    const char *text; /* text in a map or the arena, borrowed, not NUL-terminated */
    size_t n;
};

/* A metadata value. The data of the value is valid until the checkpoint is closed. */
struct meta {
    enum value_type type, item; /* type: type of the value. item: type of a list's items. */
    /* a number: its little-endian bytes, unaligned
     * a text:   n bytes and a NUL
     * a list:   n packed numbers | struct text_slice [n] | struct meta [n]
     * borrowed from the file's map, or in the checkpoint's arena */
    const void *data;
    size_t n;
};

struct meta_entry {
    const char *key; /* in the checkpoint's arena */
    struct meta value;
    const char *given; /* flag that gave the value, static; NULL: a file */
};

struct meta_list {
    struct meta_entry *v; /* owned */
    size_t n, cap;
};

struct checkpoint_file {
    const char *path;    /* in the checkpoint's arena */
    struct file_map map; /* owned */
    const uint8_t *data; /* borrowed from map: the whole file, or its part after a program */
    size_t n_byte;
};

/* Find the model that is appended to the program in data[0, n). Return false if the program has no
 * model. */
bool pack_find(const uint8_t *data, size_t n, size_t *offset, size_t *n_byte);

struct dummy;

/* Parsed values of the caller that replace values of the files (checkpoint_changes). The objects
 * are owned. */
struct changes {
    struct json *config; /* object with fields of config.json; NULL if none */
    struct json *rope;   /* object in place of rope_scaling; NULL if none */
    bool rope_adds;
    double rope_theta; /* 0 if none */
};

struct checkpoint {
    enum checkpoint_kind kind;
    /* true: tensors may extend past the end of their file; their data is then NULL */
    bool header_only;
    struct arena arena; /* memory of names, keys, texts, indexes and decoded tensors */
    /* prefix for the names of tensors that a reader adds, borrowed; NULL if none */
    const char *prefix;
    const char *path, *dir; /* paths of the checkpoint and of its folder, in the arena */
    VEC(struct checkpoint_file) file;
    VEC(struct tensor_info) tensor;
    struct meta_list meta;
    struct strmap tensor_by_name, meta_by_key; /* indexes of tensors and metadata by name */
    tensor_make_fn *make; /* function that makes the bytes of tensors without data; NULL if none */
    void *make_ctx;       /* argument of `make`, borrowed */
    struct dummy *dummy;  /* random weights, owned; NULL if the weights come from files */
    const struct changes *changes; /* values of the caller, borrowed while loading; NULL if none */
    const char *giving;            /* flag whose values are being added, static; NULL if none */
    /* class of a model of several parts, static; NULL: the model has one part */
    const struct parts *parts;
    const char *rope_given; /* flag that replaced the scaling of rope, static; NULL if none */
};

/* Create an empty checkpoint with its paths. The caller closes the checkpoint, even after an error.
 * ERR_MEMORY. */
int checkpoint_begin(struct checkpoint **out, const char *path, struct err *e);

/* Map a file. Return the file's index (>= 0), or ERR_IO, ERR_MISSING, ERR_FORMAT (an empty or
 * irregular file) or ERR_MEMORY. */
int checkpoint_add_file(struct checkpoint *c, const char *path, struct err *e);

/* Add a tensor. The names of t are copied. Its data is borrowed from a file of c. ERR_FORMAT for a
 * duplicate name, ERR_LIMIT for too many tensors, ERR_MEMORY. */
int checkpoint_add_tensor(struct checkpoint *c, const struct tensor_info *t, struct err *e);

/* Range of a tensor's bytes, as offsets in the data section of a file. */
struct extent {
    uint64_t begin, end;
    const char *name; /* borrowed from the reader */
};
/* Compare ranges by begin, then by end, for qsort. An empty tensor therefore comes before a
 * non-empty tensor at the same offset. */
int extent_order(const void *a, const void *b);

/* Add a value under a key. The key is copied. The value's data is borrowed and must remain valid
 * until c is closed. ERR_FORMAT for a duplicate key, ERR_LIMIT for too many keys, ERR_MEMORY. All
 * other functions that add a value copy the value into the arena. */
int checkpoint_add_meta(struct checkpoint *c, const char *key, const struct meta *value,
                        struct err *e);
/* Add an integer (i64) or a real (f64). Errors: those of checkpoint_add_meta. */
int checkpoint_add_int(struct checkpoint *c, const char *key, int64_t x, struct err *e);
int checkpoint_add_real(struct checkpoint *c, const char *key, double x, struct err *e);

/* Return the size in bytes of a number of the type; 0 for text and lists. */
size_t value_bytes(enum value_type type);

/* Set t->n_byte by the type and the dimensions; dim[0] is a multiple of the block. Return false on
 * overflow. */
bool tensor_set_bytes(struct tensor_info *t);

/* Fill a checkpoint from a file or directory. The caller has set the kind, path and dir of c.
 * Errors: those of checkpoint_open. The caller closes c after a failure. */
int gguf_load(struct checkpoint *c, const char *path, struct err *e);
int hf_load(struct checkpoint *c, const char *dir, struct err *e);
/* Read a Hugging Face directory without its weights. The weights of modules of
 * sentence-transformers are read. Errors: those of checkpoint_open. */
int hf_load_config(struct checkpoint *c, const char *dir, struct err *e);
/* Write the path of a file of the directory to out[n_out]. ERR_ARG if the path is too long. */
int hf_path(char *out, size_t n_out, const char *dir, const char *name, struct err *e);
/* Read one .safetensors file, and append its tensors to the checkpoint. Errors: those of
 * checkpoint_open. */
int safetensors_load(struct checkpoint *c, const char *path, struct err *e);
/* Read the metadata of a Hugging Face directory, for hf_load. Errors: those of checkpoint_open. */
int hf_config_load(struct checkpoint *c, const char *dir, struct err *e);
/* Replace the parameters of rope in the metadata of a GGUF or llama2.c file by those of c->changes.
 * Errors: those of checkpoint_open_with. */
int hf_replace_rope(struct checkpoint *c, struct err *e);
/* Reject the modules of sentence-transformers in a Hugging Face directory if the first one is not a
 * model of transformers. Errors: those of checkpoint_open. */
int hf_modules_check(struct checkpoint *c, const char *dir, struct err *e);
/* Read the modules of sentence-transformers in a Hugging Face directory. own: the folder of the
 * model. Errors: those of checkpoint_open. */
int hf_modules_load(struct checkpoint *c, const char *dir, const char *own, struct err *e);
/* Read config_sentence_transformers.json of a Hugging Face directory. Errors: those of
 * checkpoint_open. */
int hf_sentence_load(struct checkpoint *c, const char *dir, struct err *e);
/* Read the maximum length of a text from the object of tokenizer_config.json. */
int hf_sentence_length(struct checkpoint *c, const struct json *config, struct err *e);

/* A reader of the modules of sentence-transformers. Pointers are borrowed. */
struct modules {
    struct checkpoint *c;
    struct err *e;
    const char *dir;
    int n_pooling, n_dense, n_normalize;
};

/* Read an optional file as a JSON value of the type `kind`. *out is NULL if the file does not
 * exist. The caller drops *out. */
int hf_modules_read(const struct modules *m, const char *file, enum json_kind kind,
                    struct json **out);
/* Reject a field of `file` that has another type than `kind`. An absent field has the default
 * value. */
int hf_modules_value(const struct modules *m, const char *file, const struct json *config,
                     const char *field, enum json_kind kind);
/* As hf_modules_value, but null has the default value too. */
int hf_modules_kind(const struct modules *m, const char *file, const struct json *config,
                    const char *field, enum json_kind kind);
/* Judge the fields of `config`, an object of `file`. Fields of the list `used` have another reader.
 * Fields of the list `idle`, and fields with a default value, are marked as irrelevant. Other
 * fields are rejected by name. NULL ends a list. */
int hf_modules_fields(const struct modules *m, const char *file, const struct json *config,
                      const char *const *used, const char *const *idle);
/* Return the name of a class of torch.nn without its path, part of `path`; NULL for another class.
 * path: may be NULL. */
const char *hf_torch_class(const char *path);
/* Read the settings of the Transformer in m->dir. Errors: those of checkpoint_open. */
int hf_sentence_bert(const struct modules *m);
/* Reject a model_type of config_sentence_transformers.json that the modules do not belong to.
 * Errors: those of checkpoint_open. */
int hf_sentence_type(const struct modules *m);
/* Return the name without its path of a class of sentence-transformers, static; NULL for another
 * class (modules.def). */
const char *sentence_class(const char *type);
/* Write the name of a module's folder, without components ".", to out[n_out]. Return false for a
 * path of several folders or out of the directory, because modules.json is untrusted. */
bool sentence_inner(char *out, size_t n_out, const char *path);
/* Read a llama2.c file. Errors: those of checkpoint_open. */
int llama2c_load(struct checkpoint *c, const char *path, struct err *e);

/* Return true if data[0, n) begins like a llama2.c checkpoint. */
bool llama2c_looks_like(const uint8_t *data, size_t n);

/* Write the GGUF name of a raw Hugging Face tensor name to out[n_out]; the raw name if no GGUF name
 * exists. arch selects the table of names: the table of llama if arch is NULL or has no table.
 * parts: the model has several parts, so names of the text part may begin with another prefix. */
void hf_tensor_name(char *out, size_t n_out, const char *raw, const char *arch, bool parts);
/* Return prefix i of the names of the text part's tensors, static. NULL after the last prefix. Set
 * *whole to true if names without the architecture's base follow the prefix. Set *whole to false if
 * the prefix replaces the base. */
const char *parts_name(int i, bool *whole);
/* Return true if `object`, at the top level of config.json, describes a part with its own ids of
 * the vocabulary. */
bool parts_has_ids(const struct parts *p, const char *object);
/* Return field i that describes the ids of a part with its own ids, static; NULL after the last
 * field. */
const char *parts_id_field(int i);
/* Return the value of general.architecture; NULL if none. */
const char *checkpoint_arch(const struct checkpoint *c);

/* Return the bytes [at, at + n) of tensor i. The bytes are in the map. They are generated in
 * scratch [n] if the weights are random and data is NULL (no_data) or an outline. */
const uint8_t *checkpoint_bytes(const struct checkpoint *c, int i, size_t at, size_t n,
                                uint8_t *scratch);

/* ---- changes.c: values of the caller that replace values of the files ---- */

/* Parse the values of `from`. Errors: those of checkpoint_open_with; they contain the flag. The
 * caller owns *out, also after an error. */
int changes_open(struct changes *out, const struct checkpoint_changes *from, struct err *e);
void changes_close(struct changes *ch); /* free the memory; a zeroed struct is allowed */
/* Return true if the caller gave any value. */
bool changes_any(const struct changes *ch);
/* Set *out to the object of config.json with the fields of `over`, except the fields of rope.
 * hf_rope.c reads the fields of rope. parts: text_config describes one of several parts. The caller
 * owns *out, which is NULL after an error. ERR_ARG for a field without an effect. ERR_MEMORY,
 * ERR_LIMIT. */
int changes_merge(struct json **out, const struct json *root, const struct json *over, bool parts,
                  struct err *e);
/* Mark the metadata "config.FIELD" of the object's fields as given by --hf-overrides. */
void changes_mark(struct checkpoint *c, const struct json *object);

/* ---- models of random weights: dummy.c, dummy_vocab.c, dummy_data.c ---- */

/* Normal distribution of a tensor's values. */
struct dummy_fill {
    float mean, sd;
};

/* Create c->dummy, without tensors. ERR_MEMORY. */
int dummy_open(struct checkpoint *c, uint64_t seed, struct err *e);
/* Set random weights for the first tensor without them, unless it has data. ERR_MEMORY. */
int dummy_add(struct checkpoint *c, struct dummy_fill fill, struct err *e);
/* Generate the bytes of all tensors in memory of the checkpoint, unless no_data is true. Call
 * dummy_finish after all other functions for a dummy. ERR_LIMIT if the tensors exceed the memory,
 * ERR_MEMORY. */
int dummy_finish(struct checkpoint *c, bool no_data, struct err *e);
/* Remove the data of all tensors with random weights. */
void dummy_clear(struct checkpoint *c);
void dummy_close(struct dummy *d); /* free d; NULL is allowed */
/* Keep the checkpoint take_source open, because the metadata of c point into take_source. c becomes
 * the owner of take_source. */
void dummy_keep(struct checkpoint *c, struct checkpoint *take_source);

/* Add the keys tokenizer.ggml.*: one token per byte, one token that ends a text, then numbers as
 * words. Errors: those of checkpoint_add_meta. */
int dummy_vocab(struct checkpoint *c, int n_vocab, struct err *e);

#endif
