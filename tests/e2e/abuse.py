#!/usr/bin/env python3
"""Goal: no byte, delay or disconnect of a client harms the server or another client. Method: run
many bad clients with a fixed seed (badclients.py), plain and over TLS. Compare every answer of
healthy clients with the expected answer. The crowd sends malformed and slow requests over a
thousand connections, some of them
half-closed. The crowd disconnects in the queue, in a long prompt and in a stream, and does not read
some streams. Afterwards the server's descriptors, memory and pages must have their former values.

Environment: QUOTH the program, QUOTH_ROOT the repository. QUOTH_LONG=1: 100,000 malformed requests
instead of some thousand, also with sanitizers (QUOTH_LONG=1 SAN=thread ./test tests/e2e/abuse.py).
The script prints "ok NAME", "skip NAME" or "FAIL NAME: why" per test."""
import json
import os
import random
import resource
import select
import socket
import ssl

import threading
import time

from badclients import STORY, Client, beside_healthy, crowd, half_closed, hang_ups, in_threads, malformed, pieces, post
from server import FEW, LONG, PATIENCE, SLOW, TMP, Failed, Server, certificate, check, run

N_MALFORMED = 100000 if LONG else 400 if FEW else 1600  # over TLS, the crowd sends a fifth of the requests
N_LEAVING = 50 if LONG else 2 if FEW else 3
N_LONG = 4000 if FEW else 16000  # tokens of a long prompt
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
N_CONNECTION = min(1000, hard - 300)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))

# few pages, so that the first round uses all pages
OPTIONS = ("--disable-access-log", "--num-gpu-blocks-override", "128", "--timeout-write", "5", "--max-connections", "1200")
servers = {}


