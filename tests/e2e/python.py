#!/usr/bin/env python3
"""Goal: the Python package behaves like vLLM's offline API, and its answers are those of the
program. Method: compare the answers of quoth.LLM, quoth.AsyncLLM and `quoth run` with the bundled
model. Build a wheel and install it in a new environment without a network. Interrupt a program. Run
mypy --strict.

Environment: QUOTH the program, with libquoth.so in its folder, QUOTH_ROOT the repository. Arguments
are filters. The script prints "ok NAME", "FAIL NAME: why" or "skip NAME (why)" per test."""
import asyncio
import dataclasses
import inspect
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings

from server import MODEL, QUOTH, ROOT, SLOW, TMP, check, run

LIBRARY = os.path.join(os.path.dirname(QUOTH), "libquoth.so")
STORY = "Once upon a time, there"

if SLOW:
    print("skip python.py (a build with sanitizers)")
    sys.exit(0)
os.environ["QUOTH_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "python"))
import quoth  # noqa: E402
from quoth import (AsyncLLM, BeamSearchParams, GuidedDecodingParams, LLM, ParameterError, PoolingParams, QuothError,  # noqa: E402
                   RepetitionDetectionParams, RequestOutputKind, SamplingParams, StructuredOutputsParams)
from quoth.model import Job  # noqa: E402
from venv_for import python_with  # noqa: E402


def refused(field, call, kind=ValueError):
    try:
        call()
    except kind as e:
        check(str(e).startswith(field), f"{e} does not begin with {field}")
        return str(e)
    raise AssertionError(f"{field}: not refused")


LLM_TINY = None


def tiny():
    global LLM_TINY
    if LLM_TINY is None:
        LLM_TINY = LLM(MODEL, max_num_seqs=32)
    return LLM_TINY


def generate(prompts, *args, **kwargs):
    return tiny().generate(prompts, *args, use_tqdm=False, **kwargs)


def same_tokens_as_run():
    run = subprocess.run([QUOTH, "run", MODEL, STORY, "--raw", "--temperature", "0", "--max-tokens", "40", "--json"],
                         capture_output=True, text=True, check=True)
    want = json.loads(run.stdout)
    [got] = generate(STORY, SamplingParams(temperature=0, max_tokens=40))
    out = got.outputs[0]
    check(out.text == want["text"] and out.token_ids == want["token_ids"], f"{out} {want}")
    check(got.prompt == STORY and got.finished and out.finish_reason == "length" and out.index == 0, str(got))
    check(out.logprobs is None and out.cumulative_logprob is None and got.prompt_logprobs is None, str(out))


def prompts_of_every_kind():
    params = SamplingParams(temperature=0, max_tokens=10)
    ids = tiny().get_tokenizer().encode(STORY)
    want = generate(STORY, params)[0].outputs[0].text
    for prompts in (STORY, [STORY], {"prompt": STORY}, [{"prompt": STORY}], {"prompt_token_ids": ids},
                    [{"prompt_token_ids": ids}], ids, [ids]):
        [got] = generate(prompts, params)
        check(got.outputs[0].text == want and got.prompt_token_ids == ids, f"{prompts}: {got}")
    check(generate([], params) == [], "no prompts")
    two = generate([STORY, "One day"], [params, SamplingParams(temperature=0, max_tokens=3)])
    check([len(o.outputs[0].token_ids) for o in two] == [10, 3], str(two))
    refused("sampling_params", lambda: generate([STORY], [params, params]))
    refused("prompts[1]", lambda: generate([STORY, 7.5], params))
    refused("prompt", lambda: generate({"prompt_token_ids": [10**6]}, params))
    refused("prompt_token_ids", lambda: generate({"prompt_token_ids": ["a"]}, params))
    refused("prompt", lambda: generate("word " * 3000, params))


def many_at_once_equal_one_by_one():
    prompts = [f"Once upon a time, there were {i}" for i in range(64)]
    params = [SamplingParams(temperature=i % 3 * 0.5, seed=i, max_tokens=4 + i % 29, top_p=1 - i % 4 * 0.1,
                             logprobs=2 if i % 2 else None) for i in range(64)]
    at_once = generate(prompts, params)
    for i in range(64):
        [alone] = generate(prompts[i], params[i])
        check(alone.outputs == at_once[i].outputs, f"{i}: {alone.outputs} {at_once[i].outputs}")
    results = [None] * 3

    def work(k):
        results[k] = generate(prompts, params)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in results:
        check(r and [o.outputs for o in r] == [o.outputs for o in at_once], "threads")


def a_full_engine_is_asked_again_now_and_then():
    from quoth import _lib
    asked, submit = [], _lib.Queue.submit

    def full_at_first(self, *args):
        asked.append(time.monotonic())
        return None if asked[-1] < asked[0] + 0.3 else submit(self, *args)

    _lib.Queue.submit = full_at_first
    try:
        outputs = generate([STORY, "One day"], SamplingParams(max_tokens=4, temperature=0))
    finally:
        _lib.Queue.submit = submit
    check([len(o.outputs[0].token_ids) for o in outputs] == [4, 4], outputs)
    check(len(asked) <= 2 + 31, f"{len(asked)} times in 0.3 s")


def logprobs_and_stops():
    [o] = generate(STORY, SamplingParams(temperature=0, max_tokens=8, logprobs=3, prompt_logprobs=1))
    out = o.outputs[0]
    check(len(out.logprobs) == 8 and all(t in p and p[t].rank == 1 for t, p in zip(out.token_ids, out.logprobs)))
    check(abs(sum(p[t].logprob for t, p in zip(out.token_ids, out.logprobs)) - out.cumulative_logprob) < 1e-4)
    check("".join(p[t].decoded_token for t, p in zip(out.token_ids, out.logprobs)) == out.text)
    check(o.prompt_logprobs[0] is None and len(o.prompt_logprobs) == len(o.prompt_token_ids))
    check(all(t in p for t, p in zip(o.prompt_token_ids[1:], o.prompt_logprobs[1:])))
    out = generate(STORY, SamplingParams(temperature=0, max_tokens=50, stop=["never", "."]))[0].outputs[0]
    check(out.finish_reason == "stop" and out.stop_reason == "." and "." not in out.text, str(out))
    out = generate(STORY, SamplingParams(temperature=0, max_tokens=50, stop=".",
                                         include_stop_str_in_output=True))[0].outputs[0]
    check(out.text.endswith("."), str(out))
    third = out.token_ids[2]
    out = generate(STORY, SamplingParams(temperature=0, max_tokens=50, stop_token_ids=[third]))[0].outputs[0]
    # the stop token is the last token, as in vLLM
    check(out.stop_reason == third and out.token_ids[2:] == [third], str(out))
    out = generate(STORY, SamplingParams(temperature=0, max_tokens=4, logit_bias={third: -100},
                                         bad_words=["lived"], min_tokens=4))[0].outputs[0]
    check(third not in out.token_ids and "lived" not in out.text, str(out))
    # the end token has no text; ignore_eos continues after this token
    eos = tiny().get_tokenizer().eos_token_id
    for ignore, n in ((False, 1), (True, 5)):
        out = generate("x", SamplingParams(max_tokens=5, ignore_eos=ignore, allowed_token_ids=[eos]))[0].outputs[0]
        check(out.token_ids == [eos] * n and out.text == "", str(out))
        check(out.finish_reason == ("length" if ignore else "stop"), str(out))
    out = generate("x", SamplingParams(max_tokens=None, ignore_eos=True, temperature=0))[0]
    check(len(out.prompt_token_ids) + len(out.outputs[0].token_ids) == tiny().info()["context_max"], "to the context's end")
    looped = SamplingParams(max_tokens=50, temperature=0, ignore_eos=True, logit_bias={third: 100},
                            repetition_detection=RepetitionDetectionParams(max_pattern_size=2, min_count=4))
    out = generate(STORY, looped)[0].outputs[0]
    check(out.finish_reason == "repetition" and out.token_ids == [third] * 4, out)
    [o] = generate(STORY, SamplingParams(temperature=0, max_tokens=2, logprobs=1, logprob_token_ids=[third, 7]))
    check(all({third, 7} <= set(d) and len(d) <= 3 for d in o.outputs[0].logprobs), o)
    same = [generate(STORY, SamplingParams(max_tokens=20, seed=3, temperature=2, **more))[0].outputs[0].token_ids
            for more in ({"top_k": 1}, {"top_k": 1, "samplers": ["top_k", "temperature"]}, {"top_k": 1, "samplers": ["temperature"]},
                         {"top_k": 1, "adaptive_target": 0.2, "samplers": ["adaptive_p"]})]
    check(same[0] == same[1] and same[2] != same[0] != same[3], same)
    [o] = generate(STORY, SamplingParams(max_tokens=1, truncate_prompt_tokens=2))
    check(len(o.prompt_token_ids) == 2)


def several_answers():
    params = SamplingParams(n=3, temperature=0.9, seed=11, max_tokens=24, stop=["."], logprobs=1)
    [o] = generate(STORY, params)
    check([c.index for c in o.outputs] == [0, 1, 2] and o.finished, str(o))
    check(len({c.text for c in o.outputs}) > 1, "they are all the same")
    check(all(c.finish_reason in ("stop", "length") and len(c.logprobs) == len(c.token_ids) for c in o.outputs), str(o))
    [alone] = generate(STORY, SamplingParams(temperature=0.9, seed=11, max_tokens=24, stop=["."], logprobs=1))
    check(alone.outputs[0] == o.outputs[0], "the first of several is the one alone")
    text = [""] * 3
    for piece in tiny().stream(STORY, params):
        text[piece.choice] += piece.text
    check(text == [c.text for c in o.outputs], f"{text}")
    [best] = generate(STORY, SamplingParams(n=2, best_of=6, temperature=0.9, seed=11, max_tokens=24, logprobs=0))
    mean = [c.cumulative_logprob / len(c.token_ids) for c in best.outputs]
    check(len(best.outputs) == 2 and mean == sorted(mean, reverse=True), f"{mean}")
    beam = SamplingParams(n=3, use_beam_search=True, max_tokens=12, logprobs=0, early_stopping=True)
    [o] = generate(STORY, beam)
    mean = [c.cumulative_logprob / len(c.token_ids) for c in o.outputs]
    [greedy] = generate(STORY, SamplingParams(temperature=0, max_tokens=12, logprobs=0))
    check(len({tuple(c.token_ids) for c in o.outputs}) == 3 and mean == sorted(mean, reverse=True), f"{mean}")
    check(mean[0] >= greedy.outputs[0].cumulative_logprob / 12 - 1e-6, "beams find nothing worse than the greedy answer")
    check([x.outputs for x in generate([STORY] * 5, beam)] == [o.outputs] * 5, "the same every time")
    many = generate([STORY] * 8, [SamplingParams(n=k % 4 + 1, temperature=0.9, seed=k, max_tokens=9) for k in range(8)])
    check([len(o.outputs) for o in many] == [1, 2, 3, 4] * 2)


def pieces_of_a_stream_add_up():
    params = SamplingParams(temperature=0.7, seed=4, max_tokens=40, logprobs=1)
    prompts = [STORY, "One day, a small bird", "The moon"]
    want = generate(prompts, params)
    text, ids, logprobs, ends = [""] * 3, [[], [], []], [[], [], []], [None] * 3
    n_piece = 0
    for piece in tiny().stream(prompts, params):
        n_piece += 1
        text[piece.index] += piece.text
        ids[piece.index] += piece.token_ids
        logprobs[piece.index] += piece.logprobs or []
        if piece.finished:
            ends[piece.index] = piece.finish_reason
    check(n_piece > 60, f"{n_piece} pieces")
    for i, o in enumerate(want):
        out = o.outputs[0]
        check((text[i], ids[i], logprobs[i], ends[i]) == (out.text, out.token_ids, out.logprobs, out.finish_reason), i)
    for piece in tiny().stream(STORY, SamplingParams(max_tokens=None, ignore_eos=True)):
        break  # the remaining requests are cancelled
    for _ in range(100):
        running = tiny().stats()["num_requests_running"]
        if running == 0:
            break
        time.sleep(0.05)
    check(running == 0, f"{running} requests still run")


def conversations():
    params = SamplingParams(temperature=0, max_tokens=30)
    conversation = [{"role": "user", "content": "What is 47 + 38?"}]
    [o] = tiny().chat(conversation, params, use_tqdm=False)
    check("85" in o.outputs[0].text and o.outputs[0].finish_reason == "stop", str(o))
    two = tiny().chat([conversation, conversation], params, use_tqdm=False)
    check([x.outputs[0].text for x in two] == [o.outputs[0].text] * 2)
    check("".join(p.text for p in tiny().stream_chat(conversation, params)) == o.outputs[0].text)
    tokenizer = tiny().get_tokenizer()
    ids = tokenizer.apply_chat_template(conversation, add_generation_prompt=True)
    check(ids == o.prompt_token_ids and tokenizer.decode(ids) == o.prompt)
    check(tokenizer.decode(tokenizer.encode("Grüße, 你好")) == "Grüße, 你好")
    check(tokenizer.eos_token_id is not None and "<|im_end|>" not in tokenizer.decode(ids, skip_special_tokens=True))
    refused("messages", lambda: tiny().chat([], params))
    refused("messages", lambda: tiny().chat([[]], params))


def sampling_parameters_are_those_of_the_library():
    """SamplingParams has a field with the library's default for each sampling parameter of the
    library."""
    listed = quoth.params.sampling_params()
    check(len(listed) > 20 and {"name": "top_k", "type": "integer", "default": -1, "range": "at least -1", "minimum": -1}.items()
          <= next(p for p in listed if p["name"] == "top_k").items(), listed)
    has = {f.name: f.default for f in dataclasses.fields(SamplingParams)}
    for p in listed:
        check(p["name"] in has and has[p["name"]] == p["default"] and type(has[p["name"]]) is
              {"number": float, "integer": int, "boolean": bool}.get(str(p["type"]), type(None)) or p["default"] is None, p)
        for low in ("minimum", "exclusiveMinimum"):
            if low in p and p[low] - 0.5 != p.get("also"):
                refused(p["name"], lambda: SamplingParams(**{p["name"]: p[low] - (0.5 if p["type"] == "number" else 1)}))


def a_model_that_is_not_there():
    for name in ("org/model", "hf:org/model"):
        try:
            LLM(name)
            check(False, "no error")
        except Exception as e:
            check("quoth pull hf:org/model" in str(e), str(e))


def bad_parameters_name_the_field():
    bad = [("n", 0), ("best_of", 0), ("length_penalty", "x"), ("early_stopping", "now"), ("temperature", -1), ("temperature", "hot"), ("temperature", float("nan")),
           ("top_p", 0), ("top_p", 1.5), ("top_k", -2), ("top_k", 0.5), ("min_p", 2), ("presence_penalty", 3),
           ("frequency_penalty", -3), ("repetition_penalty", 0), ("seed", "x"), ("stop", [1]), ("stop", [""]),
           ("stop_token_ids", ["a"]), ("stop_token_ids", "1"), ("bad_words", "no"), ("max_tokens", -1), ("max_tokens", True),
           ("min_tokens", -1), ("min_tokens", 17), ("logprobs", -1), ("logprobs", 21), ("prompt_logprobs", 99),
           ("logit_bias", [1]), ("logit_bias", {"x": 1}), ("ignore_eos", 1), ("skip_special_tokens", None),
           ("allowed_token_ids", 7), ("mirostat", 1), ("top_n_sigma", 0), ("samplers", [1]), ("adaptive_decay", 1), ("min_keep", -1), ("repetition_detection", 3), ("logprob_token_ids", ["a"]), ("dry_base", 0.5), ("truncate_prompt_tokens", 0), ("timeout", 0), ("timeout", "soon")]
    for name, value in bad:
        refused(name, lambda: SamplingParams(**{name: value}))
    refused("best_of", lambda: SamplingParams(n=3, best_of=2))
    try:
        SamplingParams(temprature=1)
        raise AssertionError("an unknown name")
    except TypeError:
        pass
    for name, value in (("stop_token_ids", [10**6]), ("allowed_token_ids", [10**6]), ("logit_bias", {10**6: 1}),
                        ("logit_bias", {1: 1000}), ("samplers", ["nosuch"]), ("logprob_token_ids", [5])):
        refused(name, lambda: generate("x", SamplingParams(**{name: value})))
    refused("block_size", lambda: LLM(MODEL, block_size=65))
    refused("no_such_option", lambda: LLM(MODEL, no_such_option=1))
    check("nothing.gguf" in refused("", lambda: LLM("nothing.gguf"), QuothError))


def time_that_is_over():
    late = generate([STORY], SamplingParams(timeout=0.002, max_tokens=400, ignore_eos=True))[0].outputs[0]
    check(late.finish_reason == "timeout" and len(late.token_ids) < 400, f"{late}")
    check(generate([STORY], SamplingParams(timeout=60, max_tokens=4, ignore_eos=True))[0].outputs[0].finish_reason == "length")


def longer_than_trained():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        LLM(MODEL, max_model_len=128, threads=1).close()
        check(not said, f"{[str(w.message) for w in said]}")
        with LLM(MODEL, max_model_len=100000, threads=1) as m:
            check(len(said) == 1 and str(m.info()["context_train"]) in str(said[0].message), "one warning")


def seeds():
    params = SamplingParams(temperature=1, max_tokens=20)
    with LLM(MODEL, seed=5, max_model_len=128, threads=1) as a, LLM(MODEL, seed=5, max_model_len=128) as b:
        one, other = (x.generate([STORY] * 4, params, use_tqdm=False) for x in (a, b))
        check([o.outputs for o in one] == [o.outputs for o in other], "the same seed")
        check(len({o.outputs[0].text for o in one}) > 1, "prompts differ")
    refused("", lambda: a.generate(STORY), QuothError)


def arguments_of_vllm():
    harmless = dict(dtype="auto", enable_prefix_caching=True, enable_chunked_prefill=True, task="generate", runner="auto",
                    convert="none", generation_config="auto", cpu_offload_gb=0, enable_lora=False, limit_mm_per_prompt={},
                    tensor_parallel_size=1, trust_remote_code=True, enforce_eager=True, quantization=None, tokenizer=MODEL,
                    tokenizer_mode="auto", revision=None, hf_token="x", max_logprobs=20, device="cpu", disable_log_stats=False,
                    scheduling_policy="fcfs", kv_cache_memory_bytes=1 << 26, swap_space=0, max_model_len=64, max_num_seqs=2)
    with LLM(MODEL, **harmless) as llm:
        check(llm.info()["context_max"] == 64 and llm.info()["kv_bytes"] <= 1 << 26, llm.info())
        said = refused("prompt", lambda: llm.generate("word " * 100, use_tqdm=False))
        check("--" not in said, f"a flag of the command line: {said}")
    with LLM(MODEL, dtype="float32", max_model_len=64, limit_mm_per_prompt={"image": 2}, revision="main") as llm, LLM(
            MODEL, activation_dtype="f32", max_model_len=64) as other:
        params = SamplingParams(temperature=0, max_tokens=4, logprobs=1)
        check(llm.generate(STORY, params, False)[0].outputs == other.generate(STORY, params, False)[0].outputs, "dtype")
    for name, value in (("dtype", "int3"),
                        ("task", "classify"), ("runner", "draft"), ("generation_config", "vllm"), ("cpu_offload_gb", 4),
                        ("enable_lora", True), ("preemption_mode", "recompute"), ("tensor_parallel_size", 2),
                        ("quantization", "awq"), ("revision", "v2"), ("tokenizer", "other"), ("speculative_config", {"k": 1}),
                        ("max_logprobs", 50), ("scheduling_policy", "lottery")):
        check("--" not in refused(name, lambda: LLM(MODEL, **{name: value})))
    refused("lora_request", lambda: generate(STORY, lora_request="x"))
    refused("priority", lambda: generate([STORY], priority=[1, 2]))
    refused("priority", lambda: generate([STORY], priority=["high"]))
    with LLM(MODEL, scheduling_policy="priority", max_num_seqs=1, max_model_len=64, threads=1) as llm:
        two = llm.generate([STORY] * 2, SamplingParams(max_tokens=2, temperature=0), False, priority=[1, 0])
        check(two[0].outputs == two[1].outputs, two)
    refused("prompts", lambda: generate(None))
    refused("prompts", lambda: generate(3))
    refused("sampling_params", lambda: generate(STORY, 7))
    refused("sampling_params[0]", lambda: generate([STORY], [7]))


def sampling_params_of_vllm():
    params = SamplingParams(structured_outputs=None, logits_processors=None, extra_args={}, guided_decoding=None,
                            stop=["."], output_kind=RequestOutputKind.DELTA)
    copy = params.clone()
    check(copy == params and copy is not params)
    copy.stop.append("!")
    check(params.stop == ["."], "a clone shares nothing")
    for name in ("logits_processors", "extra_args"):
        check("not supported yet" in refused(name, lambda: SamplingParams(**{name: {"x": 1}})))
    refused("output_kind", lambda: SamplingParams(output_kind="delta"))
    refused("thinking_token_budget", lambda: SamplingParams(thinking_token_budget=-1))
    for budget in (0, 3):
        text = generate("a <think> b", SamplingParams(max_tokens=30, temperature=0, ignore_eos=True, thinking_token_budget=budget))[0].outputs[0].text
        check("</think>" in text and len(text[:text.index("</think>")].split()) <= budget, text)
    refused("thinking_token_budget", lambda: generate("a", SamplingParams(
        thinking_token_budget=1, structured_outputs=StructuredOutputsParams(regex="a"))))
    refused("beam_width", lambda: BeamSearchParams(beam_width=0, max_tokens=4))
    refused("max_tokens", lambda: BeamSearchParams(beam_width=2, max_tokens=-4))
    refused("dimensions", lambda: PoolingParams(dimensions=0))
    refused("normalize", lambda: PoolingParams(normalize=False))
    [o] = generate(STORY, SamplingParams(max_tokens=4, temperature=0))
    times = o.metrics
    check(times["decode"] == times.decode > 0 and sorted(times) == ["decode", "prefill", "queue"], times)
    check(times.time_in_queue == times.queue and times.num_generation_tokens == 4, times)


def answers_are_held():
    """StructuredOutputsParams constrains answers, under vLLM's names, and the error of an
    unenforceable constraint contains its place"""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 10**20}}, "required": ["n"],
              "additionalProperties": False}
    for params, pattern in (({"json": schema}, None),
                            ({"json": json.dumps(schema), "disable_any_whitespace": True}, r'{"[^ ]+":-?\d+}'),
                            ({"regex": "x[0-9]{3}y"}, "x[0-9]{3}y"), ({"choice": ["yes", "no way"]}, "yes|no way"),
                            ({"grammar": 'root ::= "<" [ab] ">"'}, "<[ab]>"), ({"grammar": 'start: "<" A\nA: /b/'}, "<b"),
                            ({"structural_tag": {"type": "tag", "begin": "<", "content": {"type": "const_string", "value": "b"}, "end": ">"}}, "<b>")):
        held = StructuredOutputsParams(**params)
        for sampling in (SamplingParams(structured_outputs=held, max_tokens=40, temperature=1, n=2),
                         SamplingParams(guided_decoding=GuidedDecodingParams(**params, backend="xgrammar"), max_tokens=40)):
            for [o] in (generate(STORY, sampling), tiny().chat([{"role": "user", "content": "Hi"}], sampling, False)):
                for c in o.outputs:
                    good = re.fullmatch(pattern, c.text) if pattern else isinstance(json.loads(c.text)["n"], int)
                    check(c.finish_reason == "stop" and good, f"{params}: {c}")
    [o] = generate(STORY, SamplingParams(structured_outputs=StructuredOutputsParams(json_object=True), max_tokens=9, temperature=0))
    check(o.outputs[0].text.lstrip().startswith("{"), o)
    several = generate([STORY] * 3, [SamplingParams(structured_outputs=StructuredOutputsParams(choice=[c])) for c in "abc"])
    check([o.outputs[0].text for o in several] == ["a", "b", "c"], several)
    for wrong in ({}, {"json_object": False}, {"regex": "a", "choice": ["b"]}, {"whitespace_pattern": " "}):
        refused("structured_outputs: expected one of", lambda: StructuredOutputsParams(**wrong))
    for name, value in (("regex", 3), ("choice", "ab"), ("choice", []), ("choice", [1]), ("json", 7), ("json_object", 1),
                        ("disable_any_whitespace", 1)):
        refused(name, lambda: StructuredOutputsParams(**{name: value}))
    refused("structured_outputs", lambda: SamplingParams(structured_outputs={"regex": "a"}))
    refused("guided_decoding", lambda: SamplingParams(structured_outputs=held, guided_decoding=held))
    for params, place in (({"regex": "a(?=b)"}, "structured_outputs.regex: regular expression, byte 4"),
                          ({"json": {"items": {"type": "x"}}}, "structured_outputs.json: schema: #/items/type")):
        said = refused(place, lambda: generate(STORY, SamplingParams(structured_outputs=StructuredOutputsParams(**params))))
    try:
        LLM(MODEL, block_size=24)
    except ParameterError as e:
        check(e.field == "block_size" and str(e).startswith("block_size: must be"), e)


