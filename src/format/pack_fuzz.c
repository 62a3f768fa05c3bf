/* pack_fuzz.c - goal: a mutated packed program gives a model inside the file, or none. */
#include "checkpoint_walk_fuzz.h"
#include "format_impl.h"
#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TRAILER = 32 };

/* Search a trailer. The model must be the bytes between its offset and the trailer. */
static void find(const uint8_t *data, size_t n)
{
    size_t offset, n_byte;
    if (!pack_find(data, n, &offset, &n_byte)) return;
    fuzz_accepted();
    assert(n >= TRAILER && offset <= n - TRAILER && n_byte == n - TRAILER - offset);
}

/* Search the trailer also with the magic number and the check value that its fields need. */
FUZZ(pack)
{
    uint64_t offset, n_byte;
    uint8_t *own = malloc(n + 1);
    if (!own) return;
    memcpy(own, data, n);
    find(own, n);
    if (n >= TRAILER) {
        uint8_t *t = own + n - TRAILER;
        memcpy(&offset, t + 8, sizeof offset);
        memcpy(&n_byte, t + 16, sizeof n_byte);
        uint64_t check = offset ^ n_byte ^ 0x716B6170u;
        memcpy(t, "quothpak", 8);
        memcpy(t + 24, &check, sizeof check);
        find(own, n);
    }
    free(own);
    checkpoint_walk(fuzz_file(data, n, ".bin"));
}
