#!/usr/bin/env python3
"""Make the golden checkpoints: tiny random models, written and run by Hugging Face transformers.

    tests/golden/make.py [NAME...]     makes all, or the named folders, in the folder of this file
    tests/golden/make.py --check       makes them in a temporary folder and compares them with the committed ones
    tests/golden/make.py --sweep N     compares N random configurations of each class with transformers: odd.py
    tests/golden/make.py --fields      compares the effect of every field of a config.json with transformers: fields.py

README.md describes the files. The tables of this script define all checkpoints. Weights come from
numpy's frozen RandomState, not from a library's initialization, so a newer transformers makes the
same checkpoints. The script creates a virtual environment outside the repository if the packages
are missing (QUOTH_VENV, or quoth/golden-venv in the user's cache folder). It installs the packages
there and runs itself in that environment. """
import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NEEDED = ["torch>=2.4", "transformers>=5,<6", "safetensors", "gguf>=0.17", "numpy>=2"]
PACKAGES = NEEDED + ["accelerate"]  # transformers needs accelerate to read GGUF files (verify)


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

import wrappers  # noqa: E402
from campaign import distance  # noqa: E402

N_BYTE_TOKEN = 256  # two merges and two special tokens follow
N_VOCAB = 260
BOS, EOS = 258, 259
N_TOKEN, N_PROMPT, N_GREEDY = 80, 16, 24
HIDDEN = ("llama3", "llama-untied", "mistral", "qwen2", "qwen3", "smollm3")  # folders with hidden.f32
EVERY = 5  # logits.f32 has every fifth position, up to the last

COMMON = dict(vocab_size=N_VOCAB, num_hidden_layers=2, max_position_embeddings=256, bos_token_id=BOS,
              eos_token_id=EOS, pad_token_id=None, rms_norm_eps=1e-5)

YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)

# the smallest sizes of a mixture
SMALL = dict(hidden_size=16, intermediate_size=16, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True, rms_norm_eps=1e-6,
             rope_parameters=dict(rope_type="default", rope_theta=10000.0))

LLAMA4 = dict(num_hidden_layers=4, intermediate_size=12, intermediate_size_mlp=24, head_dim=8, num_local_experts=4, num_experts_per_tok=2,
              interleave_moe_layer_step=2)

GEMMA4 = dict(hidden_size=24, num_attention_heads=2, num_key_value_heads=1, head_dim=8, global_head_dim=16, sliding_window=16,
              vocab_size_per_layer_input=N_VOCAB, tie_word_embeddings=True, rms_norm_eps=1e-6,
              rope_parameters=dict(full_attention=dict(rope_type="proportional", rope_theta=10000.0, partial_rotary_factor=0.5),
                                   sliding_attention=dict(rope_type="default", rope_theta=1000.0)))

