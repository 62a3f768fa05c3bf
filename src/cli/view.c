/* view.c - what a person sees of an answer while it comes.
 *
 * Content as it is, reasoning dim, a tool call as name(arguments). Where standard output is no
 * terminal it gets the content and the calls alone, and the reasoning goes to standard error. A
 * model's text is not trusted on a terminal: control characters that could move the cursor or worse
 * are shown as their pictures (U+2400 ...). */
#include "answer.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int view_pace_us;

/* NO_COLOR and terminals without colours get no escape sequences. */
static bool may_dim(void)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    return !(no && *no) && term && strcmp(term, "dumb") != 0;
}

void view_begin(struct view *v)
{
    bool terminal = isatty(STDOUT_FILENO);
    *v = (struct view){.out = stdout,
                       .aside = terminal ? stdout : stderr,
                       .terminal = terminal,
                       .dim = terminal && may_dim()};
}

static bool is_control(uint32_t cp)
{
    return (cp < 0x20 && cp != '\n' && cp != '\t') || (cp >= 0x7F && cp < 0xA0);
}

static uint32_t picture_of(uint32_t control)
{
    if (control < 0x20) return 0x2400 + control;
    return control == 0x7F ? 0x2421 : 0xFFFD;
}

/* Text is valid UTF-8 (struct reply sees to it); what is not is left out. */
static void put_safely(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        char bytes[4];
        int len = utf8_decode(text + i, n - i, &cp);
        if (len > 0 && is_control(cp)) cp = picture_of(cp);
        if (len > 0) fwrite(bytes, 1, (size_t)utf8_encode(bytes, cp), out);
        i += len > 0 ? (size_t)len : 1;
    }
}

static FILE *stream(const struct view *v)
{
    return v->begun && v->kind == CHAT_REASONING ? v->aside : v->out;
}

static void put(struct view *v, const char *text, size_t n)
{
    FILE *out = stream(v);
    if (n == 0) return;
    if (v->terminal || isatty(fileno(out)))
        put_safely(out, text, n);
    else
        fwrite(text, 1, n, out);
    fflush(out);
    v->last = text[n - 1];
}

/* What was under way ends; the next kind begins on a line of its own where it shares the stream. */
static void leave(struct view *v)
{
    if (v->calling) put(v, ")", 1);
    if (v->begun && v->kind == CHAT_REASONING && v->dim) fputs("\033[22m", v->out);
    v->calling = false;
}

static void enter(struct view *v, const struct chat_delta *d)
{
    bool aside = v->begun && v->kind == CHAT_REASONING;
    leave(v);
    if (v->begun && v->last != '\n') put(v, "\n", 1);
    if (aside && v->terminal) put(v, "\n", 1);
    v->begun = true;
    v->kind = d->kind;
    v->i_call = d->i_call;
    if (d->kind == CHAT_REASONING && v->dim) fputs("\033[2m", v->out);
}

static void keep_pace(const struct view *v)
{
    if (v->terminal && view_pace_us) usleep((useconds_t)view_pace_us);
}

void view_delta(void *view, const struct chat_delta *d)
{
    struct view *v = view;
    bool another = d->kind != v->kind || (d->kind == CHAT_CALL && d->i_call != v->i_call);
    if (d->n == 0 && !d->name) return;
    if (!v->begun || another) enter(v, d);
    if (d->kind == CHAT_CALL && d->name) {
        put(v, d->name, strlen(d->name));
        put(v, "(", 1);
        v->calling = true;
    }
    put(v, d->text, d->n);
    keep_pace(v);
}

void view_text(void *view, const char *text, size_t n)
{
    put(view, text, n);
    keep_pace(view);
}

void view_end(struct view *v)
{
    leave(v);
    if (v->last && v->last != '\n' && (v->terminal || stream(v) == v->aside)) put(v, "\n", 1);
    fflush(v->out);
}
