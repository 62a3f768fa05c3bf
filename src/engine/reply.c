/* reply.c - conversion of one request's events to text, on the client's thread.
 *
 * Tokens are detokenized as they arrive. This file detects stop strings and limits of lines,
 * because the engine handles tokens only. Both end the answer and cancel the choice. Tokens
 * generated before the cancellation takes effect are dropped, so the answer does not depend on this
 * thread's timing. */
#include "engine.h"

int reply_open(struct reply *r, struct engine *en, uint64_t request_id,
               const struct reply_options *o, struct err *e)
{
    *r = (struct reply){.engine = en,
                        .request_id = request_id,
                        .choice = o->choice,
                        .include_stop = o->include_stop,
                        .skip_ends = o->keep_marks && !o->keep_special,
                        .indent_min = o->indent_min,
                        .lines_us = o->lines_us,
                        .indent = -1,
                        .stop_index = -1};
    detok_init(&r->detok, o->tokenizer, o->keep_special || o->keep_marks ? 0 : DECODE_SKIP_SPECIAL);
    r->detok.started = true; /* the first space after a prompt belongs to the text */
    return stop_match_open(&r->stop, o->stop, o->n_stop, e);
}

void reply_close(struct reply *r)
{
    stop_match_close(r->stop);
    buf_deinit(&r->piece);
    *r = (struct reply){0};
}

static void push_text(struct reply *r, struct buf *text)
{
    int at = stop_match_push(r->stop, r->piece.data, r->piece.n, r->include_stop, text);
    text->failed |= r->piece.failed;
    buf_clear(&r->piece);
    if (text->failed && !r->failed) {
        r->failed = true;
        engine_cancel_choice(r->engine, r->request_id, r->choice);
    }
    if (at < 0) return;
    r->matched = true;
    r->stop_index = at;
    engine_cancel_choice(r->engine, r->request_id, r->choice);
}

/* Read the piece's lines. Truncate the piece before a character of a line whose indentation is too
 * small, as llama.cpp's n_indent does, also of an empty line. Return true if the piece has the end
 * of a line. Set r->limit if the piece was truncated. */
static bool read_lines(struct reply *r)
{
    bool ends = false;
    for (size_t i = 0; i < r->piece.n; i++) {
        const char c = r->piece.data[i];
        if (r->indent >= 0 && (c == ' ' || c == '\t')) {
            r->indent++;
            continue;
        }
        if (r->indent >= 0 && r->indent < r->indent_min) {
            r->limit = FINISH_LENGTH;
            r->piece.data[r->piece.n = i] = 0;
            return ends;
        }
        ends |= c == '\n';
        r->indent = c == '\n' ? 0 : -1;
    }
    return ends;
}

/* Append the text of a token. A limit of lines ends the answer after the text. */
static void push_token(struct reply *r, const struct event *ev, struct buf *text)
{
    const bool shown = !r->skip_ends || !tokenizer_is_eog(r->detok.t, ev->token);
    if (r->n_token++ == 0) r->first_us = ev->time_us;
    r->usage = ev->usage;
    if (shown) detok_push(&r->detok, ev->token, &r->piece);
    const bool ends = (r->indent_min || r->lines_us) && read_lines(r);
    if (ends && r->lines_us && !r->limit && ev->time_us - r->first_us > r->lines_us)
        r->limit = FINISH_TIMEOUT;
    push_text(r, text);
    if (!r->limit || r->matched) return;
    stop_match_flush(r->stop, text);
    r->matched = true;
    engine_cancel_choice(r->engine, r->request_id, r->choice);
}

bool reply_event(struct reply *r, const struct event *ev, struct buf *text)
{
    if (ev->kind == EVENT_TOKEN && ev->choice == r->choice && !r->matched) push_token(r, ev, text);
    bool done = ev->kind == EVENT_CHOICE && ev->choice == r->choice;
    if (r->finish != FINISH_NONE || (!done && ev->kind != EVENT_DONE)) return r->finish;
    if (!r->matched) {
        detok_flush(&r->detok, &r->piece);
        push_text(r, text);
    }
    if (!r->matched) stop_match_flush(r->stop, text);
    r->failed |= text->failed;
    const enum finish own = r->stop_index < 0 && r->limit ? r->limit : FINISH_STOP;
    r->finish = r->failed ? FINISH_ERROR : r->matched ? own : ev->finish;
    r->cause = r->failed ? CAUSE_MEMORY : r->matched ? CAUSE_NONE : ev->cause;
    r->forbids = ev->forbids;
    r->usage = ev->usage;
    if (r->matched) r->usage.n_output = r->n_token;
    return true;
}
