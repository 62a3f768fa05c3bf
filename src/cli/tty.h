/* tty.h - private to cli: the terminal under the line editor. */
#ifndef QUOTH_CLI_TTY_H
#define QUOTH_CLI_TTY_H

#include "draw.h"

#include <histedit.h>
#include <stdbool.h>

/* Save the terminal's settings, and restore them when a signal ends the program. Returns false if
 * standard input is not a terminal. */
bool tty_begin(void);

/* Set the editor's modes, keys and signals. From now on typed text is kept for el_wgets; while it
 * waits for keys, the line is shown on `on_screen` (borrowed until tty_end). */
void tty_attach(EditLine *el, struct draw *on_screen);

struct screen_size tty_size(void);

/* Begin the next line with this text (takes ownership), the cursor at its end. */
void tty_begin_with(wchar_t *take_text);

void tty_show(EditLine *el); /* show the text typed so far */

void tty_end(void); /* after el_end; also without tty_attach */

#endif
