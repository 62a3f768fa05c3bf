/* bpe.c - byte-level BPE: for GPT-2, the models with its tokenizer, and tiktoken.
 *
 * The first symbols of a word are its bytes. merge.c joins them by the pair table. Pieces are
 * converted from GPT-2's alphabet to bytes at open, so encoding never uses the alphabet. In some
 * families (llama-3, tiktoken) a word that is itself a piece is not merged. In the other families,
 * a word that is a piece is merged once. `whole` is true after that if the result was the piece.
 * Most words of a text are pieces, and a look-up takes a tenth of the time of merging. */
#include "token_impl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Tables of the kind. All memory is owned; keys of `word` are in the tokenizer's arena. */
struct bpe {
    struct merges merges;
    struct strmap word;  /* bytes -> id */
    uint32_t first[256]; /* symbol of each byte; SYM_NONE if no piece is that byte */
    /* [n_piece] true if merging the piece's bytes gives the piece; set by any thread */
    atomic_bool *whole;
};

static void bpe_close(struct tokenizer *t)
{
    struct bpe *b = t->model;
    if (!b) return;
    merges_deinit(&b->merges);
    strmap_deinit(&b->word);
    free(b->whole);
    free(b);
    t->model = NULL;
}

/* Return true if a piece may be part of a word. Added tokens are matched before words, but an added
 * token of the vocabulary may also be part of a word. */
static bool is_part(const struct piece *p)
{
    return p->kind == PIECE_NORMAL || p->kind == PIECE_UNUSED || (p->listed && !p->special);
}

/* Enter the bytes of all pieces. A look-up returns the later id if two pieces have the same
 * bytes. */
static bool index_words(struct bpe *b, const struct tokenizer *t)
{
    if (!strmap_reserve(&b->word, t->n_piece)) return false;
    for (size_t id = 0; id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (is_part(p) && !strmap_put(&b->word, p->bytes, p->n_byte, (uint32_t)id)) return false;
    }
    return true;
}

/* Enter all merges. tiktoken has no list of merges: each division of a token into two tokens is a
 * merge with the token's rank. */
static bool fill_merges(struct bpe *b, const struct tokenizer *t)
{
    if (!t->opt.merges_by_rank) return merges_put_list(&b->merges, t, &t->find);
    for (size_t id = 0; id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (is_part(p) &&
            !merges_put_cuts(&b->merges, &b->word, p->bytes, p->n_byte, (uint32_t)id, (uint32_t)id))
            return false;
    }
    return true;
}

static int bpe_build(struct tokenizer *t, struct err *e)
{
    struct bpe *b = t->model = calloc(1, sizeof *b);
    if (!b) return err_memory(e, "a tokenizer", sizeof *b);
    for (int c = 0; c < 256; c++)
        b->first[c] = t->byte_id[c] < 0 ? SYM_NONE : (uint32_t)t->byte_id[c];
    b->whole = calloc(t->n_piece + 1, sizeof *b->whole);
    if (!b->whole || !index_words(b, t) || !fill_merges(b, t))
        return err_memory(e, "the merges of a tokenizer", t->n_piece);
    return 0;
}

/* Return true if a word that is a piece is not merged. Relaxed order is enough, because a thread
 * that reads an old mark merely merges once more. */
static bool is_whole(const struct encoder *en, uint32_t id)
{
    const struct bpe *b = en->t->model;
    return en->t->opt.ignore_merges || atomic_load_explicit(&b->whole[id], memory_order_relaxed);
}

/* Encode one word of n bytes. Bytes without a piece are unknown. Emit UNK for unknown bytes, or no
 * token if there is no UNK. */
static bool bpe_encode(struct encoder *en, const char *p, size_t n)
{
    const struct bpe *b = en->t->model;
    const uint32_t *word = strmap_get(&b->word, p, n);
    if (word && is_whole(en, *word)) return encoder_emit(en, (int32_t)*word);
    if (!vec_room((void **)&en->merge.sym, &en->merge.cap, n, sizeof *en->merge.sym)) return false;
    for (size_t i = 0; i < n; i++) en->merge.sym[i] = b->first[(uint8_t)p[i]];
    if (!merge_run(&b->merges, &en->merge, &n)) return false;
    if (word && n == 1 && en->merge.sym[0] == *word)
        atomic_store_explicit(&b->whole[*word], true, memory_order_relaxed);
    for (size_t i = 0; i < n; i++) {
        uint32_t sym = en->merge.sym[i];
        if (!(sym >= SYM_NONE ? encoder_emit_unknown(en, NULL, 0) : encoder_emit(en, (int32_t)sym)))
            return false;
    }
    return true;
}

const struct token_kind token_kind_bpe = {"bpe", bpe_build, bpe_encode, bpe_close, false};
