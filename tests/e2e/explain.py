#!/usr/bin/env python3
"""Goal: `quoth inspect --explain` gives the use of every key and every tensor of a file. Method:
compare its JSON with the file's own lists, read without quoth. Changed copies of golden folders
have an unknown field, a rejected field, tensors without a use and tensors that an architecture
leaves out."""
import json
import os
import shutil
import struct
import subprocess

from server import QUOTH, ROOT, TMP, check, run

GOLDEN = os.path.join(ROOT, "tests", "golden")


def explain(folder, *more, status=0):
    ran = subprocess.run([QUOTH, "inspect", "--explain", folder, *more], capture_output=True, text=True, timeout=120)
    check(ran.returncode == status, f"status {ran.returncode}: {ran.stderr}")
    return ran


def explained(folder, *more, status=0):
    """Return the answer, its keys by name and its tensors by name."""
    answer = json.loads(explain(folder, "--json", *more, status=status).stdout)
    return answer, {k["name"]: k for k in answer["keys"]}, {t["name"]: t for t in answer.get("tensors", [])}


def read_safetensors(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        return json.loads(f.read(n)), f.read()


def copy(name, fields=None, tensors=None):
    """Return a copy of a golden folder with other fields of config.json, and with further tensors: zeros
    of a shape in F32."""
    folder = os.path.join(TMP, f"{name}-{len(os.listdir(TMP))}")
    shutil.copytree(os.path.join(GOLDEN, name), folder, ignore=shutil.ignore_patterns("*.gguf", "*.f32", "*.i32"))
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    with open(path, "w") as f:
        json.dump({**config, **(fields or {})}, f)
    path = os.path.join(folder, "model.safetensors")
    head, data = read_safetensors(path)
    for tensor, shape in (tensors or {}).items():
        size = 4
        for n in shape:
            size *= n
        head[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(size)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    return folder


def fields():
    """each field of config.json is used, or ignored with a reason; a field with a warning is
    unknown"""
    folder = copy("llama3", {"new_field": 7})
    answer, keys, _ = explained(folder)
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    for name, value in config.items():
        if value is None:
            continue
        if name == "rope_scaling":
            check(all(f"rope_parameters.{k}" in keys for k in value), "rope_scaling")
        else:
            check((f"rope_parameters.{name}" if name == "rope_theta" else name) in keys, f"{name} is missing")
    check(all(k["by"] for k in answer["keys"]), "a key has no part and no reason")
    check(keys["hidden_size"] == {"name": "hidden_size", "use": "used", "by": "width of the layers"})
    check(keys["initializer_range"]["use"] == "ignored" and keys["initializer_range"]["by"] == "training")
    check(keys["new_field"]["use"] == "unknown")
    check(answer["loads"] and len(keys) == len(answer["keys"]), "a key is listed twice")


def gguf_keys():
    """each key of a GGUF is listed once, and a key with one accepted value is checked"""
    path = os.path.join(GOLDEN, "qwen2", "model.gguf")
    _, keys, tensors = explained(path)
    own = json.loads(subprocess.run([QUOTH, "inspect", "--json", path], capture_output=True, timeout=120).stdout)
    check(set(keys) == set(own["metadata"]), str(set(keys) ^ set(own["metadata"])))
    check(set(tensors) == {t["name"] for t in own["tensors"]})
    check(keys["general.file_type"]["use"] == "ignored" and keys["tokenizer.ggml.tokens"]["by"] == "the tokenizer")
    check(keys["qwen2.attention.head_count"]["by"] == "heads of attention")
    _, _, tensors = explained(os.path.join(GOLDEN, "llama3", "model.gguf"), "--rope-scaling", "none")
    check("--rope-scaling" in tensors["rope_freqs.weight"]["by"], str(tensors["rope_freqs.weight"]))
    _, keys, _ = explained(copy("llama3", {"is_causal": True}))
    check(keys["is_causal"]["use"] == "checked" and "must be 1" in keys["is_causal"]["by"])


def refused_keys():
    """a rejected key has the reason, also if the file lacks the key, and the exit status is 1"""
    answer, keys, tensors = explained(copy("qwen3", {"hidden_act": "mish"}), status=1)
    check(not answer["loads"] and "hidden_act" in answer["error"])
    check(keys["hidden_act"]["use"] == "refused" and '"mish"' in keys["hidden_act"]["by"])
    check(keys["hidden_size"]["use"] == "used" and not tensors)
    check(sum(k["use"] == "refused" for k in answer["keys"]) == 1)
    _, keys, _ = explained(os.path.join(GOLDEN, "qwen3"), "--rope-scaling", '{"rope_type":"yarn"}', status=1)
    check(keys["--rope-scaling: factor"]["use"] == "refused", str(keys))
    ran = explain(copy("qwen3", {"quantization_config": {"quant_method": "new"}}), status=1)
    check("quantization_config.quant_method" in ran.stdout and "does not load" in ran.stdout, ran.stdout)


def refused_tokenizers():
    """a tokenizer or a sampling value that quoth run rejects has its reason, and the exit status is 1"""
    for name, word, content in (("tokenizer.json", "tokenizer.json", "{"), ("generation_config.json", "top_p", '{"top_p": 9}'),
                                ("generation_config.json", "temperature", '{"temperature": -1}'),
                                ("generation_config.json", "max_new_tokens: must be", '{"max_new_tokens": 0}'),
                                ("generation_config.json", "max_new_tokens: must be", '{"max_new_tokens": "9"}'),
                                ("generation_config.json", "min_new_tokens: must be", '{"min_new_tokens": -1}'),
                                ("generation_config.json", "min_new_tokens: must be", '{"min_new_tokens": 2147483648}')):
        folder = copy("llama3")
        with open(os.path.join(folder, name), "w") as f:
            f.write(content)
        answer, _, _ = explained(folder, status=1)
        check(not answer["loads"] and word in answer["error"], str(answer)[:300])
    with open(os.path.join(GOLDEN, "llama3", "model.gguf"), "rb") as f:
        data = f.read()
    for was, now in ((b"gpt2", b"gpt3"), (b"gpt-2", b"gpt-z")):
        at = data.find(was, data.find(b"tokenizer.ggml."))
        check(at > 0, str(was))
        path = os.path.join(TMP, "changed.gguf")
        with open(path, "wb") as f:
            f.write(data[:at] + now + data[at + len(now):])
        answer, _, _ = explained(path, status=1)
        check(not answer["loads"] and now.decode() in answer["error"], str(answer)[:300])


def tensors_of_a_folder():
    """each tensor is listed once with its form, and the bytes are those of the values"""
    folder = os.path.join(GOLDEN, "llama3")
    answer, _, tensors = explained(folder)
    head, _ = read_safetensors(os.path.join(folder, "model.safetensors"))
    head.pop("__metadata__", None)
    check(set(tensors) == set(head) and len(answer["tensors"]) == len(head))
    check(answer["bytes"] == sum(b - a for a, b in (t["data_offsets"] for t in head.values())))
    want = {"use": "used", "form": "matrix blk.1.attn_q", "type": "F32", "arithmetic": "f32", "bytes": 64 * 64 * 4}
    name = "model.layers.1.self_attn.q_proj.weight"
    check(tensors[name] == {"name": name, **want}, str(tensors[name]))
    check(tensors["model.embed_tokens.weight"]["form"] == "table token_embd, and the head")
    check(tensors["model.norm.weight"]["form"] == "vector")


def kv_bytes_per_token():
    """the KV bytes per token are those of the layers that have keys and values; a model that cannot run has none"""
    for name, widths in (("llama3", [2 * 16] * 3), ("gemma4", [8, 16, 8, 16]), ("falcon", [2 * 8] * 2)):  # of layers: values of k of a token
        for path in (os.path.join(GOLDEN, name), os.path.join(GOLDEN, name, "model.gguf")):
            ran = subprocess.run([QUOTH, "inspect", "--json", path], capture_output=True, timeout=120)
            got = json.loads(ran.stdout)["kv_bytes_per_token"]
            check(got == sum(widths) * 2 * 2, f"{path}: {got}")
    ran = subprocess.run([QUOTH, "inspect", "--json", "--shape", "llama-1b"], capture_output=True, timeout=120)
    check(json.loads(ran.stdout)["kv_bytes_per_token"] == 16 * 8 * 64 * 2 * 2, str(ran.returncode))
    ran = subprocess.run([QUOTH, "inspect", "--json", copy("qwen3", {"hidden_act": "mish"})], capture_output=True, timeout=120)
    check(ran.returncode == 0 and json.loads(ran.stdout)["kv_bytes_per_token"] == 0, str(ran))


def tensors_quantized_at_load():
    """--quantization changes type, bytes and arithmetic of the matrices, but not of norms"""
    folder = os.path.join(GOLDEN, "llama3")
    _, _, plain = explained(folder)
    answer, _, tensors = explained(folder, "--quantization", "Q8_0")
    for name, t in tensors.items():
        matrix = "norm" not in name
        check((t["type"] == "Q8_0") == matrix and t["bytes"] * (128 if matrix else 34) == plain[name]["bytes"] * 34, name)
        check(not matrix or t["arithmetic"].endswith("int8"), name)
    memory = json.loads(subprocess.run([QUOTH, "inspect", "--json", folder, "--quantization", "Q8_0"], capture_output=True, timeout=120).stdout)
    norms = sum(t["bytes"] for name, t in tensors.items() if "norm" in name)
    check(answer["bytes"] - norms == sum(m["bytes"] for m in memory["memory"]))


def tensors_of_quantized_folders():
    """codes become a matrix, to which their scales belong; each expert is counted"""
    _, _, tensors = explained(os.path.join(GOLDEN, "forms", "gptq"))
    check(tensors["model.layers.0.mlp.up_proj.qweight"]["form"] == "matrix blk.0.ffn_up, from codes and scales")
    for suffix in ("scales", "qzeros", "g_idx"):
        t = tensors[f"model.layers.0.mlp.up_proj.{suffix}"]
        check(t["form"] == "part of blk.0.ffn_up" and t["bytes"] == 0, str(t))
    plain = copy("llama3", {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}})
    check('no matrix is quantized by "gptq"' in explain(plain).stderr, "a quantization_config without quantized weights")
    check("no matrix" not in explain(os.path.join(GOLDEN, "forms", "gptq")).stderr, "gptq")
    _, _, tensors = explained(os.path.join(GOLDEN, "qwen3moe"))
    experts = [t for name, t in tensors.items() if ".experts." in name and name.startswith("model.layers.0.")]
    check(len(experts) == 15 and all(t["form"].startswith("expert of blk.0.ffn_") and t["bytes"] == 3072 for t in experts), str(experts[:2]))


def tensors_left_out():
    """an ignored tensor has the reason; a tensor without a use, a renamed one and one of another shape are rejected"""
    table = "model.layers.0.self_attn.rotary_emb.inv_freq"
    _, _, tensors = explained(copy("llama3", tensors={table: [8]}))
    check(tensors[table]["use"] == "ignored" and "rope" in tensors[table]["by"], str(tensors[table]))
    shared, image = "model.layers.5.self_attn.k_proj.weight", "model.vision_tower.x.weight"
    _, _, tensors = explained(copy("gemma4", tensors={shared: [16, 24]}))
    check(tensors[shared]["by"] == "layer 5 uses the keys and values of layer 3", str(tensors[shared]))
    _, _, tensors = explained(copy("mistral3", tensors={image: [4, 4]}))
    check("image" in tensors[image]["by"] and tensors[image]["bytes"] == 0, str(tensors[image]))
    answer, _, _ = explained(copy("gemma4", tensors={image: [4, 4]}), status=1)
    check(image in answer["error"], answer["error"])
    wrong = "model.layers.0.self_attn.gate.weight"
    answer, _, tensors = explained(copy("llama3", tensors={wrong: [4, 4]}), status=1)
    check(wrong in answer["error"] and [n for n, t in tensors.items() if t["use"] == "refused"] == [wrong])
    folder, renamed = copy("llama3"), "model.layers.0.mlp.gate_prox.weight"
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as f:
        data = f.read()
    with open(path, "wb") as f:
        f.write(data.replace(b"0.mlp.gate_proj.", b"0.mlp.gate_prox."))
    answer, _, tensors = explained(folder, status=1)
    check("layers.0.mlp.gate_proj.weight is missing; a similar tensor: " + renamed in answer["error"], answer["error"])
    check(tensors[renamed]["use"] == "refused" and "gate_proj.weight, which is missing" in tensors[renamed]["by"], str(tensors[renamed]))
    answer, _, tensors = explained(copy("llama3", {"intermediate_size": 90}), status=1)
    wrong = [n for n, t in tensors.items() if t["use"] == "refused"]
    check(len(wrong) == 1 and wrong[0] in answer["error"] and "(intermediate_size, hidden_size)" in answer["error"], answer["error"])
    answer, _, _ = explained(copy("llama3", {"num_hidden_layers": 1}), status=1)
    check("model.layers.1." in answer["error"] and "layer 1" in answer["error"] and "layers is 1" in answer["error"], answer["error"])
    _, _, tensors = explained(copy("llama3", {"intermediate_size": 97}), status=1)
    check(tensors["model.embed_tokens.weight"]["use"] == "used")
    check(tensors["model.layers.2.mlp.up_proj.weight"] == {"name": "model.layers.2.mlp.up_proj.weight", "use": "unknown",
                                                           "by": "loading ended before it", "type": "F32", "bytes": 0})


def ends():
    """the ends of a text have the place that names each of them, and a folder has no other ends"""
    folder = copy("qwen3")
    tokenizer = os.path.join(folder, "tokenizer.json")
    with open(tokenizer) as f:
        pieces = json.load(f)
    marks = ["<|endoftext|>", "<|eot_id|>", "<|im_end|>"]
    first = 1 + max([t["id"] for t in pieces["added_tokens"]] + list(pieces["model"]["vocab"].values()))
    pieces["added_tokens"] += [{"id": first + i, "content": m, "special": True} for i, m in enumerate(marks)]
    with open(tokenizer, "w") as f:
        json.dump(pieces, f)
    for generation, template, want in (
            ({"eos_token_id": [first + 2, first]}, None, {first: "generation_config.json", first + 2: "generation_config.json"}),
            ({}, "{{ '<|im_end|>' }}", {first + 1: "config.json", first + 2: "chat template"})):
        with open(os.path.join(folder, "generation_config.json"), "w") as f:
            json.dump(generation, f)
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({**config, "eos_token_id": first + 1}, f)
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            json.dump({"chat_template": template} if template else {}, f)
        found = explained(folder)[0]["ends"]
        check({e["id"] for e in found} == set(want), str(found))
        check(all(want[e["id"]] in e["by"] and e["token"] == marks[e["id"] - first] for e in found), str(found))
    text = explain(folder).stdout
    check("ends of a text:" in text and f"{first + 2}  <|im_end|>" in text, text)
    folder = copy("llama3", {"eos_token_id": 258})
    own = os.path.join(folder, "own.jinja")
    for name, text in (("generation_config.json", '{"eos_token_id": 258}'), ("tokenizer_config.json", "{}"), ("own.jinja", "{{ messages[0].content }}<|end|>")):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    for more, reason in (((), "length"), (("--chat-template", own), "stop")):
        ran = subprocess.run([QUOTH, "run", folder, "hi", *(more or ("--raw",)), "--temperature", "0", "-n", "3", "--logit-bias", "259:100", "--json"],
                             capture_output=True, text=True, timeout=120)
        check(json.loads(ran.stdout or "{}").get("finish_reason") == reason, f"{more}: {ran.stdout} {ran.stderr}")


def random_weights():
    """the tensors of random weights are explained without generating them"""
    answer, _, tensors = explained("--shape=llama-8b")
    check(answer["loads"] and all(t["use"] == "used" for t in tensors.values()), str(answer)[:300])
    check(tensors["output.weight"]["form"] == "matrix output" and tensors["blk.1.attn_k.weight"]["bytes"] > 0, str(tensors["output.weight"]))


def text():
    """the table has one row for all layers, and one per tensor with --all"""
    folder = os.path.join(GOLDEN, "llama3")
    lines = explain(folder).stdout.splitlines()
    row = next(line.split() for line in lines if line.startswith("model.layers.*.self_attn.q_proj.weight"))
    check(row[1:] == ["3", "F32", str(3 * 64 * 64 * 4), "f32", "matrix", "blk.*.attn_q"], str(row))
    check(any(line.startswith("tensors: 29 used") for line in lines))
    check(sum("self_attn.q_proj.weight" in line for line in explain(folder, "--all").stdout.splitlines()) == 3)


run([fields, gguf_keys, refused_keys, refused_tokenizers, tensors_of_a_folder, kv_bytes_per_token, tensors_quantized_at_load, tensors_of_quantized_folders, tensors_left_out, ends, random_weights, text])
