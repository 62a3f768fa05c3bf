/* bus.h - end the program with an error message, instead of a silent SIGBUS, if another program
 * truncates a mapped file. The program cannot continue, because the bytes past the end of the file
 * cannot be read. */
#ifndef QUOTH_BASE_BUS_H
#define QUOTH_BASE_BUS_H

#include <stddef.h>

/* Catch SIGBUS. A SIGBUS in a registered map ends the program with status 1 and a message on
 * standard error. A SIGBUS outside of registered maps has the default effect. For programs, not for
 * libraries. Main thread. */
void bus_catch(void);

/* Register a map of n_byte bytes, with the path of its file for the message. The path is copied.
 * Do nothing if the table is full. Any thread. */
void bus_register(const void *data, size_t n_byte, const char *path);
/* Remove a registered map. Call it before the file is unmapped. The call has no effect for other
 * addresses. Any thread. */
void bus_unregister(const void *data);

#endif
