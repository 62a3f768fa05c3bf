#!/usr/bin/env python3
"""Goal: an error of a new user gets one sentence with the next step, and the right exit status. A
packed program runs its model. Method: run the command lines of a review by new users. Each command
line has words that its output must contain.

Environment: QUOTH the program, QUOTH_ROOT the repository. Arguments are filters for test names."""
import fcntl
import json
import os
import pty
import shutil
import socket
import subprocess
import time

import server
from server import QUOTH, ROOT, TMP, check

MODEL = os.path.join(ROOT, "tests", "golden", "qwen3", "model.gguf")
FOLDER = os.path.join(ROOT, "tests", "golden", "qwen3")


def quoth(*args, stdin=b"", program=QUOTH):
    return subprocess.run([program, *args], input=stdin, capture_output=True, timeout=120, cwd=TMP)


def says(args, status, *words, stdin=b""):
    out = quoth(*args, stdin=stdin)
    err = out.stderr.decode()
    check(out.returncode == status, "%s: status %d, %s" % (args, out.returncode, err))
    check(err.count("\n") == 1, "%s: not one line: %s" % (args, err))
    for word in words:
        check(word in err, "%s: no %r in %s" % (args, word, err))


def cut(source, name, size):
    path = os.path.join(TMP, name)
    with open(source, "rb") as f, open(path, "wb") as to:
        to.write(f.read()[:size])
    return path


