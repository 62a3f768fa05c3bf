/* llama2c_test.c - tests of llama2.c checkpoints: small files of the three versions, and a real
 * model in each version. */
#include "format.h"
#include "../../tests/gguf_make.h"
#include "base/os.h"
#include "../../tests/unit.h"

#include <math.h>
#include <stdlib.h>

enum {
    DIM = 8,
    HIDDEN = 16,
    LAYERS = 2,
    HEADS = 4,
    KV_HEADS = 2,
    VOCAB = 5,
    CTX = 3,
    KV = DIM / HEADS * KV_HEADS
};

static void add_fields(struct made *g, int64_t n_vocab)
{
    const int64_t field[7] = {DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, n_vocab, CTX};
    for (int i = 0; i < 7; i++) made_uint(g, 4, (uint64_t)field[i]);
}

static int64_t n_weight(bool tied)
{
    int64_t layer = 2 * DIM + DIM * DIM * 2 + DIM * KV * 2 + 3 * DIM * HIDDEN;
    return VOCAB * DIM * (tied ? 1 : 2) + LAYERS * layer + DIM;
}

/* Make a file with the values 0, 1, 2, ... in file order. */
static struct made make_v0(bool tied)
{
    struct made g = {0};
    add_fields(&g, tied ? VOCAB : -VOCAB);
    for (int64_t i = 0; i < n_weight(tied) + CTX * (DIM / HEADS); i++) made_f32(&g, (float)i);
    return g;
}

static struct made make_v1(bool tied)
{
    struct made g = {0};
    made_uint(&g, 4, 0x616b3432), made_uint(&g, 4, 1);
    add_fields(&g, VOCAB);
    made_uint(&g, 1, tied);
    made_pad(&g, 256);
    for (int64_t i = 0; i < n_weight(tied); i++) made_f32(&g, (float)i);
    return g;
}

static void add_quantized(struct made *g, int64_t n, int64_t group)
{
    for (int64_t i = 0; i < n; i++) made_uint(g, 1, (uint64_t)(i % 100 - 50));
    for (int64_t i = 0; i < n / group; i++) made_f32(g, (float)(i + 1));
}

static struct made make_v2(int64_t group)
{
    static const int64_t per_layer[] = {DIM * DIM,    DIM * KV,     DIM * KV,    DIM * DIM,
                                        DIM * HIDDEN, DIM * HIDDEN, DIM * HIDDEN};
    struct made g = {0};
    made_uint(&g, 4, 0x616b3432), made_uint(&g, 4, 2);
    add_fields(&g, VOCAB);
    made_uint(&g, 1, 1), made_uint(&g, 4, (uint64_t)group);
    made_pad(&g, 256);
    for (int i = 0; i < DIM * (2 * LAYERS + 1); i++) made_f32(&g, (float)i);
    add_quantized(&g, VOCAB * DIM, group);
    for (int i = 0; i < 7; i++)
        for (int l = 0; l < LAYERS; l++) add_quantized(&g, per_layer[i], group);
    return g;
}

static struct checkpoint *open_made(struct made *g, struct err *e)
{
    struct checkpoint *c = NULL;
    const char *path = temp_path("model.bin");
    if (file_write(path, g->head.data, g->head.n, e) == 0) checkpoint_open(&c, path, e);
    buf_deinit(&g->head);
    return c;
}

static void expect_refused(struct made *g, const char *want)
{
    struct err e = {0};
    struct checkpoint *c = open_made(g, &e);
    if (c)
        test_fail(__FILE__, __LINE__, "accepted, expected: %s", want);
    else if (!strstr(e.text, want) || !strstr(e.text, "model.bin"))
        test_fail(__FILE__, __LINE__, "\"%s\" lacks: %s", e.text, want);
    checkpoint_close(c);
}

static float first_value(const struct checkpoint *c, const char *name)
{
    const struct tensor_info *t = checkpoint_tensor(c, name);
    float x = NAN;
    if (t) memcpy(&x, t->data, sizeof x);
    return x;
}

TEST(llama2c_v0)
{
    /* Goal: each tensor begins at the offset that the format defines. The rope tables are
     * skipped. */
    for (int tied = 0; tied < 2; tied++) {
        struct made g = make_v0(tied);
        struct err e = {0};
        struct checkpoint *c = open_made(&g, &e);
        NEED_OK(c ? 0 : -1, &e);
        EXPECT(checkpoint_kind(c) == CKPT_LLAMA2C &&
               checkpoint_n_tensor(c) == 2 + 9 * LAYERS + !tied);
        float at = VOCAB * DIM;
        EXPECT(first_value(c, "token_embd.weight") == 0 &&
               first_value(c, "blk.0.attn_norm.weight") == at);
        EXPECT(first_value(c, "blk.1.attn_norm.weight") == at + DIM);
        EXPECT(first_value(c, "blk.0.attn_q.weight") == at + DIM * LAYERS);
        EXPECT(first_value(c, "output_norm.weight") == (float)(n_weight(true) - DIM));
        if (!tied)
            EXPECT(first_value(c, "output.weight") ==
                   (float)(n_weight(true) + CTX * (DIM / HEADS)));
        const struct tensor_info *t = checkpoint_tensor(c, "blk.1.ffn_down.weight");
        EXPECT(t && t->dim[0] == HIDDEN && t->dim[1] == DIM && t->n_dim == 2 && t->type == QT_f32);
        t = checkpoint_tensor(c, "blk.1.attn_k.weight");
        EXPECT(t && t->dim[0] == DIM && t->dim[1] == KV);
        EXPECT_INT(meta_int(checkpoint_meta(c, "llama.vocab_size"), 0), VOCAB);
        EXPECT_INT(meta_int(checkpoint_meta(c, "llama.context_length"), 0), CTX);
        EXPECT_INT(meta_int(checkpoint_meta(c, "llama.attention.head_count_kv"), 0), KV_HEADS);
        EXPECT(meta_real(checkpoint_meta(c, "llama.rope.freq_base"), 0) == 10000);
        EXPECT(meta_real(checkpoint_meta(c, "llama.attention.layer_norm_rms_epsilon"), 0) == 1e-5);
        checkpoint_close(c);
    }
}

