/* get_responses.c - GET and DELETE of /v1/responses/{id}, POST /v1/responses/{id}/cancel, and GET
 * /v1/responses/{id}/input_items. A response is an unfinished job (responses_background.h), or a
 * record of the store. A stored response is sent unchanged. A client without the response's key
 * gets 404, as for an unknown id. */
#include "server_impl.h"

#include "item_list.h"
#include "responses.h"
#include "responses_background.h"

#include <stdlib.h>
#include <string.h>

/* PAGE_MAX and PAGE: maximum and default number of items in a page */
enum { PAGE_MAX = 100, PAGE = 20 };

/* Return the id of the path; "" if it is not an id of a response. The store also has conversations,
 * whose ids have another prefix. */
static const char *id_of(const struct exchange *x)
{
    const char *id = exchange_param(x);
    return id && strncmp(id, "resp_", 5) == 0 ? id : "";
}

/* Append the requested texts of the response. ERR_MISSING, ERR_MEMORY. */
static int load(const struct exchange *x, const struct server *s, const struct store_texts *t,
                struct err *e)
{
    const int rc =
        s->o.store ? store_get(s->o.store, server_owner(x), id_of(x), t, e) : ERR_MISSING;
    if (rc != ERR_MISSING) return rc;
    return err_field(e, ERR_MISSING, "response_id", ": response \"%.80s\" not found", id_of(x));
}

/* Read the parameters of a stream. */
static int read_stream(const struct exchange *x, bool *stream, int64_t *after, struct err *e)
{
    struct buf text = {0};
    const int found = exchange_query(x, "stream", &text);
    const char *word = found == 1 && text.data ? text.data : "false";
    int rc = 0;
    *after = -1;
    *stream = strcmp(word, "true") == 0 || strcmp(word, "1") == 0;
    if (text.failed)
        rc = err_memory(e, "stream", text.n);
    else if (found < 0 || (!*stream && strcmp(word, "false") != 0 && strcmp(word, "0") != 0))
        rc = err_field(e, ERR_ARG, "stream", ": must be true or false, got \"%.40s\"", word);
    buf_deinit(&text);
    if (rc == 0) rc = server_query_int(x, "starting_after", 0, INT32_MAX, after, e);
    if (rc == 0 && *after >= 0 && !*stream)
        rc = err_field(e, ERR_ARG, "starting_after", ": must come with stream true, got false");
    return rc;
}

/* Return the unfinished job of the path; NULL if none. */
static struct job *find_job(const struct exchange *x, const struct server *s)
{
    return s->jobs ? jobs_find(s->jobs, server_owner(x), id_of(x)) : NULL;
}

/* Set the error for a response without events. Only responses in the background with `stream` keep
 * events. */
static int refuse_stream(struct err *e)
{
    return err_field(e, ERR_ARG, "stream",
                     ": must come with a response that was created with background and stream");
}

/* Answer with the events of a stored response. */
static int get_events(struct exchange *x, const struct server *s, int64_t after, struct err *e)
{
    struct buf events = {0};
    int rc = load(x, s, &(struct store_texts){.log = &events}, e);
    if (rc == 0 && events.n == 0) rc = refuse_stream(e);
    if (rc == 0) server_read_log(x, &events, after);
    buf_deinit(&events);
    return rc;
}

/* The unfinished jobs are searched first, because a job is stored before it leaves their list. */
void get_response(struct exchange *x, void *server)
{
    struct err e = {0};
    struct buf b = {0};
    bool stream;
    int64_t after;
    int rc = read_stream(x, &stream, &after, &e);
    struct job *job = rc == 0 ? find_job(x, server) : NULL;
    if (job && stream && job_streams(job)) {
        server_read_job(x, job, true, after);
        return;
    }
    if (job && stream)
        rc = refuse_stream(&e);
    else if (job)
        (void)job_response(job, &b);
    else if (rc == 0 && stream)
        rc = get_events(x, server, after, &e);
    else if (rc == 0)
        rc = load(x, server, &(struct store_texts){.head = &b}, &e);
    job_drop(job);
    if (rc != 0)
        server_fail(x, rc, &e);
    else if (!stream)
        server_reply(x, &b);
    buf_deinit(&b);
}

/* Cancel a response, and answer with it after its end. A complete response is unchanged. */
void post_response_cancel(struct exchange *x, void *server)
{
    struct err e = {0};
    struct buf b = {0};
    struct json *j = NULL;
    struct job *job = find_job(x, server);
    if (job) {
        job_cancel(job, false);
        server_read_job(x, job, false, -1);
        return;
    }
    int rc = load(x, server, &(struct store_texts){.head = &b}, &e);
    if (rc == 0) rc = json_parse(&j, b.data, b.n, NULL, &e);
    if (rc == 0 && !json_bool(json_field(j, "background"), false))
        rc = err_field(&e, ERR_ARG, "response_id",
                       ": must be a response in the background, got another one");
    json_drop(j);
    if (rc == 0)
        server_reply(x, &b);
    else
        server_fail(x, rc, &e);
    buf_deinit(&b);
}

