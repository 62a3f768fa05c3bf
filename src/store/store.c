/* store.c - records of a store, and their limits.
 *
 * (1) n_byte of a record is its size including its chunks. n_byte of a holder is the size of its
 *     records and reserved bytes, at most holder_bytes_max. n_byte of the store is the sum over its
 *     holders, at most bytes_max.
 * (2) n_ref of a record is the number of records that continue it. A deleted record with n_ref > 0
 *     is hidden: it remains without an id. No hidden record has n_ref 0.
 * (3) After each store_end, the sums in memory equal the sums over the database. The sums are read
 *     again after changes that were undone. */
#include "store_impl.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

/* Return the holder of a number; NULL if memory is exhausted. */
static struct store_holder *holder_of(struct store *s, uint64_t id)
{
    struct store_holder *h = s->holders;
    while (h && h->id != id) h = h->next;
    if (h) return h;
    h = calloc(1, sizeof *h);
    if (!h) return NULL;
    h->id = id;
    h->next = s->holders;
    return s->holders = h;
}

/* Read the sums of all holders from the database. */
static void read_sums(struct store *s)
{
    s->n_byte = s->n_record = 0;
    for (struct store_holder *h = s->holders; h; h = h->next) {
        h->n_byte = h->n_reserved;
        s->n_byte += h->n_reserved;
    }
    sqlite3_stmt *q = db_query(s, SQL_HOLDERS, "");
    while (db_row(s, q)) {
        struct store_holder *h = holder_of(s, (uint64_t)db_int(q, 0));
        if (!h) {
            s->rc = SQLITE_NOMEM;
            break;
        }
        h->n_byte += db_int(q, 1);
        s->n_byte += db_int(q, 1);
        s->n_record += db_int(q, 2);
        if (s->n_use < db_int(q, 3)) s->n_use = db_int(q, 3);
        if (s->n_version < db_int(q, 4)) s->n_version = db_int(q, 4);
    }
    db_end(q);
}

int store_open(struct store **out, const struct store_options *o, struct err *e)
{
    pthread_mutexattr_t nested;
    struct store *s = *out = calloc(1, sizeof *s);
    if (!s) return err_memory(e, "a store", sizeof *s);
    s->o = *o;
    s->o.dir = NULL;
    if (s->o.holder_bytes_max <= 0) s->o.holder_bytes_max = s->o.bytes_max;
    pthread_mutexattr_init(&nested);
    pthread_mutexattr_settype(&nested, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&s->lock, &nested);
    pthread_mutexattr_destroy(&nested);
    int rc = db_open(s, o->dir, e);
    if (rc == 0) read_sums(s);
    if (rc == 0 && s->rc != SQLITE_OK) rc = db_error(s, e);
    if (rc == 0) return 0;
    store_close(s);
    *out = NULL;
    return rc;
}

