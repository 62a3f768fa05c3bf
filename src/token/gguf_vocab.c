/* gguf_vocab.c - the tokenizer in GGUF metadata (tokenizer.ggml.*).
 *
 *   model    kind       spelling and merges
 *   llama    spm        "▁" for spaces, merges by score, or by list if all scores are
 *                       equal, because some converters write zeros instead of scores
 *   gpt2     bpe        GPT-2's alphabet, pre-tokenizer family in tokenizer.ggml.pre
 *   gemma4   spm        "▁" for spaces, merges by list
 *   bert     wordpiece  "▁" marks pieces that begin a word
 *   t5       unigram    "▁" for spaces, precompiled charsmap
 *   rwkv     longest    literals of Python's bytes, without quotes */
#include "token_impl.h"

#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* State of gguf_vocab_read. Pointers are borrowed for the call. */
struct vocab_file {
    struct tokenizer *t;
    const struct checkpoint *c;
    const char *pre;                  /* tokenizer.ggml.pre; NULL if absent */
    bool add_bos, add_eos, add_space; /* defaults of the kind */
    int rc;                           /* of the first id that is rejected; 0 if none */
    struct err *e;
};

static const struct meta *field(const struct vocab_file *f, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    return checkpoint_meta(f->c, key);
}

/* Keep the error for an id that is not a token of the vocabulary. */
static void refuse_id(struct vocab_file *f, const char *name, const struct meta *m)
{
    char got[80];
    const char *text = meta_text(m, NULL);
    const double v = meta_real(m, NAN);
    if (text)
        snprintf(got, sizeof got, "\"%.60s\"", text);
    else
        snprintf(got, sizeof got, isnan(v) ? "a value of another type" : "%.17g", v);
    if (f->rc == 0)
        f->rc = err_set(f->e, ERR_FORMAT,
                        "%s: tokenizer.ggml.%s: must be an integer in [0, %zu], got %s",
                        checkpoint_path(f->c), name, f->t->n_piece - 1, got);
}

/* Return the id of a field, or `fallback` if the field is absent. -1 if the id has no piece. Keep
 * an error for other ids of the file. Published files have 2^32 - 1, llama.cpp's -1, for no
 * token. */
static int32_t id_field(struct vocab_file *f, const char *name, int64_t fallback)
{
    const struct meta *m = field(f, name);
    const int64_t id = m ? meta_int(m, INT64_MIN) : fallback;
    const bool is_int = meta_kind(m) == META_INT || meta_kind(m) == META_UINT;
    if ((!m || is_int) && id >= 0 && (uint64_t)id < f->t->n_piece) return (int32_t)id;
    if (m && !(is_int && (id == -1 || id == UINT32_MAX)))
        refuse_id(f, name, m);
    else if (m && strcmp(name, "padding_token_id") != 0) /* quoth does not use this token */
        log_warn("%s: tokenizer.ggml.%s: %lld is no token; the model has no such token",
                 checkpoint_path(f->c), name, (long long)id);
    return -1;
}

/* ---- tables ---- */

/* Read the pieces. Lists of scores and types are optional. A piece with a type that is out of range
 * is unused. */
static int read_pieces(struct vocab_file *f)
{
    const struct meta *tokens = field(f, "tokens"), *score = field(f, "scores"),
                      *type = field(f, "token_type");
    size_t n = meta_count(tokens);
    if (n == 0 || meta_item_kind(tokens) != META_TEXT)
        return err_set(
            f->e, ERR_FORMAT,
            "%s: tokenizer.ggml.tokens: expected a list of at least 1 string, got %s of %zu",
            checkpoint_path(f->c), n == 0 ? "a list" : "other values", n);
    if ((score && meta_count(score) < n) || (type && meta_count(type) < n))
        return err_set(f->e, ERR_FORMAT, "%s: expected %zu scores and token types, got %zu and %zu",
                       checkpoint_path(f->c), n, meta_count(score), meta_count(type));
    for (size_t id = 0; id < n; id++) {
        size_t len;
        const char *text = meta_item_text(tokens, id, &len);
        int64_t kind = type ? meta_item_int(type, id, PIECE_NORMAL) : PIECE_NORMAL;
        if (kind < PIECE_NORMAL || kind > PIECE_BYTE) kind = PIECE_UNUSED;
        int rc = tokenizer_put(f->t, id, text ? text : "", text ? len : 0, (enum piece_kind)kind,
                               meta_item_real(score, id, 0), f->e);
        if (rc != 0) return rc;
        if (kind == PIECE_CONTROL || kind == PIECE_UNKNOWN || kind == PIECE_USER)
            f->t->piece[id].match = MATCH_RAW;
    }
    return 0;
}

