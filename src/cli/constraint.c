/* constraint.c - the constraint of the answers of quoth run, from its flags. The flags become the
 * fields of a request's body, so that api_constrain is the only reader of constraints.
 *
 *    --regex '[0-9]+' --put_body--> {"guided_regex":"[0-9]+"} --api_constrain_message--> constraint
 *
 * An error contains the flag in place of the field (err_rename). There is at most one
 * constraint. */
#include "answer.h"

#include "base/json.h"
#include "base/os.h"

#include <string.h>

enum { CONSTRAINT_BYTES_MAX = 64 << 20 };

static const char *schema, *regex, *grammar;
static bool object;
static struct text_list choice;
static int64_t budget = -1;

const struct option constraint_options[] = {
    TEXT_OPTION("json-schema", "FILE", &schema,
                "constrain the answer to a JSON Schema; FILE may also be its text"),
    FLAG_OPTION("json-object", &object, "constrain the answer to any JSON object"),
    TEXT_OPTION("regex", "RE", &regex, "constrain the whole answer to a regular expression"),
    TEXT_OPTION("grammar", "FILE", &grammar,
                "constrain the answer to a grammar in GBNF or Lark; FILE may also be its text"),
    LIST_OPTION(
        "choice", "A,B", &choice,
        "constrain the answer to one of the texts, or items of a JSON list (may be repeated)"),
    INT_OPTION("thinking-token-budget", "N", &budget, -1, INT32_MAX,
               "maximum number of tokens of reasoning (default -1: no limit)"),
    OPTIONS_OF(structured_options),
    OPTIONS_END,
};

/* Return the number of flags that give a constraint. */
static int n_flag(void)
{
    return !!schema + object + !!regex + !!grammar + (choice.n > 0);
}

/* The answer is needed before the constraint exists: --ignore-eos must not come with a
 * constraint. */
bool constraint_is_set(void)
{
    return n_flag() > 0;
}

/* ---- values ---- */

/* Return true if the value is a schema's text. A schema is an object or a boolean. */
static bool is_schema_text(const char *value)
{
    const char *text = value + strspn(value, " \t\r\n");
    return *text == '{' || strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
}

/* Return true if the value is a grammar's text, which defines a rule, and not the path of a
 * file. */
static bool is_grammar_text(const char *value)
{
    return !file_exists(value) && strpbrk(value, ":\n");
}

/* Append a JSON string: the value, or the content of the file whose path is the value. */
static int put_value(struct buf *b, const char *value, bool is_text, struct err *e)
{
    struct buf file = {0};
    int rc = is_text ? 0 : file_read(&file, value, CONSTRAINT_BYTES_MAX, e);
    if (rc == 0) json_put_text(b, is_text ? value : file.data, is_text ? strlen(value) : file.n);
    buf_deinit(&file);
    return rc;
}

/* Append an item of a JSON list, with a comma before each item except the first. */
static void put_choice_item(struct buf *b, const char *text, size_t n)
{
    if (b->data[b->n - 1] != '[') buf_add_char(b, ',');
    json_put_text(b, text, n);
}

/* Append the items of a list with commas, or of a JSON list. */
static int put_choices_of(struct buf *b, const char *value, struct err *e)
{
    struct json *list = NULL;
    int rc = *value == '[' ? json_parse(&list, value, strlen(value), NULL, e) : 0;
    for (size_t i = 0; rc == 0 && i < json_count(list); i++) {
        size_t n;
        const char *text = json_text(json_item(list, i), &n);
        if (text)
            put_choice_item(b, text, n);
        else
            rc = err_set(e, ERR_ARG, "[%zu]: expected a string, got %s", i,
                         json_kind_name(json_kind(json_item(list, i))));
    }
    json_drop(list);
    if (*value == '[') return rc;
    /* an empty item is allowed: "a," has the choices "a" and "" */
    for (const char *text = value;; text++) {
        size_t n = strcspn(text, ",");
        put_choice_item(b, text, n);
        text += n;
        if (!*text) return 0;
    }
}

