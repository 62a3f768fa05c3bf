#!/bin/sh
# stories.sh - goal: real checkpoints generate. stories260K at temperature 0 generates its published
# text from every published format and in every serving mode. Method: compare the program's output
# byte for byte.
data=${QUOTH_DATA:-$QUOTH_ROOT/../shared/data}/weights
if [ ! -d "$data/stories260K" ]; then
    echo "skip stories260K (no real data)"
    exit 0
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
want="$data/stories260K/greedy_expected.txt"

# check NAME COMMAND...: the command's output equals $dir/want
check()
{
    name=$1
    shift
    if "$@" >"$dir/got" 2>"$dir/err" </dev/null && cmp -s "$dir/got" "$dir/want"; then
        echo "ok   $name"
    else
        echo "FAIL $name"
        head -c 300 "$dir/err"
        cmp "$dir/got" "$dir/want"
    fi
}

# The recorded text begins with the prompt. The recorded text has as many bytes as its 200 tokens.
prompt='Once upon a time'
text() { "$QUOTH" run "$@" --raw --temperature 0 -q; }
n=$((${#prompt}))
tail -c +$((n + 1)) "$want" >"$dir/whole"
"$QUOTH" run "$data/stories260K/stories260K.bin" "$prompt" --raw --temperature 0 -q --max-tokens 500 >"$dir/long" 2>/dev/null
head -c "$(wc -c <"$dir/whole")" "$dir/long" >"$dir/got"
if cmp -s "$dir/got" "$dir/whole"; then echo "ok   stories260K writes its published text"; else echo "FAIL stories260K writes its published text"; cmp "$dir/got" "$dir/whole"; fi

cp "$dir/long" "$dir/want"
for way in '--threads 1' '--threads 2' '--max-num-batched-tokens 1' '--block-size 1' '--block-size 64' '--cpu ref'; do
    # shellcheck disable=SC2086
    check "stories260K.bin $way" text "$data/stories260K/stories260K.bin" "$prompt" --max-tokens 500 $way
done
check 'stories260K v1 export' text "$data/stories260K/stories260K_v1.bin" "$prompt" --max-tokens 500
# its metadata have a context of 128 tokens, but the model was trained with 512
check 'stories260K as GGUF' text "$data/gguf/stories260K-F32.gguf" "$prompt" --max-tokens 500 --max-model-len 512

for model in "$data/stories260K/stories260K-q8_0.ruhai.bin" "$data/gguf/llama-2-tiny-random.gguf"; do
    if text "$model" "$prompt" --max-tokens 20 >"$dir/got" 2>"$dir/err" && [ -s "$dir/got" ]; then
        echo "ok   $(basename "$model") generates"
    else
        echo "FAIL $(basename "$model") generates: $(cat "$dir/err")"
    fi
done

if text "$data/stories260K/stories260K.bin" "$prompt" --max-tokens 3 --json --logprobs 2 --prompt-logprobs 0 >"$dir/got" 2>"$dir/err" &&
    [ "$(grep -o '"top":\[{' "$dir/got" | wc -l)" = 3 ] && [ "$(grep -o '"top":\[\]' "$dir/got" | wc -l)" = 4 ]; then
    echo 'ok   logprobs of three tokens, of four prompt tokens'
else
    echo "FAIL logprobs: $(cat "$dir/got" "$dir/err")"
fi
