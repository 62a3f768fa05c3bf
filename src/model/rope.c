/* rope.c - cos and sin tables for every position, computed in f64 and rounded to f32. Memory for
 * all positions is reserved at open. A row is computed before the first batch that needs the row.
 * One row takes 1 us, and the 131,072 rows of a long context take 0.12 s. Most rows are never used.
 *
 *   linear   positions divided by the factor (position interpolation, arXiv 2306.15595)
 *   llama3   low frequencies divided by the factor, high frequencies kept, a ramp between (Llama
 *   3.1)
 *   yarn     like llama3, with a ramp over rotations (arXiv 2309.00071)
 *   long     divisors for short contexts and for long ones (LongRoPE, arXiv 2402.13753). The
 *            requested context selects one list at open, so bits do not depend on a text's length.
 *   freq_factor: divisors stored in a GGUF file (rope_freqs.weight), instead of llama3's; a scaling
 *            is applied in addition
 *
 * cos and sin are multiplied by a magnitude: YaRN's 0.1 ln(factor) + 1, or the file's value
 * (config.c). ROPE_QUERY has a magnitude that grows with the position. */
#include "model_impl.h"

#include "base/check.h"

#include <math.h>

/* Return the scaled frequency of llama3. The limits are in wavelengths: context / high_freq and
 * context / low_freq. */
static double llama3_freq(const struct rope_config *r, double freq)
{
    double wave = 2 * M_PI / freq, n = r->context_original;
    if (wave < n / r->high_freq) return freq;
    if (wave > n / r->low_freq) return freq / r->factor;
    double smooth = (n / wave - r->low_freq) / (r->high_freq - r->low_freq);
    return (1 - smooth) * freq / r->factor + smooth * freq;
}

/* Return the lane whose angle makes `rotations` turns over the original context. */
static double yarn_lane(const struct rope_config *r, double rotations)
{
    return r->d_rot * log(r->context_original / (rotations * 2 * M_PI)) / (2 * log(r->base));
}

/* Return the scaled frequency of YaRN. i is the lane. The ramp is 0 for fast lanes, whose frequency
 * stays, and 1 for slow lanes. ramp_whole is the config's `truncate`. ramp_forward is llama.cpp's
 * guard against an empty ramp. */
static double yarn_freq(const struct rope_config *r, double freq, int i)
{
    double low = yarn_lane(r, r->beta_fast), high = yarn_lane(r, r->beta_slow);
    if (r->ramp_whole) low = floor(low), high = ceil(high);
    if (low < 0) low = 0;
    if (high > r->d_rot - 1) high = r->d_rot - 1;
    if (r->ramp_forward && high < low + 0.001) high = low + 0.001;
    if (high == low) high += 0.001;
    double ramp = (i - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return freq / r->factor * ramp + freq * (1 - ramp);
}

/* Return the angle per position of lane i, in radians. */
static double lane_freq(const struct rope_config *r, int i)
{
    double freq = pow(r->base, -2.0 * i / r->d_rot);
    if (r->freq_factor) freq /= (double)r->freq_factor[i];
    switch (r->scaling) {
    case ROPE_LINEAR:
        return freq / r->factor;
    case ROPE_LLAMA3:
        return llama3_freq(r, freq);
    case ROPE_YARN:
        return yarn_freq(r, freq, i);
    default:
        return freq;
    }
}

enum { ROPE_ROWS = 64 }; /* number of rows per write to the device */

static size_t table_floats(const struct rope_spec *r)
{
    return (size_t)r->pos_max * (size_t)(r->d_rot / 2);
}

/* Allocate the table of one rope on the device, and host buffers for the rows that rope_reach makes
 * next. */
static int open_one(struct model *m, int i, int pos_max, struct err *e)
{
    struct backend *b = m->backend;
    const struct rope_config *r = &m->config.rope[i];
    struct rope_spec *spec = &m->rope[i];
    struct rope_rows *rows = &m->rope_rows[i];
    const size_t half = (size_t)r->d_rot / 2;
    *spec = (struct rope_spec){.d_rot = r->d_rot, .neox = r->neox, .pos_max = pos_max};
    const size_t n = table_floats(spec), n_byte = 2 * n * sizeof(float);
    *rows =
        (struct rope_rows){.table = b->op->alloc(b, n_byte),
                           .made = arena_push(&m->arena, 2 * ROPE_ROWS * half * sizeof(float), 64),
                           .freq = arena_push(&m->arena, half * sizeof(double), 64)};
    if (!rows->table || !rows->made || !rows->freq) return err_memory(e, "the rope tables", n_byte);
    for (int k = 0; k < (int)half; k++) rows->freq[k] = lane_freq(r, k);
    spec->cos = rows->table, spec->sin = rows->table + n;
    return 0;
}

/* n is the context of the options, not a text's length. */
void rope_choose(struct model *m, int n)
{
    struct rope_config *r = &m->config.rope[ROPE_MAIN];
    if (r->long_factor) r->freq_factor = n > r->context_original ? r->long_factor : r->short_factor;
}

int rope_open(struct model *m, int pos_max, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < m->config.n_rope && rc == 0; i++) rc = open_one(m, i, pos_max, e);
    return rc;
}

void rope_close(struct model *m)
{
    struct backend *b = m->backend;
    for (int i = 0; i < ROPES_MAX; i++)
        if (m->rope_rows[i].table)
            b->op->release(b, m->rope_rows[i].table, 2 * table_floats(&m->rope[i]) * sizeof(float));
}

/* Return the factor of cos and sin at a position. */
static double magnitude(const struct rope_config *r, int pos)
{
    if (r->beta == 0) return r->magnitude;
    return r->magnitude * (1 + r->beta * log(1 + floor((double)pos / r->context_original)));
}

/* Compute the rows of positions [pos, pos + n) of rope i. */
static void make_rows(struct model *m, int i, int pos, int n)
{
    struct backend *b = m->backend;
    const struct rope_rows *rows = &m->rope_rows[i];
    const int half = m->rope[i].d_rot / 2;
    float *cosines = rows->made, *sines = rows->made + ROPE_ROWS * half;
    for (int r = 0; r < n; r++)
        for (int k = 0; k < half; k++) {
            const double scale = magnitude(&m->config.rope[i], pos + r);
            cosines[r * half + k] = (float)(cos((pos + r) * rows->freq[k]) * scale);
            sines[r * half + k] = (float)(sin((pos + r) * rows->freq[k]) * scale);
        }
    const size_t n_byte = (size_t)(n * half) * sizeof(float);
    float *to = rows->table + (int64_t)pos * half;
    b->op->write(b, to, cosines, n_byte);
    b->op->write(b, to + table_floats(&m->rope[i]), sines, n_byte);
}

void rope_reach(struct model *m, int pos)
{
    if (m->config.n_rope == 0) return;
    CHECK(pos < m->rope[ROPE_MAIN].pos_max, "position %d of %d", pos, m->rope[ROPE_MAIN].pos_max);
    for (int n; m->n_rope_row <= pos; m->n_rope_row += n) {
        n = pos + 1 - m->n_rope_row < ROPE_ROWS ? pos + 1 - m->n_rope_row : ROPE_ROWS;
        for (int i = 0; i < m->config.n_rope; i++) make_rows(m, i, m->n_rope_row, n);
    }
}
