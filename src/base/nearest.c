/* nearest.c - the name that is nearest to a mistyped one, by the number of edits. */
#include "nearest.h"

#include <limits.h>
#include <string.h>

/* Return the edit distance (insert, delete, replace) of two short names; INT_MAX for longer names.
 * `_` and `-` are equal. */
static int edit_distance(const char *a, const char *b)
{
    enum { LENGTH_MAX = 48 };
    int row[LENGTH_MAX + 1], n = (int)strlen(b);
    if (strlen(a) > LENGTH_MAX || n > LENGTH_MAX) return INT_MAX;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            char ca = a[i - 1] == '_' ? '-' : a[i - 1];
            char cb = b[j - 1] == '_' ? '-' : b[j - 1];
            int best = diagonal + (ca != cb);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

struct nearest nearest_begin(const char *typed)
{
    return (struct nearest){.typed = typed, .least = ((int)strlen(typed) + 2) / 3};
}

void nearest_compare(struct nearest *s, const char *name)
{
    int d = edit_distance(s->typed, name);
    /* the name is a completion of the typed name */
    if (strncmp(name, s->typed, strlen(s->typed)) == 0 && d > 1) d = 1;
    if (d <= s->least && (!s->best || d < s->least)) s->best = name, s->least = d;
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
    struct nearest s = nearest_begin(typed);
    for (size_t i = 0; i < n; i++) nearest_compare(&s, names[i]);
    return s.best;
}
