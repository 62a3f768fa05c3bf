/* check.h - assert a condition that only a bug of this program can violate.
 *
 * CHECK enforces the preconditions of headers, also in release builds. The condition of a CHECK
 * takes constant time. Input (a file, a request, an option) cannot violate the condition: invalid
 * input causes an error. A failed CHECK prints the place, the condition and the values. Then it
 * aborts. Any thread. */
#ifndef QUOTH_BASE_CHECK_H
#define QUOTH_BASE_CHECK_H

#include <stdbool.h>

/* Example: CHECK(page < n_page, "page %d of %d", page, n_page) */
#define CHECK(cond, ...)                                                                           \
    (__builtin_expect(!(cond), 0) ? check_failed(__FILE__, __LINE__, #cond, __VA_ARGS__) : (void)0)

/* Print the place, the condition and the formatted values to standard error, then abort. Only CHECK
 * calls it. Any thread. */
_Noreturn void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), cold));

/* true in builds with DEBUG=1 or SAN=.... In these builds, batch_check, pages_check, door_check and
 * engine_check check whole structures after every step. conn_check and lane_check run after each
 * round of the server's loop. The threads of batches, of models and of responses in the background
 * check their lists in every round. A queue, also the library's, checks its invariants at every
 * call. */
extern const bool check_steps;

#endif
