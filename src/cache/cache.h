/* cache.h - KV memory: which sequence holds which page (pages.c), where a page's bytes lie (store.c),
 * and pages that wait in host memory (spill.c). */
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

int64_t pages_bytes(int n_page, int page_rows); /* that the bookkeeping takes */
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
 * by the caller into `extra`. Another pool has other names for the same tokens. */
enum { PAGE_ROOT = 0 };
uint64_t page_name(const struct pages *p, uint64_t parent, const int32_t *tokens, uint64_t extra);

/* The holder says that the page is full, computed, and will not be written again: others may find
 * it. Returns the page that the caller holds from now on: this one, or the one that had the name
 * before, for which this one was dropped. */
int32_t page_seal(struct pages *p, int32_t page, uint64_t name, const int32_t *tokens);

/* The page of that name whose tokens are these, now held once more by the caller; -1: none. */
int32_t page_find(struct pages *p, uint64_t name, const int32_t *tokens);
/* The same, held by nobody for it. */
int32_t page_look(const struct pages *p, uint64_t name, const int32_t *tokens);

/* Who is told how old cached pages are: when one is evicted (since it was taken; since somebody held it
 * last), and when one is found (since then). pages_now: the clock that ages are counted by. */
struct page_watch {
    void *ctx; /* borrowed */
    void (*evicted)(void *ctx, int64_t life_us, int64_t idle_us);
    void (*found)(void *ctx, int64_t gap_us);
};
void pages_watch(struct pages *p, const struct page_watch *w);
void pages_now(struct pages *p, int64_t now_us);

void pages_forget(
    struct pages
        *p); /* every cached page becomes free, and none that is held can be found any more */

/* Asserts the invariants of pages.c against the tables given: table[i] names n[i] pages, or -1 where
 * it has a hole. Returns NULL or what is wrong. For tests, and for the engine's debug builds after every step. */
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
    int64_t page_bytes; /* of all layers */
    int64_t n_present;  /* pieces of memory that were touched ahead of use */
    int n_host_page;
    uint8_t *host; /* owned [n_host_page, page_bytes], in host memory, touched as used */
};

int64_t kv_store_bytes_per_page(const struct kv_geometry *layer, int n_layer, enum kv_type t,
                                int page_rows);
int kv_store_open(struct kv_store *s, struct backend *b, const struct kv_geometry *layer,
                  int n_layer, enum kv_type t, int page_rows, int n_page, struct err *e);
void kv_store_close(struct kv_store *s); /* safe on a zeroed one */

/* This is the highest page of a step: touches some of the memory of those that follow. Engine thread. */
void kv_store_reach(struct kv_store *s, int32_t page);

/* Room for n_host_page pages in host memory; at most once. */
int kv_store_spill(struct kv_store *s, int n_host_page, struct err *e);
/* A page of all layers to host memory, and back. Numbers are the caller's to keep (struct spill). */
void kv_store_out(struct kv_store *s, int32_t page, int32_t host_page);
void kv_store_in(struct kv_store *s, int32_t host_page, int32_t page);

/* ---- spill: which pages of host memory are free. Engine thread. ---- */

struct spill {
    int n_page, n_free;
    int32_t *free_list; /* owned [n_page] */
    bool *held;         /* owned [n_page] */
};
int spill_open(struct spill *s, int n_page, struct err *e);
void spill_close(struct spill *s);   /* safe on a zeroed one */
int32_t spill_take(struct spill *s); /* -1: none is free */
void spill_give(struct spill *s, int32_t page);

#endif
