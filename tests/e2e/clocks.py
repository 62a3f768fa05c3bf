#!/usr/bin/env python3
# alone: it measures time
"""Goal: the server's latencies equal those that clients measure. Latencies begin at the completion
of a request's body. They include tokenization and the wait for a thread, and exclude a slow upload.
Method: one thread reads many streams over non-blocking sockets. The thread records the times of the
last byte sent, of the first token and of the end of each stream. The sums are compared with those
of /metrics. With QUOTH_LONG, on an idle machine, they must agree within 2 % + 2 ms in the mean of
500 requests. Without QUOTH_LONG, the test checks an order of events that no scheduling can reverse.
The test also checks that times of large bodies, which take seconds, agree within a factor of two.

Environment: QUOTH the program, QUOTH_ROOT the repository, QUOTH_LONG=1 for the exact comparison.
The script prints "ok NAME", "skip NAME" or "FAIL NAME: why" per test."""
import json
import selectors
import socket
import time

from server import FEW, LONG, Server, check, run

N_REQUEST = 500 if LONG else 20 if FEW else 60
N_AT_ONCE = 8
EVERY = 25 if LONG else 10  # one in this number of requests has a large body
LARGE = 200_000 if FEW else 3_000_000


def post(body):
    """Return the bytes of a request."""
    data = json.dumps(body).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(data), data))


class Stream:
    """A request over a separate socket. out: its bytes, made before the measurement."""

    def __init__(self, port, out):
        self.out = out
        self.at, self.text, self.sent, self.first, self.done = 0, b"", 0, 0, 0
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def write(self):
        try:
            self.at += self.socket.send(memoryview(self.out)[self.at:self.at + (1 << 18)])
        except BlockingIOError:
            return False
        if self.at == len(self.out):
            self.sent = time.monotonic()
        return self.at == len(self.out)

    def read(self):
        """Read the next bytes. Return True if the answer is complete."""
        data = self.socket.recv(1 << 16)
        now = time.monotonic()
        self.text += data
        if not self.first and b"data: {" in self.text:
            self.first = now
        if not self.done and b"data: [DONE]" in self.text:
            self.done = now
        return not data


def converse(port, requests):
    """Send all requests, N_AT_ONCE at a time, until they are answered."""
    requests, streams, events = requests[::-1], [], selectors.DefaultSelector()
    while requests or events.get_map():
        while requests and len(events.get_map()) < N_AT_ONCE:
            streams.append(Stream(port, requests.pop()))
            events.register(streams[-1].socket, selectors.EVENT_WRITE, streams[-1])
        ready = events.select(60)
        check(ready, "no stream moved for a minute")
        for key, _ in ready:
            stream = key.data
            if stream.at < len(stream.out):
                if stream.write():
                    events.modify(stream.socket, selectors.EVENT_READ, stream)
            elif stream.read():
                events.unregister(stream.socket)
                stream.socket.close()
    for stream in streams:
        check(stream.text.startswith(b"HTTP/1.1 200") and stream.first and stream.done, stream.text[:300])
    return streams


TIMES = {"ttft": "vllm:time_to_first_token_seconds", "e2e": "vllm:e2e_request_latency_seconds",
         "queue": "vllm:request_queue_time_seconds", "body": "quoth:request_body_seconds",
         "handler": "quoth:request_handler_wait_seconds", "parse": "quoth:request_parse_seconds",
         "render": "quoth:request_render_seconds", "tokenize": "quoth:request_tokenize_seconds"}


def sums(server):
    """Return {name: (sum, count)}."""
    server.settle()
    text = server.ask("GET", "/metrics")[2].decode()
    rows = dict(row.rsplit(" ", 1) for row in text.splitlines() if not row.startswith("#"))
    value = {row.split("{")[0]: float(v) for row, v in rows.items()}
    return {k: (value[name + "_sum"], value[name + "_count"]) for k, name in TIMES.items()}


def since(before, after):
    return {k: (after[k][0] - before[k][0], after[k][1] - before[k][1]) for k in TIMES}


def clocks():
    """clients' clocks and the server's latencies agree, also next to large bodies"""
    s = Server()
    try:
        def request(prompt):
            return post({"prompt": prompt, "truncate_prompt_tokens": 100, "max_tokens": 24, "ignore_eos": True, "stream": True})
        large = request("a" * LARGE)
        all_of_them = [large if i % EVERY == EVERY - 1 else request(f"Once upon a time there were {i}") for i in range(N_REQUEST)]
        converse(s.port, all_of_them[:1])
        before = sums(s)
        streams = converse(s.port, all_of_them)
        spent = since(before, sums(s))
        felt = {"ttft": sum(x.first - x.sent for x in streams), "e2e": sum(x.done - x.sent for x in streams)}
        for name, all_felt in felt.items():
            got, n = spent[name]
            print(f"     {name}: clients {all_felt / n * 1e3:.2f} ms, server {got / n * 1e3:.2f} ms in the mean of {n:.0f}")
            check(n == N_REQUEST, (name, n))
            check(got <= all_felt + 0.001 * n, f"{name}: the server counts {got} s, clients {all_felt}")
            check(got >= all_felt / 2, f"{name}: of the clients' {all_felt} s the server counts {got}")
            if LONG:
                check(abs(all_felt - got) / n <= 0.02 * all_felt / n + 0.002, f"{name}: {got / n} and {all_felt / n}")
        check(all(spent[k][1] == N_REQUEST for k in ("body", "handler", "parse", "tokenize")), spent)
        early = spent["handler"][0] + spent["parse"][0] + spent["tokenize"][0]
        check(0 < early <= spent["queue"][0] <= spent["ttft"][0], spent)
    finally:
        s.stop()


def slow_upload():
    """a slow upload changes no latency; latencies include the chat template"""
    s = Server()
    try:
        before, pause = sums(s), 2.0
        stream = Stream(s.port, post({"prompt": "Once upon a time", "max_tokens": 4, "stream": True}))
        stream.socket.setblocking(True)
        stream.socket.sendall(stream.out[:-20])
        time.sleep(pause)
        sent = time.monotonic()  # read the time before the call, because other threads may run after it
        stream.socket.sendall(stream.out[-20:])
        while not stream.read():
            pass
        spent = since(before, sums(s))
        check(spent["body"][0] >= 0.9 * pause, spent)
        check(spent["e2e"][0] <= stream.done - sent + 0.001 and spent["e2e"][1] == 1, (spent, stream.done - sent))
        check(spent["render"][1] == 0, spent)
        s.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1})
        check(since(before, sums(s))["render"][1] == 1)
    finally:
        s.stop()


def timeout():
    """a request's timeout begins at its arrival, and includes tokenization"""
    s = Server()
    try:
        request = {"prompt": "a" * LARGE, "truncate_prompt_tokens": 100, "max_tokens": 900, "ignore_eos": True}
        before = sums(s)
        check(s.ask("POST", "/v1/completions", {**request, "max_tokens": 1})[0] == 200)
        spent = since(before, sums(s))
        early = spent["handler"][0] + spent["parse"][0] + spent["tokenize"][0]
        answer = s.ask("POST", "/v1/completions", {**request, "timeout": early / 4})[2]
        check(answer["usage"]["completion_tokens"] == 0, answer)
    finally:
        s.stop()


run([clocks, slow_upload, timeout], timed=True)
