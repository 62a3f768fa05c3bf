/* Goal: memory limits of control groups are found at every level of the hierarchy. Method: make
 * folders of v2 and v1. */
#include "cgroup.h"
#include "../../tests/unit.h"

static struct cgroup_memory memory(const char *groups)
{
    char root[300], list[300];
    struct cgroup_memory m = {0};
    snprintf(root, sizeof root, "%s", temp_path("cg"));
    snprintf(list, sizeof list, "%s", temp_path("groups"));
    if (temp_put("groups", groups)) cgroup_memory(&m, &(struct cgroup_places){root, list});
    return m;
}

TEST(cgroup_memory_v2)
{
    NEED(temp_put("cg/system.slice/memory.max", "9000\n"));
    NEED(temp_put("cg/system.slice/memory.current", "8500\n"));
    NEED(temp_put("cg/system.slice/quoth.service/memory.max", "4000\n"));
    NEED(temp_put("cg/system.slice/quoth.service/memory.current", "1000\n"));
    NEED(temp_put("cg/free/memory.max", "max\n"));
    struct cgroup_memory m = memory("0::/system.slice/quoth.service\n");
    EXPECT(m.limit == 4000 && m.room == 500); /* the slice, an ancestor, has less room */
    NEED(temp_put("cg/system.slice/memory.stat", "anon 1\ninactive_file 6000\nactive_file 7\n"));
    m = memory("0::/system.slice/quoth.service\n");
    EXPECT(m.limit == 4000 && m.room == 3000);
    NEED(temp_put("cg/system.slice/quoth.service/memory.current", "4100\n"));
    EXPECT(memory("0::/system.slice/quoth.service\n").room == 0);
    EXPECT(memory("0::/system.slice\n").limit == 9000);
    EXPECT(memory("0::/free\n").limit == UINT64_MAX);
    EXPECT(memory("0::/\n").room == UINT64_MAX);
    EXPECT(memory("").limit == UINT64_MAX);
    NEED(temp_put("cg/memory.max", "7000\n"));
    NEED(temp_put("cg/memory.current", "10\n"));
    /* a path of the host, as inside a container */
    EXPECT(memory("0::/host/path/that/is/not/here\n").room == 6990);
}

TEST(cgroup_memory_v1)
{
    NEED(temp_put("cg/memory/docker/memory.limit_in_bytes", "5000\n"));
    NEED(temp_put("cg/memory/docker/memory.usage_in_bytes", "3000\n"));
    NEED(temp_put("cg/memory/docker/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n"));
    NEED(temp_put("cg/memory/memory.limit_in_bytes", "9223372036854771712\n")); /* no limit */
    NEED(temp_put("cg/memory/memory.usage_in_bytes", "8000\n"));
    struct cgroup_memory m = memory("9:cpu,cpuacct:/x\n8:memory:/docker/abc\n");
    EXPECT(m.limit == 5000 && m.room == 3000);
    EXPECT(memory("9:cpu:/docker\n").limit == UINT64_MAX);
}
