/* os.c - os.h for Linux. Few other files use functions that are specific to Linux. */
#include "os.h"
#include "bus.h"
#include "cgroup.h"
#include "hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* bytes of a huge page on x86-64 */
enum { HUGE_PAGE = 2 << 20 };

/* Request huge pages, for fewer TLB misses. Small blocks are excluded, because a touched huge page
 * takes more memory. */
static void *advise_huge(void *p, size_t n_byte)
{
    if (n_byte >= 2 * HUGE_PAGE) madvise(p, n_byte, MADV_HUGEPAGE);
    return p;
}

/* Open a file for reading. Return the descriptor or ERR_IO. O_NONBLOCK prevents a wait for the
 * writer of a named pipe. Named pipes are rejected. */
static int open_regular(const char *path, struct stat *st, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode)) return fd;
    close(fd);
    return err_set(e, ERR_IO, "%s: cannot open: not a regular file", path);
}

/* Map the file and register the mapping. A later truncation of the file causes SIGBUS. bus_register
 * makes this an error message with the path. */
int file_map_fd(struct file_map *m, int fd, const char *path, struct err *e)
{
    *m = (struct file_map){0};
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set(e, ERR_IO, "%s: cannot inspect: %s", path, strerror(errno));
    void *p = NULL;
    if (st.st_size > 0) p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return err_set(e, ERR_IO, "%s: cannot map %lld bytes: %s", path, (long long)st.st_size,
                       strerror(errno));
    *m = (struct file_map){
        .data = p ? advise_huge(p, (size_t)st.st_size) : NULL,
        .n_byte = (size_t)st.st_size,
        .device = st.st_dev,
        .inode = st.st_ino,
        .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
    };
    bus_register(m->data, m->n_byte, path);
    return 0;
}

int file_map_open(struct file_map *m, const char *path, struct err *e)
{
    *m = (struct file_map){0};
    struct stat st;
    int fd = open_regular(path, &st, e);
    if (fd < 0) return fd;
    int rc = file_map_fd(m, fd, path, e);
    close(fd);
    return rc;
}

void file_map_close(struct file_map *m)
{
    bus_unregister(m->data);
    if (m->data) munmap((void *)m->data, m->n_byte);
    if (m->fd > 0) close(m->fd);
    *m = (struct file_map){0};
}

void file_map_release_pages(const struct file_map *m)
{
    if (m->data && !m->detached) madvise((void *)m->data, m->n_byte, MADV_DONTNEED);
}

void file_map_keep(struct file_map *m, int fd)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own > 0) m->fd = own;
}

/* A section in whole pages: outer pages contain it, inner pages are inside it. */
struct pages_of {
    uint8_t *at;
    size_t n_byte;
};

static struct pages_of pages_of(const void *p, size_t n_byte, bool outer)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), up = page - 1;
    const uintptr_t from = (uintptr_t)p, to = from + n_byte;
    const uintptr_t a = (outer ? from : from + up) / page * page,
                    b = (outer ? to + up : to) / page * page;
    return (struct pages_of){(uint8_t *)a, b > a ? b - a : 0};
}

/* Read pages one after the other, where the system cannot populate a map. */
static void touch(const volatile uint8_t *p, size_t n_byte)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < n_byte; i += page) (void)p[i];
}

/* Request a piece before waiting for the piece before it, so that the disk always has a request. */
void file_map_read(const uint8_t *at, size_t n_byte)
{
    enum { PIECE = 64 << 20 };
    const struct pages_of s = pages_of(at, n_byte, true);
    for (size_t i = 0, n, next; i < s.n_byte; i += n) {
        n = s.n_byte - i < PIECE ? s.n_byte - i : PIECE;
        next = s.n_byte - i - n < PIECE ? s.n_byte - i - n : PIECE;
        if (i == 0) madvise(s.at, n, MADV_WILLNEED);
        if (next > 0) madvise(s.at + i + n, next, MADV_WILLNEED);
#ifdef MADV_POPULATE_READ
        if (madvise(s.at + i, n, MADV_POPULATE_READ) == 0) continue;
#endif
        touch(s.at + i, n);
    }
}

void file_map_drop(const struct file_map *m, const uint8_t *at, size_t n_byte)
{
    const struct pages_of s = pages_of(at, n_byte, false);
    if (s.n_byte == 0) return;
    madvise(s.at, s.n_byte, MADV_DONTNEED);
    if (m->fd > 0) posix_fadvise(m->fd, s.at - m->data, (off_t)s.n_byte, POSIX_FADV_DONTNEED);
}

