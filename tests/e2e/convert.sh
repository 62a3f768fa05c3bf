#!/bin/sh
# convert.sh - goal: a converted folder answers like the folder, and a failed conversion leaves no
# file. Method: golden folders, converted and run; an existing file, a full disk, a folder that a
# GGUF cannot express.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
golden=$QUOTH_ROOT/tests/golden
flags='--temperature 0 --max-tokens 8 -q'

check() { if eval "$2"; then echo "ok   $1"; else echo "FAIL $1"; fi; }

cd "$dir" || exit 1
for model in llama3 qwen3 gemma3; do
    # shellcheck disable=SC2086
    "$QUOTH" run "$golden/$model" 'hello' $flags >want 2>err
    "$QUOTH" convert "$golden/$model" -o $model.gguf 2>err || cat err
    # shellcheck disable=SC2086
    "$QUOTH" run $model.gguf 'hello' $flags >got 2>err
    check "$model answers from its GGUF as from its folder" 'cmp -s got want && [ -s got ]'
done
"$QUOTH" convert "$golden/qwen3" -o llama3.gguf 2>err
check 'an existing file stays' '[ $? = 1 ] && grep -q -e --force err && "$QUOTH" inspect llama3.gguf | grep -q llama.block_count'
"$QUOTH" convert "$golden/qwen3" -o llama3.gguf --force 2>err
check '--force replaces it' '[ $? = 0 ] && "$QUOTH" inspect llama3.gguf | grep -q qwen3.block_count'
"$QUOTH" convert "$golden/llama3" -o small.gguf --outtype q8_0 2>err
check 'the matrices have the type of --outtype' '"$QUOTH" inspect small.gguf | grep -q Q8_0 && [ "$(wc -c <small.gguf)" -lt "$(wc -c <gemma3.gguf)" ]'
"$QUOTH" convert "$golden/bloom" -o no.gguf 2>err
check 'an architecture without a conversion is rejected by name' '[ $? = 1 ] && [ ! -e no.gguf ] && grep -q bloom err'
"$QUOTH" convert "$golden/forms/gptq" -o no.gguf 2>err
check 'quantized weights are rejected by name' '[ $? = 1 ] && [ ! -e no.gguf ] && grep -q gptq err'

"$QUOTH" convert qwen3.gguf -o back 2>err || cat err
# shellcheck disable=SC2086
"$QUOTH" run "$golden/qwen3" 'hello' $flags >want 2>err && "$QUOTH" run back 'hello' $flags >got 2>err
check 'a folder made of a GGUF answers alike' 'cmp -s got want && [ -s got ]'
"$QUOTH" convert gemma3.gguf -o no 2>err
check 'a GGUF without a conversion to a folder is rejected by name' '[ $? = 1 ] && [ ! -e no ] && grep -q gemma3 err'

# Several chat templates, in a folder, a GGUF and a folder again.
cp -r "$golden/qwen3" chats && chmod -R u+w chats && mkdir chats/additional_chat_templates
printf 'plain {{ messages[0].content }}' >chats/chat_template.jinja
printf 'tools {{ messages[0].content }}' >chats/additional_chat_templates/tool_use.jinja
"$QUOTH" convert chats -o chats.gguf 2>err && "$QUOTH" convert chats.gguf -o chats.back 2>err || cat err
"$QUOTH" convert chats.back -o again.gguf 2>err || cat err
check 'all chat templates come along' 'grep -q "\"name\":\"tool_use\",\"template\":\"tools " chats.back/tokenizer_config.json &&
    "$QUOTH" inspect again.gguf | grep -q "chat_template.tool_use" && grep -aq "plain {{" again.gguf'
"$QUOTH" convert chats.gguf -o chats.back --force 2>err
check 'an existing folder stays, also with --force' '[ $? = 1 ] && grep -q "remove it first" err && [ -e chats.back/model.safetensors ]'

# BPE over characters, whose merges become scores.
cp -r "$golden/qwen3" spm && chmod -R u+w spm
added='"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}'
cat >spm/tokenizer.json <<END
{"version":"1.0","added_tokens":[{"id":0,"content":"<unk>",$added,{"id":258,"content":"<|begin|>",$added,
{"id":259,"content":"<|end|>",$added],
"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},"pre_tokenizer":null,"post_processor":null,
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,"ignore_merges":false,
"vocab":{"<unk>":0,"▁":1,"a":2,"b":3,"c":4,"ab":5,"bc":6,"▁ab":7,"abc":8,"▁▁":9,"<0x0A>":10},
"merges":["▁ ▁","b c","a b","▁ ab","ab c","a bc"]}}
END
"$QUOTH" convert spm -o spm.gguf 2>err || cat err
for text in 'abc' 'a abc bc' '  ab   abcab' 'aabbcc' 'b<|end|>a'; do
    printf '%s\n' "$text" | "$QUOTH" tokenize spm >>want.ids 2>err
    printf '%s\n' "$text" | "$QUOTH" tokenize spm.gguf >>got.ids 2>err
done
check 'scores give the ids of the merges' '[ "$(wc -l <got.ids)" -ge 5 ] && cmp -s want.ids got.ids'
sed -i 's/"ab c","a bc"/"ab c","▁ a","a bc"/' spm/tokenizer.json
sed -i 's/"<0x0A>":10/"<0x0A>":10,"▁a":11/' spm/tokenizer.json
"$QUOTH" convert spm -o no.gguf 2>err
check 'merges without an order of pieces are rejected by name' '[ $? = 1 ] && [ ! -e no.gguf ] && grep -q merges err'

# A class with a window in some layers only, for which GGUF has no key.
cp -r "$golden/qwen2" windows && chmod -R u+w windows
sed -i 's/"use_sliding_window": false/"use_sliding_window": true/; s/"sliding_window": null/"sliding_window": 8/; s/"full_attention"/"sliding_attention"/' windows/config.json
"$QUOTH" convert windows -o no.gguf 2>err
check 'a mechanism without a key is rejected by name' '[ $? = 1 ] && [ ! -e no.gguf ] && grep -q window err'
(ulimit -f 64; trap '' XFSZ; "$QUOTH" convert "$golden/llama3" -o no.gguf 2>err)
check 'a file that cannot be written leaves no part' '[ $? = 1 ] && grep -q "cannot write" err'
# shellcheck disable=SC2144
check 'no part of a file is left' '! [ -e no.gguf ] && ! ls | grep -q "part\|tmp"'
