/* stored.c - lists and contents of records of the store (stored.h).
 *
 * A content is sent in chunks without reading all of it: advance runs again each time the ring of
 * the connection has room. An answer whose head was sent cannot become an error. A failure
 * therefore disconnects the client, and the missing last chunk of the transfer reports the
 * truncation. */
#include "stored.h"

#include "responses.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stored_id(char id[static STORE_ID_BYTES], const char *prefix)
{
    char hex[RESPONSES_HEX + 1];
    responses_random(hex);
    snprintf(id, STORE_ID_BYTES, "%s%s", prefix, hex);
}

const char *stored_path_id(const struct exchange *x, const char *prefix)
{
    const char *id = exchange_param(x);
    return id && strncmp(id, prefix, strlen(prefix)) == 0 ? id : "";
}

int stored_here(const struct server *s, struct err *e)
{
    return s->o.store ? 0 : err_set(e, ERR_UNSUPPORTED, "nothing is stored here");
}

int stored_error(int rc, const char *field, const char *what, const char *id, struct err *e)
{
    if (rc != ERR_MISSING) return rc;
    return err_field(e, rc, field, ": %s \"%.80s\" not found", what, id);
}

void stored_answer(struct exchange *x, int rc, const struct err *e, struct buf *b)
{
    if (rc == 0)
        server_reply(x, b);
    else
        server_fail(x, rc, e);
    buf_deinit(b);
}

/* ---- lists ---- */

/* Append a record (store_list_fn). */
static bool add(void *list, uint64_t holder, const char *id, const struct buf *head)
{
    struct stored_list *l = list;
    struct stored one = {.holder = holder};
    /* json_out writes the heads without blanks and escapes quotes in values, so this search is
     * exact */
    if (l->part && (!head->n || !memmem(head->data, head->n, l->part, strlen(l->part))))
        return true;
    /* one further record, which is not kept, is the proof of has_more */
    l->more = l->limit > 0 && (int64_t)l->n == l->limit;
    if (l->more) return false;
    snprintf(one.id, sizeof one.id, "%s", id);
    buf_add(&one.head, head->data, head->n);
    if (one.head.failed || !vec_push(l, one)) {
        l->failed = true;
        buf_deinit(&one.head);
    }
    return !l->failed;
}

void stored_list_deinit(struct stored_list *l)
{
    for (size_t i = 0; i < l->n; i++) buf_deinit(&l->v[i].head);
    vec_deinit(l);
}

/* Append a parameter of the query to out. Return true if it is present. */
static bool parameter(const struct exchange *x, const char *name, struct buf *out, int *rc,
                      struct err *e)
{
    const int found = name && *rc == 0 ? exchange_query(x, name, out) : 0;
    if (out->failed)
        *rc = err_memory(e, name, out->n);
    else if (found < 0)
        *rc = err_field(e, ERR_ARG, name, ": must be a text of UTF-8");
    return found > 0;
}

/* Reverse the records, after a list in the opposite order. */
static void reverse(struct stored_list *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        const struct stored one = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = one;
    }
}

int stored_list_query(struct stored_list *l, const struct exchange *x, const struct server *s,
                      const char *prefix, const struct stored_query *q, struct err *e)
{
    struct buf after = {0}, before = {0}, order = {0};
    const uint64_t owner = server_owner(x);
    int rc = stored_here(s, e);
    l->limit = q->limit;
    if (rc == 0) rc = server_query_int(x, "limit", 1, q->limit_max, &l->limit, e);
    const bool has_after = parameter(x, q->after, &after, &rc, e),
               has_before = parameter(x, q->before, &before, &rc, e),
               has_order = parameter(x, q->order, &order, &rc, e);
    const char *word = has_order && order.data ? order.data : "desc";
    bool ascending = strcmp(word, "asc") == 0;
    if (rc == 0 && !ascending && strcmp(word, "desc") != 0)
        rc = err_field(e, ERR_ARG, q->order, ": must be asc or desc, got \"%.40s\"", word);
    if (rc == 0 && has_after && has_before)
        rc = err_field(e, ERR_ARG, q->before, ": must not come with %s", q->after);
    const char *from = has_before ? before.data : has_after ? after.data : NULL;
    if ((has_after || has_before) && !from) from = "";
    if (rc == 0) {
        /* a page before an id is the nearest page in the opposite order, which `reverse` turns */
        const struct store_query query = {.holder = &owner,
                                          .kind = prefix,
                                          .after = from,
                                          .newest_first = ascending == has_before};
        rc = store_list(s->o.store, &query, add, l, e);
        rc = rc == ERR_MISSING ? err_field(e, ERR_ARG, has_before ? q->before : q->after,
                                           ": \"%.80s\" not found", from)
                               : rc;
    }
    if (rc == 0 && l->failed) rc = err_memory(e, "a list", l->n);
    if (has_before) reverse(l);
    buf_deinit(&after);
    buf_deinit(&before);
    buf_deinit(&order);
    return rc;
}

int stored_list_all(struct stored_list *l, struct store *s, const char *prefix, struct err *e)
{
    int rc = store_list(s, &(struct store_query){.kind = prefix}, add, l, e);
    return rc == 0 && l->failed ? err_memory(e, "a list", l->n) : rc;
}

/* ---- contents ---- */

/* An exchange that sends a content. */
struct content {
    struct exchange *x;  /* borrowed */
    struct store *store; /* borrowed */
    uint64_t owner;
    char id[STORE_ID_BYTES];
    int part;
    int64_t next; /* number of the next chunk */
};

/* Send the next chunks. Return 1 after the last chunk, 0 if there are more, or the error of a chunk
 * that cannot be read. */
static int put_chunks(struct content *c)
{
    while (exchange_room(c->x)) {
        struct buf b = {0};
        struct err e = {0};
        int64_t n = c->next;
        const int rc = store_read_chunk(c->store, c->owner, c->id, c->part, &n, &b, &e);
        if (rc == 0 && b.n) exchange_push(c->x, b.data, b.n);
        buf_deinit(&b);
        if (rc != 0) log_warn("%s: the answer is incomplete: %s", c->id, e.text);
        if (rc != 0 || n < 0) return rc ? rc : 1;
        c->next = n + 1;
    }
    return 0;
}

/* Continue the exchange (net_wake). The client of an incomplete answer is disconnected. */
static void advance(struct exchange *x, void *content)
{
    struct content *c = content;
    const bool ends = exchange_disconnected(x) || exchange_cut(x);
    const int rc = ends ? ERR_BUSY : put_chunks(c);
    if (rc == 0) return;
    free(c);
    if (rc < 0 && !ends) exchange_set_status(x, api_status(rc));
    (rc < 0 ? exchange_abort : exchange_end)(x);
}

void stored_content(struct exchange *x, const struct server *s, const char *id, int part,
                    const char *type)
{
    struct err e;
    struct content *c = calloc(1, sizeof *c);
    if (!c) {
        server_fail(x, err_memory(&e, "a content", sizeof *c), &e);
        return;
    }
    *c = (struct content){.x = x, .store = s->o.store, .owner = server_owner(x), .part = part};
    snprintf(c->id, sizeof c->id, "%s", id);
    exchange_begin(x, 200, type);
    exchange_keep(x, advance, c);
    exchange_wake(x);
}
