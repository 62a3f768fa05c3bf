/* grammar_constraint.c - grammars as constraints: forced tokens, masks, their work per step and
 * their limits. grammar_constraint.h describes the interface. */
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
    _Atomic uint64_t n_text;         /* number of texts of constraints (grammar_constraint) */
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

/* Return the vocabulary for masks, which the first call makes. NULL if memory is exhausted. Any
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

/* Place in the text of a grammar. */
struct grammar_place {
    uint32_t state; /* state of the grammar */
    uint32_t span;  /* state in which the current forced span began */
    int n;          /* number of accepted tokens of the current forced span; 0 outside spans */
};

enum { RECENT_MAX = 2 * CONSTRAINT_BACK_MAX };

struct grammar_constraint {
    struct constraint base; /* the constraint's interface; base.shared is the request's grammar */
    /* owned reference; the constraint is a user of the grammar */
    struct compiled *of;
    struct constraint_vocab *vocab; /* borrowed from the session */
    struct grammar_place place;     /* place after the first n_settled tokens */
    struct grammar_place
        past[CONSTRAINT_BACK_MAX]; /* ring buffer of the places before settled tokens */
    int32_t recent[RECENT_MAX];    /* ring buffer of the last accepted tokens */
    /* numbers of accepted tokens, and of tokens that the grammar has processed */
    unsigned n, n_settled;
    /* number of the text so far: copies have equal numbers, and each change gives a new number */
    uint64_t text_no;
    uint64_t moved; /* number of the text that moved to another grammar last; 0 if none */
    int failure;    /* error code of the end of this answer; 0 if none */
};

static void change_text(struct grammar_constraint *gc)
{
    gc->text_no = atomic_fetch_add(&gc->vocab->n_text, 1) + 1;
}

static struct constraint *op_fork(const struct constraint *c)
{
    struct grammar_constraint *fork = malloc(sizeof *fork);
    if (!fork) return NULL;
    *fork = *(const struct grammar_constraint *)c;
    fork->base.n_byte = sizeof *fork; /* compiled.c counts the shared memory */
    compiled_ref(fork->of);
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
    const struct constraint base = gc->base;
    struct compiled *old = gc->of;
    *gc = *(const struct grammar_constraint *)from;
    gc->base = base;
    if (gc->of == old) return;
    compiled_ref(gc->of);
    compiled_drop(old);
}

/* ---- forced tokens ---- */

enum { NOT_FORCED = -1, FAILED = -2 };

/* Return the token that must follow at p; NOT_FORCED if no token is forced, FAILED after a
 * failure. */
static int32_t forced_at(const struct grammar_constraint *gc, const struct grammar_place *p)
{
    const int32_t *token;
    struct err why;
    if (gc->base.any_spelling) return NOT_FORCED;
    int n = grammar_forced_tokens(gc->of->g, p->span, &token, &why);
    if (n < 0) return FAILED;
    return p->n < n && token[p->n] < gc->vocab->n_vocab ? token[p->n] : NOT_FORCED;
}

/* Compute the forced tokens of p's span in about n_work steps at most. */
static enum grammar_made forced_within(const struct grammar_constraint *gc,
                                       const struct grammar_place *p, int64_t n_work)
{
    if (gc->base.any_spelling) return GRAMMAR_MADE;
    return grammar_forced_within(gc->of->g, p->span, n_work);
}

/* ---- limits ----
 *
 * Several answers use a grammar, whose totals of memory, states and work are limited. Each answer
 * moves to a new grammar after a total is reached, at its next mask or token, and replays its
 * tokens there. The answers share the new grammar. The answer gets a separate grammar if the new
 * grammar also reaches a limit for this text. A grammar whose only work was for one text is
 * `alone`. Only the limits of a grammar that is `alone` end the answer. Therefore the end depends
 * only on the answer's tokens, neither on other answers nor on cached states (grammar_exceeds). */

static bool is_alone(const struct grammar_constraint *gc)
{
    return gc->of->text_no == gc->text_no;
}

/* Return true if the grammar may do no further work for the text. */
static bool is_used_up(const struct grammar_constraint *gc)
{
    int rc = grammar_failure(gc->of->g, NULL);
    if (compiled_over(gc->of) || rc == ERR_LIMIT || rc == ERR_BUSY) return true;
    return gc->of->spent && !is_alone(gc);
}

/* Return false if the last mask or token of the grammar needs too much work or memory. */
static bool check_limits(struct grammar_constraint *gc)
{
    struct grammar *g = gc->of->g;
    if (is_alone(gc)) {
        if (grammar_exceeds(g) || grammar_full(g)) gc->failure = ERR_LIMIT;
        return !gc->failure;
    }
    gc->of->spent |= grammar_spent(g) || grammar_full(g);
    return !gc->of->spent;
}

