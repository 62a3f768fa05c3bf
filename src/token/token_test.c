/* token_test.c - goal: every kind encodes and decodes correctly. Method: use small vocabularies
 * whose expected results can be computed by hand. */
#include "pieces_test.h"
#include "base/rng.h"

struct put {
    const char *text;
    enum piece_kind kind;
    double score;
};

static struct tokenizer *start(const struct token_kind *kind, const struct put *piece, size_t n)
{
    struct tokenizer *t = tokenizer_open_empty();
    struct err e;
    for (size_t id = 0; id < n; id++) {
        if (tokenizer_put(t, id, piece[id].text, strlen(piece[id].text), piece[id].kind,
                          piece[id].score, &e) != 0)
            abort();
        if (piece[id].kind == PIECE_CONTROL) t->piece[id].match = MATCH_RAW;
    }
    t->kind = kind;
    return t;
}

static void finish(struct tokenizer *t)
{
    struct err e;
    if (tokenizer_finish(t, &e) != 0) test_fail(__FILE__, __LINE__, "finish: %s", e.text);
}

static void expect_round_trip(const struct tokenizer *t, const char *text, size_t n)
{
    struct ids ids = {0};
    struct buf out = {0};
    struct err e;
    EXPECT_INT(tokenizer_encode(t, text, n, 0, &ids, &e), 0);
    EXPECT(tokenizer_decode(t, ids.v, ids.n, 0, &out));
    EXPECT(out.n == n && (n == 0 || memcmp(out.data, text, n) == 0));
    vec_deinit(&ids);
    buf_deinit(&out);
}

TEST(spm_merges_the_highest_score_first)
{
    static const struct put piece[] = {
        {"<unk>", PIECE_UNKNOWN, 0}, {"<s>", PIECE_CONTROL, 0}, {SPACE_MARK, PIECE_NORMAL, -9},
        {"a", PIECE_NORMAL, -9},     {"b", PIECE_NORMAL, -9},   {"ab", PIECE_NORMAL, -1},
        {"ba", PIECE_NORMAL, -2},    {"aba", PIECE_NORMAL, -3}, {SPACE_MARK "a", PIECE_NORMAL, -4},
    };
    struct tokenizer *t = start(&token_kind_spm, piece, sizeof piece / sizeof piece[0]);
    t->opt = (struct token_options){.merges_by_score = true, .space_mark = true, .fuse_unk = true};
    t->unk = 0;
    finish(t);
    EXPECT_TEXT(pieces_of(t, "abab", 0), "ab|ab");
    EXPECT_TEXT(pieces_of(t, "baba", 0), "b|aba");
    EXPECT_TEXT(pieces_of(t, SPACE_MARK "a" SPACE_MARK "ba", 0), SPACE_MARK "a|" SPACE_MARK "|ba");
    EXPECT_TEXT(pieces_of(t, "axyb", 0), "a|<unk>|b");
    tokenizer_close(t);
}

/* Goal: SentencePiece splits an unused piece into the symbols from which it was merged. */
TEST(spm_takes_unused_pieces_apart)
{
    static const struct put piece[] = {{"a", PIECE_NORMAL, -9},
                                       {"b", PIECE_NORMAL, -9},
                                       {"ab", PIECE_UNUSED, -1},
                                       {"aba", PIECE_NORMAL, -2}};
    struct tokenizer *t = start(&token_kind_spm, piece, 4);
    t->opt.merges_by_score = true;
    finish(t);
    EXPECT_TEXT(pieces_of(t, "abb", 0), "a|b|b");
    EXPECT_TEXT(pieces_of(t, "aba", 0), "aba");
    tokenizer_close(t);
}

static struct tokenizer *open_with_bytes(void)
{
    struct tokenizer *t = tokenizer_open_empty();
    struct err e;
    char text[8];
    for (int b = 0; b < 256; b++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        if (tokenizer_put(t, (size_t)b, text, 6, PIECE_BYTE, 0, &e) != 0) abort();
    }
    if (tokenizer_put(t, 256, SPACE_MARK, 3, PIECE_NORMAL, -1, &e) != 0) abort();
    t->kind = &token_kind_spm;
    t->opt =
        (struct token_options){.merges_by_score = true, .space_mark = true, .byte_fallback = true};
    finish(t);
    return t;
}

TEST(invalid_utf8_comes_back)
{
    struct tokenizer *t = open_with_bytes();
    static const char text[] = "a\xFF\xC3(\xE2\x82\xAC\xE2\x82\xED\xA0\x80\xF8\x80 \0z";
    expect_round_trip(t, text, sizeof text - 1);
    expect_round_trip(t, "", 0);
    tokenizer_close(t);
}

