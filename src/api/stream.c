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
    buf_addf(b, "data: {\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id,
             c->endpoint->object_piece, (long long)c->created);
    json_put_text(b, c->model, strlen(c->model));
    buf_add_text(b, ",\"choices\":[");
}

void frame_begin(const struct api_call *c, int index, struct buf *b)
{
    put_object(c, b);
    buf_addf(b, "{\"index\":%d", index);
}

void frame_end(const struct api_call *c, struct buf *b)
{
    buf_add_text(b, c->include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

struct answer_log log_unsent(struct choice *a)
{
    struct answer_log log = {.v = a->log.v + a->n_log_sent, .n = a->log.n - a->n_log_sent};
    for (size_t i = 0; i < log.n; i++) {
        size_t n = 0;
        (void)tokenizer_bytes(a->reply.detok.t, log.v[i].chosen.id, &n);
        a->log_offset += n;
    }
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
    for (int i = 0; i < c->n_part && !c->stream_ended; i++)
        for (int k = 0; k < c->part[i].n && !c->stream_ended; k++)
            c->stream_ended = !put_choice(c, &c->part[i], &c->part[i].choice[k], index++, b);
    if (c->stream_ended || c->n_open > 0) return;
    put_end(c, b);
    c->stream_ended = true;
}
