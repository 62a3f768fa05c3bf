/* pooled.h - private to src/api: common parts of the endpoints without generated tokens
 * (embeddings, scores, classes). */
#ifndef QUOTH_API_POOLED_H
#define QUOTH_API_POOLED_H

#include "openai.h"

/* Open the request of one text, whose rows are pooled. head: layers after the pooling. Its result
 * is p->pooled. ERR_ARG with a field of the holder, ERR_MEMORY. */
int pooled_open(struct api_call *c, struct part *p, const struct json *body, enum pooling pooling,
                enum head head, struct err *e);
/* Open the part of an embedding (part_fn). */
int pooled_open_embedding(struct api_call *c, struct part *p, const struct json *body,
                          struct err *e);
/* Open the part of a classifier (part_fn). ERR_UNSUPPORTED if the model has no classifier. */
int pooled_open_class(struct api_call *c, struct part *p, const struct json *body, struct err *e);
/* Read the name of the prompt that precedes each text, into c->before. ERR_ARG for an unknown
 * name. */
int pooled_read_prompt_name(struct api_call *c, const struct json *body, struct err *e);
/* Set c->before to the model's default prompt, if any. */
void pooled_default_prompt(struct api_call *c);
/* Set *use by use_activation or activation: true if the activation applies to a classifier's
 * logits. The default is true. ERR_ARG for another type. */
int pooled_read_activation(const struct json *body, bool *use, struct err *e);
/* Set *normalize by normalize or use_activation: true if embeddings get the length 1. Without these
 * fields *normalize stays. ERR_ARG for another type, or for two different values. */
int pooled_read_normalize(const struct json *body, bool *normalize, struct err *e);
/* Return the activation of the model's classes, or of its scores; the identity if !activate. */
enum class_act pooled_class_act(const struct api_call *c, bool activate);
enum class_act pooled_score_act(const struct api_call *c, bool activate);
/* Set *out to a copy of p->pooled, f32 [p->n_pooled], after `act`, owned by the caller. ERR_IO if
 * the numbers are not finite, ERR_MEMORY. */
int pooled_logits(const struct part *p, enum class_act act, float **out, struct err *e);
/* Read encoding_format, embed_dtype and endianness. ERR_ARG for an unknown word, or a number format
 * of a list. */
int vector_form_read(struct vector_form *f, const struct json *body, struct err *e);
/* Append the vector v f32 [n] in the requested form. */
void vector_put(struct json_out *o, const char *key, const struct vector_form *f, const float *v,
                int64_t n);
/* Append the ids of a model's prompt for a pair to `out`, which is empty. The prompt has at most
 * n_max ids; n_max < 0: no limit. ERR_ARG if n_max is too small for the prompt, and the errors of
 * tokenizer_encode. */
typedef int pair_prompt_fn(const struct tokenizer *t, const struct text_span *query,
                           const struct text_span *document, int64_t n_max, struct ids *out,
                           struct err *e);
/* Return the prompt of a reranker that is a language model; NULL if the tokenizer makes pairs. Any
 * thread. */
pair_prompt_fn *pair_prompt_of(const struct session *s);
/* A score of a text or label. */
struct scored {
    double score;
    int index;
};
void scored_sort(struct scored *v, int n); /* sort v [n], highest score first, then by index */

/* ---- vllm_score.c: the parts of /rerank that another dialect shares ---- */

/* Read a body with `query` and `documents`. Errors: those of dialect.read. */
int rerank_read(struct api_call *c, const struct json *body, struct err *e);
/* Set *out to the scores of the documents, best first [*n], owned by the caller. ERR_IO if a score
 * is not finite, ERR_MEMORY. */
int rerank_scores(const struct api_call *c, struct scored **out, int *n, struct err *e);
/* Name the text of an error about its length, such as documents[3] (dialect.name_error). */
void rerank_name_text(const struct api_call *c, struct err *e);
/* Return document i, borrowed from c; NULL if the answer has no texts. */
const struct text_span *rerank_document(const struct api_call *c, int i);

/* Return the cosine of two vectors f32 [n]; 0 if a vector is zero. */
double pooled_cosine(const float *a, const float *b, int n);

#endif
