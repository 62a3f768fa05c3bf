#!/usr/bin/env python3
"""Goal: the programs that compare quoth with a reference detect a missing number, a crash and an
unexpected refusal. Method: give such results to the functions that judge them (near,
tests/golden/campaign.py)."""
import os
import subprocess

from server import ROOT, Failed, check, near, run
from venv_for import python_with

CAMPAIGN = r"""
import numpy as np
from campaign import distance, names_field, wrong_refusal
x = np.array([1.0, 2.0])
for a, b in (([np.nan, 2], x), ([1, np.nan], x), (x, [1, np.nan]), ([1, np.inf], x), ([1], x)):
    assert distance(np.array(a, float), np.array(b, float)) == np.inf, (a, b)
assert distance(x, x) == 0 and abs(distance(x + np.array([0, 0.02]), x) - 0.01) < 1e-12
assert names_field("config.json: factor: must be above 0", "factor")
assert names_field("/tmp/a/config.json: rope_parameters.factor: must be above 0", "factor", "/tmp/a")
assert not names_field("config.json: low_freq_factor: is missing", "factor")
assert not names_field("config.json: factors: is missing", "factor")
assert not names_field("/tmp/factor/config.json: bos: is missing", "factor", "/tmp/factor")
assert names_field("metadata llama.rope.scaling.type: must be", "rope_type")
expected, said = ["hidden_act: the result cannot", "has no GGUF"], "quoth convert: m: config.json: hidden_act: the result cannot express gelu\n"
assert wrong_refusal(1, said, expected) is None
assert wrong_refusal(1, "quoth: warning: a rare text\n" + said, expected) is None
for code, text in ((-11, ""), (1, ""), (-6, said), (2, said), (1, "==7==ERROR: AddressSanitizer: SEGV\n" + said), (1, said + "==7==ABORTING\n"),
                   (1, "quoth convert: m: out of memory"), (1, "hidden_act: the result cannot express gelu")):
    assert wrong_refusal(code, text, expected), (code, text)
assert wrong_refusal(1, said, [])
"""


def missing_numbers():
    """a number that is missing, or a list of another length, is a difference"""
    near([1.0, 2.0], [1.0, 2.0], "equal")
    near([[1.0, 2.0], [3.0]], [[1.0, 2.0], [3.0]], "equal lists")
    nan = float("nan")
    for got, want in (([1.0, nan], [1.0, 2.0]), ([nan, 2.0], [1.0, 2.0]), ([1.0, 2.0], [1.0, nan]), ([1.0, float("inf")], [1.0, 2.0]),
                      ([1.0, None], [1.0, 2.0]), ([1.0], [1.0, 2.0]), ([1.0, 2.1], [1.0, 2.0]), ([[1.0], [2.0, 3.0]], [[1.0, 2.0], [3.0]])):
        try:
            near(got, want, "different")
        except Failed:
            continue
        check(False, f"{got} passes as {want}")


def campaigns():
    """campaigns reject missing numbers, crashes, unexpected refusals, and names in paths"""
    python, why = python_with("numpy-for-tests", {"numpy": "numpy"})
    if not python:
        return why
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "tests", "golden"), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([python, "-c", CAMPAIGN], env=env, capture_output=True, text=True, timeout=60)
    check(ran.returncode == 0, ran.stderr)
    return None


run([missing_numbers, campaigns])
