/* Goal: a conversion with a failed allocation gives an error and no file, or the whole result.
 * Method: convert golden models in both directions. A random sample of the allocations fails; with
 * QUOTH_LONG=1, each one. */
#include "../alloc.h"
#include "../unit.h"

#include "../../src/base/log.h"
#include "../../src/base/os.h"
#include "../../src/session/session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALLOCATIONS_MAX = 1 << 20 };

/* Remove a file, or a folder of two levels. */
static void remove_all(const char *path)
{
    struct buf list = {0};
    struct err e;
    if (dir_exists(path) && dir_list(&list, path, &e) == 0)
        for (char *rest = list.data, *name; list.n && (name = strsep(&rest, "\n")) && *name;) {
            char inner[400];
            snprintf(inner, sizeof inner, "%s/%s", path, name);
            remove_all(inner);
        }
    buf_deinit(&list);
    if (dir_exists(path))
        rmdir(path);
    else
        unlink(path);
}

/* Return the number of items of a folder. */
static int count_items(const char *dir)
{
    struct buf list = {0};
    struct err e;
    int n = 0;
    if (dir_list(&list, dir, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    for (size_t i = 0; i < list.n; i++) n += list.data[i] == '\n';
    buf_deinit(&list);
    return n;
}

/* Convert a model with each sampled allocation failing once. dir: folder of the result alone. */
static void sweep(const char *from, const char *dir, uint64_t *rng)
{
    char out[300];
    struct backend *b;
    struct err e;
    int64_t n_case = 0;
    uint64_t n_all = ALLOCATIONS_MAX, n = test_stride(rng, 40) - 1;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    snprintf(out, sizeof out, "%s/out", dir);
    const struct convert_options o = {.backend = b, .out = out};
    for (bool hit = true; n < ALLOCATIONS_MAX && hit; n += test_stride(rng, 40), n_case++) {
        alloc_fail(n, 1);
        const int rc = session_convert(from, &o, &e);
        n_all = alloc_fail_end();
        hit = n_all > n;
        const bool made = file_exists(out) || dir_exists(out);
        if (made != (rc == 0))
            test_fail(__FILE__, __LINE__, "%s, allocation %llu: %d, %s", from,
                      (unsigned long long)n, rc, e.text);
        remove_all(out);
        if (count_items(dir) > 0)
            test_fail(__FILE__, __LINE__, "%s, allocation %llu: a part is left", from,
                      (unsigned long long)n);
    }
    test_sampled(n_case, (int64_t)n_all, "allocations");
    backend_close(b);
}

TEST(memory_of_a_conversion)
{
    static const char *const models[] = {"llama3",   "qwen3moe-fp8", "encoders/gemma-embedding",
                                         "cross/t5", "gemma4-moe",   "rwkv6",
                                         "rwkv7"};
    uint64_t rng = 3;
    log_silent = true;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char from[256], file[256], dir[64];
        struct backend *b;
        struct err e;
        snprintf(from, sizeof from, "tests/golden/%s", models[i]);
        snprintf(from, sizeof from, "%s", repo_path(from));
        snprintf(dir, sizeof dir, "convert-%zu", i);
        NEED_OK(dir_make(temp_path(dir), DIR_PRIVATE, &e), &e);
        sweep(from, temp_path(dir), &rng);
        snprintf(file, sizeof file, "%s.gguf", temp_path(dir));
        NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
        NEED_OK(session_convert(from, &(struct convert_options){.backend = b, .out = file}, &e),
                &e);
        backend_close(b);
        sweep(file, temp_path(dir), &rng);
    }
    log_silent = false;
}
