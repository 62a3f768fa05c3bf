# install.sh - functions for the scripts at the root: install the packages of a build.
#
#   need_packages    installs the missing packages of the lists below with apt-get (Debian, Ubuntu) and
#                    prints their names. Uses neither network nor package manager if none is missing.
#                    Continues if only optional ones are not available.
#   need_archives    installs the further archives of `make static`.
#   package_names L  prints the packages of a list: scripts/deb and scripts/image install them in a
#                    root.
#   need_formatter   installs the clang-format of scripts/format, which `make check` uses. Continues
#                    without it.
#   need_browser     installs Chromium for the tests of the web page. Continues without it.
#   build TARGET...  runs make quietly: a line on stderr if there is something to do, a counter on a
#                    terminal, make's output if it fails.
# The caller must set root to the repository's path. shellcheck shell=sh disable=SC2154

tools='cc:gcc make:make pkg-config:pkg-config awk:mawk'
headers='stdio.h:libc6-dev'
modules='jansson:libjansson-dev libpcre2-8:libpcre2-dev libutf8proc:libutf8proc-dev libedit:libedit-dev
         libxxhash:libxxhash-dev libssl:libssl-dev sqlite3:libsqlite3-dev'
# without libcurl, quoth sends no requests to servers; see Makefile
optional='libcurl:libcurl4-openssl-dev'
# the archive of sqlite needs this one, so the static program does (make static)
archives='zlib:zlib1g-dev'

# Print the packages of a list above.
package_names()
{
    for one in $1; do echo "${one##*:}"; done
}

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
    install_packages "$(missing_modules "$optional")" || echo "quoth: continuing without these packages" >&2
}

need_archives()
{
    install_packages "$(missing_modules "$archives")"
}

need_formatter()
{
    "$root/scripts/format" --install >/dev/null 2>&1 || echo "quoth: continuing without clang-format" >&2
}

need_browser()
{
    command -v chromium >/dev/null || command -v google-chrome >/dev/null || install_packages chromium ||
        echo "quoth: continuing without Chromium" >&2
}

# apt-get itself waits for dpkg's lock, but not for the lock of the package lists.
update_lists()
{
    why=$(mktemp) || return 1
    tries=24
    until $sudo apt-get update -qq </dev/null >"$why" 2>&1; do
        tries=$((tries - 1))
        if [ $tries = 0 ] || ! grep -q '/lists/lock' "$why"; then
            cat "$why" >&2
            rm -f "$why"
            return 1
        fi
        sleep 5
    done
    rm -f "$why"
}

install_packages()
{
    packages=$(echo "$1" | tr '\n' ' ')
    packages=${packages% }
    [ -n "$packages" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "quoth: this system has no apt-get; please install the equivalents of Debian's packages $packages" >&2
        return 1
    fi
    sudo=
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "quoth: sudo not found; please install $packages as root" >&2
            return 1
        fi
        sudo=sudo
        [ -t 0 ] || sudo='sudo -n'
    fi
    echo "quoth: installing $packages" >&2
    wait='-o DPkg::Lock::Timeout=120' # maximum wait for another apt
    # a list of packages that is out of date or empty is the usual reason for a first failure
    install="$sudo env DEBIAN_FRONTEND=noninteractive apt-get $wait install -y -qq --no-install-recommends $packages"
    $install </dev/null >/dev/null 2>&1 ||
        { update_lists && $install </dev/null >&2; } ||
        { echo "quoth: cannot install $packages" >&2; return 1; }
}

# Count up to $2 objects that are newer than file $3, until make (process $1) ends.
count_made()
{
    while kill -0 "$1" 2>/dev/null; do
        made=$(find "$root"/build* -name '*.o' -newer "$3" 2>/dev/null | wc -l)
        [ "$made" -le "$2" ] || made=$2
        printf '\rquoth: building %d/%d' "$made" "$2" >&2
        sleep 1
    done
    printf '\r\033[K' >&2
}

build()
{
    make -q -C "$root" ${WERROR:+WERROR=1} ${SAN:+SAN="$SAN"} "$@" >/dev/null 2>&1 && return 0
    echo "quoth: building $*${SAN:+ with $SAN sanitizer}" >&2
    log=$(mktemp) || return 1
    set -- -C "$root" ${WERROR:+WERROR=1} ${SAN:+SAN="$SAN"} "$@"
    objects=0
    [ ! -t 2 ] || objects=$(make -n "$@" 2>/dev/null | grep -oE ' -o [^ ]*\.o( |$)' | sort -u | wc -l)
    make -s -j"$(nproc)" "$@" >"$log.out" 2>&1 &
    maker=$!
    [ "$objects" = 0 ] || count_made "$maker" "$objects" "$log"
    wait "$maker"
    made=$?
    [ $made = 0 ] || cat "$log.out" >&2
    rm -f "$log" "$log.out"
    return $made
}
