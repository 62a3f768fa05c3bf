/* token.h - text <-> token ids.
 *
 * A tokenizer is immutable after it is read, so several threads may use it at the same time. One
 * thread at a time uses a detokenizer. The sources of a tokenizer are GGUF metadata,
 * tokenizer.json, a SentencePiece .model, a tiktoken rank file, vocab.json + merges.txt, vocab.txt,
 * RWKV's rwkv_vocab_v20230424.txt, and llama2.c's tokenizer.bin. Text is bytes. Invalid UTF-8 is
 * legal input. Decoding returns invalid UTF-8 unchanged if the tokenizer has byte tokens. */
#ifndef QUOTH_TOKEN_H
#define QUOTH_TOKEN_H

#include "base/buf.h"
#include "base/err.h"
#include "format/format.h"

struct tokenizer; /* opaque */

/* Read the tokenizer of a checkpoint from its metadata or from the files in its folder. The caller
 * owns *out, which is NULL after an error. c is borrowed for the call. ERR_IO, ERR_MISSING or
 * ERR_LIMIT if a file cannot be read, is missing or is too large. ERR_FORMAT or ERR_UNSUPPORTED if
 * its content is not usable. ERR_MEMORY. */
int tokenizer_open(struct tokenizer **out, const struct checkpoint *c, struct err *e);

/* Validate the name of a pre-tokenizer family. The function is a form_fn (base/names.h). ERR_ARG
 * for any other text. */
int tokenizer_family_form(const char *text, struct err *e);
/* Read a tokenizer from a file or folder: tokenizer.json, *.model, *.tiktoken, tokenizer.bin,
 * rwkv_vocab*.txt, a GGUF, a directory. `hint` is the pre-tokenizer family of files without that
 * field, such as tiktoken's: "llama-3", "qwen2", "o200k", "cl100k", "p50k", "r50k". The family is
 * derived from the file name if `hint` is NULL. The caller owns *out, which is NULL after an error.
 * Errors are those of tokenizer_open. ERR_UNSUPPORTED also for another kind of file. ERR_ARG if a
 * path is too long. */
int tokenizer_open_file(struct tokenizer **out, const char *path, const char *hint, struct err *e);
/* Add the tokenizer of a Hugging Face directory to the keys of a GGUF view (checkpoint_build), with
 * n_vocab tokens. Tokens without a piece are unused. A feature without a key is an error with its
 * name, or a warning if only rare texts get other ids. ERR_UNSUPPORTED for another kind of
 * tokenizer. Other errors are those of tokenizer_open and checkpoint_add_text. */
int tokenizer_put_gguf(struct checkpoint *out, const struct checkpoint *c, int n_vocab,
                       struct err *e);
/* Append the tokenizer_config.json of a GGUF's tokenizer, and either its tokenizer.json or, for a
 * "world" vocabulary, its rwkv_vocab_v20230424.txt. ERR_UNSUPPORTED for steps that these files
 * cannot express. Other errors are those of tokenizer_open. */
int tokenizer_put_hf(struct buf *json, struct buf *world, struct buf *config,
                     const struct checkpoint *c, struct err *e);
void tokenizer_close(struct tokenizer *t); /* close t; NULL is allowed */

enum {
    /* Add BOS, EOS, CLS and SEP as the tokenizer defines. Do not add a BOS if the text already
     * begins with a BOS, for example from a chat template, and the tokenizer adds no token after
     * the text. */
    ENCODE_ADD_SPECIAL = 1,
    /* Convert special tokens in the text to their ids. Without the flag, special tokens are
     * ordinary text. Added tokens that are not special always match. */
    ENCODE_PARSE_SPECIAL = 2,
    /* Do not prepend the space ("▁") that some tokenizers put before a text. The text continues
     * other text. */
    ENCODE_CONTINUE = 4,
    /* With ENCODE_ADD_SPECIAL, add a BOS to every text, as Hugging Face's tokenizers do. */
    ENCODE_ADD_ALWAYS = 8,
};

/* Append the ids of text[0, n) to `out`. Every text is valid. Return 0, ERR_MEMORY, ERR_LIMIT if n
 * > 2^31 - 1 or the tokenizer's normalizer multiplies the text, or ERR_BUSY if cancelled
 * (base/cancel.h). The time is O(n log n). Any thread. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                     struct ids *out, struct err *e);

/* Append the ids of a pair of texts of n_text bytes, with the tokens that the tokenizer adds around
 * and between them. Append at most n_max ids (< 0: no limit). The longer text is truncated first.
 * Set *segment1 to the first id of the second segment, relative to the first appended id; 0: one
 * segment. Errors are those of tokenizer_encode, and ERR_ARG if n_max has no room for the added
 * tokens. Any thread. */
int tokenizer_encode_pair(const struct tokenizer *t, const char *const text[2],
                          const size_t n_text[2], int64_t n_max, struct ids *out, int *segment1,
                          struct err *e);
