/* grammar.c - the functions of grammar.h: calls of the front ends and the machine, and a cache of
 * masks.
 *
 * A schema has its own front end (schema.h). Every other kind is parsed into rules (cfg.h). A state
 * is the number of a machine's config. */
#include "grammar_in.h"

#include "gbnf.h"
#include "lark.h"
#include "mask.h"
#include "regex.h"
#include "schema.h"
#include "tag.h"

#include <stdlib.h>
#include <string.h>

/* Limits of an automaton. A grammar can need more configs, threads in a config or nested rules than
 * fit into memory. A text that would exceed a limit is not allowed. MASK_BYTES_MAX: maximum size of
 * the cached masks, or 1,600 masks of 160,000 tokens. grammar.h describes the limits that options
 * can change. */
enum { CONFIGS_MAX = 1000000, THREADS_MAX = 2000, STACK_MAX = 2000, MASK_BYTES_MAX = 32 << 20 };
static const struct grammar_limits GRAMMAR_LIMITS = {.text_max = 4 << 20,
                                                     .bytes_max = 256 << 20,
                                                     .state_max = 200000,
                                                     .us_max = 1000000,
                                                     .work_max = 40000000};

/* ---- vocabulary ---- */

/* Return the bytes of a token. NULL for special tokens, and for tokens with the byte FF, which
 * marks tokens in grammars (gbnf.h). */
static const char *token_bytes(const void *arg, int32_t id, size_t *n)
{
    const struct tokenizer *t = arg;
    *n = 0;
    if (tokenizer_is_special(t, id) || tokenizer_is_eog(t, id)) return NULL;
    const char *text = tokenizer_bytes(t, id, n);
    if (text && memchr(text, TOKEN_MARK, *n)) *n = 0;
    return *n ? text : NULL;
}

struct grammar_vocab *grammar_vocab_open(const struct tokenizer *t)
{
    struct grammar_vocab *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    v->t = t;
    if (vocab_open(&v->v, tokenizer_n_vocab(t), token_bytes, t)) return v;
    free(v);
    return NULL;
}

void grammar_vocab_close(struct grammar_vocab *v)
{
    if (v) vocab_close(&v->v);
    free(v);
}

/* Return the id of a token by its text; -1 if not found. */
static int32_t token_id(const void *arg, const char *text, size_t n)
{
    const struct grammar_vocab *v = arg;
    return v ? tokenizer_find(v->t, text, n) : -1;
}

/* ---- front ends ---- */

static int open_regex(struct cfg *g, const char *text, size_t n, struct err *e)
{
    struct regex_langs l;
    int rc = regex_parse(&g->m.x, text, n, REGEX_RUST, &l, e);
    if (rc) return rc;
    cfg_add(g, cfg_rule_new(g), (struct cfg_item[]){{false, l.whole}}, 1);
    return cfg_finish(g, e);
}

/* Add a rule with one alternative per item of a JSON list of strings. */
static int open_choice(struct cfg *g, const char *text, size_t n, struct err *e)
{
    struct json *list = NULL;
    int rc = json_parse(&list, text, n, NULL, e);
    if (rc) return rc;
    if (json_kind(list) != JK_LIST || json_count(list) == 0)
        rc = err_field(e, ERR_FORMAT, "choice", ": expected a list of strings, got %s",
                       json_kind(list) == JK_LIST ? "an empty list"
                                                  : json_kind_name(json_kind(list)));
    VEC(uint32_t) v = {0};
    for (size_t i = 0; rc == 0 && i < json_count(list); i++) {
        size_t n_one;
        const char *one = json_text(json_item(list, i), &n_one);
        if (!one)
            rc = err_field(e, ERR_FORMAT, "choice", "[%zu]: expected a string, got %s", i,
                           json_kind_name(json_kind(json_item(list, i))));
        else if (!vec_push(&v, expr_bytes(&g->m.x, one, n_one)))
            rc = err_memory(e, "a choice", n);
    }
    if (rc == 0)
        cfg_add(g, cfg_rule_new(g), (struct cfg_item[]){{false, expr_or_list(&g->m.x, v.v, v.n)}},
                1);
    vec_deinit(&v);
    json_drop(list);
    return rc ? rc : cfg_finish(g, e);
}

static int open_lark(struct grammar *g, const char *text, size_t n, const struct grammar_options *o,
                     struct err *e)
{
    struct lark_options l = {o->start, token_id, g->vocab, o->import, o->import_arg};
    return lark_parse(&g->cfg, text, n, &l, e);
}

