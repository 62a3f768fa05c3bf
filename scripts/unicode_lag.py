#!/usr/bin/env python3
"""Print src/token/unicode_lag.def: the characters that Hugging Face's tokenizers class differently
from utf8proc.

The Unicode data of tokenizers is older (8 and 9), and published ids depend on that data. The script
needs the Python package `tokenizers` and libutf8proc."""
import ctypes
import ctypes.util

from tokenizers import normalizers, pre_tokenizers

utf8proc = ctypes.CDLL(ctypes.util.find_library("utf8proc") or "libutf8proc.so.2")
EVERY = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
MARKS, NONSPACING, PUNCTUATION = range(6, 9), range(6, 7), range(12, 19)  # utf8proc_category_t


def ours(categories):
    return {c for c in EVERY if utf8proc.utf8proc_category(c) in categories}


def removed_by(normalizer):
    return {c for c in EVERY if normalizer.normalize_str("a" + chr(c)) == "a"}


def split_off():
    split = pre_tokenizers.Punctuation("isolated").pre_tokenize_str
    ascii_symbols = set(b"$+<=>^`|~")
    return {c for c in EVERY if len(split("a%sa" % chr(c))) > 1} - ascii_symbols


def ranges(of, without):
    """Return the members of a set as ranges, which may also contain characters outside both
    sets."""
    out, open_range = [], False
    for c in sorted(of | without):
        if c in without:
            open_range = False
        elif open_range:
            out[-1][1] = c
        else:
            out.append([c, c])
            open_range = True
    return out


bert = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
print("""/* unicode_lag.def - characters that Hugging Face's tokenizers class otherwise than utf8proc, in hexadecimal, because their Unicode
 * data is older: IS_NOT(class, first, last), IS(class, first, last). Made by scripts/unicode_lag.py. */""")
for name, mine, theirs in (("MARK", ours(MARKS), removed_by(normalizers.StripAccents())), ("NONSPACING", ours(NONSPACING), removed_by(bert)),
                           ("PUNCT", ours(PUNCTUATION), split_off())):
    rows = ["IS_NOT(%s, %X, %X)" % (name, a, b) for a, b in ranges(mine - theirs, theirs)]
    rows += ["IS(%s, %X, %X)" % (name, a, b) for a, b in ranges(theirs - mine, mine)]
    for i in range(0, len(rows), 4):
        print(" ".join(rows[i:i + 4]))
