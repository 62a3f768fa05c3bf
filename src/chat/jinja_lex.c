/* jinja_lex.c - template source to tokens, like jinja2's lexer with trim_blocks and lstrip_blocks.
 *
 *   data --{{--> T_PRINT_BEGIN ... T_PRINT_END --}}--> data
 *        --{%--> T_BLOCK_BEGIN ... T_BLOCK_END --%}--> data
 *
 * The lexer removes comments {# ... #} and converts {% raw %} blocks to data.
 *
 * A '-' inside a tag removes all white space on its side of the tag. One newline after %} and #} is
 * removed (trim_blocks; '+' keeps it). Blanks between a line's start and {% or {# are removed
 * (lstrip_blocks; '+' keeps them). */
#include "chat/jinja_impl.h"

#include "base/text.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
    const char *s; /* borrowed */
    size_t n, at;  /* length of the source, and position */
    /* true: the data begins at the start of a line, because a newline followed the last tag */
    bool line_start;
    int n_brace;         /* number of open ( [ { inside a tag; "}}" ends the tag only if it is 0 */
    struct tokens *out;  /* borrowed: receives the tokens */
    struct arena *arena; /* borrowed */
    struct err *err;     /* borrowed */
    int rc;
};

int jinja_err(struct err *e, int code, const char *source, size_t at, const char *fmt, ...)
{
    int line = 1, column = 1;
    for (size_t i = 0; i < at && source[i]; i++) {
        column = source[i] == '\n' ? 1 : column + ((source[i] & 0xC0) != 0x80);
        line += source[i] == '\n';
    }
    char sentence[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    return err_set(e, code, "template line %d, column %d: %s", line, column, sentence);
}

/* Keep the first error, with line and column. */
static void lex_fail(struct lexer *l, size_t at, const char *what)
{
    if (l->rc == 0) l->rc = jinja_err(l->err, ERR_FORMAT, l->s, at, "%s", what);
}

/* Append a token whose text is borrowed from the source. NULL if failed. */
static struct token *lex_push(struct lexer *l, enum lexeme_kind kind, size_t at, size_t n)
{
    struct token t = {.kind = kind, .at = (uint32_t)at, .text = l->s + at, .n = (uint32_t)n};
    if (l->rc == 0 && !vec_push(l->out, t)) l->rc = err_memory(l->err, "template tokens", sizeof t);
    return l->rc == 0 ? &l->out->v[l->out->n - 1] : NULL;
}

/* Return true if the source has `text` at offset `at`. */
static bool lex_see(const struct lexer *l, size_t at, const char *text)
{
    size_t n = strlen(text);
    return at + n <= l->n && memcmp(l->s + at, text, n) == 0;
}

/* Return the offset of `text` at or after `at`; n if none. */
static size_t lex_seek(const struct lexer *l, size_t at, const char *text)
{
    const char *p = at < l->n ? memmem(l->s + at, l->n - at, text, strlen(text)) : NULL;
    return p ? (size_t)(p - l->s) : l->n;
}

static size_t skip_space(const struct lexer *l, size_t at)
{
    for (size_t k; at < l->n && (k = text_space(l->s + at, l->n - at)) > 0;) at += k;
    return at;
}

/* Return the end of the data in [begin, end) after the white space control of the tag at `end`. */
static size_t data_end(const struct lexer *l, size_t begin, size_t end, bool is_print)
{
    char sign = end + 2 < l->n ? l->s[end + 2] : 0;
    size_t i = end;
    if (sign == '-') {
        for (size_t k; i > begin && (k = text_space_back(l->s + begin, i - begin)) > 0;) i -= k;
        return i;
    }
    if (sign == '+' || is_print || end >= l->n) return end;
    while (i > begin && l->s[i - 1] != '\n') {
        size_t k = text_space_back(l->s + begin, i - begin);
        if (k == 0) return end;
        i -= k;
    }
    return i > begin || l->line_start ? i : end;
}

/* Move past the closing marker of a tag, and past the following white space that the marker
 * removes. */
static void tag_end(struct lexer *l, size_t at, size_t n_marker, bool is_print)
{
    char sign = l->s[at];
    size_t end = at + n_marker;
    if (sign == '-')
        end = skip_space(l, end);
    else if (sign != '+' && !is_print && end < l->n && l->s[end] == '\n')
        end++;
    l->line_start = end > 0 && l->s[end - 1] == '\n';
    l->at = end;
}

/* Skip a comment. Comments do not nest. A sign before #} is part of the closing marker. */
static void lex_comment(struct lexer *l)
{
    size_t end = lex_seek(l, l->at + 2, "#}");
    if (end >= l->n) {
        lex_fail(l, l->at, "a comment {# is not closed");
        return;
    }
    bool sign = end > l->at + 2 && (l->s[end - 1] == '-' || l->s[end - 1] == '+');
    tag_end(l, end - sign, 2 + sign, false);
}

/* Return true if {%[-+]? word [-+]?%} is at `at`. Set *marker to the start of its closing marker,
 * including the sign. */
static bool see_word_tag(const struct lexer *l, size_t at, const char *word, size_t *marker)
{
    if (!lex_see(l, at, "{%")) return false;
    at += 2;
    if (at < l->n && (l->s[at] == '-' || l->s[at] == '+')) at++;
    at = skip_space(l, at);
    if (!lex_see(l, at, word)) return false;
    at = skip_space(l, at + strlen(word));
    *marker = at;
    if (at < l->n && (l->s[at] == '-' || l->s[at] == '+')) at++;
    return lex_see(l, at, "%}");
}

static void lex_raw(struct lexer *l, size_t marker)
{
    size_t begin = marker + (l->s[marker] == '%' ? 2 : 3);
    if (l->s[marker] == '-') begin = skip_space(l, begin);
    size_t end = lex_seek(l, begin, "{%"), close = 0;
    while (end < l->n && !see_word_tag(l, end, "endraw", &close)) end = lex_seek(l, end + 2, "{%");
    if (end >= l->n) {
        lex_fail(l, l->at, "{% raw %} is not closed");
        return;
    }
    l->line_start = begin > 0 && l->s[begin - 1] == '\n';
    lex_push(l, T_DATA, begin, data_end(l, begin, end, false) - begin);
    tag_end(l, close, l->s[close] == '%' ? 2 : 3, false);
}

/* Return true if c is a digit of the base, which is at most 16. */
static bool is_digit_of(char c, int base)
{
    int digit = hex_digit(c);
    return digit >= 0 && digit < base;
}

/* Parse the digits of \xhh, \uhhhh, \Uhhhhhhhh or \ooo. Return the number of digits, and set *cp to
 * the value. */
static size_t escape_number(const char *s, size_t n, size_t n_digit, int base, uint32_t *cp)
{
    size_t i = 0;
    *cp = 0;
    for (; i < n_digit && i < n && is_digit_of(s[i], base); i++)
        *cp = *cp * (uint32_t)base + (uint32_t)hex_digit(s[i]);
    return i;
}

/* Parse one escape at s[0] == '\\'. Return the length of the escape in bytes. */
static size_t lex_escape(struct buf *b, const char *s, size_t n)
{
    static const char from[] = "abfnrtv\\'\"\n", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char *p = memchr(from, s[1], sizeof from - 1);
    uint32_t cp = 0;
    if (p) {
        if (s[1] != '\n') buf_add_char(b, to[p - from]);
        return 2;
    }
    size_t n_hex = s[1] == 'x' ? 2 : s[1] == 'u' ? 4 : s[1] == 'U' ? 8 : 0;
    if (n_hex && escape_number(s + 2, n - 2, n_hex, 16, &cp) == n_hex && cp <= 0x10FFFF) {
        buf_add_utf8(b, cp >= 0xD800 && cp < 0xE000 ? 0xFFFD : cp);
        return 2 + n_hex;
    }
    size_t n_oct = escape_number(s + 1, n - 1, 3, 8, &cp);
    if (n_oct) {
        buf_add_utf8(b, cp);
        return 1 + n_oct;
    }
    buf_add_char(b, '\\');
    return 1;
}

/* Append a string token. The decoded text is copied to the arena of the template. */
static void lex_string(struct lexer *l)
{
    size_t begin = l->at, i = begin + 1;
    char quote = l->s[begin];
    struct buf b = {0};
    while (i < l->n && l->s[i] != quote) {
        if (l->s[i] == '\\' && i + 1 < l->n)
            i += lex_escape(&b, l->s + i, l->n - i);
        else
            buf_add_char(&b, l->s[i++]);
    }
    if (i >= l->n) {
        lex_fail(l, begin, "a string is not closed");
    } else {
        struct token *t = lex_push(l, T_TEXT, begin, b.n);
        char *text = t ? arena_text(l->arena, b.data ? b.data : "", b.n) : NULL;
        if (t) t->text = text;
        if (t && (!text || b.failed)) l->rc = err_memory(l->err, "a template string", b.n);
    }
    l->at = i + 1;
    buf_deinit(&b);
}

/* Copy the digits of a literal to buf, without '_'. Return the offset after the digits. */
static size_t number_digits(const struct lexer *l, size_t i, int base, char *buf, size_t cap,
                            size_t *n)
{
    while (i < l->n && (is_digit_of(l->s[i], base) ||
                        (l->s[i] == '_' && i + 1 < l->n && is_digit_of(l->s[i + 1], base)))) {
        if (l->s[i] != '_' && *n + 1 < cap) buf[(*n)++] = l->s[i];
        i++;
    }
    buf[*n] = 0;
    return i;
}

/* Copy the fraction and the exponent, if any. "1.e" has no fraction, because a method may follow
 * the dot. */
static size_t lex_fraction(const struct lexer *l, size_t i, char *buf, size_t cap, size_t *n)
{
    if (i + 1 < l->n && l->s[i] == '.' && is_digit_of(l->s[i + 1], 10)) {
        if (*n + 1 < cap) buf[(*n)++] = '.';
        i = number_digits(l, i + 1, 10, buf, cap, n);
    }
    size_t k = i + 1;
    if (k < l->n && (l->s[k] == '+' || l->s[k] == '-')) k++;
    if (i < l->n && (l->s[i] | 32) == 'e' && k < l->n && is_digit_of(l->s[k], 10) && *n + 3 < cap) {
        buf[(*n)++] = 'e';
        if (l->s[k - 1] == '-') buf[(*n)++] = '-';
        i = number_digits(l, k, 10, buf, cap, n);
    }
    return i;
}

/* Append a number token. after_dot: the digits follow a dot, as in a.0.1, in which "0.1" is not a
 * number. */
static void lex_number(struct lexer *l, bool after_dot)
{
    char digits[400];
    size_t begin = l->at, i = begin, n = 0;
    char mark = i + 1 < l->n && l->s[i] == '0' ? l->s[i + 1] | 32 : 0;
    int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10 && i + 2 < l->n && is_digit_of(l->s[i + 2], base))
        i += 2;
    else
        base = 10;
    i = number_digits(l, i, base, digits, sizeof digits, &n);
    size_t whole = n,
           end = base == 10 && !after_dot ? lex_fraction(l, i, digits, sizeof digits, &n) : i;
    struct token *t = lex_push(l, n > whole ? T_REAL : T_INT, begin, end - begin);
    errno = 0;
    if (t && n > whole) t->d = strtod(digits, NULL);
    if (t && n == whole) t->i = strtoll(digits, NULL, base);
    if (t && errno == ERANGE && n == whole) lex_fail(l, begin, "a number does not fit 64 bits");
    l->at = end;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit_of(c, 10) || c == '_' ||
           (c & 0x80);
}

