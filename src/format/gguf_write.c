/* gguf_write.c - write a checkpoint view as one GGUF v3 file, or its tensors as one safetensors
 * file. gguf.c and safetensors.c can read the written files.
 *
 * The header is built in memory. Then tensors are written in pieces of PIECE_BYTES, so a dummy of
 * any size needs no memory for its weights. Metadata values keep their types, because readers
 * require these types. */
#include "format_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES_MAX = 64, ALIGNMENT_DEFAULT = 32, PIECE_BYTES = 4 << 20, LIST_DEPTH_MAX = 8 };

/* ---- bytes ---- */

/* Append a little-endian number. */
static void put_uint(struct buf *b, int n_byte, uint64_t v)
{
    for (int i = 0; i < n_byte; i++, v >>= 8) buf_add_char(b, (char)v);
}

static void put_text(struct buf *b, const char *text, size_t n)
{
    put_uint(b, 8, n);
    buf_add(b, text, n);
}

/* ---- metadata ---- */

/* Append a value without its type. The reader limits the nesting depth of lists. */
static void put_value(struct buf *b, const struct meta *m, int depth)
{
    if (m->type == VT_TEXT) {
        put_text(b, m->data, m->n);
    } else if (m->type == VT_LIST && depth < LIST_DEPTH_MAX) {
        put_uint(b, 4, m->item);
        put_uint(b, 8, m->n);
        for (size_t i = 0; i < m->n && m->item == VT_TEXT; i++)
            put_text(b, ((const struct text_slice *)m->data)[i].text,
                     ((const struct text_slice *)m->data)[i].n);
        for (size_t i = 0; i < m->n && m->item == VT_LIST; i++)
            put_value(b, (const struct meta *)m->data + i, depth + 1);
        if (value_bytes(m->item)) buf_add(b, m->data, m->n * value_bytes(m->item));
    } else {
        buf_add(b, m->data, value_bytes(m->type));
    }
}

/* Return true if a key describes the parts of a split model. */
static bool is_about_parts(const char *key)
{
    return strncmp(key, "split.", 6) == 0;
}

/* Append all keys except split.*, because the result is one file. Return the number of appended
 * keys. */
static uint64_t put_meta(struct buf *b, const struct checkpoint *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->meta.n; i++) {
        const struct meta_entry *m = &c->meta.v[i];
        if (is_about_parts(m->key)) continue;
        put_text(b, m->key, strlen(m->key));
        put_uint(b, 4, m->value.type);
        put_value(b, &m->value, 0);
        n++;
    }
    return n;
}

/* ---- tensors ---- */

static size_t padding(size_t n, size_t alignment)
{
    return (size_t)(-(uint64_t)n & (alignment - 1));
}

/* Check that GGUF can store a tensor. ERR_UNSUPPORTED for formats and names that GGUF cannot
 * store. */
static int check_tensor(const struct checkpoint *c, const struct tensor_info *t, struct err *e)
{
    const struct qtype_info *q = &qtype_info[t->type];
    if (q->gguf_id < 0)
        return err_set(e, ERR_UNSUPPORTED, "%s: tensor %s: type %s: not supported by GGUF", c->path,
                       t->name, q->name);
    if (strlen(t->name) > NAME_BYTES_MAX)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tensor %s: the name must have at most %d bytes in a GGUF, got %zu",
                       c->path, t->name, NAME_BYTES_MAX, strlen(t->name));
    if (t->n_byte == 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tensor %s: must have at least one value in a GGUF, got 0", c->path,
                       t->name);
    return 0;
}

/* Append the list of tensors. Offsets include the padding after each tensor. */
static int put_tensors(struct buf *b, const struct checkpoint *c, size_t alignment, struct err *e)
{
    size_t offset = 0;
    for (size_t i = 0; i < c->tensor.n; i++) {
        const struct tensor_info *t = &c->tensor.v[i];
        int rc = check_tensor(c, t, e);
        if (rc != 0) return rc;
        put_text(b, t->name, strlen(t->name));
        put_uint(b, 4, (uint64_t)t->n_dim);
        for (int d = 0; d < t->n_dim; d++) put_uint(b, 8, (uint64_t)t->dim[d]);
        put_uint(b, 4, (uint64_t)qtype_info[t->type].gguf_id);
        put_uint(b, 8, offset);
        offset += t->n_byte + padding(t->n_byte, alignment);
    }
    return 0;
}

