/* stream.c - an answer in pieces: server-sent events with what is new of each choice.
 *
 * A frame is a response object with one choice: data: {"id":...,"choices":[{"index":0, ... }]}. Behind the last
 * choice's last one comes the usage, where it is wanted, and data: [DONE]. A choice that the model could not give ends
 * the stream with an error object, because the status has been told already. */
#include "api_impl.h"

#include "base/json.h"

#include <string.h>

static void put_object(const struct api_call *c, struct buf *b)
{
    buf_add_text(b, "data: ");
    put_head(c, c->endpoint->object_piece, b);
}

void frame_begin(const struct api_call *c, int index, struct buf *b)
{
    put_object(c, b);
    buf_addf(b, "{\"index\":%d", index);
}

void frame_end(const struct api_call *c, const struct part *p, struct choice *a, bool last,
               struct buf *b)
{
    bool first = !a->ids_begun, of_choice = c->endpoint->kind == ENDPOINT_TEXT;
    a->ids_begun = true;
    if (first && of_choice) put_prompt_ids(c, p, b);
    if (c->ids_back) put_token_ids(b, a, a->n_id_sent);
    a->n_id_sent = a->ids.n;
    if (last)
        put_finish(b, p, a, a->called);
    else
        buf_add_text(b, ",\"finish_reason\":null,\"stop_reason\":null");
    buf_add_text(b, "}]");
    if (first && !of_choice) put_prompt_ids(c, p, b);
    buf_add_text(b, c->include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

struct answer_log log_unsent(struct choice *a)
{
    struct answer_log log = {.v = a->log.v + a->n_log_sent, .n = a->log.n - a->n_log_sent};
    a->log_offset += log_bytes(a->reply.detok.t, &log);
    a->n_log_sent = a->log.n;
    return log;
}

bool api_call_streams(const struct api_call *c)
{
    return c->stream;
}

static void put_error(struct buf *b, int rc, const struct err *e)
{
    buf_add_text(b, "data: {\"error\":");
    api_error_put(b, rc, e);
    buf_add_text(b, "}\n\n");
}

static void put_end(struct api_call *c, struct buf *b)
{
    if (c->include_usage) {
        put_object(c, b);
        buf_add_text(b, "],\"usage\":");
        put_usage(c, b);
        buf_add_text(b, "}\n\n");
    }
    buf_add_text(b, "data: [DONE]\n\n");
}

/* What is new of one choice; false: there is no answer, and the stream ends here. */
static bool put_choice(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    struct err e = {0};
    if (a->ended) return true;
    int rc = a->reply.finish || p->no_memory ? check_choice(p, a, &e) : 0;
    if (rc == 0) c->endpoint->put_pieces(c, p, a, index, b);
    a->ended = a->reply.finish != FINISH_NONE;
    if (rc != 0) put_error(b, rc, &e);
    return rc == 0;
}

void api_call_stream(struct api_call *c, struct buf *b)
{
    int index = 0;
    if (c->rc != 0 && !c->stream_ended) {
        put_error(b, c->rc, &c->why);
        c->stream_ended = true;
    }
    for (int i = 0; i < c->n_part && !c->stream_ended; i++)
        for (int k = 0; k < c->part[i].n && !c->stream_ended; k++)
            c->stream_ended = !put_choice(c, &c->part[i], &c->part[i].choice[k], index++, b);
    if (c->stream_ended || c->n_open > 0) return;
    put_end(c, b);
    c->stream_ended = true;
}
