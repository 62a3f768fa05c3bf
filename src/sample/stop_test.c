/* stop_test.c - goal: emitted text never contains a part of a stop string, and is otherwise
 * complete. Method: compare with a search in the whole text. Texts have two letters and random
 * splits. Stop strings overlap and are nested. */
#include "sample_test.h"

/* Return the stop string that is completed first, and set *end to its end; -1 if none. Return the
 * longest of several, and the first of equally long strings. */
static int ref_stop(const char *text, size_t n, const struct text_span *stop, int n_stop,
                    size_t *end)
{
    for (*end = 1; *end <= n; ++*end) {
        int found = -1;
        for (int i = 0; i < n_stop; i++)
            if (stop[i].n <= *end &&
                memcmp(text + *end - stop[i].n, stop[i].text, stop[i].n) == 0 &&
                (found < 0 || stop[i].n > stop[found].n))
                found = i;
        if (found >= 0) return found;
    }
    *end = n;
    return -1;
}

/* Return the length of the longest end of text[0, n) that begins a stop string. */
static size_t ref_held(const char *text, size_t n, const struct text_span *stop, int n_stop)
{
    size_t held = 0;
    for (int i = 0; i < n_stop; i++)
        for (size_t len = stop[i].n - 1; len > held; len--)
            if (len <= n && memcmp(text + n - len, stop[i].text, len) == 0) held = len;
    return held;
}

static bool shows(const struct buf *out, const char *text, size_t n)
{
    return out->n == n && (n == 0 || memcmp(out->data, text, n) == 0);
}

static bool stop_agrees(const char *text, size_t n, const struct text_span *stop, int n_stop,
                        uint64_t *rng)
{
    struct err e;
    struct stop_match *m;
    struct buf out = {0};
    bool include = rng_below(rng, 2), ok = true;
    size_t end, fed = 0;
    int want = ref_stop(text, n, stop, n_stop, &end), got = -1;
    if (stop_match_open(&m, stop, n_stop, &e) != 0) return false;
    while (fed < n && got < 0) {
        size_t piece = rng_below(rng, n - fed + 1);
        got = stop_match_push(m, text + fed, piece, include, &out);
        fed += piece;
        if (got < 0) ok &= shows(&out, text, fed - ref_held(text, fed, stop, n_stop));
    }
    ok &= got == want;
    ok &= got < 0 || stop_match_push(m, "ab", 2, include, &out) == want;
    stop_match_flush(m, &out);
    stop_match_flush(m, &out);
    ok &= shows(&out, text, got >= 0 && !include ? end - stop[got].n : end);
    stop_match_close(m);
    buf_deinit(&out);
    return ok;
}

TEST(sample_stop_strings_match_search_in_whole_text)
{
    char text[60], words[4][8];
    struct text_span stop[4];
    uint64_t rng = 1;
    for (int v = 0; v < (test_long() ? 200000 : 20000); v++) {
        size_t n = rng_below(&rng, sizeof text);
        int n_stop = (int)rng_below(&rng, 5), n_letter = 1 + (int)rng_below(&rng, 3);
        for (size_t i = 0; i < n; i++) text[i] = "ab\xc3"[rng_below(&rng, (uint64_t)n_letter)];
        for (int s = 0; s < n_stop; s++) {
            stop[s] = (struct text_span){words[s], 1 + rng_below(&rng, 8)};
            for (size_t i = 0; i < stop[s].n; i++)
                words[s][i] = "ab\xc3"[rng_below(&rng, (uint64_t)n_letter)];
        }
        NEED(stop_agrees(text, n, stop, n_stop, &rng));
    }
}

TEST(sample_stop_string_over_tokens_leaks_nothing)
{
    const struct text_span stop[] = {{"</end>", 6}, {"\n\n", 2}};
    struct err e;
    struct stop_match *m;
    struct buf out = {0};
    NEED_OK(stop_match_open(&m, stop, 2, &e), &e);
    EXPECT_INT(stop_match_push(m, "yes\n", 4, false, &out), -1);
    EXPECT_TEXT(out.data, "yes");
    EXPECT_INT(stop_match_push(m, "</", 2, false, &out), -1);
    EXPECT_TEXT(out.data, "yes\n");
    EXPECT_INT(stop_match_push(m, "en", 2, false, &out), -1);
    EXPECT_INT(stop_match_push(m, "d> more", 7, false, &out), 0);
    EXPECT_TEXT(out.data, "yes\n");
    stop_match_close(m);
    buf_deinit(&out);
}

TEST(sample_stop_strings_are_checked)
{
    const struct text_span stop[] = {{"a", 1}, {"", 0}, {"b", (size_t)1 << 30}};
    struct err e;
    struct stop_match *m;
    EXPECT_INT(stop_match_open(&m, stop, 2, &e), ERR_ARG);
    EXPECT(strstr(e.text, "stop[1]"));
    EXPECT_INT(stop_match_open(&m, stop + 2, 1, &e), ERR_LIMIT);
}
