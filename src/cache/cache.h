/* cache.h - KV memory: which sequence holds which page (pages.c), and where a page's bytes lie (store.c). */
#ifndef QUOTH_CACHE_H
#define QUOTH_CACHE_H

#include "backend/backend.h"
#include "base/err.h"

/* ---- pages: host-side bookkeeping only; see the drawing in pages.c. Engine thread. ---------------- */

struct pages; /* opaque */

int pages_open(struct pages **out, int n_page, int page_rows, struct err *e);
void pages_close(struct pages *p); /* NULL is fine */

int pages_n_total(const struct pages *p);
int pages_n_free(const struct pages *p);
int pages_rows(const struct pages *p);

/* A free page, held once by the caller; -1 when there is none. */
int32_t page_take(struct pages *p);
void page_ref(struct pages *p, int32_t page);  /* one more table names it          */
void page_drop(struct pages *p, int32_t page); /* one table less; freed at the last */
int page_refs(const struct pages *p, int32_t page);

/* Asserts invariants 1 and 2 of pages.c against the tables given: table[i] names n[i] pages. Returns NULL or
 * what is wrong. For tests, and for the engine's debug builds after every step. */
const char *pages_check(const struct pages *p, const int32_t *const *table, const int *n, int n_table);

/* ---- store: the bytes of all layers -------------------------------------------------------------- */

struct kv_geometry { /* of one layer */
    int n_head_kv, d_k, d_v;
};

struct kv_store {
    struct backend *backend; /* borrowed */
    int n_layer, n_page, page_rows;
    struct kv_layer *layer; /* owned [n_layer] */
    uint8_t *memory;        /* owned, on the device */
    int64_t n_byte;
};

int64_t kv_store_bytes_per_page(const struct kv_geometry *layer, int n_layer, enum kv_type t, int page_rows);
int kv_store_open(struct kv_store *s, struct backend *b, const struct kv_geometry *layer, int n_layer,
                  enum kv_type t, int page_rows, int n_page, struct err *e);
void kv_store_close(struct kv_store *s); /* safe on a zeroed one */

#endif
