/* cores.c - see cores.h. The sources are sched_getaffinity, sysfs and the control groups, v2 or v1.
 *
 * n_cpu is the number of hardware threads, n_core the number of physical cores. The quota of a
 * control group can be lower than n_cpu and n_core. */
#include "cores.h"
#include "check.h"
#include "cgroup.h"
#include "os.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Return the lowest CPU of cpu's core, from a text such as "0,64" or "0-1". Return cpu itself if
 * the system reports no text. */
static int first_of_core(const char *folder, int cpu)
{
    static const char *const name[] = {"core_cpus_list", "thread_siblings_list"};
    char path[512];
    long long first, unused;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/cpu%d/topology/%s", folder, cpu, name[i]);
        if (file_numbers(path, &first, &unused) >= 1) return (int)first;
    }
    return cpu;
}

/* Fill the CPUs of the affinity mask and the core of each. All CPUs of a core have the same first
 * sibling. Assume CPU 0 alone if the mask cannot be read, because a thread always runs
 * somewhere. */
static void read_cpus(struct cores *c, const char *folder)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) == 0) {
        CPU_ZERO(&set);
        CPU_SET(0, &set);
    }
    int first[CORES_CPU_MAX];
    for (int cpu = 0; cpu < CPU_SETSIZE && c->n_cpu < CORES_CPU_MAX; cpu++) {
        if (!CPU_ISSET(cpu, &set)) continue;
        int core = 0, lowest = first_of_core(folder, cpu);
        while (core < c->n_core && first[core] != lowest) core++;
        if (core == c->n_core) first[c->n_core++] = lowest;
        c->cpu[c->n_cpu].cpu = cpu;
        c->cpu[c->n_cpu++].core = core;
    }
}

/* Return the number of CPUs that one control group allows, rounded up; 0: no limit. */
static int folder_quota(const char *folder, bool v2)
{
    char path[1200];
    long long quota = -1, period = 0, unused;
    snprintf(path, sizeof path, "%s/%s", folder, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    int n = file_numbers(path, &quota, &period);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!v2 && n == 1 && file_numbers(path, &period, &unused) == 1) n = 2;
    return n == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

static void see_quota(void *ctx, const char *folder, bool v2)
{
    struct cores *c = ctx;
    int n = folder_quota(folder, v2);
    if (n > 0 && n < c->n_quota) c->n_quota = n;
}

void cores_read_at(struct cores *c, const struct cores_places *at)
{
    c->n_cpu = c->n_core = 0;
    read_cpus(c, at->cpu);
    c->n_quota = c->n_cpu;
    cgroup_walk(&(struct cgroup_places){at->cgroup, at->groups}, "cpu", see_quota, c);
}

void cores_read(struct cores *c)
{
    cores_read_at(c, &(struct cores_places){.cpu = "/sys/devices/system/cpu",
                                            .cgroup = cgroup_here.root,
                                            .groups = cgroup_here.groups});
}

void cores_make(struct cores *c, int n_cpu, int n_core)
{
    CHECK(n_cpu >= 1 && n_cpu <= CORES_CPU_MAX && n_core >= 1 && n_core <= n_cpu,
          "%d CPUs of %d cores", n_cpu, n_core);
    *c = (struct cores){.n_cpu = n_cpu, .n_core = n_core, .n_quota = n_cpu};
    for (int i = 0; i < n_cpu; i++) c->cpu[i].cpu = i, c->cpu[i].core = i % n_core;
}

int cores_usable(void)
{
    struct cores c;
    cores_read(&c);
    return c.n_quota < c.n_core ? c.n_quota : c.n_core;
}
