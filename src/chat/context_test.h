/* context_test.h - for tests of chat: rendering of templates with any variables. The test's thread
 * only. */
#ifndef QUOTH_CHAT_CONTEXT_TEST_H
#define QUOTH_CHAT_CONTEXT_TEST_H

#include "chat.h"

/* Append a rendering with exactly the variables of `context`, an object; NULL if none. Messages are
 * not adapted. */
int render_context(const struct template *t, const struct json *context,
                   const struct template_limits *limits, int64_t now, struct buf *out,
                   struct err *e);

#endif
