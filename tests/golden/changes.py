#!/usr/bin/env python3
"""Compare values of the caller with transformers: tests/golden/changes.py [WORD...]

Each row of the table is a folder of this directory, flags of quoth (--hf-overrides, --rope-scaling
...), and the same change of config.json. quoth computes the logits of a text's windows with the
flags (`quoth perplexity --logits`, the program in build/). transformers computes them in float64
from a folder with the changed config.json and the same weights. The logits must be equal within
1e-4 (max|d| / max|reference|). For a row with the expected text of an error, quoth must reject the
change. Words select the rows whose names contain one of them. The exit status is 1 if any row
differs. The script needs the packages of make.py."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import make  # noqa: F401, I001  (enters the virtual environment)
from campaign import distance

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
QUOTH = HERE.parent.parent / "build" / "quoth"
LIMIT, N = 1e-4, 96
TEXT = "".join(chr(32 + (i * i * 7 + 13 * i) % 90) for i in range(500))


def scaling(kind, **more):
    return dict(rope_type=kind, **more)


def override(**fields):
    """Return flags and the change for fields of config.json."""
    return ["--hf-overrides", json.dumps(fields)], fields


def rope(value, *flags, **more):
    """Return flags and the change for a scaling, as an object or as a type with flags."""
    own = value if isinstance(value, dict) else scaling("default" if value == "none" else value, **more)
    text = json.dumps(value) if isinstance(value, dict) else value
    return ["--rope-scaling", text, *flags], dict(rope_scaling=own)


def both(*parts):
    flags, fields = [], {}
    for f, d in parts:
        flags += f
        fields.update(d)
    return flags, fields


LONG = scaling("longrope", original_max_position_embeddings=64, short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
               long_factor=[1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0])
LLAMA3 = scaling("llama3", factor=4.0, low_freq_factor=0.5, high_freq_factor=2.0, original_max_position_embeddings=32)
YARN = scaling("yarn", factor=4.0, original_max_position_embeddings=32)
EACH = dict(full_attention=dict(rope_type="yarn", rope_theta=20000.0, factor=2.0, original_max_position_embeddings=48),
            sliding_attention=dict(rope_type="default", rope_theta=500.0))

# name, folder, flags and change, expected error
ROWS = [
    ("none", "llama3", rope("none")),
    ("linear by flags", "llama3", rope("linear", "--rope-scale", "3", factor=3.0)),
    ("linear by share", "llama3", rope("linear", "--rope-freq-scale", "0.25", factor=4.0)),
    ("yarn by flags", "llama3", rope("yarn", "--rope-scale", "4", "--yarn-orig-ctx", "32", factor=4.0,
                                     original_max_position_embeddings=32)),
    ("yarn with a ramp", "llama3", rope("yarn", "--rope-scale", "4", "--yarn-orig-ctx", "64", "--yarn-beta-fast", "16",
                                        "--yarn-beta-slow", "2", factor=4.0, original_max_position_embeddings=64, beta_fast=16.0,
                                        beta_slow=2.0)),
    ("yarn by JSON", "llama3", rope(dict(YARN, attention_factor=1.3))),
    ("yarn without truncation", "llama3", rope(dict(YARN, truncate=False, mscale=0.7, mscale_all_dim=0.4))),
    ("llama3", "llama3", rope(LLAMA3)),
    ("longrope, long text", "llama3", rope(LONG)),
    ("longrope, short text", "llama3", rope(dict(LONG, original_max_position_embeddings=200))),
    ("longrope with factor", "llama3", rope(dict(LONG, factor=3.0))),
    ("dynamic", "llama3", both(rope(scaling("dynamic", factor=3.0)), override(max_position_embeddings=32))),
    ("mrope", "qwen2", rope(scaling("mrope", mrope_section=[2, 3, 3]))),
    ("mrope and theta", "qwen3", both(rope(scaling("mrope", mrope_section=[2, 3, 3])), (["--rope-theta", "700"], dict(rope_theta=700.0)))),
    ("theta", "llama3", (["--rope-theta", "500"], dict(rope_theta=500.0))),
    ("theta by override", "mistral", override(rope_theta=333.0)),
    ("override of a scaling", "qwen3", override(rope_scaling=YARN)),
    ("override of parameters", "qwen2", override(rope_parameters=dict(YARN, rope_theta=900.0))),
    ("epsilon and activation", "llama3", override(rms_norm_eps=1e-2, hidden_act="gelu")),
    ("window", "mistral", override(sliding_window=11)),
    ("no window", "mistral", override(sliding_window=None)),
    ("windows of qwen2", "qwen2", override(use_sliding_window=True, sliding_window=9, max_window_layers=1,
                                           layer_types=["full_attention", "sliding_attention", "sliding_attention"])),
    ("theta of gemma3", "gemma3", (["--rope-theta", "4000"], dict(rope_parameters=dict(full_attention=dict(rope_theta=4000.0))))),
    ("ropes of gemma3", "gemma3", override(rope_parameters=EACH)),
    ("scalar and caps of gemma2", "gemma2", override(query_pre_attn_scalar=100, final_logit_softcapping=5.0, attn_logit_softcapping=3.0)),
    ("scalar of gemma3", "gemma3", override(query_pre_attn_scalar=100, sliding_window=7)),
    ("cap of gemma4", "gemma4", override(final_logit_softcapping=3.0, sliding_window=9)),
    ("ropes of gemma4", "gemma4", override(rope_parameters=dict(
        full_attention=dict(rope_type="proportional", rope_theta=3000.0, partial_rotary_factor=0.25),
        sliding_attention=dict(rope_type="default", rope_theta=77.0)))),
    ("yarn of gemma4", "gemma4", rope(EACH)),
    ("flat rope of gemma4", "gemma4", rope(YARN), "full_attention: is missing"),
    ("partial rope", "gpt_neox", override(rotary_pct=0.75)),
    ("order of blocks", "gpt_neox", override(use_parallel_residual=False)),
    ("partial rope of stablelm", "stablelm", override(partial_rotary_factor=0.75)),
    ("yarn of glm4", "glm4", rope(YARN)),
    ("logit scale", "cohere", override(logit_scale=0.7)),
    ("factors of granite", "granite", override(logits_scaling=3.0, residual_multiplier=0.7, embedding_multiplier=2.0, attention_multiplier=0.3)),
    ("used experts", "qwen3moe", override(num_experts_per_tok=3, norm_topk_prob=False)),
    ("layers without rope", "smollm3", override(no_rope_layers=[1, 0, 1, 1])),
    ("lists of phi3", "phi3", None),
    ("epsilon of gpt2", "gpt2", override(layer_norm_epsilon=1e-2, scale_attn_by_inverse_layer_idx=True)),
    ("unknown field", "llama3", override(rope_tetha=1.0), "no such field"),
    ("two bases", "llama3", both((["--rope-theta", "7"], {}), override(rope_theta=5.0)), "must not come with rope_theta"),
    ("fewer layers", "llama3", override(num_hidden_layers=2), "belongs to layer 2, but the number of layers is 2"),
]


OWN = dict(rotary_pct="partial_rotary_factor")  # older fields, in place of which these folders have rope_parameters


def change(config, fields):
    """Apply a change like the flags. A scaling replaces the file's scaling, and keeps the file's
    base."""
    out = {k: v for k, v in config.items()}
    was = out.get("rope_parameters") or {}
    for key, value in fields.items():
        key = OWN.get(key, key)
        if key in ("rope_theta", "partial_rotary_factor") and "rope_parameters" in out:
            out["rope_parameters"] = dict(out["rope_parameters"], **{key: value})
        elif key in ("rope_scaling", "rope_parameters"):
            out.pop("rope_scaling", None)
            if "full_attention" in was:
                new = dict(value)
                for kind in ("full_attention", "sliding_attention"):
                    new[kind] = dict(was[kind], **value.get(kind, {})) if "rope_type" not in value.get(kind, {}) else value[kind]
                out["rope_parameters"] = new
            else:
                base = was.get("rope_theta", config.get("rope_theta"))
                kind = "default" if value.get("rope_type") == "mrope" else value["rope_type"]
                new = {k: v for k, v in value.items() if k != "mrope_section"}
                out["rope_parameters"] = dict(dict(rope_theta=base), **dict(new, rope_type=kind))
                if "partial_rotary_factor" in was:
                    out["rope_parameters"]["partial_rotary_factor"] = was["partial_rotary_factor"]
                out.pop("rope_theta", None)
        else:
            out[key] = value
    if "rope_theta" in fields and "rope_parameters" not in out:
        out["rope_theta"] = fields["rope_theta"]
    return out


def quoth(folder, flags, text):
    with tempfile.NamedTemporaryFile(suffix=".f32") as out:
        got = subprocess.run([QUOTH, "perplexity", folder, text, "--logits", out.name, "--max-model-len", str(N), "--activation-dtype",
                              "f32", "--kv-cache-dtype", "float32", *flags], capture_output=True)
        return np.fromfile(out.name, "<f4"), got.returncode, got.stderr.decode(errors="replace").strip()


def reference(folder, config, ids):
    with tempfile.TemporaryDirectory() as d:
        for name in os.listdir(folder):
            if "safetensors" in name:
                os.symlink(os.path.join(folder, name), os.path.join(d, name))
        (pathlib.Path(d) / "config.json").write_text(json.dumps(config))
        model = transformers.AutoModelForCausalLM.from_pretrained(d, dtype=torch.float64, attn_implementation="eager",
                                                                  experts_implementation="eager").eval()
        with torch.no_grad():
            return [model(torch.tensor([w]), use_cache=False).logits[0].numpy() for w in ids]


def windows(folder, text):
    """Return the ids of the windows that `quoth perplexity` scores."""
    got = subprocess.run([QUOTH, "tokenize", folder], stdin=open(text), capture_output=True, check=True)
    ids = [int(x) for x in got.stdout.split()]
    return [ids[i:i + N] for i in range(0, len(ids) - N + 1, N)]


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    words, bad = sys.argv[1:], 0
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write(TEXT)
        f.flush()
        for name, folder, what, *error in ROWS:
            if words and not any(w in name or w == folder for w in words):
                continue
            path = str(HERE / folder)
            config = json.load(open(path + "/config.json"))
            if what is None:  # lists of divisors, for a class that supports only LongRoPE
                half = len((config.get("rope_scaling") or config["rope_parameters"])["long_factor"])
                lists = dict(short_factor=[1.0 + i / 8 for i in range(half)], long_factor=[2.0 + i / 4 for i in range(half)])
                what = rope(scaling("longrope", **lists))
            flags, fields = what
            got, rc, text = quoth(path, flags, f.name)
            if error:
                ok = rc != 0 and error[0] in text
                print("%-28s %-10s %s" % (name, folder, "rejected" if ok else "WRONG: %d %s" % (rc, text)))
                bad += not ok
                continue
            if rc != 0:
                print("%-28s %-10s FAILED: %s" % (name, folder, text))
                bad += 1
                continue
            ids = windows(path, f.name)
            want = reference(path, change(config, fields), ids)
            plain = reference(path, config, ids)
            n_vocab = want[0].shape[1]
            got = got.reshape(-1, n_vocab)
            n = len(got) // len(ids)
            rows = np.concatenate([w[N - 1 - n:N - 1] for w in want])
            old = np.concatenate([w[N - 1 - n:N - 1] for w in plain])
            d, effect = distance(got, rows), distance(old, rows)
            ok = d <= LIMIT
            bad += not ok
            print("%-28s %-10s %.1e, effect of the change %.1e%s" % (name, folder, d, effect, "" if ok else " DIFFERENT"), flush=True)
    print("%d of the rows are wrong" % bad)
    sys.exit(bad > 0)


main()
