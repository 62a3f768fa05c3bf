"""fields.py - does every field of a model's configuration change quoth's logits as it changes the reference's?

    tests/golden/make.py --fields [--llama-logits PROGRAM] [NAME...]      NAME: llama, mistral, qwen2, qwen3, smollm3, olmo2, qwen3_moe, gemma3_text

Each field of these config classes of transformers (every class gets the others' fields too), of their base class and
of rope_parameters, is left out and set to legal values, in a setting where it matters: a text beyond window and trained
context, small activations for the epsilon, weights made anew where shapes change. quoth's logits (build/logits, f32) must
equal transformers' (max|d| / max|reference| <= 1e-4), or quoth must refuse the model and name the field. The same for the
GGUF keys that llama.cpp's converter writes for these architectures, against a program of the user's own that is called
PROGRAM MODEL TOKENS.i32 OUT.f32 and writes f32 logits [tokens, vocabulary] (<= 1e-3); without it that half is left out. QUOTH_LOGITS is another build of build/logits.

Everything is made in a temporary folder. Prints a line per field: = equal, R refused by name, w a warning names the field,
x the reference refuses, ! silently different; then the fields that never moved the reference. Exit 1 on any !."""
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ABSENT = object()
N_TOKEN, LONG = 160, 4200  # the second is beyond the default windows of 4096

CLASSES = {"llama": transformers.LlamaForCausalLM, "mistral": transformers.MistralForCausalLM,
           "qwen2": transformers.Qwen2ForCausalLM, "qwen3": transformers.Qwen3ForCausalLM,
           "smollm3": transformers.SmolLM3ForCausalLM, "olmo2": transformers.Olmo2ForCausalLM,
           "qwen3_moe": transformers.Qwen3MoeForCausalLM, "gemma3_text": transformers.Gemma3ForCausalLM}
BASE = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False,
            rope_theta=10000.0, pad_token_id=0)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)
ROPE = {"default": dict(rope_type="default", rope_theta=10000.0),
        "linear": dict(rope_type="linear", rope_theta=10000.0, factor=4.0),
        "llama3": dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                       original_max_position_embeddings=64),
        "yarn": YARN}
SLIDING = dict(use_sliding_window=True, sliding_window=16, max_window_layers=1)
FULL, SLIDES = "full_attention", "sliding_attention"

# Two legal values of each field (None: null). A field that is not here gets BOTH.
BOTH = (True, False)
VALUES = dict(
    vocab_size=(64, 130), hidden_size=(64, 16), intermediate_size=(32, 80), num_hidden_layers=(1, 5),
    num_attention_heads=(8, 2), num_key_value_heads=(1, 4, None), head_dim=(8, 32, None),
    hidden_act=("silu", "swish", "gelu", "relu", "gelu_pytorch_tanh"), max_position_embeddings=(64, 4096),
    initializer_range=(0.5, 0.001), rms_norm_eps=(1e-3, 1e-7), pad_token_id=(3, 5, None), bos_token_id=(3, 5, None),
    eos_token_id=(3, [4, 5], None), sep_token_id=(3, 5), decoder_start_token_id=(3, 5), pretraining_tp=(2, 4),
    attention_dropout=(0.5, 0.1), sliding_window=(16, 40, None), max_window_layers=(0, 2),
    layer_types=([FULL, SLIDES, SLIDES], [SLIDES, FULL, SLIDES], [FULL] * 3, None), no_rope_layers=([1, 0, 1], [0, 0, 1], None),
    no_rope_layer_interval=(2, 3), rope_theta=(500.0, 1e6), partial_rotary_factor=(0.5, 1.0),
    original_max_position_embeddings=(16, 96), rope_parameters=(ROPE["linear"], YARN, {}, None),
    rope_scaling=(dict(type="linear", factor=4.0), {k: v for k, v in YARN.items() if k != "rope_theta"}, {}, None),
    transformers_version=("4.40.0", "5.0.0"), architectures=(["SomeForCausalLM"], []), dtype=("float32", "bfloat16"),
    torch_dtype=("float32", "bfloat16"), chunk_size_feed_forward=(1, 2), id2label=({"0": "a"}, {"0": "a", "1": "b"}),
    label2id=({"a": 0}, {"a": 0, "b": 1}), problem_type=("regression", "multi_label_classification"), num_labels=(1, 3),
    name_or_path=("a", "b"), _name_or_path=("a", "b"), attn_implementation=("eager", "sdpa"), tokenizer_class=("A", "B"),
    unsloth_version=("1", "2"), attention_chunk_size=(8, 16), attn_logit_softcapping=(30.0, 50.0), logit_scale=(0.5, 2.0),
    residual_multiplier=(0.5, 2.0), embedding_multiplier=(0.5, 2.0), temperature=(0.5, 2.0), max_length=(10, 20), num_experts=(3, 6),
    num_experts_per_tok=(1, 3), moe_intermediate_size=(16, 40), decoder_sparse_step=(2, 3), mlp_only_layers=([0], [0, 2], None),
    final_logit_softcapping=(0.5, 30.0, None), query_pre_attn_scalar=(8, 64), sliding_window_pattern=(2, 3),
    rope_local_base_freq=(300.0, 20000.0), hidden_activation=("gelu_pytorch_tanh", "gelu", "silu", "relu"),
    router_aux_loss_coef=(0.1, 0.5),
   
    text_config=(dict(hidden_size=8), {}), per_layer_config=({"0": {"intermediate_size": 32}}, {}),
    quantization_config=(dict(quant_method="gptq", bits=4), dict(quant_method="fp8")), auto_map=({}, {"AutoModel": "a.B"}))
