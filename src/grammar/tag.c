/* tag.c - a recursive descent over the formats of a structural tag; see tag.h.
 *
 * `ends` has the end strings of the tag if a format is the tag's last part. Otherwise `ends` is
 * EXPR_EMPTY. Free text must not contain the end strings. Each function returns 0 or an error
 * code. */
#include "tag.h"

#include "regex.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DEPTH_MAX limits the parser's use of the stack. A repetition is expanded to rules, so REPEAT_MAX
 * limits the work of one number. */
enum { DEPTH_MAX = 100, REPEAT_MAX = 2000 };

int tag_fail(struct tag_parser *p, int code, const char *fmt, ...)
{
    char why[300];
    va_list va;
    va_start(va, fmt);
    vsnprintf(why, sizeof why, fmt, va);
    va_end(va);
    return err_set(p->e, code, "structural tag, #%.*s: %s", (int)p->path.n,
                   p->path.data ? p->path.data : "", why);
}

/* ---- reading ---- */

/* Append a member's key, or the index of an item if key is NULL, to the JSON pointer of the place.
 * Return the pointer's previous length, for tag_up. */
static size_t tag_down(struct tag_parser *p, const char *key, size_t i)
{
    size_t n = p->path.n;
    if (key)
        buf_addf(&p->path, "/%s", key);
    else
        buf_addf(&p->path, "/%zu", i);
    return n;
}

/* Return rc. Truncate the JSON pointer to n bytes if rc is 0. */
static int tag_up(struct tag_parser *p, size_t n, int rc)
{
    if (rc == 0) p->path.n = n; /* after a failure, the pointer remains at its place */
    return rc;
}

/* Reject keys that are not in `known`, a list of words that each end with a space. */
static int check_keys(struct tag_parser *p, const struct json *j, const char *known)
{
    for (void *it = json_first(j); it; it = json_next(j, it)) {
        size_t n;
        const char *key = json_it_key(it, &n), *at = known;
        bool named = n > 0 && strlen(key) == n; /* true: the key is not empty and contains no NUL */
        while (named && (at = strstr(at, key)) && !((at == known || at[-1] == ' ') && at[n] == ' '))
            at++;
        if (!named || !at) return tag_fail(p, ERR_UNSUPPORTED, "unknown key \"%.60s\"", key);
    }
    return 0;
}

/* Set *text to a member, borrowed. ERR_FORMAT if it is absent or not a string. */
static int need_text(struct tag_parser *p, const struct json *j, const char *key, const char **text,
                     size_t *n)
{
    *text = json_text(json_field(j, key), n);
    return *text ? 0
                 : tag_fail(p, ERR_FORMAT, "%s: expected a string, got %s", key,
                            json_kind_name(json_kind(json_field(j, key))));
}

static struct cfg_item text_part(struct tag_parser *p, const char *text, size_t n)
{
    return (struct cfg_item){false, expr_bytes(&p->g->m.x, text, n)};
}

/* Read the strings of a list, or one string, as an alternation. Set *out to EXPR_EMPTY if there are
 * no strings. Omit empty strings, and count them in *n_empty. */
static int read_strings(struct tag_parser *p, const struct json *list, const char *key,
                        uint32_t *out, int *n_empty)
{
    bool one = json_kind(list) == JK_TEXT;
    size_t count = one ? 1 : json_count(list), n;
    *out = EXPR_EMPTY;
    if (list && !one && json_kind(list) != JK_LIST)
        return tag_fail(p, ERR_FORMAT, "%s: expected strings, got %s", key,
                        json_kind_name(json_kind(list)));
    for (size_t i = 0; i < count; i++) {
        const char *text = json_text(one ? list : json_item(list, i), &n);
        if (!text)
            return tag_fail(p, ERR_FORMAT, "%s: [%zu]: expected a string, got %s", key, i,
                            json_kind_name(json_kind(json_item(list, i))));
        *n_empty += n == 0;
        if (n > 0) *out = expr_or(&p->g->m.x, *out, expr_bytes(&p->g->m.x, text, n));
    }
    return 0;
}

