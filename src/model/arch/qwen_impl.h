/* qwen_impl.h - a part that qwen2 and qwen3 share. Only the loading thread calls it. */
#ifndef QUOTH_ARCH_QWEN_IMPL_H
#define QUOTH_ARCH_QWEN_IMPL_H

#include "model/model_impl.h"

/* Set the windows of layers. */
void qwen_windows(struct config *c, struct binder *b);

#endif
