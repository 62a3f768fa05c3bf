/* hf_json_put.c - a GGUF's tokenizer -> tokenizer.json and tokenizer_config.json, the inverse of
 * gguf_vocab_put.c.
 *
 *   model   steps before the model                      model of tokenizer.json
 *   gpt2    splits of the family, ByteLevel             BPE with the list of merges
 *   llama   "▁" for spaces                             BPE with merges by the scores
 *   t5      precompiled charsmap, Metaspace             Unigram
 *   bert    BertNormalizer, BertPreTokenizer            WordPiece
 *
 * The model "rwkv" becomes a list of tokens (world.c), because tokenizer.json has no such model. */
#include "token_impl.h"

#include "base/base64.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return a value of the GGUF's tokenizer; NULL if none. */
static const struct meta *field(const struct checkpoint *c, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    return checkpoint_meta(c, key);
}

static int64_t kind_at(const struct checkpoint *c, size_t id)
{
    return meta_item_int(field(c, "token_type"), id, PIECE_NORMAL);
}

/* Return true for a piece that is an added token of tokenizer.json. */
static bool is_added(int64_t kind)
{
    return kind == PIECE_CONTROL || kind == PIECE_USER || kind == PIECE_UNKNOWN;
}

/* Append the added tokens. A GGUF does not have the flags of white space and words around a token,
 * so they are false. */
static void put_added(struct buf *b, const struct checkpoint *c, size_t n_token)
{
    const char *comma = "";
    buf_add_text(b, "\"added_tokens\":[");
    for (size_t id = 0; id < n_token; id++) {
        size_t n;
        const char *text = meta_item_text(field(c, "tokens"), id, &n);
        const int64_t kind = kind_at(c, id);
        if (!text || !is_added(kind)) continue;
        buf_addf(b, "%s\n{\"id\":%zu,\"content\":", comma, id);
        json_put_text(b, text, n);
        buf_addf(b,
                 ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
                 "\"special\":%s}",
                 kind == PIECE_USER ? "false" : "true");
        comma = ",";
    }
    buf_add_text(b, "],\n");
}

