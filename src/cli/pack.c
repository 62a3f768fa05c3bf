/* pack.c - quoth pack: this program and a model in one executable file. */
#include "cli.h"

#include "base/os.h"
#include "format/format.h"

#include <stdio.h>

static const char *out_path;

static const struct option options[] = {
    TEXT_OPTION("output", "FILE", &out_path, "the program to write", .letter = 'o'),
    OPTIONS_END,
};

static int run(int n_arg, char **arg)
{
    if (n_arg != 1 || !out_path)
        return fprintf(stderr, "quoth pack: usage: quoth pack MODEL.gguf -o FILE\n"), 2;
    struct err e = {0};
    return checkpoint_pack(os_self_path(), arg[0], out_path, &e) ? fail("pack", &e) : 0;
}

const struct command command_pack = {
    .name = "pack",
    .summary = "write this program and a model as one executable file",
    .usage = "MODEL.gguf -o FILE",
    .detail = "The new program's run and serve use that model when none is named. The model is "
              "mapped from there, not unpacked.",
    .options = options,
    .n_arg_max = 1,
    .run = run,
};
