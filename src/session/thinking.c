/* thinking.c - a maximum number of tokens of reasoning (thinking.h). A sequence is in one of these
 * states:
 *
 *   FREE   the mask is the mask of the inner constraint, or all tokens
 *      --the reasoning has `budget` tokens-->
 *   DUE    at the next mask or token: CLOSE if the closing mark may follow, FREE if not
 *   CLOSE  the mask is the next token of the closing mark
 *      --its last token--> FREE, after the reasoning
 *
 * The closing mark may not follow in the middle of a character, or if the inner constraint rejects
 * it. A copy of the inner constraint tries the mark, so that no rollback is lost. The work of the
 * copy is limited like the work of a mask. A grammar rejects the mark only in the middle of a
 * character. In this case, reasoning continues up to the first token that ends with a whole
 * character. Without a grammar, reasoning exceeds the budget by at most WAIT_MAX tokens. */
#include "thinking.h"

#include <stdlib.h>
#include <string.h>

enum { CLOSE_MAX = 24, WAIT_MAX = 3 };

/* State of the reasoning after a token. It is copied for each token, so that a rejected draft can
 * be undone. */
struct thought {
    struct chat_track track;
    int n;                 /* number of tokens inside the reasoning */
    unsigned char n_close; /* number of accepted tokens of the closing mark */
    unsigned char n_tail;  /* number of bytes that the last character lacks */
    bool due, closing;
};

struct thinking {
    struct constraint base;
    /* owned; NULL if there is no other constraint. probe: fork that tries the closing mark */
    struct constraint *inner, *probe;
    const struct tokenizer *t; /* borrowed */
    int n_vocab, budget;
    int32_t close[CLOSE_MAX]; /* tokens of the closing mark [n_close] */
    int n_close;
    struct thought now;
    struct thought past[CONSTRAINT_BACK_MAX]; /* ring buffer: states before the last tokens */
    unsigned n;                               /* number of accepted tokens */
};

static const struct constraint_ops thinking_ops;
static const int64_t ALL_WORK = INT64_MAX / 4;

/* Return the inner constraint with the settings of the outer one. */
static struct constraint *inner_of(const struct thinking *c)
{
    if (c->inner) {
        c->inner->any_spelling = c->base.any_spelling;
        c->inner->text = c->base.text;
    }
    return c->inner;
}

static void op_close(struct constraint *constraint)
{
    struct thinking *c = (struct thinking *)constraint;
    if (c->inner) c->inner->op->close(c->inner);
    if (c->probe) c->probe->op->close(c->probe);
    free(c);
}

/* Fork the inner constraint of `from`, for c. Return false if memory is exhausted. */
static bool fork_inner(struct thinking *c, const struct constraint *from)
{
    c->inner = from ? from->op->fork(from) : NULL;
    c->probe = from ? from->op->fork(from) : NULL;
    if (!from) return true;
    if (!c->inner || !c->probe) return false;
    c->base.n_byte = (int64_t)sizeof *c + c->inner->n_byte + c->probe->n_byte;
    return true;
}

static struct constraint *op_fork(const struct constraint *constraint)
{
    const struct thinking *c = (const struct thinking *)constraint;
    struct thinking *fork = malloc(sizeof *fork);
    if (!fork) return NULL;
    *fork = *c;
    fork->inner = fork->probe = NULL;
    fork->base.n_byte = sizeof *fork;
    if (fork_inner(fork, c->inner)) return &fork->base;
    op_close(&fork->base);
    return NULL;
}

static void op_follow(struct constraint *constraint, const struct constraint *other)
{
    struct thinking *c = (struct thinking *)constraint;
    const struct thinking *from = (const struct thinking *)other;
    if (c->inner) c->inner->op->follow(c->inner, from->inner);
    c->now = from->now;
    c->n = from->n;
    memcpy(c->past, from->past, sizeof c->past);
}

/* ---- the state ---- */

/* Count the bytes that the last character of a text lacks. A byte that cannot follow ends the
 * character. */
static void count_tail(struct thought *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)text[i];
        if (b >= 0xC0)
            s->n_tail = b >= 0xF0 ? 3 : b >= 0xE0 ? 2 : 1;
        else
            s->n_tail = b >= 0x80 && s->n_tail ? s->n_tail - 1 : 0;
    }
}

