/* hf_json.c - Hugging Face's tokenizer.json, with tokenizer_config.json and generation_config.json
 * of the same folder.
 *
 * The file contains a model (BPE, Unigram, WordPiece) and steps before and after it (hf_steps.c).
 * BPE over GPT-2's alphabet is kind bpe. BPE over characters, as converted from SentencePiece, is
 * kind spm. */
#include "token_impl.h"

#include <stdio.h>
#include <string.h>

enum { JSON_BYTES_MAX = 256 << 20, CONFIG_BYTES_MAX = 64 << 20 };

/* ---- vocabularies ---- */

/* Read {"piece": id, ...}. */
static int read_vocab_object(struct tokenizer *t, const struct json *vocab, struct err *e)
{
    if (json_kind(vocab) != JK_OBJECT || json_count(vocab) == 0)
        return err_set(e, ERR_FORMAT, "model.vocab: expected an object with pieces, got %s",
                       json_kind_name(json_kind(vocab)));
    for (void *it = json_first(vocab); it; it = json_next(vocab, it)) {
        char value[80];
        size_t n;
        const char *text = json_it_key(it, &n);
        int64_t id = json_int(json_it_value(it), -1);
        if (id < 0)
            return err_set(e, ERR_FORMAT,
                           "model.vocab: the id of \"%.40s\": must be at least 0, got %s", text,
                           json_value_text(json_it_value(it), value));
        int rc = tokenizer_put(t, (size_t)id, text, n, PIECE_NORMAL, 0, e);
        if (rc != 0) return rc;
    }
    return 0;
}

/* Read [["piece", score], ...]. */
static int read_vocab_list(struct tokenizer *t, const struct json *vocab, struct err *e)
{
    if (json_kind(vocab) != JK_LIST || json_count(vocab) == 0)
        return err_set(e, ERR_FORMAT, "model.vocab: expected a list of pieces, got %s",
                       json_kind_name(json_kind(vocab)));
    for (size_t id = 0; id < json_count(vocab); id++) {
        char value[80];
        const struct json *pair = json_item(vocab, id);
        size_t n;
        const char *text = json_text(json_item(pair, 0), &n);
        if (!text)
            return err_set(e, ERR_FORMAT, "model.vocab[%zu]: expected [piece, score], got %s", id,
                           json_value_text(pair, value));
        int rc = tokenizer_put(t, id, text, n, PIECE_NORMAL, json_real(json_item(pair, 1), 0), e);
        if (rc != 0) return rc;
    }
    return 0;
}

/* Return true for a line of two pieces: at least one space, at most two words. The pieces of
 * Llama 2 may consist of spaces. */
static bool is_merge(const char *line, size_t n)
{
    int n_word = 0;
    for (size_t i = 0; i < n; i++) n_word += line[i] != ' ' && (i == 0 || line[i - 1] == ' ');
    return memchr(line, ' ', n) && n_word <= 2;
}

/* Read a list of "left right" or ["left", "right"]. */
static int read_merges(struct tokenizer *t, const struct json *list, struct err *e)
{
    char kind[80];
    const bool empty = json_kind(list) == JK_OBJECT && json_count(list) == 0; /* of one converter */
    if (json_kind(list) != JK_LIST && !empty)
        return err_set(e, ERR_FORMAT, "model.merges: expected a list, got %s",
                       json_value_text(list, kind));
    for (size_t i = 0; i < json_count(list); i++) {
        char value[80];
        const struct json *j = json_item(list, i);
        size_t n, n_right;
        const char *line = json_text(j, &n);
        const char *left = json_text(json_item(j, 0), &n),
                   *right = json_text(json_item(j, 1), &n_right);
        if (!line && !(left && right))
            return err_set(e, ERR_FORMAT, "model.merges[%zu]: expected a pair of pieces, got %s", i,
                           json_value_text(j, value));
        if (line) json_text(j, &n);
        if (line && !is_merge(line, n))
            return err_set(e, ERR_FORMAT, "model.merges[%zu]: expected two pieces, got %s", i,
                           json_value_text(j, value));
        if (!(line ? tokenizer_put_merge_line(t, line, n)
                   : tokenizer_put_merge(t, left, n, right, n_right)))
            return err_memory(e, "merges", json_count(list));
    }
    return 0;
}

/* ---- models ---- */

/* Read a BPE model. byte_level selects the kind. The normalizer or the pre-tokenizer has set
 * byte_level before. */
