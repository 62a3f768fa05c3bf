/* main.c - find the subcommand, run it, and check that its output was written. Each command is a
 * file in cli/, bench/ or load/. */
#include "base/bus.h"
#include "cli/cli.h"
#include "option/option.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* Return true if the arguments belong to `quoth run`, because quoth pack made the program and the
 * first word is not a command. */
static bool is_run_alias(int argc, char **argv)
{
    if (argc > 1 && (is_help(argv[1]) || strcmp(argv[1], "--version") == 0)) return false;
    for (const struct command *const *c = commands_all(); argc > 1 && *c; c++)
        if (strcmp((*c)->name, argv[1]) == 0) return false;
    return program_is_app();
}

/* Return true if the reader of standard output has ended, as `head` does. */
static bool reader_left(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return errno == EPIPE || (poll(&p, 1, 0) > 0 && p.revents & POLLERR);
}

/* Flush standard output. Return the exit status: 1 instead of 0 if any output was lost. */
static int end_output(int rc)
{
    errno = 0;
    bool lost = fflush(stdout) != 0;
    lost |= ferror(stdout) != 0;
    if (!lost || reader_left()) return rc;
    fprintf(stderr, "quoth: standard output: cannot write: %s\n",
            errno ? strerror(errno) : "an earlier write failed");
    return rc ? rc : 1;
}

static int run(int argc, char **argv)
{
    static char **words; /* these data are valid until the program ends */
    words = is_run_alias(argc, argv) ? calloc((size_t)argc + 2, sizeof *words) : NULL;
    if (words) {
        words[0] = argv[0];
        words[1] = (char *)"run";
        if (argc > 1) memcpy(words + 2, argv + 1, (size_t)(argc - 1) * sizeof *words);
        argc++;
        argv = words;
    }
    if (argc < 2 || is_help(argv[1])) return help_all(commands_all()), argc < 2 ? 2 : 0;
    if (strcmp(argv[1], "--version") == 0) return printf("quoth %s\n", QUOTH_VERSION), 0;
    int n_word;
    const struct command *c = command_find(commands_all(), argc - 1, argv + 1, &n_word);
    if (!c) return 2;
    int n_arg = argc - 1 - n_word;
    char **arg = argv + 1 + n_word;
    if (c->sub) return help_command(c), n_arg > 0 && is_help(arg[0]) ? 0 : 2;
    struct err e = {0};
    int rc = options_parse(c, &n_arg, arg, &e);
    if (rc > 0) return 0;
    if (rc < 0) return fprintf(stderr, "quoth %s: %s\n", c->name, e.text), 2;
    if (c->prepare) c->prepare();
    options_notes();
    if (model_arguments(c, n_arg, arg, &e) != 0) return fail(c->name, &e);
    return c->run(n_arg, arg);
}

int main(int argc, char **argv)
{
    bus_catch();
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of file sizes fails with EFBIG */
    return end_output(run(argc, argv));
}
