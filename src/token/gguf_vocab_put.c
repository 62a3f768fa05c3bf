/* gguf_vocab_put.c - a Hugging Face folder's tokenizer -> tokenizer.ggml.*, the inverse of
 * gguf_vocab.c.
 *
 *   tokenizer.json   kind bpe over GPT-2's alphabet: model "gpt2", with the family of pretok.def
 *                    that has the same steps (tokenizer_family)
 *                    kind spm, whose merges order the pieces: model "llama", with scores
 *                    kind unigram: model "t5", with scores and the precompiled charsmap
 *                    kind wordpiece: model "bert", which marks pieces that begin a word
 *   rwkv_vocab*.txt  kind longest: model "rwkv", with literals of Python's bytes
 *
 * GGUF has no keys for a normalizer, and no keys for the rules of the text around an added token. A
 * warning names these features, because readers of GGUF files ignore them. Any other feature
 * without a key is an error, because ids would be wrong without a message. */
#include "token_impl.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists for the keys, indexed by id or by rank. Texts are borrowed from the tokenizer or from
 * `made`. */
struct vocab_lists {
    const char **text; /* owned [n] */
    size_t *len;       /* owned [n] */
    int32_t *type;     /* owned [n] */
    char *made;        /* owned; texts that are not in the tokenizer */
};

/* Open lists of n pieces, with n_made bytes for texts that are not in the tokenizer. Return false
 * if memory is exhausted. */
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

/* Return the type of a piece. The file of a folder has no types for bytes and for the unknown
 * token. */
static int32_t kind_of(const struct tokenizer *t, size_t id)
{
    const struct piece *p = &t->piece[id];
    if (t->kind == &token_kind_bpe || t->kind == &token_kind_wordpiece ||
        t->kind == &token_kind_longest)
        return p->kind;
    if ((int32_t)id == t->unk) return PIECE_UNKNOWN;
    const bool byte = t->opt.byte_fallback && p->kind == PIECE_NORMAL && p->n_text == 6 &&
                      memcmp(p->text, "<0x", 3) == 0 && p->text[5] == '>';
    return byte ? PIECE_BYTE : p->kind;
}

/* Return true for a piece that is inside a word. */
static bool is_inner(const struct tokenizer *t, const struct piece *p)
{
    const size_t n = strlen(t->opt.inner_prefix);
    return p->n_text > n && memcmp(p->text, t->opt.inner_prefix, n) == 0;
}

/* Set the text of a piece. Pieces of wordpiece get the marks of GGUF, and those of a
 * "world" vocabulary become literals. Return the number of bytes
 * written to `made`. */
static size_t set_text(struct vocab_lists *l, const struct tokenizer *t, size_t id, char *made)
{
    const struct piece *p = &t->piece[id];
    char quote;
    l->text[id] = p->text, l->len[id] = p->n_text;
    if (t->kind == &token_kind_longest && p->kind == PIECE_NORMAL)
        return l->text[id] = made, l->len[id] = literal_write(made, &quote, p->text, p->n_text);
    if (t->kind != &token_kind_wordpiece || p->kind != PIECE_NORMAL) return 0;
    if (is_inner(t, p)) {
        const size_t n = strlen(t->opt.inner_prefix);
        l->text[id] += n, l->len[id] -= n;
        return 0;
    }
    memcpy(made, SPACE_MARK, SPACE_MARK_BYTES);
    memcpy(made + SPACE_MARK_BYTES, p->text, p->n_text);
    l->text[id] = made, l->len[id] = SPACE_MARK_BYTES + (size_t)p->n_text;
    return l->len[id];
}

/* Add the tokens and their types. An id without a piece becomes an unused token with a unique text,
 * because some readers require distinct texts. */
