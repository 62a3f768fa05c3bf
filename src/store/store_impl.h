/* store_impl.h - private to src/store: the database of a store. The caller has the store's lock. */
#ifndef QUOTH_STORE_STORE_IMPL_H
#define QUOTH_STORE_STORE_IMPL_H

#include "store.h"

#include <pthread.h>
#include <sqlite3.h>

/* Open flags of both connections of a store. One thread at a time uses a connection. */
enum { DB_OPEN_FLAGS = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX };
/* file system of SQLite that lets only one process open a file, with any number of connections */
#define DB_VFS "unix-excl"

/* Sizes of a record and of a chunk without their texts, as counted for the limits. */
enum { RECORD_BYTES = 200, CHUNK_BYTES = 40 };

enum sql {
#define SQL(name, text) SQL_##name,
#include "sql.def"
    N_SQL
};

/* A client, and the size of its records. Holders are keys, so their number is small. Holders are
 * freed with the store. */
struct store_holder {
    uint64_t id;
    int64_t n_byte, n_reserved; /* n_byte includes n_reserved */
    struct store_holder *next;
};

struct store {
    struct store_options o;
    char *path;           /* file, owned; NULL: the store is in memory */
    int lock_fd;          /* locked file of the folder, owned; -1: the store is in memory */
    pthread_mutex_t lock; /* protects all fields below */
    sqlite3 *db;
    struct checkpoints *checkpoints; /* owned; NULL: the store is in memory */
    sqlite3_stmt *stmt[N_SQL];       /* owned; NULL until the first use */
    int rc;                          /* SQLite code of the first failure; SQLITE_OK: none */
    bool undoes;                     /* true: changes must be undone before further changes */
    int depth;                       /* number of calls of store_begin without store_end */
    int64_t n_byte, n_record;        /* sums over the holders; n_byte includes reserved bytes */
    int64_t n_use, n_version;        /* numbers of uses and of changes so far */
    struct store_holder *holders;    /* owned list */
};

/* Open the database and create its tables. Errors are those of store_open. */
int db_open(struct store *s, const char *dir, struct err *e);
void db_close(struct store *s); /* close the database; a half-open store is allowed */

/* ---- checkpoint.c ---- */

/* Start the thread that copies the write-ahead log of s->db into the file s->path. ERR_MEMORY, or
 * an error of db_error. checkpoints_close must follow, also after an error. */
int checkpoints_open(struct store *s, struct err *e);
/* End the thread after its checkpoint in progress. No effect if s->checkpoints is NULL. Call it
 * before the database is closed. */
void checkpoints_close(struct store *s);

/* Return the statement with its arguments bound; NULL after a failure, which s->rc keeps. `types`
 * has a letter for the type of each argument: i int64_t, n int64_t (0 is bound as NULL), t const
 * char *, b const struct buf * (may be NULL). Texts are borrowed until db_end. */
sqlite3_stmt *db_query(struct store *s, enum sql which, const char *types, ...);
/* Advance a statement. Return true if the statement has a row, and false if q is NULL. */
bool db_row(struct store *s, sqlite3_stmt *q);
void db_end(sqlite3_stmt *q); /* end a statement; NULL is allowed */
/* Return column i of the statement's row as an integer. */
int64_t db_int(sqlite3_stmt *q, int i);
/* Append column i to b. */
void db_text(sqlite3_stmt *q, int i, struct buf *b);
/* Set the sentence of the failure s->rc. Return its code. */
int db_error(const struct store *s, struct err *e);

/* ---- store.c, for chunks.c ---- */

/* Return the number of the holder's record; 0 if none. */
int64_t store_find(struct store *s, uint64_t holder, const char *id, int64_t *version);
/* Add n bytes to the size of record `at` of the holder. Evict other records if needed. Return false
 * if n bytes do not fit. */
bool store_grow(struct store *s, uint64_t holder, int64_t at, int64_t n);
/* Set the error of a record that does not exist. */
int store_missing(const char *id, struct err *e);
/* Set the error after make_room or store_grow returned false for n more bytes of a holder. The
 * sentence has the size of the holder's records that cannot be evicted, or that of all such
 * records. */
int store_too_large(struct store *s, uint64_t holder, int64_t n, struct err *e);
/* Record that record `at` is used now. */
void store_touch(struct store *s, int64_t at);

/* Run a statement that has no rows. The arguments are those of db_query. */
#define DB_RUN(s, which, ...)                                                                      \
    do {                                                                                           \
        sqlite3_stmt *run_ = db_query(s, which, __VA_ARGS__);                                      \
        (void)db_row(s, run_);                                                                     \
        db_end(run_);                                                                              \
    } while (0)

#endif
