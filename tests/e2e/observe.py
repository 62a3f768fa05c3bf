#!/usr/bin/env python3
"""Goal: quoth top shows a server on any terminal, even after the server's end. A server's trace
contains every request, even if the server is killed. Method: quoth top in a pseudo-terminal, whose
screen is assembled here. Traces of concurrent requests are compared with the clients' answers and
with the metrics.

Environment: QUOTH the program, QUOTH_ROOT the repository. The script prints "ok NAME", "skip NAME"
or "FAIL NAME: why" per test."""
import collections
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

from server import MODEL, QUOTH, TMP, Server, check, free_port, run

STORY = {"prompt": "Once upon a time", "max_tokens": 64, "temperature": 0, "ignore_eos": True}


def top(*args, env=None):
    return subprocess.run([QUOTH, "top", *args], capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})


def no_libcurl():
    return "libcurl" in top("--once", "http://127.0.0.1:9").stderr


class Busy:
    """A context manager that keeps a server busy."""

    def __init__(self, server, n=4):
        self.server, self.over = server, False
        self.threads = [threading.Thread(target=self.work) for _ in range(n)]

    def work(self):
        while not self.over:
            try:
                self.server.ask("POST", "/v1/completions", STORY)
            except OSError:
                time.sleep(0.05)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over = True
        for t in self.threads:
            t.join()


