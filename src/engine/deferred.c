/* deferred.c - masks with more work than the maximum of a step. A thread of low priority makes
 * these masks while their sequences get no rows. Therefore no other sequence waits for these masks.
 *
 *   constraint_prepare --mask_within a step's work: LATER--> job --todo--> thread: mask_within with
 *          ^                                                                more and more work
 *          '---------------------- the sequence's mask <--done-- job <----------'
 *
 * The thread takes a job of the holder with the least work so far, divided by its weight (struct
 * turn). Therefore many jobs of one holder delay another holder's masks by at most one call. The
 * thread takes one of a holder's jobs: that with the least cost of its next call minus the work for
 * which it has waited. Therefore a mask of moderate cost does not wait for the most expensive
 * masks, and no mask waits without end. The value of a mask does not depend on the thread that made
 * it.
 *
 * No sequence whose constraint has the `shared` of a job gets rows, because the thread may be using
 * the shared data. A job ends after the call in progress if its sequence ends. Sequences wait for
 * the end of a job if there are too many jobs.
 *
 * Each step makes one call if there is no mask thread, because a caller steps the engine by hand.
 *
 * A step allocates nothing. The client's thread opens the job of a constrained sequence at its
 * submission. The job has a fork of the constraint, a mask, and room for the sequence's output. The
 * fork may replay that output in a new grammar. The job has a copy of the output, because the
 * sequence may end before the job. */
#include "engine_impl.h"

#include "base/check.h"
#include "base/os.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ratio of the work of a call to that of the previous call; all earlier calls together do at most a
 * third of the last call's work */
enum { GROWTH = 4 };

struct mask_job {
    struct constraint *c; /* owned; fork of the sequence's constraint */
    int64_t n_work;       /* steps of work of the next call */
    int64_t waited;       /* steps of work of other jobs since its last call */
    enum constraint_made made;
    atomic_bool cancelled;
    uint64_t holder;
    double weight; /* weight of the holder, > 0 */
    /* sequence of the job, borrowed by the engine thread; NULL if the sequence has ended */
    struct seq *seq;
    struct mask_job *next;  /* borrowed; engine thread: next in deferred.all */
    struct mask_job *after; /* borrowed; next in deferred.list */
    int32_t *text;          /* [n_text_max] output of the sequence, for c; memory after mask */
    uint32_t mask[];        /* [n_mask_word] mask under construction */
};

/* Work for one holder. A holder without a job keeps its turn for some time. Jobs that are sent one
 * by one therefore have neither an advantage nor a disadvantage. A holder without a job loses only
 * the advantage that exceeds one call (floor_of). */
struct mask_turn {
    uint64_t holder;
    double served; /* steps of work divided by the holder's weight */
    int n_job;
};

struct deferred {
    struct queue *todo, *done; /* owned; queues of struct mask_job * */
    /* borrowed; engine's inbox, which gets a message at the end of a job */
    struct queue *inbox;
    struct mask_job *all; /* list of the jobs in use, owned; engine thread only */
    int n, n_max;
    /* jobs to make, and the turns of their holders: owned [2 n_max], [n_turn] used. The mask thread
     * uses these three fields if it is started. Without the mask thread, the engine thread uses
     * these fields. */
    struct mask_job *list;
    struct mask_turn *turn;
    int n_turn;
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
    w->turn = calloc(2 * (size_t)n_max, sizeof *w->turn);
    return w->todo && w->done && w->turn ? 0 : err_memory(e, "slow masks", (size_t)n_max * 16);
}

int deferred_job_open(struct mask_job **out, const struct constraint *c, size_t n_mask_word,
                      size_t n_text_max, int64_t *n_byte, struct err *e)
{
    const size_t n_mask_byte = n_mask_word * sizeof *(*out)->mask,
                 size = sizeof **out + n_mask_byte + n_text_max * sizeof *(*out)->text;
    struct mask_job *j = *out = calloc(1, size);
    if (!j) return err_memory(e, "a sequence's mask", size);
    j->text = (int32_t *)(void *)(j->mask + n_mask_word);
    j->c = c->op->fork(c);
    if (!j->c) return err_memory(e, "a sequence's constraint", (unsigned long long)c->n_byte);
    *n_byte += (int64_t)size + j->c->n_byte;
    return 0;
}

