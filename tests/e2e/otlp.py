#!/usr/bin/env python3
# alone: it measures time
"""Goal: every request gives exactly one span of OpenTelemetry below the client's span, with vLLM's
attributes. A collector that is dead, slow or sends garbage does not affect requests. Method: a
collector that decodes protobuf (otlp_collector.py), and sockets in place of a collector.

Environment: QUOTH the program, QUOTH_ROOT the repository. The script prints "ok NAME", "skip NAME"
or "FAIL NAME: why" per test."""
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

from badclients import Client, ask_once, post
from server import LONG, MODEL, QUOTH, SLOW, Server, check, free_port, run
from venv_for import python_with

HERE = os.path.dirname(os.path.abspath(__file__))
STORY = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0.5, "top_p": 0.75, "ignore_eos": True}
TALK = [{"role": "user", "content": "What is 47 + 38?"}]
TOKENS_16 = {"prompt": "Once upon a time", "max_tokens": 16, "ignore_eos": True, "temperature": 0}
ENDLESS = {"prompt": "Once", "max_tokens": 100000, "ignore_eos": True, "stream": True}
# path, body, choices: whole answers; those with "stream" are also streamed
REQUESTS = [("/v1/completions", STORY), ("/v1/completions", {**STORY, "stream": True}), ("/v1/completions", {**STORY, "prompt": ["a", "b", "c"], "n": 2}),
            ("/v1/completions", {**STORY, "max_tokens": 0, "echo": True}),
            ("/v1/chat/completions", {"messages": TALK, "max_tokens": 9}), ("/v1/chat/completions", {"messages": TALK, "max_tokens": 9, "stream": True}),
            ("/v1/responses", {"input": "Hi", "max_output_tokens": 16}), ("/v1/responses", {"input": "Hi", "max_output_tokens": 16, "stream": True}),
            ("/v1/responses/input_tokens", {"input": "Hi"}), ("/v1/messages", {"messages": TALK, "max_tokens": 9, "model": "tiny"}),
            ("/v1/messages", {"messages": TALK, "max_tokens": 9, "model": "tiny", "stream": True}),
            ("/v1/messages/count_tokens", {"messages": TALK, "model": "tiny"}), ("/api/chat", {"model": "tiny", "messages": TALK, "stream": False}),
            ("/api/chat", {"model": "tiny", "messages": TALK}), ("/api/generate", {"model": "tiny", "prompt": "Once", "options": {"num_predict": 5}}),
            ("/api/embed", {"model": "tiny", "input": ["a", "b"]}), ("/v1/embeddings", {"input": ["a", "b"]}),
            ("/generate", {"inputs": "Once", "parameters": {"max_new_tokens": 4}}), ("/invocations", {"messages": TALK, "max_tokens": 3})]
REFUSED = [("/v1/completions", b"{", 400), ("/v1/completions", b"[]", 400), ("/v1/chat/completions", {"messages": 1}, 400),
           ("/v1/completions", {**STORY, "temperature": "hot"}, 400), ("/v1/messages", {"model": "tiny", "messages": TALK}, 400),
           ("/api/chat", {"model": 7, "messages": TALK}, 400), ("/v1/embeddings", {"input": ""}, 400)]


