#!/bin/sh
# convert.sh - goal: a golden folder, its GGUF, and the folder made from this GGUF give equal
# answers. The error of a rejected conversion contains the reason. A failed conversion leaves no
# file. Method: convert and run all golden folders. Convert to an existing file and to a full disk,
# and convert a folder that a GGUF cannot express.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
golden=$QUOTH_ROOT/tests/golden
flags='--temperature 0 --max-tokens 8 -q --activation-dtype f32'

check() { if eval "$2"; then echo "ok   $1"; else echo "FAIL $1"; fi; }

cd "$dir" || exit 1
# Folders that do not convert to GGUF, and those whose GGUF does not become a folder. The test fails
# if a folder that is not listed is rejected, or a listed folder is converted.
refused='bitnet cross/bart encoders/bert-dense encoders/distilbert-class falcon-rw
    gptj helium kimi_linear llama4 nemotron_h-moe opt opt-post
    rwkv rwkv5'
one_way='qwen2_5_vl qwen3_vl'

listed() { case " $(echo $2) " in *" $1 "*) return 0 ;; esac; return 1; } # folder, list
answer() { "$QUOTH" run "$1" 'hello' $flags 2>err; }                      # model
texts='hello world|The cat, the hat.|</s>a<mask> b [SEP] c|  two  spaces '
ids() { echo "$texts" | tr '|' '\n' | sed "$lines" | "$QUOTH" tokenize "$1" 2>err; } # model

