/* threads.c - how many threads run where --threads does not say.
 *
 * One for each core that the process may use and its control group pays for: prefill wants them all.
 * Decoding reads all weights for each token; on some machines the second hyperthread of a core helps
 * with that, on others (many cores, few memory channels) threads beyond some number are in each
 * other's way. So for a large model reading is tried with other numbers. A core more than decoding
 * needs stays, because prefill gains by it; a hyperthread must earn its place.
 *
 * The trial reads 64 MB in chunks as decoding does: two numbers took 20 to 25 ms on a 2-core virtual
 * machine (140 once, beside other programs). The first caller pays, the answer is kept. */
#include "cpu_impl.h"

#include "base/cores.h"
#include "base/log.h"
#include "base/os.h"

#include <stdatomic.h>
#include <string.h>

enum { PROBE_BYTES = 64 << 20, PROBE_US = 6000, PIECE_BYTES = 1 << 20 };

/* Numbers worth a try, most first, and which of them is the number of cores. */
static int candidates(int out[4], int *cores, const struct cores *c)
{
    int n_core = c->n_core < c->n_quota ? c->n_core : c->n_quota;
    int n_cpu = c->n_cpu < c->n_quota ? c->n_cpu : c->n_quota, n = 0;
    if (n_cpu > n_core) out[n++] = n_cpu;
    *cores = n;
    out[n++] = n_core;
    if (n_core >= 8) out[n++] = n_core * 3 / 4;
    if (n_core >= 8) out[n++] = n_core / 2;
    return n;
}

static void touch_piece(void *ctx, int chunk, int worker)
{
    (void)worker;
    memset((uint8_t *)ctx + (size_t)chunk * PIECE_BYTES, 1, PIECE_BYTES);
}

/* Bytes a second with n threads; 0 if that cannot be found out. Data is touched by the first. */
static double try_threads(int n, const struct cores *c, uint8_t *data, bool touch)
{
    struct pool *p;
    struct err e;
    if (pool_open_on(&p, n, c, &e) != 0) return 0;
    if (touch) pool_run(p, touch_piece, data, PROBE_BYTES / PIECE_BYTES);
    double rate = peak_bandwidth(p, data, PROBE_BYTES, PROBE_US);
    pool_close(p);
    return rate;
}

int cpu_threads_probe(const struct cores *c)
{
    int n[4], cores, best = 0, n_try = candidates(n, &cores, c);
    double rate[4];
    uint8_t *data = n_try > 1 ? os_alloc(PROBE_BYTES) : NULL;
    if (!data) return n[cores];
    for (int i = 0; i < n_try; i++) {
        rate[i] = try_threads(n[i], c, data, i == 0);
        if (rate[i] > rate[best]) best = i;
        log_info("%d threads read %.1f GB/s", n[i], rate[i] * 1e-9);
    }
    os_free(data, PROBE_BYTES);
    int chosen = cores;
    while (chosen < best && rate[chosen] < 0.95 * rate[best]) chosen++;
    if (best < cores && rate[best] > 1.05 * rate[cores]) chosen = best;
    return n[chosen];
}

int cpu_threads(int64_t weight_bytes)
{
    static _Atomic int probed;
    enum { WORTH_A_TRIAL = 256 << 20 };
    if (weight_bytes < WORTH_A_TRIAL) return cores_usable();
    int n = atomic_load(&probed);
    if (n == 0) {
        struct cores c;
        cores_read(&c);
        atomic_store(&probed, n = cpu_threads_probe(&c));
    }
    return n;
}
