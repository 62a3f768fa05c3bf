/* schema.c - types of raw text by the schemas of a request's tools.
 *
 * Only types are read, because the parser does not validate values. References are resolved
 * within the document. The number of visited schemas is limited, so that a search in a cycle
 * ends. */
#include "chat/parser_impl.h"

#include <string.h>

/* These limits bound the work per argument of a call, because a client writes the schema. An
 * argument beyond a limit may have any type. */
enum { DEPTH_MAX = 16, STEP_MAX = 200, REF_BYTES_MAX = 512, LIST_MAX = 200 };

/* Return {"name", "parameters"} of a tool. Some clients omit the wrapper {"type": "function"}. */
static const struct json *function_of(const struct json *tool)
{
    const struct json *function = json_field(tool, "function");
    return function ? function : tool;
}

/* Return the function with this name; NULL if none. tools: NULL is allowed. */
static const struct json *find_tool(const struct json *tools, const char *name)
{
    for (size_t i = 0; i < json_count(tools); i++) {
        const struct json *function = function_of(json_item(tools, i));
        const char *known = json_text(json_field(function, "name"), NULL);
        if (known && strcmp(known, name) == 0) return function;
    }
    return NULL;
}

const struct json *schema_of_tool(const struct json *tools, const char *name)
{
    return json_field(find_tool(tools, name), "parameters");
}

bool schema_has_tool(const struct json *tools, const char *name)
{
    return find_tool(tools, name) != NULL;
}

/* ---- references ---- */

/* Return a member, or item n of a list. NULL if none. */
static const struct json *step_into(const struct json *j, const char *key, size_t n)
{
    size_t i = 0;
    if (json_kind(j) != JK_LIST) return json_field_n(j, key, n);
    for (size_t k = 0; k < n; k++) {
        if (key[k] < '0' || key[k] > '9' || i > 100000) return NULL;
        i = i * 10 + (size_t)(key[k] - '0');
    }
    return n > 0 ? json_item(j, i) : NULL;
}

/* Resolve $ref, in the forms "#" and "#/a/b" without escapes. A $ref must be shorter than
 * REF_BYTES_MAX bytes. */
static const struct json *resolved(const struct json *root, const struct json *schema)
{
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        const char *ref = json_text(json_field(schema, "$ref"), NULL);
        if (!ref) return schema;
        if (*ref != '#' || strnlen(ref, REF_BYTES_MAX) == REF_BYTES_MAX) return NULL;
        const struct json *at = root;
        for (const char *key = ref + 1; *key == '/';) {
            size_t n = strcspn(++key, "/");
            at = step_into(at, key, n);
            key += n;
        }
        schema = at;
    }
    return NULL;
}

/* State of a search in a schema, whose references may form cycles. */
struct schema_walk {
    const struct json *root; /* borrowed */
    int left; /* remaining number of schemas that the search may read, including schemas in lists */
};

/* ---- types ---- */

/* Return the type with this name. An unknown name permits all types. */
static unsigned type_of_word(const char *word)
{
    unsigned type = json_type_named(word);
    return type ? type : JT_ALL;
}

static unsigned types_at(struct schema_walk *w, const struct json *schema);

/* Return the union of the types of a list's schemas; their intersection if `all` (allOf). JT_ALL if
 * the list is too long. */
static unsigned types_of_list(struct schema_walk *w, const struct json *list, bool all)
{
    unsigned types = all ? JT_ALL : 0;
    if (json_count(list) > LIST_MAX) return JT_ALL;
    for (size_t i = 0; i < json_count(list); i++) {
        unsigned one = types_at(w, json_item(list, i));
        types = all ? types & one : types | one;
    }
    return types ? types : JT_ALL;
}

/* Return the types that a schema permits. All keywords restrict the types: type, enum, const,
 * anyOf, oneOf, allOf. A contradiction permits all types, so that no value is lost. */
static unsigned types_at(struct schema_walk *w, const struct json *schema)
{
    unsigned types = JT_ALL, some = 0;
    if (w->left-- <= 0) return JT_ALL;
    schema = resolved(w->root, schema);
    if (json_kind(schema) != JK_OBJECT) return JT_ALL;
    const struct json *type = json_field(schema, "type"), *values = json_field(schema, "enum");
    const struct json *value = json_field(schema, "const"), *list;
    if (json_kind(type) == JK_TEXT) types &= type_of_word(json_text(type, NULL));
    bool listed = json_kind(type) == JK_LIST && json_count(type) <= LIST_MAX;
    for (size_t i = 0; listed && i < json_count(type); i++)
        some |= type_of_word(json_text(json_item(type, i), NULL));
    if (some) types &= some;
    some = 0;
    size_t n_value = json_count(values) <= LIST_MAX ? json_count(values) : 0;
    for (size_t i = 0; i < n_value; i++) some |= json_type_bit(json_item(values, i));
    if (some) types &= some;
    if (value) types &= json_type_bit(value);
    if ((list = json_field(schema, "anyOf"))) types &= types_of_list(w, list, false);
    if ((list = json_field(schema, "oneOf"))) types &= types_of_list(w, list, false);
    if ((list = json_field(schema, "allOf"))) types &= types_of_list(w, list, true);
    return types ? types : JT_ALL;
}

unsigned schema_types(const struct json *root, const struct json *schema)
{
    return types_at(&(struct schema_walk){root, STEP_MAX}, schema);
}

/* ---- members ---- */

/* Return the schema of a key, or of a list's items if key is NULL. NULL if there is no schema for
 * the key or the items. */
static const struct json *member_at(struct schema_walk *w, const struct json *schema,
                                    const char *key, size_t n_key)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    if (w->left-- <= 0) return NULL;
    schema = resolved(w->root, schema);
    const struct json *found = key ? json_field_n(json_field(schema, "properties"), key, n_key)
                                   : json_field(schema, "items");
    if (!found && key) found = json_field(schema, "additionalProperties");
    if (json_kind(found) == JK_OBJECT) return found;
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        const struct json *list = json_field(schema, lists[k]);
        for (size_t i = 0; i < json_count(list) && w->left > 0; i++)
            if ((found = member_at(w, json_item(list, i), key, n_key))) return found;
    }
    return NULL;
}

const struct json *schema_member(const struct json *root, const struct json *schema,
                                 const char *key, size_t n_key)
{
    return member_at(&(struct schema_walk){root, STEP_MAX}, schema, key, n_key);
}
