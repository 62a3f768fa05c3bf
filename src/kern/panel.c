/* panel.c - weights interleaved for SIMD: 16 output rows per panel, one layout for every
 * instruction set.
 *
 *     panel   [ group of 256 k ][ group ] ...              64-byte aligned
 *     group   [ scales, padded to 64 ][ unit of 32 k ] x n_unit
 *     unit    low plane, then high plane (formats of 5, 6 and 3 bits)
 *
 * A unit consists of 64-byte vectors [16 outputs][4 k]. One integer dot instruction multiplies a
 * vector by four broadcast activations. A unit has eight of these k-quads. A vector contains 2, 4
 * or 8 consecutive quads if codes are narrower than a byte. The first quad is in the low bits:
 *
 *     bits  low plane             high plane
 *      8    8 vectors
 *      6    4 of 4-bit codes      2 of the upper two bits
 *      5    4 of 4-bit codes      1 of the fifth bits
 *      4    4 of 4-bit codes
 *      3    2 of 2-bit codes      1 of the third bits
 *      2    2 of 2-bit codes
 *      1    1 of bits
 *
 * A level that computes 8 or 4 outputs together uses halves or quarters of each vector. Formats
 * whose codes represent other numbers (code books, FP4) have a table of bytes. Points of IQ2 and
 * IQ1 become 3-bit codes, and points of IQ3 4-bit codes, because the grids would require a lookup
 * per value. The panels of these formats have more bytes than the published rows, but kernels read
 * the panels at memory speed. Panels of the other formats are at most 4 % larger than the published
 * rows. Packing is lossless: it preserves the integers of struct block.
 *
 * Arithmetic limits the packing of block formats, because integers are unpacked and repacked. The
 * table has GB/s of the file's format on one thread of machine A (docs/measurements.md, "Packing,
 * and AMX"). Row "before" is for packing bit by bit:
 *
 *              F32   Q4_0  Q8_0  Q4_K  Q6_K  IQ2_XS
 *     before   1.49  0.26  0.45  0.27  0.26  0.07
 *     now      12.7  0.91  2.5   3.0   3.4   0.17 */
#include "panel_impl.h"

#include <math.h>
#include <string.h>

enum { NO = 255 }; /* unused code */

const uint8_t panel_level[LEVELS_COUNT][16] = {
    [LEVELS_NONE] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
#define LEVELS(id, max, ...) [LEVELS_##id] = {__VA_ARGS__},
#include "quant/types.def"
};

const struct panel_format *panel_format_of(enum qtype t)
{
    static const struct panel_format *const format[QT_COUNT] = {
#define PANEL(id, ...)     [QT_##id] = &panel_format_##id,
#define PANEL_AS(id, like) [QT_##id] = &panel_format_##like,
#include "quant/types.def"
    };
    return format[t];
}

int64_t panel_bytes(enum qtype t, int k)
{
    const struct panel_format *f = panel_format_of(t);
    if (!f) return (panel_float_bytes(t, k) + 63) / 64 * 64;
    int64_t n = (int64_t)(k / ACT_GROUP) * panel_group_bytes(f, GROUP_UNITS);
    return k % ACT_GROUP ? n + panel_group_bytes(f, k % ACT_GROUP / UNIT) : n;
}

/* ---- packing ---- */

static uint16_t half_of(float x, float unit)
{
    return f16_of_f32(x / unit);
}

static void put_u16(uint8_t *at, int i, uint16_t h)
{
    memcpy(at + 2 * i, &h, 2);
}

/* Store the scales of block b for one lane. `at` is the position of the block's first value in the
 * group. */
