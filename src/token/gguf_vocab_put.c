/* gguf_vocab_put.c - a Hugging Face folder's tokenizer -> tokenizer.ggml.*, the inverse of
 * gguf_vocab.c.
 *
 *   tokenizer.json   kind bpe over GPT-2's alphabet: model "gpt2", with the family of pretok.def
 *                    that has the same steps (tokenizer_family)
 *                    kind spm, whose merges order the pieces: model "llama", with scores
 *
 * The keys have no place for a normalizer, nor for the rules of the text around an added token.
 * Readers of GGUF files ignore both, so a warning names them. Everything else that the keys lack is
 * an error, because other ids would be silently wrong. */
#include "token_impl.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists of the keys, by id or by rank. Texts are borrowed from the tokenizer or `made`. */
struct vocab_lists {
    const char **text; /* owned [n] */
    size_t *len;       /* owned [n] */
    int32_t *type;     /* owned [n] */
    char *made;        /* owned; texts that the tokenizer lacks */
};

/* n_made: bytes of all texts that the tokenizer lacks. Return false if memory is exhausted. */
static bool lists_open(struct vocab_lists *l, size_t n, size_t n_made)
{
    *l = (struct vocab_lists){.text = calloc(n + 1, sizeof *l->text),
                              .len = calloc(n + 1, sizeof *l->len),
                              .type = calloc(n + 1, sizeof *l->type),
                              .made = malloc(n_made + 1)};
    return l->text && l->len && l->type && l->made;
}

static void lists_close(struct vocab_lists *l)
{
    free(l->text);
    free(l->len);
    free(l->type);
    free(l->made);
}

/* Return the type of a piece. A folder's file has no types of bytes and of the unknown token. */
static int32_t kind_of(const struct tokenizer *t, size_t id)
{
    const struct piece *p = &t->piece[id];
    if (t->kind != &token_kind_spm) return p->kind;
    if ((int32_t)id == t->unk) return PIECE_UNKNOWN;
    const bool byte = t->opt.byte_fallback && p->kind == PIECE_NORMAL && p->n_text == 6 &&
                      memcmp(p->text, "<0x", 3) == 0 && p->text[5] == '>';
    return byte ? PIECE_BYTE : p->kind;
}

/* Add the tokens and their types. An id without a piece becomes unused, with a text of its own,
 * because some readers require distinct texts. */
static int put_pieces(struct checkpoint *out, const struct tokenizer *t, size_t n, struct err *e)
{
    enum { PAD_BYTES = 24 };
    struct vocab_lists l;
    int rc = lists_open(&l, n, n * PAD_BYTES) ? 0 : err_memory(e, "the vocabulary", n);
    char *text = l.made;
    for (size_t id = 0; id < n && rc == 0; id++) {
        const struct piece *p = id < t->n_piece ? &t->piece[id] : NULL;
        if (p && p->kind) {
            l.text[id] = p->text, l.len[id] = p->n_text, l.type[id] = kind_of(t, id);
            continue;
        }
        l.len[id] = (size_t)snprintf(text, PAD_BYTES, "[PAD%zu]", id);
        l.text[id] = text, l.type[id] = PIECE_UNUSED;
        text += l.len[id];
    }
    if (rc == 0) rc = checkpoint_add_texts(out, "tokenizer.ggml.tokens", l.text, l.len, n, e);
    if (rc == 0) rc = checkpoint_add_ints(out, "tokenizer.ggml.token_type", l.type, n, e);
    lists_close(&l);
    return rc;
}

/* Add the merges as "left right". */
static int put_merges(struct checkpoint *out, const struct tokenizer *t, struct err *e)
{
    struct vocab_lists l;
    const size_t n = t->merge.n;
    size_t n_byte = 0;
    for (size_t i = 0; i < n; i++) n_byte += t->merge.v[i].n_left + t->merge.v[i].n_right + 1;
    int rc = lists_open(&l, n, n_byte) ? 0 : err_memory(e, "merges", n);
    char *text = l.made;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct merge_text *m = &t->merge.v[i];
        l.text[i] = text, l.len[i] = (size_t)m->n_left + m->n_right + 1;
        memcpy(text, m->left, m->n_left);
        text[m->n_left] = ' ';
        memcpy(text + m->n_left + 1, m->right, m->n_right);
        text += l.len[i];
    }
    if (rc == 0) rc = checkpoint_add_texts(out, "tokenizer.ggml.merges", l.text, l.len, n, e);
    lists_close(&l);
    return rc;
}

static int put_id(struct checkpoint *out, const char *name, int64_t id, struct err *e)
{
    char key[96];
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    return id < 0 ? 0 : checkpoint_add_u32(out, key, (uint32_t)id, e);
}

/* Add the ids that end a generation. GGUF has keys for two of them besides EOS; the list
 * eos_token_ids has all. */
