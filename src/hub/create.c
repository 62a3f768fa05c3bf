/* create.c - new models of Ollama's store: a manifest with blobs that the store has, and new ones.
 *
 *   parts --blob_add--> blobs/sha256-HASH --.
 *   layers of another model ----------------+--> manifests/HOST/NAMESPACE/NAME/TAG
 *
 * The manifest is written last. The shared lock of the store excludes hub_remove. */
#include "hub_impl.h"

#include "base/json_out.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG_TYPE "application/vnd.docker.container.image.v1+json"

enum { LAYER_MAX = 1 << 20 }; /* maximum bytes of a layer with a text */

/* ---- blobs ---- */

/* Return the hash of "sha256:HASH" or "sha256-HASH"; NULL for another text. */
static const char *hash_of(const char *digest)
{
    const bool begins = strncmp(digest, "sha256:", 7) == 0 || strncmp(digest, "sha256-", 7) == 0;
    return begins && is_hex(digest + 7, 64) ? digest + 7 : NULL;
}

static int blob_path(char out[static HUB_PATH_BYTES], const char *digest, struct err *e)
{
    char store[HUB_PATH_BYTES];
    const char *hash = hash_of(digest);
    if (!hash)
        return err_field(e, ERR_ARG, "digest",
                         ": must be sha256: and 64 hexadecimal digits, got \"%.80s\"", digest);
    int rc = ollama_store(store, e);
    return rc ? rc : path_put(out, e, "%s/blobs/sha256-%s", store, hash);
}

int hub_blob(char out[static HUB_PATH_BYTES], const char *digest, struct err *e)
{
    int rc = blob_path(out, digest, e);
    if (rc != 0 || file_exists(out)) return rc;
    return err_set(e, ERR_MISSING, "blob \"%.80s\" not found", digest);
}

/* Write the SHA-256 of the data to out. */
static int hash_data(char out[static HUB_HASH_BYTES], const void *data, size_t n, struct err *e)
{
    struct digest d = {0};
    int rc = digest_open(&d, "", n, e);
    if (rc == 0 && (!digest_add(&d, data, n) || !digest_end(&d, out)))
        rc = err_memory(e, "a hash", 0);
    digest_close(&d);
    return rc;
}

/* Write a blob, whose content is on the disk before its name. */
static int write_blob(const char *path, const void *data, size_t n, struct err *e)
{
    struct partial p = {.fd = -1, .journal_fd = -1};
    int rc = parent_make(path, e);
    if (rc == 0) rc = partial_open(&p, path, n, e);
    if (rc == 0) rc = partial_write(&p, 0, data, n, e);
    if (rc == 0) rc = partial_keep(&p, e);
    partial_close(&p);
    return rc;
}

int hub_blob_add(const char *digest, const void *data, size_t n_byte, struct err *e)
{
    char path[HUB_PATH_BYTES], lock[HUB_PATH_BYTES], store[HUB_PATH_BYTES], hash[HUB_HASH_BYTES];
    int fd = -1, rc = blob_path(path, digest, e);
    if (rc == 0) rc = hash_data(hash, data, n_byte, e);
    if (rc == 0 && strcmp(hash, hash_of(digest)) != 0)
        rc = err_field(e, ERR_ARG, "digest", ": must be that of the data, sha256:%s, got \"%.80s\"",
                       hash, digest);
    if (rc == 0) rc = ollama_store(store, e);
    if (rc == 0) rc = path_put(lock, e, "%s/.locks/sha256-%s.lock", store, hash);
    if (rc == 0 && !file_exists(path)) rc = lock_open(&fd, lock, false, digest, NULL, e);
    if (rc == 0 && !file_exists(path)) rc = write_blob(path, data, n_byte, e);
    lock_close(fd);
    return rc;
}

int hub_layer(struct buf *out, const struct hub_model *m, const char *kind, size_t index,
              struct err *e)
{
    char path[HUB_PATH_BYTES];
    for (size_t i = 0; m->name.kind == HUB_OLLAMA && i < m->file.n; i++) {
        const char *own = layer_kind(m->file.v[i].path);
        if (!own || strcmp(own, kind) != 0 || index-- > 0) continue;
        int rc = path_put(path, e, "%s/sha256-%s", m->root, m->file.v[i].hash);
        return rc ? rc : file_read(out, path, LAYER_MAX, e);
    }
    return 0;
}

/* ---- the manifest ---- */

/* A manifest in progress: its layers, and its config. */
struct manifest {
    struct buf text;
    struct json_out o;
    char config[HUB_HASH_BYTES + 8];
    uint64_t n_config;
};