TEST(unigram_takes_the_best_sum)
{
    static const struct put piece[] = {
        {"<unk>", PIECE_UNKNOWN, 0}, {"a", PIECE_NORMAL, -3},    {"b", PIECE_NORMAL, -3},
        {"ab", PIECE_NORMAL, -5},    {"abc", PIECE_NORMAL, -12}, {"<x>", PIECE_USER, 0},
    };
    struct tokenizer *t = start(&token_kind_unigram, piece, sizeof piece / sizeof piece[0]);
    t->opt.fuse_unk = true;
    t->unk = 0;
    finish(t);
    EXPECT_TEXT(pieces_of(t, "abab", 0), "ab|ab");
    EXPECT_TEXT(pieces_of(t, "abc", 0), "abc");
    EXPECT_TEXT(pieces_of(t, "bccca", 0), "b|<unk>|a");
    EXPECT_TEXT(pieces_of(t, "a<x>b", 0), "a|<x>|b");
    tokenizer_close(t);
}

TEST(wordpiece_is_greedy_and_all_or_nothing)
{
    static const struct put piece[] = {
        {"[UNK]", PIECE_CONTROL, 0}, {"walk", PIECE_NORMAL, 0}, {"##ing", PIECE_NORMAL, 0},
        {"##i", PIECE_NORMAL, 0},    {"w", PIECE_NORMAL, 0},    {".", PIECE_NORMAL, 0},
    };
    struct tokenizer *t = start(&token_kind_wordpiece, piece, sizeof piece / sizeof piece[0]);
    struct err e;
    t->opt = (struct token_options){
        .inner_prefix = "##", .word_chars_max = 8, .drop_lead_space = true, .word_cleanup = true};
    t->unk = 0;
    NEED_OK(tokenizer_add_bert_words(t, &e), &e);
    finish(t);
    EXPECT_TEXT(pieces_of(t, "walking  walki.", 0), "walk|##ing|walk|##i|.");
    EXPECT_TEXT(pieces_of(t, "walker walkingii", 0), "[UNK]|[UNK]");
    expect_round_trip(t, "walking w.", 10);
    tokenizer_close(t);
}

TEST(characters_are_classed_as_published_tokenizers_do)
{
    /* U+2E52 is punctuation since Unicode 14. U+166D was punctuation until Unicode 12. U+1AC5 is a
     * mark since Unicode 14. */
    static const struct put piece[] = {
        {"[UNK]", PIECE_CONTROL, 0}, {"a", PIECE_NORMAL, 0},        {"b", PIECE_NORMAL, 0},
        {"##b", PIECE_NORMAL, 0},    {"\u2e52", PIECE_NORMAL, 0},   {"##\u2e52", PIECE_NORMAL, 0},
        {"\u166d", PIECE_NORMAL, 0}, {"##\u166d", PIECE_NORMAL, 0},
    };
    struct tokenizer *t = start(&token_kind_wordpiece, piece, sizeof piece / sizeof piece[0]);
    struct err e;
    t->opt = (struct token_options){.inner_prefix = "##", .word_chars_max = 8};
    t->unk = 0;
    NEED_OK(tokenizer_add_bert_words(t, &e), &e);
    finish(t);
    EXPECT_TEXT(pieces_of(t, "a\u2e52b", 0), "a|##\u2e52|##b");
    EXPECT_TEXT(pieces_of(t, "a\u166db", 0), "a|\u166d|b");
    tokenizer_close(t);
    EXPECT(uni_mark(0x301) && uni_mark(0x1CF2) && !uni_mark(0x1AC5) && !uni_mark(0x7FD) &&
           !uni_mark('a'));
    EXPECT(uni_mark_nonspacing(0x301) && uni_mark_nonspacing(0x1734) &&
           !uni_mark_nonspacing(0x1AC5) && !uni_mark_nonspacing(0x1E944));
}

/* ---- added tokens ---- */

static struct tokenizer *open_added(unsigned match)
{
    static const struct put piece[] = {
        {"a", PIECE_NORMAL, 0}, {"b", PIECE_NORMAL, 0},    {" ", PIECE_NORMAL, 0},
        {"<t>", PIECE_USER, 0}, {"<t><t>", PIECE_USER, 0}, {"<s>", PIECE_CONTROL, 0},
        {"<", PIECE_NORMAL, 0}, {"s", PIECE_NORMAL, 0},    {">", PIECE_NORMAL, 0}};
    struct tokenizer *t = start(&token_kind_bpe, piece, sizeof piece / sizeof piece[0]);
    t->opt.raw_bytes = true;
    t->piece[3].match = t->piece[4].match = (uint8_t)match;
    t->bos = 5;
    t->prefix[t->n_prefix++] = 5;
    finish(t);
    return t;
}

TEST(added_tokens_match_longest_leftmost)
{
    struct tokenizer *t = open_added(MATCH_RAW);
    EXPECT_TEXT(pieces_of(t, "a<t>b", 0), "a|<t>|b");
    EXPECT_TEXT(pieces_of(t, "<t><t><t>", 0), "<t><t>|<t>");
    EXPECT_TEXT(pieces_of(t, "a <t> b", 0), "a| |<t>| |b");
    tokenizer_close(t);
}

