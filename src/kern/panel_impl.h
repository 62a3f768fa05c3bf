/* panel_impl.h - private to src/kern: memory layout of panels. The head of panel.c has a drawing of
 * the layout.
 *
 * A panel is a sequence of groups of 256 k; the last group may be shorter. A group has n_unit units
 * of 32 k. A group consists of all scales, padded to 64 bytes, and then the codes of each unit. Any
 * thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_PANEL_IMPL_H
#define QUOTH_KERN_PANEL_IMPL_H

#include "kern.h"

enum { UNIT = 32, GROUP_UNITS = ACT_GROUP / UNIT };

enum panel_levels {
    LEVELS_NONE,
#define LEVELS(id, ...) LEVELS_##id,
#include "quant/types.def"
    LEVELS_COUNT
};

/* Scales of a group. Every row of the tables holds the 16 outputs next to each other.
 *   PANEL_F16      f16 d [n_unit]                  an f32 scale per 32 values
 *   PANEL_F16_MIN  f16 {d, m} [n_unit]             and a minimum: value = d * q + m
 *   PANEL_E8M0     u8 [n_unit]                     2^(e - 128)
 *   PANEL_E4M3     u8 [2 n_unit]                   NVFP4's, per 16 values
 *   PANEL_I8       f16 d, i8 [256 / sub]           integer scales
 *   PANEL_I6_MIN   f16 d, f16 dmin, u8 [8], u8 [4] 6-bit scales s and minimums m per 32 values:
 *                  low nibbles s | m << 4 of sub-block j, then byte j: bits 4 and 5 of s j, m j,
 *                  s j+4, m j+4 from bit 0 up
 *   PANEL_I4_MIN   f16 d, f16 dmin, u8 [16]        4-bit s | m << 4 per 16 values
 *   PANEL_ONE      f16 d [256 / block]             only d
 *                  and u8 zero [256 / block] after all d, if zero is ZERO_OWN
 *   PANEL_ONE32    f32 d [256 / block]             only d */
enum panel_scales {
    PANEL_F16,
    PANEL_F16_MIN,
    PANEL_E8M0,
    PANEL_E4M3,
    PANEL_I8,
    PANEL_I6_MIN,
    PANEL_I4_MIN,
    PANEL_ONE,
    PANEL_ONE32
};

enum { ZERO_OWN = -1 }; /* panel_format.zero: every block has its own zero */

struct panel_format {
    int bits;
    enum panel_levels levels;
    int zero, sub;
    enum panel_scales scales;
    float unit;
    int block;
};

#define PANEL(id, ...) static const struct panel_format panel_format_##id = {__VA_ARGS__};
#include "quant/types.def"

/* Return the format of a type's panels; NULL for float types. */
const struct panel_format *panel_format_of(enum qtype t);

/* Byte of each code, [LEVELS_COUNT][16]; LEVELS_NONE: the code itself. */
extern const uint8_t panel_level[LEVELS_COUNT][16];

/* Return the largest byte of a format: its largest code, or the largest entry of its table. */
static inline int panel_bytes_max(const struct panel_format *f)
{
    switch (f->levels) {
#define LEVELS(id, max, ...)                                                                       \
    case LEVELS_##id:                                                                              \
        return max;
#include "quant/types.def"
    default:
        return (1 << f->bits) - 1;
    }
}

/* Return the table of the upper bytes of levels with 14 bits; LEVELS_NONE for other levels. */
static inline enum panel_levels panel_upper(const struct panel_format *f)
{
    return f->levels == LEVELS_NF4   ? LEVELS_NF4_HIGH
           : f->levels == LEVELS_FP4 ? LEVELS_FP4_HIGH
                                     : LEVELS_NONE;
}

/* Return true for the format of a plane of upper bytes. The sums of this plane are multiplied by
 * 128. */
static inline bool panel_is_upper(const struct panel_format *f)
{
    return f->levels == LEVELS_NF4_HIGH || f->levels == LEVELS_FP4_HIGH;
}

/* Return the format of the plane of upper bytes. */
static inline struct panel_format panel_upper_plane(const struct panel_format *f)
{
    struct panel_format p = *f;
    p.levels = panel_upper(f), p.zero = 64;
    return p;
}

