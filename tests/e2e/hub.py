#!/usr/bin/env python3
"""Goal: a model is downloaded byte for byte or rejected with one sentence, only the hub receives
the token, and other programs can read the stores of quoth pull."""
import hashlib
import json
import os
import pty
import random
import resource
import shutil
import signal
import subprocess
import time

from hub_server import Hub, hash_of, sha256
from server import LONG, MODEL, QUOTH, SLOW, TMP, check, run
from venv_for import python_with

DRAFT = os.path.join(os.path.dirname(MODEL), "quoth-tiny-draft-q8_0.gguf")
CHUNK = 4 << 20  # of src/hub/partial.c
LIMIT = 600 if SLOW else 120  # seconds for a command
rng = random.Random(18)
hub = Hub()


def bytes_of(path):
    with open(path, "rb") as f:
        return f.read()


TINY, SMALL = bytes_of(MODEL), bytes_of(DRAFT)
BIG = rng.randbytes(5 * CHUNK + 12345)


class Place:
    """Empty stores, and the environment variables with their paths."""

    n = 0

    def __init__(self, **more):
        Place.n += 1
        self.root = os.path.join(TMP, f"place{Place.n}")
        self.cache, self.store = os.path.join(self.root, "hub"), os.path.join(self.root, "ollama")
        os.makedirs(self.root)
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "OLLAMA_", "XDG_", "TRANSFORMERS"))}
        self.env = {**keep, "HOME": self.root, "HF_HUB_CACHE": self.cache, "OLLAMA_MODELS": self.store, "HF_ENDPOINT": hub.url,
                    "http_proxy": "", "https_proxy": "", **more}

    def start(self, *words, **how):
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **how}
        return subprocess.Popen([QUOTH, *words], env={**self.env, **how.pop("env", {})}, **how)

    def quoth(self, *words, **how):
        """Run a command. Return (status, output, errors)."""
        p = self.start(*words, **how)
        out, err = p.communicate(timeout=LIMIT)
        return p.returncode, out.decode(), err.decode()

    def pull(self, name, *options, **how):
        """Download a model. Return its path."""
        status, out, err = self.quoth("pull", name, *options, **how)
        check(status == 0, f"{name}: status {status}: {err}")
        return out.strip()

    def refused(self, *words, has=(), status=1, **how):
        """Check that a command fails with one sentence that contains all of `has`."""
        got, out, err = self.quoth(*words, **how)
        lines = [l for l in err.splitlines() if not l.endswith(" s") or "next try" not in l]
        check(got == status and not out, f"{words}: status {got}, output {out!r}: {err}")
        check(len(lines) == 1 and lines[0].startswith(f"quoth {words[0]}: "), err)
        for word in has:
            check(word in err, f"{word!r} not in {err!r}")
        return err

    def files(self):
        """Return the names of all files below both stores, without locks."""
        return sorted(os.path.join(d, f) for d, _, fs in os.walk(self.root) for f in fs if ".locks" not in d)

    def blobs(self, repo):
        return os.path.join(self.cache, "models--" + repo.replace("/", "--"), "blobs")


def fresh(files, name="org/repo", **more):
    """Return empty stores. The hub has one repository."""
    hub.reset()
    hub.repos.clear()
    hub.add_repo(name, files)
    return Place(**more)


# ---- files of a download ----

def test_gguf():
    """A GGUF of a repository is downloaded, and used without the network."""
    p = fresh({"README.md": b"x", "tiny-Q8_0.gguf": TINY, "tiny-Q4_K_M.gguf": SMALL, "mmproj-tiny-Q8_0.gguf": b"no", "a/b.bin": b"z"})
    path = p.pull("hf:org/repo:q8_0")
    check(bytes_of(path) == TINY and path.endswith("/tiny-Q8_0.gguf"), path)
    commit = hub.commit("org/repo", "main")[0]
    repo = os.path.join(p.cache, "models--org--repo")
    check(os.readlink(path) == f"../../blobs/{sha256(TINY)}", os.readlink(path))
    check(bytes_of(os.path.join(repo, "refs", "main")) == commit.encode())
    check(os.listdir(os.path.join(repo, "blobs")) == [sha256(TINY)] and os.listdir(os.path.join(repo, "snapshots")) == [commit])
    want = p.quoth("run", MODEL, "The sea", "--raw", "--temperature", "0", "-n", "8")
    hub.requests.clear()
    got = p.quoth("run", "hf:org/repo:Q8_0", "The sea", "--raw", "--temperature", "0", "-n", "8", env={"HF_HUB_OFFLINE": "1"})
    check(got[:2] == want[:2] and got[0] == 0 and got[1], f"{got} {want}")
    check(p.pull("hf:org/repo").endswith("/tiny-Q4_K_M.gguf"))
    check(hub.n_sent == len(TINY) + len(SMALL), hub.n_sent)
    check(p.quoth("tokenize", "hf:org/repo:Q8_0")[0] == 0 and p.quoth("inspect", "hf:org/repo")[0] == 0)


