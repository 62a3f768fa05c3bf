/* parser.c - incremental parsing of model output to reasoning, content and tool calls.
 *
 * parser_impl.h describes the two stages and their families; parser.def lists the families. The
 * parser emits no more deltas if memory runs out. chat_parser_failed then returns true.
 *
 *   chat_parser_push --> reasoning stage --content--> tools stage --> deltas --> fn
 *                        reason_step                  tool_step
 *
 * A stage holds text whose meaning depends on later text (s->held), for example "<tool_c". A step
 * function returns the number of consumed bytes, and 0 if it needs more text. With `end` it must
 * consume all text. */
#include "chat/parser_impl.h"

#include "base/check.h"
#include "base/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* HELD_BYTES_MAX: maximum size of a held text, which also limits the size of a tool call. */
enum { HELD_BYTES_MAX = 4 << 20, PIECE_BYTES_MAX = 64 << 10 };

struct chat_parser {
    struct parser_stage reasoning, tools, trial; /* trial: for calls inside of reasoning */
    chat_delta_fn *fn;                           /* callback of the chat_parser_push in progress */
    void *ctx;                                   /* argument of fn, borrowed */
    int n_call;                                  /* number of calls so far */
    bool failed;                                 /* true after memory is exhausted */
    /* Pending delta, which joins the pieces of one push. */
    struct chat_delta pending;           /* text: NULL if no delta is pending */
    char name[NAME_ROOM], id[NAME_ROOM]; /* name and id of the pending call */
    struct buf text;                     /* owned: text of the pending delta */
};

static const struct tool_family *const tool_families[] = {
#define TOOL_PARSER(id) &tool_##id,
#define REASONING_PARSER(id)
#include "chat/parser.def"
#undef TOOL_PARSER
#undef REASONING_PARSER
};

static const struct reason_family *const reason_families[] = {
#define TOOL_PARSER(id)
#define REASONING_PARSER(id) &reason_##id,
#include "chat/parser.def"
#undef TOOL_PARSER
#undef REASONING_PARSER
};

enum {
    N_TOOL = sizeof tool_families / sizeof *tool_families,
    N_REASON = sizeof reason_families / sizeof *reason_families
};

/* ---- the table ---- */

/* Return the family with this name or alias. NULL if name is NULL or unknown. */
const struct tool_family *tool_family_of(const char *name)
{
    for (int i = 0; name && i < N_TOOL; i++) {
        if (strcmp(name, tool_families[i]->name) == 0) return tool_families[i];
        for (const char *const *a = tool_families[i]->alias; *a; a++)
            if (strcmp(name, *a) == 0) return tool_families[i];
    }
    return NULL;
}

const struct reason_family *reason_family_of(const char *name)
{
    for (int i = 0; name && i < N_REASON; i++) {
        if (strcmp(name, reason_families[i]->name) == 0) return reason_families[i];
        for (const char *const *a = reason_families[i]->alias; *a; a++)
            if (strcmp(name, *a) == 0) return reason_families[i];
    }
    return NULL;
}

/* Return alias i of all families, from 0. After the last alias, return "none", then NULL. */
static const char *tool_alias(int i)
{
    for (int k = 0; k < N_TOOL; k++)
        for (const char *const *a = tool_families[k]->alias; *a; a++)
            if (i-- == 0) return *a;
    return i == 0 ? "none" : NULL;
}

static const char *reason_alias(int i)
{
    for (int k = 0; k < N_REASON; k++)
        for (const char *const *a = reason_families[k]->alias; *a; a++)
            if (i-- == 0) return *a;
    return i == 0 ? "none" : NULL;
}

const char *chat_tool_parsers(int i)
{
    return i < N_TOOL ? tool_families[i]->name : tool_alias(i - N_TOOL);
}

const char *chat_reasoning_parsers(int i)
{
    return i < N_REASON ? reason_families[i]->name : reason_alias(i - N_REASON);
}

/* Return ERR_ARG with the names of all parsers. */
static int unknown(const char *what, const char *name, name_fn *names, int n, struct err *e)
{
    struct buf known = {0};
    for (int i = 0; i < n; i++) buf_addf(&known, "%s%s", i ? ", " : "", names(i));
    int rc = err_set(e, ERR_ARG, "%s parser \"%.60s\" not found; available: %s", what, name,
                     known.data ? known.data : "");
    buf_deinit(&known);
    return rc;
}

