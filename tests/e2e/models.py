#!/usr/bin/env python3
"""Goal: a server of several models gives the answers of servers with one model, within its memory.
It loses no request if models are swapped, clients disconnect or a file is damaged."""
import json
import os
import random
import shutil
import socket
import subprocess
import threading
import time

from server import LONG, MODEL, PATIENCE, QUOTH, SLOW, TMP, Server, check, first_server, run

DRAFT = os.path.join(os.path.dirname(MODEL), "quoth-tiny-draft-q8_0.gguf")
FOLDER = os.path.join(TMP, "models")
N_REQUEST = 2000 if LONG else 60 if SLOW else 200
PLAN, LIMIT = 150, 320  # MiB of a model, and of the server; bodies and the program need about 90
COMMON = {"max-model-len": "512", "max-num-seqs": "8"}
# name: file, options beyond COMMON
MODELS = {
    "tiny": (MODEL, {}),
    "small/draft": (DRAFT, {"kv-cache-dtype": "float32"}),
    "random": (MODEL, {"load-format": "dummy", "dummy-seed": "3"}),
}
PROMPTS = ["The weather", "Once upon a time", "1 2 3 4", "A quick brown", "Dear", "The sea is"]


def preset(name, models, common, more=""):
    """Write a preset file. Return its path."""
    path = os.path.join(TMP, name)
    with open(path, "w") as f:
        f.write("version = 1\n; written by a test\n[*]\n")
        f.writelines(f"{key} = {value}\n" for key, value in common.items())
        for model, (file, options) in models.items():
            f.write(f"[{model}]\nmodel = {file}\n")
            f.writelines(f"{key} = {value}\n" for key, value in options.items())
        f.write(more)
    return path


def open_files():
    """Make the models' files: two valid models, a damaged model, and files that are not models."""
    os.makedirs(os.path.join(FOLDER, "below", "split"))
    os.makedirs(os.path.join(FOLDER, "hf", "org", "broken"))
    shutil.copy(MODEL, os.path.join(FOLDER, "plain.gguf"))
    shutil.copy(DRAFT, os.path.join(FOLDER, "below", "split", "d-00001-of-00001.gguf"))
    with open(MODEL, "rb") as f, open(os.path.join(FOLDER, "cut.gguf"), "wb") as g:
        g.write(f.read(300000))
    for name in ("mmproj-x.gguf", "notes.txt", ".hidden.gguf", "below/split/d-00002-of-00001.gguf"):
        open(os.path.join(FOLDER, name), "w").close()
    with open(os.path.join(FOLDER, "hf", "org", "broken", "config.json"), "w") as f:
        f.write("{}")
    os.symlink(FOLDER, os.path.join(FOLDER, "below", "loop"))
    # a cache of Hugging Face: files of a snapshot are links to blobs
    hub = os.path.join(FOLDER, "hub", "models--org--my-repo")
    for name in ("blobs", "refs", "snapshots/0123abcd", "snapshots/0000dddd"):
        os.makedirs(os.path.join(hub, name))
    shutil.copy(DRAFT, os.path.join(hub, "blobs", "b"))
    for commit in ("0123abcd", "0000dddd"):
        os.symlink("../../blobs/b", os.path.join(hub, "snapshots", commit, "q8.gguf"))
    with open(os.path.join(hub, "refs", "main"), "w") as f:
        f.write("0123abcd")


def bodies(i):
    """Return request i: path and body without the model."""
    prompt = PROMPTS[i % len(PROMPTS)]
    sampling = {"temperature": 0.8, "seed": i, "max_tokens": 12 + i % 3 * 6, "logprobs": 2}
    if i % 2:
        return "/v1/completions", {"prompt": prompt, **sampling}
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}], **sampling, "logprobs": True,
                                    "top_logprobs": 2}


def answer_of(reply):
    """Return the parts of an answer that do not depend on the time."""
    return {"choices": reply["choices"], "usage": reply["usage"], "model": reply["model"]}


N_BODY = 12


def reference(name):
    """Return the answers of a server with only this model."""
    file, options = MODELS[name]
    flags = [word for key, value in {**COMMON, **options}.items() for word in (f"--{key}", value)]
    s = Server(*flags, "--served-model-name", name, "--no-pack-cache", model=file)
    try:
        found = []
        for i in range(N_BODY):
            path, body = bodies(i)
            status, _, reply = s.ask("POST", path, {**body, "model": name})
            check(status == 200, reply)
            found.append(answer_of(reply))
        return found
    finally:
        s.stop()


