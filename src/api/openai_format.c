/* openai_format.c - read the fields of structured output: OpenAI's response_format, vLLM's
 * structured_outputs and older guided_*, llama.cpp's grammar and json_schema. constrain.c compiles
 * these constraints. */
#include "openai.h"

#include <string.h>

/* Return a grammar's notation by its content. GBNF defines rules by `::=`, Lark by `:`. Comments
 * and literals are ignored. */
static enum grammar_kind notation(const char *text, size_t n)
{
    bool colon = false;
    for (size_t i = 0; i < n; i++) {
        bool comment = text[i] == '#' || (text[i] == '/' && i + 1 < n && text[i + 1] == '/');
        char open = text[i];
        if (comment)
            while (i < n && text[i] != '\n') i++;
        else if (open == '"' || open == '[')
            for (i++; i < n && text[i] != (open == '[' ? ']' : '"') && text[i] != '\n'; i++)
                if (text[i] == '\\') i++;
        if (i + 2 < n && memcmp(text + i, "::=", 3) == 0) return GRAMMAR_GBNF;
        if (i < n) colon |= text[i] == ':';
    }
    return colon ? GRAMMAR_LARK : GRAMMAR_GBNF;
}

/* Form of a value: a schema, any JSON except a string, a string, or a structural tag. */
enum format_form { FORM_SCHEMA, FORM_LIST, FORM_TEXT, FORM_TAG };

/* Set the error for a value of the wrong type. place: path below the field. */
static int wrong_type(const char *field, const char *place, const char *expected,
                      const struct json *found, struct err *e)
{
    return err_field(e, ERR_ARG, field, "%s: expected %s, got %s", place, expected,
                     json_kind_name(json_kind(found)));
}

/* Check the value's form and keep the constraint. A grammar's notation is detected from its text,
 * because clients do not name it. */
static int constrain(struct api_call *c, const struct constraint_spec *spec, enum format_form form,
                     const struct json *value, struct err *e)
{
    enum json_kind kind = json_kind(value);
    bool text = kind == JK_TEXT;
    if (form == FORM_SCHEMA && !text && kind != JK_OBJECT && kind != JK_BOOL)
        return wrong_type(spec->field, spec->place, "a JSON Schema: an object, or its text", value,
                          e);
    if (form == FORM_TAG && !text && kind != JK_OBJECT)
        return wrong_type(spec->field, spec->place, "a structural tag: an object, or its text",
                          value, e);
    if (form == FORM_LIST && kind != JK_LIST)
        return wrong_type(spec->field, spec->place, "a list of strings", value, e);
    if (form == FORM_TEXT && !text)
        return wrong_type(spec->field, spec->place, "a string", value, e);
    struct constraint_spec one = *spec;
    size_t n = 0;
    const char *grammar = one.kind == GRAMMAR_GBNF ? json_text(value, &n) : NULL;
    if (grammar) one.kind = notation(grammar, n);
    return call_constrain_json(c, &one, value, e);
}

/* ---- response_format ---- */

/* Read {"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{...}}}. `strict` has
 * no effect, because a schema is always enforced. */
static int read_schema(struct api_call *c, const struct json *format, struct err *e)
{
    static const struct constraint_spec spec = {
        .field = "response_format", .place = ".json_schema.schema", .kind = GRAMMAR_SCHEMA};
    static const char *const members[] = {"type", "json_schema", NULL};
    static const char *const inner[] = {"name", "description", "schema", "strict", NULL};
    static const struct place at = {.field = "response_format"},
                              below = {.field = "response_format", .path = ".json_schema"};
    const struct json *named = body_field(format, "json_schema"),
                      *schema = body_field(named, "schema");
    const struct json *strict = body_field(named, "strict"), *name = body_field(named, "name");
    if (json_kind(named) != JK_OBJECT)
        return wrong_type(spec.field, ".json_schema", "an object", named, e);
    int rc = place_only(format, &at, members, e);
    if (rc == 0) rc = place_only(named, &below, inner, e);
    if (rc != 0) return rc;
    if (name && !json_text(name, NULL))
        return wrong_type(spec.field, ".json_schema.name", "a string", name, e);
    if (strict && json_kind(strict) != JK_BOOL)
        return wrong_type(spec.field, ".json_schema.strict", "true or false", strict, e);
    if (!schema)
        return err_field(e, ERR_ARG, spec.field, "%s: expected a value, got nothing", spec.place);
    return constrain(c, &spec, FORM_SCHEMA, schema, e);
}

