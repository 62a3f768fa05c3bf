#!/bin/sh
# Goal: quoth grammar check reports whether a constraint can be enforced, and the first wrong byte
# of a text. It also reports the cost of masks. Method: check constraints of each kind, with
# accepted and rejected texts.
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
model=$QUOTH_ROOT/models/quoth-tiny/quoth-tiny-q8_0.gguf
echo '{"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"], "additionalProperties": false}' >schema
printf 'root ::= "a" rest\nrest ::= "b" rest | "c"\n' >list.gbnf
printf 'start: C' >bad.lark
printf abbc >good
printf abb >short
echo '{"a": 12}' >twelve
echo '{"a": 12, "b": 1}' >more

# expect NAME STATUS PATTERN ARGUMENTS...: quoth grammar check ARGUMENTS has that exit status and
# prints a line that matches.
expect()
{
    name=$1 status=$2 pattern=$3
    shift 3
    "$QUOTH" grammar check "$@" >got 2>&1 </dev/null
    got=$?
    if [ $got = "$status" ] && grep -qE "$pattern" got; then
        echo "ok   grammar: $name"
    else
        echo "FAIL grammar: $name: status $got: $(cat got)"
    fi
}

expect 'a schema can be enforced' 0 'can be enforced' schema
expect 'a valid text' 0 '^accepted' schema twelve
expect 'an invalid text, by the byte' 1 'rejected at byte 8' schema more
expect 'masks of a tokenizer' 0 'masks: [0-9]+, median [0-9.]+ us' schema twelve --tokenizer "$model"
expect 'GBNF' 0 '^accepted' --gbnf list.gbnf good
expect 'a text that ends too early' 1 'ends too early' --gbnf list.gbnf short
expect 'a regular expression' 0 '^accepted' --regex 'ab+c' good
printf 'start: A rest\nrest: rest "b" | "b"\n%%import .parts.A\n%%import .parts.END\n' >list.lark
printf 'A: "a"\nEND: "c"\n' >parts.lark
expect 'a Lark grammar, which imports a file' 0 '^accepted' --lark list.lark --start start short
expect 'what cannot be kept in a Lark grammar, and where' 1 'line 1, column 8: not defined: C' --lark bad.lark
echo '{"type": "tag", "begin": "a", "content": {"type": "any_text"}, "end": "c"}' >tag
expect 'a structural tag' 0 '^accepted' --tag tag good
echo '{"type": "tag", "begin": "a", "content": {"type": "json_schema", "json_schema": {"type": 3}}, "end": "c"}' >tag
expect 'what cannot be kept in a structural tag, by its pointer' 1 'structural tag, #/content: ' --tag tag
expect 'a choice' 0 '^accepted' --choice '["x", "abbc"]' good
expect 'what cannot be kept, and where' 1 'byte 4: look-around' --regex 'a(?=b)'
printf '%s' '{"type": "string", "pattern": "(a)\\1"}' >schema
expect 'what cannot be kept in a schema, by its pointer' 1 '#/pattern: .*back references' schema
echo '{"items": {"$ref": "#/nowhere"}}' >schema
expect 'a reference to nothing' 1 '#/items/\$ref: "#/nowhere" not found in this document' schema
expect 'no constraint' 2 'usage'
expect 'two constraints' 2 'usage' --regex a --gbnf list.gbnf
expect 'a constraint beside --jsonl' 2 'usage' --regex a --jsonl
expect 'the first mask, without a text' 0 '^first mask: [0-9.]+ us, 1 of [0-9]+ tokens' --regex 'q{9}' --tokenizer "$model"
echo '{"properties": {"a": {}}}' >open
echo '{"b": 1}' >other
expect 'more members' 0 '^accepted' open other
expect 'members of the schema alone' 1 'rejected at byte 2' --disable-additional-properties open other

printf '{"regex": "a|b", "texts": ["a", "c"]}\n{"regex": "(", "texts": []}\n{"regex": "a", "text": "a"}\n{"regex": "a", "gbnf": "b"}\n' | "$QUOTH" grammar check --jsonl >got
if grep -q '"accepted":true},{"accepted":false,"byte":0}' got && grep -q '^{"ok":false,"error":"' got &&
    grep -q '"error":"text: ' got && grep -q '"error":"gbnf: ' got; then
    echo "ok   grammar: a request per line"
else
    echo "FAIL grammar: a request per line: $(cat got)"
fi
