/* linear.h - linear layers as strips of VL outputs. This file assigns strips to kernels and stores
 * their results. The arithmetic is in linear_q8.h and linear_float.h. Any thread may call kernels,
 * because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_TMPL_LINEAR_H
#define QUOTH_KERN_TMPL_LINEAR_H

#include "kern/kern_impl.h"

/* Compute c [STRIPS][LINEAR_ROWS][VL] of STRIPS strips (strips_q8). The panels of the strips are
 * `stride` bytes apart. */
typedef void strips_fn(const uint8_t *const panel[STRIPS], const int lane[STRIPS], int64_t stride,
                       const struct act *x, int row, int n_row, float *c);

enum { PANEL_STRIPS = PANEL / VL };

/* Return the first byte of the panel that contains strip j. */
static inline const uint8_t *strip_panel(const struct panels *w, int strip)
{
    return w->data + strip / PANEL_STRIPS * w->stride;
}

/* Return the first lane of strip j in its panel. */
static inline int strip_lane(int strip)
{
    return strip % PANEL_STRIPS * VL;
}

/* Store a strip's results, c [n_row][VL]. */
static inline void strip_put(const struct linear_out *out, int n_out, int strip, const float *c,
                             int row, int n_row)
{
    int r = strip * VL, n = n_out - r < VL ? n_out - r : VL;
    if (n <= 0) return;
    vf bias = out->bias ? vf_load_n(out->bias + r, n) : vf_zero();
    float *y = out->y + row * out->stride + r;
    for (int i = 0; i < n_row; i++, y += out->stride, c += VL) {
        vf v = out->bias ? vf_add(vf_load(c), bias) : vf_load(c);
        if (out->add) v = vf_add(n == VL ? vf_load(y) : vf_load_n(y, n), v);
        if (n == VL)
            vf_store(y, v);
        else
            vf_store_n(y, v, n);
    }
}

/* Compute strips in pairs. An odd last strip is paired with itself. */
static inline void strips_run(strips_fn *fn, const struct linear_out *out, const struct panels *w,
                              int panel, int n_panel, const struct act *x, int row, int n_row)
{
    _Alignas(64) float c[STRIPS * LINEAR_ROWS * VL];
    int end = (panel + n_panel) * PANEL_STRIPS;
    for (int s = panel * PANEL_STRIPS; s < end; s += STRIPS) {
        int last = s + STRIPS - 1 < end ? s + STRIPS - 1 : s;
        const uint8_t *at[STRIPS] = {strip_panel(w, s)};
        int lane[STRIPS] = {strip_lane(s)};
        at[STRIPS - 1] = strip_panel(w, last), lane[STRIPS - 1] = strip_lane(last);
        fn(at, lane, w->stride, x, row, n_row, c);
        strip_put(out, w->n_out, s, c, row, n_row);
        if (last > s) strip_put(out, w->n_out, last, c + LINEAR_ROWS * VL, row, n_row);
    }
}

#endif