class Terminal:
    """A program in a pseudo-terminal, and the screen that it draws."""

    def __init__(self, args, rows=24, columns=80, env=None):
        self.rows, self.columns, self.data, self.status = rows, columns, b"", None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(args[0], args, {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(env or {})})

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                return
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                piece = b""
            if not piece:
                return
            self.data += piece

    def frames(self):
        """Return every complete frame so far, as rows without colours."""
        plain = re.sub(r"\x1b\[[0-9;]*m", "", self.data.decode("utf-8", "replace"))
        return [[row.replace("\x1b[K", "").rstrip("\r") for row in frame.split("\x1b[J")[0].split("\r\n")]
                for frame in plain.split("\x1b[H")[1:] if "\x1b[J" in frame]

    def wait_for(self, what, seconds=30):
        """Return the first new frame that contains the text `what`, or for which the function
        `what` is true."""
        before, until = len(self.frames()), time.monotonic() + seconds
        while time.monotonic() < until:
            self.read(0.2)
            for frame in self.frames()[before:]:
                if what(frame) if callable(what) else any(re.search(what, row) for row in frame):
                    return frame
        last = self.frames()[-1:] or [[self.data[-300:]]]
        raise AssertionError(f"no {what!r} on the screen: {last[0]}")

    def end(self, seconds=20):
        until = time.monotonic() + seconds
        while self.status is None and time.monotonic() < until:
            self.read(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
        return self.status


def report():
    """quoth top: one report if standard output is not a terminal, as text and as JSON"""
    if no_libcurl():
        return "built without libcurl"
    s = Server()
    try:
        with Busy(s):
            time.sleep(0.5)
            text = top(s.url)
            both = top("--once", "--json", "--interval", "0.5", s.url + "/")
        check(text.returncode == 0 and both.returncode == 0, text.stderr + both.stderr)
        for row in (r"quoth-tiny", r"generation +\d[\d.]* tok/s", r"running +\d", r"KV in use +\d[\d.]* %", r"first token +[<\d]",
                    r"between tokens +[<\d]", r"length \d"):
            check(re.search(row, text.stdout), (row, text.stdout))
        check("<300 ms" not in text.stdout, text.stdout)  # vLLM's first bucket
        check("\x1b" not in text.stdout and "retrying" not in text.stdout, text.stdout)
        o = json.loads(both.stdout)
        check(o["model"] == "quoth-tiny" and o["generation_tokens_per_second"] > 0 and 0 <= o["kv_cache_usage_perc"] <= 1, o)
        itl = o["inter_token_latency_seconds"]
        check(itl["count"] > 0 and 0 < itl["p50"] <= itl["p90"] <= itl["p99"] and itl["mean"] > 0, o)
    finally:
        s.stop()
    gone = top("--once", s.url)
    check(gone.returncode == 1 and s.url in gone.stderr and not gone.stdout, gone)
    check(top("--nonsense").returncode == 2 and top("--interval", "0").returncode == 2)


def report_with_key():
    """quoth top: keys, unix sockets, and servers without metrics"""
    if no_libcurl():
        return "built without libcurl"
    path = os.path.join(TMP, "top-socket")
    s = Server("--api-key", "sk-top", "--uds", path)
    try:
        none = top("--once", f"unix:{path}", env={"OPENAI_API_KEY": ""})
        check(none.returncode == 1 and "--api-key" in none.stderr, none)
        right = top("--once", "--json", "--uds", path, "--api-key", "sk-top", "--interval", "0.2")
        check(right.returncode == 0 and json.loads(right.stdout)["model"] == "quoth-tiny", right)
        from_environment = top("--once", f"unix:{path}", "-d", "0.2", env={"OPENAI_API_KEY": "sk-top"})
        check(from_environment.returncode == 0, from_environment)
    finally:
        s.stop()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        def serve():
            c = other.accept()[0]
            c.recv(4096)
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\nConnection: close\r\n\r\n<html>\n</html>")
            c.close()

        t = threading.Thread(target=serve)
        t.start()
        wrong = top("--once", f"127.0.0.1:{port}")
        t.join()
    check(wrong.returncode == 1 and "expected a metrics page" in wrong.stderr, wrong)


def live():
    """quoth top: live, through resizing and a server's restart, until q"""
    if no_libcurl():
        return "built without libcurl"
    port = str(free_port())
    s = Server("--port", port)
    t = Terminal([QUOTH, "top", s.url, "--interval", "0.3"])
    try:
        with Busy(s, 2):
            frame = t.wait_for(r"generation +\d[\d.]* tok/s +.*[▂-█]")
            check(t.data.startswith(b"\x1b[?1049h") and len(frame) <= 24 and max(map(len, frame)) <= 80, frame)
            for rows, columns in ((40, 132), (8, 40), (24, 80)):
                t.resize(rows, columns)
                frame = t.wait_for(lambda f: len(f) <= rows and columns // 2 < max(map(len, f)) <= columns)
                t.read(0.7)
                frame = t.frames()[-1]
                check(len(frame) <= rows and max(map(len, frame)) <= columns, frame)
            s.process.kill()
            s.process.wait()
            t.wait_for("not reachable, retrying")
            s = Server("--port", port)
            frame = t.wait_for(r"generation +\d[\d.]* tok/s")
        t.read(1.5)
        check(not any("retrying" in row for row in t.frames()[-1]), t.frames()[-1])
        os.write(t.fd, b"x")  # quoth top ignores this key
        t.read(0.5)
        os.write(t.fd, b"q")
        check(t.end() == 0, t.status)
        check(t.data.endswith(b"\x1b[?1049l"), t.data[-40:])
    finally:
        if t.status is None:
            t.end(0)
        s.stop()


def live_without_colours():
    """quoth top: plain letters, no colours, Ctrl-C, and a server that never starts"""
    if no_libcurl():
        return "built without libcurl"
    port = free_port()
    t = Terminal([QUOTH, "top", f"127.0.0.1:{port}", "-d", "0.2"], env={"LC_ALL": "C", "NO_COLOR": "1"})
    try:
        t.wait_for("not reachable, retrying")
        s = Server("--port", str(port))
        try:
            t.wait_for(r"KV in use.*_")
            check(not re.search(rb"\x1b\[\d*m", t.data.replace(b"\x1b[m", b"\x1b[0m")), "colours")
            t.data.decode("ascii")
            os.write(t.fd, b"\x03")
            check(t.end() == 0, t.status)
        finally:
            s.stop()
    finally:
        if t.status is None:
            t.end(0)


# ---- traces ----

def slices(events):
    """Return {(process, lane): [(begin, end, name, args)]}. All slices of a lane are nested or
    separate."""
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
    """the trace of a killed server lacks only its end"""
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
    """a trace that cannot be written is rejected, and a trace at its size limit ends"""
    r = subprocess.run([QUOTH, "serve", MODEL, "--port", "0", "--trace-file", "/nowhere/trace.json"], capture_output=True, text=True,
                       timeout=60)
    check(r.returncode == 1 and "--trace-file /nowhere/trace.json" in r.stderr, r)
    if os.path.exists("/dev/full"):
        r = subprocess.run([QUOTH, "serve", MODEL, "--port", "0", "--trace-file", "/dev/full"], capture_output=True, text=True,
                           timeout=60)
        check(r.returncode == 1 and "/dev/full" in r.stderr, r)
    path = os.path.join(TMP, "full.json")
    s = Server("--trace-file", path, "--trace-file-size", "1")
    try:
        until = time.monotonic() + 60
        while s.metric("quoth:trace_events_dropped_total") == 0 and time.monotonic() < until:
            ask_all(s, 8)
        check(s.metric("quoth:trace_events_dropped_total") > 0 and "the trace ends here" in s.text(), s.text()[-300:])
    finally:
        s.stop()
    check(os.path.getsize(path) <= 1 << 20, os.path.getsize(path))
    with open(path) as f:
        events = json.load(f)
    slices(events)
    check(events[-1]["name"] == "end" and events[-1]["args"]["events_dropped"] > 0, events[-1])


run([report, report_with_key, live, live_without_colours, trace, killed, trace_limits], timed=True)