def test_a_download_that_broke_off():
    whole = os.path.getsize(MODEL)
    for size in [40, 500, 3000, whole // 3, whole - 100]:
        says(["run", cut(MODEL, "cut.gguf", size), "hi"], 1, "cut.gguf", "truncated", "download it again")
    folder = os.path.join(TMP, "hf")
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("*.gguf"))
    weights = [name for name in os.listdir(folder) if name.endswith(".safetensors")][0]
    whole = os.path.getsize(os.path.join(folder, weights))
    for size in [200, whole // 2, whole - 4]:
        cut(os.path.join(FOLDER, weights), os.path.join("hf", weights), size)
        says(["run", folder, "hi"], 1, weights, "truncated", "download it again")


def test_names_that_are_no_files():
    for name in ["https://example.org/m.gguf", "hf:org/model", "org/model"]:
        for args in [["run", name], ["run", name, "hi"], ["serve", name], ["inspect", name]]:
            says(args, 1, name)
    for name in ["hf:org/model", "hf.co/org/model", "org/model"]:
        says(["run", name], 1, "quoth pull hf:org/model")
    says(["run", "llama3.2:1b"], 1, "llama3.2:1b: not found", "quoth pull ollama:llama3.2:1b")
    says(["run", MODEL, "hi", "--chat-template", "chatml"], 1, "chatml", "Jinja file")
    says(["run", "https://example.org/m.gguf"], 1, "curl -LO https://example.org/m.gguf")
    says(["run", "missing.gguf"], 1, "missing.gguf: cannot open")
    folder = os.path.join(TMP, "ggufs")
    os.mkdir(folder)
    for name in ["a-q4.gguf", "b-q8.gguf", "README.md"]:
        open(os.path.join(folder, name), "w").close()
    says(["run", folder, "hi"], 1, "config.json not found", "a-q4.gguf, b-q8.gguf")


def test_folders_without_a_model():
    folders = {"llama2c": {"stories15M.bin": "", "tokenizer.bin": ""}, "unknown": {"config.json": '{"model_type": "foonet"}'}}
    for folder, files in folders.items():
        os.mkdir(os.path.join(TMP, folder))
        for name, text in files.items():
            with open(os.path.join(TMP, folder, name), "w") as f:
                f.write(text)
    says(["run", "llama2c", "hi"], 1, "config.json not found; available: stories15M.bin\n")
    says(["run", "unknown", "hi"], 1, 'architecture "foonet": not supported yet', "model.safetensors")
    shutil.copy(os.path.join(FOLDER, "model.safetensors"), os.path.join(TMP, "unknown"))
    says(["run", "unknown", "hi"], 1, 'model_type "foonet" not found')


def test_files_that_are_missing():
    for name in ["nofile", "/nodir/model"]:
        says(["tokenize", name], 1, name + ": cannot open: No such file or directory")
    says(["run", MODEL, "hi", "--chat-template", "nofile"], 1, 'file "nofile" not found; the model has no template of that name')
    says(["batch", MODEL, "-i", "in.jsonl"], 2, "-o OUT.jsonl is missing")
    says(["batch", MODEL, "-o", "out.jsonl"], 2, "-i IN.jsonl is missing")


def test_flags_that_contradict():
    says(["run", MODEL, "hi", "--regex", "a", "--choice", "a,b"], 2, "must not come together")
    says(["serve", MODEL, "--lora-modules", "sql"], 2, "--lora-modules: must be NAME=PATH")
    says(["run", "--foo"], 2, "unknown flag --foo; quoth run --help")
    says(["serve", MODEL, "--max-model-len", "999999999"], 1, "lower --max-model-len\n")
    says(["serve", MODEL, "--num-gpu-blocks-override", "999999999"], 1, "lower --num-gpu-blocks-override\n")


def test_a_word_that_is_the_prompt():
    for word, more in [("llama3", '"llama3" is the prompt\n'), ("serv", "did you mean quoth serve?"), ("hello", '"hello" is the prompt\n')]:
        err = quoth("run", word, "-n", "1").stderr.decode()
        check(err.startswith("using the bundled quoth-tiny") and more in err, err)
    check(quoth("run", "two words", "-n", "1").stderr.find(b"bundled") < 0, "two words")
    check(quoth("run", "llama3", "-n", "1", "-q").stderr == b"", "-q")


def test_a_completion_has_a_report():
    out = quoth("run", MODEL, "hi", "--raw", "-n", "1", "--ignore-eos")
    check(b"[length: truncated at --max-tokens 1]" in out.stderr and b"1 generated" in out.stderr, out.stderr)


def test_the_default_lengths_of_a_model():
    """max_new_tokens and min_new_tokens are defaults: flags win, and the report names the limit"""
    folder = os.path.join(TMP, "lengths")
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("*.gguf"))
    with open(os.path.join(folder, "generation_config.json"), "w") as f:
        json.dump({"max_new_tokens": 3, "min_new_tokens": 2}, f)
    raw = ["run", folder, "hi", "--raw", "--ignore-eos"]
    for more, words in (([], [b"the model's max_new_tokens 3", b"3 generated"]), (["-n", "1"], [b"--max-tokens 1]", b"1 generated"]),
                        (["-n", "5"], [b"--max-tokens 5]", b"5 generated"]), (["-n", "-1"], [b"is full"])):
        out = quoth(*raw, *more)
        check(out.returncode == 0 and all(word in out.stderr for word in words), out.stderr)
    says(raw + ["-n", "4", "--min-tokens", "9"], 1, "min_tokens: must be at most max_tokens, 4, got 9")


def test_lengths_beyond_the_context():
    out = quoth("bench", "interference", MODEL, "--idle", "2")
    check(out.returncode == 0 and b"the lengths are cut to a context of" in out.stderr, out.stderr)
    text = os.path.join(TMP, "long.txt")
    with open(text, "w") as f:
        f.write("once upon a time " * 400)
    out = quoth("perplexity", MODEL, text, "--windows", "1")
    check(out.returncode == 0 and b"windows of 256" in out.stdout and not out.stderr, out.stdout + out.stderr)


def test_commands_of_other_programs():
    for word, hint in [("download", "quoth pull"), ("ls", "quoth list"), ("chat", "quoth run MODEL"),
                       ("ps", "quoth top"), ("run-batch", "quoth batch"), ("tokenise", 'did you mean "tokenize"')]:
        says([word], 2, word, hint)


