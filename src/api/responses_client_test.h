/* responses_client_test.h - private to tests of src/api: a client of the Responses API, which joins
 * the events of a stream and checks them. The test's thread only. */
#ifndef QUOTH_API_RESPONSES_CLIENT_TEST_H
#define QUOTH_API_RESPONSES_CLIENT_TEST_H

#include "rig_test.h"

#include <string.h>

/* State of a client: the last event and the items so far. */
struct client {
    struct json *last;     /* parsed last event, owned */
    struct buf text, logs; /* joined pieces of the open item */
    struct buf output;     /* finished items, separated by commas */
    int n_item, n_event;
    bool open;
    const char *why; /* error of the stream; NULL if none */
};

static inline void wrong(struct client *c, const char *why)
{
    if (!c->why) c->why = why;
}

/* Append the items of a list to a list without its brackets. */
static inline void join_list(struct buf *out, const struct json *list)
{
    for (size_t i = 0; i < json_count(list); i++) {
        if (out->n) buf_add_char(out, ',');
        json_put(out, json_item(list, i));
    }
}

/* Compare a finished item with its pieces. */
static inline void end_item(struct client *c, const struct json *item)
{
    const struct json *part = at(item, "content.0"), *call = json_field(item, "arguments");
    struct buf logs = {0};
    size_t n = 0;
    if (!call) call = json_field(item, "input");
    const char *text = json_text(part ? json_field(part, "text") : call, &n);
    if (!text || n != c->text.n || (n && memcmp(text, c->text.data, n) != 0))
        wrong(c, "the text of an item is not that of its deltas");
    join_list(&logs, json_field(part, "logprobs"));
    if (logs.n != c->logs.n || (logs.n && memcmp(logs.data, c->logs.data, logs.n) != 0))
        wrong(c, "the log probabilities of an item are not those of its deltas");
    buf_deinit(&logs);
    if (c->n_item++) buf_add_char(&c->output, ',');
    json_put(&c->output, item);
    buf_clear(&c->text);
    buf_clear(&c->logs);
    c->open = false;
}

/* Read an event like a client. */
static inline void read_event(struct client *c, const struct json *j)
{
    const char *type = text_at(j, "type");
    const struct json *index = json_field(j, "output_index"), *delta = json_field(j, "delta");
    if (json_int(json_field(j, "sequence_number"), -1) != c->n_event++)
        wrong(c, "a number of an event");
    if (index && json_int(index, -1) != c->n_item) wrong(c, "an output_index");
    if (index && !c->open && strcmp(type, "response.output_item.added") != 0)
        wrong(c, "an event outside of an item");
    if (strcmp(type, "response.output_item.added") == 0) c->open = true;
    if (delta) {
        size_t n;
        const char *text = json_text(delta, &n);
        buf_add(&c->text, text, n);
        join_list(&c->logs, json_field(j, "logprobs"));
    }
    if (strcmp(type, "response.output_item.done") == 0) end_item(c, json_field(j, "item"));
}

/* Read a stream. */
static inline void read_stream(struct client *c, const char *stream)
{
    for (const char *line = stream; (line = strstr(line, "\ndata: "));) {
        line += 7;
        json_drop(c->last);
        NEED(json_parse(&c->last, line, strcspn(line, "\n"), NULL, NULL) == 0);
        read_event(c, c->last);
    }
}

/* Compare the items of the last event with the items of earlier events. */
static inline void end_stream(struct client *c)
{
    struct buf output = {0};
    json_put(&output, at(c->last, "response.output"));
    buf_add_char(&c->output, ']');
    if (!output.data || strcmp(output.data + 1, c->output.data) != 0)
        wrong(c, "the items of the last event are not those before it");
    if (c->open) wrong(c, "an item without an end");
    buf_deinit(&output);
}

static inline void client_deinit(struct client *c)
{
    json_drop(c->last);
    buf_deinit(&c->text);
    buf_deinit(&c->logs);
    buf_deinit(&c->output);
}

#endif
