/* walk.c - all files below a folder.
 *
 * Links are visited but not followed to folders: a snapshot consists of links to blobs, and a link
 * to a parent would never end. Entries are in the order of their names, so all lists have one order
 * on every file system. */
#include "hub_impl.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 12 };

/* Arguments that are equal at every depth of a walk. */
struct walk {
    walk_fn *fn;
    void *ctx;
};

static int walk_below(const struct walk *w, const char *folder, const char *name, int depth,
                      struct err *e);

/* Call the function for a file or link, or walk below a folder. An entry that was removed meanwhile
 * is no error. */
static int visit(const struct walk *w, const char *folder, const char *name, const char *item,
                 int depth, struct err *e)
{
    char path[HUB_PATH_BYTES], below[HUB_PATH_BYTES];
    struct stat st;
    int rc = path_put(path, e, "%s/%s", folder, item);
    if (rc == 0) rc = path_put(below, e, "%s%s%s", name, *name ? "/" : "", item);
    if (rc != 0 || lstat(path, &st) != 0) return rc;
    if (S_ISDIR(st.st_mode)) return walk_below(w, path, below, depth + 1, e);
    return S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ? w->fn(w->ctx, path, below, e) : 0;
}

static int walk_below(const struct walk *w, const char *folder, const char *name, int depth,
                      struct err *e)
{
    struct dirent **entry = NULL;
    int rc = 0, n = depth > DEPTH_MAX ? 0 : scandir(folder, &entry, NULL, alphasort);
    if (n < 0 && errno == ENOENT) return 0;
    if (n < 0) return err_set(e, ERR_IO, "%s: cannot list: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *item = entry[i]->d_name;
        if (rc == 0 && strcmp(item, ".") != 0 && strcmp(item, "..") != 0)
            rc = visit(w, folder, name, item, depth, e);
        free(entry[i]);
    }
    free(entry);
    return rc;
}

int walk(const char *folder, walk_fn *fn, void *ctx, struct err *e)
{
    return walk_below(&(struct walk){fn, ctx}, folder, "", 0, e);
}

void remove_empty(const char *path, const char *top)
{
    char folder[HUB_PATH_BYTES];
    if (path_put(folder, NULL, "%s", path) != 0) return;
    for (char *slash; (slash = strrchr(folder, '/')) && strlen(top) < (size_t)(slash - folder);) {
        *slash = 0;
        if (rmdir(folder) != 0) return;
    }
}
