/* prompt.c - make a request's prompt from a text, ids or a conversation.
 *
 *    text              tokenized, with the tokens that the tokenizer adds
 *    ids               used unchanged
 *    ids and texts     llama.cpp's form: only the first item gets the added tokens
 *    messages          rendered by the template, then tokenized as a text
 *
 * check_text_fits first compares a lower bound of a long text's number of tokens with the context.
 * All functions run on handler threads.
 *
 * A prompt that is too long is an error. quoth truncates a prompt only on request
 * (truncate_prompt_tokens). */
#include "openai.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Record a duration in the engine's statistics. Without an engine (rendering only), no duration is
 * recorded. */
void count_time(const struct api *a, enum times_id which, int64_t begin_us)
{
    if (a->session->engine)
        stats_time(engine_stats(a->session->engine), which, time_us() - begin_us);
}

/* Return the flags of encoding of a prompt. */
static unsigned flags_of(const struct request *r, bool add_special)
{
    return ENCODE_PARSE_SPECIAL | session_added(add_special, r->pooling != POOLING_NONE);
}

int api_prompt_text(struct request *r, const struct api *a, const char *text, size_t n,
                    bool add_special, struct err *e)
{
    const unsigned flags = flags_of(r, add_special);
    int64_t begin_us = time_us();
    r->prompt.n = 0;
    int rc = tokenizer_encode(a->session->tokenizer, text, n, flags, &r->prompt, e);
    count_time(a, TIMES_tokenize, begin_us);
    return rc;
}

/* Set r->pool_from to the number of tokens of a prompt that the pooling leaves out: the tokens of
 * the prompt alone, without a special token at its end, as in sentence-transformers. */
static int count_left_out(struct request *r, const struct api *a, const struct text_span *before,
                          bool add_special, struct err *e)
{
    const struct tokenizer *t = a->session->tokenizer;
    struct ids ids = {0};
    const unsigned flags = flags_of(r, add_special);
    int rc = tokenizer_encode(t, before->text, before->n, flags, &ids, e);
    r->pool_from = (int)ids.n - (ids.n > 0 && tokenizer_is_special(t, ids.v[ids.n - 1]));
    vec_deinit(&ids);
    return rc;
}

int api_prompt_after(struct request *r, const struct api *a, const struct text_span *before,
                     const struct text_span *text, bool add_special, struct err *e)
{
    struct buf b = {0};
    buf_add(&b, before->text, before->n);
    buf_add(&b, text->text, text->n);
    int rc = b.failed ? err_memory(e, "a prompt", b.n) : 0;
    if (rc == 0) rc = api_prompt_text(r, a, b.data ? b.data : "", b.n, add_special, e);
    if (rc == 0 && before->n > 0 && !a->session->info->include_prompt)
        rc = count_left_out(r, a, before, add_special, e);
    buf_deinit(&b);
    return rc;
}

int api_pair_after(struct request *r, const struct api *a, const struct text_span *before,
                   const struct text_span pair[2], int64_t n_max, struct err *e)
{
    struct buf first = {0};
    buf_add(&first, before->text, before->n);
    buf_add(&first, pair[0].text, pair[0].n);
    const char *const text[2] = {first.data ? first.data : "", pair[1].text};
    const size_t n[2] = {first.n, pair[1].n};
    const int rc = first.failed ? err_memory(e, "a prompt", before->n + pair[0].n)
                                : tokenizer_encode_pair(a->session->tokenizer, text, n, n_max,
                                                        &r->prompt, &r->segment1, e);
    buf_deinit(&first);
    return rc;
}

int api_prompt_ids(struct request *r, const int32_t *ids, size_t n, struct err *e)
{
    if (!vec_reserve(&r->prompt, n)) return err_memory(e, "a prompt", n * sizeof *ids);
    if (n) memcpy(r->prompt.v, ids, n * sizeof *ids);
    r->prompt.n = n;
    return 0;
}

/* ---- conversations ---- */

