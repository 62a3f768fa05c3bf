#!/usr/bin/env python3
"""Goal: OpenAI's clients use the Responses API of quoth serve unchanged, also in their errors. Method:
raw requests check events and rejections. responses_client.py is a program of the official package.
It validates every response and event against OpenAI's description of the API."""
import json
import os
import shutil
import subprocess

from server import Server, TMP, check, first_server, run
from venv_for import python_with

ASK = {"max_output_tokens": 40, "temperature": 0, "input": "What is 47 + 38?"}
TOOL = {"type": "function", "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"]}}

main = first_server("--served-model-name", "quoth-tiny", "--max-body-size", "1")


def keys_file():
    path = os.path.join(TMP, "keys")
    with open(path, "w") as f:
        f.write("sk-one name=one\nsk-two name=two\n")
    return path


def events(body):
    """Return the events of a stream."""
    status, headers, text = main.ask("POST", "/v1/responses", {**ASK, "stream": True, **body})
    check(status == 200 and headers["Content-Type"] == "text/event-stream", text)
    out = []
    for event in text.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        out.append(json.loads(data[6:]))
        check(name == "event: " + out[-1]["type"] and out[-1]["sequence_number"] == len(out) - 1, event)
    return out


def event_names():
    """events have the names and the order of OpenAI's events"""
    got = events({})
    names = [e["type"].removeprefix("response.") for e in got]
    n = names.count("output_text.delta")
    check(n > 0 and names == ["created", "in_progress", "output_item.added", "content_part.added", *["output_text.delta"] * n,
                              "output_text.done", "content_part.done", "output_item.done", "completed"], names)
    first, last = got[0]["response"], got[-1]["response"]
    check(first["status"] == "in_progress" and first["output"] == [] and "usage" not in first, first)
    check(last["status"] == "completed" and last["usage"]["output_tokens"] >= n, last)
    check({k: v for k, v in first.items() if k not in ("status", "output", "completed_at")}.items() <= last.items(), "other members")
    whole = main.ask("POST", "/v1/responses", ASK)[2]
    check("".join(e.get("delta", "") for e in got) == whole["output"][0]["content"][0]["text"] == "47 + 38 = 85", whole)


def event_items():
    """a stream with reasoning and a call has its items in order"""
    got = events({"chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 5, "tools": [TOOL],
                  "tool_choice": "required", "max_output_tokens": 80})
    added = [e["item"]["type"] for e in got if e["type"] == "response.output_item.added"]
    check(added == ["reasoning", "function_call"], got)
    deltas = [(e["output_index"], e["type"]) for e in got if "delta" in e]
    check(deltas == sorted(deltas) and set(deltas) == {(0, "response.reasoning_text.delta"),
                                                       (1, "response.function_call_arguments.delta")}, deltas)
    call = [e for e in got if e["type"] == "response.function_call_arguments.done"][0]
    check(json.loads(call["arguments"]) == {"city": "Paris"} and call["name"] == "get_weather", call)
    check(got[-1]["response"]["output"][1]["call_id"].startswith("call_"), got[-1])


def rejections():
    """rejections have OpenAI's form, with the client's field as param"""
    def failed(body, status, param, word=""):
        got, _, answer = main.ask("POST", "/v1/responses", body)
        e = answer["error"]
        check(got == status and e["param"] == param and word in e["message"], (got, answer))
    failed({**ASK, "input": "x" * 1200000}, 413, None)
    failed({**ASK, "model": "nosuch"}, 404, "model")
    failed({}, 400, "input")
    failed({**ASK, "tools": [{"type": "web_search"}]}, 400, "tools", "web_search")
    failed({**ASK, "text": {"format": {"type": "xml"}}}, 400, "text", "text.format.type")
    failed({**ASK, "input": "word " * 20000}, 400, "input")
    check(main.ask("POST", "/v1/responses", {**ASK, "input": "word " * 20000})[2]["error"]["code"] == "context_length_exceeded")


def openai_client():
    """the official openai client: every method, complete and streamed; errors are its exceptions"""
    python, why = python_with("openai-for-tests", {"openai": "openai", "jsonschema": "jsonschema"})
    if not python:
        return why
    keyed = Server("--api-key-file", keys_file(), "--served-model-name", "quoth-tiny")
    one = Server("--served-model-name", "quoth-tiny")
    try:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "responses_client.py")
        r = subprocess.run([python, script, one.url, keyed.url], capture_output=True, text=True, timeout=480)
        check(r.returncode == 0, (r.stdout + r.stderr)[-1200:])
        print("     " + r.stdout.strip())
    finally:
        keyed.stop()
        one.stop()


def post(server, **body):
    status, _, answer = server.ask("POST", "/v1/responses", {**ASK, **body})
    check(status == 200, answer)
    return answer


