/* hf_json_test.c - goal: a tokenizer.json gives the ids of Hugging Face's tokenizers, or is
 * rejected by the name of the part that quoth does not compute. Method: small files; the expected
 * ids are those of tokenizers 0.22. */
#include "pieces_test.h"

#define JSON_NAME "t.json"

/* Open a tokenizer.json with the given members. The caller closes the result; NULL after an
 * error. */
static struct tokenizer *open_json(const char *members, struct err *e)
{
    struct buf json = {0};
    struct tokenizer *t;
    struct err io;
    buf_addf(&json, "{%s}", members);
    EXPECT_INT(file_write(temp_path(JSON_NAME), json.data, json.n, &io), 0);
    tokenizer_open_file(&t, temp_path(JSON_NAME), NULL, e);
    remove(temp_path(JSON_NAME));
    buf_deinit(&json);
    return t;
}

static void expect_pieces(const char *members, const char *text, unsigned flags, const char *want)
{
    struct err e = {0};
    struct tokenizer *t = open_json(members, &e);
    if (!t) test_fail(__FILE__, __LINE__, "%s", e.text);
    if (t) EXPECT_TEXT(pieces_of(t, text, flags), want);
    tokenizer_close(t);
}

static void expect_refused(const char *members, const char *want)
{
    struct err e = {0};
    struct tokenizer *t = open_json(members, &e);
    if (t || !strstr(e.text, want))
        test_fail(__FILE__, __LINE__, "expected \"%s\", got \"%s\"", want, e.text);
    tokenizer_close(t);
}

/* ---- long pieces ---- */

/* Append a model with one piece of n letters. */
static void put_long(struct buf *out, const char *before, size_t n, const char *after)
{
    buf_clear(out);
    buf_add_text(out, before);
    for (size_t i = 0; i < n; i++) buf_add_char(out, 'a');
    buf_add_text(out, after);
}

/* Goal: no vocabulary makes the time of a text quadratic, because the search at each position has
 * an upper limit. */
TEST(long_pieces_are_refused)
{
    static const char *const model[][2] = {
        {"\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"", "\",-1]]}"},
        {"\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0,\"##", "\":1}}"},
        {"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"normalizer\":{\"type\":"
         "\"Replace\",\"content\":\"\",\"pattern\":{\"String\":\"",
         "\"}}"},
    };
    static const char *const want[] = {"token 1: must have at most 512 bytes, got 513",
                                       "token 1: must have at most 512 bytes, got 515",
                                       "normalizer Replace: pattern: must have at most 1024 bytes"};
    struct buf json = {0};
    for (int i = 0; i < 3; i++) {
        put_long(&json, model[i][0], i < 2 ? 513 : 1025, model[i][1]);
        expect_refused(json.data, want[i]);
        put_long(&json, model[i][0], i < 2 ? 510 : 1024, model[i][1]);
        expect_pieces(json.data, "", 0, "");
    }
    buf_deinit(&json);
}

/* Goal: white space that a match has consumed is not scanned again. Method: the time of a text of
 * blanks would be minutes. */
TEST(consumed_white_space_is_scanned_once)
{
    static const char members[] =
        "\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0,\"a\":1}},"
        "\"added_tokens\":[{\"id\":2,\"content\":\" \",\"rstrip\":true}]";
    enum { N = 1 << 20 };
    struct err e = {0};
    struct ids ids = {0};
    struct tokenizer *t = open_json(members, &e);
    char *text = malloc(N);
    NEED(t && text);
    memset(text, ' ', N);
    EXPECT_INT(tokenizer_encode(t, text, N, 0, &ids, &e), 0);
    EXPECT_INT(ids.n, N);
    EXPECT_TEXT(pieces_of(t, "a   a", 0), "a| | | |a");
    free(text);
    vec_deinit(&ids);
    tokenizer_close(t);
}

/* ---- added tokens and the model's vocabulary ---- */

/* Goal: an added token outside of the vocabulary is no piece of the model, and a special token is
 * produced only on request. */
TEST(added_tokens_are_not_pieces_of_the_model)
{
    static const char unigram[] =
        "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"</s>\",0],"
        "[\"H\",-3],[\"e\",-3],[\"l\",-3],[\"<\",-3],[\"/\",-3],[\"s\",-3],[\">\",-3]]},";
    static const char wordpiece[] =
        "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,"
        "\"</s>\":1,\"H\":2,\"##e\":3,\"##l\":4,\"<\":5,\"##/\":6,\"##s\":7,\"##>\":8}},";
    static const char added[] = "\"added_tokens\":[{\"id\":1,\"content\":\"</s>\",\"special\":true}"
                                ",{\"id\":9,\"content\":\"Hel\",\"single_word\":true%s}]";
    struct buf json = {0};
    for (int special = 0; special < 2; special++)
        for (int i = 0; i < 2; i++) {
            const char *mark = i ? "##" : "";
            char want[80];
            buf_clear(&json);
            buf_add_text(&json, i ? wordpiece : unigram);
            buf_addf(&json, added, special ? ",\"special\":true" : "");
            snprintf(want, sizeof want, "H|%se|%sl|%sl", mark, mark, mark);
            expect_pieces(json.data, "Hell", ENCODE_PARSE_SPECIAL, want);
            expect_pieces(json.data, "Hell", 0, want);
            expect_pieces(json.data, "Hel", ENCODE_PARSE_SPECIAL, "Hel");
            snprintf(want, sizeof want, "H|%se|%sl", mark, mark);
            expect_pieces(json.data, "Hel", 0, special ? want : "Hel");
            expect_pieces(json.data, "</s>", ENCODE_PARSE_SPECIAL, "</s>");
            snprintf(want, sizeof want, "<|%s/|%ss|%s>", mark, mark, mark);
            expect_pieces(json.data, "</s>", 0, want);
        }
    buf_deinit(&json);
}