static struct schema_options schema_options(const struct grammar_options *o)
{
    return (struct schema_options){.any_order = o->any_order,
                                   .no_white_space = o->no_white_space,
                                   .white_space = o->white_space,
                                   .no_additional = o->no_additional,
                                   .plain = o->plain,
                                   .check_format = true,
                                   .draft = DRAFT_2020};
}

static int open_cfg(struct grammar *g, enum grammar_kind kind, const char *text, size_t n,
                    const struct grammar_options *o, struct expr_limits x, struct machine_limits m,
                    struct err *e)
{
    if (!cfg_open(&g->cfg, x, m)) return err_memory(e, "a grammar", n);
    g->m = &g->cfg.m;
    if (kind == GRAMMAR_REGEX) return open_regex(&g->cfg, text, n, e);
    if (kind == GRAMMAR_CHOICE) return open_choice(&g->cfg, text, n, e);
    if (kind == GRAMMAR_TAG) {
        struct tag_options t = {schema_options(o), m, token_id, g->vocab};
        return tag_parse(&g->cfg, text, n, &t, e);
    }
    if (kind == GRAMMAR_LARK) return open_lark(g, text, n, o, e);
    return gbnf_parse(&g->cfg, text, n, token_id, g->vocab, e);
}

static int open_schema(struct grammar *g, const char *text, size_t n,
                       const struct grammar_options *o, struct expr_limits x,
                       struct machine_limits m, struct err *e)
{
    struct schema_options opt = schema_options(o);
    g->is_schema = true;
    int rc = schema_open(&g->schema, text, n, &opt, x, m, e);
    g->m = rc == 0 ? &g->schema.m : NULL;
    return rc;
}

/* Return the given limits, with defaults for those that are 0. */
static struct grammar_limits limits_of(const struct grammar_limits *given)
{
    struct grammar_limits l = *given;
    if (!l.text_max) l.text_max = GRAMMAR_LIMITS.text_max;
    if (!l.bytes_max) l.bytes_max = GRAMMAR_LIMITS.bytes_max;
    if (!l.state_max) l.state_max = GRAMMAR_LIMITS.state_max;
    if (!l.us_max) l.us_max = GRAMMAR_LIMITS.us_max;
    if (!l.work_max) l.work_max = GRAMMAR_LIMITS.work_max;
    return l;
}

int grammar_open(struct grammar **out, enum grammar_kind kind, const char *text, size_t n,
                 const struct grammar_options *o, struct err *e)
{
    static const char object[] = "{\"type\": \"object\"}";
    struct grammar *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g) return err_memory(e, "a grammar", sizeof *g);
    const struct grammar_limits limit = limits_of(&o->limits);
    struct expr_limits x = {.bytes_max = limit.bytes_max,
                            .row_max = limit.state_max,
                            .us_max = limit.us_max,
                            .grow = limit.grow,
                            .grow_arg = limit.grow_arg};
    struct machine_limits m = {CONFIGS_MAX, CONFIGS_MAX, THREADS_MAX, STACK_MAX};
    g->vocab = o->vocab;
    if (kind == GRAMMAR_OBJECT) text = object, n = sizeof object - 1;
    if (n > limit.text_max) {
        grammar_close(g);
        return err_set(e, ERR_LIMIT, "the constraint has %zu bytes, more than %zu", n,
                       limit.text_max);
    }
    bool is_schema = kind == GRAMMAR_SCHEMA || kind == GRAMMAR_OBJECT;
    int rc =
        is_schema ? open_schema(g, text, n, o, x, m, e) : open_cfg(g, kind, text, n, o, x, m, e);
    /* exhausted memory takes precedence, because it causes errors of the parser */
    if (rc != 0 && g->m && g->m->x.failed == EXPR_NO_MEMORY) rc = exprs_error(&g->m->x, e);
    if (rc == 0) {
        /* from now on, limit only the number of steps, which is equal on every machine */
        g->m->x.limit.us_max = 0;
        g->m->x.limit.work_max = limit.work_max;
        *out = g;
    } else {
        grammar_close(g);
    }
    return rc;
}

static void drop_masks(struct grammar *g)
{
    for (size_t i = 0; i < g->cap_mask; i++) free(g->mask[i]), g->mask[i] = NULL;
    g->n_mask = 0;
}

void grammar_close(struct grammar *g)
{
    if (!g) return;
    if (g->is_schema)
        schema_close(&g->schema);
    else
        cfg_close(&g->cfg);
    drop_masks(g);
    free(g->mask);
    free(g->forced);
    vec_deinit(&g->forced_token);
    free(g);
}

/* ---- states ---- */

uint32_t grammar_begin(struct grammar *g)
{
    exprs_resume(&g->m->x);
    return machine_begin(g->m, g->is_schema ? schema_root(&g->schema) : 0);
}