/* Read the merges. Each item is "left right". The index of an item is its rank. */
static int read_merges(struct vocab_file *f)
{
    const struct meta *list = field(f, "merges");
    size_t n = meta_count(list);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *text = meta_item_text(list, i, &len);
        if (text && !tokenizer_put_merge_line(f->t, text, len))
            return err_memory(f->e, "merges", n);
    }
    return 0;
}

/* Read the ids of special tokens. bos, eos and unk are the ids for files without the keys. Mark all
 * end tokens of the file. */
static void read_ids(struct vocab_file *f, int bos, int eos, int unk)
{
    struct tokenizer *t = f->t;
    t->bos = id_field(f, "bos_token_id", bos);
    t->eos = id_field(f, "eos_token_id", eos);
    t->unk = id_field(f, "unknown_token_id", unk);
    tokenizer_mark_end(t, t->eos, END_EOS);
    tokenizer_mark_end(t, id_field(f, "eot_token_id", -1), END_EOT);
    tokenizer_mark_end(t, id_field(f, "eom_token_id", -1), END_EOM);
    id_field(f, "padding_token_id", -1);
    const struct meta *list = field(f, "eos_token_ids");
    t->ends_listed |= list != NULL;
    if (list && meta_kind(list) != META_LIST) refuse_id(f, "eos_token_ids", list);
    for (size_t i = 0; i < meta_count(list); i++) {
        const int64_t id = meta_item_int(list, i, -1);
        const enum meta_kind kind = meta_item_kind(list);
        if ((kind != META_INT && kind != META_UINT) || id < 0 || (uint64_t)id >= t->n_piece)
            refuse_id(f, "eos_token_ids", list);
        tokenizer_mark_end(t, id, END_LIST);
    }
}

/* Set the ids before and after each text. The keys override the defaults of the kind. */
static void read_affixes(struct vocab_file *f)
{
    struct tokenizer *t = f->t;
    if (meta_bool(field(f, "add_bos_token"), f->add_bos) && t->bos >= 0)
        t->prefix[t->n_prefix++] = t->bos;
    if (meta_bool(field(f, "add_eos_token"), f->add_eos) && t->eos >= 0)
        t->suffix[t->n_suffix++] = t->eos;
}

/* Append a step with static texts a and b. */
static int add_text_step(struct vocab_file *f, norm_fn *run, const char *a, const char *b)
{
    struct norm_step *s = tokenizer_add_norm(f->t, run);
    if (!s) return err_memory(f->e, "a normalizer", sizeof *s);
    s->a = a;
    s->n_a = strlen(a);
    s->b = b;
    s->n_b = b ? strlen(b) : 0;
    return 0;
}

/* ---- the kinds ---- */

/* Return true if scores cannot order the merges. */
static bool all_scores_equal(const struct tokenizer *t)
{
    for (size_t id = 1; id < t->n_piece; id++)
        if (t->piece[id].score != t->piece[0].score) return false;
    return true;
}

/* Read the options of the model "llama". The model is SentencePiece's BPE, as in Llama 1 and 2.
 * bos, eos and unk are its usual ids. */
static int read_llama(struct vocab_file *f)
{
    struct tokenizer *t = f->t;
    read_ids(f, 1, 2, 0);
    f->add_bos = true;
    t->opt.space_mark = t->opt.byte_fallback = true;
    t->opt.drop_lead_space = meta_bool(field(f, "add_space_prefix"), true);
    t->opt.merges_by_score = !(all_scores_equal(t) && meta_count(field(f, "merges")) > 0);
    int rc = t->opt.merges_by_score ? 0 : read_merges(f);
    if (rc == 0 && t->opt.drop_lead_space) rc = add_text_step(f, norm_prepend, SPACE_MARK, NULL);
    if (rc == 0) rc = add_text_step(f, norm_replace, " ", SPACE_MARK);
    return rc;
}

