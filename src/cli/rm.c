/* rm.c - quoth rm: remove a model, and the files that no other model uses.
 *
 * The question has the default "no", and the text of the size. Without a terminal the command needs
 * --yes, so that a script cannot remove a model by accident. The freed size may be less than the
 * size of the model, because names of one commit share files. */
#include "cli.h"
#include "pull.h"

#include <stdio.h>
#include <unistd.h>

static bool yes;

static const struct option options[] = {
    FLAG_OPTION("yes", &yes, "remove the model without a question", .letter = 'y'),
    OPTIONS_END,
};

/* Return true if the user agrees. */
static bool agreed(const struct hub_model *m)
{
    char name[HUB_NAME_BYTES], size[24], question[HUB_NAME_BYTES + 60];
    hub_name_text(name, &m->name);
    snprintf(question, sizeof question, "Remove %s (%s)?", name, size_text(size, m->n_byte));
    return yes || confirmed(question, false);
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct hub_name n;
    struct hub_model m = {0};
    uint64_t n_byte = 0;
    char size[24];
    if (n_arg != 1) return fprintf(stderr, "quoth rm: usage: quoth rm NAME\n"), 2;
    if (hub_name_read(&n, arg[0], &e) != 0) return fprintf(stderr, "quoth rm: %s\n", e.text), 2;
    int rc = hub_find(&m, &n, &e);
    if (rc == 0 && !agreed(&m))
        rc = err_set(&e, ERR_ARG,
                     isatty(STDIN_FILENO) ? "nothing was removed"
                                          : "standard input is not a terminal; use --yes");
    hub_model_deinit(&m);
    if (rc == 0) rc = hub_remove(&n, &n_byte, &e);
    if (rc == 0) fprintf(stderr, "%s freed\n", size_text(size, n_byte));
    return rc ? fail("rm", &e) : 0;
}

const struct command command_rm = {
    .name = "rm",
    .summary = "remove a model of quoth list",
    .usage = "NAME [OPTIONS]",
    .detail = "Files that another model uses are kept. Names of one commit share the files of the "
              "commit.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