/* Set the failure of the answer if the grammar has failed and no other grammar would succeed. */
static void check_failure(struct grammar_constraint *gc)
{
    int rc = grammar_failure(gc->of->g, NULL);
    bool final = rc == ERR_MEMORY || is_alone(gc) || grammar_exceeds(gc->of->g);
    if (rc != 0 && final) gc->failure = rc;
}

/* Return token i of the text. */
static int32_t token_at(const struct grammar_constraint *gc, unsigned i)
{
    bool recent = gc->n - i <= CONSTRAINT_BACK_MAX;
    return recent ? gc->recent[i % RECENT_MAX] : gc->base.text[i];
}

/* Return a usable grammar among the grammars that have replaced g; NULL if none. */
static struct compiled *successor_of(const struct compiled *g)
{
    struct compiled *next = g->successor;
    while (next && (next->spent || compiled_over(next) || grammar_failure(next->g, NULL) != 0))
        next = next->successor;
    return next;
}

static void set_successor(struct compiled *g, struct compiled *next)
{
    while (g->successor) g = g->successor;
    g->successor = compiled_ref(next);
}

/* Compile a separate grammar for the text. Set gc->failure to the reason of a failure. */
static struct compiled *renew(struct grammar_constraint *gc)
{
    struct compiled *next;
    struct err why;
    gc->failure = compiled_renew(&next, gc->of, &why);
    if (next) next->text_no = gc->text_no;
    return next;
}

/* Move the answer to another grammar, in which its tokens must be settled again. Return LATER
 * during a step of the engine, or if n_work steps do not suffice to compile a grammar. */
static enum grammar_made move(struct grammar_constraint *gc, int64_t n_work)
{
    const bool again = gc->moved == gc->text_no;
    struct compiled *next = again ? NULL : successor_of(gc->of);
    bool replays = gc->n <= CONSTRAINT_BACK_MAX || gc->base.text;
    if (is_alone(gc) || !replays) {
        gc->failure = grammar_failure(gc->of->g, NULL);
        if (!gc->failure) gc->failure = compiled_over(gc->of) ? ERR_BUSY : ERR_LIMIT;
        return GRAMMAR_FAILED;
    }
    if (n_work <= CONSTRAINT_STEP_WORK || (!next && n_work < gc->of->compile_work))
        return GRAMMAR_LATER;
    if (next) {
        compiled_ref(next);
    } else {
        if (!(next = renew(gc))) return GRAMMAR_FAILED;
        if (!again) set_successor(gc->of, next);
    }
    compiled_drop(gc->of);
    gc->of = next;
    gc->moved = gc->text_no;
    gc->n_settled = 0;
    gc->place = (struct grammar_place){next->first, next->first, 0};
    return GRAMMAR_MADE;
}

/* ---- tokens ---- */

/* Move p past a token in about n_work steps at most. Return FAILED if the token is not allowed, or
 * after a failure. p is unchanged unless the result is MADE. */
static enum grammar_made advance(const struct grammar_constraint *gc, struct grammar_place *p,
                                 int32_t token, int64_t n_work)
{
    const int64_t end = grammar_work(gc->of->g) + n_work;
    uint32_t next;
    enum grammar_made made = forced_within(gc, p, n_work);
    if (made != GRAMMAR_MADE) return made;
    int32_t forced = forced_at(gc, p);
    if (forced == FAILED || (forced >= 0 && token != forced)) return GRAMMAR_FAILED;
    made = grammar_accept_within(gc->of->g, p->state, token, end - grammar_work(gc->of->g), &next);
    if (made != GRAMMAR_MADE) return made;
    struct grammar_place in_span = {next, p->span, p->n + 1};
    *p = forced >= 0 && forced_at(gc, &in_span) >= 0 ? in_span
                                                     : (struct grammar_place){next, next, 0};
    return GRAMMAR_MADE;
}

/* Pass to the grammar the tokens that it has not processed, in about n_work steps at most. */
static enum grammar_made settle(struct grammar_constraint *gc, int64_t n_work)
{
    const int64_t end = grammar_work(gc->of->g) + n_work;
    while (gc->n_settled < gc->n) {
        struct grammar_place p = gc->place;
        int64_t left = end - grammar_work(gc->of->g);
        enum grammar_made made = advance(gc, &p, token_at(gc, gc->n_settled), left);
        if (made == GRAMMAR_MADE && !check_limits(gc)) made = GRAMMAR_FAILED;
        if (made != GRAMMAR_MADE) return made;
        if (is_alone(gc)) /* the limit applies to each token, not to the text */
            grammar_forget(gc->of->g);
        gc->past[gc->n_settled++ % CONSTRAINT_BACK_MAX] = gc->place;
        gc->place = p;
    }
    return GRAMMAR_MADE;
}