static int put_pieces(struct checkpoint *out, const struct tokenizer *t, size_t n, struct err *e)
{
    enum { PAD_BYTES = 24 };
    struct vocab_lists l;
    size_t n_byte = n * PAD_BYTES;
    for (size_t id = 0; id < t->n_piece; id++)
        n_byte += LITERAL_BYTE_MAX * (size_t)t->piece[id].n_text;
    int rc = lists_open(&l, n, n_byte) ? 0 : err_memory(e, "the vocabulary", n);
    char *text = l.made;
    for (size_t id = 0; id < n && rc == 0; id++) {
        const struct piece *p = id < t->n_piece ? &t->piece[id] : NULL;
        if (p && p->kind) {
            text += set_text(&l, t, id, text);
            l.type[id] = kind_of(t, id);
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

/* Add the list of ends, as the folder has it, so that eog.def adds no ends and a conversion back
 * gives the same list. A folder that lists no ends has no list. */
static int put_end_list(struct checkpoint *out, const struct tokenizer *t,
                        const struct checkpoint *c, struct err *e)
{
    static const char key[] = "tokenizer.ggml.eos_token_ids";
    const struct meta *list = checkpoint_meta(c, key);
    struct ids ids = {0};
    bool ok = true;
    if (!t->ends_listed) return 0;
    for (size_t i = 0; i < meta_count(list) && ok; i++) {
        const int64_t id = meta_item_int(list, i, -1);
        if (id >= 0 && (uint64_t)id < t->n_piece) ok = vec_push(&ids, (int32_t)id);
    }
    if (meta_count(list) == 0 && t->eos >= 0) ok = vec_push(&ids, t->eos);
    const int rc = !ok         ? err_memory(e, key, meta_count(list))
                   : ids.n > 0 ? checkpoint_add_ints(out, key, ids.v, ids.n, e)
                               : 0;
    vec_deinit(&ids);
    return rc;
}

/* Add the ids that end a generation. llama.cpp reads two of these ids in addition to EOS. */
static int put_ends(struct checkpoint *out, const struct tokenizer *t, const struct checkpoint *c,
                    struct err *e)
{
    static const char *const other[] = {"eot_token_id", "eom_token_id"};
    size_t n_other = 0;
    int rc = 0;
    for (size_t id = 0; id < t->n_piece && rc == 0; id++)
        if (t->piece[id].ends && (int32_t)id != t->eos && n_other < 2)
            rc = put_id(out, other[n_other++], (int64_t)id, e);
    return rc ? rc : put_end_list(out, t, c, e);
}

/* Return true if the n ids are `count` copies of id. */
static bool is_times(const int32_t *ids, int n, int count, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] != id) return false;
    return n == count;
}

/* Add the ids around a text. GGUF has keys for BOS, EOS and one or two separators of pairs.
 * Wordpiece always has CLS and SEP. */
static int put_affixes(struct checkpoint *out, const struct tokenizer *t,
                       const struct checkpoint *c, struct err *e)
{
    const bool words = t->kind == &token_kind_wordpiece;
    const int32_t bos = words && t->n_prefix ? t->prefix[0] : t->bos,
                  eos = words && t->n_suffix ? t->suffix[0] : t->eos;
    const bool first = is_times(t->prefix, t->n_prefix, 1, bos),
               last = is_times(t->suffix, t->n_suffix, 1, eos),
               two = last && is_times(t->between, t->n_between, 2, eos),
               one = last && is_times(t->between, t->n_between, 1, eos);
    if ((t->n_prefix > 0 && !first) || (t->n_suffix > 0 && !last) || (words && !(first && one)))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s/tokenizer.json: post_processor: must add %s: GGUF has no keys for other "
                       "tokens",
                       checkpoint_dir(c),
                       words ? "CLS before a text, and SEP after each"
                             : "BOS before a text and EOS after it, or nothing");
    int rc = put_id(out, "bos_token_id", bos, e);
    if (words) {
        if (rc == 0) rc = put_id(out, "cls_token_id", bos, e);
        return rc ? rc : put_id(out, "seperator_token_id", eos, e);
    }
    if (rc == 0) rc = put_id(out, "eos_token_id", eos, e);
    if (rc == 0) rc = checkpoint_add_bool(out, "tokenizer.ggml.add_bos_token", first, e);
    if (rc == 0) rc = checkpoint_add_bool(out, "tokenizer.ggml.add_eos_token", last, e);
    const bool bpe = t->kind == &token_kind_bpe, pairs = two || (one && bpe);
    if (rc == 0 && pairs) rc = put_id(out, "seperator_token_id", eos, e);
    if (rc == 0 && bpe) rc = checkpoint_add_bool(out, "tokenizer.ggml.add_sep_token", pairs, e);
    if (t->n_between > 0 && !pairs)
        log_warn("%s/tokenizer.json: the tokens between two texts have no key in a GGUF; pairs of "
                 "texts get other ids",
                 checkpoint_dir(c));
    return rc;
}