class Watch(threading.Thread):
    """The largest memory of a server."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.kib, self.ends = server, 0, False

    def run(self):
        while not self.ends:
            self.kib = max(self.kib, self.server.rss_kib())
            time.sleep(0.01)


def hang_up(s, rng, path, body):
    """Send a request and close the connection after a random time."""
    text = json.dumps({**body, "stream": rng.random() < 0.5, "max_tokens": 200}).encode()
    with socket.create_connection(("127.0.0.1", s.port), timeout=60) as c:
        c.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(text)) + text)
        time.sleep(rng.random() * 0.08)


def crowd(s, want, n, n_thread=6, seed=1):
    """Send n random requests of random models. Return the number of complete answers. Some clients
    disconnect."""
    names, lock, wrong, done = list(want), threading.Lock(), [], [0, 0]

    def client(k):
        rng = random.Random(seed * 100 + k)
        for _ in range(n // n_thread):
            name, i = rng.choice(names), rng.randrange(N_BODY)
            path, body = bodies(i)
            body["model"] = name
            try:
                if rng.random() < 0.2:
                    hang_up(s, rng, path, body)
                    with lock:
                        done[1] += 1
                    continue
                status, _, reply = s.ask("POST", path, body)
                if status != 200 or answer_of(reply) != want[name][i]:
                    wrong.append(f"{name} {i}: {status} {str(reply)[:300]}, not {str(want[name][i])[:300]}")
                with lock:
                    done[0] += 1
            except OSError as e:
                wrong.append(f"{name} {i}: {e}")

    threads = [threading.Thread(target=client, args=(k,)) for k in range(n_thread)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not wrong, f"{len(wrong)} of {sum(done)} are wrong or lost: " + "; ".join(wrong[:2]))
    check(sum(done) == n // n_thread * n_thread, done)
    return done


references = {}


def all_references():
    """Return the answers of servers with one model, computed once."""
    for name in MODELS:
        if name not in references:
            references[name] = reference(name)
    return references


def test_together():
    """three models in memory share the threads: every answer equals that of a server with one
    model"""
    want = all_references()
    s = Server("--models-preset", preset("all.ini", MODELS, COMMON), "--no-pack-cache", model=None)
    try:
        crowd(s, want, N_REQUEST // 2, seed=2)
        check(s.metric("quoth:model_loaded") == 3 and s.metric("quoth:model_loads_total") == 3)
    finally:
        s.stop()


def test_swaps():
    """three models in memory for one and a half: every answer equals that of a server with one
    model"""
    want = all_references()
    check(len({json.dumps([a["choices"] for a in v]) for v in want.values()}) == 3, "two models have equal answers")
    path = preset("swaps.ini", {n: (f, {**o, "memory-limit": f"{PLAN}M"}) for n, (f, o) in MODELS.items()}, COMMON)
    s = first_server("--models-preset", path, "--memory-limit", f"{LIMIT}M", "--no-pack-cache", model=None)
    try:
        watch = Watch(s)
        watch.start()
        done = crowd(s, want, N_REQUEST)
        watch.ends = True
        s.settle()
        n_load = s.metric("quoth:model_loads_total")
        loaded = s.metric("quoth:model_loaded")
        check(n_load > 10 and loaded == 1, f"{n_load} loads, {loaded} models in memory")
        check(SLOW or watch.kib <= 1.05 * LIMIT * 1024, f"{watch.kib} KiB")
        print(f"     {done[0]} answers, {done[1]} hung up, {n_load:.0f} loads, at most {watch.kib >> 10} of {LIMIT} MiB")
        check(s.metric("vllm:num_requests_running") == 0 and s.metric("quoth:model_requests_waiting") == 0)
    finally:
        s.stop()


def test_large_swaps():
    """models of 140 MB use the memory for one and a half models, but not more"""
    if not LONG:
        return "QUOTH_LONG=1 runs it"
    shape = {"quant": "Q8_0", "max-model-len": "2048"}
    models = {f"m{i}": ("smollm-135m", {"shape": "smollm-135m", "dummy-seed": str(i)}) for i in range(3)}
    limit = 900
    path = preset("large.ini", models, {**shape, "memory-limit": "500M"})
    s = Server("--models-preset", path, "--memory-limit", f"{limit}M", model=None)
    try:
        watch = Watch(s)
        watch.start()
        rng = random.Random(5)
        for _ in range(60):
            ids = [rng.randrange(1000) for _ in range(rng.randrange(100, 1000))]
            status, _, reply = s.ask("POST", "/v1/completions", {"model": f"m{rng.randrange(3)}", "prompt": ids, "max_tokens": 8, "ignore_eos": True})
            check(status == 200, reply)
        watch.ends = True
        check(watch.kib <= 1.05 * limit * 1024, f"{watch.kib >> 10} MiB of {limit}")
        print(f"     {s.metric('quoth:model_loads_total'):.0f} loads, at most {watch.kib >> 10} of {limit} MiB")
    finally:
        s.stop()


# ---- one server for the remaining tests ----

server = None


def status_of(name):
    models = server.ask("GET", "/models")[2]["data"]
    return next(m["status"] for m in models if m["id"] == name)


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.01)
    return False


def ask(model, **fields):
    return server.ask("POST", "/v1/completions", {"model": model, "prompt": "The", "max_tokens": 4, "temperature": 0, **fields})


class Stream(threading.Thread):
    """A stream of many tokens. `text` is the whole body after the end."""

    def __init__(self, model, n_token, to=None, **fields):
        super().__init__(daemon=True)
        self.server = to or server
        self.body = {"model": model, "prompt": "The", "max_tokens": n_token, "ignore_eos": True, "stream": True, "temperature": 0, **fields}
        self.text, self.begun, self.socket = b"", threading.Event(), None
        self.start()

    def run(self):
        text = json.dumps(self.body).encode()
        self.socket = self.server.connect()
        try:
            self.socket.sendall(b"POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            while part := self.socket.recv(65536):
                self.text += part
                self.begun.set()
        except OSError:
            pass


def test_list():
    """every file and folder below --models-dir is a model, by its name"""
    names = [m["id"] for m in server.ask("GET", "/v1/models")[2]["data"]]
    here = ["below/split/d", "cut", "hf/org/broken", "hub/org/my-repo/q8", "plain"]
    # the link below/loop leads back to the folder, so it adds no names
    check([n for n in names if n != "extra"] == here and "extra" in names, names)
    check(server.ask("GET", "/v1/models/plain")[0] == 200 and server.ask("GET", "/models/below/split/d")[0] == 200)
    check(status_of("plain")["value"] in ("loaded", "unloaded"))
    check(ask("hub/org/my-repo/q8")[0] == 200)
    tags = server.ask("GET", "/api/tags")[2]["models"]
    check(len(tags) == len(names) and all(m["size"] > 0 for m in tags if m["name"].startswith("plain")), tags)
    page = server.ask("GET", "/v1/models", headers={"anthropic-version": "2023-06-01"})[2]
    check([m["id"] for m in page["data"]] == names[:20], page)


def test_names():
    """a name that is not in the list is refused, also as a path"""
    for name in ("x", "../plain", "/etc/passwd", "plain/../plain", "plain.gguf", "below", "", MODEL, "plain\0"):
        status, _, reply = ask(name)
        check(status in (400, 404), f"{name}: {status}")
        check(reply["error"]["param"] == "model", reply)
        for path in ("/models/load", "/models/unload"):
            check(server.ask("POST", path, {"model": name})[0] in (400, 404), name)
    status, _, reply = server.ask("POST", "/v1/completions", {"prompt": "x"})
    check(status == 400 and reply["error"]["param"] == "model", reply)
    check(server.ask("GET", "/tokenizer_info")[0] == 400)
    check(server.ask("GET", "/tokenizer_info?model=plain")[2]["vocab_size"] > 0)


def test_failures():
    """the error for a damaged file contains the model's name, and the other models answer"""
    for name in ("cut", "hf/org/broken"):
        for _ in range(2):
            status, _, reply = ask(name)
            check(status == 500 and name in reply["error"]["message"], reply)
        now = status_of(name)
        check(now["failed"] and now["error"] and now["value"] == "unloaded", now)
    check(ask("plain")[0] == 200)


