/* token_impl.h - private to src/token: declarations shared by its files.
 *
 *   reader (gguf_vocab, hf_json, sentencepiece, tiktoken, plain_vocab, llama2c,
 *   world)             pieces, merges, options, normalizer and pre-tokenizer steps, ids to add
 *   tokenizer_finish   derives: bytes of each piece, look-up maps, matchers, the kind's own tables
 *   tokenizer_encode   added tokens -> normalize -> pre-tokenize -> kind->encode -> ids
 *
 * All threads share a struct tokenizer. A tokenizer is constant after tokenizer_finish, except for
 * the flags `whole` of bpe.c. The state of one call of tokenizer_encode is in a struct encoder. */
#ifndef QUOTH_TOKEN_IMPL_H
#define QUOTH_TOKEN_IMPL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/os.h"
#include "token/token.h"

#define SPACE_MARK "\xE2\x96\x81" /* U+2581, SentencePiece's spelling of a space */
enum { SPACE_MARK_BYTES = 3 };

enum {
    PIECES_MAX = 1 << 20, /* maximum number of pieces; larger vocabularies are rejected */
    /* Maximum length of a piece, in bytes, for deriving merges by trying every cut, which takes
     * quadratic time. No known vocabulary has longer pieces. */
    PIECE_MERGE_BYTES_MAX = 512,
    ADDED_BYTES_MAX = 1024, /* maximum length of an added token; longer tokens never match */
    /* Maximum length, in bytes, of a piece that is searched at each position of a text. A megabyte
     * takes 1.1 s at most. The longest known piece of these kinds has 128 bytes. */
    PIECE_SEARCH_BYTES_MAX = 512,
    /* maximum length, in bytes, of a text that a normalizer searches at each position */
    NORM_SEARCH_BYTES_MAX = 1024,
};

/* Kinds of pieces, with the numbers of GGUF and of SentencePiece's model format. */
enum piece_kind {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN = 2,
    PIECE_CONTROL = 3,
    PIECE_USER = 4, /* "user defined": always matches, never merges */
    PIECE_UNUSED = 5,
    PIECE_BYTE = 6,
};

enum match_flag {
    MATCH_RAW = 1,        /* added token that matches in the raw text before normalization */
    MATCH_NORMALIZED = 2, /* added token that matches after normalization             */
    MATCH_LSTRIP = 4,     /* the match includes the white space before the token */
    MATCH_RSTRIP = 8,     /* the match includes the white space after the token */
    MATCH_WORD = 16,      /* the token matches only if no word character is next to it */
};

struct piece {
    const char *text;  /* spelling in the file; arena */
    const char *bytes; /* bytes inside a text; arena */
    uint32_t n_text, n_byte;
    double score;
    uint8_t kind;  /* enum piece_kind; 0: unused id                               */
    uint8_t match; /* enum match_flag                                             */
    uint16_t ends; /* 1 << enum end: the places that make it an end of a text; 0: no end */
    bool special;
    bool listed;  /* true: an added token that is also in the model's vocabulary */
    bool spelled; /* true: listed, and the byte alphabet spells the bytes differently */
    bool outside; /* true: an added token that the model's vocabulary does not have */
};

/* Places that make a token an end of a text. */
enum end {
#define END(name, explicit, text) END_##name,
#include "token/ends.def"
#undef END
    N_END
};

/* A pair of pieces that merge. The texts are in the tokenizer's arena. */
struct merge_text {
    const char *left, *right;
    uint32_t n_left, n_right;
};

/* Spelling and handling of a tokenizer's pieces. Pieces are plain text if all fields are zero.
 * Texts are static or in the tokenizer's arena. */