/* Read {"type":"json_object"}. The schema is `schema` in llama.cpp's form, and `value` in TGI's. */
static int read_object(struct api_call *c, const struct json *format, struct err *e)
{
    static const char *const members[] = {"type", "schema", "value", NULL};
    static const struct place at = {.field = "response_format"};
    const struct json *schema = body_field(format, "schema"), *value = body_field(format, "value");
    struct constraint_spec spec = {.field = at.field,
                                   .place = schema  ? ".schema"
                                            : value ? ".value"
                                                    : "",
                                   .kind = GRAMMAR_SCHEMA};
    int rc = place_only(format, &at, members, e);
    if (rc != 0) return rc;
    if (schema && value)
        return err_field(e, ERR_ARG, at.field, ".value: must not come with .schema");
    if (schema || value) return constrain(c, &spec, FORM_SCHEMA, schema ? schema : value, e);
    spec.kind = GRAMMAR_OBJECT;
    return call_constrain(c, &spec, e);
}

/* Read response_format. The type "text" and an absent field mean no constraint. The reader of
 * structural tags checks their members. */
static int read_format(struct api_call *c, const struct json *body, struct err *e)
{
    static const char *const members[] = {"type", NULL};
    static const struct place at = {.field = "response_format"};
    const struct json *format = body_field(body, "response_format");
    const char *type = json_text(json_field(format, "type"), NULL);
    if (!format) return 0;
    if (json_kind(format) != JK_OBJECT)
        return err_field(e, ERR_ARG, "response_format", ": expected an object, got %s",
                         json_kind_name(json_kind(format)));
    if (!type)
        return err_field(e, ERR_ARG, "response_format", ".type: expected a string, got %s",
                         json_kind_name(json_kind(json_field(format, "type"))));
    if (strcmp(type, "text") == 0) return place_only(format, &at, members, e);
    if (strcmp(type, "json_schema") == 0) return read_schema(c, format, e);
    if (strcmp(type, "json_object") == 0) return read_object(c, format, e);
    const struct constraint_spec spec = {
        .field = "response_format", .place = "", .kind = GRAMMAR_TAG};
    if (strcmp(type, "structural_tag") == 0) return constrain(c, &spec, FORM_TAG, format, e);
    return err_field(
        e, ERR_UNSUPPORTED, "response_format",
        ".type: must be text, json_object, json_schema or structural_tag, got \"%.40s\"", type);
}

/* ---- structured_outputs ---- */

static const struct structured_kind {
    const char *name; /* static; member of structured_outputs */
    const char *old;  /* static; field of the body with the same meaning */
    enum grammar_kind kind;
    enum format_form form;
    bool may_be_empty; /* true: an empty text means that the field is absent */
} kinds[] = {{"json", "guided_json", GRAMMAR_SCHEMA, FORM_SCHEMA, false},
             {"regex", "guided_regex", GRAMMAR_REGEX, FORM_TEXT, false},
             {"choice", "guided_choice", GRAMMAR_CHOICE, FORM_LIST, false},
             {"grammar", "guided_grammar", GRAMMAR_GBNF, FORM_TEXT, false},
             {"structural_tag", "structural_tag", GRAMMAR_TAG, FORM_TAG, false},
             /* llama.cpp's field of the body */
             {"json_schema", "json_schema", GRAMMAR_SCHEMA, FORM_SCHEMA, false},
             /* llama.cpp's clients send an empty grammar if they have no grammar */
             {"grammar", "grammar", GRAMMAR_GBNF, FORM_TEXT, true},
             {"regex", "regex", GRAMMAR_REGEX, FORM_TEXT, false}, /* SGLang's field */
             {"grammar", "ebnf", GRAMMAR_GBNF, FORM_TEXT, false}};
enum { N_MEMBER = 5, N_KIND = sizeof kinds / sizeof *kinds };

static bool is_json(enum grammar_kind kind)
{
    return kind == GRAMMAR_SCHEMA || kind == GRAMMAR_OBJECT || kind == GRAMMAR_TAG;
}

/* Read the expression of the white space between JSON tokens. The constraint c->spec must be on
 * JSON. */
static int read_white_space(struct api_call *c, struct grammar_options *o, const struct json *value,
                            const char *field, const char *place, struct err *e)
{
    size_t n;
    const char *text = json_text(value, &n);
    if (!text) return wrong_type(field, place, "a string", value, e);
    if (strlen(text) != n)
        return err_field(e, ERR_ARG, field, "%s: must not contain NUL, got one at offset %zu",
                         place, strlen(text));
    o->white_space = arena_text(&c->arena, text, n);
    return o->white_space ? 0 : err_memory(e, "a constraint", n);
}

