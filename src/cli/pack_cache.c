/* pack_cache.c - where packed weights are kept between starts, as the flags say. */
#include "session.h"

#include "progress.h"

#include "base/filecache.h"

static bool enabled = true;
static double size_gb;

/* Packing less than that takes less time than a person notices, and most such models are tests. */
enum { BYTES_MIN = 16 << 20, BYTES_SHOWN_MIN = 256 << 20 };

const struct option pack_cache_options[] = {
    {.kind = OPTION_FLAG,
     .name = "pack-cache",
     .target = &enabled,
     .help = "keep packed weights in ~/.cache/quoth/packed, so that the next start is quick (on; "
             "--no-pack-cache)"},
    {.kind = OPTION_REAL,
     .name = "pack-cache-size",
     .arg = "GB",
     .target = &size_gb,
     .lo = 0,
     .hi = 1e9,
     .help = "most that they may take (0: a quarter of the disk's room, 100 at most)"},
    {.kind = OPTION_END},
};

static void show(void *what, uint64_t done, uint64_t n_byte)
{
    if (n_byte >= BYTES_SHOWN_MIN) progress_bar(what, done, n_byte);
}

const char *pack_cache_dir(void)
{
    static char dir[4096];
    struct err e;
    return filecache_dir(dir, sizeof dir, "packed", &e) == 0 ? dir : NULL;
}

struct weights_options pack_cache_read(void)
{
    static struct filecache cache;
    cache = (struct filecache){
        .dir = pack_cache_dir(), .n_byte_min = BYTES_MIN, .n_byte_max = (uint64_t)(size_gb * 1e9)};
    return (struct weights_options){
        .cache = enabled ? &cache : NULL, .progress = show, .ctx = (void *)"preparing weights"};
}
