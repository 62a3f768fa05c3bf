"""fields.py - check that every field of a model's configuration has the same effect on quoth's
logits as on the reference's logits.

    tests/golden/make.py --fields [NAME...]      NAME: llama, mistral, qwen2, qwen3, smollm3, olmo2, qwen3_moe,
    gemma3_text, gemma3n_text, gemma4_text, gemma, gemma2, granite, phi3, glm, glm4, seed_oss, ernie4_5, exaone4, cohere, cohere2, starcoder2,
    phi, stablelm, nemotron, arcee, bitnet, olmo, olmo3, ministral3, hunyuan_v1_dense, internlm3, apertus, helium,
    gemma-embedding, gpt2, gpt_neox, gptj, opt, falcon, bloom, mpt, minicpm3, t5, mt5, bart, deepseek_v2, deepseek_v3,
    mixtral, qwen2_moe, gpt_oss, glm4_moe, olmoe, granitemoe, granitemoeshared, phimoe, ernie4_5_moe, minimax_m2, llama4_text,
    rwkv, mamba, falcon_mamba, mamba2, bamba, falcon_h1, granitemoehybrid, jamba, nemotron_h, lfm2, qwen3_next,
    qwen3_5_text, qwen3_5_moe_text, kimi_linear

The fields are those of these config classes of transformers (every class gets the fields of all
classes), of their base class and of rope_parameters. Each field is omitted, and set to legal
values, in a setting in which the field has an effect. Examples are a text beyond window and trained
context, small activations for the epsilon, and new weights if shapes change. quoth's logits
(build/logits, f32), or the hidden states of a model without a head, must equal transformers' (max|d|
/ max|reference| <= 1e-4). Otherwise quoth must reject the model with the name of the field.

Some configurations amplify rounding, for example 30 layers of random weights. The reference is
recomputed without float32 in norms, softmax and rope (`exact`) if logits differ. Then quoth may
differ from it as much as transformers in float32 does.

SHARE=N TURN=I checks the I-th of N shares of the fields of each class (campaign.py).
fields_encoders.py has the encoders and classifiers, fields_parts.py the models of several parts. keys.py compares the keys of a GGUF.
QUOTH_LOGITS is another build of build/logits.

All files are made in a temporary folder. The script prints a line per field with the verdicts of
campaign.py, and then the fields that never changed the reference. The exit status is 1 if any
difference is silent."""
import contextlib
import dataclasses
import json
import pathlib
import sys
import tempfile
import zlib

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers.core_model_loading import revert_weight_conversion

from campaign import ABSENT, N_TOKEN, Campaign, distance, quoth_logits, report

