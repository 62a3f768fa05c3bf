#!/usr/bin/env python3
"""Goal: nothing that a client sends, holds back or does to its connection hurts the server or another client.
Method: a seeded crowd of bad clients (malformed requests, dribbled ones, a thousand connections, half-closed ones, hang-ups
while queued and while streaming, readers that do not read) beside healthy ones whose every answer is compared; then the server's
descriptors and memory must be what they were.

Environment: QUOTH the program, QUOTH_ROOT the repository, QUOTH_LONG=1 for 100,000 malformed requests instead of some thousand.
Prints "ok NAME", "skip NAME" or "FAIL NAME: why" per test."""
import json
import random
import resource
import socket
import struct
import sys
import threading
import time

from server import LONG, SLOW, Failed, Server, check, run

N_MALFORMED = 100000 if LONG else 1000 if SLOW else 3000
STORY = {"prompt": "Once upon a time", "max_tokens": 16, "temperature": 0}
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
N_CONNECTION = min(1000, (hard - 300) // 2)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
plain = None


class Client:
    """A connection to a server."""

    def __init__(self, server, timeout=60):
        self.s = socket.create_connection(("127.0.0.1", server.port), timeout=timeout)

    def say(self, data):
        try:
            self.s.sendall(data)
        except OSError:
            pass  # refused half way: what it said is still to be read

    def hear(self, n=1 << 20):
        data = b""
        try:
            while len(data) < n and (piece := self.s.recv(65536)):
                data += piece
        except OSError:
            pass
        return data

    def reset(self):
        """Away without a goodbye."""
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        try:
            self.s.close()
        except OSError:
            pass


def post(body, path="/v1/completions", more=""):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Healthy(threading.Thread):
    """Asks for the same answer again and again, whole and in pieces."""

    def __init__(self, server):
        super().__init__()
        self.server, self.n, self.wrong, self.over = server, 0, None, False
        self.want = self.whole()
        self.start()

    def whole(self):
        c = Client(self.server)
        c.say(post(STORY, more="Connection: close\r\n"))
        data = c.hear()
        c.close()
        return json.loads(data.split(b"\r\n\r\n", 1)[1])["choices"][0]["text"]

    def pieces(self):
        c = Client(self.server)
        c.say(post({**STORY, "stream": True}).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        rows = c.hear().split(b"\r\n\r\n", 1)[1].split(b"\n\n")
        c.close()
        return "".join(json.loads(r[6:])["choices"][0]["text"] for r in rows if r.startswith(b"data: {"))

    def run(self):
        while not self.over:
            try:
                got = self.pieces() if self.n % 2 else self.whole()
                if got != self.want:
                    self.wrong = repr(got)
            except Exception as e:
                self.wrong = repr(e)
            self.n += 1

    def end(self):
        self.over = True
        self.join()
        check(self.wrong is None and self.n >= 2, f"a healthy client, {self.n} answers: {self.wrong}")


# ---- bad requests ----

def nested(rng):
    depth = rng.choice((10, 300, 100000))
    return post(rng.choice((b"[" * depth, b'{"prompt":' * depth, b"[" * depth + b"]" * depth)))


def wrong_types(rng):
    field = rng.choice(("prompt", "max_tokens", "temperature", "top_p", "n", "stop", "stream", "logit_bias", "logprobs", "seed",
                        "messages", "tools", "model", "stream_options", "bad_words", "priority"))
    value = rng.choice(("NaN", "1e999", "-1", "[]", "{}", '"x"', "[[]]", "99999999999999999999", "null", '[{"a":1}]', "true",
                        '{"a": {}}', "-1e308", '"' + "a" * 5000 + '"'))
    path = rng.choice(("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize", "/apply-template"))
    return post(f'{{"max_tokens": 1, "prompt": "a", "{field}": {value}}}'.encode(), path)


def bad_text(rng):
    return post(b'{"prompt": "' + bytes(rng.randrange(128, 256) for _ in range(20)) + b'", "max_tokens": 1}')


def truncated(rng):
    whole = post(STORY)
    return whole[:rng.randrange(1, len(whole))]


def oversized(rng):
    return rng.choice((b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70000 + b"\r\n\r\n",
                       b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", b"A" * 70000,
                       b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000 + b"\r\n",
                       b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{"))


def mutated(rng):
    data = bytearray(post(STORY, more="Transfer-Encoding: chunked\r\n" if rng.random() < 0.2 else ""))
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(data))
        how = rng.randrange(3)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at:at + rng.randrange(1, 9)]
        else:
            data[at:at] = data[at:at + rng.randrange(1, 30)]
        data = data or bytearray(b"x")
    return bytes(data)


def noise(rng):
    return rng.randbytes(rng.randrange(1, 3000))


def malformed_on(server, count, seed):
    rng = random.Random(seed)
    kinds = (nested, wrong_types, wrong_types, bad_text, truncated, oversized, mutated, mutated, mutated, noise)
    for _ in range(count):
        c = Client(server, timeout=20)
        c.say(rng.choice(kinds)(rng))
        try:
            socket.socket.shutdown(c.s, socket.SHUT_WR)  # so that half a request is answered by a close
        except OSError:
            pass
        answer = c.hear()
        c.close()
        check(not answer or answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4", b"HTTP/1.1 1", b"HTTP/1.1 503")), answer[:200])


def in_threads(work, n=4):
    failed = []

    def one(i):
        try:
            work(i)
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]


# ---- bad manners ----

def hang_ups_on(server, count, seed):
    rng = random.Random(seed)
    body = {"prompt": "Once", "max_tokens": 500, "ignore_eos": True, "stream": True}
    for i in range(count):
        c = Client(server)
        c.say(post({**body, "stream": rng.random() < 0.7}))
        if rng.random() < 0.5:
            c.s.settimeout(0.2)  # the whole may be shorter
            c.hear(rng.randrange(1, 20000))
        else:
            time.sleep(rng.random() * 0.05)
        if rng.random() < 0.5:
            c.reset()
        else:
            c.close()


def crowd_on(server, healthy):
    """Many connections: idle, half a head, half a body, a stream that nobody reads."""
    before, clients = healthy.n, []
    for i in range(N_CONNECTION):
        c = Client(server)
        c.say((b"", b"GET /health HT", post(STORY)[:-10],
               post({**STORY, "stream": True, "max_tokens": 900, "ignore_eos": True}))[i % 4 if i < 200 else i % 3])
        clients.append(c)
    until = time.monotonic() + 60
    while healthy.n < before + 4 and time.monotonic() < until:
        time.sleep(0.05)
    check(healthy.n >= before + 4, "healthy clients wait")
    for c in clients:
        c.close()


def half_closed_on(server, count):
    for _ in range(count):
        c = Client(server)
        c.say(post({**STORY, "stream": True}))
        c.s.shutdown(socket.SHUT_WR)
        data = c.hear()
        c.close()
        check(b"data: [DONE]" in data, data[-200:])


def abuse(server):
    def all_of_it(scale):
        healthy = Healthy(server)
        try:
            n = N_MALFORMED * scale / 4
            in_threads(lambda i: malformed_on(server, int(n), i))
            in_threads(lambda i: hang_ups_on(server, int(25 * scale), i))
            half_closed_on(server, 5)
            crowd_on(server, healthy)
        finally:
            healthy.end()
        return healthy.n

    def still():
        server.settle(60)
        time.sleep(1)
        return server.n_fd(), server.rss_kib()

    fd0 = server.n_fd()
    all_of_it(1)  # until then memory grows to what such a crowd takes
    first = still()
    n = all_of_it(1)
    fd, rss = still()
    check(fd <= fd0 + 1, f"{fd0} descriptors became {fd}")
    check(SLOW or rss < first[1] + 16384, f"{first[1]} KiB became {rss}")
    check(server.process.poll() is None)
    print(f"     {n} healthy answers meanwhile; {fd0} -> {fd} descriptors, {first[1]} -> {rss} KiB")


def over_tcp():
    """bad clients over TCP hurt nobody, and leave nothing behind"""
    abuse(plain)


def under_load():
    """SIGTERM while all that goes on: it ends well"""
    workers = [threading.Thread(target=lambda i=i: ignore(hang_ups_on, plain, 40, i)) for i in range(4)]
    for t in workers:
        t.start()
    time.sleep(0.5)
    plain.stop()
    for t in workers:
        t.join()


def ignore(f, *args):
    try:
        f(*args)
    except OSError:
        pass


try:
    few_pages = ("--disable-access-log", "--num-gpu-blocks-override", "128")  # all touched in the first round
    plain = Server(*few_pages, "--timeout-write", "5")
except Failed as e:
    print(f"FAIL quoth serve: {e}")
    sys.exit(1)
run([over_tcp, under_load])
