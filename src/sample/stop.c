/* stop.c - search for stop strings in text that arrives in arbitrary pieces.
 *
 * There is one automaton per string (match.c). After each byte, only the longest end of the text
 * that is a prefix of a stop string is pending. The automaton's copy of this stop string is the
 * buffer of the pending text. The string that is completed first ends the search. The longest
 * string counts if a byte completes several strings; of equal strings, the first string counts. The
 * longest string began earliest, so none of its bytes have been emitted. */
#include "sample_impl.h"

#include "base/check.h"

#include <stdlib.h>

enum { STOP_BYTES_MAX = 1 << 20 }; /* maximum bytes of all strings together */

struct stop_match {
    struct arena mem;
    struct match *stop; /* [n_stop] automata of the strings, in the arena */
    int n_stop;
    int completed; /* index of the completed string; -1 if none */
};

static int stop_check(const struct text_span *stop, int n_stop, struct err *e)
{
    size_t n_byte = 0;
    for (int i = 0; i < n_stop; i++) {
        if (stop[i].n == 0)
            return err_field(e, ERR_ARG, "stop", "[%d]: must have at least 1 byte, got 0", i);
        if (stop[i].n > STOP_BYTES_MAX - n_byte)
            return err_field(e, ERR_LIMIT, "stop",
                             ": must have at most %d bytes in all, got %zu in [%d]", STOP_BYTES_MAX,
                             n_byte + stop[i].n, i);
        n_byte += stop[i].n;
    }
    return 0;
}

int stop_match_open(struct stop_match **out, const struct text_span *stop, int n_stop,
                    struct err *e)
{
    *out = NULL;
    int rc = stop_check(stop, n_stop, e);
    if (rc != 0) return rc;
    struct stop_match *m = calloc(1, sizeof *m);
    if (!m) return err_memory(e, "stop strings", sizeof *m);
    m->completed = -1;
    if (n_stop > 0) m->stop = arena_push0(&m->mem, (size_t)n_stop, sizeof *m->stop);
    /* most answers have no stop string, but every answer has a struct stop_match */
    bool ok = m->stop || n_stop == 0;
    for (; ok && m->n_stop < n_stop; m->n_stop++)
        ok = match_make(&m->stop[m->n_stop], &m->mem, stop[m->n_stop].text, stop[m->n_stop].n);
    if (!ok) {
        stop_match_close(m);
        return err_memory(e, "stop strings", STOP_BYTES_MAX);
    }
    *out = m;
    return 0;
}

void stop_match_close(struct stop_match *m)
{
    if (m) arena_deinit(&m->mem);
    free(m);
}

/* Return the pending text: the longest beginning of a stop string at the end of the text. */
static struct text_span held(const struct stop_match *m)
{
    struct text_span longest = {"", 0};
    for (int i = 0; i < m->n_stop; i++)
        if ((size_t)m->stop[i].at > longest.n)
            longest = (struct text_span){m->stop[i].text, (size_t)m->stop[i].at};
    return longest;
}

/* Advance all automata by a byte. Return the index of the longest string that the byte completes;
 * -1 if none. */
static int step_all(struct stop_match *m, char c)
{
    int done = -1;
    for (int i = 0; i < m->n_stop; i++)
        if (match_step(&m->stop[i], c) && (done < 0 || m->stop[i].n > m->stop[done].n)) done = i;
    return done;
}

static void push_byte(struct stop_match *m, char c, bool include, struct buf *out)
{
    struct text_span before = held(m);
    m->completed = step_all(m, c);
    bool done = m->completed >= 0;
    size_t n_keep = done && !include ? (size_t)m->stop[m->completed].n : done ? 0 : held(m).n;
    CHECK(n_keep <= before.n + 1, "%zu bytes kept of %zu", n_keep, before.n + 1);
    size_t n_show = before.n + 1 - n_keep;
    buf_add(out, before.text, n_show < before.n ? n_show : before.n);
    if (n_show > before.n) buf_add_char(out, c);
}

int stop_match_push(struct stop_match *m, const char *text, size_t n, bool include, struct buf *out)
{
    if (m->n_stop == 0) buf_add(out, text, n);
    for (size_t i = 0; m->n_stop > 0 && i < n && m->completed < 0; i++)
        push_byte(m, text[i], include, out);
    return m->completed;
}

void stop_match_flush(struct stop_match *m, struct buf *out)
{
    if (m->completed >= 0) return;
    struct text_span rest = held(m);
    buf_add(out, rest.text, rest.n);
    for (int i = 0; i < m->n_stop; i++) m->stop[i].at = 0;
}
