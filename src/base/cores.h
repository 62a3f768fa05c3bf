/* cores.h - the processors that this process may use. The processors depend on the process's CPU
 * affinity, on the hyperthreads of each core, and on the quota of its control groups. Any
 * thread. */
#ifndef QUOTH_BASE_CORES_H
#define QUOTH_BASE_CORES_H

enum { CORES_CPU_MAX = 1024 };

struct cores {
    int n_cpu;   /* CPUs in the affinity mask of the calling thread, >= 1 */
    int n_core;  /* number of cores of these CPUs; the hyperthreads of a core are one core */
    int n_quota; /* CPU quota of the control groups, rounded up, in [1, n_cpu] */
    struct {
        int cpu;  /* CPU number, ascending */
        int core; /* core number in [0, n_core), in order of cpu */
    } cpu[CORES_CPU_MAX];
};

/* Set *c to the processors that this process may use, and to its CPU quota. */
void cores_read(struct cores *c);

/* Paths that cores_read_at reads instead of the system's paths, borrowed. For tests. */
struct cores_places {
    const char *cpu;    /* "/sys/devices/system/cpu" */
    const char *cgroup; /* "/sys/fs/cgroup"          */
    const char *groups; /* "/proc/self/cgroup"       */
};
/* Set *c as cores_read does, from the files in `at`, which is borrowed for the call. For tests. */
void cores_read_at(struct cores *c, const struct cores_places *at);

/* Describe a fictitious machine: CPUs [0, n_cpu) are hyperthreads of n_core cores. */
void cores_make(struct cores *c, int n_cpu, int n_core);

/* Return min(n_core, n_quota), the number of threads that can compute at full speed. */
int cores_usable(void);

#endif
