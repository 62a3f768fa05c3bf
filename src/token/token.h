/* token.h - text <-> token ids.
 *
 * A tokenizer is read once (from GGUF metadata, tokenizer.json, a SentencePiece .model, a tiktoken
 * rank file, vocab.json + merges.txt, vocab.txt, or llama2.c's tokenizer.bin) and is immutable
 * afterwards: any number of threads may encode at once. Text is bytes. Invalid UTF-8 is legal
 * input; decode returns it unchanged if the tokenizer has byte tokens. */
#ifndef QUOTH_TOKEN_H
#define QUOTH_TOKEN_H

#include "base/buf.h"
#include "base/err.h"
#include "format/format.h"

struct tokenizer; /* opaque */

/* Read the tokenizer of a checkpoint (from its metadata, or the files in its folder). */
int tokenizer_open(struct tokenizer **out, const struct checkpoint *c, struct err *e);

/* Read a tokenizer from a file or folder: tokenizer.json, *.model, *.tiktoken, tokenizer.bin, a
 * GGUF, a directory. `hint` names the pre-tokenizer family for files that do not (a tiktoken file:
 * "llama-3", "qwen2", "o200k", "cl100k", "p50k", "r50k"); NULL: derived from the file name. */
int tokenizer_family_form(const char *text,
                          struct err *e); /* checks a hint; a form_fn (base/names.h) */
int tokenizer_open_file(struct tokenizer **out, const char *path, const char *hint, struct err *e);
void tokenizer_close(struct tokenizer *t); /* NULL is fine */

enum {
    /* Add BOS / EOS / CLS / SEP as the tokenizer defines. Never adds a second BOS if the text
     * already begins with one (a chat template may write it). */
    ENCODE_ADD_SPECIAL = 1,
    /* Convert special tokens written in the text to their ids; without this flag they are text.
     * Added tokens that are not special always match. */
    ENCODE_PARSE_SPECIAL = 2,
    /* The text continues other text: do not prepend the space ("▁") that some tokenizers put at the
     * start of a text. */
    ENCODE_CONTINUE = 4,
};

/* Append the ids of text[0..n) to `out`. Returns ERR_MEMORY, ERR_LIMIT beyond 2^31 - 1 bytes, or
 * ERR_BUSY if cancelled (base/cancel.h). Every text is valid. Time is O(n log n) for every text.
 * Any thread. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                     struct ids *out, struct err *e);

/* Return a lower bound of the token count of any text of n bytes. 0: no bound, because a token of
 * this tokenizer may cover any number of bytes. Any thread. */
size_t tokenizer_n_least(const struct tokenizer *t, size_t n);

enum { DECODE_SKIP_SPECIAL = 1 }; /* leave out tokens marked as special */

/* Append the bytes of ids[0..n) to `out`. Ids outside the vocabulary add nothing. Returns false if
 * out of memory. */
bool tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                      struct buf *out);

int tokenizer_n_vocab(const struct tokenizer *t);
/* Return the bytes of a token inside a text (byte tokens resolved, "▁" as space), borrowed. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *n);
/* Return the token as its file spells it, borrowed. For display and for `inspect`. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n);
/* Return the id of a piece, -1 if not found. */
int32_t tokenizer_find(const struct tokenizer *t, const char *piece, size_t n);
/* Return true for control tokens, which are never displayed. */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
/* Return true if pieces are words that decode joins with spaces. The bytes of a text are then not
 * the concatenated bytes of its tokens. */
bool tokenizer_joins(const struct tokenizer *t);
/* Return true for EOS, end-of-turn and end-of-message tokens. */
bool tokenizer_is_eog(const struct tokenizer *t, int32_t id);
int32_t tokenizer_bos(const struct tokenizer *t); /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t); /* -1: none */
int32_t tokenizer_unk(const struct tokenizer *t); /* -1: none */
bool tokenizer_adds_bos(const struct tokenizer *t);
/* Return "bpe", "spm", "unigram" or "wordpiece", for `inspect`. */
const char *tokenizer_kind(const struct tokenizer *t);

/* Streaming detokenizer. It emits bytes as soon as they form whole characters. A sequence that can
 * no longer become valid UTF-8 becomes U+FFFD, so the output is always valid UTF-8. The
 * concatenated output equals tokenizer_decode of all ids, with bad bytes replaced. Lives in the
 * caller's memory and allocates only in `out`. */
struct detok {
    const struct tokenizer *t; /* borrowed */
    unsigned flags;
    bool started; /* set by the first token; only its leading space may be dropped */
    uint8_t n_pending;
    uint8_t spelled; /* bit i: pending[i] becomes a byte-alphabet character if not UTF-8 */
    bool raw;        /* emit bad bytes unchanged, not as U+FFFD */
    char pending[4]; /* an incomplete sequence */
};
void detok_init(struct detok *d, const struct tokenizer *t, unsigned flags);
bool detok_push(struct detok *d, int32_t id, struct buf *out); /* false: out of memory */
/* End the stream: pending bytes become U+FFFD. Returns false if out of memory. */
bool detok_flush(struct detok *d, struct buf *out);

#endif
