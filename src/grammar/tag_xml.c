/* tag_xml.c - tool arguments in the XML-like styles of some models: each member of an object is
 * between marks that name it.
 *
 * A string is written as it is, up to the closing mark; any other value is JSON. Members are in the
 * order of `properties`, and members that the schema does not name are not allowed. White space is
 * allowed between members and around JSON values. */
#include "tag.h"

#include "regex.h"

#include <stdlib.h>
#include <string.h>

/* Marks of a style. A mark after a name depends on whether the value is a string or JSON. */
static const struct style {
    const char *name, *open, *behind_name, *behind_name_json,
        *close; /* behind_name_json: if the value is not a string */
} STYLES[] = {
    {"qwen_xml", "<parameter=", ">", ">", "</parameter>"},
    {"minimax_xml", "<parameter name=\"", "\">", "\">", "</parameter>"},
    {"deepseek_xml",
     "<\xef\xbd\x9c"
     "DSML\xef\xbd\x9cparameter name=\"",
     "\" string=\"true\">", "\" string=\"false\">",
     "</\xef\xbd\x9c"
     "DSML\xef\xbd\x9cparameter>"},
    {"glm_xml", "<arg_key>", "</arg_key>", "</arg_key>", "</arg_value>"},
};

struct xml {
    struct tag_parser *p;
    const struct json *schema;
    const struct style *style;
    uint32_t space; /* expression: white space */
};

static uint32_t text_expr(struct xml *x, const char *text)
{
    return expr_bytes(&x->p->g->m.x, text, strlen(text));
}

/* Return the schema itself or, if it has a $ref, its target in the definitions of the whole schema.
 * NULL if that is not found. */
static const struct json *resolve(struct xml *x, const struct json *sub)
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

/* Return 1 if a value of this schema is a string, 0 if not, -1 if it may be either or is
 * unknown. */
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

/* Get the strings of a schema, as they are written in the text. Unknown keywords are rejected. */
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
    uint32_t any = tag_text_without(e, text_expr(x, x->style->close)), values = EXPR_EMPTY;
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
        return tag_fail(p, ERR_LIMIT, "length: must be at most 100000");
    if (min > 0 || max >= 0)
        *out = expr_and(
            e, *out,
            expr_rep(e, expr_any_char(e), (uint32_t)min, max < 0 ? EXPR_INF : (uint32_t)max));
    return 0;
}

/* Get a value that is not a string: JSON by its own schema, with the definitions of the whole
 * one. */
static int json_value(struct xml *x, const struct json *sub, struct part *out)
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
    int rc = b.failed || own.failed ? err_memory(x->p->e, "a schema", 0)
                                    : tag_schema(x->p, b.data, b.n, false, out);
    buf_deinit(&own);
    buf_deinit(&b);
    if (rc) return rc;
    struct part v[3] = {{false, x->space}, *out, {false, x->space}};
    *out = cfg_sequence(x->p->g, v, 3);
    return 0;
}

/* Get a member: its opening mark, name, value and closing mark. */
static int member(struct xml *x, const char *key, size_t n_key, const struct json *sub,
                  struct part *out)
{
    struct exprs *e = &x->p->g->m.x;
    const struct style *s = x->style;
    const struct json *what = resolve(x, sub);
    struct part value = {0}, v[3];
    if (json_kind(what) != JK_OBJECT)
        return tag_fail(x->p, ERR_UNSUPPORTED,
                        "parameter \"%.60s\": expected a schema that is an object", key);
    int text = is_string(what), rc = 0;
    if (text < 0)
        return tag_fail(
            x->p, ERR_UNSUPPORTED,
            "parameter \"%.60s\": expected a type, string or another; the style %s depends on it",
            key, s->name);
    rc = text ? string_value(x, what, &value.id) : json_value(x, sub, &value);
    if (rc) return rc;
    uint32_t head = expr_cat(e, text_expr(x, s->open),
                             expr_cat(e, expr_bytes(e, key, n_key),
                                      text_expr(x, text ? s->behind_name : s->behind_name_json)));
    if (strcmp(s->name, "glm_xml") == 0)
        head = expr_cat(e, head, expr_cat(e, x->space, text_expr(x, "<arg_value>")));
    v[0] = (struct part){false, head}, v[1] = value;
    v[2] = (struct part){false, expr_cat(e, text_expr(x, s->close), x->space)};
    *out = cfg_sequence(x->p->g, v, 3);
    return 0;
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

/* Reject keywords of the object that are not supported, and required members without a schema. */
static int check_object(struct xml *x)
{
    static const char *const known[] = {
        "type",        "properties", "required", "additionalProperties",
        "description", "title",      "$defs",    "definitions",
        "$schema",     "$id",        "strict",   "default",
        "examples"};
    for (void *it = json_first(x->schema); it; it = json_next(x->schema, it)) {
        size_t n, i = 0;
        const char *key = json_it_key(it, &n);
        while (i < sizeof known / sizeof *known && strcmp(known[i], key) != 0) i++;
        if (i == sizeof known / sizeof *known)
            return tag_fail(x->p, ERR_UNSUPPORTED,
                            "\"%.40s\" of an object: not supported yet in the style %s", key,
                            x->style->name);
    }
    const struct json *required = json_field(x->schema, "required");
    for (size_t i = 0; i < json_count(required); i++) {
        const char *name = json_text(json_item(required, i), NULL);
        if (!name || !json_field(json_field(x->schema, "properties"), name))
            return tag_fail(x->p, ERR_UNSUPPORTED,
                            "required parameter \"%.60s\": expected a schema", name ? name : "");
    }
    return 0;
}

int tag_xml(struct tag_parser *p, const struct json *schema, const char *style, struct part *out)
{
    struct xml x = {.p = p, .schema = schema};
    for (size_t i = 0; i < sizeof STYLES / sizeof *STYLES; i++)
        if (strcmp(STYLES[i].name, style) == 0) x.style = &STYLES[i];
    if (!x.style) return tag_fail(p, ERR_UNSUPPORTED, "style \"%.40s\": not supported yet", style);
    if (json_kind(schema) != JK_OBJECT)
        return tag_fail(p, ERR_UNSUPPORTED, "style %s: expected an object", style);
    struct byteset space = {{0}};
    for (const char *c = " \t\r\n"; *c; c++) byteset_add(&space, (uint8_t)*c);
    x.space = expr_rep(&p->g->m.x, expr_set(&p->g->m.x, &space), 0, EXPR_INF);
    int rc = check_object(&x);
    VEC(struct part) v = {0};
    if (rc == 0 && !vec_push(&v, ((struct part){false, x.space})))
        rc = err_memory(p->e, "a grammar", 0);
    const struct json *properties = json_field(schema, "properties");
    for (void *it = json_first(properties); rc == 0 && it; it = json_next(properties, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        struct part one = {0};
        rc = member(&x, key, n, json_it_value(it), &one);
        if (rc == 0 && !is_required(schema, key, n)) one = cfg_repeat(p->g, one, 0, 1);
        if (rc == 0 && !vec_push(&v, one)) rc = err_memory(p->e, "a grammar", 0);
    }
    if (rc == 0) *out = cfg_sequence(p->g, v.v, v.n);
    vec_deinit(&v);
    return rc;
}
