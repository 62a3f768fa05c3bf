#!/usr/bin/env python3
"""Compute ids by the original implementations, as hashes, for src/token/oracle_test.c.

    tests/token_oracle.py [DATA] [VOCABULARY ...]     writes tests/golden/token_oracle.json

The script encodes the corpora in DATA (default ../shared/data) with tiktoken, sentencepiece, rwkv
and Hugging Face tokenizers, for every vocabulary in DATA. The result has, per corpus, the number of ids
and their FNV-1a hash. Each id is a 32-bit step, and a step of 0xFFFFFFFF follows each text.
Required packages: tiktoken, sentencepiece, tokenizers, gguf, rwkv. The script downloads nothing. The
vocabulary of the added-tokens sample has four pieces. Hugging Face then puts a fused unknown token
after the following byte tokens. Only the naughty strings are encoded with that vocabulary. Mode 0
is text alone. Mode 3 parses special tokens and adds BOS / EOS, like quoth's ENCODE_ flags. """
import base64, glob, json, os, re, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "../shared/data")
ONLY = sys.argv[2:]
OUT = os.path.join(ROOT, "tests/golden/token_oracle.json")


def data(path):
    return os.path.join(DATA, path)


def read(path):
    with open(data(path), encoding="utf-8", newline="") as f:
        return f.read()


def corpora():
    udhr = sorted(glob.glob(data("text/udhr/*.html")))
    return {
        "wikitext-test": [read("text/wikitext-2/test.txt")],
        "wikitext-valid": [read("text/wikitext-2/valid.txt")],
        "declarations": [open(p, encoding="utf-8", newline="").read() for p in udhr],
        "naughty": json.load(open(data("text/unicode/blns.json"), encoding="utf-8")),
    }


def fnv(h, ids):
    for i in ids:
        h = ((h ^ (i & 0xFFFFFFFF)) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def summary(encode, texts):
    h, n = 0xCBF29CE484222325, 0
    for text in texts:
        ids = encode(text)
        n += len(ids)
        h = fnv(fnv(h, ids), [-1])
    return {"n": n, "hash": "%016x" % h}


# ---- tiktoken ----

def ranks(path):
    out = {}
    for line in open(data(path), "rb"):
        if line.strip():
            token, rank = line.split()
            out[base64.b64decode(token)] = int(rank)
    return out


def tiktoken_encoder(path, name):
    import tiktoken
    import tiktoken_ext.openai_public as public
    mine = {
        "llama-3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                   r"|\s*[\r\n]+|\s+(?!\S)|\s+",
        "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                 r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    }
    if name in mine:
        pattern = mine[name]
    else:
        public.load_tiktoken_bpe = lambda *a, **k: {}
        pattern = getattr(public, name + "_base")()["pat_str"]
    enc = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks(path), special_tokens={})
    return enc.encode_ordinary


# ---- sentencepiece ----

def sentencepiece_encoder(path):
    import sentencepiece
    sp = sentencepiece.SentencePieceProcessor(model_file=data(path))
    return sp.encode_as_ids


def by_line(texts):
    """Encode line by line. sentencepiece keeps Unigram sums in single precision, so ties in texts
    of a megabyte may differ from quoth's."""
    return [line for text in texts for line in text.split("\n")]


# ---- Hugging Face ----

def hf_encoder(tok, mode):
    tok.no_truncation()
    tok.no_padding()
    tok.encode_special_tokens = mode == 0
    return lambda text: tok.encode(text, add_special_tokens=mode == 3).ids


def hf_file(path):
    from tokenizers import Tokenizer
    j = json.load(open(data(path), encoding="utf-8"))
    merges = j["model"].get("merges")
    if merges == {}:  # the added-tokens sample has {} for an empty list
        j["model"]["merges"] = merges = []
    # llama2's copy has lost its no-break spaces, so three of its lines are not pairs
    if merges and isinstance(merges[0], str):
        j["model"]["merges"] = [m for m in merges if len(m.split(" ")) == 2]
    return Tokenizer.from_str(json.dumps(j))


def hf_gpt2():
    from tokenizers import Tokenizer, models, pre_tokenizers
    tok = Tokenizer(models.BPE.from_file(data("tokenizers/gpt2/encoder.json"), data("tokenizers/gpt2/merges.txt")))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tok


def family_patterns(name):
    """Return the patterns of one family of src/token/pretok.def, with its macros expanded by the C
    preprocessor."""
    import subprocess
    source = os.path.join(ROOT, "src/token/pretok.def")
    text = "#define DIGITS_FROM_RIGHT 0\n#define DIGITS_TO_BOUNDARY 0\n" + open(source, encoding="utf-8").read()
    out = subprocess.run(["cc", "-E", "-P", "-"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()
    call = re.search(r'FAMILY\("%s",(.*?)\)\s*(?=FAMILY\(|$)' % re.escape(name), out, re.S).group(1)
    string = r'"(?:[^"\\]|\\.)*"'
    groups = re.findall(r"%s(?:\s*%s)*" % (string, string), call)
    unescape = lambda s: re.sub(r"\\([nrt\\\"])", lambda m: {"n": "\n", "r": "\r", "t": "\t"}.get(m[1], m[1]), s)
    return ["".join(unescape(s[1:-1]) for s in re.findall(string, g)) for g in groups]


def hf_gguf(path):
    """Rebuild a GGUF's byte-level BPE from the pieces, merges and family in the file."""
    from gguf import GGUFReader
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers
    fields = GGUFReader(data(path)).fields
    value = lambda key: fields["tokenizer.ggml." + key].contents() if "tokenizer.ggml." + key in fields else None
    tokens, kinds, pre = value("tokens"), value("token_type"), value("pre") or "default"
    merges = [tuple(m.split(" ", 1)) if m[0] != " " else (" ", m[2:]) for m in value("merges")]
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in family_patterns(pre)]
    tok.pre_tokenizer = pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.add_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, kinds) if k == 4])
    return tok


