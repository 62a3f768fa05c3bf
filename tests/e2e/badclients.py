"""Parts of the tests of bad clients: raw connections, malformed requests of every kind, bad
clients, and healthy clients with a comparison of every answer. This module contains no tests."""
import contextlib
import json
import random
import socket
import struct
import threading
import time

from server import PATIENCE, Failed, check

STORY = {"prompt": "Once upon a time", "max_tokens": 16, "temperature": 0}
TALK = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 12, "temperature": 1, "seed": 7, "n": 2}


class Client:
    """A connection to a server, over TLS if the server uses it. `ended`: the reason for the end of
    the last reading."""

    def __init__(self, server, timeout=60 * PATIENCE):
        self.start, self.ended = time.monotonic(), "nothing was read"
        self.s = server.connect(timeout)

    def say(self, data):
        try:
            self.s.sendall(data)
        except OSError:
            pass  # read the answer, because the server rejected the request early

    def hear(self, n=1 << 26):
        data, why = b"", "its end"
        try:
            while len(data) < n and (piece := self.s.recv(65536)):
                data += piece
        except OSError as e:
            why = f"{type(e).__name__}: {e}"
        self.ended = f"{len(data)} bytes, then {why}, {time.monotonic() - self.start:.1f} s after connecting"
        return data

    def half_close(self):
        """Send a FIN without TLS's close notification. Python cannot send that notification and
        continue to read."""
        try:
            socket.socket.shutdown(self.s, socket.SHUT_WR)
        except OSError:
            pass

    def reset(self):
        """Disconnect without a TLS shutdown."""
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        try:
            self.s.close()
        except OSError:
            pass


def post(body, path="/v1/completions", more="", minor=1):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"POST {path} HTTP/1.{minor}\r\nHost: localhost\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def ask_once(server, request):
    """Return the body of an answer."""
    c = Client(server)
    c.say(request)
    data = c.hear()
    c.close()
    check(b"\r\n\r\n" in data, f"no answer: {data[:200]!r}, {c.ended}")
    head, body = data.split(b"\r\n\r\n", 1)
    check(head.startswith(b"HTTP/1.1 200"), data[:300])
    return body


def in_threads(work, n=4):
    """Run work(i) for each i in [0, n) concurrently. Raise the exception of any call."""
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


# ---- healthy clients ----

def whole(server):
    return json.loads(ask_once(server, post(STORY, more="Connection: close\r\n")))["choices"][0]["text"]


def pieces(server, body=None):
    rows = ask_once(server, post({**(body or STORY), "stream": True}, minor=0)).split(b"\n\n")
    check(rows[-2:] == [b"data: [DONE]", b""], rows[-3:])
    return "".join(json.loads(r[6:])["choices"][0]["text"] for r in rows if r.startswith(b"data: {"))


def talk(server):
    answer = json.loads(ask_once(server, post(TALK, "/v1/chat/completions", "Connection: close\r\n")))
    return [c["message"]["content"] for c in answer["choices"]]


