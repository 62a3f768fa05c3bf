#!/usr/bin/env python3
"""Goal: GET /openapi.json is a valid description in OpenAPI 3.1 of every path and field of the
server. Method: check the rules of OpenAPI that concern it, compare it with the tables of the source,
and send requests to its paths. With the package openapi-spec-validator, validate it too."""
import glob
import json
import os
import re

from server import ROOT, check, first_server, run

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
# a valid body of each schema, by its path
BODIES = {
    "CHAT": ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 1}),
    "TEXT": ("/v1/completions", {"prompt": "a", "max_tokens": 1}),
    "ANTHROPIC": ("/v1/messages", {"model": "quoth-tiny", "messages": CHAT, "max_tokens": 1}),
    "RESPONSES": ("/v1/responses", {"input": "a", "max_output_tokens": 1}),
    "OLLAMA_CHAT": ("/api/chat", {"model": "quoth-tiny", "messages": CHAT, "stream": False, "options": {"num_predict": 1}}),
    "OLLAMA_GENERATE": ("/api/generate", {"model": "quoth-tiny", "prompt": "a", "stream": False, "options": {"num_predict": 1}}),
    "LLAMACPP": ("/completion", {"prompt": "a", "n_predict": 1})}
VALUES = {"string": ("a", "a string"), "integer": (1, "an integer"), "number": (1.5, "a number"), "boolean": (True, "a boolean"),
          "array": ([1], "an array"), "object": ({"a": 1}, "an object")}

# values of a listed type that the reader accepts, for fields with few values
VALID = {("function_call", "string"): "none", ("function_call", "object"): {"name": "f"}, ("tool_choice", "string"): "none",
         ("think", "string"): "low", ("keep_alive", "string"): "5m", ("conversation", "object"): {"id": "conv_1"}}


def types():
    """fields reject values of types that the description does not list, and missing required ones"""
    d = document()["components"]["schemas"]
    reads = set(re.findall(r"^READ\((\w+),", table("fields.def"), re.M))
    n = 0
    for name, (path, body) in BODIES.items():
        check(main.ask("POST", path, body)[0] == 200, path)
        for field in d[name].get("required", []):
            status, _, got = main.ask("POST", path, {k: v for k, v in body.items() if k != field})
            check(status == 400 and field in str(got), (path, field, got))
        for field, schema in d[name]["properties"].items():
            if "type" not in schema:
                check(field not in reads or schema.get("description") or field in UNTYPED, field)
                continue
            for kind, (value, named) in VALUES.items():
                listed = kind in schema["type"] or (kind == "integer" and "number" in schema["type"])
                status, _, got = main.ask("POST", path, {**body, field: VALID.get((field, kind), value)})
                wrong = status == 400 and field in str(got) and re.search(" got |expected|must be", str(got))
                # a listed type may have wrong values, but no error of its type
                check(wrong if not listed else not re.search(rf"{field}: expected .* got {named}", str(got)), (path, field, kind, status, got))
                n += 1
    check(n > 2000, n)


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
        run([rules, paths, fields, types, tested])
    finally:
        main.terminate()
