#!/usr/bin/env python3
"""Make the golden checkpoints: tiny random models, written and run by Hugging Face transformers.

    tests/golden/make.py [NAME...]     makes all, or the named folders beside this file
    tests/golden/make.py --check       makes them in a temporary folder and compares with what is here

README.md describes the files. Everything follows from the tables below: weights come from numpy's
frozen RandomState, not from a library's initialization, so a newer transformers makes the same checkpoints.
Where the packages are missing, the script creates a virtual environment outside the repository
(QUOTH_VENV, or quoth/golden-venv in the user's cache folder), installs them there and runs itself in it.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NEEDED = ["torch>=2.4", "transformers>=5,<6", "safetensors", "gguf>=0.17", "numpy>=2"]
PACKAGES = NEEDED + ["accelerate"]  # with it transformers reads the GGUF files back, see verify()


def enter_venv():
    if all(importlib.util.find_spec(p.split(">")[0]) for p in NEEDED):
        return
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    venv = pathlib.Path(os.environ.get("QUOTH_VENV") or os.path.join(cache, "quoth", "golden-venv"))
    python = venv / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == venv.resolve():
        sys.exit(f"make.py: {venv} lacks one of: {', '.join(NEEDED)}; remove that folder and try again")
    if not python.exists():
        print(f"make.py: creating {venv} and installing {', '.join(PACKAGES)}", file=sys.stderr)
        subprocess.check_call([sys.executable, "-m", "venv", str(venv)])
        subprocess.check_call([str(python), "-m", "pip", "install", "--quiet", *PACKAGES])
    os.execv(python, [str(python), *sys.argv])


enter_venv()
os.environ["HF_HUB_OFFLINE"] = "1"

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

N_BYTE_TOKEN = 256  # then two merges and two special tokens
N_VOCAB = 260
BOS, EOS = 258, 259
N_TOKEN, N_PROMPT, N_GREEDY = 80, 16, 24

COMMON = dict(vocab_size=N_VOCAB, num_hidden_layers=3, max_position_embeddings=256, bos_token_id=BOS,
              eos_token_id=EOS, pad_token_id=None, rms_norm_eps=1e-5)

# arch: the architecture of the GGUF file. old_config: config.json in the spelling of transformers 4, which
# most published checkpoints still have. types: further GGUF files, with matrices of these types. swap: q and k rows reordered in the GGUF file, see permute().
MODELS = {
    # wavelengths 6, 20, 63, 199 ...: the first stays, two are smoothed, the others are divided by 8
    "llama3": dict(
        cls=transformers.LlamaForCausalLM, arch="llama", swap=True, seed=29, old_config=True,
        types=("Q8_0", "Q4_1", "BF16", "F16"),
        config=dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
                    head_dim=16, tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                                         low_freq_factor=1.0, high_freq_factor=4.0,
                                         original_max_position_embeddings=64))),
    "llama-untied": dict(
        cls=transformers.LlamaForCausalLM, arch="llama", swap=True, seed=53,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=2,
                    tie_word_embeddings=False, rms_norm_eps=1e-2,
                    rope_parameters=dict(rope_type="default", rope_theta=5000.0))),
    # a window of 16 hides most of the 80 tokens; head_dim is not hidden_size / num_attention_heads
    "mistral": dict(
        cls=transformers.MistralForCausalLM, arch="llama", swap=True, seed=6, old_config=True,
        shard="64KB",
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
                    head_dim=16, sliding_window=16, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    "qwen2": dict(
        cls=transformers.Qwen2ForCausalLM, arch="qwen2", swap=False, seed=57,
        config=dict(hidden_size=32, intermediate_size=96, num_attention_heads=2, num_key_value_heads=1,
                    tie_word_embeddings=True, rms_norm_eps=1e-6, use_sliding_window=False,
                    rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    "qwen3": dict(
        cls=transformers.Qwen3ForCausalLM, arch="qwen3", swap=False, seed=31,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
                    head_dim=16, tie_word_embeddings=True, rms_norm_eps=1e-6, use_sliding_window=False,
                    rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    # every fourth layer without rope, a rule that GGUF files of this architecture leave to the reader: 4 layers
    "smollm3": dict(
        cls=transformers.SmolLM3ForCausalLM, arch="smollm3", swap=True, seed=14,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1,
                    num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=4,
                    tie_word_embeddings=True, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
}


def random_weight(rng, name, shape):
    """Weights large enough that attention is uneven and logits are spread: far from an untrained model's."""
    if name.endswith("norm.weight"):
        w = rng.uniform(0.5, 1.5, shape)
    elif name.endswith(".bias"):
        w = rng.normal(0, 0.5, shape)
    elif "embed_tokens" in name:
        w = rng.normal(0, 0.4, shape)
    else:
        gain = 1.6 if "q_proj" in name or "k_proj" in name else 1.2
        w = rng.normal(0, gain / np.sqrt(shape[1]), shape)
    return torch.from_numpy(w.astype(np.float32))