LONG = 4200  # beyond the default windows of 4096
CROSS = ("t5", "mt5", "bart")  # models of encoder and decoder: the first N_SOURCE tokens are a source
N_SOURCE = 90
NORM_LESS_1 = ("gemma", "gemma2", "gemma3_text", "nemotron", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")  # files contain g - 1
# Fields of a class in addition to BASE. The defaults of granite's scores and of many layers amplify
# rounding: transformers in float32 differs from float64 by 1e-3.
# The heads of stablelm and gpt_neox have hidden size / heads lanes. The table of learned positions, or
# of gptj's rope, is as long as the text.
TABLE = dict(max_position_embeddings=256)
WINDOWED = dict(layer_types=["sliding_attention", "full_attention", "full_attention"], sliding_window=16)
GEMMA4 = dict(layer_types=["sliding_attention", "full_attention", "full_attention"], sliding_window=16, hidden_size_per_layer_input=8,
              vocab_size_per_layer_input=130, global_head_dim=24)
GEMMA3N = dict(layer_types=["sliding_attention", "full_attention", "full_attention"], sliding_window=16, hidden_size_per_layer_input=8,
               vocab_size_per_layer_input=96, num_kv_shared_layers=1, laurel_rank=4, activation_sparsity_pattern=[0.5, 0.0, 0.9])
MIXTURE = dict(enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=24)
DEEPSEEK = dict(num_key_value_heads=4, head_dim=ABSENT, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=16,
                n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1, n_group=2, topk_group=2,
                first_k_dense_replace=1)
DELTA = dict(layer_types=["linear_attention", "full_attention", "linear_attention"], linear_key_head_dim=8, linear_value_head_dim=8,
             linear_num_key_heads=2, linear_num_value_heads=4)
DELTA_MOE = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=20)
HYBRID = dict(mamba_n_heads=4, mamba_d_state=8, mamba_chunk_size=16, head_dim=ABSENT)
BESIDE = {"granite": dict(attention_multiplier=0.25), "stablelm": dict(head_dim=8), "gemma-embedding": dict(WINDOWED, use_bidirectional_attention=True), "gemma3_text": WINDOWED, "olmo3": WINDOWED, "cohere2": WINDOWED, "exaone4": WINDOWED,
          "gpt_neox": dict(head_dim=ABSENT, hidden_size=128, num_attention_heads=2, rotary_pct=1.0), "gpt2": dict(TABLE, n_inner=64),
          "opt": dict(TABLE, ffn_dim=64), "gemma4_text": GEMMA4, "gemma3n_text": GEMMA3N,
          "gptj": dict(TABLE, n_inner=64, rotary_dim=4), "falcon": dict(head_dim=ABSENT, hidden_size=64), "bitnet": dict(head_dim=ABSENT, hidden_size=64), "helium": dict(hidden_size=64),
          "minicpm3": dict(num_key_value_heads=4, head_dim=ABSENT, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=16,
                           scale_emb=3.0),
          "mixtral": dict(num_local_experts=5, num_experts_per_tok=2),
          "qwen2_moe": dict(head_dim=8, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=20),
          "gpt_oss": dict(num_local_experts=5, num_experts_per_tok=2, sliding_window=16),
          "glm4_moe": dict(n_routed_experts=6, n_group=2, topk_group=1, num_experts_per_tok=2, moe_intermediate_size=24),
          "olmoe": dict(head_dim=ABSENT, hidden_size=64, num_experts=5, num_experts_per_tok=2),
          "granitemoe": dict(num_local_experts=5, attention_multiplier=0.25),
          "granitemoeshared": dict(num_local_experts=5, attention_multiplier=0.25, shared_intermediate_size=20),
          "phimoe": dict(num_local_experts=5),
          "ernie4_5_moe": dict(moe_num_experts=5, moe_k=2, moe_intermediate_size=24, moe_num_shared_experts=1, moe_layer_start_index=1),
          "minimax_m2": dict(num_local_experts=5, num_experts_per_tok=2),
          "llama4_text": dict(intermediate_size_mlp=40, num_local_experts=5, num_experts_per_tok=2, no_rope_layer_interval=2, interleave_moe_layer_step=2,
                              attention_chunk_size=16, floor_scale=8),
          "deepseek_v2": DEEPSEEK, "deepseek_v3": dict(DEEPSEEK, topk_group=1),
          "mamba": dict(state_size=8), "falcon_mamba": dict(state_size=8),
          "mamba2": dict(num_heads=8, head_dim=8, state_size=8, n_groups=2, chunk_size=16),
          "bamba": dict(HYBRID, mamba_n_groups=2, attn_layer_indices=[1]), "falcon_h1": dict(HYBRID, mamba_d_ssm=64, mamba_n_groups=2),
          "granitemoehybrid": dict(HYBRID, layer_types=["mamba", "attention", "mamba"], num_local_experts=3, shared_intermediate_size=20,
                                   attention_multiplier=0.25),
          "jamba": dict(head_dim=ABSENT, attn_layer_period=2, attn_layer_offset=1, num_experts=3, mamba_d_state=8),
          "nemotron_h": dict(num_hidden_layers=ABSENT, layers_block_type=["mamba", "attention", "mlp", "moe"], mamba_num_heads=4, mamba_head_dim=8, n_groups=2,
                             ssm_state_size=8, chunk_size=16, n_routed_experts=6, n_group=2, topk_group=1, num_experts_per_tok=2,
                             moe_intermediate_size=24, moe_shared_expert_intermediate_size=20),
          "qwen3_5_text": DELTA, "qwen3_5_moe_text": dict(DELTA, **DELTA_MOE), "qwen3_next": dict(DELTA, **DELTA_MOE),
          "kimi_linear": dict(num_key_value_heads=4, head_dim=ABSENT, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=12,
                              num_experts=6, num_expert_group=2, topk_group=1, num_experts_per_token=2, moe_intermediate_size=24, linear_head_dim=8,
                              linear_num_heads=3, layer_types=["linear_attention", "full_attention", "linear_attention"]),
          "lfm2": dict(layer_types=["conv", "full_attention", "conv"], block_multiple_of=8, head_dim=ABSENT),
          "t5": dict(d_ff=48), "mt5": dict(d_ff=48),
          "bart": dict(max_position_embeddings=96, encoder_ffn_dim=48, decoder_ffn_dim=40, decoder_layers=2, decoder_attention_heads=2)}
MODEL_TYPES = {"gemma-embedding": "gemma3_text"}
SCALES = {"gemma4_text": {"q_norm": 0.3}, "gemma3n_text": {"q_norm": 0.05, "modality_router": 0.01, "_coefs": 0.03, "altup_": 0.3},
          "granitemoe": {"q_proj": 0.3}, "granitemoeshared": {"q_proj": 0.3}, "t5": {"Attention.q.": 0.15}, "mt5": {"Attention.q.": 0.15}}  # growing residual streams amplify rounding
