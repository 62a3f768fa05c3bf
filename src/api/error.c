/* error.c - a failed call as HTTP and OpenAI's clients know it. */
#include "api.h"

#include <ctype.h>
#include <string.h>

int api_status(int rc)
{
    switch (rc) {
    case 0:
        return 200;
    case ERR_ARG:
    case ERR_LIMIT:
    case ERR_FORMAT:
    case ERR_UNSUPPORTED:
        return 400;
    case ERR_MISSING:
        return 404;
    case ERR_BUSY:
        return 429;
    default:
        return 500;
    }
}

/* The field that a sentence begins with ("logit_bias[3] names token 7", "top_p is 2"): its length,
 * or 0. */
static size_t field_of(const char *text)
{
    size_t n = 0;
    bool joined = false;
    for (; islower((unsigned char)text[n]) || isdigit((unsigned char)text[n]) || text[n] == '_';
         n++)
        joined |= text[n] == '_';
    bool ends = text[n] == ':' || text[n] == '[' || text[n] == '.' ||
                strncmp(text + n, " is ", 4) == 0 || (joined && text[n] == ' ');
    return n > 0 && ends ? n : 0;
}

/* OpenAI's word for what clients look for; NULL: none. */
static const char *code_of(int rc, const char *param, size_t n)
{
    bool prompt = (n == 6 && memcmp(param, "prompt", n) == 0) ||
                  (n == 5 && memcmp(param, "input", n) == 0) ||
                  (n == 8 && memcmp(param, "messages", n) == 0);
    if (rc == ERR_LIMIT && prompt) return "context_length_exceeded";
    if (rc == ERR_BUSY) return "rate_limit_exceeded";
    if (rc == ERR_MISSING)
        return n == 5 && memcmp(param, "model", n) == 0 ? "model_not_found" : "not_found";
    return NULL;
}

void api_error_put(struct buf *b, int rc, const struct err *e)
{
    int status = api_status(rc);
    bool of_field = rc == ERR_ARG || rc == ERR_LIMIT || rc == ERR_UNSUPPORTED || rc == ERR_MISSING;
    size_t n = of_field ? field_of(e->text) : 0;
    buf_add_text(b, "{\"message\":");
    json_put_text(b, e->text, strlen(e->text));
    buf_addf(b, ",\"type\":\"%s\",\"param\":",
             status == 429  ? "rate_limit_error"
             : status < 500 ? "invalid_request_error"
                            : "server_error");
    if (n)
        json_put_text(b, e->text, n);
    else
        buf_add_text(b, "null");
    const char *code = code_of(rc, e->text, n);
    buf_addf(b, code ? ",\"code\":\"%s\"}" : ",\"code\":null}", code);
}
