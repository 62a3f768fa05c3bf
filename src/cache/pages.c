/* pages.c - the assignment of KV pages to sequences. Engine thread only.
 *
 *   FREE --page_take--> HELD(1) <--page_ref / page_drop--> HELD(n)
 *     ^                    | last drop; sealed
 *     +---- page_take --- CACHED --- page_find hit --> HELD(1)
 *
 * (1) A page is in exactly one of: the free list, the cached LRU, at least one sequence's table.
 * (2) refs(page) = the number of tables that contain it. A page with refs > 1 is never written: the
 *     writer copies it first.
 * (3) Only full pages are sealed. A name covers the parent's name, the page's tokens and all other
 *     data that change the page's content. Therefore a chain of pages is a path of a radix tree
 *     whose edges are whole pages. A hit also compares the page's tokens, but cannot compare the
 *     tokens of its parents. Therefore names depend on a random number of the pool. Otherwise an
 *     attacker could construct tokens with the name of another user's page and find the pages after
 *     that page.
 * (4) A name belongs to at most one page. A second page of the same name, computed at the same
 *     time, is dropped when it is sealed. The holder of the dropped page continues with the first
 * page, which has
 *     the same bits.
 *
 * The free list is a stack: the page that was freed last is taken first, because it may still be in
 * the processor's caches. The page that is evicted first is a leaf of the tree. A holder of a page
 * holds its parents (4) and drops its pages from the last to the first. Therefore the last holder
 * of a child drops the child before its parent, so the child is older in the LRU. Parents before
 * the window are dropped first if all layers have a window. In this case a prefix is found by its
 * last pages alone. The output of a sequence never depends on the choice of its pages
 * (docs/design.md 5). */
#include "cache.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum {
    NONE = -1,
    HITS_MAX = 8 /* more hits do not raise the order, so that a popular text of the past leaves */
};

struct page {
    int32_t refs;
    int32_t newer, older; /* neighbours in the LRU, if CACHED */
    bool named;           /* true if `name` finds the page */
    uint64_t name;
    int worth;                /* work that a hit saves (page_value) */
    int n_hit;                /* number of hits, at most HITS_MAX */
    int64_t order;            /* if CACHED: pages with the lowest order are evicted first */
    int64_t born_us, used_us; /* times of page_take and of the last drop by its last holder */
};

/* A pool of pages. The arrays are owned. */
struct pages {
    int n_page, page_rows, n_free, n_cached;
    bool keep;
    uint64_t root;          /* parent name of first pages */
    struct page *page;      /* [n_page] state of each page */
    int32_t *token;         /* [n_page, page_rows] of named pages */
    int32_t *free_list;     /* [n_page] list of free pages; the first n_free entries are valid */
    int32_t newest, oldest; /* ends of the cached list; the oldest page is evicted next */
    int64_t spent;          /* highest order of an evicted page */
    int32_t *slot;          /* [n_slot] open-addressing table name -> page; NONE = empty */
    uint32_t n_slot;        /* a power of two, at least 2 * n_page */
    int32_t *count;         /* [n_page], scratch of pages_check */
    int64_t now_us;
    struct page_watch watch;
};

/* ---- open and close ---- */

int pages_open(struct pages **out, int n_page, int page_rows, bool keep, struct err *e)
{
    *out = NULL;
    if (n_page < 1)
        return err_set(e, ERR_ARG, "pages of the KV cache: must be at least 1, got %d", n_page);
    if (page_rows < 1 || page_rows > 64 || (page_rows & (page_rows - 1)))
        return err_field(e, ERR_ARG, "page_rows", ": must be a power of two in [1, 64], got %d",
                         page_rows);
    struct pages *p = calloc(1, sizeof *p);
    if (!p) return err_memory(e, "the page table", sizeof *p);
    *p = (struct pages){.n_page = n_page,
                        .page_rows = page_rows,
                        .n_free = n_page,
                        .keep = keep,
                        .root = os_random(),
                        .newest = NONE,
                        .oldest = NONE,
                        .n_slot = 4};
    while (p->n_slot < 2 * (uint32_t)n_page) p->n_slot *= 2;
    p->page = calloc((size_t)n_page, sizeof *p->page);
    p->token = calloc((size_t)n_page * (size_t)page_rows, sizeof *p->token);
    p->free_list = calloc((size_t)n_page, sizeof *p->free_list);
    p->count = calloc((size_t)n_page, sizeof *p->count);
    p->slot = malloc(p->n_slot * sizeof *p->slot);
    if (!p->page || !p->token || !p->free_list || !p->count || !p->slot) {
        pages_close(p);
        return err_memory(e, "the page table", (unsigned long long)pages_bytes(n_page, page_rows));
    }
    memset(p->slot, 0xFF, p->n_slot * sizeof *p->slot);
    for (int i = 0; i < n_page; i++) p->free_list[i] = n_page - 1 - i;
    *out = p;
    return 0;
}

