/* cache.h - KV memory. pages.c manages the sequences' pages, store.c the bytes of pages, and
 * spill.c the pages in host memory. */
#ifndef QUOTH_CACHE_H
#define QUOTH_CACHE_H

#include "backend/backend.h"
#include "base/err.h"

/* ---- pages: host-side bookkeeping only; state diagram in pages.c. Engine thread. ---- */

struct pages; /* opaque */

/* Open a pool of free pages. keep: a page can still be found after its last holder drops it.
 * Without keep, the page is forgotten. The caller owns *out, which is NULL after an error. Return
 * ERR_ARG if n_page < 1 or page_rows is not a power of two in [1, 64], or ERR_MEMORY. */
int pages_open(struct pages **out, int n_page, int page_rows, bool keep, struct err *e);
void pages_close(struct pages *p); /* free p; NULL is allowed */

int64_t pages_bytes(int n_page, int page_rows); /* return the number of bytes of the bookkeeping */
/* Return the number of pages of the pool. */
int pages_n_total(const struct pages *p);
/* Return the number of pages that can be taken now: free or cached pages. */
int pages_n_free(const struct pages *p);
/* Return the number of full pages without a holder that page_find can find. */
int pages_n_cached(const struct pages *p);
/* Return the number of rows of a page. */
int pages_rows(const struct pages *p);

/* Take a page, which the caller then holds once. The page is a free page, or otherwise the cached
 * page that is evicted next (page_value). Return -1 if no page is free or cached. */
int32_t page_take(struct pages *p);
void page_ref(struct pages *p, int32_t page); /* add a holder: one more table contains the page */
/* Remove one holder. After the last holder, a sealed page is cached, any other page is free. */
void page_drop(struct pages *p, int32_t page);
/* Return the number of holders of the page. */
int page_refs(const struct pages *p, int32_t page);

enum { PAGE_ROOT = 0 };
/* Return the name of a full page. The name depends on the parent's name (PAGE_ROOT for a sequence's
 * first page) and the page's tokens i32 [page_rows]. The hash `extra` covers other data that change
 * the page's content (adapter, image, a tenant's salt). Names differ between pools. */
uint64_t page_name(const struct pages *p, uint64_t parent, const int32_t *tokens, uint64_t extra);

/* Seal a full and computed page with tokens i32 [page_rows]: page_find can find it, and it must not
 * be written again. Return the page that the caller holds after the call. The result is this page,
 * or an earlier page of the same name. This page is dropped if the result is an earlier page. */
int32_t page_seal(struct pages *p, int32_t page, uint64_t name, const int32_t *tokens);

/* Find the page with that name and tokens i32 [page_rows], and hold it once more for the caller.
 * Return -1 if no such page exists. */
int32_t page_find(struct pages *p, uint64_t name, const int32_t *tokens);
/* Find the page with that name and tokens i32 [page_rows], without holding it. Return -1 if no
 * such page exists. */
int32_t page_look(const struct pages *p, uint64_t name, const int32_t *tokens);

/* Set the work that a hit of a sealed page saves, in tokens; 0 after page_take. Pages with more
 * work and more hits are evicted later. Pages without work are evicted by their last use. */
void page_value(struct pages *p, int32_t page, int worth);

/* Callbacks for the ages of cached pages, NULL if none. evicted: times since the page was taken and
 * since its last use. found: time since its last use. */
struct page_watch {
    void *ctx; /* argument of the callbacks, borrowed */
    void (*evicted)(void *ctx, int64_t life_us, int64_t idle_us);
    void (*found)(void *ctx, int64_t gap_us);
    /* page that is evicted: its name and tokens i32 [page_rows], borrowed */
    void (*gone)(void *ctx, uint64_t name, const int32_t *tokens);
};
/* Set the callbacks of p; *w is copied. */
void pages_watch(struct pages *p, const struct page_watch *w);
/* Set the time for the ages of pages, in microseconds. */
void pages_now(struct pages *p, int64_t now_us);

/* Free every cached page. Held pages can no longer be found. */
void pages_clear(struct pages *p);

/* Check the invariants of pages.c against the given tables [n_table]. table[i] contains i32 [n[i]]
 * pages, -1 for a hole. Return NULL or a description of the violation, static. Tests call this
 * function, and debug builds call it after every step. */
const char *pages_check(const struct pages *p, const int32_t *const *table, const int *n,
                        int n_table);

/* ---- store: the bytes of all layers. Threads: the loading thread, then the engine thread. ---- */

struct kv_geometry { /* geometry of one layer; zeros: the layer has no K and V */
    int n_head_kv, d_k, d_v;
    bool latent; /* as in struct kv_layer */
};

