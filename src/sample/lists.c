/* lists.c - the lists of a request, prepared for picks. All samplers with equal lists share one
 * copy.
 *
 *   sample_params --sample_lists_open: copied--> lists <--references-- samplers of choices, prompts
 *
 * A body of a megabyte may contain 128 choices or 2,048 prompts. Memory per sampler and time per
 * pick must not grow with the lists. Therefore bad words are sorted by their second-to-last token.
 * A pick reads only the words whose second-to-last token is the history's last token.
 *
 * The lists are immutable after sample_lists_open, so any thread may read them. */
#include "sample_impl.h"

#include <stdlib.h>

static int compare_words(const void *a, const void *b)
{
    const struct bad_word *x = a, *y = b;
    return x->before < y->before ? -1 : x->before > y->before;
}

/* Copy the bad words. Single tokens are always forbidden. Longer words are sorted by their
 * second-to-last token, so that a pick searches only words that may end at this position. */
static bool copy_words(struct sample_lists *l, const struct sample_params *p)
{
    size_t n = (size_t)p->n_bad_word;
    l->single = arena_push(&l->mem, n * sizeof *l->single, 16);
    l->word = arena_push(&l->mem, n * sizeof *l->word, 16);
    if (!l->single || !l->word) return false;
    for (size_t i = 0; i < n; i++) {
        const struct ids *from = &p->bad_word[i];
        if (from->n == 1) {
            l->single[l->n_single++] = from->v[0];
            continue;
        }
        int32_t *v = arena_push(&l->mem, from->n * sizeof *v, 4);
        if (!v) return false;
        memcpy(v, from->v, from->n * sizeof *v);
        l->word[l->n_word++] =
            (struct bad_word){.before = v[from->n - 2], .n = (int)from->n, .v = v};
    }
    qsort(l->word, (size_t)l->n_word, sizeof *l->word, compare_words);
    return true;
}

static bool copy_bias(struct sample_lists *l, const struct sample_params *p)
{
    size_t n_byte = (size_t)p->n_bias * sizeof *l->bias;
    l->bias = arena_push(&l->mem, n_byte, 16);
    if (!l->bias) return false;
    memcpy(l->bias, p->bias, n_byte);
    l->n_bias = p->n_bias;
    return true;
}

static bool mark_allowed(struct sample_lists *l, const struct sample_params *p, int n_vocab)
{
    l->allowed = arena_push0(&l->mem, ((size_t)n_vocab + 31) / 32, sizeof *l->allowed);
    for (int i = 0; l->allowed && i < p->n_allowed; i++)
        l->allowed[p->allowed[i] / 32] |= (uint32_t)1 << p->allowed[i] % 32;
    return l->allowed;
}

static void add_endings(struct sample_lists *l, const int32_t *ids, int n, int n_vocab)
{
    for (int i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < n_vocab) l->ending[l->n_ending++] = ids[i];
}

static bool copy_endings(struct sample_lists *l, const struct sample_params *p,
                         const struct sample_vocab *v)
{
    l->ending =
        arena_push(&l->mem, ((size_t)v->n_eog + (size_t)p->n_stop_id + 1) * sizeof *l->ending, 16);
    if (!l->ending) return false;
    add_endings(l, v->eog, v->n_eog, v->n_vocab);
    add_endings(l, p->stop_id, p->n_stop_id, v->n_vocab);
    return true;
}

static bool copy_breakers(struct sample_lists *l, const struct sample_params *p)
{
    l->breaker = arena_push0(&l->mem, (size_t)p->n_dry_breaker, sizeof *l->breaker);
    for (; l->breaker && l->n_breaker < p->n_dry_breaker; l->n_breaker++) {
        const struct text_span *text = &p->dry_breaker[l->n_breaker];
        if (!match_make(&l->breaker[l->n_breaker], &l->mem, text->text, text->n)) return false;
    }
    return l->breaker;
}

static bool copy_logprob_ids(struct sample_lists *l, const struct sample_params *p)
{
    size_t n_byte = (size_t)p->n_logprob_id * sizeof *l->logprob_id;
    l->logprob_id = arena_push(&l->mem, n_byte, 16);
    if (!l->logprob_id) return false;
    memcpy(l->logprob_id, p->logprob_id, n_byte);
    l->n_logprob_id = p->n_logprob_id;
    return true;
}

