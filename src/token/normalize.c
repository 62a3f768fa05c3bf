/* normalize.c - normalization of the text between added tokens, before it is split into words.
 *
 * A tokenizer has a list of steps (norms.def). Each step appends its result to an empty buf. Text
 * may contain bytes that are not UTF-8. A step copies these bytes. Only SentencePiece's normalizer
 * replaces them, like the original implementation.
 *
 *   text --step 1--> buf --step 2--> spare --step 3--> buf ...     two bufs, swapped (normalize)
 *
 * A step returns false only if memory is exhausted or the result exceeds the limit of normalize(),
 * because every input is legal. */
#include "token_impl.h"

#include "base/cancel.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Return a pointer that is valid until the next step is added. NULL if memory is exhausted or there
 * are too many steps. */
struct norm_step *tokenizer_add_norm(struct tokenizer *t, norm_fn *run)
{
    struct norm_step s = {.run = run};
    if (t->norm.n >= NORM_STEPS_MAX || !vec_push(&t->norm, s)) return NULL;
    return &t->norm.v[t->norm.n - 1];
}

/* Iterate over the characters of p[0, n). Set len and cp to the character's length and code point.
 * cp is UNI_BAD for an invalid byte. */
#define EACH_CHAR(p, n, i, len, cp)                                                                \
    for (size_t i = 0, len = 0; i < (n) && (len = (size_t)uni_next((p) + i, (n)-i, &cp)) > 0;      \
         i += len)

/* ---- forms and case ---- */

static bool norm_nfc(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    (void)s;
    return uni_normalize(out, p, n, UNI_NFC);
}

static bool norm_nfd(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    (void)s;
    return uni_normalize(out, p, n, UNI_NFD);
}

static bool norm_nfkc(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    (void)s;
    return uni_normalize(out, p, n, UNI_NFKC);
}

static bool norm_nfkd(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    (void)s;
    return uni_normalize(out, p, n, UNI_NFKD);
}

/* Convert to lower case by character, without the context rules of Unicode (final sigma), as in
 * Hugging Face. */
static bool norm_lowercase(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    uint32_t cp;
    (void)s;
    EACH_CHAR(p, n, i, len, cp)
    {
        if (cp == UNI_BAD)
            buf_add(out, p + i, len);
        else
            uni_add_lower(out, cp);
    }
    return !out->failed;
}

/* Remove all marks. An earlier step (NFD) has usually decomposed the text. */
static bool norm_strip_accents(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    uint32_t cp;
    (void)s;
    EACH_CHAR(p, n, i, len, cp)
    {
        if (!uni_mark(cp)) buf_add(out, p + i, len);
    }
    return !out->failed;
}

/* Remove blanks at the ends of the text that the flags select. */
static bool norm_strip(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    uint32_t cp;
    int len;
    while ((s->flags & STRIP_LEFT) && n && (len = uni_next(p, n, &cp)) && uni_space(cp))
        p += len, n -= (size_t)len;
    while ((s->flags & STRIP_RIGHT) && n && (len = uni_prev(p, n, &cp)) && uni_space(cp))
        n -= (size_t)len;
    buf_add(out, p, n);
    return !out->failed;
}

/* ---- replacing ---- */

/* Replace the matches in valid UTF-8. After an empty match the search continues one character
 * later, so that the loop ends. */
static void replace_in_valid(const struct norm_step *s, struct regex_work *w, const char *p,
                             size_t n, struct buf *out)
{
    size_t done = 0, from = 0, begin, end;
    while (from <= n && regex_next(s->regex, w, p, n, from, &begin, &end)) {
        buf_add(out, p + done, begin - done);
        buf_add(out, s->b, s->n_b);
        uint32_t cp;
        done = from = end;
        if (begin == end) from += from < n ? (size_t)uni_next(p + from, n - from, &cp) : 1;
    }
    buf_add(out, p + done, n - done);
}

/* Replace the matches of a pattern. The regex engine requires valid UTF-8, so invalid bytes between
 * valid runs are copied. */
static bool replace_matches(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    struct regex_work *w = regex_work_open();
    if (!w) return false;
    for (size_t i = 0; i < n;) {
        size_t len = uni_valid_len(p + i, n - i);
        if (len)
            replace_in_valid(s, w, p + i, len, out);
        else
            buf_add_char(out, p[i++]);
        i += len;
    }
    out->failed |= regex_work_failed(w);
    regex_work_close(w);
    return !out->failed;
}

