/* Goal: the read parts of a form equal the sent parts, and errors describe malformed bodies. */
#include "multipart.h"

#include "base/buf.h"

#include "../../tests/unit.h"

#include <stdio.h>
#include <string.h>

/* Return the parts as "name/filename/content|...", or the code of an error. */
static const char *parts(const char *type, const char *body)
{
    static char out[400];
    struct multipart m;
    struct multipart_part p;
    struct err e = {0};
    size_t n = 0;
    int rc = multipart_open(&m, type, body, strlen(body), &e);
    out[0] = 0;
    while (rc == 0 && (rc = multipart_next(&m, &p, &e)) == 1) {
        n += (size_t)snprintf(out + n, sizeof out - n, "%s/%s/%.*s|", p.name, p.filename, (int)p.n,
                              p.data);
        rc = 0;
    }
    if (rc != 0) snprintf(out, sizeof out, "%d", rc);
    return out;
}

#define TYPE    "multipart/form-data; boundary=xx"
#define PART(n) "Content-Disposition: form-data; name=" n "\r\n\r\n"
#define FORMAT  "-2"
#define LIMIT   "-4"
#define WRONG   "-6"

TEST(multipart_parts_are_those_of_the_sender)
{
    EXPECT_TEXT(
        parts(TYPE, "--xx\r\n" PART("a") "1\r\n--xx\r\n" PART("\"b\"") "2\r\n3\r\n--xx--\r\n"),
        "a//1|b//2\r\n3|");
    EXPECT_TEXT(
        parts("Multipart/Form-Data;boundary=\"x y\"; a=b", "--x y\r\n" PART("a") "\r\n--x y--"),
        "a//|");
    EXPECT_TEXT(parts(TYPE,
                      "text\r\n--xx  \r\nA: b\r\ncontent-disposition:form-data; filename=\"c \\\"d"
                      "\"; name=\"e\"\r\n\r\n--x\r\n--x\r\n--xx--after"),
                "e/c \"d/--x\r\n--x|");
    EXPECT_TEXT(parts(TYPE, "--xx\r\nContent-Disposition: form-data; name=f; "
                            "filename*=utf-8''a%20%41%zz\r\n\r\n\r\n--xx--"),
                "f/a A%zz/|");
    EXPECT_TEXT(parts(TYPE, "--xx--"), "");
    /* an empty content without a separate line end */
    EXPECT_TEXT(parts(TYPE, "--xx\r\n" PART("a") "--xx--"), "a//|");
}

TEST(multipart_errors_are_named)
{
    EXPECT_TEXT(parts(NULL, "--xx--"), WRONG);
    EXPECT_TEXT(parts("application/json", "--xx--"), WRONG);
    EXPECT_TEXT(parts("multipart/form-data", "--xx--"), WRONG);
    EXPECT_TEXT(parts("multipart/form-data; boundary=", "--xx--"), WRONG);
    EXPECT_TEXT(parts("multipart/form-data; boundary=\"xx", "--xx--"), WRONG);
    EXPECT_TEXT(parts(TYPE, ""), FORMAT);
    EXPECT_TEXT(parts(TYPE, "--x"), FORMAT);
    EXPECT_TEXT(parts(TYPE, "--xx"), FORMAT);
    EXPECT_TEXT(parts(TYPE, "--xxy\r\n" PART("a") "1\r\n--xx--"), FORMAT);
    EXPECT_TEXT(parts(TYPE, "--xx\r\n" PART("a") "1"), FORMAT);
    EXPECT_TEXT(parts(TYPE, "--xx\r\n" PART("a") "1\r\n--xx"), FORMAT);
    EXPECT_TEXT(parts(TYPE, "--xx\r\nContent-Type: a\r\n\r\n1\r\n--xx--"), FORMAT);
    EXPECT_TEXT(parts(TYPE, "--xx\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--xx--"),
                FORMAT);
    EXPECT_TEXT(parts(TYPE, "--xx\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--xx--"),
                FORMAT);
    struct buf many = {0};
    buf_add_text(&many, "--xx\r\n");
    for (int i = 0; i < MULTIPART_PARTS_MAX; i++) buf_add_text(&many, PART("a") "\r\n--xx\r\n");
    buf_add_text(&many, PART("a") "\r\n--xx--");
    EXPECT_TEXT(parts(TYPE, many.data), LIMIT);
    buf_deinit(&many);
}