/* Append an operator token. Operators of two characters are tried first. n_brace counts brackets,
 * so that "}}" inside of a dict does not end the tag. */
static void lex_operator(struct lexer *l)
{
    static const int pairs[] = {OP('=', '='), OP('!', '='), OP('<', '='),
                                OP('>', '='), OP('*', '*'), OP('/', '/')};
    char c = l->s[l->at], next = l->at + 1 < l->n ? l->s[l->at + 1] : 0;
    int op = (unsigned char)c;
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
        if (pairs[k] == OP(c, next)) op = pairs[k];
    if (op == c && (c == 0 || !strchr("+-*/%~=<>.,:|()[]{}", c))) {
        lex_fail(l, l->at, "this character has no meaning here");
        return;
    }
    l->n_brace += strchr("([{", c) != NULL;
    l->n_brace -= strchr(")]}", c) != NULL && l->n_brace > 0;
    struct token *t = lex_push(l, T_OP, l->at, op == c ? 1 : 2);
    if (t) t->op = op;
    l->at += op == c ? 1 : 2;
}

/* Append one token of a tag. */
static void lex_one(struct lexer *l)
{
    char c = l->s[l->at];
    size_t begin = l->at;
    if (c == '"' || c == '\'') {
        lex_string(l);
    } else if (is_digit_of(c, 10)) {
        lex_number(l, begin > 0 && l->s[begin - 1] == '.');
    } else if (is_name_char(c)) {
        while (l->at < l->n && is_name_char(l->s[l->at])) l->at++;
        lex_push(l, T_NAME, begin, l->at - begin);
    } else {
        lex_operator(l);
    }
}

