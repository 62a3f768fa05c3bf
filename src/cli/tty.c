/* tty.c - the terminal of the line editor: modes, signals, resizing, bytes to characters.
 *
 *   el_wgets --read_key--> wait_key --no key pending--> draw_show --> ppoll
 *                             ^---- draw_resize <---- SIGWINCH ----|
 *
 * libedit's own signal handling (EL_SIGNAL) is disabled, because it redraws inside signal handlers
 * and resends signals to the whole process group. The handlers of this file set a flag that
 * read_key checks.
 *
 *   editing          raw; Ctrl-C and Ctrl-Z are keys
 *   everything else  Ctrl-C is a signal; keys are not echoed and not collected into lines; keys
 *                    typed during an answer, or before libedit has changed modes, are kept for it
 *   outside          restored: at the end, while suspended, before a signal ends the program */
#include "tty.h"

#include "answer.h"

#include "base/utf8.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

enum { RESIZE_PAUSE_MS = 300 };

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

/* modes at the start, which are restored in state "outside" */
static struct termios found;
static struct draw *line; /* drawing of the current line */
static pthread_t typist;  /* thread of el_wgets */
static volatile sig_atomic_t resized;

/* ---- signals ---- */

/* Wake the thread in ppoll, because any other thread may receive the signal. */
static void on_resize(int sig)
{
    resized = 1;
    if (!pthread_equal(pthread_self(), typist)) pthread_kill(typist, sig);
}

/* Handle a signal. The handler calls only functions that are safe in signal handlers. */
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

/* ---- the screen ---- */

struct screen_size tty_size(void)
{
    struct winsize w = {0};
    if (ioctl(fileno(line->out), TIOCGWINSZ, &w) != 0) w = (struct winsize){0};
    return (struct screen_size){.n_column = w.ws_col ? w.ws_col : 80,
                                .n_row = w.ws_row ? w.ws_row : 24};
}

/* Draw libedit's current line. libedit has no call for its own drawing (see line.c). */
void tty_show(EditLine *el)
{
    const LineInfoW *now = el_wline(el);
    draw_show(line, now->buffer, (size_t)(now->lastchar - now->buffer),
              (size_t)(now->cursor - now->buffer));
}

/* Handle a resize after the size is stable. A window has many sizes while a user drags it. Output
 * for one size must not reach a terminal that has already folded its rows for the next size. tmux
 * reports a size up to 250 ms late. During the wait, the terminal's own folding keeps the text
 * readable. */
static void follow_resize(const sigset_t *open)
{
    const struct timespec pause = {.tv_nsec = RESIZE_PAUSE_MS * 1000000L};
    do {
        resized = 0;
        ppoll(NULL, 0, &pause, open);
    } while (resized);
    draw_resize(line, tty_size());
}

/* Query the terminal's identity (DA2) before waiting for the first key. The answer arrives as typed
 * keys. A terminal that does not answer is assumed to fold, like most terminals. */
static void request_identity(void)
{
    static bool requested;
    if (!requested) fputs("\033[>c", line->out);
    requested = true;
}

/* Read the remaining bytes of the answer "ESC [ > 41 ; 354 ; 0 c" after its beginning. A binding of
 * this beginning calls this function. */
static unsigned char on_identity(EditLine *el, wint_t key)
{
    static const struct {
        const wchar_t *answer; /* static */
        enum reflow reflow;
    } known[] = {
        {L"41;", REFLOW_NONE},       /* xterm */
        {L"83;", REFLOW_NONE},       /* GNU screen */
        {L"1;10;0", REFLOW_NONE},    /* mosh */
        {L"0;276;0", REFLOW_OTHERS}, /* xterm.js: VS Code, many web terminals */
    };
    (void)key;
    wchar_t answer[32] = L"", c = 0;
    for (size_t n = 0; n < 31 && el_wgetc(el, &c) > 0 && c != L'c'; n++) answer[n] = c;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (wcsncmp(answer, known[i].answer, wcslen(known[i].answer)) == 0)
            line->reflow = known[i].reflow;
    return CC_NORM;
}

/* Clear the screen after Ctrl-L. The line is drawn again before the next key. */
static unsigned char on_clear_key(EditLine *el, wint_t key)
{
    (void)el, (void)key;
    fputs("\033[H\033[2J", line->out);
    draw_reset(line);
    return CC_NORM;
}

/* ---- keys ---- */

