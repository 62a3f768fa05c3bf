/* get_openapi.c - GET /openapi.json: an OpenAPI 3.1 description of the server, made from the tables
 * routes.def, dialects.def, fields.def, field_types.def and sample/params.def.
 *
 * A path has an operation per method. A body is an object with the fields of its endpoint, and the
 * required fields of its dialect. Ranges and defaults are those of params.def. */
#include "dialect.h"
#include "server_impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Names of the schemas of bodies. */
static const char *const schema_name[] = {
#define ENDPOINT(letter, NAME, named, aliased, generates) #NAME,
#include "endpoints.def"
#undef ENDPOINT
};
enum { N_SCHEMA = sizeof schema_name / sizeof *schema_name };

/* Letters of the endpoints, for field_types.def. */
enum {
#define ENDPOINT(letter, NAME, named, aliased, generates) letter = ENDPOINT_##NAME,
#include "endpoints.def"
#undef ENDPOINT
};

/* Types of fields. All pointers are static. */
static const struct field_type {
    unsigned where;
    const char *name, *types;
} field_types[] = {
#define ANY                      ~0u
#define TYPE(where, name, types) {where, #name, types},
#include "field_types.def"
#undef ANY
};
enum { N_TYPE = sizeof field_types / sizeof *field_types };

#define DIALECT(path, id) extern const struct dialect dialect_##id;
#include "dialects.def"

/* Required fields. All pointers are static. */
static const struct required_field {
    const struct dialect *dialect;
    const char *names; /* alternatives, with blanks between them */
} required_fields[] = {
#define REQUIRED(id, names) {&dialect_##id, names},
#include "field_types.def"
};
enum { N_REQUIRED = sizeof required_fields / sizeof *required_fields };

/* Append the types [separated by blanks] and null as a member. */
static void put_types(struct json_out *o, const char *types)
{
    out_list(o, "type");
    for (const char *at = types; *at;) {
        const size_t n = strcspn(at, " ");
        out_text(o, NULL, at, n);
        at += n + (at[n] == ' ');
    }
    out_word(o, NULL, "null");
    out_end(o);
}

/* Append the types of a field of an endpoint, if the list has them. */
static void put_listed_types(struct json_out *o, const char *name, unsigned where)
{
    for (int i = 0; i < N_TYPE; i++) {
        const struct field_type *t = &field_types[i];
        if (!(t->where & where) || strcmp(t->name, name) != 0) continue;
        put_types(o, t->types);
        return;
    }
}

/* Append a schema that requires one of the names, separated by blanks. */
static void put_alternatives(struct json_out *o, const char *names)
{
    out_object(o, NULL);
    out_list(o, "anyOf");
    for (const char *at = names; *at;) {
        const size_t n = strcspn(at, " ");
        out_object(o, NULL);
        out_list(o, "required");
        out_text(o, NULL, at, n);
        out_end(o);
        out_end(o);
        at += n + (at[n] == ' ');
    }
    out_end(o);
    out_end(o);
}

/* Append the required fields of a dialect. Fields with alternatives have a schema each. */
static void put_required(struct json_out *o, const struct dialect *d)
{
    for (int several = 0; several < 2; several++) {
        bool any = false;
        for (int i = 0; i < N_REQUIRED; i++) {
            const struct required_field *f = &required_fields[i];
            if (f->dialect != d || (strchr(f->names, ' ') != NULL) != several) continue;
            if (!any) out_list(o, several ? "allOf" : "required");
            any = true;
            if (several)
                put_alternatives(o, f->names);
            else
                out_word(o, NULL, f->names);
        }
        if (any) out_end(o);
    }
}

/* Append the type, range and default of a sampling parameter. */
static void put_param(struct json_out *o, const struct sample_param *p)
{
    const bool number = p->kind == SAMPLE_REAL || p->kind == SAMPLE_INT;
    put_types(o, p->type);
    if (p->items) {
        out_object(o, "items");
        out_word(o, "type", p->items);
        out_end(o);
    }
    if (p->kind == SAMPLE_INT) out_int(o, "default", (int64_t)p->fallback);
    if (p->kind == SAMPLE_REAL) out_double(o, "default", p->fallback);
    /* a range with an additional value is not expressed */
    if (!number || p->range.also != p->range.high) return;
    out_double(o, p->range.open ? "exclusiveMinimum" : "minimum", p->range.low);
    if (p->range.high < INT32_MAX) out_double(o, "maximum", p->range.high);
}

/* Append the schema of a field as a member. */
static void put_field(struct json_out *o, const struct field_row *f, unsigned where)
{
    struct buf text = {0};
    out_object(o, f->name);
    if (f->param)
        put_param(o, f->param);
    else if (f->support == SUPPORTED && !f->why)
        put_listed_types(o, f->name, where);
    if (f->support != SUPPORTED)
        buf_addf(&text, "rejected unless it has no effect%s%s", f->why ? ": " : "",
                 f->why ? f->why : "");
    else if (f->why)
        buf_addf(&text, "no effect: %s", f->why);
    else if (f->param)
        buf_add_text(&text, f->param->help);
    if (text.n) out_text(o, "description", text.data, text.n);
    o->b->failed |= text.failed;
    buf_deinit(&text);
    out_end(o);
}

/* Return true if an earlier row has the field for the endpoint. */
static bool is_repeated(const struct field_row *f, size_t i, unsigned where)
{
    for (size_t k = 0; k < i; k++) {
        const struct field_row *other = fields_at(k);
        if (other->name && (other->where & where) && strcmp(other->name, f->name) == 0) return true;
    }
    return false;
}

