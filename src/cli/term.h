/* term.h - private to cli: a terminal used as a full-screen display; its contents are restored at
 * the end. Main thread only. */
#ifndef QUOTH_CLI_TERM_H
#define QUOTH_CLI_TERM_H

#include "draw.h"

/* Acquire the screen of standard output, and the keys of standard input if that is a terminal.
 * Return false if standard output is not a terminal with escape sequences. */
bool term_begin(void);
void term_end(void);
struct screen_size term_size(void);
bool term_utf8(void);   /* return true if the locale is UTF-8 */
bool term_colour(void); /* return true if standard output is a terminal and NO_COLOR is not set */

/* Replace the screen's contents by rows that end with newlines. */
void term_show(const char *rows, size_t n);

/* Wait at most wait_ms until a key is pressed, `fd` is readable or the window has another size.
 * Return the key, or 0 if no key was pressed. Ctrl-C is a key, and the terminal's end is Ctrl-D.
 * Ctrl-Z stops the program in this function. The function acquires the screen again after the
 * program continues. */
int term_wait(int fd, int wait_ms);

#endif
