/* token.h - text <-> token ids.
 *
 * A tokenizer is read once (from GGUF metadata, tokenizer.json, a SentencePiece .model, a
 * tiktoken rank file, vocab.json + merges.txt, vocab.txt, or llama2.c's tokenizer.bin) and is
 * immutable afterwards: any number of threads may encode at once. Text is bytes; invalid UTF-8 is
 * legal input and must come back from decode wherever the tokenizer has byte tokens. */
#ifndef QUOTH_TOKEN_H
#define QUOTH_TOKEN_H

#include "base/buf.h"
#include "base/err.h"
#include "format/format.h"

struct tokenizer; /* opaque */

/* Read the tokenizer that belongs to a checkpoint (its metadata, or the files in its folder). */
int tokenizer_open(struct tokenizer **out, const struct checkpoint *c, struct err *e);

/* Read one from a file or folder of its own: tokenizer.json, *.model, *.tiktoken, tokenizer.bin,
 * a GGUF, a directory. `hint` names the family where the file does not say which pre-tokenizer it
 * wants (a tiktoken file: "llama-3", "qwen2", "o200k", "cl100k", "p50k", "r50k"); NULL: derived
 * from the file's name. */
int tokenizer_open_file(struct tokenizer **out, const char *path, const char *hint, struct err *e);
void tokenizer_close(struct tokenizer *t); /* NULL is fine */

enum {
    ENCODE_ADD_SPECIAL =
        1, /* add BOS / EOS / CLS / SEP as this tokenizer asks for; never a second BOS when
                                 the text itself already begins with it (as a chat template may write) */
    ENCODE_PARSE_SPECIAL =
        2, /* special tokens written in the text become their ids; without it they are text.
                                 (Added tokens that are not special are always matched.) */
    ENCODE_CONTINUE = 4, /* the text goes on behind other text: its start gets no space of its own
                                 where a tokenizer puts one at the beginning of a text ("▁") */
};

/* Append the ids of text[0..n) to `out`. Fails with ERR_MEMORY, or ERR_LIMIT beyond 2^31 - 1 bytes;
 * no text is ever an error. Time is O(n log n) whatever the text. Any thread. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                     struct ids *out, struct err *e);

enum { DECODE_SKIP_SPECIAL = 1 }; /* leave out tokens marked as special */

/* Append the bytes of ids[0..n). Ids outside the vocabulary add nothing. false: no memory. */
bool tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                      struct buf *out);

int tokenizer_n_vocab(const struct tokenizer *t);
/* The bytes that a token stands for inside a text (byte tokens resolved, "▁" as space), borrowed. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *n);
/* The token as its file spells it, borrowed: for display and for `inspect`. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n);
/* -1: no such piece */
int32_t tokenizer_find(const struct tokenizer *t, const char *piece, size_t n);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id); /* control tokens, never shown */
/* any EOS / end-of-turn / end-of-message */
bool tokenizer_is_eog(const struct tokenizer *t, int32_t id);
int32_t tokenizer_bos(const struct tokenizer *t); /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t); /* -1: none */
int32_t tokenizer_unk(const struct tokenizer *t); /* -1: none */
bool tokenizer_adds_bos(const struct tokenizer *t);
/* "bpe", "spm", "unigram", "wordpiece": for inspect */
const char *tokenizer_kind(const struct tokenizer *t);

/* Streaming detokenizer: bytes come out as soon as they form whole characters; a sequence that
 * can no longer become valid UTF-8 comes out as U+FFFD, so that the output is always valid UTF-8,
 * and the concatenated output equals tokenizer_decode of all ids, with bad bytes replaced. In
 * caller's memory, no allocation but `out`. */
struct detok {
    const struct tokenizer *t; /* borrowed */
    unsigned flags;
    bool started; /* the first token's leading space may be dropped */
    uint8_t n_pending;
    char pending[4]; /* an incomplete sequence */
};
void detok_init(struct detok *d, const struct tokenizer *t, unsigned flags);
bool detok_push(struct detok *d, int32_t id, struct buf *out); /* false: no memory */
/* the end: what is pending becomes U+FFFD */
bool detok_flush(struct detok *d, struct buf *out);

#endif
