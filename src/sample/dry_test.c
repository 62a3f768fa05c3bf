/* dry_test.c - goal: DRY's penalties follow its definition. Method: compare with a search of every
 * earlier position for every token, in O(n^2) or slower. Histories have few different tokens, so
 * repetitions are frequent. */
#include "sample_test.h"

#include "base/os.h"

/* Texts of tokens [0, 5]: two letters, a breaker, the two halves of a breaker, and a token that
 * contains a breaker. */
static const char *const words[] = {"a", "b", "\n", "<", ">", "x*y"};
enum { N_WORD = 6 };

static const char *word_bytes(const void *tokenizer, int32_t id, size_t *n)
{
    const char *const *word = tokenizer;
    *n = strlen(word[id]);
    return word[id];
}

static const struct text_span breakers[] = {{"\n", 1}, {"<>", 2}, {"*", 1}};

/* Return true if token i of the history ends a breaker. */
static bool breaks(const int32_t *history, int i)
{
    return history[i] == 2 || history[i] == 5 || (history[i] == 4 && i > 0 && history[i - 1] == 3);
}

/* Return the number of tokens before `at` that equal the last tokens of the history. Stop at a
 * breaker. */
static int ref_length(const int32_t *history, int from, int n, int at)
{
    int length = 0;
    while (at - 1 - length >= from && !breaks(history, n - 1 - length) &&
           history[at - 1 - length] == history[n - 1 - length])
        length++;
    return length;
}

static double ref_dry(const struct sample_params *p, const int32_t *history, int n, int32_t id)
{
    int longest = -1;
    int from =
        p->dry_penalty_last_n > 0 && p->dry_penalty_last_n < n ? n - p->dry_penalty_last_n : 0;
    for (int at = from + 1; at < n; at++) {
        int length = ref_length(history, from, n, at);
        if (history[at] == id && length > longest) longest = length;
    }
    int since = 0;
    while (since < n && !breaks(history, n - 1 - since)) since++;
    if (longest < p->dry_allowed_length || since < p->dry_allowed_length) return 0;
    if (n - from <= p->dry_allowed_length || id == 2 || id == 5) return 0;
    return p->dry_multiplier * pow(p->dry_base, longest - p->dry_allowed_length);
}

static bool dry_agrees(const struct sample_params *p, uint64_t *rng)
{
    int32_t history[80];
    float logits[N_WORD] = {0};
    int n = (int)rng_below(rng, 80), n_different = 1 + (int)rng_below(rng, N_WORD);
    for (int i = 0; i < n; i++)
        history[i] = (int32_t)rng_below(rng, rng_below(rng, 4) ? 1 + n_different / 2 : n_different);
    struct rig r = {.v = {.tokenizer = words, .bytes = word_bytes}};
    if (!rig_open(&r, p, N_WORD)) return false;
    sampler_accept_prompt(r.s, history, n / 2);
    for (int i = n / 2; i < n; i++) sampler_accept(r.s, history[i]);
    const float *got = chain_edit(r.s, r.w, logits, NULL);
    bool same = true;
    for (int i = 0; i < N_WORD; i++) {
        double want = fmax(-ref_dry(p, history, n, i), -FLT_MAX);
        if (fabs(got[i] - want) <= 1e-6 * fabs(want)) continue;
        test_fail(__FILE__, __LINE__, "token %d after %d: %g, not %g", i, n, (double)got[i], want);
        same = false;
    }
    rig_close(&r);
    return same;
}

TEST(sample_dry_matches_brute_force)
{
    uint64_t rng = 1;
    for (int v = 0; v < (test_long() ? 20000 : 3000); v++) {
        struct sample_params p = sample_params_default;
        p.dry_multiplier = 0.1f + rng_float(&rng);
        p.dry_base = 1 + rng_float(&rng);
        p.dry_allowed_length = (int)rng_below(&rng, 5);
        p.dry_penalty_last_n = rng_below(&rng, 2) ? -1 : 1 + (int)rng_below(&rng, 60);
        p.dry_breaker = breakers;
        p.n_dry_breaker = 3;
        NEED(dry_agrees(&p, &rng));
    }
}

/* Goal: the worst case of naive matching, "aaaa...", takes linear time. An overflowing penalty is
 * clamped to a finite number. */
TEST(sample_dry_is_linear_and_bounded)
{
    enum { N = 4000 };
    float logits[N_WORD] = {0};
    struct sample_params p = sample_params_default;
    p.dry_multiplier = 1;
    p.dry_base = 10;
    struct rig r = {0};
    if (!rig_open(&r, &p, N_WORD)) return;
    for (int i = 0; i < N; i++) sampler_accept(r.s, 0);
    int64_t start = time_us();
    const float *got = chain_edit(r.s, r.w, logits, NULL);
    test_note("DRY over %d equal tokens: %lld us", N, (long long)(time_us() - start));
    EXPECT(got[0] == -FLT_MAX && got[1] == 0);
    rig_close(&r);
}
