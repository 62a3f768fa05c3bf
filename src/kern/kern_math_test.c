/* kern_math_test.c - goal: exp, log, tanh, erf and the activations have the errors documented in
 * kern_math.h. Method: compare with libm in double precision. The long run tests every f32, the
 * short run every 4999th. Special values are tested one by one. */
#include "../../tests/unit.h"

#include "kern_impl.h"

#include <stdlib.h>

/* Return |got - want| in units of the last place of an f32 of `size`. */
static double ulps(float got, double want, double size)
{
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (isinf(got) || isinf((float)want)) return got == (float)want ? 0 : INFINITY;
    int e;
    frexp(size, &e);
    return fabs(got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

/* Return the largest error of f for the f32 values in [-reach, reach] and NaN. The error is
 * relative to the argument if of_x is true, otherwise to the exact value. */
static double worst_of(float (*f)(float), double (*exact)(double), double reach, bool of_x)
{
    double worst = 0;
    uint32_t step = test_long() ? 1 : 4999;
    for (uint64_t u = 0; u <= 0xFFFFFFFFu; u += step) {
        float x = f32_of_bits((uint32_t)u);
        if (fabs((double)x) > reach) continue;
        double want = exact(x), d = ulps(f(x), want, of_x ? x : want);
        worst = d > worst ? d : worst;
    }
    return worst;
}

static double silu_exact(double x)
{
    return x / (1 + exp(-x));
}

static double sigmoid_exact(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu_tanh_exact(double x)
{
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double softplus_exact(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double gelu_erf_exact(double x)
{
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}

TEST(kern_exp_log_tanh_erf_are_within_their_bounds)
{
    const struct {
        const char *name;
        float (*f)(float);
        double (*exact)(double);
        double bound, reach;
        bool of_x;
    } rows[] = {{"2^x", exp2_weight, exp2, 2, 100, false},
                {"exp", exp_f32, exp, 1.5, 110, false},
                {"softplus", softplus_f32, softplus_exact, 2.5, 87, false},
                {"log", log_f32, log, 0.81, INFINITY, false},
                {"tanh", tanh_f32, tanh, 1.1, INFINITY, false},
                {"erf", erf_f32, erf, 1.1, INFINITY, false},
                {"expm1", expm1_f32, expm1, 2.5, 88, false},
                {"sigmoid", sigmoid_f32, sigmoid_exact, 2.5, 80, false},
                {"silu", silu_f32, silu_exact, 2, 1e30, true},
                {"gelu, tanh", gelu_tanh_f32, gelu_tanh_exact, 2, 1e30, true},
                {"gelu, erf", gelu_erf_f32, gelu_erf_exact, 2, 1e30, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double worst = worst_of(rows[i].f, rows[i].exact, rows[i].reach, rows[i].of_x);
        test_note("%-10s at most %.3f ulp%s", rows[i].name, worst, rows[i].of_x ? " of x" : "");
        EXPECT(worst <= rows[i].bound);
    }
}

TEST(kern_math_corners_are_exact)
{
    EXPECT(kern_exp(0.0f) == 1.0f && kern_exp(-0.0f) == 1.0f);
    EXPECT(kern_exp(-INFINITY) == 0 && kern_exp(INFINITY) == INFINITY && isnan(kern_exp(NAN)));
    EXPECT(log_f32(1) == 0 && log_f32(0.0f) == -INFINITY && log_f32(-0.0f) == -INFINITY);
    EXPECT(log_f32(INFINITY) == INFINITY && isnan(log_f32(-1)) && isnan(log_f32(NAN)));
    EXPECT(softplus_f32(-INFINITY) == 0 && softplus_f32(INFINITY) == INFINITY &&
           isnan(softplus_f32(NAN)));
    EXPECT(tanh_f32(INFINITY) == 1 && tanh_f32(-INFINITY) == -1 && isnan(tanh_f32(NAN)));
    EXPECT(expm1_f32(0) == 0 && expm1_f32(-INFINITY) == -1 && expm1_f32(INFINITY) == INFINITY &&
           isnan(expm1_f32(NAN)));
    EXPECT(sigmoid_f32(0) == 0.5f && sigmoid_f32(INFINITY) == 1 && sigmoid_f32(-INFINITY) == 0 &&
           isnan(sigmoid_f32(NAN)));
    EXPECT(erf_f32(INFINITY) == 1 && erf_f32(-INFINITY) == -1 && isnan(erf_f32(NAN)));
    EXPECT(signbit(tanh_f32(-0.0f)) && signbit(erf_f32(-0.0f)) && !signbit(tanh_f32(0.0f)));
    EXPECT(gelu_tanh_f32(100) == 100 && gelu_erf_f32(100) == 100 && silu_f32(100) == 100);
    EXPECT(gelu_tanh_f32(-100) == 0 && gelu_erf_f32(-100) == 0 && silu_f32(-100) == 0);
}
