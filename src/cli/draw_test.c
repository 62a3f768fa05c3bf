/* Goal: the screen shows the line once, with the cursor at its place, after any edits and sizes.
 * The text above the line remains. Method: a small terminal of each kind (enum reflow) executes the
 * output for random edits and sizes. The terminal's cells are compared with a simple layout. A few
 * outputs are compared byte by byte. */
#include "draw.h"

#include "base/utf8.h"

#include "../../tests/unit.h"

#include <stdlib.h>
#include <string.h>

/* ---- a terminal ---- */

enum { ROW_MAX = 2000, COLUMN_MAX = 128, TEXT_MAX = 300, N_ABOVE = 5 };

struct cells {
    /* characters, 0 if never written, FILL for the right half of a wide character */
    wchar_t c[COLUMN_MAX + 1];
    int n;
    bool folded; /* true if the row continues in the next row */
};

static const wchar_t FILL = 0xE000;

struct terminal {
    enum reflow reflow;
    struct screen_size size;
    struct cells row[ROW_MAX]; /* rows, including scrolled rows */
    int n, top, at, column;    /* at: an index of row */
    bool bad;                  /* true after an output that terminals handle differently */
};

static struct terminal term, was;

static void need_row(int i)
{
    for (; term.n <= i; term.n++) term.row[term.n] = (struct cells){0};
    if (i >= term.top + term.size.n_row) term.top = i - term.size.n_row + 1;
}

static void put_cell(struct cells *r, int column, wchar_t c, int width)
{
    r->c[column] = c;
    if (width == 2) r->c[column + 1] = FILL;
    if (r->n < column + width) r->n = column + width;
}

static void run_escape(const char *number, char command)
{
    int n = *number == command ? 1 : (int)strtol(number, NULL, 10);
    if (command == 'A') term.at = term.at - n < term.top ? term.top : term.at - n;
    if (command == 'C') term.column += n;
    if (command == 'J') {
        struct cells *r = &term.row[term.at];
        for (int i = term.column; i < COLUMN_MAX; i++) r->c[i] = 0;
        if (r->n > term.column) r->n = term.column;
        r->folded = false;
        term.n = term.at + 1;
    }
    term.bad |= !strchr("ACJ", command) || term.column >= term.size.n_column;
}

static void feed_char(wchar_t c)
{
    int width = utf8_width((uint32_t)c);
    if (c == L'\r') {
        term.column = 0;
    } else if (c == L'\n') {
        need_row(++term.at);
    } else {
        term.bad |= term.column + width > term.size.n_column || c < L' ' || width < 1;
        if (term.bad) return;
        put_cell(&term.row[term.at], term.column, c, width);
        term.column += width;
    }
}

static void feed(const char *text, size_t n)
{
    for (size_t i = 0; i < n && !term.bad;) {
        uint32_t cp;
        if (text[i] == '\033') {
            size_t end = i + 2;
            while (end < n && (text[end] == '?' || (text[end] >= '0' && text[end] <= '9'))) end++;
            run_escape(text + i + 2, text[end]);
            i = end + 1;
            continue;
        }
        i += (size_t)utf8_decode(text + i, n - i, &cp);
        feed_char((wchar_t)cp);
    }
}

/* Fold the rows from i to the end of their line into new rows. Return that end. A cursor after the
 * last character remains in its row. */
static int fold_line(int i)
{
    bool met = false;
    need_row(term.n);
    for (;; i++) {
        for (int c = 0; c < was.row[i].n; c++) {
            wchar_t cell = was.row[i].c[c];
            int width = cell == FILL ? 0 : was.row[i].c[c + 1] == FILL ? 2 : 1;
            struct cells *r = &term.row[term.n - 1];
            if (r->n + width > term.size.n_column) {
                r->folded = true;
                need_row(term.n);
                r++;
            }
            if (i == was.at && c == was.column) {
                met = true;
                term.at = term.n - 1;
                term.column = r->n;
            }
            if (width) put_cell(r, r->n, cell, width);
        }
        if (i == was.at && !met) {
            term.at = term.n - 1;
            term.column = 0;
        }
        if (!was.row[i].folded) return i;
    }
}

static void cut_line(int i)
{
    need_row(term.n);
    struct cells *r = &term.row[term.n - 1];
    *r = was.row[i];
    if (r->n > term.size.n_column) r->n = term.size.n_column;
    for (int k = r->n; k < COLUMN_MAX; k++) r->c[k] = 0;
    if (i != was.at) return;
    term.at = term.n - 1;
    if (term.column >= term.size.n_column) term.column = term.size.n_column - 1;
}

