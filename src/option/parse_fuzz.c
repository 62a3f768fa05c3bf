/* parse_fuzz.c - goal: a mutated config file fails with its path, or sets legal values. The file
 * that options_print writes sets equal values. */
#include "option.h"
#include "../../tests/fuzz/fuzz.h"

#include "base/log.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

NAMES(colour_names, "red", "light-green")

struct values {
    int64_t whole;
    double real;
    bool flag;
    const char *text, *colour;
    struct text_list list, words;
};
static struct values v;
static const struct option table[] = {
    INT_OPTION("max-model-len", "N", &v.whole, 1, 1000, "integer"),
    REAL_OPTION("temperature", "T", &v.real, 0, 2, "real number"),
    FLAG_OPTION("enable-prefix-caching", &v.flag, "flag"),
    TEXT_OPTION("host", "ADDRESS", &v.text, "any text"),
    NAME_OPTION("colour", "NAME", &v.colour, colour_names, "name"),
    LIST_OPTION("api-key", "KEY", &v.list, "list"),
    WORDS_OPTION("stop", "TEXT", &v.words, "words"),
    OPTIONS_END,
};
static const struct command command = {.name = "fuzz", .usage = "", .options = table};

static int parse(const uint8_t *data, size_t n)
{
    char path[128], *arg[] = {"--config", path};
    int n_arg = 2;
    struct err e = {0};
    snprintf(path, sizeof path, "%s", fuzz_file(data, n, ".conf"));
    v = (struct values){.whole = 1};
    int rc = options_parse(&command, &n_arg, arg, &e);
    assert(rc == 0 ? n_arg == 0 : rc < 0 && strncmp(e.text, path, strlen(path)) == 0);
    options_notes(); /* free the notes that aliases have recorded */
    return rc;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_list(const struct text_list *a, const struct text_list *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) same = same_text(a->v[i], b->v[i]);
    return same;
}

FUZZ(option_file)
{
    char *text = NULL;
    size_t n_text;
    log_silent = true;
    if (n > 4096) return; /* texts of config files are never freed */
    int rc = parse(data, n);
    const struct values first = v;
    assert(v.whole >= 1 && v.whole <= 1000 && v.real >= 0 && v.real <= 2);
    assert(!v.colour || strcmp(v.colour, "red") == 0 || strcmp(v.colour, "light-green") == 0);
    FILE *f = rc == 0 ? open_memstream(&text, &n_text) : NULL;
    if (f) {
        fuzz_accepted();
        options_print(table, f);
        fclose(f);
        rc = parse((const uint8_t *)text, n_text);
        assert(rc == 0 && v.whole == first.whole && fabs(v.real - first.real) < 1e-14);
        assert(v.flag == first.flag && same_text(v.text, first.text) && v.colour == first.colour);
        assert(same_list(&v.list, &first.list) && same_list(&v.words, &first.words));
        free(v.list.v);
        free(v.words.v);
    }
    free(first.list.v);
    free(first.words.v);
    free(text);
}
