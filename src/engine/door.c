/* door.c - places in the queue and memory, divided among holders. door.h describes the interface.
 *
 * Three shares (base/share.h) divide three resources:
 *
 *   place    requests in the queue            taken by enter_group; released by leave_queue
 *   byte     bytes of groups                  taken by enter_group, settled by door_pass, released
 *   answer   bytes of answers not yet read    taken and settled at once by door_reserve
 *
 * Settled units cannot be evicted, because a scheduled request is never refused. PART_RESERVED and
 * PART_ANSWERS are divisors: an eighth of the bytes is for small holders, and answers have a
 * quarter of the groups' bytes. EXTRA_HOLDERS: holders outside the queue still hold bytes. */
#include "engine_impl.h"

#include "base/check.h"

enum { EXTRA_HOLDERS = 4096, PART_RESERVED = 8, PART_ANSWERS = 4 };

/* Open a share of `limit` bytes. *out stays NULL without a limit. */
static int open_bytes(struct share **out, int64_t limit, int holder_max, struct err *e)
{
    struct share_options o = {
        .limit = limit, .reserve = limit / PART_RESERVED, .holder_max = holder_max};
    return limit ? share_open(out, &o, e) : 0;
}

int door_open(struct door *d, const struct door_options *o, struct err *e)
{
    int n_holder = o->queue_max + EXTRA_HOLDERS;
    *d = (struct door){.options = *o, .opened = true};
    pthread_mutex_init(&d->lock, NULL);
    struct share_options so = {.limit = o->queue_max, .holder_max = o->queue_max};
    int rc = share_open(&d->place, &so, e);
    if (rc == 0) rc = open_bytes(&d->byte, o->bytes_max, n_holder, e);
    if (rc == 0) rc = open_bytes(&d->answer, door_answer_bytes_max(d), n_holder, e);
    return rc;
}

void door_close(struct door *d)
{
    if (!d->opened) return;
    share_close(d->place);
    share_close(d->byte);
    share_close(d->answer);
    pthread_mutex_destroy(&d->lock);
}

/* ---- the queue, newest first, under the lock ---- */

static void link_newest(struct door *d, struct group *g)
{
    g->door.older = d->newest;
    g->door.newer = NULL;
    if (d->newest) d->newest->door.newer = g;
    d->newest = g;
    atomic_store(&g->door.state, DOOR_QUEUED);
}

static void unlink_group(struct door *d, struct group *g)
{
    if (g->door.newer)
        g->door.newer->door.older = g->door.older;
    else
        d->newest = g->door.older;
    if (g->door.older) g->door.older->door.newer = g->door.newer;
}

/* Release a queued group's place, and its memory if `to` is not DOOR_INSIDE. */
static void leave_queue(struct door *d, struct group *g, enum door_state to)
{
    uint64_t id = g->request->holder;
    CHECK(atomic_load(&g->door.state) == DOOR_QUEUED, "state %d", (int)atomic_load(&g->door.state));
    unlink_group(d, g);
    share_release(d->place, id, 1);
    if (d->byte && to == DOOR_INSIDE)
        share_settle(d->byte, id, g->n_byte);
    else if (d->byte)
        share_release(d->byte, id, g->n_byte);
    atomic_store(&g->door.state, to);
}

/* Refuse the holder's newest queued group. A victim has unsettled units, so it has a queued
 * group. */
static void refuse_newest(struct door *d, uint64_t holder)
{
    struct group *g = d->newest;
    while (g->request->holder != holder) g = g->door.older;
    leave_queue(d, g, DOOR_REFUSED);
}

/* Acquire n units, and refuse queued groups of victims until the units fit. *n_evicted counts the
 * refused groups, also if the result is false. */
static bool acquire(struct door *d, struct share *s, const struct request *r, int64_t n,
                    int *n_evicted)
{
    for (;; ++*n_evicted) {
        uint64_t victim;
        enum share_answer a = share_acquire(s, r->holder, r->holder_weight, n, &victim);
        if (a != SHARE_EVICT) return a == SHARE_TAKEN;
        refuse_newest(d, victim);
    }
}

/* Return true if the queue has a place for r. A request that its client repeats silently gets no
 * place at the end of a long queue, because a repetition costs less than the wait. */
static bool has_place(const struct door *d, const struct request *r)
{
    if (r->retry_silently && share_total(d->place) >= d->options.queue_retry_max) return false;
    return share_can_acquire(d->place, r->holder, r->holder_weight, 1);
}

/* Test the memory before any group is evicted, so that no group is refused for a request that
 * cannot enter. The place is released if another request takes the memory. */
static enum door_answer enter_group(struct door *d, struct group *g, int *n_evicted)
{
    const struct request *r = g->request;
    CHECK(atomic_load(&g->door.state) == DOOR_OUTSIDE, "state %d",
          (int)atomic_load(&g->door.state));
    if (d->byte && !share_can_acquire(d->byte, r->holder, r->holder_weight, g->n_byte))
        return DOOR_NO_MEMORY;
    if (!has_place(d, r) || !acquire(d, d->place, r, 1, n_evicted)) return DOOR_FULL;
    if (d->byte && !acquire(d, d->byte, r, g->n_byte, n_evicted)) {
        share_release(d->place, r->holder, 1);
        return DOOR_NO_MEMORY;
    }
    link_newest(d, g);
    return DOOR_OPEN;
}

