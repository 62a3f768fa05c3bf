/* tag_xml.c - tool arguments in the XML-like styles of some models: each member of an object is
 * between marks that name it.
 *
 * A string is written unchanged, up to the closing mark. Any other value is JSON. Members are in
 * the order of `properties`. Members that the schema does not name are not allowed. White space is
 * allowed between members and around JSON values.
 *
 * In a nested style, lists and objects are also members between marks. The parser searches for the
 * first closing mark of a name. Therefore a value is JSON if its members would need the name of an
 * enclosing member. A value is also JSON if its members are optional, or if their types are
 * unknown. */
#include "tag.h"

#include "regex.h"

#include <stdlib.h>
#include <string.h>

/* DEPTH_MAX: maximum depth of nested members. NAME_BYTES_MAX: maximum length of the names of
 * members. ITEM_MAX: maximum of minItems and maxItems. MEMBER_MAX: maximum number of members;
 * references may multiply members. */
enum { DEPTH_MAX = 8, NAME_BYTES_MAX = 256, ITEM_MAX = 2000, MEMBER_MAX = 4000 };

/* Maximum length of white space in bytes, and of white space in generated text (opt.plain). */
enum { SPACE_MAX = 200, SPACE_PLAIN_MAX = 8 };

/* Marks of a style. The mark after a name depends on the type of the value, string or JSON. */
static const struct style {
    /* static; behind_name_json: mark after a name if the value is not a string; NULL:
     * behind_name */
    const char *name, *open, *behind_name, *behind_name_json, *close;
    const char *verbatim[2]; /* optional marks around a string, static; NULL if none */
    bool lines;              /* true: a line break next to a mark is not part of a string */
    bool nested;             /* true: the name and ">" follow `close` */
    const char *without;     /* text that no string contains, static; NULL: `close` */
} STYLES[] = {
    {.name = "qwen_xml", .open = "<parameter=", .behind_name = ">", .close = "</parameter>"},
    {.name = "qwen3_coder_xml",
     .open = "<parameter=",
     .behind_name = ">",
     .close = "</parameter>",
     .lines = true},
    {.name = "minimax_xml",
     .open = "<parameter name=\"",
     .behind_name = "\">",
     .close = "</parameter>"},
    {.name = "deepseek_xml",
     .open = "<\xef\xbd\x9c"
             "DSML\xef\xbd\x9cparameter name=\"",
     .behind_name = "\" string=\"true\">",
     .behind_name_json = "\" string=\"false\">",
     .close = "</\xef\xbd\x9c"
              "DSML\xef\xbd\x9cparameter>"},
    {.name = "glm_xml", .open = "<arg_key>", .behind_name = "</arg_key>", .close = "</arg_value>"},
    {.name = "minicpm5_xml",
     .open = "<param name=\"",
     .behind_name = "\">",
     .close = "</param>",
     .verbatim = {"<![CDATA[", "]]>"}},
    {.name = "step3_xml",
     .open = "<steptml:parameter name=\"",
     .behind_name = "\">",
     .close = "</steptml:parameter>"},
    {.name = "minimax_m3_xml",
     .open = "]<]minimax[>[<",
     .behind_name = ">",
     .close = "]<]minimax[>[</",
     .nested = true,
     .without = "]<]minimax[>["},
};

/* Pointers are borrowed. */
struct xml {
    struct tag_parser *p;
    const struct json *schema;
    const struct style *style;
    uint32_t space;    /* expression of the white space */
    const char *token; /* text of the special token that begins marks; NULL if none */
    uint32_t token_expr;
    const char *name[DEPTH_MAX]; /* names of the enclosing members [depth] */
    int depth, n_member;
};

static uint32_t text_expr(struct xml *x, const char *text)
{
    return expr_bytes(&x->p->g->m.x, text, strlen(text));
}

/* Return the expression of a mark. The mark may begin with the special token. */
static uint32_t mark_expr(struct xml *x, const char *mark)
{
    size_t n = x->token ? strlen(x->token) : 0;
    if (n == 0 || strncmp(mark, x->token, n) != 0) return text_expr(x, mark);
    return expr_cat(&x->p->g->m.x, x->token_expr, text_expr(x, mark + n));
}

/* Return the text that ends a value, which no string may contain. */
static const char *ends_value(const struct style *s)
{
    return s->without ? s->without : s->close;
}

/* Return the schema itself or, if it has a $ref, its target in the definitions of the whole schema.
 * NULL if the target is not found. */
