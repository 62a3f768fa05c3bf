/* Goal: the state of a batch does not change when it is written and read. Windows are times. The
 * lines read from chunks are those of the whole text. */
#include "batches.h"

#include "files.h"

#include "base/os.h"
#include "base/rng.h"

#include "../../tests/unit.h"

#include <stdio.h>
#include <string.h>

/* Return the window in seconds; the code of the error if the window is rejected. */
static int64_t window(const char *text)
{
    int64_t seconds;
    struct err e = {0};
    const int rc = batch_read_window(text, &seconds, &e);
    if (rc != 0) EXPECT_TEXT(e.field, "completion_window");
    return rc ? rc : seconds;
}

TEST(batch_windows_are_times)
{
    EXPECT_INT(window("24h"), 86400);
    EXPECT_INT(window("1s"), 1);
    EXPECT_INT(window("90m"), 5400);
    EXPECT_INT(window("30d"), 2592000);
    EXPECT_INT(window("2592000s"), 2592000);
    static const char *const bad[] = {"",     "h",
                                      "24",   "0h",
                                      "-1h",  "31d",
                                      "24hh", "24 h",
                                      "721h", "99999999999999999999h",
                                      "1w",   "2592001s",
                                      "24H",  "000000000000001h"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) EXPECT_INT(window(bad[i]), ERR_ARG);
}

TEST(batch_states_are_the_same_after_reading)
{
    struct batch_state b = {.owner = 7,
                            .id = MSGBATCH_PREFIX "a",
                            .status = BATCH_expired,
                            .endpoint = "/v1/messages",
                            .input = "file-b",
                            .output = "file-c",
                            .error = "file-d",
                            .window = "24h",
                            .output_seconds = 3600,
                            .n_line = 10,
                            .n = {1, 2, 3, 4}};
    struct batch_state c;
    struct buf text = {0}, again = {0};
    struct err e = {0};
    int64_t t = 100;
#define X(name) b.name = t++;
    BATCH_TIMES(X)
#undef X
    buf_add_text(&b.metadata, "{\"a\":\"\\\"b\"}");
    (void)err_field(&e, ERR_ARG, "url", ": \"wrong\"");
    batch_add_error(&b, "invalid_url", &e, 3);
    batch_add_error(&b, "empty_file", &e, 0);
    batch_put(&(struct json_out){.b = &text}, &b);
    EXPECT_INT(batch_read(&c, 7, b.id, &text, &e), 0);
    EXPECT(batch_ended(&c) && batch_is_anthropic(&c));
    EXPECT_INT(c.status, BATCH_expired);
    EXPECT_INT(c.cancelled_at, b.cancelled_at);
    EXPECT_INT(c.n[BATCH_EXPIRED], 4);
    batch_put(&(struct json_out){.b = &again}, &c);
    EXPECT_TEXT(again.data, text.data);
    batch_deinit(&c);
    /* other texts are damaged states, not batches */
    static const char *const bad[] = {"", "{", "{}", "[]", "{\"status\":\"none\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct buf head = {.data = (char *)bad[i], .n = strlen(bad[i])};
        EXPECT_INT(batch_read(&c, 7, b.id, &head, &e), ERR_FORMAT);
        batch_deinit(&c);
    }
    batch_deinit(&b);
    buf_deinit(&text);
    buf_deinit(&again);
}

/* Goal: random texts, also with lines longer than a chunk, are stored unchanged, and reading gives
 * the lines of a split at newlines. */
TEST(batch_lines_do_not_depend_on_chunks)
{
    struct store *s;
    struct err e = {0};
    uint64_t rng = 11;
    NEED(store_open(&s, &(struct store_options){.bytes_max = 64 << 20}, &e) == 0);
    for (int i = 0; i < 40; i++) {
        struct buf text = {0}, whole = {0};
        char id[STORE_ID_BYTES];
        const int n_line = (int)rng_below(&rng, 300);
        for (int k = 0; k < n_line; k++) {
            const uint64_t kind = rng_below(&rng, 50), n = kind == 0   ? rng_below(&rng, 200000)
                                                           : kind < 10 ? 0
                                                                       : rng_below(&rng, 2000);
            for (uint64_t m = 0; m < n; m++) buf_add_char(&text, (char)('a' + rng_below(&rng, 26)));
            if (kind < 20) buf_add_text(&text, " \r");
            if (k + 1 < n_line || kind % 2) buf_add_char(&text, '\n');
        }
        snprintf(id, sizeof id, FILE_PREFIX "%d", i);
        EXPECT_INT(store_put(s, 1, id, &(struct store_texts){.pinned = true}, &e), 0);
        EXPECT_INT(file_store_content(s, 1, id, text.data, text.n, &e), 0);
        struct batch_cursor c = {.store = s, .owner = 1, .id = id};
        const char *at = text.data, *end = text.data + text.n;
        int64_t number = 0;
        int more;
        while ((more = batch_cursor_next(&c, &e)) == 1) {
            size_t n = 0;
            do { /* the next line that is not blank */
                const char *line_end = memchr(at, '\n', (size_t)(end - at));
                n = line_end ? (size_t)(line_end - at) : (size_t)(end - at);
                number++;
                if (n > 2 || (n > 0 && *at != ' ')) break;
                at += n + 1;
            } while (at < end);
            EXPECT_INT(c.number, number);
            EXPECT_INT(c.n_line, n);
            EXPECT(c.n_line == n && memcmp(c.line, at, n) == 0);
            at += n + 1;
        }
        EXPECT_INT(more, 0);
        for (int64_t n = 0; n >= 0; n++) {
            EXPECT_INT(store_read_chunk(s, 1, id, 0, &n, &whole, &e), 0);
            if (n < 0) break;
        }
        EXPECT(whole.n == text.n && (text.n == 0 || memcmp(whole.data, text.data, text.n) == 0));
        EXPECT_INT(store_delete(s, 1, id, &e), 0);
        batch_cursor_deinit(&c);
        buf_deinit(&text);
        buf_deinit(&whole);
    }
    EXPECT_INT(store_stats(s).n_byte, 0);
    store_close(s);
}
