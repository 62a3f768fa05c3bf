/* bench.c - quoth bench: the measurements of src/bench and src/load, one command each. */
#include "bench/bench.h"
#include "cli.h"
#include "load/load.h"

static const struct command *const list[] = {
#define BENCH(id) &command_bench_##id,
#include "bench/bench.def"
#include "load/load.def"
#undef BENCH
    NULL,
};

const struct command command_bench = {
    .name = "bench",
    .summary = "measurements",
    .usage = "WHAT [ARGUMENTS] [OPTIONS]",
    .sub = list,
};
