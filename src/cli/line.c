/* line.c - the user's input, through libedit's native interface with wide characters and Emacs
 * keys. libedit edits the line, and draw.c draws it.
 *
 *   READ --line ends in \--> READ (a ". " prompt)    --""" begins--> BLOCK --""" ends--> message
 *   READ --any other line--> message
 *
 * Bracketed paste is enabled in the terminal, so that a pasted newline does not send a message. A
 * short paste without newlines is inserted as text. A longer paste is shown as "[paste 1: 10240
 * characters]" until the message is sent. The line therefore remains short, and fits the screen. */
#include "answer.h"
#include "tty.h"

#include "base/os.h"
#include "base/utf8.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* PASTE_INLINE_MAX: maximum characters of a paste in the line. PASTE_MAX: maximum characters of any
 * paste. HISTORY_MAX: maximum lines of the history. */
enum { PASTE_INLINE_MAX = 200, PASTE_MAX = 16 << 20, HISTORY_MAX = 1000 };

typedef VEC(wchar_t) wide_text;

struct paste {
    char mark[64]; /* placeholder of the paste in the line */
    struct buf text;
};

struct line {
    EditLine *el;      /* owned */
    HistoryW *history; /* owned */
    struct draw draw;
    FILE *screen;    /* stream for editing; owned unless stdout */
    FILE *nowhere;   /* stream for libedit's own drawing, owned */
    char path[1024]; /* path of the history; "" if there is no folder for it */
    bool interrupted, was_empty;
    name_fn *candidate;      /* candidates for Tab; NULL: Tab has no effect */
    VEC(struct paste) paste; /* pastes of the message being typed */
};

/* ---- wide characters and UTF-8 ---- */

/* Append wide characters as UTF-8. A terminal in another locale may give invalid characters, which
 * become U+FFFD. */
static void add_wide(struct buf *b, const wchar_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_add_utf8(b, (unsigned)text[i] <= 0x10FFFF ? (unsigned)text[i] : 0xFFFD);
}

/* Insert UTF-8 at the cursor, at most PASTE_INLINE_MAX characters. Invalid UTF-8 is not
 * inserted. */
static void insert_text(EditLine *el, const char *text)
{
    wchar_t wide[PASTE_INLINE_MAX + 1];
    size_t n = mbstowcs(wide, text, PASTE_INLINE_MAX);
    if (n == (size_t)-1) return;
    wide[n] = 0;
    el_winsertstr(el, wide);
}

/* ---- additional keys ---- */

/* Return the line of a callback's editor (EL_CLIENTDATA). */
static struct line *line_of(EditLine *el)
{
    void *l;
    el_wget(el, EL_CLIENTDATA, &l);
    return l;
}

/* Discard the line after Ctrl-C. libedit then ends el_wgets as at the end of the input.
 * `interrupted` distinguishes Ctrl-C from the end. */
static unsigned char on_interrupt_key(EditLine *el, wint_t key)
{
    (void)key;
    struct line *l = line_of(el);
    const LineInfoW *now = el_wline(el);
    tty_show(el);
    l->interrupted = true;
    l->was_empty = now->lastchar == now->buffer;
    return CC_EOF;
}

/* Return true if the text ends with the mark of a paste's end. libedit gives single characters, so
 * the mark arrives in parts. */
static bool ends_with(const wide_text *w, const wchar_t *end)
{
    size_t n = wcslen(end);
    return w->n >= n && wmemcmp(w->v + w->n - n, end, n) == 0;
}

/* Read up to the mark ESC[201~, and drop the mark. Convert \r and \r\n to \n. */
static void read_paste(EditLine *el, wide_text *w)
{
    static const wchar_t end[] = L"\033[201~";
    wchar_t c;
    while (w->n < PASTE_MAX && el_wgetc(el, &c) > 0) {
        if (c == L'\n' && w->n && w->v[w->n - 1] == L'\r')
            w->v[w->n - 1] = L'\n';
        else if (!vec_push(w, c))
            break;
        if (!ends_with(w, end)) continue;
        w->n -= wcslen(end);
        break;
    }
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i] == L'\r') w->v[i] = L'\n';
}