void deferred_job_close(struct mask_job *j)
{
    if (!j) return;
    if (j->c) j->c->op->close(j->c);
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
        deferred_job_close(j);
    }
    queue_close(w->todo);
    queue_close(w->done);
    free(w->turn);
    free(w);
}

/* ---- the thread ---- */

/* Call mask_within once, and raise the work of the next call. Return false if another call is
 * needed. */
static bool job_run(struct mask_job *j)
{
    if (atomic_load(&j->cancelled)) return true;
    j->made = j->c->op->mask_within(j->c, j->mask, j->n_work);
    if (j->n_work < INT64_MAX / GROWTH) j->n_work *= GROWTH;
    return j->made != CONSTRAINT_LATER;
}

/* ---- the order of jobs ---- */

/* Return the least work of a holder with jobs; 0 if no holder has jobs. */
static double least_served(const struct deferred *w)
{
    double least = INFINITY;
    for (int i = 0; i < w->n_turn; i++)
        if (w->turn[i].n_job > 0 && w->turn[i].served < least) least = w->turn[i].served;
    return least == INFINITY ? 0 : least;
}

/* Return the least work with which a holder returns. The result is the least work received by a
 * holder with jobs, minus the most expensive call, for which the holder may have waited. */
static double floor_of(const struct deferred *w)
{
    int64_t call = 0;
    for (const struct mask_job *j = w->list; j; j = j->after)
        if (j->n_work > call) call = j->n_work;
    return least_served(w) - (double)call;
}

/* Remove the turns of holders without jobs whose work is at most floor_of. A holder that returns
 * begins with at least floor_of. */
static void drop_turns(struct deferred *w)
{
    double least = floor_of(w);
    for (int i = 0; i < w->n_turn;)
        if (w->turn[i].n_job == 0 && w->turn[i].served <= least)
            w->turn[i] = w->turn[--w->n_turn];
        else
            i++;
}

static struct mask_turn *find_turn(struct deferred *w, uint64_t holder)
{
    for (int i = 0; i < w->n_turn; i++)
        if (w->turn[i].holder == holder) return &w->turn[i];
    return NULL;
}

/* Return the turn with the least work of a holder without jobs. A full table always has a turn
 * without jobs, because at most n_max holders have jobs. */
static struct mask_turn *idle_turn(struct deferred *w)
{
    struct mask_turn *found = NULL;
    for (int i = 0; i < w->n_turn; i++) {
        struct mask_turn *t = &w->turn[i];
        if (t->n_job == 0 && (!found || t->served < found->served)) found = t;
    }
    CHECK(found, "%d holders have jobs", w->n_turn);
    return found;
}

/* Return the turn of a holder. A new turn begins with the least work of a holder with jobs. */
static struct mask_turn *turn_of(struct deferred *w, uint64_t holder)
{
    struct mask_turn *t = find_turn(w, holder);
    if (!t) {
        const double served = least_served(w);
        drop_turns(w);
        t = w->n_turn < 2 * w->n_max ? &w->turn[w->n_turn++] : idle_turn(w);
        *t = (struct mask_turn){.holder = holder, .served = served};
    }
    if (t->n_job == 0 && t->served < floor_of(w)) t->served = floor_of(w);
    return t;
}

/* Return true if a is to run before b. The order is: cancelled jobs, jobs of the holder with the
 * least work, jobs of the least work that have waited longest. */
static bool before(struct deferred *w, const struct mask_job *a, const struct mask_job *b)
{
    bool gone = atomic_load(&a->cancelled), other = atomic_load(&b->cancelled);
    if (gone != other) return gone;
    if (a->holder != b->holder) {
        double of_a = find_turn(w, a->holder)->served, of_b = find_turn(w, b->holder)->served;
        if (of_a != of_b) return of_a < of_b;
    }
    return a->n_work - a->waited < b->n_work - b->waited;
}

/* Add n_work to the waiting time of a job, except the job `made`. */
static void age(struct mask_job *one, const struct mask_job *made, int64_t n_work)
{
    if (one == made)
        one->waited = 0;
    else if (one->waited < INT64_MAX / 2 - n_work)
        one->waited += n_work;
}

