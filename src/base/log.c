/* log.c - see log.h. A message is formatted on the stack and written by one write(2), so that
 * lines of several threads never mix. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum log_level log_level_max = LOG_WARN;

void log_line(enum log_level level, const char *fmt, ...)
{
    static const char *const prefix[] = {"error: ", "warning: ", "", "debug: "};
    if (level > log_level_max) return;
    char line[1024];
    int n = snprintf(line, sizeof line, "quoth: %s", prefix[level]);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (len > sizeof line - 2) len = sizeof line - 2;
    line[len++] = '\n';
    ssize_t put = write(STDERR_FILENO, line, len);
    (void)put; /* nowhere left to complain */
}
