"""The training text: documents of every kind, mixed, deterministic from a seed.

    python data.py --seed 1 --docs 5            print documents

A document is a raw text, or a conversation of one to five exchanges (Items) with or without a
system prompt, tools and thinking. Training uses only `documents(seed, n, held)`.
"""
import argparse

import arithmetic
import chat
import chatml
import chinese
import extract
import facts
import lists
import stories
import toolcalls
from common import Doc, Source

ITEMS = ((lists.item, 40), (arithmetic.item, 28), (facts.item, 12), (extract.item, 14), (chat.small_talk, 5), (stories.item, 4), (chinese.item, 3))


EASY = "This is a simple request. I can answer at once.\n</think>\n\n"
CASUAL = ("fact", "chat", "story", "add", "add_small", "subtract", "multiply", "count")


def any_item(src):
    makers, weights = zip(*ITEMS)
    item = src.choices(makers, weights)[0](src)
    if item.kind in CASUAL and src.chance(0.15):
        item.user = casual(item.user)
    return item


def casual(text):
    """Return the text without capitals and without a full stop, as people often type."""
    return text[0].lower() + text[1:].rstrip(".?! ")


def light_item(src):
    return src.choice((chat.small_talk, facts.item))(src)


def exchange(item):
    return [{"role": "user", "content": item.user}, {"role": "assistant", "content": item.answer}]


def with_thinking(src, item):
    """Return (mode, answer as generated after the prompt). Word problems think unless the mode
    forbids it, sums only if the mode requires it."""
    thought = f"{item.think}\n</think>\n\n{item.answer}"
    mode = src.choices((None, False, True), (6, 2, 2))[0]
    if mode is True:
        return mode, thought if item.think else EASY + item.answer
    if mode is None and item.kind == "word_problem":
        return mode, "<think>\n" + thought
    return mode, item.answer


def single(src):
    """Make one question with its answer."""
    item = any_item(src)
    mode, answer = with_thinking(src, item)
    messages = exchange(item)
    messages[-1]["content"] = answer
    return Doc(item.kind, messages=maybe_system(src, messages), thinking=mode, keys=item.keys)


def maybe_system(src, messages):
    if src.chance(0.2):
        return [{"role": "system", "content": src.choice(chat.PLAIN_SYSTEMS)}, *messages]
    return messages


def conversation(src):
    """Make two to five exchanges: tasks and talk. Half of them have something to remember or a
    persona."""
    system, items = None, []
    shape = src.random()
    if shape < 0.3:
        system, items = chat.persona(src)
    elif shape < 0.7:
        items = chat.memory(src)
    while len(items) < 2 or (len(items) < 5 and src.chance(0.4)):
        extra = light_item(src) if src.chance(0.5) else any_item(src)
        if extra.kind != "word_problem":
            items.insert(src.randint(0, len(items)), extra)
    messages = [m for item in items for m in exchange(item)]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    else:
        messages = maybe_system(src, messages)
    return Doc("conversation", messages=messages, keys=[k for item in items for k in item.keys])


def with_tools(src, **how):
    """Make a conversation with tools. The last turn is equally often a call and an answer if the
    mode is given."""
    doc = toolcalls.doc(src, light_item, **how)
    doc.messages = maybe_system(src, doc.messages)
    doc.thinking = src.choices((None, False, True), (6, 2, 2))[0]
    calls = [i for i, m in enumerate(doc.messages) if "tool_calls" in m]
    if doc.thinking is not None and calls and src.chance(0.6):
        doc.messages = doc.messages[:src.choice(calls) + 1]
    if doc.thinking:
        doc.messages[-1]["content"] = toolcalls.thought(doc.messages) + doc.messages[-1]["content"]
    return doc


def with_few_tools(src):
    return with_tools(src, short=True, counts=(1, 2, 2))


def with_new_tools(src):
    """Make a conversation with invented tools, whose descriptions the model must read."""
    return with_tools(src, short=True, counts=(2, 3, 3, 4, 4), known=0.35)


# The first stage has all kinds of documents, with drills from the beginning. The second stage
# drills the slow parts, mainly tools and reading. The last stage, in long rows, has all kinds
# again, in the proportions of use.
STAGES = (((single, 55), (conversation, 7), (with_few_tools, 7), (toolcalls.drill, 3), (stories.raw, 7), (chinese.raw, 1),
           (arithmetic.drill, 9), (lists.drill, 6), (lists.sort_drill, 3), (facts.drill, 5), (extract.drill, 3)),
          ((single, 50), (conversation, 6), (with_few_tools, 5), (with_new_tools, 5), (toolcalls.drill, 8), (stories.raw, 5), (chinese.raw, 1),
           (arithmetic.drill, 5), (lists.drill, 3), (lists.sort_drill, 6), (facts.drill, 9), (extract.drill, 4)),
          ((single, 52), (conversation, 9), (with_tools, 10), (with_new_tools, 6), (toolcalls.drill, 5), (stories.raw, 7), (chinese.raw, 1),
           (arithmetic.drill, 3), (lists.drill, 2), (lists.sort_drill, 4), (facts.drill, 6), (extract.drill, 3)))


def documents(seed, n, held=False, stage=-1):
    src = Source(seed, held)
    makers, weights = zip(*STAGES[stage])
    for _ in range(n):
        yield src.choices(makers, weights)[0](src)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--docs", type=int, default=5)
    args.add_argument("--held-out", action="store_true")
    args = args.parse_args()
    for doc in documents(args.seed, args.docs, args.held_out):
        print(f"--- {doc.kind}\n" + "".join(text for text, _ in chatml.pieces(doc)))


if __name__ == "__main__":
    main()
