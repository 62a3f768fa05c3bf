#!/usr/bin/env python3
"""Goal: Ollama's clients pull, copy, create and delete models of a running server, and requests use
them. What changes the machine needs an administrator, and no name leaves the store. Method: a
registry of tests/e2e/hub_server.py, raw requests, and the official package (store_client.py)."""
import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time

from hub_server import Hub, sha256
from server import MODEL, QUOTH, ROOT, SLOW, TMP, Server, check, run
from venv_for import python_with

DRAFT = os.path.join(os.path.dirname(MODEL), "quoth-tiny-draft-q8_0.gguf")
hub = Hub()
with open(MODEL, "rb") as f:
    TINY = f.read()
with open(DRAFT, "rb") as f:
    SMALL = f.read()
ASK = {"messages": [{"role": "user", "content": "The sea"}], "stream": False, "options": {"temperature": 0, "num_predict": 8}}


class Store(Server):
    """A server with empty stores."""

    n = 0

    def __init__(self, *options, like=None, **more):
        """like: a server whose stores this one uses."""
        if like:
            self.root, self.folder, self.env = like.root, like.folder, like.env
            super().__init__("--max-model-len", "512", *options, env=self.env, **more)
            return
        Store.n += 1
        self.root = os.path.join(TMP, f"stores{Store.n}")
        self.folder = os.path.join(self.root, "ollama")
        os.makedirs(self.root)
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "OLLAMA_", "XDG_", "TRANSFORMERS"))}
        self.env = {**keep, "HOME": self.root, "HF_HUB_CACHE": os.path.join(self.root, "hub"), "OLLAMA_MODELS": self.folder,
                    "HF_ENDPOINT": hub.url,
                    "http_proxy": "", "https_proxy": ""}
        super().__init__("--models-hub", "--max-model-len", "512", "--max-num-seqs", "4", *options, model=None, env=self.env, **more)

    def lines(self, path, body, status=200, method="POST"):
        got, headers, data = self.ask(method, path, body)
        check(got == status, f"{path} {body}: {got} {data}")
        check(headers["Content-Type"].startswith("application/x-ndjson"), headers["Content-Type"])
        return [json.loads(line) for line in data.splitlines()]

    def ok(self, method, path, body):
        status, _, answer = self.ask(method, path, body)
        check(status == 200, f"{path} {body}: {status} {answer}")
        return answer

    def refused(self, method, path, body, status, word, headers=None):
        got, _, answer = self.ask(method, path, body, headers)
        check(got == status and list(answer) == ["error"] and word in answer["error"], f"{path} {body}: {got} {answer}")

    def status(self, method, path, body=None, headers=None):
        """Return the status of an answer, which may have no body."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            c.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers or {})
            return c.getresponse().status
        finally:
            c.close()

    def names(self):
        return [m["name"] for m in self.ok("GET", "/api/tags", None)["models"]]

    def pull(self, name):
        check(self.ok("POST", "/api/pull", {"model": name, "stream": False}) == {"status": "success"})

    def chat(self, model, **more):
        return self.ok("POST", "/api/chat", {**ASK, "model": model, **more})["message"]["content"]


def fresh(**models):
    """Give the registry models: name=layers. Return the beginning of their names."""
    hub.reset()
    hub.models.clear()
    for name, layers in models.items():
        hub.add_model("library/" + name, layers)
    return hub.host + "/library/"


def with_store(test):
    """Run a test with a server of empty stores."""
    def with_server():
        s = Store()
        try:
            return test(s)
        finally:
            s.stop()
    with_server.__name__, with_server.__doc__ = test.__name__, test.__doc__
    return with_server


@with_store
def pull(s):
    """a pulled model is in the lists, and answers; a model that is not there is 404"""
    at = fresh(tiny=[("model", TINY), ("license", b"MIT")])
    check(s.names() == [])
    got = s.lines("/api/pull", {"model": at + "tiny"})
    check(got[0] == {"status": "pulling manifest"} and got[-1] == {"status": "success"}, got)
    file = [x for x in got if x.get("digest") == "sha256:" + sha256(TINY)]
    check(file and file[-1]["total"] == file[-1]["completed"] == len(TINY) and file[-1]["status"] == f"pulling {sha256(TINY)[:12]}", got)
    check(all(a.get("completed", 0) <= b.get("completed", 0) for a, b in zip(file, file[1:])), file)
    check(s.names() == [at + "tiny:latest"], s.names())
    one = s.chat(at + "tiny")
    check(one and one == s.chat(at + "tiny:latest"))
    check([m["id"] for m in s.ok("GET", "/v1/models", None)["data"]] == [at + "tiny:latest"])
    n = len(hub.requests)
    s.pull(at + "tiny")
    check(s.ask("GET", "/metrics")[2].decode().count("quoth:model_loads_total{") == 1 and len(hub.requests) == n + 1, hub.requests[n:])
    for stream in (True, False):
        s.refused("POST", "/api/pull", {"model": at + "none", "stream": stream}, 404, "not found on")
    # a model of Hugging Face
    hub.add_repo("org/repo", {"a-Q8_0.gguf": SMALL})
    s.pull("hf:org/repo")
    check(s.names()[-1] == "hf:org/repo:Q8_0:latest" or "hf:org/repo:Q8_0" in s.names(), s.names())
    check(s.chat("hf:org/repo:Q8_0"))


@with_store
def named(s):
    """a model of a hub has its name there, alone and next to others"""
    at = fresh(tiny=[("model", TINY)])
    folder = os.path.join(TMP, "folder")
    if not os.path.exists(folder):
        subprocess.run([QUOTH, "convert", DRAFT, "-o", folder], check=True, capture_output=True)
    files = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as f:
            files[name] = f.read()
    hub.add_repo("org/tiny", files)
    s.pull(at + "tiny")
    s.ok("POST", "/api/copy", {"source": at + "tiny", "destination": "mine"})
    s.pull("hf:org/tiny")
    check({"org/tiny:latest", "hf:org/tiny:latest"} < set(s.names()), s.names())
    check(s.chat("org/tiny") == s.chat("hf:org/tiny") == s.chat("org/tiny:latest"))
    shown = subprocess.run([QUOTH, "show", "hf:org/tiny", "--json"], env=s.env, capture_output=True, text=True)
    check(json.loads(shown.stdout)["title"] == "org/tiny", shown)
    for model, names in (("ollama:mine", ["mine", "mine:latest"]), ("hf:org/tiny", ["org/tiny"])):
        for options in ([], ["--sleep-idle-seconds", "1000"]):
            one = Store(*options, like=s, model=model)
            try:
                check([m["id"] for m in one.ok("GET", "/v1/models", None)["data"]] == names[-1:], model)
                check(all(one.chat(name) for name in names))
            finally:
                one.stop()
    # without "hf:" only if no model of Ollama has the name
    s.ok("POST", "/api/copy", {"source": "mine", "destination": "org/other"})
    hub.add_repo("org/other", files)
    s.pull("hf:org/other")
    check("hf:org/other:latest" in s.names() and s.names().count("org/other:latest") == 1, s.names())
    check(s.chat("org/other") == s.chat("mine") != s.chat("hf:org/other"))
    s.refused("POST", "/api/copy", {"source": "org/tiny", "destination": "b"}, 400, "Ollama's store")
    s.ok("DELETE", "/api/delete", {"model": "org/tiny:latest"})
    s.refused("POST", "/api/chat", {**ASK, "model": "hf:org/tiny"}, 404, "not found")
    s.pull("hf:org/tiny")
    check(s.chat("org/tiny"))


@with_store
def changed(s):
    """a model that changed in the registry is loaded again after the next pull"""
    at = fresh(tiny=[("model", TINY)])
    s.pull(at + "tiny")
    first = s.chat(at + "tiny")
    hub.add_model("library/tiny", [("model", SMALL)])
    s.pull(at + "tiny")
    check(s.names() == [at + "tiny:latest"] and s.chat(at + "tiny") != first)


@with_store
def delete(s):
    """a deleted model completes its requests, leaves the memory, and is not found"""
    at = fresh(tiny=[("model", TINY)], small=[("model", SMALL)])
    s.pull(at + "tiny")
    s.pull(at + "small")
    want = s.chat(at + "tiny", options={"temperature": 0, "num_predict": 300, "ignore_eos": True})
    got = []
    t = threading.Thread(target=lambda: got.append(s.ask("POST", "/api/chat", {
        **ASK, "model": at + "tiny", "options": {"temperature": 0, "num_predict": 300, "ignore_eos": True}})))
    t.start()
    until = time.monotonic() + 20
    while s.ask("GET", "/load")[2]["running"] == 0 and time.monotonic() < until and t.is_alive():
        time.sleep(0.002)
    status, _, body = s.ask("DELETE", "/api/delete", {"model": at + "tiny"})
    check(status == 200 and body == b"", body)
    s.refused("POST", "/api/chat", {**ASK, "model": at + "tiny"}, 404, "not found")
    t.join()
    check(got[0][0] == 200 and got[0][2]["message"]["content"] == want, got)
    check(s.names() == [at + "small:latest"], s.names())
    while time.monotonic() < until and len(s.ok("GET", "/api/ps", None)["models"]) > 1:
        time.sleep(0.05)
    check([m["name"] for m in s.ok("GET", "/api/ps", None)["models"]] in ([], [at + "small:latest"]))
    blobs = os.listdir(os.path.join(s.folder, "blobs"))
    check("sha256-" + sha256(TINY) not in blobs and "sha256-" + sha256(SMALL) in blobs, blobs)
    s.refused("DELETE", "/api/delete", {"model": at + "tiny"}, 404, "not found")
    s.pull(at + "tiny")
    check(s.chat(at + "tiny"))


@with_store
def copy(s):
    """a copy has the same files, also after its source was deleted"""
    at = fresh(tiny=[("model", TINY), ("system", b"You are.")])
    s.pull(at + "tiny")
    s.ok("POST", "/api/copy", {"source": at + "tiny", "destination": "mine"})
    check(sorted(s.names()) == sorted([at + "tiny:latest", "mine:latest"]), s.names())
    check(s.chat("mine") == s.chat(at + "tiny"))
    s.ok("DELETE", "/api/delete", {"model": at + "tiny"})
    check(s.chat("mine") and s.chat("library/mine:latest") and s.names() == ["mine:latest"])
    s.refused("POST", "/api/copy", {"source": "none", "destination": "b"}, 404, "'none:latest' not found")
    for wrong in ({"source": "mine"}, {"source": "mine", "destination": 3}, {"source": "mine", "destination": "../x"}, {"destination": "x"}):
        s.refused("POST", "/api/copy", wrong, 400, "expected a name" if wrong.get("destination") != "../x" else "destination: must be")


def settings(model, s):
    shown = s.ok("POST", "/api/show", {"model": model})
    return shown.get("system"), shown["parameters"]


@with_store
def create(s):
    """a created model has its own system prompt, parameters and messages, which other APIs use too"""
    at = fresh(tiny=[("model", TINY), ("license", b"MIT"), ("params", b'{"temperature":0.5,"top_k":3}')])
    s.pull(at + "tiny")
    got = s.lines("/api/create", {"model": "mario", "from": at + "tiny", "system": "You are Mario.",
                                  "parameters": {"temperature": 0, "stop": ["e"], "seed": 4}, "license": ["BSD", "Apache"]})
    check(got[-1] == {"status": "success"} and {"status": "writing manifest"} in got, got)
    system, parameters = settings("mario", s)
    check(system == "You are Mario." and "temperature                    0\n" in parameters and "top_k                          3" in parameters, parameters)
    # the same by fields of a request
    plain = {**ASK, "messages": [{"role": "system", "content": "You are Mario."}, *ASK["messages"]]}
    want = s.chat(at + "tiny", messages=plain["messages"], options={"temperature": 0, "num_predict": 8, "stop": ["e"]})
    check(s.chat("mario", options={"num_predict": 8}) == want and "e" not in want, want)
    answer = s.ok("POST", "/v1/chat/completions", {"model": "mario", "messages": ASK["messages"], "max_tokens": 8})
    check(answer["choices"][0]["message"]["content"] == want, answer)
    check(s.chat("mario", options={"num_predict": 8, "stop": ["zzz"]}) != want or "e" not in want)
    # messages precede those of a request
    few = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    check(s.ok("POST", "/api/create", {"model": "few", "from": at + "tiny", "messages": few, "stream": False}) == {"status": "success"})
    s.ok("POST", "/api/create", {"model": "few2", "from": "few", "stream": False})
    greedy = {"temperature": 0, "num_predict": 8}
    want = s.chat(at + "tiny", messages=few + ASK["messages"], options=greedy)
    check(s.chat("few", options=greedy) == want == s.chat("few2", options=greedy))
    # num_ctx is a limit
    s.ok("POST", "/api/create", {"model": "short", "from": at + "tiny", "parameters": {"num_ctx": 20}, "stream": False})
    long = {**ASK, "model": "short", "messages": [{"role": "user", "content": "word " * 60}]}
    s.refused("POST", "/api/chat", long, 400, "exceeds the context length")
    # values and texts that no request could use
    for parameters, message in (({"mirostat": 1}, "parameters.mirostat"), ({"temperature": 1e300}, "parameters.temperature"),
                                ({"num_predict": 5}, "parameters.num_predict")):
        s.refused("POST", "/api/create", {"model": "no", "from": at + "tiny", "parameters": parameters, "stream": False}, 400, message)
    s.refused("POST", "/api/create", {"model": "no", "from": at + "tiny", "system": "a" * 1100000, "stream": False}, 400, "system: must have at most")
    # created again with other texts
    s.ok("POST", "/api/create", {"model": "mario", "from": at + "tiny", "system": "You are Luigi.", "stream": False})
    check(settings("mario", s)[0] == "You are Luigi.")


def read_modelfile(text):
    """Return the body of /api/create of a Modelfile, and the digest of its FROM. Ollama's parser: a value
    ends at a line break outside of quotes."""
    body, digest = {"parameters": {}, "license": [], "messages": []}, None
    words = re.findall(r'^(?!#)([A-Z]+) (?:(system|user|assistant) |([a-z_]+) )?("""[\s\S]*?"""(?=\n)|.*)$', text, re.M)
    for key, role, name, value in words:
        value = value[3:-3] if value.startswith('"""') else value
        if key == "FROM":
            digest = "sha256:" + value.rpartition("sha256-")[2]
        elif key == "PARAMETER" and name == "stop":
            body["parameters"].setdefault("stop", []).append(value)
        elif key == "PARAMETER":
            body["parameters"][name] = json.loads(value)
        elif key == "MESSAGE":
            body["messages"].append({"role": role, "content": value})
        elif key == "LICENSE":
            body["license"].append(f"{name} {value}" if name else value)
        else:
            body[key.lower()] = f"{name} {value}" if name else value
    return body, digest


