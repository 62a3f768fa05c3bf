#!/usr/bin/env python3
"""Goal: a stream that waits for its model begins early, with pings, in every dialect. After the wait
it is the same stream, or it has the error in the form of its dialect. Other answers keep their
status. Method: --models-max 1 lets requests wait until a stream of another model ends."""
import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time

from server import MODEL, PATIENCE, TMP, Server, check, first_server, run
from venv_for import python_with

PRESET = os.path.join(TMP, "early.ini")
with open(PRESET, "w") as f:
    f.write(f"version = 1\n[busy]\nmodel = {MODEL}\nload-format = dummy\nmax-model-len = 20000\nmax-num-seqs = 4\n"
            f"[tiny]\nmodel = {MODEL}\nmax-model-len = 512\n")
FLAGS = ("--models-preset", PRESET, "--models-max", "1")
main = first_server(*FLAGS, "--sse-ping-interval", "1", model=None)
MESSAGES = {"messages": [{"role": "user", "content": "What is 47 + 38?"}]}
SSE, NDJSON = "text/event-stream", "application/x-ndjson"


def joined(text, key):
    """Return the joined strings that follow a key of JSON."""
    return "".join(json.loads(s) for s in re.findall(rf'"{key}":\s*("(?:[^"\\]|\\.)*")', text))


# dialect: path, body of a stream, type of the stream, key of the text in its pieces, error in the stream
DIALECTS = {
    "completions": ("/v1/completions", {"prompt": "The sea", "max_tokens": 8, "temperature": 0, "stream": True}, SSE, "text", "data: "),
    "chat": ("/v1/chat/completions", {**MESSAGES, "temperature": 0, "stream": True}, SSE, "content", "data: "),
    "responses": ("/v1/responses", {"input": "What is 47 + 38?", "temperature": 0, "stream": True}, SSE, "delta", "event: error\ndata: "),
    "background": ("/v1/responses", {"input": "What is 47 + 38?", "temperature": 0, "stream": True, "background": True}, SSE, "delta",
                   "event: error\ndata: "),
    "anthropic": ("/v1/messages", {**MESSAGES, "max_tokens": 40, "temperature": 0, "stream": True}, SSE, "text", "event: error\ndata: "),
    "ollama chat": ("/api/chat", {**MESSAGES, "options": {"temperature": 0}}, NDJSON, "content", ""),
    "ollama generate": ("/api/generate", {"prompt": "What is 47 + 38?", "options": {"temperature": 0}}, NDJSON, "response", ""),
    "llama.cpp": ("/completion", {"prompt": "The sea", "n_predict": 8, "temperature": 0, "stream": True}, SSE, "content", "data: "),
    "tgi": ("/generate_stream", {"inputs": "The sea", "parameters": {"max_new_tokens": 8}}, SSE, "text", "data:"),
    "tgi root": ("/", {"inputs": "The sea", "parameters": {"max_new_tokens": 8}, "stream": True}, SSE, "text", "data:"),
    "sagemaker": ("/invocations", {**MESSAGES, "temperature": 0, "stream": True}, SSE, "content", "data: "),
}
# requests whose answer is not a stream
WHOLE = [("/v1/completions", {"prompt": "a", "max_tokens": 2}), ("/v1/chat/completions", MESSAGES), ("/v1/responses", {"input": "a"}),
         ("/v1/messages", {**MESSAGES, "max_tokens": 2}), ("/api/chat", {**MESSAGES, "stream": False}), ("/api/generate", {}),
         ("/api/chat", {"messages": []}), ("/completion", {"prompt": "a", "n_predict": 2}), ("/generate", {"inputs": "a", "stream": True}),
         ("/v1/embeddings", {"input": "a"}), ("/v1/messages/count_tokens", MESSAGES), ("/tokenize", {"prompt": "a"})]