MORE = ("rope_theta", "rope_scaling", "partial_rotary_factor", "original_max_position_embeddings", "torch_dtype", "num_labels",
        "name_or_path", "_name_or_path", "attn_implementation", "output_attentions", "tie_last_hidden_states", "is_causal",
        "is_decoder", "add_cross_attention", "sep_token_id", "decoder_start_token_id", "tokenizer_class", "unsloth_version",
        "attention_chunk_size", "attn_logit_softcapping", "logit_scale", "residual_multiplier", "embedding_multiplier",
        "temperature", "sliding_window_pattern", "rope_local_base_freq", "max_length", "text_config", "per_layer_config", "quantization_config", "auto_map")
# Where a field matters: what is set beside it; and beside its absence, if that differs.
SETTING = dict(
    rms_norm_eps=dict(small=True), max_position_embeddings=dict(rope_parameters=dict(rope_type="yarn", factor=4.0)),
    use_sliding_window=SLIDING, sliding_window=SLIDING, max_window_layers=SLIDING, layer_types=SLIDING,
    original_max_position_embeddings=dict(rope_parameters={k: v for k, v in YARN.items() if k[0] != "o"}),
    rope_scaling=dict(rope_parameters=ROPE["default"]), head_dim=dict(), num_attention_heads=dict(num_key_value_heads=2))
SETTING_ABSENT = dict(
    sliding_window=dict(use_sliding_window=True, max_window_layers=0, n_token=LONG, max_position_embeddings=8192,
                        num_attention_heads=1, num_key_value_heads=1, num_hidden_layers=2),
    max_window_layers=dict(SLIDING, num_hidden_layers=30), num_key_value_heads=dict(num_attention_heads=32),
    num_attention_heads=dict(num_key_value_heads=4), hidden_size=dict(num_hidden_layers=1), intermediate_size=dict(num_hidden_layers=1))

ROPE_VALUES = dict(
    rope_theta=(500.0, 1e6), rope_type=("linear", "default"), type=("linear", "yarn"), partial_rotary_factor=(0.5, 1.0),
    factor=(2.0, 16.0, None), original_max_position_embeddings=(16, 64), attention_factor=(1.5, 0.7), beta_fast=(8.0, 16.0, 0.0),
    beta_slow=(2.0, 0.5), short_factor=([1.0] * 8, [2.0] * 8), long_factor=([1.0] * 8, [2.0] * 8), low_freq_factor=(0.5, 2.0),
    high_freq_factor=(3.0, 8.0), mscale=(0.707, 1.0), mscale_all_dim=(0.5, 1.0), truncate=(False, True),
    mrope_section=([4, 2, 2], [2, 3, 3]), finetuned=BOTH, extrapolation_factor=(0.5, 1.0), attn_factor=(0.5, 1.0),
    full_attention=(ROPE["default"], ROPE["linear"]), llama_4_scaling_beta=(0.1, 0.5))
ROPE_BESIDE = dict(beta_fast=dict(original_max_position_embeddings=4096), mscale=dict(mscale_all_dim=0.4), mscale_all_dim=dict(mscale=1.2))
TYPES_REFUSED = (dict(rope_type="dynamic", factor=4.0), dict(rope_type="proportional", factor=4.0), dict(rope_type="su", factor=4.0),
                 dict(rope_type="longrope", short_factor=[1.0] * 8, long_factor=[2.0] * 8, original_max_position_embeddings=32))


