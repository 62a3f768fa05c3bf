/* progress.c - a progress line, rewritten in place; see option.h.
 *
 * Only notes are written if standard error is not a terminal. The line is drawn at most ten times
 * per second, because a loop may report each of millions of items. */
#include "option.h"

#include "base/os.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* BAR, SHORT_BAR: widths in characters. EVERY_US: minimum time between two drawings. */
enum { BAR = 40, SHORT_BAR = 20, EVERY_US = 100000 };

/* Return true if the next drawing is due. */
static bool is_due(uint64_t done, uint64_t n)
{
    static int64_t shown_us;
    int64_t now = time_us();
    if (!isatty(STDERR_FILENO) || (done < n && now - shown_us < EVERY_US)) return false;
    shown_us = now;
    return true;
}

/* Draw the name, the bar and the percentage. \r returns to the beginning of the line, so the next
 * drawing replaces this one. */
static void draw(const char *what, int width, double part)
{
    static const char full[] = "########################################";
    fprintf(stderr, "\r%.40s [%-*.*s] %3.0f %%", what, width, (int)(part * width), full,
            100 * part);
}

void progress_bar(const char *what, uint64_t done, uint64_t n)
{
    if (!is_due(done, n)) return;
    draw(what, BAR, n ? (double)done / (double)n : 1);
    if (done == n) fputc('\n', stderr);
}

void progress_rate(const char *what, uint64_t done, uint64_t n, double per_s)
{
    if (!is_due(done, n)) return;
    draw(what, BAR, n ? (double)done / (double)n : 0);
    long left = per_s > 0 && n > done ? (long)((double)(n - done) / per_s + 0.5) : 0;
    fprintf(stderr, " %.*f/s, %ld:%02ld:%02ld left\033[K", per_s < 10, per_s, left / 3600,
            left / 60 % 60, left % 60);
    if (done == n) fputc('\n', stderr);
}

/* The bar is short, so that the text fits into the line. */
void progress_text(const char *what, uint64_t done, uint64_t n, const char *text)
{
    if (!is_due(done, n)) return;
    draw(what, SHORT_BAR, n ? (double)done / (double)n : 0);
    fprintf(stderr, " %s\033[K", text);
    if (done == n) fputc('\n', stderr);
}

void progress_note(const char *what)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%.76s", what ? what : "");
    else if (what)
        fprintf(stderr, "%s\n", what);
}
