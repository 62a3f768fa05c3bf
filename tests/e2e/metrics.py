#!/usr/bin/env python3
"""Goal: tools that monitor vLLM can monitor quoth serve. Metrics have vLLM's names, types, labels
and bounds. The metrics agree with the access log for every answer. Prometheus can read the metrics,
dashboards find their series, and load balancers get their report. Method: compare with the list of
vLLM's metrics from its source. Send thousands of requests of every kind, and compare with the log's
lines. promtool and a real Prometheus are used if they are installed. With CI or QUOTH_LONG, the
test unpacks Debian's package under build/ if the package is available.

Environment: QUOTH the program, QUOTH_ROOT the repository, QUOTH_LONG=1 for 10,000 requests instead
of some hundred. The script prints "ok NAME", "skip NAME" or "FAIL NAME: why" per test."""
import collections
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request

from server import LONG, ROOT, SLOW, TMP, Failed, Server, check, first_server, free_port, run

STORY = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
CONTEXT = 1024  # context of the bundled model
main = None

# ---- vLLM's metrics ----

LATENCY = [.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
PER_TOKEN = [.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
FIRST_TOKEN = [.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560]
STEP = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
RESIDENCY = [.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800]
TOKENS = [m * 10 ** e for e in range(9) for m in (1, 2, 5) if m * 10 ** e <= CONTEXT]
GAUGES = {"num_requests_running": "", "num_requests_waiting": "", "num_requests_waiting_by_reason": "reason", "kv_cache_usage_perc": "",
          "engine_sleep_state": "sleep_state"}
COUNTERS = {"prefix_cache_queries": "", "prefix_cache_hits": "", "external_prefix_cache_queries": "", "external_prefix_cache_hits": "",
            "mm_cache_queries": "", "mm_cache_hits": "", "num_preemptions": "", "prompt_tokens": "", "generation_tokens": "",
            "prompt_tokens_by_source": "source", "prompt_tokens_cached": "", "prompt_tokens_recomputed": "",
            "request_success": "finished_reason", "corrupted_requests": "", "admission_rejections": "reason",
            "estimated_flops_per_gpu": "", "estimated_read_bytes_per_gpu": "", "estimated_write_bytes_per_gpu": ""}
HISTOGRAMS = {"time_to_first_token_seconds": FIRST_TOKEN, "inter_token_latency_seconds": PER_TOKEN,
              "request_time_per_output_token_seconds": PER_TOKEN, "e2e_request_latency_seconds": LATENCY,
              "request_queue_time_seconds": LATENCY, "request_inference_time_seconds": LATENCY,
              "request_prefill_time_seconds": LATENCY, "request_decode_time_seconds": LATENCY,
              "request_prompt_tokens": TOKENS, "request_generation_tokens": TOKENS,
              "request_max_num_generation_tokens": TOKENS, "request_params_n": [1, 2, 5, 10, 20],
              "request_params_max_tokens": TOKENS, "request_prefill_kv_computed_tokens": TOKENS,
              "request_num_preemptions": None,  # bounds are not known
              "iteration_tokens_total": STEP, "kv_block_lifetime_seconds": RESIDENCY,
              "kv_block_idle_before_evict_seconds": RESIDENCY, "kv_block_reuse_gap_seconds": RESIDENCY}
# Series of vLLM's older dashboards, and of servers with LoRA or speculation.
OLD = {"gpu_cache_usage_perc": "gauge", "gpu_prefix_cache_queries_total": "counter", "gpu_prefix_cache_hits_total": "counter",
       "time_per_output_token_seconds": "histogram"}
ELSEWHERE = {"lora_requests_info": "gauge", "spec_decode_num_drafts_total": "counter", "spec_decode_num_draft_tokens_total": "counter",
             "spec_decode_num_accepted_tokens_total": "counter", "spec_decode_num_accepted_tokens_per_pos_total": "counter"}
HTTP = {"http_requests_total": ("counter", {"handler", "method", "status"}), "http_request_size_bytes": ("summary", {"handler"}),
        "http_response_size_bytes": ("summary", {"handler"}), "http_request_duration_seconds": ("histogram", {"handler", "method"}),
        "http_request_duration_highr_seconds": ("histogram", set()), "process_virtual_memory_bytes": ("gauge", set()),
        "process_resident_memory_bytes": ("gauge", set()), "process_start_time_seconds": ("gauge", set()),
        "process_cpu_seconds_total": ("counter", set()), "process_open_fds": ("gauge", set()), "process_max_fds": ("gauge", set())}
HIGHR = [.01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60]


class Page:
    """A page of metrics: self.type[name]; self.samples[name] = [(labels, value)]."""

    def __init__(self, text):
        self.text, self.type, self.samples = text, {}, collections.defaultdict(list)
        for row in text.splitlines():
            if row.startswith("# TYPE "):
                name, kind = row[7:].split()
                check(name not in self.type, f"{name} is typed twice")
                self.type[name] = kind
            elif not row.startswith("#"):
                found = re.fullmatch(r'([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)', row)
                check(found, row)
                labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found.group(2) or ""))
                self.samples[found.group(1)].append((labels, float(found.group(3))))

    def sum(self, name, **labels):
        return sum(v for had, v in self.samples[name] if all(had.get(k) == w for k, w in labels.items()))

    def bounds(self, name):
        by_series = collections.defaultdict(list)
        for labels, value in self.samples[name + "_bucket"]:
            rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
            by_series[rest].append((float(labels["le"]), value))
        check(by_series, f"{name} has no buckets")
        for rest, buckets in by_series.items():
            values = [v for _, v in buckets]
            check(values == sorted(values) and buckets[-1][0] == float("inf"), (name, rest))
            check(values[-1] == self.sum(name + "_count", **dict(rest)), (name, rest))
        return [[b for b, _ in buckets[:-1]] for buckets in by_series.values()]