static void terminal_resize(struct screen_size size)
{
    memcpy(was.row, term.row, (size_t)term.n * sizeof *term.row);
    was.n = term.n;
    was.at = term.at;
    was.column = term.column;
    was.top = term.top;
    term.size = size;
    term.n = term.top = 0;
    for (int i = 0; i < was.n; i++) {
        if (term.reflow == REFLOW_NONE || (term.reflow == REFLOW_OTHERS && i == was.at))
            cut_line(i);
        else
            i = fold_line(i);
    }
    term.top = was.top < term.at ? was.top : term.at;
    need_row(term.at);
    if (term.n > term.top + size.n_row) term.n = term.top + size.n_row;
}

/* ---- expected cells ---- */

struct want {
    struct cells row[TEXT_MAX * 4];
    int n, at, column;
};

static void want_break(struct want *w)
{
    struct cells *r = &w->row[w->n - 1];
    while (r->n > 0 && r->c[r->n - 1] == L' ') r->c[--r->n] = 0;
    w->row[w->n++] = (struct cells){0};
}

static void want_cell(struct want *w, wchar_t c, int width, int n_column)
{
    if (w->row[w->n - 1].n + width > n_column) want_break(w);
    put_cell(&w->row[w->n - 1], w->row[w->n - 1].n, c, width);
}

static void want_char(struct want *w, wchar_t c, int n_column)
{
    struct cells *r = &w->row[w->n - 1];
    if (c == L'\n') {
        want_break(w);
    } else if (c == L'\t') {
        do put_cell(r, r->n, L' ', 1);
        while (r->n % 8 && r->n < n_column);
    } else if (c < L' ') {
        if (r->n + 2 > n_column) want_break(w);
        want_cell(w, L'^', 1, n_column);
        want_cell(w, c + 0x40, 1, n_column);
    } else {
        want_cell(w, c, utf8_width((uint32_t)c), n_column);
    }
    if (w->row[w->n - 1].n == n_column) want_break(w);
}

static int next_width(wchar_t c)
{
    return c == L'\t' || c == L'\n' ? 0 : c < L' ' ? 2 : utf8_width((uint32_t)c);
}

static void want_text(struct want *w, const wchar_t *text, size_t n, size_t cursor, int n_column)
{
    w->n = 1;
    w->row[0] = (struct cells){0};
    want_char(w, L'>', n_column);
    want_char(w, L' ', n_column);
    for (size_t i = 0; i <= n; i++) {
        if (i == cursor) {
            bool fits = i == n || w->row[w->n - 1].n + next_width(text[i]) <= n_column;
            w->at = fits ? w->n - 1 : w->n;
            w->column = fits ? w->row[w->n - 1].n : 0;
        }
        if (i < n) want_char(w, text[i], n_column);
    }
}

static bool same_row(const struct cells *a, const struct cells *b)
{
    for (int i = 0; i < COLUMN_MAX; i++) {
        wchar_t x = a && i < a->n && a->c[i] ? a->c[i] : L' ';
        if (x != (b && i < b->n && b->c[i] ? b->c[i] : L' ')) return false;
    }
    return true;
}

/* Check that the screen shows the window of wanted rows around the cursor, and only blanks
 * below. */
static bool shows(const struct want *w, int top)
{
    int begin = term.at - (w->at - top);
    if (term.bad || begin < term.top || term.column != w->column) return false;
    for (int i = 0; begin + i < term.top + term.size.n_row; i++) {
        const struct cells *shown = begin + i < term.n ? &term.row[begin + i] : NULL;
        if (!same_row(shown, top + i < w->n ? &w->row[top + i] : NULL)) return false;
    }
    return true;
}

static bool above_is_whole(const struct want *w)
{
    if (term.at - w->at != N_ABOVE) return false;
    for (int i = 0; i < N_ABOVE; i++)
        if (term.row[i].n != 1 || term.row[i].c[0] != L'A' + i) return false;
    return true;
}

/* ---- tests ---- */

static struct draw open_draw(enum reflow reflow, char **out, size_t *n_out)
{
    FILE *f = open_memstream(out, n_out);
    return (struct draw){.out = f, .reflow = reflow};
}

static size_t feed_new(struct draw *d, char **out, const size_t *n_out, size_t fed)
{
    fflush(d->out);
    feed(*out + fed, *n_out - fed);
    return *n_out;
}

static unsigned state;
static unsigned any(unsigned n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
}

static void edit(wchar_t *text, size_t *n, size_t *cursor)
{
    static const wchar_t kind[] = L"abcdefgh   宽宽宽é\t\x01\n";
    if (any(4) == 0) *cursor = any((unsigned)*n + 1);
    if (any(6) == 0) *cursor = *n;
    if (any(3) == 0 && *cursor > 0) {
        size_t n_erased = 1 + any(*cursor > 30 && any(9) == 0 ? 30 : 1);
        wmemmove(text + *cursor - n_erased, text + *cursor, *n - *cursor);
        *n -= n_erased;
        *cursor -= n_erased;
    }
    for (int k = any(5) ? 1 : 40; k > 0 && *n < TEXT_MAX; k--) {
        wmemmove(text + *cursor + 1, text + *cursor, *n - *cursor);
        text[*cursor] = kind[any(any(4) ? 14 : sizeof kind / sizeof *kind - 1)];
        ++*n;
        ++*cursor;
    }
}

