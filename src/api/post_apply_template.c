/* post_apply_template.c - POST /apply-template: the prompt of a conversation, as in llama.cpp's
 * server. */
#include "server_impl.h"

/* Append {"prompt":TEXT} (server_put_fn). */
static int put_rendered(const struct api *a, const struct json *body, struct buf *b, struct err *e)
{
    struct buf prompt = {0};
    int rc = fields_check(body, ENDPOINT_RENDER, e);
    if (rc == 0) rc = api_render(a, body, &prompt, NULL, e);
    put_prompt(b, &prompt);
    return rc;
}

void post_apply_template(struct exchange *x, void *server)
{
    server_answer(server, x, put_rendered);
}
