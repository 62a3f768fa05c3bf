#!/usr/bin/env python3
"""Goal: clients of llama.cpp's own endpoints work with quoth serve unchanged, also in their errors.
Method: the answers of /completion and /infill are compared with those of OpenAI's completions, whole
and in events. /infill has a model whose vocabulary has the marks of Qwen's code models."""
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

from server import MODEL, ROOT, TMP, check, code_model, first_server, run, serving_model

ASK = "Once upon a time"
main = first_server("--served-model-name", "quoth-tiny", "--max-body-size", "1", "--max-num-batched-tokens", "256")


def failed(answer, status, kind, word):
    """Check a rejection in llama.cpp's form."""
    got, headers, body = answer
    check(got == status and list(body) == ["error"], (got, body))
    check(body["error"]["code"] == status and body["error"]["type"] == kind and word in body["error"]["message"], body)
    check(headers["Content-Type"] == "application/json", str(headers))


def complete(path="/completion", server=main, **fields):
    """Return a whole answer."""
    status, _, body = server.ask("POST", path, {"prompt": ASK, **fields})
    check(status == 200, body)
    return body


def events(path="/completion", server=main, **fields):
    """Return the events of a stream, and its comments."""
    status, headers, text = server.ask("POST", path, {"prompt": ASK, "stream": True, **fields})
    check(status == 200 and headers["Content-Type"].startswith("text/event-stream"), text)
    frames = text.decode().split("\n\n")
    check(frames.pop() == "", text)
    comments = [f for f in frames if f.startswith(":")]
    frames = [f for f in frames if not f.startswith(":")]
    check(all(f.startswith("data: {") for f in frames), text)
    return [json.loads(f[6:]) for f in frames], comments


def texts():
    """texts, tokens and counts are those of completions"""
    for given, fields in (({"n_predict": 12, "temperature": 0}, {"max_tokens": 12, "temperature": 0}),
                          ({"n_predict": 12, "seed": 5}, {"max_tokens": 12, "seed": 5}),
                          ({"n_predict": 60, "temperature": 0, "stop": ["e"]}, {"max_tokens": 60, "temperature": 0, "stop": ["e"]}),
                          ({"max_tokens": 9, "seed": 6, "repeat_penalty": 1.3, "top_k": 9}, {"max_tokens": 9, "seed": 6, "repetition_penalty": 1.3, "top_k": 9})):
        got = complete(return_tokens=True, **given)
        want = main.ask("POST", "/v1/completions", {"prompt": ASK, "return_tokens": True, **fields})[2]
        check(got["content"] == want["choices"][0]["text"] and got["tokens"] == want["choices"][0]["tokens"], (given, got, want))
        check(got["tokens_predicted"] == want["usage"]["completion_tokens"] == got["timings"]["predicted_n"], (got, want))
        check(got["tokens_evaluated"] == want["usage"]["prompt_tokens"], (got, want))
        check(got["stop_type"] == ("limit" if want["choices"][0]["finish_reason"] == "length" else "word" if "stop" in given else "eos"), got)
        pieces, _ = events(return_tokens=True, **given)
        check("".join(p["content"] for p in pieces) == got["content"], (pieces, got))
        check(sum((p["tokens"] for p in pieces), []) == got["tokens"], (pieces, got))
        check([p["stop"] for p in pieces] == [False] * (len(pieces) - 1) + [True], pieces)
        check(pieces[-1]["stop_type"] == got["stop_type"] and pieces[-1]["tokens_predicted"] == got["tokens_predicted"], pieces[-1])
        check(set(pieces[0]) == {"index", "content", "tokens", "id_slot", "stop", "tokens_predicted", "tokens_evaluated"}, pieces[0])


def cached_prefix():
    """tokens_cached and cache_n count the cached tokens of the prompt"""
    prompt = [40 + i % 9 for i in range(200)]
    first, second = complete(prompt=prompt, n_predict=1), complete(prompt=prompt, n_predict=1)
    check(first["tokens_cached"] == 0 and 0 < second["tokens_cached"] < 200, (first, second))
    t = second["timings"]
    check(t["cache_n"] == second["tokens_cached"] and t["prompt_n"] + t["cache_n"] == 200, t)
    off = complete(prompt=prompt, n_predict=1, cache_prompt=False)
    check(off["tokens_cached"] == 0, off["tokens_cached"])


def progress():
    """a stream has the progress of its prompt on request, of any dialect with streams of llama.cpp"""
    for path, key in (("/completion", "prompt"), ("/v1/completions", "prompt"), ("/v1/chat/completions", "messages")):
        ask = path + " a b c" * 300  # several steps, of which a slow writer joins the events
        body = {"stream": True, "return_progress": True, "n_predict": 2, key: ask if key == "prompt" else [{"role": "user", "content": ask}]}
        frames = [f[6:] for f in main.ask("POST", path, body)[2].decode().split("\n\n") if f.startswith("data: {")]
        steps = [json.loads(f)["prompt_progress"] for f in frames if "prompt_progress" in f]
        done = [s["processed"] for s in steps]
        check(len(done) >= 2 and done == sorted(set(done)) and done[-1] == steps[-1]["total"] > 256, (path, steps))
        check(all("prompt_progress" in f for f in frames[:len(steps)]), frames)
    check("prompt_progress" not in json.dumps(events(n_predict=2)[0]))