int chat_parser_open(struct chat_parser **out, const struct chat_parser_options *o, struct err *e)
{
    const struct tool_family *tools = tool_family_of(o->tool_parser);
    const struct reason_family *reason = reason_family_of(o->reasoning_parser);
    *out = NULL;
    if (o->tool_parser && !tools)
        return unknown("tool-call", o->tool_parser, chat_tool_parsers, N_TOOL, e);
    if (o->reasoning_parser && !reason)
        return unknown("reasoning", o->reasoning_parser, chat_reasoning_parsers, N_REASON, e);
    struct chat_parser *p = calloc(1, sizeof *p);
    if (!p) return err_memory(e, "a chat parser", sizeof *p);
    const struct parser_stage both = {.tools = tools,
                                      .reason = reason,
                                      .schemas = o->tools,
                                      .no_calls = o->no_calls,
                                      .expected = o->expected,
                                      .parser = p,
                                      .trial = &p->trial};
    p->reasoning = p->tools = both;
    if (tools) p->tools.step = tools->step ? tools->step : tool_step;
    if (reason && !(tools && tools->step))
        p->reasoning.step = reason->step ? reason->step : reason_step;
    *out = p;
    return 0;
}

void chat_parser_close(struct chat_parser *p)
{
    if (!p) return;
    buf_deinit(&p->reasoning.held);
    buf_deinit(&p->tools.held);
    buf_deinit(&p->text);
    free(p);
}

static bool has_all(const struct template *t, const char *const *text, int n)
{
    for (int i = 0; i < n && text[i]; i++)
        if (!strstr(template_source(t), text[i])) return false;
    return true;
}

const char *chat_tool_parser_of(const struct template *t)
{
    for (int i = 0; i < N_TOOL; i++) {
        const struct tool_family *f = tool_families[i];
        if (f->has[0] && has_all(t, f->has, 4) &&
            !(f->lacks && strstr(template_source(t), f->lacks)))
            return f->name;
    }
    return NULL;
}

const char *chat_reasoning_parser_of(const struct template *t)
{
    const char *opens, *closes;
    template_thinking(t, &opens, &closes);
    for (int i = 0; i < N_REASON; i++) {
        const struct reason_family *f = reason_families[i];
        bool fits = f->has[0] ? has_all(t, f->has, 3) : opens && strstr(opens, f->open[0]);
        if (fits) return f->name;
    }
    return NULL;
}

enum chat_place chat_parser_place(const struct chat_parser *p)
{
    const struct parser_stage *s = p->reasoning.step ? &p->reasoning : &p->tools;
    if (s->step == harmony_step) return harmony_place(s);
    return s->step == reason_step ? reason_place(s) : CHAT_AFTER;
}

/* ---- deltas ---- */

/* Pass the pending delta to the callback. Deltas of one kind are joined, so that a push causes few
 * events. */
static void flush(struct chat_parser *p)
{
    struct chat_delta *d = &p->pending;
    if (!d->text) return;
    d->text = p->text.data ? p->text.data : "";
    d->n = p->text.n;
    p->failed |= p->text.failed;
    if (p->fn && !p->failed) p->fn(p->ctx, d);
    *d = (struct chat_delta){0};
    buf_clear(&p->text);
}

/* Append text to the pending delta. Flush the pending delta first if its kind or call differs. */
static void append_delta(struct chat_parser *p, enum chat_delta_kind kind, int i_call,
                         const char *text, size_t n)
{
    struct chat_delta *d = &p->pending;
    if (!p->fn || p->failed || n == 0) return;
    if (d->text && (d->kind != kind || d->i_call != i_call)) flush(p);
    *d = (struct chat_delta){
        .kind = kind, .i_call = i_call, .text = "", .name = d->name, .id = d->id};
    buf_add(&p->text, text, n);
}

void parser_emit(struct parser_stage *s, enum chat_delta_kind kind, const char *text, size_t n)
{
    if (!s->silent) append_delta(s->parser, kind, 0, text, n);
}

/* Emit a call's name before its arguments, so that clients get the name early. */
void parser_emit_call(struct parser_stage *s, const char *name, const char *id)
{
    struct chat_parser *p = s->parser;
    if (s->silent) return;
    flush(p);
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->id, sizeof p->id, "%s", id ? id : "");
    p->pending = (struct chat_delta){.kind = CHAT_CALL,
                                     .text = "",
                                     .i_call = p->n_call++,
                                     .name = p->name,
                                     .id = id ? p->id : NULL};
    if (!p->fn) p->pending = (struct chat_delta){0};
}

void parser_emit_arguments(struct parser_stage *s, const char *text, size_t n)
{
    struct chat_parser *p = s->parser;
    CHECK(s->silent || p->n_call > 0, "%zu bytes of arguments without a call", n);
    s->call.emitted |= n > 0;
    if (!s->silent) append_delta(p, CHAT_CALL, p->n_call - 1, text, n);
}