def make_model(spec, **overrides):
    config = spec["cls"].config_class(**{**COMMON, **spec["config"], **overrides})
    config._attn_implementation = "eager"  # plain matrices: windows are honoured in every version
    config.dtype = "float32"
    model = spec["cls"](config).eval()
    rng = np.random.RandomState(spec["seed"])
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):  # a tied head is listed once
            p.copy_(random_weight(rng, name, tuple(p.shape)))
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=BOS, eos_token_id=[EOS, BOS], do_sample=True, temperature=0.7, top_k=40, top_p=0.9)
    return model


def byte_tokens():
    """GPT-2's printable stand-ins for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    char = {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}
    return [char[b] for b in range(256)]


def vocabulary():
    tokens = byte_tokens() + ["he", "\u0120t", "<|begin|>", "<|end|>"]
    assert len(tokens) == N_VOCAB
    return tokens, ["h e", "\u0120 t"]


def write_tokenizer(out):
    tokens, merges = vocabulary()
    special = [dict(id=i, content=tokens[i], single_word=False, lstrip=False, rstrip=False,
                    normalized=False, special=True) for i in (BOS, EOS)]
    byte_level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    write_json(out / "tokenizer.json", dict(
        version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None,
        pre_tokenizer=byte_level, post_processor=None, decoder=byte_level,
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
                   end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, ignore_merges=False,
                   vocab={t: i for i, t in enumerate(tokens) if i < BOS}, merges=merges)))
    write_json(out / "tokenizer_config.json", dict(
        tokenizer_class="PreTrainedTokenizerFast", add_bos_token=False, bos_token=tokens[BOS],
        eos_token=tokens[EOS], clean_up_tokenization_spaces=False))


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def spell_as_version_4(path):
    config = json.loads(path.read_text())
    rope = dict(config.pop("rope_parameters"))
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    path.write_text(json.dumps(dict(sorted(config.items())), indent=2) + "\n")


def permute(w, n_head):
    """Rows of each head from (first halves, second halves) to adjacent rotary pairs, as GGUF's llama has them."""
    return w.reshape(n_head, 2, w.shape[0] // n_head // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def rope_factors(rope, d_head):
    """What llama-3 scaling divides each frequency by (the tensor rope_freqs.weight)."""
    freq = rope["rope_theta"] ** -(np.arange(0, d_head, 2) / d_head)
    turns = rope["original_max_position_embeddings"] * freq / (2 * np.pi)  # in the original context
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)


