/* Goal: a model of random weights has the requested shape and format, is reproducible, and has
 * plausible numbers. */
#include "format_impl.h"
#include "../../tests/unit.h"

#include <math.h>
#include <stdlib.h>

static struct checkpoint *open_dummy(const struct dummy_options *o, struct err *e)
{
    struct checkpoint *c;
    *e = (struct err){0};
    checkpoint_open_dummy(&c, o, e);
    return c;
}

static int64_t n_param(const struct checkpoint *c)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->tensor.n; i++) {
        const int64_t *d = c->tensor.v[i].dim;
        n += d[0] * d[1] * d[2] * d[3];
    }
    return n;
}

TEST(dummy_shapes_have_their_published_sizes)
{
    /* Goal: shapes have the published sizes. Method: parameter counts from model cards and
     * safetensors headers. */
    static const struct {
        const char *shape;
        int64_t n_param;
        int n_rope; /* number of values of rope_freqs, which the cards' counts exclude */
    } want[] = {
        {"llama2-7b", 6738415616, 0},    {"llama-1b", 1235814400, 32},
        {"llama-3b", 3212749824, 64},    {"llama-8b", 8030261248, 64},
        {"llama-70b", 70553706496, 64},  {"tinyllama-1b", 1100048384, 0},
        {"mistral-7b", 7248023552, 0},   {"smollm-135m", 134515008, 0},
        {"smollm-360m", 361821120, 0},   {"smollm-1.7b", 1711376384, 0},
        {"smollm3-3b", 3075098624, 0},   {"qwen2.5-0.5b", 494032768, 0},
        {"qwen2.5-1.5b", 1543714304, 0}, {"qwen2.5-3b", 3085938688, 0},
        {"qwen2.5-7b", 7615616512, 0},   {"qwen3-0.6b", 596049920, 0},
        {"qwen3-1.7b", 1720574976, 0},   {"qwen3-4b", 4022468096, 0},
        {"qwen3-8b", 8190735360, 0},     {"qwen3-14b", 14768307200, 0},
        {"qwen3-32b", 32762123264, 0},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct err e;
        struct dummy_options o = {.shape = want[i].shape, .no_data = true};
        struct checkpoint *c = open_dummy(&o, &e);
        if (!c) test_fail(__FILE__, __LINE__, "%s", e.text);
        if (c && n_param(c) != want[i].n_param + want[i].n_rope)
            test_fail(__FILE__, __LINE__, "%s has %lld parameters", want[i].shape,
                      (long long)n_param(c));
        checkpoint_close(c);
    }
}

/* Expect that the first rows of each matrix decode to finite numbers with a mean square of about
 * 1/k, and each norm to ones. n_max: maximum number of rows of a tensor */
static void expect_sane(const struct checkpoint *c, int64_t n_max)
{
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(c, i);
        int64_t n = t->dim[0] * (t->dim[1] < n_max ? t->dim[1] : n_max);
        size_t n_byte = qtype_bytes(t->type, n);
        bool is_norm = strstr(t->name, "_norm.weight") != NULL;
        float *x = malloc((size_t)n * sizeof *x);
        uint8_t *made = malloc(n_byte);
        double sum = 0, want = is_norm ? 1 : 1.0 / (double)t->dim[0];
        qtype_info[t->type].ops->decode(x, checkpoint_bytes(c, i, 0, n_byte, made), n);
        for (int64_t k = 0; k < n; k++) sum += (double)x[k] * x[k];
        if (!(sum / (double)n > 0.4 * want && sum / (double)n < 1.7 * want))
            test_fail(__FILE__, __LINE__, "%s of %s: mean square %g, expected about %g", t->name,
                      qtype_info[t->type].name, sum / (double)n, want);
        for (int64_t k = 0; k < n && is_norm; k++) EXPECT(x[k] == 1);
        free(x);
        free(made);
    }
}

TEST(dummy_in_every_number_format_is_sane)
{
    for (int q = 0, n_grid = 0; q < QT_COUNT; q++) {
        struct err e;
        /* Formats of grids take most of the time. The sample has one in four. */
        if (!test_long() && strncmp(qtype_info[q].name, "IQ", 2) == 0 && n_grid++ % 4 != 0)
            continue;
        struct dummy_options o = {
            .shape = "tiny", .quant = qtype_info[q].name, .pure = true, .no_data = !test_long()};
        struct checkpoint *c = open_dummy(&o, &e);
        if (!qtype_info[q].ops) {
            EXPECT(!c && strstr(e.text, "number format"));
        } else if (!c) {
            test_fail(__FILE__, __LINE__, "%s", e.text);
        } else {
            EXPECT(checkpoint_tensor(c, "token_embd.weight")->type == (enum qtype)q);
            EXPECT(checkpoint_tensor(c, "blk.1.ffn_down.weight")->type == (enum qtype)q);
            expect_sane(c, test_long() ? INT64_MAX : 32);
        }
        checkpoint_close(c);
    }
}

