/* convert_check.c - comparison of the result of a conversion with its source.
 *
 *   check_written --> the config (model_same_config)
 *                 --> bytes and attributes of each token
 *                 --> ids of texts of all tokens, and of texts with rare characters
 *
 * A difference is an error, except for the ids of rare texts, which are a warning. */
#include "session_impl.h"

#include "base/json.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* State of a comparison of two tokenizers. All pointers are borrowed. */
struct tokenizers {
    const struct tokenizer *want, *got;
    const char *path; /* the source */
    struct err *e;
};

/* Compare the bytes and attributes (special, end of a text) of all tokens of both files. In a GGUF,
 * ids without a piece are unused. Files of BERT have no BOS and EOS. */
static int check_tokens(const struct tokenizers *x)
{
    const struct tokenizer *want = x->want, *got = x->got;
    const int n = tokenizer_n_vocab(want);
    const bool words = strcmp(tokenizer_kind(want), "wordpiece") == 0;
    for (int32_t id = 0; id < n; id++) {
        size_t n_want, n_got, n_piece;
        tokenizer_piece(want, id, &n_piece);
        if (n_piece == 0) continue; /* unused */
        const char *a = tokenizer_bytes(want, id, &n_want), *b = tokenizer_bytes(got, id, &n_got);
        if (n_want == n_got && memcmp(a, b, n_want) == 0 &&
            tokenizer_is_special(want, id) == tokenizer_is_special(got, id) &&
            (words || tokenizer_is_eog(want, id) == tokenizer_is_eog(got, id)))
            continue;
        return err_set(x->e, ERR_UNSUPPORTED, "%s: token %d (\"%.*s\") has no equal in the result",
                       x->path, (int)id, n_want > 40 ? 40 : (int)n_want, a);
    }
    if (!words &&
        (tokenizer_bos(want) != tokenizer_bos(got) || tokenizer_eos(want) != tokenizer_eos(got) ||
         tokenizer_adds_bos(want) != tokenizer_adds_bos(got)))
        return err_set(x->e, ERR_UNSUPPORTED, "%s: BOS and EOS have no equal in the result",
                       x->path);
    return 0;
}

/* Encode a text, or a pair of texts, by one tokenizer. */
static int encode(const struct tokenizer *t, const char *const text[2], const size_t n[2],
                  struct ids *out, struct err *e)
{
    int segment;
    if (!text[1]) return tokenizer_encode(t, text[0], n[0], ENCODE_ADD_SPECIAL, out, e);
    return tokenizer_encode_pair(t, text, n, -1, out, &segment, e);
}

/* Set *same to true if both tokenizers give equal ids to a text or a pair of texts. Set *id to the
 * first id of the source that differs. */
static int same_ids(const struct tokenizers *x, const char *const text[2], const size_t n[2],
                    bool *same, int32_t *id)
{
    struct ids a = {0}, b = {0};
    int rc = encode(x->want, text, n, &a, x->e);
    if (rc == 0) rc = encode(x->got, text, n, &b, x->e);
    size_t i = 0;
    while (i < a.n && i < b.n && a.v[i] == b.v[i]) i++;
    *same = i == a.n && i == b.n;
    *id = i < a.n ? a.v[i] : -1;
    vec_deinit(&a);
    vec_deinit(&b);
    return rc;
}

/* Check that a text gets equal ids. */
static int check_text(const struct tokenizers *x, const struct buf *text)
{
    bool same;
    int32_t id;
    const int rc =
        same_ids(x, (const char *[2]){text->data, NULL}, (size_t[2]){text->n, 0}, &same, &id);
    return rc || same
               ? rc
               : err_set(x->e, ERR_UNSUPPORTED,
                         "%s: the result encodes a text of the source's tokens to other ids, for "
                         "example instead of %d",
                         x->path, (int)id);
}

/* Compare the ids of texts that consist of the tokens in the order of their ids. These texts detect
 * merges whose order by a GGUF's scores differs from the folder's list. Words are joined with
 * spaces. Byte-level BPE is not compared, because its list of merges is copied. */
