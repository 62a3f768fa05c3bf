/* thinking.h - a maximum number of tokens of reasoning, as a constraint of an engine's sequences.
 *
 *   tokens inside the reasoning --as many as the budget--> tokens of its closing mark, forced
 *
 * The constraint contains an inner constraint, for example a grammar, which applies to all tokens.
 * Reasoning is found in the text (chat_track), so a mark may consist of any tokens. */
#ifndef QUOTH_SESSION_THINKING_H
#define QUOTH_SESSION_THINKING_H

#include "chat/chat.h"
#include "engine/constraint.h"
#include "token/token.h"

struct thinking_options {
    const struct tokenizer *tokenizer; /* borrowed; must outlive the constraint */
    int n_vocab;                       /* size of the model's vocabulary */
    int budget;                        /* maximum number of tokens of reasoning, >= 0 */
    struct chat_track track; /* place at the end of the prompt (chat_track_push of its text) */
};

/* Limit the reasoning of a request's answers. take_inner: constraint of all tokens; NULL if none.
 * The caller owns *out. take_inner is closed after an error. Return ERR_UNSUPPORTED if the model's
 * vocabulary cannot express the closing mark, or ERR_MEMORY. Any thread. */
int thinking_open(struct constraint **out, const struct thinking_options *o,
                  struct constraint *take_inner, struct err *e);

#endif
