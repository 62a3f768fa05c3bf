/* log.c - see log.h. A message is formatted on the stack and written by one write(2), so that
 * lines of several threads never mix. */
#include "log.h"
#include "date.h"
#include "json.h"
#include "os.h"
#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

_Atomic enum log_level log_level_max = LOG_WARN;
_Atomic bool log_silent;
bool log_as_json;

static void put_line(const char *line, size_t n)
{
    ssize_t put = write(STDERR_FILENO, line, n);
    (void)put; /* nowhere left to complain */
}

static void put_json(enum log_level level, const char *text, size_t n)
{
    static const char *const name[] = {"error", "warning", "info", "debug"};
    struct buf b = {0};
    buf_add_text(&b, "{\"time\":\"");
    date_put_iso(&b, time_wall_us());
    buf_addf(&b, "\",\"level\":\"%s\",\"message\":", name[level]);
    json_put_text(&b, text, n);
    buf_add_text(&b, "}\n");
    if (!b.failed) put_line(b.data, b.n);
    buf_deinit(&b);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    static const char *const prefix[] = {"error: ", "warning: ", "", "debug: "};
    if (log_silent || level > log_level_max) return;
    char line[1024];
    int n = log_as_json ? 0 : snprintf(line, sizeof line, "quoth: %s", prefix[level]);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (len > sizeof line - 2) len = sizeof line - 2;
    if (log_as_json) {
        put_json(level, line, len);
        return;
    }
    utf8_show(line, len); /* a client's words make no line of their own */
    line[len++] = '\n';
    put_line(line, len);
}
