/* rope.c - cos and sin tables for every position, computed in f64 and rounded to f32. Memory for
 * all positions is reserved at open. A row is computed before the first batch that needs it,
 * because most rows are never used. The computation takes 1 us for a row, and 0.12 s for the
 * 131,072 rows of a long context.
 *
 *   linear   positions divided by the factor (position interpolation, arXiv 2306.15595)
 *   dynamic  a base that grows with the context (NTK-aware scaling). As in vLLM, the requested
 *            context determines the base at open. A text's length has no effect, so keys in the
 *            cache keep their angles
 *   llama3   low frequencies divided by the factor, high frequencies kept, a ramp between (Llama
 *   3.1)
 *   yarn     like llama3, with a ramp over rotations (arXiv 2309.00071)
 *   long     two lists of divisors (LongRoPE, arXiv 2402.13753). The length of a text selects
 *            the list for all rows of the text: the long list above n_short tokens, the context
 *            in training.
 *   proportional   the first lanes have the frequencies of a rope of all lanes, divided by the
 *            factor; all other lanes have the frequency 0 (Gemma 4)
 *   freq_factor: divisors in a GGUF file (rope_freqs.weight), in place of llama3's scaling;
 *            another scaling is applied in addition
 *
 * A rope with two lists of divisors has two consecutive tables:
 *
 *   rows [0, n_short)                      the short list, positions [0, n_short)
 *   rows [n_short, n_short + context_max)  the long list, positions [0, context_max)
 *
 * batch.angle is the row in the tables; it equals pos if n_short is 0.
 *
 * cos and sin are multiplied by a magnitude: YaRN's 0.1 ln(factor) + 1, or the file's value
 * (config.c). The magnitude of ROPE_QUERY grows with the position. */
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
 * is unchanged, and 1 for slow lanes. ramp_whole is the field `truncate` of the config.
 * ramp_forward is llama.cpp's check for an empty ramp. */
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

double rope_freq(const struct rope_config *r, int i, bool is_long)
{
    const float *two = is_long ? r->long_factor : r->short_factor,
                *factor = r->long_factor ? two : r->freq_factor;
    double freq = pow(r->base, -2.0 * i / r->d_rot);
    if (factor) freq /= (double)factor[i];
    switch (r->scaling) {
    case ROPE_LINEAR:
        return freq / r->factor;
    case ROPE_LLAMA3:
        return llama3_freq(r, freq);
    case ROPE_YARN:
        return yarn_freq(r, freq, i);
    case ROPE_PROPORTIONAL:
        return i < floor(r->rotated_share * r->d_rot / 2) ? freq / r->factor : 0;
    default:
        return freq;
    }
}

enum { ROPE_ROWS = 64 }; /* number of rows per write to the device */

static size_t table_floats(const struct rope_spec *r)
{
    return (size_t)r->pos_max * (size_t)(r->d_rot / 2);
}

/* Allocate the table of one rope on the device, and host buffers for the rows that rope_reach
 * computes. n_row: number of rows of the table. */
static int open_one(struct model *m, int i, int n_row, struct err *e)
{
    struct backend *b = m->backend;
    const struct rope_config *r = &m->config.rope[i];
    struct rope_spec *spec = &m->rope[i];
    struct rope_rows *rows = &m->rope_rows[i];
    const size_t half = (size_t)r->d_rot / 2;
    *spec = (struct rope_spec){.d_rot = r->d_rot, .neox = r->neox, .pos_max = n_row};
    const size_t n = table_floats(spec), n_byte = 2 * n * sizeof(float);
    *rows =
        (struct rope_rows){.table = b->op->alloc(b, n_byte),
                           .made = arena_push(&m->arena, 2 * ROPE_ROWS * half * sizeof(float), 64),
                           .freq = arena_push(&m->arena, 2 * half * sizeof(double), 64)};
    if (!rows->table || !rows->made || !rows->freq) return err_memory(e, "the rope tables", n_byte);
    for (int k = 0; k < (int)half; k++) {
        rows->freq[k] = rope_freq(r, k, false);
        rows->freq[half + (size_t)k] = rope_freq(r, k, true);
    }
    spec->cos = rows->table, spec->sin = rows->table + n;
    return 0;
}

