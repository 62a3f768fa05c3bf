/* compiled.c - the cache of compiled grammars. compiled.h describes the interface.
 *
 *   PENDING --compiled--> READY, in the cache until it is the least recently used
 *      |----too large---> FAILED, in the cache for REFUSED_US; further requests get the same error
 *      '----rejected----> FAILED, not in the cache; waiting requests get the same error
 *
 * The compilation of a grammar that is too large may take all the permitted processor time, so
 * repeated requests must not compile the grammar again. The error is kept for a limited time only,
 * because the processor may have been slow.
 *
 * The cache counts the memory of a grammar while it is compiled and while it runs. The cache evicts
 * grammars without a user if all grammars together exceed bytes_max. The largest grammar of the
 * holder with the most bytes fails if the total is still too large. Therefore a holder that uses at
 * most its share keeps its grammars. A single grammar has only the limits of its options.
 *
 * Grammars are freed without the lock. A thread of low priority frees a grammar if its last user is
 * the engine. The first request starts this thread, so that a step of the engine starts no thread.
 * The next request frees the grammar and tries the start again if the start failed.
 *
 * The lock protects the lists and the stages. The lock is released while a grammar is compiled. */
#include "compiled.h"

#include "base/cancel.h"
#include "base/check.h"
#include "base/cond.h"
#include "base/hash.h"
#include "base/os.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* WAIT_US: time between two checks for a client that has disconnected. 50 checks per second, with a
 * few microseconds each, take less than 0.1 % of a core. A compilation takes up to seconds. SHARE:
 * the default cache has an eighth of the memory, within these bounds. BYTES_MIN has room for one
 * grammar of the maximum size (grammar.c), BYTES_MAX for eight. */
enum { WAIT_US = 20 * 1000 };
/* REFUSED_US: time in which a grammar that is too large is not compiled again */
static const int64_t REFUSED_US = 60ll * 1000 * 1000;
/* no limit for a grammar that compiles within a second */
static const int64_t RENEW_US = 3600ll * 1000 * 1000;
static const int64_t BYTES_MIN = 256ll << 20, BYTES_MAX = 2048ll << 20, SHARE = 8;

struct compiled_cache {
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* signalled after an entry's stage has changed */
    pthread_cond_t dropped;  /* signalled if `grave` has an entry or quit is set */
    struct compiled **entry; /* owned [n_max]; most recently used entry first */
    int n, n_max;
    struct compiled *live;  /* borrowed; list of the grammars with a user, linked by next */
    struct compiled *grave; /* owned; list of the grammars without a user, linked by next */
    pthread_t freer;
    bool started, quit;
    int64_t bytes_max;
    atomic_llong n_byte; /* memory of all grammars, in bytes */
    int64_t n_hit, n_miss;
};

/* ---- grammars without a user ---- */

static void destroy(struct compiled *g)
{
    atomic_fetch_sub(&g->cache->n_byte, atomic_load(&g->n_byte));
    grammar_close(g->g);
    free(g->mask);
    free(g->key.text);
    free((char *)g->key.o.start);
    free((char *)g->key.o.white_space);
    free(g);
}

/* Free the grammars in `grave`. The caller holds the lock, which is released while grammars are
 * freed. */
static void free_graves(struct compiled_cache *c)
{
    struct compiled *g = c->grave, *next;
    c->grave = NULL;
    pthread_mutex_unlock(&c->lock);
    for (; g; g = next) {
        next = g->next;
        destroy(g);
    }
    pthread_mutex_lock(&c->lock);
}