/* Set *out to a field of the given kind; NULL if absent. */
static int check_kind(const struct json *body, const char *name, enum json_kind kind,
                      const char *expected, const struct json **out, struct err *e)
{
    *out = body_field(body, name);
    return !*out || json_kind(*out) == kind ? 0 : body_wrong(name, expected, *out, e);
}

/* Set reasoning_effort to a static text, because the body is freed before the template is rendered
 * again. */
static int read_effort(struct conversation *c, const struct json *body, struct err *e)
{
    static const char *const known[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    const char *effort = NULL;
    int rc = body_text(body, "reasoning_effort", 16, &effort, e);
    if (rc != 0 || !effort) return rc;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i], effort) == 0) c->reasoning_effort = known[i];
    if (!c->reasoning_effort)
        return err_field(e, ERR_ARG, "reasoning_effort",
                         ": must be none, minimal, low, medium, high, xhigh or max, got \"%s\"",
                         effort);
    return 0;
}

/* Read the fields that select a new turn or a continuation of the last message. */
static int read_turn(struct conversation *c, const struct json *body, struct err *e)
{
    const struct json *last = json_item(c->messages, json_count(c->messages) - 1);
    const char *role = json_text(json_field(last, "role"), NULL);
    bool go_on = false, answer = c->add_generation_prompt;
    int rc = body_flag(body, "add_generation_prompt", &answer, e);
    if (rc == 0) rc = body_flag(body, "continue_final_message", &go_on, e);
    c->add_generation_prompt = answer;
    if (rc != 0 || !go_on) return rc;
    if (answer && body_field(body, "add_generation_prompt"))
        return err_field(e, ERR_ARG, "continue_final_message",
                         ": Cannot set both `continue_final_message` and "
                         "`add_generation_prompt` to True.");
    if (role && strcmp(role, "assistant") != 0)
        return err_field(e, ERR_ARG, "continue_final_message",
                         ": the last message must have the role "
                         "\"assistant\", got \"%.40s\"",
                         role);
    c->continue_final = CHAT_CONTINUE_AUTO;
    return 0;
}

/* Return true if the object has one of the members. */
static bool has_any(const struct json *object, const char *const *name, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) any |= body_field(object, name[i]) != NULL;
    return any;
}

/* Check a member that is compared with words. C code would compare a text with a NUL only up to the
 * NUL, but templates would compare the whole text. at: JSON path of the object. */
static int check_word(const struct json *object, const char *member, const char *at, struct err *e)
{
    size_t n;
    const char *word = json_text(json_field(object, member), &n);
    if (!word || strlen(word) == n) return 0;
    return err_field(e, ERR_ARG, "messages", "%s.%s: must not have a NUL, got one at byte %zu", at,
                     member, strlen(word));
}

/* Check the words of a message and of the parts of its content. */
static int check_words(const struct json *message, size_t i, struct err *e)
{
    static const char *const word[] = {"role", "name", "tool_call_id"};
    const struct json *content = json_field(message, "content");
    char at[64];
    int rc = 0;
    snprintf(at, sizeof at, "[%zu]", i);
    for (size_t k = 0; rc == 0 && k < sizeof word / sizeof *word; k++)
        rc = check_word(message, word[k], at, e);
    for (size_t k = 0; rc == 0 && json_kind(content) == JK_LIST && k < json_count(content); k++) {
        snprintf(at, sizeof at, "[%zu].content[%zu]", i, k);
        rc = check_word(json_item(content, k), "type", at, e);
    }
    return rc;
}

/* Check a message's content, which is a string, a list of parts, or null. Templates treat numbers
 * and objects in different ways. */
static int check_content(const struct json *message, size_t i, struct err *e)
{
    const struct json *content = body_field(message, "content");
    if (!content || json_kind(content) == JK_TEXT || json_kind(content) == JK_LIST) return 0;
    return err_field(e, ERR_ARG, "messages",
                     "[%zu].content: expected a string or a list of parts, got %s", i,
                     json_kind_name(json_kind(content)));
}

