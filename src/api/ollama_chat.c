/* ollama_chat.c - Ollama's /api/chat. A body becomes the neutral form (ollama_body.c). With
 * `truncate`, the first turns of a conversation that is too long are dropped:
 *
 *   system, user, assistant, user, tool ..., user   ->   system, user
 *
 * The remaining conversation begins with a message of the user, because templates require this. */
#include "ollama.h"
#include "openai.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A body and its neutral form. */
struct converted {
    const struct json *body;      /* borrowed */
    struct json *neutral;         /* owned; NULL if none */
    struct message_places places; /* owned */
};

/* Convert the body from message `first` on. */
static int convert(struct converted *k, const struct api *a, size_t first, struct err *e)
{
    json_drop(k->neutral);
    k->places.n = 0;
    return ollama_neutral_chat(&k->neutral, &k->places, a, k->body, first, e);
}

/* Set *fits to true if the prompt of the converted body has at most max tokens. */
static int fits(const struct api *a, const struct converted *k, int64_t max, bool *out,
                struct err *e)
{
    const struct tokenizer *t = a->session->tokenizer;
    struct buf prompt = {0};
    struct chat_turn turn = {0};
    struct ids ids = {0};
    int rc = api_render(a, k->neutral, &prompt, &turn, e);
    *out = rc == 0 && (int64_t)tokenizer_n_least(t, prompt.n) <= max;
    if (*out && prompt.n)
        rc = tokenizer_encode(t, prompt.data, prompt.n, ENCODE_PARSE_SPECIAL | ENCODE_ADD_SPECIAL,
                              &ids, e);
    *out &= (int64_t)ids.n <= max;
    vec_deinit(&ids);
    buf_deinit(&prompt);
    return rc;
}

/* Return the index of the user's message k in `messages`, from 0; the number of messages if there
 * is none. */
static size_t turn_at(const struct json *messages, size_t k)
{
    for (size_t i = 0; i < json_count(messages); i++) {
        const char *role = json_text(json_field(json_item(messages, i), "role"), NULL);
        if (role && strcasecmp(role, "user") == 0 && k-- == 0) return i;
    }
    return json_count(messages);
}

static size_t n_turn(const struct json *messages)
{
    size_t n = 0;
    for (size_t i = 0; i < json_count(messages); i++) {
        const char *role = json_text(json_field(json_item(messages, i), "role"), NULL);
        n += role && strcasecmp(role, "user") == 0;
    }
    return n;
}

/* Drop the first n turns, and set *ok to true if the remaining conversation fits. */
static int drop(struct converted *k, const struct api_call *c, size_t n, bool *ok, struct err *e)
{
    int rc = convert(k, c->api, n ? turn_at(body_field(k->body, "messages"), n) : 0, e);
    return rc ? rc : fits(c->api, k, ollama_prompt_max(c), ok, e);
}

/* Drop the minimum number of first turns, by bisection. Drop no turn if the last turn alone does
 * not fit; a later stage returns the error. */
static int drop_turns(struct converted *k, const struct api_call *c, struct err *e)
{
    size_t n = n_turn(body_field(k->body, "messages")), low = 0, high = n ? n - 1 : 0;
    bool ok = true;
    int rc = fits(c->api, k, ollama_prompt_max(c), &ok, e);
    if (rc != 0 || ok || high == 0) return rc;
    rc = drop(k, c, high, &ok, e);
    if (rc == 0 && !ok) return convert(k, c->api, 0, e);
    while (rc == 0 && high - low > 1) { /* `low` turns are too few, and `high` turns are enough */
        const size_t middle = low + (high - low) / 2;
        rc = drop(k, c, middle, &ok, e);
        *(ok ? &high : &low) = middle;
    }
    return rc ? rc : drop(k, c, high, &ok, e);
}

/* Copy the places to the call's arena. */
static int keep_places(struct api_call *c, const struct message_places *from, struct err *e)
{
    struct ollama *own = c->own;
    struct message_place *copy = arena_push0(&c->arena, from->n + 1, sizeof *copy);
    if (!copy) return err_memory(e, "messages", from->n * sizeof *copy);
    if (from->n) memcpy(copy, from->v, from->n * sizeof *copy);
    own->place = copy;
    own->n_place = from->n;
    return 0;
}

/* Read a body of /api/chat. A body without messages loads or unloads the model. */
static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *messages = body_field(body, "messages");
    struct converted k = {.body = body};
    double keep_s = NAN;
    int rc = ollama_read_own(c, body, e);
    struct ollama *own = c->own;
    if (rc == 0) rc = ollama_keep_alive(body, &keep_s, e);
    if (rc == 0) ollama_keep(c, keep_s);
    if (rc == 0 && messages && json_kind(messages) != JK_LIST)
        rc = body_wrong("messages", "a list of messages", messages, e);
    if (rc == 0) rc = convert(&k, c->api, 0, e);
    if (rc == 0 && json_count(messages) == 0) {
        own->without = keep_s == 0 ? "unload" : "load";
        c->stream = false;
        json_drop(k.neutral);
        return 0;
    }
    if (rc == 0 && own->truncate) rc = drop_turns(&k, c, e);
    if (rc == 0) rc = keep_places(c, &k.places, e);
    if (rc == 0) rc = openai_read_chat(c, k.neutral, body_field(k.neutral, "tools"), e);
    if (rc == 0) rc = ollama_limit(c, e);
    vec_deinit(&k.places);
    json_drop(k.neutral);
    return rc;
}

static bool streams(const struct json *body)
{
    return json_bool(body_field(body, "stream"), true) &&
           json_count(body_field(body, "messages")) > 0;
}

static bool unloads(const struct json *body, struct buf *b)
{
    return ollama_unloads(body, "messages", b);
}

static const struct ollama_form form = {.task = "chat", .message = "message", .text = "content"};

const struct dialect dialect_ollama_chat = {
    .fields = ENDPOINT_OLLAMA_CHAT,
    .id_prefix = "ollama-",
    .prompt = "messages",
    .errors = &ollama_errors,
    .form = &form,
    .name_error = ollama_name_error,
    .close = ollama_close,
    .read = read_body,
    .put = ollama_put,
    .stream_type = "application/x-ndjson",
    .streams = streams,
    .unloads = unloads,
    .no_memory = ollama_no_memory,
    .put_pieces = ollama_put_pieces,
    .put_end = ollama_put_end,
};
