/* constrain_message.c - constraints of messages. One grammar covers a whole answer, with the
 * model's reasoning, calls and content (chat_answer_tag).
 *
 * Reasoning that begins in the prompt is free text up to its closing mark. The model may begin
 * reasoning itself only if the request enables it. Without this rule, a model would begin reasoning
 * only because the constraint excludes its usual first token. Constraints on texts other than JSON
 * apply from the first byte. Such a text may begin with the mark of reasoning. */
#include "dialect.h"

#include <string.h>

/* Return true if the constraint permits JSON only. */
static bool is_json(const struct constraint_spec *spec)
{
    return spec->kind == GRAMMAR_SCHEMA || spec->kind == GRAMMAR_OBJECT;
}

/* ---- content, as a format of a structural tag ---- */

/* Append the members of the format for a schema. The caller opens and closes the object. */
static int put_schema(struct json_out *o, const char *text, size_t n, struct err *why)
{
    struct json *schema = NULL;
    struct buf b = {0};
    int rc = json_parse(&schema, text, n, NULL, why);
    if (rc == 0) rc = check_numbers(schema, why);
    if (rc == 0) json_put(&b, schema);
    out_word(o, "type", "json_schema");
    out_raw(o, "json_schema", b.data ? b.data : "", b.n);
    if (rc == 0 && b.failed) rc = err_memory(why, "a schema", n);
    json_drop(schema);
    buf_deinit(&b);
    return rc;
}

/* Append the members of the format for a list of strings. */
static int put_choice(struct json_out *o, const char *text, size_t n, struct err *why)
{
    struct json *list = NULL;
    int rc = json_parse(&list, text, n, NULL, why);
    out_word(o, "type", "or");
    out_list(o, "elements");
    for (size_t i = 0; rc == 0 && i < json_count(list); i++) {
        size_t n_one = 0;
        const char *one = json_text(json_item(list, i), &n_one);
        if (!one)
            rc = err_set(why, ERR_FORMAT, "item %zu: expected a string, got %s", i,
                         json_kind_name(json_kind(json_item(list, i))));
        out_object(o, NULL);
        out_word(o, "type", "const_string");
        out_text(o, "value", one, n_one);
        out_end(o);
    }
    out_end(o);
    json_drop(list);
    return rc;
}

/* Append the members of the format for a structural tag. */
static int put_tag(struct json_out *o, const char *text, size_t n, struct err *why)
{
    struct json *tag = NULL;
    int rc = json_parse(&tag, text, n, NULL, why);
    if (rc == 0) rc = check_numbers(tag, why);
    /* a tag has the form {"type":"structural_tag","format":{...}}, or is a format */
    const struct json *format = json_field(tag, "format");
    if (!format) format = tag;
    if (rc == 0 && !json_field(format, "type"))
        rc = err_set(why, ERR_UNSUPPORTED, "a structural tag after reasoning needs a \"type\"");
    for (void *it = json_first(format); rc == 0 && it; it = json_next(format, it)) {
        size_t n_key;
        const char *key = json_it_key(it, &n_key);
        struct buf value = {0};
        json_put(&value, json_it_value(it));
        out_key(o, key, n_key);
        out_raw(o, NULL, value.data ? value.data : "", value.n);
        if (value.failed) rc = err_memory(why, "a grammar", value.n);
        buf_deinit(&value);
    }
    json_drop(tag);
    return rc;
}

/* Append the format for the constraint on content to b. */
static int put_content(struct buf *b, const struct constraint_spec *spec, struct err *why)
{
    static const char object[] = "{\"type\":\"object\"}";
    struct json_out o = {.b = b};
    int rc = 0;
    out_object(&o, NULL);
    if (spec->kind == GRAMMAR_OBJECT) {
        rc = put_schema(&o, object, sizeof object - 1, why);
    } else if (spec->kind == GRAMMAR_SCHEMA) {
        rc = put_schema(&o, spec->text, spec->n, why);
    } else if (spec->kind == GRAMMAR_CHOICE) {
        rc = put_choice(&o, spec->text, spec->n, why);
    } else if (spec->kind == GRAMMAR_TAG) {
        rc = put_tag(&o, spec->text, spec->n, why);
    } else if (spec->kind == GRAMMAR_LARK) {
        rc = err_set(why, ERR_UNSUPPORTED, "a Lark grammar after reasoning: not supported yet");
    } else {
        bool regex = spec->kind == GRAMMAR_REGEX;
        out_word(&o, "type", regex ? "regex" : "grammar");
        out_text(&o, regex ? "pattern" : "grammar", spec->text, spec->n);
    }
    out_end(&o);
    if (rc == 0 && b->failed) rc = err_memory(why, "a grammar", b->n);
    return rc;
}

