/* log.c - see log.h. A message is formatted on the stack. One write(2), or the log's thread, writes
 * the whole message. Therefore lines of several threads never mix. */
#include "log.h"
#include "buf.h"
#include "date.h"
#include "json.h"
#include "os.h"
#include "utf8.h"
#include "writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

_Atomic enum log_level log_level_max = LOG_WARN;
_Atomic bool log_silent;
_Thread_local struct buf *log_kept;
bool log_as_json;

/* owned; set before logging threads start, reset after they end */
static struct writer *writer;

int log_begin(struct err *e)
{
    enum { WAITING_BYTES = 1 << 20 };
    return writer_open(&writer, STDERR_FILENO, WAITING_BYTES, e);
}

void log_end(int wait_ms)
{
    writer_close(writer, wait_ms);
    writer = NULL;
}

void log_flush(int wait_ms)
{
    if (writer) writer_flush(writer, wait_ms);
}

struct writer *log_writer(void)
{
    return writer;
}

static void put_line(const char *line, size_t n)
{
    ssize_t put = writer ? writer_put(writer, line, n) : write(STDERR_FILENO, line, n);
    (void)put; /* a failed write cannot be reported */
}

/* Escape control characters that JSON permits in texts, such as U+202E. */
void log_put_json(struct buf *b, const char *text)
{
    struct buf plain = {0};
    json_put_text(&plain, text, strlen(text));
    for (size_t i = 0; i < plain.n;) {
        uint32_t cp;
        size_t len = (size_t)utf8_decode(plain.data + i, plain.n - i, &cp); /* valid UTF-8 */
        if (utf8_is_control(cp))
            buf_addf(b, "\\u%04x", (unsigned)cp);
        else
            buf_add(b, plain.data + i, len);
        i += len;
    }
    b->failed |= plain.failed;
    buf_deinit(&plain);
}

/* Escape as \xNN. Quotes and backslashes are escaped too, because the text is put between
 * quotes. */
void log_put_plain(struct buf *b, const char *text)
{
    for (size_t i = 0, n = strlen(text); i < n;) {
        uint32_t cp;
        int len = utf8_decode(text + i, n - i, &cp), m = len > 0 ? len : 1;
        bool escape = len <= 0 || cp == '"' || cp == '\\' || utf8_is_control(cp);
        for (int k = 0; escape && k < m; k++)
            buf_addf(b, "\\x%02x", (unsigned char)text[i + (size_t)k]);
        if (!escape) buf_add(b, text + i, (size_t)m);
        i += (size_t)m;
    }
}

void log_put(struct buf *b, enum log_level level, const char *text, size_t n)
{
    static const char *const name[] = {"error", "warning", "info", "debug"}, *const prefix[] = {
                                                                                 "error: ",
                                                                                 "warning: ", "",
                                                                                 "debug: "};
    char line[LINE_BYTES];
    if (n > sizeof line - 1) n = sizeof line - 1;
    memcpy(line, text, n);
    line[n] = 0;
    if (log_as_json) {
        buf_add_text(b, "{\"time\":\"");
        date_put_iso(b, time_wall_us());
        buf_addf(b, "\",\"level\":\"%s\",\"message\":", name[level]);
        log_put_json(b, line);
        buf_add_text(b, "}\n");
    } else {
        utf8_show(line, n); /* a client's text cannot begin a new line */
        buf_addf(b, "quoth: %s%s\n", prefix[level], line);
    }
}

void log_line(enum log_level level, const char *fmt, ...)
{
    char text[LINE_BYTES];
    struct buf b = {0};
    bool keeps = log_kept && level == LOG_WARN;
    if ((log_silent && !keeps) || level > log_level_max) return;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof text) n = sizeof text - 1;
    if (keeps && n > 0) {
        utf8_show(text, (size_t)n);
        buf_addf(log_kept, "%s\n", text);
        return;
    }
    log_put(&b, level, text, n < 0 ? 0 : (size_t)n);
    if (b.failed)
        put_line("quoth: out of memory\n", 21);
    else
        put_line(b.data, b.n);
    buf_deinit(&b);
}
