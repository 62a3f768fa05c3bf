#!/bin/sh
# peers.sh - goal: compare/engines parses the output of its peers and computes the correct ratios.
# Rounds on a busy machine and peers that fail do not count. Method: use programs that print the
# output of llama.cpp's and ik_llama.cpp's programs.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
LOG=$dir
export LOG

# check NAME CONDITION
check()
{
    if eval "$2"; then echo "ok   $1"; else echo "FAIL $1"; head -c 500 out err; fi
}
# program PATH: write a script with the body from standard input
program() { mkdir -p "$(dirname "$1")" && { echo '#!/bin/sh'; cat; } >"$1" && chmod +x "$1"; }

program quoth <<'END'
echo "$*" >>"$LOG/quoth.args"
case "$*" in
*'--batch none'*)
    echo '{"test":"pp512","n_prompt":512,"n_gen":0,"n_seq":1,"depth":0,"tokens_per_s":900.0}'
    echo '{"test":"tg128","n_prompt":0,"n_gen":128,"n_seq":1,"depth":0,"tokens_per_s":60.0}' ;;
*)  echo '{"test":"tg32","n_prompt":0,"n_gen":32,"n_seq":1,"depth":16,"tokens_per_s":50.0}'
    echo '{"test":"tg32 x 8","n_prompt":0,"n_gen":32,"n_seq":8,"depth":16,"tokens_per_s":300.0}' ;;
esac
END
program a/llama-bench <<'END'
case "$*" in *--help*) echo '-d, --n-depth <n>'; echo '-fa <on|off|auto>'; exit ;; esac
echo "$*" >>"$LOG/a.args"
echo '[{"build_commit":"abc","n_prompt":512,"n_gen":0,"n_depth":0,"avg_ts":300.0},'
echo '{"build_commit":"abc","n_prompt":0,"n_gen":128,"n_depth":0,"avg_ts":40.0}]'
END
program a/llama-batched-bench <<'END'
case "$*" in *--help*) echo '--output-format {md,jsonl}'; exit 1 ;; esac
echo '{"pp": 16, "tg": 32, "pl": 1, "speed_pp": 1.0, "speed_tg": 40.0}'
echo '{"pp": 16, "tg": 32, "pl": 8, "speed_pp": 1.0, "speed_tg": 100.0}'
END
program b/llama-bench <<'END'
case "$*" in *--help*) echo '-gp <pp,tg>'; echo '-rtr, --run-time-repack <0|1>'; exit ;; esac
echo "$*" >>"$LOG/b.args"; echo left >llama.log
echo '['; echo 'WARNING: {0} bytes'; echo '{"build_commit":"def","n_prompt":512,"n_gen":0,"avg_ts":450.0,"test":"pp512"},'
echo '{"build_commit":"def","n_prompt":0,"n_gen":128,"avg_ts":60.0,"test":"tg128"}]'
END
program b/llama-batched-bench <<'END'
case "$*" in *--help*) echo '-rtr,   --run-time-repack'; exit ;; esac
echo '|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |' >&2
echo '|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|' >&2
echo '|    16 |     32 |    8 |    384 |    0.753 |    21.25 |    0.638 |   150.00 |    1.391 |    12.94 |' >&2
END
program c/llama-bench <<'END'
case "$*" in *--help*) exit ;; esac
echo 'illegal instruction' >&2
exit 3
END
echo x >model.gguf

peers() { "$QUOTH_ROOT/compare/engines" model.gguf --quoth ./quoth --rounds 2 --batch 1,8 -t 2 "$@" >out 2>err; }
peers --keep --json --peer a=a --peer b=b
check 'two peers, two rounds' '[ $? = 0 ]'
check 'a prompt against llama-bench' 'grep -q "\"peer\": \"a\".*\"pp512\".*\"median\": 3.0, .*\"rounds\": 2" out'
check 'generation against llama-bench' 'grep -q "\"peer\": \"b\".*\"tg128\".*\"median\": 1.0," out'
check 'sequences side by side from JSON lines' 'grep -q "\"peer\": \"a\".*\"tg32 x 8\", \"depth\": 16.*\"median\": 3.0," out'
check 'and from a table' 'grep -q "\"peer\": \"b\".*\"tg32 x 8\", \"depth\": 16.*\"median\": 2.0," out'
check 'each in its turn' '[ "$(sed -n "s/^round .: //p" err | tr "\n" " ")" = "quoth a b quoth a b " ]'
check 'flags that a peer knows' 'grep -q -- "-fa on -p" a.args && grep -q -- "-fa 1 -rtr 1" b.args'
check 'what they leave behind is nowhere' '[ ! -e llama.log ]'
check 'the same threads' 'grep -q -- "-t 2" quoth.args && grep -q -- "-t 2" a.args'
peers --keep --peer a=a --batch none
check 'a table for people' '[ $? = 0 ] && grep -q "^pp512  *0  *900.00  *300.00  *3.000" out && grep -q "quoth / a abc" out'
peers --keep --json --peer a=a --peer c=c
check 'a failing peer is omitted and reported' '[ $? = 1 ] && grep -q "illegal instruction" err && grep -q "\"peer\": \"a\"" out'
peers --max-steal -1 --json --peer a=a
check 'rounds in a machine that was not ours do not count' '[ $? = 1 ] && [ ! -s out ] && grep -q "does not count" err'
peers --peer a=nowhere
check 'a folder without peers is refused' '[ $? = 2 ]'
