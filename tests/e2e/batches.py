#!/usr/bin/env python3
"""Goal: files and batches of quoth serve work with OpenAI's and Anthropic's clients, survive kills
with each line answered once, belong to their keys, and yield to other requests. Method: programs of
the official packages, raw requests, kills at random moments, and the answers of quoth batch."""
import concurrent.futures
import http.client
import json
import os
import random
import subprocess
import time

from batch_calls import content, create, form, state, upload, wait
from server import LONG, MODEL, QUOTH, TMP, Server, check, first_server, run
from venv_for import python_with

HERE = os.path.dirname(os.path.abspath(__file__))
CHAT = "/v1/chat/completions"
rng = random.Random(7)

main = first_server("--served-model-name", "quoth-tiny", "--max-body-size", "1")


def line(i, url=CHAT, **body):
    ask = {"messages": [{"role": "user", "content": f"What is {i % 50} + {i // 50 % 50}?"}], "max_tokens": 12, "temperature": 0.8}
    return json.dumps({"custom_id": f"line {i}", "method": "POST", "url": url, "body": {**ask, **body}}) + "\n"


def texts(rows):
    return {r["custom_id"]: r["response"]["body"]["choices"][0]["message"]["content"] for r in rows}


def answers_of_command(lines):
    """Return the answers of quoth batch."""
    inputs, outputs = os.path.join(TMP, "in.jsonl"), os.path.join(TMP, f"out-{time.monotonic_ns()}.jsonl")
    with open(inputs, "w") as f:
        f.write("".join(lines))
    r = subprocess.run([QUOTH, "batch", MODEL, "-i", inputs, "-o", outputs, "-q", "--threads", "2"], capture_output=True, text=True)
    check(r.returncode == 0, r.stderr)
    with open(outputs) as f:
        return texts(json.loads(row) for row in f)


def same_as_command():
    """a batch has the answers of quoth batch, in the order of its lines"""
    lines = [line(i) for i in range(40)]
    file = upload(main, "\n".join(lines) + "  \n")
    b = wait(main, create(main, file))
    check(b["status"] == "completed" and b["request_counts"] == {"total": 40, "completed": 40, "failed": 0}, b)
    check(b["error_file_id"] is None and b["errors"] is None and b["input_file_id"] == file, b)
    times = [b[k] for k in ("created_at", "in_progress_at", "finalizing_at", "completed_at")]
    check(times == sorted(times) and b["expires_at"] == b["created_at"] + 86400, b)
    rows = content(main, b["output_file_id"])
    check([r["custom_id"] for r in rows] == [f"line {i}" for i in range(40)], rows)
    check(texts(rows) == answers_of_command(lines), "other answers")


def endpoints():
    """a batch of each kind of endpoint; lines that are rejected are in the error file"""
    bodies = {"/v1/completions": {"prompt": "Once", "max_tokens": 3}, "/v1/embeddings": {"input": "a"},
              "/v1/responses": {"input": "What is 1 + 2?", "max_output_tokens": 20}, "/v1/responses/input_tokens": {"input": "a"},
              "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}, "/generate": {"inputs": "a"},
              "/completion": {"prompt": "a", "n_predict": 3},
              "/api/chat": {"model": "quoth-tiny", "messages": [{"role": "user", "content": "hi"}], "stream": False}}
    for url, body in bodies.items():
        good, bad = ({"custom_id": c, "method": "POST", "url": url, "body": x} for c, x in (("a", body), ("b", {**body, "model": 3})))
        b = wait(main, create(main, upload(main, json.dumps(good) + "\n" + json.dumps(bad)), url))
        n = {"total": 2, "completed": 1, "failed": 1}
        if url == "/generate":  # bodies for this path have no field model
            n = None
        check(b["status"] == "completed" and (n is None or b["request_counts"] == n), (url, b))
        check(content(main, b["output_file_id"])[0]["custom_id"] == "a", url)
        if n:
            row = content(main, b["error_file_id"])[0]
            check(row["custom_id"] == "b" and row["response"]["status_code"] == 400 and "model" in json.dumps(row), row)


