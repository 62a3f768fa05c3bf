/* regex.c - pre-tokenizer patterns in the syntax of Oniguruma and Rust, matched by PCRE2 with JIT.
 *
 * The translation removes the differences between the dialects that would change tokens:
 *   \s          is Unicode White_Space; PCRE2's also has U+180E
 *   \w          follows Alphabetic
 *   [...]       may contain classes and intersections
 *   $           also matches before every line feed
 * No text is dropped if a limit is exceeded. The interpreter repeats a match that exceeds the JIT's
 * stack. A part of the text becomes one match if matching exceeds the match limit.
 *
 * Measured on one thread: 70 to 88 MB/s of English text for the gpt-2, llama-3, o200k and
 * deepseek-v3 patterns. The rate for 1 MB of one character is over 100 MB/s. There are no
 * hand-written scanners, because matching takes at most half of the encoding time. */
#include "token_impl.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
    PATTERN_BYTES_MAX = 1 << 15,
    CLASS_DEPTH_MAX = 16,
    MATCH_STEPS_MAX = 4000000, /* backtracking steps per match */
    HEAP_KIB_MAX = 512 << 10,
    STRETCH_BYTES = 1 << 12, /* length in bytes of the match after an exceeded limit */
    /* maximum number of exceeded limits of a call; the call then continues without patterns */
    LIMIT_HITS_MAX = 8,
};

#define SPACE_SET "\\t-\\r\\x{85}\\p{Z}"
#define WORD_SET                                                                                   \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{"     \
    "1F169}"                                                                                       \
    "\\x{1F170}-\\x{1F189}"

/* A compiled pattern. All memory is owned. Immutable; any thread. */
struct regex {
    pcre2_code *code;
    pcre2_match_context *limits;
    bool jit; /* true: compiled to machine code */
};
/* Scratch of matching. `match` is owned. */
struct regex_work {
    pcre2_match_data *match;
    int n_limit_hit; /* number of exceeded limits so far */
    bool failed;
};

/* ---- translation ---- */

/* State of regex_translate. Pointers are borrowed for the call. */
struct regex_reader {
    const char *p;
    size_t n, i;
    struct err *e;
    int depth; /* nesting of classes */
};

/* Set an error with the pattern and the position in the pattern. */
static int unreadable(struct regex_reader *r, const char *why)
{
    return err_set(r->e, ERR_UNSUPPORTED, "pattern \"%.*s\": %s at byte %zu",
                   (int)(r->n < 200 ? r->n : 200), r->p, why, r->i);
}

/* Translate \u0041 or \u{41}. r->i is at the first digit or brace. */
static int translate_hex(struct regex_reader *r, struct buf *out)
{
    bool braces = r->i < r->n && r->p[r->i] == '{';
    size_t begin = r->i + braces, end = begin;
    while (end < r->n && strchr("0123456789abcdefABCDEF", r->p[end]) && r->p[end] &&
           (braces || end - begin < 4))
        end++;
    if (end == begin || (braces && (end == r->n || r->p[end] != '}')))
        return unreadable(r, "\\u without digits");
    buf_addf(out, "\\x{%.*s}", (int)(end - begin), r->p + begin);
    r->i = end + braces;
    return 0;
}

/* Translate the escape whose backslash is at r->i, inside or outside a class. */
static int translate_escape(struct regex_reader *r, struct buf *out, bool in_class)
{
    if (r->i + 1 >= r->n) return unreadable(r, "a lone backslash");
    char c = r->p[r->i + 1];
    r->i += 2;
    const char *open = in_class ? "" : "[", *close = in_class ? "" : "]";
    if (c == 's') return buf_addf(out, "%s" SPACE_SET "%s", open, close), 0;
    if (c == 'w') return buf_addf(out, "%s" WORD_SET "%s", open, close), 0;
    if (c == 'd') return buf_add_text(out, "\\p{Nd}"), 0;
    if (c == 'D') return buf_add_text(out, "\\P{Nd}"), 0;
    if (c == 'S' && !in_class) return buf_add_text(out, "[^" SPACE_SET "]"), 0;
    if (c == 'W' && !in_class) return buf_add_text(out, "[^" WORD_SET "]"), 0;
    if (c == 'u') return translate_hex(r, out);
    buf_add_char(out, '\\');
    buf_add_char(out, c);
    return 0;
}

