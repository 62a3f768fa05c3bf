#!/usr/bin/env python3
"""Goal: the computation, the screen, the files and the end of a chat in a terminal are correct.
Method: run `quoth run` on a tiny random model in a pseudo-terminal. Send the keys of a person, or
of a terminal that pastes. If pyte can be installed, it emulates a screen that truncates rows when
it becomes narrower. If tmux is installed, it is a second terminal, which folds rows. Pipes test
--raw, usage and exit codes.

Environment: QUOTH the program, QUOTH_ROOT the repository. Arguments are filters for test names.
The script prints "ok NAME", "FAIL NAME: why" or "skip NAME (why)" per test."""
import fcntl
import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata
import venv
from concurrent.futures import ThreadPoolExecutor

ROOT = os.environ.get("QUOTH_ROOT") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUOTH = os.environ.get("QUOTH") or os.path.join(ROOT, "build", "quoth")
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(TESTS, "golden", "qwen3", "model.gguf")
# the window has 16 tokens, so long prompts cost little
WINDOWED = os.path.join(TESTS, "golden", "mistral", "model.gguf")
STORIES = os.path.join(ROOT, "models", "quoth-tiny", "quoth-tiny-q8_0.gguf")  # this model writes words
PAGE = 32
TMP = tempfile.mkdtemp(prefix="quoth-chat-")
CHATML = os.path.join(TMP, "chatml.jinja")
PROMPT = re.compile(rb"> (\x1b\[[0-9;?]*[A-Za-z])*$")
SPEED = re.compile(rb"(\d+)\s+prompt\s+tokens\s+\((\d+)\s+cached\),\s+[0-9.]+/s;\s+(\d+)\s+generated")

with open(CHATML, "w") as f:
    f.write("{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor -%}"
            "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}")


THINK = os.path.join(TMP, "think.jinja")
with open(THINK, "w") as f:
    f.write("{%- for m in messages -%}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n"
            "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor -%}"
            "{%- if add_generation_prompt -%}<|im_start|>assistant\n<think>\n"
            "{% if enable_thinking is false %}\n</think>\n\n{% endif %}{% endif -%}")


class Failed(Exception):
    pass


def check(ok, why):
    if not ok:
        raise Failed(why)


