#!/usr/bin/env python3
"""Goal: an answer satisfies its constraint with any sampling parameters and in any form. A
constraint that cannot be enforced is rejected. The answer to a request without a constraint does
not change. Method: generate with the bundled model and a model of random weights at temperatures 0
to 2, streamed and whole. Answers that were not truncated are parsed and matched. The jsonschema
package validates these answers if it is available. Schemas are handwritten, or real schemas from
../shared/data. Environment: QUOTH the program, QUOTH_ROOT the repository, QUOTH_DATA the real data,
QUOTH_LONG=1: more real data."""
import json
import os
import re
import subprocess
import threading

from server import DATA, FEW, LONG, TMP, check, first_server, run, Server
from venv_for import python_with

REAL = os.path.join(DATA, "json", "maskbench_half.jsonl")
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
          "required": ["name", "age"], "additionalProperties": False}
OWN = [PERSON, {"enum": ["a", 5, None, {"b": [True]}]}, {"type": "string", "pattern": "^[A-F]{2}-[0-9]{3}$"},
       {"type": "array", "items": {"type": "number", "multipleOf": 0.5, "minimum": -2, "maximum": 2}, "minItems": 1, "maxItems": 4},
       {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"v": {"type": "boolean"}, "next": {"$ref": "#/$defs/n"}},
                                             "required": ["v"], "additionalProperties": False}}},
       {"anyOf": [{"type": "object", "properties": {"k": {"const": "x"}}, "required": ["k"], "additionalProperties": False},
                  {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "minItems": 2, "items": False}]}]
TALK = [{"role": "user", "content": "Tell me about a person as JSON."}]
tiny = first_server()
random_folder = os.path.join(TMP, "random")
os.makedirs(random_folder)
with open(os.path.join(random_folder, "config.json"), "w", encoding="utf-8") as f:
    json.dump({"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
               "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 400, "max_position_embeddings": 1024, "rms_norm_eps": 1e-06,
               "rope_theta": 10000.0, "tie_word_embeddings": True}, f)
noise = Server("--load-format", "dummy", model=random_folder)
to_validate = []  # (schema, text) of answers that were not truncated


def body(chat, **more):
    return {**({"messages": TALK} if chat else {"prompt": "Once upon a time"}), "max_tokens": 160, "seed": 1, **more}


def ask(server, chat=True, **more):
    """Return the choices of an answer: (text, finish_reason) each."""
    status, _, got = server.ask("POST", "/v1/chat/completions" if chat else "/v1/completions", body(chat, **more))
    check(status == 200, f"{status} {got} to {more}")
    return [(c["message"]["content"] if chat else c["text"], c["finish_reason"]) for c in got["choices"]]


def ask_stream(server, chat=True, **more):
    status, _, got = server.ask("POST", "/v1/chat/completions" if chat else "/v1/completions", body(chat, stream=True, **more))
    check(status == 200, f"{status} {got} to {more}")
    text, finish = {}, {}
    for line in got.decode().split("\n"):
        if not line.startswith("data: {"):
            continue
        for c in json.loads(line[6:])["choices"]:
            i = c["index"]
            text[i] = text.get(i, "") + ((c["delta"].get("content") or "") if chat else c["text"])
            finish[i] = c["finish_reason"] or finish.get(i)
    return [(text[i], finish[i]) for i in sorted(text)]


def refused(field, status=400, chat=True, says="", server=tiny, **more):
    got_status, _, got = server.ask("POST", "/v1/chat/completions" if chat else "/v1/completions", body(chat, **more))
    check(got_status == status and got["error"]["param"] == field and says in got["error"]["message"], f"{got_status} to {more}: {got}")


def same_streamed(server, chat, **more):
    whole = ask(server, chat, **more)
    check(ask_stream(server, chat, **more) == whole, f"streamed otherwise: {whole} {more}")
    return whole


