#!/usr/bin/env python3
# alone: it measures time
"""Goal: a server with too many requests rejects some requests, and gives every client a share.
Method: serve the bundled model with low limits to competing keys, to clients that do not read, and
with unusual addresses, names and origins. serve.py tests a full queue and rates. abuse.py tests
hostile clients.

Environment: QUOTH the program, QUOTH_ROOT the repository. The script prints "ok NAME", "skip NAME"
or "FAIL NAME: why" per test."""
import fcntl
import http.client
import json
import os
import re
import shutil
import resource
import signal
import socket
import subprocess
import threading
import time

from badclients import STORY, Client, ask_once, in_threads, post, whole
from server import MODEL, QUOTH, SLOW, TMP, Elsewhere, Server, certificate, check, run


def key_file(text):
    path = os.path.join(TMP, f"keys-{time.monotonic_ns()}")
    with open(path, "w") as f:
        f.write(text)
    return path


def bearer(name):
    return {"Authorization": f"Bearer sk-{name}"}


def placed(server):
    """Return a stream on a new connection."""
    c = Client(server)
    c.say(post({"prompt": "Once", "max_tokens": 100000, "ignore_eos": True, "stream": True}))
    got = c.s.recv(4096)
    check(b" 200 OK" in got, got)
    return c


def probe(c):
    """Read a whole answer. Before the answer's last byte the connection counts as busy, not as
    idle."""
    c.say(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    r = http.client.HTTPResponse(c.s)
    r.begin()
    check(r.status == 200 and len(r.read()) == int(r.getheader("Content-Length")), r.status)


def connections_on(*options):
    s = Server("--max-connections", "4", *options)
    try:
        idle = [Client(s) for _ in range(4)]
        for c in idle:
            probe(c)
        held = [placed(s) for _ in range(4)]  # each connection closes an idle connection
        check(all(c.s.recv(4096) == b"" for c in idle), "idle connections are closed for new ones")
        status, headers, answer = s.ask("POST", "/v1/completions", STORY)
        check(status == 503 and headers["Retry-After"] == "1" and headers["Connection"] == "close", (status, answer))
        check(answer["error"]["type"] == "service_unavailable_error" and "connections" in answer["error"]["message"], answer)
        check(s.ask("GET", "/health")[0] == 200, "probes are answered from a reserve")
        check(all(b"data: " in c.s.recv(4096) for c in held), "those that were there before have lost their connection")
        held[0].close()
        until = time.monotonic() + 10
        while s.ask("POST", "/v1/completions", STORY)[0] != 200:
            check(time.monotonic() < until, "a place is free and not given")
            time.sleep(0.02)
        for c in held:
            c.close()
    finally:
        s.stop()


def connections():
    """connections above the limit get 503 with Retry-After, and existing connections remain"""
    connections_on()
    pair = certificate()
    if pair:
        connections_on("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1])


def descriptors():
    """a low limit of descriptors is raised to the number that the connections need"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 600:
        return f"no more than {hard} descriptors"
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        s = Server("--max-connections", "300")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 4096 else 4096, hard))
    try:
        held = [Client(s, 5) for _ in range(250)]
        for c in held:
            c.say(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check(all(b" 200 OK" in c.s.recv(4096) for c in held))
        for c in held:
            c.close()
    finally:
        s.stop()


# ---- keys that compete ----

class Rival:
    """A key with many concurrent requests, whose connections are opened before the requests.
    n_done: number of complete answers."""

    def __init__(self, server, name, count, max_tokens):
        self.n_done, self.wrong = 0, []
        self.request = post({"prompt": "Once", "max_tokens": max_tokens, "ignore_eos": True},
                            more=f"Authorization: Bearer sk-{name}\r\n")
        self.clients = [Client(server) for _ in range(count)]
        self.threads = [threading.Thread(target=self.one, args=(c,), daemon=True) for c in self.clients]

    def start(self):
        for c in self.clients:
            c.say(self.request)
        for t in self.threads:
            t.start()

    def one(self, c):
        r = http.client.HTTPResponse(c.s)
        try:
            r.begin()
            answer = r.read()
            if r.status != 200:
                self.wrong.append(answer)
        except (OSError, http.client.HTTPException) as e:
            self.wrong.append(e)
        self.n_done += 1
        c.close()

    def join(self):
        for t in self.threads:
            t.join()
        check(not self.wrong, self.wrong[:1])


def compete(s, n):
    """Let n requests of each key arrive together while the server is occupied. Return both keys, a
    with the weight 1 and b with 3."""
    b, a = Rival(s, "b", n, 60), Rival(s, "a", n, 60)
    first = [Client(s) for _ in range(2)]
    for c in first:
        c.say(post({**STORY, "max_tokens": 900, "ignore_eos": True, "stream": True}, more="Authorization: Bearer sk-c\r\n"))
    check(all(b" 200 " in c.hear(100) for c in first))
    s.process.send_signal(signal.SIGSTOP)  # this client may be slow
    try:
        b.start()
        a.start()
    finally:
        s.process.send_signal(signal.SIGCONT)
    for c in first:
        c.reset()
    return a, b


def fair_shares():
    """keys share the machine by their weights, and a flooding key delays no other"""
    n = 16 if SLOW else 48
    s = Server("--api-key-file", key_file("sk-a name=a\nsk-b name=b share=3\nsk-c name=c\n"), "--max-num-seqs", "2",
               "--disable-access-log")
    s.headers = bearer("c")
    try:
        flood = Rival(s, "a", n, 60)
        flood.start()
        until = time.monotonic() + 60
        while s.metric("vllm:num_requests_waiting") < n / 2 and flood.n_done == 0 and time.monotonic() < until:
            pass
        before = flood.n_done
        check(s.ask("POST", "/v1/completions", {**STORY, "max_tokens": 8}, bearer("c"))[0] == 200)
        passed = flood.n_done - before
        check(passed <= n / 4, f"{passed} of {n} requests went before that of a key that had had nothing")
        flood.join()
        a, b = compete(s, n)
        b.join()
        share = a.n_done / n
        # the expected share is 1/3 without the other key's earlier start; it is 0 for first come,
        # first served, and 1 for equal weights
        check(0.15 < share < 0.55,
              f"a key of weight 3 has had all of {n}, one of weight 1 {a.n_done}")
        a.join()
        print(f"     {passed} of {n} went before another key's first; {share:.2f} of weight 1 were done with all of weight 3")
    finally:
        s.stop()


def separate_caches():
    """keys share cached prefixes, but not with --separate-caches"""
    body = {"prompt": "Once upon a time there was a little girl. " * 20, "max_tokens": 1}

    def cached(server, name):
        status, _, answer = server.ask("POST", "/v1/completions", body, bearer(name))
        check(status == 200, answer)
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    keys = key_file("sk-a name=a\nsk-b name=b\n")
    for options in ((), ("--separate-caches",)):
        s = Server("--api-key-file", keys, *options)
        try:
            got = [cached(s, name) for name in "aab"]
            check(got[0] == 0 and got[1] > 0 and got[2] == (0 if options else got[1]), (options, got))
        finally:
            s.stop()


MASK, FACTOR, FLIP = 2**64 - 1, 0x9FB21C651E98DF25, 0xC73AB174C5ECD5A2


def spread(h):
    return h ^ (h << 49 | h >> 15) & MASK ^ (h << 24 | h >> 40) & MASK


def xxh3(text):
    """xxHash of 8 bytes"""
    h = spread(int.from_bytes(text[4:] + text[:4], "little") ^ FLIP) * FACTOR & MASK
    h = (h ^ (h >> 35) + 8) * FACTOR & MASK
    return h ^ h >> 28


def of_hash(h):
    """Return the 8 bytes with that hash."""
    back = pow(FACTOR, -1, 2**64)
    h = (h ^ h >> 28 ^ h >> 56) * back & MASK
    h = (h ^ (h >> 35) + 8) * back & MASK
    for _ in range(63):  # 64 repetitions do not change the hash
        h = spread(h)
    text = (h ^ FLIP).to_bytes(8, "little")
    return text[4:] + text[:4]


def forged_salts():
    """with --separate-caches no cache_salt gives access to another key's cache, even if its name is
    known"""
    check(xxh3(of_hash(12345)) == 12345)
    for i in range(10**6):
        other = f"other{i:03}"
        try:
            salt = of_hash((xxh3(b"tenant-a") | 1) ^ (xxh3(other.encode()) | 1)).decode()
            break
        except UnicodeDecodeError:
            continue
    body = {"prompt": "Once upon a time there was a little girl. " * 20, "max_tokens": 1}
    s = Server("--api-key-file", key_file(f"sk-a name=tenant-a\nsk-b name={other}\n"), "--separate-caches")
    try:
        for name, more in (("a", {}), ("b", {}), ("b", {"cache_salt": salt})):
            status, _, answer = s.ask("POST", "/v1/completions", {**body, **more}, bearer(name))
            found = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            check(status == 200 and found == 0, (name, more, found))
    finally:
        s.stop()


# ---- clients that do not read, and large requests ----

def slow_readers():
    """a client that does not read gets no steps, is disconnected in time, and delays no other"""
    s = Server("--timeout-write", "3", "--max-num-seqs", "8", "--disable-access-log")
    want = {"prompt": "Once", "n": 4, "logprobs": 20, "max_tokens": 900, "ignore_eos": True, "stream": True, "temperature": 1}
    try:
        slow = []
        for _ in range(2):
            c = socket.socket()
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.connect(("127.0.0.1", s.port))
            c.sendall(post(want))
            slow.append(c)
        check(all(c.recv(1, socket.MSG_PEEK) for c in slow))
        text = whole(s)
        until, n = time.monotonic() + 60, -1
        # wait until these clients are paused
        while n != s.metric("vllm:generation_tokens_total") and time.monotonic() < until:
            n = s.metric("vllm:generation_tokens_total")
            time.sleep(0.2 if not SLOW else 1)
        check(n < 2 * 4 * 900 * 0.9, f"{n} tokens for those who do not read")
        in_threads(lambda i: check(whole(s) == text))
        start = time.monotonic()
        while s.metric("quoth:http_hangups_total") < 2 and time.monotonic() < start + 15:
            time.sleep(0.05)
        check(s.metric("quoth:http_hangups_total") == 2, "they are still there")
        s.settle(10)
        check(s.metric("vllm:kv_cache_usage_perc") == 0)
        print(f"     {n:.0f} of {2 * 4 * 900} tokens were computed for them")
        for c in slow:
            c.close()
    finally:
        s.stop()


class Most(threading.Thread):
    """Measure the peak memory of a server until `end`, in MiB beyond its initial memory."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.over, self.before, self.most = server, False, server.rss_kib(), 0
        self.start()

    def run(self):
        while not self.over:
            self.most = max(self.most, self.server.rss_kib())
            time.sleep(0.002)

    def end(self):
        self.over = True
        self.join()
        return (self.most - self.before) / 1024


def much_memory():
    """bodies that would need much memory are rejected before its allocation"""
    s = Server("--disable-access-log")
    watch = Most(s)
    try:
        for item in ("{}", "[]", "1", '""'):
            body = '{"prompt": [' + f"{item}," * 3000000 + f"{item}]}}"
            status, _, answer = s.ask("POST", "/v1/completions", body)
            check(status == 400 and "values" in answer["error"]["message"], (item, answer))
    finally:
        took = watch.end()
        s.stop()
    check(SLOW or took < 150, f"{took:.0f} MiB")
    print(f"     {took:.0f} MiB at most")


def longest_gap(s, n, most):
    """Return the longest gap in seconds between pieces of two clients' streams. During this time,
    the server generates and writes another client's answer of n x most tokens. The time in which
    this program parses the answer does not count, because Python's other threads wait then."""
    gaps, over, end = [], threading.Event(), [float("inf")]

    def streams(i):
        while not over.is_set():
            c, last = Client(s), time.monotonic()
            c.say(post({**STORY, "max_tokens": 200, "ignore_eos": True, "stream": True}, more="Connection: close\r\n"))
            while c.s.recv(65536):
                now = time.monotonic()
                gaps.append(min(now, end[0]) - last)  # a gap that the answer's end interrupts counts until then
                if over.is_set():
                    break
                last = now
            c.close()

    def asks():
        body = {**STORY, "n": n, "logprobs": 20, "max_tokens": most, "ignore_eos": True}
        try:
            answer = ask_once(s, post(body, more="Connection: close\r\n"))
        finally:
            end[0] = time.monotonic()
            over.set()
        lists = [c["logprobs"]["top_logprobs"] for c in json.loads(answer)["choices"]]
        check(len(lists) == n and all(len(tops) == most for tops in lists), answer[:200])

    in_threads(lambda i: streams(i) if i else asks(), 3)
    return max(gaps)


def long_answers():
    """a long whole answer delays no stream"""
    n = 128
    s, gap = Server("--disable-access-log", "--max-num-seqs", str(n + 16)), 1
    try:
        # Writing the answer takes about 0.9 s. A single longer gap is due to other programs.
        for _ in range(1 if SLOW else 3):
            gap = gap if gap < 0.6 else longest_gap(s, n, 20 if SLOW else 300)
    finally:
        s.stop()
    check(SLOW or gap < 0.6, f"a stream stood still for {gap:.1f} s")
    print(f"     {1000 * gap:.0f} ms at most")


def much_asked():
    """small bodies with large requests get memory one after the other"""
    many, took = ["a"] * 2048, {}
    for name, refused, body in (
            ("answers", False, {"prompt": many[:512], "n": 128}),
            ("stops", True, {"prompt": ["a"] * 64, "n": 128, "stop": ["x" * 1000] * 1000}),
            ("ids", True, {"prompt": many, "allowed_token_ids": list(range(250)) * 400}),
            ("words", False, {"prompt": many, "bad_words": ["so many words "] * 4000})):
        s = Server("--disable-access-log", "--max-num-seqs", "1")
        watch = Most(s)
        try:
            c, start = Client(s), time.monotonic()
            c.say(post({**body, "max_tokens": 1}))
            c.s.settimeout(1)
            check((b" 400 " in c.hear(100)) == refused, name)
            c.reset()
            check(s.ask("POST", "/v1/completions", STORY)[0] == 200)
            check(SLOW or time.monotonic() - start < 10, f"{name}: others waited {time.monotonic() - start:.1f} s")
            s.settle()
        finally:
            took[name] = watch.end()
            s.stop()
        check(SLOW or took[name] < 150, f"{name}: {took[name]:.0f} MiB")
    print("     " + ", ".join(f"{name} {mib:.0f} MiB" for name, mib in took.items()))


def long_bodies():
    """long bodies delay no short request, are rejected before tokenization if they cannot fit, and
    end with their client"""
    if SLOW:
        return "sanitizers change what takes long"
    s = Server("--disable-access-log")
    text = b"\\n" * (15 << 20)

    def cpu():
        with open(f"/proc/{s.process.pid}/stat") as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    try:
        before = cpu()
        status, _, answer = s.ask("POST", "/v1/completions", b'{"prompt":"' + text + b'"}')
        refused = cpu() - before
        check(status == 400 and answer["error"]["code"] == "context_length_exceeded", answer)
        check(answer["error"]["n_prompt_tokens"] > answer["error"]["n_ctx"], answer)
        before = cpu()
        check(s.ask("POST", "/tokenize", b'{"prompt":"' + text + b'"}')[0] == 200)
        whole = cpu() - before
        check(refused < whole / 3, f"{refused:.1f} s to refuse, {whole:.1f} s to tokenize")
        before = cpu()
        leaving = [Client(s) for _ in range(4)]
        for c in leaving:
            c.say(post(b'{"prompt":"' + text + b'"}', "/tokenize"))
        for _ in range(5):
            check(s.ask("POST", "/v1/completions", STORY)[0] == 200)
        for c in leaving:
            c.close()
        s.settle()
        took = cpu() - before
        check(took < 2 * whole, f"{took:.1f} s for four that left, {whole:.1f} s for one that stayed")
        print(f"     {refused:.1f} s to refuse, {whole:.1f} s to tokenize, {took:.1f} s for four that left")
    finally:
        s.stop()


# ---- files ----

def shrinking_file():
    """a truncated model file changes no answer; it may end the server with an error message. With
    --no-mmap the file is not mapped"""
    path = os.path.join(TMP, "model.gguf")
    asked = {"prompt": "A dog and a cat went home to see", "max_tokens": 30, "temperature": 0, "logprobs": 3}
    shutil.copy(MODEL, path)
    s = Server("--disable-access-log", model=path)
    want = s.ask("POST", "/v1/completions", asked)[2]["choices"]
    os.truncate(path, 0)
    try:
        status = s.ask("GET", "/tokenizer_info")[0]  # the answer reads words of the file
    except OSError:
        status = 0
    if status == 200:  # the answer is complete
        s.stop()
    else:
        check(s.process.wait(20) == 1, f"status {s.process.returncode}")
        check(f"error: {path}: cannot read: the file was truncated" in s.text(), s.text()[-300:])
    shutil.copy(MODEL, path)
    s = Server("--disable-access-log", "--no-mmap", model=path)
    try:
        os.truncate(path, 0)
        check(s.ask("POST", "/v1/completions", asked)[2]["choices"] == want, "another answer")
        talk = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
        for method, where, body in (("POST", "/v1/chat/completions", talk), ("POST", "/apply-template", talk), ("GET", "/tokenizer_info", None),
                                    ("POST", "/v1/embeddings", {"input": "a"}), ("GET", "/v1/models", None), ("GET", "/metrics", None),
                                    ("POST", "/tokenize", {"prompt": "a", "return_token_strs": True}), ("POST", "/detokenize", {"tokens": [5]})):
            check(s.ask(method, where, body)[0] == 200, where)
        with open(f"/proc/{s.process.pid}/maps") as f:
            check(path not in f.read(), "the file is still mapped")
    finally:
        s.stop()


# ---- access ----

def warnings():
    """quoth warns about an address that others can reach if there is no key"""
    for options, warned in (((), False), (("--host", "0.0.0.0"), True), (("--host", "0.0.0.0", "--api-key", "sk-a"), False)):
        s = Server(*options)
        s.stop()
        check(("accepts requests without a key" in s.text()) == warned, (options, s.text()))


def names_and_origins():
    """listed names and origins are allowed, and a browser's preflight is answered"""
    s = Server("--allowed-origins", "https://app.example", "--allowed-hosts", "box.example", "--api-key", "sk-a")
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
    try:
        for headers, status in (({"Host": "box.example"}, 200), ({"Host": "box.example:80"}, 200), ({"Host": "box.examples"}, 403),
                                ({"Host": "evil.example"}, 403), ({"Origin": "https://app.example"}, 200),
                                ({"Origin": "https://app.example.evil"}, 403), ({"Origin": "null"}, 403),
                                ({"Origin": "http://127.0.0.1:3000"}, 200)):
            got, said, _ = s.ask("GET", "/health", headers=headers)
            check(got == status, (headers, got))
            check(said.get("Access-Control-Allow-Origin") == (headers.get("Origin") if got == 200 else None), dict(said))
        status, said, _ = s.ask("OPTIONS", "/v1/completions", headers={**ask, "Origin": "https://app.example"})
        check(status == 204 and said["Access-Control-Allow-Origin"] == "https://app.example", (status, dict(said)))
        check("POST" in said["Access-Control-Allow-Methods"] and "authorization" in said["Access-Control-Allow-Headers"])
        check(s.ask("OPTIONS", "/v1/completions", headers={**ask, "Origin": "https://evil.example"})[0] == 403)
        check(s.ask("POST", "/v1/completions", STORY, {"Origin": "https://app.example"})[0] == 401)
    finally:
        s.stop()


# ---- memory ----

def burst_memory():
    """the memory of a burst of large rejected bodies is returned within seconds"""
    s = Server("--disable-access-log", "--threads", "1")
    body = b'{"prompt":"a","max_tokens":1,"x":[' + b'{"a":1},' * 330000 + b"1]}"
    try:
        s.ask("POST", "/v1/completions", STORY)
        before = s.rss_kib()
        in_threads(lambda i: s.ask("POST", "/v1/completions", body), 8)
        end = time.monotonic() + 20
        while s.rss_kib() > before + (64 << 10) and time.monotonic() < end:
            time.sleep(0.1)
        check(s.rss_kib() <= before + (64 << 10), f"{s.rss_kib() >> 10} MiB are held, {before >> 10} before")
    finally:
        s.stop()


# ---- the log, and the end ----

def log_reader():
    """if a log reader stops, lines are lost and counted, but answers and the end by SIGTERM are not
    delayed"""
    p = subprocess.Popen([QUOTH, "serve", MODEL, "--port", "0", "--threads", "2"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    fcntl.fcntl(p.stderr, 1031, 4096)  # F_SETPIPE_SZ
    try:
        line = next(line for line in p.stderr if b" at http" in line)
        s = Elsewhere(int(line.rsplit(b":", 1)[1]))
        n = 8000
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30)
        for i in range(n):
            c.request("GET", "/health", headers={"X-Request-Id": "x" * 120})
            r = c.getresponse()
            r.read()
            check(r.status == 200, f"answer {i} has status {r.status}")
        c.close()
        lost = s.metric("quoth:log_lines_lost_total")
        check(0 < lost < n, f"{lost} of {n} lines were lost")
        p.send_signal(signal.SIGTERM)
        check(p.wait(20) == 0)
    finally:
        p.kill()
        p.wait()
        p.stderr.close()


def full_disk():
    """a log on a full disk has only whole lines, also after space is free again"""
    path = os.path.join(TMP, "access.log")
    s = Server("--access-log", path)
    try:
        def ask(n):
            for i in range(n):
                check(s.ask("GET", "/health", headers={"X-Request-Id": f"id-{i}-"})[0] == 200)
            time.sleep(0.3)
        ask(10)
        resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (os.path.getsize(path) + 1010, resource.RLIM_INFINITY))
        ask(50)
        resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        ask(10)
        s.stop()
        with open(path) as f:
            lines = f.read().splitlines()
        broken = [line for line in lines if not re.fullmatch(r"\S+Z \S+ - \"GET /health\" 200 0 \d+ [0-9.]+ms id-\d+-", line)]
        check(len(broken) == 2 and "lines of this log were lost" in broken[1], broken)
        check(20 < len(lines) < 60, len(lines))
    finally:
        s.stop()


def hang_up_signal():
    """SIGHUP drains like SIGTERM, also a second one, unless the server was started with it ignored"""
    s = Server()
    c = Client(s)
    c.say(post({"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "stream": True}))
    check(b" 200 OK" in c.s.recv(4096))
    s.process.send_signal(signal.SIGHUP)
    time.sleep(0.05)
    s.process.send_signal(signal.SIGHUP)
    s.ending = True
    rest = b""
    while piece := c.s.recv(65536):
        rest += piece
    check(b"data: [DONE]" in rest, "the answer was cut off")
    check(s.process.wait(30) == 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    s = Server()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    s.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    check(s.ask("GET", "/health")[0] == 200)
    s.stop()


run([*([] if SLOW else [burst_memory]), log_reader, full_disk, hang_up_signal, connections, descriptors, fair_shares, separate_caches, forged_salts, slow_readers, much_memory, shrinking_file, long_bodies, long_answers, much_asked,
     warnings, names_and_origins], timed=True)
