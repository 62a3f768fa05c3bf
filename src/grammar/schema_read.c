/* schema_read.c - the document: its subschemas, their JSON pointers, and the targets of references;
 * see schema.h.
 *
 * The search for subschemas uses the table KEYWORD of all keywords with subschemas. A keyword
 * outside of the table is an annotation or unknown, unless other code reads it. JSON Schema
 * requires that unknown keywords are ignored. RFC 3986 defines URIs, and RFC 6901 defines JSON
 * pointers. */
#include "schema.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SUBSCHEMA_MAX bounds the memory of a schema. DEPTH_MAX bounds the stack, because readers recurse
 * into each level. */
enum { SUBSCHEMA_MAX = 200000, DEPTH_MAX = 300 };

bool schema_fail(struct schema *s, int code, uint32_t sub, const char *keyword, const char *fmt,
                 ...)
{
    if (s->rc) return false;
    char why[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    const char *path = sub < s->sub.n ? s->sub.v[sub].path : "";
    s->rc = err_set(s->e, code, "schema: #%s%s%s: %s", path, keyword ? "/" : "",
                    keyword ? keyword : "", why);
    return false;
}

bool schema_no_memory(struct schema *s)
{
    if (s->rc == 0) s->rc = err_memory(s->e, "a schema", 0);
    return false;
}

/* ---- maps with keys in the arena ---- */

/* Map a copy of a key of n bytes to a value. */
static bool map_put(struct schema *s, struct strmap *m, const void *key, size_t n, uint32_t value)
{
    char *copy = arena_text(&s->arena, key, n);
    return copy && strmap_put(m, copy, n, value) ? true : schema_no_memory(s);
}

/* Return the number of a member's name; 0 after a failure. Add the name if it is new. */
uint32_t name_number(struct schema *s, const char *name, size_t n)
{
    const uint32_t *known = strmap_get(&s->name_of, name, n);
    if (known) return *known;
    const char *copy = arena_text(&s->arena, name, n);
    uint32_t i = (uint32_t)s->name.n;
    bool ok = copy && vec_push(&s->name, copy) && vec_push(&s->name_n, (uint32_t)n) &&
              strmap_put(&s->name_of, copy, n, i);
    return ok ? i : (schema_no_memory(s), 0);
}

/* ---- URIs: the part of RFC 3986, section 5 that $id and $ref need ---- */

/* Return true if a URI reference is absolute. */
static bool has_scheme(const char *u)
{
    size_t n = strspn(u, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    return n > 0 && u[n] == ':';
}

/* Remove the "." and ".." segments of a path in place (RFC 3986, section 5.2.4). */
static void remove_dots(char *path)
{
    char *out = path, *in = path;
    while (*in) {
        if (strncmp(in, "/./", 3) == 0 || strcmp(in, "/.") == 0) {
            in += in[2] ? 2 : 1;
            if (!in[1] && in[0] == '.') in[0] = '/', in[1] = 0;
        } else if (strncmp(in, "/../", 4) == 0 || strcmp(in, "/..") == 0) {
            bool end = !in[3];
            in += end ? 2 : 3;
            if (end) in[0] = '/';
            while (out > path && *--out != '/') continue;
        } else {
            do *out++ = *in++;
            while (*in && *in != '/');
        }
    }
    *out = 0;
}

/* Return the URI reference, resolved against a base and without its fragment, in s->arena. `base`
 * is empty for a document without $id. NULL if memory is exhausted. */
static const char *resolve_uri(struct schema *s, const char *base, const char *ref)
{
    struct buf b = {0};
    size_t n_ref = strcspn(ref, "#"), n_scheme = strcspn(base, ":");
    const char *authority = base[n_scheme] ? base + n_scheme + 1 : base;
    size_t n_authority = (size_t)(authority - base);
    if (strncmp(authority, "//", 2) == 0) n_authority += 2 + strcspn(authority + 2, "/?#");
    if (n_ref == 0) {
        buf_add_text(&b, base);
    } else if (has_scheme(ref)) {
        buf_add(&b, ref, n_ref);
    } else {
        size_t n_keep = n_authority;
        const char *slash = strrchr(base + n_authority, '/');
        if (strncmp(ref, "//", 2) == 0)
            n_keep = base[n_scheme] ? n_scheme + 1 : 0;
        else if (ref[0] != '/' && slash)
            n_keep = (size_t)(slash - base) + 1;
        buf_add(&b, base, n_keep);
        if (ref[0] != '/' && !slash && n_authority > 0) buf_add_char(&b, '/');
        buf_add(&b, ref, n_ref);
        if (!b.failed && b.n > n_authority) remove_dots(b.data + n_authority);
    }
    const char *out =
        b.failed ? NULL : arena_text(&s->arena, b.data ? b.data : "", b.data ? strlen(b.data) : 0);
    buf_deinit(&b);
    if (!out) schema_no_memory(s);
    return out;
}

/* ---- registering all subschemas ---- */

/* Kinds of a keyword's value: one schema, a list or an object of schemas. */
enum holds { HOLDS_ONE = 1, HOLDS_LIST = 2, HOLDS_MAP = 4 };
static const struct {
    const char *name; /* static */
    int holds;
} KEYWORD[] = {
    {"additionalItems", HOLDS_ONE},
    {"additionalProperties", HOLDS_ONE},
    {"allOf", HOLDS_LIST},
    {"anyOf", HOLDS_LIST},
    {"oneOf", HOLDS_LIST},
    {"not", HOLDS_ONE},
    {"if", HOLDS_ONE},
    {"then", HOLDS_ONE},
    {"else", HOLDS_ONE},
    {"contains", HOLDS_ONE},
    {"items", HOLDS_ONE | HOLDS_LIST},
    {"prefixItems", HOLDS_LIST},
    {"properties", HOLDS_MAP},
    {"patternProperties", HOLDS_MAP},
    {"propertyNames", HOLDS_ONE},
    {"dependencies", HOLDS_MAP},
    {"dependentSchemas", HOLDS_MAP},
    {"$defs", HOLDS_MAP},
    {"definitions", HOLDS_MAP},
    {"unevaluatedItems", HOLDS_ONE},
    {"unevaluatedProperties", HOLDS_ONE},
};

/* Return the JSON pointer `path` with one more key, in s->arena. NULL if memory is exhausted. */
static const char *join_path(struct schema *s, const char *path, const char *key, size_t n_key)
{
    struct buf b = {0};
    buf_add_text(&b, path);
    buf_add_char(&b, '/');
    for (size_t i = 0; i < n_key; i++)
        if (key[i] == '~' || key[i] == '/')
            buf_add_text(&b, key[i] == '~' ? "~0" : "~1");
        else
            buf_add_char(&b, key[i]);
    const char *out = b.failed ? NULL : arena_text(&s->arena, b.data, b.n);
    buf_deinit(&b);
    return out;
}

/* Append a subschema and return its number; 0 after a failure. path: NULL if memory is
 * exhausted. */
static uint32_t new_sub(struct schema *s, const struct json *j, const char *path, uint32_t resource,
                        bool is_const)
{
    struct sub sub = {.j = j,
                      .path = path,
                      .resource = resource,
                      .is_const = is_const,
                      .lang = {NONE, NONE, NONE, NONE}};
    uint32_t i = (uint32_t)s->sub.n;
    if (i >= SUBSCHEMA_MAX)
        return schema_fail(s, ERR_LIMIT, 0, NULL, "more than %d subschemas", SUBSCHEMA_MAX), 0;
    if (!path || !vec_push(&s->sub, sub)) return schema_no_memory(s), 0;
    return map_put(s, &s->sub_of, &j, sizeof j, i) ? i : 0;
}

/* Return the text of a field; NULL if the field is absent or not a string. */
static const char *text_field(const struct json *j, const char *key)
{
    return json_text(json_field(j, key), NULL);
}

static bool add_anchor(struct schema *s, uint32_t resource, const char *name, uint32_t sub)
{
    struct buf b = {0};
    buf_addf(&b, "%u#%s", resource, name);
    bool ok = !b.failed && map_put(s, &s->anchor, b.data, b.n, sub);
    buf_deinit(&b);
    return ok || schema_no_memory(s);
}

/* Register a subschema's $id and anchors. The subschema is the root of a resource if $id is a URI.
 * An $id "#name" is an anchor. A $ref hides $id in drafts before 2019. */
static bool note_names(struct schema *s, uint32_t i)
{
    const struct json *j = s->sub.v[i].j;
    const char *id = text_field(j, s->draft == DRAFT_4 ? "id" : "$id");
    if (s->draft < DRAFT_2019 && json_field(j, "$ref")) id = NULL;
    if (id && id[0] == '#') {
        if (id[1] && !add_anchor(s, s->sub.v[i].resource, id + 1, i)) return false;
    } else if (id) {
        const char *uri = resolve_uri(s, s->resource.v[s->sub.v[i].resource].uri, id);
        if (!uri) return false;
        if (!vec_push(&s->resource, ((struct resource){uri, i}))) return schema_no_memory(s);
        s->sub.v[i].resource = (uint32_t)s->resource.n - 1;
    }
    const char *anchor = text_field(j, "$anchor"), *dynamic = text_field(j, "$dynamicAnchor");
    return (!anchor || add_anchor(s, s->sub.v[i].resource, anchor, i)) &&
           (!dynamic || add_anchor(s, s->sub.v[i].resource, dynamic, i));
}

/* Register j and all subschemas below it. sub_of registers booleans. `path` is the JSON pointer of
 * j. */
static bool register_schemas(struct schema *s, const struct json *j, const char *path,
                             uint32_t resource);

/* Register the values of an object. A value that is not an object (a list of `dependencies`) is not
 * registered. */
static bool walk_members(struct schema *s, const struct json *j, const char *path,
                         uint32_t resource)
{
    bool ok = true;
    for (void *it = json_first(j); ok && it; it = json_next(j, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        const struct json *v = json_it_value(it);
        if (json_kind(v) == JK_OBJECT)
            ok = register_schemas(s, v, join_path(s, path, key, n), resource);
    }
    return ok;
}

static bool walk_items(struct schema *s, const struct json *j, const char *path, uint32_t resource)
{
    bool ok = true;
    for (size_t i = 0; ok && i < json_count(j); i++) {
        char index[24];
        int n = snprintf(index, sizeof index, "%zu", i);
        ok = register_schemas(s, json_item(j, i), join_path(s, path, index, (size_t)n), resource);
    }
    return ok;
}

static bool register_schemas(struct schema *s, const struct json *j, const char *path,
                             uint32_t resource)
{
    if (json_kind(j) != JK_OBJECT) return true;
    if (s->depth > DEPTH_MAX)
        return schema_fail(s, ERR_LIMIT, 0, NULL, "nested more than %d deep", DEPTH_MAX);
    uint32_t i = new_sub(s, j, path, resource, false);
    if (s->rc || !note_names(s, i)) return false;
    resource = s->sub.v[i].resource;
    bool ok = true;
    s->depth++;
    for (size_t k = 0; ok && k < sizeof KEYWORD / sizeof *KEYWORD; k++) {
        const struct json *v = json_field(j, KEYWORD[k].name);
        const char *at = v ? join_path(s, path, KEYWORD[k].name, strlen(KEYWORD[k].name)) : NULL;
        if (v && !at) ok = schema_no_memory(s);
        if (v && ok && json_kind(v) == JK_OBJECT && (KEYWORD[k].holds & HOLDS_ONE))
            ok = register_schemas(s, v, at, resource);
        else if (v && ok && json_kind(v) == JK_OBJECT && KEYWORD[k].holds == HOLDS_MAP)
            ok = walk_members(s, v, at, resource);
        else if (v && ok && json_kind(v) == JK_LIST && (KEYWORD[k].holds & HOLDS_LIST))
            ok = walk_items(s, v, at, resource);
    }
    s->depth--;
    return ok;
}

/* Set *draft to the draft that $schema names if the draft is known. Return false if the URI is not
 * from json-schema.org, because its vocabularies are unknown. uri: NULL if absent. */
static bool draft_of(const char *uri, enum draft *draft)
{
    static const struct {
        const char *part; /* static */
        enum draft draft;
    } known[] = {{"draft-04", DRAFT_4}, {"draft-03", DRAFT_4},   {"draft-06", DRAFT_6},
                 {"draft-07", DRAFT_7}, {"2019-09", DRAFT_2019}, {"2020-12", DRAFT_2020}};
    for (size_t i = 0; uri && i < sizeof known / sizeof *known; i++)
        if (strstr(uri, known[i].part)) *draft = known[i].draft;
    return !uri || strstr(uri, "json-schema.org/") != NULL;
}

bool schema_read(struct schema *s)
{
    static const char *const nothing = "";
    const char *dialect = text_field(s->root, "$schema");
    s->draft = s->opt.draft;
    s->draft_named = dialect != NULL;
    bool draft_ok = draft_of(dialect, &s->draft);
    if (!vec_push(&s->resource, ((struct resource){nothing, 0}))) return schema_no_memory(s);
    struct sub all = {.path = "", .lang = {NONE, NONE, NONE, NONE}};
    if (!vec_push(&s->sub, all)) return schema_no_memory(s); /* sub.v[0] is `true` */
    if (json_kind(s->root) != JK_OBJECT && json_kind(s->root) != JK_BOOL)
        return schema_fail(s, ERR_FORMAT, 0, NULL, "expected an object or a boolean, got %s",
                           json_kind_name(json_kind(s->root)));
    if (!register_schemas(s, s->root, "", 0)) return false;
    s->resource.v[0].sub = s->sub.n > 1 ? 1 : 0;
    if (!draft_ok)
        return schema_fail(s, ERR_UNSUPPORTED, s->resource.v[0].sub, "$schema",
                           "must be one of json-schema.org's drafts, got \"%.100s\"", dialect);
    return true;
}

/* ---- subschemas by their value ---- */

/* Return the number of subschema j: 0 for `true`, a new number for each `false`. 0 after a failure.
 * `keyword` is the place of j in its parent; NULL: the parent's own place. */
uint32_t sub_of(struct schema *s, const struct json *j, uint32_t parent, const char *keyword)
{
    if (json_kind(j) == JK_BOOL && json_bool(j, true)) return 0;
    const uint32_t *known =
        json_kind(j) == JK_OBJECT ? strmap_get(&s->sub_of, (const char *)&j, sizeof j) : NULL;
    if (known) return *known;
    if (json_kind(j) != JK_OBJECT && json_kind(j) != JK_BOOL) {
        schema_fail(s, ERR_FORMAT, parent, keyword, "expected a schema, got %s",
                    json_kind_name(json_kind(j)));
        return 0;
    }
    /* j is `false`, or a subschema that is not registered yet, because a $ref may point below any
     * keyword */
    const char *path = keyword ? join_path(s, s->sub.v[parent].path, keyword, strlen(keyword))
                               : s->sub.v[parent].path;
    uint32_t resource = s->sub.v[parent].resource;
    if (json_kind(j) == JK_BOOL) return new_sub(s, j, path, resource, false);
    uint32_t at = (uint32_t)s->sub.n;
    return register_schemas(s, j, path, resource) ? at : 0;
}

/* Return the subschema whose only valid value is `value`. */
uint32_t sub_const(struct schema *s, const struct json *value, uint32_t parent)
{
    const uint32_t *known = strmap_get(&s->sub_of, (const char *)&value, sizeof value);
    if (known && s->sub.v[*known].is_const) return *known;
    return new_sub(s, value, s->sub.v[parent].path, s->sub.v[parent].resource, true);
}

const struct json *sub_field(const struct schema *s, uint32_t sub, const char *key)
{
    const struct json *j = s->sub.v[sub].j;
    if (s->draft < DRAFT_2019 && strcmp(key, "$ref") != 0 && json_field(j, "$ref")) return NULL;
    return json_field(j, key);
}

unsigned sub_types(struct schema *s, uint32_t sub, bool *integer)
{
    const struct json *t = sub_field(s, sub, "type");
    unsigned all = 0;
    bool number = false;
    *integer = false;
    if (!t) return JT_ALL;
    size_t n = json_kind(t) == JK_LIST ? json_count(t) : 1;
    for (size_t i = 0; i < n; i++) {
        const char *name = json_text(json_kind(t) == JK_LIST ? json_item(t, i) : t, NULL);
        unsigned type = json_type_named(name);
        if (!type) {
            schema_fail(s, ERR_FORMAT, sub, "type", "unknown type %s", name ? name : "this");
            return 0;
        }
        all |= type;
        number = number || strcmp(name, "number") == 0;
        *integer = *integer || strcmp(name, "integer") == 0;
    }
    *integer = *integer && !number;
    return all;
}

/* ---- references ---- */

/* Decode ~0, ~1 and %XX in a segment of a JSON pointer, in place. */
static void unescape(char *t)
{
    char *out = t;
    for (; *t; t++) {
        int hi = t[0] == '%' ? hex_digit(t[1]) : -1, lo = hi >= 0 ? hex_digit(t[2]) : -1;
        if (t[0] == '~' && (t[1] == '0' || t[1] == '1'))
            *out++ = *++t == '0' ? '~' : '/';
        else if (lo >= 0)
            *out++ = (char)(hi << 4 | lo), t += 2;
        else
            *out++ = *t;
    }
    *out = 0;
}

/* Return the subschema at a JSON pointer below `sub`. NONE if the target does not exist or is not a
 * schema. The target's parent is the last subschema of the path, because a resource may begin at
 * the parent. */
static uint32_t follow_pointer(struct schema *s, uint32_t sub, const char *pointer)
{
    const struct json *j = s->sub.v[sub].j;
    uint32_t owner = sub;
    while (j && *pointer == '/') {
        char part[512];
        size_t n = strcspn(++pointer, "/");
        if (n >= sizeof part) return NONE;
        memcpy(part, pointer, n);
        part[n] = 0;
        unescape(part);
        pointer += n;
        char *end = NULL;
        unsigned long index = strtoul(part, &end, 10);
        j = json_kind(j) == JK_LIST ? (part[0] && !*end ? json_item(j, index) : NULL)
                                    : json_field(j, part);
        const uint32_t *known = j ? strmap_get(&s->sub_of, (const char *)&j, sizeof j) : NULL;
        if (known && !s->sub.v[*known].is_const) owner = *known;
    }
    if (!j || *pointer) return NONE;
    return json_kind(j) == JK_OBJECT || json_kind(j) == JK_BOOL ? sub_of(s, j, owner, NULL) : NONE;
}

static uint32_t find_anchor(const struct schema *s, uint32_t resource, const char *name)
{
    char key[600];
    int n = snprintf(key, sizeof key, "%u#%s", resource, name);
    const uint32_t *at = n < (int)sizeof key ? strmap_get(&s->anchor, key, (size_t)n) : NULL;
    return at ? *at : NONE;
}

/* Return the index of the last resource with this URI; NONE if not found. */
static uint32_t find_resource(const struct schema *s, const char *uri)
{
    for (size_t i = s->resource.n; i > 0; i--)
        if (strcmp(s->resource.v[i - 1].uri, uri) == 0) return (uint32_t)i - 1;
    return NONE;
}

/* Return the subschema that a reference of `sub` refers to. NONE if the target is not in the
 * document. */
static uint32_t find_target(struct schema *s, uint32_t sub, const char *ref)
{
    const char *fragment = strchr(ref, '#');
    uint32_t resource = s->sub.v[sub].resource;
    if (ref[0] != '#') {
        const char *uri = resolve_uri(s, s->resource.v[resource].uri, ref);
        resource = uri ? find_resource(s, uri) : NONE;
    }
    if (resource == NONE) return NONE;
    if (!fragment || !fragment[1]) return s->resource.v[resource].sub;
    if (fragment[1] == '/') return follow_pointer(s, s->resource.v[resource].sub, fragment + 1);
    return find_anchor(s, resource, fragment + 1);
}

/* Return the number of subschemas with this dynamic anchor. $dynamicRef equals $ref if there is
 * exactly one. */
static int count_dynamic(const struct schema *s, const char *name)
{
    int n = 0;
    for (size_t i = 1; i < s->sub.n; i++) {
        const char *a = s->sub.v[i].is_const ? NULL : text_field(s->sub.v[i].j, "$dynamicAnchor");
        n += a && strcmp(a, name) == 0;
    }
    return n;
}

uint32_t sub_target(struct schema *s, uint32_t sub)
{
    static const char *const key[] = {"$ref", "$dynamicRef", "$recursiveRef"};
    for (int k = 0; k < 3; k++) {
        const struct json *j = json_field(s->sub.v[sub].j, key[k]);
        if (!j || (k == 1 && s->draft < DRAFT_2020) || (k == 2 && s->draft != DRAFT_2019)) continue;
        const char *ref = json_text(j, NULL);
        if (!ref)
            return schema_fail(s, ERR_FORMAT, sub, key[k], "expected a string, got %s",
                               json_kind_name(json_kind(j))),
                   NONE;
        const char *fragment = strchr(ref, '#');
        bool dynamic = k == 1 && fragment && count_dynamic(s, fragment + 1) > 1;
        if (dynamic || (k == 2 && s->resource.n > 1))
            return schema_fail(s, ERR_UNSUPPORTED, sub, key[k],
                               "a dynamic reference with several targets: not supported yet"),
                   NONE;
        uint32_t target = find_target(s, sub, ref);
        if (target == NONE && s->rc == 0)
            schema_fail(s, ERR_UNSUPPORTED, sub, key[k], "\"%s\" not found in this document", ref);
        return target;
    }
    return NONE;
}
