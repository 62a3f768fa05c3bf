/* Goal: no job of deferred.c waits without end, and a job without a sequence is removed first.
 * Method: constraints whose masks need a given amount of work, with and without the thread. */
#include "engine_impl.h"
#include "../../tests/unit.h"

#include <math.h>
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

static void costly_follow(struct constraint *c, const struct constraint *from)
{
    *(struct costly *)c = *(const struct costly *)from;
}

static enum constraint_made costly_mask(struct constraint *c, uint32_t *mask, int64_t n_work)
{
    const struct costly *k = (const struct costly *)c;
    mask[0] = 1;
    atomic_fetch_add(k->n_call, 1);
    return n_work < k->need ? CONSTRAINT_LATER : CONSTRAINT_MADE;
}

static const struct constraint_ops costly_ops = {.fork = costly_fork,
                                                 .close = costly_close,
                                                 .follow = costly_follow,
                                                 .mask_within = costly_mask};

/* Sequence that needs a mask. */
struct client {
    struct seq seq;
    struct group group;
    struct request request;
    int calls; /* number of calls for one mask, minus 1 */
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

/* Free the jobs of k [n], whose masks are made or whose engine has ended. Zero the clients. */
static void clear(struct client *k, int n)
{
    for (int i = 0; i < n; i++) deferred_job_close(k[i].seq.idle_job);
    memset(k, 0, (size_t)n * sizeof *k);
}

/* Put a job of a holder that needs 4^calls times the work of a step. */
static bool put_of(struct client *k, int calls, uint64_t holder, double weight)
{
    struct err e;
    int64_t need = CONSTRAINT_STEP_WORK, n_byte = 0;
    clear(k, 1);
    k->calls = calls;
    while (calls-- > 0) need *= 4;
    k->request.holder = holder;
    k->request.holder_weight = weight;
    k->group.request = &k->request;
    k->seq.group = &k->group;
    k->c = (struct costly){.base = {.op = &costly_ops}, .need = need, .n_call = &k->n_call};
    k->seq.constraint = &k->c.base;
    k->seq.mask = k->mask;
    k->seq.n_mask_word = 1;
    k->seq.mask_made = CONSTRAINT_LATER;
    if (deferred_job_open(&k->seq.idle_job, &k->c.base, 1, 0, &n_byte, &e) != 0) return false;
    deferred_put(&en, &k->seq);
    return true;
}

static bool put(struct client *k, int calls)
{
    return put_of(k, calls, 0, 1);
}

/* Return the steps of work for a mask of n calls. */
static int64_t work_of(int n)
{
    int64_t sum = 0, one = CONSTRAINT_STEP_WORK;
    for (int i = 0; i < n; i++) sum += one *= 4;
    return sum;
}

/* Make masks for two holders: n_many jobs of the first at all times, and one of the second. Return
 * the second holder's share of the work. A holder's new job is put after `gap` calls. */
static double share_of_second(int n_many, const int calls[2], double weight, int gap)
{
    static struct client many[7], one;
    int64_t done[2] = {0};
    int idle = 0;
    if (!begin(8)) return -1;
    for (int n = 0; n < 4000; n++) {
        for (int i = 0; i < n_many; i++)
            if (!many[i].seq.job) {
                if (many[i].calls) done[0] += work_of(many[i].calls);
                EXPECT(put_of(&many[i], calls[0], 1, 1));
            }
        if (!one.seq.job && idle++ >= gap) {
            if (one.calls) done[1] += work_of(one.calls);
            EXPECT(put_of(&one, calls[1], 2, weight));
            idle = 0;
        }
        deferred_collect(&en);
    }
    end();
    clear(many, 7);
    clear(&one, 1);
    return (double)done[1] / (double)(done[0] + done[1]);
}

/* A holder gets its share of the work for any number and cost of the jobs of another holder. */
TEST(deferred_work_is_shared_by_holders)
{
    static const struct {
        int n_many, calls[2];
        double weight, share;
        int gap;
    } cases[] = {{1, {3, 3}, 1, 0.5, 0}, {7, {3, 3}, 1, 0.5, 0},  {7, {1, 5}, 1, 0.5, 0},
                 {7, {5, 1}, 1, 0.5, 0}, {7, {3, 3}, 3, 0.75, 0}, {7, {2, 4}, 1, 0.5, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double share =
            share_of_second(cases[i].n_many, cases[i].calls, cases[i].weight, cases[i].gap);
        test_note("%d jobs of %d calls beside one of %d, weight %g: share %.3f", cases[i].n_many,
                  cases[i].calls[0], cases[i].calls[1], cases[i].weight, share);
        EXPECT(fabs(share - cases[i].share) < 0.05);
    }
}

/* Turns of holders without further jobs are removed. */
TEST(deferred_turns_of_many_holders)
{
    static struct client k[4];
    int n_made = 0;
    NEED(begin(4));
    for (uint64_t i = 0; i < 4000; i++) {
        struct client *one = &k[i % 4];
        n_made += one->seq.mask_made == CONSTRAINT_MADE;
        if (!one->seq.job) NEED(put_of(one, 1 + (int)(i % 3), i + 1, 1 + (double)(i % 5)));
        deferred_collect(&en);
    }
    EXPECT(n_made > 1000);
    end();
    clear(k, 4);
}

/* An expensive job does not wait forever for a continuous sequence of cheap jobs. */
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
    clear(&costly, 1);
    clear(cheap, 2);
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
    clear(&cheap, 1);
}

/* A thread that starts later makes the masks of earlier jobs. */
TEST(deferred_thread_takes_earlier_jobs)
{
    static struct client early, late;
    struct message m;
    NEED(begin(4) && put(&early, 2));
    NEED(deferred_start(en.deferred) && put(&late, 1));
    while (late.seq.job && queue_pop(en.inbox, &m, 20 * 1000 * 1000)) deferred_collect(&en);
    while (early.seq.job && queue_pop(en.inbox, &m, 5 * 1000 * 1000)) deferred_collect(&en);
    EXPECT(early.seq.mask_made == CONSTRAINT_MADE && late.seq.mask_made == CONSTRAINT_MADE);
    end();
    clear(&early, 1);
    clear(&late, 1);
}
