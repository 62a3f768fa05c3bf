# install.sh - sourced by the scripts at the root: what a build needs is there, or gets installed.
#
# need_packages       installs the missing ones of the lists below with apt-get (Debian, Ubuntu), saying which;
#                     asks nothing, and touches neither network nor package manager when all are there;
#                     goes on where only optional ones cannot be had
# build TARGET...     make, quietly: a line on stderr when there is something to do, make's output when it fails
# The caller has set root to the repository's path.
# shellcheck shell=sh disable=SC2154

tools='cc:gcc make:make pkg-config:pkg-config awk:mawk'
headers='stdio.h:libc6-dev'
modules='jansson:libjansson-dev libpcre2-8:libpcre2-dev libutf8proc:libutf8proc-dev libedit:libedit-dev
         libxxhash:libxxhash-dev libssl:libssl-dev'
optional='libcurl:libcurl4-openssl-dev' # without it quoth asks no servers; see Makefile

missing_packages()
{
    for t in $tools; do
        command -v "${t%%:*}" >/dev/null 2>&1 || echo "${t##*:}"
    done
    for h in $headers; do
        [ -e "/usr/include/${h%%:*}" ] || echo '#include <'"${h%%:*}"'>' | cc -E - >/dev/null 2>&1 || echo "${h##*:}"
    done
    missing_modules "$modules"
}

missing_modules()
{
    for m in $1; do
        pkg-config --exists "${m%%:*}" 2>/dev/null || echo "${m##*:}"
    done
}

need_packages()
{
    install_packages "$(missing_packages)" || return 1
    install_packages "$(missing_modules "$optional")" || echo "quoth: going on without" >&2
}

install_packages()
{
    packages=$(echo "$1" | tr '\n' ' ')
    packages=${packages% }
    [ -n "$packages" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "quoth: please install what Debian calls $packages; this is not a system with apt-get" >&2
        return 1
    fi
    sudo=
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "quoth: please install $packages as root; there is no sudo" >&2
            return 1
        fi
        sudo=sudo
        [ -t 0 ] || sudo='sudo -n'
    fi
    echo "quoth: installing $packages" >&2
    # a list of packages that is out of date or empty is the usual reason for a first failure
    install="$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages"
    $install </dev/null >/dev/null 2>&1 ||
        { $sudo apt-get update -qq </dev/null >&2 && $install </dev/null >&2; } ||
        { echo "quoth: could not install $packages" >&2; return 1; }
}

build()
{
    make -q -C "$root" ${WERROR:+WERROR=1} ${SAN:+SAN="$SAN"} "$@" >/dev/null 2>&1 && return 0
    echo "quoth: building $*${SAN:+ with $SAN sanitizer}" >&2
    log=$(mktemp) || return 1
    make -s -C "$root" -j"$(nproc)" ${WERROR:+WERROR=1} ${SAN:+SAN="$SAN"} "$@" >"$log" 2>&1
    made=$?
    [ $made = 0 ] || cat "$log" >&2
    rm -f "$log"
    return $made
}
