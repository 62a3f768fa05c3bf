/* recorded.c - compare results of tests with recorded hashes (recorded.h). */
#include "recorded.h"

#include "unit.h"

#include <inttypes.h>
#include <stdlib.h>

static bool recording(void)
{
    const char *on = getenv("QUOTH_RECORD");
    return on && strcmp(on, "1") == 0;
}

uint64_t recorded_hash(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ byte[i]) * 0x100000001B3u;
    return hash;
}

static void read_lines(struct recorded *r, FILE *f)
{
    char text[160];
    while (r->n < RECORDED_MAX && fgets(text, sizeof text, f)) {
        struct recorded_line *l = &r->line[r->n];
        char *space = strrchr(text, ' ');
        if (!space || (size_t)(space - text) >= sizeof l->key) {
            test_fail(__FILE__, __LINE__, "%s: \"%s\" is not KEY HASH", r->path, text);
            continue;
        }
        *space = 0;
        memcpy(l->key, text, (size_t)(space - text) + 1);
        l->hash = strtoull(space + 1, NULL, 16);
        r->n++;
    }
}

void recorded_open(struct recorded *r, const char *file)
{
    const char *root = repo_path("tests/recorded");
    *r = (struct recorded){0};
    snprintf(r->path, sizeof r->path, "%s/%s", root ? root : "tests/recorded", file);
    if (recording() && !test_long())
        test_fail(__FILE__, __LINE__, "QUOTH_RECORD needs QUOTH_LONG: a sample is no record");
    if (recording()) return;
    FILE *f = fopen(r->path, "r");
    if (!f) {
        test_fail(__FILE__, __LINE__, "%s: cannot open; QUOTH_RECORD=1 makes it", r->path);
        return;
    }
    read_lines(r, f);
    fclose(f);
}

static struct recorded_line *find(struct recorded *r, const char *key)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->line[i].key, key) == 0) return &r->line[i];
    return NULL;
}

void recorded_compare(struct recorded *r, const char *key, uint64_t hash, const char *how)
{
    struct recorded_line *l = find(r, key);
    if (!l && recording() && r->n < RECORDED_MAX) {
        l = &r->line[r->n++];
        snprintf(l->key, sizeof l->key, "%s", key);
        l->hash = hash;
    }
    if (!l) {
        test_fail(__FILE__, __LINE__, "%s has no line \"%s\"", r->path, key);
        return;
    }
    l->n_given++;
    if (l->hash != hash)
        test_fail(__FILE__, __LINE__, "%s (%s): %016" PRIx64 " expected, %016" PRIx64 " found", key,
                  how, l->hash, hash);
}

static void write_lines(const struct recorded *r)
{
    FILE *f = fopen(r->path, "w");
    for (int i = 0; f && i < r->n; i++)
        fprintf(f, "%s %016" PRIx64 "\n", r->line[i].key, r->line[i].hash);
    if (!f || fclose(f) != 0) test_fail(__FILE__, __LINE__, "%s: cannot write", r->path);
}

void recorded_close(struct recorded *r, int some_only)
{
    if (recording()) {
        if (test_long()) write_lines(r);
        return;
    }
    int n_given = 0;
    for (int i = 0; i < r->n; i++) n_given += r->line[i].n_given > 0;
    test_sampled(n_given, r->n, "recorded results");
    for (int i = 0; i < r->n && !some_only; i++)
        if (!r->line[i].n_given)
            test_fail(__FILE__, __LINE__, "%s: no result \"%s\"", r->path, r->line[i].key);
}
