/* lark.c - parser of Lark's grammars (https://lark-parser.readthedocs.io/en/stable/grammar.html);
 * see lark.h.
 *
 *   text --scan--> definitions (name, range of the body) --build--> rules of a cfg
 *
 * The build begins with the start rule. A body is parsed at the first use of its name. The body of
 * a terminal is parsed immediately. The body of a rule is parsed later, from a queue. The body of a
 * template is parsed once per list of arguments. An unused definition is therefore not parsed, and
 * may contain unsupported constructs. */
#include "lark.h"

#include "base/text.h"
#include "base/utf8.h"
#include "charset.h"
#include "regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DEPTH_MAX limits the parser's use of the stack. A repetition is expanded to rules, so REPEAT_MAX
 * limits the work for one number, and RULES_MAX limits the total work. Modules (%import) and
 * parameters of a template are in arrays of fixed size. */
enum { DEPTH_MAX = 200, REPEAT_MAX = 2000, MODULES_MAX = 32, RULES_MAX = 100000, PARAMS_MAX = 16 };

struct text_range {
    size_t at, n;
};

enum def_state { DEF_NEW, DEF_OPEN, DEF_DONE };

/* Definition of a rule, a template or a terminal in a module. */
struct def {
    struct text_range name;
    /* offsets in the module's text; params: offset after the {, 0 if there are no parameters */
    size_t params, body, end;
    bool terminal, declared, imported;
    uint32_t from_module, from_def; /* module and definition of an imported name */
    /* state of a terminal: DEF_*; DEF_OPEN while its body is parsed */
    uint8_t state;
    /* true if the terminal has a lazy repetition, and true for a greedy one */
    bool lazy, greedy;
    uint32_t expr; /* expression of a terminal that is DEF_DONE */
};

struct module {
    const char *path; /* path of the module, in the arena; NULL for the grammar itself */
    const char *s;    /* borrowed; text of n bytes */
    char *owned;      /* owned: the text s if it is allocated; otherwise NULL */
    size_t n;
    struct strmap of; /* indexes into def by name */
    VEC(struct def) def;
};

/* A parameter of a template, bound to an argument. */
struct argument {
    const char *name; /* borrowed: in the text of the module; n bytes */
    size_t n;
    struct cfg_item part;
};

/* A rule in use, whose body is not parsed yet. */
struct lark_job {
    uint32_t rule, module, def, n_bound;
    struct argument *bound; /* arguments of the parameters, in the cfg's arena */
};

/* The position of the parser, and the state of the definition around it. */
struct lark_place {
    uint32_t module;
    size_t at, end;
    const struct argument *bound; /* borrowed [n_bound] */
    uint32_t n_bound;
    bool terminal; /* true inside a terminal's definition */
    /* true if the terminal has a lazy repetition so far, and true for a greedy one */
    bool lazy, greedy;
};

/* Pointers are borrowed. */
struct lark_parser {
    struct cfg *g;
    const struct lark_options *o;
    struct module module[MODULES_MAX];
    uint32_t n_module;
    VEC(struct lark_job) job;       /* queue of rules without parsed bodies */
    VEC(struct text_range) ignored; /* bodies of %ignore in the grammar itself */
    uint32_t ignore;                /* expression: texts of %ignore that may follow a terminal */
    struct lark_place in;
    int depth;
    struct err *e;
};

/* Lark's modules `common` and `unicode`. The regular expressions differ from those of Lark, but
 * match the same texts. */
static const char COMMON[] = "DIGIT: /[0-9]/\nHEXDIGIT: /[a-fA-F0-9]/\nINT: /[0-9]+/\n"
                             "SIGNED_INT: /[+-]?[0-9]+/\nDECIMAL: /[0-9]+\\.[0-9]*|\\.[0-9]+/\n"
                             "_EXP: /[eE][+-]?[0-9]+/\nFLOAT: INT _EXP | DECIMAL _EXP?\n"
                             "SIGNED_FLOAT: /[+-]?/ FLOAT\nNUMBER: FLOAT | INT\n"
                             "SIGNED_NUMBER: /[+-]?/ NUMBER\n"
                             "ESCAPED_STRING: /\"([^\"\\\\\\n]|\\\\[^\\n])*\"/\n"
                             "LCASE_LETTER: /[a-z]/\nUCASE_LETTER: /[A-Z]/\nLETTER: /[A-Za-z]/\n"
                             "WORD: /[A-Za-z]+/\nCNAME: /[_A-Za-z][_A-Za-z0-9]*/\n"
                             "WS_INLINE: /[ \\t]+/\nWS: /[ \\t\\f\\r\\n]+/\nCR: /\\r/\nLF: /\\n/\n"
                             "NEWLINE: /(\\r?\\n)+/\nSH_COMMENT: /#[^\\n]*/\n"
                             "CPP_COMMENT: /\\/\\/[^\\n]*/\n"
                             "C_COMMENT: /\\/\\*([^*]|\\*+[^*\\/])*\\*+\\//\n"
                             "SQL_COMMENT: /--[^\\n]*/\n";
