/* share.c - a binary heap of holders and a hash table from ids to heap indices. The largest holder
 * that can be evicted is the root. share.h has the rules.
 *
 * Invariants (share_check):
 *
 *   (1) Each holder in at[0, n) has units, of which at most all are settled.
 *   (2) The size of a holder is held / weight, or -1 if all its units are settled. The size of a
 *       parent is at least the size of each child.
 *   (3) table[at[i].cell] is i. The search for the id of holder i ends at its cell. All cells
 *       without a holder are empty.
 *   (4) total, loose and weight are the sums over all holders. total is at most the limit.
 *
 * Weights are fixed-point numbers, so that their sum stays exact.
 *
 * Decision for a request of n units:
 *
 *   fits below the limit for this holder ----> SHARE_TAKEN
 *   a larger holder has enough loose units --> SHARE_EVICT, *victim is its id
 *   otherwise -------------------------------> SHARE_REFUSED
 *
 * The limit for large holders is lower by the reserve. A new holder therefore gets units even if
 * another holder has all other units. */
#include "share.h"
#include "check.h"

#include "hash.h"
#include "os.h"

#include <math.h>
#include <stdlib.h>

enum { EMPTY = -1, WEIGHT_BITS = 20 };

struct share_holder {
    uint64_t id;                   /* number given by the caller, for example a key's hash */
    int64_t held, settled, weight; /* units; weight: fixed point, WEIGHT_BITS fractional bits */
    double size;                   /* place in the heap, see the head of this file */
    int cell;                      /* index of its cell in the table */
};

struct share {
    struct share_options options; /* copied */
    int n, n_cell;           /* numbers of holders and of cells (a power of two)                  */
    int64_t total;           /* units of all holders */
    int64_t loose;           /* units that are not settled */
    int64_t weight;          /* sum of the weights */
    uint64_t seed;           /* hash seed, because ids may be input from outside */
    struct share_holder *at; /* owned [holder_max], the heap                  */
    int *table;              /* owned [n_cell], indices of the heap, or EMPTY */
};

int share_open(struct share **out, const struct share_options *o, struct err *e)
{
    CHECK(o->limit >= 0 && o->reserve >= 0 && o->reserve <= o->limit && o->holder_max > 0,
          "limit %lld, reserve %lld, %d holders", (long long)o->limit, (long long)o->reserve,
          o->holder_max);
    *out = NULL;
    struct share *s = calloc(1, sizeof *s);
    if (!s) return err_memory(e, "a table of shares", sizeof *s);
    s->options = *o;
    for (s->n_cell = 16; s->n_cell < 2 * o->holder_max;) s->n_cell *= 2;
    s->at = calloc((size_t)o->holder_max, sizeof *s->at);
    s->table = malloc((size_t)s->n_cell * sizeof *s->table);
    size_t n_byte = (size_t)o->holder_max * sizeof *s->at + (size_t)s->n_cell * sizeof *s->table;
    if (!s->at || !s->table) {
        share_close(s);
        return err_memory(e, "a table of shares", n_byte);
    }
    for (int i = 0; i < s->n_cell; i++) s->table[i] = EMPTY;
    s->seed = os_random();
    *out = s;
    return 0;
}

void share_close(struct share *s)
{
    if (!s) return;
    free(s->at);
    free(s->table);
    free(s);
}

/* ---- the table: linear probing ---- */

static int first_cell(const struct share *s, uint64_t id)
{
    return (int)(hash_bytes(&id, sizeof id, s->seed) & (uint64_t)(s->n_cell - 1));
}

static int next_cell(const struct share *s, int cell)
{
    return (cell + 1) & (s->n_cell - 1);
}

/* Return the cell of id, or the empty cell for id. */
static int find_cell(const struct share *s, uint64_t id)
{
    int cell = first_cell(s, id);
    while (s->table[cell] != EMPTY && s->at[s->table[cell]].id != id) cell = next_cell(s, cell);
    return cell;
}