int rope_n_short(const struct model *m, int context_max)
{
    const struct rope_config *r = &m->config.rope[ROPE_MAIN];
    return r->long_factor && context_max > r->context_original ? r->context_original : 0;
}

/* Increase the base of a dynamic rope for a context of n tokens. */
static void stretch(struct rope_config *r, int n)
{
    if (r->scaling == ROPE_DYNAMIC && n > r->context_original)
        r->base *= pow(r->factor * n / r->context_original - (r->factor - 1),
                       (double)r->d_rot / (r->d_rot - 2));
}

int rope_open(struct model *m, int pos_max, struct err *e)
{
    const int64_t n_row = (int64_t)m->limits.n_short + pos_max;
    int rc = 0;
    if (n_row > INT32_MAX)
        return err_set(e, ERR_LIMIT, "a context of %d tokens is too long for two rope tables",
                       pos_max);
    for (int i = 0; i < m->config.n_rope && rc == 0; i++) {
        stretch(&m->config.rope[i], pos_max);
        rc = open_one(m, i, (int)n_row, e);
    }
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
    const double n = floor(((double)pos + r->beta_add) / r->beta_context);
    return r->magnitude * (1 + r->beta * log1p(n));
}

/* Compute the rows of positions [pos, pos + n) of rope i. is_long: use the long list. */
static void make_rows(struct model *m, int i, bool is_long, int pos, int n)
{
    struct backend *b = m->backend;
    const struct rope_rows *rows = &m->rope_rows[i];
    const int half = m->rope[i].d_rot / 2;
    const double *freq = rows->freq + (is_long ? half : 0);
    float *cosines = rows->made, *sines = rows->made + ROPE_ROWS * half;
    for (int r = 0; r < n; r++)
        for (int k = 0; k < half; k++) {
            const double scale = magnitude(&m->config.rope[i], pos + r);
            cosines[r * half + k] = (float)(cos((pos + r) * freq[k]) * scale);
            sines[r * half + k] = (float)(sin((pos + r) * freq[k]) * scale);
        }
    const size_t n_byte = (size_t)(n * half) * sizeof(float);
    float *to = rows->table + (int64_t)(pos + (is_long ? m->limits.n_short : 0)) * half;
    b->op->write(b, to, cosines, n_byte);
    b->op->write(b, to + table_floats(&m->rope[i]), sines, n_byte);
}

/* Extend the table of a list to n_pos positions. */
static void reach(struct model *m, bool is_long, int n_pos)
{
    int *made = &m->n_rope_row[is_long];
    for (int n; *made < n_pos; *made += n) {
        n = n_pos - *made < ROPE_ROWS ? n_pos - *made : ROPE_ROWS;
        for (int i = 0; i < m->config.n_rope; i++) make_rows(m, i, is_long, *made, n);
    }
}

void rope_reach(struct model *m, const int32_t *angle, int n)
{
    const int n_short = m->limits.n_short, n_row = m->rope[ROPE_MAIN].pos_max;
    int n_pos[2] = {0, 0};
    if (m->config.n_rope == 0) return;
    for (int i = 0; i < n; i++) {
        CHECK(angle[i] >= 0 && angle[i] < n_row, "row %d of %d", angle[i], n_row);
        const bool is_long = n_short > 0 && angle[i] >= n_short;
        const int pos = angle[i] - (is_long ? n_short : 0);
        if (pos >= n_pos[is_long]) n_pos[is_long] = pos + 1;
    }
    reach(m, false, n_pos[0]);
    reach(m, true, n_pos[1]);
}