def beams_vectors_and_metrics():
    [beams] = tiny().beam_search(STORY, BeamSearchParams(beam_width=3, max_tokens=8))
    [want] = generate(STORY, SamplingParams(n=3, use_beam_search=True, max_tokens=8, logprobs=0))
    check([s.tokens for s in beams.sequences] == [want.prompt_token_ids + c.token_ids for c in want.outputs], beams)
    check([s.cum_logprob for s in beams.sequences] == [c.cumulative_logprob for c in want.outputs], beams)
    check(all(s.text.startswith(STORY) for s in beams.sequences), beams)
    vectors = tiny().embed([STORY, "One day", STORY], use_tqdm=False)
    v = [o.outputs.embedding for o in vectors]
    check(all(abs(math.fsum(x * x for x in u) - 1) < 1e-5 for u in v) and v[0] == v[2] != v[1], "of length 1, the same alone")
    [short] = tiny().embed(STORY, pooling_params=PoolingParams(dimensions=8), use_tqdm=False)
    scale = short.outputs.embedding[0] / v[0][0]
    check(short.outputs.hidden_size == 8 and
          all(abs(a - b * scale) < 1e-6 for a, b in zip(short.outputs.embedding, v[0])), short)
    [mean] = tiny().embed(STORY, pooling_params=PoolingParams(pooling="mean"), use_tqdm=False)
    check(mean.outputs.embedding != v[0] and mean.prompt_token_ids == vectors[0].prompt_token_ids)
    refused("dimensions", lambda: tiny().embed(STORY, pooling_params=PoolingParams(dimensions=10**6), use_tqdm=False))
    refused("pooling_params", lambda: tiny().embed(STORY, pooling_params=SamplingParams(), use_tqdm=False))
    long = STORY + " was" * 60
    generate(long, SamplingParams(max_tokens=1))
    check(generate(long, SamplingParams(max_tokens=1))[0].num_cached_tokens > 0, "cached")
    check(tiny().reset_prefix_cache() is True)
    check(generate(long, SamplingParams(max_tokens=1))[0].num_cached_tokens == 0, "forgotten")
    metrics = {m.name: m for m in tiny().get_metrics()}
    tokens = metrics["vllm:generation_tokens_total"]
    check(isinstance(tokens, quoth.Counter) and tokens.value > 20 and tokens.labels["model_name"], tokens)
    check(isinstance(metrics["vllm:num_requests_running"], quoth.Gauge), metrics["vllm:num_requests_running"])
    times = metrics["vllm:time_to_first_token_seconds"]
    check(isinstance(times, quoth.Histogram) and times.buckets["+Inf"] == times.count > 0 and times.sum > 0, times)