def page_of(server, headers=None):
    status, head, text = server.ask("GET", "/metrics", headers=headers)
    check(status == 200 and head["Content-Type"].startswith("text/plain; version=0.0.4"), head)
    return Page(text.decode())


def names():
    """metrics have vLLM's names, types, labels and bounds"""
    main.ask("POST", "/v1/completions", STORY)
    page = page_of(main)
    base = {"engine", "model_name"}
    want = {f"vllm:{n}": ("gauge", extra, None) for n, extra in GAUGES.items()}
    want.update({f"vllm:{n}_total": ("counter", extra, None) for n, extra in COUNTERS.items()})
    want.update({f"vllm:{n}": ("histogram", "", bounds) for n, bounds in HISTOGRAMS.items()})
    for name, (kind, extra, bounds) in want.items():
        check(page.type.get(name) == kind, f"{name} is {page.type.get(name)}, not {kind}")
        rows = page.samples[name + "_sum" if kind == "histogram" else name]
        check(rows, f"{name} has no sample")
        for labels, _ in rows:
            check(set(labels) == base | ({extra} if extra else set()), (name, labels))
            check(labels["model_name"] == "quoth-tiny" and labels["engine"] == "0", labels)
        if bounds:
            check(page.bounds(name) == [bounds], (name, page.bounds(name)))
    check({labels["reason"] for labels, _ in page.samples["vllm:num_requests_waiting_by_reason"]} == {"capacity", "deferred"})
    check({labels["source"] for labels, _ in page.samples["vllm:prompt_tokens_by_source_total"]} ==
          {"local_compute", "local_cache_hit", "external_kv_transfer"})
    reasons = {labels["finished_reason"] for labels, _ in page.samples["vllm:request_success_total"]}
    check(reasons >= {"stop", "length", "abort", "error"}, reasons)
    check(page.sum("vllm:engine_sleep_state", sleep_state="awake") == 1 and page.sum("vllm:engine_sleep_state") == 1)
    check(page.type["vllm:cache_config_info"] == "gauge" and page.sum("vllm:cache_config_info") == 1)
    config = page.samples["vllm:cache_config_info"][0][0]
    check({"block_size", "num_gpu_blocks", "cache_dtype"} <= set(config), config)
    tokens = int(config["kv_cache_size_tokens"])
    check(tokens == int(config["block_size"]) * int(config["num_gpu_blocks"]), config)
    check(abs(float(config["kv_cache_max_concurrency"]) - tokens / CONTEXT) < 0.01, config)
    for name, (kind, labels) in HTTP.items():
        check(page.type.get(name) == kind, f"{name} is {page.type.get(name)}, not {kind}")
        rows = page.samples[name + ("_count" if kind in ("histogram", "summary") else "")]
        check(rows and all(set(had) >= labels for had, _ in rows), (name, rows[:1]))
    check(page.bounds("http_request_duration_highr_seconds") == [HIGHR])
    check(all(b == [.1, .5, 1] for b in page.bounds("http_request_duration_seconds")))
    for name, kind in {**OLD, **ELSEWHERE}.items():
        check(page.type.get(f"vllm:{name}", kind) == kind, name)
    check(all(f"vllm:{name}" in page.type for name in OLD))
    known = set(want) | {f"vllm:{n}" for n in (*OLD, *ELSEWHERE, "cache_config_info")} | set(HTTP)
    others = [n for n in page.type if n not in known and not n.startswith("quoth:")]
    check(not others, f"names that neither vLLM nor quoth has: {others}")