NESTED = ("gemma3_text", "gemma-embedding", "gemma3n_text", "gemma4_text", "olmo3")  # classes whose rope_parameters have an object per layer type

CLASSES = {"llama": transformers.LlamaForCausalLM, "mistral": transformers.MistralForCausalLM,
           "qwen2": transformers.Qwen2ForCausalLM, "qwen3": transformers.Qwen3ForCausalLM,
           "smollm3": transformers.SmolLM3ForCausalLM, "olmo2": transformers.Olmo2ForCausalLM,
           "qwen3_moe": transformers.Qwen3MoeForCausalLM, "gemma3_text": transformers.Gemma3ForCausalLM,
           "gemma3n_text": transformers.Gemma3nForCausalLM, "gemma4_text": transformers.Gemma4ForCausalLM, "gemma": transformers.GemmaForCausalLM,
           "gemma2": transformers.Gemma2ForCausalLM, "granite": transformers.GraniteForCausalLM,
           "phi3": transformers.Phi3ForCausalLM, "glm": transformers.GlmForCausalLM, "glm4": transformers.Glm4ForCausalLM,
           "seed_oss": transformers.SeedOssForCausalLM, "ernie4_5": transformers.Ernie4_5ForCausalLM,
           "exaone4": transformers.Exaone4ForCausalLM, "cohere": transformers.CohereForCausalLM,
           "cohere2": transformers.Cohere2ForCausalLM, "starcoder2": transformers.Starcoder2ForCausalLM,
           "phi": transformers.PhiForCausalLM, "stablelm": transformers.StableLmForCausalLM,
           "olmo": transformers.OlmoForCausalLM, "nemotron": transformers.NemotronForCausalLM, "arcee": transformers.ArceeForCausalLM,
           "olmo3": transformers.Olmo3ForCausalLM, "ministral3": transformers.Ministral3ForCausalLM,
           "hunyuan_v1_dense": transformers.HunYuanDenseV1ForCausalLM, "internlm3": transformers.LlamaForCausalLM,
           "apertus": transformers.ApertusForCausalLM, "bitnet": transformers.BitNetForCausalLM, "helium": transformers.HeliumForCausalLM, "gemma-embedding": transformers.Gemma3TextModel,
           "gpt2": transformers.GPT2LMHeadModel, "gpt_neox": transformers.GPTNeoXForCausalLM, "gptj": transformers.GPTJForCausalLM,
           "opt": transformers.OPTForCausalLM, "falcon": transformers.FalconForCausalLM, "bloom": transformers.BloomForCausalLM,
           "mpt": transformers.MptForCausalLM, "minicpm3": transformers.MiniCPM3ForCausalLM,
           "deepseek_v2": transformers.DeepseekV2ForCausalLM, "deepseek_v3": transformers.DeepseekV3ForCausalLM,
           "mixtral": transformers.MixtralForCausalLM, "qwen2_moe": transformers.Qwen2MoeForCausalLM, "gpt_oss": transformers.GptOssForCausalLM,
           "glm4_moe": transformers.Glm4MoeForCausalLM, "olmoe": transformers.OlmoeForCausalLM, "granitemoe": transformers.GraniteMoeForCausalLM,
           "granitemoeshared": transformers.GraniteMoeSharedForCausalLM, "phimoe": transformers.PhimoeForCausalLM,
           "ernie4_5_moe": transformers.Ernie4_5_MoeForCausalLM, "minimax_m2": transformers.MiniMaxM2ForCausalLM,
           "llama4_text": transformers.Llama4ForCausalLM,
           "rwkv": transformers.RwkvForCausalLM, "mamba": transformers.MambaForCausalLM, "falcon_mamba": transformers.FalconMambaForCausalLM, "mamba2": transformers.Mamba2ForCausalLM,
           "bamba": transformers.BambaForCausalLM, "falcon_h1": transformers.FalconH1ForCausalLM,
           "granitemoehybrid": transformers.GraniteMoeHybridForCausalLM, "jamba": transformers.JambaForCausalLM,
           "nemotron_h": transformers.NemotronHForCausalLM, "lfm2": transformers.Lfm2ForCausalLM,
           "qwen3_next": transformers.Qwen3NextForCausalLM, "qwen3_5_text": transformers.Qwen3_5ForCausalLM,
           "qwen3_5_moe_text": transformers.Qwen3_5MoeForCausalLM, "kimi_linear": transformers.KimiLinearForCausalLM,
           "t5": transformers.T5ForConditionalGeneration, "mt5": transformers.MT5ForConditionalGeneration,
           "bart": transformers.BartForConditionalGeneration}
# classes whose files have other names than their parameters
RENAMED = ("kimi_linear", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "jamba", "nemotron_h", "granitemoehybrid", "mixtral", "gpt_oss", "granitemoe", "granitemoeshared", "phimoe", "ernie4_5_moe", "minimax_m2")
# classes of configurations, if the model's class is of another family
CONFIGS = {"internlm3": transformers.InternLM3Config}
BASE = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False,
            rope_theta=10000.0, pad_token_id=0)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)
