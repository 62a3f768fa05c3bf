/* bench.h - quoth bench: how fast things are, and how far that is from what the machine allows.
 *
 *   bench.def            a command each, in the file of that name
 *   measure.h            what most of them need: samples, limits of the machine, batches, a model's passes
 *   traffic.h  trial.c   requests over time into an engine of this process: latency, throughput, replay
 *   served.h             ... to a server: serve
 *   seen.h  plot.h       what clients saw, whoever answered; curves of it
 *   simulate.h           the scheduler alone, on a virtual clock: schedule
 *
 * Others see only the command. */
#ifndef QUOTH_BENCH_H
#define QUOTH_BENCH_H

#include "option/option.h"

extern const struct command command_bench;

#endif