static void pack_scales(uint8_t *s, const struct panel_format *f, const struct block *b, int at,
                        int n_unit, int lane)
{
    int exponent;
    switch (f->scales) {
    case PANEL_F16:
        put_u16(s, at / UNIT * 16 + lane, half_of(b->d, f->unit));
        break;
    case PANEL_F16_MIN:
        put_u16(s, at / UNIT * 32 + lane, half_of(b->d, f->unit));
        put_u16(s, at / UNIT * 32 + 16 + lane, half_of(b->dmin, 1));
        break;
    case PANEL_E8M0:
        frexpf(b->d, &exponent);
        s[at / UNIT * 16 + lane] = (uint8_t)(exponent + 127);
        break;
    case PANEL_E4M3:
        for (int j = 0; j < 4; j++) s[(at / 16 + j) * 16 + lane] = (uint8_t)b->scale[j];
        break;
    case PANEL_I8:
        put_u16(s, lane, half_of(b->d, f->unit));
        for (int j = 0; j < ACT_GROUP / f->sub; j++) s[32 + j * 16 + lane] = (uint8_t)b->scale[j];
        break;
    case PANEL_I6_MIN:
        put_u16(s, lane, half_of(b->d, f->unit));
        put_u16(s, 16 + lane, half_of(b->dmin, 1));
        for (int j = 0; j < 8; j++)
            s[64 + j * 16 + lane] = (uint8_t)((b->scale[j] & 15) | (b->min[j] & 15) << 4);
        for (int j = 0; j < 4; j++)
            s[192 + j * 16 + lane] = (uint8_t)(b->scale[j] >> 4 | b->min[j] >> 4 << 2 |
                                               b->scale[j + 4] >> 4 << 4 | b->min[j + 4] >> 4 << 6);
        break;
    case PANEL_I4_MIN:
        put_u16(s, lane, half_of(b->d, f->unit));
        put_u16(s, 16 + lane, half_of(b->dmin, 1));
        for (int j = 0; j < 16; j++)
            s[64 + j * 16 + lane] = (uint8_t)(b->scale[j] | b->min[j] << 4);
        break;
    case PANEL_ONE32:
        memcpy(s + (at / f->block * 16 + lane) * (int)sizeof b->d, &b->d, sizeof b->d);
        break;
    case PANEL_ONE:
        put_u16(s, at / f->block * 16 + lane, half_of(b->d, f->unit));
        if (f->zero == ZERO_OWN)
            s[panel_zeros(f, s, n_unit, at / f->block) - s + lane] = (uint8_t)b->min[0];
        break;
    }
}

/* Fill code[256], the code of each byte value, for a format with a table. */
static void code_table(uint8_t *code, const struct panel_format *f)
{
    memset(code, 0, 256);
    for (int i = 15; i >= 0; i--) code[panel_level[f->levels][i]] = (uint8_t)i;
}

/* Return the number of bits of a code in the low plane. */
static int low_bits(int bits)
{
    return bits == 8 ? 8 : bits >= 4 ? 4 : bits >= 2 ? 2 : 1;
}

/* Four codes of one output, k ascending. Codes never cross bytes, so four codes are processed
 * together. */
typedef uint32_t codes4[PANEL]; /* codes of each output */

/* Pack `width` bits of each code of a unit, starting at bit `from`, into a plane. A vector has 8 /
 * width quads. */
static inline void pack_plane(uint8_t *to, const codes4 *code, int width, int from)
{
    const int n_quad = 8 / width;
    const uint32_t mask = 0x01010101u * ((1u << width) - 1);
    for (int v = 0; v < width; v++, code += n_quad) {
        codes4 sum = {0};
        for (int q = 0; q < n_quad; q++)
            for (int lane = 0; lane < PANEL; lane++)
                sum[lane] |= (code[q][lane] >> from & mask) << (q * width);
        memcpy(to + v * sizeof sum, sum, sizeof sum);
    }
}

/* Pack a unit. Widths are constants so that the loops are vectorized. */
static void pack_unit(uint8_t *to, int bits, const codes4 *code)
{
    const int low = low_bits(bits);
    switch (low) {
    case 8:
        pack_plane(to, code, 8, 0);
        break;
    case 4:
        pack_plane(to, code, 4, 0);
        break;
    case 2:
        pack_plane(to, code, 2, 0);
        break;
    default:
        pack_plane(to, code, 1, 0);
    }
    if (bits - low == 1) pack_plane(to + low * 64, code, 1, low);
    if (bits - low == 2) pack_plane(to + low * 64, code, 2, low);
}

/* Write the codes of a block's values. The byte of a value is q + zero. The bytes are the codes if
 * code_of is NULL. For levels of 14 bits, q already has the codes. */
static void codes_of_block(codes4 *code, int lane, const struct block *b, int n, int zero,
                           const uint8_t *code_of)
{
    uint8_t byte[BLOCK_MAX];
    for (int i = 0; i < n; i++) byte[i] = (uint8_t)(b->q[i] + zero);
    for (int i = 0; i < n && code_of; i++) byte[i] = code_of[byte[i]];
    for (int i = 0; i < n / 4; i++) memcpy(&code[i][lane], byte + 4 * i, 4);
}

