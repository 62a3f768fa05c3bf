/* vocab.c - the classes of tokens and their tries; see vocab.h. */
#include "vocab.h"

#include "base/buf.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* A byte string, and the token that contains it. Pointers are borrowed. */
struct vocab_entry {
    const char *text;
    uint32_t n;
    int32_t token;
};
struct vocab_entries {
    struct vocab_entry *v; /* owned; entries */
    size_t n, cap;
};

/* ---- tries ---- */

static int by_text(const void *p, const void *q)
{
    const struct vocab_entry *a = p, *b = q;
    uint32_t n = a->n < b->n ? a->n : b->n;
    int c = memcmp(a->text, b->text, n);
    if (c != 0) return c;
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    return (a->token > b->token) - (a->token < b->token);
}

/* Pointers are borrowed. */
struct builder {
    struct vocab_trie *t;
    const struct vocab_entry *v;
    size_t cap;
};

/* Return the end of the sorted entries [from, to) that share byte `depth` with entry `from`. */
static size_t same_byte(const struct builder *b, size_t from, size_t to, uint32_t depth)
{
    size_t end = from + 1;
    while (end < to && b->v[end].text[depth] == b->v[from].text[depth]) end++;
    return end;
}

/* Append a node for each byte that follows in the sorted entries [from, to), which share their
 * first `depth` bytes and are longer. Set *n to the number of nodes. Return false if memory is
 * exhausted. */
static bool add_siblings(struct builder *b, size_t from, size_t to, uint32_t depth, uint32_t *n)
{
    const uint32_t n_before = b->t->n;
    for (size_t end; from < to; from = end) {
        end = same_byte(b, from, to, depth);
        size_t n_value = 0;
        while (from + n_value < end && b->v[from + n_value].n == depth + 1) n_value++;
        if (!vec_room((void **)&b->t->node, &b->cap, b->t->n + 1, sizeof *b->t->node)) return false;
        b->t->node[b->t->n++] = (struct trie_node){.byte = (uint8_t)b->v[from].text[depth],
                                                   .n = n_value & 0x3fffff,
                                                   .first = (uint32_t)from};
    }
    *n = b->t->n - n_before;
    return true;
}

/* Return true if the n nodes from `at` on are nodes of words. */
static bool are_words(const struct vocab_trie *t, uint32_t at, uint32_t n)
{
    bool all = true;
    for (uint32_t i = at; i < at + n; i++) all &= t->node[i].word;
    return all;
}

/* Add the nodes below the sorted entries [from, to), which share their first `depth` bytes. word:
 * these bytes are letters or digits. Set *n to the number of the added nodes whose parent is not an
 * added node. The recursion is at most as deep as the longest token. */
static bool add_nodes(struct builder *b, size_t from, size_t to, uint32_t depth, bool word,
                      uint32_t *n)
{
    /* an entry without further bytes is a value of its parent */
    while (from < to && b->v[from].n == depth) from++;
    uint32_t at = b->t->n, n_child;
    if (!add_siblings(b, from, to, depth, n)) return false;
    for (size_t end; from < to; from = end, at++) {
        end = same_byte(b, from, to, depth);
        const uint32_t child = b->t->n;
        const bool on = word && vocab_is_word((uint8_t)b->t->node[at].byte);
        if (!add_nodes(b, from, end, depth + 1, on, &n_child)) return false;
        b->t->node[at].child = child & 0xffffff;
        b->t->node[at].n_child = n_child & 0x1ff;
        b->t->node[at].word = on && are_words(b->t, child, n_child);
    }
    return true;
}

static void sort_entries(struct vocab_entries *e)
{
    if (e->n > 1) qsort(e->v, e->n, sizeof *e->v, by_text);
}

/* Build a trie of sorted entries. Return false if memory is exhausted, or the trie has 2^22 values
 * or 2^24 nodes. */
static bool trie_build(struct vocab_trie *t, struct vocab_entries *e)
{
    t->value = malloc((e->n + 1) * sizeof *t->value);
    if (!t->value) return false;
    for (size_t i = 0; i < e->n; i++) {
        t->value[i] = e->v[i].token;
        t->n_empty += e->v[i].n == 0;
    }
    struct builder b = {.t = t, .v = e->v};
    return e->n < 1 << 22 && add_nodes(&b, 0, e->n, 0, true, &t->n_root) && t->n < 1 << 24;
}

static void trie_close(struct vocab_trie *t)
{
    free(t->node);
    free(t->value);
}

/* ---- the class of a token ---- */

/* Return the number of bytes before the first byte that a JSON string cannot contain unescaped. Set
 * *n_char to the number of whole characters in these bytes. */
static size_t plain_length(const char *s, size_t n, int *n_char)
{
    size_t at = 0;
    uint32_t cp;
    for (*n_char = 0; at < n; ++*n_char) {
        int k = utf8_decode(s + at, n - at, &cp);
        if (k <= 0 || cp < ' ' || cp == '"' || cp == '\\') break;
        at += (size_t)k;
    }
    return at;
}

/* Return the class of plain tokens with n_char characters. */
static int class_of(int n_char)
{
    static const int most[PLAIN_CLASSES - 1] = {1, 2, 4, 8, 16};
    int k = 0;
    while (k < PLAIN_CLASSES - 1 && n_char > most[k]) k++;
    return k;
}

