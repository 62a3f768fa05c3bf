/* spm.c - BPE over characters: SentencePiece's form with scores, and Hugging Face's form with a
 * list of merges.
 *
 * The symbols are characters. Pairs are derived from scores or from the list (merge_build.c).
 * Characters that occur only inside pieces get symbol numbers beyond the vocabulary, because merges
 * may use these characters. A text has no words, because "▁" is an ordinary character. A text is
 * split before each "▁" that no merge joins to the previous character, which does not change the
 * result. The split replaces one merge over megabytes by many merges over few symbols, which is 12
 * times as fast on English text. */
#include "token_impl.h"
#include "base/cancel.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Tables of the kind. All memory is owned, except texts, which are in the tokenizer's arena. */
struct spm {
    struct merges merges; /* pairs of symbols */
    struct strmap sym;    /* text -> symbol */
    uint32_t ascii[128];  /* symbol of each ASCII character; SYM_NONE if none */
    /* characters without a piece, in the arena; loose[i] is symbol n_piece + i */
    const char **loose;
    size_t n_loose, loose_cap;
    /* User-defined pieces of SentencePiece that are not in the matcher of added tokens. */
    struct trie user;
    /* [0x110000 bits] bit of each character: 1 if a merge or user piece joins the character with a
     * following "▁" */
    uint8_t *crosses;
    /* [n_piece] two symbols that form each unused piece, UINT32_MAX if none; NULL if no piece is
     * unused */
    uint32_t (*cut)[2];
};

static void spm_close(struct tokenizer *t)
{
    struct spm *m = t->model;
    if (!m) return;
    merges_deinit(&m->merges);
    strmap_deinit(&m->sym);
    trie_deinit(&m->user);
    free(m->loose);
    free(m->crosses);
    free(m->cut);
    free(m);
    t->model = NULL;
}

/* Return true if merging may produce the piece. Unused pieces are produced and then divided
 * again. */
static bool is_part(const struct piece *p)
{
    return p->n_text && (p->kind == PIECE_NORMAL || p->kind == PIECE_UNUSED ||
                         (p->kind == PIECE_USER && p->match && !p->outside));
}

/* Add a character as a symbol if it is not known. p is in the arena. */
static bool add_loose(struct spm *m, size_t n_piece, const char *p, size_t n)
{
    if (strmap_get(&m->sym, p, n)) return true;
    if (!vec_room((void **)&m->loose, &m->loose_cap, m->n_loose + 1, sizeof *m->loose))
        return false;
    m->loose[m->n_loose] = p;
    return strmap_put(&m->sym, p, n, (uint32_t)(n_piece + m->n_loose++));
}

/* Enter the symbols. A later piece with the same text replaces an earlier piece. Loose characters
 * exist only if pieces have scores, because a list of merges contains all its parts. */
static bool index_symbols(struct spm *m, const struct tokenizer *t)
{
    uint32_t cp;
    if (!strmap_reserve(&m->sym, t->n_piece)) return false;
    for (size_t id = 0; id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (is_part(p) && !strmap_put(&m->sym, p->text, p->n_text, (uint32_t)id)) return false;
    }
    for (size_t id = 0; id < t->n_piece && t->opt.merges_by_score; id++) {
        const struct piece *p = &t->piece[id];
        if (!is_part(p)) continue;
        for (size_t i = 0, len; i < p->n_text; i += len) {
            len = (size_t)uni_next(p->text + i, p->n_text - i, &cp);
            if (!add_loose(m, t->n_piece, p->text + i, len)) return false;
        }
    }
    for (int c = 0; c < 128; c++) {
        char text = (char)c;
        const uint32_t *sym = strmap_get(&m->sym, &text, 1);
        m->ascii[c] = sym ? *sym : SYM_NONE;
    }
    return true;
}