def pings():
    """sse_ping_interval is the interval of pings of a stream that waits"""
    check(main.ask("POST", "/completion", {"prompt": ASK, "sse_ping_interval": 0})[0] == 400)
    check(main.ask("POST", "/completion", {"prompt": ASK, "sse_ping_interval": 1e9})[0] == 400)
    long = {"prompt": ASK, "ignore_eos": True, "n_predict": 200}
    with serving_model(MODEL, "--max-num-seqs", "1") as s:
        with ThreadPoolExecutor(190) as pool:  # each of them takes more than 0.01 s
            before = [pool.submit(s.ask, "POST", "/completion", long) for _ in range(180)]
            while s.ask("GET", "/load")[2]["waiting"] < 150:
                time.sleep(0.01)
            quiet = pool.submit(events, server=s, n_predict=2, sse_ping_interval=-1)
            _, comments = events(server=s, n_predict=2, sse_ping_interval=1)
            check(comments and set(comments) == {":"}, comments)
            check(quiet.result()[1] == [], quiet.result()[1])
            check(all(f.result()[0] == 200 for f in before))


def properties():
    """/props has the settings of a request without fields, /slots a place per sequence"""
    status, _, props = main.ask("GET", "/props")
    check(status == 200 and props["total_slots"] > 0 and props["model_alias"] == "quoth-tiny", props)
    check("{%" in props["chat_template"] and props["modalities"] == {"vision": False, "audio": False}, props)
    settings = complete(n_predict=1)["generation_settings"]
    params = props["default_generation_settings"]["params"]
    same = set(params) - {"n_predict", "max_tokens"}
    check(same <= set(settings) and all(settings[k] == params[k] for k in same), (settings, params))
    check(params["n_predict"] == -1 and settings["n_predict"] == 1, settings)
    folder = os.path.join(TMP, "lengths")
    shutil.copytree(os.path.join(ROOT, "tests", "golden", "qwen3"), folder, ignore=shutil.ignore_patterns("*.gguf"))
    with open(os.path.join(folder, "generation_config.json"), "w", encoding="ascii") as f:
        json.dump({"max_new_tokens": 3}, f)
    with serving_model(folder) as s:
        params = s.ask("GET", "/props")[2]["default_generation_settings"]["params"]
        check(params["n_predict"] == params["max_tokens"] == complete(server=s)["generation_settings"]["n_predict"] == 3, params)
    status, _, slots = main.ask("GET", "/slots")
    check(status == 200 and len(slots) == props["total_slots"], slots)
    check([s["id"] for s in slots] == list(range(len(slots))) and not any(s["is_processing"] for s in slots), slots)
    check(main.ask("GET", "/slots?fail_on_no_slot=1")[0] == 200)
    status, _, wrong = main.ask("GET", "/slots?fail_on_no_slot=x")
    check(status == 400 and wrong["error"]["code"] == 400 and "param" not in wrong["error"], wrong)
    check(main.ask("POST", "/props", {})[0] == 405 and main.ask("POST", "/slots/0?action=erase", {})[0] == 404)


def rejections():
    """rejections have llama.cpp's form and the field's name"""
    for body, word in (({}, "prompt: expected a prompt"), ({"prompt": ASK, "n_predict": "x"}, "n_predict: expected an integer"),
                       ({"prompt": ASK, "n_probs": 99}, "n_probs: must be in"), ({"prompt": ASK, "grammar": "root ::= ("}, "grammar"),
                       ({"prompt": ASK, "lora": [{"id": 0, "scale": 1}]}, "lora: not supported yet"),
                       ({"prompt": ASK, "messages": [1]}, "messages: not supported by this endpoint"),
                       ({"prompt": {"prompt_string": "a", "multimodal_data": ["AA=="]}}, "multimodal_data: not supported yet"),
                       ({"prompt": ASK, "input_prefix": "a"}, "input_prefix: not supported by this endpoint"),
                       ({"prompt": ASK, "return_progress": 3}, "return_progress: expected true or false")):
        failed(main.ask("POST", "/completion", body), 400, "invalid_request_error", word)
    failed(main.ask("POST", "/completion", "{"), 400, "invalid_request_error", "not JSON")
    failed(main.ask("POST", "/completion", {"prompt": ASK, "model": "other"}), 404, "not_found_error", "other")
    got = main.ask("POST", "/completion", {"prompt": [40] * 5000})
    failed(got, 400, "exceed_context_size_error", "")
    check(got[2]["error"]["n_prompt_tokens"] == 5000 and got[2]["error"]["n_ctx"] > 0, got)
    failed(main.ask("POST", "/completion", b"x" * (2 << 20)), 413, "invalid_request_error", "")
    failed(main.ask("POST", "/infill", {"input_prefix": "a", "input_suffix": "b"}), 400, "invalid_request_error", "Infill is not supported")


