/* parse.c - quoth parse: convert a model's output to the message for a client.
 *
 * The input is the raw output, with special tokens as text. The result has the form of message.c.
 * The command tests a parser with recorded outputs, without a model.
 *
 * A parser must give the same message for any division of the text into pieces, which the unit
 * tests check. The command therefore passes the whole text at once. */
#include "answer.h"

#include "base/os.h"

#include <string.h>

enum { OUTPUT_BYTES_MAX = 64 << 20 };

static const char *template_path, *prefix;

static const struct option options[] = {
    TEXT_OPTION("template", "FILE", &template_path,
                "Jinja file or model whose template selects the parsers"),
    OPTIONS_OF(chat_parser_options),
    TEXT_OPTION("answer-prefix", "TEXT", &prefix,
                "beginning of the answer that the prompt contains, e.g. \"<think>\""),
    OPTIONS_END,
};

/* Select the parsers by the template or by the flags. The flags have precedence. */
static int parsers_of(struct chat *chat, const char *path, struct err *e)
{
    struct checkpoint *c = NULL;
    int rc = path ? chat_template_of(&chat->t, &c, path, e) : 0;
    if (rc == 0) rc = chat_parsers(chat, &session_flags, e);
    checkpoint_close(c);
    return rc;
}

/* Parse the whole text in one call. The prefix is parsed without a callback. The prefix sets the
 * parser's state, but is not part of the message. */
static int parse(const struct chat *chat, const struct buf *text, struct chat_message *m,
                 struct err *e)
{
    struct chat_parser *p = NULL;
    int rc = chat_parser_open(&p,
                              &(struct chat_parser_options){
                                  .tool_parser = chat->tool_parser,
                                  .reasoning_parser = chat->reasoning_parser,
                              },
                              e);
    if (rc == 0) {
        if (prefix) chat_parser_push(p, prefix, strlen(prefix), NULL, NULL);
        chat_parser_push(p, text->data ? text->data : "", text->n, chat_message_add, m);
        chat_parser_finish(p, chat_message_add, m);
        if (chat_parser_failed(p) || m->failed) rc = err_memory(e, "a message", text->n);
    }
    chat_parser_close(p);
    return rc;
}

static int run(int n_arg, char **arg)
{
    (void)arg;
    if (n_arg != 0 ||
        (!template_path && !session_flags.tool_call_parser && !session_flags.reasoning_parser))
        return fprintf(stderr,
                       "quoth parse: --template or --tool-call-parser is missing; usage: quoth "
                       "parse --template FILE|--tool-call-parser NAME < TEXT\n"),
               2;
    struct err e = {0};
    struct buf text = {0}, out = {0};
    struct chat_message m = {0};
    struct chat chat = {0};
    int rc = parsers_of(&chat, template_path, &e);
    if (rc == 0) rc = file_read(&text, "-", OUTPUT_BYTES_MAX, &e);
    if (rc == 0) rc = parse(&chat, &text, &m, &e);
    if (rc == 0) {
        message_put(&out, &m, 0); /* calls of equal texts get equal ids */
        buf_add_char(&out, '\n');
        rc = out.failed ? err_memory(&e, "a message", out.n) : 0;
    }
    if (rc == 0) fwrite(out.data, 1, out.n, stdout);
    chat_close(&chat);
    chat_message_deinit(&m);
    buf_deinit(&out);
    buf_deinit(&text);
    return rc ? fail("parse", &e) : 0;
}

const struct command command_parse = {
    .name = "parse",
    .summary = "convert model output on standard input to a message in OpenAI's form",
    .usage = "--template FILE|--tool-call-parser NAME [--reasoning-parser NAME] < TEXT",
    .options = options,
    .arg_max = 0,
    .run = run,
};
