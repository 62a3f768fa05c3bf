/* token.c - creation and release of a tokenizer, tables derived from its pieces, and accessors.
 *
 * A reader adds pieces, merges and steps to an empty struct tokenizer. tokenizer_finish derives:
 *   bytes      bytes of each piece (its text, decoded from the file's alphabet)
 *   find       text -> id
 *   eog ids that end a generation: those in the file, and those of well-known texts (eog.def)
 *   matchers   added tokens (added.c); the kind's own tables (kind->build) */
#include "token_impl.h"

#include "base/check.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* Set all special ids to -1, for ids that a file does not set. */
struct tokenizer *tokenizer_open_empty(void)
{
    struct tokenizer *t = calloc(1, sizeof *t);
    if (t) t->bos = t->eos = t->unk = -1;
    return t;
}

/* Free the kind's model first. Free the arena last, because it contains the texts of pieces. */
void tokenizer_close(struct tokenizer *t)
{
    if (!t) return;
    if (t->kind) t->kind->close(t);
    for (size_t i = 0; i < t->norm.n; i++) {
        regex_close(t->norm.v[i].regex);
        if (t->norm.v[i].verbatim) trie_deinit(t->norm.v[i].verbatim);
        free(t->norm.v[i].verbatim);
    }
    for (size_t i = 0; i < t->pretok.n; i++) regex_close(t->pretok.v[i].regex);
    vec_deinit(&t->norm);
    vec_deinit(&t->pretok);
    vec_deinit(&t->merge);
    added_deinit(&t->raw);
    added_deinit(&t->normalized);
    strmap_deinit(&t->find);
    free(t->piece);
    arena_deinit(&t->arena);
    free(t);
}

/* Store a piece. Ids have any order, and may have gaps. A gap is a piece of kind 0, which no text
 * contains. `text` is copied. */
int tokenizer_put(struct tokenizer *t, size_t id, const char *text, size_t n, enum piece_kind kind,
                  double score, struct err *e)
{
    if (id >= PIECES_MAX)
        return err_set(e, ERR_LIMIT, "token id: must be at most %d, got %zu", PIECES_MAX, id);
    if (n > INT32_MAX)
        return err_set(e, ERR_LIMIT, "token %zu: must have at most %d bytes, got %zu", id,
                       INT32_MAX, n);
    char *copy = arena_text(&t->arena, text, n);
    if (!copy || !vec_room((void **)&t->piece, &t->piece_cap, id + 1, sizeof *t->piece))
        return err_memory(e, "a vocabulary", id);
    if (id >= t->n_piece) {
        memset(t->piece + t->n_piece, 0, (id + 1 - t->n_piece) * sizeof *t->piece);
        for (size_t i = t->n_piece; i < id; i++) t->piece[i].text = "";
        t->n_piece = id + 1;
    }
    t->piece[id] = (struct piece){.text = copy,
                                  .n_text = (uint32_t)n,
                                  .score = score,
                                  .kind = (uint8_t)kind,
                                  .special = kind == PIECE_CONTROL || kind == PIECE_UNKNOWN};
    return 0;
}

bool tokenizer_put_merge(struct tokenizer *t, const char *left, size_t n_left, const char *right,
                         size_t n_right)
{
    if (n_left > INT32_MAX || n_right > INT32_MAX) return true;
    struct merge_text m = {.n_left = (uint32_t)n_left, .n_right = (uint32_t)n_right};
    m.left = arena_text(&t->arena, left, n_left);
    m.right = arena_text(&t->arena, right, n_right);
    return m.left && m.right && vec_push(&t->merge, m);
}

/* Split a line at its blank. The search begins at the second byte, because the first byte may be a
 * blank. A malformed line is skipped, as in llama.cpp. Return false if memory is exhausted. */
bool tokenizer_put_merge_line(struct tokenizer *t, const char *line, size_t n)
{
    const char *space = n > 1 ? memchr(line + 1, ' ', n - 1) : NULL;
    if (!space) return true;
    size_t n_left = (size_t)(space - line);
    return tokenizer_put_merge(t, line, n_left, space + 1, n - n_left - 1);
}

/* Index the pieces by text. A look-up returns the later id if two pieces have the same text. */
bool tokenizer_index(struct tokenizer *t)
{
    strmap_deinit(&t->find);
    if (!strmap_reserve(&t->find, t->n_piece)) return false;
    for (size_t id = 0; id < t->n_piece; id++) {
        const struct piece *p = &t->piece[id];
        if (p->kind && !strmap_put(&t->find, p->text, p->n_text, (uint32_t)id)) return false;
    }
    return true;
}