static const int64_t ALL_WORK = INT64_MAX / 4; /* no limit; sums with this value do not overflow */

/* Work in the constraint's grammar, which has processed all tokens. */
typedef enum grammar_made work_fn(struct grammar_constraint *gc, void *arg, int64_t n_work);

/* Settle the text and call `work`, in about n_work steps at most for each. Repeat these steps in
 * another grammar if the grammar reaches a limit, unless the answer ends. */
static enum grammar_made run(struct grammar_constraint *gc, work_fn *work, void *arg,
                             int64_t n_work)
{
    if (n_work > ALL_WORK) n_work = ALL_WORK;
    while (!gc->failure) {
        enum grammar_made made = is_used_up(gc) ? move(gc, n_work) : GRAMMAR_MADE;
        if (made != GRAMMAR_MADE) return made;
        if (!is_alone(gc)) gc->of->text_no = 0;
        made = settle(gc, n_work);
        if (made == GRAMMAR_MADE) made = work(gc, arg, n_work);
        compiled_count(gc->of); /* no other request may use a failed grammar */
        if (made != GRAMMAR_FAILED) return made;
        check_failure(gc);
        if (!is_used_up(gc)) break;
    }
    return GRAMMAR_FAILED;
}

/* ---- work in a step ----
 *
 * `owed` is the work that a grammar did in steps, minus PAID_WORK for each call. The grammar makes
 * no mask in a step if `owed` is above 0. Without this limit, steps would be long if the masks of
 * many sequences need much work. */

enum { PAID_WORK = CONSTRAINT_STEP_WORK / 2 };

/* Return the work that the grammar may do in this step for one mask; 0 if `owed` is above 0. */
static int64_t work_begin(struct compiled *of, int64_t n_work)
{
    of->owed = of->owed > PAID_WORK ? of->owed - PAID_WORK : 0;
    return of->owed > 0 ? 0 : n_work;
}

/* Write at most n forced tokens to token[]. Return their number. The place of the constraint does
 * not change. */
