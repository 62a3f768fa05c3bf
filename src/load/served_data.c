/* served_data.c - the prompts of quoth bench serve: datasets with vLLM's names and options; see
 * served.h.
 *
 * A prompt with an exact number of tokens requires token ids or a counter. Prompts of
 * /v1/completions are random token ids below the vocabulary's size. --tokenizer or the server
 * (meta.n_vocab of /v1/models) gives the vocabulary's size. Prompts are words (served_words.c) for
 * chats, and if the vocabulary's size is unknown. */
#include "served.h"

#include "base/json.h"
#include "base/os.h"
#include "base/rng.h"
#include "token/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROMPT = 1000 }; /* default of --num-prompts */

static const char *dataset = "random", *tokenizer_path;
static int64_t custom_output, sharegpt_output, repeat_prefix = 256, repeat_suffix = 256,
                                               repeat_n = 10, repeat_output = 128;
static bool self_timed = true, oversample = true, no_shuffle, ignore_eos, length_only;

NAMES(datasets, "random", "prefix_repetition", "custom", "sharegpt", "trace", "timed_trace")

const struct option data_options[] = {
    NAME_OPTION(
        "dataset-name", "NAME", &dataset, datasets,
        "random, prefix_repetition, custom (lines of {\"prompt\": ...}), sharegpt, trace (default "
        "random)"),
    OPTIONS_OF(dataset_options),
    OPTIONS_OF(random_options),
    OPTIONS_OF(length_options),
    INT_OPTION("prefix-repetition-prefix-len", "N", &repeat_prefix, 0, 1 << 24,
               "prefix_repetition: tokens of a shared prefix (default 256)"),
    INT_OPTION("prefix-repetition-suffix-len", "N", &repeat_suffix, 1, 1 << 24,
               "prefix_repetition: tokens after the shared prefix (default 256)"),
    INT_OPTION("prefix-repetition-num-prefixes", "N", &repeat_n, 1, 1 << 24,
               "prefix_repetition: number of different prefixes (default 10)"),
    INT_OPTION("prefix-repetition-output-len", "N", &repeat_output, 1, 1 << 24,
               "prefix_repetition: tokens of an answer (default 128)"),
    INT_OPTION("custom-output-len", "N", &custom_output, 1, 1 << 24,
               "custom: tokens of an answer (default: \"output_tokens\" of its line, else 256)"),
    INT_OPTION("sharegpt-output-len", "N", &sharegpt_output, 1, 1 << 24,
               "sharegpt: tokens of an answer (default: those of the recorded answer)"),
    FLAG_OPTION("oversample", &oversample,
                "custom, sharegpt: repeat a short file (default on; --no-oversample)"),
    FLAG_OPTION("disable-shuffle", &no_shuffle,
                "custom, sharegpt, prefix_repetition: keep the order of prompts"),
    FLAG_OPTION("self-timed", &self_timed,
                "trace: send at its own times (--no-self-timed: by --request-rate)"),
    FLAG_OPTION("ignore-eos", &ignore_eos,
                "request answers of exactly the given length (always on for random and trace)"),
    TEXT_OPTION("tokenizer", "MODEL", &tokenizer_path,
                "model or tokenizer file for counting tokens locally, not at the server"),
    FLAG_OPTION("skip-tokenizer-init", &length_only,
                "do not count tokens; each word counts as one token"),
    OPTIONS_END,
};

const char *prompts_tokenizer(void)
{
    return tokenizer_path;
}

/* Return the requested number of requests. */
static int64_t n_wanted(void)
{
    return dataset_flags.n_prompt ? dataset_flags.n_prompt : N_PROMPT;
}

/* Return the number of tokens of an answer: --output-len, or `fallback` if it is not given. */
static int64_t output_or(int64_t fallback)
{
    return length_flags.output_len ? length_flags.output_len : fallback;
}

/* ---- datasets of lengths ---- */

/* Make the prompts that the traffic describes. The prompts are ids if the vocabulary is known, and
 * words otherwise. */
static int make_prompts(struct prompts *p, struct served_target *t, struct counter *c,
                        struct err *e)
{
    p->ignore_eos = true;
    if (t->context_max) p->n_cut = traffic_fit(&p->t, t->context_max);
    p->n_vocab = t->chat ? 0 : c->own ? tokenizer_n_vocab(c->own) : t->n_vocab;
    return p->n_vocab > 0 ? 0 : prompts_add_words(p, c, e);
}

/* Shuffle jobs together with their texts (Fisher and Yates), by --seed. */
static void shuffle(struct prompts *p)
{
    uint64_t rng = (uint64_t)figure_flags.seed;
    for (size_t i = no_shuffle ? 0 : p->t.n; i > 1; i--) {
        size_t k = rng_below(&rng, i);
        struct traffic_job job = p->t.v[i - 1];
        p->t.v[i - 1] = p->t.v[k];
        p->t.v[k] = job;
        if (!p->text) continue;
        char *text = p->text[i - 1];
        p->text[i - 1] = p->text[k];
        p->text[k] = text;
    }
}

