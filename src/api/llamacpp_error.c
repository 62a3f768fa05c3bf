/* llamacpp_error.c - a failure in the form of llama.cpp's server:
 * {"error":{"code":400,"message":TEXT,"type":TYPE}}. An error of a prompt that is too long also has
 * its length and the context's. */
#include "llamacpp.h"

/* Return llama.cpp's type of a status. */
static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
    case 503:
        return "unavailable_error";
    case 501:
        return "not_supported_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

/* Append the members `code`, `message` and `type` of the object `error`, which stays open. */
static void put(struct json_out *o, int status, const char *text, const char *type)
{
    out_object(o, NULL);
    out_object(o, "error");
    out_int(o, "code", status);
    out_word(o, "message", text);
    out_word(o, "type", type);
}

/* Append the body of a failed request. */
static void put_body(struct buf *b, int rc, const struct err *e, const char *id)
{
    const int status = api_status(rc);
    const bool too_long = rc == ERR_LIMIT && e->n_max > 0;
    struct json_out o = {.b = b};
    (void)id;
    put(&o, status, e->text, too_long ? "exceed_context_size_error" : type_of(status));
    if (too_long) {
        out_int(&o, "n_prompt_tokens", e->n_found);
        out_int(&o, "n_ctx", e->n_max);
    }
    out_end(&o);
    out_end(&o);
}

/* Append the body of a rejection by the HTTP server (net_errors). */
static void put_refusal(struct buf *b, const struct net_error *e)
{
    struct json_out o = {.b = b};
    put(&o, e->status, e->text, type_of(e->status));
    out_end(&o);
    out_end(&o);
}

/* An event that needs no memory, for a stream whose next event could not be allocated. */
const char llamacpp_no_memory[] =
    "data: {\"error\":{\"code\":503,\"message\":\"out of memory: a piece of the answer\","
    "\"type\":\"unavailable_error\"}}\n\n";

const struct error_form llamacpp_errors = {
    .net = {.type = "application/json", .put = put_refusal},
    .put = put_body,
    .before = "data: ",
    .after = "\n\n",
};