static const struct json *resolve_ref(struct xml *x, const struct json *sub)
{
    static const char *const group[] = {"$defs", "definitions"};
    const char *ref = json_text(json_field(sub, "$ref"), NULL);
    for (int i = 0; ref && i < 2; i++) {
        size_t n = strlen(group[i]);
        if (strncmp(ref, "#/", 2) == 0 && strncmp(ref + 2, group[i], n) == 0 && ref[2 + n] == '/')
            return json_field(json_field(x->schema, group[i]), ref + 3 + n);
    }
    return ref ? NULL : sub;
}

/* Return 1 if all values of this schema are strings, and 0 if no value is a string. Return -1 if
 * some values are strings, or if the type is unknown. */
static int is_string(const struct json *sub)
{
    const struct json *type = json_field(sub, "type"), *list = json_field(sub, "enum"),
                      *one = json_field(sub, "const");
    const char *name = json_text(type, NULL);
    if (name) return strcmp(name, "string") == 0;
    if (json_kind(type) == JK_LIST) {
        for (size_t i = 0; i < json_count(type); i++) {
            const char *each = json_text(json_item(type, i), NULL);
            if (!each || strcmp(each, "string") == 0) return -1;
        }
        return 0;
    }
    if (one) return json_kind(one) == JK_TEXT;
    size_t n_text = 0;
    for (size_t i = 0; i < json_count(list); i++)
        n_text += json_kind(json_item(list, i)) == JK_TEXT;
    return json_count(list) == 0 || (n_text > 0 && n_text < json_count(list)) ? -1 : n_text > 0;
}

/* Return the texts from which a parser reads `values` if it removes one line break at each end.
 * The texts are between line breaks, or have no line break at their ends. */
static uint32_t spelled_lines(struct exprs *e, uint32_t values)
{
    uint32_t line = expr_bytes(e, "\n", 1), all = expr_not(e, EXPR_EMPTY),
             at_end = expr_or(e, expr_cat(e, line, all), expr_cat(e, all, line));
    return expr_or(e, expr_and(e, values, expr_not(e, at_end)),
                   expr_cat(e, line, expr_cat(e, values, line)));
}

/* Return the texts that spell the strings `values`: each string, and the string between the marks
 * `verbatim` if the style has these marks. */
static uint32_t spelled(struct xml *x, uint32_t values)
{
    struct exprs *e = &x->p->g->m.x;
    const struct style *s = x->style;
    uint32_t raw = expr_and(e, values, tag_text_without(e, text_expr(x, ends_value(s))));
    if (s->lines) return spelled_lines(e, raw);
    if (!s->verbatim[0]) return raw;
    uint32_t open = text_expr(x, s->verbatim[0]), close = text_expr(x, s->verbatim[1]);
    uint32_t begun = expr_cat(e, open, expr_not(e, EXPR_EMPTY));
    uint32_t inner = expr_and(e, values, tag_text_without(e, close));
    return expr_or(e, expr_and(e, raw, expr_not(e, begun)),
                   expr_cat(e, open, expr_cat(e, inner, close)));
}

/* Set *out to the spellings of the strings of a schema. Unknown keywords are rejected. */
static int string_value(struct xml *x, const struct json *sub, uint32_t *out)
{
    static const char *const known[] = {"type",      "description", "title",    "default",
                                        "examples",  "enum",        "const",    "pattern",
                                        "minLength", "maxLength",   "$comment", "deprecated"};
    struct tag_parser *p = x->p;
    struct exprs *e = &p->g->m.x;
    for (void *it = json_first(sub); it; it = json_next(sub, it)) {
        size_t n, i = 0;
        const char *key = json_it_key(it, &n);
        while (i < sizeof known / sizeof *known && strcmp(known[i], key) != 0) i++;
        if (i == sizeof known / sizeof *known)
            return tag_fail(p, ERR_UNSUPPORTED,
                            "\"%.40s\" of a string: not supported yet in the style %s", key,
                            x->style->name);
    }
    const struct json *list = json_field(sub, "enum"), *one = json_field(sub, "const");
    size_t n;
    const char *text = json_text(one, &n), *pattern = json_text(json_field(sub, "pattern"), NULL);
    uint32_t any = tag_text_without(e, EXPR_EMPTY), values = EXPR_EMPTY;
    if (text) values = expr_bytes(e, text, n);
    for (size_t i = 0; i < json_count(list); i++)
        if ((text = json_text(json_item(list, i), &n)))
            values = expr_or(e, values, expr_bytes(e, text, n));
    *out = list || one ? expr_and(e, any, values) : any;
    if (pattern) {
        struct regex_langs l;
        struct err err = {0};
        int rc = regex_parse(e, pattern, strlen(pattern), REGEX_ECMA, &l, &err);
        if (rc) return tag_fail(p, rc, "%s", err.text);
        *out = expr_and(e, *out, l.found);
    }
    int64_t min = json_int(json_field(sub, "minLength"), 0),
            max = json_int(json_field(sub, "maxLength"), -1);
    if (min < 0 || min > 100000 || max > 100000)
        return tag_fail(p, ERR_LIMIT, "length: must be in [0, 100000], got %lld and %lld",
                        (long long)min, (long long)max);
    if (min > 0 || max >= 0)
        *out = expr_and(
            e, *out,
            expr_rep(e, expr_any_char(e), (uint32_t)min, max < 0 ? EXPR_INF : (uint32_t)max));
    *out = spelled(x, *out);
    return 0;
}