@with_store
def rebuilt(s):
    """a model created from the Modelfile of /api/show is the same model"""
    at = fresh(tiny=[("model", TINY), ("license", b"MIT"), ("template", b"{{ .Prompt }}")])
    s.pull(at + "tiny")
    check('\nTEMPLATE {{ .Prompt }}\n' in s.ok("POST", "/api/show", {"model": at + "tiny"})["modelfile"])
    want = {"license": ["BSD\n \"x\"", "Apache"], "system": "You are \"Mario\".\nSay so. ",
            "parameters": {"temperature": 0.123456789, "num_ctx": 300, "seed": 4, "presence_penalty": 0.5, "stop": ["\n", " e", "<|x|>"]},
            "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho\n\nHo"}]}
    s.ok("POST", "/api/create", {"model": "mario", "from": at + "tiny", **want, "stream": False})
    first = s.ok("POST", "/api/show", {"model": "mario"})
    check(first["license"] == "BSD\n \"x\"\nApache" and first["system"] == want["system"] and first["messages"] == want["messages"], first)
    check("# FROM mario:latest\n" in first["modelfile"] and os.path.exists(re.search(r"^FROM (.*)$", first["modelfile"], re.M).group(1)))
    body, digest = read_modelfile(first["modelfile"])
    check(body.pop("template") == "{{ .Prompt }}" and digest == "sha256:" + sha256(TINY), first["modelfile"])
    s.ok("POST", "/api/create", {"model": "luigi", "files": {"m.gguf": digest}, **body, "stream": False})
    second = s.ok("POST", "/api/show", {"model": "luigi"})
    second["modelfile"] = second["modelfile"].replace("# FROM luigi", "# FROM mario").replace("\nSYSTEM", "\nTEMPLATE {{ .Prompt }}\nSYSTEM")
    for key in ("modelfile", "license", "system", "parameters", "messages", "template", "model_info", "capabilities"):
        check(first[key] == second[key], f"{key}: {first[key]!r} {second[key]!r}")
    check(s.chat("mario") == s.chat("luigi"))