/* Return true if the family's files add a separator but have no key for the separator. */
static bool family_has_separator(const char *pre)
{
    static const char *const family[] = {"jina-v1-en", "jina-v2-code", "roberta-bpe"};
    for (size_t i = 0; i < sizeof family / sizeof family[0]; i++)
        if (strcmp(pre, family[i]) == 0) return true;
    return false;
}

/* Set the ids between the texts of a pair: </s></s>, as RoBERTa's class writes them. ModernBERT's
 * class writes one [SEP], which is also the EOS. */
static void read_separators(struct vocab_file *f, const char *pre)
{
    struct tokenizer *t = f->t;
    const int32_t sep = id_field(f, "seperator_token_id", t->eos);
    if (!meta_bool(field(f, "add_sep_token"), family_has_separator(pre)) || t->eos < 0) return;
    if (strcmp(pre, "modern-bert") != 0) t->between[t->n_between++] = t->eos;
    t->between[t->n_between++] = sep;
}

/* Read the options of the model "gpt2". A family may be BPE over characters with "▁" (Gemma 4),
 * which is the kind spm. */
static int read_gpt2(struct vocab_file *f)
{
    struct tokenizer *t = f->t;
    read_ids(f, -1, -1, -1);
    int rc = tokenizer_add_family(t, f->pre ? f->pre : "default", f->e);
    if (rc != 0) return rc;
    read_separators(f, f->pre ? f->pre : "default");
    f->add_bos = t->opt.add_bos;
    if (t->opt.space_mark) {
        t->kind = &token_kind_spm;
        t->opt.byte_fallback = true;
        rc = add_text_step(f, norm_replace, " ", SPACE_MARK);
    } else {
        t->opt.byte_level = true;
    }
    return rc == 0 ? read_merges(f) : rc;
}

/* Read the options of the model "gemma4". The name of the model also selects the pre-tokenizer. */
static int read_gemma4(struct vocab_file *f)
{
    f->pre = "gemma4";
    return read_gpt2(f);
}

/* Read the options of the model "bert". GGUF spells the name of the key "seperator". */
static int read_bert(struct vocab_file *f)
{
    struct tokenizer *t = f->t;
    read_ids(f, 101, -1, 100);
    int32_t cls = id_field(f, "cls_token_id", t->bos), sep = id_field(f, "seperator_token_id", 102);
    t->prefix[t->n_prefix++] = cls;
    t->suffix[t->n_suffix++] = t->between[t->n_between++] = sep;
    t->pair_segments = meta_bool(field(f, "pair_segments"), true);
    t->opt.word_prefix = SPACE_MARK;
    t->opt.word_chars_max = 100;
    t->opt.drop_lead_space = t->opt.word_cleanup = true;
    bool lower = meta_bool(field(f, "normalizer.lowercase"), true);
    bool strip = meta_bool(field(f, "normalizer.strip_accents"), lower);
    struct norm_step *s = tokenizer_add_norm(t, norm_bert);
    if (!s) return err_memory(f->e, "a normalizer", sizeof *s);
    s->flags = BERT_CLEAN | BERT_CJK | (lower ? BERT_LOWER : 0) | (strip ? BERT_STRIP : 0);
    return tokenizer_add_bert_words(t, f->e);
}

/* Read the precompiled charsmap. The map is a list of bytes, stored as numbers. */
static int read_charsmap(struct vocab_file *f, const struct charsmap **map)
{
    const struct meta *list = field(f, "precompiled_charsmap");
    struct buf blob = {0};
    for (size_t i = 0; i < meta_count(list); i++)
        buf_add_char(&blob, (char)meta_item_int(list, i, 0));
    int rc = blob.failed ? err_memory(f->e, "a charsmap", meta_count(list)) : 0;
    if (rc == 0 && blob.n) rc = charsmap_open(map, &f->t->arena, blob.data, blob.n, f->e);
    buf_deinit(&blob);
    return rc;
}