/* Add the ids of special tokens, and the flags that add BOS and EOS to each text. */
static int put_ids(struct checkpoint *out, const struct tokenizer *t, const struct checkpoint *c,
                   struct err *e)
{
    int32_t pad = -1, mask = -1;
    int rc = put_affixes(out, t, c, e);
    if (rc == 0) rc = hf_token_id(t, checkpoint_dir(c), "pad_token", &pad, e);
    if (rc == 0) rc = hf_token_id(t, checkpoint_dir(c), "mask_token", &mask, e);
    if (rc == 0) rc = put_id(out, "unknown_token_id", t->unk, e);
    /* the key may be that of a classifier (model/to_gguf_keys.c) */
    if (rc == 0 && !checkpoint_meta(out, "tokenizer.ggml.padding_token_id"))
        rc = put_id(out, "padding_token_id",
                    meta_int(checkpoint_meta(c, "tokenizer.ggml.padding_token_id"), pad), e);
    if (rc == 0) rc = put_id(out, "mask_token_id", mask, e);
    return rc ? rc : put_ends(out, t, c, e);
}

/* Log the features for which GGUF files of this kind have no keys. */
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
    if (t->opt.raw_bytes || t->opt.merges_by_rank)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: a list of ranks (tiktoken) has no merges, which GGUF requires; use the "
                       "model's tokenizer.json",
                       checkpoint_dir(c));
    /* the reader derives the separators of pairs from the family */
    if (family && t->n_between == 1 && tokenizer_is_family(t, "modern-bert"))
        family = "modern-bert";
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
 * has one score per piece, so a later merge that makes the same piece gets the same rank. The
 * merges that make a piece must be consecutive, except for runs of one character: the order of
 * their merges has no effect. The caller compares the ids of texts. */
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

/* Add the scores. Pieces that are not the result of a merge have the lowest score. */
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

/* Add the scores of the pieces. Ids without a piece have a low score. */
static int put_own_scores(struct checkpoint *out, const struct tokenizer *t, size_t n,
                          struct err *e)
{
    const float lowest = -1e4f;
    float *score = malloc((n + 1) * sizeof *score);
    if (!score) return err_memory(e, "scores", n * sizeof *score);
    for (size_t i = 0; i < n; i++)
        score[i] = i < t->n_piece && t->piece[i].kind ? (float)t->piece[i].score : lowest;
    const int rc = checkpoint_add_floats(out, "tokenizer.ggml.scores", score, n, e);
    free(score);
    return rc;
}

static bool is_text(const char *p, size_t n, const char *text)
{
    return p && n == strlen(text) && memcmp(p, text, n) == 0;
}

/* Return true if the steps before the model are SentencePiece's: spaces become "▁". Set *prefix to
 * true if a "▁" is put before the text. A split at spaces, as in Gemma's file, has no effect,
 * because no spaces are left. */
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

/* Return true if the steps are those of a SentencePiece file and GGUF has keys for them. */
static bool is_sentencepiece_file(const struct tokenizer *t, bool *prefix)
{
    const struct norm_step *s = t->norm.v;
    *prefix = t->norm.n == 1 && s->flags & SP_PREFIX;
    return t->norm.n == 1 && s->run == norm_sentencepiece && !s->charsmap &&
           (s->flags & (SP_ESCAPE | SP_TRIM)) == SP_ESCAPE && t->pretok.n == 0;
}