ROPE = {"default": dict(rope_type="default", rope_theta=10000.0),
        "linear": dict(rope_type="linear", rope_theta=10000.0, factor=4.0),
        "llama3": dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                       original_max_position_embeddings=64),
        "yarn": YARN}
MINISTRAL = dict(llama_4_scaling_beta=0.1, original_max_position_embeddings=32)
SLIDING = dict(use_sliding_window=True, sliding_window=16, max_window_layers=1)
FULL, SLIDES = "full_attention", "sliding_attention"

# Two legal values of each field (None: null). A field without an entry gets BOTH.
BOTH = (True, False)
VALUES = dict(
    vocab_size=(64, 130), hidden_size=(64, 16), intermediate_size=(32, 80), num_hidden_layers=(1, 5),
    num_attention_heads=(8, 2), num_key_value_heads=(1, 4, None), head_dim=(8, 32, None),
    hidden_act=("silu", "swish", "gelu", "relu", "gelu_pytorch_tanh", "relu2", "gelu_new", "tanh"), max_position_embeddings=(64, 4096),
    initializer_range=(0.5, 0.001), rms_norm_eps=(1e-3, 1e-7), layer_norm_eps=(1e-3, 1e-7),
    norm_eps=(1e-3, 1e-7), norm_epsilon=(1e-3, 1e-7), pad_token_id=(3, 5, None), bos_token_id=(3, 5, None),
    eos_token_id=(3, [4, 5], None), sep_token_id=(3, 5), decoder_start_token_id=(3, 5),
    attention_dropout=(0.5, 0.1), sliding_window=(16, 40, None), max_window_layers=(0, 2),
    layer_types=([FULL, SLIDES, SLIDES], [SLIDES, FULL, SLIDES], [FULL] * 3, ["chunked_attention", "chunked_attention", FULL], None), no_rope_layers=([1, 0, 1], [0, 0, 1], None),
    no_rope_layer_interval=(2, 3), rope_theta=(500.0, 1e6), partial_rotary_factor=(0.5, 1.0),
    original_max_position_embeddings=(16, 96), rope_parameters=(ROPE["linear"], YARN, {}, None),
    rope_scaling=(dict(type="linear", factor=4.0), {k: v for k, v in YARN.items() if k != "rope_theta"}, {}, None),
    transformers_version=("4.40.0", "5.0.0"), architectures=(["SomeForCausalLM"], []), dtype=("float32", "bfloat16"),
    torch_dtype=("float32", "bfloat16"), chunk_size_feed_forward=(1, 2), id2label=({"0": "a"}, {"0": "a", "1": "b"}),
    label2id=({"a": 0}, {"a": 0, "b": 1}), problem_type=("regression", "multi_label_classification"), num_labels=(1, 3),
    name_or_path=("a", "b"), _name_or_path=("a", "b"), attn_implementation=("eager", "sdpa"), tokenizer_class=("A", "B"),
    unsloth_version=("1", "2"), attention_chunk_size=(8, 40, None), attn_logit_softcapping=(30.0, 50.0), logit_scale=(0.5, 2.0), attention_multiplier=(0.1, 0.5), logits_scaling=(0.5, 8.0),
    residual_multiplier=(0.5, 2.0), embedding_multiplier=(0.5, 2.0), temperature=(0.5, 2.0), max_length=(10, 20), num_experts=(3, 6),
    num_experts_per_tok=(1, 3), moe_intermediate_size=(16, 40), decoder_sparse_step=(2, 3), mlp_only_layers=([0], [0, 2], None),
    final_logit_softcapping=(0.5, 30.0, None), query_pre_attn_scalar=(8, 64), sliding_window_pattern=(2, 3),
    rope_local_base_freq=(300.0, 20000.0), hidden_activation=("gelu_pytorch_tanh", "gelu", "silu", "relu"),
    clip_qkv=(0.5, 2.0, None), resid_pdrop=(0.1, 0.5), embd_pdrop=(0.1, 0.5), hidden_dropout=(0.1, 0.5), residual_dropout=(0.1, 0.5), embedding_dropout=(0.1, 0.5),
    router_aux_loss_coef=(0.1, 0.5), num_local_experts=(3, 6), shared_expert_intermediate_size=(16, 40), n_routed_experts=(4, 8),
    n_group=(1, 3), topk_group=(1, 2), first_k_dense_replace=(0, 2, 5), routed_scaling_factor=(0.5, 2.5), n_shared_experts=(1, 2), num_mtp_layers=(0, 2),
    num_nextn_predict_layers=(0, 2), swiglu_alpha=(1.0, 2.0), swiglu_limit=(0.5, 3.0), shared_intermediate_size=(0, 40),
    router_jitter_noise=(0.1, 0.5), input_jitter_noise=(0.1, 0.5), moe_num_experts=(3, 6), moe_k=(1, 3), moe_num_shared_experts=(0, 2),
    intermediate_size_mlp=(32, 80), moe_layers=([0], [1, 2], [], None), interleave_moe_layer_step=(1, 3), attn_scale=(0.3, 0.5), floor_scale=(16, 5),
    moe_layer_start_index=(0, 2), moe_layer_end_index=(0, 1), moe_layer_interval=(2, 3), moe_norm_min=(0.5, 2.0),
    n_embd=(64, 16), n_inner=(32, 80, None), n_layer=(1, 5), n_head=(8, 2), n_positions=(200, 4096), n_ctx=(64, 4096), ffn_dim=(32, 80),
    rotary_dim=(2, 8, None), rotary_pct=(0.5, 1.0), rotary_emb_base=(500, 10000), word_embed_proj_dim=(16, 64, None),
    activation_function=("silu", "gelu", "relu", "gelu_pytorch_tanh", "gelu_new", "tanh"), layer_norm_epsilon=(1e-3, 1e-7),
    summary_type=("last", "first"), summary_activation=("tanh", None), summary_first_dropout=(0.1, 0.5), attn_pdrop=(0.1, 0.5),
    num_kv_heads=(1, 2, None), num_ln_in_parallel_attn=(1, 2, None), ffn_hidden_size=(32, 80, None), n_embed=(64, 16), pretraining_tp=(2, 4),
    activation=("silu", "gelu", "relu", "gelu_pytorch_tanh", "tanh"), seq_length=(64, 4096), offset_alibi=(1, 100), d_model=(64, 16),
    n_heads=(8, 2), n_layers=(1, 5), max_seq_len=(200, 4096), expansion_ratio=(2, 4), embedding_fraction=(0.5, 1.0),
    norm_type=("layernorm", "rmsnorm"), init_device=("meta", "cpu"), emb_pdrop=(0.1, 0.5),
    attn_config=(dict(clip_qkv=0.5), dict(clip_qkv=0), dict(softmax_scale=0.3), dict(alibi=False), dict(alibi_bias_max=16), dict(prefix_lm=True),
                 dict(qk_ln=True), dict(attn_type="multiquery_attention"), dict(attn_uses_sequence_id=True), dict(attn_impl="flash"), {}, None),
    vocab_size_per_layer_input=(96, 140), hidden_size_per_layer_input=(4, 16, 0, None), global_head_dim=(16, 32, None),
    num_global_key_value_heads=(1, 4, None), num_kv_shared_layers=(1, 2, None), top_k_experts=(1, 3, None),
    use_bidirectional_attention=("all", "vision", True, False, None),
    altup_active_idx=(1, 3), altup_coef_clip=(1.0, None), altup_num_inputs=(2, 5), laurel_rank=(2, 8),
    activation_sparsity_pattern=([0.0, 0.8, 0.0], [0.9] * 3, [0.5], 0.5, [1.0] * 3, None),
    q_lora_rank=(16, 40, None), kv_lora_rank=(8, 40), qk_nope_head_dim=(4, 24), qk_rope_head_dim=(4, 16), qk_head_dim=(8, 32),
    v_head_dim=(4, 24, None), scale_emb=(1, 0.5), scale_depth=(1.0, 3.0, None), dim_model_base=(16, 64, None),
    d_kv=(8, 32), d_ff=(32, 80), num_layers=(1, 5), num_decoder_layers=(1, 5, None), num_heads=(8, 2), relative_attention_num_buckets=(8, 64),
    relative_attention_max_distance=(20, 300), dropout_rate=(0.1, 0.5), initializer_factor=(0.5, 2.0), dense_act_fn=("silu", "gelu", None),
    feed_forward_proj=("gated-gelu", "gelu", "gated-silu", "relu", "gated-gelu_new", "tanh"), forced_bos_token_id=(3, 5),
    encoder_layers=(1, 4, None), decoder_layers=(1, 3, None), encoder_ffn_dim=(24, 80), decoder_ffn_dim=(24, 80), encoder_attention_heads=(2, 8, 5),
    decoder_attention_heads=(1, 4, 5), encoder_layerdrop=(0.1, 0.5), decoder_layerdrop=(0.1, 0.5), scale_embedding=(True, False, None),
    extra_pos_embeddings=(2, 3),
    classifier_dropout=(0.1, 0.5), dropout=(0.1, 0.5), layerdrop=(0.1, 0.5), init_std=(0.5, 0.001),
    text_config=(dict(hidden_size=8), {}), per_layer_config=({"0": {"intermediate_size": 32}}, {}, {"1": {"head_dim": 8}, "2": {"head_dim": 8}}, {"1": {"head_dim": 8}},
                      {"01": {"num_key_value_heads": 4}, "02": {"num_key_value_heads": 4}}, {"3": {"head_dim": 8}}, {"2": {"head_dim": None}}, [1], None),
    quantization_config=(dict(quant_method="gptq", bits=4), dict(quant_method="fp8")), auto_map=({}, {"AutoModel": "a.B"}))
