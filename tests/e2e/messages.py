#!/usr/bin/env python3
"""Goal: Anthropic's clients work with quoth serve unchanged, also in their errors. Method: raw
requests compare events and rejections byte by byte. messages_client.py is a program of the official
package."""
import json
import os
import subprocess

from server import Server, TMP, check, first_server, run
from venv_for import python_with

VERSION = {"anthropic-version": "2023-06-01"}
ASK = {"max_tokens": 40, "temperature": 0, "messages": [{"role": "user", "content": "What is 47 + 38?"}]}
TOOL = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"]}}

main = first_server("--served-model-name", "quoth-tiny", "other", "third", "--max-body-size", "1")


def keys_file():
    path = os.path.join(TMP, "keys")
    with open(path, "w") as f:
        f.write("sk-one name=one\nsk-slow name=slow rate=1\n")
    return path


def events(body):
    """Return the events of a stream as (name, data)."""
    status, headers, text = main.ask("POST", "/v1/messages?beta=true", {**ASK, "stream": True, **body}, VERSION)
    check(status == 200 and headers["Content-Type"] == "text/event-stream", text)
    out = []
    for event in text.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        check(name.startswith("event: ") and data.startswith("data: "), event)
        out.append((name[7:], json.loads(data[6:])))
        check(out[-1][1]["type"] == out[-1][0], event)
    return out


def failed(answer, status, kind, word=""):
    """Check a rejection in Anthropic's form."""
    got, headers, body = answer
    check(got == status and set(body) == {"type", "error", "request_id"} and body["type"] == "error", (got, body))
    check(body["error"]["type"] == kind and word in body["error"]["message"], body)
    check(body["request_id"] == headers["request-id"] == headers["x-request-id"], (body, str(headers)))


def event_names():
    """events have the names and the order of Anthropic's events"""
    got = events({})
    names = [n for n, _ in got]
    n = names.count("content_block_delta")
    check(n > 0 and names == ["message_start", "ping", "content_block_start", *["content_block_delta"] * n, "content_block_stop",
                              "message_delta", "message_stop"], names)
    first, last = got[0][1]["message"], got[-2][1]
    check(first["content"] == [] and first["stop_reason"] is None and first["usage"]["output_tokens"] == 0, first)
    check(last["delta"] == {"stop_reason": "end_turn", "stop_sequence": None} and last["usage"]["output_tokens"] >= n, last)
    text = "".join(d["delta"]["text"] for name, d in got if name == "content_block_delta")
    check(text == main.ask("POST", "/v1/messages", ASK)[2]["content"][0]["text"] == "47 + 38 = 85", text)


def event_blocks():
    """a stream with thinking and a call has its blocks in order"""
    got = events({"thinking": {"type": "enabled", "budget_tokens": 5}, "tools": [TOOL], "tool_choice": {"type": "any"}, "max_tokens": 80})
    starts = [d["content_block"]["type"] for name, d in got if name == "content_block_start"]
    check(starts == ["thinking", "tool_use"], got)
    deltas = [(d["index"], d["delta"]["type"]) for name, d in got if name == "content_block_delta"]
    check(deltas == sorted(deltas, key=lambda d: d[0]), deltas)
    check({k for i, k in deltas if i == 0} == {"thinking_delta", "signature_delta"} and deltas.count((0, "signature_delta")) == 1, deltas)
    check({k for i, k in deltas if i == 1} == {"input_json_delta"}, deltas)
    call = "".join(d["delta"].get("partial_json", "") for name, d in got if name == "content_block_delta")
    check(json.loads(call) == {"city": "Paris"} and got[-2][1]["delta"]["stop_reason"] == "tool_use", call)


def rejections():
    """rejections by the server have Anthropic's form on its paths, and with its header on others"""
    big = {**ASK, "messages": [{"role": "user", "content": "x" * 1200000}]}
    failed(main.ask("POST", "/v1/messages", big), 413, "request_too_large", "bytes")
    failed(main.ask("POST", "/v1/messages", "{"), 400, "invalid_request_error", "JSON")
    failed(main.ask("POST", "/v1/messages", ASK, {"Content-Type": "text/plain"}), 415, "invalid_request_error", "Content-Type")
    failed(main.ask("POST", "/v1/messages", {**ASK, "model": "nosuch"}), 404, "not_found_error", "model")
    failed(main.ask("POST", "/v1/messages/count_tokens", {}), 400, "invalid_request_error", "messages")
    failed(main.ask("GET", "/v1/models/nosuch", headers=VERSION), 404, "not_found_error", "model")
    failed(main.ask("GET", "/nosuch", headers=VERSION), 404, "not_found_error", "/nosuch")
    failed(main.ask("PUT", "/v1/messages", headers=VERSION), 405, "invalid_request_error")
    failed(main.ask("POST", "/v1/messages", ASK, {"Origin": "http://evil.example"}), 403, "permission_error", "Origin")
    for path in ("/v1/models/nosuch", "/nosuch"):
        check(main.ask("GET", path)[2]["error"]["code"], "OpenAI's form without the header")
    check(main.ask("POST", "/v1/chat/completions", "{", VERSION)[2]["error"]["code"] is None, "OpenAI's form on its paths")


