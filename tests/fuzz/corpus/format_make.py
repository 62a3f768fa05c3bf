#!/usr/bin/env python3
"""format_make.py - write the seed files of the fuzz targets gguf, pack, safetensors, llama2c, hf_config and json.

Run this script in its folder. The written files are committed (corpus/TARGET/NAME), so fuzzing
needs no other files."""
import json
import os
import struct


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf(version, kv, tensors, align=32):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(kv))
    for key, kind, value in kv:
        head += text(key) + struct.pack("<I", kind) + value
    data = b""
    for name, dims, kind, n_byte in tensors:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += b"\1" * n_byte
        data += b"\0" * (-len(data) % align)
    return head + b"\0" * (-len(head) % align) + data


def gguf_seeds():
    scalars = [(f"k{t}", t, struct.pack("<" + f, v)) for t, f, v in [
        (0, "B", 1), (1, "b", -1), (2, "H", 2), (3, "h", -2), (4, "I", 3), (5, "i", -3), (6, "f", 1.5), (7, "?", True),
        (10, "Q", 4), (11, "q", -4), (12, "d", 2.5)]]
    lists = [("text", 8, text("hello")), ("numbers", 9, struct.pack("<IQ3i", 5, 3, 1, 2, 3)),
             ("texts", 9, struct.pack("<IQ", 8, 2) + text("a") + text("bc")),
             ("lists", 9, struct.pack("<IQ", 9, 2) + struct.pack("<IQ2B", 0, 2, 1, 2) + struct.pack("<IQ", 8, 1) + text("x"))]
    tensors = [("token_embd.weight", [32, 4], 0, 512), ("blk.0.attn_q.weight", [256, 2], 12, 288),
               ("blk.0.ffn_up.weight", [32, 2, 2], 8, 136), ("scalar", [1], 1, 2)]
    write("gguf/values.gguf", gguf(3, scalars + lists, []))
    write("gguf/tensors.gguf", gguf(3, lists[:1], tensors))
    write("gguf/aligned.gguf", gguf(2, [("general.alignment", 4, struct.pack("<I", 64))], tensors, 64))
    for magic, program in (b"quothpak", b"program".ljust(64, b"\0")), (b"quothapp", b""):
        model = gguf(3, lists[:1], tensors)
        place = struct.pack("<QQQ", len(program), len(model), len(program) ^ len(model) ^ 0x716B6170)
        write(f"pack/{magic.decode()}.bin", program + model + magic + place)


def safetensors(tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, dtype, shape, n_byte in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + n_byte]}
        data += b"\1" * n_byte
    head = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(head)) + head + data


def llama2c(version, tied):
    dim, hidden, layers, heads, kv_heads, vocab, ctx, group = 4, 8, 1, 2, 1, 3, 2, 4
    matrices = [vocab * dim, dim * dim, dim * 2, dim * 2, dim * dim] + [dim * hidden] * 3 + ([] if tied else [vocab * dim])
    norms = dim * (2 * layers + 1)
    if version == 0:
        head = struct.pack("<7i", dim, hidden, layers, heads, kv_heads, vocab if tied else -vocab, ctx)
        return head + struct.pack("<f", 1) * (sum(matrices) + norms + ctx * dim // heads)
    head = struct.pack("<Ii7iBi", 0x616B3432, version, dim, hidden, layers, heads, kv_heads, vocab, ctx, tied, group)
    body = struct.pack("<f", 1) * norms
    for n in matrices:
        body += b"\2" * n + struct.pack("<f", 1) * (n // group) if version == 2 else struct.pack("<f", 1) * n
    return head.ljust(256, b"\0") + body


CONFIG = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16,
    "rms_norm_eps": 1e-5, "rope_theta": 5e5, "tie_word_embeddings": True, "sliding_window": 8,
    "eos_token_id": [1, 2], "bos_token_id": 0, "layer_types": ["full_attention", "sliding_attention"],
    "no_rope_layers": [1, 0], "do_sample": True, "temperature": 0.7, "top_k": 20, "weight_map": {"x": "model.safetensors"},
    "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "chat_template": [{"name": "default", "template": "{{ x }}"}, {"name": "rag", "template": "{{ y }}"}],
}


def main():
    gguf_seeds()
    write("safetensors/some.safetensors", safetensors([
        ("model.norm.weight", "F32", [4], 16), ("model.layers.0.mlp.up_proj.weight", "BF16", [2, 3], 12),
        ("codes", "U8", [1, 2, 3, 1, 2], 12), ("none", "F64", [0, 2], 0), ("one", "F8_E4M3", [], 1)]))
    for version in range(3):
        for tied in (True, False):
            write(f"llama2c/v{version}-{'tied' if tied else 'untied'}.bin", llama2c(version, tied))
    write("hf_config/all.json", json.dumps(CONFIG).encode())
    write("hf_config/text_config.json", json.dumps({"model_type": "llava", "text_config": {
        "model_type": "qwen3", "rope_parameters": {"full_attention": {"rope_theta": 1e6, "rope_type": "yarn", "factor": 4}}}}).encode())
    write("json/escapes.json", rb'{"a\u0000b":["\ud83d\ude00","\ud800","\\ud800\n\"\/"],"n":[-0.0,1e-7,12345678901234567890],"n":null}')
    write("json/nested.json", b'[[[{"a":[{},[],"",true,false]}]],' + json.dumps(CONFIG).encode() + b"]")


main()
