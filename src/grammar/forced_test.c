/* Goal: a forced span is the only possible continuation. The tokenizer makes the same tokens of the
 * span with any following text. Method: cut spans from a real text, and force each span by a choice
 * of two strings. Append the following text and other continuations. Use the tokenizers in
 * ../shared/data. The other tests use the tokenizer of the bundled model. */
#include "grammar_in.h"
#include "base/json.h"
#include "base/rng.h"
#include "../../tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct grammar *open_grammar(enum grammar_kind kind, const char *text, size_t n,
                                    const struct grammar_vocab *v)
{
    struct grammar *g = NULL;
    struct err e = {0};
    if (grammar_open(&g, kind, text, n, &(struct grammar_options){.vocab = v}, &e))
        test_fail(__FILE__, __LINE__, "%s", e.text);
    return g;
}

/* Return a grammar that forces s[0, n): a choice of two strings that differ in the next
 * character. */
static struct grammar *forcing(const char *s, size_t n, const struct grammar_vocab *v)
{
    struct buf list = {0}, one = {0};
    buf_add_char(&list, '[');
    for (int i = 0; i < 2; i++) {
        buf_clear(&one);
        buf_add(&one, s, n);
        buf_add_char(&one, i ? '\x01' : '\x02');
        json_put_text(&list, one.data, one.n);
        buf_add_char(&list, i ? ']' : ',');
    }
    struct grammar *g = open_grammar(GRAMMAR_CHOICE, list.data, list.n, v);
    buf_deinit(&one);
    buf_deinit(&list);
    return g;
}

/* Check that the tokens of s[0, n) and a continuation begin with `ids`. */
static void check_prefix(const struct tokenizer *t, const struct ids *ids, const char *s, size_t n,
                         const char *more, size_t n_more)
{
    struct buf b = {0};
    struct ids all = {0};
    struct err e = {0};
    buf_add(&b, s, n);
    buf_add(&b, more, n_more);
    NEED_OK(tokenizer_encode(t, b.data, b.n, ENCODE_CONTINUE, &all, &e), &e);
    for (size_t i = 0; i < ids->n; i++)
        if (i >= all.n || all.v[i] != ids->v[i]) {
            test_fail(__FILE__, __LINE__, "token %zu of \"%.*s\" + \"%.*s\"", i, (int)n, s,
                      (int)n_more, more);
            break;
        }
    vec_deinit(&all);
    buf_deinit(&b);
}

/* Check n_span random spans of a text with one tokenizer. More than half of their tokens must be
 * forced. */
static void check_tokenizer(const char *path, const char *text, size_t n_text, int n_span)
{
    static const char *const more[] = {" ",        "  x", "\n\n", "'s", "ing", "1", "23",
                                       "\xc3\xa9", "\"}", ".",    "s ", "A",   "\t"};
    struct tokenizer *t = NULL;
    struct err e = {0};
    const char *full = data_path(path);
    if (!full || tokenizer_open_file(&t, full, NULL, &e) != 0) {
        test_skip("no tokenizer");
        return;
    }
    struct grammar_vocab *v = grammar_vocab_open(t);
    NEED(v);
    size_t n_token = 0, n_settled = 0;
    uint64_t rng = 7;
    for (int i = 0; i < n_span; i++) {
        size_t at = rng_below(&rng, n_text - 200), n = 1 + rng_below(&rng, 60);
        while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80) at--;
        while (((uint8_t)text[at + n] & 0xc0) == 0x80) n++;
        struct ids ids = {0}, plain = {0};
        struct grammar *g = forcing(text + at, n, v);
        const int32_t *token;
        int n_forced = grammar_forced_tokens(g, grammar_begin(g), &token, &e);
        /* the tokens are cached */
        EXPECT_INT(grammar_forced_tokens(g, grammar_begin(g), &token, &e), n_forced);
        NEED(n_forced >= 0);
        for (int k = 0; k < n_forced; k++) vec_push(&ids, token[k]);
        NEED_OK(tokenizer_encode(t, text + at, n, ENCODE_CONTINUE, &plain, &e), &e);
        check_prefix(t, &ids, text + at, n, text + at + n, 60);
        for (size_t k = 0; k < sizeof more / sizeof *more; k++)
            check_prefix(t, &ids, text + at, n, more[k], strlen(more[k]));
        n_token += plain.n, n_settled += ids.n;
        vec_deinit(&ids);
        vec_deinit(&plain);
        grammar_close(g);
    }
    test_note("%s: %zu of %zu tokens of forced spans", path, n_settled, n_token);
    EXPECT(n_settled * 2 > n_token);
    grammar_vocab_close(v);
    tokenizer_close(t);
}

