#!/bin/sh
# SPDX-License-Identifier: MIT
# refused.sh <C++ compiler> <refused.cpp> <include folders, with ; between them>: which launches of typed kernels
# compile, and why the others do not.
set -eu
compiler=$1 file=$2
set -- $(echo "$3" | tr ';' '\n' | sed '/^$/d; s/^/-I/')

number() { sed -n "/CASE == $1\$/,/#e/s/.*\\/\\/ another \\([a-z]*\\)\$/\\1/p" "$file"; }
for case in 0 1 2 3 4 5 6 7 8 9 10; do
    why=$(number $case)
    if said=$("$compiler" -std=c++17 -fsyntax-only "$@" -DCASE=$case "$file" 2>&1); then
        [ -z "$why" ] || { echo "case $case compiles: another $why"; exit 1; }
    elif [ -z "$why" ]; then
        echo "case $case does not compile: $said"
        exit 1
    else
        echo "$said" | grep -q "another $why" || { echo "case $case is not told why: $said"; exit 1; }
    fi
done
