/* match.c - the Knuth-Morris-Pratt automaton. The automaton finds one string in bytes that arrive
 * one by one.
 *
 * Stop strings (stop.c) and DRY's sequence breakers (dry.c) use the automaton. Stop strings and
 * breakers may extend over any number of tokens. Lists of stop strings are short, so one automaton
 * per string is smaller and simpler than a common automaton. */
#include "sample_impl.h"

static void match_advance(struct match *m, char c)
{
    if (m->at == m->n) m->at = m->border[m->n - 1];
    while (m->at > 0 && m->text[m->at] != c) m->at = m->border[m->at - 1];
    if (m->text[m->at] == c) m->at++;
}

bool match_make(struct match *m, struct arena *mem, const char *text, size_t n)
{
    char *copy = arena_text(mem, text, n);
    int32_t *border = arena_push0(mem, n, sizeof *border);
    if (!copy || !border) return false;
    *m = (struct match){.text = copy, .border = border, .n = (int)n};
    for (int i = 1; i < m->n; i++) {
        match_advance(m, copy[i]);
        border[i] = m->at;
    }
    m->at = 0;
    return true;
}

bool match_step(struct match *m, char c)
{
    match_advance(m, c);
    return m->at == m->n;
}