/* Return the holder with this id; NULL if the holder has no units. The pointer is valid until the
 * next change of the heap. */
static struct share_holder *find(const struct share *s, uint64_t id)
{
    int i = s->table[find_cell(s, id)];
    return i == EMPTY ? NULL : &s->at[i];
}

/* Empty a cell and close the gap. An entry after the gap moves into it if the entry's first cell is
 * not after the gap. */
static void clear_cell(struct share *s, int gap)
{
    for (int c = next_cell(s, gap); s->table[c] != EMPTY; c = next_cell(s, c)) {
        int from = first_cell(s, s->at[s->table[c]].id), mask = s->n_cell - 1;
        if (((c - from) & mask) < ((c - gap) & mask)) continue;
        s->table[gap] = s->table[c];
        s->at[s->table[gap]].cell = gap;
        gap = c;
    }
    s->table[gap] = EMPTY;
}

/* ---- the heap ---- */

/* Store h at index i, and set its cell of the table. */
static void put(struct share *s, int i, const struct share_holder *h)
{
    s->at[i] = *h;
    s->table[h->cell] = i;
}

/* Move the holder at i to its correct place in the heap after a change of its size. */
static void sift(struct share *s, int i)
{
    struct share_holder h = s->at[i];
    for (; i > 0 && s->at[(i - 1) / 2].size < h.size; i = (i - 1) / 2)
        put(s, i, &s->at[(i - 1) / 2]);
    for (;;) {
        int child = 2 * i + 1;
        if (child + 1 < s->n && s->at[child + 1].size > s->at[child].size) child++;
        if (child >= s->n || s->at[child].size <= h.size) break;
        put(s, i, &s->at[child]);
        i = child;
    }
    put(s, i, &h);
}

/* Return units per weight. Only comparisons use it, so rounding has no effect on sums. */
static double size_of(int64_t held, int64_t weight)
{
    return (double)held / (double)weight;
}

/* Recompute the size after a change of held, settled or weight, and restore the heap. The pointer h
 * is invalid afterwards, because its holder may have moved. */
static void resize(struct share *s, struct share_holder *h)
{
    h->size = h->held > h->settled ? size_of(h->held, h->weight) : -1;
    sift(s, (int)(h - s->at));
}

/* Append a holder without units. A size of -1 is valid at the end of the heap. The caller sets
 * held and weight and calls resize. */
static struct share_holder *insert(struct share *s, uint64_t id)
{
    CHECK(s->n < s->options.holder_max, "%d holders", s->n);
    int cell = find_cell(s, id);
    put(s, s->n, &(struct share_holder){.id = id, .size = -1, .cell = cell});
    return &s->at[s->n++];
}

/* Remove a holder. The last holder of the heap replaces the removed holder. sift moves it up or
 * down. */
static void take_out(struct share *s, struct share_holder *h)
{
    int i = (int)(h - s->at);
    s->weight -= h->weight;
    clear_cell(s, h->cell);
    if (i == --s->n) return;
    put(s, i, &s->at[s->n]);
    sift(s, i);
}

/* ---- decisions ---- */

static int64_t weight_of(double weight)
{
    double w = fmin(SHARE_WEIGHT_MAX, fmax(SHARE_WEIGHT_MIN, weight)); /* NaN becomes the minimum */
    return (int64_t)ldexp(w, WEIGHT_BITS);
}

/* A holder's request, and the figures that compare the request with the holder's share. */
struct claim {
    /* holder of the request, borrowed from the heap; NULL if it has no units yet */
    const struct share_holder *holder;
    /* after: number of the holder's units after the request. sum: sum of the weights of all
     * holders */
    int64_t after, weight, sum;
};

/* Return the claim of a request for n units. n is 0 for a query of the present state. */
static struct claim claim_of(const struct share *s, uint64_t id, double weight, int64_t n)
{
    struct claim a = {.holder = find(s, id), .weight = weight_of(weight)};
    a.after = (a.holder ? a.holder->held : 0) + n;
    a.sum = s->weight - (a.holder ? a.holder->weight : 0) + a.weight;
    return a;
}

