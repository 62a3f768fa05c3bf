/* llamacpp.h - private to src/api: the form of the own endpoints of llama.cpp's server. Any
 * thread. */
#ifndef QUOTH_API_LLAMACPP_H
#define QUOTH_API_LLAMACPP_H

#include "dialect.h"

extern const struct error_form llamacpp_errors;
extern const char llamacpp_no_memory[]; /* value of dialect.no_memory */

/* Settings of an answer. All pointers are borrowed. */
struct llamacpp_settings {
    const struct sample_params *params;
    int64_t n_predict;                 /* maximum number of tokens; -1: the context's length */
    const struct reply_options *reply; /* stop strings; NULL if none */
    const struct api_call *call;       /* other fields of the body; NULL: defaults */
};
/* Return the value of n_predict for a maximum number of tokens: -1 for the context's length. */
int64_t llamacpp_n_predict(const struct api *a, int max_tokens);
/* Append the members of llama.cpp's `generation_settings` to the open object. */
void llamacpp_put_settings(struct json_out *o, const struct llamacpp_settings *s);

/* Ids of the tokens for filling in the middle; -1: the vocabulary has no such token. */
struct llamacpp_marks {
    int32_t id[N_FIM];
    bool suffix_first; /* true: the text after the gap is first, and no mark precedes the answer */
};
struct llamacpp_marks llamacpp_marks(const struct tokenizer *t); /* return the marks of a model */
/* A gap with the text after it, tokenized once for all prompts of a body. */
struct llamacpp_gap {
    struct llamacpp_marks marks;
    struct ids suffix; /* ids of the text after the gap, owned */
};
/* Read the text after the gap [n] with the marks of the model's family, before the prompts are
 * read. The caller closes g, also after an error. Errors have the field "suffix": ERR_UNSUPPORTED
 * if a mark is missing, ERR_LIMIT if the text does not fit into the context. Also ERR_MEMORY, and
 * ERR_BUSY if the client disconnects. */
int llamacpp_gap_open(struct llamacpp_gap *g, const struct api_call *c,
                      const struct llamacpp_marks *marks, const char *suffix, size_t n,
                      struct err *e);
void llamacpp_gap_close(struct llamacpp_gap *g); /* free the ids; a zeroed gap is allowed */
/* Put the prompt of each part of c before the gap, and let the vocabulary's other marks end the
 * answers. Nothing is left out. ERR_LIMIT with the field "suffix" if the copies of the text have
 * too many tokens, ERR_MEMORY. */
int llamacpp_fill(struct api_call *c, const struct llamacpp_gap *g, struct err *e);
/* Make the prompt of r from the fields of a body for /infill, and let the vocabulary's other marks
 * end its answer. keep: arena of the list of stop tokens. ERR_UNSUPPORTED if a mark of prefix,
 * suffix or middle is missing. ERR_ARG with the field, ERR_LIMIT, ERR_MEMORY, ERR_BUSY if the
 * client disconnects. */
int llamacpp_infill(struct request *r, const struct api *a, const struct llamacpp_marks *marks,
                    const struct json *body, struct arena *keep, struct err *e);

#endif