/* Make random prompts. As in vLLM, --input-len and --output-len have priority over the flags of the
 * dataset. */
static int make_random(struct prompts *p, struct served_target *t, struct counter *c, struct err *e)
{
    int in = (int)(length_flags.input_len ? length_flags.input_len : random_flags.input_len),
        out = (int)output_or(random_flags.output_len);
    p->t.n_prefix = (int)random_flags.prefix_len;
    int rc = traffic_random(&p->t, (size_t)n_wanted(), in, out, random_flags.spread, e);
    return rc ? rc : make_prompts(p, t, c, e);
}

/* Make prompts with shared prefixes. The jobs of a prefix are adjacent before the shuffle. The last
 * prefix may have fewer jobs. */
static int make_repetition(struct prompts *p, struct served_target *t, struct counter *c,
                           struct err *e)
{
    int64_t per_prefix = (n_wanted() + repeat_n - 1) / repeat_n;
    struct traffic_job j = {.n_prompt = (int)(repeat_prefix + repeat_suffix),
                            .n_output = (int)output_or(repeat_output),
                            .n_prefix = (int)repeat_prefix};
    for (int64_t i = 0; i < n_wanted(); i++) {
        j.prefix = (int)(i / per_prefix);
        if (!vec_push(&p->t, j)) return err_memory(e, "prompts", p->t.n * sizeof j);
    }
    shuffle(p);
    int rc = make_prompts(p, t, c, e);
    p->ignore_eos = ignore_eos;
    return rc;
}

/* Make the prompts of a trace. --request-rate determines the arrivals, unless --self-timed is
 * given. */
static int make_trace(struct prompts *p, struct served_target *t, struct counter *c, struct err *e)
{
    p->timed = self_timed;
    int rc = traffic_read(&p->t, dataset_flags.path, (size_t)n_wanted(), e);
    for (size_t i = 0; i < p->t.n; i++) {
        if (!p->timed) p->t.v[i].arrival_us = 0;
        p->t.v[i].n_output = (int)output_or(p->t.v[i].n_output);
    }
    return rc ? rc : make_prompts(p, t, c, e);
}

/* ---- datasets of texts ---- */

/* Add a text and the length of its answer. */
static int add_text(struct prompts *p, const char *text, int n_output, struct err *e)
{
    size_t n = p->t.n;
    if (!vec_push(&p->t, ((struct traffic_job){.n_output = n_output})))
        return err_memory(e, "prompts", n * sizeof(struct traffic_job));
    /* the array has the capacity of the next power of two, so it grows only if n is a power of
     * two */
    char **more = n & (n - 1) ? p->text : realloc(p->text, (n ? 2 * n : 1) * sizeof *more);
    if (!more) return p->t.n--, err_memory(e, "prompts", n * sizeof *more);
    p->text = more;
    p->text[n] = strdup(text);
    return p->text[n] ? 0 : err_memory(e, "a prompt", strlen(text));
}

/* The length of the answer is the first available value of --output-len, --custom-output-len, the
 * line's own length and 256. */
int prompts_add_line(struct prompts *p, const char *line, struct err *e)
{
    struct json *j = NULL;
    int rc = json_parse(&j, line, strlen(line), NULL, e);
    if (rc != 0) return rc;
    const char *text = json_text(json_field(j, "prompt"), NULL);
    int64_t own = json_int(json_field(j, "output_tokens"), 256);
    int64_t n = output_or(custom_output ? custom_output : own);
    if (!text || n < 1 || n > 1 << 24)
        rc =
            err_set(e, ERR_FORMAT,
                    "expected {\"prompt\": TEXT}, with \"output_tokens\" in [1, %d] if set, got %s "
                    "and %lld",
                    1 << 24, json_kind_name(json_kind(json_field(j, "prompt"))), (long long)n);
    if (rc == 0) rc = add_text(p, text, (int)n, e);
    json_drop(j);
    return rc;
}

/* Read a file of lines. Empty lines are allowed. An error names file and line. */
static int read_custom(struct prompts *p, struct counter *c, struct err *e)
{
    struct buf text = {0};
    (void)c;
    int rc = file_read(&text, dataset_flags.path, (size_t)1 << 30, e), at = 0;
    for (char *rest = text.data, *line; rc == 0 && rest && (line = strsep(&rest, "\n"));) {
        at++;
        if (line[strspn(line, " \t\r")] == '\0') continue;
        rc = prompts_add_line(p, line, e);
        if (rc != 0) err_prefix(e, rc, "%s:%d", dataset_flags.path, at);
    }
    buf_deinit(&text);
    return rc;
}