def test_choice():
    """The number format selects the file; a wrong or ambiguous format is rejected with the list."""
    parts = {f"Q4_0/m-Q4_0-0000{i}-of-00003.gguf": rng.randbytes(2000 + i) for i in (1, 2, 3)}
    p = fresh({**parts, "m-Q5_K_M.gguf": b"5" * 2000, "m-IQ4_XS.gguf": b"i" * 2000, "m-BF16.gguf": b"b" * 2000, "other-BF16.gguf": b"o" * 2000})
    path = p.pull("hf:org/repo:Q4_0")
    for name, data in parts.items():
        check(bytes_of(os.path.join(os.path.dirname(path), os.path.basename(name))) == data, name)
    check(path.endswith("-00001-of-00003.gguf"))
    p.refused("pull", "hf:org/repo:Q4_K", has=["Q4_K not found", "Q4_0", "Q5_K_M", "IQ4_XS"])
    p.refused("pull", "hf:org/repo:BF16", has=["2 GGUF models match"])
    check(bytes_of(p.pull("hf:org/repo:other-BF16.gguf")) == b"o" * 2000)
    check(bytes_of(p.pull("hf:org/repo:iq4_xs")) == b"i" * 2000)
    p.refused("pull", "hf:org/none", has=["hf:org/none: not found on"])
    p.refused("pull", "hf:org/repo@v9", has=["hf:org/repo@v9: not found on"])
    p = fresh({"pytorch_model.bin": b"x", "config.json": b"{}"})
    p.refused("pull", "hf:org/repo", has=["is missing", ".bin"])


def folder_of_safetensors():
    folder = os.path.join(TMP, "folder")
    if not os.path.exists(folder):
        subprocess.run([QUOTH, "convert", MODEL, "-o", folder], check=True, capture_output=True)
    return {f: bytes_of(os.path.join(folder, f)) for f in sorted(os.listdir(folder)) if os.path.isfile(os.path.join(folder, f))}


def test_safetensors():
    """A folder of safetensors is downloaded without files of other formats, and runs."""
    files = folder_of_safetensors()
    more = {"1_Pooling/config.json": b"{}", "additional_chat_templates/tool.jinja": b"{{ 1 }}"}
    other = {"pytorch_model.bin": b"x" * 2000, "onnx/model.onnx": b"x" * 2000, "original/consolidated.safetensors": b"x" * 2000,
             "consolidated.safetensors": b"x" * 2000, "README.md": b"r", ".gitattributes": b"g", "tiny-Q4_0.gguf": b"x" * 2000}
    p = fresh({**files, **more, **other})
    path = p.pull("hf:org/repo")
    got = sorted(os.path.relpath(os.path.join(d, f), path) for d, _, fs in os.walk(path) for f in fs)
    check(got == sorted([*files, *more]), got)
    for name, data in {**files, **more}.items():
        check(bytes_of(os.path.join(path, name)) == data, name)
    check(p.quoth("run", "hf:org/repo", "The sea", "-n", "2")[0] == 0)


