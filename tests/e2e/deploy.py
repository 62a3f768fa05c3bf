#!/usr/bin/env python3
"""Goal: the units, the configuration, nginx's site and the static program of deploy/ work
unchanged. Method: ExecStart of the unit runs with its environment, its system call filter and a
notify socket of this test. systemd's own tool passes a socket. A real nginx runs the site. The
static program runs in a root directory without any other file.

Environment: QUOTH the program, QUOTH_ROOT the repository, QUOTH_LONG=1 also builds the image if
docker is present. The script prints "ok NAME", "skip NAME" or "FAIL NAME: why" per test."""
import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

from server import LONG, MODEL, QUOTH, ROOT, SLOW, TMP, Elsewhere, Failed, Server, certificate, check, free_port, run

DEPLOY = os.path.join(ROOT, "deploy")
NOBODY = 65534
os.chmod(TMP, 0o711)  # programs also run as an unprivileged user


def unit(name):
    """Return {key: [values]} of a unit file."""
    found = {}
    with open(os.path.join(DEPLOY, name)) as f:
        for line in f:
            key, equals, value = line.strip().partition("=")
            if equals and not line.startswith(("#", "[")):
                found.setdefault(key, []).append(value)
    return found


def for_all(path):
    """Return a copy that every user can read."""
    to = os.path.join(TMP, os.path.basename(path))
    if not os.path.exists(to):
        shutil.copy(path, to)
        os.chmod(to, 0o755)
    return to


def place(value):
    """Replace a unit's specifiers and paths by folders of this test."""
    value = value.replace("%E", os.path.join(TMP, "etc")).replace("%C", os.path.join(TMP, "cache"))
    return value.replace("/usr/local/bin/quoth", for_all(QUOTH))


def config(**more):
    """Install deploy/serve.conf with other values for some names. Return its path."""
    with open(os.path.join(DEPLOY, "serve.conf")) as f:
        text = f.read()
    for name, value in more.items():
        text, n = re.subn(rf"^#?{name}:.*$", f"{name}: {value}", text, flags=re.M)
        check(n == 1, name)
    path = os.path.join(TMP, "etc", "quoth", "serve.conf")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    return path


# ---- systemd ----

CONFINE = r'''
import ctypes, os, re, subprocess, sys
calls, nobody, command = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3:]
ALLOW, EPERM = 0x7fff0000, 0x00050001
class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]
masked = lambda arg, bits: Compare(arg, 7, bits, bits)  # as MemoryDenyWriteExecute= does it
lib = ctypes.CDLL("libseccomp.so.2")
lib.seccomp_init.restype = ctypes.c_void_p
lib.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
lib.seccomp_load.argtypes = [ctypes.c_void_p]
def load(default, rules):
    f = lib.seccomp_init(default)
    for call, action, compare in rules:
        n = lib.seccomp_syscall_resolve_name(call.encode())
        if n >= 0:
            lib.seccomp_rule_add_array(f, action, n, len(compare), (Compare * 1)(*compare))
    assert lib.seccomp_load(f) == 0
if nobody:
    os.setgroups([])
    os.setgid(nobody)
    os.setuid(nobody)
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0  # NoNewPrivileges=
load(ALLOW, [("mmap", EPERM, [masked(2, 6)]), ("mprotect", EPERM, [masked(2, 4)]), ("pkey_mprotect", EPERM, [masked(2, 4)])])
load(EPERM, [(c, ALLOW, []) for c in calls])
os.execv(command[0], command)
'''


def filtered_calls():
    """Return the system calls that the unit allows; None if systemd-analyze or libseccomp is
    missing."""
    known = {}

    def members(name):
        if not name.startswith("@"):
            return {name}
        if name not in known:
            text = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
            lines = [line.strip() for line in text.splitlines()[1:]]
            known[name] = set().union(*[members(x) for x in lines if x and not x.startswith("#")])
        return known[name]

    allowed = set()
    try:
        for value in unit("quoth.service")["SystemCallFilter"]:
            if value.startswith("~"):
                allowed -= set().union(*[members(x) for x in value[1:].split()])
            else:
                allowed |= set().union(*[members(x) for x in value.split()])
        subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libseccomp.so.2')"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return allowed