/* Get a value that is not a string: JSON by its schema, with the definitions of the whole
 * schema. */
static int json_value(struct xml *x, const struct json *sub, struct cfg_item *out)
{
    struct buf b = {0}, own = {0};
    static const char *const group[] = {"$defs", "definitions"};
    buf_add_char(&b, '{');
    for (int i = 0; i < 2; i++) {
        const struct json *defs = json_field(x->schema, group[i]);
        if (!defs || json_field(sub, group[i])) continue;
        buf_addf(&b, "\"%s\":", group[i]);
        json_put(&b, defs);
        if (json_first(sub)) buf_add_char(&b, ',');
    }
    json_put(&own, sub);
    if (own.n > 1) buf_add(&b, own.data + 1, own.n - 1);
    struct schema_options opt = x->p->o->schema;
    opt.without =
        ends_value(x->style); /* the parser ends the value at this mark, also in a string */
    int rc = b.failed || own.failed ? err_memory(x->p->e, "a schema", 0)
                                    : tag_schema(x->p, b.data, b.n, &opt, out);
    buf_deinit(&own);
    buf_deinit(&b);
    if (rc) return rc;
    struct cfg_item v[3] = {{false, x->space}, *out, {false, x->space}};
    *out = cfg_sequence(x->p->g, v, 3);
    return 0;
}

static int value(struct xml *x, const struct json *sub, bool text, struct cfg_item *out);

/* Get a member: its opening mark, name, value and closing mark. */
static int member(struct xml *x, const char *key, size_t n_key, const struct json *sub,
                  struct cfg_item *out)
{
    struct exprs *e = &x->p->g->m.x;
    const struct style *s = x->style;
    const struct json *what = resolve_ref(x, sub);
    struct cfg_item v[3] = {0};
    if (json_kind(what) != JK_OBJECT)
        return tag_fail(x->p, ERR_UNSUPPORTED,
                        "parameter \"%.60s\": expected a schema that is an object, got %s", key,
                        json_kind_name(json_kind(what)));
    int text = is_string(what), rc = 0;
    if (text < 0)
        return tag_fail(x->p, ERR_UNSUPPORTED,
                        "parameter \"%.60s\": expected a type, string or another, got both or "
                        "none; the style %s "
                        "depends on it",
                        key, s->name);
    if (++x->n_member > MEMBER_MAX)
        return tag_fail(x->p, ERR_LIMIT, "parameters: must be at most %d, got %d", MEMBER_MAX,
                        x->n_member);
    if (s->nested && memchr(key, '>', n_key))
        return tag_fail(x->p, ERR_UNSUPPORTED,
                        "parameter \"%.60s\": must not contain >, got one at byte %zu", key,
                        (size_t)((const char *)memchr(key, '>', n_key) - key));
    x->name[x->depth++] = key;
    rc = value(x, sub, text, &v[1]);
    x->depth--;
    if (rc) return rc;
    uint32_t name = expr_bytes(e, key, n_key), close = mark_expr(x, s->close);
    uint32_t head =
        expr_cat(e, mark_expr(x, s->open),
                 expr_cat(e, name,
                          mark_expr(x, text || !s->behind_name_json ? s->behind_name
                                                                    : s->behind_name_json)));
    if (strcmp(s->name, "glm_xml") == 0)
        head = expr_cat(e, head, expr_cat(e, x->space, mark_expr(x, "<arg_value>")));
    if (s->nested) close = expr_cat(e, close, expr_cat(e, name, text_expr(x, ">")));
    v[0] = (struct cfg_item){false, head};
    v[2] = (struct cfg_item){false, expr_cat(e, close, x->space)};
    *out = cfg_sequence(x->p->g, v, 3);
    return 0;
}

