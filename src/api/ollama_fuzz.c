/* ollama_fuzz.c - goal: each mutated body of a chat or a prompt of Ollama is rejected with an error
 * message, or becomes a conversation. The calls of the conversation are valid, and the messages
 * have their places. */
#include "ollama.h"
#include "openai.h"

#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>

/* Convert a body of /api/chat from message `first` on. */
static void chat(const struct json *body, size_t first)
{
    static const struct api api;
    struct json *neutral = NULL;
    struct message_places places = {0};
    struct err e = {0};
    if (ollama_neutral_chat(&neutral, &places, &api, body, first, &e) == 0) {
        const size_t n_client = json_count(json_field(body, "messages"));
        assert(places.n == json_count(json_field(neutral, "messages")));
        assert(first > 0 || places.n == n_client);
        for (size_t i = 0; i < places.n; i++)
            assert(places.v[i].message >= 0 && (size_t)places.v[i].message < n_client);
        assert(openai_check_calls(neutral, &e) == 0);
        fuzz_accepted();
    } else {
        assert(neutral == NULL && e.text[0]);
    }
    vec_deinit(&places);
    json_drop(neutral);
}

static void generate(const struct json *body, bool plain)
{
    static const struct api api;
    struct json *neutral = NULL;
    struct err e = {0};
    if (ollama_neutral_generate(&neutral, &api, body, plain, 7, &e) == 0)
        assert(json_kind(json_field(neutral, plain ? "prompt" : "messages")) ==
               (plain ? JK_TEXT : JK_LIST));
    else
        assert(neutral == NULL && e.text[0]);
    json_drop(neutral);
}

FUZZ(ollama_body)
{
    static const struct json_limits limits = {
        .depth_max = 200, .node_max = 1 << 20, .unique = true};
    struct json *body = NULL;
    struct err e = {0};
    int64_t n_ctx = -1;
    double keep_s;
    if (json_parse(&body, (const char *)data, n, &limits, &e) != 0) return;
    if (json_kind(json_field(body, "messages")) == JK_LIST) {
        chat(body, 0);
        chat(body, 2);
    }
    generate(body, false);
    generate(body, true);
    if (ollama_num_ctx(body, &n_ctx, &e) == 0) assert(n_ctx >= -1);
    assert(ollama_keep_alive(body, &keep_s, &e) == 0 || e.text[0]);
    json_drop(body);
}
