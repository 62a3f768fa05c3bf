/* Goal: a grammar compiled with a failing allocation allows the usual tokens, or its compilation
 * fails. Its masks and states are as usual, or fail. Method: use a constraint of each kind and the
 * tokens of the bundled model. Each allocation of a random sample fails, alone and with all later
 * ones. The sample is from the vocabulary, from compilation and from a walk through one text.
 * QUOTH_LONG=1: each allocation fails once. */
#include "../alloc.h"
#include "../unit.h"

#include "../../src/base/hash.h"
#include "../../src/base/json.h"
#include "../../src/base/rng.h"
#include "../../src/session/session.h"

#include <stdlib.h>

static const struct sample {
    const char *name;
    enum grammar_kind kind;
    const char *text, *walk; /* walk: a text that the constraint allows */
} samples[] = {
    {"schema", GRAMMAR_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":9},"
     "\"mail\":{\"type\":\"string\",\"format\":\"email\"},\"code\":{\"type\":\"string\","
     "\"pattern\":"
     "\"^[A-F]{2}-[0-9]+$\"},\"n\":{\"type\":\"number\",\"multipleOf\":0.5,\"minimum\":-2},"
     "\"tags\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"enum\":[\"a\",5,null]},"
     "{\"$ref\":\"#\"}]},\"maxItems\":3}},\"required\":[\"name\"],\"additionalProperties\":false}",
     "{\"name\": \"Ann\", \"mail\": \"a@b.cd\", \"code\": \"AF-12\", \"n\": 1.5, \"tags\": [5, "
     "{\"name\": \"\"}]}"},
    {"object", GRAMMAR_OBJECT, "", "{\"a b\": [1, true, {\"c\": null}], \"d\": -2.5e3}"},
    {"regex", GRAMMAR_REGEX, " ?[A-Z][a-z\xC3\xA9]{0,12} is (one|two|[0-9]+)\\.",
     "Ren\xC3\xA9 is 42."},
    {"choice", GRAMMAR_CHOICE, "[\"yes\",\"yes, but\",\"no\"]", "yes, but"},
    {"gbnf", GRAMMAR_GBNF, "root ::= \"(\" item* \")\"\nitem ::= root | [a-c]+ \", \"",
     "((ab, c, )a, )"},
    {"lark", GRAMMAR_LARK,
     "start: WORD (\",\" WORD)* end\nend: \".\" | \"(\" start \")\"\nWORD: /[a-z]+/\n",
     "once,upon(a,time.)"},
    {"tag", GRAMMAR_TAG,
     "{\"type\":\"structural_tag\",\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\"<f\"],"
     "\"tags\":[{\"begin\":\"<f>\",\"content\":{\"type\":\"json_schema\",\"json_schema\":{\"type\":"
     "\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}},\"end\":"
     "\"</f>\"}]}}",
     "so <f>{\"a\": 1}</f> it is"},
};
enum { N_SAMPLE = sizeof samples / sizeof *samples };

static struct tokenizer *tok;

/* A hash of all masks of a grammar along a walk. */
struct digest {
    uint64_t hash;
    bool ends;
};

static int walk(struct grammar *g, const struct ids *ids, uint64_t *mask, struct digest *out,
                struct err *e)
{
    size_t n_byte = ((size_t)tokenizer_n_vocab(tok) + 63) / 64 * sizeof *mask;
    uint32_t state = grammar_begin(g);
    *out = (struct digest){0};
    for (size_t i = 0; grammar_failure(g, e) == 0 && i <= ids->n; i++) {
        const int32_t *forced;
        if (!grammar_mask(g, state, mask)) break;
        int n = grammar_forced_tokens(g, state, &forced, e);
        if (n < 0) return n;
        out->hash = hash_bytes(mask, n_byte, out->hash);
        if (n > 0) out->hash = hash_bytes(forced, (size_t)n * sizeof *forced, out->hash);
        if (i < ids->n) state = grammar_accept_token(g, state, ids->v[i]);
    }
    out->ends = grammar_ends(g, state);
    return grammar_failure(g, e);
}

static int compile_and_walk(const struct sample *s, const struct ids *ids, uint64_t *mask,
                            struct digest *out, struct err *e)
{
    struct grammar_options o = {.plain = true};
    struct grammar_vocab *vocab = grammar_vocab_open(tok);
    struct grammar *g = NULL;
    *out = (struct digest){0};
    if (!vocab) return err_memory(e, "a vocabulary", 0);
    o.vocab = vocab;
    int rc = grammar_open(&g, s->kind, s->text, strlen(s->text), &o, e);
    if (rc == 0) rc = walk(g, ids, mask, out, e);
    grammar_close(g);
    grammar_vocab_close(vocab);
    return rc;
}

static void sweep(const struct sample *s, uint64_t count, const char *how, uint64_t *rng)
{
    size_t n_mask = (size_t)tokenizer_n_vocab(tok) / 64 + 1;
    uint64_t *mask = calloc(n_mask, sizeof *mask);
    struct digest want, got;
    struct ids ids = {0};
    struct err e = {0};
    NEED(mask);
    NEED_OK(tokenizer_encode(tok, s->walk, strlen(s->walk), 0, &ids, &e), &e);
    NEED_OK(compile_and_walk(s, &ids, mask, &want, &e), &e);
    if (!want.ends) test_fail(__FILE__, __LINE__, "%s: the text does not end it", s->name);
    int n_same = 0, n_error = 0;
    bool hit = true;
    uint64_t n_alloc = 0;
    for (uint64_t n = test_stride(rng, 30) - 1; hit; n += test_stride(rng, 30)) {
        alloc_fail(n, count);
        int rc = compile_and_walk(s, &ids, mask, &got, &e);
        n_alloc = alloc_fail_end();
        hit = n_alloc > n;
        n_error += rc != 0;
        n_same += rc == 0;
        if (rc == 0 ? got.hash != want.hash || got.ends != want.ends : rc != ERR_MEMORY)
            test_fail(__FILE__, __LINE__, "%s, %s %llu: code %d: %s", s->name, how,
                      (unsigned long long)n, rc, rc ? e.text : "another mask");
    }
    test_note("%s, %s: %d the same, %d errors", s->name, how, n_same, n_error);
    test_sampled(n_same + n_error, (int64_t)n_alloc, "allocations");
    vec_deinit(&ids);
    free(mask);
}

TEST(memory_of_grammars)
{
    struct err e = {0};
    NEED_OK(
        tokenizer_open_file(&tok, repo_path("models/quoth-tiny/quoth-tiny-q8_0.gguf"), NULL, &e),
        &e);
    uint64_t rng = 1;
    for (int i = 0; i < N_SAMPLE; i++) {
        sweep(&samples[i], 1, "one", &rng);
        sweep(&samples[i], ALLOC_ALL, "all from", &rng);
    }
    tokenizer_close(tok);
}