def test_drain():
    """a model completes its answers before it is unloaded"""
    whole = ask("plain", max_tokens=300, ignore_eos=True)[2]["choices"][0]["text"]
    stream = Stream("plain", 300)
    check(stream.begun.wait(20))
    check(server.ask("POST", "/models/unload", {"model": "plain"})[2] == {"success": True})
    later = ask("plain")  # this request waits until the model is loaded again
    check(later[0] == 200, later)
    stream.join(30)
    events = [json.loads(line[6:]) for line in stream.text.decode().splitlines() if line.startswith("data: {")]
    check("".join(e["choices"][0]["text"] for e in events) == whole, "the drained answer differs")
    check(events[-1]["choices"][0]["finish_reason"] == "length")


def test_unload():
    """/models/load and /models/unload change the state of one model"""
    check(server.ask("POST", "/models/load", {"model": "extra"})[2] == {"success": True})
    check(until(lambda: status_of("extra")["value"] == "loaded"))
    check(status_of("extra")["memory"] > 0)
    server.ask("POST", "/models/unload", {"model": "extra"})
    check(until(lambda: status_of("extra")["value"] == "unloaded"))
    check(status_of("extra")["memory"] == 0)


def leave():
    """Return false if the streams ended before the clients left, so that a load was legal."""
    for name in ("plain", "extra", "below/split/d", "hub/org/my-repo/q8"):
        server.ask("POST", "/models/unload", {"model": name})
    check(until(lambda: server.metric("quoth:model_loaded") == 0))
    streams = [Stream(name, 500, n=8) for name in ("plain", "below/split/d")]  # --models-max 2
    check(all(s.begun.wait(20) for s in streams))
    n_load = server.metric("quoth:model_loads_total")
    text = json.dumps({"model": "extra", "prompt": "a"}).encode()
    waiting = [server.connect() for _ in range(5)]
    for w in waiting:
        w.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
    seen = until(lambda: status_of("extra")["waiting"] == 5 or not all(s.is_alive() for s in streams))
    for w in waiting:
        w.close()
    check(seen and until(lambda: status_of("extra")["waiting"] == 0), status_of("extra"))
    long_enough = all(s.is_alive() for s in streams)
    for s in streams:
        s.join(30)
    time.sleep(0.1)
    check(not long_enough or server.metric("quoth:model_loads_total") == n_load, "a model was loaded, but no request waited")
    return long_enough