/* Check a call of a message. Some clients write the members of "function" into the call itself. The
 * arguments are JSON text or an object. These members may be null or absent. */
static int check_call(const struct json *call, size_t i, size_t k, struct err *e)
{
    const char *type = json_text(json_field(call, "type"), NULL);
    const bool custom = type && strcmp(type, "custom") == 0;
    const struct json *inner = body_field(call, custom ? "custom" : "function");
    const bool flat = !inner && !custom && body_field(call, "name");
    if (flat) inner = call;
    const char *in = flat     ? ""
                     : custom ? ".custom"
                              : ".function",
               *text = custom ? "input" : "arguments";
    const struct json *name = json_field(inner, "name"), *given = body_field(inner, text),
                      *id = body_field(call, "id");
    if (!json_text(name, NULL))
        return err_field(e, ERR_ARG, "messages",
                         "[%zu].tool_calls[%zu]%s.name: expected a string%s, got %s", i, k, in,
                         json_kind(name) == JK_TEXT ? " without NUL" : "",
                         json_kind(name) == JK_TEXT ? "one" : json_kind_name(json_kind(name)));
    if (given && json_kind(given) != JK_TEXT && (custom || json_kind(given) != JK_OBJECT))
        return err_field(e, ERR_ARG, "messages", "[%zu].tool_calls[%zu]%s.%s: expected %s, got %s",
                         i, k, in, text, custom ? "a string" : "a string or an object",
                         json_kind_name(json_kind(given)));
    if (id && json_kind(id) != JK_TEXT)
        return err_field(e, ERR_ARG, "messages",
                         "[%zu].tool_calls[%zu].id: expected a string, got %s", i, k,
                         json_kind_name(json_kind(id)));
    char at[64];
    snprintf(at, sizeof at, "[%zu].tool_calls[%zu]", i, k);
    int rc = check_word(call, "type", at, e);
    return rc ? rc : check_word(call, "id", at, e);
}

int openai_check_calls(const struct json *body, struct err *e)
{
    const struct json *messages = body_field(body, "messages");
    int rc = 0;
    if (json_kind(messages) != JK_LIST) return 0;
    for (size_t i = 0; i < json_count(messages); i++) {
        const struct json *calls = body_field(json_item(messages, i), "tool_calls");
        if (calls && json_kind(calls) != JK_LIST)
            return err_field(e, ERR_ARG, "messages",
                             "[%zu].tool_calls: expected a list of calls, got %s", i,
                             json_kind_name(json_kind(calls)));
        for (size_t k = 0; rc == 0 && k < json_count(calls); k++)
            rc = check_call(json_item(calls, k), i, k, e);
        if (rc != 0) return rc;
    }
    return 0;
}

/* Reject messages of OpenAI's roles without "content", as OpenAI does. A null is allowed. The
 * assistant's messages may have another member instead. Messages of other roles depend on the
 * template only. */
static int check_contents(const struct json *messages, struct err *e)
{
    static const char *const role[] = {"system", "developer", "user", "tool", "function"};
    static const char *const other[] = {"tool_calls", "function_call", "reasoning_content",
                                        "reasoning",  "thinking",      "refusal"};
    for (size_t i = 0; i < json_count(messages); i++) {
        const struct json *m = json_item(messages, i);
        const char *own = json_text(json_field(m, "role"), NULL);
        int rc = check_content(m, i, e);
        if (rc == 0) rc = check_words(m, i, e);
        if (rc != 0) return rc;
        if (!own || json_field(m, "content")) continue;
        bool wanted =
            strcmp(own, "assistant") == 0 && !has_any(m, other, sizeof other / sizeof *other);
        for (size_t k = 0; k < sizeof role / sizeof *role; k++) wanted |= strcmp(own, role[k]) == 0;
        if (wanted)
            return err_field(e, ERR_ARG, "messages",
                             "[%zu].content: expected a string or a list of parts, got nothing", i);
    }
    return 0;
}