# Hundreds of tasks on one thread get the answers of LLM. Output kinds, cancelled and aborted
# requests, and errors are tested, too.
def asynchronous_answers():
    n = 300
    params = [SamplingParams(temperature=0.8, seed=i, max_tokens=3 + i % 17, logprobs=1) for i in range(n)]
    prompts = [f"Once upon a time, there were {i}" for i in range(n)]
    want = generate(prompts, params)

    async def last(llm, *args, **kwargs):
        async for output in llm.generate(*args, **kwargs):
            pass
        return output

    async def idle(llm):
        for _ in range(200):
            if llm.stats()["num_requests_running"] + llm.stats()["num_requests_waiting"] == 0:
                return True
            await asyncio.sleep(0.02)
        return False

    async def held_elsewhere(llm, endless):
        """A constraint with a long compilation does not delay other answers."""
        held = SamplingParams(max_tokens=4, structured_outputs=StructuredOutputsParams(regex="[a-z ]+"))
        submit, submitting = Job.submit, threading.Event()

        def slow(job, queue):
            if job.sampling and job.sampling.structured_outputs:
                submitting.set()
                time.sleep(1)
                submitting.clear()
            return submit(job, queue)

        Job.submit = slow
        try:
            n, task = 0, None
            stream = llm.generate(STORY, endless)
            async for _ in stream:
                task = task or asyncio.create_task(last(llm, STORY, held))
                n += submitting.is_set()
                if task.done():
                    break
            await stream.aclose()
            check(n > 3 and (await task).finished, f"{n} outputs while a constraint was compiled")
        finally:
            Job.submit = submit

    async def all_of_it():
        async with AsyncLLM(MODEL, max_num_seqs=32) as llm:
            before = threading.active_count()
            got = await asyncio.gather(*(last(llm, p, q) for p, q in zip(prompts, params)))
            check(threading.active_count() <= before, "a thread for each request")
            check([o.outputs for o in got] == [o.outputs for o in want] and all(o.finished for o in got), "as LLM's")
            pieces = [o async for o in llm.generate(STORY, SamplingParams(
                temperature=0, max_tokens=30, logprobs=0, output_kind=RequestOutputKind.DELTA))]
            [whole] = [o async for o in llm.generate(STORY, SamplingParams(
                temperature=0, max_tokens=30, logprobs=0, output_kind=RequestOutputKind.FINAL_ONLY))]
            texts = [o.outputs[0].text async for o in llm.generate(STORY, SamplingParams(temperature=0, max_tokens=30))]
            parts = [p.outputs[0] for p in pieces]
            check("".join(p.text for p in parts) == whole.outputs[0].text == texts[-1], parts)
            check(sum((p.token_ids for p in parts), []) == whole.outputs[0].token_ids and pieces[-1].finished)
            check(sum((p.logprobs for p in parts), []) == whole.outputs[0].logprobs)
            check(all(b.startswith(a) for a, b in zip(texts, texts[1:])), texts)
            endless = SamplingParams(max_tokens=None, ignore_eos=True)
            tasks = [asyncio.create_task(last(llm, STORY, endless)) for _ in range(50)]
            await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()
            gone = await asyncio.gather(*tasks, return_exceptions=True)
            check(all(isinstance(x, asyncio.CancelledError) for x in gone), gone[:3])
            check(await idle(llm), "cancelled tasks' requests still run")
            stream = llm.generate(STORY, endless)
            async for _ in stream:
                break
            await stream.aclose()
            check(await idle(llm), "a generator that was left still runs")
            task = asyncio.create_task(last(llm, STORY, endless, request_id="mine"))
            await asyncio.sleep(0.05)
            await llm.abort("mine")
            check((await task).outputs[0].finish_reason == "abort")
            await llm.abort("nothing")
            await held_elsewhere(llm, endless)
            check(await idle(llm), "requests with a constraint still run")
            for bad in (lambda: last(llm, 7), lambda: last(llm, STORY, 7), lambda: last(llm, [10**7]),
                        lambda: llm.embed(STORY, SamplingParams())):
                try:
                    await bad()
                    raise AssertionError("not refused")
                except ValueError as e:
                    check(str(e).split(":")[0] in ("prompt", "sampling_params", "pooling_params"), str(e))
            vectors = await asyncio.gather(*(llm.embed(STORY) for _ in range(20)))
            check(all(v.outputs == tiny().embed(STORY, use_tqdm=False)[0].outputs for v in vectors))
            conversation = [{"role": "user", "content": "What is 47 + 38?"}]
            async for answer in llm.chat(conversation, SamplingParams(temperature=0, max_tokens=30)):
                pass
            check("85" in answer.outputs[0].text)
            check(await llm.reset_prefix_cache())
            task = asyncio.create_task(last(llm, STORY, endless))
            await asyncio.sleep(0.05)
        try:
            await task
            raise AssertionError("a request outlived its model")
        except QuothError as e:
            check("closed" in str(e))
        refused("", llm.info, QuothError)

    asyncio.run(asyncio.wait_for(all_of_it(), 120))


