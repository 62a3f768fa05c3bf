/* gguf_vocab_put.c - a Hugging Face folder's tokenizer -> tokenizer.ggml.*, the inverse of
 * gguf_vocab.c.
 *
 *   tokenizer.json   kind bpe over GPT-2's alphabet: model "gpt2", with the family of pretok.def
 *                    that has the same steps (tokenizer_family)
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
            l.text[id] = p->text, l.len[id] = p->n_text, l.type[id] = p->kind;
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
    if (t->norm.n > 0)
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
                       "first pattern is \"%.60s\"); convert to a folder, or use the folder itself",
                       checkpoint_dir(c), t->pretok.n,
                       t->pretok.n && t->pretok.v[0].pattern ? t->pretok.v[0].pattern : "");
    warn_losses(t, c);
    int rc = checkpoint_add_text(out, "tokenizer.ggml.model", "gpt2", 4, e);
    if (rc == 0) rc = checkpoint_add_text(out, "tokenizer.ggml.pre", family, strlen(family), e);
    return rc ? rc : put_merges(out, t, e);
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
    if (rc == 0 && t->kind != &token_kind_bpe)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: a tokenizer of the kind %s: conversion to GGUF is not supported yet; "
                     "only byte-level BPE is",
                     path, t->kind->name);
    if (rc == 0 && t->n_piece > (size_t)n_vocab)
        rc = err_set(e, ERR_FORMAT, "%s: must have at most %d tokens, got %zu", path, n_vocab,
                     t->n_piece);
    if (rc == 0) rc = put_bpe(out, t, c, e);
    if (rc == 0) rc = put_pieces(out, t, (size_t)n_vocab, e);
    if (rc == 0) rc = put_ids(out, t, c, e);
    tokenizer_close(t);
    return rc;
}