def test_other_programs():
    """huggingface_hub reads what quoth wrote, and quoth reads what huggingface_hub wrote."""
    python, why = python_with("venv-hub", {"huggingface_hub": "huggingface_hub==2.4.0"})
    if not python:
        return why
    files = {**folder_of_safetensors(), "1_Pooling/config.json": b"{}"}
    p = fresh(files)
    hub.add_repo("org/repo", {**files, "config.json": files["config.json"] + b" "}, "v2")
    path, path2 = p.pull("hf:org/repo"), p.pull("hf:org/repo@v2")
    script = """
import json, os, sys
from huggingface_hub import scan_cache_dir, snapshot_download
info = scan_cache_dir()
assert not info.warnings, info.warnings
repo, = info.repos
out = {"repo": repo.repo_id, "revisions": {r.commit_hash: [sorted(r.refs), sorted(f.file_name for f in r.files)] for r in repo.revisions},
       "size": repo.size_on_disk,
       "paths": [snapshot_download("org/repo", revision=r, local_files_only=True) for r in ("main", "v2")]}
os.environ["HF_HUB_OFFLINE"] = "0"
out["other"] = [snapshot_download("org/repo", revision=r, cache_dir=sys.argv[1]) for r in ("main", "v2")]
print(json.dumps(out))
"""
    other = os.path.join(p.root, "other")
    r = subprocess.run([python, "-c", script, other], env={**p.env, "HF_HUB_DISABLE_XET": "1"}, capture_output=True, timeout=LIMIT)
    check(r.returncode == 0, r.stderr.decode()[-500:])
    got = json.loads(r.stdout)
    check(got["repo"] == "org/repo" and got["paths"] == [path, path2], got)
    check(got["revisions"] == {hub.commit("org/repo", r)[0]: [[r], sorted(os.path.basename(f) for f in files)] for r in ("main", "v2")}, got)
    check(got["size"] == sum(len(d) for d in files.values()) + len(files["config.json"]) + 1, got["size"])
    # both caches have equal files, links and references
    def shape(top):
        out = {}
        for d, _, names in os.walk(top):
            for n in names:
                full = os.path.join(d, n)
                if ".locks" not in full and "/trees/" not in full and not n.startswith(("CACHEDIR", ".")):
                    out[os.path.relpath(full, top)] = os.readlink(full) if os.path.islink(full) else sha256(bytes_of(full))
        return out
    check(shape(p.cache) == shape(other), set(shape(p.cache).items()) ^ set(shape(other).items()))
    names = [m["name"] for m in json.loads(p.quoth("list", "--json", env={"HF_HUB_CACHE": other})[1])]
    check(names == ["hf:org/repo", "hf:org/repo@v2"], names)
    check(p.quoth("run", "hf:org/repo@v2", "The sea", "-n", "2", env={"HF_HUB_CACHE": other, "HF_HUB_OFFLINE": "1"})[0] == 0)


def test_ollama():
    """A model of Ollama's registry is in the layout of its store."""
    p = fresh({})
    layers = [("model", TINY), ("template", b"{{ .Prompt }}"), ("license", b"MIT"), ("params", b'{"stop":["x"]}')]
    hub.add_model("library/tiny", layers)
    hub.add_model("me/tiny2", [("model", TINY), ("system", b"You are.")], "q8")
    name, name2 = f"ollama:{hub.host}/library/tiny", f"ollama:{hub.host}/me/tiny2:q8"
    path = p.pull(name)
    check(path == os.path.join(p.store, "blobs", f"sha256-{sha256(TINY)}") and bytes_of(path) == TINY, path)
    manifest = bytes_of(os.path.join(p.store, "manifests", hub.host, "library", "tiny", "latest"))
    check(manifest == hub.manifest(layers))
    for _, data in [*layers, ("", b"{}")]:
        check(bytes_of(os.path.join(p.store, "blobs", f"sha256-{sha256(data)}")) == data)
    sent = hub.n_sent
    check(p.pull(name2) == path and hub.n_sent - sent == len(b"You are."), hub.n_sent - sent)
    status, _, err = p.quoth("run", name, "The sea", "-n", "2", env={"HF_HUB_OFFLINE": "1"})
    check(status == 0 and "ignored layers of the model: params;" in err, err)
    check("ignored layers of the model: system;" in p.quoth("tokenize", name2)[2])
    listed = json.loads(p.quoth("list", "--json")[1])
    check([m["name"] for m in listed] == [name + ":latest", name2] and listed[0]["path"] == path, listed)
    shown = json.loads(p.quoth("show", name2, "--json")[1])
    check(shown["architecture"] == "llama" or shown["architecture"], shown)
    check([f["path"].rpartition(".")[2] for f in shown["files"]][:2] == ["model", "system"], shown)
    # the GGUF stays while another manifest contains it
    check(p.quoth("rm", name, "--yes")[0] == 0 and os.path.exists(path))
    check(not os.path.exists(os.path.join(p.store, "blobs", f"sha256-{sha256(b'MIT')}")))
    check(p.quoth("rm", name2, "-y")[0] == 0 and os.listdir(os.path.join(p.store, "blobs")) == [])
    hub.add_model("library/lora", [("model", TINY), ("adapter", b"a")])
    p.refused("pull", f"ollama:{hub.host}/library/lora", has=["adapter", "not supported yet"])
    p.refused("pull", f"ollama:{hub.host}/library/none", has=["not found on"])


