/* grammar.c - quoth grammar check: compile a constraint, match a text, and measure masks.
 *
 * Without --jsonl, the command checks one constraint and one text. With --jsonl, scripts send one
 * request per line and get one answer per line:
 *
 *   {"schema": {...} | "regex": "..." | "gbnf": "..." | "lark": "..." | "tag": {...} |
 *    "choice": [...], "texts": ["...", ...]}
 *   -> {"ok": true, "compile_us": N,
 *       "texts": [{"accepted": true} | {"accepted": false, "byte": N}, ...]}
 *   -> {"ok": false, "error": "..."}
 *
 * Times are processor times of the thread. A mask is measured in the state of a real answer, with
 * the caches of earlier masks. Only the first visit of a state is slow. The text is matched twice,
 * by tokens and by bytes, so that a wrong mask is detected. */
#include "cli.h"

#include "base/json.h"
#include "base/os.h"
#include "base/text.h"
#include "base/utf8.h"
#include "grammar/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUT_BYTES_MAX = 64 << 20 };

static const char *regex, *gbnf_file, *lark_file, *tag_file, *start_rule, *choice, *tokenizer_path;
static bool by_line, ordered, compact, closed;
static int64_t limit_ms;

static const struct option options[] = {
    TEXT_OPTION("regex", "RE", &regex, "a regular expression in place of the schema"),
    TEXT_OPTION("gbnf", "FILE", &gbnf_file, "a GBNF grammar in place of the schema"),
    TEXT_OPTION(
        "lark", "FILE", &lark_file,
        "a Lark grammar in place of the schema; the grammar may import files of its folder"),
    TEXT_OPTION("tag", "FILE", &tag_file, "a structural tag (JSON) in place of the schema"),
    TEXT_OPTION("start", "RULE", &start_rule,
                "start rule of a Lark grammar (default: start, or the first rule)"),
    TEXT_OPTION("choice", "LIST", &choice, "a JSON list of strings in place of the schema"),
    TEXT_OPTION("tokenizer", "MODEL", &tokenizer_path,
                "also measure the mask before each token of this model's tokenizer"),
    INT_OPTION("limit-ms", "MS", &limit_ms, 1, 3600000,
               "maximum processor time of compiling, and of each mask (default 1000)"),
    FLAG_OPTION("ordered", &ordered,
                "require members in the schema's order, as in generated answers"),
    FLAG_OPTION("disable-any-whitespace", &compact, "forbid white space between JSON tokens"),
    FLAG_OPTION("disable-additional-properties", &closed,
                "forbid members beyond the schema's, unless the schema allows them"),
    FLAG_OPTION("jsonl", &by_line,
                "one JSON request per line of standard input, one JSON answer per line"),
    OPTIONS_END,
};

/* A tokenizer and its data for masks; tokenizer and data are NULL if not requested. All fields are
 * owned. */
struct mask_vocab {
    struct tokenizer *t;
    struct grammar_vocab *v;
    uint64_t *mask; /* mask of tokens, owned */
};

/* Open the tokenizer's vocabulary. The caller calls mask_vocab_close also after an error. */
static int mask_vocab_open(struct mask_vocab *mv, struct err *e)
{
    *mv = (struct mask_vocab){0};
    if (!tokenizer_path) return 0;
    int rc = tokenizer_open_file(&mv->t, tokenizer_path, NULL, e);
    if (rc) return rc;
    mv->v = grammar_vocab_open(mv->t);
    mv->mask = calloc((size_t)tokenizer_n_vocab(mv->t) / 64 + 1, sizeof *mv->mask);
    return mv->v && mv->mask ? 0 : err_memory(e, "a vocabulary", 0);
}

/* Close the vocabulary, which may be half-open. */
static void mask_vocab_close(struct mask_vocab *mv)
{
    grammar_vocab_close(mv->v);
    tokenizer_close(mv->t);
    free(mv->mask);
}