static const char UNICODE[] = "WS_INLINE: /[ \\t\\xa0]+/\nWS: /[ \\t\\xa0\\f\\r\\n]+/\n";

static struct module *here(struct lark_parser *p)
{
    return &p->module[p->in.module];
}

/* Set an error with the line and column of the current position, and at most 60 of the n bytes of
 * `name`. Return the code. */
static int fail(struct lark_parser *p, int code, const char *why, const char *name, size_t n)
{
    const struct module *m = here(p);
    int line = 1, column = 1;
    for (size_t i = 0; i < p->in.at && i < m->n; i++, column++)
        if (m->s[i] == '\n') line++, column = 0;
    return err_set(p->e, code, "Lark grammar%s%s, line %d, column %d: %s%s%.*s", m->path ? " " : "",
                   m->path ? m->path : "", line, column, why, n ? " " : "", (int)(n < 60 ? n : 60),
                   name);
}

static int bad(struct lark_parser *p, const char *why)
{
    return fail(p, ERR_FORMAT, why, "", 0);
}

/* Fail with "expected WHAT, got FOUND" for the next character. */
static int expected(struct lark_parser *p, const char *what)
{
    char text[120], found[24];
    snprintf(text, sizeof text, "expected %s, got %s", what,
             utf8_first_text(here(p)->s + p->in.at, p->in.end - p->in.at, found));
    return bad(p, text);
}

static int no_memory(struct lark_parser *p)
{
    expr_fail(&p->g->m.x, EXPR_NO_MEMORY);
    return err_memory(p->e, "a grammar", 0);
}

/* ---- characters ---- */

static char peek(struct lark_parser *p)
{
    return p->in.at < p->in.end ? here(p)->s[p->in.at] : 0;
}

/* Skip the text and return true if it is next. */
static bool accept_text(struct lark_parser *p, const char *text)
{
    size_t n = strlen(text);
    if (p->in.end - p->in.at < n || memcmp(here(p)->s + p->in.at, text, n) != 0) return false;
    p->in.at += n;
    return true;
}

static void skip_line(struct lark_parser *p)
{
    while (p->in.at < p->in.end && peek(p) != '\n') p->in.at++;
}

/* Skip white space and comments. Skip line ends only if `lines` is true. */
static void skip_space(struct lark_parser *p, bool lines)
{
    for (;;) {
        char c = peek(p);
        bool comment =
            c == '#' || (c == '/' && p->in.at + 1 < p->in.end && here(p)->s[p->in.at + 1] == '/');
        if (comment)
            skip_line(p);
        else if (c == ' ' || c == '\t' || c == '\f' || c == '\r' || (lines && c == '\n'))
            p->in.at++;
        else
            return;
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static struct text_range take_word(struct lark_parser *p)
{
    struct text_range w = {p->in.at, 0};
    while (is_word(peek(p))) p->in.at++;
    w.n = p->in.at - w.at;
    return w;
}

/* Return true if the name is a terminal's name. The first character of a terminal's name, except _,
 * is a capital letter. */
static bool is_terminal_name(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] == '_') i++;
    return i < n && s[i] >= 'A' && s[i] <= 'Z';
}

/* Skip a literal or a regular expression, from its opening quote through its closing quote. The
 * expression's flags are not skipped. */
static int skip_quoted(struct lark_parser *p, char quote)
{
    size_t from = p->in.at++;
    for (; p->in.at < p->in.end; p->in.at++) {
        char c = peek(p);
        if (c == '\n') break;
        if (c == '\\') p->in.at++;
        if (c == quote) return p->in.at++, 0;
    }
    p->in.at = from;
    return bad(p, quote == '"' ? "a literal without its closing quote"
                               : "a regular expression without its /");
}

/* Skip a body, up to a line end that is outside of brackets and not followed by |. Set *end to the
 * offset of the line end, or of the end of the text. */
static int skip_body(struct lark_parser *p, size_t *end)
{
    int depth = 0, rc = 0;
    while (rc == 0 && p->in.at < p->in.end) {
        skip_space(p, false);
        *end = p->in.at;
        char c = peek(p);
        if (c == '\n') {
            skip_space(p, true);
            if (depth == 0 && peek(p) != '|') return 0;
        } else if (c == '"' || c == '/') {
            rc = skip_quoted(p, c);
        } else {
            depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
            p->in.at += p->in.at < p->in.end;
        }
        *end = p->in.at;
    }
    return rc;
}

/* ---- definitions ---- */

static int add_def(struct lark_parser *p, struct def d, const char *name, size_t n)
{
    struct module *m = here(p);
    if (strmap_get(&m->of, name, n)) return fail(p, ERR_FORMAT, "defined twice:", name, n);
    if (!strmap_put(&m->of, name, n, (uint32_t)m->def.n) || !vec_push(&m->def, d))
        return no_memory(p);
    return 0;
}