static int read_bpe(struct tokenizer *t, const struct json *m, struct err *e)
{
    size_t n = 0, k = 0;
    json_text(json_field(m, "end_of_word_suffix"), &n);
    json_text(json_field(m, "continuing_subword_prefix"), &k);
    if (n || k)
        return err_set(
            e, ERR_UNSUPPORTED,
            "model BPE with end_of_word_suffix or continuing_subword_prefix: not supported yet");
    t->opt.byte_fallback = json_bool(json_field(m, "byte_fallback"), false);
    t->opt.fuse_unk = json_bool(json_field(m, "fuse_unk"), false);
    t->opt.ignore_merges = json_bool(json_field(m, "ignore_merges"), false);
    t->kind = t->opt.byte_level ? &token_kind_bpe : &token_kind_spm;
    int rc = read_vocab_object(t, json_field(m, "vocab"), e);
    if (rc == 0) rc = read_merges(t, json_field(m, "merges"), e);
    const char *unk = json_text(json_field(m, "unk_token"), NULL);
    if (rc == 0 && unk) t->unk = tokenizer_scan(t, unk);
    return rc;
}

/* Read a Unigram model. Scores are natural logarithms of probabilities. */
static int read_unigram(struct tokenizer *t, const struct json *m, struct err *e)
{
    t->opt.fuse_unk = t->opt.match_all = true;
    t->opt.byte_fallback = json_bool(json_field(m, "byte_fallback"), false);
    t->kind = &token_kind_unigram;
    int64_t unk = json_int(json_field(m, "unk_id"), -1);
    t->unk = unk >= 0 && unk < PIECES_MAX ? (int32_t)unk : -1;
    return read_vocab_list(t, json_field(m, "vocab"), e);
}

/* Read a WordPiece model. The defaults are those of WordPiece in Hugging Face's tokenizers. */
static int read_wordpiece(struct tokenizer *t, const struct json *m, struct err *e)
{
    size_t n = 0;
    const char *inner = json_text(json_field(m, "continuing_subword_prefix"), &n);
    const char *unk = json_text(json_field(m, "unk_token"), NULL);
    int64_t max = json_int(json_field(m, "max_input_chars_per_word"), 100);
    t->opt.inner_prefix = arena_text(&t->arena, inner ? inner : "##", inner ? n : 2);
    if (!t->opt.inner_prefix) return err_memory(e, "a prefix", n);
    t->opt.word_chars_max = max < 0 || max > 10000 ? 10000 : (int)max;
    t->opt.drop_lead_space = true;
    t->kind = &token_kind_wordpiece;
    int rc = read_vocab_object(t, json_field(m, "vocab"), e);
    if (rc == 0) t->unk = tokenizer_scan(t, unk ? unk : "[UNK]");
    return rc;
}

/* Read the model by its type. In old files without a type, fields that only one model has identify
 * the model. */
static int read_model(struct tokenizer *t, const struct json *m, struct err *e)
{
    const char *type = hf_type(m);
    char value[80];
    const struct json *named = json_field(m, "type");
    if (!hf_step_absent(named) && json_kind(named) != JK_TEXT)
        return err_set(e, ERR_FORMAT, "model.type: expected a string, got %s",
                       json_value_text(named, value));
    if (strcmp(type, "BPE") == 0 || (!*type && json_field(m, "merges"))) return read_bpe(t, m, e);
    if (strcmp(type, "Unigram") == 0 || (!*type && json_field(m, "unk_id")))
        return read_unigram(t, m, e);
    if (strcmp(type, "WordPiece") == 0 || (!*type && json_field(m, "max_input_chars_per_word")))
        return read_wordpiece(t, m, e);
    return err_set(e, ERR_UNSUPPORTED,
                   "model type \"%.40s\" not found; available: BPE, Unigram, WordPiece", type);
}

/* ---- added tokens ---- */

/* Return the flags that describe the text around an added token. */
static int match_flags(const struct json *j)
{
    return (json_bool(json_field(j, "lstrip"), false) ? MATCH_LSTRIP : 0) |
           (json_bool(json_field(j, "rstrip"), false) ? MATCH_RSTRIP : 0) |
           (json_bool(json_field(j, "single_word"), false) ? MATCH_WORD : 0);
}

/* Make a piece an added token with its rules of matching. `listed` is true if the vocabulary has
 * the same text at this id, because merging can then also produce the piece. */
