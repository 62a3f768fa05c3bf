#!/usr/bin/env python3
"""Goal: quoth serve answers OpenAI's clients, rejects bad requests in their format, and stops
correctly. Method: serve the bundled model. Raw HTTP tests the parts that a client library hides.
The official openai package tests the expectations of clients. The package is installed in a virtual
environment under build/ if the package index can be reached.

Environment: QUOTH the program, QUOTH_ROOT the repository. The script prints "ok NAME", "skip NAME"
or "FAIL NAME: why" per test."""
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

from server import DATA, MODEL, QUOTH, TMP, Server, certificate, check, first_server, run
from venv_for import python_with

STORY = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0}
main = None


def endpoints():
    """every endpoint answers"""
    status, headers, body = main.ask("GET", "/health")
    check(status == 200 and headers["X-Request-Id"].startswith("req-"))
    check(main.ask("GET", "/ping")[0] == 200 and main.ask("POST", "/ping")[0] == 200)
    check("version" in main.ask("GET", "/version")[2])
    check(main.ask("GET", "/load")[2]["server_load"] == 0)
    models = main.ask("GET", "/v1/models")[2]
    check([m["id"] for m in models["data"]] == ["quoth-tiny"], models)
    check(main.ask("GET", "/v1/models/quoth-tiny")[2]["object"] == "model")
    tokens = main.ask("POST", "/tokenize", {"prompt": "Once upon a time", "return_token_strs": True})[2]
    check("".join(tokens["token_strs"]) == "Once upon a time" and tokens["count"] == len(tokens["tokens"]), tokens)
    check(main.ask("POST", "/detokenize", {"tokens": tokens["tokens"], "model": "quoth-tiny"})[2] == {"prompt": "Once upon a time"})
    talk = {"messages": [{"role": "user", "content": "Hello?"}]}
    prompt = main.ask("POST", "/apply-template", talk)[2]["prompt"]
    check("Hello?" in prompt and len(prompt) > 10, prompt)
    both = [main.ask("POST", "/tokenize", b)[2]["tokens"] for b in (talk, {"prompt": prompt, "add_special_tokens": False})]
    check(both[0] == both[1], both)


def as_llama_cpp():
    """llama.cpp's clients can use their forms: paths without /v1, `content`, pieces"""
    check(main.ask("GET", "/models")[2] == main.ask("GET", "/v1/models")[2])
    check(main.ask("GET", "/models/quoth-tiny")[2] == main.ask("GET", "/v1/models/quoth-tiny")[2])
    check(main.ask("POST", "/completions", STORY)[2]["choices"] == main.ask("POST", "/v1/completions", STORY)[2]["choices"])
    talk = {"messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 2, "temperature": 0}
    check(main.ask("POST", "/chat/completions", talk)[2]["choices"][0]["message"]["content"])
    check(main.ask("POST", "/embeddings", {"input": "a"})[2]["data"][0]["embedding"])
    content = "What is the capital of France ?"
    tokens = main.ask("POST", "/tokenize", {"content": content})[2]
    check(list(tokens) == ["tokens"] and len(tokens["tokens"]) > 5, tokens)
    check(tokens["tokens"] == main.ask("POST", "/tokenize", {"prompt": content, "add_special_tokens": False})[2]["tokens"])
    check(main.ask("POST", "/detokenize", tokens)[2] == {"prompt": content, "content": content})
    mixed = main.ask("POST", "/tokenize", {"content": [5, "capital", 6, 7]})[2]["tokens"]
    check(mixed == [5, *main.ask("POST", "/tokenize", {"content": "capital"})[2]["tokens"], 6, 7], mixed)
    pieces = main.ask("POST", "/tokenize", {"content": "unicode \u5abd and emoji \U0001f917", "with_pieces": True})[2]["tokens"]
    data = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces)
    check(data.decode() == "unicode \u5abd and emoji \U0001f917" and all(len(p["piece"]) for p in pieces), pieces)
    special = main.ask("POST", "/tokenize", {"content": "<|im_end|>"})[2]["tokens"]
    text = main.ask("POST", "/tokenize", {"content": "<|im_end|>", "parse_special": False})[2]["tokens"]
    check(len(special) == 1 < len(text), (special, text))
    check(main.ask("POST", "/tokenize", {"content": ""})[2] == {"tokens": []})
    for body, param in (({"content": 5}, "content"), ({"content": [True]}, "content"), ({"content": [-1]}, "content"),
                        ({"content": "a", "with_pieces": 3}, "with_pieces"), ({"content": "a", "add_special": 3}, "add_special"),
                        ({"content": "a", "prompt": "b"}, "prompt"), ({"messages": talk["messages"], "prompt": "b"}, "prompt"),
                        ({}, "prompt"), ({"content": "a", "model": 5}, "model"),
                        ({"content": "a", "model": "quoth-tiny\0x"}, "model"),
                        ({"messages": talk["messages"], "chat_template": "{% if"}, "chat_template")):
        status, _, answer = main.ask("POST", "/tokenize", body)
        check(status == 400 and answer["error"]["param"] == param, (body, answer))
    status, _, answer = main.ask("POST", "/apply-template", {"messages": talk["messages"], "chat_template": "{% if"})
    check(status == 400 and answer["error"]["param"] == "chat_template", answer)


