/* parser.c - model output to reasoning, content and tool calls, piece by piece.
 *
 * The two stages and their families are described in parser_impl.h and listed in parser.def. If
 * memory runs out, nothing more is emitted and chat_parser_failed returns true. */
#include "chat/parser_impl.h"

#include "base/names.h"

#include <stdlib.h>
#include <string.h>

/* A longer held-back text is no tool call. */
enum { HELD_BYTE_MAX = 4 << 20, PIECE_BYTE_MAX = 64 << 10 };

struct chat_parser {
    struct stage reasoning, tools;
    chat_delta_fn *fn; /* callback of the call in progress */
    void *ctx;
    int n_call;
    bool failed;
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

/* Find a name among the first n. Sets *at to its position, -1 if name is NULL; or returns
 * ERR_ARG. */
static int find(int *at, name_fn *names, int n, const char *what, const char *name, struct err *e)
{
    struct buf known = {0};
    *at = -1;
    for (int i = 0; name && i < n; i++) {
        if (strcmp(names(i), name) == 0) *at = i;
        buf_addf(&known, "%s%s", i ? ", " : "", names(i));
    }
    bool ok = !name || *at >= 0;
    if (!ok)
        err_set(e, ERR_ARG, "%s parser \"%.60s\" not found; available: %s", what, name, known.data);
    buf_deinit(&known);
    return ok ? 0 : ERR_ARG;
}

const char *chat_tool_parsers(int i)
{
    return i < N_TOOL ? tool_families[i]->name : i == N_TOOL ? "none" : NULL;
}

const char *chat_reasoning_parsers(int i)
{
    return i < N_REASON ? reason_families[i]->name : i == N_REASON ? "none" : NULL;
}

int chat_parser_open(struct chat_parser **out, const struct chat_parser_options *o, struct err *e)
{
    int tools, reasoning;
    *out = NULL;
    int rc = find(&tools, chat_tool_parsers, N_TOOL, "tool-call", o->tool_parser, e);
    if (rc == 0)
        rc =
            find(&reasoning, chat_reasoning_parsers, N_REASON, "reasoning", o->reasoning_parser, e);
    if (rc != 0) return rc;
    struct chat_parser *p = calloc(1, sizeof *p);
    if (!p) return err_memory(e, "a chat parser", sizeof *p);
    const struct stage both = {.tools = tools >= 0 ? tool_families[tools] : NULL,
                               .reason = reasoning >= 0 ? reason_families[reasoning] : NULL,
                               .schemas = o->tools,
                               .expected = o->expected,
                               .parser = p};
    p->reasoning = p->tools = both;
    p->reasoning.step = both.reason ? reason_step : NULL;
    p->tools.step = both.tools ? tool_step : NULL;
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

static bool has_all(const struct template *t, const char *const text[4])
{
    for (int i = 0; i < 4 && text[i]; i++)
        if (!strstr(template_source(t), text[i])) return false;
    return true;
}

const char *chat_tool_parser_of(const struct template *t)
{
    for (int i = 0; i < N_TOOL; i++)
        if (has_all(t, tool_families[i]->has)) return tool_families[i]->name;
    return NULL;
}

const char *chat_reasoning_parser_of(const struct template *t)
{
    const char *opens, *closes;
    template_thinking(t, &opens, &closes);
    for (int i = 0; i < N_REASON; i++)
        if (opens && strstr(opens, reason_families[i]->open[0])) return reason_families[i]->name;
    return NULL;
}

const struct tool_family *tool_family_of(const char *name)
{
    int at;
    find(&at, chat_tool_parsers, N_TOOL, "tool-call", name, NULL);
    return at >= 0 ? tool_families[at] : NULL;
}

const struct reason_family *reason_family_of(const char *name)
{
    int at;
    find(&at, chat_reasoning_parsers, N_REASON, "reasoning", name, NULL);
    return at >= 0 ? reason_families[at] : NULL;
}

enum chat_place chat_parser_place(const struct chat_parser *p)
{
    return p->reasoning.step ? reason_place(&p->reasoning) : CHAT_AFTER;
}

/* ---- deltas ---- */

void parser_emit(struct stage *s, enum chat_delta_kind kind, const char *text, size_t n)
{
    struct chat_parser *p = s->parser;
    if (n > 0 && p->fn && !p->failed)
        p->fn(p->ctx, &(struct chat_delta){.kind = kind, .text = text, .n = n});
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
    if (p->fn && !p->failed) p->fn(p->ctx, &d);
}

void parser_no_memory(struct stage *s)
{
    s->parser->failed = true;
}

bool chat_parser_failed(const struct chat_parser *p)
{
    return p->failed;
}

/* ---- running a stage ---- */

static void stage_drain(struct stage *s, bool end)
{
    size_t at = 0, k;
    while (at < s->held.n && (k = s->step(s, s->held.data + at, s->held.n - at, end)) > 0) at += k;
    if (at == 0) return;
    memmove(s->held.data, s->held.data + at, s->held.n - at);
    s->held.n -= at;
    if (end) s->scan = (struct scan){0};
}

/* Run a stage on more text. Held text that exceeds the limit is decided as if the output ended
 * there. */
static void stage_run(struct stage *s, const char *text, size_t n, bool end)
{
    if (s->held.n + n > HELD_BYTE_MAX) stage_drain(s, true);
    buf_add(&s->held, text, n);
    if (s->held.failed)
        parser_no_memory(s);
    else if (!s->parser->failed)
        stage_drain(s, end);
}

static void stage_push(struct stage *s, const char *text, size_t n, bool end)
{
    if (s->step)
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
    if (p->reasoning.step)
        stage_run(&p->reasoning, text, n, end);
    else
        stage_push(&p->tools, text, n, false);
    if (end) stage_push(&p->tools, "", 0, true);
}

/* Split long texts: the held-back text is limited, the pushed text is not. */
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
    m->failed |= !vec_room((void **)&m->call, &m->cap_call, m->n_call + 1, sizeof *m->call);
    if (m->failed) return NULL;
    struct chat_call *call = &m->call[m->n_call++];
    *call = (struct chat_call){.name = strdup(d->name ? d->name : ""),
                               .id = d->id ? strdup(d->id) : NULL};
    m->failed |= !call->name || (d->id && !call->id);
    return call;
}

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
