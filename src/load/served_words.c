/* served_words.c - prompts of words with a given number of tokens; see served.h.
 *
 * Words are appended until the text has the given number of tokens. The tokenizer of --tokenizer,
 * or the server (/tokenize), counts the tokens of a prompt or of a message's text. The count of a
 * prompt includes the tokens that the tokenizer adds. Each word counts as one token if there is
 * neither a tokenizer nor /tokenize. The usage in each answer gives the actual number of tokens. */
#include "served.h"

#include "token/token.h"

#include <stdlib.h>
#include <string.h>

/* ---- counting ---- */

int counter_open(struct counter *c, const char *tokenizer, struct err *e)
{
    return tokenizer ? tokenizer_open_file(&c->own, tokenizer, NULL, e) : 0;
}

void counter_close(struct counter *c)
{
    tokenizer_close(c->own);
    vec_deinit(&c->ids);
    buf_deinit(&c->text);
}

/* A failed count sets `none`, so that later calls return immediately. The reason is stored in
 * `excuse`. */
int counter_count(struct counter *c, const char *text, size_t n)
{
    int n_token = -1;
    if (c->none) return -1;
    if (c->own) {
        unsigned flags = c->special ? ENCODE_ADD_SPECIAL : 0;
        c->ids.n = 0;
        c->none = tokenizer_encode(c->own, text, n, flags, &c->ids, &c->excuse) != 0;
        return c->none ? -1 : (int)c->ids.n;
    }
    c->none = target_count(c->server, text, n, c->special, &n_token, &c->excuse) != 0;
    return c->none ? -1 : n_token;
}

/* ---- words ---- */

/* Frequent English words, each usually one token. */
static const char *const word[] = {
    "the",  "of",   "and",   "to",     "in",   "is",    "that",  "it",    "was",   "for",
    "on",   "are",  "as",    "with",   "his",  "they",  "at",    "be",    "this",  "have",
    "from", "or",   "one",   "had",    "by",   "but",   "not",   "what",  "all",   "were",
    "we",   "when", "your",  "can",    "said", "there", "use",   "an",    "each",  "which",
    "she",  "do",   "how",   "their",  "if",   "will",  "up",    "other", "about", "out",
    "many", "then", "them",  "these",  "so",   "some",  "her",   "would", "make",  "like",
    "him",  "into", "time",  "has",    "look", "two",   "more",  "write", "go",    "see",
    "no",   "way",  "could", "people", "my",   "than",  "first", "been",  "call",  "who",
    "its",  "now",  "find",  "long",   "down", "day",   "did",   "get",   "come",  "made",
    "may",  "part", "old",   "new",    "good", "great", "where", "help",  "much"};
enum { N_WORD = sizeof word / sizeof word[0] };

/* Append the words of the first n ids. */
static void put_words(struct buf *b, const struct ids *ids, int n)
{
    buf_clear(b);
    for (int i = 0; i < n; i++) {
        if (i) buf_add_char(b, ' ');
        buf_add_text(b, word[ids->v[i]]);
    }
}

/* Find the maximum number of words with at most n_want tokens. Return the number of tokens of these
 * words. The search interpolates: the measured tokens per word give the next guess. As in a binary
 * search, low and high limit the guess. The search ends after at most 12 counts, because more words
 * do not always have more tokens. */
static int fit_words(struct counter *c, const struct ids *ids, int n_want)
{
    int n = (int)(n_want / c->per_word), n_token = 0, low = 1, high = (int)ids->n;
    for (int turn = 0; turn < 12; turn++) {
        if (n < low) n = low;
        if (n > high) n = high;
        put_words(&c->text, ids, n);
        n_token = counter_count(c, c->text.data, c->text.n);
        if (n_token < 0) break;
        if (n_token > 0) c->per_word = (double)n_token / n;
        if (n_token == n_want || low >= high) return n_token;
        int by = (int)((n_want - n_token) / c->per_word);
        if (n_token > n_want) {
            high = n - 1 > low ? n - 1 : low;
            n += by < 0 ? by : -1;
        } else {
            /* the number of missing tokens is below that of a word, so append_pieces appends single
             * tokens */
            if (by < 1) return n_token;
            low = n + 1;
            n += by;
        }
    }
    return n_token;
}

/* Append short pieces until the text has n_want tokens. A piece may merge with the text before it
 * and add no token. The piece is then removed, and the next piece is tried. The loop ends after
 * each piece has failed once. */
static int append_pieces(struct counter *c, int n_token, int n_want)
{
    static const char *const piece[] = {" a", " I", ".", "!", " x", "?", ","};
    enum { N_PIECE = sizeof piece / sizeof piece[0] };
    for (int turn = 0, miss = 0; n_token >= 0 && n_token < n_want && miss < N_PIECE; turn++) {
        size_t before = c->text.n;
        buf_add_text(&c->text, piece[turn % N_PIECE]);
        int more = counter_count(c, c->text.data, c->text.n);
        if (more > n_token && more <= n_want) {
            n_token = more;
            miss = 0;
            continue;
        }
        c->text.data[c->text.n = before] = '\0';
        miss++;
    }
    return n_token;
}

/* Make the prompt of words for job i. */
static int make_text(struct prompts *p, size_t i, struct counter *c, struct err *e)
{
    struct traffic_job *j = &p->t.v[i];
    struct ids ids = {0};
    int rc = traffic_prompt(&p->t, i, N_WORD, &ids, e);
    if (rc == 0) {
        int n_token = c->none ? -1 : fit_words(c, &ids, j->n_prompt);
        n_token = append_pieces(c, n_token, j->n_prompt);
        if (n_token < 0) put_words(&c->text, &ids, j->n_prompt);
        p->n_inexact += n_token != j->n_prompt;
        j->n_prompt = n_token < 0 ? 0 : n_token;
        p->text[i] = c->text.failed ? NULL : strdup(c->text.data);
        if (!p->text[i]) rc = err_memory(e, "a prompt", c->text.n);
    }
    vec_deinit(&ids);
    return rc;
}

/* A progress bar is drawn, because counting at a server takes several requests per prompt. */
int prompts_add_words(struct prompts *p, struct counter *c, struct err *e)
{
    int rc = 0;
    p->text = calloc(p->t.n, sizeof *p->text);
    if (!p->text) return err_memory(e, "prompts", p->t.n * sizeof *p->text);
    for (size_t i = 0; i < p->t.n && rc == 0; i++) {
        rc = make_text(p, i, c, e);
        progress_bar("making prompts", i + 1, p->t.n);
    }
    return rc;
}
