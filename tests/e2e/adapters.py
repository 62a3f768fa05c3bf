#!/usr/bin/env python3
"""Goal: a server with LoRA adapters answers each request with the adapter that its `model` names,
as without other requests. Method: random adapters in PEFT's format for the bundled model and for a
golden model, whose merged weights give the expected answers.

Environment: QUOTH the program, QUOTH_ROOT the repository. The script prints "ok NAME" or "FAIL
NAME: why" per test. Arguments are filters for test names."""
import array
import concurrent.futures
import json
import os
import random
import shutil
import struct
import subprocess

from server import MODEL, QUOTH, ROOT, TMP, Server, check, run

GOLDEN = os.path.join(ROOT, "tests", "golden", "llama3")
SEVEN = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
TINY = {"self_attn.q_proj": (256, 256), "self_attn.k_proj": (128, 256), "self_attn.v_proj": (128, 256), "self_attn.o_proj": (256, 256),
        "mlp.gate_proj": (512, 256), "mlp.up_proj": (512, 256), "mlp.down_proj": (256, 512)}
PROMPTS = ["Once upon a time", "One day, a little girl named Lily found a needle in her room. She", "The big dog"]


def write_safetensors(path, tensors):
    """Write tensors {name: (dtype, shape, bytes)}."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    return {name: (t["dtype"], t["shape"], raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in header.items() if name != "__metadata__"}


def adapter(name, shapes, n_layer, rank=8, seed=1, size=0.05, dtype="F32", **config):
    """Write a random adapter. Return its folder, and {module: (a, b)} as lists of rows."""
    rng, folder, tensors, values = random.Random(seed), os.path.join(TMP, name), {}, {}
    os.makedirs(folder, exist_ok=True)
    for layer in range(n_layer):
        for part, (n_out, k) in shapes.items():
            module = f"model.layers.{layer}.{part}"
            for which, rows, columns in (("lora_A", rank, k), ("lora_B", n_out, rank)):
                v = array.array("f", (rng.uniform(-size, size) for _ in range(rows * columns)))
                data = v.tobytes() if dtype == "F32" else b"".join(v.tobytes()[i + 2:i + 4] for i in range(0, 4 * len(v), 4))
                tensors[f"base_model.model.{module}.{which}.weight"] = (dtype, [rows, columns], data)
                values.setdefault(module, []).append([v[i * columns:(i + 1) * columns] for i in range(rows)])
    write_safetensors(os.path.join(folder, "adapter_model.safetensors"), tensors)
    with open(os.path.join(folder, "adapter_config.json"), "w") as f:
        json.dump({"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 2 * rank, "lora_dropout": 0.05, "bias": "none",
                   "target_modules": sorted({m.rsplit(".", 1)[1] for m in shapes}), "base_model_name_or_path": "x", "inference_mode": True,
                   "use_rslora": False, "use_dora": False, "init_lora_weights": True, "modules_to_save": None, "rank_pattern": {},
                   "alpha_pattern": {}, **config}, f)
    return folder, values


def merged(folder, values, scale):
    """Write a copy of the golden model with the adapter in its weights."""
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("*.gguf", "*.f32", "*.i32"))
    path = os.path.join(folder, "model.safetensors")
    tensors = read_safetensors(path)
    for module, (a, b) in values.items():
        dtype, (n_out, k), data = tensors[module + ".weight"]
        w = array.array("f", data)
        for i in range(n_out):
            for r, by in enumerate(b[i]):
                for j in range(k):
                    w[i * k + j] += scale * by * a[r][j]
        tensors[module + ".weight"] = (dtype, [n_out, k], w.tobytes())
    write_safetensors(path, tensors)


def ask(s, model, prompt, **more):
    """Return ids and logprobs of a greedy answer, and the number of cached tokens."""
    status, _, body = s.ask("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 12, "temperature": 0, "logprobs": 2, "ignore_eos": True,
                                                        "return_token_ids": True, **({"model": model} if model else {}), **more})
    check(status == 200, body)
    check(not model or body["model"] == model, body)
    choice = body["choices"][0]
    return choice["token_ids"], choice["logprobs"]["token_logprobs"], body["usage"].get("prompt_tokens_details", {}).get("cached_tokens")


def fails(words, sentence, status=1):
    r = subprocess.run([QUOTH, *words], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    check(r.returncode == status and sentence in r.stderr and r.stderr.count("\n") <= 2, f"{r.returncode}: {r.stderr}")


def names():
    """--lora-modules adds models, whose parent is the model"""
    one, two = adapter("one", TINY, 6, seed=1)[0], adapter("two", {"self_attn.v_proj": TINY["self_attn.v_proj"]}, 6, rank=3, seed=2, size=0.3)[0]
    s = Server("--enable-lora", "--lora-modules", f"one={one}", f"two={two}", "--max-lora-rank", "64")
    try:
        models = s.ask("GET", "/v1/models")[2]["data"]
        check([(m["id"], m["root"], m["parent"]) for m in models] ==
              [("quoth-tiny", "quoth-tiny", None), ("one", one, "quoth-tiny"), ("two", two, "quoth-tiny")], models)
        check(s.ask("GET", "/v1/models/two")[2] == models[2])
        status, _, body = s.ask("POST", "/v1/completions", {"prompt": "a", "model": "three"})
        check(status == 404 and body["error"]["param"] == "model", body)
        answers = [[ask(s, m, p, cache_salt=f"{m}{p}")[:2] for m in (None, "one", "two")] for p in PROMPTS]
        check(all(x != y for row in answers for x, y in ((row[0], row[1]), (row[0], row[2]), (row[1], row[2]))))
        chat = [s.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0,
                                                       "logprobs": True, **m})[2]["choices"][0]["logprobs"] for m in ({}, {"model": "one"})]
        check(chat[0] != chat[1])
        vectors = [s.ask("POST", "/v1/embeddings", {"input": "Hello", **m})[2]["data"][0]["embedding"] for m in ({}, {"model": "one"})]
        check(vectors[0] != vectors[1])
    finally:
        s.stop()


def neighbours():
    """Requests with other adapters do not change the bits of an answer."""
    one = adapter("n-one", TINY, 6, seed=3)[0]
    two = adapter("n-two", {"mlp.down_proj": TINY["mlp.down_proj"]}, 6, rank=5, seed=4, dtype="BF16")[0]
    three = adapter("n-three", {"self_attn.q_proj": TINY["self_attn.q_proj"], "mlp.up_proj": TINY["mlp.up_proj"]}, 3, rank=16, seed=5,
                    use_rslora=True)[0]
    models = ["quoth-tiny", "one", "two", "three"]
    s = Server("--lora-modules", f"one={one}", f"two={two}", "--lora-modules", f"three={three}", "--max-num-batched-tokens", "16")
    try:
        cases = [(m, p) for p in PROMPTS for m in models] * 2
        alone = [ask(s, m, p, cache_salt=f"{i}")[:2] for i, (m, p) in enumerate(cases)]
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            for _ in range(3):
                together = list(pool.map(lambda c: ask(s, *c)[:2], cases))
                check(together == alone)
    finally:
        s.stop()


def prefixes():
    """A cached prefix is not found by a request with another adapter"""
    one, two = adapter("p-one", TINY, 6, seed=6)[0], adapter("p-two", TINY, 6, seed=7)[0]
    s = Server("--lora-modules", f"one={one}", f"two={two}", "--block-size", "4", "--enable-prompt-tokens-details")
    try:
        answers = {}
        for turn in range(2):
            for model in ("quoth-tiny", "one", "two"):
                ids, logprobs, cached = ask(s, model, PROMPTS[1])
                check((cached or 0) > 0 if turn else not cached, (model, turn, cached))
                check(answers.setdefault(model, (ids, logprobs)) == (ids, logprobs))
    finally:
        s.stop()


def equals_merged():
    """Answers with an adapter are those of merged weights, in a server and with run --lora"""
    shapes = {m: None for m in SEVEN}
    for name, (_, shape, _) in read_safetensors(os.path.join(GOLDEN, "model.safetensors")).items():
        if name.startswith("model.layers.0.") and len(shape) == 2:
            shapes[name[len("model.layers.0."):-len(".weight")]] = tuple(shape)
    folder, values = adapter("m", shapes, 3, rank=4, seed=8, size=0.2)
    merged(os.path.join(TMP, "merged"), values, 2)
    f32 = ("--kv-cache-dtype", "float32")
    found = []
    for model, options in ((GOLDEN, ("--lora-modules", f"m={folder}")), (os.path.join(GOLDEN, "model.gguf"), ("--lora-modules", f"m={folder}")),
                           (GOLDEN, ("--lora", folder)), (os.path.join(TMP, "merged"), ())):
        s = Server(*options, *f32, model=model)
        try:
            found.append([ask(s, "m" if "--lora-modules" in options else None, p)[:2] for p in PROMPTS])
        finally:
            s.stop()
    for got in found[:3]:
        for (ids, logprobs), (want_ids, want) in zip(got, found[3]):
            check(ids == want_ids and all(abs(x - y) <= 1e-4 for x, y in zip(logprobs, want)), (logprobs, want))
    answers = [subprocess.run([QUOTH, "run", model, PROMPTS[0], "--raw", "--temperature", "0", "-n", "12", "--json", "--ignore-eos", *f32, *more],
                              capture_output=True, text=True, timeout=120, check=True).stdout
               for model, more in ((GOLDEN, ("--lora", folder)), (os.path.join(TMP, "merged"), ()), (GOLDEN, ()))]
    ids = [json.loads(a)["token_ids"] for a in answers]
    check(ids[0] == ids[1] and ids[0] != ids[2], ids)


def batch():
    """A line of a batch file selects its adapter, also if a flag in vLLM's JSON form gives the
    adapter"""
    one, lines, out = adapter("b-one", TINY, 6, seed=10, size=0.1)[0], os.path.join(TMP, "in.jsonl"), os.path.join(TMP, "out.jsonl")
    with open(lines, "w") as f:
        for i, model in enumerate(("one", "other", "one", "quoth-tiny")):
            print(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                              "body": {"model": model, "prompt": PROMPTS[0], "max_tokens": 8, "temperature": 0, "logprobs": 1}}), file=f)
    subprocess.run([QUOTH, "batch", MODEL, "-i", lines, "-o", out, "--lora-modules", json.dumps({"name": "one", "path": one})],
                   capture_output=True, timeout=120, check=True)
    with open(out) as f:
        rows = sorted((json.loads(line) for line in f), key=lambda r: r["custom_id"])
    found = [r["response"]["body"]["choices"][0]["logprobs"]["token_logprobs"] for r in rows]
    check(found[0] == found[2] != found[1] == found[3], found)


def refused():
    """A server does not start with an invalid adapter, and its error has the reason"""
    good, dora = adapter("good", TINY, 1, seed=9)[0], adapter("dora", TINY, 1, seed=9, use_dora=True)[0]
    wide = adapter("wide", {"self_attn.q_proj": (256, 128)}, 1)[0]
    pickle = adapter("pickle", TINY, 1)[0]
    os.rename(os.path.join(pickle, "adapter_model.safetensors"), os.path.join(pickle, "adapter_model.bin"))
    for words, sentence in (((f"a={dora}",), "use_dora: not supported yet (DoRA)"), ((f"a={wide}",), "expected [8, 256], got [8, 128]"),
                            ((f"a={pickle}",), "could run code"), ((f"a={MODEL}",), "expected a folder"),
                            ((f"a={good}", f"a={good}"), "got two for"), ((f"quoth-tiny={good}",), "must not be the name of an adapter, got")):
        fails(["serve", MODEL, "--port", "0", "--no-peaks", "--lora-modules", *words], sentence)
    fails(["serve", MODEL, "--port", "0", "--no-peaks", "--served-model-name", "*", "--lora-modules", f"a={good}"], "served-model-name")
    fails(["serve", MODEL, "--lora-modules", "a"], "must be NAME=PATH", 2)
    fails(["run", MODEL, "hello", "--lora", dora], "use_dora")
    fails(["serve", MODEL, "--check", "--lora-modules", f"a={dora}"], "use_dora")


if __name__ == "__main__":
    run([names, neighbours, prefixes, equals_merged, batch, refused])