# Set $from to a golden folder. Folders of quantized weights have no tokenizer, so a copy gets a
# tokenizer.
folder() { # name
    from=$golden/$1
    case $1 in
    forms/*)
        rm -rf form && cp -r "$golden/$1" form && chmod -R u+w form && cp "$golden/llama3"/tokenizer*.json form
        from=form
        ;;
    esac
}

# Compare a model with the folder from which it was made.
same() { # folder, model
    case $1 in
    encoders/* | cross/*) ;;
    *) answer "$from" >want && answer "$2" >got && cmp -s got want && [ -s got ] || return 1 ;;
    esac
    ids "$from" >want && ids "$2" >got && cmp -s got want && [ -s got ]
}

# shellcheck disable=SC2086
all_folders() {
    n=0
    for config in "$golden"/*/config.json "$golden"/*/*/config.json; do
        name=${config#"$golden"/} name=${name%/config.json}
        rm -rf out.gguf out.back
        folder $name
        if ! "$QUOTH" convert "$from" -o out.gguf 2>err; then
            listed $name "$refused" || echo "FAIL $name: $(cat err)"
            [ "$(grep -vc ': warning: ' err)" = 1 ] && [ ! -e out.gguf ] || echo "FAIL $name is not refused with one sentence: $(cat err)"
            continue
        fi
        n=$((n + 1))
        lines= # a folder with other rules of white space is converted with a warning
        ! grep -q 'rules of white space' err || lines='3,$d'
        listed $name "$refused" && echo "FAIL $name converts, so it is not to be listed"
        same $name out.gguf || echo "FAIL $name and its GGUF differ"
        if ! "$QUOTH" convert out.gguf -o out.back 2>err; then
            listed $name "$one_way" || echo "FAIL $name, back: $(cat err)"
            continue
        fi
        listed $name "$one_way" && echo "FAIL $name converts back, so it is not to be listed"
        same $name out.back || echo "FAIL $name and the folder made of its GGUF differ"
    done
    check "$n golden folders convert, the others are listed" '[ $n -ge 71 ]'
}
all_folders

"$QUOTH" convert "$golden/llama3" -o llama3.gguf 2>err && "$QUOTH" convert "$golden/gemma3" -o gemma3.gguf 2>err && "$QUOTH" convert "$golden/qwen3" -o qwen3.gguf 2>err || cat err
# the same ends as the source: a list in its order, or one id
cp -r "$golden/llama3" one && chmod -R u+w one && echo '{"eos_token_id":258}' >one/generation_config.json
for source in "$golden/llama3" one; do
    rm -rf ends.gguf ends.back
    "$QUOTH" convert "$source" -o ends.gguf 2>err && "$QUOTH" convert ends.gguf -o ends.back 2>err
    python3 - "$source" ends.back >got 2>&1 <<'EOF'
import json, sys
print(*(json.load(open(f"{d}/generation_config.json"))["eos_token_id"] for d in sys.argv[1:]), sep="|")
EOF
    check "generation_config.json names the ends of its source ($(cat got))" '[ -s got ] && [ "$(cut -d"|" -f1 got)" = "$(cut -d"|" -f2 got)" ]'
done
# the numbers of the table format/generation.def
cat >one/generation_config.json <<'EOF'
{"eos_token_id": 258, "max_new_tokens": 9, "min_new_tokens": 2, "typical_p": 0.5, "temperature": 1, "top_k": 7, "top_p": 0.75,
 "min_p": 0.25, "repetition_penalty": 1.5}
EOF
rm -rf ends.gguf ends.back
"$QUOTH" convert one -o ends.gguf 2>err && "$QUOTH" convert ends.gguf -o ends.back 2>err
python3 - >got 2>&1 <<'EOF'
import json
source, back = (json.load(open(f"{d}/generation_config.json")) for d in ("one", "ends.back"))
print({k: back.get(k) for k in source if back.get(k) != source[k]})
EOF
check "the defaults of requests come along ($(cat got))" '[ "$(cat got)" = "{}" ]'
"$QUOTH" convert "$golden/qwen3" -o llama3.gguf 2>err
check 'an existing file stays' '[ $? = 1 ] && grep -q -e --force err && "$QUOTH" inspect llama3.gguf | grep -q llama.block_count'
"$QUOTH" convert "$golden/qwen3" -o llama3.gguf --force 2>err
check '--force replaces it' '[ $? = 0 ] && "$QUOTH" inspect llama3.gguf | grep -q qwen3.block_count'
cp -r "$golden/llama3" own && chmod -R u+w own
check '--force replaces no file of the source' '! "$QUOTH" convert own -o own/config.json --force 2>err && grep -q "not a GGUF" err && cmp -s "$golden/llama3/config.json" own/config.json'
mkfifo pipe
check '--force replaces no pipe' '! "$QUOTH" convert own -o pipe --force 2>err && grep -q "not a GGUF" err && ! "$QUOTH" convert own -o pipe 2>err && [ -p pipe ]'
ln -s nowhere dangling
check 'a link without a file is replaced only with --force' '! "$QUOTH" convert own -o dangling 2>err && grep -q -e --force err && "$QUOTH" convert own -o dangling --force 2>err && [ -f dangling ] && [ ! -e nowhere ]'
"$QUOTH" convert "$golden/llama3" -o small.gguf --outtype q8_0 2>err
check 'the matrices have the type of --outtype' '"$QUOTH" inspect small.gguf | grep -q Q8_0 && [ "$(wc -c <small.gguf)" -lt "$(wc -c <gemma3.gguf)" ]'
"$QUOTH" convert "$golden/opt" -o no.gguf 2>err
check 'an architecture without a GGUF is rejected by name' '[ $? = 1 ] && [ ! -e no.gguf ] && grep -q "\"opt\" has no GGUF" err'
"$QUOTH" convert "$golden/qwen3moe-fp8" -o moe.gguf --type q8_0 2>err || cat err
check 'quantized weights are converted to another format' '"$QUOTH" inspect moe.gguf | grep "ffn_up_exps\|attn_q.weight" | grep -q Q8_0'

"$QUOTH" convert qwen3.gguf -o back 2>err || cat err
# shellcheck disable=SC2086
"$QUOTH" run "$golden/qwen3" 'hello' $flags >want 2>err && "$QUOTH" run back 'hello' $flags >got 2>err
check 'a folder made of a GGUF answers alike' 'cmp -s got want && [ -s got ]'
"$QUOTH" convert "$golden/falcon-rw" -o no.gguf 2>err
check 'a mechanism that the reader of the result lacks is rejected' '[ $? = 1 ] && [ ! -e no.gguf ] && grep -q "falcon-rw: has no equal" err && ! grep -q part err'

cp -r "$golden/gemma3" capped && chmod -R u+w capped
sed -i 's/"final_logit_softcapping": [a-z0-9.]*/"final_logit_softcapping": 20.0/' capped/config.json
"$QUOTH" convert capped -o no.gguf 2>err
check 'the reason names the field of config.json and gives advice' '[ $? = 1 ] && [ ! -e no.gguf ] &&
    grep -q "config.json: final_logit_softcapping: the result cannot express 20, .*; quoth runs the folder itself" err'
cp -r "$golden/deepseek_v3" pairs && chmod -R u+w pairs
sed -i 's/"rope_interleave": true/"rope_interleave": false/' pairs/config.json
"$QUOTH" convert pairs -o no.gguf 2>err
check 'another order of rotated lanes is rejected' '[ $? = 1 ] && [ ! -e no.gguf ] && grep -q "config.json: rope_interleave: " err'
cp -r "$golden/qwen3" words && chmod -R u+w words
sed -i 's/"pre_tokenizer":{"type":"ByteLevel"/"pre_tokenizer":{"type":"NoSuchWords"/' words/tokenizer.json
"$QUOTH" convert words -o no.gguf 2>err
check 'a tokenizer that quoth does not support gets no such advice' '[ $? = 1 ] && [ ! -e no.gguf ] &&
    grep -q NoSuchWords err && ! grep -q "runs the folder" err'
"$QUOTH" convert "$golden/encoders/distilbert-class" -o no.gguf 2>err
check 'an activation of the head is not that of the layers' '[ $? = 1 ] && grep -q "an activation in the head: the result cannot express relu" err'

# Several chat templates, in a folder, a GGUF and a folder again.
cp -r "$golden/qwen3" chats && chmod -R u+w chats && mkdir chats/additional_chat_templates
printf 'plain {{ messages[0].content }}' >chats/chat_template.jinja
printf 'tools {{ messages[0].content }}' >chats/additional_chat_templates/tool_use.jinja
"$QUOTH" convert chats -o chats.gguf 2>err && "$QUOTH" convert chats.gguf -o chats.back 2>err || cat err
"$QUOTH" convert chats.back -o again.gguf 2>err || cat err
check 'all chat templates come along' 'grep -q "\"name\":\"tool_use\",\"template\":\"tools " chats.back/tokenizer_config.json &&
    "$QUOTH" inspect again.gguf | grep -q "chat_template.tool_use" && grep -aq "plain {{" again.gguf'
"$QUOTH" convert chats.gguf -o chats.back --force 2>err
check 'an existing folder stays, also with --force' '[ $? = 1 ] && grep -q "give the path of a new one" err && [ -e chats.back/model.safetensors ]'
"$QUOTH" convert chats.gguf -o other.gguf 2>err
check 'a GGUF does not become a folder with the name of a file' '[ $? = 1 ] && grep -q "becomes a folder" err && [ ! -e other.gguf ]'
check 'the result has the permissions of the umask' '[ "$(stat -c %a chats.back)" = "$(mkdir usual && stat -c %a usual)" ]'
(ulimit -f 8; "$QUOTH" convert chats -o large.gguf 2>err)
check 'a limit of file sizes is an error' '[ $? = 1 ] && grep -q "File too large" err && [ -z "$(ls | grep large)" ]'

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

"$QUOTH" convert "$golden/llama3" -o no.gguf --type Q8_0 --outtype F16 2>err
check '--outtype does not come with --type' '[ $? = 2 ] && grep -q -e "--outtype: must not come with --type" err'
cp -r "$golden/gemma3" scalar && chmod -R u+w scalar && sed -i 's/"query_pre_attn_scalar": *[0-9.]*/"query_pre_attn_scalar": 200/' scalar/config.json
"$QUOTH" convert scalar -o no.gguf 2>err
check 'the error for a scale has the value of config.json' '[ $? = 1 ] && grep -q "query_pre_attn_scalar: the result cannot express 200" err'
cp -r "$golden/encoders/t5enc" unigram 2>/dev/null || cp -r "$golden/cross/t5" unigram
chmod -R u+w unigram && python3 - unigram/tokenizer.json <<'EOF'
import json, sys
with open(sys.argv[1]) as f:
    tokenizer = json.load(f)
tokenizer["pre_tokenizer"] = {"type": "Whitespace"}
with open(sys.argv[1], "w") as f:
    json.dump(tokenizer, f)
EOF
"$QUOTH" convert unigram -o no.gguf 2>err
check 'the error for another tokenizer names the step' '[ $? = 1 ] && grep -q "tokenizer.json: pre_tokenizer: must be" err'
# A class with windows only in some layers, for which GGUF has no key.
cp -r "$golden/qwen2" windows && chmod -R u+w windows
sed -i 's/"use_sliding_window": false/"use_sliding_window": true/; s/"sliding_window": null/"sliding_window": 8/; s/"full_attention"/"sliding_attention"/' windows/config.json
"$QUOTH" convert windows -o no.gguf 2>err
check 'a mechanism without a key is rejected by name' '[ $? = 1 ] && [ ! -e no.gguf ] && grep -q window err'
cp -r "$golden/qwen3" unknown && chmod -R u+w unknown && sed -i 's/"use_cache"/"no_reader_of_this": 1, "use_cache"/' unknown/config.json
check 'a warning about unknown fields is written once' '"$QUOTH" convert unknown -o unknown.gguf 2>err; [ "$(grep -c no_reader_of_this err)" = 1 ]'
# One KV head: the norms of heads have a dimension of size 1 in the GGUF.
cp -r "$golden/stablelm" one_head && chmod -R u+w one_head
python3 - one_head <<'END'
import json, pathlib, struct, sys
folder = pathlib.Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
data = (folder / "model.safetensors").read_bytes()
n = struct.unpack("<Q", data[:8])[0]
tensors, values = json.loads(data[:n + 8][8:]), data[8 + n:]
for layer in range(2):
    for name in ("q_layernorm.norms.0", "q_layernorm.norms.1", "k_layernorm.norms.0"):
        place = [len(values), len(values) + 32]
        tensors[f"model.layers.{layer}.self_attn.{name}.weight"] = {"dtype": "BF16", "shape": [16], "data_offsets": place}
        values += struct.pack("<16H", *range(0x3F00, 0x3F10))
text = json.dumps(tensors).encode()
(folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + values)
(folder / "config.json").write_text(json.dumps(dict(config, qk_layernorm=True)))
END
check 'norms of a single KV head convert to GGUF and back' '"$QUOTH" convert one_head -o one_head.gguf 2>err && "$QUOTH" convert one_head.gguf -o one_back 2>err || { cat err; false; }'
(ulimit -f 64; trap '' XFSZ; "$QUOTH" convert "$golden/llama3" -o no.gguf 2>err)
check 'a file that cannot be written leaves no part' '[ $? = 1 ] && grep -q "cannot write" err'
# Attackers: damage in the middle, a disk that fills while a folder is written, names outside of the
# folder. Each attack causes one error message and no other output.
one_sentence() { [ "$(wc -l <err)" = 1 ] && [ ! -e no ] && [ ! -e no.gguf ]; }
fails() { "$@" 2>err; [ $? = 1 ] && one_sentence; }
"$QUOTH" convert "$golden/encoders/gemma-embedding" -o dense.gguf 2>err
for limit in 8 40 70 130; do
    (ulimit -f $limit; trap '' XFSZ; "$QUOTH" convert dense.gguf -o no 2>err)
    check "a folder that cannot be written beyond $limit blocks leaves no part" 'one_sentence && grep -q "no/.*cannot write" err'
done
head -c 50000 dense.gguf >cut.gguf
check 'a truncated GGUF is rejected' 'fails "$QUOTH" convert cut.gguf -o no && grep -q truncated err'
cp -r "$golden/encoders/gemma-embedding" cut && chmod -R u+w cut
head -c 100 "$golden/encoders/gemma-embedding/2_Dense/model.safetensors" >cut/2_Dense/model.safetensors
check 'a truncated module is rejected' 'fails "$QUOTH" convert cut -o no.gguf && grep -q "2_Dense.*truncated" err'
sed -i 's|2_Dense|../2_Dense|' cut/modules.json
check 'a module outside of the folder is rejected' 'fails "$QUOTH" convert cut -o no.gguf && grep -q modules.json err'
cp -r "$golden/mistral" shards && chmod -R u+w shards && sed -i 's|model-00001-of|../model-00001-of|' shards/model.safetensors.index.json
check 'a shard outside of the folder is rejected' 'fails "$QUOTH" convert shards -o no.gguf && grep -q weight_map err'
check 'a GGUF does not become itself' 'cp dense.gguf same.gguf && ! "$QUOTH" convert same.gguf -o same.gguf --force 2>err && cmp -s dense.gguf same.gguf'
check 'slashes at the end of a folder are no part of its name' '"$QUOTH" convert dense.gguf -o slash// 2>err && [ -e slash/2_Dense/model.safetensors ] && ! ls -A slash | grep -q part'
# shellcheck disable=SC2144
check 'no part of a file is left' '! [ -e no.gguf ] && ! ls | grep -q "part\|tmp"'
