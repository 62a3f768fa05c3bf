/* parser.c - model output to reasoning, content and tool calls, piece by piece.
 *
 * The two stages and their rows are described in parser_impl.h and listed in parser.def. When
 * memory for held-back text runs out the text is told as content at once: a reader has no way to
 * fail. */
#include "chat/parser_impl.h"

#include <stdlib.h>
#include <string.h>

/* Held-back text beyond this is no tool call. */
enum { HELD_BYTE_MAX = 4 << 20, PIECE_BYTE_MAX = 64 << 10 };

struct chat_parser {
    struct stage reasoning, tools;
    chat_delta_fn *fn; /* of the call in progress */
    void *ctx;
    int n_call;
};

static const struct stage_kind *const tool_kinds[] = {
#define TOOL_PARSER(name, id) &tool_##id,
#define REASONING_PARSER(name, id)
#include "chat/parser.def"
#undef TOOL_PARSER
#undef REASONING_PARSER
};

static const struct stage_kind *const reasoning_kinds[] = {
#define TOOL_PARSER(name, id)
#define REASONING_PARSER(name, id) &reason_##id,
#include "chat/parser.def"
#undef TOOL_PARSER
#undef REASONING_PARSER
};

enum {
    N_TOOL = sizeof tool_kinds / sizeof *tool_kinds,
    N_REASON = sizeof reasoning_kinds / sizeof *reasoning_kinds
};

/* ---- the table ---- */

static int kind_find(const struct stage_kind **out, const struct stage_kind *const *kinds, int n,
                     const char *what, const char *name, struct err *e)
{
    struct buf known = {0};
    *out = NULL;
    for (int i = 0; name && i < n; i++) {
        if (strcmp(kinds[i]->name, name) == 0) *out = kinds[i];
        buf_addf(&known, "%s%s", i ? ", " : "", kinds[i]->name);
    }
    bool ok = !name || *out;
    if (!ok)
        err_set(e, ERR_ARG, "there is no %s parser \"%.60s\"; known are: %s", what, name,
                known.data);
    buf_deinit(&known);
    return ok ? 0 : ERR_ARG;
}

int chat_parser_open(struct chat_parser **out, const char *tool_parser,
                     const char *reasoning_parser, struct err *e)
{
    const struct stage_kind *tools, *reasoning;
    *out = NULL;
    int rc = kind_find(&tools, tool_kinds, N_TOOL, "tool-call", tool_parser, e);
    if (rc == 0)
        rc = kind_find(&reasoning, reasoning_kinds, N_REASON, "reasoning", reasoning_parser, e);
    if (rc != 0) return rc;
    struct chat_parser *p = calloc(1, sizeof *p);
    if (!p) return err_memory(e, "a chat parser", sizeof *p);
    p->reasoning = (struct stage){.kind = reasoning, .parser = p};
    p->tools = (struct stage){.kind = tools, .parser = p};
    *out = p;
    return 0;
}

void chat_parser_close(struct chat_parser *p)
{
    if (!p) return;
    buf_deinit(&p->reasoning.held);
    buf_deinit(&p->tools.held);
    free(p);
}

static const char *kind_of(const struct stage_kind *const *kinds, int n, const struct template *t)
{
    for (int i = 0; i < n; i++)
        if (kinds[i]->fits(t)) return kinds[i]->name;
    return NULL;
}

const char *chat_tool_parser_of(const struct template *t)
{
    return kind_of(tool_kinds, N_TOOL, t);
}

const char *chat_reasoning_parser_of(const struct template *t)
{
    return kind_of(reasoning_kinds, N_REASON, t);
}

/* ---- deltas ---- */

void parser_emit(struct stage *s, enum chat_delta_kind kind, const char *text, size_t n)
{
    struct chat_parser *p = s->parser;
    if (n > 0 && p->fn) p->fn(p->ctx, &(struct chat_delta){.kind = kind, .text = text, .n = n});
}

void parser_emit_call(struct stage *s, const char *name, const char *id, const char *arguments,
                      size_t n)
{
    struct chat_parser *p = s->parser;
    struct chat_delta d = {.kind = CHAT_CALL,
                           .text = arguments,
                           .n = n,
                           .i_call = p->n_call++,
                           .name = name,
                           .id = id};
    if (p->fn) p->fn(p->ctx, &d);
}

