/* served_data.c - what quoth bench serve sends: datasets with vLLM's names and options; see served.h.
 *
 * A prompt of exactly so many tokens needs to know the tokens. To /v1/completions go token ids, at random below the
 * vocabulary's size, where that is known: from --tokenizer, or from the server (meta.n_vocab of /v1/models). Otherwise,
 * and in conversations, go words, as many as make that number by --tokenizer's count or by the server's own
 * (/tokenize); the number is that of the prompt with what the tokenizer adds, or of the message's text. Where neither
 * counts, a word stands for a token, and the usage in each answer says what it really was. */
#include "served.h"

#include "base/json.h"
#include "base/os.h"
#include "base/rng.h"
#include "token/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *dataset = "random", *path, *tokenizer_path;
static int64_t n_prompt = 1000, seed, input_len, output_len, custom_output, sharegpt_output,
               repeat_prefix = 256, repeat_suffix = 256, repeat_n = 10, repeat_output = 128;
static bool self_timed = true, oversample = true, no_shuffle, ignore_eos, length_only;

const struct option data_options[] = {
    {.kind = OPTION_GROUP, .include = random_options},
    {.kind = OPTION_TEXT,
     .name = "dataset-name",
     .arg = "NAME",
     .target = &dataset,
     .help = "random, prefix_repetition, custom, sharegpt, trace (random)"},
    {.kind = OPTION_TEXT,
     .name = "dataset-path",
     .arg = "FILE",
     .target = &path,
     .help = "of the last three: lines of {\"prompt\": ...}; ShareGPT's JSON; a trace"},
    {.kind = OPTION_INT,
     .name = "num-prompts",
     .arg = "N",
     .target = &n_prompt,
     .lo = 1,
     .hi = 1 << 24,
     .help = "requests (1000; of a trace at most its own)"},
    {.kind = OPTION_INT,
     .name = "seed",
     .arg = "N",
     .target = &seed,
     .lo = 0,
     .hi = 1ll << 53,
     .help = "of what is random in it (0)"},
    {.kind = OPTION_INT,
     .name = "input-len",
     .arg = "N",
     .target = &input_len,
     .lo = 1,
     .hi = 1 << 24,
     .help = "tokens of a prompt, of datasets that ask for a number"},
    {.kind = OPTION_INT,
     .name = "output-len",
     .arg = "N",
     .target = &output_len,
     .lo = 1,
     .hi = 1 << 24,
     .help = "tokens of an answer, of all datasets"},
    {.kind = OPTION_INT,
     .name = "prefix-repetition-prefix-len",
     .arg = "N",
     .target = &repeat_prefix,
     .lo = 0,
     .hi = 1 << 24,
     .help = "prefix_repetition: tokens that prompts share (256)"},
    {.kind = OPTION_INT,
     .name = "prefix-repetition-suffix-len",
     .arg = "N",
     .target = &repeat_suffix,
     .lo = 1,
     .hi = 1 << 24,
     .help = "... and those of their own (256)"},
    {.kind = OPTION_INT,
     .name = "prefix-repetition-num-prefixes",
     .arg = "N",
     .target = &repeat_n,
     .lo = 1,
     .hi = 1 << 24,
     .help = "... so many different ones (10)"},
    {.kind = OPTION_INT,
     .name = "prefix-repetition-output-len",
     .arg = "N",
     .target = &repeat_output,
     .lo = 1,
     .hi = 1 << 24,
     .help = "... tokens of an answer (128)"},
    {.kind = OPTION_INT,
     .name = "custom-output-len",
     .arg = "N",
     .target = &custom_output,
     .lo = 1,
     .hi = 1 << 24,
     .help = "custom: tokens of an answer (\"output_tokens\" of its line, else 256)"},
    {.kind = OPTION_INT,
     .name = "sharegpt-output-len",
     .arg = "N",
     .target = &sharegpt_output,
     .lo = 1,
     .hi = 1 << 24,
     .help = "sharegpt: tokens of an answer (those of the recorded one)"},
    {.kind = OPTION_FLAG,
     .name = "oversample",
     .target = &oversample,
     .help = "custom, sharegpt: a short file again and again (on; --no-oversample)"},
    {.kind = OPTION_FLAG,
     .name = "disable-shuffle",
     .target = &no_shuffle,
     .help = "custom, sharegpt, prefix_repetition: in their order"},
    {.kind = OPTION_FLAG,
     .name = "self-timed",
     .target = &self_timed,
     .help = "trace: at its own times (--no-self-timed: as --request-rate says)"},
    {.kind = OPTION_FLAG,
     .name = "ignore-eos",
     .target = &ignore_eos,
     .help = "answers are as long as asked for (always of random and trace)"},
    {.kind = OPTION_TEXT,
     .name = "tokenizer",
     .arg = "MODEL",
     .target = &tokenizer_path,
     .help = "a model or tokenizer file that counts tokens here, not at the server"},
    {.kind = OPTION_FLAG,
     .name = "skip-tokenizer-init",
     .target = &length_only,
     .help = "count nothing: a word stands for a token"},
    {.kind = OPTION_END},
};

