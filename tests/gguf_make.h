/* gguf_make.h - GGUF files written byte by byte, valid or invalid. The test's thread only. */
#ifndef QUOTH_TEST_GGUF_MAKE_H
#define QUOTH_TEST_GGUF_MAKE_H

#include "base/buf.h"

#include <string.h>

struct made {
    struct buf head; /* bytes of the file so far */
};

/* Append n bytes. */
static inline void made_raw(struct made *g, const void *data, size_t n)
{
    buf_add(&g->head, data, n);
}

/* Append the low n_byte bytes of v, little-endian. */
static inline void made_uint(struct made *g, int n_byte, uint64_t v)
{
    for (int i = 0; i < n_byte; i++) buf_add_char(&g->head, (char)(v >> (8 * i)));
}

/* Append an f32. */
static inline void made_f32(struct made *g, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    made_uint(g, 4, bits);
}

/* Append an f64. */
static inline void made_f64(struct made *g, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    made_uint(g, 8, bits);
}

/* Append a string: its length as u64, then its bytes. */
static inline void made_text(struct made *g, const char *text, size_t n)
{
    made_uint(g, 8, n);
    made_raw(g, text, n);
}

/* Append the name and the type of a metadata value. */
static inline void made_key(struct made *g, const char *key, uint32_t type)
{
    made_text(g, key, strlen(key));
    made_uint(g, 4, type);
}

/* Append the type and the number of items of a list value. */
static inline void made_list(struct made *g, const char *key, uint32_t item_type, uint64_t n)
{
    made_key(g, key, 9);
    made_uint(g, 4, item_type);
    made_uint(g, 8, n);
}

/* Append a tensor's name, shape, type and offset. */
static inline void made_tensor(struct made *g, const char *name, int n_dim, const int64_t *dim,
                               uint32_t type, uint64_t offset)
{
    made_text(g, name, strlen(name));
    made_uint(g, 4, (uint64_t)n_dim);
    for (int i = 0; i < n_dim; i++) made_uint(g, 8, (uint64_t)dim[i]);
    made_uint(g, 4, type);
    made_uint(g, 8, offset);
}

/* Append zeros up to the alignment of data. */
static inline void made_pad(struct made *g, size_t alignment)
{
    while (g->head.n % alignment) buf_add_char(&g->head, 0);
}

/* Begin a file: magic, version, number of tensors and of keys. */
static inline struct made made_begin(uint32_t version, uint64_t n_tensor, uint64_t n_kv)
{
    struct made g = {0};
    made_raw(&g, "GGUF", 4);
    made_uint(&g, 4, version);
    made_uint(&g, 8, n_tensor);
    made_uint(&g, 8, n_kv);
    return g;
}

#endif