static int put_ends(struct checkpoint *out, const struct tokenizer *t, struct err *e)
{
    static const char *const other[] = {"eot_token_id", "eom_token_id"};
    struct ids all = {0};
    size_t n_other = 0;
    int rc = 0;
    for (size_t id = 0; id < t->n_piece && rc == 0; id++) {
        if (!t->piece[id].eog && (int32_t)id != t->eos) continue;
        if (!vec_push(&all, (int32_t)id)) rc = err_memory(e, "the ends", all.n);
        if (rc == 0 && (int32_t)id != t->eos && n_other < 2)
            rc = put_id(out, other[n_other++], (int64_t)id, e);
    }
    if (rc == 0 && all.n > 1)
        rc = checkpoint_add_ints(out, "tokenizer.ggml.eos_token_ids", all.v, all.n, e);
    vec_deinit(&all);
    return rc;
}

/* Add the ids of special tokens, and whether BOS and EOS are added to each text. */
static int put_ids(struct checkpoint *out, const struct tokenizer *t, const struct checkpoint *c,
                   struct err *e)
{
    const bool bos = t->n_prefix == 1 && t->prefix[0] == t->bos,
               eos = t->n_suffix == 1 && t->suffix[0] == t->eos;
    if ((t->n_prefix > 0 && !bos) || (t->n_suffix > 0 && !eos))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s/tokenizer.json: post_processor: must add BOS before a text and EOS "
                       "after it, or nothing: GGUF has no keys for other tokens",
                       checkpoint_dir(c));
    int rc = put_id(out, "bos_token_id", t->bos, e);
    if (rc == 0) rc = put_id(out, "eos_token_id", t->eos, e);
    if (rc == 0) rc = put_id(out, "unknown_token_id", t->unk, e);
    if (rc == 0)
        rc = put_id(out, "padding_token_id",
                    meta_int(checkpoint_meta(c, "tokenizer.ggml.padding_token_id"), -1), e);
    if (rc == 0) rc = put_ends(out, t, e);
    if (rc == 0) rc = checkpoint_add_bool(out, "tokenizer.ggml.add_bos_token", bos, e);
    return rc ? rc : checkpoint_add_bool(out, "tokenizer.ggml.add_eos_token", eos, e);
}

/* Log what GGUF files of this kind have no keys for. */
static void warn_losses(const struct tokenizer *t, const struct checkpoint *c)
{
    size_t n = 0, first = 0;
    if (t->norm.n > 0 && t->kind == &token_kind_bpe)
        log_warn("%s/tokenizer.json: the normalizer has no key in a GGUF; texts that it would "
                 "change get other ids",
                 checkpoint_dir(c));
    for (size_t id = 0; id < t->n_piece; id++)
        if (t->piece[id].match & (MATCH_LSTRIP | MATCH_RSTRIP | MATCH_WORD) && n++ == 0) first = id;
    if (n > 0)
        log_warn("%s/tokenizer.json: lstrip, rstrip and single_word of %zu added tokens (\"%.*s\" "
                 "...) have no key in a GGUF; texts with white space next to them get other ids",
                 checkpoint_dir(c), n, (int)t->piece[first].n_text, t->piece[first].text);
}

static int put_bpe(struct checkpoint *out, const struct tokenizer *t, const struct checkpoint *c,
                   struct err *e)
{
    const char *family = tokenizer_family(t);
    if (!family)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s/tokenizer.json: pre_tokenizer: GGUF has no name for its %zu steps (the "
                       "first pattern is \"%.60s\")",
                       checkpoint_dir(c), t->pretok.n,
                       t->pretok.n && t->pretok.v[0].pattern ? t->pretok.v[0].pattern : "");
    warn_losses(t, c);
    int rc = checkpoint_add_text(out, "tokenizer.ggml.model", "gpt2", 4, e);
    if (rc == 0) rc = checkpoint_add_text(out, "tokenizer.ggml.pre", family, strlen(family), e);
    return rc ? rc : put_merges(out, t, e);
}

/* Return true for a run of one character. */
static bool is_run(const struct piece *p)
{
    size_t n = 1;
    while (n < p->n_text && (p->text[n] & 0xC0) == 0x80) n++;
    return p->n_text % n == 0 && memcmp(p->text, p->text + n, p->n_text - n) == 0;
}

/* Set score[id] of each piece that merges make: minus the rank of its first merge. SentencePiece
 * has one score per piece, so a later merge that makes the same piece gets the same rank. Such
 * merges are of runs of one character, whose order has no effect; the caller compares the ids of
 * texts. */
static int merge_scores(float *score, struct tokenizer *t, const char *path, struct err *e)
{
    struct buf text = {0};
    int32_t last = -1;
    int rc = tokenizer_index(t) ? 0 : err_memory(e, "the map of pieces", t->n_piece);
    for (size_t i = 0; i < t->merge.n && rc == 0; i++) {
        const struct merge_text *m = &t->merge.v[i];
        buf_clear(&text);
        buf_add(&text, m->left, m->n_left);
        buf_add(&text, m->right, m->n_right);
        if (text.failed) {
            rc = err_memory(e, "merges", t->merge.n);
            break;
        }
        const uint32_t *id = strmap_get(&t->find, text.data, text.n);
        if (!id || (int32_t)*id == last) continue;
        last = (int32_t)*id;
        if (score[*id] != 1 && !is_run(&t->piece[*id]))
            rc = err_set(e, ERR_UNSUPPORTED,
                         "%s: model.merges[%zu]: the merges that make \"%.40s\" must be "
                         "consecutive, because GGUF has one score per token",
                         path, i, t->piece[*id].text);
        if (score[*id] == 1) score[*id] = -(float)i;
    }
    buf_deinit(&text);
    return rc;
}