def invocations():
    """one path accepts all bodies, as SageMaker requires"""
    talk = {"messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 2, "temperature": 0}
    for body, url in ((STORY, "/v1/completions"), (talk, "/v1/chat/completions"), ({"input": "a"}, "/v1/embeddings")):
        got, want = (main.ask("POST", path, body)[2] for path in ("/invocations", url))
        check(got["object"] == want["object"] and got.get("choices") == want.get("choices") and got.get("data") == want.get("data"))
    status, _, answer = main.ask("POST", "/invocations", {})
    check(status == 400 and answer["error"]["param"] == "prompt", answer)


def tokenizer_info():
    """evaluation harnesses get data about the tokenizer"""
    info = main.ask("GET", "/tokenizer_info")[2]
    check(info["model_max_length"] == 1024 and info["chat_template"] and "pad_token" in info and "bos_token" in info, info)
    eos = main.ask("POST", "/tokenize", {"prompt": info["eos_token"], "add_special_tokens": False})[2]["tokens"]
    check(len(eos) == 1, eos)


def content_types():
    """forms and plain texts are rejected, but the media type of `curl -d` is accepted"""
    body = json.dumps(STORY)
    for kind, want in (("multipart/form-data; boundary=a", 415), ("text/plain;charset=UTF-8", 415), ("Text/html", 415),
                       ("application/x-www-form-urlencoded", 200), ("application/json; charset=utf-8", 200),
                       ("application/octet-stream", 200)):
        status, _, answer = main.ask("POST", "/v1/completions", body, {"Content-Type": kind})
        check(status == want, (kind, status, answer))
        if want == 415:
            check(answer["error"]["code"] == "unsupported_media_type" and kind in answer["error"]["message"], answer)
    check(main.ask("GET", "/v1/models", headers={"Content-Type": "text/plain"})[0] == 200)


def any_name():
    """--served-model-name '*' accepts every name, and answers contain the model's name"""
    for names, shown in ((["*"], ["quoth-tiny"]), (["a", "*", "b"], ["a", "b"])):
        s = Server(*(f for n in names for f in ("--served-model-name", n)))
        try:
            check([m["id"] for m in s.ask("GET", "/v1/models")[2]["data"]] == shown)
            for name in ("gpt-3.5-turbo", "a", "*"):
                status, _, answer = s.ask("POST", "/v1/completions", {**STORY, "model": name, "max_tokens": 1})
                check(status == 200 and answer["model"] == name, answer)
            check(s.ask("POST", "/v1/completions", {**STORY, "max_tokens": 1})[2]["model"] == shown[0])
            check(f'model_name="{shown[0]}"' in s.ask("GET", "/metrics")[2].decode())
        finally:
            s.stop()


def several_names():
    """--served-model-name accepts several names, and a model file after these names is the model"""
    s = Server("--served-model-name", "a", "b", "--served-model-name", "c")
    try:
        check([m["id"] for m in s.ask("GET", "/v1/models")[2]["data"]] == ["a", "b", "c"])
        check(s.ask("POST", "/v1/completions", {**STORY, "model": "b", "max_tokens": 1})[0] == 200)
    finally:
        s.stop()
    for words, model, names in ((["a", MODEL], MODEL, ["a"]), (["a", "b", MODEL, "--port", "0"], MODEL, ["a", "b"])):
        r = subprocess.run([QUOTH, "serve", "--check", "--served-model-name", *words], capture_output=True, text=True, timeout=60)
        check(r.returncode == 0 and f"model: {model}" in r.stdout and all(n in r.stdout for n in names), r.stdout + r.stderr)


def same_answers():
    """an answer is equal as a whole, in pieces, next to other requests, and from quoth run"""
    run_text = subprocess.run([QUOTH, "run", MODEL, STORY["prompt"], "--raw", "--temperature", "0",
                               "--max-tokens", "24", "-q"], capture_output=True, text=True, timeout=120).stdout
    whole = main.ask("POST", "/v1/completions", STORY)[2]
    text = whole["choices"][0]["text"]
    check(text and run_text.rstrip("\n").endswith(text.rstrip("\n")), (run_text, text))
    check(whole["usage"]["prompt_tokens"] == 4 and whole["usage"]["completion_tokens"] == 24, whole)
    got = []

    def one():
        got.append(main.ask("POST", "/v1/completions", STORY)[2]["choices"][0]["text"])

    threads = [threading.Thread(target=one) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(got == [text] * 16, got)
    pieces, usage = frames(main.ask("POST", "/v1/completions", {**STORY, "stream": True,
                                                                "stream_options": {"include_usage": True}})[2])
    check("".join(p["text"] for p in pieces) == text and usage == 24, pieces)
    two = main.ask("POST", "/v1/completions", {**STORY, "n": 2, "prompt": [STORY["prompt"], "The"]})[2]
    check([c["index"] for c in two["choices"]] == [0, 1, 2, 3] and [c["text"] for c in two["choices"][:2]] == [text] * 2)
    echo = main.ask("POST", "/v1/completions", {**STORY, "echo": True})[2]["choices"][0]["text"]
    check(echo == STORY["prompt"] + text, echo)
    late = main.ask("POST", "/v1/completions", {**STORY, "max_tokens": 900, "ignore_eos": True, "timeout": 0.002})[2]
    check(late["choices"][0]["finish_reason"] == "length" and late["usage"]["completion_tokens"] < 900, late)


def frames(data):
    """Check the choices of a stream and return them, with the completion tokens of its usage."""
    rows = [row for row in data.decode().split("\n\n") if row and not row.startswith(":")]
    check(rows[-1] == "data: [DONE]" and all(row.startswith("data: ") for row in rows), rows[-2:])
    objects = [json.loads(row[6:]) for row in rows[:-1]]
    check(len({o["id"] for o in objects}) == 1)
    used = [o["usage"]["completion_tokens"] for o in objects if o.get("usage")]
    return [c for o in objects for c in o["choices"]], used[0] if used else None


def refusals():
    """invalid requests are rejected with OpenAI's error object"""
    cases = [
        ("/v1/completions", b"{", 400, None), ("/v1/completions", b"[]", 400, None),
        ("/v1/completions", b'{"prompt": "\xff"}', 400, None),
        ("/v1/completions", b"[" * 100000, 400, None),
        ("/v1/completions", b'{"prompt": "a", "max_tokens": 1, "max_tokens": 9}', 400, "max_tokens"),
        ("/v1/completions", b'{"model": "quoth-tiny", "prompt": "a", "\\u006dodel": "b"}', 400, "model"),
        ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "a", "content": "b"}]}', 400, "content"),
        ("/v1/completions", b'{"prompt": "a", "guided_json": {"type": "object", "type": "array"}}', 400, "type"),
        ("/v1/completions", {}, 400, "prompt"), ("/v1/completions", {"prompt": 5}, 400, "prompt"),
        ("/v1/completions", {"prompt": "a", "max_tokens": -1}, 400, "max_tokens"),
        ("/v1/completions", {"prompt": "a", "timeout": 0}, 400, "timeout"),
        ("/v1/completions", {"prompt": "a", "dry_sequence_breakers": ["a"] * 65}, 400, "dry_sequence_breakers"),
        ("/v1/completions", {"prompt": "a", "temperature": "x"}, 400, "temperature"),
        ("/v1/completions", {"prompt": "a", "temperature": 1e400}, 400, None),
        ("/v1/completions", {"prompt": "a", "n": 1000000}, 400, "n"),
        ("/v1/completions", {"prompt": [1, 99999999]}, 400, "prompt"),
        ("/v1/completions", {"prompt": "a", "stream_options": {}}, 400, "stream_options"),
        ("/v1/completions", {"prompt": "word " * 5000}, 400, "prompt"),
        ("/v1/completions", {"prompt": ["a"] * 2049, "max_tokens": 1}, 400, "prompt"),
        ("/v1/completions", {"prompt": "a", "model": "gpt-9"}, 404, "model"),
        ("/v1/chat/completions", {"messages": []}, 400, "messages"),
        ("/v1/chat/completions", {"messages": "x"}, 400, "messages"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "xml"}},
         400, "response_format"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"}, 400,
         "tool_choice"),
        ("/v1/nothing", {}, 404, None), ("/v1/models", {}, 405, None),
        ("/v1/responses/compact", {"input": "a"}, 405, None), ("/detokenize", {"tokens": [-1]}, 400, "tokens"),
    ]
    for path, body, status, param in cases:
        got, _, answer = main.ask("POST", path, body)
        check(got == status, (path, str(body)[:80], got, answer))
        error = answer["error"]
        check(error["message"] and error["type"] and error["param"] == param, (str(body)[:80], error))
        check(error["code"] is None or isinstance(error["code"], str), error)
    long = main.ask("POST", "/v1/completions", {"prompt": "word " * 5000})[2]["error"]
    check(long["code"] == "context_length_exceeded" and "1024" in long["message"], long)
    check(main.ask("GET", "/v1/models/gpt-9")[0] == 404)