# Every key of the library is typed.
def options_are_those_of_the_library():
    with open(os.path.join(ROOT, "src", "session", "options.c"), encoding="utf-8") as f:
        names, keys = re.findall(r'#include "(\w+\.def)"', f.read()), []
    for name in names:
        with open(os.path.join(ROOT, "src", "session", name), encoding="utf-8") as f:
            keys += re.findall(r'^SESSION_(?!WORDS)\w+\((\w+), "', f.read(), re.MULTILINE)
    check(len(keys) > 25, keys)
    missing = [k for k in keys if k not in quoth.options.Options.__annotations__]
    check(not missing, f"not typed: {missing}")


def everything_public_is_described():
    for name in quoth.__all__:
        kind = getattr(quoth, name)
        check(kind.__doc__ and not kind.__doc__.startswith(name + "("), f"{name} has no docstring")
        for method, value in inspect.getmembers(kind, inspect.isroutine):
            own = getattr(value, "__module__", "") or ""
            if not method.startswith("_") and own.startswith("quoth"):
                check(value.__doc__, f"{name}.{method} has no docstring")


TYPED = """
import asyncio
from typing import List
from quoth import LLM, AsyncLLM, SamplingParams, RequestOutput
llm = LLM("m", max_model_len=64, dtype="auto")
ids: List[int] = llm.generate("x", SamplingParams(n=2))[0].outputs[0].token_ids
async def main() -> None:
    async for output in AsyncLLM("m").generate("x"):
        checked: RequestOutput = output
LLM("m", max_model_len="many")  # wrong
LLM("m", max_model_length=1)  # wrong
SamplingParams(temprature=1)  # wrong
"""