uint32_t grammar_accept(struct grammar *g, uint32_t state, const char *text, size_t n,
                        size_t *n_used)
{
    size_t i = 0;
    exprs_resume(&g->m->x);
    for (; i < n && state != GRAMMAR_DEAD; i++) {
        uint32_t next = machine_next(g->m, state, (uint8_t)text[i]);
        if (next == CONFIG_DEAD) break;
        state = next;
    }
    if (n_used) *n_used = i;
    return i == n ? state : GRAMMAR_DEAD;
}

/* Begin a piece of work on a state: its mask, or the state after a token. The piece has one limit
 * of work, for any number of calls. Interrupt the piece after n_work more steps; 0: never. */
static void begin_work(struct grammar *g, uint32_t state, int32_t token, int64_t n_work)
{
    if (state == g->late_state && token == g->late_token)
        exprs_repeat(&g->m->x);
    else
        exprs_resume(&g->m->x);
    machine_limit(g->m, n_work);
}

/* End a piece of work. Return GRAMMAR_LATER if it was interrupted. */
static enum grammar_made end_work(struct grammar *g, uint32_t state, int32_t token, bool made)
{
    bool late = g->m->late && !g->m->x.failed;
    machine_limit(g->m, 0);
    g->late_state = late ? state : 0;
    g->late_token = token;
    return late ? GRAMMAR_LATER : made ? GRAMMAR_MADE : GRAMMAR_FAILED;
}

/* Return the state after a token that a rule names by its id (gbnf.h); GRAMMAR_DEAD if no rule
 * names the token. */
static uint32_t accept_mark(struct grammar *g, uint32_t state, int32_t token)
{
    const uint8_t mark[5] = {TOKEN_MARK, (uint8_t)(token >> 24), (uint8_t)(token >> 16),
                             (uint8_t)(token >> 8), (uint8_t)token};
    for (int i = 0; i < 5 && state != GRAMMAR_DEAD && !machine_late(g->m); i++)
        state = machine_next(g->m, state, mark[i]);
    return state;
}

/* Return the state after a token. The result is invalid if the work was interrupted. */
static uint32_t accept_token(struct grammar *g, uint32_t state, int32_t token)
{
    uint32_t as_text = mask_accept(g->m, &g->vocab->v, state, token);
    uint32_t as_mark = g->is_schema ? GRAMMAR_DEAD : accept_mark(g, state, token);
    if (as_text == GRAMMAR_DEAD || as_mark == GRAMMAR_DEAD)
        return as_text == GRAMMAR_DEAD ? as_mark : as_text;
    g->m->late |= g->m->frozen && as_text != as_mark; /* unions are not cached */
    return g->m->late ? GRAMMAR_DEAD : machine_union(g->m, as_text, as_mark);
}

enum grammar_made grammar_accept_within(struct grammar *g, uint32_t state, int32_t token,
                                        int64_t n_work, uint32_t *next)
{
    *next = GRAMMAR_DEAD;
    begin_work(g, state, token, n_work > 0 ? n_work : 1);
    g->m->frozen = n_work <= 0;
    uint32_t to = accept_token(g, state, token);
    g->m->frozen = false;
    enum grammar_made made = end_work(g, state, token, to != GRAMMAR_DEAD && !g->m->x.failed);
    if (made == GRAMMAR_MADE) *next = to;
    return made;
}

uint32_t grammar_accept_token(struct grammar *g, uint32_t state, int32_t token)
{
    exprs_resume(&g->m->x);
    return accept_token(g, state, token);
}

/* Set the tokens that rules name by their ids. `state` follows the first bytes of a mark, which
 * tokens [first, first + step) share. */
static void add_marks(struct grammar *g, uint32_t state, int64_t first, int64_t step,
                      uint64_t *mask)
{
    if (state == GRAMMAR_DEAD || first >= g->vocab->v.n_vocab) return;
    if (step == 1) {
        mask[first >> 6] |= 1ull << (first & 63);
        return;
    }
    for (int b = 0; b < 256; b++)
        add_marks(g, machine_next(g->m, state, (uint8_t)b), first + b * (step >> 8), step >> 8,
                  mask);
}

bool grammar_ends(const struct grammar *g, uint32_t state)
{
    return state != GRAMMAR_DEAD && machine_accepts(g->m, state);
}

/* Return cached memory for the mask of a state; NULL if memory is exhausted. Drop all cached masks
 * if they exceed MASK_BYTES_MAX. */