def confined(command):
    """Run the command as the unit's user with its filter of system calls, if this system supports
    both."""
    # sanitizers map memory that is both writable and executable
    calls = None if SLOW else filtered_calls()
    if not calls:
        return command
    nobody = NOBODY if os.geteuid() == 0 else 0
    return [sys.executable, "-c", CONFINE, ",".join(sorted(calls | {"execve"})), str(nobody), *command]


def exec_start():
    """Return the unit's command and environment."""
    u = unit("quoth.service")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "NOTIFY_SOCKET": os.path.join(TMP, "told")}
    env.update(place(e).split("=", 1) for e in u["Environment"])
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    return place(u["ExecStart"][0]).split(), env


class Notify:
    """The receiver of NOTIFY_SOCKET, as in systemd."""

    def __init__(self):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = os.path.join(TMP, "told")
        if os.path.exists(path):
            os.unlink(path)
        self.s.bind(path)
        os.chmod(path, 0o777)
        self.s.settimeout(60)

    def hear(self):
        return self.s.recv(4096).decode()

    def close(self):
        self.s.close()


def units_are_well_formed():
    """systemd accepts all keys of the units, and its security rating of the service is good"""
    if not shutil.which("systemd-analyze"):
        return "no systemd-analyze"
    folder = os.path.join(TMP, "units")
    os.makedirs(folder)
    for name in "quoth.service", "quoth.socket":
        with open(os.path.join(DEPLOY, name)) as f, open(os.path.join(folder, name), "w") as to:
            to.write(f.read().replace("/usr/local/bin/quoth", QUOTH))
    paths = [os.path.join(folder, name) for name in ("quoth.service", "quoth.socket")]
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", *paths], capture_output=True, text=True)
    about = [line for line in (r.stdout + r.stderr).splitlines() if "quoth" in line]
    check(r.returncode == 0 and not about, r.stderr)
    r = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", paths[0]],
                       capture_output=True, text=True)
    if "unrecognized option" in r.stderr:
        return "an old systemd-analyze"
    check(r.returncode == 0, r.stdout[-200:] + r.stderr)


def unit_starts():
    """ExecStart of the unit becomes ready, answers and drains, with the installed configuration and
    confinement"""
    config(port=0, model=for_all(MODEL))
    command, env = exec_start()
    os.makedirs(env["XDG_CACHE_HOME"])
    if os.geteuid() == 0:
        os.chown(env["XDG_CACHE_HOME"], NOBODY, NOBODY)
    notify, log = Notify(), os.path.join(TMP, "unit-log")
    with open(log, "w") as f:
        p = subprocess.Popen(confined(command), env=env, stderr=f, stdout=f, cwd="/")
    try:
        check(notify.hear() == "READY=1")
        with open(log) as f:
            s = Elsewhere(int(re.search(r"http://127\.0\.0\.1:(\d+)", f.read()).group(1)))
        status, _, body = s.ask("POST", "/v1/completions", {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0})
        check(status == 200 and body["usage"]["completion_tokens"] == 8, body)
        p.send_signal(signal.SIGTERM)
        check(notify.hear() == "STOPPING=1")
        check(p.wait(float(unit("quoth.service")["TimeoutStopSec"][0])) == 0)
        with open(log) as f:
            rows = [json.loads(line) for line in f]
        check(any(r.get("path") == "/v1/completions" for r in rows), rows)
        check(not any(r.get("level") in ("warn", "error") for r in rows), rows)
    except (Failed, OSError, AttributeError) as e:
        with open(log) as f:
            raise Failed(f"{e}: {f.read()[-500:]}")
    finally:
        p.kill()
        p.wait()
        notify.close()
    config(port=70000)
    r = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    never = [int(x) for x in unit("quoth.service")["RestartPreventExitStatus"][0].split()]
    check(r.returncode in never and "port" in r.stderr, (r.returncode, r.stderr))


