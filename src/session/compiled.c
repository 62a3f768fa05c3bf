/* compiled.c - the cache of compiled grammars; see compiled.h.
 *
 *   PENDING --compiled--> READY, in the cache until it is the least recently used
 *      '----rejected----> FAILED, not in the cache; requests that waited get the same error
 *
 * The lock protects the list and the stages. It is released while a grammar is compiled. */
#include "compiled.h"

#include "base/cancel.h"
#include "base/hash.h"
#include "base/os.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_NS = 20 * 1000 * 1000 };
static const int64_t BYTES_LEAST = 256ll << 20, BYTES_MOST = 2048ll << 20, SHARE = 8;

struct compiled_cache {
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* signals a change of an entry's stage */
    struct compiled **entry; /* owned [n_max]; the most recently used first */
    int n, n_max;
    int64_t byte_max;
    atomic_llong n_byte; /* memory of all grammars, in bytes */
    int64_t n_hit, n_miss;
};

struct compiled_cache *compiled_cache_open(int n_max, int64_t byte_max)
{
    struct compiled_cache *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    int64_t part = (int64_t)(os_memory_bytes() / (uint64_t)SHARE);
    if (byte_max == 0)
        byte_max = part < BYTES_LEAST ? BYTES_LEAST : part < BYTES_MOST ? part : BYTES_MOST;
    c->n_max = n_max;
    c->byte_max = byte_max;
    c->entry = calloc((size_t)n_max, sizeof(struct compiled *));
    if (!c->entry) return free(c), NULL;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    return c;
}

void compiled_cache_close(struct compiled_cache *c)
{
    if (!c) return;
    for (int i = 0; i < c->n; i++) compiled_drop(c->entry[i]);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->entry);
    free(c);
}

/* ---- keys ---- */

/* Return true if the strings are equal, or both are NULL. */
static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Return true if the options are equal. Options with `import` never are. */
static bool same_options(const struct grammar_options *a, const struct grammar_options *b)
{
    const struct grammar_limits *l = &a->limits, *k = &b->limits;
    return a->any_order == b->any_order && a->no_white_space == b->no_white_space &&
           a->no_additional == b->no_additional && a->plain == b->plain && a->vocab == b->vocab &&
           same_text(a->start, b->start) && !a->import && !b->import &&
           l->n_text_max == k->n_text_max && l->n_byte_max == k->n_byte_max &&
           l->n_state_max == k->n_state_max && l->us_max == k->us_max &&
           l->n_work_max == k->n_work_max;
}

static bool same_key(const struct compiled_key *a, const struct compiled_key *b)
{
    return a->hash == b->hash && a->kind == b->kind && a->n == b->n && same_options(&a->o, &b->o) &&
           (a->n == 0 || memcmp(a->text, b->text, a->n) == 0);
}

/* Return true if g is the grammar of k and is not worn. */
static bool is_for(const struct compiled *g, const struct compiled_key *k)
{
    return !atomic_load(&g->worn) && same_key(&g->key, k);
}

/* ---- entries ---- */

static void destroy(struct compiled *g)
{
    atomic_fetch_sub(&g->cache->n_byte, atomic_load(&g->n_byte));
    grammar_close(g->g);
    free(g->mask);
    free(g->key.text);
    free((char *)g->key.o.start);
    free(g);
}

void compiled_drop(struct compiled *g)
{
    if (g && atomic_fetch_sub(&g->n_user, 1) == 1) destroy(g);
}

struct compiled *compiled_share(struct compiled *g)
{
    atomic_fetch_add(&g->n_user, 1);
    return g;
}

void compiled_count(struct compiled *g)
{
    if (grammar_worn(g->g)) atomic_store(&g->worn, true);
    long long now = (long long)(sizeof *g + g->key.n + g->n_mask / 8 + grammar_bytes(g->g));
    atomic_fetch_add(&g->cache->n_byte, now - atomic_exchange(&g->n_byte, now));
}

/* Return a pending entry with copies of the key's texts, and one user. NULL if memory is
 * exhausted. */
static struct compiled *entry_new(struct compiled_cache *c, const struct compiled_key *k,
                                  int n_mask)
{
    struct compiled *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->cache = c;
    g->key = *k;
    g->n_mask = (size_t)n_mask;
    g->key.text = malloc(k->n + 1);
    g->key.o.start = k->o.start ? strdup(k->o.start) : NULL;
    g->mask = calloc((size_t)n_mask / 64 + 1, sizeof *g->mask);
    atomic_store(&g->n_user, 1);
    if (g->key.text && g->mask && (g->key.o.start || !k->o.start)) {
        if (k->n) memcpy(g->key.text, k->text, k->n);
        return g;
    }
    destroy(g);
    return NULL;
}

/* ---- the list; the caller holds the lock ---- */

static void to_front(struct compiled_cache *c, int i)
{
    struct compiled *g = c->entry[i];
    memmove(c->entry + 1, c->entry, (size_t)i * sizeof(struct compiled *));
    c->entry[0] = g;
}

/* Remove entry i from the list. Return it, with the cache's use of it. */
static struct compiled *take_out(struct compiled_cache *c, int i)
{
    struct compiled *g = c->entry[i];
    memmove(c->entry + i, c->entry + i + 1, (size_t)(--c->n - i) * sizeof(struct compiled *));
    return g;
}

