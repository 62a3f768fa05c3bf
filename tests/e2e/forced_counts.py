#!/usr/bin/env python3
"""Goal: forced calls in the form of every published template are calls of known functions with
valid arguments, and the template can print them again. Answers of constrained requests parse and
validate. Forced tokens save steps. Method: serve the bundled model with each template of
../shared/data, and the bundled model and random weights with schemas of ../shared/data. The last
lines of the output are the counts. Environment: QUOTH the program, QUOTH_DATA the real data,
QUOTH_LONG=1 for all stated counts. PART=I/N selects every N-th template, from the I-th. COUNTS=N
sets the number of generations, FROM=K their first seed, VARIANTS=A,B their variants. Arguments
select tests by their names."""
import atexit
import collections
import concurrent.futures
import decimal
import json
import os
import random
import re
import string

import server as rig
from server import DATA, FEW, LONG, TMP, check, first_server, run, Server

decimal.DefaultContext.prec = 2400  # digits of numbers such as 1e999, in every thread
rig.PATIENCE = 10  # a busy machine must not cause failures of this test

TEMPLATES = os.path.join(DATA, "chat", "templates-and-cases", "templates")
BFCL = os.path.join(DATA, "chat", "tool-schemas", "BFCL_v4_simple_python.json")
REAL = os.path.join(DATA, "json", "maskbench_half.jsonl")
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
tiny = first_server("--threads", "1")


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
        return {"type": "string", "enum": ["".join(rng.choice(string.ascii_letters + ' "<\n') for _ in range(rng.randrange(1, 8))) for _ in range(3)]}
    if kind == 5:
        return {"type": "array", "items": random_schema(rng, depth + 1), "maxItems": rng.randrange(1, 3)}
    return random_object(rng, depth + 1)