static int translate_class(struct regex_reader *r, struct buf *out);

/* Translate a class inside a class. A positive inner class forms a union with adjacent items. */
static int translate_inner_class(struct regex_reader *r, struct buf *items)
{
    if (r->i + 1 < r->n && r->p[r->i + 1] == ':') { /* [:alpha:] */
        const char *end = memchr(r->p + r->i, ']', r->n - r->i);
        if (!end) return unreadable(r, "[: without end");
        size_t len = (size_t)(end + 1 - (r->p + r->i));
        buf_add(items, r->p + r->i, len);
        r->i += len;
        return 0;
    }
    struct buf inner = {0};
    int rc = translate_class(r, &inner);
    if (rc == 0 && inner.failed) rc = err_memory(r->e, "a pattern", inner.n);
    if (rc == 0 && (inner.n < 2 || inner.data[0] != '[' || inner.data[1] == '^'))
        rc = unreadable(r, "a negated class or an intersection inside a class");
    if (rc == 0) buf_add(items, inner.data + 1, inner.n - 2);
    buf_deinit(&inner);
    return rc;
}

/* Translate items up to the closing bracket or "&&". A single inner class directly after "&&" may
 * be negated: [a&&[^b]]. */
static int translate_items(struct regex_reader *r, struct buf *items)
{
    size_t begin = r->i;
    while (r->i < r->n && (r->p[r->i] != ']' || r->i == begin)) {
        char c = r->p[r->i];
        int rc = 0;
        if (c == '&' && r->i + 1 < r->n && r->p[r->i + 1] == '&') break;
        if (c == '\\')
            rc = translate_escape(r, items, true);
        else if (c == '[')
            rc = translate_inner_class(r, items);
        else
            buf_add_char(items, r->p[r->i++]);
        if (rc != 0) return rc;
    }
    return r->i < r->n ? 0 : unreadable(r, "a class without end");
}

/* Translate the operand after "&&": one class, or items. */
static int translate_operand(struct regex_reader *r, struct buf *out)
{
    if (r->i < r->n && r->p[r->i] == '[') return translate_class(r, out);
    buf_add_char(out, '[');
    int rc = translate_items(r, out);
    buf_add_char(out, ']');
    return rc;
}

/* Translate [items], [^items], or [items&&operand] as (?:(?=[items])operand). */
static int translate_class(struct regex_reader *r, struct buf *out)
{
    if (++r->depth > CLASS_DEPTH_MAX) return unreadable(r, "classes nested too deep");
    struct buf items = {0};
    r->i++;
    bool negated = r->i < r->n && r->p[r->i] == '^';
    r->i += negated;
    int rc = translate_items(r, &items);
    bool both = rc == 0 && r->p[r->i] == '&';
    if (both && negated) rc = unreadable(r, "a negated intersection");
    if (rc == 0) buf_addf(out, "%s[%s", both ? "(?:(?=" : "", negated ? "^" : "");
    if (rc == 0) buf_add(out, items.data, items.n);
    out->failed |= items.failed;
    if (rc == 0) buf_add_text(out, both ? "])" : "]");
    buf_deinit(&items);
    if (rc == 0 && both) {
        r->i += 2;
        rc = translate_operand(r, out);
        if (rc == 0 && (r->i >= r->n || r->p[r->i] != ']'))
            rc = unreadable(r, "an intersection of more than two");
        buf_add_char(out, ')');
    }
    r->i++;
    r->depth--;
    return rc;
}

int regex_translate(struct buf *out, const char *pattern, size_t n, struct err *e)
{
    static const char trailing_space[] = "\\s+$";
    struct regex_reader r = {.p = pattern, .n = n, .e = e};
    int rc = 0;
    /* trailing_space takes quadratic time on a run of white space if it is tried at every position.
     * Only the first position of the run can match. */
    if (n == sizeof trailing_space - 1 && memcmp(pattern, trailing_space, n) == 0)
        buf_add_text(out, "(?<![" SPACE_SET "])");
    while (r.i < n && rc == 0) {
        if (pattern[r.i] == '\\')
            rc = translate_escape(&r, out, false);
        else if (pattern[r.i] == '[')
            rc = translate_class(&r, out);
        else if (pattern[r.i] == '$')
            buf_add_text(out, "(?m:$)"), r.i++;
        else
            buf_add_char(out, pattern[r.i++]);
    }
    if (rc == 0 && out->failed) rc = err_memory(e, "a pattern", n);
    return rc;
}

