/* store.c - memory layout of the pages: one reservation for all layers. K and V of each layer have
 * a run of pages each. Memory is reserved at open and touched at the first use, so the empty part
 * of a large pool takes no memory.
 *
 * Pages of a new pool are taken in the order of their numbers, and all runs use huge pages. A page
 * that begins a new huge page in one run begins a new huge page in every run. For 16 layers, these
 * huge pages are 64 MiB, whose first touch delayed a step by 10 to 100 ms. Therefore memory is
 * populated up to a group of pages before its use. A group is a huge page of one run. Each step
 * populates as many pieces as the number of pages in use has grown by:
 *
 *             |  group 0  |  group 1  |  group 2
 *     K of 0  | present     present   |             a piece: a group in one run
 *     V of 0  | present     present   |
 *     K of 1  | present   |
 *       ...        ^ highest page so far */
#include "cache.h"

#include "base/check.h"
#include "base/os.h"

#include <stdlib.h>

static struct kv_layer layer_of(const struct kv_geometry *g, enum kv_type t, int page_rows)
{
    return (struct kv_layer){
        .type = t,
        .page_rows = page_rows,
        .n_head_kv = g->n_head_kv,
        .d_k = g->d_k,
        .d_v = g->d_v,
        .latent = g->latent,
        .k_page_bytes = kv_page_bytes(t, page_rows, g->n_head_kv, g->d_k),
        .v_page_bytes = g->latent ? 0 : kv_page_bytes(t, page_rows, g->n_head_kv, g->d_v),
    };
}

int64_t kv_store_bytes_per_page(const struct kv_geometry *layer, int n_layer, enum kv_type t,
                                int page_rows)
{
    int64_t n = 0;
    for (int i = 0; i < n_layer; i++) {
        struct kv_layer l = layer_of(&layer[i], t, page_rows);
        n += l.k_page_bytes + l.v_page_bytes;
    }
    return n;
}

/* Divide the memory among the layers: K, then V of each layer. */
static void divide(struct kv_store *s, const struct kv_store_options *o)
{
    uint8_t *at = s->memory;
    for (int i = 0; i < o->n_layer; i++) {
        s->layer[i] = layer_of(&o->layer[i], o->type, o->page_rows);
        s->layer[i].k = at;
        at += s->layer[i].k_page_bytes * o->n_page;
        s->layer[i].v = at;
        at += s->layer[i].v_page_bytes * o->n_page;
    }
}

int kv_store_open(struct kv_store *s, const struct kv_store_options *o, struct err *e)
{
    CHECK(o->n_layer >= 1 && o->n_page >= 1 && o->page_rows >= 1 && o->page_rows <= 64 &&
              (o->page_rows & (o->page_rows - 1)) == 0,
          "%d layers, %d pages of %d", o->n_layer, o->n_page, o->page_rows);
    *s = (struct kv_store){.backend = o->backend,
                           .n_layer = o->n_layer,
                           .n_page = o->n_page,
                           .page_rows = o->page_rows};
    s->layer = calloc((size_t)o->n_layer, sizeof *s->layer);
    if (!s->layer)
        return err_memory(e, "the KV cache's layers",
                          (unsigned long long)o->n_layer * sizeof *s->layer);
    s->page_bytes = kv_store_bytes_per_page(o->layer, o->n_layer, o->type, o->page_rows);
    s->n_byte = s->page_bytes * o->n_page;
    if (s->n_byte == 0) return 0;
    s->memory = o->backend->op->alloc(o->backend, (size_t)s->n_byte);
    if (!s->memory) {
        kv_store_close(s);
        return err_memory(e, "the KV cache", (unsigned long long)s->n_byte);
    }
    divide(s, o);
    return 0;
}

enum { HUGE_PAGE = 2 << 20 }; /* size of a huge page of x86-64 and of arm64 with pages of 4 kB */

/* Return the number of pages of a group. The first layer with K determines the number, because
 * other layers may be recurrent. */
static int group_pages(const struct kv_store *s)
{
    int i = 0;
    while (s->layer[i].k_page_bytes == 0) i++;
    int64_t n = (HUGE_PAGE + s->layer[i].k_page_bytes - 1) / s->layer[i].k_page_bytes;
    return (int)(n < s->n_page ? n : s->n_page);
}

static void populate_piece(struct kv_store *s, int64_t piece)
{
    const struct kv_layer *l = &s->layer[piece / 2 % s->n_layer];
    int64_t n = group_pages(s), from = piece / (2 * s->n_layer) * n;
    if (n > s->n_page - from) n = s->n_page - from;
    bool v = piece % 2;
    int64_t page_bytes = v ? l->v_page_bytes : l->k_page_bytes;
    if (page_bytes == 0) return;
    s->backend->op->populate(s->backend, (uint8_t *)(v ? l->v : l->k) + from * page_bytes,
                             (size_t)(n * page_bytes));
}

void kv_store_reach(struct kv_store *s, int32_t page)
{
    CHECK(page >= 0 && page < s->n_page, "page %d of %d", page, s->n_page);
    if (!s->backend->op->populate || s->n_byte == 0) return;
    int64_t n = group_pages(s), n_used = page + 1, ahead = n_used < n ? n_used : n,
            n_group = (s->n_page + n - 1) / n, want = (n_used + ahead) * 2 * s->n_layer / n;
    if (want > n_group * 2 * s->n_layer) want = n_group * 2 * s->n_layer;
    while (s->n_present < want) populate_piece(s, s->n_present++);
}

struct page_place kv_store_place(const struct kv_store *s, int run, int32_t page)
{
    CHECK(run >= 0 && run < 2 * s->n_layer && page >= 0 && page < s->n_page, "run %d, page %d", run,
          page);
    const struct kv_layer *l = &s->layer[run / 2];
    const int64_t n = run % 2 ? l->v_page_bytes : l->k_page_bytes;
    return (struct page_place){(run % 2 ? l->v : l->k) + page * n, (size_t)n};
}

void kv_store_copy(struct kv_store *s, int32_t src, int32_t dst)
{
    CHECK(src >= 0 && src < s->n_page && dst >= 0 && dst < s->n_page, "pages %d, %d of %d", src,
          dst, s->n_page);
    for (int i = 0; i < 2 * s->n_layer; i++) {
        const struct page_place from = kv_store_place(s, i, src), to = kv_store_place(s, i, dst);
        if (from.n_byte > 0) s->backend->op->copy(s->backend, to.at, from.at, from.n_byte);
    }
}

void kv_store_close(struct kv_store *s)
{
    os_free(s->host, (size_t)s->n_host_page * (size_t)s->page_bytes);
    if (s->memory) s->backend->op->release(s->backend, s->memory, (size_t)s->n_byte);
    free(s->layer);
    *s = (struct kv_store){0};
}
