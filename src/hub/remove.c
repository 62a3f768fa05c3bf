/* remove.c - remove a model, and the blobs that no other model uses.
 *
 * Names of one commit share its snapshot, so their files are removed together. The lock of the
 * store excludes pulls, whose blobs have no reference yet. */
#include "hub_impl.h"

#include "base/log.h"
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int unlink_file(const char *path, struct err *e)
{
    if (unlink(path) == 0 || errno == ENOENT) return 0;
    return err_set(e, ERR_IO, "%s: cannot remove: %s", path, strerror(errno));
}

/* Remove the blobs that no model uses, and add their sizes. */
static int remove_blobs(const struct hub_model *m, const char *format, const char *folder,
                        const bool *used, uint64_t *n_byte, struct err *e)
{
    char path[HUB_PATH_BYTES];
    struct stat st;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->file.n; i++) {
        const struct hub_file *f = &m->file.v[i];
        if (!f->chosen || used[i] || !*f->hash) continue;
        rc = path_put(path, e, "%s/blobs/%s%s", folder, format, f->hash);
        if (rc != 0 || stat(path, &st) != 0) continue;
        rc = unlink_file(path, e);
        if (rc == 0) *n_byte += (uint64_t)st.st_size;
    }
    return rc;
}

/* The users of the blobs of a model. */
struct users {
    const struct hub_model *m; /* borrowed */
    bool *used;                /* [m->file.n], owned */
};

static int users_open(struct users *u, const struct hub_model *m, struct err *e)
{
    *u = (struct users){m, calloc(m->file.n + 1, sizeof *u->used)};
    return u->used ? 0 : err_memory(e, "blobs", m->file.n);
}

/* ---- the cache of huggingface_hub ---- */

/* Mark the blob of a link (walk_fn). */
static int mark_link(void *ctx, const char *path, const char *name, struct err *e)
{
    struct users *u = ctx;
    char hash[HUB_HASH_BYTES];
    (void)name, (void)e;
    read_hash(hash, path);
    for (size_t i = 0; *hash && i < u->m->file.n; i++)
        u->used[i] |= strcmp(u->m->file.v[i].hash, hash) == 0;
    return 0;
}

/* Remove a reference to a removed snapshot (walk_fn). */
static int remove_reference(void *ctx, const char *path, const char *name, struct err *e)
{
    const struct hub_model *m = ctx;
    struct buf text = {0};
    (void)name;
    bool same = file_read(&text, path, 256, NULL) == 0 && text.n >= 40 &&
                strncmp(text.data, m->commit, 40) == 0;
    buf_deinit(&text);
    return same ? unlink_file(path, e) : 0;
}

/* Remove a file of an empty repository (walk_fn). */
static int remove_any(void *ctx, const char *path, const char *name, struct err *e)
{
    (void)name;
    int rc = unlink_file(path, e);
    remove_empty(path, ctx);
    return rc;
}

/* Remove the links of the model. Remove the snapshot and its references if the snapshot is then
 * empty. */
static int remove_links(struct hub_model *m, const char *folder, struct err *e)
{
    char path[HUB_PATH_BYTES], refs[HUB_PATH_BYTES];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->file.n; i++) {
        if (!m->file.v[i].chosen) continue;
        rc = path_put(path, e, "%s/%s", m->root, m->file.v[i].path);
        if (rc == 0) rc = unlink_file(path, e);
        if (rc == 0) remove_empty(path, folder);
    }
    if (rc == 0 && !dir_exists(m->root)) rc = path_put(refs, e, "%s/refs", folder);
    return rc || dir_exists(m->root) ? rc : walk(refs, remove_reference, m, e);
}

