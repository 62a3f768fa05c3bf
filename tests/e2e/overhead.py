#!/usr/bin/env python3
# alone: it measures time
"""Goal: the cost of the server, with and without TLS, is small compared with probes that alternate
with it. Method: measure the whole server with the bundled model. quoth:http_cpu_seconds_total is
the time of all its threads except the engine's and the workers'. These threads handle sockets,
HTTP, keys, JSON, templates and tokenization. The measured time therefore excludes the model.

A completion or a chat costs at most REQUEST times the cost of /tokenize of the same text. The path
/tokenize also uses sockets, head, key, JSON and tokenizer, but not the engine. A streamed token
costs at most TOKEN times a GET of /health. REQUEST and TOKEN are limits of ratios of two successive
figures, because a slow or busy machine changes both figures. The ratios depend on the placement of
engine, server and client on hardware threads. The limits include this variation. The kernel reports
the numbers of wake-ups. The test prints the figures in microseconds, which never fail the test. On
an idle machine a request costs at most 200 microseconds, and a frame 20.

Environment: QUOTH the program, QUOTH_ROOT the repository. The script prints "ok NAME", "skip NAME"
or "FAIL NAME: why" per test."""
import http.client
import json
import os
import statistics

from badclients import Client, post
from server import SLOW, TMP, Server, certificate, check, run

N_ROUND = 1 if SLOW else 15  # maximum number of rounds; the median of at least 3 rounds is compared
N_REQUEST = 50 if SLOW else 200
N_STREAM = 64
N_TOKEN = 20 if SLOW else 100
REQUEST, TOKEN, WAKEUPS = 6, 2, 12  # measured on idle and on busy machines: 1.2 to 3.9, 0.1 to 0.6, 5 to 7
TALK = [{"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is the weather like in Paris today, and what should I wear? " * 8}]
KINDS = {"completion": ("/v1/completions", {"prompt": "Once upon a time, there was a little girl. " * 16}),
         "chat": ("/v1/chat/completions", {"messages": TALK})}


def server(*options):
    path = os.path.join(TMP, "keys")
    with open(path, "w") as f:
        f.writelines(f"sk-{i} name=user{i}\n" for i in range(100))
    return Server("--api-key-file", path, *options)


def cpu_us(s):
    text = s.ask("GET", "/metrics", headers={"Authorization": "Bearer sk-7"})[2].decode()
    return sum(float(row.split()[1]) for row in text.splitlines() if row.startswith("quoth:http_cpu_seconds_total")) * 1e6


def wakeups(s):
    """Return the number of wake-ups of the server's threads."""
    n = 0
    for task in os.listdir(f"/proc/{s.process.pid}/task"):
        with open(f"/proc/{s.process.pid}/task/{task}/status") as f:
            n += sum(int(row.split()[1]) for row in f if row.startswith("voluntary_ctxt_switches"))
    return n


def per_request(s, method, path, body=None):
    """Return the microseconds of a whole answer, and its wake-ups, on a persistent connection."""
    c = http.client.HTTPConnection("127.0.0.1", s.port)
    c.sock = s.connect()
    data = json.dumps(body) if body else None
    start = woken = 0
    for i in range(N_REQUEST + 5):
        if i == 5:
            woken = wakeups(s)
            start = cpu_us(s)
        c.request(method, path, data, {"Content-Type": "application/json", "Authorization": "Bearer sk-42"})
        answer = c.getresponse()
        text = answer.read()
        check(answer.status == 200, text[:300])
    took = cpu_us(s) - start
    c.close()
    return took / N_REQUEST, (wakeups(s) - woken) / N_REQUEST


def per_token(s, path, body):
    """Return the microseconds of a streamed frame with N_STREAM concurrent streams, including their
    beginnings and ends. Also return frames per token, because a frame has several tokens on a busy
    machine."""
    clients = []
    request = post({**body, "max_tokens": N_TOKEN, "ignore_eos": True, "stream": True}, path,
                   "Authorization: Bearer sk-42\r\nConnection: close\r\n")
    start = cpu_us(s)
    for _ in range(N_STREAM):
        clients.append(Client(s))
        clients[-1].say(request)
    n_frame = 0
    for c in clients:
        data = c.hear()
        check(data.count(b"data: [DONE]") == 1, data[-300:])
        n_frame += data.count(b"data: {")
        c.close()
    took = cpu_us(s) - start
    return took / n_frame, n_frame / (N_STREAM * N_TOKEN)


def median_below(cost, bar):
    """Run rounds of cost(), a tuple that begins with a ratio, until the median ratio is at most
    `bar` or there are N_ROUND rounds."""
    rounds = []
    while len(rounds) < N_ROUND:
        rounds.append(cost())
        if len(rounds) >= 3 and statistics.median(r[0] for r in rounds) <= bar:
            break
    return [statistics.median(column) for column in zip(*rounds)]


def measure(s):
    for name, (path, body) in KINDS.items():
        short = {"prompt": "Once"} if "prompt" in body else {"messages": TALK[:1]}

        def request():
            probe, _ = per_request(s, "POST", "/tokenize", body)
            us, woken = per_request(s, "POST", path, {**body, "max_tokens": 1})
            return us / probe, us, woken

        def token():
            probe, _ = per_request(s, "GET", "/health")
            us, frames = per_token(s, path, short)
            return us / probe, us, frames

        times, request_us, woken = median_below(request, REQUEST)
        token_times, token_us, frames = median_below(token, TOKEN)
        print(f"     {name}: {times:.2f} of /tokenize per request ({request_us:.0f} us, {woken:.1f} wake-ups), {token_times:.2f} of "
              f"/health per frame at {N_STREAM} streams ({token_us:.1f} us, {frames:.2f} frames a token)")
        check(SLOW or times <= REQUEST, f"{name}: a request costs {times:.2f} times what /tokenize of its text does")
        check(SLOW or token_times <= TOKEN, f"{name}: a frame costs {token_times:.2f} times what /health does")
        check(SLOW or woken <= WAKEUPS, f"{name}: {woken:.1f} wake-ups per request")


def plain():
    """a request and a streamed token stay within their cost limits"""
    s = server()
    try:
        measure(s)
    finally:
        s.stop()


def tls():
    """over TLS a request and a streamed token stay within their cost limits"""
    pair = certificate()
    if not pair:
        return "no openssl"
    s = server("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1])
    try:
        measure(s)
    finally:
        s.stop()


run([plain, tls], timed=True)
