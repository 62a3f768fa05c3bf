/* token_impl.h - private to src/token: declarations shared by its files.
 *
 *   reader (gguf_vocab, hf_json, sentencepiece, tiktoken, plain_vocab, llama2c)
 *        fills pieces, merges, options, normalizer and pre-tokenizer steps, ids to add
 *   tokenizer_finish   derives: bytes of each piece, look-up maps, matchers, the kind's own tables
 *   tokenizer_encode   added tokens -> normalize -> pre-tokenize -> kind->encode -> ids
 *
 * A struct tokenizer is shared by all threads and is constant after tokenizer_finish, except for
 * the word flags of bpe.c. State of one call is in its struct encoder. */
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
    PIECES_MAX = 1 << 20, /* larger vocabularies are rejected                                  */
    PIECE_MERGE_BYTES_MAX = 512, /* limit for deriving merges by trying every cut: longer pieces
                                  * cost quadratic time, and no vocabulary has them */
    ADDED_BYTES_MAX = 1024, /* longer added tokens are never matched                             */
};

/* Numbers as in GGUF and in SentencePiece's model format. */
enum piece_kind {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN = 2,
    PIECE_CONTROL = 3,
    PIECE_USER = 4, /* "user defined": always matched, never merged */
    PIECE_UNUSED = 5,
    PIECE_BYTE = 6,
};

enum match_flag {
    MATCH_RAW = 1,        /* added token, matched in the raw text before normalization */
    MATCH_NORMALIZED = 2, /* added token, matched after normalization             */
    MATCH_LSTRIP = 4,     /* consumes the white space before it                   */
    MATCH_RSTRIP = 8,     /* consumes the white space after it                    */
    MATCH_WORD = 16,      /* matches only without adjacent word characters        */
};

struct piece {
    const char *text;  /* as the file spells it; arena                            */
    const char *bytes; /* its bytes inside a text; arena                          */
    uint32_t n_text, n_byte;
    double score;
    uint8_t kind;  /* enum piece_kind; 0: unused id                               */
    uint8_t match; /* enum match_flag                                             */
    bool special, eog;
    bool listed;  /* added token that is also in the model's vocabulary                 */
    bool spelled; /* listed, and its bytes have another spelling in the byte alphabet    */
};

struct merge_text {
    const char *left, *right;
    uint32_t n_left, n_right;
};

/* How a kind reads its pieces. Zero is the plain case. */
struct token_options {
    bool byte_level;      /* pieces are spelled in GPT-2's byte alphabet            */
    bool raw_bytes;       /* pieces are bytes (tiktoken)                            */
    bool space_mark;      /* "▁" in a piece is a space                              */
    bool byte_fallback;   /* characters without a piece become <0xXX> pieces        */
    bool fuse_unk;        /* a run of unknown characters gives one unknown token    */
    bool ignore_merges;   /* a whole word that is a piece is not merged             */
    bool newline_words;   /* a piece of only line feeds is not merged (gemma 4)     */
    bool merges_by_rank;  /* no merge list: a pair merges if its text is a piece,
                           * lowest id first (tiktoken) */
    bool merges_by_score; /* no merge list: highest score first (SentencePiece)     */
    bool match_all;       /* unigram: control pieces are in the lattice too (HF)    */
    bool drop_lead_space; /* decode drops a leading space of the first token        */
    bool drop_mark_only;  /* drop_lead_space applies to "▁", not to " "             */
    bool join_pieces;     /* decode puts a space between tokens (a file without decoder) */
    bool add_bos;
    bool word_cleanup;        /* wordpiece: " ." is decoded as "."                  */
    const char *word_prefix;  /* wordpiece: marks a piece that begins a word, or NULL */
    const char *inner_prefix; /* wordpiece: marks a piece inside a word ("##"), or NULL */
    int word_chars_max;       /* wordpiece: longer words are unknown                */
};

/* ---- tries (trie.c): byte strings -> ids, all prefixes of a text in one walk ---- */

struct trie_key {
    const char *p;
    uint32_t n;
    int32_t value; /* >= 0 */
};
struct trie {
    uint32_t *child;   /* first child of a node; children are adjacent, in label order */
    uint16_t *n_child; /* 0 .. 256 */
    uint8_t *label;    /* label of the edge to the node */
    int32_t *value;    /* -1: no key ends here */
    uint32_t n_node;   /* 0: empty */
};
/* Build a trie; sorts key. The last of equal keys wins. Returns false if out of memory. */
bool trie_build(struct trie *t, struct trie_key *key, size_t n);
/* Return the child of `node` for this byte, 0 if none. The root is 0. */
uint32_t trie_step(const struct trie *t, uint32_t node, uint8_t c);
/* Return the length of the longest key that is a prefix of p[0..n), 0 if none; *value is its
 * value. */