/* Return the first key of a schema that is not in `known` [n]; NULL if none. */
static const char *unknown_key(const struct json *schema, const char *const *known, size_t n)
{
    for (void *it = json_first(schema); it; it = json_next(schema, it)) {
        size_t n_key, i = 0;
        const char *key = json_it_key(it, &n_key);
        while (i < n && strcmp(known[i], key) != 0) i++;
        if (i == n) return key;
    }
    return NULL;
}

static bool is_required(const struct json *schema, const char *key, size_t n_key)
{
    const struct json *list = json_field(schema, "required");
    size_t n;
    for (size_t i = 0; i < json_count(list); i++) {
        const char *name = json_text(json_item(list, i), &n);
        if (name && n == n_key && memcmp(name, key, n) == 0) return true;
    }
    return false;
}

static const char *const object_keys[] = {
    "type",        "properties", "required", "additionalProperties",
    "description", "title",      "$defs",    "definitions",
    "$schema",     "$id",        "strict",   "default",
    "examples"};
enum { N_OBJECT_KEY = sizeof object_keys / sizeof *object_keys };

/* Return the name of a required member without a schema; NULL if none. */
static const char *missing(const struct json *schema)
{
    const struct json *required = json_field(schema, "required");
    for (size_t i = 0; i < json_count(required); i++) {
        const char *name = json_text(json_item(required, i), NULL);
        if (!name || !json_field(json_field(schema, "properties"), name)) return name ? name : "";
    }
    return NULL;
}

/* Reject keywords of the object that are not supported, and required members without a schema. */
static int check_object(struct xml *x)
{
    const char *key = unknown_key(x->schema, object_keys, N_OBJECT_KEY), *name = missing(x->schema);
    if (key)
        return tag_fail(x->p, ERR_UNSUPPORTED,
                        "\"%.40s\" of an object: not supported yet in the style %s", key,
                        x->style->name);
    if (name)
        return tag_fail(x->p, ERR_UNSUPPORTED,
                        "required parameter \"%.60s\": expected a schema, got nothing", name);
    return 0;
}

