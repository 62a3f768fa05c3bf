/* db.c - the SQLite database of a store. s->rc keeps the first failure, so a sequence of statements
 * is checked once, at its end. Statements after a failure have no effect. */
#include "store_impl.h"

#include "base/os.h"

#include <fcntl.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char *const text[N_SQL] = {
#define SQL(name, words) words,
#include "sql.def"
};

/* version of the tables of this file */
enum { VERSION = 1 };

/* A record without an id is hidden. `used` orders records by their last use. */
static const char tables[] =
    "CREATE TABLE record(n INTEGER PRIMARY KEY AUTOINCREMENT, holder INTEGER NOT NULL, id TEXT, "
    "kind TEXT NOT NULL, "
    "n_byte INTEGER NOT NULL, used INTEGER NOT NULL, used_us INTEGER NOT NULL, "
    "version INTEGER NOT NULL, pinned INTEGER NOT NULL, ends_us INTEGER NOT NULL, "
    "previous INTEGER, n_ref INTEGER NOT NULL DEFAULT 0, head BLOB, body BLOB, log BLOB);"
    "CREATE UNIQUE INDEX record_id ON record(holder, id);"
    "CREATE INDEX record_kind ON record(holder, kind);"
    "CREATE INDEX record_previous ON record(previous) WHERE previous IS NOT NULL;"
    "CREATE INDEX record_oldest ON record(holder, used) WHERE n_ref = 0 AND pinned = 0;"
    "CREATE INDEX record_unused ON record(used_us) WHERE n_ref = 0;"
    "CREATE INDEX record_ends ON record(ends_us) WHERE ends_us > 0;"
    "CREATE TABLE chunk(record INTEGER NOT NULL, part INTEGER NOT NULL, n INTEGER NOT NULL, "
    "data BLOB NOT NULL);"
    "CREATE UNIQUE INDEX chunk_n ON chunk(record, n);"
    "PRAGMA user_version = 1;";

/* ---- statements ---- */

/* Keep the first failure. Later statements have no effect until the outermost end reports it. */
static void keep(struct store *s, int rc)
{
    if (s->rc == SQLITE_OK) s->rc = rc;
}

/* Bind one argument: i integer, n integer or NULL for 0, t text, other letters a buf.
 * SQLITE_STATIC: the caller keeps texts until the statement ends. */
static int bind_argument(sqlite3_stmt *q, int i, char type, va_list *args)
{
    const struct buf *b;
    const char *word;
    int64_t n;
    switch (type) {
    case 'i':
        return sqlite3_bind_int64(q, i, va_arg(*args, int64_t));
    case 'n':
        n = va_arg(*args, int64_t);
        return n ? sqlite3_bind_int64(q, i, n) : sqlite3_bind_null(q, i);
    case 't':
        word = va_arg(*args, const char *);
        return sqlite3_bind_text(q, i, word, -1, SQLITE_STATIC);
    default:
        b = va_arg(*args, const struct buf *);
        if (!b || b->n == 0) return sqlite3_bind_null(q, i);
        return sqlite3_bind_blob64(q, i, b->data, b->n, SQLITE_STATIC);
    }
}

sqlite3_stmt *db_query(struct store *s, enum sql which, const char *types, ...)
{
    sqlite3_stmt **q = &s->stmt[which];
    va_list args;
    if (s->rc == SQLITE_OK && !*q)
        keep(s, sqlite3_prepare_v3(s->db, text[which], -1, SQLITE_PREPARE_PERSISTENT, q, NULL));
    va_start(args, types);
    for (int i = 0; s->rc == SQLITE_OK && types[i]; i++)
        keep(s, bind_argument(*q, i + 1, types[i], &args));
    va_end(args);
    return s->rc == SQLITE_OK ? *q : NULL;
}

bool db_row(struct store *s, sqlite3_stmt *q)
{
    if (!q) return false;
    int rc = sqlite3_step(q);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) keep(s, rc);
    return rc == SQLITE_ROW;
}

void db_end(sqlite3_stmt *q)
{
    if (q) (void)sqlite3_reset(q); /* sqlite3_reset returns the code of the last step again */
    if (q) (void)sqlite3_clear_bindings(q);
}

int64_t db_int(sqlite3_stmt *q, int i)
{
    return sqlite3_column_int64(q, i);
}

