/* vocab.h - private to grammar: the byte strings of a tokenizer's tokens, ordered for masks. Made
 * once per tokenizer, immutable.
 *
 * Most masks are needed inside JSON strings, where nearly every token is allowed. So tokens are
 * divided by their effect there:
 *
 *   plain    whole characters that are unescaped in a JSON string; by their number of characters
 *   closing  plain characters, a quote, then anything: after the quote only the rest matters, and there are few different rests
 *   other    backslashes, control characters, pieces of characters
 *
 * A state that takes any plain character takes all plain tokens at once (a bit set), and of the
 * closing ones only the rests are walked (llguidance's slices are the idea; division at the quote is
 * new). */
#ifndef QUOTH_GRAMMAR_VOCAB_H
#define QUOTH_GRAMMAR_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nodes in depth-first order. A node's first child is the next node; its next sibling is `size` nodes further. */
struct trie {
    struct trie_node {
        uint32_t size : 24, byte : 8; /* nodes of the subtree, itself included */
        int32_t first, n;             /* values of this node: trie.value[first .. first + n) */
    } * node;                         /* owned */
    uint32_t n;
    int32_t *value;   /* owned */
    uint32_t n_empty; /* values of the empty string: the first ones */
};

enum { PLAIN_CLASSES = 6 }; /* tokens of 1, 2, 3..4, 5..8, 9..16, more characters */

struct vocab {
    int n_vocab, n_word; /* words of 64 bits in a mask */
    struct {
        struct trie trie;
        uint64_t *mask; /* owned; [n_word]: all tokens of the class */
        int n_char_max;
    } plain[PLAIN_CLASSES];
    int n_closing_max;         /* maximum of characters before the quote of a closing token */
    struct trie closing;       /* whole tokens */
    struct trie closing_rests; /* what follows the first quote; values are tokens */
    struct trie other;
    char *bytes;   /* owned: all tokens, one after another */
    uint32_t *end; /* owned: [n_vocab]; token i is bytes[end[i - 1] .. end[i]) */
};

/* Read n_vocab tokens. token(arg, id, &n) returns the bytes of a token, NULL or n = 0 for one
 * without text (special tokens). Returns false if memory is exhausted. */
typedef const char *token_fn(const void *arg, int32_t id, size_t *n);
bool vocab_open(struct vocab *v, int n_vocab, token_fn *token, const void *arg);
void vocab_close(struct vocab *v); /* Safe on a zeroed struct. */

/* Return whether a longer token begins with these bytes. */
bool vocab_has_prefix(const struct vocab *v, const char *text, size_t n);

static inline const char *vocab_bytes(const struct vocab *v, int32_t id, size_t *n)
{
    uint32_t from = id == 0 ? 0 : v->end[id - 1];
    *n = v->end[id] - from;
    return v->bytes + from;
}

#endif
