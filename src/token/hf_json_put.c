/* hf_json_put.c - a GGUF's tokenizer -> tokenizer.json and tokenizer_config.json, the inverse of
 * gguf_vocab_put.c. Only byte-level BPE. */
#include "token_impl.h"

#include <stdio.h>
#include <string.h>

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

/* Append the splits of the family, and a ByteLevel without one of its own. */
static int put_pretok(struct buf *b, const char *family, struct err *e)
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

/* Append a TemplateProcessing that adds BOS before a text. */
static void put_post(struct buf *b, const struct tokenizer *t)
{
    const struct piece *bos = t->n_prefix ? &t->piece[t->prefix[0]] : NULL;
    if (!bos) {
        buf_add_text(b, "\"post_processor\":null,\n");
        return;
    }
    buf_add_text(b, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
                    "\"SpecialToken\":{\"id\":");
    json_put_text(b, bos->text, bos->n_text);
    buf_add_text(b, ",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{"
                    "\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\","
                    "\"type_id\":1}}],\"special_tokens\":{");
    json_put_text(b, bos->text, bos->n_text);
    buf_add_text(b, ":{\"id\":");
    json_put_text(b, bos->text, bos->n_text);
    buf_addf(b, ",\"ids\":[%d],\"tokens\":[", (int)t->prefix[0]);
    json_put_text(b, bos->text, bos->n_text);
    buf_add_text(b, "]}}},\n");
}

static void put_model(struct buf *b, const struct checkpoint *c, const struct tokenizer *t,
                      size_t n_token)
{
    const char *comma = "";
    const struct meta *merges = field(c, "merges");
    buf_addf(b,
             "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
             "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
             "\"byte_fallback\":false,\"ignore_merges\":%s,\"vocab\":{",
             t->opt.ignore_merges ? "true" : "false");
    for (size_t id = 0; id < n_token; id++) {
        size_t n;
        const char *text = meta_item_text(field(c, "tokens"), id, &n);
        if (!text || is_added(kind_at(c, id))) continue;
        buf_add_text(b, comma);
        json_put_text(b, text, n);
        buf_addf(b, ":%zu", id);
        comma = ",";
    }
    buf_add_text(b, "},\"merges\":[");
    for (size_t i = 0; i < meta_count(merges); i++) {
        size_t n;
        const char *text = meta_item_text(merges, i, &n);
        if (i) buf_add_char(b, ',');
        json_put_text(b, text ? text : "", text ? n : 0);
    }
    buf_add_text(b, "]}}\n");
}

static void put_named(struct buf *b, const char *name, const struct tokenizer *t, int32_t id)
{
    if (id < 0) return;
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

int tokenizer_put_hf(struct buf *json, struct buf *config, const struct checkpoint *c,
                     struct err *e)
{
    struct tokenizer *t;
    const char *model = meta_text(field(c, "model"), NULL), *pre = meta_text(field(c, "pre"), NULL);
    int rc = tokenizer_open(&t, c, e);
    if (rc != 0) return rc;
    if (!model || strcmp(model, "gpt2") != 0 || t->kind != &token_kind_bpe || t->n_suffix > 0 ||
        t->n_between > 0)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: tokenizer.ggml.model \"%.40s\": conversion to tokenizer.json is not "
                     "supported yet; only byte-level BPE without added EOS is",
                     checkpoint_path(c), model ? model : "");
    buf_add_text(json, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
    if (rc == 0) put_added(json, c, t->n_piece);
    buf_add_text(json, "\"normalizer\":null,\n");
    if (rc == 0) rc = put_pretok(json, pre ? pre : "default", e);
    if (rc == 0) put_post(json, t);
    buf_add_text(json, "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                       "\"trim_offsets\":true,\"use_regex\":true},\n");
    if (rc == 0) put_model(json, c, t, t->n_piece);
    buf_add_text(config, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\","
                         "\"clean_up_tokenization_spaces\":false");
    put_named(config, "bos_token", t, t->bos);
    put_named(config, "eos_token", t, t->eos);
    put_templates(config, c);
    buf_add_text(config, "}\n");
    tokenizer_close(t);
    return rc == 0 && (json->failed || config->failed) ? err_memory(e, "tokenizer.json", json->n)
                                                       : rc;
}
