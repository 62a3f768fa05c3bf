/* class_test.c - goal: the classes and keys of a folder's configuration files have the effect that
 * they have in transformers 5.24. Method: folders of few small
 * files, written here. */
#include "pieces_test.h"

#include "../../tests/alloc.h"

#include <stdio.h>
#include <unistd.h>

static const char *const file_names[] = {"tokenizer.json",
                                         "vocab.txt",
                                         "vocab.json",
                                         "merges.txt",
                                         "spiece.model",
                                         "config.json",
                                         "sentencepiece.bpe.model",
                                         "tokenizer_config.json",
                                         "added_tokens.json",
                                         "special_tokens_map.json"};

static void write_file(const char *name, const char *text, size_t n)
{
    struct err e;
    EXPECT_INT(file_write(temp_path(name), text, n, &e), 0);
}

static void write_text(const char *name, const char *text)
{
    if (text) write_file(name, text, strlen(text));
}

static void remove_written(void)
{
    for (size_t i = 0; i < sizeof file_names / sizeof *file_names; i++)
        unlink(temp_path(file_names[i]));
}

/* Open the folder of the written files, then remove the files. NULL after a failure, with its
 * sentence in `e`. */
static struct tokenizer *open_written(struct err *e)
{
    char dir[4096];
    struct tokenizer *t;
    token_folder(dir, temp_path("config.json"));
    tokenizer_open_file(&t, dir, NULL, e);
    remove_written();
    return t;
}

enum { ALL = ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL };

/* Open the written folder and compare the pieces of a text. */
static void expect_pieces(const char *text, const char *want)
{
    struct err e = {0};
    struct tokenizer *t = open_written(&e);
    if (!t) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, e.text);
        return;
    }
    EXPECT_TEXT(pieces_of(t, text, ALL), want);
    tokenizer_close(t);
}

/* Compare the pieces of a pair of texts, and the first piece of the second segment. */
static void expect_pair(const char *a, const char *b, const int32_t *want, size_t n, int segment1)
{
    struct err e = {0};
    struct tokenizer *t = open_written(&e);
    struct ids got = {0};
    int segment = -1;
    NEED_OK(t ? 0 : -1, &e);
    EXPECT_INT(tokenizer_encode_pair(t, (const char *const[2]){a, b},
                                     (size_t[2]){strlen(a), strlen(b)}, -1, &got, &segment, &e),
               0);
    EXPECT_INT(got.n, n);
    for (size_t i = 0; i < n && i < got.n; i++) EXPECT_INT(got.v[i], want[i]);
    EXPECT_INT(segment, segment1);
    vec_deinit(&got);
    tokenizer_close(t);
}

#define WORDS                                                                                      \
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nA\n\xC3\xA9\ne\n\xE6\x97\xA5\n##\xE6\x9C\xAC\n"        \
    "\xE6\x9C\xAC\ncat\n"