const char *prompts_tokenizer(void)
{
    return tokenizer_path;
}

int64_t prompts_asked(void)
{
    return n_prompt;
}

/* ---- counting ---- */

struct counter {
    struct tokenizer *own; /* owned; NULL: the server counts */
    struct target *server;
    bool none;         /* nobody counts */
    bool special;      /* with what the tokenizer adds to a prompt */
    double per_word;   /* tokens of a word, of the texts so far */
    struct ids ids;    /* owned: scratch */
    struct buf text;   /* owned: scratch */
    struct err excuse; /* why nobody does */
};

/* -1: nobody counts. */
static int count(struct counter *c, const char *text, size_t n)
{
    int n_token = -1;
    if (c->none) return -1;
    if (c->own) {
        unsigned flags = c->special ? ENCODE_ADD_SPECIAL : 0;
        c->ids.n = 0;
        c->none = tokenizer_encode(c->own, text, n, flags, &c->ids, &c->excuse) != 0;
        return c->none ? -1 : (int)c->ids.n;
    }
    c->none = target_count(c->server, text, n, c->special, &n_token, &c->excuse) != 0;
    return c->none ? -1 : n_token;
}

/* ---- words ---- */

static const char *const word[] = {
    "the",  "of",   "and",   "to",     "in",   "is",    "that",  "it",    "was",   "for",
    "on",   "are",  "as",    "with",   "his",  "they",  "at",    "be",    "this",  "have",
    "from", "or",   "one",   "had",    "by",   "but",   "not",   "what",  "all",   "were",
    "we",   "when", "your",  "can",    "said", "there", "use",   "an",    "each",  "which",
    "she",  "do",   "how",   "their",  "if",   "will",  "up",    "other", "about", "out",
    "many", "then", "them",  "these",  "so",   "some",  "her",   "would", "make",  "like",
    "him",  "into", "time",  "has",    "look", "two",   "more",  "write", "go",    "see",
    "no",   "way",  "could", "people", "my",   "than",  "first", "been",  "call",  "who",
    "its",  "now",  "find",  "long",   "down", "day",   "did",   "get",   "come",  "made",
    "may",  "part", "old",   "new",    "good", "great", "where", "help",  "much"};
enum { N_WORD = sizeof word / sizeof word[0] };

/* The first n of the words that ids name. */
static void put_words(struct buf *b, const struct ids *ids, int n)
{
    buf_clear(b);
    for (int i = 0; i < n; i++) {
        if (i) buf_add_char(b, ' ');
        buf_add_text(b, word[ids->v[i]]);
    }
}