/* Build the part of the file before the data, with the padding. */
static int make_header(struct buf *b, const struct checkpoint *c, size_t alignment, struct err *e)
{
    struct buf meta = {0};
    uint64_t n_meta = put_meta(&meta, c);
    buf_add(b, "GGUF", 4);
    put_uint(b, 4, 3);
    put_uint(b, 8, c->tensor.n);
    put_uint(b, 8, n_meta);
    if (meta.n) buf_add(b, meta.data, meta.n);
    bool failed = meta.failed;
    buf_deinit(&meta);
    int rc = put_tensors(b, c, alignment, e);
    for (size_t n = padding(b->n, alignment); n > 0; n--) buf_add_char(b, 0);
    return rc == 0 && (failed || b->failed) ? err_memory(e, "a GGUF's header", b->n) : rc;
}

/* ---- the file ---- */

struct gguf_writer {
    const struct checkpoint *c; /* borrowed */
    FILE *f;                    /* owned by write_file */
    uint8_t *scratch;           /* owned [PIECE_BYTES]: scratch for generated bytes */
    size_t alignment;           /* alignment of each tensor, a power of two */
    progress_fn *progress;      /* callback; NULL if none */
    void *ctx;                  /* borrowed, for progress */
    uint64_t done, n_byte;      /* number of written bytes, and number of bytes of the whole file */
    int rc;                     /* error of checkpoint.make; its text is in *e */
    struct err *e;              /* borrowed */
};

static bool write_part(struct gguf_writer *w, const void *data, size_t n)
{
    if (fwrite(data, 1, n, w->f) != n) return false;
    w->done += n;
    if (w->progress) w->progress(w->ctx, w->done, w->n_byte);
    return true;
}

/* Write a tensor and its padding. checkpoint_bytes returns mapped bytes, or generates the bytes of
 * a dummy in the scratch. In a view that the caller fills, `make` returns the bytes of a whole
 * tensor. */
static bool write_tensor(struct gguf_writer *w, int i)
{
    static const uint8_t zeros[4096];
    const struct tensor_info *t = &w->c->tensor.v[i];
    const uint8_t *made = w->c->make ? w->c->make(w->c->make_ctx, i, &w->rc, w->e) : NULL;
    if (w->rc != 0) return false;
    for (size_t at = 0, n; at < t->n_byte; at += n) {
        n = t->n_byte - at < PIECE_BYTES ? t->n_byte - at : PIECE_BYTES;
        const uint8_t *from = made ? made + at : checkpoint_bytes(w->c, i, at, n, w->scratch);
        if (!write_part(w, from, n)) return false;
    }
    for (size_t n = padding(t->n_byte, w->alignment), part; n > 0; n -= part) {
        part = n < sizeof zeros ? n : sizeof zeros;
        if (!write_part(w, zeros, part)) return false;
    }
    return true;
}

/* Write all parts in the order of the format. Save errno, because fclose may change it. */
static int write_file(struct gguf_writer *w, const struct buf *header, const char *path,
                      struct err *e)
{
    w->n_byte = header->n;
    for (size_t i = 0; i < w->c->tensor.n; i++) {
        size_t n = w->c->tensor.v[i].n_byte;
        w->n_byte += n + padding(n, w->alignment);
    }
    w->f = fopen(path, "wbe");
    if (!w->f) return err_set(e, ERR_IO, "%s: cannot create: %s", path, strerror(errno));
    bool ok = write_part(w, header->data, header->n);
    for (size_t i = 0; i < w->c->tensor.n && ok; i++) ok = write_tensor(w, (int)i);
    int why = errno;
    ok = fclose(w->f) == 0 && ok;
    if (w->rc != 0) return w->rc;
    return ok ? 0 : err_set(e, ERR_IO, "%s: cannot write: %s", path, strerror(why));
}

