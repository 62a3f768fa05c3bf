/* command_r_impl.h - a part that command-r and cohere2 share. The loading thread binds. The
 * engine's thread runs the forward pass. */
#ifndef QUOTH_ARCH_COMMAND_R_IMPL_H
#define QUOTH_ARCH_COMMAND_R_IMPL_H

#include "model/model_impl.h"

/* Read the factor of the logits. Set the order of the blocks. */
void command_r_config(struct config *c, struct binder *b);

#endif