struct token_options {
    bool byte_level;    /* true: pieces are spelled in GPT-2's byte alphabet */
    bool raw_bytes;     /* true: pieces are bytes (tiktoken) */
    bool space_mark;    /* true: "▁" in a piece is a space */
    bool byte_fallback; /* true: characters without a piece become <0xXX> pieces */
    bool fuse_unk;      /* true: a run of unknown characters becomes one unknown token */
    bool ignore_merges; /* true: a word that is a piece is not merged */
    bool newline_words; /* true: a piece of only line feeds is not merged (gemma 4) */
    /* true: there is no merge list; a pair merges if its text is a piece, lowest id first
     * (tiktoken) */
    bool merges_by_rank;
    /* true: there is no merge list; the pair of the highest score merges first (SentencePiece) */
    bool merges_by_score;
    bool match_all;       /* true: unigram lattices include control pieces (Hugging Face) */
    bool drop_lead_space; /* true: decode omits a leading space of the first token */
    bool drop_mark_only;  /* true: drop_lead_space applies to "▁", not to " " */
    /* true: decoding puts a space between tokens; for a file without a decoder */
    bool join_pieces;
    bool add_bos;
    bool word_cleanup;        /* wordpiece, true: " ." is decoded as "." */
    const char *word_prefix;  /* wordpiece: prefix of a piece that begins a word; NULL if none */
    const char *inner_prefix; /* wordpiece: prefix of a piece inside a word ("##"); NULL if none */
    /* wordpiece: maximum number of characters of a word; longer words are unknown */
    int word_chars_max;
};

/* ---- tries (trie.c): byte strings -> ids ---- */

/* A key of trie_build. p is borrowed for the call. */
struct trie_key {
    const char *p;
    uint32_t n;
    int32_t value; /* id of the key, >= 0 */
};
/* A trie. The arrays are owned. */
struct trie {
    uint32_t *child;   /* [n_node] first child of a node; children are adjacent, in label order */
    uint16_t *n_child; /* [n_node] number of children, in [0, 256] */
    uint8_t *label;    /* [n_node] label of the edge to the node */
    int32_t *value;    /* [n_node] id of the key that ends at the node; -1 if none */
    uint32_t n_node;   /* number of nodes; 0: empty trie */
};
/* Build a trie and sort key[n]. The trie has the last of equal keys. Return false if memory is
 * exhausted. */
bool trie_build(struct trie *t, struct trie_key *key, size_t n);
/* Return the child of `node` for byte c; 0 if none. Node 0 is the root. */
uint32_t trie_step(const struct trie *t, uint32_t node, uint8_t c);
/* Return the length of the longest key that is a prefix of p[0, n); 0 if none. Set *value to the
 * value of that key. */
size_t trie_longest(const struct trie *t, const char *p, size_t n, int32_t *value);
/* Free the arrays; accepts a zeroed trie. */
void trie_deinit(struct trie *t);

/* ---- unicode.c: properties and normal forms ---- */

bool uni_space(uint32_t cp); /* return true for White_Space */
bool uni_word(uint32_t cp);  /* return true for \w */
/* Return true for general category C without unassigned characters. */
bool uni_other(uint32_t cp);
bool uni_digit(uint32_t cp); /* return true for general category Nd */
/* Return true for general categories M and Mn, as in Hugging Face's tokenizers
 * (unicode_lag.def). */
bool uni_mark(uint32_t cp);
/* Return true for general category Mn, as in Hugging Face's tokenizers. */
bool uni_mark_nonspacing(uint32_t cp);
bool uni_cjk(uint32_t cp); /* return true for Chinese characters as BERT defines them */
/* Append the lower case of a character. */
void uni_add_lower(struct buf *out, uint32_t cp);
enum uni_form { UNI_NFC, UNI_NFD, UNI_NFKC, UNI_NFKD };
/* Append the normal form of p[0, n). Copy bytes that are not UTF-8. Return false if memory is
 * exhausted. */
bool uni_normalize(struct buf *out, const char *p, size_t n, enum uni_form form);
/* Decode one character like utf8_decode, but always advance. The length is 1 and *cp is UNI_BAD if
 * the byte starts no character. */
#define UNI_BAD 0xFFFFFFFFu
int uni_next(const char *p, size_t n, uint32_t *cp);
/* Find a short, frequent text, like memmem. memmem itself is not used, because its sanitizer
 * version scans the whole remaining text at every call. */
const char *bytes_find(const char *p, size_t n, const char *what, size_t n_what);
/* Return the length of the longest prefix of p[0, n) that consists of complete valid characters. */
size_t uni_valid_len(const char *p, size_t n);
/* Decode the character before p[n] and return its length. n > 0. */
int uni_prev(const char *p, size_t n, uint32_t *cp);

