/* post_apply_template.c - POST /apply-template: the prompt that a conversation becomes, as llama.cpp's server has it. */
#include "server_impl.h"

void post_apply_template(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct json *body = server_body(s, x);
    struct err e = {0};
    struct buf prompt = {0}, b = {0};
    if (!body) return;
    int rc = api_render(s->api, body, &prompt, NULL, &e);
    json_drop(body);
    buf_add_text(&b, "{\"prompt\":");
    json_put_text(&b, prompt.data ? prompt.data : "", prompt.n);
    buf_add_char(&b, '}');
    if (rc == 0)
        server_reply(x, &b);
    else
        server_fail(x, rc, &e);
    buf_deinit(&b);
    buf_deinit(&prompt);
}
