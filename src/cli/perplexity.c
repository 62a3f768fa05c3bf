/* perplexity.c - quoth perplexity: a measure of a model's prediction of a text.
 *
 * The text is split into windows of the context's length. BOS precedes each window if the tokenizer
 * adds BOS. The tokens in a window's second half are scored. The context of a token is all
 * preceding tokens of its window. llama.cpp's tool also uses this protocol, so its figures can be
 * compared. */
#include "cli.h"

#include "base/json.h"
#include "base/os.h"
#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *logits_path;
static bool as_json;
static int64_t chunk, window_max;

static const struct option options[] = {
    TEXT_OPTION("logits", "FILE", &logits_path,
                "write the scored positions' logits as f32 [n, n_vocab]"),
    INT_OPTION(
        "chunk", "N", &chunk, 0, 1 << 16,
        "rows computed at once, without effect on the result (default 0: the maximum of a step)"),
    INT_OPTION("windows", "N", &window_max, 0, 1 << 30,
               "score only the first N windows (default 0: all)"),
    FLAG_OPTION("json", &as_json, "one JSON object"),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

/* The window that is scored, and the sums over all windows. first: index of the first scored
 * position. */
struct window_tally {
    const int32_t *ids; /* borrowed; ids of the window */
    int n, first, n_vocab;
    double sum, sum2; /* sums of -log p and of its square */
    long n_scored;
    long n_wrong;    /* positions whose token has no finite -log p */
    int first_wrong; /* first such position in its window */
    FILE *logits;    /* owned; NULL if --logits is absent */
    bool write_failed;
};

/* Return -log softmax(logits)[id], in f64. */
static double nll(const float *logits, int n_vocab, int32_t id)
{
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < n_vocab; i++) top = logits[i] > top ? logits[i] : top;
    for (int i = 0; i < n_vocab; i++) sum += exp(logits[i] - top);
    return log(sum) + top - logits[id];
}

/* Receive the logits at position pos, which predict the token at pos + 1 (callback of
 * score_tokens). The last position has no next token. */
static void score(void *ctx, int pos, const float *logits)
{
    struct window_tally *t = ctx;
    if (pos < t->first || pos + 1 >= t->n) return;
    double x = nll(logits, t->n_vocab, t->ids[pos + 1]);
    if (!isfinite(x) && t->n_wrong++ == 0) t->first_wrong = pos;
    t->sum += x;
    t->sum2 += x * x;
    t->n_scored++;
    if (t->logits &&
        fwrite(logits, sizeof *logits, (size_t)t->n_vocab, t->logits) != (size_t)t->n_vocab)
        t->write_failed = true;
}

/* Print the current perplexity, and the time left by the mean time of a window. */
static void progress(long done, long n, int64_t start, const struct window_tally *t)
{
    if (!isatty(STDERR_FILENO)) return;
    double left = (double)(time_us() - start) * 1e-6 / (double)done * (double)(n - done);
    fprintf(stderr, "\r%ld/%ld windows, perplexity %.4f, %.0f s left   %s", done, n,
            exp(t->sum / (double)t->n_scored), left, done == n ? "\n" : "");
}

/* Score the windows, which do not overlap. BOS replaces the first token of each window, as in
 * llama.cpp. */
static int score_windows(struct session *s, const struct ids *ids, int window,
                         struct window_tally *t, struct err *e)
{
    int32_t *part = malloc((size_t)window * sizeof *part);
    if (!part) return err_memory(e, "a window", (unsigned long long)window * 4);
    int bos = tokenizer_adds_bos(s->tokenizer) ? tokenizer_bos(s->tokenizer) : -1, rc = 0;
    long n = (long)ids->n / window;
    if (window_max && n > window_max) n = window_max;
    int64_t start = time_us();
    const struct score_options so = {.chunk = (int)chunk, .fn = score, .ctx = t};
    for (long w = 0; w < n && rc == 0; w++) {
        memcpy(part, ids->v + w * window, (size_t)window * sizeof *part);
        if (bos >= 0) part[0] = bos;
        t->ids = part;
        rc = score_tokens(s->model, part, window, &so, e);
        progress(w + 1, n, start, t);
    }
    free(part);
    return rc;
}

/* Print the perplexity. Its standard error is that of the mean times the perplexity (first-order
 * propagation). */
static void print(const struct window_tally *t, int window)
{
    double mean = t->sum / (double)t->n_scored, var = t->sum2 / (double)t->n_scored - mean * mean;
    double error = t->n_scored > 1 ? sqrt((var > 0 ? var : 0) / (double)(t->n_scored - 1)) : 0;
    if (as_json)
        printf("{\"perplexity\":%.6f,\"standard_error\":%.6f,\"nll\":%.8f,\"tokens\":%ld,"
               "\"window\":%d}\n",
               exp(mean), error * exp(mean), mean, t->n_scored, window);
    else
        printf("perplexity %.4f +/- %.4f over %ld tokens, windows of %d\n", exp(mean),
               error * exp(mean), t->n_scored, window);
}

/* Tokenize the whole text in one call. Tokens after the last full window are not scored. */
static int measure(struct session *s, const char *path, struct err *e)
{
    struct buf text = {0};
    struct ids ids = {0};
    int window = model_info(s->model)->context_max;
    struct window_tally t = {
        .n = window, .first = window / 2, .n_vocab = model_info(s->model)->n_vocab};
    int rc = file_read(&text, path, 1u << 30, e);
    if (rc == 0 && text.n == 0) rc = err_set(e, ERR_ARG, "%s: must not be empty", path);
    if (rc == 0)
        rc = tokenizer_encode(s->tokenizer, text.data, text.n, ENCODE_ADD_SPECIAL, &ids, e);
    if (rc == 0 && ids.n < (size_t)window)
        rc = err_set(e, ERR_ARG,
                     "%s: must have a window of %d tokens, got %zu; give a smaller --max-model-len",
                     path, window, ids.n);
    if (rc == 0 && logits_path && !(t.logits = fopen(logits_path, "wbe")))
        rc = err_set(e, ERR_IO, "%s: cannot create", logits_path);
    if (rc == 0) rc = score_windows(s, &ids, window, &t, e);
    if (t.logits && (fclose(t.logits) != 0 || t.write_failed) && rc == 0)
        rc = err_set(e, ERR_IO, "%s: cannot write", logits_path);
    if (rc == 0 && t.n_wrong > 0)
        rc = err_set(e, ERR_FORMAT,
                     "the logits give no finite probability at %ld of %ld positions, first at "
                     "position %d of a window: the weights may be damaged",
                     t.n_wrong, t.n_scored, t.first_wrong);
    if (rc == 0) print(&t, window);
    buf_deinit(&text);
    vec_deinit(&ids);
    return rc;
}

static int run(int n_arg, char **arg)
{
    if (n_arg != 2)
        return fprintf(stderr, "quoth perplexity: usage: quoth perplexity MODEL FILE\n"), 2;
    struct err e = {0};
    struct session s;
    int rc = session_open(&s, arg[0], 1, 64, 512, &e);
    if (rc == 0) rc = measure(&s, arg[1], &e);
    session_close(&s);
    return rc ? fail("perplexity", &e) : 0;
}

const struct command command_perplexity = {
    .name = "perplexity",
    .summary = "perplexity of a text: mean and standard error",
    .usage = "MODEL FILE [OPTIONS]",
    .detail = "Score the text in windows of --max-model-len tokens (512, or the model's context if "
              "that is shorter), the second half of each.",
    .options = options,
    .arg_max = 2,
    .run = run,
};
