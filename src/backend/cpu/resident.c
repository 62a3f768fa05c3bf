/* resident.c - weights of a mapped file in limited memory. Papers: "ZeRO-Infinity", arXiv
 * 2104.07857 (layers are read ahead of their use); "PowerInfer", arXiv 2312.12456 (weights that are
 * used often stay in memory).
 *
 *              .--use, want--> QUEUED --a reader--> READING --> PRESENT --.
 *   ABSENT ----'                                                          |
 *      ^-------------- DROPPING <-------- a reader needs room ------------'
 *
 * A model uses its plain matrices in a cycle. The least recently used matrix is therefore the next
 * one that a cycle needs, and an LRU would never hit. Instead some matrices are pinned: they are
 * evenly distributed over the cycle, so that the others can be read while these are used. The
 * readers read the matrices ahead of the current one, within a window, and drop matrices after
 * their use. The order of the cycle is learned: each use is the successor of the use before.
 *
 * Experts have no order. The readers keep the experts with the most uses, with counts that halve
 * after a while. All plain matrices are pinned if they leave at least half of the limit to the
 * experts.
 *
 * (1) The bytes of units that are READING or PRESENT are at most the limit, unless one op uses
 * more. (2) A unit of the current op is not dropped. (3) The units that may be dropped are in the
 * heap `eviction`. Their keys change only in eviction_halve, because a use, a request and a
 * drop remove them from the heap first. */
#include "resident.h"

#include "eviction.h"

#include "base/check.h"
#include "base/cond.h"
#include "base/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    /* Two readers of large matrices keep a disk busy; more of them are slower. Matrices of experts
     * are small, and need more requests in flight (docs/measurements.md, "Weights in limited
     * memory") */
    N_READER = 6,
    N_PLAIN_READER = 2,
    HALVE_USES = 64,        /* uses of the average expert after which counts halve */
    WINDOW_SHARE = 4,       /* the window is at most this part of the limit */
    WINDOW_MAX = 512 << 20, /* 0.4 s of a disk with 1.4 GB/s */
};

enum unit_state { UNIT_ABSENT, UNIT_QUEUED, UNIT_READING, UNIT_PRESENT, UNIT_DROPPING };

struct unit {
    struct resident_unit part;
    enum unit_state state;
    bool pinned;
    int next;      /* plain units: the unit that is used after this one */
    uint32_t n;    /* experts: uses, halved now and then */
    uint64_t op;   /* op of the last use or request */
    uint64_t used; /* number of the last use */
};

/* Numbers of units, in a ring with room for all units. */
struct ring {
    int *at; /* owned [room] */
    int first, n, room;
};

struct resident {
    struct resident_io io;
    pthread_mutex_t lock;
    pthread_cond_t queued;  /* for readers: a unit is queued, or `stop` is set */
    pthread_cond_t changed; /* for all others: a unit is present, or no longer in memory */
    pthread_t reader[N_READER];
    int n_reader;
    atomic_int n_started; /* readers that have their number */
    bool all_pinned;      /* no plain unit is read ahead */
    bool stop;
    struct unit *unit;         /* owned [n], by ascending address */
    int n, last;               /* last: plain unit of the last use; -1 if none */
    struct ring plain, routed; /* units in the order of their reading */
    struct eviction eviction;  /* units that may be dropped */
    int *kept, n_kept;         /* owned [n] units of the current op; the first n_kept are valid */
    int64_t limit, window;
    int64_t n_byte, n_dropping; /* bytes of units in memory, and of those that are being dropped */
    uint64_t op, n_routed;      /* n_routed: number of experts' units */
    struct weights_use figures;
};

/* ---- readers ---- */

/* Let a unit be dropped, if it is in memory, not pinned, and not a unit of the current op. A plain
 * unit that was used is dropped first, then an expert with few uses. A unit that was read ahead and
 * is not yet used is dropped only if there is no other unit. The unit with the oldest request is
 * then dropped, because a cycle that became shorter does not use it any more. */