/* Read a token, given by its text or its number. */
static int read_token(struct tag_parser *p, const struct json *j, uint32_t *id)
{
    size_t n;
    const char *name = json_text(j, &n);
    int64_t found =
        name ? (p->o->token ? p->o->token(p->o->token_arg, name, n) : -1) : json_int(j, -1);
    if (found < 0 || found > INT32_MAX)
        return tag_fail(p, ERR_FORMAT, "token not found in this tokenizer");
    *id = (uint32_t)found;
    return 0;
}

/* ---- free text ---- */

/* Return the texts that contain one of the strings. The complement of this expression is the free
 * text without the strings. */
static uint32_t within(struct exprs *x, uint32_t strings)
{
    uint32_t all = expr_not(x, EXPR_EMPTY);
    return expr_cat(x, all, expr_cat(x, strings, all));
}

static uint32_t any_text(struct exprs *x)
{
    return expr_rep(x, expr_any_char(x), 0, EXPR_INF);
}

uint32_t tag_text_without(struct exprs *x, uint32_t strings)
{
    if (strings == EXPR_EMPTY) return any_text(x);
    return expr_and(x, any_text(x), expr_not(x, within(x, strings)));
}

/* Return the texts that end with `stop` and contain no string of `excluded`. No string of `stops`
 * ends earlier in these texts. */
static uint32_t text_up_to(struct exprs *x, uint32_t stop, uint32_t stops, uint32_t excluded)
{
    uint32_t all = expr_not(x, EXPR_EMPTY), more = expr_rep(x, expr_range(x, 0, 255), 1, EXPR_INF);
    uint32_t early = expr_cat(x, all, expr_cat(x, stops, more));
    uint32_t e = expr_and(x, expr_cat(x, all, stop), expr_not(x, early));
    if (excluded != EXPR_EMPTY) e = expr_and(x, e, expr_not(x, within(x, excluded)));
    return expr_and(x, e, any_text(x));
}

/* Return the texts that begin with `first` after any blanks. */
static uint32_t text_from(struct exprs *x, const char *first)
{
    struct byteset blank = {{0}};
    for (const char *c = " \t\n\v\f\r"; *c; c++) byteset_add(&blank, (uint8_t)*c);
    uint32_t blanks = expr_rep(x, expr_set(x, &blank), 0, EXPR_INF);
    return expr_cat(x, blanks,
                    expr_cat(x, expr_bytes(x, first, strlen(first)), expr_not(x, EXPR_EMPTY)));
}

/* Parse any text. first_not, an extension of xgrammar's format: string with which the text must not
 * begin after blanks. */
static int parse_any_text(struct tag_parser *p, const struct json *j, uint32_t ends,
                          struct cfg_item *out)
{
    struct exprs *x = &p->g->m.x;
    uint32_t excluded;
    int n_empty = 0, rc = check_keys(p, j, "type excludes first_not max_tokens max_chars ");
    if (rc == 0 && json_field(j, "max_tokens") && json_kind(json_field(j, "max_tokens")) != JK_NULL)
        rc = tag_fail(p, ERR_UNSUPPORTED, "max_tokens: not supported yet; available: max_chars");
    if (rc == 0) rc = read_strings(p, json_field(j, "excludes"), "excludes", &excluded, &n_empty);
    if (rc) return rc;
    uint32_t e = tag_text_without(x, expr_or(x, excluded, ends));
    int64_t max = json_int(json_field(j, "max_chars"), -1);
    const char *first = json_text(json_field(j, "first_not"), NULL);
    if (first) e = expr_and(x, e, expr_not(x, text_from(x, first)));
    if (max > 1000000)
        return tag_fail(p, ERR_LIMIT, "max_chars: must be at most 1000000, got %lld",
                        (long long)max);
    if (max >= 0) e = expr_and(x, e, expr_rep(x, expr_any_char(x), 0, (uint32_t)max));
    *out = (struct cfg_item){false, e};
    return 0;
}

/* ---- tags ---- */

static int parse_format(struct tag_parser *p, const struct json *j, uint32_t ends,
                        struct cfg_item *out);

static int parse_member(struct tag_parser *p, const struct json *j, const char *key, uint32_t ends,
                        struct cfg_item *out)
{
    size_t at = tag_down(p, key, 0);
    return tag_up(p, at, parse_format(p, json_field(j, key), ends, out));
}

/* Read the token of j, e.g. the begin or end of a tag. */
static int token_mark(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    uint32_t id = 0;
    int rc = read_token(p, json_field(j, "token"), &id);
    if (rc == 0) *out = (struct cfg_item){false, gbnf_token_expr(&p->g->m.x, id, false)};
    return rc;
}

