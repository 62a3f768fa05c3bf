#!/bin/sh
# Goal: the program and the library are built with the hardening that Linux distributions use.
# Method: search the output of readelf and objdump.
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
library=$(dirname "$QUOTH")/libquoth.so
case $QUOTH in
*build-*) echo "skip hardened (sanitizers replace part of it)"; exit 0 ;;
esac
command -v readelf >/dev/null && command -v objdump >/dev/null || { echo "skip hardened (no binutils)"; exit 0; }

# expect NAME PATTERN FILE: a line of FILE matches.
expect()
{
    if grep -qE "$2" "$3"; then
        echo "ok   hardened $1"
    else
        echo "FAIL hardened $1: no line matches $2"
    fi
}

for file in "$QUOTH" "$library"; do
    name=$(basename "$file")
    readelf -W -h -l -d -n --dyn-syms "$file" >"$out/elf" 2>/dev/null
    expect "$name: position-independent" '^ *Type: *DYN' "$out/elf"
    expect "$name: read-only relocations" 'GNU_RELRO' "$out/elf"
    expect "$name: immediate binding" 'BIND_NOW|FLAGS_1.*NOW' "$out/elf"
    expect "$name: no executable stack" 'GNU_STACK.* RW ' "$out/elf"
    expect "$name: stack protector" '__stack_chk_fail' "$out/elf"
    expect "$name: FORTIFY_SOURCE" '__(memcpy|memmove|memset|snprintf|vsnprintf|fprintf|printf)_chk' "$out/elf"
    [ "$(uname -m)" = x86_64 ] || continue
    expect "$name: control-flow protection" 'x86 feature: .*IBT, SHSTK' "$out/elf"
    objdump -d --no-show-raw-insn "$file" >"$out/code" 2>/dev/null
    expect "$name: stack clash protection" 'or[ql]* +\$0x0,(0x[0-9a-f]+)?\(%rsp\)' "$out/code" # probes of large frames
done
