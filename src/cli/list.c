/* list.c - quoth list: the models in the cache of huggingface_hub and in Ollama's store.
 *
 * Each store is scanned at each call. There is no index of quoth that could differ from the files,
 * because huggingface_hub and Ollama change their stores too. */
#include "cli.h"
#include "pull.h"

#include "base/date.h"
#include "base/json_out.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

static bool as_json;

static const struct option options[] = {
    FLAG_OPTION("json", &as_json, "print a JSON list of objects"),
    OPTIONS_END,
};

/* Append the object of a model. Size and time are exact, in contrast to the text. */
static void put_json(struct json_out *o, const struct hub_model *m)
{
    char name[HUB_NAME_BYTES];
    struct buf date = {0};
    hub_name_text(name, &m->name);
    date_put_iso(&date, m->modified_us);
    out_object(o, NULL);
    out_word(o, "name", name);
    out_int(o, "size", (int64_t)m->n_byte);
    out_word(o, "commit", m->commit);
    out_word(o, "modified", date.data);
    out_word(o, "path", m->path);
    out_end(o);
    o->b->failed |= date.failed;
    buf_deinit(&date);
}

/* Append the age of a model, such as "3 hours". */
static const char *age_text(char out[static 40], int64_t modified_us)
{
    static const struct {
        int64_t s;
        const char *name;
    } unit[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    const int64_t s = (time_wall_us() - modified_us) / 1000000;
    size_t i = 0;
    /* the largest unit of which the age has at least one */
    while (i < 3 && s < unit[i].s) i++;
    const int64_t n = s < 0 ? 0 : s / unit[i].s;
    snprintf(out, 40, "%lld %s%s ago", (long long)n, unit[i].name, n == 1 ? "" : "s");
    return out;
}

/* Append the row of a model. width: columns of the longest name. */
static void put_text(struct buf *b, const struct hub_model *m, int width)
{
    char name[HUB_NAME_BYTES], size[24], age[40];
    hub_name_text(name, &m->name);
    buf_addf(b, "%-*s  %8s  %.12s  %s\n", width, name, size_text(size, m->n_byte), m->commit,
             age_text(age, m->modified_us));
}

/* Print the table or the list. The output is written after it is complete. */
static int print(const struct hub_models *all, struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    char name[HUB_NAME_BYTES];
    int width = 4;
    for (size_t i = 0; i < all->n; i++) {
        hub_name_text(name, &all->v[i].name);
        if (width < (int)strlen(name)) width = (int)strlen(name);
    }
    if (as_json)
        out_list(&o, NULL);
    else
        buf_addf(&b, "%-*s  %8s  %-12s  %s\n", width, "NAME", "SIZE", "COMMIT", "MODIFIED");
    for (size_t i = 0; i < all->n; i++)
        as_json ? put_json(&o, &all->v[i]) : put_text(&b, &all->v[i], width);
    if (as_json) {
        out_end(&o);
        buf_add_char(&b, '\n');
    }
    return print_out(&b, e);
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct hub_models all = {0};
    (void)n_arg, (void)arg;
    int rc = hub_list(&all, &e);
    if (rc == 0) rc = print(&all, &e);
    hub_models_deinit(&all);
    return rc ? fail("list", &e) : 0;
}

const struct command command_list = {
    .name = "list",
    .summary = "models on this machine",
    .usage = "[OPTIONS]",
    .detail = "The list has the complete models of the cache of huggingface_hub and of Ollama's "
              "store. The names in the list are valid as MODEL.",
    .options = options,
    .run = run,
};