/* Return the definition at the end of a chain of imports. Set *module and *def to its numbers. */
static const struct def *resolve(struct lark_parser *p, uint32_t *module, uint32_t *def)
{
    const struct def *d = &p->module[*module].def.v[*def];
    for (; d->imported; d = &p->module[*module].def.v[*def])
        *module = d->from_module, *def = d->from_def;
    return d;
}

static int scan_module(struct lark_parser *p, uint32_t module);

/* Set *out to the number of the module with this path. Read and scan a new module. The path must be
 * valid until the parser is closed. */
static int open_module(struct lark_parser *p, const char *path, uint32_t *out)
{
    struct module m = {.path = path};
    for (*out = 0; *out < p->n_module; ++*out)
        if (p->module[*out].path && strcmp(p->module[*out].path, path) == 0) return 0;
    if (p->n_module == MODULES_MAX)
        return fail(p, ERR_LIMIT, "must import at most 32 modules, got more", "", 0);
    if (strcmp(path, "common") == 0)
        m.s = COMMON, m.n = sizeof COMMON - 1;
    else if (strcmp(path, "unicode") == 0)
        m.s = UNICODE, m.n = sizeof UNICODE - 1;
    else if (p->o->import) {
        int rc = p->o->import(p->o->import_arg, path, &m.owned, &m.n, p->e);
        if (rc) return rc;
        m.s = m.owned;
    }
    if (!m.s)
        return fail(p, ERR_UNSUPPORTED, "only common and unicode can be imported here, got", path,
                    strlen(path));
    p->module[p->n_module] = m;
    return scan_module(p, p->n_module++);
}

/* Define `as` in the current module as an import of `name` from the module with this path. Both
 * names are ranges of the current text. */
static int import_name(struct lark_parser *p, const char *path, struct text_range name,
                       struct text_range as)
{
    const char *s = here(p)->s;
    uint32_t module = 0;
    size_t at = p->in.at;
    int rc = open_module(p, path, &module);
    if (rc) return rc;
    const uint32_t *i = strmap_get(&p->module[module].of, s + name.at, name.n);
    p->in.at = name.at;
    if (!i) return fail(p, ERR_FORMAT, "this module does not define", s + name.at, name.n);
    struct def d = {.name = as,
                    .imported = true,
                    .from_module = module,
                    .from_def = *i,
                    .terminal = is_terminal_name(s + as.at, as.n)};
    rc = add_def(p, d, s + as.at, as.n);
    p->in.at = at;
    return rc;
}

/* Return the path of the module whose dotted name is text [at, end): the names joined by /. A
 * relative path is a file and ends with ".lark". NULL if memory is exhausted. */
static char *module_path(struct lark_parser *p, size_t at, size_t end, bool relative)
{
    size_t n = end - at;
    char *path = arena_push(&p->g->arena, n + 6, 1);
    if (!path) return NULL;
    for (size_t i = 0; i < n; i++) path[i] = here(p)->s[at + i] == '.' ? '/' : here(p)->s[at + i];
    memcpy(path + n, relative ? ".lark" : "", relative ? 6 : 1);
    return path;
}

/* Read an import of one name, with or without an alias, or of a list of names. */
static int scan_import(struct lark_parser *p)
{
    skip_space(p, false);
    bool relative = accept_text(p, ".");
    size_t from = p->in.at, end = from;
    struct text_range name = take_word(p);
    while (name.n && accept_text(p, ".")) end = p->in.at - 1, name = take_word(p);
    if (name.n == 0) return expected(p, "the name of a module");
    bool list = (skip_space(p, false), accept_text(p, "("));
    char *path = module_path(p, from, list ? name.at + name.n : end, relative);
    if (!path) return no_memory(p);
    if (!list && end == from) return expected(p, "a name after the module's");
    int rc = 0;
    while (rc == 0 && list) {
        skip_space(p, true);
        name = take_word(p);
        if (name.n == 0) return expected(p, "a name");
        rc = import_name(p, path, name, name);
        skip_space(p, true);
        if (accept_text(p, ")")) return rc;
        if (rc == 0 && !accept_text(p, ",")) rc = expected(p, ", or )");
    }
    struct text_range as = name;
    if (accept_text(p, "->")) {
        skip_space(p, false);
        as = take_word(p);
        if (as.n == 0) return expected(p, "a name");
    }
    return rc ? rc : import_name(p, path, name, as);
}

static int scan_declare(struct lark_parser *p)
{
    int rc = 0;
    while (rc == 0) {
        skip_space(p, false);
        struct text_range name = take_word(p);
        if (name.n == 0) break;
        rc = add_def(p, (struct def){.name = name, .declared = true, .terminal = true},
                     here(p)->s + name.at, name.n);
    }
    return rc;
}

