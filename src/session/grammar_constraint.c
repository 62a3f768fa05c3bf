/* grammar_constraint.c - grammars as constraints: forced tokens, masks and their work per step. See
 * grammar_constraint.h. */
#include "grammar_constraint.h"

#include "compiled.h"

#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tokenizer ---- */

struct constraint_vocab {
    const struct tokenizer *t; /* borrowed */
    int n_vocab;               /* size of the model's vocabulary; greater ids are never sampled */
    pthread_mutex_t lock;
    /* data of the vocabulary, owned, protected by the lock; NULL before the first use */
    struct grammar_vocab *vocab;
    int32_t *eog; /* owned: tokens that end an answer */
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

int constraint_vocab_open(struct constraint_vocab **out, const struct tokenizer *t, int n_vocab,
                          struct err *e)
{
    struct constraint_vocab *cv = *out = calloc(1, sizeof *cv);
    if (!cv) return err_memory(e, "a vocabulary", sizeof *cv);
    cv->t = t;
    cv->n_vocab = n_vocab;
    pthread_mutex_init(&cv->lock, NULL);
    cv->eog = tokenizer_eog_detach(t, n_vocab, &cv->n_eog);
    cv->compiled = compiled_cache_open(COMPILED_MAX, 0);
    if (cv->eog && cv->compiled) return 0;
    *out = NULL;
    int rc = err_memory(e, "a vocabulary", (size_t)cv->n_eog * sizeof *cv->eog);
    constraint_vocab_close(cv);
    return rc;
}

void constraint_vocab_close(struct constraint_vocab *cv)
{
    if (!cv) return;
    pthread_mutex_destroy(&cv->lock);
    if (cv->compiled) log_counts(cv->compiled);
    compiled_cache_close(cv->compiled);
    grammar_vocab_close(cv->vocab);
    free(cv->eog);
    free(cv);
}

/* Return the vocabulary for masks. Make it on the first call. NULL if memory is exhausted. Any
 * thread. */
static const struct grammar_vocab *vocab_of(struct constraint_vocab *cv)
{
    pthread_mutex_lock(&cv->lock);
    if (!cv->vocab) cv->vocab = grammar_vocab_open(cv->t);
    const struct grammar_vocab *v = cv->vocab;
    pthread_mutex_unlock(&cv->lock);
    return v;
}

/* ---- constraints ---- */

struct grammar_constraint {
    struct constraint base; /* the constraint's interface; base.shared is `of` */
    /* owned reference; the constraint is a user of the grammar */
    struct compiled *of;
    const struct constraint_vocab *vocab; /* borrowed from the session */
    struct place {
        uint32_t state; /* state of the grammar */
        uint32_t span;  /* state in which the current forced span began */
        int n;          /* number of accepted tokens of that span; 0 outside of spans */
    } place;
    struct place past[CONSTRAINT_BACK_MAX]; /* ring buffer of the places before the last tokens */
    unsigned n;                             /* number of accepted tokens */
};

static struct constraint *op_fork(const struct constraint *c)
{
    struct grammar_constraint *fork = malloc(sizeof *fork);
    if (!fork) return NULL;
    *fork = *(const struct grammar_constraint *)c;
    fork->base.n_byte = sizeof *fork; /* compiled.c counts the shared memory */
    compiled_share(fork->of);
    return &fork->base;
}

static void op_close(struct constraint *c)
{
    struct grammar_constraint *gc = (struct grammar_constraint *)c;
    compiled_drop(gc->of);
    free(gc);
}

static void op_follow(struct constraint *c, const struct constraint *from)
{
    struct grammar_constraint *gc = (struct grammar_constraint *)c;
    const struct grammar_constraint *other = (const struct grammar_constraint *)from;
    gc->place = other->place;
    gc->n = other->n;
    memcpy(gc->past, other->past, sizeof gc->past);
}

/* ---- forced tokens ---- */

enum { NOT_FORCED = -1, FAILED = -2 };

/* Return the token that must follow at p; NOT_FORCED if no token is forced, FAILED after a
 * failure. */
static int32_t forced_at(const struct grammar_constraint *gc, const struct place *p)
{
    const int32_t *token;
    struct err why;
    if (gc->base.any_spelling) return NOT_FORCED;
    int n = grammar_forced_tokens(gc->of->g, p->span, &token, &why);
    if (n < 0) return FAILED;
    return p->n < n && token[p->n] < gc->vocab->n_vocab ? token[p->n] : NOT_FORCED;
}

/* Move p past a token. Return false and leave p unchanged if the token is not allowed or the
 * grammar has failed. */
static bool advance(const struct grammar_constraint *gc, struct place *p, int32_t token)
{
    int32_t forced = forced_at(gc, p);
    if (forced == FAILED || (forced >= 0 && token != forced)) return false;
    uint32_t next = grammar_accept_token(gc->of->g, p->state, token);
    if (next == GRAMMAR_DEAD || grammar_failure(gc->of->g, NULL) != 0) return false;
    struct place in_span = {next, p->span, p->n + 1};
    bool goes_on = forced >= 0 && forced_at(gc, &in_span) >= 0;
    *p = goes_on ? in_span : (struct place){next, next, 0};
    return true;
}

/* ---- work in a step ----
 *
 * `owed` is the work that a grammar did in steps, less PAID_WORK for each call. The grammar makes
 * no mask in a step if `owed` is above 0. Otherwise steps would be long if the masks of many
 * sequences need much work. */

enum { PAID_WORK = CONSTRAINT_STEP_WORK / 2 };

/* Return the work that the grammar may do in this step for one mask; 0 if `owed` is above 0. */
static int64_t work_begin(struct compiled *of, int64_t n_work)
{
    of->owed = of->owed > PAID_WORK ? of->owed - PAID_WORK : 0;
    return of->owed > 0 ? 0 : n_work;
}

/* Add the grammar's work since the count work_before to `owed`. */
static void work_end(struct compiled *of, int64_t work_before)
{
    of->owed += grammar_work(of->g) - work_before;
    compiled_count(of); /* no other request may use a failed grammar */
}

/* Compute the forced tokens of p's span in at most about n_work steps. */
static enum grammar_made forced_within(const struct grammar_constraint *gc, const struct place *p,
                                       int64_t n_work)
{
    if (gc->base.any_spelling) return GRAMMAR_MADE;
    return grammar_forced_within(gc->of->g, p->span, n_work);
}

/* Write at most n forced tokens to token[]. Return their number. The place of the constraint does
 * not change. */
static int op_forced(struct constraint *c, int32_t *token, int n, int64_t *n_work)
{
    const struct grammar_constraint *gc = (const struct grammar_constraint *)c;
    struct place p = gc->place;
    int64_t before = grammar_work(gc->of->g), left = gc->of->owed > 0 ? 0 : PAID_WORK;
    if (left > *n_work) left = *n_work;
    int i = 0;
    for (; i < n && forced_within(gc, &p, left) == GRAMMAR_MADE; i++)
        if ((token[i] = forced_at(gc, &p)) < 0 || !advance(gc, &p, token[i])) break;
    *n_work -= grammar_work(gc->of->g) - before;
    work_end(gc->of, before);
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
static void mask_ends(const struct grammar_constraint *gc, uint64_t *mask)
{
    struct grammar *g = gc->of->g;
    const struct constraint_vocab *cv = gc->vocab;
    bool ends = grammar_ends(g, gc->place.state);
    for (int i = 0; i < cv->n_eog; i++) {
        bool named = !ends && has(mask, cv->eog[i]);
        set(mask, cv->eog[i],
            ends ||
                (named && grammar_ends(g, grammar_accept_token(g, gc->place.state, cv->eog[i]))));
    }
}

/* Set *mask to the grammar's mask with the end tokens, limited to the model's vocabulary. Return
 * false if the grammar failed, or if no token may follow because the text has reached a limit of
 * the grammar. */
static bool complete_mask(const struct grammar_constraint *gc, uint32_t *mask)
{
    const int n_vocab = gc->vocab->n_vocab, n_word = (n_vocab + 31) / 32;
    mask_ends(gc, gc->of->mask);
    compiled_count(gc->of);
    if (grammar_failure(gc->of->g, NULL) != 0) return false;
    memcpy(mask, gc->of->mask, (size_t)n_word * sizeof *mask);
    if (n_vocab % 32) mask[n_word - 1] &= (1u << n_vocab % 32) - 1;
    for (int i = 0; i < n_word; i++)
        if (mask[i]) return true;
    return false;
}

/* Set the mask to the forced token alone. Return false if no token is forced, or if the grammar has
 * failed. */
static bool forced_mask(const struct grammar_constraint *gc, uint32_t *mask)
{
    const int32_t forced = forced_at(gc, &gc->place);
    if (forced < 0) return false;
    memset(mask, 0, (size_t)(gc->vocab->n_vocab + 31) / 32 * sizeof *mask);
    mask[forced / 32] = 1u << forced % 32;
    return true;
}

static bool op_mask(struct constraint *c, uint32_t *mask)
{
    const struct grammar_constraint *gc = (const struct grammar_constraint *)c;
    if (compiled_over(gc->of)) return false;
    if (forced_mask(gc, mask)) return true;
    return grammar_mask(gc->of->g, gc->place.state, gc->of->mask) && complete_mask(gc, mask);
}

/* Fill the mask of the current place in at most about n_work steps. */
static enum grammar_made mask_within(const struct grammar_constraint *gc, uint32_t *mask,
                                     int64_t n_work)
{
    enum grammar_made made = forced_within(gc, &gc->place, n_work);
    if (made != GRAMMAR_MADE || forced_mask(gc, mask)) return made;
    made = grammar_mask_within(gc->of->g, gc->place.state, gc->of->mask, n_work);
    return made == GRAMMAR_MADE && !complete_mask(gc, mask) ? GRAMMAR_FAILED : made;
}

/* Fill the mask within n_work. A call with n_work of at most CONSTRAINT_STEP_WORK is in a step. Add
 * the work of such a call to `owed`. */
static enum constraint_made op_mask_within(struct constraint *c, uint32_t *mask, int64_t n_work)
{
    const struct grammar_constraint *gc = (const struct grammar_constraint *)c;
    bool in_step = n_work <= CONSTRAINT_STEP_WORK;
    if (compiled_over(gc->of)) return CONSTRAINT_FAILED;
    if (in_step) n_work = work_begin(gc->of, n_work);
    int64_t before = grammar_work(gc->of->g);
    enum grammar_made made = mask_within(gc, mask, n_work);
    if (in_step) work_end(gc->of, before);
    if (made == GRAMMAR_FAILED) compiled_count(gc->of);
    return made == GRAMMAR_MADE    ? CONSTRAINT_MADE
           : made == GRAMMAR_LATER ? CONSTRAINT_LATER
                                   : CONSTRAINT_FAILED;
}

static bool op_accept(struct constraint *c, int32_t token)
{
    struct grammar_constraint *gc = (struct grammar_constraint *)c;
    if (token < 0 || token >= tokenizer_n_vocab(gc->vocab->t)) return false;
    struct place before = gc->place;
    int64_t work_before = grammar_work(gc->of->g);
    bool taken = advance(gc, &gc->place, token);
    gc->of->owed += grammar_work(gc->of->g) - work_before;
    if (!taken) return compiled_count(gc->of), false;
    gc->past[gc->n++ % CONSTRAINT_BACK_MAX] = before;
    return true;
}

static bool op_no_memory(const struct constraint *c)
{
    const struct compiled *of = ((const struct grammar_constraint *)c)->of;
    const int rc = grammar_failure(of->g, NULL);
    return compiled_over(of) || rc == ERR_MEMORY || rc == ERR_BUSY;
}

static void op_rollback(struct constraint *c, int n)
{
    struct grammar_constraint *gc = (struct grammar_constraint *)c;
    if (n == 0) return;
    gc->n -= (unsigned)n;
    gc->place = gc->past[gc->n % CONSTRAINT_BACK_MAX];
}

static const struct constraint_ops grammar_constraint_ops = {
    .fork = op_fork,
    .close = op_close,
    .follow = op_follow,
    .mask = op_mask,
    .mask_within = op_mask_within,
    .accept = op_accept,
    .no_memory = op_no_memory,
    .rollback = op_rollback,
    .forced = op_forced,
};

int grammar_constraint_open(struct constraint **out, struct constraint_vocab *cv, uint64_t holder,
                            enum grammar_kind kind, const char *text, size_t n,
                            const struct grammar_options *o, struct err *e)
{
    struct grammar_options mine = *o;
    struct compiled *g;
    const int n_token = tokenizer_n_vocab(cv->t);
    *out = NULL;
    if (cv->n_eog == 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "a constraint needs a token that ends answers; this model has none");
    if (tokenizer_joins(cv->t))
        return err_set(e, ERR_UNSUPPORTED,
                       "constraints: not supported yet for tokens that are words joined by spaces");
    mine.plain = true;
    mine.vocab = vocab_of(cv);
    if (!mine.vocab) return err_memory(e, "a vocabulary", 0);
    const struct compiled_want want = {.kind = kind,
                                       .text = text,
                                       .n = n,
                                       .o = &mine,
                                       .n_mask = n_token > cv->n_vocab ? n_token : cv->n_vocab,
                                       .holder = holder};
    int rc = compiled_get(&g, cv->compiled, &want, e);
    if (rc != 0) return rc;
    struct grammar_constraint *c = calloc(1, sizeof *c);
    if (!c) return compiled_drop(g), err_memory(e, "a constraint", sizeof *c);
    *c = (struct grammar_constraint){.base = {.op = &grammar_constraint_ops, .shared = g},
                                     .of = g,
                                     .vocab = cv,
                                     .place = {g->first, g->first, 0}};
    c->base.n_byte = sizeof *c; /* compiled.c counts the memory of the shared grammar */
    *out = &c->base;
    return 0;
}
