/* pull_hf.c - fill the cache of huggingface_hub from a hub.
 *
 *   GET /api/models/REPO/revision/REVISION             -> the commit
 *   GET /api/models/REPO/tree/COMMIT?recursive=true    -> files, in parts (Link: rel="next")
 *   GET /REPO/resolve/COMMIT/PATH                      -> blobs/HASH, mostly by a redirect
 *   links snapshots/COMMIT/PATH -> ../../blobs/HASH, then refs/REVISION
 *
 * The links are created after all blobs, so a snapshot never has only a part of a model. */
#include "hub_impl.h"

#include "base/os.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A pull in progress. */
struct pull {
    struct remote c;
    const struct hub_name *n;    /* borrowed */
    char cache[HUB_PATH_BYTES];  /* folder of all repositories */
    char folder[HUB_PATH_BYTES]; /* folder of the repository */
    char commit[HUB_HASH_BYTES];
    struct hub_files file;
};

/* Append "ENDPOINT/api/models/REPO/WHAT/REVISION" + end. */
static void put_api(struct buf *b, const struct pull *p, const char *what, const char *revision,
                    const char *end)
{
    buf_addf(b, "%s/api/models/%s/%s/", p->c.origin, p->n->repo, what);
    url_put(b, revision, false);
    buf_add_text(b, end);
}

/* Read the commit of the revision. */
static int read_commit(struct pull *p, struct err *e)
{
    struct buf url = {0}, text = {0};
    struct json *j = NULL;
    put_api(&url, p, "revision", p->n->revision, "");
    int rc = url.failed ? err_memory(e, "a URL", url.n) : 0;
    if (rc == 0) rc = remote_get(&p->c, url.data, "application/json", &text, NULL, e);
    if (rc == 0 &&
        (rc = json_parse(&j, text.data ? text.data : "", text.n, &answer_limits, e)) != 0)
        err_prefix(e, rc, "%s", p->c.name);
    const char *sha = json_text(json_field(j, "sha"), NULL);
    if (rc == 0 && (!sha || !is_hex(sha, 40)))
        rc = err_set(e, ERR_FORMAT, "%s: the answer is damaged: expected a commit in \"sha\"",
                     p->c.name);
    if (rc == 0) memcpy(p->commit, sha, 41);
    json_drop(j);
    buf_deinit(&text);
    buf_deinit(&url);
    return rc;
}

/* Read all parts of the list of files. Each part must be on the hub, so that a list cannot cause
 * requests to other servers. */
static int read_tree(struct pull *p, struct err *e)
{
    enum { N_PART_MAX = 1000 };
    char next[HUB_PATH_BYTES];
    struct buf url = {0}, text = {0};
    put_api(&url, p, "tree", p->commit, "?recursive=true");
    int rc = url.failed ? err_memory(e, "a URL", url.n) : path_put(next, e, "%s", url.data);
    for (int i = 0; rc == 0 && *next; i++) {
        char at[HUB_PATH_BYTES];
        memcpy(at, next, sizeof at);
        if (i == N_PART_MAX)
            rc = err_set(e, ERR_LIMIT, "%s: the list of files has more than %d parts", p->c.name,
                         N_PART_MAX);
        else if (!remote_owns(&p->c, at))
            rc = err_set(e, ERR_FORMAT, "%s: the list of files continues on another server",
                         p->c.name);
        text.n = 0;
        if (rc == 0) rc = remote_get(&p->c, at, "application/json", &text, next, e);
        if (rc != 0) break;
        rc = tree_read(&p->file, text.data ? text.data : "", text.n, e);
        if (rc != 0) err_prefix(e, rc, "%s", p->c.name);
    }
    buf_deinit(&text);
    buf_deinit(&url);
    return rc;
}

static int pull_file(struct pull *p, const struct hub_file *f, struct blob *b, struct err *e)
{
    char path[HUB_PATH_BYTES], lock[HUB_PATH_BYTES];
    struct buf url = {0};
    int rc = path_put(path, e, "%s/blobs/%s", p->folder, f->hash);
    if (rc == 0)
        rc = path_put(lock, e, "%s/.locks/%s/%s.lock", p->cache, strrchr(p->folder, '/') + 1,
                      f->hash);
    buf_addf(&url, "%s/%s/resolve/%s/", p->c.origin, p->n->repo, p->commit);
    url_put(&url, f->path, true);
    if (rc == 0 && url.failed) rc = err_memory(e, "a URL", url.n);
    b->url = url.data;
    b->hash = f->hash;
    b->path = path;
    b->lock = lock;
    b->title = f->path;
    b->n_byte = f->n_byte;
    if (rc == 0) rc = download(&p->c, b, e);
    b->n_done += f->n_byte;
    buf_deinit(&url);
    return rc;
}

