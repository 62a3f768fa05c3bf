#!/usr/bin/env python3
"""Compare quoth with transformers on odd configurations: tests/golden/odd.py [NAME...] [--count N]
[--first SEED]

For each architecture, N (default 20) configurations are drawn from seeds. The sizes of a
configuration are not powers of two, and its windows and trained context are shorter than the text.
The configurations have groups of heads, ropes, biases and caps of every kind. Weights are drawn
from the seed as well, and written by save_pretrained. The text is 64 random tokens and the 64
tokens that transformers selects after these.

quoth's logits (build/logits, f32 activations), or an encoder's hidden states for 128 random tokens,
must equal transformers' (float64) within 1e-4 (max|d| / max|reference|). Greedy choices must be
equal at each position, unless the reference's two largest logits differ by less than 1e-3 of the
largest. The text runs in one step, in steps of 13 tokens, and token by token. With weights in Q8_0
and int8 activations, the steps must give equal bits. The GGUF that `quoth convert` (build/quoth)
writes must give equal logits, unless quoth rejects the configuration for a reason in REFUSED. A
model of encoder and decoder has the random tokens as its source. With LongRoPE, three beginnings of
the text are compared, too. These beginnings are the longest text with the short list of divisors,
the shortest text with the long list, and a shorter text. Positions where a router's choice depends
on rounding are omitted, too. Configurations that amplify the rounding of transformers are compared
with exact results, and counted (ties.py). The script prints a line per configuration, then the
worst and the median result, the shares of omitted positions, and the numbers of configurations that
quoth converted to GGUF and that it rejected. The exit status is 1 if any configuration differs, if
quoth rejects one for another reason, or if a class has router ties at 1 % of its positions. The
script needs the packages of make.py."""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import make  # noqa: I001  (enters the virtual environment)
import campaign
import ties
import wrappers

import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
N_PROMPT, N_GREEDY, LIMIT, LEAD, TIES_MAX = 64, 64, 1e-4, 1e-3, 0.01
QUOTH = os.environ.get("QUOTH", ROOT / "build" / "quoth")
STEPS = (128, 13, 1)  # tokens
CONTEXT = 300  # context of the texts of `lengths`


def base(r):
    """Return the common fields of all architectures."""
    n_kv = r.choice((1, 2, 3))
    n_head = n_kv * r.choice((1, 2, 3, 5))
    d_head = r.choice((8, 14, 16, 20, 32))
    # norms over only a few lanes amplify rounding
    widths = [n_head * k for k in (4, 12, 16, 24, 40) if n_head * k >= 24]
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
    """Add windows of the classes that have windows only if the configuration enables windows."""
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


def rope_of_full_layers(r):
    """Return parameters of an object per layer type, in which the class ignores `truncate`."""
    full = scaled_rope(r)
    full.pop("truncate", None)
    return full


def gemma3(r):
    c = base(r)
    c.update(hidden_activation=r.choice(("gelu_pytorch_tanh",) * 3 + ("gelu", "silu")), num_hidden_layers=r.randrange(1, 9),
             sliding_window=r.choice((5, 16, 33, 200)), query_pre_attn_scalar=r.choice((8, 20, 64)),
             final_logit_softcapping=r.choice((None, 5.0, 30.0)),
             rope_parameters=dict(full_attention=rope_of_full_layers(r), sliding_attention=dict(rope_type="default", rope_theta=r.choice((300.0, 1e4)))))
    if r.random() < 0.4:
        c["layer_types"] = [r.choice(("sliding_attention", "full_attention")) for _ in range(c["num_hidden_layers"])]
    return c


def gemma_embedding(r):
    c = gemma3(r)
    c.update(use_bidirectional_attention=True, sliding_window=r.choice((1, 5, 16, 33, 300)), final_logit_softcapping=None)
    return c


def gemma4(r):
    c = base(r)
    n = c["num_hidden_layers"] = r.randrange(1, 9)
    kinds = [r.choice(("sliding_attention", "full_attention")) for _ in range(n - 1)] + ["full_attention"]
    full = dict(rope_type="proportional", rope_theta=r.choice((500.0, 1e4)), partial_rotary_factor=r.choice((0.0, 0.25, 0.5, 1.0)))
    if r.random() < 0.3:
        full["factor"] = r.choice((1.0, 8.0))
    if r.random() < 0.3:
        full = rope_of_full_layers(r)
    c.update(hidden_activation=r.choice(("gelu_pytorch_tanh",) * 3 + ("gelu", "silu")), sliding_window=r.choice((1, 5, 16, 33, 200)),
             final_logit_softcapping=r.choice((None, 5.0, 30.0)), global_head_dim=r.choice((8, 12, 20, 48)),
             attention_k_eq_v=r.random() < 0.4, hidden_size_per_layer_input=r.choice((0, 8, 20)), vocab_size_per_layer_input=c["vocab_size"] + r.choice((0, 7)),
             use_double_wide_mlp=r.random() < 0.4, rope_parameters=dict(
                 full_attention=full, sliding_attention=dict(rope_type="default", rope_theta=r.choice((300.0, 1e4)))))
    if r.random() < 0.7:
        c["layer_types"] = kinds
    else:
        kinds = ["full_attention" if (i + 1) % 6 == 0 or i == n - 1 else "sliding_attention" for i in range(n)]
    if r.random() < 0.4:
        c["num_global_key_value_heads"] = r.choice([k for k in (1, 2, 3) if c["num_attention_heads"] % k == 0])
    if c["hidden_size_per_layer_input"]:  # the class needs separate inputs for layers that reuse keys and values
        fits = [k for k in range(1, n) if set(kinds[:n - k]) == set(kinds)]
        c["num_kv_shared_layers"] = r.choice([0, *fits])
    if r.random() < 0.4:
        e = r.randrange(1, 9)
        c.update(enable_moe_block=True, num_experts=e, top_k_experts=r.randrange(1, min(e, 4) + 1), moe_intermediate_size=r.choice((17, 24, 48)))
    return c


def gemma3n(r):
    c = base(r)
    n = c["num_hidden_layers"] = r.randrange(1, 9)
    kinds = [r.choice(("sliding_attention", "full_attention")) for _ in range(n)]
    full = rope_of_full_layers(r)
    streams = r.randrange(1, 6)
    c.update(hidden_size=c["num_attention_heads"] * r.choice((12, 16, 24)), hidden_activation=r.choice(("gelu_pytorch_tanh",) * 3 + ("gelu", "silu")),
             sliding_window=r.choice((1, 5, 16, 33, 200)), final_logit_softcapping=r.choice((5.0, 30.0)), hidden_size_per_layer_input=r.choice((8, 20)),
             vocab_size_per_layer_input=c["vocab_size"] - r.choice((0, 30, -7)), altup_num_inputs=streams, altup_active_idx=r.randrange(streams),
             altup_correct_scale=r.random() < 0.7, laurel_rank=r.choice((4, 9)),
             rope_parameters=dict(full_attention=full, sliding_attention=dict(rope_type="default", rope_theta=r.choice((300.0, 1e4)))))
    if r.random() < 0.7:
        c["layer_types"] = kinds
    else:
        kinds = ["full_attention" if (i + 1) % 5 == 0 else "sliding_attention" for i in range(n)]
    fits = [k for k in range(1, n) if set(kinds[:n - k]) == set(kinds)]
    c["num_kv_shared_layers"] = r.choice([0, *fits])
    if r.random() < 0.7:
        c["activation_sparsity_pattern"] = [r.choice((0.0, 0.3, 0.95)) for _ in range(n)]
    if r.random() < 0.4:
        c["intermediate_size"] = [r.choice((24, 56, 97)) for _ in range(n)]
    return c


def gemma(r):
    c = base(r)
    c.update(hidden_act=r.choice(("gelu_pytorch_tanh", "gelu", "silu")), rope_parameters=scaled_rope(r))
    return c


def gemma2(r):
    c = base(r)
    c.update(hidden_activation=r.choice(("gelu_pytorch_tanh",) * 3 + ("gelu", "silu")), sliding_window=r.choice((5, 16, 33, 200)),
             query_pre_attn_scalar=r.choice((8, 20, 64)), final_logit_softcapping=r.choice((None, 5.0, 30.0)),
             attn_logit_softcapping=r.choice((None, 0.5, 50.0)), rope_parameters=scaled_rope(r))
    if r.random() < 0.4:
        c["layer_types"] = [r.choice(("sliding_attention", "full_attention")) for _ in range(c["num_hidden_layers"])]
    return c


def granite(r):
    c = base(r)
    c.update(mlp_bias=r.random() < 0.3, hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r),
             embedding_multiplier=r.choice((1, 12.0, 0.5)), attention_multiplier=r.choice((1, 0.0625, 0.3)),
             residual_multiplier=r.choice((1, 0.22)), logits_scaling=r.choice((1, 8.0, 0.5)))
    return c


def phi3(r):
    c = base(r)
    c.pop("attention_bias")
    part = r.choice((1.0, 0.5))
    d_head = r.choice((12, 16, 20, 32))
    c.pop("head_dim")  # the class has hidden size / heads
    c.update(hidden_size=c["num_attention_heads"] * d_head, hidden_act=r.choice(("silu", "gelu")), sliding_window=r.choice((None, 5, 33, 200)))
    n = int(d_head * part) // 2
    rope = dict(rope_type="default", rope_theta=r.choice((500.0, 1e4)), partial_rotary_factor=part)
    if r.random() < 0.7:
        short = r.random() < 0.4
        c["max_position_embeddings"] = r.choice((128, 300))
        c["original_max_position_embeddings"] = 300 if short else r.choice((20, 60))
        rope.update(rope_type="longrope", short_factor=[1 + r.random() for _ in range(n)], long_factor=[1 + 9 * r.random() for _ in range(n)])
        if r.random() < 0.3:
            rope["attention_factor"] = 1.3
    c["rope_parameters"] = rope
    return c


