/* tiktoken.c - rank files: a line per token, its bytes in base64 and its rank, which is also its
 * id.
 *
 * There are no merges and no pattern in the file: two neighbours merge when their bytes together
 * are a token (lowest rank first), and pattern and special tokens come from tiktoken.def, by
 * hint, file name or number of ranks. */
#include "token_impl.h"

#include "base/base64.h"

#include <stdio.h>
#include <string.h>

enum { SPECIALS_MAX = 12, LLAMA3_LAST_RESERVED = 128255 };

static const struct encoding {
    const char *name, *in_path;
    size_t n_rank;
    const char *family;
    int32_t bos, eos;
    struct {
        int32_t id;
        const char *text;
    } special[SPECIALS_MAX];
} encodings[] = {
#define ENCODING(id, part, count, pretok, begin, end, ...)                                         \
    {.name = (id),                                                                                 \
     .in_path = (part),                                                                            \
     .n_rank = (count),                                                                            \
     .family = (pretok),                                                                           \
     .bos = (begin),                                                                               \
     .eos = (end),                                                                                 \
     .special = {__VA_ARGS__}},
#include "tiktoken.def"
#undef ENCODING
};
enum { N_ENCODING = sizeof encodings / sizeof encodings[0] };

/* "base64 rank" */
static int rank_line(struct tokenizer *t, const char *p, size_t n, struct err *e)
{
    struct buf bytes = {0};
    const char *space = memchr(p, ' ', n);
    size_t rank = 0, i = space ? (size_t)(space - p) + 1 : n;
    if (n == 0) return 0;
    bool ok = i < n && base64_decode(p, i - 1, &bytes) && bytes.n > 0;
    for (; i < n && rank < PIECES_MAX && ok; i++) {
        ok = p[i] >= '0' && p[i] <= '9';
        rank = rank * 10 + (size_t)(p[i] - '0');
    }
    int rc = ok ? tokenizer_put(t, rank, bytes.data, bytes.n, PIECE_NORMAL, 0, e)
                : err_set(e, ERR_FORMAT, "line %zu is not \"base64 rank\"", t->n_piece + 1);
    buf_deinit(&bytes);
    return rc;
}

static const struct encoding *find_encoding(const char *path, const char *hint, size_t n_rank)
{
    for (size_t i = 0; hint && i < N_ENCODING; i++)
        if (strcmp(encodings[i].name, hint) == 0) return &encodings[i];
    for (size_t i = 0; !hint && i < N_ENCODING; i++)
        if (encodings[i].n_rank == n_rank) return &encodings[i];
    for (size_t i = 0; !hint && i < N_ENCODING; i++)
        if (strstr(path, encodings[i].in_path)) return &encodings[i];
    return NULL;
}

static int put_special(struct tokenizer *t, int32_t id, const char *text, struct err *e)
{
    int rc = tokenizer_put(t, (size_t)id, text, strlen(text), PIECE_CONTROL, 0, e);
    if (rc == 0) t->piece[id].match = MATCH_RAW;
    return rc;
}

/* Llama 3 reserves 256 ids, most of them unnamed. */
static int put_reserved(struct tokenizer *t, struct err *e)
{
    int rc = 0;
    for (int32_t id = (int32_t)t->n_piece, k = 3; id <= LLAMA3_LAST_RESERVED && rc == 0;
         id++, k++) {
        char text[48];
        snprintf(text, sizeof text, "<|reserved_special_token_%d|>", k);
        rc = put_special(t, id, text, e);
    }
    return rc;
}

static int put_specials(struct tokenizer *t, const struct encoding *x, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < SPECIALS_MAX && x->special[i].text && rc == 0; i++)
        rc = put_special(t, x->special[i].id, x->special[i].text, e);
    if (rc == 0 && strcmp(x->name, "llama-3") == 0) rc = put_reserved(t, e);
    return rc;
}

int tiktoken_read(struct tokenizer *t, const char *path, const char *hint, struct err *e)
{
    int rc = lines_read(t, path, rank_line, e);
    if (rc != 0) return rc;
    const struct encoding *x = find_encoding(path, hint, t->n_piece);
    if (!x)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: which encoding is it? \"%.40s\" is none of tiktoken.def", path,
                       hint ? hint : "(its name)");
    t->kind = &token_kind_bpe;
    rc = tokenizer_add_family(t, x->family, e);
    t->opt.raw_bytes = t->opt.merges_by_rank = t->opt.ignore_merges = true;
    if (rc == 0) rc = put_specials(t, x, e);
    t->bos = x->bos;
    t->eos = x->eos;
    if (t->opt.add_bos && t->bos >= 0) t->prefix[t->n_prefix++] = t->bos;
    return rc;
}