/* Append the splits of the family, and a ByteLevel step without a split. */
static int put_splits(struct buf *b, const char *family, struct err *e)
{
    const char *p;
    buf_add_text(b, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int k = 0; (p = family_pattern(family, k)); k++) {
        if (!*p)
            return err_set(e, ERR_UNSUPPORTED,
                           "tokenizer.ggml.pre \"%.60s\": conversion to tokenizer.json is not "
                           "supported yet",
                           family);
        buf_add_text(b, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        json_put_text(b, p, strlen(p));
        buf_add_text(b, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    buf_add_text(b, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
                    "\"use_regex\":false}]},\n");
    return 0;
}

/* ---- ids around texts ---- */

static void put_piece(struct buf *b, const struct tokenizer *t, int32_t id)
{
    json_put_text(b, t->piece[id].text, t->piece[id].n_text);
}

static void put_comma(struct buf *b)
{
    if (b->n && b->data[b->n - 1] != '[' && b->data[b->n - 1] != '{') buf_add_char(b, ',');
}

/* Append the special tokens of a template, which precede or follow the texts of its segments. */
static void put_items(struct buf *b, const struct tokenizer *t, const int32_t *id, int n,
                      int segment)
{
    for (int i = 0; i < n; i++) {
        put_comma(b);
        buf_add_text(b, "{\"SpecialToken\":{\"id\":");
        put_piece(b, t, id[i]);
        buf_addf(b, ",\"type_id\":%d}}", segment);
    }
}

/* Append the place of a text in a template: 'A' for the first text, 'B' for the second text of a
 * pair. */
static void put_text_item(struct buf *b, char name, int segment)
{
    put_comma(b);
    buf_addf(b, "{\"Sequence\":{\"id\":\"%c\",\"type_id\":%d}}", name, segment);
}

/* Append the ids of a list that are not in an earlier list. */
static void put_special(struct buf *b, const struct tokenizer *t, const int32_t *id, int n,
                        int32_t seen[3 * AFFIX_MAX], int *n_seen)
{
    for (int i = 0; i < n; i++) {
        bool known = false;
        for (int k = 0; k < *n_seen; k++) known |= seen[k] == id[i];
        if (known) continue;
        seen[(*n_seen)++] = id[i];
        put_comma(b);
        put_piece(b, t, id[i]);
        buf_add_text(b, ":{\"id\":");
        put_piece(b, t, id[i]);
        buf_addf(b, ",\"ids\":[%d],\"tokens\":[", (int)id[i]);
        put_piece(b, t, id[i]);
        buf_add_text(b, "]}");
    }
}

/* Append a TemplateProcessing with the ids around a text and around a pair. */
static void put_post(struct buf *b, const struct tokenizer *t)
{
    const int second = t->pair_segments;
    int32_t seen[3 * AFFIX_MAX];
    int n_seen = 0;
    if (t->n_prefix + t->n_suffix + t->n_between == 0) {
        buf_add_text(b, "\"post_processor\":null,\n");
        return;
    }
    buf_add_text(b, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    put_items(b, t, t->prefix, t->n_prefix, 0);
    put_text_item(b, 'A', 0);
    put_items(b, t, t->suffix, t->n_suffix, 0);
    buf_add_text(b, "],\"pair\":[");
    put_items(b, t, t->prefix, t->n_prefix, 0);
    put_text_item(b, 'A', 0);
    put_items(b, t, t->between, t->n_between, 0);
    put_text_item(b, 'B', second);
    put_items(b, t, t->suffix, t->n_suffix, second);
    buf_add_text(b, "],\"special_tokens\":{");
    put_special(b, t, t->prefix, t->n_prefix, seen, &n_seen);
    put_special(b, t, t->suffix, t->n_suffix, seen, &n_seen);
    put_special(b, t, t->between, t->n_between, seen, &n_seen);
    buf_add_text(b, "}},\n");
}

/* ---- models ---- */

/* Append {"piece": id, ...}, without the added tokens after the last piece. Added tokens before the
 * last piece are also in the vocabulary. Hugging Face's tokenizers ignore the file's id of an added
 * token outside of the vocabulary, and use the next free id. */
static void put_vocab(struct buf *b, const struct checkpoint *c, size_t n_token)
{
    while (n_token > 0 && is_added(kind_at(c, n_token - 1))) n_token--;
    buf_add_text(b, "\"vocab\":{");
    for (size_t id = 0; id < n_token; id++) {
        size_t n;
        const char *text = meta_item_text(field(c, "tokens"), id, &n);
        if (!text) continue;
        put_comma(b);
        json_put_text(b, text, n);
        buf_addf(b, ":%zu", id);
    }
    buf_add_char(b, '}');
}

/* Append the GGUF's merges in their order, which is their rank. */
static void put_merge_list(struct buf *b, const struct checkpoint *c)
{
    const struct meta *merges = field(c, "merges");
    buf_add_text(b, ",\"merges\":[");
    for (size_t i = 0; i < meta_count(merges); i++) {
        size_t n;
        const char *text = meta_item_text(merges, i, &n);
        put_comma(b);
        json_put_text(b, text ? text : "", text ? n : 0);
    }
    buf_add_text(b, "]}}\n");
}

/* Append the steps and the model of a BPE over bytes (gpt2). The family's name becomes its
 * patterns, because a tokenizer.json has no names of families. */
static int put_bytes_bpe(struct buf *b, const struct checkpoint *c, const struct tokenizer *t,
                         struct err *e)
{
    const char *pre = meta_text(field(c, "pre"), NULL);
    buf_add_text(b, "\"normalizer\":null,\n");
    const int rc = put_splits(b, pre ? pre : "default", e);
    if (rc != 0) return rc;
    put_post(b, t);
    buf_add_text(b, "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                    "\"trim_offsets\":true,\"use_regex\":true},\n");
    buf_addf(b,
             "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
             "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
             "\"byte_fallback\":false,\"ignore_merges\":%s,",
             t->opt.ignore_merges ? "true" : "false");
    put_vocab(b, c, t->n_piece);
    put_merge_list(b, c);
    return 0;
}

/* A merge of two pieces, with the score of the resulting piece. */
struct scored_merge {
    double score;
    int32_t made, left, right;
};

/* Compare merges by score, highest first. */
static int compare_merges(const void *a, const void *b)
{
    const struct scored_merge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->made != y->made) return x->made < y->made ? -1 : 1;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

/* Append the merges of a vocabulary with scores. Each division of a piece into two pieces is a
 * merge. */
static int put_scored_merges(struct buf *b, const struct tokenizer *t, struct err *e)
{
    VEC(struct scored_merge) all = {0};
    int rc = 0;
    for (size_t id = 0; id < t->n_piece && rc == 0; id++) {
        const struct piece *p = &t->piece[id];
        if (p->kind != PIECE_NORMAL || p->n_text > PIECE_MERGE_BYTES_MAX) continue;
        for (uint32_t at = 1; at < p->n_text && rc == 0; at++) {
            if ((p->text[at] & 0xC0) == 0x80) continue;
            const int32_t left = tokenizer_find(t, p->text, at),
                          right = tokenizer_find(t, p->text + at, p->n_text - at);
            if (left < 0 || right < 0 || t->piece[left].kind != PIECE_NORMAL ||
                t->piece[right].kind != PIECE_NORMAL)
                continue;
            const struct scored_merge m = {p->score, (int32_t)id, left, right};
            if (!vec_push(&all, m)) rc = err_memory(e, "merges", all.n);
        }
    }
    if (all.n > 0) qsort(all.v, all.n, sizeof *all.v, compare_merges);
    buf_add_text(b, ",\"merges\":[");
    for (size_t i = 0; i < all.n && rc == 0; i++) {
        put_comma(b);
        buf_add_char(b, '[');
        put_piece(b, t, all.v[i].left);
        buf_add_char(b, ',');
        put_piece(b, t, all.v[i].right);
        buf_add_char(b, ']');
    }
    buf_add_text(b, "]}}\n");
    vec_deinit(&all);
    return rc;
}

/* Append the steps and the model of a SentencePiece BPE over characters (llama). Bytes outside of
 * the vocabulary become pieces such as <0xE4> (byte_fallback). */
static int put_chars_bpe(struct buf *b, const struct checkpoint *c, const struct tokenizer *t,
                         struct err *e)
{
    const bool prefix = t->opt.drop_lead_space;
    buf_addf(b,
             "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s{\"type\":\"Replace\","
             "\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK "\"}]},\n",
             prefix ? "{\"type\":\"Prepend\",\"prepend\":\"" SPACE_MARK "\"}," : "");
    buf_add_text(b, "\"pre_tokenizer\":null,\n");
    put_post(b, t);
    buf_addf(b,
             "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
             "\"String\":\"" SPACE_MARK "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
             "{\"type\":\"Fuse\"}%s]},\n",
             prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    buf_add_text(b, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (t->unk >= 0)
        put_piece(b, t, t->unk);
    else
        buf_add_text(b, "null");
    buf_addf(b,
             ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":%s,"
             "\"byte_fallback\":true,\"ignore_merges\":false,",
             t->opt.fuse_unk ? "true" : "false");
    put_vocab(b, c, t->n_piece);
    if (t->opt.merges_by_score) return put_scored_merges(b, t, e);
    put_merge_list(b, c);
    return 0;
}

/* Append the steps and the model of a SentencePiece Unigram (t5). An unused piece gets the lowest
 * score, because the format has no mark for unused pieces. */
static int put_unigram(struct buf *b, const struct checkpoint *c, const struct tokenizer *t,
                       struct err *e)
{
    const struct norm_step *s = t->norm.v;
    const bool trim = s->flags & SP_TRIM;
    const char *metaspace = s->flags & SP_PREFIX
                                ? "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
                                  "\",\"prepend_scheme\":\"always\",\"split\":true},\n"
                                : "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
                                  "\",\"prepend_scheme\":\"never\",\"split\":true},\n";
    struct buf blob = {0};
    double lowest = 0;
    buf_add_text(b, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (s->charsmap) {
        charsmap_put(s->charsmap, &blob);
        buf_add_text(b, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        if (blob.n) base64_encode(blob.data, blob.n, b);
        buf_add_text(b, "\"}");
    }
    if (trim) {
        put_comma(b);
        buf_add_text(b, "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" "
                        "\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\A +| +\\\\z\"},"
                        "\"content\":\"\"}");
    }
    buf_addf(b, "]},\n\"pre_tokenizer\":%s", metaspace);
    put_post(b, t);
    buf_addf(b, "\"decoder\":%s\"model\":{\"type\":\"Unigram\",\"unk_id\":%d,\"vocab\":[",
             metaspace, (int)t->unk);
    for (size_t id = 0; id < t->n_piece; id++)
        if (t->piece[id].kind == PIECE_NORMAL && t->piece[id].score < lowest)
            lowest = t->piece[id].score;
    for (size_t id = 0; id < t->n_piece; id++) {
        size_t n;
        const bool unused = kind_at(c, id) == PIECE_UNUSED;
        const char *text = meta_item_text(field(c, "tokens"), id, &n);
        buf_addf(b, "%s[", id ? ",\n" : "");
        json_put_text(b, text ? text : "", text ? n : 0);
        buf_add_char(b, ',');
        json_put_float(b, (float)(unused ? lowest : t->piece[id].score));
        buf_add_char(b, ']');
    }
    buf_add_text(b, "],\"byte_fallback\":false}}\n");
    const bool failed = blob.failed;
    buf_deinit(&blob);
    return failed ? err_memory(e, "a charsmap", 0) : 0;
}

/* Append a WordPiece vocabulary. Add "##" to pieces inside a word, and remove the mark of pieces
 * that begin a word. */
static int put_wordpiece(struct buf *b, const struct checkpoint *c, const struct tokenizer *t,
                         struct err *e)
{
    const unsigned flags = t->norm.v[0].flags;
    (void)e;
    buf_addf(b,
             "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
             "\"handle_chinese_chars\":true,\"strip_accents\":%s,\"lowercase\":%s},\n"
             "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\n",
             flags & BERT_STRIP ? "true" : "false", flags & BERT_LOWER ? "true" : "false");
    put_post(b, t);
    buf_add_text(b, "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\n"
                    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":");
    if (t->unk >= 0)
        put_piece(b, t, t->unk);
    else
        buf_add_text(b, "\"[UNK]\"");
    buf_add_text(b, ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,"
                    "\"vocab\":{");
    for (size_t id = 0; id < t->n_piece; id++) {
        struct buf own = {0};
        size_t n;
        const char *text = meta_item_text(field(c, "tokens"), id, &n);
        if (!text) continue;
        const bool begins =
            n >= SPACE_MARK_BYTES && memcmp(text, SPACE_MARK, SPACE_MARK_BYTES) == 0;
        if (kind_at(c, id) == PIECE_NORMAL && begins)
            text += SPACE_MARK_BYTES, n -= SPACE_MARK_BYTES;
        else if (kind_at(c, id) == PIECE_NORMAL)
            buf_add_text(&own, "##");
        buf_add(&own, text, n);
        put_comma(b);
        json_put_text(b, own.n ? own.data : "", own.n);
        buf_addf(b, ":%zu", id);
        if (own.failed) b->failed = true;
        buf_deinit(&own);
    }
    buf_add_text(b, "}}}\n");
    return 0;
}

/* ---- tokenizer_config.json ---- */

/* Append the name of a token if it is special, because a name makes a token special. */
static void put_named(struct buf *b, const char *name, const struct tokenizer *t, int32_t id)
{
    if (id < 0 || !t->piece[id].special) return;
    buf_addf(b, ",\"%s\":", name);
    json_put_text(b, t->piece[id].text, t->piece[id].n_text);
}

/* Append the chat templates: one as a string, several as a list of {name, template}. */
static void put_templates(struct buf *b, const struct checkpoint *c)
{
    static const char key[] = "tokenizer.chat_template";
    const size_t n = sizeof key - 1;
    const char *name, *comma = "";
    int n_named = 0;
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        const struct meta *m = checkpoint_meta_at(c, i, &name);
        n_named += strncmp(name, key, n) == 0 && name[n] == '.' && meta_text(m, NULL);
    }
    const char *one = meta_text(checkpoint_meta(c, key), NULL);
    if (n_named == 0) {
        if (one) json_member_text(b, "chat_template", one);
        return;
    }
    buf_add_text(b, ",\"chat_template\":[");
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        const char *text = meta_text(checkpoint_meta_at(c, i, &name), NULL);
        if (!text || strncmp(name, key, n) != 0 || (name[n] && name[n] != '.')) continue;
        name = name[n] ? name + n + 1 : "default";
        buf_addf(b, "%s{\"name\":", comma);
        json_put_text(b, name, strlen(name));
        json_member_text(b, "template", text);
        buf_add_char(b, '}');
        comma = ",";
    }
    buf_add_char(b, ']');
}

/* Append the names of the special tokens. A BERT tokenizer has CLS and SEP in place of BOS and
 * EOS. */
static void put_names(struct buf *b, const struct checkpoint *c, const struct tokenizer *t)
{
    const bool words = t->kind == &token_kind_wordpiece;
    const int64_t n = (int64_t)t->n_piece, pad = meta_int(field(c, "padding_token_id"), -1),
                  mask = meta_int(field(c, "mask_token_id"), -1),
                  sep = meta_int(field(c, "seperator_token_id"), -1);
    put_named(b, "bos_token", t, words ? -1 : t->bos);
    put_named(b, "eos_token", t, words ? -1 : t->eos);
    put_named(b, "unk_token", t, t->unk);
    put_named(b, "pad_token", t, pad < n ? (int32_t)pad : -1);
    put_named(b, "mask_token", t, mask < n ? (int32_t)mask : -1);
    put_named(b, "cls_token", t, words ? t->prefix[0] : sep >= 0 ? t->bos : -1);
    put_named(b, "sep_token", t, words ? t->suffix[0] : sep < n ? (int32_t)sep : -1);
    buf_addf(b, ",\"model_input_names\":[\"input_ids\",%s\"attention_mask\"]",
             t->pair_segments ? "\"token_type_ids\"," : "");
}

/* Append the steps and the model of a tokenizer. Errors are those of tokenizer_put_hf. */
typedef int put_fn(struct buf *b, const struct checkpoint *c, const struct tokenizer *t,
                   struct err *e);

/* Return the function for a tokenizer; NULL if none. */
static put_fn *put_of(const struct tokenizer *t)
{
    if (t->kind == &token_kind_bpe) return put_bytes_bpe;
    if (t->kind == &token_kind_spm && !t->opt.newline_words) return put_chars_bpe;
    if (t->kind == &token_kind_unigram && t->norm.n == 1 && t->unk >= 0) return put_unigram;
    if (t->kind == &token_kind_wordpiece && t->norm.n == 1 && t->n_prefix == 1 &&
        t->n_suffix == 1 && t->prefix[0] >= 0 && t->suffix[0] >= 0)
        return put_wordpiece;
    return NULL;
}

static int put_json(struct buf *b, const struct checkpoint *c, const struct tokenizer *t,
                    struct err *e)
{
    const char *model = meta_text(field(c, "model"), NULL);
    put_fn *put = put_of(t);
    if (!put)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tokenizer.ggml.model \"%.40s\": conversion to tokenizer.json is not "
                       "supported yet",
                       checkpoint_path(c), model ? model : "");
    buf_add_text(b, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
    put_added(b, c, t->n_piece);
    return put(b, c, t, e);
}

/* Append the fields of a list's class: the added tokens, and whether BOS and EOS are added. */
static void put_class(struct buf *b, const struct tokenizer *t)
{
    const char *comma = "";
    buf_addf(b, ",\"add_bos_token\":%s,\"add_eos_token\":%s,\"added_tokens_decoder\":{",
             t->n_prefix ? "true" : "false", t->n_suffix ? "true" : "false");
    for (size_t id = 0; id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (!p->match) continue;
        buf_addf(b, "%s\"%zu\":{\"content\":", comma, id);
        json_put_text(b, p->text, p->n_text);
        buf_addf(b,
                 ",\"lstrip\":false,\"normalized\":false,\"rstrip\":false,\"single_word\":false,"
                 "\"special\":%s}",
                 p->special ? "true" : "false");
        comma = ",";
    }
    buf_add_char(b, '}');
}

int tokenizer_put_hf(struct buf *json, struct buf *world, struct buf *config,
                     const struct checkpoint *c, struct err *e)
{
    struct tokenizer *t;
    int rc = tokenizer_open(&t, c, e);
    if (rc != 0) return rc;
    const bool list = t->kind == &token_kind_longest;
    if (list)
        world_put(world, t);
    else
        rc = put_json(json, c, t, e);
    buf_addf(config, "{\"tokenizer_class\":\"%s\",\"clean_up_tokenization_spaces\":false",
             list ? "Rwkv6Tokenizer" : "PreTrainedTokenizerFast");
    if (list) put_class(config, t);
    if (rc == 0) put_names(config, c, t);
    const int64_t n_max = meta_int(checkpoint_meta(c, "tokenizer.model_max_length"), 0);
    if (n_max > 0) buf_addf(config, ",\"model_max_length\":%lld", (long long)n_max);
    put_templates(config, c);
    buf_add_text(config, "}\n");
    tokenizer_close(t);
    return rc == 0 && (json->failed || world->failed || config->failed)
               ? err_memory(e, "the files of a tokenizer", json->n + world->n)
               : rc;
}
