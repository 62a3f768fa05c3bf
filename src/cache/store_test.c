/* store_test.c - goal: a page's memory is present before a step reaches it. Each step writes at
 * most about twice its share of the memory. Method: a backend that records requests. Pools of
 * several shapes are filled from the first page to the last, with one or many pages per step. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "cache.h"

#include <stdlib.h>
#include <string.h>

/* A backend whose memory functions record their calls. */
struct recorder {
    struct backend base;
    uint8_t *memory;
    size_t n_byte, n_touched; /* size of the memory, and number of bytes touched in the last step */
    uint8_t *touched;         /* [n_byte / UNIT] number of requests */
    bool outside;
};
enum { UNIT = 1024 };

static void *record_alloc(struct backend *b, size_t n_byte)
{
    struct recorder *r = (struct recorder *)b;
    r->n_byte = n_byte;
    r->touched = calloc(n_byte / UNIT + 1, 1);
    return r->memory = aligned_alloc(UNIT, n_byte);
}

static void record_release(struct backend *b, void *p, size_t n_byte)
{
    (void)b, (void)n_byte;
    free(p);
}

static void record_populate(struct backend *b, void *p, size_t n_byte)
{
    struct recorder *r = (struct recorder *)b;
    size_t at = (size_t)((uint8_t *)p - r->memory);
    r->outside |= at > r->n_byte || n_byte > r->n_byte - at;
    if (r->outside) return;
    for (size_t i = at / UNIT; i < (at + n_byte) / UNIT; i++) r->touched[i]++;
    r->n_touched += n_byte;
}

static const struct backend_ops record_ops = {
    .alloc = record_alloc, .release = record_release, .populate = record_populate};

static bool page_present(const struct recorder *r, const struct kv_store *s, int page)
{
    for (int i = 0; i < s->n_layer; i++) {
        const struct kv_layer *l = &s->layer[i];
        size_t k = (size_t)((uint8_t *)l->k - r->memory), v = (size_t)((uint8_t *)l->v - r->memory);
        for (int64_t n = 0; n < l->k_page_bytes; n += UNIT)
            if (!r->touched[(k + (size_t)(page * l->k_page_bytes + n)) / UNIT]) return false;
        for (int64_t n = 0; n < l->v_page_bytes; n += UNIT)
            if (!r->touched[(v + (size_t)(page * l->v_page_bytes + n)) / UNIT]) return false;
    }
    return true;
}

struct pool_case {
    int n_layer, n_head, d, n_page, page_rows, step; /* step: number of pages added per step */
    int n_none;                                      /* number of first layers without K and V */
};

static void fill(const struct pool_case *c)
{
    struct recorder r = {.base = {.op = &record_ops}};
    struct kv_geometry g[16];
    for (int i = 0; i < c->n_layer; i++)
        g[i] = i < c->n_none ? (struct kv_geometry){0}
                             : (struct kv_geometry){c->n_head, c->d, c->d, false};
    struct kv_store s;
    struct err e;
    struct kv_store_options o = {.backend = &r.base,
                                 .layer = g,
                                 .n_layer = c->n_layer,
                                 .type = KV_F16,
                                 .page_rows = c->page_rows,
                                 .n_page = c->n_page};
    NEED_OK(kv_store_open(&s, &o, &e), &e);
    const int64_t k_page_bytes = s.layer[c->n_layer - 1].k_page_bytes;
    int64_t group = (2 << 20) / k_page_bytes, all = s.n_byte / s.n_page;
    if (group < 1) group = 1;
    if (group > c->n_page) group = c->n_page;
    int late = 0, heavy = 0;
    for (int page = 0; page < c->n_page; page += c->step) {
        int last = page + c->step - 1 < c->n_page ? page + c->step - 1 : c->n_page - 1;
        if (page >= group)
            for (int i = page; i <= last && c->step <= group; i++) late += !page_present(&r, &s, i);
        r.n_touched = 0;
        kv_store_reach(&s, last);
        /* at most twice the step's share during growth of the lead; pieces are whole */
        heavy += r.n_touched > (size_t)(2 * all * c->step + 2 * group * k_page_bytes);
    }
    EXPECT_INT(late, 0);
    EXPECT_INT(heavy, 0);
    int missing = 0, twice = 0;
    for (size_t i = 0; i < r.n_byte / UNIT; i++)
        missing += r.touched[i] == 0, twice += r.touched[i] > 1;
    EXPECT(!r.outside && missing == 0 && twice == 0);
    kv_store_close(&s);
    free(r.touched);
}