struct kv_store {
    struct backend *backend; /* backend of the memory, borrowed */
    int n_layer, n_page, page_rows;
    struct kv_layer *layer; /* memory of each layer, owned [n_layer] */
    uint8_t *memory;        /* owned, on the device */
    int64_t n_byte;
    int64_t page_bytes; /* bytes of a page of all layers */
    int64_t n_present;  /* number of pieces of memory that were touched before their use */
    int n_host_page;
    uint8_t *host; /* host memory, owned [n_host_page, page_bytes], touched at the first use */
};

/* Return the bytes of a page of all layers. layer: [n_layer]. */
int64_t kv_store_bytes_per_page(const struct kv_geometry *layer, int n_layer, enum kv_type t,
                                int page_rows);

struct kv_store_options {
    struct backend *backend;         /* backend of the memory, borrowed until kv_store_close */
    const struct kv_geometry *layer; /* geometry of each layer, borrowed [n_layer] */
    int n_layer;
    enum kv_type type; /* type of K and V in every layer */
    int page_rows;     /* rows of a page: a power of two in [1, 64] */
    int n_page;
};
/* Reserve memory for the pages of all layers. Return 0 or ERR_MEMORY. */
int kv_store_open(struct kv_store *s, const struct kv_store_options *o, struct err *e);
void kv_store_close(struct kv_store *s); /* free the memory of s, which may be zeroed */

/* Report the highest page of a step, so that some memory of the following pages is touched before
 * its use. Engine thread. */
void kv_store_reach(struct kv_store *s, int32_t page);

/* device memory of a page, borrowed from the store; runs 0, 2 ... are K of layers 0, 1 ..., runs 1,
 * 3 ... are V */
struct page_place {
    uint8_t *at;
    size_t n_byte;
};
/* Return the memory of a page in a run. */
struct page_place kv_store_place(const struct kv_store *s, int run, int32_t page);
/* Copy a page of all layers to another page. */
void kv_store_copy(struct kv_store *s, int32_t src, int32_t dst);

/* Allocate n_host_page pages in host memory. Call this function at most once. After ERR_MEMORY the
 * store has no host memory. */
int kv_store_spill(struct kv_store *s, int n_host_page, struct err *e);
/* Copy a page of all layers to host memory (out) or back (in). The caller manages the page numbers
 * (struct spill). */
void kv_store_out(struct kv_store *s, int32_t page, int32_t host_page);
/* Copy the bytes of a page back from host memory. */
void kv_store_in(struct kv_store *s, int32_t host_page, int32_t page);

/* ---- states: the bytes of recurrent states. Threads: those of the store. ---- */

struct state_store {
    struct backend *backend; /* backend of the memory, borrowed */
    int64_t slot_floats;     /* values of a state of all layers; 0: the model has no state */
    int n_slot, n_host;      /* number of slots, and of slots in host memory */
    float *at;               /* f32 [n_slot, slot_floats], owned, on the device */
    float *host;             /* f32 [n_host, slot_floats], owned; NULL if none */
};
struct state_store_options {
    struct backend *backend; /* backend of the memory, borrowed until state_store_close */
    int64_t slot_floats;     /* values of a state of all layers */
    int n_slot, n_host;
};
/* Reserve memory for the states. The caller calls state_store_close also after ERR_MEMORY. */
int state_store_open(struct state_store *s, const struct state_store_options *o, struct err *e);
void state_store_close(struct state_store *s); /* free the memory of s, which may be zeroed */
/* Copy a state to host memory. The caller manages the numbers of host slots (struct spill). */
void state_store_out(struct state_store *s, int32_t slot, int32_t host);
/* Copy a state back from host memory. */
void state_store_in(struct state_store *s, int32_t host, int32_t slot);

/* ---- spill: the free pages of host memory. Engine thread. ---- */

struct spill {
    int n_page, n_free;
    int32_t *free_list; /* numbers of free pages, owned [n_page] */
    bool *held;         /* true for pages in use, owned [n_page] */
};
/* Open a list of n_page free host pages. The caller calls spill_close also after ERR_MEMORY. */
int spill_open(struct spill *s, int n_page, struct err *e);
int64_t spill_bytes(int n_page);     /* return the number of bytes of the lists */
void spill_close(struct spill *s);   /* free the memory of s, which may be zeroed */
int32_t spill_take(struct spill *s); /* return a free host page; -1 if no page is free */
/* Return a page, which must be in use, to the list. */
void spill_give(struct spill *s, int32_t page);

#endif