void parser_no_memory(struct parser_stage *s)
{
    s->parser->failed = true;
}

bool chat_parser_failed(const struct chat_parser *p)
{
    return p->failed;
}

/* ---- running a stage ---- */

/* Run steps until the stage needs more text, then remove all consumed bytes together. */
static void stage_drain(struct parser_stage *s, bool end)
{
    size_t at = 0, k;
    while (at < s->held.n && (k = s->step(s, s->held.data + at, s->held.n - at, end)) > 0) at += k;
    CHECK(at <= s->held.n, "consumed bytes of a stage must be at most %zu, got %zu", s->held.n, at);
    if (at == 0) return;
    memmove(s->held.data, s->held.data + at, s->held.n - at);
    s->held.n -= at;
}

/* Run a stage on more text. A stage consumes its held text as at the end of the output if the text
 * exceeds the stage's limit. */
static void stage_run(struct parser_stage *s, const char *text, size_t n, bool end)
{
    if (s->held.n + n > HELD_BYTES_MAX) stage_drain(s, true);
    buf_add(&s->held, text, n);
    if (s->held.failed)
        parser_no_memory(s);
    else if (!s->parser->failed)
        stage_drain(s, end);
}

/* Pass text to a stage. A stage without a step function passes text through as content. */
static void stage_push(struct parser_stage *s, const char *text, size_t n, bool end)
{
    if (s->step)
        stage_run(s, text, n, end);
    else
        parser_emit(s, CHAT_CONTENT, text, n);
}

/* Pass content of the reasoning stage to the tools stage. */
void parser_pass(struct parser_stage *s, const char *text, size_t n)
{
    stage_push(&s->parser->tools, text, n, false);
}

/* Process text, or the end of the output. Both stages consume all text at the end. The reasoning
 * stage ends first, because its remaining text may be content. */
static void parser_feed(struct chat_parser *p, const char *text, size_t n, bool end,
                        chat_delta_fn *fn, void *ctx)
{
    p->fn = fn;
    p->ctx = ctx;
    if (p->reasoning.step)
        stage_run(&p->reasoning, text, n, end);
    else
        stage_push(&p->tools, text, n, false);
    if (end) stage_push(&p->tools, "", 0, true);
    flush(p);
}

/* Push the text in pieces of at most PIECE_BYTES_MAX bytes. Only the held text is limited. */
void chat_parser_push(struct chat_parser *p, const char *text, size_t n, chat_delta_fn *fn,
                      void *ctx)
{
    for (size_t i = 0; i < n; i += PIECE_BYTES_MAX)
        parser_feed(p, text + i, n - i < PIECE_BYTES_MAX ? n - i : PIECE_BYTES_MAX, false, fn, ctx);
}

void chat_parser_finish(struct chat_parser *p, chat_delta_fn *fn, void *ctx)
{
    parser_feed(p, "", 0, true, fn, ctx);
}

/* ---- a whole message ---- */

/* Return the call of a delta. Append a new call if the index is new. NULL if memory is
 * exhausted. */
static struct chat_call *message_call(struct chat_message *m, const struct chat_delta *d)
{
    if ((size_t)d->i_call < m->n_call) return &m->call[d->i_call];
    m->failed |= !vec_room((void **)&m->call, &m->cap_call, m->n_call + 1, sizeof *m->call);
    if (m->failed) return NULL;
    struct chat_call *call = &m->call[m->n_call++];
    *call = (struct chat_call){.name = strdup(d->name ? d->name : ""),
                               .id = d->id ? strdup(d->id) : NULL};
    m->failed |= !call->name || (d->id && !call->id);
    return call;
}

/* Append the delta to a whole message. A failure is permanent (m->failed). */
void chat_message_add(void *message, const struct chat_delta *d)
{
    struct chat_message *m = message;
    if (m->failed) return;
    struct chat_call *call = d->kind == CHAT_CALL ? message_call(m, d) : NULL;
    struct buf *to = d->kind == CHAT_REASONING ? &m->reasoning
                     : d->kind == CHAT_CONTENT ? &m->content
                                               : NULL;
    if (call) to = &call->arguments;
    if (to) buf_add(to, d->text, d->n);
    m->failed |= to && to->failed;
}

void chat_message_deinit(struct chat_message *m)
{
    for (size_t i = 0; i < m->n_call; i++) {
        free(m->call[i].name);
        free(m->call[i].id);
        buf_deinit(&m->call[i].arguments);
    }
    free(m->call);
    buf_deinit(&m->content);
    buf_deinit(&m->reasoning);
    *m = (struct chat_message){0};
}
