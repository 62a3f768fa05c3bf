/* amx.h - private to src/kern/amx: families of slots. Each family is a file of this folder. Any
 * thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_AMX_AMX_H
#define QUOTH_KERN_AMX_AMX_H

#include "kern/kern_impl.h"

/* Operand of the instruction ldtilecfg: bytes and rows of each tile. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t n_byte[16];
    uint8_t n_row[16];
};

/* Set the slots that linear_bf16.c computes. */
void kern_linear_bf16_amx(struct kern *k);
/* Set the slots that linear_e4m3.c computes. */
void kern_linear_e4m3_amx(struct kern *k);

#endif
