/* gbnf.c - parser of GBNF (llama.cpp's grammars/README.md), by recursive descent:
 *
 *   rules    name ::= either
 *   either   sequence | sequence ...
 *   sequence part part ...
 *   part     "text"  [class]  .  name  (either)  <token>  <[id]>  !<token>
 *            each with * + ? {n} {n,} {n,m}
 *
 * A rule ends before a name and ::=, which begin the next rule. A line end between parts is white
 * space. A # begins a comment up to the end of the line. */
#include "gbnf.h"

#include "base/text.h"
#include "base/utf8.h"
#include "charset.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DEPTH_MAX limits the parser's use of the stack. REPEAT_MAX limits a repetition of characters,
 * which is an expression with a counter. The limit for a repetition of rules is lower, because it
 * is expanded. */
enum { DEPTH_MAX = 200, REPEAT_MAX = 10000, RULE_REPEAT_MAX = 2000 };

/* Pointers are borrowed. */
struct gbnf_parser {
    struct cfg *g;
    const char *s;
    size_t n, at;
    token_id_fn *token;
    const void *arg;
    int depth;
    struct err *e;
};

static int fail(const struct gbnf_parser *p, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int fail(const struct gbnf_parser *p, int code, const char *fmt, ...)
{
    char why[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    int line = 1;
    for (size_t i = 0; i < p->at && i < p->n; i++) line += p->s[i] == '\n';
    return err_set(p->e, code, "grammar, line %d: %s", line, why);
}

/* Fail with "expected WHAT, got FOUND" for the next character. */
static int expected(const struct gbnf_parser *p, const char *what)
{
    char found[24];
    return fail(p, ERR_FORMAT, "expected %s, got %s", what,
                utf8_first_text(p->s + p->at, p->n - p->at, found));
}

/* ---- characters ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static char peek(const struct gbnf_parser *p)
{
    return p->at < p->n ? p->s[p->at] : 0;
}

/* Skip white space and comments. Skip line ends only if `lines` is true. */
static void skip_space(struct gbnf_parser *p, bool lines)
{
    for (; p->at < p->n; p->at++) {
        char c = p->s[p->at];
        if (c == '#') {
            while (p->at < p->n && p->s[p->at] != '\n') p->at++;
            p->at--;
        } else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) {
            return;
        }
    }
}

/* Skip the text and return true if it is next. */
static bool accept_text(struct gbnf_parser *p, const char *text)
{
    size_t n = strlen(text);
    if (p->n - p->at < n || memcmp(p->s + p->at, text, n) != 0) return false;
    p->at += n;
    return true;
}

/* Read a code point of n hexadecimal digits. */
static int read_hex(struct gbnf_parser *p, int n, uint32_t *cp)
{
    size_t n_read = hex_read(p->s + p->at, p->n - p->at, (size_t)n, cp);
    p->at += n_read;
    if (n_read < (size_t)n) return expected(p, "hexadecimal digits");
    return *cp > CODE_POINT_MAX ? fail(p, ERR_FORMAT, "code point out of range") : 0;
}

/* Read a character or an escape. */
static int read_char(struct gbnf_parser *p, uint32_t *cp)
{
    static const char from[] = "tnr\\\"[]", to[] = "\t\n\r\\\"[]";
    if (!accept_text(p, "\\")) {
        int k = utf8_decode(p->s + p->at, p->n - p->at, cp);
        if (k <= 0) return fail(p, ERR_FORMAT, "not UTF-8");
        p->at += (size_t)k;
        return 0;
    }
    char c = peek(p);
    const char *at = c ? strchr(from, c) : NULL;
    p->at++;
    if (at) return *cp = (uint8_t)to[at - from], 0;
    if (c == 'x') return read_hex(p, 2, cp);
    if (c == 'u') return read_hex(p, 4, cp);
    if (c == 'U') return read_hex(p, 8, cp);
    return fail(p, ERR_FORMAT, "unknown escape");
}

/* ---- parts ---- */

static int parse_either(struct gbnf_parser *p, struct cfg_item *out);

/* Parse a text after its opening quote, through the closing quote. */
static int parse_text(struct gbnf_parser *p, struct cfg_item *out)
{
    struct exprs *x = &p->g->m.x;
    VEC(uint32_t) v = {0};
    uint32_t cp, e = EXPR_EPSILON;
    int rc = 0;
    while (rc == 0 && !accept_text(p, "\"")) {
        rc = p->at < p->n ? read_char(p, &cp) : expected(p, "a closing quote");
        if (rc == 0 && !vec_push(&v, cp)) rc = err_memory(p->e, "a grammar", 0);
    }
    for (size_t i = v.n; rc == 0 && i > 0; i--)
        e = expr_cat(x, expr_chars(x, v.v[i - 1], v.v[i - 1]), e);
    vec_deinit(&v);
    *out = (struct cfg_item){false, e};
    return rc;
}

/* Parse a class after its [, through its ]. */
static int parse_class(struct gbnf_parser *p, struct cfg_item *out)
{
    struct charset c = {0};
    bool negated = accept_text(p, "^");
    int rc = 0;
    while (rc == 0 && !accept_text(p, "]")) {
        uint32_t lo, hi;
        rc = p->at < p->n ? read_char(p, &lo) : expected(p, "]");
        hi = lo;
        if (rc == 0 && peek(p) == '-' && p->at + 1 < p->n && p->s[p->at + 1] != ']') {
            p->at++;
            rc = read_char(p, &hi);
        }
        if (rc == 0 && lo > hi) rc = fail(p, ERR_FORMAT, "range in descending order");
        if (rc == 0) charset_add(&c, lo, hi);
    }
    if (negated) charset_invert(&c);
    if (rc == 0) *out = (struct cfg_item){false, charset_expr(&c, &p->g->m.x)};
    charset_deinit(&c);
    return rc;
}

uint32_t gbnf_token_expr(struct exprs *x, uint32_t id, bool negated)
{
    uint8_t b[5] = {TOKEN_MARK, (uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8),
                    (uint8_t)id};
    uint32_t one = expr_bytes(x, b, 5);
    if (!negated) return one;
    uint32_t any = expr_cat(x, expr_range(x, TOKEN_MARK, TOKEN_MARK),
                            expr_rep(x, expr_range(x, 0, 255), 4, 4));
    return expr_or(x, expr_any_char(x), expr_and(x, any, expr_not(x, one)));
}

int64_t gbnf_token_id(const char *text, size_t n, token_id_fn *token, const void *arg)
{
    if (n < 4 || text[1] != '[') return token ? token(arg, text, n) : -1;
    int64_t id = 0;
    size_t i = 2;
    for (; i < n && text[i] >= '0' && text[i] <= '9'; i++)
        id = id > 1 << 27 ? id : id * 10 + (text[i] - '0');
    return i > 2 && n - i == 2 && memcmp(text + i, "]>", 2) == 0 ? id : -1;
}

/* Parse <[id]> or <name>, after its <. */
static int parse_token(struct gbnf_parser *p, bool negated, struct cfg_item *out)
{
    size_t from = p->at - 1;
    const char *end = memchr(p->s + from, '>', p->n - from);
    if (!end) return expected(p, ">");
    p->at = (size_t)(end - p->s) + 1;
    int64_t id = gbnf_token_id(p->s + from, p->at - from, p->token, p->arg);
    if (id < 0) return fail(p, ERR_FORMAT, "token not found in this tokenizer");
    *out = (struct cfg_item){false, gbnf_token_expr(&p->g->m.x, (uint32_t)id, negated)};
    return 0;
}

static int parse_group(struct gbnf_parser *p, struct cfg_item *out)
{
    if (++p->depth > DEPTH_MAX) return fail(p, ERR_LIMIT, "nested too deeply");
    skip_space(p, true);
    int rc = parse_either(p, out);
    skip_space(p, true);
    if (rc == 0 && !accept_text(p, ")")) rc = expected(p, ")");
    p->depth--;
    return rc;
}

static int parse_atom(struct gbnf_parser *p, struct cfg_item *out)
{
    if (accept_text(p, "\"")) return parse_text(p, out);
    if (accept_text(p, "[")) return parse_class(p, out);
    if (accept_text(p, "(")) return parse_group(p, out);
    if (accept_text(p, ".")) return *out = (struct cfg_item){false, expr_any_char(&p->g->m.x)}, 0;
    if (accept_text(p, "!<")) return parse_token(p, true, out);
    if (accept_text(p, "<")) return parse_token(p, false, out);
    size_t from = p->at;
    while (is_word(peek(p))) p->at++;
    if (p->at == from) return expected(p, "a string, a class, a rule or a group");
    *out = (struct cfg_item){true, cfg_rule_named(p->g, p->s + from, p->at - from)};
    return 0;
}

/* ---- repetition, sequence, choice ---- */

/* Read a number. Return false if no digit is next. A number above REPEAT_MAX remains above
 * REPEAT_MAX, but is not exact. */
static bool read_number(struct gbnf_parser *p, uint32_t *x)
{
    size_t from = p->at;
    for (*x = 0; peek(p) >= '0' && peek(p) <= '9'; p->at++)
        *x = *x > REPEAT_MAX ? *x : *x * 10 + (uint32_t)(peek(p) - '0');
    return p->at > from;
}

/* Read the counts of a repetition after its {, through its }. */
static int read_counts(struct gbnf_parser *p, uint32_t *min, uint32_t *max)
{
    skip_space(p, false);
    if (!read_number(p, min)) return expected(p, "a number");
    *max = *min;
    skip_space(p, false);
    if (accept_text(p, ",")) {
        skip_space(p, false);
        if (!read_number(p, max)) *max = EXPR_INF;
        skip_space(p, false);
    }
    if (!accept_text(p, "}")) return expected(p, "}");
    if (*max < *min) return fail(p, ERR_FORMAT, "repetition in descending order");
    return *min > REPEAT_MAX || (*max != EXPR_INF && *max > REPEAT_MAX)
               ? fail(p, ERR_LIMIT, "repetition: must be at most %d, got at least %u", REPEAT_MAX,
                      *min > REPEAT_MAX ? *min : *max)
               : 0;
}

static int parse_repeated(struct gbnf_parser *p, struct cfg_item *out)
{
    int rc = parse_atom(p, out);
    while (rc == 0) {
        uint32_t min = 0, max = EXPR_INF;
        if (accept_text(p, "+"))
            min = 1;
        else if (accept_text(p, "?"))
            max = 1;
        else if (accept_text(p, "{"))
            rc = read_counts(p, &min, &max);
        else if (!accept_text(p, "*"))
            break;
        if (rc == 0 && out->is_rule &&
            (min > RULE_REPEAT_MAX || (max != EXPR_INF && max > RULE_REPEAT_MAX)))
            rc = fail(p, ERR_LIMIT, "repetition of a rule: must be at most %d, got %u",
                      RULE_REPEAT_MAX, min > RULE_REPEAT_MAX ? min : max);
        if (rc == 0) *out = cfg_repeat(p->g, *out, min, max);
    }
    return rc;
}

/* Return true if a name and ::= follow, which begin a rule. */
static bool at_rule(const struct gbnf_parser *p)
{
    size_t i = p->at;
    while (i < p->n && is_word(p->s[i])) i++;
    if (i == p->at) return false;
    while (i < p->n && (p->s[i] == ' ' || p->s[i] == '\t')) i++;
    return p->n - i >= 3 && memcmp(p->s + i, "::=", 3) == 0;
}

/* Move to the next part of a sequence. Return false at the end of the sequence. Skip line ends
 * before a part, which llama.cpp allows only in parentheses, after ::= and after |. */
static bool at_part(struct gbnf_parser *p)
{
    size_t before = p->at;
    skip_space(p, true);
    if (p->at >= p->n || peek(p) == '|' || peek(p) == ')') return false;
    if (!at_rule(p)) return true;
    if (p->depth == 0) p->at = before;
    return false;
}

static int parse_sequence(struct gbnf_parser *p, struct cfg_item *out)
{
    VEC(struct cfg_item) v = {0};
    int rc = 0;
    while (rc == 0 && at_part(p)) {
        struct cfg_item one;
        rc = parse_repeated(p, &one);
        if (rc == 0 && !vec_push(&v, one)) rc = err_memory(p->e, "a grammar", 0);
    }
    *out = (struct cfg_item){false, EXPR_EPSILON};
    if (rc == 0 && v.n > 0) *out = cfg_sequence(p->g, v.v, v.n);
    vec_deinit(&v);
    return rc;
}

static int parse_either(struct gbnf_parser *p, struct cfg_item *out)
{
    VEC(struct cfg_item) v = {0};
    int rc;
    do {
        struct cfg_item one = {0};
        rc = parse_sequence(p, &one);
        if (rc == 0 && !vec_push(&v, one)) rc = err_memory(p->e, "a grammar", 0);
        if (rc == 0) skip_space(p, true);
    } while (rc == 0 && accept_text(p, "|"));
    if (rc == 0) *out = cfg_either(p->g, v.v, v.n);
    vec_deinit(&v);
    return rc;
}

/* Return the error of the expressions made so far; 0 if none. */
static int check_limits(const struct gbnf_parser *p)
{
    struct err why;
    int rc = exprs_error(&p->g->m.x, &why);
    return rc ? fail(p, rc, "%s", why.text) : 0;
}

static int parse_rule(struct gbnf_parser *p)
{
    size_t from = p->at;
    while (is_word(peek(p))) p->at++;
    size_t n = p->at - from;
    struct cfg_item body;
    if (n == 0) return expected(p, "the name of a rule");
    skip_space(p, false);
    if (!accept_text(p, "::=")) return expected(p, "::=");
    uint32_t rule = cfg_rule_named(p->g, p->s + from, n);
    int rc = check_limits(p);
    if (rc != 0) return rc;
    if (p->g->rule.v[rule].defined) return fail(p, ERR_FORMAT, "the rule is defined twice");
    skip_space(p, true);
    rc = parse_either(p, &body);
    if (rc == 0) cfg_add(p->g, rule, &body, 1);
    return rc ? rc : check_limits(p);
}

int gbnf_read(struct cfg *g, const char *text, size_t n, token_id_fn *token, const void *arg,
              uint32_t *root, struct err *e)
{
    struct gbnf_parser p = {.g = g, .s = text, .n = n, .token = token, .arg = arg, .e = e};
    int rc = utf8_valid(text, n) ? 0 : fail(&p, ERR_FORMAT, "not UTF-8");
    struct strmap outer = g->name_of; /* names of rules are local to this text */
    size_t first = g->rule.n;
    g->name_of = (struct strmap){0};
    *root = cfg_rule_named(g, "root", 4);
    for (skip_space(&p, true); rc == 0 && p.at < n; skip_space(&p, true)) rc = parse_rule(&p);
    strmap_deinit(&g->name_of);
    g->name_of = outer;
    for (size_t i = first; rc == 0 && i < g->rule.n; i++)
        if (!g->rule.v[i].defined)
            rc = err_set(e, ERR_FORMAT, "grammar: rule %s not found", g->rule.v[i].name);
    return rc;
}

int gbnf_parse(struct cfg *g, const char *text, size_t n, token_id_fn *token, const void *arg,
               struct err *e)
{
    uint32_t root; /* rule `root` has number 0, the start of a cfg */
    int rc = gbnf_read(g, text, n, token, arg, &root, e);
    return rc ? rc : cfg_finish(g, e);
}
