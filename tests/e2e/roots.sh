#!/bin/sh
# Goal: in a bare root of Debian 12 and of Debian 13, the packages can be installed, serve, be
# upgraded with a changed configuration, and be purged without a rest. lintian finds no error.
# Method: debootstrap makes the roots from the mirror of this machine. The packages of another release
# than this machine's are built in a second root, because they depend on other libraries. QUOTH_LONG=1
# runs it, as root. QUOTH_ROOTS is a folder that keeps the roots between runs.
case $QUOTH in
*-*/quoth) echo 'skip roots (a build with sanitizers)'; exit ;;
esac
[ -n "$QUOTH_LONG" ] || { echo 'skip roots of Debian (QUOTH_LONG=1 runs it)'; exit; }
for tool in debootstrap dpkg-deb chroot curl; do
    command -v $tool >/dev/null || { echo "skip roots (no $tool)"; exit; }
done
[ "$(id -u)" = 0 ] || { echo 'skip roots (not root)'; exit; }
mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep /debian/ | head -n 1)
out=$(mktemp -d) || exit 1
roots=${QUOTH_ROOTS:-$out}
releases='bookworm trixie'
own=$(. /etc/os-release && echo "$VERSION_CODENAME")
server=''
end()
{
    [ -z "$server" ] || kill "$server" 2>/dev/null
    for release in $releases; do umount "$roots/$release/proc" 2>/dev/null; done
    rm -rf "$out"
}
trap end EXIT

# check NAME COMMAND...: ok if the command succeeds
check()
{
    name=$1
    shift
    if "$@" >"$out/got" 2>&1; then
        echo "ok   $release: $name"
    else
        echo "FAIL $release: $name: $(tail -c 400 "$out/got")"
    fi
}

in_root() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }

# Run the installed program as another user, and send a request.
serves()
{
    env -i PATH=/usr/sbin:/usr/bin HOME=/tmp chroot --userspec=65534:65534 "$root" quoth serve --port 18213 >"$out/log" 2>&1 &
    server=$!
    n=0
    until curl -sf -o "$out/health" http://127.0.0.1:18213/health || [ $n -gt 300 ]; do sleep 0.1; n=$((n + 1)); done
    curl -sf http://127.0.0.1:18213/v1/chat/completions -H 'Content-Type: application/json' \
        -d '{"messages":[{"role":"user","content":"What is 2 + 3?"}],"temperature":0,"max_tokens":8}' | grep 5
    status=$?
    kill "$server"
    wait "$server"
    server=''
    [ $status = 0 ] || tail -n 3 "$out/log"
    return $status
}

# Make the packages of a release in $out/deb.
packages()
{
    if [ "$release" = "$own" ]; then
        make -s -C "$QUOTH_ROOT" lib deb DEB="$out/deb"
    else
        DEB_ROOT=$roots/$release-build DEBIAN_MIRROR=$mirror make -s -C "$QUOTH_ROOT" deb RELEASE="$release" DEB="$out/deb"
    fi
}

four() { [ "$(find "$out/deb" -name '*.deb' | wc -l)" = 4 ]; }

# Make packages of a later version.
later()
{
    mkdir -p "$out/later"
    for d in "$out"/deb/*.deb; do
        rm -rf "$out/parts" && dpkg-deb -R "$d" "$out/parts" &&
            sed -i "s/^Version: .*/&+later/; s/(= \([0-9.]*\))/(= \1+later)/" "$out/parts/DEBIAN/control" &&
            dpkg-deb --root-owner-group -b "$out/parts" "$out/later/$(basename "$d")" || return 1
    done
}

# Return true if no file of the packages is left.
is_gone() { ! find "$root" -xdev -path "$root/proc" -prune -o -name '*quoth*' -print | grep . ; }

changed() { in_root grep -q '^# changed' /etc/quoth/serve.conf; }

for release in $releases; do
    root=$roots/$release
    if [ ! -e "$root/usr/bin/apt-get" ]; then
        debootstrap --variant=minbase "$release" "$root" "$mirror" >"$out/log" 2>&1 ||
            { echo "skip $release (debootstrap: $(tail -n 1 "$out/log"))"; continue; }
    fi
    rm -rf "$out/deb" "$out/later"
    check 'the packages are built' packages
    check 'there are four packages' four
    if command -v lintian >/dev/null; then check 'lintian finds no error' lintian --allow-root --fail-on error "$out"/deb/*.deb; fi
    check 'packages of a later version' later
    mount -t proc proc "$root/proc" 2>/dev/null
    in_root apt-get update -qq >/dev/null 2>&1
    rm -rf "$root/tmp/deb" "$root/tmp/later"
    cp -r "$out/deb" "$out/later" "$root/tmp/"
    check 'the packages are installed' in_root sh -c 'apt-get install -y -qq --no-install-recommends /tmp/deb/*.deb'
    check 'the server answers' serves
    check 'the Python package finds the library' in_root python3 -c 'from quoth import _lib'
    in_root sh -c 'echo "# changed" >>/etc/quoth/serve.conf'
    check 'the packages are upgraded' in_root sh -c 'apt-get install -y -qq --no-install-recommends /tmp/later/*.deb'
    check 'a changed configuration stays' changed
    check 'the later version is installed' in_root sh -c 'dpkg-query -W quoth | grep -q later'
    check 'the server answers after the upgrade' serves
    rm -rf "$root/tmp/deb" "$root/tmp/later"
    check 'the packages are purged' in_root apt-get purge -y -qq quoth libquoth0 libquoth-dev python3-quoth
    check 'nothing is left' is_gone
    umount "$root/proc" 2>/dev/null
done
exit 0
