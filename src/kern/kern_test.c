/* kern_test.c - goal: every level of kernels gives the bits of the reference, and the reference is
 * correct. This file has the common tests. Each family has its own test file. */
#include "../../tests/unit.h"

#include "kern_impl.h"

TEST(an_unknown_level_is_refused_by_name)
{
    struct kern k;
    struct err e;
    EXPECT_INT(kern_open(&k, "mmx", &e), ERR_ARG);
    EXPECT(strstr(e.text, "mmx") && strstr(e.text, "ref"));
}
