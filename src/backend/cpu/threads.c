/* threads.c - the number of threads without --threads.
 *
 * The default is one thread per core that the process may use and its control group permits.
 * Prefill uses all threads. Decoding reads all weights for each token. On some machines the second
 * hyperthread of a core makes decoding faster. On other machines (many cores, few memory channels)
 * too many threads delay each other. Therefore, for a large model, read bandwidth is measured with
 * several numbers of threads. Cores that decoding does not need are still used, because they make
 * prefill faster. Hyperthreads are used only if they are faster.
 *
 * The trial reads 64 MB in chunks, as decoding does. A trial of two numbers took 20 to 25 ms on a
 * 2-core virtual machine (140 ms once, with other programs running). The first caller runs the
 * trial, and later callers use its result. */
#include "cpu_impl.h"

#include "base/cores.h"
#include "base/log.h"
#include "base/os.h"

#include <stdatomic.h>
#include <string.h>

/* PROBE_BYTES exceeds the last-level cache of one core complex (32 MB). PROBE_US is the time of two
 * reads of PROBE_BYTES at 20 GB/s. */
enum { PROBE_BYTES = 64 << 20, PROBE_US = 6000 };

/* List the numbers of threads to try, largest first. Set *cores to the index of the candidate that
 * is the number of cores. Return the number of candidates. */
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

/* Return the number of bytes per second with n threads, or 0 if the pool cannot be opened. Touch
 * the data first if `touch` is true. */
static double try_threads(int n, const struct cores *c, uint8_t *data, bool touch)
{
    struct pool *p;
    struct err e;
    if (pool_open_on(&p, n, c, &e) != 0) return 0;
    if (touch) peak_touch(p, data, PROBE_BYTES);
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
    /* 5 % is the limit of a tie: repeated reads in docs/measurements.md ("Reading weights") differ
     * by 3 %. In a tie, the number of cores is preferred to a larger number of threads. The largest
     * number in the tie is chosen if the number of cores is not in the tie. */
    int chosen = cores;
    while (chosen < best && rate[chosen] < 0.95 * rate[best]) chosen++;
    if (best < cores && rate[best] > 1.05 * rate[cores]) chosen = best;
    return n[chosen];
}

int cpu_threads(int64_t weight_bytes)
{
    static _Atomic int probed;
    /* Reading weights of this size takes 13 ms at 20 GB/s. A trial takes as long as two tokens of a
     * model of this size. Smaller weights stay in part in the caches of large servers. */
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
