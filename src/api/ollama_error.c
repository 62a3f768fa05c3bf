/* ollama_error.c - a failure in the form of Ollama's clients: {"error":TEXT}. Texts that clients
 * compare begin with Ollama's words. */
#include "ollama.h"

#include <stdio.h>
#include <string.h>

static void put(struct buf *b, const char *text)
{
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_word(&o, "error", text);
    out_end(&o);
}

/* Return true if the prompt is too long. */
static bool too_long(int rc, const struct err *e)
{
    return rc == ERR_LIMIT && e->n_max > 0 &&
           (strcmp(e->field, "messages") == 0 || strcmp(e->field, "prompt") == 0 ||
            strcmp(e->field, "input") == 0);
}

/* Append the body of a failed request. The name of an unknown model is in quotes (server_model). */
static void put_body(struct buf *b, int rc, const struct err *e, const char *id)
{
    static const char missing[] = "model: \"";
    const char *end = strstr(e->text, "\" not found");
    char text[sizeof e->text + 40];
    (void)id;
    if (too_long(rc, e))
        snprintf(text, sizeof text,
                 "the input length exceeds the context length: %lld tokens > %lld maximum",
                 e->n_found, e->n_max);
    else if (rc == ERR_MISSING && end && strncmp(e->text, missing, sizeof missing - 1) == 0)
        snprintf(text, sizeof text, "model '%.*s' %s",
                 (int)(end - e->text) - (int)(sizeof missing - 1), e->text + sizeof missing - 1,
                 end + 2);
    else
        snprintf(text, sizeof text, "%s", e->text);
    put(b, text);
}

/* Append the body of a rejection by the HTTP server (net_errors). */
static void put_refusal(struct buf *b, const struct net_error *e)
{
    put(b, e->text);
}

/* A static line for a stream whose next line could not be allocated. */
const char ollama_no_memory[] = "{\"error\":\"out of memory: a piece of the answer\"}\n";

const struct error_form ollama_errors = {
    .net = {.type = "application/json", .put = put_refusal, .path = "/api/"},
    .put = put_body,
    .before = "",
    .after = "\n",
};
