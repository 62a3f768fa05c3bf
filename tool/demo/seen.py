"""What training has seen: fingerprints of every list, sum, name and tool call in its text.

The generators keep held-out content away by construction; this reads the finished training text with regular
expressions, knowing nothing of the generators, so that a leak by any path is found. eval.py counts an item
whose fingerprint was seen as wrong.
"""
import hashlib
import re

from pack import shard_docs, text_of

LIST = re.compile(r"(?:\w+, )+\w+")
SUMS = [re.compile(r"(?=\b(\d{2,3}) ?\+ ?(\d{2,3})\b)"), re.compile(r"(?=\b(\d{2}) plus (\d{2})\b)"), re.compile(r"(?=[Aa]dd (\d{2}) and (\d{2})\b)"),
        re.compile(r"(?=\b(\d{2})加(\d{2}))")]
DIFFERENCES = [re.compile(r"(?=\b(\d{2}) ?- ?(\d{2})\b)"), re.compile(r"(?=\b(\d{2}) minus (\d{2})\b)")]
NAME = re.compile(r"(?=\b([A-Z][a-z]+ [A-Z][a-z]+)\b)")
CALL = re.compile(r'\{"name": "\w+", "arguments": \{.*?\}\}')


def hashed(text):
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def contents(text):
    """Every (kind, canonical content) in a text."""
    for run in LIST.findall(text):
        yield "list", "|".join(sorted(run.split(", ")))
    for a, b in (pair for pattern in SUMS for pair in pattern.findall(text)):
        yield "add", "|".join(sorted((a, b)))
    for a, b in (pair for pattern in DIFFERENCES for pair in pattern.findall(text)):
        yield "add", "|".join(sorted((b, str(int(a) - int(b)))))
    for name in NAME.findall(text):
        yield "name", name
    for call in CALL.findall(text):
        yield "call", call


def fingerprints(text, only=None):
    return {hashed(kind + " " + content) for kind, content in contents(text) if only in (None, kind)}


def of_training(record):
    """All fingerprints of a run, by the record that train.py wrote."""
    seen = set()
    for index, length in record["shards"]:
        for doc in shard_docs(record["seed"], index, length):
            seen |= fingerprints(text_of(doc))
    return seen
