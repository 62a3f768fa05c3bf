/* Goal: the search of fixed size finds the same reasoning as the parser. Method: search texts of
 * random pieces of a family's marks byte by byte, for every family. The results must be equal after
 * the parser has found the place. */
#include "chat/parser_impl.h"
#include "base/rng.h"
#include "../../tests/unit.h"

#include <string.h>

/* Append a random piece: a part of a mark, a mark, or other text. */
static void add_piece(struct buf *text, const struct reason_family *f, uint64_t *rng)
{
    static const char *const other[] = {" ", "\n", "a", "b c", "<", ">", "\xc3\xa9", "  \n "};
    const char *const mark[] = {f->open[0],  f->open[1],  f->open[2],
                                f->close[0], f->close[1], f->close[2]};
    const char *one = mark[rng_below(rng, 6)];
    size_t n = one ? strlen(one) : 0;
    if (!one || rng_below(rng, 3) == 0)
        buf_add_text(text, other[rng_below(rng, sizeof other / sizeof *other)]);
    else if (rng_below(rng, 3) == 0)
        buf_add(text, one, 1 + rng_below(rng, n));
    else
        buf_add(text, one, n);
}

/* Compare the search with the parser after each byte of a text. Return the number of bytes inside
 * the reasoning. */
static int same_places(const char *name, const char *text, size_t n)
{
    struct chat_track t;
    struct chat_parser *p = NULL;
    struct err e;
    int n_inside = 0;
    EXPECT(chat_track_begin(&t, name, false));
    if (chat_parser_open(&p, &(struct chat_parser_options){.reasoning_parser = name}, &e) != 0)
        return test_fail(__FILE__, __LINE__, "%s", e.text), 0;
    for (size_t i = 0; i < n; i++) {
        chat_track_push(&t, text + i, 1);
        chat_parser_push(p, text + i, 1, NULL, NULL);
        enum chat_place place = chat_parser_place(p);
        bool inside = chat_track_inside(&t);
        n_inside += inside;
        if (place == CHAT_UNDECIDED || (place == CHAT_INSIDE) == inside) continue;
        test_fail(__FILE__, __LINE__, "%s: byte %zu of \"%.*s\": inside %d", name, i, (int)n, text,
                  inside);
        break;
    }
    chat_parser_close(p);
    return n_inside;
}

TEST(track_finds_the_reasoning_of_the_parser)
{
    uint64_t rng = 7;
    const char *name;
    for (int i = 0; (name = chat_reasoning_parsers(i)) && strcmp(name, "none") != 0; i++) {
        const struct reason_family *f = reason_family_of(name);
        int n_inside = 0;
        if (f->step == harmony_step) continue; /* see below */
        for (int k = 0; k < (test_long() ? 20000 : 400); k++) {
            struct buf text = {0};
            for (uint64_t n = rng_below(&rng, 12); n > 0; n--) add_piece(&text, f, &rng);
            if (text.n) n_inside += same_places(name, text.data, text.n);
            buf_deinit(&text);
        }
        EXPECT(n_inside > 100);
    }
}

/* Goal: every analysis message of harmony is reasoning. Reasoning anywhere in a text is found. */
TEST(track_finds_reasoning_anywhere)
{
    static const struct {
        const char *name, *text;
        bool inside;
    } cases[] = {
        {"openai_gptoss", "<|channel|>analysis<|message|>a", true},
        {"openai_gptoss", "<|channel|>analysis<|message|>a<|end|>", false},
        {"openai_gptoss",
         "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>",
         true},
        {"openai_gptoss", "<|channel|>final<|message|>a", false},
        {"think", "a <think> b", true},
        {"think", "a <think> b</think> c", false},
        {"think", "a <think> b</think> c<think>", true},
        {"think", "a </think>", false},
    };
    struct chat_track t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT(chat_track_begin(&t, cases[i].name, true));
        chat_track_push(&t, cases[i].text, strlen(cases[i].text));
        EXPECT_INT(chat_track_inside(&t), cases[i].inside);
        EXPECT(!chat_track_ended(&t));
    }
    EXPECT(!chat_track_begin(&t, NULL, true) && !chat_track_begin(&t, "nosuch", false));
    chat_track_push(&t, "<think>", 7);
    EXPECT(!chat_track_inside(&t) && chat_track_ended(&t));
}