/* ---- regex.c: pre-tokenizer patterns ---- */

struct regex;
struct regex_work; /* scratch of one call of tokenizer_encode; opaque */
/* Compile a pattern in the syntax of tokenizer.json and tiktoken (Oniguruma, Rust regex). The
 * caller owns *out, which is NULL after an error. ERR_LIMIT if the pattern is longer than 32 KiB,
 * ERR_UNSUPPORTED for unsupported syntax, ERR_MEMORY. */
int regex_open(struct regex **out, const char *pattern, size_t n, struct err *e);
/* Free a pattern; NULL is allowed. */
void regex_close(struct regex *r);
/* Append a pattern translated to PCRE2 syntax. ERR_UNSUPPORTED with the position, ERR_MEMORY. */
int regex_translate(struct buf *out, const char *pattern, size_t n, struct err *e);
/* Return scratch, owned by the caller. NULL if memory is exhausted. */
struct regex_work *regex_work_open(void);
/* Free the scratch; NULL is allowed. */
void regex_work_close(struct regex_work *w);
/* Return true if regex_next failed because memory was exhausted, not because there was no match. */
bool regex_work_failed(const struct regex_work *w);
/* Find the first match in p[from, n), which is valid UTF-8. Return false if there is no match. A
 * part of the text counts as the match if matching exceeds a limit. */
bool regex_next(const struct regex *r, struct regex_work *w, const char *p, size_t n, size_t from,
                size_t *start, size_t *end);

/* ---- normalize.c ---- */

struct norm_step;
typedef bool norm_fn(const struct norm_step *s, const char *p, size_t n, struct buf *out);
struct norm_step {
    norm_fn *run;
    const char *a, *b; /* operands in the arena: pattern and replacement, or prefix */
    size_t n_a, n_b;
    unsigned flags;
    struct regex *regex;             /* owned; compiled pattern */
    const struct charsmap *charsmap; /* arena; rules of a precompiled charsmap */
    struct trie *verbatim;           /* owned; user-defined symbols that the step does not change */
};
/* Return the function of a step by its name in tokenizer.json, such as "NFC" (norms.def). NULL if
 * the name is unknown. */
norm_fn *norm_find(const char *name);
enum { BERT_CLEAN = 1, BERT_CJK = 2, BERT_STRIP = 4, BERT_LOWER = 8 }; /* flags of norm_bert */
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };                              /* flags of norm_strip */
/* flags of norm_sentencepiece */
enum { SP_PREFIX = 1, SP_TRIM = 2, SP_ESCAPE = 4, SP_KEEP = 8 };
norm_fn norm_bert, norm_sentencepiece, norm_replace, norm_prepend;
enum { NORM_STEPS_MAX = 256 };
/* Append a new step and return it. NULL if memory is exhausted or there are too many steps. The
 * result is borrowed until the next append. */
struct norm_step *tokenizer_add_norm(struct tokenizer *t, norm_fn *run);
/* Run all steps on p[0, n). seam: true if p continues other text, so that no step prepends text. */
bool normalize(const struct tokenizer *t, const char *p, size_t n, bool seam, struct buf *out,
               struct buf *spare);

/* ---- charsmap.c: SentencePiece's precompiled normalization ---- */

struct charsmap;
/* Read a blob and copy it into the arena as *out. ERR_FORMAT if its parts do not fit,
 * ERR_MEMORY. */
int charsmap_open(const struct charsmap **out, struct arena *a, const void *blob, size_t n,
                  struct err *e);
/* Append the blob from which the map was made. */
void charsmap_put(const struct charsmap *m, struct buf *out);
/* Find the longest rule that matches at p. Return the number of consumed bytes; 0 if no rule
 * matches. Set *to to the replacement of these bytes, borrowed from m. */
size_t charsmap_longest(const struct charsmap *m, const char *p, size_t n, const char **to,
                        size_t *n_to);
/* Find the shortest rule that matches at p, as Hugging Face does. Set *to to the rule's
 * replacement, borrowed from m. Return false if no rule matches. */
bool charsmap_first(const struct charsmap *m, const char *p, size_t n, const char **to,
                    size_t *n_to);

/* ---- pretok.c ---- */

