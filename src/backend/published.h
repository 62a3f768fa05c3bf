/* published.h - the stored form of a matrix in a file, as one tensor or several. This file is part
 * of backend.h. Only packing reads the stored form.
 *
 * FORM_ROWS is rows of a number format. FORM_PLACED has the same values in another order: rows in
 * groups, or transposed. FORM_ENCODED has float values in these places, which packing encodes in
 * another format (model/quantize.c). FORM_TRANSPOSED is the transpose of rows of a format with
 * blocks, as f32. FORM_CODES has small codes with scales. Other libraries publish quantized weights
 * in this form (model/form).
 *
 * A matrix may be some rows of a stored matrix, which several layers share (struct row_part).
 * Codes, scales, zeros, masks and places are those of the stored matrix, because a block of scales
 * or a word of codes may have rows of several parts. The value of stored output r at input c, in
 * group g, is
 *
 *     integers    (code - zero) * scale[r, g] * by       rounded after each product
 *     levels      level[code] * scale[r, g] * by
 *     shifts      (code - shift[r, g]) * scale[r, g] * by
 *     scaled      (code * scale[r, g] * by) - shift[r, g]
 *
 * published_rows converts all forms to rows. Codes become rows of any number format that represents
 * all these values. Any thread: the matrix is immutable. */
#ifndef QUOTH_BACKEND_PUBLISHED_H
#define QUOTH_BACKEND_PUBLISHED_H

#include "quant/quant.h"

/* Place of code i of the packed axis among the words:
 *   PLAIN       i
 *   AWQ         groups of 8 codes: 0 2 4 6 1 3 5 7 from the lowest bits
 *   HIGH_FIRST  pairs of codes: the first in the upper bits
 *   PLANES      n_plane codes in the lowest bits of all words, the next n_plane above them ...
 *   FLAT        planes of all codes of the matrix, row by row: the last are in the lowest bits
 *   FLAT_LOW    as FLAT, but the first are in the lowest bits */
enum code_order {
    ORDER_PLAIN,
    ORDER_AWQ,
    ORDER_HIGH_FIRST,
    ORDER_PLANES,
    ORDER_FLAT,
    ORDER_FLAT_LOW
};

/* Rows of a matrix that several layers share. Row i is row first + i / run * step + i % run of the
 * matrix. The rows are consecutive if run is 0. */
struct row_part {
    int64_t first, n; /* n: number of rows */
    int64_t run, step;
};

/* Places of the stored values of a matrix [n_out, k] with 2:4 sparsity: two of each four values of
 * a row are stored, and the others are 0. Bit c % 8 of byte c / 8 of a row is 1 if the value of
 * input c is stored. The stored values of a row follow each other. */
struct sparse {
    const uint8_t
        *mask;        /* u8 [n_out, row_step], at any alignment, borrowed; NULL: all are stored */
    int64_t row_step; /* bytes of a row of the mask */
};

/* Packed codes of a matrix [n_out, n], at any alignment, borrowed. */
struct codes {
    const uint8_t *data; /* NULL: no codes */
    int bits;            /* bits of a code, [1, 8] */
    int word;            /* bytes of a little-endian word: 1 (`bits` divides 8) or 4 */
    enum code_order order;
    bool along_out;  /* true: the codes of consecutive outputs share a word */
    bool sign;       /* true: codes of 8 bits are signed; a code is the value + 128 */
    uint32_t plus;   /* addend of each word, modulo 2^32 */
    int add;         /* addend of each code, modulo 2^bits */
    int64_t n_plane; /* ORDER_PLANES, ORDER_FLAT, ORDER_FLAT_LOW */
    int64_t step;    /* bytes from a word to the next word of the packed axis */
    /* bytes from an item of the other axis to the next item; ORDER_FLAT, ORDER_FLAT_LOW: codes of a
     * row */
    int64_t other;
    struct sparse sparse; /* for ORDER_PLAIN along the inputs, with 8 bits; code 0 is not stored */
};

/* Scales of a matrix: the item of output r in group g is r * row_step + g * group_step. All
 * pointers are borrowed. */
struct published_scales {
    const uint8_t *data; /* items of the scales, at any alignment */
    enum qtype type;     /* a float type, or U8 for 2^(item - 127) or an index of `level` */
    int64_t row_step, group_step;
    const float *level;  /* f32 [256] for scales level[item] * over + offset; NULL if none */
    const uint8_t *over; /* f32 [ceil(items / n_over)], at any alignment */
    int64_t n_over;
    float offset;
    float divisor; /* the scale is item / divisor */
    bool inverse;  /* true: the scale is 1 / item */
};

