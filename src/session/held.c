/* held.c - grammars as constraints: forced tokens, masks and their work per step; see held.h. */
#include "held.h"

#include "compiled.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tokenizer ---- */

struct words {
    const struct tokenizer *t; /* borrowed */
    int n_vocab;               /* vocabulary of the model: tokens beyond it are never sampled */
    pthread_mutex_t lock;
    struct grammar_vocab *vocab; /* owned; under the lock; NULL before the first use */
    int32_t *eog;                /* owned: tokens that end an answer */
    int n_eog;
    struct compiled_cache *compiled; /* owned */
};
enum { COMPILED_MAX = 256 }; /* maximum number of grammars in the cache */

static void log_counts(struct compiled_cache *c)
{
    struct compiled_counts n = compiled_counts(c);
    if (n.n_miss > 0)
        log_debug("constraints: %lld compiled, %lld found in the cache, %lld MiB",
                  (long long)n.n_miss, (long long)n.n_hit, (long long)n.n_byte >> 20);
}

int words_open(struct words **out, const struct tokenizer *t, int n_vocab, struct err *e)
{
    struct words *w = *out = calloc(1, sizeof *w);
    if (!w) return err_memory(e, "a vocabulary", sizeof *w);
    w->t = t;
    w->n_vocab = n_vocab;
    pthread_mutex_init(&w->lock, NULL);
    int n_token = tokenizer_n_vocab(t) < n_vocab ? tokenizer_n_vocab(t) : n_vocab;
    for (int id = 0; id < n_token; id++) w->n_eog += tokenizer_is_eog(t, id);
    w->eog = calloc((size_t)w->n_eog + 1, sizeof *w->eog);
    int n = 0;
    for (int id = 0; id < n_token && w->eog; id++)
        if (tokenizer_is_eog(t, id)) w->eog[n++] = id;
    w->compiled = compiled_cache_open(COMPILED_MAX, 0);
    if (w->eog && w->compiled) return 0;
    *out = NULL;
    int rc = err_memory(e, "a vocabulary", (size_t)w->n_eog * sizeof *w->eog);
    words_close(w);
    return rc;
}

void words_close(struct words *w)
{
    if (!w) return;
    pthread_mutex_destroy(&w->lock);
    if (w->compiled) log_counts(w->compiled);
    compiled_cache_close(w->compiled);
    grammar_vocab_close(w->vocab);
    free(w->eog);
    free(w);
}

/* Return the vocabulary for masks, made on the first call. NULL if memory is exhausted. Any
 * thread. */
static const struct grammar_vocab *vocab_of(struct words *w)
{
    pthread_mutex_lock(&w->lock);
    if (!w->vocab) w->vocab = grammar_vocab_open(w->t);
    const struct grammar_vocab *v = w->vocab;
    pthread_mutex_unlock(&w->lock);
    return v;
}

/* ---- constraints ---- */

struct held {
    struct constraint base; /* base.shared is `of` */
    struct compiled *of;    /* counted as one of its users */
    const struct words *words;
    struct place {
        uint32_t state; /* state of the grammar */
        uint32_t span;  /* state in which the current forced span began */
        int n;          /* number of accepted tokens of that span; 0 outside of spans */
    } place;
    struct place past[CONSTRAINT_BACK_MAX]; /* ring: the place before each of the last tokens */
    unsigned n;                             /* number of accepted tokens */
};

static struct constraint *held_fork(const struct constraint *c)
{
    struct held *fork = malloc(sizeof *fork);
    if (!fork) return NULL;
    *fork = *(const struct held *)c;
    fork->base.n_byte = sizeof *fork; /* shared memory is counted in compiled.c */
    compiled_share(fork->of);
    return &fork->base;
}

static void held_close(struct constraint *c)
{
    struct held *h = (struct held *)c;
    compiled_drop(h->of);
    free(h);
}

static void held_follow(struct constraint *c, const struct constraint *from)
{
    struct held *h = (struct held *)c;
    const struct held *other = (const struct held *)from;
    h->place = other->place;
    h->n = other->n;
    memcpy(h->past, other->past, sizeof h->past);
}

/* ---- forced tokens ---- */

enum { NOT_FORCED = -1, FAILED = -2 };

