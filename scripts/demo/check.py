"""Check the generator and the files that training produces. The script prints a line per check and
exits with 1 at the first failure.

    python check.py [--tokenizer DIR/tokenizer.json] [--docs 20000]
"""
import argparse
import json
import re

import chatml
import data
import lists
import seen
import words
from common import Source, held_out, key_of, pair_key
from eval import OTHERS, REQUIRED
from pack import text_of

FIELDS = set("age city job pet species color item quantity price event day time".split())


def check_deterministic(args):
    first, again = ([text_of(d) for d in data.documents(7, 500)] for _ in range(2))
    assert first == again


def check_split(args):
    """Check that no training document has a held-out key, and no held-out document has a training
    key."""
    for held in (False, True):
        for doc in data.documents(11, args.docs // 4, held):
            assert all(held_out(k) == held for k in doc.keys), (held, doc.keys)


def held_out_content(kind, content):
    """Return whether content found in a text belongs to the held-out side."""
    if kind == "add":
        return held_out(pair_key(sorted(map(int, content.split("|")))))
    if kind == "fields":
        return all(pair.split("=")[0] in FIELDS for pair in content.split("|")) and held_out(key_of("fields", content))
    if kind == "call":
        name, arguments = json.loads(content).values()
        return held_out(key_of("call", name, json.dumps(arguments, ensure_ascii=False)))
    first, last = content.split()[:2] if kind == "name" else ("", "")
    return first in words.GIRLS + words.BOYS and last in words.SURNAMES and held_out(key_of("name", content))


def check_no_leak(args):
    """Check that the text of training documents has no held-out sum, name, combination of fields or
    call, for every generator."""
    for doc in data.documents(12, args.docs):
        for kind, content in seen.contents(text_of(doc)):
            assert not held_out_content(kind, content), (kind, content, text_of(doc))


def check_sums(args):
    """Check that every equation in a text is true."""
    equation = re.compile(r"(?<![\d*+-] )\b(\d+) ([+*-]) (\d+)(?: \+ (\d+))? = (\d+)")
    n = 0
    for doc in data.documents(13, args.docs):
        for a, sign, b, c, result in equation.findall(text_of(doc)):
            want = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign] + int(c or 0)
            assert want == int(result), (a, sign, b, c, result)
            n += 1
    assert n > args.docs // 20


def check_lists(args):
    src = Source(14)
    for _ in range(2000):
        item = lists.item(src)
        given = item.user.rsplit(": ", 1)[1].split(", ")
        answer = item.answer.split(": ", 1)[1].split(", ")
        want = {"copy": given, "reverse": given[::-1],
                "sort": sorted(given, key=lambda w: (int(w), "") if w.isdigit() else (0, w))}[item.kind]
        assert answer == want, item


def check_json(args):
    """Check that extraction answers and tool calls are JSON, and that their values occur in the
    question."""
    for doc in data.documents(15, args.docs // 2):
        if doc.kind == "extract":
            values = json.loads(doc.messages[-1]["content"].split("</think>")[-1])
            assert all(str(v) in doc.messages[-2]["content"] for v in values.values()), doc
        for i, m in enumerate(doc.messages or []):
            for call in m.get("tool_calls", []):
                asked = doc.messages[i - 1]["content"]
                assert all(str(v) in asked for v in call["function"]["arguments"].values()), doc


def check_template(args):
    """Check that the Jinja template and the pieces used in training render the same text."""
    for doc in data.documents(16, 1500):
        if doc.messages is None or doc.messages[-1]["role"] != "assistant":
            continue
        asked, trained = chatml.prompt(doc.messages[:-1], doc.tools, doc.thinking), text_of(doc)
        assert trained.startswith(asked), (asked, trained)


def check_pieces(args):
    """Check that encoding piece by piece gives the tokens of the whole text. Drills are excluded,
    because their answers end in the tokens that they have in a chat."""
    if not args.tokenizer:
        return
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(args.tokenizer)
    for doc in (d for d in data.documents(17, 1500) if "drill" not in d.kind):
        apart = [i for text, _ in chatml.pieces(doc) for i in tok.encode(text, add_special_tokens=False).ids]
        assert apart == tok.encode(text_of(doc), add_special_tokens=False).ids, text_of(doc)
        assert tok.decode(apart, skip_special_tokens=False) == text_of(doc)


def check_held_out_items(args):
    """Check that every evaluation task can draw from the held-out side."""
    for name, (draw, same) in {**REQUIRED, **OTHERS}.items():
        src = Source("evaluation " + name, held=True)
        for _ in range(200):
            _, want, _ = draw(src)
            assert same(want, want)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--tokenizer")
    args.add_argument("--docs", type=int, default=20000)
    args = args.parse_args()
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            check(args)
            print("ok", name, flush=True)


if __name__ == "__main__":
    main()
