#!/usr/bin/env python3
# alone: it measures time
"""Goal: a flood by one client does not delay another client's answers in the connection, in the
queue or in the steps. Method: during each pattern of PATTERNS, another client requests 8 tokens
five times a second, and /health ten times a second. The figures of each pattern are compared with
those during 32 usual streams (128 tokens in and out) of the flooding client. The usual streams are
measured on the same server before and after each pattern. The test runs once with two keys, and
once without keys from two addresses (127.0.0.1, 127.0.0.2).

With QUOTH_LONG=1 a pattern runs for 60 s. No request may be rejected or fail. The p99 of the first
token must be at most 3 times that during the streams. The p99 of /health must be at most 50 ms. The
p99 of /health must also be at most 3 times that of an idle control server at the same time. Without
QUOTH_LONG a pattern runs for 2 s. Every second pattern runs with keys, and the other patterns run
without keys. A time of 2 s gives too few samples for a p99. No request may be rejected or fail. The
medians must be within the limits for a p99, in one of up to three measurements. The first token's
median is compared only if the server had its two processors during the streams. Otherwise requests
queue, and times are not comparable (engine/crowd_test.c counts steps instead). The test prints a
line for each pattern, with its times and the ratios of its median and p99 to those during the
streams. PATTERN=a,b in the environment selects patterns by their functions' names. FLOOD_SECONDS=n
sets the time of each pattern. The flood is a separate process at a low priority, so that its work
is not measured. A new pattern is a function in PATTERNS. The function starts its threads and
returns. The pattern's process is killed at the end of the time.

Environment: like abuse.py. The script prints "ok NAME", "skip NAME" or "FAIL NAME: why" per
test."""
import http.client
import itertools
import json
import multiprocessing
import os
import resource
import signal
import socket
import struct
import threading
import time

from hostile import cases
from server import LONG, SLOW, TMP, Failed, Server, check, run

SECONDS = float(os.environ.get("FLOOD_SECONDS", 60 if LONG else 2))
ALL = LONG or "FLOOD_SECONDS" in os.environ
MIB = 1 << 20
IP_BIND_ADDRESS_NO_PORT = 24  # connect selects the port, from a larger range
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))


