"""Common parts of tests in Python: paths, a server of the bundled model, its requests, and the
runner of tests. This module contains no tests."""
import atexit
import contextlib
import http.client
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.environ.get("QUOTH_ROOT") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUOTH = os.environ.get("QUOTH") or os.path.join(ROOT, "build", "quoth")
DATA = os.environ.get("QUOTH_DATA") or os.path.join(ROOT, "..", "shared", "data")
MODEL = os.path.join(ROOT, "models", "quoth-tiny", "quoth-tiny-q8_0.gguf")
LONG = os.environ.get("QUOTH_LONG") == "1"
SLOW = "-" in os.path.basename(os.path.dirname(QUOTH))  # true for a build with sanitizers
FEW = SLOW and not LONG  # smaller counts
PATIENCE = 10 if LONG and SLOW else 1  # factor of the time limits of answers
TMP = tempfile.mkdtemp(prefix="quoth-serve-")


children = []  # processes of servers; those of a test that failed may still run at the end


@atexit.register
def end_children():
    for p in children:
        if p.poll() is None:
            p.kill()


# the runner's time limit sends SIGTERM, which would end this program without its exit handlers
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class Failed(Exception):
    pass


def free_port():
    """Return a port below those that systems assign to port 0, so that no other server gets it
    first."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            pass


def check(ok, why="it did not hold"):
    if not ok:
        raise Failed(str(why)[:600])


def near(got, want, what):
    """Check that two lists of numbers, or of lists, have equal shapes and finite numbers, and that
    they differ by at most 1e-4 of the largest number."""
    shape = lambda x: [len(row) if isinstance(row, list) else None for row in x]  # noqa: E731
    flat = lambda x: [v for row in x for v in (row if isinstance(row, list) else [row])]  # noqa: E731
    check(shape(got) == shape(want), f"{what}: lists of {shape(got)} numbers, expected {shape(want)}")
    got, want = flat(got), flat(want)
    check(all(isinstance(v, (int, float)) and math.isfinite(v) for v in got + want), f"{what}: a number is not finite")
    top = max(abs(v) for v in want)
    apart = max(abs(a - b) for a, b in zip(got, want))
    check(apart <= 1e-4 * top, f"{what}: differs by {apart}, more than 1e-4 of {top}")


class Server:
    """quoth serve in the background. The standard error of the server is in self.log. The server
    measures the machine's peaks only with `peaks`, because this takes memory and time, which tests
    measure."""

    def __init__(self, *options, model=MODEL, peaks=False, env=None):
        self.headers = {}  # headers of every request
        self.tls = ssl._create_unverified_context() if "--ssl-certfile" in options else None
        self.log = os.path.join(TMP, f"log-{time.monotonic_ns()}")
        with open(self.log, "w") as log:
            measure = [] if peaks else ["--no-peaks"]
            self.process = subprocess.Popen([QUOTH, "serve", *([model] if model else []), "--port", "0", "--threads", "2", *measure, *options], stderr=log,
                                            stdout=log, env=env)
        children.append(self.process)
        until = time.monotonic() + 60
        found = None
        while not found and time.monotonic() < until and self.process.poll() is None:
            found = re.search(r' at ((?:http|unix:)[^\s"]+)"?}?$', self.text(), re.M)
            time.sleep(0.02)
        check(found, "the server did not start: " + self.text()[-400:])
        self.url = found.group(1)
        self.ending = False
        self.port = int(self.url.rsplit(":", 1)[1]) if self.url.startswith("http") else 0

    def text(self):
        with open(self.log, errors="replace") as f:
            return f.read()

    def connect(self, timeout=60 * PATIENCE):
        """Return a socket connected to the server, with TLS if the server requires TLS."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self.tls.wrap_socket(s, server_hostname="localhost") if self.tls else s
        except OSError:
            s.close()
            raise

    def ask(self, method, path, body=None, headers=None):
        """Send a request. Return (status, headers, JSON or bytes)."""
        c = http.client.HTTPConnection("127.0.0.1", self.port)
        c.sock = self.connect(120 * PATIENCE)
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            c.request(method, path, body, {**self.headers, **(headers or {})})
            r = c.getresponse()
            data = r.read()
        finally:
            c.close()
        kind = r.getheader("Content-Type", "")
        return r.status, r.headers, json.loads(data) if kind.startswith("application/json") else data

    def metric(self, name):
        text = self.ask("GET", "/metrics")[2].decode()
        return sum(float(row.rsplit(" ", 1)[1]) for row in text.splitlines() if row.startswith(name))

    def n_fd(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def settle(self, seconds=20):
        """Wait until no request is in flight, and only the connection of this call is open."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            load = self.ask("GET", "/load")[2]
            load["connections"] = self.metric("quoth:http_connections ")
            if load["server_load"] == load["running"] == load["waiting"] == 0 and load["connections"] == 1:
                return
            time.sleep(0.1)
        raise Failed(f"somebody is still there: {load}")

    def still(self):
        """Wait until no request is in flight. Return the server's resources: descriptors, KiB of
        memory, share of the KV pages."""
        self.settle(60)
        time.sleep(1)
        return self.n_fd(), self.rss_kib(), self.metric("vllm:kv_cache_usage_perc")

    def terminate(self):
        """Send SIGTERM once. A second SIGTERM would end the server immediately."""
        if not self.ending and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.ending = True

    def stop(self, wait=60):
        self.terminate()
        status = self.process.wait(wait)
        check(status == 0, f"status {status}: {self.text()[-1500:]}")


@contextlib.contextmanager
def serving_model(model, *options):
    """Run the block with a server of a model. The value is the server."""
    s = Server(*options, model=model)
    try:
        yield s
    finally:
        s.stop()


def code_model():
    """Make a folder of a model with Qwen's marks, in place of bytes that no text has."""
    folder = os.path.join(TMP, "code-model")
    shutil.copytree(os.path.join(ROOT, "tests", "golden", "internlm3"), folder, dirs_exist_ok=True)
    path = os.path.join(folder, "tokenizer.json")
    with open(path, encoding="utf-8") as f:
        t = json.load(f)
    vocab = t["model"]["vocab"]
    names = {"\u00f8": "<|fim_prefix|>", "\u00f9": "<|fim_suffix|>", "\u00fa": "<|fim_middle|>"}
    marks = {}
    for old, new in names.items():
        marks[new] = vocab[new] = vocab.pop(old)
        t["added_tokens"].append({"id": vocab[new], "content": new, "special": True, "single_word": False, "lstrip": False,
                                  "rstrip": False, "normalized": False})
    with open(path, "w", encoding="utf-8") as f:
        json.dump(t, f)
    return folder, marks


class Elsewhere(Server):
    """A server on this machine that another program started, with its standard error in `log`."""

    def __init__(self, port, log=None):
        self.port, self.log, self.tls, self.headers = port, log, None, {}


def certificate():
    """Return the paths of a self-signed certificate and its key, or None without openssl."""
    cert, key = os.path.join(TMP, "cert.pem"), os.path.join(TMP, "key.pem")
    if not os.path.exists(cert):
        try:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-days", "1",
                            "-keyout", key, "-out", cert], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return None
    return cert, key


