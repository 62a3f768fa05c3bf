/* pretok.c - split text into words. No merge crosses the boundary of a word.
 *
 * A tokenizer has a list of steps. Each step passes the parts of a span to the next step. The last
 * step passes the parts to the kind's encode. Therefore text is processed part by part, without a
 * list of words. The parts of a SPLIT step are its pattern's matches and the text between matches,
 * combined by one of Hugging Face's five behaviours. */
#include "token_impl.h"

#include "base/cancel.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

enum family_flag {
    FAMILY_WHOLE = 1,      /* merges are ignored for a word that is a piece (ignore_merges) */
    FAMILY_BOS = 2,        /* BOS is added unless the file disables BOS */
    FAMILY_SPACE_MARK = 4, /* spaces are spelled "▁", pieces are in plain UTF-8 */
    FAMILY_NEWLINES = 8,   /* merges are ignored for a word of line feeds that is a piece */
};
enum { FAMILY_PATTERNS_MAX = 6 };

/* Placeholder for a pattern that splits a run of digits into groups of three from its end. The
 * pattern itself would look ahead over all digits at every group. */
#define DIGITS_FROM_RIGHT "\001"
/* Placeholder for a pattern that splits a run of digits into groups of three from its end and
 * requires a word boundary after the run. */
#define DIGITS_TO_BOUNDARY "\002"

/* Rows of pretok.def. All pointers are static. */
static const struct pretok_family {
    const char *name;
    unsigned flags;
    const char *pattern[FAMILY_PATTERNS_MAX];
} families[] = {
#define FAMILY(id, flag, ...) {.name = (id), .flags = (flag), .pattern = {__VA_ARGS__}},
#include "pretok.def"
#undef FAMILY
};

/* Return a pointer that is valid until the next step is added. */
struct pretok_step *tokenizer_add_pretok(struct tokenizer *t, enum pretok_kind kind)
{
    struct pretok_step s = {.kind = kind};
    return vec_push(&t->pretok, s) ? &t->pretok.v[t->pretok.n - 1] : NULL;
}

/* Append a step, which owns the compiled pattern. ERR_UNSUPPORTED if the pattern cannot be
 * translated. */
int tokenizer_add_split(struct tokenizer *t, const char *pattern, size_t n, enum split_how how,
                        struct err *e)
{
    struct regex *r;
    int rc = regex_open(&r, pattern, n, e);
    if (rc != 0) return rc;
    struct pretok_step *s = tokenizer_add_pretok(t, PRETOK_SPLIT);
    if (!s) {
        regex_close(r);
        return err_memory(e, "a pre-tokenizer step", sizeof *s);
    }
    s->regex = r;
    s->how = how;
    s->pattern = arena_text(&t->arena, pattern, n);
    return s->pattern ? 0 : err_memory(e, "a pattern", n);
}

/* Add a step for one pattern of a family. The pattern is a split with matches as parts, or one of
 * the two placeholders for digits. */
static int add_family_step(struct tokenizer *t, const char *pattern, struct err *e)
{
    bool boundary = strcmp(pattern, DIGITS_TO_BOUNDARY) == 0;
    if (!boundary && strcmp(pattern, DIGITS_FROM_RIGHT) != 0)
        return tokenizer_add_split(t, pattern, strlen(pattern), SPLIT_ISOLATED, e);
    struct pretok_step *s = tokenizer_add_pretok(t, PRETOK_DIGITS);
    if (!s) return err_memory(e, "a pre-tokenizer step", sizeof *s);
    s->invert = boundary;
    return 0;
}

bool is_family(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].name, name) == 0) return true;
    return false;
}

/* Add the steps and options of a family. ERR_UNSUPPORTED if the name is unknown. A wrong pattern
 * would give wrong ids without an error. */
