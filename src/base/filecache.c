/* filecache.c - see filecache.h.
 *
 *     NAME              settled
 *     NAME.BOOT         unsettled, made in the boot BOOT of the system (os_boot_id)
 *     .NAME.PID-TIME    in progress; the process that writes it holds a lock on it
 *
 * A file's access time is the time of its last use. filecache_open sets it, because many file
 * systems do not update it.
 *
 *   filecache_begin --> .NAME.PID-TIME --filecache_put--> --filecache_keep--> NAME.BOOT
 *   NAME.BOOT --filecache_settle, in a later boot--> NAME
 *
 * A power failure can leave a renamed file without its data, because the file is not flushed.
 * Therefore a file of an earlier boot is suspect until a reader has validated and settled the file.
 * Flushing gigabytes would delay the first start. */
#include "filecache.h"
#include "cancel.h"
#include "hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* STALE_S: a temporary file of this age without a lock belongs to a dead process. RESERVE_BYTES:
 * part of a file that is reserved at a time */
enum { STALE_S = 60, RESERVE_BYTES = 1 << 28 };
/* default limit of a folder, in bytes; a quarter of the disk if that is less */
static const uint64_t default_bytes_max = 100ull * 1000 * 1000 * 1000;

int filecache_dir(char *out, size_t n_out, const char *name, struct err *e)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (cache && cache[0] == '/')
        n = snprintf(out, n_out, "%s/quoth/%s", cache, name);
    else if (home && home[0] == '/')
        n = snprintf(out, n_out, "%s/.cache/quoth/%s", home, name);
    else
        return err_set(e, ERR_MISSING,
                       "cache folder not found; set XDG_CACHE_HOME or HOME to a folder");
    return n >= 0 && (size_t)n < n_out
               ? 0
               : err_set(e, ERR_ARG, "%s: cannot open: the path is too long", out);
}

/* ---- names ---- */

/* Return true for NAME and NAME.BOOT. Temporary names begin with a dot, so they never match. */
static bool is_of(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 && (entry[n] == 0 || entry[n] == '.');
}

/* Write NAME.BOOT for this boot. The boot is 16 hexadecimal digits, so a settled name must not
 * contain a dot. */
static void unsettled_name(char *out, size_t n_out, const char *name)
{
    snprintf(out, n_out, "%s.%016llx", name, (unsigned long long)os_boot_id());
}

/* Return a descriptor of the folder; -1 if the cache has none or it does not exist. */
static int open_dir(const struct filecache *c)
{
    if (!c->dir) return -1;
    return open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Open the folder for a new listing; NULL on failure. openat opens a separate descriptor, because
 * closedir closes it. */
static DIR *list_dir(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0) close(fd);
    return d;
}

/* Find the folder's entry for `name`. Prefer the settled entry, then the entry of this boot, then
 * any entry. entry receives the name without the folder. */
static bool find_entry(int dir, const char *name, char *entry, size_t n_entry)
{
    struct stat st;
    snprintf(entry, n_entry, "%s", name);
    if (fstatat(dir, entry, &st, 0) == 0) return true;
    unsettled_name(entry, n_entry, name);
    if (fstatat(dir, entry, &st, 0) == 0) return true;
    DIR *d = list_dir(dir);
    struct dirent *f = NULL;
    while (d && (f = readdir(d)) && !is_of(f->d_name, name)) continue;
    if (f) snprintf(entry, n_entry, "%s", f->d_name);
    if (d) closedir(d);
    return f != NULL;
}

/* ---- existing files ---- */

