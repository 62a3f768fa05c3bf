/* llamacpp_infill.c - the prompt of llama.cpp's /infill, and of other endpoints with a `suffix`:
 * code before and after a gap, between the marks of the model's family (token/fim.def).
 *
 *   [extra] <PRE> input_prefix prompt <SUF> input_suffix <MID>
 *   [extra] [SUFFIX] input_suffix [PREFIX] input_prefix prompt     Codestral's family
 *
 * `extra` is the other files in input_extra: the name and text of each file, after the marks REPO
 * and FILE if the vocabulary has them. As in llama.cpp, at most 3/4 of ROWS tokens are the last
 * tokens of the prefix. At most 1/4 are the first tokens of the suffix. The last tokens of `extra`
 * fill the context. Unlike llama.cpp, BOS precedes `extra`, and small contexts have room for an
 * answer. */
#include "llamacpp.h"

#include <stdlib.h>
#include <string.h>

/* ROWS: tokens of prefix and suffix together, llama.cpp's default of --batch-size. TEXT_MAX:
 * bytes of a text of which at most ROWS tokens are used. EXTRA_MAX: maximum number of files.
 * TOKEN_BYTES: bytes of extra text per token of the context that are tokenized. COPIED_MAX: maximum
 * number of tokens of a suffix in all prompts of a body, 64 MiB. */
enum { ROWS = 2048, TEXT_MAX = 1 << 16, EXTRA_MAX = 1024, TOKEN_BYTES = 16, COPIED_MAX = 1 << 24 };

/* Texts that llama.cpp writes where an editor gives no name. */
static const char repo_name[] = "myproject\n", file_name[] = "filename\n", other_name[] = "tmp",
                  snippet[] = "\n\n--- snippet ---\n\n";

/* Part of the prompt while it is made. The owner frees all ids. */
struct infill {
    const struct api *a;                /* borrowed */
    const struct llamacpp_marks *marks; /* borrowed */
    struct ids prefix, prompt, suffix, extra;
};

/* Append a mark or BOS. The caller checks that the vocabulary has the id. */
static int add_id(struct ids *ids, int32_t id, struct err *e)
{
    return vec_push(ids, id) ? 0 : err_memory(e, "a prompt", (ids->n + 1) * sizeof id);
}

/* Append n ids of `from` from index `at` on. */
static int add_ids(struct ids *ids, const struct ids *from, size_t at, size_t n, struct err *e)
{
    if (n == 0) return 0;
    if (!vec_reserve(ids, ids->n + n)) return err_memory(e, "a prompt", n * sizeof *from->v);
    memcpy(ids->v + ids->n, from->v + at, n * sizeof *from->v);
    ids->n += n;
    return 0;
}

/* Append the tokens of a text without marks. */
static int add_text(const struct infill *f, struct ids *ids, const char *text, size_t n,
                    struct err *e)
{
    return tokenizer_encode(f->a->session->tokenizer, text, n, 0, ids, e);
}

/* Return the length of the text [n] without the bytes after TEXT_MAX, at the end of a character. */
static size_t first_bytes(const char *text, size_t n, size_t n_max)
{
    if (n <= n_max) return n;
    while (n_max > 0 && ((unsigned char)text[n_max] & 0xC0) == 0x80) n_max--;
    return n_max;
}

/* Return the place in the text [n] of its last n_max bytes, at the beginning of a character. */
static size_t last_bytes(const char *text, size_t n, size_t n_max)
{
    size_t at = n > n_max ? n - n_max : 0;
    while (at < n && at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80) at++;
    return at;
}

/* Read a required text, of which the last or first bytes are used. It may be empty. */
static int read_side(const struct infill *f, struct ids *ids, const struct json *body,
                     const char *name, bool last, struct err *e)
{
    const struct json *given = body_field(body, name);
    size_t n;
    const char *text = json_text(given, &n);
    if (!text) return body_wrong(name, "a string", given, e);
    const size_t at = last ? last_bytes(text, n, TEXT_MAX) : 0,
                 end = last ? n : first_bytes(text, n, TEXT_MAX);
    return add_text(f, ids, text + at, end - at, e);
}

