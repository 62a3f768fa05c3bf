/* bench.h - quoth bench: how fast quoth is, compared with the machine's limits.
 *
 *   bench.def            a command each, in the file of that name
 *   measure.h            shared parts: samples, limits of the machine, batches, a model's passes
 *   traffic.h  trial.c   requests over time into an engine of this process: latency, throughput, replay
 *   served.h             requests over time to a server: serve
 *   client_trace.h  plot.h       what clients saw, for engines and servers; curves of it
 *   simulate.h           the scheduler alone, on a virtual clock: schedule
 *
 * Other folders use only the command. */
#ifndef QUOTH_BENCH_H
#define QUOTH_BENCH_H

#include "option/option.h"

extern const struct command command_bench;

#endif
