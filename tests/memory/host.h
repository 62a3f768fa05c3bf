/* host.h - a server on the bundled model inside the test's process, and a client that reads whole
 * answers, for tests of failing allocations. The test's thread only. */
#ifndef QUOTH_TESTS_MEMORY_HOST_H
#define QUOTH_TESTS_MEMORY_HOST_H

#include "../../src/api/api.h"

struct host {
    struct session session;
    struct chat chat;
    struct api api;
    struct served_spec spec;
    struct models *models;
    struct server *server;
    struct store *store;
    const char *name[1];
    const char *model; /* path from the repository's root, for a load on demand; NULL: loaded */
};
/* Open a server like quoth serve. model: a path from the repository's root. No object remains open
 * after a failure. */
/* ids of a stored response and of a conversation, which do not change */
#define HOST_STORED       "resp_00000000000000000000000000000000"
#define HOST_CONVERSATION "conv_00000000000000000000000000000000"
#define HOST_FILE         "file-00000000000000000000000000000000"
#define TINY              "models/quoth-tiny/quoth-tiny-q8_0.gguf"
/* Open a model and its server. */
int host_open(struct host *h, const char *model, struct err *e);
/* Open a server whose model is loaded when a request needs it. */
int host_open_on_demand(struct host *h, const char *model, struct err *e);
/* Unload this model. Return false if it is not unloaded within some seconds. */
bool host_unload(const struct host *h);
/* Stop the server and free all memory. */
void host_close(struct host *h);
/* Return true if the server holds no objects of completed requests. Wait briefly for the end of the
 * last request. */
bool host_idle(const struct host *h);

struct request_case {
    /* body NULL if none; a body that begins with --xx is a form with the boundary xx */
    const char *name, *method, *path, *body;
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
