/* batch_fuzz.c - goal: each mutated line of a batch file is rejected with a sentence or becomes a
 * call. */
#include "batch.h"
#include "cli.h"

#include "../../tests/fuzz/fuzz.h"

#include "api/api.h"

#include <assert.h>
#include <string.h>

static struct session session;
static struct chat chat;
static struct api api;

/* Open a model with random weights. The model is never computed, but prompts are tokenized and ids
 * are checked. */
static void open_model(void)
{
    static const char source[] =
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in "
        "m.tool_calls or [] %}{{ c.function.name }}{% endfor %}{% endfor %}"
        "{% if tools %}{{ tools | tojson }}{% endif %}"
        "{% if add_generation_prompt %}<think>{% endif %}";
    struct session_options o = session_defaults;
    struct err e = {0};
    o.shape = "tiny";
    int rc = session_open_as(&session, "tiny", &o, &session_many, &e);
    if (rc == 0) rc = template_open(&chat.t, source, sizeof source - 1, &e);
    if (rc != 0) fprintf(stderr, "%s\n", e.text);
    assert(rc == 0);
    api = (struct api){.session = &session,
                       .chat = &chat,
                       .name = "tiny",
                       .defaults = session_sample_defaults(session.checkpoint, 1)};
}

FUZZ(batch_line)
{
    struct batch_line l;
    struct api_call *call = NULL;
    struct err e = {0};
    struct buf out = {0};
    if (!session.model) open_model();
    int rc = batch_line_read(&l, (const char *)data, n, &e);
    if (rc == 0) rc = api_call_open(&call, &api, l.url, l.body, NULL, &e);
    assert((rc == 0) == (e.text[0] == 0) && (rc == 0) == (call != NULL));
    /* the condition must also be true after a failure */
    assert(!l.custom_id || l.custom_id[l.n_custom_id] == 0);
    assert(!l.url || strlen(l.url) <= n);
    if (rc == 0)
        fuzz_accepted();
    else
        api_error_put(&out, rc, &e);
    struct json *error = NULL;
    assert(rc == 0 || json_parse(&error, out.data, out.n, NULL, &e) == 0);
    json_drop(error);
    buf_deinit(&out);
    api_call_close(call);
    batch_line_close(&l);
}
