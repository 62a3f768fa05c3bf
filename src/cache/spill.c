/* spill.c - pages of sequences that were preempted and will go on: where they wait in host memory, and how
 * they get there.
 *
 *   HELD by a sequence --preempt: kv_store_out--> host memory --resume: kv_store_in--> HELD
 *
 * The pool of host pages is bounded (--swap-space) and lives as long as the model. The engine says which
 * page goes where (batch.copy, COPY_OUT and COPY_IN), and the copies are done in that order before
 * the step; the list of free host pages is the engine's. On a CPU both ends are the same memory, and
 * swapping only saves the time that computing the tokens again would take. */
#include "cache.h"

#include "base/os.h"

#include <assert.h>
#include <stdlib.h>

/* ---- bytes ---- */

int kv_store_spill(struct kv_store *s, int n_host_page, struct err *e)
{
    size_t n_byte = (size_t)n_host_page * (size_t)s->page_bytes;
    assert(!s->host);
    if (n_host_page == 0) return 0;
    s->host = os_alloc(n_byte);
    if (!s->host) return err_memory(e, "the swap space (--swap-space)", n_byte);
    s->n_host_page = n_host_page;
    return 0;
}

void kv_store_out(struct kv_store *s, int32_t page, int32_t host_page)
{
    uint8_t *to = s->host + host_page * s->page_bytes;
    for (int i = 0; i < s->n_layer; i++) {
        s->backend->op->kv_read(s->backend, &s->layer[i], page, to);
        to += s->layer[i].k_page_bytes + s->layer[i].v_page_bytes;
    }
}

void kv_store_in(struct kv_store *s, int32_t host_page, int32_t page)
{
    const uint8_t *from = s->host + host_page * s->page_bytes;
    for (int i = 0; i < s->n_layer; i++) {
        s->backend->op->kv_write(s->backend, &s->layer[i], page, from);
        from += s->layer[i].k_page_bytes + s->layer[i].v_page_bytes;
    }
}

/* ---- which are free ---- */

int spill_open(struct spill *s, int n_page, struct err *e)
{
    *s = (struct spill){.n_page = n_page, .n_free = n_page};
    s->free_list = calloc((size_t)n_page + 1, sizeof *s->free_list);
    s->held = calloc((size_t)n_page + 1, sizeof *s->held);
    if (!s->free_list || !s->held)
        return err_memory(e, "the list of host pages", (unsigned long long)n_page * 5);
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
    s->held[page] = true;
    return page;
}

void spill_give(struct spill *s, int32_t page)
{
    assert(page >= 0 && page < s->n_page && s->held[page]);
    s->held[page] = false;
    s->free_list[s->n_free++] = page;
}
