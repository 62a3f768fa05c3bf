/* rig_test.h - private to tests of src/api: bodies are sent to the bundled model without sockets.
 * The test's thread only. */
#ifndef QUOTH_API_RIG_TEST_H
#define QUOTH_API_RIG_TEST_H

#include "api_impl.h"

#include "../../tests/unit.h"

#include <ctype.h>
#include <stdlib.h>

static struct rig {
    struct session session;
    struct chat chat;
    struct api api;
} rig;

/* Open the bundled model with an engine on a thread, and a context of n tokens. */
static inline bool rig_open_context(struct rig *r, int n)
{
    struct err e = {0};
    struct session_options o = session_defaults;
    const char *path = repo_path("models/quoth-tiny/quoth-tiny-q8_0.gguf");
    *r = (struct rig){0};
    o.max_model_len = n;
    o.max_num_seqs = 8;
    int rc = session_open_as(&r->session, path, &o, &session_many, &e);
    if (rc == 0) rc = session_start(&r->session, &o, NULL, 0, &e);
    if (rc == 0) rc = chat_open(&r->chat, &r->session, &o, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    r->api = (struct api){.session = &r->session,
                          .chat = &r->chat,
                          .name = "tiny",
                          .defaults = session_sample_defaults(r->session.checkpoint, 1),
                          .streams = true};
    return rc == 0;
}

static inline void rig_close(struct rig *r)
{
    chat_close(&r->chat);
    session_close(&r->session);
}

/* Parse a body in which each ' replaces a ". */
static inline struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};
    char *copy = strdup(text);
    for (char *c = copy; c && *c; c++)
        if (*c == '\'') *c = '"';
    if (!copy || json_parse(&j, copy, strlen(copy), NULL, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", text, e.text);
    free(copy);
    return j;
}

/* Check that a body is rejected with an error that begins with `text`. */
static inline void rejected(const char *url, const char *body, int rc, const char *text)
{
    struct err e = {0};
    struct api_call *c = NULL;
    struct json *sent = parse(body);
    int got = api_call_open(&c, &rig.api, url, sent, NULL, &e);
    if (got != rc || strncmp(e.text, text, strlen(text)) != 0)
        test_fail(__FILE__, __LINE__, "%s: %d \"%s\", not %d \"%s\"", body, got, e.text, rc, text);
    api_call_close(c);
    json_drop(sent);
}

/* Compare the neutral form of a body with `want`, in which each ' replaces a ". `got` is NULL after
 * an error. */
static inline void same_neutral(const struct json *got, const char *body, const char *want,
                                const struct err *e)
{
    struct buf b = {0}, text = {0};
    struct json *expected = parse(want);
    if (!got) test_fail(__FILE__, __LINE__, "%s: %s", body, e->text);
    json_put(&b, got);
    json_put(&text, expected);
    EXPECT_TEXT(b.data, text.data);
    json_drop(expected);
    buf_deinit(&b);
    buf_deinit(&text);
}

/* Return the answer to a body, or the error object. The caller owns it. */
static inline struct json *post(struct rig *r, const char *url, const char *body)
{
    struct err e = {0};
    struct api_call *c = NULL;
    struct buf b = {0};
    struct json *sent = parse(body), *got = NULL;
    struct queue *bell = queue_open(1, 1);
    char byte;
    int rc = api_call_open(&c, &r->api, url, sent, bell, &e);
    if (rc == 0) rc = api_call_submit(c, &e);
    while (rc == 0 && !api_call_poll(c)) (void)queue_pop(bell, &byte, -1);
    if (rc == 0) rc = api_call_put(c, &b, &e);
    if (rc != 0) api_error_put(&b, rc, &e);
    api_call_close(c);
    if (json_parse(&got, b.data, b.n, NULL, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", body, e.text);
    json_drop(sent);
    buf_deinit(&b);
    queue_close(bell);
    return got;
}

/* Return the frames of a body's stream as a list. The caller owns it. */
static inline struct json *post_stream(struct rig *r, const char *url, const char *body)
{
    struct err e = {0};
    struct api_call *c = NULL;
    struct buf b = {0}, list = {0};
    struct json *sent = parse(body), *got = NULL;
    struct queue *bell = queue_open(1, 1);
    char byte;
    int rc = api_call_open(&c, &r->api, url, sent, bell, &e);
    if (rc == 0) rc = api_call_submit(c, &e);
    for (bool done = rc != 0; !done;) {
        (void)queue_pop(bell, &byte, -1);
        done = api_call_poll(c);
        api_call_stream(c, &b);
    }
    api_call_close(c);
    buf_add_char(&list, '[');
    for (char *at = b.data, *end; at && (end = strstr(at, "\n\n")); at = end + 2)
        if (strncmp(at, "data: {", 7) == 0) {
            if (list.n > 1) buf_add_char(&list, ',');
            buf_add(&list, at + 6, (size_t)(end - at) - 6);
        }
    buf_add_char(&list, ']');
    if (rc != 0 || json_parse(&got, list.data, list.n, NULL, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", body, e.text);
    json_drop(sent);
    buf_deinit(&b);
    buf_deinit(&list);
    queue_close(bell);
    return got;
}

/* Return the value at a path such as "choices.0.message". */
static inline const struct json *at(const struct json *j, const char *path)
{
    while (j && *path) {
        size_t n = strcspn(path, ".");
        j = isdigit((unsigned char)*path) ? json_item(j, (size_t)strtoul(path, NULL, 10))
                                          : json_field_n(j, path, n);
        path += n + (path[n] == '.');
    }
    return j;
}

static inline const char *text_at(const struct json *j, const char *path)
{
    const char *text = json_text(at(j, path), NULL);
    return text ? text : "(none)";
}

#endif