# ---- hostile names and answers ----

def test_names():
    """Names with paths outside of the store are rejected without a request."""
    p = fresh({"a-Q4_0.gguf": SMALL})
    bad = ["hf:", "hf:../x", "hf:org/..", "hf:org/repo/x", "hf:/etc/passwd", "hf:org//repo", "hf:org/repo@../../x", "hf:org/repo@/x",
           "hf:org/repo@a/../b", "hf:org/repo:../x", "hf:org/repo:a/b", "hf:org/re\npo", "hf:org/re po", "hf:org/repo@", "hf:org/repo:",
           "hf:-org/repo", "hf:org/--x", "hf:org/repo@-x", "hf:o%2f/r", "hf:" + "a" * 5000, "ollama:", "ollama:..", "ollama:a/../b", "ollama:a:b:c",
           "ollama:../../x:y", "ollama:/x", "ollama:a/b/c/d", "ollama:host:x/a/b", "ollama:a\\b", "ollama:.hidden", "ollama:x:../y", "org/repo", "ollama:\x7f"]
    for name in bad:
        for command in ("pull", "show", "rm"):
            p.refused(command, name, has=["NAME: must be hf:"], status=2)
    check(not hub.requests and p.files() == [], f"{hub.requests} {p.files()}")


def test_hostile_lists():
    """A list of files cannot cause writes outside of the cache, and a damaged list is rejected."""
    p = fresh({"a-Q4_0.gguf": SMALL})
    entry = {"type": "file", "oid": "0" * 40, "size": 3, "path": "a-Q4_0.gguf"}
    bad = [{"path": x} for x in ("../a.gguf", "/tmp/a.gguf", "a/../../b.gguf", "a//b.gguf", "./a.gguf", "a\\b.gguf", "a\nb.gguf", "", "x" * 300 + ".gguf",
                                 "\u0000.gguf")]
    bad += [{"oid": x} for x in ("", "../../x", "0" * 39, "g" * 40, None)] + [{"size": x} for x in (-1, 1 << 60, "3", None)]
    bad += [{"lfs": {"oid": "../x", "size": 3}}, {"lfs": {}}]
    texts = [json.dumps([{**entry, **b}]).encode() for b in bad] + [b"", b"{}", b"[", b"[1]", b"[" * 100000, b"\xff"]
    for text in texts:
        hub.tree = text
        p.refused("pull", "hf:org/repo", has=["hf:org/repo: "])
    hub.tree = None
    check(p.files() == [], p.files())


def test_token():
    """Only the hub receives the token."""
    p = fresh({"a-Q8_0.gguf": TINY, "b-Q4_0.gguf": SMALL})
    hub.token = "hf_secret"
    p.refused("pull", "hf:org/repo", has=["denies access (status 401)", "HF_TOKEN"])
    check(bytes_of(p.pull("hf:org/repo:Q8_0", env={"HF_TOKEN": "hf_secret"})) == TINY)
    check(any(r[3].get("Authorization") == "Bearer hf_secret" for r in hub.requests if r[0] == hub.hub.port))
    # a file of huggingface_hub's login, with a newline
    os.makedirs(os.path.join(p.root, "home"))
    with open(os.path.join(p.root, "home", "token"), "w") as f:
        f.write("hf_secret\n")
    check(bytes_of(p.pull("hf:org/repo:Q4_0", env={"HF_HOME": os.path.join(p.root, "home")})) == SMALL)
    # an API that redirects to another server
    for path in ("/api/models/org/repo/revision/main", f"/files/{sha256(TINY)}"):
        hub.hub_failures = [(307, {"Location": f"http://127.0.0.1:{hub.cdn.port}{path}"})]
        p.quoth("pull", "hf:org/repo:Q8_0", env={"HF_TOKEN": "hf_secret"})
    elsewhere = [r for r in hub.requests if r[0] == hub.cdn.port]
    check(len(elsewhere) >= 4 and not any("secret" in repr(r) for r in elsewhere), elsewhere)
    p.refused("pull", "hf:org/repo", has=["HF_TOKEN"], env={"HF_TOKEN": "a\r\nX-Evil: 1"})


