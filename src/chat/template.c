/* template.c - a chat template from source to prompt.
 *
 *   template_open: normalize newlines -> jinja_lex -> jinja_parse -> probe (supported features)
 *   template_render: shape the conversation -> run -> the prompt
 *
 * A second run without the generation prompt finds the start of the assistant's turn. The second
 * run is needed if the caller requests the start of the turn, or if the prompt contains a thinking
 * mark. A continued message is appended without the template. */
#include "chat/template_impl.h"

#include "base/names.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* SOURCE_BYTES_MAX bounds the memory of the syntax tree. DEPTH_MAX bounds the stack, because parser
 * and evaluation recurse. */
enum { SOURCE_BYTES_MAX = 1 << 20, DEPTH_MAX = 600 };

/* Return the source with \n for \r\n and \r, and without one newline at the end, as in jinja2. */
static char *normalize(struct arena *a, const char *source, size_t n, size_t *n_out)
{
    char *s = arena_push(a, n + 1, 1);
    size_t k = 0;
    for (size_t i = 0; s && i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') continue;
        s[k++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (s && k > 0 && s[k - 1] == '\n') k--;
    if (s) s[k] = 0;
    *n_out = k;
    return s;
}

/* Convert the source to a tree. Tokens are freed after parsing. Texts of the tree are in the
 * template's arena or in its source. */
static int compile(struct template *t, const char *source, size_t n, struct err *e)
{
    struct tokens tokens = {0};
    char *s = normalize(&t->arena, source, n, &t->n);
    if (!s) return err_memory(e, "a template", n);
    t->source = s;
    int rc = jinja_lex(&tokens, s, t->n, &t->arena, e);
    if (rc == 0) rc = jinja_parse(&t->root, &tokens, s, &t->arena, e);
    vec_deinit(&tokens);
    return rc;
}

/* The template is immutable after template_open, so threads may share it. */
int template_open(struct template **out, const char *source, size_t n, struct err *e)
{
    *out = NULL;
    if (n > SOURCE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the chat template has %zu bytes, more than 1 MiB", n);
    if (!utf8_valid(source, n))
        return err_set(e, ERR_FORMAT, "the chat template: must be UTF-8, got other bytes");
    struct template *t = calloc(1, sizeof *t);
    if (!t) return err_memory(e, "a template", sizeof *t);
    int rc = compile(t, source, n, e);
    if (rc == 0) t->family = family_of(t->source);
    if (rc == 0) rc = template_probe(t, e);
    if (rc != 0) {
        template_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void template_close(struct template *t)
{
    if (!t) return;
    arena_deinit(&t->arena);
    free(t);
}

const char *template_source(const struct template *t)
{
    return t->source;
}

const struct template_caps *template_caps(const struct template *t)
{
    return &t->caps;
}

bool template_knows_effort(const struct template *t)
{
    return strstr(t->source, "reasoning_effort") != NULL;
}

bool template_can_skip_reasoning(const struct template *t)
{
    return template_knows_effort(t) || strstr(t->source, "enable_thinking") ||
           strstr(t->source, "thinking is ");
}

void template_thinking(const struct template *t, const char **open, const char **close)
{
    *open = t->thinking.open;
    *close = t->thinking.close;
}

/* ---- one run ---- */

/* Limits of 0 mean the defaults: 20 million steps, 256 MiB of values, 64 MiB of output. */
int render_begin(struct render *r, const struct template *t, const struct template_limits *limits,
                 int64_t now, struct err *e)
{
    static const struct template_limits none;
    if (!limits) limits = &none;
    *r = (struct render){.err = e, .source = t->source, .now = now ? now : (int64_t)time(NULL)};
    r->step_max = limits->step_max ? limits->step_max : 20 * 1000 * 1000;
    r->depth_max = limits->depth_max ? limits->depth_max : DEPTH_MAX;
    r->arena.bytes_max = limits->bytes_max ? limits->bytes_max : (size_t)256 << 20;
    r->out.max = limits->out_bytes_max ? limits->out_bytes_max : (size_t)64 << 20;
    r->globals = val_dict(r, V_DICT).dict;
    return r->rc;
}

int render_run(struct render *r, const struct template *t)
{
    if (r->rc == 0 && scope_push(r, NULL)) exec_body(r, t->root);
    return r->rc;
}

void render_end(struct render *r)
{
    buf_deinit(&r->out);
    arena_deinit(&r->arena);
}

/* Append the prompt to out. `out` keeps its length if memory is exhausted. */
static int append(struct buf *out, const struct buf *text, struct err *e)
{
    size_t before = out->n;
    buf_add(out, text->data ? text->data : "", text->n);
    if (!out->failed) return 0;
    if (out->data) out->data[out->n = before] = 0;
    return err_memory(e, "a rendered prompt", text->n);
}

/* ---- a conversation ---- */

static int render_with(const struct template *t, const struct conversation *c, bool with_dates,
                       struct buf *out, struct err *e)
{
    struct render r;
    struct template_limits limits = c->limits;
    if (c->steps_left) limits.step_max = *c->steps_left > 0 ? *c->steps_left : 1;
    render_begin(&r, t, &limits, c->now, e);
    if (with_dates) shape_dates(&r);
    shape_conversation(&r, t, c);
    int rc = render_run(&r, t);
    if (rc == 0) rc = append(out, &r.out, e);
    if (c->steps_left) *c->steps_left -= r.n_step < *c->steps_left ? r.n_step : *c->steps_left;
    render_end(&r);
    return rc;
}

/* Render a conversation. Date variables are defined only for a template that fails without date
 * variables. A fixed date in a template is kept, because the model was trained with that date. */
int render_conversation(const struct template *t, const struct conversation *c, struct buf *out,
                        struct err *e)
{
    int rc = render_with(t, c, false, out, e);
    if (rc == ERR_ARG && shape_names_date(t->source)) rc = render_with(t, c, true, out, e);
    return rc;
}

/* Append the start of the turn if the template has omitted the start. The family defines the start,
 * and the end of prompts that do not contain the start. */
static void add_missing_turn(const struct template *t, struct buf *out)
{
    const struct family *f = t->family;
    if (f && f->turn_end && text_n_ends_with(out->data, out->n, f->turn_end))
        buf_add_text(out, f->turn_begin);
}

/* Get the length of the generation prompt at the end of `with`. The generation prompt begins after
 * the common prefix of `with` and a rendering without generation prompt. */
static int generation_prompt(const struct template *t, const struct conversation *c,
                             const char *with, size_t n_with, size_t *n_generation, struct err *e)
{
    struct conversation plain = *c;
    struct buf without = {0};
    size_t shared = 0;
    plain.add_generation_prompt = false;
    int rc = render_conversation(t, &plain, &without, e);
    while (rc == 0 && shared < without.n && shared < n_with && without.data[shared] == with[shared])
        shared++;
    while (shared > 0 && shared < n_with && (with[shared] & 0xC0) == 0x80) shared--;
    *n_generation = n_with - shared;
    buf_deinit(&without);
    return rc;
}

/* Return the length of the answer part of a turn. The answer part begins at a thinking block that
 * the generation prompt opened, or opened and closed. */
static size_t answered(const struct template *t, const char *turn, size_t n)
{
    const char *marks[2] = {t->thinking.open, t->thinking.close};
    for (int i = 0; i < 2; i++) {
        struct val mark = text_strip(
            val_text(marks[i] ? marks[i] : "", marks[i] ? strlen(marks[i]) : 0), STRIP_BOTH);
        const char *p = mark.n > 0 ? memmem(turn, n, mark.s, mark.n) : NULL;
        if (p) return n - (size_t)(p - turn);
    }
    return 0;
}

/* Render the prompt with the parts of its end: turn->n_turn is the length of the generation prompt.
 * turn->n_answer is the length of its part that belongs to the answer. */
static int render_answered(const struct template *t, const struct conversation *c, struct buf *out,
                           struct chat_turn *turn, struct err *e)
{
    size_t begin = out->n;
    int rc = render_conversation(t, c, out, e);
    if (rc != 0) return rc;
    size_t n_rendered = out->n - begin;
    if (c->add_generation_prompt) add_missing_turn(t, out);
    if (out->failed) return err_memory(e, "a rendered prompt", out->n);
    size_t n_added = out->n - begin - n_rendered;
    if (!turn) return 0;
    *turn = (struct chat_turn){.n_turn = n_added};
    bool mute = c->answer_only && answered(t, out->data + begin, n_rendered) == 0;
    if (c->add_generation_prompt && n_added == 0 && !mute)
        rc = generation_prompt(t, c, out->data + begin, n_rendered, &turn->n_turn, e);
    if (rc == 0) turn->n_answer = answered(t, out->data + out->n - turn->n_turn, turn->n_turn);
    return rc;
}

/* ---- continuing the last message ---- */

/* Append the text of the content of a message, which is a string or a list of text parts. */
static void add_content(struct buf *out, const struct json *content)
{
    size_t n = 0;
    const char *text = json_text(content, &n);
    if (text) buf_add(out, text, n);
    for (size_t i = 0; i < json_count(content) && json_kind(content) == JK_LIST; i++) {
        const char *part = json_text(json_field(json_item(content, i), "text"), &n);
        if (part && i > 0) buf_add_text(out, "\n\n");
        if (part) buf_add(out, part, n);
    }
}

/* Choose the part of the message to continue. AUTO continues the reasoning if the message has only
 * reasoning. */
static enum chat_continue resolve_continue(enum chat_continue how, const struct json *message)
{
    size_t n = 0;
    const struct json *content = json_field(message, "content");
    bool empty = json_count(content) == 0 && (!json_text(content, &n) || n == 0);
    if (how != CHAT_CONTINUE_AUTO) return how;
    return empty && json_text(json_field(message, "reasoning_content"), &n) && n > 0
               ? CHAT_CONTINUE_REASONING
               : CHAT_CONTINUE_CONTENT;
}

/* Append the opening of the turn: the family's text, or the generation prompt up to its thinking
 * block. */
static void add_opening(const struct template *t, struct buf *out, const char *generated, size_t n)
{
    const struct turn_form *k = &t->thinking;
    const char *open = k->open && n > 0 ? memmem(generated, n, k->open, strlen(k->open)) : NULL;
    if (k->opening)
        buf_add_text(out, k->opening);
    else
        buf_add(out, generated, open ? (size_t)(open - generated) : n);
}

/* Append the last message without its end, so that the model continues it. */
static void add_continued(const struct template *t, const struct json *message,
                          enum chat_continue how, struct buf *out)
{
    size_t n = 0;
    const char *reasoning = json_text(json_field(message, "reasoning_content"), &n);
    const char *closed = t->family && n == 0 ? t->family->closed : NULL;
    if (closed)
        buf_add_text(out, closed);
    else if (t->thinking.open) {
        buf_add_text(out, t->thinking.open);
        if (reasoning) buf_add(out, reasoning, n);
        if (how == CHAT_CONTINUE_CONTENT) buf_add_text(out, t->thinking.close);
    }
    if (how == CHAT_CONTINUE_CONTENT) add_content(out, json_field(message, "content"));
}

/* Render a conversation whose last message continues. Render the conversation without the last
 * message twice: with the generation prompt, and without it (in generation_prompt). The result
 * comes from a third rendering. */
static int render_continued(const struct template *t, const struct conversation *c, struct buf *out,
                            struct chat_turn *turn, struct err *e)
{
    struct conversation rest = *c;
    struct buf with = {0};
    const struct json *last = json_item(c->messages, json_count(c->messages) - 1);
    size_t n = 0;
    rest.add_generation_prompt = true;
    int rc = render_conversation(t, &rest, &with, e);
    if (rc == 0) rc = generation_prompt(t, &rest, with.data ? with.data : "", with.n, &n, e);
    rest.add_generation_prompt = false;
    if (rc == 0) rc = render_conversation(t, &rest, out, e);
    if (rc == 0) {
        size_t n_before = out->n;
        add_missing_turn(t, out);
        if (out->n == n_before) add_opening(t, out, with.data + with.n - n, n);
        size_t n_opened = out->n;
        add_continued(t, last, resolve_continue(c->continue_final, last), out);
        if (turn)
            *turn = (struct chat_turn){.n_turn = out->n - n_before, .n_answer = out->n - n_opened};
        if (out->failed) rc = err_memory(e, "a rendered prompt", out->n);
    }
    buf_deinit(&with);
    return rc;
}

/* `out` is unchanged after a failure. */
int template_render(const struct template *t, const struct conversation *c, struct buf *out,
                    struct chat_turn *turn, struct err *e)
{
    size_t before = out->n;
    int rc;
    if (c->continue_final == CHAT_CONTINUE_NO)
        rc = render_answered(t, c, out, turn, e);
    else if (json_count(c->messages) == 0)
        rc = err_field(e, ERR_ARG, "messages",
                       ": must end with the message to continue, got 0 messages");
    else
        rc = render_continued(t, c, out, turn, e);
    if (rc == 0) rc = check_roles(t, c, e);
    if (rc == 0 && c->checks_parts) rc = check_effects(t, c, e);
    if (rc != 0 && out->data) out->data[out->n = before] = 0;
    return rc;
}

/* The formats are tried in order. mktime converts the date as local time. */
int template_clock(const char *date, int64_t *now, struct err *e)
{
    static const char *const formats[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S",
                                          "%Y-%m-%d %H:%M"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(date, formats[i], &tm);
        time_t seconds = end && *end == 0 ? mktime(&tm) : -1;
        if (seconds == -1) continue;
        *now = (int64_t)seconds;
        return 0;
    }
    return form_wrong(e, "a date like 2026-11-20 or 2026-11-20T14:30", date);
}
