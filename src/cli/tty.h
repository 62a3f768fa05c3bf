/* tty.h - private to cli: the terminal below the line editor. */
#ifndef QUOTH_CLI_TTY_H
#define QUOTH_CLI_TTY_H

#include "draw.h"

#include <histedit.h>
#include <stdbool.h>

/* Remember the terminal's settings, and bring them back when a signal ends the program. false:
 * standard input is no terminal. */
bool tty_begin(void);

/* Give the editor its modes, keys and signals. Everything typed from now on is for el_wgets; while
 * that waits for keys, the line is shown on `on_screen` (borrowed until tty_end). */
void tty_attach(EditLine *el, struct draw *on_screen);

struct screen_size tty_size(void);

void tty_show(EditLine *el); /* what was typed so far, as it is now */

void tty_end(void); /* after el_end; without tty_attach too */

#endif
