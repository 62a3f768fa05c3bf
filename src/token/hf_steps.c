/* hf_steps.c - the "normalizer", "pre_tokenizer" and "decoder" of a tokenizer.json.
 *
 * Sequences are flattened into the tokenizer's lists of steps. A decoder is converted to options,
 * because quoth decodes token by token. The usual decoders define only the bytes of a piece and the
 * removal of a leading space.
 *
 *   text --normalizer steps--> text --pre-tokenizer steps--> words --model--> ids
 *                                                            ids --options of the decoder--> bytes
 *
 * An unknown normalizer or pre-tokenizer is an error, because it would change ids. An unknown
 * decoder is an error, because it would change texts. Defaults of absent fields are those of
 * Hugging Face's tokenizers library. */
#include "token_impl.h"

#include "base/base64.h"

#include <stdlib.h>
#include <string.h>

enum { PRETOK_STEPS_MAX = 32 };

/* Return the field "type"; "" if the object has no type. */
const char *hf_type(const struct json *j)
{
    const char *type = json_text(json_field(j, "type"), NULL);
    return type ? type : "";
}

bool hf_step_absent(const struct json *j)
{
    return json_kind(j) == JK_NONE || json_kind(j) == JK_NULL;
}

int hf_step_check(const struct json *j, const char *name, struct err *e)
{
    char value[80];
    if (json_kind(j) == JK_OBJECT) return 0;
    return err_set(e, ERR_FORMAT, "%s: expected an object, got %s", name,
                   json_value_text(j, value));
}

/* Return a bool of j; `fallback` if it is absent. */
static bool flag(const struct json *j, const char *key, bool fallback)
{
    return json_bool(json_field(j, key), fallback);
}

/* Copy a required text field. */
static int text_field(const char **out, size_t *n, struct tokenizer *t, const struct json *j,
                      const char *key, struct err *e)
{
    const char *text = json_text(json_field(j, key), n);
    *out = arena_text(&t->arena, text, *n);
    return *out ? 0 : err_memory(e, key, *n);
}

/* Append a pattern that matches exactly this text. */
static void quote_pattern(struct buf *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        bool plain = c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        if (c < 0x20)
            buf_addf(out, "\\x%02x", c);
        else
            buf_addf(out, plain ? "%c" : "\\%c", c);
    }
}

/* Read {"Regex": ...} or {"String": ...} as a pattern. Return false if j has neither form. */
static bool read_pattern(const struct json *j, struct buf *out, bool *literal)
{
    size_t n;
    const char *text = json_text(json_field(j, "Regex"), &n);
    *literal = !text;
    if (text) return buf_add(out, text, n), true;
    text = json_text(json_field(j, "String"), &n);
    if (text) quote_pattern(out, text, n);
    return text != NULL;
}

/* Reject a step that would change text in the byte alphabet, because quoth uses the alphabet for
 * pieces only: a step before ByteLevel sees the text itself. */
static int after_bytes(const char *kind, const char *type, struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED, "%s %.60s after ByteLevel: not supported yet", kind, type);
}

/* ---- normalizer ---- */

/* Read a pattern. A Regex is compiled. A String is searched as text, without the regex engine. */
static int norm_pattern(struct tokenizer *t, struct norm_step *s, const struct json *j,
                        struct err *e)
{
    const struct json *pattern = json_field(j, "pattern");
    struct buf text = {0};
    bool literal,
        ok = read_pattern(pattern, &text, &literal) && json_text(json_field(j, "content"), NULL);
    int rc = ok ? 0
                : err_set(e, ERR_FORMAT,
                          "normalizer Replace: expected a pattern and content, got %s and %s",
                          json_kind_name(json_kind(pattern)),
                          json_kind_name(json_kind(json_field(j, "content"))));
    if (rc == 0 && text.failed) rc = err_memory(e, "a pattern", text.n);
    if (rc == 0) rc = text_field(&s->b, &s->n_b, t, j, "content", e);
    if (rc == 0 && literal) rc = text_field(&s->a, &s->n_a, t, pattern, "String", e);
    if (rc == 0 && literal && s->n_a > NORM_SEARCH_BYTES_MAX)
        rc = err_set(e, ERR_LIMIT,
                     "normalizer Replace: pattern: must have at most %d bytes, got %zu",
                     NORM_SEARCH_BYTES_MAX, s->n_a);
    if (rc == 0 && !literal) rc = regex_open(&s->regex, text.data, text.n, e);
    buf_deinit(&text);
    return rc;
}

