/* detok.c - conversion of ids to bytes, at once or as a stream.
 *
 * The bytes of a token are constant after open (token.c), so decoding is concatenation. Only a
 * leading space of the first token may be omitted. The stream keeps at most three pending bytes,
 * which may be the beginning of a character. */
#include "token_impl.h"
#include "base/check.h"
#include "base/utf8.h"

#include <string.h>

/* Return the bytes that a token adds after the previous tokens; NULL if none. Set *joined to true
 * if a space must precede the result. */
static const char *token_bytes(const struct tokenizer *t, int32_t id, unsigned flags, bool *started,
                               bool *joined, size_t *n)
{
    if (id < 0 || (size_t)id >= t->n_piece) return NULL;
    const struct piece *p = &t->piece[id];
    if (p->special && (flags & DECODE_SKIP_SPECIAL)) return NULL;
    bool first = !*started;
    *joined = !first && t->opt.join_pieces;
    *started = true;
    *n = p->n_byte;
    if (!first || !t->opt.drop_lead_space || p->n_byte == 0 || p->bytes[0] != ' ') return p->bytes;
    if (t->opt.drop_mark_only && p->text[0] == ' ') return p->bytes;
    --*n;
    return p->bytes + 1;
}

void detok_init(struct detok *d, const struct tokenizer *t, unsigned flags)
{
    *d = (struct detok){.t = t, .flags = flags};
}

/* Remove the first n pending bytes and their bits of `spelled`. */
static void drop_pending(struct detok *d, int n)
{
    CHECK(n > 0 && n <= d->n_pending, "%d bytes of %d", n, d->n_pending);
    d->n_pending = (uint8_t)(d->n_pending - n);
    d->spelled = (uint8_t)(d->spelled >> n);
    memmove(d->pending, d->pending + n, d->n_pending);
}

/* Emit the first pending bytes, which cannot become a character. A spelled byte becomes its
 * character of the byte alphabet. Other bytes up to the next spelled byte become U+FFFD. */
static void settle_bad(struct detok *d, struct buf *out)
{
    int len = utf8_bad_len(d->pending, d->n_pending);
    if (d->spelled & 1) {
        alphabet_add(out, (uint8_t)d->pending[0]);
        len = 1;
    } else {
        for (int i = 1; i < len; i++)
            if (d->spelled >> i & 1) len = i;
        if (d->raw)
            buf_add(out, d->pending, (size_t)len);
        else
            buf_add_utf8(out, 0xFFFD);
    }
    drop_pending(d, len);
}

/* Emit the decided part of the pending bytes: characters, and U+FFFD for bytes that cannot become a
 * character. */
static void emit_decided(struct detok *d, struct buf *out)
{
    while (d->n_pending) {
        uint32_t cp;
        int len = utf8_decode(d->pending, d->n_pending, &cp);
        if (len < 0) return;
        if (len == 0) {
            settle_bad(d, out);
            continue;
        }
        buf_add(out, d->pending, (size_t)len);
        drop_pending(d, len);
    }
}

/* Append complete text to `out` at once. Bytes of an incomplete character stay pending. */
bool detok_push(struct detok *d, int32_t id, struct buf *out)
{
    size_t n;
    bool joined;
    const char *bytes = token_bytes(d->t, id, d->flags, &d->started, &joined, &n);
    if (!bytes) return !out->failed;
    bool spelled = d->t->piece[id].spelled;
    if (joined && !detok_flush(d, out)) return false;
    if (joined) buf_add_char(out, ' ');
    if (d->n_pending == 0 && !spelled && utf8_valid(bytes, n)) {
        buf_add(out, bytes, n);
        return !out->failed;
    }
    for (size_t i = 0; i < n; i++) {
        d->spelled = (uint8_t)(d->spelled | (unsigned)spelled << d->n_pending);
        d->pending[d->n_pending++] = bytes[i];
        emit_decided(d, out);
    }
    return !out->failed;
}

/* End the stream. Pending bytes are a prefix of one UTF-8 sequence. Pending bytes become a single
 * U+FFFD if none of them are spelled. */
bool detok_flush(struct detok *d, struct buf *out)
{
    while (d->n_pending && (d->spelled || d->raw)) settle_bad(d, out);
    if (d->n_pending) buf_add_utf8(out, 0xFFFD);
    d->n_pending = 0;
    return !out->failed;
}

/* Decode ids. The bytes of a token do not depend on its neighbours if no piece is spelled. */
bool tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                      struct buf *out)
{
    struct detok d = {.t = t, .flags = flags, .raw = true};
    for (size_t i = 0; i < n; i++) {
        size_t len;
        bool joined;
        if (t->any_spelled) {
            detok_push(&d, ids[i], out);
            continue;
        }
        const char *bytes = token_bytes(t, ids[i], flags, &d.started, &joined, &len);
        if (bytes && joined) buf_add_char(out, ' ');
        if (bytes) buf_add(out, bytes, len);
    }
    return detok_flush(&d, out) && !out->failed;
}
