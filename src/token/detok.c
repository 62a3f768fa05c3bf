/* detok.c - ids back to bytes, whole or as a stream.
 *
 * A token's bytes are fixed at open (token.c), so decoding is concatenation; only a leading space
 * of the first token may go. The stream holds back at most three bytes, those that may still
 * become a character. */
#include "token_impl.h"
#include "base/utf8.h"

#include <string.h>

/* The bytes that a token adds, given what came before; NULL: none. */
static const char *shown(const struct tokenizer *t, int32_t id, unsigned flags, bool *started,
                         size_t *n)
{
    if (id < 0 || (size_t)id >= t->n_piece) return NULL;
    const struct piece *p = &t->piece[id];
    if (p->special && (flags & DECODE_SKIP_SPECIAL)) return NULL;
    bool first = !*started;
    *started = true;
    *n = p->n_byte;
    if (!first || !t->opt.drop_lead_space || p->n_byte == 0 || p->bytes[0] != ' ') return p->bytes;
    --*n;
    return p->bytes + 1;
}

bool tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                      struct buf *out)
{
    bool started = false;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *bytes = shown(t, ids[i], flags, &started, &len);
        if (bytes) buf_add(out, bytes, len);
    }
    return !out->failed;
}

void detok_init(struct detok *d, const struct tokenizer *t, unsigned flags)
{
    *d = (struct detok){.t = t, .flags = flags};
}

static void drop_pending(struct detok *d, int n)
{
    d->n_pending = (uint8_t)(d->n_pending - n);
    memmove(d->pending, d->pending + n, d->n_pending);
}

/* Give out what of the pending bytes is decided: a character, or U+FFFD for bytes that can become
 * none. */
static void settle(struct detok *d, struct buf *out)
{
    while (d->n_pending) {
        uint32_t cp;
        int len = utf8_decode(d->pending, d->n_pending, &cp);
        if (len < 0) return;
        if (len == 0) {
            len = utf8_bad_len(d->pending, d->n_pending);
            buf_add_utf8(out, 0xFFFD);
        } else {
            buf_add(out, d->pending, (size_t)len);
        }
        drop_pending(d, len);
    }
}

bool detok_push(struct detok *d, int32_t id, struct buf *out)
{
    size_t n;
    const char *bytes = shown(d->t, id, d->flags, &d->started, &n);
    if (!bytes) return !out->failed;
    if (d->n_pending == 0 && utf8_valid(bytes, n)) {
        buf_add(out, bytes, n);
        return !out->failed;
    }
    for (size_t i = 0; i < n; i++) {
        d->pending[d->n_pending++] = bytes[i];
        settle(d, out);
    }
    return !out->failed;
}

bool detok_flush(struct detok *d, struct buf *out)
{
    if (d->n_pending) buf_add_utf8(out, 0xFFFD); /* a prefix of one sequence: one replacement */
    d->n_pending = 0;
    return !out->failed;
}
