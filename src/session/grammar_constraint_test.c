/* Goal: a constraint allows exactly the tokens that continue its grammar, after any forks, accepted
 * and reverted tokens. Method: random texts with the bundled model's tokenizer. Every token of the
 * vocabulary is tried before each token of the text. A second grammar checks the text byte by
 * byte. */
#include "compiled.h"
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
    uint32_t *mask, *other; /* owned; buffers of two masks */
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

static bool has_bit(const uint64_t *mask, int32_t id)
{
    return mask[id / 64] >> id % 64 & 1;
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

/* Append tokens until the text ends. Every second step reverts tokens, or makes a fork and
 * continues with the fork. */
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

/* Goal: a decode step allocates nothing if its grammar has visited the state before. The visit may
 * be in another sequence of the request, or in an earlier request with an equal constraint. Only
 * the first visit of a state may allocate, within the limits of the grammar. */
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

/* ---- limits ---- */

/* An answer that follows a text, whose constraint can replay it. */
struct answer {
    struct constraint *c; /* owned */
    int32_t text[1024];
    int n;
};

static bool answer_open(struct answer *a, const struct constraint *of)
{
    *a = (struct answer){.c = of ? of->op->fork(of) : NULL};
    if (a->c) a->c->text = a->text;
    return a->c;
}

static void answer_close(struct answer *a)
{
    if (a->c) a->c->op->close(a->c);
}

/* Make the next mask in calls of at most n_slice steps of work, and more in each further call; 0:
 * in one call. Return false if the answer has ended. */
static bool answer_mask(struct answer *a, int64_t n_slice)
{
    enum constraint_made made = CONSTRAINT_LATER;
    if (n_slice == 0) return a->c->op->mask(a->c, rig.mask);
    for (; made == CONSTRAINT_LATER; n_slice += n_slice / 2)
        made = a->c->op->mask_within(a->c, rig.mask, n_slice);
    return made == CONSTRAINT_MADE;
}

static void answer_add(struct answer *a, int32_t token)
{
    NEED(a->n < (int)(sizeof a->text / sizeof *a->text));
    if (!bit(rig.mask, token) || !a->c->op->accept(a->c, token))
        test_fail(__FILE__, __LINE__, "token %d of the text: %d is not allowed", a->n, token);
    a->text[a->n++] = token;
}

/* Follow the text. Return the number of masks. The number of tokens + 1 if no mask failed. */
static int answer_follow(struct answer *a, const struct ids *text, int64_t n_slice)
{
    for (size_t i = 0; i < text->n; i++) {
        if (!answer_mask(a, n_slice)) return (int)i;
        answer_add(a, text->v[i]);
    }
    return (int)text->n + answer_mask(a, n_slice);
}

/* Grammars whose masks need much work, a text, and another text. */
static const struct {
    struct sample sample;
    const char *text, *other;
} costly[] = {
    {{"regex", GRAMMAR_REGEX, "x(?:.*a.{30}|.*e.{40}|.*o.{50}b)*c"},
     "xonce upon a time there was",
     "xthe little girl and a big bear, then home"},
    {{"growing", GRAMMAR_REGEX, "([ab]*a[ab]{99}|[ab]*b[ab]{98})+c"},
     "abbabaabbbaaabab",
     "babbabbbaabaaababbababaaabbb"},
    {{"pattern", GRAMMAR_SCHEMA,
      "{\"type\":\"string\",\"pattern\":\"up.*time\",\"minLength\":20,\"maxLength\":300}"},
     "\"Once upon a time, there was a little girl\"",
     "\"The little bear and the upper bed. One time\""},
    {{"patterns", GRAMMAR_SCHEMA,
      "{\"type\":\"string\",\"allOf\":[{\"pattern\":\"a.*b\"},{\"pattern\":\"c.*d\"},"
      "{\"pattern\":\"^.{9,40}$\"},{\"not\":{\"pattern\":\"girl\"}}]}"},
     "\"Once upon a bad day\"",
     "\"a big cat and a dog\""},
    {{"format", GRAMMAR_SCHEMA, "{\"type\":\"string\",\"format\":\"email\"}"},
     "\"lily@little-girl.example\"",
     "\"tom.and.lily@home.example.net\""},
};
enum { N_COSTLY = sizeof costly / sizeof *costly };

/* Cached results before the text. COLD: none. OTHER_FIRST: those of another text. SAME_FIRST: those
 * of this text. IN_TURNS: those of another text at the same time. IN_SLICES: none, with masks in
 * slices. */
enum cached { COLD, OTHER_FIRST, SAME_FIRST, IN_TURNS, IN_SLICES, N_CACHED };

/* Set *out to the number of masks along the text of costly[i] with these limits. -1 if the
 * constraint was rejected. */
static void masks_until_refused(int *out, int i, struct grammar_limits limits, enum cached how)
{
    struct constraint *first = NULL;
    struct constraint_vocab *shared = rig.w;
    struct grammar_options o = {.limits = limits};
    struct ids text = {0}, other = {0};
    struct answer a = {0}, b = {0};
    struct err e = {0};
    const struct sample *s = &costly[i].sample;
    const char *own = costly[i].text, *another = costly[i].other;
    int n = -1;
    NEED_OK(tokenizer_encode(rig.t, own, strlen(own), ENCODE_CONTINUE, &text, &e), &e);
    NEED_OK(tokenizer_encode(rig.t, another, strlen(another), ENCODE_CONTINUE, &other, &e), &e);
    NEED_OK(constraint_vocab_open(&rig.w, rig.t, rig.n_vocab, &e), &e); /* no grammars yet */
    int rc = grammar_constraint_open(&first, rig.w, 0, s->kind, s->text, strlen(s->text), &o, &e);
    EXPECT(rc == 0 || rc == ERR_LIMIT);
    if (rc == 0 && answer_open(&a, first) && answer_open(&b, first)) {
        if (how == OTHER_FIRST) answer_follow(&b, &other, 0);
        if (how == SAME_FIRST) answer_follow(&b, &text, 0);
        if (how == IN_TURNS)
            for (n = 0; n <= (int)text.n && answer_mask(&a, 0); n++) {
                if (n < (int)text.n) answer_add(&a, text.v[n]);
                if (b.n < (int)other.n && answer_mask(&b, 0)) answer_add(&b, other.v[b.n]);
            }
        else
            n = answer_follow(&a, &text, how == IN_SLICES ? 2 * CONSTRAINT_STEP_WORK : 0);
        /* an answer that has ended does not continue */
        EXPECT(n > (int)text.n || !answer_mask(&a, 0));
    }
    if (first) first->op->close(first);
    answer_close(&a);
    answer_close(&b);
    constraint_vocab_close(rig.w);
    rig.w = shared;
    vec_deinit(&text);
    vec_deinit(&other);
    *out = n;
}

/* Goal: a limit ends an answer at the same token with every state of the caches (docs/design.md 5).
 * Method: limits of each size, texts with and without other texts before and between them. */
TEST(constraint_limits_do_not_depend_on_cached_states)
{
    int n_ended = 0, n_whole = 0, n_refused = 0;
    if (!rig_open(0)) return;
    for (int i = 0; i < N_COSTLY; i++)
        for (int64_t work = 3000; work < (test_long() ? 4000000 : 1000000);
             work += test_long() ? work / 8 : 2 * work) {
            const struct grammar_limits limits = {.work_max = work};
            int want = -2, got = -2;
            masks_until_refused(&want, i, limits, COLD);
            n_refused += want < 0;
            n_ended += want >= 0 && want < 8;
            n_whole += want > 8;
            for (enum cached how = COLD + 1; how < N_CACHED; how++) {
                masks_until_refused(&got, i, limits, how);
                if (got != want)
                    test_fail(__FILE__, __LINE__, "%s, %lld steps, caches %d: %d masks, not %d",
                              costly[i].sample.name, (long long)work, (int)how, got, want);
            }
        }
    test_note("%d answers ended, %d did not, %d constraints were refused", n_ended, n_whole,
              n_refused);
    EXPECT(n_ended > 5 && n_whole > 3);
    rig_close();
}

/* Append a random token of the mask that does not end the text. Return false if none, or
 * if the answer has ended. */
static bool answer_grow(struct answer *a)
{
    if (!answer_mask(a, 0)) return false;
    int32_t id = pick(rig.mask, 0);
    if (id >= 0) answer_add(a, id);
    return id >= 0;
}

/* Append the same token to two answers, whose masks must be equal. */
static void answers_agree(struct answer *a, struct answer *b)
{
    NEED(answer_mask(b, 0));
    memcpy(rig.other, rig.mask, mask_bytes());
    EXPECT(answer_mask(a, 0) && memcmp(rig.mask, rig.other, mask_bytes()) == 0);
    int32_t id = pick(rig.other, 0);
    NEED(id >= 0);
    answer_add(a, id);
    answer_add(b, id);
}

/* Let an answer grow to its limit, up to 900 tokens. Another answer of the grammar gets a token
 * every `each` tokens; 0: there is no other answer. Its masks must equal the masks of a separate
 * grammar. Set *n to the number of tokens of the first answer. */
static void grow_to_limit(int *n, const struct sample *s, struct grammar_limits limits, int each)
{
    struct constraint *first = open_sample(s, limits), *own = NULL;
    struct constraint_vocab *shared = rig.w;
    struct answer a = {0}, b = {0}, want = {0};
    struct err e = {0};
    NEED_OK(constraint_vocab_open(&rig.w, rig.t, rig.n_vocab, &e), &e);
    own = open_sample(s, (struct grammar_limits){0});
    NEED(answer_open(&a, first) && answer_open(&b, first) && answer_open(&want, own));
    rig.rng = 5;
    while (a.n < 900 && answer_grow(&a)) {
        uint64_t rng = rig.rng;
        if (each > 0 && a.n % each == 0) answers_agree(&b, &want);
        rig.rng = rng;
    }
    for (int i = 0; i < 8 && each > 0; i++) answers_agree(&b, &want); /* b continues */
    *n = a.n;
    first->op->close(first);
    own->op->close(own);
    answer_close(&a);
    answer_close(&b);
    answer_close(&want);
    constraint_vocab_close(rig.w);
    rig.w = shared;
}

/* Goal: the memory, states and work of one answer end no other answer of its grammar, and the other
 * answers do not shorten it. Each token of this grammar makes new states. */
TEST(constraint_growth_ends_no_other_answer)
{
    static const struct sample grows = {"grows", GRAMMAR_REGEX,
                                        "([ab]*a[ab]{99}|[ab]*b[ab]{98})+c"};
    static const struct grammar_limits limits[] = {
        {.bytes_max = 500000}, {.state_max = 250}, {.work_max = 300000}};
    if (!rig_open(0)) return;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        int n = 0, n_beside = 0;
        grow_to_limit(&n, &grows, limits[i], 0);
        grow_to_limit(&n_beside, &grows, limits[i], 9);
        test_note("limit %zu: %d tokens", i, n);
        EXPECT_INT(n_beside, n);
        EXPECT(n > 20 && (n < 900 || limits[i].work_max));
    }
    rig_close();
}

