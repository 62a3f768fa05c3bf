#!/usr/bin/env python3
"""Goal: quoth batch answers every line of a file once, in spite of all interruptions. Method: run
OpenAI batch files with the bundled model. Kill or stop runs at random moments, truncate their
output, and give other files to later runs. Compare the output with that of a run without
interruptions.

Environment: QUOTH the program, QUOTH_ROOT the repository, QUOTH_LONG=1 for many more kills. The
script prints "ok NAME" or "FAIL NAME: why" per test."""
import json
import os
import random
import signal
import subprocess
import time

from server import LONG, MODEL, QUOTH, ROOT, SLOW, TMP, check, run

random.seed(20261121)


def path(name):
    return os.path.join(TMP, name)


def line(custom_id, body, url="/v1/completions", **more):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body, **more}) + "\n"


def write(name, text):
    with open(path(name), "w") as f:
        f.write(text)
    return path(name)


def read(name):
    with open(path(name)) as f:
        return [json.loads(row) for row in f]


def batch(src, dst, *more, status=0):
    run = subprocess.run([QUOTH, "batch", MODEL, "-i", src, "-o", path(dst), "--json", *more],
                         capture_output=True, text=True, timeout=250)
    check(run.returncode == status, f"status {run.returncode}: {run.stderr[-300:]}")
    return json.loads(run.stdout) if status == 0 else run.stderr


def answers(name):
    """Return a dict from custom_id to the part of an answer that is equal in all runs."""
    rows = read(name)
    keep = {}
    for row in rows:
        check(set(row) == {"id", "custom_id", "response", "error"}, f"fields {sorted(row)}")
        key = row["custom_id"] if row["custom_id"] is not None else row["error"]["line"]
        check(key not in keep, f"{key} is there twice")
        body = row["response"] and row["response"]["body"]
        keep[key] = (row["response"] and row["response"]["status_code"], body and body.get("choices"),
                     body and body.get("error"), row["error"])
    return keep


def requests(n):
    """Make completions and chats, greedy and random, with and without seeds, and some invalid
    requests."""
    rows = []
    for i in range(n):
        if i % 23 == 7:
            rows.append(line(f"r{i}", {"prompt": "x", "top_p": 1 + i}))
        elif i % 29 == 9:
            rows.append("no request %d\n" % i)
        elif i % 3 == 0:
            rows.append(line(f"r{i}", {"messages": [{"role": "user", "content": f"What is {i} + {i + 3}?"}],
                                       "temperature": 0, "max_tokens": 12}, "/v1/chat/completions"))
        else:
            rows.append(line(f"r{i}", {"prompt": f"Once upon a time, there were {i}", "max_tokens": 6 + i % 13,
                                       "temperature": i % 3 - 1, **({"seed": i} if i % 5 == 0 else {}),
                                       **({"logprobs": 2} if i % 7 == 0 else {})}))
    return "".join(rows)


