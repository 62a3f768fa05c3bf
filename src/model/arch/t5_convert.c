/* t5_convert.c - conversion of the fields that only T5 has. */
#include "t5_impl.h"

#include "model/convert_impl.h"

/* Append T5's activation and its gate. */
static void feed_forward(struct config_writer *w, const char *name)
{
    hf_put_text(w, name, w->c->no_gate ? "relu" : "gated-gelu");
}

static const struct hf_field field[] = {{"config.feed_forward_proj", feed_forward}, {0}};
const struct arch_convert t5_convert = {.field = field};