static int check_encoding(const struct tokenizers *x)
{
    enum { TEXT_BYTES = 4096 };
    struct buf text = {0};
    const int n = strcmp(tokenizer_kind(x->want), "bpe") == 0 ? 0 : tokenizer_n_vocab(x->want);
    const bool joins = tokenizer_joins(x->want);
    int rc = 0;
    for (int32_t id = 0; id < n && rc == 0; id++) {
        size_t n_byte;
        const char *p = tokenizer_bytes(x->want, id, &n_byte);
        /* the space that the tokenizer adds replaces this space */
        if (text.n == 0 && n_byte > 0 && *p == ' ') p++, n_byte--;
        const bool plain = n_byte > 1 || (n_byte == 1 && *p > 0);
        if (plain && !tokenizer_is_special(x->want, id) && id != tokenizer_unk(x->want)) {
            if (joins && text.n > 0) buf_add_char(&text, ' ');
            buf_add(&text, p, n_byte);
        }
        if (text.failed) rc = err_memory(x->e, "a text", text.n);
        if (rc == 0 && text.n > 0 && (text.n >= TEXT_BYTES || id == n - 1)) {
            rc = check_text(x, &text);
            buf_clear(&text);
        }
    }
    buf_deinit(&text);
    return rc;
}

/* Check some texts for normalizers and rules of white space that the result cannot express. Log the
 * first rare text with other ids. Return an error if the ids of the first text differ. That text
 * is plain. */
static int warn_texts(const struct tokenizers *x)
{
    static const char *const texts[][2] = {{"a b", NULL},
                                           {"a b", "c d"},
                                           {" a", NULL},
                                           {"a  b", NULL},
                                           {"a\nb", NULL},
                                           {"a\tb ", NULL},
                                           {"  a\n\n b", NULL},
                                           {"A\xC3\x80", NULL},
                                           {"e\xCC\x81", NULL},
                                           {"\xEF\xBC\xA1\xE2\x91\xA0", NULL},
                                           {"it's 12345, (x)!", NULL},
                                           {"\xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80", NULL}};
    bool same = true;
    int32_t id;
    int rc = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && rc == 0 && same; i++) {
        const char *const *text = texts[i];
        rc = same_ids(x, text, (size_t[2]){strlen(text[0]), text[1] ? strlen(text[1]) : 0}, &same,
                      &id);
        if (rc == 0 && !same && i == 0)
            rc = err_set(x->e, ERR_UNSUPPORTED, "%s: the result encodes plain text to other ids",
                         x->path);
        else if (rc == 0 && !same) {
            struct buf quoted = {0};
            json_put_text(&quoted, text[0], strlen(text[0]));
            log_warn("%s: the result cannot express all rules of white space or of characters; for "
                     "example, it encodes %s%s to other ids",
                     x->path, text[1] ? "a pair with " : "", quoted.failed ? "" : quoted.data);
            buf_deinit(&quoted);
        }
    }
    return rc;
}

void replace_path(struct err *e, int rc, const char *path, const char *by)
{
    struct err was = *e;
    char *at = strstr(was.text, path);
    if (!at) return;
    *at = 0;
    err_set(e, rc, "%s%s%s", was.text, by, at + strlen(path));
}

/* Replace the path of the unfinished result in a message by a name. */
static void hide_part(struct err *e, int rc, const char *path, const char *source)
{
    if (!strstr(e->text, path)) return;
    replace_path(e, rc, path, "the result");
    err_prefix(e, rc, "%s: has no equal", source);
}

int check_written(const char *path, const struct checkpoint *c, const struct convert_options *o,
                  struct err *e)
{
    struct checkpoint *made = NULL;
    struct tokenizer *want = NULL, *got = NULL;
    int rc = checkpoint_open(&made, path, e);
    if (rc == 0) rc = model_same_config(c, made, o->backend, e);
    if (rc == 0) rc = tokenizer_open(&want, c, e);
    if (rc == 0) rc = tokenizer_open(&got, made, e);
    const struct tokenizers x = {want, got, checkpoint_path(c), e};
    if (rc == 0) rc = check_tokens(&x);
    if (rc == 0) rc = check_encoding(&x);
    if (rc == 0) rc = warn_texts(&x);
    if (rc != 0) hide_part(e, rc, path, checkpoint_path(c));
    tokenizer_close(want);
    tokenizer_close(got);
    checkpoint_close(made);
    return rc;
}
