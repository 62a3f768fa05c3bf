/* format_impl.h - what the readers of this folder share: the checkpoint while it is built, and a
 * metadata value's form. Private to src/format.
 *
 *   checkpoint_open --kind of path--> gguf_load | hf_load | safetensors_load | llama2c_load
 *        each: checkpoint_add_file, then checkpoint_add_meta and checkpoint_add_tensor
 *
 * A reader that fails leaves a half-built checkpoint behind; checkpoint_open closes it. */
#ifndef QUOTH_FORMAT_IMPL_H
#define QUOTH_FORMAT_IMPL_H

#include "format.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/os.h"

/* GGUF's value types under its numbers; metadata of every format is kept in them. */
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
    const uint8_t *data; /* the model's bytes: the whole map, or what is packed behind a program */
    size_t n_byte;
};

/* Is a model packed behind the program in data[0..n)? Then where. */
bool pack_find(const uint8_t *data, size_t n, size_t *offset, size_t *n_byte);

struct dummy;

struct checkpoint {
    enum checkpoint_kind kind;
    bool header_only;       /* tensors may lie beyond their file's end: data NULL */
    struct arena arena;     /* names, keys, texts, indexes, decoded tensors       */
    const char *path, *dir; /* in the arena                                       */
    VEC(struct checkpoint_file) file;
    VEC(struct tensor_info) tensor;
    VEC(struct meta_entry) meta;
    struct strmap tensor_by_name, meta_by_key; /* -> index */
    struct dummy *dummy;                       /* owned; NULL where the weights come from files */
};

/* An empty checkpoint that knows its paths; close it, also after a failure. */
int checkpoint_begin(struct checkpoint **out, const char *path, struct err *e);

/* Map a file; its index (>= 0), or ERR_*. */
int checkpoint_add_file(struct checkpoint *c, const char *path, struct err *e);

/* Add a tensor; its two names are copied. Refuses a name that is there already. */
int checkpoint_add_tensor(struct checkpoint *c, const struct tensor_info *t, struct err *e);

/* Add a value under a key (copied). Refuses a key that is there already. */
int checkpoint_add_meta(struct checkpoint *c, const char *key, const struct meta *value,
                        struct err *e);
int checkpoint_add_int(struct checkpoint *c, const char *key, int64_t x, struct err *e);
int checkpoint_add_real(struct checkpoint *c, const char *key, double x, struct err *e);
/* The same in the widths that readers of GGUF insist on. */
int checkpoint_add_u32(struct checkpoint *c, const char *key, uint32_t x, struct err *e);
int checkpoint_add_f32(struct checkpoint *c, const char *key, float x, struct err *e);
int checkpoint_add_text(struct checkpoint *c, const char *key, const char *text, size_t n,
                        struct err *e);

/* Bytes of one number of that type; 0 for text and lists. */
size_t value_bytes(enum value_type type);

/* Set t->n_byte from type and dimensions (dim[0] a multiple of the block). False: it overflows. */
bool tensor_set_bytes(struct tensor_info *t);

/* The readers: they fill a checkpoint that has kind, path and dir. */
int gguf_load(struct checkpoint *c, const char *path, struct err *e);
int hf_load(struct checkpoint *c, const char *dir, struct err *e);
int safetensors_load(struct checkpoint *c, const char *path,
                     struct err *e); /* adds to what is there */
int hf_config_load(struct checkpoint *c, const char *dir, struct err *e); /* hf_load's metadata */
int llama2c_load(struct checkpoint *c, const char *path, struct err *e);

/* True if the bytes begin like a file that llama2c_load reads. */
bool llama2c_looks_like(const uint8_t *data, size_t n);

/* out[n_out] = the GGUF name of a raw Hugging Face tensor name; the raw one where none is known. */
void hf_tensor_name(char *out, size_t n_out, const char *raw);

/* The bytes [at, at + n) of tensor i: where they lie, or made in scratch [n] where they are random
 * and were left to the writer (data NULL). */
const uint8_t *checkpoint_bytes(const struct checkpoint *c, int i, size_t at, size_t n,
                                uint8_t *scratch);

/* ---- models of random weights: dummy.c, dummy_vocab.c, dummy_data.c ---- */

/* What a tensor is filled with: normally distributed numbers. */
struct dummy_fill {
    float mean, sd;
};

int dummy_new(struct checkpoint *c, uint64_t seed, struct err *e);
/* Random weights for the tensor that was added last. */
int dummy_add(struct checkpoint *c, struct dummy_fill fill, struct err *e);
/* The last call: make all tensors' bytes, in memory that the checkpoint owns, unless no_data. */
int dummy_finish(struct checkpoint *c, bool no_data, struct err *e);
void dummy_bytes(const struct dummy *d, int i, size_t at, size_t n, uint8_t *out);
void dummy_drop(struct dummy *d); /* NULL is fine */
/* The other checkpoint, whose shape was taken, must live as long (metadata points into it). */
void dummy_keep(struct checkpoint *c, struct checkpoint *take_source);

/* tokenizer.ggml.*: a token for each byte, one that ends a text, then numbers as words. */
int dummy_vocab(struct checkpoint *c, int n_vocab, struct err *e);

/* ---- mixture.c: which number format a tensor gets ---- */

struct mixture {
    const char *name;
    enum qtype type; /* of all that no rule names                    */
    int file_type;   /* general.file_type; -1 where there is none    */
    bool pure;       /* every matrix gets `type`, the head too       */
};

struct mixture_site { /* a tensor and what the rules ask about it */
    const char *name;
    enum qtype type; /* its own: what norms and the like keep */
    int n_dim;
    int64_t k; /* values in a row */
    int n_layer, n_group /* query heads per KV head */;
    bool tied; /* the embedding is the head too */
};

/* `name`: one of mixture.def, or a number format. ERR_ARG with the list. */
int mixture_init(struct mixture *m, const char *name, bool pure, struct err *e);
enum qtype mixture_type(const struct mixture *m, const struct mixture_site *s);

#endif
