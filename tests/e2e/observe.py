#!/usr/bin/env python3
"""Goal: a server's trace tells the story of every request, also when the server is killed.
Method: traces of concurrent requests, compared with what clients were told and with the metrics.

Environment: QUOTH the program, QUOTH_ROOT the repository. Prints "ok NAME", "skip NAME" or "FAIL NAME: why" per test."""
import collections
import json
import os
import subprocess
import threading
import time

from server import MODEL, QUOTH, TMP, Server, check, run

# ---- traces ----

def slices(events):
    """{(process, lane): [(begin, end, name, args)]}; all slices of a lane lie inside or beside each other."""
    lanes = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            check(e["dur"] >= 0 and e["ts"] > 0, e)
            lanes[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"], e["name"], e["args"]))
    for rows in lanes.values():
        rows.sort(key=lambda r: (r[0], -r[1]))
        open_until = []
        for begin, end, name, _ in rows:
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            check(not open_until or end <= open_until[-1], (name, begin, end, open_until))
            open_until.append(end)
    return lanes


def ask_all(s, n):
    got = {}

    def one(i):
        body = {"prompt": "word " * (10 + 40 * i), "max_tokens": 5 + 7 * i, "ignore_eos": True}
        got[f"trace-{i}"] = s.ask("POST", "/v1/completions", body, {"X-Request-Id": f"trace-{i}"})[2]["usage"]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got


def trace():
    """a trace has every request from its arrival to its end, and every step, in Chrome's format"""
    path = os.path.join(TMP, "trace.json")
    s = Server("--trace-file", path, "--max-num-seqs", "3", "--max-num-batched-tokens", "64")
    try:
        got = ask_all(s, 8)
        s.settle()
        n_step, n_row = s.metric("quoth:steps_total"), s.metric("quoth:rows_total")
        check(s.metric("quoth:trace_events_dropped_total") == 0)
    finally:
        s.stop()
    with open(path) as f:
        events = json.load(f)
    check(isinstance(events, list) and all({"ph", "pid", "tid", "name"} <= set(e) for e in events))
    lanes = slices(events)
    steps = [r for rows in lanes.values() for r in rows if r[2] == "step"]
    check(len(steps) == n_step and sum(r[3]["rows"] for r in steps) == n_row, (len(steps), n_step))
    for begin, end, _, args in steps:
        parts = sum(args[f"{p}_us"] for p in ("schedule", "forward", "sample", "commit"))
        check(abs(parts - (end - begin)) <= 0.05 * (end - begin) + 2000, (begin, end, args))
    done = {e["args"]["id"]: e for e in events if e["name"].startswith("done")}
    check(set(done) == set(got), done)
    for name, usage in got.items():
        args = done[name]["args"]
        check((args["prompt_tokens"], args["output_tokens"]) == (usage["prompt_tokens"], usage["completion_tokens"]), (args, usage))
        check(args["finish_reason"] == "length" and 0 <= args["queue_us"] <= args["first_token_us"] <= args["all_us"], args)
    computed = sum(r[3]["tokens"] for rows in lanes.values() for r in rows if r[2] in ("prefill", "decode"))
    check(computed == n_row, (computed, n_row))
    running = [r for (process, _), rows in lanes.items() if process == 2 for r in rows if r[2].startswith("request")]
    waits = [r for (process, _), rows in lanes.items() if process == 3 for r in rows]
    check(len(running) == 8 == len(waits) and {lane for process, lane in lanes if process == 2} <= {1, 2, 3}, lanes.keys())
    chunks = [r for rows in lanes.values() for r in rows if r[2] == "prefill"]
    check(len(chunks) > 8 and max(r[3]["tokens"] for r in chunks) <= 64, "long prompts come in chunks")
    check({e["args"]["name"] for e in events if e["name"] == "process_name"} == {"engine", "running", "waiting"})
    curves = {e["name"] for e in events if e["ph"] == "C"}
    check(curves == {"sequences", "KV pages"}, curves)


def killed():
    """the trace of a server that was killed lacks nothing but its end"""
    path = os.path.join(TMP, "killed.json")
    s = Server("--trace-file", path)
    got = ask_all(s, 3)
    time.sleep(0.5)
    s.process.kill()
    s.process.wait()
    with open(path) as f:
        text = f.read()
    check(not text.rstrip().endswith("]"), text[-100:])
    events = json.loads(text + "]")
    check({e["args"].get("id") for e in events if e["name"].startswith("done")} == set(got), text[-300:])
    slices(events)


def trace_limits():
    """a trace that cannot be written is refused, a full one ends"""
    r = subprocess.run([QUOTH, "serve", MODEL, "--port", "0", "--trace-file", "/nowhere/trace.json"], capture_output=True, text=True,
                       timeout=60)
    check(r.returncode == 1 and "--trace-file /nowhere/trace.json" in r.stderr, r)
    if os.path.exists("/dev/full"):
        r = subprocess.run([QUOTH, "serve", MODEL, "--port", "0", "--trace-file", "/dev/full"], capture_output=True, text=True,
                           timeout=60)
        check(r.returncode == 1 and "/dev/full" in r.stderr, r)


run([trace, killed, trace_limits])