/* Return true if the paste may be inserted as text: short, and without newlines or control
 * characters. */
static bool fits_line(const wide_text *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i] < L' ') return false;
    return w->n <= PASTE_INLINE_MAX;
}

/* Keep a long paste and insert its mark. Nothing is inserted if memory runs out. */
static void keep_paste(struct line *l, const wide_text *w)
{
    struct paste p = {0};
    size_t n_line = 1;
    for (size_t i = 0; i < w->n; i++) n_line += w->v[i] == L'\n';
    add_wide(&p.text, w->v, w->n);
    snprintf(p.mark, sizeof p.mark, "[paste %zu: %zu characters, %zu line%s]", l->paste.n + 1, w->n,
             n_line, n_line > 1 ? "s" : "");
    if (p.text.failed || !vec_push(&l->paste, p))
        buf_deinit(&p.text);
    else
        insert_text(l->el, p.mark);
}

/* Handle ESC[200~, which begins a bracketed paste. */
static unsigned char on_paste(EditLine *el, wint_t key)
{
    (void)key;
    wide_text w = {0};
    read_paste(el, &w);
    if (w.n && fits_line(&w) && vec_push(&w, L'\0'))
        el_winsertstr(el, w.v);
    else if (w.n)
        keep_paste(line_of(el), &w);
    vec_deinit(&w);
    return CC_REFRESH;
}

/* ---- Tab ---- */

/* Set `common` to the common prefix of the candidates that begin with n bytes of text. Return the
 * number of these candidates. */
static int common_of(const struct line *l, const char *text, size_t n, char *common,
                     size_t n_common)
{
    int n_fit = 0;
    const char *s;
    for (int i = 0; (s = l->candidate(i)); i++) {
        if (strncmp(s, text, n) != 0) continue;
        size_t same = 0;
        if (n_fit++ == 0) snprintf(common, n_common, "%s", s);
        while (common[same] && common[same] == s[same]) same++;
        common[same] = 0;
    }
    return n_fit;
}

/* List the candidates' last words in a row below the line, then draw the line again. */
static void list_candidates(struct line *l, const char *text, size_t n)
{
    const char *s;
    tty_show(l->el);
    draw_end(&l->draw, "");
    for (int i = 0; (s = l->candidate(i)); i++) {
        const char *blank = strchr(s, ' '), *word = blank && blank[1] ? blank + 1 : s;
        if (strncmp(s, text, n) != 0 || (word != s && n < (size_t)(word - s))) continue;
        fprintf(l->screen, "%.*s  ", (int)strcspn(word, " "), word);
    }
    fputs("\r\n", l->screen);
}

/* Complete a command, which is a line that begins with "/". Extend the word to the common prefix of
 * all candidates. List the candidates if the prefix is not longer. */
static unsigned char on_tab(EditLine *el, wint_t key)
{
    (void)key;
    struct line *l = line_of(el);
    const LineInfoW *now = el_wline(el);
    struct buf typed = {0};
    char common[128] = "";
    add_wide(&typed, now->buffer, (size_t)(now->cursor - now->buffer));
    const char *text = typed.data ? typed.data : "";
    int n_fit =
        l->candidate && *text == '/' ? common_of(l, text, typed.n, common, sizeof common) : 0;
    if (n_fit > 0 && strlen(common) > typed.n)
        insert_text(el, common + typed.n);
    else if (n_fit > 1)
        list_candidates(l, text, typed.n);
    buf_deinit(&typed);
    return CC_REFRESH;
}

void line_complete(struct line *l, name_fn *candidate)
{
    l->candidate = candidate;
}

/* The text is inserted before the first key of the next line (tty.c). */
int line_begin_with(struct line *l, const char *text, struct err *e)
{
    (void)l;
    size_t n = strlen(text) + 1;
    wchar_t *wide = calloc(n, sizeof *wide);
    if (!wide || mbstowcs(wide, text, n) == (size_t)-1) {
        free(wide);
        return err_set(e, ERR_MEMORY, "cannot edit the message");
    }
    tty_begin_with(wide);
    return 0;
}