enum wait { WAIT_KEY, WAIT_INTERRUPT, WAIT_END };

/* Wait for a key. Signals are blocked except during the wait, so that no signal is missed. An
 * example is a Ctrl-C before libedit changed the modes. */
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
        if (resized) follow_resize(&open);
        /* draw only without a pending key, so that fast typing and pastes are drawn once */
        if (poll(&fd, 1, 0) == 0) request_identity(), tty_show(el);
        interrupted = answer_take_interrupt();
        rc = interrupted ? 0 : ppoll(&fd, 1, NULL, &open);
    } while (rc < 0 && errno == EINTR);
    pthread_sigmask(SIG_SETMASK, &open, NULL);
    return interrupted ? WAIT_INTERRUPT : rc > 0 ? WAIT_KEY : WAIT_END;
}

static wchar_t *first_text; /* owned; initial text of the next line; NULL if none */

void tty_begin_with(wchar_t *take_text)
{
    free(first_text);
    first_text = take_text;
}

/* Read one character. Drop invalid UTF-8. */
static int read_key(EditLine *el, wchar_t *key)
{
    char bytes[4];
    size_t n = 0;
    if (first_text) el_winsertstr(el, first_text);
    tty_begin_with(NULL);
    for (;;) {
        uint32_t cp;
        enum wait w = wait_key(el);
        if (w == WAIT_INTERRUPT) return *key = 'C' & 0x1F, 1;
        if (w == WAIT_END || read(STDIN_FILENO, bytes + n, 1) != 1) return 0;
        int len = utf8_decode(bytes, ++n, &cp);
        if (len == 0) n = 0;
        if (len <= 0) continue;
        *key = (wchar_t)cp;
        return 1;
    }
}

/* Suspend the process after Ctrl-Z. The line is finished first, because the shell writes below the
 * line. raise returns after the process continues. The size of the window may then differ. */
static unsigned char on_suspend_key(EditLine *el, wint_t key)
{
    (void)key;
    struct termios between;
    el_wset(el, EL_PREP_TERM, 0);
    tcgetattr(STDIN_FILENO, &between);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &found);
    draw_end(line, paste_off);
    raise(SIGTSTP);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &between);
    el_wset(el, EL_PREP_TERM, 1);
    fputs(paste_on, line->out);
    draw_resize(line, tty_size());
    return CC_NORM;
}

/* Bind the keys of this file, and the cursor keys of xterm and the Linux console. */
static void bind_keys(EditLine *el)
{
    static const wchar_t *const key[][2] = {
        {L"^Z", L"quoth-suspend"},           {L"^R", L"em-inc-search-prev"},
        {L"\\e[1~", L"ed-move-to-beg"},      {L"\\e[4~", L"ed-move-to-end"},
        {L"\\e[H", L"ed-move-to-beg"},       {L"\\e[F", L"ed-move-to-end"},
        {L"\\e[1;5C", L"em-next-word"},      {L"\\e[1;5D", L"ed-prev-word"},
        {L"\\e[3~", L"ed-delete-next-char"}, {L"^L", L"quoth-clear"},
        {L"\\e[>", L"quoth-identity"},
    };
    el_wset(el, EL_EDITOR, L"emacs");
    el_wset(el, EL_ADDFN, L"quoth-suspend", L"stop the program for now", on_suspend_key);
    el_wset(el, EL_ADDFN, L"quoth-clear", L"clear the screen", on_clear_key);
    el_wset(el, EL_ADDFN, L"quoth-identity", L"the terminal's identity", on_identity);
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        el_wset(el, EL_BIND, key[i][0], key[i][1], NULL);
}

/* ---- begin and end ---- */

bool tty_begin(void)
{
    if (tcgetattr(STDIN_FILENO, &found) != 0) return false;
    typist = pthread_self();
    catch_signals();
    return true;
}

void tty_attach(EditLine *el, struct draw *on_screen)
{
    line = on_screen;
    bind_keys(el);
    el_wset(el, EL_GETCFN, read_key);
    /* -d: modes of editing; -x: modes of everything else (see the table in the file's head) */
    el_wset(el, EL_SETTY, L"-d", L"intr=", L"susp=", NULL);
    el_wset(el, EL_SETTY, L"-x", L"-icanon", L"-echo", NULL);
    fputs(paste_on, line->out);
    fflush(line->out);
}

void tty_end(void)
{
    if (!line) return;
    fputs(paste_off, line->out);
    fflush(line->out);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &found);
}