/* Read a statement that begins with %. %ignore of an imported module has no effect. */
static int scan_statement(struct lark_parser *p)
{
    if (accept_text(p, "%import")) return scan_import(p);
    if (accept_text(p, "%declare")) return scan_declare(p);
    if (accept_text(p, "%ignore")) {
        struct text_range body = {p->in.at, 0};
        size_t end = 0;
        int rc = skip_body(p, &end);
        body.n = end - body.at;
        if (rc == 0 && p->in.module == 0 && !vec_push(&p->ignored, body)) rc = no_memory(p);
        return rc;
    }
    size_t n = 1;
    while (p->in.at + n < p->in.end && is_word(here(p)->s[p->in.at + n])) n++;
    return fail(p, ERR_UNSUPPORTED, "not supported:", here(p)->s + p->in.at, n);
}

/* Read the head of a definition, and skip its body. */
static int scan_definition(struct lark_parser *p)
{
    struct def d = {0};
    while (peek(p) == '?' || peek(p) == '!') p->in.at++;
    d.name = take_word(p);
    const char *name = here(p)->s + d.name.at;
    if (d.name.n == 0) return expected(p, "the name of a rule or terminal");
    d.terminal = is_terminal_name(name, d.name.n);
    if (accept_text(p, "{")) {
        d.params = p->in.at;
        while (p->in.at < p->in.end && peek(p) != '}' && peek(p) != '\n') p->in.at++;
        if (!accept_text(p, "}")) return bad(p, "parameters without their }");
        if (d.terminal)
            return fail(p, ERR_UNSUPPORTED, "templates of terminals: not supported yet", "", 0);
    }
    if (accept_text(p, "."))
        for (accept_text(p, "-"); peek(p) >= '0' && peek(p) <= '9';)
            p->in.at++; /* priority: ignored */
    skip_space(p, false);
    if (peek(p) == '[') return fail(p, ERR_UNSUPPORTED, "attributes: not supported yet", "", 0);
    if (!accept_text(p, ":")) return expected(p, ":");
    d.body = p->in.at;
    int rc = skip_body(p, &d.end);
    size_t at = p->in.at;
    p->in.at = d.name.at;
    if (rc == 0) rc = add_def(p, d, name, d.name.n);
    if (rc == 0) p->in.at = at;
    return rc;
}

/* Read all definitions and statements of a module. After an error, p->in remains at the place of
 * the error. */
static int scan_module(struct lark_parser *p, uint32_t module)
{
    struct lark_place before = p->in;
    p->in = (struct lark_place){.module = module, .end = p->module[module].n};
    int rc = utf8_valid(here(p)->s, here(p)->n) ? 0 : bad(p, "not UTF-8");
    if (rc == 0 && ++p->depth > DEPTH_MAX) rc = fail(p, ERR_LIMIT, "nested too deeply", "", 0);
    for (skip_space(p, true); rc == 0 && p->in.at < p->in.end; skip_space(p, true))
        rc = peek(p) == '%' ? scan_statement(p) : scan_definition(p);
    p->depth--;
    if (rc == 0) p->in = before;
    return rc;
}

/* ---- atoms ---- */

static int parse_either(struct lark_parser *p, struct cfg_item *out);

/* Set *out to the expression that a rule uses for a terminal. A lazy terminal has only the texts
 * without a shorter text of the terminal as a prefix. Texts of %ignore may follow the terminal. */
static int finish_terminal(struct lark_parser *p, uint32_t e, bool lazy, bool greedy,
                           struct cfg_item *out)
{
    struct exprs *x = &p->g->m.x;
    if (lazy && greedy)
        return fail(p, ERR_UNSUPPORTED,
                    "lazy and greedy repetitions in one terminal: not supported yet", "", 0);
    uint32_t any = expr_rep(x, expr_any_char(x), 1, EXPR_INF);
    if (lazy) e = expr_and(x, e, expr_not(x, expr_cat(x, e, any)));
    *out = (struct cfg_item){false, expr_cat(x, e, p->ignore)};
    return 0;
}

/* Set *out to the expression for a literal or pattern in a body. Inside a terminal the expression
 * is unchanged. In a rule it is a terminal without a name. */
static int finish_atom(struct lark_parser *p, uint32_t e, bool lazy, bool greedy,
                       struct cfg_item *out)
{
    if (!p->in.terminal) return finish_terminal(p, e, lazy, greedy, out);
    p->in.lazy |= lazy, p->in.greedy |= greedy;
    *out = (struct cfg_item){false, e};
    return 0;
}

static int read_hex(struct lark_parser *p, int n, uint32_t *cp)
{
    size_t n_read = hex_read(here(p)->s + p->in.at, p->in.end - p->in.at, (size_t)n, cp);
    p->in.at += n_read;
    if (n_read < (size_t)n) return expected(p, "hexadecimal digits");
    return *cp > 0x10ffff || (*cp >= 0xd800 && *cp < 0xe000) ? bad(p, "character not found") : 0;
}