/* As many words as make at most n_want tokens; how many tokens they make. */
static int fit_words(struct counter *c, const struct ids *ids, int n_want)
{
    int n = (int)(n_want / c->per_word), n_token = 0, low = 1, high = (int)ids->n;
    for (int turn = 0; turn < 12; turn++) {
        if (n < low) n = low;
        if (n > high) n = high;
        put_words(&c->text, ids, n);
        n_token = count(c, c->text.data, c->text.n);
        if (n_token < 0) break;
        if (n_token > 0) c->per_word = (double)n_token / n;
        if (n_token == n_want || low >= high) return n_token;
        int by = (int)((n_want - n_token) / c->per_word);
        if (n_token > n_want) {
            high = n - 1 > low ? n - 1 : low;
            n += by < 0 ? by : -1;
        } else {
            if (by < 1) return n_token;
            low = n + 1;
            n += by;
        }
    }
    return n_token;
}

/* Small pieces behind it, until it has n_want tokens. */
static int fill(struct counter *c, int n_token, int n_want)
{
    static const char *const piece[] = {" a", " I", ".", "!", " x", "?", ","};
    enum { N_PIECE = sizeof piece / sizeof piece[0] };
    for (int turn = 0, miss = 0; n_token >= 0 && n_token < n_want && miss < N_PIECE; turn++) {
        size_t before = c->text.n;
        buf_add_text(&c->text, piece[turn % N_PIECE]);
        int more = count(c, c->text.data, c->text.n);
        if (more > n_token && more <= n_want) {
            n_token = more;
            miss = 0;
            continue;
        }
        c->text.data[c->text.n = before] = '\0';
        miss++;
    }
    return n_token;
}

/* Job i's prompt as words. */
static int make_text(struct prompts *p, size_t i, struct counter *c, struct err *e)
{
    struct traffic_job *j = &p->t.v[i];
    struct ids ids = {0};
    int rc = traffic_prompt(&p->t, i, N_WORD, &ids, e);
    if (rc == 0) {
        int n_token = c->none ? -1 : fit_words(c, &ids, j->n_prompt);
        n_token = fill(c, n_token, j->n_prompt);
        if (n_token < 0) put_words(&c->text, &ids, j->n_prompt);
        p->n_inexact += n_token != j->n_prompt;
        j->n_prompt = n_token < 0 ? 0 : n_token;
        p->text[i] = c->text.failed ? NULL : strdup(c->text.data);
        if (!p->text[i]) rc = err_memory(e, "a prompt", c->text.n);
    }
    vec_deinit(&ids);
    return rc;
}

static int make_texts(struct prompts *p, struct counter *c, struct err *e)
{
    int rc = 0;
    p->text = calloc(p->t.n, sizeof *p->text);
    if (!p->text) return err_memory(e, "prompts", p->t.n * sizeof *p->text);
    for (size_t i = 0; i < p->t.n && rc == 0; i++) {
        rc = make_text(p, i, c, e);
        progress_bar("making prompts", i + 1, p->t.n);
    }
    return rc;
}

/* Of those that the traffic describes: ids where the vocabulary is known, else words. */
static int make_prompts(struct prompts *p, struct target *t, struct counter *c, struct err *e)
{
    p->ignore_eos = true;
    if (t->context_max) p->n_cut = traffic_fit(&p->t, t->context_max);
    p->n_vocab = t->chat ? 0 : c->own ? tokenizer_n_vocab(c->own) : t->n_vocab;
    return p->n_vocab > 0 ? 0 : make_texts(p, c, e);
}

/* ---- datasets of lengths ---- */