static void *freer_main(void *arg)
{
    struct compiled_cache *c = arg;
    os_thread_background();
    pthread_mutex_lock(&c->lock);
    while (!c->quit)
        if (c->grave)
            free_graves(c);
        else
            pthread_cond_wait(&c->dropped, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Drop a use of g. After the last use, move g to `grave`, and drop its use of its successor. The
 * caller holds the lock. */
static void drop_use(struct compiled_cache *c, struct compiled *g)
{
    for (; g; g = g->successor) {
        int n_user = atomic_fetch_sub(&g->n_user, 1);
        CHECK(n_user > 0, "a grammar of %zu bytes has %d users", g->key.n, n_user);
        if (n_user > 1) return;
        struct compiled **at = &c->live;
        while (*at != g) at = &(*at)->next;
        *at = g->next;
        g->next = c->grave;
        c->grave = g;
    }
}

/* Start the thread that frees grammars. The caller holds the lock. */
static void start_freer(struct compiled_cache *c)
{
    if (!c->started) c->started = os_thread_start(&c->freer, freer_main, c);
}

/* Wake the thread that frees grammars if `grave` has a grammar. The caller holds the lock. */
static void wake_freer(struct compiled_cache *c)
{
    if (c->grave) pthread_cond_signal(&c->dropped);
}

void compiled_drop(struct compiled *g)
{
    if (!g) return;
    struct compiled_cache *c = g->cache;
    pthread_mutex_lock(&c->lock);
    drop_use(c, g);
    wake_freer(c);
    pthread_mutex_unlock(&c->lock);
}

struct compiled *compiled_ref(struct compiled *g)
{
    int n_user = atomic_fetch_add(&g->n_user, 1);
    CHECK(n_user > 0, "a grammar of %zu bytes has %d users", g->key.n, n_user);
    return g;
}

/* ---- the cache ---- */

struct compiled_cache *compiled_cache_open(int n_max, int64_t bytes_max)
{
    struct compiled_cache *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    int64_t part = (int64_t)(os_memory_bytes() / (uint64_t)SHARE);
    if (bytes_max == 0)
        bytes_max = part < BYTES_MIN ? BYTES_MIN : part < BYTES_MAX ? part : BYTES_MAX;
    c->n_max = n_max;
    c->bytes_max = bytes_max;
    c->entry = calloc((size_t)n_max, sizeof(struct compiled *));
    if (!c->entry) return free(c), NULL;
    pthread_mutex_init(&c->lock, NULL);
    cond_init(&c->changed);
    cond_init(&c->dropped);
    return c;
}

void compiled_cache_close(struct compiled_cache *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_signal(&c->dropped);
    pthread_mutex_unlock(&c->lock);
    if (c->started) pthread_join(c->freer, NULL);
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->n; i++) drop_use(c, c->entry[i]);
    free_graves(c);
    pthread_mutex_unlock(&c->lock);
    pthread_cond_destroy(&c->changed);
    pthread_cond_destroy(&c->dropped);
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

/* Return true if the options are equal. Options with `import` are never equal. */
static bool same_options(const struct grammar_options *a, const struct grammar_options *b)
{
    const struct grammar_limits *l = &a->limits, *k = &b->limits;
    return a->any_order == b->any_order && a->no_white_space == b->no_white_space &&
           a->no_additional == b->no_additional && a->plain == b->plain && a->vocab == b->vocab &&
           same_text(a->start, b->start) && same_text(a->white_space, b->white_space) &&
           !a->import && !b->import && l->text_max == k->text_max && l->bytes_max == k->bytes_max &&
           l->state_max == k->state_max && l->us_max == k->us_max && l->work_max == k->work_max;
}

static bool same_key(const struct compiled_key *a, const struct compiled_key *b)
{
    return a->hash == b->hash && a->kind == b->kind && a->n == b->n && same_options(&a->o, &b->o) &&
           (a->n == 0 || memcmp(a->text, b->text, a->n) == 0);
}

/* Return true if g is the grammar of k, is not worn, and has no expired failure. */
static bool is_for(const struct compiled *g, const struct compiled_key *k)
{
    bool old = g->stage == COMPILED_FAILED && time_us() >= g->until_us;
    return !old && !atomic_load(&g->worn) && same_key(&g->key, k);
}

/* ---- entries ---- */

/* Return a pending entry with copies of the key's texts, and one user; NULL if memory is exhausted.
 * The caller holds the lock. */
static struct compiled *entry_new(struct compiled_cache *c, uint64_t holder,
                                  const struct compiled_key *k, int n_mask)
{
    struct compiled *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->cache = c;
    g->key = *k;
    g->holder = holder;
    g->n_mask = (size_t)n_mask;
    g->key.text = malloc(k->n + 1);
    g->key.o.start = k->o.start ? strdup(k->o.start) : NULL;
    g->key.o.white_space = k->o.white_space ? strdup(k->o.white_space) : NULL;
    g->mask = calloc((size_t)n_mask / 64 + 1, sizeof *g->mask);
    atomic_store(&g->n_user, 1);
    bool texts = (g->key.o.start || !k->o.start) && (g->key.o.white_space || !k->o.white_space);
    if (g->key.text && g->mask && texts) {
        if (k->n) memcpy(g->key.text, k->text, k->n);
        g->next = c->live;
        c->live = g;
        return g;
    }
    destroy(g);
    return NULL;
}

/* ---- the list of entries; the caller holds the lock ---- */

static void to_front(struct compiled_cache *c, int i)
{
    struct compiled *g = c->entry[i];
    memmove(c->entry + 1, c->entry, (size_t)i * sizeof(struct compiled *));
    c->entry[0] = g;
}

/* Remove entry i from the list and return it. After the call, the caller owns the cache's use of
 * the grammar. */
static struct compiled *take_out(struct compiled_cache *c, int i)
{
    struct compiled *g = c->entry[i];
    memmove(c->entry + i, c->entry + i + 1, (size_t)(--c->n - i) * sizeof(struct compiled *));
    return g;
}

/* Return the index of an entry for k; c->n if not found. */
static int find_entry(const struct compiled_cache *c, const struct compiled_key *k)
{
    int i = 0;
    while (i < c->n && !is_for(c->entry[i], k)) i++;
    return i;
}

/* Drop the least recently used entry that is not pending. idle: drop only an entry without other
 * users. Return false if no entry can be dropped. */
static bool evict(struct compiled_cache *c, bool idle)
{
    for (int i = c->n - 1; i >= 0; i--) {
        struct compiled *g = c->entry[i];
        if (g->stage == COMPILED_PENDING || (idle && atomic_load(&g->n_user) > 1)) continue;
        drop_use(c, take_out(c, i));
        return true;
    }
    return false;
}

/* Add an entry to the front. The entry is not cached if all other entries are pending. */
static void insert(struct compiled_cache *c, struct compiled *g)
{
    if (c->n == c->n_max && !evict(c, true) && !evict(c, false)) return;
    c->entry[c->n++] = compiled_ref(g);
    to_front(c, c->n - 1);
}

/* Wait until g is compiled. The lock is released during the wait. Return false if the client of
 * this thread has disconnected. */
static bool wait_for(struct compiled_cache *c, const struct compiled *g)
{
    while (g->stage == COMPILED_PENDING) {
        if (cancelled()) return false;
        cond_wait(&c->changed, &c->lock, time_us() + WAIT_US);
    }
    return true;
}

/* ---- memory ---- */

/* Return the number of bytes of the live grammars that have not failed. holder NULL: count the
 * grammars of all holders. Set *n to the number of these grammars. */
static int64_t staying(const struct compiled_cache *c, const uint64_t *holder, int *n)
{
    int64_t sum = 0;
    *n = 0;
    for (const struct compiled *g = c->live; g; g = g->next)
        if (!atomic_load(&g->over) && (!holder || g->holder == *holder))
            sum += atomic_load(&g->n_byte), ++*n;
    return sum;
}

/* Return the largest grammar of the holder with the most bytes; NULL if all have failed. Set *held
 * to the number of bytes of that holder. */
static struct compiled *largest(const struct compiled_cache *c, int64_t *held)
{
    struct compiled *best = NULL;
    int n;
    *held = -1;
    for (struct compiled *g = c->live; g; g = g->next) {
        if (atomic_load(&g->over)) continue;
        int64_t sum = best && g->holder == best->holder ? *held : staying(c, &g->holder, &n);
        bool same = best && g->holder == best->holder;
        if (sum > *held || (same && atomic_load(&g->n_byte) > atomic_load(&best->n_byte)))
            best = g, *held = sum;
    }
    return best;
}

/* Mark a grammar as failed. The grammar's users get the failure at their next mask. `worn` excludes
 * it from new requests. */
static void fail(struct compiled *g)
{
    atomic_store(&g->over, true);
    atomic_store(&g->worn, true);
}

/* Release memory for a new grammar of `holder`. First evict grammars without a user until the total
 * is within the limit. Then fail grammars of holders with more bytes than `holder`. Return false if
 * the total still exceeds the limit. */
static bool make_room(struct compiled_cache *c, uint64_t holder)
{
    int n;
    int64_t most, held = staying(c, &holder, &n);
    while (staying(c, NULL, &n) > c->bytes_max) {
        if (evict(c, true)) continue;
        struct compiled *g = largest(c, &most);
        if (most <= held) return false;
        fail(g);
    }
    return true;
}

/* Evict or fail grammars until the remaining grammars have at most bytes_max. Keep at least one
 * grammar. A holder's compilation fails before its grammars in use. */
static void shrink(struct compiled_cache *c, struct compiled *grown)
{
    int n;
    int64_t most;
    while (staying(c, NULL, &n) > c->bytes_max && n > 1) {
        if (evict(c, true)) continue;
        struct compiled *g = largest(c, &most);
        bool new = grown->stage == COMPILED_PENDING && grown->holder == g->holder;
        fail(new && !atomic_load(&grown->over) ? grown : g);
    }
}

/* Add the growth of g to the total. Return false if g has failed. */
static bool grown_to(struct compiled *g, long long now)
{
    struct compiled_cache *c = g->cache;
    long long more = now - atomic_exchange(&g->n_byte, now);
    if (atomic_fetch_add(&c->n_byte, more) + more > c->bytes_max && more > 0) {
        pthread_mutex_lock(&c->lock);
        shrink(c, g);
        wake_freer(c);
        pthread_mutex_unlock(&c->lock);
    }
    return !atomic_load(&g->over);
}

/* Count n more bytes of a grammar in use (grammar_limits.grow). */
static bool grow(void *arg, size_t n)
{
    struct compiled *g = arg;
    long long now = (long long)(sizeof *g + g->key.n + g->n_mask / 8 + n);
    return now > atomic_load(&g->n_byte) ? grown_to(g, now) : !atomic_load(&g->over);
}

void compiled_count(struct compiled *g)
{
    if (grammar_worn(g->g)) atomic_store(&g->worn, true);
    grown_to(g, (long long)(sizeof *g + g->key.n + g->n_mask / 8 + grammar_bytes(g->g)));
}

/* ---- compiling ---- */

static const char CROWDED[] = "the grammars in use hold more than %lld MiB; try again later";

static long long mib(const struct compiled_cache *c)
{
    return c->bytes_max >> 20;
}

/* Compile a grammar. Cache its first mask if the grammar has a vocabulary and is not renewed. */
static int compile(struct compiled *g, struct err *e)
{
    struct grammar_options o = g->key.o;
    o.limits.grow = grow;
    o.limits.grow_arg = g;
    if (g->renewed) o.limits.us_max = RENEW_US;
    int rc = grammar_open(&g->g, g->key.kind, g->key.text, g->key.n, &o, e);
    if (rc != 0) return rc;
    g->first = grammar_begin(g->g);
    g->compile_work = grammar_work(g->g);
    grammar_forget(g->g); /* every grammar of the constraint has these states */
    if (g->key.o.vocab && !g->renewed && grammar_failure(g->g, NULL) == 0)
        grammar_mask(g->g, g->first, g->mask);
    if (grammar_exceeds(g->g)) grammar_fail(g->g);
    rc = grammar_failure(g->g, e); /* the grammar's first state or mask may exceed a limit */
    compiled_count(g);
    if (rc == 0 && compiled_over(g)) rc = err_set(e, ERR_BUSY, CROWDED, mib(g->cache));
    return rc;
}

/* Release the memory of a grammar that is too large, except its key. */
static void keep_refusal(struct compiled *g)
{
    grammar_close(g->g);
    g->g = NULL;
    g->until_us = time_us() + REFUSED_US;
    grown_to(g, (long long)(sizeof *g + g->key.n + g->n_mask / 8));
}

/* Compile the new entry g. The caller holds the lock, which is released during the compilation.
 * Remove a failed entry from the cache unless the grammar is too large. */
static int compile_unlocked(struct compiled_cache *c, struct compiled *g, struct err *e)
{
    struct err why = {0};
    pthread_mutex_unlock(&c->lock);
    int rc = compile(g, &why);
    if (rc == ERR_LIMIT) keep_refusal(g);
    pthread_mutex_lock(&c->lock);
    g->stage = rc ? COMPILED_FAILED : COMPILED_READY;
    g->rc = rc;
    g->why = why;
    for (int i = 0; rc && rc != ERR_LIMIT && i < c->n; i++)
        if (c->entry[i] == g) drop_use(c, take_out(c, i));
    pthread_cond_broadcast(&c->changed);
    return rc ? err_set(e, rc, "%s", why.text) : 0;
}

/* Make an entry for k and compile it. Set *out to the entry, with one use. Return ERR_BUSY if the
 * grammars in use exceed bytes_max. */
static int make_entry(struct compiled **out, struct compiled_cache *c, uint64_t holder,
                      const struct compiled_key *k, int n_mask, struct err *e)
{
    if (!make_room(c, holder)) return err_set(e, ERR_BUSY, CROWDED, mib(c));
    struct compiled *g = entry_new(c, holder, k, n_mask);
    if (!g) return err_memory(e, "a grammar", k->n);
    c->n_miss++;
    if (!k->o.import) insert(c, g);
    int rc = compile_unlocked(c, g, e);
    if (rc == 0) *out = g;
    if (rc != 0) drop_use(c, g);
    return rc;
}

/* Wait for entry i and share it. Set *out on success, or *rc on an error. Return false if the entry
 * failed with ERR_BUSY or ERR_MEMORY. These failures concern only the request that compiled the
 * entry, so the caller retries. */
static bool share_entry(struct compiled **out, struct compiled_cache *c, int i, int *rc,
                        struct err *e)
{
    struct compiled *g = compiled_ref(c->entry[i]);
    to_front(c, i);
    *rc = wait_for(c, g) ? g->rc : err_cancelled(e);
    bool own = *rc == 0 || g->stage == COMPILED_PENDING;
    bool same = own || (*rc != ERR_BUSY && *rc != ERR_MEMORY);
    if (!own && same) err_set(e, *rc, "%s", g->why.text);
    if (*rc == 0) *out = g, c->n_hit++;
    if (*rc != 0) drop_use(c, g);
    return same;
}

int compiled_get(struct compiled **out, struct compiled_cache *c, const struct compiled_want *want,
                 struct err *e)
{
    CHECK(want->n_mask >= 0 && want->o, "a mask of %d bits", want->n_mask);
    struct compiled_key k = {.kind = want->kind,
                             .o = *want->o,
                             .text = (char *)want->text,
                             .n = want->text ? want->n : 0};
    bool done = false;
    int rc = 0;
    k.hash = hash_bytes(want->text, k.n, (uint64_t)want->kind);
    *out = NULL;
    pthread_mutex_lock(&c->lock);
    start_freer(c);
    while (!done) {
        int i = find_entry(c, &k);
        done = i < c->n ? share_entry(out, c, i, &rc, e)
                        : (rc = make_entry(out, c, want->holder, &k, want->n_mask, e), true);
    }
    free_graves(c);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* The replaced grammar leaves the cache. */
int compiled_renew(struct compiled **out, struct compiled *from, struct err *e)
{
    struct compiled_cache *c = from->cache;
    struct compiled *g = NULL;
    int rc = 0;
    *out = NULL;
    if (from->key.o.import)
        return err_set(e, ERR_LIMIT, "a grammar with imports cannot be compiled again");
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->n; i++)
        if (c->entry[i] == from) drop_use(c, take_out(c, i));
    if (!make_room(c, from->holder))
        rc = err_set(e, ERR_BUSY, CROWDED, mib(c));
    else if (!(g = entry_new(c, from->holder, &from->key, (int)from->n_mask)))
        rc = err_memory(e, "a grammar", from->key.n);
    if (rc == 0) {
        g->renewed = true;
        rc = compile_unlocked(c, g, e);
        if (rc != 0) drop_use(c, g);
    }
    if (rc == 0) *out = g;
    wake_freer(c);
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
