#!/usr/bin/env python3
"""Goal: Ollama's clients work with quoth serve unchanged, also in their errors. Method: raw
requests compare lines and rejections. ollama_client.py is a program of the official package."""
import http.client
import json
import os
import subprocess
import time

from server import MODEL, QUOTH, Elsewhere, Server, TMP, check, first_server, free_port, run
from venv_for import python_with

ASK = {"model": "quoth-tiny", "messages": [{"role": "user", "content": "What is 47 + 38?"}], "options": {"temperature": 0}}
END = ["model", "created_at", "message", "done", "done_reason", "total_duration", "load_duration", "prompt_eval_count",
       "prompt_eval_duration", "eval_count", "eval_duration"]
STORE = (("POST", "/api/pull", {"model": "llama3"}), ("DELETE", "/api/delete", {"model": "quoth-tiny"}),
         ("POST", "/api/copy", {"source": "quoth-tiny", "destination": "b"}), ("POST", "/api/create", {"model": "b", "from": "quoth-tiny"}),
         ("POST", "/api/push", {"model": "quoth-tiny"}), ("POST", "/api/blobs/sha256:00", {}))

main = first_server("--served-model-name", "quoth-tiny", "other:3b", "--max-body-size", "1")


def failed(answer, status, word=""):
    """Check a rejection in Ollama's form."""
    got, headers, body = answer
    check(got == status and set(body) == {"error"} and word in body["error"], (got, body))
    check(headers["Content-Type"] == "application/json", str(headers))


def lines(path, body):
    """Return the lines of a stream."""
    status, headers, text = main.ask("POST", path, body)
    check(status == 200 and headers["Content-Type"] == "application/x-ndjson" and text.endswith(b"\n"), text)
    return [json.loads(line) for line in text.decode().splitlines()]


def head(path):
    """Return the status of HEAD."""
    c = http.client.HTTPConnection("127.0.0.1", main.port, timeout=60)
    c.request("HEAD", path)
    status = c.getresponse().status
    c.close()
    return status


def line_members():
    """lines have the members and the order of Ollama's lines"""
    got = lines("/api/chat", ASK)
    check(all(list(x) == ["model", "created_at", "message", "done"] and not x["done"] for x in got[:-1]), got)
    check(list(got[-1]) == END and got[-1]["done"] and got[-1]["message"] == {"role": "assistant", "content": ""}, got[-1])
    text = "".join(x["message"]["content"] for x in got)
    whole = main.ask("POST", "/api/chat", {**ASK, "stream": False})
    check(whole[1]["Content-Type"] == "application/json" and list(whole[2]) == END, whole[2])
    check(text == whole[2]["message"]["content"] == "47 + 38 = 85", text)
    check(whole[2]["total_duration"] >= whole[2]["prompt_eval_duration"] + whole[2]["eval_duration"] > 0, whole[2])


def rejections():
    """rejections by the server have Ollama's form and its statuses"""
    big = {**ASK, "messages": [{"role": "user", "content": "x" * 1200000}]}
    failed(main.ask("POST", "/api/chat", big), 413, "bytes")
    failed(main.ask("POST", "/api/chat", "{"), 400, "JSON")
    failed(main.ask("POST", "/api/chat", ASK, {"Content-Type": "text/plain"}), 415, "Content-Type")
    failed(main.ask("POST", "/api/chat", ASK, {"Origin": "http://evil.example"}), 403, "Origin")
    failed(main.ask("POST", "/api/chat", {**ASK, "model": "nosuch"}), 404, "model 'nosuch' not found")
    failed(main.ask("POST", "/api/show", {"model": "nosuch"}), 404, "model 'nosuch' not found")
    failed(main.ask("POST", "/api/show", {"name": "nosuch"}), 404, "model 'nosuch' not found")
    failed(main.ask("POST", "/api/show", {}), 400, "model is required")
    failed(main.ask("PUT", "/api/chat", ASK), 405)
    failed(main.ask("GET", "/api/blobs/sha256:00"), 404, "blob")
    failed(main.ask("GET", "/api/nosuch"), 404, "/api/nosuch")
    check(head("/api/blobs/sha256:00") == 404)


def store():
    """requests to change a store of models are rejected by name, except a pull of the served
    model"""
    for method, path, body in STORE:
        failed(main.ask(method, path, body), 501, "no store of models")
    for method, path, body in STORE[1:3] + STORE[4:5]:
        failed(main.ask(method, path, {k: "nosuch" for k in body}), 404, "model 'nosuch' not found")
    failed(main.ask("POST", "/api/copy", {}), 400, "source")
    for name in ("quoth-tiny", "quoth-tiny:latest", "other:3b"):
        check(lines("/api/pull", {"model": name}) == [{"status": "success"}], name)
        check(main.ask("POST", "/api/pull", {"name": name, "stream": False})[2] == {"status": "success"}, name)


