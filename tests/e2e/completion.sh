#!/bin/bash
# Goal: shells complete commands, flags and values. Method: call the functions of bash and fish with
# words, and let zsh parse its scripts. The scripts of all shells must have each flag of the help.
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
for shell in bash zsh fish; do "$QUOTH" completion $shell >script.$shell || echo "FAIL completion: $shell"; done
# shellcheck disable=SC1091
. ./script.bash

# same NAME WANT GOT
same()
{
    if [ "$2" = "$3" ]; then echo "ok   completion: $1"; else echo "FAIL completion: $1: want $2, got $3"; fi
}

# in_bash WORD...: the completions of the last word
in_bash()
{
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _quoth
    echo "${COMPREPLY[*]}"
}

touch model.gguf other.txt
same 'bash, a command' serve "$(in_bash quoth ser)"
same 'bash, a sub-command' kernels "$(in_bash quoth bench ker)"
same 'bash, a flag' --device "$(in_bash quoth serve --dev)"
same 'bash, a flag of a sub-command' --shape "$(in_bash quoth bench kernels --sha)"
same 'bash, values' 'auto none cpu' "$(in_bash quoth serve --device '')"
same 'bash, a file as a value' other.txt "$(in_bash quoth serve --ssl-certfile oth)"
same 'bash, a file as an argument' model.gguf "$(in_bash quoth serve mod)"

missing=
for c in run serve batch 'bench kernels' convert; do
    # shellcheck disable=SC2086
    for flag in $("$QUOTH" $c --help | sed -n 's/^  \(-., \|    \)--\([a-z0-9_-]*\).*/\2/p'); do
        grep -q "'$c') flags=.* --$flag" script.bash || missing="$missing bash:$c:$flag"
        grep -q -- "'\\*\\?--$flag\\[" script.zsh || missing="$missing zsh:$c:$flag"
        grep -q -- " -l $flag " script.fish || [ "$flag" = help ] || missing="$missing fish:$c:$flag"
    done
done
same 'each flag is in each script' '' "$missing"

if command -v fish >/dev/null; then
    ln -s "$QUOTH" quoth
    in_fish() { PATH=.:$PATH fish --no-config -c "source script.fish; complete -C '$1'" | cut -f1 | sort | tr '\n' ' '; }
    same 'fish, a command' 'serve ' "$(in_fish 'quoth ser')"
    same 'fish, a sub-command' 'kernels ' "$(in_fish 'quoth bench ker')"
    same 'fish, a flag' '--device ' "$(in_fish 'quoth serve --dev')"
    same 'fish, values' 'auto cpu none ' "$(in_fish 'quoth serve --device ')"
else
    echo 'skip completion: fish (no fish)'
fi
if command -v zsh >/dev/null; then
    same 'zsh, the script can be parsed' '' "$(zsh -f -n script.zsh 2>&1)"
else
    echo 'skip completion: zsh (no zsh)'
fi
"$QUOTH" completion csh >/dev/null 2>got
same 'an unknown shell' '2 quoth completion: SHELL: must be bash, zsh or fish, got csh' "$? $(cat got)"
