/* unit.c - main of build/unit (unit.h). The last line is "N passed, N failed, N skipped". */
#include "unit.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
        strcpy(temp_dir, "/tmp/quoth-unit-XXXXXX"); /* check: the constant fits */
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

static bool chosen(const struct test *t, int n, char **filter)
{
    for (int i = 0; i < n; i++)
        if (strstr(t->name, filter[i]) || strstr(t->file, filter[i])) return true;
    return n == 0;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int n_passed = 0, n_failed = 0, n_skipped = 0;
    for (struct test *t = all; t; t = t->next) {
        if (!chosen(t, argc - 1, argv + 1)) continue;
        failed_now = skipped_now = false;
        double start = seconds();
        t->run();
        double took = seconds() - start;
        const char *word = failed_now ? "FAIL" : skipped_now ? "skip" : "ok";
        if (took >= 0.1)
            printf("%-4s %s (%.1f s)\n", word, t->name, took);
        else
            printf("%-4s %s\n", word, t->name);
        if (failed_now)
            n_failed++;
        else if (skipped_now)
            n_skipped++;
        else
            n_passed++;
    }
    printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed > 0;
}
