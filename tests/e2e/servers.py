#!/usr/bin/env python3
"""Goal: compare/servers sends the same requests to all servers, measures them, and prints the
correct ratios. Method: compare quoth serve with programs that answer like llama-server, with known
delays. These programs record the real time of each send, because a busy machine may wake a program
late.

Environment: QUOTH the program, QUOTH_ROOT the repository. The script prints "ok NAME", "skip NAME"
or "FAIL NAME: why" per test."""
import json
import os
import statistics
import subprocess
import sys

from server import MODEL, QUOTH, ROOT, SLOW, TMP, check, run

FIRST_MS, EACH_MS, N_GEN = 60, 20, 8
PEER = r'''#!/usr/bin/env python3
"""llama-server: FIRST_MS to the first token, EACH_MS to each next one, PIECE tokens in a piece."""
import asyncio, json, os, sys
FIRST_MS, EACH_MS, PIECE, STATUS = %r
if "--help" in sys.argv:
    print("--flash-attn FA\n--batch-size N\n--cache-ram N\n--no-webui")
    sys.exit(0)
port, log = int(sys.argv[sys.argv.index("--port") + 1]), open(sys.argv[0] + ".log", "a", buffering=1)
print(json.dumps(sys.argv[1:]), file=log)

async def serve(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"GET /health"):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n{}")
        return await end(writer)
    n = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    body = json.loads(await reader.readexactly(n))
    writer.write(b"HTTP/1.1 %%d X\r\nTransfer-Encoding: chunked\r\n\r\n" %% STATUS)
    loop, n_token, sent = asyncio.get_running_loop(), 0, []
    start = loop.time()
    while n_token < body["max_tokens"]:
        n_token += PIECE
        when = start + (FIRST_MS + EACH_MS * (n_token // PIECE - 1)) / 1e3
        await asyncio.sleep(when - loop.time())
        sent.append(loop.time())
        put(writer, {"choices": [{"text": " a"}]})
    print(json.dumps({"prompt": body["prompt"], "read": start, "sent": sent}), file=log)
    put(writer, {"choices": [], "usage": {"completion_tokens": n_token}})
    await end(writer, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

def put(writer, o):
    data = f"data: {json.dumps(o)}\n\n".encode()
    for part in data[:7], data[7:]:  # two pieces, as from a proxy
        writer.write(b"%%x\r\n%%s\r\n" %% (len(part), part))

async def end(writer, data=b""):
    writer.write(data)
    await writer.drain()
    writer.close()

async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", port) as s:
        await s.serve_forever()
asyncio.run(main())
'''


def peer(name, piece=1, status=200):
    folder = os.path.join(TMP, name)
    os.makedirs(folder)
    path = os.path.join(folder, "llama-server")
    with open(path, "w") as f:
        f.write(PEER % ((FIRST_MS, EACH_MS, piece, status),))
    os.chmod(path, 0o755)
    return folder


def servers(*args):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "compare", "servers"), MODEL, "--quoth", QUOTH, "--users", "4",
                           "--per-user", "2", "-p", "24", "-n", str(N_GEN), "--shared", "64", "-t", "2", *args],
                          capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout, done.stderr


def log_of(folder):
    with open(os.path.join(folder, "llama-server.log")) as f:
        lines = [json.loads(line) for line in f]
    return lines[0], lines[2:]  # flags, and requests after the warm-up


def close_to(rows, case, rounds, busy):
    """Check that the figures of a case are those of the peer's record of its waves, except for the
    time between client and peer. busy: compare/servers reported that other processes took time."""
    known = {"ttft p50": [], "itl p50": [], "tokens/s": []}
    for wave in rounds:
        known["ttft p50"].append(1e3 * statistics.median(r["sent"][0] - r["read"] for r in wave))
        known["itl p50"].append(1e3 * statistics.median(b - a for r in wave for a, b in zip(r["sent"], r["sent"][1:])))
        seconds = max(r["sent"][-1] for r in wave) - min(r["read"] for r in wave)
        known["tokens/s"].append(len(wave) * N_GEN / seconds)
        for r in wave:  # the delays of the peer
            check(all(t - r["read"] >= (FIRST_MS + i * EACH_MS) / 1e3 - 0.002 for i, t in enumerate(r["sent"])), r)
    for what, want in known.items():
        want, got = statistics.median(want), rows[case, what]["theirs"]
        slack = 0.1 * want + (0 if what == "tokens/s" else 8)
        near = want / 20 < got < 20 * want if busy else abs(got - want) < slack * (5 if SLOW else 1)
        check(near, (case, what, got, want))


def measures():
    """the measured figures are those of a server's known delays"""
    a = peer("a")
    status, out, err = servers("--keep", "--rounds", "2", "--json", "--peer", f"a={a} --more 5")
    check(status == 0, err)
    rows = {(r["case"], r["what"]): r for r in map(json.loads, out.splitlines())}
    check({c for c, _ in rows} == {"one", "many", "turns", "shared", "again"}, out)
    flags, requests = log_of(a)
    check(len(requests) == 2 * (2 + 4 + 8 + 4 + 4), len(requests))
    for case, at, n in ("one", 0, 2), ("many", 2, 4), ("shared", 14, 4):
        close_to(rows, case, [requests[at:at + n], requests[22 + at:22 + at + n]], "counts although" in err)
    for r in rows.values():
        check(r["rounds"] == 2 and r["min"] <= r["median"] <= r["max"], r)
        check(r["case"] == "again" or r["what"] not in ("tokens/s", "itl p99") or r["case"] == "one" or r["bar"], r)
    fast = rows["one", "itl p50"]
    check("counts although" in err or fast["quoth"] < fast["theirs"] and fast["median"] < 1, fast)
    check(flags[-4:-2] == ["--more", "5"] and "-fa" in flags and flags[flags.index("-np") + 1] == "4", flags)
    check("--ubatch-size" not in flags and "-ub" not in flags, flags)
    prompts = [r["prompt"] for r in requests[:22]]
    check([len(p) for p in prompts] == [24] * 14 + [88] * 8, [len(p) for p in prompts])
    check(len({tuple(p[:64]) for p in prompts[14:]}) == 1 and len({tuple(p[-24:]) for p in prompts}) == 22, prompts)
    check(requests[22 + 14]["prompt"][:64] != prompts[14][:64], "each round has a system prompt of its own")


def table():
    """the table is readable, a server that merges tokens is reported, and a server that fails is
    omitted"""
    b, c = peer("b", piece=2), peer("c", status=500)
    status, out, err = servers("--keep", "--rounds", "1", "--cases", "one,many", "--peer", f"b={b}/llama-server")
    check(status == 0 and "quoth / b" in out and "4 users at once" in out and ": met" in out, out + err)
    check("b puts several tokens into a piece" in err, err)
    status, out, err = servers("--keep", "--rounds", "1", "--cases", "one", "--peer", f"c={c}")
    check(status == 1 and "500" in err, err)


def refuses():
    """rounds on a busy machine are omitted, and wrong usage has exit status 2"""
    d = peer("d")
    status, out, err = servers("--rounds", "1", "--cases", "one", "--json", "--max-steal", "-1", "--peer", f"d={d}")
    check(status == 1 and not out and "does not count" in err, (status, out, err))
    check(servers("--peer", "d=/nowhere")[0] == 2)
    check(servers("--cases", "again", "--peer", f"d={d}")[0] == 2)


run([measures, table, refuses], timed=True)
