/* compiled.h - private to session: compiled grammars, shared by all requests with an equal constraint.
 *
 *   text, kind, options --compiled_get--> an entry of the cache, or a new one: compiled once, however many requests wait for it
 *
 * A grammar keeps the states and masks that it computed, so an entry makes the masks of later requests look-ups. The cache
 * holds a limited number of entries and of bytes. The least recently used entry without a user is
 * dropped first. Entries are compared in full: equal hashes are not enough.
 *
 * A client cannot read another client's grammar. It can detect by time that one has been compiled. */
#ifndef QUOTH_SESSION_COMPILED_H
#define QUOTH_SESSION_COMPILED_H

#include "grammar/grammar.h"

#include <stdatomic.h>

struct compiled_cache;

struct compiled {
    struct grammar *g; /* owned; used by one thread at a time (constraint.shared) */
    uint32_t first;    /* the state before the text */
    uint64_t *mask; /* owned scratch [ceil(n / 64)], n: the tokenizer's vocabulary or the model's */
    int64_t owed;   /* held.c: work of steps that was more than their share */
    /* private to compiled.c */
    struct compiled_cache *cache;
    size_t n_mask; /* bits of mask */
    struct compiled_key {
        enum grammar_kind kind;
        struct grammar_options o; /* start: owned */
        char *text;               /* owned [n] */
        size_t n;
        uint64_t hash;
    } key;
    enum { COMPILED_PENDING, COMPILED_READY, COMPILED_FAILED } stage; /* under the lock */
    int rc;                                                           /* of FAILED */
    struct err why;
    atomic_int n_user; /* constraints, requests that wait, and the cache */
    atomic_llong n_byte;
    atomic_bool worn; /* grammar_worn: not for further requests */
};

/* Open a cache of at most n_max entries. byte_max: maximum memory of all grammars, also of those
 * that are not in the cache any more; 0: a share of this machine's memory. NULL if there is no memory. */
struct compiled_cache *compiled_cache_open(int n_max, int64_t byte_max);
void compiled_cache_close(
    struct compiled_cache *c); /* NULL is allowed; not while grammars are in use */

/* Get the compiled grammar of a constraint, as grammar_open's arguments describe it, for its user, which
 * calls compiled_drop. n_mask: bits of its scratch. Waits while another thread compiles it. Options with `import` are
 * not shared. Errors: as grammar_open; ERR_BUSY if all grammars in use take the memory. Any
 * thread. */
int compiled_get(struct compiled **out, struct compiled_cache *c, enum grammar_kind kind,
                 const char *text, size_t n, const struct grammar_options *o, int n_mask,
                 struct err *e);
struct compiled *compiled_share(struct compiled *g); /* Return g, with one user more. */
void compiled_drop(struct compiled *g);
/* Count the memory that g holds now. Thread: the one that uses g. */
void compiled_count(struct compiled *g);

struct compiled_counts {
    int64_t n_hit, n_miss; /* calls of compiled_get */
    int64_t n_byte;        /* memory of all grammars */
    int n_kept;
};
struct compiled_counts compiled_counts(struct compiled_cache *c);

#endif
