/* store_test.c - goal: a page's memory is present before a step reaches it, and no step makes much
 * more present than its own share. Method: a backend that writes down what it is asked for; pools of
 * several shapes, filled from the first page to the last, one or many pages a step. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "cache.h"

#include <stdlib.h>
#include <string.h>

/* A backend of which the store only ever asks for memory. */
struct recorder {
    struct backend base;
    uint8_t *memory;
    size_t n_byte, n_asked; /* n_asked: of the last step */
    uint8_t *asked;         /* [n_byte / UNIT] how often */
    bool outside;
};
enum { UNIT = 1024 };

static void *record_alloc(struct backend *b, size_t n_byte)
{
    struct recorder *r = (struct recorder *)b;
    r->n_byte = n_byte;
    r->asked = calloc(n_byte / UNIT + 1, 1);
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
    for (size_t i = at / UNIT; i < (at + n_byte) / UNIT; i++) r->asked[i]++;
    r->n_asked += n_byte;
}

static const struct backend_ops record_ops = {
    .alloc = record_alloc, .release = record_release, .populate = record_populate};

static bool page_present(const struct recorder *r, const struct kv_store *s, int page)
{
    for (int i = 0; i < s->n_layer; i++) {
        const struct kv_layer *l = &s->layer[i];
        size_t k = (size_t)((uint8_t *)l->k - r->memory), v = (size_t)((uint8_t *)l->v - r->memory);
        for (int64_t n = 0; n < l->k_page_bytes; n += UNIT)
            if (!r->asked[(k + (size_t)(page * l->k_page_bytes + n)) / UNIT]) return false;
        for (int64_t n = 0; n < l->v_page_bytes; n += UNIT)
            if (!r->asked[(v + (size_t)(page * l->v_page_bytes + n)) / UNIT]) return false;
    }
    return true;
}

struct pool_case {
    int n_layer, n_head, d, n_page, page_rows, step; /* step: pages that one step adds */
};

static void fill(const struct pool_case *c)
{
    struct recorder r = {.base = {.op = &record_ops}};
    struct kv_geometry g[16];
    for (int i = 0; i < c->n_layer; i++) g[i] = (struct kv_geometry){c->n_head, c->d, c->d};
    struct kv_store s;
    struct err e;
    NEED_OK(kv_store_open(&s, &r.base, g, c->n_layer, KV_F16, c->page_rows, c->n_page, &e), &e);
    int64_t group = (2 << 20) / s.layer[0].k_page_bytes, all = s.n_byte / s.n_page;
    if (group < 1) group = 1;
    if (group > c->n_page) group = c->n_page;
    int late = 0, heavy = 0;
    for (int page = 0; page < c->n_page; page += c->step) {
        int last = page + c->step - 1 < c->n_page ? page + c->step - 1 : c->n_page - 1;
        if (page >= group)
            for (int i = page; i <= last && c->step <= group; i++) late += !page_present(&r, &s, i);
        r.n_asked = 0;
        kv_store_reach(&s, last);
        /* twice its own share while the lead is built up; pieces are whole */
        heavy += r.n_asked > (size_t)(2 * all * c->step + 2 * group * s.layer[0].k_page_bytes);
    }
    EXPECT_INT(late, 0);
    EXPECT_INT(heavy, 0);
    int missing = 0, twice = 0;
    for (size_t i = 0; i < r.n_byte / UNIT; i++)
        missing += r.asked[i] == 0, twice += r.asked[i] > 1;
    EXPECT(!r.outside && missing == 0 && twice == 0);
    kv_store_close(&s);
    free(r.asked);
}

TEST(kv_store_is_present_ahead_of_use)
{
    static const struct pool_case c[] = {
        {16, 8, 64, 256, 32, 1},  /* 64 pages are a huge page of one run */
        {16, 8, 64, 200, 32, 16}, /* the last group is not whole; a prompt's chunk a step */
        {2, 1, 32, 700, 16, 3},   /* the whole pool is less than a group */
        {3, 8, 128, 40, 64, 1},   /* few pages a group */
        {1, 64, 256, 5, 64, 1},   /* a page is a huge page */
        {4, 2, 64, 300, 32, 300}, /* all at once */
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) fill(&c[i]);
}

TEST(kv_store_without_populate)
{
    struct backend_ops ops = record_ops;
    ops.populate = NULL; /* a device whose memory is there from the start */
    struct recorder r = {.base = {.op = &ops}};
    struct kv_geometry g = {1, 32, 32};
    struct kv_store s;
    struct err e;
    NEED_OK(kv_store_open(&s, &r.base, &g, 1, KV_F16, 16, 8, &e), &e);
    kv_store_reach(&s, 7);
    EXPECT_INT((int)r.n_asked, 0);
    kv_store_close(&s);
    free(r.asked);
}
