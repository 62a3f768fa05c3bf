/* Goal: errors have the form of OpenAI's and llama.cpp's clients, byte for byte. Method: compare
 * the text of each kind of failure, from the engine and from the HTTP server. */
#include "openai.h"
#include "../../tests/unit.h"

#include <string.h>

static void expect(struct buf *b, const char *want)
{
    if (!b->data || strcmp(b->data, want) != 0)
        test_fail(__FILE__, __LINE__, "%s, expected %s", b->data, want);
    buf_deinit(b);
}

TEST(openai_errors_of_requests)
{
    static const struct {
        int rc;
        const char *field, *want;
    } c[] = {
        {ERR_ARG, "top_p",
         "\"type\":\"invalid_request_error\",\"param\":\"top_p\",\"code\":null}}"},
        {ERR_UNSUPPORTED, "", "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}"},
        {ERR_LIMIT, "messages",
         "\"type\":\"invalid_request_error\",\"param\":\"messages\",\"code\":\"context_length_"
         "exceeded\","
         "\"n_prompt_tokens\":9,\"n_ctx\":8}}"},
        {ERR_MISSING, "model",
         "\"type\":\"invalid_request_error\",\"param\":\"model\",\"code\":\"model_not_found\"}}"},
        {ERR_BUSY, "",
         "\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"rate_limit_exceeded\"}}"},
        {ERR_MEMORY, "",
         "\"type\":\"service_unavailable_error\",\"param\":null,\"code\":\"overloaded\"}}"},
        {ERR_UNAVAILABLE, "",
         "\"type\":\"service_unavailable_error\",\"param\":null,\"code\":\"overloaded\"}}"},
        {ERR_IO, "", "\"type\":\"server_error\",\"param\":null,\"code\":null}}"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct buf b = {0};
        struct err e;
        char want[512];
        err_field(&e, c[i].rc, c[i].field, " \"so\"");
        if (c[i].rc == ERR_LIMIT) err_figures(&e, c[i].rc, 9, 8);
        openai_errors.put(&b, c[i].rc, &e, NULL);
        snprintf(want, sizeof want, "{\"error\":{\"message\":\"%s \\\"so\\\"\",%s", c[i].field,
                 c[i].want);
        expect(&b, want);
    }
}

TEST(openai_errors_of_the_http_server)
{
    static const struct {
        struct net_error e;
        const char *type, *code;
    } c[] = {
        {{.status = 400}, "invalid_request_error", "null"},
        {{.status = 401}, "authentication_error", "\"invalid_api_key\""},
        {{.status = 403, .code = "admin_key_needed"}, "permission_error", "\"admin_key_needed\""},
        {{.status = 404}, "not_found_error", "\"not_found\""},
        {{.status = 405}, "invalid_request_error", "\"method_not_allowed\""},
        {{.status = 408}, "invalid_request_error", "\"request_timeout\""},
        {{.status = 413}, "invalid_request_error", "\"request_too_large\""},
        {{.status = 415}, "invalid_request_error", "\"unsupported_media_type\""},
        {{.status = 429}, "rate_limit_error", "\"rate_limit_exceeded\""},
        {{.status = 431}, "invalid_request_error", "\"headers_too_large\""},
        {{.status = 500}, "server_error", "null"},
        {{.status = 503}, "service_unavailable_error", "\"overloaded\""},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct buf b = {0};
        struct net_error e = c[i].e;
        char want[256];
        e.text = "so";
        openai_errors.net.put(&b, &e);
        snprintf(want, sizeof want,
                 "{\"error\":{\"message\":\"so\",\"type\":\"%s\",\"param\":null,\"code\":%s}}",
                 c[i].type, c[i].code);
        expect(&b, want);
    }
}