/* Return the token that must follow at p; NOT_FORCED if there is none, FAILED after a failure. */
static int32_t forced_at(const struct held *h, const struct place *p)
{
    const int32_t *token;
    struct err why;
    if (h->base.any_spelling) return NOT_FORCED;
    int n = grammar_forced_tokens(h->of->g, p->span, &token, &why);
    if (n < 0) return FAILED;
    return p->n < n && token[p->n] < h->words->n_vocab ? token[p->n] : NOT_FORCED;
}

/* Move p past a token. Return false, without a change of p, if the token is not allowed or the
 * grammar failed. */
static bool advance(const struct held *h, struct place *p, int32_t token)
{
    int32_t forced = forced_at(h, p);
    if (forced == FAILED || (forced >= 0 && token != forced)) return false;
    uint32_t next = grammar_accept_token(h->of->g, p->state, token);
    if (next == GRAMMAR_DEAD || grammar_failure(h->of->g, NULL) != 0) return false;
    struct place in_span = {next, p->span, p->n + 1};
    bool goes_on = forced >= 0 && forced_at(h, &in_span) >= 0;
    *p = goes_on ? in_span : (struct place){next, next, 0};
    return true;
}

/* ---- work in a step ----
 *
 * `owed` is the work that a grammar did in steps, less PAID_WORK for each call. While a call
 * finds it above 0, the grammar makes no mask in that step. Otherwise many sequences whose masks
 * need much work would make steps long. */

enum { PAID_WORK = CONSTRAINT_STEP_WORK / 2 };

/* Return the work that the grammar may do in this step for one mask; 0 while `owed` is above 0. */
static int64_t step_begin(struct compiled *of, int64_t n_work)
{
    of->owed = of->owed > PAID_WORK ? of->owed - PAID_WORK : 0;
    return of->owed > 0 ? 0 : n_work;
}

/* Add the work since work_before to `owed`. */
static void step_end(struct compiled *of, int64_t work_before)
{
    of->owed += grammar_work(of->g) - work_before;
    compiled_count(of); /* a failed grammar is not used for other requests */
}

/* Compute the forced tokens of p's span, in about n_work steps at most. */
static enum grammar_made forced_within(const struct held *h, const struct place *p, int64_t n_work)
{
    if (h->base.any_spelling) return GRAMMAR_MADE;
    return grammar_forced_within(h->of->g, p->span, n_work);
}

/* Write at most n forced tokens to token[]. Return their number. The place does not change. */
static int held_forced(struct constraint *c, int32_t *token, int n)
{
    const struct held *h = (const struct held *)c;
    struct place p = h->place;
    int64_t before = grammar_work(h->of->g), left = h->of->owed > 0 ? 0 : PAID_WORK;
    int i = 0;
    for (; i < n && forced_within(h, &p, left) == GRAMMAR_MADE; i++)
        if ((token[i] = forced_at(h, &p)) < 0 || !advance(h, &p, token[i])) break;
    step_end(h->of, before);
    return i;
}

/* ---- masks ---- */

static bool has(const uint64_t *mask, int32_t id)
{
    return mask[id / 64] >> id % 64 & 1;
}

static void set(uint64_t *mask, int32_t id, bool on)
{
    uint64_t bit = 1ull << id % 64;
    mask[id / 64] = on ? mask[id / 64] | bit : mask[id / 64] & ~bit;
}

/* Allow end tokens if the text is complete. If a rule contains an end token (possible in GBNF),
 * allow it only if the text is complete after it. */
static void mask_ends(const struct held *h, uint64_t *mask)
{
    struct grammar *g = h->of->g;
    const struct words *w = h->words;
    bool ends = grammar_ends(g, h->place.state);
    for (int i = 0; i < w->n_eog; i++) {
        bool named = !ends && has(mask, w->eog[i]);
        set(mask, w->eog[i],
            ends || (named && grammar_ends(g, grammar_accept_token(g, h->place.state, w->eog[i]))));
    }
}

/* Set *mask to the grammar's mask with the end tokens, limited to the model's vocabulary. Return
 * false if the grammar failed. */
static bool complete_mask(const struct held *h, uint32_t *mask)
{
    const int n_vocab = h->words->n_vocab, n_word = (n_vocab + 31) / 32;
    mask_ends(h, h->of->mask);
    compiled_count(h->of);
    if (grammar_failure(h->of->g, NULL) != 0) return false;
    memcpy(mask, h->of->mask, (size_t)n_word * sizeof *mask);
    if (n_vocab % 32) mask[n_word - 1] &= (1u << n_vocab % 32) - 1;
    return true;
}