def test_leave():
    """a client that disconnects while its model is not loaded causes no load"""
    check(any(leave() for _ in range(5)), "the streams were too short")


def test_keep_alive():
    """Ollama's keep_alive is the idle time of the model"""
    check(ask("plain")[0] == 200)
    server.ask("POST", "/api/generate", {"model": "plain", "keep_alive": 0})
    check(until(lambda: status_of("plain")["value"] == "unloaded"))
    server.ask("POST", "/api/chat", {"model": "plain", "messages": [{"role": "user", "content": "a"}], "stream": False,
                                     "options": {"num_predict": 2}, "keep_alive": "300ms"})
    check(status_of("plain")["value"] == "loaded")
    names = [m["name"] for m in server.ask("GET", "/api/ps")[2]["models"]]
    check("plain:latest" in names, names)
    check(until(lambda: status_of("plain")["value"] == "unloaded"))
    check(server.ask("POST", "/api/show", {"model": "plain"})[2]["model_info"], "show loads the model")


def test_sleep():
    """/sleep drops all weights, and /wake_up loads the same models again"""
    check(ask("plain")[0] == 200)
    check(server.ask("GET", "/is_sleeping")[2] == {"is_sleeping": False})
    check(server.ask("POST", "/sleep?level=3")[0] == 400 and server.ask("POST", "/sleep?mode=abort")[0] == 400)
    check(server.ask("POST", "/sleep?level=1")[0] == 200)
    check(server.ask("GET", "/is_sleeping")[2] == {"is_sleeping": True})
    check(until(lambda: server.metric("quoth:model_loaded") == 0))
    check(ask("plain")[0] == 503)
    check(server.ask("POST", "/wake_up")[0] == 200)
    check(ask("plain")[0] == 200)
    check(status_of("plain")["value"] == "loaded")


def test_local():
    """a request through a proxy may use models, but not unload them"""
    check(server.ask("POST", "/models/unload", {"model": "plain"}, {"X-Forwarded-For": "10.0.0.1"})[0] == 403)
    for path in ("/models/load", "/sleep", "/wake_up"):
        check(server.ask("POST", path, {"model": "plain"}, {"Via": "1.1 p"})[0] == 403, path)
    check(server.ask("POST", "/v1/completions", {"model": "plain", "prompt": "a", "max_tokens": 1}, {"Via": "1.1 p"})[0] == 200)


def test_background():
    """a response in the background keeps its model"""
    body = {"model": "plain", "input": "Tell", "background": True, "max_output_tokens": 200}
    status, _, reply = server.ask("POST", "/v1/responses", body)
    check(status == 200, reply)
    server.ask("POST", "/models/unload", {"model": "plain"})

    def state():
        return server.ask("GET", f"/v1/responses/{reply['id']}")[2]["status"]
    check(until(lambda: state() not in ("queued", "in_progress")))
    check(state() in ("completed", "incomplete"), state())
    check(until(lambda: status_of("plain")["value"] == "unloaded"))