int tokenizer_check_search(const struct tokenizer *t, size_t id, struct err *e)
{
    const uint32_t n = t->piece[id].n_text;
    if (n <= PIECE_SEARCH_BYTES_MAX) return 0;
    return err_set(e, ERR_LIMIT, "token %zu: must have at most %d bytes, got %u", id,
                   PIECE_SEARCH_BYTES_MAX, (unsigned)n);
}

/* ---- bytes of pieces ---- */

/* Return the byte of a piece of the form "<0x0A>"; -1 if the piece has another form. */
static int byte_piece(const struct piece *p)
{
    if (p->n_text != 6 || memcmp(p->text, "<0x", 3) != 0 || p->text[5] != '>') return -1;
    int hi = hex_digit(p->text[3]), lo = hex_digit(p->text[4]);
    return hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
}

/* Set the bytes of a piece to its text, with a blank for each "▁". The result is never longer than
 * the text. */
static bool marks_to_spaces(struct arena *a, struct piece *p)
{
    char *out = arena_text(a, p->text, p->n_text);
    if (!out) return false;
    p->bytes = out;
    for (size_t i = 0; i < p->n_text;) {
        bool mark = p->n_text - i >= SPACE_MARK_BYTES &&
                    memcmp(p->text + i, SPACE_MARK, SPACE_MARK_BYTES) == 0;
        *out++ = mark ? ' ' : p->text[i];
        i += mark ? SPACE_MARK_BYTES : 1;
    }
    p->n_byte = (uint32_t)(out - p->bytes);
    return true;
}

/* Decode GPT-2's alphabet. A piece with other characters keeps its text as bytes. */
static bool alphabet_to_bytes(struct arena *a, struct piece *p)
{
    char *out = arena_text(a, p->text, p->n_text);
    uint32_t n;
    if (!out) return false;
    /* keep the bytes as spelled */
    if (!alphabet_decode(p->text, p->n_text, out, &n)) return true;
    p->bytes = out;
    p->n_byte = n;
    return true;
}

/* Replace " ." by ".", as Hugging Face's decoder does for each token. */
static void tidy_word(char *text, size_t *n)
{
    static const char *const from[] = {" .",  " ?",      " !",  " ,",   " ' ", " n't",
                                       " 'm", " do not", " 's", " 've", " 're"};
    static const char *const to[] = {".",  "?",      "!",  ",",   "'",  "n't",
                                     "'m", " don't", "'s", "'ve", "'re"};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        size_t n_from = strlen(from[i]), n_to = strlen(to[i]);
        for (char *hit = text;
             (hit = memmem(hit, *n - (size_t)(hit - text), from[i], n_from)) != NULL; hit += n_to) {
            memcpy(hit, to[i], n_to);
            memmove(hit + n_to, hit + n_from, *n - (size_t)(hit - text) - n_from);
            *n -= n_from - n_to;
        }
    }
}

/* Set the bytes of a wordpiece. The bytes include a leading space if the piece begins a word. */
static bool word_to_bytes(const struct tokenizer *t, struct arena *a, struct piece *p)
{
    const char *word = t->opt.word_prefix, *inner = t->opt.inner_prefix;
    const char *text = p->text;
    size_t n = p->n_text, cut = strlen(word ? word : inner);
    bool marked = n >= cut && memcmp(text, word ? word : inner, cut) == 0;
    bool begins = word ? marked : !marked;
    if (marked) text += cut, n -= cut;
    char *out = arena_push(a, n + 2, 1);
    if (!out) return false;
    out[0] = ' ';
    memcpy(out + begins, text, n);
    n += begins;
    if (t->opt.word_cleanup) tidy_word(out, &n);
    p->bytes = out;
    p->n_byte = (uint32_t)n;
    return true;
}

/* Set the bytes of an added token that merging also produces. They are the bytes of the piece in
 * the vocabulary. */
static bool listed_to_bytes(struct tokenizer *t, struct piece *p)
{
    if (!alphabet_to_bytes(&t->arena, p)) return false;
    p->spelled = p->n_byte != p->n_text || memcmp(p->bytes, p->text, p->n_byte) != 0;
    t->any_spelled |= p->spelled;
    return true;
}