def tools():
    """a tool call is returned as a call, complete and in pieces"""
    tool = {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city.", "parameters":
            {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
    body = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [tool], "temperature": 0}
    whole = main.ask("POST", "/v1/chat/completions", body)[2]["choices"][0]
    pieces, _ = frames(main.ask("POST", "/v1/chat/completions", {**body, "stream": True})[2])
    calls = [c for p in pieces for c in p["delta"].get("tool_calls", [])]
    content = "".join(p["delta"].get("content") or "" for p in pieces)
    check(content == (whole["message"]["content"] or ""), (content, whole))
    want = whole["message"].get("tool_calls", [])
    check(bool(want) == bool(calls) and pieces[-1]["finish_reason"] == whole["finish_reason"], (want, calls))
    if want:
        check(calls[0]["function"]["name"] == want[0]["function"]["name"], (want, calls))
        check("".join(c["function"]["arguments"] for c in calls) == want[0]["function"]["arguments"], (want, calls))


def api_keys():
    """all routes except /health and /ping require keys, which may be limited; some routes are for
    administrators"""
    path = os.path.join(TMP, "keys")
    with open(path, "w") as f:
        f.write("# two and one more\nsk-one name=one\nsk-two name=two rate=1\nsk-root name=root role=admin\n")
    s = Server("--api-key-file", path, "--api-key", "sk-three")
    try:
        check(s.ask("GET", "/health")[0] == 200)
        for route in ("/v1/models", "/metrics", "/version", "/load", "/nothing"):
            check(s.ask("GET", route)[0] == 401, route)
        for key, want in (("sk-one", 200), ("sk-four", 401), ("Bearer sk-one", 401), ("", 401)):
            check(s.ask("GET", "/v1/models", headers={"X-Api-Key": key})[0] == want, key)
        both = {"Authorization": "Bearer sk-four", "X-Api-Key": "sk-one"}
        check(s.ask("GET", "/v1/models", headers=both)[0] == 401, "OpenAI's header comes first")
        bearer = [{"Authorization": f"Bearer sk-{n}"} for n in ("one", "two", "three", "four")]
        check([s.ask("GET", "/v1/models", headers=h)[0] for h in bearer] == [200, 200, 200, 401])
        status, headers, answer = s.ask("GET", "/v1/models", headers=bearer[1])
        check(status == 429 and 0 < int(headers["Retry-After"]) <= 60, answer)
        admin = [s.ask("POST", "/reset_prefix_cache", headers={"Authorization": f"Bearer sk-{n}"}) for n in ("one", "three", "root")]
        check([a[0] for a in admin] == [403, 403, 200], admin)
        check(admin[0][2]["error"]["code"] == "admin_key_needed", admin)
    finally:
        s.stop()
    check(' one "GET /v1/models" 200 ' in s.text() and "sk-" not in s.text(), s.text())


def browsers():
    """pages of other origins and rebound names are rejected"""
    check(main.ask("GET", "/v1/models", headers={"Host": "evil.example"})[0] == 403)
    check(main.ask("GET", "/v1/models", headers={"Origin": "https://evil.example"})[0] == 403)
    status, headers, _ = main.ask("GET", "/v1/models", headers={"Origin": "http://localhost:3000"})
    check(status == 200 and headers["Access-Control-Allow-Origin"] == "http://localhost:3000")


def overload():
    """a full queue is 429 with Retry-After, and accepted requests are answered"""
    s = Server("--max-queued-requests", "2", "--max-num-seqs", "1")
    got = []

    def one():
        status, headers, _ = s.ask("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 300, "ignore_eos": True})
        got.append((status, headers.get("Retry-After")))

    try:
        threads = [threading.Thread(target=one) for _ in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        full = [h for status, h in got if status == 429]
        check(full and all(h == "1" for h in full), got)
        check(len(full) + [status for status, _ in got].count(200) == 12, got)
        s.settle()
        check(s.ask("POST", "/v1/completions", STORY)[0] == 200)
    finally:
        s.stop()


def hang_up():
    """a queued or streaming request causes no further work after its client disconnects"""
    s = Server("--max-num-seqs", "1")
    # the answer is long enough for a disconnect during it
    body = json.dumps({"prompt": "Once", "max_tokens": 900, "ignore_eos": True, "stream": True, "n": 100})
    request = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    try:
        clients = [s.connect() for _ in range(8)]
        for c in clients:
            c.sendall(request)
        check(clients[0].recv(100).startswith(b"HTTP/1.1 200"))
        until, seen = time.monotonic() + 10, ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:request_success_total")
        # the counter excludes a client that disconnects before its request is read
        while sum(map(s.metric, seen)) < 8 and time.monotonic() < until:
            pass
        for c in clients:
            c.close()
        s.settle(10)
        rows = s.ask("GET", "/metrics")[2].decode().splitlines()
        ended = sum(float(row.rsplit(" ", 1)[1]) for row in rows
                    if row.startswith("vllm:request_success_total") and 'finished_reason="length"' in row)
        left = s.metric("quoth:http_hangups_total")
        # 9: 9 if one client disconnected while the server wrote its last piece
        check(left >= 5 and left + ended in (8, 9), (left, ended))
        half = s.connect()
        half.sendall(request.replace(b"900", b" 20"))
        half.shutdown(socket.SHUT_WR)
        data = b""
        while piece := half.recv(65536):
            data += piece
        check(data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), data[-200:])
    finally:
        s.stop()


def drain():
    """SIGTERM lets responses in flight finish, and rejects new connections"""
    s = Server()
    got = []

    def one():
        got.append(s.ask("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 400, "ignore_eos": True})[2])

    threads = [threading.Thread(target=one) for _ in range(4)]
    for t in threads:
        t.start()
    until = time.monotonic() + 20
    while s.ask("GET", "/load")[2]["running"] < 4 and not got and time.monotonic() < until:
        time.sleep(0.01)
    s.terminate()
    time.sleep(0.1)
    try:
        s.connect().close()
        refused = s.process.poll() is not None
    except OSError:
        refused = True
    for t in threads:
        t.join()
    s.stop()
    check(refused and len(got) == 4, got)
    check(all(g["usage"]["completion_tokens"] == 400 for g in got), got)


def drain_that_takes_too_long():
    """responses that --shutdown-timeout truncates are errors by the server, not disconnects of
    clients"""
    s = Server("--shutdown-timeout", "1", "--max-model-len", "8000")
    body = {"prompt": "Once", "max_tokens": 7000, "ignore_eos": True}
    got = {}

    def one(stream):
        got[stream] = s.ask("POST", "/v1/completions", {**body, "stream": stream})

    threads = [threading.Thread(target=one, args=(stream,)) for stream in (True, False)]
    for t in threads:
        t.start()
    until = time.monotonic() + 20
    while s.ask("GET", "/load")[2]["running"] < 2 and time.monotonic() < until:
        time.sleep(0.01)
    s.process.send_signal(signal.SIGTERM)
    for t in threads:
        t.join()
    check(s.process.wait(20) == 0)
    check(got[False][0] == 503 and got[False][2]["error"]["type"] == "service_unavailable_error", got[False])
    events = got[True][2].decode().split("\n\n")
    check(got[True][0] == 200 and len(events) > 2 and "[DONE]" not in got[True][2].decode(), events[-3:])
    check(json.loads(events[-2].removeprefix("data: "))["error"]["code"] == "overloaded", events[-2:])
    log = s.text()
    check("stopping: finishing 2 responses, at most 1 s; SIGINT or a second SIGTERM stops now" in log, log)  # the count excludes the request of /load
    check(len(re.findall(r'"POST /v1/completions" 503 ', log)) == 2 and '" 499 ' not in log, log)


def second_signal():
    """a second signal stops a busy server, which logs it"""
    s = Server("--max-model-len", "8000")
    c, body = s.connect(), json.dumps({"prompt": "Once", "max_tokens": 7000, "ignore_eos": True})
    c.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    until = time.monotonic() + 20
    while s.ask("GET", "/load")[2]["running"] < 1 and time.monotonic() < until:
        time.sleep(0.01)
    s.process.send_signal(signal.SIGTERM)
    until = time.monotonic() + 20
    while "finishing 1 response," not in s.text() and time.monotonic() < until:
        time.sleep(0.01)
    s.process.send_signal(signal.SIGTERM)
    check(s.process.wait(20) == 1)
    check("quoth: second signal: stopping now\n" in s.text(), s.text())


def systemd():
    """a socket from systemd is used, and readiness is reported"""
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(os.path.join(TMP, "notify"))
    notify.settimeout(30)
    passed = socket.create_server(("127.0.0.1", 0))
    port = passed.getsockname()[1]

    start = ("import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
             "os.execv(sys.argv[2], sys.argv[2:])")  # as in systemd, the socket has the descriptor 3
    env = {**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": os.path.join(TMP, "notify")}
    with open(os.path.join(TMP, "systemd-log"), "w") as log:
        p = subprocess.Popen([sys.executable, "-c", start, str(passed.fileno()), QUOTH, "serve", MODEL, "--log-format", "json"],
                             stderr=log, pass_fds=[passed.fileno()], env=env)
    try:
        check(notify.recv(100) == b"READY=1")
        c = socket.create_connection(("127.0.0.1", port), timeout=30)
        c.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        check(c.recv(100).startswith(b"HTTP/1.1 200"))
        p.send_signal(signal.SIGTERM)
        check(notify.recv(100) == b"STOPPING=1" and p.wait(30) == 0)
        with open(os.path.join(TMP, "systemd-log")) as log:
            rows = [json.loads(row) for row in log]
        check(any(r.get("path") == "/health" and r["status"] == 200 for r in rows), rows)
    finally:
        p.kill()
        passed.close()


def tls_and_unix():
    """TLS and unix sockets"""
    pair = certificate()
    if not pair:
        return "no openssl"
    s = Server("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1])
    try:
        context = ssl.create_default_context(cafile=pair[0])
        with context.wrap_socket(socket.create_connection(("127.0.0.1", s.port), timeout=30), server_hostname="localhost") as c:
            c.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := c.recv(65536):
                data += piece
        check(b"quoth-tiny" in data, data)
        for flags, status in ((["--ca-cert", pair[0]], 0), (["--insecure"], 0), ([], 1)):
            out = subprocess.run([QUOTH, "health", f"https://localhost:{s.port}", *flags], capture_output=True, text=True)
            check(out.returncode == status and ("ready" in out.stdout) == (status == 0), (flags, out))
    finally:
        s.stop()
    path = os.path.join(TMP, "socket")
    s = Server("--uds", path)
    try:
        c = socket.socket(socket.AF_UNIX)
        c.connect(path)
        c.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
        check(b"200 OK" in c.recv(4096))
    finally:
        s.stop()
    check(not os.path.exists(path))


def client_python():
    return python_with("openai", {"openai": "openai", "jsonschema": "jsonschema", "yaml": "pyyaml"})


def run_script(python, name, *args):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    r = subprocess.run([python, script, *args], capture_output=True, text=True, timeout=480)
    check(r.returncode == 0, (r.stdout + r.stderr)[-1200:])
    return r.stdout.strip()


def openai_client():
    """the official openai client: every endpoint and parameter, streams, errors as its exceptions"""
    python, why = client_python()
    if not python:
        return why
    path = os.path.join(TMP, "openai-keys")
    with open(path, "w") as f:
        f.write("sk-test\nsk-slow rate=1\n")
    keyed = Server("--api-key-file", path, "--max-body-size", "1")
    try:
        said = run_script(python, "serve_openai.py", main.url, keyed.url)
    finally:
        keyed.stop()
    print("     " + said)


def described():
    """answers conform to OpenAI's API description"""
    if not os.path.exists(os.path.join(DATA, "api", "openapi_subset.json")):
        return "../shared/data/api is not here"
    if not client_python()[0]:
        return "without the openai package"


def recorded():
    """recorded requests of OpenAI's client are answered"""
    if not os.path.exists(os.path.join(DATA, "api", "recorded")):
        return "../shared/data/api is not here"
    python, why = client_python()
    if not python:
        return why
    names = ["quoth-tiny", "gpt-4o-mini", "gpt-4.1-mini", "muse-spark-1.1", "gpt-5.5"]
    s = Server(*(f for n in names for f in ("--served-model-name", n)))
    try:
        print("     " + run_script(python, "serve_recorded.py", s.url))
    finally:
        s.stop()


def reset_prefix_cache():
    """cached prefixes are dropped on request"""
    long = {"prompt": "Once upon a time there was a small mouse that lived in a house. " * 6, "max_tokens": 1}

    def cached():
        return main.ask("POST", "/v1/completions", long)[2]["usage"]["prompt_tokens_details"]["cached_tokens"]

    cached()
    check(cached() > 0)
    check(main.ask("POST", "/reset_prefix_cache")[0] == 200)
    check(cached() == 0 and cached() > 0)
    check(main.ask("POST", "/reset_prefix_cache?reset_running_requests=true")[2] == {"success": True})
    check(cached() == 0 and main.ask("GET", "/reset_prefix_cache")[0] == 405)


def with_pooling_type(number):
    """Make the model's file with one more key, <architecture>.pooling_type. The key is appended to
    the header, so that all other bytes are only shifted."""
    with open(MODEL, "rb") as f:
        data = f.read()
    n_tensor, n_key = struct.unpack_from("<QQ", data, 8)
    at = 24

    def text():
        nonlocal at
        n = struct.unpack_from("<Q", data, at)[0]
        at += 8 + n
        return data[at - n:at]

    def value(kind):
        nonlocal at
        if kind == 8:
            return text()
        if kind == 9:
            of, n = struct.unpack_from("<IQ", data, at)
            at += 12
            return [value(of) for _ in range(n)]
        at += {0: 1, 1: 1, 7: 1, 2: 2, 3: 2, 10: 8, 11: 8, 12: 8}.get(kind, 4)

    keys = {}
    for _ in range(n_key):
        key = text()
        at += 4
        keys[key] = value(struct.unpack_from("<I", data, at - 4)[0])
    for _ in range(n_tensor):
        text()
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
    name = keys[b"general.architecture"] + b".pooling_type"
    key = struct.pack("<Q", len(name)) + name + struct.pack("<II", 4, number)
    head = data[:16] + struct.pack("<Q", n_key + 1) + key + data[24:at]
    path = os.path.join(TMP, "pooling.gguf")
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data[at + -at % 32:])
    return path


def embeddings():
    """vectors of the pooling kinds differ, and a batch file gives the server's vectors"""
    ask = {"input": ["Once upon a time", "Once upon a hill", "The"]}
    got = {}
    for kind in ("mean", "last", "first"):
        s = Server("--pooling", kind)
        try:
            got[kind] = [d["embedding"] for d in s.ask("POST", "/v1/embeddings", ask)[2]["data"]]
        finally:
            s.stop()
    check(got["first"][0] == got["first"][1] != got["first"][2], "the first token is the same in two of them")
    check(got["last"][0] != got["mean"][0] != got["first"][0] and got["last"][0] != got["last"][1])
    # the vectors of one token do not differ
    check(len(main.ask("POST", "/tokenize", {"prompt": "The"})[2]["tokens"]) > 1 or got["mean"][2] == got["last"][2])
    with open(os.path.join(TMP, "embed.jsonl"), "w") as f:
        f.write(json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": ask}) + "\n")
    out = os.path.join(TMP, "embed-out.jsonl")
    subprocess.run([QUOTH, "batch", MODEL, "-i", os.path.join(TMP, "embed.jsonl"), "-o", out], check=True, capture_output=True,
                   timeout=120)
    with open(out) as f:
        body = json.loads(f.readline())["response"]["body"]
    check([d["embedding"] for d in body["data"]] == got["last"], str(body)[:300])
    check(main.ask("POST", "/v1/embeddings", {"input": "a", "stream": True})[0] == 400)
    s = Server(model=with_pooling_type(1))
    try:
        check([d["embedding"] for d in s.ask("POST", "/v1/embeddings", ask)[2]["data"]] == got["mean"], "the file says mean")
    finally:
        s.stop()
    s = Server("--max-queued-requests", "4")  # there are more inputs than the maximum number of waiting requests
    try:
        status, _, answer = s.ask("POST", "/v1/embeddings", {"input": [f"Once {i}" for i in range(300)] + ["Once upon a time"]})
        check(status == 200 and len(answer["data"]) == 301 and answer["data"][300]["embedding"] == got["last"][0], (status, str(answer)[:300]))
        status, _, answer = s.ask("POST", "/v1/completions", {"prompt": ["Once"] * 40 + ["word " * 5000], "max_tokens": 1})
        check(status == 400 and answer["error"]["code"] == "context_length_exceeded", answer)
        s.settle()
        check(s.metric("vllm:generation_tokens_total") == 0, "nothing of it was computed")
    finally:
        s.stop()


main = first_server()


def stop():
    """the server stops on a signal, without errors in the log"""
    log = main.text()
    main.stop()
    check("error" not in log.lower().replace("error_", ""), log[-400:])


run([endpoints, as_llama_cpp, invocations, tokenizer_info, content_types, any_name, several_names, same_answers, refusals, tools, browsers, api_keys, overload, hang_up, drain, drain_that_takes_too_long, second_signal, systemd, tls_and_unix,
     reset_prefix_cache, embeddings, openai_client, described, recorded, stop])