/* Append the schema of an endpoint's bodies. Unknown fields have no effect. */
static void put_schema(struct json_out *o, int endpoint)
{
    const unsigned where = 1u << endpoint;
    const struct field_row *f;
    out_object(o, schema_name[endpoint]);
    out_word(o, "type", "object");
    out_object(o, "properties");
    for (size_t i = 0; (f = fields_at(i)); i++)
        if (f->name && (f->where & where) && !is_repeated(f, i, where)) put_field(o, f, where);
    out_end(o);
    out_flag(o, "additionalProperties", true);
    out_end(o);
}

/* Append the name of the operation: letters and digits of method and path, in lower case. */
static void put_operation_id(struct json_out *o, const struct net_route *r)
{
    struct buf name = {0};
    for (const char *c = r->method; *c; c++) buf_add_char(&name, (char)tolower((unsigned char)*c));
    for (const char *c = r->path; *c; c++)
        if (*c != '{' && *c != '}') buf_add_char(&name, isalnum((unsigned char)*c) ? *c : '_');
    out_text(o, "operationId", name.n ? name.data : "", name.n);
    o->b->failed |= name.failed;
    buf_deinit(&name);
}

/* Append the parameter in a path, if it has one. Its name is "path" if the route gives none. */
static void put_parameters(struct json_out *o, const char *path)
{
    const char *open = strchr(path, '{'), *close = open ? strchr(open, '}') : NULL;
    const bool named = close && close > open + 1;
    if (!close) return;
    out_list(o, "parameters");
    out_object(o, NULL);
    out_text(o, "name", named ? open + 1 : "path", named ? (size_t)(close - open) - 1 : 4);
    out_word(o, "in", "path");
    out_flag(o, "required", true);
    out_object(o, "schema");
    out_word(o, "type", "string");
    out_end(o);
    out_end(o);
    out_end(o);
}

/* Append the body of a route: a schema of its endpoint with the dialect's required fields, or any
 * object. */
static void put_request(struct json_out *o, const struct net_route *r)
{
    const struct dialect *d = dialect_find(r->path);
    int i = 0;
    if (strcmp(r->method, "POST") != 0) return;
    while (d && i < N_SCHEMA && !(d->fields >> i & 1)) i++;
    out_object(o, "requestBody");
    out_object(o, "content");
    out_object(o, r->how & ROUTE_FORM ? "multipart/form-data" : "application/json");
    out_object(o, "schema");
    if (d && i < N_SCHEMA) {
        struct buf ref = {0};
        buf_addf(&ref, "#/components/schemas/%s", schema_name[i]);
        out_text(o, "$ref", ref.n ? ref.data : "", ref.n);
        o->b->failed |= ref.failed;
        buf_deinit(&ref);
        put_required(o, d);
    } else {
        out_word(o, "type", "object");
    }
    out_end(o);
    out_end(o);
    out_end(o);
    out_end(o);
}

/* Append an answer by its status. */
static void put_response(struct json_out *o, const char *status, const char *text)
{
    out_object(o, status);
    out_word(o, "description", text);
    out_end(o);
}

/* Append the operation of a route. */
static void put_operation(struct json_out *o, const struct net_route *r)
{
    char method[16] = "";
    for (size_t i = 0; r->method[i] && i + 1 < sizeof method; i++)
        method[i] = (char)tolower((unsigned char)r->method[i]);
    out_object(o, method);
    put_operation_id(o, r);
    put_request(o, r);
    out_object(o, "responses");
    put_response(o, "200", "success");
    put_response(o, "default", "an error");
    out_end(o);
    if (r->how & ROUTE_OPEN) {
        out_list(o, "security");
        out_end(o);
    }
    out_end(o);
}

/* Append the operations of a path, at its first route. A path that matches any text has a parameter
 * with a name. */
static void put_path(struct json_out *o, const struct server *s, int first)
{
    const char *path = s->o.net.route[first].path, *any = strstr(path, "{}");
    struct buf named = {0};
    buf_add(&named, path, any ? (size_t)(any - path) : strlen(path));
    if (any) buf_addf(&named, "{path}%s", any + 2);
    out_key(o, named.n ? named.data : "", named.n);
    out_object(o, NULL);
    put_parameters(o, path);
    for (int i = first; i < s->o.net.n_route; i++)
        if (strcmp(s->o.net.route[i].path, path) == 0) put_operation(o, &s->o.net.route[i]);
    out_end(o);
    o->b->failed |= named.failed;
    buf_deinit(&named);
}

/* Return true if an earlier route has the path of route i. */
static bool is_known_path(const struct server *s, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(s->o.net.route[k].path, s->o.net.route[i].path) == 0) return true;
    return false;
}

/* Append the schemas of bodies, and the keys of clients. */
static void put_components(struct json_out *o)
{
    out_object(o, "components");
    out_object(o, "schemas");
    for (int i = 0; i < N_SCHEMA; i++) put_schema(o, i);
    out_end(o);
    out_object(o, "securitySchemes");
    out_object(o, "key");
    out_word(o, "type", "http");
    out_word(o, "scheme", "bearer");
    out_end(o);
    out_end(o);
    out_end(o);
}

void get_openapi(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_word(&o, "openapi", "3.1.0");
    out_object(&o, "info");
    out_word(&o, "title", "quoth");
    out_word(&o, "version", s->o.version);
    out_end(&o);
    out_object(&o, "paths");
    for (int i = 0; i < s->o.net.n_route; i++)
        if (!is_known_path(s, i)) put_path(&o, s, i);
    out_end(&o);
    put_components(&o);
    out_list(&o, "security");
    if (s->o.net.keys) {
        out_object(&o, NULL);
        out_list(&o, "key");
        out_end(&o);
        out_end(&o);
    }
    out_end(&o);
    out_end(&o);
    server_reply(x, &b);
}
