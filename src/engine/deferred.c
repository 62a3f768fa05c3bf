/* deferred.c - masks that need more work than a step may do. A thread of low priority makes them
 * while their sequences get no rows. So no other sequence waits for them.
 *
 *   constraint_prepare --mask_within a step's work: LATER--> job --todo--> thread: mask_within with
 *          ^                                                                more and more work
 *          '---------------------- the sequence's mask <--done-- job <----------'
 *
 * The thread takes the job whose next call costs least, less the work that it has waited for. So a
 * mask of moderate cost does not wait for the most expensive masks, and no mask waits without end.
 * A mask has one value, so tokens do not depend on the thread that made it.
 *
 * While a job exists, no sequence whose constraint has the same `shared` gets rows, because the
 * thread may use it. A job ends after the call in progress if its sequence ends. Sequences wait for
 * the end of a job if there are too many jobs.
 *
 * If there is no thread (the engine is stepped by hand, or pthread_create fails), each step
 * makes one call. The next job tries to start a thread again. */
#include "engine_impl.h"

#include "base/check.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum { GROWTH = 4 };

struct mask_job {
    struct constraint *c; /* owned; fork of the sequence's constraint */
    uint32_t *mask;       /* owned [n_mask_word]; mask under construction */
    int64_t n_work;       /* steps of work of the next call */
    int64_t waited;       /* steps of work of other jobs since its last call */
    enum constraint_made made;
    atomic_bool cancelled;
    struct seq *seq;        /* borrowed; engine thread only; NULL if the sequence has ended */
    struct mask_job *next;  /* borrowed; engine thread: next in deferred.all */
    struct mask_job *after; /* borrowed; mask thread only: next in its list */
};

struct deferred {
    struct queue *todo, *done; /* owned; queues of struct mask_job * */
    struct queue *inbox;       /* borrowed; engine's inbox: gets a message at the end of a job */
    struct mask_job *all;      /* owned; list of all jobs; engine thread only */
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
    w->todo = queue_open((size_t)n_max, sizeof(struct mask_job *));
    w->done = queue_open((size_t)n_max, sizeof(struct mask_job *));
    return w->todo && w->done ? 0 : err_memory(e, "slow masks", (size_t)n_max * 16);
}

static void job_close(struct mask_job *j)
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
    for (struct mask_job *j = w->all, *next; j; j = next) {
        next = j->next;
        if (j->seq) j->seq->job = NULL;
        job_close(j);
    }
    queue_close(w->todo);
    queue_close(w->done);
    free(w);
}

/* ---- the thread ---- */

/* Call mask_within once, and raise the work of the next call.
 * Return false if another call is needed. */
static bool job_run(struct mask_job *j)
{
    if (atomic_load(&j->cancelled)) return true;
    j->made = j->c->op->mask_within(j->c, j->mask, j->n_work);
    if (j->n_work < INT64_MAX / GROWTH) j->n_work *= GROWTH;
    return j->made != CONSTRAINT_LATER;
}

/* Return true if a is to run before b: cancelled jobs, then those of the least work that have
 * waited longest. */
static bool before(const struct mask_job *a, const struct mask_job *b)
{
    bool gone = atomic_load(&a->cancelled), other = atomic_load(&b->cancelled);
    return gone != other ? gone : a->n_work - a->waited < b->n_work - b->waited;
}

/* Add n_work to the waiting time of all jobs except j. */
static void age(struct mask_job *one, const struct mask_job *j, int64_t n_work)
{
    if (one == j)
        one->waited = 0;
    else if (one->waited < INT64_MAX / 2 - n_work)
        one->waited += n_work;
}

/* Return the link to the job that runs next. *list must not be empty. */
static struct mask_job **first_of(struct mask_job **list)
{
    struct mask_job **best = list;
    for (; *list; list = &(*list)->after)
        if (before(*list, *best)) best = list;
    return best;
}

/* Make masks until quit: receive jobs and work on the first of them. Wait only without a job. */
static void *deferred_main(void *arg)
{
    struct deferred *w = arg;
    struct mask_job *list = NULL, *j;
    os_thread_background();
    while (!atomic_load(&w->quit)) {
        struct mask_job **end = &list;
        while (*end) end = &(*end)->after;
        while (queue_pop(w->todo, &j, list ? 0 : -1)) {
            j->after = NULL;
            *end = j;
            end = &j->after;
        }
        if (!list) continue;
        struct mask_job **at = first_of(&list);
        j = *at;
        for (struct mask_job *one = list; one; one = one->after) age(one, j, j->n_work);
        if (!job_run(j)) continue;
        *at = j->after;
        bool has_room = queue_push(w->done, &j);
        CHECK(has_room, "more than %d jobs are done", w->n_max);
        /* the engine is awake if its inbox is full */
        queue_push(w->inbox, &(struct message){.kind = MESSAGE_MASK});
    }
    return NULL;
}

/* ---- the engine's side ---- */

bool deferred_full(const struct engine *en)
{
    return en->deferred->n == en->deferred->n_max;
}

/* Start the thread, and pass it the jobs that were put before. */
static void start(struct deferred *w)
{
    w->started = pthread_create(&w->thread, NULL, deferred_main, w) == 0;
    for (struct mask_job *j = w->all; j && w->started; j = j->next) queue_push(w->todo, &j);
}

bool deferred_put(struct engine *en, struct seq *s)
{
    struct deferred *w = en->deferred;
    CHECK(!s->job, "choice %d has a job already", s->choice);
    struct mask_job *j = deferred_full(en) ? NULL : calloc(1, sizeof *j);
    if (!j) return false;
    j->c = s->constraint->op->fork(s->constraint);
    j->mask = malloc(s->n_mask_word * sizeof *j->mask);
    j->n_work = GROWTH * (int64_t)CONSTRAINT_STEP_WORK;
    if (!j->c || !j->mask) return job_close(j), false;
    if (en->started && !w->started) start(w);
    j->seq = s;
    s->job = j;
    j->next = w->all;
    w->all = j;
    w->n++;
    if (w->started) queue_push(w->todo, &j);
    return true;
}

/* Remove a job. Move its result to its sequence if the sequence has not ended. */
static void finish(struct deferred *w, struct mask_job *j)
{
    struct mask_job **at = &w->all;
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
    struct mask_job *j;
    while (queue_pop(w->done, &j, 0)) finish(w, j);
    if (w->started || !w->all) return false;
    struct mask_job *first = w->all;
    for (j = w->all; j; j = j->next)
        if (before(j, first)) first = j;
    for (j = w->all; j; j = j->next) age(j, first, first->n_work);
    if (job_run(first)) finish(w, first);
    return true;
}

bool deferred_uses(const struct engine *en, const void *shared)
{
    const struct mask_job *j = en->deferred->all;
    while (j && (!shared || j->c->shared != shared)) j = j->next;
    return j;
}

void deferred_cancel(struct mask_job *j)
{
    if (!j) return;
    j->seq = NULL;
    atomic_store(&j->cancelled, true);
}
