/* model_name.c - replace a MODEL that is a name of a hub by its path. No other file does so.
 *
 * main calls model_arguments before a command runs, so commands receive paths only.
 *
 * A command receives only paths, so a name is valid wherever a file is, also as the value of a
 * flag. The name is kept for clients (model_hub_name), because a path in Ollama's store ends with a
 * hash. */
#include "cli.h"
#include "pull.h"

#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A path and its name, owned. Path and name are never freed, because arguments point to them. */
struct named {
    char *path, *name;
    struct named *next;
};
static struct named *all;

/* Keep the path and the name of a model, and set *path to the kept path. */
static int keep(const struct hub_model *m, const char **path, struct err *e)
{
    struct named *n = calloc(1, sizeof *n);
    char text[HUB_NAME_BYTES];
    hub_own_name(text, &m->name);
    if (n) {
        n->path = strdup(m->path);
        n->name = strdup(text);
    }
    if (!n || !n->path || !n->name) return err_memory(e, "a path", sizeof *n);
    n->next = all;
    all = n;
    *path = n->path;
    return 0;
}

const char *model_hub_name(const char *path)
{
    for (const struct named *n = all; n; n = n->next)
        if (strcmp(n->path, path) == 0) return n->name;
    return NULL;
}

/* Download a missing model if --pull is given or the user agrees. */
static int pull_missing(struct hub_model *m, const struct hub_name *n, struct err *e)
{
    char name[HUB_NAME_BYTES], question[HUB_NAME_BYTES + 80];
    hub_name_text(name, n);
    snprintf(question, sizeof question, "%s is not on this machine. Download it?", name);
    if (!hub_offline() && (model_pulls() || confirmed(question, true)))
        return pull_shown(m, n, 0, e);
    return ERR_MISSING;
}

/* Warn of layers of an Ollama model that change its answers in Ollama, but not in quoth. */
static void warn_of_layers(const char *typed, const struct hub_model *m)
{
    char kinds[100];
    hub_unapplied(kinds, m);
    if (*kinds)
        log_warn("%.100s: ignored layers of the model: %s; flags can set their values", typed,
                 kinds);
}

int model_path(const char **path, struct err *e)
{
    struct hub_name n;
    struct hub_model m = {0};
    if (!hub_is_name(*path) || file_exists(*path) || dir_exists(*path)) return 0;
    int rc = hub_name_read(&n, *path, e);
    if (rc == 0) rc = hub_find_advised(&m, &n, e);
    if (rc == ERR_MISSING) rc = pull_missing(&m, &n, e);
    if (rc == 0) warn_of_layers(*path, &m);
    if (rc == 0) rc = keep(&m, path, e);
    hub_model_deinit(&m);
    return rc;
}

/* Replace the names in flags whose value is MODEL. */
static int flag_arguments(const struct option *table, struct err *e)
{
    int rc = 0;
    for (const struct option *o = table; o && o->kind != OPTION_END && rc == 0; o++) {
        if (o->kind == OPTION_GROUP)
            rc = flag_arguments(o->include, e);
        else if (o->kind == OPTION_TEXT && o->arg && strcmp(o->arg, "MODEL") == 0 &&
                 *(const char **)o->target)
            rc = model_path(o->target, e);
    }
    return rc;
}

int model_arguments(const struct command *c, int n_arg, char **arg, struct err *e)
{
    const char *model = n_arg > 0 && strstr(c->usage, "MODEL") ? arg[0] : NULL;
    int rc = model ? model_path(&model, e) : 0;
    if (model) arg[0] = (char *)model;
    return rc ? rc : flag_arguments(c->options, e);
}
