/* dummy_vocab.c - the tokenizer of a model without one: byte-level BPE with a single merge, padded
 * to the model's vocabulary.
 *
 *   [0, 255]    the bytes, spelled in GPT-2's alphabet
 *   256         <|endoftext|>, which starts and ends a text
 *   257         two spaces, the merge (some readers reject an empty list)
 *   258 on      " 258" and so on: readable output of a random model
 *
 * A smaller vocabulary contains the first tokens of this list, and ends with <|endoftext|>.
 * llama.cpp and related programs also read the vocabulary. These programs require the
 * pre-tokenizer's name, a type per token, a list of merges and distinct spellings. */
#include "format_impl.h"

#include <stdio.h>
#include <string.h>

enum { NORMAL = 1, CONTROL = 3 }; /* token types of GGUF */
enum { END = 256, PAIR };
#define SPACE "\xC4\xA0" /* U+0120: a blank in GPT-2's alphabet */

/* Write the character of a byte in GPT-2's alphabet as UTF-8, and return its length. Printable
 * bytes map to themselves. All other bytes map to the code points from U+0100. */
static size_t spell_byte(char out[4], unsigned byte)
{
    unsigned code = byte;
    if (byte <= 0x20)
        code = 0x100 + byte;
    else if (byte >= 0x7F && byte <= 0xA0)
        code = 0x121 + byte - 0x7F;
    else if (byte == 0xAD)
        code = 0x143;
    if (code < 0x80) return out[0] = (char)code, 1;
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3F));
    return 2;
}

/* Write the spelling of a token and return its length. All spellings are distinct. */
static size_t token_text(char out[24], int id, int end)
{
    if (id == end) return (size_t)snprintf(out, 24, "<|endoftext|>");
    if (id < 256) return spell_byte(out, (unsigned)id);
    if (id == PAIR) return (size_t)snprintf(out, 24, SPACE SPACE);
    return (size_t)snprintf(out, 24, SPACE "%d", id);
}

static bool fill_vocab(struct checkpoint *c, struct text_slice *token, int32_t *type, int n_vocab,
                       int end)
{
    for (int id = 0; id < n_vocab; id++) {
        char text[24];
        size_t n = token_text(text, id, end);
        token[id] = (struct text_slice){arena_text(&c->arena, text, n), n};
        type[id] = id == end ? CONTROL : NORMAL;
        if (!token[id].text) return false;
    }
    return true;
}

int dummy_vocab(struct checkpoint *c, int n_vocab, struct err *e)
{
    static const struct text_slice merge = {SPACE " " SPACE, sizeof SPACE " " SPACE - 1};
    int end = n_vocab > END ? END : n_vocab - 1;
    struct text_slice *token = arena_push0(&c->arena, (size_t)n_vocab, sizeof *token);
    int32_t *type = arena_push0(&c->arena, (size_t)n_vocab, sizeof *type);
    if (!token || !type || !fill_vocab(c, token, type, n_vocab, end))
        return err_memory(e, "a vocabulary", (unsigned long long)n_vocab * sizeof *token);
    size_t n = (size_t)n_vocab;
    struct meta tokens = {VT_LIST, VT_TEXT, token, n}, types = {VT_LIST, VT_I32, type, n},
                merges = {VT_LIST, VT_TEXT, &merge, n_vocab > PAIR};
    int rc = checkpoint_add_text(c, "tokenizer.ggml.model", "gpt2", 4, e);
    if (rc == 0) rc = checkpoint_add_text(c, "tokenizer.ggml.pre", "gpt-2", 5, e);
    if (rc == 0) rc = checkpoint_add_meta(c, "tokenizer.ggml.tokens", &tokens, e);
    if (rc == 0) rc = checkpoint_add_meta(c, "tokenizer.ggml.token_type", &types, e);
    if (rc == 0) rc = checkpoint_add_meta(c, "tokenizer.ggml.merges", &merges, e);
    if (rc == 0 && !checkpoint_meta(c, "tokenizer.ggml.bos_token_id"))
        rc = checkpoint_add_u32(c, "tokenizer.ggml.bos_token_id", (uint32_t)end, e);
    return rc ? rc : checkpoint_add_u32(c, "tokenizer.ggml.eos_token_id", (uint32_t)end, e);
}
