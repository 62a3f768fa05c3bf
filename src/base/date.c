/* date.c - see date.h. */
#include "date.h"

#include <time.h>

struct second {
    time_t at;
    char text[40]; /* empty before the first call */
};

static const char *format_time(struct second *s, int64_t wall_us, const char *format)
{
    time_t at = (time_t)(wall_us / 1000000);
    struct tm tm;
    if (s->text[0] && s->at == at) return s->text;
    gmtime_r(&at, &tm);
    strftime(s->text, sizeof s->text, format, &tm);
    s->at = at;
    return s->text;
}

void date_put_iso(struct buf *b, int64_t wall_us)
{
    static _Thread_local struct second last;
    buf_addf(b, "%s.%03dZ", format_time(&last, wall_us, "%Y-%m-%dT%H:%M:%S"),
             (int)(wall_us / 1000 % 1000));
}

void date_put_http(struct buf *b, int64_t wall_us)
{
    static _Thread_local struct second last;
    buf_add_text(b, format_time(&last, wall_us, "%a, %d %b %Y %H:%M:%S GMT"));
}
