/* check.h - assert a condition that only a bug of this program can violate.
 *
 * CHECK enforces the preconditions that a header states, and stays in release builds. Its condition
 * is O(1), can fail, and cannot be reached by input (a file, a request, an option), which gets an
 * error instead. A failed CHECK prints the place, the condition and the values, and aborts. */
#ifndef QUOTH_BASE_CHECK_H
#define QUOTH_BASE_CHECK_H

#include <stdbool.h>

/* CHECK(condition, "page %d of %d", page, n_page) */
#define CHECK(cond, ...)                                                                           \
    (__builtin_expect(!(cond), 0) ? check_failed(__FILE__, __LINE__, #cond, __VA_ARGS__) : (void)0)

_Noreturn void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), cold));

/* true in builds with DEBUG=1 or SAN=...: batch_check, pages_check and engine_check walk whole
 * structures after every step */
extern const bool check_steps;

#endif
