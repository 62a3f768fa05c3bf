/* date_test.c - tests of times as text. */
#include "date.h"
#include "../../tests/unit.h"

TEST(dates_are_spelled)
{
    static const struct {
        int64_t us;
        const char *iso, *http;
    } want[] = {
        {0, "1970-01-01T00:00:00.000Z", "Thu, 01 Jan 1970 00:00:00 GMT"},
        {951782399999999, "2000-02-28T23:59:59.999Z", "Mon, 28 Feb 2000 23:59:59 GMT"},
        {951782400007000, "2000-02-29T00:00:00.007Z", "Tue, 29 Feb 2000 00:00:00 GMT"},
        {951782400070000, "2000-02-29T00:00:00.070Z", "Tue, 29 Feb 2000 00:00:00 GMT"},
        {1795350896789012, "2026-11-22T12:34:56.789Z", "Sun, 22 Nov 2026 12:34:56 GMT"},
    };
    struct buf b = {0};
    for (size_t i = 0; i < 2 * sizeof want / sizeof *want;
         i++) { /* the second round begins after the last time of the first round */
        size_t k = i % (sizeof want / sizeof *want);
        buf_clear(&b);
        date_put_iso(&b, want[k].us);
        EXPECT_TEXT(b.data, want[k].iso);
        buf_clear(&b);
        date_put_http(&b, want[k].us);
        EXPECT_TEXT(b.data, want[k].http);
    }
    buf_deinit(&b);
}
