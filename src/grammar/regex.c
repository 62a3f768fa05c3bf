/* regex.c - parser of regular expressions, by recursive descent; see regex.h. Syntaxes: ECMA 262,
 * "Patterns"; https://docs.rs/regex/latest/regex/#syntax.
 *
 * The result of each part is a piece (regex_piece.h) with the conditions of its assertions.
 * Classes, the dot and \xHH match bytes under (?-u), as in Rust. Texts that are not valid UTF-8 are
 * rejected even under (?-u). */
#include "regex.h"

#include "base/text.h"
#include "base/utf8.h"
#include "charset.h"
#include "regex_piece.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DEPTH_MAX limits the parser's use of the stack. REPEAT_MAX is 100 times RE2's, because patterns
 * of schemas limit lengths of texts. N_SET_KEPT: number of kept sets of characters; an expression
 * repeats few classes. SCAN_STEPS: work charged for folding a set, which scans all characters. */
enum { DEPTH_MAX = 200, REPEAT_MAX = 100000, N_SET_KEPT = 16, SCAN_STEPS = 100000 };

struct flags {
    bool fold, dot_all, extended, multi_line, bytes; /* flags i, s, x, m, -u */
    bool swapped; /* flag U: repetitions are lazy, or greedy before a ? */
};

/* Pointers are borrowed. */
struct regex_parser {
    struct exprs *x;
    const char *s;
    size_t n, at;
    enum regex_dialect dialect;
    struct flags flags;
    struct pieces pieces;
    bool any_bytes; /* true if the pattern has a (?-u) */
    /* kind of word characters of assertions; WORD_UNKNOWN: no assertion so far */
    enum { WORD_UNKNOWN, WORD_ASCII, WORD_UNICODE } word;
    bool lazy, greedy;         /* true if there is a lazy (greedy) repetition so far */
    struct charset unicode[3]; /* Unicode's \d, \w, \s; empty before their first use */
    struct categories categories;
    struct kept_set {
        struct charset s; /* owned; long set */
        uint32_t e;
    } kept
        /* latest long sets; the expression of a repeated set is made only once */
        [N_SET_KEPT];
    int n_kept;
    int depth;
    struct err *e;
};