def test_prompts_that_begin_with_a_dash():
    for prompt in ["-5 + 3 = ?", "- one item", "-.5 is half"]:
        out = quoth("run", MODEL, prompt, "-n", "1", "-q")
        check(out.returncode == 0, "%r: %s" % (prompt, out.stderr))
    says(["run", MODEL, "-hello, what is this?"], 2, "unknown flag -hello, what is this?", "after --")
    out = quoth("run", "-n", "1", "-q", "--", MODEL, "-hello, what is this?")
    check(out.returncode == 0, out.stderr)
    says(["-5 + 3 = ?"], 2, "the first argument must be a command", "quoth run --")
    out = subprocess.run(["sh", "-n", os.path.join(ROOT, "run")], capture_output=True)
    check(out.returncode == 0, out.stderr)


def test_a_port_that_is_taken():
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen(1)
    says(["serve", MODEL, "--port", str(taken.getsockname()[1])], 1, "Address already in use", "try --port N")
    taken.close()


def test_a_server_that_is_not_there():
    says(["health", "http://127.0.0.1:9"], 1, "no server listens there")
    says(["top", "http://127.0.0.1:9", "--once"], 1, "no server listens there")
    for address in ["127.0.0.1:9", "localhost:9", "localhost:9/"]:
        for args in [["health", address], ["top", address, "--once"]]:
            says(args, 1, "no server listens there")


def test_an_empty_file_for_perplexity():
    path = os.path.join(TMP, "empty.txt")
    open(path, "w").close()
    says(["perplexity", MODEL, path], 1, "empty.txt: must not be empty")


def test_perplexity_of_weights_that_are_no_numbers():
    folder = os.path.join(TMP, "no-numbers")
    shutil.copytree(FOLDER, folder)
    path = os.path.join(folder, "model.safetensors")
    with open(path, "r+b") as f:
        n = int.from_bytes(f.read(8), "little")
        begin, end = json.loads(f.read(n))["model.norm.weight"]["data_offsets"]
        f.seek(8 + n + begin)
        f.write(b"\xff" * (end - begin))
    for more in [[], ["--json"]]:
        says(["perplexity", folder, os.path.join(ROOT, "README.md"), "--max-model-len", "64", "--windows", "2", *more], 1,
             "no finite probability at 62 of 62 positions, first at position 32 of a window")


def test_a_batch_of_which_every_line_failed():
    def run(name, *lines):
        paths = [os.path.join(TMP, name + end) for end in (".in", ".out")]
        with open(paths[0], "w") as f:
            f.writelines(line + "\n" for line in lines)
        return quoth("batch", MODEL, "-i", paths[0], "-o", paths[1])

    good = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a", "max_tokens": 1}})
    check(run("broken", "hello", "{}").returncode == 1, "broken lines")
    again = run("broken", "hello", "{}")
    check(again.returncode == 1 and b"0 answered before, 2 failed before" in again.stderr, again.stderr)
    check(run("mixed", "hello", good).returncode == 0, "one good line")
    check(run("mixed", "hello", good).returncode == 0, "the same again")
    check(run("none").returncode == 0, "no line")