static int read_char(struct lark_parser *p, uint32_t *cp)
{
    static const char from[] = "tnrfvab\\\"/'0", to[] = "\t\n\r\f\v\a\b\\\"/'";
    if (!accept_text(p, "\\")) {
        int k = utf8_decode(here(p)->s + p->in.at, p->in.end - p->in.at, cp);
        if (k <= 0) return bad(p, "not UTF-8");
        p->in.at += (size_t)k;
        return 0;
    }
    char c = peek(p);
    const char *at = c ? strchr(from, c) : NULL;
    p->in.at++;
    if (at) return *cp = (uint8_t)to[at - from], 0;
    if (c == 'x') return read_hex(p, 2, cp);
    if (c == 'u') return read_hex(p, 4, cp);
    if (c == 'U') return read_hex(p, 8, cp);
    return bad(p, "unknown escape");
}

/* A literal: its code points, and true if other cases of the code points also match. */
struct text {
    VEC(uint32_t) cp;
    bool fold;
};

/* Read a literal and its flag i. An i before a word character is not a flag but the beginning of a
 * name. */
static int read_text(struct lark_parser *p, struct text *t)
{
    int rc = accept_text(p, "\"") ? 0 : expected(p, "a literal");
    while (rc == 0 && !accept_text(p, "\"")) {
        uint32_t cp;
        rc = peek(p) && peek(p) != '\n' ? read_char(p, &cp)
                                        : bad(p, "a literal without its closing quote");
        if (rc == 0 && !vec_push(&t->cp, cp)) rc = no_memory(p);
    }
    t->fold = rc == 0 && !is_word(p->in.at + 1 < p->in.end ? here(p)->s[p->in.at + 1] : 0) &&
              accept_text(p, "i");
    return rc;
}

static uint32_t text_expr(struct lark_parser *p, const struct text *t)
{
    struct exprs *x = &p->g->m.x;
    uint32_t e = EXPR_EPSILON;
    for (size_t i = t->cp.n; i > 0; i--) {
        struct charset one = {0};
        charset_add(&one, t->cp.v[i - 1], t->cp.v[i - 1]);
        if (t->fold) charset_fold(&one);
        e = expr_cat(x, charset_expr(&one, x), e);
        charset_deinit(&one);
    }
    return e;
}

/* Parse "text", "text"i or "a".."z". */
static int parse_text(struct lark_parser *p, struct cfg_item *out)
{
    struct text a = {0}, b = {0};
    int rc = read_text(p, &a);
    uint32_t e = rc == 0 ? text_expr(p, &a) : EXPR_EMPTY;
    size_t at = p->in.at;
    skip_space(p, false);
    if (rc == 0 && accept_text(p, "..")) {
        skip_space(p, false);
        rc = read_text(p, &b);
        if (rc == 0 && (a.cp.n != 1 || b.cp.n != 1 || a.cp.v[0] > b.cp.v[0]))
            rc = bad(p, "a range is of one character to a later one");
        if (rc == 0) e = expr_chars(&p->g->m.x, a.cp.v[0], b.cp.v[0]);
    } else {
        p->in.at = at;
    }
    vec_deinit(&a.cp);
    vec_deinit(&b.cp);
    return rc ? rc : finish_atom(p, e, false, false, out);
}

/* Parse /expression/ and its flags. The result is a group (?flags:expression) of Rust's syntax. */
static int parse_regex(struct lark_parser *p, struct cfg_item *out)
{
    size_t from = p->in.at + 1;
    int rc = skip_quoted(p, '/');
    if (rc) return rc;
    size_t n = p->in.at - 1 - from, flags = p->in.at;
    while (peek(p) && strchr("imslux", peek(p))) p->in.at++;
    struct buf b = {0};
    struct regex_langs l;
    struct err e = {0};
    if (memchr(here(p)->s + flags, 'l', p->in.at - flags))
        return fail(p, ERR_UNSUPPORTED, "flag l: not supported yet", "", 0);
    buf_addf(&b, "(?%.*s:", (int)(p->in.at - flags), here(p)->s + flags);
    buf_add(&b, here(p)->s + from, n);
    buf_add_char(&b, ')');
    rc = b.failed ? no_memory(p) : regex_parse(&p->g->m.x, b.data, b.n, REGEX_RUST, &l, &e);
    buf_deinit(&b);
    p->in.at = from;
    if (rc && e.text[0]) return fail(p, rc, e.text, "", 0);
    if (rc) return rc;
    if (l.asserts)
        return fail(p, ERR_UNSUPPORTED, "^, $ and \\b in a terminal: not supported yet", "", 0);
    p->in.at += n + 1;
    while (peek(p) && strchr("imslux", peek(p))) p->in.at++;
    return finish_atom(p, l.whole, l.lazy, l.greedy, out);
}

