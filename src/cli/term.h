/* term.h - private to cli: a terminal used as a full-screen display; its contents are restored at
 * the end. */
#ifndef QUOTH_CLI_TERM_H
#define QUOTH_CLI_TERM_H

#include "draw.h"

/* Take over standard output's screen, and standard input's keys if it is a terminal too. Returns
 * false if standard output is not a terminal with escape sequences. */
bool term_begin(void);
void term_end(void);
struct screen_size term_size(void);
bool term_utf8(void);   /* true if the locale is UTF-8                */
bool term_colour(void); /* true if standard output is a terminal and NO_COLOR is not set */

/* Replace the screen's contents by rows that end with newlines. */
void term_show(const char *rows, size_t n);

/* Wait until a key is pressed, `fd` is readable or the window has another size, wait_ms at most.
 * Return the key (including Ctrl-C and Ctrl-D; the terminal's end is Ctrl-D), or 0. Ctrl-Z stops
 * the program here; the screen is restored when it continues. */
int term_wait(int fd, int wait_ms);

#endif