static int fail(const struct regex_parser *p, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int fail(const struct regex_parser *p, int code, const char *fmt, ...)
{
    char why[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return err_set(p->e, code, "regular expression, byte %zu: %s", p->at, why);
}

/* Fail with "expected WHAT, got FOUND" for the next character. */
static int expected(const struct regex_parser *p, const char *what)
{
    char found[24];
    return fail(p, ERR_FORMAT, "expected %s, got %s", what,
                utf8_first_text(p->s + p->at, p->n - p->at, found));
}

static int too_large(const struct regex_parser *p)
{
    struct err why;
    return fail(p, exprs_error(p->x, &why), "%s", why.text);
}

/* ---- reading ---- */

static bool more(const struct regex_parser *p)
{
    return p->at < p->n;
}

/* Skip the text and return true if it is next. */
static bool next_is(struct regex_parser *p, const char *text)
{
    size_t n = strlen(text);
    if (p->n - p->at < n || memcmp(p->s + p->at, text, n) != 0) return false;
    p->at += n;
    return true;
}

/* Skip white space and comments if the flag x is set. */
static void skip_extended(struct regex_parser *p)
{
    while (p->flags.extended && more(p)) {
        if (p->s[p->at] == '#')
            while (more(p) && p->s[p->at] != '\n') p->at++;
        else if (strchr(" \t\n\v\f\r", p->s[p->at]) && p->s[p->at])
            p->at++;
        else
            return;
    }
}

static int read_char(struct regex_parser *p, uint32_t *cp)
{
    int k = utf8_decode(p->s + p->at, p->n - p->at, cp);
    if (k <= 0) return fail(p, ERR_FORMAT, "not UTF-8");
    p->at += (size_t)k;
    return 0;
}

/* Read n_min to n_max hexadecimal digits. */
static int read_hex(struct regex_parser *p, int n_min, int n_max, uint32_t *cp)
{
    size_t n = hex_read(p->s + p->at, p->n - p->at, (size_t)n_max, cp);
    p->at += n;
    return n < (size_t)n_min ? expected(p, "hexadecimal digits") : 0;
}

/* Read the number after \x, \u or \U: n_digit digits, or 1 to 6 digits in braces. The two \u of a
 * surrogate pair are one code point. */
static int read_code(struct regex_parser *p, int n_digit, uint32_t *cp)
{
    if (!next_is(p, "{")) {
        int rc = read_hex(p, n_digit, n_digit, cp);
        uint32_t low;
        if (rc || *cp < 0xd800 || *cp > 0xdbff) return rc;
        if (!next_is(p, "\\u"))
            return fail(p, ERR_UNSUPPORTED, "lone surrogate: not supported yet");
        if ((rc = read_hex(p, 4, 4, &low))) return rc;
        if (low < 0xdc00 || low > 0xdfff)
            return fail(p, ERR_UNSUPPORTED, "lone surrogate: not supported yet");
        *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
        return 0;
    }
    int rc = read_hex(p, 1, 6, cp);
    if (rc == 0 && !next_is(p, "}")) rc = expected(p, "}");
    return rc == 0 && *cp > CODE_POINT_MAX ? fail(p, ERR_FORMAT, "code point out of range") : rc;
}

/* Add the characters of a property after \p (or \P if `negated`): one letter, or a name in
 * braces. */
static int add_property(struct regex_parser *p, struct charset *s, bool negated)
{
    const char *name = p->s + p->at;
    size_t n = 1;
    struct charset c = {0};
    if (next_is(p, "{")) {
        name++;
        const char *end = memchr(name, '}', p->n - p->at);
        if (!end) return expected(p, "}");
        n = (size_t)(end - name);
        p->at += n + 1;
        if (n > 0 && *name == '^') negated = !negated, name++, n--;
        static const char *const prefix[] = {"General_Category=", "gc="};
        for (int i = 0; i < 2; i++)
            if (n > strlen(prefix[i]) && memcmp(name, prefix[i], strlen(prefix[i])) == 0)
                name += strlen(prefix[i]), n -= strlen(prefix[i]);
    } else {
        p->at++;
    }
    if (!charset_add_category(&c, &p->categories, name, n))
        return fail(p, ERR_UNSUPPORTED, "\\p: must be a general category, got \"%.*s\"",
                    n > 60 ? 60 : (int)n, name);
    if (negated) charset_invert(&c);
    charset_add_set(s, &c);
    charset_deinit(&c);
    return 0;
}

/* Return c if c is the letter of a class (\d \D \w \W \s \S); otherwise 0. */
static char class_letter(char c)
{
    return strchr("dDwWsS", c) ? c : 0;
}

/* Remove all characters outside of ASCII, because the classes of (?-u) have only ASCII. */
static void drop_wide(struct charset *s)
{
    struct charset ascii = {0};
    charset_add(&ascii, 0, 0x7f);
    charset_intersect(s, &ascii);
    charset_deinit(&ascii);
}

/* Add the characters of a class. Unicode's classes are computed once per pattern. */
static void add_class(struct regex_parser *p, struct charset *s, char letter)
{
    struct charset c = {0};
    bool unicode = p->dialect == REGEX_RUST && !p->flags.bytes;
    struct charset *known = &p->unicode[(letter | 32) == 'd' ? 0 : (letter | 32) == 'w' ? 1 : 2];
    if (unicode && known->n == 0)
        charset_add_class(known, &p->categories, (char)(letter | 32), true);
    if (unicode)
        charset_add_set(&c, known);
    else
        charset_add_class(&c, NULL, (char)(letter | 32), false);
    if (p->flags.bytes) drop_wide(&c);
    if (letter < 'a') charset_invert(&c);
    charset_add_set(s, &c);
    charset_deinit(&c);
}

/* Read an escape of one code point, after its backslash. */
static int read_escape(struct regex_parser *p, uint32_t *cp)
{
    static const char from[] = "tnvfr", to[] = "\t\n\v\f\r";
    char c = p->s[p->at++];
    const char *at = strchr(from, c);
    if (at && c) return *cp = (uint32_t)to[at - from], 0;
    if (c == 'a' && p->dialect == REGEX_RUST) return *cp = 7, 0;
    if (c == '0' && !(more(p) && p->s[p->at] >= '0' && p->s[p->at] <= '9')) return *cp = 0, 0;
    if (c >= '0' && c <= '9') return fail(p, ERR_UNSUPPORTED, "back references: not supported yet");
    if (c == 'x') return read_code(p, 2, cp);
    if (c == 'u') return read_code(p, 4, cp);
    if (c == 'U' && p->dialect == REGEX_RUST) return read_code(p, 8, cp);
    if (c == 'c' && more(p)) return *cp = (uint32_t)(p->s[p->at++] & 31), 0;
    if (c == 'k') return fail(p, ERR_UNSUPPORTED, "back references: not supported yet");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return fail(p, ERR_FORMAT, "unknown escape");
    p->at--;
    return read_char(p, cp);
}

/* ---- classes ---- */

static int parse_class(struct regex_parser *p, struct charset *s);

/* Add the other cases of the characters of a set. Under (?-u) only ASCII letters have cases. */
static void fold(struct regex_parser *p, struct charset *s)
{
    if (!p->flags.bytes) {
        bool one = s->n == 1 && s->v[0].lo == s->v[0].hi && s->v[0].hi <= 0x7f;
        if (expr_spend(p->x, one ? 1 : SCAN_STEPS)) charset_fold(s);
        return;
    }
    struct charset ascii = {0};
    charset_add_set(&ascii, s);
    drop_wide(&ascii);
    charset_fold(&ascii);
    drop_wide(&ascii);
    charset_add_set(s, &ascii);
    charset_deinit(&ascii);
}

/* Read a class such as [:alpha:], which Rust's syntax has inside classes. Read nothing and return
 * false if there is no class of this form. */
static bool posix_class(struct regex_parser *p, struct charset *s)
{
    static const struct {
        const char *name, *ranges; /* static; ranges: pairs lo, hi; a first \x01 includes NUL */
    } posix[] = {{"alnum", "09AZaz"},
                 {"alpha", "AZaz"},
                 {"ascii", "\x01\x7f"},
                 {"blank", "\t\t  "},
                 {"cntrl", "\x01\x1f\x7f\x7f"},
                 {"digit", "09"},
                 {"graph", "!~"},
                 {"lower", "az"},
                 {"print", " ~"},
                 {"punct", "!/:@[`{~"},
                 {"space", "\t\r  "},
                 {"upper", "AZ"},
                 {"word", "09AZaz__"},
                 {"xdigit", "09AFaf"}};
    size_t from = p->at;
    if (p->dialect != REGEX_RUST || !next_is(p, "[:")) return false;
    bool negated = next_is(p, "^");
    for (size_t i = 0; i < sizeof posix / sizeof *posix; i++) {
        if (!next_is(p, posix[i].name)) continue;
        if (!next_is(p, ":]")) break;
        struct charset c = {0};
        for (const char *r = posix[i].ranges; *r; r += 2)
            charset_add(&c, (uint8_t)r[0], (uint8_t)r[1]);
        if (posix[i].ranges[0] == 1) charset_add(&c, 0, 0);
        if (negated) charset_invert(&c);
        charset_add_set(s, &c);
        charset_deinit(&c);
        return true;
    }
    p->at = from;
    return false;
}

/* Read one item of a class. Set *single and *cp if the item is a code point. Add any other item, a
 * set, to s. */
static int class_atom(struct regex_parser *p, struct charset *s, uint32_t *cp, bool *single)
{
    *single = false;
    if (posix_class(p, s)) return 0;
    if (p->dialect == REGEX_RUST && next_is(p, "[")) {
        struct charset inner = {0};
        int rc = parse_class(p, &inner);
        charset_add_set(s, &inner);
        charset_deinit(&inner);
        return rc;
    }
    if (next_is(p, "\\")) {
        if (!more(p)) return fail(p, ERR_FORMAT, "ends within an escape");
        char c = p->s[p->at];
        if (class_letter(c)) return p->at++, add_class(p, s, c), 0;
        if (c == 'p' || c == 'P') return p->at++, add_property(p, s, c == 'P');
        *single = true;
        if (c == 'b' && p->dialect == REGEX_ECMA) return p->at++, *cp = '\b', 0;
        return read_escape(p, cp);
    }
    *single = true;
    return read_char(p, cp);
}

/* Read an item of a class, or a range of two items, and add it to s. */
static int class_member(struct regex_parser *p, struct charset *s)
{
    uint32_t lo, hi;
    bool single, to_single;
    int rc = class_atom(p, s, &lo, &single);
    if (rc || !single) return rc;
    bool range = p->n - p->at >= 2 && p->s[p->at] == '-' && p->s[p->at + 1] != ']' &&
                 !(p->dialect == REGEX_RUST && p->s[p->at + 1] == '-');
    if (!range) return charset_add(s, lo, lo), 0;
    p->at++;
    rc = class_atom(p, s, &hi, &to_single);
    if (rc) return rc;
    if (!to_single) /* [a-\d] is a set of a, - and digits, as in ECMA without u */
        return charset_add(s, lo, lo), charset_add(s, '-', '-'), 0;
    if (lo > hi) return fail(p, ERR_FORMAT, "range in descending order");
    charset_add(s, lo, hi);
    return 0;
}

/* Reject the operators of sets in Rust's syntax that are not supported. The operators are ordinary
 * characters at the beginning of a class and in ECMA's syntax. */
static int check_set_operator(const struct regex_parser *p)
{
    const char *at = p->s + p->at;
    bool twice = p->n - p->at >= 2 && at[0] == at[1] && (at[0] == '-' || at[0] == '~');
    if (!twice || p->dialect != REGEX_RUST) return 0;
    return fail(p, ERR_UNSUPPORTED, "set operation %.2s: not supported yet", at);
}

/* Read a class after its [, through its ]. In Rust's syntax classes nest, and && intersects the
 * sets on its two sides. */
static int parse_class(struct regex_parser *p, struct charset *s)
{
    if (++p->depth > DEPTH_MAX) return fail(p, ERR_LIMIT, "nested too deeply");
    bool negated = next_is(p, "^"), first = true;
    struct charset both = {0}; /* intersection of the sets to the left of the last && */
    bool any_and = false;
    int rc = 0;
    for (; rc == 0 && more(p) && expr_spend(p->x, 1); first = false) {
        if (p->s[p->at] == ']' && !(first && p->dialect == REGEX_RUST)) break;
        if (p->dialect == REGEX_RUST && next_is(p, "&&")) {
            expr_spend(p->x, 10 * (s->n + both.n));
            if (any_and)
                charset_intersect(&both, s);
            else
                charset_add_set(&both, s);
            any_and = true;
            charset_deinit(s);
        } else if (first && p->dialect == REGEX_RUST && next_is(p, "-")) {
            charset_add(s, '-', '-');
            while (next_is(p, "-")) {
            }
        } else if ((rc = check_set_operator(p)) == 0) {
            rc = class_member(p, s);
        }
    }
    if (rc == 0 && p->x->failed) rc = too_large(p);
    if (rc == 0 && !next_is(p, "]")) rc = expected(p, "]");
    if (any_and) charset_intersect(s, &both);
    charset_deinit(&both);
    if (p->flags.fold) fold(p, s);
    if (negated) charset_invert(s);
    p->depth--;
    return rc;
}

/* Return the expression of a set under (?-u), whose characters are single bytes. */
static uint32_t bytes_expr(struct exprs *x, struct charset *s)
{
    uint32_t e = EXPR_EMPTY;
    charset_settle(s);
    for (size_t i = 0; i < s->n && s->v[i].lo <= 0xff; i++)
        e = expr_or(
            x, e,
            expr_range(x, (uint8_t)s->v[i].lo, (uint8_t)(s->v[i].hi < 0xff ? s->v[i].hi : 0xff)));
    return e;
}

/* Return the expression of a set. A new set of 8 or more ranges is moved to p->kept, which leaves s
 * empty. */
static uint32_t set_expr(struct regex_parser *p, struct charset *s)
{
    if (p->flags.bytes) return bytes_expr(p->x, s);
    charset_settle(s);
    if (s->n < 8 || s->failed) return charset_expr(s, p->x);
    for (int i = 0; i < N_SET_KEPT; i++) {
        const struct charset *k = &p->kept[i].s;
        if (k->n == s->n && memcmp(k->v, s->v, s->n * sizeof *s->v) == 0) return p->kept[i].e;
    }
    uint32_t e = charset_expr(s, p->x);
    struct kept_set *keep = &p->kept[p->n_kept++ % N_SET_KEPT];
    charset_deinit(&keep->s);
    *keep = (struct kept_set){*s, e};
    *s = (struct charset){0};
    return e;
}

/* Set *out to the piece of a set, and free the set. Return rc, the result of reading the set, if rc
 * is not 0. */
static int set_piece(struct regex_parser *p, struct charset *s, int rc, struct regex_piece *out)
{
    if (rc == 0 && p->flags.fold) fold(p, s);
    if (rc == 0) *out = piece_plain(set_expr(p, s));
    charset_deinit(s);
    return rc;
}

/* ---- assertions ---- */

/* Set the characters of each context, at the first assertion. Fail if ASCII and Unicode word
 * boundaries are mixed, because contexts have one definition of a word. */
static int need_contexts(struct regex_parser *p, bool ascii)
{
    struct charset line = {0}, word = {0}, other = {0};
    if ((p->word == WORD_ASCII && ascii) || (p->word == WORD_UNICODE && !ascii)) return 0;
    if (p->word != WORD_UNKNOWN)
        return fail(p, ERR_UNSUPPORTED,
                    "ASCII and Unicode word boundaries together: not supported yet");
    p->word = ascii ? WORD_ASCII : WORD_UNICODE;
    charset_add(&line, '\n', '\n');
    charset_add_class(&word, &p->categories, 'w', !ascii);
    charset_add_set(&other, &line);
    charset_add_set(&other, &word);
    charset_invert(&other);
    p->pieces.of[1] = charset_expr(&line, p->x);
    p->pieces.of[2] = charset_expr(&word, p->x);
    p->pieces.of[3] = ascii ? bytes_expr(p->x, &other) : charset_expr(&other, p->x);
    charset_deinit(&line);
    charset_deinit(&word);
    charset_deinit(&other);
    return 0;
}

/* Word boundaries: one or two alternatives of the contexts before and after the place. A longer
 * text precedes its prefix. All texts are static. */
enum { NOT_WORD = CTX_ANY & ~CTX_WORD };
static const struct border {
    const char *text;
    bool rust; /* true: ECMA's syntax does not have the boundary */
    uint8_t left, right, left2, right2;
} borders[] = {{"b{start}", true, NOT_WORD, CTX_WORD, 0, 0},
               {"b{end}", true, CTX_WORD, NOT_WORD, 0, 0},
               {"b{start-half}", true, NOT_WORD, CTX_ANY, 0, 0},
               {"b{end-half}", true, CTX_ANY, NOT_WORD, 0, 0},
               {"<", true, NOT_WORD, CTX_WORD, 0, 0},
               {">", true, CTX_WORD, NOT_WORD, 0, 0},
               {"b", false, NOT_WORD, CTX_WORD, CTX_WORD, NOT_WORD},
               {"B", false, NOT_WORD, NOT_WORD, CTX_WORD, CTX_WORD}};

/* Read a word boundary after its backslash. The caller has seen that one follows, so the search
 * ends at the last row. */
static const struct border *read_border(struct regex_parser *p)
{
    const struct border *last = &borders[sizeof borders / sizeof borders[0] - 1];
    for (const struct border *b = borders; b < last; b++)
        if ((!b->rust || p->dialect == REGEX_RUST) && next_is(p, b->text)) return b;
    next_is(p, last->text);
    return last;
}

/* Parse a word boundary after its backslash. */
static int parse_border(struct regex_parser *p, struct regex_piece *out)
{
    const struct border *b = read_border(p);
    bool ascii = p->dialect == REGEX_ECMA || p->flags.bytes;
    int rc = need_contexts(p, ascii);
    struct regex_piece second = piece_between(b->left2, b->right2);
    *out = piece_between(b->left, b->right);
    if (b->left2) *out = piece_either(&p->pieces, out, &second);
    return rc;
}

/* Parse ^ or $, which the caller has read. With flag m, ^ and $ also match next to a line feed. */
static int parse_line_anchor(struct regex_parser *p, bool start, struct regex_piece *out)
{
    uint8_t at = CTX_EDGE | (p->flags.multi_line ? CTX_LINE : 0);
    *out = start ? piece_between(at, CTX_ANY) : piece_between(CTX_ANY, at);
    bool ascii = p->dialect == REGEX_ECMA || p->flags.bytes;
    return p->word == WORD_UNKNOWN ? need_contexts(p, ascii) : 0;
}

/* ---- atoms ---- */

static int parse_either(struct regex_parser *p, struct regex_piece *out);

static int parse_dot(struct regex_parser *p, struct regex_piece *out)
{
    struct charset s = {0};
    if (!p->flags.dot_all) {
        charset_add(&s, '\n', '\n');
        if (p->dialect == REGEX_ECMA) charset_add(&s, '\r', '\r'), charset_add(&s, 0x2028, 0x2029);
    }
    charset_invert(&s);
    return set_piece(p, &s, 0, out);
}

static int literal(struct regex_parser *p, uint32_t cp, struct regex_piece *out)
{
    struct charset s = {0};
    charset_add(&s, cp, cp);
    return set_piece(p, &s, 0, out);
}

/* Set *out to a literal character of the pattern. The character is UTF-8 even under (?-u). */
static int written(struct regex_parser *p, uint32_t cp, struct regex_piece *out)
{
    if (!p->flags.bytes || cp < 0x80) return literal(p, cp, out);
    return *out = piece_plain(expr_chars(p->x, cp, cp)), 0;
}

static int parse_escape(struct regex_parser *p, struct regex_piece *out)
{
    if (!more(p)) return fail(p, ERR_FORMAT, "ends within an escape");
    char c = p->s[p->at];
    struct charset s = {0};
    if (class_letter(c)) return p->at++, add_class(p, &s, c), set_piece(p, &s, 0, out);
    if (c == 'p' || c == 'P') {
        p->at++;
        return set_piece(p, &s, add_property(p, &s, c == 'P'), out);
    }
    bool rust = p->dialect == REGEX_RUST;
    if (c == 'b' || c == 'B' || (rust && (c == '<' || c == '>'))) return parse_border(p, out);
    if (rust && (c == 'A' || c == 'z')) {
        *out = c == 'A' ? piece_between(CTX_EDGE, CTX_ANY) : piece_between(CTX_ANY, CTX_EDGE);
        return p->at++, need_contexts(p, p->flags.bytes || p->word == WORD_ASCII);
    }
    uint32_t cp;
    int rc = read_escape(p, &cp);
    return rc ? rc : literal(p, cp, out);
}

/* Read flags after (?, up to a ) or :, which remains unread. Flags after a - are cleared. */
static int parse_flags(struct regex_parser *p, struct flags *f)
{
    bool on = true, any = false;
    for (; more(p) && p->s[p->at] != ')' && p->s[p->at] != ':'; p->at++) {
        char c = p->s[p->at];
        bool *flag = c == 'i'   ? &f->fold
                     : c == 's' ? &f->dot_all
                     : c == 'x' ? &f->extended
                     : c == 'm' ? &f->multi_line
                     : c == 'U' ? &f->swapped
                                : NULL;
        if (c == 'R') return fail(p, ERR_UNSUPPORTED, "flag R: not supported yet");
        if (c == '-' ? !on : !flag && c != 'u') return fail(p, ERR_FORMAT, "unknown flag");
        if (c == '-')
            on = false;
        else if (c == 'u')
            f->bytes = !on;
        else if (flag)
            *flag = on;
        any = c != '-';
    }
    p->any_bytes |= f->bytes;
    if (!more(p)) return expected(p, ")");
    return any || p->s[p->at] == ':' ? 0 : expected(p, "flags");
}

static int parse_group(struct regex_parser *p, struct regex_piece *out)
{
    if (++p->depth > DEPTH_MAX) return fail(p, ERR_LIMIT, "nested too deeply");
    struct flags outer = p->flags, inner = outer;
    int rc = 0;
    if (next_is(p, "?=") || next_is(p, "?!") || next_is(p, "?<=") || next_is(p, "?<!"))
        return fail(p, ERR_UNSUPPORTED, "look-around: not supported yet");
    if (next_is(p, "?P<") || next_is(p, "?<")) {
        while (more(p) && p->s[p->at] != '>') p->at++;
        if (!next_is(p, ">")) rc = expected(p, ">");
    } else if (next_is(p, "?")) {
        rc = parse_flags(p, &inner);
        /* the flags are valid to the end of the enclosing group */
        if (rc == 0 && next_is(p, ")")) {
            p->flags = inner;
            p->depth--;
            if (more(p) && p->s[p->at] && strchr("*+?{", p->s[p->at]))
                return fail(p, ERR_FORMAT, "nothing to repeat");
            return *out = piece_plain(EXPR_EPSILON), 0;
        }
        if (rc == 0) p->at++;
    }
    p->flags = inner;
    if (rc == 0) rc = parse_either(p, out);
    p->flags = outer;
    if (rc == 0 && !next_is(p, ")")) rc = expected(p, ")");
    p->depth--;
    return rc;
}

static bool read_counts(struct regex_parser *p, uint32_t *min, uint32_t *max);

/* Reject counts without an atom. {,n} is text in ECMA 262 (B.1.2) and a count in Python, so it is
 * text only in ECMA's syntax. */
static int check_brace(struct regex_parser *p)
{
    const size_t from = p->at;
    uint32_t min, max;
    bool counts = read_counts(p, &min, &max);
    p->at = from;
    if (counts) return fail(p, ERR_FORMAT, "nothing to repeat");
    if (p->dialect != REGEX_RUST || !next_is(p, "{,")) return 0;
    while (more(p) && p->s[p->at] >= '0' && p->s[p->at] <= '9') p->at++;
    counts = next_is(p, "}");
    p->at = from;
    return counts ? fail(p, ERR_UNSUPPORTED, "{,n}: not supported; use {0,n}, or \\{ for text") : 0;
}

static int parse_atom(struct regex_parser *p, struct regex_piece *out)
{
    struct charset s = {0};
    uint32_t cp;
    int rc = check_brace(p);
    *out = (struct regex_piece){0};
    if (rc != 0) return rc;
    if (next_is(p, "(")) return parse_group(p, out);
    if (next_is(p, "[")) return set_piece(p, &s, parse_class(p, &s), out);
    if (next_is(p, ".")) return parse_dot(p, out);
    if (next_is(p, "\\")) return parse_escape(p, out);
    if (next_is(p, "^")) return parse_line_anchor(p, true, out);
    if (next_is(p, "$")) return parse_line_anchor(p, false, out);
    if (p->s[p->at] && strchr("*+?", p->s[p->at])) return fail(p, ERR_FORMAT, "nothing to repeat");
    rc = read_char(p, &cp);
    return rc ? rc : written(p, cp, out);
}

/* ---- repetition ---- */

static bool read_number(struct regex_parser *p, uint32_t *x)
{
    size_t from = p->at;
    for (*x = 0; more(p) && p->s[p->at] >= '0' && p->s[p->at] <= '9'; p->at++)
        *x = *x > REPEAT_MAX ? *x : *x * 10 + (uint32_t)(p->s[p->at] - '0');
    return p->at > from;
}

/* Read {n}, {n,} or {n,m}. Read nothing and return false if there are no counts; the { is then an
 * ordinary character. */
static bool read_counts(struct regex_parser *p, uint32_t *min, uint32_t *max)
{
    size_t from = p->at;
    if (next_is(p, "{") && read_number(p, min)) {
        *max = *min;
        if (next_is(p, ",") && !read_number(p, max)) *max = EXPR_INF;
        if (next_is(p, "}")) return true;
    }
    p->at = from;
    return false;
}

/* Read * + ? or counts. Return false if there is no quantifier. */
static bool read_quantifier(struct regex_parser *p, uint32_t *min, uint32_t *max)
{
    skip_extended(p);
    *min = 0, *max = EXPR_INF;
    if (next_is(p, "*")) return true;
    if (next_is(p, "+")) return *min = 1, true;
    if (next_is(p, "?")) return *max = 1, true;
    return read_counts(p, min, max);
}

static int parse_repeated(struct regex_parser *p, struct regex_piece *out)
{
    uint32_t min, max;
    int rc = parse_atom(p, out);
    while (rc == 0 && read_quantifier(p, &min, &max)) {
        if (max < min) return fail(p, ERR_FORMAT, "repetition in descending order");
        if (min > REPEAT_MAX || (max != EXPR_INF && max > REPEAT_MAX))
            return fail(p, ERR_LIMIT, "repetition: must be at most %d, got at least %u", REPEAT_MAX,
                        min > REPEAT_MAX ? min : max);
        *out = piece_repeat(&p->pieces, out, min, max);
        /* lazy and greedy repetitions match the same texts */
        bool lazy = next_is(p, "?") != p->flags.swapped;
        p->lazy |= lazy && min != max, p->greedy |= !lazy && min != max;
        if (p->dialect == REGEX_ECMA) break;
    }
    if (rc == 0 && p->x->failed) return too_large(p);
    if (rc == 0 && p->pieces.too_many)
        return fail(p, ERR_UNSUPPORTED, "assertions in so many places: not supported yet");
    skip_extended(p);
    return rc;
}

/* Languages of parts without a condition on their context, to be combined into one expression. */
struct plains {
    uint32_t *v; /* owned; languages */
    size_t n, cap;
};

/* Append the language of a piece to the list. Return false if the piece has a condition on its
 * context, or no text. */
static bool take_plain(struct regex_parser *p, struct plains *all, const struct regex_piece *one)
{
    if (!piece_is_plain(one) || one->n == 0) return false;
    if (!vec_push(all, one->v[0].e)) expr_fail(p->x, EXPR_NO_MEMORY);
    return true;
}

/* Append the concatenation of the collected languages to *out, and clear the list. Combine them
 * from right to left, because a concatenation is a chain of right operands. */
static void join_plains(struct regex_parser *p, struct plains *all, struct regex_piece *out)
{
    uint32_t e = EXPR_EPSILON;
    for (size_t i = all->n; i > 0; i--) e = expr_cat(p->x, all->v[i - 1], e);
    struct regex_piece one = piece_plain(e);
    if (all->n > 0) *out = piece_join(&p->pieces, out, &one);
    all->n = 0;
}

static int parse_sequence(struct regex_parser *p, struct regex_piece *out)
{
    struct plains plain = {0};
    int rc = 0;
    *out = piece_plain(EXPR_EPSILON);
    skip_extended(p);
    while (rc == 0 && more(p) && p->s[p->at] != '|' && p->s[p->at] != ')') {
        struct regex_piece next;
        rc = parse_repeated(p, &next);
        if (rc || take_plain(p, &plain, &next)) continue;
        join_plains(p, &plain, out);
        *out = piece_join(&p->pieces, out, &next);
    }
    join_plains(p, &plain, out);
    vec_deinit(&plain);
    return rc;
}

static int parse_either(struct regex_parser *p, struct regex_piece *out)
{
    struct plains plain = {0};
    struct regex_piece next;
    int rc = parse_sequence(p, out);
    while (rc == 0 && next_is(p, "|")) {
        rc = parse_sequence(p, &next);
        if (rc == 0 && !take_plain(p, &plain, &next)) *out = piece_either(&p->pieces, out, &next);
    }
    next = piece_plain(expr_or_list(p->x, plain.v, plain.n));
    if (plain.n > 0) *out = piece_either(&p->pieces, out, &next);
    vec_deinit(&plain);
    return rc == 0 && p->x->failed ? too_large(p) : rc;
}

int regex_parse(struct exprs *x, const char *pattern, size_t n, enum regex_dialect dialect,
                struct regex_langs *out, struct err *e)
{
    struct regex_parser p = {
        .x = x, .s = pattern, .n = n, .dialect = dialect, .pieces.x = x, .e = e};
    struct regex_piece all;
    if (!utf8_valid(pattern, n)) return fail(&p, ERR_FORMAT, "not UTF-8");
    int rc = parse_either(&p, &all);
    for (int i = 0; i < 3; i++) charset_deinit(&p.unicode[i]);
    for (int i = 0; i < N_SET_KEPT; i++) charset_deinit(&p.kept[i].s);
    categories_deinit(&p.categories);
    if (rc == 0 && more(&p)) rc = fail(&p, ERR_FORMAT, "unexpected )");
    if (rc) return rc;
    uint32_t text = expr_rep(x, expr_any_char(x), 0, EXPR_INF); /* text: all valid UTF-8 */
    struct regex_piece any = piece_plain(text), found = piece_join(&p.pieces, &any, &all);
    found = piece_join(&p.pieces, &found, &any);
    *out = (struct regex_langs){piece_whole(&p.pieces, &all), piece_whole(&p.pieces, &found),
                                p.lazy, p.greedy, p.word != WORD_UNKNOWN};
    if (p.any_bytes)
        out->whole = expr_and(x, out->whole, text), out->found = expr_and(x, out->found, text);
    if (p.pieces.too_many)
        return fail(&p, ERR_UNSUPPORTED, "assertions in so many places: not supported yet");
    return x->failed ? too_large(&p) : 0;
}
