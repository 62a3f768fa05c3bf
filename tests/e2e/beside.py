#!/usr/bin/env python3
# alone
"""Goal: work in the background costs clients little. The gaps between tokens of streams beside a
batch, or beside the load of another model, are at most twice the gaps without it. A batch alone is
as fast as quoth batch, and a model after a swap begins as fast as after a warm start."""
import json
import os
import shutil
import statistics
import subprocess
import threading
import time
import urllib.request

from batch_calls import create, state, upload, wait
from server import LONG, QUOTH, TMP, Elsewhere, Server, check, free_port, run

SHAPE, N_STREAM, N_TOKEN, N_ROUND, N_SWAP = "smollm-135m", 4, 200, 10, 20
os.environ["XDG_CACHE_HOME"] = os.path.join(TMP, "cache")
LOOP = ("--max-num-seqs", "16", "--max-model-len", "1024")


def weights(i):
    """Return the path of a model of random weights, made once per number."""
    path = os.path.join(TMP, f"m{i}.gguf")
    if not os.path.exists(path):
        subprocess.run([QUOTH, "bench", "kernels", "--shape", SHAPE, "--quant", "Q4_0", "--dummy-seed", str(i), "-o", path], check=True,
                       capture_output=True)
    return path


def completion(s, **fields):
    """Begin a streamed completion. Return the response, an iterable of lines."""
    body = {"prompt": list(range(5, 69)), "stream": True, "ignore_eos": True, "temperature": 0, **fields}
    return urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{s.port}/v1/completions", json.dumps(body).encode(),
                                                         {"Content-Type": "application/json"}), timeout=120)


def read_stream(s, gaps, fields):
    last = None
    with completion(s, **fields) as r:
        for row in r:
            if row.startswith(b"data: {"):
                now = time.perf_counter()
                if last:
                    gaps.append(now - last)
                last = now


def stream_gaps(s, **fields):
    """Return the gaps in seconds between the tokens of concurrent streams."""
    gaps = [[] for _ in range(N_STREAM)]
    threads = [threading.Thread(target=read_stream, args=(s, g, {"max_tokens": N_TOKEN, **fields})) for g in gaps]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    # an event may have several tokens of random weights, whose bytes are a character together
    check(all(len(g) > N_TOKEN // 2 for g in gaps), [len(g) for g in gaps])
    return sum(gaps, [])


def percentile_99(gaps):
    return sorted(gaps)[len(gaps) * 99 // 100]


def compare_gaps(s, begin, end, what, **fields):
    """Measure streams alternately without and with background work. Compare the 99th percentiles."""
    found = {False: [], True: []}
    stream_gaps(s, **fields)
    for i in range(2 * N_ROUND):
        beside = i % 2 == 1
        work = begin() if beside else None
        found[beside] += stream_gaps(s, **fields)
        if beside:
            end(work)
    plain, beside = percentile_99(found[False]), percentile_99(found[True])
    print(f"     99 % of gaps: {plain * 1e3:.2f} ms, beside {what} {beside * 1e3:.2f} ms, largest {max(found[False]) * 1e3:.1f} and "
          f"{max(found[True]) * 1e3:.1f} ms: ratio {beside / plain:.2f}")
    check(beside <= 2 * plain, f"{beside / plain:.2f}")


def batch_lines(n, max_tokens):
    return "".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": {
        "prompt": [(7 * i + j) % 1000 + 5 for j in range(64)], "max_tokens": max_tokens, "ignore_eos": True}}) + "\n" for i in range(n))


def test_gaps_beside_batch():
    """four streams have the gaps of streams alone beside a batch"""
    s = Server(*LOOP, model=weights(0))

    def begin():
        b = create(s, upload(s, batch_lines(400, 100)), "/v1/completions")
        while s.ask("GET", "/load")[2]["running"] < 2:
            time.sleep(0.005)
        return b

    def end(b):
        check(state(s, b)["status"] == "in_progress", "the batch ended before the streams")
        s.ask("POST", f"/v1/batches/{b}/cancel")
        wait(s, b)
    compare_gaps(s, begin, end, "a batch")
    s.stop()


