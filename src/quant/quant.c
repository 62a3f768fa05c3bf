/* quant.c - the table of number formats, and lookup of a format by id or name.
 *
 * The table is generated from types.def. A QTYPE format has `qtype_ops_<id>` in its own file. A
 * QPLAIN format has a size but no arithmetic. */
#include "quant_impl.h"

#include <strings.h>

const struct qtype_info qtype_info[QT_COUNT] = {
#define QTYPE(id, name, block, n_byte, gguf_id, smaller)                                           \
    [QT_##id] = {name, block, n_byte, gguf_id, QT_##smaller, &qtype_ops_##id},
#define QPLAIN(id, name, block, n_byte, gguf_id, smaller)                                          \
    [QT_##id] = {name, block, n_byte, gguf_id, QT_##smaller, NULL},
#include "types.def"
};

int qtype_of_gguf(uint32_t gguf_id)
{
    for (int t = 0; t < QT_COUNT; t++)
        if (qtype_info[t].gguf_id >= 0 && (uint32_t)qtype_info[t].gguf_id == gguf_id) return t;
    return -1;
}

int qtype_of_name(const char *name)
{
    for (int t = 0; t < QT_COUNT; t++)
        if (strcasecmp(qtype_info[t].name, name) == 0) return t;
    return -1;
}

float qtype_value(enum qtype t, const void *x, int64_t i)
{
    const struct qtype_info *q = &qtype_info[t];
    const int64_t n = q->block;
    float v[BLOCK_MAX];
    q->ops->decode(v, (const uint8_t *)x + (size_t)(i / n) * (size_t)q->n_byte, n);
    return v[i % n];
}
