/* world.c - the "world" vocabulary of RWKV-5 to 7: the list rwkv_vocab_v20230424.txt. A line is a
 * token: its id, its Python literal, and its number of bytes.
 *
 *     40 "'" 1
 *     128 b'\x80' 1
 *     261 '\n\n' 2
 *
 * The list has no special tokens. Token 0 begins and ends texts. The name of token 0 is "<s>", or
 * that of tokenizer_config.json. */
#include "token_impl.h"

#include "base/text.h"

#include <string.h>

bool world_is_file(const char *path)
{
    return strstr(path_name(path), "rwkv_vocab") && text_ends_with(path, ".txt");
}

/* Read a decimal number at p[*at, n). Advance *at. Return -1 without a digit, or if the number is
 * above PIECES_MAX. */
static int64_t number(const char *p, size_t n, size_t *at)
{
    int64_t value = 0;
    const size_t first = *at;
    for (; *at < n && p[*at] >= '0' && p[*at] <= '9'; ++*at) {
        value = value * 10 + (p[*at] - '0');
        if (value > PIECES_MAX) return -1;
    }
    return *at > first ? value : -1;
}

/* Read the parts of a line. Return false if the line has another form. */
static bool split_line(const char *p, size_t n, int64_t *id, struct buf *token)
{
    size_t at = 0;
    *id = number(p, n, &at);
    if (*id < 1 || at >= n || p[at++] != ' ') return false;
    const size_t len = literal_read(token, p + at, n - at);
    at += len;
    if (len == 0 || at >= n || p[at++] != ' ') return false;
    return number(p, n, &at) == (int64_t)token->n && at == n && token->n > 0;
}

static int world_line(struct tokenizer *t, const char *p, size_t n, struct err *e)
{
    struct buf token = {0};
    int64_t id = 0;
    const bool ok = split_line(p, n, &id, &token);
    int rc = 0;
    if (token.failed)
        rc = err_memory(e, "a token", n);
    else if (!ok)
        rc = err_set(e, ERR_FORMAT,
                     "after token %zu: expected \"ID LITERAL BYTES\" with an id above 0 and the "
                     "literal's number of bytes, got \"%.*s\"",
                     t->n_piece ? t->n_piece - 1 : 0, n > 60 ? 60 : (int)n, p);
    else if ((uint64_t)id < t->n_piece && t->piece[id].kind)
        rc = err_set(e, ERR_FORMAT, "the id %lld is in two lines", (long long)id);
    if (rc == 0) rc = tokenizer_put(t, (size_t)id, token.data, token.n, PIECE_NORMAL, 0, e);
    buf_deinit(&token);
    return rc;
}

int world_read(struct tokenizer *t, const char *path, struct err *e)
{
    static const char name[] = "<s>";
    int rc = lines_read(t, path, world_line, e);
    if (rc == 0) rc = tokenizer_put(t, 0, name, sizeof name - 1, PIECE_CONTROL, 0, e);
    if (rc != 0) return rc;
    t->piece[0].match = MATCH_RAW;
    t->kind = &token_kind_longest;
    t->opt.raw_bytes = true;
    t->bos = t->eos = t->unk = 0;
    return 0;
}

/* Write bytes literals, because they exist for every token. */
void world_put(struct buf *out, const struct tokenizer *t)
{
    for (size_t id = 0; id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        struct buf text = {0};
        char quote;
        if (p->kind != PIECE_NORMAL || out->failed) continue;
        if (buf_room(&text, LITERAL_BYTE_MAX * (size_t)p->n_text))
            text.n = literal_write(text.data, &quote, p->text, p->n_text);
        if (text.n > 0) {
            buf_addf(out, "%zu b%c", id, quote);
            buf_add(out, text.data, text.n);
            buf_addf(out, "%c %u\n", quote, (unsigned)p->n_text);
        }
        out->failed |= text.failed;
        buf_deinit(&text);
    }
}