/* Result of one text. */
struct text_verdict {
    bool accepted;
    /* position of the rejected byte, or length of a text that ended too early */
    size_t byte;
    bool mask_wrong;      /* true if a mask excluded a token of an accepted text */
    VEC(int64_t) mask_ns; /* processor time of the mask before each token, owned */
};

/* Match a text token by token, and compute the mask before each token. */
static int walk_tokens(struct grammar *g, const struct mask_vocab *mv, const char *text, size_t n,
                       struct text_verdict *v, struct err *e)
{
    struct ids ids = {0};
    uint32_t state = grammar_begin(g);
    int rc = tokenizer_encode(mv->t, text, n, ENCODE_CONTINUE, &ids, e);
    for (size_t i = 0; rc == 0 && i < ids.n; i++) {
        /* CPU time of this thread, so that other processes do not affect the figure */
        int64_t start = time_thread_ns();
        if (!grammar_mask(g, state, mv->mask)) rc = grammar_failure(g, e);
        if (rc == 0 && !vec_push(&v->mask_ns, time_thread_ns() - start))
            rc = err_memory(e, "times", 0);
        /* the mask and the automaton must agree on each token: a test of masks on real texts */
        bool may = mv->mask[ids.v[i] >> 6] >> (ids.v[i] & 63) & 1;
        uint32_t next = grammar_accept_token(g, state, ids.v[i]);
        v->mask_wrong |= may != (next != GRAMMAR_DEAD);
        if (next == GRAMMAR_DEAD) break;
        state = next;
    }
    vec_deinit(&ids);
    return rc;
}

/* Match the text by bytes. With a tokenizer, match the text by tokens first, which checks the
 * masks. The first text then measures masks without cached states. */
static int match_text(struct grammar *g, const struct mask_vocab *mv, const char *text, size_t n,
                      struct text_verdict *v, struct err *e)
{
    *v = (struct text_verdict){0};
    int rc = mv->t ? walk_tokens(g, mv, text, n, v, e) : 0;
    if (rc) return rc;
    uint32_t state = grammar_accept(g, grammar_begin(g), text, n, &v->byte);
    v->accepted = grammar_ends(g, state);
    return grammar_failure(g, e);
}

/* Read a file that a Lark grammar imports. Try its path from the grammar's folder, then the file in
 * that folder. */
static int import_file(const void *arg, const char *path, char **text, size_t *n, struct err *e)
{
    const char *file = arg, *tries[] = {path, path_name(path)};
    int rc = 0;
    for (int i = 0; rc == 0 && !*text && i < 2; i++) {
        struct buf at = {0}, b = {0};
        buf_addf(&at, "%.*s%s", (int)(path_name(file) - file), file, tries[i]);
        rc = at.failed ? err_memory(e, "a path", 0) : 0;
        if (rc == 0 && access(at.data, R_OK) == 0) {
            rc = file_read(&b, at.data, INPUT_BYTES_MAX, e);
            *n = b.n;
            *text = rc == 0 ? buf_detach(&b) : NULL;
        }
        buf_deinit(&at);
        buf_deinit(&b);
    }
    return rc;
}

/* Compile a constraint with the options of the command line. */
static int open_one(struct grammar **g, enum grammar_kind kind, const char *text, size_t n,
                    const struct mask_vocab *mv, struct err *e)
{
    return grammar_open(g, kind, text, n,
                        &(struct grammar_options){.any_order = !ordered,
                                                  .no_white_space = compact,
                                                  .no_additional = closed,
                                                  .limits.us_max = limit_ms * 1000,
                                                  .vocab = mv->v,
                                                  .start = start_rule,
                                                  .import = lark_file ? import_file : NULL,
                                                  .import_arg = lark_file},
                        e);
}

/* ---- one request per line ---- */

/* The keys of a request's constraints. */
static const struct {
    const char *key; /* static */
    enum grammar_kind kind;
} kinds[] = {{"schema", GRAMMAR_SCHEMA}, {"regex", GRAMMAR_REGEX}, {"gbnf", GRAMMAR_GBNF},
             {"lark", GRAMMAR_LARK},     {"tag", GRAMMAR_TAG},     {"choice", GRAMMAR_CHOICE}};
