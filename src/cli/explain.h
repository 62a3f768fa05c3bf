/* explain.h - quoth inspect --explain. Main thread only. */
#ifndef QUOTH_CLI_EXPLAIN_H
#define QUOTH_CLI_EXPLAIN_H

#include "format/format.h"

struct explain_options {
    bool as_json; /* one JSON object instead of tables */
    bool all;     /* a row per tensor instead of a row for equal tensors of several layers */
};

/* Print the use of each key and tensor of c. The explanation is printed even if the model does not
 * load. The result is the error of model_open if the model does not load. ERR_MEMORY, ERR_IO. */
int explain_print(const struct checkpoint *c, const struct explain_options *o, struct err *e);

/* Append a value as JSON, or shortened to n_item items and n_text bytes (inspect.c). The shortened
 * form is for people and is not JSON. */
void put_meta(struct buf *b, const struct meta *m, size_t n_item, size_t n_text);

#endif
