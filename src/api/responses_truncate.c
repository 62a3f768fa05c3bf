/* responses_truncate.c - `truncation: "auto"` of the Responses API: drop the oldest turns of a
 * conversation that exceeds the context.
 *
 *   system and developer messages at the beginning stay
 *   the remaining messages begin with the earliest message of the user from which the prompt fits
 *
 * Calls and their outputs therefore stay together, and the template gets a conversation that begins
 * with the user. The prompt leaves space for max_output_tokens, at most half of the context. */
#include "openai.h"
#include "responses.h"

#include <stdlib.h>
#include <string.h>

/* Return true if message i has the role. */
static bool has_role(const struct json *messages, size_t i, const char *role)
{
    const char *own = json_text(json_field(json_item(messages, i), "role"), NULL);
    return own && strcmp(own, role) == 0;
}

/* Return the number of messages of system and developer at the beginning. */
static size_t n_fixed(const struct json *messages)
{
    size_t n = 0;
    while (has_role(messages, n, "system") || has_role(messages, n, "developer")) n++;
    return n;
}

/* Set *out to the body without messages [from, to). The caller owns *out; NULL after an error. */
static int without(struct json **out, const struct json *neutral, size_t from, size_t to,
                   struct err *e)
{
    static const char *const messages[] = {"messages", NULL};
    const struct json *list = json_field(neutral, "messages");
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    openai_put_members(&o, neutral, messages);
    out_list(&o, "messages");
    for (size_t i = 0; i < json_count(list); i++)
        if (i < from || i >= to) openai_put_json(&o, NULL, json_item(list, i));
    out_end(&o);
    out_end(&o);
    *out = NULL;
    int rc =
        b.failed ? err_memory(e, "a conversation", b.n) : json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

/* Set *fits if the prompt of a body fits. A text that is much too long is not tokenized. */
static int check_fits(const struct api_call *c, const struct json *neutral, int64_t limit,
                      bool *fits, struct err *e)
{
    struct buf prompt = {0};
    struct chat_turn turn = {0};
    struct ids ids = {0};
    struct err why = {0};
    int rc = api_render(c->api, neutral, &prompt, &turn, e);
    *fits = false;
    if (rc == 0 && check_text_fits(c, neutral, prompt.n, &why) == 0) {
        rc = tokenizer_encode(c->api->session->tokenizer, prompt.data ? prompt.data : "", prompt.n,
                              ENCODE_PARSE_SPECIAL | ENCODE_ADD_SPECIAL, &ids, e);
        *fits = rc == 0 && (int64_t)ids.n <= limit;
    }
    vec_deinit(&ids);
    buf_deinit(&prompt);
    return rc;
}

/* Set *to to the first message that remains after the fixed messages. *to is the last message of
 * the user if no suffix fits. Later checks then reject the prompt. */
static int find_begin(const struct api_call *c, const struct json *neutral, int64_t limit,
                      size_t from, size_t *to, struct err *e)
{
    const struct json *list = json_field(neutral, "messages");
    const size_t n = json_count(list);
    size_t low = from, high = n;
    int rc = 0;
    while (high > from && !has_role(list, high - 1, "user")) high--;
    if (high > from) high--; /* the last message of the user */
    *to = high;
    /* the prompt from `low` on does not fit; the prompt from `high` on fits if any prompt fits */
    while (rc == 0 && low < high) {
        size_t middle = low + (high - low) / 2;
        while (middle < high && (middle == low || !has_role(list, middle, "user"))) middle++;
        if (middle == high) break;
        struct json *some;
        bool fits = false;
        rc = without(&some, neutral, from, middle, e);
        if (rc == 0) rc = check_fits(c, some, limit, &fits, e);
        json_drop(some);
        if (fits)
            high = *to = middle;
        else
            low = middle;
    }
    return rc;
}

int responses_truncate(const struct api_call *c, struct json **neutral,
                       struct message_places *places, struct err *e)
{
    const struct engine *en = c->api->session->engine;
    const int64_t context = en ? engine_context(en) : c->api->session->info->context_max;
    const size_t from = n_fixed(json_field(*neutral, "messages"));
    int64_t room = json_int(json_field(*neutral, "max_tokens"), 1);
    struct json *shorter = NULL;
    size_t to = from;
    bool fits = false;
    if (room > context / 2) room = context / 2;
    int rc = check_fits(c, *neutral, context - room, &fits, e);
    if (rc != 0 || fits) return rc;
    rc = find_begin(c, *neutral, context - room, from, &to, e);
    if (rc == 0 && to > from) rc = without(&shorter, *neutral, from, to, e);
    if (!shorter) return rc;
    json_drop(*neutral);
    *neutral = shorter;
    memmove(&places->v[from], &places->v[to], (places->n - to) * sizeof *places->v);
    places->n -= to - from;
    return 0;
}
