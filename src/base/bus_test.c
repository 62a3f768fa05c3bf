/* Goal: access to a map of a truncated file ends the program with a message, on every thread. A
 * detached map does not need its file. Method: a child reads past the end of a truncated file. */
#include "bus.h"
#include "os.h"

#include "../../tests/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 << 16, KEPT = 70000 };

/* Map a file of BYTES bytes. Byte i is i * 7 modulo 256. */
static void map_file(struct file_map *m, const char *path)
{
    struct err e;
    uint8_t *data = malloc(BYTES);
    NEED(data);
    for (int i = 0; i < BYTES; i++) data[i] = (uint8_t)(i * 7);
    NEED_OK(file_write(path, data, BYTES, &e), &e);
    NEED_OK(file_map_open(m, path, &e), &e);
    free(data);
}

static void *read_map(void *arg)
{
    const struct file_map *m = arg;
    _exit(2 + (*(volatile const uint8_t *)&m->data[KEPT] & 1));
}

/* Read on this thread, or on a thread of os_thread_start. */
static void read_cut_file(int out, const char *path, bool thread)
{
    struct file_map m;
    pthread_t reader;
    dup2(out, STDERR_FILENO);
    bus_catch();
    map_file(&m, path);
    if (truncate(path, 0) != 0) _exit(4);
    if (!thread) read_map(&m);
    if (os_thread_start(&reader, read_map, &m)) pthread_join(reader, NULL);
    _exit(5);
}

/* Read a map of a truncated file, in a child process, because SIGBUS ends it. Expect one sentence
 * with the path. */
static void check_cut_file(bool thread)
{
    int pipe_fd[2], status;
    char output[600] = "", path[300], want[400];
    size_t n = 0;
    snprintf(path, sizeof path, "%s", temp_path("cut.bin"));
    snprintf(want, sizeof want, "quoth: error: %s: cannot read: the file was truncated", path);
    NEED(pipe(pipe_fd) == 0);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) read_cut_file(pipe_fd[1], path, thread);
    close(pipe_fd[1]);
    for (ssize_t got; (got = read(pipe_fd[0], output + n, sizeof output - 1 - n)) > 0;)
        n += (size_t)got;
    close(pipe_fd[0]);
    NEED(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status));
    EXPECT_INT(WEXITSTATUS(status), 1);
    EXPECT(strncmp(output, want, strlen(want)) == 0);
}

TEST(bus_names_the_truncated_file)
{
    check_cut_file(false);
}

TEST(bus_names_the_truncated_file_of_a_thread)
{
    check_cut_file(true);
}

TEST(file_map_detached_needs_no_file)
{
    struct file_map m;
    struct err e;
    char path[300];
    snprintf(path, sizeof path, "%s", temp_path("detached.bin"));
    map_file(&m, path);
    const uint8_t *at = m.data;
    NEED_OK(file_map_detach(&m, KEPT, &e), &e);
    NEED(truncate(path, 0) == 0);
    EXPECT(m.data == at);
    for (int i = 0; i < KEPT; i++)
        if (m.data[i] != (uint8_t)(i * 7)) test_fail(__FILE__, __LINE__, "byte %d", i);
    file_map_release_pages(&m);
    EXPECT(m.data[5] == 35);
    NEED_OK(file_map_detach(&m, 10, &e), &e);
    file_map_close(&m);
}