/* Set the bytes of a piece outside the byte alphabet. */
static bool spell_bytes(struct tokenizer *t, struct piece *p)
{
    p->bytes = p->text;
    p->n_byte = p->n_text;
    if (t->opt.word_prefix || t->opt.inner_prefix) return word_to_bytes(t, &t->arena, p);
    return !t->opt.space_mark || marks_to_spaces(&t->arena, p);
}

/* Set the bytes of a piece. The order of the cases: byte pieces, listed added tokens, special
 * tokens (their text), then the spelling of the kind. */
static bool derive_bytes(struct tokenizer *t, size_t id)
{
    struct piece *p = &t->piece[id];
    p->bytes = p->text;
    p->n_byte = p->n_text;
    int byte = p->kind == PIECE_BYTE || t->opt.byte_fallback ? byte_piece(p) : -1;
    if (byte >= 0) {
        char c = (char)byte;
        p->bytes = arena_text(&t->arena, &c, 1);
        p->n_byte = 1;
        t->byte_id[byte] = (int32_t)id;
        return p->bytes != NULL;
    }
    if (t->opt.byte_level && p->listed) return listed_to_bytes(t, p);
    if (p->kind == PIECE_CONTROL || p->kind == PIECE_UNKNOWN || p->kind == 0) {
        return true;
    }
    if (t->opt.byte_level) return p->kind == PIECE_USER || alphabet_to_bytes(&t->arena, p);
    return spell_bytes(t, p);
}

/* Map a byte to the added token that is its character if the byte has no other piece. Skip bytes
 * that never occur in UTF-8, because their token stands only for the character (deepseek's "ö"). */
static bool find_listed_bytes(struct tokenizer *t)
{
    struct buf text = {0};
    bool ok = true;
    for (int b = 0; b < 0xF5 && ok && t->opt.byte_level; b++) {
        if (t->byte_id[b] >= 0 || b == 0xC0 || b == 0xC1) continue;
        buf_clear(&text);
        alphabet_add(&text, (uint8_t)b);
        const uint32_t *id = text.failed ? NULL : strmap_get(&t->find, text.data, text.n);
        ok = !text.failed;
        if (!id || !t->piece[*id].match) continue;
        t->piece[*id].listed = true;
        t->byte_id[b] = (int32_t)*id;
        ok = derive_bytes(t, *id);
    }
    buf_deinit(&text);
    return ok;
}

/* Set the bytes of all pieces, and byte_id. byte_id is -1 for a byte without a piece. Only
 * single-byte pieces of a byte-level vocabulary, and byte pieces, are entered. */
static bool derive_all_bytes(struct tokenizer *t)
{
    memset(t->byte_id, 0xFF, sizeof t->byte_id);
    for (size_t id = 0; id < t->n_piece; id++) {
        if (!derive_bytes(t, id)) return false;
        const struct piece *p = &t->piece[id];
        bool single =
            (t->opt.byte_level || t->opt.raw_bytes) && p->kind == PIECE_NORMAL && p->n_byte == 1;
        if (single) t->byte_id[(uint8_t)p->bytes[0]] = (int32_t)id;
    }
    return find_listed_bytes(t);
}

/* Set the bytes of an added token that matches in normalized text to its own normalized text. Set
 * *too_long if a normalized text exceeds its limit. */
static bool normalize_added_bytes(struct tokenizer *t, bool *too_long)
{
    struct buf out = {0}, spare = {0};
    bool ok = true;
    for (size_t id = 0; id < t->n_piece && ok && t->norm.n; id++) {
        struct piece *p = &t->piece[id];
        if (!(p->match & MATCH_NORMALIZED) || p->special || p->listed) continue;
        if (p->n_text > ADDED_BYTES_MAX) continue;
        ok = normalize(t, p->text, p->n_text, false, &out, &spare);
        struct piece as = {.text = arena_text(&t->arena, out.n ? out.data : "", out.n),
                           .n_text = (uint32_t)out.n};
        ok = ok && as.text && spell_bytes(t, &as);
        p->bytes = as.bytes;
        p->n_byte = as.n_byte;
    }
    *too_long = out.limited || spare.limited;
    buf_deinit(&out);
    buf_deinit(&spare);
    return ok;
}

/* ---- end-of-generation tokens ---- */

/* Search all pieces, because a reader calls the function before the index exists. -1 if not
 * found. */