static uint64_t *keep_mask(struct grammar *g, uint32_t state)
{
    size_t n = (size_t)g->vocab->v.n_word * sizeof(uint64_t);
    if ((g->n_mask + 1) * n > MASK_BYTES_MAX) drop_masks(g);
    size_t cap = g->cap_mask;
    while (cap <= state) cap = cap ? 2 * cap : 256;
    if (cap > g->cap_mask) {
        uint64_t **mask = realloc(g->mask, cap * sizeof *mask);
        if (!mask) return NULL;
        memset(mask + g->cap_mask, 0, (cap - g->cap_mask) * sizeof *mask);
        g->mask = mask, g->cap_mask = cap;
    }
    g->mask[state] = malloc(n);
    g->n_mask += g->mask[state] != NULL;
    return g->mask[state];
}

/* Compute a mask and cache it. Return false if the grammar failed or the work was interrupted
 * (m->late). */
static bool make_mask(struct grammar *g, uint32_t state, uint64_t *mask)
{
    size_t n = (size_t)g->vocab->v.n_word * sizeof *mask;
    if (!mask_fill(g->m, &g->vocab->v, state, mask)) return false;
    if (!g->is_schema)
        add_marks(g, machine_next(g->m, state, TOKEN_MARK), 0, (int64_t)1 << 32, mask);
    if (g->m->x.failed) return false;
    uint64_t *kept = keep_mask(g, state);
    if (kept) memcpy(kept, mask, n);
    return true;
}

/* Return the mask of a state, cached or computed in about n_work steps; 0: no limit. */
static enum grammar_made mask_within(struct grammar *g, uint32_t state, uint64_t *mask,
                                     int64_t n_work)
{
    size_t n = (size_t)g->vocab->v.n_word * sizeof *mask;
    if (state < g->cap_mask && g->mask[state]) return memcpy(mask, g->mask[state], n), GRAMMAR_MADE;
    begin_work(g, state, MASK_LATE, n_work);
    bool made = make_mask(g, state, mask);
    return end_work(g, state, MASK_LATE, made);
}

bool grammar_mask(struct grammar *g, uint32_t state, uint64_t *mask)
{
    return mask_within(g, state, mask, 0) == GRAMMAR_MADE;
}

enum grammar_made grammar_mask_within(struct grammar *g, uint32_t state, uint64_t *mask,
                                      int64_t n_work)
{
    bool kept = state < g->cap_mask && g->mask[state];
    return n_work > 0 || kept ? mask_within(g, state, mask, n_work) : GRAMMAR_LATER;
}

bool grammar_allows(const struct grammar *g, uint32_t state, int32_t token)
{
    return state < g->cap_mask && g->mask[state] && token >= 0 && token < g->vocab->v.n_vocab &&
           g->mask[state][token >> 6] >> (token & 63) & 1;
}

/* ---- limits ---- */

bool grammar_exceeds(struct grammar *g)
{
    return exprs_spent(&g->m->x) > g->m->x.limit.work_max;
}

bool grammar_spent(struct grammar *g)
{
    int64_t max = g->m->x.limit.work_max;
    return exprs_spent_by_all(&g->m->x) > max - max / WORK_SLACK;
}

bool grammar_full(const struct grammar *g)
{
    return exprs_bytes(&g->m->x) > g->m->x.limit.bytes_max;
}

void grammar_forget(struct grammar *g)
{
    exprs_forget(&g->m->x);
}

void grammar_fail(struct grammar *g)
{
    expr_fail(&g->m->x, EXPR_WORK);
}

int64_t grammar_work(const struct grammar *g)
{
    return exprs_work(&g->m->x);
}

bool grammar_worn(struct grammar *g)
{
    struct exprs *x = &g->m->x;
    const struct machine_limits *l = &g->m->limit;
    if (g->m->config.n > l->config_max / 2 || g->m->cell.n > l->stack_max / 2) return true;
    if (exprs_spent_by_all(x) > x->limit.work_max / 2) return true;
    return x->failed || exprs_bytes(x) > x->limit.bytes_max / 2 || x->n_row > x->limit.row_max / 2;
}

size_t grammar_bytes(const struct grammar *g)
{
    size_t masks = g->n_mask * (size_t)(g->vocab ? g->vocab->v.n_word : 0) * sizeof **g->mask;
    size_t forced =
        g->cap_forced * sizeof *g->forced + g->forced_token.cap * sizeof *g->forced_token.v;
    return sizeof *g + exprs_bytes(&g->m->x) + g->m->n_short_byte + g->cap_mask * sizeof *g->mask +
           masks + forced;
}

int grammar_failure(const struct grammar *g, struct err *e)
{
    struct err why;
    int rc = exprs_error(&g->m->x, &why);
    return rc ? err_set(e, rc, "grammar: %s", why.text) : 0;
}