/* Return the length of the closing marker ("}}" or "%}") at the lexer's position, with its sign; 0
 * if none. */
static size_t see_close(const struct lexer *l, bool is_print)
{
    const char *marker = is_print ? "}}" : "%}";
    if (l->n_brace > 0) return 0;
    if (lex_see(l, l->at, marker)) return 2;
    bool sign = l->s[l->at] == '-' || (l->s[l->at] == '+' && !is_print);
    return sign && lex_see(l, l->at + 1, marker) ? 3 : 0;
}

/* Append the tokens of {{ ... }} or {% ... %}, and apply the white space control of its end. */
static void lex_tag(struct lexer *l, bool is_print)
{
    size_t begin = l->at, close = 0;
    lex_push(l, is_print ? T_PRINT_BEGIN : T_BLOCK_BEGIN, begin, 2);
    l->at += 2;
    if (l->at < l->n && (l->s[l->at] == '-' || l->s[l->at] == '+')) l->at++;
    l->n_brace = 0;
    while (l->rc == 0) {
        l->at = skip_space(l, l->at);
        if (l->at >= l->n) {
            lex_fail(l, begin, is_print ? "{{ is not closed" : "{% is not closed");
            return;
        }
        if ((close = see_close(l, is_print)) > 0) break;
        lex_one(l);
    }
    if (l->rc != 0) return;
    lex_push(l, is_print ? T_PRINT_END : T_BLOCK_END, l->at, close);
    tag_end(l, l->at, close, is_print);
}

