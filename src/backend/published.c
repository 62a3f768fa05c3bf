/* published.c - rows of number formats, made from the codes and scales of a published matrix, or
 * from rows in another order or format.
 *
 *   codes [n_out, k], packed
 *   scales [rows, groups]            --published_type--> the smallest format without loss
 *   zeros [n_out, groups], packed    --published_rows--> rows of that format
 *
 * The conversion is exact. Blocks of GGUF have 32 values, one f16 scale and no zero. A matrix is
 * converted to a format of GGUF only if its groups, scales and zeros fit. Values of other matrices
 * become f32. */
#include "published.h"

#include "base/check.h"
#include "base/hash.h"

#include <math.h>
#include <string.h>

/* number of values of one conversion: the smallest block of the target formats */
enum { CHUNK = 32 };

/* ---- 2:4 sparsity ---- */

/* Return the number of stored values of the row before input c; -1 if the value of c is not
 * stored. */
static int64_t stored_at(const struct sparse *s, int64_t row, int64_t c)
{
    static const uint8_t n_bit[8] = {0, 1, 1, 2, 1, 2, 2, 3};
    const int mask = s->mask[row * s->row_step + c / 8] >> (c & 4);
    if (!(mask >> (c & 3) & 1)) return -1;
    return c / 4 * 2 + n_bit[mask & ((1 << (c & 3)) - 1)];
}

bool published_is_sparse(const uint8_t *mask, int64_t k)
{
    static const uint8_t two[16] = {[3] = 1, [5] = 1, [6] = 1, [9] = 1, [10] = 1, [12] = 1};
    bool all = k % 4 == 0;
    for (int64_t c = 0; c < k / 4; c++) all = all && two[mask[c / 2] >> (c % 2 * 4) & 15];
    return all && (k % 8 == 0 || mask[k / 8] >> 4 == 0);
}

/* ---- codes ---- */

/* Return the word at any alignment. GPTQ stores zero - 1; the addition of `plus` restores all zeros
 * of a word. */
static uint32_t word_at(const struct codes *c, const uint8_t *at)
{
    uint32_t w = at[0];
    if (c->word == 4) memcpy(&w, at, 4);
    return w + c->plus;
}

/* Return code i of a matrix whose codes are in planes of n_plane words. */
static int code_in_plane(const struct codes *c, int64_t i)
{
    const int64_t plane = i / c->n_plane;
    const int n_word = 8 * c->word / c->bits; /* codes of a word */
    const int shift = (int)(c->order == ORDER_FLAT_LOW ? plane : n_word - 1 - plane) * c->bits;
    const uint32_t word = word_at(c, c->data + i % c->n_plane * c->step);
    return (int)(word >> shift & ((1u << c->bits) - 1));
}

/* Return the code of output `row` at input or group `col`. A code of 3, 5, 6 or 7 bits may cross
 * the end of its word. The upper bits of a code that crosses the end are the lower bits of the next
 * word. */