def chain_in_a_folder():
    """responses in a folder survive a kill, and a chain of turns takes memory for each turn once"""
    folder = os.path.join(TMP, "store")
    s = Server("--store", folder, "--max-model-len", "1024")
    r = post(s, input="x" * 800, truncation="auto", max_output_tokens=1)
    turns, before = [r], 0
    for i in range(40):
        if i == 20:
            s.process.kill()
            s.process.wait()
            before = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
            s = Server("--store", folder, "--max-model-len", "1024")
        r = post(s, input="y" * 800, previous_response_id=r["id"], truncation="auto", max_output_tokens=1)
        turns.append(r)
    for i, t in enumerate(turns):
        check(s.ask("GET", "/v1/responses/" + t["id"])[2] == t, "another response")
        items = s.ask("GET", f"/v1/responses/{t['id']}/input_items?limit=100&order=asc")[2]["data"]
        texts = [x["content"][0]["text"] for x in items if x["role"] == "user"]
        check(texts == ["x" * 800] + ["y" * 800] * i, "the input of a turn")
    check(s.ask("DELETE", "/v1/responses/" + turns[3]["id"])[0] == 200)
    check(s.ask("GET", "/v1/responses/" + turns[3]["id"])[0] == 404)
    post(s, input="z", previous_response_id=turns[4]["id"], truncation="auto", max_output_tokens=1)
    s.stop()
    size = os.path.getsize(os.path.join(folder, "quoth.db"))
    check(before > 0 and size < 300000, size)
    # repeat the test with a conversation
    shutil.rmtree(folder)
    s = Server("--store", folder, "--max-model-len", "1024")
    conversation = s.ask("POST", "/v1/conversations", {})[2]["id"]
    turns = [post(s, input="y" * 800, conversation=conversation, truncation="auto", max_output_tokens=1) for _ in range(40)]
    for i in (0, 1, 20, 39):
        check(s.ask("GET", "/v1/responses/" + turns[i]["id"])[2] == turns[i], "another response")
        items = s.ask("GET", f"/v1/responses/{turns[i]['id']}/input_items?limit=100&order=asc")[2]["data"]
        check([x["role"] for x in items] == ["user", "assistant"] * i + ["user"], items)
    s.stop()
    size = os.path.getsize(os.path.join(folder, "quoth.db"))
    check(size < 350000, size)


def references():
    """references to stored items have limits of bytes and of comparisons"""
    s = Server("--store", os.path.join(TMP, "references"), "--max-model-len", "1024")

    def refer(items, which, count):
        r = post(s, input=[{"role": "user", "content": c} for c in items + ["hi"]], truncation="auto", max_output_tokens=1)
        listed = s.ask("GET", f"/v1/responses/{r['id']}/input_items?limit=100&order=desc")[2]["data"]
        body = {"items": [{"type": "item_reference", "id": listed[which]["id"]}] * count}
        status, _, answer = s.ask("POST", "/v1/conversations", body)
        return status, answer

    check(refer(["x" * 1000], 1, 3)[0] == 200)
    status, answer = refer(["x" * 1000000], 1, 40)
    check(status == 400 and "referenced items of more than" in answer["error"]["message"], answer)
    status, answer = refer(["x"] * 5000, 1, 1000)
    check(status == 400 and "comparisons of ids" in answer["error"]["message"], answer)
    # a page of a conversation of many items, and items that are found, read and removed
    c = s.ask("POST", "/v1/conversations", {"items": [{"role": "user", "content": f'a,"{i}'} for i in range(3000)]})[2]["id"]
    first = s.ask("GET", f"/v1/conversations/{c}/items?limit=2&order=asc")[2]
    check([x["content"][0]["text"] for x in first["data"]] == ['a,"0', 'a,"1'] and first["has_more"], first)
    check(first["first_id"] == first["data"][0]["id"] and first["last_id"] == first["data"][1]["id"], first)
    path = f"/v1/conversations/{c}/items"
    next = s.ask("GET", f"{path}?limit=1&order=asc&after={first['last_id']}")[2]
    back = s.ask("GET", f"{path}?limit=100&order=desc&after={next['first_id']}")[2]
    check(next["data"][0]["content"][0]["text"] == 'a,"2' and back["data"] == first["data"][::-1] and not back["has_more"], back)
    check(s.ask("GET", f"{path}/{first['last_id']}")[2] == first["data"][1])
    check(s.ask("DELETE", f"{path}/{first['last_id']}")[0] == 200 and s.ask("GET", f"{path}/{first['last_id']}")[0] == 404)
    check(s.ask("GET", f"{path}?limit=1&order=asc&after={first['first_id']}")[2]["data"] == next["data"])
    s.stop()


def stop():
    """the server stops on a signal"""
    main.stop()


run([event_names, event_items, rejections, openai_client, chain_in_a_folder, references, stop])
