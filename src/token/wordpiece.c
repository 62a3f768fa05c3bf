/* wordpiece.c - WordPiece: repeatedly remove the longest piece at the beginning of the rest of the
 * word. A word is unknown if pieces cannot cover it.
 *
 * There are two tries: pieces that may begin a word, and pieces inside a word. BERT's vocab.txt
 * marks the pieces inside a word ("##ing"). GGUF marks the pieces that begin a word ("▁walk"). */
#include "token_impl.h"

#include <stdlib.h>
#include <string.h>

/* Tables of the kind. All memory is owned. */
struct wordpiece {
    struct trie head, tail; /* tries of pieces at the beginning of a word and inside a word */
};

static void wordpiece_close(struct tokenizer *t)
{
    struct wordpiece *m = t->model;
    if (!m) return;
    trie_deinit(&m->head);
    trie_deinit(&m->tail);
    free(m);
    t->model = NULL;
}

/* Remove the prefix from the text. Return false if the text does not begin with the prefix. */
static bool strip_prefix(const char *prefix, const char **p, uint32_t *n)
{
    size_t len = strlen(prefix);
    if (*n < len || memcmp(*p, prefix, len) != 0) return false;
    *p += len;
    *n -= (uint32_t)len;
    return true;
}

/* Set the text that a piece matches at the head of a word or inside a word. Return false if the
 * piece never occurs at the requested place. */
static bool key_of(const struct tokenizer *t, size_t id, bool head, struct trie_key *key)
{
    const struct piece *p = &t->piece[id];
    *key = (struct trie_key){p->text, p->n_text, (int32_t)id};
    if (p->kind == 0 || p->outside) return false;
    const char *word = t->opt.word_prefix, *inner = t->opt.inner_prefix;
    bool fits = true;
    if (word) {
        bool begins = strip_prefix(word, &key->p, &key->n);
        fits = begins == head && p->kind == PIECE_NORMAL;
    } else if (!head) {
        fits = strip_prefix(inner, &key->p, &key->n);
    }
    return fits && key->n > 0;
}

/* Build the trie for heads or for tails. ERR_LIMIT, ERR_MEMORY. */
static int build_trie(struct trie *out, const struct tokenizer *t, bool head, struct err *e)
{
    struct trie_key *key = malloc((t->n_piece + 1) * sizeof *key);
    size_t n = 0;
    int rc = 0;
    for (size_t id = 0; key && id < t->n_piece && rc == 0; id++) {
        if (!key_of(t, id, head, &key[n])) continue;
        n++;
        rc = tokenizer_check_search(t, id, e);
    }
    if (rc == 0 && !(key && trie_build(out, key, n)))
        rc = err_memory(e, "the trie of a tokenizer", t->n_piece);
    free(key);
    return rc;
}

static int wordpiece_build(struct tokenizer *t, struct err *e)
{
    struct wordpiece *m = t->model = calloc(1, sizeof *m);
    if (!m) return err_memory(e, "a tokenizer", sizeof *m);
    int rc = build_trie(&m->head, t, true, e);
    return rc == 0 ? build_trie(&m->tail, t, false, e) : rc;
}

/* Return true if a word has more than the maximum number of characters. */
static bool too_long(const struct tokenizer *t, const char *p, size_t n)
{
    int n_char = 0;
    if (n <= (size_t)t->opt.word_chars_max) return false;
    for (size_t i = 0; i < n && n_char <= t->opt.word_chars_max; i++)
        n_char += (p[i] & 0xC0) != 0x80;
    return n_char > t->opt.word_chars_max;
}

/* Return the length of the longest piece at p[0, n) that the text may give; 0 if none. */
static size_t longest_allowed(const struct encoder *en, const struct trie *t, const char *p,
                              size_t n, int32_t *id)
{
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < n && t->n_node && (node = trie_step(t, node, (uint8_t)p[i])) != 0; i++) {
        if (t->value[node] < 0 || !encoder_allows_piece(en, t->value[node])) continue;
        longest = i + 1;
        *id = t->value[node];
    }
    return longest;
}

/* Encode one word. Emitted pieces are removed again if a later part of the word is unknown. The
 * whole word is then one UNK. */
static bool wordpiece_encode(struct encoder *en, const char *p, size_t n)
{
    const struct wordpiece *m = en->t->model;
    size_t n_before = en->out->n;
    bool known = !too_long(en->t, p, n);
    for (size_t i = 0; i < n && known;) {
        int32_t id;
        size_t len = longest_allowed(en, i == 0 ? &m->head : &m->tail, p + i, n - i, &id);
        known = len > 0;
        if (known && !encoder_emit(en, id)) return false;
        i += len;
    }
    if (known) return true;
    en->out->n = n_before;
    return en->t->unk < 0 || encoder_emit(en, en->t->unk);
}

const struct token_kind token_kind_wordpiece = {"wordpiece", wordpiece_build, wordpiece_encode,
                                                wordpiece_close, false};
