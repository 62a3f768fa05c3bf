/* err.c - see err.h. No allocation: an error path must work when memory is gone. */
#include "err.h"
#include "utf8.h"

#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (!e) return code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    utf8_show(e->text, strlen(e->text));
    return code;
}

int err_prefix(struct err *e, int code, const char *fmt, ...)
{
    if (!e) return code;
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->text) {
        size_t room = sizeof e->text - (size_t)n;
        int m = snprintf(e->text + n, room, ": %s", old);
        (void)m; /* cut at the end is the stated behaviour */
    }
    utf8_show(e->text, strlen(e->text));
    return code;
}

int err_memory(struct err *e, const char *what, unsigned long long n)
{
    return err_set(e, ERR_MEMORY, "out of memory: %llu bytes for %s", n, what);
}