static bool copy_all(struct sample_lists *l, const struct sample_params *p,
                     const struct sample_vocab *v)
{
    return (p->n_bias == 0 || copy_bias(l, p)) && (p->n_bad_word == 0 || copy_words(l, p)) &&
           (p->n_allowed == 0 || mark_allowed(l, p, v->n_vocab)) &&
           (p->min_tokens == 0 || copy_endings(l, p, v)) &&
           (p->n_dry_breaker <= 0 || copy_breakers(l, p)) &&
           (p->n_logprob_id == 0 || copy_logprob_ids(l, p));
}

/* ---- check that a token is permitted ---- */

/* Remove a token from the set. Return 1 if the token was in the set, otherwise 0. */
static int take_out(uint32_t *set, int32_t id)
{
    uint32_t bit = (uint32_t)1 << id % 32;
    int was = (set[id / 32] & bit) != 0;
    set[id / 32] &= ~bit;
    return was;
}

/* Remove the tokens that each list forbids, one list after another. Return the name of the field
 * that removed the last token; NULL if tokens remain. */
static const char *field_of_last(const struct sample_lists *l, uint32_t *left, int n_left)
{
    for (int i = 0; i < l->n_bias; i++)
        if (l->bias[i].bias <= -100) n_left -= take_out(left, l->bias[i].id);
    if (n_left == 0) return "logit_bias";
    for (int i = 0; i < l->n_single; i++) n_left -= take_out(left, l->single[i]);
    if (n_left == 0) return "bad_words";
    for (int i = 0; i < l->n_ending; i++) n_left -= take_out(left, l->ending[i]);
    return n_left == 0 ? "min_tokens" : NULL;
}

static int set_allowed(uint32_t *left, const struct sample_lists *l, int n_vocab)
{
    int n_left = 0;
    for (int32_t id = 0; id < n_vocab; id++) {
        uint32_t bit = (uint32_t)1 << id % 32;
        bool allowed = !l->allowed || (l->allowed[id / 32] & bit);
        if (allowed) left[id / 32] |= bit, n_left++;
    }
    return n_left;
}

/* Reject lists that together forbid every token, because every answer would fail at its first
 * token. */
static int check_some_left(const struct sample_lists *l, int n_vocab, struct err *e)
{
    if (!l->allowed && l->n_bias + l->n_single + l->n_ending < n_vocab) return 0;
    size_t n_word = ((size_t)n_vocab + 31) / 32;
    uint32_t *left = calloc(n_word, sizeof *left);
    if (!left) return err_memory(e, "a set of tokens", n_word * sizeof *left);
    const char *field = field_of_last(l, left, set_allowed(left, l, n_vocab));
    free(left);
    return field ? err_field(e, ERR_ARG, field, ": must allow at least 1 token, got 0") : 0;
}

int sample_lists_open(struct sample_lists **out, const struct sample_params *p,
                      const struct sample_vocab *v, struct err *e)
{
    *out = NULL;
    struct sample_lists *l = calloc(1, sizeof *l);
    if (l) atomic_init(&l->n_ref, 1);
    int rc = l && copy_all(l, p, v)
                 ? check_some_left(l, v->n_vocab, e)
                 : err_memory(e, "a request's lists", l ? l->mem.n_byte : sizeof *l);
    if (rc == 0)
        *out = l;
    else
        sample_lists_drop(l);
    return rc;
}

struct sample_lists *sample_lists_ref(struct sample_lists *l)
{
    if (l) atomic_fetch_add(&l->n_ref, 1);
    return l;
}

void sample_lists_drop(struct sample_lists *l)
{
    if (!l || atomic_fetch_sub(&l->n_ref, 1) > 1) return;
    arena_deinit(&l->mem);
    free(l);
}

int64_t sample_lists_bytes(const struct sample_lists *l)
{
    return l ? (int64_t)(sizeof *l + l->mem.n_byte) : 0;
}

bool sample_lists_forbid(const struct sample_lists *l)
{
    bool forbids = l->allowed || l->n_single > 0 || l->n_word > 0;
    for (int i = 0; i < l->n_bias && !forbids; i++) forbids = l->bias[i].bias <= -100;
    return forbids;
}