int tokenizer_add_family(struct tokenizer *t, const char *name, struct err *e)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct pretok_family *f = &families[i];
        if (strcmp(f->name, name) != 0) continue;
        t->opt.ignore_merges |= (f->flags & FAMILY_WHOLE) != 0;
        t->opt.add_bos |= (f->flags & FAMILY_BOS) != 0;
        t->opt.newline_words |= (f->flags & FAMILY_NEWLINES) != 0;
        t->opt.space_mark |= (f->flags & FAMILY_SPACE_MARK) != 0;
        for (int k = 0; k < FAMILY_PATTERNS_MAX && f->pattern[k]; k++) {
            int rc = add_family_step(t, f->pattern[k], e);
            if (rc != 0) return rc;
        }
        return 0;
    }
    return err_set(e, ERR_UNSUPPORTED, "pre-tokenizer \"%.60s\": not supported yet", name);
}

/* Return true if the step is the step of a family's pattern. */
static bool is_step(const struct pretok_step *s, const char *pattern)
{
    if (strcmp(pattern, DIGITS_FROM_RIGHT) == 0) return s->kind == PRETOK_DIGITS && !s->invert;
    if (strcmp(pattern, DIGITS_TO_BOUNDARY) == 0) return s->kind == PRETOK_DIGITS && s->invert;
    return s->kind == PRETOK_SPLIT && s->how == SPLIT_ISOLATED && !s->invert && !s->mapped &&
           strcmp(s->pattern, pattern) == 0;
}

const char *family_pattern(const char *name, int k)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0] && k < FAMILY_PATTERNS_MAX; i++) {
        if (strcmp(families[i].name, name) != 0) continue;
        const char *p = families[i].pattern[k];
        return p && (unsigned char)*p < 3 ? "" : p;
    }
    return NULL;
}

/* Return true if the steps and options of t are those of the family. */
static bool has_family(const struct tokenizer *t, const struct pretok_family *f)
{
    size_t k = 0;
    while (k < t->pretok.n && k < FAMILY_PATTERNS_MAX && f->pattern[k] &&
           is_step(&t->pretok.v[k], f->pattern[k]))
        k++;
    if (k < t->pretok.n || (k < FAMILY_PATTERNS_MAX && f->pattern[k])) return false;
    return ((f->flags & FAMILY_WHOLE) != 0) == t->opt.ignore_merges &&
           !(f->flags & (FAMILY_SPACE_MARK | FAMILY_NEWLINES));
}

const char *tokenizer_family(const struct tokenizer *t)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (has_family(t, &families[i])) return families[i].name;
    return NULL;
}

bool tokenizer_is_family(const struct tokenizer *t, const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].name, name) == 0) return has_family(t, &families[i]);
    return false;
}

/* ---- splitting ---- */

/* State of a split into matches and the text between matches, in order. `how` defines the
 * combination of matches and text into parts. Pointers are borrowed for the split. */
struct splitter {
    struct encoder *en;
    struct pretok_text whole;
    enum split_how how;  /* behaviour of the step */
    int next;            /* index of the step that receives the parts */
    size_t begin, end;   /* pending part, which may still grow */
    bool held, held_hit; /* true: a part that ends with a match is pending */
    /* text in GPT-2's alphabet if offsets refer to it; NULL if offsets refer to the raw text */
    const char *mapped;
    size_t mapped_at, raw_at; /* offsets of one position in the mapped and in the raw text */
};

/* Convert an offset in GPT-2's alphabet to a raw offset. Each raw byte is one character of the
 * alphabet. The offsets of successive calls must be ascending. */
static size_t raw_offset(struct splitter *s, size_t mapped)
{
    for (; s->mapped_at < mapped; s->mapped_at++)
        s->raw_at += (s->mapped[s->mapped_at] & 0xC0) != 0x80;
    return s->raw_at;
}

/* Pass a part to the next step. Empty parts are omitted. */
static bool part_out(struct splitter *s, size_t begin, size_t end)
{
    if (begin == end) return true;
    if (s->mapped) {
        begin = raw_offset(s, begin);
        end = raw_offset(s, end);
    }
    return pretok_run(
        s->en, s->next,
        (struct pretok_text){s->whole.p + begin, end - begin, s->whole.first && begin == 0});
}

/* Pass the pending part to the receiver, if any. */
static bool pass_pending(struct splitter *s)
{
    bool was = s->held;
    s->held = false;
    return !was || part_out(s, s->begin, s->end);
}

