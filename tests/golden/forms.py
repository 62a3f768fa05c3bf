#!/usr/bin/env python3
"""Make the golden checkpoints of published forms of quantized weights, in tests/golden/forms.

    tests/golden/forms.py [NAME...]      makes all, or the named folders

Each folder is a tiny llama with quantized linear layers. Libraries write compressed-tensors,
bitsandbytes, BitNet's, AutoRound's, HQQ's and Quanto's layers (pip install --no-deps compressed-tensors bitsandbytes
loguru; auto-round py-cpuinfo datasets; hqq termcolor; optimum-quanto). This script itself writes
GPTQ and AWQ, from the description of the formats. logits.f32 is transformers' result with the
dequantized weights, in float64, for every fifth of the 24 tokens. values.txt has, for each
quantized matrix, the 64-bit FNV-1a hash of its values as f32, contiguous rows, with -0 as
0. The libraries compute these values, with scales in f32.

A folder has several kinds of a form if the form supports this (dynamic, config_groups). """
import copy
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
os.environ.setdefault("BNB_DISABLE_TRITON", "1")
import make  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

N_TOKEN = 24
PHI3 = dict(cls=transformers.Phi3ForCausalLM, seed=18, dtype="float32",
            config=dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
                        tie_word_embeddings=True, pad_token_id=0, rope_parameters=dict(rope_type="default", rope_theta=10000.0)))
SPEC = dict(cls=transformers.LlamaForCausalLM, seed=17, dtype="float32",
            config=dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                        num_hidden_layers=2, tie_word_embeddings=True,
                        rope_parameters=dict(rope_type="default", rope_theta=10000.0)))


# matrices of several parts: q, k and v of a head or group of heads together, or the inputs of a recurrent layer
def fused(name, **config):
    spec = make.MODELS[name]
    return dict(spec, dtype="float32", config=dict(spec["config"], **config))


NEOX = fused("gpt_neox", hidden_size=48, intermediate_size=64, num_attention_heads=4)
FALCON = fused("falcon", hidden_size=64, ffn_hidden_size=96)
QUANTIZED = ("_proj.weight", ".in_proj_qkvz.weight", ".in_proj_ba.weight", ".query_key_value.weight", ".dense.weight",
             ".dense_h_to_4h.weight", ".dense_4h_to_h.weight")