/* Keep the addresses after n_keep reserved, so that no other memory is mapped there. The steps are:
 * map anonymous memory, copy the part to keep, move the copy over the file's mapping, forbid access
 * to the rest. The move is one system call. Pointers into the first n_keep bytes stay valid. */
int file_map_detach(struct file_map *m, size_t n_keep, struct err *e)
{
    if (!m->data || m->detached) return 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n_used = (n_keep + page - 1) / page * page;
    void *own = mmap(NULL, m->n_byte, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (own == MAP_FAILED) return err_memory(e, "a copy of a file's beginning", n_keep);
    memcpy(own, m->data, n_keep);
    if (mremap(own, m->n_byte, m->n_byte, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)m->data) ==
        MAP_FAILED) {
        munmap(own, m->n_byte);
        return err_memory(e, "a copy of a file's beginning", n_keep);
    }
    if (n_used < m->n_byte) mprotect((uint8_t *)m->data + n_used, m->n_byte - n_used, PROT_NONE);
    bus_unregister(m->data);
    m->detached = true;
    return 0;
}

/* Read standard input if the path is "-". Check the limit after each block of 64 KiB, because the
 * sizes of pipes and of files in /proc are unknown before reading. */
int file_read(struct buf *out, const char *path, size_t bytes_max, struct err *e)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    int rc = 0;
    size_t n_read = 0;
    for (;;) {
        if (!buf_room(out, 65536)) {
            rc = err_memory(e, path, out->n + 65536);
            break;
        }
        ssize_t got = read(fd, out->data + out->n, 65536);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) rc = err_set(e, ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        if (got <= 0) break;
        out->n += (size_t)got;
        n_read += (size_t)got;
        if (n_read > bytes_max) {
            rc = err_set(e, ERR_LIMIT, "%s: cannot read: larger than the limit of %zu bytes", path,
                         bytes_max);
            break;
        }
    }
    if (out->data) out->data[out->n] = 0;
    if (!is_stdin) close(fd);
    return rc;
}

/* Write all bytes. Return false after an error other than EINTR; errno has the reason. */
static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        p += put;
        n -= (size_t)put;
    }
    return true;
}

/* Write a temporary file and rename it. A reader then gets the old or the new file, never a part of
 * a file. */
int file_write(const char *path, const void *data, size_t n_byte, struct err *e)
{
    char temp[4096];
    int n = snprintf(temp, sizeof temp, "%s.tmp-%d", path, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof temp)
        return err_set(e, ERR_ARG, "%s: cannot write: the path is too long", path);
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return err_set(e, ERR_IO, "%s: cannot create: %s", path, strerror(errno));
    bool ok = write_all(fd, data, n_byte);
    ok = close(fd) == 0 && ok;
    if (ok && rename(temp, path) == 0) return 0;
    int rc = err_set(e, ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    unlink(temp);
    return rc;
}

int file_check_content(const char *path, const void *data, size_t n, struct err *e)
{
    static const char lfs[] = "version https://git-lfs.github.com/spec/";
    if (n == 0) return err_set(e, ERR_FORMAT, "%s: the file is empty; download it again", path);
    if (n < sizeof lfs - 1 || memcmp(data, lfs, sizeof lfs - 1) != 0) return 0;
    return err_set(e, ERR_FORMAT,
                   "%s: the file is a Git LFS pointer, not its content; download it again, for "
                   "example by git lfs pull",
                   path);
}

/* type: S_IFREG or S_IFDIR. Only lstat shows that a path does not exist, because stat has the same
 * error for a link to nothing. A cache of Hugging Face consists of links. */
static int find_of_type(bool *found, const char *path, mode_t type, struct err *e)
{
    struct stat st;
    const char *kind = type == S_IFDIR ? "a folder" : "a regular file";
    *found = false;
    if (lstat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) return 0;
    if (stat(path, &st) != 0)
        return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if ((st.st_mode & S_IFMT) != type)
        return err_set(e, ERR_IO, "%s: cannot open: not %s", path, kind);
    if (access(path, type == S_IFDIR ? R_OK | X_OK : R_OK) != 0)
        return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    *found = true;
    return 0;
}

int file_find(bool *found, const char *path, struct err *e)
{
    return find_of_type(found, path, S_IFREG, e);
}

int dir_find(bool *found, const char *path, struct err *e)
{
    return find_of_type(found, path, S_IFDIR, e);
}

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool dir_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Create each missing folder of the path, as `mkdir -p` does. */
int dir_make(const char *path, unsigned mode, struct err *e)
{
    char part[4096];
    int n = snprintf(part, sizeof part, "%s/", path);
    if (n < 0 || (size_t)n >= sizeof part)
        return err_set(e, ERR_ARG, "%s: cannot write: the path is too long", path);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        if (mkdir(part, mode) != 0 && errno != EEXIST && !dir_exists(part))
            return err_set(e, ERR_IO, "%s: cannot create: %s", part, strerror(errno));
        *slash = '/';
    }
    return 0;
}