static void shuffle(struct prompts *p)
{
    uint64_t rng = (uint64_t)seed;
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

static int make_random(struct prompts *p, struct target *t, struct counter *c, struct err *e)
{
    int in = (int)(input_len ? input_len : random_flags.input_len),
        out = (int)(output_len ? output_len : random_flags.output_len);
    p->t.n_prefix = (int)random_flags.prefix_len;
    int rc = traffic_random(&p->t, (size_t)n_prompt, in, out, random_flags.spread, e);
    return rc ? rc : make_prompts(p, t, c, e);
}

static int make_repetition(struct prompts *p, struct target *t, struct counter *c, struct err *e)
{
    int64_t per_prefix = (n_prompt + repeat_n - 1) / repeat_n;
    struct traffic_job j = {.n_prompt = (int)(repeat_prefix + repeat_suffix),
                            .n_output = (int)(output_len ? output_len : repeat_output),
                            .n_prefix = (int)repeat_prefix};
    for (int64_t i = 0; i < n_prompt; i++) {
        j.prefix = (int)(i / per_prefix);
        if (!vec_push(&p->t, j)) return err_memory(e, "prompts", p->t.n * sizeof j);
    }
    shuffle(p);
    int rc = make_prompts(p, t, c, e);
    p->ignore_eos = ignore_eos;
    return rc;
}

static int make_trace(struct prompts *p, struct target *t, struct counter *c, struct err *e)
{
    p->timed = self_timed;
    int rc = traffic_read(&p->t, path, (size_t)n_prompt, e);
    for (size_t i = 0; i < p->t.n; i++) {
        if (!p->timed) p->t.v[i].arrival_us = 0;
        if (output_len) p->t.v[i].n_output = (int)output_len;
    }
    return rc ? rc : make_prompts(p, t, c, e);
}

/* ---- datasets of texts ---- */

/* A text and how long its answer is to be. */
static int add_text(struct prompts *p, const char *text, int n_output, struct err *e)
{
    size_t n = p->t.n;
    if (!vec_push(&p->t, ((struct traffic_job){.n_output = n_output})))
        return err_memory(e, "prompts", n * sizeof(struct traffic_job));
    char **more = n & (n - 1) ? p->text : realloc(p->text, (n ? 2 * n : 1) * sizeof *more);
    if (!more) return err_memory(e, "prompts", n * sizeof *more);
    p->text = more;
    p->text[n] = strdup(text);
    return p->text[n] ? 0 : err_memory(e, "a prompt", strlen(text));
}

static int custom_line(struct prompts *p, const char *line, struct err *e)
{
    struct json *j = NULL;
    int rc = json_parse(&j, line, strlen(line), NULL, e);
    if (rc != 0) return rc;
    const char *text = json_text(json_field(j, "prompt"), NULL);
    int64_t own = json_int(json_field(j, "output_tokens"), 256);
    int64_t n = output_len ? output_len : custom_output ? custom_output : own;
    if (!text || n < 1 || n > 1 << 24)
        rc = err_set(e, ERR_FORMAT, "not {\"prompt\": TEXT} with \"output_tokens\" of 1 or more");
    if (rc == 0) rc = add_text(p, text, (int)n, e);
    json_drop(j);
    return rc;
}

static int read_custom(struct prompts *p, struct counter *c, struct err *e)
{
    struct buf text = {0};
    (void)c;
    int rc = file_read(&text, path, (size_t)1 << 30, e), at = 0;
    for (char *rest = text.data, *line; rc == 0 && rest && (line = strsep(&rest, "\n"));) {
        at++;
        if (line[strspn(line, " \t\r")] == '\0') continue;
        rc = custom_line(p, line, e);
        if (rc != 0) err_prefix(e, rc, "%s:%d", path, at);
    }
    buf_deinit(&text);
    return rc;
}

/* The first question, and as many tokens as its answer had. */
static int add_talk(struct prompts *p, const struct json *talk, struct counter *c, struct err *e)
{
    const struct json *turns = json_field(talk, "conversations");
    size_t n = 0;
    const char *question = json_text(json_field(json_item(turns, 0), "value"), NULL),
               *answer = json_text(json_field(json_item(turns, 1), "value"), &n);
    if (!question || !answer || !*question) return 0;
    int64_t n_output = output_len ? output_len : sharegpt_output;
    if (!n_output) n_output = count(c, answer, n);
    if (n_output < 0) n_output = (int64_t)n / 4; /* characters of a token, about */
    return add_text(p, question, n_output < 1 ? 1 : (int)n_output, e);
}

/* No more are taken than are wanted, since each answer is counted. */
static int read_sharegpt(struct prompts *p, struct counter *c, struct err *e)
{
    struct json *list = NULL;
    int rc = json_read_file(&list, path, (size_t)2 << 30, e);
    uint64_t rng = (uint64_t)seed;
    size_t n = json_count(list), from = n && !no_shuffle ? rng_below(&rng, n) : 0;
    if (rc == 0 && json_kind(list) != JK_LIST)
        rc = err_set(e, ERR_FORMAT, "%s: not a list of {\"conversations\": [...]}", path);
    c->special = false;
    for (size_t i = 0; i < n && rc == 0 && p->t.n < (size_t)n_prompt; i++)
        rc = add_talk(p, json_item(list, (from + i) % n), c, e);
    json_drop(list);
    return rc;
}

/* Exactly n_prompt of them: the first ones, or all again and again. */
static int take_wanted(struct prompts *p, struct err *e)
{
    size_t n = p->t.n, n_want = (size_t)n_prompt;
    int rc = 0;
    for (; p->t.n > n_want; p->t.n--) free(p->text[p->t.n - 1]);
    for (size_t i = 0; rc == 0 && oversample && p->t.n < n_want; i++)
        rc = add_text(p, p->text[i % n], p->t.v[i % n].n_output, e);
    return rc;
}

typedef int read_fn(struct prompts *p, struct counter *c, struct err *e);

static int make_read(struct prompts *p, read_fn *read, struct counter *c, struct err *e)
{
    int rc = read(p, c, e);
    p->ignore_eos = ignore_eos;
    if (rc == 0 && p->t.n == 0) rc = err_set(e, ERR_FORMAT, "%s: no prompts in it", path);
    if (rc == 0) shuffle(p);
    return rc ? rc : take_wanted(p, e);
}

/* ---- all of them ---- */

enum dataset { RANDOM, REPETITION, CUSTOM, SHAREGPT, TRACE, N_DATASET };
static const char *const dataset_name[N_DATASET] = {"random", "prefix_repetition", "custom",
                                                    "sharegpt", "trace"};

static enum dataset find_dataset(void)
{
    int k = 0;
    if (strcmp(dataset, "timed_trace") == 0) return TRACE;
    while (k < N_DATASET && strcmp(dataset, dataset_name[k]) != 0) k++;
    return (enum dataset)k;
}

int prompts_check(struct err *e)
{
    enum dataset k = find_dataset();
    if (k == N_DATASET)
        return err_set(e, ERR_ARG,
                       "--dataset-name: \"%.40s\" is not random, prefix_repetition, custom, "
                       "sharegpt or trace",
                       dataset);
    if (k >= CUSTOM && !path)
        return err_set(e, ERR_ARG, "--dataset-name %s needs --dataset-path", dataset);
    if (k < CUSTOM && path)
        return err_set(e, ERR_ARG,
                       "--dataset-path: %s has no file; --dataset-name custom, sharegpt or trace "
                       "has one",
                       dataset);
    return 0;
}

static int make_dataset(struct prompts *p, struct target *t, struct counter *c, struct err *e)
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

int prompts_make(struct prompts *p, struct target *t, struct err *e)
{
    *p = (struct prompts){.t.seed = (uint64_t)seed};
    struct counter c = {.server = t, .per_word = 1, .none = length_only, .special = !t->chat};
    int rc = tokenizer_path ? tokenizer_open_file(&c.own, tokenizer_path, NULL, e) : 0;
    if (rc == 0) rc = make_dataset(p, t, &c, e);
    if (rc == 0 && c.none && c.excuse.text[0])
        fprintf(stderr, "quoth bench serve: nobody counts tokens here (%s); --tokenizer does\n",
                c.excuse.text);
    tokenizer_close(c.own);
    vec_deinit(&c.ids);
    buf_deinit(&c.text);
    return rc;
}

void prompts_close(struct prompts *p)
{
    for (size_t i = 0; p->text && i < p->t.n; i++) free(p->text[i]);
    free(p->text);
    traffic_close(&p->t);
    *p = (struct prompts){0};
}