/* Read the options of the model "t5". The ids are T5's: no BOS, EOS 1, unknown 2. */
static int read_t5(struct vocab_file *f)
{
    struct tokenizer *t = f->t;
    const struct charsmap *map = NULL;
    read_ids(f, -1, 1, 2);
    f->add_eos = true;
    /* </s></s> between the texts of a pair, as XLM-RoBERTa's class writes them */
    if (field(f, "seperator_token_id"))
        for (int i = 0; i < 2; i++) t->between[t->n_between++] = t->eos;
    t->opt.space_mark = t->opt.fuse_unk = true;
    t->opt.drop_lead_space = meta_bool(field(f, "add_space_prefix"), true);
    int rc = read_charsmap(f, &map);
    struct norm_step *s = rc == 0 ? tokenizer_add_norm(t, norm_sentencepiece) : NULL;
    if (!s) return rc ? rc : err_memory(f->e, "a normalizer", sizeof *s);
    s->charsmap = map;
    s->flags = SP_ESCAPE | (t->opt.drop_lead_space ? SP_PREFIX : 0) |
               (meta_bool(field(f, "remove_extra_whitespaces"), false) ? SP_TRIM : 0);
    return 0;
}

/* Replace the literal of a piece by its bytes. */
static int unescape(struct vocab_file *f, size_t id, struct buf *out)
{
    struct piece *p = &f->t->piece[id];
    buf_clear(out);
    const bool valid = literal_decode(out, p->text, p->n_text, true);
    char *copy = out->failed ? NULL : arena_text(&f->t->arena, out->n ? out->data : "", out->n);
    if (!copy) return err_memory(f->e, "a token", p->n_text);
    if (!valid || out->n == 0)
        return err_set(f->e, ERR_FORMAT,
                       "%s: tokenizer.ggml.tokens[%zu]: must be a literal of bytes, got \"%.40s\"",
                       checkpoint_path(f->c), id, p->text);
    p->text = copy;
    p->n_text = (uint32_t)out->n;
    return 0;
}

/* Read the options of the model "rwkv". Converters fill the vocabulary with unused tokens, which
 * become ids without a piece, as in a folder. */
static int read_rwkv(struct vocab_file *f)
{
    struct tokenizer *t = f->t;
    struct buf out = {0};
    int rc = 0;
    read_ids(f, -1, -1, 0);
    t->opt.raw_bytes = true;
    for (size_t id = 0; id < t->n_piece && rc == 0; id++) {
        if (t->piece[id].kind == PIECE_UNUSED) t->piece[id] = (struct piece){.text = ""};
        if (t->piece[id].kind == PIECE_NORMAL) rc = unescape(f, id, &out);
    }
    buf_deinit(&out);
    return rc;
}

/* Readers by tokenizer.ggml.model. All pointers are static. */
static const struct gguf_model {
    const char *name;
    const struct token_kind *kind;
    int (*read)(struct vocab_file *f);
} models[] = {
    {"llama", &token_kind_spm, read_llama},   {"gpt2", &token_kind_bpe, read_gpt2},
    {"gemma4", &token_kind_spm, read_gemma4}, {"bert", &token_kind_wordpiece, read_bert},
    {"t5", &token_kind_unigram, read_t5},     {"rwkv", &token_kind_longest, read_rwkv},
};

/* Read the pieces first, because the kind's function needs their number and scores. */
int gguf_vocab_read(struct tokenizer *t, const struct checkpoint *c, struct err *e)
{
    struct vocab_file f = {.t = t, .c = c, .e = e};
    const char *model = meta_text(field(&f, "model"), NULL);
    f.pre = meta_text(field(&f, "pre"), NULL);
    for (size_t i = 0; model && i < sizeof models / sizeof models[0]; i++) {
        if (strcmp(models[i].name, model) != 0) continue;
        t->kind = models[i].kind;
        int rc = read_pieces(&f);
        if (rc == 0) rc = models[i].read(&f);
        if (rc == 0) read_affixes(&f);
        return rc ? rc : f.rc;
    }
    return err_set(e, model ? ERR_UNSUPPORTED : ERR_MISSING,
                   "%s: tokenizer.ggml.model not found%s%.60s", checkpoint_path(c),
                   model ? ": " : "", model ? model : "");
}
