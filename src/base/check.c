/* check.c - see check.h. */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef QUOTH_CHECK_STEPS
const bool check_steps = true;
#else
const bool check_steps = false;
#endif

void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
    char values[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(values, sizeof values, fmt, ap);
    va_end(ap);
    fprintf(stderr, "quoth: a bug at %s:%d: %s does not hold: %s; please report this line\n", file,
            line, cond, values);
    abort(); /* check: a bug, not an error of a request */
}
