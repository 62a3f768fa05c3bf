/* cores.h - the processors that this process may use: its affinity, which of them are hyperthreads
 * of one core, and how much of them its control groups allow. Any thread. */
#ifndef QUOTH_BASE_CORES_H
#define QUOTH_BASE_CORES_H

enum { CORES_CPU_MAX = 1024 };

struct cores {
    int n_cpu;   /* in the affinity of the calling thread, >= 1                          */
    int n_core;  /* the same, hyperthreads of one core counted once                      */
    int n_quota; /* processors' worth of time that control groups allow, >= 1; or n_cpu  */
    struct {
        int cpu;  /* its number, ascending          */
        int core; /* 0 .. n_core-1, in order of cpu */
    } cpu[CORES_CPU_MAX];
};

void cores_read(struct cores *c);

/* The same with the system's files taken from elsewhere, for tests. */
struct cores_places {
    const char *cpu;    /* "/sys/devices/system/cpu" */
    const char *cgroup; /* "/sys/fs/cgroup"          */
    const char *groups; /* "/proc/self/cgroup"       */
};
void cores_read_at(struct cores *c, const struct cores_places *at);

/* A made-up machine: CPUs 0 .. n_cpu-1, hyperthreads of n_core cores. */
void cores_make(struct cores *c, int n_cpu, int n_core);

/* min(n_core, n_quota): threads that compute at full speed */
int cores_usable(void);

#endif