TEST(llama2c_v1_and_v2)
{
    /* Goal: norms are first, and int8 groups decode to q x scale. */
    struct err e = {0};
    struct made g = make_v1(false);
    struct checkpoint *c = open_made(&g, &e);
    NEED_OK(c ? 0 : -1, &e);
    EXPECT(first_value(c, "blk.0.attn_norm.weight") == 0 &&
           first_value(c, "output_norm.weight") == 2 * LAYERS * DIM);
    EXPECT(first_value(c, "output.weight") == (float)(n_weight(false) - VOCAB * DIM));
    checkpoint_close(c);
    g = make_v2(4);
    c = open_made(&g, &e);
    NEED_OK(c ? 0 : -1, &e);
    const struct tensor_info *t = checkpoint_tensor(c, "blk.1.ffn_up.weight");
    NEED(t && t->type == QT_f32 && t->n_byte == DIM * HIDDEN * 4);
    for (int i = 0; i < DIM * HIDDEN; i++) {
        float x;
        memcpy(&x, t->data + 4 * i, 4);
        NEED(x == (float)(i % 100 - 50) * (float)(i / 4 + 1));
    }
    EXPECT(!checkpoint_tensor(c, "output.weight"));
    checkpoint_close(c);
}

TEST(llama2c_refusals)
{
    struct made g = make_v0(true);
    g.head.n--;
    expect_refused(&g, "expected the rope tables of 24 bytes at");
    g = make_v0(true), made_uint(&g, 1, 0);
    expect_refused(&g, "bytes as in its header, got");
    g = make_v1(true), g.head.data[4] = 3;
    expect_refused(&g, "got 3");
    g = make_v1(true), g.head.data[20] = 3;
    expect_refused(&g, "3 heads, 2 KV heads");
    g = make_v2(4), g.head.data[37] = 3;
    expect_refused(&g, "token_embd.weight has 40 values, expected a multiple of group_size 3");
    g = make_v2(4), g.head.data[37] = 0;
    expect_refused(&g, "group_size");
    g = make_v0(true), g.head.data[3] = 1;
    expect_refused(&g, "expected token_embd.weight of");
    g = make_v0(true), g.head.data[0] = 9;
    expect_refused(&g, "not a model file");
    g = (struct made){0}, made_raw(&g, "hello", 5);
    expect_refused(&g, "not a model file: expected GGUF, safetensors or a llama2.c .bin");
    g = (struct made){0};
    expect_refused(&g, "the file is empty");
}

/* ---- the real model ---- */

static void expect_same_tensors(const struct checkpoint *a, const struct checkpoint *b)
{
    for (int i = 0; i < checkpoint_n_tensor(a); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(a, i),
                                 *u = checkpoint_tensor(b, t->name);
        if (!u || u->n_byte != t->n_byte || memcmp(t->dim, u->dim, sizeof t->dim) != 0 ||
            memcmp(t->data, u->data, t->n_byte) != 0)
            test_fail(__FILE__, __LINE__, "%s differs", t->name);
    }
}

static float farthest(const struct tensor_info *t, const struct tensor_info *u)
{
    float far = 0;
    for (size_t i = 0; i < t->n_byte; i += 4) {
        float x, y;
        memcpy(&x, t->data + i, 4), memcpy(&y, u->data + i, 4);
        if (!(fabsf(x - y) <= far)) far = fabsf(x - y);
    }
    return far;
}

TEST(llama2c_real)
{
    /* Goal: v0, v1 and the GGUF converted by llama.cpp's tool have equal bits. The int8 values are
     * close to the f32 values. */
    static const char *const file[] = {
        "weights/stories260K/stories260K.bin", "weights/stories260K/stories260K_v1.bin",
        "weights/gguf/stories260K-F32.gguf", "weights/stories260K/stories260K-q8_0.ruhai.bin"};
    struct checkpoint *c[4] = {0};
    struct err e = {0};
    if (!data_path(file[0]) || !data_path(file[2])) SKIP("weights/stories260K is absent");
    for (int i = 0; i < 4; i++) NEED_OK(checkpoint_open(&c[i], data_path(file[i]), &e), &e);
    EXPECT_INT(checkpoint_n_tensor(c[0]), 47);
    expect_same_tensors(c[0], c[1]);
    expect_same_tensors(c[0], c[2]);
    float far = farthest(checkpoint_tensor(c[0], "blk.2.ffn_gate.weight"),
                         checkpoint_tensor(c[3], "blk.2.ffn_gate.weight"));
    test_note("int8 differs by at most %g", (double)far);
    EXPECT(far > 0 && far < 0.02f);
    for (int i = 0; i < 4; i++) checkpoint_close(c[i]);
}