static int put_spm(struct checkpoint *out, struct tokenizer *t, const struct checkpoint *c,
                   const char *path, size_t n, struct err *e)
{
    bool prefix;
    const bool scored = t->opt.merges_by_score;
    if (!(scored ? is_sentencepiece_file(t, &prefix) : is_sentencepiece(t, &prefix)) ||
        t->opt.ignore_merges || t->opt.drop_lead_space != prefix)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: normalizer and pre_tokenizer: must replace spaces as SentencePiece "
                       "does; GGUF has no keys for other steps",
                       path);
    warn_losses(t, c);
    int rc = checkpoint_add_text(out, "tokenizer.ggml.model", "llama", 5, e);
    if (rc == 0) rc = checkpoint_add_text(out, "tokenizer.ggml.pre", "default", 7, e);
    if (rc == 0) rc = checkpoint_add_bool(out, "tokenizer.ggml.add_space_prefix", prefix, e);
    if (rc != 0) return rc;
    return scored ? put_own_scores(out, t, n, e) : put_scores(out, t, path, n, e);
}

/* Return the part whose steps are not SentencePiece's, static; NULL if all are. The steps have a
 * charsmap, remove blanks at the ends and runs of blanks (*trim), and put "\u2581" for spaces and
 * before the text (*prefix). */
static const char *other_unigram(const struct tokenizer *t, const struct charsmap **map, bool *trim,
                                 bool *prefix)
{
    size_t k = 0;
    *map = NULL, *trim = false;
    if (t->norm.n == 1 && t->norm.v[0].run == norm_sentencepiece) { /* a SentencePiece file */
        const struct norm_step *s = t->norm.v;
        *map = s->charsmap, *trim = s->flags & SP_TRIM, *prefix = s->flags & SP_PREFIX;
        return s->flags & SP_ESCAPE ? t->pretok.n == 0 ? NULL : "pre_tokenizer" : "normalizer";
    }
    for (size_t i = 0; i < t->norm.n; i++) {
        const struct norm_step *s = &t->norm.v[i];
        const bool first = i == 0 && s->charsmap;
        if (first)
            *map = s->charsmap;
        else if (s->run == norm_find("Strip") || (s->run == norm_replace && s->regex))
            *trim = true;
        else
            return "normalizer";
    }
    const struct pretok_step *p = t->pretok.v;
    if (t->pretok.n == 2 && p->kind == PRETOK_SPLIT && p->how == SPLIT_REMOVED && !p->invert &&
        strcmp(p->pattern, "\\s") == 0)
        *trim = true, k = 1;
    if (t->pretok.n != k + 1 || p[k].kind != PRETOK_METASPACE) return "pre_tokenizer";
    *prefix = p[k].always || p[k].first;
    return NULL;
}

static int put_unigram(struct checkpoint *out, const struct tokenizer *t, const char *path,
                       size_t n, struct err *e)
{
    const struct charsmap *map;
    bool trim, prefix;
    struct buf blob = {0};
    const char *other = other_unigram(t, &map, &trim, &prefix);
    if (!other && t->opt.byte_fallback) other = "model.byte_fallback";
    if (!other && t->unk < 0) other = "model.unk_id";
    if (other)
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s: %s: must be that of SentencePiece's unigram model; GGUF has no keys for "
            "others",
            path, other);
    int rc = checkpoint_add_text(out, "tokenizer.ggml.model", "t5", 2, e);
    if (rc == 0) rc = checkpoint_add_text(out, "tokenizer.ggml.pre", "default", 7, e);
    if (rc == 0) rc = checkpoint_add_bool(out, "tokenizer.ggml.add_space_prefix", prefix, e);
    if (rc == 0) rc = checkpoint_add_bool(out, "tokenizer.ggml.remove_extra_whitespaces", trim, e);
    if (map) charsmap_put(map, &blob);
    if (rc == 0 && blob.failed) rc = err_memory(e, "a charsmap", blob.n);
    if (rc == 0 && map)
        rc = checkpoint_add_bytes(out, "tokenizer.ggml.precompiled_charsmap", blob.data, blob.n, e);
    buf_deinit(&blob);
    return rc ? rc : put_own_scores(out, t, n, e);
}

