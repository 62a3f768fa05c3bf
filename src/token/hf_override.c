/* hf_override.c - values of tokenizer_config.json that contradict the tokenizer.json of the folder.
 *
 *   applied, as in transformers 4 and 5    lower case, accents and Chinese characters of BERT's
 *                                          classes; add_prefix_space of GPT-2's and RoBERTa's
 *                                          classes and of LlamaTokenizer; split_special_tokens
 *   a warning with the key                 named tokens other than those that tokenizer.json adds
 *
 * A class without a form (classes.def), such as PreTrainedTokenizerFast, uses tokenizer.json
 * unchanged. */
#include "token_impl.h"

#include "base/log.h"

#include <string.h>

/* Set the flags of BERT's normalizer. Other normalizers have no such flags. */
static void set_bert_flags(struct tokenizer *t, const struct hf_files *f)
{
    if (f->form != FORM_BERT && f->form != FORM_MPNET) return;
    if (t->norm.n != 1 || t->norm.v[0].run != norm_bert) return;
    t->norm.v[0].flags = (t->norm.v[0].flags & BERT_CLEAN) | hf_bert_flags(f);
}

/* Return true if the pre-tokenizer is one pattern in the byte alphabet, with or without a blank
 * before a text. *at: the step of the blank, or the number of steps. */
static bool is_byte_level(const struct tokenizer *t, size_t *at)
{
    size_t n_split = 0, n_space = 0;
    *at = t->pretok.n;
    for (size_t i = 0; i < t->pretok.n; i++) {
        n_split += t->pretok.v[i].kind == PRETOK_SPLIT;
        n_space += t->pretok.v[i].kind == PRETOK_SPACE;
        if (t->pretok.v[i].kind == PRETOK_SPACE) *at = i;
    }
    return t->opt.byte_level && n_split == 1 && n_space <= 1 && n_split + n_space == t->pretok.n;
}

/* Put a blank before each text, or remove this step. Qwen2's ByteLevel is behind its split. Return
 * false if memory is exhausted. */
static bool set_byte_prefix(struct tokenizer *t, const struct hf_files *f)
{
    const bool want = json_bool(json_field(f->config, "add_prefix_space"), false);
    size_t at;
    if (f->form != FORM_GPT2 && f->form != FORM_QWEN2 && f->form != FORM_ROBERTA) return true;
    if (!is_byte_level(t, &at) || want == (at < t->pretok.n)) return true;
    struct pretok_step *v = t->pretok.v;
    if (!want) {
        memmove(v + at, v + at + 1, (--t->pretok.n - at) * sizeof *v);
        return true;
    }
    if (!tokenizer_add_pretok(t, PRETOK_SPACE)) return false;
    if (f->form == FORM_QWEN2) return true;
    v = t->pretok.v;
    const struct pretok_step space = v[t->pretok.n - 1];
    memmove(v + 1, v, (t->pretok.n - 1) * sizeof *v);
    v[0] = space;
    return true;
}

/* Remove the "▁" that LlamaTokenizer puts before a text, if add_prefix_space is false. */
static void drop_mark(struct tokenizer *t, const struct hf_files *f)
{
    if (f->form != FORM_LLAMA || t->opt.byte_level) return;
    if (json_bool(json_field(f->config, "add_prefix_space"), true)) return;
    for (size_t i = 0; i < t->norm.n; i++)
        if (t->norm.v[i].run == norm_prepend) t->norm.v[i].n_a = 0;
    for (size_t i = 0; i < t->pretok.n; i++) t->pretok.v[i].always = t->pretok.v[i].first = false;
    t->opt.drop_lead_space = false;
}

/* Let no special token match in texts. */
static void split_special(struct tokenizer *t, const struct hf_files *f, const char *dir)
{
    if (!json_bool(json_field(f->config, "split_special_tokens"), false)) return;
    log_warn("%s/tokenizer_config.json: split_special_tokens: special tokens in texts, also in "
             "those of the chat template, are not converted to their ids",
             dir);
    for (size_t id = 0; id < t->n_piece; id++)
        if (t->piece[id].special) t->piece[id].match = 0;
}

/* Warn if a key names a token, but tokenizer.json uses another token `id` for its purpose. */
static void compare_named(const struct tokenizer *t, const struct hf_files *f, const char *dir,
                          const char *key, int32_t id)
{
    const char *text = hf_files_token(f, key, NULL);
    const int32_t named = text ? tokenizer_scan(t, text) : -1;
    if (named < 0 || named == id || id < 0 || (size_t)id >= t->n_piece) return;
    log_warn("%s/%s: %s: \"%.60s\" has no effect; tokenizer.json has \"%.60s\"", dir,
             json_field(f->named, key) ? "special_tokens_map.json" : "tokenizer_config.json", key,
             text, t->piece[id].text);
}

/* Compare the tokens that BERT's and RoBERTa's classes add with those that tokenizer.json adds. */
static void compare_tokens(const struct tokenizer *t, const struct hf_files *f, const char *dir)
{
    const bool adds = f->form == FORM_BERT || f->form == FORM_MPNET || f->form == FORM_ROBERTA;
    if (adds && t->n_prefix == 1) compare_named(t, f, dir, "cls_token", t->prefix[0]);
    if (adds && t->n_suffix == 1) compare_named(t, f, dir, "sep_token", t->suffix[0]);
    if (t->kind == &token_kind_wordpiece) compare_named(t, f, dir, "unk_token", t->unk);
}

/* Warn if the class has another kind of model than tokenizer.json. Its steps have no effect. */
static void compare_kind(const struct tokenizer *t, const struct hf_files *f, const char *dir)
{
    static const struct token_kind *const kind[] = {[FORM_BERT] = &token_kind_wordpiece,
                                                    [FORM_MPNET] = &token_kind_wordpiece,
                                                    [FORM_GPT2] = &token_kind_bpe,
                                                    [FORM_QWEN2] = &token_kind_bpe,
                                                    [FORM_ROBERTA] = &token_kind_bpe,
                                                    [FORM_T5] = &token_kind_unigram,
                                                    [FORM_XLM_ROBERTA] = &token_kind_unigram,
                                                    [FORM_CAMEMBERT] = &token_kind_unigram,
                                                    [FORM_LLAMA] = NULL};
    const char *class = json_text(json_field(f->config, "tokenizer_class"), NULL);
    if (class && kind[f->form] && kind[f->form] != t->kind)
        log_warn("%s/tokenizer_config.json: tokenizer_class: \"%.60s\" has no effect; the model of "
                 "tokenizer.json is of kind %s",
                 dir, class, t->kind->name);
}

int hf_override(struct tokenizer *t, const struct hf_files *f, const char *dir, struct err *e)
{
    split_special(t, f, dir);
    if (!t->from_json) return 0;
    set_bert_flags(t, f);
    drop_mark(t, f);
    compare_tokens(t, f, dir);
    compare_kind(t, f, dir);
    return set_byte_prefix(t, f) ? 0 : err_memory(e, "a pre-tokenizer step", 1);
}
