/* tree_fuzz.c - any list of files, manifest or header is read or rejected. The paths and hashes of
 * a list are safe, and the selection from a list ends. */
#include "hub_impl.h"
#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void check_files(const struct hub_files *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const char *path = f->v[i].path;
        assert(*path && *path != '/' && strncmp(path, "../", 3) != 0 && !strstr(path, "/../"));
        assert(strcmp(path, "..") != 0 && !strchr(path, '\n') && is_hash(f->v[i].hash));
    }
}

FUZZ(hub_tree)
{
    struct hub_files f = {0};
    struct err e;
    int first;
    if (tree_read(&f, (const char *)data, n, &e) == 0) {
        fuzz_accepted();
        check_files(&f);
        if (files_choose(&f, "", &first, &e) == 0) assert(first < (int)f.n);
        (void)files_choose(&f, "Q4_0", &first, &e);
    }
    hub_files_deinit(&f);
}

FUZZ(hub_manifest)
{
    struct hub_files f = {0};
    struct err e;
    int model;
    if (manifest_read(&f, &model, (const char *)data, n, &e) == 0) {
        fuzz_accepted();
        check_files(&f);
        assert(model >= 0 && model < (int)f.n);
    }
    hub_files_deinit(&f);
}

FUZZ(hub_link)
{
    char out[64], *copy = strndup((const char *)data, n);
    assert(copy);
    if (link_next(out, sizeof out, copy)) {
        fuzz_accepted();
        assert(*out && strstr(copy, out));
    }
    free(copy);
}
