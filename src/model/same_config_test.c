/* same_config_test.c - goal: a comparison of two configs detects each value that differs. Method:
 * change one value of a copy of a golden model's config. */
#include "../../tests/unit.h"
#include "convert_impl.h"

/* Two configs with equal values. `b` has its own layers and sizes of latent attention. */
struct pair {
    struct checkpoint *c;
    struct backend *backend;
    struct model *m;
    struct config a, b;
    struct layer_config layer[8];
    struct latent latent;
};

static int pair_open(struct pair *p, const char *file, struct err *e)
{
    int rc = checkpoint_open(&p->c, repo_path(file), e);
    if (rc == 0) rc = backend_open(&p->backend, "cpu", &(struct backend_options){.n_thread = 1}, e);
    if (rc == 0) rc = model_bind(&p->m, p->c, p->backend, NULL, e);
    if (rc == 0) p->a = p->m->config;
    return rc;
}

static void pair_close(struct pair *p)
{
    model_close(p->m);
    backend_close(p->backend);
    checkpoint_close(p->c);
}

/* Make both configs equal. */
static void reset(struct pair *p)
{
    p->b = p->a;
    CHECK(p->a.n_layer <= 8, "%d layers", p->a.n_layer);
    memcpy(p->layer, p->a.layer, (size_t)p->a.n_layer * sizeof *p->layer);
    p->b.layer = p->layer;
    if (p->a.latent) p->latent = *p->a.latent, p->b.latent = &p->latent;
}

static int compare(struct pair *p, bool to_gguf)
{
    struct err e = {0};
    return compare_configs(p->c, &p->a, &p->b, false, to_gguf, &e);
}

/* Check that the comparison with a directory detects a change of a member of p.b. */
#define DETECTED(member)                                                                           \
    do {                                                                                           \
        reset(&p);                                                                                 \
        EXPECT_INT(compare(&p, false), 0);                                                         \
        p.member = !p.member;                                                                      \
        if (compare(&p, false) != ERR_UNSUPPORTED)                                                 \
            test_fail(__FILE__, __LINE__, "no difference in %s", #member);                         \
    } while (0)

static const char deepseek[] = "tests/golden/deepseek_v3";

TEST(each_differing_value_of_a_config_is_detected)
{
    struct pair p = {0};
    struct err e = {0};
    if (!repo_path(deepseek)) SKIP("tests/golden is not here");
    NEED_OK(pair_open(&p, deepseek, &e), &e);
    DETECTED(b.n_vocab);
    DETECTED(b.rms_eps);
    DETECTED(b.order);
    DETECTED(b.ffn_and_moe);
    DETECTED(b.route.normalize);
    DETECTED(latent.kv_rank);
    DETECTED(b.pads_apart);
    DETECTED(b.n_padded);
    DETECTED(b.n_other);
    DETECTED(layer[0].d_ff);
    DETECTED(layer[1].window);
    DETECTED(layer[1].recurrent);
    reset(&p);
    p.b.latent = NULL;
    EXPECT_INT(compare(&p, false), ERR_UNSUPPORTED);
    reset(&p);
    p.a.latent = NULL;
    EXPECT_INT(compare(&p, false), ERR_UNSUPPORTED);
    pair_close(&p);
}

TEST(ids_of_other_parts_are_compared_unless_the_result_is_a_gguf)
{
    struct pair p = {0};
    struct err e = {0};
    if (!repo_path(deepseek)) SKIP("tests/golden is not here");
    NEED_OK(pair_open(&p, deepseek, &e), &e);
    p.a.n_padded = 2, p.a.padded[0] = 5, p.a.padded[1] = 9, p.a.pad = 3;
    p.a.n_other = 1;
    p.a.other[0] = (struct other_ids){.first = 40, .end = 60, .n_row = 20, .d = 8, .eps = 1e-6f};
    DETECTED(b.pad);
    DETECTED(b.padded[1]);
    DETECTED(b.other[0].first);
    DETECTED(b.other[0].end);
    DETECTED(b.other[0].n_row);
    DETECTED(b.other[0].d);
    DETECTED(b.other[0].eps);
    p.b.n_padded = p.b.n_other = 0, p.b.pads_apart = true;
    EXPECT_INT(compare(&p, true), 0);
    pair_close(&p);
}
