/* filecache_test.c - goal: a kept file is complete or missing after any failure of its process, and
 * the folder stays within its limits. Method: call the functions on a temporary folder. Other
 * processes are made by fork. */
#include "filecache.h"
#include "../../tests/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[300];

static struct filecache fresh(uint64_t bytes_max)
{
    char command[400];
    snprintf(dir, sizeof dir, "%s/kept", temp_path("filecache"));
    snprintf(command, sizeof command, "rm -rf '%s'", temp_path("filecache"));
    int status = system(command); /* check: the command is the test's own */
    if (status != 0) test_fail(__FILE__, __LINE__, "%s", command);
    return (struct filecache){.dir = dir, .bytes_max = bytes_max};
}

static void done(void)
{
    fresh(0);
}

static const char *in_dir(const char *entry)
{
    static char path[1000];
    return path_join(path, sizeof path, dir, entry) ? path : "";
}

static int n_entry(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n > 2 ? n - 2 : 0;
}

/* Make and keep a file of n bytes of value `fill`. Put its second part before its first part. */
static int keep(const struct filecache *c, const char *name, size_t n, char fill, struct err *e)
{
    struct filecache_file f;
    struct file_map m;
    int rc = filecache_begin(&f, c, name, n, e);
    if (rc != 0) return rc;
    char *data = malloc(n);
    memset(data, fill, n);
    rc = filecache_put(&f, n / 2, data, n - n / 2);
    if (rc == 0) rc = filecache_put(&f, 0, data, n / 2);
    EXPECT_INT(rc, 0);
    rc = filecache_keep(&f, &m, e);
    EXPECT(rc != 0 || (m.n_byte == n && memcmp(m.data, data, n) == 0));
    file_map_close(&m);
    free(data);
    return rc;
}

/* Return true if the file exists with n bytes of `fill`. */
static bool holds(const struct filecache *c, const char *name, size_t n, char fill, bool *settled)
{
    struct file_map m;
    struct err e;
    bool unused;
    int rc = filecache_open(&m, settled ? settled : &unused, c, name, &e);
    EXPECT(rc == 0 || rc == ERR_MISSING);
    if (rc != 0) return false;
    bool same = m.n_byte == n;
    for (size_t i = 0; i < n && same; i++) same = m.data[i] == (uint8_t)fill;
    file_map_close(&m);
    EXPECT(same);
    return same;
}

TEST(filecache_keeps_and_finds)
{
    struct filecache c = fresh(0);
    struct err e;
    bool settled = false;
    EXPECT(!holds(&c, "a", 1, 'a', NULL) && n_entry() == 0);
    NEED_OK(keep(&c, "a", 10000, 'a', &e), &e);
    NEED_OK(keep(&c, "ab", 20000, 'b', &e), &e);
    EXPECT(holds(&c, "a", 10000, 'a', &settled) && settled && holds(&c, "ab", 20000, 'b', NULL));
    NEED_OK(keep(&c, "a", 5000, 'c', &e), &e);
    EXPECT(holds(&c, "a", 5000, 'c', NULL));
    filecache_remove(&c, "a");
    EXPECT(!holds(&c, "a", 1, 'a', NULL) && holds(&c, "ab", 20000, 'b', NULL) && n_entry() == 1);
    done();
}

TEST(filecache_files_of_an_earlier_start_are_unsettled)
{
    struct filecache c = fresh(0);
    struct err e;
    bool settled = true;
    char now[1000], before[1000];
    NEED_OK(keep(&c, "a", 100, 'a', &e), &e);
    snprintf(before, sizeof before, "a.%016llx", (unsigned long long)os_boot_id());
    snprintf(now, sizeof now, "%s", in_dir(before));
    snprintf(before, sizeof before, "%s", in_dir("a.0123456789abcdef"));
    NEED(rename(now, before) == 0);
    EXPECT(holds(&c, "a", 100, 'a', &settled) && !settled);
    filecache_settle(&c, "a");
    EXPECT(holds(&c, "a", 100, 'a', &settled) && settled && file_exists(in_dir("a")));
    NEED(rename(in_dir("a"), before) == 0);
    filecache_remove(&c, "a");
    EXPECT(!holds(&c, "a", 1, 'a', NULL) && n_entry() == 0);
    done();
}

