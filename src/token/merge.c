/* merge.c - byte-pair merging. The pair with the lowest rank is merged first, and the leftmost pair
 * if ranks are equal.
 *
 * Words are short (a median of 5 symbols). A short word is merged by scans of an array of ranks,
 * without allocation and inside the first-level cache. A long word is one repeated character, or
 * text without spaces. A long word is merged by a linked list and a heap, in O(n log n). A heap key
 * is (rank, position) in one 64-bit word. A key is stale if the pair at its position now has
 * another rank. Comparing ranks is sufficient, because equal ranks denote the same merge. */
#include "token_impl.h"

#include "base/cancel.h"

#include <stdlib.h>
#include <string.h>

enum { CANCEL_EACH = 4096 }; /* merges between two checks: about 0.6 ms at 0.15 s per MB */
/* Maximum length, in symbols, at which the scan is faster than the heap. The scan takes 0.72 of the
 * heap's time for words of 8 letters, 0.99 for 48 letters and 2.2 for 192 letters
 * (docs/measurements.md, "Constants"). */
enum { SCAN_MAX = 48 };
#define RANK_NONE UINT32_MAX

struct merge_node {
    uint32_t prev, next; /* neighbours in the list; UINT32_MAX if none */
    uint32_t rank, made; /* rank of the pair (this, next); merged symbol of the pair */
};

/* Return the first slot for a pair. The multiplier is 2^64 / golden ratio. Combine two shifts,
 * because the low bits of the product depend on few bits of the pair. */
static size_t slot_index(uint32_t left, uint32_t right, size_t cap)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (h >> 32 ^ h >> 15) & (cap - 1);
}

/* Return the slot of a pair, or the empty slot for it. The field left of an empty slot is
 * UINT32_MAX. */
static struct merge_slot *slot_of(const struct merges *m, uint32_t left, uint32_t right)
{
    size_t i = slot_index(left, right, m->cap);
    while (m->slot[i].left != UINT32_MAX && (m->slot[i].left != left || m->slot[i].right != right))
        i = (i + 1) & (m->cap - 1);
    return &m->slot[i];
}

/* Double the table. At most half of the slots are used, so that a search checks few slots. */
static bool merges_grow(struct merges *m)
{
    struct merges grown = {.n = m->n, .cap = m->cap ? m->cap * 2 : 1024};
    grown.slot = malloc(grown.cap * sizeof *grown.slot);
    if (!grown.slot) return false;
    memset(grown.slot, 0xFF, grown.cap * sizeof *grown.slot);
    for (size_t i = 0; i < m->cap; i++)
        if (m->slot[i].left != UINT32_MAX)
            *slot_of(&grown, m->slot[i].left, m->slot[i].right) = m->slot[i];
    free(m->slot);
    *m = grown;
    return true;
}

/* Keep the first rank of a pair, because lists are ordered by rank. */
bool merges_put(struct merges *m, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
    if ((m->n + 1) * 2 > m->cap && !merges_grow(m)) return false;
    struct merge_slot *s = slot_of(m, left, right);
    if (s->left != UINT32_MAX) return true;
    *s = (struct merge_slot){left, right, rank, id};
    m->n++;
    return true;
}

const struct merge_slot *merges_get(const struct merges *m, uint32_t left, uint32_t right)
{
    if (m->n == 0 || left >= SYM_NONE || right >= SYM_NONE) return NULL;
    const struct merge_slot *s = slot_of(m, left, right);
    return s->left == UINT32_MAX ? NULL : s;
}

void merges_deinit(struct merges *m)
{
    free(m->slot);
    *m = (struct merges){0};
}

/* Set *rank to RANK_NONE if the pair cannot merge. */
static void look_up(const struct merges *m, uint32_t left, uint32_t right, uint32_t *rank,
                    uint32_t *made)
{
    const struct merge_slot *s = merges_get(m, left, right);
    *rank = s ? s->rank : RANK_NONE;
    *made = s ? s->id : 0;
}

/* Return the leftmost of the lowest ranks. n is at least 1. */
static size_t lowest(const uint32_t *rank, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (rank[i] < rank[best]) best = i;
    return best;
}

/* Merge a short word. Invariant: rank[i] and made[i] describe the pair (sym[i], sym[i + 1]) for i <
 * n - 1. A merge therefore recomputes two pairs. Return the number of symbols left in sym. */
static size_t merge_by_scan(const struct merges *m, uint32_t *sym, size_t n)
{
    uint32_t rank[SCAN_MAX], made[SCAN_MAX];
    for (size_t i = 0; i + 1 < n; i++) look_up(m, sym[i], sym[i + 1], &rank[i], &made[i]);
    while (n > 1) {
        size_t i = lowest(rank, n - 1);
        if (rank[i] == RANK_NONE) break;
        sym[i] = made[i];
        n--;
        memmove(sym + i + 1, sym + i + 2, (n - i - 1) * sizeof *sym);
        if (i + 1 < n) {
            memmove(rank + i, rank + i + 1, (n - i - 1) * sizeof *rank);
            memmove(made + i, made + i + 1, (n - i - 1) * sizeof *made);
            look_up(m, sym[i], sym[i + 1], &rank[i], &made[i]);
        }
        if (i > 0) look_up(m, sym[i - 1], sym[i], &rank[i - 1], &made[i - 1]);
    }
    return n;
}

