#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The macros of <gantry/profile_kernel.h> by each compiler: switched off they leave no trace in the machine code;
# on, they are there, and read the clock that they should.
#
# usage: macros.sh INCLUDE_DIR CXX
set -euo pipefail
include=$1 cxx=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/with.cu" <<'CU'
#include <gantry/profile_kernel.h>
GANTRY_KERNEL(scale, (float *data, uint32_t count, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    GANTRY_KERNEL_RANGES(ranges, profile, 0);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    GANTRY_KERNEL_RANGE_BEGIN(ranges, 1);
    if (i < count) {
        GANTRY_KERNEL_RANGE(ranges, 2);
        data[i] *= 2;
    }
    GANTRY_KERNEL_RANGE_END(ranges, 1);
    GANTRY_KERNEL_STOP(profile, id);
}
#ifdef GANTRY_HOST_MODULE
GANTRY_HOST_MODULE(scale_module)
extern const void *const keep;
const void *const keep = &gantry_host_module_scale_module;
#endif
CU
grep -vE 'GANTRY_KERNEL_(ST|RANGE)' "$folder/with.cu" > "$folder/without.cu"

ran=
compare() { # name, what of the file matters, command...
    local name=$1 filter=$2
    shift 2
    "$@" -DGANTRY_CTA_PROFILING=0 -o "$folder/off" "$folder/with.cu"
    "$@" -DGANTRY_CTA_PROFILING=0 -o "$folder/none" "$folder/without.cu"
    "$@" -o "$folder/on" "$folder/with.cu"
    for form in off none on; do
        "$filter" "$folder/$form" > "$folder/$form.text"
    done
    cmp "$folder/off.text" "$folder/none.text"
    if cmp -s "$folder/on.text" "$folder/none.text"; then
        echo "$name: the macros do nothing when they are on"
        exit 1
    fi
    if [ "$name" != host ] && [ "$filter" != cat ]; then
        [ "$(grep -ci 'globaltimer' "$folder/on.text")" -ge 2 ]
        [ "$(grep -ci 'globaltimer' "$folder/off.text")" = 0 ]
    fi
    ran="$ran $name"
}
text() { grep -vE '^(//|\s*\.(file|loc|ident)|# )|with\.cu|without\.cu' "$1"; }
sass() { cuobjdump -sass "$1" | sed -n '/Function/,$p'; }

compare host text "$cxx" -std=c++17 -O2 -S -x c++ -w -I "$include"
for clang in clang++ clang++-14; do
    if command -v "$clang" > /dev/null; then
        compare "$clang" text "$clang" -x cuda --cuda-gpu-arch=sm_80 --cuda-device-only -nocudainc -nocudalib \
            -Xclang -target-feature -Xclang +ptx70 -Wno-unknown-cuda-version -std=c++17 -O3 -S -w -I "$include"
        break
    fi
done
PATH=$PATH:/usr/local/cuda/bin
if command -v nvcc > /dev/null && command -v cuobjdump > /dev/null; then
    compare nvcc sass nvcc -cubin -arch=sm_90 -std=c++17 -O3 -ccbin "$cxx" -allow-unsupported-compiler -w -I "$include"
elif command -v nvcc > /dev/null; then
    compare nvcc cat nvcc -cubin -arch=sm_90 -std=c++17 -O3 -ccbin "$cxx" -allow-unsupported-compiler -w -I "$include"
fi

# From sm_90 on blocks read the common clock without asking which one it is to be, unless they are told to.
if command -v nvcc > /dev/null; then
    clocks() { # how often the SM's clock is read, by kernels for an architecture, with options
        nvcc -ptx -arch="$1" -std=c++17 -O3 -ccbin "$cxx" -allow-unsupported-compiler -w -I "$include" "${@:2}" \
            -o "$folder/clock.ptx" "$folder/with.cu"
        grep -c 'clock64' "$folder/clock.ptx" || true
    }
    [ "$(clocks sm_80)" = 6 ] # of the block and of two ranges
    [ "$(clocks sm_90)" = 0 ]
    [ "$(clocks sm_90 -DGANTRY_CTA_SM_CLOCK=1)" = 6 ]
    ran="$ran clocks"
fi
echo "compared:$ran"
