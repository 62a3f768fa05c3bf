/* cache.h - KV memory: the sequences' pages (pages.c), the bytes of pages (store.c), and pages in
 * host memory (spill.c). */
#ifndef QUOTH_CACHE_H
#define QUOTH_CACHE_H

#include "backend/backend.h"
#include "base/err.h"

/* ---- pages: host-side bookkeeping only; state diagram in pages.c. Engine thread. ---- */

struct pages; /* opaque */

/* Open a pool of free pages. keep: pages stay findable after their last holder drops them; else
 * they are forgotten. */
int pages_open(struct pages **out, int n_page, int page_rows, bool keep, struct err *e);
void pages_close(struct pages *p); /* p may be NULL */

int64_t pages_bytes(int n_page, int page_rows); /* bytes of the bookkeeping */
int pages_n_total(const struct pages *p);
int pages_n_free(const struct pages *p);   /* pages that can be taken now: free or cached */
int pages_n_cached(const struct pages *p); /* pages without holder, but full and findable */
int pages_rows(const struct pages *p);

/* Take a page, held once by the caller: a free one, else the least recently used cached one.
 * Returns -1 if there is none. */
int32_t page_take(struct pages *p);
void page_ref(struct pages *p, int32_t page); /* one more table names it */
/* Remove one holder. After the last one the page is cached if sealed, else free. */
void page_drop(struct pages *p, int32_t page);
int page_refs(const struct pages *p, int32_t page);

/* Return the name of a full page. It depends on its parent's name (PAGE_ROOT for a sequence's first
 * page), its tokens i32 [page_rows], and a hash `extra` of everything else that changes its content
 * (adapter, image, a tenant's salt). Names differ between pools. */
enum { PAGE_ROOT = 0 };
uint64_t page_name(const struct pages *p, uint64_t parent, const int32_t *tokens, uint64_t extra);

/* Make a full and computed page findable; it must not be written again. Returns the page that the
 * caller holds from now on: this one, or an earlier page of that name, for which this one was
 * dropped. */
int32_t page_seal(struct pages *p, int32_t page, uint64_t name, const int32_t *tokens);

/* Find the page of that name and tokens and hold it once more for the caller. Returns -1 if
 * none. */
int32_t page_find(struct pages *p, uint64_t name, const int32_t *tokens);
/* Find the page of that name and tokens without holding it. Returns -1 if none. */
int32_t page_look(const struct pages *p, uint64_t name, const int32_t *tokens);

/* Callbacks for the ages of cached pages: on eviction (since the page was taken; since its last
 * use) and on a hit (since its last use). */
struct page_watch {
    void *ctx; /* borrowed */
    void (*evicted)(void *ctx, int64_t life_us, int64_t idle_us);
    void (*found)(void *ctx, int64_t gap_us);
};
void pages_watch(struct pages *p, const struct page_watch *w);
void pages_now(struct pages *p, int64_t now_us);

/* Free every cached page and make held pages unfindable. */
void pages_clear(struct pages *p);

/* Check the invariants of pages.c against the given tables: table[i] names n[i] pages, -1 for a
 * hole. Returns NULL or a description of the violation. For tests, and debug builds after every
 * step. */
const char *pages_check(const struct pages *p, const int32_t *const *table, const int *n,
                        int n_table);

/* ---- store: the bytes of all layers ---- */

struct kv_geometry { /* of one layer; zeros: the layer has no K and V */
    int n_head_kv, d_k, d_v;
};

struct kv_store {
    struct backend *backend; /* borrowed */
    int n_layer, n_page, page_rows;
    struct kv_layer *layer; /* owned [n_layer] */
    uint8_t *memory;        /* owned, on the device */
    int64_t n_byte;
    int64_t page_bytes; /* of all layers */
    int64_t n_present;  /* pieces of memory touched ahead of use */
    int n_host_page;
    uint8_t *host; /* owned [n_host_page, page_bytes], in host memory, touched when used */
};

int64_t kv_store_bytes_per_page(const struct kv_geometry *layer, int n_layer, enum kv_type t,
                                int page_rows);
int kv_store_open(struct kv_store *s, struct backend *b, const struct kv_geometry *layer,
                  int n_layer, enum kv_type t, int page_rows, int n_page, struct err *e);
void kv_store_close(struct kv_store *s); /* s may be zeroed */

/* Report the highest page of a step: some memory of the following pages is touched ahead. Engine
 * thread. */
void kv_store_reach(struct kv_store *s, int32_t page);

/* Device memory of a page's K (run 0, 2 ... : layers 0, 1 ...) or V (run 1, 3 ...). */
struct page_place {
    uint8_t *at;
    size_t n_byte;
};
struct page_place kv_store_place(const struct kv_store *s, int run, int32_t page);
/* Copy a page of all layers to another page. */
void kv_store_copy(struct kv_store *s, int32_t src, int32_t dst);

/* Allocate n_host_page pages in host memory; at most once. */
int kv_store_spill(struct kv_store *s, int n_host_page, struct err *e);
/* Copy a page of all layers to host memory (out) or back (in). The caller manages the numbers
 * (struct spill). */
void kv_store_out(struct kv_store *s, int32_t page, int32_t host_page);
void kv_store_in(struct kv_store *s, int32_t host_page, int32_t page);

/* ---- spill: the free pages of host memory. Engine thread. ---- */

struct spill {
    int n_page, n_free;
    int32_t *free_list; /* owned [n_page] */
    bool *held;         /* owned [n_page] */
};
int spill_open(struct spill *s, int n_page, struct err *e);
void spill_close(struct spill *s);   /* s may be zeroed */
int32_t spill_take(struct spill *s); /* -1: none is free */
void spill_give(struct spill *s, int32_t page);

#endif
