/* pages.c - which sequence holds which KV page.            engine thread only
 *
 *   FREE --page_take--> HELD(1) <--page_ref / page_drop--> HELD(n)
 *     ^                    | last drop
 *     +--------------------+
 *
 * (1) A page is either in the free list, or in at least one sequence's table.
 * (2) refs(page) = the number of tables naming it; a page with refs > 1 is never written: the writer copies first.
 *
 * The free list is a stack: the page freed last, still warm in the processor's caches, is taken first. Which page
 * a sequence gets never changes its output (docs/design.md 5). */
#include "cache.h"

#include <assert.h>
#include <stdlib.h>

struct pages {
    int n_page, page_rows, n_free;
    int32_t *free_list; /* [n_page], the first n_free are free */
    int32_t *refs;      /* [n_page] */
    int32_t *count;     /* [n_page], scratch of pages_check */
};

int pages_open(struct pages **out, int n_page, int page_rows, struct err *e)
{
    *out = NULL;
    if (n_page < 1) return err_set(e, ERR_ARG, "the KV cache needs at least one page, not %d", n_page);
    if (page_rows < 1 || page_rows > 64 || (page_rows & (page_rows - 1)))
        return err_set(e, ERR_ARG, "block size %d is not a power of two from 1 to 64", page_rows);
    struct pages *p = calloc(1, sizeof *p);
    if (p) {
        p->free_list = calloc((size_t)n_page, sizeof *p->free_list);
        p->refs = calloc((size_t)n_page, sizeof *p->refs);
        p->count = calloc((size_t)n_page, sizeof *p->count);
    }
    if (!p || !p->free_list || !p->refs || !p->count) {
        pages_close(p);
        return err_memory(e, "the page table", (unsigned long long)n_page * 12);
    }
    p->n_page = p->n_free = n_page;
    p->page_rows = page_rows;
    for (int i = 0; i < n_page; i++) p->free_list[i] = n_page - 1 - i;
    *out = p;
    return 0;
}

void pages_close(struct pages *p)
{
    if (!p) return;
    free(p->free_list);
    free(p->refs);
    free(p->count);
    free(p);
}

int pages_n_total(const struct pages *p)
{
    return p->n_page;
}

int pages_n_free(const struct pages *p)
{
    return p->n_free;
}

int pages_rows(const struct pages *p)
{
    return p->page_rows;
}

int32_t page_take(struct pages *p)
{
    if (p->n_free == 0) return -1;
    int32_t page = p->free_list[--p->n_free];
    assert(p->refs[page] == 0);
    p->refs[page] = 1;
    return page;
}

void page_ref(struct pages *p, int32_t page)
{
    assert(page >= 0 && page < p->n_page && p->refs[page] > 0);
    p->refs[page]++;
}

void page_drop(struct pages *p, int32_t page)
{
    assert(page >= 0 && page < p->n_page && p->refs[page] > 0);
    if (--p->refs[page] == 0) p->free_list[p->n_free++] = page;
}

int page_refs(const struct pages *p, int32_t page)
{
    return p->refs[page];
}

const char *pages_check(const struct pages *p, const int32_t *const *table, const int *n, int n_table)
{
    for (int i = 0; i < p->n_page; i++) p->count[i] = 0;
    for (int t = 0; t < n_table; t++)
        for (int i = 0; i < n[t]; i++) {
            int32_t page = table[t][i];
            if (page < 0 || page >= p->n_page) return "a table names a page that does not exist";
            p->count[page]++;
        }
    for (int i = 0; i < p->n_page; i++)
        if (p->count[i] != p->refs[i]) return "refs differ from the number of tables naming the page";
    for (int i = 0; i < p->n_free; i++) {
        int32_t *seen = &p->count[p->free_list[i]];
        if (*seen != 0) return "a free page is held, or twice in the free list";
        *seen = -1;
    }
    for (int i = 0; i < p->n_page; i++)
        if (p->count[i] == 0) return "a page is neither free nor held";
    return NULL;
}