int32_t tokenizer_scan(const struct tokenizer *t, const char *text)
{
    size_t n = strlen(text);
    for (size_t id = 0; id < t->n_piece; id++)
        if (t->piece[id].n_text == n && memcmp(t->piece[id].text, text, n) == 0) return (int32_t)id;
    return -1;
}

/* Ignore ids out of range, because files list ids of other vocabularies. */
void tokenizer_mark_end(struct tokenizer *t, int64_t id, enum end from)
{
    static const bool explicit[N_END] = {
#define END(name, explicit, text) [END_##name] = explicit,
#include "token/ends.def"
#undef END
    };
    t->ends_listed |= id >= 0 && explicit[from];
    if (id >= 0 && (uint64_t)id < t->n_piece) t->piece[id].ends |= (uint16_t)(1u << from);
}

/* Return the special token with this text; NULL if none. */
static struct piece *special_piece(struct tokenizer *t, const char *text)
{
    const uint32_t *id = strmap_get(&t->find, text, strlen(text));
    return id && t->piece[*id].special ? &t->piece[*id] : NULL;
}

/* Return the piece with row i of eog.def if it can end a text; NULL if none. *text: the row. */
static struct piece *known_end(struct tokenizer *t, size_t i, const char **text)
{
    static const char *const row[] = {
#define EOG(s) s,
#include "token/eog.def"
#undef EOG
        NULL,
    };
    *text = row[i];
    const uint32_t *id = *text ? strmap_get(&t->find, *text, strlen(*text)) : NULL;
    struct piece *p = id ? &t->piece[*id] : NULL;
    if (!p) return NULL;
    /* true also for <|im_end|>, which some files mark as user-defined */
    const bool added = p->match && (*text)[1] == '|';
    /* in harmony (gpt-oss) <|end|> ends a message, but the turn continues */
    const bool message = strcmp(*text, "<|end|>") == 0 && special_piece(t, "<|return|>") &&
                         special_piece(t, "<|call|>");
    return (p->special || added) && !message ? p : NULL;
}

/* Mark the vocabulary's EOS. Mark the known texts of eog.def if no file lists the ends, as
 * llama.cpp does for GGUF files, because families end turns, messages and calls with different
 * tokens. Folders list their ends, and the reference ignores other tokens. */
static void derive_ends(struct tokenizer *t)
{
    const char *text;
    if (t->eos >= 0 && t->piece[t->eos].ends == 0) tokenizer_mark_end(t, t->eos, END_VOCABULARY);
    for (size_t i = 0; !t->ends_listed; i++) {
        struct piece *p = known_end(t, i, &text);
        if (!text) break;
        if (p) p->ends |= 1 << END_KNOWN;
    }
}

/* A chat's answer would never end if its template closes turns with a token that no file names:
 * folders without generation_config.json often name only the end of a document. */
void tokenizer_mark_turns(struct tokenizer *t, const char *source, size_t n)
{
    const char *text;
    for (size_t i = 0;; i++) {
        struct piece *p = known_end(t, i, &text);
        if (!text) break;
        if (p && p->ends == 0 && memmem(source, n, text, strlen(text)))
            p->ends |= 1 << END_TEMPLATE;
    }
}

/* Return true if the id has a piece, not a gap. */
static bool in_vocabulary(const struct tokenizer *t, int64_t id)
{
    return id >= 0 && (uint64_t)id < t->n_piece && t->piece[id].kind != 0;
}

/* Drop ids without a piece, so that no later function needs a check. */
static void check_ids(struct tokenizer *t)
{
    int32_t *one[] = {&t->bos, &t->eos, &t->unk};
    for (size_t i = 0; i < 3; i++)
        if (!in_vocabulary(t, *one[i])) *one[i] = -1;
    int k = 0;
    for (int i = 0; i < t->n_prefix; i++)
        if (in_vocabulary(t, t->prefix[i])) t->prefix[k++] = t->prefix[i];
    t->n_prefix = k;
    k = 0;
    for (int i = 0; i < t->n_suffix; i++)
        if (in_vocabulary(t, t->suffix[i])) t->suffix[k++] = t->suffix[i];
    t->n_suffix = k;
    k = 0;
    for (int i = 0; i < t->n_between; i++)
        if (in_vocabulary(t, t->between[i])) t->between[k++] = t->between[i];
    t->n_between = k;
}

