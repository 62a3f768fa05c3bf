/* hf_settings.c - the settings of a folder's configuration files: tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json and generation_config.json.
 *
 * The files change a tokenizer that a reader has filled: added tokens and their flags, named
 * tokens, BOS and EOS, the ends of texts. The rules are those of transformers. */
#include "token_impl.h"

#include "base/log.h"

#include <string.h>

/* Return the id of the token that a key names; -1 if no file names the token. */
static int32_t token_field(const struct tokenizer *t, const struct hf_files *f, const char *key)
{
    const char *text = hf_files_token(f, key, NULL);
    return text ? tokenizer_scan(t, text) : -1;
}

/* Return true if add_bos_token overrides the ids that the reader set. Only the classes in this list
 * override the post-processor of a tokenizer.json. All other classes, such as
 * PreTrainedTokenizerFast, use the file unchanged. Without a tokenizer.json, the classes whose
 * reader set the ids ignore the key. */
static bool class_adds(const struct tokenizer *t, const struct hf_files *f)
{
    static const char *const classes[] = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer",
                                          "CohereTokenizer", "GPTNeoXTokenizer"};
    const char *name = json_text(json_field(f->config, "tokenizer_class"), NULL);
    if (!t->from_json)
        return f->form == FORM_NONE || f->form == FORM_GPT2 || f->form == FORM_QWEN2 ||
               f->form == FORM_LLAMA;
    return !name || hf_is_class(name, classes, sizeof classes / sizeof *classes);
}

/* Override the post-processor by class and configuration: add a first BOS, or add no BOS. */
static void settle_bos(struct tokenizer *t, const struct json *config)
{
    const struct json *add = json_field(config, "add_bos_token");
    if (json_kind(add) != JK_BOOL || t->bos < 0) return;
    bool has_bos = t->n_prefix > 0 && t->prefix[0] == t->bos;
    if (json_bool(add, false) == has_bos) return;
    if (has_bos) {
        memmove(t->prefix, t->prefix + 1, (size_t)--t->n_prefix * sizeof t->prefix[0]);
    } else if (t->n_prefix < AFFIX_MAX) {
        memmove(t->prefix + 1, t->prefix, (size_t)t->n_prefix++ * sizeof t->prefix[0]);
        t->prefix[0] = t->bos;
    }
}

/* Append EOS if add_eos_token is set and the post-processor does not append EOS. */
static void settle_eos(struct tokenizer *t, const struct json *config)
{
    if (t->eos < 0 || !json_bool(json_field(config, "add_eos_token"), false)) return;
    if (t->n_suffix == 0 || t->suffix[t->n_suffix - 1] != t->eos) hf_affix_add(t, false, t->eos);
}

/* Make a piece of the vocabulary a special token. v: the token in a configuration file, with its
 * flags if it is an object. */
static void mark_token(struct tokenizer *t, int32_t id, const struct json *v)
{
    struct piece *p = &t->piece[id];
    if (!p->match) p->listed = p->kind == PIECE_NORMAL;
    if (p->kind != PIECE_UNKNOWN) p->kind = PIECE_CONTROL;
    p->special = true;
    p->match = (uint8_t)(MATCH_RAW | hf_match_flags(v));
}

/* Mark a token if the vocabulary has it, and no file gives it other flags. transformers gives other
 * tokens new ids, for which the model has no rows. */
static void mark_text(struct tokenizer *t, const struct hf_files *f, const struct json *v)
{
    const char *text = hf_token_text(v);
    const uint32_t *id = text ? strmap_get(&t->find, text, strlen(text)) : NULL;
    if (id && (!t->piece[*id].match || json_field(f->added, text))) mark_token(t, (int32_t)*id, v);
}

/* Mark the named tokens and the further special tokens of the configuration as special. Return
 * false if memory is exhausted. */
