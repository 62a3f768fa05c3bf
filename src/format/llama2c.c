/* llama2c.c - checkpoints of karpathy/llama2.c, presented as architecture "llama".
 *
 *   v0  7 x i32 (dim hidden_dim n_layers n_heads n_kv_heads vocab_size seq_len), then f32.
 *       A separate output matrix is at the end if vocab_size < 0, after two unused tables of
 *       rope sines. v0 has no magic number, so the file length must match exactly.
 *   v1  "ak42" 1, these 7 numbers, u8 shared, padded to 256 bytes; then f32, norms first.
 *   v2  "ak42" 2, these 7 numbers, u8 shared, i32 group_size, padded to 256 bytes; then f32 norms,
 *       and per matrix int8 [n] and f32 scale [n / group_size]. Matrices are decoded to F32 at
 *       open, because groups may cross rows and no number format supports such groups.
 *
 * Each version is a list of parts in file order. One pass over the list places the tensors and
 * computes the file's length. */
#include "format_impl.h"

#include <stdio.h>
#include <string.h>

#define MAGIC 0x616b3432u

enum { HEADER_V0 = 28, HEADER_V1 = 256, FIELD_MAX = 1 << 26 };

struct llama2c_header {
    int version; /* 0, 1 or 2 */
    int64_t dim, hidden, n_layer, n_head, n_head_kv, n_vocab, n_ctx;
    bool shared;   /* true if the head is the embedding */
    int64_t group; /* number of values per scale, only in v2 */
};

/* A part of the file: a matrix or vector that exists once, or once per layer. */
struct file_part {
    const char *name;          /* static tensor name, with %d for the layer; NULL: skip the part */
    bool per_layer, quantized; /* true: int8 with scales (v2) */
    int64_t k, n;              /* sizes dim[0] and dim[1]; n is 0 for a vector */
};

/* Pointers are borrowed. */
struct tensor_walk {
    struct checkpoint *c;
    struct err *e;
    const char *path;
    const struct llama2c_header *h;
    const uint8_t *data;
    size_t n, at;
};

