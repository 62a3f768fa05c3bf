/* pool.c - bodies of the HTTP API that generate no text: scores, classes, embeddings. One call
 * computes the results of all texts of a body.
 *
 * The body has the form of the server's endpoint, so a program can move between server and library.
 * The caller's thread waits for the engine, and no queue of the library is involved: one body has
 * one answer, without events. */
#include "lib_impl.h"

#include "base/queue.h"

#include <string.h>

/* Return true for a path whose answers are not generated. Other paths need the events of a
 * queue. */
static bool is_known(const char *url)
{
    static const char *const known[] = {"/v1/score", "/v1/rerank", "/classify", "/pooling",
                                        "/v1/embeddings"};
    for (size_t i = 0; url && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i], url) == 0) return true;
    return false;
}

/* Compute the body and append the answer to *out. */
static int compute(const quoth_model *m, const char *url, const struct json *body, struct buf *out,
                   struct err *e)
{
    struct api_call *c = NULL;
    struct queue *bell = queue_open(1, 1);
    int rc = bell ? 0 : err_memory(e, "a queue", 1);
    if (rc == 0) rc = api_call_open(&c, &m->api, url, body, bell, e);
    if (rc == 0) rc = api_call_submit(c, e);
    for (char ring; rc == 0 && !api_call_poll(c);) queue_pop(bell, &ring, -1);
    if (rc == 0) rc = api_call_put(c, out, e);
    api_call_close(c);
    queue_close(bell);
    return rc;
}

int quoth_pool(const quoth_model *m, const char *url, const char *body, char **text, size_t *n_text,
               char *error, size_t n_error)
{
    /* a repeated member would change the result without an error */
    static const struct json_limits limits = {.unique = true};
    struct err e = {0};
    struct buf b = {0};
    struct json *root = NULL;
    *text = NULL;
    *n_text = 0;
    int rc = is_known(url) ? 0
                           : err_field(&e, ERR_MISSING, "url",
                                       " \"%.60s\" not found; available: /v1/score, /v1/rerank, "
                                       "/classify, /pooling, /v1/embeddings",
                                       url ? url : "");
    if (rc == 0 && !body) rc = err_field(&e, ERR_ARG, "body", ": expected a string, got NULL");
    if (rc == 0) rc = json_parse(&root, body, strlen(body), &limits, &e);
    if (rc == 0) rc = compute(m, url, root, &b, &e);
    if (rc == 0) rc = lib_hand_over(&b, text, n_text, &e);
    json_drop(root);
    buf_deinit(&b);
    return report_error(rc, &e, error, n_error);
}
