/* cli.h - the command line: the commands, one file each. Main thread only. */
#ifndef QUOTH_CLI_H
#define QUOTH_CLI_H

#include "option/option.h"

#define COMMAND(id) extern const struct command command_##id;
#include "commands.def"
#undef COMMAND
/* Return all commands, NULL-terminated, in the order of commands.def. */
const struct command *const *commands_all(void);

/* Write the URL of a server to url[n_url], without slashes at its end. An address without a scheme
 * gets http://; "unix:PATH" is unchanged. ERR_ARG if the address is empty or too long. */
int server_address(char *url, size_t n_url, const char *text, struct err *e);

enum { OLLAMA_HOST_BYTES = 256 };
/* Read an address in the form of OLLAMA_HOST: [http://]HOST[:PORT], or :PORT. Absent parts are
 * 127.0.0.1 and 11434, and the port 80 or 443 after a scheme. text NULL: no address. ERR_ARG for
 * another form. */
int ollama_address(char host[static OLLAMA_HOST_BYTES], int *port, const char *text, struct err *e);

/* Replace names of models (hf:..., ollama:...) by their paths: the first argument of a command that
 * takes MODEL, and flags whose value is MODEL. A missing model is downloaded with --pull, or after
 * a question at a terminal. ERR_MISSING otherwise; errors of hub_find and hub_pull. Main thread. */
int model_arguments(const struct command *c, int n_arg, char **arg, struct err *e);
/* Set *path to the path of a model. Texts that are not names of models are unchanged. The path is
 * valid until the program ends. Errors: those of model_arguments. */
int model_path(const char **path, struct err *e);
/* Return the name of a server's model for its path. NULL if the user did not give the model as a
 * name of a hub. */
const char *model_hub_name(const char *path);

bool program_is_app(void); /* return true if quoth pack without --plain made this program */

#endif
