#!/usr/bin/env python3
"""keys.py - check that a metadata key of a GGUF changes quoth's logits like llama.cpp's logits, for
every key.

    tests/golden/keys.py PROGRAM [ARCH...]      ARCH: a row of ARCHS

PROGRAM is a program of the user with libllama. PROGRAM MODEL TOKENS.i32 OUT.f32 writes f32 logits
[tokens, vocabulary], computed with an F32 cache. For encoders it writes hidden states [tokens,
width]. The keys are those that llama.cpp's converter writes, or llama.cpp reads, for these
architectures. Each key is omitted, and set to legal values, in a setting in which the key has an
effect. Examples are a text beyond window and trained context, small activations for the epsilon,
and new weights if shapes change. quoth's logits (build/logits, f32) must equal llama.cpp's (max|d|
/ max|reference| <= 1e-3). Otherwise quoth must reject the model with the name of the key. Files of
mistral and internlm3 have the architecture llama. Files of olmo3 have the architecture olmo2, and
files of roberta and distilbert the architecture bert. The script needs numpy and gguf, not torch.
QUOTH_LOGITS is another build of build/logits.

All files are made in a temporary folder. The script prints a line per key with the verdicts of
campaign.py, a line per architecture, and then the keys that never changed llama.cpp's logits. The
exit status is 1 if any difference is silent. Architectures with GELU differ by up to 1e-3 if
llama.cpp reads GELU from its table of 16-bit floats (GGML_GELU_FP16). The limit is 2e-3 for mpt,
whose GELU llama.cpp approximates."""
import pathlib
import sys
import tempfile
import zlib

import gguf
import numpy as np

from campaign import ABSENT, N_TOKEN, Campaign, distance, quoth_logits, report

N_VOCAB, N_SEGMENT, LIMIT = 96, 2, 1e-3
# The class has GELU by erf, which llama.cpp approximates by tanh. With 8 heads this changes mpt by
# 1.2e-3, and quoth with tanh differs by at most 2.8e-6.
# Files of modern-bert contain the activation, so the other keys are compared with tanh.
ERF, ERF_LIMIT = ("mpt", ("modern-bert", "hidden_activation")), 2e-3
BOTH = (True, False)
BASE = {"context_length": 128, "embedding_length": 32, "block_count": 5, "feed_forward_length": 48, "attention.head_count": 2,
        "attention.head_count_kv": 1, "attention.key_length": 16, "attention.value_length": 16, "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": 1e-5, "rope.dimension_count": 16, "vocab_size": N_VOCAB}