/* Search a text by bytes_find. Matches do not overlap. */
bool norm_replace(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    if (s->regex) return replace_matches(s, p, n, out);
    while (s->n_a && n) {
        const char *hit = bytes_find(p, n, s->a, s->n_a);
        if (!hit) break;
        buf_add(out, p, (size_t)(hit - p));
        buf_add(out, s->b, s->n_b);
        n -= (size_t)(hit - p) + s->n_a;
        p = hit + s->n_a;
    }
    buf_add(out, p, n);
    return !out->failed;
}

/* Leave an empty text empty, as in Hugging Face's code. */
bool norm_prepend(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    if (n) buf_add(out, s->a, s->n_a);
    buf_add(out, p, n);
    return !out->failed;
}

/* ---- BERT ---- */

/* Return true for control characters, except tab and line breaks, which become blanks. */
static bool bert_removes(uint32_t cp)
{
    if (cp == '\t' || cp == '\n' || cp == '\r') return false;
    return cp == 0 || cp == 0xFFFD || cp == UNI_BAD || uni_other(cp);
}

/* Clean a text as the flags require. Put blanks around Chinese characters, so that each character
 * becomes a word. */
static void bert_clean(unsigned flags, const char *p, size_t n, struct buf *out)
{
    uint32_t cp;
    EACH_CHAR(p, n, i, len, cp)
    {
        if ((flags & BERT_CLEAN) && bert_removes(cp)) continue;
        bool spaced = (flags & BERT_CJK) && uni_cjk(cp);
        if (spaced) buf_add_char(out, ' ');
        if ((flags & BERT_CLEAN) && uni_space(cp))
            buf_add_char(out, ' ');
        else
            buf_add(out, p + i, len);
        if (spaced) buf_add_char(out, ' ');
    }
}

/* Decompose the text, then remove accents. The result stays decomposed, as in BERT's reference
 * code. */
static bool bert_strip(const char *p, size_t n, struct buf *out)
{
    struct buf nfd = {0};
    uint32_t cp;
    bool ok = uni_normalize(&nfd, p, n, UNI_NFD);
    EACH_CHAR(nfd.data, ok ? nfd.n : 0, i, len, cp)
    {
        if (cp == UNI_BAD || !uni_mark_nonspacing(cp)) buf_add(out, nfd.data + i, len);
    }
    buf_deinit(&nfd);
    return ok && !out->failed;
}

/* Apply the steps in the order of BERT's reference code: clean, strip, lower. */
bool norm_bert(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    struct buf clean = {0}, bare = {0};
    bert_clean(s->flags, p, n, &clean);
    bool ok = !clean.failed;
    const struct buf *from = &clean;
    if (ok && (s->flags & BERT_STRIP)) {
        ok = bert_strip(clean.data, clean.n, &bare);
        from = &bare;
    }
    if (ok && (s->flags & BERT_LOWER))
        ok = norm_lowercase(s, from->data, from->n, out);
    else if (ok)
        buf_add(out, from->data, from->n);
    buf_deinit(&clean);
    buf_deinit(&bare);
    return ok && !out->failed;
}

/* ---- SentencePiece ---- */

/* Remove control characters. Replace separators and invisible characters by spaces. */
static bool norm_nmt(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    uint32_t cp;
    (void)s;
    EACH_CHAR(p, n, i, len, cp)
    {
        if ((cp >= 1 && cp <= 8) || cp == 0xB || (cp >= 0xE && cp <= 0x1F) || cp == 0x7F ||
            cp == 0x8F || cp == 0x9F)
            continue;
        bool space = cp == 9 || cp == 10 || cp == 12 || cp == 13 || cp == 0x1680 ||
                     (cp >= 0x200B && cp <= 0x200F) || cp == 0x2028 || cp == 0x2029 ||
                     cp == 0x2581 || cp == 0xFEFF || cp == 0xFFFD;
        if (space)
            buf_add_char(out, ' ');
        else
            buf_add(out, p + i, len);
    }
    return !out->failed;
}

/* Apply the rules to a short grapheme cluster, or to each character of a long cluster, as Hugging
 * Face does. */
static void precompiled_cluster(const struct charsmap *m, const char *p, size_t n, struct buf *out)
{
    const char *to;
    size_t n_to;
    if (n < 6 && charsmap_first(m, p, n, &to, &n_to)) {
        buf_add(out, to, n_to);
        return;
    }
    uint32_t cp;
    EACH_CHAR(p, n, i, len, cp)
    {
        if (charsmap_first(m, p + i, len, &to, &n_to))
            buf_add(out, to, n_to);
        else
            buf_add(out, p + i, len);
    }
}