/* ---- opening ---- */

/* Set l->path to $XDG_STATE_HOME/quoth/history. */
static void find_history(struct line *l)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char dir[900] = "";
    if (state && *state)
        snprintf(dir, sizeof dir, "%s/quoth", state);
    else if (home && *home)
        snprintf(dir, sizeof dir, "%s/.local/state/quoth", home);
    if (!*dir) return;
    for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(dir, 0700);
        *p = '/';
    }
    mkdir(dir, 0700);
    if (!path_join(l->path, sizeof l->path, dir, "history")) l->path[0] = 0;
}

/* Bind keys to functions. The functions are added first, because a key can only be bound to a
 * function that exists. */
static void bind_keys(EditLine *el)
{
    el_wset(el, EL_ADDFN, L"quoth-paste", L"insert pasted text", on_paste);
    el_wset(el, EL_ADDFN, L"quoth-interrupt", L"discard the line", on_interrupt_key);
    el_wset(el, EL_ADDFN, L"quoth-complete", L"complete a command", on_tab);
    el_wset(el, EL_BIND, L"^I", L"quoth-complete", NULL);
    el_wset(el, EL_BIND, L"\\e[200~", L"quoth-paste", NULL);
    el_wset(el, EL_BIND, L"^C", L"quoth-interrupt", NULL);
}

/* Return the stream for editing: standard output, or standard error if standard output is not a
 * terminal. */
static FILE *open_screen(void)
{
    if (isatty(STDOUT_FILENO)) return stdout;
    int fd = isatty(STDERR_FILENO) ? dup(STDERR_FILENO) : -1;
    return fd < 0 ? NULL : fdopen(fd, "w");
}

/* Start libedit. libedit draws to /dev/null, because draw.c draws the line. el_source reads
 * ~/.editrc, so users keep their keys. */
static int start_editor(struct line *l)
{
    HistEventW ev;
    l->draw.out = l->screen = open_screen();
    l->nowhere = fopen("/dev/null", "w");
    l->el = l->screen && l->nowhere ? el_init_fd("quoth", stdin, l->nowhere, stderr, STDIN_FILENO,
                                                 fileno(l->screen), STDERR_FILENO)
                                    : NULL;
    l->history = history_winit();
    if (!l->el || !l->history) return ERR_IO;
    el_wset(l->el, EL_CLIENTDATA, l);
    history_w(l->history, &ev, H_SETSIZE, HISTORY_MAX);
    history_w(l->history, &ev, H_SETUNIQUE, 1);
    el_wset(l->el, EL_HIST, history_w, l->history);
    tty_attach(l->el, &l->draw);
    bind_keys(l->el);
    el_source(l->el, NULL);
    find_history(l);
    if (*l->path) history_w(l->history, &ev, H_LOAD, l->path);
    return 0;
}

int line_open(struct line **out, struct err *e)
{
    *out = NULL;
    struct line *l = calloc(1, sizeof *l);
    if (!l) return err_memory(e, "a line editor", sizeof *l);
    /* libedit needs a locale with UTF-8; other categories keep the C locale */
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "");
    if (!tty_begin() || start_editor(l) != 0) {
        line_close(l);
        return err_set(e, ERR_IO, "the input: expected a terminal, got another file");
    }
    *out = l;
    return 0;
}

/* Drop the pastes of a message, after it was sent or discarded. */
static void clear_pastes(struct line *l)
{
    for (size_t i = 0; i < l->paste.n; i++) buf_deinit(&l->paste.v[i].text);
    l->paste.n = 0;
}