def iterations():
    """vllm:iteration_tokens_total counts as vLLM does: a prompt's tokens and all generated tokens"""
    before, prompt = page_of(main), 0
    for i in range(10):
        body = {**STORY, "prompt": f"{i} times upon a time", "max_tokens": 10, "ignore_eos": True, "cache_salt": f"salt {i}"}
        prompt += main.ask("POST", "/v1/completions", body)[2]["usage"]["prompt_tokens"]
    main.settle()
    after, name = page_of(main), "vllm:iteration_tokens_total"
    check(after.sum(name + "_sum") - before.sum(name + "_sum") == prompt + 100, (prompt, after.samples[name + "_sum"]))
    check(after.sum(name + "_count") - before.sum(name + "_count") == 100)


def high_water():
    """high-water marks contain peaks between two scrapes, and expire with the window"""
    names_of = {k: f"quoth:{k}_max" for k in ("num_requests_running", "num_requests_waiting", "num_requests_swapped",
                                              "kv_cache_usage_perc")}
    s = Server("--max-num-seqs", "2")
    try:
        threads = [threading.Thread(target=s.ask, args=("POST", "/v1/completions", {**STORY, "max_tokens": 100, "ignore_eos": True}))
                   for _ in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        s.settle()
        page = page_of(s)
        check(all(page.type[name] == "gauge" for name in names_of.values()), names_of)
        check(page.sum("vllm:num_requests_running") == 0 and page.sum("vllm:kv_cache_usage_perc") == 0)
        check(page.sum(names_of["num_requests_running"]) == 2, page.samples[names_of["num_requests_running"]])
        check(1 <= page.sum(names_of["num_requests_waiting"]) <= 5)
        check(page.sum(names_of["num_requests_swapped"]) == 0 == page.sum("quoth:num_requests_swapped"))
        check(0 < page.sum(names_of["kv_cache_usage_perc"]) <= 1)
        time.sleep(0.1)
        status, _, text = s.ask("GET", "/metrics?window=0.02")
        check(status == 200 and Page(text.decode()).sum(names_of["num_requests_running"]) == 0)
        for wrong in ("", "x", "-1", "1x", "nan", "inf", "%zz", "5%00"):
            check(s.ask("GET", f"/metrics?window={wrong}")[0] == 400, wrong)
    finally:
        s.stop()


def peaks():
    """the server measures the machine's peaks once, while it is idle, and keeps them; utilization
    is a share of these peaks"""
    folder = os.path.join(TMP, "cache")
    names_of = ["quoth:peak_flops", "quoth:peak_read_bytes_per_second", "quoth:model_flops_utilization",
                "quoth:memory_bandwidth_utilization"]
    other = {**os.environ}
    os.environ["XDG_CACHE_HOME"] = folder

    def measured(s, seconds):
        until = time.monotonic() + seconds
        while not (page := page_of(s)).samples[names_of[0]] and time.monotonic() < until:
            time.sleep(0.05)
        return page

    def files():
        return [os.path.join(at, f) for at, _, found in os.walk(os.path.join(folder, "quoth", "peaks")) for f in found]

    try:
        s = Server(peaks=True)
        page = measured(s, 120)
        check(page.sum(names_of[0]) > 0 and page.sum(names_of[2]) == 0, page.samples[names_of[0]])
        s.ask("POST", "/v1/completions", {**STORY, "max_tokens": 200, "ignore_eos": True})
        s.settle()
        page = page_of(s)
        check(0 < page.sum(names_of[2]) < 1 and 0 < page.sum("quoth:engine_utilization") <= 1, page.samples[names_of[2]])
        if page.samples[names_of[1]]:
            check(page.sum(names_of[1]) > 0 and page.sum(names_of[3]) > 0)
        s.stop()
        kept = files()
        check(len(kept) == 1, kept)
        s = Server(peaks=True)
        again = page_of(s)
        s.stop()
        check(again.sum(names_of[0]) == page.sum(names_of[0]), "the kept figures are used at once")
        with open(kept[0]) as f:
            text = f.read()
        with open(kept[0], "w") as f:
            f.write("9" + text)
        s = Server(peaks=True)
        page = measured(s, 120)
        check(0 < page.sum(names_of[0]) and page.sum(names_of[1]) != float("9" + text.split()[0]), "a damaged file is believed")
        s.stop()
        with open(kept[0]) as f:
            check(not f.read().startswith("99"), "it was measured again")
        os.remove(kept[0])
        s = Server()
        time.sleep(1)
        check(not any(page_of(s).samples[n] for n in names_of) and not files())
        s.stop()
    finally:
        os.environ.clear()
        os.environ.update(other)


def served_name():
    """the model's name in metrics is the name that clients use"""
    s = Server("--served-model-name", 'my "model"')
    try:
        page = page_of(s)
        check(page.samples["vllm:num_requests_running"][0][0]["model_name"] == 'my \\"model\\"', page.samples)
    finally:
        s.stop()


def load_report():
    """the head of an answer has a load report (ORCA) if the client requests the report"""
    name = "endpoint-load-metrics"
    ask = {"endpoint-load-metrics-format": "JSON"}
    fields = {"application_utilization", "cpu_utilization", "mem_utilization", "rps_fractional", "eps"}

    def numbers(report):
        check(report.startswith("JSON "), report)
        report = json.loads(report[5:])
        check(set(report) == fields | {"named_metrics"}, report)
        check(set(report["named_metrics"]) == {"kv_cache_usage_perc", "num_requests_waiting"}, report)
        check(all(isinstance(v, (int, float)) and v >= 0 for v in [report[f] for f in fields]), report)
        check(0 <= report["named_metrics"]["kv_cache_usage_perc"] <= 1 and 0 < report["mem_utilization"] <= 1, report)
        return report

    numbers(main.ask("POST", "/v1/completions", STORY, ask)[1][name])
    text = main.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4,
                                                     "stream": True}, {"endpoint-load-metrics-format": "text"})[1][name]
    # Envoy: names and values with =, separated by commas, each name once
    check(text.startswith("TEXT "), text)
    pairs = [pair.split("=") for pair in text[5:].split(", ")]
    check({k for k, _ in pairs} == fields | {"named_metrics.kv_cache_usage_perc", "named_metrics.num_requests_waiting"}, text)
    check(len(pairs) == len(fields) + 2 and all(float(v) >= 0 for _, v in pairs), text)
    check(main.ask("POST", "/v1/completions", {"prompt": 5}, ask)[1][name], "a refusal has it too")
    check(main.ask("POST", "/v1/completions", STORY)[1][name] is None)
    check(main.ask("POST", "/v1/completions", STORY, {"endpoint-load-metrics-format": "xml"})[1][name] is None)
    s = Server("--max-num-seqs", "1")  # one request runs and three wait, as reported
    try:
        threads = [threading.Thread(target=s.ask, args=("POST", "/v1/completions", {**STORY, "max_tokens": 400, "ignore_eos": True}))
                   for _ in range(4)]
        for t in threads:
            t.start()
        until, waiting = time.monotonic() + 20, 0
        while waiting < 3 and time.monotonic() < until:
            report = numbers(s.ask("POST", "/v1/completions", {"prompt": 5}, ask)[1][name])
            waiting = report["named_metrics"]["num_requests_waiting"]
        check(waiting == 3 and report["application_utilization"] == 4, report)
        for t in threads:
            t.join()
        s.settle()
        until, report = time.monotonic() + 20, {"rps_fractional": 0}
        while report["rps_fractional"] == 0 and time.monotonic() < until:
            report = numbers(s.ask("POST", "/v1/completions", {"prompt": 5}, ask)[1][name])
        check(report["rps_fractional"] > 0 and report["eps"] == 0 and report["cpu_utilization"] > 0, report)
        check(report["application_utilization"] == 0, report)
    finally:
        s.stop()