# ---- faults ----

def test_cuts():
    """A download resumes after an interruption at any byte, with and without ranges."""
    n = 20 if SLOW and not LONG else 200
    for ranges in (True, False):
        p = fresh({"a-Q8_0.gguf": TINY})
        for i in range(n):
            hub.ranges, hub.cuts = ranges, [rng.randrange(len(TINY))]
            path = p.pull("hf:org/repo")
            check(bytes_of(path) == TINY, f"cut {i}")
            shutil.rmtree(p.cache)
        hub.cuts = sorted(rng.randrange(len(TINY)) for _ in range(n))
        check(bytes_of(p.pull("hf:org/repo")) == TINY)


def test_statuses():
    """Temporary failures are retried, after the time that the server requires."""
    p = fresh({"a-Q8_0.gguf": BIG})
    hub.failures, hub.hub_failures = [(503, {})], [(500, {}), (408, {})]
    check(bytes_of(p.pull("hf:org/repo")) == BIG)
    for faults in ("failures", "hub_failures"):
        p = fresh({"a-Q8_0.gguf": BIG})
        setattr(hub, faults, [(429, {"Retry-After": "3"})])
        start = time.monotonic()
        check(bytes_of(p.pull("hf:org/repo")) == BIG and time.monotonic() - start > 2.9)
    p = fresh({"a-Q8_0.gguf": BIG})
    hub.failures = [(403, {})]  # an expired URL: the hub gives another one
    check(bytes_of(p.pull("hf:org/repo")) == BIG)
    p = fresh({"a-Q8_0.gguf": BIG})
    hub.failures = [(429, {"Retry-After": "4000"})]
    p.refused("pull", "hf:org/repo", has=["requires a wait of 4000 s"])
    hub.hub_failures = [(418, {})]
    p.refused("pull", "hf:org/repo", has=["status 418"])
    hub.failures = [(418, {})]  # of a URL with a signature, which is secret
    check("signature" not in p.refused("pull", "hf:org/repo", has=["status 418", "/files/"]))
    hub.failures = [(302, {"Location": f"http://127.0.0.1:{hub.cdn.port}/x"})] * 20
    p.refused("pull", "hf:org/repo", has=["redirects"])
    hub.failures = []
    hub.hub_failures = [(302, {"Location": f"{hub.url}/x"})] * 20
    p.refused("pull", "hf:org/repo", has=["redirects"])
    # another host, which also has another address
    p = fresh({"a-Q8_0.gguf": BIG})
    hub.cdn_host = "localhost"
    check(bytes_of(p.pull("hf:org/repo")) == BIG)
    dead = Place(HF_ENDPOINT="http://127.0.0.1:1")
    dead.refused("pull", "hf:org/repo", has=["cannot connect"])


def test_wrong_bytes():
    """A file with a wrong hash or size is rejected and removed. The next pull succeeds."""
    p = fresh({"a-Q8_0.gguf": TINY, "b-Q4_0.gguf": SMALL})
    for change in (TINY[:-1] + bytes([TINY[-1] ^ 1]), b"?" + TINY[1:]):
        hub.changes = {sha256(TINY): change}
        p.refused("pull", "hf:org/repo:Q8_0", has=["a-Q8_0.gguf is damaged", sha256(TINY), sha256(change)])
        check(not any("gguf" in f or sha256(TINY) in f for f in p.files()), p.files())
    for change in (TINY + b"?", TINY[:-1], b""):
        for hub.ranges in (True, False):
            hub.changes = {sha256(TINY): change}
            p.refused("pull", "hf:org/repo:Q8_0", has=["a-Q8_0.gguf"])
            check(not any(f.endswith(sha256(TINY)) for f in p.files()), p.files())
    hub.changes = {}
    check(bytes_of(p.pull("hf:org/repo:Q8_0")) == TINY)
    hub.changes = {sha256(b"{}"): b"[]"}
    hub.add_model("library/tiny", [("model", TINY)])
    p.refused("pull", f"ollama:{hub.host}/library/tiny", has=["is damaged"])
    check(json.loads(p.quoth("list", "--json")[1])[-1]["name"] == "hf:org/repo:Q8_0")


