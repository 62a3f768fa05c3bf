/* tree.c - the list of files that the API of Hugging Face returns.
 *
 *   [{"type":"file","path":"a/b","size":12,"oid":"<SHA-1>","lfs":{"oid":"<SHA-256>","size":..}}]
 *
 * The hash of a file in LFS is lfs.oid, which is also the name of its blob in the cache. */
#include "hub_impl.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A value takes up to 250 bytes of memory. */
const struct json_limits answer_limits = {.depth_max = 32, .node_max = 1 << 20};

/* Append one entry. Folders are skipped. */
static int read_entry(struct hub_files *f, const struct json *j, struct err *e)
{
    size_t n_path = 0;
    const char *type = json_text(json_field(j, "type"), NULL),
               *path = json_text(json_field(j, "path"), &n_path);
    if (type && strcmp(type, "directory") == 0) return 0;
    const struct json *lfs = json_field(j, "lfs");
    bool large = json_kind(lfs) == JK_OBJECT;
    const char *hash = json_text(json_field(large ? lfs : j, "oid"), NULL);
    int64_t n_byte = json_int(json_field(large ? lfs : j, "size"), -1);
    if (!type || strcmp(type, "file") != 0 || !path || !hash || n_byte < 0 || !is_hash(hash))
        return err_set(e, ERR_FORMAT,
                       "the list of files is damaged: expected path, size and oid of \"%.100s\"",
                       path ? path : "");
    return files_add(f, path, n_path, hash, (uint64_t)n_byte, e);
}

int tree_read(struct hub_files *f, const char *text, size_t n, struct err *e)
{
    struct json *list;
    int rc = json_parse(&list, text, n, &answer_limits, e);
    if (rc != 0) return err_prefix(e, rc, "the list of files");
    if (json_kind(list) != JK_LIST)
        rc = err_set(e, ERR_FORMAT, "the list of files: expected a list, got %s",
                     json_kind_name(json_kind(list)));
    for (size_t i = 0; rc == 0 && i < json_count(list); i++)
        rc = read_entry(f, json_item(list, i), e);
    json_drop(list);
    return rc;
}

bool link_next(char *out, size_t n_out, const char *header)
{
    for (const char *at = header; (at = strchr(at, '<'));) {
        const char *end = strchr(at, '>'), *after = end ? strchr(end, '<') : NULL;
        if (!end) return false;
        const char *rel = strstr(end, "rel=\"next\"");
        if (rel && (!after || rel < after)) {
            int n = snprintf(out, n_out, "%.*s", (int)(end - at - 1), at + 1);
            return n > 0 && (size_t)n < n_out;
        }
        at = end;
    }
    return false;
}
