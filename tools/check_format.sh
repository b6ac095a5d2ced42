#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Are all C files formatted as clang-format 14 formats them?  With --fix: format them.
# Not the .cu files, whose kernel macro it takes for a function call.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=
for candidate in clang-format-14 clang-format; do
    if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
        tool=$candidate
        break
    fi
done
if [ -z "$tool" ]; then
    echo "skipped: clang-format 14 is missing (package clang-format-14); other versions format differently" >&2
    exit 77
fi

# Without git (a source archive), what lies in the rooms.
if ! files=$(git ls-files -co --exclude-standard '*.c' '*.h' 2>/dev/null); then
    files=$(find . -path ./build -prune -o \( -name '*.c' -o -name '*.h' \) -print)
fi
mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
# A deleted file stays in git's list until the deletion is staged.
existing=()
for file in $files; do
    [ -f "$file" ] && existing+=("$file")
done
"$tool" "${mode[@]}" "${existing[@]}"
echo "${#existing[@]} files"