TEST(kv_store_is_present_ahead_of_use)
{
    static const struct pool_case c[] = {
        {16, 8, 64, 256, 32, 1, 0},  /* 64 pages are a huge page of one run */
        {16, 8, 64, 200, 32, 16, 0}, /* the last group is not whole; one prompt chunk per step */
        {2, 1, 32, 700, 16, 3, 0},   /* the whole pool is smaller than a group */
        {3, 8, 128, 40, 64, 1, 0},   /* few pages per group */
        {1, 64, 256, 5, 64, 1, 0},   /* a page is a huge page */
        {4, 2, 64, 300, 32, 300, 0}, /* all pages in one step */
        {8, 8, 64, 256, 32, 1, 4},   /* the first layers are recurrent */
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) fill(&c[i]);
}

TEST(kv_store_of_a_model_without_k_and_v)
{
    struct recorder r = {.base = {.op = &record_ops}};
    struct kv_geometry g[2] = {{0}, {0}};
    struct kv_store s;
    struct err e;
    struct kv_store_options o = {
        .backend = &r.base, .layer = g, .n_layer = 2, .type = KV_F16, .page_rows = 16, .n_page = 8};
    NEED_OK(kv_store_open(&s, &o, &e), &e);
    EXPECT_INT((int)s.n_byte, 0);
    kv_store_reach(&s, 7);
    kv_store_copy(&s, 1, 2);
    EXPECT(!s.memory && r.n_touched == 0);
    kv_store_close(&s);
}

TEST(kv_store_without_populate)
{
    struct backend_ops ops = record_ops;
    ops.populate = NULL; /* the memory of such a device is present from the start */
    struct recorder r = {.base = {.op = &ops}};
    struct kv_geometry g = {1, 32, 32, false};
    struct kv_store s;
    struct err e;
    struct kv_store_options o = {.backend = &r.base,
                                 .layer = &g,
                                 .n_layer = 1,
                                 .type = KV_F16,
                                 .page_rows = 16,
                                 .n_page = 8};
    NEED_OK(kv_store_open(&s, &o, &e), &e);
    kv_store_reach(&s, 7);
    EXPECT_INT((int)r.n_touched, 0);
    kv_store_close(&s);
    free(r.touched);
}

/* Goal: copied and swapped pages have equal bytes, and all other pages of the pool are unchanged.
 * Method: pages of random bytes. One is copied to another, a third is copied to host memory and
 * back to a different page. */
TEST(a_page_that_was_copied_or_swapped_is_the_page)
{
    enum { N_PAGE = 5 };
    const struct kv_geometry g[] = {{2, 64, 64, false}, {1, 40, 96, false}, {1, 96, 64, true}};
    uint64_t rng = 5;
    for (int t = 0; t < KV_TYPE_COUNT; t++) {
        struct backend *b;
        struct kv_store s;
        struct err e;
        NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
        struct kv_store_options o = {.backend = b,
                                     .layer = g,
                                     .n_layer = 3,
                                     .type = (enum kv_type)t,
                                     .page_rows = 16,
                                     .n_page = N_PAGE};
        NEED_OK(kv_store_open(&s, &o, &e), &e);
        NEED_OK(kv_store_spill(&s, 2, &e), &e);
        uint8_t *was = malloc((size_t)s.n_byte);
        NEED(was);
        for (int64_t i = 0; i < s.n_byte; i++) was[i] = (uint8_t)rng_next(&rng);
        b->op->write(b, s.memory, was, (size_t)s.n_byte);
        kv_store_copy(&s, 1, 4);
        kv_store_out(&s, 2, 1);
        kv_store_in(&s, 1, 0);
        static const int from[N_PAGE] = {2, 1, 2, 3, 1};
        for (int run = 0; run < 2 * s.n_layer; run++)
            for (int page = 0; page < N_PAGE; page++) {
                const struct page_place got = kv_store_place(&s, run, page),
                                        want = kv_store_place(&s, run, from[page]);
                EXPECT_BITS(got.at, was + (want.at - s.memory), got.n_byte);
            }
        free(was);
        kv_store_close(&s);
        backend_close(b);
    }
}
