#!/usr/bin/env python3
"""Goal: clients of Text Generation Inference work with quoth serve unchanged, also in their errors.
Method: the answers of /generate, /generate_stream and POST / are compared with those of OpenAI's
completions, whole and in events, and rejections with TGI's form."""
import json

from server import check, first_server, run

ASK = "The cat"
main = first_server("--served-model-name", "quoth-tiny", "--max-body-size", "1")


def failed(answer, status, kind, word=""):
    """Check a rejection in TGI's form."""
    got, headers, body = answer
    check(got == status and list(body) == ["error", "error_type"], (got, body))
    check(body["error_type"] == kind and word in body["error"], body)
    check(headers["Content-Type"] == "application/json", str(headers))


def generate(parameters, path="/generate"):
    """Return a whole answer."""
    status, _, body = main.ask("POST", path, {"inputs": ASK, "parameters": parameters})
    check(status == 200, body)
    return body


def events(parameters, path="/generate_stream"):
    """Return the events of a stream."""
    status, headers, text = main.ask("POST", path, {"inputs": ASK, "parameters": parameters, "stream": True})
    check(status == 200 and headers["Content-Type"].startswith("text/event-stream"), text)
    frames = text.decode().split("\n\n")
    check(frames.pop() == "" and all(f.startswith("data:") for f in frames), text)
    return [json.loads(f[5:]) for f in frames]


def completion(**fields):
    """Return a choice of OpenAI's completions for the same prompt."""
    return main.ask("POST", "/v1/completions", {"prompt": ASK, "logprobs": 1, "include_stop_str_in_output": True, **fields})[2]["choices"][0]


def texts():
    """texts and probabilities are those of completions, greedy without parameters of sampling"""
    for given, fields in (({}, {"temperature": 0, "max_tokens": 100}), ({"max_new_tokens": 7}, {"temperature": 0, "max_tokens": 7}),
                          ({"temperature": 0.7, "seed": 5, "max_new_tokens": 9},
                           {"temperature": 0.7, "seed": 5, "max_tokens": 9, "top_p": 1, "top_k": 0}),
                          ({"do_sample": True, "seed": 6, "top_k": 4, "max_new_tokens": 9},
                           {"temperature": 1, "seed": 6, "max_tokens": 9, "top_p": 1, "top_k": 4}),
                          ({"stop": ["e"], "max_new_tokens": 30}, {"temperature": 0, "stop": ["e"], "max_tokens": 30}),
                          ({"truncate": 1, "max_new_tokens": 5}, {"temperature": 0, "truncate_prompt_tokens": 1, "max_tokens": 5}),
                          ({"best_of": 3, "do_sample": True, "seed": 2, "max_new_tokens": 5},
                           {"temperature": 1, "best_of": 3, "seed": 2, "max_tokens": 5, "top_p": 1, "top_k": 0})):
        got, want = generate({**given, "details": True}), completion(**fields)
        details = got["details"]
        check(got["generated_text"] == want["text"] == "".join(t["text"] for t in details["tokens"]), (given, got, want))
        check([t["logprob"] for t in details["tokens"]] == want["logprobs"]["token_logprobs"], (given, details, want))
        reason = "length" if want["finish_reason"] == "length" else "stop_sequence" if "stop" in given else "eos_token"
        check(details["finish_reason"] == reason and details["seed"] == given.get("seed"), (given, details, want["finish_reason"]))
        n = len(details["tokens"]) + (reason == "eos_token")  # the end token is also counted
        check(details["generated_tokens"] == n, (given, details))
    check(list(generate({})) == ["generated_text"])
    check(generate({"return_full_text": True, "max_new_tokens": 3})["generated_text"].startswith(ASK))


def detail_lists():
    """details contain the prompt's tokens and the most likely tokens on request"""
    d = generate({"details": True, "decoder_input_details": True, "top_n_tokens": 2, "max_new_tokens": 4})["details"]
    check("".join(t["text"] for t in d["prefill"]) == ASK and d["prefill"][0]["logprob"] is None and d["prefill"][1]["logprob"] < 0, d)
    check([len(t) for t in d["top_tokens"]] == [2] * 4 and [t[0]["id"] for t in d["top_tokens"]] == [t["id"] for t in d["tokens"]], d)