# ---- counters and the access log ----

API = os.path.join(ROOT, "src", "api")
ROUTES = re.findall(r'^ROUTE\("(\w+)", "([^"]+)"', open(os.path.join(API, "routes.def")).read(), re.M) \
    + [("POST", path) for path in re.findall(r'^DIALECT\("([^"]+)"', open(os.path.join(API, "dialects.def")).read(), re.M)]


def handler_of(method, path):
    for m, pattern in ROUTES:
        if m == ("GET" if method == "HEAD" else method) and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
            return pattern, m
    return "none", "none"


class Crowd:
    """Request n answers of every kind over a few connections, and add their figures."""

    def __init__(self, server, n, seed):
        self.server, self.lock, self.left, self.rng = server, threading.Lock(), n, random.Random(seed)
        self.sum, self.error = collections.Counter(), None
        threads = [threading.Thread(target=self.work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check(not self.error, self.error)

    def draw(self):
        with self.lock:
            self.left -= 1
            return None if self.left < 0 else (self.rng.randrange(13), self.rng.randrange(1, 7), self.rng.choice("abcdefgh"))

    def work(self):
        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        try:
            while drawn := self.draw():
                self.one(c, *drawn)
        except Exception as e:
            self.error = f"{type(e).__name__}: {e}"
        c.close()

    def one(self, c, kind, n, letter):
        text = {"prompt": f"Once upon a time {letter * n}", "max_tokens": n, "temperature": 0.5}
        talk = {"messages": [{"role": "user", "content": f"Tell me of {letter}."}], "max_tokens": n}
        usage = {"stream": True, "stream_options": {"include_usage": True}}
        method, path, body = [
            ("POST", "/v1/completions", text), ("POST", "/v1/completions", {**text, **usage}),
            ("POST", "/v1/chat/completions", talk), ("POST", "/v1/chat/completions", {**talk, **usage}),
            ("POST", "/v1/completions", {**text, "n": 2}), ("POST", "/v1/completions", {**text, "prompt": ["One", "Two"]}),
            ("POST", "/v1/completions", {**text, "max_tokens": "many"}), ("POST", "/v1/completions", {"prompt": "word " * 3000}),
            ("POST", "/tokenize", {"prompt": text["prompt"]}), ("GET", "/v1/models/" + ("quoth-tiny" if n % 2 else "other"), None),
            ("HEAD" if n % 2 else "GET", "/health", None),
            (("GET", "/nothing", None), ("PUT", "/v1/models", None), ("DELETE", "/health", None))[n % 3],
            ("POST", "/v1/embeddings", {"input": [text["prompt"], letter * 9]})][kind]
        c.request(method, path, None if body is None else json.dumps(body))
        r = c.getresponse()
        data = r.read()
        if method == "POST" and path.startswith("/v1/") and r.status == 200:
            self.count(data, body)
        elif kind == 7:
            with self.lock:
                self.sum["too long"] += 1

    def count(self, data, body):
        if body.get("stream"):
            frames = [json.loads(f[6:]) for f in data.decode().split("\n\n") if f.startswith("data: {")]
            choices = [c for f in frames for c in f["choices"] if c.get("finish_reason")]
            usage = [f["usage"] for f in frames if f.get("usage")][0]
        else:
            answer = json.loads(data)
            choices, usage = answer["choices"] if "choices" in answer else answer["data"], answer["usage"]
        with self.lock:
            self.sum["prompt"] += usage["prompt_tokens"]
            self.sum["output"] += usage.get("completion_tokens", 0)
            self.sum["cached"] += usage["prompt_tokens_details"]["cached_tokens"] if "prompt_tokens_details" in usage else 0
            self.sum["requests"] += 2 if isinstance(body.get("prompt"), list) or "input" in body else 1
            self.sum["answers"] += len(choices)


def logged(path, last_id):
    """Return the lines of an access log before the line of the request with that id."""
    rows = []
    with open(path) as f:
        for row in map(json.loads, f):
            if row.get("event") != "request":
                continue
            if row["id"] == last_id:
                return rows
            rows.append(row)
    raise Failed("the last request is not in the log")


def compare(server, log, mark):
    page = page_of(server, {"X-Request-Id": mark})
    time.sleep(0.2)
    rows = logged(log, mark)
    want, sent, came, times = (collections.Counter() for _ in range(4))
    for row in rows:
        handler, method = handler_of(row["method"], row["path"])
        want[handler, method, f"{row['status'] // 100}xx"] += 1
        sent[handler, method] += row["bytes_out"]
        came[handler, method] += row["bytes_in"]
        times[handler, method] += 1
    got = {(l["handler"], l["method"], l["status"]): v for l, v in page.samples["http_requests_total"]}
    check(got == dict(want), [(k, got.get(k), want.get(k)) for k in set(got) | set(want) if got.get(k) != want.get(k)])
    for name, sums in (("http_response_size_bytes_sum", sent), ("http_request_size_bytes_sum", came),
                       ("http_request_duration_seconds_count", times)):
        got = {(l["handler"], l["method"]): v for l, v in page.samples[name]}
        check(got == dict(sums), (name, got, sums))
    check(page.sum("http_request_duration_highr_seconds_count") == len(rows))
    spent = sum(row["ms"] for row in rows) / 1000
    check(abs(page.sum("http_request_duration_highr_seconds_sum") - spent) < 0.05 * spent + 0.1, spent)
    return page, rows


def soon(what):
    """Wait up to 10 s until what(mark) is true. The engine publishes a step's figures after its
    answers, and lines of the log are written later."""
    until, i = time.monotonic() + 10, 0
    while True:
        i += 1
        try:
            return what(f"mark-{time.monotonic_ns()}-{i}")
        except Failed:
            if time.monotonic() > until:
                raise


def counted(page, rows, n, want):
    check(len([r for r in rows if r["path"] not in ("/load", "/metrics")]) == n, len(rows))
    for name, what in (("prompt_tokens", "prompt"), ("generation_tokens", "output"), ("prompt_tokens_cached", "cached")):
        check(page.sum(f"vllm:{name}_total") == want[what], (name, page.sum(f"vllm:{name}_total"), want))
    check(page.sum("vllm:request_success_total") == want["requests"], want)
    check(page.sum("vllm:e2e_request_latency_seconds_count") == want["requests"], want)
    check(page.sum("vllm:admission_rejections_total", reason="max_model_len") == want["too long"], want)
    check(page.sum("vllm:prompt_tokens_by_source_total") == want["prompt"], want)


def left_early(page, rows):
    check(sum(row["status"] == 499 for row in rows) == 20 == page.sum("quoth:http_hangups_total"))
    check(page.sum("vllm:request_success_total", finished_reason="abort") == 20)
    print(f"     {len(rows)} lines of the log")


def reconcile():
    """counters agree with the access log and with the answers that clients received"""
    n = 10000 if LONG else 150 if SLOW else 600
    log = os.path.join(TMP, "access.jsonl")
    s = Server("--log-format", "json", "--access-log", log)
    try:
        crowd = Crowd(s, n, 5)
        s.settle()
        soon(lambda mark: counted(*compare(s, log, mark), n, crowd.sum))
        body = json.dumps({"prompt": "Once", "max_tokens": 900, "ignore_eos": True, "stream": True})
        for _ in range(20):  # disconnected requests are counted as 499
            c = s.connect()
            c.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            check(c.recv(100).startswith(b"HTTP/1.1 200"))
            c.close()
        s.settle()
        soon(lambda mark: left_early(*compare(s, log, mark)))
    finally:
        s.stop()


# ---- dashboards ----

# The series of the dashboard in vLLM's repository.
VLLM_DASHBOARD = """e2e_request_latency_seconds_bucket e2e_request_latency_seconds_sum e2e_request_latency_seconds_count prompt_tokens_total
    generation_tokens_total time_per_output_token_seconds_bucket time_per_output_token_seconds_sum inter_token_latency_seconds_bucket
    inter_token_latency_seconds_sum num_requests_running num_requests_waiting time_to_first_token_seconds_bucket
    time_to_first_token_seconds_sum gpu_cache_usage_perc kv_cache_usage_perc request_prompt_tokens_bucket
    request_generation_tokens_bucket request_success_total request_queue_time_seconds_sum request_prefill_time_seconds_sum
    request_decode_time_seconds_sum request_max_num_generation_tokens_sum""".split()


def dashboard():
    with open(os.path.join(ROOT, "deploy", "grafana.json")) as f:
        return json.load(f)


def expressions():
    """Return [(panel, expression)] with the variables filled in."""
    found = []
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            expr = target["expr"]
            for name, value in (("$model_name", ".*"), ("$instance", ".*"), ("$__rate_interval", "1m")):
                expr = expr.replace(name, value)
            check("$" not in expr, expr)
            found.append((panel["title"], expr))
    return found


def dashboard_names():
    """dashboards of quoth and vLLM query only metrics that exist"""
    main.ask("POST", "/v1/completions", STORY)
    main.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1})
    until = time.monotonic() + 120  # the server measures the machine's peaks while it is idle
    while not (page := page_of(main)).samples["quoth:peak_flops"] and time.monotonic() < until:
        time.sleep(0.1)
    # this memory is small compared with the caches
    if not page.samples["quoth:peak_read_bytes_per_second"]:
        page.samples["quoth:memory_bandwidth_utilization"] = [({}, 0)]
    for panel, expr in expressions():
        asked = re.findall(r"\b(?:(?:vllm|quoth):|http_|process_)\w+", expr)
        check(asked, (panel, expr))
        for name in asked:
            check(page.samples.get(name), f"{panel}: {name} is not exported")
    for name in VLLM_DASHBOARD:
        check(page.samples.get(f"vllm:{name}"), f"vllm:{name} is not exported")
    board = dashboard()
    ids = [p["id"] for p in board["panels"]]
    check(len(set(ids)) == len(ids) and all(p["title"] and p["description"] for p in board["panels"]))
    spots = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    check(len(set(spots)) == len(spots) and all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in board["panels"]))


