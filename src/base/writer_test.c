/* Goal: a reader of the log never delays a thread that logs, and every written line is complete. */
#include "writer.h"

#include "buf.h"
#include "os.h"
#include "../../tests/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static bool open_pipe(int p[2])
{
    return pipe2(p, O_CLOEXEC) == 0 && fcntl(p[1], F_SETPIPE_SZ, 4096) > 0;
}

/* Read until the end or 200 ms of silence. */
static void read_all(struct buf *b, int fd)
{
    char piece[4096];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int quiet = 0; quiet < 200;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n == 0) return;
        if (n > 0) buf_add(b, piece, (size_t)n), quiet = 0;
        if (n < 0) usleep(1000), quiet++;
    }
}

TEST_ALONE(writer_drops_what_is_not_read)
{
    int p[2], n = 0;
    struct writer *w;
    struct err e;
    NEED(open_pipe(p) && writer_open(&w, p[1], 20000, &e) == 0);
    int64_t start = time_us();
    for (int i = 0; i < 2000; i++) {
        char line[64];
        n += writer_put(w, line, (size_t)snprintf(line, sizeof line, "line %04d %040d\n", i, 0));
    }
    EXPECT(time_us() - start < 1000000);
    EXPECT(n > 300 && n < 1000);
    EXPECT_INT(writer_n_lost(w), 2000 - n);
    struct buf b = {0};
    read_all(&b, p[0]);
    EXPECT(writer_put(w, "after\n", 6)); /* the line with the number of lost lines follows */
    read_all(&b, p[0]);
    buf_add_char(&b, 0);
    /* there are two gaps if the thread began to write after the buffer was full */
    int lines = 0, lost = 0;
    for (const char *s = b.data; *s; s = strchr(s, '\n') + 1) {
        const char *end = strchr(s, '\n'), *of = strstr(s, " lines of this log were lost");
        NEED(end);
        if (of && of < end) {
            while (of > s && of[-1] >= '0' && of[-1] <= '9') of--;
            lost += (int)strtol(of, NULL, 10);
            continue;
        }
        EXPECT(strncmp(s, "line ", 5) == 0 || strncmp(s, "after", 5) == 0);
        lines++;
    }
    EXPECT_INT(lines, n + 1);
    EXPECT_INT(lost, 2000 - n);
    writer_close(w, 1000);
    close(p[0]), close(p[1]);
    buf_deinit(&b);
}

TEST(writer_flush_waits_for_the_lines_but_not_for_ever)
{
    int p[2];
    struct writer *w;
    struct err e;
    char line[20];
    NEED(open_pipe(p) && writer_open(&w, p[1], 1 << 20, &e) == 0);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 100; i++) {
        EXPECT(writer_put(w, "one line\n", 9));
        writer_flush(w, 60000);
        EXPECT_INT(read(p[0], line, sizeof line), 9);
    }
    char long_line[8000];
    memset(long_line, 'x', sizeof long_line);
    long_line[sizeof long_line - 1] = '\n';
    EXPECT(writer_put(w, long_line, sizeof long_line)); /* more than the pipe's capacity */
    writer_flush(w, 20);
    writer_close(w, 0);
    close(p[0]), close(p[1]);
}

TEST_ALONE(writer_closes_before_a_reader_that_stopped)
{
    int p[2];
    struct writer *w;
    struct err e;
    NEED(open_pipe(p) && writer_open(&w, p[1], 1 << 20, &e) == 0);
    for (int i = 0; i < 1000; i++) writer_put(w, "a line that fills the pipe by and by\n", 37);
    int64_t start = time_us();
    writer_close(w, 200);
    EXPECT(time_us() - start < 1500000);
    close(p[0]), close(p[1]);
    NEED(open_pipe(p) && writer_open(&w, p[1], 1 << 20, &e) == 0);
    close(p[0]); /* the reader is closed */
    EXPECT(writer_put(w, "unread\n", 7));
    writer_close(w, 1000);
    close(p[1]);
}

#define LINE "thirty-nine bytes and a line feed: 41...\n"

TEST(writer_ends_a_line_that_was_cut)
{
    /* Method: limit the file to 100 bytes, as on a full disk. Then remove the limit. */
    const char *path = temp_path("log");
    int fd = open(path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
    struct writer *w;
    struct err e;
    struct buf b = {0};
    struct rlimit before, small;
    NEED(fd >= 0 && getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = (struct rlimit){.rlim_cur = 100, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = writer_open(&w, fd, 1 << 20, &e);
    for (int i = 0; rc == 0 && i < 4; i++) {
        writer_put(w, LINE, sizeof LINE - 1);
        for (int k = 0; k < 1000 && i == 3 && writer_n_lost(w) < 2; k++) usleep(1000);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_INT(rc, 0);
    EXPECT_INT(writer_n_lost(w), 2);
    writer_put(w, "there is room\n", 14);
    writer_close(w, 1000);
    NEED(file_read(&b, path, 10000, &e) == 0);
    static const char want[] = LINE LINE "thirty-nine bytes \nthere is room\n"
                                         "quoth: warning: 2 lines of this log were lost";
    EXPECT(strncmp(b.data, want, sizeof want - 1) == 0);
    buf_deinit(&b);
    close(fd);
    unlink(path);
}
