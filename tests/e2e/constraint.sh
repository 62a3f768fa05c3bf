#!/bin/sh
# Goal: quoth run constrains its answer to a JSON Schema, an expression, a grammar or a choice, in
# chats and completions. quoth run rejects a constraint that it cannot enforce, with the place in
# the constraint. Method: run the bundled model at temperature 1, at which answers without a
# constraint differ.
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
model=$QUOTH_ROOT/models/quoth-tiny/quoth-tiny-q8_0.gguf
echo '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false}' >schema.json
printf 'root ::= "<" [a-c]{2} ">"\n' >list.gbnf
printf 'start: "<" AB ">" // not GBNF: ::=\nAB: /[a-c]{2}/\n' >list.lark

# expect NAME STATUS PATTERN ARGUMENTS...: quoth run has that exit status, and PATTERN matches its
# whole answer, or a line of its error.
expect()
{
    name=$1 status=$2 pattern=$3
    shift 3
    for raw in '' --raw; do
        # shellcheck disable=SC2086
        "$QUOTH" run "$model" "What is 2 + 2?" -q -n 300 --seed 5 --temperature 1 $raw "$@" >got 2>error </dev/null
        got=$?
        [ $got = 0 ] || cat error >got
        if [ $got = "$status" ] && tr -d '\n' <got | grep -qxE "$pattern"; then
            echo "ok   run: $name$raw"
        else
            echo "FAIL run: $name$raw: status $got: $(cat got)"
        fi
    done
}

object='\{[[:space:]]*"[^"]+"[[:space:]]*:[[:space:]]*(true|false)[[:space:]]*\}[[:space:]]*'
expect 'a schema in a file' 0 "[[:space:]]*$object" --json-schema schema.json
expect 'a schema as text' 0 "[[:space:]]*$object" --json-schema "$(cat schema.json)"
expect 'any object' 0 '[[:space:]]*\{.*' --json-object
expect 'an expression' 0 'x[0-9]{4}y' --regex 'x[0-9]{4}y'
expect 'a GBNF grammar' 0 '<[a-c]{2}>' --grammar list.gbnf
expect 'a Lark grammar' 0 '<[a-c]{2}>' --grammar list.lark
expect 'a grammar as text' 0 '<b>' --grammar 'root ::= "<b>"'
expect 'a choice' 0 'no way|never' --choice 'no way,never'
expect 'a choice of more' 0 'a, b|c' --choice '["a, b"]' --choice c
expect 'the JSON output is the same' 0 '\{"text":"never",.*"finish_reason":"stop",.*' --choice never --json
expect 'what cannot be kept, by its place' 1 'quoth run: --regex: .*byte 4: look-around.*' --regex 'a(?=b)'
expect 'and of a schema' 1 'quoth run: --json-schema: .*#/items/type: .*' --json-schema '{"items": {"type": "x"}}'
expect 'and of a grammar' 1 'quoth run: --grammar: .*line 1.*' --grammar 'root ::= ('
expect 'no such file' 1 'quoth run: --json-schema: none.json: cannot open: .*' --json-schema none.json
expect 'two of them' 2 'quoth run: .*must not come together.*' --regex a --json-object
expect 'an empty one' 2 'quoth run: --regex: .*' --regex ''
expect 'an empty choice' 1 'quoth run: --choice: .*' --choice '[]'
expect 'no end' 1 'quoth run: --ignore-eos: .*' --regex a --ignore-eos

# A prompt that begins the model's reasoning. The text after the reasoning is constrained.
printf '{%% for m in messages %%}<|im_start|>{{ m.content }}<|im_end|>{%% endfor %%}{%% if add_generation_prompt %%}<|im_start|>assistant\n<think>\n{%% endif %%}' >think.jinja
close=$(printf '</think>' | "$QUOTH" tokenize "$model" | tr -d ' ')
n=0
for seed in 1 2 3 4 5 6; do
    "$QUOTH" run "$model" hello -n 200 --seed $seed --temperature 1 --logit-bias "$close:12" \
        --chat-template think.jinja --reasoning-parser think --regex '[0-9]{3}x' --json >got 2>error </dev/null || cat error >got
    grep -q '"finish_reason":"stop"' got || continue
    n=$((n + 1))
    grep -qE '"content":"[0-9]{3}x"' got && grep -q '"reasoning_content":"' got || { n=-9; break; }
done
if [ $n -gt 0 ]; then
    echo "ok   run: what comes after reasoning is constrained"
else
    echo "FAIL run: what comes after reasoning is constrained: $n $(cat got)"
fi
