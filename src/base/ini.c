/* ini.c - see ini.h. */
#include "ini.h"

#include <string.h>

enum { LINE_MAX_BYTES = 4096 };

/* Remove blanks at both ends of a text, in place. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1])) n--;
    text[n] = 0;
    return text;
}

/* Remove the quotes of a quoted value, in place. Return NULL if the closing quote is missing. */
static char *unquote(char *value)
{
    const size_t n = strlen(value);
    if (*value != '"') return value;
    if (n < 2 || value[n - 1] != '"') return NULL;
    value[n - 1] = 0;
    return value + 1;
}

/* Parse a line in place and call the caller's function. `section` receives the name of a
 * section. */
static int read_line(char *line, char section[LINE_MAX_BYTES + 1], ini_fn *fn, void *ctx,
                     struct err *e)
{
    char *text = trim(line), *equals = strchr(text, '=');
    if (!*text || *text == ';' || *text == '#') return 0;
    if (*text == '[') {
        const size_t len = strlen(text);
        if (text[len - 1] != ']') return err_set(e, ERR_FORMAT, "expected ] at the line's end");
        text[len - 1] = 0;
        text = trim(text + 1);
        if (!*text) return err_set(e, ERR_FORMAT, "expected the name of a section");
        memcpy(section, text, strlen(text) + 1);
        return fn(ctx, section, NULL, NULL, e);
    }
    if (!equals || equals == text) return err_set(e, ERR_FORMAT, "expected KEY = VALUE");
    *equals = 0;
    char *value = unquote(trim(equals + 1));
    if (!value) return err_set(e, ERR_FORMAT, "expected a second quotation mark");
    return fn(ctx, section, trim(text), value, e);
}

int ini_read(const char *text, size_t n, const char *path, ini_fn *fn, void *ctx, struct err *e)
{
    char line[LINE_MAX_BYTES + 1], section[LINE_MAX_BYTES + 1] = "";
    int rc = 0, number = 0;
    for (size_t at = 0; rc == 0 && at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t len = end ? (size_t)(end - text) - at : n - at;
        number++;
        if (len > LINE_MAX_BYTES) {
            rc = err_set(e, ERR_LIMIT, "the line has %zu bytes, more than %d", len, LINE_MAX_BYTES);
        } else if (memchr(text + at, 0, len)) {
            rc = err_set(e, ERR_FORMAT, "the line has a NUL");
        } else {
            memcpy(line, text + at, len);
            line[len] = 0;
            rc = read_line(line, section, fn, ctx, e);
        }
        at += len + 1;
    }
    return rc ? err_prefix(e, rc, "%s:%d", path, number) : 0;
}
