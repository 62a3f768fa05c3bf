/* store.h - records of clients in SQLite: responses, conversations, files and batches. A store is
 * in memory, or in a folder, whose records remain after the process ends.
 *
 * A record is found by its holder and its id, so a holder reads only its own records. Each holder
 * and the whole store have a maximum size. The least recently used records of a holder are evicted
 * first. The records of the largest holder are evicted if the whole store is full. Pinned records
 * are not evicted. A record expires if it is not used for the time unused_us.
 *
 * A record has three texts. The body may continue the body of an earlier record, so that only the
 * new part is stored. A deleted record remains, hidden, until no other record continues it. A
 * record may also have chunks, which are numbered.
 *
 * A change is complete or has no effect, even if the process is killed. A power failure may undo
 * the last changes of a store in a folder. Any thread. */
#ifndef QUOTH_STORE_STORE_H
#define QUOTH_STORE_STORE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

struct store; /* opaque */

enum { STORE_ID_BYTES = 72 };

struct store_options {
    const char *dir;   /* folder, created if missing, borrowed for store_open; NULL: memory */
    int64_t bytes_max; /* maximum size of all records, > 0 */
    int64_t holder_bytes_max; /* maximum size of a holder's records; 0: bytes_max */
    int64_t unused_us;        /* time without use after which a record expires; 0: no limit */
};

/* Open a store. The caller owns *out, which is NULL after an error. ERR_IO, ERR_ARG for a too long
 * path, ERR_BUSY if another process uses the folder. ERR_FORMAT for a damaged file, ERR_UNSUPPORTED
 * for a file of a later version, ERR_MEMORY. */
int store_open(struct store **out, const struct store_options *o, struct err *e);
void store_close(struct store *s); /* free s; NULL is allowed */

/* Texts of a record. NULL means not requested in store_get, and empty in other functions. */
struct store_texts {
    struct buf *head, *body, *log;
    int64_t *version;     /* store_get: number that differs after each change */
    const char *previous; /* store_put: id of the record that the body may continue; NULL if none */
    int64_t ends_us;      /* store_put: time (time_wall_us) of the record's end; 0 if none */
    bool pinned;          /* store_put: the record is not evicted */
};

/* Begin changes that take effect together. The caller calls store_end soon, because other threads
 * wait until then. */
void store_begin(struct store *s);
/* End the changes of store_begin. Undo all changes if rc is not 0 or a change failed. Return rc, or
 * the failure: ERR_IO, ERR_MEMORY. */
int store_end(struct store *s, int rc, struct err *e);

/* Store a copy of the texts by holder and id. An older record of the id is replaced. ERR_LIMIT if
 * the record does not fit, ERR_MEMORY, ERR_IO. The store is unchanged after an error. */
int store_put(struct store *s, uint64_t holder, const char *id, const struct store_texts *t,
              struct err *e);
/* Append copies of the requested texts. ERR_MISSING if the holder has no record with this id;
 * ERR_MEMORY, ERR_IO. */
int store_get(struct store *s, uint64_t holder, const char *id, const struct store_texts *t,
              struct err *e);
/* Append items to the body of a record, after a comma, and replace its log (NULL: keep it).
 * ERR_MISSING, and the errors of store_put. */
int store_append(struct store *s, uint64_t holder, const char *id, const struct buf *items,
                 const struct buf *log, struct err *e);
/* Replace the texts of a record if it still has that version. ERR_BUSY if the record has another
 * version, ERR_MISSING, and the errors of store_put. */
int store_replace(struct store *s, uint64_t holder, const char *id, int64_t version,
                  const struct store_texts *t, struct err *e);
/* Remove a record with its chunks. ERR_MISSING, ERR_MEMORY, ERR_IO. */
int store_delete(struct store *s, uint64_t holder, const char *id, struct err *e);

/* Receive a record. Pointers are borrowed for the call. The function must not call functions of the
 * store. Return false to end the list. */
typedef bool store_list_fn(void *ctx, uint64_t holder, const char *id, const struct buf *head);
/* Selection of records. Pointers are borrowed for the call. */
struct store_query {
    const uint64_t *holder; /* NULL: the records of all holders, oldest first */
    /* part of an id before the first _ or -, with or without this character */
    const char *kind;
    const char *after; /* id of the record before the first listed record; NULL: no such record */
    bool newest_first; /* false: in the order of their creation */
};
/* List the selected records. ERR_MISSING if the record `after` does not exist, ERR_MEMORY,
 * ERR_IO. */
int store_list(struct store *s, const struct store_query *q, store_list_fn *fn, void *ctx,
               struct err *e);

/* ---- chunks ---- */

/* Add chunk n of a part to a record. ERR_MISSING; ERR_ARG if the record has a chunk n, in any part;
 * the errors of store_put. */
int store_add_chunk(struct store *s, uint64_t holder, const char *id, int part, int64_t n,
                    const struct buf *data, struct err *e);
/* Append the first chunk of a part (-1: of any part) whose number is at least *n. Set *n to the
 * chunk's number; -1 if none. ERR_MISSING, ERR_MEMORY, ERR_IO. */
int store_read_chunk(struct store *s, uint64_t holder, const char *id, int part, int64_t *n,
                     struct buf *out, struct err *e);
/* Set *n_chunk and *n_byte to the number and the total size of the chunks of a part. ERR_MISSING,
 * ERR_MEMORY, ERR_IO. */
int store_count_chunks(struct store *s, uint64_t holder, const char *id, int part, int64_t *n_chunk,
                       int64_t *n_byte, struct err *e);
/* Return true if the record has a chunk n, in any part. */
bool store_has_chunk(struct store *s, uint64_t holder, const char *id, int64_t n);
/* Move all chunks of a part to part 0 of another record of the holder. ERR_MISSING, ERR_MEMORY,
 * ERR_IO. */
int store_move_chunks(struct store *s, uint64_t holder, const char *id, int part, const char *to,
                      struct err *e);

/* ---- sizes ---- */

/* Add n bytes, which are not evictable, to the size of a holder; n < 0: release -n bytes. Evict
 * records to make room, as store_put does. Return false, without a change, if the bytes do not fit
 * or memory is exhausted. */
bool store_reserve(struct store *s, uint64_t holder, int64_t n);

/* Number and size of the records of all holders. */
struct store_stats {
    int64_t n_record, n_byte;
};
/* Return the number and size of the records of all holders, without expired records. */
struct store_stats store_stats(struct store *s);
/* Return NULL, or a description of a violated invariant, static. For tests. */
const char *store_check(struct store *s);

#endif
