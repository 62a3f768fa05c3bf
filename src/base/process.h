/* process.h - what the system says about this process, for monitors. Any thread. */
#ifndef QUOTH_BASE_PROCESS_H
#define QUOTH_BASE_PROCESS_H

#include <stdint.h>

/* -1: cannot be read. */
struct process_usage {
    int64_t virtual_bytes, resident_bytes;
    int64_t start_s;        /* since 1970: when it began */
    int64_t cpu_us;         /* of all its threads        */
    int64_t n_fd, n_fd_max; /* open descriptors, and how many it may have */
};
void process_usage(struct process_usage *u);

#endif
