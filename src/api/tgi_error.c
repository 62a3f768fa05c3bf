/* tgi_error.c - a failure in the form of Text Generation Inference's clients:
 * {"error":TEXT,"error_type":TYPE}. Clients select an exception by the type. */
#include "tgi.h"

#include <string.h>

static void put(struct buf *b, const char *prefix, const char *text, const char *type)
{
    struct json_out o = {.b = b};
    struct buf whole = {0};
    buf_addf(&whole, "%s%s", prefix, text);
    out_object(&o, NULL);
    out_text(&o, "error", whole.n ? whole.data : "", whole.n);
    out_word(&o, "error_type", type);
    out_end(&o);
    b->failed |= whole.failed;
    buf_deinit(&whole);
}

/* Append the body of a failed request. */
static void put_body(struct buf *b, int rc, const struct err *e, const char *id)
{
    const int status = api_status(rc);
    (void)id;
    if (status == 429 || status == 503)
        put(b, "", e->text, "overloaded");
    else if (status < 500)
        put(b, "Input validation error: ", e->text, "validation");
    else
        put(b, "Request failed during generation: ", e->text, "generation");
}

/* Append the body of a rejection by the HTTP server (net_errors). */
static void put_refusal(struct buf *b, const struct net_error *e)
{
    const bool busy = e->status == 429 || e->status == 503;
    put(b, "", e->text, busy ? "overloaded" : "validation");
}

/* A static event for a stream whose next event could not be allocated. */
const char tgi_no_memory[] =
    "data:{\"error\":\"out of memory: a piece of the answer\",\"error_type\":\"overloaded\"}\n\n";

const struct error_form tgi_errors = {
    .net = {.type = "application/json", .put = put_refusal},
    .put = put_body,
    .before = "data:",
    .after = "\n\n",
};