LAYER_NORM = {"attention.layer_norm_epsilon": 1e-5}
EPSILON = ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon")
# Keys of an architecture's files in addition to BASE. gemma3: every sixth layer has no window.
BESIDE = {"qwen3moe": {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 24},
          "gemma3": {"block_count": 7, "attention.sliding_window": 16, "rope.freq_base_swa": 1000.0},
          "gemma2": {"attention.sliding_window": 16, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 10.0},
          "cohere2": {**LAYER_NORM, "attention.sliding_window": 16, "logit_scale": 0.25},
          "command-r": {**LAYER_NORM, "logit_scale": 0.25},
          "granite": {"logit_scale": 4.0, "residual_scale": 0.7, "embedding_scale": 3.0, "attention.scale": 0.2},
          "gptneox": {**LAYER_NORM, "use_parallel_residual": True},
          "gpt2": {**LAYER_NORM, "context_length": 256},
          "mpt": {**LAYER_NORM, "attention.max_alibi_bias": 8.0},
          "apertus": {"xielu.alpha_n": [0.5, -0.2, 0.8, 0.1, 1.0], "xielu.alpha_p": [0.3, 0.9, -0.4, 0.6, 0.2],
                      "xielu.beta": [0.5, 0.4, 0.6, 0.5, 0.3], "xielu.eps": [-1e-6] * 5},
          "minicpm3": {"attention.head_count_kv": 2, "attention.key_length": 20, "attention.q_lora_rank": 24, "attention.kv_lora_rank": 20,
                       "rope.dimension_count": 8},
          # layers 0, 2 and 4 have windows; the last layer uses the keys and values of layer 2
          "gemma4": {"attention.sliding_window": 16, "attention.sliding_window_pattern": [True, False], "attention.key_length_swa": 8,
                     "attention.value_length_swa": 8, "attention.shared_kv_layers": 1, "rope.dimension_count_swa": 8, "rope.freq_base_swa": 1000.0,
                     "embedding_length_per_layer_input": 12, "final_logit_softcapping": 3.0, "_divisors": ("rope_freqs",)},
          # llama.cpp has the numbers of layers, streams and inputs as constants. It divides the variance of n gates by n - 1,
          # transformers and quoth by n: with 48 gates, logits differ by 3e-2, with 4,800 by 7e-5.
          "gemma3n": {"block_count": 30, "feed_forward_length": 1600, "attention.sliding_window": 16, "rope.freq_base_swa": 1000.0, "attention.shared_kv_layers": 10,
                      "embedding_length_per_layer_input": 256, "altup.num_inputs": 4, "altup.active_idx": 0},
          "mistral3": {"attention.temperature_scale": 0.1, "rope.scaling.yarn_log_multiplier": 1.0},
          "gemma-embedding": {"block_count": 7, "attention.sliding_window": 16, "rope.freq_base_swa": 1000.0},
          "bert": {**LAYER_NORM, "context_length": 256, "attention.causal": False},
          "nomic-bert": {**LAYER_NORM, "attention.causal": False},
          "modern-bert": {**LAYER_NORM, "attention.causal": False, "attention.sliding_window": 16, "rope.freq_base_swa": 1000.0,
                          "attention.head_count_kv": 2, "hidden_activation": "gelu_pytorch_tanh"},
          **{a: LAYER_NORM for a in ("starcoder2", "phi2", "stablelm", "nemotron", "olmo", "falcon", "bloom")}}
ARCHS = ("llama", "qwen2", "qwen3", "smollm3", "olmo2", "qwen3moe", "gemma3", "command-r", "cohere2", "starcoder2", "phi2", "phi3",
         "stablelm", "nemotron", "arcee", "olmo", "gemma", "gemma2", "granite", "chatglm", "glm4", "ernie4_5", "exaone4", "seed_oss",
         "gpt2", "gptneox", "falcon", "bloom", "mpt", "apertus", "hunyuan-dense", "mistral3", "minicpm3", "gemma4", "gemma3n", "gemma-embedding",
         "bert", "nomic-bert", "modern-bert")
