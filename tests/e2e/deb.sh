#!/bin/sh
# Goal: the packages of make deb have all files, and their program runs. Method: unpack the
# packages, and run lintian if it is installed.
case $QUOTH in
*-*/quoth) echo 'skip deb (a build with sanitizers)'; exit ;;
esac
for tool in dpkg-deb dpkg-shlibdeps; do
    command -v $tool >/dev/null || { echo "skip deb (no $tool; install dpkg-dev)"; exit; }
done
[ "$(id -u)" = 0 ] || command -v fakeroot >/dev/null || { echo 'skip deb (no fakeroot)'; exit; }
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# check NAME COMMAND...: ok if the command succeeds
check()
{
    name=$1
    shift
    if "$@" >"$out/got" 2>&1; then echo "ok   deb: $name"; else echo "FAIL deb: $name: $(tail -c 300 "$out/got")"; fi
}

export DEBFULLNAME=Test DEBEMAIL=test@debian.org
check 'four packages' make -s -C "$QUOTH_ROOT" lib deb DEB="$out/deb"
for p in quoth libquoth0 libquoth-dev python3-quoth; do
    check "$p can be unpacked" dpkg-deb -x "$out"/deb/${p}_*.deb "$out/root"
    check "$p has sums" sh -c "dpkg-deb -I $out/deb/${p}_*.deb md5sums | grep -q usr/share/doc/$p/copyright"
done
multi=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
for f in usr/bin/quoth usr/lib/systemd/system/quoth.service etc/quoth/serve.conf usr/share/man/man1/quoth.1.gz \
    usr/share/bash-completion/completions/quoth usr/include/quoth.h "usr/lib/$multi/libquoth.so.0" "usr/lib/$multi/libquoth.a" \
    "usr/lib/$multi/pkgconfig/quoth.pc" usr/lib/python3/dist-packages/quoth/__init__.py; do
    [ -e "$out/root/$f" ] || echo "FAIL deb: $f is missing"
done
check 'the service runs the installed program' grep -q '^ExecStart=/usr/bin/quoth ' "$out/root/usr/lib/systemd/system/quoth.service"
check 'the bundled model answers' sh -c "$out/root/usr/bin/quoth run 'What is 2 + 3?' --temperature 0 --max-tokens 8 | grep -q 5"
check 'the Python package finds the library' env LD_LIBRARY_PATH="$out/root/usr/lib/$multi" \
    PYTHONPATH="$out/root/usr/lib/python3/dist-packages" python3 -c 'from quoth import _lib'
if command -v lintian >/dev/null; then
    for d in "$out"/deb/*.deb; do check "lintian, ${d##*/}" lintian --fail-on error "$d"; done
else
    echo 'skip deb: lintian (not installed)'
fi