/* Read SentencePiece's precompiled map, in base64. Copy the decoded bytes to the arena. */
static int norm_charsmap(struct tokenizer *t, struct norm_step *s, const struct json *j,
                         struct err *e)
{
    struct buf blob = {0};
    size_t n;
    const char *text = json_text(json_field(j, "precompiled_charsmap"), &n);
    bool ok = text && base64_decode(text, n, &blob);
    int rc =
        ok ? 0
        : blob.failed
            ? err_memory(e, "a charsmap", n)
            : err_set(
                  e, ERR_FORMAT,
                  "normalizer Precompiled: precompiled_charsmap: expected a base64 string, got %s",
                  text ? "other text"
                       : json_kind_name(json_kind(json_field(j, "precompiled_charsmap"))));
    if (rc == 0) rc = charsmap_open(&s->charsmap, &t->arena, blob.data, blob.n, e);
    buf_deinit(&blob);
    return rc;
}

/* Read the fields of one step. Steps without fields, such as NFC, need none. BERT strips accents if
 * strip_accents is absent and it also lowers the case. */
static int norm_parameters(struct tokenizer *t, struct norm_step *s, const struct json *j,
                           struct err *e)
{
    const char *type = hf_type(j);
    if (strcmp(type, "Replace") == 0) return norm_pattern(t, s, j, e);
    if (strcmp(type, "Precompiled") == 0) return norm_charsmap(t, s, j, e);
    if (strcmp(type, "Prepend") == 0) {
        if (!json_text(json_field(j, "prepend"), NULL))
            return err_set(e, ERR_FORMAT, "normalizer Prepend: prepend: expected a string, got %s",
                           json_kind_name(json_kind(json_field(j, "prepend"))));
        return text_field(&s->a, &s->n_a, t, j, "prepend", e);
    }
    if (strcmp(type, "Strip") == 0)
        s->flags = (flag(j, "strip_left", true) ? STRIP_LEFT : 0) |
                   (flag(j, "strip_right", true) ? STRIP_RIGHT : 0);
    if (strcmp(type, "BertNormalizer") == 0) {
        bool lower = flag(j, "lowercase", true);
        s->flags = (flag(j, "clean_text", true) ? BERT_CLEAN : 0) | (lower ? BERT_LOWER : 0) |
                   (flag(j, "handle_chinese_chars", true) ? BERT_CJK : 0) |
                   (flag(j, "strip_accents", lower) ? BERT_STRIP : 0);
    }
    return 0;
}

/* Append the step, or the steps of a Sequence. ByteLevel as a normalizer only sets the alphabet. */
int hf_steps_norm(struct tokenizer *t, const struct json *j, struct err *e)
{
    const char *type = hf_type(j);
    if (hf_step_absent(j)) return 0;
    int rc = hf_step_check(j, "normalizer", e);
    if (rc != 0) return rc;
    if (strcmp(type, "Sequence") == 0) {
        const struct json *list = json_field(j, "normalizers");
        for (size_t i = 0; i < json_count(list) && rc == 0; i++)
            rc = hf_steps_norm(t, json_item(list, i), e);
        return rc;
    }
    if (t->opt.byte_level) return after_bytes("normalizer", type, e);
    if (strcmp(type, "ByteLevel") == 0) {
        t->opt.byte_level = true;
        return 0;
    }
    norm_fn *run = norm_find(type);
    if (!run) return err_set(e, ERR_UNSUPPORTED, "normalizer \"%.60s\": not supported yet", type);
    if (t->norm.n >= NORM_STEPS_MAX)
        return err_set(e, ERR_LIMIT, "the normalizer has more than %d steps", NORM_STEPS_MAX);
    struct norm_step *s = tokenizer_add_norm(t, run);
    if (!s) return err_memory(e, "a normalizer step", sizeof *s);
    return norm_parameters(t, s, j, e);
}

/* ---- pre-tokenizer ---- */

/* Read the behaviour of a split. The names have the order of enum split_how. */
static int read_behaviour(const struct json *j, enum split_how *how, struct err *e)
{
    static const char *const name[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                       "MergedWithNext"};
    const char *text = json_text(j, NULL);
    for (size_t i = 0; text && i < sizeof name / sizeof name[0]; i++) {
        if (strcmp(name[i], text) != 0) continue;
        *how = (enum split_how)i;
        return 0;
    }
    return err_set(e, ERR_UNSUPPORTED, "split behavior \"%.40s\": not supported yet",
                   text ? text : "");
}

static int add_split_text(struct tokenizer *t, const char *pattern, enum split_how how,
                          struct err *e)
{
    return tokenizer_add_split(t, pattern, strlen(pattern), how, e);
}

