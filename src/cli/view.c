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

void view_begin(struct view *v)
{
    *v = (struct view){.out = stdout, .terminal = isatty(STDOUT_FILENO), .i_call = -1};
}

/* NO_COLOR and terminals without colours get no escape sequences. */
static bool may_dim(const struct view *v)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    return v->terminal && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

static bool is_control(uint32_t cp)
{
    return (cp < 0x20 && cp != '\n' && cp != '\t') || (cp >= 0x7F && cp < 0xA0);
}

static void put_safely(FILE *out, const char *text, size_t n)
{
    uint32_t cp;
    char picture[4];
    for (size_t i = 0; i < n;) {
        int len = utf8_decode(text + i, n - i, &cp);
        if (len <= 0) cp = (unsigned char)text[i], len = 1;
        if (cp < 0x80 || len > 1) {
            if (is_control(cp))
                fwrite(picture, 1,
                       (size_t)utf8_encode(picture, cp < 0x20    ? 0x2400 + cp
                                                    : cp == 0x7F ? 0x2421
                                                                 : 0xFFFD),
                       out);
            else
                fwrite(text + i, 1, (size_t)len, out);
        }
        i += (size_t)len;
    }
}

static void put(struct view *v, FILE *out, const char *text, size_t n)
{
    if (n == 0) return;
    if (isatty(fileno(out)))
        put_safely(out, text, n);
    else
        fwrite(text, 1, n, out);
    v->last = text[n - 1];
}

static void put_mark(struct view *v, const char *text)
{
    put(v, v->out, text, strlen(text));
}

/* Reasoning begins or ends: dim on the terminal, else another stream. */
static void set_dim(struct view *v, bool on)
{
    if (may_dim(v)) fprintf(stdout, on ? "\033[2m" : "\033[22m");
    if (!v->terminal) fflush(v->out), v->out = on ? stderr : stdout;
}

static void leave(struct view *v)
{
    if (v->calling) put_mark(v, ")");
    v->calling = false;
    if (!v->begun) return;
    if (v->kind == CHAT_REASONING) set_dim(v, false);
}

static void enter(struct view *v, const struct chat_delta *d)
{
    bool was_reasoning = v->begun && v->kind == CHAT_REASONING;
    leave(v);
    if (v->begun && v->last != '\n' && (v->terminal || !was_reasoning)) put_mark(v, "\n");
    if (was_reasoning && v->terminal) put_mark(v, "\n");
    if (d->kind == CHAT_REASONING) set_dim(v, true);
    v->begun = true;
    v->kind = d->kind;
    v->i_call = d->i_call;
}

static void show(struct view *v)
{
    fflush(v->out);
    if (v->terminal && view_pace_us) usleep((useconds_t)view_pace_us);
}

void view_delta(void *view, const struct chat_delta *d)
{
    struct view *v = view;
    bool another = d->kind != v->kind || (d->kind == CHAT_CALL && d->i_call != v->i_call);
    if (d->n == 0 && !d->name) return;
    if (!v->begun || another) enter(v, d);
    if (d->kind == CHAT_CALL && d->name) {
        put_mark(v, d->name);
        put_mark(v, "(");
        v->calling = true;
    }
    put(v, v->out, d->text, d->n);
    show(v);
}

void view_text(void *view, const char *text, size_t n)
{
    struct view *v = view;
    put(v, v->out, text, n);
    show(v);
}

void view_end(struct view *v)
{
    leave(v);
    if (v->terminal && v->last && v->last != '\n') fputc('\n', v->out);
    fflush(v->out);
}