def test_batch_rate():
    """a batch alone is as fast as quoth batch"""
    s = Server(*LOOP, model=weights(0))
    text, ratios = batch_lines(256, 32), []
    path, out = os.path.join(TMP, "lines.jsonl"), os.path.join(TMP, "out.jsonl")
    with open(path, "w") as f:
        f.write(text)
    one = os.path.join(TMP, "one.jsonl")
    with open(one, "w") as f:
        f.write(text.splitlines()[0] + "\n")

    def command(lines):
        if os.path.exists(out):
            os.unlink(out)  # a run resumes an existing file
        start = time.perf_counter()
        subprocess.run([QUOTH, "batch", weights(0), "-i", lines, "-o", out, "--threads", "2", *LOOP], check=True, capture_output=True)
        return time.perf_counter() - start

    def server():
        file = upload(s, text)
        start = time.perf_counter()
        wait(s, create(s, file, "/v1/completions"))
        return time.perf_counter() - start
    command(path), server()
    for _ in range(N_ROUND):
        ratios.append((command(path) - command(one)) / server())
    print(f"     rate of a batch / rate of quoth batch: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    check(statistics.median(ratios) >= 0.95, f"{statistics.median(ratios):.3f}")
    s.stop()


def first_token(s, **fields):
    """Return the seconds until a request's first token."""
    start = time.perf_counter()
    with completion(s, max_tokens=2, **fields) as r:
        next(row for row in r if row.startswith(b"data: {"))
        took = time.perf_counter() - start
        r.read()
    return took


def warm_start(model):
    """Return the seconds from the start of a server's process until its first token."""
    port = free_port()
    start = time.perf_counter()
    p = subprocess.Popen([QUOTH, "serve", model, "--port", str(port), "--threads", "2", "--no-peaks", *LOOP], stderr=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL)
    s = Elsewhere(port)
    try:
        while True:
            try:
                first_token(s)
                return time.perf_counter() - start
            except OSError:
                check(p.poll() is None and time.perf_counter() - start < 60, "the server does not start")
                time.sleep(0.001)
    finally:
        p.terminate()
        p.wait()


def preset(limit=None, **options):
    """Write a preset of two models. Return its path."""
    path = os.path.join(TMP, "two.ini")
    common = {"max-num-seqs": 16, "max-model-len": 1024, **options}
    with open(path, "w") as f:
        f.write("[*]\n" + "".join(f"{k.replace('_', '-')} = {v}\n" for k, v in common.items()))
        for i in range(2):
            f.write(f"[m{i}]\nmodel = {weights(i)}\n" + (f"memory-limit = {limit}\n" if limit else ""))
    return path


def test_first_token_after_swap():
    """a swapped model's first token is as early as after its own warm start"""
    for i in range(2):
        warm_start(weights(i))  # packs the weights
    s = Server("--models-preset", preset("700M"), "--memory-limit", "1050M", model=None)
    for i in range(4):
        first_token(s, model=f"m{i % 2}")
    swaps, starts = [], []
    for i in range(N_SWAP):
        swaps.append(first_token(s, model=f"m{i % 2}"))
        starts.append(warm_start(weights(i % 2)))
    check(s.metric("quoth:model_loads_total") == N_SWAP + 4, "each request swaps")
    swap, start = statistics.median(swaps), statistics.median(starts)
    print(f"     first token after a swap {swap * 1e3:.0f} ms, after a warm start {start * 1e3:.0f} ms: ratio {swap / start:.2f}")
    check(swap <= 1.2 * start, f"{swap / start:.2f}")
    s.stop()


def gaps_beside_loads(what, **options):
    """Compare the gaps of one model's streams without and with loads of another model."""
    s = Server("--models-preset", preset(**options), model=None)

    def begin():
        ends, n = threading.Event(), [0]

        def work():
            while not ends.is_set():
                for path in ("/models/load", "/models/unload"):
                    check(s.ask("POST", path, {"model": "m1"})[0] == 200, path)
                    while s.metric('quoth:model_loaded{model_name="m1"}') != (path == "/models/load"):
                        time.sleep(0.005)
                n[0] += 1
        t = threading.Thread(target=work)
        t.start()
        return t, ends, n

    def end(work):
        t, ends, n = work
        ends.set()
        t.join()
        check(n[0] > 0, "no load")
    first_token(s, model="m0")
    compare_gaps(s, begin, end, what, model="m0")
    s.stop()


def test_gaps_beside_loads():
    """streams of a model have small gaps while another model is loaded from packed weights"""
    warm_start(weights(1))
    gaps_beside_loads("loads of packed weights")


def test_gaps_beside_packing():
    """streams of a model have small gaps while another model's weights are packed"""
    gaps_beside_loads("loads that pack weights", pack_cache="false")


TESTS = [test_gaps_beside_batch, test_batch_rate, test_first_token_after_swap, test_gaps_beside_loads, test_gaps_beside_packing]
if __name__ == "__main__":
    if not LONG:
        print("skip background work beside streams (QUOTH_LONG=1 runs it)")
        shutil.rmtree(TMP, ignore_errors=True)
    else:
        run(TESTS, timed=True)
