/* host.h - a server on the bundled model inside the test's process, and a client that reads whole answers. For the sweeps
 * that let allocations fail. */
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
/* Open everything that serve opens; model: a path from the repository's root. On failure nothing stays open. */
#define TINY "models/quoth-tiny/quoth-tiny-q8_0.gguf"
int host_open(struct host *h, const char *model, struct err *e);
void host_close(struct host *h);
/* Does the server hold anything of requests that are over? Waits a moment for the last one's end. */
bool host_idle(const struct host *h);

struct request_case {
    const char *name, *method, *path, *body; /* body NULL: none */
};
/* What came back: `text` is what the answer means, without ids and times; status -1: the connection ended before a head,
 * or within the answer; -2: nothing came for ten seconds; -3: bytes that are no HTTP answer. */
struct response {
    int status;
    struct buf text;
};
void host_post(const struct host *h, const struct request_case *q, struct response *out);

#endif
