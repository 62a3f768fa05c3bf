#!/usr/bin/env python3
# alone: it measures time
"""Goal: the report of quoth bench serve is correct. Method: a server with given delays before each
token records the time of each send. Every figure must be within 2 % of the figure computed from
these delays. If the record differs from the delays by more than 1 %, because the machine was busy,
the expected figures are computed from the record. Then quoth serve is measured, over TCP, TLS and a
unix socket.

Environment: QUOTH the program, QUOTH_ROOT the repository. The script prints "ok NAME", "skip NAME"
or "FAIL NAME: why" per test."""
import asyncio
import http.server
import json
import os
import re
import subprocess
import threading
import time

from server import MODEL, QUOTH, TMP, Failed, Server, certificate, check, run

GAPS = (0.02, 0.04, 0.06)  # seconds between tokens, in turns
FIRST = (0.15, 0.30)  # seconds before the first token, in turns over the requests
N_TOKEN = 10


def size(word):
    """Return the number of tokens of a word at the test's server."""
    return 2 if len(word) > 5 else 1


class Delays:
    """A server with known delays, in a thread. behave(i, request) returns the answer to request i.
    The answer gives the delays before each event and the tokens of an event, or a status, or a
    truncated stream."""

    def __init__(self, behave=None, meta=None, text="prompt", marks=True, peaks=None):
        self.behave = behave or (lambda i, request: {})
        self.meta, self.text, self.marks, self.peaks = meta, text, marks, peaks
        self.requests, self.paths, self.heads = [], [], []
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        self.thread = threading.Thread(target=self.serve, args=(ready,), daemon=True)
        self.thread.start()
        ready.wait(10)
        self.url = f"http://127.0.0.1:{self.port}"

    def serve(self, ready):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.connection, "127.0.0.1", 0, backlog=512))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self.loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)

    async def connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                start = time.perf_counter()
                length = re.search(r"(?i)^content-length: (\d+)", head, re.M)
                body = await reader.readexactly(int(length.group(1))) if length else b""
                await self.answer(head, body, writer, start)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, head, body, writer, start):
        path = head.split(" ", 2)[1]
        self.paths.append(path)
        self.heads.append(head)
        if path.endswith("/completions"):
            return await self.complete(json.loads(body), writer, start)
        if path == "/v1/models":
            reply = {"data": [{"id": "delays", "root": "delays", **({"meta": self.meta} if self.meta else {})}]}
        elif path == "/tokenize" and self.text:
            n = sum(size(w) for w in re.findall(r"\w+|[^\w\s]", json.loads(body).get(self.text, "")))
            reply = {"count": n} if self.text == "prompt" else {"tokens": [1] * n}
        elif path.split("?")[0] == "/metrics":
            reply = self.metrics()
        else:
            reply = None
        data = reply.encode() if isinstance(reply, str) else json.dumps(reply).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (200 if reply else 404, len(data)) + data)

    def metrics(self):
        n = len(self.requests)
        marks = ("quoth:num_requests_running_max 3\nquoth:num_requests_waiting_max 1\nquoth:kv_cache_usage_perc_max 0.5\n"
                 if self.marks else "")
        if self.peaks:
            marks += f"quoth:peak_flops{{activation=\"int8\"}} {self.peaks[0]}\nquoth:peak_read_bytes_per_second {self.peaks[1]}\n"
        return (f"# HELP vllm:num_requests_running x\nvllm:num_requests_running{{engine=\"0\"}} 2.0\n"
                f"vllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.25\n{marks}"
                f"vllm:prefix_cache_queries_total{{model_name=\"a \\\"}} b\"}} {100 * n}\nvllm:prefix_cache_hits_total {25 * n}\n"
                f"vllm:spec_decode_num_drafts_total {2 * n}\nvllm:spec_decode_num_draft_tokens_total {8 * n}\n"
                f"vllm:spec_decode_num_accepted_tokens_total {6 * n}\n"
                f"vllm:estimated_flops_per_gpu_total {1e9 * n}\nvllm:estimated_read_bytes_per_gpu_total {1e8 * n}\n")

    def event(self, chat, what, index=0, reason=None):
        choice = {"index": index, "finish_reason": reason}
        choice.update({"delta": what} if chat else {"text": what})
        return {"choices": [choice]}

    async def complete(self, request, writer, start):
        chat = "messages" in request
        note = {"start": start, "sent": [], "request": request, "n": 0}
        self.requests.append(note)
        how = {"first": FIRST[0], "gaps": GAPS, "status": 200, "per_event": 1, "cut": False, "events": None}
        how.update(self.behave(len(self.requests) - 1, request))
        if how["status"] != 200:
            data = json.dumps({"error": {"message": "too many", "code": how["status"]}}).encode()
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n" % (how["status"], len(data)) + data)
            return

        def send(event):
            data = event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n"
            writer.write(b"%x\r\n" % len(data) + data + b"\r\n")

        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        if chat:
            send(self.event(True, {"role": "assistant", "content": ""}))
        send(b": ping\n\n")
        due = start + how["first"]
        n_event = how["events"] or request.get("max_tokens") or request["max_completion_tokens"]
        for k in range(n_event):
            await asyncio.sleep(max(0, due - time.perf_counter()))
            send(self.event(chat, {"content": "a"} if chat else "a"))
            note["sent"].append(time.perf_counter())
            due += how["gaps"][k % len(how["gaps"])]
            if how["cut"] and k == 2:
                await writer.drain()
                writer.close()
                return
        note["n"] = n_event * how["per_event"]
        send(self.event(chat, {} if chat else "", reason="length"))
        usage = {"prompt_tokens": 7, "completion_tokens": note["n"], "prompt_tokens_details": {"cached_tokens": 2}}
        send({"choices": [], "usage": usage})
        send(b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")


def bench(server, *options, status=0):
    """Run quoth bench serve and return its JSON object."""
    out = subprocess.run([QUOTH, "bench", "serve", "--base-url", server if isinstance(server, str) else server.url, "--json",
                          "--save-detailed", "--metric-percentiles", "50,90,99.5", *options],
                         capture_output=True, text=True, timeout=120, env={**os.environ, "OPENAI_API_KEY": "sesame"})
    check(out.returncode == status, (out.returncode, out.stderr, out.stdout[:200]))
    return json.loads(out.stdout) if out.stdout else out.stderr


# ---- expected figures ----

def percentile(values, percent):
    v = sorted(values)
    at = (len(v) - 1) * percent / 100
    low = int(at)
    return v[low] + (v[min(low + 1, len(v) - 1)] - v[low]) * (at - low)


def spread(name, seconds):
    """Return the keys of one latency."""
    ms = [1000 * s for s in seconds]
    mean = sum(ms) / len(ms)
    out = {f"mean_{name}_ms": mean, f"std_{name}_ms": (sum((x - mean) ** 2 for x in ms) / len(ms)) ** 0.5,
           f"median_{name}_ms": percentile(ms, 50)}
    return {**out, **{f"p{p}_{name}_ms": percentile(ms, float(p)) for p in ("50", "90", "99.5")}}


def figures(seen, n_input, slo=None):
    """Compute the expected output of bench serve from seen: (arrival, start, times of tokens,
    tokens) of each request."""
    begin, end = min(s[1] for s in seen), max(s[2][-1] for s in seen)
    out = {"duration": end - begin, "completed": len(seen), "total_input_tokens": n_input * len(seen),
           "total_output_tokens": sum(s[3] for s in seen)}
    out["request_throughput"] = len(seen) / (end - begin)
    out["requests_per_minute"] = 60 * out["request_throughput"]
    out["output_throughput"] = out["total_output_tokens"] / (end - begin)
    out["total_token_throughput"] = out["output_throughput"] + out["total_input_tokens"] / (end - begin)
    good = [slo is None or s[2][0] - s[1] <= slo for s in seen]
    out["goodput_share"] = sum(good) / len(seen)
    if slo is not None:
        out["request_goodput"] = sum(good) / (end - begin)
    edges = sorted([(s[1], 1) for s in seen] + [(s[2][-1], -1) for s in seen])
    now, out["max_concurrent_requests"] = 0, 0
    for _, by in edges:
        now += by
        out["max_concurrent_requests"] = max(now, out["max_concurrent_requests"])
    out.update(spread("ttft", [s[2][0] - s[1] for s in seen]))
    out.update(spread("itl", [b - a for s in seen for a, b in zip(s[2], s[2][1:])]))
    out.update(spread("tpot", [(s[2][-1] - s[2][0]) / (s[3] - 1) for s in seen]))
    out.update(spread("e2el", [s[2][-1] - s[1] for s in seen]))
    out.update(spread("e2el_per_token", [(s[2][-1] - s[1]) / s[3] for s in seen]))
    out.update(spread("client_queue_time", [s[1] - s[0] for s in seen]))
    out.update(spread("e2el_including_client_queue", [s[2][-1] - s[0] for s in seen]))
    return out


def compare(got, planned, noted):
    """Check that every key is within 2 % of the plan, or within 1 ms for latencies and their
    spreads. Compare with the server's record if the server could not keep its plan. Extreme
    percentiles then also include the waits of threads for a processor. The limit of these
    percentiles is therefore 10 % or 10 ms."""
    wrong = []
    for key, want in planned.items():
        small, share = 1.0 if key.endswith("_ms") else 0, 0.02
        if key in noted and abs(noted[key] - want) > max(0.01 * abs(want), small / 2):
            want = noted[key]
            if key.startswith(("std", "p9")):
                small, share = 10, 0.1
        if not abs(got[key] - want) <= max(share * abs(want), small):
            wrong.append(f"{key} is {got[key]}, not {want:.4f} (planned {planned[key]:.4f}, noted {noted.get(key, 0):.4f})")
    in_time(not wrong, f"{len(wrong)} of {len(planned)}: " + "; ".join(wrong[:4]))


class Late(Failed):
    pass


def in_time(ok, why):
    """Check a condition that a busy machine may violate."""
    if not ok:
        raise Late(str(why)[:600])


class Probe:
    """Measure the delay of wake-ups after a sleep of 4 ms on this machine, during the block. late()
    is the 98th percentile of the delay in ms."""

    def __enter__(self):
        self.lateness, self.ends = [], False
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.ends:
            start = time.perf_counter()
            time.sleep(0.004)
            self.lateness.append(time.perf_counter() - start - 0.004)

    def __exit__(self, *what):
        self.ends = True
        self.thread.join()

    def late(self):
        return 1000 * percentile(self.lateness, 98)


def steady(test):
    """Repeat a measurement up to three times, because other programs disturb it. Fail after two
    failures while threads wake in time. If threads wake late, the test has no result."""
    def tried():
        n_failed, late = 0, 0
        for _ in range(3):
            try:
                with Probe() as probe:
                    return test()
            except Late:
                late = max(late, probe.late())
                n_failed += probe.late() < 2
                if n_failed == 2:
                    raise
        return f"this machine is too busy: it wakes threads {late:.0f} ms late"

    tried.__doc__ = test.__doc__
    return tried


def workers(n_worker, n_request, first):
    """Plan (arrival, start, token times, tokens) if all requests arrive together and n_worker of
    them are in flight."""
    free, seen = [0.0] * n_worker, []
    for i in range(n_request):
        free.sort()
        times = [free[0] + first(i)]
        for k in range(N_TOKEN - 1):
            times.append(times[-1] + GAPS[k % len(GAPS)])
        seen.append((0.0, free[0], times, N_TOKEN))
        free[0] = times[-1]
    return seen


def noted(server):
    """Return the server's record in the form of figures(). All requests arrive together."""
    done = [r for r in server.requests if r["n"]]
    begin = done[0]["start"]
    return [(0.0, r["start"] - begin, [t - begin for t in r["sent"]], r["n"]) for r in done]


def unlimited(keys):
    """Return the keys of clients that never wait for each other. A server's record has the time of
    reading a request, not the time of sending it."""
    return {k: v for k, v in keys.items() if "queue" not in k}


# ---- tests ----

def closed_loop():
    """every figure of requests under a limit follows from their delays"""
    server = Delays(lambda i, request: {"first": FIRST[i % 2]}, meta={"n_vocab": 5000})
    got = bench(server, "--num-prompts", "24", "--max-concurrency", "6", "--random-input-len", "7", "--random-output-len",
                str(N_TOKEN), "--goodput", "ttft:225", "--goodput-share", "0.1", "--seed", "3")
    server.stop()
    analytic = figures(workers(6, 24, lambda i: FIRST[i % 2]), 7, 0.225)
    compare(got, analytic, figures(noted(server), 7, 0.225))
    check(got["slo_met"] is True and got["failed"] == 0 and got["model_id"] == "delays" and got["num_prompts"] == 24)
    seconds = [0] * 20
    for _, _, times, _ in noted(server):
        for t in times:
            seconds[int(t)] += 1
    in_time(abs(got["max_output_tokens_per_s"] - max(seconds)) <= 0.05 * max(seconds), (got["max_output_tokens_per_s"], seconds))
    prompts = [r["request"]["prompt"] for r in server.requests]
    check(all(len(p) == 7 and all(0 <= t < 5000 for t in p) for p in prompts) and len({tuple(p) for p in prompts}) == 24)
    check(all(r["request"]["ignore_eos"] and r["request"]["max_tokens"] == N_TOKEN for r in server.requests))
    check(all("Authorization: Bearer sesame" in h for h in server.heads))
    ids = {re.search(r"(?i)x-request-id: (\S+)", h).group(1) for h in server.heads if "x-request-id" in h.lower()}
    check(len(ids) == 24, ids)
    for key, want in (("prefix_cache_hit_rate", 0.25), ("spec_decode_acceptance_rate", 75), ("spec_decode_acceptance_length", 4),
                      ("kv_cache_usage_max", 0.5), ("running_max", 3), ("waiting_max", 1), ("spec_decode_num_drafts", 48),
                      ("total_cached_tokens", 48), ("flops_per_s", 24e9 / got["duration"]), ("mfu", None)):
        check(got[key] == want if want is None else abs(got[key] - want) <= 0.02 * want, (key, got[key], want))
    check(all(len(got[k]) == 24 for k in ("ttfts", "itls", "input_lens", "output_lens", "errors", "generated_texts", "latencies")))
    check(got["generated_texts"][0] == "a" * N_TOKEN and len(got["itls"][5]) == N_TOKEN - 1)


def open_loop():
    """requests with random send times arrive at their times, and are answered without waiting"""
    server = Delays()
    got = bench(server, "--num-prompts", "60", "--request-rate", "30", "--burstiness", "0.5", "--random-input-len", "7",
                "--random-output-len", "6", "--peak-tflops", "1", "--peak-gbs", "10", "--goodput", "ttft:200", "e2el:1000")
    server.stop()
    starts = sorted(r["start"] for r in server.requests)
    offered = 59 / (starts[-1] - starts[0])
    in_time(abs(got["request_rate_offered"] / offered - 1) < 0.02, (got["request_rate_offered"], offered))
    want = figures(noted(server), 7, 0.2)
    planned = {**want, **spread("ttft", [FIRST[0]] * 60), **spread("e2el", [FIRST[0] + 0.02 + 0.04 + 0.06 + 0.02 + 0.04] * 60),
               **spread("itl", [0.02, 0.04, 0.06, 0.02, 0.04] * 60)}
    compare(got, unlimited(planned), want)  # closed_loop detects late requests
    check(abs(got["mfu"] - 60e9 / got["duration"] / 1e12) < 0.02 * got["mfu"] and got["bandwidth_share"] > 0)
    # the size of the vocabulary is unknown
    words = [r["request"]["prompt"] for r in server.requests]
    check(all(sum(size(w) for w in re.findall(r"\w+|[^\w\s]", p)) == 7 for p in words), words[:3])


def tokens_together():
    """events with several tokens, a conversation, events without tokens"""
    # llama.cpp's name of a text
    server = Delays(lambda i, request: {"per_event": 3, "events": 5}, text="content")
    got = bench(server, "--backend", "openai-chat", "--num-prompts", "8", "--random-input-len", "40", "--random-output-len", "15",
                "--random-prefix-len", "20", "--temperature", "0", "--extra-body", '{"top_k":5,"nested":{"a":[1]}}')
    server.stop()
    seen = [(0.0, 0.0, [FIRST[0], FIRST[0] + 0.02, FIRST[0] + 0.06, FIRST[0] + 0.12, FIRST[0] + 0.14], 15)] * 8
    want = figures(noted(server), 7)
    planned = {**want, **{k: v for k, v in figures(seen, 7).items() if k.endswith("_ms")}}
    compare(got, unlimited(planned), want)
    for k in ("mean", "median", "p90", "p99.5"):  # requests are sent earlier than read
        key = f"{k}_client_queue_time_ms"
        in_time(0 <= got[key] <= want[key] + 1, (key, got[key], want[key]))
    both = got["mean_e2el_ms"] + got["mean_client_queue_time_ms"]
    check(abs(got["mean_e2el_including_client_queue_ms"] - both) < 1e-3, (got["mean_e2el_including_client_queue_ms"], both))
    check(got["output_lens"] == [15] * 8 and len(got["itls"][0]) == 4, got["output_lens"])
    texts = [r["request"]["messages"][0]["content"] for r in server.requests]
    check(all(sum(size(w) for w in re.findall(r"\w+|[^\w\s]", t)) == 60 for t in texts), texts[0])
    check(len({t[:40] for t in texts}) == 1 and len(set(texts)) == 8, "the prefix is shared, the rest is not")
    body = server.requests[0]["request"]
    check(body["temperature"] == 0 and body["top_k"] == 5 and body["nested"] == {"a": [1]} and body["max_completion_tokens"] == 15)


def failures():
    """failures are counted and reported by name, and missed objectives cause exit status 1"""
    server = Delays(lambda i, request: {"first": 0.02, "gaps": (0.005,), "status": 429 if i % 4 == 1 else 200, "cut": i % 4 == 3})
    got = bench(server, "--num-prompts", "16", "--random-input-len", "7", "--random-output-len", "5", "--goodput", "ttft:5000",
                "--goodput-share", "0.9", status=1)
    check(got["completed"] == 8 and got["failed"] == 8 and got["slo_met"] is False and got["goodput_share"] == 0.5, got)
    check(got["total_output_tokens"] == 40 and sorted({e[:8] for e in got["errors"]})[:2] == ["", "HTTP 429"], got["errors"])
    check(sum("too many" in e for e in got["errors"]) == 4)
    server.behave = lambda i, request: {"status": 503}
    check(bench(server, "--num-prompts", "3", status=1)["completed"] == 0)
    server.stop()
    check("delays" not in bench("http://127.0.0.1:9", "--num-prompts", "3", status=1))
    check("--dataset-name: must be" in bench(server, "--dataset-name", "no", status=2))
    check("--percentile-metrics: must be" in bench(server, "--percentile-metrics", "x", status=2))
    for wrong, word, status in ((["--goodput", "ttft"], "--goodput", 2),
                                (["--dataset-name", "custom"], "--dataset-path", 1),
                                (["--ramp-up-strategy", "linear"], "--ramp-up", 1), (["--extra-body", "[]"], "--extra-body", 2)):
        check(word in bench(server, *wrong, status=status), wrong)


def hostile():
    """a server with impossible figures gets prompts of words, and its text cannot move the
    cursor"""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.say(200, json.dumps({"data": [{"id": "m", "max_model_len": wrong, "meta": {"n_vocab": wrong}}]}))

        def do_POST(self):
            self.say(500, "\x1b[31m\u009b" + "x")

        def say(self, status, text):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for wrong in (-1, 0, 2 ** 31, 9e18, "x"):
        out = subprocess.run([QUOTH, "bench", "serve", "--base-url", f"http://127.0.0.1:{server.server_address[1]}",
                              "--num-prompts", "2", "--random-input-len", "5"], capture_output=True, timeout=60)
        check(out.returncode == 1 and b"request 1: HTTP 500: ?[31m??x" in out.stderr, (wrong, out.returncode, out.stderr))
    server.shutdown()


def datasets():
    """datasets are sent unchanged: a trace at its times, a file's prompts, repeated prefixes"""
    server = Delays(lambda i, request: {"first": 0.01, "gaps": (0.002,)}, meta={"n_vocab": 300})
    trace, custom, gpt = (os.path.join(TMP, name) for name in ("trace.jsonl", "custom.jsonl", "gpt.json"))
    with open(trace, "w") as f:
        for i in range(10):
            f.write(json.dumps({"timestamp": 100 * i, "input_length": 520 + i, "output_length": 3 + i % 2,
                                "hash_ids": [1, 10 + i]}) + "\n")
    got = bench(server, "--dataset-name", "trace", "--dataset-path", trace)
    starts = [r["start"] - server.requests[0]["start"] for r in server.requests]
    late = [abs(s - 0.1 * i) for i, s in enumerate(starts)]
    in_time(sorted(late)[len(late) // 2] < 0.005, late)
    check(abs(got["request_rate_offered"] - 10) < 0.01, got["request_rate_offered"])
    prompts = [r["request"]["prompt"] for r in server.requests]
    check([len(p) for p in prompts] == list(range(520, 530)) and len({tuple(p[:512]) for p in prompts}) == 1)
    check([r["request"]["max_tokens"] for r in server.requests] == [3, 4] * 5)
    with open(custom, "w") as f:
        f.write('{"prompt": "one \\u20ac", "output_tokens": 2}\n\n{"prompt": "two"}\n')
    server.requests.clear()
    bench(server, "--dataset-name", "custom", "--dataset-path", custom, "--num-prompts", "5", "--disable-shuffle")
    sent = sorted((r["request"]["prompt"], r["request"]["max_tokens"]) for r in server.requests)
    check(sent == [("one \u20ac", 2)] * 3 + [("two", 256)] * 2, sent)
    with open(gpt, "w") as f:
        json.dump([{"conversations": [{"from": "human", "value": f"q{i}"}, {"from": "gpt", "value": "a b c"}]} for i in range(4)] +
                  [{"conversations": []}], f)
    server.requests.clear()
    bench(server, "--dataset-name", "sharegpt", "--dataset-path", gpt, "--num-prompts", "9", "--no-oversample")
    check(sorted(r["request"]["prompt"] for r in server.requests) == ["q0", "q1", "q2", "q3"])
    check({r["request"]["max_tokens"] for r in server.requests} == {3})
    server.requests.clear()
    bench(server, "--dataset-name", "prefix_repetition", "--num-prompts", "12", "--prefix-repetition-num-prefixes", "3",
          "--prefix-repetition-prefix-len", "8", "--prefix-repetition-suffix-len", "4", "--output-len", "2", "--num-warmups", "2")
    prompts = [r["request"]["prompt"] for r in server.requests]
    check(len(prompts) == 14 and len({tuple(p[:8]) for p in prompts}) == 3 and len({tuple(p) for p in prompts}) == 12)
    server.stop()


def lengths():
    """prompts have the requested length by any counter, and a word counts as a token without a
    counter"""
    server = Delays(lambda i, request: {"first": 0.01, "gaps": (0.002,)}, text=None)
    options = ["--num-prompts", "4", "--random-input-len", "33", "--random-output-len", "2"]
    bench(server, *options)
    check([len(r["request"]["prompt"].split()) for r in server.requests] == [33] * 4, server.requests[0]["request"])
    server.requests.clear()
    bench(server, *options, "--tokenizer", MODEL)
    check(all(len(r["request"]["prompt"]) == 33 and max(r["request"]["prompt"]) < 4096 for r in server.requests))
    server.requests.clear()
    bench(server, *options, "--tokenizer", MODEL, "--backend", "openai-chat")
    texts = "".join(json.dumps(r["request"]["messages"][0]["content"]) + "\n" for r in server.requests)
    out = subprocess.run([QUOTH, "tokenize", MODEL, "--jsonl", "--no-special"], input=texts, capture_output=True, text=True, timeout=60)
    n = [len(re.findall(r"\d+", row)) for row in out.stdout.splitlines()]
    check(n == [33] * 4, (n, texts, out.stderr))
    server.stop()


def reports():
    """The table has vllm's format. The files are written. The page has the curves. Unknown figures are omitted."""
    server = Delays(lambda i, request: {"first": 0.01, "gaps": (0.002,)}, marks=False)
    page = os.path.join(TMP, "page.html")
    out = subprocess.run([QUOTH, "bench", "serve", "--base-url", server.url + "/v1/", "--num-prompts", "12", "--max-concurrency", "3",
                          "--random-input-len", "7", "--random-output-len", "5", "--save-result", "--append-result", "--result-dir",
                          os.path.join(TMP, "results"), "--label", "night", "--metadata", "tp=1", "note=a b", "--html", page,
                          "--goodput", "ttft:500", "tpot:50"], capture_output=True, text=True, timeout=60)
    check(out.returncode == 0, out.stderr)
    for row in ("============ Serving Benchmark Result ============", "Successful requests:                     12        ",
                "Maximum request concurrency:             3         ", "Request goodput (req/s): ", "Total token throughput (tok/s): ",
                "---------------Time to First Token----------------", "-----Time per Output Token (excl. 1st token)------",
                "P99 ITL (ms):", "Prefix cache hit rate (%):               25.00", "=" * 50):
        check(row in out.stdout, (row, out.stdout))
    for row in ("Running requests, most", "Waiting requests, most", "KV cache usage, most", "Model FLOPs utilization", "nan"):
        check(row not in out.stdout, (row, out.stdout))
    name = [n for n in os.listdir(os.path.join(TMP, "results"))]
    check(len(name) == 1 and re.fullmatch(r"night-infqps-concurrency3-delays-\d{8}-\d{6}\.json", name[0]), name)
    with open(os.path.join(TMP, "results", name[0])) as f:
        got = json.load(f)
    check(got["tp"] == "1" and got["note"] == "a b" and got["label"] == "night" and "ttfts" not in got and got["completed"] == 12)
    check(got["request_rate"] == "inf" and got["max_concurrency"] == 3 and got["backend"] == "openai", got)
    with open(page) as f:
        text = f.read()
    check(text.count("<svg") >= 5 and "</html>" in text and "nan" not in text.lower().replace("tenant", "") and "inf" not in
          text.split("</pre>")[1] and "src=" not in text, "the page")
    server.stop()


def against_itself():
    """quoth serve is measured: the counts equal those of the server's metrics, over TCP, a unix
    socket and TLS"""
    main = Server()
    options = ["--num-prompts", "24", "--random-input-len", "60", "--random-output-len", "12", "--max-concurrency", "8"]
    got = bench(main.url, *options, "--random-prefix-len", "64")
    check(got["completed"] == 24 and got["total_input_tokens"] == 24 * 124 and got["total_output_tokens"] == 24 * 12, got)
    main.settle()
    own = [main.metric(f"vllm:{name}_tokens_total") for name in ("prompt", "generation")]
    check(own == [24 * 124, 24 * 12], own)
    check(0.3 < got["prefix_cache_hit_rate"] < 0.6 and got["flops_per_s"] > 0 and got["total_cached_tokens"] > 0, got)
    check(got["max_concurrent_requests"] <= 8 and got["output_lens"] == [12] * 24, (got["max_concurrent_requests"], got["output_lens"]))
    text = bench(main.url, *options, "--backend", "openai-chat")
    check(text["completed"] == 24 and text["total_output_tokens"] == 24 * 12, text["errors"])
    main.stop()
    path = os.path.join(TMP, "serve.sock")
    other = Server("--uds", path)
    got = bench("http://localhost", "--uds", path, *options)
    check(got["completed"] == 24, got["errors"])
    other.stop()
    pair = certificate()
    if not pair:
        return "TLS: no openssl"
    secure = Server("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1])
    check(bench(secure.url, *options, "--ssl-ca-file", pair[0])["completed"] == 24)
    check(bench(secure.url, *options, "--insecure")["completed"] == 24)
    check("ertificate" in bench(secure.url, *options, status=1))
    secure.stop()
    return None


def utilization():
    """the server's measured peaks give utilization without flags; a rate above that of memory comes
    from a cache"""
    server = Delays(lambda i, request: {"first": 0.01, "gaps": (0.002,)}, peaks=(5e12, 1e6))
    out = os.path.join(TMP, "utilization.json")
    got = subprocess.run([QUOTH, "bench", "serve", "--base-url", server.url, "--num-prompts", "12", "--random-input-len", "7",
                          "--random-output-len", "5", "--save-result", "--result-filename", out], capture_output=True, text=True,
                         timeout=60)
    server.stop()
    check(got.returncode == 0, got.stderr)
    with open(out) as f:
        result = json.load(f)
    check(abs(result["mfu"] - result["flops_per_s"] / 5e12) <= 1e-6 * result["mfu"], result)
    check(abs(result["bandwidth_share"] - result["bytes_per_s"] / 1e6) <= 1e-6 * result["bandwidth_share"] > 0, result)
    check(re.search(r"^Model FLOPs utilization \(%\): +\d", got.stdout, re.M), got.stdout)
    check(re.search(r"^Bandwidth utilization \(%\): +in cache$", got.stdout, re.M), got.stdout)


def high_water():
    """maxima are the server's high-water marks, also for a run between two samples"""
    server = Server("--num-gpu-blocks-override", "24", "--max-model-len", "512", "--max-num-seqs", "16")
    options = ["--num-prompts", "40", "--random-input-len", "100", "--random-output-len", "100"]
    got = bench(server.url, *options, "--max-concurrency", "16")
    check(got["preemptions"] > 0 and got["kv_cache_usage_max"] > 0.9, got)
    check(2 <= got["running_max"] <= 16 and got["running_max"] + got["waiting_max"] >= 8, (got["running_max"], got["waiting_max"]))
    peak = got["max_output_tokens_per_s"]
    check(peak is None or peak >= got["output_throughput"], got)
    time.sleep(1.2)
    got = bench(server.url, "--num-prompts", "3", "--random-input-len", "10", "--random-output-len", "3", "--max-concurrency", "1")
    check(got["running_max"] == 1 and got["kv_cache_usage_max"] < 0.5, got)
    server.stop()


def built():
    """this build of quoth has an HTTP client"""
    out = subprocess.run([QUOTH, "bench", "serve", "--base-url", "http://127.0.0.1:9"], capture_output=True, text=True, timeout=60)
    return "built without libcurl" if "without libcurl" in out.stderr else None


without = subprocess.run([QUOTH, "bench", "serve", "--base-url", "http://127.0.0.1:9"], capture_output=True, text=True, timeout=60)
tests = [steady(closed_loop), steady(open_loop), steady(tokens_together), failures, hostile, steady(datasets), lengths, reports, against_itself, utilization, high_water]
if __name__ == "__main__":
    run([built] if "without libcurl" in without.stderr else tests, timed=True)
