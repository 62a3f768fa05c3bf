/* command.c - find a command by its words, and report failures; see option.h. */
#include "option.h"

#include <stdio.h>
#include <string.h>

/* Return the last word of a command's name: "bench tokenize" -> "tokenize". */
static const char *last_word(const char *name)
{
    const char *space = strrchr(name, ' ');
    return space ? space + 1 : name;
}

/* Return the command with that last word; NULL if none. */
static const struct command *find(const struct command *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(last_word((*list)->name), word) == 0) return *list;
    return NULL;
}

/* Return a hint for another program's command; NULL if no other program has this command. */
static const char *foreign_command(const char *word)
{
    static const char *const hint[][2] = {
        {"download", "quoth pull NAME downloads a model"},
        {"push", "quoth does not upload models"},
        {"create", "quoth makes no models from other models; --system, --chat-template and the "
                   "sampling flags are quoth run's"},
        {"ls", "quoth list shows the models on this machine"},
        {"remove", "quoth rm NAME removes a model"},
        {"cp", "quoth makes no copies of models"},
        {"ps", "quoth top shows a running server"},
        {"stop", "SIGTERM (Ctrl-C) ends quoth serve after its responses in flight"},
        {"chat", "quoth run MODEL begins a chat at a terminal"},
        {"complete", "quoth run MODEL PROMPT --raw completes a prompt"},
        {"generate", "quoth run MODEL PROMPT --raw completes a prompt"},
        {"server", "quoth serve MODEL answers over HTTP"},
        {"run-batch", "quoth batch MODEL -i IN.jsonl -o OUT.jsonl answers a file of requests"},
        {"collect-env", "quoth bench roofline shows the limits of this machine"},
    };
    for (size_t i = 0; i < sizeof hint / sizeof hint[0]; i++)
        if (strcmp(hint[i][0], word) == 0) return hint[i][1];
    return NULL;
}

/* Report an unknown word. `of`: the command with these sub-commands; NULL: the list of all
 * commands. */
static void report_unknown(const struct command *const *list, const struct command *of,
                           const char *word)
{
    const char *names[64];
    size_t n = 0;
    for (; list[n] && n < 64; n++) names[n] = last_word(list[n]->name);
    const char *near = nearest_name(word, names, n), *space = of ? " " : "",
               *name = of ? of->name : "";
    fprintf(stderr, "quoth%s%s: unknown command \"%s\"; ", space, name, word);
    const char *hint = of ? NULL : foreign_command(word);
    if (hint)
        fprintf(stderr, "%s\n", hint);
    else if (!of && word[0] == '-')
        fprintf(
            stderr,
            "the first argument must be a command, got an option; quoth run -- \"...\" takes any "
            "prompt\n");
    else if (near)
        fprintf(stderr, "did you mean \"%s\"?\n", near);
    else
        fprintf(stderr, "quoth help%s%s lists them\n", space, name);
}

/* Report unknown words on standard error and return NULL. *n_word: words that the command's name
 * took. A flag after the first word is not a sub-command. */
const struct command *command_find(const struct command *const *list, int n, char **word,
                                   int *n_word)
{
    const struct command *c = find(list, word[0]);
    *n_word = 1;
    if (!c) report_unknown(list, NULL, word[0]);
    if (!c || !c->sub || n < 2 || word[1][0] == '-') return c;
    const struct command *sub = find(c->sub, word[1]);
    *n_word = 2;
    if (!sub) report_unknown(c->sub, c, word[1]);
    return sub;
}

/* Print and free a buffer. ERR_MEMORY if an append failed. Standard output is flushed, so that a
 * reader of a pipe gets each result immediately. */
int print_out(struct buf *take_b, struct err *e)
{
    int rc = take_b->failed ? err_memory(e, "the output", take_b->n) : 0;
    if (rc == 0 && take_b->n) fwrite(take_b->data, 1, take_b->n, stdout);
    fflush(stdout);
    buf_deinit(take_b);
    return rc;
}

/* Report a failure and return the exit status 1. */
int fail(const char *command, const struct err *e)
{
    fprintf(stderr, "quoth %s: %s\n", command, e->text);
    return 1;
}