def answers_and_refusals():
    src = write("some.jsonl",
                line("plain", {"prompt": "Once upon a time, there", "temperature": 0, "max_tokens": 16})
                + "\n   \n"
                + line("chat", {"model": "any", "messages": [{"role": "user", "content": "What is 47 + 38?"}],
                                "temperature": 0, "logprobs": True, "top_logprobs": 2}, "/v1/chat/completions")
                + line("two", {"prompt": ["Once upon a time, there", "One day"], "temperature": 0, "max_tokens": 16,
                               "echo": True, "logprobs": 1})
                + line("stop", {"prompt": "Once upon a time, there", "temperature": 0, "stop": ["."], "max_tokens": 60})
                + line("tool", {"messages": [{"role": "user", "content": "What is the weather in Paris?"}],
                                "temperature": 0,
                                "tools": [{"type": "function", "function": {
                                    "name": "get_weather", "description": "Get the weather in a city.",
                                    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                                                   "required": ["city"]}}}]}, "/v1/chat/completions")
                + line("three", {"prompt": ["Once upon a time, there", "One day"], "n": 3, "temperature": 0.9, "seed": 4,
                                 "max_tokens": 8})
                + "{]\n"
                + line("plain", {"prompt": "again"})
                + line("kind", {"prompt": "x", "temperature": "hot"})
                + line("range", {"prompt": "x", "temperature": -3})
                + line("stream", {"prompt": "x", "stream": True})
                + line("long", {"prompt": "word " * 3000})
                + line("url", {}, "/v1/nothing")
                + line("nothing", {"prompt": []})
                + line("bias", {"prompt": "x", "logit_bias": {"99999": 1}})
                + json.dumps({"custom_id": "get", "method": "GET", "url": "/v1/completions", "body": {}}) + "\n")
    summary = batch(src, "some.out")
    check((summary["total"], summary["completed"], summary["failed"]) == (16, 6, 10), f"summary {summary}")
    got = answers("some.out")
    want = subprocess.run([QUOTH, "run", MODEL, "Once upon a time, there", "--raw", "--temperature", "0",
                           "--max-tokens", "16"], capture_output=True, text=True).stdout
    check(got["plain"][1][0]["text"] == want, f"{got['plain']} is not {want!r}")
    check(got["two"][1][0]["text"] == "Once upon a time, there" + want, f"echo: {got['two'][1][0]['text']}")
    check([c["index"] for c in got["two"][1]] == [0, 1], "two prompts are two choices")
    check("".join(got["two"][1][0]["logprobs"]["tokens"]) == got["two"][1][0]["text"], "logprobs of each token, echoed ones too")
    check(got["plain"][1][0]["finish_reason"] == "length", "a limit")
    check(got["stop"][1][0]["stop_reason"] == "." and "." not in got["stop"][1][0]["text"], f"{got['stop']}")
    check([c["index"] for c in got["three"][1]] == [0, 1, 2, 3, 4, 5], "n of each prompt")
    check(len({c["text"] for c in got["three"][1]}) > 3, "they differ")
    message = got["chat"][1][0]
    check("85" in message["message"]["content"] and message["finish_reason"] == "stop", f"{message}")
    check(len(message["logprobs"]["content"][0]["top_logprobs"]) == 2, "top_logprobs")
    call = got["tool"][1][0]
    check(call["finish_reason"] == "tool_calls" and call["message"]["tool_calls"][0]["function"]["name"] == "get_weather",
          f"{call}")
    for name, field in (("kind", "temperature"), ("range", "temperature"), ("stream", "stream"), ("long", "prompt"),
                        ("nothing", "prompt"), ("bias", "logit_bias")):
        status, _, error, _ = got[name]
        check(status == 400 and error["param"] == field and error["message"].startswith(field), f"{name}: {got[name]}")
    check(got["url"][0] == 404 and got["get"][0] == 400, f"{got['url']} {got['get']}")
    check(got[9][3]["line"] == 9 and got[10][3]["param"] == "custom_id", f"{got.get(9)} {got.get(10)}")


def lines_with_nul():
    """a NUL truncates no line, and a line of NULs alone (a file after a crash) is not blank"""
    good = line("a", {"prompt": "x", "max_tokens": 1})
    src = write("nul.jsonl", good[:-1] + "\0" + line("hidden", {"prompt": "x"}) + "\0\0\0\n" + " \0 \n"
                + good.replace("POST", "POST\\u0000x") + good.replace('"x"', '"x\0y"').replace('"a"', '"b"')
                + good.replace('"a"', '"c\\u0000d"'))
    summary = batch(src, "nul.out")
    check((summary["total"], summary["completed"], summary["failed"]) == (6, 1, 5), f"summary {summary}")
    got = answers("nul.out")
    for number in (1, 2, 3, 5):
        check("0x00" in got[number][3]["message"], f"{number}: {got.get(number)}")
    check((got["a"][0], got["a"][2]["param"]) == (400, "method"), f"{got['a']}")
    check(got["c\0d"][0] == 200, f"{got}")


def once_more_does_nothing():
    src = write("more.jsonl", requests(40))
    first = batch(src, "more.out")
    before = read("more.out")
    again = batch(src, "more.out")
    check(again["skipped"] == first["total"] == 40 and again["completed"] == again["failed"] == 0, f"{again}")
    check(read("more.out") == before, "the file changed")
    write("more.jsonl", requests(60))
    check(batch(src, "more.out")["skipped"] == 40 and len(answers("more.out")) == 60, "a longer input")


