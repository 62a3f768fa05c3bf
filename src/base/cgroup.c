/* cgroup.c - see cgroup.h. This file reads the kernel's text files. A group is subject to the
 * limits of all its ancestors.
 *
 *   v2    /sys/fs/cgroup/GROUP/memory.max             memory.current
 *   v1    /sys/fs/cgroup/memory/GROUP/memory.limit_in_bytes   memory.usage_in_bytes
 *
 * A container often mounts only its own group as the root. Folders that do not exist are ignored,
 * and the search continues up to the root. */
#include "cgroup.h"
#include "os.h"

#include <stdio.h>
#include <string.h>

const struct cgroup_places cgroup_here = {"/sys/fs/cgroup", "/proc/self/cgroup"};

/* Call fn for the group's folder and each ancestor, up to the root. `group` is overwritten. */
static void climb(const char *root, char *group, bool v2, cgroup_fn *fn, void *ctx)
{
    for (;;) {
        char folder[1024];
        snprintf(folder, sizeof folder, "%s%s", root, group);
        fn(ctx, folder, v2);
        char *slash = strrchr(group, '/');
        if (!slash || !group[1]) return;
        *slash = 0;
    }
}

/* Parse lines "0::/group" (v2) and "4:cpu,cpuacct:/group" (v1). */
void cgroup_walk(const struct cgroup_places *at, const char *controller, cgroup_fn *fn, void *ctx)
{
    FILE *f = fopen(at->groups, "re");
    char line[768], root[256];
    size_t n = strlen(controller);
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        names++;
        bool v2 = *names == 0, v1 = strncmp(names, controller, n) == 0 && strchr(",", names[n]);
        snprintf(root, sizeof root, "%s%s%s", at->root, v2 ? "" : "/", v2 ? "" : controller);
        if (v1 || v2) climb(root, group, v2, fn, ctx);
    }
    if (f) fclose(f);
}

/* Return the number of bytes of inactive file pages. */
static uint64_t droppable(const char *folder, bool v2)
{
    char path[1200], line[128];
    const char *name = v2 ? "inactive_file %llu" : "total_inactive_file %llu";
    unsigned long long n = 0;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, name, &n) == 1) break; /* check: a number of the kernel */
    if (f) fclose(f);
    return n;
}

/* Lower the limit and the room of m to the values of one folder. The text "max" in memory.max means
 * that there is no limit. */
static void see_memory(void *ctx, const char *folder, bool v2)
{
    struct cgroup_memory *m = ctx;
    char path[1200];
    long long limit, used, unused;
    snprintf(path, sizeof path, "%s/memory.%s", folder, v2 ? "max" : "limit_in_bytes");
    if (file_numbers(path, &limit, &unused) < 1 || limit <= 0) return;
    if ((uint64_t)limit < m->limit) m->limit = (uint64_t)limit;
    snprintf(path, sizeof path, "%s/memory.%s", folder, v2 ? "current" : "usage_in_bytes");
    if (file_numbers(path, &used, &unused) < 1 || used < 0) return;
    uint64_t drop = droppable(folder, v2), held = (uint64_t)used > drop ? (uint64_t)used - drop : 0,
             room = (uint64_t)limit > held ? (uint64_t)limit - held : 0;
    if (room < m->room) m->room = room;
}

void cgroup_memory(struct cgroup_memory *m, const struct cgroup_places *at)
{
    *m = (struct cgroup_memory){UINT64_MAX, UINT64_MAX};
    cgroup_walk(at, "memory", see_memory, m);
}
