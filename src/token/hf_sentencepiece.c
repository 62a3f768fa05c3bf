/* hf_sentencepiece.c - SentencePiece models whose ids and steps transformers changes.
 *
 *   T5             model, <extra_id_99> ... <extra_id_0>             A </s>
 *   XLM-RoBERTa    <s> <pad> </s> <unk>, model from piece 3, <mask>  <s> A </s></s> B </s>
 *   CamemBERT      <s>NOTUSED <pad> </s>NOTUSED <unk> <unk>NOTUSED, model from piece 1, <mask>
 *
 * The steps are those of Hugging Face's tokenizers, not of SentencePiece: the model's charsmap,
 * then words at white space, each with a "▁" before it. */
#include "token_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

bool hf_sentencepiece_is_file(const char *path)
{
    return text_ends_with(path, "spiece.model") || text_ends_with(path, "sentencepiece.bpe.model");
}

/* Set the steps and the options of all three classes. */
static int set_steps(struct tokenizer *t, const struct hf_files *f, const struct charsmap *map,
                     struct err *e)
{
    const bool prefix =
        f->form == FORM_T5 || json_bool(json_field(f->config, "add_prefix_space"), true);
    struct norm_step *s = map ? tokenizer_add_norm(t, norm_find("Precompiled")) : NULL;
    if (map && !s) return err_memory(e, "a normalizer", sizeof *s);
    if (map) s->charsmap = map;
    int rc = tokenizer_add_split(t, "\\s", 2, SPLIT_REMOVED, e);
    struct pretok_step *word = rc == 0 ? tokenizer_add_pretok(t, PRETOK_METASPACE) : NULL;
    if (!word) return rc ? rc : err_memory(e, "a pre-tokenizer step", sizeof *word);
    word->always = prefix;
    word->cut = true;
    t->kind = &token_kind_unigram;
    t->opt = (struct token_options){.space_mark = true,
                                    .fuse_unk = true,
                                    .match_all = true,
                                    .drop_mark_only = true,
                                    .drop_lead_space = prefix};
    return 0;
}

/* Make user-defined pieces added tokens. */
static void match_user_pieces(struct tokenizer *t)
{
    for (size_t id = 0; id < t->n_piece; id++)
        if (t->piece[id].kind == PIECE_USER) t->piece[id].match = MATCH_RAW;
}

/* Append a special token. named: the token in a file, which sets its flags later; NULL if none. */
static int put_special(struct tokenizer *t, const struct json *named, const char *fallback,
                       double score, struct err *e)
{
    const char *text = named ? hf_token_text(named) : NULL;
    const size_t id = t->n_piece;
    if (!text) text = fallback;
    const int rc = tokenizer_put(t, id, text, strlen(text), PIECE_CONTROL, score, e);
    if (rc == 0 && !named) t->piece[id].match = MATCH_RAW;
    return rc;
}

/* Append the sentinels of T5, and add </s> after each text. */
static int set_t5(struct tokenizer *t, const struct hf_files *f, int32_t unk, struct err *e)
{
    const int64_t n_extra = json_int(json_field(f->config, "extra_ids"), 100);
    int rc = n_extra >= 0
                 ? 0
                 : err_set(e, ERR_FORMAT,
                           "tokenizer_config.json: extra_ids: must be at least 0, got %lld",
                           (long long)n_extra);
    for (int64_t i = n_extra; rc == 0 && i-- > 0;) {
        char text[40];
        snprintf(text, sizeof text, "<extra_id_%lld>", (long long)i);
        rc = put_special(t, NULL, text, 0, e);
    }
    t->unk = unk;
    hf_named_mark(t, f, "unk_token", "<unk>");
    hf_named_mark(t, f, "pad_token", "<pad>");
    t->eos = hf_named_mark(t, f, "eos_token", "</s>");
    hf_affix_add(t, false, t->eos);
    hf_between_add(t, t->eos);
    return rc;
}