/* Return the steps of work of the grammar of an answer without tokens. */
static int64_t work_of(const struct answer *a)
{
    return grammar_work(((const struct compiled *)a->c->shared)->g);
}

/* Goal: picking a token needs no work. The next mask does the work in parts, and equals a mask
 * after a token that was accepted immediately. The characters of this string differ in their
 * states, and their masks are made without visiting these states. */
TEST(constraint_takes_picked_tokens_with_the_next_mask)
{
    static const struct sample s = {
        "pattern", GRAMMAR_SCHEMA,
        "{\"type\":\"string\",\"pattern\":\"(a|b|e).{20}(c|d|o).{30}x\",\"maxLength\":300}"};
    static const char text[] = "\"Once upon a time, there was a little girl named Lily";
    if (!rig_open(0)) return;
    struct constraint_vocab *shared = rig.w, *fresh;
    struct err e = {0};
    struct ids ids = {0};
    struct answer a, b;
    int64_t n_whole = 0;
    int n_late = 0;
    NEED_OK(tokenizer_encode(rig.t, text, sizeof text - 1, ENCODE_CONTINUE, &ids, &e), &e);
    NEED_OK(constraint_vocab_open(&fresh, rig.t, rig.n_vocab, &e), &e);
    struct constraint *of = open_sample(&s, (struct grammar_limits){0});
    rig.w = fresh;
    struct constraint *of_fresh = open_sample(&s, (struct grammar_limits){0});
    NEED(of && of_fresh && answer_open(&a, of) && answer_open(&b, of_fresh));
    for (size_t i = 0; i < ids.n && i < 12; i++) {
        NEED(answer_mask(&b, 0));
        memcpy(rig.other, rig.mask, mask_bytes());
        n_late += a.c->op->mask_within(a.c, rig.mask, 1000) == CONSTRAINT_LATER;
        NEED(answer_mask(&a, 3000));
        EXPECT(memcmp(rig.mask, rig.other, mask_bytes()) == 0);
        int64_t before = work_of(&a);
        NEED(a.c->op->accept(a.c, ids.v[i]));
        EXPECT_INT(work_of(&a) - before, 0);
        before = work_of(&b);
        NEED(b.c->op->accept_within(b.c, ids.v[i], INT64_MAX) == CONSTRAINT_MADE);
        n_whole += work_of(&b) - before;
        a.text[a.n++] = b.text[b.n++] = ids.v[i];
    }
    test_note("%lld steps for the tokens alone", (long long)n_whole);
    EXPECT(n_whole > 100000 && n_late > 5);
    of->op->close(of);
    of_fresh->op->close(of_fresh);
    answer_close(&a);
    answer_close(&b);
    constraint_vocab_close(fresh);
    rig.w = shared;
    vec_deinit(&ids);
    rig_close();
}