static void pack_group(uint8_t *to, enum qtype t, const struct panel_format *f, const uint8_t *rows,
                       int64_t row_bytes, int n_lane, int n_unit, const uint8_t *code_of)
{
    codes4 code[ACT_GROUP / 4];
    const int block = qtype_info[t].block;
    struct block b;
    if (n_lane < PANEL) memset(code, 0, sizeof code);
    memset(to, 0, (size_t)panel_scale_bytes(f, n_unit));
    for (int lane = 0; lane < n_lane; lane++)
        for (int at = 0; at < n_unit * UNIT; at += block) {
            qtype_info[t].ops->unpack(&b, rows + lane * row_bytes + qtype_bytes(t, at));
            pack_scales(to, f, &b, at, n_unit, lane);
            codes_of_block(code + at / 4, lane, &b, block, f->zero == ZERO_OWN ? b.min[0] : f->zero,
                           code_of);
        }
    to += panel_scale_bytes(f, n_unit);
    for (int u = 0; u < n_unit; u++, to += f->bits * 64)
        pack_unit(to, f->bits, code + u * UNIT / 4);
}

/* Interleave n elements of n_byte from each of n_lane rows. */
static inline void interleave(uint8_t *to, const uint8_t *rows, int64_t row_bytes, int n_lane,
                              int n, int n_byte)
{
    for (int i = 0; i < n; i++)
        for (int lane = 0; lane < n_lane; lane++)
            memcpy(to + (i * PANEL + lane) * n_byte, rows + lane * row_bytes + i * n_byte,
                   (size_t)n_byte);
}

/* Pack blocks of a SCALED type. */
static void pack_scaled(uint8_t *to, enum qtype t, const uint8_t *rows, int64_t row_bytes,
                        int n_lane, int k)
{
    const int n_byte = qtype_info[t].n_byte;
    if (n_lane < PANEL) memset(to, 0, (size_t)panel_bytes(t, k));
    for (int i = 0; i < k; i += scaled_run(t), rows += n_byte, to += scaled_bytes(t)) {
        interleave(to, rows, row_bytes, n_lane, 1, 4);
        interleave(to + 4 * PANEL, rows + 4, row_bytes, n_lane, n_byte - 4, 1);
    }
}

/* Pack a float type. BF16 is packed by pairs of k, other types by single k. */
static void pack_float(uint8_t *to, enum qtype t, const uint8_t *rows, int64_t row_bytes,
                       int n_lane, int k)
{
    const bool pairs = t == QT_bf16;
    const int n_byte = pairs ? 4 : qtype_info[t].n_byte, n = pairs ? k / 2 : k;
    const size_t size = (size_t)panel_bytes(t, k), kept = n_lane < PANEL ? 0 : size - 64;
    memset(to + kept, 0, size - kept);
    if (n_byte == 1)
        interleave(to, rows, row_bytes, n_lane, n, 1);
    else if (n_byte == 2)
        interleave(to, rows, row_bytes, n_lane, n, 2);
    else
        interleave(to, rows, row_bytes, n_lane, n, 4);
    for (int lane = 0; lane < n_lane && pairs && k % 2; lane++)
        memcpy(to + ((int64_t)n * PANEL + lane) * 4, rows + lane * row_bytes + (int64_t)n * 4, 2);
}

void panel_pack(uint8_t *to, const struct panels *w, const uint8_t *rows, int64_t row_bytes,
                int first, int n)
{
    const struct panel_format *f = panel_format_of(w->type);
    uint8_t code_of[256];
    if (f) code_table(code_of, f);
    const uint8_t *look_up = f && f->levels != LEVELS_NONE && !panel_upper(f) ? code_of : NULL;
    for (int p = first; p < first + n; p++) {
        uint8_t *panel = to + p * w->stride;
        const uint8_t *from = rows + (int64_t)p * PANEL * row_bytes;
        int n_lane = w->n_out - p * PANEL < PANEL ? w->n_out - p * PANEL : PANEL;
        if (scaled_run(w->type))
            pack_scaled(panel, w->type, from, row_bytes, n_lane, w->k);
        else if (!f)
            pack_float(panel, w->type, from, row_bytes, n_lane, w->k);
        for (int g = 0; f && g < w->k; g += ACT_GROUP) {
            int n_unit = group_units(g, w->k);
            pack_group(panel, w->type, f, from + qtype_bytes(w->type, g), row_bytes, n_lane, n_unit,
                       look_up);
            panel += panel_group_bytes(f, n_unit);
        }
    }
}

/* ---- unpacking one output of a panel ---- */

static float half_at(const uint8_t *s, int i)
{
    uint16_t h;
    memcpy(&h, s + 2 * i, 2);
    return f32_of_f16(h);
}

