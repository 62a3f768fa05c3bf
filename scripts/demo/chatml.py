"""The chat format, rendered twice: by template.jinja, which is part of the model, and by this file,
in pieces with loss weights.

`pieces` splits a training conversation into (text, learn). The model learns the assistant's part
with full weight, and other parts with a small weight. Training texts and prompts must agree to the
byte; test_template in check.py compares them. """
import json
from pathlib import Path

TEMPLATE = (Path(__file__).parent / "template.jinja").read_text()
CALL_HELP = '\n</tools>\nCall a tool like this:\n<tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>'
START, END, TEXT_END = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
SPECIAL = [TEXT_END, START, END]
MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]


def dumps(value):
    return json.dumps(value, ensure_ascii=False)


def system_block(messages, tools):
    own = messages[0]["content"] if messages[0]["role"] == "system" else ""
    if tools:
        own += ("\n\n" if own else "") + "# Tools\n<tools>" + "".join("\n" + dumps(t) for t in tools) + CALL_HELP
    return f"{START}system\n{own}{END}\n" if own else ""


def call_block(call):
    return f'<tool_call>\n{{"name": "{call["function"]["name"]}", "arguments": {dumps(call["function"]["arguments"])}}}\n</tool_call>'


def thinking_prefix(thinking):
    """Return the prompt's text after the assistant's role."""
    return {None: "", False: "<think>\n\n</think>\n\n", True: "<think>\n"}[thinking]


def assistant_pieces(message, prefix):
    content, calls = message["content"], "\n".join(map(call_block, message.get("tool_calls", [])))
    body = content + ("\n" if content and calls and not content.endswith("\n") else "") + calls
    return [(f"{START}assistant\n{prefix}", False), (body + END, True), ("\n", False)]


def pieces(doc):
    """Return the [(text, learn)] of a whole training document. The last assistant turn has the
    thinking prefix."""
    if doc.messages is None:
        return [*doc.parts, (TEXT_END, True)]
    messages, out = doc.messages, [(system_block(doc.messages, doc.tools), False)]
    for i, m in enumerate(messages):
        if m["role"] == "assistant":
            out += assistant_pieces(m, thinking_prefix(doc.thinking) if i == len(messages) - 1 else "")
        elif m["role"] == "user":
            out.append((f"{START}user\n{m['content']}{END}\n", False))
        elif m["role"] == "tool":
            first, last = messages[i - 1]["role"] != "tool", messages[i + 1]["role"] != "tool"
            out.append((f"{START}user" * first + f"\n<tool_response>\n{m['content']}\n</tool_response>" + f"{END}\n" * last, False))
    return out[:-1] + [("\n" + TEXT_END, False)]


def prompt(messages, tools=None, thinking=None):
    """Return the text before the next assistant turn: template.jinja with add_generation_prompt."""
    import jinja2
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = dumps
    extra = {} if thinking is None else {"enable_thinking": thinking}
    return env.from_string(TEMPLATE).render(messages=messages, tools=tools, add_generation_prompt=True, **extra)