def invalid_lines():
    """a batch with an invalid line fails, and its errors list the invalid lines"""
    for text, code, number in (("{", "invalid_json_line", 1), (line(1) + line(1), "duplicate_custom_id", 2),
                               (line(1) + "\n" + line(2, url="/v1/completions"), "invalid_url", 3), ("", "empty_file", None),
                               ("\n \n", "empty_file", None), ('{"custom_id":"a","method":"GET"}', "invalid_request", 1),
                               (line(1) + '{"custom_id":3}', "invalid_request", 2), (line(1)[:-2], "invalid_json_line", 1),
                               ('{"custom_id":' + "[" * 300 + "]" * 300 + "}", "invalid_json_line", 1)):
        b = wait(main, create(main, upload(main, text)))
        check(b["status"] == "failed" and b["failed_at"] and b["output_file_id"] is None, b)
        e = b["errors"]["data"][0]
        check((e["code"], e["line"]) == (code, number) and e["message"], (text, b))


def bad_forms():
    """malformed forms and bodies are rejected with the field"""
    def refused(status, param, body, headers, path="/v1/files"):
        got, _, answer = main.ask("POST", path, body, headers)
        check(got == status and answer["error"]["param"] == param, (got, param, answer))
    purpose, file = ("purpose", None, b"batch"), ("file", "a", b"{}")
    refused(400, "file", *form([purpose]))
    refused(400, "purpose", *form([file]))
    refused(400, "purpose", *form([("purpose", None, b"fine-tune"), file]))
    refused(400, "file", *form([purpose, file, file]))
    refused(400, "expires_after", *form([purpose, file, ("expires_after[anchor]", None, b"created_at"), ("expires_after[seconds]", None, b"9")]))
    refused(400, "expires_after", *form([purpose, file, ("expires_after[seconds]", None, b"4000")]))
    refused(400, None, form([purpose, file])[0], {"Content-Type": "multipart/form-data"})
    refused(400, None, form([purpose, file])[0], {"Content-Type": "application/json"})
    refused(400, None, form([purpose, file])[0][:-9], form([])[1])
    refused(415, None, *form([purpose, file]), path="/v1/batches")
    refused(413, None, *form([purpose, ("file", "a", b"x" * 1100000)]))
    known = upload(main, line(1))
    for field, value, param in (("input_file_id", "file-none", None), ("input_file_id", 3, None), ("endpoint", "/v1/none", None),
                                ("completion_window", "24", None), ("completion_window", "31d", None), ("completion_window", "-1h", None),
                                ("metadata", {"a": 3}, None), ("output_expires_after", {"anchor": "x"}, None), ("endpoint", None, None)):
        body = {"input_file_id": known, "endpoint": CHAT, "completion_window": "24h", field: value}
        refused(400, field, json.dumps(body), {}, "/v1/batches")


def ends():
    """a batch that is cancelled or expires keeps its answers"""
    s = Server("--max-num-seqs", "2")
    slow = [line(i, max_tokens=600, ignore_eos=True) for i in range(60)]
    file = upload(s, line(0, max_tokens=1) + "".join(slow[1:]))
    b = create(s, file)
    while state(s, b)["request_counts"]["completed"] == 0:
        time.sleep(0.01)
    status, _, answer = s.ask("POST", f"/v1/batches/{b}/cancel")
    check(status == 200 and answer["status"] == "cancelling" and answer["cancelling_at"], answer)
    end = wait(s, b)
    check(end["status"] == "cancelled" and end["cancelled_at"], end)
    n = end["request_counts"]["completed"]
    check(0 < n < 60 and len(content(s, end["output_file_id"])) == n and end["error_file_id"] is None, end)
    status, _, answer = s.ask("POST", f"/v1/batches/{b}/cancel")
    check(status == 400 and answer["error"]["param"] == "batch_id", answer)
    end = wait(s, create(s, file, window="1s"))
    counts = end["request_counts"]
    check(end["status"] == "expired" and end["expired_at"] and counts["completed"] + counts["failed"] == 60, end)
    errors = content(s, end["error_file_id"])
    check(len(errors) == counts["failed"] > 0 and {e["error"]["code"] for e in errors} == {"batch_expired"}, errors[:2])
    # a batch whose file is deleted while it waits for another one fails by name
    first, second = create(s, file), None
    second = create(s, other := upload(s, line(1)))
    check(s.ask("DELETE", "/v1/files/" + other)[0] == 200)
    s.ask("POST", f"/v1/batches/{first}/cancel")
    end = wait(s, second)
    check(end["status"] in ("failed", "completed"), end)
    if end["status"] == "failed":
        check(end["errors"]["data"][0]["code"] == "input_file_not_found", end)
    s.stop()


