/* paint.h - private to cli: an answer's text on a terminal, wrapped at words, with Markdown shown
 * as styles. */
#ifndef QUOTH_CLI_PAINT_H
#define QUOTH_CLI_PAINT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The caller sets out, width and markdown and zeroes the rest. Glyphs arrive one by one: the output
 * does not depend on how the text is divided into pieces. */
struct paint {
    FILE *out;     /* borrowed */
    int width;     /* columns; 0: no wrapping. May change between glyphs */
    bool markdown; /* show bold, code, headings and lists; false: the text unchanged */
    /* state of the line on the screen */
    int column, hang; /* columns written; blanks at the beginning of a wrapped row */
    int gap;          /* blanks to write before the next word */
    int n_word;       /* columns of `word` */
    struct buf word;  /* glyphs and styles not written yet */
    /* state of the line of the text */
    struct buf lead; /* its first bytes, while they may be a list mark, a heading mark or a fence */
    bool inside;     /* after the beginning of the line */
    bool fenced, swallow; /* in a block of code; the line is a fence */
    bool heading, bold;
    int code;  /* backticks that opened code; 0: none */
    char mark; /* '*', '`' or '\\', with n_mark of them pending; 0: none */
    int n_mark;
    uint32_t before; /* the glyph before the mark; 0: none */
};

/* Write a code point. The caller has replaced control characters other than \n and \t. */
void paint_glyph(struct paint *p, uint32_t glyph);
/* Write pending glyphs and end all styles; the line is not ended. */
void paint_flush(struct paint *p);
void paint_deinit(struct paint *p); /* safe on a zeroed one; writes nothing */

#endif