TEST(filecache_makes_room_from_what_was_used_longest_ago)
{
    struct filecache c = fresh(3 << 20);
    struct err e;
    enum { N = 1 << 20 };
    NEED_OK(keep(&c, "a", N, 'a', &e), &e);
    NEED_OK(keep(&c, "b", N, 'b', &e), &e);
    NEED_OK(keep(&c, "c", N, 'c', &e), &e);
    EXPECT(holds(&c, "a", N, 'a', NULL)); /* a was used last, so b is the oldest file */
    NEED_OK(keep(&c, "d", N, 'd', &e), &e);
    EXPECT(holds(&c, "a", N, 'a', NULL) && !holds(&c, "b", N, 'b', NULL) &&
           holds(&c, "c", N, 'c', NULL) && holds(&c, "d", N, 'd', NULL));
    EXPECT_INT(keep(&c, "e", 4 << 20, 'e', &e), ERR_LIMIT);
    EXPECT(strstr(e.text, dir) && strstr(e.text, "4.0 MiB") && strstr(e.text, "3.0 MiB"));
    EXPECT_INT(n_entry(), 3);
    NEED_OK(keep(&c, "f", 3 << 20, 'f', &e), &e);
    EXPECT_INT(n_entry(), 1);
    done();
}

static void make_old(const char *path)
{
    struct timespec t[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    if (utimensat(AT_FDCWD, path, t, 0) != 0) test_fail(__FILE__, __LINE__, "%s", path);
}

/* Return the name of the folder's only temporary file. */
static const char *temp_entry(void)
{
    static char name[300];
    DIR *d = opendir(dir);
    name[0] = 0;
    for (struct dirent *f; d && (f = readdir(d));)
        if (f->d_name[0] == '.' && strlen(f->d_name) > 2)
            snprintf(name, sizeof name, "%s", f->d_name);
    if (d) closedir(d);
    return name;
}

TEST(filecache_of_a_killed_process_leaves_nothing)
{
    struct filecache c = fresh(0);
    struct err e;
    struct filecache_file f;
    pid_t child = fork();
    if (child == 0) {
        if (filecache_begin(&f, &c, "a", 1 << 20, &e) != 0) _exit(1);
        filecache_put(&f, 0, "half", 4);
        _exit(0);
    }
    int status;
    NEED(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    EXPECT(n_entry() == 1 && !holds(&c, "a", 1, 'a', NULL));
    NEED_OK(keep(&c, "b", 100, 'b', &e), &e);
    EXPECT_INT(n_entry(), 2); /* the name is kept, because the file may be new */
    make_old(in_dir(temp_entry()));
    NEED_OK(filecache_begin(&f, &c, "c", 100, &e), &e);
    EXPECT_INT(n_entry(), 2);
    make_old(in_dir(temp_entry())); /* the name is kept, because its process runs */
    NEED_OK(keep(&c, "d", 100, 'd', &e), &e);
    EXPECT_INT(n_entry(), 3);
    filecache_abandon(&f);
    EXPECT_INT(n_entry(), 2);
    done();
}

TEST(filecache_processes_that_make_the_same_file_are_all_right)
{
    enum { N_CHILD = 4, N_TIME = 20, N = 300000 };
    struct filecache c = fresh(0);
    struct err e;
    pid_t child[N_CHILD];
    for (int i = 0; i < N_CHILD; i++)
        if ((child[i] = fork()) == 0) {
            int bad = 0;
            for (int k = 0; k < N_TIME && !bad; k++)
                bad = keep(&c, "a", N, 'a', &e) != 0 || !holds(&c, "a", N, 'a', NULL);
            _exit(bad);
        }
    for (int i = 0, status; i < N_CHILD; i++)
        EXPECT(child[i] > 0 && waitpid(child[i], &status, 0) == child[i] && status == 0);
    EXPECT(holds(&c, "a", N, 'a', NULL) && n_entry() == 1);
    done();
}

TEST(filecache_where_nothing_can_be_kept)
{
    /* Goal: the error message contains the folder and the reason, and no file is left. */
    struct filecache c = fresh(0);
    struct err e;
    struct filecache_file f;
    struct rlimit was;
    EXPECT_INT(filecache_begin(&f, &(struct filecache){0}, "a", 1, &e), ERR_MISSING);
    EXPECT(strstr(e.text, "HOME"));
    EXPECT_INT(filecache_begin(&f, &(struct filecache){.dir = "/proc/kept"}, "a", 1, &e), ERR_IO);
    EXPECT(strstr(e.text, "/proc/kept"));
    EXPECT_INT(filecache_begin(&f, &c, "a", 1ull << 60, &e), ERR_LIMIT);
    NEED(getrlimit(RLIMIT_FSIZE, &was) == 0);
    struct rlimit low = {.rlim_cur = 1 << 20, .rlim_max = was.rlim_max};
    NEED(setrlimit(RLIMIT_FSIZE, &low) == 0);
    EXPECT_INT(filecache_begin(&f, &c, "a", 2 << 20, &e), ERR_LIMIT);
    EXPECT(strstr(e.text, "ulimit"));
    NEED(setrlimit(RLIMIT_FSIZE, &was) == 0);
    EXPECT_INT(n_entry(), 0);
    done();
}

TEST(filecache_on_a_full_disk)
{
    /* Method: a file system of 1 MiB in a mount namespace of a child. */
    struct filecache c = fresh(0);
    struct err e;
    mkdir(temp_path("filecache"), 0700);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mkdir(dir, 0700) != 0 ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", dir, "tmpfs", 0, "size=1m") != 0)
            _exit(77);
        c.bytes_max = 1 << 30;
        bool ok = keep(&c, "a", 700000, 'a', &e) == 0 &&
                  keep(&c, "b", 2000000, 'b', &e) == ERR_LIMIT &&
                  holds(&c, "a", 700000, 'a', NULL) && keep(&c, "b", 900000, 'b', &e) == 0 &&
                  !holds(&c, "a", 700000, 'a', NULL) && holds(&c, "b", 900000, 'b', NULL);
        if (ok && mount("none", dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0)
            ok = holds(&c, "b", 900000, 'b', NULL) && keep(&c, "c", 1000, 'c', &e) == ERR_IO;
        _exit(ok ? 0 : 1);
    }
    int status;
    NEED(child > 0 && waitpid(child, &status, 0) == child);
    done();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) SKIP("this user cannot mount");
    EXPECT_INT(status, 0);
}

TEST(filecache_folder_by_the_environment)
{
    char out[100], cache[300], home[300];
    struct err e;
    snprintf(cache, sizeof cache, "%s", getenv("XDG_CACHE_HOME") ? getenv("XDG_CACHE_HOME") : "");
    snprintf(home, sizeof home, "%s", getenv("HOME") ? getenv("HOME") : "");
    setenv("HOME", "/h", 1), unsetenv("XDG_CACHE_HOME");
    EXPECT_INT(filecache_dir(out, sizeof out, "packed", &e), 0);
    EXPECT_TEXT(out, "/h/.cache/quoth/packed");
    /* the specification requires that a relative path is ignored */
    setenv("XDG_CACHE_HOME", "relative", 1);
    EXPECT(filecache_dir(out, sizeof out, "packed", &e) == 0 && strncmp(out, "/h/", 3) == 0);
    setenv("XDG_CACHE_HOME", "/x", 1);
    EXPECT(filecache_dir(out, sizeof out, "packed", &e) == 0 &&
           strcmp(out, "/x/quoth/packed") == 0);
    EXPECT_INT(filecache_dir(out, 10, "packed", &e), ERR_ARG);
    unsetenv("HOME"), unsetenv("XDG_CACHE_HOME");
    EXPECT_INT(filecache_dir(out, sizeof out, "packed", &e), ERR_MISSING);
    if (*cache) setenv("XDG_CACHE_HOME", cache, 1);
    if (*home) setenv("HOME", home, 1);
}