/* Return the offset of the next {{, {% or {#; n if none. */
static size_t next_tag(const struct lexer *l)
{
    size_t i = l->at;
    while (i < l->n) {
        const char *p = memchr(l->s + i, '{', l->n - i);
        if (!p) return l->n;
        i = (size_t)(p - l->s);
        if (i + 1 < l->n && strchr("{%#", l->s[i + 1]) && l->s[i + 1]) return i;
        i++;
    }
    return l->n;
}

int jinja_lex(struct tokens *out, const char *source, size_t n, struct arena *arena, struct err *e)
{
    struct lexer l = {
        .s = source, .n = n, .line_start = true, .out = out, .arena = arena, .err = e};
    while (l.at < n && l.rc == 0) {
        size_t tag = next_tag(&l), marker = 0;
        bool is_print = lex_see(&l, tag, "{{");
        size_t end = data_end(&l, l.at, tag, is_print);
        if (end > l.at) lex_push(&l, T_DATA, l.at, end - l.at);
        l.at = tag;
        if (tag >= n) break;
        if (lex_see(&l, tag, "{#"))
            lex_comment(&l);
        else if (see_word_tag(&l, tag, "raw", &marker))
            lex_raw(&l, marker);
        else
            lex_tag(&l, is_print);
    }
    lex_push(&l, T_END, n, 0);
    return l.rc;
}