static void lane_scales(struct lane_group *l, const struct panel_format *f, const uint8_t *s,
                        int n_unit, int lane)
{
    for (int j = 0; j < n_unit && f->scales == PANEL_F16; j++)
        l->d[j] = half_at(s, j * 16 + lane) * f->unit;
    for (int j = 0; j < n_unit && f->scales == PANEL_F16_MIN; j++) {
        l->d[j] = half_at(s, j * 32 + lane) * f->unit;
        l->m[j] = half_at(s, j * 32 + 16 + lane);
    }
    for (int j = 0; j < n_unit && f->scales == PANEL_E8M0; j++)
        l->d[j] = ldexpf(1.0f, s[j * 16 + lane] - 128);
    for (int j = 0; j < 2 * n_unit && f->scales == PANEL_E4M3; j++) {
        int code = s[j * 16 + lane] & 127;
        l->d[j] = code == 127 ? 0.0f : f32_of_e4m3((uint8_t)code) * 0.5f;
    }
    for (int j = 0; j * f->block < n_unit * UNIT && f->scales == PANEL_ONE; j++)
        l->d[j] = half_at(s, j * 16 + lane) * f->unit;
    for (int j = 0; j * f->block < n_unit * UNIT && f->scales == PANEL_ONE32; j++)
        memcpy(&l->d[j], s + (j * 16 + lane) * (int)sizeof l->d[j], sizeof l->d[j]);
}

static void lane_int_scales(struct lane_group *l, const struct panel_format *f, const uint8_t *s,
                            int lane)
{
    l->d[0] = half_at(s, lane) * f->unit;
    if (f->scales == PANEL_I8)
        for (int j = 0; j < ACT_GROUP / f->sub; j++) l->scale[j] = (int8_t)s[32 + j * 16 + lane];
    else
        l->m[0] = half_at(s, 16 + lane);
    for (int j = 0; j < 16 && f->scales == PANEL_I4_MIN; j++) {
        l->scale[j] = s[64 + j * 16 + lane] & 15;
        l->min[j] = s[64 + j * 16 + lane] >> 4;
    }
    for (int j = 0; j < 8 && f->scales == PANEL_I6_MIN; j++) {
        int low = s[64 + j * 16 + lane], high = s[192 + (j & 3) * 16 + lane] >> (j & 4);
        l->scale[j] = (int16_t)((low & 15) | (high & 3) << 4);
        l->min[j] = (int16_t)(low >> 4 | (high >> 2 & 3) << 4);
    }
}

static int plane_code(const uint8_t *plane, int width, int quad, int at)
{
    int quads = 8 / width;
    return plane[quad / quads * 64 + at] >> (quad % quads * width) & ((1 << width) - 1);
}

void panel_lane_group(struct lane_group *l, const struct panel_format *f, const uint8_t *group,
                      int n_unit, int lane)
{
    const int low = low_bits(f->bits);
    bool integer = f->scales == PANEL_I8 || f->scales == PANEL_I6_MIN || f->scales == PANEL_I4_MIN;
    l->n = n_unit * UNIT;
    if (integer)
        lane_int_scales(l, f, group, lane);
    else
        lane_scales(l, f, group, n_unit, lane);
    const uint8_t *unit = group + panel_scale_bytes(f, n_unit);
    for (int i = 0; i < l->n; i++) {
        const uint8_t *u = unit + i / UNIT * f->bits * 64;
        int quad = i % UNIT / 4, at = lane * 4 + i % 4;
        int code = plane_code(u, low, quad, at);
        if (f->bits > low) code |= plane_code(u + low * 64, f->bits - low, quad, at) << low;
        int byte = f->levels == LEVELS_NONE ? code : panel_level[f->levels][code];
        if (panel_upper(f)) byte += 128 * (panel_level[panel_upper(f)][code] - 64);
        int zero =
            f->zero == ZERO_OWN ? panel_zeros(f, group, n_unit, i / f->block)[lane] : f->zero;
        l->q[i] = (int16_t)(byte - zero);
        l->code[i] = (uint8_t)code;
    }
}