def screen_module():
    """Return pyte, from a venv in the cache folder, or None if it cannot be installed."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    home = os.path.join(cache, "quoth", "test-venv")
    python = os.path.join(home, "bin", "python3")
    try:
        if not os.path.exists(python):
            venv.create(home, with_pip=True)
        where = ["-c", "import pyte, os; print(os.path.dirname(os.path.dirname(pyte.__file__)))"]
        if subprocess.run([python] + where, capture_output=True).returncode != 0:
            subprocess.run([python, "-m", "pip", "-q", "install", "pyte"], check=True, capture_output=True, timeout=60)
        sys.path.append(subprocess.run([python] + where, capture_output=True, check=True, text=True).stdout.strip())
        import pyte
        return pyte
    except Exception:
        return None


PYTE = screen_module()


class Chat:
    """quoth run in a pseudo-terminal, which truncates rows that are longer than its width."""

    cuts = True

    def __init__(self, *flags, rows=24, cols=80, model=MODEL):
        env = dict(os.environ, TERM="xterm-256color", LANG="C.UTF-8", XDG_STATE_HOME=os.path.join(TMP, "state"))
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(QUOTH, [QUOTH, "run", model, "-t", "1", *flags], env)
        self.out = b""
        self.mark = 0
        self.screen = PYTE and PYTE.Screen(cols, rows)
        self.stream = PYTE and PYTE.ByteStream(self.screen)
        self.resize(rows, cols)
        self.prompt()

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        if self.screen:
            self.screen.resize(rows, cols)

    def read(self, wait):
        """Read for `wait` seconds. Return False at the end."""
        if not select.select([self.fd], [], [], wait)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.out += data
        if self.stream:
            self.stream.feed(data)
        return len(data) > 0

    def until(self, pattern, seconds=120):
        """Wait for a pattern after the mark, and move the mark after it."""
        end = time.time() + seconds
        pattern = pattern if hasattr(pattern, "search") else re.compile(pattern, re.S)
        while True:
            found = pattern.search(self.out, self.mark)
            if found:
                self.mark = found.end()
                return found
            check(time.time() < end, "no %r in %r" % (pattern.pattern, self.out[self.mark:][-600:]))
            check(self.read(0.05) or pattern.search(self.out, self.mark), "it ended: %r" % self.out[-600:])

    def prompt(self):
        self.until(PROMPT)

    def send(self, keys):
        keys = keys.encode() if isinstance(keys, str) else keys
        while keys:  # a terminal buffers about 4 kB, so the echo must be read at the same time
            n = os.write(self.fd, keys[:512])
            keys = keys[n:]
            self.read(0)

    def say(self, text):
        """Send a message. Return (prompt tokens, cached, generated)."""
        self.send(text + "\r")
        numbers = tuple(int(x) for x in self.until(SPEED).groups())
        self.prompt()
        return numbers

    def command(self, text):
        """Send a command. Return its output."""
        begin = len(self.out)
        self.send(text + "\r")
        self.until(rb"\n")
        self.prompt()
        return self.out[begin:].decode(errors="replace")

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def cursor(self):
        return self.screen.cursor.x, self.screen.cursor.y

    def above(self, row, cols):
        return [line[:cols].rstrip() for line in self.lines()[:row]]

    def shows(self, what, holds, seconds=10):
        """Wait until the screen's lines satisfy the condition."""
        end = time.time() + seconds
        while not holds(self.lines()):
            check(time.time() < end, "%s: the screen shows %r" % (what, [x for x in self.lines() if x]))
            self.read(0.05)

    def conversation(self):
        path = os.path.join(TMP, "saved.json")
        self.command("/save " + path)
        with open(path) as f:
            return json.load(f)

    def leave(self, keys="\x04"):
        """Leave the chat with the given keys, and check the exit status."""
        status = self.close(keys)
        check(status == 0, "exit status %s: %r" % (status, self.out[-300:]))

    def close(self, keys):
        """Leave the chat. Return the exit status."""
        self.send(keys)
        end = time.time() + 10
        while self.read(0.1) and time.time() < end:
            pass
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        while pid == 0 and time.time() < end:
            time.sleep(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status) if pid else "it did not leave"


class Tmux:
    """quoth run in a tmux window, which folds and joins rows as most terminals do."""

    cuts = False
    number = itertools.count()

    def __init__(self, rows, cols):
        self.socket = os.path.join(TMP, "tmux%d" % next(Tmux.number))
        run = [QUOTH, "run", MODEL, "-t", "1", "--chat-template", CHATML, "--max-tokens", "4"]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(cols), "-y", str(rows), "env", "LANG=C.UTF-8",
                  "XDG_STATE_HOME=" + os.path.join(TMP, "state"), *run)
        self.tmux("set", "-g", "window-size", "manual")
        # the line must be at the bottom, because tmux scrolls the rows when it folds earlier rows
        self.send("/help\r" * 3)
        self.shows("a prompt", lambda lines: lines[-1] == ">" and "> /help" in lines)

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-u", "-S", self.socket, *arguments], check=True, capture_output=True, text=True,
                              timeout=10, env=dict(os.environ, LANG="C.UTF-8")).stdout

    def send(self, keys):
        self.tmux("send-keys", "-H", *["%02x" % b for b in keys.encode()])

    def resize(self, rows, cols):
        self.tmux("resize-window", "-x", str(cols), "-y", str(rows))

    def lines(self):
        return [x.rstrip() for x in self.tmux("capture-pane", "-p").split("\n")[:-1]]

    def above(self, row, cols):
        """Return the text above a row of the screen, scrolled or not. Rows that tmux folded are one
        line."""
        text = self.tmux("capture-pane", "-p", "-J", "-S", "-", "-E", str(row - 1))
        return [x.rstrip() for x in text.split("\n")[:-1]]

    def cursor(self):
        return tuple(int(x) for x in self.tmux("display-message", "-p", "#{cursor_x} #{cursor_y}").split())

    shows = Chat.shows

    def read(self, wait):
        time.sleep(wait)

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True)