/* Find the first pair of symbols that makes each unused piece. */
static bool find_cuts(struct spm *m, const struct tokenizer *t)
{
    bool any = false;
    for (size_t id = 0; id < t->n_piece; id++) any |= t->piece[id].kind == PIECE_UNUSED;
    if (!any) return true;
    m->cut = malloc(t->n_piece * sizeof *m->cut);
    if (!m->cut) return false;
    memset(m->cut, 0xFF, t->n_piece * sizeof *m->cut);
    for (size_t i = 0; i < m->merges.cap; i++) {
        const struct merge_slot *s = &m->merges.slot[i];
        if (s->left == UINT32_MAX || s->id >= t->n_piece || m->cut[s->id][0] < s->left) continue;
        m->cut[s->id][0] = s->left;
        m->cut[s->id][1] = s->right;
    }
    return true;
}

/* Enter all merges. Each division of a piece into two known symbols is a merge with the piece's
 * rank if pieces have scores. */
static bool fill_merges(struct spm *m, const struct tokenizer *t)
{
    if (!t->opt.merges_by_score) return merges_put_list(&m->merges, t, &m->sym);
    uint32_t *rank = score_ranks(t);
    bool ok = rank != NULL;
    for (size_t id = 0; ok && id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (is_part(p))
            ok = merges_put_cuts(&m->merges, &m->sym, p->text, p->n_text, (uint32_t)id, rank[id]);
    }
    free(rank);
    return ok;
}

/* Mark the last character of `left`. */
static void mark_crossing(struct spm *m, const char *left, size_t n)
{
    uint32_t cp;
    uni_prev(left, n, &cp);
    if (cp < 0x110000) m->crosses[cp / 8] |= (uint8_t)(1u << cp % 8);
}

/* Return the text of a piece or of a loose character, *n bytes. */
static const char *symbol_text(const struct spm *m, const struct tokenizer *t, uint32_t sym,
                               size_t *n)
{
    uint32_t cp;
    if (sym < t->n_piece) {
        *n = t->piece[sym].n_text;
        return t->piece[sym].text;
    }
    const char *p = m->loose[sym - t->n_piece];
    *n = (size_t)uni_next(p, strlen(p), &cp);
    return p;
}

static bool starts_marked(const char *p, size_t n)
{
    return n >= SPACE_MARK_BYTES && memcmp(p, SPACE_MARK, SPACE_MARK_BYTES) == 0;
}

/* Find the characters that a merge joins with a following "▁". A "▁" after a marked character may
 * belong to the previous symbol. A text may be split before all other "▁". */
static bool find_crossings(struct spm *m, const struct tokenizer *t)
{
    m->crosses = calloc(0x110000 / 8, 1);
    if (!m->crosses) return false;
    for (size_t i = 0; i < m->merges.cap; i++) {
        const struct merge_slot *s = &m->merges.slot[i];
        if (s->left == UINT32_MAX) continue;
        size_t n_left, n_right;
        const char *left = symbol_text(m, t, s->left, &n_left),
                   *right = symbol_text(m, t, s->right, &n_right);
        if (starts_marked(right, n_right)) mark_crossing(m, left, n_left);
    }
    for (size_t id = 0; id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (p->kind != PIECE_USER && !t->opt.ignore_merges) continue;
        for (size_t i = 1; i < p->n_text; i++)
            if (starts_marked(p->text + i, p->n_text - i)) mark_crossing(m, p->text, i);
    }
    return true;
}

static bool index_user(struct spm *m, const struct tokenizer *t)
{
    struct trie_key *key = malloc((t->n_piece + 1) * sizeof *key);
    size_t n = 0;
    for (size_t id = 0; key && id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (p->kind == PIECE_USER && !p->match && p->n_text && p->n_text <= ADDED_BYTES_MAX)
            key[n++] = (struct trie_key){p->text, p->n_text, (int32_t)id};
    }
    bool ok = key && trie_build(&m->user, key, n);
    free(key);
    return ok;
}

static int spm_build(struct tokenizer *t, struct err *e)
{
    struct spm *m = t->model = calloc(1, sizeof *m);
    if (m && index_symbols(m, t) && fill_merges(m, t) && find_cuts(m, t) && find_crossings(m, t) &&
        index_user(m, t))
        return 0;
    return err_memory(e, "the merges of a tokenizer", t->n_piece);
}

/* ---- encoding ---- */

/* Convert the characters of a chunk to symbols. Characters without a symbol, and user-defined
 * pieces, become SYM_NONE + offset. */
