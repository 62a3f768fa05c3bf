#!/bin/sh
# library.sh - goal: libquoth can be installed and linked, shared and static, from C and C++.
# libquoth exports only the names of quoth.h, and its answers equal those of the program. Method:
# make install into a folder, then compare examples/generate.c with `quoth run`.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
build=$(basename "$(dirname "$QUOTH")")
model=$QUOTH_ROOT/models/quoth-tiny/quoth-tiny-q8_0.gguf
check()
{
    if eval "$2"; then echo "ok   $1"; else echo "FAIL $1"; [ ! -s "$dir/err" ] || head -c 600 "$dir/err"; fi
}
[ "$build" = build ] || { echo "skip library.sh (a build with sanitizers)"; exit 0; }

make -s -C "$QUOTH_ROOT" install PREFIX="$dir/usr" >"$dir/err" 2>&1
check 'installs' '[ -f "$dir/usr/include/quoth.h" ] && [ -L "$dir/usr/lib/libquoth.so" ] && [ -f "$dir/usr/lib/libquoth.a" ]'
names() { nm "$@" | awk 'NF == 3 { print $3 }' | grep -vE '^quoth_[a-z_]+$' >"$dir/err"; [ ! -s "$dir/err" ]; }
check 'the shared library shows quoth_ names alone' 'names -D --defined-only "$dir/usr/lib/libquoth.so"'
check 'so does the static one' 'names -g --defined-only "$dir/usr/lib/libquoth.a"'
sed -n 's/^QUOTH_API .*[ *]\(quoth_[a-z_]*\)(.*/\1/p' "$QUOTH_ROOT/include/quoth.h" | sort >"$dir/declared"
nm -D --defined-only "$dir/usr/lib/libquoth.so" | awk '{ print $3 }' | sort >"$dir/defined"
check 'every name of the header is there' 'cmp -s "$dir/declared" "$dir/defined"'

export PKG_CONFIG_PATH="$dir/usr/lib/pkgconfig" LD_LIBRARY_PATH="$dir/usr/lib"
example=$QUOTH_ROOT/examples/generate.c
prompt='Once upon a time, there'
"$QUOTH" run "$model" "$prompt" --raw --temperature 0 --max-tokens 32 >"$dir/want" 2>"$dir/err"
# run NAME: the output of the example built as $dir/NAME equals that of quoth run
says() { "$dir/$1" "$model" "$prompt" 2>"$dir/err" | sed '/^\[length, 32 tokens\]$/d' >"$dir/got"
         printf '\n' | cat "$dir/want" - | cmp -s - "$dir/got"; }
# shellcheck disable=SC2046
cc -std=c99 -pedantic -Wall -Wextra -Werror "$example" $(pkg-config --cflags --libs quoth) -o "$dir/c" 2>"$dir/err"
check 'a C program with the shared library' 'says c'
# shellcheck disable=SC2046
cc "$example" $(pkg-config --cflags quoth) "$dir/usr/lib/libquoth.a" $(pkg-config --static --libs quoth | sed 's/-lquoth//') \
    -o "$dir/static" 2>"$dir/err"
check 'and with the static one' 'says static'
if command -v g++ >/dev/null; then
    # shellcheck disable=SC2046
    g++ -x c++ -std=c++11 -Wall -Wextra -Werror -Wno-missing-field-initializers "$example" $(pkg-config --cflags --libs quoth) \
        -o "$dir/cpp" 2>"$dir/err"
    check 'a C++ program' 'says cpp'
else
    echo 'skip a C++ program (no g++)'
fi
"$dir/c" "$dir/nothing.gguf" x >"$dir/out" 2>"$dir/err"
check 'an error is one sentence, printed by the program alone' \
    '[ $? = 1 ] && [ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/err")" = 1 ] && grep -q nothing.gguf "$dir/err"'
