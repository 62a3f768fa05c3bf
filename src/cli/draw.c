/* draw.c - draw the line being typed: wrapped, redrawn in place, correct after a resize.
 *
 * libedit edits but does not draw. libedit's output depends on the history of the edits: the
 * terminal or a newline may wrap a row, and trailing blanks may be missing. The effect of a resize
 * on libedit's output also depends on the history. This file ends every row of a long line with a
 * newline, after a character that is not a blank. A terminal that becomes wider does not join these
 * rows. A narrower terminal truncates or folds each row separately (enum reflow), into a number of
 * rows that can be computed. After a resize:
 *
 *   the rows above the cursor, at the new width --> up by that number --> clear from there --> draw
 *
 * (1) A row is full only if the next row exists. The cursor is therefore never after the last
 *     column, where terminals behave differently.
 * (2) A wide character that does not fit begins the next row.
 * (3) Only relative movements are written. Downward movements are newlines.
 * (4) A window of rows around the cursor is shown if a text has more rows than the screen. */
#include "draw.h"

#include "base/utf8.h"

#include <stdlib.h>

enum { TAB_WIDTH = 8 };

/* ---- characters ---- */

/* Return true for control characters of C0 and C1, and DEL. */
static bool is_control(wchar_t c)
{
    return c < L' ' || (c >= 0x7F && c < 0xA0);
}

static bool is_blank(wchar_t c)
{
    return c == L' ' || c == L'\t';
}

/* Return the width of c in a given column; 0 for a newline. */
static int width_of(const struct draw *d, wchar_t c, int column)
{
    if (c == L'\t') {
        int tab = TAB_WIDTH - column % TAB_WIDTH, left = d->size.n_column - column;
        return tab < left ? tab : left;
    }
    if (c == L'\n') return 0;
    if (is_control(c)) return c < 0x80 ? 2 : 1;
    return utf8_width((uint32_t)c);
}

/* Write one character. Control characters are written as ^A, so that a pasted escape sequence
 * cannot act on the terminal. */
static void put(struct draw *d, wchar_t c, int column)
{
    char bytes[4];
    if (c == L'\t')
        fprintf(d->out, "%*s", width_of(d, c, column), "");
    else if (is_control(c) && c < 0x80)
        fprintf(d->out, "^%c", (char)(c ^ 0x40));
    else if (c != L'\n')
        fwrite(bytes, 1, (size_t)utf8_encode(bytes, is_control(c) ? 0xFFFD : (uint32_t)c), d->out);
}

/* ---- rows ---- */

/* End the last row at character `end` and begin the next one. Blanks and the newline at the end are
 * not drawn (see the file's head). Return false if memory is exhausted. */
static bool end_row(struct draw *d, size_t end)
{
    struct draw_row *row = &d->rows.v[d->rows.n - 1], next = {end, end};
    for (row->end = end; row->end > row->begin;) {
        wchar_t last = d->text.v[row->end - 1];
        if (!is_blank(last) && last != L'\n') break;
        row->end--;
    }
    return vec_push(&d->rows, next);
}

/* Divide the text into rows for the current width. A full row ends immediately, so the cursor moves
 * to the next row (invariant 1). Without memory for a row, the text after the last row is not
 * drawn. */
static void lay_out(struct draw *d)
{
    struct draw_row first = {0};
    int column = 0;
    d->rows.n = 0;
    if (!vec_push(&d->rows, first)) return;
    for (size_t i = 0; i < d->text.n; i++) {
        wchar_t c = d->text.v[i];
        if (column + width_of(d, c, column) > d->size.n_column) {
            if (!end_row(d, i)) return;
            column = 0;
        }
        column += width_of(d, c, column);
        if (c == L'\n' || column >= d->size.n_column) {
            if (!end_row(d, i + 1)) return;
            column = 0;
        }
    }
    d->rows.v[d->rows.n - 1].end = d->text.n;
}

