/* pull_ollama.c - fill Ollama's store from a registry (the v2 interface of container registries).
 *
 *   GET /v2/NAMESPACE/NAME/manifests/TAG           -> layers
 *   GET /v2/NAMESPACE/NAME/blobs/sha256:HASH       -> blobs/sha256-HASH, for each layer
 *   the manifest                                   -> manifests/HOST/NAMESPACE/NAME/TAG
 *
 * Requests use https, except for servers on this machine. */
#include "hub_impl.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>

/* Return true for a host of this machine. */
static bool is_local(const char *host)
{
    static const char *const own[] = {"localhost", "127.0.0.1"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        size_t n = strlen(own[i]);
        if (strncmp(host, own[i], n) == 0 && (!host[n] || host[n] == ':')) return true;
    }
    return false;
}

/* Write the beginning of all URLs of a model. */
static int put_base(char out[static HUB_PATH_BYTES], const struct hub_name *n, struct err *e)
{
    return path_put(out, e, "%s://%s/v2/%s/%s", is_local(n->host) ? "http" : "https", n->host,
                    n->space, n->model);
}

/* Download one layer. The last part of the media type is the title. */
static int pull_layer(struct remote *c, const char *base, const char *store,
                      const struct hub_file *f, struct blob *b, struct err *e)
{
    char url[HUB_PATH_BYTES], path[HUB_PATH_BYTES], lock[HUB_PATH_BYTES];
    const char *dot = strrchr(f->path, '.');
    int rc = path_put(url, e, "%s/blobs/sha256:%s", base, f->hash);
    if (rc == 0) rc = path_put(path, e, "%s/blobs/sha256-%s", store, f->hash);
    if (rc == 0) rc = path_put(lock, e, "%s/.locks/sha256-%s.lock", store, f->hash);
    if (rc != 0) return rc;
    b->url = url;
    b->hash = f->hash;
    b->path = path;
    b->lock = lock;
    b->title = dot ? dot + 1 : f->path;
    b->n_byte = f->n_byte;
    rc = download(c, b, e);
    b->n_done += f->n_byte;
    return rc;
}

/* Write the manifest as it was received, after its blobs. */
static int keep_manifest(const char *store, const struct hub_name *n, const struct buf *text,
                         struct err *e)
{
    char path[HUB_PATH_BYTES];
    int rc = manifest_path(path, store, n, e);
    return rc ? rc : text_write(path, text->data, text->n, e);
}

static int pull_all(struct remote *c, const char *store, const struct hub_name *n, struct err *e)
{
    char base[HUB_PATH_BYTES], url[HUB_PATH_BYTES];
    struct buf text = {0};
    struct hub_files layer = {0};
    struct blob b = {0};
    int model, rc = put_base(base, n, e);
    if (rc == 0) rc = path_put(url, e, "%s/manifests/%s", base, n->tag);
    if (rc == 0) rc = remote_get(c, url, ACCEPT_MANIFEST, &text, NULL, e);
    if (rc == 0 && text.n > MANIFEST_MAX)
        rc = err_set(e, ERR_LIMIT, "%s: the manifest has %zu bytes, more than %d", c->name, text.n,
                     MANIFEST_MAX);
    if (rc == 0 && (rc = manifest_read(&layer, &model, text.data ? text.data : "", text.n, e)) != 0)
        err_prefix(e, rc, "%s", c->name);
    if (rc == 0) rc = path_put(url, e, "%s/blobs", store);
    if (rc == 0) rc = dir_make(url, DIR_PRIVATE, e);
    b.n_all = files_bytes(&layer);
    for (size_t i = 0; rc == 0 && i < layer.n; i++)
        rc = pull_layer(c, base, store, &layer.v[i], &b, e);
    if (rc == 0) rc = keep_manifest(store, n, &text, e);
    hub_files_deinit(&layer);
    buf_deinit(&text);
    return rc;
}

int pull_ollama(const struct hub_name *n, const struct hub_pull_options *o, struct err *e)
{
    char store[HUB_PATH_BYTES], lock[HUB_PATH_BYTES], base[HUB_PATH_BYTES];
    struct remote c = {0};
    int fd = -1, rc = ollama_store(store, e);
    if (rc == 0) rc = path_put(lock, e, "%s/.locks/quoth.lock", store);
    if (rc == 0) rc = lock_open(&fd, lock, true, store, o, e);
    if (rc == 0) rc = put_base(base, n, e);
    if (rc == 0) rc = remote_open(&c, base, n, o, e);
    if (rc == 0) rc = pull_all(&c, store, n, e);
    remote_close(&c);
    lock_close(fd);
    return rc;
}
