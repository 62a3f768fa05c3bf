/* plain_vocab.c - vocabularies as plain lists: vocab.json (or encoder.json) + merges.txt, and
 * BERT's vocab.txt.
 *
 * The first form is GPT-2's byte-level BPE. The pre-tokenizer comes from the hint, or from the
 * class in tokenizer_config.json. The second form is WordPiece with one piece per line. */
#include "token_impl.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 256 << 20 };

/* Read a line of merges.txt. The first line of merges.txt is a version, "#version: 0.2". */
static int merge_line(struct tokenizer *t, const char *p, size_t n, struct err *e)
{
    static const char version[] = "#version";
    if (n >= sizeof version - 1 && memcmp(p, version, sizeof version - 1) == 0) return 0;
    return tokenizer_put_merge_line(t, p, n) ? 0 : err_memory(e, "merges", n);
}

/* Read {"piece": id, ...}. */
static int read_vocab(struct tokenizer *t, const char *path, struct err *e)
{
    struct json *j;
    int rc = json_read_file(&j, path, FILE_BYTES_MAX, e);
    if (rc != 0) return rc;
    for (void *it = json_first(j); it && rc == 0; it = json_next(j, it)) {
        char value[80];
        size_t n;
        const char *text = json_it_key(it, &n);
        int64_t id = json_int(json_it_value(it), -1);
        rc = id < 0 ? err_set(e, ERR_FORMAT, "%s: the id of \"%.40s\": must be at least 0, got %s",
                              path, text, json_value_text(json_it_value(it), value))
                    : tokenizer_put(t, (size_t)id, text, n, PIECE_NORMAL, 0, e);
    }
    json_drop(j);
    return rc;
}

/* Set *family to the family of a tokenizer class of transformers. */
static int family_of_class(const char **family, const char *dir, struct err *e)
{
    static const char *const table[][2] = {{"Qwen2Tokenizer", "qwen2"},
                                           {"Qwen2TokenizerFast", "qwen2"}};
    char path[4096];
    struct json *j = NULL;
    bool found = false;
    *family = "gpt-2";
    int rc = token_file(path, &found, dir, "tokenizer_config.json", e);
    if (rc == 0 && found) rc = json_read_file(&j, path, FILE_BYTES_MAX, e);
    if (rc != 0) return rc;
    const char *name = json_text(json_field(j, "tokenizer_class"), NULL);
    for (size_t i = 0; name && i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i][0], name) == 0) *family = table[i][1];
    json_drop(j);
    return 0;
}

/* Mark a piece as special, because these lists have no field for special pieces. Return the id of
 * the piece; -1 if not found. */
static int32_t mark_special(struct tokenizer *t, const char *text)
{
    int32_t id = tokenizer_scan(t, text);
    if (id < 0) return id;
    t->piece[id].kind = PIECE_CONTROL;
    t->piece[id].match = MATCH_RAW;
    t->piece[id].special = true;
    return id;
}

/* Read vocab.json and merges.txt. The only special token of these files is <|endoftext|>. */
static int read_gpt2(struct tokenizer *t, const char *path, const char *dir, const char *hint,
                     struct err *e)
{
    char merges[4096];
    bool found = false;
    int rc = token_file(merges, &found, dir, "merges.txt", e);
    if (rc == 0 && !found)
        rc = err_set(e, ERR_MISSING, "%s: merges.txt not found in its folder", path);
    if (rc == 0 && !hint) rc = family_of_class(&hint, dir, e);
    if (rc == 0) rc = tokenizer_add_family(t, hint, e);
    if (rc == 0) rc = read_vocab(t, path, e);
    if (rc == 0) rc = lines_read(t, merges, merge_line, e);
    t->kind = &token_kind_bpe;
    t->opt.byte_level = true;
    t->eos = mark_special(t, "<|endoftext|>");
    return rc;
}

/* Read a line of vocab.txt. The order of the lines gives the ids. */
static int piece_line(struct tokenizer *t, const char *p, size_t n, struct err *e)
{
    return tokenizer_put(t, t->n_piece, p, n, PIECE_NORMAL, 0, e);
}

/* Read vocab.txt. The options are those of bert-base-uncased, because a vocab.txt has no
 * options. */
static int read_bert(struct tokenizer *t, const char *path, struct err *e)
{
    int rc = lines_read(t, path, piece_line, e);
    if (rc != 0) return rc;
    if (t->n_piece > 0 && strncmp(t->piece[0].text, "b'", 2) == 0) /* of RWKV-5 */
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: literals of Python: not supported yet without ids; use "
                       "rwkv_vocab_v20230424.txt",
                       path);
    t->kind = &token_kind_wordpiece;
    t->opt.inner_prefix = "##";
    t->opt.word_chars_max = 100;
    t->opt.drop_lead_space = t->opt.word_cleanup = true;
    t->unk = mark_special(t, "[UNK]");
    mark_special(t, "[PAD]");
    mark_special(t, "[MASK]");
    int32_t cls = mark_special(t, "[CLS]"), sep = mark_special(t, "[SEP]");
    if (cls >= 0) t->prefix[t->n_prefix++] = cls;
    if (sep >= 0) t->suffix[t->n_suffix++] = t->between[t->n_between++] = sep;
    t->pair_segments = true;
    struct norm_step *s = tokenizer_add_norm(t, norm_bert);
    if (!s) return err_memory(e, "a normalizer", sizeof *s);
    s->flags = BERT_CLEAN | BERT_CJK | BERT_LOWER | BERT_STRIP;
    return tokenizer_add_bert_words(t, e);
}

/* Read a plain vocabulary. The file's extension determines its form. */
int plain_vocab_read(struct tokenizer *t, const char *path, const char *hint, struct err *e)
{
    char dir[4096];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return text_ends_with(path, ".json") ? read_gpt2(t, path, dir, hint, e) : read_bert(t, path, e);
}