static bool mark_named(struct tokenizer *t, const struct hf_files *f)
{
    static const char *const name[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
    const struct json *extra = hf_files_field(f, "extra_special_tokens");
    if (t->kind == &token_kind_longest) return true;
    if (!tokenizer_index(t)) return false;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        mark_text(t, f, hf_files_field(f, name[i]));
    if (json_count(extra) == 0) extra = hf_files_field(f, "additional_special_tokens");
    for (void *it = json_first(extra); it; it = json_next(extra, it))
        mark_text(t, f, json_it_value(it));
    for (size_t i = 0; json_kind(extra) == JK_LIST && i < json_count(extra); i++)
        mark_text(t, f, json_item(extra, i));
    return true;
}

/* Apply the names of the model's inputs to the segments of pairs. transformers computes segments
 * only if model_input_names has token_type_ids. Its default depends on the class; the classes of
 * this list, and the default class of BERT, have token_type_ids. */
static void settle_segments(struct tokenizer *t, const struct json *config)
{
    static const char *const classes[] = {
        "BertTokenizer",      "BertJapaneseTokenizer", "ElectraTokenizer",   "DebertaTokenizer",
        "DebertaV2Tokenizer", "FNetTokenizer",         "MarkupLMTokenizer",  "CanineTokenizer",
        "LayoutLMTokenizer",  "MobileBertTokenizer",   "ConvBertTokenizer",  "FunnelTokenizer",
        "LxmertTokenizer",    "SqueezeBertTokenizer",  "RetriBertTokenizer", "RoFormerTokenizer",
        "NomicBertTokenizer"};
    const struct json *names = json_field(config, "model_input_names");
    const char *class = json_text(json_field(config, "tokenizer_class"), NULL);
    bool has = !class || hf_is_class(class, classes, sizeof classes / sizeof classes[0]);
    if (json_kind(names) == JK_LIST) has = false;
    for (size_t i = 0; json_kind(names) == JK_LIST && i < json_count(names); i++) {
        const char *name = json_text(json_item(names, i), NULL);
        has |= name && strcmp(name, "token_type_ids") == 0;
    }
    if (!has) t->pair_segments = false;
}

/* Set the flags of an added token of tokenizer.json to those of added_tokens_decoder, as
 * transformers does. Warn if tokenizer.json has another token with the id. */
static void compare_added(struct tokenizer *t, int64_t id, const struct json *j, const char *dir)
{
    struct piece *p = id >= 0 && (uint64_t)id < t->n_piece ? &t->piece[id] : NULL;
    size_t n;
    const char *text = json_text(json_field(j, "content"), &n);
    if (!t->from_json || !p || !text || p->n_text == 0) return;
    if (p->n_text != n || memcmp(p->text, text, n) != 0) {
        log_warn("%s/tokenizer_config.json: added_tokens_decoder: %lld is \"%.60s\", but "
                 "tokenizer.json has \"%.60s\"",
                 dir, (long long)id, text, p->text);
    } else if (p->match) {
        p->match = (uint8_t)hf_token_match(t, j);
        if (json_bool(json_field(j, "special"), false)) p->kind = PIECE_CONTROL, p->special = true;
    }
}

/* Add the tokens of added_tokens_decoder that no other file contains. Its keys are ids as texts,
 * such as "32000". */
static int read_decoder_tokens(struct tokenizer *t, const struct json *added, const char *dir,
                               struct err *e)
{
    for (void *it = json_first(added); it; it = json_next(added, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        int64_t id = 0;
        for (size_t i = 0; i < n && id >= 0 && id < PIECES_MAX; i++)
            id = key[i] >= '0' && key[i] <= '9' ? id * 10 + key[i] - '0' : -1;
        bool known = id >= 0 && (uint64_t)id < t->n_piece && t->piece[id].match;
        if (t->kind == &token_kind_longest && id == 0) known = false; /* named by world.c */
        compare_added(t, id, json_it_value(it), dir);
        int rc = known || n == 0 ? 0 : hf_token_add(t, id, json_it_value(it), e);
        if (rc != 0) return rc;
    }
    return 0;
}

/* Add the tokens {"text": id} of added_tokens.json. They match in normalized text, unless another
 * key makes them special (mark_text). */
static int read_added_tokens(struct tokenizer *t, const struct json *added, const char *dir,
                             struct err *e)
{
    for (void *it = json_first(added); it; it = json_next(added, it)) {
        size_t n;
        const char *text = json_it_key(it, &n);
        const int64_t id = json_int(json_it_value(it), -1);
        int rc = hf_token_check(t, id, text, n, e);
        if (rc != 0 && t->from_json) {
            log_warn("%s/added_tokens.json: %s; tokenizer.json has precedence", dir, e->text);
            continue;
        }
        const bool known = rc == 0 && (uint64_t)id < t->n_piece && t->piece[id].match;
        if (rc == 0 && !known)
            rc = hf_token_put(t, id, text, n, PIECE_USER, t->norm.n ? MATCH_NORMALIZED : MATCH_RAW,
                              e);
        if (rc != 0) return rc;
    }
    return 0;
}

/* Read the settings of the configuration files. Named tokens may be added tokens. */
static int read_config(struct tokenizer *t, const struct hf_files *f, const char *dir,
                       struct err *e)
{
    int rc = read_decoder_tokens(t, json_field(f->config, "added_tokens_decoder"), dir, e);
    if (rc == 0 && !mark_named(t, f)) rc = err_memory(e, "an index of tokens", t->n_piece);
    if (rc != 0) return rc;
    int32_t id;
    if ((id = token_field(t, f, "bos_token")) >= 0) t->bos = id;
    if ((id = token_field(t, f, "eos_token")) >= 0) t->eos = id;
    tokenizer_mark_end(t, id, END_TOKENIZER);
    if (t->unk < 0 && t->kind == &token_kind_wordpiece) t->unk = token_field(t, f, "unk_token");
    settle_segments(t, f->config);
    if (class_adds(t, f)) {
        settle_bos(t, f->config);
        settle_eos(t, f->config);
    }
    return 0;
}

/* Read generation_config.json. eos_token_id is an integer or a list; all its ids end a generation.
 * The first id is EOS if no other file gives an EOS. */
static void read_generation(struct tokenizer *t, const struct json *config)
{
    const struct json *eos = json_field(config, "eos_token_id");
    for (size_t i = 0; i < json_count(eos); i++)
        tokenizer_mark_end(t, json_int(json_item(eos, i), -1), END_GENERATION);
    tokenizer_mark_end(t, json_int(eos, -1), END_GENERATION);
    int64_t bos = json_int(json_field(config, "bos_token_id"), -1),
            first = json_int(json_item(eos, 0), -1);
    if (first < 0) first = json_int(eos, -1);
    if (t->bos < 0 && bos >= 0 && bos < PIECES_MAX) t->bos = (int32_t)bos;
    if (t->eos < 0 && first >= 0 && first < PIECES_MAX) t->eos = (int32_t)first;
}

/* Derive BOS and EOS from the ids that a tokenizer.json without a configuration adds. Ignore CLS
 * and SEP. */
static void guess_ends(struct tokenizer *t)
{
    if (t->kind == &token_kind_wordpiece) return;
    if (t->bos < 0 && t->n_prefix == 1) t->bos = t->prefix[0];
    if (t->eos < 0 && t->n_suffix == 1) t->eos = t->suffix[0];
}

int hf_token_id(const struct tokenizer *t, const char *dir, const char *name, int32_t *id,
                struct err *e)
{
    struct hf_files f = {0};
    char own[4096];
    bool modules;
    int rc = sentence_folder(own, &modules, dir, e);
    if (rc == 0) rc = hf_files_open(&f, own, e);
    *id = rc == 0 ? token_field(t, &f, name) : -1;
    hf_files_close(&f);
    return rc;
}

/* Lower the case of texts first if sentence-transformers' older configuration requires it and no
 * step of the tokenizer does. */
static int read_lower_case(struct tokenizer *t, const char *dir, struct err *e)
{
    struct json *config = NULL;
    bool lower = false;
    norm_fn *const lowercase = norm_find("Lowercase");
    int rc = 0;
    for (size_t i = 0; rc == 0 && sentence_file(i) && json_count(config) == 0; i++) {
        json_drop(config);
        rc = hf_file_read(&config, dir, sentence_file(i), e);
    }
    if (rc == 0) lower = json_bool(json_field(config, "do_lower_case"), false);
    json_drop(config);
    for (size_t i = 0; i < t->norm.n && lower; i++)
        if (t->norm.v[i].run == lowercase ||
            (t->norm.v[i].run == norm_bert && t->norm.v[i].flags & BERT_LOWER))
            lower = false;
    if (rc != 0 || !lower) return rc;
    if (!tokenizer_add_norm(t, lowercase)) return err_memory(e, "a normalizer", 1);
    const struct norm_step last = t->norm.v[t->norm.n - 1];
    memmove(t->norm.v + 1, t->norm.v, (t->norm.n - 1) * sizeof last);
    t->norm.v[0] = last;
    t->lowers = true;
    return 0;
}

int hf_config_read(struct tokenizer *t, const char *dir, bool modules, struct err *e)
{
    struct hf_files f;
    struct json *generation = NULL;
    int rc = hf_files_open(&f, dir, e);
    if (rc == 0) rc = hf_file_read(&generation, dir, "generation_config.json", e);
    if (rc == 0 && (rc = read_added_tokens(t, f.added, dir, e)) != 0)
        err_prefix(e, rc, "%s/added_tokens.json", dir);
    if (rc == 0 && (f.config || f.named || f.added) && (rc = read_config(t, &f, dir, e)) != 0)
        err_prefix(e, rc, "%s/tokenizer_config.json", dir);
    if (rc == 0) rc = hf_override(t, &f, dir, e);
    if (rc == 0) {
        read_generation(t, generation);
        guess_ends(t);
        if (modules) rc = read_lower_case(t, dir, e);
    }
    hf_files_close(&f);
    json_drop(generation);
    return rc;
}