def random_object(rng, depth=0):
    names = rng.sample(["a", "city", "n_2", "of-x", "on", "list", "the.day"], rng.randrange(1, 4))
    return {"type": "object", "properties": {name: {**random_schema(rng, depth), "description": name} for name in names},
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


def check_call(call, schemas):
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    check(name in schemas and holds(schemas[name], arguments), (name, arguments, schemas))


def forced_once(server, tools, choice, seed, counts, **more):
    """Force one answer and rerender it. Count the result by its kind, and its calls."""
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in tools}
    named = {"tool_choice": {"type": "function", "function": {"name": tools[-1]["function"]["name"]}}}
    asked = {"messages": ASK, "tools": tools, "tool_choice": "required", "parallel_tool_calls": choice == "parallel", "seed": seed,
             "temperature": seed % 3, "max_tokens": 400, **more, **(named if choice == "named" else {})}
    status, _, got = server.ask("POST", "/v1/chat/completions", asked)
    if status == 400 and got["error"]["message"].startswith("template line"):  # Command R: a nested object without additional members
        counts["refused, the template does not render a nested object of these tools"] += 1
        return
    check(status == 200, f"{status} {got} to {asked}")
    message, finish = got["choices"][0]["message"], got["choices"][0]["finish_reason"]
    check(finish in ("tool_calls", "length"), got)
    calls = message.get("tool_calls") or []
    if finish == "length":  # all calls except the last are complete
        for call in calls[:-1]:
            check_call(call, schemas)
        counts["calls before a truncation"] += len(calls[:-1])
        place = (f"in call {len(calls) if len(calls) < 3 else '3 or later'}" if calls else
                 "in the reasoning" if message.get("reasoning_content") else "before a call")
        counts[f"truncated at 400 tokens {place}, {choice}"] += 1
        return
    check(calls and not message["content"] and (choice == "parallel" or len(calls) == 1), got)
    for call in calls:
        check_call(call, schemas)
    counts["calls"] += len(calls)
    talk = ASK + [{**message, "content": message["content"] or ""}] + [
        {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": "ok"} for call in calls]
    status, _, got = server.ask("POST", "/apply-template", {"messages": talk, "tools": tools})
    if status == 400 and len(calls) > 1:  # some templates print only one call
        counts["ended, but the template prints one call only"] += 1
        return
    check(status == 200, f"{status} {got} to {talk}")
    prompt = got["prompt"]
    check(all(call["function"]["name"] in prompt for call in calls), prompt)
    counts["ended"] += 1


# Texts of custom tools, with the characters that the families escape or exclude.
PATTERNS = ["[a-c]{1,6}", '[0-9"\\\\]{1,5}', "x[ \\n\\t]y?", "</?[a-z]{1,3}>", "[\u00e9\u4e16\U0001f600']{1,3}"]
LARK = 'start: e\ne: "(" e ")" | /[a-z"\\\\\\n]{0,4}/'


def custom_once(server, seed, counts, **more):
    """Force a call of a custom tool. The call's text must belong to the grammar."""
    lark = seed % (len(PATTERNS) + 1) == len(PATTERNS)
    pattern = r'(\(*)[a-z"\\\n]{0,4}(\)*)' if lark else PATTERNS[seed % (len(PATTERNS) + 1)]
    grammar = {"syntax": "lark", "definition": LARK} if lark else {"syntax": "regex", "definition": pattern}
    tools = [{"type": "custom", "custom": {"name": "f3", "description": "", "format": {"type": "grammar", "grammar": grammar}}}]
    asked = {"messages": ASK, "tools": tools, "tool_choice": {"type": "custom", "custom": {"name": "f3"}}, "seed": seed, "temperature": seed % 3,
             "max_tokens": 400, **more}
    status, _, got = server.ask("POST", "/v1/chat/completions", asked)
    check(status == 200, f"{status} {got} to {asked}")
    message, finish = got["choices"][0]["message"], got["choices"][0]["finish_reason"]
    if finish == "length":
        counts["custom tool, truncated at 400 tokens"] += 1
        return
    call, = message["tool_calls"]
    match = re.fullmatch(pattern, call["custom"]["input"])
    check(call["type"] == "custom" and match and (not lark or len(match[1]) == len(match[2])), f"{call} of {grammar}")
    talk = ASK + [{**message, "content": message["content"] or ""}, {"role": "tool", "tool_call_id": call["id"], "name": "f3", "content": "ok"}]
    status, _, got = server.ask("POST", "/apply-template", {"messages": talk, "tools": tools})
    check(status == 200 and "f3" in got["prompt"], f"{status} {got} to {talk}")
    counts["custom tool, ended"] += 1


def templates():
    """every template: required, by name, and several calls, with random schemas"""
    if not os.path.isdir(TEMPLATES):
        return "no ../shared/data"
    n_template, left_out, counts = 0, [], collections.Counter()
    part, n_part = (int(n) for n in os.environ.get("PART", "0/1").split("/"))
    files = sorted(f for f in os.listdir(TEMPLATES) if f.endswith(".jinja"))
    for i, name in enumerate(files if LONG else files[::16 if FEW else 8]):
        if i % n_part != part:
            continue
        rng = random.Random(i)
        server = Server("--threads", "1", "--load-format", "dummy", "--max-model-len", "16384", "--chat-template", os.path.join(TEMPLATES, name), model=random_weights())
        tools = [{"type": "function", "function": {"name": n, "description": "", "parameters": random_object(rng)}} for n in ("get_weather", "f2")]
        status, _, got = server.ask("POST", "/v1/chat/completions", {"messages": ASK, "tools": tools, "max_tokens": 1})
        if status == 400 and "tools" in got["error"]["message"] + str(got["error"]["param"]):
            left_out.append(name)
            server.stop()
            continue
        n_template += 1
        # random weights do not end their reasoning by themselves
        limit = {"thinking_token_budget": 16}
        status, _, got = server.ask("POST", "/v1/chat/completions", {"messages": ASK, "max_tokens": 1, **limit})
        check(status == 200 or got["error"]["param"] == "thinking_token_budget", got)
        limit = limit if status == 200 else {}
        one = collections.Counter()
        for choice in ("required", "named", "parallel"):
            for seed in range(20 if LONG else 2):
                for t in tools:
                    t["function"]["parameters"] = random_object(rng)
                forced_once(server, tools, choice, seed, one, **limit)
        for seed in range(18 if LONG else 6):
            custom_once(server, seed, one, **limit)
        server.stop()
        counts += one
        print(f"# {name}: " + "; ".join(f"{kind}: {n}" for kind, n in sorted(one.items())), flush=True)
    print(f"# {n_template} templates; without tools or parser: {len(left_out)}; "
          + "; ".join(f"{kind}: {n}" for kind, n in sorted(counts.items())), flush=True)
    n_ended = counts["ended"] + counts["ended, but the template prints one call only"]
    check(n_ended > n_template, (n_ended, n_template))


# Variants of the generations: the model, streamed or not, reasoning or not.
VARIANTS = [f"{model}-{form}-{reasoning}" for model in ("tiny", "random") for form in ("whole", "streamed") for reasoning in ("plain", "reasoning")]
BUDGET = 40  # tokens of reasoning, because models without training do not end it


def choices_of(data):
    """Return {index: (content, reasoning, finish_reason)} of a stream."""
    got = collections.defaultdict(lambda: ["", "", None])
    lines = [line[6:] for line in data.decode().split("\n") if line.startswith("data: ")]
    check(lines and lines[-1] == "[DONE]", f"the stream ended with {lines[-1:]}")
    for line in lines[:-1]:
        frame = json.loads(line)
        check("error" not in frame, frame)
        for c in frame["choices"]:
            one = got[c["index"]]
            one[0] += c["delta"].get("content") or ""
            one[1] += c["delta"].get("reasoning_content") or ""
            one[2] = c["finish_reason"] or one[2]
    return {i: tuple(one) for i, one in got.items()}


def generate(server, asked):
    """Return the choices of an answer. None if its schema is rejected."""
    status, _, got = server.ask("POST", "/v1/chat/completions", asked)
    if status == 400:
        check(got["error"]["param"] == "guided_json", got)
        return None
    check(status == 200, got)
    if asked["stream"]:
        return choices_of(got)
    return {c["index"]: (c["message"]["content"] or "", c["message"].get("reasoning_content") or "", c["finish_reason"]) for c in got["choices"]}


def judge(jsonschema, schema, text, finish):
    """Return the kind of an answer, for the counts. An answer that ended must be valid."""
    if finish == "length":
        blank = len(text) > 100 and not text[-100:].strip()
        outside = re.sub(r"\\.", "", text).count('"') % 2 == 0  # of a JSON string
        return ("ran on in white space" if outside else "truncated in the white space of a string") if blank else "truncated"
    check(finish == "stop", finish)
    value = json.loads(text, parse_float=decimal.Decimal)
    exact = json.loads(json.dumps(schema), parse_float=decimal.Decimal)
    try:
        jsonschema.validators.validator_for(exact)(exact).validate(value)
    except (jsonschema.exceptions.RefResolutionError, jsonschema.exceptions.SchemaError, RecursionError):
        return "ended, parsed, its schema cannot be judged"
    return "ended and valid"


def generations():
    """completed answers to real schemas are valid JSON, from the bundled model and random
    weights"""
    if not os.path.exists(REAL):
        return "no ../shared/data"
    try:
        import jsonschema
    except ImportError:
        return "no jsonschema"
    template = os.path.join(TEMPLATES, "Qwen-Qwen3-0.6B.jinja")
    noise = Server("--threads", "1", "--load-format", "dummy", "--chat-template", template, "--max-model-len", "4096", model=random_weights())
    with open(REAL, encoding="utf-8") as f:
        schemas = [json.loads(line)["doc"]["schema"] for line in f if line.strip()]
    want, first = int(os.environ.get("COUNTS", 20000 if LONG else 40 if FEW else 200)), int(os.environ.get("FROM", 0))
    variants = os.environ.get("VARIANTS", ",".join(VARIANTS)).split(",")
    rng, counts, refused, left = random.Random(first), collections.defaultdict(collections.Counter), 0, want

    def one(seed, schema, variant, temperature):
        model, form, reasoning = variant.split("-")
        asked = {"messages": ASK, "guided_json": json.dumps(schema), "temperature": temperature, "seed": seed, "n": 4, "max_tokens": 200,
                 "stream": form == "streamed", "chat_template_kwargs": {"enable_thinking": reasoning == "reasoning"}}
        if reasoning == "reasoning":
            asked["thinking_token_budget"] = BUDGET
        got = generate(tiny if model == "tiny" else noise, asked)
        for text, thoughts, finish in (got or {}).values():
            check(reasoning == "reasoning" or not thoughts, f"reasoning without a request: {thoughts}")
            kind = judge(jsonschema, schema, text, finish)
            counts[variant][kind + (", after reasoning" if thoughts else "")] += 1
        return got

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        seed = first
        while left > 0:
            chunk = []
            for _ in range(min(24, (left + 3) // 4)):
                chunk.append(pool.submit(one, seed, rng.choice(schemas), rng.choice(variants), rng.choice((0, 0.2, 0.7, 1, 2))))
                seed += 1
            for f in chunk:
                got = f.result()
                refused += got is None
                left -= len(got or {})
            if seed % 480 < 24:
                print(f"# {want - left} generations, seeds {first} to {seed - 1}", flush=True)
    noise.stop()
    total = sum(counts.values(), collections.Counter())
    for variant in variants:
        print(f"# {variant}: " + "; ".join(f"{kind}: {n}" for kind, n in sorted(counts[variant].items())), flush=True)
    print(f"# {want - left} generations, seeds {first} to {seed - 1}, {refused} requests refused: "
          + "; ".join(f"{kind}: {n}" for kind, n in sorted(total.items())), flush=True)
    check(not any("ran on" in kind for kind in total) and any("valid" in kind for kind in total), total)


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


atexit.register(tiny.terminate)
run([templates, generations, steps])