/* Parse <[id]> or <name>: a token by its id or its text. */
static int parse_token(struct lark_parser *p, struct cfg_item *out)
{
    size_t from = p->in.at, n = 0;
    while (from + n < p->in.end && here(p)->s[from + n] != '>' && here(p)->s[from + n] != '\n') n++;
    if (p->in.terminal) return bad(p, "a token within a terminal");
    if (from + n >= p->in.end || here(p)->s[from + n] != '>')
        return bad(p, "a token without its >");
    int64_t id = gbnf_token_id(here(p)->s + from, n + 1, p->o->token, p->o->token_arg);
    if (id < 0) return bad(p, "token not found in this tokenizer");
    p->in.at += n + 1;
    return finish_atom(p, gbnf_token_expr(&p->g->m.x, (uint32_t)id, false), false, false, out);
}

static int parse_group(struct lark_parser *p, const char *close, struct cfg_item *out)
{
    if (++p->depth > DEPTH_MAX) return fail(p, ERR_LIMIT, "nested too deeply", "", 0);
    int rc = parse_either(p, out);
    skip_space(p, true);
    if (rc == 0 && !accept_text(p, close)) rc = expected(p, close);
    p->depth--;
    return rc;
}

/* ---- names ---- */

/* Parse a terminal's definition if this is its first use, and set its expression. After an error,
 * p->in remains at the place of the error. */
static int terminal_of(struct lark_parser *p, uint32_t module, uint32_t def)
{
    struct def *d = &p->module[module].def.v[def];
    struct lark_place before = p->in;
    struct cfg_item body;
    if (d->state == DEF_DONE) return 0;
    if (d->state == DEF_OPEN) return bad(p, "this terminal contains itself");
    if (d->declared)
        return fail(p, ERR_UNSUPPORTED,
                    "declared without a text:", p->module[module].s + d->name.at, d->name.n);
    if (++p->depth > DEPTH_MAX) return fail(p, ERR_LIMIT, "nested too deeply", "", 0);
    d->state = DEF_OPEN;
    p->in = (struct lark_place){.module = module, .at = d->body, .end = d->end, .terminal = true};
    int rc = parse_either(p, &body);
    skip_space(p, true);
    if (rc == 0 && p->in.at < p->in.end) rc = expected(p, "the end");
    if (rc) return rc;
    d->state = DEF_DONE;
    d->expr = body.id, d->lazy = p->in.lazy, d->greedy = p->in.greedy;
    p->in = before;
    p->depth--;
    return 0;
}

/* Set *out to the rule of a definition with these arguments. A new rule is queued, and its body is
 * parsed later. */
static int rule_of(struct lark_parser *p, uint32_t module, uint32_t def, struct argument *bound,
                   uint32_t n_bound, struct cfg_item *out)
{
    struct buf key = {0};
    buf_addf(&key, "%u.%u", module, def);
    for (uint32_t i = 0; i < n_bound; i++)
        buf_addf(&key, "%c%u", bound[i].part.is_rule ? 'r' : 'e', bound[i].part.id);
    if (key.failed) return buf_deinit(&key), no_memory(p);
    size_t n_before = p->g->rule.n;
    *out = (struct cfg_item){true, cfg_rule_named(p->g, key.data, key.n)};
    buf_deinit(&key);
    if (p->g->rule.n == n_before) return 0;
    if (n_before > RULES_MAX)
        return fail(p, ERR_LIMIT, "must have at most 100000 rules, got more", "", 0);
    struct lark_job j = {out->id, module, def, n_bound, NULL};
    if (n_bound) j.bound = arena_push(&p->g->arena, n_bound * sizeof *bound, 8);
    if ((n_bound && !j.bound) || !vec_push(&p->job, j)) return no_memory(p);
    for (uint32_t i = 0; i < n_bound; i++) j.bound[i] = bound[i];
    return 0;
}

/* Parse the arguments of a template after its {, through the }. Bind each argument to the name of a
 * parameter. The positions in the current text and in the definition's head advance together. */
static int parse_arguments(struct lark_parser *p, uint32_t module, const struct def *d,
                           struct argument *bound, uint32_t *n_bound)
{
    struct lark_place name = {.module = module, .at = d->params, .end = d->body};
    int rc = 0;
    for (*n_bound = 0; rc == 0; ++*n_bound) {
        struct lark_place before = p->in;
        p->in = name;
        skip_space(p, true);
        struct text_range w = take_word(p);
        skip_space(p, true);
        bool last = !accept_text(p, ",");
        name = p->in;
        p->in = before;
        if (w.n == 0 || *n_bound == PARAMS_MAX) return expected(p, "a parameter's name");
        struct argument *b = &bound[*n_bound];
        *b = (struct argument){p->module[module].s + w.at, w.n, {0}};
        rc = parse_either(p, &b->part);
        skip_space(p, true);
        if (rc == 0 && !accept_text(p, last ? "}" : ","))
            rc = bad(p, "another number of arguments than the template has");
        if (last) return ++*n_bound, rc;
    }
    return rc;
}

/* Set *out to the part for a use of a definition: an expression for a terminal, a rule for a
 * rule. */