/* Get the members of an object, in the order of `properties`. */
static int members(struct xml *x, const struct json *schema, struct cfg_item *out)
{
    VEC(struct cfg_item) v = {0};
    int rc = vec_push(&v, ((struct cfg_item){false, x->space}))
                 ? 0
                 : err_memory(x->p->e, "a grammar", 0);
    const struct json *properties = json_field(schema, "properties");
    for (void *it = json_first(properties); rc == 0 && it; it = json_next(properties, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        struct cfg_item one = {0};
        rc = member(x, key, n, json_it_value(it), &one);
        if (rc == 0 && !is_required(schema, key, n)) one = cfg_repeat(x->p->g, one, 0, 1);
        if (rc == 0 && !vec_push(&v, one)) rc = err_memory(x->p->e, "a grammar", 0);
    }
    if (rc == 0) *out = cfg_sequence(x->p->g, v.v, v.n);
    vec_deinit(&v);
    return rc;
}

/* ---- nested members ---- */

/* Return true if a nested member may have this name and schema. */
static bool may_nest(struct xml *x, const char *key, const struct json *sub)
{
    const struct json *what = resolve_ref(x, sub);
    bool ok = json_kind(what) == JK_OBJECT && is_string(what) >= 0 && *key && *key != '/' &&
              strlen(key) < NAME_BYTES_MAX && !strchr(key, '>');
    for (int i = 0; i < x->depth; i++) ok &= strcmp(x->name[i], key) != 0;
    return ok;
}

/* Return true if a value with this schema is an object of at least one nested member. */
static bool is_nested_object(struct xml *x, const struct json *what)
{
    const struct json *properties = json_field(what, "properties");
    const char *type = json_text(json_field(what, "type"), NULL);
    bool ok = type && strcmp(type, "object") == 0 && json_count(json_field(what, "required")) > 0 &&
              !unknown_key(what, object_keys, N_OBJECT_KEY) && !missing(what);
    size_t n;
    for (void *it = json_first(properties); ok && it; it = json_next(properties, it))
        ok = may_nest(x, json_it_key(it, &n), json_it_value(it));
    return ok;
}

/* Return true if a value with this schema is a list of nested members. */
static bool is_nested_list(struct xml *x, const struct json *what)
{
    static const char *const known[] = {"type",  "items",   "description", "minItems",
                                        "title", "default", "examples",    "maxItems"};
    const char *type = json_text(json_field(what, "type"), NULL);
    return type && strcmp(type, "array") == 0 &&
           !unknown_key(what, known, sizeof known / sizeof *known) && json_field(what, "items") &&
           may_nest(x, "item", json_field(what, "items"));
}

/* Get a list of nested members. An empty list is JSON. */
static int nested_list(struct xml *x, const struct json *what, struct cfg_item *out)
{
    int64_t min = json_int(json_field(what, "minItems"), 0),
            max = json_int(json_field(what, "maxItems"), -1);
    struct cfg_item one = {0}, v[2] = {{false, text_expr(x, "[]")}};
    if (min < 0 || min > ITEM_MAX || max > ITEM_MAX || (max >= 0 && max < min))
        return tag_fail(x->p, ERR_LIMIT, "items: must be in [0, %d] and ascend, got %lld and %lld",
                        ITEM_MAX, (long long)min, (long long)max);
    int rc = member(x, "item", 4, json_field(what, "items"), &one);
    if (rc) return rc;
    if (max == 0) return *out = v[0], 0;
    one = cfg_repeat(x->p->g, one, min ? (uint32_t)min : 1, max < 0 ? EXPR_INF : (uint32_t)max);
    struct cfg_item all[2] = {{false, x->space}, one};
    v[1] = cfg_sequence(x->p->g, all, 2);
    *out = min ? v[1] : cfg_either(x->p->g, v, 2);
    return 0;
}

/* Get the text of a custom tool. */
static int input_value(struct xml *x, const struct input_form *form, struct cfg_item *out)
{
    const struct cfg_item line = {false, text_expr(x, "\n")};
    struct cfg_item v[3] = {line, {0}, line};
    int rc = tag_input(x->p, form, &v[1]);
    if (rc == 0) *out = x->style->lines ? cfg_sequence(x->p->g, v, 3) : v[1];
    return rc;
}

static int value(struct xml *x, const struct json *sub, bool text, struct cfg_item *out)
{
    const struct json *what = resolve_ref(x, sub);
    const struct input_form raw = {.without = ends_value(x->style), .begin = x->style->verbatim[0]};
    if (x->p->input) return input_value(x, &raw, out);
    if (text) return string_value(x, what, &out->id);
    bool nested = x->style->nested && x->depth < DEPTH_MAX;
    if (nested && is_nested_object(x, what)) return members(x, what, out);
    if (nested && is_nested_list(x, what)) return nested_list(x, what, out);
    return json_value(x, sub, out);
}

/* ---- the whole object ---- */

int tag_xml(struct tag_parser *p, const struct json *schema, const char *style, const char *token,
            struct cfg_item *out)
{
    struct xml x = {.p = p, .schema = schema, .token = token};
    for (size_t i = 0; i < sizeof STYLES / sizeof *STYLES; i++)
        if (strcmp(STYLES[i].name, style) == 0) x.style = &STYLES[i];
    if (!x.style) return tag_fail(p, ERR_UNSUPPORTED, "style \"%.40s\": not supported yet", style);
    if (json_kind(schema) != JK_OBJECT)
        return tag_fail(p, ERR_UNSUPPORTED, "style %s: expected an object, got %s", style,
                        json_kind_name(json_kind(schema)));
    struct byteset space = {{0}};
    for (const char *c = " \t\r\n"; *c; c++) byteset_add(&space, (uint8_t)*c);
    /* the white space is bounded, so that a model cannot repeat blanks without end */
    x.space = expr_rep(&p->g->m.x, expr_set(&p->g->m.x, &space), 0,
                       p->o->schema.plain ? SPACE_PLAIN_MAX : SPACE_MAX);
    int64_t id = token && p->o->token ? p->o->token(p->o->token_arg, token, strlen(token)) : -1;
    if (token && (id < 0 || id > INT32_MAX))
        return tag_fail(p, ERR_FORMAT, "token not found in this tokenizer");
    if (token) x.token_expr = gbnf_token_expr(&p->g->m.x, (uint32_t)id, false);
    int rc = check_object(&x);
    return rc ? rc : members(&x, schema, out);
}