/* Goal: a mask does not depend on counts that no token can reach. Therefore the masks of a host
 * name need no test of all tokens at every character. */
TEST(constraint_masks_of_counted_strings_are_shared)
{
    static const struct {
        const char *schema, *text;
    } cases[] = {
        {"{\"type\":\"string\",\"format\":\"hostname\"}", "\"little-girl.once-upon-a-time.example"},
        {"{\"type\":\"string\",\"format\":\"email\"}", "\"lily.little-girl.once-upon-a-time"},
        {"{\"type\":\"string\",\"pattern\":\"^[a-zA-Z0-9_-]{1,64}$\"}",
         "\"get_the_little_girl_once_upon_a_time"}};
    if (!rig_open(0)) return;
    struct grammar_vocab *v = grammar_vocab_open(rig.t);
    struct grammar_options o = {.vocab = v};
    struct err e = {0};
    uint64_t *mask = calloc((size_t)rig.n_vocab / 64 + 1, sizeof *mask);
    NEED(v && mask);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *g;
        struct ids ids = {0};
        int64_t most = 0, last = 0;
        const char *schema = cases[i].schema, *text = cases[i].text;
        NEED_OK(grammar_open(&g, GRAMMAR_SCHEMA, schema, strlen(schema), &o, &e), &e);
        NEED_OK(tokenizer_encode(rig.t, text, strlen(text), ENCODE_CONTINUE, &ids, &e), &e);
        uint32_t state = grammar_begin(g);
        for (size_t k = 0; k < ids.n; k++) {
            int64_t before = grammar_work(g);
            EXPECT(grammar_mask(g, state, mask) && has_bit(mask, ids.v[k]));
            last = grammar_work(g) - before;
            if (last > most) most = last;
            state = grammar_accept_token(g, state, ids.v[k]);
        }
        test_note("%lld steps at most, %lld for the last mask", (long long)most, (long long)last);
        EXPECT(last < most / 10);
        vec_deinit(&ids);
        grammar_close(g);
    }
    free(mask);
    grammar_vocab_close(v);
    rig_close();
}

/* Goal: a constraint that cannot replay its text fails permanently at a limit. The other forks of
 * the grammar continue. */
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
    EXPECT(fork->op->mask(fork, rig.mask));
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

/* Return the result of the mask of costly[0] after "x", made in calls of at most n_slice steps of
 * work. Set *n_work to the work of all calls. */
static enum grammar_made made_in_slices(const struct grammar_vocab *v, int64_t work_max,
                                        int64_t n_slice, int64_t *n_work)
{
    const char *text = costly[0].sample.text;
    struct grammar *g;
    struct err e = {0};
    struct grammar_options o = {.vocab = v, .limits = {.work_max = work_max}};
    enum grammar_made made = GRAMMAR_LATER;
    uint64_t *mask = calloc((size_t)tokenizer_n_vocab(rig.t) / 64 + 1, sizeof *mask);
    if (!mask) return made;
    if (grammar_open(&g, GRAMMAR_REGEX, text, strlen(text), &o, &e) != 0) return free(mask), made;
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
