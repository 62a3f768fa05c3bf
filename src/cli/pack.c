/* pack.c - quoth pack: this program and a model in one executable file.
 *
 * The model is appended to the program, at a page boundary, and a trailer points to it
 * (format/pack.c). The new program finds the model by reading its own file. */
#include "cli.h"

#include "base/os.h"
#include "format/format.h"

#include <stdio.h>

static const char *out_path;
static bool plain;

static const struct option options[] = {
    TEXT_OPTION("output", "FILE", &out_path, "file of the new program", .letter = 'o'),
    FLAG_OPTION("plain", &plain,
                "make a program that lists the commands if no command is given, instead of running "
                "the model"),
    OPTIONS_END,
};

static int run(int n_arg, char **arg)
{
    if (n_arg != 1 || !out_path)
        return fprintf(stderr, "quoth pack: usage: quoth pack MODEL.gguf -o FILE\n"), 2;
    struct err e = {0};
    return checkpoint_pack(os_self_path(), arg[0], out_path, !plain, &e) ? fail("pack", &e) : 0;
}

bool program_is_app(void)
{
    return checkpoint_is_app(os_self_path());
}

const struct command command_pack = {
    .name = "pack",
    .summary = "write this program and a model as one executable file",
    .usage = "MODEL.gguf -o FILE",
    .detail = "The commands run and serve of the new program use the model by default. Without a "
              "command, the new program answers a text, or begins a chat at a terminal. The model "
              "is mapped from the program, not unpacked.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