/* Return the share of the limit of a weight relative to the sum of weights. Rounding to double
 * changes it by about one unit at most. */
static int64_t share_of(const struct share *s, int64_t weight, int64_t sum)
{
    return (int64_t)((double)s->options.limit * (double)weight / (double)sum);
}

/* Return the limit of total units for this request. A holder is small if its use would stay within
 * its share after the arrival of one more holder of equal weight. Only small holders may use the
 * reserve. */
static int64_t limit_for(const struct share *s, const struct claim *a)
{
    bool small = a->after <= share_of(s, a->weight, a->sum + a->weight);
    return small ? s->options.limit : s->options.limit - s->options.reserve;
}

/* Return the units of other holders that an eviction could free. */
static int64_t loose_of_others(const struct share *s, const struct claim *a)
{
    return s->loose - (a->holder ? a->holder->held - a->holder->settled : 0);
}

/* Return the largest other holder; NULL if no other holder can be evicted. The largest holder is
 * the root. Return the larger child of the root if the root makes the request. */
static const struct share_holder *largest_other(const struct share *s, const struct claim *a)
{
    int i = 0;
    if (s->n > 0 && &s->at[0] == a->holder) i = s->n > 2 && s->at[2].size > s->at[1].size ? 2 : 1;
    return i < s->n && s->at[i].size > 0 ? &s->at[i] : NULL;
}

/* Return the holder to evict for `need` units; NULL if no holder can be evicted. A holder above its
 * fair share evicts only if the victim stays at least as large as the holder. Otherwise two holders
 * could evict each other alternately. */
static const struct share_holder *victim_of(const struct share *s, const struct claim *a,
                                            int64_t need)
{
    const struct share_holder *v = largest_other(s, a);
    double size = size_of(a->after, a->weight);
    if (!v || need > loose_of_others(s, a) || v->size <= size) return NULL;
    bool fair = a->after <= share_of(s, a->weight, a->sum);
    return fair || size_of(v->held - need, v->weight) >= size ? v : NULL;
}

/* Set *victim only for SHARE_EVICT. A new holder is also refused if the table of holders is
 * full. */
static enum share_answer decide_claim(const struct share *s, const struct claim *a, int64_t n,
                                      uint64_t *victim)
{
    int64_t limit = limit_for(s, a), need = s->total + n - limit;
    if (n > limit) return SHARE_REFUSED;
    if (need <= 0) return a->holder || s->n < s->options.holder_max ? SHARE_TAKEN : SHARE_REFUSED;
    const struct share_holder *v = victim_of(s, a, need);
    if (v) *victim = v->id;
    return v ? SHARE_EVICT : SHARE_REFUSED;
}

enum share_answer share_acquire(struct share *s, uint64_t id, double weight, int64_t n,
                                uint64_t *victim)
{
    CHECK(n > 0, "%lld", (long long)n);
    struct claim a = claim_of(s, id, weight, n);
    enum share_answer answer = decide_claim(s, &a, n, victim);
    if (answer != SHARE_TAKEN) return answer;
    struct share_holder *h = a.holder ? &s->at[a.holder - s->at] : insert(s, id);
    s->total += n;
    s->loose += n;
    CHECK(s->total <= s->options.limit && s->loose <= s->total, "%lld units of %lld, %lld loose",
          (long long)s->total, (long long)s->options.limit, (long long)s->loose);
    s->weight = a.sum;
    h->weight = a.weight;
    h->held = a.after;
    resize(s, h);
    return SHARE_TAKEN;
}

bool share_can_acquire(const struct share *s, uint64_t id, double weight, int64_t n)
{
    struct claim a = claim_of(s, id, weight, n);
    uint64_t victim;
    return decide_claim(s, &a, n, &victim) != SHARE_REFUSED;
}

