#!/usr/bin/env python3
"""Goal: GET /openapi.json is a valid description in OpenAPI 3.1 of every path and field of the
server. Method: check the rules of OpenAPI that concern it, compare it with the tables of the source,
and send requests to its paths. With the package openapi-spec-validator, validate it too."""
import glob
import json
import os
import re

from server import ROOT, check, code_model, first_server, run, serving_model

main = first_server("--served-model-name", "quoth-tiny")
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}


def table(name):
    """Return the text of a table of src/api without its comments."""
    with open(os.path.join(ROOT, "src", "api", name), encoding="utf-8") as f:
        return re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)


def document():
    status, headers, body = main.ask("GET", "/openapi.json")
    check(status == 200 and headers["Content-Type"].startswith("application/json"), (status, body))
    return body


def rules():
    """the document obeys the rules of OpenAPI 3.1"""
    d = document()
    check(re.fullmatch(r"3\.1\.\d+", d["openapi"]) and d["info"]["title"] and d["info"]["version"], d["info"])
    check(set(d) <= {"openapi", "info", "paths", "components", "security", "servers", "tags"}, list(d))
    ids = []
    for path, item in d["paths"].items():
        check(path.startswith("/") and set(item) <= METHODS | {"parameters"}, (path, item))
        named = re.findall(r"{(\w+)}", path)
        declared = [p["name"] for p in item.get("parameters", [])]
        check(named == declared and path.count("{") == len(named), (path, item))
        check(all(p["in"] == "path" and p["required"] and p["schema"] for p in item.get("parameters", [])), item)
        for method in METHODS & set(item):
            check(item[method]["responses"] and all(r["description"] for r in item[method]["responses"].values()), item)
            ids.append(item[method]["operationId"])
    check(len(ids) == len(set(ids)), sorted(i for i in ids if ids.count(i) > 1))
    for ref in re.findall(r'"\$ref": "([^"]*)"', json.dumps(d)):
        at = d
        for part in ref.removeprefix("#/").split("/"):
            check(part in at, ref)
            at = at[part]
    try:
        from openapi_spec_validator import validate
    except ImportError:
        return "openapi-spec-validator not found; own rules hold"
    validate(d)
    return None


def paths():
    """every route is described, and every described path exists"""
    d = document()["paths"]
    wanted = set(re.findall(r'^ROUTE(?:_AS)?\((?:\w+, )?"(\w+)", "([^"]+)"', table("routes.def"), re.M))
    wanted |= {("POST", p) for p in re.findall(r'^DIALECT\("([^"]+)"', table("dialects.def"), re.M)}
    got = {(m.upper(), p) for p, item in d.items() for m in METHODS & set(item)}
    check({(m, p.replace("{}", "{path}")) for m, p in wanted} == got, wanted ^ got)
    for method, path in got:
        if method == "POST" and "{" not in path and "pull" not in path and path not in ("/sleep", "/wake_up"):
            status = main.ask(method, path, {})[0]
            check(status not in (404, 405), path)
            check(path == "/" or main.ask(method, path + "/", {})[0] == status, path + "/")


def fields():
    """bodies have the fields of the tables, with types and ranges of sampling parameters"""
    d = document()["components"]["schemas"]
    letters = {c: n for c, n in re.findall(r"^ENDPOINT\((\w), (\w+),", table("endpoints.def"), re.M)}
    check(set(letters.values()) == set(d), set(d))
    for name, where in re.findall(r"^(?:READ|LATER|IDLE|OTHER_PATH|IF_TRUE|IF_NULL)\((\w+), ([A-Z |]+)[,)]", table("fields.def"), re.M):
        for c in where.split(" | "):
            check(name in d[letters[c]]["properties"], (name, c))
    chat = d["CHAT"]["properties"]
    check(chat["min_p"]["minimum"] == 0 and chat["min_p"]["maximum"] == 1 and chat["min_p"]["type"] == ["number", "null"], chat["min_p"])
    check(chat["top_p"]["exclusiveMinimum"] == 0 and chat["ignore_eos"]["type"] == ["boolean", "null"], chat["top_p"])
    check("no effect" in chat["service_tier"]["description"] and "rejected" in chat["audio"]["description"], chat["audio"])