def first_server(*options, **how):
    """Start the server for all tests of a file. A failed start is the file's only failure."""
    try:
        return Server(*options, **how)
    except Failed as e:
        print(f"FAIL quoth serve: {e}")
        sys.exit(1)


def attempt(test, timed):
    """Return the test's result. A test that depends on time gets a second attempt with
    QUOTH_AGAIN=1, because the machine may have been busy. .ci/run sets this variable and counts the
    attempts. Tests of answers get no second attempt."""
    try:
        return test()
    except Exception as e:
        if not timed or os.environ.get("QUOTH_AGAIN") != "1":
            raise
        print(f"again {test.__name__}: {type(e).__name__}: {e}", flush=True)
        time.sleep(2)
        return test()


def run(tests, timed=False):
    """Run all tests, or the tests whose names contain an argument. A test returns the reason if it
    was skipped. timed: the tests depend on time."""
    failed = 0
    for test in tests:
        name = (test.__doc__ or test.__name__).split("\n")[0].rstrip(".")
        if len(sys.argv) > 1 and not any(word in test.__name__ for word in sys.argv[1:]):
            continue
        start = time.monotonic()
        try:
            skip = attempt(test, timed)
            print(f"skip {name} ({skip})" if skip else f"ok   {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception as e:  # the other tests run after any exception
            failed += 1
            lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == test.__code__.co_filename]
            print(f"FAIL {name}: {type(e).__name__}: {e} (line {lines[-1] if lines else '?'})", flush=True)
    shutil.rmtree(TMP, ignore_errors=True)
    sys.exit(1 if failed else 0)