/* Apply the map to grapheme clusters. `state` is utf8proc's memory of emoji sequences and flags. */
static bool norm_precompiled(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    uint32_t cp, former = UNI_BAD;
    utf8proc_int32_t state = 0;
    size_t begin = 0;
    EACH_CHAR(p, n, i, len, cp)
    {
        bool breaks = i > 0 && (cp == UNI_BAD || former == UNI_BAD ||
                                utf8proc_grapheme_break_stateful((utf8proc_int32_t)former,
                                                                 (utf8proc_int32_t)cp, &state));
        if (breaks) {
            precompiled_cluster(s->charsmap, p + begin, i - begin, out);
            begin = i;
        }
        if (cp == UNI_BAD) state = 0;
        former = cp;
    }
    precompiled_cluster(s->charsmap, p + begin, n - begin, out);
    return !out->failed;
}

/* Find the next unit of text under SentencePiece's rules. Return the number of consumed bytes. Set
 * *to to the unit's replacement. */
static size_t sp_unit(const struct norm_step *s, const char *p, size_t n, const char **to,
                      size_t *n_to)
{
    int32_t id;
    size_t len = s->verbatim ? trie_longest(s->verbatim, p, n, &id) : 0;
    if (len == 0 && s->charsmap) {
        len = charsmap_longest(s->charsmap, p, n, to, n_to);
        if (len) return len;
    }
    uint32_t cp = 0;
    if (len == 0) len = (size_t)uni_next(p, n, &cp);
    bool bad = cp == UNI_BAD && !(s->flags & SP_KEEP);
    *to = bad ? "\xEF\xBF\xBD" : p;
    *n_to = bad ? 3 : len;
    return len;
}

/* Append a text, with "▁" for each blank if SP_ESCAPE is set. */
static void sp_add(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == ' ' && (s->flags & SP_ESCAPE))
            buf_add_text(out, SPACE_MARK);
        else
            buf_add_char(out, p[i]);
    }
}

/* Remove blanks at the end of the result, in their final spelling. */
static void sp_trim_end(const struct norm_step *s, struct buf *out)
{
    const char *space = s->flags & SP_ESCAPE ? SPACE_MARK : " ";
    size_t len = strlen(space);
    while (text_n_ends_with(out->data, out->n, space)) out->n -= len;
}

/* Normalize a text. SP_TRIM removes leading and trailing blanks, and replaces a run of blanks by
 * one blank. A replacement may be a blank, so the function examines the replacement instead of the
 * source. */
bool norm_sentencepiece(const struct norm_step *s, const char *p, size_t n, struct buf *out)
{
    const char *to;
    size_t n_to, len;
    bool trim = s->flags & SP_TRIM;
    while (trim && n && (len = sp_unit(s, p, n, &to, &n_to)) && n_to == 1 && to[0] == ' ')
        p += len, n -= len;
    if (n == 0) return true;
    if (s->flags & SP_PREFIX) sp_add(s, " ", 1, out);
    bool after_space = trim;
    for (; n; p += len, n -= len) {
        len = sp_unit(s, p, n, &to, &n_to);
        while (after_space && n_to && to[0] == ' ') to++, n_to--;
        sp_add(s, to, n_to, out);
        if (n_to) after_space = trim && to[n_to - 1] == ' ';
    }
    if (trim) sp_trim_end(s, out);
    return !out->failed;
}

/* ---- the list ---- */

/* Return the step of norms.def with this name; NULL if none. */
norm_fn *norm_find(const char *name)
{
    static const struct {
        const char *name; /* static */
        norm_fn *run;
    } table[] = {
#define NORM(id, fn) {id, fn},
#include "norms.def"
#undef NORM
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0) return table[i].run;
    return NULL;
}

/* maximum length of a result: NORM_GROWTH times the text's length, and NORM_ROOM bytes. NFKD makes
 * a character of 3 bytes into one of 33 bytes, and the byte level doubles a text. */
enum { NORM_GROWTH = 32, NORM_ROOM = 4096 };

/* Run all steps. The text continues an earlier text if `seam` is true, and steps put no blank
 * before the text. The steps of a hostile tokenizer could multiply the text, so the length is
 * limited. */
bool normalize(const struct tokenizer *t, const char *p, size_t n, bool seam, struct buf *out,
               struct buf *spare)
{
    buf_clear(out);
    out->max = spare->max = n * NORM_GROWTH + NORM_ROOM;
    if (t->norm.n == 0) buf_add(out, p, n);
    for (size_t i = 0; i < t->norm.n; i++) {
        struct norm_step step = t->norm.v[i];
        if (seam && step.run == norm_prepend) step.n_a = 0;
        if (seam && step.run == norm_sentencepiece) step.flags &= ~SP_PREFIX;
        buf_clear(spare);
        if (cancelled() || !step.run(&step, p, n, spare)) return false;
        struct buf was = *out;
        *out = *spare;
        *spare = was;
        p = out->data;
        n = out->n;
    }
    return !out->failed;
}