static int write_renamed(struct gguf_writer *w, const struct buf *header, const char *path,
                         struct err *e)
{
    char temp[4096];
    int n = snprintf(temp, sizeof temp, "%s.tmp-%d", path, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof temp)
        return err_set(e, ERR_ARG, "%s: cannot write: the path is too long", path);
    int rc = write_file(w, header, temp, e);
    if (rc == 0 && rename(temp, path) != 0)
        rc = err_set(e, ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    if (rc != 0) unlink(temp);
    return rc;
}

/* Build the header of a safetensors file, padded with blanks to a multiple of 8 bytes. */
static int make_safetensors_header(struct buf *b, const struct checkpoint *c, struct err *e)
{
    struct buf json = {0};
    size_t at = 0;
    int rc = 0;
    buf_add_text(&json, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < c->tensor.n && rc == 0; i++) {
        const struct tensor_info *t = &c->tensor.v[i];
        if (t->type != QT_f32 && t->type != QT_f16 && t->type != QT_bf16 && t->type != QT_u8)
            rc = err_set(e, ERR_UNSUPPORTED, "%s: tensor %s: type %s: not in a safetensors file",
                         c->path, t->name, qtype_info[t->type].name);
        buf_add_char(&json, ',');
        json_put_text(&json, t->name, strlen(t->name));
        buf_addf(&json, ":{\"dtype\":\"%s\",\"shape\":[", qtype_info[t->type].name);
        for (int d = t->n_dim; d-- > 0;)
            buf_addf(&json, "%lld%s", (long long)t->dim[d], d ? "," : "");
        buf_addf(&json, "],\"data_offsets\":[%zu,%zu]}", at, at + t->n_byte);
        at += t->n_byte;
    }
    buf_add_char(&json, '}');
    while (json.n % 8 && !json.failed) buf_add_char(&json, ' ');
    put_uint(b, 8, json.n);
    if (json.n) buf_add(b, json.data, json.n);
    const bool failed = json.failed || b->failed;
    buf_deinit(&json);
    return rc == 0 && failed ? err_memory(e, "a header", b->n) : rc;
}

int checkpoint_write_safetensors(const struct checkpoint *c, const char *path,
                                 progress_fn *progress, void *ctx, struct err *e)
{
    struct gguf_writer w = {.c = c, .alignment = 1, .progress = progress, .ctx = ctx, .e = e};
    struct buf header = {0};
    w.scratch = malloc(PIECE_BYTES);
    int rc = w.scratch ? 0 : err_memory(e, "the scratch", PIECE_BYTES);
    if (rc == 0) rc = make_safetensors_header(&header, c, e);
    if (rc == 0) rc = write_renamed(&w, &header, path, e);
    free(w.scratch);
    buf_deinit(&header);
    return rc;
}

int checkpoint_write_gguf(const struct checkpoint *c, const char *path, progress_fn *progress,
                          void *ctx, struct err *e)
{
    struct gguf_writer w = {.c = c, .progress = progress, .ctx = ctx, .e = e};
    struct buf header = {0};
    if (c->kind != CKPT_GGUF || (c->header_only && !c->dummy))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: cannot write as GGUF: only a GGUF or random weights can be written",
                       c->path);
    w.alignment = (size_t)meta_int(checkpoint_meta(c, "general.alignment"), ALIGNMENT_DEFAULT);
    w.scratch = malloc(PIECE_BYTES);
    int rc = w.scratch ? 0 : err_memory(e, "a GGUF's scratch", PIECE_BYTES);
    if (rc == 0) rc = make_header(&header, c, w.alignment, e);
    if (rc == 0) rc = write_renamed(&w, &header, path, e);
    free(w.scratch);
    buf_deinit(&header);
    return rc;
}