/* Return true if the next span belongs to the pending part. hit: true if the span is a match, false
 * if it is text between matches. */
static bool joins(const struct splitter *s, bool hit)
{
    if (!s->held) return false;
    switch (s->how) {
    case SPLIT_CONTIGUOUS:
        return s->held_hit == hit;
    case SPLIT_WITH_PREVIOUS:
        return hit && !s->held_hit;
    case SPLIT_WITH_NEXT:
        return !hit && s->held_hit;
    default:
        return false;
    }
}

/* Process the next match or the text between two matches. [begin, end) follows the previous call's
 * range. Only the three combining behaviours keep a pending part. */
static bool stretch(struct splitter *s, size_t begin, size_t end, bool hit)
{
    if (s->how == SPLIT_ISOLATED) return part_out(s, begin, end);
    if (s->how == SPLIT_REMOVED) return hit || part_out(s, begin, end);
    if (joins(s, hit)) {
        s->end = end;
        s->held_hit = hit;
        return true;
    }
    if (!pass_pending(s)) return false;
    s->held = true;
    s->held_hit = hit;
    s->begin = begin;
    s->end = end;
    return true;
}

static size_t char_len(const char *p, size_t n)
{
    uint32_t cp;
    return (size_t)uni_next(p, n, &cp);
}

/* Split p[0, n) by the matches of a pattern. Matches and the text between matches are exchanged if
 * `invert` is true. */
static bool split_text(struct splitter *s, const struct pretok_step *step, const char *p, size_t n)
{
    size_t done = 0, from = 0, begin, end;
    while (from <= n && regex_next(step->regex, s->en->regex, p, n, from, &begin, &end)) {
        if (begin > done && !stretch(s, done, begin, step->invert)) return false;
        if (!stretch(s, begin, end, !step->invert)) return false;
        done = end;
        from = end;
        if (begin == end) from += from < n ? char_len(p + from, n - from) : 1;
    }
    if (regex_work_failed(s->en->regex)) return false;
    if (done < n && !stretch(s, done, n, step->invert)) return false;
    return pass_pending(s);
}

/* Run a SPLIT step. The pattern is written for GPT-2's alphabet if `mapped` is true: convert the
 * text to the alphabet, and convert the offsets of matches back. */
static bool run_split(struct encoder *en, const struct pretok_step *step, int next,
                      struct pretok_text w)
{
    struct splitter s = {.en = en, .whole = w, .how = step->how, .next = next};
    if (!step->mapped) return split_text(&s, step, w.p, w.n);
    struct buf b = {0};
    for (size_t i = 0; i < w.n; i++) alphabet_add(&b, (uint8_t)w.p[i]);
    s.mapped = b.data;
    bool ok = !b.failed && split_text(&s, step, b.data, b.n);
    buf_deinit(&b);
    return ok;
}

/* ---- the other steps ---- */

/* Return the number of bytes of the digits at p, and set *n_digit to their number. */
static size_t digits_len(const char *p, size_t n, size_t *n_digit)
{
    size_t i = 0;
    *n_digit = 0;
    while (i < n) {
        uint32_t cp;
        int len = uni_next(p + i, n - i, &cp);
        if (!uni_digit(cp)) break;
        i += (size_t)len;
        ++*n_digit;
    }
    return i;
}

/* Split one run of digits into groups of three, counted from its end. */
static bool digit_groups(struct splitter *s, size_t begin, size_t end, size_t n_digit)
{
    size_t left = n_digit, i = begin;
    while (left > 0) {
        size_t take = left % 3 ? left % 3 : 3, from = i;
        for (size_t k = 0; k < take; k++) i += char_len(s->whole.p + i, end - i);
        if (!part_out(s, from, i)) return false;
        left -= take;
    }
    return true;
}

/* Run a DIGITS step. Do not split a run of digits before a letter if `invert` is true: "123abc"
 * stays whole. */
