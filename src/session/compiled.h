/* compiled.h - private to session: compiled grammars, shared by all requests with an equal
 * constraint.
 *
 *   text, kind, options --compiled_get--> an entry of the cache, or a new one, compiled once for
 *                                         all requests that wait for it
 *
 * A grammar keeps the states and masks that it computed. Therefore later requests find most of
 * their masks in the grammar. The numbers of entries and of bytes in the cache are limited. The
 * cache first evicts the least recently used entry without a user. The cache compares the full keys
 * of entries, because different keys may have equal hashes.
 *
 * bytes_max is the limit of all grammars together, including grammars that are being compiled or in
 * use. compiled.c divides it among holders.
 *
 * A grammar that has reached a limit is replaced (compiled_renew). Each of its users replays its
 * text in the new grammar (grammar_constraint.c), so no answer ends because of another answer's
 * states.
 *
 * A client cannot read another client's grammar. A client can infer from the response time that an
 * equal grammar was compiled. */
#ifndef QUOTH_SESSION_COMPILED_H
#define QUOTH_SESSION_COMPILED_H

#include "grammar/grammar.h"

#include <stdatomic.h>

struct compiled_cache;

struct compiled {
    struct grammar *g; /* owned grammar; used by one thread at a time (constraint.shared) */
    uint32_t first;    /* state of the grammar before the text */
    /* owned scratch [ceil(n / 64)]; n: size of the tokenizer's vocabulary or the model's */
    uint64_t *mask;
    int64_t owed; /* work in steps of the engine beyond PAID_WORK per call (grammar_constraint.c) */
    int64_t compile_work; /* steps of work of the compilation */
    /* number of the only text of a renewed grammar (grammar_constraint.c); 0: several texts, or not
     * renewed */
    uint64_t text_no;
    /* true: the states have required too much work for a further text (grammar_spent) */
    bool spent;
    /* owned use: grammar that replaces this one; NULL if none. The user of the grammar sets the
     * field. */
    struct compiled *successor;
    /* private to compiled.c */
    struct compiled_cache *cache; /* borrowed */
    size_t n_mask;                /* number of bits of mask */
    struct compiled_key {
        enum grammar_kind kind;
        struct grammar_options o; /* options; their `start` is owned */
        char *text;               /* owned [n]; text of the constraint */
        size_t n;
        uint64_t hash;
    } key;
    /* stage, protected by the cache's lock */
    enum { COMPILED_PENDING, COMPILED_READY, COMPILED_FAILED } stage;
    /* error code, valid in stage FAILED */
    int rc;
    struct err why;
    int64_t until_us;  /* time (time_us) until which further requests get the error */
    atomic_int n_user; /* number of users: constraints, waiting requests and the cache */
    atomic_llong n_byte;
    atomic_bool worn; /* true: no further request uses the grammar (grammar_worn) */
    bool renewed;     /* true: made by compiled_renew */
    atomic_bool
        over;        /* true: the grammar failed because all grammars together exceeded bytes_max */
    uint64_t holder; /* holder for which the grammar was compiled */
    struct compiled *next; /* borrowed: next grammar of the cache's list `live` or `grave` */
};

/* Open a cache of at most n_max entries. bytes_max: maximum bytes of all grammars, also of grammars
 * that are no longer in the cache; 0: a share of this machine's memory. Return NULL if memory is
 * exhausted. */
struct compiled_cache *compiled_cache_open(int n_max, int64_t bytes_max);
/* Free the cache. No grammar of the cache may be in use; NULL is allowed. */
void compiled_cache_close(struct compiled_cache *c);

/* A constraint, described by the arguments of grammar_open. All pointers are borrowed. */
struct compiled_want {
    enum grammar_kind kind;
    const char *text; /* text of the constraint [n]; NULL if the kind has none */
    size_t n;
    const struct grammar_options *o;
    int n_mask; /* number of bits of the mask scratch */
    /* account to which a new grammar is charged (base/share.h); 0 if none */
    uint64_t holder;
};
/* Set *out to the compiled grammar of a constraint. The caller becomes a user of the grammar and
 * calls compiled_drop. Wait if another thread is compiling the grammar. Options with `import` are
 * not shared. Return the errors of grammar_open, or ERR_BUSY if the grammars in use exceed
 * bytes_max. Any thread. */
int compiled_get(struct compiled **out, struct compiled_cache *c, const struct compiled_want *want,
                 struct err *e);
/* Set *out to a new grammar of the constraint of g. The caller becomes the user of the new grammar,
 * which requests do not share. The compilation has no time limit, because the first compilation was
 * within the limit. Return ERR_LIMIT if g has `import`, or the errors of compiled_get. The user of
 * g calls this function, but not in a step of the engine. */
int compiled_renew(struct compiled **out, struct compiled *g, struct err *e);
struct compiled *compiled_ref(struct compiled *g); /* return g with one more user */
/* Drop a use of g; NULL is allowed. Any thread. Another thread frees g after its last use. */
void compiled_drop(struct compiled *g);
/* Update the count of the memory that g holds. The user of g calls this function. */
void compiled_count(struct compiled *g);
/* Return true if g has failed because all grammars together exceeded bytes_max. */
static inline bool compiled_over(const struct compiled *g)
{
    return atomic_load_explicit(&g->over, memory_order_relaxed);
}

struct compiled_counts {
    /* numbers of calls of compiled_get that found the grammar, and that did not find it */
    int64_t n_hit, n_miss;
    int64_t n_byte; /* memory of all grammars, in bytes */
    int n_kept;
};
struct compiled_counts compiled_counts(struct compiled_cache *c);

#endif
