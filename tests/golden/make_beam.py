#!/usr/bin/env python3
"""Make beam.i32 in golden checkpoints: the results of transformers' beam search.

    tests/golden/make_beam.py [--check] needs make.py's packages. --check compares with the
    committed files.

A file is a sequence of i32. Each case begins with the number of stop tokens and the stop tokens.
Then come its width, n, maximum of new tokens, 1000 * length penalty, early stopping (0 False, 1
True, 2 "never") and prompt length. Then come, for each of n sequences, the number of tokens, the
tokens (including the stop token) and the bits of its score (f32). Prompts are the first tokens of
tokens.i32.
"""
import pathlib
import sys

import make  # noqa: F401  (enters the virtual environment)
import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["llama3", "qwen3", "mistral"]
STOPS = [make.EOS, make.BOS]
EARLY = [False, True, "never"]
# width, n, new tokens, length penalty, early stopping, prompt
CASES = [(2, 1, 20, 1.0, 0, 16), (4, 4, 24, 1.0, 0, 16), (4, 2, 24, 0.0, 1, 9), (5, 5, 30, 2.0, 2, 20),
         (3, 3, 30, -1.0, 0, 12), (8, 8, 16, 0.6, 1, 33), (2, 2, 12, 1.0, 1, 5), (6, 6, 1, 1.0, 0, 7)]


def run(model, tokens, stops, case):
    width, n, most, penalty, early, n_prompt = case
    prompt = torch.tensor([tokens[:n_prompt]])
    with torch.no_grad():
        # the default mask would exclude tokens of the prompt that equal the padding token
        out = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), num_beams=width, num_return_sequences=n, max_new_tokens=most,
            length_penalty=penalty, early_stopping=EARLY[early], do_sample=False, eos_token_id=stops,
            pad_token_id=0, return_dict_in_generate=True, output_scores=True, temperature=None, top_k=None,
            top_p=None)
    scores = out.sequences_scores.tolist()
    rows = [width, n, most, round(1000 * penalty), early, n_prompt]
    for sequence, score in zip(out.sequences.tolist(), scores):
        said = sequence[n_prompt:]
        for i, token in enumerate(said):
            if token in stops:
                said = said[:i + 1]
                break
        rows += [len(said), *said, int(np.float32(score).view(np.int32))]
    return rows


def main():
    bad = 0
    for name in MODELS:
        folder = HERE / name
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="eager")
        model.eval()
        tokens = np.fromfile(folder / "tokens.i32", np.int32).tolist()
        rows = []
        for case in CASES:
            for stops in (STOPS, STOPS + [5, 17, 99]):
                rows += [len(stops), *stops, *run(model, tokens, stops, case)]
        data = np.array(rows, np.int32).tobytes()
        path = folder / "beam.i32"
        if "--check" in sys.argv:
            bad += path.read_bytes() != data
        else:
            path.write_bytes(data)
            print(f"{path}: {len(data)} bytes")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
