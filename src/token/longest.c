/* longest.c - the longest piece at the beginning of the rest of the text, repeatedly: the encoding
 * of RWKV's "world" vocabularies.
 *
 * A text is not split into words, and its bytes need not be UTF-8: a piece may end inside a
 * character. Only pieces of the vocabulary are in the trie. Special tokens match before
 * (added.c). */
#include "token_impl.h"

#include "base/cancel.h"

#include <stdlib.h>

static void longest_close(struct tokenizer *t)
{
    if (t->model) trie_deinit(t->model);
    free(t->model);
    t->model = NULL;
}

/* Return true if merely the text of a piece makes it a token: an added token counts only if it is
 * also in the vocabulary. */
static bool in_trie(const struct piece *p)
{
    return (p->kind == PIECE_NORMAL || p->listed) && p->n_byte > 0;
}

static int longest_build(struct tokenizer *t, struct err *e)
{
    struct trie *trie = t->model = calloc(1, sizeof *trie);
    struct trie_key *key = malloc((t->n_piece + 1) * sizeof *key);
    size_t n = 0;
    int rc = 0;
    for (size_t id = 0; key && id < t->n_piece && rc == 0; id++) {
        const struct piece *p = &t->piece[id];
        if (!in_trie(p)) continue;
        key[n++] = (struct trie_key){p->bytes, p->n_byte, (int32_t)id};
        rc = tokenizer_check_search(t, id, e);
    }
    const bool ok = trie && key && rc == 0 && trie_build(trie, key, n);
    free(key);
    if (rc != 0) return rc;
    return ok ? 0 : err_memory(e, "the trie of a tokenizer", t->n_piece);
}

static bool longest_encode(struct encoder *en, const char *p, size_t n)
{
    enum { CHECK_BYTES = 4096 }; /* bytes between two checks for a cancelled call */
    size_t checked = 0;
    for (size_t i = 0; i < n;) {
        int32_t id;
        const size_t len = trie_longest(en->t->model, p + i, n - i, &id);
        if (!(len ? encoder_emit(en, id) : encoder_emit_unknown(en, p + i, 1))) return false;
        i += len ? len : 1;
        if (i - checked < CHECK_BYTES) continue;
        checked = i;
        if (cancelled()) return false;
    }
    return true;
}

const struct token_kind token_kind_longest = {
    .name = "longest",
    .build = longest_build,
    .encode = longest_encode,
    .close = longest_close,
    .whole = true,
};
