#!/usr/bin/env python3
"""Compare the ids of tokenizers without tokenizer.json: tests/golden/token_files.py [WORD...]

Each row is a folder of small files, made from the tokenizers of this directory: a plain vocabulary
or a SentencePiece model with a class and keys of tokenizer_config.json, or a tokenizer.json that
tokenizer_config.json contradicts. quoth (`quoth tokenize`, the program in build/) and transformers
encode the same texts. Texts that begin with a BOS are left out, because quoth does not add a second
one for decoders. Words select the rows whose names contain one of them. The exit status is 1 if any
row differs, or if there is no row. The script needs the packages of make.py, and sentencepiece."""
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import make  # noqa: F401, I001  (enters the virtual environment)

import sentencepiece
import transformers

HERE = pathlib.Path(__file__).resolve().parent
QUOTH = HERE.parent.parent / "build" / "quoth"
TEXTS = ["", "hello", " hello", "  two  spaces ", "\n", "\thello\n\n x", "Hello WORLD", "héé 日本 ÀB",
         "it's don't , . ! ?", "a<s> b </s> c", "[CLS] a [SEP]b [MASK] c", "a <mask> b<mask>",
         "x <unk> y <pad>z", "e\u0301 \u0130 ß ﬁ", "a  <|end|>  b", "cat concat cats", "12345 1,000"]
ROBERTA = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>",
               cls_token="<s>", sep_token="</s>", mask_token="<mask>")
GPT2 = dict(bos_token="<|begin|>", eos_token="<|end|>", unk_token="<|end|>")


def read(name):
    """Return the tokenizer.json of a folder, its pieces by id and its merges."""
    t = json.loads((HERE / name / "tokenizer.json").read_text())
    pieces = dict(t["model"]["vocab"])
    for a in t["added_tokens"]:
        pieces.setdefault(a["content"], a["id"])
    merges = [m if isinstance(m, str) else " ".join(m) for m in t["model"].get("merges", [])]
    return t, pieces, merges


def words():
    pieces = read("encoders/bert")[1]
    return {"vocab.txt": "\n".join(sorted(pieces, key=pieces.get)) + "\n"}


def merges(name):
    _, pieces, lines = read(name)
    return {"vocab.json": json.dumps(pieces), "merges.txt": "#version: 0.2\n" + "\n".join(lines) + "\n"}


def whole(name):
    return {"tokenizer.json": (HERE / name / "tokenizer.json").read_text()}


def model(name, **ids):
    """Train a small Unigram model on the texts of this script."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 3), model_writer=out, vocab_size=60, hard_vocab_limit=False,
        num_threads=1, minloglevel=2, **ids)
    return {name: out.getvalue()}


def t5():
    return model("spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def bpe():
    return model("sentencepiece.bpe.model", unk_id=0, bos_id=1, eos_id=2)


def config(name, **keys):
    return dict(tokenizer_class=name, **keys)


def rows():
    """Yield a name, files, tokenizer_config.json, the model type and special_tokens_map.json."""
    for keys in ({}, {"do_lower_case": False}, {"strip_accents": False}, {"tokenize_chinese_chars": False},
                 {"do_lower_case": False, "strip_accents": True}, {"cls_token": "[MASK]"},
                 {"additional_special_tokens": ["cat"]}):
        yield f"vocab.txt {keys}", words(), config("BertTokenizer", **keys), "bert", None
        if "cls_token" not in keys:
            yield f"bert tokenizer.json {keys}", whole("encoders/bert"), config("BertTokenizer", **keys), "bert", None
    yield "vocab.txt alone", words(), None, "bert", {"cls_token": "[MASK]"}
    yield "vocab.txt distilbert", words(), config("DistilBertTokenizer", do_lower_case=False), "distilbert", None
    for keys in ({}, {"add_prefix_space": True}, {"add_bos_token": True, "add_eos_token": True}):
        for name, folder, more, kind in (("GPT2Tokenizer", "gpt2", GPT2, "gpt2"),
                                         ("Qwen2Tokenizer", "qwen2", GPT2, "qwen2"),
                                         ("RobertaTokenizer", "encoders/roberta", ROBERTA, "roberta"),
                                         ("BartTokenizer", "cross/bart", ROBERTA, "bart")):
            yield f"vocab.json {name} {keys}", merges(folder), config(name, **more, **keys), kind, None
            if "add_bos_token" not in keys and kind != "qwen2":  # its tokenizer.json is not of Qwen2
                yield f"{folder} tokenizer.json {keys}", whole(folder), config(name, **more, **keys), kind, None
    yield "vocab.json no class", merges("gpt2"), {}, "gpt2", GPT2
    yield "vocab.json roberta no config", merges("encoders/roberta"), None, "roberta", None
    yield "t5", t5(), config("T5Tokenizer", extra_ids=3), "t5", None
    yield "mt5 no class", t5(), None, "mt5", None
    yield "xlm-roberta", bpe(), config("XLMRobertaTokenizer", **ROBERTA), "xlm-roberta", None
    yield "xlm-roberta no class", bpe(), None, "xlm-roberta", None
    yield "camembert", bpe(), config("CamembertTokenizer", **ROBERTA), "camembert", None


def compare(folder):
    """Return the texts with other ids, as (text, ids of transformers, ids of quoth)."""
    text = "".join(json.dumps(t) + "\n" for t in TEXTS)
    run = subprocess.run([QUOTH, "tokenize", folder, "--jsonl", "--json"], input=text, text=True,
                         capture_output=True)
    if run.returncode:
        return [("", None, run.stderr.strip())]
    want = transformers.AutoTokenizer.from_pretrained(folder)
    pairs = zip(TEXTS, run.stdout.splitlines(), strict=True)
    return [(t, want(t).input_ids, json.loads(ids)) for t, ids in pairs if want(t).input_ids != json.loads(ids)]


def main():
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.logging.set_verbosity_error()
    bad = n_row = 0
    for name, files, keys, kind, named in rows():
        if sys.argv[1:] and not any(w in name for w in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as d:
            for file, data in files.items():
                (pathlib.Path(d) / file).write_bytes(data if isinstance(data, bytes) else data.encode())
            for file, data in (("tokenizer_config.json", keys), ("special_tokens_map.json", named),
                               ("config.json", {"model_type": kind})):
                if data is not None:
                    (pathlib.Path(d) / file).write_text(json.dumps(data))
            wrong = compare(d)
        bad += bool(wrong)
        n_row += 1
        print(f"{name}: {len(wrong)} of {len(TEXTS)} texts differ", *wrong[:2], sep="\n    " if wrong else "")
    if n_row == 0:
        print("no row has a name with one of the words")
    return bad > 0 or n_row == 0


if __name__ == "__main__":
    sys.exit(main())
