/* bench.c - quoth bench: measurements, a command each. */
#include "bench.h"

#include <stddef.h>

#define BENCH(id) extern const struct command command_bench_##id;
#include "bench.def"
#undef BENCH

static const struct command *const list[] = {
#define BENCH(id) &command_bench_##id,
#include "bench.def"
#undef BENCH
    NULL,
};

const struct command command_bench = {
    .name = "bench",
    .summary = "measurements",
    .usage = "WHAT [ARGUMENTS] [OPTIONS]",
    .sub = list,
};
