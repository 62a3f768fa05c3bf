/* Goal: a legal value matches in any case. The error for any other value lists all legal values.
 * Method: a list of three. */
#include "names.h"

#include "../../tests/unit.h"

#include <string.h>

NAMES(colours, "red", "green", "blue")
NAMES(ways, "round_robin", "openai-chat")

TEST(names_choose_or_list)
{
    const char *out = NULL;
    struct err e;
    NEED_OK(name_choose(&out, "--colour", colours, "GREEN", &e), &e);
    EXPECT_TEXT(out, "green");
    EXPECT(name_choose(&out, "--colour", colours, "gree", &e) == ERR_ARG);
    EXPECT_TEXT(e.text, "--colour: must be red, green or blue, got \"gree\"");
    EXPECT_TEXT(out, "green");
    EXPECT(!colours(3) && !colours(-1));
    NEED_OK(name_choose(&out, "--way", ways, "Round-Robin", &e), &e);
    EXPECT_TEXT(out, "round_robin");
    NEED_OK(name_choose(&out, "--way", ways, "openai_chat", &e), &e);
    EXPECT(name_choose(&out, "--way", ways, "round", &e) == ERR_ARG &&
           name_choose(&out, "--way", ways, "round_robin_", &e) == ERR_ARG);
}
