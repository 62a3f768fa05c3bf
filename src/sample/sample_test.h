/* sample_test.h - helpers of the tests of src/sample: a sampler with its scratch, random logits,
 * and a distribution as a sorted list for the references. The test's thread only. */
#ifndef QUOTH_SAMPLE_TEST_H
#define QUOTH_SAMPLE_TEST_H

#include "sample_impl.h"
#include "../../tests/unit.h"

#include <stdlib.h>

struct rig {
    const char *level; /* level of the kernels; NULL: the best level */
    struct sample_vocab v;
    struct sample_work *w;
    struct sampler *s;
};

/* Open a sampler for n_vocab tokens. Only n_vocab is set in v. Return false and fail the test if
 * the sampler cannot be opened. */
static inline bool rig_open(struct rig *r, const struct sample_params *p, int n_vocab)
{
    struct err e = {0};
    r->v.n_vocab = n_vocab;
    int rc = sample_work_open(&r->w, n_vocab, r->level, &e);
    if (rc == 0) rc = sampler_open(&r->s, p, &r->v, 0, 4096, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "sampler_open: %s", e.text);
    return rc == 0;
}

static inline void rig_close(struct rig *r)
{
    sampler_close(r->s);
    sample_work_close(r->w);
}

/* Set approximately normal logits of a random scale (sums of four uniform numbers). A quarter of
 * the vectors are coarse, so that many logits are equal. A quarter have forbidden and NaN entries,
 * but never only such entries. */
static inline void random_logits(float *x, int n, uint64_t *rng)
{
    float scale = 0.1f + 10 * rng_float(rng);
    bool coarse = rng_below(rng, 4) == 0, holes = rng_below(rng, 4) == 0;
    for (int i = 0; i < n; i++) {
        float sum = rng_float(rng) + rng_float(rng) + rng_float(rng) + rng_float(rng);
        x[i] = (sum - 2) * scale;
        if (coarse) x[i] = 0.5f * (float)(int)(2 * x[i]);
        if (holes && i > 0 && rng_below(rng, 3) == 0) x[i] = rng_below(rng, 2) ? NAN : -INFINITY;
    }
}

/* A distribution, best first: logits descend, and the ids of equal logits ascend. */
struct dist {
    int n;
    struct entry {
        int32_t id;
        double logit, p;
    } * at;
};

static inline int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Scale the weights so that their sum is 1. */
static inline void dist_normalize(struct dist *d, double temperature)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < d->n; i++) max = fmax(max, d->at[i].logit);
    for (int i = 0; i < d->n; i++) sum += d->at[i].p = exp((d->at[i].logit - max) / temperature);
    for (int i = 0; i < d->n; i++) d->at[i].p /= sum;
}

static inline struct dist dist_of(const float *logits, int n, double temperature)
{
    struct dist d = {.at = malloc((size_t)n * sizeof *d.at)};
    for (int i = 0; i < n; i++)
        if (logits[i] >= -FLT_MAX) d.at[d.n++] = (struct entry){.id = i, .logit = logits[i]};
    qsort(d.at, (size_t)d.n, sizeof *d.at, entry_order);
    dist_normalize(&d, temperature);
    return d;
}

/* Return true if the candidates in `w` are exactly the tokens of `d`. */
static inline bool same_tokens(const struct sample_work *w, const struct dist *d)
{
    if (w->n != d->n) return false;
    for (int i = 1; i < w->n; i++)
        if (w->id[i - 1] >= w->id[i]) return false;
    for (int i = 0; i < d->n; i++) {
        bool found = false;
        for (int lo = 0, hi = w->n; lo < hi && !found;) {
            int mid = (lo + hi) / 2;
            found = w->id[mid] == d->at[i].id;
            if (w->id[mid] < d->at[i].id)
                lo = mid + 1;
            else
                hi = mid;
        }
        if (!found) return false;
    }
    return true;
}

#endif