def holds(answers, judge, least_ended=0):
    """Check the answers that were not truncated. Truncated answers must have the finish reason
    "length"."""
    n = 0
    for text, finish in answers:
        check(finish in ("stop", "length"), finish)
        if finish == "stop":
            n += 1
            check(judge(text), f"it ended with {text!r}")
    check(n >= least_ended, f"{n} of {answers} ended")
    return n


def is_json(schema):
    def judge(text):
        json.loads(text)
        to_validate.append((schema, text))
        return True
    return judge


def every_field():
    """every field of a constraint, in both endpoints, whole and streamed"""
    def among(text):
        return text in ("yes", "no, never")
    choice, regex, gbnf = ["yes", "no, never"], "[A-Z][a-z]{2,8}: (one|[0-9]{1,4})", 'root ::= "(" [a-c]{1,5} ("," root)? ")"'

    tag = {"type": "tag", "begin": "<n>", "content": {"type": "regex", "pattern": "[0-9]{2}"}, "end": "</n>"}
    old = {"structures": [{"begin": "<n>", "schema": {"enum": [7]}, "end": "</n>"}], "triggers": ["<n>"]}

    def tagged(text):
        return re.fullmatch("<n>[0-9]{2}</n>", text)

    def triggered(text):
        return text.count("<n>") == len(re.findall(r"<n>\s*7\s*</n>", text))
    lark = 'start: "yes" | REST // not GBNF: ::=\nREST: /no, never/'

    def matches(text):
        return re.fullmatch(regex, text)

    def balanced(text):
        return re.fullmatch(r"(\([a-c]{1,5},)*\([a-c]{1,5}\)+", text) and text.count("(") == text.count(")")
    named = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    anything = is_json({"type": "object"})
    for chat in (True, False):
        for temperature in (0, 1, 2):
            for field, judge, least in (({"response_format": {"type": "json_object"}}, anything, 0), ({"response_format": named}, is_json(PERSON), 1),
                                        ({"response_format": {"type": "json_object", "schema": PERSON}}, is_json(PERSON), 1),
                                        ({"response_format": {"type": "json_object", "value": PERSON}}, is_json(PERSON), 1),
                                        ({"structured_outputs": {"json": PERSON}}, is_json(PERSON), 1),
                                        ({"structured_outputs": {"json": json.dumps(PERSON), "disable_any_whitespace": True}},
                                         lambda t: is_json(PERSON)(t) and not re.search(r"\s", re.sub(r'"(\\.|[^"\\])*"', "", t)), 1),
                                        ({"structured_outputs": {"json_object": True}}, anything, 0),
                                        ({"structured_outputs": {"regex": regex}}, matches, 1), ({"structured_outputs": {"choice": choice}}, among, 1),
                                        ({"structured_outputs": {"grammar": gbnf}}, balanced, 0),
                                        ({"structured_outputs": {"grammar": lark}}, among, 1),
                                        ({"structured_outputs": {"structural_tag": json.dumps(tag)}}, tagged, 1),
                                        ({"response_format": {"type": "structural_tag", "format": tag}}, tagged, 1),
                                        ({"response_format": {"type": "structural_tag", **old}}, triggered, 0), ({"guided_json": PERSON}, is_json(PERSON), 1),
                                        ({"guided_regex": regex}, matches, 1), ({"guided_choice": choice}, among, 1),
                                        ({"guided_grammar": gbnf}, balanced, 0), ({"json_schema": PERSON}, is_json(PERSON), 1),
                                        ({"grammar": gbnf}, balanced, 0), ({"ebnf": gbnf}, balanced, 0),
                                        ({"regex": regex}, matches, 1), ({"structural_tag": json.dumps(tag)}, tagged, 1)):
                holds(same_streamed(tiny, chat, temperature=temperature, **field), judge, least if temperature else 0)


