/* Goal: a constraint allows exactly the tokens that continue its grammar, after any forks, accepted and
 * reverted tokens. Method: random walks with the bundled model's tokenizer. Before each step every token
 * of the vocabulary is tried; the text of the walk is checked by a second grammar, byte by byte. */
#include "session.h"
#include "../../tests/unit.h"

#include "base/rng.h"

#include <stdlib.h>

static const struct sample {
    const char *name;
    enum grammar_kind kind;
    const char *text;
} samples[] = {
    {"schema", GRAMMAR_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":9},\"age\":{"
     "\"type\":\"integer\",\"minimum\":0,"
     "\"maximum\":150},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"bc\",null]},"
     "\"maxItems\":3}},\"required\":[\"name\"],"
     "\"additionalProperties\":false}"},
    {"object", GRAMMAR_OBJECT, ""},
    {"regex", GRAMMAR_REGEX, " ?[A-Z][a-zé]{0,12} is (one|two|[0-9]+)\\."},
    {"choice", GRAMMAR_CHOICE, "[\"yes\",\"yes, but\",\"no\"]"},
    {"gbnf", GRAMMAR_GBNF, "root ::= \"(\" item* \")\"\nitem ::= root | [a-c]+ \", \""},
    {"ending token", GRAMMAR_GBNF, "root ::= \"a\"+ <|im_end|>"},
};
enum { N_SAMPLE = sizeof samples / sizeof *samples, STEPS = 80 };

static struct rig {
    struct tokenizer *t;
    struct words *w;
    int n_vocab;
    uint32_t *mask, *other; /* owned */
    uint64_t rng;
} rig;

/* n_more: tokens of the model beyond the tokenizer's vocabulary; may be negative. */
static bool rig_open(int n_more)
{
    struct err e = {0};
    rig = (struct rig){0};
    int rc =
        tokenizer_open_file(&rig.t, repo_path("models/quoth-tiny/quoth-tiny-q8_0.gguf"), NULL, &e);
    if (rc == 0) rig.n_vocab = tokenizer_n_vocab(rig.t) + n_more;
    if (rc == 0) rc = words_open(&rig.w, rig.t, rig.n_vocab, &e);
    rig.mask = calloc((size_t)rig.n_vocab / 32 + 1, sizeof *rig.mask);
    rig.other = calloc((size_t)rig.n_vocab / 32 + 1, sizeof *rig.other);
    rig.rng = 1;
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return rc == 0 && rig.mask && rig.other;
}

static void rig_close(void)
{
    free(rig.mask);
    free(rig.other);
    words_close(rig.w);
    tokenizer_close(rig.t);
}