def socket_unit():
    """a client that connects before the model is loaded is answered: systemd opens the socket, and
    the first client starts quoth"""
    if not shutil.which("systemd-socket-activate"):
        return "no systemd-socket-activate"
    config(port=1, model=MODEL)  # only root may open port 1, so this port must have no effect
    command, env = exec_start()
    host = unit("quoth.socket")["ListenStream"][0].rsplit(":", 1)[0]
    check(host == "127.0.0.1", host)
    del env["NOTIFY_SOCKET"]
    for address in f"{host}:{free_port()}", os.path.join(TMP, "quoth.sock"):
        p = subprocess.Popen(["systemd-socket-activate", *[f"--setenv={k}={v}" for k, v in env.items()], "-l", address, *command],
                             stderr=subprocess.DEVNULL)
        try:
            c = socket.socket(socket.AF_UNIX if address[0] == "/" else socket.AF_INET)
            where = address if address[0] == "/" else (host, int(address.rsplit(":", 1)[1]))
            until = time.monotonic() + 20
            while c.connect_ex(where) and time.monotonic() < until:
                time.sleep(0.02)
            c.settimeout(60)
            c.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := c.recv(65536):
                data += piece
            check(b" 200 " in data and b"quoth-tiny" in data, data)
            p.terminate()
            check(p.wait(60) == 0)
        finally:
            p.kill()
            p.wait()


# ---- nginx ----


