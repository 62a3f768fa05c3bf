#!/bin/sh
# packcache.sh - goal: packed weights are cached for the next start, and no fault of the cache
# changes the answer. Method: use a random model that is large enough for the cache. Compare its
# answers while the cache is damaged, killed, shared or forbidden.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
XDG_CACHE_HOME=$dir/cache
export XDG_CACHE_HOME
kept=$dir/cache/quoth/packed

check() { if eval "$2"; then echo "ok   $1"; else echo "FAIL $1"; [ ! -s err ] || head -c 300 err; fi; }
say() { "$QUOTH" run model.gguf 'Once upon' --raw --temperature 0 --max-tokens 8 --max-model-len 64 -v "$@" >got 2>err; }
n_kept() { find "$kept" -type f 2>/dev/null | wc -l; }
the_file() { find "$kept" -type f; }

"$QUOTH" bench kernels --shape smollm-135m --quant Q4_0 -o model.gguf 2>err
say --no-pack-cache
mv got want
check '--no-pack-cache keeps nothing' '[ -s want ] && [ "$(n_kept)" = 0 ]'
say
check 'the first start packs and keeps' 'cmp -s want got && grep -q "kept for the next start" err && [ "$(n_kept)" = 1 ]'
say
check 'the second one maps' 'cmp -s want got && grep -q "packed .* mapped from" err'
say --no-mmap
check 'or copies, with --no-mmap' 'cmp -s want got && grep -q "packed .* copied from" err && [ "$(n_kept)" = 1 ]'
say --threads 1 --cpu ref
check 'whatever computes with it' 'cmp -s want got && grep -q "packed .* mapped from" err'
"$QUOTH" inspect --verify model.gguf >got 2>err
check 'inspect --verify finds it right' '[ $? = 0 ] && grep -q "same$" got && ! grep -q -e DIFFERENT -e DAMAGED got'

# Change a byte in the middle of the file.
middle=$(($(wc -c <"$(the_file)") / 2))
printf '\125\252\125\252' | dd of="$(the_file)" bs=1 seek=$middle conv=notrunc 2>/dev/null
"$QUOTH" inspect --verify model.gguf >got 2>err
check 'inspect --verify names the tensor that is damaged' '[ $? = 1 ] && [ "$(grep -c "DAMAGED$" got)" = 1 ] && grep -q "1 of" err'
check 'and removes the file' '[ "$(n_kept)" = 0 ]'
say
check 'so that the next start packs again' 'cmp -s want got && grep -q "kept for the next start" err'
"$QUOTH" inspect --verify model.gguf --json >got 2>err
check 'and finds it right' 'grep -q "\"packed\":\"same\"" got && grep -q "\"wrong\":0" got'

head -c 1000000 "$(the_file)" >short
cp short "$(the_file)"
say
check 'a truncated file is reported and replaced' 'cmp -s want got && grep -q "damaged" err && grep -q "kept for" err'
say
check 'and then mapped' 'cmp -s want got && grep -q "mapped from" err'
cp model.gguf copy && mv copy model.gguf
say
check 'another file of the same name is another model' 'cmp -s want got && grep -q "kept for" err && [ "$(n_kept)" = 2 ]'

rm -rf "$kept"
for i in 1 2 3; do
    "$QUOTH" run model.gguf 'Once upon' --raw --temperature 0 --max-tokens 8 --max-model-len 64 >"got$i" 2>"err$i" &
done
wait
check 'three starts at once are all right' 'cmp -s want got1 && cmp -s want got2 && cmp -s want got3 && [ "$(n_kept)" = 1 ]'
rm -rf "$kept"
"$QUOTH" run model.gguf 'Once upon' --raw --max-tokens 8 --max-model-len 64 >/dev/null 2>&1 &
while kill -0 $! 2>/dev/null && [ "$(n_kept)" = 0 ]; do :; done
kill -9 $!
wait
say
check 'a start that was killed leaves nothing that is taken for weights' 'cmp -s want got && [ -s got ]'

rm -rf "$kept"
say --pack-cache-size 0.01
check 'a limit that is too low: one warning, and the answer' 'cmp -s want got && [ "$(grep -c warning err)" = 1 ] && grep -q "not kept" err'
(ulimit -f 1000 && say)
check 'so with a process that may not write so much' 'cmp -s want got && [ "$(grep -c warning err)" = 1 ] && grep -q ulimit err'
(XDG_CACHE_HOME=/proc && say)
check 'so with a folder that cannot be' 'cmp -s want got && [ "$(grep -c warning err)" = 1 ] && grep -q /proc err'
(unset XDG_CACHE_HOME HOME && say)
check 'so without a home' 'cmp -s want got && [ "$(grep -c warning err)" = 1 ] && grep -q HOME err'
