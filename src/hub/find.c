/* find.c - find a model in its store. A model is found only if every file of its split or shards
 * has its blob.
 *
 * The files alone determine the result, and there is no index. A partial download has no blob under
 * its final name, so it is never found. The path of a GGUF is that of the first file of its split;
 * a folder of safetensors is the path of the snapshot. */
#include "hub_impl.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void hub_model_deinit(struct hub_model *m)
{
    hub_files_deinit(&m->file);
}

/* Set the error for a name without files. */
static int missing(const struct hub_name *n, struct err *e)
{
    char name[HUB_NAME_BYTES];
    hub_name_text(name, n);
    return err_set(e, ERR_MISSING, "%s: not found on this machine", name);
}

/* Return the modification time of a file, microseconds; 0 if unknown. */
static int64_t modified(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) return 0;
    return (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
}

/* A link's target is "../../blobs/HASH". */
void read_hash(char out[static HUB_HASH_BYTES], const char *link)
{
    char target[HUB_PATH_BYTES];
    ssize_t n = readlink(link, target, sizeof target - 1);
    *out = 0;
    if (n <= 0) return;
    target[n] = 0;
    const char *slash = strrchr(target, '/');
    if (slash && is_hash(slash + 1)) snprintf(out, HUB_HASH_BYTES, "%s", slash + 1);
}

/* Append a file of a snapshot (walk_fn). Links without a blob are omitted. A file with an invalid
 * name, which another program may have downloaded, does not hide the model. */
static int add_file(void *files, const char *path, const char *name, struct err *e)
{
    struct hub_files *f = files;
    char hash[HUB_HASH_BYTES];
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
    if (!files_is_path(name, strlen(name))) {
        f->n_omitted++;
        return 0;
    }
    read_hash(hash, path);
    return files_add(f, name, strlen(name), hash, (uint64_t)st.st_size, e);
}

int snapshot_files(struct hub_files *f, const char *folder, struct err *e)
{
    return walk(folder, add_file, f, e);
}

/* Set the commit of the revision. A revision may also be a commit. Return false if the cache has no
 * reference of the revision. */
static bool read_reference(struct hub_model *m, const char *folder)
{
    char path[HUB_PATH_BYTES];
    struct buf text = {0};
    bool ok = false;
    if (is_hex(m->name.revision, 40)) {
        snprintf(m->commit, sizeof m->commit, "%.40s", m->name.revision);
        return true;
    }
    if (path_put(path, NULL, "%s/refs/%s", folder, m->name.revision) == 0 && file_exists(path) &&
        file_read(&text, path, 256, NULL) == 0 && text.n >= 40) {
        ok = strspn(text.data, "0123456789abcdef") == 40;
        if (ok) snprintf(m->commit, sizeof m->commit, "%.40s", text.data);
        m->modified_us = modified(path);
    }
    buf_deinit(&text);
    return ok;
}

/* Find a model in the cache of huggingface_hub. */
static int find_hf(struct hub_model *m, struct err *e)
{
    char cache[HUB_PATH_BYTES], folder[HUB_PATH_BYTES];
    int first, rc = hf_cache(cache, e);
    if (rc == 0) rc = hf_folder(folder, cache, &m->name, e);
    if (rc != 0) return rc;
    if (!read_reference(m, folder)) return missing(&m->name, e);
    rc = path_put(m->root, e, "%s/snapshots/%s", folder, m->commit);
    if (rc != 0) return rc;
    if (!dir_exists(m->root)) return missing(&m->name, e);
    if (!m->modified_us) m->modified_us = modified(m->root);
    rc = snapshot_files(&m->file, m->root, e);
    if (rc != 0) return rc;
    rc = files_choose(&m->file, m->name.quant, &first, e);
    if (rc == ERR_MISSING) return missing(&m->name, e);
    if (rc != 0) return rc;
    m->n_byte = files_bytes(&m->file);
    return path_put(m->path, e, "%s%s%s", m->root, first < 0 ? "" : "/",
                    first < 0 ? "" : m->file.v[first].path);
}

/* Return true if each layer has a blob of the layer's size. */
static bool has_blobs(const struct hub_model *m)
{
    char path[HUB_PATH_BYTES];
    struct stat st;
    for (size_t i = 0; i < m->file.n; i++)
        if (path_put(path, NULL, "%s/sha256-%s", m->root, m->file.v[i].hash) != 0 ||
            stat(path, &st) != 0 || (uint64_t)st.st_size != m->file.v[i].n_byte)
            return false;
    return true;
}

/* Find a model in Ollama's store. */
static int find_ollama(struct hub_model *m, struct err *e)
{
    char store[HUB_PATH_BYTES], path[HUB_PATH_BYTES];
    struct buf text = {0};
    int model = 0, rc = ollama_store(store, e);
    if (rc == 0) rc = manifest_path(path, store, &m->name, e);
    if (rc == 0) rc = path_put(m->root, e, "%s/blobs", store);
    if (rc == 0 && !file_exists(path)) return missing(&m->name, e);
    if (rc == 0) rc = file_read(&text, path, MANIFEST_MAX, e);
    if (rc == 0) rc = manifest_read(&m->file, &model, text.data ? text.data : "", text.n, e);
    buf_deinit(&text);
    if (rc != 0) return rc;
    if (!has_blobs(m)) return missing(&m->name, e);
    m->n_byte = files_bytes(&m->file);
    m->modified_us = modified(path);
    snprintf(m->commit, sizeof m->commit, "%s", m->file.v[model].hash);
    return path_put(m->path, e, "%s/sha256-%s", m->root, m->file.v[model].hash);
}

int hub_find(struct hub_model *out, const struct hub_name *n, struct err *e)
{
    *out = (struct hub_model){.name = *n};
    int rc = n->kind == HUB_HF ? find_hf(out, e) : find_ollama(out, e);
    if (rc != 0) hub_model_deinit(out);
    return rc;
}

int hub_find_advised(struct hub_model *out, const struct hub_name *n, struct err *e)
{
    char name[HUB_NAME_BYTES];
    int rc = hub_find(out, n, e);
    if (rc != ERR_MISSING) return rc;
    const struct err why = *e;
    hub_name_text(name, n);
    return err_set(e, rc, "%s; get it by: quoth pull %s", why.text, name);
}
