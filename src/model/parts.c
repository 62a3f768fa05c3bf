/* parts.c - the text part of a model of several parts (format/parts.def): fields of config.json
 * whose use differs from that in a model of one part. The class of the whole model has its own
 * head, and reads tie_word_embeddings at the top level.
 *
 * Each table below is generated from one kind of row in parts.def. The keys of the text part are
 * config.FIELD, as in a model of one part. Fields of the top level are config.outer.FIELD. Fields
 * of text_config that the class of the whole model reads at the top level are config.inner.FIELD.
 *
 * A text may contain ids of other parts. The row of such an id is that of the padding token
 * (parts_tokens), or of the other part's own embedding (parts_ids). */
#include "model_impl.h"

#include "base/check.h"

#include <limits.h>
#include <string.h>

static const char tied_key[] = "config.tie_word_embeddings",
                  inner_key[] = "config.inner.tie_word_embeddings";

static const struct config_key outer[] = {
#define PARTS_IDLE(field, why) IDLE("config.outer." field, why),
#define PARTS_BOTH(field, why) IDLE("config.outer." field, why),
#define PARTS_TRUE(field, why) ONLY("config.outer." field, 1, why),
#include "format/parts.def"
    KEYS_END,
};
static const struct {
    struct config_key row;
    bool is_cap;
} head[] = {
#define PARTS_HEAD(key, value, is_cap)                                                             \
    {{key, KEY_IDLE, value, "the head of a model of several parts ignores this field"}, is_cap},
#include "format/parts.def"
};
static const struct {
    const char *model_type; /* static */
    struct config_key row;
} own[] = {
#define PARTS_KEY(model_type, key, why) {model_type, IDLE(key, why)},
#include "format/parts.def"
};
static const struct {
    const char *model_type; /* static */
    struct config_key row;
} pads[] = {
#define PARTS_PAD(model_type, field, id) {model_type, KEY("config.outer." field, id)},
#include "format/parts.def"
};
static const struct {
    const char *model_type, *begin; /* static */
    struct config_key first, n_row, d, eps;
} ids[] = {
#define PARTS_IDS(model_type, object, begin, first, rows, width, eps)                              \
    {model_type,                                                                                   \
     begin,                                                                                        \
     KEY("config.outer." object ".vocab_offset", first),                                           \
     KEY("config.outer." object ".vocab_size", rows),                                              \
     KEY("config.outer." object ".hidden_size", width),                                            \
     KEY("config.outer." object ".rms_norm_eps", eps)},
#include "format/parts.def"
};
static const char pad_key[] = "config.inner.pad_token_id";
static const struct config_key pad_row = KEY("config.inner.pad_token_id", 0);
static const struct config_key inner[] = {
    IDLE("config.inner.pad_token_id", "quoth reads this value from the tokenizer's own files"),
    IDLE("config.inner.tie_word_embeddings", "quoth reads the field at the top level"),
    IDLE("config.inner.quantization_config", "quoth reads the field at the top level"),
    KEYS_END,
};
static const struct config_key inner_tied = KEY_UNSET("config.inner.tie_word_embeddings");
static const struct config_key outer_tied =
    IDLE("config.tie_word_embeddings", "the class reads the field in text_config");
static const char cap_key[] = "config.final_logit_softcapping";
static const struct config_key cap_unset = KEY_UNSET("config.final_logit_softcapping");

/* Return true if the class of several parts also reads tie_word_embeddings in text_config. */
static bool reads_inner(const struct parts *p)
{
    return p->tied == TIED_EITHER || p->tied == TIED_INNER || p->tied == TIED_TEXT;
}

const struct config_key *parts_added_row(const struct binder *b, const char *key)
{
    const struct parts *p = checkpoint_parts(b->checkpoint);
    return p && p->head == HEAD_CAP && strcmp(key, cap_key) == 0 ? &cap_unset : NULL;
}

/* Return the declaration of a key that describes ids of another part; NULL for all other keys. */
static const struct config_key *ids_row(const struct parts *p, const char *key)
{
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        const struct config_key *row[] = {&ids[i].first, &ids[i].n_row, &ids[i].d, &ids[i].eps};
        if (strcmp(ids[i].model_type, p->model_type) != 0) continue;
        for (size_t k = 0; k < sizeof row / sizeof row[0]; k++)
            if (strcmp(row[k]->key, key) == 0) return row[k];
    }
    return NULL;
}

