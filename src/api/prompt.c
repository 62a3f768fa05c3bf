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
    if (!c.kwargs) c.kwargs = chat->kwargs;
    return rc ? rc : template_render(chat->t, &c, prompt, turn, e);
}