int api_template(struct template **out, const struct template *known, const struct json *body,
                 struct err *e)
{
    const struct json *given = body_field(body, "chat_template");
    struct err why = {0};
    size_t n;
    const char *text = json_text(given, &n);
    *out = NULL;
    /* as in vLLM, an empty template means the model's template */
    if (!given || (text && n == 0)) return 0;
    if (!text) return body_wrong("chat_template", "a string", given, e);
    if (known && strcmp(template_source(known), text) == 0 && strlen(text) == n) return 0;
    int rc = template_open(out, text, n, &why);
    if (rc == ERR_FORMAT) rc = ERR_ARG;
    return rc ? err_field(e, rc, "chat_template", ": %s", why.text) : 0;
}

/* Set *out to the model's first messages and those of the conversation. A system message of the
 * conversation stays the first one. The caller owns *out. ERR_MEMORY. */
static int join_messages(struct json **out, const struct json *first, const struct json *messages,
                         struct err *e)
{
    const struct json *head = json_item(messages, 0);
    const char *role = json_text(json_field(head, "role"), NULL);
    const size_t n_head = role && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0);
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_list(&o, NULL);
    if (n_head) openai_put_json(&o, NULL, head);
    for (size_t i = 0; i < json_count(first); i++) openai_put_json(&o, NULL, json_item(first, i));
    for (size_t i = n_head; i < json_count(messages); i++)
        openai_put_json(&o, NULL, json_item(messages, i));
    out_end(&o);
    int rc = b.failed ? err_memory(e, "messages", b.n) : json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

int api_no_template(const struct api *a, const char *field, struct err *e)
{
    char missing[CHAT_MISSING_BYTES];
    chat_missing(missing, a->session->checkpoint);
    return err_field(e, ERR_UNSUPPORTED, field, ": %s", missing);
}

/* Render the body's conversation. Fields of the body have precedence over the chat's defaults.
 * answer_only saves a second rendering, because callers need only the beginning of the answer. */
static int render(const struct api *a, const struct json *body, struct buf *prompt,
                  struct chat_turn *turn, struct err *e)
{
    const struct chat *chat = a->chat;
    if (!chat->t && a->session->info->headless) return openai_check_text(a, e);
    if (!chat->t && !body_is_set(body_field(body, "chat_template")))
        return api_no_template(a, "messages", e);
    struct conversation c = {.token = chat->special.v,
                             .n_token = chat->special.n,
                             .add_generation_prompt = true,
                             .answer_only = true,
                             .system = chat->system,
                             .now = chat->now};
    struct template *own = NULL;
    struct json *joined = NULL;
    int rc = api_template(&own, chat->t, body, e);
    if (rc == 0) rc = check_kind(body, "messages", JK_LIST, "a list of messages", &c.messages, e);
    if (rc == 0 && !c.messages) rc = err_field(e, ERR_ARG, "messages", ": is missing");
    if (rc == 0 && json_count(c.messages) == 0)
        rc = err_field(e, ERR_ARG, "messages", ": must have at least 1 message, got 0");
    if (rc == 0) rc = check_kind(body, "tools", JK_LIST, "a list of tools", &c.tools, e);
    if (rc == 0)
        rc = check_kind(body, "documents", JK_LIST, "a list of documents", &c.documents, e);
    if (rc == 0)
        rc = check_kind(body, "chat_template_kwargs", JK_OBJECT, "an object", &c.kwargs, e);
    if (rc == 0) rc = check_contents(c.messages, e);
    if (rc == 0) rc = read_turn(&c, body, e);
    if (rc == 0) rc = read_effort(&c, body, e);
    if (!c.kwargs) c.kwargs = chat->kwargs;
    if (rc == 0 && chat->first) {
        rc = join_messages(&joined, chat->first, c.messages, e);
        c.messages = joined;
    }
    c.checks_parts = own != NULL;
    if (rc == 0) rc = template_render(own ? own : chat->t, &c, prompt, turn, e);
    template_close(own);
    json_drop(joined);
    return rc;
}

