/* nearest.h - the name that is nearest to a mistyped one. All functions are pure. Any thread. */
#ifndef QUOTH_BASE_NEAREST_H
#define QUOTH_BASE_NEAREST_H

#include <stddef.h>

/* A search among names. All pointers are borrowed. */
struct nearest {
    const char *typed, *best; /* best: NULL if no name is near */
    int least;                /* number of edits of `best`, or the maximum number of edits */
};

/* Begin a search. A near name has at most a third of the typed length in edits, rounded up. */
struct nearest nearest_begin(const char *typed);
/* Compare one more name. The first of several names with the fewest edits is selected. */
void nearest_compare(struct nearest *s, const char *name);
/* Return the name of `names` [n] that is nearest to a mistyped one; NULL if no name is near. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif
