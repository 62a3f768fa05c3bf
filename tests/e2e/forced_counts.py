#!/usr/bin/env python3
"""Goal: forced calls in the form of every published template are calls of known functions with
valid arguments, and the template can print them again. Answers of constrained requests parse and
validate. Forced tokens save steps. Method: serve the bundled model with each template of
../shared/data, and the bundled model and random weights with schemas of ../shared/data. The last
lines of output are the counts. Environment: QUOTH the program, QUOTH_DATA the real data,
QUOTH_LONG=1: all stated counts; COUNTS=N: N generations."""
import decimal
import json
import os
import random
import re
import string

from server import DATA, FEW, LONG, TMP, check, first_server, run, Server

TEMPLATES = os.path.join(DATA, "chat", "templates-and-cases", "templates")
BFCL = os.path.join(DATA, "chat", "tool-schemas", "BFCL_v4_simple_python.json")
REAL = os.path.join(DATA, "json", "maskbench_half.jsonl")
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
tiny = first_server()


def random_weights():
    """Return the folder of a model for --load-format dummy."""
    folder = os.path.join(TMP, "random")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                   "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 400, "max_position_embeddings": 16384, "rms_norm_eps": 1e-06,
                   "rope_theta": 10000.0, "tie_word_embeddings": True}, f)
    return folder


def random_schema(rng, depth=0):
    """Return a schema of a value with at most a few tokens."""
    kind = rng.randrange(8 if depth < 2 else 5)
    if kind < 2:
        return {"type": "string", "maxLength": rng.randrange(1, 9)}
    if kind == 2:
        low = rng.randrange(-50, 50)
        return {"type": "integer", "minimum": low, "maximum": low + rng.randrange(1, 100)}
    if kind == 3:
        return {"type": rng.choice(["boolean", "null"])}
    if kind == 4:
        return {"type": "string", "enum": ["".join(rng.choice(string.ascii_letters + ' "<') for _ in range(rng.randrange(1, 8))) for _ in range(3)]}
    if kind == 5:
        return {"type": "array", "items": random_schema(rng, depth + 1), "maxItems": rng.randrange(1, 3)}
    return random_object(rng, depth + 1)


def random_object(rng, depth=0):
    names = rng.sample(["a", "city", "n_2", "of-x", "on", "list", "the.day"], rng.randrange(1, 4))
    return {"type": "object", "properties": {name: random_schema(rng, depth) for name in names},
            "required": [name for name in names if rng.random() < 0.6], "additionalProperties": False}


def holds(schema, value):
    """Return true if a value matches one of the schemas that random_schema makes."""
    if "enum" in schema:
        return value in schema["enum"]
    if schema["type"] == "object":
        known = schema["properties"]
        return (isinstance(value, dict) and all(name in value for name in schema["required"])
                and all(name in known and holds(known[name], v) for name, v in value.items()))
    if schema["type"] == "array":
        return isinstance(value, list) and len(value) <= schema["maxItems"] and all(holds(schema["items"], v) for v in value)
    if schema["type"] == "integer":
        return isinstance(value, int) and not isinstance(value, bool) and schema["minimum"] <= value <= schema["maximum"]
    if schema["type"] == "string":
        return isinstance(value, str) and len(value) <= schema["maxLength"]
    return value is None if schema["type"] == "null" else isinstance(value, bool)


def forced_once(server, tools, choice, seed):
    """Return the number of calls of one forced answer that ended; 0 if max_tokens truncated it."""
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in tools}
    more = {"named": {"tool_choice": {"type": "function", "function": {"name": tools[-1]["function"]["name"]}}}}
    asked = {"messages": ASK, "tools": tools, "tool_choice": "required", "parallel_tool_calls": choice == "parallel", "seed": seed,
             "temperature": seed % 3, "max_tokens": 400, **more.get(choice, {})}
    status, _, got = server.ask("POST", "/v1/chat/completions", asked)
    if status == 400 and got["error"]["message"].startswith("template line"):  # Command R: a nested object without additional members
        return 0
    check(status == 200, f"{status} {got} to {asked}")
    message, finish = got["choices"][0]["message"], got["choices"][0]["finish_reason"]
    check(finish in ("tool_calls", "length"), got)
    if finish == "length":
        return 0
    calls = message["tool_calls"]
    check(calls and not message["content"] and (choice == "parallel" or len(calls) == 1), got)
    for call in calls:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        check(name in schemas and holds(schemas[name], arguments), (name, arguments, schemas))
    talk = ASK + [{**message, "content": message["content"] or ""}] + [
        {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": "ok"} for call in calls]
    status, _, got = server.ask("POST", "/apply-template", {"messages": talk, "tools": tools})
    if status == 400 and len(calls) > 1:  # some templates print only one call
        return len(calls)
    check(status == 200, f"{status} {got} to {talk}")
    prompt = got["prompt"]
    check(all(call["function"]["name"] in prompt for call in calls), prompt)
    return len(calls)


def templates():
    """every template: required, by name, and several calls, with random schemas"""
    if not os.path.isdir(TEMPLATES):
        return "no ../shared/data"
    rng, n_template, n_answer, n_call, left_out = random.Random(5), 0, 0, 0, []
    files = sorted(f for f in os.listdir(TEMPLATES) if f.endswith(".jinja"))
    for name in files if LONG else files[::16 if FEW else 8]:
        server = Server("--load-format", "dummy", "--max-model-len", "16384", "--chat-template", os.path.join(TEMPLATES, name), model=random_weights())
        tools = [{"type": "function", "function": {"name": n, "description": "", "parameters": random_object(rng)}} for n in ("get_weather", "f2")]
        status, _, got = server.ask("POST", "/v1/chat/completions", {"messages": ASK, "tools": tools, "max_tokens": 1})
        if status == 400 and "tools" in got["error"]["message"] + str(got["error"]["param"]):
            left_out.append(name)
            server.stop()
            continue
        n_template += 1
        for choice in ("required", "named", "parallel"):
            for seed in range(20 if LONG else 2):
                for t in tools:
                    t["function"]["parameters"] = random_object(rng)
                n = forced_once(server, tools, choice, seed)
                n_answer += n > 0
                n_call += n
        server.stop()
    print(f"# {n_template} templates, {n_answer} answers that ended, {n_call} calls; without tools or parser: {len(left_out)}", flush=True)
    check(n_answer > n_template, (n_answer, n_template))


def generations():
    """answers to real schemas that ended are valid JSON, from the bundled model and random weights"""
    if not os.path.exists(REAL):
        return "no ../shared/data"
    try:
        import jsonschema
    except ImportError:
        return "no jsonschema"
    noise = Server("--load-format", "dummy", model=random_weights())
    with open(REAL, encoding="utf-8") as f:
        schemas = [json.loads(line)["doc"]["schema"] for line in f if line.strip()]
    want = int(os.environ.get("COUNTS", 20000 if LONG else 40 if FEW else 200))
    rng, n, n_ended, n_refused, n_blank = random.Random(9), 0, 0, 0, 0
    while n < want:
        schema, server = rng.choice(schemas), rng.choice((tiny, noise))
        talk = {"messages": ASK} if server is tiny else {"prompt": "Once upon a time"}
        if server is tiny:
            talk["chat_template_kwargs"] = {"enable_thinking": rng.random() < 0.3}
        asked = {**talk, "guided_json": json.dumps(schema), "temperature": rng.choice((0.2, 0.7, 1, 2)), "seed": n, "n": 4, "max_tokens": 200}
        status, _, got = server.ask("POST", "/v1/chat/completions" if server is tiny else "/v1/completions", asked)
        if status == 400:
            check(got["error"]["param"] == "guided_json", got)
            n_refused += 1
            continue
        check(status == 200, got)
        for c in got["choices"]:
            n += 1
            text = (c["message"]["content"] or "") if server is tiny else c["text"]
            outside = re.sub(r"\\.", "", text).count('"') % 2 == 0  # of a JSON string
            n_blank += c["finish_reason"] == "length" and not text[-100:].strip() and len(text) > 100 and outside
            if c["finish_reason"] != "stop":
                continue
            n_ended += 1
            value = json.loads(text, parse_float=decimal.Decimal)
            exact = json.loads(json.dumps(schema), parse_float=decimal.Decimal)
            try:
                jsonschema.validators.validator_for(exact)(exact).validate(value)
            except (jsonschema.exceptions.RefResolutionError, jsonschema.exceptions.SchemaError, RecursionError):
                pass
    noise.stop()
    print(f"# {n} generations, {n_ended} ended and are valid, {n_blank} ran on in white space, {n_refused} requests refused", flush=True)
    check(n_blank == 0 and n_ended > 0, n_blank)


def steps():
    """forced calls of BFCL: at least 30 % fewer steps with jump-forward, and equal answers"""
    if not os.path.exists(BFCL):
        return "no ../shared/data"
    slow = Server("--no-jump-forward")
    with open(BFCL, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f if line.strip()]
    n, n_step = 0, {tiny: 0, slow: 0}
    for i, one in enumerate(lines[::1 if LONG else 80 if FEW else 20]):
        text = json.dumps(one["function"]).replace('"dict"', '"object"').replace('"float"', '"number"').replace('"tuple"', '"array"')
        functions = json.loads(text)
        for f in functions:
            for p in f["parameters"]["properties"].values():  # values of at most about 8 tokens
                if p.get("type") == "string" and "enum" not in p:
                    p["maxLength"] = 12
                if p.get("type") in ("integer", "number") and "enum" not in p:
                    p.update({"minimum": 0, "maximum": 9999})
                if p.get("type") == "number":
                    p["multipleOf"] = 0.01
                if p.get("type") == "array":
                    p["maxItems"] = 2
        asked = {"messages": one["question"][0], "tools": [{"type": "function", "function": f} for f in functions], "tool_choice": "required",
                 "parallel_tool_calls": False, "temperature": i % 2, "seed": i, "max_tokens": 300, "return_token_ids": True}
        got, took = {}, {}
        for server in (tiny, slow):
            before = server.metric("quoth:steps_total")
            status, _, answer = server.ask("POST", "/v1/chat/completions", asked)
            took[server] = server.metric("quoth:steps_total") - before
            got[server] = (status, [(c["token_ids"], c["finish_reason"]) for c in answer["choices"]] if status == 200 else answer["error"]["param"])
        check(got[tiny] == got[slow] and got[tiny][0] in (200, 400), got.values())
        if got[tiny][0] == 200 and got[tiny][1][0][1] == "tool_calls":
            n += 1
            for server in took:
                n_step[server] += took[server]
    slow.stop()
    share = 1 - n_step[tiny] / max(1, n_step[slow])
    print(f"# {n} calls: {n_step[tiny]:.0f} steps with jump-forward, {n_step[slow]:.0f} without: {100 * share:.1f} % fewer", flush=True)
    check(n > 0 and share >= 0.3, (n, share))


run([templates, generations, steps])
tiny.stop()
