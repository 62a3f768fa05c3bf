/* load.h - commands of quoth bench that send requests over time and record their times. Each
 * command is one file (load.def).
 *
 *   traffic.h  trial.c         into an engine of this process: latency, throughput, replay
 *   served.h                   to a server: serve
 *   client_trace.h  plot.h     clients' records, for engines and servers, and their curves
 *   simulate.h                 the scheduler alone, on a virtual clock: schedule
 * Main thread only. */
#ifndef QUOTH_LOAD_H
#define QUOTH_LOAD_H

#include "option/option.h"

#define BENCH(id) extern const struct command command_bench_##id;
#include "load.def"
#undef BENCH

#endif