# ---- Prometheus itself ----

def unpack(folder):
    """Unpack the programs of Debian's package into a folder."""
    get = ["apt-get", "download", "-qq", "prometheus"]
    work = os.path.join(TMP, "package")
    os.makedirs(work)
    if subprocess.run(get, cwd=work, capture_output=True, timeout=120).returncode:
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, timeout=60)
        subprocess.run(get, cwd=work, capture_output=True, timeout=120)
    for package in [f for f in os.listdir(work) if f.endswith(".deb")]:
        subprocess.run(["dpkg", "-x", package, "."], cwd=work, capture_output=True, timeout=60)
    os.makedirs(folder, exist_ok=True)
    for name in ("promtool", "prometheus"):
        shutil.copy(os.path.join(work, "usr", "bin", name), folder)


def tool(name):
    """Return the path of one of Prometheus' programs, or None."""
    folder = os.path.join(ROOT, "build", "prometheus")
    found = shutil.which(name) or shutil.which(name, path=folder)
    if found or not (LONG or os.environ.get("CI")) or not shutil.which("apt-get") or not shutil.which("dpkg"):
        return found
    try:
        unpack(folder)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return shutil.which(name, path=folder)


def promtool():
    """promtool reports only faults of vLLM's names"""
    program = tool("promtool")
    if not program:
        return "promtool is not installed"
    main.ask("POST", "/v1/completions", STORY)
    text = page_of(main).text
    ours = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    complaints = (ours.stdout + ours.stderr).strip().splitlines()
    colon = re.compile(r"(vllm|quoth):\w+ metric names should not contain ':'")
    total = 'vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix'
    check(ours.returncode in (0, 3), complaints)
    others = [c for c in complaints if not colon.fullmatch(c) and c != total]
    check(not others, others)
    plain = subprocess.run([program, "check", "metrics"], input=re.sub(r"\b(vllm|quoth):", r"\1_", text), capture_output=True,
                           text=True, timeout=60)
    check((plain.stdout + plain.stderr).strip() == total.replace("vllm:", "vllm_"), plain.stdout + plain.stderr)