def quoth(*arguments, stdin=b""):
    return subprocess.run([QUOTH, *arguments], input=stdin, capture_output=True, timeout=60)


def chat(*flags, n=16, context=2048, **more):
    template = () if "--raw" in flags else ("--chat-template", CHATML)
    return Chat(*template, "--seed", "7", "--ignore-eos", "--max-tokens", str(n), "--max-model-len", str(context), *flags, **more)


# ---- the chat ----


def test_fifty_turns_compute_only_what_is_new():
    c = chat(n=24, context=16384)
    before = 0
    for i in range(50):
        n_prompt, n_cached, n_output = c.say("turn %d: tell me more, please" % i)
        new = n_prompt - before
        check(new > 0, "turn %d: the prompt shrank from %d to %d" % (i, before, n_prompt))
        check(n_prompt - n_cached <= new + PAGE,
              "turn %d computed %d tokens, %d are new" % (i, n_prompt - n_cached, new))
        before = n_prompt + n_output
    check(len(c.conversation()) == 100, "not 100 messages")
    c.leave()


def test_system_prompt_and_clear():
    c = chat("--system", "be brief")
    first = c.say("hello")[0]
    check(c.conversation()[0] == {"role": "system", "content": "be brief"}, "no system message")
    check("new conversation" in c.command("/clear"), "no word about it")
    check(len(c.conversation()) == 1, "not cleared")
    again = c.say("hello")
    check(again[0] == first, "another prompt after /clear")
    c.command("/system ")
    check("be brief" in c.out[-200:].decode(), "/system does not show it")
    c.command('/system ""')
    check(c.conversation()[0]["role"] == "user", "the system prompt is not gone")
    c.leave("/quit\r")


def test_interrupt_stops_the_answer_not_the_program():
    c = chat(n=60000, context=65536)  # maximum time in seconds
    c.send("go on for ever\r")
    time.sleep(0.3)
    c.send("\x03")
    c.until(rb"\[stopped\]")
    c.prompt()
    messages = c.conversation()
    check([m["role"] for m in messages] == ["user", "assistant"], "messages: %r" % messages)
    check(len(messages[1]["content"]) > 0, "what came is lost")
    c.command("/set max-tokens 4")
    n_prompt, n_cached, _ = c.say("and now?")
    check(n_cached > 0 and n_prompt - n_cached < 2 * PAGE + 64, "%d of %d cached" % (n_cached, n_prompt))
    c.leave()


def test_interrupt_at_the_prompt():
    c = chat()
    for _ in range(20):
        c.send("\x03")
        c.until(rb"/quit leaves")
        c.prompt()
    c.send("half a line")
    c.until(rb"half a line")
    c.send("\x03")
    c.until(rb"\^C")
    c.prompt()
    check(c.conversation() == [], "the given-up line was sent")
    c.leave()


def test_typing_ahead_is_kept():
    c = chat(n=300)
    c.send("first\r")
    time.sleep(0.1)
    c.send("second\r")
    c.until(SPEED)
    c.until(SPEED)
    c.prompt()
    check([m["content"] for m in c.conversation()][::2] == ["first", "second"], "messages")
    c.leave()


def test_multiline_messages():
    c = chat()
    c.send("one\\\r")
    c.until(rb"\. ")
    c.say("two")
    c.send('"""\r')
    c.until(rb"\. ")
    c.send("a\r")
    c.until(rb"\. ")
    c.send("  b\r")
    c.until(rb"\. ")
    c.say('"""')
    users = [m["content"] for m in c.conversation()][::2]
    check(users == ["one\ntwo", "a\n  b"], "messages: %r" % users)
    c.leave()


