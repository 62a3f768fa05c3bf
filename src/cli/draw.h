/* draw.h - private to cli: draw the line being typed on the screen. Main thread only. */
#ifndef QUOTH_CLI_DRAW_H
#define QUOTH_CLI_DRAW_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

/* Treatment of rows that are too long after a terminal became narrower. */
enum reflow {
    REFLOW_ALL, /* the terminal continues all rows that are too long in the next row */
    /* the terminal continues all rows that are too long, except the row of the cursor */
    REFLOW_OTHERS,
    /* the terminal truncates rows that are too long, or stores more columns than the screen has */
    REFLOW_NONE,
};

struct screen_size {
    int n_column, n_row;
};

struct draw_row {
    size_t begin,
        end; /* range of characters; end precedes the blanks at the end of a wrapped row */
};

typedef VEC(wchar_t) draw_text;
typedef VEC(struct draw_row) draw_rows;

/* The state of the screen after the last draw_show. The caller sets out and reflow and zeroes all
 * other fields, which then belong to draw. */
struct draw {
    FILE *out; /* output stream, borrowed */
    enum reflow reflow;
    struct screen_size size;
    draw_text text; /* prompt, then typed text */
    draw_rows rows; /* rows of the drawing, at least one after draw_begin */
    size_t n_prompt, cursor;
    bool blank;     /* true if no text is on the screen */
    int top;        /* first visible row; above 0 if the drawing has more rows than the screen */
    int at, column; /* position of the cursor */
};

/* Begin a line. The cursor must be in the first column of an empty row. */
void draw_begin(struct draw *d, const wchar_t *prompt, struct screen_size size);

/* Show n characters of text after the prompt, with the cursor on text[cursor] (or after the end).
 * Write only changes, and flush. */
void draw_show(struct draw *d, const wchar_t *text, size_t n, size_t cursor);

/* Remove the drawing after the terminal's size has changed. The next draw_show draws in its
 * place. */
void draw_resize(struct draw *d, struct screen_size size);

/* Discard the drawing after other output has cleared or used the screen. The next draw_show begins
 * at the cursor. */
void draw_reset(struct draw *d);

/* Show the whole line followed by `mark`, and leave the cursor in a new row below. */
void draw_end(struct draw *d, const char *mark);

void draw_deinit(struct draw *d); /* free the memory; a zeroed draw is allowed */

#endif
