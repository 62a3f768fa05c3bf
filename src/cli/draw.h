/* draw.h - private to cli: draws the line being typed on the screen. */
#ifndef QUOTH_CLI_DRAW_H
#define QUOTH_CLI_DRAW_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

/* What a terminal does with rows that are too long after it became narrower. */
enum reflow {
    REFLOW_ALL,    /* continues all of them in the next row */
    REFLOW_OTHERS, /* continues all except the row of the cursor */
    REFLOW_NONE,   /* truncates them, or keeps them longer, unseen */
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

/* The caller sets out and reflow and zeroes the rest, which then belongs to draw: the state of the
 * screen after the last draw_show. */
struct draw {
    FILE *out; /* borrowed */
    enum reflow reflow;
    struct screen_size size;
    draw_text text; /* the prompt, then the typed text */
    draw_rows rows; /* at least one after draw_begin */
    size_t n_prompt, cursor;
    bool blank;     /* none of the text is on the screen */
    int top;        /* first visible row; above 0 if the screen has too few rows for all */
    int at, column; /* position of the cursor */
};

/* Begin a line: the cursor is in the first column of an empty row. */
void draw_begin(struct draw *d, const wchar_t *prompt, struct screen_size size);

/* Show n characters of text after the prompt, with the cursor on text[cursor] (or after the end).
 * Writes only changes; flushes. */
void draw_show(struct draw *d, const wchar_t *text, size_t n, size_t cursor);

/* Handle a new size of the terminal: remove the old drawing; the next draw_show draws anew in its
 * place. */
void draw_resize(struct draw *d, struct screen_size size);

/* Forget the drawing after the screen was cleared or used by other output: the next draw_show
 * begins at the cursor. */
void draw_reset(struct draw *d);

/* Show the whole line followed by `mark`, and leave the cursor in a new row below. */
void draw_end(struct draw *d, const char *mark);

void draw_deinit(struct draw *d); /* safe on a zeroed one */

#endif