static int op_forced(struct constraint *c, int32_t *token, int n, int64_t *n_work)
{
    struct grammar_constraint *gc = (struct grammar_constraint *)c;
    if (gc->failure || is_used_up(gc)) return 0;
    if (!is_alone(gc)) gc->of->text_no = 0;
    int64_t before = grammar_work(gc->of->g), left = gc->of->owed > 0 ? 0 : PAID_WORK;
    if (left > *n_work) left = *n_work;
    const int64_t end = before + left;
    int i = 0;
    if (settle(gc, left) == GRAMMAR_MADE) {
        struct grammar_place p = gc->place;
        for (; i < n && forced_within(gc, &p, end - grammar_work(gc->of->g)) == GRAMMAR_MADE; i++) {
            token[i] = forced_at(gc, &p);
            left = end - grammar_work(gc->of->g);
            if (token[i] < 0 || advance(gc, &p, token[i], left) != GRAMMAR_MADE) break;
        }
    }
    *n_work -= grammar_work(gc->of->g) - before;
    gc->of->owed += grammar_work(gc->of->g) - before;
    compiled_count(gc->of);
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

/* Allow end tokens if the text is complete. A rule of GBNF may contain an end token. Allow an end
 * token of a rule only if the text is complete after this token. */
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
 * false if the grammar failed, or no token may follow because of a limit of the grammar. */
static bool complete_mask(const struct grammar_constraint *gc, uint32_t *mask)
{
    const int n_vocab = gc->vocab->n_vocab, n_word = (n_vocab + 31) / 32;
    mask_ends(gc, gc->of->mask);
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

/* Fill the mask of the current place in about n_work steps at most. */
static enum grammar_made make_mask(struct grammar_constraint *gc, void *mask, int64_t n_work)
{
    enum grammar_made made = forced_within(gc, &gc->place, n_work);
    if (made != GRAMMAR_MADE || forced_mask(gc, mask)) return made;
    made = grammar_mask_within(gc->of->g, gc->place.state, gc->of->mask, n_work);
    if (made != GRAMMAR_MADE) return made;
    return check_limits(gc) && complete_mask(gc, mask) ? GRAMMAR_MADE : GRAMMAR_FAILED;
}

static bool op_mask(struct constraint *c, uint32_t *mask)
{
    return run((struct grammar_constraint *)c, make_mask, mask, ALL_WORK) == GRAMMAR_MADE;
}

static enum constraint_made made_of(enum grammar_made made)
{
    return made == GRAMMAR_MADE    ? CONSTRAINT_MADE
           : made == GRAMMAR_LATER ? CONSTRAINT_LATER
                                   : CONSTRAINT_FAILED;
}

/* Fill the mask within n_work. A call with n_work of at most CONSTRAINT_STEP_WORK is part of a
 * step. Add the work of a call in a step to `owed`. */
static enum constraint_made op_mask_within(struct constraint *c, uint32_t *mask, int64_t n_work)
{
    struct grammar_constraint *gc = (struct grammar_constraint *)c;
    if (n_work > CONSTRAINT_STEP_WORK) return made_of(run(gc, make_mask, mask, n_work));
    n_work = work_begin(gc->of, n_work);
    int64_t before = grammar_work(gc->of->g);
    /* a step does not move to another grammar */
    enum grammar_made made = run(gc, make_mask, mask, n_work);
    gc->of->owed += grammar_work(gc->of->g) - before;
    return made_of(made);
}

/* ---- picked tokens ---- */

/* Append a token to the text. */
static void add_token(struct grammar_constraint *gc, int32_t token)
{
    gc->recent[gc->n++ % RECENT_MAX] = token;
    change_text(gc);
}

struct attempt {
    int32_t token;
    struct grammar_place to;
};

static enum grammar_made try_token(struct grammar_constraint *gc, void *arg, int64_t n_work)
{
    struct attempt *a = arg;
    a->to = gc->place;
    enum grammar_made made = advance(gc, &a->to, a->token, n_work);
    return made == GRAMMAR_MADE && !check_limits(gc) ? GRAMMAR_FAILED : made;
}

static bool is_token(const struct grammar_constraint *gc, int32_t token)
{
    return token >= 0 && token < tokenizer_n_vocab(gc->vocab->t);
}

static enum constraint_made op_accept_within(struct constraint *c, int32_t token, int64_t n_work)
{
    struct grammar_constraint *gc = (struct grammar_constraint *)c;
    struct attempt a = {.token = token};
    if (!is_token(gc, token)) return CONSTRAINT_FAILED;
    enum grammar_made made = run(gc, try_token, &a, n_work);
    if (made != GRAMMAR_MADE) return made_of(made);
    gc->past[gc->n % CONSTRAINT_BACK_MAX] = gc->place;
    gc->place = a.to;
    gc->n_settled++;
    add_token(gc, token);
    return CONSTRAINT_MADE;
}

/* Return true if cached results show that the token is allowed. */
static bool is_known(const struct grammar_constraint *gc, int32_t token)
{
    if (gc->n_settled < gc->n || forced_within(gc, &gc->place, 0) != GRAMMAR_MADE) return false;
    int32_t forced = forced_at(gc, &gc->place);
    return forced >= 0 ? token == forced : grammar_allows(gc->of->g, gc->place.state, token);
}

/* Accept a picked token. The mask before the token is cached. The grammar accepts the token now if
 * the transitions of the token are cached. Otherwise the next mask does the work of the
 * transitions, in parts. */
static bool op_accept(struct constraint *c, int32_t token)
{
    struct grammar_constraint *gc = (struct grammar_constraint *)c;
    if (gc->failure || !is_token(gc, token)) return false;
    if (!is_known(gc, token)) return op_accept_within(c, token, ALL_WORK) == CONSTRAINT_MADE;
    add_token(gc, token);
    if (!is_used_up(gc)) settle(gc, 0);
    return true;
}

static bool op_no_memory(const struct constraint *c)
{
    const struct grammar_constraint *gc = (const struct grammar_constraint *)c;
    const int rc = gc->failure ? gc->failure : grammar_failure(gc->of->g, NULL);
    return rc == ERR_MEMORY || rc == ERR_BUSY;
}

static void op_rollback(struct constraint *c, int n)
{
    struct grammar_constraint *gc = (struct grammar_constraint *)c;
    if (n == 0) return;
    gc->n -= (unsigned)n;
    change_text(gc);
    if (gc->n_settled <= gc->n) return;
    gc->n_settled = gc->n;
    gc->place = gc->past[gc->n % CONSTRAINT_BACK_MAX];
}

static const struct constraint_ops grammar_constraint_ops = {
    .fork = op_fork,
    .close = op_close,
    .follow = op_follow,
    .mask = op_mask,
    .mask_within = op_mask_within,
    .accept = op_accept,
    .accept_within = op_accept_within,
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
                       "a constraint needs a token that ends answers; this model has no end token");
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
    change_text(c);
    *out = &c->base;
    return 0;
}
