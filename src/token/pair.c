/* pair.c - pairs of texts, such as a query and a document, and truncated texts.
 *
 *   prefix A between B suffix       [CLS] A [SEP] B [SEP]     BERT: B is segment 1
 *                                   <s> A </s></s> B </s>     RoBERTa: one segment
 *
 * Truncation keeps the ids that the tokenizer adds. The method is Hugging Face's "longest first":
 * the longer text is shortened to the length of the shorter text before both texts are
 * shortened. */
#include "token_impl.h"

#include <stdlib.h>
#include <string.h>

/* Set n[] to the lengths of two truncated texts, whose sum is at most n_max. */
static void longest_first(size_t n[2], size_t n_max)
{
    if (n[0] + n[1] <= n_max) return;
    size_t a = n[0] <= n[1] ? n[0] : n[1], b = n[0] <= n[1] ? n[1] : n[0];
    const bool first_is_shorter = n[0] <= n[1];
    b = a > n_max ? a : n_max - a > a ? n_max - a : a;
    if (a + b > n_max) {
        a = n_max / 2;
        b = a + n_max % 2;
    }
    n[0] = first_is_shorter ? a : b;
    n[1] = first_is_shorter ? b : a;
}

static bool append(struct ids *out, const int32_t *v, size_t n)
{
    if (!vec_reserve(out, out->n + n)) return false;
    if (n) memcpy(out->v + out->n, v, n * sizeof *v);
    out->n += n;
    return true;
}

int tokenizer_encode_pair(const struct tokenizer *t, const char *const text[2],
                          const size_t n_text[2], int64_t n_max, struct ids *out, int *segment1,
                          struct err *e)
{
    struct ids of[2] = {{0}};
    const int n_added = t->n_prefix + t->n_between + t->n_suffix;
    const size_t n_before = out->n;
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = tokenizer_encode(t, text[i], n_text[i], ENCODE_PARSE_SPECIAL, &of[i], e);
    if (rc == 0 && n_max >= 0 && n_max < n_added)
        rc = err_set(e, ERR_ARG,
                     "tokens: must have room for the %d that the tokenizer adds, got %lld", n_added,
                     (long long)n_max);
    size_t n[2] = {of[0].n, of[1].n};
    if (rc == 0 && n_max >= 0) longest_first(n, (size_t)(n_max - n_added));
    bool ok = rc == 0 && append(out, t->prefix, (size_t)t->n_prefix) &&
              append(out, of[0].v, n[0]) && append(out, t->between, (size_t)t->n_between);
    *segment1 = ok && t->pair_segments ? (int)(out->n - n_before) : 0;
    ok = ok && append(out, of[1].v, n[1]) && append(out, t->suffix, (size_t)t->n_suffix);
    if (rc == 0 && !ok) rc = err_memory(e, "the ids of a pair", n[0] + n[1]);
    if (rc != 0) out->n = n_before;
    vec_deinit(&of[0]);
    vec_deinit(&of[1]);
    return rc;
}

void tokenizer_truncate(const struct tokenizer *t, struct ids *ids, size_t n, bool left)
{
    const size_t n_prefix = (size_t)t->n_prefix, n_suffix = (size_t)t->n_suffix;
    if (ids->n <= n) return;
    const size_t n_cut = ids->n - n;
    if (n < n_prefix + n_suffix || ids->n < n_prefix + n_suffix) { /* no room for a text */
        if (left) memmove(ids->v, ids->v + n_cut, n * sizeof *ids->v);
        ids->n = n;
        return;
    }
    const size_t from = left ? n_prefix : ids->n - n_suffix - n_cut;
    memmove(ids->v + from, ids->v + from + n_cut, (ids->n - from - n_cut) * sizeof *ids->v);
    ids->n = n;
}
