#!/usr/bin/env python3
"""Goal: every constraint is compiled or rejected by name, within limits of time and memory. The
cost of running a compiled constraint is also limited. Method: compile about a hundred hostile
constraints (huge, deep, exponential, malformed). A separate process gets each constraint with a
text to match. The processor time, memory and answer of that process are measured. Builds with
sanitizers test every fourth constraint."""
import json
import os
import resource
import subprocess
import sys

from hostile import cases

QUOTH = os.environ["QUOTH"]
# limits of time and memory are not for builds with sanitizers
SLOW = "-" in os.path.basename(os.path.dirname(QUOTH))
CPU_S = 300 if SLOW else 2 if os.environ.get("QUOTH_LONG") == "1" else 8  # 1.2 s on an idle machine
BYTES = 8 << 30 if SLOW else 600 << 20
only = sys.argv[1:]

def text_for(kind, n):
    if kind.startswith("schema"):
        return '{"a": [' + '"abababab", ' * n
    return "ab" * n + "xay" * n


def limit():
    if not SLOW:  # sanitizers map terabytes
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def main():
    n_failed = n = 0
    worst = (0, "")
    for i, (kind, name, body) in enumerate(cases()):
        if SLOW and not only and i % 4 and os.environ.get("QUOTH_LONG") != "1":
            continue
        if only and not any(o in kind + ": " + name for o in only):
            continue
        key = "schema" if kind.startswith("schema") else kind
        line = json.dumps({key: body, "texts": [text_for(kind, 200)]}) + "\n"
        p = subprocess.Popen([QUOTH, "grammar", "check", "--jsonl"] + ([] if n % 16 == 0 else ["--limit-ms", "200"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, preexec_fn=limit)
        try:
            p.stdin.write(line.encode())
            p.stdin.close()
        except BrokenPipeError:
            pass
        out = p.stdout.read().decode(errors="replace")
        _, status, use = os.wait4(p.pid, 0)
        cpu, rss = use.ru_utime + use.ru_stime, use.ru_maxrss << 10
        p.returncode = status
        n += 1
        try:
            answer = json.loads(out)
            said = answer["ok"] or len(answer["error"]) > 10
            what = "compiled" if answer["ok"] else answer["error"]
        except ValueError:
            said, what = False, out
        bad = status != 0 or not said or cpu > CPU_S or rss > BYTES
        n_failed += bad
        worst = max(worst, (cpu, name))
        if bad or only or "-v" in os.environ.get("HOSTILE", ""):
            print("%s %s: %s: %.2f s, %d MiB, status %d: %s" % ("FAIL" if bad else "ok  ", kind, name, cpu, rss >> 20, status, what[:160]), flush=True)
    if n_failed == 0 and n > 0:
        print("ok   hostile grammars: %d compiled or refused; the slowest took %.2f s (%s)" % (n, worst[0], worst[1]))
    elif n == 0:
        print("FAIL hostile grammars: no case is called so")
    sys.exit(n_failed > 0 or n == 0)


main()
