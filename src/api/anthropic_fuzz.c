/* anthropic_fuzz.c - goal: each mutated body of Anthropic's messages is rejected with an error
 * message, or becomes a conversation. The calls of the conversation are valid, and the messages
 * have their places. */
#include "anthropic.h"
#include "openai.h"

#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>

FUZZ(anthropic_body)
{
    static const struct json_limits limits = {
        .depth_max = 200, .node_max = 1 << 20, .unique = true};
    static const struct api api;
    struct json *body = NULL, *neutral = NULL;
    struct message_places places = {0};
    struct err e = {0};
    if (json_parse(&body, (const char *)data, n, &limits, &e) != 0) return;
    if (anthropic_neutral(&neutral, &places, &api, body, &e) == 0) {
        const struct json *messages = json_field(neutral, "messages");
        const size_t n_client = json_count(json_field(body, "messages"));
        assert(places.n == json_count(messages) && places.n > 0);
        for (size_t i = 0; i < places.n; i++) assert(places.v[i].message < (int)n_client);
        assert(openai_check_calls(neutral, &e) == 0);
        fuzz_accepted();
    } else {
        assert(neutral == NULL && e.text[0]);
    }
    vec_deinit(&places);
    json_drop(neutral);
    json_drop(body);
}
