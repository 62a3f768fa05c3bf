/* cgroup.h - limits of this process's control groups (v1 or v2): its own group and all ancestors.
 * Any thread. */
#ifndef QUOTH_BASE_CGROUP_H
#define QUOTH_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Paths of the files to read, borrowed. */
struct cgroup_places {
    const char *root;   /* "/sys/fs/cgroup"    */
    const char *groups; /* "/proc/self/cgroup" */
};
extern const struct cgroup_places cgroup_here; /* paths of the system */

typedef void cgroup_fn(void *ctx, const char *folder, bool v2);
/* Call fn with the folder of each group of this process, from its own group up to the root group.
 * `controller` ("cpu") selects the hierarchy if there are several (v1). A folder may be missing.
 * Only the upper folders exist if the path in a container is a path of the host. */
void cgroup_walk(const struct cgroup_places *at, const char *controller, cgroup_fn *fn, void *ctx);

/* limits in bytes; UINT64_MAX: no limit */
struct cgroup_memory {
    /* lowest limit of the groups */
    uint64_t limit;
    /* smallest number of free bytes below a limit; inactive file pages count as free, because they
     * can be dropped */
    uint64_t room;
};
/* Set *m to the limits of memory of this process's groups. `at` is borrowed for the call. Groups
 * that cannot be read have no limit. */
void cgroup_memory(struct cgroup_memory *m, const struct cgroup_places *at);

#endif
