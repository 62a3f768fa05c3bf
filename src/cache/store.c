/* store.c - memory layout of the pages: one reservation for all layers; K and V of a layer are a
 * run of pages each. Memory is reserved at open and touched when used, so a large pool costs
 * nothing until sequences fill it.
 *
 * A new pool hands out pages in the order of their numbers, and all runs use huge pages. The page
 * that begins a new huge page does so in every run at once: 64 MiB for 16 layers, whose first touch
 * delayed that step by 10 to 100 ms. Memory is therefore populated ahead of use, by up to a group
 * of pages (a huge page of one run), piece by piece, as many pieces as the pages in use have grown
 * by:
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
        .k_page_bytes = kv_page_bytes(t, page_rows, g->n_head_kv, g->d_k),
        .v_page_bytes = kv_page_bytes(t, page_rows, g->n_head_kv, g->d_v),
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

int kv_store_open(struct kv_store *s, struct backend *b, const struct kv_geometry *layer,
                  int n_layer, enum kv_type t, int page_rows, int n_page, struct err *e)
{
    CHECK(n_layer >= 1 && n_page >= 1 && page_rows >= 1 && page_rows <= 64 &&
              (page_rows & (page_rows - 1)) == 0,
          "%d layers, %d pages of %d", n_layer, n_page, page_rows);
    *s = (struct kv_store){
        .backend = b, .n_layer = n_layer, .n_page = n_page, .page_rows = page_rows};
    s->layer = calloc((size_t)n_layer, sizeof *s->layer);
    if (!s->layer)
        return err_memory(e, "the KV cache's layers",
                          (unsigned long long)n_layer * sizeof *s->layer);
    s->page_bytes = kv_store_bytes_per_page(layer, n_layer, t, page_rows);
    s->n_byte = s->page_bytes * n_page;
    if (s->n_byte == 0) return 0;
    s->memory = b->op->alloc(b, (size_t)s->n_byte);
    if (!s->memory) {
        kv_store_close(s);
        return err_memory(e, "the KV cache", (unsigned long long)s->n_byte);
    }
    uint8_t *at = s->memory;
    for (int i = 0; i < n_layer; i++) {
        s->layer[i] = layer_of(&layer[i], t, page_rows);
        s->layer[i].k = at;
        at += s->layer[i].k_page_bytes * n_page;
        s->layer[i].v = at;
        at += s->layer[i].v_page_bytes * n_page;
    }
    return 0;
}

enum { HUGE_PAGE = 2 << 20 };

/* Return the pages of a group, from the first layer that has K: others may be recurrent. */
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