/* Read a Split. An empty pattern is legal. The splitter needs a regular expression, so read_pattern
 * quotes a String. */
static int pretok_split(struct tokenizer *t, const struct json *j, struct err *e)
{
    struct buf pattern = {0};
    char value[80];
    enum split_how how;
    bool literal;
    int rc = read_behaviour(json_field(j, "behavior"), &how, e);
    if (rc == 0 && !read_pattern(json_field(j, "pattern"), &pattern, &literal))
        rc = err_set(e, ERR_FORMAT,
                     "pre-tokenizer Split: pattern: expected a String or a Regex, got %s",
                     json_value_text(json_field(j, "pattern"), value));
    if (rc == 0 && pattern.failed) rc = err_memory(e, "a pattern", pattern.n);
    if (rc == 0) rc = tokenizer_add_split(t, pattern.n ? pattern.data : "", pattern.n, how, e);
    if (rc == 0) t->pretok.v[t->pretok.n - 1].invert = flag(j, "invert", false);
    buf_deinit(&pattern);
    return rc;
}

/* Read a ByteLevel. use_regex selects GPT-2's pattern. Newer files set use_regex to false and put a
 * Split before the ByteLevel. */
static int pretok_bytelevel(struct tokenizer *t, const struct json *j, struct err *e)
{
    if (t->opt.byte_level) return after_bytes("pre_tokenizer", "ByteLevel", e);
    if (flag(j, "add_prefix_space", true) && !tokenizer_add_pretok(t, PRETOK_SPACE))
        return err_memory(e, "a pre-tokenizer step", sizeof(struct pretok_step));
    t->opt.byte_level = true;
    return flag(j, "use_regex", true) ? tokenizer_add_family(t, "gpt-2", e) : 0;
}

/* Read a Metaspace. Older files have add_prefix_space, newer files prepend_scheme: always, first
 * (only the first word of the text) or never. */
static int pretok_metaspace(struct tokenizer *t, const struct json *j, struct err *e)
{
    const char *mark = json_text(json_field(j, "replacement"), NULL);
    const char *scheme = json_text(json_field(j, "prepend_scheme"), NULL);
    if (mark && strcmp(mark, SPACE_MARK) != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "pre-tokenizer Metaspace with \"%.20s\": not supported yet", mark);
    if (t->opt.byte_level) return after_bytes("pre_tokenizer", "Metaspace", e);
    struct pretok_step *s = tokenizer_add_pretok(t, PRETOK_METASPACE);
    if (!s) return err_memory(e, "a pre-tokenizer step", sizeof *s);
    if (!scheme) scheme = flag(j, "add_prefix_space", true) ? "always" : "never";
    s->always = strcmp(scheme, "always") == 0;
    s->first = strcmp(scheme, "first") == 0;
    s->cut = flag(j, "split", true);
    t->opt.space_mark = true;
    return 0;
}

/* Pattern for ASCII symbols and for category P as in Hugging Face's tokenizers
 * (unicode_lag.def). */
#define RANGE_MARK(first, last)
#define RANGE_NONSPACING(first, last)
#define RANGE_PUNCT(first, last) "\\x{" #first "}-\\x{" #last "}"
static const char punctuation[] = "(?!["
#define IS_NOT(class, first, last) RANGE_##class(first, last)
#define IS(class, first, last)
#include "unicode_lag.def"
#undef IS
#undef IS_NOT
                                  "])[\\p{P}!-/:-@\\[-`{-~"
#define IS_NOT(class, first, last)
#define IS(class, first, last) RANGE_##class(first, last)
#include "unicode_lag.def"
#undef IS
#undef IS_NOT
                                  "]";

int tokenizer_add_bert_words(struct tokenizer *t, struct err *e)
{
    int rc = add_split_text(t, "\\s", SPLIT_REMOVED, e);
    return rc == 0 ? add_split_text(t, punctuation, SPLIT_ISOLATED, e) : rc;
}

static int pretok_punctuation(struct tokenizer *t, const struct json *j, struct err *e)
{
    enum split_how how = SPLIT_ISOLATED;
    int rc = json_field(j, "behavior") ? read_behaviour(json_field(j, "behavior"), &how, e) : 0;
    return rc == 0 ? add_split_text(t, punctuation, how, e) : rc;
}

/* Read a Whitespace. The words are the matches, so the step removes all other text (invert). */
static int pretok_whitespace(struct tokenizer *t, const struct json *j, struct err *e)
{
    (void)j;
    int rc = add_split_text(t, "\\w+|[^\\w\\s]+", SPLIT_REMOVED, e);
    if (rc == 0) t->pretok.v[t->pretok.n - 1].invert = true;
    return rc;
}

