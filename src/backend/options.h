/* options.h - options for opening a backend. This file is part of backend.h. */
#ifndef QUOTH_BACKEND_OPTIONS_H
#define QUOTH_BACKEND_OPTIONS_H

#include <stdint.h>

struct cores;
struct pool;

enum act_choice { ACT_CHOICE_AUTO, ACT_CHOICE_INT8, ACT_CHOICE_BF16, ACT_CHOICE_F32 };

/* All pointers except `pool` are borrowed for the call of backend_open. */
struct backend_options {
    /* number of threads; 0: one per core, or measured for weight_bytes */
    int n_thread;
    /* threads to use, shared with other backends, borrowed until backend_close; NULL: own
     * threads */
    struct pool *pool;
    int64_t weight_bytes;      /* size of the model, 0 if unknown */
    const struct cores *cores; /* assumed cores, for tests; NULL: cores of the machine */
    /* level of kernels, a name that kern_open accepts; NULL: the best level */
    const char *cpu_level;
    /* Type of activations. AUTO: int8 for block formats, bf16 for BF16, otherwise f32. INT8: like
     * AUTO. F32: activations are not converted. BF16: activations are rounded to bf16 for every
     * weight type. With BF16, products are bf16 (kern.h) for BF16 weights, otherwise f32. */
    enum act_choice act;
};

#endif
