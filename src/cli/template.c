/* template.c - quoth template: render a conversation as the model's prompt, byte for byte.
 *
 * The output has no newline at its end, so it can be compared with the prompt of another program.
 * The command uses the reader and the template of requests, so the result is the prompt of a
 * server. */
#include "answer.h"

#include "base/os.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { CONVERSATION_BYTES_MAX = 64 << 20 };

static bool no_generation_prompt;

static const struct option options[] = {
    FLAG_OPTION("no-generation-prompt", &no_generation_prompt,
                "end the prompt without the beginning of the assistant's turn"),
    OPTIONS_OF(chat_options),
    OPTIONS_END,
};

/* Only the header of a model is read. *c is NULL for a .jinja file, which has no special tokens. */
int chat_template_of(struct template **t, struct checkpoint **c, const char *path, struct err *e)
{
    *t = NULL;
    *c = NULL;
    if (text_ends_with(path, ".jinja")) return chat_template_file(t, path, e);
    int rc = checkpoint_open_header(c, path, e);
    if (rc == 0) rc = chat_template(t, *c, session_flags.chat_template, e);
    if (rc != 0 || *t) return rc;
    char missing[CHAT_MISSING_BYTES];
    chat_missing(missing, *c);
    return err_set(e, ERR_MISSING, "%s: %s", path, missing);
}

/* The template and its variables. All are owned. */
struct template_source {
    struct checkpoint *checkpoint;
    struct tokenizer *tokenizer;
    struct template *template;
};

/* Open a template's source. The caller calls source_close also after an error. */
static int source_open(struct template_source *s, const char *path, struct err *e)
{
    *s = (struct template_source){0};
    int rc = chat_template_of(&s->template, &s->checkpoint, path, e);
    if (rc == 0 && s->checkpoint) rc = tokenizer_open(&s->tokenizer, s->checkpoint, e);
    return rc;
}

/* Close a source, which may be half-open. */
static void source_close(struct template_source *s)
{
    template_close(s->template);
    tokenizer_close(s->tokenizer);
    checkpoint_close(s->checkpoint);
}

/* Parse a file as JSON. An error names the file. */
static int read_conversation(struct json **root, const char *path, struct err *e)
{
    struct buf text = {0};
    *root = NULL;
    int rc = file_read(&text, path, CONVERSATION_BYTES_MAX, e);
    if (rc == 0) {
        rc = json_parse(root, text.data ? text.data : "", text.n, NULL, e);
        if (rc != 0) err_prefix(e, rc, "%s", path);
    }
    buf_deinit(&text);
    return rc;
}

/* Insert --system before the messages if they have no system message. */
static int with_system(struct json **root, const struct json *messages, struct err *e)
{
    struct buf b = {0};
    buf_add_text(&b, "[{\"role\":\"system\",\"content\":");
    json_put_text(&b, chat_system(), strlen(chat_system()));
    buf_add_char(&b, '}');
    for (size_t i = 0; i < json_count(messages); i++) {
        buf_add_char(&b, ',');
        json_put(&b, json_item(messages, i));
    }
    buf_add_char(&b, ']');
    int rc = b.failed ? err_memory(e, "messages", b.n) : json_parse(root, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

/* Read a list of messages, or an object like the body of a request. The object's members have
 * precedence over the flags. The caller owns *messages and *kwargs; NULL if not needed. */
static int conversation_read(struct conversation *c, const struct json *root,
                             struct json **messages, struct json **kwargs, struct err *e)
{
    bool is_list = json_kind(root) == JK_LIST;
    const struct json *list = is_list ? root : json_field(root, "messages");
    if (json_kind(list) != JK_LIST)
        return err_set(e, ERR_ARG,
                       "expected a list of messages, or an object with \"messages\", got %s",
                       json_kind_name(json_kind(is_list ? list : root)));
    int rc = chat_system() ? with_system(messages, list, e) : 0;
    if (rc == 0) rc = chat_kwargs(kwargs, &session_flags, e);
    if (rc == 0) rc = chat_now(&c->now, &session_flags, e);
    c->messages = *messages ? *messages : list;
    c->tools = json_field(root, "tools");
    c->documents = json_field(root, "documents");
    c->kwargs = json_field(root, "chat_template_kwargs");
    /* as in the server, variables of the conversation replace those of the flag as a whole */
    if (!c->kwargs) c->kwargs = *kwargs;
    c->add_generation_prompt =
        !no_generation_prompt && json_bool(json_field(root, "add_generation_prompt"), true);
    return rc;
}

/* Render the conversation. The special tokens of a .jinja file are empty, because there is no
 * tokenizer. */
static int render(const struct template_source *s, const struct json *root, struct buf *out,
                  struct err *e)
{
    struct chat_special special;
    struct json *messages = NULL, *kwargs = NULL;
    chat_special(&special, s->checkpoint, s->tokenizer);
    struct conversation c = {.token = special.v, .n_token = special.n};
    int rc = conversation_read(&c, root, &messages, &kwargs, e);
    if (rc == 0) rc = template_render(s->template, &c, out, NULL, e);
    json_drop(messages);
    json_drop(kwargs);
    return rc;
}

static int run(int n_arg, char **arg)
{
    if (n_arg != 2)
        return fprintf(
                   stderr,
                   "quoth template: usage: quoth template MODEL|FILE.jinja CONVERSATION.json\n"),
               2;
    struct err e = {0};
    struct template_source s;
    struct json *root = NULL;
    struct buf out = {0};
    int rc = source_open(&s, arg[0], &e);
    if (rc == 0) rc = read_conversation(&root, arg[1], &e);
    if (rc == 0) rc = render(&s, root, &out, &e);
    if (rc == 0 && out.n) fwrite(out.data, 1, out.n, stdout);
    buf_deinit(&out);
    json_drop(root);
    source_close(&s);
    return rc ? fail("template", &e) : 0;
}

const struct command command_template = {
    .name = "template",
    .summary = "print the rendered prompt of a conversation",
    .usage = "MODEL|FILE.jinja CONVERSATION.json [OPTIONS]",
    .detail = "CONVERSATION is a list of messages in OpenAI's form, or an object with messages, "
              "tools, documents, chat_template_kwargs and add_generation_prompt. CONVERSATION - is "
              "standard input.",
    .options = options,
    .arg_max = 2,
    .run = run,
};