static int add_token(struct tokenizer *t, int64_t id, const struct json *j, struct err *e)
{
    size_t n;
    const char *text = json_text(json_field(j, "content"), &n);
    if (!text || id < 0)
        return err_field(e, ERR_FORMAT, "added_tokens",
                         ": expected an id and content, got the id %lld and %s", (long long)id,
                         json_kind_name(json_kind(json_field(j, "content"))));
    bool special = json_bool(json_field(j, "special"), false);
    bool raw = !json_bool(json_field(j, "normalized"), false) || t->norm.n == 0;
    const struct piece *was = (uint64_t)id < t->n_piece ? &t->piece[id] : NULL;
    double score = was ? was->score : 0;
    bool listed = was && was->kind == PIECE_NORMAL && was->n_text == n && n > 0 &&
                  memcmp(was->text, text, n) == 0;
    int rc = tokenizer_put(t, (size_t)id, text, n, special ? PIECE_CONTROL : PIECE_USER, score, e);
    if (rc != 0) return rc;
    t->piece[id].listed = listed;
    t->piece[id].match = (uint8_t)((raw ? MATCH_RAW : MATCH_NORMALIZED) | match_flags(j));
    return 0;
}

/* Reject an added token whose id another text has. Hugging Face's tokenizers assign it a new id,
 * for which the model has no row or the row of another token. */
static int check_id(const struct tokenizer *t, int64_t id, const struct json *j, struct err *e)
{
    size_t n;
    const char *text = json_text(json_field(j, "content"), &n);
    const struct piece *p = id >= 0 && (uint64_t)id < t->n_piece ? &t->piece[id] : NULL;
    if (!p || !text || p->n_text == 0 || (p->n_text == n && memcmp(p->text, text, n) == 0))
        return 0;
    return err_field(e, ERR_FORMAT, "added_tokens",
                     ": the id %lld of \"%.40s\" is the id of \"%.40s\"", (long long)id, text,
                     p->text);
}

static int read_added(struct tokenizer *t, const struct json *list, struct err *e)
{
    int rc = 0;
    char value[80];
    if (!hf_step_absent(list) && json_kind(list) != JK_LIST)
        return err_field(e, ERR_FORMAT, "added_tokens", ": expected a list, got %s",
                         json_value_text(list, value));
    for (size_t i = 0; i < json_count(list) && rc == 0; i++) {
        const struct json *j = json_item(list, i);
        const int64_t id = json_int(json_field(j, "id"), -1);
        rc = check_id(t, id, j, e);
        if (rc == 0) rc = add_token(t, id, j, e);
    }
    return rc;
}

/* ---- post-processor ---- */

/* Append an id before or after each text. Ignore ids beyond AFFIX_MAX. */
static void add_affix(struct tokenizer *t, bool before, int64_t id)
{
    int *n = before ? &t->n_prefix : &t->n_suffix;
    if (id < 0 || id >= PIECES_MAX || *n >= AFFIX_MAX) return;
    (before ? t->prefix : t->suffix)[(*n)++] = (int32_t)id;
}

/* Append an id between the texts of a pair. */
static void add_between(struct tokenizer *t, int64_t id)
{
    if (id >= 0 && id < PIECES_MAX && t->n_between < AFFIX_MAX)
        t->between[t->n_between++] = (int32_t)id;
}

/* Read the ids between the two texts of "pair", and the segment of the second text. */
static void read_pair(struct tokenizer *t, const struct json *pair, const struct json *special)
{
    int n_text = 0;
    for (size_t i = 0; i < json_count(pair); i++) {
        const struct json *item = json_item(pair, i), *text = json_field(item, "Sequence");
        if (text && ++n_text == 2) t->pair_segments = json_int(json_field(text, "type_id"), 0) == 1;
        const char *name = json_text(json_field(json_field(item, "SpecialToken"), "id"), NULL);
        if (!name || n_text != 1) continue;
        const struct json *ids = json_field(json_field(special, name), "ids");
        for (size_t k = 0; k < json_count(ids); k++)
            add_between(t, json_int(json_item(ids, k), -1));
    }
}

/* Read a TemplateProcessing. The item Sequence of "single" separates the ids before the text from
 * the ids after the text. */
static void read_template(struct tokenizer *t, const struct json *j)
{
    const struct json *single = json_field(j, "single"), *special = json_field(j, "special_tokens");
    bool before = true;
    for (size_t i = 0; i < json_count(single); i++) {
        const struct json *item = json_item(single, i);
        if (json_field(item, "Sequence")) before = false;
        const char *name = json_text(json_field(json_field(item, "SpecialToken"), "id"), NULL);
        if (!name) continue;
        const struct json *ids = json_field(json_field(special, name), "ids");
        for (size_t k = 0; k < json_count(ids); k++)
            add_affix(t, before, json_int(json_item(ids, k), -1));
    }
    read_pair(t, json_field(j, "pair"), special);
}

/* Read the ids that the post-processor adds. Each type of post-processor has different fields. The
 * type Sequence contains several post-processors. */
