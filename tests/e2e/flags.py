#!/usr/bin/env python3
"""Goal: every flag of users of vLLM, llama.cpp, SGLang, TGI and others is accepted, mapped or
rejected as intended. Method: run `quoth serve MODEL FLAG --check`, which prints the effective
configuration, for each line of tests/flags.txt. Each spelling of src/option/aliases.def must have a
line in tests/flags.txt. Enumerated flags of every command are tested with wrong values. The flags
that change answers are tested with a server and batch files.

Environment: QUOTH the program, QUOTH_ROOT the repository. Arguments are filters for test names."""
import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

import server
from server import QUOTH, ROOT, TMP, Server

MODEL = os.path.join(ROOT, "tests", "golden", "qwen3", "model.gguf")


def quoth(*args, stdin=b"", cwd=TMP):
    return subprocess.run([QUOTH, *args], input=stdin, capture_output=True, timeout=120, cwd=cwd)


def serve(*flags):
    """Return the effective configuration as a dictionary, standard error, and the exit status."""
    words = list(flags) + ["--check"]
    if not {"-m", "--model", "--model-path", "--model-id", "-hf", "-hfr", "--hf-repo"} & {f.split("=")[0].replace("_", "-") for f in flags}:
        words.insert(0, MODEL)
    out = quoth("serve", *words)
    config = dict(line.split(": ", 1) for line in out.stdout.decode().splitlines() if not line.startswith("#") and ": " in line)
    return config, out.stderr.decode(), out.returncode


def table():
    """Return the lines of flags.txt: the words of the command line and its result."""
    with open(os.path.join(ROOT, "tests", "flags.txt")) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                flag, _, outcome = line.rstrip("\n").partition(" | ")
                yield shlex.split(flag.replace("MODEL", MODEL)), outcome.strip().replace("to model: MODEL", "to model: " + MODEL)


def wrong(words, outcome, base):
    config, err, status = serve(*words)
    kind, _, text = outcome.partition(" ")
    if kind == "idle":
        ok = status == 0 and config == base and err.startswith("quoth: " + words[0].split("=")[0]) and "accepted" in err
        ok = ok and err.count("\n") == 1
    elif kind == "own":
        ok = status == 0 and err == ""
    elif kind == "to":
        ok = status == 0 and config.get(text.partition(": ")[0]) == text.partition(": ")[2]
    elif kind == "later":
        ok = status == 2 and "not supported yet" in err and err.startswith("quoth serve: " + words[0].split("=")[0])
    elif kind == "fails":
        ok = status == 1 and text in err
    else:
        ok = kind == "no" and status == 2 and text in err and err.count("\n") == 1
    return None if ok else "%s: wanted %s, got status %d, %r" % (shlex.join(words), outcome, status, err[:300])


def test_every_flag_of_other_engines():
    rows = list(table())
    base = serve()[0]
    with ThreadPoolExecutor(4) as pool:
        bad = [x for x in pool.map(lambda row: wrong(*row, base), rows) if x]
    assert not bad, "\n".join(bad)
    assert len(rows) > 250, "the table has lost lines: %d" % len(rows)


def test_every_spelling_has_a_line():
    with open(os.path.join(ROOT, "src", "option", "aliases.def")) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    rows = re.findall(r'^(?:ALIAS|SAME|IDLE|ONLY|LATER|NEVER)\(((?:"[^"]*"\s*)+)', text, re.M)
    spelled = [word for row in rows for word in "".join(re.findall(r'"([^"]*)"', row)).split()]
    seen = {words[0].lstrip("-").split("=")[0].replace("_", "-") for words, _ in table()}
    missing = [s for s in spelled if not (any(x.startswith(s[:-1]) for x in seen) if s.endswith("*") else s in seen)]
    assert not missing, "no line in tests/flags.txt for %s" % " ".join(missing)
    twice = {s for s in spelled if spelled.count(s) > 1}
    assert not twice, "spelled twice: %s" % twice