static bool split_digits(struct encoder *en, const struct pretok_step *step, int next,
                         struct pretok_text w)
{
    struct splitter s = {.en = en, .whole = w, .next = next};
    size_t done = 0;
    for (size_t i = 0; i < w.n;) {
        size_t n_digit, len = digits_len(w.p + i, w.n - i, &n_digit);
        uint32_t after = ' ';
        if (len && i + len < w.n) uni_next(w.p + i + len, w.n - i - len, &after);
        if (len == 0 || (step->invert && uni_word(after))) {
            i += len ? len : char_len(w.p + i, w.n - i);
            continue;
        }
        if (!part_out(&s, done, i) || !digit_groups(&s, i, i + len, n_digit)) return false;
        done = i += len;
    }
    return part_out(&s, done, w.n);
}

/* Begin a part at each "▁" except at a "▁" at the start. */
static bool cut_at_marks(struct encoder *en, int next, struct pretok_text w)
{
    size_t begin = 0;
    for (size_t i = SPACE_MARK_BYTES; i + SPACE_MARK_BYTES <= w.n; i++) {
        if (memcmp(w.p + i, SPACE_MARK, SPACE_MARK_BYTES) != 0) continue;
        if (!pretok_run(en, next,
                        (struct pretok_text){w.p + begin, i - begin, w.first && begin == 0}))
            return false;
        begin = i;
        i += SPACE_MARK_BYTES - 1;
    }
    return pretok_run(en, next,
                      (struct pretok_text){w.p + begin, w.n - begin, w.first && begin == 0});
}

/* Replace blanks by "▁", and put a "▁" before the text as `always` or `first` require. */
static bool run_metaspace(struct encoder *en, const struct pretok_step *step, int next,
                          struct pretok_text w)
{
    struct buf b = {0};
    bool marked = w.p[0] == ' ' ||
                  (w.n >= SPACE_MARK_BYTES && memcmp(w.p, SPACE_MARK, SPACE_MARK_BYTES) == 0);
    bool seam = en->seam && w.first;
    if (!marked && !seam && (step->always || (step->first && w.first)))
        buf_add_text(&b, SPACE_MARK);
    for (size_t i = 0; i < w.n;) {
        const char *space = memchr(w.p + i, ' ', w.n - i);
        size_t end = space ? (size_t)(space - w.p) : w.n;
        buf_add(&b, w.p + i, end - i);
        if (space) buf_add_text(&b, SPACE_MARK);
        i = end + (space != NULL);
    }
    struct pretok_text made = {b.data, b.n, w.first};
    bool ok = !b.failed && (step->cut ? cut_at_marks(en, next, made) : pretok_run(en, next, made));
    buf_deinit(&b);
    return ok;
}

/* Put a blank before a text that does not begin with a blank and does not continue an earlier
 * text. */
static bool run_space(struct encoder *en, int next, struct pretok_text w)
{
    if (w.p[0] == ' ' || (en->seam && w.first)) return pretok_run(en, next, w);
    struct buf b = {0};
    buf_add_char(&b, ' ');
    buf_add(&b, w.p, w.n);
    bool ok = !b.failed && pretok_run(en, next, (struct pretok_text){b.data, b.n, w.first});
    buf_deinit(&b);
    return ok;
}

/* Run the steps from number `step` on by recursion, and the kind's encode after the last step. The
 * depth of the recursion is the number of steps. */
bool pretok_run(struct encoder *en, int step, struct pretok_text s)
{
    const struct tokenizer *t = en->t;
    CHECK(step >= 0 && (size_t)step <= t->pretok.n, "step %d of %zu", step, t->pretok.n);
    if (s.n == 0) return true;
    if (cancelled()) return false;
    if ((size_t)step == t->pretok.n) return t->kind->encode(en, s.p, s.n);
    const struct pretok_step *p = &t->pretok.v[step];
    switch (p->kind) {
    case PRETOK_SPLIT:
        return run_split(en, p, step + 1, s);
    case PRETOK_METASPACE:
        return run_metaspace(en, p, step + 1, s);
    case PRETOK_SPACE:
        return run_space(en, step + 1, s);
    case PRETOK_DIGITS:
        return split_digits(en, p, step + 1, s);
    }
    return false;
}