/* Return the exact levels of a format with levels of 14 bits. */
static inline const float *panel_exact_levels(const struct panel_format *f)
{
    return f->levels == LEVELS_NF4 ? level_nf4 : level_fp4;
}

/* Return the bytes of a group's scales, padded to 64. */
static inline int panel_scale_bytes(const struct panel_format *f, int n_unit)
{
    int n = 0; /* number of bytes per output */
    switch (f->scales) {
    case PANEL_F16:
        n = 2 * n_unit;
        break;
    case PANEL_F16_MIN:
        n = 4 * n_unit;
        break;
    case PANEL_E8M0:
        n = n_unit;
        break;
    case PANEL_E4M3:
        n = 2 * n_unit;
        break;
    case PANEL_I8:
        n = 2 + ACT_GROUP / f->sub;
        break;
    case PANEL_I6_MIN:
        n = 4 + 12;
        break;
    case PANEL_I4_MIN:
        n = 4 + 16;
        break;
    case PANEL_ONE32:
        n = 4 * ((n_unit * UNIT + f->block - 1) / f->block);
        break;
    case PANEL_ONE:
        n = (f->zero == ZERO_OWN ? 3 : 2) * ((n_unit * UNIT + f->block - 1) / f->block);
        break;
    }
    return (n * PANEL + 63) / 64 * 64;
}

/* Return true for formats with one scale per block. */
static inline bool panel_is_one(const struct panel_format *f)
{
    return f->scales == PANEL_ONE || f->scales == PANEL_ONE32;
}

/* Return the zeros u8 [16] of block i of a group, for ZERO_OWN. s is the group's scales. */
static inline const uint8_t *panel_zeros(const struct panel_format *f, const uint8_t *s, int n_unit,
                                         int i)
{
    const int n_block = (n_unit * UNIT + f->block - 1) / f->block;
    return s + (2 * n_block + i) * PANEL;
}

/* Return the bytes of a group of n_unit units. */
static inline int panel_group_bytes(const struct panel_format *f, int n_unit)
{
    return panel_scale_bytes(f, n_unit) + n_unit * f->bits * 64;
}

/* Return the number of units of the group that starts at k value g. */
static inline int group_units(int g, int k)
{
    return (k - g < ACT_GROUP ? k - g : ACT_GROUP) / UNIT;
}

/* Return the values per scale of a SCALED type; 0 for other types. */
static inline int scaled_run(enum qtype t)
{
    switch (t) {
#define SCALED(id, run)                                                                            \
    case QT_##id:                                                                                  \
        return run;
#include "quant/types.def"
    default:
        return 0;
    }
}

/* Return the bytes of a block of 16 outputs of a SCALED type: f32 scales [16], then codes u8
 * [run][16]. */
static inline int scaled_bytes(enum qtype t)
{
    return PANEL * (4 + scaled_run(t));
}

/* Return the number of bytes of k values of 16 outputs of a float type. The values are f32 [k][16],
 * f16 [k][16], bf16 [k / 2][16][2], fp8 [k][16] or blocks of SCALED types. An odd k of bf16 is
 * padded with a zero. */
static inline int64_t panel_float_bytes(enum qtype t, int k)
{
    if (scaled_run(t)) return (int64_t)(k / scaled_run(t)) * scaled_bytes(t);
    return (int64_t)(t == QT_bf16 ? (k + 1) / 2 * 2 : k) * PANEL * qtype_info[t].n_byte;
}

/* One output's group as numbers. */
struct lane_group {
    int16_t q[ACT_GROUP]; /* values, after the subtraction of zero */
    uint8_t code[ACT_GROUP];
    int n; /* number of values */
    /* f32 scale and minimum of unit j (E4M3: of half unit j; ONE: of block j). For integer scales,
     * d[0] and m[0] are the scale and the minimum of the group. For levels of 14 bits, d is the
     * scale of the exact levels. */
    float d[16], m[16];
    int16_t scale[16], min[16]; /* integer scales and minimums of sub-block j */
};
/* Decode one lane of a group to integers and scales, for the reference. */
void panel_lane_group(struct lane_group *l, const struct panel_format *f, const uint8_t *group,
                      int n_unit, int lane);

/* Write the values of output r to y f32 [256], from k value g (a multiple of 256) to the group's
 * end. Return the number of written values. */
int panel_row_group(float *y, const struct panels *w, int r, int g);

#endif
