/* cgroup.h - what the control groups of this process allow it, v2 or v1: its own and all above it. Any thread. */
#ifndef QUOTH_BASE_CGROUP_H
#define QUOTH_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

struct cgroup_places {
    const char *root;   /* "/sys/fs/cgroup"    */
    const char *groups; /* "/proc/self/cgroup" */
};
extern const struct cgroup_places cgroup_here; /* those; tests have others */

/* Call fn with the folder of each group that this process is in, from its own up to the root. `controller` ("cpu")
 * picks the hierarchy where there are several (v1). A folder need not exist: inside a container the path may be the
 * host's, and then only the upper ones are there. */
typedef void cgroup_fn(void *ctx, const char *folder, bool v2);
void cgroup_walk(const struct cgroup_places *at, const char *controller, cgroup_fn *fn, void *ctx);

/* Bytes; UINT64_MAX where nothing is limited. */
struct cgroup_memory {
    uint64_t limit; /* the lowest limit                                                     */
    uint64_t room;  /* the least that any of them still allows; files' pages, which can be dropped, count as free */
};
void cgroup_memory(struct cgroup_memory *m, const struct cgroup_places *at);

#endif
