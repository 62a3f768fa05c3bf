/* bench.h - measurements of the engine's parts, compared with the machine's limits: commands of
 * quoth bench, one file each (bench.def). Requests over time are in src/load. Main thread only. */
#ifndef QUOTH_BENCH_H
#define QUOTH_BENCH_H

#include "measure.h"
#include "option/option.h"

#define BENCH(id) extern const struct command command_bench_##id;
#include "bench.def"
#undef BENCH

#endif