MORE = ("normalize_before", "normalize_embedding", "add_final_layer_norm", "add_bias_logits", "static_position_embeddings", "extra_pos_embeddings", "classif_dropout",
        "dense_act_fn", "is_gated_act", "scale_decoder_outputs", "forced_bos_token_id", "force_bos_token_to_be_generated", "output_past", "rope_theta", "rope_scaling", "partial_rotary_factor", "original_max_position_embeddings", "torch_dtype", "num_labels",
        "name_or_path", "_name_or_path", "attn_implementation", "output_attentions", "tie_last_hidden_states", "is_causal",
        "is_decoder", "add_cross_attention", "sep_token_id", "decoder_start_token_id", "tokenizer_class", "unsloth_version",
        "attention_chunk_size", "attn_logit_softcapping", "logit_scale", "residual_multiplier", "embedding_multiplier",
        "global_head_dim", "num_global_key_value_heads", "rotary_pct", "rotary_emb_base", "n_ctx", "n_embed", "seq_length", "offset_alibi", "temperature", "sliding_window_pattern", "rope_local_base_freq", "max_length", "text_config", "per_layer_config", "quantization_config", "auto_map")
# Setting in which a field has an effect, and the setting for its absence if that differs.
SETTING = dict(
    rms_norm_eps=dict(small=True), layer_norm_eps=dict(small=True), layer_norm_epsilon=dict(small=True), norm_eps=dict(small=True), norm_epsilon=dict(small=True), max_position_embeddings=dict(rope_parameters=dict(rope_type="yarn", factor=4.0)),
    use_double_wide_mlp=dict(num_kv_shared_layers=1), num_global_key_value_heads=dict(attention_k_eq_v=True),
    use_sliding_window=SLIDING, sliding_window=SLIDING, max_window_layers=SLIDING, layer_types=SLIDING,
    original_max_position_embeddings=dict(rope_parameters={k: v for k, v in YARN.items() if k[0] != "o"}),
    rope_scaling=dict(rope_parameters=ROPE["default"]), head_dim=dict(), num_kv_heads=dict(new_decoder_architecture=True),
    num_ln_in_parallel_attn=dict(new_decoder_architecture=True), slow_but_exact=dict(pretraining_tp=2), num_attention_heads=dict(num_key_value_heads=2))
