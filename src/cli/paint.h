/* paint.h - private to cli: an answer's text on a terminal, wrapped at words, with Markdown shown
 * as styles. Main thread only. */
#ifndef QUOTH_CLI_PAINT_H
#define QUOTH_CLI_PAINT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The caller sets out, width and markdown and zeroes all other fields. Glyphs arrive one by one.
 * The output does not depend on the division of the text into pieces. */
struct paint {
    FILE *out;     /* output stream, borrowed */
    int width;     /* columns of the terminal, which may change between glyphs; 0: no wrapping */
    bool markdown; /* true: show bold, code, headings and lists; false: write the text unchanged */
    /* state of the line on the screen */
    /* column: number of written columns. hang: number of blanks at the beginning of a wrapped
     * row. */
    int column, hang;
    int gap;         /* blanks to write before the next word */
    int n_word;      /* columns of `word` */
    struct buf word; /* pending glyphs and styles */
    /* state of the line of the text */
    /* first bytes of the line if they may be a list mark, a heading mark or a fence */
    struct buf lead;
    bool inside; /* true after the beginning of the line */
    /* fenced: true in a block of code. swallow: true if the line is a fence. */
    bool fenced, swallow;
    bool heading, bold;
    int code;  /* number of backticks before code; 0: no code */
    char mark; /* pending mark '*', '`' or '\\', repeated n_mark times; 0: no mark */
    int n_mark;
    uint32_t before; /* glyph before the mark; 0 if none */
};

/* Write a code point. The caller has replaced control characters other than \n and \t. */
void paint_glyph(struct paint *p, uint32_t glyph);
/* Write pending glyphs and end all styles, but not the line. */
void paint_flush(struct paint *p);
void paint_deinit(struct paint *p); /* free the memory, without output; a zeroed paint is allowed */

#endif
