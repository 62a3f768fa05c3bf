/* unigram.c - the unigram language model: the segmentation with the highest sum of piece scores
 * (Viterbi).
 *
 * One pass from the left finds every piece that begins at each character, by a trie. Each piece
 * extends the best path to its beginning, and the best path to each position is kept. The score of
 * a character that is not a piece is the lowest score less 10, as in SentencePiece. Sums are
 * doubles, as in Hugging Face's code and in SentencePiece since 0.2.2. Earlier versions of
 * SentencePiece used floats, which gave other results for nearly equal scores of long texts. */
#include "token_impl.h"

#include "base/cancel.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define UNKNOWN_PENALTY 10.0

struct unigram {
    struct trie trie;
    double unknown_score, score_max; /* score of an unknown character; highest score */
};

struct lattice_node { /* best path to a byte position of the text */
    double score;
    int32_t id; /* id of the path's last piece, -1 for an unknown character, -2 if not reached */
    uint32_t start;
};
enum { ID_UNKNOWN = -1, ID_UNREACHED = -2 };

static void unigram_close(struct tokenizer *t)
{
    struct unigram *m = t->model;
    if (!m) return;
    trie_deinit(&m->trie);
    free(m);
    t->model = NULL;
}

/* Return true if segmentations may contain the piece. */
static bool in_lattice(const struct tokenizer *t, const struct piece *p)
{
    if (p->n_text == 0 || p->kind == 0 || p->outside) return false;
    return p->kind == PIECE_NORMAL || p->kind == PIECE_USER || t->opt.match_all;
}

/* Set the lowest and the highest score. score_max begins at FLT_MIN, the smallest positive float,
 * as in SentencePiece's code. */
static void find_extremes(struct unigram *m, const struct tokenizer *t)
{
    double low = FLT_MAX;
    m->score_max = FLT_MIN;
    for (size_t id = 0; id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (p->kind == 0 || p->outside || (p->kind != PIECE_NORMAL && !t->opt.match_all)) continue;
        low = fmin(low, p->score);
        m->score_max = fmax(m->score_max, p->score);
    }
    m->unknown_score = low - UNKNOWN_PENALTY;
}

/* Build the trie. The keys' texts are borrowed only during the build. */
static int unigram_build(struct tokenizer *t, struct err *e)
{
    struct unigram *m = t->model = calloc(1, sizeof *m);
    struct trie_key *key = malloc((t->n_piece + 1) * sizeof *key);
    size_t n = 0;
    int rc = 0;
    for (size_t id = 0; key && id < t->n_piece && rc == 0; id++) {
        const struct piece *p = &t->piece[id];
        if (!in_lattice(t, p)) continue;
        key[n++] = (struct trie_key){p->text, p->n_text, (int32_t)id};
        rc = tokenizer_check_search(t, id, e);
    }
    bool ok = m && key && rc == 0 && trie_build(&m->trie, key, n);
    free(key);
    if (rc != 0) return rc;
    if (!ok) return err_memory(e, "the trie of a tokenizer", t->n_piece);
    find_extremes(m, t);
    return 0;
}

/* Return the score of a piece in the lattice. len is the length of the piece in bytes. */
static double piece_score(const struct encoder *en, const struct unigram *m, int32_t id, size_t len)
{
    const struct piece *p = &en->t->piece[id];
    if (p->kind != PIECE_USER || en->t->opt.match_all) return p->score;
    /* SentencePiece gives a user-defined piece a higher score than all other pieces. The score of a
     * user-defined piece in GGUF files is 0. */
    return p->match ? 0 : (double)len * m->score_max - 0.1;
}

/* Replace a path by a better path. The first of several paths with equal scores is kept, as in
 * SentencePiece. */
static void offer(struct lattice_node *to, double score, int32_t id, size_t start)
{
    if (to->id != ID_UNREACHED && !(score > to->score)) return;
    *to = (struct lattice_node){score, id, (uint32_t)start};
}

/* Extend the path to position `at` by every piece that begins there. char_len is the number of
 * bytes of the character at `at`. */
static void offer_pieces(const struct encoder *en, const struct unigram *m,
                         struct lattice_node *best, const char *p, size_t n, size_t at,
                         size_t char_len)
{
    bool single = false;
    double sum = best[at].score;
    uint32_t node = 0;
    for (size_t i = at; i < n && (node = trie_step(&m->trie, node, (uint8_t)p[i])) != 0; i++) {
        int32_t id = m->trie.value[node];
        if (id < 0 || !encoder_allows_piece(en, id)) continue;
        size_t len = i + 1 - at;
        offer(&best[i + 1], sum + piece_score(en, m, id, len), id, at);
        single |= len == char_len;
    }
    if (!single) offer(&best[at + char_len], sum + m->unknown_score, ID_UNKNOWN, at);
}

/* Follow the best path back from the end. Write the ends of the path's pieces, last first, to
 * en->merge.sym. */
static bool trace_back(struct encoder *en, const struct lattice_node *best, size_t n, size_t *n_end)
{
    struct merge_work *w = &en->merge;
    *n_end = 0;
    for (size_t at = n; at > 0; at = best[at].start) {
        if (!vec_room((void **)&w->sym, &w->cap, *n_end + 1, sizeof *w->sym)) return false;
        w->sym[(*n_end)++] = (uint32_t)at;
    }
    return true;
}

/* Encode p[0, n) by the best path. best is [n + 1], and best[i] is the best path to byte i. Only
 * ends of characters and pieces are reached. */
static bool unigram_encode(struct encoder *en, const char *p, size_t n)
{
    const struct unigram *m = en->t->model;
    if (!vec_room(&en->lattice, &en->lattice_cap, n + 1, sizeof(struct lattice_node)) ||
        m->trie.n_node == 0)
        return m->trie.n_node == 0;
    struct lattice_node *best = en->lattice;
    for (size_t i = 1; i <= n; i++) best[i].id = ID_UNREACHED;
    best[0] = (struct lattice_node){0};
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t cp;
        len = (size_t)uni_next(p + at, n - at, &cp);
        if (cancelled()) return false;
        offer_pieces(en, m, best, p, n, at, len);
    }
    size_t n_end;
    if (!trace_back(en, best, n, &n_end)) return false;
    en->after_unk = false;
    for (size_t i = n_end; i-- > 0;) {
        const struct lattice_node *x = &best[en->merge.sym[i]];
        bool ok = x->id == ID_UNKNOWN
                      ? encoder_emit_unknown(en, p + x->start, en->merge.sym[i] - x->start)
                      : encoder_emit(en, x->id);
        if (!ok) return false;
    }
    return true;
}

const struct token_kind token_kind_unigram = {"unigram", unigram_build, unigram_encode,
                                              unigram_close, false};