TEST(added_tokens_strip_and_are_separate)
{
    struct tokenizer *t = open_added(MATCH_RAW | MATCH_LSTRIP | MATCH_RSTRIP);
    EXPECT_TEXT(pieces_of(t, "a  <t>  b", 0), "a|<t>|b");
    tokenizer_close(t);
    t = open_added(MATCH_RAW | MATCH_WORD);
    EXPECT_TEXT(pieces_of(t, "b <t> b", 0), "b| |<t>| |b");
    EXPECT(strcmp(pieces_of(t, "b<t> b", 0), "b|<t>| |b") != 0);
    tokenizer_close(t);
}

TEST(special_tokens_only_on_request_and_bos_once)
{
    struct tokenizer *t = open_added(MATCH_RAW);
    EXPECT_TEXT(pieces_of(t, "<s>a", 0), "<|s|>|a");
    EXPECT_TEXT(pieces_of(t, "<s>a", ENCODE_PARSE_SPECIAL), "<s>|a");
    EXPECT_TEXT(pieces_of(t, "a", ENCODE_ADD_SPECIAL), "<s>|a");
    EXPECT_TEXT(pieces_of(t, "<s>a", ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL), "<s>|a");
    EXPECT_TEXT(pieces_of(t, "<s>a", ENCODE_ADD_SPECIAL), "<s>|<|s|>|a");
    EXPECT_TEXT(pieces_of(t, "<s>a", ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL | ENCODE_ADD_ALWAYS),
                "<s>|<s>|a");
    EXPECT_TEXT(pieces_of(t, "", ENCODE_ADD_SPECIAL), "<s>");
    EXPECT(tokenizer_adds_bos(t) && tokenizer_bos(t) == 5);
    t->suffix[t->n_suffix++] = 3; /* as CLS and SEP of an encoder */
    EXPECT_TEXT(pieces_of(t, "<s>a", ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL), "<s>|<s>|a|<t>");
    tokenizer_close(t);
}

/* ---- merging ---- */

static size_t merge_naive(const struct merges *m, uint32_t *sym, size_t n)
{
    for (;;) {
        const struct merge_slot *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const struct merge_slot *s = merges_get(m, sym[i], sym[i + 1]);
            if (s && (!best || s->rank < best->rank)) best = s, at = i;
        }
        if (!best) return n;
        sym[at] = best->id;
        memmove(sym + at + 1, sym + at + 2, (n - at - 2) * sizeof *sym);
        n--;
    }
}

/* Goal: scan and heap agree with the definition. Method: random tables, and lengths on both sides
 * of the switch between scan and heap. */
TEST(merging_follows_its_definition)
{
    enum { N_MAX = 300, N_SYM = 40 };
    struct merge_work w = {0};
    uint64_t rng = 42;
    for (int round = 0; round < 300; round++) {
        struct merges m = {0};
        uint32_t want[N_MAX];
        for (uint32_t k = 0; k < 60; k++)
            EXPECT(merges_put(&m, (uint32_t)rng_below(&rng, N_SYM),
                              (uint32_t)rng_below(&rng, N_SYM), round % 3 ? k : k / 4,
                              (uint32_t)rng_below(&rng, N_SYM)));
        size_t n = 1 + rng_below(&rng, N_MAX), n_want;
        NEED(vec_room((void **)&w.sym, &w.cap, n, sizeof *w.sym));
        for (size_t i = 0; i < n; i++)
            want[i] = w.sym[i] = (uint32_t)rng_below(&rng, round % 2 ? N_SYM : 3);
        n_want = merge_naive(&m, want, n);
        EXPECT(merge_run(&m, &w, &n));
        EXPECT(n == n_want && memcmp(want, w.sym, n * sizeof *want) == 0);
        merges_deinit(&m);
    }
    merge_work_deinit(&w);
}

TEST(alphabet_has_every_byte_once)
{
    struct buf b = {0};
    char out[512];
    uint32_t n;
    for (int c = 0; c < 256; c++) alphabet_add(&b, (uint8_t)c);
    EXPECT(alphabet_decode(b.data, b.n, out, &n) && n == 256);
    for (int c = 0; c < 256; c++) EXPECT_INT((uint8_t)out[c], c);
    EXPECT(!alphabet_decode("a b", 3, out, &n));
    buf_deinit(&b);
}

TEST(trie_finds_the_longest_prefix)
{
    struct trie_key key[] = {{"a", 1, 1}, {"abc", 3, 3}, {"b", 1, 7}, {"abd", 3, 4}, {"a", 1, 2}};
    struct trie t;
    int32_t v = -1;
    NEED(trie_build(&t, key, 5));
    EXPECT_INT(trie_longest(&t, "abcd", 4, &v), 3);
    EXPECT_INT(v, 3);
    EXPECT_INT(trie_longest(&t, "abx", 3, &v), 1);
    EXPECT_INT(v, 2);
    EXPECT_INT(trie_longest(&t, "x", 1, &v), 0);
    trie_deinit(&t);
}
