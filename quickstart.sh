#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Build Gantry and run its main sample on real pictures.  Debian 12, Ubuntu 24.04 or newer; needs no GPU and
# no CUDA toolkit: without a device the emulated driver runs the same code.
#
#   ./quickstart.sh            results in out/
#
# Installs what is missing with apt-get (root, or a user with sudo); nothing when everything is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
if [ $# -gt 0 ]; then
    sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]##*/}" >&2
    exit 2
fi
source tools/packages.sh
source tools/progress.sh

require cmake ninja-build gcc g++ pkg-config libpng-dev
want libjemalloc-dev make bzip2 libcjson-dev libhwloc-dev
# On a machine with a device, kernels are compiled by nvcc or else by clang.
if [ -e /dev/nvidiactl ] && ! command -v nvcc >/dev/null; then
    want clang
fi

echo "building build/release (some minutes) ..."
log=build/quickstart.log
mkdir -p build
if ! { cmake --preset release -DGANTRY_BUILD_TESTS=OFF >"$log" 2>&1 </dev/null &&
    cmake --build --preset release 2>&1 </dev/null | tee -a "$log" | show_progress; }; then
    tail -n 60 "$log" >&2
    echo "the build failed; the whole log is in $log" >&2
    exit 1
fi

build/release/gantry run image_pipeline --output out </dev/null
echo
echo "Pictures and timeline.pftrace are in $PWD/out (open the timeline with https://ui.perfetto.dev)."
echo "More: build/release/gantry help"