def test_published_command_lines_start():
    """vLLM's image passes these flags to its entry point. quoth's image has serve, host and port
    instead."""
    lines = ["--model MODEL --tensor-parallel-size 1 --pipeline-parallel-size 1 --dtype auto --enforce-eager "
             "--max-num-seqs 16 --max-model-len 256 --gpu-memory-utilization 0.5 --load-format auto",
             "--model MODEL --host 0.0.0.0 --port 8000 --dtype half --max-num-batched-tokens 2048 --block-size 16 "
             "--trust-remote-code --served-model-name m",
             "-m MODEL -c 256 -np 4 -t 1 -ngl 99 -fa on -b 2048 -ub 256 --jinja --no-mmap --metrics",
             "--model-path MODEL --tp 1 --mem-fraction-static 0.5 --context-length 256 --disable-cuda-graph --host ::1"]
    for line in lines:
        config, err, status = serve(*shlex.split(line.replace("MODEL", MODEL)))
        assert status == 0 and "accepted" in err, "%s: %d, %s" % (line, status, err)
        assert config["model"] == MODEL, config["model"]


def test_configuration_in_force_is_a_config_file():
    flags = ["-np", "3", "-c", "128", "--temp", "0.25", "--no-enable-prefix-caching", "--system", "be brief: always"]
    first = quoth("serve", MODEL, *flags, "--check")
    assert first.returncode == 0, first.stderr
    path = os.path.join(TMP, "config.yaml")
    with open(path, "wb") as f:
        f.write(first.stdout)
    again = quoth("serve", "--config", path, "--check")
    assert again.stdout == first.stdout and b"max-num-seqs: 3\n" in first.stdout, again.stderr
    assert b"sekret" not in quoth("serve", MODEL, "--api-key", "sekret", "--check").stdout, "a key was printed"
    with open(path, "w") as f:
        f.write("tensor-parallel-size: 1\nenable_lora_bias: true\n")
    bad = quoth("serve", MODEL, "--config", path, "--check")
    assert bad.returncode == 2 and b"config.yaml:2: --enable_lora_bias: not supported yet" in bad.stderr, bad.stderr
    with open(path, "w") as f:
        f.write("temperature: 1\nmodel: %s\nprompt: hi\n" % MODEL)
    assert quoth("run", "--config", path, "-n", "1").returncode == 0, "model and prompt of a config file"


def test_check_finds_what_would_stop_the_server():
    for flags, text in [(["--ssl-certfile", "no.pem", "--ssl-keyfile", "no.pem"], b"no.pem: cannot open"),
                        (["--ssl-certfile", __file__, "--ssl-keyfile", __file__], b"flags.py: cannot use as certificate"),
                        (["--host", "x" * 100000], b"cannot resolve"),
                        (["--api-key-file", "no.keys"], b"no.keys"), (["--chat-template", "no.jinja"], b"no.jinja")]:
        out = quoth("serve", MODEL, *flags, "--check")
        assert out.returncode == 1 and text in out.stderr, "%s: %r" % (flags, out.stderr)
    out = quoth("serve", MODEL, "--override-generation-config", '{"temprature": 1}')
    assert out.returncode == 2 and b"did you mean temperature" in out.stderr, out.stderr
    out = quoth("serve", os.path.join(TMP, "none.gguf"), "--check")
    assert out.returncode == 1 and b"none.gguf" in out.stderr and not out.stdout, out
    folder = os.path.join(TMP, "several")
    os.makedirs(folder)
    for name in ("a.gguf", "b.gguf"):
        os.symlink(MODEL, os.path.join(folder, name))
    out = quoth("serve", "--models-dir", folder, "--models-pinned", "nope", "--check")
    assert out.returncode == 1 and b'"nope" not found' in out.stderr and not out.stdout, out
    for more in ([], ["--check"]):
        out = quoth("serve", folder, *more)
        assert out.returncode == 1 and b"available: a.gguf, b.gguf" in out.stderr and b"--models-dir" in out.stderr, out