/* Sort the entries, so that results do not depend on the file system. Leave out hidden entries. */
int dir_list(struct buf *out, const char *path, struct err *e)
{
    struct dirent **entry = NULL;
    int n = scandir(path, &entry, NULL, alphasort);
    if (n < 0) return err_set(e, ERR_IO, "%s: cannot list: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.') buf_addf(out, "%s\n", entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    return out->failed ? err_memory(e, path, out->n) : 0;
}

bool path_join(char *out, size_t n_out, const char *dir, const char *name)
{
    size_t n_dir = strlen(dir);
    bool slash = n_dir > 0 && dir[n_dir - 1] == '/';
    int n = snprintf(out, n_out, "%s%s%s", dir, slash || n_dir == 0 ? "" : "/", name);
    return n >= 0 && (size_t)n < n_out;
}

/* Return execve's path (AT_EXECFN) in a chroot or container without /proc. */
const char *os_self_path(void)
{
    static const char proc[] = "/proc/self/exe";
    const char *started_as = access(proc, R_OK) == 0 ? NULL : (const char *)getauxval(AT_EXECFN);
    return started_as ? started_as : proc;
}

/* Hash the random UUID of this boot from the kernel's file. Return 0 if the file does not exist. */
uint64_t os_boot_id(void)
{
    struct buf b = {0};
    struct err e;
    int rc = file_read(&b, "/proc/sys/kernel/random/boot_id", 256, &e);
    uint64_t id = rc == 0 && b.n ? hash_bytes(b.data, b.n, 0) : 0;
    buf_deinit(&b);
    return id;
}

static int64_t clock_us(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

const char *os_connect_error(int error)
{
    return error == ECONNREFUSED ? "no server listens there (connection refused)" : strerror(error);
}

int64_t time_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

int64_t time_thread_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Block signals in the new thread, so that the main thread handles them. Signals of faults are not
 * blocked, because a blocked fault ends the process without a call of bus_catch's handler. */
bool os_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before); /* a new thread inherits the mask */
    errno = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL); /* does not change errno */
    return errno == 0;
}

int os_thread_error(const char *what, struct err *e)
{
    return err_set(e, ERR_MEMORY, "cannot start %s: %s", what, strerror(errno));
}

void os_thread_background(void)
{
    /* Linux applies the priority to the calling thread, POSIX to the process. A thread of priority
     * 10 gets a tenth of the CPU time of a busy thread. */
    setpriority(PRIO_PROCESS, 0, 10);
}

int64_t time_wall_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

int file_numbers(const char *path, long long *a, long long *b)
{
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    int n = fscanf(f, "%lld %lld", a, b); /* check: numbers of the kernel */
    fclose(f);
    return n < 0 ? 0 : n;
}

/* Map zeroed pages without reserving swap. Large blocks are mapped with one extra huge page, and
 * the unaligned ends are unmapped: the kernel uses huge pages only for aligned addresses. */
