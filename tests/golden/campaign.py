"""campaign.py - parts of fields.py and keys.py: programs that print logits, verdicts, a report.

Verdicts: = equal, r equal except for rounding, R rejected by name, w a warning contains the field,
x rejected by the reference, ! silently different."""
import os
import pathlib
import re
import subprocess
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ABSENT = object()
N_TOKEN = 160
# SHARE=N TURN=I checks the I-th of N shares of the fields, other ones for each class
SHARE, TURN = int(os.environ.get("SHARE", "1")), int(os.environ.get("TURN", "0"))


def quoth_logits():
    """Return the program that prints quoth's logits: QUOTH_LOGITS, or a new build/logits."""
    if path := os.environ.get("QUOTH_LOGITS"):
        return pathlib.Path(path)
    subprocess.check_call(["make", "-s", "-C", ROOT, "build/logits"])
    return ROOT / "build" / "logits"


def distance(a, b):
    """Return max|a - b| / max|b|, infinite if the shapes differ or a number is missing."""
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def names_field(said, field, folder=""):
    """Return true if a message has the field's name, outside of the folder's path and of longer
    names."""
    if folder:
        said = said.replace(f"{folder}", "")
    found = lambda word: re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", said)  # noqa: E731
    return bool(found(field) or (field in ("type", "rope_type", "rope scaling") and (found("rope scaling") or found("rope.scaling"))))


def wrong_refusal(code, said, expected):
    """Return None if `quoth convert` rejected its input with one sentence (exit status 1) that has
    one of the expected patterns. Otherwise return what is wrong."""
    lines = said.strip().split("\n")
    if code != 1:
        return f"quoth convert: exit {code}: {said.strip()[-200:]}"
    if not lines[-1].startswith("quoth convert: ") or not all(line.startswith("quoth: ") for line in lines[:-1]):
        return f"quoth convert: no error sentence: {said.strip()[-200:] or 'nothing'}"
    if not any(re.search(pattern, lines[-1]) for pattern in expected):
        return f"quoth convert: unexpected refusal: {lines[-1]}"
    return None


class Campaign:
    def __init__(self, folder, quoth):
        self.folder, self.quoth = folder, quoth
        self.count = dict.fromkeys("=rRwx!", 0)
        self.wrong, self.idle, self.refused, self.far, self.seen = [], [], [], [], {}
        self.rounding = 0.0  # distance of the last reference in float32 from that in float64, if known

    def tokens(self, n):
        path = self.folder / f"tokens-{n}.i32"
        if not path.exists():
            np.random.RandomState(7).randint(0, 60, n).astype("<i4").tofile(path)
        return path

    def program(self, program, path, n, n_source=0):
        """Return (logits [n - n_source, vocabulary] or [1, classes], None), or (None, the error
        message)."""
        out = self.folder / "out.f32"
        out.unlink(missing_ok=True)
        more = ["128", "0", str(n_source)] if n_source else []
        r = subprocess.run([program, path, self.tokens(n), out, *more], capture_output=True, text=True, errors="replace", timeout=300)
        said = r.stderr.strip()
        if r.returncode != 0:
            return None, said or f"exit {r.returncode}"
        got = np.fromfile(out, "<f4")
        n -= n_source
        return got.reshape(n if got.size % n == 0 else 1, -1), said

    why = ""  # last error of the reference

    def verdict(self, label, name, want, got, said, limit):
        leaf = name.split(" (")[0].split(".")[-1]
        names_it = names_field(said, leaf, self.folder)
        if got is None:
            mark = "R" if names_it or want is None else "!"
            if mark == "!":
                self.wrong.append(f"{label}: refused without a word of {leaf}: {said[-200:]}")
        elif want is None:
            mark = "x"
            self.refused.append(f"{label}: {self.why}")
        elif distance(got, want) <= limit:
            mark = "w" if "warning" in said and names_it else "="
        elif distance(got, want) <= self.rounding:
            mark = "r"
            self.far.append(f"{label}: differs by {distance(got, want):.2e}, the reference in float32 by {self.rounding:.2e}")
        else:
            mark = "!"
            self.wrong.append(f"{label}: differs by {distance(got, want):.2e} without a word")
        self.count[mark] += 1
        return mark

    def field(self, arch, name, variants, limit, run):
        """Check a field, unless it is in another share. variants: (label, setting, setting of the
        comparison for `moved`)."""
        if zlib.crc32(f"{arch} {name}".encode()) % SHARE != TURN:
            return
        marks, moved = [], False
        for label, setting, plain in variants:
            want, got, said = run(arch, setting)
            mark = self.verdict(f"{arch} {name} {label}", name, want, got, said, limit)
            marks.append(f"{label}:{mark}")
            key = (arch, repr(sorted(plain.items(), key=str)))
            if want is not None and key not in self.seen:
                self.seen[key] = run(arch, plain)[0]
            base = self.seen.get(key)
            moved |= want is not None and (base is None or distance(want, base) > 1e-6)
        if not moved:
            self.idle.append((arch, name))
        print(f"{arch:8s} {name:42s} {' '.join(marks)}", flush=True)


def report(c, what):
    print(f"\n{what}: {sum(c.count.values())} configurations: {c.count['='] + c.count['w']} equal ({c.count['w']} with a warning that names the "
          f"field), {c.count['r']} equal within the rounding of float32, {c.count['R']} refused by name, {c.count['x']} that the reference refuses, {c.count['!']} silently different")
    idle = {}
    for arch, name in c.idle:
        idle.setdefault(name, []).append(arch)
    n = max(len(v) for v in idle.values()) if idle else 0
    print("never moved the reference:", ", ".join(k if len(v) == n else f"{k} ({' '.join(v)})" for k, v in idle.items()) or "none")
    for line in c.refused:
        print("computed, though the reference refuses:", line)
    for line in c.far:
        print("rounding:", line)
    for line in c.wrong:
        print("!", line)
    return not c.wrong
