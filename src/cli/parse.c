/* parse.c - quoth parse: what a model wrote -> the message that a client gets. */
#include "answer.h"

#include "base/os.h"

#include <string.h>

enum { OUTPUT_BYTE_MAX = 64 << 20 };

static const char *template_path, *tool_parser, *reasoning_parser, *prefix;

static const struct option options[] = {
    TEXT_OPTION("template", "FILE", &template_path,
                "a Jinja file or a model: the parsers that fit its template"),
    TEXT_OPTION("tool-call-parser", "NAME", &tool_parser,
                "how tool calls are written: hermes, ... (none: they stay content)"),
    TEXT_OPTION("reasoning-parser", "NAME", &reasoning_parser,
                "how reasoning is written: think, ... (none: it stays content)"),
    TEXT_OPTION("answer-prefix", "TEXT", &prefix,
                "what the prompt had begun of the answer, e.g. \"<think>\""),
    OPTIONS_END,
};

static int parsers_of(const char *path, struct err *e)
{
    struct template *t = NULL;
    struct checkpoint *c = NULL;
    int rc = chat_template_of(&t, &c, path, e);
    if (rc == 0 && !tool_parser) tool_parser = chat_tool_parser_of(t);
    if (rc == 0 && !reasoning_parser) reasoning_parser = chat_reasoning_parser_of(t);
    template_close(t);
    checkpoint_close(c);
    return rc;
}

static int parse(const struct buf *text, struct chat_message *m, struct err *e)
{
    struct chat_parser *p = NULL;
    int rc = chat_parser_open(&p, tool_parser, reasoning_parser, e);
    if (rc == 0) {
        if (prefix) chat_parser_push(p, prefix, strlen(prefix), NULL, NULL);
        chat_parser_push(p, text->data ? text->data : "", text->n, chat_message_add, m);
        chat_parser_finish(p, chat_message_add, m);
    }
    chat_parser_close(p);
    return rc;
}

static int run(int n_arg, char **arg)
{
    (void)arg;
    if (n_arg != 0 || (!template_path && !tool_parser && !reasoning_parser))
        return fprintf(stderr, "quoth parse: how? usage: quoth parse --template "
                               "FILE|--tool-call-parser NAME < TEXT\n"),
               2;
    struct err e = {0};
    struct buf text = {0}, out = {0};
    struct chat_message m = {0};
    int rc = template_path ? parsers_of(template_path, &e) : 0;
    if (rc == 0) rc = file_read(&text, "-", OUTPUT_BYTE_MAX, &e);
    if (rc == 0) rc = parse(&text, &m, &e);
    if (rc == 0) {
        message_put(&out, &m);
        buf_add_char(&out, '\n');
        rc = out.failed ? err_memory(&e, "a message", out.n) : 0;
    }
    if (rc == 0) fwrite(out.data, 1, out.n, stdout);
    chat_message_deinit(&m);
    buf_deinit(&out);
    buf_deinit(&text);
    return rc ? fail("parse", &e) : 0;
}

const struct command command_parse = {
    .name = "parse",
    .summary = "model output on standard input -> a message in OpenAI's form",
    .usage = "--template FILE|--tool-call-parser NAME [--reasoning-parser NAME] < TEXT",
    .options = options,
    .n_arg_max = 0,
    .run = run,
};