/* ---- the grammar ---- */

/* Return the length of the longest special token at the beginning of text; 0 if there is no such
 * token. */
static size_t special_token(const void *tokenizer, const char *text, size_t n)
{
    enum { SPECIAL_BYTES_MAX = 64 };
    for (size_t k = n < SPECIAL_BYTES_MAX ? n : SPECIAL_BYTES_MAX; k > 0; k--) {
        int32_t id = tokenizer_find(tokenizer, text, k);
        if (id >= 0 && (tokenizer_is_special(tokenizer, id) || tokenizer_is_eog(tokenizer, id)))
            return k;
    }
    return 0;
}

/* Compile the structural tag of an answer into c->constraint. *why has a field only if
 * chat_answer_tag fails. */
static int compile(struct api_call *c, const struct chat_answer *a, const char *field,
                   struct err *why)
{
    struct buf b = {0};
    int rc = chat_answer_tag(&b, a, why);
    struct constraint_spec tag = {
        .field = field, .kind = GRAMMAR_TAG, .text = b.data, .n = b.n, .options = c->spec.options};
    if (rc == 0) rc = call_compile(c, &tag, why);
    buf_deinit(&b);
    return rc;
}

/* Release a constraint that was compiled only to check for an error. */
static void drop_constraint(struct api_call *c)
{
    if (c->constraint) c->constraint->op->close(c->constraint);
    c->constraint = NULL;
}

/* Return the error of compiling the arguments of one tool; 0 if there is no error. */
static int refuse_tool(struct api_call *c, const struct chat_answer *a, const struct chat_tool *t,
                       struct err *e)
{
    struct constraint_spec schema = {
        .kind = GRAMMAR_SCHEMA, .text = t->schema, .n = t->n_schema, .options = c->spec.options};
    struct chat_answer one = *a;
    struct err why = {0};
    if (!t->schema) return 0;
    one.tool = t, one.n_tool = 1, one.content = NULL;
    int rc = call_compile(c, &schema, &why);
    drop_constraint(c);
    if (rc == 0) rc = compile(c, &one, "tools", &why);
    drop_constraint(c);
    const char *place = t->input ? "custom.format" : "function.parameters";
    return rc ? err_field(e, rc, "tools", "[%zu].%s: %s", t->i, place, why.text) : 0;
}

/* Return the error, with the name of its cause: the constraint, the schema of a tool, or their
 * combination. */
static int refuse(struct api_call *c, const struct chat_answer *a, const char *field, int code,
                  const struct err *why, struct err *e)
{
    if (why->field[0]) return *e = *why, code;
    /* TRIED_MAX: maximum number of tools that are tried after ERR_LIMIT, because each attempt may
     * take as long as the failed one */
    enum { TRIED_MAX = 4 };
    int rc = a->content ? call_constrain_text(c, e) : 0;
    drop_constraint(c);
    for (size_t i = 0; rc == 0 && i < a->n_tool && (code != ERR_LIMIT || i < TRIED_MAX); i++)
        rc = refuse_tool(c, a, &a->tool[i], e);
    return rc ? rc : err_field(e, code, field, ": %s", why->text);
}

/* ---- a message ---- */

/* Reject a constraint and tools that cannot be combined. */
static int check_together(const struct api_call *c, const struct tools_spec *tools, struct err *e)
{
    const struct constraint_spec *spec = &c->spec;
    bool unmarked = c->tool_parser && !chat_calls_are_marked(c->tool_parser);
    if (!spec->field || !c->tool_parser) return 0;
    if (tools->must && strcmp(spec->field, "response_format") != 0)
        return err_field(e, ERR_ARG, spec->field,
                         ": must not come with another constraint, got tool_choice too");
    if (!is_json(spec))
        return err_field(e, ERR_UNSUPPORTED, spec->field,
                         ": must be a constraint on JSON if there are tools, got another one; send "
                         "tool_choice \"none\", or no tools");
    if (unmarked && !tools->must)
        return err_field(e, ERR_UNSUPPORTED, spec->field,
                         ": not supported with tools, whose calls this model writes as JSON "
                         "without a mark; send tool_choice \"none\" or \"required\"");
    return 0;
}