enum { N_KIND = sizeof kinds / sizeof *kinds };

/* Find a request's constraint, and set *i to its kind. Reject a misspelled key and a second
 * constraint, because they would have no effect. */
static const struct json *find_constraint(const struct json *line, int *i, struct err *e)
{
    const struct json *found = NULL;
    for (void *it = json_first(line); it; it = json_next(line, it)) {
        const char *key = json_it_key(it, NULL);
        int k = 0;
        while (k < N_KIND && strcmp(key, kinds[k].key) != 0) k++;
        if (k == N_KIND && strcmp(key, "texts") != 0)
            return err_field(e, ERR_ARG, key, ": unknown field"), NULL;
        if (k < N_KIND && found)
            return err_field(e, ERR_ARG, key, ": must not come with %s", kinds[*i].key), NULL;
        if (k < N_KIND) *i = k, found = json_it_value(it);
    }
    if (!found)
        err_set(e, ERR_FORMAT,
                "expected schema, regex, gbnf, lark, tag or choice, got none of them");
    return found;
}

/* Compile the constraint of a request. A schema may be an object or its text. A choice is always a
 * list. */
static int open_line(struct grammar **g, const struct json *line, const struct mask_vocab *mv,
                     struct err *e)
{
    int i = 0;
    size_t n;
    const struct json *v = find_constraint(line, &i, e);
    const char *text = json_text(v, &n);
    struct buf b = {0};
    if (!v) return e->code;
    if (text && kinds[i].kind != GRAMMAR_CHOICE) return open_one(g, kinds[i].kind, text, n, mv, e);
    json_put(&b, v);
    int rc =
        b.failed ? err_memory(e, "a request", 0) : open_one(g, kinds[i].kind, b.data, b.n, mv, e);
    buf_deinit(&b);
    return rc;
}

/* Append the result of a text as JSON. */
static void put_verdict(struct buf *out, const struct text_verdict *v)
{
    buf_addf(out, "{\"accepted\":%s", v->accepted ? "true" : "false");
    if (!v->accepted) buf_addf(out, ",\"byte\":%zu", v->byte);
    if (v->mask_wrong) buf_add_text(out, ",\"mask_wrong\":true");
    if (v->mask_ns.n > 0) buf_add_text(out, ",\"mask_us\":[");
    for (size_t i = 0; i < v->mask_ns.n; i++)
        buf_addf(out, "%s%.1f", i ? "," : "", (double)v->mask_ns.v[i] * 1e-3);
    if (v->mask_ns.n > 0) buf_add_char(out, ']');
    buf_add_char(out, '}');
}

/* Answer one request. `out` is valid only after success. The caller replaces it by an error after a
 * failure. */
static int answer_line(const struct json *line, const struct mask_vocab *mv, struct buf *out,
                       struct err *e)
{
    struct grammar *g = NULL;
    int64_t start = time_thread_ns();
    int rc = open_line(&g, line, mv, e);
    buf_addf(out, "{\"ok\":true,\"compile_us\":%lld,\"texts\":[",
             (long long)(time_thread_ns() - start) / 1000);
    const struct json *texts = json_field(line, "texts");
    for (size_t i = 0; rc == 0 && i < json_count(texts); i++) {
        size_t n;
        const char *text = json_text(json_item(texts, i), &n);
        struct text_verdict v = {0};
        rc = text ? match_text(g, mv, text, n, &v, e)
                  : err_field(e, ERR_FORMAT, "texts", "[%zu]: expected a string, got %s", i,
                              json_kind_name(json_kind(json_item(texts, i))));
        if (i > 0) buf_add_char(out, ',');
        put_verdict(out, &v);
        vec_deinit(&v.mask_ns);
    }
    buf_add_text(out, "]}\n");
    grammar_close(g);
    return rc;
}

/* Answer each line. An error of a line is its answer, and the loop continues with the next line.
 * Only a failed output ends the loop. */
