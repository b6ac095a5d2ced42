# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by quickstart.sh and check.sh: what must be installed, and installing it.
# Debian and Ubuntu package names; nothing is done when everything is there.

# have PACKAGE: is what we need of it there already, however it was installed?
have() {
    case $1 in
        cmake) command -v cmake >/dev/null && cmake_is_new_enough ;;
        ninja-build) command -v ninja >/dev/null ;;
        gcc) command -v cc >/dev/null && compiles c ;;
        g++) command -v c++ >/dev/null && compiles c++ ;;
        pkg-config) command -v pkg-config >/dev/null ;;
        libpng-dev) has_header png.h ;;
        libjemalloc-dev) has_header jemalloc/jemalloc.h ;;
        libcmocka-dev) has_header cmocka.h ;;
        libhwloc-dev) has_header hwloc.h ;;
        libcjson-dev) has_header cjson/cJSON.h ;;
        libvulkan-dev) has_header vulkan/vulkan.h ;;
        mesa-vulkan-drivers) ls /usr/share/vulkan/icd.d/*.json >/dev/null 2>&1 ;;
        libglfw3-dev) has_header GLFW/glfw3.h ;;
        xvfb) command -v Xvfb >/dev/null ;;
        protobuf-compiler) command -v protoc >/dev/null ;;
        spin) command -v spin >/dev/null ;;
        abigail-tools) command -v abidiff >/dev/null ;;
        chromium) has_browser ;;
        mpich) command -v mpiexec.mpich >/dev/null ;;
        libmpich-dev) command -v mpicc.mpich >/dev/null ;;
        python3-pip) python3 -m pip --version >/dev/null 2>&1 ;;
        dpkg-dev) command -v dpkg-shlibdeps >/dev/null ;;
        python3-sphinx | python3-myst-parser | furo) site_lacks_not "$1" ;;
        doxygen | python3 | clang | clang-format-14 | file | make | bzip2) command -v "$1" >/dev/null ;;
        *)
            echo "packages.sh: no test for package $1" >&2
            return 1
            ;;
    esac
}

cmake_is_new_enough() {
    local version
    version=$(cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
    [ "$(printf '%s\n3.25\n' "$version" | sort -V | head -n 1)" = 3.25 ]
}

# A compiler without the C library's headers is no compiler.
compiles() {
    local compiler=cc
    [ "$1" = c++ ] && compiler=c++
    echo '#include <stdlib.h>' | "$compiler" -x "$1" -fsyntax-only - >/dev/null 2>&1
}

# site_lacks_not PACKAGE: some Python has what the site's pages are made with.
site_lacks_not() {
    local lacking
    lacking=$(python3 "$(dirname "${BASH_SOURCE[0]}")/site/site_pages.py" --missing) &&
        ! grep -qxF "$1" <<<"$lacking"
}

# One of those that tests/page/browser.py takes.
has_browser() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

# has_header FILE: in the system or under a prefix of CMAKE_PREFIX_PATH, where CMake looks too.
has_header() {
    local prefix prefixes
    IFS=: read -r -a prefixes <<<"${CMAKE_PREFIX_PATH:-}"
    for prefix in "${prefixes[@]}"; do
        [ -e "$prefix/include/$1" ] && return 0
    done
    have gcc && printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$1" |
        cc -fsyntax-only -x c - >/dev/null 2>&1
}

# missing PACKAGE...: those that are not there, on one line.
missing() {
    local package names=()
    for package in "$@"; do
        have "$package" || names+=("$package")
    done
    echo "${names[*]}"
}

# as_root COMMAND...: fails when we may not.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif ! command -v sudo >/dev/null; then
        return 1
    elif sudo -n true 2>/dev/null || [ ! -t 0 ]; then
        sudo -n "$@"
    else
        sudo "$@" # may ask for the password
    fi
}

# install_packages PACKAGE...: install them; the output is shown only when something goes wrong.
install_packages() {
    command -v apt-get >/dev/null || return 1
    local log
    log=$(mktemp)
    echo "installing: $*"
    if ! as_root env DEBIAN_FRONTEND=noninteractive sh -c '
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends "$@"' sh "$@" >"$log" 2>&1 </dev/null; then
        tail -n 5 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# require PACKAGE...: have them all, or say exactly what to do and fail.
require() {
    local names
    names=$(missing "$@")
    [ -n "$names" ] || return 0
    # shellcheck disable=SC2086 # a list of names
    install_packages $names || true
    names=$(missing "$@")
    [ -n "$names" ] || return 0
    cat >&2 <<EOF
missing, and could not be installed: $names
Install them and run this again:
    sudo apt-get update && sudo apt-get install $names
(CMake must be 3.25 or newer.)
EOF
    return 1
}

# want PACKAGE...: have them if possible; prints a note about those that stay missing.
want() {
    local package
    for package in "$@"; do
        have "$package" || install_packages "$package" || true
        have "$package" || echo "note: $package is missing; going on without it"
    done
}