def white_space():
    """whitespace_pattern: the white space at each place between two tokens of JSON matches it"""
    n = 0
    for pattern, between in (("", ""), (" ", " "), ("\\n", "\n"), ("[ ]{2}|\\t", "(?:  |\t)")):
        want = re.compile('{%s"name"%s:%s"[^"]*"%s,%s"age"%s:%s[0-9]+%s}'.replace("%s", between))
        for old in (False, True):
            more = ({"guided_json": PERSON, "guided_whitespace_pattern": pattern} if old
                    else {"structured_outputs": {"json": PERSON, "whitespace_pattern": pattern}})
            n += holds(same_streamed(tiny, True, **more), want.fullmatch)
    check(n > 2, f"{n} ended")


def random_weights():
    """random weights are constrained, too"""
    n = 0
    for seed in range(4 if FEW else 12):
        for schema in OWN:
            n += holds(ask(noise, False, n=2, seed=seed, temperature=seed % 3, max_tokens=200, guided_json=schema), is_json(schema))
    check(n > 5, f"only {n} ended")


def schemas():
    """schemas at temperatures 0 to 2: answers that are not truncated can be parsed"""
    n, asked = 0, 0
    for i, schema in enumerate(OWN):
        for temperature in (0, 0.7, 1, 2):
            asked += 2
            n += holds(same_streamed(tiny, i % 2 == 0, n=2, temperature=temperature, structured_outputs={"json": schema}), is_json(schema))
    check(2 * n > asked, f"{n} of {asked} ended")


def real_schemas():
    """schemas of real programs"""
    if not os.path.exists(REAL):
        return "no ../shared/data"
    with open(REAL, encoding="utf-8") as f:
        lines = f.read().splitlines()
    lines = lines if LONG and not FEW else lines[::120 if FEW else 30]
    n, n_refused = 0, 0
    for i, line in enumerate(lines):
        schema = json.loads(line)["doc"]["schema"]
        for server in (tiny, noise):
            status, _, got = server.ask("POST", "/v1/completions", body(False, temperature=i % 3, max_tokens=300, guided_json=schema))
            if status == 400:
                check(got["error"]["param"] == "guided_json" and len(got["error"]["message"]) > 20, got)
                n_refused += 1
                continue
            check(status == 200, got)
            n += holds([(c["text"], c["finish_reason"]) for c in got["choices"]], is_json(schema))
    check(n > 0 and n_refused < len(lines) / 2, f"{n} ended, {n_refused} were refused, of {2 * len(lines)}")


def validated():
    """answers that ended are valid (the jsonschema package)"""
    python, why = python_with("structured-venv", {"jsonschema": "jsonschema"})
    if not python:
        return why
    judge = """
import json, sys, jsonschema
for line in sys.stdin:
    schema, text = json.loads(line)
    v = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(schema)
    for e in v.iter_errors(json.loads(text)):
        print(text[:200], "against", json.dumps(schema)[:200], ":", e.message[:200])
"""
    lines = "".join(json.dumps(one) + "\n" for one in to_validate)
    r = subprocess.run([python, "-c", judge], input=lines, capture_output=True, text=True, timeout=300)
    check(r.returncode == 0 and not r.stdout and to_validate, (r.stdout + r.stderr)[-600:] or "nothing ended")


def sampled():
    """n, best_of, beams, log probabilities, stop, min_tokens, other limits of tokens"""
    regex = "(alpha|beta|gamma) [0-9]{2,5}"

    def judge(text):
        return re.fullmatch(regex, text)
    for chat in (True, False):
        more = {"guided_regex": regex, "temperature": 1}
        check(holds(same_streamed(tiny, chat, n=4, **more), judge) == 4, "four end")
        check(holds(ask(tiny, chat, n=2, best_of=5, **more), judge) == 2, "the best two end")
        check(holds(ask(tiny, chat, n=3, use_beam_search=True, guided_regex=regex), judge) > 0, "beams end")
        check(holds(ask(tiny, chat, logprobs=True if chat else 3, **more), judge) == 1, "with logprobs")
        check(holds(ask(tiny, chat, top_k=3, min_p=0.1, repetition_penalty=1.3, presence_penalty=1, **more), judge) == 1, "with penalties")
        check(holds(ask(tiny, chat, min_tokens=100, **more), judge) == 1, "a complete text ends whatever min_tokens says")
        (text, finish), = ask(tiny, chat, stop=[" "], **more)
        check(finish == "stop" and text in ("alpha", "beta", "gamma"), text)
        (text, finish), = ask(tiny, chat, max_tokens=1, **more)
        check(finish == "length" and not judge(text), (text, finish))
    prompts = ["Once", "The", "A"]
    got = ask(tiny, False, prompt=prompts, n=2, guided_regex=regex)
    check(len(got) == 6 and holds(got, judge) == 6, got)