CHAT = [{"role": "user", "content": "a"}]
GOLDEN = os.path.join(ROOT, "tests", "golden", "encoders")
# a valid body of each schema, by its path
BODIES = {
    "CHAT": ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 1}),
    "TEXT": ("/v1/completions", {"prompt": "a", "max_tokens": 1}),
    "ANTHROPIC": ("/v1/messages", {"model": "quoth-tiny", "messages": CHAT, "max_tokens": 1}),
    "RESPONSES": ("/v1/responses", {"input": "a", "max_output_tokens": 1}),
    "OLLAMA_CHAT": ("/api/chat", {"model": "quoth-tiny", "messages": CHAT, "stream": False, "options": {"num_predict": 1}}),
    "OLLAMA_GENERATE": ("/api/generate", {"model": "quoth-tiny", "prompt": "a", "stream": False, "options": {"num_predict": 1}}),
    "LLAMACPP": ("/completion", {"prompt": "a", "n_predict": 1})}
# valid bodies of schemas of other models, by their paths
RERANKS = [("SCORE", "/score", {"text_1": "a", "text_2": "b"}), ("SCORE", "/rerank", {"query": "a", "documents": ["b"]})]
CLASSES = [("POOL", "/pooling", {"input": "a"})]
EMBEDS = [("EMBED", "/v1/embeddings", {"input": "a"}), ("OLLAMA_EMBED", "/api/embed", {"model": "quoth-tiny", "input": "a"}),
          ("OLLAMA_EMBED", "/api/embeddings", {"model": "quoth-tiny", "prompt": "a"})]
FILLS = [("LLAMACPP_INFILL", "/infill", {"input_prefix": "a", "input_suffix": "b", "n_predict": 1})]
# fields that only the second path of a schema reads
SECOND = {"/rerank": {"query", "top_n", "return_documents"}, "/api/embeddings": {"prompt"}}
FIRST = {"/score": "/rerank", "/api/embed": "/api/embeddings"}
# fields whose values replace another field of the body
REPLACES = {"queries": "text_1", "data_1": "text_1", "documents": "text_2", "items": "text_2", "data_2": "text_2"}
VALUES = {"string": ("a", "a string"), "integer": (1, "an integer"), "number": (1.5, "a number"), "boolean": (True, "a boolean"),
          "array": ([1], "an array"), "object": ({"a": 1}, "an object")}

# values of a listed type that the reader accepts, for fields with few values
VALID = {("function_call", "string"): "none", ("function_call", "object"): {"name": "f"}, ("tool_choice", "string"): "none",
         ("think", "string"): "low", ("keep_alive", "string"): "5m", ("conversation", "object"): {"id": "conv_1"}}
# valid values of required fields
REQUIRED = {"messages": CHAT, "documents": ["b"], "max_tokens": 1, "model": "quoth-tiny"}


def types_of(s, name, path, body):
    """Post each field of a schema with a value of each type. Return the number of bodies."""
    schema, n = document()["components"]["schemas"][name], 0
    check(s.ask("POST", path, body)[0] == 200, path)
    for field, listed in schema["properties"].items():
        if "type" not in listed or field not in SECOND.get(path, {field}) or field in SECOND.get(FIRST.get(path), ()):
            continue
        base = {k: v for k, v in body.items() if path != "/score" or k != REPLACES.get(field)}
        for kind, (value, named) in VALUES.items():
            right = kind in listed["type"] or (kind == "integer" and "number" in listed["type"])
            status, _, got = s.ask("POST", path, {**base, field: VALID.get((field, kind), value)})
            wrong = status == 400 and field in str(got) and re.search(" got |expected|must be|invalid input type", str(got))
            # a listed type may have wrong values, but no error of its type
            check(wrong if not right else not re.search(rf"{field}: expected .* got {named}", str(got)), (path, field, kind, status, got))
            n += 1
    return n