@with_store
def blobs(s):
    """a GGUF that the client sends as a blob becomes a model"""
    fresh()
    digest = "sha256:" + sha256(SMALL)
    check(s.status("HEAD", "/api/blobs/" + digest) == 404)
    check(s.ask("POST", "/api/blobs/" + digest, SMALL, {"Content-Type": "application/octet-stream"})[0] == 201)
    check(s.ask("POST", "/api/blobs/" + digest, SMALL)[0] == 200 and s.status("HEAD", "/api/blobs/" + digest) == 200)
    got = s.lines("/api/create", {"model": "own", "files": {"own.gguf": digest}, "system": "You are.", "license": "MIT"})
    check(got[-1] == {"status": "success"} and s.names() == ["own:latest"] and s.chat("own"), got)
    text = b"no model"
    other = "sha256:" + hashlib.sha256(text).hexdigest()
    check(s.ask("POST", "/api/blobs/" + other, text)[0] == 201)
    s.refused("POST", "/api/create", {"model": "b", "files": {"b.gguf": other}, "stream": False}, 400, "files")
    for wrong in ("sha256:00", "sha256:" + "g" * 64, "md5:" + "0" * 32, "..%2f..%2fx", "sha256:..%2f..%2f" + "0" * 58):
        s.refused("POST", "/api/blobs/" + wrong, b"x", 400, "digest: must be")
    s.refused("POST", "/api/blobs/sha256:" + "0" * 64, b"x", 400, "digest: must be that of the data")
    files = [f for _, _, names in os.walk(s.folder) for f in names if "lock" not in f]
    check(all(f == "latest" or f.startswith("sha256-") for f in files) and not any("quoth." in f for f in files), files)