/* Goal: a vocab.txt has the normalizer and the special tokens of the configuration. */
TEST(settings_of_a_vocab_txt)
{
    static const struct {
        const char *config, *named, *text, *want;
    } row[] = {
        {NULL, NULL, "A \xC3\xA9", "[CLS]|a|e|[SEP]"},
        {"{\"do_lower_case\":false}", NULL, "A \xC3\xA9", "[CLS]|A|\xC3\xA9|[SEP]"},
        {"{\"do_lower_case\":false,\"strip_accents\":true}", NULL, "A \xC3\xA9", "[CLS]|A|e|[SEP]"},
        {"{\"strip_accents\":false}", NULL, "A \xC3\xA9", "[CLS]|a|\xC3\xA9|[SEP]"},
        {"{\"strip_accents\":null}", NULL, "\xC3\xA9", "[CLS]|e|[SEP]"},
        {NULL, NULL, "\xE6\x97\xA5\xE6\x9C\xAC", "[CLS]|\xE6\x97\xA5|\xE6\x9C\xAC|[SEP]"},
        {"{\"tokenize_chinese_chars\":false}", NULL, "\xE6\x97\xA5\xE6\x9C\xAC",
         "[CLS]|\xE6\x97\xA5|##\xE6\x9C\xAC|[SEP]"},
        {"{\"cls_token\":\"[MASK]\",\"unk_token\":\"[PAD]\"}", NULL, "x", "[MASK]|[PAD]|[SEP]"},
        {NULL, "{\"cls_token\":{\"content\":\"[MASK]\"}}", "a", "[MASK]|a|[SEP]"},
        {"{\"additional_special_tokens\":[\"cat\"]}", NULL, "acat", "[CLS]|a|cat|[SEP]"},
        {"{}", "{\"additional_special_tokens\":[{\"content\":\"cat\"}]}", "acat",
         "[CLS]|a|cat|[SEP]"},
        {"{\"added_tokens_decoder\":{}}", "{\"cls_token\":\"[MASK]\"}", "a", "[CLS]|a|[SEP]"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        write_text("vocab.txt", WORDS);
        write_text("tokenizer_config.json", row[i].config);
        write_text("special_tokens_map.json", row[i].named);
        expect_pieces(row[i].text, row[i].want);
    }
    write_text("vocab.txt", WORDS);
    expect_pair("a", "A", (const int32_t[]){2, 5, 3, 5, 3}, 5, 3);
}

/* Goal: tokens of an added_tokens.json have their ids if no other file lists added tokens. */
TEST(tokens_of_an_added_tokens_json)
{
    write_text("vocab.txt", WORDS);
    write_text("added_tokens.json", "{\"a cat\":13}");
    expect_pieces("A a cat", "[CLS]|a|a cat|[SEP]");
    write_text("vocab.txt", WORDS);
    write_text("added_tokens.json", "{\"a cat\":12}");
    struct err e = {0};
    EXPECT(!open_written(&e) && strstr(e.text, "added_tokens.json") && strstr(e.text, "\"cat\""));
}

#define PIECES                                                                                     \
    "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"a\":4,\"\xC4\xA0\":5,\"\xC4\xA0"              \
    "a\":6,"                                                                                       \
    "\"<mask>\":7,\"<|endoftext|>\":8,\"<x>\":9,\"\xC3\x83\":10,\"\xC2\xA9\":11,\"e\":12,"         \
    "\"\xC3\x8C\":13,\"\xC4\xA3\":14,\"\xC4\x81\":15}"
#define SP "\xC4\xA0"

/* Goal: a vocab.json has the steps and the special tokens of its class. */
TEST(classes_of_a_vocab_json)
{
    static const struct {
        const char *config, *named, *model, *text, *want;
    } row[] = {
        {NULL, NULL, NULL, "a a", "a|" SP "a"},
        {"{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":true}", NULL, NULL,
         "a<|endoftext|>a", SP "a|<|endoftext|>|" SP "a"},
        {"{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_bos_token\":true}", NULL, NULL, "a",
         "<|endoftext|>|a"},
        {"{\"tokenizer_class\":\"RobertaTokenizer\"}", NULL, NULL, "a<mask>", "<s>|a|<mask>|</s>"},
        {"{\"tokenizer_class\":\"RobertaTokenizerFast\",\"add_bos_token\":true,"
         "\"add_prefix_space\":true}",
         NULL, NULL, "a", "<s>|" SP "a|</s>"},
        {"{\"tokenizer_class\":\"BartTokenizer\",\"cls_token\":\"<x>\"}", NULL, NULL, "a",
         "<x>|a|</s>"},
        {NULL, NULL, "{\"model_type\":\"bart\"}", "a", "<s>|a|</s>"},
        {NULL, NULL, "{\"model_type\":\"roberta\",\"x\":Infinity}", "a", "<s>|a|</s>"},
        {"{\"tokenizer_class\":\"GPT2Tokenizer\"}", NULL, "{\"model_type\":\"roberta\"}", "a", "a"},
        {NULL, "{\"bos_token\":\"<x>\"}", NULL, "a<x>", "a|<x>"},
        {NULL, "{\"additional_special_tokens\":[\"<x>\"]}", NULL, "a<x>", "a|<x>"},
        {"{\"tokenizer_class\":\"GPT2Tokenizer\"}", NULL, NULL, "e\xCC\x81", "e|\xC3\x8C|\xC4\xA3"},
        {"{\"tokenizer_class\":\"Qwen2Tokenizer\"}", NULL, NULL, "e\xCC\x81", "\xC3\x83|\xC2\xA9"},
        {"{\"tokenizer_class\":\"Qwen2Tokenizer\",\"add_prefix_space\":true}", NULL, NULL, "a",
         SP "a"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        write_text("vocab.json", PIECES);
        write_text("merges.txt", "#version: 0.2\n" SP " a\n");
        write_text("tokenizer_config.json", row[i].config);
        write_text("special_tokens_map.json", row[i].named);
        write_text("config.json", row[i].model);
        expect_pieces(row[i].text, row[i].want);
    }
    write_text("vocab.json", PIECES);
    write_text("merges.txt", "");
    write_text("config.json", "{\"model_type\":\"roberta\"}");
    expect_pair("a", "aa", (const int32_t[]){0, 4, 2, 2, 4, 4, 2}, 7, 0);
}

/* Append a piece of a SentencePiece model. The lengths are below 128. */
static void put_piece(struct buf *out, const char *text, float score, enum piece_kind kind)
{
    const size_t n = strlen(text);
    const uint8_t head[] = {0x0A, (uint8_t)(n + 9), 0x0A, (uint8_t)n},
                  tail[] = {0x18, (uint8_t)kind};
    buf_add(out, (const char *)head, sizeof head);
    buf_add(out, text, n);
    buf_add_char(out, 0x15);
    buf_add(out, (const char *)&score, sizeof score);
    buf_add(out, (const char *)tail, sizeof tail);
}

/* Write a Unigram model. The first n control pieces precede the words. unk: the id of <unk>. */
static void write_model(const char *name, const char *const *control, size_t n, uint8_t unk)
{
    static const char *const word[] = {"\xE2\x96\x81",
                                       "\xE2\x96\x81"
                                       "a",
                                       "a", "b"};
    const uint8_t trainer[] = {0x12, 5, 0x18, 1, 0xC0, 2, unk};
    struct buf out = {0};
    for (size_t i = 0; i < n; i++)
        put_piece(&out, control[i], 0, i == unk ? PIECE_UNKNOWN : PIECE_CONTROL);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        put_piece(&out, word[i], -1 - (float)i, PIECE_NORMAL);
    buf_add(&out, (const char *)trainer, sizeof trainer);
    write_file(name, out.data, out.n);
    buf_deinit(&out);
}

#define MARK "\xE2\x96\x81"

/* Goal: a spiece.model of T5 has </s> after a text, no BOS, and the sentinels behind its pieces. */
TEST(sentinels_of_a_spiece_model)
{
    static const char *const control[] = {"<pad>", "</s>", "<unk>"};
    static const struct {
        const char *config, *model, *text, *want;
    } row[] = {
        {"{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":2}", NULL, "a<extra_id_0> b ?",
         MARK "a|<extra_id_0>|" MARK "|b|" MARK "|<unk>|</s>"},
        {NULL, "{\"model_type\":\"mt5\"}", " a\n a <extra_id_99>",
         MARK "a|" MARK "a|<extra_id_99>|</s>"},
        {NULL, NULL, "a", MARK "a"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        write_model("spiece.model", control, 3, 2);
        write_text("tokenizer_config.json", row[i].config);
        write_text("config.json", row[i].model);
        expect_pieces(row[i].text, row[i].want);
    }
    write_model("spiece.model", control, 3, 2);
    write_text("config.json", "{\"model_type\":\"t5\"}");
    struct err e = {0};
    struct tokenizer *t = open_written(&e);
    NEED_OK(t ? 0 : -1, &e);
    EXPECT_INT(tokenizer_n_vocab(t), 107);
    EXPECT_INT(tokenizer_find(t, "<extra_id_0>", 12), 106);
    EXPECT_INT(tokenizer_bos(t), -1);
    EXPECT_INT(tokenizer_eos(t), 1);
    tokenizer_close(t);
    write_model("spiece.model", control, 3, 2);
    write_text("tokenizer_config.json",
               "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":99999999999}");
    EXPECT(!open_written(&e) && strstr(e.text, "token id"));
    write_model("spiece.model", control, 3, 2);
    write_text("tokenizer_config.json",
               "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":-9223372036854775808}");
    EXPECT(!open_written(&e) && strstr(e.text, "extra_ids: must be at least 0"));
    write_model("spiece.model", control, 3, 2);
    write_text("tokenizer_config.json", "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":0}");
    expect_pair("a", "a", (const int32_t[]){4, 1, 4, 1}, 4, 0);
}

/* Goal: a sentencepiece.bpe.model has fairseq's ids. */
TEST(ids_of_a_sentencepiece_bpe_model)
{
    static const char *const control[] = {"<unk>", "<s>", "</s>"};
    write_model("sentencepiece.bpe.model", control, 3, 0);
    write_text("tokenizer_config.json", "{\"tokenizer_class\":\"XLMRobertaTokenizer\"}");
    expect_pair("a", "? <mask>b", (const int32_t[]){0, 5, 2, 2, 4, 3, 8, 4, 7, 2}, 10, 0);
    write_model("sentencepiece.bpe.model", control, 3, 0);
    write_text("config.json", "{\"model_type\":\"xlm-roberta\"}");
    write_text("special_tokens_map.json",
               "{\"mask_token\":{\"content\":\"<mask>\",\"lstrip\":true}}");
    expect_pieces("a <mask> b", "<s>|" MARK "a|<mask>|" MARK "|b|</s>");
    write_model("sentencepiece.bpe.model", control, 3, 0);
    write_text("tokenizer_config.json",
               "{\"tokenizer_class\":\"CamembertTokenizer\",\"add_prefix_space\":false}");
    expect_pair("a", "?", (const int32_t[]){5, 9, 6, 6, 3, 6}, 6, 0);
    struct err e = {0};
    write_model("sentencepiece.bpe.model", control, 3, 0);
    write_text("tokenizer_config.json", "{\"tokenizer_class\":\"MBartTokenizer\"}");
    EXPECT(!open_written(&e) && strstr(e.text, "tokenizer_class \"MBartTokenizer\""));
    write_file("sentencepiece.bpe.model", "\x0A\x0B\x0A\x02<>\x15\0\0\0\0\x18\x03", 13);
    write_text("config.json", "{\"model_type\":\"xlm-roberta\"}");
    EXPECT(!open_written(&e) && strstr(e.text, "at least 3 pieces"));
}

/* Write a WordPiece or byte-level BPE model as tokenizer.json. */
static void write_json(bool words, const char *added)
{
    static char json[4096];
    if (words)
        snprintf(
            json, sizeof json,
            "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,"
            "\"a\":3,\"A\":4,\"\xC3\xA9\":5,\"e\":6,\"cat\":7}},"
            "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},"
            "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"added_tokens\":[%s]}",
            added);
    else
        snprintf(json, sizeof json,
                 "{\"model\":{\"type\":\"BPE\",\"vocab\":" PIECES ",\"merges\":[\"" SP " a\"]},"
                 "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                 "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[%s]}",
                 added);
    write_text("tokenizer.json", json);
}

