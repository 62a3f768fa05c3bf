/* ollama_defaults.c - layers of a model of Ollama's store that change its answers: the system
 * prompt, sampling parameters and first messages.
 *
 *   system    system prompt of conversations without one
 *   params    {"temperature":0.2,"stop":["x"],"num_ctx":2048}: defaults of absent options
 *   messages  [{"role":"user","content":"a"}, ...]: messages before those of each conversation */
#include "ollama.h"

#include "base/log.h"
#include "hub/hub.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { N_STOP_MAX = 64 };

/* Parse a layer of JSON. *out is NULL if the model has no such layer. */
static int read_json(struct json **out, const struct hub_model *m, const char *kind, struct err *e)
{
    static const struct json_limits limits = {.depth_max = 32, .node_max = 1 << 16};
    struct buf text = {0};
    *out = NULL;
    int rc = hub_layer(&text, m, kind, 0, e);
    if (rc == 0 && text.n) rc = json_parse(out, text.data, text.n, &limits, e);
    buf_deinit(&text);
    return rc ? err_prefix(e, rc, "the layer \"%s\"", kind) : 0;
}

/* Set the stop texts to those of the parameters. */
static int read_stop(struct ollama_defaults *d, struct err *e)
{
    const struct json *list = body_field(d->params, "stop");
    const bool many = json_kind(list) == JK_LIST;
    const size_t n = many ? json_count(list) : list != NULL;
    if (n == 0) return 0;
    if (n > N_STOP_MAX)
        return err_set(e, ERR_LIMIT, "stop has %zu texts, more than %d", n, N_STOP_MAX);
    d->stop = calloc(n, sizeof *d->stop);
    if (!d->stop) return err_memory(e, "stop", n * sizeof *d->stop);
    for (size_t i = 0; i < n; i++) {
        struct text_span *s = &d->stop[d->n_stop];
        s->text = json_text(many ? json_item(list, i) : list, &s->n);
        if (s->text && s->n) d->n_stop++;
    }
    return 0;
}

int ollama_defaults_read(struct ollama_defaults *d, const struct hub_model *m, struct err *e)
{
    struct buf system = {0};
    *d = (struct ollama_defaults){0};
    int rc = hub_layer(&system, m, "system", 0, e);
    if (rc == 0) rc = read_json(&d->params, m, "params", e);
    if (rc == 0) rc = read_json(&d->messages, m, "messages", e);
    if (rc == 0) rc = read_stop(d, e);
    if (rc == 0 && system.n) {
        buf_add_char(&system, 0);
        if (system.failed) rc = err_memory(e, "a system prompt", system.n);
    }
    d->system = system;
    if (rc != 0) ollama_defaults_deinit(d);
    return rc;
}

int ollama_set_option(struct sample_params *p, const char *name, const struct json *value,
                      struct err *e)
{
    struct sample_params changed = *p;
    struct json *neutral = NULL;
    int rc = strcmp(name, "num_predict") == 0
                 ? err_field(e, ERR_UNSUPPORTED, "options", ".num_predict: not supported yet")
                 : ollama_neutral_option(&neutral, name, value, e);
    if (rc == 0) rc = api_read_numbers(&changed, neutral, e);
    if (rc == 0) rc = sample_params_check(&changed, INT_MAX, e);
    if (rc == 0)
        *p = changed;
    else
        ollama_name_option(e);
    json_drop(neutral);
    return rc;
}

void ollama_defaults_apply(const struct ollama_defaults *d, struct api *a, struct chat *c)
{
    struct err e;
    for (void *it = json_first(d->params); it; it = json_next(d->params, it))
        if (ollama_set_option(&a->defaults, json_it_key(it, NULL), json_it_value(it), &e) != 0)
            log_warn("a parameter of the model is not applied: %s", e.text);
    a->stop = d->stop;
    a->n_stop = d->n_stop;
    a->n_ctx = json_int(body_field(d->params, "num_ctx"), 0);
    if (a->n_ctx < 0) a->n_ctx = 0;
    if (!c->system && d->system.n) c->system = d->system.data;
    if (json_count(d->messages)) c->first = d->messages;
}

void ollama_defaults_deinit(struct ollama_defaults *d)
{
    json_drop(d->params);
    json_drop(d->messages);
    buf_deinit(&d->system);
    free(d->stop);
    *d = (struct ollama_defaults){0};
}
