/* cgroup.h - limits of the control groups (v1 or v2) of this process: its own group and all its
 * ancestors. Any thread. */
#ifndef QUOTH_BASE_CGROUP_H
#define QUOTH_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

struct cgroup_places {
    const char *root;   /* "/sys/fs/cgroup"    */
    const char *groups; /* "/proc/self/cgroup" */
};
extern const struct cgroup_places cgroup_here; /* default places; tests use others */

/* Call fn with the folder of each group of this process, from its own up to the root. `controller`
 * ("cpu") selects the hierarchy if there are several (v1). A folder may be missing: inside a
 * container the path may be the host's, and then only the upper folders exist. */
typedef void cgroup_fn(void *ctx, const char *folder, bool v2);
void cgroup_walk(const struct cgroup_places *at, const char *controller, cgroup_fn *fn, void *ctx);

/* bytes; UINT64_MAX: no limit */
struct cgroup_memory {
    uint64_t limit; /* the lowest limit                                                     */
    /* smallest remainder below a limit; inactive file pages, which can be dropped, count as free */
    uint64_t room;
};
void cgroup_memory(struct cgroup_memory *m, const struct cgroup_places *at);

#endif