static void lane_decode(float *y, const struct panel_format *f, const struct lane_group *l)
{
    for (int i = 0; i < l->n; i++) {
        float step, low = 0;
        switch (f->scales) {
        case PANEL_F16_MIN:
            low = -l->m[i / UNIT];
            step = l->d[i / UNIT];
            break;
        case PANEL_E4M3:
            step = l->d[i / 16];
            break;
        case PANEL_I8:
        case PANEL_I6_MIN:
        case PANEL_I4_MIN:
            step = l->d[0] * (float)l->scale[i / f->sub];
            low = f->scales == PANEL_I8 ? 0 : l->m[0] * (float)l->min[i / f->sub];
            break;
        case PANEL_ONE:
        case PANEL_ONE32:
            step = l->d[i / f->block];
            break;
        default:
            step = l->d[i / UNIT];
        }
        y[i] =
            panel_upper(f) ? panel_exact_levels(f)[l->code[i]] * step : step * (float)l->q[i] - low;
    }
}

static const uint8_t *float_at(enum qtype t, const uint8_t *panel, int k, int lane)
{
    int run = t == QT_bf16 ? 2 : 1;
    return panel + ((int64_t)(k / run * PANEL + lane) * run + k % run) * qtype_info[t].n_byte;
}

/* Decode n values of a SCALED type from k value g, by whole blocks. */
static void scaled_group(float *y, enum qtype t, const uint8_t *panel, int g, int n, int lane)
{
    const int run = scaled_run(t), n_code = qtype_info[t].n_byte - 4;
    uint8_t block[4 + 2 * BLOCK_MAX];
    for (int i = 0; i < n; i += run, y += run) {
        const uint8_t *from = panel + (int64_t)((g + i) / run) * scaled_bytes(t);
        memcpy(block, from + 4 * lane, 4);
        for (int j = 0; j < n_code; j++) block[4 + j] = from[(4 + j) * PANEL + lane];
        qtype_info[t].ops->decode(y, block, run);
    }
}

int panel_row_group(float *y, const struct panels *w, int r, int g)
{
    const struct panel_format *f = panel_format_of(w->type);
    const uint8_t *panel = w->data + r / PANEL * w->stride;
    int n = w->k - g < ACT_GROUP ? w->k - g : ACT_GROUP;
    if (f) {
        struct lane_group l;
        panel_lane_group(&l, f,
                         panel + (int64_t)(g / ACT_GROUP) * panel_group_bytes(f, GROUP_UNITS),
                         n / UNIT, r % PANEL);
        lane_decode(y, f, &l);
    } else if (scaled_run(w->type))
        scaled_group(y, w->type, panel, g, n, r % PANEL);
    else
        for (int i = 0; i < n; i++)
            qtype_info[w->type].ops->decode(y + i, float_at(w->type, panel, g + i, r % PANEL), 1);
    return n;
}

void panel_row(float *y, const struct panels *w, int r)
{
    for (int g = 0; g < w->k; g += ACT_GROUP) panel_row_group(y + g, w, r, g);
}

/* ---- activations ---- */

size_t act_x_bytes(enum act_type t, int n_row, int k)
{
    /* AMX loads 16 rows together, so kernels may read 16 more rows of 64 or 256 k */
    if (t == ACT_Q8) return (size_t)n_row * ((size_t)(k + 63) / 64 * 64) + PANEL * 64;
    const size_t n = (size_t)n_row * ((size_t)(k + ACT_GROUP - 1) / ACT_GROUP) * ACT_GROUP;
    if (t == ACT_BF16) return (n + PANEL * ACT_GROUP) * sizeof(uint16_t);
    return n * sizeof(float);
}

size_t act_scale_bytes(int n_row, int k)
{
    return ((size_t)n_row * (size_t)((k + ACT_GROUP - 1) / ACT_GROUP) * sizeof(float) + 127) / 64 *
           64;
}

/* Return the number of bytes of `sum`. The number includes 64 extra bytes, because kernels load the
 * sums of 16 rows together. */
size_t act_sum_bytes(int n_row, int k)
{
    return ((size_t)n_row * (size_t)((k + UNIT - 1) / UNIT) * 2 * sizeof(int16_t) + 127) / 64 * 64;
}

struct act act_part(const struct act *a, int row, int k0, int k)
{
    static const int64_t value[ACT_COUNT] = {sizeof(float), sizeof(uint16_t), 1};
    const int64_t group = (int64_t)(k0 / ACT_GROUP) * a->n_row;
    const int64_t width = a->type == ACT_Q8 ? 64 : ACT_GROUP;
    struct act p = *a;
    p.k = k;
    p.x = (char *)a->x + (group * ACT_GROUP + row * width) * value[a->type];
    if (a->scale) p.scale = a->scale + group + row;
    if (a->sum) p.sum = a->sum + (group * GROUP_UNITS + row) * 2;
    return p;
}
