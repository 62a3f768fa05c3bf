/* rope.c - cos and sin tables for every position, made in f64 and rounded to f32. Memory for all of
 * them is reserved at open; a position's row is made before the first batch that needs it, because
 * a row takes 1 us, the 131,072 of a long context 0.12 s, and most are never used.
 *
 *   linear   positions divided by the factor (position interpolation, arXiv 2306.15595)
 *   llama3   low frequencies divided by the factor, high ones kept, a ramp between (Llama 3.1)
 *   yarn     the same with a ramp over rotations, and cos, sin scaled by 0.1 ln(factor) + 1
 *            (arXiv 2309.00071)
 *   freq_factor: divisors stored in a GGUF file (rope_freqs.weight), instead of llama3's */
#include "model_impl.h"

#include <math.h>

static double llama3_freq(const struct rope_config *r, double freq)
{
    double wave = 2 * M_PI / freq, n = r->context_original;
    if (wave < n / r->high_freq) return freq;
    if (wave > n / r->low_freq) return freq / r->factor;
    double smooth = (n / wave - r->low_freq) / (r->high_freq - r->low_freq);
    return (1 - smooth) * freq / r->factor + smooth * freq;
}

/* The lane at which a wave makes `rotations` turns over the original context. */
static double yarn_lane(const struct rope_config *r, double rotations)
{
    return r->d_rot * log(r->context_original / (rotations * 2 * M_PI)) / (2 * log(r->base));
}

static double yarn_freq(const struct rope_config *r, double freq, int i)
{
    double low = floor(yarn_lane(r, r->beta_fast)), high = ceil(yarn_lane(r, r->beta_slow));
    if (low < 0) low = 0;
    if (high > r->d_rot - 1) high = r->d_rot - 1;
    if (high == low) high += 0.001;
    double ramp = (i - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return freq / r->factor * ramp + freq * (1 - ramp);
}

static double lane_freq(const struct rope_config *r, int i)
{
    double freq = pow(r->base, -2.0 * i / r->d_rot);
    if (r->freq_factor) return freq / (double)r->freq_factor[i];
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

static double magnitude(const struct rope_config *r)
{
    if (r->scaling != ROPE_YARN) return 1;
    if (r->attn_factor > 0) return r->attn_factor;
    return r->factor <= 1 ? 1 : 0.1 * log(r->factor) + 1;
}

int rope_open(struct model *m, int pos_max, struct err *e)
{
    const struct rope_config *r = &m->config.rope;
    size_t half = (size_t)r->d_rot / 2, n_byte = (size_t)pos_max * half * sizeof(float);
    struct rope_rows *rows = &m->rope_rows;
    *rows = (struct rope_rows){.cos = arena_push(&m->arena, n_byte, 64),
                               .sin = arena_push(&m->arena, n_byte, 64),
                               .freq = arena_push(&m->arena, half * sizeof(double), 64),
                               .scale = magnitude(r)};
    if (!rows->cos || !rows->sin || !rows->freq)
        return err_memory(e, "the rope tables", 2 * n_byte);
    for (int i = 0; i < (int)half; i++) rows->freq[i] = lane_freq(r, i);
    m->rope = (struct rope_spec){
        .d_rot = r->d_rot, .neox = r->neox, .pos_max = pos_max, .cos = rows->cos, .sin = rows->sin};
    return 0;
}

void rope_reach(struct model *m, int pos)
{
    struct rope_rows *rows = &m->rope_rows;
    int half = m->rope.d_rot / 2;
    for (; rows->n <= pos; rows->n++)
        for (int i = 0; i < half; i++) {
            int64_t at = (int64_t)rows->n * half + i;
            rows->cos[at] = (float)(cos(rows->n * rows->freq[i]) * rows->scale);
            rows->sin[at] = (float)(sin(rows->n * rows->freq[i]) * rows->scale);
        }
}
