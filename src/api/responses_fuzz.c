/* responses_fuzz.c - goal: each mutated body of the Responses API is rejected with an error
 * message, or becomes a conversation. The calls of the conversation are valid, and the messages
 * have their places. */
#include "openai.h"
#include "responses.h"

#include "../../tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>

FUZZ(responses_body)
{
    static const struct json_limits limits = {
        .depth_max = 200, .node_max = 1 << 20, .unique = true};
    struct json *body = NULL, *neutral = NULL, *plain = NULL;
    struct err e = {0};
    if (json_parse(&body, (const char *)data, n, &limits, &e) != 0) return;
    struct responses_source from = {.body = body, .hex = "", .keep = true};
    if (responses_neutral(&neutral, &from, &e) == 0) {
        const struct message_places places = from.places;
        const struct json *messages = json_field(neutral, "messages");
        const size_t n_client = json_count(json_field(body, "input"));
        struct buf echo = {0};
        assert(places.n == json_count(messages) && places.n > 0);
        for (size_t i = 0; i < places.n; i++)
            assert(places.v[i].message <= 0 || places.v[i].message < (int)n_client);
        /* stored items are valid, and become equal messages */
        struct buf list = {0};
        struct json *kept = NULL, *again = NULL;
        buf_addf(&list, "{\"input\":[%s]}", from.items.data ? from.items.data : "");
        assert(json_parse(&kept, list.data, list.n, NULL, &e) == 0);
        struct responses_source second = {.body = kept, .hex = ""};
        assert(responses_neutral(&again, &second, &e) == 0);
        const size_t n_own = json_field(body, "instructions") ? 1 : 0;
        assert(second.places.n + n_own >= places.n);
        vec_deinit(&second.places);
        json_drop(again);
        json_drop(kept);
        buf_deinit(&list);
        assert(openai_check_calls(neutral, &e) == 0);
        responses_put_echo(&echo, body, &(struct sample_params){0}, true);
        assert(!echo.failed && echo.n > 0);
        buf_deinit(&echo);
        (void)openai_read_custom(&plain, neutral, &e);
        fuzz_accepted();
    } else {
        assert(neutral == NULL && e.text[0]);
    }
    vec_deinit(&from.places);
    buf_deinit(&from.items);
    json_drop(plain);
    json_drop(neutral);
    json_drop(body);
}