/* Add the scores. Pieces that no merge makes are never the result of one, so they have the lowest
 * score. */
static int put_scores(struct checkpoint *out, struct tokenizer *t, const char *path, size_t n,
                      struct err *e)
{
    const float lowest = -1e6f;
    const size_t n_all = n > t->n_piece ? n : t->n_piece;
    float *score = malloc((n_all + 1) * sizeof *score);
    int rc = score ? 0 : err_memory(e, "scores", n_all * sizeof *score);
    for (size_t i = 0; i < n_all && rc == 0; i++) score[i] = 1; /* not set */
    if (rc == 0) rc = merge_scores(score, t, path, e);
    for (size_t i = 0; i < n_all && rc == 0; i++)
        if (score[i] == 1) score[i] = lowest;
    if (rc == 0) rc = checkpoint_add_floats(out, "tokenizer.ggml.scores", score, n, e);
    free(score);
    return rc;
}

static bool is_text(const char *p, size_t n, const char *text)
{
    return p && n == strlen(text) && memcmp(p, text, n) == 0;
}

/* Return true if the steps before the model are SentencePiece's: spaces become "▁", possibly with
 * one before the text (*prefix). Gemma's file splits after spaces, which are none by then. */
static bool is_sentencepiece(const struct tokenizer *t, bool *prefix)
{
    const struct norm_step *s = t->norm.v;
    *prefix = t->norm.n == 2 && s->run == norm_prepend && is_text(s->a, s->n_a, SPACE_MARK);
    if (t->norm.n != 1 + (size_t)*prefix) return false;
    s += *prefix;
    if (s->run != norm_replace || !is_text(s->a, s->n_a, " ") || !is_text(s->b, s->n_b, SPACE_MARK))
        return false;
    return t->pretok.n == 0 ||
           (t->pretok.n == 1 && t->pretok.v[0].kind == PRETOK_SPLIT && !t->pretok.v[0].invert &&
            (strcmp(t->pretok.v[0].pattern, " ") == 0 ||
             strcmp(t->pretok.v[0].pattern, "\\ ") == 0));
}

static int put_spm(struct checkpoint *out, struct tokenizer *t, const struct checkpoint *c,
                   const char *path, size_t n, struct err *e)
{
    bool prefix;
    if (!is_sentencepiece(t, &prefix) || t->opt.ignore_merges || t->opt.drop_lead_space != prefix)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: normalizer and pre_tokenizer: must replace spaces as SentencePiece "
                       "does; GGUF has no keys for other steps",
                       path);
    warn_losses(t, c);
    int rc = checkpoint_add_text(out, "tokenizer.ggml.model", "llama", 5, e);
    if (rc == 0) rc = checkpoint_add_text(out, "tokenizer.ggml.pre", "default", 7, e);
    if (rc == 0) rc = checkpoint_add_bool(out, "tokenizer.ggml.add_space_prefix", prefix, e);
    return rc ? rc : put_scores(out, t, path, n, e);
}

int tokenizer_put_gguf(struct checkpoint *out, const struct checkpoint *c, int n_vocab,
                       struct err *e)
{
    char path[4096];
    const char *dir = checkpoint_dir(c);
    struct tokenizer *t = tokenizer_new();
    int rc = t ? 0 : err_memory(e, "the tokenizer", sizeof *t);
    if (rc == 0 && !path_join(path, sizeof path, dir, "tokenizer.json"))
        rc = err_set(e, ERR_ARG, "%s: cannot open: the path is too long", dir);
    if (rc == 0) rc = hf_json_read(t, path, e);
    if (rc == 0) rc = hf_config_read(t, dir, e);
    if (rc == 0 && t->kind != &token_kind_bpe && t->kind != &token_kind_spm)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: a tokenizer of the kind %s: conversion to GGUF is not supported yet; "
                     "only BPE is",
                     path, t->kind->name);
    if (rc == 0 && t->n_piece > (size_t)n_vocab)
        rc = err_set(e, ERR_FORMAT, "%s: must have at most %d tokens, got %zu", path, n_vocab,
                     t->n_piece);
    if (rc == 0)
        rc = t->kind == &token_kind_bpe ? put_bpe(out, t, c, e)
                                        : put_spm(out, t, c, path, (size_t)n_vocab, e);
    if (rc == 0) rc = put_pieces(out, t, (size_t)n_vocab, e);
    if (rc == 0) rc = put_ids(out, t, c, e);
    tokenizer_close(t);
    return rc;
}
