#!/usr/bin/env python3
"""Goal: a model of encoder and decoder gives transformers' answers through every interface, and
rejects requests that it cannot compute. Method: serve the golden models (tests/golden/cross.py)
with f32 arithmetic, and compare with their greedy.json: tokens of prompts, greedy answers,
beams."""
import concurrent.futures
import json
import os
import random
import struct
import subprocess
import sys

from server import QUOTH, ROOT, SLOW, TMP, check, run, serving_model

GOLDEN = os.path.join(ROOT, "tests", "golden", "cross")
F32 = ["--activation-dtype", "f32", "--kv-cache-dtype", "float32"]
NAMES = ("t5", "t5/model.gguf", "mt5", "mt5/model.gguf", "bart")
EOS = (1, 2)  # end token of T5, of BART
N = 20  # tokens of an answer in greedy.json


def serving(name, *more):
    return serving_model(os.path.join(GOLDEN, name), *F32, *more)


def golden(name):
    with open(os.path.join(GOLDEN, name.split("/")[0], "greedy.json")) as f:
        return json.load(f)


def complete(s, prompt, **more):
    """Return the answer to a greedy completion."""
    status, _, answer = s.ask("POST", "/v1/completions", {"prompt": prompt, "max_tokens": N, "temperature": 0, **more})
    check(status == 200, str(answer))
    return answer


def right(choice, case):
    """Check the text and the reason of the end."""
    check(choice["text"].strip() == case["answer"].strip(), f"{choice['text']!r}, expected {case['answer']!r}")
    ended = case["greedy"][-1] in EOS
    check(choice["finish_reason"] == ("stop" if ended else "length"), f"{choice}, {case['greedy']}")


