/* sentencepiece.c - parser of SentencePiece's .model, a protocol buffer.
 *
 *   ModelProto      1 repeated SentencePiece   2 TrainerSpec   3 NormalizerSpec
 *   SentencePiece   1 piece   2 score (f32)   3 type (enum piece_kind; absent: normal)
 *   TrainerSpec     3 model_type (1 unigram, 2 bpe, 3 word, 4 char)   35 byte_fallback
 *                   40-42 unk, bos, eos id
 *   NormalizerSpec  2 precompiled_charsmap   3 add_dummy_prefix   4 remove_extra_whitespaces
 *                   5 escape_whitespaces
 *
 * Every length is compared with the number of remaining bytes. Unknown fields are skipped. */
#include "token_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MODEL_BYTES_MAX = 256 << 20 };

/* Unread bytes, borrowed from the file. */
struct wire {
    const uint8_t *p;
    size_t n;
};
/* One field of a protocol buffer. The tag is number << 3 | type. */
struct wire_field {
    uint32_t number;
    int type;         /* wire type: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes */
    uint64_t value;   /* value of a varint or fixed-width field */
    struct wire data; /* content of a field of type 2 */
};

/* Read a varint. Seven bits per byte, lowest first; the highest bit is set in all bytes except the
 * last. */
static bool read_varint(struct wire *w, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 64 && w->n; shift += 7) {
        uint8_t b = *w->p++;
        w->n--;
        *v |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80) return true;
    }
    return false;
}

/* Read a little-endian number of n bytes. */
static bool read_fixed(struct wire *w, size_t n, uint64_t *v)
{
    *v = 0;
    if (w->n < n) return false;
    for (size_t i = 0; i < n; i++) *v |= (uint64_t)w->p[i] << 8 * i;
    w->p += n;
    w->n -= n;
    return true;
}

