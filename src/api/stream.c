/* stream.c - an answer in pieces: the unsent part of each choice, in the form of the call's
 * dialect. The end text of the dialect follows the last piece of the last choice. The stream ends
 * with an error if a choice fails, because the status was already sent. */
#include "dialect.h"

bool api_call_streams(const struct api_call *c)
{
    return c->stream;
}

/* Return true if the choice has a token, or has ended without an error. */
static bool has_output(const struct part *p, const struct choice *a)
{
    struct err e;
    if (a->ids.n > 0) return true;
    return a->reply.finish && check_choice(p, a, &e) == 0;
}

bool api_call_has_output(const struct api_call *c)
{
    for (int i = 0; i < c->n_part; i++) {
        if (progress_is_due(c, &c->part[i])) return true;
        for (int k = 0; k < c->part[i].n; k++)
            if (has_output(&c->part[i], &c->part[i].choice[k])) return true;
    }
    return false;
}

/* Return true if the next piece of a choice must wait for more tokens (stream_interval). The first
 * and the last piece do not wait. */
static bool must_wait(const struct api_call *c, const struct part *p, const struct choice *a)
{
    const size_t n = a->ids.n - a->n_token_sent;
    return a->n_token_sent > 0 && !a->reply.finish && !p->no_memory &&
           n < (size_t)c->stream_interval;
}

void call_put_error(const struct api_call *c, struct buf *b, int rc, const struct err *e)
{
    const struct error_form *f = c->dialect->errors;
    if (c->dialect->put_error) {
        c->dialect->put_error(c, b, rc, e);
        return;
    }
    buf_add_text(b, f->before);
    f->put(b, rc, e, NULL);
    buf_add_text(b, f->after);
}

/* Emit the unsent part of one choice. Return false if the choice has no answer, which ends the
 * stream. */
static bool put_choice(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    struct err e = {0};
    if (a->ended || must_wait(c, p, a)) return true;
    int rc = a->reply.finish || p->no_memory ? check_choice(p, a, &e) : 0;
    if (rc == 0) c->dialect->put_pieces(c, p, a, index, b);
    if (rc == 0 && p->no_memory) rc = check_choice(p, a, &e);
    a->n_token_sent = a->ids.n;
    a->ended = a->reply.finish != FINISH_NONE;
    if (rc != 0 && c->dialect->name_error) c->dialect->name_error(c, &e);
    if (rc != 0) call_put_error(c, b, rc, &e);
    return rc == 0;
}

/* Append the unsent parts of all choices. The end follows if no part is open. A second call after
 * the end appends nothing. */
void api_call_stream(struct api_call *c, struct buf *b)
{
    int index = 0;
    if (c->rc != 0 && !c->stream_ended) {
        call_put_error(c, b, c->rc, &c->why);
        c->stream_ended = true;
    }
    for (int i = 0; i < c->n_part && !c->stream_ended; i++) {
        struct part *p = &c->part[i];
        if (progress_is_due(c, p)) c->dialect->put_progress(c, p, index, b);
        for (int k = 0; k < p->n && !c->stream_ended; k++)
            c->stream_ended = !put_choice(c, p, &p->choice[k], index++, b);
    }
    if (c->stream_ended || c->n_open > 0) return;
    c->dialect->put_end(c, b);
    c->stream_ended = true;
}