/* Return true if the steps are BERT's. */
static bool is_bert(const struct tokenizer *t)
{
    const struct pretok_step *p = t->pretok.v;
    const unsigned always = BERT_CLEAN | BERT_CJK;
    return t->norm.n == 1 && t->norm.v[0].run == norm_bert &&
           (t->norm.v[0].flags & always) == always && t->pretok.n == 2 &&
           p[0].kind == PRETOK_SPLIT && p[0].how == SPLIT_REMOVED && !p[0].invert &&
           p[1].kind == PRETOK_SPLIT && p[1].how == SPLIT_ISOLATED && !p[1].invert;
}

static int put_wordpiece(struct checkpoint *out, const struct tokenizer *t, const char *path,
                         struct err *e)
{
    if (!is_bert(t) || t->opt.word_chars_max != 100 || !*t->opt.inner_prefix)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: normalizer, pre_tokenizer and model: must be BERT's, with words of at "
                       "most 100 characters; GGUF has no keys for other steps",
                       path);
    const unsigned flags = t->norm.v[0].flags;
    int rc = checkpoint_add_text(out, "tokenizer.ggml.model", "bert", 4, e);
    if (rc == 0) rc = checkpoint_add_text(out, "tokenizer.ggml.pre", "default", 7, e);
    if (rc == 0)
        rc = checkpoint_add_bool(out, "tokenizer.ggml.normalizer.lowercase", flags & BERT_LOWER, e);
    if (rc == 0)
        rc = checkpoint_add_bool(out, "tokenizer.ggml.normalizer.strip_accents", flags & BERT_STRIP,
                                 e);
    /* a key of quoth; other readers ignore it */
    if (rc == 0 && !t->pair_segments)
        rc = checkpoint_add_bool(out, "tokenizer.ggml.pair_segments", false, e);
    return rc;
}

static int put_longest(struct checkpoint *out, const struct tokenizer *t, const char *path,
                       struct err *e)
{
    for (size_t id = 0; id < t->n_piece; id++)
        if (t->piece[id].listed)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: the added token %zu must not be in the vocabulary; GGUF has one "
                           "type per token",
                           path, id);
    return checkpoint_add_text(out, "tokenizer.ggml.model", "rwkv", 4, e);
}

static int put_kind(struct checkpoint *out, struct tokenizer *t, const struct checkpoint *c,
                    const char *path, size_t n, struct err *e)
{
    if (t->kind == &token_kind_bpe) return put_bpe(out, t, c, e);
    if (t->kind == &token_kind_spm) return put_spm(out, t, c, path, n, e);
    if (t->kind == &token_kind_unigram) return put_unigram(out, t, path, n, e);
    if (t->kind == &token_kind_longest) return put_longest(out, t, path, e);
    return put_wordpiece(out, t, path, e);
}

int tokenizer_put_gguf(struct checkpoint *out, const struct checkpoint *c, int n_vocab,
                       struct err *e)
{
    char path[4096];
    const char *dir = checkpoint_dir(c);
    struct tokenizer *t = tokenizer_open_empty();
    int rc = t ? 0 : err_memory(e, "the tokenizer", sizeof *t);
    if (rc == 0) rc = tokenizer_read(t, c, e);
    if (rc == 0 && (!path_join(path, sizeof path, dir, "tokenizer.json") || !file_exists(path)))
        snprintf(path, sizeof path, "%.4000s", dir);
    if (rc == 0 && t->n_piece > (size_t)n_vocab)
        rc = err_set(e, ERR_FORMAT, "%s: must have at most %d tokens, got %zu", path, n_vocab,
                     t->n_piece);
    if (rc == 0 && t->lowers)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: do_lower_case of sentence-transformers: has no key in a GGUF", dir);
    if (rc == 0) rc = put_kind(out, t, c, path, (size_t)n_vocab, e);
    if (rc == 0) rc = put_pieces(out, t, (size_t)n_vocab, e);
    if (rc == 0) rc = put_ids(out, t, c, e);
    tokenizer_close(t);
    return rc;
}