def distance(a, b):
    """max|a - b| / max|b|; infinite if the shapes differ or a number is missing."""
    if a.shape != b.shape or not np.isfinite(a).all():
        return float("inf")
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def weights_for(make, model, small):
    """Weights that depend on name and shape alone, so that a field that changes no shape changes no weight."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            rng = np.random.RandomState(zlib.crc32(f"{name} {tuple(p.shape)}".encode()))
            w = make.random_weight(rng, name, tuple(p.shape))
            p.copy_(w * 1e-3 if small and name.startswith("model.embed") else w)
    return model


class Campaign:
    def __init__(self, make, folder, quoth, llama):
        self.make, self.folder, self.quoth, self.llama = make, folder, quoth, llama
        self.count = dict.fromkeys("=Rwx!", 0)
        self.wrong, self.idle, self.refused, self.seen = [], [], [], {}

    # ---- one configuration ----

    def tokens(self, n):
        path = self.folder / f"tokens-{n}.i32"
        if not path.exists():
            np.random.RandomState(7).randint(0, 60, n).astype("<i4").tofile(path)
        return path

    def program(self, program, path, n):
        """Logits [n, vocabulary] and None, or None and what it said."""
        out = self.folder / "out.f32"
        out.unlink(missing_ok=True)
        r = subprocess.run([program, path, self.tokens(n), out], capture_output=True, text=True, errors="replace", timeout=300)
        said = r.stderr.strip()
        return (np.fromfile(out, "<f4").reshape(n, -1), said) if r.returncode == 0 else (None, said or f"exit {r.returncode}")

    def reference(self, config, n):
        """What transformers computes for the folder's config.json; weights are written beside it."""
        cls = CLASSES[config["model_type"]]
        parsed = cls.config_class.from_pretrained(self.folder)
        parsed._attn_implementation = "eager"
        parsed._experts_implementation = "eager"
        for key in ("quantization_config",):
            if hasattr(parsed, key):
                delattr(parsed, key)
        model = weights_for(self.make, cls(parsed).float().eval(), self.small)
        save_file({k: p.detach().contiguous() for k, p in self.make.published(model)}, self.folder / "model.safetensors")
        model = model.double()
        ids = torch.from_numpy(np.fromfile(self.tokens(n), "<i4").astype(np.int64))[None]
        with torch.no_grad():
            return model(ids, use_cache=False, return_dict=True).logits[0].double().numpy()

    def compare(self, arch, setting):
        """(reference's logits or None, quoth's or None, what quoth said)."""
        config = dict(BASE, model_type=arch)
        if arch == "smollm3":
            config["no_rope_layer_interval"] = 2  # so that one of three layers is without rope, where windows are
        if arch == "qwen3_moe":
            config.update(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24)
        config.update({k: v for k, v in setting.items() if k not in ("small", "n_token")})
        config = {k: v for k, v in config.items() if v is not ABSENT}
        self.small, n = setting.get("small", False), setting.get("n_token", N_TOKEN)
        (self.folder / "config.json").write_text(json.dumps(config))
        try:
            want = self.reference(config, n)
        except Exception as e:  # any refusal of the reference
            want, self.why = None, f"{type(e).__name__}: {e}".splitlines()[0][:100]
        got, said = self.program(self.quoth, self.folder, n)
        return want, got, said

    why = ""  # the reference refused last

    # ---- verdicts ----

    def verdict(self, label, name, want, got, said, limit):
        leaf = name.split(" (")[0].split(".")[-1]
        names_it = leaf in said or (leaf in ("type", "rope_type", "rope scaling") and ("rope scaling" in said or "rope.scaling" in said))
        if got is None:
            mark = "R" if names_it or want is None else "!"
            if mark == "!":
                self.wrong.append(f"{label}: refused without a word of {leaf}: {said[-200:]}")
        elif want is None:
            mark = "x"
            self.refused.append(f"{label}: {self.why}")
        elif distance(got, want) <= limit:
            mark = "w" if "warning" in said and names_it else "="
        else:
            mark = "!"
            self.wrong.append(f"{label}: differs by {distance(got, want):.2e} without a word")
        self.count[mark] += 1
        return mark

    def field(self, arch, name, variants, limit, run):
        """variants: (label, setting, setting of the comparison for `moved`)."""
        marks, moved = [], False
        for label, setting, plain in variants:
            want, got, said = run(arch, setting)
            mark = self.verdict(f"{arch} {name} {label}", name, want, got, said, limit)
            marks.append(f"{label}:{mark}")
            key = (arch, repr(sorted(plain.items(), key=str)))
            if want is not None and key not in self.seen:
                self.seen[key] = run(arch, plain)[0]
            base = self.seen.get(key)
            moved |= want is not None and (base is None or distance(want, base) > 1e-6)
        if not moved:
            self.idle.append((arch, name))
        print(f"{arch:8s} {name:42s} {' '.join(marks)}", flush=True)

    # ---- config.json ----

    def fields_of(self, arch):
        own = {f.name for cls in CLASSES.values() for f in dataclasses.fields(cls.config_class)}
        return sorted(own | set(MORE))

    def top_level(self, arch):
        for name in self.fields_of(arch):
            setting = dict(SETTING.get(name, {}))
            absent = dict(SETTING_ABSENT.get(name, setting))
            if name == "rope_parameters":
                setting = absent = {}
            variants = [("absent", dict(absent, **{name: ABSENT}), absent)]
            for i, value in enumerate(VALUES.get(name, BOTH)):
                variants.append(("null" if value is None else str(i + 1), dict(setting, **{name: value}), setting))
            self.field(arch, name, variants, 1e-4, self.compare)

    def rope(self, arch):
        for kind, base in ROPE.items():
            for name, values in ROPE_VALUES.items():
                beside = dict(base, **ROPE_BESIDE.get(name, {}))
                plain = dict(rope_parameters=beside, rope_theta=ABSENT)
                less = {k: v for k, v in beside.items() if k != name}
                variants = [("absent", dict(rope_parameters=less, rope_theta=ABSENT), plain)]
                for i, value in enumerate(values):
                    variants.append(("null" if value is None else str(i + 1),
                                     dict(rope_parameters=dict(beside, **{name: value}), rope_theta=ABSENT), plain))
                self.field(arch, f"rope_parameters.{kind}.{name}", variants, 1e-4, self.compare)
        for p in TYPES_REFUSED:
            variants = [(p["rope_type"], dict(rope_parameters=p), {})]
            self.field(arch, "rope_parameters.rope scaling", variants, 1e-4, self.compare)

    def weights_twice(self, arch):
        """A tied model whose file holds both matrices: equal ones are one, others are two."""
        for tie in BOTH:
            want, got, said = self.compare(arch, dict(tie_word_embeddings=False))
            config = json.loads((self.folder / "config.json").read_text())
            (self.folder / "config.json").write_text(json.dumps(dict(config, tie_word_embeddings=tie)))
            got, said = self.program(self.quoth, self.folder, N_TOKEN)
            print(f"{arch:8s} a head beside the embedding, tie_word_embeddings {tie}: "
                  f"{self.verdict(f'{arch} head', 'tie_word_embeddings', want, got, said, 1e-4)}")


