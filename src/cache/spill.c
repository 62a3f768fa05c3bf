/* spill.c - pages of preempted sequences in host memory.
 *
 *   HELD by a sequence --preempt: kv_store_out--> host memory --resume: kv_store_in--> HELD
 *
 * The pool of host pages has a maximum size (--swap-space) and exists as long as the model. The
 * engine chooses the pages (batch.copy, COPY_OUT and COPY_IN) and keeps the list of free host
 * pages. The backend executes the copies in order before the step. On a CPU, pages and host pages
 * are in the same memory, so swapping only saves the time of recomputing the tokens. */
#include "cache.h"

#include "base/check.h"
#include "base/os.h"

#include <stdlib.h>

/* ---- bytes ---- */

int kv_store_spill(struct kv_store *s, int n_host_page, struct err *e)
{
    size_t n_byte = (size_t)n_host_page * (size_t)s->page_bytes;
    CHECK(!s->host && n_host_page >= 0, "%d pages", n_host_page);
    if (n_host_page == 0) return 0;
    s->host = os_alloc(n_byte);
    if (!s->host) return err_memory(e, "the swap space (--swap-space)", n_byte);
    s->n_host_page = n_host_page;
    return 0;
}

static void check_pages(const struct kv_store *s, int32_t page, int32_t host_page)
{
    CHECK(page >= 0 && page < s->n_page, "page %d of %d", page, s->n_page);
    CHECK(host_page >= 0 && host_page < s->n_host_page, "host page %d of %d", host_page,
          s->n_host_page);
}

void kv_store_out(struct kv_store *s, int32_t page, int32_t host_page)
{
    check_pages(s, page, host_page);
    uint8_t *to = s->host + host_page * s->page_bytes;
    for (int i = 0; i < 2 * s->n_layer; i++) {
        const struct page_place from = kv_store_place(s, i, page);
        s->backend->op->read(s->backend, to, from.at, from.n_byte);
        to += from.n_byte;
    }
}

void kv_store_in(struct kv_store *s, int32_t host_page, int32_t page)
{
    check_pages(s, page, host_page);
    const uint8_t *from = s->host + host_page * s->page_bytes;
    for (int i = 0; i < 2 * s->n_layer; i++) {
        const struct page_place to = kv_store_place(s, i, page);
        s->backend->op->write(s->backend, to.at, from, to.n_byte);
        from += to.n_byte;
    }
}

/* ---- the free list ---- */

int64_t spill_bytes(int n_page)
{
    const struct spill *s = NULL;
    return ((int64_t)n_page + 1) * (int64_t)(sizeof *s->free_list + sizeof *s->held);
}

int spill_open(struct spill *s, int n_page, struct err *e)
{
    *s = (struct spill){.n_page = n_page, .n_free = n_page};
    s->free_list = calloc((size_t)n_page + 1, sizeof *s->free_list);
    s->held = calloc((size_t)n_page + 1, sizeof *s->held);
    if (!s->free_list || !s->held)
        return err_memory(e, "the list of host pages", (unsigned long long)spill_bytes(n_page));
    for (int i = 0; i < n_page; i++) s->free_list[i] = n_page - 1 - i;
    return 0;
}

void spill_close(struct spill *s)
{
    free(s->free_list);
    free(s->held);
    *s = (struct spill){0};
}

int32_t spill_take(struct spill *s)
{
    if (s->n_free == 0) return -1;
    int32_t page = s->free_list[--s->n_free];
    CHECK(!s->held[page], "host page %d is in use", page);
    s->held[page] = true;
    return page;
}

void spill_give(struct spill *s, int32_t page)
{
    CHECK(page >= 0 && page < s->n_page && s->held[page], "host page %d of %d", page, s->n_page);
    s->held[page] = false;
    s->free_list[s->n_free++] = page;
}
