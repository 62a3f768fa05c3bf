#!/usr/bin/env python3
"""Write small tokenizer files of every kind, as seeds for the fuzzers, to
tests/fuzz/corpus/TARGET/."""
import base64, json, os, struct

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MARK = "\u2581"
ADDED = [{"id": 0, "content": "<unk>", "special": True}, {"id": 1, "content": "<s>", "special": True},
         {"id": 2, "content": "</s>", "special": True, "normalized": True},
         {"id": 60, "content": "<|im_end|>", "special": False, "lstrip": True, "rstrip": True, "single_word": True}]
TEMPLATE = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
CHARSMAP = struct.pack("<I", 24) + struct.pack("<6I", 1 << 10, 0, 0, 0, 0, 0) + b" \0a\0"


def write(target, name, data):
    folder = os.path.join(ROOT, "tests/fuzz/corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode())


# a "world" vocabulary of RWKV: bytes, and longer tokens, some of which end inside a character
WORLD = [bytes([b]) for b in range(256)] + [
    b"\n\n", b"  ", b"he", b"ll", b"hell", "\u65e5".encode(), b"\xe6\x97", b" \xe6", b"it's", b'"\'', b"\\n", "\u3000".encode(),
    "\xe9".encode(), b"a b c"]


def world():
    texts = []
    for i, t in enumerate(WORLD):
        try:
            texts.append("%d %r %d\n" % (i + 1, t.decode(), len(t)))
        except UnicodeDecodeError:
            texts.append("%d %r %d\n" % (i + 1, t, len(t)))
    return "".join(texts).encode()


def alphabet():
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in keep]
    return [chr(b) if b in keep else chr(0x100 + rest.index(b)) for b in range(256)]


def bytelevel():
    vocab = ["<unk>", "<s>", "</s>"] + [c for c in alphabet() if c not in "<>"][:250] + ["he", "ll", "Ġw", "hell"]
    return {"added_tokens": ADDED[:3], "normalizer": {"type": "NFC"}, "post_processor": TEMPLATE,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|[\\p{L}&&[^x]]+|[^(a[bc])]"}, "behavior": "Isolated"},
                {"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithNext", "invert": True},
                {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Contiguous"},
                {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}, {"type": "WhitespaceSplit"}]},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(vocab)}, "ignore_merges": True,
                      "merges": ["h e", "l l", ["Ġ", "w"], "he ll"]}}


def llama():
    vocab = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(30, 60)] + list("abcdehlo") + [MARK, "he", "ll", MARK + "he"]
    return {"added_tokens": ADDED, "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]},
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": MARK}, {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
                {"type": "Replace", "pattern": {"Regex": "x{2,}"}, "content": "x"}, {"type": "Strip"}]},
            "pre_tokenizer": None,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(vocab)}, "byte_fallback": True, "fuse_unk": True,
                      "unk_token": "<unk>", "merges": ["h e", "l l", MARK + " he"]}}


def unigram():
    vocab = [["<unk>", 0], ["<s>", 0], ["</s>", 0]] + [[c, -3.5 - i / 7] for i, c in enumerate("abcdefgh" + MARK)] + [[MARK + "ab", -2]]
    return {"added_tokens": ADDED[:3], "decoder": {"type": "Metaspace", "replacement": MARK, "add_prefix_space": True},
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Nmt"}, {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"},
                {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(CHARSMAP).decode()}]},
            "pre_tokenizer": {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": True},
            "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": False}}