def test_paste_of_ten_kilobytes_is_one_message():
    text = "".join("line %d of a paste, 你好 \\ end\n" % i for i in range(300))
    c = chat(n=2, context=16384, model=WINDOWED)
    c.send("look: ")
    c.send(b"\x1b[200~" + text.replace("\n", "\r").encode() + b"\x1b[201~")
    c.until(rb"\[paste 1: \d+ characters, 301 lines\]")
    check(c.say(" (end)")[0] > 5000, "a short prompt")
    users = [m["content"] for m in c.conversation()][::2]
    check(users == ["look: " + text + " (end)"], "messages: %r" % [u[:80] for u in users])
    c.command("/clear")
    c.send(b"\x1b[200~short paste\x1b[201~")
    c.until(rb"short paste")
    c.say("!")
    check(c.conversation()[0]["content"] == "short paste!", "a short paste")
    c.leave()


def test_wide_characters_are_edited():
    c = chat()
    c.send("你好世界 🎉 é")
    c.until("é".encode())
    c.send("\x7f\x7f\x7fx\x1b[D\x1b[D\x7f")  # back over é, blank, 🎉; x; left twice; delete 界
    c.say("")
    content = c.conversation()[0]["content"]
    check(content == "你好世 x", "message: %r" % content)
    c.leave()


def test_save_and_load():
    c = chat()
    c.say("hello")
    n_prompt = c.say("more")[0]
    saved = c.conversation()
    c.leave()
    c = chat()
    check("Loaded 4 messages" in c.command("/load " + os.path.join(TMP, "saved.json")), "not loaded")
    check(c.conversation() == saved, "the conversation changed")
    check(c.say("and?")[0] > n_prompt, "the loaded messages are not in the prompt")
    check("no-such" in c.command("/load /no-such"), "no sentence for a missing file")
    check(len(c.conversation()) == 6, "a failed /load changed the conversation")
    c.leave()


def test_set():
    c = chat()
    check(c.say("a")[2] == 16, "--max-tokens")
    c.command("/set max_tokens 5")
    check(c.say("b")[2] == 5, "/set max_tokens 5")
    check("temperature" in c.command("/set"), "/set lists nothing")
    check("did you mean temperature" in c.command("/set temprature 1"), "no suggestion")
    check("temperature: must be" in c.command("/set temperature -3"), "range")
    check("did you mean /system" in c.command("/sytem x"), "no suggestion for a command")
    check(len(c.conversation()) == 4, "a command became a message")
    c.leave()


def test_thinking_is_dim_and_can_be_turned_off():
    c = chat("--chat-template", THINK)
    c.say("think")
    check(b"\x1b[2m" in c.out and b"\x1b[22m" in c.out, "reasoning is not dim")
    message = c.conversation()[1]
    check(message["reasoning_content"] and not message["content"], "message: %r" % message)
    c.command("/think off")
    begin = len(c.out)
    c.say("answer")
    check(c.out[begin:].count(b"\x1b[2m") == 1, "content is dim, not the figures alone")
    message = c.conversation()[3]
    check(message["content"] and "reasoning_content" not in message, "message: %r" % message)
    check("on or off" in c.command("/think"), "usage")
    c.leave()


def test_full_context_says_length():
    c = chat(n=100000, context=128)
    c.send("hello\r")
    c.until(rb"\[length: the context of 128 tokens is full")
    c.prompt()
    c.send("more\r")
    c.until(rb"/clear")
    c.prompt()
    check(len(c.conversation()) == 2, "the message that did not fit stayed")
    c.command("/clear")
    c.send("hello\r")
    c.until(rb"\[length:")
    c.prompt()
    c.leave()


def test_screen_after_resize_interrupt_and_wide_characters():
    if not PYTE:
        return "no pyte"
    c = chat(n=4, rows=20, cols=60)
    c.send("宽" * 40)  # the line is wrapped at 80 columns
    c.shows("40 wide characters", lambda lines: "".join(lines).count("宽") == 40)
    c.resize(20, 100)
    c.send("z")
    c.shows("wider", lambda lines: any(x.endswith("宽z") for x in lines))
    c.send("\x03")
    c.until(rb"\^C")
    c.prompt()
    c.send("abc\x01X\x05Y")
    c.shows("edited", lambda lines: "> XabcY" in lines)
    c.resize(20, 40)
    c.send("Z" * 40)
    c.shows("narrower", lambda lines: "Z" * 40 in "".join(lines))
    c.say("")
    c.shows("the next prompt", lambda lines: ">" in lines)
    check(c.conversation()[0]["content"] == "XabcY" + "Z" * 40, "message")
    c.leave()


