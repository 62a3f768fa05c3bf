/* list.c - all models of both stores.
 *
 * A repository has a model for each reference, and for each number format of its GGUF files.
 * Snapshots without a reference have the commit as revision. The list omits incomplete entries, and
 * entries that no name can express. */
#include "hub_impl.h"

#include "base/log.h"
#include "base/os.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hub_models_deinit(struct hub_models *m)
{
    for (size_t i = 0; i < m->n; i++) hub_model_deinit(&m->v[i]);
    vec_deinit(m);
}

/* Return true if the list has a model with the path and revision. */
static bool has_path(const struct hub_models *out, const struct hub_model *m)
{
    for (size_t i = 0; i < out->n; i++)
        if (strcmp(out->v[i].path, m->path) == 0 &&
            strcmp(out->v[i].name.revision, m->name.revision) == 0)
            return true;
    return false;
}

/* Append the model of a name. Set *rc to ERR_MEMORY if memory is exhausted. Return false if there
 * is no such model, or if the list already has it. Also return false if the model is a folder, but
 * `is_file` is true. */
static bool add(struct hub_models *out, const struct hub_name *n, bool is_file, int *rc,
                struct err *e)
{
    char text[HUB_NAME_BYTES];
    struct hub_name again;
    struct hub_model m;
    hub_name_text(text, n);
    if (hub_name_read(&again, text, NULL) != 0) return false;
    int found = hub_find(&m, n, e);
    if (found == ERR_MEMORY) *rc = found;
    if (found != 0) return false;
    bool is_folder = strcmp(m.path, m.root) == 0;
    if ((is_folder && is_file) || (!is_folder && !is_file) || has_path(out, &m))
        return hub_model_deinit(&m), false;
    if (vec_push(out, m)) return true;
    hub_model_deinit(&m);
    *rc = err_memory(e, "models", sizeof m);
    return false;
}

/* Append the models of one snapshot: the folder, and each GGUF by its format. Append a GGUF by the
 * name of its file if several files have this format. */
static int add_snapshot(struct hub_models *out, const char *folder, struct hub_name *n,
                        const char *commit, struct err *e)
{
    char path[HUB_PATH_BYTES];
    struct hub_files f = {0};
    int rc = path_put(path, e, "%s/snapshots/%s", folder, commit);
    if (rc == 0) rc = snapshot_files(&f, path, e);
    *n->quant = 0;
    if (rc == 0) add(out, n, false, &rc, e);
    for (size_t i = 0; rc == 0 && i < f.n; i++) {
        const char *file = path_name(f.v[i].path);
        if (!gguf_label(n->quant, f.v[i].path) || add(out, n, true, &rc, e) || rc != 0) continue;
        if ((size_t)snprintf(n->quant, sizeof n->quant, "%s", file) < sizeof n->quant)
            add(out, n, true, &rc, e);
    }
    if (rc == 0 && f.n_omitted)
        log_warn("%s: left out files with control characters or a backslash in their names: %zu",
                 path, f.n_omitted);
    hub_files_deinit(&f);
    return rc == ERR_MEMORY ? rc : 0;
}

/* A repository whose references are visited. */
struct repo {
    struct hub_models *out; /* borrowed */
    struct hub_name name;
    char folder[HUB_PATH_BYTES];
    struct buf commits; /* commits with a reference, one per line; owned */
};

/* Append the models of a reference (walk_fn). */
static int add_reference(void *ctx, const char *path, const char *revision, struct err *e)
{
    struct repo *r = ctx;
    struct buf text = {0};
    int rc = 0;
    if (strlen(revision) < sizeof r->name.revision && file_read(&text, path, 256, NULL) == 0 &&
        text.n >= 40 && strspn(text.data, "0123456789abcdef") == 40) {
        text.data[40] = 0;
        snprintf(r->name.revision, sizeof r->name.revision, "%s", revision);
        buf_addf(&r->commits, "%s\n", text.data);
        rc = add_snapshot(r->out, r->folder, &r->name, text.data, e);
    }
    buf_deinit(&text);
    return rc;
}

