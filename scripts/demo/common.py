"""Definitions that the generators share: an item, the random source with its split, and the
held-out rule.

The content of an item, such as operands, list elements or a full name, has a canonical key. One key
in HELD_OUT_EVERY belongs to the held-out set, by its hash. A Source draws only for one side of the
split, so no task can train on a held-out key. """
import hashlib
import random
from dataclasses import dataclass, field
from itertools import combinations

import words

HELD_OUT_EVERY = 10


def key_of(kind, *parts):
    return kind + ":" + "|".join(str(p) for p in parts)


def held_out(key):
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % HELD_OUT_EVERY == 0


@dataclass
class Item:
    """One exchange: the user's message, the thinking before the answer (thinking mode), and the
    right answer."""
    kind: str
    user: str
    answer: str
    think: str = ""
    keys: list = field(default_factory=list)


@dataclass
class Doc:
    """A document: raw parts (text, learn), or a conversation. `thinking` is the value of
    enable_thinking for the template (None: not given)."""
    kind: str
    parts: list = None
    messages: list = None
    tools: list = None
    thinking: bool = None
    keys: list = field(default_factory=list)


class Source(random.Random):
    """Random numbers for one side of the split. `fresh` redraws until the content is on this
    side."""

    def __init__(self, seed, held=False):
        super().__init__(seed)
        self.held = held

    def chance(self, p):
        return self.random() < p

    def fresh(self, draw, key):
        while True:
            content = draw()
            name = key(content)
            if held_out(name) == self.held:
                return content, name

    def made_up_name(self):
        name = "".join(self.choice(words.SYLLABLES) for _ in range(self.choice((2, 2, 3))))
        return (name + self.choice(words.ENDINGS)).capitalize()

    def first_name(self):
        return self.choice(self.choice((words.GIRLS, words.BOYS)))

    def full_name(self, invented=0.12):
        """Return a first name and a surname whose pair is on this side of the split: (name, key)."""
        def draw():
            if self.chance(invented):
                return self.made_up_name() + " " + self.made_up_name()
            return self.first_name() + " " + self.choice(words.SURNAMES)
        return self.fresh(draw, lambda name: key_of("name", name))

    def pair(self, low=10, high=99):
        """Return two operands whose unordered pair is on this side of the split: ((a, b), key)."""
        return self.fresh(lambda: (self.randint(low, high), self.randint(low, high)), pair_key)


def pair_key(pair):
    return key_of("add", min(pair), max(pair))


def combination(record, fields):
    """Return the combination of these fields of a record, in one spelling."""
    return "|".join(f"{f}={record[f]}" for f in sorted(fields))


def combinations_of(record):
    """Return every combination of two or more of a record's fields, without the name."""
    fields = [f for f in record if f != "name"]
    return [combination(record, some) for n in range(2, len(fields) + 1) for some in combinations(fields, n)]
