/* packed_test.c - goal: weights from the file have the bits of packing, and a truncated, changed or
 * foreign file is never used. Method: pack tensors of random bytes in memory and into the cache,
 * and load them from it. The file is then damaged in each of its parts. */
#include "../../../tests/unit.h"

#include "cpu_impl.h"

#include "base/cancel.h"
#include "base/log.h"
#include "base/rng.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_TENSOR = 4, K = 512 };

struct world {
    struct backend *b;
    struct filecache cache;
    struct weights_options options;
    uint8_t *rows[N_TENSOR];
    struct tensor tensor[N_TENSOR + 1]; /* the last tensor shares the first tensor's data */
    struct tensor *list[N_TENSOR + 1];
    struct weights *w;
    struct weights_info info;
    enum log_level log_level;
};

static const char *folder(void)
{
    static char dir[300];
    snprintf(dir, sizeof dir, "%s", temp_path("packed"));
    return dir;
}

static void remove_folder(void)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", folder());
    int status = system(command); /* check: the command is the test's own */
    if (status != 0) test_fail(__FILE__, __LINE__, "%s", command);
}

static void publish(struct world *w)
{
    static const enum qtype type[N_TENSOR] = {QT_q4_0, QT_q6_k, QT_f16, QT_q4_0};
    static const int64_t n_out[N_TENSOR] = {1500, 40, 33, 1024};
    static const char *const name[N_TENSOR] = {"embd", "up", "norm", "down"};
    for (int i = 0; i <= N_TENSOR; i++) {
        int k = i % N_TENSOR;
        w->tensor[i] = (struct tensor){
            .type = type[k], .n_out = n_out[k], .k = K, .data = w->rows[k], .name = name[k]};
        w->list[i] = &w->tensor[i];
    }
}

/* Make random tensors and an empty cache folder. */
static bool world_open(struct world *w)
{
    struct err e;
    uint64_t rng = 5;
    *w = (struct world){.cache = {.dir = folder()}, .options = {.key = {1, 2}}};
    w->options.cache = &w->cache;
    w->log_level = log_level_max;
    log_level_max = LOG_ERROR; /* do not print the expected warnings */
    remove_folder();
    for (int i = 0; i < N_TENSOR; i++) {
        w->rows[i] = malloc(1500 * K * 2);
        for (int k = 0; k < 1500 * K * 2; k++) w->rows[i][k] = (uint8_t)rng_next(&rng);
    }
    publish(w);
    return backend_open(&w->b, "cpu", &(struct backend_options){.n_thread = 2}, &e) == 0;
}

static void unload(struct world *w)
{
    if (w->b) w->b->op->weights_close(w->b, w->w);
    w->w = NULL;
    publish(w);
}

static void world_close(struct world *w)
{
    unload(w);
    backend_close(w->b);
    for (int i = 0; i < N_TENSOR; i++) free(w->rows[i]);
    log_level_max = w->log_level;
    remove_folder();
}