/* The terminal is restored after libedit has ended, because el_end changes modes. */
void line_close(struct line *l)
{
    if (!l) return;
    HistEventW ev;
    if (l->history && *l->path) history_w(l->history, &ev, H_SAVE, l->path);
    if (l->el) el_end(l->el);
    if (l->el) tty_end();
    if (l->history) history_wend(l->history);
    if (l->screen && l->screen != stdout) fclose(l->screen);
    if (l->nowhere) fclose(l->nowhere);
    draw_deinit(&l->draw);
    clear_pastes(l);
    vec_deinit(&l->paste);
    free(l);
}

/* ---- a message ---- */

/* Append the line with its pastes expanded. Return true if the line had pastes. */
static bool add_expanded(struct line *l, struct buf *message, const char *text)
{
    bool any = false;
    while (*text) {
        const struct paste *p = NULL;
        for (size_t i = 0; i < l->paste.n && !p; i++)
            if (strncmp(text, l->paste.v[i].mark, strlen(l->paste.v[i].mark)) == 0)
                p = &l->paste.v[i];
        if (p)
            buf_add(message, p->text.data, p->text.n);
        else
            buf_add_char(message, *text);
        text += p ? strlen(p->mark) : 1;
        any |= p != NULL;
    }
    return any;
}

/* Read one line without its newline. Add the line to the history, with marks in place of its long
 * pastes. */
static bool read_line(struct line *l, const wchar_t *prompt, struct buf *message)
{
    HistEventW ev;
    struct buf typed = {0};
    int n = 0;
    l->interrupted = false;
    draw_begin(&l->draw, prompt, tty_size());
    const wchar_t *wide = el_wgets(l->el, &n);
    if (wide && n > 0) {
        size_t n_typed = (size_t)(n - (wide[n - 1] == L'\n'));
        draw_show(&l->draw, wide, n_typed, n_typed);
        draw_end(&l->draw, "");
        add_wide(&typed, wide, n_typed);
        bool pasted = add_expanded(l, message, typed.data ? typed.data : "");
        if (typed.n > 0 && !pasted) history_w(l->history, &ev, H_ENTER, wide);
        buf_deinit(&typed);
        return true;
    }
    draw_end(&l->draw, l->interrupted ? "^C" : "");
    return false;
}

/* Return true if the line begins a block, by """. */
static bool opens_block(const struct buf *m)
{
    return m->n >= 3 && memcmp(m->data, "\"\"\"", 3) == 0;
}

/* Return true if m ends with """. from: length of the opening mark, which does not close its own
 * block. */
static bool closes_block(const struct buf *m, size_t from)
{
    return m->n >= from + 3 && memcmp(m->data + m->n - 3, "\"\"\"", 3) == 0;
}

/* Read lines until one ends with """, and remove both marks and the newlines next to them. Return
 * false if the input ended or Ctrl-C was pressed. */
static bool read_block(struct line *l, struct buf *m)
{
    bool more = true;
    while (!closes_block(m, 3) && (more = (buf_add_char(m, '\n'), read_line(l, L". ", m))))
        continue;
    if (!more) return false;
    size_t begin = m->n > 3 && m->data[3] == '\n' ? 4 : 3, end = m->n - 3;
    if (end > begin && m->data[end - 1] == '\n') end--;
    end = end > begin ? end : begin;
    memmove(m->data, m->data + begin, end - begin);
    m->data[m->n = end - begin] = 0;
    return true;
}

/* Read a message. A line that ends with a backslash continues on the next line. */
static bool read_message(struct line *l, struct buf *m)
{
    if (!read_line(l, L"> ", m)) return false;
    if (opens_block(m)) return read_block(l, m);
    while (m->n > 0 && m->data[m->n - 1] == '\\') {
        m->data[m->n - 1] = '\n';
        if (!read_line(l, L". ", m)) return false;
    }
    return true;
}

/* Ctrl-C on an empty line has a separate result, for which the chat prints the keys that end the
 * chat. */
enum line_result line_read(struct line *l, struct buf *message)
{
    buf_clear(message);
    clear_pastes(l);
    if (read_message(l, message)) return LINE_MESSAGE;
    if (!l->interrupted) return LINE_END;
    return l->was_empty && message->n == 0 ? LINE_INTERRUPTED : LINE_DISCARDED;
}