def tls_options():
    pair = certificate()
    return ("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1]) if pair else None


def round_of(server, n_malformed, scale):
    """Run the whole crowd once. Return the number of correct answers to healthy clients during the
    run."""
    with beside_healthy(server) as healthy:
        in_threads(lambda i: malformed(server, n_malformed // 4, 10 * scale + i))
        in_threads(lambda i: hang_ups(server, 10 if FEW else 20, 10 * scale + i))
        half_closed(server, 5)
        crowd(server, healthy, N_CONNECTION)
    return healthy


def abuse(server, n_malformed):
    fd0 = server.n_fd()
    round_of(server, min(n_malformed, 2000) // 4, 1)  # the memory grows to the size that the crowd needs
    _, first, _ = server.still()
    healthy = round_of(server, n_malformed, 2)
    fd, rss, kv = server.still()
    check(server.process.poll() is None)
    check(fd <= fd0 + 1, f"{fd0} descriptors became {fd}")
    check(kv == 0, f"{kv} of the pages are still held")
    check(SLOW or rss < first + 32768, f"{first} KiB became {rss}")
    print(f"     {healthy.n} healthy answers meanwhile, the slowest {healthy.worst:.2f} s; {fd0} -> {fd} descriptors, "
          f"{first} -> {rss} KiB")


def over_tcp():
    """bad clients over TCP harm no other client and leave no resources in use"""
    servers["plain"] = Server(*OPTIONS)
    abuse(servers["plain"], N_MALFORMED)


def over_tls():
    """bad clients over TLS harm no other client and leave no resources in use"""
    more = tls_options()
    if not more:
        return "no openssl"
    servers["tls"] = Server(*OPTIONS, *more)
    abuse(servers["tls"], N_MALFORMED // 5)


# ---- slow clients ----

def client_hello():
    """Return the first bytes of a TLS handshake."""
    out = ssl.MemoryBIO()
    half = ssl._create_unverified_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    try:
        half.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


class Drip:
    """A client that sends one byte at a time."""

    def __init__(self, server, kind):
        self.kind, self.heard, self.ended = kind, b"", None
        if kind == "handshake":
            self.s, self.left = socket.create_connection(("127.0.0.1", server.port)), client_hello()
        else:
            self.s = Client(server).s
            self.left = b"x" * 1000
            self.s.sendall(b"GET /health HTTP/1.1\r\nX: " if kind == "head" else post(b" " * 2000)[:-2000])
        self.start = time.monotonic()

    def go_on(self):
        try:
            self.s.settimeout(0.01)
            if select.select([self.s], [], [], 0)[0]:
                piece = self.s.recv(65536)
                self.heard += piece
                if not piece:
                    raise OSError("closed")
            self.s.sendall(self.left[:1])
            self.left = self.left[1:]
        except socket.timeout:
            pass  # a TLS shutdown, not part of the request
        except OSError:
            self.ended = self.ended or time.monotonic() - self.start


def slow_loris_on(*options):
    server = Server(*OPTIONS, "--timeout-head", "2", "--timeout-body", "2", *options)
    try:
        with beside_healthy(server):
            kinds = ("head", "body", "handshake") if server.tls else ("head", "body")
            drips = [Drip(server, kind) for kind in kinds * (10 if FEW else 40)]
            until = time.monotonic() + 30
            while any(not d.ended for d in drips) and time.monotonic() < until:
                for d in drips:
                    if not d.ended:
                        d.go_on()
                time.sleep(0.05)
            check(all(d.ended for d in drips), f"{sum(not d.ended for d in drips)} still drip after 30 s")
            check(all(b" 408 " in d.heard for d in drips if d.kind != "handshake"), [d.heard[:40] for d in drips][:6])
            check(SLOW or max(d.ended for d in drips) < 8, max(d.ended for d in drips))
    finally:
        server.stop()


def slow_loris():
    """slow heads, bodies and handshakes get 408 in time and delay no other client"""
    slow_loris_on()
    if tls_options():
        slow_loris_on(*tls_options())


# ---- clients that disconnect early ----

def long_model():
    """Make random weights with a context for a long prompt. A build that is 30 times as slow gets a
    quarter of the model's size."""
    n = 1 if SLOW and LONG else 2
    folder = os.path.join(TMP, "long")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"model_type": "qwen3", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": n,
                   "num_attention_heads": n, "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 400,
                   "max_position_embeddings": 20000, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
                   "tie_word_embeddings": True}, f)
    return folder


class Leaving:
    """Requests with a separate long prompt each, whose clients disconnect."""

    def __init__(self, *options):
        self.server = Server("--disable-access-log", "--load-format", "dummy", "--max-num-seqs", "1", "--max-model-len", "20000",
                             "--max-num-batched-tokens", "256", *options, model=long_model())
        self.rng = random.Random(5)

    def ask(self, stream=False, max_tokens=4, n_prompt=N_LONG):
        c = Client(self.server)
        # random ids, so no other prompt finds these prefixes in the cache
        ids = [self.rng.randrange(300) for _ in range(n_prompt)]
        c.say(post({"prompt": ids, "max_tokens": max_tokens, "ignore_eos": True, "stream": stream}, more="Connection: close\r\n"))
        return c

    def until(self, what, seconds=60 * PATIENCE):
        """Wait for a state of /load. Return the number of steps computed so far."""
        end = time.monotonic() + seconds
        while not what(load := self.server.ask("GET", "/load")[2]):
            check(time.monotonic() < end, load)
            time.sleep(0.002)
        return self.server.metric("quoth:steps_total")

    def gone(self, c):
        """Return the number of steps computed after the client's disconnect, until its pages are
        free."""
        before = self.server.metric("quoth:steps_total")
        self.rng.choice((c.reset, c.close))()
        after = self.until(lambda load: load["running"] == 0)
        check(self.server.metric("vllm:kv_cache_usage_perc") == 0, "pages are still held")
        return after - before

    def in_prompt(self, count):
        start = self.server.metric("quoth:steps_total")
        begun = time.monotonic()
        c, most = self.ask(), 0
        check(b" 200 OK" in c.hear(), "no answer to a long prompt")
        took, n_step = time.monotonic() - begun, self.until(lambda load: load["running"] == 0) - start
        check(n_step >= N_LONG / 256, n_step)
        for _ in range(count):
            c = self.ask(self.rng.random() < 0.5)
            self.until(lambda load: load["running"] == 1)
            time.sleep(self.rng.random() * took * 0.7)
            most = max(most, self.gone(c))
        check(most <= 4, f"{most} of {n_step} steps after its client went")
        return most, n_step

    def in_queue(self, count):
        first = self.ask()
        self.until(lambda load: load["running"] == 1)
        others = [self.ask(i % 2 == 0) for i in range(count)]
        self.until(lambda load: load["waiting"] == count)
        for c in self.rng.sample(others, count):
            time.sleep(self.rng.random() * 0.01)
            self.rng.choice((c.reset, c.close))()
        # disconnect before the request is scheduled
        self.until(lambda load: load["waiting"] == 0 and load["running"] == 1, 10)
        first.half_close()
        check(b" 200 OK" in first.hear(), "who only closed half got no answer")

    def in_stream(self, count):
        start = self.server.metric("vllm:generation_tokens_total")
        for _ in range(count):
            c = self.ask(True, 18000, 100)  # a busy client disconnects within this time
            c.hear(self.rng.randrange(400, 20000))
            self.gone(c)
        done = self.server.metric("vllm:generation_tokens_total") - start
        check(done < 18000 * count / 2, f"{done} tokens for {count} clients that left")


def leaving_on(*options):
    leaving = Leaving(*options)
    try:
        most, n_step = leaving.in_prompt(N_LEAVING)
        leaving.in_queue(4)
        leaving.in_stream(N_LEAVING)
        hangups = leaving.server.metric("quoth:http_hangups_total")
        check(hangups >= N_LEAVING + 4, hangups)  # some clients may have received their whole answer
    finally:
        leaving.server.stop()
    return f"{most:.0f} steps of {n_step:.0f}"


def leaving():
    """a client that disconnects in a long prompt, in the queue or in a stream frees its pages
    within one or two steps"""
    text = leaving_on()
    if tls_options():
        text += ", over TLS " + leaving_on(*tls_options())
    print(f"     a prompt of {N_LONG} tokens whose client goes is computed for at most {text} more")


# ---- the end ----

def stopped_under_load(server):
    story = {**STORY, "max_tokens": 200, "ignore_eos": True}
    want, busy = pieces(server, story), []
    bad = [threading.Thread(target=quietly, args=(f, server, 10000, i), daemon=True)
           for i, f in enumerate((hang_ups, hang_ups, malformed, malformed))]
    for t in bad:
        t.start()
    for _ in range(8):
        busy.append(Client(server))
        busy[-1].say(post({**story, "stream": True}, minor=0))
    first = [c.s.recv(1) for c in busy]
    check(all(first), "they have not begun")
    server.terminate()
    for c in busy:
        rows = c.hear().split(b"\r\n\r\n", 1)[1].split(b"\n\n")
        got = "".join(json.loads(r[6:])["choices"][0]["text"] for r in rows if r.startswith(b"data: {"))
        check(rows[-2:] == [b"data: [DONE]", b""] and got == want, (got, want))
    server.stop()
    for t in bad:
        t.join()


def quietly(f, *args):
    """Run f until the server has exited."""
    try:
        f(*args)
    except (OSError, Failed):
        pass


def under_load():
    """SIGTERM under the load of all bad clients: responses in flight are completed, and the exit
    status is correct"""
    for server in servers.values():
        stopped_under_load(server)


run([over_tcp, over_tls, slow_loris, leaving, under_load], timed=True)
