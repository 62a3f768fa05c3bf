/* draw.h - private to cli: the line being typed, on the screen. */
#ifndef QUOTH_CLI_DRAW_H
#define QUOTH_CLI_DRAW_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

/* What a terminal that becomes narrower does with rows that are now too long. */
enum reflow {
    REFLOW_ALL,    /* go on in the next row                 */
    REFLOW_OTHERS, /* likewise, but for the row of the cursor */
    REFLOW_NONE,   /* are cut off, or stay longer, unseen   */
};

struct screen_size {
    int n_column, n_row;
};

struct draw_row {
    size_t begin, end; /* its characters; end is before the blanks that a wrapped row ends with */
};

typedef VEC(wchar_t) draw_text;
typedef VEC(struct draw_row) draw_rows;

/* out and reflow are the caller's to set; the rest is zeroed, then draw's own: what the last
 * draw_show left on the screen. */
struct draw {
    FILE *out; /* borrowed */
    enum reflow reflow;
    struct screen_size size;
    draw_text text; /* the prompt, then what was typed */
    draw_rows rows; /* at least one once begun */
    size_t n_prompt, cursor;
    bool blank; /* nothing of the text is on the screen */
    int top;    /* the first row that is shown; more than 0 where the screen is too low for all */
    int at, column; /* where the cursor is */
};

/* A new line: the cursor is in the first column of a row, nothing is behind it. */
void draw_begin(struct draw *d, const wchar_t *prompt, struct screen_size size);

/* Make the screen show n characters of text behind the prompt, the cursor on text[cursor] (or
 * behind the end). Writes only what changed; flushes. */
void draw_show(struct draw *d, const wchar_t *text, size_t n, size_t cursor);

/* The terminal has another size. Takes the old drawing from the screen; the next draw_show draws
 * anew in its place. */
void draw_resize(struct draw *d, struct screen_size size);

/* The screen was cleared, or used by others: the next draw_show begins where the cursor is. */
void draw_forget(struct draw *d);

/* Show the whole line, `mark` behind it, and leave the cursor in a new row below. */
void draw_end(struct draw *d, const char *mark);

void draw_deinit(struct draw *d); /* a zeroed one is fine */

#endif