def answers():
    """greedy answers and tokens are those of transformers"""
    for name in NAMES:
        cases = golden(name)
        texts = [c["text"] for c in cases]
        with serving(name) as s:
            for c in cases:
                tokens = s.ask("POST", "/tokenize", {"prompt": c["text"]})[2]["tokens"]
                check(tokens == c["ids"], f"{name} {c['text']!r}: {tokens}, expected {c['ids']}")
                answer = complete(s, c["text"], return_token_ids=True)
                right(answer["choices"][0], c)
                check(answer["usage"]["prompt_tokens"] == len(c["ids"]), str(answer["usage"]))
                ids = [i for i in answer["choices"][0]["token_ids"] if i not in EOS]
                check(ids == [i for i in c["greedy"] if i not in EOS], f"{ids}, expected {c['greedy']}")
                right(complete(s, c["ids"])["choices"][0], c)
            for choice, c in zip(complete(s, texts)["choices"], cases):
                right(choice, c)
            for i, choice in enumerate(complete(s, texts, n=2)["choices"]):
                right(choice, cases[i // 2])
            beams(s, cases)


def beams(s, cases):
    """Beam search gives transformers' answers."""
    for c in cases:
        answer = complete(s, c["text"], use_beam_search=True, best_of=4, length_penalty=1.5, early_stopping=True, return_token_ids=True)
        got = [i for i in answer["choices"][0]["token_ids"] if i not in EOS]
        check(got == [i for i in c["beams"] if i not in EOS], f"beams of {c['text']!r}: {got}, expected {c['beams']}")


def sampling():
    """a sampled answer depends on its seed only; a stream has the same text"""
    with serving("t5") as s:
        case = golden("t5")[1]
        how = dict(temperature=1.0, seed=5, n=3)
        alone = [c["text"] for c in complete(s, case["text"], **how)["choices"]]
        check(len(set(alone)) > 1, "all samples are equal")
        many = complete(s, [case["text"]] * 5 + ["x"], **how)["choices"]
        check([c["text"] for c in many[:15]] == alone * 5, "samples depend on their neighbours")
        status, _, data = s.ask("POST", "/v1/completions", {"prompt": case["text"], "max_tokens": N, "temperature": 0, "stream": True})
        pieces = [json.loads(row[6:]) for row in data.decode().split("\n") if row.startswith("data: {")]
        check(status == 200 and "".join(p["choices"][0]["text"] for p in pieces).strip() == case["answer"].strip(), data)
        logprobs = complete(s, case["text"], logprobs=2)["choices"][0]["logprobs"]
        check(len(logprobs["tokens"]) == len([i for i in case["greedy"] if i not in EOS]), str(logprobs))
        regex = complete(s, case["text"], structured_outputs={"regex": "(cat|dog){2}"})["choices"][0]["text"].replace(" ", "")
        check(regex in ("catcat", "catdog", "dogcat", "dogdog"), regex)


def rejections():
    """chats without a template, logprobs of a source, texts that are too long, and pooling are rejected"""
    with serving("t5") as s:
        for body, word in (({"messages": [{"role": "user", "content": "a"}]}, "/v1/completions"),):
            status, _, answer = s.ask("POST", "/v1/chat/completions", body)
            check(status in (400, 501) and word in answer["error"]["message"], str(answer))
        for more in ({"echo": True, "logprobs": 1, "max_tokens": 0}, {"prompt_logprobs": 1}):
            status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "x", **more})
            check(status in (400, 501) and "source" in answer["error"]["message"], str(answer))
        check(complete(s, "x", echo=True)["choices"][0]["text"].startswith("x"))
        status, _, answer = s.ask("POST", "/v1/embeddings", {"input": "x"})
        check(status in (400, 501), str(answer))
        long = "the cat " * 100
        status, _, answer = s.ask("POST", "/v1/completions", {"prompt": long, "max_tokens": 5})
        check(status == 400 and "maximum context length" in answer["error"]["message"], str(answer))
        cut = complete(s, long, truncate_prompt_tokens=20)
        check(cut["choices"][0]["text"] == complete(s, "the cat " * 9 + "the")["choices"][0]["text"], "truncation keeps the first tokens, and the last </s>")
        check(cut["usage"]["prompt_tokens"] == 20, str(cut["usage"]))
    with serving("bart") as s:  # 128 positions for each side
        status, _, answer = s.ask("POST", "/v1/completions", {"prompt": "cat " * 40, "max_tokens": 5})
        check(status == 400 and "maximum context length" in answer["error"]["message"], str(answer))
        usage = complete(s, "cat " * 31, max_tokens=500, ignore_eos=True)["usage"]
        check(usage["prompt_tokens"] == 126 and usage["completion_tokens"] == 126, str(usage))
    r = subprocess.run([QUOTH, "perplexity", os.path.join(GOLDEN, "t5"), os.path.join(ROOT, "README.md")], capture_output=True, text=True)
    check(r.returncode == 1 and "encoder and decoder" in r.stderr, r.stderr)


def chat():
    """with a template, a rendered conversation is the source"""
    case, path = golden("t5")[1], os.path.join(TMP, "chat.jinja")
    with open(path, "w") as f:
        f.write("{{ messages[-1]['content'] }}")
    with serving("t5", "--chat-template", path) as s:
        body = {"messages": [{"role": "user", "content": case["text"]}], "max_tokens": N, "temperature": 0}
        status, _, answer = s.ask("POST", "/v1/chat/completions", body)
        check(status == 200, str(answer))
        check(answer["choices"][0]["message"]["content"].strip() == case["answer"].strip(), str(answer))


def commands():
    """run and batch give the server's answers"""
    cases = golden("mt5")
    model = os.path.join(GOLDEN, "mt5")
    for c in cases:
        r = subprocess.run([QUOTH, "run", model, c["text"], "--raw", "--temperature", "0", "--max-tokens", str(N), *F32], capture_output=True, text=True)
        check(r.returncode == 0 and r.stdout.strip() == c["answer"].strip(), f"{r.stdout!r} {r.stderr}")
    path = os.path.join(TMP, "cross.jsonl")
    with open(path, "w") as f:
        for i, c in enumerate(cases):
            body = {"prompt": c["text"], "max_tokens": N, "temperature": 0}
            f.write(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body}) + "\n")
    r = subprocess.run([QUOTH, "batch", model, "-i", path, "-o", path + ".out", *F32], capture_output=True, text=True)
    check(r.returncode == 0, r.stderr)
    with open(path + ".out") as f:
        rows = {row["custom_id"]: row for row in map(json.loads, f)}
    for i, c in enumerate(cases):
        right(rows[str(i)]["response"]["body"]["choices"][0], c)