/* Set the mask to the forced token alone. Return false if none is forced, or the grammar failed. */
static bool forced_mask(const struct held *h, uint32_t *mask)
{
    const int32_t forced = forced_at(h, &h->place);
    if (forced < 0) return false;
    memset(mask, 0, (size_t)(h->words->n_vocab + 31) / 32 * sizeof *mask);
    mask[forced / 32] = 1u << forced % 32;
    return true;
}

static bool held_mask(struct constraint *c, uint32_t *mask)
{
    const struct held *h = (const struct held *)c;
    if (forced_mask(h, mask)) return true;
    return grammar_mask(h->of->g, h->place.state, h->of->mask) && complete_mask(h, mask);
}

/* Fill the mask at the present place in about n_work steps at most. */
static enum grammar_made mask_within(const struct held *h, uint32_t *mask, int64_t n_work)
{
    enum grammar_made made = forced_within(h, &h->place, n_work);
    if (made != GRAMMAR_MADE || forced_mask(h, mask)) return made;
    made = grammar_mask_within(h->of->g, h->place.state, h->of->mask, n_work);
    return made == GRAMMAR_MADE && !complete_mask(h, mask) ? GRAMMAR_FAILED : made;
}

/* Fill the mask within n_work. A call with at most CONSTRAINT_STEP_WORK is in a step, and its
 * work is added to `owed`. */
static enum constraint_made held_mask_within(struct constraint *c, uint32_t *mask, int64_t n_work)
{
    const struct held *h = (const struct held *)c;
    bool in_step = n_work <= CONSTRAINT_STEP_WORK;
    if (in_step) n_work = step_begin(h->of, n_work);
    int64_t before = grammar_work(h->of->g);
    enum grammar_made made = mask_within(h, mask, n_work);
    if (in_step) step_end(h->of, before);
    if (made == GRAMMAR_FAILED) compiled_count(h->of);
    return made == GRAMMAR_MADE    ? CONSTRAINT_MADE
           : made == GRAMMAR_LATER ? CONSTRAINT_LATER
                                   : CONSTRAINT_FAILED;
}

static bool held_accept(struct constraint *c, int32_t token)
{
    struct held *h = (struct held *)c;
    if (token < 0 || token >= tokenizer_n_vocab(h->words->t)) return false;
    struct place before = h->place;
    if (!advance(h, &h->place, token)) return compiled_count(h->of), false;
    h->past[h->n++ % CONSTRAINT_BACK_MAX] = before;
    return true;
}

static void held_rollback(struct constraint *c, int n)
{
    struct held *h = (struct held *)c;
    if (n == 0) return;
    h->n -= (unsigned)n;
    h->place = h->past[h->n % CONSTRAINT_BACK_MAX];
}

static const struct constraint_ops held_ops = {
    .fork = held_fork,
    .close = held_close,
    .follow = held_follow,
    .mask = held_mask,
    .mask_within = held_mask_within,
    .accept = held_accept,
    .rollback = held_rollback,
    .forced = held_forced,
};

int held_open(struct constraint **out, struct words *w, enum grammar_kind kind, const char *text,
              size_t n, const struct grammar_options *o, struct err *e)
{
    struct grammar_options mine = *o;
    struct compiled *g;
    const int n_token = tokenizer_n_vocab(w->t);
    *out = NULL;
    if (w->n_eog == 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "a constraint needs a token that ends answers; this model has none");
    if (tokenizer_joins(w->t))
        return err_set(e, ERR_UNSUPPORTED,
                       "constraints: not supported yet for tokens that are words joined by spaces");
    mine.plain = true;
    mine.vocab = vocab_of(w);
    if (!mine.vocab) return err_memory(e, "a vocabulary", 0);
    int rc = compiled_get(&g, w->compiled, kind, text, n, &mine,
                          n_token > w->n_vocab ? n_token : w->n_vocab, e);
    if (rc != 0) return rc;
    struct held *c = calloc(1, sizeof *c);
    if (!c) return compiled_drop(g), err_memory(e, "a constraint", sizeof *c);
    *c = (struct held){.base = {.op = &held_ops, .shared = g},
                       .of = g,
                       .words = w,
                       .place = {g->first, g->first, 0}};
    c->base.n_byte = sizeof *c; /* the memory of the shared grammar is counted in compiled.c */
    *out = &c->base;
    return 0;
}