static int use_definition(struct lark_parser *p, uint32_t module, uint32_t def,
                          struct cfg_item *out)
{
    const struct def *d = resolve(p, &module, &def);
    struct argument bound[PARAMS_MAX];
    uint32_t n_bound = 0;
    if (d->terminal) {
        int rc = terminal_of(p, module, def);
        d = &p->module[module].def.v[def];
        return rc ? rc : finish_atom(p, d->expr, d->lazy, d->greedy, out);
    }
    if (p->in.terminal) return bad(p, "a rule within a terminal");
    int rc = 0;
    if (d->params && !accept_text(p, "{")) rc = bad(p, "this template needs arguments");
    if (d->params && rc == 0)
        rc = ++p->depth > DEPTH_MAX ? fail(p, ERR_LIMIT, "nested too deeply", "", 0)
                                    : parse_arguments(p, module, d, bound, &n_bound);
    if (d->params && rc == 0) p->depth--;
    if (rc) return rc;
    return rule_of(p, module, def, bound, n_bound, out);
}

static int parse_name(struct lark_parser *p, struct cfg_item *out)
{
    struct text_range w = take_word(p);
    const char *s = here(p)->s + w.at;
    if (w.n == 0) return expected(p, "a literal, a regular expression, a name or a group");
    for (uint32_t i = 0; i < p->in.n_bound; i++)
        if (p->in.bound[i].n == w.n && memcmp(p->in.bound[i].name, s, w.n) == 0)
            return *out = p->in.bound[i].part, 0;
    const uint32_t *def = strmap_get(&here(p)->of, s, w.n);
    if (def) return use_definition(p, p->in.module, *def, out);
    p->in.at = w.at;
    return fail(p, ERR_FORMAT, "not defined:", s, w.n);
}

static int parse_atom(struct lark_parser *p, struct cfg_item *out)
{
    if (accept_text(p, "(")) return parse_group(p, ")", out);
    if (accept_text(p, "[")) {
        int rc = parse_group(p, "]", out);
        if (rc == 0) *out = cfg_repeat(p->g, *out, 0, 1);
        return rc;
    }
    if (peek(p) == '"') return parse_text(p, out);
    if (peek(p) == '/') return parse_regex(p, out);
    if (peek(p) == '<') return parse_token(p, out);
    return parse_name(p, out);
}

/* ---- repetition, sequence, choice ---- */

static int read_count(struct lark_parser *p, uint32_t *n)
{
    size_t from = p->in.at;
    skip_space(p, false);
    for (*n = 0; peek(p) >= '0' && peek(p) <= '9' && *n <= REPEAT_MAX; p->in.at++)
        *n = *n * 10 + (uint32_t)(peek(p) - '0');
    if (p->in.at == from) return expected(p, "a number");
    if (*n <= REPEAT_MAX) return 0;
    char why[80];
    snprintf(why, sizeof why, "repetition: must be at most %d, got at least %u", REPEAT_MAX, *n);
    return fail(p, ERR_LIMIT, why, "", 0);
}

static int parse_repeated(struct lark_parser *p, struct cfg_item *out)
{
    int rc = parse_atom(p, out);
    uint32_t min = 0, max = EXPR_INF;
    if (rc) return rc;
    size_t at = p->in.at;
    skip_space(p, false);
    if (accept_text(p, "+")) {
        min = 1;
    } else if (accept_text(p, "?")) {
        max = 1;
    } else if (accept_text(p, "~")) {
        rc = read_count(p, &min);
        max = min;
        if (rc == 0) skip_space(p, false);
        if (rc == 0 && accept_text(p, "..")) rc = read_count(p, &max);
        if (rc == 0 && max < min) rc = bad(p, "a repetition that descends");
    } else if (!accept_text(p, "*")) {
        return p->in.at = at, 0;
    }
    p->in.greedy |= p->in.terminal && min != max;
    if (rc == 0) *out = cfg_repeat(p->g, *out, min, max);
    return rc;
}

/* Move to the next item of a sequence and return true if there is an item. The position is not past
 * a "-" that begins an alias if the result is false. */
static bool at_item(struct lark_parser *p)
{
    size_t before = p->in.at;
    skip_space(p, true);
    if (peek(p) && !strchr("|)]},", peek(p)) && !(peek(p) == '-' && p->in.at + 1 < p->in.end))
        return true;
    if (peek(p) != '-') p->in.at = before;
    return false;
}

static int parse_sequence(struct lark_parser *p, struct cfg_item *out)
{
    VEC(struct cfg_item) v = {0};
    int rc = 0;
    while (rc == 0 && at_item(p)) {
        struct cfg_item one = {0};
        rc = parse_repeated(p, &one);
        if (rc == 0 && !vec_push(&v, one)) rc = no_memory(p);
    }
    *out = (struct cfg_item){false, EXPR_EPSILON};
    if (rc == 0 && v.n > 0) *out = cfg_sequence(p->g, v.v, v.n);
    vec_deinit(&v);
    if (rc == 0 && accept_text(p, "->")) { /* an alias changes no text */
        skip_space(p, false);
        if (take_word(p).n == 0) rc = expected(p, "a name");
    }
    struct err why;
    if (rc == 0 && p->g->m.x.failed) rc = fail(p, exprs_error(&p->g->m.x, &why), why.text, "", 0);
    return rc;
}

