/* quanto.c - optimum-quanto: integers or 8-bit floats with float scales. quanto_qmap.json has the
 * types of the modules (format/hf_quanto.c). A matrix has these tensors:
 *
 *     weight._data         I8 or F8_E4M3 [n_out, k]
 *     weight._scale        [n_out, 1]
 *
 *     value = code * scale
 *
 * Codes of 2 and 4 bits have groups of consecutive values. A row begins with a new group:
 *
 *     weight._data._data   U8 [words, group]: the groups in planes, the first in the lowest bits
 *     weight._scale        [groups, 1]
 *     weight._shift        [groups, 1]
 *
 *     value = code * scale - shift
 *
 * The library computes in the type of the scales. quoth computes in f32. Values of 2 and 4 bits
 * become f32, because a shift is a float. */
#include "form_impl.h"

/* Check that the folder has quanto_qmap.json, because the library quantizes float weights without
 * this file. */
static void read_fields(struct binder *b)
{
    if (!form_meta(b, "quanto_qmap.json"))
        form_refuse(b, "quant_method",
                    "must come with quanto_qmap.json, because quoth does not quantize as Quanto "
                    "does; without quantization_config the float weights load");
}

/* Bind codes of 8 bits. */
static const struct tensor_info *bind_bytes(struct binder *b, const struct site *s,
                                            struct published *p)
{
    const struct tensor_info *t = form_need(b, s, "weight._data", TYPE(i8) | TYPE(f8_e4m3),
                                            s->n_out, s->k),
                             *scale = form_need(b, s, "weight._scale", FLOAT_TYPES, -1, -1);
    if (!t || !scale) return NULL;
    p->code = form_bytes(t, s->k);
    if (t->type == QT_f8_e4m3)
        p->level = form_e4m3(b);
    else
        p->code.sign = true, p->zero_point = 128;
    form_scales(b, s, p, scale, 0, 0);
    return t;
}

static int64_t n_item(const struct tensor_info *t)
{
    return t->dim[0] * t->dim[1];
}

/* Return the number of bits of a code, 2 or 4, computed from the words for n_group codes of a
 * column. Return 0 if neither number is possible, or if both are. */
static int bits_of(int64_t n_word, int64_t n_group)
{
    const bool four = n_word == (n_group + 1) / 2, two = n_word == (n_group + 3) / 4;
    return four == two ? 0 : four ? 4 : 2;
}

/* Bind the codes of 2 or 4 bits in the tensor t. */
static const struct tensor_info *bind_bits(struct binder *b, const struct site *s,
                                           struct published *p, const struct tensor_info *t)
{
    const struct tensor_info *scale = form_need(b, s, "weight._scale", FLOAT_TYPES, -1, -1),
                             *shift = form_need(b, s, "weight._shift", FLOAT_TYPES, -1, -1);
    if (!scale || !shift) return NULL;
    const int64_t n = s->n_out * s->k, n_group = n_item(scale);
    if (n_group < 1 || n % n_group || s->k % (n / n_group)) {
        form_fault(b, scale, "has %lld items, which no groups of [%lld, %lld] have",
                   (long long)n_group, (long long)s->n_out, (long long)s->k);
        return NULL;
    }
    const int64_t size = n / n_group;
    if (n_item(shift) != n_group)
        form_fault(b, shift, "has %lld items, expected %lld", (long long)n_item(shift),
                   (long long)n_group);
    t = form_need(b, s, "weight._data._data", TYPE(u8), -1, size);
    if (!t || b->rc != 0) return NULL;
    const int bits = bits_of(t->dim[1], n_group);
    if (bits == 0) {
        form_fault(b, t, "has %lld rows, expected those of 2 or 4 bits for %lld groups",
                   (long long)t->dim[1], (long long)n_group);
        return NULL;
    }
    p->code = (struct codes){.data = t->data,
                             .bits = bits,
                             .word = 1,
                             .order = ORDER_FLAT_LOW,
                             .n_plane = n_item(t),
                             .step = 1,
                             .other = s->k};
    p->scale.data = scale->data, p->scale.type = scale->type;
    p->scale.group_step = 1;
    p->shift = (struct published_shifts){.data = shift->data, .type = shift->type, .scaled = true};
    p->block_k = size, p->flat = true;
    return t;
}

static const struct tensor_info *bind(struct binder *b, const struct site *s, struct published *p)
{
    /* scales of activations, which have no effect, because the map permits only float
     * activations */
    static const char *const unused[] = {"input_scale", "output_scale", NULL};
    const struct tensor_info *t = form_find(b, s, "weight._data._data");
    if (!t && !form_find(b, s, "weight._data")) return NULL;
    form_skip(b, s, unused);
    return t ? bind_bits(b, s, p, t) : bind_bytes(b, s, p);
}

const struct form form_quanto = {.method = "quanto", .read = read_fields, .bind = bind};
