/* fuzz.c - main of build/fuzz (fuzz.h): a seeded mutator. Equal seeds give equal inputs.
 *
 * The mutations often reveal parser bugs. They are bit flips, special integers of 1 to 8 bytes,
 * truncation, and deleted, duplicated, moved and spliced ranges. Half of all edits are in the first
 * 1 kB, because most bugs are in the parsing of headers. */
#include "fuzz.h"
#include "../../src/base/buf.h"
#include "../../src/base/os.h"
#include "../../src/base/rng.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_BYTES_MAX = 1 << 20 };

static struct fuzz_target *all;
static struct buf input;
static const char *target_name;
static long n_accepted;

void fuzz_register(struct fuzz_target *t)
{
    t->next = all;
    all = t;
}

void fuzz_accepted(void)
{
    n_accepted++;
}

const char *fuzz_file(const uint8_t *data, size_t n, const char *extension)
{
    static char path[128];
    snprintf(path, sizeof path, "/dev/shm/quoth-fuzz-%d%s", (int)getpid(), extension);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n) {
        perror(path);
        exit(2);
    }
    close(fd);
    return path;
}

static struct {
    char path[64];
    const char *file[4]; /* names of the files, static [n_file] */
    int n_file;
} folder;

/* Write the path of a file of the folder. */
static void folder_path(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", folder.path, name);
}

static void remove_folder(void)
{
    char path[128];
    for (int i = 0; i < folder.n_file; i++) {
        folder_path(path, folder.file[i]);
        unlink(path);
    }
    rmdir(folder.path);
}

const char *fuzz_folder(void)
{
    if (folder.path[0]) return folder.path;
    snprintf(folder.path, sizeof folder.path, "/dev/shm/quoth-fuzz-folder-%d", (int)getpid());
    if (mkdir(folder.path, 0700) != 0) abort();
    atexit(remove_folder);
    return folder.path;
}

void fuzz_put(const char *name, const void *data, size_t n)
{
    char path[128];
    struct err e;
    int i = 0;
    fuzz_folder();
    while (i < folder.n_file && strcmp(folder.file[i], name) != 0) i++;
    if (i == sizeof folder.file / sizeof folder.file[0]) abort();
    if (i == folder.n_file) folder.file[folder.n_file++] = name;
    folder_path(path, name);
    if (file_write(path, data, n, &e) != 0) abort();
}