const struct config_key *parts_row(const struct binder *b, const char *key)
{
    const struct parts *p = checkpoint_parts(b->checkpoint);
    if (!p) return NULL;
    if (ids_row(p, key)) return ids_row(p, key);
    for (size_t i = 0; i < sizeof pads / sizeof pads[0]; i++) {
        if (strcmp(pads[i].model_type, p->model_type) != 0) continue;
        if (strcmp(pads[i].row.key, key) == 0) return &pads[i].row;
        if (strcmp(pad_key, key) == 0) return &pad_row;
    }
    for (const struct config_key *row = outer; row->key; row++)
        if (strcmp(row->key, key) == 0) return row;
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        if (strcmp(head[i].row.key, key) == 0 && p->head != HEAD_ALL &&
            !(head[i].is_cap && p->head == HEAD_CAP))
            return &head[i].row;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(own[i].model_type, p->model_type) == 0 && strcmp(own[i].row.key, key) == 0)
            return &own[i].row;
    if (reads_inner(p) && strcmp(key, inner_key) == 0) return &inner_tied;
    if (p->tied == TIED_TEXT && strcmp(key, outer_tied.key) == 0) return &outer_tied;
    for (const struct config_key *row = inner; row->key; row++)
        if (strcmp(row->key, key) == 0) return row;
    return NULL;
}

void parts_tokens(struct binder *b, struct config *c)
{
    const struct parts *p = checkpoint_parts(b->checkpoint);
    for (size_t i = 0; p && i < sizeof pads / sizeof pads[0]; i++) {
        const char *key = pads[i].row.key;
        if (strcmp(pads[i].model_type, p->model_type) != 0) continue;
        CHECK(c->n_padded < PADDED_MAX, "%d tokens of other parts", c->n_padded);
        const struct meta *m = config_meta(b, key);
        /* null: the model has no token of this part */
        if (m && meta_kind(m) == META_NONE) continue;
        c->padded[c->n_padded++] = config_int(b, key, INT_MIN, INT_MAX, INT_MIN);
    }
    if (c->n_padded > 0) c->pad = config_int(b, pad_key, 0, INT_MAX, -1);
    if (b->rc == 0 && c->n_padded > 0 && c->pad >= c->n_vocab)
        config_refuse(b, pad_key, ERR_FORMAT, "must be in [0, %d), got %d", c->n_vocab, c->pad);
}

void parts_ids(struct binder *b, struct config *c)
{
    const struct parts *p = checkpoint_parts(b->checkpoint);
    const char *size_key[OTHERS_MAX];
    for (size_t i = 0; p && i < sizeof ids / sizeof ids[0]; i++) {
        if (strcmp(ids[i].model_type, p->model_type) != 0) continue;
        CHECK(c->n_other < OTHERS_MAX, "%d parts with ids", c->n_other);
        const int first = config_int(b, ids[i].first.key, 0, INT_MAX, 0);
        size_key[c->n_other] = ids[i].n_row.key;
        if (c->n_other > 0 && first < c->n_vocab) c->other[c->n_other - 1].end = first;
        c->other[c->n_other++] =
            (struct other_ids){.begin = ids[i].begin,
                               .first = first,
                               .end = c->n_vocab,
                               .n_row = config_int(b, ids[i].n_row.key, 1, INT_MAX, 0),
                               .d = config_int(b, ids[i].d.key, 1, WIDTH_MAX, 0),
                               .eps = (float)config_real(b, ids[i].eps.key, NAN)};
    }
    for (int i = 0; i < c->n_other && b->rc == 0; i++) {
        const struct other_ids *o = &c->other[i];
        if (o->end - (int64_t)o->first > o->n_row)
            config_refuse(b, size_key[i], ERR_FORMAT, "must be at least the %d ids of the part",
                          o->end - o->first);
    }
}

bool parts_tied(struct binder *b)
{
    const struct parts *p = checkpoint_parts(b->checkpoint);
    const struct meta *top = config_meta(b, tied_key), *text = config_meta(b, inner_key);
    /* the default of the text part's class is used */
    const bool by_class = config_default(b, tied_key) == 1,
               in_text = text ? config_bool(b, inner_key, false) : by_class;
    const bool at_top = meta_kind(top) != META_NONE ? config_bool(b, tied_key, false)
                                                    : !top && p->tied == TIED_TRUE;
    if (p->tied == TIED_TEXT) return in_text; /* the default of these classes is false */
    if (p->tied == TIED_EITHER) return at_top || in_text;
    return p->tied == TIED_INNER && meta_kind(top) == META_NONE ? in_text : at_top;
}

/* Reject ropes that depend on the absolute position, because the positions of the class begin at
 * 1. */
static void refuse_absolute(struct binder *b, const struct config *c)
{
    for (int i = 0; i < c->n_rope && b->rc == 0; i++) {
        const struct rope_config *r = &c->rope[i];
        if (r->scaling == ROPE_DYNAMIC || r->scaling == ROPE_LONG)
            config_refuse(b, "config.rope_parameters.rope_type", ERR_UNSUPPORTED,
                          "must not depend on the length of the text, because the positions of "
                          "this model begin at 1");
        else if (r->beta != 0)
            config_refuse(b, "config.rope_parameters.llama_4_scaling_beta", ERR_UNSUPPORTED,
                          "must be 0, got %g, because the positions of this model begin at 1",
                          r->beta);
    }
}

void parts_head(struct binder *b, struct config *c)
{
    const struct parts *p = checkpoint_parts(b->checkpoint);
    if (!p || p->head != HEAD_CAP) return;
    c->logit_softcap = config_cap(b, cap_key);
    refuse_absolute(b, c);
}
