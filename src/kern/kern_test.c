/* kern_test.c - goal: every level of kernels gives the bits of the reference, and the reference
 * is right. Here: what concerns all of them; each family has a test file of its own. */
#include "../../tests/unit.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "kern_impl.h"

#include <stdlib.h>

TEST(an_unknown_level_is_refused_by_name)
{
    struct kern k;
    struct err e;
    EXPECT_INT(kern_open(&k, "mmx", &e), ERR_ARG);
    EXPECT(strstr(e.text, "mmx") && strstr(e.text, "ref"));
}

TEST(float_mode_is_canonical_again_after_a_host_changed_it)
{
    unsigned former = cpu_float_canonical();
    volatile float tiny = 1e-39f;
    EXPECT(tiny * 0.5f != 0);
    cpu_float_restore(former);
}