SETTING_ABSENT = dict(
    sliding_window=dict(use_sliding_window=True, max_window_layers=0, n_token=LONG, max_position_embeddings=8192,
                        num_attention_heads=1, num_key_value_heads=1, num_hidden_layers=2),
    max_window_layers=dict(SLIDING, num_hidden_layers=30), num_key_value_heads=dict(num_attention_heads=32),
    num_attention_heads=dict(num_key_value_heads=4), hidden_size=dict(num_hidden_layers=1), intermediate_size=dict(num_hidden_layers=1),
    n_embd=dict(num_hidden_layers=1), d_model=dict(num_hidden_layers=1), num_kv_heads=dict(new_decoder_architecture=True),
    num_ln_in_parallel_attn=dict(new_decoder_architecture=True))

ROPE_VALUES = dict(
    rope_theta=(500.0, 1e6), rope_type=("linear", "default"), type=("linear", "yarn"), partial_rotary_factor=(0.5, 1.0),
    factor=(2.0, 16.0, None), original_max_position_embeddings=(16, 64), attention_factor=(1.5, 0.7), beta_fast=(8.0, 16.0, 0.0),
    beta_slow=(2.0, 0.5), short_factor=([1.0] * 8, [2.0] * 8), long_factor=([1.0] * 8, [2.0] * 8), low_freq_factor=(0.5, 2.0),
    high_freq_factor=(3.0, 8.0), mscale=(0.707, 1.0), mscale_all_dim=(0.5, 1.0), truncate=(False, True),
    mrope_section=([4, 2, 2], [2, 3, 3]), finetuned=BOTH, extrapolation_factor=(0.5, 1.0), attn_factor=(0.5, 1.0),
    full_attention=(ROPE["default"], ROPE["linear"]), llama_4_scaling_beta=(0.1, 0.5), alpha=(2.0, 50.0))
ROPE_BESIDE = dict(beta_fast=dict(original_max_position_embeddings=4096), mscale=dict(mscale_all_dim=0.4), mscale_all_dim=dict(mscale=1.2))
TYPES_REFUSED = (dict(rope_type="dynamic", factor=4.0), dict(rope_type="proportional", factor=4.0), dict(rope_type="su", factor=4.0),
                 dict(rope_type="longrope", short_factor=[1.0] * 8, long_factor=[2.0] * 8, original_max_position_embeddings=32))