def test_one_dash_and_several_letters():
    for flags, text in [(["-topp", "1"], b"unknown flag -topp; did you mean --top-p?"), (["-t2x"], b"must be an integer"), (["-xyzzyx"], b"unknown flag -xyzzyx"),
                        (["-np"], b"-np needs a value"), (["-ctk", "q8_0", "-ctv", "f16"], b"-ctk has set --kv-cache-dtype")]:
        out = quoth("serve", MODEL, *flags)
        assert out.returncode == 2 and text in out.stderr, "%s: %r" % (flags, out.stderr)
    assert serve("-t2")[0]["threads"] == "2" and serve("-np=5")[0]["max-num-seqs"] == "5"
    run = quoth("run", "-m", MODEL, "-p", "hi", "-n", "1", "--temp", "0", "-s", "3", "-ngl", "0", "-q")
    assert run.returncode == 0 and b"-ngl 0: accepted" in run.stderr, run.stderr
    swapped = quoth("run", "hi", "-n1", "-q", "-m", MODEL, "--temp", "0")
    assert swapped.returncode == 0 and swapped.stdout == run.stdout, swapped.stderr


ENUMERATED = [("run", "--cpu"), ("run", "--kv-cache-dtype"), ("run", "--activation-dtype"), ("run", "--load-format"), ("run", "--shape"),
              ("run", "--quant"), ("run", "--scheduler"), ("serve", "--pooling"), ("serve", "--log-format"), ("batch", "--generation-config"),
              ("bench serve", "--backend"), ("bench serve", "--dataset-name"), ("bench serve", "--ramp-up-strategy"),
              ("serve", "--scheduling-policy"), ("bench latency", "--kv-cache-dtype"), ("bench schedule", "--policies"), ("bench kernels", "--op"),
              ("bench serve", "--percentile-metrics"), ("parse", "--tool-call-parser"), ("parse", "--reasoning-parser"),
              ("serve", "--tool-call-parser"), ("run", "--reasoning-parser")]


def test_wrong_values_list_the_right_ones():
    for command, flag in ENUMERATED:
        out = quoth(*command.split(), flag, "n0ne")
        ok = out.returncode == 2 and re.search(rb": must be .* or .*, got \"n0ne\"\n$", out.stderr)
        assert ok, "%s %s: %d, %r" % (command, flag, out.returncode, out.stderr)


def test_flags_of_conversations_do_not_come_with_raw():
    for more in (["--system", "x"], ["--chat-template", "nonexistent.jinja"]):
        out = quoth("run", MODEL, "hi", "--raw", *more)
        want = b"quoth run: %s: must not come with --raw\n" % more[0].encode()
        assert out.returncode == 2 and out.stderr == want, out.stderr


def commands():
    """Return all commands, including those of bench, as their words."""
    for words in [[]] + [["bench"]]:
        text = quoth("help", *words).stdout.decode().partition("commands:")[2]
        names = re.findall(r"^  ([a-z]+(?: [a-z]+)?) ", text, re.M)
        yield from ([name.split() for name in names if name not in ("bench", "help")])


# Values that can be any text, by their name in the help or by the flag. Files are not opened by
# --check.
ANY_WORDS = {"MODEL", "FILE", "FILE.svg", "FILE.html", "FILE.gguf", "FOLDER", "PATH", "TEXT", "KEY", "ADDRESS", "NAME..."}
ANY_FLAGS = {"uds", "allowed-hosts", "served-model-name", "model"}
JUDGED = {"structured-outputs-config", "regex", "choice", "start"}  # `quoth grammar check` reports their errors as its result


def flags_of(command):
    """Return (flag, name of its value in the help, or "") of a command."""
    text = quoth("help", *command).stdout.decode().partition("options:")[2]
    return re.findall(r"^  (?:-\w,|   ) --([a-z0-9-]+)(?: (\S+))?(?:  |$)", text, re.M)


def judged_wrong(words):
    """Return None if a wrong value is a usage error that names flag, value and the legal values."""
    out = quoth(*words)
    flag = words[-1].split("=")[0] if "=" in words[-1] else words[-2]
    legal = rb"must be .+, got"
    ok = out.returncode == 2 and flag.encode() in out.stderr and b"n0ns3nse" in out.stderr and re.search(legal, out.stderr)
    return None if ok else "%s: status %d, %r" % (shlex.join(words), out.returncode, out.stderr[:300])


