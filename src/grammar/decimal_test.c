/* Goal: each language of numbers accepts exactly the numbers that satisfy its comparison. Method:
 * compare bounds and numbers in every spelling as doubles. Doubles are sufficiently exact for this
 * number of digits. */
#include "decimal.h"
#include "../../tests/unit.h"

#include <math.h>
#include <stdlib.h>

static const struct expr_limits LIMIT = {.bytes_max = 64u << 20, .row_max = 100000};

TEST(decimal_intervals)
{
    static const char *const bound[] = {"0",     "1",     "7",   "10",  "99",    "-3",     "0.5",
                                        "-0.25", "12.75", "-10", "1e2", "0.009", "-100.01"};
    struct exprs x;
    NEED(exprs_open(&x, LIMIT));
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) {
        struct decimal d;
        NEED(decimal_read(&d, bound[i], strlen(bound[i])));
        double v = strtod(bound[i], NULL);
        uint32_t gt = number_above(&x, &d, false, true), ge = number_above(&x, &d, true, true),
                 eq = number_equal(&x, &d, true);
        /* k: the number in hundredths. The sample contains all numbers near the bound. */
        const int every = test_long() ? 1 : 13;
        for (int k = -20200; k <= 20200; k += fabs(k - v * 100) < 60  ? 1
                                              : k > -1300 && k < 1300 ? every
                                                                      : 97) {
            char text[6][40];
            int a = k < 0 ? -k : k;
            const char *sign = k < 0 ? "-" : "";
            snprintf(text[0], 40, "%s%d.%02d", sign, a / 100, a % 100);
            snprintf(text[1], 40, "%s%d.%02d00", sign, a / 100, a % 100);
            snprintf(text[2], 40, "%s%d.%d", sign, a / 100, a % 100 / 10);
            snprintf(text[3], 40, "%s%d", sign, a / 100);
            snprintf(text[4], 40, "%.6e", k / 100.0);
            snprintf(text[5], 40, "%s%.4gE%d", sign, a / 100.0 / pow(10, floor(log10(a / 100.0))),
                     a ? (int)floor(log10(a / 100.0)) : 0);
            for (int t = 0; t < 6; t++) {
                if (t >= 4 && (a == 0 || strlen(text[t]) > 20))
                    continue; /* zero has no scientific spelling */
                if ((t == 2 && a % 10) || (t == 3 && a % 100)) continue;
                double y = strtod(text[t], NULL);
                size_t n = strlen(text[t]);
                bool ok =
                    expr_matches(&x, gt, text[t], n) == (y > v) &&
                    expr_matches(&x, ge, text[t], n) == (y >= v) &&
                    expr_matches(&x, eq, text[t], n) == (y == v) &&
                    expr_matches(&x, t < 4 ? number_any(&x) : number_scientific(&x), text[t], n) &&
                    expr_matches(&x, number_integer(&x, true, true), text[t], n) == (y == floor(y));
                if (!ok) test_fail(__FILE__, __LINE__, "%s against %s", text[t], bound[i]);
            }
        }
    }
    EXPECT(!expr_matches(&x, number_any(&x), "01", 2) &&
           !expr_matches(&x, number_any(&x), "1.", 2));
    EXPECT(expr_matches(&x, number_integer(&x, true, true), "-5.00", 5) &&
           !expr_matches(&x, number_integer(&x, false, true), "-5.00", 5));
    EXPECT(x.failed == EXPR_OK);
    exprs_close(&x);
}