static int each_line(const struct mask_vocab *mv, char *text, struct err *e)
{
    int rc = 0;
    for (char *one; rc == 0 && (one = strsep(&text, "\n"));) {
        struct json *line = NULL;
        struct buf out = {0};
        if (!*one) continue;
        if (json_parse(&line, one, strlen(one), NULL, e) || answer_line(line, mv, &out, e)) {
            buf_clear(&out);
            buf_add_text(&out, "{\"ok\":false,\"error\":");
            json_put_text(&out, e->text, strlen(e->text));
            buf_add_text(&out, "}\n");
        }
        rc = print_out(&out, e);
        buf_deinit(&out);
        json_drop(line);
    }
    return rc;
}

/* ---- one constraint, one text ---- */

static int by_size(const void *p, const void *q)
{
    int64_t a = *(const int64_t *)p, b = *(const int64_t *)q;
    return (a > b) - (a < b);
}

/* Print the times of the masks. The slowest mask is important, because it delays a step of the
 * engine. */
static void print_masks(struct text_verdict *v)
{
    size_t n = v->mask_ns.n;
    if (n == 0) return;
    qsort(v->mask_ns.v, n, sizeof *v->mask_ns.v, by_size);
    printf("masks: %zu, median %.1f us, slowest %.1f us%s\n", n, (double)v->mask_ns.v[n / 2] * 1e-3,
           (double)v->mask_ns.v[n - 1] * 1e-3,
           v->mask_wrong ? "; a mask rejected a token of the text" : "");
}

/* Print the result of a text. Return 0 (accepted), 1 (rejected) or an error. The text around a
 * rejected byte is printed without control characters. */
static int check_text(struct grammar *g, const struct mask_vocab *mv, const char *path,
                      struct err *e)
{
    struct buf text = {0};
    struct text_verdict v = {0};
    int rc = file_read(&text, path, INPUT_BYTES_MAX, e);
    while (rc == 0 && text.n > 0 && text.data[text.n - 1] == '\n')
        text.n--; /* ignore the newline at the end of a file */
    if (rc == 0) rc = match_text(g, mv, text.data ? text.data : "", text.n, &v, e);
    if (rc == 0 && v.accepted) printf("accepted\n");
    if (rc == 0 && !v.accepted && v.byte == text.n) printf("rejected: the text ends too early\n");
    if (rc == 0 && !v.accepted && v.byte < text.n) {
        utf8_show(text.data, text.n);
        size_t from = v.byte > 24 ? v.byte - 24 : 0, n = text.n - v.byte;
        printf("rejected at byte %zu: %.*s >>> %.*s\n", v.byte, (int)(v.byte - from),
               text.data + from, (int)(n < 24 ? n : 24), text.data + v.byte);
    }
    if (rc == 0) print_masks(&v);
    vec_deinit(&v.mask_ns);
    buf_deinit(&text);
    return rc ? rc : v.accepted ? 0 : 1;
}

/* Set *value to the constraint that replaces a schema; NULL if none. Return the number of options
 * that replace a schema. */
static int option_constraint(enum grammar_kind *kind, const char **value, bool *is_file)
{
    const struct {
        enum grammar_kind kind;
        const char *value; /* borrowed */
        bool is_file;
    } all[] = {{GRAMMAR_REGEX, regex, false},
               {GRAMMAR_CHOICE, choice, false},
               {GRAMMAR_GBNF, gbnf_file, true},
               {GRAMMAR_LARK, lark_file, true},
               {GRAMMAR_TAG, tag_file, true}};
    int n = 0;
    *value = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value)
            n++, *kind = all[i].kind, *value = all[i].value, *is_file = all[i].is_file;
    return n;
}

/* Compile the schema's file, or the constraint of an option. */
static int open_source(struct grammar **g, const char *schema, const struct mask_vocab *mv,
                       struct err *e)
{
    struct buf text = {0};
    const char *value;
    enum grammar_kind kind = GRAMMAR_SCHEMA;
    bool is_file = true;
    if (option_constraint(&kind, &value, &is_file) == 0) value = schema;
    if (!is_file) return open_one(g, kind, value, strlen(value), mv, e);
    int rc = file_read(&text, value, INPUT_BYTES_MAX, e);
    if (rc == 0) rc = open_one(g, kind, text.data ? text.data : "", text.n, mv, e);
    buf_deinit(&text);
    return rc;
}

