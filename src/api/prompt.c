/* prompt.c - a request's prompt from a text, ids or a conversation. */
#include "api_impl.h"

#include <stdlib.h>
#include <string.h>

int api_prompt_text(struct request *r, const struct api *a, const char *text, size_t n,
                    bool add_special, struct err *e)
{
    unsigned flags = ENCODE_PARSE_SPECIAL | (add_special ? ENCODE_ADD_SPECIAL : 0);
    r->prompt.n = 0;
    return tokenizer_encode(a->session->tokenizer, text, n, flags, &r->prompt, e);
}

int api_prompt_ids(struct request *r, const int32_t *ids, size_t n, struct err *e)
{
    if (!vec_reserve(&r->prompt, n)) return err_memory(e, "a prompt", n * sizeof *ids);
    if (n) memcpy(r->prompt.v, ids, n * sizeof *ids);
    r->prompt.n = n;
    return 0;
}

/* ---- conversations ---- */

static int check_kind(const struct json *body, const char *name, enum json_kind kind,
                      const char *expected, const struct json **out, struct err *e)
{
    *out = body_field(body, name);
    return !*out || json_kind(*out) == kind ? 0 : body_wrong(name, expected, *out, e);
}

static int read_effort(struct conversation *c, const struct json *body, struct err *e)
{
    static const char *const known[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    const char *effort = NULL;
    int rc = body_text(body, "reasoning_effort", 16, &effort, e);
    if (rc != 0 || !effort) return rc;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i], effort) == 0) c->reasoning_effort = known[i];
    if (!c->reasoning_effort)
        return err_set(e, ERR_ARG,
                       "reasoning_effort: \"%s\" is not none, minimal, low, medium, "
                       "high, xhigh or max",
                       effort);
    return 0;
}

static int read_turn(struct conversation *c, const struct json *body, struct err *e)
{
    bool go_on = false;
    int rc = body_flag(body, "add_generation_prompt", &c->add_generation_prompt, e);
    if (rc == 0) rc = body_flag(body, "continue_final_message", &go_on, e);
    if (go_on) c->continue_final = CHAT_CONTINUE_AUTO;
    return rc;
}

int api_render(const struct api *a, const struct json *body, struct buf *prompt,
               struct chat_turn *turn, struct err *e)
{
    const struct chat *chat = a->chat;
    if (!chat->t)
        return err_set(e, ERR_UNSUPPORTED,
                       "messages: the model has no chat template; "
                       "--chat-template FILE gives one");
    struct conversation c = {.bos_token = chat->special.bos,
                             .eos_token = chat->special.eos,
                             .add_generation_prompt = true,
                             .answer_only = true,
                             .now = chat->now};
    int rc = check_kind(body, "messages", JK_LIST, "a list of messages", &c.messages, e);
    if (rc == 0 && json_count(c.messages) == 0)
        rc = err_set(e, ERR_ARG, "messages: there are none");
    if (rc == 0) rc = check_kind(body, "tools", JK_LIST, "a list of tools", &c.tools, e);
    if (rc == 0)
        rc = check_kind(body, "documents", JK_LIST, "a list of documents", &c.documents, e);
    if (rc == 0)
        rc = check_kind(body, "chat_template_kwargs", JK_OBJECT, "an object", &c.kwargs, e);
    if (rc == 0) rc = read_turn(&c, body, e);
    if (rc == 0) rc = read_effort(&c, body, e);
    if (!c.kwargs) c.kwargs = chat->kwargs;
    return rc ? rc : template_render(chat->t, &c, prompt, turn, e);
}

/* ---- several prompts ---- */

static int n_prompt(const char *name, const struct json *list, int *n, struct err *e)
{
    if (json_kind(list) == JK_NONE) return err_set(e, ERR_ARG, "%s: it is missing", name);
    if (json_kind(list) != JK_TEXT && json_kind(list) != JK_LIST)
        return body_wrong(name, "a text, ids, or a list of them", list, e);
    if (json_kind(list) == JK_LIST && json_count(list) == 0)
        return err_set(e, ERR_ARG, "%s: the list is empty", name);
    enum json_kind first = json_kind(json_item(list, 0));
    *n = first == JK_TEXT || first == JK_LIST ? (int)json_count(list) : 1;
    return 0;
}