def weights_for(make, model, small, norm_add=0, scales={}):
    """Return weights that depend only on name and shape, so that a field that changes no shape
    changes no weight."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            rng = np.random.RandomState(zlib.crc32(f"{name} {tuple(p.shape)}".encode()))
            w = make.random_weight(rng, name, tuple(p.shape), norm_add)
            w *= make.scale_of(scales, name)
            p.copy_(w * 1e-3 if small and any(part in name for part in (*make.EMBEDDINGS, "shared")) else w)
        for name, p in model.named_buffers():
            if name.endswith(make.FACTORS):
                p.copy_(make.random_weight(np.random.RandomState(zlib.crc32(name.encode())), name, tuple(p.shape)))
        make.share_embeddings(model)
    return model


@contextlib.contextmanager
def exact():
    """Compute in float64 even if the classes of transformers request float32 by name."""
    old = torch.float32, torch.float, torch.Tensor.float, torch.Tensor.bfloat16
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.bfloat16 = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float, torch.Tensor.bfloat16 = old


def logits_of(model, ids):
    """Return the logits, or the hidden states if quoth's model has no head."""
    if model.config.model_type in CROSS:
        with torch.no_grad():
            return model(input_ids=ids[:, :N_SOURCE], decoder_input_ids=ids[:, N_SOURCE:], use_cache=False).logits[0].double().numpy()
    if model.config.model_type == "llama4":  # the class with images fails for a text without images
        model = model.language_model
    headless = not (hasattr(model, "lm_head") or hasattr(model, "head")) or (
        model.config.model_type == "gemma3_text" and getattr(model.config, "use_bidirectional_attention", False))
    with torch.no_grad():
        out = (model.base_model if headless else model)(ids, use_cache=False, return_dict=True)
    return (out.last_hidden_state if headless else out.logits)[0].double().numpy()


def nest_rope(config, model_type):
    """Replace the rope parameters by an object per type of layer, if the class requires it."""
    rope = config.get("rope_parameters")
    if model_type in NESTED and rope and not {FULL, SLIDES} & rope.keys():
        config["rope_parameters"] = {FULL: rope, SLIDES: ROPE["default"]}