def types():
    """fields reject values of types that the description does not list"""
    d = document()["components"]["schemas"]
    reads = set(re.findall(r"^READ\((\w+),", table("fields.def"), re.M))
    for name, schema in d.items():
        for field, listed in schema["properties"].items():
            check("type" in listed or field not in reads or listed.get("description") or field in UNTYPED, (name, field))
    n = sum(types_of(main, name, path, body) for name, (path, body) in BODIES.items())
    check(n > 2000, n)
    for s, bodies in others():
        n = sum(types_of(s, *row) for row in bodies)
        check(n > 50, n)


def others():
    """Serve a model for each kind of bodies that need another model. Yield server and bodies."""
    with serving_model(os.path.join(GOLDEN, "bert-rerank"), "--served-model-name", "quoth-tiny") as s:
        yield s, RERANKS
    with serving_model(os.path.join(GOLDEN, "distilbert-class"), "--served-model-name", "quoth-tiny") as s:
        yield s, CLASSES
    with serving_model(os.path.join(GOLDEN, "bert"), "--served-model-name", "quoth-tiny") as s:
        yield s, EMBEDS
    with serving_model(code_model()[0], "--served-model-name", "quoth-tiny") as s:
        yield s, FILLS


def required():
    """a body with the required fields is valid, and without one of them it is not"""
    d = document()
    left = {}
    for path, item in d["paths"].items():
        schema = item.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        if "$ref" in schema:
            left[path] = [[name] for name in schema.get("required", [])] + [
                [one for a in some["anyOf"] for one in a["required"]] for some in schema.get("allOf", [])]
    check({p for p in re.findall(r'^DIALECT\("([^"]+)"', table("dialects.def"), re.M)} - set(left) == OWN_LISTS, left)
    check(left["/v1/messages/count_tokens"] == [["messages"]] and ["max_tokens"] in left["/v1/messages"], left)
    check(len(left["/score"]) == 2 and all(left.values()), left)
    for path in [p for p in left if p not in OTHERS]:
        is_required(main, path, left.pop(path))
    for s, bodies in others():
        for path in [p for p in left if OTHERS[p] == bodies[0][1]]:
            is_required(s, path, left.pop(path))
    check(not left, left)


def is_required(s, path, wanted):
    """Post each combination of the alternatives that `wanted` lists, and omit each in turn."""
    for k in range(max(len(names) for names in wanted)):
        body = {names[k % len(names)]: REQUIRED.get(names[k % len(names)], "a") for names in wanted}
        status, _, got = s.ask("POST", path, body)
        check(status == 200, (path, body, status, got))
        for names in wanted:
            status, _, got = s.ask("POST", path, {name: v for name, v in body.items() if name not in names})
            check(status == 400 and names[0] in str(got), (path, names, status, got))


# paths of other models, with the first path of their bodies in others()
OTHERS = {"/score": "/score", "/v1/score": "/score", "/rerank": "/score", "/v1/rerank": "/score", "/v2/rerank": "/score",
          "/classify": "/pooling", "/pooling": "/pooling", "/infill": "/infill"}
# paths of dialects that check their fields by their own lists
OWN_LISTS = {"/", "/generate", "/generate_stream", "/embed", "/predict"}
# fields with one value, or any type
UNTYPED = {"truncation", "guided_whitespace_pattern"}


def tested():
    """each field that a reader uses occurs in a test"""
    names = set(re.findall(r"^READ\((\w+),", table("fields.def"), re.M))
    paths = [p for pattern in ("src/*/*_test.c", "tests/*/*_test.c", "tests/e2e/*.py") for p in glob.glob(os.path.join(ROOT, pattern))]
    found = set()
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as f:
            found.update(word for pair in re.findall(r"""['"](\w+)\\?(?=['"])|\b(\w+)=""", f.read()) for word in pair)
    missing = sorted(names - found)
    check(len(names) > 100 and not missing, missing)


if __name__ == "__main__":
    try:
        run([rules, paths, fields, types, required, tested])
    finally:
        main.terminate()