@with_store
def wrong(s):
    """names that leave the store and fields that would change the answer are refused"""
    at = fresh(tiny=[("model", TINY)], big=[("model", TINY), *[("license", b"x")] * 40000])
    s.pull(at + "tiny")
    before = sorted(os.walk(s.root))
    s.refused("POST", "/api/pull", {"model": at + "big", "stream": False}, 400, "the manifest has")
    check(sorted(os.walk(s.root)) == before, "files of a manifest that is too large")
    for name in ("../x", "a/../b", "a/b/c/d", "/etc/passwd", "a:../b", "hf:../x", "hf:org/repo@../x", "a b", "x" * 500, "ollama:..", "a\u0000b"):
        for method, path, body in (("POST", "/api/pull", {"model": name, "stream": False}), ("DELETE", "/api/delete", {"model": name}),
                                   ("POST", "/api/copy", {"source": name, "destination": "b"}),
                                   ("POST", "/api/copy", {"source": at + "tiny", "destination": name}),
                                   ("POST", "/api/create", {"model": name, "from": at + "tiny", "stream": False}),
                                   ("POST", "/api/create", {"model": "b", "from": name, "stream": False})):
            s.refused(method, path, body, 400, "")
    base = {"model": "b", "from": at + "tiny", "stream": False}
    for more, status, word in (
            ({"from": None}, 400, "neither 'from' or 'files'"), ({"from": "none"}, 404, "'none:latest' not found"), ({"from": 3}, 400, "from"),
            ({"from": "hf:org/none"}, 404, "not found"), ({"files": {"a.gguf": "sha256:" + "0" * 64}}, 400, "must not come with files"),
            ({"from": None, "files": {}}, 400, "files"), ({"from": None, "files": {"a": "x"}}, 400, "digest"),
            ({"from": None, "files": {"a.gguf": "sha256:" + "0" * 64}}, 404, "not found"), ({"from": None, "files": ["a"]}, 400, "files"),
            ({"from": None, "files": {"a": "sha256:" + "0" * 64, "b": "sha256:" + "0" * 64}}, 400, "files"),
            ({"template": "{{ .Prompt }}"}, 400, "template: not supported yet"), ({"quantize": "q4_K_M"}, 400, "quantize: not supported yet"),
            ({"adapters": {"a": "b"}}, 400, "adapters"), ({"modelfile": "FROM x"}, 400, "modelfile"), ({"system": 3}, 400, "system"),
            ({"parameters": []}, 400, "parameters"), ({"parameters": {"top_k": "x"}}, 400, "top_k"), ({"parameters": {"bogus": 1}}, 400, "bogus"),
            ({"parameters": {"num_predict": 3}}, 400, "num_predict"), ({"messages": {}}, 400, "messages"),
            ({"messages": [{"role": "robot", "content": "a"}]}, 400, "messages[0].role"), ({"messages": [{"role": "user"}]}, 400, "messages[0].content"),
            ({"license": 3}, 400, "license"), ({"license": ["a", 3]}, 400, "license[1]"), ({"license": ["a"] * 17}, 400, "license")):
        s.refused("POST", "/api/create", {**base, **more}, status, word)
    s.refused("POST", "/api/pull", {"model": "x", "insecure": True, "stream": False}, 400, "insecure: not supported")
    s.refused("POST", "/api/pull", {}, 400, "model is required")
    s.refused("POST", "/api/push", {"model": at + "tiny"}, 400, "push: not supported yet")
    check(sorted(os.walk(s.root)) == before, "files have changed")
    check(s.names() == [at + "tiny:latest"])


