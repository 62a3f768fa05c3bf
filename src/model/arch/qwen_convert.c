/* qwen_convert.c - conversion of the rope sections in text parts of models with images. */
#include "qwen_impl.h"

#include "model/convert_impl.h"

#include <stdio.h>

/* Write the numbers of pairs of lanes with positions in time, height and width, and a 0. Each
 * section is a third of the pairs if a directory lacks these numbers, because the sections of a
 * text have equal positions. */
static void put_keys(struct key_writer *w)
{
    const int n_pair = w->m->config.rope[ROPE_MAIN].d_rot / 2;
    const struct meta *list =
        checkpoint_meta(w->m->checkpoint, "config.rope_parameters.mrope_section");
    int32_t n[4] = {n_pair - 2 * (n_pair / 3), n_pair / 3, n_pair / 3, 0};
    char key[80];
    for (size_t i = 0; i < 3 && list; i++) n[i] = (int32_t)meta_item_int(list, i, n[i]);
    snprintf(key, sizeof key, "%s.rope.dimension_sections", w->arch);
    if (w->rc == 0) w->rc = checkpoint_add_ints(w->view, key, n, 4, w->e);
}

const struct arch_convert qwen_sections_convert = {.put_keys = put_keys};