def test_damaged_partial():
    """The changed chunks of a partial file are downloaded again."""
    for at, ranges in ((100, True), (100, False), (CHUNK + 5, False)):
        p = fresh({"a-Q8_0.gguf": BIG})
        hub.pause = 0.01
        check(kill_at(p, 4 * CHUNK))
        partial = os.path.join(p.blobs("org/repo"), sha256(BIG) + ".quoth.incomplete")
        with open(partial, "r+b") as f:
            f.seek(at)
            f.write(b"damage")
        hub.pause, hub.ranges = 0, ranges
        check(bytes_of(p.pull("hf:org/repo")) == BIG)


def test_full_disk():
    """A full disk causes an error of one sentence. The download continues after space is free."""
    p = fresh({"a-Q8_0.gguf": BIG})
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
    p.refused("pull", "hf:org/repo", has=["cannot write"], preexec_fn=limit)
    check(bytes_of(p.pull("hf:org/repo")) == BIG)
    disk = os.path.join(TMP, "disk")
    os.makedirs(disk, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], capture_output=True).returncode:
        return
    try:
        p.refused("pull", "hf:org/repo", has=["cannot write", "MB free"], env={"HF_HUB_CACHE": os.path.join(disk, "hub")})
        hub.add_repo("org/tiny", {"a-Q8_0.gguf": TINY})
        with open(os.path.join(disk, "other"), "wb") as f:
            f.write(b"x" * (1 << 20))
        check(bytes_of(p.pull("hf:org/tiny", env={"HF_HUB_CACHE": os.path.join(disk, "hub")})) == TINY)
    finally:
        subprocess.run(["umount", disk], capture_output=True)


def test_two_pullers():
    """Two simultaneous pulls of one model download it once."""
    p = fresh({"a-Q8_0.gguf": BIG})
    hub.pause = 0.01
    both = [p.start("pull", "hf:org/repo") for _ in range(2)]
    said = [b.communicate(timeout=LIMIT) for b in both]
    check(all(b.returncode == 0 for b in both), said)
    check(hub.n_sent == len(BIG), f"{hub.n_sent} of {len(BIG)} bytes were sent")
    check(sum(b"waiting for another process" in err for _, err in said) == 1, said)
    check(bytes_of(said[0][0].decode().strip()) == BIG)


def kill_at(p, n_sent):
    """Begin a pull, and kill it after n_sent further bytes. Return false if it ended before."""
    begin = hub.n_sent
    q = p.start("pull", "hf:org/repo")
    while hub.n_sent - begin < n_sent and q.poll() is None:
        time.sleep(0.001)
    q.send_signal(signal.SIGKILL)
    q.communicate()
    return q.returncode == -signal.SIGKILL


