/* progress.h - private to cli: one line on a terminal that says how far something is. Nothing where
 * standard error is no terminal. */
#ifndef QUOTH_CLI_PROGRESS_H
#define QUOTH_CLI_PROGRESS_H

#include <stdint.h>

/* Of n; a bar, drawn again at most ten times a second, and at the end, which also ends the line. */
void progress_bar(const char *what, uint64_t done, uint64_t n);

/* What is being done now, in the place of what stood there; NULL: nothing any more. */
void progress_note(const char *what);

#endif
