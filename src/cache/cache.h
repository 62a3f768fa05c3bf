/* cache.h - KV memory: which sequence holds which page (pages.c), and where a page's bytes lie
 * (store.c). */
#ifndef QUOTH_CACHE_H
#define QUOTH_CACHE_H

#include "backend/backend.h"
#include "base/err.h"

/* ---- pages: host-side bookkeeping only; see the drawing in pages.c. Engine thread. ---- */

struct pages; /* opaque */

/* Prefix reuse is a property of the pool: with keep = false a page is forgotten when nobody holds
 * it. */
int pages_open(struct pages **out, int n_page, int page_rows, bool keep, struct err *e);
void pages_close(struct pages *p); /* NULL is fine */

int pages_n_total(const struct pages *p);
int pages_n_free(const struct pages *p);   /* could be taken now: free or cached */
int pages_n_cached(const struct pages *p); /* held by nobody, but full and findable */
int pages_rows(const struct pages *p);

/* A page, held once by the caller: a free one, else the cached one that was used least recently.
 * -1: none. */
int32_t page_take(struct pages *p);
void page_ref(struct pages *p, int32_t page); /* one more table names it */
/* one table less; at the last one cached if sealed, else free */
void page_drop(struct pages *p, int32_t page);
int page_refs(const struct pages *p, int32_t page);

/* The name of a full page: its parent's name (PAGE_ROOT for a sequence's first page), its tokens
 * i32 [page_rows] and whatever else changes its content (adapter, image, a tenant's salt), hashed
 * by the caller into `extra`. */
enum { PAGE_ROOT = 0 };
uint64_t page_name(const struct pages *p, uint64_t parent, const int32_t *tokens, uint64_t extra);

/* The holder says that the page is full, computed, and will not be written again: others may find
 * it. */
void page_seal(struct pages *p, int32_t page, uint64_t name, const int32_t *tokens);

/* The page of that name whose tokens are these, now held once more by the caller; -1: none. */
int32_t page_find(struct pages *p, uint64_t name, const int32_t *tokens);

void pages_forget(struct pages *p); /* every cached page becomes free (held ones stay findable) */

/* Asserts the invariants of pages.c against the tables given: table[i] names n[i] pages. Returns
 * NULL or what is wrong. For tests, and for the engine's debug builds after every step. */
const char *pages_check(const struct pages *p, const int32_t *const *table, const int *n,
                        int n_table);

/* ---- store: the bytes of all layers ---- */

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

int64_t kv_store_bytes_per_page(const struct kv_geometry *layer, int n_layer, enum kv_type t,
                                int page_rows);
int kv_store_open(struct kv_store *s, struct backend *b, const struct kv_geometry *layer,
                  int n_layer, enum kv_type t, int page_rows, int n_page, struct err *e);
void kv_store_close(struct kv_store *s); /* safe on a zeroed one */

#endif
