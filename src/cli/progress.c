/* progress.c - a line that is written over and over; see progress.h. */
#include "progress.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR = 40, EVERY_US = 100000 };

void progress_bar(const char *what, uint64_t done, uint64_t n)
{
    static const char full[] = "########################################";
    static int64_t shown_us;
    int64_t now = time_us();
    if (!isatty(STDERR_FILENO) || (done < n && now - shown_us < EVERY_US)) return;
    shown_us = now;
    double part = n ? (double)done / (double)n : 1;
    fprintf(stderr, "\r%.40s [%-*.*s] %3.0f %%%s", what, BAR, (int)(part * BAR), full, 100 * part,
            done == n ? "\n" : "");
}

void progress_note(const char *what)
{
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K%.76s", what ? what : "");
}