/* Read the next field. Return 1 for a field, 0 at the end, -1 for a malformed field. */
static int next_field(struct wire *w, struct wire_field *f)
{
    uint64_t tag, n;
    if (w->n == 0) return 0;
    if (!read_varint(w, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return -1;
    f->number = (uint32_t)(tag >> 3);
    f->type = tag & 7;
    switch (f->type) {
    case 0:
        return read_varint(w, &f->value) ? 1 : -1;
    case 1:
        return read_fixed(w, 8, &f->value) ? 1 : -1;
    case 5:
        return read_fixed(w, 4, &f->value) ? 1 : -1;
    case 2:
        if (!read_varint(w, &n) || n > w->n) return -1;
        f->data = (struct wire){w->p, (size_t)n};
        w->p += n;
        w->n -= (size_t)n;
        return 1;
    default:
        return -1;
    }
}

/* State of sentencepiece_read. Pointers are borrowed for the call. */
struct sentencepiece_reader {
    struct tokenizer *t;
    uint64_t type;                                  /* model type: 1 unigram, 2 bpe */
    bool byte_fallback, dummy_prefix, trim, escape; /* options of TrainerSpec and NormalizerSpec */
    int32_t unk, bos, eos;
    struct wire charsmap; /* empty if the file has none */
};

/* Set the error of a message of n bytes whose last n_left bytes do not begin with a field. */
static int malformed(struct err *e, const char *what, size_t n, size_t n_left)
{
    return err_set(e, ERR_FORMAT,
                   "%s is damaged or truncated: expected a protobuf field, got other data before "
                   "byte %zu of %zu",
                   what, n - n_left, n);
}

/* Read a SentencePiece message. Skip unknown fields. Control pieces match only in raw text. */
static int read_piece(struct sentencepiece_reader *m, struct wire w, struct err *e)
{
    struct wire_field f;
    struct wire text = {(const uint8_t *)"", 0};
    const size_t n_all = w.n;
    uint64_t kind = PIECE_NORMAL;
    float score = 0;
    int more;
    while ((more = next_field(&w, &f)) > 0) {
        uint32_t bits = (uint32_t)f.value;
        if (f.number == 1 && f.type == 2) text = f.data;
        if (f.number == 2 && f.type == 5) memcpy(&score, &bits, sizeof score);
        if (f.number == 3 && f.type == 0) kind = f.value;
    }
    if (more < 0) return err_prefix(e, malformed(e, "piece", n_all, w.n), "%zu", m->t->n_piece);
    if (kind < PIECE_NORMAL || kind > PIECE_BYTE)
        return err_set(e, ERR_FORMAT, "piece %zu: type: must be in [%d, %d], got %llu",
                       m->t->n_piece, PIECE_NORMAL, PIECE_BYTE, (unsigned long long)kind);
    size_t id = m->t->n_piece;
    int rc = tokenizer_put(m->t, id, (const char *)text.p, text.n, (enum piece_kind)kind, score, e);
    if (rc == 0 && kind == PIECE_CONTROL) m->t->piece[id].match = MATCH_RAW;
    return rc;
}

static int read_trainer(struct sentencepiece_reader *m, struct wire w, struct err *e)
{
    const size_t n_all = w.n;
    struct wire_field f;
    int more;
    while ((more = next_field(&w, &f)) > 0) {
        if (f.type != 0) continue;
        if (f.number == 3) m->type = f.value;
        if (f.number == 35) m->byte_fallback = f.value != 0;
        if (f.number == 40) m->unk = (int32_t)f.value;
        if (f.number == 41) m->bos = (int32_t)f.value;
        if (f.number == 42) m->eos = (int32_t)f.value;
    }
    return more == 0 ? 0 : malformed(e, "trainer_spec", n_all, w.n);
}

/* Read the normalizer's options. Options of absent fields keep SentencePiece's defaults. */
static int read_normalizer(struct sentencepiece_reader *m, struct wire w, struct err *e)
{
    const size_t n_all = w.n;
    struct wire_field f;
    int more;
    while ((more = next_field(&w, &f)) > 0) {
        if (f.number == 2 && f.type == 2) m->charsmap = f.data;
        if (f.type != 0) continue;
        if (f.number == 3) m->dummy_prefix = f.value != 0;
        if (f.number == 4) m->trim = f.value != 0;
        if (f.number == 5) m->escape = f.value != 0;
    }
    return more == 0 ? 0 : malformed(e, "normalizer_spec", n_all, w.n);
}

/* Read the ModelProto. Messages have any order, so options are applied after the last message
 * (apply). */
static int read_model(struct sentencepiece_reader *m, struct wire w, struct err *e)
{
    const size_t n_all = w.n;
    struct wire_field f;
    int more;
    while ((more = next_field(&w, &f)) > 0) {
        int rc = 0;
        if (f.type != 2) continue;
        if (f.number == 1) rc = read_piece(m, f.data, e);
        if (f.number == 2) rc = read_trainer(m, f.data, e);
        if (f.number == 3) rc = read_normalizer(m, f.data, e);
        if (rc != 0) return rc;
    }
    if (more < 0) return malformed(e, "the SentencePiece model", n_all, w.n);
    if (m->t->n_piece == 0)
        return err_set(e, ERR_FORMAT, "the SentencePiece model must have at least 1 piece, got 0");
    if (m->type != 1 && m->type != 2)
        return err_set(e, ERR_UNSUPPORTED,
                       "the type of the model must be 1 (unigram) or 2 (bpe), got %llu",
                       (unsigned long long)m->type);
    return 0;
}

/* Exempt user-defined pieces from the normalizer. */
static bool keep_user_pieces(struct norm_step *s, const struct tokenizer *t)
{
    struct trie_key *key = malloc((t->n_piece + 1) * sizeof *key);
    s->verbatim = calloc(1, sizeof *s->verbatim);
    size_t n = 0;
    for (size_t id = 0; key && id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (p->kind == PIECE_USER && p->n_text && p->n_text <= ADDED_BYTES_MAX)
            key[n++] = (struct trie_key){p->text, p->n_text, (int32_t)id};
    }
    bool ok = key && s->verbatim && trie_build(s->verbatim, key, n);
    free(key);
    return ok;
}

/* Set the options of the tokenizer from the options of the file. map: NULL if the file has none. */
static int apply(struct sentencepiece_reader *m, const struct charsmap *map, struct err *e)
{
    struct tokenizer *t = m->t;
    t->kind = m->type == 1 ? &token_kind_unigram : &token_kind_spm;
    t->opt = (struct token_options){.space_mark = m->escape,
                                    .byte_fallback = m->byte_fallback,
                                    .fuse_unk = true,
                                    .merges_by_score = m->type == 2,
                                    .drop_lead_space = m->dummy_prefix};
    t->unk = m->unk, t->bos = m->bos, t->eos = m->eos;
    /* Llama models put BOS before a text. The .model file has no field for BOS, but
     * tokenizer_config.json may have a field for BOS. */
    if (m->type == 2 && m->bos >= 0) t->prefix[t->n_prefix++] = m->bos;
    struct norm_step *s = tokenizer_add_norm(t, norm_sentencepiece);
    if (!s || !keep_user_pieces(s, t)) return err_memory(e, "a normalizer", sizeof *s);
    s->flags = (m->dummy_prefix ? SP_PREFIX : 0) | (m->trim ? SP_TRIM : 0) |
               (m->escape ? SP_ESCAPE : 0) | (m->byte_fallback ? SP_KEEP : 0);
    s->charsmap = map;
    return 0;
}

/* Set the values of m to SentencePiece's defaults for absent fields first. */
int sentencepiece_read(struct tokenizer *t, const char *path, struct err *e)
{
    struct buf file = {0};
    const struct charsmap *map = NULL;
    bool done = false; /* true: the class of the folder has other steps */
    struct sentencepiece_reader m = {.t = t,
                                     .type = 1,
                                     .dummy_prefix = true,
                                     .trim = true,
                                     .escape = true,
                                     .unk = 0,
                                     .bos = 1,
                                     .eos = 2};
    int rc = file_read(&file, path, MODEL_BYTES_MAX, e);
    if (rc == 0) { /* the error of file_read already contains the file */
        rc = read_model(&m, (struct wire){(const uint8_t *)file.data, file.n}, e);
        if (rc == 0 && m.charsmap.n)
            rc = charsmap_open(&map, &t->arena, m.charsmap.p, m.charsmap.n, e);
        if (rc != 0) err_prefix(e, rc, "%s", path);
        if (rc == 0 && hf_sentencepiece_is_file(path))
            rc = hf_sentencepiece_apply(t, path, m.unk, map, &done, e);
        if (rc == 0 && !done && (rc = apply(&m, map, e)) != 0) err_prefix(e, rc, "%s", path);
    }
    buf_deinit(&file);
    return rc;
}