/* Render, and record the time. Custom tools become functions first. */
int api_render(const struct api *a, const struct json *body, struct buf *prompt,
               struct chat_turn *turn, struct err *e)
{
    int64_t begin_us = time_us();
    struct json *plain;
    int rc = openai_check_calls(body, e);
    plain = NULL;
    if (rc == 0) rc = openai_read_custom(&plain, body, e);
    if (rc == 0) rc = render(a, plain ? plain : body, prompt, turn, e);
    json_drop(plain);
    count_time(a, TIMES_render, begin_us);
    return rc;
}

/* ---- several prompts ---- */

/* Return true if an item of a list is a prompt, not a token id. */
static bool is_prompt(const struct json *item)
{
    return json_kind(item) == JK_TEXT || json_kind(item) == JK_LIST;
}

/* Set *n to the number of prompts in a body. A text or a list of ids is 1 prompt. Any other list is
 * a list of prompts. A list of ids and texts is 1 prompt if the dialect mixes them, else an
 * error. */
static int n_prompt(const struct dialect *d, const struct json *list, int *n, struct err *e)
{
    const char *name = d->prompt;
    if (json_kind(list) == JK_NONE)
        return err_field(e, ERR_ARG, name, ": expected a prompt, got nothing");
    if (json_kind(list) != JK_TEXT && json_kind(list) != JK_LIST)
        return body_wrong(name, "a string, token ids, or a list of them", list, e);
    if (json_kind(list) == JK_LIST && json_count(list) == 0)
        return err_field(e, ERR_ARG, name, ": must have at least 1 entry, got 0");
    *n = 1;
    if (json_kind(list) == JK_TEXT) return 0;
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *item = json_item(list, i);
        if (is_prompt(item)) continue;
        if (i == 0 || d->mixes) return 0;
        return err_field(e, ERR_ARG, name, "[%zu]: expected a string or a list of ids, got %s", i,
                         json_kind_name(json_kind(item)));
    }
    *n = (int)json_count(list);
    return 0;
}

/* Check that a list has no texts. */
static int check_ids(const char *name, const struct json *list, struct err *e)
{
    for (size_t i = 0; json_kind(list) == JK_LIST && i < json_count(list); i++)
        if (is_prompt(json_item(list, i)))
            return err_field(e, ERR_ARG, name, "[%zu]: expected a token id, got %s", i,
                             json_kind_name(json_kind(json_item(list, i))));
    return 0;
}

/* Append one item of a prompt: a token id or a text. */
static int read_item(struct ids *ids, const struct api *a, const char *name, size_t i,
                     const struct json *item, unsigned flags, struct err *e)
{
    int n_vocab = a->session->info->n_vocab;
    size_t n;
    const char *text = json_text(item, &n);
    char value[80];
    int64_t id = json_int(item, -1);
    if (text) return tokenizer_encode(a->session->tokenizer, text, n, flags, ids, e);
    if (json_kind(item) != JK_INT && json_kind(item) != JK_REAL)
        return err_field(e, ERR_ARG, name, "[%zu]: expected a token id or a string, got %s", i,
                         json_kind_name(json_kind(item)));
    if (id < 0 || id >= n_vocab)
        return err_field(e, ERR_ARG, name,
                         "[%zu]: out of vocabulary: expected a token id below %d, got %s", i,
                         n_vocab, json_value_text(item, value));
    return vec_push(ids, (int32_t)id) ? 0 : err_memory(e, name, (ids->n + 1) * sizeof *ids->v);
}