def mypy_finds_nothing():
    python, why = python_with("mypy-for-tests", {"mypy": "mypy"})
    if not python:
        return why
    package = os.path.join(ROOT, "python", "quoth")
    cache = ["--cache-dir", os.path.join(TMP, "mypy")]
    strict = subprocess.run([python, "-m", "mypy", "--strict", *cache, package], capture_output=True, text=True)
    check(strict.returncode == 0, strict.stdout[-800:])
    user = os.path.join(TMP, "typed.py")
    with open(user, "w") as f:
        f.write(TYPED)
    found = subprocess.run([python, "-m", "mypy", "--strict", *cache, user], capture_output=True, text=True,
                           env=dict(os.environ, MYPYPATH=os.path.join(ROOT, "python"))).stdout
    lines = {int(line.split(":")[1]) for line in found.splitlines() if ": error:" in line}
    check(lines == {i for i, line in enumerate(TYPED.split("\n"), 1) if "# wrong" in line}, found)


INTERRUPTED = f"""
import sys, threading
sys.path.insert(0, {os.path.join(ROOT, "python")!r})
from quoth import LLM, SamplingParams
llm = LLM({MODEL!r})
print("ready", flush=True)
try:
    llm.generate(["Once"] * 2000, SamplingParams(max_tokens=None, ignore_eos=True))
except KeyboardInterrupt:
    print("interrupted", llm.stats()["num_requests_waiting"], flush=True)
print(llm.generate("Once upon a time, there", SamplingParams(temperature=0, max_tokens=8), use_tqdm=False)[0].outputs[0].text)
"""


