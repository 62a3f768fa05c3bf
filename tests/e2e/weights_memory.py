#!/usr/bin/env python3
"""Goal: a model in limited memory (--weights-memory) gives the same answers, and uses at most the
limit. Method: compare answers of the bundled model and of a mixture with and without a limit, read
the process's mapped memory, and give limits that are refused. With QUOTH_LONG=1, a model of 1 GB
runs in a control group whose memory is half of its weights, if this machine allows control groups
of version 1 (root)."""
import json
import os
import re
import subprocess
import time

from server import LONG, MODEL, QUOTH, ROOT, TMP, check, run, serving_model

os.environ["XDG_CACHE_HOME"] = os.path.join(TMP, "cache")
PLAIN = ["--raw", "--temperature", "0", "-q", "--threads", "2"]
MIXTURE = os.path.join(ROOT, "tests/golden/qwen3moe/model.gguf")
SLACK = 1 << 19  # pages around faults, and the rows of norms
GROUP = "/sys/fs/cgroup/memory/quoth-test"


def answer(model, *more, status=0):
    done = subprocess.run([QUOTH, "run", model, "Once upon a time", "--max-tokens", "40", *PLAIN, *more], capture_output=True, timeout=300)
    check(done.returncode == status, (done.returncode, done.stderr))
    return done.stdout if status == 0 else done.stderr.decode()


def quoth(*args):
    """Run a command. Return its output."""
    return subprocess.run([QUOTH, *args], capture_output=True, check=True, timeout=600).stdout


def least(model):
    """Return the least limit of a model, in KiB, which the error has."""
    said = answer(model, "--weights-memory", "1K", status=1)
    found = re.search(r"--weights-memory: must be at least (\d+)K for this model, got 1K", said)
    check(found, said)
    return int(found[1])


