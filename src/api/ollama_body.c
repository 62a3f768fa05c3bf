/* ollama_body.c - convert a body of Ollama's /api/chat or /api/generate to the neutral form. The
 * neutral form is a body of chat completions (openai_read_chat), or of completions for a raw
 * prompt.
 *
 *   options                           sampling parameters, stop, max_tokens (ollama_options.def)
 *   format                            response_format
 *   think                             enable_thinking and thinking for the template,
 *                                     reasoning_effort
 *   tools                             functions
 *   messages; system and prompt       messages (ollama_turns.c)
 *   other fields of fields.def        unchanged
 *
 * This file checks all types, so that errors contain the client's names.
 *
 * Ollama's bodies differ from the neutral form in their conventions: null means absent, 1.0 is an
 * integer, and unknown options have no effect. Errors of options, `format` and `think` have
 * Ollama's own sentences. */
#include "ollama.h"
#include "openai.h"

#include "base/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

enum ollama_kind { OLLAMA_INT, OLLAMA_REAL, OLLAMA_FLAG, OLLAMA_TEXTS };

static const struct option_row {
    const char *name;    /* static */
    const char *neutral; /* static: field of the neutral form; NULL if none */
    enum ollama_kind kind;
    bool only; /* true: `value` is the only accepted value */
    double value;
} rows[] = {
#define OPTION(name, kind, neutral) {#name, #neutral, OLLAMA_##kind, false, 0},
#define OWN(name, kind)             {#name, NULL, OLLAMA_##kind, false, 0},
#define IDLE(name, kind, why)       {#name, NULL, OLLAMA_##kind, false, 0},
#define ONLY(name, kind, value)     {#name, NULL, OLLAMA_##kind, true, value},
#include "ollama_options.def"
};

