/* responses.h - private to src/api: parts of the dialect of OpenAI's Responses API. responses.c
 * reads and writes. responses_body.c and responses_input.c convert bodies to the neutral form
 * (openai_read_chat). responses_items.c makes items and events of the output. responses_names.c
 * converts errors back to the client's names. A handler thread reads a call, then the stream thread
 * writes its answer. */
#ifndef QUOTH_API_RESPONSES_H
#define QUOTH_API_RESPONSES_H

#include "dialect.h"

/* Prefix that an answer adds to the ids of calls. */
#define RESPONSES_CALL_PREFIX "call_"
/* First bytes of encrypted_content that this server made. Base64 of the reasoning follows these
 * bytes. */
#define RESPONSES_SEAL "quoth-"

enum { RESPONSES_HEX = 32, RESPONSES_ID_MAX = 64 };

/* Origin of a message of the prompt (message_place.message) outside of `input`. */
enum { PLACE_INSTRUCTIONS = -1, PLACE_PREVIOUS = -2 };

/* Items of an answer. */
enum response_kind { ITEM_REASONING, ITEM_MESSAGE, ITEM_FUNCTION, ITEM_CUSTOM };

struct response_item {
    enum response_kind kind;
    char *call_id, *name; /* id and name of a call, owned; NULL for other kinds */
    struct buf text;      /* text, or arguments of a call */
    size_t n_sent;        /* bytes of text in events so far */
    /* tokens whose log probabilities belong to the text: index of the first, number, number in
     * events */
    size_t log, n_log, n_log_sent;
    bool incomplete; /* true if a limit ended the text */
};

/* Data of c->own. */
struct responses {
    /* place of each message of the prompt, with the index in `input`, or PLACE_*;
     * arena [n_place] */
    const struct message_place *place;
    size_t n_place;
    char hex[RESPONSES_HEX + 1]; /* random part of the ids of the response and its items */
    struct text_span echo;       /* members of the request in each response object; arena */
    struct text_span input;      /* items of the prompt, separated by commas; arena */
    size_t n_earlier;            /* bytes of `input` before the new items */
    /* id of the response that this response continues, in the arena; NULL if none */
    const char *previous;
    const char *conversation;   /* id of the conversation, in the arena; NULL if none */
    bool appended;              /* true: the response was added to the conversation */
    bool cancelled;             /* true: a client has cancelled the response */
    const char *why;            /* static; cause of a failure outside of the call; NULL if none */
    bool store;                 /* true: the response is stored */
    bool seal;                  /* true: items of reasoning have encrypted_content */
    struct response_item *item; /* items of the answer, owned [n_item] */
    size_t n_item, cap_item;
    bool open, failed;         /* open: the last item grows. failed: memory is exhausted */
    struct custom_text custom; /* place in the arguments of the last item */
    size_t n_token, log_next;  /* tokens in items, and first token that belongs to no item */
    int n_reasoning;           /* tokens of reasoning */
    int64_t n_event, ended;    /* number of events; time of the end, seconds since 1970 */
};

/* A body and the data that its conversion uses and returns. */
struct responses_source {
    const struct json *body;      /* borrowed */
    struct store *store;          /* store of earlier responses, borrowed; NULL if none */
    uint64_t owner;               /* owner of the earlier responses */
    const char *hex;              /* random part of the ids of new items, borrowed */
    struct message_places places; /* place of each message, owned by the caller */
    size_t n_earlier;             /* bytes of `items` before the items of `input` */
    /* id of the stored response whose items the prompt continues; "" if none */
    char previous[RESPONSES_ID_MAX];
    struct buf items; /* items of the prompt, separated by commas, owned by the caller */
    bool keep;        /* true: fill `items` */
    int n_load;       /* number of stored responses that were read */
    /* references to stored items: bytes of the items, compared ids, index after the last item */
    size_t n_referenced, n_compared, next_item;
};
/* Convert a body to the neutral form. The caller owns *out, which is NULL after an error. ERR_ARG
 * with the client's field for a wrong type or value, ERR_UNSUPPORTED for an item, tool or member
 * that is not supported. ERR_LIMIT for too many items, ERR_MISSING for an earlier response or item
 * that is not stored, ERR_MEMORY. */