/* Goal: keys of tokenizer_config.json have effect where transformers uses them in place of
 * tokenizer.json. */
TEST(keys_that_override_a_tokenizer_json)
{
    static const struct {
        bool words;
        const char *added, *config, *named, *text, *want;
    } row[] = {
        {true, "", NULL, NULL, "A \xC3\xA9", "a|e"},
        {true, "", "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":false}", NULL,
         "A \xC3\xA9", "A|\xC3\xA9"},
        {true, "", "{\"tokenizer_class\":\"DistilBertTokenizerFast\",\"strip_accents\":false}",
         NULL, "A \xC3\xA9", "a|\xC3\xA9"},
        {true, "", "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"do_lower_case\":false}",
         NULL, "A \xC3\xA9", "a|e"},
        {true, "", "{\"extra_special_tokens\":{\"x\":\"cat\"}}", NULL, "acat", "a|cat"},
        {true, "{\"id\":7,\"content\":\"cat\",\"lstrip\":false}",
         "{\"added_tokens_decoder\":{\"7\":{\"content\":\"cat\",\"single_word\":true}}}", NULL,
         "acat", "[UNK]"},
        {true, "{\"id\":7,\"content\":\"cat\",\"special\":true}", NULL, NULL, "acat", "a|cat"},
        {true, "{\"id\":7,\"content\":\"cat\",\"special\":true}", "{\"split_special_tokens\":true}",
         NULL, "acat", "[UNK]"},
        {false, "", "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":true}", NULL, "a",
         SP "a"},
        {false, "", "{\"tokenizer_class\":\"Qwen2TokenizerFast\",\"add_prefix_space\":true}", NULL,
         "a", SP "a"},
        {false, "", "{\"tokenizer_class\":\"RobertaTokenizer\",\"add_prefix_space\":true}", NULL,
         "a a", SP "a|" SP "a"},
        {false, "", "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"add_prefix_space\":true}",
         NULL, "a", "a"},
        {false, "", NULL, "{\"pad_token\":\"<x>\"}", "a<x>", "a|<x>"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        write_json(row[i].words, row[i].added);
        write_text("tokenizer_config.json", row[i].config);
        write_text("special_tokens_map.json", row[i].named);
        expect_pieces(row[i].text, row[i].want);
    }
}