int64_t pages_bytes(int n_page, int page_rows)
{
    int64_t n_slot = 4;
    while (n_slot < 2 * (int64_t)n_page) n_slot *= 2;
    return n_slot * (int64_t)sizeof(int32_t) +
           n_page * ((int64_t)sizeof(struct page) + (2 + page_rows) * (int64_t)sizeof(int32_t));
}

void pages_close(struct pages *p)
{
    if (!p) return;
    free(p->page);
    free(p->token);
    free(p->free_list);
    free(p->count);
    free(p->slot);
    free(p);
}

int pages_n_total(const struct pages *p)
{
    return p->n_page;
}

int pages_n_free(const struct pages *p)
{
    return p->n_free + p->n_cached;
}

int pages_n_cached(const struct pages *p)
{
    return p->n_cached;
}

int pages_rows(const struct pages *p)
{
    return p->page_rows;
}

/* ---- names ---- */

uint64_t page_name(const struct pages *p, uint64_t parent, const int32_t *tokens, uint64_t extra)
{
    uint64_t before = parent == PAGE_ROOT ? p->root : parent;
    uint64_t h = hash_bytes(tokens, (size_t)p->page_rows * sizeof *tokens,
                            before ^ extra * 0x9E3779B97F4A7C15u);
    return h == PAGE_ROOT ? 1 : h;
}

static const int32_t *tokens_of(const struct pages *p, int32_t page)
{
    return p->token + (int64_t)page * p->page_rows;
}

/* Return the slot of `name`, or the empty slot for `name`. */
static uint32_t slot_of(const struct pages *p, uint64_t name)
{
    uint32_t i = (uint32_t)name & (p->n_slot - 1);
    while (p->slot[i] != NONE && p->page[p->slot[i]].name != name) i = (i + 1) & (p->n_slot - 1);
    return i;
}

/* Empty the slot of a page. Later entries of the table that would become unreachable are moved. */
static void unname(struct pages *p, int32_t page)
{
    if (!p->page[page].named) return;
    p->page[page].named = false;
    uint32_t mask = p->n_slot - 1, hole = slot_of(p, p->page[page].name);
    for (uint32_t i = (hole + 1) & mask; p->slot[i] != NONE; i = (i + 1) & mask) {
        uint32_t home = (uint32_t)p->page[p->slot[i]].name & mask;
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        p->slot[hole] = p->slot[i];
        hole = i;
    }
    p->slot[hole] = NONE;
}

int32_t page_seal(struct pages *p, int32_t page, uint64_t name, const int32_t *tokens)
{
    CHECK(page >= 0 && page < p->n_page && p->page[page].refs > 0, "page %d of %d", page,
          p->n_page);
    if (!p->keep || p->page[page].named) return page;
    int32_t twin = page_find(p, name, tokens);
    if (twin != NONE) {
        page_drop(p, page);
        return twin;
    }
    uint32_t i = slot_of(p, name);
    if (p->slot[i] != NONE) return page; /* another page with different tokens has the same name */
    p->slot[i] = page;
    p->page[page].named = true;
    p->page[page].name = name;
    memcpy(p->token + (int64_t)page * p->page_rows, tokens, (size_t)p->page_rows * sizeof *tokens);
    return page;
}

/* ---- the LRU, ordered by the saved work ---- */

/* Insert a page after the pages of the same or a lower order. If pages have no worth, all orders
 * are 0, and the page becomes the newest. */
static void lru_add(struct pages *p, int32_t page)
{
    struct page *x = &p->page[page];
    int32_t older = p->newest, newer = NONE;
    x->order = p->spent + (int64_t)x->worth * (1 + x->n_hit);
    for (; older != NONE && p->page[older].order > x->order; older = p->page[older].older)
        newer = older;
    x->newer = newer, x->older = older;
    *(newer == NONE ? &p->newest : &p->page[newer].older) = page;
    *(older == NONE ? &p->oldest : &p->page[older].newer) = page;
    p->n_cached++;
}

static void lru_remove(struct pages *p, int32_t page)
{
    struct page *x = &p->page[page];
    if (x->newer != NONE)
        p->page[x->newer].older = x->older;
    else
        p->newest = x->older;
    if (x->older != NONE)
        p->page[x->older].newer = x->newer;
    else
        p->oldest = x->newer;
    p->n_cached--;
}

/* ---- the four transitions ---- */

int32_t page_take(struct pages *p)
{
    int32_t page;
    if (p->n_free > 0) {
        page = p->free_list[--p->n_free];
    } else if (p->oldest != NONE) {
        page = p->oldest;
        p->spent = p->page[page].order;
        if (p->watch.gone) p->watch.gone(p->watch.ctx, p->page[page].name, tokens_of(p, page));
        if (p->watch.evicted)
            p->watch.evicted(p->watch.ctx, p->now_us - p->page[page].born_us,
                             p->now_us - p->page[page].used_us);
        lru_remove(p, page);
        unname(p, page);
    } else {
        return NONE;
    }
    CHECK(p->page[page].refs == 0 && !p->page[page].named, "page %d has %d references", page,
          p->page[page].refs);
    p->page[page].refs = 1;
    p->page[page].worth = p->page[page].n_hit = 0;
    p->page[page].born_us = p->now_us;
    return page;
}

