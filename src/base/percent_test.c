/* Goal: decoded texts are valid UTF-8 without NUL, and a rejected text leaves nothing of itself. */
#include "percent.h"
#include "../../tests/unit.h"

#include <string.h>

TEST(percent_decode)
{
    static const char *const bad[] = {"ab%00cd", "%", "%4", "%zz", "a%ff", "%c3", "%ed%a0%80"};
    char out[32];
    EXPECT_INT(percent_decode(out, "a%20b+c", 7, false), 5);
    EXPECT_TEXT(out, "a b+c");
    EXPECT_INT(percent_decode(out, "a%20b+%C3%a9", 12, true), 6);
    EXPECT_TEXT(out, "a b \xc3\xa9");
    EXPECT_INT(percent_decode(out, "%41%42", 4, false), -1); /* n ends within an escape */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(out, 'S', sizeof out);
        EXPECT_INT(percent_decode(out, bad[i], strlen(bad[i]), false), -1);
        EXPECT_TEXT(out, "");
    }
}
