"""rwkv.py - goal: trained RWKV gives the logits that rwkv.cpp recorded. Method: convert the files of
../shared/data/weights/tiny-rwkv in FP32 (tests/golden/rwkv_cpp.py), run `quoth perplexity --logits`
with the recorded prompt, and compare the logits after it."""
import array
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT, QUOTH = pathlib.Path(os.environ["QUOTH_ROOT"]), os.environ["QUOTH"]
sys.path.insert(0, str(ROOT / "tests" / "golden"))
import rwkv_cpp  # noqa: E402

WEIGHTS = ROOT.parent / "shared" / "data" / "weights" / "tiny-rwkv"
PROMPT = b'"in'
FILES = ("4v0-660K", "5v2-730K")
N_VOCAB = 256


def floats(path):
    values = array.array("f", path.read_bytes())
    if sys.byteorder == "big":
        values.byteswap()
    return values


def logits_after(folder, prompt, dir):
    """Return the logits after the prompt, which `quoth perplexity` needs to score one more token."""
    text, out = dir / "text", dir / "logits"
    text.write_bytes(prompt + b"t")
    run = subprocess.run([QUOTH, "perplexity", folder, text, "--logits", out, "--activation-dtype", "f32", "--max-model-len", str(len(prompt) + 1)],
                         capture_output=True, text=True)
    if run.returncode != 0:
        return run.stderr.strip()
    return floats(out)[-N_VOCAB:]


def check(name, dir):
    rwkv_cpp.convert(WEIGHTS / f"tiny-rwkv-{name}-FP32.bin", dir / name)
    want, got = floats(WEIGHTS / f"expected-logits-{name}.bin"), logits_after(dir / name, PROMPT, dir)
    if isinstance(got, str):
        return got
    d = max(abs(a - b) for a, b in zip(got, want, strict=True)) / max(map(abs, want))
    print(f"     {name}: max|difference| / max|recorded| = {d:.1e}")
    return "" if d <= 1e-4 else f"{d:.1e} is above 1e-4"


if not WEIGHTS.is_dir():
    print("skip trained RWKV (no ../shared/data/weights/tiny-rwkv)")
    sys.exit()
with tempfile.TemporaryDirectory() as root:
    for one in FILES:
        said = check(one, pathlib.Path(root))
        print(f"FAIL trained RWKV {one}: {said}" if said else f"ok   trained RWKV {one}")
