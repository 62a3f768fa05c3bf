/* text.c - conversion of texts, tokens and conversations for the library.
 *
 * Results are allocated for the caller, which frees them by quoth_free. *text and *ids are NULL
 * after a failure. */
#include "lib_impl.h"

#include <stdlib.h>

/* Return an allocated text for an empty buffer, so that callers can distinguish it from a
 * failure. */
int lib_hand_over(struct buf *b, char **text, size_t *n_text, struct err *e)
{
    *n_text = b->n;
    buf_add(b, "", 0);
    if (!b->failed && !b->data) buf_room(b, 1);
    *text = buf_detach(b);
    return *text ? 0 : err_memory(e, "a text", *n_text);
}

/* Return an allocated array for an empty result, so that callers can distinguish it from a
 * failure. */
int quoth_tokenize(const quoth_model *m, const char *text, size_t n, unsigned flags, int32_t **ids,
                   size_t *n_id, char *error, size_t n_error)
{
    struct err e = {0};
    struct ids out = {0};
    /* the numbers of quoth.h are part of its binary interface, those of token.h are not */
    unsigned f = session_added(flags & QUOTH_ADD_SPECIAL, m->session.info->headless) |
                 (flags & QUOTH_PARSE_SPECIAL ? ENCODE_PARSE_SPECIAL : 0);
    *ids = NULL;
    *n_id = 0;
    int rc = tokenizer_encode(m->session.tokenizer, text ? text : "", n, f, &out, &e);
    if (rc == 0 && !vec_reserve(&out, 1)) rc = err_memory(&e, "ids", sizeof *out.v);
    if (rc != 0) {
        vec_deinit(&out);
        return report_error(rc, &e, error, n_error);
    }
    *ids = out.v;
    *n_id = out.n;
    return 0;
}

/* Return the length too, because a text may contain NUL bytes. */
int quoth_detokenize(const quoth_model *m, const int32_t *ids, size_t n, int skip_special,
                     char **text, size_t *n_text, char *error, size_t n_error)
{
    struct err e = {0};
    struct buf b = {0};
    unsigned flags = skip_special ? DECODE_SKIP_SPECIAL : 0;
    *text = NULL;
    *n_text = 0;
    int rc = tokenizer_decode(m->session.tokenizer, ids, n, flags, &b)
                 ? lib_hand_over(&b, text, n_text, &e)
                 : err_memory(&e, "a text", n);
    buf_deinit(&b);
    return report_error(rc, &e, error, n_error);
}

int quoth_apply_chat_template(const quoth_model *m, const char *chat, char **text, size_t *n_text,
                              char *error, size_t n_error)
{
    struct err e = {0};
    struct buf b = {0};
    *text = NULL;
    *n_text = 0;
    int rc = lib_render(m, chat, &b, &e);
    if (rc == 0) rc = lib_hand_over(&b, text, n_text, &e);
    buf_deinit(&b);
    return report_error(rc, &e, error, n_error);
}