/* Shifts of a matrix, one per scale and at its place: zeros that are floats. */
struct published_shifts {
    const uint8_t *data; /* shifts at any alignment, borrowed; NULL if none */
    enum qtype type;     /* a float type */
    bool scaled;         /* true: the shift is subtracted from the scaled codes */
};

enum published_form { FORM_ROWS, FORM_PLACED, FORM_ENCODED, FORM_TRANSPOSED, FORM_CODES };

/* Places of the values of FORM_PLACED and FORM_ENCODED, in bytes. Stored output r begins at r *
 * row_step from the first value. */
struct placed {
    int64_t row_step;
    int64_t step;         /* distance of the inputs of a row; 0: they follow each other */
    struct sparse sparse; /* for step 0, and a format without blocks */
};

/* A matrix as published. All pointers are borrowed from the model's files or its loader. */
struct published {
    enum published_form form;
    /* rows of the stored matrix; FORM_ROWS, _TRANSPOSED: no meaning, because `rows` is the first */
    struct row_part part;
    /* FORM_ROWS: the rows, contiguous; FORM_PLACED, _ENCODED: first stored value; FORM_TRANSPOSED:
     * the rows before transposition, which are placed.row_step bytes apart */
    const uint8_t *rows;
    struct placed placed;
    enum qtype
        source;       /* FORM_ENCODED: a float format without blocks; FORM_TRANSPOSED: any format */
    int64_t n_out, k; /* shape of the stored matrix, if several tensors have it */
    bool transposed;  /* FORM_CODES: true: the matrix is the transpose of the rows `part` */
    struct codes code, zero;
    const float *level; /* f32 [2^bits] value of each code; NULL: integers */
    int zero_point;     /* zero of all codes if zero.data is NULL */
    struct published_scales scale;
    struct published_shifts shift;
    float by;
    int64_t block_out, block_k; /* outputs and inputs that share a scale */
    const int32_t *group;       /* i32 [k] group of each input; NULL: input / block_k */
    const int32_t *order;       /* i32 [k] input of each column of the rows; NULL: in order */
    bool flat;                  /* true: groups of block_k values cross the ends of rows */
};

/* Return the address that identifies the matrix: its first byte, or p itself if several matrices
 * may have the same first byte. */
static inline const uint8_t *published_data(const struct published *p)
{
    return p->form == FORM_ROWS ? p->rows : (const uint8_t *)p;
}

/* Return true if a file has the matrix in several tensors: codes and scales, or values and a
 * mask. */
static inline bool published_is_split(const struct published *p)
{
    return p->form == FORM_CODES || p->placed.sparse.mask != NULL;
}

/* Return the smallest number format that represents every value of the stored matrix of p, a
 * FORM_CODES matrix. QT_f32 represents every value. The function reads the zeros, and the scales of
 * formats wider than f16. */
enum qtype published_type(const struct published *p);
/* Return a format that represents the values of a and of b. a and b are results of
 * published_type. */
enum qtype published_wider(enum qtype a, enum qtype b);

/* Write rows [row, row + n) of p, not FORM_ROWS, with k inputs. The format is the format of the
 * values, a format that represents the codes' values, or any format for FORM_ENCODED. `to` has room
 * for n rows. A FORM_PLACED matrix in a format of blocks has placed.step 0. */
void published_rows(uint8_t *to, const struct published *p, enum qtype type, int64_t row, int n,
                    int64_t k);

/* Return true if the mask u8 [ceil(k / 8)] has two of each four of k bits, and no bit after them
 * (struct sparse). */
bool published_is_sparse(const uint8_t *mask, int64_t k);

/* Sort the inputs by their groups, if every group but the last has block_k inputs. Write the
 * inputs to order i32 [k], which p borrows; p then has consecutive groups. Otherwise return false
 * and leave p unchanged. */
bool published_sort(struct published *p, int32_t *order, int64_t k);

/* Change p, a whole matrix of `type` with k inputs, to some of its rows. p is not
 * FORM_TRANSPOSED. */
void published_part(struct published *p, enum qtype type, const struct row_part *part, int64_t k);
/* Change p, a matrix [n_out, k] of *type, to its transpose [k, n_out], and set *type to its format.
 * Return false, and leave p unchanged, if p is FORM_PLACED, or codes of rows in groups. */
bool published_transpose(struct published *p, enum qtype *type, int64_t n_out, int64_t k);

/* Return a hash of the description of p, without addresses and values. */
uint64_t published_hash(const struct published *p, uint64_t seed);

#endif
