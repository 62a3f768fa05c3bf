#!/usr/bin/env python3
"""Goal: a command with a failed allocation reports an error and gives no answer, or gives the usual
answer. Method: a preloaded library lets allocation n of the process fail, alone or with all later
allocations. With QUOTH_LONG=1, n is every number; otherwise every tenth (with all later
allocations, every fiftieth). The unit tests of tests/memory sweep a server and a session faster and
completely."""
import concurrent.futures
import json
import os
import subprocess

from server import LONG, MODEL, QUOTH, ROOT, SLOW, TMP, check, run

PRELOAD = os.path.join(TMP, "failing_malloc.so")
PLAIN = ["--temperature", "0", "-q", "--threads", "1", "--no-pack-cache"]
TALK = json.dumps([{"role": "user", "content": "What is 47 + 38?"}]).encode()
ORDERS = {
    "complete": (["run", MODEL, "Once upon", "--raw", "--max-tokens", "4", *PLAIN], b""),
    "chat": (["run", MODEL, "What is 47 + 38?", "--json", "--max-tokens", "6", *PLAIN], b""),
    "tokenize": (["tokenize", MODEL], "Once upon a time, 你好 ...\n".encode()),
    "template": (["template", MODEL, "-", "--now", "2026-11-20"], TALK),
}


def once(order, at=-1, count=1):
    """Run a command with failures. Return exit status, meaning and standard error, and the number
    of its allocations."""
    args, said = ORDERS[order]
    report = os.path.join(TMP, f"report-{order}-{at}-{count}")
    env = dict(os.environ, LD_PRELOAD=PRELOAD, FAIL_AT=str(at), FAIL_COUNT=str(count), FAIL_REPORT=report)
    done = subprocess.run([QUOTH, *args], input=said, capture_output=True, env=env, timeout=60)
    n, out = 0, done.stdout
    if os.path.exists(report):
        with open(report) as f:
            n = int(f.read() or 0)
        os.remove(report)
    if "--json" in args and done.returncode == 0:  # without timings
        answer = json.loads(out)
        out = json.dumps([answer[k] for k in ("text", "message", "token_ids", "finish_reason")]).encode()
    return done.returncode, out, done.stderr, n


def sweep(order, step, count):
    """Return the number of failures that caused an error, and of failures without an effect."""
    _, want, err, n = once(order)
    check(want and n > 100, (want, err, n))
    n_same = n_error = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for at, (status, out, err, _) in zip(range(0, n, step), pool.map(lambda i: once(order, i, count), range(0, n, step))):
            where = f"{order}, allocation {at} of {n}, {count} failing: status {status}, {out!r} {err!r}"
            check(status >= 0, where)
            check(status != 0 or out == want, where)
            check(status == 0 or err, where)
            n_same += status == 0
            n_error += status != 0
    print(f"     {order}: {n} allocations, {n_same + n_error} runs of {count}: {n_same} the same, {n_error} errors")


def test_one():
    """an allocation that fails in a command causes an error, or has no effect"""
    for order in ORDERS:
        sweep(order, 1 if LONG else 10, 1)


def test_all():
    """all allocations that fail from one on cause an error, or have no effect"""
    for order in ORDERS:
        sweep(order, 1 if LONG else 50, 1 << 60)


if SLOW:
    print("skip failing allocations of commands (sanitizers have a malloc of their own)")
elif subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", PRELOAD, os.path.join(ROOT, "tests/e2e/failing_malloc.c")]).returncode:
    print("FAIL failing_malloc.c: it does not compile")
else:
    run([test_one, test_all])