static int read_post(struct tokenizer *t, const struct json *j, struct err *e)
{
    const char *type = hf_type(j);
    if (hf_step_absent(j)) return 0;
    int rc = hf_step_check(j, "post_processor", e);
    if (rc != 0) return rc;
    if (strcmp(type, "Sequence") == 0) {
        const struct json *list = json_field(j, "processors");
        for (size_t i = 0; i < json_count(list) && rc == 0; i++)
            rc = read_post(t, json_item(list, i), e);
    } else if (strcmp(type, "TemplateProcessing") == 0) {
        read_template(t, j);
    } else if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        add_affix(t, true, json_int(json_item(json_field(j, "cls"), 1), -1));
        const int64_t sep = json_int(json_item(json_field(j, "sep"), 1), -1);
        add_affix(t, false, sep);
        t->pair_segments = *type == 'B';
        for (int i = 0; i < (*type == 'B' ? 1 : 2); i++) add_between(t, sep);
    } else if (strcmp(type, "ByteLevel") != 0) { /* ByteLevel changes offsets only */
        rc = err_set(e, ERR_UNSUPPORTED, "post_processor \"%.60s\": not supported yet", type);
    }
    return rc;
}

/* ---- the configuration files ---- */

/* Return the id of "text" or {"content": "text"}; -1 if absent. */
static int32_t token_field(const struct tokenizer *t, const struct json *j, const char *key)
{
    const struct json *v = json_field(j, key);
    const char *text = json_text(json_kind(v) == JK_OBJECT ? json_field(v, "content") : v, NULL);
    return text ? tokenizer_scan(t, text) : -1;
}

/* Return true if add_bos_token overrides the post-processor of a tokenizer.json. Only the classes
 * in this list read the key. All other classes, such as PreTrainedTokenizerFast, use the file
 * unchanged. */
static bool class_adds(const struct tokenizer *t, const struct json *config)
{
    static const char *const classes[] = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer",
                                          "CohereTokenizer", "GPTNeoXTokenizer"};
    const char *name = json_text(json_field(config, "tokenizer_class"), NULL);
    if (!name || !t->from_json) return true;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        size_t n = strlen(classes[i]);
        if (strncmp(name, classes[i], n) == 0 && (!name[n] || strcmp(name + n, "Fast") == 0))
            return true;
    }
    return false;
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
    if (t->n_suffix == 0 || t->suffix[t->n_suffix - 1] != t->eos) add_affix(t, false, t->eos);
}

/* Mark the named tokens of the configuration as special, because vocab.json has no field for
 * special tokens. */
static void mark_named(struct tokenizer *t, const struct json *config)
{
    static const char *const name[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
    if (t->from_json || t->kind != &token_kind_bpe) return;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        const int32_t id = token_field(t, config, name[i]);
        const struct json *v = json_field(config, name[i]);
        if (id < 0 || t->piece[id].match) continue;
        t->piece[id].listed = t->piece[id].kind == PIECE_NORMAL;
        t->piece[id].kind = PIECE_CONTROL;
        t->piece[id].special = true;
        t->piece[id].match = (uint8_t)(MATCH_RAW | match_flags(v));
    }
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
    bool has = !class;
    for (size_t i = 0; class && i < sizeof classes / sizeof classes[0]; i++) {
        const size_t n = strlen(classes[i]);
        has |= strncmp(class, classes[i], n) == 0 && (!class[n] || strcmp(class + n, "Fast") == 0);
    }
    if (json_kind(names) == JK_LIST) has = false;
    for (size_t i = 0; json_kind(names) == JK_LIST && i < json_count(names); i++) {
        const char *name = json_text(json_item(names, i), NULL);
        has |= name && strcmp(name, "token_type_ids") == 0;
    }
    if (!has) t->pair_segments = false;
}

/* Read tokenizer_config.json. Entries of added_tokens_decoder are used only if tokenizer.json does
 * not contain them. The keys of added_tokens_decoder are ids as texts, such as "32000". */
