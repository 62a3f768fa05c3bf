/* view.c - print an answer while it is generated.
 *
 * A terminal shows content wrapped at words and with rendered Markdown (paint.c). Reasoning is dim,
 * and a tool call is shown as name(arguments). Standard output receives only content and calls if
 * it is not a terminal. Reasoning is then written to standard error. A model's text is untrusted on
 * a terminal. Control characters, which could for example move the cursor, are shown as their
 * pictures (U+2400 ...). Messages of the program are also wrapped (view_note). */
#include "answer.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* pause after each piece of text, see demo.c */
int view_pace_us;

bool view_may_style(FILE *out)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    return isatty(fileno(out)) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

/* Return the terminal's current width in columns; 0 if unknown. */
static int terminal_width(FILE *out)
{
    struct winsize w = {0};
    return ioctl(fileno(out), TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

void view_begin(struct view *v)
{
    bool terminal = isatty(STDOUT_FILENO);
    *v = (struct view){.out = stdout,
                       .reasoning = terminal ? stdout : stderr,
                       .terminal = terminal,
                       .dim = view_may_style(stdout)};
    if (terminal) v->paint = (struct paint){.out = stdout};
}

/* Return true for control characters that could act on the terminal. */
static bool is_control(uint32_t cp)
{
    return (cp < 0x20 && cp != '\n' && cp != '\t') || (cp >= 0x7F && cp < 0xA0);
}

/* Return the picture of a control character: U+2400 + code for C0, U+2421 for DEL. C1 has no
 * pictures. */
static uint32_t control_picture(uint32_t control)
{
    if (control < 0x20) return 0x2400 + control;
    return control == 0x7F ? 0x2421 : 0xFFFD;
}

/* Write UTF-8. struct reply guarantees valid UTF-8; invalid bytes are dropped. */
static void put_safely(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        char bytes[4];
        int len = utf8_decode(text + i, n - i, &cp);
        if (len > 0 && is_control(cp)) cp = control_picture(cp);
        if (len > 0) fwrite(bytes, 1, (size_t)utf8_encode(bytes, cp), out);
        i += len > 0 ? (size_t)len : 1;
    }
}

/* Return the stream of the current kind. */
static FILE *stream(const struct view *v)
{
    return v->begun && v->kind == CHAT_REASONING ? v->reasoning : v->out;
}

/* Write glyphs with a painter. Later rows of a line begin at the column `hang`; hang < 0: at the
 * painter's column. */
static void paint_text(struct paint *p, int hang, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(text + i, n - i, &cp);
        if (hang >= 0) p->hang = hang;
        if (len > 0) paint_glyph(p, is_control(cp) ? control_picture(cp) : cp);
        i += len > 0 ? (size_t)len : 1;
    }
}

/* Write text wrapped at words. Render content as Markdown if the terminal has styles. */
static void paint(struct view *v, const char *text, size_t n)
{
    v->paint.width = terminal_width(v->out);
    v->paint.markdown = v->dim && v->kind == CHAT_CONTENT;
    paint_text(&v->paint, -1, text, n);
    fflush(v->out);
    if (n) v->last = text[n - 1];
}

/* Write text unchanged to a file, or safely to a terminal. Record its last byte. */
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

/* End the current kind. The next kind begins on a new line if it uses the same stream. */
static void end_kind(struct view *v)
{
    if (v->paint.out) paint_flush(&v->paint);
    if (v->calling) put(v, ")", 1);
    if (v->begun && v->kind == CHAT_REASONING && v->dim) fputs("\033[22m", v->out);
    v->calling = false;
}

/* Begin a kind. Reasoning and content are separated by an empty row on a terminal. */
static void begin_kind(struct view *v, const struct chat_delta *d)
{
    bool reasoning = v->begun && v->kind == CHAT_REASONING;
    end_kind(v);
    if (v->begun && v->last != '\n') put(v, "\n", 1);
    if (reasoning && v->terminal) put(v, "\n", 1);
    v->begun = true;
    v->kind = d->kind;
    v->i_call = d->i_call;
    if (d->kind == CHAT_REASONING && v->dim) fputs("\033[2m", v->out);
}

/* Pause on a terminal, so that people can read the text. Only the demo has pauses. */
static void wait_pace(const struct view *v)
{
    if (v->terminal && view_pace_us) usleep((useconds_t)view_pace_us);
}

/* Show a part of the answer. A part without text may have the name of a call. */
void view_delta(void *view, const struct chat_delta *d)
{
    struct view *v = view;
    bool another = d->kind != v->kind || (d->kind == CHAT_CALL && d->i_call != v->i_call);
    if (d->n == 0 && !d->name) return;
    if (!v->begun || another) begin_kind(v, d);
    if (d->kind == CHAT_CALL && d->name) {
        put(v, d->name, strlen(d->name));
        put(v, "(", 1);
        v->calling = true;
    }
    if (v->paint.out && d->kind != CHAT_CALL)
        paint(v, d->text, d->n);
    else
        put(v, d->text, d->n);
    wait_pace(v);
}

/* The completion of a raw prompt is neither wrapped nor rendered, because it need not be prose. */
void view_text(void *view, const char *text, size_t n)
{
    put(view, text, n);
    wait_pace(view);
}

/* Write a message to standard error, wrapped on a terminal. Rows after the first begin at column
 * hang. */
void view_note(int hang, const char *fmt, ...)
{
    enum { TEXT_COLUMNS = 20, NARROW_HANG = 4 }; /* minimum width of a text next to its margin */
    struct paint p = {.out = stderr, .width = terminal_width(stderr)};
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) return;
    if (hang > 0 && p.width - hang < TEXT_COLUMNS) hang = NARROW_HANG;
    if (isatty(STDERR_FILENO))
        paint_text(&p, hang, text, (size_t)n);
    else
        fwrite(text, 1, (size_t)n, stderr);
    paint_flush(&p);
    paint_deinit(&p);
    free(text);
}

/* A file gets the answer byte for byte, so the final newline is for terminals only. */
void view_end(struct view *v)
{
    end_kind(v);
    if (v->last && v->last != '\n' && (v->terminal || stream(v) == v->reasoning)) put(v, "\n", 1);
    fflush(v->out);
    paint_deinit(&v->paint);
}