def test_same_answers():
    """a limit changes no answer, whether the packed file is made or mapped"""
    for model in (MODEL, MIXTURE):
        want, n = answer(model), least(model)
        check(n > 1, n)
        for limit in (n, n + n // 2, 2 * n, 100 * n):
            for start in range(2):
                check(answer(model, "--weights-memory", f"{limit}K") == want, (model, limit, start))


def mapped(pid):
    """Return the bytes of the packed file that a process has in memory."""
    total, inside = 0, False
    try:
        with open(f"/proc/{pid}/smaps", encoding="utf-8") as f:
            for line in f:
                if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                    inside = "/packed/" in line
                elif inside and line.startswith("Rss:"):
                    total += int(line.split()[1]) << 10
    except (FileNotFoundError, ProcessLookupError):
        pass
    return total


def usually_mapped(model, *more):
    """Generate a text. Return the median and the largest number of bytes of the packed file in
    memory, while it is mapped. A single figure may be too high, because pages move while this
    program reads the list."""
    child = subprocess.Popen([QUOTH, "run", model, "Once upon a time", "--max-tokens", "250", "--ignore-eos", *PLAIN, *more],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    figures = []
    while child.poll() is None:
        figures.append(mapped(child.pid))
    check(child.returncode == 0 and len(figures) >= 10, (child.returncode, len(figures), child.stderr.read()))
    child.stderr.close()
    figures = sorted(n for n in figures if n)
    check(figures, "the file was never in memory")
    return figures[len(figures) // 2], figures[-1]


def test_memory_within_the_limit():
    """the process usually has at most the limit of the packed file in memory, and with a high limit all of it"""
    least_bytes = least(MODEL) << 10
    high = ["--weights-memory", f"{least_bytes >> 4}K"]
    answer(MODEL, *high)  # pack
    whole = usually_mapped(MODEL, *high)[1]
    check(whole > 1.5 * least_bytes, (whole, least_bytes))
    for limit in (least_bytes, least_bytes * 5 // 4):
        usual, most = usually_mapped(MODEL, "--weights-memory", f"{limit >> 10}K")
        print(f"     usually {usual >> 10} KiB, at most {most >> 10}, with a limit of {limit >> 10}; {whole >> 10} with a high one")
        check(usual <= limit + SLACK, (usual, most, limit, whole))


def test_many_requests():
    """requests together have the answers that they have alone, with few weights in memory"""
    lines = [json.dumps(dict(custom_id=f"r{i}", method="POST", url="/v1/completions",
                             body=dict(model="m", prompt=f"{i} and then", max_tokens=12, temperature=0.8, seed=i))) for i in range(24)]
    path = os.path.join(TMP, "in.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    texts = []
    for i, more in enumerate(([], ["--weights-memory", f"{least(MODEL)}K"])):
        out = os.path.join(TMP, f"out{i}.jsonl")
        quoth("batch", MODEL, "-i", path, "-o", out, "-q", *more)
        with open(out, encoding="utf-8") as f:
            got = {a["custom_id"]: a["response"]["body"]["choices"][0]["text"] for a in map(json.loads, f)}
        texts.append(got)
    check(len(texts[0]) == 24 and texts[0] == texts[1], texts)


def test_refused():
    """a limit that cannot be kept is an error with the reason"""
    for more, word in ((["--no-pack-cache"], "needs the packed weights in a file"), (["--no-mmap"], "needs the packed weights in a file")):
        said = answer(MODEL, "--weights-memory", f"{least(MODEL)}K", *more, status=1)
        check(word in said, said)
    said = answer(MODEL, "--weights-memory", "much", status=2)
    check("must be a number of bytes" in said, said)


def test_figures():
    """/metrics and the reports of run and bench have the figures of a limit, and none without one"""
    limit = least(MIXTURE) << 10
    names = ["queries_total", "hits_total", "reads_total", "read_bytes_total", "waits_total", "wait_seconds_total", "evictions_total"]
    with serving_model(MIXTURE, "--weights-memory", f"{limit >> 10}K") as s:
        def generate():
            status, _, body = s.ask("POST", "/v1/completions", dict(prompt="Once upon a time", max_tokens=40, ignore_eos=True, seed=1))
            check(status == 200, body)

        def figures():
            page = s.ask("GET", "/metrics")[2].decode()
            sums = {name: sum(float(x) for x in re.findall(rf"^quoth:weights_memory_{name}{{[^\n]*}} (\S+)$", page, re.M)) for name in names}
            for name in names:
                check(f"# HELP quoth:weights_memory_{name} " in page, name)
            for kind in "dense", "expert":
                check(re.search(rf'^quoth:weights_memory_queries_total{{[^\n]*kind="{kind}"}} [1-9]', page, re.M), kind)
            check(0 < s.metric("quoth:weights_memory_bytes{") <= limit == s.metric("quoth:weights_memory_limit_bytes{"), page)
            return sums
        generate()
        before = figures()
        generate()
        after = figures()
        check(all(after[name] > before[name] for name in names), (before, after))
        check(after["hits_total"] + after["waits_total"] == after["queries_total"], after)
        check(after["reads_total"] > after["evictions_total"], after)
    line = r"weights in memory [\d.]+ of [\d.]+ MiB, [\d.]+ % of uses; [1-9]\d* reads of [\d.]+ MiB, \d+ evictions, \d+ waits of [\d.]+ s"
    words = ["run", MIXTURE, "Once", "--max-tokens", "8", "--raw", "--threads", "2"]
    bench = ["bench", "throughput", MIXTURE, "--num-prompts", "2", "--input-len", "16", "--output-len", "4", "--no-kernels"]
    for command in words, bench:
        for more in [], ["--weights-memory", f"{limit >> 10}K"]:
            done = subprocess.run([QUOTH, *command, *more], capture_output=True, check=True, timeout=300, encoding="utf-8")
            check(bool(re.search(line, done.stdout + done.stderr)) == bool(more), (command, more, done.stdout + done.stderr))


def in_group(limit, *args):
    """Run a command in a control group with a limit of memory. Return its output and its seconds."""
    with open(f"{GROUP}/memory.limit_in_bytes", "w", encoding="ascii") as f:
        f.write(str(limit))
    subprocess.run(["sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"], check=True)

    def enter():
        with open(f"{GROUP}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(str(os.getpid()))
    start = time.time()
    done = subprocess.run(args, capture_output=True, timeout=600, preexec_fn=enter)
    check(done.returncode == 0, done)
    return done.stdout, time.time() - start


def test_long_half_of_the_memory():
    """in a group with half of the weights' memory: same bits, and prompts near the slower of disk and processor"""
    if not LONG or os.geteuid() != 0 or not os.path.isdir(os.path.dirname(GROUP)):
        return "needs QUOTH_LONG=1, root and control groups of version 1"
    os.makedirs(GROUP, exist_ok=True)
    model = os.path.join(TMP, "large.gguf")
    quoth("bench", "kernels", "--shape", "llama-1b", "--quant", "Q8_0", "-o", model, "-q")
    size = os.path.getsize(model)
    want = answer(model)
    more = ["--weights-memory", f"{size // 2048}K", "--max-model-len", "1024"]
    got, _ = in_group(size // 2 + (256 << 20), QUOTH, "run", model, "Once upon a time", "--max-tokens", "40", *PLAIN, *more)
    check(got == want, (got, want))
    bench = [QUOTH, "bench", "kernels", model, "-p", "512", "-n", "none", "--batch", "none", "-r", "3", "--json", "--no-limits", "--max-model-len", "1024"]
    alone = json.loads(quoth(*bench[1:]).splitlines()[-1])
    half = json.loads(in_group(size // 2 + (256 << 20), *bench, *more[:2])[0].splitlines()[-1])
    read = in_group(1 << 30, "dd", f"if={model}", "of=/dev/null", "bs=16M")[1]
    slower = max(read, alone["step_ms"] / 1000)
    print(f"     a prompt of 512: {half['step_ms'] / 1000:.2f} s; computing {alone['step_ms'] / 1000:.2f} s, reading {read:.2f} s")
    check(half["step_ms"] / 1000 <= 1.25 * slower, (half["step_ms"], alone["step_ms"], read))
    return None


run([test_same_answers, test_memory_within_the_limit, test_many_requests, test_refused, test_figures, test_long_half_of_the_memory])