/* Parse a tag: begin, content, end. Omit the first n_skip bytes of `begin`, because a trigger has
 * matched them. */
static int parse_tag(struct tag_parser *p, const struct json *j, size_t n_skip,
                     struct cfg_item *out)
{
    struct cfg_item v[3];
    size_t n;
    const struct json *begin = json_field(j, "begin"), *end = json_field(j, "end");
    const char *text = json_text(begin, &n);
    uint32_t ends = EXPR_EMPTY;
    int n_empty = 0, rc = check_keys(p, j, "type begin content end ");
    if (rc == 0 && text)
        v[0] = text_part(p, text + n_skip, n - n_skip);
    else if (rc == 0)
        rc = json_kind(begin) == JK_OBJECT
                 ? token_mark(p, begin, &v[0])
                 : tag_fail(p, ERR_FORMAT, "begin: expected a string or a token, got %s",
                            json_kind_name(json_kind(begin)));
    if (rc == 0 && json_kind(end) == JK_OBJECT)
        rc = token_mark(p, end, &v[2]);
    else if (rc == 0 && !end)
        rc = tag_fail(p, ERR_FORMAT, "end: expected a string, strings or a token, got nothing");
    else if (rc == 0)
        rc = read_strings(p, end, "end", &ends, &n_empty);
    if (rc == 0 && json_kind(end) != JK_OBJECT)
        v[2] = (struct cfg_item){false, n_empty ? expr_or(&p->g->m.x, ends, EXPR_EPSILON) : ends};
    if (rc == 0) rc = parse_member(p, j, "content", ends, &v[1]);
    if (rc == 0) *out = cfg_sequence(p->g, v, 3);
    return rc;
}

/* Return a new rule with one alternative, the concatenation of n parts. */
static struct cfg_item rule_part(struct tag_parser *p, const struct cfg_item *v, size_t n)
{
    uint32_t rule = cfg_rule_new(p->g);
    cfg_add(p->g, rule, v, n);
    return (struct cfg_item){true, rule};
}

/* Dispatch under construction: free text up to the first string of `stops`, then the format of that
 * string. The dispatch repeats if `loop` is true. */
struct dispatch {
    uint32_t rule, stops, excluded, ends;
    bool loop;
};

/* Add the alternative of one string: free text, the string, `then`. */
static void dispatch_add(struct tag_parser *p, const struct dispatch *d, const char *stop, size_t n,
                         struct cfg_item then)
{
    struct exprs *x = &p->g->m.x;
    uint32_t excluded = expr_or(x, d->excluded, d->ends);
    struct cfg_item v[3] = {
        {false, text_up_to(x, expr_bytes(x, stop, n), d->stops, excluded)}, then, {true, d->rule}};
    cfg_add(p->g, d->rule, v, d->loop ? 3 : 2);
}

/* Add the alternative of free text without any of the strings. Return the dispatch. */
static struct cfg_item dispatch_end(struct tag_parser *p, const struct dispatch *d)
{
    struct exprs *x = &p->g->m.x;
    uint32_t none = expr_or(x, d->stops, expr_or(x, d->excluded, d->ends));
    cfg_add(p->g, d->rule, (struct cfg_item[]){{false, tag_text_without(x, none)}}, 1);
    return (struct cfg_item){true, d->rule};
}

/* Begin a dispatch and read its `excludes`. The caller sets `stops` and `loop`. */
static int dispatch_begin(struct tag_parser *p, const struct json *j, uint32_t ends,
                          struct dispatch *d)
{
    int n_empty = 0;
    *d = (struct dispatch){.rule = cfg_rule_new(p->g), .ends = ends, .stops = EXPR_EMPTY};
    return read_strings(p, json_field(j, "excludes"), "excludes", &d->excluded, &n_empty);
}

/* Parse the tags that begin with a trigger, without the trigger's n bytes, as an alternation. Parse
 * all tags if n is 0. */
