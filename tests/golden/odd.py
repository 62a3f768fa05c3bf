#!/usr/bin/env python3
"""Compare quoth with transformers on odd configurations: tests/golden/odd.py [NAME...] [--count N] [--first SEED]

For each architecture below, N (20) configurations are drawn from seeds: sizes that are no power of two, groups of heads of
every kind, windows and trained contexts shorter than the text, ropes, biases and caps of every kind. Weights are drawn
from the seed as well, and written by save_pretrained. The text is 64 random tokens and the 32 that transformers chooses
after them. quoth's logits (build/logits, f32 activations) must differ from transformers' (float64) by
max|d| / max|reference| <= 1e-4, and the greedy choice after each position must be the same: with the text in one step,
in steps of 13 tokens, and token by token. Prints a line per configuration; exit 1 if any differs. It needs what make.py needs.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import make  # noqa: I001  (enters the virtual environment)

import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
N_PROMPT, N_GREEDY, LIMIT = 64, 32, 1e-4
STEPS = (128, 13, 1)  # tokens


def base(r):
    """What every architecture has."""
    n_kv = r.choice((1, 2, 3))
    n_head = n_kv * r.choice((1, 2, 3, 5))
    d_head = r.choice((8, 14, 16, 20, 32))
    widths = [n_head * k for k in (4, 12, 16, 24, 40) if n_head * k >= 24]  # with a few lanes norms amplify rounding
    return dict(vocab_size=r.randrange(90, 300), hidden_size=r.choice(widths), intermediate_size=r.choice((24, 56, 97, 160)),
                num_hidden_layers=r.randrange(1, 6), num_attention_heads=n_head, num_key_value_heads=n_kv, head_dim=d_head,
                max_position_embeddings=r.choice((32, 128, 512)), rms_norm_eps=r.choice((1e-6, 1e-3)), pad_token_id=None,
                bos_token_id=1, eos_token_id=2, tie_word_embeddings=r.random() < 0.5, attention_bias=r.random() < 0.3)


def scaled_rope(r):
    kind = r.choice(("default", "linear", "llama3", "yarn"))
    rope = dict(rope_type=kind, rope_theta=r.choice((500.0, 1e4, 1e6)))
    if kind != "default":
        rope["factor"] = r.choice((1.0, 1.5, 2.0, 8.0))
    if kind in ("llama3", "yarn"):
        rope["original_max_position_embeddings"] = r.choice((20, 32, 64))
    if kind == "llama3":
        rope.update(low_freq_factor=r.choice((0.5, 1.0)), high_freq_factor=r.choice((1.5, 4.0)))
    if kind == "yarn":
        some = dict(attention_factor=1.3, beta_fast=20.0, beta_slow=2.0, truncate=False, mscale=0.7, mscale_all_dim=0.4)
        rope.update({k: v for k, v in some.items() if r.random() < 0.3})
    return rope


def windows(r, c):
    """The classes that slide only if they are told to."""
    c.update(use_sliding_window=r.random() < 0.6, sliding_window=r.choice((5, 33, 200)))
    if r.random() < 0.5:
        c["layer_types"] = [r.choice(("sliding_attention", "full_attention")) for _ in range(c["num_hidden_layers"])]
        if not c["use_sliding_window"]:
            c["layer_types"] = ["full_attention"] * c["num_hidden_layers"]


def llama(r):
    c = base(r)
    c.update(mlp_bias=r.random() < 0.3, hidden_act=r.choice(("silu", "silu", "gelu")), rope_parameters=scaled_rope(r))
    return c


def mistral(r):
    c = base(r)
    c.pop("attention_bias")
    c.update(sliding_window=r.choice((None, 1, 5, 33, 200)), rope_parameters=scaled_rope(r))
    return c


def qwen2(r):
    c = base(r)
    c.pop("attention_bias")
    c.pop("head_dim")  # the class has hidden size / heads
    c.update(hidden_size=c["num_attention_heads"] * r.choice((12, 16, 20)), rope_parameters=scaled_rope(r))
    windows(r, c)
    if "layer_types" not in c:
        c["max_window_layers"] = r.randrange(c["num_hidden_layers"] + 2)
    return c


def qwen3(r):
    c = base(r)
    c["rope_parameters"] = scaled_rope(r)
    windows(r, c)
    if "layer_types" not in c:
        c["max_window_layers"] = r.randrange(c["num_hidden_layers"] + 2)
    return c


def smollm3(r):
    c = base(r)
    c.update(mlp_bias=r.random() < 0.3, rope_parameters=scaled_rope(r), no_rope_layer_interval=r.choice((2, 3, 4)))
    c.pop("head_dim")
    c["hidden_size"] = c["num_attention_heads"] * r.choice((12, 16, 20))
    if r.random() < 0.5:
        c["no_rope_layers"] = [r.randrange(2) for _ in range(c["num_hidden_layers"])]
    windows(r, c)
    return c


def gemma3(r):
    c = base(r)
    c.update(hidden_activation=r.choice(("gelu_pytorch_tanh", "gelu", "silu")), num_hidden_layers=r.randrange(1, 9),
             sliding_window=r.choice((5, 16, 33, 200)), query_pre_attn_scalar=r.choice((8, 20, 64)),
             final_logit_softcapping=r.choice((None, 0.5, 30.0)),
             rope_parameters=dict(full_attention=scaled_rope(r), sliding_attention=dict(rope_type="default", rope_theta=r.choice((300.0, 1e4)))))
    if r.random() < 0.4:
        c["layer_types"] = [r.choice(("sliding_attention", "full_attention")) for _ in range(c["num_hidden_layers"])]
    return c


def qwen3moe(r):
    c = base(r)
    n = r.randrange(1, 12)
    c.update(num_experts=n, num_experts_per_tok=r.randrange(1, min(n, 4) + 1), moe_intermediate_size=r.choice((17, 24, 48)),
             norm_topk_prob=r.random() < 0.5, decoder_sparse_step=r.choice((1, 1, 2)), hidden_act=r.choice(("silu", "gelu")),
             use_sliding_window=r.random() < 0.3, sliding_window=r.choice((5, 40)), rope_parameters=scaled_rope(r))
    if r.random() < 0.3:
        c["mlp_only_layers"] = [r.randrange(c["num_hidden_layers"])]
    return c


def olmo2(r):
    c = base(r)
    c.pop("head_dim")  # the class has hidden size / heads
    c.update(hidden_size=c["num_attention_heads"] * r.choice((12, 16, 20)), hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r))
    return c


MODELS = {
    "llama": dict(cls=transformers.LlamaForCausalLM, config=llama),
    "mistral": dict(cls=transformers.MistralForCausalLM, config=mistral),
    "qwen2": dict(cls=transformers.Qwen2ForCausalLM, config=qwen2),
    "qwen3": dict(cls=transformers.Qwen3ForCausalLM, config=qwen3),
    "smollm3": dict(cls=transformers.SmolLM3ForCausalLM, config=smollm3),
    "olmo2": dict(cls=transformers.Olmo2ForCausalLM, config=olmo2),
    "qwen3moe": dict(cls=transformers.Qwen3MoeForCausalLM, config=qwen3moe),
    "qwen3moe-fp8": dict(cls=transformers.Qwen3MoeForCausalLM, config=qwen3moe, fp8=True),
    "gemma3": dict(cls=transformers.Gemma3ForCausalLM, config=gemma3, norm_add=1),
}


def model_of(name, seed):
    r = random.Random(f"{name} {seed}")
    spec = MODELS[name]
    config = spec["cls"].config_class(**spec["config"](r))
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    config.dtype = "float32"
    model = spec["cls"](config).eval()
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for weight, p in sorted(model.named_parameters()):
            p.copy_(make.random_weight(rng, weight, tuple(p.shape), spec.get("norm_add", 0), 0.1))
    return model


def compare(name, seed, folder, quoth):
    """Return (largest distance, positions whose greedy choice differs), or what quoth said."""
    model = model_of(name, seed)
    model.save_pretrained(folder)
    if MODELS[name].get("fp8"):
        r = random.Random(seed)
        make.write_fp8(folder, model, (r.choice((5, 16, 128)), r.choice((8, 33, 128))))
    model.double()
    tokens = np.random.RandomState(seed).randint(0, model.config.vocab_size, N_PROMPT).astype("<i4")
    for _ in range(N_GREEDY):
        tokens = np.append(tokens, make.logits_of(model, tokens)[-1].argmax()).astype("<i4")
    tokens.tofile(folder / "tokens.i32")
    want = make.logits_of(model, tokens)
    # a choice may hang on the last bits where two logits are as good as equal
    top = np.sort(want, axis=1)
    clear = top[:, -1] - top[:, -2] > 2 * LIMIT * np.abs(want).max()
    worst, wrong = 0.0, 0
    for step in STEPS:
        run = subprocess.run([quoth, folder, folder / "tokens.i32", folder / "out.f32", str(step)], capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            return run.stderr.strip() or f"exit {run.returncode}"
        got = np.fromfile(folder / "out.f32", "<f4").reshape(want.shape).astype(np.float64)
        if not np.isfinite(got).all():
            return "a logit is not finite"
        wrong += int(((got.argmax(axis=1) != want.argmax(axis=1)) & clear).sum())
        worst = max(worst, make.distance(got, want))
    return worst, wrong


def option(args, name, otherwise):
    return int(args[args.index(name) + 1]) if name in args else otherwise


def main(args):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    count, first = option(args, "--count", 20), option(args, "--first", 1)
    names = [a for a in args if a in MODELS] or list(MODELS)
    quoth = os.environ.get("QUOTH_LOGITS")
    if not quoth:
        quoth = ROOT / "build" / "logits"
        subprocess.check_call(["make", "-s", "-C", ROOT, "build/logits"])
    bad = 0
    for name in names:
        worst = 0.0
        for seed in range(first, first + count):
            with tempfile.TemporaryDirectory() as folder:
                result = compare(name, seed, pathlib.Path(folder), quoth)
            ok = not isinstance(result, str) and result[0] <= LIMIT and result[1] == 0
            worst = worst if isinstance(result, str) else max(worst, result[0])
            bad += not ok
            said = result if isinstance(result, str) else f"max|d| / max|reference| {result[0]:.1e}, {result[1]} choices differ"
            print(f"{name} {seed}: {'ok' if ok else 'WRONG'}: {said}", flush=True)
        print(f"{name}: {count} configurations, the worst {worst:.1e}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
