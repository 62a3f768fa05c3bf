/* packed_fuzz.c - goal: a cache file with a mutated head is never used. The weights are
 * bit-identical to newly packed weights. */
#include "../../../tests/fuzz/fuzz.h"

#include "cpu_impl.h"

#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_OUT = 64, K = 256 };

static struct {
    struct backend *b;
    struct filecache cache;
    struct tensor tensor, *list[1];
    uint8_t *rows;
    char dir[64], path[256];
    struct buf good; /* content of the file */
    uint8_t *panels; /* [n_panel] owned */
    size_t n_panel;
} world;

/* Load the weights. Return the way of loading. */
static enum weights_how load(uint8_t *panels)
{
    struct weights *w;
    struct weights_info info;
    struct err e;
    struct weights_options o = {.key = {1, 2}, .cache = &world.cache};
    world.tensor =
        (struct tensor){.type = QT_q8_0, .n_out = N_OUT, .k = K, .data = world.rows, .name = "w"};
    int rc = world.b->op->weights(world.b, &w, world.list, 1, &o, &info, &e);
    assert(rc == 0 && (size_t)info.n_byte == world.n_panel);
    memcpy(panels, cpu_panels(&world.tensor).data, world.n_panel);
    world.b->op->weights_close(world.b, w);
    return info.how;
}

static void remove_world(void)
{
    remove(world.path);
    rmdir(world.dir);
}

/* Make a file of the weights, and read its content. */
static void make_world(void)
{
    struct err e;
    struct buf names = {0};
    log_silent = true; /* a rejected file is logged */
    snprintf(world.dir, sizeof world.dir, "/dev/shm/quoth-fuzz-%d-packed", (int)getpid());
    world.cache.dir = world.dir;
    world.list[0] = &world.tensor;
    world.rows = malloc(qtype_bytes(QT_q8_0, N_OUT * K));
    world.n_panel = (size_t)(panel_count(N_OUT) * panel_bytes(QT_q8_0, K));
    world.panels = malloc(world.n_panel);
    assert(world.rows && world.panels);
    for (size_t i = 0; i < qtype_bytes(QT_q8_0, N_OUT * K); i++) world.rows[i] = (uint8_t)(i * 7);
    int rc = backend_open(&world.b, "cpu", &(struct backend_options){.n_thread = 1}, &e);
    enum weights_how how = rc == 0 ? load(world.panels) : WEIGHTS_PACKED;
    if (rc == 0) rc = dir_list(&names, world.dir, &e);
    assert(rc == 0 && how == WEIGHTS_KEPT && names.n > 1);
    snprintf(world.path, sizeof world.path, "%s/%.*s", world.dir, (int)names.n - 1, names.data);
    rc = file_read(&world.good, world.path, 1 << 24, &e);
    assert(rc == 0);
    buf_deinit(&names);
    atexit(remove_world);
}

/* The input is a mask for the beginning of the file: each 1 of the input flips a bit of the
 * file. */
FUZZ(packed_head)
{
    struct err e;
    uint64_t head[8]; /* head of packed.c; the last word is the check value */
    bool changed = false;
    if (!world.b) make_world();
    memcpy(head, world.good.data, sizeof head);
    const size_t n_check = sizeof head + head[4] * sizeof(uint64_t), n_free = head[5];
    char *bytes = malloc(world.good.n);
    uint8_t *panels = malloc(world.n_panel);
    assert(bytes && panels);
    memcpy(bytes, world.good.data, world.good.n);
    for (size_t i = 0; i < n && i < n_free; i++) {
        bytes[i] ^= (char)data[i];
        changed |= data[i] && i < n_check;
    }
    int rc = file_write(world.path, bytes, world.good.n, &e);
    enum weights_how how = load(panels);
    assert(rc == 0 && how == (changed ? WEIGHTS_KEPT : WEIGHTS_MAPPED));
    assert(memcmp(panels, world.panels, world.n_panel) == 0);
    if (!changed) fuzz_accepted();
    free(bytes);
    free(panels);
}