class Healthy(threading.Thread):
    """Repeatedly request the same answers: whole, streamed, and a chat with two choices."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.n, self.wrong, self.over, self.worst = server, 0, None, False, 0
        self.ways = (whole, pieces, talk)
        self.want = [way(server) for way in self.ways]
        check(self.want[0] == self.want[1] and len(self.want[0]) > 10, self.want)
        self.start()

    def run(self):
        while not self.over:
            i, start = self.n % len(self.ways), time.monotonic()
            try:
                got = self.ways[i](self.server)
                if got != self.want[i]:
                    self.wrong = self.wrong or f"{got!r}, not {self.want[i]!r}"
            except Exception as e:
                self.wrong = self.wrong or repr(e)
            self.worst = max(self.worst, time.monotonic() - start)
            self.n += 1

    def end(self):
        self.over = True
        self.join()
        check(self.wrong is None and self.n >= 3, f"a healthy client, {self.n} answers: {self.wrong}")


@contextlib.contextmanager
def beside_healthy(server):
    """Run the block next to a healthy client. The value of the context is the client. Raise the
    block's exception together with the client's exception."""
    healthy, why = Healthy(server), []
    try:
        yield healthy
    except Exception as e:
        why.append(f"{type(e).__name__}: {e}")
    if server.process.poll() is not None:
        why.append("the server is gone: " + server.text()[-4000:])
    try:
        healthy.end()
    except Failed as e:
        why.append(str(e))
    check(not why, "; ".join(why))


# ---- bad requests: each is a function of a random generator ----

PATHS = ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize", "/apply-template", "/v1/messages",
         "/v1/messages/count_tokens", "/completion", "/infill")
FIELDS = ("prompt", "max_tokens", "temperature", "top_p", "n", "best_of", "stop", "stream", "logit_bias", "logprobs", "seed",
          "messages", "tools", "model", "stream_options", "bad_words", "priority", "echo", "user", "tokens", "top_k",
          "allowed_token_ids", "prompt_logprobs", "chat_template_kwargs", "documents", "min_tokens", "system", "thinking",
          "tool_choice", "stop_sequences", "output_config", "metadata", "n_predict", "n_indent", "t_max_predict_ms",
          "response_fields", "input_prefix", "input_suffix", "input_extra", "return_progress", "sse_ping_interval")
VALUES = ("NaN", "Infinity", "1e999", "-1", "[]", "{}", '"x"', "[[]]", "99999999999999999999", "null", '[{"a":1}]', "true",
          '{"a": {}}', "-1e308", "9223372036854775807", "-9223372036854775808", "2147483648", "0.5", '"\\u0000"',
          '"\\ud800"', '[{"role": 5}]', '[{"role": "user", "content": [{"type": "image_url"}]}]', '[1e999]', '["", ""]',
          '"' + "a" * 5000 + '"', '[' + "1," * 3000 + '1]')


def nested(rng):
    depth = rng.choice((10, 300, 100000))
    return post(rng.choice((b"[" * depth, b'{"prompt":' * depth, b"[" * depth + b"]" * depth)))


def wrong_types(rng):
    return post(f'{{"max_tokens": 1, "prompt": "a", "{rng.choice(FIELDS)}": {rng.choice(VALUES)}}}'.encode(), rng.choice(PATHS))


def huge(rng):
    """Make a request with a count above or just below its limit."""
    n = rng.choice((127, 128, 129, 100000, 2 ** 31 - 1, 2 ** 31, 2 ** 63))
    return post(rng.choice((
        {**STORY, "n": n, "max_tokens": 1}, {**STORY, "n": 2, "best_of": n, "max_tokens": 1}, {**STORY, "logprobs": n},
        {**STORY, "max_tokens": n, "stop": ["a", "e", " "]}, {**STORY, "prompt": ["a"] * min(n, 3000), "max_tokens": 1},
        {**STORY, "prompt": [1] * min(n, 3000)}, {**STORY, "logit_bias": {str(i): 1 for i in range(min(n, 3000))}},
        {**STORY, "stop": ["a" * 100] * min(n, 2000)}, {**STORY, "bad_words": ["word"] * min(n, 5000)},
        {**STORY, "use_beam_search": True, "n": n, "max_tokens": 2}, {**STORY, "prompt": "word " * min(n, 20000)})))


def bad_text(rng):
    return post(b'{"prompt": "' + bytes(rng.randrange(128, 256) for _ in range(20)) + b'", "max_tokens": 1}', rng.choice(PATHS))


def truncated(rng):
    data = post(STORY)
    return data[:rng.randrange(1, len(data))]


def oversized(rng):
    return rng.choice((b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70000 + b"\r\n\r\n",
                       b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", b"A" * 70000,
                       b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000 + b"\r\n",
                       b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{",
                       b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                       b"fffffffff\r\n{"))


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


def escapes(rng):
    """Make paths with escapes, and invalid methods. Some escapes are malformed, encode a NUL or are
    not UTF-8."""
    piece = rng.choice(("%00", "%zz", "%", "%f", "%ff", "%0a", "%1b[31m", "%e2%80%a8", "%41"))
    method = rng.choice(("GET", "GET", "POST", "G\x1b[31mT", "\x9b1m"))
    path = "/" + "a" * rng.randrange(300) + piece + "b" * rng.randrange(300)
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Pad: {'z' * rng.randrange(3000)}\r\n\r\n".encode("latin-1")


def noise(rng):
    return rng.randbytes(rng.randrange(1, 3000))


KINDS = (nested, wrong_types, wrong_types, wrong_types, bad_text, truncated, oversized, escapes, mutated, mutated, mutated, noise)


def malformed(server, count, seed):
    """Send `count` bad requests, one after the other. Each request must get a valid HTTP answer or
    no answer. One request in a hundred is huge."""
    rng = random.Random(seed)
    for i in range(count):
        c = Client(server, timeout=30 * PATIENCE)
        c.say((huge if i % 100 == 50 else rng.choice(KINDS))(rng))
        c.half_close()  # the server must close the connection of an incomplete request
        answer = c.hear()
        c.close()
        check(not answer or answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4", b"HTTP/1.1 1", b"HTTP/1.1 503")), answer[:200])


# ---- bad behaviour ----

def hang_ups(server, count, seed):
    """Send requests and disconnect: in a stream or before a complete answer, after some bytes or
    some time, with and without a FIN."""
    rng = random.Random(seed)
    body = {"prompt": "Once", "max_tokens": 500, "ignore_eos": True, "stream": True}
    for _ in range(count):
        c = Client(server)
        c.say(post({**body, "stream": rng.random() < 0.7}))
        if rng.random() < 0.5:
            c.s.settimeout(0.2)  # the whole answer may have fewer bytes
            c.hear(rng.randrange(1, 20000))
        else:
            time.sleep(rng.random() * 0.05)
        if rng.random() < 0.5:
            c.reset()
        else:
            c.close()


def half_closed(server, count):
    """Half-close connections. Half-closed clients must get their answers."""
    for _ in range(count):
        c = Client(server)
        c.say(post({**STORY, "stream": True}))
        c.half_close()
        data = c.hear()
        c.close()
        check(b"data: [DONE]" in data, data[-200:])


def crowd(server, healthy, n):
    """Open many connections: idle, half a head, half a body, a stream without a reader."""
    before, clients = healthy.n, []
    for i in range(n):
        c = Client(server)
        c.say((b"", b"GET /health HT", post(STORY)[:-10],
               post({**STORY, "stream": True, "max_tokens": 900, "ignore_eos": True}))[i % 4 if i < 200 else i % 3])
        clients.append(c)
    start = time.monotonic()
    while healthy.n < before + 4 and time.monotonic() < start + 60 * PATIENCE:
        time.sleep(0.05)
    check(healthy.n >= before + 4, f"healthy clients wait: {healthy.n - before} answers in {time.monotonic() - start:.1f} s")
    for c in clients:
        c.close()
