/* command.c - finding a command by its words, and how one fails; see option.h. */
#include "option.h"

#include <stdio.h>
#include <string.h>

/* "bench tokenize" -> "tokenize" */
static const char *last_word(const char *name)
{
    const char *space = strrchr(name, ' ');
    return space ? space + 1 : name;
}

static const struct command *find(const struct command *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(last_word((*list)->name), word) == 0) return *list;
    return NULL;
}

/* `of`: whose sub-commands, NULL for the commands themselves. */
static void report_unknown(const struct command *const *list, const struct command *of,
                           const char *word)
{
    const char *names[64];
    size_t n = 0;
    for (; list[n] && n < 64; n++) names[n] = last_word(list[n]->name);
    const char *near = nearest_name(word, names, n), *space = of ? " " : "",
               *name = of ? of->name : "";
    fprintf(stderr, "quoth%s%s: unknown command \"%s\"; ", space, name, word);
    if (near)
        fprintf(stderr, "did you mean \"%s\"?\n", near);
    else
        fprintf(stderr, "quoth help%s%s lists them\n", space, name);
}

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

int fail(const char *command, const struct err *e)
{
    fprintf(stderr, "quoth %s: %s\n", command, e->text);
    return 1;
}
