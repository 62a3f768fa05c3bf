/* bus.c - see bus.h. The signal handler may only read atomics and write to a descriptor. A thread
 * acquires an entry by a change of `state`. The thread writes the entry's fields before it sets
 * `state` to READY.
 *
 *   FREE --bus_register--> TAKEN (fields are written) --> READY --bus_unregister--> FREE
 *
 * The signal handler reads only entries that are READY. A file is not registered if all entries are
 * taken. A fault in an unregistered file has the default effect. */
#include "bus.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAPS_MAX = 256, PATH_MAX_SHOWN = 512 };
enum { FREE, TAKEN, READY };

static struct {
    atomic_int state;
    uintptr_t begin, end;
    char path[PATH_MAX_SHOWN];
} map[MAPS_MAX];

void bus_register(const void *data, size_t n_byte, const char *path)
{
    for (int i = 0; data && i < MAPS_MAX; i++) {
        int was = FREE;
        if (!atomic_compare_exchange_strong(&map[i].state, &was, TAKEN)) continue;
        map[i].begin = (uintptr_t)data;
        map[i].end = map[i].begin + n_byte;
        snprintf(map[i].path, sizeof map[i].path, "%s", path);
        atomic_store(&map[i].state, READY);
        return;
    }
}

void bus_unregister(const void *data)
{
    for (int i = 0; data && i < MAPS_MAX; i++)
        if (atomic_load(&map[i].state) == READY && map[i].begin == (uintptr_t)data) {
            atomic_store(&map[i].state, FREE);
            return;
        }
}

static void write_text(const char *text)
{
    ssize_t put = write(STDERR_FILENO, text, strlen(text));
    (void)put; /* a failed write cannot be reported */
}

/* Report the file of the faulting address and exit. Only functions that are safe in a signal
 * handler are called. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (int i = 0; i < MAPS_MAX; i++) {
        if (atomic_load(&map[i].state) != READY || at < map[i].begin || at >= map[i].end) continue;
        write_text("quoth: error: ");
        write_text(map[i].path);
        write_text(
            ": cannot read: the file was truncated, or its disk failed, while it was in use\n");
        _exit(1); /* check: the access cannot be completed */
    }
    signal(sig, SIG_DFL); /* the access faults again, now with the default effect */
}

void bus_catch(void)
{
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
}