FORCED = {"type": "object", "properties": {"a little girl named": {"type": "boolean"}, "once upon a time there": {"type": "integer"},
                                           "kind": {"enum": ["in the forest there was a cat", "in the garden there was a dog"]}},
          "required": ["a little girl named", "once upon a time there", "kind"], "additionalProperties": False}


def jump_forward():
    """forced tokens are the same with and without runs of the model, in fewer steps"""
    slow = Server("--no-jump-forward")
    held = {"structured_outputs": {"json": FORCED, "disable_any_whitespace": True}, "return_token_ids": True, "max_tokens": 120}
    steps = {tiny: 0, slow: 0}

    def answer(server, chat, more):
        before = server.metric("quoth:steps_total")
        status, _, got = server.ask("POST", "/v1/chat/completions" if chat else "/v1/completions", body(chat, **{**held, **more}))
        check(status == 200, got)
        steps[server] += server.metric("quoth:steps_total") - before
        return got["choices"], got["usage"]["completion_tokens"]
    for chat in (True, False):
        for more in ({"temperature": 0}, {"temperature": 1}, {"temperature": 1, "seed": 2}, {"n": 3, "temperature": 1.5},
                     {"n": 2, "best_of": 4, "temperature": 1}, {"n": 2, "use_beam_search": True, "temperature": 0},
                     {"temperature": 1, "logprobs": True if chat else 2}, {"stop": ["once upon a"]}, {"stop": ["girl"], "n": 2},
                     {"max_tokens": 9}, {"top_k": 3, "repetition_penalty": 1.4, "frequency_penalty": 1}, {"mirostat": 2, "temperature": 1},
                     {"min_tokens": 40, "temperature": 1}, {"logit_bias": {"5": -100}, "temperature": 1}, {"bad_words": [" girl", "upon"]},
                     {"structured_outputs": {"regex": "(one|two) was in the forest, and the cat was in the garden"}}):
            n_before = dict(steps)
            fast, full = answer(tiny, chat, more), answer(slow, chat, more)
            check(fast == full, f"{more}: {fast} with jump-forward, {full} without")
            if more in ({"temperature": 0}, {"temperature": 1}) or "structured_outputs" in more:
                n_fast, n_full = steps[tiny] - n_before[tiny], steps[slow] - n_before[slow]
                check(2 * n_fast < n_full and n_full >= fast[1] - 1, f"{n_fast} steps with jump-forward, {n_full} without, {fast[1]} tokens")
    slow.stop()


