/* process.c - see process.h. process_usage reads Linux's /proc on each call. Fields that cannot be
 * read stay -1. */
#include "process.h"

#include "os.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void read_memory(struct process_usage *u)
{
    long long n_virtual, n_resident;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return;
    if (fscanf(f, "%lld %lld", &n_virtual, &n_resident) == 2) { /* check: the kernel's */
        u->virtual_bytes = n_virtual * sysconf(_SC_PAGESIZE);
        u->resident_bytes = n_resident * sysconf(_SC_PAGESIZE);
    }
    fclose(f);
}

/* Return the start of the system in seconds since 1970; -1 if unknown. */
static long long boot_s(void)
{
    char line[256];
    long long s = -1;
    FILE *f = fopen("/proc/stat", "re");
    while (f && s < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "btime %lld", &s) != 1) s = -1; /* check: the kernel's */
    if (f) fclose(f);
    return s;
}

/* Read field 22 of /proc/self/stat, in ticks since boot. The program's name, an earlier field, may
 * contain any character. */
static void read_start(struct process_usage *u)
{
    char line[1024] = "";
    unsigned long long ticks;
    long long boot = boot_s();
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f) return;
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[n] = 0;
    const char *end = strrchr(line, ')');
    if (!end || boot < 0) return;
    if (sscanf(end + 1, /* check: a line of the kernel */
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) == 1)
        u->start_s = boot + (int64_t)(ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
}

static void read_descriptors(struct process_usage *u)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0)
        u->fd_max = r.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)r.rlim_cur;
    DIR *d = opendir("/proc/self/fd");
    if (!d) return;
    u->n_fd = -3; /* do not count ".", ".." and the open folder */
    while (readdir(d)) u->n_fd++;
    closedir(d);
}

void process_usage(struct process_usage *u)
{
    *u = (struct process_usage){-1, -1, -1, os_cpu_us(), -1, -1};
    read_memory(u);
    read_start(u);
    read_descriptors(u);
}