TEST(dummy_is_the_same_every_time)
{
    /* Goal: equal options give equal bytes, and another seed gives other bytes. A part generated
     * alone equals that part of the whole tensor. */
    struct err e;
    struct dummy_options o = {.shape = "tiny", .quant = "Q4_K_M"};
    struct checkpoint *a = open_dummy(&o, &e), *b = open_dummy(&o, &e);
    struct checkpoint *other = (o.seed = 1, open_dummy(&o, &e));
    struct checkpoint *bare = (o.seed = 0, o.no_data = true, open_dummy(&o, &e));
    NEED(a && b && other && bare);
    for (int i = 0; i < checkpoint_n_tensor(a); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(a, i);
        uint8_t part[1001];
        size_t at = t->n_byte / 3, n = t->n_byte - at < sizeof part ? t->n_byte - at : sizeof part;
        EXPECT_BITS(t->data, b->tensor.v[i].data, t->n_byte);
        if (t->n_dim == 2) EXPECT(memcmp(t->data, other->tensor.v[i].data, t->n_byte) != 0);
        EXPECT(!bare->tensor.v[i].data);
        EXPECT_BITS(checkpoint_bytes(bare, i, at, n, part), t->data + at, n);
    }
    NEED_OK(checkpoint_outline(bare, &e), &e);
    for (int i = 0; i < checkpoint_n_tensor(a); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(a, i);
        const bool layer = strncmp(t->name, "blk.", 4) == 0;
        const uint8_t *got = bare->tensor.v[i].data, zeros[64] = {0};
        NEED(got && t->n_byte >= sizeof zeros);
        if (t->n_dim == 1)
            EXPECT_BITS(got, t->data, t->n_byte);
        else
            EXPECT_BITS(got, layer ? zeros : t->data, sizeof zeros);
        if (t->n_dim > 1) EXPECT_BITS(got + t->n_byte - sizeof zeros, zeros, sizeof zeros);
        /* a file that is written from an outline has all bytes */
        uint8_t end[sizeof zeros];
        EXPECT_BITS(checkpoint_bytes(bare, i, t->n_byte - sizeof end, sizeof end, end),
                    t->data + t->n_byte - sizeof end, sizeof end);
    }
    const struct tensor_info *q = checkpoint_tensor(a, "blk.0.attn_q.weight"),
                             *o2 = checkpoint_tensor(a, "blk.0.attn_output.weight");
    EXPECT(q->n_byte == o2->n_byte && memcmp(q->data, o2->data, q->n_byte) != 0);
    checkpoint_close(a), checkpoint_close(b), checkpoint_close(other), checkpoint_close(bare);
}

static enum qtype type_of(const struct checkpoint *c, const char *fmt, int il)
{
    char name[64];
    snprintf(name, sizeof name, fmt, il); /* check: fmt is a literal of this file */
    const struct tensor_info *t = checkpoint_tensor(c, name);
    return t ? t->type : QT_COUNT;
}

/* Return a bit set of the layers whose tensor has the type. There are at most 64 layers. */
static uint64_t layers_of_type(const struct checkpoint *c, const char *fmt, enum qtype type)
{
    uint64_t set = 0;
    for (int il = 0; il < 64; il++) set |= (uint64_t)(type_of(c, fmt, il) == type) << il;
    return set;
}

