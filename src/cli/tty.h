/* tty.h - private to cli: the terminal of the line editor. Main thread only, except for its own
 * signal handlers. */
#ifndef QUOTH_CLI_TTY_H
#define QUOTH_CLI_TTY_H

#include "draw.h"

#include <histedit.h>
#include <stdbool.h>

/* Save the terminal's settings. A signal that ends the program restores the settings. Return false
 * if standard input is not a terminal. */
bool tty_begin(void);

/* Set the editor's modes, keys and signals. Text that is typed later is kept for el_wgets. el_wgets
 * shows the line on `on_screen` (borrowed until tty_end) while it waits for keys. */
void tty_attach(EditLine *el, struct draw *on_screen);

struct screen_size tty_size(void);

/* Begin the next line with this text, with the cursor at its end. Take ownership of the text. */
void tty_begin_with(wchar_t *take_text);

void tty_show(EditLine *el); /* show the text typed so far */

void tty_end(void); /* restore the terminal; call it after el_end, also without tty_attach */

#endif