def killed_anywhere():
    n, n_kill = (120, 5) if SLOW else (400, 20)
    if LONG:
        n_kill = 200
    src = write("kill.jsonl", requests(n))
    batch(src, "calm.out")
    want = answers("calm.out")
    check(len(want) == n, f"{len(want)} answers of {n}")
    n_cut = n_run = 0
    while n_run < n_kill:
        if os.path.exists(path("kill.out")):
            os.remove(path("kill.out"))
        while n_run < n_kill:
            run = subprocess.Popen([QUOTH, "batch", MODEL, "-i", src, "-o", path("kill.out"), "-q"])
            size = os.path.getsize(path("kill.out")) if os.path.exists(path("kill.out")) else 0
            for _ in range(300):  # wait until the run writes
                time.sleep(0.01)
                if run.poll() is not None or (os.path.exists(path("kill.out")) and
                                              os.path.getsize(path("kill.out")) > size):
                    break
            time.sleep(random.random() * 0.1)
            run.kill()
            done = run.wait() == 0
            if done:
                break
            n_run += 1
            with open(path("kill.out"), "rb") as f:  # also simulate a kill during a write
                data = f.read()
            if n_run % 3 == 0 and data:
                cut = len(data) - random.randrange(1, min(len(data), 400))
                os.truncate(path("kill.out"), cut)
                n_cut += 1
        batch(src, "kill.out")
        check(answers("kill.out") == want, "answers differ from an undisturbed run's")
    print(f"     {n_run} kills, {n_cut} files cut")


def cut_at_every_byte():
    src = write("cut.jsonl", requests(12))
    batch(src, "cut.out")
    want = answers("cut.out")
    with open(path("cut.out"), "rb") as f:
        data = f.read()
    last = data.rindex(b"\n", 0, len(data) - 1) + 1
    places = range(last, len(data)) if LONG else random.sample(range(last, len(data)), 6) + [last, len(data) - 1]
    for cut in places:
        with open(path("cut.out"), "wb") as f:
            f.write(data[:cut])
        batch(src, "cut.out")
        check(answers("cut.out") == want, f"cut at {cut}")


def stopped_by_a_signal():
    src = write("stop.jsonl", "".join(line(f"s{i}", {"prompt": "Once", "max_tokens": 400, "ignore_eos": True,
                                                     "temperature": 0}) for i in range(300)))
    run = subprocess.Popen([QUOTH, "batch", MODEL, "-i", src, "-o", path("stop.out")], stderr=subprocess.PIPE, text=True)
    time.sleep(0.7)
    start = time.time()
    run.send_signal(signal.SIGINT)
    err = run.communicate(timeout=60)[1]
    check(run.returncode == 1 and "resumes" in err, f"{run.returncode}: {err}")
    check(time.time() - start < (30 if SLOW else 5), "it took its time")
    answers("stop.out")


def example_of_the_readme():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        src = write("readme.jsonl", f.read().split("```json\n")[1].split("```")[0])
    batch(src, "readme.out")
    got = answers("readme.out")
    check(set(got) == {"a", "b"} and all(v[0] == 200 for v in got.values()), f"{got}")
    check("85" in got["a"][1][0]["message"]["content"], f"{got}")


def files_that_are_not_its_own():
    src = write("own.jsonl", requests(3))
    for text in ("my diary, no newline", "my diary\n", '{"id": 1}\n', requests(4)):
        dst = write("other.out", text)
        check("quoth batch" in batch(src, "other.out", status=1), "the sentence")
        with open(dst) as f:
            check(f.read() == text, "somebody's file was changed")
    check("quoth batch" in batch(src, "own.jsonl", status=1), "answers among the requests")
    check("own.jsonl" not in batch(path("no such file"), "new.out", status=1), "a missing input")
    batch(src, ".", status=1)
    run = subprocess.run([QUOTH, "batch", MODEL], capture_output=True, text=True)
    check(run.returncode == 2 and "usage" in run.stderr, "usage")


def two_at_once():
    src = write("both.jsonl", "".join(line(f"s{i}", {"prompt": "Once", "max_tokens": 200, "ignore_eos": True})
                                      for i in range(200)))
    first = subprocess.Popen([QUOTH, "batch", MODEL, "-i", src, "-o", path("both.out"), "-q"])
    while not os.path.exists(path("both.out")) and first.poll() is None:
        time.sleep(0.01)
    time.sleep(0.05)
    err = batch(src, "both.out", status=1)
    first.kill()
    first.wait()
    check("another run" in err, err)


run([answers_and_refusals, lines_with_nul, once_more_does_nothing, killed_anywhere, cut_at_every_byte, stopped_by_a_signal,
     example_of_the_readme, files_that_are_not_its_own, two_at_once])
