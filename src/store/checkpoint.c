/* checkpoint.c - the thread that copies the write-ahead log into the database file.
 *
 *   commit --commit_hook: log of DUE_PAGES--> due --run: sync of the log, copy, sync of the file-->
 *          |                                      the next change begins the log again
 *          '--log of MAX_PAGES: the thread is too slow--> the change waits for a checkpoint
 *
 * Syncs take long on slow disks, and streams must not wait for them. The thread has a connection of
 * its own, so it needs no lock of the store. SQLite's own locks let changes append to the log
 * during a checkpoint. A checkpoint of a log that is copied completely is never begun, because a
 * change may begin the log again meanwhile; until version 3.51.3, SQLite may then count later pages
 * as copied. The log begins again only after a checkpoint of all its pages. Steady
 * changes could therefore let it grow without MAX_PAGES. A failed checkpoint loses nothing: the log
 * keeps the changes, and the next commit requests another checkpoint. */
#include "store_impl.h"

#include "base/cond.h"
#include "base/os.h"

#include <stdlib.h>

/* pages of 4 KiB: 4 MiB, as SQLite's default, and 64 MiB */
enum { DUE_PAGES = 1000, MAX_PAGES = 16384 };

struct checkpoints {
    sqlite3 *db;          /* connection of the thread, owned */
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t changed;
    pthread_t thread;
    bool started;
    bool due, runs, stops; /* runs: a checkpoint of the thread is in progress */
    int n_page;            /* pages of the log after the last commit that requested a checkpoint */
};

static void *run(void *checkpoints)
{
    struct checkpoints *c = checkpoints;
    pthread_mutex_lock(&c->lock);
    while (!c->stops) {
        if (!c->due) {
            cond_wait(&c->changed, &c->lock, INT64_MAX);
            continue;
        }
        c->due = false;
        c->runs = true;
        pthread_mutex_unlock(&c->lock);
        int n_log = -1, n_copied = -1;
        (void)sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &n_log, &n_copied);
        pthread_mutex_lock(&c->lock);
        c->runs = false;
        if (n_copied >= 0 && n_log == n_copied && c->n_page <= n_copied) c->due = false;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Request a checkpoint if the log is long (sqlite3_wal_hook). Thread of the change, with the
 * store's lock: no other change appends to the log during its own checkpoint. */
static int commit_hook(void *checkpoints, sqlite3 *db, const char *name, int n_page)
{
    struct checkpoints *c = checkpoints;
    if (n_page < DUE_PAGES) return SQLITE_OK;
    pthread_mutex_lock(&c->lock);
    c->due = true;
    c->n_page = n_page;
    pthread_cond_broadcast(&c->changed);
    if (n_page >= MAX_PAGES) {
        while (c->runs) cond_wait(&c->changed, &c->lock, INT64_MAX);
        (void)sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        c->due = false;
    }
    pthread_mutex_unlock(&c->lock);
    return SQLITE_OK;
}

int checkpoints_open(struct store *s, struct err *e)
{
    struct checkpoints *c = s->checkpoints = calloc(1, sizeof *c);
    if (!c) return err_memory(e, "a store", sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    cond_init(&c->changed);
    s->rc = sqlite3_open_v2(s->path, &c->db, DB_OPEN_FLAGS, DB_VFS);
    if (s->rc == SQLITE_OK)
        s->rc = sqlite3_exec(c->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    if (s->rc != SQLITE_OK) return db_error(s, e);
    c->started = os_thread_start(&c->thread, run, c);
    if (!c->started) return os_thread_error("the thread of checkpoints", e);
    (void)sqlite3_wal_hook(s->db, commit_hook, c);
    return 0;
}

void checkpoints_close(struct store *s)
{
    struct checkpoints *c = s->checkpoints;
    if (!c) return;
    (void)sqlite3_wal_hook(s->db, NULL, NULL);
    if (c->started) {
        pthread_mutex_lock(&c->lock);
        c->stops = true;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->thread, NULL);
    }
    sqlite3_close(c->db);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
    s->checkpoints = NULL;
}
