/* Goal: a request of the library whose allocation fails is rejected, ends with "error", or has the
 * usual answer. The next request has the usual answer. Method: use the bundled model through
 * quoth.h. Each allocation between submission and end fails once, alone and with all later
 * allocations. */
#include "../alloc.h"
#include "../unit.h"

#include <quoth.h>

#include <stdlib.h>

static const char chat[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"What is 47 + 38?\"}]}";
static const char params[] =
    "{\"temperature\":0,\"max_tokens\":8,\"n\":2,\"logprobs\":1,\"stop\":[\"zzz\"]}";

struct output {
    /* status of the submission, or QUOTH_ERR_MEMORY for an answer that ended with "error" */
    int rc;
    size_t n[2];
    char text[2][2048]; /* text of each choice */
};

static void generate(quoth_queue *q, struct output *s)
{
    quoth_request r = {.size = sizeof r, .chat = chat, .params = params};
    char why[512];
    const quoth_event *e;
    *s = (struct output){0};
    s->rc = quoth_submit(q, &r, NULL, why, sizeof why);
    while (s->rc == 0 && (e = quoth_poll(q, 10000))) {
        size_t *n = &s->n[e->choice];
        if (*n + e->n_text < sizeof s->text[0]) {
            memcpy(s->text[e->choice] + *n, e->text, e->n_text);
            *n += e->n_text;
        }
        if (e->finish_reason && strcmp(e->finish_reason, "error") == 0) s->rc = QUOTH_ERR_MEMORY;
        if (e->kind == QUOTH_EVENT_DONE) break;
    }
    while (quoth_n_open(q) && quoth_poll(q, 10000)) continue;
}

static bool same(const struct output *a, const struct output *b)
{
    return a->rc == b->rc && strcmp(a->text[0], b->text[0]) == 0 &&
           strcmp(a->text[1], b->text[1]) == 0;
}

static void sweep(quoth_queue *q, uint64_t count, const struct output *want)
{
    struct output got;
    int n_run = 0, n_error = 0;
    bool hit = true;
    for (uint64_t n = 0; hit; n++, n_run++) {
        alloc_fail(n, count);
        generate(q, &got);
        hit = alloc_fail_end() > n;
        n_error += got.rc != 0;
        if (got.rc != QUOTH_ERR_MEMORY && !same(&got, want))
            test_fail(__FILE__, __LINE__, "%llu: code %d: %.200s", (unsigned long long)n, got.rc,
                      got.text[0]);
        generate(q, &got);
        if (!same(&got, want))
            test_fail(__FILE__, __LINE__, "after %llu: code %d: %.200s", (unsigned long long)n,
                      got.rc, got.text[0]);
    }
    test_note("%d runs, %d errors", n_run, n_error);
}

TEST(memory_of_the_library)
{
    static const quoth_option small[] = {
        {"max-model-len", "256"}, {"max_num_seqs", "4"}, {"threads", "1"}};
    char why[512] = "";
    quoth_model *m;
    struct output want;
    NEED(quoth_open(&m, repo_path("models/quoth-tiny/quoth-tiny-q8_0.gguf"), small, 3, why,
                    sizeof why) == 0);
    quoth_queue *q = quoth_queue_open(m);
    NEED(q);
    generate(q, &want);
    generate(q, &want);
    EXPECT(want.rc == 0 && want.n[0] > 0 && want.n[1] > 0);
    sweep(q, 1, &want);
    sweep(q, ALLOC_ALL, &want);
    quoth_queue_close(q);
    quoth_close(m);
}