static int read_ids(struct request *r, const char *name, const struct json *list, int n_vocab,
                    struct err *e)
{
    size_t n = json_count(list);
    if (!vec_reserve(&r->prompt, n)) return err_memory(e, name, n * sizeof(int32_t));
    for (size_t i = 0; i < n; i++) {
        int64_t id = json_int(json_item(list, i), -1);
        if (id < 0 || id >= n_vocab)
            return err_set(e, ERR_ARG, "%s[%zu]: expected a token id below %d", name, i, n_vocab);
        r->prompt.v[i] = (int32_t)id;
    }
    r->prompt.n = n;
    return 0;
}

static int read_prompt(struct part *p, const struct api_call *c, const struct json *prompt,
                       bool add_special, struct err *e)
{
    size_t n;
    const char *name = c->endpoint->prompt, *text = json_text(prompt, &n);
    const struct session *s = c->api->session;
    struct ids *ids = &p->request->prompt;
    int rc;
    if (text)
        rc = api_prompt_text(p->request, c->api, text, n, add_special, e);
    else if (json_kind(prompt) == JK_LIST)
        rc = read_ids(p->request, name, prompt, model_info(s->model)->n_vocab, e);
    else
        rc = body_wrong(name, "a text or a list of ids", prompt, e);
    if (rc != 0 || !c->echo) return rc;
    if (text)
        buf_add(&p->echo, text, n);
    else if (!tokenizer_decode(s->tokenizer, ids->v, ids->n, 0, &p->echo))
        rc = err_memory(e, "the prompt's text", ids->n);
    return rc;
}

/* A list of one text or list is that one. */
static const struct json *unwrapped(const struct json *prompt)
{
    const struct json *first = json_item(prompt, 0);
    bool nested = json_kind(first) == JK_TEXT || json_kind(first) == JK_LIST;
    return json_count(prompt) == 1 && nested && json_kind(prompt) == JK_LIST ? first : prompt;
}

int read_prompts(struct api_call *c, const struct json *body, part_fn *open, struct err *e)
{
    const struct json *list = unwrapped(body_field(body, c->endpoint->prompt));
    bool add_special = true;
    int n = 0, rc = n_prompt(c->endpoint->prompt, list, &n, e);
    if (rc == 0) rc = body_flag(body, "add_special_tokens", &add_special, e);
    if (rc == 0) rc = call_parts(c, n, e);
    for (int i = 0; rc == 0 && i < n; i++) {
        struct part *p = &c->part[i];
        rc = open(c, p, body, e);
        if (rc == 0)
            rc = read_prompt(p, c, n == 1 ? list : json_item(list, (size_t)i), add_special, e);
        if (rc == 0) rc = cut_prompt(p->request, c->api, body, e);
    }
    return rc;
}

int cut_prompt(struct request *r, const struct api *a, const struct json *body, struct err *e)
{
    const char *side = "left";
    int context = model_info(a->session->model)->context_max;
    int64_t most = INT32_MAX;
    int rc = body_int(body, "truncate_prompt_tokens", -1, context, &most, e);
    if (rc == 0) rc = body_text(body, "truncation_side", 8, &side, e);
    if (rc == 0 && strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
        rc = err_set(e, ERR_ARG, "truncation_side: it is \"left\" or \"right\"");
    if (rc == 0 && most == 0)
        rc = err_set(e, ERR_ARG, "truncate_prompt_tokens: it leaves no prompt");
    if (most < 0) most = context - (r->max_tokens > 0 ? 1 : 0);
    if (rc != 0 || r->prompt.n <= (size_t)most) return rc;
    size_t n_cut = r->prompt.n - (size_t)most;
    r->prompt.n = (size_t)most;
    if (*side == 'l') memmove(r->prompt.v, r->prompt.v + n_cut, (size_t)most * sizeof *r->prompt.v);
    return 0;
}