@with_store
def disconnect(s):
    """a client that disconnects ends its pull, which the next one continues; jobs run in order"""
    at = fresh(tiny=[("model", TINY)], small=[("model", SMALL)])
    hub.pause = 0.2
    c = s.connect()
    body = json.dumps({"model": at + "tiny"}).encode()
    c.sendall(b"POST /api/pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    check(b"200 OK" in c.recv(4096))
    c.close()
    hub.pause = 0
    start = time.monotonic()
    s.pull(at + "small")
    check(time.monotonic() - start < 20 and s.names() == [at + "small:latest"], s.names())
    s.pull(at + "tiny")
    check(sorted(s.names()) == sorted([at + "small:latest", at + "tiny:latest"]))
    # the server stops while a pull runs
    s.ok("DELETE", "/api/delete", {"model": at + "tiny"})
    hub.pause = 0.2
    got = []
    t = threading.Thread(target=lambda: got.append(s.ask("POST", "/api/pull", {"model": at + "tiny", "stream": False})))
    t.start()
    time.sleep(0.5)
    start = time.monotonic()
    s.terminate()
    s.process.wait(60)
    t.join()
    hub.pause = 0
    check(time.monotonic() - start < 15 and got[0][0] == 503, got)


def rights():
    """without keys, changes are for direct clients of this machine; with keys, for administrators"""
    path = os.path.join(TMP, "keys")
    with open(path, "w") as f:
        f.write("sk-one name=one\nsk-admin name=admin role=admin\n")
    changes = (("POST", "/api/pull", {"model": "x/y/z/w"}), ("DELETE", "/api/delete", {"model": "none"}),
               ("POST", "/api/copy", {"source": "none", "destination": "b"}), ("POST", "/api/create", {"model": "b", "from": "none"}),
               ("POST", "/api/push", {"model": "none"}), ("POST", "/api/blobs/sha256:00", "x"), ("HEAD", "/api/blobs/sha256:00", None))
    s = Store()
    try:
        for method, where, body in changes:
            for headers in ({"X-Forwarded-For": "1.2.3.4"}, {"Forwarded": "for=1.2.3.4"}):
                check(s.status(method, where, body, headers) == 403, where)
            check(s.status(method, where, body) in (400, 404, 501), where)
    finally:
        s.stop()
    s = Store("--api-key-file", path)
    try:
        for method, where, body in changes:
            check(s.status(method, where, body) == 401, where)
            check(s.status(method, where, body, {"Authorization": "Bearer sk-one"}) == 403, where)
            check(s.status(method, where, body, {"Authorization": "Bearer sk-admin"}) in (400, 404, 501), where)
    finally:
        s.stop()


def other_models():
    """a model of --models-dir is served next to the hub's, and not deleted by clients"""
    folder = os.path.join(TMP, "models")
    os.makedirs(folder)
    os.symlink(MODEL, os.path.join(folder, "plain.gguf"))
    at = fresh(small=[("model", SMALL)])
    s = Store("--models-dir", folder)
    try:
        s.pull(at + "small")
        check(s.names() == ["plain:latest", at + "small:latest"] and s.chat("plain") and s.chat(at + "small"))
        s.refused("DELETE", "/api/delete", {"model": "plain"}, 400, "not of the stores")
        check(os.path.exists(os.path.join(folder, "plain.gguf")))
        s.ok("DELETE", "/api/delete", {"model": at + "small"})
        check(s.names() == ["plain:latest"])
    finally:
        s.stop()


def package():
    """the official package pulls, creates, copies and deletes"""
    python, why = python_with("ollama-for-tests", {"ollama": "ollama"})
    if not python:
        return why
    at = fresh(tiny=[("model", TINY), ("license", b"MIT")])
    s = Store()
    try:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "store_client.py")
        r = subprocess.run([python, "-P", script, f"http://127.0.0.1:{s.port}", at, MODEL], capture_output=True, text=True, timeout=600 if SLOW else 120)
        check(r.returncode == 0, r.stderr[-1500:])
    finally:
        s.stop()


try:
    run([pull, named, changed, delete, copy, create, rebuilt, blobs, wrong, disconnect, rights, other_models, package])
finally:
    hub.close()
