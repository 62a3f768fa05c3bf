/* tty.h - private to cli: the terminal below the line editor. */
#ifndef QUOTH_CLI_TTY_H
#define QUOTH_CLI_TTY_H

#include <histedit.h>
#include <stdbool.h>
#include <stdio.h>

/* Remember the terminal's settings, and bring them back when a signal ends the program. false:
 * standard input is no terminal. */
bool tty_begin(void);

/* Give the editor its modes, keys and signals. Everything typed from now on is for el_wgets. */
void tty_attach(EditLine *el, FILE *screen);

void tty_end(FILE *screen); /* after el_end */

#endif