static int pretok_whitespace_split(struct tokenizer *t, const struct json *j, struct err *e)
{
    (void)j;
    return add_split_text(t, "\\s", SPLIT_REMOVED, e);
}

static int pretok_bert(struct tokenizer *t, const struct json *j, struct err *e)
{
    (void)j;
    return tokenizer_add_bert_words(t, e);
}

static int pretok_digits(struct tokenizer *t, const struct json *j, struct err *e)
{
    return add_split_text(
        t, "\\p{N}", flag(j, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, e);
}

static int pretok_sequence(struct tokenizer *t, const struct json *j, struct err *e)
{
    const struct json *list = json_field(j, "pretokenizers");
    int rc = 0;
    for (size_t i = 0; i < json_count(list) && rc == 0; i++)
        rc = hf_steps_pretok(t, json_item(list, i), e);
    return rc;
}

/* Read the steps. Steps after ByteLevel see the text in GPT-2's alphabet, as in Hugging Face's code
 * (mapped). */
int hf_steps_pretok(struct tokenizer *t, const struct json *j, struct err *e)
{
    static const struct {
        const char *name; /* static */
        int (*read)(struct tokenizer *t, const struct json *j, struct err *e);
    } table[] = {
        {"Sequence", pretok_sequence},       {"Split", pretok_split},
        {"ByteLevel", pretok_bytelevel},     {"Metaspace", pretok_metaspace},
        {"Whitespace", pretok_whitespace},   {"WhitespaceSplit", pretok_whitespace_split},
        {"BertPreTokenizer", pretok_bert},   {"Digits", pretok_digits},
        {"Punctuation", pretok_punctuation},
    };
    if (hf_step_absent(j)) return 0;
    const int bad = hf_step_check(j, "pre_tokenizer", e);
    if (bad != 0) return bad;
    if (t->pretok.n >= PRETOK_STEPS_MAX)
        return err_set(e, ERR_LIMIT, "the pre-tokenizer has more than %d steps", PRETOK_STEPS_MAX);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].name, hf_type(j)) != 0) continue;
        bool mapped = t->opt.byte_level; /* text is in the byte alphabet after ByteLevel */
        size_t from = t->pretok.n;
        int rc = table[i].read(t, j, e);
        for (size_t k = from; i > 0 && mapped && k < t->pretok.n; k++) t->pretok.v[k].mapped = true;
        return rc;
    }
    return err_set(e, ERR_UNSUPPORTED, "pre-tokenizer \"%.60s\": not supported yet", hf_type(j));
}

/* ---- decoder ---- */

int hf_steps_decoder(struct tokenizer *t, const struct json *j, struct err *e)
{
    const char *type = hf_type(j);
    struct token_options *o = &t->opt;
    if (hf_step_absent(j)) return 0;
    int rc = hf_step_check(j, "decoder", e);
    if (rc != 0) return rc;
    if (strcmp(type, "Sequence") == 0) {
        const struct json *list = json_field(j, "decoders");
        for (size_t i = 0; i < json_count(list) && rc == 0; i++)
            rc = hf_steps_decoder(t, json_item(list, i), e);
    } else if (strcmp(type, "ByteLevel") == 0) {
        o->byte_level = true;
    } else if (strcmp(type, "ByteFallback") == 0) {
        o->byte_fallback = true;
    } else if (strcmp(type, "Metaspace") == 0) {
        const char *scheme = json_text(json_field(j, "prepend_scheme"), NULL);
        o->space_mark = o->drop_mark_only = true;
        o->drop_lead_space =
            scheme ? strcmp(scheme, "never") != 0 : flag(j, "add_prefix_space", true);
    } else if (strcmp(type, "Replace") == 0) {
        const char *from = json_text(json_field(json_field(j, "pattern"), "String"), NULL);
        const char *to = json_text(json_field(j, "content"), NULL);
        if (from && to && strcmp(from, SPACE_MARK) == 0 && strcmp(to, " ") == 0)
            o->space_mark = true;
    } else if (strcmp(type, "Strip") == 0) {
        const char *content = json_text(json_field(j, "content"), NULL);
        if (content && strcmp(content, " ") == 0)
            o->drop_lead_space = json_int(json_field(j, "start"), 0) > 0;
    } else if (strcmp(type, "WordPiece") == 0) {
        o->word_cleanup = flag(j, "cleanup", true);
    } else if (strcmp(type, "Fuse") != 0) { /* Fuse does not change the bytes of a token */
        rc = err_set(e, ERR_UNSUPPORTED, "decoder \"%.60s\": not supported yet", type);
    }
    return rc;
}