void page_ref(struct pages *p, int32_t page)
{
    CHECK(page >= 0 && page < p->n_page && p->page[page].refs > 0, "page %d of %d", page,
          p->n_page);
    p->page[page].refs++;
}

void page_drop(struct pages *p, int32_t page)
{
    CHECK(page >= 0 && page < p->n_page && p->page[page].refs > 0, "page %d of %d", page,
          p->n_page);
    if (--p->page[page].refs > 0) return;
    p->page[page].used_us = p->now_us;
    if (p->page[page].named)
        lru_add(p, page);
    else
        p->free_list[p->n_free++] = page;
}

void page_value(struct pages *p, int32_t page, int worth)
{
    CHECK(page >= 0 && page < p->n_page && p->page[page].named, "page %d of %d", page, p->n_page);
    p->page[page].worth = worth;
    if (p->page[page].refs > 0) return;
    lru_remove(p, page);
    lru_add(p, page);
}

int32_t page_look(const struct pages *p, uint64_t name, const int32_t *tokens)
{
    int32_t page = p->slot[slot_of(p, name)];
    if (page == NONE ||
        memcmp(tokens_of(p, page), tokens, (size_t)p->page_rows * sizeof *tokens) != 0)
        return NONE;
    return page;
}

int32_t page_find(struct pages *p, uint64_t name, const int32_t *tokens)
{
    int32_t page = page_look(p, name, tokens);
    if (page == NONE) return page;
    if (p->page[page].n_hit < HITS_MAX) p->page[page].n_hit++;
    if (p->page[page].refs++ > 0) return page;
    CHECK(p->n_cached > 0, "page %d has no holder and is not cached", page);
    if (p->watch.found) p->watch.found(p->watch.ctx, p->now_us - p->page[page].used_us);
    lru_remove(p, page);
    return page;
}

void pages_watch(struct pages *p, const struct page_watch *w)
{
    p->watch = *w;
}

void pages_now(struct pages *p, int64_t now_us)
{
    p->now_us = now_us;
}

void pages_clear(struct pages *p)
{
    while (p->oldest != NONE) {
        int32_t page = p->oldest;
        lru_remove(p, page);
        p->free_list[p->n_free++] = page;
    }
    for (int i = 0; i < p->n_page; i++) p->page[i].named = false;
    memset(p->slot, 0xFF, p->n_slot * sizeof *p->slot);
}

int page_refs(const struct pages *p, int32_t page)
{
    CHECK(page >= 0 && page < p->n_page, "page %d of %d", page, p->n_page);
    return p->page[page].refs;
}

/* ---- invariants ---- */

static const char *check_names(const struct pages *p)
{
    for (int i = 0; i < p->n_page; i++)
        if (p->page[i].named && p->slot[slot_of(p, p->page[i].name)] != i)
            return "a named page cannot be found";
    int n = 0, n_named = 0;
    for (uint32_t i = 0; i < p->n_slot; i++) n += p->slot[i] != NONE;
    for (int i = 0; i < p->n_page; i++) n_named += p->page[i].named;
    return n == n_named ? NULL : "the name table has entries that no page owns";
}

const char *pages_check(const struct pages *p, const int32_t *const *table, const int *n,
                        int n_table)
{
    for (int i = 0; i < p->n_page; i++) p->count[i] = 0;
    for (int t = 0; t < n_table; t++)
        for (int i = 0; i < n[t]; i++) {
            int32_t page = table[t][i];
            if (page == NONE) continue; /* a hole before the window */
            if (page < 0 || page >= p->n_page) return "a table names a page that does not exist";
            p->count[page]++;
        }
    for (int i = 0; i < p->n_page; i++)
        if (p->count[i] != p->page[i].refs)
            return "refs differ from the number of tables naming the page";
    for (int i = 0; i < p->n_free; i++) {
        int32_t page = p->free_list[i];
        if (p->count[page] != 0 || p->page[page].named)
            return "a free page is held, named, or twice in the free list";
        p->count[page] = -1;
    }
    int n_cached = 0;
    for (int32_t page = p->oldest; page != NONE; page = p->page[page].newer, n_cached++) {
        const int32_t older = p->page[page].older;
        if (p->count[page] != 0 || !p->page[page].named)
            return "a cached page is held, nameless, or in two places";
        if (p->page[page].order < (older == NONE ? p->spent : p->page[older].order))
            return "a cached page has a lower order than the page before it";
        p->count[page] = -1;
    }
    if (n_cached != p->n_cached) return "the LRU's length is wrong";
    for (int i = 0; i < p->n_page; i++)
        if (p->count[i] == 0) return "a page is neither free, cached nor held";
    return check_names(p);
}
