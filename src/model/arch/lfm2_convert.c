/* lfm2_convert.c - conversion of LFM2. A GGUF has the width of the feed-forward block itself, and 0
 * KV heads for layers with convolutions. */
#include "lfm2_impl.h"

#include "model/convert_impl.h"

#include "base/text.h"

static const struct lfm2_own *own_of(const struct config_writer *w)
{
    return w->c->own;
}

static void n_tap(struct config_writer *w, const char *name)
{
    hf_put_int(w, name, own_of(w)->n_tap);
}

static void biased(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, own_of(w)->biased);
}

static void kinds(struct config_writer *w, const char *name)
{
    hf_put_kinds(w, name, "conv", "full_attention");
}

static void unadjusted(struct config_writer *w, const char *name)
{
    hf_put_bool(w, name, false);
}

static void put_keys(struct key_writer *w)
{
    const struct lfm2_own *own = w->m->config.own;
    gguf_put_int(w, "shortconv.l_cache", own->n_tap);
}

static void place(struct source *s, const struct model *m, const char *name)
{
    (void)m;
    s->squeezed = text_ends_with(name, ".shortconv.conv.weight");
}

static const struct hf_field field[] = {{"shortconv.l_cache", n_tap},
                                        {"config.conv_bias", biased},
                                        {"config.layer_types", kinds},
                                        {"config.block_auto_adjust_ff_dim", unadjusted},
                                        {0}};
static const char *const f32[] = {".shortconv.conv.weight", NULL};
const struct arch_convert lfm2_convert = {
    .field = field, .f32 = f32, .place = place, .put_keys = put_keys};