/* A list may mix ids and texts, as in llama.cpp's server. */
int read_mixed(struct ids *ids, const struct api *a, const char *name, const struct json *prompt,
               unsigned flags, struct err *e)
{
    size_t n;
    const char *text = json_text(prompt, &n);
    int rc = 0;
    if (text) return tokenizer_encode(a->session->tokenizer, text, n, flags, ids, e);
    if (json_kind(prompt) != JK_LIST)
        return body_wrong(name, "a string, or a list of token ids and strings", prompt, e);
    for (size_t i = 0; rc == 0 && i < json_count(prompt); i++) {
        rc = read_item(ids, a, name, i, json_item(prompt, i), flags, e);
        /* special tokens are added only to the start of the prompt */
        flags &= ~(unsigned)ENCODE_ADD_SPECIAL;
    }
    return rc;
}

/* Keep the text of the prompt in `out`. For a truncated prompt, the kept text is the remaining
 * part. Each choice may repeat it, so it must not be longer than the context. */
static int keep_text(struct buf *out, const struct part *p, const struct tokenizer *t,
                     const struct json *prompt, bool cut, struct err *e)
{
    const struct ids *ids = &p->request->prompt;
    size_t n;
    const char *text = json_text(prompt, &n);
    if (text && !cut)
        buf_add(out, text, n);
    else
        tokenizer_decode(t, ids->v, ids->n, 0, out);
    return out->failed ? err_memory(e, "the prompt's text", ids->n) : 0;
}

/* Tokenize a prompt, and record the time. */
static int read_prompt(struct part *p, const struct api_call *c, const struct json *prompt,
                       bool add_special, struct err *e)
{
    /* marks in code around a gap are text, as in llama.cpp */
    const unsigned flags =
        flags_of(p->request, add_special) & ~(c->has_gap ? (unsigned)ENCODE_PARSE_SPECIAL : 0);
    int64_t begin_us = time_us();
    size_t n;
    const char *own = c->before.text ? json_text(prompt, &n) : NULL;
    if (own)
        return api_prompt_after(p->request, c->api, &c->before, &(struct text_span){own, n},
                                add_special, e);
    int rc = c->dialect->mixes ? 0 : check_ids(c->dialect->prompt, prompt, e);
    if (rc == 0) rc = read_mixed(&p->request->prompt, c->api, c->dialect->prompt, prompt, flags, e);
    count_time(c->api, TIMES_tokenize, begin_us);
    return rc;
}

/* Return the number of bytes of a prompt's texts. */
static size_t text_bytes(const struct json *prompt)
{
    size_t n = 0, sum = 0;
    if (json_text(prompt, &n)) return n;
    for (size_t i = 0; json_kind(prompt) == JK_LIST && i < json_count(prompt); i++) {
        json_text(json_item(prompt, i), &n);
        sum += n;
    }
    return sum;
}

/* Set the part's prompt. The length of the text is checked first, because tokenizing a text that
 * cannot fit would waste time. */
static int fill_part(struct part *p, const struct api_call *c, const struct json *prompt,
                     const struct json *body, bool add_special, struct err *e)
{
    int rc = check_text_fits(c, body, text_bytes(prompt), e);
    if (rc == 0) rc = read_prompt(p, c, prompt, add_special, e);
    size_t n_whole = p->request->prompt.n;
    if (rc == 0) rc = cut_prompt(p->request, c->api, body, e);
    bool cut = p->request->prompt.n < n_whole;
    const struct tokenizer *t = c->api->session->tokenizer;
    if (rc == 0 && c->echo) rc = keep_text(&p->echo, p, t, prompt, cut, e);
    return rc || !c->text_back ? rc : keep_text(&p->text, p, t, prompt, cut, e);
}

/* Return the item of a prompt that is a list of one text or of one list; return any other prompt
 * unchanged. */
static const struct json *unwrapped(const struct json *prompt)
{
    const struct json *first = json_item(prompt, 0);
    bool nested = json_kind(first) == JK_TEXT || json_kind(first) == JK_LIST;
    return json_count(prompt) == 1 && nested && json_kind(prompt) == JK_LIST ? first : prompt;
}

/* A very long text is rejected by a lower bound of its number of tokens, without tokenizing it. The
 * message has the words of vLLM's message. */