class Collector:
    """otlp_collector.py in the background."""

    def __init__(self, python):
        self.process = subprocess.Popen([python, os.path.join(HERE, "otlp_collector.py")], stdout=subprocess.PIPE, text=True)
        self.base = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.url = self.base + "/v1/traces"

    def spans(self, n, seconds=20):
        """Wait for n spans. Return all of them."""
        until, found = time.monotonic() + seconds, None
        while found is None or (len(found) < n and time.monotonic() < until):
            time.sleep(0.05)
            found = json.loads(urllib.request.urlopen(self.base + "/spans").read())
        check(not any("error" in s for s in found), found[:3])
        check(len(found) >= n, f"{len(found)} spans, not {n}")
        return found

    def answer(self, *answers):
        urllib.request.urlopen(self.base + "/answers", json.dumps(answers).encode())

    def stop(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def traced(url, *options, stops=60, **variables):
    """Run the block with a server that sends spans to a URL. The server must end within `stops`
    seconds."""
    added = {"OTEL_BSP_SCHEDULE_DELAY": "50", **variables}
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        s = Server(*(["--otlp-traces-endpoint", url] if url else []), "--served-model-name", "tiny", "--disable-access-log", *options)
    finally:
        for name, text in before.items():
            os.environ.pop(name) if text is None else os.environ.update({name: text})
    try:
        yield s
    finally:
        begin = time.monotonic()
        s.stop(stops)
        check(time.monotonic() - begin < stops, f"the server ended after {time.monotonic() - begin:.1f} s")


def fresh():
    """Return a new trace and span of a client."""
    return f"{random.getrandbits(128) | 1:032x}", f"{random.getrandbits(64) | 1:016x}"


def send(s, path, body, flags="01", state=None):
    """Send a request below a client's span. Return the trace, the client's span, the answer's status
    and its header `traceparent` in parts."""
    trace, parent = fresh()
    headers = {"traceparent": f"00-{trace}-{parent}-{flags}", **({"tracestate": state} if state else {})}
    if isinstance(body, bytes):
        headers["Content-Type"] = "application/json"
    status, got, answer = s.ask("POST", path, body, headers)
    check(got["traceparent"], f"{path}: no traceparent: {answer}")
    return trace, parent, status, got["traceparent"].split("-"), answer


def one_of(spans, trace):
    found = [x for x in spans if x["trace"] == trace]
    check(len(found) == 1, f"{len(found)} spans of {trace}")
    return found[0]


def check_span(x, parent, path, status, header):
    """Check the parts of a span that all requests have."""
    a = x["attributes"]
    check((x["name"], x["kind"], x["parent"], x["scope"]) == ("llm_request", 2, parent, "quoth"), x)
    check(header[0] == "00" and header[1:3] == [x["trace"], x["span"]] and header[3] == "01" and x["span"] != parent, (header, x))
    check(a["url.path"] == path and a["http.response.status_code"] == status and a["quoth.request_id"], a)
    check(a.get("error.type") == (str(status) if status >= 400 else None) and x["status"] == (2 if status >= 500 else 0), x)
    check(x["flags"] == 0x301 and x["resource"]["service.name"] == "quoth" and x["resource"]["telemetry.sdk.language"] == "c", x)
    now = time.time_ns()
    check(now - 120e9 < x["begin"] <= x["end"] < now, x)


def check_latencies(x):
    """Check the times of a span, in seconds: parts add up, and the whole has the span's duration."""
    t = {name.rsplit(".", 1)[1]: y for name, y in x["attributes"].items() if ".latency." in name}
    check(abs(t["e2e"] - (x["end"] - x["begin"]) / 1e9) < 0.01, x)
    if "time_in_queue" in t:
        check(abs(t["time_in_model_prefill"] + t["time_in_model_decode"] - t["time_in_model_inference"]) < 1e-9, t)
        check(0 <= t["time_in_queue"] <= t["time_in_queue"] + t["time_in_model_inference"] <= t["e2e"], t)
    if "time_to_first_token" in t:
        check(abs(t["time_to_first_token"] - t["time_in_queue"] - t["time_in_model_prefill"]) < 1e-9, t)


def reaches(s, name, n):
    """Wait until a counter of a server is n, because it grows after the collector's answer."""
    until = time.monotonic() + 20
    while s.metric(name) != n and time.monotonic() < until:
        time.sleep(0.05)
    check(s.metric(name) == n, f"{name}is {s.metric(name)}, not {n}")


def every_request():
    """every request of every dialect has one span below the client's, with vLLM's attributes"""
    sent = []
    with traced(collector.url, OTEL_EXPORTER_OTLP_HEADERS="api-key=a%20b") as s:
        before = len(collector.spans(0))
        for path, body in REQUESTS:
            sent.append((path, body, send(s, path, body, state="vendor=1")))
        spans = collector.spans(before + len(sent))
        reaches(s, "quoth:otlp_spans_sent_total ", len(sent))
        check(s.metric("quoth:otlp_spans_dropped_total ") == s.metric("quoth:otlp_requests_failed_total ") == 0, "other counters")
    check(len(spans) == before + len(sent), f"{len(spans) - before} spans of {len(sent)} requests")
    for path, body, (trace, parent, status, header, answer) in sent:
        check(status == 200, answer)
        x = one_of(spans, trace)
        a = x["attributes"]
        check_span(x, parent, path, 200, header)
        check_latencies(x)
        check(x["state"] == "vendor=1" and x["headers"]["api-key"] == "a b", x)
        check(a["gen_ai.usage.prompt_tokens"] > 0 and a["gen_ai.response.model"] == "tiny", a)
        if isinstance(answer, dict) and "id" in answer:
            check(a["gen_ai.request.id"] == answer["id"], (a, answer["id"]))
        generates = "embed" not in path and "tokens" not in path and body.get("max_tokens") != 0
        check((a["gen_ai.usage.completion_tokens"] > 0) == generates == ("gen_ai.latency.time_to_first_token" in a), a)
        if body.get("temperature"):
            check((a["gen_ai.request.temperature"], a["gen_ai.request.top_p"]) == (0.5, 0.75), a)
            check(a["gen_ai.request.n"] == body.get("n", 1), a)
        if generates and path == "/v1/completions":
            n = len(body["prompt"]) if isinstance(body["prompt"], list) else 1
            check(a["gen_ai.request.max_tokens"] == 8 and a["gen_ai.usage.completion_tokens"] == 8 * n * body.get("n", 1), a)


def refused_and_aborted():
    """a rejected request, a disconnect and a full queue have one span with their status"""
    with traced(collector.url, "--max-queued-requests", "1", "--max-num-seqs", "1") as s:
        before = len(collector.spans(0))
        sent = [(path, status, send(s, path, body)) for path, body, status in REFUSED]
        sent.append(("/v1/completions", 404, send(s, "/v1/completions", {**STORY, "model": "nosuch"})))
        streams = []
        for _ in range(2):  # one runs, one waits
            trace, parent = fresh()
            c = Client(s)
            c.say(post(ENDLESS, more=f"traceparent: 00-{trace}-{parent}-01\r\n"))
            streams.append((c, trace, parent))
            until = time.monotonic() + 20
            while s.ask("GET", "/load")[2]["running"] + s.ask("GET", "/load")[2]["waiting"] < len(streams) and time.monotonic() < until:
                time.sleep(0.02)
        full = send(s, "/v1/completions", STORY)
        sent.append(("/v1/completions", 429, full))
        for c, *_ in streams:
            c.close()
        spans = collector.spans(before + len(sent) + 2)
    check(len(spans) == before + len(sent) + 2, f"{len(spans) - before} spans of {len(sent) + 2} requests")
    for path, status, (trace, parent, got, header, answer) in sent:
        check(got == status, answer)
        check_span(one_of(spans, trace), parent, path, status, header)
    for _, trace, parent in streams:
        x = one_of(spans, trace)
        check_span(x, parent, "/v1/completions", 499, ["00", trace, x["span"], "01"])
        check_latencies(x)


def in_background():
    """responses in the background and lines of batches have one span, at their end"""
    with traced(collector.url) as s:
        before = len(collector.spans(0))
        trace, parent, status, header, answer = send(s, "/v1/responses", {"input": "Hi", "max_output_tokens": 16, "background": True})
        check(status == 200 and answer["status"] == "queued", answer)
        x = one_of(collector.spans(before + 1), trace)
        check_span(x, parent, "/v1/responses", 200, header)
        check(x["attributes"]["gen_ai.request.id"] == answer["id"] and x["attributes"]["gen_ai.usage.completion_tokens"] > 0, x)
        lines = [{"custom_id": f"c{i}", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once", "max_tokens": i}} for i in (2, 3, -7)]
        text = "\n".join(map(json.dumps, lines))
        body = (f'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\n'
                f'Content-Disposition: form-data; name="file"; filename="f"\r\n\r\n{text}\r\n--b--\r\n')
        file = s.ask("POST", "/v1/files", body, {"Content-Type": "multipart/form-data; boundary=b"})[2]["id"]
        status, _, batch = s.ask("POST", "/v1/batches", {"input_file_id": file, "endpoint": "/v1/completions", "completion_window": "24h"})
        check(status == 200, batch)
        spans = [x for x in collector.spans(before + 4)[before:] if x["trace"] != trace]
        ids = sorted(x["attributes"]["quoth.request_id"] for x in spans)
        check(len(spans) == 3 and all(i.startswith(batch["id"] + ":") for i in ids) and len(set(ids)) == 3, ids)
        check(sorted(x["attributes"]["http.response.status_code"] for x in spans) == [200, 200, 400], spans)
        check(all(x["parent"] == "" and x["attributes"]["url.path"] == "/v1/completions" for x in spans), spans)


def samplers():
    """parents that are not sampled, malformed parents, samplers and names of the service"""
    with traced(None, OTEL_EXPORTER_OTLP_ENDPOINT=collector.base, OTEL_SERVICE_NAME="mine", OTEL_RESOURCE_ATTRIBUTES="a.b=c%20d") as s:
        before = len(collector.spans(0))
        trace, _, status, header, _ = send(s, "/v1/completions", STORY, flags="00")
        check(status == 200 and header[1] == trace and header[3] == "00", header)
        _, got, _ = s.ask("POST", "/v1/completions", STORY, {"traceparent": "00-zz", "tracestate": "a=b"})
        root = got["traceparent"].split("-")
        x = one_of(collector.spans(before + 1), root[1])
        check(x["parent"] == x["state"] == "" and x["flags"] == 0x101, x)
        check(x["resource"]["service.name"] == "mine" and x["resource"]["a.b"] == "c d", x)
        check(not s.ask("GET", "/v1/models")[1]["traceparent"], "a path without a model's work has a span")
        twice = "".join(f"traceparent: 00-{t}-{p}-01\r\n" for t, p in (fresh(), fresh()))
        ask_once(s, post(STORY, more=twice + "Connection: close\r\n"))
        x = collector.spans(before + 2)[-1]
        check(x["parent"] == "" and x["trace"] not in twice, f"one of two parents is used: {x}")
        trace = send(s, "/v1/completions", STORY, state="a=1,a=2")[0]
        check(one_of(collector.spans(before + 3), trace)["state"] == "", "an invalid tracestate is continued")
    check(len(collector.spans(before + 3)) == before + 3, "a request without sampling has a span")
    with traced(collector.url, OTEL_TRACES_SAMPLER="always_off") as s:
        check(send(s, "/v1/completions", STORY)[3][3] == "00", "always_off")
    with traced(collector.url, OTEL_SDK_DISABLED="true") as s:
        check(not s.ask("POST", "/v1/completions", STORY)[1]["traceparent"], "OTEL_SDK_DISABLED")
        check("quoth:otlp" not in s.ask("GET", "/metrics")[2].decode(), "counters without traces")
    check(len(collector.spans(before + 3)) == before + 3, "a span of a sampler that is off")


def repeats():
    """a batch is sent again after 429 and 503, with Retry-After, and dropped after 400"""
    with traced(collector.url) as s:
        before = len(collector.spans(0))
        collector.answer([503, {"Retry-After": "1"}], [429, {}])
        begin = time.monotonic()
        trace = send(s, "/v1/completions", STORY)[0]
        one_of(collector.spans(before + 1), trace)
        took = time.monotonic() - begin
        check(2 <= took < 6, f"sent after {took:.1f} s, not after 1 s and 1 to 2 s")
        check(s.metric("quoth:otlp_requests_failed_total ") == 2, "failed requests")
        collector.answer([400, {}])
        send(s, "/v1/completions", STORY)
        reaches(s, "quoth:otlp_spans_dropped_total ", 1)
        check(s.metric("quoth:otlp_requests_failed_total ") == 3, "failed requests")
        check(s.text().count("does not accept spans: status 503") == 1, s.text())
    with traced(collector.url, OTEL_BSP_SCHEDULE_DELAY="60000") as s:  # the end of the server sends what is queued
        last = send(s, "/v1/completions", STORY)[0]
    one_of(collector.spans(before + 2), last)


class Fault:
    """A socket in place of a collector, which accepts connections and sends `data` after a request,
    or nothing. n: number of connections."""

    def __init__(self, data):
        self.data, self.n, self.kept = data, 0, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1/traces"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                c = self.socket.accept()[0]
                self.n += 1
                self.kept.append(c)
                threading.Thread(target=self.answer, args=(c,), daemon=True).start()

    def answer(self, c):
        with contextlib.suppress(OSError):
            while c.recv(65536):
                if self.data:
                    c.sendall(self.data)

    def close(self):
        self.socket.close()
        for c in self.kept:
            c.close()


FAULTS = {"dead": None, "slow": b"", "503": b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "garbage": random.Random(7).randbytes(300000),
          "garbage after a head": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzzz" + b"\xff" * 1000,
          "endless": b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n" + b"4\r\nabcd\r\n" * 50000, "redirect": b"HTTP/1.1 302 Found\r\nLocation: "
          b"http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"}


@contextlib.contextmanager
def fault(kind):
    f = Fault(FAULTS[kind]) if kind != "dead" else None
    try:
        yield f.url if f else f"http://127.0.0.1:{free_port()}/v1/traces"
    finally:
        if f:
            f.close()


def bad_collectors():
    """requests are answered and the server ends within 3 s with a collector that is dead, slow or wrong"""
    for kind in FAULTS:
        with fault(kind) as url, traced(url, stops=3 + 30 * SLOW, OTEL_BSP_MAX_QUEUE_SIZE="8", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="4") as s:
            for _ in range(40):
                status, _, answer = s.ask("POST", "/v1/completions", {**STORY, "max_tokens": 1})
                check(status == 200, (kind, answer))
            time.sleep(0.2)
            lost = s.metric("quoth:otlp_spans_dropped_total ")
            if kind in ("dead", "slow", "503", "garbage"):  # a batch is in flight, and 8 spans wait
                check(40 - 4 - 8 <= lost < 40, f"{kind}: {lost} dropped spans")


def wrong_options():
    """unusable options are errors by name before the model is loaded; others are warnings"""

    def start(*flags, **variables):
        r = subprocess.run([QUOTH, "serve", MODEL, "--check", *flags], capture_output=True, text=True, timeout=60, env={**os.environ, **variables})
        return r.returncode, r.stderr

    for flags, variables, code, text in [(["--otlp-traces-endpoint", "grpc://h:4317"], {}, 2, "must be the URL of a collector"),
                                         ([], {"OTEL_EXPORTER_OTLP_ENDPOINT": "h:4318"}, 1, "OTEL_EXPORTER_OTLP_ENDPOINT: must be the URL"),
                                         (["--otlp-traces-endpoint", "http://h/"], {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, 1,
                                          "OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf"),
                                         (["--otlp-traces-endpoint", "http://h/"], {"OTEL_BSP_SCHEDULE_DELAY": "soon"}, 0,
                                          "OTEL_BSP_SCHEDULE_DELAY: must be in [1, 86400000]"),
                                         ([], {"OTEL_BSP_SCHEDULE_DELAY": "soon"}, 0, "")]:
        status, err = start(*flags, **variables)
        check(status == code and text in err and (text or not err), (flags, variables, status, err))


def exporter_seconds(s):
    """Return the CPU time of the exporter. It is the only busy thread with a lower priority than the
    first thread."""
    home, seconds = f"/proc/{s.process.pid}/task", 0
    nice = {}
    for task in os.listdir(home):
        with open(f"{home}/{task}/stat") as f:
            nice[task] = int(f.read().rsplit(")", 1)[1].split()[16])
    for task in nice:
        if nice[task] > nice[str(s.process.pid)]:
            with open(f"{home}/{task}/schedstat") as f:
                seconds += int(f.read().split()[0]) / 1e9
    return seconds


def used(s):
    """Return the CPU times that spans may change, those of the server's threads and of the exporter,
    and the CPU time of all threads."""
    return s.metric("quoth:http_cpu_seconds_total ") + exporter_seconds(s), s.metric("process_cpu_seconds_total ")


def processor_ratio(pair, n_round, n_request):
    """Return the median ratio of throughputs per CPU time: that of pair[1] with spans to that of
    pair[0] without. Rounds of the two servers alternate."""
    # The CPU time of the engine's threads is not compared. It depends on other programs more than on 1 %.
    ratios = []
    for i in range(n_round):
        own, whole = [0, 0], [0, 0]
        for k in (i % 2, 1 - i % 2):
            before = used(pair[k])
            for _ in range(n_request):
                pair[k].ask("POST", "/v1/completions", TOKENS_16)
            own[k], whole[k] = (y - x for x, y in zip(before, used(pair[k])))
        ratios.append(whole[0] / (whole[0] + own[1] - own[0]))
    return statistics.median(ratios)


def clock_times(s, n):
    """Return n durations of each of three requests, which alternate in random order: the first and
    the second without a span (the parent is not sampled), the third with one."""
    times = [], [], []
    for _ in range(n):
        for k in random.sample(range(3), 3):
            trace, parent = fresh()
            begin = time.monotonic()
            s.ask("POST", "/v1/completions", TOKENS_16, {"traceparent": f"00-{trace}-{parent}-{k // 2:02x}"})
            times[k].append(time.monotonic() - begin)
    return times


def median_ratio(above, below):
    """Return the median ratio of two lists, and the upper bound of its 99 % confidence interval."""
    ratios = sorted(x / y for x, y in zip(above, below))
    n = len(ratios)
    return statistics.median(ratios), ratios[min(n - 1, int(n / 2 + 2.58 * n**0.5 / 2) + 1)]


def cost():
    """a collector that is dead, slow or sends garbage costs less than 1 % of the throughput"""
    # Two servers without traces differ by 2 % on the clock. The durations of requests are therefore
    # compared within a server, and CPU times between two servers.
    n_round, n_request, n_clock = (40, 100, 3000) if LONG else (6, 40, 200)
    for kind in ("dead", "slow", "garbage"):
        with contextlib.ExitStack() as stack:
            url = stack.enter_context(fault(kind))
            pair = [stack.enter_context(traced(None)), stack.enter_context(traced(url, OTEL_BSP_SCHEDULE_DELAY="5000"))]
            ratio = processor_ratio(pair, n_round, n_request)
            first, second, spans = clock_times(pair[1], n_clock)
            (clock, bound), (control, _) = median_ratio(first, spans), median_ratio(first, second)
            print(f"     {kind}: throughput per CPU time {ratio:.4f} of that without traces, per time on the clock {clock:.4f} of that without a span "
                  f"(at most {bound:.4f}, equal requests {control:.4f}); longest request {max(spans):.3f} s, without a span {max(first + second):.3f} s", flush=True)
            check(ratio >= (0.99 if LONG else 0.95), f"{kind}: {ratio:.4f} per CPU time")
            check(bound >= (0.99 if LONG else 0.9), f"{kind}: {clock:.4f}, at most {bound:.4f}, on the clock")
            check(max(spans) < 5, f"{kind}: a request waited {max(spans):.1f} s")  # the exporter waits 10 s for an answer


built = subprocess.run([QUOTH, "serve", MODEL, "--check", "--otlp-traces-endpoint", "http://127.0.0.1:9"], capture_output=True, text=True, timeout=60)
if "without libcurl" in built.stderr:
    print("skip traces (built without libcurl)")
    sys.exit(0)
python, why_not = python_with("otlp-for-tests", {"opentelemetry.proto.collector.trace.v1.trace_service_pb2": "opentelemetry-proto==1.38.0"})
TESTS = [every_request, refused_and_aborted, in_background, samplers, repeats]
if python:
    collector = Collector(python)
else:
    for t in TESTS:
        print(f"skip {t.__doc__} ({why_not})")
    TESTS = []
try:
    run([*TESTS, wrong_options, bad_collectors, cost], timed=True)
finally:
    if python:
        collector.stop()
