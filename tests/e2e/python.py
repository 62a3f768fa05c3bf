#!/usr/bin/env python3
"""Goal: the Python package does what users of vLLM's offline API expect, and says what the program says.
Method: the bundled model through quoth.LLM, compared with `quoth run`; a wheel built and installed in a fresh environment
without a network; an interrupted program.

Environment: QUOTH the program, beside which libquoth.so lies, QUOTH_ROOT the repository. Arguments are filters.
Prints "ok NAME", "FAIL NAME: why" or "skip NAME (why)" per test."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

from server import MODEL, QUOTH, ROOT, SLOW, TMP, check, run

LIBRARY = os.path.join(os.path.dirname(QUOTH), "libquoth.so")
STORY = "Once upon a time, there"

if SLOW:
    print("skip python.py (a build with sanitizers)")
    sys.exit(0)
os.environ["QUOTH_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "python"))
from quoth import LLM, QuothError, SamplingParams  # noqa: E402


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
    check(out.stop_reason == third and third not in out.token_ids, str(out))
    out = generate(STORY, SamplingParams(temperature=0, max_tokens=4, logit_bias={third: -100},
                                         bad_words=["lived"], min_tokens=4))[0].outputs[0]
    check(third not in out.token_ids and "lived" not in out.text, str(out))
    out = generate("x", SamplingParams(max_tokens=None, ignore_eos=True, temperature=0))[0]
    check(len(out.prompt_token_ids) + len(out.outputs[0].token_ids) == tiny().info()["context_max"], "to the context's end")
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
        break  # what is left is cancelled
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


def bad_parameters_name_the_field():
    bad = [("n", 0), ("best_of", 0), ("length_penalty", "x"), ("early_stopping", "now"), ("temperature", -1), ("temperature", "hot"), ("temperature", float("nan")),
           ("top_p", 0), ("top_p", 1.5), ("top_k", -2), ("top_k", 0.5), ("min_p", 2), ("presence_penalty", 3),
           ("frequency_penalty", -3), ("repetition_penalty", 0), ("seed", "x"), ("stop", [1]), ("stop", [""]),
           ("stop_token_ids", ["a"]), ("stop_token_ids", "1"), ("bad_words", "no"), ("max_tokens", -1), ("max_tokens", True),
           ("min_tokens", -1), ("min_tokens", 17), ("logprobs", -1), ("logprobs", 21), ("prompt_logprobs", 99),
           ("logit_bias", [1]), ("logit_bias", {"x": 1}), ("ignore_eos", 1), ("skip_special_tokens", None),
           ("allowed_token_ids", 7), ("mirostat", 1), ("top_n_sigma", 0), ("dry_base", 0.5), ("truncate_prompt_tokens", 0), ("timeout", 0), ("timeout", "soon")]
    for name, value in bad:
        refused(name, lambda: SamplingParams(**{name: value}))
    refused("best_of", lambda: SamplingParams(n=3, best_of=2))
    try:
        SamplingParams(temprature=1)
        raise AssertionError("an unknown name")
    except TypeError:
        pass
    for name, value in (("stop_token_ids", [10**6]), ("allowed_token_ids", [10**6]), ("logit_bias", {10**6: 1}),
                        ("logit_bias", {1: 1000})):
        refused(name, lambda: generate("x", SamplingParams(**{name: value})))
    refused("block-size", lambda: LLM(MODEL, block_size=65))
    refused("no_such_option", lambda: LLM(MODEL, no_such_option=1))
    check("nothing.gguf" in refused("", lambda: LLM("nothing.gguf"), QuothError))


def time_that_is_over():
    late = generate([STORY], SamplingParams(timeout=0.002, max_tokens=400, ignore_eos=True))[0].outputs[0]
    check(late.finish_reason == "timeout" and len(late.token_ids) < 400, f"{late}")
    check(generate([STORY], SamplingParams(timeout=60, max_tokens=4, ignore_eos=True))[0].outputs[0].finish_reason == "length")


def seeds():
    params = SamplingParams(temperature=1, max_tokens=20)
    with LLM(MODEL, seed=5, max_model_len=128, threads=1) as a, LLM(MODEL, seed=5, max_model_len=128) as b:
        one, other = (x.generate([STORY] * 4, params, use_tqdm=False) for x in (a, b))
        check([o.outputs for o in one] == [o.outputs for o in other], "the same seed")
        check(len({o.outputs[0].text for o in one}) > 1, "prompts differ")
    refused("", lambda: a.generate(STORY), QuothError)


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


def examples_of_the_readme():
    """Code blocks of README.md that import quoth run as they stand, with the bundled model."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        blocks = [b.split("```")[0] for b in f.read().split("```python\n")[1:]]
    check(blocks, "README.md has no example")
    for block in blocks:
        run = subprocess.run([sys.executable, "-c", block.replace("model.gguf", MODEL)], capture_output=True, text=True,
                             env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python")))
        check(run.returncode == 0 and run.stdout.strip(), run.stderr[-800:])


run([same_tokens_as_run, prompts_of_every_kind, many_at_once_equal_one_by_one,
     a_full_engine_is_asked_again_now_and_then, logprobs_and_stops, several_answers,
     pieces_of_a_stream_add_up, conversations, bad_parameters_name_the_field, time_that_is_over, seeds,
     an_interrupt_cancels, a_wheel_installs_without_a_network, examples_of_the_readme])
