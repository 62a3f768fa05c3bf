/* tokenize.c - quoth bench tokenize: a tokenizer's speed in megabytes per second, on usual and on
 * degenerate text.
 *
 * Degenerate texts reveal algorithms of quadratic time: a word of 1 MB has one million possible
 * merges. The reported rate is that of the fastest round, because other work of the machine can
 * only add time. */
#include "option/option.h"

#include "base/os.h"
#include "token/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_path, *hint;
static int64_t n_round = 5;
static bool as_json;

static const struct option options[] = {
    TEXT_OPTION("text", "FILE", &text_path,
                "file with ordinary text (default: a built-in English paragraph, repeated)"),
    FORM_OPTION("family", "NAME", &hint, tokenizer_family_form,
                "pre-tokenizer of a .tiktoken file"),
    INT_OPTION("rounds", "N", &n_round, 1, 1000,
               "number of rounds, of which the best is printed (default 5)"),
    FLAG_OPTION("json", &as_json, "one JSON object per line"),
    OPTIONS_END,
};

enum { MEGABYTE = 1000000 };

/* Append copies of `unit` until b has at least n_byte bytes. Whole copies keep UTF-8 valid. */
static void repeat(struct buf *b, const char *unit, size_t n_byte)
{
    while (b->n < n_byte && !b->failed) buf_add_text(b, unit);
}

/* Encode the text n_round times and print the best round. A round of 0 microseconds counts as 1, so
 * that the rate is finite. Bytes per microsecond are MB/s. */
static int measure(const struct tokenizer *t, const char *name, const struct buf *text,
                   struct err *e)
{
    struct ids ids = {0};
    int64_t best = INT64_MAX;
    int rc = 0;
    for (int i = 0; i < n_round && rc == 0; i++) {
        ids.n = 0;
        int64_t start = time_us();
        rc = tokenizer_encode(t, text->data, text->n, 0, &ids, e);
        int64_t took = time_us() - start;
        if (took < best) best = took > 0 ? took : 1;
    }
    double rate = (double)text->n / (double)best;
    if (rc == 0 && as_json)
        printf("{\"test\":\"tokenize\",\"text\":\"%s\",\"bytes\":%zu,\"tokens\":%zu,\"seconds\":%."
               "6f,\"mb_per_s\":%.3f}\n",
               name, text->n, ids.n, (double)best * 1e-6, rate);
    else if (rc == 0)
        printf("%-20s %10zu bytes %9zu tokens %9.3f s %8.2f MB/s\n", name, text->n, ids.n,
               (double)best * 1e-6, rate);
    vec_deinit(&ids);
    return rc;
}

/* English text. Its quotes, contractions, number with a comma and blank lines match different
 * branches of the usual pre-tokenizer patterns. */
static const char paragraph[] =
    "The keeper of the light had counted ships for thirty-one years, and in all that time she had "
    "never once been wrong. "
    "\"It's easy,\" she'd say, \"you only have to look.\" On the morning of 4 March, though, there "
    "were 1,204 gulls on the "
    "railing and no ship at all; the log-book's next line stayed empty until well past noon.\n\n";

/* Measure ordinary text, then degenerate texts of one megabyte. */
static int measure_texts(const struct tokenizer *t, struct err *e)
{
    struct {
        const char *name, *unit; /* static */
        size_t n_byte;
    } made[] = {{"one letter", "a", MEGABYTE},
                {"spaces", " ", MEGABYTE},
                {"emoji", "\xF0\x9F\x98\x80", MEGABYTE}};
    struct buf text = {0};
    int rc = 0;
    if (text_path)
        rc = file_read(&text, text_path, 1u << 30, e);
    else
        repeat(&text, paragraph, 4 * MEGABYTE);
    if (rc == 0) rc = measure(t, text_path ? "file" : "English", &text, e);
    for (size_t i = 0; i < sizeof made / sizeof made[0] && rc == 0; i++) {
        buf_clear(&text);
        repeat(&text, made[i].unit, made[i].n_byte);
        rc = measure(t, made[i].name, &text, e);
    }
    buf_deinit(&text);
    return rc;
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct tokenizer *t = NULL;
    const char *model = n_arg == 1 ? arg[0] : session_bundled(NULL, &e);
    int rc = model ? tokenizer_open_file(&t, model, hint, &e) : ERR_MISSING;
    if (rc == 0) rc = measure_texts(t, &e);
    tokenizer_close(t);
    return rc ? fail("bench tokenize", &e) : 0;
}

const struct command command_bench_tokenize = {
    .name = "bench tokenize",
    .summary = "speed of a tokenizer, in megabytes per second",
    .usage = "[MODEL] [OPTIONS]",
    .options = options,
    .arg_max = 1,
    .run = run,
};
