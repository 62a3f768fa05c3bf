/* tag_input.c - calls with one argument, `input`, whose text belongs to a regular expression or a
 * Lark grammar (OpenAI's custom tools).
 *
 *   {"type": "json_schema", "style": ..., "json_schema": {"properties": {"input": ...}},
 *    "input": {"syntax": "text" or "regex" or "lark", "definition": TEXT}}
 *
 * The text is spelled like a string of the style: with escapes, or unchanged up to a mark. A Lark
 * grammar is a graft. The terminals of the grammar are spelled one by one, because an escape spells
 * one character. A mark may begin in one terminal and end in another terminal. Therefore the
 * terminals of a grammar that is written unchanged must not contain the first byte of the mark. */
#include "lark.h"
#include "regex.h"
#include "tag.h"

#include <stdlib.h>
#include <string.h>

static uint32_t spell_json(struct exprs *x, uint32_t e)
{
    return expr_string_part(x, e, false);
}

static uint32_t spell_python(struct exprs *x, uint32_t e)
{
    return expr_string_part(x, e, true);
}

/* Return the function that spells a part of the text; NULL if the text is unchanged. */
static cfg_spell_fn *spelling(const struct input_form *form)
{
    return form->python ? spell_python : form->json ? spell_json : NULL;
}

/* Return any byte string that begins with a text. */
static uint32_t beginning(struct exprs *x, const char *text)
{
    return expr_cat(x, expr_bytes(x, text, strlen(text)), expr_not(x, EXPR_EMPTY));
}

/* Set *out to the texts of an expression, spelled in the form. */
static void regular(struct tag_parser *p, const struct input_form *form, uint32_t e,
                    struct cfg_item *out)
{
    struct exprs *x = &p->g->m.x;
    cfg_spell_fn *spell = spelling(form);
    uint32_t without =
        form->without ? expr_bytes(x, form->without, strlen(form->without)) : EXPR_EMPTY;
    e = expr_and(x, e, tag_text_without(x, without));
    if (form->begin) e = expr_and(x, e, expr_not(x, beginning(x, form->begin)));
    *out = (struct cfg_item){false, spell ? spell(x, e) : e};
}

static void close_cfg(void *grammar)
{
    cfg_close(grammar);
    free(grammar);
}

/* Return true if a terminal of the grammar may contain the byte. */
static bool may_contain(struct cfg *g, char byte)
{
    struct exprs *x = &g->m.x;
    uint32_t all = expr_not(x, EXPR_EMPTY), one = expr_range(x, (uint8_t)byte, (uint8_t)byte),
             some = expr_cat(x, all, expr_cat(x, one, all));
    for (size_t i = 0; i < g->sym.n; i++)
        if (g->sym.v[i].kind == SYM_EXPR && expr_alive(x, expr_and(x, g->sym.v[i].id, some)))
            return true;
    return x->failed != EXPR_OK;
}

/* Set *out to the texts of a Lark grammar, spelled in the form. */
static int lark(struct tag_parser *p, const struct input_form *form, const char *text, size_t n,
                struct cfg_item *out)
{
    struct cfg *g = calloc(1, sizeof *g);
    struct err why = {0};
    if (!g) return err_memory(p->e, "a grammar", sizeof *g);
    int rc = cfg_open(g, exprs_left(&p->g->m.x), p->o->limits)
                 ? lark_parse(g, text, n, &(struct lark_options){0}, &why)
                 : err_memory(&why, "a grammar", sizeof *g);
    if (rc == 0 && form->without && may_contain(g, form->without[0]))
        rc =
            err_set(&why, ERR_UNSUPPORTED,
                    "its texts may contain \"%c\", which begins the mark after an argument of this "
                    "model's calls; a regular expression may contain it",
                    form->without[0]);
    if (rc == 0) {
        *out = cfg_graft(p->g, &g->m, 0, g, close_cfg, spelling(form));
        return 0;
    }
    close_cfg(g);
    return tag_fail(p, rc, "%s", why.text);
}

int tag_input(struct tag_parser *p, const struct input_form *form, struct cfg_item *out)
{
    const char *syntax = json_text(json_field(p->input, "syntax"), NULL);
    size_t n = 0;
    const char *text = json_text(json_field(p->input, "definition"), &n);
    struct regex_langs l;
    struct err why = {0};
    if (syntax && strcmp(syntax, "text") == 0)
        return regular(p, form, tag_text_without(&p->g->m.x, EXPR_EMPTY), out), 0;
    if (!syntax || !text)
        return tag_fail(p, ERR_FORMAT, "input: expected a syntax and a definition");
    if (strcmp(syntax, "lark") == 0) return lark(p, form, text, n, out);
    if (strcmp(syntax, "regex") != 0)
        return tag_fail(p, ERR_UNSUPPORTED, "input: syntax \"%.40s\": not supported", syntax);
    int rc = regex_parse(&p->g->m.x, text, n, REGEX_RUST, &l, &why);
    if (rc != 0) return tag_fail(p, rc, "%s", why.text);
    regular(p, form, l.whole, out);
    if (!expr_alive(&p->g->m.x, out->id) && !p->g->m.x.failed)
        return tag_fail(p, ERR_FORMAT, "input: no text matches");
    return 0;
}

/* Return the quote of NOTATION_BARE, a text or a token. */
static uint32_t quote_of(struct tag_parser *p, const struct schema_options *opt)
{
    if (opt->quote_is_token) return gbnf_token_expr(&p->g->m.x, opt->quote_token, false);
    return expr_bytes(&p->g->m.x, opt->quote, strlen(opt->quote));
}

int tag_input_call(struct tag_parser *p, const struct schema_options *opt, struct cfg_item *out)
{
    static const char *const
        before[] = {[NOTATION_JSON] = "{\"input\": \"",
                    [NOTATION_PYTHON] = "input=\"",
                    [NOTATION_BARE] = "input:"},
        *const after[] = {[NOTATION_JSON] = "\"}", [NOTATION_PYTHON] = "\"", [NOTATION_BARE] = ""};
    struct exprs *x = &p->g->m.x;
    const int k = (int)opt->notation;
    const bool bare = opt->notation == NOTATION_BARE;
    const struct input_form form = {.json = !bare,
                                    .python = opt->notation == NOTATION_PYTHON,
                                    .without = bare ? opt->quote : NULL};
    struct cfg_item v[3] = {{false, expr_bytes(x, before[k], strlen(before[k]))},
                            {0},
                            {false, expr_bytes(x, after[k], strlen(after[k]))}};
    if (bare) v[0].id = expr_cat(x, v[0].id, quote_of(p, opt)), v[2].id = quote_of(p, opt);
    int rc = tag_input(p, &form, &v[1]);
    if (rc == 0) *out = cfg_sequence(p->g, v, 3);
    return rc;
}