/* Apply the constraint from the first token, as for a message without reasoning. The parser still
 * separates the reasoning that the prompt or the constrained text contains. */
static int place_in_reasoning(const struct api_call *c, struct chat_answer *a, struct err *e)
{
    if (c->budget >= 0)
        return err_field(e, ERR_UNSUPPORTED, "thinking_token_budget",
                         ": must not come with a constraint, which applies to the reasoning too "
                         "(enable_in_reasoning)");
    a->place = CHAT_AFTER;
    a->no_reasoning = true;
    return 0;
}

/* Set a->place, the place at which the answer begins. Return an error if a constrained answer
 * cannot begin at this place. */
static int find_place(struct api_call *c, struct chat_answer *a, bool any_text, struct err *e)
{
    bool begun = false, calls = a->n_tool && a->no_text;
    int rc = begun_place(c, &a->place, &begun, e);
    if (rc != 0) return rc;
    if (a->place == CHAT_UNDECIDED)
        return err_field(e, ERR_UNSUPPORTED, "continue_final_message",
                         ": must not end within a mark of reasoning if there is a constraint (%s)",
                         c->spec.field ? c->spec.field : "tools");
    a->begun = begun;
    if (begun && calls && (c->spec.field || !chat_calls_are_marked(a->tool_parser)))
        return err_field(e, ERR_UNSUPPORTED, "continue_final_message",
                         ": must not have content if calls must follow it");
    bool may_reason = c->reasoning_parser && !any_text && (c->requests_reasoning || !a->no_text);
    a->no_reasoning = !may_reason;
    if (c->api->constrain_reasoning) return place_in_reasoning(c, a, e);
    return 0;
}

/* Compile the grammar of an answer. An error contains its cause. */
static int constrain(struct api_call *c, const struct chat_answer *a, const char *field,
                     struct err *e)
{
    struct err why = {0};
    c->expected = chat_answer_expected(a);
    if (c->api->constrain_reasoning) c->expected.closed = c->expected.verbatim = false;
    int rc = compile(c, a, field, &why);
    return rc ? refuse(c, a, field, rc, &why, e) : 0;
}

int call_constrain_message(struct api_call *c, const struct tools_spec *tools, struct err *e)
{
    const struct chat *chat = c->api->chat;
    bool content = c->spec.field && !tools->must, any_text = content && !is_json(&c->spec);
    struct chat_answer a = {.t = chat->t,
                            .tool_parser = chat->tool_parser,
                            .reasoning_parser = chat->reasoning_parser,
                            .one_call = tools->one,
                            .no_text = tools->must || content,
                            .special = special_token,
                            .special_arg = c->api->session->tokenizer};
    struct buf b = {0};
    struct err why = {0};
    int rc = check_together(c, tools, e);
    bool callable = c->tool_parser || tools->must;
    if (callable && (tools->field || content)) a.tool = tools->tool, a.n_tool = tools->n;
    if (rc != 0 || (!content && a.n_tool == 0)) return rc;
    rc = find_place(c, &a, any_text, e);
    /* an answer without reasoning and calls is only the text of the constraint */
    bool only_content =
        a.n_tool == 0 && (a.place == CHAT_AFTER || (a.place == CHAT_BEFORE && a.no_reasoning));
    if (only_content && !c->api->constrain_reasoning) {
        c->reasoning_parser = NULL;
        c->without_reasoning = true;
    }
    if (rc != 0 || only_content) return rc ? rc : call_constrain_text(c, e);
    if (any_text) a.gap = chat_reasoning_gap(chat->t, chat->reasoning_parser);
    if (content && put_content(&b, &c->spec, &why) != 0) {
        rc = err_field(e, why.code, c->spec.field, "%s: %s", c->spec.place, why.text);
    } else {
        if (content) a.content = b.data, a.n_content = b.n;
        rc = constrain(c, &a, tools->field ? tools->field : c->spec.field, e);
    }
    buf_deinit(&b);
    return rc;
}