def write_gguf(path, spec, model, kind=None):
    """F32, or with the matrices in another type (a GGMLQuantizationType)."""
    c, arch = model.config, spec["arch"]
    d_head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    w = gguf.GGUFWriter(path, arch)
    w.add_type(gguf.GGUFType.MODEL)
    w.add_sampling_temp(model.generation_config.temperature)
    w.add_sampling_top_k(model.generation_config.top_k)
    w.add_sampling_top_p(model.generation_config.top_p)
    w.add_name("golden")  # transformers guesses from names that hold "mistral"
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    if "head_dim" in spec["config"] or arch == "llama":
        w.add_key_length(d_head)
        w.add_value_length(d_head)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    if spec["swap"]:  # the converter's LlamaModel and its children
        w.add_vocab_size(c.vocab_size)
        w.add_rope_dimension_count(d_head)
    if getattr(c, "sliding_window", None):
        w.add_sliding_window(c.sliding_window)  # not written by the converter, see README.md

    tokens, merges = vocabulary()
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.CONTROL if i in (BOS, EOS) else gguf.TokenType.NORMAL
                       for i in range(N_VOCAB)])
    w.add_token_merges(merges)
    w.add_bos_token_id(BOS)
    w.add_eos_token_id(EOS)
    w.add_add_bos_token(False)

    if c.rope_parameters["rope_type"] == "llama3":
        w.add_tensor("rope_freqs.weight", rope_factors(c.rope_parameters, d_head))
    names = gguf.get_tensor_name_map(
        next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch), c.num_hidden_layers)
    for raw, p in model.named_parameters():
        data = p.detach().numpy()
        if spec["swap"] and ".q_proj." in raw:
            data = permute(data, c.num_attention_heads)
        if spec["swap"] and ".k_proj." in raw:
            data = permute(data, c.num_key_value_heads)
        gguf_name = names.get_name(raw, try_suffixes=(".weight", ".bias"))
        if kind is not None and data.ndim == 2:
            w.add_tensor(gguf_name, gguf.quants.quantize(np.ascontiguousarray(data), kind), raw_dtype=kind)
        else:
            w.add_tensor(gguf_name, np.ascontiguousarray(data))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def with_type(spec, kind):
    """The model with its matrices rounded to what the GGUF file of that type holds."""
    model = make_model(spec)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                stored = gguf.quants.quantize(p.numpy(), kind)
                p.copy_(torch.from_numpy(gguf.quants.dequantize(stored, kind)))
    return model.double()


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0].to(torch.float64).numpy()


def hidden_of(model, tokens):
    """The final hidden states, behind the output norm: what embeddings are pooled from."""
    with torch.no_grad():
        ids = torch.from_numpy(tokens.astype(np.int64))[None]
        return model.model(ids).last_hidden_state[0].to(torch.float64).numpy()


def distance(a, b):
    """max|a - b| / max|b|, the tests' measure."""
    return float(np.abs(a - b).max() / np.abs(b).max())


def greedy_of(model, tokens):
    prompt = torch.from_numpy(tokens[:N_PROMPT].astype(np.int64))[None]
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, temperature=None,
                         top_k=None, top_p=None, max_new_tokens=N_GREEDY, pad_token_id=EOS)
    return out[0, N_PROMPT:].numpy().astype("<i4")