static int load(struct world *w)
{
    struct err e;
    unload(w);
    int rc = w->b->op->weights(w->b, &w->w, w->list, N_TENSOR + 1, &w->options, &w->info, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return rc;
}

/* Return all panels, tensor after tensor. The caller frees them. */
static uint8_t *panels(const struct world *w, size_t *n)
{
    uint8_t *out = malloc((size_t)w->info.n_byte + 1);
    *n = 0;
    for (int i = 0; i < N_TENSOR; i++) {
        struct panels p = cpu_panels(&w->tensor[i]);
        size_t n_byte = (size_t)(panel_count(p.n_out) * p.stride);
        memcpy(out + *n, p.data, n_byte);
        *n += n_byte;
    }
    EXPECT(w->tensor[N_TENSOR].data == w->tensor[0].data);
    return out;
}

/* Load the weights. Expect the given way of loading and the given panels. */
static void expect_load(struct world *w, enum weights_how how, const uint8_t *want, int line)
{
    size_t n;
    if (load(w) != 0) return;
    uint8_t *got = panels(w, &n);
    if (w->info.how != how || (int64_t)n != w->info.n_byte || memcmp(got, want, n) != 0)
        test_fail(__FILE__, line, "how is %d, not %d, or the panels differ", (int)w->info.how,
                  (int)how);
    free(got);
}

/* Write the path of the folder's only file to path [700]. Return false if there is no file, or
 * more than one. */
static bool the_file(char *path)
{
    int n = 0;
    DIR *d = opendir(folder());
    for (struct dirent *f; d && (f = readdir(d));) {
        if (f->d_name[0] == '.') continue;
        snprintf(path, 700, "%s/%s", folder(), f->d_name);
        n++;
    }
    if (d) closedir(d);
    return n == 1;
}

/* Rename the file to the name of a file from before the last system start. */
static void make_unsettled(void)
{
    char path[700], old[800];
    NEED(the_file(path));
    char *dot = strrchr(path, '.');
    NEED(dot && dot > path + strlen(folder()));
    snprintf(old, sizeof old, "%.*s.0123456789abcdef", (int)(dot - path), path);
    NEED(rename(path, old) == 0);
}

static struct buf slurp(const char *path)
{
    struct buf b = {0};
    struct err e;
    if (file_read(&b, path, 1 << 26, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return b;
}

TEST(packed_weights_are_kept_and_mapped)
{
    struct world w;
    size_t n;
    NEED(world_open(&w));
    w.options.cache = NULL;
    NEED(load(&w) == 0 && w.info.how == WEIGHTS_PACKED);
    uint8_t *want = panels(&w, &n);
    w.options.cache = &w.cache;
    expect_load(&w, WEIGHTS_KEPT, want, __LINE__);
    expect_load(&w, WEIGHTS_MAPPED, want, __LINE__);
    w.options.own = true;
    expect_load(&w, WEIGHTS_COPIED, want, __LINE__);
    w.options.own = false;
    make_unsettled();
    expect_load(&w, WEIGHTS_MAPPED, want, __LINE__);
    char path[700];
    /* the file was verified */
    EXPECT(the_file(path) && !strchr(strrchr(path, '/'), '.'));
    w.cache.n_byte_min = (uint64_t)n + 1;
    expect_load(&w, WEIGHTS_PACKED, want, __LINE__);
    w.cache.n_byte_min = (uint64_t)n;
    expect_load(&w, WEIGHTS_MAPPED, want, __LINE__);
    free(want);
    world_close(&w);
}

TEST(packed_weights_of_something_else_are_not_taken)
{
    /* Goal: a change of key, name, type, shape or order gives another file. */
    struct world w;
    NEED(world_open(&w));
    NEED(load(&w) == 0 && w.info.how == WEIGHTS_KEPT);
    for (int i = 0; i < 6; i++) {
        unload(&w);
        struct tensor *t = &w.tensor[3];
        if (i == 0) w.options.key[0]++;
        if (i == 1) w.options.key[1]++;
        if (i == 2) t->name = "gate";
        if (i == 3) t->type = QT_iq4_nl; /* blocks of the same size */
        if (i == 4) t->n_out = 512, t->k = 1024;
        if (i == 5) w.list[3] = &w.tensor[2], w.list[2] = t;
        struct err e;
        NEED_OK(w.b->op->weights(w.b, &w.w, w.list, N_TENSOR + 1, &w.options, &w.info, &e), &e);
        if (w.info.how != WEIGHTS_KEPT)
            test_fail(__FILE__, __LINE__, "change %d was not detected", i);
        w.options.key[0] = 1, w.options.key[1] = 2;
    }
    NEED(load(&w) == 0 && w.info.how == WEIGHTS_MAPPED);
    world_close(&w);
}

/* Write the file's bytes with a change. Expect that loading repacks the weights and replaces the
 * file. */
static void expect_replaced(struct world *w, const struct buf *good, size_t n, size_t at,
                            const uint8_t *want, int line)
{
    char path[700];
    struct err e;
    unload(w);
    if (!the_file(path)) test_fail(__FILE__, line, "no file");
    char *bytes = calloc(n + 1, 1);
    memcpy(bytes, good->data, n < good->n ? n : good->n);
    if (at < n) bytes[at] ^= 16;
    if (file_write(path, bytes, n, &e) != 0) test_fail(__FILE__, line, "%s", e.text);
    free(bytes);
    expect_load(w, WEIGHTS_KEPT, want, line);
    expect_load(w, WEIGHTS_MAPPED, want, line);
}

TEST(packed_files_that_are_spoiled_are_replaced)
{
    struct world w;
    size_t n;
    char path[700];
    NEED(world_open(&w));
    NEED(load(&w) == 0 && w.info.how == WEIGHTS_KEPT && the_file(path));
    uint8_t *want = panels(&w, &n);
    struct buf good = slurp(path);
    size_t head = 8 * 8, hashes = 8 * 5;
    NEED(good.n > n + head + hashes);
    for (size_t i = 0; i < head + hashes; i += 7)
        expect_replaced(&w, &good, good.n, i, want, __LINE__);
    static const size_t cut[] = {0, 63, 4096};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++)
        expect_replaced(&w, &good, cut[i], SIZE_MAX, want, __LINE__);
    expect_replaced(&w, &good, good.n - 1, SIZE_MAX, want, __LINE__);
    expect_replaced(&w, &good, good.n + 1, SIZE_MAX, want, __LINE__);
    /* panels are only verified if a power failure may have damaged the file */
    unload(&w);
    NEED(the_file(path));
    FILE *f = fopen(path, "r+");
    NEED(f && fseek(f, (long)good.n - 100, SEEK_SET) == 0 && fputc('x', f) == 'x' &&
         fclose(f) == 0);
    NEED(load(&w) == 0 && w.info.how == WEIGHTS_MAPPED);
    make_unsettled();
    expect_load(&w, WEIGHTS_KEPT, want, __LINE__);
    expect_load(&w, WEIGHTS_MAPPED, want, __LINE__);
    buf_deinit(&good);
    free(want);
    world_close(&w);
}

static int verify(struct world *w, enum weights_verdict *v)
{
    struct err e;
    unload(w);
    return w->b->op->weights_verify(w->b, v, w->list, N_TENSOR + 1, &w->options, &e);
}

TEST(packed_weights_are_verified_tensor_by_tensor)
{
    struct world w;
    enum weights_verdict v[N_TENSOR + 1];
    char path[700];
    NEED(world_open(&w));
    EXPECT_INT(verify(&w, v), ERR_MISSING);
    NEED(load(&w) == 0 && w.info.how == WEIGHTS_KEPT);
    EXPECT_INT(verify(&w, v), 0);
    for (int i = 0; i <= N_TENSOR; i++) EXPECT_INT(v[i], WEIGHTS_SAME);
    /* the model changed, but not its key */
    w.rows[1][7] ^= 1;
    EXPECT_INT(verify(&w, v), 0);
    for (int i = 0; i <= N_TENSOR; i++) EXPECT_INT(v[i], i == 1 ? WEIGHTS_DIFFERENT : WEIGHTS_SAME);
    EXPECT(!the_file(path));
    NEED(load(&w) == 0 && w.info.how == WEIGHTS_KEPT && the_file(path));
    FILE *f = fopen(path, "r+");
    NEED(f && fseek(f, 8192, SEEK_SET) == 0 && fputc('x', f) == 'x' && fclose(f) == 0);
    EXPECT_INT(verify(&w, v), 0);
    for (int i = 0; i <= N_TENSOR; i++)
        EXPECT_INT(v[i], i % N_TENSOR == 0 ? WEIGHTS_DAMAGED : WEIGHTS_SAME);
    EXPECT(!the_file(path));
    NEED(load(&w) == 0 && the_file(path) && truncate(path, 5000) == 0);
    EXPECT_INT(verify(&w, v), ERR_FORMAT);
    EXPECT(!the_file(path));
    world_close(&w);
}

TEST(packed_weights_do_without_a_cache_that_cannot_be)
{
    /* Goal: the panels are equal and in memory if a folder cannot be made or has too little
     * space. */
    struct world w;
    size_t n;
    NEED(world_open(&w));
    NEED(load(&w) == 0);
    uint8_t *want = panels(&w, &n);
    remove_folder();
    w.cache.bytes_max = 1000;
    expect_load(&w, WEIGHTS_PACKED, want, __LINE__);
    w.cache = (struct filecache){.dir = "/proc/packed"};
    expect_load(&w, WEIGHTS_PACKED, want, __LINE__);
    w.cache = (struct filecache){0};
    expect_load(&w, WEIGHTS_PACKED, want, __LINE__);
    free(want);
    world_close(&w);
}

/* Return the number of files in the folder, also of temporary ones. */
static int n_files(void)
{
    int n = 0;
    DIR *d = opendir(folder());
    for (struct dirent *f; d && (f = readdir(d));)
        n += strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0;
    if (d) closedir(d);
    return n;
}

static atomic_bool cancel_now;

/* Cancel the work at its first report. */
static void cancel_progress(void *ctx, uint64_t done, uint64_t n)
{
    (void)ctx, (void)done, (void)n;
    cancel_now = true;
}

/* Load the weights of a thread whose work is cancelled, before the load or at its first report.
 * Expect ERR_BUSY and n files in the cache. */
static void expect_cancelled(struct world *w, bool at_once, int n)
{
    struct err e = {0};
    unload(w);
    cancel_now = at_once;
    cancel_flag = &cancel_now;
    const int rc = w->b->op->weights(w->b, &w->w, w->list, N_TENSOR + 1, &w->options, &w->info, &e);
    cancel_flag = NULL;
    EXPECT_INT(rc, ERR_BUSY);
    EXPECT_INT(n_files(), n);
    unload(w);
}

TEST(packed_weights_of_a_cancelled_load_leave_no_file)
{
    struct world w;
    if (!world_open(&w)) return;
    w.options.progress = cancel_progress;
    for (int own = 0; own < 2; own++) {
        w.options.own = own;
        w.options.cache = NULL;
        for (int at_once = 0; at_once < 2; at_once++) expect_cancelled(&w, at_once, 0);
        w.options.cache = &w.cache;
        for (int at_once = 0; at_once < 2; at_once++) expect_cancelled(&w, at_once, 0);
    }
    /* a cancelled copy from the cache leaves the file */
    w.options.progress = NULL;
    w.options.own = false;
    EXPECT_INT(load(&w), 0);
    EXPECT_INT(w.info.how, WEIGHTS_KEPT);
    w.options.own = true;
    w.options.progress = cancel_progress;
    for (int at_once = 0; at_once < 2; at_once++) expect_cancelled(&w, at_once, 1);
    w.options.progress = NULL;
    EXPECT_INT(load(&w), 0);
    EXPECT_INT(w.info.how, WEIGHTS_COPIED);
    world_close(&w);
}
