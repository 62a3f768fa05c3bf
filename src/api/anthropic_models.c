/* anthropic_models.c - GET /v1/models and /v1/models/{id} in Anthropic's form.
 *
 *    {"data":[{"type":"model","id":"m","display_name":"m","created_at":"2026-11-20T00:00:00Z",
 *              ...}],"has_more":false,"first_id":"m","last_id":"m"}
 *
 * `limit`, `after_id` and `before_id` select a page of the list. */
#include "anthropic.h"
#include "server_impl.h"

#include "base/date.h"

#include <stdlib.h>
#include <string.h>

/* PAGE_MAX and PAGE: maximum and default number of models in a page. */
enum { PAGE_MAX = 1000, PAGE = 20 };

/* Append a model. quoth limits only the sum of prompt and answer, so both limits are the context.
 * They depend on the memory for keys and values, so a model that is not loaded has none. */
static void put_model(const struct server *s, const struct listed *l, struct json_out *o)
{
    struct buf created = {0};
    date_put_iso(&created, s->created * 1000000);
    out_object(o, NULL);
    out_word(o, "type", "model");
    out_word(o, "id", l->name);
    out_word(o, "display_name", l->name);
    out_text(o, "created_at", created.n ? created.data : "", created.n);
    if (l->api) {
        out_int(o, "max_input_tokens", engine_context(l->api->session->engine));
        out_int(o, "max_tokens", engine_context(l->api->session->engine));
    } else { /* not loaded */
        out_null(o, "max_input_tokens");
        out_null(o, "max_tokens");
    }
    out_end(o);
    o->b->failed |= created.failed;
    buf_deinit(&created);
}

void anthropic_get_model(struct exchange *x, const struct server *s, const struct listed *l)
{
    struct buf b = {0};
    put_model(s, l, &(struct json_out){.b = &b});
    server_reply(x, &b);
}

/* Set *i to the index of the model in a parameter of the query. *i is unchanged if the parameter is
 * absent. */
static int read_cursor(const struct exchange *x, const struct server *s, const char *name, int *i,
                       struct err *e)
{
    struct buf text = {0};
    int rc = 0, found = exchange_query(x, name, &text), at = -1;
    struct listed l;
    for (int k = 0; found == 1 && text.data && server_listed(s, k, false, &l); k++)
        if (strcmp(l.name, text.data) == 0) at = k;
    if (text.failed)
        rc = err_memory(e, name, text.n);
    else if (found != 0 && at < 0)
        rc =
            err_field(e, ERR_ARG, name, ": model \"%.100s\" not found", text.data ? text.data : "");
    else if (at >= 0)
        *i = at;
    buf_deinit(&text);
    return rc;
}

/* Append the models [from, to). has_more counts models in the direction of the paging. */
static void put_list(const struct server *s, int from, int to, bool more, struct buf *b)
{
    struct json_out o = {.b = b};
    struct listed l;
    const char *first = NULL, *last = NULL; /* names exist until the server is closed */
    out_object(&o, NULL);
    out_list(&o, "data");
    for (int i = from; i < to && server_listed(s, i, true, &l); i++) {
        put_model(s, &l, &o);
        served_unpeek(l.api);
        if (!first) first = l.name;
        last = l.name;
    }
    out_end(&o);
    out_flag(&o, "has_more", more);
    out_word(&o, "first_id", first);
    out_word(&o, "last_id", last);
    out_end(&o);
}

void anthropic_get_models(struct exchange *x, const struct server *s)
{
    struct err e = {0};
    struct buf b = {0};
    int64_t limit = PAGE;
    struct listed l;
    int after = -1, n = 0;
    while (server_listed(s, n, false, &l)) n++;
    int before = n, rc = server_query_int(x, "limit", 1, PAGE_MAX, &limit, &e);
    if (rc == 0) rc = read_cursor(x, s, "after_id", &after, &e);
    if (rc == 0) rc = read_cursor(x, s, "before_id", &before, &e);
    if (rc != 0) {
        server_fail(x, rc, &e);
        return;
    }
    int from = after + 1, to = before;
    /* a page before an id ends at that id, so the first models of the range are left out */
    const bool backwards = before < n;
    const bool more = to - from > limit;
    if (more && backwards)
        from = to - (int)limit;
    else if (more)
        to = from + (int)limit;
    put_list(s, from, to, more, &b);
    server_reply(x, &b);
}
