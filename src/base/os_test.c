/* os_test.c - tests of files, folders and clocks. */
#include "os.h"
#include "../../tests/unit.h"

#include <stdlib.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(os_file_write_read_map)
{
    /* Goal: a written file can be read and mapped. Writing again replaces it completely. */
    struct err e = {0};
    struct file_map m;
    struct buf b = {0};
    const char *path = temp_path("os.bin");
    NEED_OK(file_write(path, "longer than that", 16, &e), &e);
    NEED_OK(file_write(path, "a\0b", 3, &e), &e);
    NEED_OK(file_map_open(&m, path, &e), &e);
    EXPECT(m.n_byte == 3 && memcmp(m.data, "a\0b", 3) == 0);
    file_map_close(&m);
    file_map_close(&m);
    buf_add_text(&b, "x");
    NEED_OK(file_read(&b, path, 3, &e), &e);
    EXPECT(b.n == 4 && memcmp(b.data, "xa\0b", 5) == 0 && file_exists(path) && !dir_exists(path));
    EXPECT(file_read(&b, path, 2, &e) == ERR_LIMIT &&
           strstr(e.text, "os.bin: cannot read: larger"));
    buf_deinit(&b);
    NEED_OK(file_write(path, "", 0, &e), &e);
    NEED_OK(file_map_open(&m, path, &e), &e);
    EXPECT(!m.data && m.n_byte == 0);
    file_map_close(&m);
}

TEST(os_file_refusals)
{
    /* Goal: the error for a path that is not a regular file contains the path. Opening a FIFO does
     * not block. */
    struct err e = {0};
    struct file_map m;
    struct buf b = {0};
    char dir[300], fifo[300];
    snprintf(dir, sizeof dir, "%s", temp_path(""));
    snprintf(fifo, sizeof fifo, "%s", temp_path("fifo"));
    EXPECT(file_map_open(&m, "/nonexistent/x", &e) == ERR_IO && strstr(e.text, "/nonexistent/x"));
    EXPECT(file_map_open(&m, dir, &e) == ERR_IO && strstr(e.text, "not a regular file"));
    NEED(mkfifo(fifo, 0600) == 0);
    EXPECT(file_map_open(&m, fifo, &e) == ERR_IO && strstr(e.text, "not a regular file"));
    EXPECT(file_read(&b, dir, 100, &e) == ERR_IO &&
           file_read(&b, "/nonexistent/x", 100, &e) == ERR_IO);
    EXPECT(file_write("/nonexistent/x", "", 0, &e) == ERR_IO);
    EXPECT(!file_exists(dir) && dir_exists(dir) && !file_exists("/nonexistent/x"));
    buf_deinit(&b);
    unlink(fifo);
}

TEST(os_find_separates_absent_from_unusable)
{
    /* Goal: only a path that does not exist counts as absent. A link without a file, a loop of
     * links, a folder and a FIFO are errors with the path and the reason. */
    struct err e = {0};
    char dir[300], path[300];
    bool found = true;
    snprintf(dir, sizeof dir, "%s", temp_path(""));
    snprintf(path, sizeof path, "%s", temp_path("found"));
    EXPECT(file_find(&found, path, &e) == 0 && !found);
    EXPECT(dir_find(&found, path, &e) == 0 && !found);
    EXPECT(symlink("nowhere", path) == 0 && file_find(&found, path, &e) == ERR_IO);
    EXPECT(!found && strstr(e.text, "found: cannot open: No such file"));
    EXPECT(dir_find(&found, path, &e) == ERR_IO && unlink(path) == 0);
    EXPECT(symlink("found", path) == 0 && file_find(&found, path, &e) == ERR_IO);
    EXPECT(strstr(e.text, "found: cannot open: Too many levels") && unlink(path) == 0);
    EXPECT(mkfifo(path, 0600) == 0 && file_find(&found, path, &e) == ERR_IO);
    EXPECT(strstr(e.text, "not a regular file") && unlink(path) == 0);
    EXPECT(file_find(&found, dir, &e) == ERR_IO && strstr(e.text, "not a regular file"));
    EXPECT(dir_find(&found, dir, &e) == 0 && found);
    NEED_OK(file_write(temp_path("target"), "x", 1, &e), &e);
    EXPECT(symlink("target", path) == 0 && file_find(&found, path, &e) == 0 && found);
    EXPECT(dir_find(&found, path, &e) == ERR_IO && strstr(e.text, "not a folder"));
    EXPECT(chmod(path, 0) == 0 && (geteuid() == 0 || file_find(&found, path, &e) == ERR_IO));
    unlink(path);
}

TEST(os_dir_list_and_join)
{
    struct err e = {0};
    struct buf b = {0};
    char path[300], small[8];
    snprintf(path, sizeof path, "%s", temp_path("list"));
    NEED(mkdir(path, 0700) == 0);
    NEED_OK(file_write(temp_path("list/b"), "", 0, &e), &e);
    NEED_OK(file_write(temp_path("list/a"), "", 0, &e), &e);
    NEED_OK(file_write(temp_path("list/.c"), "", 0, &e), &e);
    NEED_OK(dir_list(&b, path, &e), &e);
    EXPECT_TEXT(b.data, "a\nb\n");
    buf_deinit(&b);
    unlink(temp_path("list/a")), unlink(temp_path("list/b")), unlink(temp_path("list/.c"));
    rmdir(path);
    EXPECT(dir_list(&b, path, &e) == ERR_IO && e.text[0]);
    EXPECT(path_join(small, sizeof small, "abc", "def") && strcmp(small, "abc/def") == 0);
    EXPECT(path_join(small, sizeof small, "ab/", "def") && strcmp(small, "ab/def") == 0);
    EXPECT(path_join(small, sizeof small, "", "def") && strcmp(small, "def") == 0);
    EXPECT(!path_join(small, sizeof small, "abcd", "def"));
}