/* Print the cost of the mask before the first token, and the number of its tokens. */
static int print_first_mask(struct grammar *g, const struct mask_vocab *mv, struct err *e)
{
    int n_vocab = tokenizer_n_vocab(mv->t), n = 0;
    int64_t start = time_thread_ns();
    if (!grammar_mask(g, grammar_begin(g), mv->mask)) return grammar_failure(g, e);
    double us = (double)(time_thread_ns() - start) * 1e-3;
    for (int id = 0; id < n_vocab; id++) n += (int)(mv->mask[id >> 6] >> (id & 63) & 1);
    printf("first mask: %.1f us, %d of %d tokens\n", us, n, n_vocab);
    return 0;
}

/* Check one constraint. The positional arguments are "check SCHEMA [TEXT]", or "check [TEXT]" if an
 * option replaces the schema. */
static int check_one(int n_arg, char **arg, const struct mask_vocab *mv, struct err *e)
{
    struct grammar *g = NULL;
    bool other = regex || gbnf_file || lark_file || tag_file || choice;
    const char *text = n_arg > 1 + !other ? arg[1 + !other] : NULL;
    int64_t start = time_thread_ns();
    int rc = open_source(&g, other ? NULL : arg[1], mv, e);
    if (rc == 0 && !text)
        printf("can be enforced; compiled in %.1f ms\n", (double)(time_thread_ns() - start) * 1e-6);
    if (rc == 0 && !text && mv->t) rc = print_first_mask(g, mv, e);
    if (rc == 0 && text) rc = check_text(g, mv, text, e);
    grammar_close(g);
    return rc;
}

/* Run the command. Exit status 2 is for wrong usage, 1 for a rejection. check_one returns 1 for a
 * text that does not match, and a negative value for an error. */
static int run(int n_arg, char **arg)
{
    struct err e = {0};
    struct mask_vocab mv;
    struct buf text = {0};
    enum grammar_kind kind;
    const char *value;
    bool is_file;
    int n_option = option_constraint(&kind, &value, &is_file), n_text = n_arg - 1 - (n_option == 0);
    bool wrong = n_arg < 1 || strcmp(arg[0], "check") != 0 || n_option > 1;
    if (wrong || (by_line ? n_arg > 1 || n_option > 0 : n_text < 0 || n_text > 1))
        return fprintf(stderr, "quoth grammar: usage: quoth grammar check SCHEMA|--regex RE|--gbnf "
                               "FILE|--lark FILE|--tag FILE|--choice LIST [TEXT], or --jsonl\n"),
               2;
    int rc = mask_vocab_open(&mv, &e);
    if (rc == 0 && by_line) {
        rc = file_read(&text, "-", INPUT_BYTES_MAX, &e);
        if (rc == 0 && text.data) rc = each_line(&mv, text.data, &e);
    } else if (rc == 0) {
        rc = check_one(n_arg, arg, &mv, &e);
    }
    buf_deinit(&text);
    mask_vocab_close(&mv);
    return rc < 0 ? fail("grammar", &e) : rc;
}

const struct command command_grammar = {
    .name = "grammar",
    .summary = "check a schema or grammar, and a text against it",
    .usage = "check SCHEMA|--regex RE|--gbnf FILE|--lark FILE|--tag FILE|--choice LIST [TEXT]",
    .detail = "Compile a constraint on a model's output: a JSON Schema in a file, or the "
              "constraint of an option. The error for an unsupported constraint contains the "
              "place. With TEXT, a file or - for standard input, check whether the whole text "
              "satisfies the constraint. Print the offset of the first wrong byte of another text. "
              "The exit status is 0 (satisfied), 1 (not satisfied, or the constraint is rejected) "
              "or 2 (usage).",
    .options = options,
    .arg_max = 3,
    .run = run,
};
