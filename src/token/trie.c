/* trie.c - a map of byte strings to ids. One pass over a text finds all keys that are prefixes of
 * the text.
 *
 * The trie is built once from sorted keys, breadth first, so that the children of a node are
 * adjacent in label order. A step is one memchr over few bytes. A node takes 11 bytes. The upper
 * levels, which are used most, fit into the second-level cache for a vocabulary of 250,000
 * pieces. */
#include "token_impl.h"

#include <stdlib.h>
#include <string.h>

/* Compare keys by bytes, then by length, then by id, so that the keys of a subtree are
 * consecutive. */
static int by_bytes(const void *pa, const void *pb)
{
    const struct trie_key *a = pa, *b = pb;
    size_t n = a->n < b->n ? a->n : b->n;
    int c = n ? memcmp(a->p, b->p, n) : 0;
    if (c) return c;
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

/* Allocate for the maximum number of nodes. On failure the caller frees the rest. */
static bool trie_alloc(struct trie *t, size_t cap)
{
    t->child = malloc(cap * sizeof *t->child);
    t->n_child = malloc(cap * sizeof *t->n_child);
    t->label = malloc(cap);
    t->value = malloc(cap * sizeof *t->value);
    return t->child && t->n_child && t->label && t->value;
}

/* Return the maximum number of nodes. Each byte has a node if keys share no prefixes. The root is
 * one additional node. */
static size_t node_count_max(const struct trie_key *key, size_t n)
{
    size_t count = 1;
    for (size_t i = 0; i < n; i++) count += key[i].n;
    return count;
}

struct key_range {
    size_t begin, end; /* keys that share the path of the node */
};

/* Append the children of `node`: one per distinct byte at `depth` of its keys. */
static void grow(struct trie *t, struct key_range *at, uint32_t node, size_t depth,
                 const struct trie_key *key)
{
    size_t i = at[node].begin, end = at[node].end;
    t->child[node] = t->n_node;
    t->n_child[node] = 0;
    for (; i < end && key[i].n == depth; i++) t->value[node] = key[i].value;
    while (i < end) {
        uint8_t c = (uint8_t)key[i].p[depth];
        size_t j = i;
        while (j < end && (uint8_t)key[j].p[depth] == c) j++;
        uint32_t made = t->n_node++;
        t->label[made] = c;
        t->value[made] = -1;
        at[made] = (struct key_range){i, j};
        t->n_child[node]++;
        i = j;
    }
}

/* Build the trie breadth-first. The list of nodes is also the queue: the children of node n are
 * appended when n is visited. All nodes of a level have the same depth. */
bool trie_build(struct trie *t, struct trie_key *key, size_t n)
{
    *t = (struct trie){0};
    size_t cap = node_count_max(key, n);
    if (n == 0) return true;
    if (cap > UINT32_MAX / 2) return false;
    struct key_range *at = malloc(cap * sizeof *at);
    if (!at || !trie_alloc(t, cap)) {
        free(at);
        trie_deinit(t);
        return false;
    }
    qsort(key, n, sizeof *key, by_bytes);
    at[0] = (struct key_range){0, n};
    t->n_node = 1;
    t->value[0] = -1;
    t->label[0] = 0;
    uint32_t level_end = 1;
    size_t depth = 0;
    for (uint32_t node = 0; node < t->n_node; node++) {
        if (node == level_end) {
            level_end = t->n_node;
            depth++;
        }
        grow(t, at, node, depth, key);
    }
    free(at);
    return true;
}

/* Return the child for byte c; 0 if none, because the root is not a child. */
uint32_t trie_step(const struct trie *t, uint32_t node, uint8_t c)
{
    uint32_t n = t->n_child[node];
    if (n == 0) return 0;
    const uint8_t *first = t->label + t->child[node];
    const uint8_t *hit = n == 1 ? (*first == c ? first : NULL) : memchr(first, c, n);
    return hit ? (uint32_t)(hit - t->label) : 0;
}

size_t trie_longest(const struct trie *t, const char *p, size_t n, int32_t *value)
{
    size_t longest = 0;
    uint32_t node = 0;
    if (t->n_node == 0) return 0;
    for (size_t i = 0; i < n; i++) {
        node = trie_step(t, node, (uint8_t)p[i]);
        if (node == 0) break;
        if (t->value[node] < 0) continue;
        longest = i + 1;
        *value = t->value[node];
    }
    return longest;
}

void trie_deinit(struct trie *t)
{
    free(t->child);
    free(t->n_child);
    free(t->label);
    free(t->value);
    *t = (struct trie){0};
}