def yields():
    """requests of clients do not wait for lines of a batch, and do not share the engine with them"""
    s = Server("--max-num-seqs", "2")
    b = create(s, upload(s, "".join(line(i, max_tokens=60, ignore_eos=True) for i in range(2000))))
    while s.ask("GET", "/load")[2]["running"] < 2:
        time.sleep(0.01)

    def begin():
        """Send a request. Return its connection and response after the first token."""
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        c.request("POST", CHAT, json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 900, "ignore_eos": True, "stream": True,
                                            "stream_options": {"include_usage": True}}))
        r = c.getresponse()
        check(r.status == 200 and r.readline(), r.status)
        return c, r
    streams = [begin() for _ in range(2)]
    before = state(s, b)["request_counts"]["completed"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        texts_of = [pool.submit(r.read) for _, r in streams]
        after = now = before
        while not any(t.done() for t in texts_of):  # the batch continues after the first answer's end
            after, now = now, state(s, b)["request_counts"]["completed"]
    for (c, _), text in zip(streams, texts_of):
        check(b'"completion_tokens":900' in text.result().replace(b" ", b""), "900 tokens")
        c.close()
    check(after - before <= 5, f"{after - before} lines of 60 tokens beside two answers of 900")
    until = time.monotonic() + 60
    while state(s, b)["request_counts"]["completed"] < after + 10:
        check(time.monotonic() < until, "the batch goes on")
        time.sleep(0.01)
    s.ask("POST", f"/v1/batches/{b}/cancel")
    wait(s, b)
    s.stop()


def kills():
    """after kills at random moments, no acknowledged record is lost, and each line has one
    answer"""
    n_line, n_kill = (10000, 100) if LONG else (300, 4)
    folder = os.path.join(TMP, "store")
    options = ("--store", folder, "--max-body-size", "64")
    lines = [line(i, max_tokens=2) for i in range(n_line)]
    s = Server(*options)
    file = upload(s, "".join(lines))
    batch = create(s, file)
    files = [file]
    for i in range(n_kill):
        time.sleep(rng.random() * (0.5 if LONG else 0.15))
        files.append(upload(s, f"text {i}\n"))
        s.process.kill()
        s.process.wait()
        s = Server(*options)
        listed = {f["id"] for f in s.ask("GET", "/v1/files")[2]["data"]}
        check(set(files) <= listed, "an acknowledged file is lost")
        check(s.ask("GET", f"/v1/files/{files[-1]}/content")[2] == f"text {i}\n".encode(), "another content")
    b = wait(s, batch, 1800 if LONG else 120)
    check(b["status"] == "completed" and b["request_counts"]["completed"] == n_line, b)
    rows = content(s, b["output_file_id"])
    check([r["custom_id"] for r in rows] == [f"line {i}" for i in range(n_line)], "each line has one answer")
    check(texts(rows) == answers_of_command(lines), "other answers")
    s.stop()
    s = Server(*options)
    check(state(s, batch) == b and len(content(s, b["output_file_id"])) == n_line, "after a stop")
    s.stop()


def owners():
    """a key cannot read another key's records, by known, guessed or permuted ids"""
    keys = os.path.join(TMP, "keys")
    with open(keys, "w") as f:
        f.write("sk-one name=one\nsk-two name=two\n")
    folder = os.path.join(TMP, "owners")
    s = Server("--api-key-file", keys, "--store", folder, "--disable-access-log")
    one, two = ({"Authorization": f"Bearer sk-{k}"} for k in ("one", "two"))
    s.headers = one
    file = upload(s, line(1))
    b = wait(s, create(s, file))
    response = s.ask("POST", "/v1/responses", {"input": "hi", "max_output_tokens": 2})[2]["id"]
    conversation = s.ask("POST", "/v1/conversations", {})[2]["id"]
    ask = {"requests": [{"custom_id": "a", "params": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}}]}
    messages = s.ask("POST", "/v1/messages/batches", ask)[2]["id"]
    known = [file, b["id"], b["output_file_id"], response, conversation, messages]
    c = http.client.HTTPConnection("127.0.0.1", s.port)

    def ask(method, path, headers):
        c.request(method, path, headers=headers)
        r = c.getresponse()
        r.read()
        return r.status

    def paths(i):
        return [("GET", f"/v1/files/{i}"), ("GET", f"/v1/files/{i}/content"), ("GET", f"/v1/batches/{i}"), ("DELETE", f"/v1/files/{i}"),
                ("POST", f"/v1/batches/{i}/cancel"), ("GET", f"/v1/responses/{i}"), ("DELETE", f"/v1/responses/{i}"),
                ("GET", f"/v1/messages/batches/{i}"), ("GET", f"/v1/messages/batches/{i}/results"), ("DELETE", f"/v1/messages/batches/{i}"),
                ("POST", f"/v1/messages/batches/{i}/cancel"), ("GET", f"/v1/conversations/{i}"), ("DELETE", f"/v1/conversations/{i}"), ("GET", f"/v1/conversations/{i}/items")]
    for i in known:
        for method, path in paths(i):
            check(ask(method, path, two) == 404, (method, path))
    for who, answer in ((two, []), (one, [b["id"]])):
        status, _, listed = s.ask("GET", "/v1/batches", headers=who)
        check(status == 200 and [x["id"] for x in listed["data"]] == answer, listed)
    check(s.ask("GET", "/v1/files", headers=two)[2]["data"] == [], "files of another key")
    body = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    check(s.ask("POST", "/v1/batches", body, two)[0] == 400, "another key's file")
    n = 0
    while n < (100000 if LONG else 600):
        i = rng.choice(known)
        head, digits = i[:-32], i[-32:]
        how = rng.randrange(3)
        if how == 0:
            digits = "".join(rng.sample(digits, 32))
        elif how == 1:
            k = rng.randrange(32)
            digits = digits[:k] + rng.choice("0123456789abcdef") + digits[k + 1:]
        else:
            digits = f"{rng.getrandbits(128):032x}"
        for method, path in paths(head + digits):
            check(head + digits in known or ask(method, path, rng.choice((one, two))) == 404, (method, path))
            n += 1
    # a key keeps its records under another name, also in another order of keys
    s.stop()
    with open(keys, "w") as f:
        f.write("sk-two name=one\nsk-one name=other\n")
    s = Server("--api-key-file", keys, "--store", folder)
    check(s.ask("GET", "/v1/files/" + file, headers=two)[0] == 404 and s.ask("GET", "/v1/files/" + file, headers=one)[0] == 200)
    s.stop()


