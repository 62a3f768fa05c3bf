/* progress.h - private to cli: one line on a terminal that says how far something is. Nothing where
 * standard error is no terminal. */
#ifndef QUOTH_CLI_PROGRESS_H
#define QUOTH_CLI_PROGRESS_H

#include <stdint.h>

/* Of n; a bar, drawn again at most ten times a second, and at the end, which also ends the line. */
void progress_bar(const char *what, uint64_t done, uint64_t n);

/* The same with so many a second since the beginning, and the time that is left at that rate; n 0:
 * not known. */
void progress_rate(const char *what, uint64_t done, uint64_t n, double per_s);

/* The same with a text behind the bar. */
void progress_text(const char *what, uint64_t done, uint64_t n, const char *text);

/* What is being done now, in the place of what stood there; NULL: nothing any more. */
void progress_note(const char *what);

#endif