/* Read a little-endian number at any alignment. */
static int32_t i32_at(const uint8_t *p)
{
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

/* ---- header ---- */

/* Read the seven numbers that all versions have in the same order. */
static void read_fields(struct llama2c_header *h, const uint8_t *p)
{
    int64_t *const to[7] = {&h->dim,       &h->hidden,  &h->n_layer, &h->n_head,
                            &h->n_head_kv, &h->n_vocab, &h->n_ctx};
    for (int i = 0; i < 7; i++) *to[i] = i32_at(p + 4 * i);
}

/* Return true if the fields have plausible values. No other property distinguishes v0 from other
 * files. */
static bool header_plausible(const struct llama2c_header *h)
{
    const int64_t field[7] = {h->dim,       h->hidden,  h->n_layer, h->n_head,
                              h->n_head_kv, h->n_vocab, h->n_ctx};
    for (int i = 0; i < 7; i++)
        if (field[i] <= 0 || field[i] > FIELD_MAX) return false;
    return h->n_layer <= LAYERS_MAX && h->dim % h->n_head == 0 && h->n_head % h->n_head_kv == 0;
}

/* Read a header. Return false if the data is too short or its values are not plausible. */
static bool read_header(struct llama2c_header *h, const uint8_t *p, size_t n)
{
    *h = (struct llama2c_header){.group = 1};
    if (n >= HEADER_V1 && (uint32_t)i32_at(p) == MAGIC) {
        h->version = i32_at(p + 4);
        read_fields(h, p + 8);
        h->shared = p[36] != 0;
        if (h->version == 2) h->group = i32_at(p + 37);
        return true;
    }
    if (n < HEADER_V0) return false;
    read_fields(h, p);
    h->shared = h->n_vocab > 0;
    if (!h->shared) h->n_vocab = -h->n_vocab;
    return header_plausible(h);
}

bool llama2c_looks_like(const uint8_t *data, size_t n)
{
    struct llama2c_header h;
    return read_header(&h, data, n);
}

/* Reject versions and values that add_tensors cannot handle. group_size must be positive, because
 * it is a divisor. */
static int check_header(const struct llama2c_header *h, const char *path, struct err *e)
{
    if (h->version > 2 || (h->version < 1 && h->version != 0))
        return err_set(e, ERR_UNSUPPORTED, "%s: llama2.c version: must be 0, 1 or 2, got %d", path,
                       h->version);
    if (!header_plausible(h))
        return err_set(e, ERR_FORMAT,
                       "%s: the header is out of range: dim %lld, hidden_dim %lld, %lld layers, "
                       "%lld heads, %lld KV heads, vocabulary %lld, context %lld",
                       path, (long long)h->dim, (long long)h->hidden, (long long)h->n_layer,
                       (long long)h->n_head, (long long)h->n_head_kv, (long long)h->n_vocab,
                       (long long)h->n_ctx);
    if (h->group > 0) return 0;
    return err_set(e, ERR_FORMAT, "%s: group_size: must be positive, got %lld", path,
                   (long long)h->group);
}

/* ---- tensors ---- */

/* Return the next n bytes. Return NULL and set the error if fewer bytes remain. */
static const uint8_t *next_bytes(struct tensor_walk *w, const char *name, int64_t n)
{
    if ((uint64_t)n > w->n - w->at) {
        err_set(w->e, ERR_FORMAT,
                "%s is damaged: expected %s of %lld bytes at %zu, got %zu bytes in the file",
                w->path, name, (long long)n, w->at, w->n);
        return NULL;
    }
    const uint8_t *p = w->data + w->at;
    w->at += (size_t)n;
    return p;
}

/* Decode int8 q [n] and f32 scale [n / group]. Return the values, f32 [n]. Return NULL and set the
 * error after a failure. */
static const uint8_t *take_quantized(struct tensor_walk *w, const char *name, int64_t n)
{
    int64_t group = w->h->group;
    if (n % group != 0) {
        err_set(w->e, ERR_FORMAT, "%s: %s has %lld values, expected a multiple of group_size %lld",
                w->path, name, (long long)n, (long long)group);
        return NULL;
    }
    const uint8_t *q = next_bytes(w, name, n),
                  *scales = q ? next_bytes(w, name, n / group * 4) : NULL;
    if (!scales) return NULL;
    float *x = arena_push(&w->c->arena, (size_t)n * sizeof *x, 64);
    if (!x) {
        err_memory(w->e, name, (unsigned long long)n * sizeof *x);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        float scale;
        memcpy(&scale, scales + i / group * 4, sizeof scale);
        x[i] = (float)(int8_t)q[i] * scale;
    }
    return (const uint8_t *)x;
}

/* Add one tensor, or skip the bytes of a part without a name. */
static int add_part(struct tensor_walk *w, const struct file_part *p, int layer)
{
    char name[64] = "the rope tables";
    struct tensor_info t = {.name = name,
                            .name_raw = name,
                            .type = QT_f32,
                            .n_dim = p->n ? 2 : 1,
                            .dim = {p->k, p->n ? p->n : 1, 1, 1}};
    if (p->name && p->per_layer)
        snprintf(name, sizeof name, "blk.%d.%s", layer, p->name);
    else if (p->name)
        snprintf(name, sizeof name, "%s", p->name);
    if (!tensor_set_bytes(&t))
        return err_set(w->e, ERR_FORMAT, "%s: %s is too large", w->path, name);
    int64_t n_byte = (int64_t)t.n_byte;
    t.data = p->quantized ? take_quantized(w, name, n_byte / 4) : next_bytes(w, name, n_byte);
    if (!t.data) return ERR_FORMAT;
    return p->name ? checkpoint_add_tensor(w->c, &t, w->e) : 0;
}

/* Add all parts. The parts must use every byte of the file. */
static int add_parts(struct tensor_walk *w, const struct file_part *part, size_t n_part)
{
    int rc = 0;
    for (size_t i = 0; i < n_part && rc == 0; i++) {
        int n_layer = part[i].per_layer ? (int)w->h->n_layer : 1;
        for (int layer = 0; layer < n_layer && rc == 0; layer++) rc = add_part(w, &part[i], layer);
    }
    if (rc == 0 && w->at != w->n)
        rc = err_set(w->e, ERR_FORMAT, "%s: must have %zu bytes as in its header, got %zu", w->path,
                     w->at, w->n);
    return rc;
}

/* Add all tensors in the order of the file. kv is the number of rows of wk and wv, and `half` the
 * number of rope angles of a head. The last part is `out`, which a shared head omits. */
static int add_tensors(struct tensor_walk *w)
{
    const struct llama2c_header *h = w->h;
    bool q = h->version == 2;
    int64_t d = h->dim, ff = h->hidden, kv = d / h->n_head * h->n_head_kv, half = d / h->n_head / 2;
    const struct file_part embd = {"token_embd.weight", false, q, d, h->n_vocab},
                           out = {"output.weight", false, q, d, h->n_vocab},
                           attn_norm = {"attn_norm.weight", true, false, d, 0},
                           ffn_norm = {"ffn_norm.weight", true, false, d, 0},
                           norm = {"output_norm.weight", false, false, d, 0},
                           rope = {NULL, false, false, 2 * half, h->n_ctx},
                           wq = {"attn_q.weight", true, q, d, d},
                           wk = {"attn_k.weight", true, q, d, kv},
                           wv = {"attn_v.weight", true, q, d, kv},
                           wo = {"attn_output.weight", true, q, d, d},
                           w1 = {"ffn_gate.weight", true, q, d, ff},
                           w2 = {"ffn_down.weight", true, q, ff, d},
                           w3 = {"ffn_up.weight", true, q, d, ff};
    const struct file_part v0[] = {embd, attn_norm, wq, wk,   wv,   wo, ffn_norm,
                                   w1,   w2,        w3, norm, rope, out};
    const struct file_part v1[] = {attn_norm, ffn_norm, norm, embd, wq, wk,
                                   wv,        wo,       w1,   w2,   w3, out};
    if (h->version == 0) return add_parts(w, v0, sizeof v0 / sizeof v0[0] - h->shared);
    return add_parts(w, v1, sizeof v1 / sizeof v1[0] - h->shared);
}

/* ---- metadata ---- */

/* Add the metadata of a llama. The base of the rope and the epsilon of the norms are constants of
 * llama2.c. */
static int add_metadata(struct checkpoint *c, const struct llama2c_header *h, struct err *e)
{
    const struct {
        const char *key; /* static */
        int64_t value;
    } number[] = {
        {"llama.context_length", h->n_ctx},
        {"llama.embedding_length", h->dim},
        {"llama.block_count", h->n_layer},
        {"llama.feed_forward_length", h->hidden},
        {"llama.attention.head_count", h->n_head},
        {"llama.attention.head_count_kv", h->n_head_kv},
        {"llama.rope.dimension_count", h->dim / h->n_head},
        {"llama.vocab_size", h->n_vocab},
    };
    int rc = checkpoint_add_text(c, "general.architecture", "llama", 5, e);
    for (size_t i = 0; i < sizeof number / sizeof number[0] && rc == 0; i++)
        rc = checkpoint_add_int(c, number[i].key, number[i].value, e);
    if (rc == 0) rc = checkpoint_add_real(c, "llama.rope.freq_base", 10000, e);
    if (rc == 0) rc = checkpoint_add_real(c, "llama.attention.layer_norm_rms_epsilon", 1e-5, e);
    return rc;
}

int llama2c_load(struct checkpoint *c, const char *path, struct err *e)
{
    int file = checkpoint_add_file(c, path, e);
    if (file < 0) return file;
    struct llama2c_header h;
    const struct file_map *m = &c->file.v[file].map;
    if (!read_header(&h, m->data, m->n_byte))
        return err_set(e, ERR_FORMAT, "%s: expected a llama2.c checkpoint, got %zu other bytes",
                       path, m->n_byte);
    int rc = check_header(&h, path, e);
    if (rc == 0) rc = add_metadata(c, &h, e);
    struct tensor_walk w = {.c = c,
                            .e = e,
                            .path = path,
                            .h = &h,
                            .data = m->data,
                            .n = m->n_byte,
                            .at = h.version ? HEADER_V1 : HEADER_V0};
    return rc ? rc : add_tensors(&w);
}