/* Set *text to a member of a file: a string [n]; `fallback` if it is absent. */
static int read_member(const struct json *file, const char *name, size_t i, const char *fallback,
                       const char **text, size_t *n, struct err *e)
{
    const struct json *given = body_field(file, name);
    *text = given ? json_text(given, n) : fallback;
    if (!given && fallback) *n = strlen(fallback);
    if (*text) return 0;
    return err_field(e, ERR_ARG, "input_extra", "[%zu].%s: expected a string, got %s", i, name,
                     json_kind_name(json_kind(given)));
}

/* Append file i of the list with its name or a separator. n_max: bytes of its text, the last
 * ones. */
static int add_file(struct infill *f, const struct json *list, size_t i, size_t n_max,
                    struct err *e)
{
    const struct json *file = json_item(list, i);
    const int32_t mark = f->marks->id[FIM_FILE];
    const char *name, *text;
    size_t n_name, n;
    int rc = read_member(file, "filename", i, other_name, &name, &n_name, e);
    if (rc == 0) rc = read_member(file, "text", i, NULL, &text, &n, e);
    if (rc == 0 && mark < 0) rc = add_text(f, &f->extra, snippet, strlen(snippet), e);
    if (rc == 0 && mark >= 0) {
        struct buf line = {0};
        buf_add(&line, name, first_bytes(name, n_name, TEXT_MAX));
        buf_add_char(&line, '\n');
        rc = line.failed ? err_memory(e, "a prompt", n_name) : add_id(&f->extra, mark, e);
        if (rc == 0) rc = add_text(f, &f->extra, line.data, line.n, e);
        buf_deinit(&line);
    }
    if (rc != 0) return rc;
    const size_t at = last_bytes(text, n, n_max);
    return add_text(f, &f->extra, text + at, n - at, e);
}

/* Return the length of the text of item i; 0 if it has none. */
static size_t file_bytes(const struct json *list, size_t i)
{
    size_t n = 0;
    return json_text(json_field(json_item(list, i), "text"), &n) ? n : 0;
}

/* Check the kinds of the list and its items. */
static int check_extra(const struct json *list, struct err *e)
{
    if (list && json_kind(list) != JK_LIST)
        return body_wrong("input_extra", "a list of objects", list, e);
    if (json_count(list) > EXTRA_MAX)
        return err_field(e, ERR_LIMIT, "input_extra", ": must have at most %d entries, got %zu",
                         EXTRA_MAX, json_count(list));
    for (size_t i = 0; i < json_count(list); i++)
        if (json_kind(json_item(list, i)) != JK_OBJECT)
            return err_field(e, ERR_ARG, "input_extra", "[%zu]: expected an object, got %s", i,
                             json_kind_name(json_kind(json_item(list, i))));
    return 0;
}

/* Make f->extra. Files that cannot fit into the context are left out, the first ones first. */
static int read_extra(struct infill *f, const struct json *body, struct err *e)
{
    const struct json *list = body_field(body, "input_extra");
    const struct llamacpp_marks *m = f->marks;
    const size_t n_max = (size_t)f->a->session->info->context_max * TOKEN_BYTES;
    size_t n = 0, first = json_count(list);
    int rc = check_extra(list, e);
    while (rc == 0 && first > 0 && n < n_max) n += file_bytes(list, --first);
    if (rc == 0 && m->id[FIM_REPO] >= 0) rc = add_id(&f->extra, m->id[FIM_REPO], e);
    if (rc == 0 && m->id[FIM_REPO] >= 0)
        rc = add_text(f, &f->extra, repo_name, strlen(repo_name), e);
    for (size_t i = first; rc == 0 && i < json_count(list); i++)
        rc = add_file(f, list, i, n_max, e);
    if (rc == 0 && m->id[FIM_FILE] >= 0) rc = add_id(&f->extra, m->id[FIM_FILE], e);
    if (rc == 0 && m->id[FIM_FILE] >= 0)
        rc = add_text(f, &f->extra, file_name, strlen(file_name), e);
    return rc;
}

/* Return the smaller number; 0 if it is negative. */
static size_t at_most(size_t n, int64_t max)
{
    return max <= 0 ? 0 : n < (size_t)max ? n : (size_t)max;
}

/* Append the text before the gap: the last n_prefix ids of the prefix, and the prompt. */
static int add_before(const struct infill *f, struct ids *to, size_t n_prefix, struct err *e)
{
    int rc = add_id(to, f->marks->id[FIM_PREFIX], e);
    if (rc == 0) rc = add_ids(to, &f->prefix, f->prefix.n - n_prefix, n_prefix, e);
    return rc ? rc : add_ids(to, &f->prompt, 0, f->prompt.n, e);
}

