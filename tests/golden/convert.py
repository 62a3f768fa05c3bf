#!/usr/bin/env python3
"""Convert the golden folders with quoth, to GGUF and back, and compare the results with transformers.

    tests/golden/convert.py [NAME...]      QUOTH is the program, by default build/quoth

For each folder (by default all): quoth convert writes a GGUF. The gguf package reads it. quoth
converts the GGUF to a folder. transformers loads that folder, without a message on missing or
unused weights. Its logits or hidden states must equal the golden results. Its tokenizer must give
the ids of the golden folder's tokenizer. The script prints a line per folder: the difference, or
quoth's error. A folder that quoth rejects must be in REFUSED or BACK_REFUSED. The script needs torch, transformers, safetensors, gguf and, for MXFP4, accelerate. """
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

from campaign import distance, wrong_refusal  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
QUOTH = os.environ.get("QUOTH", str(HERE.parent.parent / "build" / "quoth"))
EVERY = 5
SOURCE = 48  # tokens of an encoder's text in cross.py
NO_GGUF, NOT_YET = "has no GGUF: llama.cpp", "to GGUF is not supported yet|has no GGUF: not supported yet"
# folders that quoth must reject, and the pattern of the reason
REFUSED = {
    "bitnet": NO_GGUF, "cross/bart": NO_GGUF, "gptj": NO_GGUF,
    "helium": NO_GGUF, "kimi_linear": "num_heads: must be the 2 heads", "nemotron_h-moe": "a GGUF with mixtures cannot have", "opt": NO_GGUF, "opt-post": NO_GGUF,
    "rwkv": NO_GGUF, "rwkv5": NO_GGUF,
    "encoders/bert-dense": "hidden_act: the result cannot express", "encoders/distilbert-class": "an activation in the head: the result cannot express",
    "falcon-rw": "tensor blk.0.ffn_norm.bias: not supported yet", "llama4": "attn_scale: the result cannot express"}
# folders whose GGUF quoth must reject
BACK_REFUSED = dict.fromkeys(("qwen2_5_vl", "qwen3_vl"), "conversion to a folder is not supported yet")
TEXTS = ["hello world", "The cat, the hat.", "  two  spaces ", "a\nb\n\n c", "héé 日本 ÀB", "<|begin|>x<|end|>", "</s>a<mask> b [SEP] c", "", "it's 12345"]


def convert(source, target, expected):
    """Return (true, None) if quoth converted the model, which must be rejected if `expected` is a
    pattern. Otherwise return (false, the error sentence), which ends in FAIL unless it has the
    pattern."""
    done = subprocess.run([QUOTH, "convert", str(source), "-o", str(target)], capture_output=True, text=True)
    if done.returncode == 0:
        return (True, None) if expected is None else (False, "converted, although REFUSED has it  FAIL")
    wrong = wrong_refusal(done.returncode, done.stderr, [expected] if expected else [])
    return False, f"{wrong}  FAIL" if wrong else done.stderr.strip().splitlines()[-1].removeprefix("quoth convert: ")


def load(folder):
    """Return the model in double precision."""
    config = transformers.AutoConfig.from_pretrained(folder)
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True, dtype=torch.float64, attn_implementation="eager",
                                                                      experts_implementation="eager")
    left = [k for k in info["missing_keys"] if "pooler" not in k]
    assert not left and not info["unexpected_keys"] and not info["mismatched_keys"], info
    assert config.model_type == model.config.model_type
    return model.eval()


def hidden(model, tokens):
    out = model(tokens, output_hidden_states=True)
    return (out.hidden_states[-1] if "hidden_states" in out else out.last_hidden_state)[0].numpy(), out.get("logits")


def compare_model(folder, back):
    """Return the difference from the golden logits, or, for encoders and rerankers, from the hidden
    states and scores of the golden folder in transformers."""
    model = load(back)
    tokens = torch.from_numpy(np.fromfile(folder / "tokens.i32", "<i4").astype(np.int64))[None]
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            got = model(input_ids=tokens[:, :SOURCE], decoder_input_ids=tokens[:, SOURCE:]).logits[0].numpy()
        elif (folder / "logits.f32").exists():
            got = model(tokens).logits[0].numpy()
        else:
            got, scores = hidden(model, tokens)
            want, wanted = hidden(load(folder), tokens)
            if scores is not None and wanted is not None:
                return max(distance(got, want), distance(scores.numpy(), wanted.numpy()))
            return distance(got, want)
    want = np.fromfile(folder / "logits.f32", "<f4").reshape(-1, got.shape[1])
    return distance(got[np.arange(len(got) - 1, -1, -EVERY)[::-1]], want)


def compare_vectors(folder, back):
    """Return the difference of the vectors in sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    want, got = (SentenceTransformer(str(f), device="cpu").encode([t for t in TEXTS if t]) for f in (folder, back))
    return distance(got, want)


def compare_tokens(folder, back):
    want, got = (transformers.AutoTokenizer.from_pretrained(f) for f in (folder, back))
    for text in TEXTS:
        a, b = want(text)["input_ids"], got(text)["input_ids"]
        assert a == b, (text, a, b)
        assert want.decode(a) == got.decode(b), (text, want.decode(a), got.decode(b))


def with_tokenizer(folder, root):
    """Return the folder. If it has no tokenizer, return a copy with a tokenizer."""
    if (folder / "tokenizer.json").exists():
        return folder
    copy = root / folder.name
    shutil.copytree(folder, copy)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(HERE / "llama3" / file, copy)
    return copy


def run(name, root):
    folder, file, back = with_tokenizer(HERE / name, root), root / "model.gguf", root / "back"
    shutil.rmtree(back, ignore_errors=True)
    file.unlink(missing_ok=True)
    done, why = convert(folder, file, REFUSED.get(name))
    if not done:
        return f"refused: {why.replace(str(folder), name)}"
    n = len(gguf.GGUFReader(file).tensors)
    done, why = convert(file, back, BACK_REFUSED.get(name))
    if not done:
        return f"{n} tensors; back refused: {why.replace(str(file), 'GGUF')}"
    apart = compare_model(folder, back)
    compare_tokens(folder, back)
    if (folder / "modules.json").exists():
        apart = max(apart, compare_vectors(folder, back))
    return f"{n} tensors; back, in transformers: {apart:.1e}" + ("" if apart <= 1e-4 else "  FAIL")


def main(args):
    names = args or sorted(str(p.parent.relative_to(HERE)) for p in HERE.glob("**/config.json") if not p.parent.name[0].isdigit())
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        for name in names:
            try:
                line = run(name, pathlib.Path(root))
            except Exception as e:  # a failure must not hide failures of other folders
                line = f"{type(e).__name__}: {str(e)[:300]}  FAIL"
            failed += line.endswith("FAIL")
            print(f"{name:28} {line}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