int check_bytes_fit(const struct api_call *c, const char *field, size_t n, struct err *e)
{
    const struct api *a = c->api;
    enum { FAST_BYTES = 1 << 16 }; /* tokenizing this number of bytes takes milliseconds */
    int context = a->session->info->context_max;
    if (n <= FAST_BYTES) return 0;
    size_t n_least = tokenizer_n_least(a->session->tokenizer, n);
    if (n_least <= (size_t)context) return 0;
    int rc = err_field(e, ERR_LIMIT, field,
                       ": This model's maximum context length is %d tokens. However, the "
                       "request has more than %zu prompt tokens, which is too large. Shorten the "
                       "prompt.",
                       context, n_least);
    return err_figures(e, rc, (long long)n_least, context);
}

int check_text_fits(const struct api_call *c, const struct json *body, size_t n, struct err *e)
{
    return body_field(body, "truncate_prompt_tokens")
               ? 0
               : check_bytes_fit(c, c->dialect->prompt, n, e);
}

/* Each part is opened before its prompt is read, because the parameters limit the prompt's
 * length. */
int read_prompts(struct api_call *c, const struct json *body, part_fn *open, struct err *e)
{
    const struct json *list = unwrapped(body_field(body, c->dialect->prompt));
    bool add_special = true;
    int n = 0, rc = n_prompt(c->dialect, list, &n, e);
    if (rc == 0) rc = body_flag(body, "add_special_tokens", &add_special, e);
    if (rc == 0) rc = call_parts(c, n, e);
    c->listed = n > 1;
    for (int i = 0; rc == 0 && i < n; i++) {
        struct part *p = &c->part[i];
        rc = open(c, p, body, e);
        const struct json *prompt = n == 1 ? list : json_item(list, (size_t)i);
        if (rc == 0) rc = part_error(c, p, fill_part(p, c, prompt, body, add_special, e), e);
    }
    return rc;
}

int api_cut_prompt(struct request *r, const struct api *a, size_t max, bool left, struct err *e)
{
    const struct model_info *info = a->session->info;
    if (r->prompt.n <= max) return 0;
    if (left && r->pool_from > 0)
        return err_field(e, ERR_UNSUPPORTED, "truncation_side",
                         ": left: not supported yet with a prompt that the pooling leaves out; "
                         "give \"right\"");
    if (info->encoder || info->n_start > 0) {
        tokenizer_truncate(a->session->tokenizer, &r->prompt, max, left);
        return 0;
    }
    const size_t n_cut = r->prompt.n - max;
    if (left) memmove(r->prompt.v, r->prompt.v + n_cut, max * sizeof *r->prompt.v);
    r->prompt.n = max;
    return 0;
}

/* -1 means as many tokens as the context allows, with room for one generated token. */
int cut_prompt(struct request *r, const struct api *a, const struct json *body, struct err *e)
{
    const struct model_info *info = a->session->info;
    const char *side = "left";
    int context = info->context_max;
    int64_t max = INT32_MAX;
    int rc = body_int(body, "truncate_prompt_tokens", -1, context, &max, e);
    if (rc == 0) rc = body_text(body, "truncation_side", 8, &side, e);
    if (rc == 0 && strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
        rc = err_field(e, ERR_ARG, "truncation_side",
                       ": must be \"left\" or \"right\", got \"%.8s\"", side);
    if (rc == 0 && max == 0)
        rc = err_field(e, ERR_ARG, "truncate_prompt_tokens", ": must be -1 or at least 1, got 0");
    if (max < 0) {
        max = context - (r->max_tokens > 0 ? 1 : 0) - info->n_start;
        if (info->n_start > 0 && max > info->source_max) max = info->source_max;
    }
    if (rc != 0) return rc;
    /* models of embeddings are trained with the first tokens of long texts */
    const bool right = (info->encoder || info->n_start > 0) && !body_field(body, "truncation_side");
    return api_cut_prompt(r, a, (size_t)max, !right && *side == 'l', e);
}
