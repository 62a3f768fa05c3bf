/* host.h - a server on the bundled model inside the test's process, and a client that reads whole
 * answers, for tests of failing allocations. The test's thread only. */
#ifndef QUOTH_TESTS_MEMORY_HOST_H
#define QUOTH_TESTS_MEMORY_HOST_H

#include "../../src/api/api.h"

struct host {
    struct session session;
    struct chat chat;
    struct api api;
    struct server *server;
    const char *name[1];
};
/* Open a server like quoth serve. model: a path from the repository's root. No object remains open
 * after a failure. */
#define TINY "models/quoth-tiny/quoth-tiny-q8_0.gguf"
/* Open a model and its server. */
int host_open(struct host *h, const char *model, struct err *e);
/* Stop the server and free all memory. */
void host_close(struct host *h);
/* Return true if the server holds no objects of completed requests. Wait briefly for the end of the
 * last request. */
bool host_idle(const struct host *h);

struct request_case {
    const char *name, *method, *path, *body; /* body NULL: none */
};
/* The response. `text` is the answer without ids and times. status is -1 if the connection ended
 * before a head or within the answer. status is -2 if no byte arrived for ten seconds, and -3 if
 * the bytes are not an HTTP answer. */
struct response {
    int status;
    struct buf text;
};
/* Send a request and read the whole answer. */
void host_post(const struct host *h, const struct request_case *q, struct response *out);

#endif
