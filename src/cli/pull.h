/* pull.h - functions that the commands for models of a hub share. Main thread only. */
#ifndef QUOTH_CLI_PULL_H
#define QUOTH_CLI_PULL_H

#include "hub/hub.h"

#include <stdbool.h>

/* Download a model and show the progress. n_connection: connections for a file. Errors: those of
 * hub_pull. */
int pull_shown(struct hub_model *out, const struct hub_name *n, int n_connection, struct err *e);
/* Write a number of bytes as "1.2 GB" to out. */
const char *size_text(char out[static 24], uint64_t n_byte);
/* Print a question to the terminal. Return true for the answers "y" and "yes", and, if yes_default
 * is true, for an empty line. Return false without a terminal. */
bool confirmed(const char *question, bool yes_default);

#endif
