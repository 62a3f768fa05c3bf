#!/usr/bin/env python3
"""Make the golden models of RWKV-5.2, 6 and 7: tiny random models with the results of pip's rwkv.

    tests/golden/rwkv_models.py [NAME...]            makes all, or the named folders, in tests/golden
    tests/golden/rwkv_models.py --sweep N [NAME...]  compares quoth with N random configurations of each class

transformers has no class for these versions. The folders have the names and the config.json of the
published directories (model_type rwkv5, rwkv6 and rwkv7), and the files that make.py describes. The
reference is the package rwkv in float32 (RWKV_JIT_ON=0, strategy "cpu fp32"), from the names of
BlinkDL's files. Its class of RWKV-7 is read from a copy without TorchScript, in which the epsilon of
the norm of heads, a constant for heads of 64 values, is that of the size of the heads. make.py explains the other packages. Weights come from numpy's frozen RandomState.
"""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import random
import sys
import tempfile

import make  # enter the environment before other imports

import numpy as np
import torch
from safetensors.torch import save_file

os.environ["RWKV_JIT_ON"] = "0"
with contextlib.redirect_stdout(io.StringIO()):
    import rwkv.model

HERE = pathlib.Path(__file__).resolve().parent
LOGITS = os.environ.get("QUOTH_LOGITS", HERE.parent.parent / "build" / "logits")
N_TOKEN, N_PROMPT, N_GREEDY = make.N_TOKEN, make.N_PROMPT, make.N_GREEDY
TIME_MIX = {5: ("time_mix_key", "time_mix_value", "time_mix_receptance", "time_mix_gate"),
            6: tuple(f"time_maa_{c}" for c in "xwkvrg")}
CHANNEL_MIX = {5: ("time_mix_key", "time_mix_receptance"), 6: ("time_maa_k", "time_maa_r")}
SHORT = {"key": "k", "value": "v", "receptance": "r", "gate": "g"}
# the published class halves the residual stream; the package does so only for float16
BASE = dict(layer_norm_epsilon=1e-5, head_size_divisor=8, rescale_every=0, bos_token_id=make.BOS, eos_token_id=make.EOS, tie_word_embeddings=False, use_cache=True)
MODELS = {"rwkv5": dict(version=5, config=dict(vocab_size=make.N_VOCAB, hidden_size=24, head_size=8, num_hidden_layers=3, intermediate_size=56)),
          "rwkv6": dict(version=6, rank_mix=4, rank_decay=6, config=dict(vocab_size=make.N_VOCAB, hidden_size=24, head_size=12, num_hidden_layers=2, intermediate_size=None)),
          "rwkv7": dict(version=7, ranks=dict(w=6, a=5, v=3, g=7), config=dict(vocab_size=make.N_VOCAB, hidden_size=24, head_dim=12, num_hidden_layers=3, intermediate_size=56))}