enum pretok_kind { PRETOK_SPLIT, PRETOK_METASPACE, PRETOK_SPACE, PRETOK_DIGITS };
enum split_how {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_CONTIGUOUS,
    SPLIT_WITH_PREVIOUS,
    SPLIT_WITH_NEXT,
};
struct pretok_step {
    enum pretok_kind kind;
    enum split_how how;
    bool invert; /* true: matches and the text between matches are exchanged */
    /* true: the pattern matches text in GPT-2's byte alphabet (after ByteLevel) */
    bool mapped;
    /* METASPACE: prepend "▁" to every piece, or to the first piece of the text */
    bool always, first;
    bool cut;            /* METASPACE: true: split before each "▁" */
    const char *pattern; /* pattern of SPLIT as given, in the arena, with a NUL */
    struct regex *regex; /* owned; pattern of SPLIT */
};
/* A part of a text. The bytes are borrowed. */
struct pretok_text {
    const char *p;
    size_t n;
    bool first; /* true at the start of the whole text */
};
/* Append a step. The result is borrowed until the next append. NULL if memory is exhausted. */
struct pretok_step *tokenizer_add_pretok(struct tokenizer *t, enum pretok_kind kind);
/* Append a SPLIT step with a pattern. Errors are those of regex_open. */
int tokenizer_add_split(struct tokenizer *t, const char *pattern, size_t n, enum split_how how,
                        struct err *e);
/* Append the steps of BERT's word split: remove white space and separate punctuation. Errors are
 * those of regex_open. */
int tokenizer_add_bert_words(struct tokenizer *t, struct err *e);
/* Return the first family of pretok.def whose steps and options are those of t, static. NULL if
 * none. */
const char *tokenizer_family(const struct tokenizer *t);
/* Return true if the family's steps and options are those of t. */
bool tokenizer_is_family(const struct tokenizer *t, const char *name);
/* Return pattern k of a family, static; NULL after the last. The pattern is empty for a step that
 * tokenizer.json cannot express. */
const char *family_pattern(const char *name, int k);
bool is_family(const char *name); /* return true if the name is in pretok.def */
/* Add the steps of a family of pretok.def, and set ignore_merges and similar options. Return
 * ERR_UNSUPPORTED for an unknown family, with its name in the error. Other errors are those of
 * regex_open. */
int tokenizer_add_family(struct tokenizer *t, const char *name, struct err *e);
struct encoder;
/* Run the pre-tokenizer steps from number `step` on, then encode. Return false if memory is
 * exhausted or the thread's work is cancelled. */
bool pretok_run(struct encoder *en, int step, struct pretok_text s);

/* ---- merge.c: byte-pair merging over symbol numbers ---- */