def test_keys():
    """only an administrator's key changes the state of a model"""
    keys = os.path.join(TMP, "keys")
    with open(keys, "w") as f:
        f.write("sk-user-key name=user\nsk-admin-key name=admin role=admin\n")
    os.chmod(keys, 0o600)
    s = Server("--models-dir", FOLDER, "--api-key-file", keys, model=None)

    def as_key(key, method, path, body=None):
        return s.ask(method, path, body, {"Authorization": "Bearer " + key})

    def loaded():
        models = as_key("sk-user-key", "GET", "/models")[2]["data"]
        return next(m["status"]["value"] for m in models if m["id"] == "plain") == "loaded"
    try:
        for path in ("/models/load", "/models/unload", "/sleep", "/wake_up"):
            check(s.ask("POST", path, {"model": "plain"})[0] == 401, path)
            check(as_key("sk-user-key", "POST", path, {"model": "plain"})[0] == 403, path)
        check(not loaded())
        check(as_key("sk-admin-key", "POST", "/models/load", {"model": "plain"})[0] == 200 and until(loaded))
        # a user's keep_alive has no effect
        check(as_key("sk-user-key", "POST", "/api/generate", {"model": "plain", "keep_alive": 0})[0] == 200)
        time.sleep(0.3)
        check(loaded())
        as_key("sk-admin-key", "POST", "/api/generate", {"model": "plain", "keep_alive": 0})
        check(until(lambda: not loaded()))
    finally:
        s.stop()


def test_defaults():
    """a section sets the default sampling parameters of its model only"""
    path = preset("defaults.ini", {"cold": (MODEL, {"temperature": "0", "max-model-len": "256"}), "warm": (MODEL, {"temp": "1.5"})},
                  {})
    s = Server("--models-preset", path, "--temperature", "0.5", model=None)
    try:
        def parameters(name):
            return s.ask("POST", "/api/show", {"model": name})[2]["parameters"]
        for _ in range(2):
            for name, value in (("cold", "0"), ("warm", "1.5"), ("cold", "0")):
                row = next(line for line in parameters(name).splitlines() if line.startswith("temperature"))
                check(row.split()[1] == value, f"{name}: {row}")
                s.ask("POST", "/models/unload", {"model": name})
        texts = {s.ask("POST", "/v1/completions", {"model": "cold", "prompt": "The", "max_tokens": 16})[2]["choices"][0]["text"]
                 for _ in range(4)}
        check(len(texts) == 1, texts)
        check(s.ask("GET", "/tokenizer_info?model=cold")[2]["model_max_length"] == 256)
    finally:
        s.stop()


def test_dialects():
    """every dialect selects the model by its name"""
    user = [{"role": "user", "content": "a"}]
    for name in ("plain", "extra"):
        for path, body in (("/v1/chat/completions", {"messages": user, "max_tokens": 2}),
                           ("/v1/messages", {"messages": user, "max_tokens": 2}),
                           ("/v1/responses", {"input": "a", "max_output_tokens": 2, "store": False}),
                           ("/api/generate", {"prompt": "a", "stream": False, "options": {"num_predict": 2}}),
                           ("/completion", {"prompt": "a", "n_predict": 2}),
                           ("/tokenize", {"prompt": "a"}),
                           ("/apply-template", {"messages": user})):
            status, _, reply = server.ask("POST", path, {**body, "model": name})
            check(status == 200, f"{path}: {reply}")
            check(reply.get("model", name) == name, reply)


def test_flags():
    """wrong flags and presets are rejected before the server opens"""
    bad = {"x.ini": "[a]\nmodel = x\nno-such-key = 1\n", "y.ini": "[a]\n", "z.ini": "model = x\n", "w.ini": "[a]\nmodel = x\nmax-model-len = many\n",
           "v.ini": "[a\n", "u.ini": "", "t.ini": "[a]\nmodel=x\n[a:latest]\nmodel=y\nlora-modules = a=b\n"}
    for name, text in bad.items():
        with open(os.path.join(TMP, name), "w") as f:
            f.write(text)
    for flags in (["--models-dir", FOLDER, MODEL], ["--models-dir", FOLDER, "--served-model-name", "a"],
                  ["--models-dir", os.path.join(TMP, "none")], ["--models-preset", os.path.join(TMP, "none.ini")],
                  ["--models-dir", FOLDER, "--models-pinned", "nobody"], ["--models-dir", FOLDER, "--lora", "x"],
                  ["--models-dir", FOLDER, "--memory-limit", "20M"],
                  ["--enable-sleep-mode", os.path.join(FOLDER, "cut.gguf")],
                  ["--enable-sleep-mode", "--lora-modules", "a=b", "--max-num-seqs", "4", MODEL],
                  *(["--models-preset", os.path.join(TMP, name)] for name in bad)):
        done = subprocess.run([QUOTH, "serve", *flags, "--port", "0"], capture_output=True, text=True, timeout=60)
        check(done.returncode in (1, 2) and done.stderr.strip(), f"{flags}: {done.returncode} {done.stderr}")
        check(len(done.stderr.strip().splitlines()) == 1, done.stderr)