def test_lost_output():
    """Every command fails if its output cannot be written, not only the commands that generate."""
    chat, batch = os.path.join(TMP, "lost.json"), os.path.join(TMP, "lost.jsonl")
    with open(chat, "w") as f:
        f.write('[{"role": "user", "content": "a"}]')
    for args in [["help"], ["help", "--man"], ["--version"], ["run", "--help"], ["run", "-q", MODEL, "hi", "-n", "3"],
                 ["run", "--json", MODEL, "hi", "-n", "3"], ["inspect", MODEL], ["inspect", "--json", MODEL], ["tokenize", MODEL],
                 ["template", os.path.join(ROOT, "scripts", "demo", "template.jinja"), chat],
                 ["perplexity", MODEL, chat, "--max-model-len", "16"], ["serve", MODEL, "--check"]]:
        with open("/dev/full", "w") as full:
            out = subprocess.run([QUOTH, *args], stdin=open(chat), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
        check(out.returncode == 1, "%s: status %d" % (args, out.returncode))
        check("quoth: standard output: cannot write" in out.stderr, "%s: %s" % (args, out.stderr))
    out = subprocess.run(["sh", "-c", "trap '' PIPE; (%s help; echo $? >&2) | true" % QUOTH], capture_output=True, text=True)
    check(out.stderr == "0\n", "a reader that left: %s" % out.stderr)
    says(["batch", MODEL, "-i", batch, "-o", "-"], 2, "--output-file -", "must be a file")


def test_ids_beyond_the_vocabulary():
    says(["tokenize", MODEL, "--decode"], 1, "out of vocabulary", "9999999", stdin=b"1 2 9999999 3")


def test_an_empty_prompt():
    for args, stdin in [(["run", MODEL], b""), (["run"], b"\n"), (["run", MODEL, ""], b"")]:
        says(args, 2, "the prompt is empty", stdin=stdin)


def test_json_without_white_space():
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "maximum": 99}},
              "required": ["name", "age"], "additionalProperties": False}
    args = ["I am Ann, 42.", "--json-schema", json.dumps(schema), "-q", "--temperature", "0", "--max-tokens", "60"]
    free, compact = quoth("run", *args).stdout, quoth("run", *args, "--disable-any-whitespace").stdout
    least = [json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False).encode() for text in (free, compact)]
    check(free.strip() != least[0] and compact.strip() == least[1], (free, compact))


def test_files_that_cannot_be_made_or_read():
    says(["pack", MODEL, "-o", "/nodir/x"], 1, "/nodir/x: cannot create: No such file or directory")
    empty = os.path.join(TMP, "empty.pem")
    open(empty, "w").close()
    says(["serve", MODEL, "--port", "0", "--ssl-certfile", empty, "--ssl-keyfile", empty], 1, "empty.pem", "contains none in PEM form")


def test_a_message_that_the_template_ignores():
    def template(*roles):
        messages = json.dumps([{"role": role, "content": "c"} for role in roles])
        return quoth("template", os.path.join(TMP, "roles.jinja"), "-", stdin=messages.encode())

    with open(os.path.join(TMP, "roles.jinja"), "w") as f:
        f.write("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}")
    out = template("user", "bob")
    check(out.returncode == 1 and b"messages[1].role" in out.stderr, out.stderr)
    check(template("user", "user").returncode == 0, "two users")


def test_a_packed_program():
    program = os.path.join(TMP, "my-model")
    check(quoth("pack", MODEL, "-o", program).returncode == 0, "pack")
    flags = ["-n", "4", "-q", "--temperature", "0"]
    want = quoth("run", MODEL, "What is 1 + 2?", *flags).stdout
    for args in [["What is 1 + 2?", *flags], [*flags, "What is 1 + 2?"], ["run", "What is 1 + 2?", *flags]]:
        out = quoth(*args, program=program)
        check(out.returncode == 0 and out.stdout == want, "%s: %s" % (args, out.stderr))
    check(quoth(*flags, stdin=b"What is 1 + 2?", program=program).stdout == want, "standard input")
    check(b"usage: quoth COMMAND" in quoth("--help", program=program).stdout, "--help")
    check(quoth("inspect", program, program=program).returncode == 0, "inspect")
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(program, [program], dict(os.environ, TERM="xterm", XDG_STATE_HOME=TMP))
    out, until = b"", time.time() + 60
    while b"/help lists commands" not in out and time.time() < until:
        out += os.read(fd, 4096)
    os.write(fd, b"/quit\r")
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
    while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.time() < until:
        time.sleep(0.02)
        try:
            os.read(fd, 4096)
        except OSError:
            pass
    os.close(fd)
    check(b"/help lists commands" in out, out)
    plain = os.path.join(TMP, "plain")
    check(quoth("pack", "--plain", MODEL, "-o", plain).returncode == 0, "pack --plain")
    check(quoth(program=plain).returncode == 2 and quoth("hello", program=plain).returncode == 2, "plain")


if __name__ == "__main__":
    server.run([test for name, test in list(globals().items()) if name.startswith("test_")])
