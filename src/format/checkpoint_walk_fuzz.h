/* checkpoint_walk_fuzz.h - open a fuzzer's input and read all data that the reader returns. The
 * test's thread only. */
#ifndef QUOTH_CHECKPOINT_WALK_FUZZ_H
#define QUOTH_CHECKPOINT_WALK_FUZZ_H

#include "format.h"
#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

/* Sum of all read bytes. The sum is volatile, so that the compiler keeps the reads. */
static volatile uint64_t walk_sum;

static void walk_bytes(const char *p, size_t n)
{
    if (p && n) walk_sum += (uint64_t)p[0] + (uint64_t)p[n - 1];
}

static void walk_meta(const struct meta *m)
{
    size_t n;
    const char *text = meta_text(m, &n);
    if (text) assert(text[n] == 0);
    walk_bytes(text, n);
    walk_sum += (uint64_t)meta_int(m, 0) + (meta_real(m, 0) > 0) + meta_bool(m, false);
    for (size_t i = 0; i < meta_count(m); i++) {
        text = meta_item_text(m, i, &n);
        walk_bytes(text, n);
        walk_sum += (uint64_t)meta_item_int(m, i, 0) + (meta_item_real(m, i, 0) > 0);
    }
}

static void walk_tensor(const struct checkpoint *c, const struct tensor_info *t)
{
    int64_t n = 1;
    for (int i = 0; i < 4; i++) n *= t->dim[i];
    assert(t->n_byte == qtype_bytes(t->type, n));
    assert(checkpoint_tensor(c, t->name) == t && t->name_raw[0]);
    walk_bytes((const char *)t->data, t->n_byte);
}

static void checkpoint_walk(const char *path)
{
    struct checkpoint *c = (void *)path; /* borrowed; not NULL */
    struct err e = {0};
    if (checkpoint_open(&c, path, &e) != 0) {
        assert(e.text[0] && !c);
        return;
    }
    fuzz_accepted();
    for (int i = 0; i < checkpoint_n_tensor(c); i++) walk_tensor(c, checkpoint_tensor_at(c, i));
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        const char *key;
        walk_meta(checkpoint_meta_at(c, i, &key));
        walk_bytes(key, strlen(key));
    }
    checkpoint_close(c);
}

#endif
