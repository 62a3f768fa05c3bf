/* cpu_test.c - goal: arithmetic is canonical after a host program has set other modes. Method: set
 * every mode that changes results, then check results. */
#include "cpu.h"

#include "../../tests/unit.h"
#include "bits.h"

/* ODD_MODE: all bits of the control register that change a result. Exceptions remain masked. */
#if defined(__x86_64__)
enum { ODD_MODE = 0xFFC0 }; /* rounding towards zero, FZ, DAZ */
#elif defined(__aarch64__)
enum { ODD_MODE = 0x7C80000 }; /* AHP, DN, FZ, towards zero, FZ16 */
#else
enum { ODD_MODE = 0 };
#endif

static float product(float x, float y)
{
    volatile float a = x, b = y;
    return a * b;
}

static float sum(float x, float y)
{
    volatile float a = x, b = y;
    return a + b;
}

static bool is_canonical(void)
{
    bool nearest = sum(1, 0x1.8p-24f) == 1 + 0x1p-23f && sum(-1, -0x1.8p-24f) == -1 - 0x1p-23f;
    bool subnormal = product(0x1p-100f, 0x1p-40f) != 0 && product(0x1p-140f, 0x1p100f) != 0;
    bool payload = (bits_of_f32(product(f32_of_bits(0x7FC12345), 1)) & 0x3FFFFF) == 0x12345;
    return nearest && subnormal && payload;
}

TEST(float_mode_is_canonical_after_a_host_changed_it)
{
    unsigned at_start = cpu_float_canonical();
    EXPECT(is_canonical());
    cpu_float_restore(ODD_MODE);
    bool odd = !is_canonical();
    unsigned former = cpu_float_canonical();
    EXPECT(is_canonical());
    EXPECT(odd == (ODD_MODE != 0));
    EXPECT((former & ODD_MODE) == ODD_MODE);
    cpu_float_restore(at_start);
}

TEST(cpu_has_a_name)
{
    EXPECT(cpu_name()[0]);
}