void store_close(struct store *s)
{
    if (!s) return;
    db_close(s);
    for (struct store_holder *h = s->holders, *next; h; h = next) {
        next = h->next;
        free(h);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- changes ---- */

/* Undo the open changes, and read the sums again. s->rc is SQLITE_OK, or the failure. The next
 * store_begin repeats this after a failure, because a rollback also needs memory. */
static void undo(struct store *s)
{
    s->rc = SQLITE_OK;
    if (!sqlite3_get_autocommit(s->db)) DB_RUN(s, SQL_ROLLBACK, "");
    if (s->rc == SQLITE_OK) read_sums(s);
    s->undoes = s->rc != SQLITE_OK;
}

void store_begin(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    if (s->depth++ > 0) return;
    s->rc = SQLITE_OK;
    if (s->undoes) undo(s);
    DB_RUN(s, SQL_BEGIN, "");
}

/* A failed inner change also undoes the outer changes, because s->rc is kept until the outermost
 * end. s->rc is SQLITE_ABORT for a failure without a code of SQLite. */
int store_end(struct store *s, int rc, struct err *e)
{
    if (rc == 0 && s->depth == 1) DB_RUN(s, SQL_COMMIT, "");
    if (s->rc != SQLITE_OK && (rc == 0 || s->rc != SQLITE_ABORT)) rc = db_error(s, e);
    if (rc != 0 && s->rc == SQLITE_OK && s->depth > 1) s->rc = SQLITE_ABORT;
    if (rc != 0 && s->depth == 1) undo(s);
    s->depth--;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int store_missing(const char *id, struct err *e)
{
    return err_set(e, ERR_MISSING, "\"%.80s\" not found", id);
}

int store_too_large(struct store *s, uint64_t holder, int64_t n, struct err *e)
{
    const struct store_holder *h = holder_of(s, holder);
    const int64_t own = (h ? h->n_byte : 0) + n;
    const bool whole = own <= s->o.holder_bytes_max;
    return err_set(e, ERR_LIMIT,
                   "stored records have %lld bytes, more than %lld; delete others, or raise "
                   "--store-size",
                   (long long)(whole ? s->n_byte + n : own),
                   (long long)(whole ? s->o.bytes_max : s->o.holder_bytes_max));
}

/* ---- records ---- */

int64_t store_find(struct store *s, uint64_t holder, const char *id, int64_t *version)
{
    sqlite3_stmt *q = db_query(s, SQL_FIND, "it", (int64_t)holder, id);
    int64_t at = db_row(s, q) ? db_int(q, 0) : 0;
    if (at && version) *version = db_int(q, 1);
    db_end(q);
    return at;
}

void store_touch(struct store *s, int64_t at)
{
    DB_RUN(s, SQL_TOUCH, "iii", at, ++s->n_use, time_wall_us());
}

/* Count n bytes of a holder. */
static void count(struct store *s, uint64_t holder, int64_t n)
{
    struct store_holder *h = holder_of(s, holder);
    if (!h) {
        s->rc = s->rc ? s->rc : SQLITE_NOMEM;
        return;
    }
    h->n_byte += n;
    s->n_byte += n;
}

/* Count that one record less continues record `at`. Return true if the record must be dropped,
 * because it is hidden and no record continues it. */
static bool unrefer(struct store *s, int64_t at)
{
    DB_RUN(s, SQL_REFER, "ii", at, (int64_t)-1);
    sqlite3_stmt *q = db_query(s, SQL_ROW, "i", at);
    const bool unused = db_row(s, q) && db_int(q, 4) && db_int(q, 2) == 0;
    db_end(q);
    return unused;
}

/* Remove a record, or hide it if other records continue it. Also remove a hidden record that only
 * the removed record continued. */
static void drop(struct store *s, int64_t at)
{
    while (at && s->rc == SQLITE_OK) {
        sqlite3_stmt *q = db_query(s, SQL_ROW, "i", at);
        if (!db_row(s, q)) return db_end(q);
        const uint64_t holder = (uint64_t)db_int(q, 0);
        const int64_t n_byte = db_int(q, 1), n_ref = db_int(q, 2), previous = db_int(q, 3),
                      hidden = db_int(q, 4), n_body = db_int(q, 5);
        db_end(q);
        s->n_record -= !hidden;
        DB_RUN(s, SQL_REMOVE_CHUNKS, "i", at);
        if (n_ref > 0) {
            DB_RUN(s, SQL_HIDE, "ii", at, n_body + RECORD_BYTES);
            count(s, holder, n_body + RECORD_BYTES - n_byte);
            return;
        }
        DB_RUN(s, SQL_REMOVE, "i", at);
        count(s, holder, -n_byte);
        at = previous;
        if (!at || !unrefer(s, at)) return;
    }
}

/* ---- limits ---- */

/* Return the first number of a statement's row; 0 if there is no row. */
static int64_t first(struct store *s, sqlite3_stmt *q)
{
    const int64_t n = db_row(s, q) ? db_int(q, 0) : 0;
    db_end(q);
    return n;
}

/* Drop the expired records. */
static void expire(struct store *s)
{
    const int64_t now_us = time_wall_us(), until_us = now_us - s->o.unused_us;
    int64_t at;
    while ((at = first(s, db_query(s, SQL_ENDED, "i", now_us)))) drop(s, at);
    while (s->o.unused_us > 0 && (at = first(s, db_query(s, SQL_UNUSED, "i", until_us))))
        drop(s, at);
}

/* Return the holder's record to evict first, except `keep`; 0 if none. */
static int64_t oldest(struct store *s, uint64_t holder, int64_t keep)
{
    return first(s, db_query(s, SQL_OLDEST, "ii", (int64_t)holder, keep));
}

/* Return the record to evict of the holder with most bytes; 0 if none. The holder with the lowest
 * number is selected if several holders have most bytes. */
static int64_t oldest_of_largest(struct store *s, int64_t keep)
{
    const struct store_holder *best = NULL;
    int64_t victim = 0;
    for (const struct store_holder *h = s->holders; h; h = h->next) {
        if (best && (h->n_byte < best->n_byte || (h->n_byte == best->n_byte && h->id > best->id)))
            continue;
        const int64_t at = oldest(s, h->id, keep);
        if (at) best = h, victim = at;
    }
    return victim;
}

/* Evict records other than `keep` until n more bytes of the holder fit. Return false if n bytes
 * cannot fit. The caller then undoes the changes. */
static bool make_room(struct store *s, uint64_t holder, int64_t n, int64_t keep)
{
    const struct store_holder *h = holder_of(s, holder);
    int64_t victim;
    if (!h) s->rc = s->rc ? s->rc : SQLITE_NOMEM;
    if (!h || n > s->o.holder_bytes_max || n > s->o.bytes_max) return false;
    while (s->rc == SQLITE_OK && h->n_byte + n > s->o.holder_bytes_max) {
        if (!(victim = oldest(s, holder, keep))) return false;
        drop(s, victim);
    }
    while (s->rc == SQLITE_OK && s->n_byte + n > s->o.bytes_max) {
        if (!(victim = oldest_of_largest(s, keep))) return false;
        drop(s, victim);
    }
    return s->rc == SQLITE_OK;
}

bool store_grow(struct store *s, uint64_t holder, int64_t at, int64_t n)
{
    if (n > 0 && !make_room(s, holder, n, at)) return false;
    DB_RUN(s, SQL_RESIZE, "ii", at, n);
    count(s, holder, n);
    return true;
}

bool store_reserve(struct store *s, uint64_t holder, int64_t n)
{
    struct err e;
    /* another thread must not use the room before it is counted */
    pthread_mutex_lock(&s->lock);
    store_begin(s);
    bool fits = n <= 0 || make_room(s, holder, n, 0);
    if (store_end(s, fits ? 0 : ERR_LIMIT, &e) != 0) fits = n <= 0;
    struct store_holder *h = fits ? holder_of(s, holder) : NULL;
    if (h) {
        h->n_reserved += n;
        h->n_byte += n;
        s->n_byte += n;
    }
    pthread_mutex_unlock(&s->lock);
    return h != NULL;
}

/* ---- access ---- */

/* Append the whole body of a record. */
static void read_body(struct store *s, int64_t at, struct buf *out)
{
    sqlite3_stmt *q = db_query(s, SQL_CHAIN, "i", at);
    while (db_row(s, q)) db_text(q, 0, out);
    db_end(q);
    if (out->failed && s->rc == SQLITE_OK) s->rc = SQLITE_NOMEM;
}

/* A part of a text. Pointers are borrowed. */
struct rest {
    int64_t previous; /* record whose body the part continues; 0 if none */
    struct buf body;  /* not owned */
};

/* Return the part of the body that does not repeat the body of record `previous` (0 if none). */
static struct rest rest_of(struct store *s, int64_t previous, const struct buf *body)
{
    struct buf earlier = {0};
    struct rest r = {.body = body ? *body : (struct buf){0}};
    if (!previous) return r;
    read_body(s, previous, &earlier);
    if (earlier.n > 0 && r.body.n >= earlier.n &&
        memcmp(r.body.data, earlier.data, earlier.n) == 0) {
        r.previous = previous;
        r.body.data += earlier.n;
        r.body.n -= earlier.n;
    }
    buf_deinit(&earlier);
    return r;
}

static int64_t size_of(const struct store_texts *t, const struct rest *r)
{
    return RECORD_BYTES +
           (int64_t)((t->head ? t->head->n : 0) + r->body.n + (t->log ? t->log->n : 0));
}

/* Write the kind of an id, which is the part before its first _ or -, to out. Return out. */
static const char *kind_of(const char *id, char out[static STORE_ID_BYTES])
{
    const size_t n = strcspn(id, "_-");
    snprintf(out, STORE_ID_BYTES, "%.*s", (int)n, id);
    return out;
}

/* Insert a record. n_ref of the record that it continues is raised first, so that make_room does
 * not evict that record. */
static int insert(struct store *s, uint64_t holder, const char *id, const struct store_texts *t,
                  struct err *e)
{
    char kind[STORE_ID_BYTES];
    const int64_t previous = t->previous ? store_find(s, holder, t->previous, NULL) : 0;
    const struct rest r = rest_of(s, previous, t->body);
    const int64_t n = size_of(t, &r);
    if (r.previous) DB_RUN(s, SQL_REFER, "ii", r.previous, (int64_t)1);
    if (!make_room(s, holder, n, 0)) return store_too_large(s, holder, n, e);
    DB_RUN(s, SQL_INSERT, "ittiiiiiinbbb", (int64_t)holder, id, kind_of(id, kind), n, ++s->n_use,
           time_wall_us(), ++s->n_version, (int64_t)t->pinned, t->ends_us, r.previous, t->head,
           &r.body, t->log);
    count(s, holder, n);
    s->n_record++;
    return 0;
}

int store_put(struct store *s, uint64_t holder, const char *id, const struct store_texts *t,
              struct err *e)
{
    if (strlen(id) >= STORE_ID_BYTES)
        return err_set(e, ERR_LIMIT, "an id has %zu bytes, more than %d", strlen(id),
                       STORE_ID_BYTES - 1);
    store_begin(s);
    expire(s);
    const int64_t old = store_find(s, holder, id, NULL);
    if (old) drop(s, old);
    return store_end(s, insert(s, holder, id, t, e), e);
}

/* Replace the texts of record `at` of the holder. */
static int update(struct store *s, uint64_t holder, int64_t at, const struct store_texts *t,
                  struct err *e)
{
    sqlite3_stmt *q = db_query(s, SQL_ROW, "i", at);
    const bool found = db_row(s, q);
    const int64_t n_old = found ? db_int(q, 1) : 0, previous = found ? db_int(q, 3) : 0;
    db_end(q);
    const struct rest r = rest_of(s, previous, t->body);
    int64_t n_chunk = 0;
    q = db_query(s, SQL_READ, "i", at);
    if (db_row(s, q)) {
        n_chunk = n_old - RECORD_BYTES;
        for (int i = 0; i < 3; i++) n_chunk -= sqlite3_column_bytes(q, i);
    }
    db_end(q);
    const int64_t n = size_of(t, &r) + n_chunk;
    if (n > n_old && !make_room(s, holder, n - n_old, at))
        return store_too_large(s, holder, n - n_old, e);
    DB_RUN(s, SQL_UPDATE, "iiinbbb", at, n, ++s->n_version, r.previous, t->head, &r.body, t->log);
    count(s, holder, n - n_old);
    if (previous && !r.previous && unrefer(s, previous)) drop(s, previous);
    store_touch(s, at);
    return 0;
}

int store_replace(struct store *s, uint64_t holder, const char *id, int64_t version,
                  const struct store_texts *t, struct err *e)
{
    int64_t now = 0;
    store_begin(s);
    const int64_t at = store_find(s, holder, id, &now);
    int rc = 0;
    if (!at)
        rc = store_missing(id, e);
    else if (now != version)
        rc = err_set(e, ERR_BUSY, "another request changes \"%.80s\"; try again", id);
    else
        rc = update(s, holder, at, t, e);
    return store_end(s, rc, e);
}

/* Read the texts of record `at`. */
static void read_texts(struct store *s, int64_t at, const struct store_texts *t)
{
    sqlite3_stmt *q = db_query(s, SQL_READ, "i", at);
    if (db_row(s, q)) {
        if (t->head) db_text(q, 0, t->head);
        if (t->log) db_text(q, 2, t->log);
        if (t->version) *t->version = db_int(q, 3);
    }
    db_end(q);
    if (t->body) read_body(s, at, t->body);
    if (((t->head && t->head->failed) || (t->log && t->log->failed)) && s->rc == SQLITE_OK)
        s->rc = SQLITE_NOMEM;
}

/* Append to the body of record `at` of the holder. SQLite joins the texts. Reading the body
 * here, and binding the longer one, took another 100 ms for 16 MB. */
static int append(struct store *s, uint64_t holder, int64_t at, struct buf *text,
                  const struct buf *log, struct err *e)
{
    sqlite3_stmt *q = db_query(s, SQL_ROW, "i", at);
    const bool found = db_row(s, q), continues = found && db_int(q, 3) != 0;
    const bool empty = found && !continues && db_int(q, 5) == 0 && text->n > 0;
    const int64_t n_log = found ? db_int(q, 6) : 0;
    db_end(q);
    /* no comma precedes the first item */
    const struct buf added = {.data = empty ? text->data + 1 : text->data, .n = text->n - empty};
    const int64_t n = (int64_t)added.n + (log ? (int64_t)log->n - n_log : 0);
    if (n > 0 && !make_room(s, holder, n, at)) return store_too_large(s, holder, n, e);
    DB_RUN(s, SQL_APPEND, "iiibib", at, n, ++s->n_version, &added, (int64_t)(log != NULL), log);
    count(s, holder, n);
    store_touch(s, at);
    return 0;
}

int store_append(struct store *s, uint64_t holder, const char *id, const struct buf *items,
                 const struct buf *log, struct err *e)
{
    struct buf text = {0};
    if (items->n) buf_add_char(&text, ',');
    if (items->n) buf_add(&text, items->data, items->n);
    if (text.failed) {
        buf_deinit(&text);
        return err_memory(e, "a stored record", items->n);
    }
    store_begin(s);
    expire(s);
    const int64_t at = store_find(s, holder, id, NULL);
    int rc = at ? append(s, holder, at, &text, log, e) : store_missing(id, e);
    rc = store_end(s, rc, e);
    buf_deinit(&text);
    return rc;
}

int store_get(struct store *s, uint64_t holder, const char *id, const struct store_texts *t,
              struct err *e)
{
    store_begin(s);
    expire(s);
    const int64_t at = store_find(s, holder, id, NULL);
    if (at) read_texts(s, at, t);
    if (at) store_touch(s, at);
    /* the expired records are dropped, even if the requested record is missing */
    const int rc = store_end(s, 0, e);
    return rc == 0 && !at ? store_missing(id, e) : rc;
}

int store_delete(struct store *s, uint64_t holder, const char *id, struct err *e)
{
    store_begin(s);
    expire(s);
    const int64_t at = store_find(s, holder, id, NULL);
    if (at) drop(s, at);
    const int rc = store_end(s, 0, e);
    return rc == 0 && !at ? store_missing(id, e) : rc;
}

int store_list(struct store *s, const struct store_query *query, store_list_fn *fn, void *ctx,
               struct err *e)
{
    const uint64_t *holder = query->holder;
    const char *after = query->after;
    char word[STORE_ID_BYTES];
    int rc = 0;
    bool more = true;
    store_begin(s);
    expire(s);
    int64_t at = query->newest_first ? INT64_MAX : 0;
    if (after && holder) at = store_find(s, *holder, after, NULL);
    if (after && !at) rc = store_missing(after, e);
    sqlite3_stmt *q = NULL;
    (void)kind_of(query->kind, word);
    if (rc == 0 && holder)
        q = db_query(s, query->newest_first ? SQL_LIST_DOWN : SQL_LIST_UP, "iti", (int64_t)*holder,
                     word, at);
    else if (rc == 0)
        q = db_query(s, SQL_LIST_ALL, "t", word);
    while (more && db_row(s, q)) {
        struct buf head = {0};
        db_text(q, 2, &head);
        if (head.failed)
            s->rc = SQLITE_NOMEM, more = false;
        else
            more = fn(ctx, (uint64_t)db_int(q, 0), (const char *)sqlite3_column_text(q, 1), &head);
        buf_deinit(&head);
    }
    db_end(q);
    return store_end(s, rc, e);
}

struct store_stats store_stats(struct store *s)
{
    struct err e;
    store_begin(s);
    expire(s);
    (void)store_end(s, 0, &e);
    pthread_mutex_lock(&s->lock);
    const struct store_stats out = {.n_record = s->n_record, .n_byte = s->n_byte};
    pthread_mutex_unlock(&s->lock);
    return out;
}

const char *store_check(struct store *s)
{
    const char *why = NULL;
    struct err e;
    pthread_mutex_lock(&s->lock);
    const struct store was = *s;
    int64_t n_byte = 0;
    for (const struct store_holder *h = s->holders; h; h = h->next) {
        n_byte += h->n_byte;
        if (h->n_byte > s->o.holder_bytes_max || h->n_reserved < 0) why = "the size of a holder";
    }
    store_begin(s);
    if (first(s, db_query(s, SQL_CHECK, ""))) why = "the size or the references of a record";
    read_sums(s);
    if (s->n_byte != was.n_byte || s->n_record != was.n_record || n_byte != s->n_byte ||
        n_byte > s->o.bytes_max)
        why = "the size of the store";
    if (store_end(s, 0, &e) != 0) why = "the database";
    pthread_mutex_unlock(&s->lock);
    return why;
}