def infill():
    """/infill makes the prompt of the model's family, and its answer is that of the same tokens"""
    folder, marks = code_model()
    with serving_model(folder, "--served-model-name", "code") as s:
        def ids(text):
            return s.ask("POST", "/tokenize", {"content": text, "parse_special": False})[2]["tokens"]
        for given, prompt in (({"input_prefix": "ab", "input_suffix": "cd"}, ["<|fim_prefix|>", "ab", "<|fim_suffix|>", "cd", "<|fim_middle|>"]),
                              # code may contain the texts of the marks
                              ({"input_prefix": "a<|fim_suffix|>b", "input_suffix": "c<|fim_middle|>"},
                               ["<|fim_prefix|>", "a<|fim_suffix|>b", "<|fim_suffix|>", "c<|fim_middle|>", "<|fim_middle|>"]),
                              ({"input_prefix": "ab", "input_suffix": "", "prompt": "x"},
                               ["<|fim_prefix|>", "ab", "x", "<|fim_suffix|>", "<|fim_middle|>"]),
                              ({"input_prefix": "", "input_suffix": "", "input_extra": [{"text": "y"}]},
                               ["\n\n--- snippet ---\n\n", "y", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"])):
            want = sum(([marks[p]] if p in marks else ids(p) for p in prompt), [])
            fields = {"n_predict": 6, "temperature": 0, "return_tokens": True}
            status, _, got = s.ask("POST", "/infill", {**given, **fields})
            check(status == 200, got)
            same = s.ask("POST", "/completion", {"prompt": want, **fields})[2]
            bos = got["tokens_evaluated"] - len(want)
            check(bos in (0, 1), (got, want))
            if bos == 0:
                check(got["tokens"] == same["tokens"] and got["prompt"] == same["prompt"], (got, same))
            if set(given) == {"input_prefix", "input_suffix"}:
                # a suffix of OpenAI's and Ollama's clients is the same gap
                text, after = given["input_prefix"], given["input_suffix"]
                status, _, other = s.ask("POST", "/v1/completions", {"prompt": text, "suffix": after, "max_tokens": 6, "temperature": 0, "return_token_ids": True})
                check(status == 200 and other["choices"][0]["text"] == got["content"], (other, got))
                check(other["choices"][0]["prompt_token_ids"][bos:] == want, (other, want))
                of_ids = s.ask("POST", "/v1/completions", {"prompt": [ids("a"), ids("bc")], "suffix": after, "max_tokens": 1, "return_token_ids": True})[2]
                for choice, before in zip(of_ids["choices"], ("a", "bc"), strict=True):
                    after_ids = [marks["<|fim_suffix|>"], *ids(after), marks["<|fim_middle|>"]]
                    check(choice["prompt_token_ids"] == [marks["<|fim_prefix|>"], *ids(before), *after_ids], choice)
                for raw in (False, True):
                    status, _, other = s.ask("POST", "/api/generate", {
                        "model": "code", "prompt": text, "suffix": after, "raw": raw, "stream": False, "options": {"num_predict": 6, "temperature": 0}})
                    check(status == 200 and other["response"] == got["content"], (other, got))
                    check(other["prompt_eval_count"] == got["tokens_evaluated"], (other, got))
            pieces, _ = events("/infill", s, **{"prompt": "", **given, **fields})
            check("".join(p["content"] for p in pieces) == got["content"], (pieces, got))
        long_suffixes(s)


def long_suffixes(s):
    """a suffix beyond the context is rejected before it is copied for each prompt"""
    many, after = ["a"] * 2048, "ab cd " * (1 << 20)
    for path, body in (("/v1/completions", {"prompt": many, "suffix": after}), ("/v1/completions", {"prompt": many, "suffix": "ab " * 5000}),
                       ("/v1/completions", {"prompt": many, "suffix": after, "truncate_prompt_tokens": 3}),
                       ("/v1/completions", {"prompt": many, "suffix": after, "echo": True}),
                       ("/api/generate", {"model": "code", "prompt": "a", "suffix": after}),
                       ("/api/generate", {"model": "code", "prompt": "a", "suffix": after, "raw": True})):
        before = memory_peak(s)
        status, _, got = s.ask("POST", path, body)
        check(status == 400, (status, got))
        check("suffix" in json.dumps(got["error"]), got)
        check(memory_peak(s) - before < 64 << 20, (path, before, memory_peak(s)))


def memory_peak(s):
    """Return the largest resident memory of a server so far, in bytes."""
    with open(f"/proc/{s.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM:"))


if __name__ == "__main__":
    try:
        run([texts, cached_prefix, progress, pings, properties, rejections, infill])
    finally:
        main.terminate()
