"""The held-out evaluation: exact match per task, through PyTorch or through quoth itself.

    python eval.py --model DIR/main.pt [--items 200] [--training DIR/main.json]      --backend torch
    python eval.py --model FILE.gguf --quoth build/quoth                    --backend quoth
    python eval.py ... --show 10 --markdown FILE                            ten unselected stories and chats

Items are drawn from the held-out side of the split with a fixed seed. With --training the text of
that run is searched for each item's content. An item with content in that text is scored as wrong.
"""
import argparse
import json
import re
import time
from pathlib import Path

import arithmetic
import chat
import chatml
import extract
import facts
import lists
import seen
import stories
import toolcalls
from backend import open_backend
from common import Source

CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.S)
FLOOR = 0.9


def same_text(got, want):
    return got.strip() == want


def same_json(got, want):
    try:
        return json.loads(got) == json.loads(want)
    except ValueError:
        return False


def same_calls(got, want):
    try:
        return [json.loads(c) for c in CALL.findall(got)] == [json.loads(c) for c in CALL.findall(want)]
    except ValueError:
        return False


def after_thinking(got, want):
    return got.split("</think>")[-1].strip() == want


def ask(messages, tools=None, thinking=None):
    return chatml.prompt(messages, tools, thinking)


def question(make, kind=None, thinking=None):
    """Make a task whose prompt is one user message. The lists and sums of a task (kinds of seen.py)
    are new to the model."""
    def draw(src):
        item = make(src)
        probes = seen.fingerprints(item.user + "\n" + item.answer, kind) if kind else set()
        return ask([{"role": "user", "content": item.user}], thinking=thinking), item.answer, probes
    return draw


def extraction(src):
    """Make an extraction in which both the person's full name and the combination of the requested
    fields are new."""
    item = extract.item(src)
    name, fields = item.keys
    probes = seen.fingerprints(name.removeprefix("name:"), "name") | {seen.hashed("fields " + fields.removeprefix("fields:"))}
    return ask([{"role": "user", "content": item.user}]), item.answer, probes


def tool_request(src):
    """Make a request among up to four tools. The answer is the call, which is new with its
    arguments."""
    tools = toolcalls.offered(src, src.choice((1, 2, 3, 4)))
    turn, _ = toolcalls.request(src, *src.choice(tools))
    want = "\n".join(map(chatml.call_block, turn[1]["tool_calls"]))
    return ask(turn[:1], [t for t, _ in tools]), want, seen.fingerprints(want, "call")


def tool_answer(src):
    """Make the turn after a tool's result."""
    tools = toolcalls.offered(src, 1)
    turn, _ = toolcalls.request(src, *tools[0])
    return ask(turn[:-1], [t for t, _ in tools]), turn[-1]["content"], set()


def recall(src):
    """Make a fact, another subject, and a question about the fact."""
    tell, question = chat.memory(src)
    between = facts.item(src)
    messages = [{"role": r, "content": c} for i in (tell, between) for r, c in (("user", i.user), ("assistant", i.answer))]
    return ask([*messages, {"role": "user", "content": question.user}]), question.answer, set()


REQUIRED = {
    "copy": (question(lambda s: lists.item(s, "copy"), "list"), same_text),
    "reverse": (question(lambda s: lists.item(s, "reverse"), "list"), same_text),
    "sort": (question(lambda s: lists.item(s, "sort"), "list"), same_text),
    "add": (question(arithmetic.addition, "add"), same_text),
    "extract": (extraction, same_json), "tool_call": (tool_request, same_calls)}
OTHERS = {
    "add_thinking": (question(arithmetic.addition, thinking=True), after_thinking), "subtract": (question(arithmetic.subtraction), same_text),
    "word_problem": (question(arithmetic.word_problem), after_thinking), "passage": (question(facts.passage), same_text),
    "tool_answer": (tool_answer, same_text), "memory": (recall, same_text)}


