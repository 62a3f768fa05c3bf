/* linear_level.h - the linear slots of a level, from the templates. Include this file after the
 * level's dot.h. Any thread may call kernels, because they change only the memory of their
 * arguments. */
#ifndef QUOTH_KERN_TMPL_LINEAR_LEVEL_H
#define QUOTH_KERN_TMPL_LINEAR_LEVEL_H

#include "linear.h"
#include "linear_q8.h"

static void linear_q8(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                      const struct act *x, int row, int n_row)
{
    strips_run(strips_q8_of(w->type), out, w, panel, n_panel, x, row, n_row);
}

/* Set the slots of int8 activations for all formats with panels. */
static inline void linear_slots(struct kern *k)
{
    for (int t = 0; t < QT_COUNT; t++)
        if (strips_q8_of((enum qtype)t)) k->linear[ACT_Q8][t] = linear_q8;
}

#endif