#define BPE_AB "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}"

/* Goal: an added token whose text is already a token has the id of that token. */
TEST(added_tokens_with_another_id_than_their_text)
{
    struct err e = {0};
    struct tokenizer *t = open_json(
        BPE_AB ",\"added_tokens\":[{\"id\":2,\"content\":\"<s>\",\"special\":true},{\"id\":7,"
               "\"content\":\"<s>\",\"special\":true},{\"id\":8,\"content\":\"b\"}]",
        &e);
    NEED(t);
    EXPECT_INT(tokenizer_n_vocab(t), 3);
    EXPECT_TEXT(pieces_of(t, "ab<s>", ENCODE_PARSE_SPECIAL), "a|b|<s>");
    EXPECT_INT(tokenizer_find(t, "<s>", 3), 2);
    EXPECT_INT(tokenizer_find(t, "b", 1), 1);
    tokenizer_close(t);
}

/* ---- steps that quoth does not compute ---- */

#define A "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define B "{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}"
#define S "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}"
#define TEMPLATE(single)                                                                           \
    "{\"type\":\"TemplateProcessing\",\"single\":" single ",\"pair\":[" A "," B                    \
    "],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}}"
#define ROBERTA    "{\"type\":\"RobertaProcessing\",\"cls\":[\"b\",1],\"sep\":[\"b\",1]}"
#define POST(json) BPE_AB ",\"post_processor\":" json
#define TWO(x, y)  "{\"type\":\"Sequence\",\"processors\":[" x "," y "]}"

TEST(templates_contain_the_text_once)
{
    static const char want[] = "post_processor TemplateProcessing: single: expected one Sequence A";
    const unsigned all = ENCODE_ADD_SPECIAL;
    expect_pieces(POST(TEMPLATE("[" S "," A "," S "]")), "a", all, "b|a|b");
    expect_refused(POST(TEMPLATE("[" A "," A "]")), want);
    expect_refused(POST(TEMPLATE("[" S "," A "," S "," A "]")), want);
    expect_refused(POST(TEMPLATE("[]")), want);
    expect_refused(POST(TEMPLATE("[" S "]")), want);
    expect_refused(POST(TEMPLATE("[" B "]")), want);
    expect_refused(POST(TEMPLATE("[" A "," B "]")), want);
    expect_refused(POST(TEMPLATE("[" A ",{\"SpecialToken\":{\"id\":\"x\",\"type_id\":0}}]")),
                   "post_processor TemplateProcessing: special_tokens: \"x\" is missing");
    expect_refused(POST(TEMPLATE("[" S "," S "," S "," S "," S "," S "," S "," S "," S "," A "]")),
                   "post_processor TemplateProcessing: must have at most 8 tokens before");
}

TEST(one_post_processor_adds_tokens)
{
    static const char want[] = "post_processor Sequence: two processors that add tokens";
    const unsigned all = ENCODE_ADD_SPECIAL;
    expect_pieces(POST(TWO(TEMPLATE("[" S "," A "]"), "{\"type\":\"ByteLevel\"}")), "a", all,
                  "b|a");
    expect_pieces(POST(TWO(TEMPLATE("[" A "]"), TEMPLATE("[" S "," A "]"))), "a", all, "b|a");
    expect_refused(POST(TWO(TEMPLATE("[" S "," A "]"), TEMPLATE("[" S "," A "]"))), want);
    expect_refused(POST(TWO(TEMPLATE("[" A "," S "]"), TEMPLATE("[" A "," S "]"))), want);
    expect_refused(POST(TWO(ROBERTA, TEMPLATE("[" S "," A "]"))), want);
    expect_refused(POST(TWO(TEMPLATE("[" S "," A "]"), ROBERTA)), want);
}

#define BYTES      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define NORMALIZER ",\"normalizer\":"
#define PRETOK     ",\"pre_tokenizer\":"

/* Goal: the byte alphabet is used for BPE only, and once. */
TEST(byte_alphabet_for_bpe_and_once)
{
    static const char unigram[] = "\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}";
    static const char wordpiece[] = "\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}";
    static const struct {
        const char *model, *steps, *want;
    } bad[] = {
        {unigram, NORMALIZER BYTES, "ByteLevel with model Unigram: not supported"},
        {unigram, PRETOK BYTES, "ByteLevel with model Unigram: not supported"},
        {wordpiece, NORMALIZER BYTES, "ByteLevel with model WordPiece: not supported"},
        {BPE_AB, NORMALIZER BYTES PRETOK BYTES, "pre_tokenizer ByteLevel after ByteLevel"},
        {BPE_AB, NORMALIZER BYTES PRETOK "{\"type\":\"Metaspace\"}",
         "pre_tokenizer Metaspace after ByteLevel"},
        {BPE_AB,
         NORMALIZER "{\"type\":\"Sequence\",\"normalizers\":[" BYTES ",{\"type\":\"NFC\"}]}",
         "normalizer NFC after ByteLevel"},
    };
    struct buf json = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        buf_clear(&json);
        buf_addf(&json, "%s%s", bad[i].model, bad[i].steps);
        expect_refused(json.data, bad[i].want);
    }
    buf_deinit(&json);
    expect_pieces(BPE_AB NORMALIZER
                  "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}," BYTES "]}",
                  "ab", 0, "a|b");
}