int responses_neutral(struct json **out, struct responses_source *from, struct err *e);
/* Append instructions, the items of the previous response and `input` as the list of messages.
 * Errors: those of responses_neutral. */
int responses_put_messages(struct json_out *o, struct responses_source *from, struct err *e);

/* ---- responses_truncate.c ---- */

/* Replace *neutral, owned by the caller, by a body without its oldest turns if the prompt exceeds
 * the context. Remove the places of these messages. Errors: those of api_render, and ERR_MEMORY. */
int responses_truncate(const struct api_call *c, struct json **neutral,
                       struct message_places *places, struct err *e);

/* ---- responses_stored.c: items in the store ---- */

/* Append an item of the input with all members that responses of the API have. number: index of the
 * item in the prompt, for the id of an item without id. */
void responses_keep_item(struct buf *b, const struct json *item, const char *hex, size_t number);
/* Set *conversation to the id in `conversation`, borrowed from the body; NULL if absent. ERR_ARG
 * for another type, or with previous_response_id. */
int responses_conversation(const struct json *body, const char **conversation, struct err *e);
/* Set *out to the list of the items before the input: input and output of the previous response, or
 * the items of the conversation. The caller owns *out, which is NULL if the body has neither, and
 * after an error. ERR_MISSING with the client's field if the response or conversation is not
 * stored; ERR_ARG, ERR_LIMIT, ERR_MEMORY. */
int responses_previous(struct json **out, struct responses_source *from, struct err *e);
/* Set *out to a stored item by its id. The caller owns *root, of which *out is a part; *root may
 * have an older value, which is used if it has the item. ERR_MISSING; ERR_LIMIT if too many
 * responses were read, too many ids compared or the items too large; ERR_MEMORY. */
int responses_find_item(struct json **root, const struct json **out, struct responses_source *from,
                        const char *id, struct err *e);

/* ---- responses.c: responses in the background (responses_background.c) ---- */

/* Append the first events of a stream, before its call is submitted. */
void responses_put_queued(const struct api_call *c, struct buf *b);
/* Append the response of an incomplete call: queued, or in progress after the first token. */
void responses_put_now(const struct api_call *c, struct buf *b);
/* Append the response of a complete call: completed, incomplete, failed or cancelled. */
void responses_put_final(struct api_call *c, struct buf *b);
/* Append the event of a failure, after earlier events were lost. */
void responses_put_failed(const struct api_call *c, struct buf *b);
/* Set the cause of a cancellation before api_call_cancel. why: the sentence of a failure, static;
 * NULL: a client cancels the response. */
void responses_set_cancelled(struct api_call *c, const char *why);

/* Append the members of the request that a response object repeats, after a comma. p: parameters
 * that apply. store: the response is stored. */
void responses_put_echo(struct buf *b, const struct json *body, const struct sample_params *p,
                        bool store);
/* Check `metadata`: at most 16 texts. ERR_ARG. */
int responses_check_metadata(const struct json *body, struct err *e);
/* Write an unpredictable text of hexadecimal digits. */
void responses_random(char hex[static RESPONSES_HEX + 1]);
/* Return true if `include` contains the word. */
bool responses_include(const struct json *body, const char *word);

/* ---- responses_items.c: the output ---- */

/* Add the unread part of a choice to the items. b: receives their events; NULL if none. Return
 * false if memory is exhausted. */
bool responses_advance(const struct api_call *c, struct choice *a, struct buf *b);
/* Append all items as a list, or without the brackets of a list. */
void responses_put_items(const struct api_call *c, struct json_out *o);
/* Append the list of all items as member "output". */
void responses_put_output(const struct api_call *c, struct json_out *o);
/* Begin an event up to its type and number. responses_event_end ends it. */
void responses_event(const struct api_call *c, const char *type, struct json_out *o, struct buf *b);
void responses_event_end(struct json_out *o);
void responses_items_deinit(struct responses *own); /* free the items */

/* Replace the fields of the neutral form in an error by the client's (dialect.name_error). */
void responses_name_error(const struct api_call *c, struct err *e);

#endif