/* ---- matching ---- */

/* Compile a translated pattern. A pattern without JIT code gives the same results, but is
 * slower. */
static int compile(struct regex *r, const struct buf *pattern, struct err *e)
{
    int code;
    PCRE2_SIZE at;
    r->code = pcre2_compile((PCRE2_SPTR)(pattern->n ? pattern->data : ""), pattern->n,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY,
                            &code, &at, NULL);
    if (!r->code && code == PCRE2_ERROR_HEAP_FAILED) return err_memory(e, "a pattern", pattern->n);
    if (!r->code) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(code, why, sizeof why);
        return err_set(e, ERR_UNSUPPORTED, "pattern \"%.*s\": %s at byte %zu",
                       (int)(pattern->n < 160 ? pattern->n : 160), pattern->data, (const char *)why,
                       (size_t)at);
    }
    /* false: the interpreter matches */
    r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    r->limits = pcre2_match_context_create(NULL);
    if (!r->limits) return err_memory(e, "a pattern's limits", 0);
    pcre2_set_match_limit(r->limits, MATCH_STEPS_MAX);
    pcre2_set_heap_limit(r->limits, HEAP_KIB_MAX);
    return 0;
}

/* Translate and compile a pattern. ERR_LIMIT or ERR_UNSUPPORTED if this is not possible,
 * ERR_MEMORY. */
int regex_open(struct regex **out, const char *pattern, size_t n, struct err *e)
{
    *out = NULL;
    if (n > PATTERN_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the pattern has %zu bytes, more than %d", n,
                       PATTERN_BYTES_MAX);
    struct buf translated = {0};
    struct regex *r = calloc(1, sizeof *r);
    int rc =
        r ? regex_translate(&translated, pattern, n, e) : err_memory(e, "a pattern", sizeof *r);
    if (rc == 0) rc = compile(r, &translated, e);
    buf_deinit(&translated);
    if (rc != 0)
        regex_close(r);
    else
        *out = r;
    return rc;
}

void regex_close(struct regex *r)
{
    if (!r) return;
    pcre2_code_free(r->code);
    pcre2_match_context_free(r->limits);
    free(r);
}

struct regex_work *regex_work_open(void)
{
    struct regex_work *w = calloc(1, sizeof *w);
    if (w) w->match = pcre2_match_data_create(1, NULL);
    if (w && !w->match) {
        free(w);
        w = NULL;
    }
    return w;
}

void regex_work_close(struct regex_work *w)
{
    if (!w) return;
    pcre2_match_data_free(w->match);
    free(w);
}

bool regex_work_failed(const struct regex_work *w)
{
    return w->failed;
}

/* Return the end of the match after an exceeded limit. The result is at a character boundary. */
static size_t stretch_end(const char *p, size_t n, size_t from)
{
    if (n - from <= STRETCH_BYTES) return n;
    size_t end = from + STRETCH_BYTES;
    while ((p[end] & 0xC0) == 0x80) end--;
    return end;
}

/* Return false if no match begins at or after `from`, or if memory is exhausted
 * (regex_work_failed). pcre2_jit_match checks nothing, so p must be valid UTF-8. */
bool regex_next(const struct regex *r, struct regex_work *w, const char *p, size_t n, size_t from,
                size_t *start, size_t *end)
{
    CHECK(from <= n, "byte %zu of %zu", from, n);
    if (w->failed || w->n_limit_hit >= LIMIT_HITS_MAX) return false;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (r->jit) rc = pcre2_jit_match(r->code, (PCRE2_SPTR)p, n, from, 0, w->match, r->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(r->code, (PCRE2_SPTR)p, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         w->match, r->limits);
    if (rc == PCRE2_ERROR_NOMATCH) return false;
    if (rc == PCRE2_ERROR_NOMEMORY) return w->failed = true, false;
    if (rc < 0) {
        w->n_limit_hit++;
        *start = from;
        *end = stretch_end(p, n, from);
        return true;
    }
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(w->match);
    *start = at[0];
    *end = at[1];
    /* \K in a lookaround can cause these values */
    if (*start < from || *end < *start) *start = *end = from;
    return true;
}
