/* files.c - lists of files, with paths that stay below their folder.
 *
 * The paths are from servers and from folders of other programs. A path with "..", an absolute path
 * or a control character could write outside the store or change a terminal. Such a path is an
 * error and is not repaired. */
#include "hub_impl.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { N_FILE_MAX = 100000, PATH_MAX_BYTES = 1024, PART_MAX = 255 };
static const uint64_t n_byte_max = (uint64_t)1 << 50;

bool files_is_path(const char *path, size_t n)
{
    if (n == 0 || n > PATH_MAX_BYTES || !utf8_valid(path, n)) return false;
    for (size_t at = 0, end; at <= n; at = end + 1) {
        for (end = at; end < n && path[end] != '/'; end++)
            if ((unsigned char)path[end] < ' ' || path[end] == 127 || path[end] == '\\')
                return false;
        size_t n_part = end - at;
        if (n_part == 0 || n_part > PART_MAX || (n_part == 1 && path[at] == '.') ||
            (n_part == 2 && path[at] == '.' && path[at + 1] == '.'))
            return false;
    }
    return true;
}

int files_add(struct hub_files *f, const char *path, size_t n_path, const char *hash,
              uint64_t n_byte, struct err *e)
{
    if (!files_is_path(path, n_path))
        return err_set(e, ERR_FORMAT, "the list of files has the invalid path \"%.100s\"", path);
    if (n_byte > n_byte_max)
        return err_set(e, ERR_FORMAT, "\"%.100s\": a size of %llu bytes is invalid", path,
                       (unsigned long long)n_byte);
    if (f->n >= N_FILE_MAX)
        return err_set(e, ERR_LIMIT, "the list of files has more than %d", N_FILE_MAX);
    struct hub_file new = {.path = strndup(path, n_path), .n_byte = n_byte};
    if (*hash) memcpy(new.hash, hash, strlen(hash) < sizeof new.hash ? strlen(hash) : 0);
    if (new.path && vec_push(f, new)) return 0;
    free(new.path);
    return err_memory(e, "the list of files", sizeof new);
}

uint64_t files_bytes(const struct hub_files *f)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->v[i].chosen) sum += f->v[i].n_byte;
    return sum;
}

void hub_files_deinit(struct hub_files *f)
{
    for (size_t i = 0; i < f->n; i++) free(f->v[i].path);
    vec_deinit(f);
}
