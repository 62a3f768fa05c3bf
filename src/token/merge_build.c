/* merge_build.c - the table of merging pairs, from a vocabulary's list or from its pieces.
 *
 * tiktoken and SentencePiece store no pairs. Two neighbours merge if their joined text is a piece.
 * The pair with the lowest id or the highest score merges first. The table of pairs is made when
 * the tokenizer is opened, by trying every cut of every piece. Encoding then compares no text. */
#include "token_impl.h"

#include <stdlib.h>
#include <string.h>

/* Add the pairs that make the symbol `made`, whose text is p[0, n), with rank `rank`. */
bool merges_put_cuts(struct merges *m, const struct strmap *sym, const char *p, size_t n,
                     uint32_t made, uint32_t rank)
{
    if (n > PIECE_MERGE_BYTES_MAX) return true;
    for (size_t cut = 1; cut < n; cut++) {
        const uint32_t *left = strmap_get(sym, p, cut);
        if (!left) continue;
        const uint32_t *right = strmap_get(sym, p + cut, n - cut);
        if (right && !merges_put(m, *left, *right, rank, made)) return false;
    }
    return true;
}

/* Add the pairs of t->merge, ranked in order. A pair is skipped if one of its texts is not a
 * symbol. */
bool merges_put_list(struct merges *m, const struct tokenizer *t, const struct strmap *sym)
{
    struct buf joined = {0};
    bool ok = true;
    for (size_t i = 0; i < t->merge.n && ok; i++) {
        const struct merge_text *x = &t->merge.v[i];
        const uint32_t *left = strmap_get(sym, x->left, x->n_left);
        const uint32_t *right = strmap_get(sym, x->right, x->n_right);
        if (!left || !right) continue;
        buf_clear(&joined);
        buf_add(&joined, x->left, x->n_left);
        buf_add(&joined, x->right, x->n_right);
        ok = !joined.failed;
        const uint32_t *made = ok ? strmap_get(sym, joined.data, joined.n) : NULL;
        if (made) ok = merges_put(m, *left, *right, (uint32_t)i, *made);
    }
    buf_deinit(&joined);
    return ok;
}

struct scored_piece {
    double score; /* score of the piece */
    uint32_t id;
};

static int by_score(const void *pa, const void *pb)
{
    const struct scored_piece *a = pa, *b = pb;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Return an array of ranks by id. The rank of an id is the position of its score among all scores,
 * highest first. Equal scores have equal ranks. NULL if memory is exhausted. */
uint32_t *score_ranks(const struct tokenizer *t)
{
    struct scored_piece *s = malloc((t->n_piece + 1) * sizeof *s);
    uint32_t *rank = malloc((t->n_piece + 1) * sizeof *rank);
    for (size_t id = 0; s && rank && id < t->n_piece; id++)
        s[id] = (struct scored_piece){t->piece[id].score, (uint32_t)id};
    if (s && rank) {
        qsort(s, t->n_piece, sizeof *s, by_score);
        uint32_t r = 0;
        for (size_t i = 0; i < t->n_piece; i++) {
            r += i > 0 && s[i].score != s[i - 1].score;
            rank[s[i].id] = r;
        }
    } else {
        free(rank);
        rank = NULL;
    }
    free(s);
    return rank;
}