static struct constraint *open_sample(const struct sample *s, struct grammar_limits limits)
{
    struct constraint *c;
    struct err e = {0};
    struct grammar_options o = {.limits = limits};
    if (held_open(&c, rig.w, s->kind, s->text, strlen(s->text), &o, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", s->name, e.text);
    return c;
}

static bool bit(const uint32_t *mask, int id)
{
    return mask[id / 32] >> id % 32 & 1;
}

static size_t mask_bytes(void)
{
    return ((size_t)rig.n_vocab + 31) / 32 * sizeof *rig.mask;
}

/* Return a token of the mask, or -1. Larger `end` makes a token that ends the text more likely. */
static int32_t pick(const uint32_t *mask, unsigned end)
{
    int n = 0;
    int32_t found = -1;
    for (int id = 0; id < rig.n_vocab; id++) {
        bool eog = id < tokenizer_n_vocab(rig.t) && tokenizer_is_eog(rig.t, id);
        if (!bit(mask, id)) continue;
        if (eog && rng_next(&rig.rng) % 100 < end) return id;
        if (!eog && rng_next(&rig.rng) % (unsigned)++n == 0) found = id;
    }
    return found;
}

/* Check that mask and accept agree for each token, and that reverting it changes nothing. */
static void offer_all(struct constraint *c, const char *name)
{
    for (int id = 0; id < rig.n_vocab; id++) {
        bool eog = id < tokenizer_n_vocab(rig.t) && tokenizer_is_eog(rig.t, id);
        bool taken = c->op->accept(c, id);
        if (taken) c->op->rollback(c, 1);
        if (taken != bit(rig.mask, id) && !eog) {
            test_fail(__FILE__, __LINE__, "%s: token %d: mask %d, accept %d", name, id,
                      bit(rig.mask, id), taken);
            return;
        }
    }
    EXPECT(c->op->mask(c, rig.other) && memcmp(rig.mask, rig.other, mask_bytes()) == 0);
}

/* Check a whole text by a grammar without tokens. */
static bool matches(const struct sample *s, const struct buf *text, bool *ends)
{
    struct grammar *g;
    struct grammar_options o = {0};
    struct err e = {0};
    if (strcmp(s->name, "ending token") == 0)
        return *ends = text->n > 0, !text->n || strspn(text->data, "a") == text->n;
    if (grammar_open(&g, s->kind, s->text, strlen(s->text), &o, &e) != 0) return false;
    uint32_t state =
        grammar_accept(g, grammar_begin(g), text->data ? text->data : "", text->n, NULL);
    *ends = grammar_ends(g, state);
    grammar_close(g);
    return state != GRAMMAR_DEAD;
}

static bool may_end(const uint32_t *mask)
{
    bool some = false, all = true;
    for (int id = 0; id < tokenizer_n_vocab(rig.t) && id < rig.n_vocab; id++)
        if (tokenizer_is_eog(rig.t, id)) some |= bit(mask, id), all &= bit(mask, id);
    return some && all;
}

/* Walk until the text ends; in every second step tokens are reverted, or a fork is made and
 * continued. */
static void walk(const struct sample *s)
{
    struct constraint *first = open_sample(s, (struct grammar_limits){0}),
                      *c = first ? first->op->fork(first) : NULL;
    struct buf text = {0};
    bool ends = false;
    NEED(c);
    first->op->close(first); /* the fork does not need it */
    for (int i = 0; i < STEPS; i++) {
        NEED(c->op->mask(c, rig.mask));
        if (i < 4 || i % 16 == 0) offer_all(c, s->name);
        EXPECT(matches(s, &text, &ends));
        EXPECT(strcmp(s->name, "ending token") == 0
                   ? bit(rig.mask, tokenizer_find(rig.t, "<|im_end|>", 10)) == ends
                   : may_end(rig.mask) == ends);
        int32_t id = pick(rig.mask, 30);
        EXPECT(id >= 0 || ends);
        if (id < 0 || tokenizer_is_eog(rig.t, id)) break;
        struct constraint *fork = c->op->fork(c);
        NEED(fork && fork->op->accept(fork, id));
        c->op->follow(c, fork);
        fork->op->close(fork);
        size_t n;
        const char *bytes = tokenizer_bytes(rig.t, id, &n);
        buf_add(&text, bytes, n);
    }
    c->op->close(c);
    buf_deinit(&text);
}

TEST(held_masks_are_what_the_grammar_goes_on_with)
{
    static const int n_more[] = {0, 77, -1};
    for (int k = 0; k < 3; k++) {
        if (!rig_open(n_more[k])) return;
        for (int i = 0; i < N_SAMPLE; i++)
            for (int again = 0; again < (test_long() ? 20 : 2); again++) walk(&samples[i]);
        rig_close();
    }
}

/* Up to the number of tokens that a constraint must keep can be reverted: one, some and all. */
TEST(held_takes_tokens_back)
{
    if (!rig_open(0)) return;
    struct constraint *c = open_sample(&samples[1], (struct grammar_limits){0});
    enum { N = 100 };
    size_t n_byte = mask_bytes();
    uint32_t *seen = malloc((N + 1) * n_byte);
    int n = 0, kept = 0, n_back = 0;
    for (int round = 0; round < 400 && c && seen; round++) {
        NEED(c->op->mask(c, rig.mask));
        uint32_t *here = (uint32_t *)(void *)((char *)seen + (size_t)n * n_byte);
        memcpy(here, rig.mask, n_byte);
        int32_t id = pick(rig.mask, 0);
        if (id < 0 || n == N || rng_next(&rig.rng) % 4 == 0) {
            int back = kept ? 1 + (int)(rng_next(&rig.rng) % (unsigned)kept) : 0;
            if (id < 0 && back == 0) break;
            c->op->rollback(c, back);
            n -= back, kept -= back, n_back += back > 8;
            NEED(c->op->mask(c, rig.mask));
            EXPECT(memcmp(rig.mask, (char *)seen + (size_t)n * n_byte, n_byte) == 0);
        } else {
            NEED(c->op->accept(c, id));
            n++;
            if (kept < CONSTRAINT_BACK_MAX) kept++;
        }
    }
    EXPECT(n_back > 0);
    if (c) c->op->close(c);
    free(seen);
    rig_close();
}

/* A grammar that exceeds its memory, because each token makes new states: its masks fail from then
 * on. */
TEST(held_fails_for_good)
{
    if (!rig_open(0)) return;
    struct err e = {0};
    const struct sample grows = {"grows", GRAMMAR_REGEX, "([ab]*a[ab]{99}|[ab]*b[ab]{98})+c"};
    struct constraint *c = open_sample(&grows, (struct grammar_limits){.n_byte_max = 300000}),
                      *fork = c ? c->op->fork(c) : NULL;
    int n = 0;
    NEED(fork);
    for (; n < 3000 && c->op->mask(c, rig.mask); n++) {
        int32_t id = pick(rig.mask, 0);
        if (id < 0 || !c->op->accept(c, id)) break;
    }
    EXPECT(n < 3000 && !c->op->mask(c, rig.mask) && !c->op->accept(c, 5));
    EXPECT(!fork->op->mask(fork, rig.mask)); /* they share the failure */
    c->op->close(c);
    fork->op->close(fork);
    struct grammar_options o = {.limits = {.n_text_max = 3}};
    EXPECT(held_open(&c, rig.w, GRAMMAR_REGEX, "abcd", 4, &o, &e) == ERR_LIMIT && !c);
    rig_close();
}

/* Follow a constraint to its end. Count the tokens that were forced; each must be the only one of its mask,
 * and those forced in one call the same as those forced one by one. */
static void follow_forced(struct constraint *c, struct buf *text, int *n_forced)
{
    int32_t forced[64], one;
    int n_bit = 0;
    for (int i = 0; i < STEPS; i++) {
        int n = c->op->forced(c, forced, 64);
        for (int k = 0; k < n; k++) {
            NEED(c->op->mask(c, rig.mask) && c->op->forced(c, &one, 1) == 1);
            n_bit = 0;
            for (int id = 0; id < rig.n_vocab; id++) n_bit += bit(rig.mask, id);
            EXPECT(n_bit == 1 && bit(rig.mask, forced[k]) && one == forced[k]);
            for (int id = 0; id < rig.n_vocab; id += 7)
                EXPECT(id == forced[k] || !c->op->accept(c, id));
            NEED(c->op->accept(c, forced[k]));
            size_t n_byte;
            const char *bytes = tokenizer_bytes(rig.t, forced[k], &n_byte);
            buf_add(text, bytes, n_byte);
        }
        *n_forced += n;
        NEED(c->op->mask(c, rig.mask));
        int32_t id = pick(rig.mask, 100);
        if (id < 0 || tokenizer_is_eog(rig.t, id)) break;
        NEED(c->op->accept(c, id));
        size_t n_byte;
        const char *bytes = tokenizer_bytes(rig.t, id, &n_byte);
        buf_add(text, bytes, n_byte);
    }
}

TEST(held_forces_the_tokenizers_own_tokens)
{
    static const struct sample s = {
        "forced", GRAMMAR_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"a little girl named\":{\"type\":\"boolean\"},"
        "\"once upon a time there\":{\"enum\":[\"in the forest there was a cat\"]}},"
        "\"required\":[\"a little girl named\",\"once upon a time there\"],"
        "\"additionalProperties\":false}"};
    for (int n_more = 0; n_more <= 77; n_more += 77) {
        if (!rig_open(n_more)) return;
        struct constraint *c;
        struct buf text = {0};
        struct err e = {0};
        struct grammar_options o = {.no_white_space = true};
        NEED_OK(held_open(&c, rig.w, s.kind, s.text, strlen(s.text), &o, &e), &e);
        struct constraint *fork = c->op->fork(c), *any = c->op->fork(c);
        NEED(fork && any);
        int n = 0;
        bool ends;
        follow_forced(fork, &text, &n);
        EXPECT(matches(&s, &text, &ends) && ends);
        test_note("%d tokens forced of a text of %zu bytes", n, text.n);
        EXPECT(n >= 15);
        /* a request that forbids tokens may need another spelling */
        int32_t first;
        any->any_spelling = true;
        EXPECT_INT(any->op->forced(any, &first, 1), 0);
        buf_deinit(&text);
        c->op->close(c);
        fork->op->close(fork);
        any->op->close(any);
        rig_close();
    }
}

/* Numbers end if the schema leaves a choice; if it leaves none, they are as required. Names and constants
 * have one spelling, other strings any. */
TEST(held_json_is_plain)
{
    static const struct {
        const char *schema, *text;
        bool may;
    } c[] = {
        {"{\"type\":\"integer\"}", "42", true},
        {"{\"type\":\"integer\"}", "42.0", false},
        {"{\"type\":\"integer\"}", "12345678901234567890", false},
        {"{\"type\":\"number\"}", "1.50", true},
        {"{\"type\":\"number\"}", "1.000000000000000000", false},
        {"{\"type\":\"number\"}", "6.02e+23", true},
        {"{\"minimum\":0.5,\"maximum\":0.75}", "0.60", true},
        {"{\"minimum\":0.5,\"maximum\":0.75}", "0.4", false},
        {"{\"not\":{\"type\":\"integer\"}}", "1.5", true},
        {"{\"not\":{\"type\":\"integer\"}}", "1.0", false},
        {"{\"const\":1000000000000000000000}", "1000000000000000000000", true},
        {"{\"multipleOf\":0.25}", "0.5", true},
        {"{\"const\":\"a/b\"}", "\"a/b\"", true},
        {"{\"const\":\"a/b\"}", "\"a\\/b\"", false},
        {"{\"const\":\"a/b\"}", "\"\\u0061/b\"", false},
        {"{\"const\":\"\\\"\\\\ \\n\\u0001\"}", "\"\\\"\\\\ \\n\\u0001\"", true},
        {"{\"type\":\"string\",\"enum\":[\"\",\"\u00e9\",\"kind\",\"kin\",1]}", "\"\u00e9\"", true},
        {"{\"type\":\"string\",\"enum\":[\"\",\"\u00e9\",\"kind\",\"kin\",1]}", "\"\"", true},
        {"{\"type\":\"string\",\"enum\":[\"\",\"\u00e9\",\"kind\",\"kin\",1]}", "\"kin\"", true},
        {"{\"type\":\"string\",\"enum\":[\"\",\"\u00e9\",\"kind\",\"kin\",1]}", "\"\\u006bin\"",
         false},
        {"{\"type\":\"string\"}", "\"\\u006bind\"", true},
        {"{\"properties\":{\"k\":{}},\"type\":\"object\",\"additionalProperties\":false}",
         "{\"k\":1}", true},
        {"{\"properties\":{\"k\":{}},\"type\":\"object\",\"additionalProperties\":false}",
         "{\"\\u006b\":1}", false},
        {"{\"properties\":{\"k\":{}},\"type\":\"object\"}", "{\"\\u006b\":1}", true},
        {"{\"properties\":{\"k\":{}},\"type\":\"object\",\"required\":[\"k\"]}", "{\"\\u006b\":1}",
         false},
        {"{\"properties\":{\"k\":{}},\"type\":\"object\",\"required\":[\"k\"]}",
         "{\"k\":1,\"k\\u0061\":1}", true},
        {"{\"properties\":{\"k\":{}},\"type\":\"object\"}", "{\"\\u006c\":1}", true},
        {"{\"properties\":{\"k\":{}},\"type\":\"object\"}", "{\"ka\":1}", true}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct grammar *g;
        struct err e = {0};
        struct grammar_options o = {.plain = true};
        if (grammar_open(&g, GRAMMAR_SCHEMA, c[i].schema, strlen(c[i].schema), &o, &e) != 0) {
            test_fail(__FILE__, __LINE__, "%s: %s", c[i].schema, e.text);
            continue;
        }
        bool may = grammar_ends(
            g, grammar_accept(g, grammar_begin(g), c[i].text, strlen(c[i].text), NULL));
        if (may != c[i].may) test_fail(__FILE__, __LINE__, "%s: %s", c[i].schema, c[i].text);
        grammar_close(g);
    }
}

TEST(held_refuses_with_the_place)
{
    if (!rig_open(0)) return;
    struct err e = {0};
    struct constraint *c;
    struct grammar_options o = {0};
    static const char bad[] = "{\"properties\":{\"a\":{\"type\":\"strin\"}}}";
    EXPECT(held_open(&c, rig.w, GRAMMAR_SCHEMA, bad, sizeof bad - 1, &o, &e) == ERR_FORMAT && !c &&
           strstr(e.text, "properties/a"));
    rig_close();
}
