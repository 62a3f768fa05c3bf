/* message.c - a message of the assistant in OpenAI's form.
 *
 *   {"role":"assistant","content":TEXT or null,"reasoning_content":TEXT,
 *    "tool_calls":[{"id":...,"type":"function","function":{"name":...,"arguments":TEXT}}]}
 *
 * A call of a custom tool is {"id":...,"type":"custom","custom":{"name":...,"input":TEXT}}. The
 * last two members are absent if they are empty. `arguments` is a string that contains JSON, not an
 * object. message_put writes this form for replies and for the template of the next turn. */
#include "api_impl.h"

#include "base/rng.h"

#include <string.h>

static void put_buf(struct json_out *o, const char *key, const struct buf *text)
{
    out_text(o, key, text->data, text->n);
}

/* The nine characters are the digits of a random number in base 62, lowest first. Equal seeds and i
 * give equal ids, so that a stream and a whole answer agree. */
void call_id(char id[static CALL_ID_LETTERS + 1], uint64_t id_seed, int i)
{
    static const char letter[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    enum { N_LETTER = sizeof letter - 1 };
    uint32_t word[4];
    rng_words(word, &(struct rng_key){.seed = id_seed, .stream = (uint32_t)i}, 0);
    uint64_t x = (uint64_t)word[0] << 32 | word[1];
    for (int k = 0; k < CALL_ID_LETTERS; k++, x /= N_LETTER) id[k] = letter[x % N_LETTER];
    id[CALL_ID_LETTERS] = 0;
}

void put_call_id(struct json_out *o, const char *key, const char *own, uint64_t id_seed, int i)
{
    char id[CALL_ID_LETTERS + 1];
    call_id(id, id_seed, i);
    out_word(o, key, own ? own : id);
}

/* Append a call. A model's own id has precedence over a generated id. */
static void put_call(struct json_out *o, const struct chat_call *c, uint64_t id_seed, size_t i)
{
    out_object(o, NULL);
    const char *type = c->custom ? "custom" : "function";
    put_call_id(o, "id", c->id, id_seed, (int)i);
    out_word(o, "type", type);
    out_object(o, type);
    out_word(o, "name", c->name);
    put_buf(o, c->custom ? "input" : "arguments", &c->arguments);
    out_end(o);
    out_end(o);
}

/* OpenAI's content is null, not "", if a message has only calls. */
void put_message_members(struct json_out *o, const struct chat_message *m, uint64_t id_seed)
{
    out_word(o, "role", "assistant");
    if (m->content.n == 0 && m->n_call > 0)
        out_null(o, "content");
    else
        put_buf(o, "content", &m->content);
    if (m->reasoning.n > 0) put_buf(o, "reasoning_content", &m->reasoning);
    if (m->n_call == 0) return;
    out_list(o, "tool_calls");
    for (size_t i = 0; i < m->n_call; i++) put_call(o, &m->call[i], id_seed, i);
    out_end(o);
}

void message_put(struct buf *b, const struct chat_message *m, uint64_t id_seed)
{
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    put_message_members(&o, m, id_seed);
    out_end(&o);
}
