/* adapter.h - low-rank adapters of an open model ("LoRA", arXiv 2106.09685): files -> additions to
 * linear layers.
 *
 *   names, paths --adapters_open--> configurations and files --adapters_bind--> struct additions
 *
 * An adapter is a folder in the form of PEFT: adapter_config.json and adapter_model.safetensors.
 * Each key of the configuration is used, ignored without an effect, or rejected by name
 * (peft_keys.def). Each tensor is bound to a matrix of the model, or rejected by name. The values
 * are f32 after loading.
 *
 * One thread opens, binds and closes. The model reads the additions until adapters_close. */
#ifndef QUOTH_ADAPTER_H
#define QUOTH_ADAPTER_H

#include "base/names.h"
#include "model/model.h"

/* Read the configurations and check the files. Set *out to one set for each adapter, without
 * additions yet. `base` is the path of set 0, for all sequences without an adapter; NULL: set 0 has
 * no additions. `named` has "NAME=PATH" of each further set, or vLLM's JSON. `base` is borrowed
 * until adapters_close. The other texts are copied. After an error, adapters_close is not needed.
 * ERR_ARG contains the field lora-modules. ERR_IO, ERR_MISSING, ERR_FORMAT, ERR_LIMIT and
 * ERR_UNSUPPORTED contain the file. ERR_MEMORY. */
int adapters_open(struct additions *out, const char *base, const struct text_list *named,
                  struct err *e);
/* Fill the sets with the additions to the matrices of m, in the memory of m's device b. m is
 * borrowed for the call, b until adapters_close. The files are closed, also after an error.
 * ERR_FORMAT, ERR_MISSING, ERR_LIMIT and ERR_UNSUPPORTED contain the tensor or the key. ERR_MEMORY.
 * Call adapters_close also after an error. */
int adapters_bind(struct additions *a, const struct model *m, struct backend *b, struct err *e);
/* Free all memory. Call after the last model_forward and before backend_close. A zeroed struct is
 * allowed. */
void adapters_close(struct additions *a);

#endif
