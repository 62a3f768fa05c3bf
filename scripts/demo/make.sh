#!/bin/sh
# Make the bundled model from nothing: check the generator, train quoth-tiny and its draft,
# evaluate, export.
#
#   scripts/demo/make.sh [--quick] [OUT]      OUT defaults to build/demo; --quick takes minutes and is only a test
#
# PYTHON is the path of an interpreter with torch, tokenizers, safetensors, gguf and jinja2. Without
# these packages, a virtual environment is made in OUT/venv. The evaluation uses QUOTH (build/quoth)
# and the Q8_0 file if that binary exists, else PyTorch. Checkpoints are kept: run the script again
# to continue.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

main_steps=4000 draft_steps=2000 items=200 more=""
if [ "${1:-}" = --quick ]; then
    shift
    main_steps=40 draft_steps=40 items=5 more="--no-compile --batch 4096"
fi
out=${1:-build/demo}
mkdir -p "$out"

python=${PYTHON:-python3}
if ! "$python" -c 'import torch, tokenizers, safetensors, gguf, jinja2' 2>/dev/null; then
    [ -x "$out/venv/bin/python" ] || python3 -m venv "$out/venv"
    python=$out/venv/bin/python
    "$python" -m pip install --quiet torch numpy tokenizers safetensors gguf jinja2
fi

train() { "$python" "$here/train.py" --out "$out" --seed 1 --resume $more "$@"; }

export_as() { "$python" "$here/export.py" --checkpoint "$out/$1.pt" --name "$2" --hf "$out/$2" --gguf "$out"; }

train --size main --steps "$main_steps"
"$python" "$here/check.py" --tokenizer "$out/tokenizer.json" --docs 4000
export_as main quoth-tiny
quoth=${QUOTH:-build/quoth}
if [ -x "$quoth" ]; then
    set -- --backend quoth --quoth "$quoth" --model "$out/quoth-tiny-q8_0.gguf"
else
    set -- --model "$out/main.pt"
fi
"$python" "$here/eval.py" "$@" --items "$items" --training "$out/main.json" --json "$out/scores.json"
train --size draft --steps "$draft_steps"
export_as draft quoth-tiny-draft
ls -l "$out"/*.gguf
