/* completion.c - quoth completion: a script that completes quoth's commands in a shell. */
#include "cli.h"

/* Run the command. The script has the words of all commands, so it needs no model and no start of
 * quoth for each Tab. */
static int run(int n_arg, char **arg)
{
    struct err e;
    if (n_arg == 1 && completion_print(commands_all(), arg[0])) return 0;
    err_set(&e, ERR_ARG, "SHELL: must be bash, zsh or fish%s%s", n_arg ? ", got " : "",
            n_arg ? arg[0] : "");
    return fail("completion", &e), 2;
}

static const struct option options[] = {OPTIONS_END};

const struct command command_completion = {
    .name = "completion",
    .summary = "print a shell script that completes commands, flags and values",
    .usage = "bash|zsh|fish",
    .detail =
        "bash: eval \"$(quoth completion bash)\" in ~/.bashrc. zsh: quoth completion zsh > "
        "~/.zfunc/_quoth, with ~/.zfunc in fpath before compinit. fish: quoth completion fish "
        "> ~/.config/fish/completions/quoth.fish.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