class Flood:
    """The flooding client: its server and its identity."""

    def __init__(self, port, key):
        self.port, self.key = port, key

    def head(self, path, length):
        key = f"Authorization: Bearer {self.key}\r\n" if self.key else ""
        return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{key}"
                f"{length}\r\n\r\n").encode()

    def request(self, body, path="/v1/completions"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.head(path, f"Content-Length: {len(body)}") + body

    def connect(self, timeout=300):
        s = socket.socket()
        s.settimeout(timeout)
        s.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        s.bind(("127.0.0.1", 0))
        s.connect(("127.0.0.1", self.port))
        return s

    def again(self, n, work):
        """Run work(i) in n threads, repeatedly."""
        def loop(i):
            while True:
                try:
                    work(i)
                except OSError:
                    time.sleep(0.02)
        for i in range(n):
            threading.Thread(target=loop, args=(i,), daemon=True).start()

    def ask(self, n, body, path="/v1/completions", valid=True):
        """Send requests over n connections and read the answers, repeatedly. body may be a function
        of the connection's number. End the process if the server rejects valid requests."""
        def once(i):
            s = self.connect()
            try:
                s.sendall(self.request(body(i) if callable(body) else body, path))
                s.settimeout(300)
                last = head = s.recv(65536)
                if valid and b" 400 " in head[:20]:
                    print(f"     the flood's request is refused: {head[-300:]!r}", flush=True)
                    os._exit(1)
                while last and b"Content-Length" not in head and not last.endswith(b"\r\n0\r\n\r\n"):
                    last = s.recv(65536)
                if b" 503 " in head[:20] or b" 429 " in head[:20]:
                    time.sleep(0.1)
            finally:
                s.close()
        self.again(n, once)


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


# ---- patterns: the numbers are those of the review's findings ----

def ordinary(f):
    """32 streams of 128 tokens in and out"""
    f.ask(32, lambda i: {"prompt": [(7 * i + 13 * k + time.monotonic_ns() // 1000) % 40000 + 300 for k in range(128)],
                         "max_tokens": 128, "ignore_eos": True, "stream": True})


def many_prompts(f):
    """9 requests of 2048 prompts (2)"""
    f.ask(9, lambda i: {"prompt": [f"Once {i} {k}" for k in range(2048)], "max_tokens": 1000, "ignore_eos": True})


def many_requests(f):
    """1,088 requests (2)"""
    f.ask(1088, {"prompt": "Once", "max_tokens": 1000, "ignore_eos": True})


def newlines_and_leavers(f):
    """two bodies of 31 MB of line feeds, and clients that disconnect after 50 ms (3)"""
    f.ask(2, b'{"prompt":"' + b"\\n" * (15 * MIB) + b'","max_tokens":1}', valid=False)
    small = f.request({"prompt": "a", "max_tokens": 1000, "ignore_eos": True})

    def leave(i):
        s = f.connect()
        s.sendall(small)
        time.sleep(0.05)
        reset(s)
    f.again(16, leave)


def unfinished_bodies(f):
    """chunked bodies that never end, large and small (5)"""
    sizes = [31 * MIB] * 8 + [4 * MIB] * 8 + [MIB] * 16 + [65536] * 16 + [16] * 32

    def hold(i):
        s = f.connect(5)
        try:
            s.sendall(f.head("/v1/completions", "Transfer-Encoding: chunked"))
            s.sendall(b"%x\r\n" % sizes[i] + b" " * sizes[i] + b"\r\n")
            for _ in range(100):
                s.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
                time.sleep(1)
        finally:
            s.close()
    f.again(len(sizes), hold)


def bad_words(f):
    """30 requests of 128 choices with the maximum of bad_words (6)"""
    f.ask(30, {"prompt": "Once", "n": 128, "max_tokens": 700, "ignore_eos": True, "bad_words": ["w%04d abcdefgh" % k for k in range(4096)]})


def long_prompts(f):
    """four prompts that fill the context, repeatedly (9)"""
    f.ask(4, lambda i: {"prompt": [(31 * i + k * 17 + time.monotonic_ns() // 1000) % 40000 + 300 for k in range(8000)],
                        "max_tokens": 60, "ignore_eos": True})


def one_of_128(f):
    """a request of 128 choices with 20 log probabilities (9)"""
    f.ask(1, {"prompt": "a", "n": 128, "max_tokens": 1000, "logprobs": 20, "ignore_eos": True})


def four_of_128(f):
    """four streams of 128 choices with 20 log probabilities (9)"""
    f.ask(4, {"prompt": "a", "n": 128, "max_tokens": 1000, "logprobs": 20, "ignore_eos": True, "stream": True})


def silent(f):
    """1,100 connections that send one byte (11)"""
    def hold(i):
        s = f.connect(20)
        s.sendall(b"G")
        s.recv(100)
        s.close()
    f.again(1100, hold)


def large_bodies(f):
    """bodies of 31 MB: letters, digits, words, spaces (13)"""
    texts = [b"a" * (31 * MIB), b"7" * (31 * MIB), b"a " * (15 * MIB), b" " * (31 * MIB)]
    f.ask(4, lambda i: b'{"prompt":"' + texts[i] + b'","max_tokens":1}', valid=False)


def large_tokenize(f):
    """/tokenize of 31 MB, and answers of 98 MB (13)"""
    f.ask(2, b'{"prompt":"' + b"a" * (31 * MIB) + b'"}', "/tokenize")
    f.ask(2, b'{"prompt":"' + b"\\n" * (8 * MIB) + b'","return_token_strs":true}', "/tokenize")


def words_times_prompts(f):
    """60 kB of 2048 prompts and 4096 bad words (13)"""
    f.ask(4, {"prompt": ["a"] * 2048, "max_tokens": 1, "bad_words": ["w%d x" % k for k in range(4096)]})


def chats_and_tokenize(f):
    """12 clients with chats and /tokenize of 4 MB (4)"""
    f.ask(8, {"messages": [{"role": "user", "content": "Tell me a story. " * 20}], "max_tokens": 100, "n": 4}, "/v1/chat/completions")
    f.ask(4, b'{"prompt":"' + b"one two three " * (4 * MIB // 14) + b'"}', "/tokenize")


# ---- other patterns ----

def unread_streams(f):
    """300 streams without a reader"""
    def hold(i):
        s = f.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.sendall(f.request({"prompt": "Once", "max_tokens": 4000, "ignore_eos": True, "stream": True, "logprobs": 20}))
        time.sleep(40)
        s.close()
    f.again(300, hold)


def beams(f):
    """beam searches of width 50 on prompts of 300 tokens"""
    f.ask(4, {"prompt": "Once upon a time " * 60, "n": 50, "best_of": 50, "use_beam_search": True, "temperature": 0, "max_tokens": 200,
              "ignore_eos": True})


def connect_and_go(f):
    """connections that open and close without a byte, as fast as they can"""
    def once(i):
        reset(f.connect(5))
    f.again(8, once)


def values(f):
    """31 MB of JSON values, and rendered conversations of 20 MB"""
    f.ask(2, b'{"prompt":[' + b"1," * (15 * MIB) + b"1]}", valid=False)
    f.ask(2, b'{"prompt":' + b"[" * 190 + b"]" * 190 + b',"x":[' + b"[]," * 900000 + b"[]]}", valid=False)
    f.ask(2, {"messages": [{"role": "user", "content": "x" * 400}] * 50000, "max_tokens": 1}, "/v1/chat/completions", valid=False)


def pipelined(f):
    """64 connections with hundreds of small pipelined requests, most of them metrics"""
    key = f"Authorization: Bearer {f.key}\r\n" if f.key else ""
    ahead = (f"GET /metrics HTTP/1.1\r\nHost: localhost\r\n{key}\r\n" * 3
             + f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{key}\r\n").encode() * 100

    def once(i):
        s = f.connect(20)
        try:
            s.sendall(ahead)
            n = 0
            while n < 400 and (piece := s.recv(1 << 18)):
                n += piece.count(b"HTTP/1.1 200")
        finally:
            s.close()
    f.again(64, once)


def hostile_constraints(f):
    """constraints that are huge, deep, exponential or malformed, 8 at a time"""
    fields = {"schema": "json", "schema-text": "json", "gbnf": "grammar", "lark": "grammar", "tag": "structural_tag"}
    bodies = [json.dumps({"prompt": "Once", "max_tokens": 100, "structured_outputs": {fields.get(kind, kind): value}}).encode()
              for kind, _, value in cases()]
    turn = itertools.count()
    f.ask(8, lambda i: bodies[next(turn) % len(bodies)], valid=False)


PATTERNS = [many_prompts, many_requests, newlines_and_leavers, unfinished_bodies, bad_words, long_prompts, one_of_128, four_of_128,
            silent, large_bodies, large_tokenize, words_times_prompts, chats_and_tokenize, unread_streams, beams, connect_and_go,
            values, pipelined, hostile_constraints]


def flood(pattern, port, key):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)
    pattern(Flood(port, key))
    time.sleep(10000)


# ---- the other client ----

def control(listener):
    """A control server without other work. The time of its answers is the overhead of the
    machine."""
    while True:
        s, _ = listener.accept()
        with s:
            s.recv(4096)
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


class Prober:
    """A client that requests 8 tokens every 200 ms, and /health and the control every 100 ms, each
    on a separate connection."""

    def __init__(self, server, key, source):
        self.server, self.key, self.source = server, key, source
        self.first, self.health, self.control, self.failed, self.threads = [], [], [], [], []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    def connect(self, which):
        port = self.listener.getsockname()[1] if which == "control" else self.server.port
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        c.sock = socket.socket()
        c.sock.settimeout(120)
        c.sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        c.sock.bind((self.source, 0))
        c.sock.connect(("127.0.0.1", port))
        return c

    def one(self, which):
        begin = time.monotonic()
        try:
            c = self.connect(which)
            if which != "tokens":
                c.request("GET", "/health")
            else:
                head = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
                c.request("POST", "/v1/completions", json.dumps({"prompt": "Once upon a time", "max_tokens": 8, "ignore_eos": True,
                                                                 "stream": True}), head)
            r = c.getresponse()
            text = r.readline() if which == "tokens" else b""
            took = time.monotonic() - begin
            text += r.read()
            c.close()
            whole = which != "tokens" or (b"data: [DONE]" in text and b'"error"' not in text)
            if r.status != 200 or not whole:
                self.failed.append(f"{which}: {r.status} {text[:200]!r}")
        except (OSError, http.client.HTTPException) as e:
            took = time.monotonic() - begin
            self.failed.append(f"{which}: {e!r} after {took:.1f} s")
        {"health": self.health, "control": self.control, "tokens": self.first}[which].append(took)

    def ask(self, seconds):
        idle = multiprocessing.get_context("fork").Process(target=control, args=(self.listener,), daemon=True)
        idle.start()
        begin = time.monotonic()
        for i in range(int(seconds * 10)):
            time.sleep(max(0, begin + i / 10 - time.monotonic()))
            for which in ("health", "control") if i % 2 else ("health", "control", "tokens"):
                t = threading.Thread(target=self.one, args=(which,), daemon=True)
                t.start()
                self.threads.append(t)
        for t in self.threads:
            t.join(130)
        idle.kill()
        idle.join()
        self.listener.close()
        check(not any(t.is_alive() for t in self.threads), "an answer did not come")


def rank(v, p):
    return sorted(v)[min(len(v) - 1, int(p * len(v)))]


class Case:
    """A server, and the figures next to each pattern."""

    def __init__(self, keys):
        template = os.path.join(TMP, "template.jinja")
        with open(template, "w") as f:
            f.write("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
        options = ["--shape", "smollm-135m", "--quant", "Q8_0", "--disable-access-log", "--chat-template", template]
        if keys:
            path = os.path.join(TMP, "keys")
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
                f.write("sk-flood name=flood\nsk-other name=other\n")
            options += ["--api-key-file", path]
        self.server = Server(*options, model="smollm-135m")
        self.keys = keys
        self.streams = None  # the latest turn of streams

    def cpu_s(self):
        with open(f"/proc/{self.server.process.pid}/stat") as f:
            return sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")

    def beside(self, pattern, seconds=SECONDS):
        p = multiprocessing.get_context("fork").Process(
            target=flood, args=(pattern, self.server.port, "sk-flood" if self.keys else None), daemon=True)
        p.start()
        begin, used = time.monotonic(), self.cpu_s()
        try:
            time.sleep(1.5)
            prober = Prober(self.server, "sk-other" if self.keys else None, "127.0.0.1" if self.keys else "127.0.0.2")
            prober.ask(seconds)
            prober.cores = (self.cpu_s() - used) / (time.monotonic() - begin)
            check(p.is_alive(), "the flood ended before its time")
        finally:
            p.kill()
            p.join()
        check(self.server.process.poll() is None, "the server is gone: " + self.server.text()[-2000:])
        return prober


def figures(p):
    return (f"first token {rank(p.first, 0.5) * 1e3:5.0f} {rank(p.first, 0.99) * 1e3:5.0f} ms, "
            f"/health {rank(p.health, 0.5) * 1e3:4.0f} {rank(p.health, 0.99) * 1e3:4.0f} ms, "
            f"control {rank(p.control, 0.5) * 1e3:4.0f} {rank(p.control, 0.99) * 1e3:4.0f} ms (p50, p99)")


def streams(case):
    p = case.beside(ordinary, max(SECONDS / 2, 2))
    print(f"     {'32 streams':22s} {figures(p)}, {p.cores:.2f} processors", flush=True)
    check(not p.failed, p.failed[:1])
    return p


def judge(pattern, p, around):
    """Return the figures that exceed their limit. around: the streams before and after the
    pattern."""
    base = around[0].first + around[1].first
    alone = min(s.cores for s in around) >= 1.5
    half, last = (rank(p.first, at) / rank(base, at) for at in (0.5, 0.99))
    print(f"     {pattern.__name__:22s} {figures(p)}, {half:.2f} {last:.2f} times of the streams', "
          f"{len(p.first)} beside {len(base)}, {len(p.failed)} failed", flush=True)
    if p.failed:
        raise Failed(f"{pattern.__name__}: {len(p.failed)} refused or failed, the first {p.failed[0]}")
    slow, at = [], 0.99 if LONG else 0.5
    if (alone or LONG) and (last if LONG else half) > 3:
        slow.append(f"{pattern.__name__}: first token {half:.2f} (p50), {last:.2f} (p99) times of that beside the streams")
    health, most = rank(p.health, at), 0.05 + 3 * rank(p.control, at)
    if health > most:
        slow.append(f"{pattern.__name__}: /health after {health * 1e3:.0f} ms, at most {most * 1e3:.0f}")
    return slow


def in_turns(case, patterns):
    """Measure these patterns with a turn of streams before and after them. Return the slow figures
    and their patterns. The last turn of one call is the first turn of the next call."""
    around = [case.streams or streams(case)]
    seen = [(pattern, case.beside(pattern)) for pattern in patterns]
    case.streams = streams(case)
    around.append(case.streams)
    slow = {pattern: judge(pattern, p, around) for pattern, p in seen}
    return {pattern: why for pattern, why in slow.items() if why}


def every_pattern(keys):
    if SLOW:
        return "sanitizers change what takes long"
    case, bad = Case(keys), {}
    only = os.environ.get("PATTERN")
    chosen = [p for i, p in enumerate(PATTERNS) if (p.__name__ in only.split(",") if only else ALL or i % 2 != keys)]
    try:
        for i in range(0, len(chosen), 3):
            slow = in_turns(case, chosen[i:i + 3])
            for _ in range(0 if LONG else 2):  # other programs may have used the machine
                if slow:
                    slow = in_turns(case, list(slow))
            bad.update(slow)
        case.server.stop()
    finally:
        case.server.process.kill()
        case.server.process.wait()
    if bad:
        raise Failed("; ".join(why for whys in bad.values() for why in whys))


def with_keys():
    """a flood of one key delays no other key"""
    return every_pattern(True)


def without_keys():
    """a flood of one address delays no other address"""
    return every_pattern(False)


run([with_keys, without_keys], timed=True)