def an_interrupt_cancels():
    run = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(run.stdout.readline() == "ready\n")
    time.sleep(1)
    start = time.monotonic()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    seconds = time.monotonic() - start
    check(run.returncode == 0 and out.startswith("interrupted"), f"{run.returncode} {out!r} {err[-500:]!r}")
    check(out.split("\n", 1)[1] == generate(STORY, SamplingParams(temperature=0, max_tokens=8))[0].outputs[0].text + "\n", out)
    check(seconds < 10, f"it took {seconds:.1f} s")


def a_wheel_installs_without_a_network():
    env = dict(os.environ, PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_CACHE_DIR="1")
    env.pop("PYTHONPATH", None)
    home = os.path.join(TMP, "venv")
    made = subprocess.run([sys.executable, "-m", "venv", home], capture_output=True, text=True)
    if made.returncode != 0:
        return "no venv: " + (made.stdout + made.stderr).strip().split("\n")[0]
    python = os.path.join(home, "bin", "python")
    built = subprocess.run([python, "-m", "pip", "wheel", "--no-deps", "-w", TMP, os.path.join(ROOT, "python")],
                           capture_output=True, text=True, env=env)
    check(built.returncode == 0, built.stdout[-500:] + built.stderr[-1000:])
    [wheel] = [os.path.join(TMP, f) for f in os.listdir(TMP) if f.endswith(".whl")]
    done = subprocess.run([python, "-m", "pip", "install", wheel], capture_output=True, text=True, env=env)
    check(done.returncode == 0, done.stderr[-1000:])
    env.pop("QUOTH_LIBRARY")
    code = (f"import quoth; llm = quoth.LLM({MODEL!r}); print(quoth.__file__); "
            f"print(llm.generate({STORY!r}, quoth.SamplingParams(temperature=0, max_tokens=8), False)[0].outputs[0].text)")
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, env=env, cwd=TMP)
    check(run.returncode == 0, run.stderr)
    where, text = run.stdout.split("\n", 1)
    check(where.startswith(home), where)
    check(text == generate(STORY, SamplingParams(temperature=0, max_tokens=8))[0].outputs[0].text + "\n", text)
    again = subprocess.run([sys.executable, os.path.join(ROOT, "python", "build_wheel.py"), os.path.join(TMP, "again")],
                           capture_output=True, text=True, check=True).stdout.strip()
    with open(wheel, "rb") as a, open(again, "rb") as b:
        check(a.read() == b.read(), "the wheel without pip is another one")


