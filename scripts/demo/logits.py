"""Compare logits of the same weights through PyTorch and through quoth: they agree to 1e-4
(max|difference| / max|reference|) on 50 prompts.

    python logits.py --quoth build/quoth --model build/demo/quoth-tiny-hf

The reference is Hugging Face transformers in float64. quoth reads the same safetensors with f32
activations and f32 pages. The script needs torch, transformers and numpy.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

import chatml
import data

N_PROMPT, N_TOKEN = 50, 96
LIMIT = 1e-4


def prompts(seed):
    """Return texts of at least N_TOKEN tokens each, from the generator."""
    text = ""
    for doc in data.documents(seed, 100000):
        text += "".join(part for part, _ in chatml.pieces(doc))
        if len(text) > 6 * N_TOKEN:
            yield text
            text = ""


def quoth_logits(quoth, model, text, folder):
    """Return ids [N_TOKEN] and the logits f32 [n, n_vocab] of the positions that quoth scores: the
    window's second half."""
    path = folder / "prompt.txt"
    path.write_text(text)
    ids = subprocess.run([quoth, "tokenize", model, "--no-special", "--json"], input=text.encode(), capture_output=True, check=True)
    subprocess.run([quoth, "perplexity", model, path, "--max-model-len", str(N_TOKEN), "--windows", "1", "--activation-dtype", "f32",
                    "--kv-cache-dtype", "float32", "--logits", folder / "logits.f32"], capture_output=True, check=True)
    first, n = N_TOKEN // 2, N_TOKEN // 2 - 1
    return json.loads(ids.stdout)[:N_TOKEN], first, np.fromfile(folder / "logits.f32", "<f4").reshape(n, -1)


def main(args):
    reference = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float64)
    worst = 0.0
    texts = prompts(args.seed)
    with tempfile.TemporaryDirectory() as tmp, torch.no_grad():
        for i in range(N_PROMPT):
            ids, first, got = quoth_logits(args.quoth, args.model, next(texts), Path(tmp))
            want = reference(torch.tensor([ids])).logits[0, first:N_TOKEN - 1].numpy()
            worst = max(worst, np.abs(got - want).max() / np.abs(want).max())
    print(f"{N_PROMPT} prompts: max|difference| / max|reference| = {worst:.1e} (limit {LIMIT:.0e})")
    return int(worst > LIMIT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quoth", required=True)
    parser.add_argument("--model", type=Path, required=True, help="a Hugging Face folder")
    parser.add_argument("--seed", type=int, default=7)
    raise SystemExit(main(parser.parse_args()))