size_t trie_longest(const struct trie *t, const char *p, size_t n, int32_t *value);
void trie_deinit(struct trie *t);

/* ---- unicode.c: properties and normal forms ---- */

bool uni_space(uint32_t cp); /* White_Space */
bool uni_word(uint32_t cp);  /* \w */
bool uni_other(uint32_t cp); /* general category C, without unassigned ones */
bool uni_digit(uint32_t cp); /* general category Nd */
/* General categories M and Mn, as in Hugging Face's tokenizers (unicode_lag.def). */
bool uni_mark(uint32_t cp);
bool uni_mark_nonspacing(uint32_t cp);
bool uni_cjk(uint32_t cp); /* Chinese characters as BERT defines them */
void uni_add_lower(struct buf *out, uint32_t cp);
enum uni_form { UNI_NFC, UNI_NFD, UNI_NFKC, UNI_NFKD };
/* Append the normal form of p[0..n). Bytes that are not UTF-8 are copied. Returns false if out of
 * memory. */
bool uni_normalize(struct buf *out, const char *p, size_t n, enum uni_form form);
/* utf8_decode that always advances: a byte that starts no character gives length 1 and *cp =
 * UNI_BAD. */
#define UNI_BAD 0xFFFFFFFFu
int uni_next(const char *p, size_t n, uint32_t *cp);
/* memmem for short, frequent needles. Under a sanitizer, memmem scans the whole rest every time. */
const char *bytes_find(const char *p, size_t n, const char *what, size_t n_what);
/* Return the number of leading bytes of p[0..n) that form whole valid characters. */
size_t uni_valid_len(const char *p, size_t n);
/* Decode the character before p[n] and return its length. n > 0. */
int uni_prev(const char *p, size_t n, uint32_t *cp);

/* ---- regex.c: pre-tokenizer patterns ---- */

struct regex;
struct regex_work; /* scratch of one call */
/* Compile a pattern in the syntax of tokenizer.json and tiktoken (Oniguruma, Rust regex). */
int regex_open(struct regex **out, const char *pattern, size_t n, struct err *e);
void regex_close(struct regex *r);
/* Append a pattern translated to PCRE2 syntax. */
int regex_translate(struct buf *out, const char *pattern, size_t n, struct err *e);
struct regex_work *regex_work_open(void);
void regex_work_close(struct regex_work *w);
/* Return whether regex_next failed for lack of memory rather than for lack of a match. */
bool regex_work_failed(const struct regex_work *w);
/* Find the first match in p[from..n), valid UTF-8; false if none. A match that exceeds a limit
 * takes a stretch of text as it is. */
bool regex_next(const struct regex *r, struct regex_work *w, const char *p, size_t n, size_t from,
                size_t *start, size_t *end);

/* ---- normalize.c ---- */

struct norm_step;
typedef bool norm_fn(const struct norm_step *s, const char *p, size_t n, struct buf *out);
struct norm_step {
    norm_fn *run;
    const char *a, *b; /* operands of the step: pattern and replacement, or prefix; arena */
    size_t n_a, n_b;
    unsigned flags;
    struct regex *regex;             /* owned */
    const struct charsmap *charsmap; /* arena */
    struct trie *verbatim;           /* owned; user-defined symbols that pass unchanged */
};
/* Return a step by its name in tokenizer.json, e.g. "NFC" (norms.def); NULL if unknown. */
norm_fn *norm_find(const char *name);
enum { BERT_CLEAN = 1, BERT_CJK = 2, BERT_STRIP = 4, BERT_LOWER = 8 }; /* flags of norm_bert */
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };                              /* flags of norm_strip */
/* flags of norm_sentencepiece */
enum { SP_PREFIX = 1, SP_TRIM = 2, SP_ESCAPE = 4, SP_KEEP = 8 };
norm_fn norm_bert, norm_sentencepiece, norm_replace, norm_prepend;
enum { NORM_STEPS_MAX = 256 };
/* Append a step. Returns NULL if out of memory or if there are too many. */
struct norm_step *tokenizer_add_norm(struct tokenizer *t, norm_fn *run);
/* Run all steps on p[0..n). seam: p continues other text, so nothing is prepended. */
bool normalize(const struct tokenizer *t, const char *p, size_t n, bool seam, struct buf *out,
               struct buf *spare);

