/* term.h - private to cli: a terminal that is drawn on as a whole, again and again; it comes back as it was. */
#ifndef QUOTH_CLI_TERM_H
#define QUOTH_CLI_TERM_H

#include "draw.h"

/* Take standard output's screen, and standard input's keys if that is a terminal too. false: standard output is none,
 * or knows no escape sequences. */
bool term_begin(void);
void term_end(void);
struct screen_size term_size(void);
bool term_utf8(void);   /* does the locale say so?                    */
bool term_colour(void); /* standard output is a terminal, without NO_COLOR */

/* Show rows that end with newlines in place of what is there. */
void term_show(const char *rows, size_t n);

/* Wait for a key, or for `fd` to be readable, or until the window has another size, wait_ms at most. The key (Ctrl-C and
 * Ctrl-D too; the terminal's end is Ctrl-D), or 0. Ctrl-Z stops the program here, and the screen comes back with it. */
int term_wait(int fd, int wait_ms);

#endif
