/* format_impl.h - private to src/format, shared by its readers: the checkpoint while it is built,
 * and the form of metadata values.
 *
 *   checkpoint_open --kind of path--> gguf_load | hf_load | safetensors_load | llama2c_load
 *        each: checkpoint_add_file, then checkpoint_add_meta and checkpoint_add_tensor
 *
 * A reader that fails leaves a half-built checkpoint; checkpoint_open closes it. */
#ifndef QUOTH_FORMAT_IMPL_H
#define QUOTH_FORMAT_IMPL_H

#include "format.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/os.h"

/* GGUF's value types under its numbers; metadata of every format is stored in them. Two more
 * represent JSON values that GGUF lacks: null, and an object (or a mixed list), stored as its
 * presence. */
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

struct span {
    const char *text; /* borrowed from a map or the arena, not NUL-terminated */
    size_t n;
};

/* One value. Everything it points to lives as long as the checkpoint. */
struct meta {
    enum value_type type, item; /* item: of a list's items */
    const void *data;           /* a number: its little-endian bytes, unaligned
                                 * text:     n bytes and a NUL
                                 * a list:   n packed numbers | struct span [n] | struct meta [n] */
    size_t n;
};

struct meta_entry {
    const char *key;
    struct meta value;
};

struct checkpoint_file {
    const char *path;
    struct file_map map;
    const uint8_t *data; /* the model's bytes: the whole map, or the part appended to a program */
    size_t n_byte;
};

/* Find a model appended to the program in data[0..n); false if none. */
bool pack_find(const uint8_t *data, size_t n, size_t *offset, size_t *n_byte);

struct dummy;

struct checkpoint {
    enum checkpoint_kind kind;
    bool header_only;       /* tensors may extend past the end of their file: data NULL */
    struct arena arena;     /* names, keys, texts, indexes, decoded tensors       */
    const char *path, *dir; /* in the arena                                       */
    VEC(struct checkpoint_file) file;
    VEC(struct tensor_info) tensor;
    VEC(struct meta_entry) meta;
    struct strmap tensor_by_name, meta_by_key; /* -> index */
    struct dummy *dummy;                       /* owned; NULL if the weights come from files */
};

/* Create an empty checkpoint with its paths. The caller closes it, also after a failure. */
int checkpoint_begin(struct checkpoint **out, const char *path, struct err *e);

/* Map a file. Returns its index (>= 0), or ERR_*. */
int checkpoint_add_file(struct checkpoint *c, const char *path, struct err *e);

/* Add a tensor; its two names are copied. Rejects a duplicate name. */
int checkpoint_add_tensor(struct checkpoint *c, const struct tensor_info *t, struct err *e);

/* Add a value under a key (copied). Rejects a duplicate key. */
int checkpoint_add_meta(struct checkpoint *c, const char *key, const struct meta *value,
                        struct err *e);
int checkpoint_add_int(struct checkpoint *c, const char *key, int64_t x, struct err *e);
int checkpoint_add_real(struct checkpoint *c, const char *key, double x, struct err *e);
/* Add a value in the width that readers of GGUF require. */
int checkpoint_add_u32(struct checkpoint *c, const char *key, uint32_t x, struct err *e);
int checkpoint_add_f32(struct checkpoint *c, const char *key, float x, struct err *e);
int checkpoint_add_text(struct checkpoint *c, const char *key, const char *text, size_t n,
                        struct err *e);

/* Return the bytes of one number of a type; 0 for text and lists. */
size_t value_bytes(enum value_type type);

/* Set t->n_byte from type and dimensions (dim[0] a multiple of the block). Returns false on
 * overflow. */
bool tensor_set_bytes(struct tensor_info *t);

/* The readers. Each fills a checkpoint that has kind, path and dir. */
int gguf_load(struct checkpoint *c, const char *path, struct err *e);
int hf_load(struct checkpoint *c, const char *dir, struct err *e);
int safetensors_load(struct checkpoint *c, const char *path,
                     struct err *e); /* adds to existing tensors */
int hf_config_load(struct checkpoint *c, const char *dir, struct err *e); /* metadata of hf_load */
int llama2c_load(struct checkpoint *c, const char *path, struct err *e);

/* Return whether the bytes start like a file for llama2c_load. */
bool llama2c_looks_like(const uint8_t *data, size_t n);

/* Write the GGUF name of a raw Hugging Face tensor name to out[n_out], or the raw name if it has
 * none. arch selects the table; NULL, or an architecture without one: llama's. */
void hf_tensor_name(char *out, size_t n_out, const char *raw, const char *arch);
/* Return general.architecture, or NULL. */
const char *checkpoint_arch(const struct checkpoint *c);

/* Return the bytes [at, at + n) of tensor i: in the map, or generated in scratch [n] if they are
 * random and no_data (data NULL). */
const uint8_t *checkpoint_bytes(const struct checkpoint *c, int i, size_t at, size_t n,
                                uint8_t *scratch);

/* ---- models of random weights: dummy.c, dummy_vocab.c, dummy_data.c ---- */

/* Values of a tensor: normally distributed numbers. */
struct dummy_fill {
    float mean, sd;
};

int dummy_new(struct checkpoint *c, uint64_t seed, struct err *e);
/* Set random weights for the tensor that was added last. */
int dummy_add(struct checkpoint *c, struct dummy_fill fill, struct err *e);
/* Generate all tensors' bytes, in memory owned by the checkpoint, unless no_data. The last call. */
int dummy_finish(struct checkpoint *c, bool no_data, struct err *e);
void dummy_bytes(const struct dummy *d, int i, size_t at, size_t n, uint8_t *out);
void dummy_drop(struct dummy *d); /* NULL is fine */
/* Keep the checkpoint that supplied the shape alive, because metadata points into it. */
void dummy_keep(struct checkpoint *c, struct checkpoint *take_source);

/* Add tokenizer.ggml.*: one token per byte, one that ends a text, then numbers as words. */
int dummy_vocab(struct checkpoint *c, int n_vocab, struct err *e);

/* ---- mixture.c: number formats of tensors ---- */

struct mixture {
    const char *name;
    enum qtype type; /* all tensors without a rule                   */
    int file_type;   /* general.file_type; -1: none                  */
    bool pure;       /* every matrix gets `type`, including the head */
};

struct mixture_site { /* a tensor, and the facts used by the rules */
    const char *name;
    enum qtype type; /* its own type: kept by norms and similar */
    int n_dim;
    int64_t k; /* values per row */
    int n_layer, n_group /* query heads per KV head */;
    bool tied; /* the embedding is also the head */
};

/* Select a mixture by its name in mixture.def, or a number format. Returns ERR_ARG, with the list,
 * for another name. */
int mixture_init(struct mixture *m, const char *name, bool pure, struct err *e);
enum qtype mixture_type(const struct mixture *m, const struct mixture_site *s);

#endif