/* ---- charsmap.c: SentencePiece's precompiled normalization ---- */

struct charsmap;
int charsmap_open(const struct charsmap **out, struct arena *a, const void *blob, size_t n,
                  struct err *e);
/* Find the longest rule that matches at p. Returns the bytes consumed (0: none) and its
 * replacement. */
size_t charsmap_longest(const struct charsmap *m, const char *p, size_t n, const char **to,
                        size_t *n_to);
/* Find the shortest rule that matches at p, as Hugging Face does; false if none. */
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
    bool invert;        /* swap matches and non-matches                                     */
    bool mapped;        /* matches text in GPT-2's byte alphabet (after ByteLevel)          */
    bool always, first; /* METASPACE: prepend "▁" to every piece / to the first one of the text */
    bool cut;           /* METASPACE: split before each "▁"                                  */
    struct regex *regex; /* owned */
};
struct span {
    const char *p;
    size_t n;
    bool first; /* starts at the start of the whole text */
};
struct pretok_step *tokenizer_add_pretok(struct tokenizer *t, enum pretok_kind kind);
int tokenizer_add_split(struct tokenizer *t, const char *pattern, size_t n, enum split_how how,
                        struct err *e);
/* Add BERT's word split: white space removed, punctuation alone. */
int tokenizer_add_bert_words(struct tokenizer *t, struct err *e);
bool is_family(const char *name); /* true if in pretok.def */
/* Add the steps of a family of pretok.def, and set ignore_merges and similar options. Returns
 * ERR_UNSUPPORTED, with the name, for an unknown family. */
int tokenizer_add_family(struct tokenizer *t, const char *name, struct err *e);
struct encoder;
bool pretok_run(struct encoder *en, int step, struct span s);

/* ---- merge.c: byte-pair merging over symbol numbers ---- */