static int tags_after(struct tag_parser *p, const struct json *j, const char *trigger, size_t n,
                      struct cfg_item *out)
{
    const struct json *tags = json_field(j, "tags");
    VEC(struct cfg_item) v = {0};
    size_t at = tag_down(p, "tags", 0), n_begin;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < json_count(tags); i++) {
        const char *begin = json_text(json_field(json_item(tags, i), "begin"), &n_begin);
        if (n > 0 && (!begin || n_begin < n || memcmp(begin, trigger, n) != 0)) continue;
        struct cfg_item one = {0};
        size_t at_item = tag_down(p, NULL, i);
        rc = tag_up(p, at_item, parse_tag(p, json_item(tags, i), n, &one));
        if (rc == 0 && !vec_push(&v, one)) rc = err_memory(p->e, "a grammar", 0);
    }
    if (rc == 0 && v.n == 0)
        rc = tag_fail(p, ERR_FORMAT, "trigger \"%.60s\": must begin a tag, got %zu tags without it",
                      trigger, json_count(tags));
    if (rc == 0) *out = cfg_either(p->g, v.v, v.n);
    vec_deinit(&v);
    return tag_up(p, at, rc);
}

/* Check that each tag begins with exactly one of the triggers. */
static int check_triggers(struct tag_parser *p, const struct json *j)
{
    const struct json *tags = json_field(j, "tags"), *triggers = json_field(j, "triggers");
    for (size_t i = 0; i < json_count(tags); i++) {
        size_t n, n_begin, n_found = 0;
        const char *begin = json_text(json_field(json_item(tags, i), "begin"), &n_begin);
        for (size_t k = 0; begin && k < json_count(triggers); k++) {
            const char *t = json_text(json_item(triggers, k), &n);
            n_found += t && n > 0 && n <= n_begin && memcmp(t, begin, n) == 0;
        }
        if (n_found != 1)
            return tag_fail(p, ERR_FORMAT, "tags/%zu begins with %zu of the triggers, not one", i,
                            n_found);
    }
    return 0;
}

/* Parse triggered tags: a dispatch whose strings are the triggers. The text begins with a tag if
 * at_least_one is true. */
static int parse_triggered(struct tag_parser *p, const struct json *j, uint32_t ends,
                           struct cfg_item *out)
{
    const struct json *triggers = json_field(j, "triggers");
    bool once = json_bool(json_field(j, "stop_after_first"), false);
    struct dispatch d;
    struct cfg_item first, then;
    size_t n;
    int n_empty = 0,
        rc = check_keys(p, j, "type triggers tags at_least_one stop_after_first excludes ");
    if (rc == 0) rc = check_triggers(p, j);
    if (rc == 0) rc = dispatch_begin(p, j, ends, &d);
    if (rc == 0) rc = read_strings(p, triggers, "triggers", &d.stops, &n_empty);
    if (rc) return rc;
    d.loop = !once;
    for (size_t i = 0; rc == 0 && i < json_count(triggers); i++) {
        const char *t = json_text(json_item(triggers, i), &n);
        if (n == 0)
            return tag_fail(p, ERR_FORMAT, "triggers: [%zu]: must have at least 1 byte, got 0", i);
        rc = tags_after(p, j, t, n, &then);
        if (rc == 0) dispatch_add(p, &d, t, n, then);
    }
    if (rc) return rc;
    *out = dispatch_end(p, &d);
    if (!json_bool(json_field(j, "at_least_one"), false)) return 0;
    rc = tags_after(p, j, "", 0, &first);
    if (rc == 0) *out = once ? first : rule_part(p, (struct cfg_item[]){first, *out}, 2);
    return rc;
}

/* Parse a dispatch. In contrast to the free text of triggered tags, the free text of a dispatch may
 * contain the end of its tag. `excludes` can exclude the end, as in xgrammar. */
