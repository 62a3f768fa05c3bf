/* dry.c - DRY, "don't repeat yourself": penalize the token that would continue a repetition.
 *
 * The formula is by p-e-w (text-generation-webui, pull request 5677), in the generalized form of
 * llama.cpp. The window is the last dry_penalty_last_n tokens of the history. The token after an
 * earlier occurrence of the last L tokens would lengthen the repetition. The largest L gives the
 * penalty, if this L is at least dry_allowed_length:
 *
 *     logit(token) -= multiplier * base^(L - allowed_length)
 *
 * A repetition never extends back across a sequence breaker (default newline, colon, quote, star).
 * A token that contains a whole breaker is never penalized. Breakers are matched in the bytes of
 * the history as they arrive. Therefore a breaker that spans several tokens takes effect after the
 * last of these tokens.
 *
 * All values of L are the Z-function of the reversed window. The Z-function takes linear time for
 * every text. */
#include "sample_impl.h"

/* State of the stage. The arrays are in the arena of the sampler. */
struct dry {
    int n_breaker;
    struct match *breaker; /* [n_breaker], matched with the history's bytes */
    int clear_from;        /* history index after the last token that completed a breaker */
    int32_t *length;       /* [window_max] Z-function of the reversed window */
    int window_max;
};

static const struct text_span usual_breakers[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};

static bool dry_wanted(const struct sample_params *p)
{
    return p->dry_multiplier > 0 && p->dry_penalty_last_n != 0;
}

/* Copy the match states of the request's breakers. The texts are shared, but each history needs its
 * own match states. */
static bool breakers_open(struct dry *d, struct sampler *s)
{
    const struct sample_lists *l = s->lists;
    bool usual = s->p.n_dry_breaker < 0;
    int n = usual ? 4 : l->n_breaker;
    if (!s->v.bytes || n == 0) return true;
    d->breaker = arena_push0(&s->mem, (size_t)n, sizeof *d->breaker);
    for (; d->breaker && d->n_breaker < n; d->n_breaker++) {
        struct match *m = &d->breaker[d->n_breaker];
        const struct text_span *text = &usual_breakers[d->n_breaker % 4];
        if (!usual)
            *m = l->breaker[d->n_breaker];
        else if (!match_make(m, &s->mem, text->text, text->n))
            return false;
    }
    return d->breaker;
}

static void *dry_open(struct sampler *s)
{
    struct dry *d = arena_push0(&s->mem, 1, sizeof *d);
    if (!d || !breakers_open(d, s)) return NULL;
    int last_n = s->p.dry_penalty_last_n;
    d->window_max = last_n > 0 && last_n <= s->context_max ? last_n : s->context_max + 1;
    d->length = arena_push(&s->mem, (size_t)d->window_max * sizeof *d->length, 64);
    return d->length ? d : NULL;
}

/* Match a token's bytes. Return true if the token completes a breaker. */
static bool breakers_feed(struct match *breaker, int n_breaker, const char *text, size_t n)
{
    bool found = false;
    for (int b = 0; b < n_breaker; b++)
        for (size_t i = 0; i < n; i++) found |= match_step(&breaker[b], text[i]);
    return found;
}

static const char *token_bytes(const struct sampler *s, int32_t id, size_t *n)
{
    *n = 0;
    return id >= 0 && id < s->v.n_vocab ? s->v.bytes(s->v.tokenizer, id, n) : NULL;
}

static void dry_accept(void *state, const struct sampler *s, int32_t id)
{
    struct dry *d = state;
    if (d->n_breaker == 0) return;
    size_t n;
    const char *text = token_bytes(s, id, &n);
    if (text && breakers_feed(d->breaker, d->n_breaker, text, n)) d->clear_from = s->n_history;
}

static bool holds_breaker(const struct dry *d, const struct sampler *s, int32_t id)
{
    size_t n;
    const char *text = d->n_breaker > 0 ? token_bytes(s, id, &n) : NULL;
    for (int b = 0; text && b < d->n_breaker; b++) {
        struct match fresh = d->breaker[b];
        fresh.at = 0;
        if (breakers_feed(&fresh, 1, text, n)) return true;
    }
    return false;
}

/* Set length[k] to the number of last tokens (last[0], last[-1], ...) that also occur k tokens
 * earlier. The match with the largest end so far is [lo, hi). Results of earlier positions are
 * valid inside that match, up to its end. */
static void repeat_lengths(int32_t *length, const int32_t *last, int n)
{
    length[0] = n;
    for (int k = 1, lo = 0, hi = 0; k < n; k++) {
        int len = 0;
        if (k < hi) len = length[k - lo] < hi - k ? length[k - lo] : hi - k;
        while (k + len < n && last[-len] == last[-k - len]) len++;
        length[k] = len;
        if (k + len > hi) {
            lo = k;
            hi = k + len;
        }
    }
}

/* Return base^exponent by plain multiplications. The result may be infinite. */
static double power(double base, int exponent)
{
    double y = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1) y *= base;
    return y;
}

static void dry_penalize(const struct dry *d, const struct sampler *s, struct sample_work *w,
                         int32_t id, int length)
{
    if (holds_breaker(d, s, id)) return;
    double penalty = s->p.dry_multiplier * power(s->p.dry_base, length - s->p.dry_allowed_length);
    double logit = (double)w->edited[id] - penalty;
    logit_set(&w->edited[id], logit >= -FLT_MAX ? (float)logit : -FLT_MAX);
}

/* Return the token that would lengthen the repetition found k tokens back; -1 if that token is not
 * in the vocabulary. */
static int32_t continuing(const struct sampler *s, int k)
{
    int32_t id = s->history[s->n_history - k];
    return id >= 0 && id < s->v.n_vocab ? id : -1;
}

/* Penalize each token that continues a repetition of at least `allowed` tokens, by the length of
 * its longest repetition. Clamp lengths to `length_max`, because longer repetitions would cross a
 * breaker. longest[] is uninitialized scratch. longest[id] is the length of the longest repetition
 * plus 1, and 0 after the token is processed. */
static void penalize_all(const struct dry *d, const struct sampler *s, struct sample_work *w, int n,
                         int length_max)
{
    int allowed = s->p.dry_allowed_length;
    int32_t *longest = w->index;
    int32_t id;
    for (int k = 1; k < n; k++)
        if (d->length[k] >= allowed && (id = continuing(s, k)) >= 0) longest[id] = 0;
    for (int k = 1; k < n; k++) {
        if (d->length[k] < allowed || (id = continuing(s, k)) < 0) continue;
        int32_t length = d->length[k] < length_max ? d->length[k] : length_max;
        if (longest[id] <= length) longest[id] = length + 1;
    }
    for (int k = 1; k < n; k++) {
        if (d->length[k] < allowed || (id = continuing(s, k)) < 0 || longest[id] == 0) continue;
        dry_penalize(d, s, w, id, longest[id] - 1);
        longest[id] = 0;
    }
}

static void dry_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    const struct dry *d = state;
    int n = s->n_history < d->window_max ? s->n_history : d->window_max;
    int length_max = s->n_history - d->clear_from, allowed = s->p.dry_allowed_length;
    if (n <= allowed || length_max < allowed) return;
    repeat_lengths(d->length, s->history + s->n_history - 1, n);
    penalize_all(d, s, w, n, length_max);
}

const struct stage stage_dry = {.needs_history = true,
                                .wanted = dry_wanted,
                                .open = dry_open,
                                .accept = dry_accept,
                                .apply = dry_apply};