# variants: other rope_parameters, and fields of config.json in MORE_FIELDS, over the same weights,
# their config.json and the logits after the whole text.
# arch: the architecture of the GGUF file; None: llama.cpp has none, and no GGUF file is written.
# old_config: config.json in the spelling of transformers 4, which most published checkpoints still
# have.
# dtype: type of the safetensors, and of the matrices of the GGUF file (default bfloat16).
# types: further GGUF files, with matrices of these types.
# swap: q and k rows are reordered in the GGUF file, see permute().
# keys: further keys of the GGUF file.
# config_class: the class of the configuration, if the model's class is of another family.
# eps: field of the epsilon, if the class has LayerNorm, or another name (rms); None: the epsilon is a constant of the class.
# attn: attention of the class, if the plain one is wrong.
# without: fields of COMMON that the class lacks.
# scales: factors of weights by a part of their names. Scores without a factor, and streams that
# grow, amplify rounding.
# groups: q, k and v of a head are together in the Hugging Face file, see ungroup().
# draft: the folder also has a layer that predicts further tokens.
# mxfp4: the experts' matrices are MXFP4 in both files, see mxfp4_codes().
MORE_FIELDS = ("max_position_embeddings",)
MODELS = {
    # wavelengths 6, 20, 63, 199 ...: the first is unchanged, two are smoothed, the others are
    # divided by 8
    "llama3": dict(
        cls=transformers.LlamaForCausalLM, arch="llama", swap=True, seed=29, dtype="float32", old_config=True,
        types=("Q8_0", "Q4_1"),
        variants={"yarn-untruncated": dict(YARN, truncate=False), "yarn-mscale": dict(YARN, mscale=0.707, mscale_all_dim=0.4),
                  "yarn-attention-factor": dict(YARN, attention_factor=1.5),
                  "linear": dict(rope_type="linear", rope_theta=10000.0, factor=3.0),
                  "dynamic": dict(rope_type="dynamic", rope_theta=10000.0, factor=3.0, max_position_embeddings=32),
                  "longrope": dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=64,
                                   short_factor=[1.0] * 8, long_factor=[1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]),
                  "mrope": dict(rope_type="default", rope_theta=10000.0),  # the sections of a text
                  "theta": dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                original_max_position_embeddings=64)},
        config=dict(num_hidden_layers=3, hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
                    head_dim=16, tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                                         low_freq_factor=1.0, high_freq_factor=4.0,
                                         original_max_position_embeddings=64))),
    "llama-untied": dict(
        cls=transformers.LlamaForCausalLM, arch="llama", swap=True, seed=53, dtype="float32",
        config=dict(num_hidden_layers=3, hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=2,
                    tie_word_embeddings=False, rms_norm_eps=1e-2,
                    rope_parameters=dict(rope_type="default", rope_theta=5000.0))),
    # a window of 16 hides most of the 80 tokens; head_dim is not hidden_size / num_attention_heads
    "mistral": dict(
        cls=transformers.MistralForCausalLM, arch="llama", swap=True, seed=6, dtype="float32", old_config=True,
        shard="64KB",
        config=dict(num_hidden_layers=3, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
                    head_dim=16, sliding_window=16, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    "qwen2": dict(
        cls=transformers.Qwen2ForCausalLM, arch="qwen2", swap=False, seed=57, dtype="float32",
        config=dict(num_hidden_layers=3, hidden_size=32, intermediate_size=96, num_attention_heads=2, num_key_value_heads=1,
                    tie_word_embeddings=True, rms_norm_eps=1e-6, use_sliding_window=False,
                    rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    "qwen3": dict(
        cls=transformers.Qwen3ForCausalLM, arch="qwen3", swap=False, seed=31, dtype="float32",
        config=dict(num_hidden_layers=3, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
                    head_dim=16, tie_word_embeddings=True, rms_norm_eps=1e-6, use_sliding_window=False,
                    rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    # every fourth layer without rope, although GGUF files of this architecture do not have this
    # rule: 4 layers
    "smollm3": dict(
        cls=transformers.SmolLM3ForCausalLM, arch="smollm3", swap=True, seed=14, dtype="float32",
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1,
                    num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=4,
                    tie_word_embeddings=True, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # norms after each block instead of before it; q and k normalized over all heads
    "olmo2": dict(
        cls=transformers.Olmo2ForCausalLM, arch="olmo2", swap=False, seed=1, embed=0.05,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
                    tie_word_embeddings=False, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # two experts of five for each row
    "qwen3moe": dict(
        cls=transformers.Qwen3MoeForCausalLM, arch="qwen3moe", swap=False, seed=3, dtype="float32",
        config=dict(num_hidden_layers=3, hidden_size=32, intermediate_size=64, moe_intermediate_size=24, num_experts=5, num_experts_per_tok=2,
                    norm_topk_prob=True, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                    tie_word_embeddings=False, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    # GeGLU, scaled embeddings, norms stored minus 1
    "gemma": dict(
        cls=transformers.GemmaForCausalLM, arch="gemma", swap=False, seed=4, norm_add=1, embed=0.05,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=24,
                    tie_word_embeddings=True, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # every other layer has a window; caps of scores and logits
    "gemma2": dict(
        cls=transformers.Gemma2ForCausalLM, arch="gemma2", swap=False, seed=3, norm_add=1, embed=0.05,
        keys={"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                    sliding_window=16, query_pre_attn_scalar=16, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
                    tie_word_embeddings=True, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # factors of embeddings, scores, residual branches and logits
    "granite": dict(
        cls=transformers.GraniteForCausalLM, arch="granite", swap=True, seed=67, dtype="float16",
        keys={"embedding_scale": 3.0, "attention.scale": 0.4, "residual_scale": 0.7, "logit_scale": 2.0},
        config=dict(num_hidden_layers=3, hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1,
                    embedding_multiplier=3.0, attention_multiplier=0.4, residual_multiplier=0.7, logits_scaling=2.0,
                    tie_word_embeddings=True, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # biases of q, k and v
    "seed_oss": dict(
        cls=transformers.SeedOssForCausalLM, arch="seed_oss", swap=False, seed=2,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=24,
                    tie_word_embeddings=False, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # adjacent lanes rotate
    "ernie4_5": dict(
        cls=transformers.Ernie4_5ForCausalLM, arch="ernie4_5", swap=False, seed=3,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=24,
                    tie_word_embeddings=True, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # norms after each block and of heads
    "exaone4": dict(
        cls=transformers.Exaone4ForCausalLM, arch="exaone4", swap=False, seed=2, embed=0.05,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                    sliding_window=None, layer_types=["full_attention"] * 2, tie_word_embeddings=True, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # q, k and v in one matrix, gate and up in one. Half of a head's lanes rotate, with LongRoPE's
    # divisors for texts of up to 24 tokens, and for longer texts.
    "phi3": dict(
        cls=transformers.Phi3ForCausalLM, arch="phi3", swap=False, seed=12, short=24,
        keys={"rope.scaling.original_context_length": 24,
              "rope.scaling.attn_factor": float(np.sqrt(1 + np.log(256 / 24) / np.log(24))), "rope.dimension_count": 8},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, sliding_window=48,
                    original_max_position_embeddings=24, tie_word_embeddings=False, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5,
                                         short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[1.0, 2.0, 4.0, 8.0]))),
    # adjacent lanes rotate, half of each head; biases of q, k and v
    "glm": dict(
        cls=transformers.GlmForCausalLM, arch="chatglm", swap=False, seed=4, keys={"rope.dimension_count": 8},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                    tie_word_embeddings=False, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # glm with norms after the blocks too
    "glm4": dict(
        cls=transformers.Glm4ForCausalLM, arch="glm4", swap=False, seed=5, keys={"rope.dimension_count": 8},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                    tie_word_embeddings=False, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # LayerNorm without bias, parallel blocks, norms of heads with weights per head, a factor of
    # the logits, adjacent lanes rotate
    "cohere": dict(
        cls=transformers.CohereForCausalLM, arch="command-r", swap=False, seed=7, eps="layer_norm_eps",
        keys={"logit_scale": 0.5, "rope.scaling.type": "none"},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, use_qk_norm=True,
                    logit_scale=0.5, tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # cohere with a window of 16 in three layers of four; no rope in the fourth
    "cohere2": dict(
        cls=transformers.Cohere2ForCausalLM, arch="cohere2", swap=False, seed=1, eps="layer_norm_eps",
        keys={"logit_scale": 0.5, "rope.scaling.type": "none", "rope.dimension_count": 16},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=4,
                    sliding_window=16, logit_scale=0.5, tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # LayerNorm with bias, biases everywhere, a window, no gate
    "starcoder2": dict(
        cls=transformers.Starcoder2ForCausalLM, arch="starcoder2", swap=False, seed=166, eps="norm_epsilon",
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, sliding_window=24,
                    tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # parallel blocks without a gate, biases everywhere, half of each head rotates
    "phi": dict(
        cls=transformers.PhiForCausalLM, arch="phi2", swap=False, seed=5, eps="layer_norm_eps", keys={"rope.dimension_count": 8},
        config=dict(hidden_size=32, intermediate_size=128, num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # LayerNorm with bias, biases of q, k and v, a quarter of each head rotates
    "stablelm": dict(
        cls=transformers.StableLmForCausalLM, arch="stablelm", swap=False, seed=1, eps="layer_norm_eps",
        keys={"rope.dimension_count": 4, "use_parallel_residual": False},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, use_qkv_bias=True,
                    tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25))),
    # LayerNorm stored minus 1, squared ReLU without a gate, half of each head rotates
    "nemotron": dict(
        cls=transformers.NemotronForCausalLM, arch="nemotron", swap=False, seed=18, eps="norm_eps", norm_add=1,
        keys={"rope.dimension_count": 8, "rope.scaling.type": "none", "attention.layer_norm_rms_epsilon": 1e-5},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # LayerNorm without weights; q, k and v clamped
    "olmo": dict(
        cls=transformers.OlmoForCausalLM, arch="olmo", swap=True, seed=4, eps="layer_norm_eps", keys={"attention.clamp_kqv": 1.0},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, clip_qkv=1.0,
                    tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # llama with squared ReLU and without a gate
    "arcee": dict(
        cls=transformers.ArceeForCausalLM, arch="arcee", swap=True, seed=6,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # windows in three layers of four, which have a rope without the other's YaRN
    "olmo3": dict(
        cls=transformers.Olmo3ForCausalLM, arch="olmo2", swap=False, seed=1, embed=0.05,
        keys={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32,
              "attention.sliding_window_pattern": [True, True, True, False]},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=4,
                    sliding_window=16, tie_word_embeddings=False, rms_norm_eps=1e-6,
                    rope_parameters=dict(full_attention=YARN, sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    # queries scaled by position: the factor changes after every 16 tokens
    "ministral3": dict(
        cls=transformers.Ministral3ForCausalLM, arch="mistral3", swap=True, seed=7,
        keys={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
              "rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0, "rope.scaling.yarn_log_multiplier": 0.5,
              "attention.temperature_scale": 0.5},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=24,
                    tie_word_embeddings=True,
                    rope_parameters=dict(YARN, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                                         mscale_all_dim=0.5, llama_4_scaling_beta=0.5))),
    # norms of heads after rope; the rope's alpha is a larger base
    "hunyuan": dict(
        cls=transformers.HunYuanDenseV1ForCausalLM, arch="hunyuan-dense", swap=False, seed=1,
        gguf_base=10000.0 * 50.0 ** (24 / 22), keys={"rope.scaling.type": "none", "rope.scaling.factor": 1.0},
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=24,
                    tie_word_embeddings=True, rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=50.0))),
    # biases in all linear layers of the blocks
    "internlm3": dict(
        cls=transformers.LlamaForCausalLM, config_class=transformers.InternLM3Config, arch="llama", swap=True, seed=2,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=24,
                    attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # xIELU without a gate; norms of heads
    "apertus": dict(
        cls=transformers.ApertusForCausalLM, arch="apertus", swap=False, seed=3,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # norms inside the blocks, squared ReLU with a gate; GGUF files of this name have SiLU
    "bitnet": dict(
        cls=transformers.BitNetForCausalLM, arch=None, swap=False, seed=3,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # adjacent lanes rotate
    "helium": dict(
        cls=transformers.HeliumForCausalLM, arch=None, swap=False, seed=3,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                    tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # learned positions; transposed matrices; q, k and v in one matrix
    "gpt2": dict(
        cls=transformers.GPT2LMHeadModel, arch="gpt2", swap=False, seed=58, eps="layer_norm_epsilon",
        config=dict(n_embd=32, n_head=2, tie_word_embeddings=True)),
    # parallel blocks with a norm each; q, k and v of a head together; half of each head rotates
    "gpt_neox": dict(
        cls=transformers.GPTNeoXForCausalLM, arch="gptneox", swap=False, seed=12, eps="layer_norm_eps", groups=True,
        keys={"use_parallel_residual": True, "rope.dimension_count": 8}, gguf_base=None,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # parallel blocks with one norm; half of each head rotates, adjacent lanes; a head with a bias
    "gptj": dict(
        cls=transformers.GPTJForCausalLM, arch=None, swap=False, seed=8, eps="layer_norm_epsilon",
        config=dict(n_embd=32, n_head=2, n_inner=64, rotary_dim=8, tie_word_embeddings=False)),
    # learned positions from row 2 on; ReLU without a gate
    "opt": dict(
        cls=transformers.OPTForCausalLM, arch=None, swap=False, seed=24, eps=None, embed=0.1,
        config=dict(hidden_size=32, ffn_dim=64, num_attention_heads=2, tie_word_embeddings=True)),
    # norms after the sums; matrices between a narrower embedding and the layers
    "opt-post": dict(
        cls=transformers.OPTForCausalLM, arch=None, swap=False, seed=106, eps=None,
        config=dict(hidden_size=32, ffn_dim=64, num_attention_heads=2, do_layer_norm_before=False, word_embed_proj_dim=24,
                    tie_word_embeddings=False)),
    # parallel blocks with a norm each; q, k and v of a KV head together
    "falcon": dict(
        cls=transformers.FalconForCausalLM, arch="falcon", swap=False, seed=6, eps="layer_norm_epsilon", groups=True, gguf_base=None,
        keys={"attention.head_count_kv": 2, "tensor_data_layout": "jploski"},
        config=dict(hidden_size=32, num_attention_heads=4, new_decoder_architecture=True, num_kv_heads=2, tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # serial blocks, biases, ALiBi with slopes that bfloat16 represents
    "falcon-rw": dict(
        cls=transformers.FalconForCausalLM, arch=None, swap=False, seed=187, embed=0.1, eps="layer_norm_epsilon", attn="sdpa",
        config=dict(hidden_size=64, num_attention_heads=8, ffn_hidden_size=64, multi_query=False, parallel_attn=False, alibi=True, bias=True,
                    tie_word_embeddings=True)),
    # ALiBi with slopes of a number of heads that is no power of 2; a norm of the embedded rows
    "bloom": dict(
        cls=transformers.BloomForCausalLM, arch="bloom", swap=False, seed=13, eps="layer_norm_epsilon", groups=True,
        without=("max_position_embeddings",), keys={"attention.head_count_kv": 6},
        config=dict(hidden_size=48, n_head=6, tie_word_embeddings=False)),
    # ALiBi; LayerNorm without bias; q, k and v clamped
    "mpt": dict(
        cls=transformers.MptForCausalLM, arch="mpt", swap=False, seed=29, embed=0.1, eps="layer_norm_epsilon", without=("max_position_embeddings",),
        keys={"attention.clamp_kqv": 1.0, "attention.max_alibi_bias": 8.0},
        config=dict(d_model=32, n_heads=2, max_seq_len=256, attn_config=dict(clip_qkv=1.0), tie_word_embeddings=True)),
    # Layers have inputs and a factor after them. Every other layer has a window, and smaller heads.
    # The last two layers use the keys and values of the two before them, and have wider blocks.
    "gemma4": dict(
        cls=transformers.Gemma4ForCausalLM, arch="gemma4", swap=False, seed=22, embed=0.1, scales={"q_norm": 0.5},
        keys={"attention.key_length": 16, "attention.value_length": 16, "attention.key_length_swa": 8, "attention.value_length_swa": 8,
              "attention.shared_kv_layers": 2, "attention.sliding_window_pattern": [True, False] * 3, "embedding_length_per_layer_input": 4,
              "feed_forward_length": [16] * 4 + [32] * 2, "rope.dimension_count": 16, "rope.dimension_count_swa": 8,
              "final_logit_softcapping": 3.0},
        config=dict(GEMMA4, num_hidden_layers=6, layer_types=["sliding_attention", "full_attention"] * 3, intermediate_size=16,
                    hidden_size_per_layer_input=4, num_kv_shared_layers=2, use_double_wide_mlp=True, final_logit_softcapping=3.0)),
    # values equal to the keys before their norm, of one head, in layers without a window; a mixture
    # next to the feed-forward block
    "gemma4-moe": dict(
        cls=transformers.Gemma4ForCausalLM, arch="gemma4", swap=False, seed=5, embed=0.1, scales={"q_norm": 0.5},
        keys={"attention.key_length": 16, "attention.value_length": 16, "attention.key_length_swa": 8, "attention.value_length_swa": 8,
              "attention.shared_kv_layers": 0, "attention.sliding_window_pattern": [True, True, False], "embedding_length_per_layer_input": 0,
              "attention.head_count_kv": [2, 2, 1], "rope.dimension_count": 16, "rope.dimension_count_swa": 8,
              "final_logit_softcapping": 5.0},
        config=dict(GEMMA4, num_hidden_layers=3, num_key_value_heads=2, layer_types=["sliding_attention"] * 2 + ["full_attention"], intermediate_size=24,
                    hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True, num_experts=5,
                    final_logit_softcapping=5.0, top_k_experts=2, moe_intermediate_size=8)),
    # four residual streams, a learned residual, sparse gates, inputs of layers; the last two layers
    # use the keys and values of the two before them
    "gemma3n": dict(
        cls=transformers.Gemma3nForCausalLM, arch="gemma3n", swap=False, seed=3, embed=0.1, scales={"q_norm": 0.1, "modality_router": 0.1, "_coefs": 0.5},
        keys={"attention.shared_kv_layers": 2, "attention.sliding_window_pattern": [True, False] * 3, "embedding_length_per_layer_input": 4,
              "altup.num_inputs": 4, "altup.active_idx": 0, "final_logit_softcapping": 3.0,
              "activation_sparsity_scale": [0.8416212, float("-inf"), 0.0, float("-inf"), float("-inf"), float("-inf")]},
        config=dict(hidden_size=24, num_attention_heads=2, num_key_value_heads=1, head_dim=8, intermediate_size=16, sliding_window=16,
                    num_hidden_layers=6, layer_types=["sliding_attention", "full_attention"] * 3, vocab_size_per_layer_input=N_VOCAB,
                    hidden_size_per_layer_input=4, num_kv_shared_layers=2, laurel_rank=4, final_logit_softcapping=3.0,
                    activation_sparsity_pattern=[0.8, 0.0, 0.5, 0.0, 0.0, 0.0], tie_word_embeddings=True, rms_norm_eps=1e-6,
                    rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=10000.0),
                                         sliding_attention=dict(rope_type="default", rope_theta=1000.0)))),
    # latent attention; LongRoPE in a part of each head; factors of embeddings, residuals and logits,
    # which llama.cpp has as constants. The class does not recompute a text that becomes too long
    # for the short list, so the reference generates without a cache.
    "minicpm3": dict(
        cls=transformers.MiniCPM3ForCausalLM, arch="minicpm3", swap=False, seed=2, short=24, cache=False, embed=0.05,
        keys={"attention.q_lora_rank": 24, "attention.kv_lora_rank": 20, "attention.key_length": 20, "rope.dimension_count": 8,
              "rope.scaling.original_context_length": 24, "rope.scaling.attn_factor": float(np.sqrt(1 + np.log(256 / 24) / np.log(24)))},
        config=dict(hidden_size=32, intermediate_size=32, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=24, kv_lora_rank=20,
                    qk_nope_head_dim=12, qk_rope_head_dim=8, rms_norm_eps=1e-6, tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=24,
                                         short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[1.0, 2.0, 4.0, 8.0]))),
    # latent attention, of which only the latent is kept; a mixture with groups of experts and a block
    # of all rows after a layer without a mixture; addends of the scores for the choice; YaRN
    "deepseek_v3": dict(
        cls=transformers.DeepseekV3ForCausalLM, arch="deepseek2", swap=False, seed=2, embed=0.05,
        keys={"attention.head_count_kv": 1, "attention.q_lora_rank": 24, "attention.kv_lora_rank": 20, "attention.key_length": 28,
              "attention.value_length": 20, "attention.key_length_mla": 20, "attention.value_length_mla": 16, "rope.dimension_count": 8,
              "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32,
              "rope.scaling.yarn_log_multiplier": 0.1, "leading_dense_block_count": 1, "expert_count": 6, "expert_used_count": 2,
              "expert_feed_forward_length": 16, "expert_shared_count": 1, "expert_weights_scale": 2.5, "expert_weights_norm": True,
              "expert_gating_func": 2, "expert_group_count": 3, "expert_group_used_count": 2},
        config=dict(hidden_size=32, intermediate_size=32, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=24, kv_lora_rank=20,
                    qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=6, n_group=3, topk_group=2, num_experts_per_tok=2,
                    moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1, rms_norm_eps=1e-6, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32,
                                         mscale=1.0, mscale_all_dim=1.0))),
    # a mixture in every layer, with the rope of llama; GGUF files have the same label
    "mixtral": dict(
        cls=transformers.MixtralForCausalLM, arch="llama", swap=True, seed=1,
        config=dict(SMALL, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    # biases of q, k and v; a block of all rows with a factor per row
    "qwen2_moe": dict(
        cls=transformers.Qwen2MoeForCausalLM, arch="qwen2moe", swap=False, seed=1, keys={"expert_shared_feed_forward_length": 12},
        config=dict(SMALL, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=12)),
    # MXFP4 experts with biases, a gated unit with limits, sinks, a window in the first layer, YaRN
    # whose ramp is not rounded
    "gpt_oss": dict(
        cls=transformers.GptOssForCausalLM, arch="gpt-oss", swap=False, seed=3, mxfp4=True,
        keys={"expert_feed_forward_length": 32, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32,
              "rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0},
        config=dict(SMALL, hidden_size=32, intermediate_size=32, head_dim=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=16,
                    rope_parameters=dict(YARN, beta_fast=32.0, beta_slow=1.0, truncate=False))),
    # a mixture with groups and a block of all rows after a layer without a mixture; norms of heads,
    # of which half rotates
    "glm4_moe": dict(
        cls=transformers.Glm4MoeForCausalLM, arch="glm4moe", swap=False, seed=5,
        keys={"rope.dimension_count": 4, "expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 8, "expert_shared_count": 1,
              "leading_dense_block_count": 1, "expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_gating_func": 2,
              "expert_group_count": 3, "expert_group_used_count": 2},
        config=dict(SMALL, attention_bias=True, use_qk_norm=True, n_routed_experts=6, n_group=3, topk_group=2, num_experts_per_tok=2,
                    moe_intermediate_size=8, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=2.5, num_mtp_layers=0,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # glm4_moe with the tensors of a layer that predicts further tokens, as published files have them
    "glm4_moe-draft": dict(
        cls=transformers.Glm4MoeForCausalLM, arch=None, swap=False, seed=2, draft=True,
        config=dict(SMALL, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, first_k_dense_replace=1, num_mtp_layers=1,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # norms of q and k over all heads, before their limit
    "olmoe": dict(
        cls=transformers.OlmoeForCausalLM, arch="olmoe", swap=False, seed=3, embed=0.1, keys={"attention.clamp_kqv": 1.0},
        config=dict(SMALL, num_experts=4, num_experts_per_tok=2, clip_qkv=1.0)),
    # granite with a mixture and a block of all rows
    "granitemoeshared": dict(
        cls=transformers.GraniteMoeSharedForCausalLM, arch="granitemoe", swap=True, seed=2, embed=0.1,
        keys={"embedding_scale": 3.0, "attention.scale": 0.4, "residual_scale": 0.7, "logit_scale": 2.0, "expert_shared_feed_forward_length": 12},
        config=dict(SMALL, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=12, embedding_multiplier=3.0,
                    attention_multiplier=0.4, residual_multiplier=0.7, logits_scaling=2.0)),
    # SparseMixer; LayerNorm with bias; biases of attention and of the head; LongRoPE's short list
    "phimoe": dict(
        cls=transformers.PhimoeForCausalLM, arch="phimoe", swap=False, seed=2,
        keys={"rope.dimension_count": 8, "rope.scaling.original_context_length": 256, "rope.scaling.attn_factor": 1.2},
        config=dict(SMALL, num_local_experts=4, num_experts_per_tok=2, router_jitter_noise=0.01, attention_bias=True, lm_head_bias=True,
                    max_position_embeddings=512, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=256, short_mscale=1.2,
                                         long_mscale=1.2, short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[1.0, 2.0, 4.0, 8.0]))),
    # a mixture with a block of all rows in every other layer; adjacent lanes rotate
    "ernie4_5_moe": dict(
        cls=transformers.Ernie4_5_MoeForCausalLM, arch="ernie4_5-moe", swap=False, seed=1, embed=0.1,
        keys={"expert_shared_count": 2, "expert_shared_feed_forward_length": 16, "leading_dense_block_count": 1, "interleave_moe_layer_step": 1},
        config=dict(SMALL, moe_num_experts=4, moe_k=2, moe_intermediate_size=8, moe_num_shared_experts=2, moe_layer_start_index=1)),
    # norms of q and k over all heads, of which half rotates; sigmoid scores
    "minimax_m2": dict(
        cls=transformers.MiniMaxM2ForCausalLM, arch="minimax-m2", swap=False, seed=7, embed=0.1,
        keys={"rope.dimension_count": 4, "expert_gating_func": 2, "expert_feed_forward_length": 8},
        config=dict(SMALL, intermediate_size=8, head_dim=8, num_local_experts=4, num_experts_per_tok=2,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # mixtures in every other layer, with factors of the experts' inputs and a block of all rows; norms
    # of heads after the rope; every fourth layer without rope. The chunks are longer than the text,
    # as in every GGUF.
    "llama4_text": dict(
        cls=transformers.Llama4ForCausalLM, arch="llama4", swap=False, seed=2, embed=0.1,
        keys={"feed_forward_length": 24, "expert_feed_forward_length": 12, "interleave_moe_layer_step": 2},
        config={**SMALL, **LLAMA4}),
    # norms before and after each block, stored minus 1 in files; five layers of six have windows
    # and a separate rope base
    "gemma3": dict(
        cls=transformers.Gemma3ForCausalLM, arch="gemma3", swap=False, seed=1, norm_add=1, embed=0.05,
        config=dict(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                    num_hidden_layers=7, sliding_window=16, query_pre_attn_scalar=16, tie_word_embeddings=True,
                    rms_norm_eps=1e-6,
                    rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=100000.0),
                                         sliding_attention=dict(rope_type="default", rope_theta=1000.0)))),
    # the text parts of models with images (`parts`): mistral with a window and a separate head,
    # although the class has tied heads by default
    "mistral3": dict(
        parts="mistral3", text="mistral", arch=None, swap=False, seed=2, outer=dict(tie_word_embeddings=False),
        config=dict(hidden_size=32, intermediate_size=48, num_attention_heads=2, num_key_value_heads=1, head_dim=24, sliding_window=16,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # llama4_text with short chunks; queries of every other layer grow in steps of 8 tokens
    "llama4": dict(
        parts="llama4", text="llama4_text", arch=None, swap=False, seed=2, embed=0.1,
        config=dict({**SMALL, **LLAMA4}, no_rope_layer_interval=2, attention_chunk_size=16, floor_scale=8, attn_scale=0.5)),
    # qwen2 with a rope of three sections; fields at the top level, as in older files
    "qwen2_5_vl": dict(
        parts="qwen2_5_vl", text="qwen2_5_vl_text", arch="qwen2vl", swap=False, seed=1, flat=True, keys={"rope.dimension_sections": [2, 3, 3, 0]},
        config=dict(hidden_size=32, intermediate_size=48, num_attention_heads=2, num_key_value_heads=1,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 3, 3]))),
    # the gated delta rule, and attention with gates in every other layer; four heads of v for two of
    # k, which a GGUF has in another order
    "qwen3_5": dict(
        parts="qwen3_5", text="qwen3_5_text", arch="qwen35", swap=False, seed=2, norm_add=1, embed=0.05, tiled=True,
        keys={"rope.dimension_sections": [2, 1, 1, 0], "rope.dimension_count": 8, "full_attention_interval": 2, "ssm.conv_kernel": 4,
              "ssm.state_size": 8, "ssm.group_count": 2, "ssm.time_step_rank": 4, "ssm.inner_size": 32},
        config=dict(hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                    full_attention_interval=2, linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=8,
                    linear_num_key_heads=2, linear_num_value_heads=4, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1]))),
    # the same with two experts of five, and a block that all rows use, with a gate; a head of its own
    "qwen3_5_moe": dict(
        parts="qwen3_5_moe", text="qwen3_5_moe_text", arch="qwen35moe", swap=False, seed=2, norm_add=1, embed=0.05, tiled=True,
        keys={"rope.dimension_sections": [2, 1, 1, 0], "rope.dimension_count": 8, "full_attention_interval": 2, "ssm.conv_kernel": 3,
              "ssm.state_size": 8, "ssm.group_count": 2, "ssm.time_step_rank": 4, "ssm.inner_size": 32, "expert_shared_feed_forward_length": 12},
        config=dict(hidden_size=32, moe_intermediate_size=8, num_experts=5, num_experts_per_tok=2, shared_expert_intermediate_size=12,
                    num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                    full_attention_interval=2, linear_conv_kernel_dim=3, linear_key_head_dim=8, linear_value_head_dim=8,
                    linear_num_key_heads=2, linear_num_value_heads=4, rms_norm_eps=1e-6,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1]))),
    # two experts of five, and a block that all rows use, with a gate; one matrix of q, k, v and z in groups of k heads
    "qwen3_next": dict(
        cls=transformers.Qwen3NextForCausalLM, arch="qwen3next", swap=False, seed=2, norm_add=1, embed=0.05,
        keys={"rope.dimension_count": 8, "full_attention_interval": 2, "ssm.conv_kernel": 3, "ssm.state_size": 8, "ssm.group_count": 2,
              "ssm.time_step_rank": 4, "ssm.inner_size": 24, "expert_shared_feed_forward_length": 12},
        config=dict(hidden_size=24, intermediate_size=20, moe_intermediate_size=8, num_experts=5, num_experts_per_tok=2,
                    shared_expert_intermediate_size=12, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                    full_attention_interval=2, linear_conv_kernel_dim=3, linear_key_head_dim=8, linear_value_head_dim=6,
                    linear_num_key_heads=2, linear_num_value_heads=4, rms_norm_eps=1e-6, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    # recurrent layers only; two groups of heads
    "mamba2": dict(
        cls=transformers.Mamba2ForCausalLM, arch="mamba2", swap=False, seed=3, embed=0.05, eps="layer_norm_epsilon", rms=True, without=("max_position_embeddings",),
        keys={"feed_forward_length": 0, "attention.head_count": 0, "ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 12, "ssm.time_step_rank": 4,
              "ssm.group_count": 2},
        config=dict(hidden_size=32, num_heads=4, head_dim=16, expand=2, state_size=12, n_groups=2, conv_kernel=4, chunk_size=16,
                    num_hidden_layers=3, layer_norm_epsilon=1e-5, use_bias=True, tie_word_embeddings=True)),
    # recurrent layers only: decays per column, compressed time steps
    "mamba": dict(
        cls=transformers.MambaForCausalLM, arch="mamba", swap=False, seed=2, embed=0.05, eps="layer_norm_epsilon", rms=True, without=("max_position_embeddings",),
        keys={"feed_forward_length": 0, "ssm.conv_kernel": 4, "ssm.inner_size": 48, "ssm.state_size": 12, "ssm.time_step_rank": 2, "ssm.dt_b_c_rms": False},
        config=dict(hidden_size=24, expand=2, state_size=12, conv_kernel=4, num_hidden_layers=3, layer_norm_epsilon=1e-5, tie_word_embeddings=True)),
    # RWKV-4: recurrent layers only, with a weighted mean of earlier values per column. The class halves the residual stream after every two layers
    "rwkv": dict(
        cls=transformers.RwkvForCausalLM, arch=None, swap=False, seed=2, embed=0.05, eps="layer_norm_epsilon", without=("max_position_embeddings",),
        config=dict(hidden_size=24, intermediate_size=56, num_hidden_layers=3, layer_norm_epsilon=1e-5, rescale_every=2, context_length=256)),
    # the same with norms of time steps, B and C
    "falcon_mamba": dict(
        cls=transformers.FalconMambaForCausalLM, arch="mamba", swap=False, seed=1, embed=0.05, eps="layer_norm_epsilon", rms=True, without=("max_position_embeddings",),
        keys={"feed_forward_length": 0, "ssm.conv_kernel": 3, "ssm.inner_size": 40, "ssm.state_size": 8, "ssm.time_step_rank": 5, "ssm.dt_b_c_rms": True},
        config=dict(hidden_size=24, expand=16, intermediate_size=40, state_size=8, conv_kernel=3, time_step_rank=5, num_hidden_layers=3,
                    layer_norm_epsilon=1e-5, mixer_rms_eps=1e-5, tie_word_embeddings=False)),
    # Mamba-2 in two of three layers, attention with a rope of half of each head in the other
    "bamba": dict(
        cls=transformers.BambaForCausalLM, arch=None, swap=False, seed=1,
        config=dict(hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, attn_layer_indices=[1],
                    mamba_n_heads=4, mamba_d_head="auto", mamba_n_groups=2, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=16)),
    # the same with a mixture of experts and a block of all rows, factors, and no rope
    "granitemoehybrid": dict(
        cls=transformers.GraniteMoeHybridForCausalLM, arch=None, swap=False, seed=2, scales={"q_proj": 0.5},
        config=dict(hidden_size=24, intermediate_size=16, shared_intermediate_size=20, num_local_experts=4, num_experts_per_tok=2, num_hidden_layers=3,
                    num_attention_heads=2, num_key_value_heads=1, layer_types=["mamba", "attention", "mamba"], mamba_n_heads=3, mamba_n_groups=1,
                    mamba_d_state=8, mamba_d_conv=3, mamba_expand=2, mamba_chunk_size=16, tie_word_embeddings=True,
                    embedding_multiplier=2.0, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=0.5)),
    # Mamba-2 and attention in each layer; all factors
    "falcon_h1": dict(
        cls=transformers.FalconH1ForCausalLM, arch=None, swap=False, seed=1,
        config=dict(hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=10, mamba_d_ssm=32,
                    mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=8, mamba_d_conv=4, mamba_chunk_size=16, mamba_rms_norm=True,
                    mamba_norm_before_gate=False, mamba_proj_bias=True, projectors_bias=True, attention_bias=True, mlp_bias=True,
                    embedding_multiplier=2.0, lm_head_multiplier=0.5, attention_in_multiplier=0.8, attention_out_multiplier=0.7, key_multiplier=0.6,
                    ssm_in_multiplier=1.25, ssm_out_multiplier=0.9, ssm_multipliers=[0.5, 1.5, 0.7, 1.2, 0.9], mlp_multipliers=[0.8, 0.6])),
    # one block per layer: Mamba-2, attention without a rope, or a block without a gate. The class ignores the least time step with a cache
    "nemotron_h": dict(
        cls=transformers.NemotronHForCausalLM, arch=None, swap=False, seed=1, embed=0.05, cache=False, eps="layer_norm_epsilon", without=("num_hidden_layers",),
        config=dict(hidden_size=24, intermediate_size=40, layers_block_type=["mamba", "mlp", "attention", "mamba", "mlp"], num_attention_heads=2,
                    num_key_value_heads=1, head_dim=12, mamba_num_heads=4, mamba_head_dim=10, n_groups=2, ssm_state_size=8, conv_kernel=4, chunk_size=16,
                    time_step_min=0.5, layer_norm_epsilon=1e-5)),
    # the same with mixtures of blocks without a gate, whose inputs and results are projections, and a block of all rows
    "nemotron_h-moe": dict(
        cls=transformers.NemotronHForCausalLM, arch=None, swap=False, seed=2, embed=0.05, cache=False, eps="layer_norm_epsilon", without=("num_hidden_layers",),
        config=dict(hidden_size=24, intermediate_size=40, layers_block_type=["mamba", "moe", "attention", "mlp", "moe"], num_attention_heads=2,
                    num_key_value_heads=1, head_dim=12, mamba_num_heads=4, mamba_head_dim=10, n_groups=2, ssm_state_size=8, conv_kernel=4, chunk_size=16,
                    time_step_min=0.5, layer_norm_epsilon=1e-5, n_routed_experts=6, n_group=2, topk_group=1, num_experts_per_tok=2, moe_intermediate_size=20,
                    moe_shared_expert_intermediate_size=28, moe_latent_size=16, routed_scaling_factor=2.5)),
    # Mamba with norms in two of three layers, attention without a rope and a mixture of experts in the other
    "jamba": dict(
        cls=transformers.JambaForCausalLM, arch="jamba", swap=False, seed=1,
        keys={"attention.head_count_kv": [0, 1, 0], "ssm.conv_kernel": 4, "ssm.inner_size": 48, "ssm.state_size": 8, "ssm.time_step_rank": 2},
        config=dict(hidden_size=24, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, num_experts=3,
                    num_experts_per_tok=2, attn_layer_period=3, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
                    mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank="auto", tie_word_embeddings=False)),
    # gated convolutions in two of three layers; a width of the feed-forward block that is computed from the field
    "lfm2": dict(
        cls=transformers.Lfm2ForCausalLM, arch="lfm2", swap=False, seed=2, embed=0.05, eps="norm_eps", rms=True,
        keys={"feed_forward_length": 48, "attention.head_count_kv": [0, 1, 0], "shortconv.l_cache": 3, "vocab_size": N_VOCAB},
        config=dict(hidden_size=32, intermediate_size=60, block_multiple_of=8, block_ffn_dim_multiplier=1.1, num_hidden_layers=3,
                    num_attention_heads=2, num_key_value_heads=1, norm_eps=1e-5, layer_types=["conv", "full_attention", "conv"],
                    conv_L_cache=3, conv_bias=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    # decays per value of a key in two of three layers, latent attention without a rope in the other; the mixtures of deepseek_v3
    "kimi_linear": dict(
        cls=transformers.KimiLinearForCausalLM, arch=None, swap=False, seed=1, embed=0.05,
        config=dict(hidden_size=24, intermediate_size=32, num_attention_heads=2, num_key_value_heads=2, kv_lora_rank=12, qk_nope_head_dim=8,
                    qk_rope_head_dim=4, v_head_dim=12, num_experts=4, num_expert_group=2, topk_group=1, num_experts_per_token=2,
                    moe_intermediate_size=12, num_shared_experts=1, first_k_dense_replace=1, num_hidden_layers=3,
                    layer_types=["linear_attention", "full_attention", "linear_attention"], linear_head_dim=10, linear_num_heads=3,
                    linear_conv_kernel_dim=3, rms_norm_eps=1e-5, tie_word_embeddings=False)),
    # qwen3 with interleaved sections and a tied head
    "qwen3_vl": dict(
        parts="qwen3_vl", text="qwen3_vl_text", arch="qwen3vl", swap=False, seed=10, outer=dict(tie_word_embeddings=True),
        keys={"rope.dimension_sections": [4, 3, 3, 0], "n_deepstack_layers": 1},
        config=dict(hidden_size=32, intermediate_size=48, num_attention_heads=2, num_key_value_heads=1, head_dim=20,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[4, 3, 3], mrope_interleaved=True))),
}
# as many heads in both kinds of attention, as a GGUF has them
MODELS["kimi_linear-heads"] = dict(MODELS["kimi_linear"], config=dict(MODELS["kimi_linear"]["config"], linear_num_heads=2))


NORMS = ("norm.weight", "layernorm_embedding.weight", *(f"{name}.weight" for name in ("ln_1", "ln_2", "ln_f", "ln_attn", "ln_mlp", "norm_1", "norm_2", "norm_f",
                                                                                        "pre_ln", "ln1", "ln2", "ln_x", "ln_out")))
FACTORS = ("final_logits_bias", "layer_scalar", "correct_output_scale", "router.scale", "per_expert_scale", "layernorm_1.weight", "layernorm_2.weight",
           "e_score_correction_bias")
POSITIONS = ("embed_positions", ".wpe.")
EMBEDDINGS = ("embed_tokens", "backbone.embeddings", "rwkv.embeddings", "embed_in", ".wte.", "word_embeddings.", *POSITIONS)


def is_turned(name):
    """Return true for the transposed matrices of GPT-2."""
    return name.startswith("transformer.h.") and ".c_" in name and name.endswith(".weight")


def dtype_of(spec):
    return getattr(torch, spec.get("dtype", "bfloat16"))


def random_weight(rng, name, shape, norm_add=0, embed=0.4):
    """Return weights that are large enough for uneven attention and spread logits, unlike an
    untrained model's."""
    if name.endswith(NORMS) or ".norms." in name or name.endswith(FACTORS):
        w = rng.uniform(0.5, 1.5, shape) - (0 if "linear_attn." in name else norm_add)
    elif name.endswith((".bias", "_proj_bias", ".sinks")):
        w = rng.normal(0, 0.5, shape)
    elif any(part in name for part in EMBEDDINGS):
        w = rng.normal(0, 0.4 if any(part in name for part in POSITIONS) else embed, shape)
    elif name.endswith(("time_decay", "time_first", "time_faaaa")):
        w = rng.uniform(-3, 1, shape)
    elif "time_mix_" in name:
        w = rng.uniform(0, 1, shape)
    elif "modality_router" in name:  # the class divides its input by the width
        w = rng.normal(0, 1.2 * np.sqrt(shape[-1]), shape)
    else:
        gain = 1.6 if any(part in name for part in ("q_proj", "k_proj", "c_attn", "query_key_value", "Wqkv", "q_b_proj", "kv_a_proj")) else 1.2
        w = rng.normal(0, gain / np.sqrt(shape[0 if is_turned(name) else -1]), shape)
    return torch.from_numpy(w.astype(np.float32))


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def mxfp4_codes(w):
    """Return the codes and exponents of the nearest values of MXFP4, for the last axis of w: bytes
    [..., n / 32, 16] with two codes each, the first in the low bits, and bytes [..., n / 32]."""
    runs = w.reshape(*w.shape[:-1], -1, 32)
    exponent = np.floor(np.log2(np.maximum(np.abs(runs).max(axis=-1), 1e-30))).astype(np.int64) - 2
    code = np.abs(runs[..., None] / np.exp2(exponent)[..., None, None] - E2M1).argmin(axis=-1).astype(np.uint8)
    return code[..., ::2] | code[..., 1::2] << 4, (exponent + 127).astype(np.uint8)


def mxfp4_values(blocks, scales):
    """Return the values of mxfp4_codes, in rows."""
    code = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    return (E2M1[code] * np.exp2(scales.astype(np.float64) - 127)[..., None]).astype(np.float32).reshape(*blocks.shape[:-2], -1)


def mxfp4_blocks(w):
    """Return the bytes of GGUF's blocks: an exponent, then 16 bytes with the codes of value i and of
    value i + 16."""
    blocks, scales = mxfp4_codes(w)
    code = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    out = np.concatenate([scales[..., None], code[..., :16] | code[..., 16:] << 4], axis=-1)
    return out.reshape(*w.shape[:-1], -1)


def write_mxfp4(out, model):
    """Replace the experts' matrices of the folder by codes and exponents, as published."""
    from safetensors import safe_open
    from safetensors.torch import save_file
    tensors = {}
    with safe_open(out / "model.safetensors", "pt") as file:
        for name in file.keys():
            w = file.get_tensor(name)
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                parts = mxfp4_codes(w.float().numpy().swapaxes(1, 2))
                tensors.update({f"{name}_{part}": torch.from_numpy(v) for part, v in zip(("blocks", "scales"), parts)})
            else:
                tensors[name] = w
    save_file(tensors, out / "model.safetensors", metadata=dict(format="pt"))
    config = json.loads((out / "config.json").read_text())
    write_json(out / "config.json", dict(config, quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"])))


def write_draft(out, model):
    """Add the tensors of a layer that predicts further tokens: a copy of the last layer, norms, and
    a matrix that joins the token and the hidden state. Its values have no effect."""
    from safetensors import safe_open
    from safetensors.torch import save_file
    n, d = model.config.num_hidden_layers, model.config.hidden_size
    with safe_open(out / "model.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    begin = f"model.layers.{n}."
    more = {name.replace(f"model.layers.{n - 1}.", begin): w for name, w in tensors.items() if f"layers.{n - 1}." in name}
    embedding, norm = tensors["model.embed_tokens.weight"], tensors["model.norm.weight"]
    more.update({begin + "embed_tokens.weight": embedding, begin + "shared_head.head.weight": embedding, begin + "shared_head.norm.weight": norm,
                 begin + "enorm.weight": norm, begin + "hnorm.weight": norm, begin + "eh_proj.weight": torch.ones(d, 2 * d, dtype=norm.dtype)})
    save_file({**tensors, **{name: w.clone() for name, w in more.items()}}, out / "model.safetensors", metadata=dict(format="pt"))


def scale_of(scales, name):
    """Return the factor of a weight."""
    return float(np.prod([factor for part, factor in scales.items() if part in name]))


def class_of(spec):
    return wrappers.class_of(spec["parts"]) if "parts" in spec else spec["cls"]


def make_model(spec, **overrides):
    """Return the model in float32. Its weights are values of the file's type."""
    common = {spec.get("eps", k) if k == "rms_norm_eps" else k: v for k, v in COMMON.items()}
    common = {k: v for k, v in common.items() if k is not None and k not in spec.get("without", ())}
    fields = {**common, **spec["config"], **overrides}
    if "parts" in spec:
        config = wrappers.config_of(spec["parts"], fields, spec["text"], **spec.get("outer", {}))
    else:
        config = spec.get("config_class", spec["cls"].config_class)(**fields)
    config._attn_implementation = spec.get("attn", "eager")  # plain matrices: every version applies windows
    config._experts_implementation = "eager"  # only this implementation computes in float64
    config.dtype = torch.float32
    model = class_of(spec)(config).eval()
    rng = np.random.RandomState(spec["seed"])
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):  # a tied head is listed once
            w = random_weight(rng, name, tuple(p.shape), spec.get("norm_add", 0), spec.get("embed", 0.4))
            w.mul_(scale_of(spec.get("scales", {}), name))
            if spec.get("mxfp4") and name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                w = torch.from_numpy(mxfp4_values(*mxfp4_codes(w.numpy().swapaxes(1, 2))).swapaxes(1, 2))
            p.copy_(w.to(dtype_of(spec)))
        for name, p in sorted(model.named_buffers()):
            if name.endswith(FACTORS):
                p.copy_(random_weight(rng, name, tuple(p.shape)).to(dtype_of(spec)))
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=BOS, eos_token_id=[EOS, BOS], do_sample=True, temperature=0.7, top_k=40, top_p=0.9)
    return model


def byte_tokens():
    """Return GPT-2's printable characters for the 256 bytes."""
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
    write_compact(out / "tokenizer.json", dict(
        version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None,
        pre_tokenizer=byte_level, post_processor=None, decoder=byte_level,
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
                   end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, ignore_merges=False,
                   vocab={t: i for i, t in enumerate(tokens) if i < BOS}, merges=merges)))
    write_json(out / "tokenizer_config.json", dict(
        tokenizer_class="PreTrainedTokenizerFast", add_bos_token=False, bos_token=tokens[BOS],
        eos_token=tokens[EOS], clean_up_tokenization_spaces=False))


def write_compact(path, value):
    path.write_text(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")


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


def spell_flat(path):
    """Write the fields of text_config at the top level, and the rope's type as in Qwen2-VL's files."""
    config = json.loads(path.read_text())
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    text.pop("model_type")
    scaling = dict(type="mrope", mrope_section=rope["mrope_section"])
    path.write_text(json.dumps(dict(sorted({**text, **config, "rope_theta": rope["rope_theta"], "rope_scaling": scaling}.items())), indent=2) + "\n")


def permute(w, n_head):
    """Reorder rows of each head from (first halves, second halves) to adjacent rotary pairs, as in
    GGUF's llama."""
    return w.reshape(n_head, 2, w.shape[0] // n_head // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def rope_factors(rope, d_head):
    """Return the divisors of each frequency in llama-3 scaling (the tensor rope_freqs.weight)."""
    freq = rope["rope_theta"] ** -(np.arange(0, d_head, 2) / d_head)
    # rotations in the original context
    turns = rope["original_max_position_embeddings"] * freq / (2 * np.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)


def published(model):
    """Return the (name, values) of checkpoints, with each expert's matrices separate. Values are
    views."""
    for raw, p in model.named_parameters():
        if raw.endswith("mlp.experts.gate_up_proj"):
            for e in range(p.shape[0]):
                for part, name in zip(torch.tensor_split(p[e], 2), ("gate_proj", "up_proj")):
                    yield raw.replace("gate_up_proj", f"{e}.{name}.weight"), part
        elif raw.endswith("mlp.experts.down_proj"):
            for e in range(p.shape[0]):
                yield raw.replace("down_proj", f"{e}.down_proj.weight"), p[e]
        else:
            yield raw, p
    for raw, p in model.named_buffers():
        if raw == "final_logits_bias":
            yield raw, p
    for raw, p in model.named_buffers():
        if ".act_fn." in raw or raw.endswith(FACTORS):
            yield raw, p


def to_fp8(model, block, dtype=torch.float32):
    """Convert linear layers of the blocks to 8-bit floats, with a scale for each block[0] x
    block[1] values like published checkpoints. Return the tensors of the file. Other tensors have
    the type dtype. The model then computes with their values."""
    out = {}

    def convert(raw, w):
        padded = torch.nn.functional.pad(w, (0, -w.shape[1] % block[1], 0, -w.shape[0] % block[0]))
        parts = padded.reshape(padded.shape[0] // block[0], block[0], padded.shape[1] // block[1], block[1])
        scale = parts.abs().amax(dim=(1, 3)).clamp(min=1e-12) / 448
        code = (parts / scale[:, None, :, None]).to(torch.float8_e4m3fn)
        values = (code.float() * scale[:, None, :, None]).reshape(padded.shape)[:w.shape[0], :w.shape[1]]
        out[raw + ".weight"] = code.reshape(padded.shape)[:w.shape[0], :w.shape[1]].contiguous()
        out[raw + ".weight_scale_inv"] = scale.contiguous()
        return values

    with torch.no_grad():
        for raw, p in published(model):
            if raw.endswith("_proj.weight"):
                p.copy_(convert(raw.removesuffix(".weight"), p.clone()))
            else:
                out[raw] = p.detach().clone().to(dtype).contiguous()
    return out


def write_fp8(out, model, block, dtype=torch.float32):
    """Write the folder's config.json, and model.safetensors with 8-bit floats. The model then
    computes with their values."""
    from safetensors.torch import save_file
    for file in out.glob("*.safetensors*"):
        file.unlink()
    tied = model.config.tie_word_embeddings
    save_file({k: v for k, v in to_fp8(model, block, dtype).items() if not (tied and k == "lm_head.weight")}, out / "model.safetensors")
    config = json.loads((out / "config.json").read_text())
    config["quantization_config"] = dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=list(block),
                                         modules_to_not_convert=["lm_head"])
    write_json(out / "config.json", config)


def make_fp8(name, root, block=(24, 40)):
    """Make tests/golden/NAME-fp8: the model with 8-bit floats, and the logits of these weights."""
    out = root / f"{name}-fp8"
    out.mkdir(exist_ok=True)
    model = make_model(MODELS[name])
    model.config.dtype = dtype_of(MODELS[name])
    model.config.save_pretrained(out)
    write_tokenizer(out)
    write_fp8(out, model, block, dtype_of(MODELS[name]))
    tokens = np.random.RandomState(77).randint(0, N_VOCAB, N_TOKEN).astype("<i4")
    tokens.tofile(out / "tokens.i32")
    save_logits(out / "logits.f32", logits_of(model.double(), tokens))
    for file in out.iterdir():
        file.chmod(0o644)


def ungroup(w, c):
    """Sort the rows of q, k and v: from one group per KV head to all rows of q, then of k, then of v."""
    n_kv, d_head = getattr(c, "num_kv_heads", None) or c.num_attention_heads, c.hidden_size // c.num_attention_heads
    groups = w.reshape(n_kv, -1, d_head, *w.shape[1:])
    return np.concatenate([part.reshape(-1, *w.shape[1:]) for part in (groups[:, :-2], groups[:, -2], groups[:, -1])])


def tile(w, n_head_k, n_head):
    """Sort the heads of v, in the first dimension, as GGUF's qwen35: the first head of each head of k, then the second."""
    return w.reshape(n_head_k, n_head // n_head_k, -1, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)


def delta_tensors(spec, c, raw, data):
    """Return the tensors of a GGUF for a tensor of a layer with the gated delta rule."""
    n_k, n_v = c.linear_num_key_heads, c.linear_num_value_heads
    d_k, d_v, name = c.linear_key_head_dim * n_k, c.linear_value_head_dim * n_v, raw.split("linear_attn.")[1]
    if name == "in_proj_qkvz.weight":
        parts = np.split(data.reshape(n_k, -1, data.shape[1]), np.cumsum([d_k // n_k, d_k // n_k, d_v // n_k]), axis=1)
        q, k, v, z = (part.reshape(-1, data.shape[1]) for part in parts)
        yield raw.replace("qkvz", "qkv"), np.concatenate([q, k, v])
        yield raw.replace("qkvz", "z"), z
        return
    data = data.squeeze() if name == "conv1d.weight" else -np.exp(data.astype(np.float64)).astype(np.float32) if name == "A_log" else data
    if spec.get("tiled") and name in ("in_proj_qkv.weight", "conv1d.weight"):
        data = np.concatenate([data[:2 * d_k], tile(data[2 * d_k:], n_k, n_v)])
    elif spec.get("tiled") and name == "out_proj.weight":
        data = tile(np.ascontiguousarray(data.T), n_k, n_v).T
    elif spec.get("tiled") and name != "norm.weight":
        data = tile(data, n_k, n_v)
    yield raw.replace(".dt_bias", ".dt_proj.bias"), data


def mamba_tensor(raw, data, n_group):
    """Return the (name, values) in a GGUF of a tensor of a layer of Mamba or Mamba-2. Mamba-2 has n_group groups of heads."""
    data = data.squeeze(1) if raw.endswith("conv1d.weight") else data
    if raw.endswith(".A_log"):
        data = -np.exp(data.astype(np.float64)).astype(np.float32)
    if n_group and raw.endswith((".A_log", ".D")):
        data = data.reshape(-1, 1)
    if n_group and raw.endswith((".mixer.norm.weight", ".mamba.norm.weight")):
        data = data.reshape(n_group, -1)
    return raw.replace(".dt_bias", ".dt_proj.bias"), data


def gguf_tensors(spec, model):
    """Return the (name in Hugging Face, values) of a GGUF file. Experts are stacked, gate and up
    separate, norms whole, matrices [outputs, inputs]. All rows of q precede those of k and v."""
    for raw, p in [*model.named_parameters(), *((raw, p) for raw, p in model.named_buffers() if raw.endswith(FACTORS))]:
        if "parts" in spec and not raw.startswith(("model.language_model.", "lm_head.")):
            continue
        raw = raw.replace("model.language_model.", "model.").replace("e_score_correction_bias", "e_score_correction.bias")
        data = p.detach().numpy()
        if spec.get("mxfp4") and ".experts." in raw:
            data = data.swapaxes(1, 2) if raw.endswith("_proj") else data
            end = ".bias" if raw.endswith("_bias") else ".weight"
            raw = raw.removesuffix("_bias")
            if raw.endswith("gate_up_proj"):
                yield raw.replace("gate_up", "gate") + end, data[:, ::2]
                yield raw.replace("gate_up", "up") + end, data[:, 1::2]
            else:
                yield raw + end, data
            continue
        if any(part in raw for part in (".mixer.", ".mamba.")):
            raw, data = mamba_tensor(raw, data, getattr(model.config, "n_groups", None) or getattr(model.config, "mamba_n_groups", None))
            yield raw, data
            continue
        if spec["arch"] == "jamba":
            raw = raw.replace("feed_forward.experts", "mlp.experts")
        if ".feed_forward.experts." in raw:  # matrices of all experts, transposed
            for part, name in zip(np.split(data, 2, axis=2), ("gate", "up")) if raw.endswith("gate_up_proj") else ((data, "down"),):
                yield f"{raw.rsplit('.', 1)[0]}.{name}_proj.weight", part.swapaxes(1, 2)
            continue
        if raw.endswith("conv.conv.weight"):
            data = data.squeeze(1)
        raw = raw.replace("block_sparse_moe.experts", "mlp.experts").replace("block_sparse_moe.router", "block_sparse_moe.router.layer")
        if raw.endswith("shared_mlp.input_linear.weight"):
            for part, name in zip(np.split(data, 2), ("gate_proj", "up_proj")):
                yield raw.replace("shared_mlp.input_linear", f"mlp.shared_expert.{name}"), part
            continue
        raw = raw.replace("shared_mlp.output_linear", "mlp.shared_expert.down_proj")
        if "linear_attn." in raw:
            yield from delta_tensors(spec, model.config.get_text_config(), raw, data)
        elif "altup_" in raw and raw.endswith(".weight"):
            if ".0." in raw:
                yield raw.replace(".0.", "."), np.stack([q.detach().numpy() for _, q in model.named_parameters() if _[:-8] == raw[:-8]])
        elif raw.endswith(("layer_scalar", "correct_output_scale", ".router.scale", "per_expert_scale", ".sinks")) or (raw.endswith("gate_up_proj") and ".mlp." not in raw):
            yield raw + ".weight", data
        elif raw.endswith("experts.gate_up_proj"):
            gate, up = np.split(data, 2, axis=1)
            yield raw.replace("gate_up_proj", "gate_proj.weight"), gate
            yield raw.replace("gate_up_proj", "up_proj.weight"), up
        elif raw.endswith("experts.down_proj"):
            yield raw + ".weight", data
        elif ".act_fn." in raw:
            continue  # lists in the metadata, see write_gguf
        elif raw.endswith(".kv_b_proj.weight") and spec["arch"] == "deepseek2":
            k, v = np.split(data.reshape(model.config.num_attention_heads, -1, data.shape[1]), [model.config.qk_nope_head_dim], axis=1)
            yield raw.replace("kv_b_proj", "k_b_proj"), k.swapaxes(1, 2)
            yield raw.replace("kv_b_proj", "v_b_proj"), v
        elif is_turned(raw):
            yield raw, data.T
        elif spec.get("groups") and ".query_key_value." in raw:
            yield raw, ungroup(data, model.config)
        elif raw.endswith("norm.weight"):
            yield raw, data + np.float32(spec.get("norm_add", 0))
        else:
            yield raw, data


def write_gguf(path, spec, model, kind=None):
    """Write a GGUF file with the matrices in a type (a GGMLQuantizationType), by default that of the
    safetensors."""
    c, arch = model.config.get_text_config(), spec["arch"]
    c.allow_global_per_layer_attribute_access = True  # the lists of single layers are among the keys
    kind = kind or gguf.GGMLQuantizationType[{"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[spec.get("dtype", "bfloat16")]]
    n_head = getattr(c, "num_attention_heads", 0)  # 0: the class has no attention
    d_head = getattr(c, "head_dim", None) or c.hidden_size // max(1, n_head)
    w = gguf.GGUFWriter(path, arch)
    w.add_type(gguf.GGUFType.MODEL)
    w.add_sampling_temp(model.generation_config.temperature)
    w.add_sampling_top_k(model.generation_config.top_k)
    w.add_sampling_top_p(model.generation_config.top_p)
    w.add_name("golden")  # transformers derives the class from names that contain "mistral"
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(getattr(c, "max_position_embeddings", getattr(c, "max_seq_len", 256)))
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(getattr(c, "intermediate_size", 4 * c.hidden_size))
    w.add_head_count(n_head)
    if hasattr(c, "num_key_value_heads"):
        w.add_head_count_kv(c.num_key_value_heads)
    ropes = getattr(c, "rope_parameters", {})
    rope = ropes.get("full_attention", ropes)
    base = spec.get("gguf_base", rope.get("rope_theta"))
    if base is not None:
        w.add_rope_freq_base(base)
    if "sliding_attention" in ropes:
        w.add_rope_freq_base_swa(ropes["sliding_attention"]["rope_theta"])
    if spec.get("rms"):
        w.add_layer_norm_rms_eps(getattr(c, spec["eps"]))
    elif "eps" in spec:
        w.add_layer_norm_eps(getattr(c, spec["eps"]))
    else:
        w.add_layer_norm_rms_eps(c.rms_norm_eps)
    if n_head and "head_dim" in spec["config"] or arch == "llama":
        w.add_key_length(d_head)
        w.add_value_length(d_head)
    w.add_file_type(gguf.LlamaFileType[f"{'ALL' if kind == gguf.GGMLQuantizationType.F32 else 'MOSTLY'}_{kind.name}"])
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    if spec["swap"]:  # the converter's LlamaModel and its children
        w.add_vocab_size(c.vocab_size)
        w.add_rope_dimension_count(d_head)
    if n_expert := getattr(c, "num_experts", None) or getattr(c, "num_local_experts", None):
        w.add_expert_count(n_expert)
        w.add_expert_used_count(getattr(c, "top_k_experts", None) or c.num_experts_per_tok)
        if hasattr(c, "moe_intermediate_size"):
            w.add_expert_feed_forward_length(c.moe_intermediate_size)
    if getattr(c, "sliding_window", None):
        w.add_sliding_window(c.sliding_window)  # the converter writes no window (README.md)

    for key, value in spec.get("keys", {}).items():
        w.kv_data[0].pop(f"{arch}.{key}", None)  # lists replace single values
        {float: w.add_float32, int: w.add_uint32, bool: w.add_bool, str: w.add_string, list: w.add_array}[type(value)](f"{arch}.{key}", value)

    for part in ("alpha_n", "alpha_p", "beta", "eps") if arch == "apertus" else ():
        w.add_array(f"xielu.{part}", [getattr(layer.mlp.act_fn, part).item() for layer in model.model.layers])

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

    if rope.get("rope_type") == "llama3":
        w.add_tensor("rope_freqs.weight", rope_factors(c.rope_parameters, d_head))
    if rope.get("rope_type") == "proportional":
        n = spec["keys"]["rope.dimension_count"] // 2
        turning = int(n * rope["partial_rotary_factor"])
        w.add_tensor("rope_freqs.weight", np.array([1] * turning + [1e30] * (n - turning), np.float32))
    for length in ("long", "short"):
        if f"{length}_factor" in rope:
            w.add_tensor(f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], np.float32))
    names = gguf.get_tensor_name_map(
        next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch), c.num_hidden_layers)
    for raw, data in gguf_tensors(spec, model):
        if spec["swap"] and ".q_proj." in raw:
            data = permute(data, c.num_attention_heads)
        if spec["swap"] and ".k_proj." in raw:
            data = permute(data, c.num_key_value_heads)
        gguf_name = names.get_name(raw, try_suffixes=(".weight", ".bias"))
        if ".router." in raw and raw.endswith("scale.weight"):
            gguf_name = raw.replace("model.layers", "blk").replace("router.scale.weight", "ffn_gate_inp.scale").replace(
                "router.per_expert_scale.weight", "ffn_down_exps.scale")
        if gguf_name is None:  # bloom's names
            gguf_name = names.get_name(raw.removeprefix("transformer."), try_suffixes=(".weight", ".bias"))
        if "e_score_correction" in raw:
            gguf_name, data = raw.split(".")[2].join(("blk.", ".exp_probs_b.bias")), data.reshape(-1)
        stays = data.ndim < 2 or gguf_name.endswith(("_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "_exps.bias", "ssm_conv1d.weight", "ssm_a", "ssm_d", ".shortconv.conv.weight")) or gguf_name == "position_embd.weight"
        data = np.ascontiguousarray(data)
        if spec.get("mxfp4") and gguf_name.endswith("_exps.weight"):
            w.add_tensor(gguf_name, mxfp4_blocks(data), raw_dtype=gguf.GGMLQuantizationType.MXFP4)
        elif kind == gguf.GGMLQuantizationType.F32 or stays:
            w.add_tensor(gguf_name, data)
        else:
            w.add_tensor(gguf_name, gguf.quants.quantize(data, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def with_type(spec, kind):
    """Return the model with its matrices rounded to the values in the GGUF file of that type."""
    model = make_model(spec)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                stored = gguf.quants.quantize(p.numpy(), kind)
                p.copy_(torch.from_numpy(gguf.quants.dequantize(stored, kind)))
    return model.double()


@contextlib.contextmanager
def exact_slopes():
    """Compute the slopes of Falcon's ALiBi in float32. The class rounds them, and their products with
    positions, to bfloat16."""
    old = torch.Tensor.bfloat16
    torch.Tensor.bfloat16 = torch.Tensor.float
    try:
        yield
    finally:
        torch.Tensor.bfloat16 = old


def text_of(model):
    """Return the model that computes texts. Llama 4's class with images fails for a text without images."""
    return model.language_model if model.config.model_type == "llama4" else model


def logits_of(model, tokens):
    with torch.no_grad():
        return text_of(model)(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0].to(torch.float64).numpy()


def share_embeddings(model):
    """Give the sides of BART one embedding. A config without tying gives each side its own
    embedding, which quoth rejects."""
    if model.config.model_type == "bart":
        for side in (model.model.encoder, model.model.decoder):
            side.embed_tokens.weight.copy_(model.model.shared.weight)


def cross_logits_of(model, tokens, n_source):
    """Return the logits of a decoder's text, which follows n_source tokens of a source."""
    ids = torch.from_numpy(tokens.astype(np.int64))[None]
    with torch.no_grad():
        out = model(input_ids=ids[:, :n_source], decoder_input_ids=ids[:, n_source:], use_cache=False)
    return out.logits[0].to(torch.float64).numpy()


def save_logits(path, logits):
    """Write the rows of every fifth position, up to the last."""
    logits[(len(logits) - 1) % EVERY::EVERY].astype("<f4").tofile(path)


def hidden_of(model, tokens):
    """Return the final hidden states, after the output norm, which embeddings pool."""
    with torch.no_grad():
        ids = torch.from_numpy(tokens.astype(np.int64))[None]
        return model.base_model(ids).last_hidden_state[0].to(torch.float64).numpy()


def greedy_of(model, tokens, cache=True):
    prompt = torch.from_numpy(tokens[:N_PROMPT].astype(np.int64))[None]
    out = text_of(model).generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, temperature=None,
                         top_k=None, top_p=None, max_new_tokens=N_GREEDY, pad_token_id=EOS, use_cache=cache)
    return out[0, N_PROMPT:].numpy().astype("<i4")


def verify(name, spec, out, model, tokens, logits, greedy):
    """Check that the files have the computed results, and that the test detects a change of the
    mechanism under test."""
    if spec.get("mxfp4"):  # the reader of transformers needs a GPU
        back = make_model(spec).double()
    else:
        back = class_of(spec).from_pretrained(out, attn_implementation=spec.get("attn", "eager"), dtype=torch.float32).double()
    back.config._experts_implementation = "eager"
    assert distance(logits_of(back, tokens), logits) < 1e-7, f"{name}: safetensors give other logits"
    assert distance(logits_of(make_model(spec).float(), tokens), logits) < 2e-5, f"{name}: f32 is far from f64"
    # Transformers also reads the weights of some GGUF files. It reads mistral's as a llama without
    # a window.
    if importlib.util.find_spec("accelerate") and name in ("llama3", "llama-untied", "mistral", "qwen2", "qwen3"):
        plain = name == "mistral"
        cls = transformers.LlamaForCausalLM if plain else spec["cls"]
        want = logits_of(make_model(spec, sliding_window=None).double(), tokens) if plain else logits
        back = cls.from_pretrained(out, gguf_file="model.gguf", config=make_model({**spec, "cls": cls}).config,
                                   dtype=torch.float32).double()
        assert distance(logits_of(back, tokens), want) < 1e-7, f"{name}: GGUF gives other logits"

    without = {"llama3": dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
               "llama-untied": dict(rms_norm_eps=1e-5), "mistral": dict(sliding_window=4096),
               "smollm3": dict(no_rope_layers=[1, 1, 1, 1]), "gemma3": dict(sliding_window=4096), "gemma2": dict(sliding_window=4096),
               "granite": dict(residual_multiplier=1.0), "qwen3moe": dict(num_experts_per_tok=1),
               "cohere": dict(logit_scale=1.0), "cohere2": dict(sliding_window=4096), "starcoder2": dict(sliding_window=None),
               "phi": dict(hidden_act="silu"), "stablelm": dict(layer_norm_eps=0.1), "nemotron": dict(hidden_act="relu"),
               "olmo3": dict(sliding_window=4096), "apertus": dict(hidden_act="relu2"),
               "hunyuan": dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
               "ministral3": dict(rope_parameters=dict(MODELS["ministral3"]["config"]["rope_parameters"], llama_4_scaling_beta=0.0)),
               "arcee": dict(hidden_act="relu"), "bitnet": dict(hidden_act="silu"), "olmo": dict(clip_qkv=None), "gpt2": dict(scale_attn_weights=False),
               "gpt_neox": dict(use_parallel_residual=False), "gptj": dict(rotary_dim=4), "opt": dict(activation_function="gelu"),
               "opt-post": dict(activation_function="gelu"), "falcon": dict(rope_parameters=dict(rope_type="default", rope_theta=100.0)),
               "falcon-rw": dict(alibi=False), "bloom": dict(layer_norm_epsilon=0.1), "mpt": dict(attn_config=dict(clip_qkv=None)),
               "gemma4": dict(layer_types=["sliding_attention"] * 2 + ["full_attention"] * 2 + ["sliding_attention", "full_attention"]),
               "gemma4-moe": dict(top_k_experts=1), "gemma3n": dict(activation_sparsity_pattern=[0.0] * 6), "minicpm3": dict(scale_depth=None),
               "deepseek_v3": dict(topk_group=1),
               "mixtral": dict(num_experts_per_tok=1), "qwen2_moe": dict(norm_topk_prob=True), "gpt_oss": dict(swiglu_limit=0.5),
               "glm4_moe": dict(topk_group=1), "glm4_moe-draft": dict(num_experts_per_tok=1), "olmoe": dict(clip_qkv=None), "granitemoeshared": dict(residual_multiplier=1.0),
               "phimoe": dict(router_jitter_noise=0.5), "ernie4_5_moe": dict(moe_norm_min=4.0), "minimax_m2": dict(num_experts_per_tok=1),
               "rwkv": dict(layer_norm_epsilon=0.1), "mamba": dict(hidden_act="gelu"), "falcon_mamba": dict(mixer_rms_eps=10.0),
               "mistral3": dict(sliding_window=4096), "llama4": dict(attention_chunk_size=4096), "llama4_text": dict(use_qk_norm=False),
               "bamba": dict(attn_layer_indices=[1], mamba_n_groups=2, time_step_limit=[0.0, 0.3]), "granitemoehybrid": dict(residual_multiplier=1.0),
               "nemotron_h": dict(time_step_min=0.001), "nemotron_h-moe": dict(topk_group=2), "falcon_h1": dict(key_multiplier=2.0), "jamba": dict(num_experts_per_tok=1), "kimi_linear": dict(topk_group=2),
               "mamba2": dict(time_step_limit=[0.0, 0.3]),
               "lfm2": dict(rope_parameters=dict(rope_type="default", rope_theta=10.0)), "qwen3_5": dict(full_attention_interval=1), "qwen3_next": dict(num_experts_per_tok=1), "qwen3_5_moe": dict(num_experts_per_tok=1),
               **{n: dict(rope_parameters=dict(MODELS[n]["config"]["rope_parameters"], rope_theta=50.0)) for n in ("qwen2_5_vl", "qwen3_vl")}}.get(name)
    if without:
        d = distance(logits_of(make_model(spec, **without).double(), tokens), logits)
        assert d > 0.01, f"{name}: {without} changes the logits by {d} only"
    # a greedy choice must not depend on rounding
    whole = np.concatenate([tokens[:N_PROMPT], greedy])
    every = logits_of(model, whole)[N_PROMPT - 1:-1]
    if "short" in spec:  # rows depend on the length of the text
        every = np.stack([logits_of(model, whole[:n])[-1] for n in range(N_PROMPT, len(whole))])
    top = np.sort(every, axis=1)
    margin = float(((top[:, -1] - top[:, -2]) / np.abs(logits).max()).min())
    assert len(greedy) == N_GREEDY and (every.argmax(axis=1) == greedy).all()
    assert margin > 1e-3, f"{name}: greedy margin {margin}; take another seed"
    assert len(set(greedy.tolist())) >= 8, f"{name}: dull continuation {greedy}; take another seed"
    return margin


def make_variant(out, spec, label, values, tokens):
    more = {k: v for k, v in values.items() if k in MORE_FIELDS}
    rope = {k: v for k, v in values.items() if k not in MORE_FIELDS}
    other = make_model(spec, rope_parameters=dict(rope), **more)
    write_json(out / f"variant-{label}.json", {**json.loads((out / "config.json").read_text()), **more, "rope_scaling": None,
                                               "rope_parameters": rope})
    logits_of(other.double(), tokens)[-1].astype("<f4").tofile(out / f"variant-{label}.f32")


def make(name, root):
    spec = MODELS[name]
    out = root / name
    out.mkdir(exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    make_model(spec).to(dtype_of(spec)).save_pretrained(out, max_shard_size=spec.get("shard", "5GB"))
    model = make_model(spec)
    for file in out.iterdir():
        file.chmod(0o644)
    if spec.get("mxfp4"):
        write_mxfp4(out, model)
    if spec.get("draft"):
        write_draft(out, model)
    if spec.get("old_config"):
        spell_as_version_4(out / "config.json")
    if spec.get("flat"):
        spell_flat(out / "config.json")
    write_tokenizer(out)
    if spec["arch"]:
        write_gguf(out / "model.gguf", spec, model)
    tokens = np.random.RandomState(100 + spec["seed"]).randint(0, N_VOCAB, N_TOKEN).astype("<i4")
    for kind in spec.get("types", ()):
        gguf_type = gguf.GGMLQuantizationType[kind]
        write_gguf(out / f"model-{kind.lower()}.gguf", spec, model, gguf_type)
        save_logits(out / f"logits-{kind.lower()}.f32", logits_of(with_type(spec, gguf_type), tokens))
    for label, values in spec.get("variants", {}).items():
        make_variant(out, spec, label, values, tokens)
    model = model.double()
    logits = logits_of(model, tokens)
    greedy = greedy_of(model, tokens, spec.get("cache", True))
    margin = verify(name, spec, out, model, tokens, logits, greedy)
    tokens.tofile(out / "tokens.i32")
    save_logits(out / "logits.f32", logits)
    if "short" in spec:
        save_logits(out / "logits-short.f32", logits_of(model, tokens[:spec["short"]]))
    if name in HIDDEN:
        hidden_of(model, tokens).astype("<f4").tofile(out / "hidden.f32")
    greedy.tofile(out / "greedy.i32")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} weights, max|logit| "
          f"{np.abs(logits).max():.1f}, smallest greedy margin {margin:.4f}")


def compare(name, root):
    """Compare the output of `make` under root with the committed files. Print a line and return
    False if they differ."""
    def read(folder, file, dtype):
        return np.fromfile(folder / name / file, dtype)
    same = True
    types = [f"model-{kind.lower()}.gguf" for kind in MODELS[name].get("types", ())]
    for file in (*(["model.gguf"] if MODELS[name]["arch"] else ()), *types, "tokens.i32", "greedy.i32"):
        if (root / name / file).read_bytes() != (HERE / name / file).read_bytes():
            print(f"{name}/{file} differs")
            same = False
    variants = [f"variant-{label}.f32" for label in MODELS[name].get("variants", ())]
    beside = [f for f, made in (("hidden.f32", name in HIDDEN), ("logits-short.f32", "short" in MODELS[name])) if made]
    for file in ("logits.f32", *beside, *variants, *(f.replace("model", "logits").replace("gguf", "f32") for f in types)):
        d = distance(read(root, file, "<f4"), read(HERE, file, "<f4"))
        if d > 1e-6:
            print(f"{name}/{file} differs by {d}")
            same = False
    return same


def main(args):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if "--fields" in args:
        import fields
        return fields.main(sys.modules[__name__], [a for a in args if a != "--fields"])
    if "--sweep" in args:
        import odd
        at = args.index("--sweep")
        return odd.main(["--count", *args[at + 1:at + 2], *args[:at], *args[at + 2:]])
    check = "--check" in args
    names = [a for a in args if a != "--check"] or list(MODELS)
    if unknown := [n for n in names if n not in MODELS]:
        sys.exit(f"make.py: no checkpoint called {unknown[0]}; there are {', '.join(MODELS)}")
    if not check:
        for name in names:
            make(name, HERE)
        if "qwen3moe" in names:
            make_fp8("qwen3moe", HERE)
        return 0
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        for name in names:
            make(name, root)
        return 0 if all([compare(name, root) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