/* Return the maximum of three ways to get units: without the reserve, as a small holder, and by
 * evicting others up to the fair share. */
int64_t share_room(const struct share *s, uint64_t id, double weight)
{
    struct claim a = claim_of(s, id, weight, 0);
    int64_t free = s->options.limit - s->total, open = free - s->options.reserve;
    /* small: unused part of the share with the reserve */
    int64_t small = share_of(s, a.weight, a.sum + a.weight) - a.after;
    int64_t fair = share_of(s, a.weight, a.sum) - a.after;
    int64_t max = open > (small < free ? small : free) ? open : (small < free ? small : free);
    int64_t others = loose_of_others(s, &a);
    int64_t made = fair < open + others ? fair : open + others;
    if (made > max) max = made;
    return max > 0 ? max : 0;
}

/* ---- releasing ---- */

void share_settle(struct share *s, uint64_t id, int64_t n)
{
    struct share_holder *h = find(s, id);
    CHECK(h && n <= h->held - h->settled, "%lld of %lld", (long long)n,
          h ? (long long)(h->held - h->settled) : 0);
    h->settled += n;
    s->loose -= n;
    resize(s, h);
}

/* Release n units of a holder. A holder without units leaves the heap, so n is the number of active
 * holders. */
static void release(struct share *s, struct share_holder *h, int64_t n)
{
    CHECK(n >= 0 && n <= h->held && n <= s->total, "%lld of %lld", (long long)n,
          (long long)h->held);
    h->held -= n;
    s->total -= n;
    if (h->held == 0)
        take_out(s, h);
    else
        resize(s, h);
}

void share_release(struct share *s, uint64_t id, int64_t n)
{
    struct share_holder *h = find(s, id);
    CHECK(h && n <= h->held - h->settled, "%lld of %lld", (long long)n,
          h ? (long long)(h->held - h->settled) : 0);
    s->loose -= n;
    release(s, h, n);
}

void share_release_settled(struct share *s, uint64_t id, int64_t n)
{
    struct share_holder *h = find(s, id);
    CHECK(h && n <= h->settled, "%lld of %lld", (long long)n, h ? (long long)h->settled : 0);
    h->settled -= n;
    release(s, h, n);
}

/* ---- figures ---- */

int64_t share_held(const struct share *s, uint64_t id)
{
    const struct share_holder *h = find(s, id);
    return h ? h->held : 0;
}

int64_t share_total(const struct share *s)
{
    return s->total;
}

int share_n_holder(const struct share *s)
{
    return s->n;
}

/* Check invariants 1 to 3 for the holder at i. */
static const char *check_holder(const struct share *s, int i)
{
    const struct share_holder *h = &s->at[i];
    double size = h->held > h->settled ? size_of(h->held, h->weight) : -1;
    if (h->held <= 0) return "a holder has no units";
    if (h->settled < 0 || h->settled > h->held) return "more units are settled than held";
    if (h->size != size) return "a holder's size is not held / weight";
    if (i > 0 && s->at[(i - 1) / 2].size < h->size) return "a holder is larger than its parent";
    if (s->table[h->cell] != i) return "a holder's cell has another index";
    return find_cell(s, h->id) == h->cell ? NULL : "a holder's id is not found";
}

const char *share_check(const struct share *s)
{
    int64_t total = 0, loose = 0, weight = 0;
    int n_used = 0;
    for (int i = 0; i < s->n; i++) {
        const char *wrong = check_holder(s, i);
        if (wrong) return wrong;
        total += s->at[i].held;
        loose += s->at[i].held - s->at[i].settled;
        weight += s->at[i].weight;
    }
    for (int c = 0; c < s->n_cell; c++) n_used += s->table[c] != EMPTY;
    if (n_used != s->n) return "the table has other cells than those of the holders";
    if (total != s->total || loose != s->loose) return "units are not counted right";
    if (weight != s->weight) return "weights are not counted right";
    return total <= s->options.limit ? NULL : "more units are held than the limit";
}
