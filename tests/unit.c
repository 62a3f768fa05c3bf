/* unit.c - main of build/unit (unit.h). The last line is "N passed, N failed, N skipped".
 *
 * With -jN, the tests run in N workers, which are processes. The parent sends a test's index to an
 * idle worker and receives the verdict. A worker's output goes to a file in memory. The parent
 * prints it as one block. A test that ends its worker has failed, and a new worker runs the
 * remaining tests. Tests marked TEST_ALONE follow in one worker. */
#include "unit.h"

#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKER_MAX = 64 };
enum verdict { PASSED, FAILED, SKIPPED, N_VERDICT };

struct worker {
    pid_t pid;        /* 0: not started */
    int link;         /* socket: indexes of tests to the worker, verdicts from it */
    int out;          /* file with the worker's stdout and stderr, not yet printed */
    struct test *now; /* borrowed; the running test, NULL if idle */
};

static struct test *all;
static bool failed_now, skipped_now;
static char temp_dir[64];

void test_register(struct test *t)
{
    struct test **at = &all;
    while (*at && (strcmp((*at)->file, t->file) < 0 || strcmp((*at)->file, t->file) == 0))
        at = &(*at)->next;
    t->next = *at;
    *at = t;
}

void test_fail(const char *file, int line, const char *fmt, ...)
{
    failed_now = true;
    va_list ap;
    va_start(ap, fmt);
    printf("  %s:%d: ", file, line);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
}