/* Append the models of the snapshots without a reference. */
static int add_commits(struct repo *r, struct err *e)
{
    char path[HUB_PATH_BYTES];
    struct buf list = {0};
    int rc = path_put(path, e, "%s/snapshots", r->folder);
    if (rc == 0 && dir_exists(path)) rc = dir_list(&list, path, e);
    char *rest = list.data;
    for (char *commit; rc == 0 && rest && (commit = strsep(&rest, "\n"));) {
        if (!is_hex(commit, 40) || (r->commits.data && strstr(r->commits.data, commit))) continue;
        snprintf(r->name.revision, sizeof r->name.revision, "%s", commit);
        rc = add_snapshot(r->out, r->folder, &r->name, commit, e);
    }
    buf_deinit(&list);
    return rc == ERR_MEMORY ? rc : 0;
}

/* Append the models of a folder "models--ORG--REPO". */
static int add_repo(struct hub_models *out, const char *cache, const char *item, struct err *e)
{
    char refs[HUB_PATH_BYTES];
    struct repo r = {.out = out, .name = {.kind = HUB_HF, .revision = "main"}};
    static const char prefix[] = "models--";
    if (strncmp(item, prefix, sizeof prefix - 1) != 0) return 0;
    const char *repo = item + sizeof prefix - 1, *mark = strstr(repo, "--");
    int n = snprintf(r.name.repo, sizeof r.name.repo, "%.*s%s%s", mark ? (int)(mark - repo) : 0,
                     repo, mark ? "/" : "", mark ? mark + 2 : repo);
    if (n < 0 || (size_t)n >= sizeof r.name.repo) return 0;
    int rc = path_put(r.folder, e, "%s/%s", cache, item);
    if (rc == 0) rc = path_put(refs, e, "%s/refs", r.folder);
    if (rc == 0) rc = walk(refs, add_reference, &r, e);
    if (rc == 0) rc = add_commits(&r, e);
    buf_deinit(&r.commits);
    return rc == ERR_MEMORY ? rc : 0;
}

static int list_hf(struct hub_models *out, struct err *e)
{
    char cache[HUB_PATH_BYTES];
    struct buf list = {0};
    int rc = hf_cache(cache, e);
    if (rc == 0 && dir_exists(cache)) rc = dir_list(&list, cache, e);
    char *rest = list.data;
    for (char *item; rc == 0 && rest && (item = strsep(&rest, "\n"));)
        rc = add_repo(out, cache, item, e);
    buf_deinit(&list);
    return rc;
}

/* Append the model of a manifest HOST/NAMESPACE/NAME/TAG (walk_fn). */
static int add_manifest(void *models, const char *path, const char *name, struct err *e)
{
    char text[HUB_NAME_BYTES];
    struct hub_name n;
    struct hub_model m;
    const char *slash = strrchr(name, '/');
    (void)path;
    if (!slash || snprintf(text, sizeof text, "ollama:%.*s:%s", (int)(slash - name), name,
                           slash + 1) >= (int)sizeof text)
        return 0;
    if (hub_name_read(&n, text, NULL) != 0) return 0;
    int rc = hub_find(&m, &n, e);
    if (rc == ERR_MEMORY) return rc;
    if (rc != 0) return 0;
    if (vec_push((struct hub_models *)models, m)) return 0;
    hub_model_deinit(&m);
    return err_memory(e, "models", sizeof m);
}

int hub_list(struct hub_models *out, struct err *e)
{
    char store[HUB_PATH_BYTES], path[HUB_PATH_BYTES];
    int rc = list_hf(out, e);
    if (rc == 0) rc = ollama_store(store, e);
    if (rc == 0) rc = path_put(path, e, "%s/manifests", store);
    return rc ? rc : walk(path, add_manifest, out, e);
}
