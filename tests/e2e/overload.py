#!/usr/bin/env python3
"""Goal: a server that is asked for too much says so, and gives everybody a share of what there is.
Method: the bundled model behind limits that are soon reached; keys that compete; readers that do not read; addresses, names
and origins that are not the usual ones. (A full queue and rates: serve.py. Malice: abuse.py.)

Environment: QUOTH the program, QUOTH_ROOT the repository. Prints "ok NAME", "skip NAME" or "FAIL NAME: why" per test."""
import json
import os
import resource
import socket
import threading
import time

from badclients import STORY, Client, ask_once, in_threads, post, whole
from server import SLOW, TMP, Server, certificate, check, run


def key_file(text):
    path = os.path.join(TMP, f"keys-{time.monotonic_ns()}")
    with open(path, "w") as f:
        f.write(text)
    return path


def bearer(name):
    return {"Authorization": f"Bearer sk-{name}"}


def connections_on(*options):
    s = Server("--max-connections", "4", *options)
    try:
        held = [Client(s) for _ in range(4)]
        for c in held:
            c.say(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            check(b" 200 OK" in c.s.recv(4096))
        status, headers, answer = s.ask("POST", "/v1/completions", STORY)
        check(status == 503 and headers["Retry-After"] == "1" and headers["Connection"] == "close", (status, answer))
        check(answer["error"]["type"] == "service_unavailable_error" and "connections" in answer["error"]["message"], answer)
        for c in held:
            c.say(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check(all(b" 200 OK" in c.s.recv(4096) for c in held), "those that were there before have lost their connection")
        held[0].close()
        until = time.monotonic() + 10
        while s.ask("GET", "/health")[0] != 200 and time.monotonic() < until:
            time.sleep(0.02)
        check(s.ask("POST", "/v1/completions", STORY)[0] == 200)
        for c in held:
            c.close()
    finally:
        s.stop()


def connections():
    """above the limit of connections there is 503 with Retry-After, and those that are there stay"""
    connections_on()
    pair = certificate()
    if pair:
        connections_on("--ssl-certfile", pair[0], "--ssl-keyfile", pair[1])


def descriptors():
    """a low limit of descriptors is raised to what the connections need"""
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
    """A key with many requests at once."""

    def __init__(self, server, name, count, max_tokens):
        self.server, self.name, self.n_done, self.wrong = server, name, 0, []
        self.body = {"prompt": "Once", "max_tokens": max_tokens, "ignore_eos": True}
        self.threads = [threading.Thread(target=self.one, daemon=True) for _ in range(count)]
        for t in self.threads:
            t.start()

    def one(self):
        status, _, answer = self.server.ask("POST", "/v1/completions", self.body, bearer(self.name))
        if status != 200:
            self.wrong.append(answer)
        self.n_done += 1

    def join(self):
        for t in self.threads:
            t.join()
        check(not self.wrong, self.wrong[:1])


def fair_shares():
    """keys share the machine by their weights, and one that floods holds nobody up"""
    n = 16 if SLOW else 48
    s = Server("--api-key-file", key_file("sk-a name=a\nsk-b name=b share=3\nsk-c name=c\n"), "--max-num-seqs", "2",
               "--disable-access-log")
    s.headers = bearer("c")
    try:
        flood = Rival(s, "a", n, 60)
        until = time.monotonic() + 60
        while s.metric("vllm:num_requests_waiting") < n / 2 and time.monotonic() < until:
            time.sleep(0.01)
        before = flood.n_done
        check(s.ask("POST", "/v1/completions", {**STORY, "max_tokens": 8}, bearer("c"))[0] == 200)
        passed = flood.n_done - before
        check(passed <= n / 4, f"{passed} of {n} requests went before that of a key that had had nothing")
        flood.join()
        first = [Client(s) for _ in range(2)]  # nobody else's turn comes before all have asked
        for c in first:
            c.say(post({**STORY, "max_tokens": 900, "ignore_eos": True, "stream": True}, more="Authorization: Bearer sk-c\r\n"))
        check(all(b" 200 " in c.hear(100) for c in first))
        b, a = Rival(s, "b", n, 60), Rival(s, "a", n, 60)
        until = time.monotonic() + 60
        while s.metric("vllm:num_requests_waiting") < 2 * n and time.monotonic() < until:
            time.sleep(0.01)
        for c in first:
            c.reset()
        b.join()
        share = a.n_done / n
        check(0.15 < share < 0.55,  # 1/3 without the other's head start; first come, first served makes it 0, equal weights 1
              f"a key of weight 3 has had all of {n}, one of weight 1 {a.n_done}")
        a.join()
        print(f"     {passed} of {n} went before another key's first; {share:.2f} of weight 1 were done with all of weight 3")
    finally:
        s.stop()


def separate_caches():
    """keys find each other's prefixes in the cache, but not with --separate-caches"""
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
    """of 8 bytes"""
    h = spread(int.from_bytes(text[4:] + text[:4], "little") ^ FLIP) * FACTOR & MASK
    h = (h ^ (h >> 35) + 8) * FACTOR & MASK
    return h ^ h >> 28


def of_hash(h):
    """the 8 bytes that xxh3 hashes so"""
    back = pow(FACTOR, -1, 2**64)
    h = (h ^ h >> 28 ^ h >> 56) * back & MASK
    h = (h ^ (h >> 35) + 8) * back & MASK
    for _ in range(63):  # spread 64 times changes nothing
        h = spread(h)
    text = (h ^ FLIP).to_bytes(8, "little")
    return text[4:] + text[:4]


def forged_salts():
    """with --separate-caches no cache_salt leads into another key's cache, though its name be known"""
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


# ---- who does not read, and who wants too much ----

def slow_readers():
    """who does not read stops being computed for, is cut off in time, and holds nobody up"""
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
        while n != s.metric("vllm:generation_tokens_total") and time.monotonic() < until:  # until they are held back
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
    """The most memory that a server takes until `end`, in MiB beyond what it had."""

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
    """bodies that would take much memory are refused before they take it"""
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
    """Seconds between pieces of two clients' streams, while another's whole answer of n x most tokens is made and written."""
    gaps, over = [], threading.Event()

    def streams(i):
        while not over.is_set():
            c, last = Client(s), time.monotonic()
            c.say(post({**STORY, "max_tokens": 200, "ignore_eos": True, "stream": True}, more="Connection: close\r\n"))
            while c.s.recv(65536):
                gaps.append(time.monotonic() - last)
                last = time.monotonic()
            c.close()

    def asks():
        body = {**STORY, "n": n, "logprobs": 20, "max_tokens": most, "ignore_eos": True}
        try:
            answer = ask_once(s, post(body, more="Connection: close\r\n"))
        finally:
            over.set()
        lists = [c["logprobs"]["top_logprobs"] for c in json.loads(answer)["choices"]]
        check(len(lists) == n and all(len(tops) == most for tops in lists), answer[:200])

    in_threads(lambda i: streams(i) if i else asks(), 3)
    return max(gaps)


def long_answers():
    """a whole answer that takes long to write holds up nobody's stream"""
    n = 128
    s, gap = Server("--disable-access-log", "--max-num-seqs", str(n + 16)), 1
    try:
        for _ in range(1 if SLOW else 3):  # it takes 0.9 s to write; what is more than that once is other programs' doing
            gap = gap if gap < 0.6 else longest_gap(s, n, 20 if SLOW else 300)
    finally:
        s.stop()
    check(SLOW or gap < 0.6, f"a stream stood still for {gap:.1f} s")
    print(f"     {1000 * gap:.0f} ms at most")


def much_asked():
    """small bodies that ask for much, many times over, do not get memory for it before its turn"""
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
        check(SLOW or took[name] < 250, f"{name}: {took[name]:.0f} MiB")
    print("     " + ", ".join(f"{name} {mib:.0f} MiB" for name, mib in took.items()))


# ---- who may come ----

def warnings():
    """an address that others reach is warned about where there is no key"""
    for options, warned in (((), False), (("--host", "0.0.0.0"), True), (("--host", "0.0.0.0", "--api-key", "sk-a"), False)):
        s = Server(*options)
        s.stop()
        check(("everybody who reaches" in s.text()) == warned, (options, s.text()))


def names_and_origins():
    """other names and origins are let in where they are listed, and a browser's question is answered"""
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


run([connections, descriptors, fair_shares, separate_caches, forged_salts, slow_readers, much_memory, long_answers, much_asked,
     warnings, names_and_origins])
