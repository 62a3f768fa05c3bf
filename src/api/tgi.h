/* tgi.h - private to src/api: the form of Text Generation Inference's answers. Any thread. */
#ifndef QUOTH_API_TGI_H
#define QUOTH_API_TGI_H

#include "dialect.h"

extern const struct error_form tgi_errors;
extern const char tgi_no_memory[]; /* value of dialect.no_memory */

/* Convert a body with objects as `parameters` to the neutral form, a body of completions with
 * `inputs` in place of `prompt`. The caller owns *out, which is NULL after an error. ERR_ARG with
 * the field, ERR_MEMORY. */
int tgi_neutral(struct json **out, const struct json *body, struct err *e);

#endif