def test_pinned():
    """pinned models are loaded at the start and stay; idle models are unloaded;
    --no-models-autoload waits for a load"""
    s = Server("--models-dir", FOLDER, "--models-pinned", "plain", "--models-max", "2", "--sleep-idle-seconds", "0", model=None)
    try:
        check(until(lambda: s.metric('quoth:model_loaded{model_name="plain"}') == 1))
        check(s.ask("POST", "/v1/completions", {"model": "below/split/d", "prompt": "a", "max_tokens": 1})[0] == 200)
        check(until(lambda: s.metric("quoth:model_loaded") == 1))
        check(s.metric('quoth:model_loaded{model_name="plain"}') == 1)
    finally:
        s.stop()
    s = Server("--models-dir", FOLDER, "--no-models-autoload", model=None)
    try:
        body = {"model": "plain", "prompt": "a", "max_tokens": 1}
        status, _, reply = s.ask("POST", "/v1/completions", body)
        check(status == 400 and reply["error"]["param"] == "model", reply)
        s.ask("POST", "/models/load", {"model": "plain"})
        check(s.ask("POST", "/v1/completions", body)[0] == 200)
    finally:
        s.stop()


def waiting_beside(n, s):
    """Begin two streams of n tokens, and a request for a third model. Return them."""
    streams = [Stream(name, n, s) for name in ("plain", "below/split/d")]
    check(all(x.begun.wait(20) for x in streams))
    waits = Stream("extra", 4, s)
    check(until(lambda: s.metric('quoth:model_requests_waiting{model_name="extra"}') == 1))
    return streams, waits


def test_stop():
    """a server that stops completes the answers of loaded models, and rejects a request that waits
    for a model"""
    streams, waits = waiting_beside(300, server)
    server.stop()
    for s in streams:
        s.join(20)
        check(s.text.startswith(b"HTTP/1.1 200") and b"[DONE]" in s.text, s.text[-200:])
    waits.join(20)
    check(waits.text.startswith(b"HTTP/1.1 503"), waits.text[:300])


def test_stop_early():
    """after its time to stop, a server rejects requests that wait for a model"""
    s = Server("--models-dir", FOLDER, "--models-preset", os.path.join(TMP, "extra.ini"), "--models-max", "2", "--shutdown-timeout", "0",
               model=None)
    streams, waits = waiting_beside(400, s)
    s.stop()
    waits.join(20)
    check(waits.text.startswith(b"HTTP/1.1 503"), waits.text[:300])
    for x in streams:
        x.join(20)
        check(b"[DONE]" in x.text or b"shutting down" in x.text, x.text[-200:])


CHAT = {"messages": [{"role": "user", "content": "a"}]}
# path of each dialect, a body without the model, and the place of the error's text
WAITING = [
    ("/v1/completions", {"prompt": "a"}, lambda r: r["error"]["message"]),
    ("/v1/chat/completions", CHAT, lambda r: r["error"]["message"]),
    ("/v1/responses", {"input": "a"}, lambda r: r["error"]["message"]),
    ("/v1/messages", {**CHAT, "max_tokens": 4}, lambda r: r["error"]["message"]),
    ("/api/chat", {**CHAT, "stream": False}, lambda r: r["error"]),
    ("/api/generate", {"prompt": "a", "stream": False}, lambda r: r["error"]),
    ("/generate", {"inputs": "a"}, lambda r: r["error"]),
    ("/completion", {"prompt": "a"}, lambda r: r["error"]["message"]),
    ("/v1/embeddings", {"input": "a"}, lambda r: r["error"]["message"]),
    ("/tokenize", {"prompt": "a"}, lambda r: r["error"]["message"]),
]


