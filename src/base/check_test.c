/* check_test.c - goal: a failed CHECK prints its place and values and ends the program. A CHECK
 * with a true condition has no effect. Method: run each CHECK in a separate process and read its
 * standard error. */
#include "check.h"

#include "../../tests/unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run a CHECK in a child process. Return the child's wait status. text [n] receives its output. */
static int in_child(int page, char *text, size_t n)
{
    int fd[2];
    if (pipe(fd) != 0) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd[1], 2);
        CHECK(page < 4, "page %d of %d", page, 4);
        _exit(7);
    }
    close(fd[1]);
    ssize_t got = 0, more = 0;
    while ((more = read(fd[0], text + got, n - 1 - (size_t)got)) > 0) got += more;
    text[got] = 0;
    close(fd[0]);
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

TEST(check_prints_values_and_aborts)
{
    char text[2000];
    int status = in_child(3, text, sizeof text);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    EXPECT_TEXT(text, "");
    status = in_child(9, text, sizeof text);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    EXPECT(strstr(text, "check_test.c:") && strstr(text, "page < 4") &&
           strstr(text, "page 9 of 4"));
}
