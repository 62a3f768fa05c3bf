/* schema_notation.c - values in the notations of tool calls; see enum notation.
 *
 *   JSON    {"a": true, "b": ["x"], "c": {"d": null}}
 *   PYTHON  a=True, b=["x"], c={"d": None}
 *   BARE    a:true,b:[<|"|>x<|"|>],c:{d:null}      with the quote <|"|>
 *
 * A schema has the same sets, forms and states in each notation. Only names, scalars and the marks
 * of the outermost object differ. The parser of the calls (chat/tool_literal.c) must read each text
 * as the value that the schema accepts. Therefore some spellings of JSON are excluded:
 *
 *   - numbers beyond a double, or longer than 64 bytes
 *   - the escape \/, which is two characters in Python
 *   - the quote inside a string of BARE */
#include "gbnf.h"
#include "regex.h"
#include "schema.h"

#include <stdlib.h>
#include <string.h>

/* NAME_BYTES_MAX: maximum length of the name of an argument. */
enum { NUMBER_BYTES_MAX = 64, NAME_BYTES_MAX = 256 };

static const char python_names[] = "[A-Za-z_][A-Za-z0-9_]{0,63}",
                  bare_names[] = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}";

/* Return the whole texts of a pattern of this file. */
static uint32_t texts_of(struct exprs *x, const char *pattern)
{
    struct regex_langs l;
    int rc = regex_parse(x, pattern, strlen(pattern), REGEX_ECMA, &l, NULL);
    return rc ? EXPR_EMPTY : l.whole; /* x->failed is set */
}

static uint32_t word(struct exprs *x, const char *text)
{
    return expr_bytes(x, text, strlen(text));
}

bool notation_names_arguments(const struct schema *s)
{
    return s->opt.notation != NOTATION_JSON;
}

/* Return true if a name is a name of an argument: letters, digits, _ - . and /. */
static bool is_argument(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool letter = ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
        if (!letter && (!c || !strchr("_-./", c))) return false;
    }
    return n > 0 && n <= NAME_BYTES_MAX;
}

/* ---- strings ---- */

/* Return the texts that do not contain the excluded text: the quote of BARE, or opt.without. */
static uint32_t permitted(struct schema *s, uint32_t text)
{
    struct exprs *x = &s->m.x;
    const char *no = s->opt.notation == NOTATION_BARE ? s->opt.quote : s->opt.without;
    if (!no || text == EXPR_EMPTY) return text;
    uint32_t all = expr_not(x, EXPR_EMPTY),
             within = expr_cat(x, all, expr_cat(x, word(x, no), all));
    return expr_and(x, text, expr_not(x, within));
}

/* Return the expression of BARE's quote, a text or a token. */
static uint32_t quote(struct schema *s)
{
    if (s->opt.quote_is_token) return gbnf_token_expr(&s->m.x, s->opt.quote_token, false);
    return word(&s->m.x, s->opt.quote);
}

static uint32_t quoted(struct schema *s, uint32_t text)
{
    return expr_cat(&s->m.x, quote(s), expr_cat(&s->m.x, text, quote(s)));
}

uint32_t notation_string(struct schema *s, uint32_t text)
{
    struct exprs *x = &s->m.x;
    text = permitted(s, text);
    if (!expr_alive(x, text)) return EXPR_EMPTY;
    if (s->opt.notation == NOTATION_BARE) return quoted(s, text);
    uint32_t constant = s->opt.plain ? expr_literal(x, text) : EXPR_EMPTY, spelled = constant;
    if (constant == EXPR_EMPTY)
        spelled =
            s->opt.notation == NOTATION_PYTHON ? expr_string_python(x, text) : expr_string(x, text);
    return expr_cat(x, word(x, "\""), spelled);
}

/* ---- constants and numbers ---- */

uint32_t notation_constant(struct schema *s, uint32_t e)
{
    static const char *const words[][2] = {{"null", "None"}, {"true", "True"}, {"false", "False"}};
    struct exprs *x = &s->m.x;
    uint32_t out = EXPR_EMPTY;
    if (s->opt.notation != NOTATION_PYTHON) return e;
    for (int i = 0; i < 3; i++)
        if (expr_matches(x, e, words[i][0], strlen(words[i][0])))
            out = expr_or(x, out, word(x, words[i][1]));
    return out;
}

uint32_t notation_number(struct schema *s, uint32_t e)
{
    struct exprs *x = &s->m.x;
    if ((s->opt.notation == NOTATION_JSON && !s->opt.without) || e == EXPR_EMPTY) return e;
    uint32_t some = texts_of(x, "-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"),
             few = expr_rep(x, expr_range(x, 0, 255), 1, NUMBER_BYTES_MAX);
    return expr_and(x, e, expr_and(x, some, few));
}

/* ---- names ---- */

uint32_t notation_class(struct schema *s, uint32_t lang, bool top)
{
    struct exprs *x = &s->m.x;
    bool python = s->opt.notation == NOTATION_PYTHON;
    lang = permitted(s, lang);
    if (!notation_names_arguments(s)) return lang;
    if (top) return expr_and(x, lang, texts_of(x, python ? python_names : bare_names));
    return lang;
}

bool notation_allows_name(struct schema *s, uint32_t name, bool top)
{
    const char *text = s->name.v[name];
    size_t n = s->name_n.v[name];
    if (top && notation_names_arguments(s) && !is_argument(text, n))
        return schema_fail(s, ERR_UNSUPPORTED, s->at, NULL,
                           "parameter \"%.60s\": the names of parameters must have only letters, "
                           "digits, _, -, . and / in the calls of this model",
                           text);
    const char *no = s->opt.notation == NOTATION_BARE ? s->opt.quote : s->opt.without;
    if (no && memmem(text, n, no, strlen(no)))
        return schema_fail(s, ERR_UNSUPPORTED, s->at, NULL,
                           "name \"%.60s\": must not contain \"%.40s\", which ends a value", text,
                           no);
    return true;
}

/* Return the spelling of one name of a nested object, with the text after it. */
static uint32_t nested_name(struct schema *s, const char *text, size_t n)
{
    struct exprs *x = &s->m.x;
    uint32_t name = expr_bytes(x, text, n);
    if (s->opt.notation == NOTATION_PYTHON)
        return expr_cat(x, word(x, "\""), expr_literal(x, name));
    return expr_cat(x, is_argument(text, n) ? name : quoted(s, name), word(x, ":"));
}

uint32_t notation_name(struct schema *s, uint32_t name, bool top)
{
    struct exprs *x = &s->m.x;
    const char *text = s->name.v[name], *mark = s->opt.notation == NOTATION_PYTHON ? "=" : ":";
    size_t n = s->name_n.v[name];
    return top ? expr_cat(x, expr_bytes(x, text, n), word(x, mark)) : nested_name(s, text, n);
}

uint32_t notation_class_name(struct schema *s, uint32_t lang, uint32_t tags, bool top)
{
    struct exprs *x = &s->m.x;
    bool python = s->opt.notation == NOTATION_PYTHON;
    if (top || !python) {
        uint32_t bare = texts_of(x, python ? python_names : bare_names),
                 plain = expr_and(x, lang, bare),
                 other = top ? EXPR_EMPTY : quoted(s, expr_and(x, lang, expr_not(x, bare)));
        return expr_cat(x, expr_or(x, plain, other),
                        expr_cat(x, word(x, python ? "=" : ":"), tags));
    }
    return expr_cat(x, word(x, "\""), expr_string_python(x, expr_cat(x, lang, tags)));
}
