/* traffic_read_fuzz.c - read mutated traces, and check the clients' conditions for their jobs. */
#include "../../tests/fuzz/fuzz.h"

#include "traffic.h"

#include <assert.h>
#include <stdlib.h>

/* LONG_PROMPT: maximum length of a prompt, because long prompts take most of the time. */
enum { JOBS_MAX = 1000, CONTEXT = 2048, N_VOCAB = 300, LONG_PROMPT = 4096 };

static void check_jobs(const struct traffic *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct traffic_job *j = &t->v[i];
        assert(j->n_prompt >= 1 && j->n_output >= 1);
        assert(j->arrival_us >= (i ? t->v[i - 1].arrival_us : 0));
        assert(j->n_block >= 0 && j->block0 + (size_t)j->n_block <= t->block.n);
    }
}

/* Check that the prompt of each job has the length of the trace and only ids of the vocabulary. */
static void check_prompts(const struct traffic *t)
{
    struct ids ids = {0};
    struct err e;
    for (size_t i = 0; i < t->n; i++) {
        if (t->v[i].n_prompt > LONG_PROMPT) continue;
        ids.n = 0;
        if (traffic_prompt(t, i, N_VOCAB, &ids, &e) != 0) break;
        assert(ids.n == (size_t)t->v[i].n_prompt);
        for (size_t k = 0; k < ids.n; k++) assert(ids.v[k] >= 0 && ids.v[k] < N_VOCAB);
    }
    vec_deinit(&ids);
}

FUZZ(traffic)
{
    struct traffic t = {0};
    struct err e = {0};
    int rc = traffic_read(&t, fuzz_file(data, n, ".trace"), JOBS_MAX, &e);
    assert((rc == 0) == (e.text[0] == 0));
    if (rc == 0) {
        fuzz_accepted();
        assert(t.n >= 1 && t.n <= JOBS_MAX);
        check_jobs(&t);
        check_prompts(&t);
        traffic_fit(&t, CONTEXT);
        for (size_t i = 0; i < t.n; i++)
            assert(t.v[i].n_prompt >= 1 && t.v[i].n_prompt + t.v[i].n_output <= CONTEXT);
        traffic_faster(&t, 3);
        check_jobs(&t);
    }
    traffic_close(&t);
}
