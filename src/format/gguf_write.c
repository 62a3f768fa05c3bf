/* gguf_write.c - write a checkpoint view as one GGUF v3 file, for gguf.c to read.
 *
 * The header is made in memory, then tensors are streamed a few MiB at a time, so a dummy of any
 * size needs no memory for its weights. Values keep their types, which readers require. */
#include "format_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES_MAX = 64, ALIGNMENT_DEFAULT = 32, PIECE_BYTES = 4 << 20, LIST_DEPTH_MAX = 8 };

/* ---- bytes ---- */

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

/* Append a value without its type. Lists are at most as deep as the reader allows. */
static void put_value(struct buf *b, const struct meta *m, int depth)
{
    if (m->type == VT_TEXT) {
        put_text(b, m->data, m->n);
    } else if (m->type == VT_LIST && depth < LIST_DEPTH_MAX) {
        put_uint(b, 4, m->item);
        put_uint(b, 8, m->n);
        for (size_t i = 0; i < m->n && m->item == VT_TEXT; i++)
            put_text(b, ((const struct span *)m->data)[i].text,
                     ((const struct span *)m->data)[i].n);
        for (size_t i = 0; i < m->n && m->item == VT_LIST; i++)
            put_value(b, (const struct meta *)m->data + i, depth + 1);
        if (value_bytes(m->item)) buf_add(b, m->data, m->n * value_bytes(m->item));
    } else {
        buf_add(b, m->data, value_bytes(m->type));
    }
}

/* Return whether a key describes the parts of a split model. */
static bool is_about_parts(const char *key)
{
    return strncmp(key, "split.", 6) == 0;
}

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

static int check_tensor(const struct checkpoint *c, const struct tensor_info *t, struct err *e)
{
    const struct qtype_info *q = &qtype_info[t->type];
    if (q->gguf_id < 0)
        return err_set(e, ERR_UNSUPPORTED, "%s: tensor %s has type %s, which GGUF does not have",
                       c->path, t->name, q->name);
    if (strlen(t->name) > NAME_BYTES_MAX || t->n_byte == 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tensor %s: GGUF allows names of at most %d bytes, and no empty tensors",
                       c->path, t->name, NAME_BYTES_MAX);
    return 0;
}

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

/* Build everything before the data, padding included. */
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

struct writer {
    const struct checkpoint *c;
    FILE *f;
    uint8_t *scratch; /* [PIECE_BYTES] */
    size_t alignment;
    progress_fn *progress; /* may be NULL */
    void *ctx;
    uint64_t done, n_byte;
};

static bool write_part(struct writer *w, const void *data, size_t n)
{
    if (fwrite(data, 1, n, w->f) != n) return false;
    w->done += n;
    if (w->progress) w->progress(w->ctx, w->done, w->n_byte);
    return true;
}

static bool write_tensor(struct writer *w, int i)
{
    static const uint8_t zeros[4096];
    const struct tensor_info *t = &w->c->tensor.v[i];
    for (size_t at = 0, n; at < t->n_byte; at += n) {
        n = t->n_byte - at < PIECE_BYTES ? t->n_byte - at : PIECE_BYTES;
        if (!write_part(w, checkpoint_bytes(w->c, i, at, n, w->scratch), n)) return false;
    }
    for (size_t n = padding(t->n_byte, w->alignment), part; n > 0; n -= part) {
        part = n < sizeof zeros ? n : sizeof zeros;
        if (!write_part(w, zeros, part)) return false;
    }
    return true;
}

static int write_file(struct writer *w, const struct buf *header, const char *path, struct err *e)
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
    return ok ? 0 : err_set(e, ERR_IO, "%s: cannot write: %s", path, strerror(why));
}

static int write_renamed(struct writer *w, const struct buf *header, const char *path,
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

int checkpoint_write_gguf(const struct checkpoint *c, const char *path, progress_fn *progress,
                          void *ctx, struct err *e)
{
    struct writer w = {.c = c, .progress = progress, .ctx = ctx};
    struct buf header = {0};
    if (c->kind != CKPT_GGUF || (c->header_only && !c->dummy))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: cannot write as GGUF: only a GGUF or random weights can be", c->path);
    w.alignment = (size_t)meta_int(checkpoint_meta(c, "general.alignment"), ALIGNMENT_DEFAULT);
    w.scratch = malloc(PIECE_BYTES);
    int rc = w.scratch ? 0 : err_memory(e, "a GGUF's scratch", PIECE_BYTES);
    if (rc == 0) rc = make_header(&header, c, w.alignment, e);
    if (rc == 0) rc = write_renamed(&w, &header, path, e);
    free(w.scratch);
    buf_deinit(&header);
    return rc;
}