def test_regenerate_undo_and_edit():
    c = chat(n=12)
    for word in ["/regenerate", "/undo", "/edit"]:
        check("message of the user is missing" in c.command(word), word)
    c.command("/set temperature 1")
    c.command("/set seed 1")
    c.say("first")
    c.say("second")
    before = c.conversation()
    c.command("/set seed 2")
    prompt = c.say("/regenerate")[0]
    after = c.conversation()
    check(after[:3] == before[:3] and len(after) == 4 and after[3] != before[3], "regenerated: %r" % after)
    c.command("/set seed 1")
    check(c.say("/regenerate")[0] == prompt and c.conversation() == before, "the same seed gives another answer")
    c.send("/edit\r")
    c.until(rb"> second")
    c.send("\x7f" * 6 + "other\r")
    c.until(SPEED)
    c.prompt()
    edited = c.conversation()
    check(edited[:2] == before[:2] and edited[2]["content"] == "other" and len(edited) == 4, "edited: %r" % edited)
    c.send("/edit\r")
    c.until(rb"> other")
    c.send("\x03")
    c.until(rb"Nothing was changed")
    c.prompt()
    check(c.conversation() == edited, "a given-up edit changed the conversation")
    check("removed" in c.command("/undo"), "/undo")
    check(c.conversation() == before[:2], "undone")
    c.send("two\\\r")
    c.until(rb"\. ")
    c.say("lines")
    c.send("/edit\r")
    c.until(rb"lines")
    c.say("!")
    check(c.conversation()[2]["content"] == "two\nlines!", "%r" % c.conversation()[2])
    c.leave()


def test_tab_completes_commands():
    c = chat(n=4)
    c.send("/reg\t")
    c.until(rb"/regenerate")
    c.send("\x03")
    c.prompt()
    c.send("/set temp\t0.25\r")
    c.prompt()
    c.send("/s\t")
    c.until(rb"/system  /save  /set")
    c.send("et top-\t")
    c.until(rb"top-k  top-p  top-n-sigma")
    c.send("\x03")
    c.prompt()
    check(re.search(r"temperature +0.25\r\n", c.command("/set")), "not completed")
    c.send("no\ttab")
    c.say("")
    check(c.conversation()[0]["content"] == "notab", "Tab in a message")
    c.leave()


def test_set_shows_values_in_force():
    c = chat(n=4)
    shown = c.command("/set")
    for line in [r"temperature +0.7", r"top-p +0.9", r"repetition-penalty +1", r"max-tokens +4", r"seed +7", r"dry-base +1.75"]:
        check(re.search(line + r"\r\n", shown), "%s in %r" % (line, shown))
    check("not set" not in shown, shown)
    check('/set: top-p: must be a number in (0, 1], got hot' in c.command("/set top-p hot"), "a wrong value")
    check("/set: option nosuch not found; available: see /set" in c.command("/set nosuch 1"), "an unknown option")
    check("did you mean temperature?" in c.command("/set temprature 1"), "a mistyped one")
    c.leave()


def test_answers_are_wrapped_and_figures_dim():
    for env, style in [({}, True), ({"NO_COLOR": "1"}, False)]:
        os.environ.update(env)
        c = Chat("--seed", "3", model=STORIES, rows=40, cols=40)
        c.send("Tell me a story about a dog.\r")
        begin = c.mark
        end = c.until(SPEED).start()
        c.prompt()
        dim = b"\x1b[2m" in c.out[begin:end]
        text = c.conversation()[1]["content"]
        c.leave()
        for name in env:
            del os.environ[name]
        check(dim == style, "figures, %s" % env)
        rows = c.out[begin:end].decode().replace("\r", "").replace("\x1b[2m", "").split("\n")
        rows = rows[1:-1] if rows[-1] == "" else rows[1:]
        check(all(len(row) <= 40 for row in rows) and len(rows) > len(text) / 40, "rows: %r" % rows)
        check(" ".join(rows).split() == text.split(), "words: %r, %r" % (rows, text))


