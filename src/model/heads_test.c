/* heads_test.c - goal: a matrix of all heads is divided into a matrix per head with the same
 * values, also if the heads are transposed and the file has blocks of values. */
#include "../../tests/gguf_make.h"
#include "../../tests/unit.h"
#include "model_impl.h"

#include "base/os.h"
#include "base/rng.h"

#include <stdlib.h>

enum { N_HEAD_OF = 3, D_NOPE = 12, D_V = 16, STEP = D_NOPE + D_V, KV_RANK = 64 };

/* Write a GGUF with the matrix attn_kv_b [N_HEAD_OF * STEP, KV_RANK] of `type`. Its values are
 * x. */
static const char *matrix_file(float x[N_HEAD_OF * STEP * KV_RANK], enum qtype type)
{
    enum { N = N_HEAD_OF * STEP * KV_RANK };
    const struct qtype_info *t = &qtype_info[type];
    uint8_t data[N * sizeof(float)];
    uint64_t rng = 1;
    struct err e;
    for (int i = 0; i < N; i++) x[i] = rng_float(&rng) - 0.5f;
    t->ops->encode(data, x, N, NULL);
    t->ops->decode(x, data, N);
    struct made g = made_begin(3, 1, 1);
    made_key(&g, "general.architecture", 8);
    made_text(&g, "deepseek2", 9);
    made_tensor(&g, "blk.0.attn_kv_b.weight", 2, (int64_t[]){KV_RANK, N_HEAD_OF * STEP},
                (uint32_t)t->gguf_id, 0);
    made_pad(&g, 32);
    made_raw(&g, data, qtype_bytes(type, N));
    made_pad(&g, 32);
    EXPECT_INT(file_write(temp_path("heads.gguf"), g.head.data, g.head.n, &e), 0);
    buf_deinit(&g.head);
    return temp_path("heads.gguf");
}

/* Compare head h of l with rows [first, first + n) of its part of x, or with their transpose. */
static void expect_head(const struct linear *l, int h, const float *x, int first, int n,
                        bool transposed)
{
    float got[STEP * KV_RANK], want[STEP * KV_RANK];
    uint8_t rows[STEP * KV_RANK * sizeof(float)];
    const struct published *p = &l->w.from[h];
    const int n_value = n * KV_RANK;
    if (p->form == FORM_ROWS)
        qtype_info[l->w.type].ops->decode(got, p->rows, n_value);
    else {
        published_rows(rows, p, l->w.type, 0, (int)l->w.n_out, l->w.k);
        qtype_info[l->w.type].ops->decode(got, rows, n_value);
    }
    for (int i = 0; i < n; i++)
        for (int c = 0; c < KV_RANK; c++)
            want[transposed ? c * n + i : i * KV_RANK + c] =
                x[(h * STEP + first + i) * KV_RANK + c];
    EXPECT_BITS(got, want, (size_t)n_value * sizeof *got);
}

static void expect_heads(enum qtype type)
{
    float x[N_HEAD_OF * STEP * KV_RANK];
    struct err e = {0};
    struct model m = {.arch = &arch_deepseek2};
    struct layer_config layer = {.n_head = N_HEAD_OF};
    const struct latent latent = {.kv_rank = KV_RANK, .d_nope = D_NOPE, .d_v = D_V};
    struct checkpoint *c;
    uint8_t bound[1] = {0};
    struct linear k = {0}, v = {0};
    static const char stem[] = "blk.%d.attn_kv_b";
    m.config = (struct config){.n_layer = 1, .n_head = N_HEAD_OF, .latent = &latent};
    m.config.layer = &layer;
    NEED_OK(checkpoint_open(&c, matrix_file(x, type), &e), &e);
    struct binder b = {.m = &m, .checkpoint = c, .bound = bound, .e = &e, .part = ""};
    b.row = tensor_rows("deepseek2", &b.n_row);
    bind_heads(&b, &k, stem, 0, &(struct row_part){.n = D_NOPE, .step = STEP}, true);
    bind_heads(&b, &v, stem, 0, &(struct row_part){.first = D_NOPE, .n = D_V, .step = STEP}, false);
    NEED_OK(b.rc, &e);
    for (int h = 0; h < N_HEAD_OF; h++) {
        expect_head(&k, h, x, 0, D_NOPE, true);
        expect_head(&v, h, x, D_NOPE, D_V, false);
    }
    vec_deinit(&m.tensor);
    arena_deinit(&m.arena);
    checkpoint_close(c);
}

TEST(heads_of_a_matrix_have_its_values)
{
    static const enum qtype types[] = {QT_f32, QT_bf16, QT_q8_0, QT_q4_0};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) expect_heads(types[i]);
}