struct merge_slot {
    /* pair, rank and merged symbol; left is UINT32_MAX if the slot is empty */
    uint32_t left, right, rank, id;
};
/* A table of pairs, with open addressing. The slots are owned. */
struct merges {
    struct merge_slot *slot;
    size_t n, cap;
};
/* Add a pair. Ignore it if an equal pair exists. Return false if memory is exhausted. */
bool merges_put(struct merges *m, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
/* Return the slot of a pair, borrowed until the next merges_put. NULL if the pair does not
 * merge. */
const struct merge_slot *merges_get(const struct merges *m, uint32_t left, uint32_t right);
/* Free the table; a zeroed struct is allowed. */
void merges_deinit(struct merges *m);
/* Scratch of merge_run, which grows if needed. The arrays are owned. */
struct merge_work {
    uint32_t *sym; /* symbols, merged in place */
    size_t cap;
    struct merge_node *node;
    size_t node_cap;
    uint64_t *heap;
    size_t heap_cap;
};
/* first of the symbols that never merge; the caller defines their low bits */
#define SYM_NONE 0x80000000u
/* Merge work->sym[0, n) until no pair has a rank. Set *n to the new number of symbols. Return false
 * if memory is exhausted. */
bool merge_run(const struct merges *m, struct merge_work *w, size_t *n);
/* Free the scratch; a zeroed struct is allowed. */
void merge_work_deinit(struct merge_work *w);

/* ---- merge_build.c: sources of pairs; false if memory is exhausted ---- */

/* Add every pair of symbols whose joined text is p[0, n), the text of the symbol `made`. */
bool merges_put_cuts(struct merges *m, const struct strmap *sym, const char *p, size_t n,
                     uint32_t made, uint32_t rank);
/* Add the pairs of t->merge, ranked in order. A pair with an unknown text is skipped. */
bool merges_put_list(struct merges *m, const struct tokenizer *t, const struct strmap *sym);
/* Return [n_piece] the rank of each id by its score, highest first, owned by the caller. Equal
 * scores have equal ranks. NULL if memory is exhausted. */
uint32_t *score_ranks(const struct tokenizer *t);

/* ---- the kinds: bpe.c spm.c unigram.c wordpiece.c longest.c ---- */

/* The functions of a kind. All pointers are static. */
struct token_kind {
    const char *name;
    /* Create t->model. After ERR_MEMORY, the kind's close frees a partial model. */
    int (*build)(struct tokenizer *t, struct err *e);
    /* Encode one word. Return false if memory is exhausted. */
    bool (*encode)(struct encoder *en, const char *p, size_t n);
    void (*close)(struct tokenizer *t);
    bool whole; /* true: `encode` gets whole texts, of any bytes, not words */
};
#define TOKEN_KIND(id) extern const struct token_kind token_kind_##id;
#include "kinds.def"
#undef TOKEN_KIND

/* ---- token.c ---- */

struct added { /* tokens that match before all other steps */
    struct trie trie;
    bool begins[256]; /* true if a token begins with this byte */
};
enum { AFFIX_MAX = 8 };

/* A vocabulary with its steps. The vocabulary owns all its memory. */
struct tokenizer {
    struct arena arena;
    struct piece *piece; /* [n_piece] pieces by id, owned */
    size_t n_piece, piece_cap;
    struct strmap find;            /* map of spellings to ids */
    int32_t byte_id[256];          /* id of the piece of a single byte; -1 if none */
    const struct token_kind *kind; /* functions of the kind, static */
    void *model;                   /* tables of the kind, owned by the kind */
    struct token_options opt;
    VEC(struct merge_text) merge; /* merges of the file; tokenizer_finish releases them */
    VEC(struct norm_step) norm;
    VEC(struct pretok_step) pretok;
    bool any_spelled; /* true if any piece has `spelled` */
    bool ends_listed; /* true: a file lists ends, so that eog.def adds none */
    bool lowers;      /* true: the settings of sentence-transformers lower the case of texts */
    bool from_json;   /* true: from a tokenizer.json; its post-processor defines added ids */
    struct added raw, normalized;
    int32_t prefix[AFFIX_MAX], suffix[AFFIX_MAX]; /* ids that ENCODE_ADD_SPECIAL adds */
    int n_prefix, n_suffix;
    int32_t between[AFFIX_MAX]; /* ids between the texts of a pair; the last ids are the suffix */
    int n_between;
    bool pair_segments; /* true: the second text of a pair and its suffix are segment 1 */
    int32_t bos, eos, unk;
};

struct tokenizer *
tokenizer_open_empty(void); /* create an empty tokenizer; NULL if memory is exhausted */
/* Store piece number `id` and copy its text. Ids between the last piece and `id` become unused.
 * ERR_LIMIT if the id or the length is too large, ERR_MEMORY. */
int tokenizer_put(struct tokenizer *t, size_t id, const char *text, size_t n, enum piece_kind kind,
                  double score, struct err *e);
/* Append a merge and copy its texts. Return false if memory is exhausted. */
bool tokenizer_put_merge(struct tokenizer *t, const char *left, size_t n_left, const char *right,
                         size_t n_right);
/* Append a merge from a line "left right". */
bool tokenizer_put_merge_line(struct tokenizer *t, const char *line, size_t n);
/* Return the id of a piece without the map of tokenizer_find, by a scan; -1 if not found. */
int32_t tokenizer_scan(const struct tokenizer *t, const char *text);
/* Mark a token as an end of generation that `from` names. Ignore an id outside the vocabulary. A
 * negative id is no token. */
void tokenizer_mark_end(struct tokenizer *t, int64_t id, enum end from);
/* Derive the tables from the pieces, after the reader. ERR_FORMAT if there is no piece,
 * ERR_MEMORY. */
int tokenizer_finish(struct tokenizer *t, struct err *e);
bool tokenizer_index(struct tokenizer *t); /* fill t->find; may be called early and repeatedly */
/* Reject a piece that is too long to be searched at each position of a text. ERR_LIMIT. */
int tokenizer_check_search(const struct tokenizer *t, size_t id, struct err *e);

/* ---- encode.c ---- */

/* State of one call of tokenizer_encode. t and out are borrowed, all other memory is owned. */
struct encoder {
    const struct tokenizer *t;
    unsigned flags;
    struct ids *out;
    struct regex_work *regex;
    struct merge_work merge;
    struct buf text[2]; /* normalized text; spare */
    void *lattice;      /* scratch of unigram */
    size_t lattice_cap;
    bool seam;      /* true: the text continues other text, so no space is prepended */
    bool after_unk; /* true: the last id was an unknown token of the current word */
};
/* Return true if a text may give the token: a special token only with ENCODE_PARSE_SPECIAL. */
bool encoder_allows(const struct encoder *en, int32_t id);
/* Return true if the model may give the piece. Unlike other special pieces, the unknown token is
 * always a piece of the model, as in Hugging Face's tokenizers: it controls nothing. */
bool encoder_allows_piece(const struct encoder *en, int32_t id);
/* Append an id. Return false if memory is exhausted. */
bool encoder_emit(struct encoder *en, int32_t id);
/* Emit an unknown character as its byte tokens or as the unknown token. The unknown token may be
 * fused with a preceding unknown token. */
bool encoder_emit_unknown(struct encoder *en, const char *p, size_t n);

/* ---- added.c ---- */

/* Process the text between matches. An empty span is legal. */
typedef bool text_fn(struct encoder *en, struct pretok_text s);
/* Emit the matches in s and call `text` for the text between them, in order. Return false if a call
 * fails. */
bool added_split(struct encoder *en, const struct added *a, struct pretok_text s, text_fn *text);
/* Build both matchers. Return false if memory is exhausted. */
bool added_build(struct tokenizer *t);
/* Free the matchers; accepts a zeroed struct. */
void added_deinit(struct added *a);

/* ---- alphabet.c: GPT-2's byte <-> character alphabet ---- */

void alphabet_add(struct buf *out, uint8_t byte); /* append the byte's character in UTF-8 */
/* Return the byte of cp; -1 if cp is not in the alphabet. */
int alphabet_byte(uint32_t cp);
/* Decode a text in GPT-2's alphabet. Return false if a character is not in the alphabet. */
bool alphabet_decode(const char *p, size_t n, char *out, uint32_t *n_out);

/* ---- lines.c ---- */

/* Handle a line of a file, without the line's end. p is borrowed for the call. An ERR_* code stops
 * the reading. */
typedef int line_fn(struct tokenizer *t, const char *p, size_t n, struct err *e);
/* Call `line` for each line of a file. Return its error, ERR_IO, ERR_LIMIT (256 MiB) or ERR_MEMORY,
 * with the path in the sentence. */
int lines_read(struct tokenizer *t, const char *path, line_fn *line, struct err *e);

/* ---- literal.c: literals of Python ---- */

/* Append the value of the text between a literal's quotes. bytes: a literal of bytes, not of a
 * string. Return false for a wrong escape or character. */
bool literal_decode(struct buf *out, const char *p, size_t n, bool bytes);
/* Append the value of the literal at the start of p[0, n). Return the length of the literal with
 * its quotes; 0 if there is no valid literal. */
size_t literal_read(struct buf *out, const char *p, size_t n);
enum { LITERAL_BYTE_MAX = 4 }; /* maximum length of a byte in a literal */
/* Write the text between the quotes of a literal of bytes p[0, n), as repr() does, to `out`, which
 * has room for n * LITERAL_BYTE_MAX bytes. Set *quote to the quote. Return the length. */
size_t literal_write(char *out, char *quote, const char *p, size_t n);

/* ---- world.c: RWKV's lists of tokens ---- */

/* Return true if the name of a file is that of a list of tokens. */
bool world_is_file(const char *path);
/* Append the list of a tokenizer's tokens. */
void world_put(struct buf *out, const struct tokenizer *t);

/* ---- readers ---- */

/* Fill an empty tokenizer from the metadata of a checkpoint or from the files in its folder,
 * without finishing it (open.c). Errors are those of tokenizer_open. */
int tokenizer_read(struct tokenizer *t, const struct checkpoint *c, struct err *e);
/* Fill an empty tokenizer from a checkpoint or a tokenizer.json. The caller closes it after an
 * error. Errors are those of tokenizer_open, with the path in the sentence. */
int gguf_vocab_read(struct tokenizer *t, const struct checkpoint *c, struct err *e);
/* Fill an empty tokenizer from a tokenizer.json. */
int hf_json_read(struct tokenizer *t, const char *path, struct err *e);
/* Return the field "type" of j; "" if absent. */
const char *hf_type(const struct json *j);
/* Append the steps of a normalizer of tokenizer.json. Append no step if j is not an object.
 * ERR_FORMAT or ERR_UNSUPPORTED with the name of the step, ERR_LIMIT if there are too many steps,
 * ERR_MEMORY. */
int hf_steps_norm(struct tokenizer *t, const struct json *j, struct err *e);
/* Append the steps of a pre-tokenizer of tokenizer.json. */
int hf_steps_pretok(struct tokenizer *t, const struct json *j, struct err *e);
/* Read the steps of a decoder of tokenizer.json. ERR_FORMAT, ERR_UNSUPPORTED. */
int hf_steps_decoder(struct tokenizer *t, const struct json *j, struct err *e);
/* Return true if the file has no such step: no field, or null. */
bool hf_step_absent(const struct json *j);
/* Reject a step that is not an object. ERR_FORMAT with the step's name. */
int hf_step_check(const struct json *j, const char *name, struct err *e);
/* Write the path of a file in `dir`. Set *found to true if it is a readable file, and to false if
 * nothing has the path. ERR_IO as file_find, ERR_ARG if the path is too long. */
int token_file(char path[static 4096], bool *found, const char *dir, const char *name,
               struct err *e);
/* Write the folder of a file, cut off after 4095 bytes. */
void token_folder(char dir[static 4096], const char *path);
/* Return the flags that describe the text around an added token of a JSON file. */
int hf_match_flags(const struct json *j);
/* Return all flags of an added token of a JSON file (enum match_flag). */
int hf_token_match(const struct tokenizer *t, const struct json *j);
/* Make piece `id` >= 0 an added token. Errors are those of tokenizer_put. */
int hf_token_put(struct tokenizer *t, int64_t id, const char *text, size_t n, enum piece_kind kind,
                 int match, struct err *e);
/* Reject an added token with a negative id or whose id another text has. Hugging Face's tokenizers
 * assign it a new id, for which the model has no row or the row of another token. ERR_FORMAT. */
int hf_token_check(const struct tokenizer *t, int64_t id, const char *text, size_t n,
                   struct err *e);
/* Make a piece an added token with the text and the flags of j. ERR_FORMAT if j has no text or id <
 * 0. Other errors are those of tokenizer_put. */
int hf_token_add(struct tokenizer *t, int64_t id, const struct json *j, struct err *e);
/* Append an id before or after each text. Ignore ids beyond AFFIX_MAX. */
void hf_affix_add(struct tokenizer *t, bool before, int64_t id);
/* Append an id between the texts of a pair. Ignore ids beyond AFFIX_MAX. */
void hf_between_add(struct tokenizer *t, int64_t id);

/* ---- hf_class.c: the configuration files, and the class that they select ---- */

/* Steps of a class of transformers (classes.def). */
enum hf_form {
    FORM_NONE, /* a class that only a tokenizer.json describes */
    FORM_BERT,
    FORM_MPNET,
    FORM_GPT2,
    FORM_QWEN2,
    FORM_ROBERTA,
    FORM_T5,
    FORM_XLM_ROBERTA,
    FORM_CAMEMBERT,
    FORM_LLAMA,
};
/* The configuration files of a folder. All JSON is owned, and NULL if the file is absent. */
struct hf_files {
    struct json *config; /* tokenizer_config.json */
    struct json *named;  /* special_tokens_map.json; NULL if config has added_tokens_decoder */
    struct json *added;  /* added_tokens.json; NULL if config has added_tokens_decoder */
    enum hf_form form;
};
/* Read the configuration files in `dir`. The caller closes f. Errors are those of
 * json_read_python. */
int hf_files_open(struct hf_files *f, const char *dir, struct err *e);
/* Read the configuration files in the folder of a file. */
int hf_files_open_of(struct hf_files *f, const char *path, struct err *e);
void hf_files_close(struct hf_files *f);
/* Return the value of a key of special_tokens_map.json or tokenizer_config.json, borrowed; NULL if
 * absent. */
const struct json *hf_files_field(const struct hf_files *f, const char *key);
/* Return the text of the token that a key names, borrowed; `fallback` if no file has the key; NULL
 * if its value is not a token. */
const char *hf_files_token(const struct hf_files *f, const char *key, const char *fallback);
/* Return the text of the token "text" or {"content": "text"}, borrowed; NULL for another value. */
const char *hf_token_text(const struct json *v);
/* Return true if `name` is one of n classes, without or with "Fast" at its end. NULL is allowed. */
bool hf_is_class(const char *name, const char *const *classes, size_t n);
/* Mark a piece as special, for files without a field for special pieces. Return the id of the
 * piece; -1 if not found. text: NULL if there is no such token. */
int32_t hf_special_mark(struct tokenizer *t, const char *text);
/* Mark the token that a class names, and return its id; -1 if not found. A token that a file names
 * is marked later, with its flags (hf_config_read). */
int32_t hf_named_mark(struct tokenizer *t, const struct hf_files *f, const char *key,
                      const char *fallback);
/* Return the flags of norm_bert that the keys of BERT's classes set, with their defaults. */
unsigned hf_bert_flags(const struct hf_files *f);
/* Read an optional JSON file in `dir`. *out is NULL if it is missing. Errors are those of
 * json_read_python. */
int hf_file_read(struct json **out, const char *dir, const char *name, struct err *e);

/* ---- hf_sentencepiece.c ---- */

/* Return true if the file has the name of a SentencePiece model whose class changes its ids. */
bool hf_sentencepiece_is_file(const char *path);
/* Change the pieces of a SentencePiece model to the ids of its class, and set the steps and the
 * added ids of the class. *done: false without a change, for a class that uses the model unchanged.
 * unk: id of the model's unknown piece. map: in the arena; NULL if the model has none.
 * ERR_UNSUPPORTED for a class with unknown ids, ERR_FORMAT, ERR_LIMIT, ERR_MEMORY. */
int hf_sentencepiece_apply(struct tokenizer *t, const char *path, int32_t unk,
                           const struct charsmap *map, bool *done, struct err *e);

/* ---- hf_override.c ---- */

/* Apply the keys of tokenizer_config.json that override a tokenizer.json, and warn of keys without
 * effect. dir: the folder, for warnings. ERR_MEMORY. */
int hf_override(struct tokenizer *t, const struct hf_files *f, const char *dir, struct err *e);

/* ---- hf_settings.c ---- */

/* Apply the configuration files and generation_config.json in `dir`, if they exist. modules: apply
 * the settings of sentence-transformers too. Errors are those of json_read_python and
 * tokenizer_put. */
int hf_config_read(struct tokenizer *t, const char *dir, bool modules, struct err *e);
/* Set *id to the id of a token that a configuration file of the folder `dir` names, such as
 * "pad_token".
 * Set *id to -1 if no file names the token. Errors are those of json_read_python. */
int hf_token_id(const struct tokenizer *t, const char *dir, const char *name, int32_t *id,
                struct err *e);
/* Read a file like hf_json_read. Errors are those of tokenizer_open. */
int sentencepiece_read(struct tokenizer *t, const char *path, struct err *e);
int tiktoken_read(struct tokenizer *t, const char *path, const char *hint, struct err *e);
int plain_vocab_read(struct tokenizer *t, const char *path, const char *hint, struct err *e);
int llama2c_read(struct tokenizer *t, const char *path, struct err *e);
int world_read(struct tokenizer *t, const char *path, struct err *e);

#endif