def test_texts_of_the_program_wrap_at_words():
    said = {}
    for cols in (60, 200):
        c = Chat("--chat-template", CHATML, "--max-tokens", "4", "--stop", "a long text that never comes", rows=60, cols=cols)
        for command in ("/help", "/set", "/set temprature 1", "/load no/such/path/of/a/conversation/ever/saved", "Hi"):
            begin = len(c.out)
            c.send(command + "\r")
            c.until(rb" ms" if command == "Hi" else rb"\n")
            c.prompt()
            rows = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", c.out[begin:].decode()).replace("\r", "").split("\n")[1:-1]
            if command == "Hi":
                rows = rows[[i for i, row in enumerate(rows) if " prompt tokens (" in row][0]:]
                rows = [re.sub(r"[0-9.]+", "0", row) for row in rows]
            check(all(columns(row) <= cols for row in rows), "%d columns: %r" % (cols, rows))
            said[cols, command] = [word for row in rows for word in row.split()]
            check(said[60, command] == said[cols, command], "other words: %r, %r" % (said[60, command], rows))
        c.leave()


def columns(text):
    return sum(2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


def wrapped(text, cols):
    """Return the rows of a line."""
    rows = [""]
    for ch in text:
        if columns(rows[-1] + ch) > cols:
            rows.append("")
        rows[-1] += ch
        if columns(rows[-1]) == cols:
            rows.append("")
    return rows


WORDS = "a line of words that wraps, again and again, until it has several rows of them to show "
RESIZED = [  # typed text, moves of the cursor to the left, numbers of columns
    (WORDS * 2, 0, [59, 58, 34, 77]),
    (WORDS * 2, 50, [50, 20, 21, 90]),
    (WORDS * 2, 174, [30, 60, 15, 100]),
    ("宽" * 57, 0, [59, 40, 39, 80, 61]),
    ("x" + "宽" * 57 + " abc", 20, [59, 31, 30, 77]),
    ("Z" * 58, 0, [59, 60, 29, 61]),  # this text fills a row, so the cursor is in an empty row
    ("Z" * 58, 1, [59, 60, 20, 61]),
    ("blanks " + " " * 60 + "and an end", 5, [50, 20, 70]),
    ("short", 2, [30, 8, 6, 60]),
    # a message of two lines; the second one is edited
    ("first\\\r" + WORDS * 2, 10, [50, 20, 70]),
]


def place(text, i, cols):
    """Return the column and row of character i of a line."""
    before = wrapped(text[:i], cols)
    fits = i == len(text) or columns(before[-1] + text[i]) <= cols
    return (columns(before[-1]), len(before) - 1) if fits else (0, len(before))


def type_and_resize(c, typed, left, sizes):
    """Check after each size that the screen has the line once, below the former text, with the
    cursor in the line."""
    above = c.above(c.cursor()[1], 60)
    first, _, last = typed.rpartition("\r")
    above += ["> " + first] if first else []
    text = (". " if first else "> ") + last
    c.send(typed + "\x1b[D" * left)
    narrowest = 60
    for cols in [60] + sizes:
        if cols != 60 or narrowest < 60:
            c.resize(30, cols)
        narrowest = min(narrowest, cols)
        rows = [row.rstrip() for row in wrapped(text, cols)] + [""] * 30
        x, y = place(text, len(text) - left, cols)

        def right(lines):
            top = c.cursor()[1] - y
            return (c.cursor()[0] == x and top >= 0 and lines[top:] == rows[:30 - top] and
                    c.above(top, narrowest) == [line[:narrowest].rstrip() if c.cuts else line for line in above])

        c.shows("%r with %d columns" % (typed, cols), right)


def resized_in_tmux(case):
    c = Tmux(30, 60)
    try:
        type_and_resize(c, *case)
    finally:
        c.close()


def resized_where_rows_are_cut(case):
    c = chat(n=4, rows=30, cols=60)
    c.send("\x1b[>41;380;0c")  # the answer of xterm
    type_and_resize(c, *case)
    c.send("\x03")
    c.until(rb"\^C")
    c.prompt()
    c.leave()


def test_resize_where_rows_are_folded():
    if not shutil.which("tmux"):
        return "no tmux"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(resized_in_tmux, RESIZED))