/* HEAP_ARY is the number of children of a node of the heap. The children of a node fill one cache
 * line. A heap of a million keys has 7 levels. Arities of 2 to 8 take equal time within 5 %. An
 * arity of 16 takes 1.2 to 1.4 times as long (docs/measurements.md, "Constants"). */
enum { HEAP_ARY = 8 };

/* Return the index of the least of the children that begin at `first`. */
static size_t least_child(const uint64_t *h, size_t n, size_t first)
{
    size_t end = first + HEAP_ARY < n ? first + HEAP_ARY : n, least = first;
    for (size_t c = first + 1; c < end; c++)
        if (h[c] < h[least]) least = c;
    return least;
}

/* Move the key at i down to its correct place in the heap. */
static void heap_down(uint64_t *h, size_t n, size_t i)
{
    uint64_t key = h[i];
    for (size_t c; (c = HEAP_ARY * i + 1) < n; i = c) {
        c = least_child(h, n, c);
        if (h[c] >= key) break;
        h[i] = h[c];
    }
    h[i] = key;
}

static void heap_push(uint64_t *h, size_t *n, uint64_t key)
{
    size_t i = (*n)++;
    for (; i > 0 && h[(i - 1) / HEAP_ARY] > key; i = (i - 1) / HEAP_ARY)
        h[i] = h[(i - 1) / HEAP_ARY];
    h[i] = key;
}

/* Remove and return the least key. The heap is not empty. */
static uint64_t heap_pop(uint64_t *h, size_t *n)
{
    uint64_t top = h[0];
    h[0] = h[--*n];
    if (*n) heap_down(h, *n, 0);
    return top;
}

/* Link the symbols, and push every pair that can merge. */
static size_t heap_fill(const struct merges *m, struct merge_work *w, size_t n)
{
    size_t n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        struct merge_node *a = &w->node[i];
        *a = (struct merge_node){(uint32_t)i - 1, (uint32_t)i + 1, RANK_NONE, 0};
        if (i + 1 == n)
            a->next = UINT32_MAX;
        else
            look_up(m, w->sym[i], w->sym[i + 1], &a->rank, &a->made);
        if (a->rank != RANK_NONE) w->heap[n_heap++] = (uint64_t)a->rank << 32 | i;
    }
    for (size_t i = n_heap / HEAP_ARY + 1; i-- > 0;)
        if (i < n_heap) heap_down(w->heap, n_heap, i);
    return n_heap;
}

/* Recompute the pair of node i, and push its key if it can merge. */
static void refresh(const struct merges *m, struct merge_work *w, uint32_t i, size_t *n_heap)
{
    struct merge_node *a = &w->node[i];
    if (a->next == UINT32_MAX) {
        a->rank = RANK_NONE;
        return;
    }
    look_up(m, w->sym[i], w->sym[a->next], &a->rank, &a->made);
    if (a->rank != RANK_NONE) heap_push(w->heap, n_heap, (uint64_t)a->rank << 32 | i);
}

/* Merge a long word. A merge keeps the left node and its index, and unlinks the right node. Copy
 * the list to the beginning of sym at the end. */
static size_t merge_by_heap(const struct merges *m, struct merge_work *w, size_t n)
{
    size_t n_heap = heap_fill(m, w, n);
    for (unsigned n_pop = 1; n_heap; n_pop++) {
        if (n_pop % CANCEL_EACH == 0 && cancelled()) break; /* the caller returns ERR_BUSY */
        uint64_t key = heap_pop(w->heap, &n_heap);
        uint32_t i = (uint32_t)key;
        struct merge_node *a = &w->node[i];
        if (a->rank != key >> 32) continue;
        struct merge_node *b = &w->node[a->next];
        w->sym[i] = a->made;
        a->next = b->next;
        b->rank = RANK_NONE; /* make the keys of b in the heap stale */
        if (a->next != UINT32_MAX) w->node[a->next].prev = i;
        refresh(m, w, i, &n_heap);
        if (a->prev != UINT32_MAX) refresh(m, w, a->prev, &n_heap);
    }
    size_t k = 0;
    for (uint32_t i = 0; i != UINT32_MAX; i = w->node[i].next) w->sym[k++] = w->sym[i];
    return k;
}

bool merge_run(const struct merges *m, struct merge_work *w, size_t *n)
{
    if (*n < 2 || m->n == 0) return true;
    if (*n <= SCAN_MAX) {
        *n = merge_by_scan(m, w->sym, *n);
        return true;
    }
    /* at most n - 1 merges push two keys each, and there are n - 1 keys at the start */
    if (!vec_room((void **)&w->node, &w->node_cap, *n, sizeof *w->node) ||
        !vec_room((void **)&w->heap, &w->heap_cap, 3 * *n, sizeof *w->heap))
        return false;
    *n = merge_by_heap(m, w, *n);
    return true;
}

void merge_work_deinit(struct merge_work *w)
{
    free(w->sym);
    free(w->node);
    free(w->heap);
    *w = (struct merge_work){0};
}
