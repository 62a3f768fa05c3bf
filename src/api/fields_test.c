/* Goal: a field that one endpoint reads has an effect at every endpoint that generates, or is
 * rejected by name. */
#include "api_impl.h"
#include "../../tests/unit.h"

#include <stdio.h>
#include <string.h>

static const unsigned generating[] = {ENDPOINT_CHAT,        ENDPOINT_TEXT,
                                      ENDPOINT_ANTHROPIC,   ENDPOINT_RESPONSES,
                                      ENDPOINT_OLLAMA_CHAT, ENDPOINT_OLLAMA_GENERATE,
                                      ENDPOINT_LLAMACPP,    ENDPOINT_LLAMACPP_INFILL};
enum { N_GENERATING = sizeof generating / sizeof *generating };

/* Return the result of fields_check for a body with one field. */
static int checked(const char *name, const char *value, unsigned where, struct err *e)
{
    char text[200];
    snprintf(text, sizeof text, "{\"%s\":%s}", name, value);
    struct json *body = NULL;
    int rc = json_parse(&body, text, strlen(text), NULL, e);
    if (rc == 0) rc = fields_check(body, where, e);
    json_drop(body);
    return rc;
}

/* Return true if a row of one of the endpoints `where`, or a row without an endpoint, has the name
 * and an effect, which may be one that is not supported yet. */
static bool is_read_by(const char *name, unsigned where)
{
    const struct field_row *f;
    for (size_t i = 0; (f = fields_at(i)); i++)
        if (f->name && strcmp(f->name, name) == 0 && (f->where & where || !f->where) &&
            (f->support == IF_UNSET || (f->support == SUPPORTED && !f->why)))
            return true;
    return false;
}

TEST(fields_that_another_endpoint_reads_are_rejected)
{
    unsigned all = 0;
    int n_rejected = 0;
    const struct field_row *f;
    for (int k = 0; k < N_GENERATING; k++) all |= generating[k];
    for (size_t i = 0; (f = fields_at(i)); i++)
        for (int k = 0; f->name && k < N_GENERATING; k++) {
            struct err e = {0};
            if (fields_know(f->name, generating[k])) continue;
            const bool rejected = checked(f->name, "1", generating[k], &e) == ERR_UNSUPPORTED;
            if (rejected != is_read_by(f->name, all) || (rejected && strcmp(e.field, f->name) != 0))
                test_fail(__FILE__, __LINE__, "%s at %x: rejected %d, field \"%s\"", f->name,
                          generating[k], rejected, rejected ? e.field : "");
            n_rejected += rejected;
            EXPECT_INT(checked(f->name, "null", generating[k], &e), 0);
        }
    EXPECT(n_rejected > 200);
}

TEST(fields_at_wrong_endpoints)
{
    static const struct {
        const char *name, *value;
        unsigned where;
        int rc;
    } c[] = {
        {"grammar", "\"root ::= \\\"a\\\"\"", ENDPOINT_RESPONSES, ERR_UNSUPPORTED},
        {"regex", "\"a\"", ENDPOINT_ANTHROPIC, ERR_UNSUPPORTED},
        {"temperature", "0.5", ENDPOINT_OLLAMA_CHAT, ERR_UNSUPPORTED},
        {"temperature", "0", ENDPOINT_OLLAMA_CHAT, 0}, /* clients send 0 for "not set" */
        {"stop_sequences", "[\"a\"]", ENDPOINT_CHAT, ERR_UNSUPPORTED},
        {"format", "\"json\"", ENDPOINT_TEXT, ERR_UNSUPPORTED},
        {"keep_alive", "\"5m\"", ENDPOINT_CHAT, 0},
        {"metadata", "{\"a\":1}", ENDPOINT_OLLAMA_GENERATE, 0},
        {"include_reasoning", "true", ENDPOINT_TEXT, 0},
        {"include_reasoning", "null", ENDPOINT_TEXT, 0},
        {"include_reasoning", "false", ENDPOINT_TEXT, ERR_UNSUPPORTED},
        {"parallel_tool_calls", "false", ENDPOINT_ANTHROPIC, ERR_UNSUPPORTED},
        {"think", "false", ENDPOINT_CHAT, ERR_UNSUPPORTED},
        {"thinking_token_budget", "0", ENDPOINT_OLLAMA_CHAT, ERR_UNSUPPORTED},
        {"inputs", "\"a\"", ENDPOINT_CHAT, ERR_UNSUPPORTED},
        {"parameters", "{\"seed\":1}", ENDPOINT_OLLAMA_CHAT, ERR_UNSUPPORTED},
        {"parameters", "{}", ENDPOINT_OLLAMA_CHAT, 0},
        {"images", "[\"a\"]", ENDPOINT_TEXT, ERR_UNSUPPORTED},
        {"lora", "[{\"id\":0}]", ENDPOINT_ANTHROPIC, ERR_UNSUPPORTED},
        {"verbose", "true", ENDPOINT_OLLAMA_GENERATE, ERR_UNSUPPORTED},
        {"verbose", "false", ENDPOINT_OLLAMA_GENERATE, 0},
        {"guided_json", "{}", ENDPOINT_ANTHROPIC, ERR_UNSUPPORTED},
        {"guided_json", "null", ENDPOINT_ANTHROPIC, 0},
        {"json_schema", "{}", ENDPOINT_RESPONSES, ERR_UNSUPPORTED},
        {"a_field_of_nobody", "1", ENDPOINT_CHAT, 0},
        {"temperature", "0.5", ENDPOINT_EMBED, 0}, /* it generates nothing */
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct err e = {0};
        const int rc = checked(c[i].name, c[i].value, c[i].where, &e);
        if (rc != c[i].rc) test_fail(__FILE__, __LINE__, "%s: %d", c[i].name, rc);
    }
}
