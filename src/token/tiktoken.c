/* tiktoken.c - rank files. Each line is a token: its bytes in base64 and its rank. The rank is the
 * token's id.
 *
 * The file contains neither merges nor a pattern. Two adjacent tokens merge if their joined bytes
 * are a token. The pair with the lowest rank merges first. The pattern and the special tokens are
 * those of an encoding of tiktoken.def, chosen by hint, highest rank or file name. */
#include "token_impl.h"

#include "base/base64.h"
#include "base/check.h"

#include <stdio.h>
#include <string.h>

enum { SPECIALS_MAX = 24, LLAMA3_LAST_RESERVED = 128255 };

/* Rows of tiktoken.def. All pointers are static. `in_path`: text that identifies the file by its
 * path. */
static const struct encoding {
    const char *name, *in_path;
    size_t n_rank; /* number of ranks in the file */
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

/* Read the line "base64 rank". */
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
             : bytes.failed
                 ? err_memory(e, "a token", n)
                 : err_set(e, ERR_FORMAT, "line %zu: expected \"base64 rank\", got \"%.*s\"",
                           t->n_piece + 1, n > 60 ? 60 : (int)n, p);
    buf_deinit(&bytes);
    return rc;
}

int tokenizer_family_form(const char *text, struct err *e)
{
    char names[160] = "";
    size_t n = 0;
    for (size_t i = 0; i < N_ENCODING; i++) {
        if (strcmp(encodings[i].name, text) == 0) return 0;
        n += (size_t)snprintf(names + n, sizeof names - n, "%s, ", encodings[i].name);
        CHECK(n < sizeof names, "the names of the encodings have %zu bytes", n);
    }
    if (is_family(text)) return 0;
    return err_set(e, ERR_ARG,
                   "must be %sor a pre-tokenizer as GGUF files name it (gpt-2, llama-bpe, tekken, "
                   "...), got \"%.60s\"",
                   names, text);
}

/* Find an encoding by hint, number of ranks or file name. The file's number of ranks must match the
 * encoding, because special tokens would otherwise replace ranks. */
static int find_encoding(const struct encoding **out, const char *path, const char *hint,
                         size_t n_rank, struct err *e)
{
    const struct encoding *x = NULL;
    for (size_t i = 0; i < N_ENCODING && hint && !x; i++)
        if (strcmp(encodings[i].name, hint) == 0) x = &encodings[i];
    for (size_t i = 0; i < N_ENCODING && !hint && !x; i++)
        if (encodings[i].n_rank == n_rank) x = &encodings[i];
    for (size_t i = 0; i < N_ENCODING && !hint && !x; i++)
        if (strstr(path, encodings[i].in_path)) x = &encodings[i];
    *out = x;
    if (!x)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: encoding \"%.40s\" not found; choose one with --family", path,
                       hint ? hint : "(its name)");
    if (hint ? n_rank > x->n_rank : n_rank != x->n_rank)
        return err_set(e, ERR_UNSUPPORTED, "%s: %zu ranks, but %s has %zu; choose with --family",
                       path, n_rank, x->name, x->n_rank);
    return 0;
}

/* Add a special token, which only matches raw text. */
static int put_special(struct tokenizer *t, int32_t id, const char *text, struct err *e)
{
    int rc = tokenizer_put(t, (size_t)id, text, strlen(text), PIECE_CONTROL, 0, e);
    if (rc == 0) t->piece[id].match = MATCH_RAW;
    return rc;
}

/* Add the special tokens without a name. Llama 3 reserves 256 ids, most of them without a name. */
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

/* Add the special tokens of an encoding. The ids of special tokens follow the ranks. Only Llama 3
 * has reserved tokens. */
static int put_specials(struct tokenizer *t, const struct encoding *x, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < SPECIALS_MAX && x->special[i].text && rc == 0; i++)
        rc = put_special(t, x->special[i].id, x->special[i].text, e);
    if (rc == 0 && strcmp(x->name, "llama-3") == 0) rc = put_reserved(t, e);
    return rc;
}

/* Set ignore_merges: a word that is a token becomes this token, as in tiktoken. */
int tiktoken_read(struct tokenizer *t, const char *path, const char *hint, struct err *e)
{
    int rc = lines_read(t, path, rank_line, e);
    if (rc != 0) return rc;
    const struct encoding *x;
    rc = find_encoding(&x, path, hint, t->n_piece, e);
    if (rc != 0) return rc;
    t->kind = &token_kind_bpe;
    rc = tokenizer_add_family(t, x->family, e);
    t->opt.raw_bytes = t->opt.merges_by_rank = t->opt.ignore_merges = true;
    if (rc == 0) rc = put_specials(t, x, e);
    t->bos = x->bos;
    t->eos = x->eos;
    if (t->opt.add_bos && t->bos >= 0) t->prefix[t->n_prefix++] = t->bos;
    return rc;
}