/* Truncate the text in ids to at most n ids. The ids are a result of tokenizer_encode with
 * ENCODE_ADD_SPECIAL. The added ids remain. left: true to remove the first ids of the text instead
 * of the last ids. */
void tokenizer_truncate(const struct tokenizer *t, struct ids *ids, size_t n, bool left);

/* Return a lower bound of the token count of a text of n bytes. Return 0 if a token of this
 * tokenizer may cover any number of bytes. Any thread. */
size_t tokenizer_n_least(const struct tokenizer *t, size_t n);

enum { DECODE_SKIP_SPECIAL = 1 }; /* Omit special tokens. */

/* Append the bytes of ids[0, n) to `out`. Ids outside the vocabulary add nothing. Return false if
 * memory is exhausted. */
bool tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                      struct buf *out);

/* Return the number of ids. */
int tokenizer_n_vocab(const struct tokenizer *t);
/* Return the bytes of a token inside a text, borrowed. The result for a byte token is its byte. "▁"
 * becomes a space. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *n);
/* Return the token's spelling in its file, borrowed. For display and `inspect`. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n);
/* Return the id of a piece; -1 if not found. */
int32_t tokenizer_find(const struct tokenizer *t, const char *piece, size_t n);
/* Tokens for filling in the middle (fim.def). */
enum fim { FIM_PREFIX, FIM_SUFFIX, FIM_MIDDLE, FIM_REPO, FIM_FILE, FIM_PAD, N_FIM };
/* Return the id of the vocabulary's token of that kind; -1 if none. */
int32_t tokenizer_fim(const struct tokenizer *t, enum fim which);
/* Return true if the model's family has the text after the gap first, and no mark MIDDLE. */
bool tokenizer_fim_suffix_first(const struct tokenizer *t);
/* Return true for control tokens, which are never displayed. */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
/* Return true if pieces are words that decode joins with spaces. The bytes of a text are then not
 * the concatenated bytes of its tokens. */
bool tokenizer_joins(const struct tokenizer *t);
/* Return true for EOS, end-of-turn and end-of-message tokens. */
bool tokenizer_is_eog(const struct tokenizer *t, int32_t id);
/* Append the places that make a token an end, such as "config.json: eos_token_id", for display.
 * Append nothing for other tokens. */
void tokenizer_put_ends(const struct tokenizer *t, int32_t id, struct buf *out);
/* Mark the known ends of turns (eog.def) in a chat template as ends of a text. text[0, n) is the
 * template's source. The caller is the only user of t. */
void tokenizer_mark_turns(struct tokenizer *t, const char *text, size_t n);
/* Return the ids below n_vocab that end a generation, ascending, owned by the caller, and set *n to
 * their number. NULL if memory is exhausted. t NULL: no ids. */
int32_t *tokenizer_eog_detach(const struct tokenizer *t, int n_vocab, int *n);
int32_t tokenizer_bos(const struct tokenizer *t); /* return the id of BOS; -1 if none */
int32_t tokenizer_eos(const struct tokenizer *t); /* return the id of EOS; -1 if none */
/* Return the id of the unknown token; -1 if none. */
int32_t tokenizer_unk(const struct tokenizer *t);
/* Return true if the first token that encoding adds with ENCODE_ADD_SPECIAL is BOS. */
bool tokenizer_adds_bos(const struct tokenizer *t);
/* Return "bpe", "spm", "unigram", "longest" or "wordpiece", for `inspect`. The text is static. */
const char *tokenizer_kind(const struct tokenizer *t);

/* Streaming detokenizer. The detokenizer emits bytes as soon as they form complete characters.
 * Bytes that cannot become valid UTF-8 become U+FFFD, so the output is always valid UTF-8. The
 * concatenated output equals tokenizer_decode of all ids with invalid bytes replaced. The struct is
 * in the caller's memory. Only `out` allocates. */
struct detok {
    const struct tokenizer *t; /* borrowed */
    unsigned flags;
    /* true after the first token; only the first token's leading space may be omitted */
    bool started;
    uint8_t n_pending;
    /* bit i: pending[i] is emitted as a byte-alphabet character if it is not UTF-8 */
    uint8_t spelled;
    bool raw;        /* true: invalid bytes are emitted unchanged, not as U+FFFD */
    char pending[4]; /* incomplete UTF-8 sequence */
};
/* Begin a text. t is borrowed until the last call. */
void detok_init(struct detok *d, const struct tokenizer *t, unsigned flags);
/* Append the bytes of a token to `out`. Return false if memory is exhausted. */
bool detok_push(struct detok *d, int32_t id, struct buf *out);
/* End the stream. Pending bytes become U+FFFD. Return false if memory is exhausted. */
bool detok_flush(struct detok *d, struct buf *out);

#endif