/* Tokens by class. A trie is made for each class. */
struct sorted {
    struct vocab_entries plain[PLAIN_CLASSES], closing, rest, other, all;
};

/* Add all tokens with a text to s->all, sorted. Return false if memory is exhausted. */
static bool sort_all(const struct vocab *v, struct sorted *s)
{
    for (int32_t id = 0; id < v->n_vocab; id++) {
        struct vocab_entry e = {.token = id};
        size_t n;
        e.text = vocab_bytes(v, id, &n);
        e.n = (uint32_t)n;
        if (n > 0 && !vec_push(&s->all, e)) return false;
        bool word = n > 0;
        for (size_t i = 0; i < n; i++) word &= vocab_is_word((uint8_t)e.text[i]);
        if (word) v->word[id >> 6] |= 1ull << (id & 63);
    }
    sort_entries(&s->all);
    return true;
}

static int more(int a, int b)
{
    return a > b ? a : b;
}

/* Add a token to its class. Classes remain sorted if tokens are added in the order of s->all, but
 * the rests do not. Return false if memory is exhausted. */
static bool sort_token(struct vocab *v, struct sorted *s, struct vocab_entry e)
{
    const size_t n = e.n;
    const int32_t id = e.token;
    int n_char, k;
    size_t at = plain_length(e.text, n, &n_char);
    if (at == n) {
        k = class_of(n_char);
        v->plain[k].char_max = more(v->plain[k].char_max, n_char);
        if (k < PLAIN_CLASSES - 1) v->short_max = more(v->short_max, n_char);
        v->long_max = more(v->long_max, n_char);
        v->plain[k].mask[id >> 6] |= 1ull << (id & 63);
        return vec_push(&s->plain[k], e);
    }
    v->long_max = more(v->long_max, (int)n); /* an escape has several bytes */
    if (e.text[at] != '"') return vec_push(&s->other, e);
    v->closing_max = more(v->closing_max, n_char);
    struct vocab_entry rest = {e.text + at + 1, (uint32_t)(n - at - 1), id};
    return vec_push(&s->closing, e) && vec_push(&s->rest, rest);
}

static bool build_tries(struct vocab *v, struct sorted *s)
{
    bool ok = trie_build(&v->closing, &s->closing) && trie_build(&v->closing_rests, &s->rest) &&
              trie_build(&v->other, &s->other) && trie_build(&v->all, &s->all);
    for (int k = 0; k < PLAIN_CLASSES; k++) ok = ok && trie_build(&v->plain[k].trie, &s->plain[k]);
    return ok;
}

static void sorted_free(struct sorted *s)
{
    for (int k = 0; k < PLAIN_CLASSES; k++) vec_deinit(&s->plain[k]);
    vec_deinit(&s->closing);
    vec_deinit(&s->rest);
    vec_deinit(&s->other);
    vec_deinit(&s->all);
}

/* Copy the bytes of all tokens. Return false if memory is exhausted. */
static bool copy_tokens(struct vocab *v, token_fn *token, const void *arg)
{
    struct buf b = {0};
    v->end = malloc((size_t)(v->n_vocab + 1) * sizeof *v->end);
    for (int i = 0; v->end && i < v->n_vocab; i++) {
        size_t n = 0;
        const char *text = token(arg, i, &n);
        if (text) buf_add(&b, text, n);
        v->end[i] = (uint32_t)b.n;
    }
    bool ok = v->end && !b.failed && b.n < UINT32_MAX;
    v->bytes = ok ? buf_detach(&b) : NULL;
    buf_deinit(&b);
    return ok;
}

bool vocab_open(struct vocab *v, int n_vocab, token_fn *token, const void *arg)
{
    *v = (struct vocab){.n_vocab = n_vocab, .n_word = (n_vocab + 63) / 64};
    struct sorted s = {0};
    bool ok = copy_tokens(v, token, arg);
    for (int k = 0; ok && k < PLAIN_CLASSES; k++)
        ok = (v->plain[k].mask = calloc((size_t)v->n_word + 1, sizeof(uint64_t))) != NULL;
    ok = ok && (v->word = calloc((size_t)v->n_word + 1, sizeof(uint64_t))) && sort_all(v, &s);
    for (size_t i = 0; ok && i < s.all.n; i++) ok = sort_token(v, &s, s.all.v[i]);
    sort_entries(&s.rest);
    ok = ok && build_tries(v, &s);
    sorted_free(&s);
    if (!ok) vocab_close(v);
    return ok;
}

void vocab_close(struct vocab *v)
{
    for (int k = 0; k < PLAIN_CLASSES; k++) {
        trie_close(&v->plain[k].trie);
        free(v->plain[k].mask);
    }
    trie_close(&v->closing);
    trie_close(&v->closing_rests);
    trie_close(&v->other);
    trie_close(&v->all);
    free(v->word);
    free(v->bytes);
    free(v->end);
    *v = (struct vocab){0};
}

bool vocab_has_prefix(const struct vocab *v, const char *text, size_t n)
{
    const struct vocab_trie *t = &v->all;
    uint32_t at = 0, end = t->n_root;
    for (size_t i = 0; i < n; i++) {
        while (at < end && (uint8_t)t->node[at].byte != (uint8_t)text[i]) at++;
        if (at >= end) return false;
        const struct trie_node *d = &t->node[at];
        at = d->child, end = at + d->n_child;
    }
    return at < end;
}