/* Append a job, and count it for its holder. */
static void add(struct deferred *w, struct mask_job *j)
{
    struct mask_job **end = &w->list;
    while (*end) end = &(*end)->after;
    j->after = NULL;
    *end = j;
    turn_of(w, j->holder)->n_job++;
}

/* Make one call for the first job. The list must not be empty. Return the job if it is done and
 * removed from the list; NULL if another call is necessary. */
static struct mask_job *work(struct deferred *w)
{
    struct mask_job **best = &w->list;
    for (struct mask_job **at = best; *at; at = &(*at)->after)
        if (before(w, *at, *best)) best = at;
    struct mask_job *j = *best;
    struct mask_turn *t = find_turn(w, j->holder);
    for (struct mask_job *one = w->list; one; one = one->after) age(one, j, j->n_work);
    if (!atomic_load(&j->cancelled)) t->served += (double)j->n_work / j->weight;
    if (!job_run(j)) return NULL;
    *best = j->after;
    t->n_job--;
    return j;
}

/* Make masks until quit: receive jobs and work on the first job of the list. Wait only if the list
 * is empty. */
static void *deferred_main(void *arg)
{
    struct deferred *w = arg;
    struct mask_job *j;
    os_thread_background();
    while (!atomic_load(&w->quit)) {
        while (queue_pop(w->todo, &j, w->list ? 0 : -1)) add(w, j);
        j = w->list ? work(w) : NULL;
        if (!j) continue;
        bool has_room = queue_push(w->done, &j);
        CHECK(has_room, "more than %d jobs are done", w->n_max);
        /* if the inbox is full, the engine is awake and needs no message */
        queue_push(w->inbox, &(struct message){.kind = MESSAGE_MASK});
    }
    return NULL;
}

/* ---- functions for the engine thread ---- */

bool deferred_full(const struct engine *en)
{
    return en->deferred->n == en->deferred->n_max;
}

/* Start the thread, which continues with the list. */
bool deferred_start(struct deferred *w)
{
    if (!w->started) w->started = os_thread_start(&w->thread, deferred_main, w);
    return w->started;
}

void deferred_put(struct engine *en, struct seq *s)
{
    struct deferred *w = en->deferred;
    struct mask_job *j = s->idle_job;
    CHECK(j && !s->job && !deferred_full(en), "choice %d, %d jobs of %d", s->choice, w->n,
          w->n_max);
    s->job = j;
    s->idle_job = NULL;
    j->c->op->follow(j->c, s->constraint);
    const int n = s->n_token - s->n_prompt;
    if (n > 0) memcpy(j->text, s->token + s->n_prompt, (size_t)n * sizeof *j->text);
    j->c->text = j->text;
    j->n_work = GROWTH * (int64_t)CONSTRAINT_STEP_WORK;
    j->waited = 0;
    j->seq = s;
    j->holder = s->group->request->holder;
    j->weight = s->group->request->holder_weight;
    j->next = w->all;
    w->all = j;
    w->n++;
    if (w->started) {
        bool fits = queue_push(w->todo, &j);
        CHECK(fits, "no room for %d jobs", w->n);
    } else {
        add(w, j);
    }
}

/* Remove a job. Move the job's result and the state of its constraint to its sequence, and return
 * the job to the sequence. Close the job if the sequence has ended. */
static void finish(struct deferred *w, struct mask_job *j)
{
    struct seq *s = j->seq;
    struct mask_job **at = &w->all;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    w->n--;
    if (!s) return deferred_job_close(j);
    s->job = NULL;
    s->idle_job = j;
    s->mask_made = j->made;
    s->constraint->op->follow(s->constraint, j->c);
    if (j->made == CONSTRAINT_MADE) memcpy(s->mask, j->mask, s->n_mask_word * sizeof *j->mask);
}

bool deferred_collect(struct engine *en)
{
    struct deferred *w = en->deferred;
    struct mask_job *j;
    while (queue_pop(w->done, &j, 0)) finish(w, j);
    if (w->started || !w->list) return false;
    j = work(w);
    if (j) finish(w, j);
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