static void put_blob(struct json_out *o, const char *key, const char *type, const char *hash,
                     uint64_t n_byte)
{
    char digest[HUB_HASH_BYTES + 8];
    snprintf(digest, sizeof digest, "sha256:%s", hash);
    out_object(o, key);
    out_word(o, "mediaType", type);
    out_word(o, "digest", digest);
    out_int(o, "size", (int64_t)n_byte);
    out_end(o);
}

/* Add a layer, or the config. */
static void add_layer(struct manifest *m, const char *type, const char *hash, uint64_t n_byte)
{
    if (layer_kind(type)) {
        put_blob(&m->o, NULL, type, hash, n_byte);
    } else {
        snprintf(m->config, sizeof m->config, "%s", hash);
        m->n_config = n_byte;
    }
}

/* Add a part, whose text becomes a blob. */
static int add_part(struct manifest *m, const struct hub_part *p, struct err *e)
{
    char path[HUB_PATH_BYTES], type[100], hash[HUB_HASH_BYTES] = "", digest[HUB_HASH_BYTES + 8];
    struct stat st;
    const bool config = strcmp(p->kind, "config") == 0;
    if (p->text && p->n_byte > LAYER_MAX)
        return err_set(e, ERR_LIMIT, "%s: must have at most %d bytes, got %llu", p->kind, LAYER_MAX,
                       (unsigned long long)p->n_byte);
    int rc = p->text ? hash_data(hash, p->text, p->n_byte, e) : 0;
    snprintf(digest, sizeof digest, "sha256:%s", hash);
    if (rc == 0 && p->text) rc = hub_blob_add(digest, p->text, p->n_byte, e);
    if (rc == 0) rc = hub_blob(path, p->text ? digest : p->digest, e);
    if (rc == 0 && stat(path, &st) != 0) rc = err_set(e, ERR_IO, "%s: cannot open", path);
    if (rc != 0) return rc;
    snprintf(type, sizeof type, "%s%s", config ? CONFIG_TYPE : LAYER_TYPE, config ? "" : p->kind);
    add_layer(m, type, hash_of(p->text ? digest : p->digest), (uint64_t)st.st_size);
    return 0;
}

/* Return true if a part replaces the layers of this type. */
static bool replaced(const char *type, const struct hub_part *part, size_t n_part)
{
    const char *kind = layer_kind(type);
    for (size_t i = 0; i < n_part; i++)
        if (strcmp(kind ? kind : "config", part[i].kind) == 0) return true;
    return false;
}

static int build(struct manifest *m, const struct hub_model *from, const struct hub_part *part,
                 size_t n_part, struct err *e)
{
    int rc = 0;
    m->o = (struct json_out){.b = &m->text};
    out_object(&m->o, NULL);
    out_int(&m->o, "schemaVersion", 2);
    out_word(&m->o, "mediaType", ACCEPT_MANIFEST);
    out_list(&m->o, "layers");
    for (size_t i = 0; from && i < from->file.n; i++) {
        const struct hub_file *f = &from->file.v[i];
        if (!replaced(f->path, part, n_part)) add_layer(m, f->path, f->hash, f->n_byte);
    }
    for (size_t i = 0; rc == 0 && i < n_part; i++) rc = add_part(m, &part[i], e);
    out_end(&m->o);
    put_blob(&m->o, "config", CONFIG_TYPE, m->config, m->n_config);
    out_end(&m->o);
    return rc || !m->text.failed ? rc : err_memory(e, "a manifest", m->text.n);
}

int hub_create(const struct hub_name *to, const struct hub_model *from, const struct hub_part *part,
               size_t n_part, struct err *e)
{
    char store[HUB_PATH_BYTES], lock[HUB_PATH_BYTES], path[HUB_PATH_BYTES];
    struct manifest m = {0};
    struct hub_model made = {0};
    int fd = -1, rc = ollama_store(store, e);
    if (to->kind != HUB_OLLAMA || (from && from->name.kind != HUB_OLLAMA))
        return err_set(e, ERR_ARG, "the model must be one of Ollama's store");
    if (rc == 0) rc = path_put(lock, e, "%s/.locks/quoth.lock", store);
    if (rc == 0) rc = lock_open(&fd, lock, true, store, NULL, e);
    /* hub_remove may have removed it before the lock was acquired */
    if (rc == 0 && from) rc = hub_find(&made, &from->name, e);
    hub_model_deinit(&made);
    if (rc == 0) rc = build(&m, from, part, n_part, e);
    if (rc == 0) rc = manifest_path(path, store, to, e);
    if (rc == 0) rc = text_write(path, m.text.data, m.text.n, e);
    buf_deinit(&m.text);
    lock_close(fd);
    return rc;
}