def test_a_wrong_value_of_any_flag_is_a_usage_error():
    rows = []
    for command in commands():
        for flag, value in flags_of(command):
            if not value and flag != "help":
                rows.append([*command, "--%s=n0ns3nse" % flag])
            elif value and flag != "config" and value not in ANY_WORDS and flag not in ANY_FLAGS | JUDGED:
                rows.append([*command, "--" + flag, "n0ns3nse"])
    assert len(rows) > 500, "the help has lost lines: %d" % len(rows)
    with ThreadPoolExecutor(4) as pool:
        bad = [x for x in pool.map(judged_wrong, rows) if x]
    assert not bad, "\n".join(bad)
    for key in ("", "a b"):
        out = quoth("serve", MODEL, "--api-key", key)
        assert out.returncode == 2 and b"--api-key: API key: must " in out.stderr, out.stderr
    out = quoth("serve", MODEL, "--block-size", "24")
    assert out.returncode == 2 and b'--block-size: must be a power of two, got "24"' in out.stderr, out.stderr


def messages(*pairs):
    return {"messages": [{"role": role, "content": text} for role, text in pairs]}


def prompt_of(s, body):
    status, _, data = s.ask("POST", "/apply-template", body)
    assert status == 200, data
    return data["prompt"]


def test_requests_get_the_system_prompt_and_sampling_of_the_flags():
    plain = Server()
    s = Server("--system", "SYSTEM-TEXT", "--temp", "0", "--max-input-length", "40", "--no-enable-prefix-caching")
    try:
        for other in [messages(("user", "hi")), messages(("user", "hi"), ("assistant", "yes"), ("user", "go on"))]:
            with_it = messages(*[("system", "SYSTEM-TEXT")] + [(m["role"], m["content"]) for m in other["messages"]])
            assert prompt_of(s, other) == prompt_of(plain, with_it) != prompt_of(plain, other)
        own = messages(("system", "mine"), ("user", "hi"))
        assert prompt_of(s, own) == prompt_of(plain, own)
        own = messages(("developer", "mine"), ("user", "hi"))
        assert prompt_of(s, own) == prompt_of(plain, own)
        ask = {"prompt": "Once upon a time", "max_tokens": 24}
        texts = {s.ask("POST", "/v1/completions", ask)[2]["choices"][0]["text"] for _ in range(6)}
        assert len(texts) == 1, "temperature 0 gave %d texts" % len(texts)
        named = dict(ask, temperature=1.5)
        texts = {s.ask("POST", "/v1/completions", named)[2]["choices"][0]["text"] for _ in range(6)}
        assert len(texts) > 1, "a request's own temperature is not kept"
        status, _, data = s.ask("POST", "/v1/completions", {"prompt": "word " * 60, "max_tokens": 1})
        assert status == 400 and "--max-input-length" in str(data) and "context_length_exceeded" in str(data), data
        again = {"prompt": list(range(5, 44)), "max_tokens": 1}
        for where, least in [(s, 0), (plain, 32)]:
            usage = [where.ask("POST", "/v1/completions", again)[2]["usage"] for _ in range(2)][1]
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            assert cached == least, "%d cached, wanted %d" % (cached, least)
    finally:
        s.stop()
        plain.stop()


def batch(name, conversation, *flags):
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": dict(conversation, max_tokens=12)}
    paths = [os.path.join(TMP, name + end) for end in (".in", ".out")]
    with open(paths[0], "w") as f:
        f.write(json.dumps(line) + "\n")
    out = quoth("batch", server.MODEL, "-i", paths[0], "-o", paths[1], *flags)
    assert out.returncode == 0, out.stderr
    with open(paths[1]) as f:
        return json.loads(f.readline())["response"]["body"]


def test_batch_gets_the_system_prompt():
    system = ("system", "Answer like a pirate.")
    want = batch("want", messages(system, ("user", "hi")))
    got = batch("got", messages(("user", "hi")), "--system", system[1])
    plain = batch("plain", messages(("user", "hi")))
    assert got["usage"] == want["usage"] and got["choices"] == want["choices"], "%s %s" % (got, want)
    assert plain["usage"]["prompt_tokens"] < got["usage"]["prompt_tokens"]


if __name__ == "__main__":
    server.run([test for name, test in list(globals().items()) if name.startswith("test_")])