/* Make the tables in the order of their dependencies. Bytes need the index (find_listed_bytes), and
 * matchers need the bytes of normalized added tokens. Free the merges at the end, because the kind
 * has its own table. */
int tokenizer_finish(struct tokenizer *t, struct err *e)
{
    if (t->n_piece == 0)
        return err_set(e, ERR_FORMAT, "the vocabulary: must have at least 1 token, got 0");
    check_ids(t);
    bool too_long = false;
    if (!tokenizer_index(t) || !derive_all_bytes(t) || !normalize_added_bytes(t, &too_long) ||
        !added_build(t))
        return too_long ? err_set(e, ERR_LIMIT, "the normalizer makes an added token too long")
                        : err_memory(e, "a vocabulary", t->n_piece);
    derive_ends(t);
    int rc = t->kind->build(t, e);
    vec_deinit(&t->merge);
    return rc;
}

/* ---- accessors ---- */

/* Return NULL for an id out of range, because ids may come from clients. */
static const struct piece *piece_at(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->n_piece ? &t->piece[id] : NULL;
}

/* Include gaps, so that all ids are below the result. */
int tokenizer_n_vocab(const struct tokenizer *t)
{
    return (int)t->n_piece;
}

/* Return bytes borrowed from the tokenizer, which may contain NULs. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *n)
{
    const struct piece *p = piece_at(t, id);
    *n = p ? p->n_byte : 0;
    return p ? p->bytes : "";
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n)
{
    const struct piece *p = piece_at(t, id);
    *n = p ? p->n_text : 0;
    return p ? p->text : "";
}

/* Find a text in the spelling of the file, for example "Ġhello". */
int32_t tokenizer_find(const struct tokenizer *t, const char *piece, size_t n)
{
    const uint32_t *id = strmap_get(&t->find, piece, n);
    return id ? (int32_t)*id : -1;
}

int32_t tokenizer_fim(const struct tokenizer *t, enum fim which)
{
    static const struct {
        enum fim which;
        const char *text; /* static */
    } row[] = {
#define FIM(kind, text) {FIM_##kind, text},
#include "fim.def"
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const int32_t id = tokenizer_find(t, row[i].text, strlen(row[i].text));
        if (row[i].which == which && id >= 0) return id;
    }
    return -1;
}

bool tokenizer_fim_suffix_first(const struct tokenizer *t)
{
    const int32_t id = tokenizer_find(t, "[PREFIX]", strlen("[PREFIX]"));
    return id >= 0 && id == tokenizer_fim(t, FIM_PREFIX);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    const struct piece *p = piece_at(t, id);
    return p && p->special;
}

bool tokenizer_joins(const struct tokenizer *t)
{
    return t->opt.join_pieces;
}

bool tokenizer_is_eog(const struct tokenizer *t, int32_t id)
{
    const struct piece *p = piece_at(t, id);
    return p && p->ends;
}

void tokenizer_put_ends(const struct tokenizer *t, int32_t id, struct buf *out)
{
    static const char *const text[N_END] = {
#define END(name, explicit, text) [END_##name] = text,
#include "token/ends.def"
#undef END
    };
    const struct piece *p = piece_at(t, id);
    for (int i = 0, n = 0; p && i < N_END; i++)
        if (p->ends & (1 << i)) buf_addf(out, "%s%s", n++ ? "; " : "", text[i]);
}

/* Allocate space for one additional id, so that an empty list is not NULL. */
int32_t *tokenizer_eog_detach(const struct tokenizer *t, int n_vocab, int *n)
{
    CHECK(n_vocab >= 0, "%d tokens", n_vocab);
    int n_token = t ? tokenizer_n_vocab(t) : 0;
    *n = 0;
    for (int id = 0; id < n_token && id < n_vocab; id++) *n += tokenizer_is_eog(t, id);
    int32_t *list = calloc((size_t)*n + 1, sizeof *list);
    int i = 0;
    for (int id = 0; list && i < *n; id++)
        if (tokenizer_is_eog(t, id)) list[i++] = id;
    return list;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}

int32_t tokenizer_unk(const struct tokenizer *t)
{
    return t->unk;
}

/* Return true only if the first added id is BOS. */
bool tokenizer_adds_bos(const struct tokenizer *t)
{
    return t->bos >= 0 && t->n_prefix > 0 && t->prefix[0] == t->bos;
}

const char *tokenizer_kind(const struct tokenizer *t)
{
    return t->kind->name;
}
