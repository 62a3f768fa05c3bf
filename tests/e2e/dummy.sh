#!/bin/sh
# dummy.sh - goal: random weights replace a model in every command, and are equal in each run. A
# GGUF of random weights is an equal model, and quoth bench measures random weights. Method: compare
# the output of commands.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# check NAME CONDITION
check()
{
    if eval "$2"; then echo "ok   $1"; else echo "FAIL $1"; [ ! -s err ] || head -c 300 err; fi
}
say() { "$QUOTH" run "$@" --raw --temperature 0 --max-tokens 24 --max-model-len 64 -q 2>err; }

mkdir folder
cat >folder/config.json <<'END'
{"model_type": "qwen3", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 400, "max_position_embeddings": 256, "rms_norm_eps": 1e-06,
 "rope_theta": 10000.0, "tie_word_embeddings": true}
END
say folder 'Once upon' --load-format dummy >want
check 'a folder with a config.json alone generates from random weights' '[ -s want ]'
say folder 'Once upon' --load-format dummy --threads 1 --max-num-batched-tokens 2 >got
check 'the same every time' 'cmp -s want got'
say folder 'Once upon' --load-format dummy --dummy-seed 7 >got
check 'another seed gives another text' '[ -s got ] && ! cmp -s want got'
check 'no warning of a context that the model was trained on' '! grep -q trained err'
"$QUOTH" run folder 'Once upon' --load-format dummy --raw --max-tokens 2 --max-model-len 512 -q >got 2>err
check 'one warning of a longer one' '[ $(grep -c "trained on 256 tokens" err) = 1 ]'
"$QUOTH" run folder 'Once upon' --load-format dummy --raw --max-tokens 2 --max-model-len 64 -q --activation-dtype int8 >got 2>err
check 'int8 activations of BF16 matrices are not what they are called' '[ $(grep -c "15 of 15 matrices" err) = 1 ]'
say folder 'Once upon' >got
check 'without --load-format dummy the weights are missed' '[ $? = 1 ] && grep -q safetensors err'

find "$QUOTH_ROOT/tests/golden" -name config.json >configs
while read -r config; do
    model=${config%/config.json}
    grep -q model_type "$config" || continue # a module of sentence-transformers
    say "$model" abc --load-format dummy --threads 1 >got || grep -q 'generates no text' err || { echo "$model"; cat err; }
done <configs >failed
check 'every folder of the golden models generates from random weights' '[ -s configs ] && [ ! -s failed ] || ! head -c 300 failed'

for n in 5 64; do
    mkdir chunks$n
    sed "s/\"attention_chunk_size\": [0-9]*/\"attention_chunk_size\": $n/" "$QUOTH_ROOT/tests/golden/llama4_text/config.json" >chunks$n/config.json
    say chunks$n 'Once upon a time' --load-format dummy >$n
done
check "the fields of the folder: chunks of attention" '[ -s 5 ] && ! cmp -s 5 64'

cp -r "$QUOTH_ROOT/tests/golden/qwen3" strange
sed -i '1s/{/{"unsloth_version": "1", "foo": [], "no_such": null,/' strange/config.json
"$QUOTH" run strange abc --raw --temperature 0 --max-tokens 4 -q >got 2>err
check 'fields that the architecture does not know are named in one warning' '[ $(grep -c "ignored unknown fields of config.json: unsloth_version, foo$" err) = 1 ]'
"$QUOTH" run "$QUOTH_ROOT/tests/golden/qwen3" abc --raw --temperature 0 --max-tokens 4 -q >want 2>err
check 'and change no answer' '[ -s want ] && [ ! -s err ] && cmp -s want got'

for type in BF16 Q4_K_M IQ2_XS; do
    say --shape tiny --quant $type 'Once upon' >want
    "$QUOTH" bench kernels --shape tiny --quant $type -o $type.gguf 2>err
    check "$type written as a GGUF" '[ $? = 0 ] && [ -s $type.gguf ]'
    say $type.gguf 'Once upon' >got
    check "$type in the file says what it says in memory" '[ -s want ] && cmp -s want got'
done
"$QUOTH" inspect --shape tiny --quant Q4_K_M | tail -n +3 >want
"$QUOTH" inspect Q4_K_M.gguf | tail -n +3 >got
check 'inspect shows the same of both' 'cmp -s want got'
"$QUOTH" bench kernels Q4_K_M.gguf --load-format dummy --quant Q8_0 -o again.gguf 2>err
check 'the shape of a GGUF in another format' '"$QUOTH" inspect again.gguf | grep -q "blk.0.ffn_up.weight *Q8_0"'
for model in qwen3 qwen3moe gpt2; do
    "$QUOTH" bench kernels "$QUOTH_ROOT/tests/golden/$model" --load-format dummy --quant Q8_0 -o $model.gguf 2>err
    check "a GGUF of random weights of $model's config.json loads" '[ -n "$(say $model.gguf abc)" ]'
done
for model in rwkv falcon-rw; do
    "$QUOTH" bench kernels "$QUOTH_ROOT/tests/golden/$model" --load-format dummy -o $model.gguf 2>err
    check "$model without a GGUF is refused by name" '[ $? = 1 ] && grep -q "$model" err && [ ! -e $model.gguf ]'
done
"$QUOTH" run --shape tinny hello 2>err
check 'a wrong shape lists them' '[ $? = 2 ] && grep -q "llama-1b" err'

"$QUOTH" bench kernels --shape tiny --quant Q8_0 -p 40 -n 4 --batch 1,3 --batch-gen 2 -d 0,33 -r 2 --json --no-limits >rows 2>err
check 'bench kernels measures prompts, generation and batches at two depths' '[ "$(grep -c "\"tokens_per_s\":[0-9]" rows)" = 8 ]'
check 'and names them' 'grep -q "\"test\":\"tg2 x 3\",\"n_prompt\":0,\"n_gen\":2,\"n_seq\":3,\"depth\":33" rows'
"$QUOTH" bench kernels --shape tiny --quant Q4_K_M --op all -p 40 --batch 1,3 -d 33 -r 1 --json --no-limits >rows 2>err
check 'and single ops' '[ $? = 0 ] && [ "$(sed "s/.*\"op\":\"//; s/\".*//" rows | sort -u | wc -l)" = 7 ]'
check 'linear layers by name, type and rows' 'grep -q "\"ffn_down\",\"type\":\"Q6_K\",\"n_out\":256,\"k\":768,\"rows\":40," rows'
"$QUOTH" bench kernels --shape tiny --quant Q8_0 --op linear -p none --batch 1 -r 1 --json >rows 2>err
check 'as parts of what the machine allows' 'grep -q "\"of_read\":[0-9.]*,.*\"of_peak\":[0-9.]*}" rows'
"$QUOTH" bench kernels --shape tiny --batch 1,x 2>err
check 'a bad list is refused' '[ $? = 2 ] && grep -q "batch" err'
