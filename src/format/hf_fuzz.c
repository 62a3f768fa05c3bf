/* hf_fuzz.c - open a Hugging Face directory with one mutated JSON file, or with mutated values of
 * the caller. The hash of the input selects one, so one corpus is sufficient for all. */
#include "checkpoint_walk_fuzz.h"
#include "base/hash.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const part[] = {"config.json",           "generation_config.json",
                                   "tokenizer_config.json", "chat_template.json",
                                   "quanto_qmap.json",      "model.safetensors.index.json"};
enum { N_PART = sizeof part / sizeof part[0] };
enum { PART_INDEX = N_PART - 1 };
static char dir[64];

static void remove_dir(void)
{
    char path[128];
    for (int i = 0; i < N_PART; i++)
        if (path_join(path, sizeof path, dir, part[i])) unlink(path);
    if (path_join(path, sizeof path, dir, "model.safetensors")) unlink(path);
    rmdir(dir);
}

static void put(const char *name, const void *data, size_t n)
{
    char path[128];
    struct err e;
    if (!path_join(path, sizeof path, dir, name) || file_write(path, data, n, &e) != 0) abort();
}

static void put_weights(void)
{
    static const char weights[] =
        "\x36\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}} A";
    put("model.safetensors", weights, sizeof weights - 1);
}

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/dev/shm/quoth-fuzz-hf-%d", (int)getpid());
    if (mkdir(dir, 0700) != 0) abort();
    atexit(remove_dir);
    put_weights();
}

/* Open the directory with the input as values that replace those of config.json. */
static void open_changed(const uint8_t *data, size_t n)
{
    struct checkpoint *c;
    struct err e = {0};
    char *text = malloc(n + 1);
    if (!text) abort();
    memcpy(text, data, n);
    text[n] = 0;
    const struct checkpoint_changes changes[] = {
        {.config = text}, {.rope = text}, {.rope = text, .rope_adds = true, .rope_theta = 500}};
    for (int i = 0; i < 3; i++) {
        if (checkpoint_open_with(&c, dir, &changes[i], &e) != 0 && !e.text[0]) abort();
        checkpoint_close(c);
    }
    free(text);
}

FUZZ(hf_config)
{
    static const char config[] =
        "{\"model_type\":\"llama\",\"text_config\":{\"rope_scaling\":{\"type\":\"linear\"}}}";
    if (!dir[0]) make_dir();
    uint64_t which = hash_bytes(data, n, 0) % (N_PART + 1);
    char path[128];
    put(part[0], config, sizeof config - 1);
    if (which == N_PART) {
        open_changed(data, n);
        return;
    }
    put(part[which], data, n);
    if (which == PART_INDEX && path_join(path, sizeof path, dir, "model.safetensors")) unlink(path);
    checkpoint_walk(dir);
    if (which == PART_INDEX) put_weights();
    if (path_join(path, sizeof path, dir, part[which])) unlink(path);
}
