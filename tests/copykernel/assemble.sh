#!/bin/sh
# SPDX-License-Identifier: MIT
# assemble.sh <source root>: the copy kernel for every architecture it has code of its own for, assembled by
# nvcc.  From sm_100 on it must ask for blocks to take over, before that it must not.  Exit 77: no nvcc, or
# none of the architectures.
set -eu
root=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc || true)
if [ -z "$nvcc" ]; then
    echo "skipped: no nvcc" >&2
    exit 77
fi
known=$("$nvcc" --list-gpu-code)
done=0
for number in 80 90 100 120; do
    case $known in
    *sm_$number*) ;;
    *) continue ;;
    esac
    "$nvcc" -std=c++17 -O3 "-arch=sm_$number" -I "$root" -I "$root/include" --keep --keep-dir "$folder" \
        -cubin -o "$folder/out.cubin" "$root/copykernel/copy_kernels.cu"
    mv "$folder/copy_kernels.ptx" "$folder/out.ptx" # what it was assembled from
    if [ "$number" -ge 100 ]; then
        for part in clusterlaunchcontrol.try_cancel clusterlaunchcontrol.query_cancel mapa.shared::cluster \
            st.shared::cluster barrier.cluster cluster_ctaid; do # clusters steal clusters
            grep -q "$part" "$folder/out.ptx" || { echo "no $part for sm_$number"; exit 1; }
        done
    elif grep "clusterlaunchcontrol" "$folder/out.ptx"; then
        echo "sm_$number has no such instruction" >&2
        exit 1
    fi
    done=$((done + 1))
done
if [ "$done" -eq 0 ]; then
    echo "skipped: $nvcc knows none of the architectures" >&2
    exit 77
fi
