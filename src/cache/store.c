/* store.c - where the bytes of the pages lie: one reservation for all layers, K and V of a layer
 * each a run of pages. Reserved at open, touched as used, so a large pool costs nothing until
 * sequences fill it. */
#include "cache.h"

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
    *s = (struct kv_store){
        .backend = b, .n_layer = n_layer, .n_page = n_page, .page_rows = page_rows};
    s->layer = calloc((size_t)n_layer, sizeof *s->layer);
    if (!s->layer)
        return err_memory(e, "the KV cache's layers",
                          (unsigned long long)n_layer * sizeof *s->layer);
    s->page_bytes = kv_store_bytes_per_page(layer, n_layer, t, page_rows);
    s->n_byte = s->page_bytes * n_page;
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

void kv_store_close(struct kv_store *s)
{
    os_free(s->host, (size_t)s->n_host_page * (size_t)s->page_bytes);
    if (s->memory) s->backend->op->release(s->backend, s->memory, (size_t)s->n_byte);
    free(s->layer);
    *s = (struct kv_store){0};
}