static int parse_dispatch(struct tag_parser *p, const struct json *j, uint32_t ends,
                          struct cfg_item *out)
{
    char value[80];
    const struct json *rules = json_field(j, "rules");
    struct dispatch d;
    size_t n, at = 0;
    int rc = check_keys(p, j, "type rules loop excludes ");
    if (rc == 0) rc = dispatch_begin(p, j, EXPR_EMPTY, &d);
    if (rc) return rc;
    d.loop = json_bool(json_field(j, "loop"), true);
    for (size_t i = 0; i < json_count(rules); i++) {
        const char *t = json_text(json_item(json_item(rules, i), 0), &n);
        if (!t || n == 0 || json_count(json_item(rules, i)) != 2)
            return tag_fail(p, ERR_FORMAT, "rules/%zu: expected a string and a format, got %s", i,
                            json_value_text(json_item(rules, i), value));
        d.stops = expr_or(&p->g->m.x, d.stops, expr_bytes(&p->g->m.x, t, n));
    }
    at = tag_down(p, "rules", 0);
    for (size_t i = 0; rc == 0 && i < json_count(rules); i++) {
        const struct json *rule = json_item(rules, i);
        struct cfg_item then;
        const char *t = json_text(json_item(rule, 0), &n);
        size_t at_rule = tag_down(p, NULL, i);
        rc = tag_up(p, at_rule,
                    parse_format(p, json_item(rule, 1), d.loop ? EXPR_EMPTY : ends, &then));
        if (rc == 0) dispatch_add(p, &d, t, n, then);
    }
    if (rc == 0) *out = dispatch_end(p, &d);
    return tag_up(p, at, rc);
}

static int parse_separated(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    struct cfg_item tags, v[2];
    const char *text;
    size_t n;
    int rc = check_keys(p, j, "type tags separator at_least_one stop_after_first ");
    if (rc == 0) rc = need_text(p, j, "separator", &text, &n);
    if (rc == 0) rc = tags_after(p, j, "", 0, &tags);
    if (rc) return rc;
    *out = tags;
    if (!json_bool(json_field(j, "stop_after_first"), false)) {
        v[0] = text_part(p, text, n), v[1] = tags;
        v[1] = cfg_repeat(p->g, cfg_sequence(p->g, v, 2), 0, EXPR_INF);
        v[0] = tags;
        *out = cfg_sequence(p->g, v, 2);
    }
    if (!json_bool(json_field(j, "at_least_one"), false)) *out = cfg_repeat(p->g, *out, 0, 1);
    return 0;
}

/* ---- formats without inner formats ---- */

static int parse_const(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    const char *text;
    size_t n;
    int rc = check_keys(p, j, "type value ");
    if (rc == 0) rc = need_text(p, j, "value", &text, &n);
    if (rc == 0) *out = text_part(p, text, n);
    return rc;
}

static int parse_regex(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    const char *text;
    size_t n;
    struct regex_langs l;
    struct err e = {0};
    int rc = check_keys(p, j, "type pattern ");
    if (rc == 0) rc = need_text(p, j, "pattern", &text, &n);
    if (rc == 0 && (rc = regex_parse(&p->g->m.x, text, n, REGEX_RUST, &l, &e)) != 0)
        rc = tag_fail(p, rc, "%s", e.text);
    if (rc == 0) *out = (struct cfg_item){false, l.whole};
    return rc;
}

static int parse_grammar(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    const char *text;
    size_t n;
    struct err e = {0};
    int rc = check_keys(p, j, "type grammar ");
    if (rc == 0) rc = need_text(p, j, "grammar", &text, &n);
    if (rc) return rc;
    out->is_rule = true;
    rc = gbnf_read(p->g, text, n, p->o->token, p->o->token_arg, &out->id, &e);
    return rc ? tag_fail(p, rc, "%s", e.text) : 0;
}

static void close_schema(void *schema)
{
    schema_close(schema);
    free(schema);
}

int tag_schema(struct tag_parser *p, const char *text, size_t n, const struct schema_options *opt,
               struct cfg_item *out)
{
    struct schema *s = calloc(1, sizeof *s);
    struct err e = {0};
    if (!s) return err_memory(p->e, "a schema", sizeof *s);
    int rc = schema_open(s, text, n, opt, exprs_left(&p->g->m.x), p->o->limits, &e);
    if (rc) return free(s), tag_fail(p, rc, "%s", e.text);
    *out = cfg_graft(p->g, &s->m, schema_root(s), s, close_schema, NULL);
    return 0;
}

/* Read the style of a schema, if it is a notation of the whole value. BARE needs a quote, a text or
 * {"token": TEXT}. Set *is_notation. */