def verify(name, spec, out, model, tokens, logits, greedy):
    """The files say what was computed, and the test would notice the mechanism it is there for."""
    back = spec["cls"].from_pretrained(out, attn_implementation="eager").double()
    assert distance(logits_of(back, tokens), logits) < 1e-7, f"{name}: safetensors give other logits"
    assert distance(logits_of(make_model(spec).float(), tokens), logits) < 2e-5, f"{name}: f32 is far from f64"
    # transformers reads the weights of GGUF files too (not smollm3's; mistral's as a llama without the window)
    if importlib.util.find_spec("accelerate") and name != "smollm3":
        plain = name == "mistral"
        cls = transformers.LlamaForCausalLM if plain else spec["cls"]
        want = logits_of(make_model(spec, sliding_window=None).double(), tokens) if plain else logits
        back = cls.from_pretrained(out, gguf_file="model.gguf", config=make_model({**spec, "cls": cls}).config,
                                   dtype=torch.float32).double()
        assert distance(logits_of(back, tokens), want) < 1e-7, f"{name}: GGUF gives other logits"

    without = {"llama3": dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
               "llama-untied": dict(rms_norm_eps=1e-5), "mistral": dict(sliding_window=4096),
               "smollm3": dict(no_rope_layers=[1, 1, 1, 1])}.get(name)
    if without:
        d = distance(logits_of(make_model(spec, **without).double(), tokens), logits)
        assert d > 0.01, f"{name}: {without} changes the logits by {d} only"
    # a greedy choice must not hang on the last bits
    every = logits_of(model, np.concatenate([tokens[:N_PROMPT], greedy]))[N_PROMPT - 1:-1]
    top = np.sort(every, axis=1)
    margin = float(((top[:, -1] - top[:, -2]) / np.abs(logits).max()).min())
    assert len(greedy) == N_GREEDY and (every.argmax(axis=1) == greedy).all()
    assert margin > 1e-3, f"{name}: greedy margin {margin}; take another seed"
    assert len(set(greedy.tolist())) >= 8, f"{name}: dull continuation {greedy}; take another seed"
    return margin


def make(name, root):
    spec = MODELS[name]
    out = root / name
    out.mkdir(exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    model = make_model(spec)
    model.save_pretrained(out, max_shard_size=spec.get("shard", "5GB"))
    for file in out.iterdir():
        file.chmod(0o644)
    if spec.get("old_config"):
        spell_as_version_4(out / "config.json")
    write_tokenizer(out)
    write_gguf(out / "model.gguf", spec, model)
    tokens = np.random.RandomState(100 + spec["seed"]).randint(0, N_VOCAB, N_TOKEN).astype("<i4")
    for kind in spec.get("types", ()):
        gguf_type = gguf.GGMLQuantizationType[kind]
        write_gguf(out / f"model-{kind.lower()}.gguf", spec, model, gguf_type)
        logits_of(with_type(spec, gguf_type), tokens).astype("<f4").tofile(out / f"logits-{kind.lower()}.f32")
    model = model.double()
    logits = logits_of(model, tokens)
    greedy = greedy_of(model, tokens)
    margin = verify(name, spec, out, model, tokens, logits, greedy)
    tokens.tofile(out / "tokens.i32")
    logits.astype("<f4").tofile(out / "logits.f32")
    hidden_of(model, tokens).astype("<f4").tofile(out / "hidden.f32")
    greedy.tofile(out / "greedy.i32")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} weights, max|logit| "
          f"{np.abs(logits).max():.1f}, smallest greedy margin {margin:.4f}")


def compare(name, root):
    """What `make` wrote under root equals what is committed here; false and a line where it does not."""
    def read(folder, file, dtype):
        return np.fromfile(folder / name / file, dtype)
    same = True
    types = [f"model-{kind.lower()}.gguf" for kind in MODELS[name].get("types", ())]
    for file in ("model.gguf", *types, "tokens.i32", "greedy.i32"):
        if (root / name / file).read_bytes() != (HERE / name / file).read_bytes():
            print(f"{name}/{file} differs")
            same = False
    for file in ("logits.f32", "hidden.f32", *(f.replace("model", "logits").replace("gguf", "f32") for f in types)):
        d = distance(read(root, file, "<f4"), read(HERE, file, "<f4"))
        if d > 1e-6:
            print(f"{name}/{file} differs by {d}")
            same = False
    return same


def main(args):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    check = "--check" in args
    names = [a for a in args if a != "--check"] or list(MODELS)
    if unknown := [n for n in names if n not in MODELS]:
        sys.exit(f"make.py: no checkpoint called {unknown[0]}; there are {', '.join(MODELS)}")
    if not check:
        for name in names:
            make(name, HERE)
        return 0
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        for name in names:
            make(name, root)
        return 0 if all([compare(name, root) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