static int code_at(const struct codes *c, int64_t row, int64_t col)
{
    static const int8_t awq[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const int64_t stored = c->sparse.mask ? stored_at(&c->sparse, row, col) : col;
    int64_t i = c->along_out ? row : stored;
    const int64_t j = c->along_out ? col : row;
    const uint32_t mask = (1u << c->bits) - 1;
    if (stored < 0) return c->sign ? 128 : 0;
    if (c->order == ORDER_FLAT || c->order == ORDER_FLAT_LOW)
        return code_in_plane(c, row * c->other + col);
    if (c->order == ORDER_PLANES)
        return (int)(c->data[i % c->n_plane * c->step + j * c->other] >>
                         (i / c->n_plane * c->bits) &
                     mask);
    if (c->order == ORDER_AWQ) i = (i & ~(int64_t)7) | awq[i & 7];
    if (c->order == ORDER_HIGH_FIRST) i ^= 1;
    const int64_t bit = i * c->bits;
    const int shift = (int)(bit & (8 * c->word - 1));
    const uint8_t *at = c->data + (bit >> (c->word == 4 ? 5 : 3)) * c->step + j * c->other;
    uint32_t code = word_at(c, at) >> shift;
    if (shift + c->bits > 8 * c->word) code |= word_at(c, at + c->step) << (8 * c->word - shift);
    if (c->sign) code ^= 128;
    return (int)((code + (uint32_t)c->add) & mask);
}

/* ---- scales ---- */

/* Read 4 bytes at any alignment. */
static float f32_at(const uint8_t *at)
{
    float x;
    memcpy(&x, at, sizeof x);
    return x;
}

/* Return item i as a factor. An item is a float, an index of `level` (bitsandbytes), or an exponent
 * 2^(item - 127) (MX formats). The values of `level` have separate scales. */
static float scale_item(const struct published_scales *s, int64_t i)
{
    float x;
    if (s->type != QT_u8)
        qtype_info[s->type].ops->decode(&x, s->data + i * qtype_info[s->type].n_byte, 1);
    else if (s->level) {
        x = s->level[s->data[i]] * f32_at(s->over + i / s->n_over * (int64_t)sizeof x);
        x = x + s->offset;
    } else
        x = ldexpf(1.0f, s->data[i] - 127);
    if (s->inverse) return 1.0f / x;
    return x / s->divisor;
}

/* Return the stored row of row i of the part. */
static int64_t stored_row(const struct published *p, int64_t i)
{
    const struct row_part *part = &p->part;
    return part->first + (part->run > 0 ? i / part->run * part->step + i % part->run : i);
}

/* Return the code of column `at` of a row. row: stored output, or stored input of a transpose. */
static int code_of(const struct published *p, int64_t row, int64_t at)
{
    if (p->transposed) return code_at(&p->code, p->part.first + at, row);
    return code_at(&p->code, row, p->order ? p->order[at] : at);
}

/* A run of columns of one row with the same scale and zero. */
struct scale_run {
    int64_t end;  /* first column after the run */
    int64_t item; /* item of the scales */
    float scale;  /* factor of the codes */
    float shift;  /* shift of the run, for a matrix with shifts */
    int zero;     /* code of the value 0 */
};

/* Return the end of the run at column `at` of k columns. out, input: place of the value in the
 * stored matrix; g: its group. With `group` (GPTQ's desc_act) inputs of a group need not follow
 * each other, so a run may be one input long. */
static int64_t run_end(const struct published *p, int64_t out, int64_t input, int64_t g, int64_t at,
                       int64_t k)
{
    int64_t end = at + 1;
    if (p->transposed)
        end = p->flat ? end : at + p->block_out - out % p->block_out;
    else if (!p->group)
        end = at + p->block_k - (p->flat ? out * p->k + input : input) % p->block_k;
    else
        while (end < k && p->group[end] == g) end++;
    return end < k ? end : k;
}

/* Return the run that begins at column `at` of k columns. row: as for code_of. */
static struct scale_run run_of(const struct published *p, int64_t row, int64_t at, int64_t k)
{
    struct scale_run r = {.zero = p->zero_point};
    const int64_t stored = p->transposed ? p->part.first + at : row,
                  input = p->transposed ? row : at;
    const int64_t g = p->flat    ? (stored * p->k + input) / p->block_k
                      : p->group ? p->group[input]
                                 : input / p->block_k;
    const int64_t out = p->flat ? 0 : stored / p->block_out;
    r.end = run_end(p, stored, input, g, at, k);
    r.item = out * p->scale.row_step + g * p->scale.group_step;
    r.scale = scale_item(&p->scale, r.item);
    if (p->shift.data) {
        const struct qtype_info *type = &qtype_info[p->shift.type];
        type->ops->decode(&r.shift, p->shift.data + r.item * type->n_byte, 1);
    }
    if (p->zero.data) r.zero = code_at(&p->zero, out, g);
    return r;
}

/* ---- choice of a format ---- */

/* Return true if all zeros are `zero`. Whole words are compared if only whole words have codes. */
static bool zeros_are(const struct codes *c, int zero, int64_t n_out, int64_t n_group)
{
    const bool whole = c->word == 4 && c->along_out && c->add == 0 && 32 % c->bits == 0 &&
                       n_out * c->bits % 32 == 0;
    const int64_t n = whole ? n_out * c->bits / 32 : n_out;
    uint32_t pattern = 0;
    for (int i = 0; i < 32 && 32 % c->bits == 0; i += c->bits) pattern |= (uint32_t)zero << i;
    for (int64_t i = 0; i < n; i++)
        for (int64_t g = 0; g < n_group; g++)
            if (whole) {
                if (word_at(c, c->data + i * c->step + g * c->other) != pattern) return false;
            } else if (code_at(c, i, g) != zero)
                return false;
    return true;
}

/* Return true if f16 can represent a bf16 number. The result depends on the exponent: 2^-17 and
 * above, or zero. The test needs no conversion, which would be slow for millions of scales. */
static bool bf16_is_f16(const uint8_t *at)
{
    uint16_t x;
    memcpy(&x, at, sizeof x);
    const int exponent = x >> 7 & 255;
    return (x & 0x7FFF) == 0 || (exponent >= 110 && exponent <= 142);
}

/* Return true if f16 can represent every scale of n_row rows with n_group groups. */
static bool scales_are_f16(const struct published_scales *s, int64_t n_row, int64_t n_group)
{
    const bool plain = s->divisor == 1 && !s->inverse;
    if (s->type == QT_f16 && plain) return true;
    for (int64_t i = 0; i < n_row * n_group; i++) {
        const int64_t item = i / n_group * s->row_step + i % n_group * s->group_step;
        if (s->type == QT_bf16 && plain && bf16_is_f16(s->data + 2 * item)) continue;
        const float x = scale_item(s, item);
        if (f32_of_f16(f16_of_f32(x)) != x) return false;
    }
    return true;
}

/* Return true if each row of p has whole blocks of n columns, and each block has one scale. */
static bool has_blocks(const struct published *p, int64_t n)
{
    const struct row_part *part = &p->part;
    if (p->transposed)
        return part->n % n == 0 && !p->flat &&
               ((part->first % n == 0 && p->block_out % n == 0) ||
                part->first / p->block_out == (part->first + part->n - 1) / p->block_out);
    return p->k % n == 0 && !p->group && (p->block_k % n == 0 || (p->block_k >= p->k && !p->flat));
}

/* Return the type with f32 scales (quant/scaled_impl.h) of blocks that contain levels with scales,
 * or QT_f32 if none. A block of the type must have one scale. With `flat`, scales continue across
 * the ends of rows, which must be ends of blocks. */
static enum qtype scaled_type(const struct published *p)
{
    static const struct {
        enum qtype type;
        const float *level;
    } nibbles[] = {{QT_nf4_64, level_nf4}, {QT_fp4_64, level_fp4}};
    enum qtype type = QT_f32;
    for (size_t i = 0; i < sizeof nibbles / sizeof nibbles[0] && p->code.bits == 4; i++)
        if (memcmp(p->level, nibbles[i].level, 16 * sizeof(float)) == 0) type = nibbles[i].type;
    if (p->code.bits == 8) type = QT_e4m3_128;
    for (int i = 0; i < 256 && type == QT_e4m3_128; i++) {
        const float want = f32_of_e4m3((uint8_t)i);
        if (memcmp(&p->level[i], &want, sizeof want) != 0) type = QT_f32;
    }
    return has_blocks(p, qtype_info[type].block) && p->by == 1 ? type : QT_f32;
}

/* Return the format of integer codes. Ternary codes in groups of a multiple of 128 become I2_128,
 * which has f32 scales. Other codes of up to 4 bits in groups of a multiple of 128 become U4_128,
 * which stores the zeros. For all other codes, lo and hi are the range of code - zero. Variable
 * zeros widen the range of codes to [-top, top], which needs one more bit. */
enum qtype published_type(const struct published *p)
{
    CHECK(p->form == FORM_CODES, "form %d has no codes", (int)p->form);
    const int64_t n_group = (p->k + p->block_k - 1) / p->block_k;
    const int top = (1 << p->code.bits) - 1, middle = (top + 1) / 2;
    const bool blocks = !p->flat && p->by == 1 && has_blocks(p, CHUNK);
    if (p->shift.data) return QT_f32;
    if (p->level && blocks && p->code.bits == 4 && p->scale.type == QT_u8 && !p->scale.level &&
        p->block_k == CHUNK && !p->transposed)
        return QT_mxfp4;
    if (p->level) return scaled_type(p);
    if (!blocks) return QT_f32;
    const bool whole = has_blocks(p, qtype_info[QT_u4_128].block);
    if (whole && p->code.bits == 2 && !p->zero.data && p->zero_point == 1) return QT_i2_128;
    const int64_t n_row = (p->n_out + p->block_out - 1) / p->block_out;
    if (!scales_are_f16(&p->scale, n_row, n_group)) return QT_f32;
    if (whole && top <= 15 && (p->zero.data || p->zero_point <= 15)) return QT_u4_128;
    int lo = -p->zero_point, hi = top - p->zero_point;
    if (p->zero.data && zeros_are(&p->zero, middle, n_row, n_group))
        lo = -middle, hi = top - middle;
    else if (p->zero.data)
        lo = -top, hi = top;
    if (lo >= -8 && hi <= 7) return QT_q4_0;
    if (lo >= -16 && hi <= 15) return QT_q5_0;
    return lo >= -128 && hi <= 127 ? QT_q8_0 : QT_f32;
}

/* Return the rank of an integer format; 0 for other formats. A format of a higher rank represents
 * all values of a lower rank. */
static int rank_of(enum qtype t)
{
    return t == QT_q4_0 ? 1 : t == QT_q5_0 ? 2 : t == QT_q8_0 ? 3 : 0;
}

enum qtype published_wider(enum qtype a, enum qtype b)
{
    if (a == b) return a;
    if (!rank_of(a) || !rank_of(b)) return QT_f32;
    return rank_of(a) > rank_of(b) ? a : b;
}

/* ---- rows ---- */

static void put_half(uint8_t *to, float x)
{
    const uint16_t h = f16_of_f32(x);
    memcpy(to, &h, sizeof h);
}

/* Write a block's codes of 4 bits. The first half is in the lower bits, the second half in the
 * upper bits. */
static void put_nibbles(uint8_t *to, const int *code)
{
    for (int i = 0; i < CHUNK / 2; i++)
        to[i] = (uint8_t)((code[i] & 15) | (code[i + CHUNK / 2] & 15) << 4);
}

/* Write one row of U4_128: 128 codes with one scale and one zero (quant/u4_128.c). */
static void put_u4(uint8_t *to, const struct published *p, int64_t row, int64_t k)
{
    enum { N = 128 };
    struct scale_run r = {0};
    for (int64_t at = 0; at < k; at += N, to += qtype_info[QT_u4_128].n_byte) {
        if (at >= r.end) r = run_of(p, row, at, k);
        put_half(to, r.scale);
        to[2] = (uint8_t)r.zero;
        for (int i = 0; i < N / 2; i++)
            to[3 + i] = (uint8_t)(code_of(p, row, at + i) | code_of(p, row, at + i + N / 2) << 4);
    }
}

/* Write one row of I2_128: 128 codes with one scale (quant/i2_128.c). */
static void put_i2(uint8_t *to, const struct published *p, int64_t row, int64_t k)
{
    enum { N = 128 };
    struct scale_run r = {0};
    for (int64_t at = 0; at < k; at += N, to += qtype_info[QT_i2_128].n_byte) {
        if (at >= r.end) r = run_of(p, row, at, k);
        memset(to, 0, (size_t)qtype_info[QT_i2_128].n_byte);
        memcpy(to, &r.scale, sizeof r.scale);
        for (int i = 0; i < N; i++)
            to[4 + i / 4] |= (uint8_t)(code_of(p, row, at + i) << 2 * (i % 4));
    }
}

/* Write one block of 32 values (code - zero) with scale d.
 *   Q4_0    f16 scale, 16 bytes of codes               value = (q - 8) * d
 *   Q5_0    f16 scale, 4 bytes of fifth bits, 16       value = (q - 16) * d
 *   Q8_0    f16 scale, 32 signed bytes                 value = q * d
 *   MXFP4   exponent, 16 bytes of codes                value = level[q] * 2^(e - 127) */
static void put_block(uint8_t *to, enum qtype type, const int *code, int zero, float d,
                      int exponent)
{
    int q[CHUNK];
    uint32_t high = 0;
    const int bias = type == QT_q4_0 ? 8 : type == QT_q5_0 ? 16 : 0;
    for (int i = 0; i < CHUNK; i++) q[i] = code[i] - zero + bias;
    if (type == QT_mxfp4) {
        to[0] = (uint8_t)exponent;
        put_nibbles(to + 1, code);
        return;
    }
    put_half(to, d);
    for (int i = 0; i < CHUNK; i++) high |= (uint32_t)(q[i] >> 4 & 1) << i;
    if (type == QT_q5_0) memcpy(to + 2, &high, sizeof high);
    if (type == QT_q8_0)
        for (int i = 0; i < CHUNK; i++) to[2 + i] = (uint8_t)q[i];
    else
        put_nibbles(to + (type == QT_q5_0 ? 6 : 2), q);
}

/* Write one row of n blocks. A run has at least 32 inputs here, because published_type requires
 * it. */
static void put_blocks(uint8_t *to, const struct published *p, enum qtype type, int64_t row,
                       int64_t k)
{
    struct scale_run r = {0};
    for (int64_t at = 0; at < k; at += CHUNK, to += qtype_info[type].n_byte) {
        int code[CHUNK], exponent = 0;
        if (at >= r.end) r = run_of(p, row, at, k);
        for (int i = 0; i < CHUNK; i++) code[i] = code_of(p, row, at + i);
        if (type == QT_mxfp4) exponent = p->scale.data[r.item];
        put_block(to, type, code, r.zero, r.scale, exponent);
    }
}

/* Write one row of a type with f32 scales. A block has one run (scaled_type). */
static void put_scaled(uint8_t *to, const struct published *p, enum qtype type, int64_t row,
                       int64_t k)
{
    const int block = qtype_info[type].block;
    struct scale_run r = {0};
    for (int64_t at = 0; at < k; at += block, to += qtype_info[type].n_byte) {
        if (at >= r.end) r = run_of(p, row, at, k);
        memset(to, 0, (size_t)qtype_info[type].n_byte);
        memcpy(to, &r.scale, sizeof r.scale);
        for (int i = 0; i < block; i++) {
            const int code = code_of(p, row, at + i);
            if (type == QT_e4m3_128)
                to[4 + i] = (uint8_t)code;
            else
                to[4 + i / 2] |= (uint8_t)(code << i % 2 * 4);
        }
    }
}

/* Write one row of f32. The two products are rounded separately, as in the library that made the
 * file. */
static void put_floats(uint8_t *to, const struct published *p, int64_t row, int64_t k)
{
    struct scale_run r = {0};
    for (int64_t at = 0; at < k; at++, to += sizeof(float)) {
        if (at >= r.end) r = run_of(p, row, at, k);
        const int code = code_of(p, row, at);
        float x = p->level ? p->level[code] : (float)(code - r.zero);
        if (p->shift.data && !p->shift.scaled) x = x - r.shift;
        x = x * r.scale;
        x = x * p->by;
        if (p->shift.scaled) x = x - r.shift;
        memcpy(to, &x, sizeof x);
    }
}

/* Write stored row `row` of values with 2:4 sparsity. */
static void put_sparse(uint8_t *to, const struct published *p, enum qtype type, int64_t row,
                       int64_t k)
{
    const struct placed *at = &p->placed;
    const size_t size = (size_t)qtype_info[type].n_byte;
    const uint8_t *first = p->rows + row * at->row_step;
    for (int64_t c = 0; c < k; c++, to += size) {
        const int64_t i = stored_at(&at->sparse, row, c);
        if (i < 0)
            memset(to, 0, size);
        else
            memcpy(to, first + i * (int64_t)size, size);
    }
}

/* Write rows [row, row + n) of values in other places. The rows of a transposed matrix are copied
 * together, input by input, because the outputs of an input follow each other in the file. */
static void put_placed(uint8_t *to, const struct published *p, enum qtype type, int64_t row, int n,
                       int64_t k)
{
    const struct placed *at = &p->placed;
    const size_t row_bytes = qtype_bytes(type, k);
    const int64_t n_piece = at->step ? k : 1; /* piece of values, or the whole row */
    const size_t size = row_bytes / (size_t)n_piece;
    for (int i = 0; i < n && at->sparse.mask; i++)
        put_sparse(to + (size_t)i * row_bytes, p, type, stored_row(p, row + i), k);
    for (int64_t c = 0; c < n_piece && !at->sparse.mask; c++)
        for (int i = 0; i < n; i++)
            memcpy(to + (size_t)i * row_bytes + (size_t)c * size,
                   p->rows + stored_row(p, row + i) * at->row_step + c * at->step, size);
}

/* Copy n values of a stored row, beginning with input c, to contiguous bytes. Return the address of
 * the values, which is in the file if the inputs of a row follow each other. */
static const uint8_t *take_values(uint8_t *copy, const struct published *p, int64_t row, int64_t c,
                                  int n)
{
    const struct placed *at = &p->placed;
    const int64_t size = qtype_info[p->source].n_byte;
    const uint8_t *first = p->rows + row * at->row_step;
    for (int i = 0; i < n && at->sparse.mask; i++) {
        const int64_t stored = stored_at(&at->sparse, row, c + i);
        memset(copy + i * size, 0, (size_t)size);
        if (stored >= 0) memcpy(copy + i * size, first + stored * size, (size_t)size);
    }
    if (at->sparse.mask) return copy;
    if (at->step == 0) return first + c * size;
    for (int i = 0; i < n; i++) memcpy(copy + i * size, first + (c + i) * at->step, (size_t)size);
    return copy;
}

/* Encode one stored row. Blocks of every format divide a piece. */
static void put_encoded(uint8_t *to, const struct published *p, enum qtype type, int64_t row,
                        int64_t k)
{
    float x[BLOCK_MAX];
    uint8_t copy[BLOCK_MAX * sizeof(float)];
    for (int64_t c = 0; c < k; c += BLOCK_MAX) {
        const int n = k - c < BLOCK_MAX ? (int)(k - c) : BLOCK_MAX;
        qtype_info[p->source].ops->decode(x, take_values(copy, p, row, c, n), n);
        qtype_info[type].ops->encode(to + qtype_bytes(type, c), x, n, NULL);
    }
}

/* Write rows [row, row + n) of the transpose as f32. A block has values of several of these rows,
 * so it is decoded once for them. */
static void put_turned(uint8_t *to, const struct published *p, int64_t row, int n, int64_t k)
{
    const struct qtype_info *type = &qtype_info[p->source];
    float x[BLOCK_MAX];
    for (int64_t c = 0; c < k; c++)
        for (int64_t r = row; r < row + n;) {
            const int64_t first = r / type->block * type->block;
            type->ops->decode(x, p->rows + c * p->placed.row_step + r / type->block * type->n_byte,
                              type->block);
            for (; r < row + n && r < first + type->block; r++)
                memcpy(to + (size_t)((r - row) * k + c) * sizeof *x, &x[r - first], sizeof *x);
        }
}

void published_rows(uint8_t *to, const struct published *p, enum qtype type, int64_t row, int n,
                    int64_t k)
{
    if (p->form == FORM_TRANSPOSED) {
        put_turned(to, p, row, n, k);
        return;
    }
    if (p->form == FORM_ENCODED) {
        for (int i = 0; i < n; i++, to += qtype_bytes(type, k))
            put_encoded(to, p, type, stored_row(p, row + i), k);
        return;
    }
    if (p->form == FORM_PLACED) {
        put_placed(to, p, type, row, n, k);
        return;
    }
    for (int i = 0; i < n; i++, to += qtype_bytes(type, k)) {
        const int64_t r = p->transposed ? row + i : stored_row(p, row + i);
        if (type == QT_f32)
            put_floats(to, p, r, k);
        else if (type == QT_e4m3_128 || type == QT_nf4_64 || type == QT_fp4_64)
            put_scaled(to, p, type, r, k);
        else if (type == QT_u4_128)
            put_u4(to, p, r, k);
        else if (type == QT_i2_128)
            put_i2(to, p, r, k);
        else
            put_blocks(to, p, type, r, k);
    }
}

/* Sort by counting. The last place of a group that is not full has the value -1 - (number of its
 * inputs). */
bool published_sort(struct published *p, int32_t *order, int64_t k)
{
    const int64_t n_group = (k + p->block_k - 1) / p->block_k;
    for (int64_t i = 0; i < k; i++) order[i] = -1;
    for (int64_t i = 0; i < k; i++) {
        const int64_t g = p->group[i];
        if (g < 0 || g >= n_group) return false;
        const int64_t first = g * p->block_k;
        int32_t *last = order + (first + p->block_k < k ? first + p->block_k : k) - 1;
        if (*last >= 0) return false;
        int32_t *to = order + first - 1 - *last;
        if (to < last) --*last;
        *to = (int32_t)i;
    }
    p->order = order;
    p->group = NULL;
    return true;
}

/* ---- parts and transposes ---- */

void published_part(struct published *p, enum qtype type, const struct row_part *part, int64_t k)
{
    const int64_t row = (int64_t)qtype_bytes(type, k);
    CHECK(p->form != FORM_TRANSPOSED && p->part.first == 0 && p->part.run == 0, "a part of a part");
    if (p->form == FORM_ROWS && part->run == 0) {
        p->rows += part->first * row;
        return;
    }
    if (p->form == FORM_ROWS) p->form = FORM_PLACED, p->placed = (struct placed){.row_step = row};
    p->part = *part;
}

bool published_transpose(struct published *p, enum qtype *type, int64_t n_out, int64_t k)
{
    const struct qtype_info *t = &qtype_info[*type];
    if (p->form == FORM_ROWS && t->block > 1) {
        *p = (struct published){.form = FORM_TRANSPOSED, .rows = p->rows, .source = *type};
        p->placed.row_step = (int64_t)qtype_bytes(*type, k);
        *type = QT_f32;
        return true;
    }
    if (p->form == FORM_ROWS) {
        p->form = FORM_PLACED;
        p->placed = (struct placed){.row_step = t->n_byte, .step = k * t->n_byte};
        p->part = (struct row_part){.n = k};
        return true;
    }
    if (p->form != FORM_CODES || p->order || p->part.run > 0) return false;
    p->transposed = true;
    p->part.n = n_out;
    *type = published_type(p);
    return true;
}

/* ---- identity ---- */

static uint64_t codes_hash(const struct codes *c, uint64_t seed)
{
    const int64_t n[] = {c->data != NULL, c->bits, c->word,    c->order, c->along_out, c->sign,
                         c->plus,         c->add,  c->n_plane, c->step,  c->other};
    return hash_bytes(n, sizeof n, c->sparse.mask ? ~seed : seed);
}

/* Hash the description of the matrix, not its bytes. The cache of packed weights uses the hash as a
 * part of its key. */
uint64_t published_hash(const struct published *p, uint64_t seed)
{
    const struct published_scales *s = &p->scale;
    const int64_t n[] = {p->form,     p->level != NULL,      p->zero_point,    p->block_out,
                         p->block_k,  p->group != NULL,      p->order != NULL, p->flat,
                         s->row_step, s->group_step,         s->n_over,        s->level != NULL,
                         s->inverse,  p->shift.data != NULL, p->shift.type,    p->shift.scaled};
    const struct placed *at = &p->placed;
    const int64_t place[] = {at->row_step, at->step};
    const int64_t part[] = {p->part.first, p->part.run, p->part.step, p->transposed};
    if (at->sparse.mask) seed += 2;
    seed = hash_bytes(part, sizeof part, seed);
    if (p->form == FORM_PLACED) return hash_bytes(place, sizeof place, seed);
    if (p->form == FORM_ENCODED || p->form == FORM_TRANSPOSED) {
        const char *source = qtype_info[p->source].name;
        seed += p->form == FORM_TRANSPOSED;
        return hash_bytes(source, strlen(source), hash_bytes(place, sizeof place, ~seed));
    }
    const float x[] = {s->offset, s->divisor, p->by};
    const char *type = qtype_info[s->type].name;
    seed = codes_hash(&p->zero, codes_hash(&p->code, seed));
    seed = hash_bytes(type, strlen(type), hash_bytes(n, sizeof n, seed));
    return hash_bytes(x, sizeof x, seed);
}