static size_t to_symbols(const struct spm *m, const char *p, size_t n, uint32_t *sym)
{
    size_t k = 0, len;
    for (size_t i = 0; i < n; i += len) {
        uint32_t cp;
        int32_t id;
        uint32_t s = SYM_NONE;
        if (m->user.n_node && (len = trie_longest(&m->user, p + i, n - i, &id)) > 0) {
            sym[k++] = SYM_NONE | (uint32_t)i;
            continue;
        }
        len = (size_t)uni_next(p + i, n - i, &cp);
        if (cp < 128) {
            s = m->ascii[cp];
        } else {
            const uint32_t *hit = strmap_get(&m->sym, p + i, len);
            if (hit) s = *hit;
        }
        sym[k++] = s == SYM_NONE ? SYM_NONE | (uint32_t)i : s;
    }
    return k;
}

/* Emit the user-defined piece or the unknown character at p. */
static bool emit_at(struct encoder *en, const struct spm *m, const char *p, size_t n)
{
    int32_t id;
    uint32_t cp;
    if (m->user.n_node && trie_longest(&m->user, p, n, &id) > 0) return encoder_emit(en, id);
    return encoder_emit_unknown(en, p, (size_t)uni_next(p, n, &cp));
}

/* Emit a symbol. An unused piece is emitted as the two symbols that formed it, recursively, as
 * SentencePiece does. */
static bool emit_symbol(struct encoder *en, const struct spm *m, uint32_t sym)
{
    const struct tokenizer *t = en->t;
    if (sym >= t->n_piece) {
        size_t n;
        const char *p = symbol_text(m, t, sym, &n);
        return encoder_emit_unknown(en, p, n);
    }
    if (m->cut && t->piece[sym].kind == PIECE_UNUSED && m->cut[sym][0] != UINT32_MAX)
        return emit_symbol(en, m, m->cut[sym][0]) && emit_symbol(en, m, m->cut[sym][1]);
    return encoder_emit(en, (int32_t)sym);
}

/* Encode n bytes in which no merge crosses the ends. */
static bool encode_chunk(struct encoder *en, const struct spm *m, const char *p, size_t n)
{
    if (!vec_room((void **)&en->merge.sym, &en->merge.cap, n, sizeof *en->merge.sym)) return false;
    size_t k = to_symbols(m, p, n, en->merge.sym);
    if (!merge_run(&m->merges, &en->merge, &k)) return false;
    for (size_t i = 0; i < k; i++) {
        uint32_t sym = en->merge.sym[i], at = sym & ~SYM_NONE;
        if (!(sym >= SYM_NONE ? emit_at(en, m, p + at, n - at) : emit_symbol(en, m, sym)))
            return false;
    }
    return true;
}

/* Return the length of the part of p[0, n) that may be encoded alone. The part ends before a "▁"
 * that no merge joins to the previous text. */
static size_t chunk_len(const struct spm *m, const char *p, size_t n)
{
    for (size_t i = 1; i < n;) {
        const char *mark = bytes_find(p + i, n - i, SPACE_MARK, SPACE_MARK_BYTES);
        if (!mark) break;
        size_t at = (size_t)(mark - p);
        uint32_t cp;
        uni_prev(p, at, &cp);
        if (cp >= 0x110000 || !(m->crosses[cp / 8] >> cp % 8 & 1)) return at;
        i = at + SPACE_MARK_BYTES;
    }
    return n;
}

/* Return true if a word that is a piece is not merged. */
static bool takes_whole(const struct encoder *en, const char *p)
{
    return en->t->opt.ignore_merges || (en->t->opt.newline_words && p[0] == '\n');
}

static bool spm_encode(struct encoder *en, const char *p, size_t n)
{
    const struct spm *m = en->t->model;
    const uint32_t *whole = takes_whole(en, p) ? strmap_get(&m->sym, p, n) : NULL;
    en->after_unk = false;
    if (whole) return encoder_emit(en, (int32_t)*whole);
    while (n) {
        size_t len = chunk_len(m, p, n);
        if (cancelled()) return false;
        if (!encode_chunk(en, m, p, len)) return false;
        p += len;
        n -= len;
    }
    return true;
}

const struct token_kind token_kind_spm = {"spm", spm_build, spm_encode, spm_close, false};