/* Return the row with character i. The search begins at the end, because the cursor is usually at
 * the end. */
static int row_of(const struct draw *d, size_t i)
{
    int row = (int)d->rows.n - 1;
    while (row > 0 && d->rows.v[row].begin > i) row--;
    return row;
}

/* Return the column of character i in its row. */
static int column_of(const struct draw *d, int row, size_t i)
{
    int column = 0;
    for (size_t k = d->rows.v[row].begin; k < i; k++) column += width_of(d, d->text.v[k], column);
    return column;
}

/* Return the number of rows into which a terminal of n_column columns folds the characters [begin,
 * end) of a row. */
static int folds(const struct draw *d, size_t begin, size_t end, int n_column)
{
    int n = 1, column = 0, folded = 0;
    for (size_t i = begin; i < end; i++) {
        int width = width_of(d, d->text.v[i], column);
        bool wide = width == 2 && !is_control(d->text.v[i]) && d->text.v[i] != L'\t';
        int cell = wide ? 2 : 1;
        for (int left = width; left > 0; left -= cell) {
            if (folded + cell > n_column) n++, folded = 0;
            folded += cell;
        }
        column += width;
    }
    return n;
}

/* Return the number of rows from the top of the drawing to the cursor after a resize to n_column
 * columns. A cursor after the end of a row moves with the row's last character. */
static int rows_above(const struct draw *d, int n_column)
{
    int above = d->at - d->top;
    if (d->reflow == REFLOW_NONE) return above;
    for (int i = d->top; i <= d->at; i++) {
        const struct draw_row *row = &d->rows.v[i];
        size_t end = i == d->at && d->cursor < row->end ? d->cursor + 1 : row->end;
        if (i < d->at || d->reflow == REFLOW_ALL) above += folds(d, row->begin, end, n_column) - 1;
    }
    return above;
}

/* ---- the screen ---- */

/* Move the cursor to a row and column. Create rows that are not on the screen yet. */
static void move_to(struct draw *d, int row, int column)
{
    if (row == d->at && column == d->column) return;
    fputc('\r', d->out);
    if (row < d->at) fprintf(d->out, "\033[%dA", d->at - row);
    for (; d->at < row; d->at++) fputc('\n', d->out);
    if (column > 0) fprintf(d->out, "\033[%dC", column);
    /* d->at and d->column are always the place of the terminal's cursor, relative to the drawing */
    d->at = row;
    d->column = column;
}

/* Draw from the given character, at the cursor, up to row `last`. */
static void put_rows(struct draw *d, size_t from, int last)
{
    for (;;) {
        for (; from < d->rows.v[d->at].end; from++) {
            put(d, d->text.v[from], d->column);
            d->column += width_of(d, d->text.v[from], d->column);
        }
        if (d->at >= last) return;
        fputs("\r\n", d->out);
        d->column = 0;
        from = d->rows.v[++d->at].begin;
    }
}

/* Draw row `top` and all later rows, at the top of the window. */
static void put_window(struct draw *d, int top)
{
    int n = (int)d->rows.n, n_row = d->size.n_row;
    move_to(d, d->top, 0);
    if (!d->blank) fputs("\033[J", d->out);
    d->at = d->top = top;
    put_rows(d, d->rows.v[top].begin, n - top > n_row ? top + n_row - 1 : n - 1);
}

/* Return the first character to draw if the first `same` characters of n_old are unchanged. Do not
 * begin after blanks at a former or present end of a row, or after a row that may continue
 * differently. */
static size_t first_change(const struct draw *d, size_t same, size_t n_old, int *row)
{
    *row = row_of(d, same);
    if (*row > 0 && same == d->rows.v[*row].begin &&
        column_of(d, *row - 1, d->rows.v[*row - 1].end) < d->size.n_column)
        --*row;
    size_t from = same < d->rows.v[*row].end ? same : d->rows.v[*row].end;
    while (same < n_old && from > d->rows.v[*row].begin && is_blank(d->text.v[from - 1])) from--;
    return from;
}

