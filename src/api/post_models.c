/* post_models.c - load and unload models of a server with several models on request:
 *
 *   POST /models/load, /models/unload   {"model":NAME}, as llama.cpp's router
 * *   POST /sleep, /wake_up, GET /is_sleeping   as vLLM: drop all weights, load these models again
 *
 * The answer waits neither for the load nor for the requests in flight of an unloaded model. GET
 * /models has the states. */
#include "server_impl.h"

#include <string.h>

/* Answer with {"success":true}, or with the error. */
static void answer(struct exchange *x, int rc, const struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    if (rc != 0) {
        server_fail(x, rc, e);
        return;
    }
    out_object(&o, NULL);
    out_flag(&o, "success", true);
    out_end(&o);
    server_reply(x, &b);
}

/* Read {"model":NAME}. Return NULL if the exchange was answered. */
static struct served *read_model(const struct server *s, struct exchange *x)
{
    struct err e = {0};
    struct served *m = NULL;
    struct json *body = server_json(s, x);
    if (!body) return NULL;
    const struct json *named = body_field(body, "model");
    const char *name = json_text(named, NULL);
    int rc = name ? server_model(s, name, &m, &e)
                  : body_wrong("model", "a string without NUL", named, &e);
    json_drop(body);
    if (rc != 0) server_fail(x, rc, &e);
    return rc == 0 ? m : NULL;
}

void post_models_load(struct exchange *x, void *server)
{
    struct served *m = read_model(server, x);
    struct err e = {0};
    if (m) answer(x, served_load(m, &e), &e);
}

void post_models_unload(struct exchange *x, void *server)
{
    struct served *m = read_model(server, x);
    struct err e = {0};
    if (m) answer(x, served_unload(m, &e), &e);
}

/* vLLM's levels 1 and 2 drop the weights, because the files have them. Requests in flight end first
 * (vLLM's mode "wait"). */
void post_sleep(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct err e = {0};
    struct buf mode = {0};
    int64_t level = 1;
    int rc = server_query_int(x, "level", 1, 2, &level, &e);
    if (rc == 0 && exchange_query(x, "mode", &mode) != 0 &&
        (!mode.data || strcmp(mode.data, "wait") != 0))
        rc = err_field(&e, ERR_UNSUPPORTED, "mode", ": must be \"wait\", got \"%.40s\"",
                       mode.data ? mode.data : "");
    buf_deinit(&mode);
    if (rc == 0) rc = models_sleep(s->models, true, &e);
    answer(x, rc, &e);
}

void post_wake_up(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct err e = {0};
    answer(x, models_sleep(s->models, false, &e), &e);
}

void get_is_sleeping(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_flag(&o, "is_sleeping", models_asleep(s->models));
    out_end(&o);
    server_reply(x, &b);
}
