/* Goal: no job of deferred.c waits without end, and a job without a sequence is removed first.
 * Method: constraints whose masks need a given amount of work, with and without the thread. */
#include "engine_impl.h"
#include "../../tests/unit.h"

#include <stdlib.h>

struct costly {
    struct constraint base;
    int64_t need;
    atomic_int *n_call; /* borrowed; counter of calls */
};

static struct constraint *costly_fork(const struct constraint *c)
{
    struct costly *fork = malloc(sizeof *fork);
    if (fork) *fork = *(const struct costly *)c;
    return fork ? &fork->base : NULL;
}

static void costly_close(struct constraint *c)
{
    free(c);
}

static enum constraint_made costly_mask(struct constraint *c, uint32_t *mask, int64_t n_work)
{
    const struct costly *k = (const struct costly *)c;
    mask[0] = 1;
    atomic_fetch_add(k->n_call, 1);
    return n_work < k->need ? CONSTRAINT_LATER : CONSTRAINT_MADE;
}

static const struct constraint_ops costly_ops = {
    .fork = costly_fork, .close = costly_close, .mask_within = costly_mask};

/* Sequence that needs a mask. */
struct client {
    struct seq seq;
    struct costly c;
    uint32_t mask[1];
    atomic_int n_call;
};

static struct engine en;

static bool begin(int n_max)
{
    struct err e;
    memset(&en, 0, sizeof en);
    en.inbox = queue_open(8, sizeof(struct message));
    return en.inbox && deferred_open(&en.deferred, n_max, en.inbox, &e) == 0;
}

static void end(void)
{
    deferred_close(en.deferred);
    queue_close(en.inbox);
}

/* Put a job that needs 4^calls times the work of a step. */
static bool put(struct client *k, int calls)
{
    int64_t need = CONSTRAINT_STEP_WORK;
    while (calls-- > 0) need *= 4;
    memset(k, 0, sizeof *k);
    k->c = (struct costly){.base = {.op = &costly_ops}, .need = need, .n_call = &k->n_call};
    k->seq.constraint = &k->c.base;
    k->seq.mask = k->mask;
    k->seq.n_mask_word = 1;
    k->seq.mask_made = CONSTRAINT_LATER;
    return deferred_put(&en, &k->seq);
}

/* An endless stream of cheap jobs does not keep an expensive job waiting. */
TEST(deferred_jobs_age)
{
    static struct client costly, cheap[2];
    int n = 0;
    NEED(begin(8) && put(&costly, 5));
    for (; n < 10000 && costly.seq.mask_made == CONSTRAINT_LATER; n++) {
        struct client *k = &cheap[n % 2];
        if (!k->seq.job) NEED(put(k, 2));
        deferred_collect(&en);
    }
    test_note("%d calls", n);
    EXPECT(costly.seq.mask_made == CONSTRAINT_MADE);
    EXPECT(n > 10); /* cheap jobs run first */
    end();
}

TEST(deferred_cancelled_jobs_leave_first)
{
    static struct client cheap, gone;
    NEED(begin(2) && put(&cheap, 1) && put(&gone, 20));
    EXPECT(deferred_full(&en));
    deferred_cancel(gone.seq.job);
    deferred_collect(&en);
    EXPECT(!deferred_full(&en) && cheap.seq.job);
    EXPECT_INT(atomic_load(&gone.n_call), 0);
    end();
}

/* A thread that starts later makes the masks that were put before. */
TEST(deferred_thread_takes_earlier_jobs)
{
    static struct client early, late;
    struct message m;
    NEED(begin(4) && put(&early, 2));
    en.started = true;
    NEED(put(&late, 1));
    while (late.seq.job && queue_pop(en.inbox, &m, 20 * 1000 * 1000)) deferred_collect(&en);
    while (early.seq.job && queue_pop(en.inbox, &m, 5 * 1000 * 1000)) deferred_collect(&en);
    EXPECT(early.seq.mask_made == CONSTRAINT_MADE && late.seq.mask_made == CONSTRAINT_MADE);
    end();
}