def bits_along(codes, bits):
    """Pack codes [n, m] into words of 32 bits along the first axis: a stream of bits, lowest first."""
    n, m = codes.shape
    out = np.zeros(((n * bits + 31) // 32, m), np.uint64)
    for i in range(n):
        word, shift = i * bits // 32, i * bits % 32
        value = codes[i].astype(np.uint64) << np.uint64(shift)
        out[word] |= value & np.uint64(0xFFFFFFFF)
        if shift + bits > 32:
            out[word + 1] |= value >> np.uint64(32)
    return torch.from_numpy(out.astype(np.uint32).view(np.int32))


def integers(rng, w, bits, size, sym, groups):
    """Return codes [n_out, k], zeros and scales (f16) [n_group, n_out], and values. groups [k]."""
    n_out, k = w.shape
    n_group, top = int(groups.max()) + 1, 2**bits - 1
    scale, zero = np.zeros((n_group, n_out), np.float16), np.zeros((n_group, n_out), np.int64)
    for g in range(n_group):
        part = w[:, groups == g]
        lo, hi = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        if sym:
            scale[g] = np.maximum(np.maximum(-lo, hi) * 2 / top, 1e-4)
            zero[g] = 2**(bits - 1)
        else:
            scale[g] = np.maximum((hi - lo) / top, 1e-4)
            zero[g] = np.clip(np.round(-lo / scale[g].astype(np.float32)), 1, top)
    s, z = scale.astype(np.float32)[groups].T, zero[groups].T
    code = np.clip(np.round(w / s) + z, 0, top).astype(np.int64)
    return code, zero, scale, (code - z).astype(np.float32) * s


def gptq(rng, raw, w, bits=4, size=32, sym=True, act=False, version=1):
    k = w.shape[1]
    groups = np.arange(k) // size if size > 0 else np.zeros(k, np.int64)
    if act:
        groups = rng.permutation(groups)
    code, zero, scale, values = integers(rng, w, bits, size, sym, groups)
    stored = zero - 1 if version == 1 else zero
    return {raw + ".qweight": bits_along(code.T, bits), raw + ".qzeros": bits_along(stored.T, bits).T.contiguous(),
            raw + ".scales": torch.from_numpy(scale), raw + ".g_idx": torch.from_numpy(groups.astype(np.int32))}, values


def make_gptq(rng, version):
    """Settings per layer: 4, 8, 3 or 2 bits, groups in order or not, symmetric or not, one group, a
    float matrix."""
    kinds = dict(q_proj=dict(), k_proj=dict(act=True), v_proj=dict(sym=False), o_proj=dict(bits=8),
                 gate_proj=dict(bits=3), up_proj=dict(bits=2, size=64), down_proj=dict(bits=8, sym=False, act=True))
    second = dict(q_proj=dict(size=-1), k_proj=dict(sym=False, act=True), v_proj=dict(bits=3, sym=False), o_proj=None,
                  gate_proj=dict(sym=False, size=-1), up_proj=dict(bits=2, sym=False), down_proj=dict(bits=4, size=48))

    def convert(raw, w):
        how = (second if ".1." in raw else kinds)[raw.split(".")[-1]]
        return gptq(rng, raw, w, version=version, **how) if how is not None else None

    config = dict(quant_method="gptq", bits=4, group_size=32, desc_act=True, sym=True, damp_percent=0.01, lm_head=False,
                  true_sequential=True, static_groups=False, checkpoint_format="gptq" if version == 1 else "gptq_v2",
                  meta=dict(quantizer=["gptqmodel:1.0"]),
                  dynamic={"+:.*o_proj": dict(bits=8), "-:.*1.*o_proj": {}})
    return convert, config


def make_fused(rng, version):
    """q, k and v in one matrix, and gate and up in one (phi3)."""
    kinds = dict(qkv_proj=dict(act=True), o_proj=dict(), gate_up_proj=dict(sym=False), down_proj=dict())

    def convert(raw, w):
        return gptq(rng, raw, w, version=version, **kinds[raw.split(".")[-1]])

    return convert, dict(quant_method="gptq", bits=4, group_size=32, desc_act=True, sym=False, checkpoint_format="gptq")


def make_gptq_groups(rng, version):
    """Heads of 12 rows, whose zeros of 3 bits cross words."""
    def convert(raw, w):
        return gptq(rng, raw, w, version=version, size=24, sym=False, bits=3 if "0" in raw else 4, act="query" in raw or ".in_proj" in raw)

    return convert, dict(quant_method="gptq", bits=4, group_size=24, desc_act=True, sym=False, checkpoint_format="gptq",
                         dynamic={"+:.*0.*": dict(bits=3)})


def make_awq(rng, version):
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def interleave(codes):
        """Order the first axis by groups of 8."""
        return codes.reshape(-1, 8, codes.shape[1])[:, order].reshape(codes.shape)

    def convert(raw, w):
        k = w.shape[1]
        if raw.endswith("1.self_attn.o_proj"):
            return None  # modules_to_not_convert
        code, zero, scale, values = integers(rng, w, 4, 32, raw.endswith("q_proj"), np.arange(k) // 32)
        if version == "gemm":
            return {raw + ".qweight": bits_along(interleave(code), 4).T.contiguous(), raw + ".scales": torch.from_numpy(scale),
                    raw + ".qzeros": bits_along(interleave(zero.T), 4).T.contiguous()}, values
        n_word = 4  # AutoAWQ's calculate_zeros_width for 2 or 3 groups of 32
        padded = np.zeros((n_word * 8, w.shape[0]), np.int64)
        padded[:zero.shape[0]] = zero
        scales = np.zeros((n_word * 8, w.shape[0]), np.float16)
        scales[:zero.shape[0]] = scale
        return {raw + ".qweight": bits_along(code.T, 4).T.contiguous(), raw + ".qzeros": bits_along(padded, 4).T.contiguous(),
                raw + ".scales": torch.from_numpy(scales.T.copy())}, values

    return convert, dict(quant_method="awq", bits=4, group_size=32, zero_point=True, version=version,
                         modules_to_not_convert=["model.layers.1.self_attn.o_proj"], do_fuse=False, backend="autoawq")


def make_auto_round(rng, _):
    """AutoRound's packing_format auto_round:auto_gptq: 4, 8, 3, 2, 5, 6 and 7 bits, and a float matrix."""
    from auto_round_extension.torch.qlinear_torch_zp import QuantLinear
    kinds = dict(q_proj=dict(), k_proj=dict(sym=False), v_proj=dict(bits=8), o_proj=dict(bits=3, sym=False), gate_proj=dict(bits=2, group_size=96),
                 up_proj=dict(bits=5, sym=False), down_proj=dict(bits=6))
    second = dict(kinds, q_proj=dict(bits=7, sym=False), v_proj=dict(bits=2, sym=False), o_proj=dict(bits=16), gate_proj=dict(group_size=-1))
    extra = {}

    def convert(raw, w):
        changed = (second if ".1." in raw else kinds)[raw.split(".")[-1]]
        if changed:
            extra[raw] = changed
        how = dict(dict(bits=4, group_size=32, sym=True), **changed)
        n_out, k = w.shape
        bits, size = how["bits"], how["group_size"]
        if bits == 16:
            return None
        size = k if size < 0 or size > k else size
        _, zero, scale, _ = integers(rng, w, bits, size, how["sym"], np.arange(k) // size)
        linear = torch.nn.Linear(k, n_out, bias=False)
        linear.weight.data = torch.from_numpy(w)
        q = QuantLinear(bits, size, k, n_out, False)
        q.pack(linear, torch.from_numpy(scale.T.astype(np.float32)), zero.flat[0] if how["sym"] else torch.from_numpy(zero.T.astype(np.float32)))
        out = {f"{raw}.{name}": t for name, t in q.state_dict().items()}
        q.scales = q.scales.float()
        return out, q(torch.eye(k)).T.numpy()

    return convert, dict(quant_method="auto-round", packing_format="auto_round:auto_gptq", bits=4, group_size=32, sym=True, data_type="int",
                         autoround_version="0.16.1", block_name_to_quantize="model.layers", iters=0, low_gpu_mem_usage=True, extra_config=extra)


def make_hqq(rng, _):
    """8, 4, 3, 2 and 1 bits, groups that cross the ends of rows, and a float matrix, without a GPU."""
    from hqq.core.quantize import Quantizer
    from hqq.core.utils import encode_safetensor_type
    kinds = dict(q_proj=(4, 32), k_proj=(8, 64), v_proj=(3, 64), o_proj=(2, 32), gate_proj=(1, 32), up_proj=(4, 128), down_proj=(3, 32))
    second = dict(kinds, q_proj=(2, 64), k_proj=(4, 16), o_proj=None)

    def convert(raw, w):
        how = (second if ".1." in raw else kinds)[raw.split(".")[-1]]
        if how is None:
            return None
        dtype = [torch.float32, torch.float16, torch.bfloat16][len(raw) % 3]
        settings = dict(nbits=how[0], channel_wise=True, group_size=how[1], optimize=True, round_zero=how[0] == 4, axis=1, view_as_float=False)
        code, meta = Quantizer.quantize(torch.from_numpy(w), device="cpu", compute_dtype=dtype, **settings)
        meta.update(quant_scale=False, quant_zero=False, scale=meta["scale"].to(dtype), zero=meta["zero"].to(dtype), compute_dtype=dtype)
        state = dict(meta, **settings, offload_meta=False, encoded_state_dict=True, stores_quant_config=True)
        out = {f"{raw}.{name}": encode_safetensor_type(v) for name, v in state.items()}
        exact = dict(meta, scale=meta["scale"].float(), zero=meta["zero"].float(), compute_dtype=torch.float32)
        return {raw + ".W_q": code, **out}, Quantizer.dequantize(code, exact).numpy()

    return convert, dict(quant_method="hqq", skip_modules=["lm_head"], quant_config=dict(
        weight_quant_params=dict(nbits=4, channel_wise=True, group_size=64, optimize=True, round_zero=True, axis=1, view_as_float=False),
        scale_quant_params=None, zero_quant_params=None, offload_meta=False))


def make_quanto(rng, _):
    """8-bit integers and floats, 4 and 2 bits per row and in groups, scales of three types, and a float matrix."""
    from optimum import quanto
    kinds = dict(q_proj=("qint8", None), k_proj=("qfloat8", None), v_proj=("qint4", None), o_proj=("qint4", 32), gate_proj=("qint2", 32),
                 up_proj=("qint4", 16), down_proj=("qint2", None))
    second = dict(kinds, q_proj=("qint4", 64), o_proj=None, up_proj=("qint8", None), down_proj=("qint4", 48))
    types = {}

    def convert(raw, w):
        how = (second if ".1." in raw else kinds)[raw.split(".")[-1]]
        if how is None:
            return None
        dtype = [torch.float32, torch.float16, torch.bfloat16][len(raw) % 3]
        kind, size = quanto.qtypes[how[0] if how[0] != "qfloat8" else "qfloat8_e4m3fn"], how[1]
        w = torch.from_numpy(w).to(dtype)
        if kind.bits == 8:
            scale = quanto.AbsmaxOptimizer()(w, kind, 0)
            q = quanto.quantize_weight(w, kind, 0, scale, optimized=False)
            values = q._data.float() * q._scale.float()
        else:
            scale, shift = quanto.MaxOptimizer()(w, kind, 0, size)
            q = quanto.quantize_weight(w, kind, 0, scale, shift, size, optimized=False)
            exact = quanto.WeightQBitsTensor(kind, 0, size, q.size(), q.stride(), q._data, q._scale.float(), q._shift.float())
            values = exact.dequantize()
        out = {}
        q.save_to_state_dict(out, f"{raw}.weight.", False)
        types[raw] = dict(weights=kind.name, activations="none")
        return {**out, raw + ".input_scale": torch.ones((), dtype=dtype), raw + ".output_scale": torch.ones((), dtype=dtype)}, values.numpy()

    return convert, types


def make_compressed(rng, _):
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    kinds = dict(
        q_proj=("pack-quantized", dict(num_bits=4, type="int", strategy="group", group_size=32, symmetric=True)),
        k_proj=("pack-quantized", dict(num_bits=4, type="int", strategy="group", group_size=32, symmetric=False)),
        v_proj=("pack-quantized", dict(num_bits=8, type="int", strategy="channel", symmetric=True)),
        o_proj=("int-quantized", dict(num_bits=8, type="int", strategy="channel", symmetric=True)),
        gate_proj=("float-quantized", dict(num_bits=8, type="float", strategy="channel", symmetric=True)),
        up_proj=("nvfp4-pack-quantized", dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)),
        down_proj=("mxfp4-pack-quantized", dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True)))
    second = dict(
        q_proj=("int-quantized", dict(num_bits=8, type="int", strategy="tensor", symmetric=True)),
        k_proj=("int-quantized", dict(num_bits=8, type="int", strategy="channel", symmetric=False)),
        v_proj=("pack-quantized", dict(num_bits=3, type="int", strategy="group", group_size=32, symmetric=False)),
        o_proj=None,
        gate_proj=("float-quantized", dict(num_bits=8, type="float", strategy="tensor", symmetric=True)),
        up_proj=("float-quantized", dict(num_bits=8, type="float", strategy="block", block_structure=[24, 40], symmetric=True)),
        down_proj=("pack-quantized", dict(num_bits=4, type="int", strategy="channel", symmetric=True)))

    def convert(raw, w):
        how = (second if ".1." in raw else kinds)[raw.split(".")[-1]]
        if how is None:
            return None
        fmt, args = how
        w, strategy, bits = torch.from_numpy(w), args["strategy"], args["num_bits"]
        n_out, k = w.shape
        dtype = torch.bfloat16 if "0." in raw else torch.float16
        if args["strategy"] == "block":
            bo, bk = args["block_structure"]
            padded = torch.nn.functional.pad(w, (0, -k % bk, 0, -n_out % bo))
            parts = padded.reshape(padded.shape[0] // bo, bo, -1, bk).permute(0, 2, 1, 3).flatten(2)
        else:
            size = args.get("group_size") or k
            parts = w.reshape(n_out, -1, size) if strategy != "tensor" else w.reshape(1, 1, -1)
        lo, hi = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
        amax = torch.maximum(-lo, hi)
        state, zero, extra = {}, None, {}
        if fmt.startswith("mxfp4"):
            scale = 2.0 ** torch.floor(torch.log2(amax / 6.0)).clamp(-30, 30)
        elif fmt.startswith("nvfp4"):
            top = (448 * 6 / amax.max()).reshape(1)
            scale = (amax / 6.0 * top).to(torch.float8_e4m3fn).float()
            extra["weight_global_scale"] = top
        elif args["type"] == "float":
            scale = amax / 448
        elif args["symmetric"]:
            scale = (amax * 2 / (2**bits - 1)).to(dtype).float()
        else:
            scale = ((hi - lo) / (2**bits - 1)).to(dtype).float()
            zero = torch.clamp(torch.round(-lo / scale) - 2**(bits - 1), -2**(bits - 1), 2**(bits - 1) - 1).to(torch.int8)
        if strategy == "tensor":
            scale = scale.reshape(1)
        state = dict(weight=w, weight_scale=scale, **extra)
        if zero is not None:
            state["weight_zero_point"] = zero
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
        compressor = BaseCompressor.get_value_from_registry(fmt)
        out = compressor.compress(dict(state), scheme)
        if fmt.startswith("nvfp4"):  # decompress() computes in bf16
            code = unpack_fp4_from_uint8(out["weight_packed"], n_out, k, torch.float32)
            values = dequantize(x_q=code, scale=out["weight_scale"].float(), args=scheme.weights,
                                global_scale=out["weight_global_scale"], dtype=torch.float32).numpy()
        else:
            values = compressor.decompress(dict(out), scheme)["weight"].float().numpy()
        if args["type"] == "int":  # the files' scales have 16 bits
            out["weight_scale"] = out["weight_scale"].to(dtype)
        if fmt == "float-quantized":
            out["input_scale"] = torch.ones(1)  # static activations
        return {f"{raw}.{name}": t.contiguous() for name, t in out.items() if isinstance(t, torch.Tensor)}, values

    groups = {}
    for layer, table in enumerate((kinds, second)):
        for name, how in table.items():
            if how:
                groups[f"group_{len(groups)}"] = dict(
                    targets=[f"re:.*{layer}.*{name}"], format=how[0], output_activations=None,
                    weights=dict(how[1], dynamic=False, actorder=None, observer="minmax", observer_kwargs={}),
                    input_activations=dict(num_bits=8, type="float", dynamic=True, strategy="token", symmetric=True) if "float" in how[0] else None)
    return convert, dict(quant_method="compressed-tensors", format="mixed-precision", quantization_status="compressed", version="0.20.0",
                         global_compression_ratio=None, kv_cache_scheme=None, ignore=["lm_head", "model.layers.1.self_attn.o_proj"],
                         sparsity_config={}, transform_config={}, config_groups=groups)


def make_sparse(rng, _):
    """2:4 sparsity: floats of each type, and E4M3 and I8 with scales. The package has no compressor
    of this format since 0.11; SPARSE_PACKAGE is a folder with compressed-tensors 0.9.4."""
    sys.path.insert(0, os.environ["SPARSE_PACKAGE"])
    from compressed_tensors.compressors.sparse_compressors.sparse_24_bitmask import Sparse24BitMaskTensor

    def stored(raw, dense):
        return {k: v.contiguous() for k, v in Sparse24BitMaskTensor.from_dense(dense, "2:4").dict(raw + ".weight").items()}

    def convert(raw, w):
        kind = raw.split(".")[-1]
        w = torch.from_numpy(w)
        w[~torch.zeros_like(w, dtype=torch.bool).scatter_(1, w.view(-1, 4).abs().topk(2).indices.add(
            (torch.arange(w.numel() // 4) % (w.shape[1] // 4) * 4)[:, None]).view(w.shape[0], -1), True)] = 0
        if kind in ("q_proj", "gate_proj", "o_proj", "k_proj"):
            dense = w.to({"q_proj": torch.bfloat16, "gate_proj": torch.float16}.get(kind, torch.float32 if kind == "o_proj" else torch.bfloat16))
            return stored(raw, dense), dense.float().numpy()
        top = 448.0 if kind != "down_proj" else 127.0
        scale = (w.abs().amax(1, keepdim=True) / top).clamp_min(1e-6).to(torch.bfloat16)
        code = w / scale.float()
        code = code.round().clamp(-127, 127).to(torch.int8) if kind == "down_proj" else code.clamp(-448, 448).to(torch.float8_e4m3fn)
        return dict(stored(raw, code), **{raw + ".weight_scale": scale}), (code.float() * scale.float()).numpy()

    def group(targets, kind, bits):
        return dict(targets=targets, weights=dict(num_bits=bits, type=kind, symmetric=True, strategy="channel", dynamic=False))

    config = dict(quant_method="compressed-tensors", format="float-quantized", quantization_status="compressed",
                  config_groups=dict(group_0=group(["re:.*v_proj", "re:.*up_proj"], "float", 8), group_1=group(["re:.*down_proj"], "int", 8)),
                  sparsity_config=dict(format="sparse-24-bitmask", sparsity_structure="2:4", targets=["Linear"], ignore=["lm_head"],
                                       global_sparsity=0.5))
    return convert, config


def make_fp8(rng, _):
    def convert(raw, w):
        w = torch.from_numpy(w)
        rows = ".1." in raw
        scale = (w.abs().amax(1, keepdim=True) if rows else w.abs().max()) / 448
        code = (w / scale).to(torch.float8_e4m3fn)
        return {raw + ".weight": code, raw + ".weight_scale": scale.clone(), raw + ".input_scale": torch.tensor(0.5)}, (code.float() * scale).numpy()

    return convert, dict(quant_method="fp8", activation_scheme="static", ignored_layers=["lm_head"], kv_cache_scheme=None)


def make_fp8_blocks(rng, block):
    """Blocks of outputs that cross the ends of q, k and v."""
    def convert(raw, w):
        out, k = block
        n_out, n = w.shape
        padded = torch.nn.functional.pad(torch.from_numpy(w), (0, -n % k, 0, -n_out % out))
        parts = padded.reshape(padded.shape[0] // out, out, -1, k)
        scale = (parts.abs().amax(dim=(1, 3)) / 448).clamp(min=1e-12)
        code = (parts / scale[:, None, :, None]).to(torch.float8_e4m3fn)
        values = (code.float() * scale[:, None, :, None]).reshape(padded.shape)[:n_out, :n]
        code = code.reshape(padded.shape)[:n_out, :n].contiguous()
        return {raw + ".weight": code, raw + ".weight_scale_inv": scale}, values.numpy()

    return convert, dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=list(block), modules_to_not_convert=["lm_head"])


def make_bnb4(rng, _):
    import bitsandbytes.functional as bnb

    def convert(raw, w):
        if raw.endswith("1.self_attn.o_proj"):
            return None  # llm_int8_skip_modules
        code, state = bnb.quantize_4bit(torch.from_numpy(w), quant_type="fp4" if "mlp" in raw else "nf4", compress_statistics=".0." in raw)
        flat = copy.copy(state)
        flat.shape = (1, w.size)  # bitsandbytes 0.50 requires whole blocks per row on CPU
        values = bnb.dequantize_4bit(code, flat).float().numpy().reshape(w.shape)
        out = {f"{raw}.weight.{name}": t for name, t in state.as_dict(packed=True).items()}
        return {raw + ".weight": code, **out}, values

    return convert, dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False, _load_in_4bit=True, _load_in_8bit=False,
                         bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype="float32",
                         bnb_4bit_quant_storage="uint8", llm_int8_threshold=6.0, llm_int8_has_fp16_weight=False,
                         llm_int8_skip_modules=["lm_head", "model.layers.1.self_attn.o_proj"], llm_int8_enable_fp32_cpu_offload=False)


def make_bnb8(rng, _):
    import bitsandbytes.functional as bnb

    def convert(raw, w):
        code, scale, _ = bnb.int8_vectorwise_quant(torch.from_numpy(w).half())
        values = bnb.int8_vectorwise_dequant(code, scale).float().numpy()
        return {raw + ".weight": code, raw + ".SCB": scale, raw + ".weight_format": torch.tensor(0, dtype=torch.uint8)}, values

    return convert, dict(quant_method="bitsandbytes", load_in_4bit=False, load_in_8bit=True, llm_int8_threshold=6.0,
                         llm_int8_has_fp16_weight=False, llm_int8_skip_modules=None)


def make_bitnet(rng, kind):
    from transformers.integrations.bitnet import pack_weights

    def convert(raw, w):
        mean = np.abs(w).mean()
        code = np.clip(np.round(w / mean), -1, 1).astype(np.float32)
        scale = torch.tensor([1 / mean if kind == "bitlinear" else mean]).to(torch.bfloat16)
        values = code / scale.float().numpy() if kind == "bitlinear" else code * scale.float().numpy()
        return {raw + ".weight": pack_weights(torch.from_numpy(code.copy())), raw + ".weight_scale": scale}, values

    return convert, dict(quant_method="bitnet", linear_class=kind, quantization_mode="offline", modules_to_not_convert=["lm_head"])


FORMS = {"gptq": (make_gptq, 1), "gptq-v2": (make_gptq, 2), "awq": (make_awq, "gemm"), "awq-gemv": (make_awq, "gemv"),
         "compressed": (make_compressed, None), "fp8": (make_fp8, None), "bnb-4bit": (make_bnb4, None), "bnb-8bit": (make_bnb8, None),
         "gptq-fused": (make_fused, 1), "sparse": (make_sparse, None), "auto-round": (make_auto_round, None), "hqq": (make_hqq, None), "quanto": (make_quanto, None),
         "gptq-neox": (make_gptq_groups, 1, NEOX), "awq-neox": (make_awq, "gemm", fused("gpt_neox", hidden_size=96, intermediate_size=64, num_attention_heads=8, num_hidden_layers=1, tie_word_embeddings=True)),
         "fp8-falcon": (make_fp8_blocks, (24, 40), FALCON), "bnb-4bit-bloom": (make_bnb4, None, fused("bloom")),
         "fp8-qwen3-next": (make_fp8_blocks, (10, 16), fused("qwen3_next")), "gptq-mamba2": (make_gptq_groups, 1, fused("mamba2", hidden_size=48, num_heads=6, time_step_limit=(0.0, float("inf")))),
         "bitnet": (make_bitnet, "bitlinear"), "bitnet-auto": (make_bitnet, "autobitlinear")}


def fnv(values):
    h = 0xCBF29CE484222325
    for byte in (values + np.float32(0)).astype("<f4").tobytes():
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def make_form(name, root):
    maker, kind, *spec = FORMS[name]
    spec = spec[0] if spec else PHI3 if maker is make_fused else SPEC
    rng = np.random.RandomState(5)
    convert, quantization = maker(rng, kind)
    out = root / name
    out.mkdir(parents=True, exist_ok=True)
    model = make.make_model(spec)
    tensors, lines = {}, []
    with torch.no_grad():
        for raw, p in make.published(model):
            done = convert(raw.removesuffix(".weight"), p.detach().numpy().copy()) if raw.endswith(QUANTIZED) else None
            if done:
                part, values = done
                values = np.asarray(values, np.float32)
                p.copy_(torch.from_numpy(values.copy()))
                tensors.update(part)
                if ".experts." not in raw:  # one tensor in memory
                    lines.append(f"{raw.removesuffix('.weight')} {fnv(values)}\n")
            elif not (raw == "lm_head.weight" and model.config.tie_word_embeddings):
                p.copy_(p.to(torch.bfloat16).float())
                tensors[raw] = p.detach().to(torch.bfloat16).contiguous()
    save_file({k: t.contiguous().clone() for k, t in tensors.items()}, out / "model.safetensors")
    (out / "values.txt").write_text("".join(lines))
    model.config.save_pretrained(out)
    config = json.loads((out / "config.json").read_text())
    if name == "quanto":  # optimum-quanto writes a separate file
        make.write_json(out / "quanto_qmap.json", quantization)
    else:
        config["quantization_config"] = quantization
    make.write_json(out / "config.json", config)
    tokens = np.random.RandomState(77).randint(0, make.N_VOCAB, N_TOKEN).astype("<i4")
    tokens.tofile(out / "tokens.i32")
    make.save_logits(out / "logits.f32", make.logits_of(model.double(), tokens))
    for file in out.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    for name in sys.argv[1:] or FORMS:
        make_form(name, pathlib.Path(__file__).resolve().parent / "forms")
        print(name)
