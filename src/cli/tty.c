/* tty.c - the terminal below the line editor: modes, signals, resizing, bytes to characters.
 *
 * libedit's own signal handling (EL_SIGNAL) redraws inside of signal handlers and resends signals
 * to the whole process group, so it stays off: handlers set a flag here, read_key sees it.
 *
 *   editing          raw; Ctrl-C and Ctrl-Z are keys
 *   everything else  Ctrl-C is a signal, but keys are neither shown nor gathered into lines: what
 *                    is typed during an answer, or before libedit has changed modes, is for it
 *   outside          as it was found: at the end, while suspended, when a signal ends the program */
#include "tty.h"

#include "answer.h"

#include "base/utf8.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

static struct termios found;
static FILE *out;
static int n_column;
static volatile sig_atomic_t resized;

/* ---- signals ---- */

static void on_resize(int sig)
{
    (void)sig;
    resized = 1;
}

static void on_end(int sig)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &found);
    (void)!write(STDERR_FILENO, paste_off, sizeof paste_off - 1);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void catch_signals(void)
{
    static const int ends[] = {SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction end = {.sa_handler = on_end};
    struct sigaction resize = {.sa_handler = on_resize, .sa_flags = SA_RESTART};
    for (int i = 0; i < 3; i++) sigaction(ends[i], &end, NULL);
    sigaction(SIGWINCH, &resize, NULL);
}

/* ---- resizing ---- */

static int columns(void)
{
    struct winsize w = {0};
    return ioctl(fileno(out), TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

static int line_width(EditLine *el)
{
    const LineInfoW *line = el_wline(el);
    int n = 2; /* every prompt's width */
    for (const wchar_t *p = line->buffer; p < line->lastchar; p++) n += utf8_width((uint32_t)*p);
    return n;
}

/* Terminals differ in what they do with the rows of a line that was too long. Such a line is drawn
 * anew below; one that has been a single row and still is, in its place. */
static void redraw(EditLine *el)
{
    int before = n_column, width = line_width(el);
    n_column = columns();
    bool one_row = width < before && width < n_column;
    fputs(one_row ? "\r\033[J" : "\r\n\033[J", out);
    el_resize(el);
    el_wset(el, EL_REFRESH);
    fflush(out);
}

/* ---- keys ---- */

enum wait { WAIT_KEY, WAIT_INTERRUPT, WAIT_GONE };

/* Wait for a key. Signals are blocked but for the wait itself, so that none is missed; a Ctrl-C
 * that came before libedit had changed modes is one of them. */
static enum wait wait_key(EditLine *el)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t block, open;
    sigemptyset(&block);
    sigaddset(&block, SIGWINCH);
    sigaddset(&block, SIGINT);
    pthread_sigmask(SIG_BLOCK, &block, &open);
    int rc;
    bool interrupted;
    do {
        if (resized) resized = 0, redraw(el);
        interrupted = answer_take_interrupt();
        rc = interrupted ? 0 : ppoll(&fd, 1, NULL, &open);
    } while (rc < 0 && errno == EINTR);
    pthread_sigmask(SIG_SETMASK, &open, NULL);
    return interrupted ? WAIT_INTERRUPT : rc > 0 ? WAIT_KEY : WAIT_GONE;
}

/* One character; bytes that are no UTF-8 are dropped. */
static int read_key(EditLine *el, wchar_t *key)
{
    char bytes[4];
    size_t n = 0;
    for (;;) {
        uint32_t cp;
        enum wait w = wait_key(el);
        if (w == WAIT_INTERRUPT) return *key = 'C' & 0x1F, 1;
        if (w == WAIT_GONE || read(STDIN_FILENO, bytes + n, 1) != 1) return 0;
        int len = utf8_decode(bytes, ++n, &cp);
        if (len == 0) n = 0;
        if (len <= 0) continue;
        *key = (wchar_t)cp;
        return 1;
    }
}

static unsigned char on_suspend_key(EditLine *el, wint_t key)
{
    (void)key;
    struct termios between;
    el_wset(el, EL_PREP_TERM, 0);
    tcgetattr(STDIN_FILENO, &between);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &found);
    fprintf(out, "%s\n", paste_off);
    fflush(out);
    raise(SIGTSTP);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &between);
    el_wset(el, EL_PREP_TERM, 1);
    fputs(paste_on, out);
    n_column = 0;
    resized = 1;
    return CC_NORM;
}

static void bind_keys(EditLine *el)
{
    static const wchar_t *const key[][2] = {
        {L"^Z", L"quoth-suspend"},           {L"^R", L"em-inc-search-prev"},
        {L"\\e[1~", L"ed-move-to-beg"},      {L"\\e[4~", L"ed-move-to-end"},
        {L"\\e[H", L"ed-move-to-beg"},       {L"\\e[F", L"ed-move-to-end"},
        {L"\\e[1;5C", L"em-next-word"},      {L"\\e[1;5D", L"ed-prev-word"},
        {L"\\e[3~", L"ed-delete-next-char"},
    };
    el_wset(el, EL_EDITOR, L"emacs");
    el_wset(el, EL_ADDFN, L"quoth-suspend", L"stop the program for now", on_suspend_key);
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        el_wset(el, EL_BIND, key[i][0], key[i][1], NULL);
}

/* ---- begin and end ---- */

bool tty_begin(void)
{
    if (tcgetattr(STDIN_FILENO, &found) != 0) return false;
    catch_signals();
    return true;
}

void tty_attach(EditLine *el, FILE *screen)
{
    out = screen;
    n_column = columns();
    bind_keys(el);
    el_wset(el, EL_GETCFN, read_key);
    el_wset(el, EL_SETTY, L"-d", L"intr=", L"susp=", NULL);
    el_wset(el, EL_SETTY, L"-x", L"-icanon", L"-echo", NULL);
    fputs(paste_on, out);
    fflush(out);
}

void tty_end(FILE *screen)
{
    fputs(paste_off, screen);
    fflush(screen);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &found);
}