/* Return the index of an entry for k; c->n if there is none. */
static int find(const struct compiled_cache *c, const struct compiled_key *k)
{
    int i = 0;
    while (i < c->n && !is_for(c->entry[i], k)) i++;
    return i;
}

/* Drop the least recently used entry that is not pending. idle: only an entry without other
 * users. Return false if there is none. */
static bool evict(struct compiled_cache *c, bool idle)
{
    for (int i = c->n - 1; i >= 0; i--) {
        struct compiled *g = c->entry[i];
        if (g->stage == COMPILED_PENDING || (idle && atomic_load(&g->n_user) > 1)) continue;
        compiled_drop(take_out(c, i));
        return true;
    }
    return false;
}

/* Add an entry to the front. It stays out of the cache if all entries are pending. */
static void insert(struct compiled_cache *c, struct compiled *g)
{
    if (c->n == c->n_max && !evict(c, true) && !evict(c, false)) return;
    c->entry[c->n++] = compiled_share(g);
    to_front(c, c->n - 1);
}

/* Wait until g is compiled; the lock is released meanwhile. Return false if the client of this
 * thread has disconnected. */
static bool wait_for(struct compiled_cache *c, const struct compiled *g)
{
    while (g->stage == COMPILED_PENDING) {
        struct timespec until;
        if (cancelled()) return false;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WAIT_NS;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&c->changed, &c->lock, &until);
    }
    return true;
}

/* ---- compiling ---- */

/* Compile a grammar, and cache its first mask if it has a vocabulary. */
static int compile(struct compiled *g, struct err *e)
{
    int rc = grammar_open(&g->g, g->key.kind, g->key.text, g->key.n, &g->key.o, e);
    if (rc != 0) return rc;
    g->first = grammar_begin(g->g);
    if (g->key.o.vocab && grammar_failure(g->g, NULL) == 0) grammar_mask(g->g, g->first, g->mask);
    rc = grammar_failure(g->g, e); /* its first state or mask may exceed a limit */
    compiled_count(g);
    return rc;
}

/* Compile the new entry g. The caller holds the lock, which is released meanwhile. A failed
 * entry is removed from the cache. */
static int compile_unlocked(struct compiled_cache *c, struct compiled *g, struct err *e)
{
    struct err why = {0};
    pthread_mutex_unlock(&c->lock);
    int rc = compile(g, &why);
    pthread_mutex_lock(&c->lock);
    g->stage = rc ? COMPILED_FAILED : COMPILED_READY;
    g->rc = rc;
    g->why = why;
    for (int i = 0; rc && i < c->n; i++)
        if (c->entry[i] == g) compiled_drop(take_out(c, i));
    pthread_cond_broadcast(&c->changed);
    return rc ? err_set(e, rc, "%s", why.text) : 0;
}

/* Make an entry for k and compile it. ERR_BUSY if the grammars in use exceed the memory. *out:
 * one user. */
static int make(struct compiled **out, struct compiled_cache *c, const struct compiled_key *k,
                int n_mask, struct err *e)
{
    while (atomic_load(&c->n_byte) > c->byte_max && evict(c, true)) continue;
    if (atomic_load(&c->n_byte) > c->byte_max)
        return err_set(e, ERR_BUSY, "the grammars in use hold more than %lld MiB; retry later",
                       (long long)c->byte_max >> 20);
    struct compiled *g = entry_new(c, k, n_mask);
    if (!g) return err_memory(e, "a grammar", k->n);
    c->n_miss++;
    if (!k->o.import) insert(c, g);
    int rc = compile_unlocked(c, g, e);
    if (rc == 0) *out = g;
    if (rc != 0) compiled_drop(g);
    return rc;
}

/* Wait for entry i and share it: *out on success, else the error in *rc. Return false if the
 * entry failed with ERR_BUSY or ERR_MEMORY. This is a failure of the request that compiled it,
 * so the caller tries again. */
static bool share(struct compiled **out, struct compiled_cache *c, int i, int *rc, struct err *e)
{
    struct compiled *g = compiled_share(c->entry[i]);
    to_front(c, i);
    *rc = wait_for(c, g) ? g->rc : err_cancelled(e);
    bool own = *rc == 0 || g->stage == COMPILED_PENDING;
    bool same = own || (*rc != ERR_BUSY && *rc != ERR_MEMORY);
    if (!own && same) err_set(e, *rc, "%s", g->why.text);
    if (*rc == 0) *out = g, c->n_hit++;
    if (*rc != 0) compiled_drop(g);
    return same;
}

int compiled_get(struct compiled **out, struct compiled_cache *c, enum grammar_kind kind,
                 const char *text, size_t n, const struct grammar_options *o, int n_mask,
                 struct err *e)
{
    struct compiled_key k = {.kind = kind, .o = *o, .text = (char *)text, .n = text ? n : 0};
    bool done = false;
    int rc = 0;
    k.hash = hash_bytes(text, k.n, (uint64_t)kind);
    *out = NULL;
    pthread_mutex_lock(&c->lock);
    while (!done) {
        int i = find(c, &k);
        done = i < c->n ? share(out, c, i, &rc, e) : (rc = make(out, c, &k, n_mask, e), true);
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

struct compiled_counts compiled_counts(struct compiled_cache *c)
{
    pthread_mutex_lock(&c->lock);
    struct compiled_counts n = {c->n_hit, c->n_miss, atomic_load(&c->n_byte), c->n};
    pthread_mutex_unlock(&c->lock);
    return n;
}