def test_resize_where_rows_are_cut():
    if not PYTE:
        return "no pyte"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(resized_where_rows_are_cut, RESIZED))


def test_no_control_characters_from_the_model():
    c = chat(n=600)
    c.send("noise\r")
    begin = c.mark
    end = c.until(SPEED).start()
    shown = c.out[begin:end].decode()
    bad = {ch for ch in shown if (ch < " " and ch not in "\r\n\t\x1b") or "\x7f" <= ch < "\xa0"}
    check(not bad, "control characters: %r" % bad)
    c.prompt()
    c.leave()


def test_history_is_kept():
    c = chat(n=2)
    c.say("remember this line")
    c.leave()
    c = chat(n=2)
    c.send("\x1b[A")
    c.until(rb"remember this line")
    c.say("")
    check(c.conversation()[0]["content"] == "remember this line", "message")
    c.leave()


def test_raw_lines_without_template():
    c = Chat("--raw", "--max-tokens", "5", "--ignore-eos")
    first = c.say("hello")
    check(c.say("hello")[0] == first[0], "a line was not completed by itself")
    check("--chat-template" in c.command("/clear"), "no word about the missing template")
    c.leave("/exit\r")


def test_a_line_longer_than_the_context():
    for flags, words in (([], "/clear begins"), (["--raw"], "Each message is completed separately")):
        c = chat(*flags, context=64)
        text = c.command("word " * 100)
        check(words in " ".join(text.split()), "%s: %s" % (flags, text))
        c.leave("/bye\r")


# ---- pipes, usage ----


def test_raw_output_is_exact():
    flags = ["--raw", "--temperature", "0", "--max-tokens", "40", "--ignore-eos"]
    plain = quoth("run", MODEL, "Once upon", *flags)
    as_json = json.loads(quoth("run", MODEL, "Once upon", *flags, "--json").stdout)
    check(plain.returncode == 0 and plain.stderr.count(b"40 generated") == 1, "stderr: %r" % plain.stderr)
    check(quoth("run", MODEL, "Once upon", *flags, "-q").stderr == b"", "-q has a report")
    check(plain.stdout.decode() == as_json["text"], "stdout is not the completion")
    check(quoth("run", MODEL, *flags, stdin=b"Once upon").stdout == plain.stdout, "standard input differs")


def test_one_message_goes_through_the_template():
    flags = ["--temperature", "0", "--max-tokens", "12", "--ignore-eos", "--json", "--max-model-len", "512"]
    template = ["--chat-template", CHATML, "--system", "be brief"]
    chatted = json.loads(quoth("run", MODEL, "hi", *flags, *template).stdout)
    messages = json.dumps([{"role": "user", "content": "hi"}]).encode()
    prompt = quoth("template", CHATML, "-", "--system", "be brief", stdin=messages).stdout
    check(prompt.endswith(b"<|im_start|>assistant\n") and prompt.startswith(b"<|im_start|>system\nbe brief"), "%r" % prompt)
    raw = json.loads(quoth("run", MODEL, prompt.decode(), *flags, "--raw").stdout)
    check(chatted["token_ids"] == raw["token_ids"], "other tokens than through the rendered prompt")
    check(chatted["message"]["content"] == chatted["text"], "message")


