/* cores.h - the processors that this process may use: its CPU affinity, hyperthreads of one core,
 * and the quota of its control groups. Any thread. */
#ifndef QUOTH_BASE_CORES_H
#define QUOTH_BASE_CORES_H

enum { CORES_CPU_MAX = 1024 };

struct cores {
    int n_cpu;   /* CPUs in the affinity mask of the calling thread, >= 1 */
    int n_core;  /* cores among them: hyperthreads of one core count once */
    int n_quota; /* CPU quota of the control groups, rounded up, >= 1; at most n_cpu */
    struct {
        int cpu;  /* CPU number, ascending */
        int core; /* 0 .. n_core-1, in order of cpu */
    } cpu[CORES_CPU_MAX];
};

void cores_read(struct cores *c);

/* cores_read with other system folders, for tests. */
struct cores_places {
    const char *cpu;    /* "/sys/devices/system/cpu" */
    const char *cgroup; /* "/sys/fs/cgroup"          */
    const char *groups; /* "/proc/self/cgroup"       */
};
void cores_read_at(struct cores *c, const struct cores_places *at);

/* Describe a fictitious machine: CPUs 0 .. n_cpu-1, hyperthreads of n_core cores. */
void cores_make(struct cores *c, int n_cpu, int n_core);

/* Return min(n_core, n_quota): threads that can compute at full speed. */
int cores_usable(void);

#endif
