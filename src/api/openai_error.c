/* openai_error.c - a failure in the form of OpenAI's clients:
 * {"error":{"message","type","param","code"}}. */
#include "openai.h"

#include <string.h>

/* Return OpenAI's type of an error, by its status. */
static const char *type_of(int rc)
{
    int status = api_status(rc);
    return status == 429   ? "rate_limit_error"
           : status == 503 ? "service_unavailable_error"
           : status < 500  ? "invalid_request_error"
                           : "server_error";
}

/* Return OpenAI's code for failures that clients distinguish; NULL for other failures. */
const char *openai_error_code(int rc, const char *field)
{
    bool prompt = strcmp(field, "prompt") == 0 || strcmp(field, "input") == 0 ||
                  strcmp(field, "messages") == 0;
    if (rc == ERR_LIMIT && prompt) return "context_length_exceeded";
    if (rc == ERR_BUSY) return "rate_limit_exceeded";
    if (api_status(rc) == 503) return "overloaded";
    if (rc == ERR_MISSING && strcmp(field, "previous_response_id") == 0)
        return "previous_response_not_found";
    if (rc == ERR_MISSING) return strcmp(field, "model") == 0 ? "model_not_found" : "not_found";
    return NULL;
}

/* Append the error as member `key`, or alone if key is NULL. `param` is the field. */
static void put_error(struct json_out *o, const char *key, int rc, const struct err *e)
{
    out_object(o, key);
    out_word(o, "message", e->text);
    out_word(o, "type", type_of(rc));
    out_word(o, "param", *e->field ? e->field : NULL);
    const bool too_long = rc == ERR_LIMIT && e->n_max > 0;
    out_word(o, "code", too_long ? "context_length_exceeded" : openai_error_code(rc, e->field));
    if (too_long) { /* members as in llama.cpp's server */
        out_int(o, "n_prompt_tokens", e->n_found);
        out_int(o, "n_ctx", e->n_max);
    }
    out_end(o);
}

void api_error_put(struct buf *b, int rc, const struct err *e)
{
    put_error(&(struct json_out){.b = b}, NULL, rc, e);
}

/* Append the body of a failed request. The id is only in a header, as in OpenAI's API. */
static void put_body(struct buf *b, int rc, const struct err *e, const char *id)
{
    struct json_out o = {.b = b};
    (void)id;
    out_object(&o, NULL);
    put_error(&o, "error", rc, e);
    out_end(&o);
}

/* A static frame for a stream whose next frame could not be allocated. */
const char openai_no_memory[] =
    "data: {\"error\":{\"message\":\"out of memory: a piece of the answer\",\"type\":"
    "\"service_unavailable_error\",\"param\":null,\"code\":\"overloaded\"}}\n\n";

/* ---- rejections by the HTTP server ---- */

/* Words for the statuses that src/net produces. These statuses do not pass through struct err. */
static const struct status_words {
    int status;
    const char *type, *code; /* static */
} words[] = {
    {401, "authentication_error", "invalid_api_key"},
    {403, "permission_error", NULL},
    {404, "not_found_error", "not_found"},
    {405, "invalid_request_error", "method_not_allowed"},
    {408, "invalid_request_error", "request_timeout"},
    {413, "invalid_request_error", "request_too_large"},
    {415, "invalid_request_error", "unsupported_media_type"},
    {429, "rate_limit_error", "rate_limit_exceeded"},
    {431, "invalid_request_error", "headers_too_large"},
    {503, "service_unavailable_error", "overloaded"},
};

/* Append the body of a rejection by the HTTP server (net_errors). */
static void put_refusal(struct buf *b, const struct net_error *e)
{
    struct status_words w = {.type = e->status >= 500 ? "server_error" : "invalid_request_error"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].status == e->status) w = words[i];
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_object(&o, "error");
    out_word(&o, "message", e->text);
    out_word(&o, "type", w.type);
    out_null(&o, "param");
    out_word(&o, "code", e->code ? e->code : w.code);
    out_end(&o);
    out_end(&o);
}

const struct error_form openai_errors = {
    .net = {.type = "application/json", .put = put_refusal},
    .put = put_body,
    .before = "data: ",
    .after = "\n\n",
};