def crowd():
    """many requests on few pages give the answers of single requests"""
    cases = golden("mt5")
    texts = [c["text"] for c in cases] * 8
    for more in (["--num-gpu-blocks-override", "12"], ["--num-gpu-blocks-override", "12", "--swap-space", "0.01"]):
        with serving("mt5", "--block-size", "8", "--max-model-len", "80", *more) as s:
            for i, choice in enumerate(complete(s, texts, n=2)["choices"]):
                right(choice, cases[i // 2 % len(cases)])
            check(s.metric("vllm:num_preemptions_total") > 0, "no sequence was preempted")


def make_adapter(name, seed):
    """Write a LoRA adapter for matrices of both sides of t5. Return its folder."""
    folder, r, rank, header, data = os.path.join(TMP, name), random.Random(seed), 4, {}, b""
    os.mkdir(folder)
    for module in ("encoder.block.1.layer.0.SelfAttention.q", "decoder.block.0.layer.1.EncDecAttention.k", "decoder.block.1.layer.1.EncDecAttention.q"):
        for part, shape in (("lora_A", [rank, 24]), ("lora_B", [16, rank])):
            values = struct.pack(f"<{shape[0] * shape[1]}f", *(r.gauss(0, 0.7) for _ in range(shape[0] * shape[1])))
            header[f"base_model.model.{module}.{part}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "adapter_config.json"), "w") as f:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none", "target_modules": ["q", "k"]}, f)
    return folder


def adapters():
    """requests with different adapters in one step get the answers of single requests"""
    modules = [f"{name}={make_adapter(name, seed)}" for seed, name in enumerate(("one", "two"))]
    texts = [c["text"] for c in golden("t5")]
    asked = [(m, t) for t in texts for m in (None, "one", "two")]

    def ask(s, model, text):
        return complete(s, text, return_token_ids=True, temperature=1.0, seed=3, **({"model": model} if model else {}))["choices"][0]["token_ids"]

    with serving("t5", "--enable-lora", "--lora-modules", *modules) as s:
        alone = [ask(s, *a) for a in asked]
        check(len({tuple(alone[i]) for i in range(3)}) == 3, "the adapters have no effect")
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            for _ in range(4):
                check(list(pool.map(lambda a: ask(s, *a), asked)) == alone, "answers depend on the adapters of others")


PYTHON = """
import json, sys
from quoth import LLM, SamplingParams
cases = json.load(sys.stdin)
with LLM(sys.argv[1], activation_dtype="f32", kv_cache_dtype="float32") as llm:
    outputs = llm.generate([c["text"] for c in cases], SamplingParams(temperature=0, max_tokens=20), use_tqdm=False)
    print(json.dumps([o.outputs[0].text for o in outputs]))
"""


def python():
    """LLM.generate gives the server's answers"""
    cases = golden("t5")
    env = {**os.environ, "QUOTH_LIBRARY": os.path.join(os.path.dirname(QUOTH), "libquoth.so"), "PYTHONPATH": os.path.join(ROOT, "python"),
           "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([sys.executable, "-c", PYTHON, os.path.join(GOLDEN, "t5")], input=json.dumps(cases), env=env, capture_output=True, text=True,
                         timeout=120)
    check(ran.returncode == 0, ran.stderr)
    for got, c in zip(json.loads(ran.stdout), cases):
        check(got.strip() == c["answer"].strip(), f"{got!r}, expected {c['answer']!r}")


run([answers, sampling, rejections, chat, commands, crowd, adapters, *([] if SLOW else [python])])
