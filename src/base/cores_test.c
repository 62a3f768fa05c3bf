/* cores_test.c - tests of the properties of processors, with folders of the test and of the
 * system. */
#include "cores.h"
#include "../../tests/unit.h"

static struct cores read_at(const char *cpu, const char *cgroup, const char *groups)
{
    char path[3][300];
    struct cores c;
    snprintf(path[0], sizeof path[0], "%s", temp_path(cpu));
    snprintf(path[1], sizeof path[1], "%s", temp_path(cgroup));
    snprintf(path[2], sizeof path[2], "%s", temp_path(groups));
    cores_read_at(&c, &(struct cores_places){path[0], path[1], path[2]});
    return c;
}

/* Return the quota of these control groups. */
static int quota(const char *groups)
{
    return temp_put("groups", groups) ? read_at("none", "cgroup", "groups").n_quota : -1;
}

TEST(cores_quota)
{
    struct cores real;
    cores_read(&real);
    int all = real.n_cpu;
    NEED(temp_put("cgroup/cpu.max", "max 100000\n"));
    NEED(temp_put("cgroup/a/cpu.max", "50000 100000\n"));
    NEED(temp_put("cgroup/a/b/cpu.max", "max 100000\n"));
    NEED(temp_put("cgroup/a/b/c/cpu.max", "99900000 100000\n"));
    EXPECT_INT(quota("0::/\n"), all);
    EXPECT_INT(quota("0::/a\n"), 1);     /* half a CPU, rounded up */
    EXPECT_INT(quota("0::/a/b/c\n"), 1); /* quota of an upper group */
    EXPECT_INT(quota("0::/a/elsewhere\n"), 1);
    EXPECT_INT(quota("0::/elsewhere\n"), all);
    EXPECT_INT(quota(""), all);
    EXPECT_INT(quota("nonsense\n1:\n:::\n0::\n"), all);

    NEED(temp_put("cgroup/cpu/x/cpu.cfs_quota_us", "100000\n"));
    NEED(temp_put("cgroup/cpu/x/cpu.cfs_period_us", "100000\n"));
    NEED(temp_put("cgroup/cpu/cpu.cfs_quota_us", "-1\n"));
    NEED(temp_put("cgroup/cpu/cpu.cfs_period_us", "100000\n"));
    EXPECT_INT(quota("4:cpu,cpuacct:/x\n0::/\n"), 1);
    EXPECT_INT(quota("4:cpu:/x/y\n"), 1);
    EXPECT_INT(quota("1:cpu:/\n"), all);
    EXPECT_INT(quota("3:cpuset:/x\n2:cpuacct:/x\n"), all);
}

TEST(cores_hyperthreads)
{
    /* Goal: CPUs that share a core count as one core. Method: a topology in which all CPUs of this
     * process belong to one core, then a topology without information. */
    struct cores c, real;
    cores_read(&real);
    for (int i = 0; i < real.n_cpu; i++) {
        char name[64];
        snprintf(name, sizeof name, "topo/cpu%d/topology/thread_siblings_list", real.cpu[i].cpu);
        NEED(temp_put(name, "0-1023\n"));
    }
    c = read_at("topo", "none", "none");
    EXPECT(c.n_core == 1 && c.n_cpu == real.n_cpu && c.cpu[c.n_cpu - 1].core == 0);
    c = read_at("none", "none", "none");
    EXPECT(c.n_core == c.n_cpu && c.cpu[c.n_cpu - 1].core == c.n_cpu - 1);
}

TEST(cores_of_this_machine)
{
    struct cores c;
    cores_read(&c);
    EXPECT(c.n_cpu >= 1 && c.n_core >= 1 && c.n_core <= c.n_cpu);
    EXPECT(c.n_quota >= 1 && c.n_quota <= c.n_cpu);
    EXPECT(cores_usable() >= 1 && cores_usable() <= c.n_cpu);
    for (int i = 1; i < c.n_cpu; i++) EXPECT(c.cpu[i].cpu > c.cpu[i - 1].cpu);
    test_note("%d CPUs, %d cores, quota %d", c.n_cpu, c.n_core, c.n_quota);
}
