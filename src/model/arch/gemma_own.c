/* gemma_own.c - sizes and flags that only gemma3n and gemma4 have (gemma_impl.h).
 *
 * The values are one object in the config's memory (c->own), which same_config.c compares byte by
 * byte. */
#include "gemma_impl.h"

#include "base/check.h"

#include <limits.h>

struct gemma_own *gemma_own(struct config *c, struct binder *b)
{
    struct gemma_own *own = bind_memory(b, "values of the architecture", sizeof *own);
    c->own = own, c->own_bytes = own ? sizeof *own : 0;
    return own;
}

int gemma_table_rows(const struct binder *b)
{
    const struct tensor_info *t = checkpoint_tensor(b->checkpoint, "per_layer_token_embd.weight");
    return t && t->dim[1] <= INT_MAX ? (int)t->dim[1] : 0;
}

int64_t gemma_size(const struct config *c, enum tensor_size size)
{
    const struct gemma_own *own = c->own;
    switch (size) {
    case SIZE_N_STREAM:
        return own->n_stream;
    case SIZE_N_STREAM_1:
        return own->n_stream - 1;
    case SIZE_N_STREAM_2:
        return (int64_t)own->n_stream * own->n_stream;
    case SIZE_D_LAUREL:
        return own->d_laurel;
    case SIZE_N_INPUT:
        return own->n_input;
    case SIZE_D_INPUT:
        return own->d_input;
    case SIZE_D_INPUTS:
        return (int64_t)c->n_layer * own->d_input;
    default:
        break;
    }
    CHECK(false, "tensors.def has no other size that only these architectures have");
    return 0;
}