static void offer(struct resident *r, const struct unit *u)
{
    if (u->state != UNIT_PRESENT || u->pinned || u->op == r->op) return;
    const struct eviction_key key = u->part.routed
                                        ? (struct eviction_key){EVICT_EXPERT, u->n, u->used}
                                    : u->used > 0 ? (struct eviction_key){EVICT_PLAIN, u->used, 0}
                                                  : (struct eviction_key){EVICT_AHEAD, u->op, 0};
    eviction_add(&r->eviction, (int)(u - r->unit), key);
}

/* Make a unit one of the current op, so that it is not dropped before the next op. */
static void keep(struct resident *r, struct unit *u)
{
    const int i = (int)(u - r->unit);
    if (u->op == r->op) return;
    u->op = r->op;
    eviction_remove(&r->eviction, i);
    r->kept[r->n_kept++] = i;
}

/* Drop units until there is room for n_byte, or nothing can be dropped. The lock is not held during
 * a drop, which takes a millisecond per 10 MB. */
static void make_room(struct resident *r, int64_t n_byte)
{
    while (r->n_byte + n_byte > r->limit) {
        const bool enough = r->n_byte - r->n_dropping + n_byte <= r->limit;
        const int next = enough ? -1 : eviction_next(&r->eviction);
        struct unit *u = next >= 0 ? &r->unit[next] : NULL;
        if (!u && r->n_dropping == 0) return;
        if (!u) { /* wait for the drops of other readers */
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        const int64_t size = (int64_t)u->part.n_byte;
        u->state = UNIT_DROPPING;
        u->used = 0; /* a use during the drop sets it again */
        r->n_dropping += size;
        r->figures.n_drop++;
        pthread_mutex_unlock(&r->lock);
        r->io.drop(r->io.ctx, u->part.at, u->part.n_byte);
        pthread_mutex_lock(&r->lock);
        u->state = UNIT_ABSENT;
        r->n_dropping -= size, r->n_byte -= size;
        pthread_cond_broadcast(&r->changed);
    }
}

/* Remove the first unit for a reader: an expert's, or a plain one for the first readers. NULL if
 * there is none. */
static struct unit *next_unit(struct resident *r, bool plain)
{
    struct ring *q = r->routed.n > 0 || !plain ? &r->routed : &r->plain;
    if (q->n == 0) return NULL;
    struct unit *u = &r->unit[q->at[q->first]];
    q->first = (q->first + 1) % q->room, q->n--;
    return u;
}

static void *reader_run(void *arg)
{
    struct resident *r = arg;
    const bool plain = atomic_fetch_add(&r->n_started, 1) < N_PLAIN_READER;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        struct unit *u = next_unit(r, plain);
        if (!u) {
            pthread_cond_wait(&r->queued, &r->lock);
            continue;
        }
        u->state = UNIT_READING;
        make_room(r, (int64_t)u->part.n_byte);
        r->n_byte += (int64_t)u->part.n_byte;
        r->figures.n_read++;
        r->figures.n_byte_read += u->part.n_byte;
        pthread_mutex_unlock(&r->lock);
        r->io.read(r->io.ctx, u->part.at, u->part.n_byte);
        pthread_mutex_lock(&r->lock);
        u->state = UNIT_PRESENT;
        offer(r, u);
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Append a unit to its queue, or put it before all others. */
static void enqueue(struct resident *r, struct unit *u, bool urgent)
{
    struct ring *q = u->part.routed ? &r->routed : &r->plain;
    if (u->state != UNIT_ABSENT) return;
    CHECK(q->n < q->room, "%d of %d units in the queue", q->n, q->room);
    if (urgent) q->first = (q->first + q->room - 1) % q->room;
    q->at[urgent ? q->first : (q->first + q->n) % q->room] = (int)(u - r->unit);
    q->n++;
    u->state = UNIT_QUEUED;
    keep(r, u);
    pthread_cond_broadcast(&r->queued); /* a signal may wake a reader that may not take the unit */
}

/* ---- uses ---- */

static struct unit *find(struct resident *r, const uint8_t *at)
{
    int lo = 0, hi = r->n;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (r->unit[mid].part.at < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < r->n && r->unit[lo].part.at == at ? &r->unit[lo] : NULL;
}

/* Request the units that follow a plain unit, within the window. */
static void read_ahead(struct resident *r, const struct unit *u)
{
    int64_t n_byte = 0;
    if (r->all_pinned) return;
    for (int i = u->next, n = 0; i >= 0 && n < r->n && &r->unit[i] != u; i = r->unit[i].next, n++) {
        struct unit *next = &r->unit[i];
        if (next->pinned) continue;
        n_byte += (int64_t)next->part.n_byte;
        if (n_byte > r->window) return;
        if (next->state == UNIT_PRESENT) keep(r, next), next->used = 0;
        enqueue(r, next, false);
    }
}

/* Count a use. The counts of all experts halve after some uses, so that old uses lose weight. */
static void count(struct resident *r, struct unit *u)
{
    struct weights_use *s = &r->figures;
    const bool hit = u->state == UNIT_PRESENT;
    s->n_use++, s->n_hit += hit;
    if (!u->part.routed) return;
    s->n_routed_use++, s->n_routed_hit += hit;
    u->n++;
    if (s->n_routed_use % (HALVE_USES * r->n_routed) != 0) return;
    for (int i = 0; i < r->n; i++) r->unit[i].n /= 2;
    eviction_halve(&r->eviction);
}

void resident_begin(struct resident *r)
{
    pthread_mutex_lock(&r->lock);
    r->op++;
    for (int i = 0; i < r->n_kept; i++) offer(r, &r->unit[r->kept[i]]);
    r->n_kept = 0;
    pthread_mutex_unlock(&r->lock);
}

void resident_want(struct resident *r, const uint8_t *at)
{
    pthread_mutex_lock(&r->lock);
    struct unit *u = find(r, at);
    if (u) keep(r, u);
    if (u) enqueue(r, u, true);
    pthread_mutex_unlock(&r->lock);
}

void resident_use(struct resident *r, const uint8_t *at)
{
    pthread_mutex_lock(&r->lock);
    struct unit *u = find(r, at);
    if (!u) {
        pthread_mutex_unlock(&r->lock);
        return;
    }
    keep(r, u);
    count(r, u);
    u->used = r->figures.n_use;
    if (!u->part.routed) {
        if (r->last >= 0) r->unit[r->last].next = (int)(u - r->unit);
        r->last = (int)(u - r->unit);
    }
    enqueue(r, u, true);
    if (!u->part.routed) read_ahead(r, u);
    const int64_t start = u->state == UNIT_PRESENT ? 0 : time_us();
    while (u->state != UNIT_PRESENT) {
        enqueue(r, u, true); /* the unit may just have been dropped */
        pthread_cond_wait(&r->changed, &r->lock);
    }
    if (start) r->figures.n_wait++, r->figures.wait_us += time_us() - start;
    pthread_mutex_unlock(&r->lock);
}

struct weights_use resident_figures(struct resident *r)
{
    pthread_mutex_lock(&r->lock);
    struct weights_use figures = r->figures;
    figures.limit = r->limit;
    figures.n_byte = r->n_byte;
    pthread_mutex_unlock(&r->lock);
    return figures;
}

/* ---- open and close ---- */

/* Sums of the units' bytes. */
struct sums {
    int64_t plain, routed, largest;
    int64_t op; /* largest sum of plain units that one op may use, such as gate, up and down */
};

static struct sums sums_of(const struct resident_unit *unit, int n)
{
    struct sums s = {0};
    int64_t before[3] = {0}; /* the last plain units */
    for (int i = 0; i < n; i++) {
        const int64_t bytes = (int64_t)unit[i].n_byte;
        *(unit[i].routed ? &s.routed : &s.plain) += bytes;
        if (bytes > s.largest) s.largest = bytes;
        if (unit[i].routed) continue;
        before[2] = before[1], before[1] = before[0], before[0] = bytes;
        const int64_t op = before[0] + before[1] + before[2];
        if (op > s.op) s.op = op;
    }
    return s;
}

/* Return the bytes of plain units to pin, and set the window. */
static int64_t choose_pinned(struct resident *r, const struct sums *s)
{
    const int64_t most = s->routed > 0 ? r->limit / 2 : r->limit;
    r->window = r->limit / WINDOW_SHARE < WINDOW_MAX ? r->limit / WINDOW_SHARE : WINDOW_MAX;
    if (r->window < s->largest) r->window = s->largest;
    if (s->plain <= most) return s->plain;
    /* room for the window, and for the units that were used and not yet dropped */
    const int64_t n = most - r->window - s->op;
    return n > 0 ? n : 0;
}

/* Pin plain units until n_byte, evenly over the cycle: the pinned share of all bytes so far is
 * n_byte / plain. */
static void pin(struct resident *r, int64_t n_byte, int64_t plain)
{
    double before = 0, pinned = 0;
    r->all_pinned = true;
    for (int i = 0; i < r->n; i++) {
        struct unit *u = &r->unit[i];
        if (u->part.routed) continue;
        const double size = (double)u->part.n_byte;
        before += size;
        u->pinned = pinned + size <= before * (double)n_byte / (double)plain + 0.5;
        if (u->pinned) pinned += size;
        r->all_pinned &= u->pinned;
    }
}

static int by_address(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;
    return x->part.at < y->part.at ? -1 : x->part.at > y->part.at;
}

/* Set the units, in the order of their addresses, with the cycle of the plain ones. */
static void set_units(struct resident *r, const struct resident_unit *unit, const struct sums *s)
{
    int first = -1, last = -1;
    for (int i = 0; i < r->n; i++) r->unit[i].part = unit[i];
    qsort(r->unit, (size_t)r->n, sizeof *r->unit, by_address);
    for (int i = 0; i < r->n; i++) {
        r->n_routed += r->unit[i].part.routed;
        r->unit[i].next = -1;
        if (r->unit[i].part.routed) continue;
        if (last >= 0) r->unit[last].next = i;
        if (first < 0) first = i;
        last = i;
    }
    if (last >= 0) r->unit[last].next = first;
    pin(r, choose_pinned(r, s), s->plain);
}

static bool ring_open(struct ring *q, int n)
{
    *q = (struct ring){.at = calloc((size_t)n + 1, sizeof *q->at), .room = n + 1};
    return q->at != NULL;
}

int resident_open(struct resident **out, const struct resident_unit *unit, int n, int64_t n_byte,
                  const struct resident_io *io, struct err *e)
{
    const struct sums s = sums_of(unit, n);
    const int64_t least = s.op + s.largest + (s.routed > 0 ? 2 : 0) * s.largest;
    *out = NULL;
    if (n_byte < least)
        return err_set(e, ERR_LIMIT,
                       "--weights-memory: must be at least %lldK for this model, got %lldK",
                       (long long)(least + 1023) >> 10, (long long)n_byte >> 10);
    struct resident *r = *out = calloc(1, sizeof *r);
    if (!r) return err_memory(e, "the resident weights", sizeof *r);
    *r = (struct resident){.io = *io, .n = n, .last = -1, .limit = n_byte, .op = 1};
    pthread_mutex_init(&r->lock, NULL);
    cond_init(&r->queued);
    cond_init(&r->changed);
    r->unit = calloc((size_t)n + 1, sizeof *r->unit);
    r->kept = calloc((size_t)n + 1, sizeof *r->kept);
    int rc = r->unit && r->kept && ring_open(&r->plain, n) && ring_open(&r->routed, n)
                 ? 0
                 : err_memory(e, "the resident weights", (size_t)n * sizeof *r->unit);
    if (rc == 0) rc = eviction_open(&r->eviction, n, e);
    if (rc == 0) set_units(r, unit, &s);
    for (int i = 0; i < n && rc == 0; i++)
        if (r->unit[i].pinned)
            enqueue(r, &r->unit[i], false);
        else
            io->drop(io->ctx, r->unit[i].part.at, r->unit[i].part.n_byte);
    for (; r->n_reader < N_READER && rc == 0; r->n_reader++)
        if (!os_thread_start(&r->reader[r->n_reader], reader_run, r)) {
            rc = os_thread_error("a reader of weights", e);
            break;
        }
    if (rc != 0) resident_close(r), *out = NULL;
    return rc;
}

void resident_close(struct resident *r)
{
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->queued);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->n_reader; i++) pthread_join(r->reader[i], NULL);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->queued);
    pthread_cond_destroy(&r->changed);
    eviction_close(&r->eviction);
    free(r->kept);
    free(r->unit);
    free(r->plain.at);
    free(r->routed.at);
    free(r);
}