def turns():
    """batches of several keys take turns; batches of one key are answered one after the other"""
    keys = os.path.join(TMP, "turns")
    with open(keys, "w") as f:
        f.write("sk-one\nsk-two\n")
    s = Server("--api-key-file", keys)
    one, two = ({"Authorization": f"Bearer sk-{k}"} for k in ("one", "two"))
    s.headers = one
    large = create(s, upload(s, "".join(line(i, max_tokens=50, ignore_eos=True) for i in range(1500))))
    later = create(s, upload(s, line(1)))
    s.headers = two
    small = wait(s, create(s, upload(s, "".join(line(i) for i in range(5)))))
    check(small["status"] == "completed", small)
    s.headers = one
    check(state(s, large)["status"] == "in_progress" and state(s, later)["status"] == "validating", "the small batch waited")
    s.ask("POST", f"/v1/batches/{large}/cancel")
    check(wait(s, later)["status"] == "completed" and state(s, large)["status"] == "cancelled", "the later batch")
    s.stop()


def several_models():
    """lines select models, which are loaded in turn; an unknown model is an error of the line"""
    path = os.path.join(TMP, "models.ini")
    with open(path, "w") as f:
        f.write("version = 1\n[*]\nmax-model-len = 256\nmemory-limit = 150M\n")
        f.writelines(f"[{name}]\nmodel = {MODEL}\n" for name in ("one", "two"))
    s = Server("--models-preset", path, "--memory-limit", "320M", "--models-max", "1", model=None)
    names = ["one", "one", "two", "one", "none", "two"]
    b = wait(s, create(s, upload(s, "".join(line(i, model=m) for i, m in enumerate(names)))))
    check(b["status"] == "completed" and b["request_counts"] == {"total": 6, "completed": 5, "failed": 1}, b)
    rows = content(s, b["output_file_id"])
    check([r["response"]["body"]["model"] for r in rows] == [m for m in names if m != "none"], rows)
    check(texts(rows) == answers_of_command([line(i) for i in (0, 1, 2, 3, 5)]), "other answers")
    error = content(s, b["error_file_id"])[0]
    check(error["response"]["status_code"] == 404 and error["response"]["body"]["error"]["param"] == "model", error)
    s.stop()


