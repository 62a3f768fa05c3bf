/* process.h - resource usage of this process, for monitoring. Any thread. */
#ifndef QUOTH_BASE_PROCESS_H
#define QUOTH_BASE_PROCESS_H

#include <stdint.h>

/* resource usage; -1: cannot be read */
struct process_usage {
    int64_t virtual_bytes, resident_bytes;
    int64_t start_s;      /* start time, seconds since 1970 */
    int64_t cpu_us;       /* CPU time of all threads */
    int64_t n_fd, fd_max; /* open descriptors, and their limit */
};
/* Set *u to the resources that this process uses now. A value is -1 if it cannot be read. */
void process_usage(struct process_usage *u);

#endif
