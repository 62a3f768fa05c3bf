/* Goal: a constraint allows exactly the tokens that continue its grammar, after any forks, accepted
 * and reverted tokens. Method: walk randomly with the bundled model's tokenizer. Every token of the
 * vocabulary is tried before each step. A second grammar checks the text of the walk byte by
 * byte. */
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
    struct constraint_vocab *w;
    int n_vocab;
    uint32_t *mask, *other; /* owned; two masks */
    uint64_t rng;
} rig;

/* Open the rig. n_more: number of the model's tokens beyond the tokenizer's vocabulary; may be
 * negative. */
static bool rig_open(int n_more)
{
    struct err e = {0};
    rig = (struct rig){0};
    int rc =
        tokenizer_open_file(&rig.t, repo_path("models/quoth-tiny/quoth-tiny-q8_0.gguf"), NULL, &e);
    if (rc == 0) rig.n_vocab = tokenizer_n_vocab(rig.t) + n_more;
    if (rc == 0) rc = constraint_vocab_open(&rig.w, rig.t, rig.n_vocab, &e);
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
    constraint_vocab_close(rig.w);
    tokenizer_close(rig.t);
}

static struct constraint *open_sample(const struct sample *s, struct grammar_limits limits)
{
    struct constraint *c;
    struct err e = {0};
    struct grammar_options o = {.limits = limits};
    if (grammar_constraint_open(&c, rig.w, 0, s->kind, s->text, strlen(s->text), &o, &e) != 0)
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

/* Return a token of the mask; -1 if the mask is empty. A larger `end` makes end tokens more
 * likely. */
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

/* Check for each token that mask and accept agree, and that reverting the token restores the
 * state. */
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

/* Return true if a grammar without a vocabulary accepts the text. Set *ends if the text is
 * complete. */
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

/* Walk until the text ends. Every second step reverts tokens, or makes a fork and continues with
 * it. */
static void walk(const struct sample *s)
{
    struct constraint *first = open_sample(s, (struct grammar_limits){0}),
                      *c = first ? first->op->fork(first) : NULL;
    struct buf text = {0};
    bool ends = false;
    NEED(c);
    first->op->close(first); /* the fork does not need the original */
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

TEST(constraint_masks_are_what_the_grammar_goes_on_with)
{
    static const int n_more[] = {0, 77, -1};
    for (int k = 0; k < 3; k++) {
        if (!rig_open(n_more[k])) return;
        for (int i = 0; i < N_SAMPLE; i++)
            for (int again = 0; again < (test_long() ? 20 : 2); again++) walk(&samples[i]);
        rig_close();
    }
}

enum { WALK_MAX = 60 };

/* Walk along token [*n] as the engine's steps do. Pick the tokens and set *n if *n is 0. Return the
 * number of allocations in all steps. */
static int64_t walk_malloc(struct constraint *c, int32_t token[WALK_MAX], int *n)
{
    const int n_max = *n ? *n : WALK_MAX;
    int32_t forced[8];
    int64_t work = INT64_MAX;
    uint64_t before = test_n_malloc();
    int i = 0;
    for (; i < n_max; i++) {
        if (c->op->mask_within(c, rig.mask, CONSTRAINT_STEP_WORK) != CONSTRAINT_MADE)
            EXPECT(c->op->mask(c, rig.mask));
        if (*n == 0) token[i] = pick(rig.mask, 30);
        if (token[i] < 0 || tokenizer_is_eog(rig.t, token[i])) break;
        c->op->forced(c, forced, 8, &work);
        EXPECT(c->op->accept(c, token[i]));
    }
    *n = i;
    return (int64_t)(test_n_malloc() - before);
}

/* Goal: a decode step allocates nothing if its grammar has visited the state before. The visit is
 * possibly in another sequence of the request, or in an earlier request with an equal constraint.
 * Only the first visit of a state may allocate, within the limits of the grammar. */
TEST(constraint_steps_that_repeat_allocate_nothing)
{
    if (!rig_open(0)) return;
    for (int i = 0; i < N_SAMPLE; i++) {
        struct constraint *first = open_sample(&samples[i], (struct grammar_limits){0});
        struct constraint *a = first ? first->op->fork(first) : NULL,
                          *b = first ? first->op->fork(first) : NULL;
        int32_t token[WALK_MAX];
        int n = 0;
        NEED(a && b);
        int64_t n_first = walk_malloc(a, token, &n), n_again = walk_malloc(b, token, &n);
        EXPECT(n > 0);
        EXPECT_INT(n_again, 0);
        test_note("%s: %lld allocations in %d tokens, then %lld", samples[i].name,
                  (long long)n_first, n, (long long)n_again);
        a->op->close(a);
        b->op->close(b);
        first->op->close(first);
    }
    rig_close();
}

/* Goal: CONSTRAINT_BACK_MAX tokens can be reverted: one, some and all of them. */
TEST(constraint_takes_tokens_back)
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

/* Goal: all masks of a grammar fail after it exceeds its memory. Each token of this grammar makes
 * new states. */
TEST(constraint_fails_for_good)
{
    if (!rig_open(0)) return;
    struct err e = {0};
    const struct sample grows = {"grows", GRAMMAR_REGEX, "([ab]*a[ab]{99}|[ab]*b[ab]{98})+c"};
    struct constraint *c = open_sample(&grows, (struct grammar_limits){.bytes_max = 300000}),
                      *fork = c ? c->op->fork(c) : NULL;
    int n = 0;
    NEED(fork);
    for (; n < 3000 && c->op->mask(c, rig.mask); n++) {
        int32_t id = pick(rig.mask, 0);
        if (id < 0 || !c->op->accept(c, id)) break;
    }
    EXPECT(n < 3000 && !c->op->mask(c, rig.mask) && !c->op->accept(c, 5));
    EXPECT(!fork->op->mask(fork, rig.mask)); /* all forks share the failure */
    c->op->close(c);
    fork->op->close(fork);
    struct grammar_options o = {.limits = {.text_max = 3}};
    EXPECT(grammar_constraint_open(&c, rig.w, 0, GRAMMAR_REGEX, "abcd", 4, &o, &e) == ERR_LIMIT &&
           !c);
    rig_close();
}

/* Goal: an answer that reaches the maximum nesting depth continues at that depth. Answers that
 * share its grammar are not affected. */
TEST(constraint_depth_ends_no_other_answer)
{
    if (!rig_open(0)) return;
    struct constraint *c = open_sample(&samples[1], (struct grammar_limits){0}),
                      *other = c ? c->op->fork(c) : NULL;
    struct ids ids = {0};
    struct err e = {0};
    int depth = 0;
    NEED(other && other->op->mask(other, rig.mask));
    NEED_OK(tokenizer_encode(rig.t, "{\"a\":", 5, ENCODE_CONTINUE, &ids, &e), &e);
    for (size_t i = 0; i < ids.n; i++) NEED(c->op->accept(c, ids.v[i]));
    int32_t open = tokenizer_find(rig.t, "[", 1), close = tokenizer_find(rig.t, "]", 1);
    NEED(open >= 0 && close >= 0);
    while (depth < 5000 && c->op->accept(c, open)) depth++;
    test_note("%d arrays", depth);
    EXPECT(depth > 300 && depth < 5000);
    EXPECT(c->op->mask(c, rig.other) && bit(rig.other, close) && !bit(rig.other, open));
    for (int i = 0; i < depth; i++) NEED(c->op->accept(c, close));
    EXPECT(other->op->mask(other, rig.other) && memcmp(rig.mask, rig.other, mask_bytes()) == 0);
    EXPECT(other->op->accept(other, ids.v[0]));
    vec_deinit(&ids);
    c->op->close(c);
    other->op->close(other);
    rig_close();
}

/* Follow a constraint to its end and count the forced tokens. Each must be the only token of its
 * mask. One call for all forced tokens must return the same tokens as calls for single tokens. */
static void follow_forced(struct constraint *c, struct buf *text, int *n_forced)
{
    int32_t forced[64], one;
    int64_t work = INT64_MAX;
    int n_bit = 0;
    for (int i = 0; i < STEPS; i++) {
        int n = c->op->forced(c, forced, 64, &work);
        for (int k = 0; k < n; k++) {
            NEED(c->op->mask(c, rig.mask) && c->op->forced(c, &one, 1, &work) == 1);
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

TEST(constraint_forces_the_tokenizers_own_tokens)
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
        NEED_OK(grammar_constraint_open(&c, rig.w, 0, s.kind, s.text, strlen(s.text), &o, &e), &e);
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
        int64_t work = INT64_MAX;
        any->any_spelling = true;
        EXPECT_INT(any->op->forced(any, &first, 1, &work), 0);
        buf_deinit(&text);
        c->op->close(c);
        fork->op->close(fork);
        any->op->close(any);
        rig_close();
    }
}

/* Return the result of the mask of `costly` after "x", made in calls of at most n_slice steps of
 * work. Set *n_work to the work of all calls. */
static enum grammar_made made_in_slices(const struct grammar_vocab *v, int64_t work_max,
                                        int64_t n_slice, int64_t *n_work)
{
    static const char costly[] = "x(?:.*a.{30}|.*e.{40}|.*o.{50}b)*c";
    struct grammar *g;
    struct err e = {0};
    struct grammar_options o = {.vocab = v, .limits = {.work_max = work_max}};
    enum grammar_made made = GRAMMAR_LATER;
    uint64_t *mask = calloc((size_t)tokenizer_n_vocab(rig.t) / 64 + 1, sizeof *mask);
    if (!mask) return made;
    if (grammar_open(&g, GRAMMAR_REGEX, costly, sizeof costly - 1, &o, &e) != 0)
        return free(mask), made;
    uint32_t state = grammar_accept(g, grammar_begin(g), "x", 1, NULL);
    const int64_t before = grammar_work(g);
    for (int i = 0; i < 1000 && made == GRAMMAR_LATER; i++)
        made = grammar_mask_within(g, state, mask, n_slice);
    *n_work = grammar_work(g) - before;
    grammar_close(g);
    free(mask);
    return made;
}

/* Goal: a mask has one limit of work, in any number of calls. */
TEST(constraint_masks_have_one_limit_in_slices)
{
    int64_t whole, n_work;
    if (!rig_open(0)) return;
    struct grammar_vocab *v = grammar_vocab_open(rig.t);
    NEED(v);
    EXPECT_INT(made_in_slices(v, 0, INT64_MAX / 4, &whole), GRAMMAR_MADE);
    EXPECT(whole > 100000);
    EXPECT_INT(made_in_slices(v, 2 * whole, whole / 8, &n_work), GRAMMAR_MADE);
    EXPECT_INT(made_in_slices(v, 3 * whole / 4, whole, &n_work), GRAMMAR_FAILED);
    EXPECT_INT(made_in_slices(v, 3 * whole / 4, whole / 8, &n_work), GRAMMAR_FAILED);
    test_note("%lld steps in one call", (long long)whole);
    grammar_vocab_close(v);
    rig_close();
}

/* Goal: the work for the forced tokens of all sequences in a step has one limit. Cached forced
 * tokens need no work. */
TEST(constraint_forced_tokens_have_one_limit)
{
    enum { N = 12 };
    if (!rig_open(0)) return;
    struct constraint *c[N] = {0};
    int32_t token[8];
    int64_t work = 2000;
    int n_found = 0;
    for (int i = 0; i < N; i++) {
        char text[200];
        struct sample s = {"forced", GRAMMAR_REGEX, text};
        snprintf(text, sizeof text, "once upon a time there was a little girl named %c[a-z]{0,%d}",
                 'A' + i, 50 + i);
        c[i] = open_sample(&s, (struct grammar_limits){0});
        NEED(c[i]);
        n_found += c[i]->op->forced(c[i], token, 8, &work) > 0;
    }
    test_note("%d of %d within the limit", n_found, N);
    EXPECT(n_found > 0 && n_found < N && work <= 0);
    EXPECT(c[0]->op->forced(c[0], token, 8, &work) > 0);
    work = 1 << 20;
    EXPECT(c[N - 1]->op->forced(c[N - 1], token, 8, &work) > 0 && work < 1 << 20);
    for (int i = 0; i < N; i++) c[i]->op->close(c[i]);
    rig_close();
}

TEST(constraint_json_is_plain)
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

TEST(constraint_refuses_with_the_place)
{
    if (!rig_open(0)) return;
    struct err e = {0};
    struct constraint *c;
    struct grammar_options o = {0};
    static const char bad[] = "{\"properties\":{\"a\":{\"type\":\"strin\"}}}";
    EXPECT(grammar_constraint_open(&c, rig.w, 0, GRAMMAR_SCHEMA, bad, sizeof bad - 1, &o, &e) ==
               ERR_FORMAT &&
           !c && strstr(e.text, "properties/a"));
    rig_close();
}