class Asked(threading.Thread):
    """A request on its own connection. `parts`: (seconds since the begin, bytes), head included."""

    def __init__(self, path, body, server=None):
        super().__init__(daemon=True)
        self.path, self.body, self.server, self.parts = path, body, server or main, []
        self.begin = time.monotonic()
        self.start()

    def run(self):
        text = json.dumps({"model": "tiny", **self.body}).encode()
        self.socket = self.server.connect()
        try:
            self.socket.sendall(b"POST %s HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (self.path.encode(), len(text)) + text)
            while part := self.socket.recv(65536):
                self.parts.append((time.monotonic() - self.begin, part))
        except OSError:
            pass

    def answer(self):
        """Return status, head and body."""
        self.join(60)
        head, _, body = b"".join(p for _, p in self.parts).decode().partition("\r\n\r\n")
        check(head.startswith("HTTP/1."), f"{self.path}: {head[:100]!r}")
        return int(head.split()[1]), head, body


class Busy:
    """A stream that keeps the other model in memory, so that requests for the model "tiny" wait."""

    def __init__(self, n, server=None):
        self.server, self.n = server or main, n

    def __enter__(self):
        self.stream = Asked("/v1/completions", {"model": "busy", "prompt": "a", "max_tokens": 19000, "n": 4, "ignore_eos": True, "stream": True},
                            self.server)
        until(lambda: self.stream.parts)
        return self

    def wait(self):
        """Wait until all requests wait for their model."""
        until(lambda: self.server.metric('quoth:model_requests_waiting{model_name="tiny"}') == self.n)

    def end(self):
        with contextlib.suppress(OSError):  # the stream may have ended
            self.stream.socket.shutdown(2)

    def __exit__(self, *_):
        self.end()


def until(what, seconds=20):
    end = time.monotonic() + seconds * PATIENCE
    while not what():
        check(time.monotonic() < end, "it did not happen")
        time.sleep(0.01)


def without_pings(name, body):
    """Return the body without pings, and the number of pings at its begin."""
    path, _, kind, _, _ = DIALECTS[name]
    if kind == NDJSON:
        return body.lstrip(" "), len(body) - len(body.lstrip(" "))
    frames = body.split("\n\n")
    n = 0
    while frames and (frames[0] == ":" or (path == "/v1/messages" and frames[0].startswith("event: ping"))):
        frames.pop(0)
        n += 1
    return "\n\n".join(frames), n


def event_names(text):
    """Return the names of events, without repetitions."""
    names = re.findall(r"^event: (.*)$", text, re.M)
    return [n for i, n in enumerate(names) if i == 0 or names[i - 1] != n]


def begins():
    """a stream that waits begins after the interval of pings, and is the same stream after the wait"""
    want = {name: Asked(d[0], d[1]).answer() for name, d in DIALECTS.items()}
    with Busy(len(DIALECTS)) as busy:
        asked = {name: Asked(d[0], d[1]) for name, d in DIALECTS.items()}
        busy.wait()
        time.sleep(2.8)
        for name, a in asked.items():
            check(a.parts and 0.9 < a.parts[0][0] < 2.5 * PATIENCE, f"{name}: {a.parts}")
        busy.end()
        for name, a in asked.items():
            (status, head, body), (_, want_head, want_body) = a.answer(), want[name]
            _, _, kind, key, _ = DIALECTS[name]
            check(status == 200 and f"Content-Type: {kind}\r\n" in head, f"{name}: {head}")
            names = [sorted(line.split(":")[0] for line in h.split("\r\n")) for h in (head, want_head)]
            check(names[0] == names[1], f"{name}: {names}")
            rest, n = without_pings(name, body)
            check(n >= 2, f"{name}: {n} pings, {a.parts[:3]}")
            check(joined(rest, key) == joined(want_body, key) != "", f"{name}: {body!r} {want_body!r}")
            check(event_names(rest) == event_names(want_body), f"{name}: {rest!r} {want_body!r}")
            check(rest[-1:] == want_body[-1:] == "\n" and ("[DONE]" in rest) == ("[DONE]" in want_body), f"{name}: {rest[-60:]!r}")


def fails():
    """a stream that has begun ends with the error in the form of its dialect"""
    text = 'model "tiny" was unloaded'
    with Busy(len(DIALECTS)) as busy:
        asked = {name: Asked(d[0], d[1]) for name, d in DIALECTS.items()}
        busy.wait()
        until(lambda: all(a.parts for a in asked.values()), 5)
        check(main.ask("POST", "/models/unload", {"model": "tiny"})[0] == 200)
        for name, a in asked.items():
            status, _, body = a.answer()
            rest, n = without_pings(name, body)
            frame = DIALECTS[name][4]
            check(status == 200 and n >= 1 and rest.startswith(frame + "{"), f"{name}: {body!r}")
            error = json.loads(rest[len(frame):])
            check(text in json.dumps(error).replace('\\"', '"'), f"{name}: {error}")
            check("[DONE]" not in body and rest.count("{\"") <= 2, body)
    until(lambda: main.text().count('" 503 ') >= len(DIALECTS))  # the access log has the status of the error


def rejects():
    """an invalid body of a stream that has begun gives the error in the stream, too"""
    wrong = {"completions": {"max_tokens": -1}, "chat": {"messages": [{"role": "nobody", "content": 1}]}, "responses": {"max_output_tokens": -1},
             "anthropic": {"max_tokens": -1}, "ollama chat": {"options": {"temperature": "a"}}, "llama.cpp": {"n_probs": -3},
             "tgi": {"parameters": {"temperature": -1}}}
    with Busy(len(wrong)) as busy:
        asked = {name: Asked(DIALECTS[name][0], {**DIALECTS[name][1], **more}) for name, more in wrong.items()}
        busy.wait()
        until(lambda: all(a.parts for a in asked.values()), 5)
        busy.end()
        for name, a in asked.items():
            status, _, body = a.answer()
            rest, n = without_pings(name, body)
            frame = DIALECTS[name][4]
            check(status == 200 and n >= 1 and rest.startswith(frame + "{"), f"{name}: {body!r}")
            check("error" in json.loads(rest[len(frame):]).get("type", "error"), rest)


def whole():
    """an answer that is not a stream does not begin early, and has the status of the error"""
    for ends in (True, False):
        with Busy(len(WHOLE)) as busy:
            asked = [Asked(path, body) for path, body in WHOLE]
            busy.wait()
            time.sleep(1.6)
            check(not any(a.parts for a in asked), [(a.path, a.parts) for a in asked])
            if ends:
                busy.end()
            else:
                check(main.ask("POST", "/models/unload", {"model": "tiny"})[0] == 200)
            for a in asked:
                status, head, body = a.answer()
                check(status in ((200, 400) if ends and a.path == "/v1/embeddings" else (200,) if ends else (503,)), f"{a.path}: {head} {body}")


def leaves():
    """a client that leaves during the pings ends its wait"""
    with Busy(2) as busy:
        asked = [Asked(*DIALECTS[name][:2]) for name in ("chat", "ollama chat")]
        busy.wait()
        until(lambda: all(a.parts for a in asked), 5)
        for a in asked:
            a.socket.close() if a.path == "/api/chat" else a.socket.shutdown(2)
        until(lambda: main.metric('quoth:model_requests_waiting{model_name="tiny"}') == 0)
    main.settle(30)


def intervals():
    """a body's sse_ping_interval is its interval; -1: the stream begins after 10 s without pings"""
    with Busy(2) as busy:
        quiet = Asked("/v1/completions", {**DIALECTS["completions"][1], "sse_ping_interval": -1})
        own = Asked("/v1/chat/completions", {**DIALECTS["chat"][1], "sse_ping_interval": 2})
        busy.wait()
        until(lambda: quiet.parts and own.parts, 15)
        check(1.9 < own.parts[0][0] < 4 * PATIENCE and 9.9 < quiet.parts[0][0] < 14 * PATIENCE, (own.parts[0], quiet.parts[0]))
        busy.end()
        check(without_pings("completions", quiet.answer()[2])[1] == 0, quiet.answer())


def stops():
    """a server that stops ends the waiting streams with an error"""
    s = Server(*FLAGS, "--sse-ping-interval", "1", "--shutdown-timeout", "1", model=None)
    try:
        with Busy(2, s) as busy:
            asked = [Asked(*DIALECTS[name][:2], s) for name in ("chat", "ollama chat")]
            busy.wait()
            until(lambda: all(a.parts for a in asked), 5)
            s.process.send_signal(signal.SIGTERM)
            s.ending = True
            for a in asked:
                check("shutting down" in a.answer()[2], a.answer())
    finally:
        s.stop()


def clients():
    """the vendors' packages accept the pings, the streams and the errors"""
    packages = {"openai": "openai", "anthropic": "anthropic", "ollama": "ollama", "huggingface_hub": "huggingface_hub==2.4.0"}
    python, why = python_with("early-for-tests", packages)
    if why:
        return why
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "early_client.py")
    for how in ("errors", "answers"):
        # -P: the folder of the tests has modules with the names of packages
        p = subprocess.Popen([python, "-P", program, main.url, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            check(p.stdout.readline() == "ready\n")
            with Busy(6) as busy:
                p.stdin.write("begin\n")
                p.stdin.flush()
                busy.wait()
                time.sleep(2.5)
                if how == "answers":
                    busy.end()
                else:
                    check(main.ask("POST", "/models/unload", {"model": "tiny"})[0] == 200)
                text, _ = p.communicate(timeout=60)
        finally:
            p.kill()
        check(p.returncode == 0, text[-400:])
        print("     " + text.strip().replace("\n", "\n     "))


try:
    run([begins, fails, rejects, whole, leaves, intervals, stops, clients])
finally:
    main.terminate()