def minicpm3(r):
    c = base(r)
    n_head = c["num_key_value_heads"] = c["num_attention_heads"]
    c.pop("head_dim")
    d_rope = r.choice((2, 8, 12, 20))
    c.update(hidden_size=n_head * r.choice((12, 16, 20)), mlp_bias=r.random() < 0.3, hidden_act=r.choice(("silu", "silu", "gelu")),
             q_lora_rank=r.choice((None, 16, 30, 56)), kv_lora_rank=r.choice((14, 24, 40)), qk_nope_head_dim=r.choice((4, 10, 24)),
             qk_rope_head_dim=d_rope, v_head_dim=r.choice((None, 6, 18, 40)), scale_emb=r.choice((1, 3.0, 12)),
             scale_depth=r.choice((None, 1.4, 3.0)), dim_model_base=r.choice((None, 16, 256)))
    rope = scaled_rope(r)
    if r.random() < 0.5:
        rope = dict(rope_type="longrope", rope_theta=r.choice((500.0, 1e4)), original_max_position_embeddings=r.choice((20, 60, 100, 300)),
                    short_factor=[1 + r.random() for _ in range(d_rope // 2)], long_factor=[1 + 9 * r.random() for _ in range(d_rope // 2)])
        rope.update({k: v for k, v in dict(attention_factor=1.3, factor=4.0).items() if r.random() < 0.3})
    c["rope_parameters"] = rope
    return c


def deepseek(r):
    """Return the common fields of DeepSeek's versions."""
    c = base(r)
    c.pop("head_dim")
    c.update(num_key_value_heads=c["num_attention_heads"], rms_norm_eps=r.choice((1e-6, 1e-6, 1e-3)))
    rope = scaled_rope(r)
    if rope["rope_type"] == "yarn" and r.random() < 0.5:
        rope.update(mscale=r.choice((0.707, 1.0)), mscale_all_dim=r.choice((0.5, 1.0)))
    n_group = r.choice((1, 1, 2, 4))
    n = n_group * r.choice((2, 3, 5))
    n_group_used = r.randrange(1, n_group + 1)
    c.update(q_lora_rank=r.choice((None, 16, 30, 56)), kv_lora_rank=r.choice((14, 24, 40)), qk_nope_head_dim=r.choice((4, 10, 24)),
             qk_rope_head_dim=r.choice((2, 8, 12, 20)), v_head_dim=r.choice((6, 18, 40)), hidden_act=r.choice(("silu",) * 5 + ("gelu",)),
             n_routed_experts=n, n_group=n_group, topk_group=n_group_used, moe_intermediate_size=r.choice((17, 24, 48)),
             num_experts_per_tok=r.randrange(1, min(n_group_used * n // n_group, 4) + 1), n_shared_experts=r.choice((1, 2)),
             first_k_dense_replace=r.choice((0, 1, 1, 9)), routed_scaling_factor=r.choice((1.0, 2.5)), rope_parameters=rope)
    return c


def deepseek_v2(r):
    return dict(deepseek(r), topk_method=r.choice(("greedy", "group_limited_greedy")), mlp_bias=r.random() < 0.2)


def deepseek_v3(r):
    return dict(deepseek(r), norm_topk_prob=r.random() < 0.7, rope_interleave=r.random() < 0.8)


def kimi_linear(r):
    c = deepseek(r)
    for field in ("rope_parameters", "n_routed_experts", "num_experts_per_tok", "n_group", "n_shared_experts", "routed_scaling_factor"):
        c.pop(field, None)
    n_group, n = r.choice((1, 1, 2, 3)), c["num_hidden_layers"]
    n_expert, n_used_group = n_group * r.choice((2, 3, 4)), r.randrange(1, n_group + 1)
    c.update(num_experts=n_expert, num_expert_group=n_group, topk_group=n_used_group, num_shared_experts=r.randrange(1, 3),
             num_experts_per_token=r.randrange(1, min(3, n_expert // n_group * n_used_group) + 1), moe_renormalize=r.random() < 0.7,
             routed_scaling_factor=r.choice((1.0, 2.446)), first_k_dense_replace=r.randrange(0, 3),
             linear_attn_config=dict(head_dim=r.choice((8, 10, 16, 32)), num_heads=r.randrange(1, 6), short_conv_kernel_size=r.choice((2, 3, 4))))
    if r.random() < 0.7:  # a GGUF has one number of heads
        c["linear_attn_config"]["num_heads"] = c["num_attention_heads"]
    # the class needs a layer with attention, and its pattern has the first one in layer 4
    full = sorted(r.sample(range(n), r.randrange(1, n + 1)))
    if r.random() < 0.5:
        c["linear_attn_config"].update(full_attn_layers=[i + 1 for i in full], kda_layers=[i + 1 for i in range(n) if i not in full])
    elif n < 5 or r.random() < 0.5:
        c["layer_types"] = ["full_attention" if i in full else "linear_attention" for i in range(n)]
    if r.random() < 0.4:
        c["mlp_layer_types"] = [r.choice(("dense", "sparse")) for _ in range(n)]
    return c


def glm(r):
    c = base(r)
    c.update(head_dim=r.choice((8, 16, 20, 32)), hidden_act=r.choice(("silu", "gelu")),
             rope_parameters=dict(scaled_rope(r), partial_rotary_factor=r.choice((0.5, 1.0))))
    return c


def seed_oss(r):
    c = base(r)
    c.update(attention_bias=r.random() < 0.7, attention_out_bias=r.random() < 0.3, mlp_bias=r.random() < 0.3,
             hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r))
    return c


def ernie4_5(r):
    c = base(r)
    c.pop("attention_bias")
    c.update(use_bias=r.random() < 0.4, hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r))
    return c


def exaone4(r):
    c = base(r)
    c.pop("attention_bias")
    c.update(sliding_window=r.choice((None, 5, 33, 200)), sliding_window_pattern=r.choice((1, 2, 4)), hidden_act=r.choice(("silu", "gelu")),
             rope_parameters=scaled_rope(r))
    if r.random() < 0.4 or c["sliding_window"] is None:
        kinds = ("sliding_attention", "full_attention") if c["sliding_window"] else ("full_attention",)
        c["layer_types"] = [r.choice(kinds) for _ in range(c["num_hidden_layers"])]
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


def hybrid(r, c):
    """Add the fields of layers with the gated delta rule, and a partial rope."""
    n_k, n = r.choice((1, 2, 3)), c["num_hidden_layers"]
    c.update(linear_num_key_heads=n_k, linear_num_value_heads=n_k * r.choice((1, 2, 3)), linear_key_head_dim=r.choice((8, 12, 20)),
             linear_value_head_dim=r.choice((8, 12, 24)), linear_conv_kernel_dim=r.choice((2, 3, 4, 5)), hidden_act=r.choice(("silu", "silu", "gelu")))
    rope = dict(rope_type=r.choice(("default", "linear")), rope_theta=r.choice((500.0, 1e4, 1e6)), factor=2.0, partial_rotary_factor=r.choice((0.5, 1.0)))
    if rope["rope_type"] == "default":
        rope.pop("factor")
    if c["head_dim"] == 14:
        rope["partial_rotary_factor"] = 1.0  # 7 lanes are odd
    c["rope_parameters"] = rope
    if r.random() < 0.5:
        c["full_attention_interval"] = r.choice((2, 3))
    elif r.random() < 0.7:
        c["layer_types"] = [r.choice(("linear_attention", "full_attention")) for _ in range(n - 1)] + ["full_attention"]
    else:
        c["num_hidden_layers"] = 4
    if c["num_hidden_layers"] < 4 and "layer_types" not in c:  # the class needs a layer with attention
        c["num_hidden_layers"] = 4
    return c


def qwen3_5(r):
    return hybrid(r, base(r))


def qwen3_5_moe(r):
    c = qwen3_5(r)
    n = r.randrange(1, 12)
    c.update(num_experts=n, num_experts_per_tok=r.randrange(1, min(n, 4) + 1), moe_intermediate_size=r.choice((17, 24, 48)),
             shared_expert_intermediate_size=r.choice((9, 24, 40)))
    return c


def qwen3_next(r):
    c = qwen3_5_moe(r)
    c.update(norm_topk_prob=r.random() < 0.7, decoder_sparse_step=r.choice((1, 1, 2)))
    if r.random() < 0.3:
        c["mlp_only_layers"] = [r.randrange(c["num_hidden_layers"])]
    return c


def lfm2(r):
    c = base(r)
    for field in ("head_dim", "attention_bias", "rms_norm_eps"):
        c.pop(field)
    n = c["num_hidden_layers"]
    c.update(hidden_size=c["num_attention_heads"] * r.choice((12, 16, 20)), norm_eps=r.choice((1e-5, 1e-3)), conv_bias=r.random() < 0.5,
             conv_L_cache=r.choice((2, 3, 4)), block_multiple_of=r.choice((1, 8, 24)), block_ffn_dim_multiplier=r.choice((1.0, 0.9, 1.3)),
             block_auto_adjust_ff_dim=r.random() < 0.7, rope_parameters=scaled_rope(r))
    if r.random() < 0.5:
        c["layer_types"] = [r.choice(("conv", "full_attention")) for _ in range(n - 1)] + ["full_attention"]
    elif r.random() < 0.7:
        c["full_attn_idxs"] = sorted({r.randrange(n), n - 1})
    return c


def mamba2(r):
    c = base(r)
    n_group, d_head = r.choice((1, 2, 3)), r.choice((8, 12, 16))
    n_head, expand = n_group * r.choice((1, 2, 3)) * 2, r.choice((1, 2))
    return dict(vocab_size=c["vocab_size"], hidden_size=n_head * d_head // expand, num_heads=n_head, head_dim=d_head, expand=expand, n_groups=n_group,
                state_size=r.choice((8, 12, 20)), conv_kernel=r.choice((2, 3, 4)), num_hidden_layers=c["num_hidden_layers"], chunk_size=r.choice((8, 64)),
                layer_norm_epsilon=r.choice((1e-5, 1e-3)), use_bias=r.random() < 0.5, use_conv_bias=r.random() < 0.5, hidden_act=r.choice(("silu", "gelu")),
                time_step_limit=r.choice(([0.0, 0.5], [0.0, float("inf")])), tie_word_embeddings=c["tie_word_embeddings"], pad_token_id=None, bos_token_id=1, eos_token_id=2)


def experts(r, most=12):
    """Return a number of experts, and a number of experts per row."""
    n = r.randrange(1, most)
    return n, r.randrange(1, min(n, 4) + 1)


def mixtral(r):
    c = base(r)
    c.pop("attention_bias")
    n, used = experts(r)
    c.update(num_local_experts=n, num_experts_per_tok=used, sliding_window=r.choice((None, None, 5, 33)), hidden_act=r.choice(("silu", "gelu")),
             rope_parameters=scaled_rope(r))
    return c


def qwen2_moe(r):
    c = qwen3moe(r)
    c.pop("attention_bias")
    c.pop("head_dim")  # the class has hidden size / heads
    c.update(hidden_size=c["num_attention_heads"] * r.choice((12, 16, 20)), qkv_bias=r.random() < 0.7,
             shared_expert_intermediate_size=r.choice((17, 24, 40)))
    windows(r, c)
    if "layer_types" not in c:
        c["max_window_layers"] = r.randrange(c["num_hidden_layers"] + 2)
    return c


def gpt_oss(r):
    c = base(r)
    n, used = experts(r)
    c.update(num_local_experts=n, num_experts_per_tok=used, attention_bias=r.random() < 0.7, sliding_window=r.choice((5, 33, 200)),
             swiglu_alpha=r.choice((1.702, 1.702, 0.8)), swiglu_limit=r.choice((7.0, 0.9)), rope_parameters=scaled_rope(r))
    if r.random() < 0.4:
        c["layer_types"] = [r.choice(("sliding_attention", "full_attention")) for _ in range(c["num_hidden_layers"])]
    if r.random() < 0.3:  # squares are transposed, too
        c["intermediate_size"] = c["hidden_size"]
    return c


def grouped(r):
    """Return the fields of a mixture with groups of experts, and with a block of all rows."""
    n_group = r.choice((1, 1, 2, 4))
    n = n_group * r.choice((2, 3, 5))
    n_group_used = r.randrange(1, n_group + 1)
    return dict(n_routed_experts=n, n_group=n_group, topk_group=n_group_used, moe_intermediate_size=r.choice((17, 24, 48)),
                num_experts_per_tok=r.randrange(1, min(n_group_used * n // n_group, 4) + 1), n_shared_experts=r.choice((1, 2)),
                first_k_dense_replace=r.choice((0, 1, 1, 9)), routed_scaling_factor=r.choice((1.0, 2.5)), norm_topk_prob=r.random() < 0.7)


def glm4_moe(r):
    c = base(r)
    c.update(grouped(r), head_dim=r.choice((8, 16, 20, 32)), use_qk_norm=r.random() < 0.5, hidden_act=r.choice(("silu", "gelu")),
             num_mtp_layers=r.choice((0, 1, 2)), rope_parameters=dict(scaled_rope(r), partial_rotary_factor=r.choice((0.5, 1.0))))
    return c


def olmoe(r):
    c = base(r)
    c.pop("head_dim")  # the class has hidden size / heads
    n, used = experts(r)
    c.update(hidden_size=c["num_attention_heads"] * r.choice((12, 16, 20)), num_experts=n, num_experts_per_tok=used, clip_qkv=r.choice((None, 0.5, 2.0)),
             norm_topk_prob=r.random() < 0.5, hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r))
    return c


def granitemoe(r):
    c = granite(r)
    c.pop("mlp_bias")
    n, used = experts(r)
    c.update(num_local_experts=n, num_experts_per_tok=used)
    return c


def granitemoeshared(r):
    return dict(granitemoe(r), shared_intermediate_size=r.choice((0, 17, 40)))


def phimoe(r):
    c = base(r)
    n, used = experts(r)
    c.update(num_local_experts=max(n, 2), num_experts_per_tok=2, router_jitter_noise=r.choice((0.01, 0.1, 0.5)), lm_head_bias=r.random() < 0.5,
             sliding_window=r.choice((None, 5, 33)), hidden_act=r.choice(("silu", "gelu")),
             rope_parameters=dict(rope_type="default", rope_theta=r.choice((500.0, 1e4))))
    c["rms_norm_eps"] = r.choice((1e-5, 1e-3))
    if r.random() < 0.5:  # the class keeps the short list for longer texts
        half = c["head_dim"] // 2
        c.update(max_position_embeddings=600, rope_parameters=dict(
            rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=300, short_mscale=1.2, long_mscale=1.2,
            short_factor=[1 + r.random() for _ in range(half)], long_factor=[1 + 9 * r.random() for _ in range(half)]))
    return c


def ernie4_5_moe(r):
    c = base(r)
    c.pop("attention_bias")
    n, used = experts(r)
    c.update(use_bias=r.random() < 0.4, hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r), moe_num_experts=n, moe_k=used,
             moe_intermediate_size=r.choice((17, 24, 48)), moe_num_shared_experts=r.choice((0, 1, 2)), moe_layer_start_index=r.choice((0, 1, 2)),
             moe_layer_end_index=r.choice((-1, -1, 2)), moe_layer_interval=r.choice((1, 1, 2)), moe_norm_min=r.choice((1e-12, 0.4)))
    return c


def minimax_m2(r):
    c = base(r)
    c.pop("attention_bias")
    n, used = experts(r)
    c.update(num_local_experts=n, num_experts_per_tok=used, hidden_act=r.choice(("silu", "gelu")), head_dim=r.choice((8, 16, 20, 32)),
             rope_parameters=dict(scaled_rope(r), partial_rotary_factor=r.choice((0.5, 1.0))))
    if r.random() < 0.3:
        c["rope_parameters"].pop("partial_rotary_factor")
        c["rotary_dim"] = c["head_dim"] // 2
    return c


def mamba(r):
    c = base(r)
    d = r.choice((24, 40, 56))
    fields = dict(vocab_size=c["vocab_size"], hidden_size=d, expand=r.choice((1, 2, 3)), state_size=r.choice((1, 8, 12, 20)), conv_kernel=r.choice((2, 3, 4)),
                  num_hidden_layers=c["num_hidden_layers"], time_step_rank=r.choice(("auto", 1, 5, 17)), layer_norm_epsilon=r.choice((1e-5, 1e-3)),
                  use_bias=r.random() < 0.3, use_conv_bias=r.random() < 0.7, hidden_act=r.choice(("silu", "silu", "gelu")),
                  tie_word_embeddings=c["tie_word_embeddings"], pad_token_id=None, bos_token_id=1, eos_token_id=2)
    if r.random() < 0.4:
        fields["intermediate_size"] = r.choice((30, 64, 300))
    return fields


def rwkv(r):
    c = base(r)
    return dict(vocab_size=c["vocab_size"], hidden_size=r.choice((24, 40, 56)), intermediate_size=r.choice((None, 24, 97)), num_hidden_layers=r.randrange(2, 6),  # the class fails with one layer
                context_length=r.choice((32, 1024)), layer_norm_epsilon=r.choice((1e-5, 1e-3)), rescale_every=r.choice((0, -1, 1, 2, 6)),
                tie_word_embeddings=c["tie_word_embeddings"], pad_token_id=None, bos_token_id=1, eos_token_id=2)


def falcon_mamba(r):
    c = mamba(r)
    c["mixer_rms_eps"] = c["layer_norm_epsilon"] if r.random() < 0.5 else r.choice((1e-6, 1e-2))
    return c


def llama4_text(r):
    c = base(r)
    n, used = experts(r)
    c.update(num_local_experts=n, num_experts_per_tok=used, intermediate_size_mlp=r.choice((24, 56, 97)), hidden_act=r.choice(("silu", "silu", "gelu")),
             rope_parameters=scaled_rope(r), interleave_moe_layer_step=r.choice((1, 1, 2, 3)), num_hidden_layers=r.randrange(1, 7))
    if r.random() < 0.3:  # constants of llama.cpp
        return dict(c, attention_chunk_size=8192, floor_scale=8192, attn_scale=0.1, attn_temperature_tuning=True, hidden_act="silu")
    c.update(use_qk_norm=r.random() < 0.6, attention_chunk_size=r.choice((None, 1, 5, 33, 64, 200)), attn_temperature_tuning=r.random() < 0.7,
             attn_scale=r.choice((0.1, 0.5)), floor_scale=r.choice((1, 7, 20, 64)), no_rope_layer_interval=r.choice((2, 3, 4)))
    layers = range(c["num_hidden_layers"])
    if r.random() < 0.3:
        c["no_rope_layers"] = [r.randrange(2) for _ in layers]
    if r.random() < 0.3:
        c["moe_layers"] = [i for i in layers if r.random() < 0.5]
    if r.random() < 0.3 and c["attention_chunk_size"]:
        c["layer_types"] = [r.choice(("chunked_attention", "full_attention")) for _ in layers]
    if r.random() < 0.3:  # squares are transposed, too
        c["intermediate_size"] = c["hidden_size"]
    return c


def with_mamba2(r, c):
    """Add the fields of layers of Mamba-2 in models with attention."""
    n_group, d_head = r.choice((1, 2, 3)), r.choice((8, 12, 16))
    n_head = n_group * r.choice((1, 2, 3)) * 2
    n_head_q = r.choice([n for n in (1, 2, 3, 4, 6) if n_head * d_head // 2 % (2 * n) == 0])
    c.pop("head_dim")  # the class has hidden size / heads
    c.update(hidden_size=n_head * d_head // 2, num_attention_heads=n_head_q, num_key_value_heads=r.choice([n for n in (1, 2, 3) if n_head_q % n == 0]),
             mamba_n_heads=n_head, mamba_d_head=r.choice(("auto", d_head)), mamba_n_groups=n_group, mamba_d_state=r.choice((8, 12, 20)),
             mamba_d_conv=r.choice((2, 3, 4)), mamba_chunk_size=r.choice((8, 64)), mamba_conv_bias=r.random() < 0.7, mamba_proj_bias=r.random() < 0.3,
             time_step_limit=r.choice(([0.0, 0.5], [0.0, 100.0], (0.0, float("inf")))), hidden_act=r.choice(("silu", "silu", "gelu")))


def bamba(r):
    c = base(r)
    with_mamba2(r, c)
    c.update(mlp_bias=r.random() < 0.3, rope_parameters=dict(scaled_rope(r), partial_rotary_factor=r.choice((0.5, 1.0))),
             attn_layer_indices=[i for i in range(c["num_hidden_layers"]) if r.random() < 0.5] or [0])  # the class needs attention in one layer
    if c["hidden_size"] // c["num_attention_heads"] % 4:
        c["rope_parameters"]["partial_rotary_factor"] = 1.0
    return c


def granitemoehybrid(r):
    c = base(r)
    with_mamba2(r, c)
    e = r.choice((0, 1, 4, 6))
    c.update(rope_parameters=scaled_rope(r), position_embedding_type=r.choice(("rope", "rope", "nope", None)),
             layer_types=[r.choice(("mamba", "attention")) for _ in range(c["num_hidden_layers"] - 1)] + ["attention"], num_local_experts=e,
             num_experts_per_tok=r.randrange(1, e + 1) if e else 2, shared_intermediate_size=r.choice((12, 40)),
             embedding_multiplier=r.choice((1, 12.0, 0.5)), attention_multiplier=r.choice((1, 0.0625, 0.3)),
             residual_multiplier=r.choice((1, 0.22)), logits_scaling=r.choice((1, 8.0, 0.5)))
    return c


def falcon_h1(r):
    c = base(r)
    with_mamba2(r, c)
    n_head, d_head = c["mamba_n_heads"], c["hidden_size"] * 2 // c["mamba_n_heads"]
    wide = r.random() < 0.5
    factor = lambda: r.choice((1.0, 0.5, 1.5))  # noqa: E731
    c.update(mamba_d_ssm=n_head * 8 if wide else None, mamba_d_head="auto" if wide else d_head, head_dim=r.choice((8, 14, 20)), mlp_bias=r.random() < 0.3,
             rope_parameters=scaled_rope(r), projectors_bias=r.random() < 0.3, mamba_rms_norm=r.random() < 0.6, mamba_norm_before_gate=r.random() < 0.5,
             **{f"{name}_multiplier": factor() for name in ("embedding", "lm_head", "attention_in", "attention_out", "key", "ssm_in", "ssm_out")},
             ssm_multipliers=r.choice((None, [0.5, 1.5, 0.7, 1.2, 0.9])), mlp_multipliers=r.choice((None, [0.8, 0.6])))
    return c


def nemotron_h(r):
    c = base(r)
    n_group = r.choice((1, 2, 3))
    kinds = [r.choice(("mamba", "attention", "mlp", "moe")) for _ in range(r.randrange(1, 6))] + ["attention"]  # the class needs attention in one layer
    for field in ("num_hidden_layers", "rms_norm_eps"):
        c.pop(field)
    c.update(layers_block_type=kinds, layer_norm_epsilon=r.choice((1e-5, 1e-3)), mlp_bias=r.random() < 0.3, use_bias=r.random() < 0.3,
             use_conv_bias=r.random() < 0.7, mlp_hidden_act=r.choice(("relu2", "relu2", "silu")), mamba_hidden_act=r.choice(("silu", "gelu")),
             mamba_num_heads=n_group * r.choice((1, 2, 3)), mamba_head_dim=r.choice((8, 12, 16)), n_groups=n_group, ssm_state_size=r.choice((8, 12, 20)),
             conv_kernel=r.choice((2, 3, 4)), chunk_size=r.choice((8, 64)), time_step_min=r.choice((0.001, 0.05, 0.5)))
    group, e = r.choice((1, 1, 2, 3)), r.choice((2, 3, 4))
    used = r.randrange(1, group + 1)
    c.update(n_routed_experts=group * e, n_group=group, topk_group=used, num_experts_per_tok=r.randrange(1, used * e + 1),
             moe_intermediate_size=r.choice((12, 20, 33)), moe_shared_expert_intermediate_size=r.choice((16, 28)),
             moe_latent_size=r.choice((None, None, 12, 50)), norm_topk_prob=r.random() < 0.7, routed_scaling_factor=r.choice((1.0, 2.5)))
    if r.random() < 0.3:  # older names, which the class prefers
        c.update(mamba_dt_min=c.pop("time_step_min"), mamba_conv_bias=c.pop("use_conv_bias"), mamba_d_conv=c.pop("conv_kernel"))
    return c


def jamba(r):
    c = base(r)
    n, period, e = c["num_hidden_layers"], r.choice((1, 2, 3)), r.choice((1, 3, 6))
    every = r.choice((1, 2))
    for field in ("head_dim", "attention_bias"):
        c.pop(field)
    c.update(hidden_size=c["num_attention_heads"] * r.choice((12, 16, 20)), hidden_act=r.choice(("silu", "silu", "gelu")),
             attn_layer_period=min(period, n), attn_layer_offset=r.randrange(min(period, n)), expert_layer_period=every, expert_layer_offset=r.randrange(every),
             num_experts=e, num_experts_per_tok=r.randrange(1, e + 1), mamba_d_state=r.choice((1, 8, 12)), mamba_d_conv=r.choice((2, 3, 4)),
             mamba_expand=r.choice((1, 2)), mamba_dt_rank=r.choice(("auto", 5, 17)), mamba_conv_bias=r.random() < 0.7, mamba_proj_bias=r.random() < 0.3)
    return c


def olmo2(r):
    c = base(r)
    c.pop("head_dim")  # the class has hidden size / heads
    c.update(hidden_size=c["num_attention_heads"] * r.choice((12, 16, 20)), hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r))
    return c


def olmo3(r):
    c = olmo2(r)
    n = c["num_hidden_layers"] = r.randrange(1, 9)
    c.update(sliding_window=r.choice((1, 5, 16, 33, 200)), rope_parameters=dict(
        full_attention=rope_of_full_layers(r), sliding_attention=dict(rope_type="default", rope_theta=r.choice((300.0, 1e4)))))
    if r.random() < 0.6:
        c["layer_types"] = [r.choice(("sliding_attention", "full_attention")) for _ in range(n)]
    return c


def apertus(r):
    c = olmo2(r)
    c["hidden_act"] = r.choice(("xielu", "xielu", "relu2", "silu"))
    return c


def ministral3(r):
    c = base(r)
    c.pop("attention_bias")
    rope = dict(scaled_rope(r), llama_4_scaling_beta=r.choice((0.1, 0.5)), original_max_position_embeddings=r.choice((20, 32)))
    c.update(sliding_window=r.choice((None, 5, 33)), rope_parameters=rope)
    return c


def internlm3(r):
    c = base(r)
    c["mlp_bias"] = c["attention_bias"]  # the class has one field for both
    c.update(hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r))
    return c


def hunyuan(r):
    c = base(r)
    c.update(hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r))
    if r.random() < 0.4:
        c["rope_parameters"] = dict(rope_type="dynamic", rope_theta=1e4, factor=1.0, alpha=r.choice((1.0, 50.0, 1000.0)))
    return c


def bert(r):
    c = base(r)
    for field in ("num_key_value_heads", "head_dim", "rms_norm_eps", "bos_token_id", "eos_token_id", "tie_word_embeddings", "attention_bias"):
        c.pop(field)
    c.update(hidden_size=c["num_attention_heads"] * r.choice((8, 12, 17)), max_position_embeddings=r.choice((200, 512)), pad_token_id=0,
             type_vocab_size=r.choice((1, 2, 3)), layer_norm_eps=r.choice((1e-12, 1e-5, 1e-3)), hidden_act=r.choice(("gelu", "gelu", "relu", "silu", "gelu_new")))
    return c


def roberta(r):
    return dict(bert(r), pad_token_id=1)


def distilbert(r):
    c = bert(r)
    return dict(vocab_size=c["vocab_size"], dim=c["hidden_size"], n_heads=c["num_attention_heads"], n_layers=c["num_hidden_layers"],
                hidden_dim=c["intermediate_size"], max_position_embeddings=c["max_position_embeddings"], pad_token_id=0,
                activation=r.choice(("gelu", "gelu", "relu")))


def modernbert(r):
    c = bert(r)
    c.pop("type_vocab_size"), c.pop("layer_norm_eps")
    c.update(hidden_size=c["num_attention_heads"] * r.choice((8, 12, 20)), norm_eps=r.choice((1e-5, 1e-3)), local_attention=r.choice((2, 10, 24, 128)), global_attn_every_n_layers=r.choice((1, 2, 3)),
             attention_bias=r.random() < 0.3, mlp_bias=r.random() < 0.3, hidden_activation=r.choice(("gelu", "gelu", "silu")), rope_parameters=dict(
                 full_attention=dict(rope_type="default", rope_theta=r.choice((300.0, 1e4))),
                 sliding_attention=dict(rope_type="default", rope_theta=r.choice((300.0, 1e4)))))
    c.pop("hidden_act")
    return c


def nomic_bert(r):
    c = bert(r)
    c.update(hidden_size=c["num_attention_heads"] * r.choice((8, 12, 20)), hidden_act=r.choice(("silu", "silu", "gelu")), rope_parameters=dict(rope_type="default", rope_theta=r.choice((300.0, 1e3, 1e4))))
    return c


def layer_norm(r, eps):
    """Return the common fields of classes with LayerNorm. eps: name of the field of the epsilon."""
    c = base(r)
    c.pop("rms_norm_eps")
    c.pop("attention_bias")
    c.pop("head_dim")  # some classes have hidden size / heads
    c.update({eps: r.choice((1e-5, 1e-3)), "hidden_size": c["num_attention_heads"] * r.choice((12, 16, 20))})
    return c


def partial(r):
    return dict(scaled_rope(r), partial_rotary_factor=r.choice((0.25, 0.5, 1.0)))


def with_head_dim(r, c):
    if r.random() < 0.5:
        c["head_dim"] = r.choice((8, 16, 20, 32))
    return c


def cohere(r):
    c = layer_norm(r, "layer_norm_eps")
    c.update(attention_bias=r.random() < 0.3, use_qk_norm=r.random() < 0.5, logit_scale=r.choice((1.0, 0.0625, 3.0)),
             hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r))
    return with_head_dim(r, c)


def cohere2(r):
    c = layer_norm(r, "layer_norm_eps")
    c.update(attention_bias=r.random() < 0.3, logit_scale=r.choice((1.0, 0.0625, 3.0)), sliding_window=r.choice((5, 33, 200)),
             hidden_act=r.choice(("silu", "gelu")), rope_parameters=scaled_rope(r), num_hidden_layers=r.randrange(1, 7))
    if r.random() < 0.4:
        c["layer_types"] = [r.choice(("sliding_attention", "full_attention")) for _ in range(c["num_hidden_layers"])]
    elif r.random() < 0.5:
        c["sliding_window_pattern"] = r.choice((1, 2, 3))
    return c


def starcoder2(r):
    c = layer_norm(r, "norm_epsilon")
    c.update(use_bias=r.random() < 0.6, sliding_window=r.choice((None, 5, 33, 200)), rope_parameters=scaled_rope(r),
             hidden_act=r.choice(("gelu_pytorch_tanh", "gelu", "silu", "relu", "gelu_new")))
    return with_head_dim(r, c)


def phi(r):
    c = layer_norm(r, "layer_norm_eps")
    c.update(tie_word_embeddings=False, hidden_act=r.choice(("gelu_new", "gelu", "relu")), rope_parameters=partial(r))
    c["hidden_size"] = c["num_attention_heads"] * 16
    return c


def stablelm(r):
    c = layer_norm(r, "layer_norm_eps")
    c.update(use_qkv_bias=r.random() < 0.5, qk_layernorm=r.random() < 0.5, use_parallel_residual=r.random() < 0.5,
             hidden_act=r.choice(("silu", "gelu")), rope_parameters=partial(r))
    c["hidden_size"] = c["num_attention_heads"] * r.choice((16, 24))
    return c


def nemotron(r):
    c = layer_norm(r, "norm_eps")
    c.update(attention_bias=r.random() < 0.5, mlp_bias=r.random() < 0.5, hidden_act=r.choice(("relu2", "relu2", "gelu")),
             rope_parameters=partial(r))
    c["hidden_size"] = c["num_attention_heads"] * 16
    c = with_head_dim(r, c)
    rope = c["rope_parameters"]
    if int(c.get("head_dim", 16) * rope.get("partial_rotary_factor", 1)) % 2:
        rope["partial_rotary_factor"] = 1.0  # the class rounds an odd number of lanes up; quoth rejects such a number
    return c


def olmo(r):
    c = layer_norm(r, "unused")
    c.pop("unused")
    c.update(attention_bias=r.random() < 0.3, clip_qkv=r.choice((None, 0.5, 2.0)), hidden_act=r.choice(("silu", "gelu")),
             rope_parameters=scaled_rope(r))
    return c


def arcee(r):
    c = base(r)
    c.update(mlp_bias=r.random() < 0.3, hidden_act=r.choice(("relu2", "silu")), rope_parameters=scaled_rope(r))
    return c


def bitnet(r):
    c = base(r)
    c.update(attention_bias=r.random() < 0.3, hidden_act=r.choice(("relu2", "silu")), rope_parameters=scaled_rope(r))
    c.pop("head_dim", None)
    c["hidden_size"] = c["num_attention_heads"] * r.choice((12, 16, 20))
    return c


def gpt2(r):
    c = base(r)
    n_head = c["num_attention_heads"]
    return dict(vocab_size=c["vocab_size"], n_embd=n_head * r.choice((12, 16, 20)), n_inner=r.choice((None, 56, 97)), n_layer=c["num_hidden_layers"],
                n_head=n_head, n_positions=r.choice((128, 300)), layer_norm_epsilon=r.choice((1e-5, 1e-3)), pad_token_id=None, bos_token_id=1,
                eos_token_id=2, tie_word_embeddings=r.random() < 0.5, activation_function=r.choice(("gelu_new", "gelu", "relu", "silu")),
                scale_attn_weights=r.random() < 0.7, scale_attn_by_inverse_layer_idx=r.random() < 0.3)


def gpt_neox(r):
    c = layer_norm(r, "layer_norm_eps")
    c.pop("num_key_value_heads")
    c.update(attention_bias=r.random() < 0.7, use_parallel_residual=r.random() < 0.6, hidden_act=r.choice(("gelu", "gelu_new", "relu")),
             rope_parameters=partial(r))
    c["hidden_size"] = c["num_attention_heads"] * r.choice((16, 24))
    return c


def gptj(r):
    c = gpt2(r)
    for field in ("scale_attn_weights", "scale_attn_by_inverse_layer_idx"):
        c.pop(field)
    c.update(tie_word_embeddings=False, rotary_dim=r.choice((2, 8, 12)))
    return c


def opt(r):
    c = layer_norm(r, "unused")
    for field in ("unused", "num_key_value_heads", "intermediate_size"):
        c.pop(field)
    c.update(max_position_embeddings=r.choice((128, 300)), ffn_dim=r.choice((24, 56, 97)), do_layer_norm_before=r.random() < 0.6,
             _remove_final_layer_norm=r.random() < 0.3, enable_bias=r.random() < 0.7, layer_norm_elementwise_affine=r.random() < 0.7,
             activation_function=r.choice(("relu", "gelu", "silu")))
    if r.random() < 0.5:
        c["word_embed_proj_dim"] = r.choice((20, 60, 200))
    return c


def falcon(r):
    c = layer_norm(r, "layer_norm_epsilon")
    n_kv = c.pop("num_key_value_heads")
    c.pop("intermediate_size")
    newer = r.random() < 0.4
    c.update(new_decoder_architecture=newer, bias=r.random() < 0.4, alibi=r.random() < 0.4, activation=r.choice(("gelu", "relu")),
             ffn_hidden_size=r.choice((None, 56, 97)), rope_parameters=scaled_rope(r))
    if newer:
        c.update(num_kv_heads=n_kv, num_ln_in_parallel_attn=r.choice((None, 1, 2)))
    else:
        c.update(multi_query=r.random() < 0.5, parallel_attn=r.random() < 0.5)
    return c


def bloom(r):
    c = layer_norm(r, "layer_norm_epsilon")
    for field in ("num_key_value_heads", "intermediate_size", "max_position_embeddings"):
        c.pop(field)
    c.update(pretraining_tp=r.choice((1, 2)))
    return c


def mpt(r):
    c = layer_norm(r, "layer_norm_epsilon")
    for field in ("num_key_value_heads", "intermediate_size", "max_position_embeddings"):
        c.pop(field)
    c.update(max_seq_len=r.choice((128, 300)), attn_config=dict(clip_qkv=r.choice((None, 0.5, 2.0)), softmax_scale=r.choice((None, 0.1, 0.5))))
    return c


def t5(r):
    c = base(r)
    return dict(vocab_size=c["vocab_size"], d_model=c["hidden_size"], d_kv=c["head_dim"], d_ff=c["intermediate_size"],
                num_layers=c["num_hidden_layers"], num_decoder_layers=r.randrange(1, 6), num_heads=c["num_attention_heads"],
                relative_attention_num_buckets=r.choice((4, 6, 8, 15, 32)), relative_attention_max_distance=r.choice((17, 40, 128)),
                layer_norm_epsilon=c["rms_norm_eps"], feed_forward_proj=r.choice(("relu", "gated-gelu", "gelu", "gated-silu", "gelu_new")),
                tie_word_embeddings=c["tie_word_embeddings"], pad_token_id=0, eos_token_id=1, decoder_start_token_id=r.choice((0, 3)))


def bart(r):
    d = 12 * r.randrange(2, 8)
    return dict(vocab_size=r.randrange(90, 300), d_model=d, encoder_layers=r.randrange(1, 5), decoder_layers=r.randrange(1, 5),
                encoder_attention_heads=r.choice((1, 2, 3, 4, 6)), decoder_attention_heads=r.choice((1, 2, 3, 4, 6)),
                encoder_ffn_dim=r.choice((24, 56, 97, 160)), decoder_ffn_dim=r.choice((24, 56, 97, 160)),
                max_position_embeddings=r.choice((64, 70, 200)), activation_function=r.choice(("gelu", "relu", "silu", "gelu_new")),
                scale_embedding=r.random() < 0.5, tie_word_embeddings=r.random() < 0.5, decoder_start_token_id=r.choice((2, 3)))


MODELS = {
    "llama": dict(cls=transformers.LlamaForCausalLM, config=llama),
    "mistral": dict(cls=transformers.MistralForCausalLM, config=mistral),
    "qwen2": dict(cls=transformers.Qwen2ForCausalLM, config=qwen2),
    "qwen3": dict(cls=transformers.Qwen3ForCausalLM, config=qwen3),
    "smollm3": dict(cls=transformers.SmolLM3ForCausalLM, config=smollm3),
    "olmo2": dict(cls=transformers.Olmo2ForCausalLM, config=olmo2),
    "qwen3moe": dict(cls=transformers.Qwen3MoeForCausalLM, config=qwen3moe),
    "bamba": dict(cls=transformers.BambaForCausalLM, config=bamba),
    "granitemoehybrid": dict(cls=transformers.GraniteMoeHybridForCausalLM, config=granitemoehybrid, scales={"q_proj": 0.3}),
    "falcon_h1": dict(cls=transformers.FalconH1ForCausalLM, config=falcon_h1),
    "nemotron_h": dict(cls=transformers.NemotronHForCausalLM, config=nemotron_h),
    "jamba": dict(cls=transformers.JambaForCausalLM, config=jamba, scales={"router": 0.3}),
    "mamba": dict(cls=transformers.MambaForCausalLM, config=mamba),
    "falcon_mamba": dict(cls=transformers.FalconMambaForCausalLM, config=falcon_mamba),
    "rwkv": dict(cls=transformers.RwkvForCausalLM, config=rwkv),
    "mamba2": dict(cls=transformers.Mamba2ForCausalLM, config=mamba2),
    "lfm2": dict(cls=transformers.Lfm2ForCausalLM, config=lfm2),
    "qwen3_next": dict(cls=transformers.Qwen3NextForCausalLM, config=qwen3_next, norm_add=1),
    "kimi_linear": dict(cls=transformers.KimiLinearForCausalLM, config=kimi_linear),
    "mixtral": dict(cls=transformers.MixtralForCausalLM, config=mixtral),
    "qwen2_moe": dict(cls=transformers.Qwen2MoeForCausalLM, config=qwen2_moe),
    "gpt_oss": dict(cls=transformers.GptOssForCausalLM, config=gpt_oss),
    "glm4_moe": dict(cls=transformers.Glm4MoeForCausalLM, config=glm4_moe),
    "olmoe": dict(cls=transformers.OlmoeForCausalLM, config=olmoe),
    "granitemoe": dict(cls=transformers.GraniteMoeForCausalLM, config=granitemoe),
    "granitemoeshared": dict(cls=transformers.GraniteMoeSharedForCausalLM, config=granitemoeshared),
    "phimoe": dict(cls=transformers.PhimoeForCausalLM, config=phimoe),
    "ernie4_5_moe": dict(cls=transformers.Ernie4_5_MoeForCausalLM, config=ernie4_5_moe),
    "minimax_m2": dict(cls=transformers.MiniMaxM2ForCausalLM, config=minimax_m2),
    "llama4_text": dict(cls=transformers.Llama4ForCausalLM, config=llama4_text),
    "qwen3moe-fp8": dict(cls=transformers.Qwen3MoeForCausalLM, config=qwen3moe, fp8=True),
    "gemma": dict(cls=transformers.GemmaForCausalLM, config=gemma, norm_add=1),
    "gemma2": dict(cls=transformers.Gemma2ForCausalLM, config=gemma2, norm_add=1),
    "gemma3": dict(cls=transformers.Gemma3ForCausalLM, config=gemma3, norm_add=1),
    "gemma4": dict(cls=transformers.Gemma4ForCausalLM, config=gemma4, scales={"q_norm": 0.3}),
    "gemma3n": dict(cls=transformers.Gemma3nForCausalLM, config=gemma3n, scales={"q_norm": 0.1, "modality_router": 0.1, "_coefs": 0.5}),
    "gemma-embedding": dict(cls=transformers.Gemma3TextModel, config=gemma_embedding, norm_add=1, encoder=True),
    "bert": dict(cls=transformers.BertModel, config=bert, encoder=True),
    "roberta": dict(cls=transformers.RobertaModel, config=roberta, encoder=True, pad=1),
    "xlm-roberta": dict(cls=transformers.XLMRobertaModel, config=roberta, encoder=True, pad=1),
    "distilbert": dict(cls=transformers.DistilBertModel, config=distilbert, encoder=True),
    "modernbert": dict(cls=transformers.ModernBertModel, config=modernbert, encoder=True),
    "nomic_bert": dict(cls=transformers.NomicBertModel, config=nomic_bert, encoder=True),
    "granite": dict(cls=transformers.GraniteForCausalLM, config=granite),
    "seed_oss": dict(cls=transformers.SeedOssForCausalLM, config=seed_oss),
    "ernie4_5": dict(cls=transformers.Ernie4_5ForCausalLM, config=ernie4_5),
    "exaone4": dict(cls=transformers.Exaone4ForCausalLM, config=exaone4),
    "phi3": dict(cls=transformers.Phi3ForCausalLM, config=phi3),
    "minicpm3": dict(cls=transformers.MiniCPM3ForCausalLM, config=minicpm3),
    "deepseek_v2": dict(cls=transformers.DeepseekV2ForCausalLM, config=deepseek_v2),
    "deepseek_v3": dict(cls=transformers.DeepseekV3ForCausalLM, config=deepseek_v3),
    "glm": dict(cls=transformers.GlmForCausalLM, config=glm),
    "cohere": dict(cls=transformers.CohereForCausalLM, config=cohere),
    "cohere2": dict(cls=transformers.Cohere2ForCausalLM, config=cohere2),
    "starcoder2": dict(cls=transformers.Starcoder2ForCausalLM, config=starcoder2),
    "phi": dict(cls=transformers.PhiForCausalLM, config=phi),
    "stablelm": dict(cls=transformers.StableLmForCausalLM, config=stablelm),
    "nemotron": dict(cls=transformers.NemotronForCausalLM, config=nemotron, norm_add=1),
    "bitnet": dict(cls=transformers.BitNetForCausalLM, config=bitnet),
    "arcee": dict(cls=transformers.ArceeForCausalLM, config=arcee),
    "olmo": dict(cls=transformers.OlmoForCausalLM, config=olmo),
    "olmo3": dict(cls=transformers.Olmo3ForCausalLM, config=olmo3),
    "apertus": dict(cls=transformers.ApertusForCausalLM, config=apertus),
    "hunyuan_v1_dense": dict(cls=transformers.HunYuanDenseV1ForCausalLM, config=hunyuan),
    "internlm3": dict(cls=transformers.LlamaForCausalLM, config_class=transformers.InternLM3Config, config=internlm3),
    "ministral3": dict(cls=transformers.Ministral3ForCausalLM, config=ministral3),
    "glm4": dict(cls=transformers.Glm4ForCausalLM, config=glm),
    "gpt2": dict(cls=transformers.GPT2LMHeadModel, config=gpt2),
    "gpt_neox": dict(cls=transformers.GPTNeoXForCausalLM, config=gpt_neox),
    "gptj": dict(cls=transformers.GPTJForCausalLM, config=gptj),
    "opt": dict(cls=transformers.OPTForCausalLM, config=opt),
    "falcon": dict(cls=transformers.FalconForCausalLM, config=falcon, attn="sdpa"),
    "bloom": dict(cls=transformers.BloomForCausalLM, config=bloom),
    "mpt": dict(cls=transformers.MptForCausalLM, config=mpt),
    "t5": dict(cls=transformers.T5ForConditionalGeneration, config=t5, cross=True),
    "mt5": dict(cls=transformers.MT5ForConditionalGeneration, config=t5, cross=True),
    "umt5": dict(cls=transformers.UMT5ForConditionalGeneration, config=t5, cross=True),
    "bart": dict(cls=transformers.BartForConditionalGeneration, config=bart, cross=True),
}


def sections(r, c, d_head):
    """Add sections of all pairs of rotated lanes."""
    n = d_head // 2
    if n < 3:
        c["rope_parameters"]["mrope_section"] = [n, 0, 0]
        return
    first = r.randrange(1, n - 1)
    second = r.randrange(1, n - first)
    c["rope_parameters"]["mrope_section"] = [first, second, n - first - second]


def qwen2vl(r):
    c = qwen2(r)
    sections(r, c, c["hidden_size"] // c["num_attention_heads"])
    return c


def qwen3vl(r):
    c = qwen3(r)
    for field in ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types"):
        c.pop(field, None)
    if r.random() < 0.7:
        sections(r, c, c["head_dim"])
        c["rope_parameters"]["mrope_interleaved"] = True
    return c


def qwen3vlmoe(r):
    c = qwen3moe(r)
    for field in ("use_sliding_window", "sliding_window", "norm_topk_prob"):
        c.pop(field)
    return c


def glm4v(r):
    c = glm(r)
    for field in ("head_dim", "attention_bias"):
        c.pop(field, None)
    d_head = c["hidden_size"] // c["num_attention_heads"]
    sections(r, c, int(d_head * c["rope_parameters"].get("partial_rotary_factor", 1)))
    return c


def gemma4_padded(r):
    c = gemma4(r)
    return dict(c, pad_token_id=r.randrange(9))


# functions that draw the fields of a text part, by its model_type
TEXTS = {"qwen2_vl_text": qwen2vl, "qwen2_5_vl_text": qwen2vl, "qwen3_vl_text": qwen3vl, "qwen3_vl_moe_text": qwen3vlmoe, "ministral3": ministral3,
         "qwen3_5_text": qwen3_5, "qwen3_5_moe_text": qwen3_5_moe, "qwen3_moe": qwen3moe, "gemma3_text": gemma3, "gemma4_text": gemma4_padded, "gemma3n_text": gemma3n, "glm4v_text": glm4v, "granite4_vision_text": granite}
for kind, w in wrappers.WRAPPERS.items():
    for text in w["texts"]:
        draw = TEXTS.get(text) or globals()[text]
        MODELS[kind if text == w["texts"][0] and kind not in MODELS else f"{kind}:{text}"] = dict(
            config=draw, parts=kind, text=text, norm_add=int(text in ("gemma", "gemma2", "gemma3_text", "qwen3_5_text", "qwen3_5_moe_text")),
            scales=MODELS.get(text.removesuffix("_text"), {}).get("scales", {}))


# Reasons for which quoth may refuse to convert a configuration to GGUF: a pattern of the message, and the
# functions that draw such configurations. quoth must convert all other configurations.
REFUSED = {
    r"json: (hidden_act|hidden_activation|activation_function|activation): the result cannot":
        "llama olmo2 qwen3moe jamba bamba granitemoehybrid nemotron_h falcon_h1 kimi_linear mamba falcon_mamba mamba2 mixtral qwen2_moe glm4_moe olmoe granitemoe granitemoeshared phimoe "
        "ernie4_5_moe minimax_m2 llama4_text gemma gemma2 gemma3 gemma4 gemma4_padded gemma3n gemma_embedding granite seed_oss ernie4_5 exaone4 phi3 "
        "minicpm3 deepseek_v2 deepseek_v3 glm cohere cohere2 starcoder2 phi stablelm nemotron arcee olmo olmo3 hunyuan internlm3 apertus gpt2 gpt_neox falcon t5 "
        "qwen3vlmoe glm4v bert roberta distilbert modernbert nomic_bert",
    r"rope_parameters: the result cannot":
        "llama mistral qwen2 qwen3 smollm3 olmo2 qwen3moe lfm2 qwen3_next mixtral qwen2_moe gpt_oss glm4_moe olmoe granitemoe "
        "granitemoeshared phimoe ernie4_5_moe minimax_m2 llama4_text gemma gemma2 gemma3 gemma3n gemma_embedding granite seed_oss "
        "ernie4_5 exaone4 phi3 minicpm3 deepseek_v2 deepseek_v3 glm cohere cohere2 starcoder2 phi stablelm nemotron arcee olmo "
        "bamba granitemoehybrid falcon_h1 gpt_neox falcon olmo3 hunyuan internlm3 apertus ministral3 qwen2vl qwen3_5 qwen3_5_moe qwen3vl qwen3vlmoe glm4v",
    r"metadata [\w-]+\.attention\.sliding_window: must":
        "qwen2 qwen3 smollm3 qwen3moe qwen2_moe gemma3 gemma3n gemma_embedding exaone4 qwen2vl",
    r"tensor blk\.\d+\.ffn_gate_inp\.weight is missing": "kimi_linear qwen3moe qwen3_next qwen2_moe ernie4_5_moe llama4_text qwen3vlmoe",
    r"metadata [\w-]+\.attention\.sliding_window_pattern: must": "gpt_oss gemma3 gemma_embedding cohere2",
    r"query_pre_attn_scalar: the result cannot": "gemma2 gemma3 gemma_embedding gpt2 mpt",
    r"metadata [\w-]+\.expert_count: is missing": "kimi_linear qwen3moe qwen2_moe glm4_moe ernie4_5_moe qwen3vlmoe",
    r"layer_types: the result cannot": "smollm3 gemma2 gemma_embedding exaone4",
    r"the result cannot express values that only this architecture has": "falcon_h1 nemotron_h jamba falcon_mamba mamba2 llama4_text gemma3n",
    r"norm_topk_prob: the result cannot": "kimi_linear qwen3moe qwen3_next qwen2_moe olmoe",
    r"metadata [\w-]+\.expert_weights_norm: must": "kimi_linear",
    r"linear_attn_config.num_heads: must be the \d+ heads": "kimi_linear",
    r"tie_word_embeddings: a GGUF cannot have": "falcon_h1",
    r"a GGUF with mixtures cannot have layers with a feed-forward block": "nemotron_h",
    r"has no GGUF: ": "rwkv bitnet gptj opt bart",
    r"final_logit_softcapping: the result cannot": "gemma2 gemma3",
    r"logit_scale: the result cannot": "cohere2 t5",
    r"xielu\.alpha_p of layer \d+ is missing": "apertus",  # another activation
    r"metadata [\w-]+\.rope\.scaling\.factor: must": "gemma4 gemma4_padded gemma3n",
    r"metadata [\w-]+\.attention\.sliding_window: is missing": "cohere2",
    r"attn_temperature_tuning: the result cannot": "llama4_text",
    r"attn_scale: the result cannot": "llama4_text",
    r"metadata [\w-]+\.expert_feed_forward_length: is missing": "llama4_text",
    r"metadata [\w-]+\.attention\.sliding_window_pattern: is missing": "gemma4 gemma4_padded",
    r"metadata [\w-]+\.attention\.shared_kv_layers: ": "gemma4 gemma4_padded",
    r"metadata [\w-]+\.attention\.sliding_window_pattern: ": "exaone4",
    r"metadata [\w-]+\.rope\.scaling\.yarn_log_multiplier: must": "deepseek_v2 deepseek_v3",
    r"relative_attention_max_distance: the result cannot": "t5",
    r"metadata [\w-]+\.ssm\.inner_size: must": "qwen3_5 qwen3_5_moe",
    r"logits_scaling: the result cannot": "granite",
    r"swiglu_alpha: the result cannot": "gpt_oss",
    r"swiglu_limit: the result cannot": "gpt_oss",
    r"router_jitter_noise: the result cannot": "phimoe",
    r"sum_least: the result cannot": "ernie4_5_moe",
    r"attention_chunk_size: the result cannot": "llama4_text",
    r"floor_scale: the result cannot": "llama4_text",
    r"attn_logit_softcapping: the result cannot": "gemma2",
    r"tensor rope_freqs\.weight: not supported yet": "gemma_embedding",
    r"scale_emb: the result cannot": "minicpm3",
    r"metadata [\w-]+\.attention\.q_lora_rank: is missing": "minicpm3",
    r"scale_depth: the result cannot": "minicpm3",
    r"rope_interleave: the result cannot": "deepseek_v3",
    r"tensor blk\.\d+\.ffn_norm\.bias: not supported yet": "falcon",
    r"alibi: the result cannot": "falcon",
    r"metadata [\w-]+\.rope\.dimension_sections: ": "qwen3vl",
}


def config_of(spec, r):
    """Return a config of a class, and the fields that were drawn."""
    fields = spec["config"](r)
    if "parts" not in spec:
        return spec.get("config_class", spec["cls"].config_class)(**fields), fields
    more = {} if r.random() < 0.4 else dict(tie_word_embeddings=r.random() < 0.5)
    return wrappers.config_of(spec["parts"], fields, spec["text"], **more), fields


def model_of(name, seed):
    r = random.Random(f"{name} {seed}")
    spec = MODELS[name]
    config, fields = config_of(spec, r)
    config._attn_implementation = spec.get("attn", "eager")
    config._experts_implementation = "eager"
    config.dtype = torch.float32
    model = (wrappers.class_of(spec["parts"]) if "parts" in spec else spec["cls"])(config).eval()
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for weight, p in sorted(model.named_parameters()):
            p.copy_(make.random_weight(rng, weight, tuple(p.shape), spec.get("norm_add", 0), 0.1))
            p.mul_(make.scale_of(spec.get("scales", {}), weight))
            if weight.endswith("Attention.q.weight"):  # T5 scales these weights, not the scores, and large scores amplify rounding
                p.mul_(config.d_kv**-0.5)
        for weight, p in sorted(model.named_buffers()):
            if weight.endswith(make.FACTORS):
                p.copy_(make.random_weight(rng, weight, tuple(p.shape)))
        make.share_embeddings(model)
    return model, fields


def save(model, fields, folder):
    model.save_pretrained(folder)
    if fields.get("use_bidirectional_attention"):  # some versions of the class write the halved window
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(dict(config, sliding_window=fields["sliding_window"])))


def lengths(fields):
    """Return the lengths of further texts, whose rope depends on their length."""
    rope = fields.get("rope_parameters", {})
    n = fields.get("original_max_position_embeddings", rope.get("original_max_position_embeddings", 0))
    return [k for k in (n // 2, n, n + 1) if 0 < k < N_PROMPT + N_GREEDY] if "long_factor" in rope else []


def run_quoth(quoth, model, tokens, shape, step, context=0, n_source=0, more=()):
    """Return quoth's results for a folder or GGUF file, or its message."""
    folder = model if model.is_dir() else model.parent
    tokens.tofile(folder / "tokens.i32")
    args = [quoth, model, folder / "tokens.i32", folder / "out.f32", str(step), str(context), str(n_source), *more]
    run = subprocess.run(args, capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        return run.stderr.strip() or f"exit {run.returncode}"
    got = np.fromfile(folder / "out.f32", "<f4").reshape(shape).astype(np.float64)
    return got if np.isfinite(got).all() else "a logit is not finite"


def write_tokenizer(folder, n):
    """Write a tokenizer of n tokens, which a GGUF must have."""
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    model = dict(type="BPE", unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False, byte_fallback=False,
                 vocab={f"<{i}>": i for i in range(n)}, merges=[])
    (folder / "tokenizer.json").write_text(json.dumps(dict(version="1.0", added_tokens=[], normalizer=None, pre_tokenizer=level,
                                                           post_processor=None, decoder=level, model=model)))


def refusals(name):
    """Return the patterns of the reasons for which quoth may refuse to convert a configuration."""
    draw = MODELS[name]["config"].__name__
    return [pattern for pattern, draws in REFUSED.items() if draw in draws.split()]


def through_gguf(name, folder, n_vocab):
    """Convert the folder. Return (file, None, None), or (None, quoth's reason, None) if quoth rejects
    the configuration for an expected reason, or (None, None, what is wrong)."""
    write_tokenizer(folder, n_vocab)
    out = folder / "converted.gguf"
    run = subprocess.run([QUOTH, "convert", folder, "-o", out], capture_output=True, text=True, timeout=300)
    if run.returncode == 0:
        return out, None, None
    if wrong := campaign.wrong_refusal(run.returncode, run.stderr, refusals(name)):
        return None, None, wrong
    return None, re.sub(r"\.part-\d+", "", run.stderr.strip().split("\n")[-1].replace(f"{folder}", "FOLDER")).split("; available")[0], None


def same_bits(quoth, folder, tokens, shape, n_source):
    """Return None if steps of all sizes give the same bits with int8 activations, or a message."""
    got = [run_quoth(quoth, folder, tokens, shape, step, 0, n_source, ["Q8_0"]) for step in STEPS]
    if said := [g for g in got if isinstance(g, str)]:
        return f"Q8_0: {said[0]}"
    return None if all(np.array_equal(g, got[0]) for g in got) else "Q8_0: steps of other sizes give other bits"


def same_in_gguf(name, tokens, n_vocab):
    """Return the number of tokens before the first token with another meaning in a GGUF. These
    tokens are the places of images of Gemma 4, whose padding has no key, and tokens of Gemma 3n's
    other parts, whose embeddings are missing."""
    if MODELS[name].get("parts") == "gemma3n":
        return max(1, int(np.argmax(np.append(tokens >= n_vocab - wrappers.GEMMA3N_VISION, True))))
    if MODELS[name].get("text") != "gemma4_text":
        return len(tokens)
    placeholders = [v for k, v in wrappers.WRAPPERS[MODELS[name]["parts"]]["fields"].items() if k.endswith("_token_id")]
    return max(1, int(np.argmax(np.append(np.isin(tokens, placeholders), True))))


def clear_rows(want):
    """Return true for the rows whose two largest logits are not almost equal."""
    top = np.sort(want, axis=1)
    return top[:, -1] - top[:, -2] > LEAD * np.abs(want).max()


def compare(name, seed, folder, quoth):
    """Return quoth's message, or (largest distance, positions with another greedy choice, omitted
    positions, reason of a refusal of a GGUF or None, positions with a router tie, distance of
    transformers in float32 if the configuration amplifies rounding, true if a distance is not
    permitted)."""
    encoder, cross = MODELS[name].get("encoder", False), MODELS[name].get("cross", False)
    n_source = N_PROMPT if cross else 0
    results_of = make.hidden_of if encoder else (lambda m, t: make.cross_logits_of(m, t, n_source)) if cross else make.logits_of
    model, fields = model_of(name, seed)
    save(model, fields, folder)
    if MODELS[name].get("fp8"):
        r = random.Random(seed)
        make.write_fp8(folder, model, (r.choice((5, 16, 128)), r.choice((8, 33, 128))))
    model.double()
    n = N_PROMPT + N_GREEDY if encoder else N_PROMPT
    tokens = np.random.RandomState(seed).randint(0, model.config.get_text_config().vocab_size, n).astype("<i4")
    if "pad" in MODELS[name]:
        tokens[tokens == MODELS[name]["pad"]] += 1  # a GGUF cannot contain the positions of padding within a text
    if cross:
        tokens = np.append(tokens, model.config.decoder_start_token_id).astype("<i4")
    while len(tokens) < N_PROMPT + N_GREEDY:
        tokens = np.append(tokens, results_of(model, tokens)[-1].argmax()).astype("<i4")
    worst, wrong, left_out, n_tie, rough, far = 0.0, 0, 0, 0, 0.0, False
    for n, context in [(len(tokens), 0)] + [(n, CONTEXT) for n in lengths(fields)]:
        wanted = ties.Wanted(results_of, model, tokens[:n])
        shape = wanted.results.shape
        # if two logits are almost equal, the choice may depend on rounding
        left_out += 0 if encoder else int((~clear_rows(wanted.results)[n_source:]).sum())
        n_tie += wanted.n_tie()
        for step in STEPS[:1] if encoder else STEPS:
            got = run_quoth(quoth, folder, tokens[:n], shape, step, context, n_source)
            if isinstance(got, str):
                return got
            want, d, most = wanted.near(got, make.distance, LIMIT)
            rough, far = max(rough, wanted.rough), far or d > most
            wrong += int(((got.argmax(axis=1) != want.argmax(axis=1)) & clear_rows(want) & wanted.rows).sum())
            worst = max(worst, d)
    wanted = ties.Wanted(results_of, model, tokens)
    if not encoder and not MODELS[name].get("fp8") and (said := same_bits(quoth, folder, tokens, wanted.results.shape, n_source)):
        return said
    file, refused, said = through_gguf(name, folder, model.config.get_text_config().vocab_size)
    if said:
        return said
    if file:
        got = run_quoth(quoth, file, tokens, wanted.results.shape, STEPS[0], 0, n_source)
        if isinstance(got, str):
            return f"converted: {got}"
        n = same_in_gguf(name, tokens, model.config.get_text_config().vocab_size)
        wanted.rows[n:] = False
        _, d, most = wanted.near(got, make.distance, LIMIT)
        if d > most:
            return f"converted: max|d| / max|reference| {d:.1e}"
        rough, worst = max(rough, wanted.rough), max(worst, d)
    return worst, wrong, left_out, refused, n_tie, rough, far


def option(args, name, otherwise):
    return int(args[args.index(name) + 1]) if name in args else otherwise


def main(args):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)  # threads that wait for each other take most of the time on a busy machine
    count, first = option(args, "--count", 20), option(args, "--first", 1)
    names = [a for i, a in enumerate(args) if not a.startswith("--") and (i == 0 or args[i - 1] not in ("--count", "--first"))]
    if unknown := set(names) - set(MODELS):
        sys.exit(f"odd.py: unknown: {' '.join(sorted(unknown))}; known: {' '.join(MODELS)}")
    names = names or list(MODELS)
    quoth = os.environ.get("QUOTH_LOGITS")
    if not quoth:
        quoth = ROOT / "build" / "logits"
        subprocess.check_call(["make", "-s", "-C", ROOT, "build/logits", "build/quoth"])
    bad, table = 0, []
    for name in names:
        every, left_out, n_tie, n_rough, refused = [], 0, 0, 0, {}
        for seed in range(first, first + count):
            with tempfile.TemporaryDirectory() as folder, make.exact_slopes():
                result = compare(name, seed, pathlib.Path(folder), quoth)
            ok = not isinstance(result, str) and not result[6] and result[1] == 0
            bad += not ok
            said = result
            if not isinstance(result, str):
                every.append(result[0])
                left_out += result[2]
                n_tie += result[4]
                n_rough += result[5] > 0
                said = f"max|d| / max|reference| {result[0]:.1e}, {result[1]} choices differ"
                said += f", {result[4]} router ties" if result[4] else ""
                said += f"; transformers in float32: {result[5]:.1e}" if result[5] else ""
                if result[3] is not None:
                    refused[result[3]] = refused.get(result[3], 0) + 1
            print(f"{name} {seed}: {'ok' if ok else 'WRONG'}: {said}", flush=True)
        for why, n in refused.items():
            print(f"{name}: {n} refused: {why}")
        n_position = max(1, len(every) * (N_PROMPT + N_GREEDY))
        share, tie_share = 100 * left_out / n_position, n_tie / n_position
        if tie_share >= TIES_MAX:
            print(f"{name}: WRONG: router ties at {100 * tie_share:.1f} % of the positions")
            bad += 1
        table.append(f"| {name} | {len(every)} of {count} | {max(every, default=0):.1e} | {np.median(every or [0]):.1e} | {share:.1f} % | {100 * tie_share:.2f} % | {n_rough} | "
                     f"{len(every) - sum(refused.values())} | {sum(refused.values())} |")
        print(table[-1], flush=True)
    print("\n| class | compared | worst | median | choices left out | router ties | amplified rounding | through GGUF | refused |\n|---|---|---|---|---|---|---|---|---|")
    print(*table, sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
