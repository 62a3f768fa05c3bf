/* vocab.h - private to grammar: the byte strings of a tokenizer's tokens, ordered for masks. The
 * vocabulary is made once per tokenizer and is immutable.
 *
 * Most masks are needed inside JSON strings, which allow nearly every token. Therefore tokens are
 * divided by their effect in a JSON string:
 *
 *   plain    whole characters that are unescaped in a JSON string; divided by the number of
 *            characters
 *   closing  plain characters, a quote, then any bytes; the number of different rests after the
 *            quote is small
 *   other    backslashes, control characters, pieces of characters
 *
 * A state that accepts any plain character accepts all plain tokens together (a bit set). The walk
 * then visits only the rests of closing tokens. The division into classes is derived from
 * llguidance's slices, which do not divide tokens at the quote. Any thread. */
#ifndef QUOTH_GRAMMAR_VOCAB_H
#define QUOTH_GRAMMAR_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The children of a node are adjacent, because a walk examines all of them and most are dead. Each
 * sibling would be a cache miss if nodes were in depth-first order. Blocks of siblings are in
 * depth-first order. */
struct vocab_trie {
    struct trie_node {
        /* child: index of the first child; the children are adjacent. byte: label of the edge to
         * the node */
        uint32_t child : 24, byte : 8;
        /* n_child: number of children. word: true if the values of the node and of all nodes below
         * it are words. n: number of values, trie.value[first, first + n). */
        uint32_t n_child : 9, word : 1, n : 22;
        uint32_t first;
    } * node; /* owned; nodes; the first n_root nodes have no parent */
    uint32_t n, n_root;
    int32_t *value;   /* owned; values of all nodes */
    uint32_t n_empty; /* number of values of the empty string, which are the first values */
};

/* Return true for a letter or a digit of ASCII. A word is a token of letters and digits. */
static inline bool vocab_is_word(uint8_t byte)
{
    uint8_t lower = byte | 32;
    return (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9');
}

/* classes of tokens of 1, 2, [3, 4], [5, 8], [9, 16] and more characters */
enum { PLAIN_CLASSES = 6 };

struct vocab {
    int n_vocab, n_word; /* numbers of tokens, and of 64-bit integers in a mask */
    struct {
        struct vocab_trie trie;
        uint64_t *mask; /* owned; [n_word]: set of all tokens of the class */
        int char_max;
    } plain[PLAIN_CLASSES];
    /* maximum number of characters before the quote of a closing token */
    int closing_max;
    /* maximum number of characters in the classes except the last, and in all tokens */
    int short_max, long_max;
    struct vocab_trie closing; /* trie of the whole closing tokens */
    struct vocab_trie
        closing_rests; /* trie of the bytes after the first quote; its values are tokens */
    struct vocab_trie other;
    /* trie of all tokens, for one walk in states outside of strings */
    struct vocab_trie all;
    uint64_t *word; /* owned; [n_word]: set of all words */
    char *bytes;    /* owned; contiguous bytes of all tokens */
    /* owned; [n_vocab]: ends of the tokens: token i is bytes[end[i - 1], end[i]) */
    uint32_t *end;
};

/* Read n_vocab tokens. token(arg, id, &n) returns the bytes of a token. `token` returns NULL or n =
 * 0 for a token without text (special tokens). Return false if memory is exhausted. */
typedef const char *token_fn(const void *arg, int32_t id, size_t *n);
bool vocab_open(struct vocab *v, int n_vocab, token_fn *token, const void *arg);
void vocab_close(struct vocab *v); /* free the memory; a zeroed struct is allowed */

/* Return true if a longer token begins with these bytes. */
bool vocab_has_prefix(const struct vocab *v, const char *text, size_t n);

static inline const char *vocab_bytes(const struct vocab *v, int32_t id, size_t *n)
{
    uint32_t from = id == 0 ? 0 : v->end[id - 1];
    *n = v->end[id] - from;
    return v->bytes + from;
}

#endif
