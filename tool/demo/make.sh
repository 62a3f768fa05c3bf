#!/bin/sh
# Makes the bundled model from nothing: checks the generator, trains quoth-tiny and its draft, evaluates, exports.
#
#   tool/demo/make.sh [--quick] [OUT]      OUT defaults to build/demo; --quick takes minutes and only shows that it works
#
# PYTHON names an interpreter with torch, tokenizers, safetensors, gguf and jinja2; without one that has them,
# a virtual environment is made in OUT/venv. Checkpoints are kept: run it again to go on where it stopped.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

main_steps=4000 draft_steps=3000 minutes=150 items=500 more=""
if [ "${1:-}" = --quick ]; then
    shift
    main_steps=40 draft_steps=40 minutes=2 items=5 more="--no-compile --batch 4096"
fi
out=${1:-build/demo}
mkdir -p "$out"

python=${PYTHON:-python3}
if ! "$python" -c 'import torch, tokenizers, safetensors, gguf, jinja2' 2>/dev/null; then
    [ -x "$out/venv/bin/python" ] || python3 -m venv "$out/venv"
    python=$out/venv/bin/python
    "$python" -m pip install --quiet torch numpy tokenizers safetensors gguf jinja2
fi

train() { "$python" "$here/train.py" --out "$out" --seed 1 --minutes "$minutes" --resume $more "$@"; }

train --size main --steps "$main_steps"
train --size draft --steps "$draft_steps"
"$python" "$here/check.py" --tokenizer "$out/tokenizer.json" --docs 4000
"$python" "$here/export.py" --checkpoint "$out/main.pt" --name quoth-tiny --hf "$out/quoth-tiny" --gguf "$out"
"$python" "$here/export.py" --checkpoint "$out/draft.pt" --name quoth-tiny-draft --hf "$out/quoth-tiny-draft" --gguf "$out"
"$python" "$here/eval.py" --model "$out/main.pt" --items "$items" --training "$out/main.json" --json "$out/scores.json"
ls -l "$out"/*.gguf