static int read_config(struct tokenizer *t, const struct json *config, struct err *e)
{
    const struct json *added = json_field(config, "added_tokens_decoder");
    for (void *it = json_first(added); it; it = json_next(added, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        int64_t id = 0;
        for (size_t i = 0; i < n && id >= 0 && id < PIECES_MAX; i++)
            id = key[i] >= '0' && key[i] <= '9' ? id * 10 + key[i] - '0' : -1;
        bool known = id >= 0 && (uint64_t)id < t->n_piece && t->piece[id].match;
        if (t->kind == &token_kind_longest && id == 0) known = false; /* named by world.c */
        int rc = known || n == 0 ? 0 : add_token(t, id, json_it_value(it), e);
        if (rc != 0) return rc;
    }
    mark_named(t, config);
    int32_t id;
    if ((id = token_field(t, config, "bos_token")) >= 0) t->bos = id;
    if ((id = token_field(t, config, "eos_token")) >= 0) t->eos = id;
    tokenizer_mark_end(t, id, END_TOKENIZER);
    if (t->unk < 0 && t->kind == &token_kind_wordpiece)
        t->unk = token_field(t, config, "unk_token");
    settle_segments(t, config);
    if (class_adds(t, config)) {
        settle_bos(t, config);
        settle_eos(t, config);
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

/* Read an optional configuration file. An unreadable file is an error. A missing file is legal. */
static int read_sibling(struct json **out, const char *dir, const char *name, struct err *e)
{
    char path[4096];
    bool found = false;
    *out = NULL;
    int rc = token_file(path, &found, dir, name, e);
    if (rc != 0 || !found) return rc;
    return json_read_file(out, path, CONFIG_BYTES_MAX, e);
}

int hf_token_id(const struct tokenizer *t, const char *dir, const char *name, int32_t *id,
                struct err *e)
{
    struct json *config;
    const int rc = read_sibling(&config, dir, "tokenizer_config.json", e);
    *id = rc == 0 ? token_field(t, config, name) : -1;
    json_drop(config);
    return rc;
}

/* Lower the case of texts first if sentence-transformers' older configuration requires it and no
 * step of the tokenizer does. */
static int read_lower_case(struct tokenizer *t, const char *dir, struct err *e)
{
    struct json *config;
    char path[4096];
    bool found = false, lower = false;
    norm_fn *const lowercase = norm_find("Lowercase");
    int rc = token_file(path, &found, dir, "modules.json", e);
    if (rc != 0 || !found) return rc;
    rc = read_sibling(&config, dir, "sentence_bert_config.json", e);
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
    return 0;
}

int hf_config_read(struct tokenizer *t, const char *dir, struct err *e)
{
    struct json *config, *generation = NULL;
    int rc = read_sibling(&config, dir, "tokenizer_config.json", e);
    if (rc == 0) rc = read_sibling(&generation, dir, "generation_config.json", e);
    if (rc == 0 && config) rc = read_config(t, config, e);
    if (rc != 0) err_prefix(e, rc, "%s/tokenizer_config.json", dir);
    if (rc == 0) {
        read_generation(t, generation);
        guess_ends(t);
        rc = read_lower_case(t, dir, e);
    }
    json_drop(config);
    json_drop(generation);
    return rc;
}

/* Read the decoder. Reject a decoder of the byte alphabet if no earlier step maps texts to this
 * alphabet, because byte_level applies to both directions. */
static int read_decoder(struct tokenizer *t, const struct json *j, struct err *e)
{
    const bool mapped = t->opt.byte_level;
    const int rc = hf_steps_decoder(t, j, e);
    if (rc != 0 || mapped || !t->opt.byte_level) return rc;
    return err_set(e, ERR_UNSUPPORTED,
                   "decoder \"ByteLevel\": not supported without \"ByteLevel\" in pre_tokenizer or "
                   "normalizer");
}

/* Read the steps before the model, because read_model needs byte_level. */
int hf_json_read(struct tokenizer *t, const char *path, struct err *e)
{
    struct json *j;
    int rc = json_read_file(&j, path, JSON_BYTES_MAX, e);
    if (rc != 0) return rc;
    t->from_json = true;
    if (rc == 0) rc = hf_steps_norm(t, json_field(j, "normalizer"), e);
    if (rc == 0) rc = hf_steps_pretok(t, json_field(j, "pre_tokenizer"), e);
    if (rc == 0) rc = read_decoder(t, json_field(j, "decoder"), e);
    if (rc == 0) rc = read_model(t, json_field(j, "model"), e);
    if (rc == 0) rc = read_added(t, json_field(j, "added_tokens"), e);
    if (rc == 0) rc = read_post(t, json_field(j, "post_processor"), e);
    if (rc == 0 && t->kind == &token_kind_spm) t->opt.byte_level = false;
    /* Spaces join the pieces if there is no decoder, as in Hugging Face's tokenizers, unless the
     * pieces spell spaces or mark their boundaries. */
    if (rc == 0 && json_kind(json_field(j, "decoder")) != JK_OBJECT)
        t->opt.join_pieces =
            !t->opt.byte_level && !t->opt.space_mark && t->kind != &token_kind_wordpiece;
    json_drop(j);
    return rc ? err_prefix(e, rc, "%s", path) : 0;
}
