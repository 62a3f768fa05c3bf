/* added.c - match added tokens, such as <|im_end|>, [MASK] and runs of spaces, in the text.
 *
 * The longest match at the leftmost position is used. A table of first bytes skips ordinary text at
 * some hundred MB/s. A trie checks each candidate. Strip flags extend a match over adjacent white
 * space. A "single word" token matches only if the characters next to it are not letters or digits
 * as Hugging Face defines them. */
#include "token_impl.h"

#include <stdlib.h>

/* Return true if neither neighbour of [begin, end) is a letter or digit. */
static bool is_separate(const char *p, size_t n, size_t begin, size_t end)
{
    uint32_t cp;
    if (begin > 0 && (uni_prev(p, begin, &cp), uni_word(cp))) return false;
    if (end < n && (uni_next(p + end, n - end, &cp), uni_word(cp))) return false;
    return true;
}

/* Find the longest permitted token at p[at, n). Return the length of its match; 0 if no token
 * matches. */
static size_t match_at(const struct encoder *en, const struct added *a, const char *p, size_t n,
                       size_t at, int32_t *id)
{
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t i = at; i < n && (node = trie_step(&a->trie, node, (uint8_t)p[i])) != 0; i++) {
        int32_t v = a->trie.value[node];
        if (v < 0 || !encoder_allows(en, v)) continue;
        longest = i + 1 - at;
        *id = v;
    }
    if (longest && (en->t->piece[*id].match & MATCH_WORD) && !is_separate(p, n, at, at + longest))
        return 0;
    return longest;
}

/* Return the beginning of the white space that ends at `at`, not before `from`. */
static size_t space_before(const char *p, size_t from, size_t at)
{
    uint32_t cp;
    while (at > from) {
        size_t len = (size_t)uni_prev(p + from, at - from, &cp);
        if (!uni_space(cp)) break;
        at -= len;
    }
    return at;
}

/* Return the end of the white space at `at`. */
static size_t space_after(const char *p, size_t n, size_t at)
{
    uint32_t cp;
    while (at < n) {
        size_t len = (size_t)uni_next(p + at, n - at, &cp);
        if (!uni_space(cp)) break;
        at += len;
    }
    return at;
}

/* Call `text` for the text between matches, also for an empty text before the first match. White
 * space that a match has consumed (rstrip) is not text. */
bool added_split(struct encoder *en, const struct added *a, struct pretok_text s, text_fn *text)
{
    size_t done = 0;
    for (size_t i = 0; a->trie.n_node && i < s.n; i++) {
        int32_t id;
        if (!a->begins[(uint8_t)s.p[i]]) continue;
        size_t len = match_at(en, a, s.p, s.n, i, &id);
        if (len == 0) continue;
        unsigned match = en->t->piece[id].match;
        size_t begin = match & MATCH_LSTRIP && i > done ? space_before(s.p, done, i) : i;
        if (begin > done || done == 0) {
            if (!text(en, (struct pretok_text){s.p + done, begin - done, s.first && done == 0}))
                return false;
        }
        if (!encoder_emit(en, id)) return false;
        size_t end = i + len;
        if (end < done) end = done; /* white space that an earlier match has consumed */
        done = match & MATCH_RSTRIP ? space_after(s.p, s.n, end) : end;
        i += len - 1;
    }
    return text(en, (struct pretok_text){s.p + done, s.n - done, s.first && done == 0});
}

/* Append a key to key[*n_key] if the text is neither empty nor too long. Return false if memory is
 * exhausted. */
static bool add_key(struct added *a, struct arena *arena, struct trie_key *key, size_t *n_key,
                    const char *text, size_t n, size_t id)
{
    if (n == 0 || n > ADDED_BYTES_MAX) return true;
    const char *copy = arena_text(arena, text, n);
    if (!copy) return false;
    a->begins[(uint8_t)copy[0]] = true;
    key[(*n_key)++] = (struct trie_key){copy, (uint32_t)n, (int32_t)id};
    return true;
}

/* Return true if a token is markup: its first and last characters are neither letters nor
 * digits. */
static bool is_markup(const struct piece *p)
{
    uint32_t first, last;
    if (p->n_text == 0) return false;
    uni_next(p->text, p->n_text, &first);
    uni_prev(p->text, p->n_text, &last);
    return !uni_word(first) && !uni_word(last);
}

/* Build a matcher. Normalize the tokens that are matched after normalization. Special markup also
 * matches in its unnormalized spelling. Llama 2's file contains only "▁</s>", which does not match
 * the </s> inside a chat. A special word matches only after the mark of Prepend, as in Hugging
 * Face's tokenizers. */
static bool build(struct tokenizer *t, struct added *a, uint8_t match)
{
    size_t n = 0;
    struct trie_key *key = malloc((2 * t->n_piece + 1) * sizeof *key);
    struct buf out = {0}, spare = {0};
    bool ok = key != NULL;
    for (size_t id = 0; id < t->n_piece && ok; id++) {
        const struct piece *p = &t->piece[id];
        if (!(p->match & match) || p->n_text > ADDED_BYTES_MAX) continue;
        if (match == MATCH_RAW || (p->special && is_markup(p)))
            ok = add_key(a, &t->arena, key, &n, p->text, p->n_text, id);
        if (ok && match == MATCH_NORMALIZED)
            ok = normalize(t, p->text, p->n_text, false, &out, &spare) &&
                 add_key(a, &t->arena, key, &n, out.data, out.n, id);
    }
    ok = ok && trie_build(&a->trie, key, n);
    free(key);
    buf_deinit(&out);
    buf_deinit(&spare);
    return ok;
}

bool added_build(struct tokenizer *t)
{
    return build(t, &t->raw, MATCH_RAW) && build(t, &t->normalized, MATCH_NORMALIZED);
}

void added_deinit(struct added *a)
{
    trie_deinit(&a->trie);
}