static int pull_files(struct pull *p, struct err *e)
{
    char blobs[HUB_PATH_BYTES];
    struct blob b = {.n_all = files_bytes(&p->file)};
    int rc = path_put(blobs, e, "%s/blobs", p->folder);
    if (rc == 0) rc = dir_make(blobs, DIR_PRIVATE, e);
    for (size_t i = 0; rc == 0 && i < p->file.n; i++)
        if (p->file.v[i].chosen) rc = pull_file(p, &p->file.v[i], &b, e);
    return rc;
}

/* Create the link of a file, relative to its folder. An old link is replaced atomically. */
static int link_file(const struct pull *p, const struct hub_file *f, struct err *e)
{
    char path[HUB_PATH_BYTES], new[HUB_PATH_BYTES], target[HUB_PATH_BYTES];
    char up[3 * 520] = "../../";
    size_t n_up = 6;
    for (const char *c = f->path; *c && n_up + 4 < sizeof up; c++)
        if (*c == '/') n_up += (size_t)snprintf(up + n_up, sizeof up - n_up, "../");
    int rc = path_put(path, e, "%s/snapshots/%s/%s", p->folder, p->commit, f->path);
    if (rc == 0) rc = path_put(target, e, "%sblobs/%s", up, f->hash);
    if (rc == 0) rc = path_put(new, e, "%s.%d.quoth", path, (int)getpid());
    if (rc == 0) rc = parent_make(path, e);
    if (rc != 0) return rc;
    unlink(new);
    if (symlink(target, new) == 0 && rename(new, path) == 0) return 0;
    rc = err_set(e, ERR_IO, "%s: cannot create: %s", path, strerror(errno));
    unlink(new);
    return rc;
}

/* Create the links, then the reference. A commit needs no reference. */
static int publish(struct pull *p, struct err *e)
{
    char path[HUB_PATH_BYTES];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->file.n; i++)
        if (p->file.v[i].chosen) rc = link_file(p, &p->file.v[i], e);
    if (rc != 0 || strcmp(p->n->revision, p->commit) == 0) return rc;
    rc = path_put(path, e, "%s/refs/%s", p->folder, p->n->revision);
    return rc ? rc : text_write(path, p->commit, strlen(p->commit), e);
}

/* Set the header of authorization. It is empty without a token, because public models need none. */
static int set_token(struct remote *c, struct err *e)
{
    static const char begin[] = "Authorization: Bearer ";
    buf_add_text(&c->token, begin);
    int rc = hf_token(&c->token, e);
    if (rc == 0 && c->token.n == sizeof begin - 1) buf_clear(&c->token);
    return rc == 0 && c->token.failed ? err_memory(e, "HF_TOKEN", c->token.n) : rc;
}

static int pull_all(struct pull *p, struct err *e)
{
    int main_file, rc = set_token(&p->c, e);
    if (rc == 0) rc = read_commit(p, e);
    if (rc == 0) rc = read_tree(p, e);
    if (rc != 0) return rc;
    rc = files_choose(&p->file, p->n->quant, &main_file, e);
    if (rc != 0) return err_prefix(e, rc, "%s", p->c.name);
    rc = pull_files(p, e);
    return rc ? rc : publish(p, e);
}

int pull_hf(const struct hub_name *n, const struct hub_pull_options *o, struct err *e)
{
    char lock[HUB_PATH_BYTES], origin[HUB_PATH_BYTES];
    struct pull p = {.n = n};
    int fd = -1, rc = hf_cache(p.cache, e);
    if (rc == 0) rc = hf_folder(p.folder, p.cache, n, e);
    if (rc == 0) rc = path_put(lock, e, "%s/.locks/quoth.lock", p.cache);
    if (rc == 0) rc = lock_open(&fd, lock, true, p.cache, o, e);
    if (rc == 0) rc = hf_endpoint(origin, e);
    if (rc == 0) rc = remote_open(&p.c, origin, n, o, e);
    if (rc == 0) rc = pull_all(&p, e);
    remote_close(&p.c);
    hub_files_deinit(&p.file);
    lock_close(fd);
    return rc;
}
