/* encode.c - tokenizer_encode: the stages in order.
 *
 *   text -> added tokens -> normalize -> added tokens again -> valid UTF-8 runs -> words (pretok)
 *        -> kind -> ids
 *
 * Threads share a tokenizer without locks, because all scratch is in the call's struct encoder. */
#include "token_impl.h"
#include "base/cancel.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

bool encoder_allows(const struct encoder *en, int32_t id)
{
    return !en->t->piece[id].special || (en->flags & ENCODE_PARSE_SPECIAL);
}

bool encoder_allows_piece(const struct encoder *en, int32_t id)
{
    return encoder_allows(en, id) || id == en->t->unk;
}

/* Append an id. Return false if memory is exhausted. */
bool encoder_emit(struct encoder *en, int32_t id)
{
    en->after_unk = false;
    return vec_push(en->out, id);
}

/* Emit the pieces of single bytes, which all exist. */
static bool emit_bytes(struct encoder *en, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!encoder_emit(en, en->t->byte_id[(uint8_t)p[i]])) return false;
    return true;
}

/* Emit a character without a piece: as bytes, or as UNK if bytes have no pieces. With fuse_unk,
 * adjacent unknown characters give one UNK. */
bool encoder_emit_unknown(struct encoder *en, const char *p, size_t n)
{
    const struct tokenizer *t = en->t;
    bool as_bytes = t->opt.byte_fallback;
    for (size_t i = 0; i < n && as_bytes; i++) as_bytes = t->byte_id[(uint8_t)p[i]] >= 0;
    if (as_bytes) return emit_bytes(en, p, n);
    if (t->unk < 0 || (en->after_unk && t->opt.fuse_unk)) return true;
    if (!encoder_emit(en, t->unk)) return false;
    en->after_unk = true;
    return true;
}

/* Encode valid UTF-8 runs with the patterns. A run of other bytes is a separate word, because
 * patterns require valid UTF-8. A kind of whole texts has no patterns. */
static bool encode_valid_runs(struct encoder *en, struct pretok_text s)
{
    if (en->t->kind->whole) return en->t->kind->encode(en, s.p, s.n);
    for (size_t i = 0; i < s.n;) {
        size_t len = uni_valid_len(s.p + i, s.n - i), begin = i + len;
        if (!pretok_run(en, 0, (struct pretok_text){s.p + i, len, s.first && i == 0})) return false;
        uint32_t cp = UNI_BAD;
        for (i = begin; i < s.n && (uni_next(s.p + i, s.n - i, &cp), cp == UNI_BAD); i++) {
        }
        if (i > begin && !en->t->kind->encode(en, s.p + begin, i - begin)) return false;
    }
    return true;
}

/* Encode the text between two added tokens. en->seam is true if the text continues an earlier text,
 * so that no space precedes the text. */
static bool encode_text(struct encoder *en, struct pretok_text s)
{
    const struct tokenizer *t = en->t;
    if (s.n == 0) return true;
    en->seam = s.first && en->flags & ENCODE_CONTINUE;
    if (t->norm.n) {
        if (!normalize(t, s.p, s.n, en->seam, &en->text[0], &en->text[1])) return false;
        s.p = en->text[0].data;
        s.n = en->text[0].n;
    }
    if (s.n == 0) return true;
    if (t->normalized.trie.n_node) return added_split(en, &t->normalized, s, encode_valid_runs);
    return encode_valid_runs(en, s);
}

static bool add_ids(struct ids *out, const int32_t *id, int n)
{
    for (int i = 0; i < n; i++)
        if (!vec_push(out, id[i])) return false;
    return true;
}

/* Remove the added BOS if the text already begins with a BOS, for example from a chat template. A
 * tokenizer that also ends a text (CLS and SEP) is not one of prompts. */