# ---- GGUF ----

GGUF_BASE = {"context_length": 128, "embedding_length": 32, "block_count": 5, "feed_forward_length": 48, "attention.head_count": 2,
             "attention.head_count_kv": 1, "attention.key_length": 16, "attention.value_length": 16, "rope.freq_base": 10000.0,
             "attention.layer_norm_rms_epsilon": 1e-5, "rope.dimension_count": 16, "vocab_size": 96}
YARN_KEYS = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32}
GGUF_VALUES = {
    "context_length": (64, 4096), "embedding_length": (64,), "block_count": (1, 4), "feed_forward_length": (32, 80),
    "attention.head_count": (4, 8), "attention.head_count_kv": (2,), "attention.key_length": (16,), "attention.value_length": (16,),
    "rope.freq_base": (500.0, 1e6), "attention.layer_norm_rms_epsilon": (1e-3, 1e-7), "rope.dimension_count": (16, 8),
    "vocab_size": (96, 64), "rope.scaling.type": ("none", "linear", "yarn", "longrope"), "rope.scaling.factor": (2.0, 16.0, 0.0),
    "rope.scaling.original_context_length": (16, 64, 4), "rope.scaling.attn_factor": (1.0, 0.7), "rope.scaling.yarn_ext_factor": (1.0, 0.5),
    "rope.scaling.yarn_attn_factor": (1.0, 1.5), "rope.scaling.yarn_beta_fast": (32.0, 8.0), "rope.scaling.yarn_beta_slow": (1.0, 2.0),
    "rope.scaling.yarn_log_multiplier": (0.0, 1.0), "rope.scaling.finetuned": BOTH, "rope.scale_linear": (2.0, 4.0),
    "rope.scaling.alpha": (0.0, 2.0), "attention.causal": (True, False), "expert_count": (0, 2), "expert_used_count": (0, 1),
    "expert_group_count": (0, 1), "expert_group_used_count": (0, 1), "attention.layer_norm_epsilon": (1e-5, 1e-2),
    "attention.scale": (0.0, 0.1), "pooling_type": (0, 1), "hidden_activation": ("silu", "gelu"),
    "logit_scale": (0.0, 0.5), "attn_logit_softcapping": (0.0, 30.0), "tensor_data_layout": ("Meta AI original pth", "x")}


