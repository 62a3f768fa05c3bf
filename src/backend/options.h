/* options.h - how a backend is opened. Part of backend.h. */
#ifndef QUOTH_BACKEND_OPTIONS_H
#define QUOTH_BACKEND_OPTIONS_H

#include <stdint.h>

struct cores;

enum act_choice { ACT_CHOICE_AUTO, ACT_CHOICE_INT8, ACT_CHOICE_BF16, ACT_CHOICE_F32 };

struct backend_options {
    int n_thread;              /* 0: one per core, or measured for weight_bytes */
    int64_t weight_bytes;      /* size of the model, 0 if unknown */
    const struct cores *cores; /* NULL: the machine's; else cores to assume, for tests */
    const char *cpu_level;     /* NULL: the best; see kern_open */
    /* AUTO: int8 for block formats, bf16 for BF16, else f32. INT8: as AUTO. BF16: activations are
     * rounded to bf16 for every weight type; products are bf16 (kern.h) with BF16 weights, else
     * f32. F32: not converted. */
    enum act_choice act;
};

#endif
