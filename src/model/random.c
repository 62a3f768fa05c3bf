/* random.c - the tensors of random weights for a folder without weights. Binding itself lists them:
 * each tensor that binding needs and does not find is added to the list.
 *
 *   config.json --config_read--> sizes --bind_all--> need NAME [n_out, k] --random_tensor--> list
 *
 * Every architecture that loads therefore has random weights. If a file decides about a form, such
 * as one matrix in place of two, the table does: the form with a name in folders. Other optional
 * tensors are absent. The class in config.json decides about the head. */
#include "model_impl.h"

#include "base/text.h"

#include <string.h>

const struct tensor_info *random_tensor(struct binder *b, const char *name, int64_t dim2,
                                        int64_t n_out, int64_t k, bool values)
{
    const struct config *c = &b->m->config;
    if (!b->maker || b->rc != 0) return NULL;
    const int64_t dim[3] = {k, n_out, dim2};
    const struct quant_mix_site site = {.name = name,
                                        .type = values ? QT_f32 : QT_bf16,
                                        .n_dim = dim2 > 1               ? 3
                                                 : n_out == 1 && values ? 1
                                                                        : 2,
                                        .k = k,
                                        .n_layer = c->n_layer,
                                        .n_group = c->n_head_kv > 0 ? c->n_head / c->n_head_kv : 1,
                                        .tied = c->tied && !random_unties(b)};
    b->rc = dummy_request(b->maker, &site, dim);
    return b->rc == 0 ? bind_find(b, name) : NULL;
}

/* Return true if the name of the class ends with `end`. */
static bool class_ends(const struct binder *b, const char *end)
{
    const size_t n_end = strlen(end);
    size_t n = 0;
    const char *name =
        meta_item_text(checkpoint_meta(b->checkpoint, "config.architectures"), 0, &n);
    return name && n >= n_end && memcmp(name + n - n_end, end, n_end) == 0;
}

/* Return true for a class that classifies texts. */
static bool classifies(const struct binder *b)
{
    return class_ends(b, "ForSequenceClassification");
}

/* Return true for a class without a head, such as Qwen3Model. GPT2LMHeadModel has a head. */
static bool is_bare(const struct binder *b)
{
    return class_ends(b, "Model") && !class_ends(b, "LMHeadModel");
}

bool random_has(const struct binder *b, const char *stem)
{
    const struct tensor_row *row = bind_row(b, stem);
    if (strncmp(stem, "cls", 3) == 0) return row && classifies(b);
    if (strcmp(stem, "output") == 0 && (classifies(b) || is_bare(b))) return false;
    return row && row->raw;
}

bool random_unties(const struct binder *b)
{
    const struct meta *tie = checkpoint_meta(b->checkpoint, "config.tie_word_embeddings");
    return b->maker && !checkpoint_parts(b->checkpoint) && meta_kind(tie) == META_BOOL &&
           !meta_bool(tie, true);
}
