/* json_out.c - see json_out.h. A json_out writes streamed answers, some hundred bytes per token.
 * Therefore out_plain copies a text without a search for characters to escape.
 *
 * `lists` has one bit for each open container, 1 for a list. `more` is true if the next value needs
 * a comma. This state replaces punctuation in the callers. */
#include "json_out.h"
#include "check.h"
#include "json.h"

#include <string.h>

/* Append the text before a value: a comma if it follows another value, and its key. */
static void begin_value(struct json_out *o, const char *key)
{
    bool comma = o->more;
    CHECK(!key || o->depth == 0 || !(o->lists >> (o->depth - 1) & 1), "a list has the key %s", key);
    size_t n = key ? strlen(key) : 0;
    o->more = true;
    if ((!comma && !key) || !buf_room(o->b, n + 4)) return;
    char *at = o->b->data + o->b->n;
    if (comma) *at++ = ',';
    if (key) {
        *at++ = '"';
        memcpy(at, key, n);
        at += n;
        *at++ = '"';
        *at++ = ':';
    }
    *at = 0;
    o->b->n = (size_t)(at - o->b->data);
}

/* Open a container. Bits of closed levels are overwritten, so out_end need not clear them. */
static void begin(struct json_out *o, const char *key, bool list)
{
    CHECK(o->depth < OUT_DEPTH_MAX, "%d containers are open", o->depth);
    begin_value(o, key);
    buf_add_char(o->b, list ? '[' : '{');
    uint64_t bit = (uint64_t)1 << o->depth++;
    o->lists = list ? o->lists | bit : o->lists & ~bit;
    o->more = false;
}

void out_object(struct json_out *o, const char *key)
{
    begin(o, key, false);
}

void out_list(struct json_out *o, const char *key)
{
    begin(o, key, true);
}

void out_end(struct json_out *o)
{
    CHECK(o->depth > 0, "no container is open");
    bool list = o->lists >> --o->depth & 1;
    buf_add_char(o->b, list ? ']' : '}');
    o->more = true;
}

void out_text(struct json_out *o, const char *key, const char *text, size_t n)
{
    begin_value(o, key);
    json_put_text(o->b, n ? text : "", n);
}

/* Write the text as it is. The caller guarantees that it needs no escape. */
void out_plain(struct json_out *o, const char *key, const char *text, size_t n)
{
    begin_value(o, key);
    buf_add_char(o->b, '"');
    buf_add(o->b, text, n);
    buf_add_char(o->b, '"');
}

void out_word(struct json_out *o, const char *key, const char *text)
{
    if (text)
        out_text(o, key, text, strlen(text));
    else
        out_null(o, key);
}

/* Produce the digits from the last digit to the first. Unsigned negation is also defined for
 * INT64_MIN. */
void out_int(struct json_out *o, const char *key, int64_t x)
{
    char digit[24];
    size_t at = sizeof digit;
    uint64_t left = x < 0 ? -(uint64_t)x : (uint64_t)x;
    do digit[--at] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (x < 0) digit[--at] = '-';
    begin_value(o, key);
    buf_add(o->b, digit + at, sizeof digit - at);
}

void out_double(struct json_out *o, const char *key, double x)
{
    begin_value(o, key);
    json_put_real(o->b, x);
}

void out_float(struct json_out *o, const char *key, float x)
{
    begin_value(o, key);
    json_put_float(o->b, x);
}

void out_flag(struct json_out *o, const char *key, bool x)
{
    begin_value(o, key);
    buf_add_text(o->b, x ? "true" : "false");
}

void out_null(struct json_out *o, const char *key)
{
    begin_value(o, key);
    buf_add(o->b, "null", 4);
}

void out_raw(struct json_out *o, const char *key, const char *text, size_t n)
{
    begin_value(o, key);
    buf_add(o->b, text, n);
}

void out_key(struct json_out *o, const char *text, size_t n)
{
    CHECK(o->depth > 0 && !(o->lists >> (o->depth - 1) & 1), "no object is open, depth %d",
          o->depth);
    if (o->more) buf_add_char(o->b, ',');
    json_put_text(o->b, n ? text : "", n);
    buf_add_char(o->b, ':');
    o->more = false;
}
