/* bus.h - exit with an error message if another program truncates a mapped file, instead of a
 * silent SIGBUS. The bytes past the end of the file cannot be read, so the
 * program cannot continue. */
#ifndef QUOTH_BASE_BUS_H
#define QUOTH_BASE_BUS_H

#include <stddef.h>

/* Catch SIGBUS: in a registered map it ends the program with status 1 and a message on standard
 * error, elsewhere it has the default effect. For programs, not for libraries. Main thread. */
void bus_catch(void);

/* Register a map and the path of its file for that message; bus_unregister removes it, before it is
 * unmapped. If the table is full, bus_register does nothing. Any thread. */
void bus_register(const void *data, size_t n_byte, const char *path);
void bus_unregister(const void *data);

#endif