static int read_notation(struct tag_parser *p, const struct json *j, struct schema_options *o,
                         bool *is_notation)
{
    const char *style = json_text(json_field(j, "style"), NULL);
    const struct json *quote = json_field(j, "quote"), *token = json_field(quote, "token");
    bool bare = style && strcmp(style, "bare") == 0;
    *is_notation = !style || bare || strcmp(style, "json") == 0 || strcmp(style, "python") == 0;
    if (style && strcmp(style, "python") == 0) o->notation = NOTATION_PYTHON;
    if (!bare) return quote ? tag_fail(p, ERR_UNSUPPORTED, "unknown key \"quote\"") : 0;
    o->notation = NOTATION_BARE;
    o->quote = json_text(token ? token : quote, NULL);
    o->quote_is_token = token;
    if (!o->quote || !*o->quote)
        return tag_fail(p, ERR_FORMAT, "quote: expected a string, got %s",
                        o->quote ? "an empty one"
                                 : json_kind_name(json_kind(token ? token : quote)));
    return token ? read_token(p, token, &o->quote_token) : 0;
}

static int parse_schema(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    const struct json *schema = json_field(j, "json_schema"), *excludes = json_field(j, "excludes");
    const char *style = json_text(json_field(j, "style"), NULL);
    struct buf b = {0};
    struct schema_options opt = p->o->schema;
    bool is_notation = true;
    int rc = check_keys(
        p, j, "type json_schema style quote token input any_order max_whitespace_cnt excludes ");
    if (rc == 0 && !schema)
        rc = tag_fail(p, ERR_FORMAT, "json_schema: expected a schema, got nothing");
    if (rc == 0 && json_count(excludes) > 0)
        rc = tag_fail(p, ERR_UNSUPPORTED, "excludes within JSON: not supported yet");
    if (rc == 0 && json_int(json_field(j, "max_whitespace_cnt"), -1) >= 0)
        rc = tag_fail(p, ERR_UNSUPPORTED, "max_whitespace_cnt: not supported yet");
    if (rc == 0) rc = read_notation(p, j, &opt, &is_notation);
    p->input = json_field(j, "input");
    if (rc == 0 && p->input && is_notation) return tag_input_call(p, &opt, out);
    if (rc == 0 && !is_notation)
        return tag_xml(p, schema, style, json_text(json_field(j, "token"), NULL), out);
    opt.any_order |= json_bool(json_field(j, "any_order"), false);
    json_put(&b, schema);
    if (rc == 0 && b.failed) rc = err_memory(p->e, "a schema", 0);
    if (rc == 0) rc = tag_schema(p, b.data, b.n, &opt, out);
    buf_deinit(&b);
    return rc;
}

static int parse_token(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    int rc = check_keys(p, j, "type token ");
    return rc ? rc : token_mark(p, j, out);
}

/* Parse a format of one token or one character, except the listed tokens. */
static int parse_exclude_token(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    const struct json *list = json_field(j, "exclude_tokens");
    struct exprs *x = &p->g->m.x;
    uint32_t e = expr_or(x, expr_any_char(x), gbnf_token_expr(x, 0, true)), id = 0;
    int rc = check_keys(p, j, "type exclude_tokens ");
    e = expr_or(x, e, gbnf_token_expr(x, 0, false)); /* add token 0 to all other tokens */
    for (size_t i = 0; rc == 0 && i < json_count(list); i++) {
        rc = read_token(p, json_item(list, i), &id);
        if (rc == 0) e = expr_and(x, e, gbnf_token_expr(x, id, true));
    }
    *out = (struct cfg_item){false, e};
    return rc;
}

/* ---- combinations ---- */

/* Parse the elements of a concatenation, or of an alternation if `either` is true. In a
 * concatenation, only the last element gets `ends`. */
static int parse_list(struct tag_parser *p, const struct json *j, bool either, uint32_t ends,
                      struct cfg_item *out)
{
    char value[80];
    const struct json *list = json_field(j, "elements");
    VEC(struct cfg_item) v = {0};
    size_t at = tag_down(p, "elements", 0), n = json_count(list);
    int rc = json_kind(list) == JK_LIST && n > 0
                 ? check_keys(p, j, "type elements ")
                 : tag_fail(p, ERR_FORMAT, "expected a list of formats, got %s",
                            json_value_text(list, value));
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct cfg_item one = {0};
        size_t at_item = tag_down(p, NULL, i);
        uint32_t to = either || i + 1 == n ? ends : EXPR_EMPTY;
        rc = tag_up(p, at_item, parse_format(p, json_item(list, i), to, &one));
        if (rc == 0 && !vec_push(&v, one)) rc = err_memory(p->e, "a grammar", 0);
    }
    if (rc == 0) *out = either ? cfg_either(p->g, v.v, v.n) : cfg_sequence(p->g, v.v, v.n);
    vec_deinit(&v);
    return tag_up(p, at, rc);
}

