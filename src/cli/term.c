/* term.c - the whole screen of a terminal; see term.h. The alternate buffer preserves the previous
 * contents.
 *
 *   term_begin --> term_show, term_wait ... --> term_end
 *                     ^    Ctrl-Z: restored, stopped, and taken over again
 *                     '--- SIGTERM, SIGHUP, SIGINT, SIGQUIT: restored, and terminated */
#include "term.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* select the alternate screen, hide the cursor, and truncate long lines */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l",
                  leave[] = "\033[?7h\033[?25h\033[?1049l";

/* modes at the start, restored at the end */
static struct termios found;
static bool has_keys; /* standard input is a terminal */
/* signal mask during term_wait, the only time at which SIGWINCH is delivered */
static sigset_t waiting;

/* Write all bytes. An error is ignored, because it means that the terminal is closed and a signal
 * follows. */
static void put(const char *s, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, s, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        s += done;
        n -= (size_t)done;
    }
}

static void on_resize(int sig)
{
    (void)sig; /* the signal only interrupts ppoll */
}

/* Restore the terminal, then end by the same signal, so that the parent process gets the usual
 * status. */
static void on_end(int sig)
{
    term_end();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Acquire the terminal: raw keys without signals, and the alternate screen. Output modes are not
 * changed. */
static void acquire_screen(void)
{
    struct termios raw = found;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (has_keys) tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    put(enter, sizeof enter - 1);
}

bool term_colour(void)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

bool term_utf8(void)
{
    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* SIGWINCH remains blocked except in term_wait, so that a resize between the drawing and the wait
 * is not missed. */
bool term_begin(void)
{
    static const int ends[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};
    const char *term = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || !term || strcmp(term, "dumb") == 0) return false;
    has_keys = tcgetattr(STDIN_FILENO, &found) == 0;
    struct sigaction end = {.sa_handler = on_end}, resize = {.sa_handler = on_resize};
    for (int i = 0; i < 4; i++) sigaction(ends[i], &end, NULL);
    sigaction(SIGWINCH, &resize, NULL);
    sigset_t block;
    sigemptyset(&block);
    sigaddset(&block, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &block, &waiting);
    acquire_screen();
    return true;
}

void term_end(void)
{
    put(leave, sizeof leave - 1);
    if (has_keys) tcsetattr(STDIN_FILENO, TCSADRAIN, &found);
}

struct screen_size term_size(void)
{
    struct winsize w = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0) w = (struct winsize){0};
    return (struct screen_size){.n_column = w.ws_col ? w.ws_col : 80,
                                .n_row = w.ws_row ? w.ws_row : 24};
}

/* Overwrite the screen from its top and clear only the remaining part of each row. Clearing first,
 * or several writes per frame, would flicker. */
void term_show(const char *rows, size_t n)
{
    struct buf b = {0};
    buf_add_text(&b, "\033[H");
    for (size_t at = 0; at < n;) { /* a final newline would scroll a full screen */
        const char *end = memchr(rows + at, '\n', n - at);
        size_t len = end ? (size_t)(end - rows) - at : n - at;
        if (at) buf_add_text(&b, "\r\n");
        buf_add(&b, rows + at, len);
        buf_add_text(&b, "\033[K");
        at += len + 1;
    }
    buf_add_text(&b, "\033[J");
    if (!b.failed) put(b.data, b.n);
    buf_deinit(&b);
}

/* Stop the process, as Ctrl-Z does in cooked mode. The call returns after the shell continues
 * it. */
static void suspend(void)
{
    term_end();
    raise(SIGTSTP);
    acquire_screen();
}

/* Return a key, or CTRL_D at the end of the input. Return 0 after an event of fd, a timeout or a
 * resize. */
int term_wait(int fd, int wait_ms)
{
    enum { CTRL_D = 4, CTRL_Z = 26 };
    struct pollfd p[] = {{.fd = fd, .events = POLLIN},
                         {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN}};
    const struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000L};
    unsigned char key;
    if (ppoll(p, 2, &wait, &waiting) <= 0 || !p[1].revents) return 0;
    if (read(STDIN_FILENO, &key, 1) != 1) return CTRL_D;
    if (key != CTRL_Z) return key;
    suspend();
    return 0;
}