/* ---- running a stage ---- */

static void overflow(struct stage *s, const char *text, size_t n)
{
    parser_emit(s, CHAT_CONTENT, s->held.data ? s->held.data : "", s->held.n);
    parser_emit(s, CHAT_CONTENT, text, n);
    buf_clear(&s->held);
    s->state = 0;
    s->scan = (struct scan){0};
}

static void stage_run(struct stage *s, const char *text, size_t n, bool end)
{
    size_t at = 0, k;
    if (s->held.n + n > HELD_BYTE_MAX || !buf_room(&s->held, n)) {
        overflow(s, text, n);
        return;
    }
    buf_add(&s->held, text, n);
    while (at < s->held.n && (k = s->kind->step(s, s->held.data + at, s->held.n - at, end)) > 0)
        at += k;
    if (at == 0) return;
    memmove(s->held.data, s->held.data + at, s->held.n - at);
    s->held.n -= at;
}

static void stage_push(struct stage *s, const char *text, size_t n, bool end)
{
    if (s->kind)
        stage_run(s, text, n, end);
    else
        parser_emit(s, CHAT_CONTENT, text, n);
}

void parser_pass(struct stage *s, const char *text, size_t n)
{
    stage_push(&s->parser->tools, text, n, false);
}

static void parser_feed(struct chat_parser *p, const char *text, size_t n, bool end,
                        chat_delta_fn *fn, void *ctx)
{
    p->fn = fn;
    p->ctx = ctx;
    if (p->reasoning.kind)
        stage_run(&p->reasoning, text, n, end);
    else
        stage_push(&p->tools, text, n, false);
    if (end) stage_push(&p->tools, "", 0, true);
}

/* Long texts go in pieces: what is held back is limited, what is pushed is not. */
void chat_parser_push(struct chat_parser *p, const char *text, size_t n, chat_delta_fn *fn,
                      void *ctx)
{
    for (size_t i = 0; i < n; i += PIECE_BYTE_MAX)
        parser_feed(p, text + i, n - i < PIECE_BYTE_MAX ? n - i : PIECE_BYTE_MAX, false, fn, ctx);
}

void chat_parser_finish(struct chat_parser *p, chat_delta_fn *fn, void *ctx)
{
    parser_feed(p, "", 0, true, fn, ctx);
}

/* ---- text helpers ---- */

bool text_begins(const char *text, size_t n, const char *mark)
{
    size_t n_mark = strlen(mark);
    return n >= n_mark && memcmp(text, mark, n_mark) == 0;
}

bool text_may_begin(const char *text, size_t n, const char *mark)
{
    return n < strlen(mark) && memcmp(text, mark, n) == 0;
}

size_t text_partial(const char *text, size_t n, const char *mark)
{
    size_t k = strlen(mark) - 1;
    for (k = k < n ? k : n; k > 0; k--)
        if (memcmp(text + n - k, mark, k) == 0) return k;
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

size_t space_front(const char *text, size_t n)
{
    size_t k = 0;
    while (k < n && is_blank(text[k])) k++;
    return k;
}

size_t space_back(const char *text, size_t n)
{
    size_t k = 0;
    while (k < n && is_blank(text[n - 1 - k])) k++;
    return k;
}

/* ---- a whole message ---- */

static struct chat_call *message_call(struct chat_message *m, const struct chat_delta *d)
{
    if ((size_t)d->i_call < m->n_call) return &m->call[d->i_call];
    if (!vec_room((void **)&m->call, &m->cap_call, m->n_call + 1, sizeof *m->call)) return NULL;
    struct chat_call *call = &m->call[m->n_call++];
    *call = (struct chat_call){.name = strdup(d->name ? d->name : ""),
                               .id = d->id ? strdup(d->id) : NULL};
    return call;
}

void chat_message_add(void *message, const struct chat_delta *d)
{
    struct chat_message *m = message;
    struct chat_call *call = d->kind == CHAT_CALL ? message_call(m, d) : NULL;
    struct buf *to = d->kind == CHAT_REASONING ? &m->reasoning
                     : d->kind == CHAT_CONTENT ? &m->content
                                               : NULL;
    if (call) to = &call->arguments;
    if (to) buf_add(to, d->text, d->n);
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