def neighbours():
    """requests without a constraint have the same bits next to constrained requests"""
    free = {"max_tokens": 60, "temperature": 1, "logprobs": 1}
    alone = [ask(tiny, False, seed=s, **free) for s in range(4)]
    got, failures = [None] * 12, []

    def one(i):
        try:
            got[i] = (ask(tiny, False, seed=i // 3, **free) if i % 3 == 0 else
                      ask(tiny, False, seed=i, temperature=1, max_tokens=100, guided_json=OWN[i % len(OWN)]))
        except Exception as e:
            failures.append(e)
    for _ in range(3):
        threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check(not failures, failures)
        check([got[3 * s] for s in range(4)] == alone, "other bits")


def refusals():
    """unsupported or repeated constraints are rejected by field and place"""
    bad = {"type": "object", "properties": {"a": {"type": "strin"}}}
    tag = {"type": "tag", "begin": "<n>", "content": {"type": "regex", "pattern": "[0-9]{2}"}, "end": "</n>"}
    for chat in (True, False):
        refused("response_format", chat=chat, says=".json_schema.schema: ", response_format={"type": "json_schema", "json_schema": {"schema": bad}})
        refused("response_format", chat=chat, says=".json_schema.schema: expected",
                response_format={"type": "json_schema", "json_schema": {"name": "a"}})
        refused("response_format", chat=chat, says=".json_schema", response_format={"type": "json_schema"})
        refused("response_format", chat=chat, says=".strict", response_format={"type": "json_schema", "json_schema": {"schema": {}, "strict": "x"}})
        refused("response_format", chat=chat, says=".type", response_format={"type": "xml"})
        refused("response_format", chat=chat, says="value: schema: #/properties/a", response_format={"type": "json_object", "value": bad})
        refused("response_format", chat=chat, says=".json_schema: unknown member", response_format={"type": "json_object", "json_schema": {}})
        refused("response_format", chat=chat, says=".schema: unknown member", response_format={"type": "text", "schema": PERSON})
        refused("structured_outputs", chat=chat, says=".jsn: unknown member", structured_outputs={"jsn": PERSON})
        refused("response_format", chat=chat, says="structural tag", response_format={"type": "structural_tag", "structures": []})
        refused("guided_json", chat=chat, says="/properties/a", guided_json=bad)
        refused("guided_json", chat=chat, guided_json="{")
        refused("guided_json", chat=chat, says="64 bits", guided_json={"maximum": 18446744073709551616})
        refused("guided_regex", chat=chat, says="byte", guided_regex="a(?=b)")
        refused("guided_regex", chat=chat, guided_regex=["a"])
        refused("guided_choice", chat=chat, says="[1]", guided_choice=["a", 5])
        refused("guided_grammar", chat=chat, says="line 2", guided_grammar='root ::= "a"\nb ::= (')
        refused("grammar", chat=chat, grammar="x ::= y")
        refused("grammar", chat=chat, says="not defined: Y", grammar="start: Y")
        refused("json_schema", chat=chat, json_schema=["a"])
        refused("regex", chat=chat, says="guided_choice", guided_choice=["a"], regex="a")
        refused("guided_whitespace_pattern", chat=chat, guided_regex="a", guided_whitespace_pattern=" ")
        refused("guided_whitespace_pattern", chat=chat, guided_json={}, guided_whitespace_pattern=3)
        refused("guided_json", chat=chat, says="white space", guided_json={}, guided_whitespace_pattern="x+")
        refused("structured_outputs", chat=chat, says="got 2", structured_outputs={"regex": "a", "choice": ["a"]})
        for field, value in (("structured_outputs", {}), ("guided_choice", []), ("guided_grammar", ""), ("guided_json", ""),
                             ("guided_json", False), ("json_schema", ""), ("json_schema", False), ("ebnf", ""), ("structural_tag", {}),
                             ("structural_tag", ""), ("structural_tag", False), ("guided_regex", False), ("guided_choice", "")):
            refused(field, chat=chat, **{field: value})
        refused("structured_outputs", chat=chat, says="got 0", structured_outputs={"disable_any_whitespace": True})
        refused("structured_outputs", chat=chat, says=".structural_tag", structured_outputs={"structural_tag": "{}"})
        refused("structured_outputs", chat=chat, says=".structural_tag: expected", structured_outputs={"structural_tag": ["{}"]})
        refused("structured_outputs", chat=chat, says="#/content: ", structured_outputs={
            "structural_tag": {"type": "tag", "begin": "a", "content": {"type": "json_schema", "json_schema": {"type": 3}}, "end": "c"}})
        refused("structured_outputs", chat=chat, says="got 2", structured_outputs={"structural_tag": tag, "regex": "a"})
        refused("structured_outputs", chat=chat, says="white space", structured_outputs={"json": {}, "whitespace_pattern": "x"})
        refused("structured_outputs", chat=chat, says=".whitespace_pattern", structured_outputs={"regex": "a", "whitespace_pattern": " "})
        refused("structured_outputs", chat=chat, says=".whitespace_pattern",
                structured_outputs={"json": {}, "disable_any_whitespace": True, "whitespace_pattern": " "})
        refused("structured_outputs", chat=chat, says=".regex: ", structured_outputs={"regex": "("})
        refused("structured_outputs", chat=chat, says="object", structured_outputs="a")
        refused("guided_regex", chat=chat, says="response_format", guided_regex="a", response_format={"type": "json_object"})
        refused("grammar", chat=chat, says="guided_json", guided_json={}, grammar='root ::= "a"')
        refused("ignore_eos", chat=chat, guided_regex="a", ignore_eos=True)
        refused("guided_regex", chat=chat, says="more than", guided_regex="a" * (5 << 20))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    refused("guided_regex", says="tools", guided_regex="a", tools=[tool])
    ask(tiny, guided_regex="a", tools=[tool], tool_choice="none")
    for nothing in ({"guided_json": None}, {"guided_regex": None}, {"structured_outputs": None}, {"grammar": ""}, {"response_format": {"type": "text"}}):
        check(ask(tiny, temperature=0, **nothing) == ask(tiny, temperature=0), nothing)
    for empty in ({"guided_regex": ""}, {"regex": ""}, {"structured_outputs": {"regex": ""}}):
        check([text for text, _ in ask(tiny, **empty)] == [""], empty)


WORDS = {"role": "user", "content": "Who are you?"}


def thoughts(server, **more):
    """Return (reasoning, content, finish, token ids) of the choices, and the number of tokens."""
    status, _, got = server.ask("POST", "/v1/chat/completions", {
        "messages": [WORDS], "max_tokens": 80, "seed": 1, "temperature": 1, "return_token_ids": True,
        "chat_template_kwargs": {"enable_thinking": True}, **more})
    check(status == 200, f"{status} {got} to {more}")
    return [(c["message"].get("reasoning_content") or "", c["message"]["content"] or "", c["finish_reason"], c["token_ids"])
            for c in got["choices"]], got["usage"]["completion_tokens"]


def streamed_thoughts(server, **more):
    status, _, got = server.ask("POST", "/v1/chat/completions", {
        "messages": [WORDS], "max_tokens": 80, "seed": 1, "temperature": 1, "stream": True,
        "chat_template_kwargs": {"enable_thinking": True}, **more})
    check(status == 200, got)
    out = {}
    for line in got.decode().split("\n"):
        for c in json.loads(line[6:])["choices"] if line.startswith("data: {") else []:
            one = out.setdefault(c["index"], ["", "", None])
            one[0] += c["delta"].get("reasoning_content") or ""
            one[1] += c["delta"].get("content") or ""
            one[2] = c["finish_reason"] or one[2]
    return [tuple(out[i]) for i in sorted(out)]


def budgets():
    """thinking_token_budget: reasoning ends at its budget, with the same tokens in every serving mode"""
    cases = [{}, {"n": 3}, {"temperature": 0}, {"n": 2, "best_of": 4}, {"logprobs": True, "top_logprobs": 2}, {"guided_regex": "[0-9]{3}", "n": 2},
             {"response_format": {"type": "json_schema", "json_schema": {"schema": PERSON}}}, {"ignore_eos": True, "max_tokens": 30},
             {"min_tokens": 20}, {"repetition_penalty": 1.3, "top_k": 9}, {"n": 2, "use_beam_search": True, "temperature": 0}]
    free, _ = thoughts(tiny)
    check(thoughts(tiny, thinking_token_budget=10000)[0] == free and thoughts(tiny, thinking_token_budget=-1)[0] == free, "a budget of 10000")
    want = {}
    for i, more in enumerate(cases):
        for budget in (0, 1, 4, 9):
            got, n_token = want[i, budget] = thoughts(tiny, thinking_token_budget=budget, **more)
            for reasoning, content, finish, ids in got:
                # a word of this model's reasoning is at most one token longer than a budget of its tokens allows
                check(len(reasoning.split()) <= budget + 1 and (budget or not reasoning) and finish in ("stop", "length"), (budget, more, got))
                check("guided_regex" not in more or re.fullmatch("[0-9]{3}", content), content)
                if "response_format" in more and finish == "stop":
                    to_validate.append((PERSON, content))
            check("best_of" in more or "use_beam_search" in more or n_token >= sum(len(ids) for *_, ids in got), (n_token, got))
            if "best_of" not in more and "use_beam_search" not in more:
                check(streamed_thoughts(tiny, thinking_token_budget=budget, **more) == [one[:3] for one in got], (budget, more))
    modes = [Server(*options) for options in (("--no-jump-forward",), ("--no-enable-prefix-caching", "--max-num-batched-tokens", "16"),
                                              ("--num-gpu-blocks-override", "12", "--max-num-seqs", "6"), ("--threads", "1"))]
    for server in modes:
        crowd = [threading.Thread(target=lambda i=i: thoughts(server, seed=50 + i, n=2, thinking_token_budget=i)) for i in range(3)]
        for t in crowd:
            t.start()
        for (i, budget), answer in want.items():
            check(thoughts(server, thinking_token_budget=budget, **cases[i]) == answer, (server.text()[:300], cases[i], budget))
        for t in crowd:
            t.join()
        server.stop()
    status, _, got = tiny.ask("POST", "/v1/completions", {"prompt": ["a <think> b", "c </think> d"], "max_tokens": 20, "seed": 2, "ignore_eos": True,
                                                          "thinking_token_budget": 3})
    check(status == 200 and "</think>" in got["choices"][0]["text"] and "</think>" not in got["choices"][1]["text"], got)
    refused("thinking_token_budget", chat=False, thinking_token_budget=3, guided_regex="a")
    refused("thinking_token_budget", says="--reasoning-parser", server=noise, thinking_token_budget=3, chat=False)
    refused("thinking_token_budget", says="integer", thinking_token_budget=1.5)
    refused("reasoning_budget_tokens", reasoning_budget_tokens="x")


def in_reasoning():
    """enable_in_reasoning: a constraint applies from the first token, for every prompt"""
    server = Server("--structured-outputs-config", '{"enable_in_reasoning": true}')
    (reasoning, content, finish, _), = thoughts(server, guided_regex="hm{1,3}</think>[0-9]{2}")[0]
    check(re.fullmatch("hm{1,3}", reasoning) and re.fullmatch("[0-9]{2}", content) and finish == "stop", (reasoning, content))
    check(streamed_thoughts(server, guided_regex="hm{1,3}</think>[0-9]{2}") == [(reasoning, content, finish)])
    (reasoning, content, finish, _), = thoughts(server, guided_choice=["yes"])[0]
    check((reasoning, content, finish) == ("yes", "", "stop"), (reasoning, content))
    check(thoughts(server)[0] == thoughts(tiny)[0], "an answer without a constraint")
    refused("thinking_token_budget", server=server, thinking_token_budget=3, guided_regex="a")
    server.stop()


def stays():
    """the server has its former resources, and no constraint remains"""
    before = tiny.still()
    for seed in range(10 if FEW else 40):
        ask(tiny, seed=seed, guided_json=OWN[seed % len(OWN)])
    after = tiny.still()
    check(after[0] == before[0] and after[1] < before[1] + 30000, f"{before} {after}")
    noise.stop()
    tiny.stop()


run([every_field, white_space, random_weights, schemas, real_schemas, budgets, in_reasoning, validated, sampled, jump_forward, neighbours, refusals, stays])
