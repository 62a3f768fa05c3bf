/* load.h - private to cli: which weights a command works on, a model's own or random ones. */
#ifndef QUOTH_CLI_LOAD_H
#define QUOTH_CLI_LOAD_H

#include "cli.h"

#include "format/format.h"
#include "token/token.h"

/* --load-format, --shape, --quant, --pure, --dummy-seed */
extern const struct option load_options[];

/* --shape, which stands in for MODEL; NULL where it was not given. */
const char *load_shape(void);

/* Open the model at path, or one of random weights with its shape, as the flags say. no_data: the
 * random weights are not made yet (checkpoint_write_gguf makes them). */
int load_checkpoint(struct checkpoint **out, const char *path, bool no_data, struct err *e);

/* Its tokenizer; of random weights for a folder that has one, the folder's. */
int load_tokenizer(struct tokenizer **out, const struct checkpoint *c, struct err *e);

#endif