def files():
    """Anthropic's files are rejected in its form, also if the server has files of OpenAI's"""
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n{}\r\n--x--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    for method, path in (("GET", "/v1/files"), ("GET", "/v1/files/file_1"), ("GET", "/v1/files/file_1/content"), ("DELETE", "/v1/files/file_1")):
        failed(main.ask(method, path + "?beta=true", headers=VERSION), 400, "invalid_request_error", "Anthropic's files are not supported")
    failed(main.ask("POST", "/v1/files?beta=true", form, {**VERSION, **kind}), 400, "invalid_request_error", "Anthropic's files")
    status, _, body = main.ask("GET", "/v1/files", headers={"anthropic-beta": "a,files-api-2025-04-14"})
    check(status == 400 and "Anthropic's files" in body["error"]["message"], body)
    check(main.ask("GET", "/v1/files")[2]["object"] == "list", "OpenAI's files")


def threads():
    """the error for a thread lets clients send whole conversations"""
    answer = main.ask("POST", "/v1/messages?beta=true", {**ASK, "thread": {"type": "create"}}, VERSION)
    failed(answer, 400, "invalid_request_error", "thread: not supported yet")
    check(answer[2]["error"]["details"] == {"error_code": "thread_unsupported_request"}, answer[2])
    check("details" not in main.ask("POST", "/v1/messages", {**ASK, "container": "a"})[2]["error"])


def pages_of_models():
    """/v1/models has pages in Anthropic's form, and OpenAI's form without the header"""
    def page(query):
        status, _, body = main.ask("GET", "/v1/models" + query, headers=VERSION)
        check(status == 200, body)
        ids = [m["id"] for m in body["data"]]
        check((body["first_id"], body["last_id"]) == ((ids[0], ids[-1]) if ids else (None, None)), body)
        return ids, body["has_more"]
    check(page("") == (["quoth-tiny", "other", "third"], False))
    check(page("?limit=2") == (["quoth-tiny", "other"], True))
    check(page("?limit=2&after_id=other") == (["third"], False))
    check(page("?limit=1&before_id=third") == (["other"], True))
    check(page("?after_id=third") == ([], False))
    check(main.ask("GET", "/v1/models")[2]["object"] == "list")


def keys():
    """keys are in x-api-key or Authorization, and their rejections have Anthropic's form"""
    s = Server("--api-key-file", keys_file())
    try:
        for headers in ({"x-api-key": "sk-one"}, {"Authorization": "Bearer sk-one"}):
            check(s.ask("POST", "/v1/messages", ASK, headers)[0] == 200)
        failed(s.ask("POST", "/v1/messages", ASK), 401, "authentication_error", "x-api-key")
        failed(s.ask("POST", "/v1/messages", ASK, {"x-api-key": "sk-two"}), 401, "authentication_error")
        failed(s.ask("GET", "/v1/models", headers=VERSION), 401, "authentication_error")
        s.ask("POST", "/v1/messages", ASK, {"x-api-key": "sk-slow"})
        failed(s.ask("POST", "/v1/messages", ASK, {"x-api-key": "sk-slow"}), 429, "rate_limit_error")
    finally:
        s.stop()


def anthropic_client():
    """the official anthropic client: every method, complete and streamed; errors are its
    exceptions"""
    python, why = python_with("anthropic-for-tests", {"anthropic": "anthropic"})
    if not python:
        return why
    s = Server("--api-key-file", keys_file(), "--served-model-name", "quoth-tiny")
    one = Server("--served-model-name", "quoth-tiny")
    try:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "messages_client.py")
        r = subprocess.run([python, script, one.url, s.url], capture_output=True, text=True, timeout=480)
        check(r.returncode == 0, (r.stdout + r.stderr)[-1200:])
    finally:
        s.stop()
        one.stop()


def stop():
    """the server stops on a signal"""
    main.stop()


run([event_names, event_blocks, rejections, files, threads, pages_of_models, keys, anthropic_client, stop])
