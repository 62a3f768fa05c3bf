/* anthropic_error.c - a failure in the form of Anthropic's clients:
 * {"type":"error","error":{"type","message"},"request_id"}. */
#include "anthropic.h"

#include <stdio.h>
#include <string.h>

/* Return Anthropic's type of an error, by its status. */
static const char *type_of(int status)
{
    static const struct {
        int status;
        const char *type; /* static */
    } types[] = {
        {401, "authentication_error"}, {403, "permission_error"},  {404, "not_found_error"},
        {408, "timeout_error"},        {413, "request_too_large"}, {429, "rate_limit_error"},
        {503, "overloaded_error"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status) return types[i].type;
    return status < 500 ? "invalid_request_error" : "api_error";
}

/* Append the error as a JSON object. code: the member error_code of the details; NULL if none. */
static void put(struct buf *b, int status, const char *text, const char *code, const char *id)
{
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_word(&o, "type", "error");
    out_object(&o, "error");
    out_word(&o, "type", type_of(status));
    out_word(&o, "message", text);
    if (code) {
        out_object(&o, "details");
        out_word(&o, "error_code", code);
        out_end(&o);
    }
    out_end(&o);
    if (id) out_word(&o, "request_id", id);
    out_end(&o);
}

/* Append the body of a failed request. Clients shorten a conversation if the message contains
 * "prompt is too long". They repeat a request without `thread` if the details have the code. */
static void put_body(struct buf *b, int rc, const struct err *e, const char *id)
{
    char text[100];
    bool too_long = rc == ERR_LIMIT && e->n_max > 0 && strcmp(e->field, "messages") == 0;
    snprintf(text, sizeof text, "prompt is too long: %lld tokens > %lld maximum", e->n_found,
             e->n_max);
    const bool thread = rc == ERR_UNSUPPORTED && strcmp(e->field, "thread") == 0;
    put(b, api_status(rc), too_long ? text : e->text, thread ? "thread_unsupported_request" : NULL,
        id);
}

/* Append the body of a rejection by the HTTP server (net_errors). */
static void put_refusal(struct buf *b, const struct net_error *e)
{
    put(b, e->status, e->text, NULL, e->id);
}

/* A static event for a stream whose next event could not be allocated. */
const char anthropic_no_memory[] =
    "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
    "\"out of memory: a piece of the answer\"}}\n\n";

const char anthropic_ping[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

const struct error_form anthropic_errors = {
    .net = {.type = "application/json",
            .put = put_refusal,
            .id_header = "request-id",
            .ping = anthropic_ping,
            .header = "anthropic-version",
            .path = "/v1/messages"},
    .put = put_body,
    .before = "event: error\ndata: ",
    .after = "\n\n",
};
