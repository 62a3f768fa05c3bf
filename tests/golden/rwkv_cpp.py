"""rwkv_cpp.py - convert a file of rwkv.cpp to a folder that quoth loads.

    tests/golden/rwkv_cpp.py FILE.bin FOLDER

FILE.bin has the magic 0x67676d66 and version 100 or 101 ("rwkv.cpp file format"): sizes, then
tensors in any order, with the shortest stride first. The folder gets config.json with the fields of
the published class, model.safetensors in F32 with its names, and a tokenizer.json with a token per
byte, because these models were trained on bytes. RWKV-4, 5.2 and 6 differ by the names of their
tensors. Q5_0, Q5_1 and F16 become the F32 values that they have. The script needs only Python.

rwkv.cpp stores decays as its recurrence needs them: -exp(d) for RWKV-4 and exp(-exp(d)) for RWKV-5,
where d is the published parameter. The compressed factors and decays of RWKV-6 are transposed."""
import array
import json
import math
import pathlib
import struct
import sys

MAGIC, QK = 0x67676D66, 32
NAMES = {"emb.": "rwkv.embeddings.", "ln_out.": "rwkv.ln_out.", ".ln0.": ".pre_ln.", ".att.": ".attention.", ".ffn.": ".feed_forward."}
LONG = {"k": "key", "v": "value", "r": "receptance", "g": "gate"}


def f16(data):
    return list(struct.unpack(f"<{len(data) // 2}e", data))


def f32(data):
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def q5(data, has_min):
    """Return the values of Q5_1, or of Q5_0: per 32 values a scale, a minimum or none, 32 high bits
    and 16 bytes with the low bits of two values each."""
    out, n_head = [], 8 if has_min else 6
    for at in range(0, len(data), n_head + 16):
        scale, least = f16(data[at:at + 4]) if has_min else (*f16(data[at:at + 2]), 0)
        high, = struct.unpack_from("<I", data, at + n_head - 4)
        low = data[at + n_head:at + n_head + 16]
        code = [*(b & 15 for b in low), *(b >> 4 for b in low)]
        code = [c | (high >> i & 1) << 4 for i, c in enumerate(code)]
        out += [c * scale + least for c in code] if has_min else [(c - 16) * scale for c in code]
    return out


# type: (values per block, bytes per block, decoder)
TYPES = {0: (1, 4, f32), 1: (1, 2, f16), 7: (QK, 22, lambda d: q5(d, False)), 8: (QK, 24, lambda d: q5(d, True))}


def read(data):
    """Return the sizes (vocabulary, width, layers) and the tensors {name: (shape, values)}."""
    magic, version, *sizes, _ = struct.unpack_from("<6i", data)
    if magic != MAGIC or version not in (100, 101):
        sys.exit(f"rwkv_cpp.py: expected magic {MAGIC:#x} and version 100 or 101, got {magic:#x} and {version}")
    tensors, at = {}, 24
    while at < len(data):
        n_dim, n_name, kind = struct.unpack_from("<3i", data, at)
        at += 12
        shape = struct.unpack_from(f"<{n_dim}i", data, at)[::-1]
        at += 4 * n_dim
        name, at = data[at:at + n_name].decode(), at + n_name
        n_block, n_byte, decode = TYPES[kind]
        end = at + math.prod(shape) // n_block * n_byte
        tensors[name] = shape, decode(data[at:end])
        at = end
    return sizes, tensors


def turned(shape, values):
    """Exchange the last two dimensions."""
    *parts, n, k = shape
    return (*parts, k, n), [values[p * n * k + i * k + j] for p in range(math.prod(parts)) for j in range(k) for i in range(n)]


def published(tensors):
    """Return the tensors with the names, shapes and values of the published classes, and the version."""
    version = 6 if any("time_maa" in n for n in tensors) else 5 if any("ln_x" in n for n in tensors) else 4
    out = {}
    for name, (shape, values) in tensors.items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        name = name.replace("blocks.", "rwkv.blocks.", 1) if name.startswith("blocks.") else name
        if ".time_mix_" in name:
            name = name[:-1] + LONG[name[-1]]
        if name.endswith("time_decay") and version == 4:
            values = [math.log(-v) for v in values]
        elif name.endswith("time_decay") and version == 5:
            values = [math.log(-math.log(v)) for v in values]
        if name.endswith(("maa_w1", "maa_w2", "decay_w1", "decay_w2")):
            shape, values = turned(shape, values)
        out[name] = shape, values
    return out, version


def write_tokenizer(folder):
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    char = {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
                 byte_fallback=False, ignore_merges=False, vocab={char[b]: b for b in range(256)}, merges=[])
    (folder / "tokenizer.json").write_text(json.dumps(dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None,
                                                           pre_tokenizer=level, post_processor=None, decoder=level, model=model)), encoding="utf-8")


def write_weights(path, tensors):
    header, at = {}, 0
    for name, (shape, values) in tensors.items():
        header[name] = dict(dtype="F32", shape=list(shape), data_offsets=[at, at + 4 * len(values)])
        at += 4 * len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            data = array.array("f", values)
            if sys.byteorder == "big":
                data.byteswap()
            file.write(data.tobytes())


def convert(source, folder):
    (n_vocab, d, n_layer), raw = read(pathlib.Path(source).read_bytes())
    tensors, version = published(raw)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(architectures=["RwkvForCausalLM"], model_type="rwkv" if version == 4 else f"rwkv{version}", vocab_size=n_vocab, hidden_size=d,
                  num_hidden_layers=n_layer, intermediate_size=tensors["rwkv.blocks.0.feed_forward.key.weight"][0][0],
                  layer_norm_epsilon=1e-5, rescale_every=0, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0)
    if version > 4:
        config["head_size"] = raw["blocks.0.att.time_faaaa"][0][1]
    if version == 5:
        config["head_size_divisor"] = 1  # rwkv.cpp's epsilon of the norm of heads is 1e-5
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_tokenizer(folder)
    write_weights(folder / "model.safetensors", tensors)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: rwkv_cpp.py FILE.bin FOLDER")
    convert(*sys.argv[1:])
