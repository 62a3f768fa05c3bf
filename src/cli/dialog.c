/* dialog.c - a conversation, turn by turn.
 *
 *   messages --template_render--> prompt --continue_prompt--> ids --answer_generate--> raw text
 *      ^                                                                                  |
 *      +------------------------------ message_put <--chat parser-------------------------+
 *
 * The engine finds cached prefixes by token ids, a page at a time, so a turn must not change the
 * ids of earlier turns. Two effects would change these ids. Text that was tokenized in one piece
 * may have other tokens if more text follows. A model may write other tokens than the tokenizer
 * gives for its text. Therefore (text, ids) of the last prompt and answer are kept. Only the new
 * text is tokenized if the next rendering begins with that text. A template may render an answer
 * differently from the model's output. For example, reasoning is often omitted. The kept part is
 * then the last prompt, or empty. */
#include "answer.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum { CONVERSATION_BYTES_MAX = 64 << 20 };

/* A raw dialog has no template, so d->chat remains zeroed. All functions test d->chat.t. */
int dialog_open(struct dialog *d, struct session *s, bool raw, struct err *e)
{
    *d = (struct dialog){.s = s};
    if (raw) return 0;
    int rc = chat_open(&d->chat, s, &session_flags, e);
    if (rc == 0 && chat_system()) rc = dialog_system(d, chat_system(), e);
    return rc;
}

void dialog_close(struct dialog *d)
{
    chat_close(&d->chat);
    json_drop(d->tools);
    free(d->system);
    buf_deinit(&d->messages);
    buf_deinit(&d->text);
    vec_deinit(&d->ids);
    *d = (struct dialog){0};
}

/* The kept text and ids remain, because a new conversation may begin with the same system
 * prompt. */
void dialog_clear(struct dialog *d)
{
    buf_clear(&d->messages);
}

int dialog_system(struct dialog *d, const char *text, struct err *e)
{
    char *copy = *text ? strdup(text) : NULL;
    if (*text && !copy) return err_memory(e, "a system prompt", strlen(text));
    free(d->system);
    d->system = copy;
    return 0;
}

int dialog_tools(struct dialog *d, const char *list, struct err *e)
{
    json_drop(d->tools);
    d->tools = NULL;
    return list ? json_parse(&d->tools, list, strlen(list), NULL, e) : 0;
}

/* Set the template variable enable_thinking, and keep the other variables. Models with switchable
 * reasoning use this name. */
