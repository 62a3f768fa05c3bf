/* alphabet.c - GPT-2's alphabet: every byte as one printable character.
 *
 * Bytes that are printable in Latin-1 map to themselves. The other 68 bytes map to U+0100 onwards,
 * in order. Vocabulary files of byte-level BPE spell their pieces in this alphabet. quoth converts
 * the pieces to bytes at open. */
#include "token_impl.h"
#include "base/utf8.h"

static bool is_identity(unsigned b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

/* Return the index of b among the unprintable bytes: 0-0x20, 0x7F-0xA0, 0xAD. */
static unsigned shifted_index(unsigned b)
{
    return b <= 0x20 ? b : b <= 0xA0 ? b - 0x7F + 0x21 : 0x43;
}

static unsigned shifted_byte(unsigned index)
{
    return index <= 0x20 ? index : index < 0x43 ? index - 0x21 + 0x7F : 0xAD;
}

void alphabet_add(struct buf *out, uint8_t byte)
{
    buf_add_utf8(out, is_identity(byte) ? byte : 0x100 + shifted_index(byte));
}

int alphabet_byte(uint32_t cp)
{
    if (cp < 0x100) return is_identity(cp) ? (int)cp : -1;
    return cp <= 0x143 ? (int)shifted_byte(cp - 0x100) : -1;
}

bool alphabet_decode(const char *p, size_t n, char *out, uint32_t *n_out)
{
    uint32_t n_done = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp = (uint8_t)p[i];
        /* most characters are printable ASCII: without this case, a file with 128,256 tokens opens
         * with 7 % more instructions */
        i += cp < 0x80 ? 1 : (size_t)uni_next(p + i, n - i, &cp);
        const int b = cp >= 0x21 && cp <= 0x7E ? (int)cp : alphabet_byte(cp);
        if (b < 0) return false;
        out[n_done++] = (char)b;
    }
    *n_out = n_done;
    return true;
}