# Architectures by parts, which their tensors determine.
BERTS = ("bert", "nomic-bert")  # norms after the sums, segments, no norm before the head
ENCODERS = BERTS + ("gemma-embedding", "modern-bert")  # no head
TIED = ("gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "command-r", "cohere2", "gpt2", "bloom", "mpt")  # no separate head
GPTS = ("gpt2", "gptneox", "bloom")  # biases everywhere, q, k and v in one matrix
BIASED_NORMS = ("starcoder2", "phi2", "stablelm", "nemotron", "falcon") + GPTS + BERTS
QKV_BIAS = ("qwen2", "starcoder2", "phi2", "chatglm", "glm4", "seed_oss", "bert") + GPTS
BIASES = ("starcoder2", "phi2", "bert") + GPTS  # norms of the output of attention and of the feed-forward block
NO_PRE_NORMS = ("olmo2", "exaone4", "olmo") + BERTS
NO_FFN_NORM = ("command-r", "cohere2", "phi2", "seed_oss", "falcon")  # parallel blocks, or another name of a tensor
POST_NORMS = ("olmo2", "gemma2", "gemma3", "gemma3n", "gemma4", "glm4", "exaone4", "gemma-embedding")
HEAD_NORMS = ("qwen3", "qwen3moe", "gemma3", "gemma3n", "gemma4", "exaone4", "apertus", "hunyuan-dense", "gemma-embedding")
NO_GATE = ("starcoder2", "phi2", "nemotron", "arcee", "falcon", "mpt", "apertus", "bert") + GPTS
INPUTS = ("gemma3n", "gemma4")  # inputs of single layers
GATE_IN_UP = ("phi3", "chatglm", "glm4", "modern-bert")
FUSED_QKV = ("phi3", "falcon", "mpt", "nomic-bert", "modern-bert") + GPTS
POSITIONS = ("gpt2", "bert")  # a table of learned positions
NO_ROPE = ("gpt2", "bloom", "mpt", "bert")
# llama.cpp requires hidden size = heads * head size. The head size is then omitted.
SQUARE = ("olmo2", "command-r", "cohere2", "starcoder2", "phi2", "phi3", "stablelm", "nemotron", "olmo", "chatglm", "exaone4", "falcon", "mpt", "modern-bert") + GPTS + BERTS
SMALL_EMBEDDING = ("olmo2", "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "gemma-embedding")
# quoth computes the window of files whose architecture has one in transformers (README.md).
# llama.cpp ignores it.
ON_PURPOSE = {(a, "attention.sliding_window") for a in ("llama", "phi3", "starcoder2", "mistral3")}
# llama.cpp has constants in place of these keys, which its converter writes.
ON_PURPOSE |= {("gemma3n", key) for key in ("attention.shared_kv_layers", "altup.active_idx", "activation_sparsity_scale", "final_logit_softcapping")}
ON_PURPOSE |= {("gemma3n", "feed_forward_length"), ("gemma3n", "block_count")}  # few gates; fewer layers than shared_kv_layers
# llama.cpp ignores a list of olmo2's and gemma3n's windows, which the converter writes. transformers and quoth compute the listed
# windows. The lists below equal llama.cpp's intervals of 4 and 5.
LISTED = {("olmo2", "attention.sliding_window_pattern"): [True, True, True, False],
          ("gemma3n", "attention.sliding_window_pattern"): [True, True, True, True, False]}
# Further settings of all keys of an architecture: models of a certain number of layers, or with
# optional tensors. Names with _ are no keys, but read by tensors().
SIZES = {"exaone4": {" (64 layers)": {"block_count": 64, "attention.sliding_window": 16}},
         "gemma2": {" (46 layers)": {"block_count": 46}},
         "command-r": {" (64 layers)": {"block_count": 64}},
         "olmo2": {" (window)": {"attention.sliding_window": 16}},
         "gemma4": {" (mixture)": {"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 24}},
         "falcon": {" (two norms)": {"_two_norms": True}}}
PER_LAYER = ("xielu.", "activation_sparsity_scale", "attention.sliding_window_pattern", "deepstack_mapping")  # lists of these keys have a value per layer
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32}
LINEAR = {"rope.scaling.factor": 4.0}
# Settings of the rope's keys only. phi3 and minicpm3 have divisors for short and for long contexts.
# quoth rejects every scaling of modern-bert and gemma4.
ROPES = {a: {" (yarn)": YARN, " (linear)": LINEAR} for a in ARCHS if a not in NO_ROPE + ("modern-bert", "gemma4")}
DIVISORS = ("llama", "apertus")
for _a in DIVISORS:
    ROPES[_a][" (divisors)"] = {"_divisors": ("rope_freqs",)}
ROPES["mistral3"][" (yarn of 4096)"] = {**YARN, "rope.scaling.original_context_length": 4096}  # the betas have an effect
for _a in ("phi3", "minicpm3"):
    ROPES[_a][" (divisors)"] = {"_divisors": ("rope_factors_short", "rope_factors_long"), "rope.scaling.attn_factor": 1.2,
                                "rope.scaling.original_context_length": 64}

VALUES = {
    "context_length": (64, 4096), "embedding_length": (64,), "embedding_length_out": (32, 16), "block_count": (1, 4),
    "feed_forward_length": (32, 80), "vocab_size": (96, 64),
    "attention.head_count": (4, 8, 1), "attention.head_count_kv": (2,), "attention.key_length": (16, 32), "attention.value_length": (16, 32),
    "attention.key_length_swa": (16, 8), "attention.value_length_swa": (16, 8), "attention.layer_norm_rms_epsilon": (1e-3, 1e-7),
    "attention.layer_norm_epsilon": (1e-5, 1e-2), "attention.causal": BOTH, "attention.scale": (0.0, 0.1),
    "attention.sliding_window": (0, 16, 40), "attention.sliding_window_pattern": (1, 2, 6, [True, False], [True, True, True, False], [True, True, True, True, False]),
    "attention.clamp_kqv": (0.0, 0.5), "attention.max_alibi_bias": (0.0, 8.0), "attention.temperature_scale": (0.0, 0.5),
    "rope.freq_base": (500.0, 1e6), "rope.freq_base_swa": (300.0, 10000.0), "rope.dimension_count": (16, 8),
    "rope.dimension_count_swa": (16, 8), "rope.dimension_sections": ([4, 2, 2, 0],),
    "rope.scaling.type": ("none", "linear", "yarn", "longrope"), "rope.scaling.factor": (2.0, 16.0, 0.0),
    "rope.scaling.original_context_length": (16, 64, 4), "rope.scaling.attn_factor": (1.0, 0.7),
    "rope.scaling.yarn_ext_factor": (1.0, 0.5), "rope.scaling.yarn_attn_factor": (1.0, 1.5),
    "rope.scaling.yarn_beta_fast": (32.0, 8.0), "rope.scaling.yarn_beta_slow": (1.0, 2.0),
    "rope.scaling.yarn_log_multiplier": (0.0, 1.0), "rope.scaling.finetuned": BOTH, "rope.scale_linear": (2.0, 4.0),
    "rope.scaling.alpha": (0.0, 2.0), "attention.q_lora_rank": (16, 40), "attention.kv_lora_rank": (12, 40),
    "attention.shared_kv_layers": (0, 2, 3), "embedding_length_per_layer_input": (0, 8),
    "altup.num_inputs": (4, 2), "altup.active_idx": (0, 1), "activation_sparsity_scale": ([0.5, -1.0],),
    "expert_count": (0, 2), "expert_used_count": (0, 1, 5), "expert_feed_forward_length": (24, 40), "expert_group_count": (0, 1),
    "expert_group_used_count": (0, 1), "expert_shared_count": (0, 1), "expert_shared_feed_forward_length": (0, 24),
    "expert_weights_scale": (0.0, 1.0, 2.0), "expert_weights_norm": BOTH, "expert_gating_func": (1, 2),
    "leading_dense_block_count": (0, 1), "moe_every_n_layers": (1, 2), "interleave_moe_layer_step": (1, 2), "nextn_predict_layers": (0, 1),
    "xielu.alpha_n": (0.5, [0.1, 0.2, -0.3, 0.4, 2.0]), "xielu.alpha_p": (0.5, [0.1, 0.2, -0.3, 0.4, 2.0]),
    "xielu.beta": (0.5, [0.1, 0.2, 0.3, 0.4, 2.0]), "xielu.eps": (-1e-6, [-1e-2] * 5),
    "classifier.output_labels": (["a"], ["a", "b"]), "deepstack_mapping": ([-1] * 5, [0, -1, -1, -1, -1]),
    "pooling_type": (0, 1), "hidden_activation": ("silu", "gelu"), "logit_scale": (0.0, 0.5), "residual_scale": (0.0, 0.5),
    "embedding_scale": (0.0, 0.5), "attn_logit_softcapping": (0.0, 30.0), "final_logit_softcapping": (0.0, 2.0),
    "use_parallel_residual": BOTH, "tensor_data_layout": ("Meta AI original pth", "x")}


def tensors(arch, k):
    """Generate (name, shape) of the tensors that the keys describe."""
    def key(name):
        return k.get(name) or {**BASE, **BESIDE.get(arch, {})}.get(name, 0)
    d, head, ff = key("embedding_length"), key("attention.head_count"), key("feed_forward_length")
    head_kv = k.get("attention.head_count_kv", head)
    d_k, d_v = k.get("attention.key_length", d // head), k.get("attention.value_length", d // head)
    n, ff_expert = key("expert_count"), k.get("expert_feed_forward_length") or ff // max(key("expert_used_count"), 1)
    def norm(name, n=d):
        yield name + ".weight", (n,)
        if arch in BIASED_NORMS:
            yield name + ".bias", (n,)

    def linear(name, rows, k, biased=False):
        yield name + ".weight", (rows, k)
        if biased:
            yield name + ".bias", (rows,)
    yield "token_embd.weight", (N_VOCAB, d)
    if arch in POSITIONS:
        yield "position_embd.weight", (key("context_length"), d)
    if arch in BERTS:
        yield "token_types.weight", (N_SEGMENT, d)
    if arch in BERTS + ("bloom", "modern-bert"):
        yield from norm("token_embd_norm")
    if arch not in BERTS + ("olmo",):
        yield from norm("output_norm")
    if arch not in TIED + ENCODERS:
        yield from linear("output", N_VOCAB, d, arch == "phi2")
    for name in k.get("_divisors", ()):
        yield name + ".weight", ((k.get("rope.dimension_count") or d_k) // 2,)
    d_input = k.get("embedding_length_per_layer_input", 0)
    if arch in INPUTS and d_input:
        yield "per_layer_token_embd.weight", (N_VOCAB, key("block_count") * d_input)
        yield from linear("per_layer_model_proj", key("block_count") * d_input, d)
        yield "per_layer_proj_norm.weight", (d_input,)
    n_stream = k.get("altup.num_inputs", 4)
    if arch == "gemma3n":
        yield "altup_proj.weight", (n_stream - 1, d, d)
        yield "altup_unembd_proj.weight", (n_stream - 1, d, d)
    slides = k.get("attention.sliding_window_pattern", False)
    for i in range(key("block_count")):
        blk = f"blk.{i}."
        if arch == "gemma4" and (slides[i] if isinstance(slides, list) else slides):
            d_k, d_v = k.get("attention.key_length_swa", d_k), k.get("attention.value_length_swa", d_v)
        elif arch == "gemma4":
            d_k, d_v = k.get("attention.key_length", d // head), k.get("attention.value_length", d // head)
        if arch == "gemma3n":
            for name, shape in (("altup_router", (n_stream, d)), ("altup_router_norm", (d,)), ("altup_predict_coef", (n_stream**2, n_stream)),
                                ("altup_correct_coef", (n_stream, n_stream)), ("altup_correct_scale", (d,)), ("laurel_l", (64, d)),
                                ("laurel_r", (d, 64)), ("laurel_post_norm", (d,))):
                yield f"{blk}{name}.weight", shape
        if arch in INPUTS and d_input:
            yield from linear(blk + "inp_gate", d_input, d)
            yield from linear(blk + "proj", d, d_input)
            yield blk + "post_norm.weight", (d,)
        if arch == "gemma4":
            yield blk + "layer_output_scale.weight", (1,)
        if arch == "minicpm3":
            rank, rank_kv, d_rope = k.get("attention.q_lora_rank", 24), k.get("attention.kv_lora_rank", 20), k.get("rope.dimension_count", d_k)
            yield from linear(blk + "attn_q_a", rank, d)
            yield blk + "attn_q_a_norm.weight", (rank,)
            yield from linear(blk + "attn_q_b", head * d_k, rank)
            yield from linear(blk + "attn_kv_a_mqa", rank_kv + d_rope, d)
            yield blk + "attn_kv_a_norm.weight", (rank_kv,)
            yield from linear(blk + "attn_kv_b", head * (d_k - d_rope + d_v), rank_kv)
        elif arch in FUSED_QKV:
            yield from linear(blk + "attn_qkv", head * d_k + head_kv * (d_k + d_v), d, arch in QKV_BIAS)
        else:
            for what, rows in (("attn_q", head * d_k), ("attn_k", head_kv * d_k), ("attn_v", head_kv * d_v)):
                yield from linear(blk + what, rows, d, arch in QKV_BIAS)
        yield from linear(blk + "attn_output", d, head * d_v, arch in BIASES)
        if arch in HEAD_NORMS:
            yield blk + "attn_q_norm.weight", (d_k,)
            yield blk + "attn_k_norm.weight", (d_k,)
        if arch == "olmo2":
            yield blk + "attn_q_norm.weight", (head * d_k,)
            yield blk + "attn_k_norm.weight", (head_kv * d_k,)
        if arch == "command-r" and key("block_count") >= 64:
            yield blk + "attn_q_norm.weight", (head, d_k)
            yield blk + "attn_k_norm.weight", (head_kv, d_k)
        if arch not in NO_PRE_NORMS and not (arch == "modern-bert" and i == 0):
            yield from norm(blk + "attn_norm")
        if k.get("_two_norms"):
            yield from norm(blk + "attn_norm_2")
        if arch in BERTS:
            yield from norm(blk + "attn_output_norm")
            yield from norm(blk + "layer_output_norm")
        if arch not in NO_PRE_NORMS + NO_FFN_NORM:
            yield from norm(blk + "ffn_norm")
        if arch in POST_NORMS or arch == "seed_oss":
            yield blk + "post_attention_norm.weight", (d,)
        if arch in POST_NORMS:
            yield blk + "post_ffw_norm.weight", (d,)
        if arch == "gemma4" and n:
            yield blk + "ffn_gate_inp.weight", (n, d)
            yield blk + "ffn_gate_inp.scale", (d,)
            yield blk + "ffn_gate_up_exps.weight", (n, 2 * ff_expert, d)
            yield blk + "ffn_down_exps.weight", (n, d, ff_expert)
            yield blk + "ffn_down_exps.scale", (n,)
            for name in ("post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"):
                yield f"{blk}{name}.weight", (d,)
        if arch == "qwen3moe":
            yield blk + "ffn_gate_inp.weight", (n, d)
            yield blk + "ffn_gate_exps.weight", (n, ff_expert, d)
            yield blk + "ffn_up_exps.weight", (n, ff_expert, d)
            yield blk + "ffn_down_exps.weight", (n, d, ff_expert)
            continue
        if arch not in NO_GATE + GATE_IN_UP:
            yield from linear(blk + "ffn_gate", ff, d)
        yield from linear(blk + "ffn_up", ff * (2 if arch in GATE_IN_UP else 1), d, arch in BIASES)
        yield from linear(blk + "ffn_down", d, ff, arch in BIASES)


def values(arch, name, shape, small):
    """Return weights that depend only on name and shape, so that a key that changes no shape
    changes no weight."""
    rng = np.random.RandomState(zlib.crc32(f"{name} {shape}".encode()))
    if "norm" in name:
        w = rng.uniform(0.5, 1.5, shape) * (0.3 if arch in INPUTS and "attn_q_norm" in name else 1)  # the scores of these architectures have no factor
        w *= 0.1 if arch == "gemma3n" and "post_" in name else 1  # 30 layers amplify rounding
    elif name.endswith(".scale") or "output_scale" in name or "correct_scale" in name:
        w = rng.uniform(0.5, 1.5, shape)
    elif name.startswith("rope_"):
        w = rng.uniform(1, 4, shape)
    elif name.endswith(".bias"):
        w = rng.normal(0, 0.5, shape)
    elif name in ("token_embd.weight", "position_embd.weight", "token_types.weight"):
        w = rng.normal(0, 0.05 if arch in SMALL_EMBEDDING else 0.4, shape) * (1e-3 if small else 1)
    else:
        w = rng.normal(0, (1.6 if "attn_q" in name or "attn_k" in name else 1.2) / np.sqrt(shape[-1]), shape)
    return w.astype(np.float32)


def add_value(writer, key, value):
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    else:
        writer.add_uint32(key, value)


class GgufCampaign(Campaign):
    def __init__(self, folder, quoth, llama):
        super().__init__(folder, quoth)
        self.llama = llama

    def write(self, path, arch, keys):
        w = gguf.GGUFWriter(path, arch)
        for key, value in keys.items():
            if not key.startswith("_"):
                add_value(w, key if key.startswith("xielu.") else f"{arch}.{key}", value)
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("gpt-2")
        w.add_token_list([chr(33 + i) for i in range(N_VOCAB - 2)] + ["\u0120", "he"])
        w.add_token_types([gguf.TokenType.NORMAL] * N_VOCAB)
        w.add_token_merges(["h e"])
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        if arch in BERTS:
            w.add_token_type_count(N_SEGMENT)
        usual = {**BASE, **BESIDE.get(arch, {})}
        # llama.cpp has no minimum of a stream's mean square, which small activations would reach
        small = arch != "gemma3n" and any(keys.get(k) != usual.get(k) for k in EPSILON)
        for name, shape in tensors(arch, keys):
            w.add_tensor(name, values(arch, name, shape, small))
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()

    def verdict(self, label, name, want, got, said, limit):
        if want is not None and got is not None:
            self.most = max(self.most, distance(got, want))
        return super().verdict(label, name, want, got, said, limit)

    def run(self, arch, setting):
        keys = {**BASE, **BESIDE.get(arch, {})}
        if arch in SQUARE:
            del keys["attention.key_length"], keys["attention.value_length"]
        if arch in NO_ROPE:
            del keys["rope.freq_base"], keys["rope.dimension_count"]
        keys = {k: v for k, v in {**keys, **setting}.items() if v is not ABSENT}
        n = keys.get("block_count", BASE["block_count"])
        keys = {k: [v[i % len(v)] for i in range(n)] if isinstance(v, list) and k.startswith(PER_LAYER) else v for k, v in keys.items()}
        path = self.folder / "model.gguf"
        self.write(path, arch, keys)
        want, self.why = self.program(self.llama, path, N_TOKEN)
        got, said = self.program(self.quoth, path, N_TOKEN)
        return want, got, said

    def keys(self, arch):
        """Check all keys of an architecture, and print a line with the counts."""
        before, n_idle, n = dict(self.count), len(self.idle), {}
        self.most = 0.0
        for key, some in VALUES.items():
            limit = ERF_LIMIT if arch in ERF or (arch, key) in ERF else LIMIT
            if (arch, key) in ON_PURPOSE:
                print(f"{arch:8s} {key:42s} differs on purpose")
                continue
            if (arch, key) in LISTED:
                some = [v for v in some if not isinstance(v, list) or v == LISTED[arch, key]]
            settings = {"": {}, **SIZES.get(arch, {})}
            if key.startswith("rope.") or key == "context_length":
                settings.update(ROPES.get(arch, {}))
            for label, beside in settings.items():
                variants = [("absent", {**beside, key: ABSENT}, beside)]
                variants += [(str(v), {**beside, key: v}, beside) for v in some]
                self.field(arch, key + label, variants, limit, self.run)
                n[key] = n.get(key, 0) + 1
        idle = [name.split(" (")[0] for _, name in self.idle[n_idle:]]
        count = {mark: self.count[mark] - before[mark] for mark in before}
        print(f"{arch}: {len(n)} keys, {sum(idle.count(key) < n[key] for key in n)} moved llama.cpp; {sum(count.values())} configurations: "
              f"{count['='] + count['w']} equal (at most {self.most:.1e}), {count['R']} refused by name, {count['x']} that llama.cpp refuses, "
              f"{count['!']} silent", flush=True)


def main(args):
    if not args:
        sys.exit("keys.py: name a program that prints llama.cpp's logits")
    with tempfile.TemporaryDirectory() as folder:
        c = GgufCampaign(pathlib.Path(folder), quoth_logits(), args[0])
        for arch in [a for a in args[1:] if a in ARCHS] or ARCHS:
            c.keys(arch)
        return 0 if report(c, "GGUF keys against " + args[0]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