void test_skip(const char *fmt, ...)
{
    skipped_now = true;
    va_list ap;
    va_start(ap, fmt);
    printf("  skipped: ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
}

void test_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("  ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
}

static const char *path_under(const char *env, const char *fallback, const char *relative)
{
    static char ring[8][1024];
    static int next;
    const char *root = getenv(env);
    char *path = ring[next++ % 8];
    snprintf(path, sizeof ring[0], "%s/%s", root ? root : fallback, relative);
    return access(path, R_OK) == 0 ? path : NULL;
}

const char *data_path(const char *relative)
{
    return path_under("QUOTH_DATA", "../shared/data", relative);
}

const char *repo_path(const char *relative)
{
    return path_under("QUOTH_ROOT", ".", relative);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void temp_remove(void)
{
    nftw(temp_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *temp_path(const char *name)
{
    static char path[256];
    if (!temp_dir[0]) {
        strcpy(temp_dir, "/tmp/quoth-unit-XXXXXX"); /* check: the constant fits into the array */
        if (!mkdtemp(temp_dir)) exit(2);
        atexit(temp_remove);
    }
    snprintf(path, sizeof path, "%s/%s", temp_dir, name);
    return path;
}

bool temp_put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s", temp_path(name));
    for (char *p = path + strlen(temp_dir) + 1; *p; p++)
        if (*p == '/') *p = 0, mkdir(path, 0700), *p = '/';
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

bool test_long(void)
{
    const char *on = getenv("QUOTH_LONG");
    return on && *on && strcmp(on, "0") != 0;
}

uint64_t test_stride(uint64_t *rng, uint64_t mean)
{
    return test_long() ? 1 : 1 + rng_below(rng, 2 * mean - 1);
}

void test_sampled(int64_t n, int64_t of, const char *what)
{
    if (n < of) test_note("sampled: %lld of %lld %s", (long long)n, (long long)of, what);
    if (n < 1) test_fail(__FILE__, __LINE__, "no %s were tested", what);
}

static bool chosen(const struct test *t, int n, char **filter)
{
    for (int i = 0; i < n; i++)
        if (strstr(t->name, filter[i]) || strstr(t->file, filter[i])) return true;
    return n == 0;
}

/* Return the first filter that matches no test; NULL if none. */
static const char *idle_filter(int n, char **filter)
{
    for (int i = 0; i < n; i++) {
        const struct test *t = all;
        while (t && !chosen(t, 1, filter + i)) t = t->next;
        if (!t) return filter[i];
    }
    return NULL;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Return the processor time of this process and of its children that have ended. */
static double processor_seconds(void)
{
    double s = 0;
    for (int children = 0; children < 2; children++) {
        struct rusage u;
        getrusage(children ? RUSAGE_CHILDREN : RUSAGE_SELF, &u);
        s += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec);
        s += (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
    }
    return s;
}

/* Run a test and print its line. */
static enum verdict run(const struct test *t)
{
    failed_now = skipped_now = false;
    double start = seconds(), used = processor_seconds();
    t->run();
    double took = seconds() - start;
    used = processor_seconds() - used;
    const char *word = failed_now ? "FAIL" : skipped_now ? "skip" : "ok";
    if (took >= 0.1 || used >= 0.1)
        printf("%-4s %s (%.1f s, processor %.1f s)\n", word, t->name, took, used);
    else
        printf("%-4s %s\n", word, t->name);
    return failed_now ? FAILED : skipped_now ? SKIPPED : PASSED;
}

/* Run the tests that the parent requests, until it closes the link. */
static _Noreturn void work(int link)
{
    for (struct test *t; read(link, &t, sizeof t) == sizeof t;) {
        int verdict = run(t);
        fflush(NULL);
        if (write(link, &verdict, sizeof verdict) != sizeof verdict) break;
    }
    exit(0);
}

static void worker_start(struct worker *w)
{
    int ends[2];
    w->out = memfd_create("unit", MFD_CLOEXEC);
    if (w->out < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        perror("unit"), exit(2);
    w->link = ends[0];
    fflush(NULL);
    w->pid = fork();
    if (w->pid < 0) perror("unit: fork"), exit(2);
    if (w->pid > 0) {
        close(ends[1]);
        return;
    }
    close(ends[0]);
    fcntl(w->out, F_SETFL, O_APPEND);
    dup2(w->out, STDOUT_FILENO);
    dup2(w->out, STDERR_FILENO);
    work(ends[1]);
}

/* Print the worker's output, and empty its file. */
static void worker_print(const struct worker *w)
{
    char part[4096];
    ssize_t n;
    for (off_t at = 0; (n = pread(w->out, part, sizeof part, at)) > 0; at += n)
        fwrite(part, 1, (size_t)n, stdout);
    if (ftruncate(w->out, 0)) perror("unit: ftruncate"), exit(2);
    fflush(stdout);
}

/* Wait for a worker to end, and print its last output. Return false after a failure, for example if
 * a sanitizer found leaks. */
static bool worker_end(struct worker *w)
{
    shutdown(w->link, SHUT_RDWR); /* later workers have inherited the link */
    close(w->link);
    int status = 0;
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) continue;
    worker_print(w);
    close(w->out);
    if (status != 0)
        printf("FAIL %s (a worker ended with %s %d)\n", w->now ? w->now->name : "unit",
               WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    else if (w->now)
        printf("FAIL %s (it ended its worker)\n", w->now->name);
    bool ok = status == 0 && !w->now;
    *w = (struct worker){0};
    return ok;
}

/* Send the next of the chosen tests to the worker. Return false if none is left. */
static bool worker_next(struct worker *w, struct test **next, bool alone)
{
    while (*next && (!(*next)->chosen || (*next)->alone != alone)) *next = (*next)->next;
    if (!*next) return false;
    if (!w->pid) worker_start(w);
    w->now = *next;
    *next = w->now->next;
    if (write(w->link, &w->now, sizeof w->now) != sizeof w->now) perror("unit: write"), exit(2);
    return true;
}

/* Run the chosen tests that are marked as alone, or all other chosen tests, in n workers. */
static void run_parallel(int n, bool alone, int *n_verdict)
{
    struct worker w[WORKER_MAX] = {{0}};
    struct test *next = all;
    int n_busy = 0;
    for (int i = 0; i < n && worker_next(&w[i], &next, alone); i++) n_busy++;
    while (n_busy > 0) {
        struct pollfd fd[WORKER_MAX];
        for (int i = 0; i < n; i++) fd[i] = (struct pollfd){w[i].now ? w[i].link : -1, POLLIN, 0};
        if (poll(fd, (nfds_t)n, -1) < 0) continue;
        for (int i = 0; i < n; i++) {
            if (fd[i].fd < 0 || !fd[i].revents) continue;
            int verdict = FAILED;
            if (read(w[i].link, &verdict, sizeof verdict) == sizeof verdict) {
                worker_print(&w[i]);
                w[i].now = NULL;
            } else {
                worker_end(&w[i]);
            }
            n_verdict[verdict]++;
            if (!worker_next(&w[i], &next, alone)) n_busy--;
        }
    }
    for (int i = 0; i < n; i++)
        if (w[i].pid && !worker_end(&w[i])) n_verdict[FAILED]++;
}

/* Return the N of an argument -jN. 0 if it has another form. */
static int jobs(const char *arg)
{
    if (strncmp(arg, "-j", 2) != 0) return 0;
    char *end;
    long n = strtol(arg + 2, &end, 10);
    return n < 1 || *end ? 0 : n > WORKER_MAX ? WORKER_MAX : (int)n;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int n_verdict[N_VERDICT] = {0}, n_job = argc > 1 ? jobs(argv[1]) : 0;
    int n_filter = argc - 1 - (n_job > 0);
    const char *idle = idle_filter(n_filter, argv + argc - n_filter);
    if (idle) return fprintf(stderr, "unit: no test matches \"%s\"\n", idle), 2;
    for (struct test *t = all; t; t = t->next)
        t->chosen = chosen(t, n_filter, argv + argc - n_filter);
    if (n_job > 0) {
        run_parallel(n_job, false, n_verdict);
        run_parallel(1, true, n_verdict);
    } else {
        for (struct test *t = all; t; t = t->next)
            if (t->chosen) n_verdict[run(t)]++;
    }
    printf("%d passed, %d failed, %d skipped\n", n_verdict[PASSED], n_verdict[FAILED],
           n_verdict[SKIPPED]);
    return n_verdict[FAILED] > 0;
}