/* Accept a token in an inner constraint if about n_work units of work suffice. */
static enum constraint_made accept_inner(struct constraint *inner, int32_t token, int64_t n_work)
{
    if (inner->op->accept_within) return inner->op->accept_within(inner, token, n_work);
    return inner->op->accept(inner, token) ? CONSTRAINT_MADE : CONSTRAINT_FAILED;
}

/* Return MADE if the inner constraint allows the closing mark now, FAILED if not, and LATER if
 * about n_work units of work do not suffice. */
static enum constraint_made mark_may_follow(const struct thinking *c, int64_t n_work)
{
    struct constraint *inner = inner_of(c);
    enum constraint_made made = CONSTRAINT_MADE;
    if (!inner) {
        bool may = c->now.n_tail == 0 || c->now.n >= c->budget + WAIT_MAX;
        return may ? CONSTRAINT_MADE : CONSTRAINT_FAILED;
    }
    c->probe->op->follow(c->probe, inner);
    c->probe->any_spelling = inner->any_spelling;
    c->probe->text = inner->text;
    for (int i = 0; i < c->n_close && made == CONSTRAINT_MADE; i++)
        made = accept_inner(c->probe, c->close[i], n_work / c->n_close);
    return made;
}

/* Begin the closing mark if it is due and allowed here. Return false if about n_work units of work
 * do not suffice. */
static bool decide(struct thinking *c, int64_t n_work)
{
    struct thought *s = &c->now;
    enum constraint_made made = s->due ? mark_may_follow(c, n_work) : CONSTRAINT_FAILED;
    if (made == CONSTRAINT_LATER) return false;
    if (made == CONSTRAINT_MADE) {
        s->closing = true;
        s->n_close = 0;
    }
    s->due = false;
    return true;
}

/* Return true if the budget is spent, so that the closing mark must follow if it may. */
static bool is_due(const struct thinking *c)
{
    const struct thought *s = &c->now;
    return !s->closing && chat_track_inside(&s->track) && s->n >= c->budget;
}

/* Advance the state by a token, which the inner constraint has accepted. */
static void advance(struct thinking *c, int32_t token)
{
    struct thought *s = &c->now;
    size_t n = 0;
    const char *text = tokenizer_bytes(c->t, token, &n);
    bool inside = chat_track_inside(&s->track);
    if (chat_track_ended(&s->track)) return;
    if (tokenizer_is_eog(c->t, token)) n = 0; /* with ignore_eos, an end token has no text */
    chat_track_push(&s->track, text, n);
    count_tail(s, text, n);
    if (s->closing) {
        if (++s->n_close == c->n_close) s->closing = false;
    } else if (inside && chat_track_inside(&s->track)) {
        s->n++;
    }
    s->due = is_due(c);
}

/* Return true if the begun closing mark or the vocabulary excludes the token. */
static bool is_excluded(const struct thinking *c, int32_t token)
{
    if (token < 0 || token >= c->n_vocab) return true;
    return c->now.closing && token != c->close[c->now.n_close];
}

/* Add a token, which the inner constraint has accepted. */
static void add_token(struct thinking *c, int32_t token)
{
    c->past[c->n++ % CONSTRAINT_BACK_MAX] = c->now;
    advance(c, token);
}

static bool op_accept(struct constraint *constraint, int32_t token)
{
    struct thinking *c = (struct thinking *)constraint;
    struct constraint *inner = inner_of(c);
    if (!decide(c, ALL_WORK) || is_excluded(c, token)) return false;
    if (inner && !inner->op->accept(inner, token)) return false;
    add_token(c, token);
    return true;
}

static enum constraint_made op_accept_within(struct constraint *constraint, int32_t token,
                                             int64_t n_work)
{
    struct thinking *c = (struct thinking *)constraint;
    struct constraint *inner = inner_of(c);
    if (!decide(c, n_work)) return CONSTRAINT_LATER;
    if (is_excluded(c, token)) return CONSTRAINT_FAILED;
    enum constraint_made made = inner ? accept_inner(inner, token, n_work) : CONSTRAINT_MADE;
    if (made == CONSTRAINT_MADE) add_token(c, token);
    return made;
}

static void op_rollback(struct constraint *constraint, int n)
{
    struct thinking *c = (struct thinking *)constraint;
    if (n == 0) return;
    if (c->inner) c->inner->op->rollback(c->inner, n);
    c->n -= (unsigned)n;
    c->now = c->past[c->n % CONSTRAINT_BACK_MAX];
}

/* ---- masks ---- */