/* Test one line with 60 edits and changes of size. The text above may scroll out of a screen with
 * few rows. */
static bool line_goes_well(enum reflow reflow, int n_row)
{
    static struct want w;
    wchar_t text[TEXT_MAX + 1];
    size_t n = 0, cursor = 0, fed = 0, n_out = 0;
    char *out = NULL;
    bool ok = true;
    struct draw d = open_draw(reflow, &out, &n_out);
    term = (struct terminal){.reflow = reflow, .size = {10 + (int)any(50), n_row}, .n = 1};
    feed("A\r\nB\r\nC\r\nD\r\nE\r\n", 15);
    draw_begin(&d, L"> ", term.size);
    for (int i = 0; i < 60 && ok; i++) {
        if (i > 0 && any(3) == 0) {
            struct screen_size size = {10 + (int)any(50), n_row};
            if (any(2)) size.n_column = term.size.n_column + 1 - (int)any(3);
            if (size.n_column < 10) size.n_column = 10;
            terminal_resize(size);
            draw_resize(&d, size);
        } else {
            edit(text, &n, &cursor);
        }
        draw_show(&d, text, n, cursor);
        fed = feed_new(&d, &out, &n_out, fed);
        want_text(&w, text, n, cursor, term.size.n_column);
        ok = shows(&w, d.top) && (n_row < 100 || above_is_whole(&w));
    }
    draw_end(&d, "");
    feed_new(&d, &out, &n_out, fed);
    want_text(&w, text, n, n, term.size.n_column);
    ok = ok && !term.bad && term.at >= w.n && term.column == 0;
    for (int i = 0; i < w.n && ok; i++) ok = same_row(&term.row[term.at - w.n + i], &w.row[i]);
    draw_deinit(&d);
    fclose(d.out);
    free(out);
    return ok;
}

static int n_bad(enum reflow reflow, int n_row, int n_line)
{
    int n = 0;
    for (int i = 0; i < n_line; i++) {
        state = (unsigned)i;
        n += !line_goes_well(reflow, n_row);
    }
    return n;
}

TEST(draw_random_edits_and_sizes)
{
    for (int reflow = REFLOW_ALL; reflow <= REFLOW_NONE; reflow++) {
        EXPECT_INT(n_bad((enum reflow)reflow, 200, test_long() ? 300 : 60), 0);
        EXPECT_INT(n_bad((enum reflow)reflow, 7, test_long() ? 100 : 20), 0);
    }
}

struct shown {
    const wchar_t *text; /* text to show; NULL: the line ends with ^C */
    size_t cursor;
    const char *written; /* all output up to this text */
};

/* Show one text after another, on six columns. */
static void expect_written(const struct shown *v, size_t n)
{
    char *out = NULL;
    size_t n_out = 0;
    struct draw d = open_draw(REFLOW_ALL, &out, &n_out);
    draw_begin(&d, L"> ", (struct screen_size){.n_column = 6, .n_row = 9});
    for (size_t i = 0; i < n; i++) {
        if (v[i].text)
            draw_show(&d, v[i].text, wcslen(v[i].text), v[i].cursor);
        else
            draw_end(&d, "^C");
        EXPECT_TEXT(out, v[i].written);
    }
    draw_deinit(&d);
    fclose(d.out);
    free(out);
}

TEST(draw_writes_only_what_changed)
{
    static const struct shown v[] = {
        {L"abc", 3, "> abc"},
        {L"abcd", 4, "> abcd\r\n"},
        {L"abcdé", 5, "> abcd\r\né"},
        {L"abcdé", 3, "> abcd\r\né\r\033[1A\033[5C"},
        {NULL, 0, "> abcd\r\né\r\033[1A\033[5C\r\n\033[1C^C\r\n"},
    };
    expect_written(v, sizeof v / sizeof v[0]);
}

/* Goal: blanks are written at the end of the text, but not at the end of a full row. */
TEST(draw_blanks_before_a_full_row)
{
    static const struct shown v[] = {
        {L"a  ", 3, "> a  "},
        {L"a   ", 4, "> a  \r\033[3C\033[J\r\n"},
        {L"a  ", 3, "> a  \r\033[3C\033[J\r\n\r\033[1A\033[3C\033[J  "},
    };
    expect_written(v, sizeof v / sizeof v[0]);
}
