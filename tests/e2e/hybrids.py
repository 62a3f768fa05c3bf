#!/usr/bin/env python3
"""Goal: models with recurrent layers keep their prefix cache. Requests with a shared prefix find it
from the third one on, each turn of a chat computes only its own tokens, a cached prefix is not
computed again, and no answer changes. Method: random token ids for tiny models of tests/golden,
whose context is extended, with and without a prefix cache. QUOTH_LONG=1: all counts."""
import json
import os
import random
import time

from server import FEW, LONG, ROOT, check, run, serving_model

MODELS = ("qwen3_5", "qwen3_next", "lfm2", "mamba2")
PAGE = 32
N_SHARED, N_OWN = 1500, 700
N_REQUEST = 64 if LONG else 4 if FEW else 8


def serving(name, *options):
    if name == "qwen3_5":
        context = {"text_config": {"max_position_embeddings": 8192}}
    else:
        context = {} if name == "mamba2" else {"max_position_embeddings": 8192}
    return serving_model(os.path.join(ROOT, "tests/golden", name), "--hf-overrides", json.dumps(context), "--max-model-len", "8192", *options)


def complete(s, ids, n=4):
    """Return (the answer with its log-probabilities, its token ids, cached tokens, seconds)."""
    start = time.monotonic()
    status, _, a = s.ask("POST", "/v1/completions", dict(prompt=ids, max_tokens=n, temperature=0, logprobs=2, ignore_eos=True, return_token_ids=True))
    seconds = time.monotonic() - start
    check(status == 200, a)
    choice = a["choices"][0]
    return (choice["text"], choice["logprobs"]), choice["token_ids"], (a["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0), seconds


def some(r, n):
    return [r.randrange(5, 250) for _ in range(n)]


def test_shared_prefix():
    """from the third request with a shared prefix on, at least 90 % of its tokens are found, and the bits are equal"""
    for name in MODELS:
        r = random.Random(name)
        shared = some(r, N_SHARED)
        prompts = [shared + some(r, N_OWN) for _ in range(N_REQUEST)]
        with serving(name, "--no-enable-prefix-caching") as s:
            want = [complete(s, p)[0] for p in prompts]
        with serving(name) as s:
            got = [complete(s, p) for p in prompts]
        check([g[0] for g in got] == want, name)
        found = [g[2] for g in got]
        check(all(n >= 0.9 * N_SHARED for n in found[2:]), (name, found))
        print(f"     {name}: {found[0]}, {found[1]}, then at least {min(found[2:])} of {N_SHARED} tokens found")


def test_turns():
    """a turn computes at most its new tokens and one page"""
    for name in MODELS:
        r = random.Random(name)
        with serving(name) as s:
            text, n_turn = some(r, 333), 12 if LONG else 5
            for k in range(n_turn):
                new = some(r, r.randrange(3, 150))
                before = len(text)
                text += new
                _, ids, n_cached, _ = complete(s, text, r.randrange(2, 60))
                # the last token of an answer is not computed before the next turn
                check(k == 0 or len(text) - n_cached <= len(new) + 1 + PAGE, (name, k, before, len(new), len(text), n_cached))
                text += ids


def test_first_token():
    """at most 1/15 of a cached prompt of 4,000 tokens is computed again, and its first token comes sooner"""
    for name in MODELS[:3]:  # the tiny mamba2 computes 4,000 tokens in the time of a few requests
        r = random.Random(name)
        with serving(name) as s:
            complete(s, some(r, 4000), 1)
            prompts = [some(r, 4000) for _ in range(5)]
            cold = min(complete(s, p, 1)[3] for p in prompts)
            warm = [complete(s, p, 1) for _ in range(3) for p in prompts]
            least, soonest = min(w[2] for w in warm), min(w[3] for w in warm)
        print(f"     {name}: {least} of 4000 tokens found; {1000 * cold:.1f} ms without, {1000 * soonest:.1f} ms with a cache")
        check(least >= 4000 * 14 / 15, (name, least))
        check(FEW or soonest < cold / 2, (name, cold, soonest))


run([test_shared_prefix, test_turns, test_first_token], timed=True)