/* Append the first n_suffix ids of the text after the gap. */
static int add_after(const struct infill *f, struct ids *to, size_t n_suffix, struct err *e)
{
    int rc = add_id(to, f->marks->id[FIM_SUFFIX], e);
    return rc ? rc : add_ids(to, &f->suffix, 0, n_suffix, e);
}

/* Append the texts around the gap in the order of the model's family. */
static int add_gap(const struct infill *f, struct ids *to, size_t n_prefix, size_t n_suffix,
                   struct err *e)
{
    int rc = f->marks->suffix_first ? add_after(f, to, n_suffix, e) : 0;
    if (rc == 0) rc = add_before(f, to, n_prefix, e);
    if (rc != 0 || f->marks->suffix_first) return rc;
    rc = add_after(f, to, n_suffix, e);
    return rc ? rc : add_id(to, f->marks->id[FIM_MIDDLE], e);
}

/* Set the prompt of the request, with llama.cpp's shares: at most 3/4 of the rows for the prefix,
 * and 1/4 for suffix and prompt. Other files get the rest of the context. */
static int join(const struct infill *f, struct request *r, struct err *e)
{
    const struct session *s = f->a->session;
    const int64_t context = s->info->context_max, rows = ROWS < context / 2 ? ROWS : context / 2,
                  n_answer = r->max_tokens < context ? r->max_tokens : 0;
    const size_t n_prefix = at_most(f->prefix.n, rows / 4 * 3),
                 n_suffix = at_most(f->suffix.n, rows / 4 - 2 - (int64_t)f->prompt.n),
                 n_extra = at_most(f->extra.n,
                                   context - rows - 2 * n_answer - (n_answer ? 0 : context / 8));
    struct ids *to = &r->prompt;
    int rc = 0;
    if (tokenizer_adds_bos(s->tokenizer)) rc = add_id(to, tokenizer_bos(s->tokenizer), e);
    if (rc == 0) rc = add_ids(to, &f->extra, f->extra.n - n_extra, n_extra, e);
    return rc ? rc : add_gap(f, to, n_prefix, n_suffix, e);
}

/* Add the marks that end an answer to the request's stop tokens. */
static int add_stops(struct request *r, const struct llamacpp_marks *marks, struct arena *keep,
                     struct err *e)
{
    static const enum fim ends[] = {FIM_REPO, FIM_FILE, FIM_PAD};
    struct sample_params *p = &r->params;
    int32_t *ids = arena_push0(keep, (size_t)p->n_stop_id + N_FIM, sizeof *ids);
    if (!ids) return err_memory(e, "stop_token_ids", N_FIM * sizeof *ids);
    if (p->n_stop_id) memcpy(ids, p->stop_id, (size_t)p->n_stop_id * sizeof *ids);
    p->stop_id = ids;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (marks->id[ends[i]] >= 0) ids[p->n_stop_id++] = marks->id[ends[i]];
    return 0;
}

/* Read `prompt`, the beginning of the answer's line, which may have marks. */
static int read_prompt(struct infill *f, const struct json *body, struct err *e)
{
    const struct json *given = body_field(body, "prompt");
    size_t n;
    const char *text = json_text(given, &n);
    if (!given) return 0;
    if (!text) return body_wrong("prompt", "a string", given, e);
    if (n > TEXT_MAX)
        return err_field(e, ERR_LIMIT, "prompt", ": must have at most %d bytes, got %zu",
                         (int)TEXT_MAX, n);
    return tokenizer_encode(f->a->session->tokenizer, text, n, ENCODE_PARSE_SPECIAL, &f->prompt, e);
}

/* Return the name of a mark that the vocabulary must have but does not; NULL if none. */
static const char *missing_mark(const struct llamacpp_marks *marks)
{
    static const char *const names[] = {"prefix", "suffix", "middle"};
    const int last = marks->suffix_first ? FIM_SUFFIX : FIM_MIDDLE;
    for (int i = FIM_PREFIX; i <= last; i++)
        if (marks->id[i] < 0) return names[i];
    return NULL;
}