/* A NULL of SQLite means an empty value or a failed allocation. */
void db_text(sqlite3_stmt *q, int i, struct buf *b)
{
    const void *data = sqlite3_column_blob(q, i);
    const int n = sqlite3_column_bytes(q, i);
    if (n > 0 && !data) b->failed = true;
    if (n > 0 && data) buf_add(b, data, (size_t)n);
}

int db_error(const struct store *s, struct err *e)
{
    const char *path = s->path ? s->path : "the store in memory";
    switch (s->rc & 0xff) {
    case SQLITE_NOMEM:
        return err_memory(e, "the store", 0);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(e, ERR_BUSY, "%s: cannot open: another server uses it", path);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return err_set(e, ERR_FORMAT, "%s is damaged: expected a store of quoth, got %s", path,
                       sqlite3_errstr(s->rc));
    default:
        return err_set(e, ERR_IO, "%s: cannot write: %s", path, sqlite3_errstr(s->rc));
    }
}

/* ---- opening ---- */

static void execute(struct store *s, const char *sql)
{
    if (s->rc == SQLITE_OK) keep(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

/* Return the version of the tables; 0 if there are no tables. */
static int64_t version(struct store *s)
{
    sqlite3_stmt *q = NULL;
    if (s->rc == SQLITE_OK) keep(s, sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &q, NULL));
    int64_t n = db_row(s, q) ? db_int(q, 0) : 0;
    sqlite3_finalize(q);
    return n;
}

/* Lock the folder for this store. SQLite excludes other processes, but not another store of this
 * process. Closing a descriptor of the database would also release SQLite's locks, so the lock has
 * its own file. */
static int lock_dir(struct store *s, const char *dir, struct err *e)
{
    char path[PATH_MAX];
    if (!path_join(path, sizeof path, dir, "quoth.lock"))
        return err_set(e, ERR_ARG, "%.200s: the path must be shorter", dir);
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock_fd < 0) return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno == EWOULDBLOCK)
        return err_set(e, ERR_BUSY, "%s: cannot open: another server uses it", path);
    return err_set(e, ERR_IO, "%s: cannot lock: %s", path, strerror(errno));
}

/* Set s->path, and create the file with permissions for this user only. SQLite creates its other
 * files with the permissions of this file. */
static int make_file(struct store *s, const char *dir, struct err *e)
{
    char path[PATH_MAX];
    int rc = dir_make(dir, DIR_PRIVATE, e);
    if (rc == 0) rc = lock_dir(s, dir, e);
    if (rc != 0) return rc;
    if (!path_join(path, sizeof path, dir, "quoth.db"))
        return err_set(e, ERR_ARG, "%.200s: the path must be shorter", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    close(fd);
    s->path = strdup(path);
    return s->path ? 0 : err_memory(e, "a path", strlen(path));
}

/* Changes are in the write-ahead log at their end, so a killed process loses no change. A separate
 * thread copies the log into the file (checkpoint.c). Only one process can open the file. */
int db_open(struct store *s, const char *dir, struct err *e)
{
    s->lock_fd = -1;
    int rc = dir ? make_file(s, dir, e) : 0;
    if (rc != 0) return rc;
    keep(s, sqlite3_open_v2(s->path ? s->path : ":memory:", &s->db, DB_OPEN_FLAGS, DB_VFS));
    execute(s, "PRAGMA journal_mode = WAL");
    execute(s, "PRAGMA wal_autocheckpoint = 0");
    execute(s, "PRAGMA synchronous = NORMAL");
    execute(s, "BEGIN IMMEDIATE");
    const int64_t found = version(s);
    if (found == 0) execute(s, tables);
    execute(s, "COMMIT");
    if (s->rc != SQLITE_OK) return db_error(s, e);
    if (found <= VERSION) return s->path ? checkpoints_open(s, e) : 0;
    return err_set(e, ERR_UNSUPPORTED, "%s: version %lld is not supported yet", s->path,
                   (long long)found);
}

void db_close(struct store *s)
{
    checkpoints_close(s);
    for (int i = 0; i < N_SQL; i++) sqlite3_finalize(s->stmt[i]);
    sqlite3_close(s->db);
    if (s->lock_fd >= 0) close(s->lock_fd);
    free(s->path);
}