def test_template_options():
    conversation = {"messages": [{"role": "user", "content": "é"}], "add_generation_prompt": False}
    out = quoth("template", CHATML, "-", stdin=json.dumps(conversation).encode())
    check(out.stdout == "<|im_start|>user\né<|im_end|>\n".encode(), "%r" % out.stdout)
    clock = os.path.join(TMP, "clock.jinja")
    with open(clock, "w") as f:
        f.write("{{ strftime_now('%d %B %Y') }}|{{ enable_thinking }}")
    out = quoth("template", clock, "-", "--now", "2026-11-20", "--default-chat-template-kwargs",
                '{"enable_thinking": 3}', stdin=b"[]")
    check(out.stdout == b"20 November 2026|3", "%r" % out.stdout)
    check(quoth("template", CHATML, "-", stdin=b"7").returncode == 1, "a number as conversation")
    check(quoth("template", MODEL, "-", stdin=b"[]").returncode == 1, "a model without template")
    check(quoth("template", CHATML).returncode == 2, "usage")


def test_parse():
    text = b'<think>\nhm\n</think>\n\nok\n<tool_call>\n{"name": "f", "arguments": {"a": [1, 2]}}\n</tool_call>'
    out = quoth("parse", "--tool-call-parser", "hermes", "--reasoning-parser", "think", stdin=text)
    message = json.loads(out.stdout)
    check(message["content"] == "ok" and message["reasoning_content"] == "hm", "%r" % message)
    call = message["tool_calls"][0]
    check(call["type"] == "function" and call["id"] and call["function"]["name"] == "f", "%r" % call)
    check(json.loads(call["function"]["arguments"]) == {"a": [1, 2]}, "arguments")
    plain = json.loads(quoth("parse", "--template", CHATML, stdin=b"just text\n").stdout)
    check(plain == {"role": "assistant", "content": "just text\n"}, "%r" % plain)
    wrong = quoth("parse", "--tool-call-parser", "nope")
    check(wrong.returncode == 2 and b"hermes" in wrong.stderr, "%r" % wrong.stderr)


def test_exit_codes_and_suggestions():
    check(quoth("run", MODEL, "a", "--max-tokens", "1").returncode == 0, "0")
    missing = quoth("run", "/no/such/model.gguf", "a")
    check(missing.returncode == 1 and missing.stderr.count(b"\n") == 1, "%r" % missing.stderr)
    typo = quoth("run", MODEL, "--temprature", "1")
    check(typo.returncode == 2 and b"did you mean --temperature" in typo.stderr, "%r" % typo.stderr)
    check(quoth("run", MODEL, "a", "--top-p", "7").returncode == 2, "range")
    check(quoth("run", MODEL, "a", "--max-tokens").returncode == 2, "a missing value")
    command = quoth("tokenise")
    check(command.returncode == 2 and b"tokenize" in command.stderr, "%r" % command.stderr)
    check(quoth("run", "--help").returncode == 0, "--help")
    template = quoth("run", MODEL, "a", "--chat-template", "/no/such.jinja")
    check(template.returncode == 1 and b"/no/such.jinja" in template.stderr, "%r" % template.stderr)


def test_underscores_and_config_files():
    flags = ["--raw", "--temperature", "0", "--ignore-eos"]
    dashes = quoth("run", MODEL, "a", *flags, "--max-tokens", "6")
    check(quoth("run", MODEL, "a", *flags, "--max_tokens=6").stdout == dashes.stdout, "--max_tokens=6")
    config = os.path.join(TMP, "config.yaml")
    with open(config, "w") as f:
        f.write("# a comment\nmax-tokens: 6\nraw: true\nignore_eos = true\ntemperature: 0\n")
    check(quoth("run", MODEL, "a", "--config", config).stdout == dashes.stdout, "--config")
    with open(config, "w") as f:
        f.write("\nmax-tokes: 6\n")
    wrong = quoth("run", MODEL, "a", "--config", config)
    check(wrong.returncode == 2 and b"config.yaml:2" in wrong.stderr and b"--max-tokens" in wrong.stderr, "%r" % wrong.stderr)


def main():
    bad = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or (sys.argv[1:] and not any(a in name for a in sys.argv[1:])):
            continue
        try:
            reason = test()
            print("skip %s (%s)" % (name[5:], reason) if reason else "ok %s" % name[5:], flush=True)
        except Exception as e:
            bad += 1
            print("FAIL %s: %s" % (name[5:], e if isinstance(e, Failed) else repr(e)), flush=True)
    shutil.rmtree(TMP)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
