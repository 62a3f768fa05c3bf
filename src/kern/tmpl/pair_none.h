/* pair_none.h - stubs of the pairs of linear_q8.h, for levels whose dot product computes one row.
 * These stubs are never called. Any thread may call kernels, because they change only the memory of
 * their arguments. */
#ifndef QUOTH_KERN_TMPL_PAIR_NONE_H
#define QUOTH_KERN_TMPL_PAIR_NONE_H

enum { PAIRS = 0 };

struct pair {
    vi none;
};
static inline void pair_order(vi *a, vi *b)
{
    (void)a, (void)b;
}
static inline vi pair_octet(const int8_t *q, const int8_t *other, int j)
{
    (void)q, (void)other, (void)j;
    return vi_zero();
}
static inline struct pair pair_from(const int *start)
{
    (void)start;
    return (struct pair){vi_zero()};
}
static inline struct pair pair_step(struct pair p, vi a, vi b, vi octet)
{
    (void)a, (void)b, (void)octet;
    return p;
}
static inline vi pair_row(struct pair p, int row)
{
    (void)row;
    return p.none;
}

#endif