static void drop_double_bos(const struct tokenizer *t, struct ids *out, size_t body)
{
    if (t->n_prefix == 0 || t->n_suffix > 0 || body == out->n) return;
    int32_t id = out->v[body];
    if (id != t->prefix[t->n_prefix - 1] || !t->piece[id].special) return;
    memmove(out->v + body, out->v + body + 1, (out->n - body - 1) * sizeof *out->v);
    out->n--;
}

static void encoder_deinit(struct encoder *en)
{
    regex_work_close(en->regex);
    merge_work_deinit(&en->merge);
    buf_deinit(&en->text[0]);
    buf_deinit(&en->text[1]);
    free(en->lattice);
}

/* Append to the ids in `out`, which is unchanged after an error. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                     struct ids *out, struct err *e)
{
    if (n > INT32_MAX)
        return err_set(e, ERR_LIMIT, "the text has %zu bytes, more than %d", n, INT32_MAX);
    struct encoder en = {.t = t, .flags = flags, .out = out, .regex = regex_work_open()};
    size_t n_before = out->n;
    bool add = flags & ENCODE_ADD_SPECIAL;
    bool ok = en.regex && (!add || add_ids(out, t->prefix, t->n_prefix));
    size_t body = out->n;
    ok = ok && added_split(&en, &t->raw, (struct pretok_text){text, n, true}, encode_text);
    if (ok && add && !(flags & ENCODE_ADD_ALWAYS)) drop_double_bos(t, out, body);
    ok = ok && (!add || add_ids(out, t->suffix, t->n_suffix));
    bool too_long = en.text[0].limited || en.text[1].limited;
    encoder_deinit(&en);
    if (ok && !cancelled()) return 0;
    out->n = n_before;
    if (cancelled()) return err_cancelled(e);
    if (too_long)
        return err_set(e, ERR_LIMIT, "the tokenizer's normalizer makes the text too long");
    return err_memory(e, "the ids of a text", n);
}

/* ---- bounds that do not depend on the text ---- */

/* maximum length of a text before composition, as a multiple of its length afterwards */
enum { NFC_SHRINK = 4 };

/* Return true if the step never makes a text shorter. */
static bool only_grows(const struct norm_step *s)
{
    if (s->run == norm_sentencepiece) return !(s->flags & SP_TRIM) && !s->charsmap;
    if (s->run == norm_replace) return !s->regex && s->n_b >= s->n_a;
    return s->run == norm_prepend;
}

/* Return the largest factor by which normalization may reduce the length of a text; 0: no limit. */
static size_t shrink_factor(const struct tokenizer *t)
{
    size_t most = 1;
    for (size_t i = 0; i < t->norm.n; i++)
        if (t->norm.v[i].run == norm_find("NFC"))
            most *= NFC_SHRINK;
        else if (!only_grows(&t->norm.v[i]))
            return 0;
    return most;
}

/* Return true if a token contains every byte of a normalized text, alone or with adjacent bytes. */
static bool keeps_bytes(const struct tokenizer *t)
{
    for (int i = 0; i < 256; i++)
        if (t->byte_id[i] < 0) return false;
    for (size_t i = 0; i < t->pretok.n; i++)
        if (t->pretok.v[i].kind == PRETOK_SPLIT && t->pretok.v[i].how == SPLIT_REMOVED)
            return false;
    for (size_t i = 0; i < t->n_piece; i++)
        if (t->piece[i].match & (MATCH_LSTRIP | MATCH_RSTRIP)) return false;
    return t->opt.byte_level || t->opt.raw_bytes || t->opt.byte_fallback;
}

/* Return n / shrink / longest. A token covers at most `longest` bytes of normalized text, and
 * normalization shrinks by at most `shrink`. */
size_t tokenizer_n_least(const struct tokenizer *t, size_t n)
{
    size_t longest = 1, shrink = shrink_factor(t);
    if (shrink == 0 || !keeps_bytes(t)) return 0;
    for (size_t i = 0; i < t->n_piece; i++)
        if (t->piece[i].n_text > longest) longest = t->piece[i].n_text;
    return n / shrink / longest;
}
