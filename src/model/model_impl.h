/* model_impl.h - private to src/model: all shared declarations of the room.
 *
 *   config_impl.h    the config of a model        arch_impl.h     an architecture
 *   block_impl.h     bound blocks                 bind_impl.h     metadata and tensors -> weights
 *   plan_impl.h      a loaded model, its memory   forward_impl.h  the forward pass
 *
 *   keys.c     accepted metadata keys: each key is read, known to be idle, or rejected
 *   config.c   metadata -> struct config
 *   bind.c     tensors -> weights; checks names and shapes with format/tensors.def
 *   random.c   the tensors that binding needs, for random weights of a folder
 *   form/      quantized weights as other libraries publish them
 *   quantize.c quantization of float weights while they are packed
 *   plan.c     memory: scratch, rope tables, KV pages
 *   load.c     open and close
 *   arch/      one file per architecture, with its config, binding and wiring
 *   block/     parts of layers and ends: blocks compute, architectures wire them
 *   linear.c   linear ops of layers, with the additions of adapters
 *   forward.c  one batch: copies, embedding, layers, results
 * One thread at a time calls these functions: first the loading thread, then the engine's
 * thread. */
#ifndef QUOTH_MODEL_IMPL_H
#define QUOTH_MODEL_IMPL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "forward_impl.h"

#include <math.h>

#endif