/* Append the values of --choice as one JSON list. */
static int put_choices(struct buf *b, struct err *e)
{
    int rc = 0;
    buf_add_char(b, '[');
    for (size_t i = 0; rc == 0 && !b->failed && i < choice.n; i++)
        rc = put_choices_of(b, choice.v[i], e);
    if (rc == 0 && !b->failed && b->data[b->n - 1] == '[')
        rc = err_set(e, ERR_ARG, "the list: must not be empty");
    buf_add_char(b, ']');
    return rc;
}

/* ---- the body ---- */

/* Append the body. Set *flag and *field to the names in error messages. */
static int put_body(struct buf *b, const char **flag, const char **field, struct err *e)
{
    int rc = 0;
    *flag = schema    ? "--json-schema"
            : object  ? "--json-object"
            : regex   ? "--regex"
            : grammar ? "--grammar"
                      : "--choice";
    *field = schema    ? "json_schema"
             : object  ? "response_format"
             : regex   ? "guided_regex"
             : grammar ? "grammar"
                       : "guided_choice";
    buf_addf(b, "{\"%s\":", *field);
    if (schema)
        rc = put_value(b, schema, is_schema_text(schema), e);
    else if (object)
        buf_add_text(b, "{\"type\":\"json_object\"}");
    else if (regex)
        rc = put_value(b, regex, true, e);
    else if (grammar)
        rc = put_value(b, grammar, is_grammar_text(grammar), e);
    else
        rc = put_choices(b, e);
    buf_add_char(b, '}');
    if (rc == 0 && b->failed) return err_memory(e, "a constraint", b->n);
    return rc ? err_prefix(e, rc, "%s", *flag) : 0;
}

/* An empty value is an error, because it would allow only an empty answer. */
int constraint_check(struct err *e)
{
    if (n_flag() > 1)
        return err_set(e, ERR_ARG,
                       "--json-schema, --json-object, --regex, --grammar, --choice: must not come "
                       "together, because an answer has at most one constraint");
    if ((regex && !*regex) || (grammar && !*grammar) || (schema && !*schema))
        return err_set(e, ERR_ARG, "%s: must have at least 1 byte, got 0",
                       regex     ? "--regex"
                       : grammar ? "--grammar"
                                 : "--json-schema");
    return 0;
}

/* The flags become a request's body, for example {"guided_regex":"[0-9]+"}. err_rename replaces the
 * name of the field in an error by that of the flag. */
int flags_constrain(struct constraint **out, const struct session *s, const struct chat *chat,
                    const char *begun, size_t n_begun, struct chat_parser_options *parser,
                    struct err *e)
{
    struct api api = {.session = s, .chat = chat};
    const char *flag, *field;
    struct buf b = {0};
    struct json *body = NULL;
    *out = NULL;
    if (!constraint_is_set()) return 0;
    structured_read(&api);
    int rc = constraint_check(e);
    if (rc == 0) rc = put_body(&b, &flag, &field, e);
    if (rc == 0) rc = json_parse(&body, b.data, b.n, NULL, e);
    if (rc == 0) {
        rc = api_constrain_message(out, &api, body, begun, n_begun, parser, e);
        if (rc != 0) err_rename(e, rc, field, flag);
    }
    json_drop(body);
    buf_deinit(&b);
    return rc;
}

/* The limit is a constraint itself, and joins an existing one. It needs the marks of the model's
 * reasoning, which its parser has. */
int flags_limit_reasoning(struct constraint **c, const struct session *s, const struct chat *chat,
                          const char *begun, size_t n_begun, struct err *e)
{
    struct api api = {.session = s, .chat = chat};
    const struct text_span text = {begun, n_begun};
    if (budget < 0) return 0;
    if (!chat || !chat->reasoning_parser)
        return err_set(e, ERR_UNSUPPORTED,
                       "--thinking-token-budget: the answer is not a message, or the marks of this "
                       "model's reasoning are not known; select a parser with --reasoning-parser");
    int rc = api_limit_reasoning(c, &api, (int)budget, &text, NULL, e);
    return rc ? err_rename(e, rc, "thinking_token_budget", "--thinking-token-budget") : 0;
}

void flags_close_constraint(struct constraint *c)
{
    if (c) c->op->close(c);
}