def stream():
    """a stream has an event per token; the last event has the whole text"""
    for given in ({"max_new_tokens": 6}, {"stop": ["e"], "max_new_tokens": 30}, {"do_sample": True, "seed": 3, "max_new_tokens": 100},
                  {"top_n_tokens": 1, "max_new_tokens": 2}):
        got, whole = events(given), generate({**given, "details": True})
        tokens = [e["token"] for e in got if e["token"]["logprob"] is not None]
        check(tokens == whole["details"]["tokens"], (got, whole))
        check([e["index"] for e in got] == list(range(1, len(got) + 1)), got)
        check(all(e["generated_text"] is None and e["details"] is None for e in got[:-1]), got)
        check(got[-1]["generated_text"] == whole["generated_text"], (got[-1], whole))
        check(got[-1]["details"]["finish_reason"] == whole["details"]["finish_reason"] and got[-1]["details"]["input_length"] == 2, got[-1])
        check(len(got) == len(tokens) + (whole["details"]["finish_reason"] == "eos_token"), got)
        check(("top_tokens" in got[0]) == ("top_n_tokens" in given), got[0])


def root():
    """POST / answers with a list, or with a stream on request; /generate never streams"""
    check(generate({"max_new_tokens": 3}, "/") == [generate({"max_new_tokens": 3})])
    check(events({"max_new_tokens": 3}, "/") == events({"max_new_tokens": 3}))
    got = main.ask("POST", "/generate", {"inputs": ASK, "stream": True, "parameters": {"max_new_tokens": 3}})
    check(got[2] == generate({"max_new_tokens": 3}), got)


def grammars():
    """a grammar constrains the text"""
    text = generate({"grammar": {"type": "regex", "value": "[0-9]{3}x"}})["generated_text"]
    check(len(text) == 4 and text[:3].isdigit() and text[3] == "x", text)
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    for grammar in ({"type": "json", "value": schema}, {"type": "json_schema", "value": {"name": "n", "schema": schema}}):
        check(json.loads(generate({"grammar": grammar})["generated_text"])["a"] in (1, 2), grammar)


def rejections():
    """rejections have TGI's form and the client's names"""
    for body, word in (({}, "inputs: expected a string"), ({"inputs": 3}, "inputs: expected a string, got an integer"),
                       ({"inputs": ASK, "parameters": []}, "parameters: expected an object")):
        failed(main.ask("POST", "/generate", body), 400, "validation", word)
    for given, word in (({"temperature": -1}, "temperature: must be in"), ({"max_new_tokens": "x"}, "max_new_tokens: expected an integer"),
                        ({"details": 3}, "details: expected true or false"), ({"top_n_tokens": 9}, "top_n_tokens: must be in [0, 5], got 9"),
                        ({"watermark": True}, "watermark: not supported yet"), ({"best_of": 2}, "best_of: needs do_sample"),
                        ({"truncate": 0}, "truncate: must be"), ({"stop": 3}, "stop"), ({"grammar": 3}, "grammar: expected an object"),
                        ({"grammar": {"type": "regex", "value": "a", "vale": 1}}, "grammar.vale: unknown member; available: type, value"),
                        ({"grammar": {"type": "x"}}, "grammar.type: must be json, json_schema or regex"),
                        ({"grammar": {"type": "regex", "value": "("}}, "grammar.value: "),
                        ({"grammar": {"type": "json", "value": 1}}, "grammar.value: expected an object"),
                        ({"grammar": {"type": "json", "value": {"type": "nosuch"}}}, "grammar.value")):
        failed(main.ask("POST", "/generate", {"inputs": ASK, "parameters": given}), 400, "validation", "parameters." + word)
    for given in ({"best_of": 2, "do_sample": True}, {"decoder_input_details": True}):
        failed(main.ask("POST", "/generate_stream", {"inputs": ASK, "parameters": given}), 400, "validation", "stream")
    failed(main.ask("POST", "/generate", {"inputs": ASK, "parameters": {"adapter_id": "nosuch"}}), 404, "validation", "parameters.adapter_id")
    failed(main.ask("POST", "/generate", {"inputs": "x " * 40000}), 400, "validation", "inputs")
    failed(main.ask("POST", "/generate", {"inputs": "x" * 1200000}), 413, "validation", "bytes")
    failed(main.ask("POST", "/generate", "{"), 400, "validation", "JSON")


def info():
    """/info has the model's name and limits"""
    got = main.ask("GET", "/info")[2]
    check(got["model_id"] == "quoth-tiny" and got["max_total_tokens"] == got["max_input_tokens"] + 1 > 1000, got)


def stop():
    """the server stops on a signal"""
    main.stop()


run([texts, detail_lists, stream, root, grammars, rejections, info, stop])
