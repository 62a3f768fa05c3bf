#!/usr/bin/env python3
"""Goal: a regular expression allows exactly the texts that it matches completely, or it is rejected
by name. Method: use the test files of Rust's regex crate (with Fowler's) in ../shared/data. Each
case gives two results. The first result is for the whole haystack: yes if a match spans the
haystack, no if there is no match. The second result is for a match within the haystack (the
expression with any text before and after).

Environment: QUOTH the program, QUOTH_ROOT the repository, QUOTH_LONG=1 for all cases instead of a
sample. The script prints "ok NAME", "skip NAME" or "FAIL NAME: why" per test."""
import collections
import json
import os
import re
import subprocess
import sys
from pathlib import Path

QUOTH = os.environ["QUOTH"]
ROOT = Path(os.environ["QUOTH_ROOT"])
LONG = os.environ.get("QUOTH_LONG") == "1"
DATA = ROOT / "../shared/data/json/regex"
SAMPLE = 7  # interval of the sampled cases; with LONG, all cases are tested


def unescape(text):
    """Return the bytes of a haystack that is written as \\xHH."""
    return text.encode().decode("unicode_escape").encode("latin-1") if "\\" in text else text.encode()


def spans(case):
    """Return (start, end) of each match. A match is a span or a list of captures, and may have an
    id."""
    for m in case["matches"]:
        if isinstance(m, dict):
            m = m.get("span", m.get("spans"))
        yield tuple(m[0] if isinstance(m[0], list) else m)


def whole_characters(text, start, end):
    return not any(0x80 <= b < 0xc0 for b in (text[start:start + 1] + text[end:end + 1]))


def question(name, case):
    """Return (requests, wanted) of a case, or the reason for omitting a case that does not apply to
    UTF-8 texts."""
    if name.startswith("regex-lite/"):
        return "another crate's meaning of classes"
    patterns = case["regex"] if isinstance(case["regex"], list) else [case["regex"]]
    text = unescape(case["haystack"]) if case.get("unescape") else case["haystack"].encode()
    if case.get("line-terminator"):
        return "another line terminator"
    if case.get("bounds"):
        return "a search within bounds"
    try:
        text = text.decode()
    except UnicodeDecodeError:
        return "the text is not UTF-8"
    flags = "i" * case.get("case-insensitive", False) + "-u" * (not case.get("unicode", True))
    either = "|".join(f"(?:{p})" for p in patterns) if len(patterns) > 1 else patterns[0] if patterns else "[a&&b]"
    pattern = f"(?{flags}:{either})" if flags else f"(?:{either})"
    found = list(spans(case))
    if any(not whole_characters(text.encode(), *span) for span in found):
        return "a match within a character"
    n = len(text.encode())
    wanted = [(pattern, True)] if (0, n) in found else [(pattern, False)] if not found else []
    if found or case.get("match-limit", 1) > 0:
        before = "" if case.get("anchored") else "(?s:.)*"
        wanted.append((f"{before}{pattern}(?s:.)*", bool(found)))
    return [({"regex": p, "texts": [text]}, want) for p, want in wanted]


def reason(error):
    return re.sub(r"^regular expression, byte \d+: ", "", error)


def takes(answer):
    return answer["ok"] and answer["texts"][0]["accepted"]


def main():
    try:
        import tomllib
    except ImportError:
        return print("skip regex: the crate's cases (no tomllib)")
    if not DATA.exists():
        return print("skip regex: the crate's cases (no ../shared/data)")
    cases = [(f"{path.stem}/{c.get('name')}", c) for path in sorted(DATA.rglob("*.toml")) for c in tomllib.loads(path.read_text())["test"]]
    cases = cases if LONG else cases[::SAMPLE]
    asked = [(name, c, question(name, c)) for name, c in cases]
    lines = [json.dumps(r) for _, _, q in asked if isinstance(q, list) for r, _ in q]
    out = subprocess.run([QUOTH, "grammar", "check", "--jsonl"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = iter(map(json.loads, out.stdout.splitlines()))
    agree, refused, wrong = 0, collections.Counter(), []
    for name, c, q in asked:
        if not isinstance(q, list):
            refused["case: " + q] += 1
            continue
        got = [(next(answers), r, want) for r, want in q]
        errors = [reason(a["error"]) for a, _, _ in got if not a["ok"]]
        if c.get("compiles") is False:
            agree += bool(errors)
            wrong += [] if errors else [f"{name}: {q[0][0]['regex']} is no expression"]
        elif errors and not all("no text matches" in e for e in errors):
            refused[errors[0]] += 1
        elif all(takes(a) == want for a, _, want in got):
            agree += 1
        else:
            wrong += [f"{name}: {r['regex']!r} on {r['texts'][0]!r} is not {want}" for a, r, want in got if takes(a) != want]
    if "-v" in sys.argv:
        for why, n in refused.most_common():
            print(f"{n:5} {why}")
    known = all(re.match(r"case: |.*(not supported|supported in|surrogate|is not UTF-8|must be a general category)", why) for why in refused)
    for w in wrong[:20] + [why for why in refused if not known]:
        print("FAIL regex:", w)
    enough = agree * 1204 >= 800 * len(cases)
    print(f"{'ok  ' if enough and not wrong and known else 'FAIL'} regex: {agree} of {len(cases)} cases agree, {sum(refused.values())} refused by name")


main()