TEST(quant_mixes_give_each_tensor_its_type)
{
    /* Goal: quant mixes equal those of llama.cpp's quantizer. Method: compare with the lists of
     * layers that the quantizer prints for these shapes. */
    struct err e;
    struct dummy_options o = {.shape = "llama-1b", .quant = "q4_k_m", .no_data = true};
    struct checkpoint *c = open_dummy(&o, &e);
    NEED(c);
    uint64_t more = 1 << 0 | 1 << 1 | 1 << 4 | 1 << 7 | 1 << 10 | 1 << 13 | 1 << 14 | 1 << 15;
    EXPECT_INT(layers_of_type(c, "blk.%d.attn_v.weight", QT_q6_k), more);
    EXPECT_INT(layers_of_type(c, "blk.%d.ffn_down.weight", QT_q6_k), more);
    EXPECT_INT(layers_of_type(c, "blk.%d.ffn_down.weight", QT_q4_k), 0xFFFF ^ more);
    EXPECT_INT(layers_of_type(c, "blk.%d.attn_output.weight", QT_q4_k), 0xFFFF);
    EXPECT(type_of(c, "token_embd.weight", 0) == QT_q6_k); /* tied: the embedding is the head */
    EXPECT(type_of(c, "blk.0.attn_norm.weight", 0) == QT_f32);
    EXPECT_INT(meta_int(checkpoint_meta(c, "general.file_type"), -1), 15);
    checkpoint_close(c);

    o.shape = "llama-8b", o.quant = "Q3_K_M";
    NEED((c = open_dummy(&o, &e)) != NULL);
    EXPECT_INT(layers_of_type(c, "blk.%d.attn_v.weight", QT_q5_k), 3);
    EXPECT_INT(layers_of_type(c, "blk.%d.ffn_down.weight", QT_q5_k), 3);
    EXPECT_INT(layers_of_type(c, "blk.%d.ffn_down.weight", QT_q4_k), 0xFFFFFFFC);
    EXPECT_INT(layers_of_type(c, "blk.%d.attn_q.weight", QT_q3_k), 0xFFFFFFFF);
    EXPECT(type_of(c, "token_embd.weight", 0) == QT_q3_k);
    EXPECT(type_of(c, "output.weight", 0) == QT_q6_k);
    checkpoint_close(c);

    /* rows of 896 are not a multiple of 256 */
    o.shape = "qwen2.5-0.5b", o.quant = "Q4_K_M";
    NEED((c = open_dummy(&o, &e)) != NULL);
    EXPECT_INT(layers_of_type(c, "blk.%d.attn_q.weight", QT_q5_0), 0xFFFFFF);
    EXPECT(type_of(c, "blk.0.attn_v.weight", 0) == QT_q8_0);
    EXPECT(type_of(c, "blk.0.ffn_down.weight", 0) == QT_q6_k);
    EXPECT(type_of(c, "token_embd.weight", 0) == QT_q8_0);
    EXPECT(type_of(c, "blk.0.attn_q.bias", 0) == QT_f32);
    checkpoint_close(c);

    o.shape = "llama-1b", o.quant = "Q8_0";
    NEED((c = open_dummy(&o, &e)) != NULL);
    EXPECT(type_of(c, "token_embd.weight", 0) == QT_q8_0);
    checkpoint_close(c);
    o.quant = "F16";
    NEED((c = open_dummy(&o, &e)) != NULL);
    EXPECT(type_of(c, "token_embd.weight", 0) == QT_f16);
    checkpoint_close(c);
}

static void expect_refused(const struct dummy_options *o, const char *word)
{
    struct err e;
    struct checkpoint *c = open_dummy(o, &e);
    if (c || !strstr(e.text, word)) test_fail(__FILE__, __LINE__, "\"%s\" lacks %s", e.text, word);
    checkpoint_close(c);
}

TEST(dummy_of_a_gguf_has_its_tensors_and_keys)
{
    const char *path = repo_path("tests/golden/qwen2/model.gguf");
    if (!path) SKIP("tests/golden is not here");
    struct err e;
    struct checkpoint *g, *c;
    NEED_OK(checkpoint_open(&g, path, &e), &e);
    struct dummy_options o = {.model = path};
    NEED((c = open_dummy(&o, &e)) != NULL);
    EXPECT_INT(checkpoint_n_tensor(c), checkpoint_n_tensor(g));
    for (int i = 0; i < checkpoint_n_tensor(g); i++) {
        const struct tensor_info *want = checkpoint_tensor_at(g, i), *got;
        NEED((got = checkpoint_tensor(c, want->name)) != NULL);
        EXPECT(got->type == want->type && got->n_byte == want->n_byte && got->data != want->data);
        EXPECT_BITS(got->dim, want->dim, sizeof got->dim);
    }
    for (int i = 0; i < checkpoint_n_meta(g); i++) {
        const char *key;
        checkpoint_meta_at(g, i, &key);
        EXPECT(checkpoint_meta(c, key));
    }
    checkpoint_close(c);
    o.quant = "Q8_0";
    NEED((c = open_dummy(&o, &e)) != NULL);
    EXPECT(checkpoint_tensor(c, "blk.0.ffn_up.weight")->type == QT_q8_0);
    checkpoint_close(c);
    checkpoint_close(g);
}

TEST(dummies_that_cannot_be_are_refused_by_name)
{
    expect_refused(&(struct dummy_options){.shape = "llama-9b"}, "llama-8b");
    expect_refused(&(struct dummy_options){.shape = "tiny", .quant = "Q4_K_X"}, "Q4_K_M");
    expect_refused(&(struct dummy_options){.model = "/nonexistent"}, "/nonexistent");
}