/* Put n special tokens before the model's pieces from number `from` on, and the mask token after
 * them. Each text has a key, which may name another token, or NULL before it. */
static int put_around(struct tokenizer *t, const struct hf_files *f, size_t from,
                      const char *const special[][2], size_t n, struct err *e)
{
    struct piece *was = t->piece;
    const size_t n_was = t->n_piece;
    int rc = 0;
    if (n_was < 3)
        return err_set(e, ERR_FORMAT, "the model must have at least 3 pieces, got %zu", n_was);
    t->piece = NULL;
    t->n_piece = t->piece_cap = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct json *named = special[i][0] ? hf_files_field(f, special[i][0]) : NULL;
        rc = put_special(t, named, special[i][1], i == 4 ? -100 : 0, e);
    }
    for (size_t i = from; i < n_was && rc == 0; i++) {
        const size_t id = t->n_piece;
        rc = tokenizer_put(t, id, was[i].text, was[i].n_text, (enum piece_kind)was[i].kind,
                           was[i].score, e);
        if (rc == 0) t->piece[id].match = was[i].match;
    }
    if (rc == 0) rc = put_special(t, hf_files_field(f, "mask_token"), "<mask>", 0, e);
    free(was);
    return rc;
}

/* Set the ids of XLM-RoBERTa and CamemBERT. */
static int set_roberta(struct tokenizer *t, const struct hf_files *f, struct err *e)
{
    static const char *const xlm[][2] = {{"bos_token", "<s>"},
                                         {"pad_token", "<pad>"},
                                         {"eos_token", "</s>"},
                                         {"unk_token", "<unk>"}},
                             *const camembert[][2] = {{NULL, "<s>NOTUSED"},
                                                      {"pad_token", "<pad>"},
                                                      {NULL, "</s>NOTUSED"},
                                                      {"unk_token", "<unk>"},
                                                      {NULL, "<unk>NOTUSED"}};
    const int rc = f->form == FORM_CAMEMBERT ? put_around(t, f, 1, camembert, 5, e)
                                             : put_around(t, f, 3, xlm, 4, e);
    if (rc != 0) return rc;
    t->unk = 3;
    t->bos = hf_named_mark(t, f, "bos_token", "<s>");
    t->eos = hf_named_mark(t, f, "eos_token", "</s>");
    hf_affix_add(t, true, t->bos);
    hf_affix_add(t, false, t->eos);
    for (int i = 0; i < 2; i++) hf_between_add(t, t->eos);
    return 0;
}

/* Apply the class of the folder of a model. */
static int apply(struct tokenizer *t, const struct hf_files *f, const char *path, int32_t unk,
                 const struct charsmap *map, bool *done, struct err *e)
{
    const char *class = json_text(json_field(f->config, "tokenizer_class"), NULL);
    const bool roberta = f->form == FORM_XLM_ROBERTA || f->form == FORM_CAMEMBERT;
    *done = f->form == FORM_T5 || roberta;
    if (!*done && text_ends_with(path, "sentencepiece.bpe.model"))
        return err_set(e, ERR_UNSUPPORTED,
                       "the ids of tokenizer_class \"%.60s\": not supported yet without "
                       "tokenizer.json",
                       class ? class : "");
    if (!*done) return 0;
    match_user_pieces(t);
    const int rc = roberta ? set_roberta(t, f, e) : set_t5(t, f, unk, e);
    return rc == 0 ? set_steps(t, f, map, e) : rc;
}

int hf_sentencepiece_apply(struct tokenizer *t, const char *path, int32_t unk,
                           const struct charsmap *map, bool *done, struct err *e)
{
    struct hf_files f;
    *done = false;
    int rc = hf_files_open_of(&f, path, e);
    if (rc != 0) return rc;
    rc = apply(t, &f, path, unk, map, done, e);
    hf_files_close(&f);
    return rc != 0 ? err_prefix(e, rc, "%s", path) : 0;
}
