/* rank.c - where to cut a distribution, without sorting it.
 *
 * Top-k, top-p and typical-p all ask: which is the shortest prefix, best first, whose weights reach
 * a target? A radix search answers in linear time whatever the input: the ranks are cut into digits
 * of 11, 11 and 10 bits; for each digit the weights of the ranks that agree so far are summed into
 * buckets, and the bucket in which the target falls gives the digit. Within equal ranks the lower
 * index (the lower id) comes first. */
#include "sample_impl.h"

static const struct digit {
    int shift;
    uint32_t mask;
} digits[] = {{21, 0x7ff}, {10, 0x7ff}, {0, 0x3ff}};

static void bucket_fill(struct sample_work *w, const double *weight, int n, struct digit d,
                        struct digit done, uint32_t found)
{
    memset(w->bucket, 0, N_BUCKET * sizeof *w->bucket);
    for (int i = 0; i < n; i++) {
        uint32_t rank = w->rank[i];
        if ((rank & done.mask) == found)
            w->bucket[rank >> d.shift & d.mask] += weight ? weight[i] : 1;
    }
}

/* The bucket in which *before + sums reaches the target, else the last one above 0; *before then
 * holds the sum in front of it. */
static uint32_t bucket_find(const double *bucket, double *before, double target)
{
    uint32_t last = 0;
    double sum = *before;
    for (uint32_t b = 0; b < N_BUCKET; b++) {
        if (!(bucket[b] > 0)) continue;
        last = b;
        *before = sum;
        sum += bucket[b];
        if (sum >= target) break;
    }
    return last;
}

struct cut rank_cut(struct sample_work *w, const double *weight, int n, double target)
{
    struct cut cut = {0};
    struct digit done = {0};
    double before = 0;
    for (int i = 0; i < 3; i++) {
        bucket_fill(w, weight, n, digits[i], done, cut.rank);
        cut.rank |= bucket_find(w->bucket, &before, target) << digits[i].shift;
        done.mask |= digits[i].mask << digits[i].shift;
    }
    for (int i = 0; i < n && (cut.n_tie == 0 || before < target); i++)
        if (w->rank[i] == cut.rank) {
            before += weight ? weight[i] : 1;
            cut.n_tie++;
        }
    return cut;
}
