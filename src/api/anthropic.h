/* anthropic.h - private to src/api: parts of the Anthropic dialect. anthropic_messages.c reads and
 * writes. anthropic_body.c and anthropic_turns.c convert bodies to the neutral form
 * (openai_read_chat). anthropic_names.c converts errors back to the client's names. A handler
 * thread reads a call. The stream thread then writes its answer. */
#ifndef QUOTH_API_ANTHROPIC_H
#define QUOTH_API_ANTHROPIC_H

#include "dialect.h"

/* Prefix that an answer adds to the ids of calls. */
#define ANTHROPIC_ID_PREFIX "toolu_"

/* Blocks of an answer. */
enum anthropic_block { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_TOOL_USE };

/* Data of c->own. */
struct anthropic {
    /* place of each message of the prompt, arena [n_place]; index in `messages`, or -1: `system` */
    const struct message_place *place;
    size_t n_place;
    bool old_format;    /* true: the schema of the answer is in output_format */
    bool omit_thinking; /* true: blocks of thinking have no text */
    /* state of a stream: the open block, its index, and the digest of its thinking */
    enum anthropic_block open;
    int index;
    uint64_t digest;
};

/* Convert a body to the neutral form. The caller owns *out, which is NULL after an error. The
 * caller frees places->v also after an error. ERR_ARG with the client's field for a wrong type or
 * value. ERR_UNSUPPORTED for a block, tool or member that is not supported. ERR_LIMIT for too many
 * messages. ERR_MEMORY. */
int anthropic_neutral(struct json **out, struct message_places *places, const struct api *a,
                      const struct json *body, struct err *e);

/* Check the members of an object. Errors: those of place_members, and ERR_ARG if cache_control is
 * not an object. */
int anthropic_check_members(const struct json *object, const struct place *at,
                            const char *const *members, struct err *e);
/* Append `system` and `messages` as one list. *continues: the answer continues the last message.
 * Errors: those of anthropic_neutral. */
int anthropic_put_messages(struct json_out *o, struct message_places *places,
                           const struct json *body, bool *continues, struct err *e);

/* Replace the fields of the neutral form in an error by the client's (dialect.name_error). */
void anthropic_name_error(const struct api_call *c, struct err *e);

extern const struct error_form anthropic_errors;
extern const char anthropic_no_memory[]; /* value of dialect.no_memory */
extern const char anthropic_ping[];      /* a ping in a stream */

#endif
