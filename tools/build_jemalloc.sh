#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Build jemalloc 5.3.0 for a library that may be opened at run time: with thread data that is found by a call.  Debian's
# own keeps it in the static TLS block, of which such a library finds too little.
#
#   tools/build_jemalloc.sh FOLDER [SOURCE]
#
# makes FOLDER/lib/libjemalloc_pic.a and FOLDER/include/jemalloc/jemalloc.h, unless they are there.  SOURCE is
# jemalloc-5.3.0.tar.bz2, or is loaded from the Debian mirror that apt uses, or else from Debian or from jemalloc's
# project; its SHA-256 is checked, wherever it comes from.  Needs make and bzip2, and takes half a minute of a core.
set -euo pipefail
sum=2db82d1e7119df3e71b7640219b6dfe84789bc0537983c3b7ac4f7189aecfeaa
in_debian=pool/main/j/jemalloc/jemalloc_5.3.0.orig.tar.bz2
on_github=https://github.com/jemalloc/jemalloc/releases/download/5.3.0/jemalloc-5.3.0.tar.bz2

# is_right FILE: is it the source?
is_right() {
    [ -f "$1" ] && [ "$(sha256sum <"$1")" = "$sum  -" ]
}

# load URL FILE
load() {
    if [ -x /usr/lib/apt/apt-helper ]; then
        # It writes as a user of its own, if it may; so into a folder that this user may enter.
        /usr/lib/apt/apt-helper -q -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o Acquire::Retries=1 \
            download-file "$1" "$2" "SHA256:$sum" 2>/dev/null || true
    fi
    if ! is_right "$2" && command -v curl >/dev/null; then
        curl -fsSL --connect-timeout 20 --max-time 120 -o "$2" "$1" 2>/dev/null || true
    fi
    if ! is_right "$2" && command -v wget >/dev/null; then
        wget -q -T 20 -t 1 -O "$2" "$1" || true
    fi
    is_right "$2"
}

# Where Debian's sources may be, the mirror that apt uses first.
mirrors() {
    {
        apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | sort -u || true
        echo http://deb.debian.org/debian/
    } | awk '!seen[$0]++ && /^http/'
}

# fetch FILE
fetch() {
    local url
    if [ -n "$(find "$folder" -name unreachable -mmin -60)" ]; then
        echo "jemalloc-5.3.0.tar.bz2 could not be loaded within the last hour: remove $folder/unreachable to try again" >&2
        return 1
    fi
    while read -r url; do
        load "${url%/}/$in_debian" "$1" && return
    done < <(mirrors)
    load "$on_github" "$1" && return
    touch "$folder/unreachable" # other presets need not wait for the same
    echo "jemalloc-5.3.0.tar.bz2 could not be loaded from a Debian mirror or $on_github" >&2
    return 1
}

is_built() {
    [ -f "$folder/lib/libjemalloc_pic.a" ] && [ -f "$folder/include/jemalloc/jemalloc.h" ]
}

build() {
    for tool in make bzip2 "${CC:=cc}"; do
        command -v "$tool" >/dev/null || { echo "$tool is missing" >&2 && return 1; }
    done
    if [ -n "$source" ]; then
        is_right "$source" || { echo "$source is not jemalloc-5.3.0.tar.bz2, by its SHA-256" >&2 && return 1; }
    else
        source=$work/source.tar.bz2
        fetch "$source" || return 1
    fi
    tar -xjf "$source" -C "$work" && cd "$work/jemalloc-5.3.0" || return 1
    # Pages as on any x86-64, whatever machine builds; what is not used is left out.
    local page=12
    [ "$(uname -m)" = x86_64 ] || page=16
    CC=$CC ./configure --disable-cxx --disable-doc --disable-shared --disable-prof --disable-initial-exec-tls \
        --with-lg-page=$page --with-lg-hugepage=21 --with-version=5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c &&
        # The first reads symbols only, so it is compiled without optimisation.
        make EXTRA_CFLAGS="-g0 -O0" include/jemalloc/internal/private_namespace.gen.h &&
        make -j "$(nproc)" EXTRA_CFLAGS=-g0 lib/libjemalloc_pic.a || return 1
    mkdir -p "$folder/include/jemalloc" "$folder/lib"
    cp include/jemalloc/jemalloc.h "$folder/include/jemalloc/"
    cp lib/libjemalloc_pic.a "$folder/lib/new.a" && mv "$folder/lib/new.a" "$folder/lib/libjemalloc_pic.a"
}

[ $# -ge 1 ] || { sed -n '3,/^set /s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
source=${2:-}
exec 9>"$folder/lock" # builds of several presets may come at once
flock 9
if is_built; then
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
if ! build >"$folder/log" 2>&1; then
    tail -n 1 "$folder/log" >&2
    exit 1
fi