int filecache_open(struct file_map *m, bool *settled, const struct filecache *c, const char *name,
                   struct err *e)
{
    char entry[NAME_MAX + 1] = "", now[NAME_MAX + 1];
    *m = (struct file_map){0};
    int dir = open_dir(c), fd = -1;
    if (dir >= 0 && find_entry(dir, name, entry, sizeof entry))
        fd = openat(dir, entry, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (dir >= 0) close(dir);
    if (fd < 0) return err_set(e, ERR_MISSING, "%s: %s not found", c->dir ? c->dir : "cache", name);
    struct timespec used[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    futimens(fd, used); /* futimens fails, without effect, if the file belongs to another user */
    unsettled_name(now, sizeof now, name);
    *settled = !strchr(entry, '.') || (os_boot_id() && strcmp(entry, now) == 0);
    int rc = file_map_fd(m, fd, entry, e);
    if (rc == 0) file_map_keep(m, fd);
    close(fd);
    return rc;
}

/* Settle a file. Do nothing if the system has no boot id, because the end of a boot is then
 * unknown. */
void filecache_settle(const struct filecache *c, const char *name)
{
    char entry[NAME_MAX + 1];
    int dir = open_dir(c);
    if (dir < 0) return;
    if (os_boot_id() && find_entry(dir, name, entry, sizeof entry)) renameat(dir, entry, dir, name);
    close(dir);
}

void filecache_remove(const struct filecache *c, const char *name)
{
    char entry[NAME_MAX + 1];
    int dir = open_dir(c);
    if (dir < 0) return;
    while (find_entry(dir, name, entry, sizeof entry) && unlinkat(dir, entry, 0) == 0) continue;
    close(dir);
}

/* ---- eviction ---- */

/* File of the cache, as a candidate for eviction. */
struct kept {
    char name[NAME_MAX + 1];
    uint64_t n_byte;      /* allocated disk space, less than the size of a sparse file */
    struct timespec used; /* time of the last use */
};

typedef VEC(struct kept) kept_list;

static int by_use(const void *pa, const void *pb)
{
    const struct kept *a = pa, *b = pb;
    if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    return (a->used.tv_nsec > b->used.tv_nsec) - (a->used.tv_nsec < b->used.tv_nsec);
}

/* Remove a temporary file if its process has ended. A running process holds the lock. */
static void remove_if_stale(int dir, const char *temp, const struct stat *st)
{
    int fd = time(NULL) - st->st_mtime < STALE_S ? -1 : openat(dir, temp, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dir, temp, 0);
    close(fd);
}

/* List all files, least recently used first, and remove files of dead processes. Return false if
 * memory is exhausted. */
static bool list_kept(int dir, kept_list *list)
{
    DIR *d = list_dir(dir);
    bool ok = true;
    for (struct dirent *f; d && ok && (f = readdir(d));) {
        struct stat st;
        if (fstatat(dir, f->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        struct kept k = {.n_byte = (uint64_t)st.st_blocks * 512, .used = st.st_atim};
        snprintf(k.name, sizeof k.name, "%s", f->d_name);
        if (k.name[0] == '.')
            remove_if_stale(dir, k.name, &st);
        else
            ok = vec_push(list, k);
    }
    if (d) closedir(d);
    if (ok && list->n) qsort(list->v, list->n, sizeof *list->v, by_use);
    return ok;
}

static double mib(uint64_t n_byte)
{
    return (double)n_byte / 1048576.0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t disk_free(int dir)
{
    struct statvfs s;
    return fstatvfs(dir, &s) == 0 ? (uint64_t)s.f_bavail * s.f_frsize : 0;
}

/* Remove files until n_byte more bytes fit. Remove no file if the bytes cannot fit. The limit is
 * c->bytes_max, or by default a quarter of the space that is free or used by the cache. Try the
 * next file if unlinkat fails. */
static int make_room_in(int dir, const struct filecache *c, kept_list *list, uint64_t n_byte,
                        struct err *e)
{
    uint64_t used = 0, free_now = disk_free(dir), max = c->bytes_max;
    for (size_t i = 0; i < list->n; i++) used += list->v[i].n_byte;
    if (max == 0) max = least(default_bytes_max, (used + free_now) / 4);
    max = least(max, used + free_now);
    if (n_byte > max)
        return err_set(e, ERR_LIMIT, "%s: cannot write %.1f MiB: the limit is %.1f MiB", c->dir,
                       mib(n_byte), mib(max));
    for (size_t i = 0; i < list->n && (used + n_byte > max || n_byte > free_now); i++) {
        if (unlinkat(dir, list->v[i].name, 0) != 0) continue;
        used -= list->v[i].n_byte;
        free_now += list->v[i].n_byte;
    }
    return 0;
}

static int make_room(int dir, const struct filecache *c, uint64_t n_byte, struct err *e)
{
    kept_list list = {0};
    int rc = list_kept(dir, &list) ? make_room_in(dir, c, &list, n_byte, e)
                                   : err_memory(e, c->dir, list.n * sizeof *list.v);
    vec_deinit(&list);
    return rc;
}

/* ---- new files ---- */

/* Reserve n_byte in parts, because some file systems clear the space (tmpfs: 0.3 s per GiB). Return
 * false, with errno, if the space cannot be reserved. Stop early if the work is cancelled. */
static bool reserve(int fd, uint64_t n_byte)
{
    for (uint64_t at = 0, n; at < n_byte && !cancelled(); at += n) {
        n = least(n_byte - at, RESERVE_BYTES);
        int rc;
        while ((rc = fallocate(fd, 0, (off_t)at, (off_t)n)) != 0 && errno == EINTR) continue;
        if (rc != 0) return false;
    }
    return true;
}

/* Reserve the disk space now if the file system supports it. Without a reservation, filecache_put
 * fails if the disk is full. A size above the process's limit for files is rejected, because the
 * system would send a signal. */
static int set_size(const struct filecache_file *f, uint64_t n_byte, struct err *e)
{
    struct rlimit limit;
    bool fits = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
                n_byte <= limit.rlim_cur;
    if (!fits)
        return err_set(e, ERR_LIMIT,
                       "%s: cannot write %.1f MiB: above the limit of a file's size (ulimit -f)",
                       f->cache->dir, mib(n_byte));
    if (reserve(f->fd, n_byte)) return cancelled() ? err_cancelled(e) : 0;
    if (errno == EOPNOTSUPP && ftruncate(f->fd, (off_t)n_byte) == 0) return 0;
    return err_set(e, ERR_LIMIT, "%s: cannot reserve %.1f MiB: %s", f->cache->dir, mib(n_byte),
                   strerror(errno));
}

/* Create the temporary file and lock it. The lock ends with the process, also after a crash, and
 * marks the file as stale (remove_if_stale). */
static int open_temp(struct filecache_file *f, struct err *e)
{
    int n = snprintf(f->temp, sizeof f->temp, "%s/.%s.%d-%llx", f->cache->dir, f->name,
                     (int)getpid(), (unsigned long long)time_wall_us());
    if (n < 0 || (size_t)n >= sizeof f->temp)
        return err_set(e, ERR_ARG, "%s: cannot write: the path is too long", f->cache->dir);
    f->fd = open(f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return err_set(e, ERR_IO, "%s: cannot write: %s", f->cache->dir, strerror(errno));
    flock(f->fd, LOCK_EX | LOCK_NB);
    return 0;
}

int filecache_begin(struct filecache_file *f, const struct filecache *c, const char *name,
                    uint64_t n_byte, struct err *e)
{
    *f = (struct filecache_file){.cache = c, .fd = -1};
    snprintf(f->name, sizeof f->name, "%s", name);
    if (!c->dir)
        return err_set(e, ERR_MISSING,
                       "cache folder not found; set XDG_CACHE_HOME or HOME to a folder");
    int rc = dir_make(c->dir, DIR_PRIVATE, e), dir = rc == 0 ? open_dir(c) : -1;
    if (rc == 0 && dir < 0) rc = err_set(e, ERR_IO, "%s: cannot open: %s", c->dir, strerror(errno));
    if (rc == 0) rc = make_room(dir, c, n_byte, e);
    if (dir >= 0) close(dir);
    if (rc == 0) rc = open_temp(f, e);
    if (rc == 0) rc = set_size(f, n_byte, e);
    if (rc != 0) filecache_abandon(f);
    return rc;
}

int filecache_put(const struct filecache_file *f, uint64_t at, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        ssize_t put = pwrite(f->fd, p, n, (off_t)at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return put < 0 ? errno : EIO;
        p += put;
        at += (uint64_t)put;
        n -= (size_t)put;
    }
    return 0;
}

int filecache_keep(struct filecache_file *f, struct file_map *m, struct err *e)
{
    char name[NAME_MAX + 1], path[4096];
    int rc = file_map_fd(m, f->fd, f->temp, e);
    unsettled_name(name, sizeof name, f->name);
    if (rc == 0 &&
        !(path_join(path, sizeof path, f->cache->dir, name) && rename(f->temp, path) == 0))
        rc = err_set(e, ERR_IO, "%s: cannot rename: %s", f->temp, strerror(errno));
    if (rc == 0) file_map_keep(m, f->fd);
    if (rc != 0) {
        file_map_close(m);
        filecache_abandon(f);
        return rc;
    }
    close(f->fd);
    f->fd = -1;
    return 0;
}

void filecache_abandon(struct filecache_file *f)
{
    if (f->fd < 0) return;
    unlink(f->temp);
    close(f->fd);
    f->fd = -1;
}
