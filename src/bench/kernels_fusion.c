/* kernels_fusion.c - quoth bench kernels --fusion: the gain of each of the backend's fusions. This
 * file also checks that a fusion changes no bit of the results.
 *
 * Runs with all fusions alternate with runs without one fusion, so that other programs slow both
 * kinds equally. The gain is the median of the ratios of neighbouring runs. */
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>

/* The measured model, which all cases share. */
struct fusion_table {
    const struct kernels_plan *plan; /* borrowed */
    struct session s;
    struct bench_model *b; /* owned */
};

/* Measure a case. Every second run disables the fusion `plain`. */
static int measure_fusion(const struct fusion_table *t, const struct bench_case *c, unsigned plain,
                          const char *name, const char *what, struct err *e)
{
    struct backend *backend = t->s.backend;
    struct samples gain = {0}, seconds = {0};
    char test[40];
    bool ok = true;
    kernels_case_name(test, sizeof test, c);
    progress_note(test);
    uint64_t bits = bench_model_bits(t->b, c);
    backend->plain = plain;
    const bool same = bench_model_bits(t->b, c) == bits;
    for (int i = 0; i < t->plan->n_repeat && ok; i++) {
        backend->plain = i % 2 ? plain : 0; /* the order also alternates */
        double one = bench_model_time(t->b, c);
        backend->plain = i % 2 ? 0 : plain;
        double other = bench_model_time(t->b, c);
        ok = vec_push(&gain, i % 2 ? one / other : other / one) &&
             vec_push(&seconds, i % 2 ? other : one);
    }
    backend->plain = 0;
    progress_note(NULL);
    int rc = ok ? 0 : err_memory(e, "samples", sizeof(double));
    if (rc == 0 && t->plan->as_json)
        printf("{\"test\":\"%s\",\"depth\":%d,\"fusion\":\"%s\",\"ms\":%.4f,\"gain\":%.4f,"
               "\"sd\":%.4f,\"same_bits\":%s}\n",
               test, c->depth, name, 1e3 * samples_median(&seconds), samples_median(&gain) - 1,
               samples_sd(&gain), same ? "true" : "false");
    else if (rc == 0)
        printf("%-14s %7d %-6s %10.3f %+7.1f%% %7.1f%% %-6s %s\n", test, c->depth, name,
               1e3 * samples_median(&seconds), 100 * (samples_median(&gain) - 1),
               100 * samples_sd(&gain), same ? "same" : "DIFFER", what);
    fflush(stdout);
    vec_deinit(&gain);
    vec_deinit(&seconds);
    if (rc == 0 && !same) rc = err_set(e, ERR_UNSUPPORTED, "the fusion %s changes results", name);
    return rc;
}

/* Measure each fusion alone, then all together. */
static int measure_case(const struct fusion_table *t, const struct bench_case *c, struct err *e)
{
    int rc = 0;
    for (int f = 0; f < FUSION_COUNT && rc == 0; f++)
        rc = measure_fusion(t, c, 1u << f, fusion_name[f], fusion_what[f], e);
    if (rc == 0) rc = measure_fusion(t, c, ~0u, "all", "all of them", e);
    return rc;
}

int kernels_fusion(const char *model, const struct kernels_plan *p, struct err *e)
{
    struct fusion_table t = {.plan = p};
    int rc = kernels_session(&t.s, p, model, e);
    if (rc == 0) rc = bench_model_open(&t.b, &t.s, p->n_seq, e);
    if (rc == 0 && !p->as_json)
        printf("%-14s %7s %-6s %10s %8s %8s %-6s\n", "test", "depth", "fusion", "ms", "gain", "+/-",
               "bits");
    for (size_t i = 0; i < p->depth.n && rc == 0; i++) {
        struct bench_case c[KERNELS_CASES_MAX];
        int n = kernels_cases(c, KERNELS_CASES_MAX, p, p->depth.v[i]);
        for (int k = 0; k < n && rc == 0; k++) rc = measure_case(&t, &c[k], e);
    }
    bench_model_close(t.b);
    session_close(&t.s);
    return rc;
}