class ConfigCampaign(Campaign):
    values, setting, setting_absent = VALUES, SETTING, SETTING_ABSENT

    def __init__(self, make, folder, quoth):
        super().__init__(folder, quoth)
        self.make = make

    def results_of(self, model, ids):
        return logits_of(model, ids)

    def reference(self, arch, config, n):
        """Compute transformers' logits for the folder's config.json, and write the weights into the
        folder."""
        cls = CLASSES[arch]
        parsed = CONFIGS.get(config["model_type"], cls.config_class).from_pretrained(self.folder)
        # falcon's plain attention adds ALiBi twice, and its other attention computes no weights
        parsed._attn_implementation = "sdpa" if arch == "falcon" and parsed.alibi else "eager"
        parsed._experts_implementation = "eager"
        for key in ("quantization_config",):
            if hasattr(parsed, key):
                delattr(parsed, key)
        model = weights_for(self.make, cls(parsed).float().eval(), self.small, int(config["model_type"] in NORM_LESS_1), SCALES.get(arch, {}))
        tensors = dict(self.make.published(model)) if arch not in RENAMED else revert_weight_conversion(model, dict(model.state_dict()))
        save_file({k: p.detach().clone().contiguous() for k, p in tensors.items()}, self.folder / "model.safetensors")
        self.model, self.ids = model, torch.from_numpy(np.fromfile(self.tokens(n), "<i4").astype(np.int64))[None]
        return logits_of(model.double(), self.ids)

    def rounded(self):
        """Return the logits of the last reference without float32. Set the distance that float32 alone
        explains."""
        rough = self.results_of(self.model.float(), self.ids)
        with exact():
            model = type(self.model)(self.model.config).double().eval()
            model.load_state_dict(self.model.state_dict())
            want = self.results_of(model, self.ids)
        self.rounding = distance(rough, want)
        return want

    def config_of(self, arch, setting):
        config = dict(BASE, **BESIDE.get(arch, {}), model_type=MODEL_TYPES.get(arch, arch))
        if arch == "smollm3":
            # one of three layers has no rope, as for windows
            config["no_rope_layer_interval"] = 2
        if arch == "gemma4_text" and MIXTURE.keys() & setting.keys():
            config.update(MIXTURE)
        if arch == "qwen3_moe":
            config.update(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24)
        config.update({k: v for k, v in setting.items() if k not in ("small", "n_token")})
        for usual, own in CLASSES[arch].config_class.attribute_map.items():  # two names of a value
            if own in setting:
                config[usual] = ABSENT
        config = {k: v for k, v in config.items() if v is not ABSENT}
        nest_rope(config, arch)
        if arch == "ministral3" and "rope_parameters" in config:  # the class has no default
            config["rope_parameters"] = dict(MINISTRAL, **(config["rope_parameters"] or {}))
        if arch in NESTED and "num_hidden_layers" in setting:
            for name in {"layer_types", "activation_sparsity_pattern"} - setting.keys():
                config.pop(name, None)
        return config

    def compare(self, arch, setting):
        """Return (reference's logits or None, quoth's or None, quoth's message)."""
        config = self.config_of(arch, setting)
        self.small, n = setting.get("small", False), setting.get("n_token", N_TOKEN)
        (self.folder / "config.json").write_text(json.dumps(config))
        try:
            want = self.reference(arch, config, n)
        except Exception as e:  # every exception of the reference is a rejection
            want, self.why = None, f"{type(e).__name__}: {e}".splitlines()[0][:100]
        (self.folder / "config.json").write_text(json.dumps(config))  # the reference may have written its own config.json
        got, said = self.program(self.quoth, self.folder, n, N_SOURCE if arch in CROSS else 0)
        if want is not None and got is not None and got.size == want.size:
            got = got.reshape(want.shape)  # a classifier has one row of results
        self.rounding = 0.0
        if want is not None and got is not None and distance(got, want) > 1e-4:
            want = self.rounded()
        return want, got, said

    # ---- config.json ----

    def fields_of(self, arch):
        classes = [cls.config_class for cls in CLASSES.values()] + list(CONFIGS.values())
        own = {f.name for cls in classes for f in dataclasses.fields(cls)}
        return sorted(own | set(MORE))

    def base(self, arch):
        """Check the configuration that the others change. Both programs must compute it."""
        want, got, said = self.compare(arch, {})
        if want is None or got is None:
            self.wrong.append(f"{arch}: the base configuration is rejected: {self.why if want is None else said[-200:]}")
        elif distance(got, want) > max(1e-4, self.rounding):
            self.wrong.append(f"{arch}: the base configuration differs by {distance(got, want):.2e}")

    def top_level(self, arch):
        for name in self.fields_of(arch):
            setting = dict(self.setting.get(name, {}))
            absent = dict(self.setting_absent.get(name, setting))
            if name == "rope_parameters":
                setting = absent = {}
            variants = [("absent", dict(absent, **{name: ABSENT}), absent)]
            for i, value in enumerate(self.values.get(name, BOTH)):
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
            name = "short_factor" if p["rope_type"] == "su" else "rope scaling"  # quoth reads su as longrope
            self.field(arch, f"rope_parameters.{name}", variants, 1e-4, self.compare)

    def weights_twice(self, arch):
        """Check a tied model whose file contains both matrices: equal matrices are one tensor,
        different matrices are two."""
        for tie in BOTH:
            want, got, said = self.compare(arch, dict(tie_word_embeddings=False))
            config = json.loads((self.folder / "config.json").read_text())
            (self.folder / "config.json").write_text(json.dumps(dict(config, tie_word_embeddings=tie)))
            got, said = self.program(self.quoth, self.folder, N_TOKEN)
            print(f"{arch:8s} a head beside the embedding, tie_word_embeddings {tie}: "
                  f"{self.verdict(f'{arch} head', 'tie_word_embeddings', want, got, said, 1e-4)}")


def main(make, args):
    import fields_encoders
    import fields_parts
    torch.set_num_threads(1)
    encoders, parts = fields_encoders.CLASSES, [f"parts:{kind}" for kind in fields_parts.KINDS]
    names = [a for a in args if a in CLASSES or a in encoders or a in parts]
    if unknown := set(args) - set(names) - {"parts:"}:
        sys.exit(f"fields.py: unknown: {' '.join(sorted(unknown))}; known: {' '.join([*CLASSES, *encoders, *parts])}")
    names += parts if "parts:" in args else [] if names else [*CLASSES, *encoders, *parts]
    kinds = ((ConfigCampaign, [a for a in names if a in CLASSES]), (fields_encoders.EncoderCampaign, [a for a in names if a in encoders]),
             (fields_parts.PartsCampaign, [a for a in names if a in parts]))
    good = True
    for kind, archs in kinds:
        with tempfile.TemporaryDirectory() as folder:
            c = kind(make, pathlib.Path(folder), quoth_logits())
            for arch in archs:
                if kind is fields_parts.PartsCampaign:
                    c.all(arch)
                    continue
                c.base(arch)
                c.top_level(arch)
                c.rope(arch)
                if arch not in CROSS:  # in these classes the field has another meaning
                    c.weights_twice(arch)
            if archs:
                good &= report(c, f"config.json against transformers {transformers.__version__}")
    return 0 if good else 1