class Asked(threading.Thread):
    """A request in the background. `reply` is its answer, `at` the time of the answer."""

    def __init__(self, to, path, body):
        super().__init__(daemon=True)
        self.to, self.path, self.body, self.reply, self.at = to, path, body, None, 0
        self.start()

    def run(self):
        try:
            self.reply = self.to.ask("POST", self.path, self.body)
        except OSError as e:
            self.reply = (0, {}, str(e))
        self.at = time.monotonic()


def slow_server(*flags):
    """Start a server whose model "slow" loads for more than ten seconds, because the load encodes
    its weights. Return the server and the folder of its cache."""
    file, cache = os.path.join(TMP, "slow.gguf"), os.path.join(TMP, "slow-cache")
    if not os.path.exists(file):
        subprocess.run([QUOTH, "bench", "kernels", "--shape", "smollm-135m", "--quant", "F16", "--dummy-seed", "1", "-o", file], check=True,
                       capture_output=True)
    slow = {"slow": (file, {"quantization": "IQ1_S"}), "tiny": (MODEL, {})}
    s = Server("--models-preset", preset("slow.ini", slow, COMMON), *flags, model=None, env={**os.environ, "XDG_CACHE_HOME": cache})
    return s, os.path.join(cache, "quoth", "packed")


def begin_load(s, cache, seconds):
    """Begin requests of all dialects for the slow model. Return them some seconds after the begin
    of the cache's file."""
    asked = [Asked(s, path, {"model": "slow", **body}) for path, body, _ in WAITING]
    check(until(lambda: s.metric('quoth:model_requests_waiting{model_name="slow"}') == len(WAITING)))
    check(until(lambda: os.path.isdir(cache) and len(os.listdir(cache)) == 1), "no file of the cache is in progress")
    check(os.listdir(cache)[0].startswith("."))
    time.sleep(seconds)
    return asked


CANCEL_S = 2  # maximum time from the cancellation of a load to its end


def end_load(asked, cache, begin, words):
    """Check that all requests ended soon with 503 in the form of their dialect, and that the cache
    has no file."""
    for a, (path, _, text) in zip(asked, WAITING):
        a.join(20)
        status, headers, reply = a.reply
        check(status == 503 and words in text(reply), f"{path}: {status} {reply}")
        check(a.at - begin < CANCEL_S * PATIENCE, f"{path}: {a.at - begin:.1f} s")
        check(headers["Retry-After"] == "1", path)
    check(until(lambda: os.listdir(cache) == [], CANCEL_S * PATIENCE), os.listdir(cache))


def test_cancel_load():
    """a load in progress is cancelled by /models/unload, /sleep, keep_alive 0 and SIGTERM; keep_alive
    0 does not load a model"""
    s, cache = slow_server("--enable-sleep-mode")

    def value():
        models = s.ask("GET", "/models")[2]["data"]
        return next(m["status"] for m in models if m["id"] == "slow")

    longest = 0
    try:
        for path, words in (("/models/unload", "unloaded"), ("/sleep", "sleep"), ("/api/generate", "unloaded"), ("/api/chat", "unloaded")):
            asked = begin_load(s, cache, 0.3 * random.random())
            begin = time.monotonic()
            keep = {"keep_alive": 0} if path.startswith("/api/") else {}  # "ollama stop slow"
            status, _, reply = s.ask("POST", path, {"model": "slow", **keep})
            check(status == 200 and (not keep or reply["done_reason"] == "unload"), reply)
            check(until(lambda: value()["value"] == "unloaded", CANCEL_S * PATIENCE), value())
            longest = max(longest, time.monotonic() - begin)
            end_load(asked, cache, begin, words)
            check(not value().get("failed"), value())
            if path == "/sleep":
                check(s.ask("POST", "/wake_up")[0] == 200)
                check(until(lambda: value()["value"] == "loading"), value())  # the load begins again
                check(s.ask("POST", "/models/unload", {"model": "slow"})[0] == 200)
                check(until(lambda: value()["value"] == "unloaded", CANCEL_S * PATIENCE), value())
            check(s.ask("POST", "/v1/completions", {"model": "tiny", "prompt": "a", "max_tokens": 1})[0] == 200)
        n_load = s.metric("quoth:model_loads_total")
        check(s.ask("POST", "/api/generate", {"model": "slow", "keep_alive": "0s", "prompt": ""})[2]["done_reason"] == "unload")
        check(s.metric("quoth:model_loads_total") == n_load and value()["value"] == "unloaded")
        # most of the time is for formats that take a second per piece
        asked = begin_load(s, cache, 4)
        begin = time.monotonic()
        s.stop(20)
        longest = max(longest, time.monotonic() - begin)
        end_load(asked, cache, begin, "shutting down")
        check(longest < CANCEL_S * PATIENCE, f"{longest:.2f} s")
        print(f"     a cancelled load ended after at most {longest:.2f} s")
    finally:
        s.terminate()


