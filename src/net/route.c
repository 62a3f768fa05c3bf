/* route.c - find the handler of a method and a path. A linear search is enough, because a server
 * has fewer than 100 routes. */
#include "net_impl.h"

#include <stdlib.h>
#include <string.h>

/* Return true if the path matches the pattern. Set *part to the text matched by {}. A slash at the
 * end of a path without {} is ignored, as in FastAPI's redirects. */
static bool fits(const char *pattern, const char *path, const char **part, size_t *n_part)
{
    *part = NULL;
    const char *open = strchr(pattern, '{'), *rest = open ? strchr(open, '}') + 1 : NULL;
    size_t n = open ? (size_t)(open - pattern) : strlen(pattern);
    if (!open)
        return strncmp(pattern, path, n) == 0 && strcmp(path + n, path[n] == '/' ? "/" : "") == 0;
    if (strncmp(pattern, path, n) != 0) return false;
    *part = path + n;
    *n_part = *rest ? strcspn(*part, "/") : strlen(*part);
    return *n_part > 0 && strcmp(*part + *n_part, rest) == 0;
}

static bool answers(const char *route_method, const char *method)
{
    return strcmp(route_method, method) == 0 ||
           (strcmp(route_method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

const struct net_route *route_find(const struct net_route *r, int n, const char *method,
                                   const char *path, char **param, struct buf *allow)
{
    const char *part;
    size_t n_part;
    for (int i = 0; i < n; i++) {
        if (!fits(r[i].path, path, &part, &n_part)) continue;
        if (answers(r[i].method, method)) {
            if (part) *param = strndup(part, n_part);
            return &r[i];
        }
        buf_addf(allow, "%s%s", allow->n ? ", " : "", r[i].method);
    }
    return NULL;
}
