/* order_test.c - goal: a request's order of samplers has the given names, in an order that the
 * chain can compute. Method: read orders and compare their names; pick with the default order
 * written out. */
#include "sample_test.h"

enum { NAMES_MAX = 20 };

/* Read an order of names, separated by spaces. */
static int order_of(struct sample_params *p, const char *names, struct err *e)
{
    struct text_span list[NAMES_MAX];
    int n = 0;
    *p = sample_params_default;
    for (const char *at = names; *at && n < NAMES_MAX; n++) {
        list[n] = (struct text_span){at, strcspn(at, " ")};
        at += list[n].n;
        at += *at == ' ';
    }
    return sample_params_order(p, list, n, e);
}

static void expect_order(const struct sample_params *p, const char *names)
{
    struct buf got = {0};
    for (int i = 0; sample_params_sampler(p, i); i++)
        buf_addf(&got, "%s%s", i ? " " : "", sample_params_sampler(p, i));
    EXPECT_TEXT(got.n ? got.data : "", names);
    buf_deinit(&got);
}

TEST(sample_orders_have_their_names)
{
    struct sample_params p = sample_params_default;
    struct err e = {0};
    expect_order(&p,
                 "penalties dry temperature top_n_sigma top_k typ_p top_p min_p xtc adaptive_p");
    NEED_OK(order_of(&p, "", &e), &e);
    expect_order(&p, "");
    NEED_OK(order_of(&p, "dry penalties top_k temperature top_k", &e), &e);
    expect_order(&p, "dry penalties top_k temperature top_k");
    NEED_OK(order_of(&p, "adaptive_p min_p temperature", &e), &e);
    expect_order(&p, "min_p temperature adaptive_p");
    EXPECT_INT(order_of(&p, "top_k top_q", &e), ERR_ARG);
    EXPECT_TEXT(e.field, "samplers");
    EXPECT_INT(order_of(&p, "top", &e), ERR_ARG);
    EXPECT_INT(order_of(&p, "top_k penalties", &e), ERR_UNSUPPORTED);
    EXPECT_INT(
        order_of(&p, "dry dry dry dry dry dry dry dry dry dry dry dry dry dry dry dry dry", &e),
        ERR_LIMIT);
}

/* Return a hash of the tokens that p picks from random logits. */
static uint64_t picks(const struct sample_params *p)
{
    static float logits[300];
    uint64_t rng = 3, sum = 0;
    struct rig r = {0};
    struct pick out;
    if (!rig_open(&r, p, 300)) return 0;
    for (int i = 0; i < 300; i++) {
        random_logits(logits, 300, &rng);
        sampler_pick(r.s, r.w, logits, NULL, &out);
        sampler_accept(r.s, out.id);
        sum = sum * 31 + (uint64_t)out.id;
    }
    rig_close(&r);
    return sum;
}

static void set_all(struct sample_params *p)
{
    p->temperature = 0.7f;
    p->top_k = 40;
    p->top_p = 0.9f;
    p->repetition_penalty = 1.3f;
    p->dry_multiplier = 0.5f;
}

/* Goal: a request that names the default order has the default tokens. Another order, or an order
 * without a sampler, gives other tokens. */
TEST(sample_orders_select_the_samplers)
{
    struct sample_params p = sample_params_default, q;
    struct err e = {0};
    set_all(&p);
    const uint64_t usual = picks(&p);
    static const char *const orders[] = {
        "penalties dry temperature top_n_sigma top_k typ_p top_p min_p xtc adaptive_p",
        "penalties dry top_k top_p temperature",
        "dry temperature top_k top_p",
        "penalties dry temperature",
        "penalties dry top_k top_p",
    };
    for (int i = 0; i < 5; i++) {
        NEED_OK(order_of(&q, orders[i], &e), &e);
        set_all(&q);
        EXPECT((picks(&q) == usual) == (i == 0));
    }
}

/* Goal: temperature 0 is greedy only if the order has the temperature, without a range. */
TEST(sample_orders_without_temperature_draw)
{
    struct sample_params p = sample_params_default, q;
    struct err e = {0};
    p.temperature = 0;
    const uint64_t best = picks(&p);
    NEED_OK(order_of(&q, "top_k temperature", &e), &e);
    q.temperature = 0;
    EXPECT(picks(&q) == best);
    NEED_OK(order_of(&q, "top_k", &e), &e);
    q.temperature = 0;
    EXPECT(picks(&q) != best);
    p.dynatemp_range = 1;
    EXPECT(picks(&p) != best);
}
