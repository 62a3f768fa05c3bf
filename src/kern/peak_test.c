/* peak_test.c - goal: measuring loops run on this machine, and their figures are plausible. */
#include "kern.h"
#include "base/cores.h"
#include "base/os.h"
#include "../../tests/unit.h"

static void check(struct pool *p, const char *level, const char *name, peak_fn *fn)
{
    if (!fn) return;
    EXPECT(fn(100) > 0 && fn(2000) > fn(100));
    double rate = peak_rate(p, fn, 3000);
    EXPECT(rate > 1e7 && rate < 1e15);
    test_note("%s %s: %.3f TOP/s", level, name, rate * 1e-12);
}

TEST(peaks_of_this_machine)
{
    struct err e;
    struct pool *p;
    const struct peak *list[16];
    int n = peak_list(list, 16);
    NEED(n >= 1 && strcmp(list[0]->name, "ref") == 0 && list[0]->read);
    NEED_OK(pool_open(&p, cores_usable(), &e), &e);
    for (int i = 0; i < n; i++) {
        check(p, list[i]->name, "int8", list[i]->int8);
        check(p, list[i]->name, "bf16", list[i]->bf16);
        check(p, list[i]->name, "f32", list[i]->f32);
    }
    pool_close(p);
}

TEST(peak_bandwidth_is_possible)
{
    struct err e;
    struct pool *p;
    enum { N = 3 << 20 };
    NEED_OK(pool_open(&p, 2, &e), &e);
    uint8_t *data = os_alloc(N);
    NEED(data);
    memset(data, 1, N);
    double whole = peak_bandwidth(p, data, N, 3000), odd = peak_bandwidth(p, data, 4096, 3000);
    EXPECT(whole > 1e8 && whole < 1e14 && odd > 1e6);
    const struct peak *list[16];
    int n = peak_list(list, 16);
    for (int i = 0; i < n; i++)
        if (list[i]->read) list[i]->read(data, N);
    os_free(data, N);
    pool_close(p);
}
