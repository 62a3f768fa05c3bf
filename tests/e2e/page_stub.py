"""A server with scripted answers for the tests of the web page. It forwards all other paths to
quoth. The last user message selects the answer. This module contains no tests."""
import http.client
import http.server
import json
import threading
import time

THOUGHT = "First I think.\nThen I think again."
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}}
MARKDOWN = """# Title

A **bold** word, an *emphasized* one, `code`, ~~gone~~ and [a link](https://example.org/x).

| name | n |
|:-----|--:|
| one | 1 |
| two | 2 |

1. first
2. second
   - inner

> quoted

```python
def f(x):
    return x + 1
```

- [x] done
- [ ] open
"""


def long_text():
    """Return a text of about 20,000 tokens: paragraphs, lists, tables and code."""
    parts = []
    for i in range(60):
        parts.append(f"## Part {i}\n\n" + " ".join(f"word{i}_{k}" for k in range(60)) + "\n\n")
        parts.append("".join(f"- item {k} of *part* {i} with `code`\n" for k in range(15)) + "\n")
        parts.append("```c\n" + "".join(f"int f{i}_{k}(int x) {{ return x + {k}; }}\n" for k in range(15)) + "```\n\n")
        parts.append("| a | b |\n|---|---|\n" + "".join(f"| {k} | {k * i} |\n" for k in range(10)) + "\n")
    return "".join(parts)


# texts of about 20,000 tokens: with all kinds of blocks, one line, one block of code, one list
TEXTS = {"long": long_text, "line": lambda: "some *more* words of one line " * 3300, "code": lambda: "```c\n" + "int x = 1; /* a line */\n" * 4200 + "```\n",
         "items": lambda: "- an item of `one` list\n" * 4100,
         "numbers": lambda: "1. an item of `one` list\n" * 4000, "rows": lambda: "| a | b |\n|---|--:|\n" + "| a row of one | 12 |\n" * 4700,
         "quote": lambda: "> a line of one *quote*\n" * 4500, "nested": lambda: "- an item\n" + "  - an item in an item\n" * 4500,
         "tree": lambda: ("- an item\n" + "  - an item in an item\n" * 40) * 110}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def forward(self):
        c = http.client.HTTPConnection("127.0.0.1", self.server.quoth_port, timeout=60)
        c.request(self.command, self.path)
        r = c.getresponse()
        body = r.read()
        self.send_response(r.status)
        for name, value in r.getheaders():
            if name.lower() not in ("content-length", "connection", "date", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        c.close()

    do_GET = do_HEAD = forward

    def event(self, value):
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def delta(self, **d):
        self.event({"choices": [{"index": 0, "delta": d, "finish_reason": None}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((body, dict(self.headers)))
        if self.path != "/v1/chat/completions":
            self.send_error(404)
            return
        last = body["messages"][-1]
        words = last["content"].split(" ", 1)
        if words[0] == "refuse":
            text = json.dumps({"error": {"message": "no such thing", "type": "invalid_request_error", "code": None, "param": None}}).encode()
            self.send_response(400)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self.answer(last, words)
        except OSError:
            self.server.cut += 1

    def answer(self, last, words):
        self.delta(role="assistant", content="")
        if last["role"] == "tool":
            self.delta(content=f"The tool answered: {last['content']}")
        elif words[0].startswith("tools"):
            for piece in THOUGHT.split(" "):
                self.delta(reasoning_content=piece + " ")
            self.delta(tool_calls=[CALL])
        elif words[0] == "slow":
            for i in range(600):
                self.delta(content=f"{i} ")
                time.sleep(0.05)
        elif words[0] == "steady":
            for i in range(25):
                self.delta(content=f"{i} ")
                time.sleep(0.05)
        elif words[0] == "break":
            self.delta(content="begun")
            self.event({"error": {"message": "the engine failed", "type": "server_error", "code": None, "param": None}})
            return
        elif words[0].startswith("markdown"):
            for i in range(0, len(MARKDOWN), 3):
                self.delta(content=MARKDOWN[i:i + 3])
        elif words[0] == "payload":
            text = self.server.payloads[int(words[1])]
            for i in range(0, len(text), 7):
                self.delta(content=text[i:i + 7])
        elif words[0] in TEXTS:
            text = TEXTS[words[0]]()
            for i in range(0, len(text), 5):
                self.delta(content=text[i:i + 5])
                if i % 500 == 0:
                    time.sleep(0.004)
        else:
            self.delta(content=f"Answer {len(self.server.requests)} to: {last['content']}")
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self.event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")


def start(quoth_port, payloads):
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    s.daemon_threads = True
    s.quoth_port, s.payloads, s.requests, s.cut = quoth_port, payloads, [], 0
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s