/* Draw the difference to the last drawing. The first `same` characters of n_old are unchanged. The
 * rest of the old drawing is cleared first, because the new text may be shorter. */
static void put_change(struct draw *d, size_t same, size_t n_old)
{
    int row, last = d->top + d->size.n_row - 1;
    size_t from = first_change(d, same, n_old, &row);
    if (last >= (int)d->rows.n) last = (int)d->rows.n - 1;
    if (row < d->top) row = d->top, from = d->rows.v[row].begin;
    if (row > last || (same == n_old && same == d->text.n)) return;
    move_to(d, row, column_of(d, row, from));
    if (from < n_old) fputs("\033[J", d->out);
    put_rows(d, from, last);
}

/* Return the window's top row. Move the window only as far as needed. */
static int window_top(const struct draw *d, int cursor_row)
{
    if ((int)d->rows.n <= d->size.n_row) return 0;
    if (cursor_row >= d->top + d->size.n_row) return cursor_row - d->size.n_row + 1;
    return cursor_row < d->top ? cursor_row : d->top;
}

/* ---- a line ---- */

/* Return the length of the common beginning of a and b. */
static size_t n_same(const wchar_t *a, size_t n_a, const wchar_t *b, size_t n_b)
{
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

/* The text always begins with the prompt, so that rows and columns include it. */
void draw_begin(struct draw *d, const wchar_t *prompt, struct screen_size size)
{
    d->text.n = 0;
    while (*prompt && vec_push(&d->text, *prompt)) prompt++;
    d->n_prompt = d->cursor = d->text.n;
    d->size = size;
    draw_reset(d);
}

/* Draw a new state of the line. Only the different part is written if the window is unchanged. */
void draw_show(struct draw *d, const wchar_t *text, size_t n, size_t cursor)
{
    size_t n_old = d->text.n, prompt = d->n_prompt;
    size_t same = prompt + n_same(d->text.v + prompt, n_old - prompt, text, n);
    d->text.n = prompt;
    for (size_t i = 0; i < n && vec_push(&d->text, text[i]); i++) continue;
    d->cursor = prompt + cursor < d->text.n ? prompt + cursor : d->text.n;
    lay_out(d);
    if (d->rows.n == 0) return; /* memory is exhausted */
    int row = row_of(d, d->cursor), top = window_top(d, row);
    if (d->blank || top != d->top)
        put_window(d, top);
    else
        put_change(d, same, n_old);
    d->blank = false;
    move_to(d, row, column_of(d, row, d->cursor));
    fflush(d->out);
}

/* Erase the old rows at their new places. The next draw_show draws all of them. */
void draw_resize(struct draw *d, struct screen_size size)
{
    int above = d->blank ? 0 : rows_above(d, size.n_column);
    fputc('\r', d->out);
    if (above > 0) fprintf(d->out, "\033[%dA", above);
    fputs("\033[J", d->out);
    d->size = size;
    draw_reset(d);
}

/* The cursor is at the beginning of an empty row after this call. */
void draw_reset(struct draw *d)
{
    d->blank = true;
    d->top = d->at = d->column = 0;
    lay_out(d);
}

/* Draw the whole line, even if it has more rows than the screen. The line remains in the terminal's
 * scrollback. */
void draw_end(struct draw *d, const char *mark)
{
    int n = (int)d->rows.n;
    bool all = !d->blank && n <= d->size.n_row;
    if (n == 0) return;
    d->size.n_row = n;
    if (!all) put_window(d, 0);
    move_to(d, n - 1, column_of(d, n - 1, d->text.n));
    fprintf(d->out, "%s\r\n", mark);
    fflush(d->out);
    draw_reset(d);
}

void draw_deinit(struct draw *d)
{
    vec_deinit(&d->text);
    vec_deinit(&d->rows);
}
