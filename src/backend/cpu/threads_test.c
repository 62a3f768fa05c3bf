/* Goal: the chosen number of threads exists on the machine and is found quickly. Method: describe
 * this machine's CPUs with different cores and quotas. */
#include "cpu_impl.h"

#include "base/cores.h"
#include "base/os.h"
#include "../../../tests/unit.h"

static struct cores machine(int n_cpu, int n_core, int n_quota)
{
    struct cores c;
    cores_make(&c, n_cpu, n_core);
    c.n_quota = n_quota;
    return c;
}

TEST(threads_without_a_choice)
{
    struct cores four = machine(4, 4, 4), quota = machine(8, 8, 3), half = machine(8, 4, 2);
    EXPECT_INT(cpu_threads_probe(&four), 4);
    EXPECT_INT(cpu_threads_probe(&quota), 3);
    EXPECT_INT(cpu_threads_probe(&half), 2);
    EXPECT_INT(cpu_threads(1 << 20), cores_usable());
}

TEST_ALONE(threads_are_tried)
{
    struct cores hyper = machine(2, 1, 2), eight = machine(8, 8, 8);
    int64_t start = time_us();
    int n = cpu_threads_probe(&hyper);
    test_note("%d threads of 1 or 2, found in %.0f ms", n, (double)(time_us() - start) * 1e-3);
    EXPECT(n == 1 || n == 2);
    n = cpu_threads_probe(&eight);
    EXPECT(n == 8 || n == 6 || n == 4);
    EXPECT(cpu_threads(1ll << 40) >= 1 && cpu_threads(1ll << 40) == cpu_threads(1ll << 40));
}