def rwkv_encoder(path):
    from rwkv.rwkv_tokenizer import TRIE_TOKENIZER

    return TRIE_TOKENIZER(data(path)).encode


VOCAB = "tokenizers/llama.cpp-vocab/ggml-vocab-%s.gguf"


def vocabularies():
    """Return name -> (path, hint, mode, encoder maker)."""
    out = {}
    for name, path in [("cl100k", "tiktoken/cl100k_base"), ("o200k", "tiktoken/o200k_base"), ("p50k", "tiktoken/p50k_base"),
                       ("r50k", "tiktoken/r50k_base"), ("qwen2", "qwen/qwen")]:
        path = "tokenizers/%s.tiktoken" % path
        out["tiktoken " + name] = (path, name, 0, lambda p=path, n=name: tiktoken_encoder(p, n))
    llama3 = "tokenizers/llama3/tokenizer.model"
    out["tiktoken llama-3"] = (llama3, "llama-3", 0, lambda: tiktoken_encoder(llama3, "llama-3"))
    for path in ["tokenizers/sentencepiece/test_model.model", "tokenizers/sentencepiece/test_ja_model.model",
                 "tokenizers/sentencepiece/grok-1_tokenizer.model", "weights/stories260K/llama2_tokenizer.model"]:
        out["sentencepiece " + path.split("/")[-1]] = (path, "", 0, lambda p=path: sentencepiece_encoder(p))
    for path in ["tokenizers/hf/llama2", "tokenizers/hf/phi-3-mini", "tokenizers/hf/t5-small", "tokenizers/hf/added-tokens",
                 "tokenizers/hf/model2vec-wordpiece", "weights/model2vec/test-model-float32",
                 "weights/model2vec/test-model-vocab-quantized"]:
        file = path + "/tokenizer.json"
        out["hf " + path.split("/")[-1]] = (file, "", 0, lambda f=file: hf_encoder(hf_file(f), 0))
        # its tokenizer_config.json adds a BOS that tokenizer.json lacks
        if "added-tokens" not in path:
            out["hf %s, special" % path.split("/")[-1]] = (file, "", 3, lambda f=file: hf_encoder(hf_file(f), 3))
    neox = "tokenizers/rwkv/20B_tokenizer.json"
    out["hf 20B"] = (neox, "", 0, lambda: hf_encoder(hf_file(neox), 0))
    out["hf gpt2"] = ("tokenizers/gpt2/encoder.json", "", 0, lambda: hf_encoder(hf_gpt2(), 0))
    llama2 = "weights/stories260K/llama2_tokenizer.model"
    for path in [VOCAB % "llama-spm", "weights/gguf/gridcore-vocab/vocab-spm-zeroscores.gguf"]:
        out["gguf " + path.split("-")[-1][:-5]] = (path, "", 0, lambda: sentencepiece_encoder(llama2))
    phi = "tokenizers/hf/phi-3-mini/tokenizer.json"
    out["gguf phi-3"] = (VOCAB % "phi-3", "", 0, lambda: hf_encoder(hf_file(phi), 0))
    for name in ["deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "mpt", "refact", "stablelm", "starcoder"]:
        out["gguf " + name] = (VOCAB % name, "", 0, lambda p=VOCAB % name: hf_encoder(hf_gguf(p), 0))
    for name in ["gpt4o", "llama3", "qwen2", "qwen35", "smollm"]:
        path = "weights/gguf/gridcore-vocab/vocab-bpe-%s.gguf" % name
        out["gguf gridcore " + name] = (path, "", 0, lambda p=path: hf_encoder(hf_gguf(p), 0))
    world = "tokenizers/rwkv/rwkv_vocab_v20230424.txt"
    out["rwkv world"] = (world, "", 0, lambda: rwkv_encoder(world))
    out["gguf bert-bge"] = (VOCAB % "bert-bge", "", 0,
                            lambda: hf_encoder(hf_file("tokenizers/hf/model2vec-wordpiece/tokenizer.json"), 0))
    return out


def main():
    texts = corpora()
    result = json.load(open(OUT)) if ONLY and os.path.exists(OUT) else {}
    for name, (path, hint, mode, make) in vocabularies().items():
        if ONLY and name not in ONLY:
            continue
        encode = make()
        result[name] = {"path": path, "hint": hint, "mode": mode,
                        "lines": path.endswith("test_ja_model.model"),
                        "corpora": {c: summary(encode, by_line(t) if path.endswith("test_ja_model.model") else t)
                                    for c, t in texts.items() if c == "naughty" or "added-tokens" not in name}}
        print(name, {c: v["n"] for c, v in result[name]["corpora"].items()}, flush=True)
        with open(OUT, "w") as f:
            f.write("{\n" + ",\n".join('"%s": %s' % (k, json.dumps(v)) for k, v in result.items()) + "\n}\n")


main()
