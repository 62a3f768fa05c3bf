#!/bin/sh
# traffic.sh - goal: quoth bench latency, throughput and replay run on a real engine. Their JSON has
# vLLM's keys, and its figures add up. Missed objectives change the exit status. Method: send a
# small number of requests to the bundled model or random weights. QUOTH_LONG=1 replays an hour of
# Azure's conversations, during which memory must not grow.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
traces=${QUOTH_DATA:-$QUOTH_ROOT/../shared/data}/traces
cd "$dir" || exit 1

# check NAME CONDITION
check()
{
    if eval "$2"; then echo "ok   $1"; else echo "FAIL $1"; [ ! -s err ] || head -c 300 err; fi
}
json() { python3 -c "import json, sys; o = json.load(open('out')); sys.exit(not ($1))"; }
peaks='--peak-tflops 1 --peak-gbs 10'

# shellcheck disable=SC2086
"$QUOTH" bench latency --shape tiny $peaks --input-len 8 --output-len 8 --batch-size 3 --num-iters 3 --num-iters-warmup 1 --json >out 2>err
check 'latency of a batch' '[ $? = 0 ] && json "len(o[\"latencies\"]) == 3 and set(o[\"percentiles\"]) == set(\"10 25 50 75 90 99\".split()) and min(o[\"latencies\"]) <= o[\"avg_latency\"] <= max(o[\"latencies\"]) and o[\"std_latency\"] >= 0"'
check 'all of it was computed' 'json "o[\"completed\"] == 3 and o[\"total_output_tokens\"] == 24 and o[\"stats\"][\"prefix_cache_hits_total\"] == 0"'
# shellcheck disable=SC2086
"$QUOTH" bench throughput --shape tiny $peaks --num-prompts 20 --input-len 30 --output-len 10 --random-range-ratio 0.5 --max-num-seqs 8 --output-json out -o page.html >text 2>err
check 'throughput' '[ $? = 0 ] && grep -q "^Throughput: " text && json "o[\"num_requests\"] == 20 and abs(o[\"requests_per_second\"] * o[\"elapsed_time\"] - 20) < 0.01 and abs(o[\"tokens_per_second\"] * o[\"elapsed_time\"] - o[\"total_num_tokens\"]) < 1"'
check 'the kernels alone' 'json "o[\"kernel_share\"] > 0 and 0 < o[\"host_share\"] < 1 and o[\"mfu\"] > 0"'
check 'its page' 'grep -q "<svg" page.html && grep -q "</html>" page.html'
# shellcheck disable=SC2086
"$QUOTH" bench throughput --shape tiny $peaks --num-prompts 3 --n 4 --input-len 8 --output-len 6 --json >out 2>err
check 'several answers to each prompt' '[ $? = 0 ] && json "o[\"total_output_tokens\"] == 72 and o[\"total_input_tokens\"] == 24"'
# shellcheck disable=SC2086
"$QUOTH" bench latency --shape tiny $peaks --input-len 8 --output-len 6 --batch-size 2 --n 3 --use-beam-search --num-iters 2 --json >out 2>err
check 'beam search' '[ $? = 0 ] && json "o[\"completed\"] == 2 and o[\"total_output_tokens\"] == 36"'
# shellcheck disable=SC2086
"$QUOTH" bench throughput --shape tiny $peaks --num-prompts 12 --max-num-seqs 4 --input-len 8 --output-len 6 --scheduler static --json >out 2>err
check 'the static baseline' '[ $? = 0 ] && json "o[\"completed\"] == 12 and o[\"scheduler\"] == \"static\""'

i=0
while [ $i -lt 12 ]; do # a conversation's turns share their first 512 tokens
    echo "{\"timestamp\": $((i * 50)), \"input_length\": $((530 + i)), \"output_length\": 4, \"hash_ids\": [1, $((10 + i))]}"
    i=$((i + 1))
done >trace.jsonl
# shellcheck disable=SC2086
"$QUOTH" bench replay --shape tiny $peaks --dataset-path trace.jsonl --rate-scale 2 --goodput e2el:60000 --goodput-share 1 --save-detailed --json >out 2>err
check 'a replay within its objective' '[ $? = 0 ] && json "o[\"completed\"] == 12 and o[\"slo_met\"] and o[\"request_goodput\"] == o[\"request_throughput\"] and len(o[\"ttfts\"]) == 12"'
check 'shared blocks are found' 'json "o[\"prefix_cache_hit_rate\"] > 0.5"'
check 'events and statistics agree' 'json "o[\"stats\"][\"generation_tokens_total\"] == o[\"total_output_tokens\"] == 48 and o[\"stats\"][\"e2e_request_latency_seconds\"][\"count\"] == 12"'
# shellcheck disable=SC2086
"$QUOTH" bench replay --shape tiny $peaks --dataset-path trace.jsonl --goodput ttft:0.001 --goodput-share 0.5 >out 2>err
check 'a missed objective is exit 1' '[ $? = 1 ] && grep -q MISSED out'
"$QUOTH" bench replay --shape tiny --dataset-path "$QUOTH_ROOT/README.md" >out 2>err
check 'what is no trace is refused' '[ $? = 1 ] && grep -q "first line" err'
for target in 0x foo nonex 1e10 nan; do
    "$QUOTH" bench throughput --shape tiny --itl-target-ms $target >out 2>err
    check "an inter-token target of $target is refused" '[ $? = 2 ] && grep -q "itl-target-ms" err'
done
"$QUOTH" bench replay --shape tiny --goodput ttft >out 2>err
check 'a wrong objective is refused' '[ $? != 0 ] && grep -q "ttft" err'

if [ -z "$QUOTH_LONG" ] || [ ! -d "$traces" ]; then
    echo "skip an hour of replay (QUOTH_LONG=1, and the traces)"
else
    # shellcheck disable=SC2086
    "$QUOTH" bench replay $peaks --dataset-path "$traces/AzureLLMInferenceTrace_conv.csv" --num-prompts 19366 --length-scale 0.05 \
        --max-num-seqs 16 --max-concurrency 32 --memory-growth-max 4 --json >out 2>err
    check 'memory is flat over an hour of replay' '[ $? = 0 ] && json "o[\"memory_flat\"] and o[\"duration\"] > 3400 and o[\"completed\"] == 19366"'
fi