TEST(os_system)
{
    int64_t a = time_us(), b = time_us();
    EXPECT(b >= a && time_wall_us() > 1700000000000000);
    EXPECT(os_memory_bytes() > 1 << 20 && os_memory_free() <= os_memory_bytes());
}

TEST(os_raises_the_limit_of_open_files)
{
    struct rlimit before, low, now;
    NEED(getrlimit(RLIMIT_NOFILE, &before) == 0 && before.rlim_max >= 200);
    low = (struct rlimit){.rlim_cur = 100, .rlim_max = before.rlim_max};
    NEED(setrlimit(RLIMIT_NOFILE, &low) == 0);
    EXPECT_INT(os_open_files(50), 50);
    EXPECT_INT(os_open_files(150), 150);
    NEED(getrlimit(RLIMIT_NOFILE, &now) == 0);
    EXPECT_INT((int64_t)now.rlim_cur, 150);
    if (before.rlim_max < 1 << 30) EXPECT_INT(os_open_files(1 << 30), (int64_t)before.rlim_max);
    setrlimit(RLIMIT_NOFILE, &before);
}

TEST(os_alloc_is_zeroed_and_given_back)
{
    /* Goal: blocks of any size are zeroed, writable to the end and returned completely. Method:
     * sizes near page and huge page boundaries, and a map of 64 GiB many times. */
    static const size_t sizes[] = {
        0, 1, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 6 << 20, (6 << 20) + 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        uint8_t *p = os_alloc(n);
        NEED(p && (uintptr_t)p % 4096 == 0);
        if (n >= 4 << 20) EXPECT((uintptr_t)p % (2 << 20) == 0);
        for (size_t k = 0; k < n; k += 1000) NEED(p[k] == 0);
        if (n) p[0] = p[n - 1] = 1;
        os_free(p, n);
    }
    for (int i = 0; i < 3000; i++) { /* the whole address space has 128 TiB */
        void *p = os_alloc(1ull << 36);
        NEED(p || i == 0);
        if (!p) SKIP("no room for a map of 64 GiB");
        os_free(p, 1ull << 36);
    }
    EXPECT(!os_alloc(SIZE_MAX) && !os_alloc(SIZE_MAX - (1 << 20)));
    os_free(NULL, 5);
}

TEST(os_counts_what_this_process_uses)
{
    /* Goal: work increases the CPU time, and written memory increases this process's own memory. */
    enum { N = 64 << 20 };
    int64_t cpu = os_cpu_us(), own = os_memory_own();
    volatile char *p = malloc(N);
    NEED(p && own > 0);
    for (int i = 0; i < N; i += 512) p[i] = 1;
    EXPECT(os_cpu_us() > cpu);
    EXPECT(os_memory_own() - own > N / 2);
    EXPECT(os_energy_uj() >= -1);
    free((void *)p);
}

TEST(os_memory_limit_bounds_what_may_be_planned)
{
    /* Goal: with a limit, total and free memory are those of a smaller machine. Removal of the
     * limit restores the previous values. */
    const uint64_t limit = 256 << 20;
    EXPECT(!os_memory_limited());
    os_memory_limit(limit, 0);
    EXPECT(os_memory_limited() && os_memory_bytes() == limit && os_memory_free() < limit);
    os_memory_limit(limit, limit - 100); /* planned memory that is not touched yet */
    EXPECT(os_memory_free() <= 100);
    os_memory_limit(limit, 2 * limit);
    EXPECT(os_memory_free() == 0);
    os_memory_limit(1ull << 60, 0); /* more than the machine's memory */
    EXPECT(os_memory_bytes() < 1ull << 60 && os_memory_free() <= os_memory_bytes());
    os_memory_limit(0, 0);
    EXPECT(!os_memory_limited() && os_memory_bytes() > limit);
}

static void *memory_of_other_thread(void *bytes)
{
    *(uint64_t *)bytes = os_memory_bytes();
    return NULL;
}

TEST(os_memory_scope_limits_one_thread)
{
    /* Goal: a limit in a scope has no effect on other threads, and ends with the scope. */
    const uint64_t all = os_memory_bytes(), part = 1 << 20;
    uint64_t other = 0;
    pthread_t thread;
    os_memory_scope(true);
    EXPECT(!os_memory_limited());
    os_memory_limit(part, part / 4);
    EXPECT(os_memory_limited() && os_memory_bytes() == part);
    EXPECT(os_memory_free() == part - part / 4); /* memory in use does not count */
    EXPECT_INT(os_memory_own(), 0);
    NEED(pthread_create(&thread, NULL, memory_of_other_thread, &other) == 0);
    pthread_join(thread, NULL);
    EXPECT(other > part);
    os_memory_scope(false);
    EXPECT(!os_memory_limited() && os_memory_bytes() == all && os_memory_own() > 0);
}