/* Add the first question, with the number of tokens of its answer. */
static int add_conversation(struct prompts *p, const struct json *conversation, struct counter *c,
                            struct err *e)
{
    const struct json *turns = json_field(conversation, "conversations");
    size_t n = 0;
    const char *question = json_text(json_field(json_item(turns, 0), "value"), NULL),
               *answer = json_text(json_field(json_item(turns, 1), "value"), &n);
    if (!question || !answer || !*question) return 0;
    int64_t n_output = output_or(sharegpt_output);
    if (!n_output) n_output = counter_count(c, answer, n);
    if (n_output < 0) n_output = (int64_t)n / 4; /* about 4 characters per token */
    return add_text(p, question, n_output < 1 ? 1 : (int)n_output, e);
}

/* Read only the necessary conversations, because counting the tokens of an answer takes time. */
static int read_sharegpt(struct prompts *p, struct counter *c, struct err *e)
{
    struct json *list = NULL;
    int rc = json_read_file(&list, dataset_flags.path, (size_t)2 << 30, e);
    uint64_t rng = (uint64_t)figure_flags.seed;
    /* a random first conversation varies the sample without shuffling the whole file */
    size_t n = json_count(list), from = n && !no_shuffle ? rng_below(&rng, n) : 0;
    if (rc == 0 && json_kind(list) != JK_LIST)
        rc = err_set(e, ERR_FORMAT, "%s: expected a list of {\"conversations\": [...]}, got %s",
                     dataset_flags.path, json_kind_name(json_kind(list)));
    c->special = false;
    for (size_t i = 0; i < n && rc == 0 && p->t.n < (size_t)n_wanted(); i++)
        rc = add_conversation(p, json_item(list, (from + i) % n), c, e);
    json_drop(list);
    return rc;
}

/* Select exactly the requested number of prompts: the first prompts, or all prompts, repeated. */
static int take_wanted(struct prompts *p, struct err *e)
{
    size_t n = p->t.n, n_want = (size_t)n_wanted();
    int rc = 0;
    for (; p->t.n > n_want; p->t.n--) free(p->text[p->t.n - 1]);
    for (size_t i = 0; rc == 0 && oversample && p->t.n < n_want; i++)
        rc = add_text(p, p->text[i % n], p->t.v[i % n].n_output, e);
    return rc;
}

/* Append prompts of the file to p. `counter` counts the tokens of recorded answers. */
typedef int read_fn(struct prompts *p, struct counter *c, struct err *e);

/* Make prompts from a file. The prompts are shuffled before the selection, so the selection is
 * random. */
static int make_read(struct prompts *p, read_fn *read, struct counter *c, struct err *e)
{
    int rc = read(p, c, e);
    p->ignore_eos = ignore_eos;
    if (rc == 0 && p->t.n == 0)
        rc = err_set(e, ERR_FORMAT, "%s: prompts not found", dataset_flags.path);
    if (rc == 0) shuffle(p);
    return rc ? rc : take_wanted(p, e);
}

/* ---- all datasets ---- */

/* Numbers of the datasets, in the order of `datasets`. A timed trace is also a TRACE. */
enum dataset { RANDOM, REPETITION, CUSTOM, SHAREGPT, TRACE };

static enum dataset find_dataset(void)
{
    int k = 0;
    while (k < TRACE && strcmp(dataset, datasets(k)) != 0) k++;
    return (enum dataset)k;
}

int prompts_check(struct err *e)
{
    enum dataset k = find_dataset();
    if (k >= CUSTOM && !dataset_flags.path)
        return err_set(e, ERR_ARG, "--dataset-name %s needs --dataset-path", dataset);
    if (k < CUSTOM && dataset_flags.path)
        return err_set(e, ERR_ARG,
                       "--dataset-path: %s has no file; --dataset-name custom, sharegpt or trace "
                       "has one",
                       dataset);
    return 0;
}

static int make_dataset(struct prompts *p, struct served_target *t, struct counter *c,
                        struct err *e)
{
    switch (find_dataset()) {
    case RANDOM:
        return make_random(p, t, c, e);
    case REPETITION:
        return make_repetition(p, t, c, e);
    case CUSTOM:
        return make_read(p, read_custom, c, e);
    case SHAREGPT:
        return make_read(p, read_sharegpt, c, e);
    default:
        return make_trace(p, t, c, e);
    }
}

/* Special tokens are counted only for completions, because a client cannot count the tokens of a
 * chat's template. */
int prompts_open(struct prompts *p, struct served_target *t, struct err *e)
{
    *p = (struct prompts){.t.seed = (uint64_t)figure_flags.seed};
    struct counter c = {.server = t, .per_word = 1, .none = length_only, .special = !t->chat};
    int rc = counter_open(&c, tokenizer_path, e);
    if (rc == 0) rc = make_dataset(p, t, &c, e);
    if (rc == 0 && c.none && c.excuse.text[0])
        fprintf(stderr, "quoth bench serve: tokens cannot be counted (%s); give --tokenizer\n",
                c.excuse.text);
    counter_close(&c);
    return rc;
}

void prompts_close(struct prompts *p)
{
    for (size_t i = 0; p->text && i < p->t.n; i++) free(p->text[i]);
    free(p->text);
    traffic_close(&p->t);
    *p = (struct prompts){0};
}
