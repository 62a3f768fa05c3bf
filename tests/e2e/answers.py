#!/usr/bin/env python3
"""Goal: a change of the program's structure changes no answer. Method: a server of the bundled
model gets a fixed list of requests (answers_requests.py). Status, kind and body of each answer are
compared with answers.json. Streams are compared by the content of their events and by the names in
events. Ids and times are replaced first. Only the code, type and param of an error are compared.
After an intended change of answers, --record writes answers.json again. The diff of this file shows
the changed answers. Environment: QUOTH the program, QUOTH_ROOT the repository. The script prints
"ok NAME" or "FAIL NAME: why" per group of requests."""
import hashlib
import http.client
import json
import os
import re
import sys

from answers_requests import BRIEF, GROUPS
from server import ROOT, check, first_server, run

FILE = os.path.join(ROOT, "tests", "e2e", "answers.json")
RECORD = "--record" in sys.argv
VARYING = [(r'"id":"(chatcmpl|cmpl|embd)-[^"]*"', r'"id":"\1-ID"'), (r'"id":"\w{9}","type":"function"', '"id":"CALL","type":"function"'),
           (r'"created":\d+', '"created":0'),
           (r'"cached_tokens":\d+', '"cached_tokens":0'), (r'"(version|system_fingerprint)":"[^"]*"', r'"\1":"V"')]
SENTENCE = [(r'"message":"(?:[^"\\]|\\.)*"', '"message":"SENTENCE"')]
GROWING = ("text", "content", "reasoning_content", "arguments")  # strings that arrive in pieces
KINDS = ("object", "role", "type", "name", "model")  # strings kept in the structure of an event
ENDS = ("finish_reason", "stop_reason")  # values that are null or a word
main = first_server()
recorded = {}
if not RECORD:
    with open(FILE) as f:
        recorded = json.load(f)


def ask(method, path, body):
    """Return (status, type, text) of an answer."""
    c = http.client.HTTPConnection("127.0.0.1", main.port, timeout=120)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body)
    c.request(method, path, data, {"Content-Type": "application/json"})
    r = c.getresponse()
    text = r.read().decode()
    c.close()
    for pattern, instead in VARYING + (SENTENCE if r.status >= 400 or '{"error":' in text else []):
        text = re.sub(pattern, instead, text)
    return r.status, r.getheader("Content-Type"), text


def names(x, path="", key=""):
    """Return the structure of an event without its values: each name with its path, and its
    possible values. The division of names among events depends on time, so single names are
    compared."""
    if key in ENDS:
        return {f"{path} word or null"}
    if isinstance(x, dict) and key != "top_logprobs":
        return {name for k, v in x.items() for name in names(v, f"{path}.{k}", k)} | {f"{path} object"}
    if isinstance(x, list):
        return {name for v in x for name in names(v, f"{path}[]", key)} | {f"{path} list"}
    if key in KINDS:
        return {f"{path} {x}"}
    return {f"{path} {'number' if type(x) in (int, float) else type(x).__name__}"}


def grow(old, new, key=""):
    """Return the sum of two neighbouring pieces of a choice. The number of tokens of an event
    depends on time. The sum over all events does not."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {k: grow(old.get(k), new.get(k), k) for k in {**old, **new}}
    if key == "tool_calls" and isinstance(old, list) and isinstance(new, list):
        calls = {c["index"]: c for c in old}
        for c in new:
            calls[c["index"]] = grow(calls.get(c["index"]), c)
        return list(calls.values())
    if isinstance(old, list) and isinstance(new, list):
        return old + new
    if isinstance(old, str) and isinstance(new, str) and key in GROWING:
        return old + new
    return old if new is None else new


def of_stream(text):
    """Return ({choice: sum of its pieces}, the last event's usage, names in its events)."""
    events = [e for e in text.split("\n\n") if e and not e.startswith(":")]
    check(events[-1] == "data: [DONE]" and all(e.startswith("data: {") for e in events[:-1]), events[-2:])
    choices, usage, seen = {}, None, set()
    for e in events[:-1]:
        e = json.loads(e[6:])
        seen |= names(e)
        for c in e.pop("choices"):
            choices[c["index"]] = grow(choices.get(c["index"]), {**e, **c, "usage": None})
        usage = e.get("usage") or usage
    return [choices[k] for k in sorted(choices)], usage, seen


def short(text, most):
    """Return a body with more characters as its length and hash."""
    return text if len(text) <= most else f"{len(text)} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def answer(request, brief=False):
    """Return (the compared part of an answer, a stream's names). brief: keep fewer fields, for
    groups of thousands of requests."""
    status, kind, text = ask(*request)
    if brief:
        return [status, "".join(re.findall(r'"(?:code|param)":[^,}]*', text)) if status >= 400 else short(text, 0)], set()
    if kind and kind.startswith("text/event-stream") and text.endswith("data: [DONE]\n\n"):
        choices, usage, seen = of_stream(text)
        return [status, kind, short(json.dumps(choices), 700), usage], seen
    return [status, kind, short(text, 700)], set()


def answers(name, requests):
    """Return (request, compared part, names) of each request."""
    for r in requests:
        yield r, *answer(r, name in BRIEF)


def label(request):
    body = request[2] if isinstance(request[2], bytes) else json.dumps(request[2])
    return f"{request[0]} {request[1]} {body[:300]}"


def record(name, requests):
    """Record a group. Names are the union over all events, because the number of events of a short
    answer varies."""
    rows, seen = [], set()
    for _ in range(4):
        now = list(answers(name, requests))
        for old, (request, new, _) in zip(rows, now):
            check(old == new, f"two runs differ: {label(request)}\n    {old}\n    {new}")
        rows = [row for _, row, _ in now]
        seen.update(*(s for _, _, s in now))
    recorded[name] = {"answers": rows, "names": sorted(seen)}


def compare(name, requests):
    want = recorded[name]
    check(len(want["answers"]) == len(requests), "other requests than those recorded; --record makes the file anew")
    wrong = []
    for row, (request, got, seen) in zip(want["answers"], answers(name, requests)):
        if got != row:
            wrong.append(f"{label(request)}\n    recorded {row}\n    now      {got}")
        if not seen <= set(want["names"]):
            wrong.append(f"{label(request)}\n    new in an event: {seen - set(want['names'])}")
    for w in wrong[:20]:
        print(w)
    check(not wrong, f"{len(wrong)} of {len(requests)} answers are not as recorded")


def group(name, requests):
    def test():
        (record if RECORD else compare)(name, requests)
    test.__doc__ = f"answers are as recorded: {name}"
    test.__name__ = name
    return test


def stops():
    """the server exits with the correct status"""
    main.stop()


def write_file():
    """Write a line for each answer and each shape."""
    def lines(rows):
        return "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]"

    groups = (f'{json.dumps(name)}: {{\n"answers": {lines(g["answers"])},\n"names": {lines(g["names"])}\n}}'
              for name, g in recorded.items())
    with open(FILE, "w") as f:
        f.write("{\n" + ",\n".join(groups) + "\n}\n")


sys.argv = [a for a in sys.argv if a != "--record"]
try:
    run([group(*g) for g in GROUPS.items()] + [stops])
finally:
    main.terminate()
    if RECORD:
        write_file()