def lists():
    """/api/tags, /api/ps and /api/version have one entry per name, and answer HEAD"""
    tags, ps = main.ask("GET", "/api/tags")[2]["models"], main.ask("GET", "/api/ps")[2]["models"]
    for got in (tags, ps):
        check([m["name"] for m in got] == ["quoth-tiny:latest", "other:3b"] and all(m["name"] == m["model"] for m in got), got)
        check(got[0]["details"]["quantization_level"] == "Q8_0" and got[0]["details"]["format"] == "gguf", got[0])
        check(len(got[0]["digest"]) == 64 and int(got[0]["digest"], 16), got[0])
    check(tags[0]["size"] == os.path.getsize(os.path.join(os.path.dirname(__file__), "../../models/quoth-tiny/quoth-tiny-q8_0.gguf")))
    check(ps[0]["context_length"] > 0 and ps[0]["size_vram"] == 0 and ps[0]["size"] > tags[0]["size"] / 2, ps[0])
    check("version" in main.ask("GET", "/api/version")[2])
    check([head(path) for path in ("/", "/api/tags", "/api/version")] == [200] * 3)


def show():
    """/api/show has the metadata of the file, and all items of its lists if `verbose`"""
    short, long = (main.ask("POST", "/api/show", {"model": "quoth-tiny", "verbose": v})[2] for v in (False, True))
    info = short["model_info"]
    arch = info["general.architecture"]
    check(info[arch + ".context_length"] > 0 and info["general.parameter_count"] > 0 and info["tokenizer.ggml.tokens"] == [], info)
    check(len(long["model_info"]["tokenizer.ggml.tokens"]) > 1000)
    check(short["capabilities"] == ["completion", "tools", "thinking"] and "messages" in short["template"], short["capabilities"])
    check("temperature" in short["parameters"] and "FROM quoth-tiny" in short["modelfile"] and "/" not in short["modelfile"], short["modelfile"])


def keys():
    """requests need keys, and changes need keys of administrators"""
    path = os.path.join(TMP, "keys")
    with open(path, "w") as f:
        f.write("sk-one name=one\nsk-admin name=admin role=admin\nsk-slow name=slow rate=1\n")
    s = Server("--api-key-file", path, "--served-model-name", "quoth-tiny")
    one, admin, slow = ({"Authorization": "Bearer " + key} for key in ("sk-one", "sk-admin", "sk-slow"))
    try:
        for method, where, body in (("POST", "/api/chat", ASK), ("POST", "/api/show", {"model": "quoth-tiny"}), ("GET", "/api/tags", None),
                                    ("GET", "/api/ps", None)):
            failed(s.ask(method, where, body), 401, "API key")
            check(s.ask(method, where, body, one)[0] == 200, where)
        for method, where, body in STORE:
            failed(s.ask(method, where, body, one), 403)
            failed(s.ask(method, where, body, admin), 501)
        check(s.ask("POST", "/api/pull", {"model": "quoth-tiny"}, admin)[0] == 200)
        s.ask("POST", "/api/chat", ASK, slow)
        failed(s.ask("POST", "/api/chat", ASK, slow), 429, "requests a minute")
    finally:
        s.stop()


def address():
    """--ollama listens at OLLAMA_HOST, and GET / returns a text to clients and the page to
    browsers"""
    port = free_port()
    os.environ["OLLAMA_HOST"] = f"http://127.0.0.1:{port}/"
    try:
        p = subprocess.Popen([QUOTH, "serve", MODEL, "--ollama", "--no-peaks", "--threads", "1"], stderr=subprocess.DEVNULL)
        s = Elsewhere(port)
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    s.connect().close()
                    break
                except OSError:
                    time.sleep(0.1)
            for method in ("GET", "HEAD"):
                status, headers, body = s.ask(method, "/")
                check(status == 200 and headers["Content-Type"].startswith("text/plain"), str(headers))
            check(s.ask("GET", "/")[2] == b"Ollama is running")
            check(b"<html" in s.ask("GET", "/", headers={"Accept": "text/html,*/*"})[2])
            check(b"<html" in main.ask("GET", "/")[2], "without --ollama")
        finally:
            p.terminate()
            check(p.wait(60) == 0)
        os.environ["OLLAMA_HOST"] = "a:b"
        p = subprocess.run([QUOTH, "serve", MODEL, "--ollama"], capture_output=True, timeout=60)
        check(p.returncode == 1 and b"OLLAMA_HOST: expected HOST[:PORT]" in p.stderr, p.stderr)
    finally:
        del os.environ["OLLAMA_HOST"]


def ollama_client():
    """the official ollama client: every method, complete and streamed; errors are its exceptions"""
    python, why = python_with("ollama-for-tests", {"ollama": "ollama"})
    if not python:
        return why
    s = Server("--served-model-name", "quoth-tiny")
    try:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ollama_client.py")
        r = subprocess.run([python, "-P", script, s.url], capture_output=True, text=True, timeout=480)
        check(r.returncode == 0, (r.stdout + r.stderr)[-1200:])
    finally:
        s.stop()


def stop():
    """the server stops on a signal"""
    main.stop()


run([line_members, rejections, store, lists, show, keys, address, ollama_client, stop])