static int parse_either(struct lark_parser *p, struct cfg_item *out)
{
    VEC(struct cfg_item) v = {0};
    int rc;
    do {
        struct cfg_item one = {0};
        skip_space(p, true);
        rc = parse_sequence(p, &one);
        if (rc == 0 && !vec_push(&v, one)) rc = no_memory(p);
        if (rc == 0) skip_space(p, true);
    } while (rc == 0 && accept_text(p, "|"));
    if (rc == 0) *out = cfg_either(p->g, v.v, v.n);
    vec_deinit(&v);
    return rc;
}

/* ---- the grammar ---- */

/* Set p->ignore to any number of texts of %ignore. The terminals in texts of %ignore are not
 * followed by texts of %ignore. */
static int build_ignored(struct lark_parser *p)
{
    struct exprs *x = &p->g->m.x;
    uint32_t all = EXPR_EMPTY;
    for (size_t i = 0; i < p->ignored.n; i++) {
        struct cfg_item one;
        p->in = (struct lark_place){.at = p->ignored.v[i].at,
                                    .end = p->ignored.v[i].at + p->ignored.v[i].n,
                                    .terminal = true};
        p->ignore = EXPR_EPSILON;
        int rc = parse_either(p, &one);
        skip_space(p, true);
        if (rc == 0 && p->in.at < p->in.end) rc = expected(p, "the end");
        bool lazy = p->in.lazy, greedy = p->in.greedy;
        if (rc == 0) rc = finish_terminal(p, one.id, lazy, greedy, &one);
        if (rc) return rc;
        all = expr_or(x, all, one.id);
    }
    p->ignore = expr_rep(x, all, 0, EXPR_INF);
    return 0;
}

/* Parse the bodies of queued rules. Parsing a body may queue more rules. */
static int build_rules(struct lark_parser *p)
{
    for (size_t i = 0; i < p->job.n; i++) {
        const struct lark_job j = p->job.v[i];
        const struct def *d = &p->module[j.module].def.v[j.def];
        struct cfg_item body;
        p->in = (struct lark_place){.module = j.module,
                                    .at = d->body,
                                    .end = d->end,
                                    .bound = j.bound,
                                    .n_bound = j.n_bound};
        int rc = parse_either(p, &body);
        if (rc == 0) skip_space(p, true);
        if (rc == 0 && p->in.at < p->in.end) rc = expected(p, "the end");
        if (rc) return rc;
        cfg_add(p->g, j.rule, &body, 1);
    }
    return 0;
}

/* Set *def to the definition of the start. The start is the definition that the option names, or
 * `start`. The start is the first rule if neither exists, or the first definition if there is no
 * rule. */
static int find_start(struct lark_parser *p, uint32_t *def)
{
    const char *name = p->o->start ? p->o->start : "start";
    const uint32_t *known = strmap_get(&p->module[0].of, name, strlen(name));
    p->in = (struct lark_place){.end = p->module[0].n};
    *def = known ? *known : 0;
    if (known) return 0;
    if (p->o->start || p->module[0].def.n == 0)
        return fail(p, ERR_FORMAT, "rule not found:", name, strlen(name));
    while (*def + 1 < p->module[0].def.n && p->module[0].def.v[*def].terminal) ++*def;
    if (p->module[0].def.v[*def].terminal) *def = 0;
    return 0;
}

static int build(struct lark_parser *p)
{
    uint32_t root = cfg_rule_new(p->g), def; /* the start rule of a cfg has number 0 */
    struct cfg_item part[2] = {{false, EXPR_EPSILON}, {0}};
    int rc = scan_module(p, 0);
    if (rc == 0) rc = build_ignored(p);
    if (rc == 0) rc = find_start(p, &def);
    if (rc) return rc;
    p->in = (struct lark_place){.end = p->module[0].n};
    rc = use_definition(p, 0, def, &part[1]);
    part[0].id = p->ignore;
    if (rc == 0) cfg_add(p->g, root, part, 2);
    return rc ? rc : build_rules(p);
}

int lark_parse(struct cfg *g, const char *text, size_t n, const struct lark_options *o,
               struct err *e)
{
    struct lark_parser *p = calloc(1, sizeof *p);
    if (!p) return err_memory(e, "a grammar", sizeof *p);
    p->g = g, p->o = o, p->e = e, p->n_module = 1, p->ignore = EXPR_EPSILON;
    p->module[0].s = text, p->module[0].n = n;
    int rc = build(p);
    for (uint32_t i = 0; i < p->n_module; i++) {
        free(p->module[i].owned);
        strmap_deinit(&p->module[i].of);
        vec_deinit(&p->module[i].def);
    }
    vec_deinit(&p->job);
    vec_deinit(&p->ignored);
    free(p);
    return rc ? rc : cfg_finish(g, e);
}
