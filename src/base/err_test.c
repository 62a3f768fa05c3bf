/* Goal: a failure gives its field separately from the sentence, also after a prefix or a rename.
 * Method: build sentences step by step, also up to the ends of both buffers. */
#include "err.h"

#include "../../tests/unit.h"

#include <string.h>

TEST(err_field_is_next_to_the_message)
{
    struct err e;
    EXPECT_INT(err_field(&e, ERR_ARG, "stop", "[%d]: must not be empty", 3), ERR_ARG);
    EXPECT(strcmp(e.text, "stop[3]: must not be empty") == 0 && strcmp(e.field, "stop") == 0);
    EXPECT_INT(e.code, ERR_ARG);
    EXPECT_INT(err_set(&e, ERR_IO, "stop: there is none"), ERR_IO);
    EXPECT(!*e.field && e.code == ERR_IO);
    EXPECT_INT(err_field(NULL, ERR_BUSY, "stop", ": must not be empty"), ERR_BUSY);
}

TEST(err_rename_changes_field_and_sentence)
{
    struct err e;
    err_field(&e, ERR_LIMIT, "prompt", ": %d tokens of prompt", 9);
    err_figures(&e, ERR_LIMIT, 9, 8);
    EXPECT_INT(err_rename(&e, ERR_LIMIT, "input", "messages"), ERR_LIMIT);
    EXPECT(strcmp(e.text, "prompt: 9 tokens of prompt") == 0);
    EXPECT_INT(err_rename(&e, ERR_LIMIT, "prompt", "messages"), ERR_LIMIT);
    EXPECT(strcmp(e.text, "messages: 9 tokens of prompt") == 0 && strcmp(e.field, "messages") == 0);
    EXPECT(e.n_found == 9 && e.n_max == 8);
    err_prefix(&e, ERR_LIMIT, "line %d", 4);
    err_rename(&e, ERR_LIMIT, "messages", "m");
    EXPECT(strcmp(e.text, "line 4: m: 9 tokens of prompt") == 0 && strcmp(e.field, "m") == 0);
}

TEST(err_field_is_cut_at_its_buffers)
{
    struct err e;
    char name[100], long_text[1000];
    memset(name, 'n', sizeof name - 1);
    memset(long_text, 't', sizeof long_text - 1);
    name[sizeof name - 1] = long_text[sizeof long_text - 1] = 0;
    err_field(&e, ERR_ARG, name, ": %s", long_text);
    EXPECT_INT((long long)strlen(e.field), (long long)sizeof e.field - 1);
    EXPECT_INT((long long)strlen(e.text), (long long)sizeof e.text - 1);
    EXPECT(strncmp(e.text, e.field, strlen(e.field)) == 0);
    err_prefix(&e, ERR_ARG, "%s", long_text); /* the prefix pushes the field out of the sentence */
    name[strlen(e.field)] = 0;
    err_rename(&e, ERR_ARG, name, "short");
    EXPECT(strcmp(e.field, "short") == 0 && strlen(e.text) < sizeof e.text);
    err_field(&e, ERR_ARG, "a\nb", ": %s", "c\nd");
    EXPECT(strcmp(e.text, "a b: c d") == 0 && strcmp(e.field, "a b") == 0);
}