def test_kills():
    """A download resumes after a kill at any moment."""
    n, n_killed, n_sent = 50 if LONG else 4, 0, 0
    for i in range(n):
        p = fresh({"a-Q8_0.gguf": BIG})
        hub.pause = 0.002
        while rng.random() < 0.7:
            n_killed += kill_at(p, rng.randrange(len(BIG)))
        check(bytes_of(p.pull("hf:org/repo")) == BIG, f"round {i}")
        check(not any("quoth." in f for f in p.files()), p.files())
        n_sent += hub.n_sent
    check(n_killed >= n // 2, n_killed)
    # after a kill, only the chunks in flight are repeated
    p = fresh({"a-Q8_0.gguf": BIG})
    hub.pause = 0.02
    check(kill_at(p, 4 * CHUNK))
    first = hub.n_sent
    hub.pause = 0
    check(bytes_of(p.pull("hf:org/repo", "--connections", "1")) == BIG)
    check(hub.n_sent - first < len(BIG), f"{hub.n_sent - first} bytes after {first}")


# ---- the commands ----

def test_remove():
    """rm removes what no other snapshot uses, and asks first."""
    p = fresh({"a-Q8_0.gguf": TINY, "b-Q4_0.gguf": SMALL})
    hub.add_repo("org/repo", {"a-Q8_0.gguf": TINY, "b-Q4_0.gguf": b"4" * 2000}, "v2")
    for name in ("hf:org/repo:Q8_0", "hf:org/repo:Q4_0", "hf:org/repo:Q8_0@v2"):
        p.pull(name)
    listed = [m["name"] for m in json.loads(p.quoth("list", "--json")[1])]
    check(listed == ["hf:org/repo:Q8_0", "hf:org/repo:Q4_0", "hf:org/repo:Q8_0@v2"], listed)
    check("hf:org/repo:Q4_0" in p.quoth("list")[1] and "859 kB" in p.quoth("list")[1], p.quoth("list")[1])
    blobs = p.blobs("org/repo")
    p.refused("rm", "hf:org/repo:Q8_0", has=["--yes"])
    check(p.quoth("rm", "hf:org/repo:Q8_0", "--yes")[2] == "0 B freed\n" and sha256(TINY) in os.listdir(blobs))
    p.refused("show", "hf:org/repo:Q8_0", has=["not found on this machine", "quoth pull hf:org/repo:Q8_0"])
    check("quoth pull" not in p.refused("rm", "hf:org/repo:Q8_0", "--yes", has=["not found on this machine"]))
    check(p.quoth("rm", "hf:org/repo:Q4_0", "-y")[2] == "859 kB freed\n" and os.listdir(blobs) == [sha256(TINY)])
    check(p.quoth("rm", "hf:org/repo:Q8_0@v2", "-y")[0] == 0 and p.files() == [], p.files())
    check(not os.path.exists(os.path.dirname(blobs)))
    check(p.quoth("list", "--json")[1] == "[]\n")
    # a file of another program whose name no list may contain does not hide the model
    odd = os.path.join(os.path.dirname(p.pull("hf:org/repo:Q8_0")), "a\\b\x1b")
    with open(odd, "w"):
        pass
    _, listed, warning = p.quoth("list", "--json")
    check([m["name"] for m in json.loads(listed)] == ["hf:org/repo:Q8_0"], listed)
    check("left out" in warning and "\x1b" not in warning, warning)
    status, _, warning = p.quoth("rm", "hf:org/repo:Q8_0", "-y")
    check(status == 0 and "kept" in warning and os.path.exists(odd) and p.quoth("list", "--json")[1] == "[]\n", warning)


def at_terminal(p, answer, *words):
    """Run a command at a terminal, and type an answer. Return (status, output)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(QUOTH, [QUOTH, *words], {**p.env, "TERM": "dumb"})
    out, typed = b"", False
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
        if not typed and b"? [" in out:
            os.write(fd, answer.encode() + b"\n")
            typed = True
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), out.decode()


def test_missing_models():
    """A missing MODEL is downloaded with --pull, or after a question. Otherwise the error has the
    command."""
    p = fresh({"a-Q8_0.gguf": TINY})
    for words in (["run", "hf:org/repo", "hi"], ["tokenize", "hf:org/repo"], ["inspect", "hf:org/repo"], ["serve", "hf:org/repo"],
                  ["grammar", "check", "--tokenizer", "hf:org/repo", "--regex", "a"]):
        p.refused(*words, has=["hf:org/repo: not found on this machine", "quoth pull hf:org/repo"]) if words[0] != "grammar" else None
    check(not hub.requests)
    p.refused("run", "hf:org/repo", "--pull", "hi", has=["not found on this machine"], env={"HF_HUB_OFFLINE": "1"})
    p.refused("pull", "hf:org/repo", has=["HF_HUB_OFFLINE"], env={"HF_HUB_OFFLINE": "1"})
    check(not hub.requests)
    status, out = at_terminal(p, "n", "inspect", "hf:org/repo")
    check(status == 1 and "Download it? [Y/n]" in out and not hub.requests, out)
    status, out = at_terminal(p, "", "inspect", "hf:org/repo")
    check(status == 0 and "general.architecture" in out and "left" in out, out[-600:])
    shutil.rmtree(p.cache)
    status, out, err = p.quoth("run", "hf:org/repo", "The sea", "--pull", "--raw", "-n", "8")
    check(status == 0 and out, err)
    status, out = at_terminal(p, "n", "rm", "hf:org/repo")
    check(status == 1 and "[y/N]" in out and len(p.files()) > 0, out)
    status, out = at_terminal(p, "y", "rm", "hf:org/repo:Q8_0")
    check(status == 0 and p.files() == [], out)


try:
    run([test_gguf, test_choice, test_safetensors, test_other_programs, test_ollama, test_names, test_hostile_lists, test_token, test_cuts,
         test_statuses, test_wrong_bytes, test_damaged_partial, test_full_disk, test_two_pullers, test_kills, test_remove, test_missing_models])
finally:
    hub.close()