void *os_alloc(size_t n_byte)
{
    bool huge = n_byte >= 2 * HUGE_PAGE;
    size_t n = n_byte ? n_byte : 1, extra = huge ? HUGE_PAGE : 0;
    if (n > SIZE_MAX - extra) return NULL;
    uint8_t *p = mmap(NULL, n + extra, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (!huge) return p;
    /* Align to a huge page and unmap the memory before and after. */
    size_t before = -(uintptr_t)p % HUGE_PAGE, page = (size_t)sysconf(_SC_PAGESIZE);
    size_t end = (before + n + page - 1) / page * page;
    if (before) munmap(p, before);
    if (end < n + extra) munmap(p + end, n + extra - end);
    return advise_huge(p + before, n);
}

void os_free(void *p, size_t n_byte)
{
    if (p) munmap(p, n_byte ? n_byte : 1);
}

void os_populate(void *p, size_t n_byte)
{
#ifdef MADV_POPULATE_WRITE
    size_t before = (uintptr_t)p % (size_t)sysconf(_SC_PAGESIZE);
    madvise((uint8_t *)p - before, n_byte + before, MADV_POPULATE_WRITE);
#else
    (void)p, (void)n_byte;
#endif
}

static _Atomic uint64_t memory_limit, memory_planned; /* limits in bytes; 0: no limit */

/* limits of this thread in a scope */
static _Thread_local struct {
    bool begun;
    uint64_t limit, planned;
} scope;

void os_memory_scope(bool begin)
{
    scope.begun = begin;
    scope.limit = scope.planned = 0;
}

static uint64_t limit_now(void)
{
    return scope.begun ? scope.limit : atomic_load(&memory_limit);
}

void os_memory_limit(uint64_t n_byte, uint64_t n_planned)
{
    if (scope.begun) {
        scope.limit = n_byte;
        scope.planned = n_planned;
        return;
    }
    atomic_store(&memory_planned, n_planned);
    atomic_store(&memory_limit, n_byte);
}

bool os_memory_limited(void)
{
    return limit_now() > 0;
}

/* Return the part of n free bytes that the limit allows. */
static uint64_t within_limit(uint64_t n)
{
    uint64_t limit = limit_now(),
             taken = scope.begun ? scope.planned : atomic_load(&memory_planned);
    int64_t own = limit ? os_memory_own() : 0;
    if (own > 0 && (uint64_t)own > taken) taken = (uint64_t)own;
    if (!limit) return n;
    uint64_t left = limit > taken ? limit - taken : 0;
    return left < n ? left : n;
}

uint64_t os_memory_bytes(void)
{
    struct cgroup_memory group;
    uint64_t n = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    cgroup_memory(&group, &cgroup_here);
    if (group.limit < n) n = group.limit;
    uint64_t limit = limit_now();
    return limit && limit < n ? limit : n;
}

int64_t os_cpu_us(void)
{
    return clock_us(CLOCK_PROCESS_CPUTIME_ID);
}

/* Subtract field 3 of statm (shared pages) from field 2 (resident pages). The difference excludes
 * the mapped file of weights, which the kernel can drop. */
int64_t os_memory_own(void)
{
    long long n_page, n_file;
    if (scope.begun) return 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return -1;
    int n = fscanf(f, "%*d %lld %lld", &n_page, &n_file); /* check: numbers of the kernel */
    fclose(f);
    return n == 2 ? (int64_t)(n_page - n_file) * sysconf(_SC_PAGESIZE) : -1;
}

/* Sum the packages' counters of RAPL. Return -1 without permission or without the counters. The
 * counters wrap around. */
int64_t os_energy_uj(void)
{
    int64_t sum = -1;
    for (int i = 0; i < 16; i++) {
        char path[64];
        long long uj, unused;
        snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%d/energy_uj", i);
        if (file_numbers(path, &uj, &unused) >= 1) sum = (sum < 0 ? 0 : sum) + uj;
    }
    return sum;
}

/* Return the last level's size. sysconf returns 0 for levels that do not exist. */
uint64_t os_cache_bytes(void)
{
    static const int level[] = {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE,
                                _SC_LEVEL2_CACHE_SIZE};
    for (size_t i = 0; i < sizeof level / sizeof level[0]; i++) {
        long n = sysconf(level[i]);
        if (n > 0) return (uint64_t)n;
    }
    return 0;
}

uint64_t os_random(void)
{
    uint64_t x;
    if (getrandom(&x, sizeof x, 0) == sizeof x) return x;
    int64_t now[2] = {time_us(), time_wall_us()}; /* fallback for a kernel without getrandom */
    return hash_bytes(now, sizeof now, (uint64_t)(uintptr_t)&x);
}

/* Read MemAvailable, which includes file pages that the kernel can drop. Assume half of the
 * physical memory if /proc does not exist. */
uint64_t os_memory_free(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f) return os_memory_bytes() / 2;
    char line[128];
    unsigned long long kb = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kb) == 1) break; /* check: the kernel's */
    fclose(f);
    uint64_t n = (uint64_t)kb * 1024;
    struct cgroup_memory group;
    cgroup_memory(&group, &cgroup_here);
    return within_limit(group.room < n ? group.room : n);
}

/* Return n if the limit is sufficient or unknown, otherwise the limit. */
int64_t os_open_files(int64_t n)
{
    struct rlimit r;
    rlim_t want = (rlim_t)n;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0) return n;
    if (r.rlim_cur < want) {
        struct rlimit more = {.rlim_cur = r.rlim_max < want ? r.rlim_max : want,
                              .rlim_max = r.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &more) == 0) r = more;
    }
    return r.rlim_cur < want ? (int64_t)r.rlim_cur : n;
}

void os_return_memory(void)
{
#ifdef M_MMAP_THRESHOLD
    /* without this call, glibc raises the threshold to the size of the largest freed block */
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    /* without this call, glibc unmaps and maps blocks of at least 128 KiB again for each request */
    mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
#endif
}

void os_trim_memory(void)
{
#ifdef M_MMAP_THRESHOLD
    /* free() returns only the end of an arena; a small used block at the end prevents the return */
    malloc_trim(0);
#endif
}