/* Remove the folders of a repository without snapshots: its partial files and locks. */
static int remove_repo(const char *cache, const char *folder, struct err *e)
{
    char path[HUB_PATH_BYTES];
    int rc = path_put(path, e, "%s/snapshots", folder);
    if (rc != 0 || dir_exists(path)) return rc;
    rc = walk(folder, remove_any, (void *)cache, e);
    if (rc == 0) rc = path_put(path, e, "%s/.locks/%s", cache, strrchr(folder, '/') + 1);
    if (rc == 0) rc = walk(path, remove_any, (void *)cache, e);
    if (rc != 0) return rc;
    static const char *const empty[] = {"blobs", "refs", "."};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (path_put(path, NULL, "%s/%s", folder, empty[i]) == 0) rmdir(path);
    rmdir(folder);
    return 0;
}

static int remove_hf(struct hub_model *m, const char *cache, uint64_t *n_byte, struct err *e)
{
    char folder[HUB_PATH_BYTES], snapshots[HUB_PATH_BYTES];
    struct users u = {0};
    int rc = hf_folder(folder, cache, &m->name, e);
    if (rc == 0) rc = path_put(snapshots, e, "%s/snapshots", folder);
    if (rc == 0) rc = remove_links(m, folder, e);
    if (rc == 0) rc = users_open(&u, m, e);
    if (rc == 0) rc = walk(snapshots, mark_link, &u, e);
    if (rc == 0) rc = remove_blobs(m, "", folder, u.used, n_byte, e);
    if (rc == 0) rc = remove_repo(cache, folder, e);
    free(u.used);
    return rc;
}

/* ---- Ollama's store ---- */

/* Mark the blobs whose hash is in the text of a manifest (walk_fn). Manifests that quoth cannot use
 * are included. A manifest that is too large to be read may use all blobs. */
static int mark_manifest(void *ctx, const char *path, const char *name, struct err *e)
{
    struct users *u = ctx;
    struct buf text = {0};
    (void)name;
    int rc = file_read(&text, path, MANIFEST_MAX, e);
    for (size_t i = 0; rc == 0 && text.n && i < u->m->file.n; i++)
        u->used[i] |= memmem(text.data, text.n, u->m->file.v[i].hash, 64) != NULL;
    if (rc == ERR_LIMIT) {
        log_warn("%s; the files of the removed model are kept", e->text);
        memset(u->used, 1, u->m->file.n * sizeof *u->used);
        rc = 0;
    }
    buf_deinit(&text);
    return rc;
}

static int remove_ollama(struct hub_model *m, const char *store, uint64_t *n_byte, struct err *e)
{
    char path[HUB_PATH_BYTES], manifests[HUB_PATH_BYTES];
    struct users u = {0};
    int rc = manifest_path(path, store, &m->name, e);
    if (rc == 0) rc = path_put(manifests, e, "%s/manifests", store);
    if (rc == 0) rc = users_open(&u, m, e);
    if (rc == 0) rc = unlink_file(path, e);
    if (rc == 0) remove_empty(path, manifests);
    if (rc == 0) rc = walk(manifests, mark_manifest, &u, e);
    if (rc == 0) rc = remove_blobs(m, "sha256-", store, u.used, n_byte, e);
    free(u.used);
    return rc;
}

int hub_remove(const struct hub_name *n, uint64_t *n_byte, struct err *e)
{
    char store[HUB_PATH_BYTES], lock[HUB_PATH_BYTES];
    struct hub_model m = {0};
    int fd = -1, rc = n->kind == HUB_HF ? hf_cache(store, e) : ollama_store(store, e);
    *n_byte = 0;
    if (rc == 0) rc = hub_find(&m, n, e);
    if (rc == 0) rc = path_put(lock, e, "%s/.locks/quoth.lock", store);
    if (rc == 0) rc = lock_open(&fd, lock, false, store, NULL, e);
    hub_model_deinit(&m);
    if (rc == 0) rc = hub_find(&m, n, e);
    if (rc == 0)
        rc = n->kind == HUB_HF ? remove_hf(&m, store, n_byte, e)
                               : remove_ollama(&m, store, n_byte, e);
    if (rc == 0 && m.file.n_omitted)
        log_warn("%s: kept files with control characters or a backslash in their names: %zu",
                 m.root, m.file.n_omitted);
    hub_model_deinit(&m);
    lock_close(fd);
    return rc;
}