static void save_crash(int sig)
{
    char path[128];
    snprintf(path, sizeof path, "build/fuzz-crash-%s", target_name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0 && write(fd, input.data, input.n) >= 0) close(fd);
    fprintf(stderr, "fuzz %s: signal %d, input saved as %s\n", target_name, sig, path);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Handle a sanitizer's exit. Called by sanitizers. */
void __asan_on_error(void);
void __asan_on_error(void)
{
    save_crash(SIGABRT);
}

static size_t place(uint64_t *rng)
{
    size_t span = input.n;
    if (span > 1024 && rng_below(rng, 2)) span = 1024;
    return rng_below(rng, span);
}

static void write_integer(uint64_t *rng)
{
    static const uint64_t interesting[] = {
        0,           1,          7,          8,         0x7F,       0x80,       0xFF,
        0x100,       0x7FFF,     0x8000,     0xFFFF,    0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
        0x100000000, 1ull << 40, 1ull << 62, INT64_MAX, 1ull << 63, UINT64_MAX};
    uint64_t v = interesting[rng_below(rng, sizeof interesting / sizeof interesting[0])];
    if (rng_below(rng, 4) == 0) v = rng_next(rng);
    size_t width = (size_t)1 << rng_below(rng, 4), at = place(rng);
    if (at + width <= input.n) memcpy(input.data + at, &v, width);
}

static void edit_range(uint64_t *rng, const struct buf *other)
{
    size_t at = place(rng), len = 1 + rng_below(rng, 1 + rng_below(rng, 256));
    if (len > input.n - at) len = input.n - at;
    switch (rng_below(rng, 4)) {
    case 0: /* delete a range */
        memmove(input.data + at, input.data + at + len, input.n - at - len);
        input.n -= len;
        break;
    case 1: /* duplicate a range */
        if (!buf_room(&input, len)) break;
        memmove(input.data + at + len, input.data + at, input.n - at);
        input.n += len;
        break;
    case 2: { /* copy a range over another place */
        size_t to = place(rng);
        if (len > input.n - to) len = input.n - to;
        memmove(input.data + to, input.data + at, len);
        break;
    }
    case 3: { /* insert a range of another file */
        if (other->n == 0) break;
        size_t from = rng_below(rng, other->n);
        if (len > other->n - from) len = other->n - from;
        memcpy(input.data + at, other->data + from, len);
        break;
    }
    }
}

static void mutate(uint64_t *rng, const struct buf *seed, const struct buf *other)
{
    buf_clear(&input);
    buf_add(&input, seed->data, seed->n);
    int n_edit = 1 << rng_below(rng, 5);
    for (int i = 0; i < n_edit && input.n > 0; i++) {
        switch (rng_below(rng, 8)) {
        case 0:
        case 1:
            input.data[place(rng)] ^= (char)(1 << rng_below(rng, 8));
            break;
        case 2:
            input.data[place(rng)] = (char)rng_next(rng);
            break;
        case 3:
        case 4:
        case 5:
            write_integer(rng);
            break;
        case 6:
            edit_range(rng, other);
            break;
        case 7:
            if (rng_below(rng, 8) == 0) input.n = rng_below(rng, input.n);
            break;
        }
    }
}

static struct fuzz_target *find(const char *name)
{
    for (struct fuzz_target *t = all; t; t = t->next)
        if (strcmp(t->name, name) == 0) return t;
    return NULL;
}

static int usage(void)
{
    fprintf(stderr, "usage: fuzz NAME [-n COUNT] [-t SECONDS] [-s SEED] FILE...\ntargets:");
    for (struct fuzz_target *t = all; t; t = t->next) fprintf(stderr, " %s", t->name);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct fuzz_target *t = argc > 1 ? find(argv[1]) : NULL;
    if (!t) return usage();
    target_name = t->name;
    long n_max = 100000;
    double t_max = 0;
    uint64_t rng = 1;
    VEC(struct buf) corpus = {0};
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "-n") && i + 1 < argc)
            n_max = atol(argv[++i]); /* check: unchecked, because this is a test tool */
        else if (!strcmp(argv[i], "-t") && i + 1 < argc)
            t_max = strtod(argv[++i], NULL), n_max = 1L << 60;
        else if (!strcmp(argv[i], "-s") && i + 1 < argc)
            rng = strtoull(argv[++i], NULL, 0);
        else {
            struct buf b = {0};
            struct err e;
            if (file_read(&b, argv[i], 1u << 30, &e) != 0)
                return fprintf(stderr, "%s\n", e.text), 2;
            if (b.n > INPUT_BYTES_MAX) b.n = INPUT_BYTES_MAX;
            if (!vec_push(&corpus, b)) return 2;
        }
    }
    if (corpus.n == 0) return usage();
    signal(SIGSEGV, save_crash), signal(SIGABRT, save_crash), signal(SIGFPE, save_crash),
        signal(SIGBUS, save_crash);
    int64_t start = time_us();
    long n = 0;
    for (; n < n_max && (t_max == 0 || (double)(time_us() - start) * 1e-6 < t_max); n++) {
        mutate(&rng, &corpus.v[rng_below(&rng, corpus.n)], &corpus.v[rng_below(&rng, corpus.n)]);
        t->run((const uint8_t *)input.data, input.n);
    }
    printf("fuzz %s: %ld inputs, %ld accepted, %.1f s\n", t->name, n, n_accepted,
           (double)(time_us() - start) * 1e-6);
    for (size_t i = 0; i < corpus.n; i++) buf_deinit(&corpus.v[i]);
    vec_deinit(&corpus);
    buf_deinit(&input);
    unlink(fuzz_file((const uint8_t *)"", 0, ""));
    return 0;
}
