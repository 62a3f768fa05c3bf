"""Copying, reversing and sorting lists of up to five items.

The key is the set of items, so a held-out list is held out in every order and for every task. The
answer begins with the operation. Every item therefore follows a space, as in the question. """
import json

import words
from common import Doc, Item, key_of

ASK = {
    "copy": ["Copy this list: {}", "Repeat this list: {}", "Copy: {}", "Please copy this list: {}", "Say this back to me: {}",
             "Write this list again: {}"],
    "reverse": ["Reverse this list: {}", "Reverse: {}", "Please reverse this list: {}", "Turn this list around: {}",
                "Write this list backwards: {}", "Say this list from the last to the first: {}"],
    "sort": ["Sort this list: {}", "Sort: {}", "Please sort this list: {}", "Put this list in order: {}"],
}
SORT_WORDS = ["Sort these words alphabetically: {}", "Put these words in alphabetical order: {}", "Sort from A to Z: {}"]
SORT_NUMBERS = ["Sort these numbers: {}", "Sort from small to large: {}", "Put these numbers in order: {}"]
LEAD = {"copy": "Copied: ", "reverse": "Reversed: ", "sort": "Sorted: "}


def draw_items(src):
    n = src.choice((2, 3, 3, 4, 4, 4, 5, 5, 5, 5))
    pool = src.random()
    if pool < 0.6:
        return src.sample(words.LIST_WORDS, n)
    if pool < 0.9:
        return src.sample(range(10, 100), n)
    return src.sample(words.LETTERS, max(n, 3))


def list_key(items):
    return key_of("list", *sorted(map(str, items)))


def transform(task, items):
    return {"copy": list, "reverse": lambda x: list(x)[::-1], "sort": sorted}[task](items)


def show(items):
    return ", ".join(map(str, items))


def item(src, task=None):
    task = task or src.choice(("copy", "reverse", "reverse", "sort", "sort", "sort"))
    items, key = src.fresh(lambda: draw_items(src), list_key)
    ask = ASK[task]
    if task == "sort":
        ask = ask + (SORT_NUMBERS if isinstance(items[0], int) else SORT_WORDS)
    return Item(task, src.choice(ask).format(show(items)), LEAD[task] + show(transform(task, items)), keys=[key])


def drill(src, task=None):
    """Make a page of short list tasks in which only the results are learned. The page includes JSON
    lists, because quoted words are other tokens than words after a space."""
    doc = Doc("list_drill", parts=[])
    for _ in range(src.randint(4, 9)):
        if task is None and src.chance(0.25):
            items, key = src.fresh(lambda: draw_items(src), list_key)
            left, right, keys = f"JSON: {show(items)}", json.dumps(items), [key]
        else:
            made = item(src, task)
            left, right, keys = made.user, made.answer, made.keys
        doc.parts += [(left + "\n", False), (right, True), ("\n", False)]
        doc.keys += keys
    return doc


def sort_drill(src):
    return drill(src, "sort")
