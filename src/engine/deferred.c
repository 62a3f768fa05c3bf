/* deferred.c - masks that need more work than a step may do. A thread of low priority makes them
 * while their sequences get no rows. So no other sequence waits for them.
 *
 *   constraint_prepare --mask_within a step's work: LATER--> job --todo--> thread: mask_within with
 *          ^                                                                more and more work
 *          '---------------------- the sequence's mask <--done-- job <----------'
 *
 * The thread takes the job with the least work first. So a mask of moderate cost does not wait
 * for the most expensive ones. A mask has one value, so tokens do not depend on the thread that
 * made it.
 *
 * While a job exists, no sequence whose constraint has the same `shared` gets rows, because the
 * thread may use it. If the sequence of a job ends, the job ends after the call in progress.
 *
 * If there is no thread (the engine is stepped by hand, or pthread_create fails), each step
 * makes one call. */
#include "engine_impl.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum { GROWTH = 4 };

struct job {
    struct constraint *c; /* owned: a fork */
    uint32_t *mask;       /* owned [n_mask_word] */
    int64_t n_work;       /* steps of work of the next call */
    enum constraint_made made;
    atomic_bool cancelled;
    struct seq *seq;   /* engine's thread; NULL if the sequence has ended */
    struct job *next;  /* engine's thread: list of all jobs */
    struct job *after; /* slow thread: list of its jobs */
};

struct deferred {
    struct queue *todo, *done; /* owned, of struct job * */
    struct queue *inbox;       /* the engine's: gets a message when a job is done */
    struct job *all;           /* owned; engine's thread */
    int n, n_max;
    pthread_t thread;
    bool started;
    atomic_bool quit;
};

int deferred_open(struct deferred **out, int n_max, struct queue *inbox, struct err *e)
{
    struct deferred *w = *out = calloc(1, sizeof *w);
    if (!w) return err_memory(e, "slow masks", sizeof *w);
    w->n_max = n_max;
    w->inbox = inbox;
    w->todo = queue_open((size_t)n_max, sizeof(struct job *));
    w->done = queue_open((size_t)n_max, sizeof(struct job *));
    return w->todo && w->done ? 0 : err_memory(e, "slow masks", (size_t)n_max * 16);
}

static void job_close(struct job *j)
{
    if (j->c) j->c->op->close(j->c);
    free(j->mask);
    free(j);
}

void deferred_close(struct deferred *w)
{
    if (!w) return;
    atomic_store(&w->quit, true);
    if (w->started) {
        queue_wake(w->todo);
        pthread_join(w->thread, NULL);
    }
    for (struct job *j = w->all, *next; j; j = next) {
        next = j->next;
        if (j->seq) j->seq->job = NULL;
        job_close(j);
    }
    queue_close(w->todo);
    queue_close(w->done);
    free(w);
}

/* ---- the thread ---- */

/* Call mask_within once, and raise the work of the next call. Return false if another call is
 * needed. */
static bool job_run(struct job *j)
{
    if (atomic_load(&j->cancelled)) return true;
    j->made = j->c->op->mask_within(j->c, j->mask, j->n_work);
    if (j->n_work < INT64_MAX / GROWTH) j->n_work *= GROWTH;
    return j->made != CONSTRAINT_LATER;
}

/* Return the link to the job with the least work. The list must not be empty. */
static struct job **cheapest(struct job **list)
{
    struct job **best = list;
    for (; *list; list = &(*list)->after)
        if ((*list)->n_work < (*best)->n_work) best = list;
    return best;
}

/* Make masks until quit: receive jobs (wait only without one), and work on the cheapest. */
static void *deferred_main(void *arg)
{
    struct deferred *w = arg;
    struct job *list = NULL, *j;
    os_thread_background();
    while (!atomic_load(&w->quit)) {
        struct job **end = &list;
        while (*end) end = &(*end)->after;
        while (queue_pop(w->todo, &j, list ? 0 : -1)) {
            j->after = NULL;
            *end = j;
            end = &j->after;
        }
        if (!list) continue;
        struct job **at = cheapest(&list);
        j = *at;
        if (!job_run(j)) continue;
        *at = j->after;
        queue_push(w->done, &j); /* cannot fail: it has room for all jobs */
        queue_push(w->inbox,
                   &(struct message){.kind = MESSAGE_MASK}); /* if it is full, the engine is
                                                              * awake */
    }
    return NULL;
}

/* ---- the engine's side ---- */

bool deferred_put(struct engine *en, struct seq *s)
{
    struct deferred *w = en->deferred;
    struct job *j = w->n < w->n_max ? calloc(1, sizeof *j) : NULL;
    if (!j) return false;
    j->c = s->constraint->op->fork(s->constraint);
    j->mask = malloc(s->n_mask_word * sizeof *j->mask);
    j->n_work = GROWTH * (int64_t)CONSTRAINT_STEP_WORK;
    if (en->started && !w->started)
        w->started = pthread_create(&w->thread, NULL, deferred_main, w) == 0;
    if (!j->c || !j->mask) return job_close(j), false;
    j->seq = s;
    s->job = j;
    j->next = w->all;
    w->all = j;
    w->n++;
    if (w->started) queue_push(w->todo, &j);
    return true;
}

/* Remove a job. Its result goes to its sequence, if that has not ended. */
static void finish(struct deferred *w, struct job *j)
{
    struct job **at = &w->all;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    w->n--;
    if (j->seq) {
        j->seq->job = NULL;
        j->seq->mask_made = j->made;
        if (j->made == CONSTRAINT_MADE)
            memcpy(j->seq->mask, j->mask, j->seq->n_mask_word * sizeof *j->mask);
    }
    job_close(j);
}

bool deferred_collect(struct engine *en)
{
    struct deferred *w = en->deferred;
    struct job *j;
    while (queue_pop(w->done, &j, 0)) finish(w, j);
    if (w->started || !w->all) return false;
    if (job_run(w->all)) finish(w, w->all);
    return true;
}

bool deferred_uses(const struct engine *en, const void *shared)
{
    const struct job *j = en->deferred->all;
    while (j && (!shared || j->c->shared != shared)) j = j->next;
    return j;
}

void deferred_cancel(struct job *j)
{
    if (!j) return;
    j->seq = NULL;
    atomic_store(&j->cancelled, true);
}