def add_value(writer, key, value):
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


class GgufCampaign(Campaign):
    def model_of(self, arch, k):
        """The weights that the keys describe, from the class whose files have this architecture."""
        head = k.get("attention.head_count", 2)
        config = CLASSES[arch].config_class(
            vocab_size=96, hidden_size=k.get("embedding_length", 32), intermediate_size=k.get("feed_forward_length", 48),
            num_hidden_layers=k.get("block_count", 5), num_attention_heads=head, tie_word_embeddings=False, pad_token_id=0,
            num_key_value_heads=k.get("attention.head_count_kv", head),
            head_dim=k.get("attention.key_length", k.get("embedding_length", 32) // head))
        return weights_for(self.make, CLASSES[arch](config).float(), k.get("attention.layer_norm_rms_epsilon", 0) != 1e-5), config

    def write(self, path, arch, keys):
        model, c = self.model_of(arch, keys)
        w = gguf.GGUFWriter(path, arch)
        for key, value in keys.items():
            add_value(w, f"{arch}.{key}", value)
        tokens, merges = self.make.byte_tokens()[:96], ["h e"]
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("gpt-2")
        w.add_token_list(tokens)
        w.add_token_types([gguf.TokenType.NORMAL] * 96)
        w.add_token_merges(merges)
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        names = gguf.get_tensor_name_map(next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch), c.num_hidden_layers)
        for raw, p in model.named_parameters():
            data = p.detach().numpy()
            if arch in ("llama", "smollm3") and (".q_proj." in raw or ".k_proj." in raw):
                data = self.make.permute(data, c.num_attention_heads if ".q_proj." in raw else c.num_key_value_heads)
            w.add_tensor(names.get_name(raw, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(data))
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()

    def run(self, arch, setting):
        keys = {k: v for k, v in {**GGUF_BASE, **setting}.items() if v is not ABSENT}
        path = self.folder / "model.gguf"
        self.write(path, arch, keys)
        want, _ = self.program(self.llama, path, N_TOKEN)
        got, said = self.program(self.quoth, path, N_TOKEN)
        return want, got, said

    def keys(self, arch):
        for key, values in GGUF_VALUES.items():
            for label, beside in (("", {}), (" (yarn)", YARN_KEYS), (" (linear)", {"rope.scaling.factor": 4.0})):
                if label and not key.startswith("rope.") and key != "context_length":
                    continue
                variants = [("absent", {**beside, key: ABSENT}, beside)]
                variants += [(str(v), {**beside, key: v}, beside) for v in values]
                self.field(arch, key + label, variants, 1e-3, self.run)


def report(c, what):
    print(f"\n{what}: {sum(c.count.values())} configurations: {c.count['='] + c.count['w']} equal ({c.count['w']} with a warning that names the "
          f"field), {c.count['R']} refused by name, {c.count['x']} that the reference refuses, {c.count['!']} silently different")
    idle = {}
    for arch, name in c.idle:
        idle.setdefault(name, []).append(arch)
    n = max(len(v) for v in idle.values()) if idle else 0
    print("never moved the reference:", ", ".join(k if len(v) == n else f"{k} ({' '.join(v)})" for k, v in idle.items()) or "none")
    for line in c.refused:
        print("computed, though the reference refuses:", line)
    for line in c.wrong:
        print("!", line)
    return not c.wrong


def main(make, args):
    torch.set_num_threads(1)
    llama = args[args.index("--llama-logits") + 1] if "--llama-logits" in args else None
    names = [a for a in args if a in CLASSES] or list(CLASSES)
    quoth = os.environ.get("QUOTH_LOGITS")
    if not quoth:
        quoth = ROOT / "build" / "logits"
        subprocess.check_call(["make", "-s", "-C", ROOT, "build/logits"])
    same = True
    with tempfile.TemporaryDirectory() as folder:
        c = Campaign(make, pathlib.Path(folder), quoth, None)
        for arch in names:
            c.top_level(arch)
            c.rope(arch)
            c.weights_twice(arch)
        same &= report(c, "config.json against transformers " + transformers.__version__)
    if not llama:
        print("\nGGUF keys: left out, because no --llama-logits PROGRAM was named")
        return 0 if same else 1
    with tempfile.TemporaryDirectory() as folder:
        g = GgufCampaign(make, pathlib.Path(folder), quoth, llama)
        for arch in names:
            if arch != "mistral":  # its GGUF files are llamas
                g.keys(arch)
        same &= report(g, "GGUF keys against " + llama)
    return 0 if same else 1
