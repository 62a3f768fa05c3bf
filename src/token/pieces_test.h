/* pieces_test.h - the pieces of a text, as "a|b|c", for the tests of this folder. The test's thread
 * only. */
#ifndef QUOTH_TOKEN_PIECES_TEST_H
#define QUOTH_TOKEN_PIECES_TEST_H

#include "token_impl.h"
#include "../../tests/unit.h"

#include <stdlib.h>

/* Return the pieces of a text. The result is valid until the next call. */
static inline const char *pieces_of(const struct tokenizer *t, const char *text, unsigned flags)
{
    static struct buf out;
    struct ids ids = {0};
    struct err e;
    buf_clear(&out);
    buf_add_text(&out, "");
    EXPECT_INT(tokenizer_encode(t, text, strlen(text), flags, &ids, &e), 0);
    for (size_t i = 0; i < ids.n; i++) {
        size_t n;
        const char *piece = tokenizer_piece(t, ids.v[i], &n);
        if (i) buf_add_char(&out, '|');
        buf_add(&out, piece, n);
    }
    vec_deinit(&ids);
    return out.data;
}

#endif