/* Return the row of an option; NULL if ollama_options.def has no row. */
static const struct option_row *row_of(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

/* Return true if the name is the name of another sampling parameter. */
static bool is_parameter(const char *name)
{
    for (int i = 0; i < N_SAMPLE_PARAM; i++)
        if (strcmp(sample_param[i].name, name) == 0) return true;
    return false;
}

/* Check the type of an option. The sentences are Ollama's. */
static int check_option(const struct option_row *row, const struct json *value, struct err *e)
{
    static const char *const type[] = {"integer", "float32", "boolean", "array"};
    const enum json_kind kind = json_kind(value);
    const bool number = kind == JK_INT || kind == JK_REAL,
               whole =
                   kind == JK_INT || (kind == JK_REAL && json_int(value, 0) == json_int(value, 1));
    const bool ok = row->kind == OLLAMA_INT    ? whole
                    : row->kind == OLLAMA_REAL ? number
                    : row->kind == OLLAMA_FLAG ? kind == JK_BOOL
                                               : kind == JK_LIST;
    char text[80];
    if (!ok)
        return err_set(e, ERR_ARG, "option \"%s\" must be of type %s", row->name, type[row->kind]);
    for (size_t i = 0; kind == JK_LIST && i < json_count(value); i++)
        if (json_kind(json_item(value, i)) != JK_TEXT)
            return err_set(e, ERR_ARG, "option \"%s\" must be of an array of strings", row->name);
    const double real = kind == JK_BOOL ? json_bool(value, false) : json_real(value, 0);
    if (!row->only || real == row->value) return 0;
    return err_field(e, ERR_UNSUPPORTED, "options", ".%s: not supported yet, got %s", row->name,
                     json_value_text(value, text));
}

/* Write an option that the engine uses. As in Ollama, -1 means a random seed, and a negative
 * num_predict means no limit: n_predict -1, because an absent field has the model's default. */
static void put_option(struct json_out *o, const struct option_row *row, const struct json *value)
{
    if (!row->neutral) return;
    if (strcmp(row->name, "seed") == 0 && json_int(value, 0) == -1) return;
    if (strcmp(row->name, "num_predict") == 0 && json_int(value, 0) < 0)
        out_int(o, "n_predict", -1);
    else
        openai_put_json(o, row->neutral, value);
}

/* Check `options`, and write them to the open object, if there is one. */
static int put_options(struct json_out *o, const struct json *body, struct err *e)
{
    const struct json *options = body_field(body, "options");
    int rc = 0;
    if (options && json_kind(options) != JK_OBJECT)
        return body_wrong("options", "an object", options, e);
    for (void *it = json_first(options); it && rc == 0; it = json_next(options, it)) {
        size_t n;
        const char *name = json_it_key(it, &n);
        const struct option_row *row = row_of(name);
        const struct json *value = json_it_value(it);
        if (json_kind(value) == JK_NULL) continue;
        if (row) rc = check_option(row, value, e);
        if (row && rc == 0 && o) put_option(o, row, value);
        if (!row && is_parameter(name) && strlen(name) == n) {
            if (o) openai_put_json(o, name, value);
        } else if (!row) {
            log_info("ignored the unknown option \"%.60s\" of a request", name);
        }
    }
    return rc;
}

int ollama_neutral_option(struct json **out, const char *name, const struct json *value,
                          struct err *e)
{
    const struct option_row *row = row_of(name);
    struct buf b = {0};
    struct json_out o = {.b = &b};
    int rc = row ? check_option(row, value, e) : 0;
    *out = NULL;
    if (!row && !is_parameter(name)) rc = err_field(e, ERR_ARG, name, ": unknown parameter");
    out_object(&o, NULL);
    if (rc == 0 && row) put_option(&o, row, value);
    if (rc == 0 && !row) openai_put_json(&o, name, value);
    out_end(&o);
    if (rc == 0)
        rc = b.failed ? err_memory(e, "a parameter", b.n) : json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

int ollama_check_outside(const struct json *body, struct err *e)
{
    for (void *it = json_first(body); it; it = json_next(body, it)) {
        const char *name = json_it_key(it, NULL);
        if (json_kind(json_it_value(it)) == JK_NULL || (!row_of(name) && !is_parameter(name)))
            continue;
        return err_field(e, ERR_ARG, name, ": must be a member of options");
    }
    return 0;
}

int ollama_check_options(const struct json *body, struct err *e)
{
    return put_options(NULL, body, e);
}

int ollama_num_ctx(const struct json *body, int64_t *n, struct err *e)
{
    const struct json *value = body_field(body_field(body, "options"), "num_ctx");
    int64_t got = json_int(value, 0);
    if (!value) return 0;
    int rc = check_option(row_of("num_ctx"), value, e);
    if (rc == 0 && got < 0)
        rc = err_field(e, ERR_ARG, "options", ".num_ctx: must be at least 0, got %lld",
                       (long long)got);
    if (rc == 0) *n = got; /* 0: the server's context, as in Ollama */
    return rc;
}

/* ---- other fields ---- */

/* Return the length of the number at the beginning of a text, with at most one point; 0 if none. */
static size_t number_bytes(const char *text)
{
    const size_t n = strspn(text, "0123456789");
    if (text[n] != '.') return n;
    const size_t n_part = strspn(text + n + 1, "0123456789");
    return n + n_part > 0 ? n + 1 + n_part : 0;
}

/* Return the length of the longest unit of time at the beginning of a text; 0 if none. */
static size_t unit_bytes(const char *text)
{
    static const char *const unit[] = {"ns", "us", "\u00b5s", "\u03bcs", "ms", "s", "m", "h"};
    size_t longest = 0;
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
        const size_t n = strlen(unit[i]);
        if (n > longest && strncmp(text, unit[i], n) == 0) longest = n;
    }
    return longest;
}

/* Return the seconds of a unit [n] of time. */
static double unit_seconds(const char *unit, size_t n)
{
    if (n == 1) return *unit == 'h' ? 3600 : *unit == 'm' ? 60 : 1;
    return *unit == 'n' ? 1e-9 : *unit == 'm' ? 1e-3 : 1e-6;
}

/* Read a duration of Go: numbers with units, such as "1h30m". Return false for another text. */
static bool read_duration(const char *text, double *seconds)
{
    const bool negative = *text == '-';
    *seconds = 0;
    if (*text == '-' || *text == '+') text++;
    if (strcmp(text, "0") == 0) return true;
    bool ok = *text != 0;
    while (ok && *text) {
        const size_t n = number_bytes(text), n_unit = n ? unit_bytes(text + n) : 0;
        ok = n_unit > 0;
        if (ok) *seconds += strtod(text, NULL) * unit_seconds(text + n, n_unit);
        text += n + n_unit;
    }
    if (negative) *seconds = -*seconds;
    return ok;
}

void ollama_keep(const struct api_call *c, double seconds)
{
    const double max = 1e9; /* 31 years */
    if (!c->api->model || !c->keeps_model || isnan(seconds)) return;
    served_keep(c->api->model, seconds < 0 ? -1 : (int64_t)((seconds < max ? seconds : max) * 1e6));
}

int ollama_keep_alive(const struct json *body, double *seconds, struct err *e)
{
    const struct json *value = body_field(body, "keep_alive");
    const enum json_kind kind = json_kind(value);
    const char *text = json_text(value, NULL);
    char shown[80];
    double got = 0;
    *seconds = NAN;
    if (!value) return 0;
    if (kind == JK_INT || kind == JK_REAL)
        got = json_real(value, 1);
    else if (!text || !read_duration(text, &got))
        return err_field(e, ERR_ARG, "keep_alive",
                         ": expected a number of seconds or a duration such as \"5m\", got %s",
                         json_value_text(value, shown));
    *seconds = got;
    return 0;
}

int ollama_text(const struct json *body, const char *field, const char **text, size_t *n,
                struct err *e)
{
    const struct json *value = body_field(body, field);
    *text = json_text(value, n);
    if (value && !*text) return body_wrong(field, "a string", value, e);
    if (!value) *text = "", *n = 0;
    return 0;
}

/* Write `format` as response_format. */
static int put_format(struct json_out *o, const struct json *body, struct err *e)
{
    const struct json *format = body_field(body, "format");
    const bool schema = json_kind(format) == JK_OBJECT;
    size_t n = 0;
    const char *word = json_text(format, &n);
    char value[80];
    if (!format || (word && n == 0)) return 0;
    if (!schema && !(word && strcmp(word, "json") == 0))
        return err_set(e, ERR_ARG,
                       "invalid format: %s; expected \"json\" or a valid JSON Schema object",
                       json_value_text(format, value));
    out_object(o, "response_format");
    out_word(o, "type", schema ? "json_schema" : "json_object");
    if (schema) {
        out_object(o, "json_schema");
        openai_put_json(o, "schema", format);
        out_end(o);
    }
    out_end(o);
    return 0;
}

/* Return true if the model's answers may have reasoning. */
static bool thinks(const struct api *a)
{
    if (!a->chat || !a->chat->t) return true; /* the missing template is reported later */
    return a->chat->reasoning_parser || template_caps(a->chat->t)->reasoning;
}

/* Write the template's variables: those of the server, overridden by those of the body, and two
 * variables for thinking. Templates read one of these two names. on NULL: the template selects the
 * mode. */
static void put_kwargs(struct json_out *o, const struct api *a, const struct json *given,
                       const bool *on)
{
    static const char *const names[] = {"enable_thinking", "thinking", NULL};
    static const char *const none[] = {NULL};
    const struct json *from = given ? given : a->chat ? a->chat->kwargs : NULL;
    if (!given && !on) return;
    out_object(o, "chat_template_kwargs");
    if (from) openai_put_members(o, from, on ? names : none);
    for (int i = 0; on && names[i]; i++) out_flag(o, names[i], *on);
    out_end(o);
}

/* Write `think`, a flag or a level. The sentences are Ollama's. */
static int put_think(struct json_out *o, const struct api *a, const struct json *body,
                     struct err *e)
{
    static const char *const levels[] = {"high", "medium", "low", "max"};
    const struct json *think = body_field(body, "think"),
                      *given = body_field(body, "chat_template_kwargs");
    const char *word = json_text(think, NULL), *level = NULL,
               *model = json_text(json_field(body, "model"), NULL);
    const bool on = word || json_bool(think, false);
    char value[80];
    for (size_t i = 0; word && i < sizeof levels / sizeof *levels; i++)
        if (strcmp(word, levels[i]) == 0) level = levels[i];
    if (json_kind(think) == JK_TEXT && !level)
        return err_set(e, ERR_ARG,
                       "invalid think value: %s (must be \"high\", \"medium\", \"low\", \"max\", "
                       "true, or false)",
                       json_value_text(think, value));
    if (think && !level && json_kind(think) != JK_BOOL)
        return err_set(e, ERR_ARG,
                       "think must be a boolean or string (\"high\", \"medium\", \"low\", \"max\", "
                       "true, or false)");
    if (given && json_kind(given) != JK_OBJECT)
        return body_wrong("chat_template_kwargs", "an object", given, e);
    if (on && !thinks(a))
        return err_set(e, ERR_UNSUPPORTED, "\"%.100s\" does not support thinking",
                       model ? model : "the model");
    if (level) out_word(o, "reasoning_effort", level);
    put_kwargs(o, a, given, think ? &on : NULL);
    return 0;
}

/* Write logprobs and top_logprobs, which has no effect without logprobs. */
static int put_logprobs(struct json_out *o, const struct json *body, struct err *e)
{
    bool logprobs = false;
    int64_t top = 0;
    int rc = body_flag(body, "logprobs", &logprobs, e);
    if (rc == 0) rc = body_int(body, "top_logprobs", INT32_MIN, INT32_MAX, &top, e);
    if (rc == 0 && (top < 0 || top > TOP_LOGPROB_MAX))
        return err_set(e, ERR_ARG, "top_logprobs must be between 0 and %d", TOP_LOGPROB_MAX);
    if (rc != 0 || !logprobs) return rc;
    out_flag(o, "logprobs", true);
    if (top) out_int(o, "top_logprobs", top);
    return 0;
}

/* ---- tools ---- */

/* Write a tool. Its type is "function" if absent. */
static int put_tool(struct json_out *o, const struct json *tool, size_t i, struct err *e)
{
    static const char *const type[] = {"type", NULL};
    const struct place at = place_below(&(struct place){.field = "tools"}, "", i);
    const struct json *function = body_field(tool, "function");
    size_t n = 0;
    const char *word = json_text(json_field(tool, "type"), &n);
    if (json_kind(tool) != JK_OBJECT) return place_wrong(&at, "", "an object", tool, e);
    if (json_kind(function) != JK_OBJECT)
        return place_wrong(&at, ".function", "an object", function, e);
    out_object(o, NULL);
    if (!body_field(tool, "type") || (word && n == 0))
        out_word(o, "type", "function");
    else
        openai_put_json(o, "type", json_field(tool, "type"));
    openai_put_members(o, tool, type);
    out_end(o);
    return 0;
}

/* Write the tools. As in Ollama, an empty list means no tools, so a model without support for tools
 * accepts it. */
static int put_tools(struct json_out *o, const struct json *body, struct err *e)
{
    const struct json *tools = body_field(body, "tools");
    int rc = 0;
    if (tools && json_kind(tools) != JK_LIST)
        return body_wrong("tools", "a list of tools", tools, e);
    if (json_count(tools) == 0) return 0;
    out_list(o, "tools");
    for (size_t i = 0; rc == 0 && i < json_count(tools); i++)
        rc = put_tool(o, json_item(tools, i), i, e);
    out_end(o);
    return rc;
}

/* ---- the whole body ---- */

/* Write the fields of both endpoints. */
static int put_fields(struct json_out *o, const struct api *a, const struct json *body,
                      struct err *e)
{
    static const char *const same[] = {"priority", "cache_salt", "cache_prompt", "timeout", "user"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        openai_put_json(o, same[i], body_field(body, same[i]));
    int rc = put_options(o, body, e);
    if (rc == 0) rc = put_logprobs(o, body, e);
    if (rc == 0) rc = put_format(o, body, e);
    return rc ? rc : put_think(o, a, body, e);
}

/* Parse the text of a neutral form. */
static int finish(struct json **out, struct buf *b, struct json_out *o, int rc, struct err *e)
{
    out_end(o);
    if (rc == 0)
        rc = b->failed ? err_memory(e, "a conversation", b->n)
                       : json_parse(out, b->data, b->n, NULL, e);
    buf_deinit(b);
    return rc;
}

int ollama_neutral_chat(struct json **out, struct message_places *places, const struct api *a,
                        const struct json *body, size_t first, struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    bool continues = false;
    *out = NULL;
    out_object(&o, NULL);
    int rc = put_fields(&o, a, body, e);
    if (rc == 0) rc = put_tools(&o, body, e);
    if (rc == 0) rc = ollama_put_messages(&o, places, body, first, &continues, e);
    if (rc == 0 && continues) out_flag(&o, "continue_final_message", true);
    return finish(out, &b, &o, rc, e);
}

/* Append a message of /api/generate, whose prompt is a conversation of one turn. */
static void put_message(struct json_out *o, const char *role, const char *text, size_t n)
{
    out_object(o, NULL);
    out_word(o, "role", role);
    out_text(o, "content", text, n);
    out_end(o);
}

int ollama_neutral_generate(struct json **out, const struct api *a, const struct json *body,
                            bool raw, int64_t cut, struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    const char *prompt, *system;
    size_t n_prompt, n_system;
    *out = NULL;
    out_object(&o, NULL);
    int rc = ollama_text(body, "prompt", &prompt, &n_prompt, e);
    if (rc == 0) rc = ollama_text(body, "system", &system, &n_system, e);
    if (rc == 0) rc = put_fields(&o, a, body, e);
    if (rc == 0 && raw) out_text(&o, "prompt", prompt, n_prompt);
    if (rc == 0 && cut) out_int(&o, "truncate_prompt_tokens", cut);
    if (rc == 0 && !raw) {
        out_list(&o, "messages");
        if (n_system) put_message(&o, "system", system, n_system);
        put_message(&o, "user", prompt, n_prompt);
        out_end(&o);
    }
    return finish(out, &b, &o, rc, e);
}