def score(backend, name, task, n, already, verbose):
    """Return the share of right answers among n items, and the number of items that occur in
    training (scored as wrong)."""
    draw, same = task
    src, right, leaked = Source("evaluation " + name, held=True), 0, 0
    for _ in range(n):
        prompt, want, probes = draw(src)
        leak = not probes.isdisjoint(already)
        got = "" if leak else backend.complete(prompt, 200)
        leaked += leak
        right += not leak and same(got, want)
        if verbose and not leak and not same(got, want):
            print(f"  {name}: want {want!r}\n  {' ' * len(name)}   got {got!r}")
    return right / n, leaked


def perplexity_text(n):
    """Return n held-out stories as one plain text. Training texts never have two stories in
    sequence, so each transition increases the perplexity slightly."""
    src = Source("evaluation perplexity", held=True)
    return "\n\n".join(stories.raw(src).parts[0][0] for _ in range(n))


def unselected(backend, n):
    """Return Markdown with n sampled stories and n chats, without selection."""
    out = ["## Ten unselected stories\n"]
    for seed in range(1, n + 1):
        out.append("> Once upon a time" + backend.complete("Once upon a time", 300, 0.7, seed).replace("\n", "\n> ") + "\n")
    out.append("## Ten unselected chats\n")
    for seed in range(1, n + 1):
        out.append(one_chat(backend, seed))
    return "\n".join(out)


def one_chat(backend, seed):
    """Return two answered questions of the generator's held-out side."""
    src, messages, lines = Source(f"chat {seed}", held=True), [], []
    for make in src.sample((chat.small_talk, facts.item, arithmetic.item, lists.item, extract.item), 2):
        messages.append({"role": "user", "content": make(src).user})
        reply = backend.complete(ask(messages), 200, 0.7, seed)
        messages.append({"role": "assistant", "content": reply.split("</think>")[-1].strip()})
        lines += [f"**user:** {messages[-2]['content']}\n", f"**quoth-tiny:** {reply}\n"]
    return "\n".join(lines) + "\n---\n"


def evaluate(backend, args):
    began = time.time()
    already = seen.of_training(json.loads(args.training.read_text())) if args.training else set()
    results, found = {}, {}
    for name, task in {**REQUIRED, **OTHERS}.items():
        if args.tasks and name not in args.tasks:
            continue
        results[name], found[name] = score(backend, name, task, args.items, already, args.verbose)
        print(f"{name:14} {100 * results[name]:6.1f} %" + (f"   {found[name]} seen in training" if already and name in REQUIRED else ""), flush=True)
    results["perplexity"] = backend.perplexity(perplexity_text(max(args.items // 2, 10)))
    print(f"perplexity of held-out stories {results['perplexity']:.3f}")
    results["items"] = args.items
    if already:
        results["seen"] = {name: found[name] for name in found if name in REQUIRED}
    print(f"{args.items} items per task, {len(already)} fingerprints of training text, {time.time() - began:.0f} s")
    return results


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--model", type=Path, required=True)
    args.add_argument("--backend", choices=("torch", "quoth"), default="torch")
    args.add_argument("--quoth", type=Path, default=Path("build/quoth"))
    args.add_argument("--items", type=int, default=200)
    args.add_argument("--training", type=Path, help="train.py's record: search that text for the items")
    args.add_argument("--show", type=int, default=0)
    args.add_argument("--markdown", type=Path)
    args.add_argument("--json", type=Path)
    args.add_argument("--check", action="store_true", help=f"exit 1 if a required task is below {FLOOR}")
    args.add_argument("--tasks", nargs="+", help="only these")
    args.add_argument("--verbose", action="store_true")
    args = args.parse_args()
    backend = open_backend(args)
    if args.show:
        text = unselected(backend, args.show)
        args.markdown.write_text(text) if args.markdown else print(text)
        return 0
    results = evaluate(backend, args)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    return int(args.check and min(results[name] for name in REQUIRED) < FLOOR)


if __name__ == "__main__":
    raise SystemExit(main())