struct merge_slot {
    uint32_t left, right, rank, id; /* left = UINT32_MAX: empty */
};
struct merges {
    struct merge_slot *slot;
    size_t n, cap;
};
/* Add a pair; the first of equal pairs wins. Returns false if out of memory. */
bool merges_put(struct merges *m, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
const struct merge_slot *merges_get(const struct merges *m, uint32_t left, uint32_t right);
void merges_deinit(struct merges *m);
struct merge_work { /* scratch of one call, grows as needed */
    uint32_t *sym;  /* the symbols, merged in place */
    size_t cap;
    struct merge_node *node;
    size_t node_cap;
    uint64_t *heap;
    size_t heap_cap;
};
#define SYM_NONE 0x80000000u /* symbols from here on never merge; low bits are the caller's */
/* Merge work->sym[0..n) until no pair has a rank; *n becomes the new count. Returns false if out of
 * memory. */
bool merge_run(const struct merges *m, struct merge_work *w, size_t *n);
void merge_work_deinit(struct merge_work *w);

/* ---- merge_build.c: sources of pairs; false: out of memory ---- */

bool merges_put_cuts(struct merges *m, const struct strmap *sym, const char *p, size_t n,
                     uint32_t made, uint32_t rank);
bool merges_put_list(struct merges *m, const struct tokenizer *t, const struct strmap *sym);
uint32_t *score_ranks(const struct tokenizer *t);

/* ---- the kinds: bpe.c spm.c unigram.c wordpiece.c ---- */

struct token_kind {
    const char *name;
    int (*build)(struct tokenizer *t, struct err *e); /* creates t->model */
    /* one word; false: out of memory */
    bool (*encode)(struct encoder *en, const char *p, size_t n);
    void (*close)(struct tokenizer *t);
};
#define TOKEN_KIND(id) extern const struct token_kind token_kind_##id;
#include "kinds.def"
#undef TOKEN_KIND

/* ---- token.c ---- */

struct added { /* tokens that are matched before anything else */
    struct trie trie;
    bool begins[256]; /* true if a token begins with this byte */
};
enum { AFFIX_MAX = 8 };

struct tokenizer {
    struct arena arena;
    struct piece *piece; /* [n_piece] */
    size_t n_piece, piece_cap;
    struct strmap find;   /* text -> id */
    int32_t byte_id[256]; /* id of the piece of a single byte, or -1 */
    const struct token_kind *kind;
    void *model; /* owned by the kind */
    struct token_options opt;
    VEC(struct merge_text) merge; /* released by tokenizer_finish */
    VEC(struct norm_step) norm;
    VEC(struct pretok_step) pretok;
    bool any_spelled; /* true if a piece has `spelled` */
    bool from_json;   /* read from a tokenizer.json: its post-processor defines the added ids */
    struct added raw, normalized;
    int32_t prefix[AFFIX_MAX], suffix[AFFIX_MAX]; /* for ENCODE_ADD_SPECIAL */
    int n_prefix, n_suffix;
    int32_t bos, eos, unk;
};

struct tokenizer *tokenizer_new(void); /* NULL: out of memory */
/* Store piece number `id`; its text is copied. An id beyond the end leaves unused ids before it. */
int tokenizer_put(struct tokenizer *t, size_t id, const char *text, size_t n, enum piece_kind kind,
                  double score, struct err *e);
bool tokenizer_put_merge(struct tokenizer *t, const char *left, size_t n_left, const char *right,
                         size_t n_right);
bool tokenizer_put_merge_line(struct tokenizer *t, const char *line, size_t n); /* "left right" */
/* tokenizer_find for use before the map exists */
int32_t tokenizer_scan(const struct tokenizer *t, const char *text);
void tokenizer_mark_eog(struct tokenizer *t, int64_t id);
int tokenizer_finish(struct tokenizer *t, struct err *e);
bool tokenizer_index(struct tokenizer *t); /* fills t->find; may be called early and again */

/* ---- encode.c ---- */

struct encoder { /* one call of tokenizer_encode */
    const struct tokenizer *t;
    unsigned flags;
    struct ids *out;
    struct regex_work *regex;
    struct merge_work merge;
    struct buf text[2]; /* normalized text, and a spare */
    void *lattice;      /* scratch of unigram */
    size_t lattice_cap;
    bool seam;      /* the text continues other text: do not prepend a space */
    bool after_unk; /* the last id was an unknown token of the current word */
};
bool encoder_emit(struct encoder *en, int32_t id);
/* Emit an unknown character: its bytes, or the unknown token (fused with a preceding one). */
bool encoder_emit_unknown(struct encoder *en, const char *p, size_t n);

/* ---- added.c ---- */

/* Handler of the text between matches. An empty span is legal. */
typedef bool text_fn(struct encoder *en, struct span s);
bool added_split(struct encoder *en, const struct added *a, struct span s, text_fn *text);
bool added_build(struct tokenizer *t); /* both matchers; false: out of memory */
void added_deinit(struct added *a);

/* ---- alphabet.c: GPT-2's byte <-> character alphabet ---- */

void alphabet_add(struct buf *out, uint8_t byte); /* character of the byte, UTF-8 */
int alphabet_byte(uint32_t cp);                   /* -1: not in the alphabet */
/* Return false if a character is not in the alphabet. */
bool alphabet_decode(const char *p, size_t n, char *out, uint32_t *n_out);

/* ---- lines.c ---- */

/* Call `line` for every line of a file, without its end. Stops at the first result that is not
 * 0. */
typedef int line_fn(struct tokenizer *t, const char *p, size_t n, struct err *e);
int lines_read(struct tokenizer *t, const char *path, line_fn *line, struct err *e);

/* ---- readers ---- */

int gguf_vocab_read(struct tokenizer *t, const struct checkpoint *c, struct err *e);
int hf_json_read(struct tokenizer *t, const char *path, struct err *e); /* tokenizer.json */
const char *hf_type(const struct json *j);                              /* its "type", or "" */
int hf_steps_norm(struct tokenizer *t, const struct json *j, struct err *e);
int hf_steps_pretok(struct tokenizer *t, const struct json *j, struct err *e);
void hf_steps_decoder(struct tokenizer *t, const struct json *j);
/* Read tokenizer_config.json and generation_config.json in `dir`, if they exist. */
int hf_config_read(struct tokenizer *t, const char *dir, struct err *e);
int sentencepiece_read(struct tokenizer *t, const char *path, struct err *e);
int tiktoken_read(struct tokenizer *t, const char *path, const char *hint, struct err *e);
int plain_vocab_read(struct tokenizer *t, const char *path, const char *hint, struct err *e);
int llama2c_read(struct tokenizer *t, const char *path, struct err *e);

#endif