/* Parse a repetition of `content`. Read both bounds from j if min is -1. There is no maximum if max
 * is -1. */
static int parse_repeat(struct tag_parser *p, const struct json *j, int64_t min, int64_t max,
                        uint32_t ends, struct cfg_item *out)
{
    char low[80], high[80];
    int rc = check_keys(p, j, min < 0 ? "type content min max " : "type content ");
    if (min < 0) min = json_int(json_field(j, "min"), -1), max = json_int(json_field(j, "max"), -2);
    if (rc == 0 && (min < 0 || max < -1 || (max >= 0 && max < min)))
        rc = tag_fail(p, ERR_FORMAT, "expected min and max, or max -1, got %s and %s",
                      json_value_text(json_field(j, "min"), low),
                      json_value_text(json_field(j, "max"), high));
    if (rc == 0 && (min > REPEAT_MAX || max > REPEAT_MAX))
        rc = tag_fail(p, ERR_LIMIT, "repetition: must be at most %d, got %lld", REPEAT_MAX,
                      (long long)(max > min ? max : min));
    if (rc == 0) rc = parse_member(p, j, "content", ends, out);
    if (rc == 0) *out = cfg_repeat(p->g, *out, (uint32_t)min, max < 0 ? EXPR_INF : (uint32_t)max);
    return rc;
}

static int parse_sequence(struct tag_parser *p, const struct json *j, uint32_t ends,
                          struct cfg_item *out)
{
    return parse_list(p, j, false, ends, out);
}

static int parse_or(struct tag_parser *p, const struct json *j, uint32_t ends, struct cfg_item *out)
{
    return parse_list(p, j, true, ends, out);
}

static int parse_whole_tag(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    return parse_tag(p, j, 0, out);
}

static int parse_qwen_xml(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    p->input = NULL;
    return tag_xml(p, json_field(j, "json_schema"), "qwen_xml", NULL, out);
}

static int parse_type(struct tag_parser *p, const struct json *j, const char *type, uint32_t ends,
                      struct cfg_item *out)
{
    static const struct {
        const char *type; /* static */
        int (*closed)(struct tag_parser *p, const struct json *j, struct cfg_item *out);
        /* a format whose end depends on the text after it */
        int (*open)(struct tag_parser *p, const struct json *j, uint32_t ends,
                    struct cfg_item *out);
        int64_t min, max; /* bounds of a repetition; used if there is no function */
    } types[] = {
        {"const_string", .closed = parse_const},
        {"json_schema", .closed = parse_schema},
        {"grammar", .closed = parse_grammar},
        {"regex", .closed = parse_regex},
        {"any_text", .open = parse_any_text},
        {"sequence", .open = parse_sequence},
        {"or", .open = parse_or},
        {"optional", .min = 0, .max = 1},
        {"star", .min = 0, .max = -1},
        {"plus", .min = 1, .max = -1},
        {"repeat", .min = -1, .max = -1},
        {"tag", .closed = parse_whole_tag},
        {"triggered_tags", .open = parse_triggered},
        {"tags_with_separator", .closed = parse_separated},
        {"dispatch", .open = parse_dispatch},
        {"token", .closed = parse_token},
        {"exclude_token", .closed = parse_exclude_token},
        {"qwen_xml_parameter", .closed = parse_qwen_xml},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(type, types[i].type) != 0) continue;
        if (types[i].closed) return types[i].closed(p, j, out);
        if (types[i].open) return types[i].open(p, j, ends, out);
        return parse_repeat(p, j, types[i].min, types[i].max, ends, out);
    }
    return tag_fail(p, ERR_UNSUPPORTED, "type \"%.60s\": not supported yet", type);
}