def shapes_7(spec):
    """Return the shapes of the tensors of RWKV-7, by their published names."""
    c, rank = spec["config"], spec["ranks"]
    d, n, d_ff = c["hidden_size"], c["head_dim"], c["intermediate_size"]
    out = {"model.embeddings.weight": (c["vocab_size"], d), "lm_head.weight": (c["vocab_size"], d)}
    norms = ["model.norm", "model.layers.0.pre_norm"]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        norms += [at + part for part in ("attn_norm", "ffn_norm", "attn.g_norm")]
        out.update({f"{at}attn.x_{c}": (1, 1, d) for c in "rwkvag"})
        out.update({at + "attn.k_k": (d,), at + "attn.k_a": (d,), at + "attn.r_k": (d // n, n), at + "ffn.x_k": (d,)})
        out.update({f"{at}attn.{c}_proj.weight": (d, d) for c in "rkvo"})
        for part in "wavg" if i else "wag":
            out.update({f"{at}attn.{part}_lora.lora.0.weight": (rank[part], d), f"{at}attn.{part}_lora.lora.2.weight": (d, rank[part])})
            if part != "g":
                out[f"{at}attn.{part}_lora.lora.2.bias"] = (d,)
        out.update({at + "ffn.key.weight": (d_ff, d), at + "ffn.value.weight": (d, d_ff)})
    out.update({f"{norm}.{k}": (d,) for norm in norms for k in ("weight", "bias")})
    return out


def shapes(spec):
    """Return the shapes of the tensors, by their published names."""
    if spec["version"] == 7:
        return shapes_7(spec)
    c, version = spec["config"], spec["version"]
    d, n_vocab, n = c["hidden_size"], c["vocab_size"], c["head_size"]
    d_ff = c["intermediate_size"] or int(d * 3.5 // 32 * 32)
    norm = {"weight": (d,), "bias": (d,)}
    out = {"rwkv.embeddings.weight": (n_vocab, d), "head.weight": (n_vocab, d)}
    out.update({f"rwkv.ln_out.{k}": v for k, v in norm.items()})
    for i in range(c["num_hidden_layers"]):
        at = f"rwkv.blocks.{i}."
        for part in ("ln1", "ln2", "attention.ln_x", *(("pre_ln",) if i == 0 else ())):
            out.update({f"{at}{part}.{k}": v for k, v in norm.items()})
        out.update({f"{at}attention.{name}": (1, 1, d) for name in TIME_MIX[version]})
        out.update({f"{at}feed_forward.{name}": (1, 1, d) for name in CHANNEL_MIX[version]})
        out.update({f"{at}attention.{name}.weight": (d, d) for name in ("key", "value", "receptance", "gate", "output")})
        out[at + "attention.time_faaaa"] = (d // n, n)
        out[at + "attention.time_decay"] = (d // n, n) if version == 5 else (1, 1, d)
        if version == 6:
            mix, decay = spec["rank_mix"], spec["rank_decay"]
            out.update({at + "attention.time_maa_w1": (d, 5 * mix), at + "attention.time_maa_w2": (5, mix, d),
                        at + "attention.time_decay_w1": (d, decay), at + "attention.time_decay_w2": (decay, d)})
        out.update({at + "feed_forward.key.weight": (d_ff, d), at + "feed_forward.receptance.weight": (d, d), at + "feed_forward.value.weight": (d, d_ff)})
    return out


def weights(spec, seed):
    """Return the tensors, rounded to bfloat16."""
    rng, out = np.random.RandomState(seed), {}
    for name, shape in sorted(shapes(spec).items()):
        if name.endswith(("maa_w1", "decay_w1", "maa_w2", "decay_w2")):
            w = rng.normal(0, 1 / np.sqrt(shape[-2]), shape)
        elif "time_maa_" in name or ".x_" in name:
            w = rng.uniform(0, 1, shape)
        elif name.endswith((".k_k", ".k_a", "g_norm.weight", "pre_norm.weight")):
            w = rng.uniform(0.5, 1.5, shape)
        elif name == "model.embeddings.weight":
            w = rng.normal(0, 0.05, shape)
        else:
            w = make.random_weight(rng, name, shape, 0, 0.05).numpy()
        out[name] = torch.from_numpy(np.float32(w)).bfloat16()
    return out


def original_7(tensors):
    """Return the tensors of RWKV-7 with the names of BlinkDL's files, in float32."""
    out = {}
    names = {"model.embeddings.": "emb.", "model.norm.": "ln_out.", "lm_head.": "head.", "model.layers.": "blocks.", "pre_norm": "ln0", "attn_norm": "ln1",
             "ffn_norm": "ln2", ".attn.": ".att.", "g_norm": "ln_x", "r_proj": "receptance", "k_proj": "key", "v_proj": "value", "o_proj": "output"}
    for name, w in tensors.items():
        w = w.float()
        for old, new in names.items():
            name = name.replace(old, new)
        if "_lora" in name:
            start, end = name.split("_lora.lora.")
            name, w = start + {"0.weight": "1", "2.weight": "2", "2.bias": "0"}[end], w.t().contiguous() if w.ndim == 2 else w
        out[name] = w.reshape(1, 1, -1) if w.ndim == 1 and "ln" not in name else w
    return out


def class_7(head_dim, folder):
    """Return the package's class of RWKV-7 for heads of this size."""
    text = pathlib.Path(rwkv.model.__file__).read_text()
    text = text.replace("torch.jit.ScriptModule", "torch.nn.Module").replace("torch.jit.script_method", "(lambda f: f)").replace("torch.jit.script\n", "(lambda f: f)\n")
    text = text.replace("eps = 64e-5", f"eps = {head_dim * 1e-5!r}")
    (folder / "rwkv7_model.py").write_text(text)
    spec = importlib.util.spec_from_file_location("rwkv7_model", folder / "rwkv7_model.py")
    module = importlib.util.module_from_spec(spec)
    os.environ["RWKV_V7_ON"] = "1"
    with contextlib.redirect_stdout(io.StringIO()):
        spec.loader.exec_module(module)
    del os.environ["RWKV_V7_ON"]
    (folder / "rwkv7_model.py").unlink()
    return module.RWKV_x070


def original(tensors, spec):
    """Return the tensors with the names of BlinkDL's files, in float32."""
    out = {}
    for name, w in tensors.items():
        name = name.removeprefix("rwkv.").replace("embeddings.", "emb.").replace("pre_ln", "ln0").replace("attention.", "att.").replace("feed_forward.", "ffn.")
        if "time_mix_" in name:
            start, long = name.rsplit("_", 1)
            name = f"{start}_{SHORT[long]}"
        out[name] = w.float()
    for i in range(spec["config"]["num_hidden_layers"]):  # the package detects 5.1 before 5.2 by the gate
        for part in ("time_decay", "time_faaaa"):
            at = f"blocks.{i}.att.{part}"
            out[at] = out[at].reshape(-1, spec["config"]["head_size"]) if spec["version"] == 5 or part == "time_faaaa" else out[at]
    return dict(sorted(out.items(), key=lambda item: ("ln_x" not in item[0], "gate" not in item[0], "time_faaaa" in item[0])))


def reference(tensors, spec, folder):
    torch.save(original_7(tensors) if spec["version"] == 7 else original(tensors, spec), folder / "model.pth")
    with contextlib.redirect_stdout(io.StringIO()):
        if spec["version"] == 7:
            model = class_7(spec["config"]["head_dim"], folder)(str(folder / "model"), "cpu fp32")
        else:
            model = rwkv.model.RWKV(str(folder / "model"), "cpu fp32", verbose=False)
    (folder / "model.pth").unlink()
    return model


def logits_of(model, tokens):
    with torch.no_grad():
        return model.forward([int(t) for t in tokens], None, full_output=True)[0].double().numpy()


def greedy_of(model, tokens, n):
    """Return the continuation, and the least lead of a choice as a share of the largest logit."""
    rows = []
    out, state = model.forward([int(t) for t in tokens], None)
    for _ in range(n):
        rows.append(out.double().numpy())
        out, state = model.forward([int(rows[-1].argmax())], state)
    top = np.sort(np.stack(rows), axis=1)
    return np.array([r.argmax() for r in rows], "<i4"), (top[:, -1] - top[:, -2]) / np.abs(top).max()


def write(folder, tensors, spec):
    kind = f"rwkv{spec['version']}"
    if spec["version"] == 7:
        ranks = {f"{name}_low_rank_dim": spec["ranks"][part] for name, part in (("decay", "w"), ("gate", "g"), ("a", "a"), ("v", "v"))}
        config = dict(spec["config"], **ranks, model_type=kind, architectures=["RWKV7ForCausalLM"], hidden_act="sqrelu", norm_eps=1e-5, norm_first=True,
                      norm_bias=True, attn=None, attn_mode="chunk", max_position_embeddings=256, bos_token_id=make.BOS, eos_token_id=make.EOS,
                      tie_word_embeddings=False, use_cache=True, fuse_norm=False, hidden_ratio=4.0)
    else:
        config = dict(BASE, **spec["config"], attention_hidden_size=spec["config"]["hidden_size"], model_type=kind, architectures=[f"Rwkv{spec['version']}ForCausalLM"])
    (folder / "config.json").write_text(json.dumps(dict(sorted(config.items())), indent=1) + "\n")
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)


def make_folder(name):
    spec, out = MODELS[name], HERE / name
    out.mkdir(exist_ok=True)
    for seed in range(1, 200):
        tensors = weights(spec, seed)
        model = reference(tensors, spec, out)
        tokens = np.random.RandomState(100 + seed).randint(0, make.N_VOCAB, N_TOKEN).astype("<i4")
        greedy, lead = greedy_of(model, tokens[:N_PROMPT], N_GREEDY)
        if lead.min() > 1e-3 and len(set(greedy.tolist())) >= 8 and not set(greedy.tolist()) & {make.BOS, make.EOS}:
            break
    else:
        sys.exit(f"{name}: no seed gives clear choices")
    write(out, tensors, spec)
    make.write_tokenizer(out)
    make.write_json(out / "generation_config.json", dict(bos_token_id=make.BOS, eos_token_id=[make.EOS, make.BOS], do_sample=True, temperature=0.7, top_k=40, top_p=0.9))
    tokens.tofile(out / "tokens.i32")
    greedy.tofile(out / "greedy.i32")
    make.save_logits(out / "logits.f32", logits_of(model, tokens))
    print(f"{name}: seed {seed}, smallest greedy lead {lead.min():.4f}")


def odd(version, r):
    if version == 7:
        n = r.choice((8, 12, 16, 20, 32))
        return dict(version=7, ranks={part: r.choice((2, 5, 16)) for part in "wavg"},
                    config=dict(vocab_size=r.randrange(90, 300), hidden_size=n * r.choice((3, 4, 5)), head_dim=n, num_hidden_layers=r.randrange(1, 6),
                                intermediate_size=r.choice((33, 97, 160))))
    n = r.choice((8, 12, 16, 20, 32))
    return dict(version=version, rank_mix=r.choice((2, 4, 7)), rank_decay=r.choice((2, 5, 16)),
                config=dict(vocab_size=r.randrange(90, 300), hidden_size=n * r.choice((1, 2, 3, 5)), head_size=n, num_hidden_layers=r.randrange(1, 6),
                            intermediate_size=r.choice((None, 33, 97, 160))))


def sweep(names, count):
    """Compare quoth's logits with the package's, in chunks, too. Compare greedy choices with a clear lead."""
    import odd as tool  # run_quoth and its program
    worst, all_d, n_left, n_all = 0, [], 0, 0
    for name in names:
        for seed in range(count):
            spec = odd(MODELS[name]["version"], random.Random(f"{name} {seed}"))
            if spec["config"]["hidden_size"] < 24:
                spec["config"]["hidden_size"] *= 3  # norms over only a few lanes amplify rounding
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                tensors = weights(spec, seed)
                model = reference(tensors, spec, folder)
                write(folder, tensors, spec)
                tokens = np.random.RandomState(seed).randint(0, spec["config"]["vocab_size"], 64).astype("<i4")
                greedy, lead = greedy_of(model, tokens, 64)
                tokens = np.concatenate([tokens, greedy[:-1]])
                want, n_vocab, first = logits_of(model, tokens), spec["config"]["vocab_size"], None
                for step in tool.STEPS:
                    got = tool.run_quoth(LOGITS, folder, tokens, want.shape, step)
                    if isinstance(got, str):
                        sys.exit(f"{name} {seed}: {spec}: {got}")
                    assert first is None or (got == first).all(), f"{name} {seed}: chunks of {step} change bits"
                    first = got
                if said := tool.same_bits(LOGITS, folder, tokens, want.shape, 0):
                    sys.exit(f"{name} {seed}: {said}")
                d = make.distance(first, want)
                clear = lead > 1e-3
                n_left, n_all = n_left + int((~clear).sum()), n_all + len(clear)
                assert (first[63:].argmax(axis=1) == greedy)[clear].all(), f"{name} {seed}: another choice"
                assert d <= 1e-4, f"{name} {seed}: {spec}: {d}"
                all_d.append(d)
                worst = max(worst, d)
    print(f"{' '.join(names)}: {len(all_d)} configurations, max {worst:.1e}, median {float(np.median(all_d)):.1e}; "
          f"choices left out {100 * n_left / n_all:.1f} %")


if __name__ == "__main__":
    args = sys.argv[1:]
    if args[:1] == ["--sweep"]:
        for one in args[2:] or MODELS:
            sweep([one], int(args[1]))
    else:
        for one in args or MODELS:
            make_folder(one)