def test_pinned_load():
    """keep_alive 0 of a client does not cancel the load of a pinned model"""
    s, cache = slow_server("--models-pinned", "slow")
    try:
        check(until(lambda: os.path.isdir(cache) and len(os.listdir(cache)) == 1), "no load at the start")
        for path in ("/api/generate", "/api/chat"):
            status, _, reply = s.ask("POST", path, {"model": "slow", "keep_alive": 0})
            check(status == 200 and reply["done_reason"] == "unload", reply)
        time.sleep(1)
        models = s.ask("GET", "/models")[2]["data"]
        status = next(m["status"] for m in models if m["id"] == "slow")
        check(status["value"] == "loading", status)
    finally:
        s.terminate()


def test_one_model():
    """a server of one model unloads nothing"""
    s = Server()
    try:
        for path in ("/sleep", "/models/unload", "/models/load", "/wake_up"):
            status, _, reply = s.ask("POST", path, {"model": s.ask("GET", "/v1/models")[2]["data"][0]["id"]})
            check(status == (200 if path == "/models/load" else 400), f"{path} {status} {reply}")
        check("status" not in s.ask("GET", "/models")[2]["data"][0])
        check(s.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200)
    finally:
        s.stop()


def test_idle_model():
    """the only model is unloaded after --sleep-idle-seconds, and a request loads it again"""
    alone = Server()
    name = alone.ask("GET", "/v1/models")[2]["data"][0]["id"]
    alone.stop()
    s = Server("--sleep-idle-seconds", "0")
    try:
        check(s.ask("GET", "/v1/models")[2]["data"][0]["id"] == name, "the model has another name")
        for _ in range(3):
            check(until(lambda: s.metric("quoth:model_loads_total") > 0 and s.metric("quoth:model_loaded") == 0))
            check(s.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200)
        check(s.metric("quoth:model_loads_total") >= 4)
    finally:
        s.stop()


def test_sleep_mode():
    """with --enable-sleep-mode, the only model sleeps and wakes, with equal answers"""
    s = Server("--enable-sleep-mode", "--served-model-name", "one", "two", "--max-model-len", "512")
    try:
        body = {"prompt": "The sea", "max_tokens": 20, "seed": 4, "logprobs": 1}
        alone = Server("--served-model-name", "one", "two", "--max-model-len", "512")
        want = answer_of(alone.ask("POST", "/v1/completions", body)[2])
        alone.stop()
        for name in ({}, {"model": "one"}, {"model": "two"}):
            got = answer_of(s.ask("POST", "/v1/completions", {**body, **name})[2])
            check(got["choices"] == want["choices"], got)
        check(s.ask("POST", "/v1/completions", {**body, "model": "three"})[0] == 404)
        before = s.rss_kib()
        check(s.ask("POST", "/sleep?level=1&mode=wait")[0] == 200)
        check(until(lambda: s.metric("quoth:model_loaded") == 0))
        check(SLOW or until(lambda: s.rss_kib() < before - 4096), f"{before} KiB, then {s.rss_kib()}")
        check(s.ask("GET", "/is_sleeping")[2] == {"is_sleeping": True} and s.ask("POST", "/v1/completions", body)[0] == 503)
        check(s.ask("POST", "/wake_up")[0] == 200)
        check(answer_of(s.ask("POST", "/v1/completions", body)[2])["choices"] == want["choices"])
        check(s.ask("GET", "/info")[2]["model_id"] == "one")
    finally:
        s.stop()


open_files()
server = first_server("--models-dir", FOLDER, "--models-preset",
                      preset("extra.ini", {"extra": (MODEL, {"load-format": "dummy"})}, COMMON), "--models-max", "2", model=None)
try:
    run([test_list, test_names, test_failures, test_drain, test_unload, test_leave, test_keep_alive, test_sleep, test_local,
         test_background, test_keys, test_defaults, test_dialects, test_flags, test_pinned, test_stop, test_stop_early, test_cancel_load, test_pinned_load, test_one_model, test_idle_model, test_sleep_mode, test_together, test_swaps, test_large_swaps])
finally:
    server.terminate()
