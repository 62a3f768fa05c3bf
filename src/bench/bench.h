/* bench.h - commands of quoth bench that measure the engine's parts and compare them with the
 * machine's limits (bench.def). src/load measures requests over time. Main thread only. */
#ifndef QUOTH_BENCH_H
#define QUOTH_BENCH_H

#include "measure.h"
#include "option/option.h"

#define BENCH(id) extern const struct command command_bench_##id;
#include "bench.def"
#undef BENCH

#endif
