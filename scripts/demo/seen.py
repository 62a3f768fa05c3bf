"""Fingerprints of the content that training has seen: every list, sum, name, tool call and JSON
object in its text.

The generators avoid held-out content by construction. This file reads the finished training text
with regular expressions, independently of the generators, so it finds a leak by any path. eval.py
scores an item with a seen fingerprint as wrong. Every combination of two or more fields of an
object is seen, so a combination within a larger combination is found.
"""
import hashlib
import json
import re
from concurrent.futures import ProcessPoolExecutor

from common import combinations_of
from pack import shard_docs, text_of

LIST = re.compile(r"(?:\w+, )+\w+")
SUMS = [re.compile(r"(?=\b(\d{2,3}) ?\+ ?(\d{2,3})\b)"), re.compile(r"(?=\b(\d{2}) plus (\d{2})\b)"), re.compile(r"(?=[Aa]dd (\d{2}) and (\d{2})\b)"),
        re.compile(r"(?=\b(\d{2})加(\d{2}))")]
DIFFERENCES = [re.compile(r"(?=\b(\d{2}) ?- ?(\d{2})\b)"), re.compile(r"(?=\b(\d{2}) minus (\d{2})\b)")]
NAME = re.compile(r"(?=\b([A-Z][a-z]+ [A-Z][a-z]+)\b)")
CALL = re.compile(r'\{"name": "\w+", "arguments": \{.*?\}\}')
OBJECT = re.compile(r'\{"[^{}]*\}')


def hashed(text):
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def contents(text):
    """Return every (kind, canonical content) in a text."""
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
    for record in objects(text):
        for fields in combinations_of(record):
            yield "fields", fields


def objects(text):
    for flat in OBJECT.findall(text):
        try:
            yield json.loads(flat)
        except ValueError:
            pass


def fingerprints(text, only=None):
    return {hashed(kind + " " + content) for kind, content in contents(text) if only in (None, kind)}


def of_shard(seed, index, length):
    return set().union(*(fingerprints(text_of(doc)) for doc in shard_docs(seed, index, length)))


def of_training(record):
    """Return all fingerprints of a run, by the record that train.py wrote."""
    shards = record["shards"]
    with ProcessPoolExecutor(2) as pool:
        return set().union(*pool.map(of_shard, [record["seed"]] * len(shards), *zip(*shards)))