/* ---- any thread ---- */

enum door_answer door_may_enter(struct door *d, const struct request *r, int64_t *n_byte)
{
    pthread_mutex_lock(&d->lock);
    bool fits = has_place(d, r);
    *n_byte = d->byte ? share_room(d->byte, r->holder, r->holder_weight) : -1;
    pthread_mutex_unlock(&d->lock);
    return !fits ? DOOR_FULL : *n_byte == 0 ? DOOR_NO_MEMORY : DOOR_OPEN;
}

enum door_answer door_enter(struct door *d, struct group *g, int *n_evicted)
{
    *n_evicted = 0;
    pthread_mutex_lock(&d->lock);
    enum door_answer a = enter_group(d, g, n_evicted);
    pthread_mutex_unlock(&d->lock);
    return a;
}

void door_leave(struct door *d, struct group *g)
{
    pthread_mutex_lock(&d->lock);
    enum door_state was = atomic_load(&g->door.state);
    if (was == DOOR_QUEUED) leave_queue(d, g, DOOR_OUTSIDE);
    if (was == DOOR_INSIDE && d->byte)
        share_release_settled(d->byte, g->request->holder, g->n_byte);
    atomic_store(&g->door.state, DOOR_OUTSIDE);
    pthread_mutex_unlock(&d->lock);
}

bool door_reserve(struct door *d, const struct request *r, int64_t n_byte)
{
    uint64_t victim;
    if (!d->answer || n_byte == 0) return true;
    pthread_mutex_lock(&d->lock);
    bool taken =
        share_acquire(d->answer, r->holder, r->holder_weight, n_byte, &victim) == SHARE_TAKEN;
    if (taken) share_settle(d->answer, r->holder, n_byte);
    pthread_mutex_unlock(&d->lock);
    return taken;
}

void door_unreserve(struct door *d, uint64_t holder, int64_t n_byte)
{
    if (!d->answer || n_byte == 0) return;
    pthread_mutex_lock(&d->lock);
    share_release_settled(d->answer, holder, n_byte);
    pthread_mutex_unlock(&d->lock);
}

static int64_t total(struct door *d, const struct share *s)
{
    pthread_mutex_lock(&d->lock);
    int64_t n = s ? share_total(s) : 0;
    pthread_mutex_unlock(&d->lock);
    return n;
}

int64_t door_bytes(struct door *d)
{
    return total(d, d->byte);
}

int64_t door_answer_bytes(struct door *d)
{
    return total(d, d->answer);
}

int64_t door_answer_bytes_max(const struct door *d)
{
    return d->options.bytes_max / PART_ANSWERS;
}

/* Exclude the reserve, because only small holders may use the reserve. */
int64_t door_reserve_bytes_max(const struct door *d)
{
    int64_t max = door_answer_bytes_max(d);
    return max - max / PART_RESERVED;
}

/* Check the queue. Set *n_byte to the bytes of its groups. */
static const char *check_queue(const struct door *d, int64_t *n_byte)
{
    int64_t n = 0;
    const struct group *newer = NULL;
    for (const struct group *g = d->newest; g; newer = g, g = g->door.older) {
        uint64_t id = g->request->holder;
        if (g->door.newer != newer) return "the links of the queue in the two directions differ";
        if (atomic_load(&g->door.state) != DOOR_QUEUED)
            return "a group in the queue does not have the state QUEUED";
        if (share_held(d->place, id) < 1) return "a queued group holds no place";
        if (d->byte && share_held(d->byte, id) < g->n_byte) return "a queued group holds no memory";
        if (++n > d->options.queue_max) return "the queue has more groups than places";
        *n_byte += g->n_byte;
    }
    return n == share_total(d->place) ? NULL : "the number of places in the queue is wrong";
}

const char *door_check(struct door *d, int64_t n_byte_inside)
{
    const struct share *const share[] = {d->place, d->byte, d->answer};
    int64_t n_byte = n_byte_inside;
    pthread_mutex_lock(&d->lock);
    const char *wrong = check_queue(d, &n_byte);
    for (size_t i = 0; i < sizeof share / sizeof *share && !wrong; i++)
        if (share[i]) wrong = share_check(share[i]);
    if (!wrong && d->byte && share_total(d->byte) != n_byte)
        wrong = "the number of bytes of groups is wrong";
    pthread_mutex_unlock(&d->lock);
    return wrong;
}

/* ---- engine thread ---- */

/* Return true for a group that was not refused before this call. The result is always true for a
 * dequeued group. */
bool door_pass(struct door *d, struct group *g)
{
    pthread_mutex_lock(&d->lock);
    enum door_state was = atomic_load(&g->door.state);
    if (was == DOOR_QUEUED) leave_queue(d, g, DOOR_INSIDE);
    pthread_mutex_unlock(&d->lock);
    return was != DOOR_REFUSED;
}

/* Read the atomic state without the lock, because the engine thread polls it for each waiting
 * group. */
bool door_refused(const struct group *g)
{
    return atomic_load(&g->door.state) == DOOR_REFUSED;
}
