/* states.c - the bytes of recurrent states: one slot per state, with the states of all layers.
 *
 *   slot 0                          slot 1
 *   | layer 0 | layer 2 | layer 3 | layer 0 | layer 2 | ...
 *
 * A copy of a state is therefore one copy of memory. The engine chooses the slots (engine/state.c).
 * Memory is reserved at open and touched at the first use. */
#include "cache.h"

#include "base/check.h"
#include "base/os.h"

int state_store_open(struct state_store *s, const struct state_store_options *o, struct err *e)
{
    const size_t n_byte = (size_t)o->n_slot * (size_t)o->slot_floats * sizeof(float),
                 n_host = (size_t)o->n_host * (size_t)o->slot_floats * sizeof(float);
    *s = (struct state_store){.backend = o->backend,
                              .slot_floats = o->slot_floats,
                              .n_slot = o->n_slot,
                              .n_host = o->n_host};
    if (n_byte == 0) return 0;
    s->at = o->backend->op->alloc(o->backend, n_byte);
    if (!s->at) return err_memory(e, "the recurrent states", n_byte);
    s->host = n_host ? os_alloc(n_host) : NULL;
    return s->host || n_host == 0
               ? 0
               : err_memory(e, "the swap space of states (--swap-space)", n_host);
}

static size_t slot_bytes(const struct state_store *s, int32_t slot, int32_t host)
{
    CHECK(slot >= 0 && slot < s->n_slot && host >= 0 && host < s->n_host, "slots %d, %d of %d, %d",
          slot, host, s->n_slot, s->n_host);
    return (size_t)s->slot_floats * sizeof(float);
}

void state_store_out(struct state_store *s, int32_t slot, int32_t host)
{
    const size_t n = slot_bytes(s, slot, host);
    s->backend->op->read(s->backend, s->host + host * s->slot_floats, s->at + slot * s->slot_floats,
                         n);
}

void state_store_in(struct state_store *s, int32_t host, int32_t slot)
{
    const size_t n = slot_bytes(s, slot, host);
    s->backend->op->write(s->backend, s->at + slot * s->slot_floats,
                          s->host + host * s->slot_floats, n);
}

void state_store_close(struct state_store *s)
{
    const size_t slot = (size_t)s->slot_floats * sizeof(float);
    if (s->host) os_free(s->host, (size_t)s->n_host * slot);
    if (s->at) s->backend->op->release(s->backend, s->at, (size_t)s->n_slot * slot);
    *s = (struct state_store){0};
}