int dialog_think(struct dialog *d, bool on, struct err *e)
{
    struct buf b = {0};
    struct json *kwargs = NULL;
    static const char name[] = "enable_thinking";
    buf_add_char(&b, '{');
    for (void *it = json_first(d->chat.kwargs); it; it = json_next(d->chat.kwargs, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        if (n == sizeof name - 1 && memcmp(key, name, n) == 0) continue;
        json_put_text(&b, key, n);
        buf_add_char(&b, ':');
        json_put(&b, json_it_value(it));
        buf_add_char(&b, ',');
    }
    buf_addf(&b, "\"%s\":%s}", name, on ? "true" : "false");
    int rc = b.failed ? err_memory(e, "template variables", b.n)
                      : json_parse(&kwargs, b.data, b.n, NULL, e);
    buf_deinit(&b);
    if (rc != 0) return rc;
    json_drop(d->chat.kwargs);
    d->chat.kwargs = kwargs;
    return 0;
}

/* ---- messages ---- */

/* Append {"role":"user","content":"..."}. */
static void put_message(struct buf *b, const char *role, const char *text, size_t n)
{
    buf_addf(b, "{\"role\":\"%s\",\"content\":", role);
    json_put_text(b, text, n);
    buf_add_char(b, '}');
}

/* Separate the next message from the previous one. The newline makes a saved file readable. */
static void add_comma(struct buf *b)
{
    if (b->n > 0) buf_add_text(b, ",\n");
}

/* Append all messages, the system prompt first, as a JSON list. */
static void put_conversation(const struct dialog *d, struct buf *b)
{
    buf_add_char(b, '[');
    if (d->system) put_message(b, "system", d->system, strlen(d->system));
    if (d->system && d->messages.n) buf_add_text(b, ",\n");
    if (d->messages.n) buf_add(b, d->messages.data, d->messages.n);
    buf_add_text(b, "]\n");
}

/* Remove the messages after byte n, after a failed or cancelled answer. */
static void take_back(struct dialog *d, size_t n)
{
    /* the buffer is cut, not parsed: an exchange is always appended at the end */
    d->messages.n = n;
    d->messages.failed = false;
    if (d->messages.data) d->messages.data[n] = 0;
}

int dialog_save(const struct dialog *d, const char *path, struct err *e)
{
    struct buf b = {0};
    put_conversation(d, &b);
    int rc = b.failed ? err_memory(e, "a conversation", b.n) : file_write(path, b.data, b.n, e);
    buf_deinit(&b);
    return rc;
}

/* ---- the last exchange ---- */

/* Parse the messages, without the system prompt. Set *n to the index of the last user message. */
static int find_last(const struct dialog *d, struct json **list, size_t *n, struct err *e)
{
    struct buf b = {0};
    *list = NULL;
    buf_add_char(&b, '[');
    if (d->messages.n) buf_add(&b, d->messages.data, d->messages.n);
    buf_add_char(&b, ']');
    int rc = b.failed ? err_memory(e, "messages", b.n) : json_parse(list, b.data, b.n, NULL, e);
    buf_deinit(&b);
    for (*n = json_count(*list); *n > 0; (*n)--) {
        const char *role = json_text(json_field(json_item(*list, *n - 1), "role"), NULL);
        if (role && strcmp(role, "user") == 0) break;
    }
    if (rc == 0 && *n == 0) rc = err_set(e, ERR_MISSING, "a message of the user is missing");
    if (rc == 0) (*n)--;
    return rc;
}

/* Replace the messages by the first n of the list. They are unchanged after a failure. */
static int keep_messages(struct dialog *d, const struct json *list, size_t n, struct err *e)
{
    struct buf b = {0};
    for (size_t i = 0; i < n; i++) {
        add_comma(&b);
        json_put(&b, json_item(list, i));
    }
    if (b.failed) {
        buf_deinit(&b);
        return err_memory(e, "messages", d->messages.n);
    }
    buf_deinit(&d->messages);
    d->messages = b;
    return 0;
}

/* text: buffer for the last user message, NULL if not needed. keep: do not remove the message. */
int dialog_undo(struct dialog *d, struct buf *text, bool keep, struct err *e)
{
    struct json *list;
    size_t n, n_text = 0;
    int rc = find_last(d, &list, &n, e);
    const char *content =
        rc == 0 ? json_text(json_field(json_item(list, n), "content"), &n_text) : NULL;
    if (text && content) buf_add(text, content, n_text);
    if (rc == 0 && text && text->failed) rc = err_memory(e, "a message", n_text);
    if (rc == 0 && !keep) rc = keep_messages(d, list, n, e);
    json_drop(list);
    return rc;
}

/* Add a message of a file. The first message may be the system prompt, which the dialog keeps
 * separately. */
static int load_message(struct buf *messages, char **system, const struct json *m, size_t i,
                        struct err *e)
{
    const char *role = json_text(json_field(m, "role"), NULL),
               *content = json_text(json_field(m, "content"), NULL);
    if (!role)
        return err_field(e, ERR_FORMAT, "messages", "[%zu].role: expected a string, got nothing",
                         i);
    if (i == 0 && content && strcmp(role, "system") == 0)
        return (*system = strdup(content)) ? 0 : err_memory(e, "a system prompt", strlen(content));
    add_comma(messages);
    json_put(messages, m);
    return messages->failed ? err_memory(e, "messages", messages->n) : 0;
}

int dialog_load(struct dialog *d, const char *path, size_t *n_message, struct err *e)
{
    struct json *root = NULL;
    struct buf messages = {0};
    char *system = NULL;
    int rc = json_read_file(&root, path, CONVERSATION_BYTES_MAX, e);
    const struct json *list = json_kind(root) == JK_LIST ? root : json_field(root, "messages");
    if (rc == 0 && json_kind(list) != JK_LIST)
        rc = err_set(e, ERR_FORMAT, "%s: expected a list of messages, got %s", path,
                     json_kind_name(json_kind(list ? list : root)));
    for (size_t i = 0; rc == 0 && i < json_count(list); i++) {
        rc = load_message(&messages, &system, json_item(list, i), i, e);
        if (rc != 0) err_prefix(e, rc, "%s", path);
    }
    /* the conversation is replaced only after the whole file was read, so a failure leaves it
     * unchanged */
    if (rc == 0) {
        *n_message = json_count(list);
        buf_deinit(&d->messages);
        free(d->system);
        d->messages = messages;
        d->system = system;
    } else {
        buf_deinit(&messages);
        free(system);
    }
    json_drop(root);
    return rc;
}

/* ---- the prompt ---- */

/* Render all messages to the prompt of the next answer. *turn describes the part of the prompt that
 * begins the answer. */
static int render(const struct dialog *d, struct buf *prompt, struct chat_turn *turn, struct err *e)
{
    struct buf text = {0};
    struct json *messages = NULL;
    put_conversation(d, &text);
    int rc = text.failed ? err_memory(e, "messages", text.n)
                         : json_parse(&messages, text.data, text.n, NULL, e);
    struct conversation c = {
        .messages = messages,
        .tools = d->tools,
        .kwargs = d->chat.kwargs,
        .token = d->chat.special.v,
        .n_token = d->chat.special.n,
        .add_generation_prompt = true,
        .now = d->chat.now,
    };
    if (rc == 0) rc = template_render(d->chat.t, &c, prompt, turn, e);
    json_drop(messages);
    buf_deinit(&text);
    return rc;
}

/* Return true if text begins with the first n_begin bytes of b. */
static bool begins_with(const char *text, size_t n, const struct buf *b, size_t n_begin)
{
    return n_begin <= n && (n_begin == 0 || memcmp(text, b->data, n_begin) == 0);
}

/* Set d->ids to the ids of `prompt`. Reuse as much as possible of the last turn, and tokenize only
 * the new text. */
static int continue_prompt(struct dialog *d, const char *prompt, size_t n, struct err *e)
{
    size_t n_text = d->text.n, n_id = d->ids.n;
    /* reuse the last prompt and answer, else the last prompt, else nothing */
    if (!begins_with(prompt, n, &d->text, n_text)) n_text = d->n_text_prompt, n_id = d->n_id_prompt;
    if (!begins_with(prompt, n, &d->text, n_text)) n_text = n_id = 0;
    d->ids.n = n_id;
    unsigned flags = ENCODE_PARSE_SPECIAL | (n_text ? ENCODE_CONTINUE : ENCODE_ADD_SPECIAL);
    int rc = tokenizer_encode(d->s->tokenizer, prompt + n_text, n - n_text, flags, &d->ids, e);
    buf_clear(&d->text);
    if (rc == 0) buf_add(&d->text, prompt, n);
    if (rc == 0 && d->text.failed) rc = err_memory(e, "a prompt", n);
    if (rc != 0) buf_clear(&d->text), d->ids.n = 0;
    d->n_text_prompt = d->text.n;
    d->n_id_prompt = d->ids.n;
    return rc;
}

/* Keep the answer's text and ids. Text and ids do not correspond if a stop text truncated the
 * answer inside a token. */
static void keep_answer(struct dialog *d, const struct answer *a)
{
    if (a->reply.matched) return;
    bool ok = vec_reserve(&d->ids, d->ids.n + a->ids.n);
    if (ok && a->text.n) buf_add(&d->text, a->text.data, a->text.n);
    if (ok && !d->text.failed)
        for (size_t i = 0; i < a->ids.n; i++) (void)vec_push(&d->ids, a->ids.v[i]);
    else
        d->text.n = d->n_text_prompt;
}

/* ---- the answer ---- */

/* Receiver of the model's output for the view and a message. */
struct dialog_reading {
    struct chat_parser *parser; /* owned */
    struct chat_message message;
    struct constraint *constraint; /* owned until the answer has it */
    struct view view;
    bool silent;
};

/* Add a parsed part of the answer to the message, and show it. */
static void take_delta(void *reading, const struct chat_delta *delta)
{
    struct dialog_reading *r = reading;
    chat_message_add(&r->message, delta);
    if (!r->silent) view_delta(&r->view, delta);
}

/* Receive raw text of the model (answer_fn). */
static void take_text(void *reading, const char *text, size_t n)
{
    struct dialog_reading *r = reading;
    if (r->parser)
        chat_parser_push(r->parser, text, n, take_delta, r);
    else if (!r->silent)
        view_text(&r->view, text, n);
}

/* Open the parser, and pass it the beginning of the answer that the prompt contains, such as
 * "<think>". The parser emits nothing for this beginning. A constraint may select other parsers. */
static int reading_open(struct dialog_reading *r, const struct dialog *d, const struct buf *prompt,
                        const struct chat_turn *turn, struct err *e)
{
    const struct chat *chat = d->chat.t ? &d->chat : NULL;
    const char *begun = chat ? prompt->data + prompt->n - turn->n_answer : NULL;
    size_t n_begun = chat ? turn->n_answer : 0;
    struct chat_parser_options o = {0};
    *r = (struct dialog_reading){.silent = d->as_json};
    view_begin(&r->view);
    int rc = flags_constrain(&r->constraint, d->s, chat, begun, n_begun, &o, e);
    if (rc == 0 && !chat) rc = flags_limit_reasoning(NULL, d->s, NULL, NULL, 0, e);
    if (rc != 0 || !chat) return rc;
    if (!r->constraint)
        o = (struct chat_parser_options){.tool_parser = chat->tool_parser,
                                         .reasoning_parser = chat->reasoning_parser};
    bool reasons = !r->constraint || o.reasoning_parser;
    if (reasons) rc = flags_limit_reasoning(&r->constraint, d->s, chat, begun, n_begun, e);
    if (rc != 0) return rc;
    rc = chat_parser_open(&r->parser, &o, e);
    if (rc == 0 && n_begun) chat_parser_push(r->parser, begun, n_begun, NULL, NULL);
    return rc;
}

/* Close the parser, and the constraint if no answer has taken it. */
static void reading_close(struct dialog_reading *r)
{
    chat_parser_close(r->parser);
    chat_message_deinit(&r->message);
    flags_close_constraint(r->constraint);
}

/* Generate the answer of d->ids. The parser is also finished after an error, so that the view shows
 * all text. */
static int generate(struct dialog *d, struct dialog_reading *r, struct answer *a, struct err *e)
{
    a->constraint = r->constraint;
    r->constraint = NULL;
    int rc = answer_generate(a, d->s, &d->ids, d->chat.t != NULL, take_text, r, e);
    if (r->parser) chat_parser_finish(r->parser, take_delta, r);
    if (rc == 0 && ((r->parser && chat_parser_failed(r->parser)) || r->message.failed))
        rc = err_memory(e, "a message", a->text.n);
    if (!r->silent) view_end(&r->view);
    if (rc == 0 && r->silent) rc = answer_print_json(a, d->chat.t ? &r->message : NULL, e);
    return rc;
}

/* Complete a text unchanged (--raw, or no template). */
static int complete(struct dialog *d, const char *text, size_t n, struct answer *a, struct err *e)
{
    struct dialog_reading r;
    d->ids.n = 0;
    int rc = reading_open(&r, d, NULL, NULL, e);
    if (rc == 0)
        rc = tokenizer_encode(d->s->tokenizer, text, n, ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL,
                              &d->ids, e);
    if (rc == 0) rc = generate(d, &r, a, e);
    reading_close(&r);
    return rc;
}

/* Answer the conversation, and append the answer as a message. The messages are unchanged after a
 * failure. */
static int answer_messages(struct dialog *d, struct answer *a, struct err *e)
{
    struct dialog_reading r = {0};
    struct buf prompt = {0};
    struct chat_turn turn = {0};
    int rc = render(d, &prompt, &turn, e);
    if (rc == 0) rc = continue_prompt(d, prompt.data ? prompt.data : "", prompt.n, e);
    if (rc == 0) rc = reading_open(&r, d, &prompt, &turn, e);
    if (rc == 0) rc = generate(d, &r, a, e);
    if (rc == 0) {
        keep_answer(d, a);
        add_comma(&d->messages);
        message_put(&d->messages, &r.message, os_random());
    }
    reading_close(&r);
    buf_deinit(&prompt);
    return rc;
}

/* Remove the last answer and generate another one. The previous messages are restored if the new
 * answer fails or is cancelled before its first text. */
int dialog_again(struct dialog *d, struct answer *a, struct err *e)
{
    struct json *list;
    struct buf former = {0};
    size_t n;
    int rc = find_last(d, &list, &n, e);
    if (rc == 0 && d->messages.n) buf_add(&former, d->messages.data, d->messages.n);
    if (rc == 0 && former.failed) rc = err_memory(e, "messages", d->messages.n);
    if (rc == 0) rc = keep_messages(d, list, n + 1, e);
    json_drop(list);
    if (rc == 0) {
        rc = answer_messages(d, a, e);
        if (rc == 0 && d->messages.failed) rc = err_memory(e, "messages", d->messages.n);
        if (rc != 0 || (a->reply.finish == FINISH_ABORT && a->text.n == 0)) {
            struct buf cut = d->messages;
            d->messages = former;
            former = cut;
        }
    }
    buf_deinit(&former);
    return rc;
}

/* An answer that was cancelled before its first text does not change the conversation. */
int dialog_send(struct dialog *d, const char *role, const char *text, size_t n, struct answer *a,
                struct err *e)
{
    if (!d->chat.t) return complete(d, text, n, a, e);
    size_t before = d->messages.n;
    add_comma(&d->messages);
    put_message(&d->messages, role, text, n);
    int rc = answer_messages(d, a, e);
    if (rc == 0 && d->messages.failed) rc = err_memory(e, "messages", d->messages.n);
    if (rc != 0 || (a->reply.finish == FINISH_ABORT && a->text.n == 0)) take_back(d, before);
    return rc;
}
