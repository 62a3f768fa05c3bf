/* load.h - requests over time and what their clients see: commands of quoth bench, one file each
 * (load.def).
 *
 *   traffic.h  trial.c         into an engine of this process: latency, throughput, replay
 *   served.h                   to a server: serve
 *   client_trace.h  plot.h     what clients saw, for engines and servers; curves of it
 *   simulate.h                 the scheduler alone, on a virtual clock: schedule */
#ifndef QUOTH_LOAD_H
#define QUOTH_LOAD_H

#include "option/option.h"

#define BENCH(id) extern const struct command command_bench_##id;
#include "load.def"
#undef BENCH

#endif