void delete_response(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct store *store = s->o.store;
    struct err e = {0};
    struct buf b = {0};
    struct json_out o = {.b = &b};
    struct job *job = find_job(x, s);
    if (job) job_cancel(job, true);
    const bool stored = store && store_delete(store, server_owner(x), id_of(x), &e) == 0;
    job_drop(job);
    if (!job && !stored) {
        server_fail(x, load(x, s, &(struct store_texts){0}, &e), &e);
        return;
    }
    out_object(&o, NULL);
    out_word(&o, "id", id_of(x));
    out_word(&o, "object", "response");
    out_flag(&o, "deleted", true);
    out_end(&o);
    server_reply(x, &b);
}

/* ---- items of the input ---- */

/* A page of a list. Pointers are borrowed. */
struct list_page {
    int64_t limit;
    bool ascending;
};

/* Read the order of the items (default: newest first). */
static int read_order(const struct exchange *x, struct list_page *p, struct err *e)
{
    struct buf text = {0};
    const int found = exchange_query(x, "order", &text);
    const char *word = found == 1 && text.data ? text.data : "desc";
    int rc = 0;
    p->ascending = strcmp(word, "asc") == 0;
    if (text.failed)
        rc = err_memory(e, "order", text.n);
    else if (found < 0 || (!p->ascending && strcmp(word, "desc") != 0))
        rc = err_field(e, ERR_ARG, "order", ": must be asc or desc, got \"%.40s\"",
                       text.data ? text.data : "");
    buf_deinit(&text);
    return rc;
}

/* Return item i in the order of the page. */
static const struct item_text *page_item(const item_list *list, const struct list_page *p, size_t i)
{
    return &list->v[p->ascending ? i : list->n - 1 - i];
}

/* Set *i to the index of the first item after the item `after`. */
static int read_after(const struct exchange *x, const item_list *list, const struct list_page *p,
                      size_t *i, struct err *e)
{
    struct buf text = {0};
    const int found = exchange_query(x, "after", &text);
    const int64_t at = found == 1 && text.data ? item_list_find(list, text.data) : -1;
    int rc = 0;
    if (at >= 0) *i = p->ascending ? (size_t)at + 1 : list->n - (size_t)at;
    if (text.failed)
        rc = err_memory(e, "after", text.n);
    else if (found != 0 && at < 0)
        rc = err_field(e, ERR_ARG, "after", ": item \"%.80s\" not found",
                       text.data ? text.data : "");
    buf_deinit(&text);
    return rc;
}

/* Append a member with the item's id; null if there is no item. */
static void put_item_id(struct json_out *o, const char *name, const struct item_text *item)
{
    char id[RESPONSES_ID_MAX] = "";
    if (item) item_text_id(id, sizeof id, item);
    out_word(o, name, id[0] ? id : NULL);
}

/* Append the page that begins at item `from`. has_more and last_id are enough for a client to
 * request the next page. */
static void put_page(struct buf *b, const item_list *list, const struct list_page *p, size_t from)
{
    const size_t n = list->n, end = n - from > (size_t)p->limit ? from + (size_t)p->limit : n;
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_word(&o, "object", "list");
    out_list(&o, "data");
    for (size_t i = from; i < end; i++)
        out_raw(&o, NULL, page_item(list, p, i)->text, page_item(list, p, i)->n);
    out_end(&o);
    put_item_id(&o, "first_id", from < end ? page_item(list, p, from) : NULL);
    put_item_id(&o, "last_id", from < end ? page_item(list, p, end - 1) : NULL);
    out_flag(&o, "has_more", end < n);
    out_end(&o);
}

int server_put_list(const struct buf *items, struct buf *out, struct err *e)
{
    item_list list;
    const struct list_page p = {.limit = INT32_MAX, .ascending = true};
    int rc = item_list_split(&list, items, e);
    if (rc == 0) put_page(out, &list, &p, 0);
    vec_deinit(&list);
    return rc;
}

int server_put_page(const struct exchange *x, const struct buf *items, struct buf *out,
                    struct err *e)
{
    item_list list = {0};
    struct list_page p = {.limit = PAGE};
    size_t from = 0;
    int rc = server_query_int(x, "limit", 1, PAGE_MAX, &p.limit, e);
    if (rc == 0) rc = read_order(x, &p, e);
    if (rc == 0) rc = item_list_split(&list, items, e);
    if (rc == 0) rc = read_after(x, &list, &p, &from, e);
    if (rc == 0) put_page(out, &list, &p, from);
    vec_deinit(&list);
    return rc;
}

void get_response_items(struct exchange *x, void *server)
{
    struct buf items = {0}, b = {0};
    struct err e = {0};
    int rc = 0;
    struct job *job = find_job(x, server);
    if (job)
        job_input(job, &items);
    else
        rc = load(x, server, &(struct store_texts){.body = &items}, &e);
    job_drop(job);
    if (rc == 0 && items.failed) rc = err_memory(&e, "items", items.n);
    if (rc == 0) rc = server_put_page(x, &items, &b, &e);
    buf_deinit(&items);
    if (rc == 0)
        server_reply(x, &b);
    else
        server_fail(x, rc, &e);
    buf_deinit(&b);
}