def wordpiece():
    vocab = ["[UNK]", "[CLS]", "[SEP]", "he", "##llo", "w", "##o", "##r", "!", "1"]
    return {"added_tokens": [{"id": 1, "content": "[CLS]", "special": True}], "decoder": {"type": "WordPiece", "prefix": "##"},
            "normalizer": {"type": "BertNormalizer", "strip_accents": None}, "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {t: i for i, t in enumerate(vocab)}}}


def varint(v):
    out = b""
    while v >= 0x80:
        out += bytes([v & 0x7F | 0x80])
        v >>= 7
    return out + bytes([v])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (2 ** 64 - 1))
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece(kind):
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)] + [("<0x%02X>" % b, 0.0, 6) for b in range(20)]
    pieces += [(c, -float(i), 1) for i, c in enumerate([MARK, "a", "b", "h", "e", "l", MARK + "a", "he", "ab", "hel"])]
    pieces += [("<sep>", 0.0, 4), ("lab", -1.0, 5)]
    out = b"".join(field(1, field(1, t.encode()) + field(2, s) + field(3, k)) for t, s, k in pieces)
    out += field(2, field(3, kind) + field(35, 1) + field(40, 0) + field(41, 1) + field(42, 2))
    return out + field(3, field(1, b"x") + field(2, CHARSMAP) + field(3, 1) + field(4, kind - 1) + field(5, 1))


def gguf_value(v):
    text = lambda s: struct.pack("<Q", len(s.encode())) + s.encode()
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    kind = 8 if isinstance(v[0], str) else 6 if isinstance(v[0], float) else 5
    items = b"".join(text(x) if kind == 8 else struct.pack("<f" if kind == 6 else "<i", x) for x in v)
    return struct.pack("<IIQ", 9, kind, len(v)) + items


def gguf(model, tokens, kinds, **more):
    meta = {"general.architecture": "llama", "tokenizer.ggml.model": model, "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": kinds}
    meta.update({"tokenizer.ggml." + k: v for k, v in more.items()})
    body = b"".join(struct.pack("<Q", len(k)) + k.encode() + gguf_value(v) for k, v in meta.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(meta)) + body + b"\0" * 64


def ggufs():
    chars = alphabet()[33:120]
    yield "gpt2.gguf", gguf("gpt2", chars + ["he", "<|im_end|>"], [1] * (len(chars) + 1) + [3], merges=["h e"], pre="qwen2",
                            eos_token_id=len(chars) + 1)
    spm = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(20)] + [MARK, "a", "b", "ab", MARK + "ab", "<u>"]
    kinds = [2, 3, 3] + [6] * 20 + [1] * 5 + [4]
    yield "llama.gguf", gguf("llama", spm, kinds, scores=[-float(i) for i in range(len(spm))], bos_token_id=1, add_eos_token=True)
    yield "t5.gguf", gguf("t5", spm, kinds, scores=[-float(i) for i in range(len(spm))], precompiled_charsmap=list(CHARSMAP))
    yield "bert.gguf", gguf("bert", ["[UNK]", "[CLS]", "[SEP]", MARK + "he", "llo"], [2, 3, 3, 1, 1], unknown_token_id=0,
                            cls_token_id=1, seperator_token_id=2)
    world = ["<s>"] + [repr(t)[2:-1] for t in WORLD] + ["[PAD%d]" % i for i in range(3)]
    yield "rwkv.gguf", gguf("rwkv", world, [3] + [1] * len(WORLD) + [5] * 3, bos_token_id=0, eos_token_id=0,
                            eot_token_id=world.index("\\n\\n"))
    yield "gemma4.gguf", gguf("gemma4", spm, kinds, merges=["a b", MARK + " ab"], add_bos_token=True)


def main():
    for name, make in [("bytelevel", bytelevel), ("llama", llama), ("unigram", unigram), ("wordpiece", wordpiece)]:
        write("tokenizer_json", name + ".json", make())
    write("sentencepiece", "unigram.model", sentencepiece(1))
    write("sentencepiece", "bpe.model", sentencepiece(2))
    for name, data in ggufs():
        write("tokenizer_gguf", name, data)
    tokens = [bytes([b]) for b in range(256)] + [b"he", b"ll", b"hell", b"\xe2\x96", b"  "]
    ranks = b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens))
    write("tiktoken", "ranks.tiktoken", ranks)
    write("world", "rwkv_vocab_small.txt", world())
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % b for b in range(256)] + [b" ", b"a", b"b", b" a", b"ab", b" ab"]
    body = b"".join(struct.pack("<fi", -i, len(p)) + p for i, p in enumerate(pieces))
    write("tokenizer_bin", "tiny.bin", struct.pack("<i", 8) + body)


main()