def get_json(url, **query):
    with urllib.request.urlopen(url + ("?" + urllib.parse.urlencode(query) if query else ""), timeout=10) as r:
        return json.load(r)


def prometheus():
    """a real Prometheus scrapes the server, and every panel of the dashboard has figures"""
    program = tool("prometheus")
    if not program:
        return "prometheus is not installed"
    port = free_port()
    config = os.path.join(TMP, "prometheus.yml")
    with open(config, "w") as f:
        f.write("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: quoth\n  static_configs:\n"
                f"  - targets: ['127.0.0.1:{main.port}']\n")
    with open(os.path.join(TMP, "prometheus.log"), "w") as log:
        p = subprocess.Popen([program, f"--config.file={config}", f"--storage.tsdb.path={TMP}/tsdb",
                              f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    api = f"http://127.0.0.1:{port}/api/v1"
    try:
        targets, until = [], time.monotonic() + 60
        while time.monotonic() < until:
            # keep the server busy until Prometheus has scraped five times
            main.ask("POST", "/v1/completions", STORY)
            time.sleep(0.1)
            try:
                targets = get_json(api + "/targets")["data"]["activeTargets"]
                if float(get_json(api + "/query", query="count_over_time(up[1m])")["data"]["result"][0]["value"][1]) >= 5:
                    break
            except (OSError, IndexError):
                pass
        check(len(targets) == 1 and targets[0]["health"] == "up" and not targets[0]["lastError"], targets)
        for panel, expr in expressions():
            answer = get_json(api + "/query", query=expr)
            check(answer["status"] == "success" and answer["data"]["result"], f"{panel}: no figures for {expr}")
        rate = get_json(api + "/query", query="sum(rate(vllm:generation_tokens_total[1m]))")["data"]["result"][0]["value"][1]
        check(float(rate) > 0, rate)
        kinds = get_json(api + "/metadata")["data"]
        check(kinds["vllm:time_to_first_token_seconds"][0]["type"] == "histogram", "types are known")
    finally:
        p.terminate()
        p.wait(30)


main = first_server(peaks=True)


def stop():
    """the server exits with the right status"""
    main.stop()


run([names, iterations, high_water, peaks, served_name, load_report, reconcile, dashboard_names, promtool, prometheus, stop], timed=True)