struct llamacpp_marks llamacpp_marks(const struct tokenizer *t)
{
    struct llamacpp_marks marks = {.suffix_first = tokenizer_fim_suffix_first(t)};
    for (int i = 0; i < N_FIM; i++) marks.id[i] = tokenizer_fim(t, (enum fim)i);
    return marks;
}

int llamacpp_gap_open(struct llamacpp_gap *g, const struct api_call *c,
                      const struct llamacpp_marks *marks, const char *suffix, size_t n,
                      struct err *e)
{
    const char *missing = missing_mark(marks);
    *g = (struct llamacpp_gap){.marks = *marks};
    if (missing)
        return err_field(e, ERR_UNSUPPORTED, "suffix",
                         ": the model has no token for the %s of a gap", missing);
    int rc = check_bytes_fit(c, "suffix", n, e);
    if (rc == 0) rc = tokenizer_encode(c->api->session->tokenizer, suffix, n, 0, &g->suffix, e);
    const int context = c->api->session->info->context_max;
    if (rc != 0 || g->suffix.n <= (size_t)context) return rc;
    rc = err_field(e, ERR_LIMIT, "suffix",
                   ": This model's maximum context length is %d tokens. However, the request has "
                   "%zu tokens after the gap, which is too large. Shorten the suffix.",
                   context, g->suffix.n);
    return err_figures(e, rc, (long long)g->suffix.n, context);
}

void llamacpp_gap_close(struct llamacpp_gap *g)
{
    vec_deinit(&g->suffix);
}

/* Put the prompt's ids of r and the text after the gap between the marks. */
static int fill(struct request *r, const struct api *a, const struct llamacpp_gap *g, struct err *e)
{
    const struct infill f = {.a = a, .marks = &g->marks, .prefix = r->prompt, .suffix = g->suffix};
    const struct tokenizer *t = a->session->tokenizer;
    struct ids to = {0};
    const bool bos = f.prefix.n > 0 && tokenizer_adds_bos(t) && f.prefix.v[0] == tokenizer_bos(t);
    int rc = bos ? add_id(&to, f.prefix.v[0], e) : 0;
    if (rc == 0) rc = add_gap(&f, &to, f.prefix.n - bos, f.suffix.n, e);
    if (rc != 0) {
        vec_deinit(&to);
        return rc;
    }
    vec_deinit(&r->prompt);
    r->prompt = to;
    return 0;
}

/* All parts have the stop tokens of the first, so one longer list is enough (part_read). */
int llamacpp_fill(struct api_call *c, const struct llamacpp_gap *g, struct err *e)
{
    const size_t n_copied = g->suffix.n * (size_t)c->n_part; /* both are small numbers */
    if (n_copied > COPIED_MAX)
        return err_field(e, ERR_LIMIT, "suffix",
                         ": must have at most %d tokens in all prompts together, got %zu",
                         (int)COPIED_MAX, n_copied);
    const struct sample_params *first = &c->part->request->params;
    int rc = add_stops(c->part->request, &g->marks, &c->lists, e);
    for (int i = 0; rc == 0 && i < c->n_part; i++) {
        struct request *r = c->part[i].request;
        r->params.stop_id = first->stop_id;
        r->params.n_stop_id = first->n_stop_id;
        rc = fill(r, c->api, g, e);
    }
    return rc;
}

int llamacpp_infill(struct request *r, const struct api *a, const struct llamacpp_marks *marks,
                    const struct json *body, struct arena *keep, struct err *e)
{
    struct infill f = {.a = a, .marks = marks};
    const char *missing = missing_mark(marks);
    if (missing)
        return err_field(e, ERR_UNSUPPORTED, "model",
                         ": Infill is not supported by this model: %s token is missing.", missing);
    int rc = read_side(&f, &f.prefix, body, "input_prefix", true, e);
    if (rc == 0) rc = read_side(&f, &f.suffix, body, "input_suffix", false, e);
    if (rc == 0) rc = read_prompt(&f, body, e);
    if (rc == 0) rc = read_extra(&f, body, e);
    if (rc == 0) rc = join(&f, r, e);
    if (rc == 0) rc = add_stops(r, marks, keep, e);
    vec_deinit(&f.prefix);
    vec_deinit(&f.prompt);
    vec_deinit(&f.suffix);
    vec_deinit(&f.extra);
    return rc;
}
