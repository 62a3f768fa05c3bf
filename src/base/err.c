/* err.c - see err.h. This file does not allocate, because errors are also reported after memory has
 * run out. */
#include "err.h"
#include "utf8.h"

#include <stdio.h>
#include <string.h>

/* Begin a new failure. The caller appends the sentence. */
static void begin(struct err *e, int code, const char *field)
{
    e->code = code;
    e->n_found = e->n_max = 0;
    e->field_at = 0;
    snprintf(e->field, sizeof e->field, "%s", field);
    utf8_show(e->field, strlen(e->field));
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (!e) return code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    utf8_show(e->text, strlen(e->text));
    begin(e, code, "");
    return code;
}

int err_field(struct err *e, int code, const char *field, const char *fmt, ...)
{
    if (!e) return code;
    begin(e, code, field);
    size_t n = strlen(e->field);
    memcpy(e->text, e->field, n);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text + n, sizeof e->text - n, fmt, ap);
    va_end(ap);
    utf8_show(e->text + n, strlen(e->text + n));
    return code;
}

/* Replace the field's name at field_at in the sentence. Prefixes have moved field_at to the
 * right. */
int err_rename(struct err *e, int code, const char *from, const char *to)
{
    if (!e || !*e->field || strcmp(e->field, from) != 0) return code;
    char old[sizeof e->text];
    size_t n = strlen(e->text), at = e->field_at < n ? e->field_at : n, end = at + strlen(e->field);
    memcpy(old, e->text, sizeof old);
    snprintf(e->text + at, sizeof e->text - at, "%s%s", to, old + (end < n ? end : n));
    snprintf(e->field, sizeof e->field, "%s", to);
    utf8_show(e->text, strlen(e->text));
    return code;
}

int err_figures(struct err *e, int code, long long n_found, long long n_max)
{
    if (!e) return code;
    e->n_found = n_found;
    e->n_max = n_max;
    return code;
}

/* Replace the sentence by a prefix that fills the whole text. */
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
        (void)m; /* truncation is the documented behaviour */
        e->field_at += (size_t)n + 2;
    }
    utf8_show(e->text, strlen(e->text));
    e->code = code;
    return code;
}

int err_memory(struct err *e, const char *what, unsigned long long n)
{
    if (n == 0) return err_set(e, ERR_MEMORY, "out of memory: %s", what);
    return err_set(e, ERR_MEMORY, "out of memory: %llu bytes for %s", n, what);
}