def quota():
    """a record that does not fit is rejected, and the store continues to work"""
    s = Server("--store-size", "1", "--max-body-size", "4")
    body, kind = form([("purpose", None, b"batch"), ("file", "a", b"x" * 1500000)])
    status, _, answer = s.ask("POST", "/v1/files", body, kind)
    check(status == 400 and "--store-size" in answer["error"]["message"], answer)
    files = [upload(s, "x" * 300000) for _ in range(3)]
    body, kind = form([("purpose", None, b"batch"), ("file", "a", b"x" * 300000)])
    check(s.ask("POST", "/v1/files", body, kind)[0] == 400, "the store is full")
    # a batch whose answers do not fit fails by name
    b = wait(s, create(s, upload(s, "".join(line(i, max_tokens=1) for i in range(300)))))
    check(b["status"] == "failed" and b["errors"]["data"][0]["code"] == "store_full", b)
    check(s.ask("DELETE", "/v1/files/" + files[0])[2]["deleted"], "delete")
    check(upload(s, "x" * 200000), "room after a deletion")
    s.stop()
    s = Server("--store-size", "0")
    body, kind = form([("purpose", None, b"batch"), ("file", "a", b"{}")])
    check(s.ask("POST", "/v1/files", body, kind)[0] == 400 and s.ask("GET", "/v1/batches")[0] == 400, "nothing is stored")
    s.stop()


def client(environment, packages, script):
    """Run a program of a client's package. Return the reason if the package is missing."""
    python, why = python_with(environment, packages)
    if not python:
        return why
    r = subprocess.run([python, os.path.join(HERE, script), main.url], capture_output=True, text=True, timeout=480)
    check(r.returncode == 0, (r.stdout + r.stderr)[-1200:])


def openai_client():
    """the official openai client: every method of files and batches, right and wrong"""
    return client("openai-for-tests", {"openai": "openai", "jsonschema": "jsonschema"}, "batches_client.py")


def anthropic_client():
    """the official anthropic client: every method of message batches, right and wrong"""
    return client("anthropic-for-tests", {"anthropic": "anthropic"}, "batches_anthropic.py")


def stop():
    """the server stops on a signal"""
    main.stop()


run([same_as_command, endpoints, invalid_lines, bad_forms, ends, yields, kills, owners, turns, several_models, quota, openai_client, anthropic_client, stop])
