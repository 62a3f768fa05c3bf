/* hf_json.c - Hugging Face's tokenizer.json. hf_settings.c reads the other files of its folder.
 *
 * The file contains a model (BPE, Unigram, WordPiece) and steps before and after it (hf_steps.c).
 * BPE over GPT-2's alphabet is kind bpe. BPE over characters, as converted from SentencePiece, is
 * kind spm. */
#include "token_impl.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { JSON_BYTES_MAX = 256 << 20 };

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
    const struct {
        const char *type, *field; /* static */
        int (*read)(struct tokenizer *t, const struct json *m, struct err *e);
    } row[] = {{"BPE", "merges", read_bpe},
               {"Unigram", "unk_id", read_unigram},
               {"WordPiece", "max_input_chars_per_word", read_wordpiece}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        if (strcmp(type, row[i].type) != 0 && (*type || !json_field(m, row[i].field))) continue;
        if (i > 0 && t->opt.byte_level) /* the pieces of these models are text */
            return err_set(e, ERR_UNSUPPORTED, "ByteLevel with model %s: not supported yet",
                           row[i].type);
        return row[i].read(t, m, e);
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "model type \"%.40s\" not found; available: BPE, Unigram, WordPiece", type);
}

/* ---- added tokens ---- */

int hf_match_flags(const struct json *j)
{
    return (json_bool(json_field(j, "lstrip"), false) ? MATCH_LSTRIP : 0) |
           (json_bool(json_field(j, "rstrip"), false) ? MATCH_RSTRIP : 0) |
           (json_bool(json_field(j, "single_word"), false) ? MATCH_WORD : 0);
}

int hf_token_match(const struct tokenizer *t, const struct json *j)
{
    const bool raw = !json_bool(json_field(j, "normalized"), false) || t->norm.n == 0;
    return (raw ? MATCH_RAW : MATCH_NORMALIZED) | hf_match_flags(j);
}

/* `listed` is true if the vocabulary has the same text at this id, because the model can then also
 * produce the piece. */
int hf_token_put(struct tokenizer *t, int64_t id, const char *text, size_t n, enum piece_kind kind,
                 int match, struct err *e)
{
    const struct piece *was = (uint64_t)id < t->n_piece ? &t->piece[id] : NULL;
    double score = was ? was->score : 0;
    const bool same = was && was->n_text == n && n > 0 && memcmp(was->text, text, n) == 0;
    const bool listed = same && (was->kind == PIECE_NORMAL || was->listed);
    const bool outside = !same || was->outside;
    int rc = tokenizer_put(t, (size_t)id, text, n, kind, score, e);
    if (rc != 0) return rc;
    t->piece[id].listed = listed;
    t->piece[id].outside = outside;
    t->piece[id].match = (uint8_t)match;
    return 0;
}

/* Return the id of an added token of a tokenizer.json. Hugging Face's tokenizers ignore the file's
 * id if the text already is a token. */
static int64_t own_id(const struct tokenizer *t, int64_t id, const char *text, size_t n)
{
    const uint32_t *known = t->from_json ? strmap_get(&t->find, text, n) : NULL;
    const bool taken = (uint64_t)id < t->n_piece && t->piece[id].n_text > 0;
    return known && !taken ? (int64_t)*known : id;
}

int hf_token_add(struct tokenizer *t, int64_t id, const struct json *j, struct err *e)
{
    size_t n;
    const char *text = json_text(json_field(j, "content"), &n);
    if (!text || id < 0)
        return err_field(e, ERR_FORMAT, "added_tokens",
                         ": expected an id and content, got the id %lld and %s", (long long)id,
                         json_kind_name(json_kind(json_field(j, "content"))));
    bool special = json_bool(json_field(j, "special"), false);
    id = own_id(t, id, text, n);
    return hf_token_put(t, id, text, n, special ? PIECE_CONTROL : PIECE_USER, hf_token_match(t, j),
                        e);
}

int hf_token_check(const struct tokenizer *t, int64_t id, const char *text, size_t n, struct err *e)
{
    const struct piece *p = id >= 0 && (uint64_t)id < t->n_piece ? &t->piece[id] : NULL;
    if (id < 0)
        return err_field(e, ERR_FORMAT, "added_tokens",
                         ": the id of \"%.40s\" must be at least 0, got %lld", text, (long long)id);
    if (!p || p->n_text == 0 || (p->n_text == n && memcmp(p->text, text, n) == 0)) return 0;
    return err_field(e, ERR_FORMAT, "added_tokens",
                     ": the id %lld of \"%.40s\" is the id of \"%.40s\"", (long long)id, text,
                     p->text);
}

/* Return the number of pieces. */
static size_t count_pieces(const struct tokenizer *t)
{
    size_t n = 0;
    for (size_t id = 0; id < t->n_piece; id++) n += t->piece[id].kind != 0;
    return n;
}

/* Warn about the first new token whose id is not the next one. Hugging Face's tokenizers then
 * assign the next id; quoth uses the file's id, which is the row of the model's embedding. */
static void warn_gap(const char *path, const char *text, int64_t id, int64_t next, bool *warned)
{
    if (id == next || *warned) return;
    log_warn("%s: added_tokens: \"%.40s\" has the id %lld; Hugging Face's tokenizers use %lld",
             path, text, (long long)id, (long long)next);
    *warned = true;
}

