/* plain_vocab.c - vocabularies as plain lists: vocab.json (or encoder.json) + merges.txt, and
 * BERT's vocab.txt.
 *
 * The first form is GPT-2's byte-level BPE. The second form is WordPiece with one piece per line.
 * The lists have no steps and no special tokens. These come from the class and the keys of the
 * folder's configuration files (hf_class.c), with the defaults of transformers. */
#include "token_impl.h"

#include "base/text.h"

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

/* Append the steps that split a text into words. ByteLevel puts a blank before the text if
 * add_prefix_space is set; behind the split of Qwen2 it puts a blank before each word. */
static int add_words(struct tokenizer *t, const struct hf_files *f, const char *hint, struct err *e)
{
    const bool qwen2 = f->form == FORM_QWEN2;
    const bool space = json_bool(json_field(f->config, "add_prefix_space"), false);
    bool ok = !qwen2 || tokenizer_add_norm(t, norm_find("NFC"));
    if (ok && space && !qwen2) ok = tokenizer_add_pretok(t, PRETOK_SPACE);
    int rc = tokenizer_add_family(t, hint ? hint : qwen2 ? "qwen2" : "gpt-2", e);
    if (ok && space && qwen2) ok = tokenizer_add_pretok(t, PRETOK_SPACE);
    return ok || rc != 0 ? rc : err_memory(e, "the steps of a tokenizer", 1);
}

/* Set the special tokens of RoBERTa and BART: <s> A </s></s> B </s>. */
static void set_roberta_tokens(struct tokenizer *t, const struct hf_files *f)
{
    t->bos = hf_named_mark(t, f, "bos_token", "<s>");
    t->eos = hf_named_mark(t, f, "eos_token", "</s>");
    hf_named_mark(t, f, "unk_token", "<unk>");
    hf_named_mark(t, f, "pad_token", "<pad>");
    hf_named_mark(t, f, "mask_token", "<mask>");
    const int32_t sep = hf_named_mark(t, f, "sep_token", "</s>");
    hf_affix_add(t, true, hf_named_mark(t, f, "cls_token", "<s>"));
    hf_affix_add(t, false, sep);
    for (int i = 0; i < 2; i++) hf_between_add(t, sep);
}

/* Read vocab.json and merges.txt. <|endoftext|> is the special token of all classes except
 * RoBERTa's. */
static int read_gpt2(struct tokenizer *t, const char *path, const char *hint, struct err *e)
{
    char merges[4096], dir[4096];
    bool found = false;
    struct hf_files f;
    token_folder(dir, path);
    int rc = hf_files_open(&f, dir, e);
    if (rc == 0) rc = token_file(merges, &found, dir, "merges.txt", e);
    if (rc == 0 && !found)
        rc = err_set(e, ERR_MISSING, "%s: merges.txt not found in its folder", path);
    if (rc == 0) rc = add_words(t, &f, hint, e);
    if (rc == 0) rc = read_vocab(t, path, e);
    if (rc == 0) rc = lines_read(t, merges, merge_line, e);
    t->kind = &token_kind_bpe;
    t->opt.byte_level = true;
    if (rc == 0 && f.form == FORM_ROBERTA)
        set_roberta_tokens(t, &f);
    else if (rc == 0)
        t->eos = hf_special_mark(t, "<|endoftext|>");
    if (rc == 0 && f.form == FORM_GPT2 && !hf_files_field(&f, "bos_token")) t->bos = t->eos;
    hf_files_close(&f);
    return rc;
}

/* Read a line of vocab.txt. The order of the lines gives the ids. */
static int piece_line(struct tokenizer *t, const char *p, size_t n, struct err *e)
{
    return tokenizer_put(t, t->n_piece, p, n, PIECE_NORMAL, 0, e);
}

/* Append the normalizer of BERT with the settings of the configuration. */
static int add_bert_steps(struct tokenizer *t, const struct hf_files *f, struct err *e)
{
    struct norm_step *s = tokenizer_add_norm(t, norm_bert);
    if (!s) return err_memory(e, "a normalizer", sizeof *s);
    s->flags = BERT_CLEAN | hf_bert_flags(f);
    return tokenizer_add_bert_words(t, e);
}

/* Set the special tokens of MPNet: <s> A </s></s> B </s>. */
static void set_mpnet_tokens(struct tokenizer *t, const struct hf_files *f)
{
    t->unk = hf_named_mark(t, f, "unk_token", "[UNK]");
    hf_named_mark(t, f, "pad_token", "<pad>");
    const int32_t mask = hf_named_mark(t, f, "mask_token", "<mask>");
    if (mask >= 0 && t->piece[mask].match) t->piece[mask].match |= MATCH_LSTRIP;
    const int32_t sep = hf_named_mark(t, f, "sep_token", "</s>");
    hf_affix_add(t, true, hf_named_mark(t, f, "cls_token", "<s>"));
    hf_affix_add(t, false, sep);
    for (int i = 0; i < 2; i++) hf_between_add(t, sep);
}

/* Set the special tokens of BERT: [CLS] A [SEP] B [SEP]. */
static void set_bert_tokens(struct tokenizer *t, const struct hf_files *f)
{
    t->unk = hf_named_mark(t, f, "unk_token", "[UNK]");
    hf_named_mark(t, f, "pad_token", "[PAD]");
    hf_named_mark(t, f, "mask_token", "[MASK]");
    const int32_t sep = hf_named_mark(t, f, "sep_token", "[SEP]");
    hf_affix_add(t, true, hf_named_mark(t, f, "cls_token", "[CLS]"));
    hf_affix_add(t, false, sep);
    hf_between_add(t, sep);
    t->pair_segments = true;
}

/* Read vocab.txt. */
static int read_bert(struct tokenizer *t, const char *path, struct err *e)
{
    struct hf_files f = {0};
    int rc = lines_read(t, path, piece_line, e);
    if (rc == 0 && t->n_piece > 0 && strncmp(t->piece[0].text, "b'", 2) == 0) /* of RWKV-5 */
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: literals of Python: not supported yet without ids; use "
                     "rwkv_vocab_v20230424.txt",
                     path);
    if (rc == 0) rc = hf_files_open_of(&f, path, e);
    if (rc == 0) rc = add_bert_steps(t, &f, e);
    t->kind = &token_kind_wordpiece;
    t->opt.inner_prefix = "##";
    t->opt.word_chars_max = 100;
    t->opt.drop_lead_space = t->opt.word_cleanup = true;
    if (rc == 0 && f.form == FORM_MPNET)
        set_mpnet_tokens(t, &f);
    else if (rc == 0)
        set_bert_tokens(t, &f);
    hf_files_close(&f);
    return rc;
}

/* Read a plain vocabulary. The file's extension determines its form. */
int plain_vocab_read(struct tokenizer *t, const char *path, const char *hint, struct err *e)
{
    return text_ends_with(path, ".json") ? read_gpt2(t, path, hint, e) : read_bert(t, path, e);
}
