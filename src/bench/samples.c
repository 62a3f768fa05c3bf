/* samples.c - lists of numbers, means and deviations, for quoth bench; see measure.h.
 *
 * There are two kinds of percentiles, because other tools use different kinds. samples_percentile
 * interpolates between neighbours. samples_nearest returns a measured value, the nearest rank from
 * 1:
 *
 *   rank = ceil(percent / 100 * n), and rank 1 for 0 %
 *
 * The forms of options also call the functions that read lists. A form reads a list and discards
 * it. */
#include "measure.h"

#include "base/histogram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Return the mean; 0 for an empty list, so that reports of runs without results contain no NaN. */
double samples_mean(const struct samples *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += s->v[i];
    return s->n ? sum / (double)s->n : 0;
}

/* Return the deviation of a sample, with n - 1 in the denominator; 0 for fewer than two values. */
double samples_sd(const struct samples *s)
{
    double mean = samples_mean(s), sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += (s->v[i] - mean) * (s->v[i] - mean);
    return s->n > 1 ? sqrt(sum / (double)(s->n - 1)) : 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void samples_sort(struct samples *s)
{
    if (s->n) qsort(s->v, s->n, sizeof *s->v, by_size);
}

double samples_percentile(const struct samples *sorted, double percent)
{
    return quantile_of_sorted(sorted->v, sorted->n, percent / 100);
}

double samples_nearest(const struct samples *sorted, double percent)
{
    size_t rank = (size_t)ceil(percent / 100 * (double)sorted->n);
    return sorted->n ? sorted->v[rank ? rank - 1 : 0] : 0;
}

double samples_median(struct samples *s)
{
    samples_sort(s);
    return samples_percentile(s, 50);
}

/* An empty text and "none" are empty lists. Numbers too large for a long are clamped by strtol and
 * are then above `hi`. */
int numbers_read(struct ids *out, const char *text, int lo, int hi, struct err *e)
{
    if (!*text || strcmp(text, "none") == 0) return 0;
    for (const char *at = text;; at++) {
        char *end;
        long v = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || v < lo || v > hi)
            return err_set(e, ERR_ARG, "must be integers N,N,... in [%d, %d], got \"%.60s\"", lo,
                           hi, text);
        if (!vec_push(out, (int32_t)v)) return err_memory(e, "numbers", sizeof v);
        at = end;
        if (!*end) return 0;
    }
}

int numbers_form(const char *text, int lo, int hi, struct err *e)
{
    struct ids list = {0};
    int rc = numbers_read(&list, text, lo, hi, e);
    vec_deinit(&list);
    return rc;
}

int numbers_max(const struct ids *list, int fallback)
{
    int max = fallback;
    for (size_t i = 0; i < list->n; i++) max = list->v[i] > max ? list->v[i] : max;
    return max;
}

/* Infinities are legal if the range includes them. NaN is rejected, because the comparison with the
 * range is negated. */
int reals_read(struct samples *out, const char *text, double lo, double hi, struct err *e)
{
    for (const char *at = text; *text; at++) {
        char *end;
        double x = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(x >= lo && x <= hi))
            return err_set(e, ERR_ARG, "must be numbers N,N,... in [%g, %g], got \"%.60s\"", lo, hi,
                           text);
        if (!vec_push(out, x)) return err_memory(e, "numbers", sizeof x);
        at = end;
        if (!*end) break;
    }
    return 0;
}

int reals_form(const char *text, double lo, double hi, struct err *e)
{
    struct samples list = {0};
    int rc = reals_read(&list, text, lo, hi, e);
    vec_deinit(&list);
    return rc;
}

/* Require KEY=VALUE for a header. Reject CR and LF, which would begin another header. */
int pair_form(const char *text, struct err *e)
{
    const char *equals = strchr(text, '=');
    return equals && equals > text && !strpbrk(text, "\r\n") ? 0 : form_wrong(e, "KEY=VALUE", text);
}

bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list;; at++) {
        size_t k = strcspn(at, ",");
        if (k == n && strncmp(at, name, n) == 0) return true;
        at += k;
        if (!*at) return false;
    }
}
