/* chunks.c - numbered chunks of records: the contents of files and the answers of batches. A record
 * has at most one chunk of a number, so a line of a batch is answered once. */
#include "store_impl.h"

int store_add_chunk(struct store *s, uint64_t holder, const char *id, int part, int64_t n,
                    const struct buf *data, struct err *e)
{
    const int64_t n_byte = (int64_t)data->n + CHUNK_BYTES;
    int rc = 0;
    store_begin(s);
    const int64_t at = store_find(s, holder, id, NULL);
    if (!at)
        rc = store_missing(id, e);
    else if (store_has_chunk(s, holder, id, n))
        rc = err_set(e, ERR_ARG, "chunk %lld of \"%.80s\" must not exist", (long long)n, id);
    else if (!store_grow(s, holder, at, n_byte))
        rc = store_too_large(s, holder, n_byte, e);
    else
        DB_RUN(s, SQL_ADD_CHUNK, "iiib", at, (int64_t)part, n, data);
    if (rc == 0) store_touch(s, at);
    return store_end(s, rc, e);
}

int store_read_chunk(struct store *s, uint64_t holder, const char *id, int part, int64_t *n,
                     struct buf *out, struct err *e)
{
    store_begin(s);
    const int64_t at = store_find(s, holder, id, NULL);
    sqlite3_stmt *q = at ? db_query(s, SQL_NEXT_CHUNK, "iii", at, (int64_t)part, *n) : NULL;
    const bool found = db_row(s, q);
    if (found) db_text(q, 1, out);
    *n = found ? db_int(q, 0) : -1;
    db_end(q);
    if (at) store_touch(s, at);
    int rc = at ? 0 : store_missing(id, e);
    if (rc == 0 && out->failed) rc = err_memory(e, "a chunk", 0);
    return store_end(s, rc, e);
}

int store_count_chunks(struct store *s, uint64_t holder, const char *id, int part, int64_t *n_chunk,
                       int64_t *n_byte, struct err *e)
{
    store_begin(s);
    const int64_t at = store_find(s, holder, id, NULL);
    sqlite3_stmt *q = at ? db_query(s, SQL_COUNT_CHUNKS, "ii", at, (int64_t)part) : NULL;
    const bool found = db_row(s, q);
    *n_chunk = found ? db_int(q, 0) : 0;
    *n_byte = found ? db_int(q, 1) : 0;
    db_end(q);
    return store_end(s, at ? 0 : store_missing(id, e), e);
}

bool store_has_chunk(struct store *s, uint64_t holder, const char *id, int64_t n)
{
    struct err e;
    store_begin(s);
    const int64_t at = store_find(s, holder, id, NULL);
    sqlite3_stmt *q = at ? db_query(s, SQL_HAS_CHUNK, "ii", at, n) : NULL;
    const bool found = db_row(s, q);
    db_end(q);
    return store_end(s, 0, &e) == 0 && found;
}

int store_move_chunks(struct store *s, uint64_t holder, const char *id, int part, const char *to,
                      struct err *e)
{
    int64_t n_chunk = 0, n_byte = 0;
    store_begin(s);
    const int64_t from = store_find(s, holder, id, NULL), at = store_find(s, holder, to, NULL);
    int rc = from && at ? 0 : store_missing(from ? to : id, e);
    if (rc == 0) rc = store_count_chunks(s, holder, id, part, &n_chunk, &n_byte, e);
    n_byte += n_chunk * CHUNK_BYTES;
    if (rc == 0) {
        DB_RUN(s, SQL_MOVE_CHUNKS, "iii", from, (int64_t)part, at);
        (void)store_grow(s, holder, from, -n_byte);
        /* the bytes were just released, so no record is evicted */
        if (!store_grow(s, holder, at, n_byte)) rc = store_too_large(s, holder, n_byte, e);
    }
    return store_end(s, rc, e);
}
