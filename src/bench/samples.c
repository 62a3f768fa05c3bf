/* samples.c - lists of numbers, means and spreads, for quoth bench; see measure.h. */
#include "measure.h"

#include "base/histogram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double bench_mean(const struct bench_samples *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += s->v[i];
    return s->n ? sum / (double)s->n : 0;
}

double bench_sd(const struct bench_samples *s)
{
    double mean = bench_mean(s), sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += (s->v[i] - mean) * (s->v[i] - mean);
    return s->n > 1 ? sqrt(sum / (double)(s->n - 1)) : 0;
}

double bench_max(const struct bench_samples *s)
{
    double max = s->n ? s->v[0] : 0;
    for (size_t i = 1; i < s->n; i++) max = s->v[i] > max ? s->v[i] : max;
    return max;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(struct bench_samples *s)
{
    if (s->n) qsort(s->v, s->n, sizeof *s->v, by_size);
}

double bench_percentile(const struct bench_samples *sorted, double percent)
{
    return quantile_of_sorted(sorted->v, sorted->n, percent / 100);
}

double bench_median(struct bench_samples *s)
{
    bench_sort(s);
    return bench_percentile(s, 50);
}

int bench_numbers(struct ids *out, const char *flag, const char *text, int lo, int hi,
                  struct err *e)
{
    if (!*text || strcmp(text, "none") == 0) return 0;
    for (const char *at = text;; at++) {
        char *end;
        long v = strtol(at, &end, 10);
        if (end == at || (*end && *end != ','))
            return err_set(e, ERR_ARG, "--%s: \"%s\" is no list of numbers: N,N,...", flag, text);
        if (v < lo || v > hi)
            return err_set(e, ERR_ARG, "--%s: %ld is not between %d and %d", flag, v, lo, hi);
        if (!vec_push(out, (int32_t)v)) return err_memory(e, flag, sizeof v);
        at = end;
        if (!*end) return 0;
    }
}

int bench_most(const struct ids *list, int otherwise)
{
    int most = otherwise;
    for (size_t i = 0; i < list->n; i++) most = list->v[i] > most ? list->v[i] : most;
    return most;
}