TEST(forced_tokens_are_the_tokenizers_own)
{
    static const char *const path[] = {"tokenizers/tiktoken/o200k_base.tiktoken",
                                       "tokenizers/tiktoken/cl100k_base.tiktoken",
                                       "tokenizers/llama3/tokenizer.model",
                                       "tokenizers/hf/llama2/tokenizer.json",
                                       "tokenizers/hf/phi-3-mini/tokenizer.json",
                                       "tokenizers/llama.cpp-vocab/ggml-vocab-llama-spm.gguf",
                                       "tokenizers/llama.cpp-vocab/ggml-vocab-gpt-2.gguf",
                                       "tokenizers/llama.cpp-vocab/ggml-vocab-deepseek-coder.gguf",
                                       "tokenizers/rwkv/rwkv_vocab_v20230424.txt"};
    const char *book = data_path("text/tinyshakespeare.txt");
    FILE *f = book ? fopen(book, "r") : NULL;
    char *text = malloc(200000);
    size_t n = f ? fread(text, 1, 200000, f) : 0;
    if (f) fclose(f);
    if (n < 1000)
        test_skip("no text");
    else
        for (size_t i = 0; i < sizeof path / sizeof *path; i += test_long() ? 1 : 2)
            if (data_path(path[i])) check_tokenizer(path[i], text, n, test_long() ? 3000 : 60);
    free(text);
}

static struct tokenizer *bundled(void)
{
    struct tokenizer *t = NULL;
    struct err e = {0};
    if (tokenizer_open_file(&t, "models/quoth-tiny/quoth-tiny-q8_0.gguf", NULL, &e))
        test_fail(__FILE__, __LINE__, "%s", e.text);
    return t;
}

TEST(forced_bytes_are_the_only_continuation)
{
    static const struct {
        const char *regex, *forced;
    } c[] = {{"abc(d|e)f", "abc"},
             {"abc?", "ab"},
             {"", ""},
             {"[ab]c", ""},
             {"\xc3\xa9[\xc3\xa9\xc3\xa8]", "\xc3\xa9\xc3"},
             {"(xy|xz)", "x"},
             {"abc", "abc"}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct grammar *g = open_grammar(GRAMMAR_REGEX, c[i].regex, strlen(c[i].regex), NULL);
        struct buf b = {0};
        uint32_t state = grammar_begin(g), end = grammar_forced(g, state, &b);
        EXPECT_INT(b.n, strlen(c[i].forced));
        EXPECT(b.n == 0 || memcmp(b.data, c[i].forced, b.n) == 0);
        EXPECT_INT(end, grammar_accept(g, state, c[i].forced, b.n, NULL));
        buf_deinit(&b);
        grammar_close(g);
    }
}

TEST(grammar_tokens_named_by_rules)
{
    struct tokenizer *t = bundled();
    struct grammar_vocab *v = grammar_vocab_open(t);
    int32_t end = tokenizer_eos(t);
    char text[100];
    NEED(v && end >= 0);
    int n = snprintf(text, sizeof text, "root ::= \"a\" <[%d]> !<[%d]>", end, end);
    struct grammar *g = open_grammar(GRAMMAR_GBNF, text, (size_t)n, v);
    uint64_t *mask = calloc((size_t)tokenizer_n_vocab(t) / 64 + 1, sizeof *mask);
    uint32_t state = grammar_accept(g, grammar_begin(g), "a", 1, NULL);
    NEED(mask && grammar_mask(g, state, mask));
    for (int32_t i = 0; i < tokenizer_n_vocab(t); i++)
        if ((mask[i >> 6] >> (i & 63) & 1) != (i == end))
            test_fail(__FILE__, __LINE__, "token %d", i);
    state = grammar_accept_token(g, state, end);
    NEED(state != GRAMMAR_DEAD && grammar_mask(g, state, mask));
    for (int32_t i = 0; i < tokenizer_n_vocab(t); i++)
        if ((mask[i >> 6] >> (i & 63) & 1) != (i != end))
            test_fail(__FILE__, __LINE__, "not token %d", i);
    EXPECT(!grammar_ends(g, state));
    EXPECT(grammar_ends(g, grammar_accept_token(g, state, tokenizer_bos(t) == end ? 5 : 7)));
    free(mask);
    grammar_close(g);
    grammar_vocab_close(v);
    tokenizer_close(t);
}

/* Goal: a grammar near any of its limits is not used for new texts. */
TEST(grammar_near_its_limits_is_worn)
{
    static const char text[] = "root ::= \"(\" root \")\" | \"x\"";
    struct grammar *g;
    struct err e = {0};
    NEED_OK(grammar_open(&g, GRAMMAR_GBNF, text, sizeof text - 1, &(struct grammar_options){0}, &e),
            &e);
    struct machine_limits l = g->m->limit;
    grammar_accept(g, grammar_begin(g), "((((((((", 8, NULL);
    EXPECT(!grammar_worn(g));
    g->m->limit.config_max = (uint32_t)g->m->config.n + 1;
    EXPECT(grammar_worn(g));
    g->m->limit = l;
    g->m->limit.stack_max = (uint32_t)g->m->cell.n + 1;
    EXPECT(grammar_worn(g));
    grammar_close(g);
}
