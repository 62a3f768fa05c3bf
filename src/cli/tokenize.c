/* tokenize.c - quoth tokenize: convert text to ids and back, for scripts and tests.
 *
 *    quoth tokenize MODEL            text    -> "1 15043 3186"
 *    quoth tokenize MODEL --json     text    -> [1, 15043, 3186]
 *    quoth tokenize MODEL --jsonl    "text"  -> [1, 15043, 3186], line by line
 *    quoth tokenize MODEL --decode   ids     -> text
 *
 * Only the tokenizer is opened, unless a model without logits would get other tokens than a model
 * with them. MODEL may be a file without weights. */
#include "cli.h"

#include "base/json.h"
#include "base/os.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* a corpus of tests may be large, and is read into memory as a whole */
enum { INPUT_BYTES_MAX = 1 << 30 };

static bool by_line, decode, no_special, as_json;
static const char *hint;
static unsigned flags; /* flags of encoding */

static const struct option options[] = {
    FLAG_OPTION("jsonl", &by_line,
                "read one JSON string per line (with --decode: one list of ids)"),
    FLAG_OPTION("decode", &decode, "convert ids on standard input to text"),
    FLAG_OPTION("no-special", &no_special,
                "add neither BOS nor EOS, and read special tokens in the text as text"),
    FORM_OPTION("family", "NAME", &hint, tokenizer_family_form,
                "pre-tokenizer of a .tiktoken file: llama-3, qwen2, o200k, cl100k, ..."),
    FLAG_OPTION("json", &as_json, "print a JSON list of ids (and pieces)"),
    OPTIONS_END,
};

/* Print "1 15043" for people, or "[1, 15043]" for programs. */
static void print_ids(const struct ids *ids)
{
    bool list = by_line || as_json;
    if (list) printf("[");
    for (size_t i = 0; i < ids->n; i++) printf("%s%d", i == 0 ? "" : list ? ", " : " ", ids->v[i]);
    printf(list ? "]\n" : "\n");
}

/* Return the flags of encoding. By default they are those of a prompt: with BOS, and with special
 * tokens parsed. */
static unsigned flags_of(const struct tokenizer *t, const char *path)
{
    if (no_special) return 0;
    return ENCODE_PARSE_SPECIAL |
           session_added(true, tokenizer_adds_bos(t) && session_is_headless(path));
}

/* Print the ids of a text. */
static int encode_one(const struct tokenizer *t, const char *text, size_t n, struct err *e)
{
    struct ids ids = {0};
    int rc = tokenizer_encode(t, text, n, flags, &ids, e);
    if (rc == 0) print_ids(&ids);
    vec_deinit(&ids);
    return rc;
}

/* Parse ids in both forms of print_ids, so that the output of one run is the input of another. */
static int read_ids(const char *text, struct ids *ids, struct err *e)
{
    for (const char *p = text;;) {
        p += strspn(p, " ,\t\r\n[]");
        if (!*p) return 0;
        char *end;
        long id = strtol(p, &end, 10);
        if (end == p || id < 0 || id > INT32_MAX)
            return err_set(e, ERR_ARG, "expected a token id, got \"%.20s\"", p);
        if (!vec_push(ids, (int32_t)id)) return err_memory(e, "ids", ids->n * 4);
        p = end;
    }
}

/* Reject ids outside of the vocabulary, which tokenizer_decode does not allow. */
static int check_ids(const struct tokenizer *t, const struct ids *ids, struct err *e)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->v[i] >= tokenizer_n_vocab(t))
            return err_set(e, ERR_ARG, "out of vocabulary: expected a token id below %d, got %d",
                           tokenizer_n_vocab(t), ids->v[i]);
    return 0;
}

/* Print the text of ids byte for byte. With --jsonl, print the text as a JSON string, because a
 * text may contain newlines. */
static int decode_one(const struct tokenizer *t, const char *text, struct err *e)
{
    struct ids ids = {0};
    struct buf out = {0}, quoted = {0};
    int rc = read_ids(text, &ids, e);
    if (rc == 0) rc = check_ids(t, &ids, e);
    if (rc == 0 && !tokenizer_decode(t, ids.v, ids.n, no_special ? DECODE_SKIP_SPECIAL : 0, &out))
        rc = err_memory(e, "text", out.n);
    if (rc == 0 && by_line) {
        json_put_text(&quoted, out.data ? out.data : "", out.n);
        buf_add_char(&quoted, '\n');
        rc = print_out(&quoted, e);
    } else if (rc == 0) {
        rc = print_out(&out, e);
    }
    buf_deinit(&out);
    vec_deinit(&ids);
    return rc;
}

/* Print the ids of a JSON string. In contrast to a plain line, a JSON string can contain newlines
 * and NULs. */
static int encode_line(const struct tokenizer *t, const char *line, struct err *e)
{
    struct json *j;
    int rc = json_parse(&j, line, strlen(line), NULL, e);
    if (rc != 0) return rc;
    size_t n;
    const char *text = json_text(j, &n);
    rc = text ? encode_one(t, text, n, e)
              : err_set(e, ERR_FORMAT, "expected a JSON string, got %s",
                        json_kind_name(json_kind(j)));
    json_drop(j);
    return rc;
}

/* Stop at the first error, with the number of the line. Empty lines are skipped. */
static int each_line(const struct tokenizer *t, char *text, struct err *e)
{
    int number = 0;
    for (char *line; (line = strsep(&text, "\n"));) {
        number++;
        if (!*line) continue;
        int rc = decode ? decode_one(t, line, e) : encode_line(t, line, e);
        if (rc != 0) return err_prefix(e, rc, "line %d", number);
    }
    return 0;
}

/* Run the command. The file of a tokenizer is enough, so no weights are mapped. */
static int run(int n_arg, char **arg)
{
    struct err e = {0};
    if (n_arg != 1)
        return fprintf(stderr,
                       "quoth tokenize: MODEL is missing; usage: quoth tokenize MODEL < TEXT\n"),
               2;
    struct tokenizer *t = NULL;
    struct buf text = {0};
    int rc = tokenizer_open_file(&t, arg[0], hint, &e);
    if (rc == 0 && !decode) flags = flags_of(t, arg[0]);
    if (rc == 0) rc = file_read(&text, "-", INPUT_BYTES_MAX, &e);
    if (rc == 0 && by_line)
        rc = each_line(t, text.data, &e);
    else if (rc == 0)
        rc = decode ? decode_one(t, text.data, &e) : encode_one(t, text.data, text.n, &e);
    buf_deinit(&text);
    tokenizer_close(t);
    return rc ? fail("tokenize", &e) : 0;
}

const struct command command_tokenize = {
    .name = "tokenize",
    .summary = "convert text on standard input to token ids, or back",
    .usage = "MODEL [OPTIONS] < TEXT",
    .detail = "MODEL is a model file or folder, or a tokenizer file: tokenizer.json, a "
              "SentencePiece .model, a .tiktoken file.",
    .options = options,
    .arg_max = 1,
    .run = run,
};
