/* tei.h - private to src/api: the form of Text Embeddings Inference's requests. Any thread. */
#ifndef QUOTH_API_TEI_H
#define QUOTH_API_TEI_H

#include "dialect.h"

/* Return the dialect of a body of POST /, by the task of a model that generates no text. */
const struct dialect *tei_root(const struct session *s, const struct json *body);

#endif
