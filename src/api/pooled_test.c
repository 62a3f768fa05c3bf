/* Goal: the two names of the field that normalizes embeddings do not contradict each other. */
#include "pooled.h"
#include "rig_test.h"

/* Return the value that a body sets, by default 1; -1 after an error. */
static int normalize_of(const char *text, struct err *e)
{
    struct json *body = parse(text);
    bool normalize = true;
    const int rc = pooled_read_normalize(body, &normalize, e);
    json_drop(body);
    return rc ? -1 : normalize;
}

TEST(names_of_normalize_do_not_contradict_each_other)
{
    struct err e = {0};
    EXPECT_INT(normalize_of("{}", &e), 1);
    EXPECT_INT(normalize_of("{'normalize':false}", &e), 0);
    EXPECT_INT(normalize_of("{'use_activation':false}", &e), 0);
    EXPECT_INT(normalize_of("{'normalize':false,'use_activation':false}", &e), 0);
    EXPECT_INT(normalize_of("{'normalize':true,'use_activation':false}", &e), -1);
    EXPECT(strstr(e.text, "normalize: must not come with use_activation"));
    EXPECT_INT(normalize_of("{'normalize':false,'use_activation':true}", &e), -1);
}
