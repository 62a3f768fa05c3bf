/* show.c - quoth show: the path, the files and the main properties of a model of quoth list.
 *
 * hub_find_advised gives the path and the files without opening the model. The architecture and the
 * number of parameters are in the header of the model. A model that quoth cannot open is also
 * shown, without these lines. */
#include "cli.h"
#include "pull.h"

#include "base/date.h"
#include "base/json_out.h"
#include "session/session.h"

#include <stdio.h>
#include <string.h>

static bool as_json;

static const struct option options[] = {
    FLAG_OPTION("json", &as_json, "one JSON object"),
    OPTIONS_END,
};

/* Properties of a model. arch is borrowed from the checkpoint. */
struct properties {
    const char *arch;
    char title[HUB_NAME_BYTES];
    int64_t n_param;
};

/* Read the properties. All fields are empty if quoth cannot open the model. A model without a name
 * in its files has the name on its hub as title, because its path is a hash. */
static struct properties read_properties(struct checkpoint **c, const struct hub_model *m)
{
    struct properties p = {0};
    struct err e;
    if (session_checkpoint(c, m->path, &session_flags, true, &e) != 0) return p;
    p.arch = meta_text(checkpoint_meta(*c, "general.architecture"), NULL);
    if (!p.arch) p.arch = meta_text(checkpoint_meta(*c, "config.model_type"), NULL);
    const char *title = meta_text(checkpoint_meta(*c, "general.name"), NULL);
    if (title && *title)
        snprintf(p.title, sizeof p.title, "%s", title);
    else
        hub_own_name(p.title, &m->name);
    for (int i = 0; i < checkpoint_n_tensor(*c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(*c, i);
        p.n_param += t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
    }
    return p;
}

/* Append the object of --json. Only chosen files are listed: a repository may have other files that
 * MODEL does not use. */
static void put_json(struct buf *b, const struct hub_model *m, const struct properties *p)
{
    struct json_out o = {.b = b};
    struct buf date = {0};
    char name[HUB_NAME_BYTES];
    hub_name_text(name, &m->name);
    date_put_iso(&date, m->modified_us);
    out_object(&o, NULL);
    out_word(&o, "name", name);
    out_word(&o, "path", m->path);
    out_word(&o, "commit", m->commit);
    out_word(&o, "modified", date.data);
    out_int(&o, "size", (int64_t)m->n_byte);
    out_word(&o, "architecture", p->arch);
    out_word(&o, "title", p->title);
    out_int(&o, "parameters", p->n_param);
    out_list(&o, "files");
    for (size_t i = 0; i < m->file.n; i++) {
        if (!m->file.v[i].chosen) continue;
        out_object(&o, NULL);
        out_word(&o, "path", m->file.v[i].path);
        out_int(&o, "size", (int64_t)m->file.v[i].n_byte);
        out_word(&o, "hash", m->file.v[i].hash);
        out_end(&o);
    }
    out_end(&o);
    out_end(&o);
    buf_add_char(b, '\n');
    b->failed |= date.failed;
    buf_deinit(&date);
}

/* Append the lines for people. The hashes are truncated to 12 digits, as in quoth list. */
static void put_text(struct buf *b, const struct hub_model *m, const struct properties *p)
{
    char name[HUB_NAME_BYTES], size[24];
    hub_name_text(name, &m->name);
    buf_addf(b, "name          %s\npath          %s\ncommit        %s\nmodified      ", name,
             m->path, m->commit);
    date_put_iso(b, m->modified_us);
    buf_addf(b, "\nsize          %s\n", size_text(size, m->n_byte));
    if (p->arch)
        buf_addf(b, "architecture  %s\ntitle         %s\nparameters    %.1f M\n", p->arch, p->title,
                 (double)p->n_param * 1e-6);
    buf_add_text(b, "files\n");
    for (size_t i = 0; i < m->file.n; i++)
        if (m->file.v[i].chosen)
            buf_addf(b, "  %8s  %.12s  %s\n", size_text(size, m->file.v[i].n_byte),
                     m->file.v[i].hash, m->file.v[i].path);
}

/* Run the command. A path is not a NAME here, because only models of a store have a commit. */
static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct hub_name n;
    struct hub_model m = {0};
    struct checkpoint *c = NULL;
    struct buf b = {0};
    if (n_arg != 1) return fprintf(stderr, "quoth show: usage: quoth show NAME\n"), 2;
    if (hub_name_read(&n, arg[0], &e) != 0) return fprintf(stderr, "quoth show: %s\n", e.text), 2;
    int rc = hub_find_advised(&m, &n, &e);
    if (rc == 0) {
        const struct properties p = read_properties(&c, &m);
        as_json ? put_json(&b, &m, &p) : put_text(&b, &m, &p);
        rc = print_out(&b, &e);
    }
    checkpoint_close(c);
    hub_model_deinit(&m);
    return rc ? fail("show", &e) : 0;
}

const struct command command_show = {
    .name = "show",
    .summary = "path, files and properties of a model of quoth list",
    .usage = "NAME [OPTIONS]",
    .detail = "quoth inspect NAME prints all metadata and tensors.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
