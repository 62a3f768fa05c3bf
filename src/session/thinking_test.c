/* Goal: reasoning has at most as many tokens as its budget, then its closing mark. All other masks
 * equal the masks of the inner constraint. Method: random walks with the bundled model's tokenizer,
 * with and without a grammar, with forks, reverted tokens and forced tokens. */
#include "session.h"
#include "thinking.h"
#include "../../tests/alloc.h"
#include "../../tests/unit.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

static struct rig {
    struct tokenizer *t;
    struct constraint_vocab *w;
    int n_vocab, n_word;
    uint32_t *mask, *other; /* owned; buffers of two masks */
    uint64_t rng;
} rig;

static bool rig_open(void)
{
    struct err e = {0};
    rig = (struct rig){.rng = 3};
    int rc =
        tokenizer_open_file(&rig.t, repo_path("models/quoth-tiny/quoth-tiny-q8_0.gguf"), NULL, &e);
    if (rc == 0) rig.n_vocab = tokenizer_n_vocab(rig.t);
    if (rc == 0) rc = constraint_vocab_open(&rig.w, rig.t, rig.n_vocab, &e);
    rig.n_word = (rig.n_vocab + 31) / 32;
    rig.mask = calloc((size_t)rig.n_word, sizeof *rig.mask);
    rig.other = calloc((size_t)rig.n_word, sizeof *rig.other);
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

/* Return a constraint on the text after reasoning; NULL after a failure. */
static struct constraint *open_grammar(void)
{
    static const char tag[] =
        "{\"type\":\"sequence\",\"elements\":[{\"type\":\"any_text\",\"excludes\":[\"</think>\"]},"
        "{\"type\":\"token\",\"token\":\"</think>\"},{\"type\":\"regex\",\"pattern\":\"[0-9]+\"}]}";
    struct constraint *c = NULL;
    struct grammar_options o = {0};
    struct err e = {0};
    if (grammar_constraint_open(&c, rig.w, 0, GRAMMAR_TAG, tag, sizeof tag - 1, &o, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s", e.text);
    return c;
}

/* Return a limit of reasoning after the text `begun`; NULL after a failure. */
static struct constraint *open_limit(int budget, const char *begun, struct constraint *take_inner)
{
    struct thinking_options o = {.tokenizer = rig.t, .n_vocab = rig.n_vocab, .budget = budget};
    struct constraint *c = NULL;
    struct err e = {0};
    EXPECT(chat_track_begin(&o.track, "think", false));
    chat_track_push(&o.track, begun, strlen(begun));
    if (thinking_open(&c, &o, take_inner, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return c;
}

static bool bit(const uint32_t *mask, int id)
{
    return mask[id / 32] >> id % 32 & 1;
}

/* Return a random token of the mask without end tokens; -1 if there is none. */
static int32_t pick(const uint32_t *mask)
{
    int n = 0;
    int32_t found = -1;
    for (int id = 0; id < rig.n_vocab; id++)
        if (bit(mask, id) && !tokenizer_is_eog(rig.t, id) &&
            rng_below(&rig.rng, (uint64_t)++n) == 0)
            found = id;
    return found;
}

/* Check the forced tokens: the mask before each allows only that token. */
static void check_forced(const struct constraint *c)
{
    int32_t token[8];
    int64_t work = INT64_MAX;
    struct constraint *fork = c->op->fork(c);
    NEED(fork);
    int n = fork->op->forced(fork, token, 8, &work);
    for (int i = 0; i < n; i++) {
        NEED(fork->op->mask(fork, rig.other));
        for (int k = 0; k < rig.n_word; k++)
            EXPECT_INT(rig.other[k], k == token[i] / 32 ? 1u << token[i] % 32 : 0);
        EXPECT(fork->op->accept(fork, token[i]));
    }
    fork->op->close(fork);
}

/* Revert up to three tokens of the walk, then accept them again. */
static void revert(struct constraint *c, const int32_t *token, int n)
{
    int k = n < 3 ? n : 3;
    c->op->rollback(c, k);
    for (int i = n - k; i < n; i++) EXPECT(c->op->accept(c, token[i]));
}

enum { WALK = 48 };

/* Return true if the text ends with a part of a character. */
static bool ends_within(const char *text, size_t n)
{
    size_t back = 1;
    while (back < 4 && back < n && ((unsigned char)text[n - back] & 0xC0) == 0x80) back++;
    const unsigned char lead = n ? (unsigned char)text[n - back] : 0;
    const size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return whole > back;
}

/* Walk at random. Return the number of tokens of reasoning, or -1 if it has not ended. Write the
 * text after it to `after`. Set *late to the number of tokens after the budget before which the
 * mark was possible, because the text did not end within a character. */
static int walk(struct constraint *c, struct buf *after, int budget, int *late)
{
    struct buf thought = {0};
    int32_t token[WALK];
    int n_inside = 0;
    bool inside = true;
    for (int i = 0; i < WALK; i++) {
        size_t n;
        if (!c->op->mask(c, rig.mask)) {
            test_fail(__FILE__, __LINE__, "no mask");
            break;
        }
        check_forced(c);
        token[i] = pick(rig.mask);
        if (token[i] < 0) break;
        const char *text = tokenizer_bytes(rig.t, token[i], &n);
        if (!c->op->accept(c, token[i])) {
            test_fail(__FILE__, __LINE__, "refused");
            break;
        }
        if (i % 2) revert(c, token, i + 1);
        if (!inside) buf_add(after, text, n);
        if (n == 8 && memcmp(text, "</think>", 8) == 0) inside = false;
        if (inside && n_inside >= budget) *late += !ends_within(thought.data, thought.n);
        if (inside) buf_add(&thought, text, n);
        n_inside += inside;
    }
    buf_deinit(&thought);
    return inside ? -1 : n_inside;
}

TEST(thinking_ends_at_its_budget)
{
    NEED(rig_open());
    for (int budget = 0; budget < 12; budget++)
        for (int i = 0; i < (test_long() ? 100 : 4); i++)
            for (int constrained = 0; constrained < 2; constrained++) {
                struct buf after = {0};
                struct constraint *c =
                    open_limit(budget, "<think>\n", constrained ? open_grammar() : NULL);
                NEED(c);
                struct constraint *fork = c->op->fork(c);
                c->op->close(c);
                NEED(fork);
                int late = 0, n = walk(fork, &after, budget, &late);
                EXPECT(n >= 0 && (budget > 0 || n == 0));
                EXPECT_INT(late, 0);
                size_t n_digit = after.n ? strspn(after.data, "0123456789") : 0;
                if (constrained) EXPECT_INT(n_digit, after.n);
                fork->op->close(fork);
                buf_deinit(&after);
            }
    rig_close();
}

/* Goal: outside of its end, the limit changes no mask. */
TEST(thinking_changes_no_other_mask)
{
    static const char *const begun[] = {"<think>", "<think></think>", "text", ""};
    NEED(rig_open());
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
        struct constraint *alone = open_grammar(), *c = open_limit(1000, begun[i], open_grammar()),
                          *free_text = open_limit(1000, begun[i], NULL);
        NEED(alone && c && free_text);
        EXPECT(c->shared == alone->shared && c->n_byte > alone->n_byte);
        for (int k = 0; k < 20; k++) {
            NEED(alone->op->mask(alone, rig.other) && c->op->mask(c, rig.mask));
            EXPECT(memcmp(rig.mask, rig.other, (size_t)rig.n_word * sizeof *rig.mask) == 0);
            int32_t token = pick(rig.mask);
            NEED(free_text->op->mask(free_text, rig.other));
            for (int id = 0; id < rig.n_vocab; id++) EXPECT(bit(rig.other, id));
            if (token < 0) break;
            EXPECT(alone->op->accept(alone, token) && c->op->accept(c, token) &&
                   free_text->op->accept(free_text, token));
        }
        alone->op->close(alone);
        c->op->close(c);
        free_text->op->close(free_text);
    }
    rig_close();
}

/* Goal: the limit of reasoning also holds for reasoning that the model begins itself. */
TEST(thinking_of_the_model_has_a_budget)
{
    NEED(rig_open());
    int32_t open = tokenizer_find(rig.t, "<think>", 7),
            close = tokenizer_find(rig.t, "</think>", 8);
    int32_t other = tokenizer_find(rig.t, "a", 1);
    NEED(open >= 0 && close >= 0 && other >= 0);
    for (int budget = 0; budget < 3; budget++) {
        struct constraint *c = open_limit(budget, "", NULL);
        NEED(c && c->op->accept(c, open));
        for (int i = 0; i < budget; i++) EXPECT(c->op->accept(c, other));
        EXPECT(!c->op->accept(c, other) && !c->op->accept(c, -1) && c->op->accept(c, close));
        for (int i = 0; i < 5; i++) EXPECT(c->op->accept(c, i % 2 ? open : other));
        c->op->close(c);
    }
    rig_close();
}

/* Goal: a fork that lacks memory is NULL, for each of its allocations. */
TEST(thinking_forks_need_memory)
{
    NEED(rig_open());
    struct constraint *c = open_limit(9, "<think>", open_grammar()), *fork = NULL;
    NEED(c);
    for (uint64_t n = 0; !fork && n < 9; n++) {
        alloc_fail(n, 1);
        fork = c->op->fork(c);
        EXPECT((fork == NULL) == (alloc_fail_end() > n));
    }
    NEED(fork);
    EXPECT_INT(fork->n_byte, c->n_byte);
    fork->op->close(fork);
    c->op->close(c);
    rig_close();
}
