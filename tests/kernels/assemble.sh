#!/bin/sh
# SPDX-License-Identifier: MIT
# assemble.sh clang|nvcc <source root> <file.cu>: compile a kernel file for devices; clang's PTX must also
# pass the assembler.  Exit 77: a tool is missing.
set -eu
compiler=$1 root=$2 file=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

skip() {
    echo "skipped: $1" >&2 # stdout may be captured
    exit 77
}
find_tool() {
    command -v "$1" || command -v "/usr/local/cuda/bin/$1" || skip "no $1"
}

case $compiler in
clang)
    clang=$(find_tool clang++)
    "$clang" --print-targets | grep -q nvptx64 || skip "$clang cannot make PTX"
    "$clang" -x cuda --cuda-gpu-arch=sm_80 --cuda-device-only -nocudainc -nocudalib \
        -Xclang -target-feature -Xclang +ptx70 -Wno-unknown-cuda-version \
        -std=c++17 -O3 -Wall -Wextra -Werror -S -I "$root" -I "$root/include" -o "$folder/out.ptx" "$file"
    ptxas=$(find_tool ptxas)
    for architecture in sm_80 sm_90; do
        "$ptxas" -arch=$architecture -o "$folder/out.cubin" "$folder/out.ptx"
    done
    for kernel in $(sed -n 's/^GANTRY_KERNEL[A-Z_]*(\([a-z0-9_]*\),.*/\1/p' "$file"); do
        grep -q "\.entry $kernel(" "$folder/out.ptx" || { echo "no kernel $kernel in the PTX"; exit 1; }
    done
    ;;
nvcc)
    nvcc=$(find_tool nvcc)
    for architecture in sm_90 sm_100 sm_120; do
        "$nvcc" --list-gpu-code | grep -q "^$architecture\$" || continue
        "$nvcc" -cubin -keep -keep-dir "$folder" -arch=$architecture -std=c++17 -O3 -I "$root" -I "$root/include" \
            -o "$folder/out.cubin" "$file"
        # Where blocks steal, they do it for clusters, too: the one that asks tells the others.
        if [ $architecture != sm_90 ] && grep -q '^ *GANTRY_STEAL' "$file"; then
            for part in clusterlaunchcontrol.try_cancel mapa.shared::cluster st.shared::cluster barrier.cluster \
                cluster_ctaid; do
                grep -q "$part" "$folder"/*.ptx || { echo "no $part for $architecture"; exit 1; }
            done
        fi
        rm -f "$folder"/*.ptx
    done
    ;;
esac