/* Check the members, and read those that change the form of JSON. */
static int read_options(struct api_call *c, struct grammar_options *o, const struct json *spec,
                        struct err *e)
{
    static const struct place at = {.field = "structured_outputs"};
    static const char *const members[] = {"json",
                                          "regex",
                                          "choice",
                                          "grammar",
                                          "structural_tag",
                                          "json_object",
                                          "whitespace_pattern",
                                          "disable_any_whitespace",
                                          "disable_additional_properties",
                                          "disable_fallback", /* there is no fallback */
                                          NULL};
    const struct json *pattern = body_field(spec, "whitespace_pattern");
    bool ignored = false;
    bool *const flag[] = {&ignored, &o->no_white_space, &o->no_additional, &ignored};
    static const char *const name[] = {"json_object", "disable_any_whitespace",
                                       "disable_additional_properties", "disable_fallback"};
    int rc = place_only(spec, &at, members, e);
    for (size_t i = 0; rc == 0 && i < sizeof name / sizeof *name; i++) {
        const struct json *value = body_field(spec, name[i]);
        if (value && json_kind(value) != JK_BOOL)
            rc = err_field(e, ERR_ARG, at.field, ".%s: expected true or false, got %s", name[i],
                           json_kind_name(json_kind(value)));
        *flag[i] = json_bool(value, false);
    }
    if (rc == 0 && pattern)
        rc = read_white_space(c, o, pattern, at.field, ".whitespace_pattern", e);
    return rc;
}

/* Read vLLM's object, which must have exactly one constraint. */
static int read_structured(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *spec = body_field(body, "structured_outputs"), *one = NULL;
    static const char field[] = "structured_outputs";
    struct constraint_spec found = {
        .field = field, .place = ".json_object", .kind = GRAMMAR_OBJECT};
    enum format_form form = FORM_SCHEMA;
    if (!spec) return 0;
    if (json_kind(spec) != JK_OBJECT) return body_wrong(field, "an object", spec, e);
    int rc = read_options(c, &found.options, spec, e);
    static const char *const place[N_MEMBER] = {".json", ".regex", ".choice", ".grammar",
                                                ".structural_tag"};
    int n = json_bool(body_field(spec, "json_object"), false);
    for (int i = 0; i < N_MEMBER; i++) {
        const struct json *value = body_field(spec, kinds[i].name);
        if (!value) continue;
        n++, one = value, form = kinds[i].form;
        found.kind = kinds[i].kind, found.place = place[i];
    }
    if (rc == 0 && n != 1)
        rc = err_field(e, ERR_ARG, field,
                       ": expected one of json, regex, choice, grammar, json_object and "
                       "structural_tag, got %d",
                       n);
    if (rc == 0 && found.options.white_space && !is_json(found.kind))
        rc = err_field(e, ERR_ARG, field,
                       ".whitespace_pattern: must come with a JSON constraint, got another one");
    if (rc == 0 && found.options.white_space &&
        (found.options.no_white_space || c->api->no_white_space))
        rc = err_field(
            e, ERR_ARG, field,
            ".whitespace_pattern: must not come with disable_any_whitespace, got \"%.60s\"",
            found.options.white_space);
    if (rc != 0) return rc;
    return one ? constrain(c, &found, form, one, e) : call_constrain(c, &found, e);
}

/* ---- all fields ---- */

/* Read a field whose value is a constraint. */
static int read_alone(struct api_call *c, const struct structured_kind *k, const struct json *body,
                      struct err *e)
{
    const struct json *value = body_field(body, k->old);
    struct constraint_spec spec = {.field = k->old, .place = "", .kind = k->kind};
    bool none = k->may_be_empty && json_kind(value) == JK_TEXT && !body_is_set(value);
    if (!value || none) return 0;
    return constrain(c, &spec, k->form, value, e);
}

/* Read vLLM's older field for the white space of the constraint. Other fields give the
 * constraint. */
static int read_old_white_space(struct api_call *c, const struct json *body, struct err *e)
{
    static const char field[] = "guided_whitespace_pattern";
    char shown[80];
    const struct json *value = body_field(body, field);
    if (!value) return 0;
    if (!c->spec.field || !is_json(c->spec.kind))
        return err_field(e, ERR_ARG, field, ": must come with a JSON constraint, got %s",
                         c->spec.field ? c->spec.field : "none");
    if (c->spec.options.white_space || c->spec.options.no_white_space || c->api->no_white_space)
        return err_field(e, ERR_ARG, field,
                         ": must not come with another setting of white space, got %s",
                         json_value_text(value, shown));
    return read_white_space(c, &c->spec.options, value, field, "", e);
}

/* call_constrain rejects a second constraint, so the order of the fields with constraints only
 * affects the error. White space is last, because it changes a constraint. */
int openai_read_format(struct api_call *c, const struct json *body, struct err *e)
{
    int rc = read_format(c, body, e);
    if (rc == 0) rc = read_structured(c, body, e);
    for (int i = 0; rc == 0 && i < N_KIND; i++) rc = read_alone(c, &kinds[i], body, e);
    return rc == 0 ? read_old_white_space(c, body, e) : rc;
}
