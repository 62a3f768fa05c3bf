#!/bin/sh
# alone: it measures time
# bench.sh - goal: quoth bench roofline and pool print plausible figures, as text and as JSON.
# Method: short runs.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# check NAME CONDITION: print ok or FAIL
check()
{
    if eval "$2"; then echo "ok   $1"; else echo "FAIL $1"; [ ! -s err ] || head -c 300 err; fi
}
json() { python3 -c "import json, sys; o = json.load(open('out')); sys.exit(not ($1))"; }

"$QUOTH" bench roofline --read 32 -r 1 >out 2>err
check 'the machine alone' '[ $? = 0 ] && grep -q "^read .*GB/s" out && grep -q "^int8 ref" out && grep -q "^f32 ref" out'
"$QUOTH" bench roofline --shape tiny --quant Q8_0 --read 32 -r 1 -n 4 -p 16 --json >out 2>err
check 'a model on it' '[ $? = 0 ] && json "o[\"decode\"][\"tokens_per_s\"] > 0 and o[\"prefill\"][\"tokens_per_s\"] > 0"'
check 'its activations are int8' 'json "o[\"activation\"] == \"int8\" and \"ref\" in o[\"prefill\"][\"share_of\"]"'
check 'peaks and bandwidth of one thread and of all' 'json "len(o[\"read\"]) == 2 and min(o[\"read\"]) > 1e6 and all(min(p[\"ops_per_s\"]) > 1e6 for p in o[\"peaks\"])"'
"$QUOTH" bench roofline --shape tiny --activation-dtype f32 --read 32 -r 1 -n 4 -p 16 -d 40 -t 1 --json >out 2>err
check 'f32 activations on one thread, with a past' '[ $? = 0 ] && json "o[\"activation\"] == \"f32\" and o[\"threads\"] == 1 and o[\"depth\"] == 40"'
"$QUOTH" bench pool -r 10 --json >out 2>err
check 'the threads' '[ $? = 0 ] && grep -q "meet, spinning" out && grep -q "busy on CPU" out'
"$QUOTH" run --shape tiny -t 1000 --raw -n 2 hello >out 2>err
check 'more threads than CPUs give a warning' '[ $? = 0 ] && grep -q "this process may use" err'