/* Goal: LlamaTokenizer puts no "▁" before a text if add_prefix_space is false. Other model types
 * do not have this class, whatever the file names. */
TEST(prefix_of_llama_tokenizer)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"" MARK "\":0,\"a\":1},\"merges\":[]},"
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
        "\"" MARK "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK
        "\"}]},\"added_tokens\":[]}";
    static const char *const want[][3] = {
        {"{}", "{}", MARK "|a|" MARK "|a"},
        {"{\"tokenizer_class\":\"LlamaTokenizer\",\"add_prefix_space\":false}",
         "{\"model_type\":\"llama\"}", "a|" MARK "|a"},
        {"{\"tokenizer_class\":\"LlamaTokenizer\",\"add_prefix_space\":true}",
         "{\"model_type\":\"llama\"}", MARK "|a|" MARK "|a"},
        {"{\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_prefix_space\":false}",
         "{\"model_type\":\"phi3\"}", MARK "|a|" MARK "|a"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        write_text("tokenizer.json", json);
        write_text("tokenizer_config.json", want[i][0]);
        write_text("config.json", want[i][1]);
        expect_pieces("a a", want[i][2]);
    }
}

/* Goal: a failed allocation is an error, without a leak. */
TEST(failed_allocations_of_classes)
{
    static const char *const control[] = {"<unk>", "<s>", "</s>"};
    static const char *const config[] = {
        "{\"tokenizer_class\":\"BertTokenizer\",\"additional_special_tokens\":[\"cat\"]}",
        "{\"tokenizer_class\":\"RobertaTokenizer\",\"add_prefix_space\":true}",
        "{\"tokenizer_class\":\"XLMRobertaTokenizer\"}",
        "{\"tokenizer_class\":\"Qwen2Tokenizer\",\"add_prefix_space\":true}"};
    for (size_t i = 0; i < sizeof config / sizeof *config; i++) {
        char dir[4096];
        bool hit = true;
        if (i == 0) write_text("vocab.txt", WORDS);
        if (i == 1) write_text("vocab.json", PIECES), write_text("merges.txt", SP " a\n");
        if (i == 2) write_model("sentencepiece.bpe.model", control, 3, 0);
        if (i == 3) write_json(false, "");
        write_text("added_tokens.json", "{\"<new>\":40}");
        write_text("tokenizer_config.json", config[i]);
        token_folder(dir, temp_path("config.json"));
        for (uint64_t n = 0; hit; n++) {
            struct tokenizer *t = NULL;
            struct err e = {0};
            alloc_fail(n, 1);
            const int rc = tokenizer_open_file(&t, dir, NULL, &e);
            hit = alloc_fail_end() > n;
            if (rc != 0 && (!hit || (rc != ERR_MEMORY && rc != ERR_IO)))
                test_fail(__FILE__, __LINE__, "%s, %d: code %d: %s", config[i], (int)n, rc, e.text);
            tokenizer_close(t);
        }
        remove_written();
    }
}