def nginx_program():
    """Return the path of an installed nginx, or of Debian's package unpacked under build/, or None.
    No package is installed, and no service is started."""
    folder = os.path.join(ROOT, "build", "nginx")
    places = [shutil.which("nginx"), "/usr/sbin/nginx", os.path.join(folder, "usr", "sbin", "nginx")]
    found = [p for p in places if p and os.path.exists(p)]
    if found or not shutil.which("apt-get") or not shutil.which("dpkg"):
        return found[0] if found else None
    os.makedirs(folder, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", "-qq", "nginx"], cwd=folder, check=True, capture_output=True, timeout=60)
        for name in os.listdir(folder):
            if name.endswith(".deb"):
                subprocess.run(["dpkg", "-x", name, "."], cwd=folder, check=True, capture_output=True)
        subprocess.run([places[-1], "-v"], check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return places[-1]


class Nginx:
    """A real nginx with deploy/nginx.conf. Only addresses, certificate and paths are changed."""

    def __init__(self, program, upstream, pair):
        self.port, self.folder = free_port(), os.path.join(TMP, "nginx")
        os.makedirs(self.folder)
        with open(os.path.join(DEPLOY, "nginx.conf")) as f:
            site = f.read()
        for old, new in (("listen 443 ", f"listen 127.0.0.1:{self.port} "), ("unix:/run/quoth.sock", f"unix:{upstream}"),
                         ("/etc/ssl/certs/llm.example.com.pem", pair[0]), ("/etc/ssl/private/llm.example.com.key", pair[1])):
            check(site.count(old) == 1, old)
            site = site.replace(old, new)
        with open(os.path.join(self.folder, "site"), "w") as f:
            f.write(site)
        temp = "".join(f"{x}_temp_path {self.folder}/{x};\n" for x in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(os.path.join(self.folder, "conf"), "w") as f:
            f.write(f"daemon off;\n{'user root;' if os.geteuid() == 0 else ''}\npid {self.folder}/pid;\nworker_processes 1;\n"
                    f"error_log {self.folder}/error warn;\nevents {{ worker_connections 512; }}\n"
                    f"http {{ access_log off;\n{temp} include {self.folder}/site; }}\n")
        command = [program, "-p", self.folder, "-e", f"{self.folder}/error", "-c", f"{self.folder}/conf"]
        r = subprocess.run([*command, "-t"], capture_output=True, text=True)
        # newer versions write this warning
        warned = [x for x in r.stderr.splitlines() if "[warn]" in x and "http2" not in x]
        check(r.returncode == 0 and not warned, r.stderr)
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.context = ssl.create_default_context(cafile=pair[0])
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.05)
        raise Failed("nginx did not start")

    def connect(self, source="127.0.0.1"):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(source, 0))
        return self.context.wrap_socket(s, server_hostname="localhost")

    def say(self, method, path, body=b"", more="", **how):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        c = self.connect(**how)
        more += "" if "ontent-Length" in more else f"Content-Length: {len(body)}\r\n"
        c.sendall(f"{method} {path} HTTP/1.1\r\nHost: llm.example.com\r\nConnection: close\r\n{more}\r\n".encode() + body)
        return c

    def ask(self, *what, **how):
        """Send a request. Return (status, head, body)."""
        c = self.say(*what, **how)
        # do not wait for the end of the connection, because nginx delays it after a rejection
        with c, c.makefile("rb") as f:
            head = b"".join(iter(f.readline, b"\r\n"))
            body = f.read(int(re.search(rb"content-length: (\d+)", head.lower()).group(1)))
        return int(head.split()[1]), head.decode(), body

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def bytes_until_token(nginx, body, source):
    """Return the number of bytes that were read until the first token of a stream, and hang up."""
    with nginx.say("POST", "/v1/completions", body, source=source) as c:
        data = b""
        while b"data: " not in data:
            piece = c.recv(65536)
            check(piece, "the stream ended without a token")
            data += piece
    return len(data)


def hangups(s, want):
    """Wait until the server has counted this number of hang-ups."""
    until = time.monotonic() + 20
    while s.unix_metric("quoth:http_hangups_total") < want and time.monotonic() < until:
        time.sleep(0.02)
    check(s.unix_metric("quoth:http_hangups_total") == want, "the server did not count a hang-up")


def through_nginx(nginx, s):
    long = {"prompt": "Once", "max_tokens": 900, "ignore_eos": True, "stream": True}
    status, head, body = nginx.ask("GET", "/v1/models", more="X-Request-Id: mine-1\r\n")
    check(status == 200 and b"quoth-tiny" in body and "mine-1" in head, (head, body))
    check(re.search(r"x-request-id: [0-9a-f]{32}", nginx.ask("GET", "/health")[1].lower()))
    with nginx.say("POST", "/v1/completions", {**long, "n": 8}) as c:
        data = b"".join(iter(lambda: c.recv(65536), b""))
    check(b"[DONE]" in data and data.count(b'"finish_reason":"length"') == 8, data[-600:])
    # A proxy that buffers holds tokens until they fill its buffer of 4 KiB, in every attempt. The first
    # read of a slow reader may contain several tokens, but not in every attempt. nginx limits the rate
    # of each address.
    n = s.unix_metric("quoth:http_hangups_total")
    for i in range(50):
        n_byte = bytes_until_token(nginx, {**long, "n": 2}, f"127.0.2.{i + 1}")
        n += 1
        hangups(s, n)
        if n_byte < 2048:
            break
    check(n_byte < 2048, f"the proxy held the first tokens back: {n_byte} bytes came at once")
    for stream in True, False:  # the disconnect of a client of nginx is detected, too
        c = nginx.say("POST", "/v1/completions", {**long, "stream": stream, "n": 4})
        until = time.monotonic() + 20
        while s.unix_ask("/load")["running"] == 0 and time.monotonic() < until:
            time.sleep(0.01)
        c.close()
        n += 1
        hangups(s, n)
    check(nginx.ask("GET", "/metrics")[0] == 200 and nginx.ask("GET", "/metrics", source="127.0.0.2")[0] == 403)


def refused_by_nginx(nginx):
    status, _, body = nginx.ask("POST", "/v1/completions", more="Content-Length: 99999999\r\n")
    check(status == 413 and json.loads(body)["error"]["type"] == "invalid_request_error", body)
    n, c, data = 300, nginx.connect(source="127.0.3.1"), b""
    c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * (n - 1) +
              b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
    while piece := c.recv(65536):
        data += piece
    got = re.findall(rb"HTTP/1\.[01] (\d+)", data)
    full = got.count(b"429")
    check(len(got) == n and 0 < full < n - 30, got)
    check(full == data.count(b'"rate_limit_exceeded"') == data.count(b"Retry-After: 1\r\n"), data[-600:])


def behind_nginx():
    """behind nginx, streams arrive token by token, disconnects are detected, and nginx's errors
    have OpenAI's form"""
    program, pair = nginx_program(), certificate()
    if not program or not pair:
        return "no nginx" if pair else "no openssl"
    path = os.path.join(TMP, "upstream")
    s = Server("--uds", path)

    def unix_get(what):
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(path)
            c.sendall(f"GET {what} HTTP/1.0\r\n\r\n".encode())
            data = b""
            while piece := c.recv(65536):
                data += piece
        return data.split(b"\r\n\r\n", 1)[1].decode()

    s.unix_ask = lambda what: json.loads(unix_get(what))
    s.unix_metric = lambda name: sum(float(r.rsplit(" ", 1)[1]) for r in unix_get("/metrics").splitlines() if r.startswith(name))
    nginx = None
    try:
        nginx = Nginx(program, path, pair)
        through_nginx(nginx, s)
        refused_by_nginx(nginx)
        s.stop()
        time.sleep(1.5)  # wait for more tokens of the rate limit
        status, head, body = nginx.ask("GET", "/v1/models")
        check(status == 503 and "Retry-After: 5" in head and "error" in json.loads(body), (head, body))
    finally:
        s.process.kill()
        if nginx:
            nginx.stop()


# ---- one file ----


def health():
    """quoth health reports whether a server is ready, over TCP and a unix socket"""
    def ask(*args):
        r = subprocess.run([QUOTH, "health", *args], capture_output=True, text=True, timeout=60)
        return r.returncode, r.stdout + r.stderr

    s = Server("--api-key", "sk-x")
    check(ask(s.url) == (0, f"{s.url} is ready\n"), ask(s.url))
    check(ask(s.url + "/v1")[0] == 0 and ask(f"http://localhost:{s.port}")[0] == 0)
    s.stop()
    status, text = ask(s.url)
    check(status == 1 and "refused" in text, text)
    s = Server("--uds", os.path.join(TMP, "h.sock"))
    check(ask(s.url)[0] == 0, ask(s.url))
    s.stop()
    check(ask("ftp://x")[0] == 2 and ask("http://127.0.0.1:x:y")[0] in (1, 2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        status, text = ask(f"http://127.0.0.1:{silent.getsockname()[1]}", "--timeout", "1")
        check(status == 1 and "timed out" in text, text)
    with socket.create_server(("127.0.0.1", 0)) as rude:  # it resets each connection after the request

        def reset():
            c, _ = rude.accept()
            c.recv(10)
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            c.close()

        resets = threading.Thread(target=reset, daemon=True)
        resets.start()
        status, text = ask(f"http://127.0.0.1:{rude.getsockname()[1]}", "--timeout", "60")
        check(status == 1 and "cannot read" in text, text)
        resets.join(60)
    pair = certificate()
    if pair:
        s = Server("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1])
        status, text = ask(f"http://127.0.0.1:{s.port}")
        check(status == 1, text)
        s.stop()


def served_by(command, **how):
    """Start a program that serves its own model, send a request, and stop it."""
    log = os.path.join(TMP, f"log-{time.monotonic_ns()}")
    with open(log, "w") as f:
        p = subprocess.Popen([*command, "serve", "--port", "0"], stderr=f, stdout=f, stdin=subprocess.DEVNULL, **how)
    try:
        s, found, until = Elsewhere(0, log), None, time.monotonic() + 60
        while not found and p.poll() is None and time.monotonic() < until:
            found = re.search(r" at http://127\.0\.0\.1:(\d+)$", s.text(), re.M)
            time.sleep(0.02)
        check(found, s.text())
        s.port = int(found.group(1))
        body = {"messages": [{"role": "user", "content": "What is 47 + 38?"}], "temperature": 0, "max_tokens": 40}
        status, _, answer = s.ask("POST", "/v1/chat/completions", body)
        check(status == 200 and "85" in answer["choices"][0]["message"]["content"], answer)
        asked = subprocess.run([*command, "health", f"http://127.0.0.1:{s.port}"], capture_output=True, text=True)
        check(asked.returncode == 0, asked.stderr)
        p.terminate()
        check(p.wait(60) == 0, s.text())
    finally:
        p.kill()
        p.wait()


def packed():
    """a packed program serves the model inside it, in any folder"""
    path = os.path.join(TMP, "packed")
    subprocess.run([QUOTH, "pack", MODEL, "-o", path], check=True, capture_output=True)
    served_by([path], cwd="/", env={"PATH": "/usr/bin"})


def static():
    """the static program serves under an unprivileged user, without /proc or other files"""
    if SLOW or QUOTH != os.path.join(ROOT, "build", "quoth"):
        return "not a build for that"
    made = subprocess.run(["make", "-s", "-C", ROOT, "static"], capture_output=True, text=True)
    check(made.returncode == 0, made.stdout + made.stderr)
    program = os.path.join(ROOT, "build", "quoth-static")
    check(".symtab" not in subprocess.run(["readelf", "-SW", program], capture_output=True, text=True).stdout, "it has symbols")
    r = subprocess.run([program, "pull", "hf:org/repo"], capture_output=True, text=True)
    check(r.returncode == 1 and "without libcurl" in r.stderr and "package" in r.stderr and "not make static" in r.stderr, r.stderr)
    if "(NEEDED)" in subprocess.run(["readelf", "-d", program], capture_output=True, text=True).stdout:
        return "it needs what is not on this system: " + " ".join(made.stdout.split())
    version = subprocess.run([program, "--version"], capture_output=True, text=True)
    check(version.returncode == 0 and version.stdout.startswith("quoth "), version.stderr)
    if os.geteuid() != 0 or not shutil.which("chroot"):
        served_by([program])
        return None
    root = os.path.join(TMP, "root")
    os.makedirs(root)
    shutil.copy(program, os.path.join(root, "quoth"))
    command = ["chroot", f"--userspec={NOBODY}:{NOBODY}", root, "/quoth"]
    for arguments, word in (["--version"], "quoth "), (["demo"], "get_weather"):
        r = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=200)
        check(r.returncode == 0 and word in r.stdout, (arguments, r.stdout[-200:], r.stderr[-300:]))
    served_by(command)
    os.makedirs(os.path.join(root, "etc"))
    with open(os.path.join(root, "etc", "hosts"), "w") as f:
        f.write("127.0.0.1 here.example\n")
    r = subprocess.run([*command, "health", "http://here.example:1"], capture_output=True, text=True)
    check("refused" in r.stderr, r.stderr)


def image():
    """the image is built, becomes healthy and serves"""
    if not LONG:
        return "QUOTH_LONG=1 builds it"
    if not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True).returncode:
        return "no docker"
    subprocess.run(["docker", "build", "-q", "-f", os.path.join(DEPLOY, "Dockerfile"), "-t", "quoth-test", ROOT], check=True)
    port = free_port()
    name = subprocess.run(["docker", "run", "-d", "--rm", "-p", f"127.0.0.1:{port}:8000", "quoth-test"], check=True,
                          capture_output=True, text=True).stdout.strip()
    try:
        state, until = "", time.monotonic() + 60
        while state != "healthy" and time.monotonic() < until:
            state = subprocess.run(["docker", "inspect", "-f", "{{.State.Health.Status}}", name], capture_output=True,
                                   text=True).stdout.strip()
            time.sleep(1)
        check(state == "healthy", state)
    finally:
        subprocess.run(["docker", "stop", name], capture_output=True)



def memory_limit():
    """--memory-limit bounds all planned memory, and a plan beyond it is rejected"""
    s = Server("--memory-limit", "200M", "--verbose", "--max-queued-requests", "100")
    try:
        plan = re.search(r"together +([\d.]+) MiB +of ([\d.]+)", s.text())
        check(plan and float(plan.group(1)) < 200 == float(plan.group(2)), s.text())
        body = {"prompt": "Once upon a time", "max_tokens": 100, "ignore_eos": True, "n": 4}
        threads = [threading.Thread(target=s.ask, args=("POST", "/v1/completions", {**body, "cache_salt": str(i)})) for i in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check(SLOW or s.rss_kib() < 200 * 1024, s.rss_kib())
        check(s.ask("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 1})[0] == 200)
    finally:
        s.stop()
    for options, words in ((["--memory-limit", "3M"], "the weights and this program take"),
                           (["--memory-limit", "200M", "--kv-cache-memory", "190M"], "lower --kv-cache-memory"),
                           (["--memory-limit", "much"], "must be a number of bytes")):
        out = subprocess.run([QUOTH, "serve", MODEL, "--port", "0", *options], capture_output=True, text=True, timeout=60)
        check(out.returncode and words in out.stderr and "--memory-limit" in out.stderr, (options, out))


run([units_are_well_formed, unit_starts, socket_unit, behind_nginx, health, memory_limit, packed, static, image], timed=True)
