#!/usr/bin/env python3
# alone
"""Goal: quoth pull is at least 0.8 times as fast as the slower of curl, to the same disk, and
sha256sum of the same file."""
import os
import shutil
import subprocess
import sys
import time

import hub_server
from server import LONG, QUOTH, SLOW, TMP, check, run

N_BYTE = (2048 if LONG else 256) << 20
N_ROUND = 5 if LONG else 3


def serve():
    """Serve one file from another process, so that it does not share a lock with this one."""
    hub = hub_server.Hub()
    block = os.urandom(1 << 20)
    hub.add_repo("org/repo", {"a-Q8_0.gguf": block * (N_BYTE >> 20)})
    print(hub.url, f"http://127.0.0.1:{hub.cdn.port}/files/{next(iter(hub.blobs))}", flush=True)
    sys.stdin.read()


def seconds(*command, **env):
    """Return the time of a command."""
    start = time.monotonic()
    r = subprocess.run(command, capture_output=True, env={**os.environ, **env})
    check(r.returncode == 0, r.stderr)
    return time.monotonic() - start


def test_rate():
    """The rate of a pull is near that of curl and of sha256sum."""
    if SLOW or not shutil.which("curl"):
        return "no curl" if not SLOW else "a build with sanitizers"
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url, file = server.stdout.readline().split()
        copy, cache = os.path.join(TMP, "copy"), os.path.join(TMP, "cache")
        best = {}
        for _ in range(N_ROUND):
            for what, command in (("curl", ["curl", "-s", "--noproxy", "*", "-o", copy, file]), ("sha256sum", ["sha256sum", copy]),
                                  ("pull", [QUOTH, "pull", "hf:org/repo"])):
                took = seconds(*command, HF_ENDPOINT=url, HF_HUB_CACHE=cache, HF_HUB_OFFLINE="")
                best[what] = min(took, best.get(what, took))
            shutil.rmtree(cache)
            os.unlink(copy)
        rate = {what: N_BYTE / took / 1e6 for what, took in best.items()}
        part = rate["pull"] / min(rate["curl"], rate["sha256sum"])
        print("  " + ", ".join(f"{what} {r:.0f} MB/s" for what, r in rate.items()) + f": {part:.2f} of the slower one")
        check(part >= 0.8, f"{part:.2f}")
    finally:
        server.communicate()


if sys.argv[1:] == ["--serve"]:
    serve()
else:
    run([test_rate], timed=True)