static int parse_format(struct tag_parser *p, const struct json *j, uint32_t ends,
                        struct cfg_item *out)
{
    const char *type = json_text(json_field(j, "type"), NULL);
    *out = (struct cfg_item){0};
    if (!type)
        return tag_fail(p, ERR_FORMAT, "expected a format, an object with a \"type\", got %s",
                        json_kind(j) == JK_OBJECT ? "one without" : json_kind_name(json_kind(j)));
    if (++p->depth > DEPTH_MAX) return tag_fail(p, ERR_LIMIT, "nested too deeply");
    int rc = parse_type(p, j, type, ends, out);
    p->depth--;
    struct err why;
    if (rc == 0 && p->g->m.x.failed)
        rc = tag_fail(p, exprs_error(&p->g->m.x, &why), "%s", why.text);
    return rc;
}

/* ---- the whole tag ---- */

/* Append the schema of structure i. The schema may be a string of JSON. */
static int put_schema(struct tag_parser *p, const struct json *schema, size_t i, struct buf *b)
{
    struct json *own = NULL;
    struct err why;
    size_t n;
    const char *text = json_text(schema, &n);
    static const struct json_limits limits = {.unique = true};
    int rc = text ? json_parse(&own, text, n, &limits, &why) : 0;
    json_drop(own);
    if (rc) return tag_fail(p, rc, "structures/%zu: schema: %.200s", i, why.text);
    if (text)
        buf_add(b, text, n);
    else
        json_put(b, schema);
    return 0;
}

/* Parse the old form, {structures, triggers}, by conversion to triggered tags. */
static int parse_old(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    const struct json *list = json_field(j, "structures");
    struct buf b = {0};
    struct json *made = NULL;
    int rc = check_keys(p, j, "type structures triggers ");
    buf_add_text(&b, "{\"type\":\"triggered_tags\",\"triggers\":");
    if (json_field(j, "triggers")) json_put(&b, json_field(j, "triggers"));
    buf_add_text(&b, ",\"tags\":[");
    for (size_t i = 0; rc == 0 && i < json_count(list); i++) {
        static const char *const key[] = {"begin", "schema", "end"};
        const struct json *one = json_item(list, i);
        rc = check_keys(p, one, "begin schema end ");
        for (int k = 0; rc == 0 && k < 3; k++)
            if (!json_field(one, key[k]))
                rc = tag_fail(p, ERR_FORMAT, "structures/%zu: %s: expected a value, got nothing", i,
                              key[k]);
        if (rc) break;
        buf_addf(&b, "%s{\"begin\":", i ? "," : "");
        json_put(&b, json_field(one, "begin"));
        buf_add_text(&b, ",\"content\":{\"type\":\"json_schema\",\"json_schema\":");
        rc = put_schema(p, json_field(one, "schema"), i, &b);
        buf_add_text(&b, "},\"end\":");
        json_put(&b, json_field(one, "end"));
        buf_add_char(&b, '}');
    }
    buf_add_text(&b, "]}");
    if (rc == 0 && b.failed) rc = err_memory(p->e, "a grammar", 0);
    if (rc == 0 && json_parse(&made, b.data, b.n, NULL, p->e))
        rc = tag_fail(p, ERR_FORMAT,
                      "structures: expected schemas in JSON, and triggers, got invalid JSON");
    if (rc == 0) rc = parse_format(p, made, EXPR_EMPTY, out);
    json_drop(made);
    buf_deinit(&b);
    return rc;
}

static int parse_top(struct tag_parser *p, const struct json *j, struct cfg_item *out)
{
    const char *type = json_text(json_field(j, "type"), NULL);
    if (json_field(j, "structures")) return parse_old(p, j, out);
    if (!type || strcmp(type, "structural_tag") != 0) return parse_format(p, j, EXPR_EMPTY, out);
    int rc = check_keys(p, j, "type format ");
    return rc ? rc : parse_member(p, j, "format", EXPR_EMPTY, out);
}

int tag_parse(struct cfg *g, const char *text, size_t n, const struct tag_options *o, struct err *e)
{
    struct tag_parser p = {.g = g, .o = o, .e = e};
    struct json *j = NULL;
    struct cfg_item all = {0};
    uint32_t root = cfg_rule_new(g); /* rule 0, the start */
    int rc = json_parse(&j, text, n, &(struct json_limits){.unique = true}, e);
    if (rc == 0) rc = parse_top(&p, j, &all);
    if (rc == 0) cfg_add(g, root, &all, 1);
    json_drop(j);
    buf_deinit(&p.path);
    return rc ? rc : cfg_finish(g, e);
}