/* Fill a mask that does not depend on the inner constraint. Return false if the mask depends on the
 * inner constraint. */
static bool own_mask(const struct thinking *c, uint32_t *mask)
{
    const int n_word = (c->n_vocab + 31) / 32;
    if (!c->now.closing && c->inner) return false;
    memset(mask, c->now.closing ? 0 : 0xFF, (size_t)n_word * sizeof *mask);
    const int32_t token = c->close[c->now.n_close];
    if (c->now.closing)
        mask[token / 32] = 1u << token % 32;
    else if (c->n_vocab % 32)
        mask[n_word - 1] = (1u << c->n_vocab % 32) - 1;
    return true;
}

static bool op_mask(struct constraint *constraint, uint32_t *mask)
{
    struct thinking *c = (struct thinking *)constraint;
    struct constraint *inner = inner_of(c);
    return decide(c, ALL_WORK) && (own_mask(c, mask) || inner->op->mask(inner, mask));
}

static enum constraint_made op_mask_within(struct constraint *constraint, uint32_t *mask,
                                           int64_t n_work)
{
    struct thinking *c = (struct thinking *)constraint;
    struct constraint *inner = inner_of(c);
    if (!decide(c, n_work)) return CONSTRAINT_LATER;
    if (own_mask(c, mask)) return CONSTRAINT_MADE;
    if (inner->op->mask_within) return inner->op->mask_within(inner, mask, n_work);
    return inner->op->mask(inner, mask) ? CONSTRAINT_MADE : CONSTRAINT_FAILED;
}

/* Get up to n forced tokens. Before the end of the reasoning, only the closing mark gives forced
 * tokens, because forced tokens of the inner constraint would need a count. The masks allow the
 * same tokens. */
static int op_forced(struct constraint *constraint, int32_t *token, int n, int64_t *n_work)
{
    struct thinking *c = (struct thinking *)constraint;
    struct constraint *inner = inner_of(c);
    const struct thought *s = &c->now;
    int k = 0;
    if (!decide(c, *n_work)) return 0;
    for (int i = s->n_close; s->closing && i < c->n_close && k < n; i++) token[k++] = c->close[i];
    if (k > 0 || !inner || !inner->op->forced || !chat_track_ended(&s->track)) return k;
    return inner->op->forced(inner, token, n, n_work);
}

static bool op_no_memory(const struct constraint *constraint)
{
    const struct constraint *inner = ((const struct thinking *)constraint)->inner;
    return inner && inner->op->no_memory && inner->op->no_memory(inner);
}

static const struct constraint_ops thinking_ops = {
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

/* Set the tokens of the closing mark: special tokens if the vocabulary has them. */
static int read_close(struct thinking *c, struct err *e)
{
    struct ids ids = {0};
    const char *mark = chat_track_end_mark(&c->now.track);
    int rc =
        tokenizer_encode(c->t, mark, strlen(mark), ENCODE_PARSE_SPECIAL | ENCODE_CONTINUE, &ids, e);
    bool known = ids.n > 0 && ids.n <= CLOSE_MAX && !tokenizer_joins(c->t);
    for (size_t i = 0; i < ids.n; i++) known &= ids.v[i] >= 0 && ids.v[i] < c->n_vocab;
    if (rc == 0 && !known)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "the mark \"%s\": not supported by this model's vocabulary", mark);
    if (rc == 0) memcpy(c->close, ids.v, ids.n * sizeof *ids.v);
    c->n_close = (int)ids.n;
    vec_deinit(&ids);
    return rc;
}

int thinking_open(struct constraint **out, const struct thinking_options *o,
                  struct constraint *take_inner, struct err *e)
{
    struct thinking *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) {
        if (take_inner) take_inner->op->close(take_inner);
        return err_memory(e, "a constraint", sizeof *c);
    }
    *c = (struct thinking){.base = {.op = &thinking_ops, .n_byte = sizeof *c},
                           .t = o->tokenizer,
                           .n_vocab = o->n_vocab,
                           .budget = o->budget,
                           .now = {.track = o->track}};
    int rc = 0;
    if (take_inner) {
        c->base.shared = take_inner->shared;
        if (!fork_inner(c, take_inner)) rc = err_memory(e, "a constraint", sizeof *c);
        take_inner->op->close(take_inner);
    }
    if (rc == 0) rc = read_close(c, e);
    if (rc == 0)
        c->now.due = is_due(c), *out = &c->base;
    else
        op_close(&c->base);
    return rc;
}