def a_missing_library_has_the_way_to_build_it():
    """the error of an import without libquoth names make, QUOTH_LIBRARY and pip"""
    env = {**os.environ, "QUOTH_LIBRARY": os.path.join(TMP, "gone.so"), "PYTHONPATH": os.path.join(ROOT, "python")}
    ran = subprocess.run([sys.executable, "-c", "import quoth"], capture_output=True, text=True, env=env, cwd=TMP)
    last = ran.stderr.strip().split("\n")[-1]
    check(ran.returncode == 1 and last.startswith("ImportError: "), ran.stderr)
    check(all(word in last for word in ("gone.so", "make", "QUOTH_LIBRARY", "pip")), last)


def examples_of_the_readme():
    """Code blocks of README.md that import quoth run unchanged, with the bundled model."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        blocks = [b.split("```")[0] for b in f.read().split("```python\n")[1:]]
    check(blocks, "README.md has no example")
    for block in blocks:
        run = subprocess.run([sys.executable, "-c", block.replace("model.gguf", MODEL)], capture_output=True, text=True,
                             env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python")))
        check(run.returncode == 0 and run.stdout.strip(), run.stderr[-800:])


run([same_tokens_as_run, prompts_of_every_kind, many_at_once_equal_one_by_one,
     a_full_engine_is_asked_again_now_and_then, logprobs_and_stops, several_answers,
     pieces_of_a_stream_add_up, conversations, sampling_parameters_are_those_of_the_library, bad_parameters_name_the_field, a_model_that_is_not_there, time_that_is_over, seeds, longer_than_trained,
     arguments_of_vllm, sampling_params_of_vllm, answers_are_held, beams_vectors_and_metrics, asynchronous_answers,
     options_are_those_of_the_library, everything_public_is_described, mypy_finds_nothing, an_interrupt_cancels, a_wheel_installs_without_a_network, a_missing_library_has_the_way_to_build_it,
     examples_of_the_readme])