/* Read the list. The index has the vocabulary and the tokens that are already read. */
static int read_added(struct tokenizer *t, const struct json *list, const char *path, struct err *e)
{
    const int64_t n_model = (int64_t)count_pieces(t);
    int64_t next = n_model;
    bool warned = false;
    int rc = tokenizer_index(t) ? 0 : err_memory(e, "an index of tokens", t->n_piece);
    char value[80];
    if (!hf_step_absent(list) && json_kind(list) != JK_LIST)
        return err_field(e, ERR_FORMAT, "added_tokens", ": expected a list, got %s",
                         json_value_text(list, value));
    for (size_t i = 0; i < json_count(list) && rc == 0; i++) {
        const struct json *j = json_item(list, i);
        const int64_t id = json_int(json_field(j, "id"), -1);
        size_t n;
        const char *text = json_text(json_field(j, "content"), &n);
        if (text && id >= 0) rc = hf_token_check(t, id, text, n, e);
        if (rc == 0) rc = hf_token_add(t, id, j, e);
        if (rc != 0) return rc;
        if (!strmap_get(&t->find, text, n)) warn_gap(path, text, id, next, &warned);
        const int64_t own = own_id(t, id, text, n);
        if (own >= next) next = own + 1;
        if (!strmap_put(&t->find, t->piece[own].text, n, (uint32_t)own))
            return err_memory(e, "an index of tokens", t->n_piece);
    }
    return rc;
}

/* ---- post-processor ---- */

void hf_affix_add(struct tokenizer *t, bool before, int64_t id)
{
    int *n = before ? &t->n_prefix : &t->n_suffix;
    if (id < 0 || id >= PIECES_MAX || *n >= AFFIX_MAX) return;
    (before ? t->prefix : t->suffix)[(*n)++] = (int32_t)id;
}

void hf_between_add(struct tokenizer *t, int64_t id)
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
            hf_between_add(t, json_int(json_item(ids, k), -1));
    }
}

/* Append the ids of a special token of a template. */
static int read_affix(struct tokenizer *t, bool before, const char *name,
                      const struct json *special, struct err *e)
{
    const struct json *ids = json_field(json_field(special, name), "ids");
    if (json_kind(ids) != JK_LIST)
        return err_set(e, ERR_FORMAT,
                       "post_processor TemplateProcessing: special_tokens: \"%.40s\" is missing",
                       name);
    if ((size_t)(before ? t->n_prefix : t->n_suffix) + json_count(ids) > AFFIX_MAX)
        return err_set(e, ERR_LIMIT,
                       "post_processor TemplateProcessing: must have at most %d tokens %s the text",
                       AFFIX_MAX, before ? "before" : "after");
    for (size_t k = 0; k < json_count(ids); k++)
        hf_affix_add(t, before, json_int(json_item(ids, k), -1));
    return 0;
}

/* Read a TemplateProcessing. The item Sequence of "single" separates the ids before the text from
 * the ids after the text. A template may repeat the text or omit it, which quoth does not
 * compute. */
static int read_template(struct tokenizer *t, const struct json *j, struct err *e)
{
    const struct json *single = json_field(j, "single"), *special = json_field(j, "special_tokens");
    size_t n_text = 0, n_first = 0;
    int rc = 0;
    for (size_t i = 0; i < json_count(single) && rc == 0; i++) {
        const struct json *item = json_item(single, i), *text = json_field(item, "Sequence");
        const char *id = json_text(json_field(text, "id"), NULL);
        n_text += text != NULL;
        n_first += id && strcmp(id, "A") == 0;
        const char *name = json_text(json_field(json_field(item, "SpecialToken"), "id"), NULL);
        if (name) rc = read_affix(t, n_text == 0, name, special, e);
    }
    if (rc == 0 && (n_text != 1 || n_first != 1))
        rc = err_set(e, ERR_UNSUPPORTED,
                     "post_processor TemplateProcessing: single: expected one Sequence A, got %zu "
                     "of %zu Sequences",
                     n_first, n_text);
    if (rc == 0) read_pair(t, json_field(j, "pair"), special);
    return rc;
}

static int read_post(struct tokenizer *t, const struct json *j, struct err *e);

/* Read the post-processors of a Sequence. A second processor that adds tokens puts them around
 * those of the first, which quoth does not compute. */
static int read_post_list(struct tokenizer *t, const struct json *list, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < json_count(list) && rc == 0; i++) {
        const int n_before = t->n_prefix + t->n_between + t->n_suffix;
        rc = read_post(t, json_item(list, i), e);
        if (rc == 0 && n_before && t->n_prefix + t->n_between + t->n_suffix != n_before)
            rc = err_set(e, ERR_UNSUPPORTED,
                         "post_processor Sequence: two processors that add tokens: not supported "
                         "yet");
    }
    return rc;
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
        rc = read_post_list(t, json_field(j, "processors"), e);
    } else if (strcmp(type, "TemplateProcessing") == 0) {
        rc = read_template(t, j, e);
    } else if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        hf_affix_add(t, true, json_int(json_item(json_field(j, "cls"), 1), -1));
        const int64_t sep = json_int(json_item(json_field(j, "sep"), 1), -1);
        hf_affix_add(t, false, sep);
        t->pair_segments = *type == 'B';
        for (int i = 0; i < (*type == 'B' ? 1 : 2); i++) hf_between_add(t, sep);
    } else if (strcmp(type, "ByteLevel") != 0) { /* ByteLevel changes offsets only */
        rc = err_set(e, ERR_UNSUPPORTED, "post_processor \"%.60s\": not supported yet", type);
    }
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
    if (rc == 0) rc = read_added(t, json_field(j, "added_tokens"), path, e);
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
